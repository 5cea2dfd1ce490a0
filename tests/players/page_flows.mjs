// The flows of a server's life from its first minute, each in Chromium and in Debian's Firefox, in English on a desktop and in Japanese on a phone:
// set-up, log-in, an upload that is cut, search, playback, streams that are stopped, settings, disks, forms, links. Run by `make test-page`; without
// Firefox its part is named as skipped.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, openSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { catalogue, chooseFolder, DESKTOP, ffmpeg, isMissing, launch, Link, PageServer, PHONE, program, TestPage, until } from "./page_harness.mjs";

const FILM_S = 40;
const DISK_BYTES = 96 << 20;
const VARIANTS = [
  ["chrome", "en", DESKTOP],
  ["firefox", "ja", PHONE],
];

for (const [kind, language, size] of VARIANTS) describe(`${kind}, ${language}, ${size.width} px`, { skip: isMissing(kind) }, () => {
  const folder = mkdtempSync(join(tmpdir(), "isocast-page-flows-"));
  const media = join(folder, "media");
  const disks = [0, 1, 2, 3].map((number) => join(folder, `disk${number}`));
  const config = join(folder, "isocast.toml");
  const errors = [];
  let t;
  let server;
  let browser;
  let page;
  let on;

  before(async () => {
    t = await catalogue(language);
    mkdirSync(media);
    writeFileSync(config, "plane.memory = '256MiB'\naccess.plain_passwords = true\n");
    const film = ["-f", "lavfi", "-i", `testsrc2=size=320x180:rate=25:duration=${FILM_S}`, "-f", "lavfi", "-i", `sine=duration=${FILM_S}`, "-f", "lavfi", "-i", `sine=frequency=800:duration=${FILM_S}`];
    ffmpeg(folder, ...film, "-map", "0", "-map", "1", "-map", "2", "-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-b:v", "800k", "-c:a", "aac", "-movflags", "+faststart", "film.mp4");
    ffmpeg(folder, "-i", "film.mp4", "-t", "16", "-c", "copy", "-f", "mpegts", "film.ts");
    for (const disk of disks) {
      openSync(disk, "w");
      truncateSync(disk, DISK_BYTES);
    }
    execFileSync(program, ["volume", "create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes", disks[0], disks[1]]);
    server = await PageServer.start(folder, ["--root", media, "--volume", `${disks[0]},${disks[1]}`, "--config", config], "0.0.0.0:0");
    browser = await launch(kind, language);
    page = await browser.newPage();
    await page.setViewport(size);
    page.on("pageerror", (error) => errors.push(error.message));
    on = new TestPage(page, server);
  });

  after(async () => {
    await browser?.close();
    server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const playedBeyond = (seconds) => on.until(`${seconds} s`, () => page.evaluate((s) => (document.querySelector("video")?.currentTime ?? 0) > s, seconds));
  const guidePicture = async (name) => kind === "chrome" && (await on.guidePicture(name));
  const inForce = async (key) => (await server.json("settings")).find((entry) => entry.key === key).value;
  const put = (path, bytes) => server.fetch(`media/${path}`, { method: "PUT", body: bytes });
  const length = async (path) => Number((await server.fetch(`media/${path}`, { method: "HEAD" })).headers.get("Content-Length"));

  test("a server is set up in four steps", async () => {
    await on.until("the code", () => server.code);
    await page.goto(`${server.address}/#access?code=${server.code}`);
    await on.text(`1. ${t.steps.administrator}`);
    assert.equal(await page.evaluate(() => document.documentElement.lang), language, "the language of the browser");
    await page.type("input[name=name]", "ada");
    await page.type("input[name=password]", "a long one");
    await page.$eval("form", (form) => form.requestSubmit());
    await on.text(t.foldersServed);
    server.login = "ada:a long one";
    await page.type("input[name=folder]", "films");
    await on.press(t.newFolder);
    await on.text("✓ films");
    await on.picture(`setup-${kind}`);
    await on.press(t.nextStep);
    await page.type("textarea[name=hosts]", "media.example");
    await on.press(t.save);
    await on.until("the name", async () => (await inForce("access.hosts"))[0] === "media.example");
    await page.select("main select", "none");
    await on.until("no reading", async () => (await fetch(`${server.address}/media/?format=json`)).status === 401);
    await on.press(t.nextStep);
    await on.text(t.tlsOff);
    await page.click("a.button.primary");
    await on.until("the folder", () => page.$("#library td.name"));
  });

  test("an administrator logs out, is refused with a wrong password, and logs in", async () => {
    const logIn = async (password) => {
      await on.until("the form", () => page.$("input[name=password][autocomplete=current-password]"));
      await page.$eval("form", (form, password) => {
        Object.assign(form.elements.name, { value: "ada" });
        Object.assign(form.elements.password, { value: password });
        form.requestSubmit();
      }, password);
    };
    await on.open("#access");
    await on.press(t.logOut);
    await logIn("a wrong one");
    await on.until("the refusal", () => page.$("main .notice[role=alert]"));
    await logIn("a long one");
    await on.text(t.loggedInAs("ada"));
  });

  test("a folder's upload is cut by the server's death, goes on, and after a reload goes on once it is chosen again", async () => {
    const sent = join(folder, "sent");
    const there = join(media, "sent");
    [sent, there].forEach((each) => mkdirSync(each));
    const large = Buffer.alloc(24 << 20, 3);
    for (let at = 0; at < large.length; at += 4096) large.writeUInt32LE(at, at);
    writeFileSync(join(sent, "large.ts"), large);
    writeFileSync(join(sent, "small.txt"), "small");
    const link = await Link.open(server);
    try {
      link.bytesPerSecond = 2 << 20;
      await on.open("#/", link.address);
      const choose = async () => chooseFolder(kind, await on.until("the field", () => page.$("#library input[type=file][webkitdirectory]")), sent);
      const uploads = () => server.json("uploads");
      const patched = [];
      page.on("request", (request) => request.method() === "PATCH" && request.url().includes("/upload/") && patched.push(Number(request.headers()["upload-offset"])));
      // The page counts the bytes that sockets hold, too: only those on the disk outlast the server.
      const onDisk = () => readdirSync(there).filter((name) => name.startsWith(".isocast-upload-")).reduce((bytes, name) => bytes + statSync(join(there, name)).size, 0);
      await choose();
      await on.until("bytes on the disk", () => onDisk() > 1 << 20);
      link.cut();
      await server.restart();
      // A start finds the bytes of a killed request during its other work: a client that is back earlier sends them again.
      await until("the part", () => readdirSync(there).some((name) => name.startsWith(".isocast-upload-kept-")));
      link.mend();
      // Without a touch it continues: bytes that were durable are not sent again.
      await on.until("a request that continues", () => patched.at(-1) > 0);
      await on.picture("upload-going-on");
      await page.reload();
      await on.text(t.unfinishedUploads);
      await on.picture("upload-unfinished");
      const left = await until("the bytes so far", async () => (await uploads()).find(({ offset, length }) => offset >= patched.at(-1) && length === large.length));
      patched.length = 0;
      link.bytesPerSecond = 0;
      await choose();
      // The small file is there from the first time: the page asks.
      await on.press(t.skipIt, ".uploads");
      await until("the content", async () => (await length("sent/large.ts")) === large.length);
      page.removeAllListeners("request");
      assert.ok(patched[0] > 0 && patched[0] >= left.offset, `it went on at ${patched}, and ${left.offset} were there`);
      const stored = Buffer.from(await (await server.fetch("media/sent/large.ts?rate=max")).arrayBuffer());
      assert.ok(stored.equals(large));
      await on.until("no upload that waits", async () => (await uploads()).length === 0);
    } finally {
      link.close();
    }
  });

  test("films are uploaded and found", async () => {
    await on.open("#/films/");
    await (await on.until("the field", () => page.$("#library input[type=file]:not([webkitdirectory])"))).uploadFile(join(folder, "film.mp4"), join(folder, "film.ts"));
    await on.until("both", async () => (await page.$$("#library td.name")).length === 2);
    await on.open("#/");
    await on.until("the search", () => page.$("#library input[type=search]"));
    await page.type("#library input[type=search]", "film.ts");
    await on.until("the find", () => page.$("#found li"));
  });

  test("30 s of a film play without a stall while an upload runs, and its stream is stopped", async () => {
    let uploading = true;
    const upload = (async () => {
      for (let nth = 0; uploading; nth += 1) await put(`up-${nth % 4}.ts`, Buffer.alloc(8 << 20, nth));
    })();
    await on.open("#/films/film.mp4");
    await playedBeyond(30);
    const line = await page.$eval("#player [role=status]", (line) => line.textContent);
    uploading = false;
    await upload;
    assert.ok(line.includes(t.noInterruption), line);
    await on.picture(`player-${kind}`);
    await guidePicture("player");
    await on.text(t.soundTracksUnchosen(2), "#player");
    const viewer = spawn("curl", ["-s", "-o", "/dev/null", "--limit-rate", "50k", "-u", server.login, `${server.address}/media/films/film.mp4`]);
    try {
      await on.open("#live");
      await on.until("the one stream", async () => (await page.$$(".streams tbody tr")).length === 1 && (await server.json("streams")).length === 1);
      await guidePicture("live");
      await on.press(t.explainNamed("films/film.mp4"), ".streams");
      const noReason = ["", t.reading, t.streamEnded];
      await on.until("its reasons", async () => (await page.$$eval("dialog[open] li", (lines) => lines.map((line) => line.textContent))).some((line) => !noReason.includes(line)));
      await on.press(t.close, "dialog[open]");
      await on.press(t.stop, ".streams");
      await on.press(t.stop, "dialog[open]");
      await until("its end", async () => (await server.json("streams")).length === 0);
    } finally {
      viewer.kill();
    }
  });

  test("films are sought in", async () => {
    for (const name of ["film.mp4", "film.ts"]) {
      await on.open(`#/films/${name}`);
      await playedBeyond(0);
      await page.$eval("video", (video) => void (video.currentTime = 10));
      await playedBeyond(11);
    }
  });

  test("a setting is changed and undone", async () => {
    const before = await inForce("sessions.hold");
    await on.open("#settings");
    const field = await on.until("the setting", async () => (await page.evaluateHandle(() => [...document.querySelectorAll(".setting")].find((form) => form.querySelector("code").textContent === "sessions.hold"))).asElement());
    await field.$eval("input", (input) => input.select());
    await (await field.$("input")).type("77s");
    await field.$eval("button.primary", (button) => button.click());
    await on.text(t.settingChanged("sessions.hold"));
    assert.equal(await inForce("sessions.hold"), "77s");
    await on.press(t.undo("sessions.hold"));
    await on.until("the value of before", async () => (await inForce("sessions.hold")) === before);
  });

  test("a disk of a volume is replaced, and one is added, with what follows said first", async () => {
    const volume = async () => (await server.json("volumes"))[0];
    const order = async (words, device) => {
      if (device !== undefined) await on.fill({ [t.device]: device }, "form.order");
      await on.press(words, "form.order");
    };
    const nth = (number) => `${t.diskNumber(number)} · ${disks[number === 0 ? 2 : 3]}`;
    // The root takes uploads first: a job of the server's own copies into the volume where that is named.
    assert.equal((await put("on-disks.ts", Buffer.alloc(9_000_000, 7))).status, 201);
    await on.open("#health");
    await on.text("films");
    await on.picture(`volume-${kind}`);
    await guidePicture("volume");
    const replace = `${t.replaceDisk}: ${t.diskNumber(0)} · ${disks[0]}`;
    await on.press(replace);
    await on.text(t.replaceDiskWarning);
    await order(t.replaceDisk, config);
    await on.until("the refusal", () => page.evaluate(() => document.querySelector("main .notice[role=alert]")?.textContent));
    assert.equal((await volume()).disks[0].path, disks[0], "a disk that holds something is not taken");
    await on.press(replace);
    await order(t.replaceDisk, disks[2]);
    await on.until("the new disk", async () => (await volume()).disks[0].path === disks[2]);
    await on.until("its filling", async () => (await volume()).upkeep === null && (await volume()).disks[0].state === "active");
    await on.text(nth(0));
    await on.press(t.addDisk);
    await order(t.addDisk, disks[3]);
    await on.until("the third disk", async () => (await volume()).disks.length === 3 && (await volume()).upkeep === null);
    await on.text(nth(2));
    for (const words of [t.scrub, t.rebalance]) {
      await on.press(words);
      await order(words);
      await on.until(`the end of ${words}`, async () => (await volume()).upkeep === null && (words === t.rebalance || (await volume()).last_scrub !== null));
    }
    await on.press(`${t.removeDisk}: ${nth(2)}`);
    await order(t.removeDisk);
    await on.until("its leaving", async () => (await volume()).disks[2].state === "left");
    await on.text(t.diskStates.left);
    await on.picture(`volume-after-${kind}`);
    // As the page says: the next start is to name the disks of now.
    server.args[server.args.indexOf("--volume") + 1] = `${disks[2]},${disks[1]}`;
  });

  test("forms and dialogs are free of axe's findings, and as wide as their screen", async () => {
    const found = [];
    const look = async (place) => {
      (await on.violations()).forEach((line) => found.push(`${place}: ${line}`));
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      if (width > size.width) found.push(`${place} is ${width} wide`);
      await on.picture(`form-${place.replaceAll(/[^\w-]/g, "_")}-${kind}`);
    };
    await server.fetch("api/v1/groups/crew/members/ada", { method: "PUT" });
    await server.fetch("api/v1/groups/crew/grant", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ folder: "/films", rights: ["read"] }) });
    await on.open("#access");
    await on.text(`${t.group} crew`);
    await page.$$eval("main details", (all) => all.forEach((details) => (details.open = true)));
    await page.$eval(`form[aria-label='${t.newToken}'] input[name=label]`, (field) => (field.value = "camera"));
    await on.press(t.newToken);
    await on.until("its text", () => page.$("main input[readonly]"));
    await look("access");
    await on.open("#/films/");
    await on.press(t.details("film.mp4"), "#library");
    await page.$$eval("dialog[open] details", (all) => all.forEach((details) => (details.open = true)));
    await on.press(t.makeLink, "dialog[open]");
    await on.until("the link", () => page.$("dialog[open] details input[readonly]"));
    await on.press(t.qrCode, "dialog[open]");
    await look("details");
    for (const words of [t.rename, t.moveTo, t.copyTo]) {
      await on.open("#/films/");
      await on.press(t.details("film.mp4"), "#library");
      await on.press(words, "dialog[open]");
      await on.until("its field", () => page.$("dialog[open] form input"));
      await look(`names-${words}`);
    }
    await on.open("#health");
    await on.press(t.addDisk);
    await page.$$eval("main details", (all) => all.forEach((details) => (details.open = true)));
    await look("volume");
    for (const [array, words] of Object.entries(t.addTo)) {
      await on.open("#settings");
      await on.press(words);
      await on.until("its form", () => page.$("form.entry"));
      await look(`settings-${array}`);
    }
    const alarm = { severity: "serious", kind: "folder_away", about: "/mnt/a", text: "it differs from the folder at the start", why: "its contents are answered with 503", remedy: "findmnt --target /mnt/a --output SOURCE,TARGET,FSTYPE,OPTIONS" };
    const body = JSON.stringify([alarm]);
    // A request that Firefox began before the interception cannot be continued, and needs not.
    const answer = (request) => void (request.url().endsWith("/alarms") ? request.respond({ contentType: "application/json", body }) : request.continue()).catch(() => {});
    await page.setRequestInterception(true);
    page.on("request", answer);
    await on.open("#health");
    await on.text(alarm.remedy);
    await look("remedy");
    page.off("request", answer);
    await page.setRequestInterception(false);
    assert.deepEqual(found, []);
  });

  test("a link opens a content in a browser without a log-in, and not once it has ended", async () => {
    const context = await browser.createBrowserContext();
    try {
      // A busy machine takes seconds for a browser's page: the link begins when that is there.
      const other = await context.newPage();
      const share = await server.fetch("api/v1/shares", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ path: "films/film.mp4", expires_seconds: 10 }) });
      const { address } = await share.json();
      // WebDriver reports no end of a navigation that Firefox turns into a player.
      void other.goto(server.address + address).catch(() => {});
      await until("the picture", () => other.evaluate(() => document.querySelector("video")?.currentTime > 0.2).catch(() => false));
      await until("the end of the link", async () => (await fetch(server.address + address, { method: "HEAD" })).status === 403);
      assert.equal((await other.goto(`${server.address}${address}&again`)).status(), 403);
      assert.equal((await fetch(`${server.address}/media/films/film.mp4`)).status, 401, "a login is asked for");
    } finally {
      await context.close();
    }
  });

  test("no flow left an error in the page", () => assert.deepEqual(errors, []));
});
