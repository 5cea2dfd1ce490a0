// The page in a real browser, against the real server: `make test-page`. Needs Chromium and ffmpeg.
//
// ISOCAST_BIN names the server's program, CHROMIUM the browser, SCREENSHOTS a folder for pictures of what was seen.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import puppeteer from "puppeteer-core";

const program = process.env["ISOCAST_BIN"] ?? new URL("../../target/debug/isocast", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "isocast-page-"));
const media = join(folder, "media");
const LONG = "Nordlichter-Wanderung_2026-11-22_Kamera-03_Aufzeichnung.mit.langem.Namen.ts";
const SECONDS = 16;
const PHONE = { width: 360, height: 740, hasTouch: true, isMobile: true };
const DESKTOP = { width: 1280, height: 900 };
/** Nothing here takes longer. */
const PATIENCE_MS = 60_000;

let server;
let address = "";
let browser;
let page;

function ffmpeg(...args) {
  execFileSync("ffmpeg", ["-hide_banner", "-loglevel", "error", "-nostdin", "-y", ...args], { cwd: media });
}

before(async () => {
  mkdirSync(join(media, "list"), { recursive: true });
  // A constant rate and a key frame every two seconds, as broadcasters and cameras send.
  const film = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-f", "lavfi", "-i", "sine", "-t", String(SECONDS)];
  const coded = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-keyint_min", "50", "-sc_threshold", "0", "-b:v", "800k", "-minrate", "800k", "-maxrate", "800k", "-bufsize", "400k", "-x264-params", "nal-hrd=cbr", "-c:a", "aac"];
  ffmpeg(...film, ...coded, "-muxrate", "1100000", "-f", "mpegts", LONG);
  ffmpeg("-i", LONG, "-c", "copy", "-movflags", "+faststart", "film.mp4");
  ffmpeg("-i", LONG, "-c", "copy", "-f", "hls", "-hls_time", "2", "-hls_list_size", "0", "list/index.m3u8");
  writeFileSync(join(media, "broken.mp4"), "this is no film");
  writeFileSync(join(media, "old.avi"), "RIFF");
  // Every variable ISOCAST_… is a setting of the server, and the one that names it is none.
  const { ISOCAST_BIN, ...env } = process.env;
  server = spawn(program, ["serve", "--listen", "127.0.0.1:0", "--root", media, "--state", join(folder, "state"), "--set", "plane.memory=256MiB"], { env });
  const said = [];
  address = await new Promise((found, failed) => {
    const look = (bytes) => {
      said.push(bytes);
      const [url] = /http:\/\/127\.0\.0\.1:[1-9]\d*/.exec(said.join("")) ?? [];
      if (url !== undefined) found(url);
    };
    server.stdout.on("data", look);
    server.stderr.on("data", look);
    server.on("exit", () => failed(new Error(`the server ended:\n${said.join("")}`)));
  });
  await until("the server to be ready", async () => (await fetch(`${address}/ready`).catch(() => null))?.ok);
  const sandbox = process.getuid() === 0 ? ["--no-sandbox"] : [];
  const executablePath = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
  browser = await puppeteer.launch({ executablePath, args: [...sandbox, "--autoplay-policy=no-user-gesture-required"] });
  page = await browser.newPage();
  await page.setViewport(DESKTOP);
});

after(async () => {
  await browser?.close();
  server?.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function until(what, look) {
  const end = Date.now() + PATIENCE_MS;
  let last;
  for (;;) {
    last = await look();
    if (last) return last;
    assert.ok(Date.now() < end, `waited in vain for ${what}; on the page: ${await page?.evaluate(() => document.body.innerText).catch(() => "")}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

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
  await until("the list", () => page.$eval("#player", (player) => player.hidden));
  await until("the focus", () => page.evaluate(() => document.activeElement?.textContent === "film.mp4"));
});

for (const [path, words] of [["broken.mp4", /cannot be played here: this browser/], ["old.avi", /cannot be played here: browsers do not play \.avi/], ["gone.mp4", /no such content/]]) {
  test(`${path} is told of in words, without a black box`, async () => {
    await open(path);
    const said = await until("the words", () => page.evaluate(() => document.querySelector("#player .notice:not([hidden])")?.textContent));
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
    const touched = [...document.querySelectorAll("a, button")].filter((e) => e.checkVisibility());
    return touched.map((e) => [e.textContent, e.getBoundingClientRect().height, e.getBoundingClientRect().width]).filter(([, height, width]) => height < 40 || width < 40);
  });
  assert.deepEqual(small, []);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than the screen");
  // Each word of the long name is on one line.
  const broken = await page.evaluate((name) => {
    const link = [...document.querySelectorAll("#library a")].find((link) => link.textContent === name);
    return [...link.childNodes].filter((node) => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return node.nodeType === Node.TEXT_NODE && range.getClientRects().length > 1;
    }).length;
  }, LONG);
  assert.equal(broken, 0);
  await page.setViewport(DESKTOP);
});

test("the live figures have an axis, and a server that has gone is told of", async () => {
  await open("");
  const text = await until("the figures", () => page.evaluate(() => document.querySelector("#live figure")?.textContent));
  assert.match(text, /bit\/s.*2 min ago/);
  assert.match(await page.$eval("#live", (live) => live.textContent), /about \d+ more viewers of 8\.8 Mbit\/s, or \d+ recordings/, "also while nothing runs");
  await picture("desktop");
  server.kill();
  await until("the banner", () => page.$eval("#offline", (banner) => !banner.hidden));
  await picture("desktop-offline");
});
