// The first minutes of a server, in Chromium and in Debian's Firefox: set-up in four steps, an upload, a film, search, and a setting that is undone.
// Run by `make test-page`; without Firefox its part is named as skipped.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DESKTOP, ffmpeg, launch, PageServer, TestPage } from "./page_harness.mjs";

for (const kind of ["chrome", "firefox"]) {
  const program = process.env["FIREFOX"] ?? "/usr/bin/firefox-esr";
  const skip = kind === "firefox" && !existsSync(program) ? `${program} is not installed` : false;
  test(`${kind}: a server is set up, films are uploaded, found and played, a setting is undone`, { skip }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "isocast-page-setup-"));
    const media = join(folder, "media");
    const config = join(folder, "isocast.toml");
    mkdirSync(media);
    writeFileSync(config, "plane.memory = '256MiB'\naccess.plain_passwords = true\n");
    ffmpeg(folder, "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=16", "-f", "lavfi", "-i", "sine=duration=16", "-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-c:a", "aac", "-movflags", "+faststart", "film.mp4");
    ffmpeg(folder, "-i", "film.mp4", "-c", "copy", "-f", "mpegts", "film.ts");
    const server = await PageServer.start(folder, ["--root", media, "--config", config], "0.0.0.0:0");
    const browser = await launch(kind);
    try {
      const page = await browser.newPage();
      await page.setViewport(DESKTOP);
      const on = new TestPage(page, server);
      const errors = [];
      page.on("pageerror", (error) => errors.push(error.message));
      await on.until("the code", () => server.code);
      await page.goto(`${server.address}/#access?code=${server.code}`);
      await on.text("1. Administrator");
      await page.type("input[name=name]", "ada");
      await page.type("input[name=password]", "a long one");
      await page.$eval("form", (form) => form.requestSubmit());
      await on.text("These folders are served");
      await page.type("input[name=folder]", "films");
      await on.press("New folder");
      await on.text("✓ films");
      await on.picture(`setup-${kind}`);
      await on.press("Next");
      await page.type("textarea[name=hosts]", "media.example");
      await on.press("Save");
      await on.until("the name", async () => (await page.evaluate(async () => (await (await fetch("api/v1/settings")).json()).find(({ key }) => key === "access.hosts").value))[0] === "media.example");
      await page.select("main select", "none");
      await on.until("no reading", async () => (await fetch(`${server.address}/media/?format=json`)).status === 401);
      await on.press("Next");
      await on.text("TLS is off");
      await page.click("a.button.primary");
      await on.until("the folder", () => page.$("#library td.name"));

      await page.goto(`${server.address}/#/films/`);
      const input = await on.until("the field", () => page.$("#library input[type=file]:not([webkitdirectory])"));
      await input.uploadFile(join(folder, "film.mp4"), join(folder, "film.ts"));
      const names = () => page.$$eval("#library td.name", (cells) => cells.map((cell) => cell.textContent));
      await on.until("both", async () => (await names()).length === 2);
      for (const name of ["film.mp4", "film.ts"]) {
        await page.goto(`${server.address}/#/films/${name}`);
        await on.until(`${name} plays`, () => page.evaluate(() => document.querySelector("video")?.currentTime > 2));
        await page.$eval("video", (video) => void (video.currentTime = 10));
        await on.until(`${name} plays on`, () => page.evaluate(() => document.querySelector("video")?.currentTime > 11));
      }
      await page.goto(`${server.address}/#/`);
      await on.until("the search", () => page.$("#library input[type=search]"));
      await page.type("#library input[type=search]", "film.ts");
      await on.until("the find", () => page.$("#found li"));

      await page.goto(`${server.address}/#settings`);
      const field = await on.until("the setting", async () => (await page.evaluateHandle(() => [...document.querySelectorAll(".setting")].find((form) => form.querySelector("code").textContent === "sessions.hold"))).asElement());
      await field.$eval("input", (input) => input.select());
      await (await field.$("input")).type("77s");
      await field.$eval("button.primary", (button) => button.click());
      await on.press("Undo sessions.hold");
      await on.until("the default", () => page.evaluate(async () => (await (await fetch("api/v1/settings")).json()).find(({ key }) => key === "sessions.hold").value === "1min"));
      assert.deepEqual(errors, []);
    } finally {
      await browser.close();
      server.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
