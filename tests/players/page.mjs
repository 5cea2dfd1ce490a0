// The page in a real browser, against the real server: `make test-page`. Needs Chromium and ffmpeg.
//
// ISOCAST_BIN names the server's program, CHROMIUM the browser, SCREENSHOTS a folder for pictures of what was seen.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { DESKTOP, ffmpeg as ffmpegIn, launch, PageServer, until as untilOn } from "./page_harness.mjs";

const folder = mkdtempSync(join(tmpdir(), "isocast-page-"));
const media = join(folder, "media");
const config = join(folder, "isocast.toml");
const LONG = "Nordlichter-Wanderung_2026-11-22_Kamera-03_Aufzeichnung.mit.langem.Namen.ts";
const SECONDS = 16;
const PHONE = { width: 360, height: 740, hasTouch: true, isMobile: true };

let server;
let address = "";
let browser;
let page;

const ffmpeg = (...args) => ffmpegIn(media, ...args);

before(async () => {
  mkdirSync(join(media, "list"), { recursive: true });
  // A constant rate and a key frame every two seconds, as broadcasters and cameras send.
  const film = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-f", "lavfi", "-i", "sine", "-t", String(SECONDS)];
  const coded = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-keyint_min", "50", "-sc_threshold", "0", "-b:v", "800k", "-minrate", "800k", "-maxrate", "800k", "-bufsize", "400k", "-x264-params", "nal-hrd=cbr", "-c:a", "aac"];
  ffmpeg(...film, ...coded, "-muxrate", "1100000", "-f", "mpegts", LONG);
  ffmpeg("-i", LONG, "-c", "copy", "-movflags", "+faststart", "film.mp4");
  ffmpeg("-i", LONG, "-c", "copy", "-f", "hls", "-hls_time", "2", "-hls_list_size", "0", "list/index.m3u8");
  // Two tracks of sound, as a playlist with groups has them.
  for (const [name, tone] of [["low", 200], ["high", 800]]) ffmpeg("-f", "lavfi", "-i", `sine=frequency=${tone}`, "-t", String(SECONDS), "-c:a", "aac", "-f", "hls", "-hls_time", "2", "-hls_list_size", "0", `list/${name}.m3u8`);
  ffmpeg("-i", LONG, "-an", "-c", "copy", "-f", "hls", "-hls_time", "2", "-hls_list_size", "0", "list/picture.m3u8");
  const sound = (name) => `#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound",NAME="${name}",DEFAULT=${name === "low" ? "YES" : "NO"},AUTOSELECT=YES,URI="${name}.m3u8"\n`;
  writeFileSync(join(media, "list", "tracks.m3u8"), `#EXTM3U\n${sound("low")}${sound("high")}#EXT-X-STREAM-INF:BANDWIDTH=1100000,AUDIO="sound"\npicture.m3u8\n`);
  writeFileSync(join(media, "film.chapters.vtt"), "WEBVTT\n\n00:00.000 --> 00:09.000\nThe beginning\n\n00:09.000 --> 00:16.000\nThe end\n");
  // Its index is at the end.
  ffmpeg("-i", LONG, "-c", "copy", "list/end.mp4");
  writeFileSync(join(media, "film.srt"), "1\n00:00:00,000 --> 00:00:15,000\nsubtitles beside it\n");
  for (const number of [1, 2, 10]) writeFileSync(join(media, "list", `episode ${number}.txt`), "x".repeat(100 - number));
  mkdirSync(join(media, "long"));
  for (let number = 0; number < 3000; number += 1) writeFileSync(join(media, "long", `name ${number}.txt`), "");
  writeFileSync(join(media, "broken.mp4"), "this is no film");
  writeFileSync(join(media, "old.avi"), "RIFF");
  writeFileSync(config, "# as small as it goes\nplane.memory = '256MiB'\n");
  server = await PageServer.start(folder, ["--root", media, "--local-writes", "--config", config]);
  ({ address } = server);
  browser = await launch();
  page = await browser.newPage();
  await page.setViewport(DESKTOP);
});

after(async () => {
  await browser?.close();
  server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const until = (what, look) => untilOn(what, look, page);

/** Opens a content, or with an empty path the list. */
async function open(path) {
  await page.goto("about:blank");
  await page.goto(`${address}/#/${path}`);
}

async function picture(name) {
  if (process.env["SCREENSHOTS"]) await page.screenshot({ path: join(process.env["SCREENSHOTS"], `${name}.png`) });
}

const video = (read, ...more) => page.$eval("video", read, ...more);
const status = () => page.$eval("#player [role=status]", (line) => line.textContent);
const runsBeyond = (seconds) => until(`${seconds} s`, () => page.evaluate((s) => (document.querySelector("video")?.currentTime ?? 0) > s, seconds));

for (const [path, what] of [[LONG, "MPEG-TS"], ["film.mp4", "MP4"], ["list/index.m3u8", "a playlist"]]) {
  test(`${what} plays, has its length and can be sought`, async () => {
    await open(path);
    await runsBeyond(4);
    assert.ok(Math.abs((await video((v) => v.duration)) - SECONDS) < 0.3, await status());
    for (const to of [11, 2.5, 8]) {
      await video((v, to) => void (v.currentTime = to), to);
      await runsBeyond(to + 0.5);
      assert.ok((await video((v) => v.currentTime)) < to + 5, `it went on at ${to}`);
    }
    if (path === LONG) assert.match(await status(), / 0 interruptions|no interruption/);
    await picture(`desktop-${path.replaceAll("/", "-")}`);
  });
}

test("the keys play, skip and close, and the focus returns to the list", async () => {
  await open("film.mp4");
  await runsBeyond(0.5);
  await page.keyboard.press("Space");
  assert.equal(await video((v) => v.paused), true);
  const at = await video((v) => v.currentTime);
  await page.keyboard.press("ArrowRight");
  assert.ok((await video((v) => v.currentTime)) > at + 5);
  await page.keyboard.press("ArrowLeft");
  assert.ok((await video((v) => v.currentTime)) < at + 5);
  await page.keyboard.press("f");
  await until("the full screen", () => page.evaluate(() => document.fullscreenElement !== null));
  await page.keyboard.press("f");
  await until("its end", () => page.evaluate(() => document.fullscreenElement === null));
  await page.keyboard.press("Escape");
  await until("the list", async () => (await page.$("#player")) === null);
  await until("the focus", () => page.evaluate(() => document.activeElement?.textContent === "film.mp4"));
});

for (const [path, words] of [["broken.mp4", /cannot be played here: this browser/], ["old.avi", /cannot be played here: browsers do not play \.avi/], ["gone.mp4", /no such content/]]) {
  test(`${path} is told of in words, without a black box`, async () => {
    await open(path);
    const said = await until("the words", () => page.evaluate(() => document.querySelector("#player .notice")?.textContent));
    assert.match(said, words);
    assert.equal(await video((v) => v.hidden), true);
  });
}

test("on a phone names break between words, and what is touched is large enough", async () => {
  await page.setViewport(PHONE);
  await open("film.mp4");
  await until("the list", () => page.$("#library td.name"));
  await runsBeyond(0.5);
  await picture("phone");
  const small = await page.evaluate(() => {
    const touched = [...document.querySelectorAll("a, button, select, input")].filter((e) => e.checkVisibility() && !e.classList.contains("skip"));
    return touched.map((e) => [e.textContent, e.getBoundingClientRect().height, e.getBoundingClientRect().width]).filter(([, height, width]) => height < 40 || width < 40);
  });
  assert.deepEqual(small, []);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than the screen");
  // Each word of the long name is on one line.
  const broken = await page.evaluate((name) => {
    const link = [...document.querySelectorAll("#library a")].find((link) => link.textContent === name);
    return [...link.lastElementChild.childNodes].filter((node) => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return node.nodeType === Node.TEXT_NODE && range.getClientRects().length > 1;
    }).length;
  }, LONG);
  assert.equal(broken, 0);
  await page.setViewport(DESKTOP);
});

/** Names that the list shows, in order. */
const shown = () => page.$$eval("#library td.name", (cells) => cells.map((cell) => cell.textContent));
/** Presses the button with these words within `place`, as soon as it is there. */
const press = (words, place = "body") =>
  until(`the button ${words}`, () => page.evaluate((words, place) => {
    const button = [...document.querySelectorAll(`${place} button:enabled`)].find((button) => button.textContent.trim() === words);
    button?.click();
    return button !== undefined;
  }, words, place));

test("folders have addresses of their own, and their names are sorted and searched", async () => {
  await open("list/");
  await until("the list", async () => (await shown()).length > 0);
  await page.type("#library input[type=search]", "EPISODE");
  await until("what was searched for", async () => (await shown()).length === 3);
  assert.deepEqual(await shown(), ["episode 1.txt", "episode 2.txt", "episode 10.txt"]);
  await page.$$eval("#library th button", (heads) => heads.find((head) => head.textContent.startsWith("Size")).click());
  await until("the order", async () => (await shown())[0] === "episode 10.txt");
  assert.equal(await page.$eval("#library [role=status]", (line) => line.textContent.split(" ")[0]), "3");
  await page.click(".crumbs a");
  await until("the folder above", async () => (await shown()).includes("film.mp4"));
  await page.goBack();
  await until("the folder", async () => (await shown()).includes("episode 2.txt"));
});

test("a search finds names in all folders, with their folders, and follows the typing", async () => {
  await open("");
  await until("the list", async () => (await shown()).includes("film.mp4"));
  const found = () => page.$$eval("#found li", (lines) => lines.map((line) => line.textContent)).catch(() => []);
  await page.type("#library input[type=search]", "Episode 1");
  await until("both", async () => (await found()).length === 2);
  assert.match((await found())[0], /^episode 1\.txt.*list\//);
  await picture("desktop-search");
  await page.type("#library input[type=search]", "0");
  await until("the one", async () => (await found()).length === 1);
  await page.click("#found .quiet a");
  await until("its folder", async () => (await shown()).includes("episode 10.txt"));
  assert.equal(await page.$("#found"), null, "another folder has no search yet");
});

test("the first load is the frame and the contents, compressed", async () => {
  await open("");
  await until("the list", async () => (await shown()).includes("film.mp4"));
  const parts = await page.evaluate(() => performance.getEntriesByType("resource").filter(({ name }) => [...document.querySelectorAll("head [src], head [rel=stylesheet]")].some((part) => name === (part.src ?? part.href))).map(({ name, encodedBodySize, decodedBodySize }) => ({ name, encodedBodySize, decodedBodySize })));
  assert.equal(parts.length, 2, `one script, one style sheet: ${JSON.stringify(parts)}`);
  for (const { name, encodedBodySize, decodedBodySize } of parts) assert.ok(encodedBodySize < decodedBodySize / 2, `${name}: ${encodedBodySize} of ${decodedBodySize} bytes`);
  assert.ok(parts.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0) < 48 * 1024);
});

test("a long folder is drawn in part, and scrolls to its end", async () => {
  const { identifier } = await page.evaluateOnNewDocument(() => {
    window.drawn = 0;
    new MutationObserver((changes) => {
      for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes])) window.drawn += node instanceof Element ? node.querySelectorAll("td.name").length : 0;
    }).observe(document, { subtree: true, childList: true });
  });
  await open("long/");
  await until("all names", () => page.evaluate(() => document.querySelector("#library [role=status]")?.textContent.startsWith("3000 ")));
  assert.ok((await shown()).length < 100);
  const drawn = await page.evaluate(() => window.drawn);
  assert.ok(drawn > 0 && drawn < 200, `${drawn} lines were drawn`);
  await page.removeScriptToEvaluateOnNewDocument(identifier);
  await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
  await until("the last name", async () => (await shown()).includes("name 2999.txt"));
  assert.ok((await shown()).length < 500);
});

test("the grid has pictures of films, also with their index at the end, and icons of what is none", async () => {
  const picturesOf = async (folder) => {
    await open(folder);
    await press("Grid", "#library");
    await until("the grid", () => page.$("#library .grid li"));
    const seen = () => page.$$eval("#library .grid li", (items) => items.map((item) => [item.querySelector(".name").textContent, item.querySelector("img")?.naturalWidth ?? 0, item.querySelector("img")?.complete ?? true]));
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
    const all = await until("the pictures", async () => (await seen()).every(([, , complete]) => complete) && seen());
    return Object.fromEntries(all.map(([name, width]) => [name, width]));
  };
  const top = await picturesOf("");
  assert.deepEqual([top["film.mp4"], top[LONG], top["broken.mp4"], top["old.avi"]], [320, 320, 0, 0]);
  await picture("desktop-grid");
  assert.equal((await picturesOf("list/"))["end.mp4"], 320);
  assert.match(await page.$$eval("#library .grid li", (items) => items.find((item) => item.textContent.startsWith("end.mp4")).textContent), /0:16|0:15/);
  await press("List", "#library");
});

test("names that are selected are downloaded as one archive", async () => {
  await open("list/");
  await until("the list", () => page.$("#library td.name"));
  for (const name of ["episode 1.txt", "episode 10.txt"]) await page.click(`[aria-label="Select ${name}"]`);
  const address = await until("the link", () => page.$eval("#library a[download]", (link) => link.href).catch(() => null));
  const answer = await fetch(address);
  const bytes = Buffer.from(await answer.arrayBuffer());
  assert.equal(answer.headers.get("Content-Length"), String(bytes.length));
  assert.ok(bytes.subarray(0, 2).toString() === "PK" && bytes.includes("episode 1.txt") && bytes.includes("episode 10.txt") && !bytes.includes("episode 2.txt"));
});

test("files are uploaded, asked about where one exists, and deleted", async () => {
  await open("list/");
  await until("the list", () => page.$("#library td.name"));
  const file = join(folder, "sent.txt");
  writeFileSync(file, "first");
  const input = await page.$("#library input[type=file]");
  await input.uploadFile(file);
  await until("the upload", async () => (await shown()).includes("sent.txt"));
  assert.equal(await (await fetch(`${address}/media/list/sent.txt`)).text(), "first");
  writeFileSync(file, "second");
  await input.uploadFile(file);
  await until("the question", () => page.evaluate(() => document.querySelector(".uploads")?.textContent.includes("exists")));
  assert.equal(await (await fetch(`${address}/media/list/sent.txt`)).text(), "first");
  await press("Replace", ".uploads");
  await until("its end", () => page.evaluate(() => !document.querySelector(".uploads").textContent.includes("exists")));
  await until("the new bytes", async () => (await (await fetch(`${address}/media/list/sent.txt`)).text()) === "second");
  await picture("desktop-upload");
  await page.click('[aria-label="Details of sent.txt"]');
  await press("Delete", "dialog[open]");
  await until("the list without it", async () => !(await shown()).includes("sent.txt"));
  assert.equal((await fetch(`${address}/media/list/sent.txt`)).status, 404);
  await press("Restore", "#library .notice");
  await until("the list with it", async () => (await shown()).includes("sent.txt"));
  assert.equal(await (await fetch(`${address}/media/list/sent.txt`)).text(), "second");
});

test("folders are made, renamed, and deleted with all in them", async () => {
  await open("list/");
  await until("the list", () => page.$("#library td.name"));
  const name = async (words, text) => {
    await until("the field", () => page.$("dialog[open] form input"));
    await page.$eval("dialog[open] form input", (field) => field.select());
    await page.keyboard.type(text);
    await press(words, "dialog[open]");
  };
  await press("New folder", "#library");
  await name("New folder", "a & b");
  await until("the folder", async () => (await shown()).includes("a & b"));
  await fetch(`${address}/media/list/a%20%26%20b/in.txt`, { method: "PUT", body: "in it" });
  await page.click('[aria-label="Details of a & b"]');
  await press("Rename", "dialog[open]");
  await name("Rename", "episode 1.txt");
  assert.match(await until("the refusal", () => page.evaluate(() => document.querySelector("#library .notice")?.textContent)), /./, "the name is taken");
  await page.click('[aria-label="Details of a & b"]');
  await press("Rename", "dialog[open]");
  await name("Rename", "c#d");
  await until("the other name", async () => (await shown()).includes("c#d") && !(await shown()).includes("a & b"));
  assert.equal(await (await fetch(`${address}/media/list/c%23d/in.txt`)).text(), "in it");
  await page.click('[aria-label="Details of c#d"]');
  await press("Copy to …", "dialog[open]");
  await name("Copy to …", "/");
  await until("the copy", async () => (await (await fetch(`${address}/media/c%23d/in.txt`)).text()) === "in it");
  await page.click('[aria-label="Select c#d"]');
  await press("Move to …", "#library");
  await name("Move to …", "/");
  assert.match(await until("the refusal", () => page.evaluate(() => document.querySelector("#library .notice")?.textContent)), /^c#d stays as it was: ./);
  await fetch(`${address}/media/list/moved.txt`, { method: "PUT", body: "moved" });
  await open("list/");
  await until("the list", async () => (await shown()).includes("moved.txt"));
  await page.click('[aria-label="Select moved.txt"]');
  await press("Move to …", "#library");
  await name("Move to …", "/c#d/");
  await until("the list without it", async () => !(await shown()).includes("moved.txt"));
  assert.equal(await (await fetch(`${address}/media/c%23d/moved.txt`)).text(), "moved");
  await page.click('[aria-label="Details of c#d"]');
  await press("Delete", "dialog[open]");
  await until("the list without it", async () => !(await shown()).includes("c#d"));
  assert.equal((await fetch(`${address}/media/list/c%23d/in.txt`)).status, 404);
  await page.click("#library a[href='#trash']");
  await until("the trash", () => page.evaluate(() => document.querySelector("main").innerText.includes("list/c#d")));
  await picture("desktop-trash");
  await press("Restore", "main");
  await until("the folder", async () => (await (await fetch(`${address}/media/list/c%23d/in.txt`)).text()) === "in it");
  const setting = (keep) => fetch(`${address}/api/v1/settings`, { method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ "trash.keep": keep }) });
  assert.equal((await setting("0s")).status, 200);
  await open("list/");
  await until("the list", async () => (await shown()).includes("c#d"));
  await page.click('[aria-label="Details of c#d"]');
  await press("Delete", "dialog[open]");
  await until("the warning, as there is no trash", () => page.evaluate(() => document.querySelector("dialog[open]")?.textContent.includes("with all that is in it")));
  await press("Delete", "dialog[open]");
  await until("the list without it", async () => !(await shown()).includes("c#d"));
  assert.equal((await setting(null)).status, 200);
});

test("subtitles beside a film are shown, and details have an address for players", async () => {
  await open("film.mp4");
  await runsBeyond(0.5);
  await until("the words", () => page.evaluate(() => document.querySelector("video").textTracks[0]?.activeCues?.[0]?.text === "subtitles beside it"));
  await page.click('[aria-label="Details of film.mp4"]');
  for (const part of ["Containermp4", "CodecsH.264, AAC", "Lies on"]) await until(part, () => page.evaluate((part) => document.querySelector("dialog[open]")?.textContent.includes(part), part));
  await until("its reader", () => page.evaluate(() => /Readers\s*127\.0\.0\.1/.test(document.querySelector("dialog[open]")?.textContent)));
  const field = await page.$eval("dialog input", (field) => field.value);
  assert.equal(field, `${address}/media/film.mp4`);
  await press("QR code of the address", "dialog[open]");
  await until("the code", () => page.$eval("dialog img", (image) => image.naturalWidth > 0).catch(() => false));
  await picture("desktop-details");
  // As a hand does it: what is not in view cannot be clicked.
  await page.click("dialog[open] details summary");
  await page.click("dialog[open] details input[name=uses]");
  await page.keyboard.type("1");
  await page.click("dialog[open] details form button");
  const link = await until("the link", () => page.evaluate(() => document.querySelector("dialog[open] details input[readonly]")?.value));
  assert.match(link, /film\.mp4\?share=/);
  await picture("desktop-share");
});

test("chapters beside a film are places to go to, and tracks of sound can be chosen", async () => {
  await open("film.mp4");
  await runsBeyond(0.5);
  const choice = (words) => until(words, () => page.evaluateHandle((words) => [...document.querySelectorAll("#player label")].find((label) => label.textContent.startsWith(words))?.querySelector("select"), words).then((handle) => handle.asElement()));
  await (await choice("Chapter")).select("1");
  await runsBeyond(9.3);
  await until("the present chapter", async () => (await (await choice("Chapter")).evaluate((select) => select.value)) === "1");
  await open("list/tracks.m3u8");
  await runsBeyond(0.5);
  const tracks = await choice("Sound");
  assert.deepEqual(await tracks.evaluate((select) => [...select.options].map((option) => option.textContent)), ["low", "high"]);
  const asked = [];
  const note = (request) => asked.push(request.url());
  page.on("request", note);
  await tracks.select("1");
  await until("its segments", () => asked.some((url) => url.includes("high")));
  page.off("request", note);
  const at = await video((v) => v.currentTime);
  await runsBeyond(at + 1);
});

test("a refused stream is told of once, with a way on", async () => {
  await page.goto("about:blank");
  let asked = 0;
  const refuse = (request) => {
    if (!request.url().includes("/media/") || request.url().includes("format=json") || request.url().includes("rate=max")) return void request.continue();
    asked += 1;
    const body = JSON.stringify({ status: 503, resource: "disk", grantable_bps: 500_000 });
    void request.respond({ status: 503, contentType: "application/problem+json", headers: { "Retry-After": "9" }, body });
  };
  await page.setRequestInterception(true);
  page.on("request", refuse);
  for (const path of [LONG, "film.mp4", "list/index.m3u8"]) {
    asked = 0;
    await open(path);
    const said = await until("the refusal", () => page.evaluate(() => document.querySelector("#player .notice")?.textContent));
    assert.match(said, /refused this stream.*the disk has no time left.*500 kbit\/s.*9 s.*Try again.*Play at 500 kbit\/s.*Play without a guarantee/, path);
    await new Promise((done) => setTimeout(done, 1000));
    assert.ok(asked < 8, `${path} was asked for ${asked} times`);
  }
  page.off("request", refuse);
  await page.setRequestInterception(false);
  await press("Play without a guarantee", "#player");
  await runsBeyond(0.5);
});

test("the language is the browser's or the chosen one, and stays", async () => {
  await open("");
  await until("the list", () => page.$("#library td.name"));
  await page.select("header select", "ja");
  await until("Japanese", () => page.evaluate(() => document.documentElement.lang === "ja" && document.querySelector(".views").textContent.includes("コンテンツ")));
  await open("");
  await until("Japanese again", () => page.evaluate(() => document.querySelector(".views")?.textContent.includes("稼働状況")));
  await page.select("header select", "en");
});

test("no view has an error, or is wider than a phone", async () => {
  const errors = [];
  const note = (message) => message.type() === "error" && errors.push(message.text());
  page.on("console", note);
  page.on("pageerror", (error) => errors.push(error.message));
  for (const size of [PHONE, DESKTOP]) {
    await page.setViewport(size);
    for (const view of ["#/", "#live", "#health", "#log", "#settings", "#access", "#trash", "#setup"]) {
      await page.goto("about:blank");
      await page.goto(`${address}/${view}`);
      await until(view, () => page.$("main .card:not([aria-busy=true])"));
      await new Promise((done) => setTimeout(done, 500));
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} is wider than ${size.width}`);
      await picture(`${view.slice(1).replace("/", "list")}-${size.width}`);
    }
  }
  page.off("console", note);
  assert.deepEqual(errors, []);
});

test("an alarm is shown with its effect and the command that mends it", async () => {
  const alarm = { severity: "serious", kind: "folder_away", about: "/mnt/a", text: "it differs from the folder at the start", why: "its contents are answered with 503", remedy: "findmnt" };
  const answer = (request) => void (request.url().endsWith("/alarms") ? request.respond({ contentType: "application/json", body: JSON.stringify([alarm]) }) : request.continue());
  await page.setRequestInterception(true);
  page.on("request", answer);
  await page.goto("about:blank");
  await page.goto(`${address}/#health`);
  for (const part of ["Serious: /mnt/a", alarm.text, alarm.why, alarm.remedy]) await until(part, () => page.evaluate((part) => document.querySelector("main").innerText.includes(part), part));
  await page.select("header select", "ja");
  for (const part of ["重大: /mnt/a", "起動時のフォルダーと異なります", "中のコンテンツは 503 になります", alarm.remedy]) await until(part, () => page.evaluate((part) => document.querySelector("main").innerText.includes(part), part));
  await page.select("header select", "en");
  page.off("request", answer);
  const refuse = (request) => void (request.url().includes("/api/v1/") ? request.respond({ status: 403 }) : request.continue());
  page.on("request", refuse);
  for (const view of ["#live", "#health"]) {
    await page.goto("about:blank");
    await page.goto(`${address}/${view}`);
    await until("the reason", () => page.evaluate(() => document.querySelector("main").innerText.includes("no right to read everything")));
  }
  page.off("request", refuse);
  await page.setRequestInterception(false);
});

test("a setting is changed, refused, undone, and kept apart from another administrator's", async () => {
  await page.goto("about:blank");
  await page.goto(`${address}/#settings`);
  const field = (key) => until(key, () => page.evaluateHandle((key) => [...document.querySelectorAll(".setting")].find((form) => form.querySelector("code").textContent === key), key).then((handle) => handle.asElement()));
  const set = async (key, value) => {
    const form = await field(key);
    await form.$eval("input", (input) => input.select());
    await page.keyboard.type(value);
    await form.$eval("button.primary", (button) => button.click());
  };
  const inForce = async (key) => (await (await fetch(`${address}/api/v1/settings`)).json()).find((entry) => entry.key === key).value;
  const text = (part) => until(part, () => page.evaluate((part) => document.querySelector("main").innerText.includes(part), part));
  const before = await inForce("sessions.hold");
  await set("sessions.hold", "77s");
  await text("sessions.hold is changed");
  assert.equal(await inForce("sessions.hold"), "77s");
  assert.match(readFileSync(config, "utf8"), /# as small as it goes[^]*hold = "77s"/, "comments stay");
  await picture("desktop-settings");
  await set("sessions.hold", "soon");
  await until("the refusal", () => page.evaluate(() => /hold/.test(document.querySelector(".setting [role=alert]")?.textContent)));
  assert.equal(await inForce("sessions.hold"), "77s");
  await press("Cancel", ".setting");
  await press("Undo sessions.hold");
  await until("the value of before", async () => (await inForce("sessions.hold")) === before);
  const other = await fetch(`${address}/api/v1/settings`, { method: "PATCH", headers: { "Content-Type": "application/json" }, body: '{"streams.stall":"31s"}' });
  assert.equal(other.status, 200);
  await set("streams.stall", "32s");
  await text("Another administrator has changed the settings meanwhile");
  assert.equal(await inForce("streams.stall"), "31s");
  await set("streams.stall", "32s");
  await until("the value", async () => (await inForce("streams.stall")) === "32s");
});

test("an administrator logs in, sees users, shares a content by a link and logs out", async () => {
  // While there is no user, a program on this machine may make the first.
  const headers = { "Content-Type": "application/json" };
  const user = { name: "ada", password: "a long one", rights: ["read", "write", "delete", "share", "admin"] };
  const made = await fetch(`${address}/api/v1/users`, { method: "POST", headers, body: JSON.stringify(user) });
  assert.equal(made.status, 204);
  const text = (part) => until(part, () => page.evaluate((part) => document.querySelector("main").innerText.includes(part), part));
  const logIn = async (password) => {
    await until("the form", () => page.$("input[name=password][autocomplete=current-password]"));
    await page.$eval("input[name=name]", (field) => (field.value = "ada"));
    await page.$eval("input[name=password]", (field, password) => (field.value = password), password);
    await page.$eval("form", (form) => form.requestSubmit());
  };
  await page.goto("about:blank");
  await page.goto(`${address}/#access`);
  await logIn("a wrong one");
  await text("the name or the password is wrong");
  await logIn(user.password);
  await text("Logged in as ada");
  await text("browser");
  await picture("access");
  assert.equal(await page.evaluate(() => document.cookie.includes("isocast")), false, "no script reads the login");
  const link = await page.evaluate(async () => {
    const answer = await fetch("api/v1/shares", { method: "POST", headers: { "Content-Type": "application/json", "X-Isocast-Page": "1" }, body: '{"path":"film.mp4","expires_seconds":60,"uses":1}' });
    return (await answer.json()).address;
  });
  assert.equal((await fetch(address + link)).status, 200);
  assert.equal((await fetch(address + link)).status, 403, "it is used up");
  await text("film.mp4");
  const fill = (form, fields) => page.$eval(form, (form, fields) => Object.entries(fields).forEach(([name, value]) => (form.elements[name].value = value)), fields);
  const list = async (of) => (await page.evaluate(async (of) => (await fetch(`api/v1/${of}`)).json(), of));
  await fill("section[aria-label=Users] form", { name: "bob", password: "a long one" });
  await press("Add", "section[aria-label=Users]");
  await text("bob");
  const rights = "section[aria-label='Rights and groups']";
  await fill(`${rights} form[aria-label='Members of groups']`, { user: "bob", group: "crew" });
  await press("Put into it", rights);
  await text("Group crew");
  await fill(`${rights} form[aria-label='Rights and groups']`, { of: "groups", name: "crew", folder: "/list" });
  await page.click(`${rights} input[value=write]`);
  await press("Grant", rights);
  await until("the group's rights", async () => JSON.stringify(await list("groups")) === '[{"name":"crew","members":["bob"],"rights":[{"folder":"/list","rights":["read","write"]}]}]');
  await text("/list: read, write · bob");
  await press("Take back", rights);
  await until("no rights", async () => (await list("groups"))[0].rights.length === 0);
  await fill(`${rights} form[aria-label='New password']`, { name: "bob", password: "another long one" });
  await press("Save", rights);
  await until("its password", async () => (await fetch(`${address}/api/v1/session`, { headers: { Authorization: `Basic ${btoa("bob:another long one")}` } })).status === 200);
  await fill("form[aria-label='Make a token']", { label: "camera", days: "1" });
  await press("Make a token", "section[aria-label='Tokens and log-ins']");
  const token = await until("its text", () => page.evaluate(() => document.querySelector("section[aria-label='Tokens and log-ins'] input[readonly]")?.value));
  assert.equal((await (await fetch(`${address}/api/v1/session`, { headers: { Authorization: `Bearer ${token}` } })).json()).user, "ada");
  await text("ada: camera");
  await picture("access-forms");
  await page.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "Log out").click());
  await until("the form again", () => page.$("input[name=password][autocomplete=current-password]"));
});

test("a client without the right to read is told so, and led to the log-in", async () => {
  const anonymous = async (right) => {
    const headers = { "Content-Type": "application/json", Authorization: `Basic ${btoa("ada:a long one")}` };
    assert.equal((await fetch(`${address}/api/v1/settings`, { method: "PATCH", headers, body: JSON.stringify({ "access.anonymous": right }) })).status, 200);
  };
  await anonymous("none");
  for (const [path, place] of [["list/", "#library .notice"], ["film.mp4", "#player .notice"]]) {
    await open(path);
    await until("the link", () => page.$(`${place} a[href='#access']`));
    assert.match(await page.$eval(place, (notice) => notice.innerText), /need a user's name and password/);
  }
  await page.click("#player .notice a[href='#access']");
  await until("the form", () => page.$("input[name=password][autocomplete=current-password]"));
  await anonymous(null);
});

test("the live figures tell the room and the rates, and a server that has gone is told of", async () => {
  await page.goto("about:blank");
  await page.goto(`${address}/#live`);
  const text = await until("the figures", () => page.evaluate(() => document.querySelector(".graph canvas") && document.querySelector("main").textContent));
  assert.match(text, /Room for \d+ more viewers of 8\.8 Mbit\/s, or for \d+ recordings/, "also while nothing runs");
  await picture("desktop");
  const graph = () => page.$eval(".graph[role=img]", (graph) => graph.getAttribute("aria-label")).catch(() => "");
  assert.match(await graph(), /Sent: [\d.]+ [kM]?bit\/s at most/, "films were played before this view was opened");
  for (const span of ["2592000", "600"]) {
    await page.select("select[aria-label=Span]", span);
    await page.select("select[aria-label=Figures]", span === "600" ? "streams" : "use");
    await until("another graph", async () => (await page.$(".graph canvas")) && /Streams: [1-9]|Disks, for streams: /.test(await graph()));
    await picture(`desktop-history-${span}`);
  }
  server.stop();
  await until("the banner", () => page.$("#offline"));
  await picture("desktop-offline");
});
