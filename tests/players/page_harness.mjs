// What the tests of the page share: a server of its own folder, a browser, waiting, and the rules of accessibility.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { basename, join, resolve } from "node:path";
import { Transform } from "node:stream";
import puppeteer from "puppeteer-core";
import { until as lookUntil } from "./wait.mjs";

export const program = resolve(process.env["ISOCAST_BIN"] ?? new URL("../../target/debug/isocast", import.meta.url).pathname);
export const PHONE = { width: 390, height: 740, hasTouch: true, isMobile: true };
export const DESKTOP = { width: 1280, height: 900 };
/** Nothing here takes longer. */
const PATIENCE_MS = 120_000;
const FIREFOX = process.env["FIREFOX"] ?? "/usr/bin/firefox-esr";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A running server. */
export class PageServer {
  /** Serves what `args` name; its state is in `folder`. */
  static async start(folder, args, listen = "127.0.0.1:0") {
    const server = new PageServer();
    Object.assign(server, { folder, args });
    await server.begin(listen);
    return server;
  }

  async begin(listen) {
    // Every variable ISOCAST_… is a setting of the server, and the variable that names it is none.
    const { ISOCAST_BIN, ...env } = process.env;
    this.child = spawn(program, ["serve", "--listen", listen, "--state", join(this.folder, "state"), ...this.args], { env });
    const said = [];
    this.address = await new Promise((found, failed) => {
      const look = (bytes) => {
        said.push(bytes);
        const [, port] = /http:\/\/[\d.]+:([1-9]\d*)/.exec(said.join("")) ?? [];
        // Where others reach the server, it offers the first account by a code.
        this.code ??= /#access\?code=([\w-]+)/.exec(said.join(""))?.[1];
        if (port !== undefined) found(`http://127.0.0.1:${port}`);
      };
      this.child.stdout.on("data", look);
      this.child.stderr.on("data", look);
      this.child.on("exit", () => failed(new Error(`the server ended:\n${said.join("")}`)));
    });
    await until("the server to be ready", async () => (await fetch(`${this.address}/ready`).catch(() => null))?.ok);
    this.said = said;
  }

  /** Kills it, and starts it again at the same address. */
  async restart() {
    const ended = new Promise((done) => this.child.once("exit", done));
    this.child.kill("SIGKILL");
    await ended;
    await this.begin(this.address.replace("http://", ""));
  }

  stop() {
    this.child?.kill();
  }

  /** A request of this process, with the name and password in `login` once the server has accounts. */
  fetch(path, { headers, ...init } = {}) {
    const login = this.login && { Authorization: `Basic ${Buffer.from(this.login).toString("base64")}` };
    return fetch(`${this.address}/${path}`, { ...init, headers: { ...login, ...headers } });
  }

  async json(path) {
    return (await this.fetch(`api/v1/${path}`)).json();
  }

  async patch(settings) {
    const answer = await fetch(`${this.address}/api/v1/settings`, { method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify(settings) });
    assert.equal(answer.status, 200, await answer.text());
  }
}

/** The reason for which a browser's tests are skipped; false: it is installed. */
export const isMissing = (kind) => kind === "firefox" && !existsSync(FIREFOX) && `${FIREFOX} is not installed`;

/** A browser: Chromium, or Debian's Firefox by WebDriver BiDi; its user reads `language`. */
export function launch(kind = "chrome", language = "en") {
  if (kind === "firefox") return puppeteer.launch({ browser: "firefox", executablePath: FIREFOX, extraPrefsFirefox: { "intl.accept_languages": language, "media.autoplay.default": 0, "media.autoplay.blocking_policy": 0 } });
  const sandbox = process.getuid() === 0 ? ["--no-sandbox"] : [];
  return puppeteer.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: [...sandbox, `--accept-lang=${language}`, "--autoplay-policy=no-user-gesture-required"] });
}

/** The texts of the page in a language. */
export async function catalogue(language) {
  const web = new URL("../../web/", import.meta.url);
  const source = new URL(`src/texts/${language}.ts`, web).pathname;
  const { outputFiles } = createRequire(new URL("package.json", web))("esbuild").buildSync({ entryPoints: [source], bundle: true, format: "esm", write: false });
  return (await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`))[language];
}

/** A way to a server that limits the bytes a second that each connection sends (`bytesPerSecond`, none: no limit), or is cut. */
export class Link {
  static async open(server) {
    const link = new Link();
    const ends = (link.ends = new Set());
    const far = Number(new URL(server.address).port);
    link.listener = createServer((near) => {
      if (link.isCut) return void near.destroy();
      const upstream = connect(far, "127.0.0.1");
      const paced = new Transform({ transform: (bytes, _, done) => void setTimeout(() => done(null, bytes), link.bytesPerSecond ? (1000 * bytes.length) / link.bytesPerSecond : 0) });
      for (const [one, other] of [[near, upstream], [upstream, near]]) {
        ends.add(one);
        one.on("error", () => {}).on("close", () => (ends.delete(one), other.destroy()));
      }
      near.pipe(paced).pipe(upstream).pipe(near);
    });
    await new Promise((done) => link.listener.listen(0, "127.0.0.1", done));
    link.address = `http://127.0.0.1:${link.listener.address().port}`;
    return link;
  }

  cut() {
    this.isCut = true;
    for (const end of this.ends) end.destroy();
  }

  mend() {
    this.isCut = false;
  }

  close() {
    this.cut();
    this.listener.close();
  }
}

/** Chooses a folder in the field for folders. WebDriver chooses files only: they get the paths that a browser gives the files of a folder. */
export async function chooseFolder(kind, field, folder) {
  if (kind === "chrome") return field.uploadFile(folder);
  await field.evaluate((field, folder) => {
    const name = ({ target }) => [...target.files].forEach((file) => Object.defineProperty(file, "webkitRelativePath", { value: `${folder}/${file.name}` }));
    field.addEventListener("change", name, { capture: true, once: true });
  }, basename(folder));
  return field.uploadFile(...readdirSync(folder).map((name) => join(folder, name)));
}

/** Looks until `look` finds something, also while a navigation destroys what it looks at; `page` is quoted where it does not. */
export async function until(what, look, page = undefined) {
  try {
    return await lookUntil(what, look, PATIENCE_MS);
  } catch (error) {
    assert.fail(`${error.message}; on the page: ${await page?.evaluate(() => document.body.innerText).catch(() => "")}`);
  }
}

/** Makes media files with ffmpeg. */
export function ffmpeg(cwd, ...args) {
  execFileSync("ffmpeg", ["-hide_banner", "-loglevel", "error", "-nostdin", "-y", ...args], { cwd });
}

/** A page of one server. */
export class TestPage {
  constructor(page, server) {
    Object.assign(this, { page, server });
  }

  async open(hash, address = this.server.address) {
    await this.page.goto("about:blank");
    await this.page.goto(`${address}/${hash}`);
  }

  until(what, look) {
    return until(what, look, this.page);
  }

  /** Waits for words within `place`. */
  text(part, place = "main") {
    return this.until(part, () => this.page.evaluate((part, place) => document.querySelector(place)?.innerText.includes(part), part, place));
  }

  /** Presses the button with these words or this label within `place`, as soon as it is there. */
  press(words, place = "body") {
    return this.until(`the button ${words}`, () =>
      this.page.evaluate((words, place) => {
        const button = [...document.querySelectorAll(`${place} button:enabled`)].find((button) => (button.getAttribute("aria-label") ?? button.textContent.trim()) === words);
        button?.click();
        return button !== undefined;
      }, words, place),
    );
  }

  /** Fills the fields of the open form, by the names next to them. */
  async fill(fields, place = "form.entry") {
    for (const [name, value] of Object.entries(fields)) {
      const field = await this.until(`the field ${name}`, async () =>
        (await this.page.evaluateHandle((place, name) => [...document.querySelectorAll(`${place} label`)].find((label) => label.querySelector("code")?.textContent === name || label.textContent.trim() === name)?.querySelector("input, select, textarea"), place, name)).asElement(),
      );
      if ((await field.evaluate((field) => field.tagName)) === "SELECT") await field.select(value);
      else {
        await field.evaluate((field) => field.select());
        await this.page.keyboard.press("Backspace");
        await field.type(value);
      }
    }
  }

  async picture(name) {
    if (process.env["SCREENSHOTS"]) await this.page.screenshot({ path: join(process.env["SCREENSHOTS"], `${name}.png`) });
  }

  /** A picture of the guide. */
  async guidePicture(name) {
    if (process.env["GUIDE_PICTURES"]) await this.page.screenshot({ path: join(process.env["GUIDE_PICTURES"], `${name}.webp`), type: "webp", quality: 70 });
  }

  /** The violations of axe's rules, of all or of these, a line each. */
  async violations(rules = undefined) {
    if (!(await this.page.evaluate(() => "axe" in window))) await this.page.evaluate(AXE);
    const run = (rules) => window.axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
    const { violations } = await this.page.evaluate(run, rules ?? null);
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 160)} (${failureSummary?.split("\n")[1]?.trim() ?? ""})`).join(" | ")}`);
  }
}
