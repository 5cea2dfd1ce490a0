// The page in Chromium, in the hands of an administrator: entries of the configuration, uploads that wait, contents that are hard to play, the guide,
// and the rules of accessibility on every view. Run by `make test-page`.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createServer, request } from "node:http";
import { mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { DESKTOP, ffmpeg, launch, Link, PageServer, PHONE, program, TestPage, until } from "./page_harness.mjs";

const folder = mkdtempSync(join(tmpdir(), "isocast-page-work-"));
const media = join(folder, "media");
const config = join(folder, "isocast.toml");
const disks = [0, 1].map((number) => join(folder, `disk${number}`));
const DISK_BYTES = 96 << 20;
const FILM_S = 40;
const LATE_MS = 500;
const VIEWS = ["#/", "#/films/film.mp4", "#live", "#health", "#log", "#settings", "#access", "#trash", "#setup"];
const guide = new URL("../../docs/guide/", import.meta.url).pathname;

let server;
let browser;
let page;
let on;

before(async () => {
  mkdirSync(join(media, "films"), { recursive: true });
  const film = ["-f", "lavfi", "-i", `testsrc2=size=320x180:rate=25:duration=${FILM_S}`, "-f", "lavfi", "-i", `sine=duration=${FILM_S}`, "-f", "lavfi", "-i", `sine=frequency=800:duration=${FILM_S}`];
  ffmpeg(media, ...film, "-map", "0", "-map", "1", "-map", "2", "-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-b:v", "800k", "-c:a", "aac", "-movflags", "+faststart", "films/film.mp4");
  mkdirSync(join(media, "dash"));
  ffmpeg(media, "-i", "films/film.mp4", "-map", "0:v", "-map", "0:a:0", "-t", "16", "-c", "copy", "-f", "dash", "-seg_duration", "2", "dash/index.mpd");
  // A format of sound that browsers do not decode.
  ffmpeg(media, "-i", "films/film.mp4", "-map", "0:v", "-map", "0:a:0", "-t", "12", "-c:v", "copy", "-c:a", "ac3", "films/ac3.mp4");
  writeFileSync(join(media, `${"x".repeat(251)}.txt`), "255 bytes");
  writeFileSync(join(media, "<img src=x onerror=alert(1)>.txt"), "markup");
  writeFileSync(join(media, "\u05e9\u05dc\u05d5\u05dd \u202e4pm.txt"), "right to left");
  for (const disk of disks) {
    openSync(disk, "w");
    truncateSync(disk, DISK_BYTES);
  }
  execFileSync(program, ["volume", "create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes", ...disks]);
  writeFileSync(config, "# of the house\nplane.memory = '256MiB'\n\n[access]\nlocal_writes = true\n\n[[job]]\nname = \"report\" # the operator's\nkind = \"command\"\nschedule = \"0 0 1 1 *\"\ncommand = [\"/bin/true\"]\n");
  server = await PageServer.start(folder, ["--root", media, "--volume", disks.join(","), "--config", config]);
  browser = await launch();
  page = await browser.newPage();
  await page.setViewport(DESKTOP);
  await page.evaluateOnNewDocument(answerChangesLate, LATE_MS);
  on = new TestPage(page, server);
});

/** As over a far link: a change is in force before the page knows. */
function answerChangesLate(late) {
  const fetched = window.fetch;
  window.fetch = async (...request) => {
    const answer = await fetched(...request);
    if ((request[1]?.method ?? request[0]?.method) === "PATCH") await new Promise((resolve) => setTimeout(resolve, late));
    return answer;
  };
}

after(async () => {
  await browser?.close();
  server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const shown = () => page.$$eval("#library td.name", (cells) => cells.map((cell) => cell.textContent));
const playedBeyond = (seconds) => on.until(`${seconds} s`, () => page.evaluate((s) => (document.querySelector("video")?.currentTime ?? 0) > s, seconds));

test("a job is added by a form, run, changed, refused with the reason, removed and restored", async () => {
  await on.open("#settings");
  await on.press("New job");
  await on.fill({ name: "tidy", kind: "keep", schedule: "61 * * * *", folder: "films", max_age: "400d" });
  await on.press("Save", ".entries");
  await on.text("is no minute");
  await on.fill({ schedule: "0 4 * * *" });
  await on.press("Save", ".entries");
  await on.text("job.tidy is changed");
  assert.match(readFileSync(config, "utf8"), /# of the house[^]*# the operator's[^]*\[\[job\]\]\nfolder = "films"[^]*max_age = "400d"/);
  await on.press("Run tidy now");
  await on.text("last succeeded");
  await on.text("since the start: 1 succeeded");
  await on.picture("settings-job");
  await on.press("Change tidy");
  await on.fill({ schedule: "0 5 * * *" });
  await on.press("Save", ".entries");
  await on.until("the schedule", async () => (await server.json("jobs")).some(({ name, schedule }) => name === "tidy" && schedule === "0 5 * * *"));
  await on.press("Remove tidy");
  await on.until("no job", async () => (await server.json("jobs")).every(({ name }) => name !== "tidy"));
  await on.press("Undo job.tidy");
  await on.until("the job", async () => (await server.json("jobs")).some(({ name, schedule }) => name === "tidy" && schedule === "0 5 * * *"));
  assert.equal(await page.$("button[aria-label='Change report']"), null, "a program is the operator's");
});

test("quotas and budgets are set by forms, and show what is used", async () => {
  await on.open("#settings");
  await on.press("New quota");
  await on.fill({ folder: "films/", max_size: "1GB" });
  await on.press("Save", ".entries");
  await on.text("quota.films is changed");
  await on.text("of 954 MiB");
  await on.press("New budget");
  await on.fill({ of: "address", streams: "many" });
  await on.press("Save", ".entries");
  await on.text("`many` is no number above 0");
  await on.fill({ streams: "40" });
  await on.press("Save", ".entries");
  await on.text("budget.address is changed");
  assert.deepEqual((await server.json("settings")).find(({ key }) => key === "budget.address").value, { of: "address", streams: 40 });
  await server.patch({ "budget.address": null, "quota.films": null });
});

test("a webhook is added by a form and gets a test event", async () => {
  const secret = join(folder, "secret");
  writeFileSync(secret, "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n", { mode: 0o600 });
  const events = [];
  const target = createServer((request, answer) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => (events.push(JSON.parse(Buffer.concat(parts).toString())), answer.writeHead(204).end()));
  });
  await new Promise((done) => target.listen(0, "127.0.0.1", done));
  try {
    await on.open("#settings");
    await on.press("New webhook");
    await on.fill({ name: "chat", events: "job_failed\nnonsense", url: `http://127.0.0.1:${target.address().port}/`, secret });
    await on.press("Save", ".entries");
    await on.text("there is no event `nonsense`");
    await on.fill({ events: "job_failed" });
    await on.press("Save", ".entries");
    await on.press("Send a test to chat");
    await until("the event", () => events.some(({ event }) => event === "webhook_test"));
    await on.text("1 delivered");
    await on.press("Remove chat");
    await on.until("no webhook", async () => (await server.json("webhooks")).length === 0);
  } finally {
    target.close();
  }
});

test("the command that makes a volume is put together", async () => {
  await on.open("#health");
  await on.text("films");
  await page.$eval("main details", (details) => (details.open = true));
  const line = await page.$$eval("main details input[readonly]", (fields) => fields.map((field) => field.value));
  assert.deepEqual(line, ["isocast volume create --name films --layout mirror --yes /dev/sdb /dev/sdc", 'volumes = ["/dev/sdb,/dev/sdc"]']);
});

test("an upload is paused, continued, and one whose log-in ended says so and continues", async () => {
  const link = await Link.open(server);
  link.bytesPerSecond = 2 << 20;
  await on.open("#/", link.address);
  await on.until("the list", () => page.$("#library td.name"));
  const file = join(folder, "paused.ts");
  writeFileSync(file, Buffer.alloc(16 << 20, 5));
  await (await page.$("#library input[type=file]:not([webkitdirectory])")).uploadFile(file);
  await on.press("Pause", ".uploads");
  await on.text("paused at");
  await server.patch({ "access.local_writes": false });
  await on.press("Continue", ".uploads");
  await on.text("This server does not allow you to write");
  writeFileSync(config, readFileSync(config, "utf8").replace("local_writes = false", "local_writes = true"));
  server.child.kill("SIGHUP");
  link.bytesPerSecond = 0;
  await on.until("the right to write", async () => (await fetch(`${server.address}/media/probe.txt`, { method: "PUT", body: "x" })).ok);
  await on.press("Try again", ".uploads");
  await on.until("the content", async () => (await fetch(`${server.address}/media/paused.ts`, { method: "HEAD" })).headers.get("Content-Length") === String(16 << 20));
  link.close();
});

test("an upload that finds the disk full says so, and is stored once there is room", async () => {
  const place = join(folder, "full");
  const disk = join(place, "disk");
  mkdirSync(place);
  openSync(disk, "w");
  truncateSync(disk, DISK_BYTES);
  execFileSync(program, ["volume", "create", "--name", "small", "--layout", "span", "--unit", "1MiB", "--yes", disk]);
  const full = await PageServer.start(place, ["--volume", disk, "--local-writes", "--set", "plane.memory=256MiB"]);
  const context = await browser.createBrowserContext();
  try {
    const other = await context.newPage();
    const there = new TestPage(other, full);
    await there.open("#/");
    const put = (name, bytes) => fetch(`${full.address}/media/${name}`, { method: "PUT", body: Buffer.alloc(bytes, 7) });
    assert.equal((await put("filler.ts", 72 << 20)).status, 201);
    const file = join(folder, "too-large.ts");
    // Twice as long, its parts and the content that is made of them would not fit.
    writeFileSync(file, Buffer.alloc(28 << 20, 6));
    await (await there.until("the field", () => other.$("#library input[type=file]:not([webkitdirectory])"))).uploadFile(file);
    await there.text("the volume `small` has no room for it", ".uploads");
    assert.equal((await fetch(`${full.address}/media/filler.ts`, { method: "DELETE" })).status, 204);
    await there.press("Try again", ".uploads");
    await there.until("the content", async () => (await fetch(`${full.address}/media/too-large.ts`, { method: "HEAD" })).headers.get("Content-Length") === String(28 << 20));
  } finally {
    await context.close();
    full.stop();
  }
});

test("a recording is listed in its folder with its length so far, and a name is selected in the grid", async () => {
  const camera = request(`${server.address}/media/films/camera.ts?rate=1M`, { method: "PUT" });
  const ended = new Promise((end) => camera.on("response", (answer) => answer.resume().on("end", end)));
  camera.write(Buffer.alloc(64 << 10, 1));
  await on.open("#/films/");
  await on.text("camera.ts", "#library");
  await on.text("recording, 64.0 KiB received", "#library");
  camera.end();
  await ended;
  await on.press("Grid", "#library");
  await page.click("#library .grid li input[type=checkbox]");
  await on.text("1 selected", "#library");
  await on.press("Cancel", "#library");
  await on.press("List", "#library");
});

test("DASH plays, and sound that the browser does not decode is said to be missing", async () => {
  await on.open("#/dash/index.mpd");
  await playedBeyond(4);
  await page.$eval("video", (video) => void (video.currentTime = 11));
  await playedBeyond(12);
  await on.open("#/films/ac3.mp4");
  await on.text("no sound is decoded", "#player");
});

test("a film whose server is killed and started again continues by itself where it broke off", async () => {
  await on.open("#/films/film.mp4");
  await playedBeyond(3);
  const at = await page.$eval("video", (video) => video.currentTime);
  await server.restart();
  await on.until("the film", () => page.evaluate((at) => document.querySelector("#player .notice") === null && (document.querySelector("video")?.currentTime ?? 0) > at + 8, at));
  assert.ok((await page.$eval("video", (video) => video.currentTime)) < at + 30, "it did not begin elsewhere");
});

test("a truncated and a growing film, and names with markup, 255 bytes and right to left, are told of or listed as they are", async () => {
  const whole = readFileSync(join(media, "films", "film.mp4"));
  writeFileSync(join(media, "films", "cut.mp4"), whole.subarray(0, whole.length / 3));
  const growing = openSync(join(media, "films", "growing.mp4"), "w");
  writeFileSync(growing, whole.subarray(0, 20_000));
  await on.open("#/films/cut.mp4");
  await on.until("a picture or the words", () => page.evaluate(() => document.querySelector("#player .notice")?.textContent || document.querySelector("video")?.currentTime > 1));
  await on.open("#/films/growing.mp4");
  await on.until("a picture or the words", () => page.evaluate(() => document.querySelector("#player .notice")?.textContent || document.querySelector("video")?.readyState > 0));
  await on.open("#/");
  await on.until("the names", async () => (await shown()).some((name) => name.startsWith("<img src=x")));
  assert.ok((await shown()).some((name) => name.includes("\u202e4pm")) && (await shown()).some((name) => name.length === 255));
  assert.equal(await page.$("#library img[src=x]"), null);
});

test("a page whose server was upgraded meanwhile asks to be loaded anew", async () => {
  await on.open("#/");
  await on.until("the list", () => page.$("#library td.name"));
  const gone = (request) => void (request.url().includes("/assets/shaka") ? request.respond({ status: 404 }) : request.continue());
  await page.setRequestInterception(true);
  page.on("request", gone);
  await page.evaluate(() => (location.hash = "#/dash/index.mpd"));
  await on.text("The server has another version than this page.", "body");
  page.off("request", gone);
  await page.setRequestInterception(false);
  await Promise.all([page.waitForNavigation(), on.press("Load it anew")]);
  await playedBeyond(1);
});

test("a view that is opened while the server is down comes once it is back", async () => {
  let down = false;
  const cut = (request) => void (down || request.url().includes("/assets/Live") ? request.abort() : request.continue());
  await page.setRequestInterception(true);
  page.on("request", cut);
  await on.open("#/");
  await on.until("the list", () => page.$("#library td.name"));
  down = true;
  await page.evaluate(() => (location.hash = "#live"));
  await on.text("The server does not answer.", "body");
  assert.equal(await page.evaluate(() => document.body.innerText.includes("another version")), false);
  page.off("request", cut);
  await page.setRequestInterception(false);
  await on.text("Room for");
});

test("a browser whose storage is full still shows the page, plays and uploads, and says that uploads are not kept until it has room", async () => {
  const link = await Link.open(server);
  const context = await browser.createBrowserContext();
  try {
    const other = await context.newPage();
    await other.evaluateOnNewDocument(() => {
      const { get } = Object.getOwnPropertyDescriptor(window, "localStorage");
      const refuse = () => { throw new DOMException("no room", "QuotaExceededError"); };
      Object.defineProperty(window, "localStorage", { get: () => (window.hasRoom ? get.call(window) : refuse()) });
    });
    const there = new TestPage(other, server);
    await there.open("#/films/film.mp4", link.address);
    await there.until("the picture", () => other.evaluate(() => document.querySelector("video")?.currentTime > 0.5));
    link.bytesPerSecond = 1 << 20;
    const file = join(folder, "kept-nowhere.ts");
    writeFileSync(file, Buffer.alloc(12 << 20, 9));
    await (await there.until("the field", () => other.$("#library input[type=file]:not([webkitdirectory])"))).uploadFile(file);
    await there.text("The storage of this browser is full or forbidden", ".uploads");
    await other.evaluate(() => void (window.hasRoom = true));
    await there.until("its address to be kept", () => other.evaluate(() => localStorage.getItem("isocast.uploads")?.includes("kept-nowhere.ts") && !document.querySelector(".uploads").innerText.includes("full or forbidden")));
    link.bytesPerSecond = 0;
    await there.until("the content", async () => (await fetch(`${server.address}/media/films/kept-nowhere.ts`, { method: "HEAD" })).ok);
  } finally {
    await context.close();
    link.close();
  }
});

test("every view is free of axe's findings, in both schemes, languages and widths, and as wide as its screen", async () => {
  const found = [];
  const scheme = (value) => page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
  for (const [language, size] of [["en", DESKTOP], ["ja", PHONE]]) {
    await page.setViewport(size);
    await page.goto(`${server.address}/`);
    await page.evaluate((language) => localStorage.setItem("isocast.language", language), language);
    for (const view of [...VIEWS, "help/"]) {
      await scheme("light");
      await on.open(view);
      await on.until(view, () => page.$(view === "help/" ? "main h1" : "main .card:not([aria-busy=true])"));
      await new Promise((done) => setTimeout(done, 200));
      const note = (scheme) => (line) => found.push(`${view} ${scheme} ${language} ${size.width}: ${line}`);
      (await on.violations()).forEach(note("light"));
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      if (width > size.width) note("light")(`it is ${width} wide`);
      await on.picture(`${view.replaceAll(/[#/.]/g, "_")}-light-${size.width}`);
      // Another scheme is other colours, and nothing else.
      await scheme("dark");
      (await on.violations(["color-contrast"])).forEach(note("dark"));
      await on.picture(`${view.replaceAll(/[#/.]/g, "_")}-dark-${size.width}`);
    }
  }
  // Faults that are put in are found.
  await page.evaluate(() => document.body.insertAdjacentHTML("beforeend", "<img src='data:,'><p style='color:#777;background:#666'>unreadable</p>"));
  assert.equal((await on.violations(["color-contrast", "image-alt"])).length, 2);
  await page.setViewport(DESKTOP);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
  await page.evaluate(() => localStorage.setItem("isocast.language", "en"));
  assert.deepEqual(found, []);
});

test("the guide is at /help, in both languages, and its commands and configurations are right", async () => {
  if (process.env["GUIDE_PICTURES"]) {
    mkdirSync(join(media, "pictures"));
    const sources = { "Bars": "smptehdbars=size=640x360", "Colours": "gradients=size=640x360:seed=7:n=4", "Mandelbrot": "mandelbrot=size=640x360:start_scale=0.4", "Game of life": "life=size=640x360:mold=9:ratio=0.2:seed=3:life_color=#35c08e:death_color=#12324f", "Test picture": "testsrc2=size=640x360", "Sierpinski": "sierpinski=size=640x360:seed=5" };
    for (const [name, source] of Object.entries(sources)) ffmpeg(join(media, "pictures"), "-f", "lavfi", "-i", source, "-t", "12", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-movflags", "+faststart", `${name}.mp4`);
    await page.setViewport({ ...DESKTOP, height: 420 });
    await on.open("#/pictures/");
    await on.until("the list", () => page.$("#library td.name"));
    await on.press("Grid", "#library");
    await on.until("a picture of each film", () => page.$$eval("#library .thumb", (places) => places.length === 6 && places.every((place) => place.querySelector("img")?.naturalWidth > 0)));
    await on.guidePicture("contents");
    await on.press("List", "#library");
    await page.setViewport(DESKTOP);
  }
  const answer = await fetch(`${server.address}/help`);
  assert.ok(answer.url.endsWith("/help/") && answer.ok);
  await page.goto(`${server.address}/help/`);
  await page.click("header a[hreflang=ja]");
  await on.text("はじめてのサーバー");
  const work = mkdtempSync(join(folder, "guide-"));
  execFileSync("cp", [join(media, "films", "film.mp4"), work]);
  const chapters = ["", "ja/"].flatMap((language) => readdirSync(join(guide, language)).filter((name) => name.endsWith(".md")).map((name) => language + name));
  assert.ok(chapters.length > 30);
  const parsed = [];
  for (const chapter of chapters) {
    const blocks = [...readFileSync(join(guide, chapter), "utf8").matchAll(/^```(\w*)\n([^]*?)^```$/gm)];
    for (const [, kind, text] of blocks.filter(([, kind]) => kind === "toml")) {
      // The folder of the example is one of this test; secrets and certificates are on the reader's machine.
      writeFileSync(join(work, "isocast.toml"), `${text.includes("roots") ? "" : `roots = ["/srv/video"]\n`}${text}`.replaceAll("/srv/video", media));
      const { status, stderr } = spawnSync(program, ["config", "check", "isocast.toml"], { cwd: work, encoding: "utf8" });
      const wrong = stderr.trim().split("\n").filter((line) => line !== "isocast: the configuration is not usable:" && !/ \/etc\/.*No such file/.test(line));
      assert.ok(status === 0 || wrong.length === 0, `${chapter}: ${kind}: ${stderr}`);
    }
    // The program takes each of its commands; those of the measuring tools' program are its tests' own.
    for (const line of blocks.filter(([, kind]) => kind !== "toml").flatMap(([, , text]) => text.replaceAll("\\\n", " ").split("\n"))) {
      for (const part of line.replace(/\s#.*/, "").split(/\s(?:&&|\|\|?|--)\s|\s&$/)) {
        const [, command] = /^(?:\$ )?isocast (?!lab |bench |plan |net )(.*)$/.exec(part.trim()) ?? [];
        if (command === undefined) continue;
        const { status, stderr } = spawnSync("sh", ["-c", `${program} ${command} --help`], { cwd: work, encoding: "utf8" });
        assert.equal(status, 0, `${chapter}: isocast ${command}: ${stderr}`);
        parsed.push(command);
      }
    }
  }
  assert.ok(parsed.length > 60, `${parsed.length}`);
  // Those of the chapters for beginners are run.
  for (const chapter of ["first", "home", "edge", "nginx", "trouble"].flatMap((name) => [`${name}.md`, `ja/${name}.md`])) {
    for (const [, text] of readFileSync(join(guide, chapter), "utf8").matchAll(/^```sh\n([^]*?)^```$/gm)) {
      for (const line of text.split("\n").filter((line) => line !== "" && !line.startsWith("isocast serve"))) {
        const command = line.replaceAll("http://127.0.0.1:8080", server.address).replace(/^isocast/, program).replace("curl ", "curl -fsS ");
        writeFileSync(join(work, "isocast.toml"), `roots = ["${media}"]\n`);
        // `doctor` ends with 1 where it finds something about this machine.
        execFileSync("sh", ["-c", `${command}${line.includes("doctor") ? " || test $? -eq 1" : ""}`], { cwd: work, stdio: "pipe" });
      }
    }
  }
});
