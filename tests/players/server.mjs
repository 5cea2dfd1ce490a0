// A server of our own for one player, and a tap between the two that notes each answer's status and first byte.

import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";

import { sleep, until } from "./wait.mjs";

/** For a server to start while others do. */
const START_PATIENCE_MS = 90_000;

/** Measures the disk of `media` once, for all servers. */
export function calibrate({ program, media, work }) {
  execFileSync(program, ["disk", "calibrate", "--time", "2s", "--state", join(work, "calibrated"), media]);
}

/** A running server; `base` is where players reach it. */
export class Server {
  /**
   * Starts one. `link` is the rate of its link in bits per second (none: that of the interface), `settings` further
   * `--set KEY=VALUE`.
   */
  static async start({ program, media, work, link, settings = [], tapped = true }) {
    const state = mkdtempSync(join(work, "server-"));
    cpSync(join(work, "calibrated"), join(state, "kept"), { recursive: true });
    const access = join(state, "access.log");
    const events = join(state, "events.jsonl");
    for (const file of [access, events]) writeFileSync(file, "");
    const set = [`log.access=${access}`, `log.events=${events}`, "plane.memory=128M", ...settings];
    if (link) set.push(`links.lo=${Math.round(link / 1000)}k`);
    const child = spawn(
      program,
      ["serve", "--listen", "127.0.0.1:0", "--root", media, "--state", join(state, "kept"), ...set.flatMap((s) => ["--set", s])],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    const server = new Server();
    Object.assign(server, { child, access, events, said: "", notes: [] });
    const hear = (text) => (server.said += text);
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    const address = await until("the server's address", () => /on http:\/\/([\d.]+:\d+)/.exec(server.said)?.[1], START_PATIENCE_MS);
    server.direct = `http://${address}`;
    await until("/ready", async () => (await fetch(`${server.direct}/ready`)).status === 200, START_PATIENCE_MS);
    if (tapped) await server.tap(Number(address.split(":")[1]));
    server.base = tapped ? `http://127.0.0.1:${server.listener.address().port}` : server.direct;
    return server;
  }

  /** Listens in front of the server. What one side closes or resets, the other sees at once. */
  async tap(port) {
    this.listener = createServer({ noDelay: true }, (player) => {
      const upstream = connect({ port, host: "127.0.0.1", noDelay: true });
      let asked = null;
      player.on("data", (bytes) => {
        const [line, ...fields] = bytes.toString("latin1").split("\r\n");
        const range = fields.find((field) => /^range:/i.test(field))?.slice(6).trim();
        asked = { at: performance.now(), target: line.split(" ")[1], range };
        if (!upstream.write(bytes)) player.pause();
      });
      upstream.on("drain", () => player.resume());
      upstream.on("data", (bytes) => {
        if (asked) {
          const status = Number(bytes.toString("latin1", 9, 12));
          this.notes.push({ ...asked, status, ms: performance.now() - asked.at });
          asked = null;
        }
        if (!player.write(bytes)) upstream.pause();
      });
      player.on("drain", () => upstream.resume());
      const ends = (one, other) => {
        one.on("error", () => other.destroy());
        one.on("close", () => other.destroy());
        one.on("end", () => other.end());
      };
      ends(player, upstream);
      ends(upstream, player);
    });
    await new Promise((resolve) => this.listener.listen(0, "127.0.0.1", resolve));
  }

  url(path) {
    return `${this.base}/media/${path}`;
  }

  /** Answers of the given class of status, from the access log. */
  refusals() {
    return readFileSync(this.access, "utf8").split("\n").filter((line) => / 5\d\d \d+ /.test(line));
  }

  /** Bits per second promised to streams. */
  async promised() {
    return (await (await fetch(`${this.direct}/api/v1/system`)).json()).promised_bps;
  }

  async stop() {
    this.listener?.close();
    this.child.kill("SIGKILL");
    await sleep(50);
  }
}
