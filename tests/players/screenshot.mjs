// The picture of the page in the READMEs: the live view of a server of the demo videos with viewers, in Chromium.
//
//   node screenshot.mjs --program target/release/isocast --media demo/media --out docs/screenshot.webp
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import puppeteer from "puppeteer-core";

import { sleep, until } from "./wait.mjs";

const { values } = parseArgs({
  options: {
    program: { type: "string", default: "target/release/isocast" },
    media: { type: "string", default: "demo/media" },
    out: { type: "string", default: "docs/screenshot.webp" },
  },
});
/** Streams: `curl` takes each at its rate. They come one after the other, so that the graph has steps. */
const VIEWERS = 8;
const APART_MS = 5_000;
const FILM = "clock-8.8Mbit.mp4";
const FILM_HD = "clock-25Mbit.ts";

const state = mkdtempSync(join(tmpdir(), "isocast-screenshot-"));
const server = spawn(values.program, ["serve", "--listen", "127.0.0.1:0", "--root", values.media, "--state", state]);
let said = "";
server.stderr.on("data", (bytes) => (said += bytes));
const address = await until("the address", () => /on (http:\/\/[\d.]+:\d+)\//.exec(said)?.[1], 60_000);
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--autoplay-policy=no-user-gesture-required", "--mute-audio"],
});
const page = await browser.newPage();
await page.setViewport({ width: 1000, height: 1010, deviceScaleFactor: 1.5 });
await page.goto(`${address}/#live`);
const viewers = [];
for (let nth = 0; nth < VIEWERS; nth += 1) {
  const film = nth % 2 === 0 ? FILM : FILM_HD;
  viewers.push(spawn("curl", ["-s", "-o", "/dev/null", "-A", `viewer ${nth}`, `${address}/media/${film}`]));
  await sleep(APART_MS);
}
await until("the streams", () => page.evaluate((count) => document.querySelectorAll(".streams tbody tr").length === count, VIEWERS), 60_000);
await page.screenshot({ path: values.out, type: "webp", quality: 80 });
await browser.close();
for (const child of [...viewers, server]) child.kill();
rmSync(state, { recursive: true, force: true });
