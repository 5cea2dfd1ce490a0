// Players in Debian's Chromium: the video element itself, and hls.js, dash.js and Shaka with CMCD.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import puppeteer from "puppeteer-core";

import { DASH, FILES, HLS, HLS_FMP4 } from "./media.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const library = (path) => readFileSync(join(here, "node_modules", path), "utf8");

/** Each is a library (none: the element alone) and how it is given the address, run in the page. */
export const WEB_PLAYERS = {
  "Chromium": {
    contents: { "MP4": FILES.MP4, "MP4, index at the end": FILES["MP4, index at the end"], "Matroska": FILES.Matroska },
    begin: (url) => {
      window.video.src = url;
    },
  },
  "hls.js": {
    contents: { "HLS, MPEG-TS": HLS, "HLS, fMP4": HLS_FMP4 },
    library: "hls.js/dist/hls.min.js",
    begin: (url) => {
      const hls = new window.Hls({ cmcd: {}, enableWorker: false });
      hls.on("hlsError", (_, data) => window.wrong.push(`${data.type} ${data.details}${data.fatal ? " (fatal)" : ""}`));
      hls.loadSource(url);
      hls.attachMedia(window.video);
    },
  },
  "dash.js": {
    contents: { "DASH": DASH },
    library: "dashjs/dist/modern/umd/dash.all.min.js",
    begin: (url) => {
      const player = window.dashjs.MediaPlayer().create();
      player.updateSettings({ streaming: { cmcd: { enabled: true } } });
      player.on("error", (event) => window.wrong.push(`${event.error?.code} ${event.error?.message}`));
      player.initialize(window.video, url, true);
    },
  },
  "Shaka": {
    contents: { "DASH": DASH, "HLS, fMP4": HLS_FMP4 },
    library: "shaka-player/dist/shaka-player.compiled.js",
    begin: async (url) => {
      const player = new window.shaka.Player();
      await player.attach(window.video);
      player.configure({ cmcd: { enabled: true } });
      player.addEventListener("error", (event) => window.wrong.push(`${event.detail.code}`));
      await player.load(url).catch((error) => window.wrong.push(`${error.code}`));
    },
  },
};

let shared;

/** The one browser; each player has a context of its own in it. */
function chromium() {
  shared ??= puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--autoplay-policy=no-user-gesture-required", "--mute-audio", "--disable-gpu",
      // Pages in the background play on.
      "--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding"],
  });
  return shared;
}

/** A page that plays. */
export class Browser {
  static async open(server, name, file) {
    const browser = new Browser();
    const { library: code, begin } = WEB_PLAYERS[name];
    browser.context = await (await chromium()).createBrowserContext();
    const page = (browser.page = await browser.context.newPage());
    // The player is put into a page of the server itself: the same origin, whatever the server allows to others.
    await page.setBypassCSP(true);
    await page.goto(`${server.base}/health`);
    await page.setContent("<video controls style='width:320px'></video>");
    await page.evaluate(() => {
      window.wrong = [];
      window.video = document.querySelector("video");
      window.video.addEventListener("error", () => window.wrong.push(`element: ${window.video.error.message}`));
    });
    if (code) await page.addScriptTag({ content: library(code) });
    await page.evaluate(begin, server.url(file));
    await page.evaluate(() => {
      window.video.play().catch(() => {});
    });
    return browser;
  }

  async running() {}

  async position() {
    const { at, wrong } = await this.page.evaluate(() => ({ at: window.video.seeking ? -1 : window.video.currentTime, wrong: window.wrong }));
    const fatal = wrong.find((text) => text.includes("fatal") || text.startsWith("element"));
    if (fatal) throw new Error(fatal);
    return at;
  }

  async seek(to) {
    await this.page.evaluate((time) => { window.video.currentTime = time; }, to);
    return to;
  }
  pause() { return this.page.evaluate(() => window.video.pause()); }
  resume() { return this.page.evaluate(() => { window.video.play().catch(() => {}); }); }

  async close() {
    await this.context.close();
  }
}

/** Ends the browser, if one was started. */
export async function closeBrowser() {
  await (await shared)?.close();
}
