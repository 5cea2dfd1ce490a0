// The players of Debian, each driven through the interface it has: where it is, go there, pause, go on.
//
// A player is started with a URL and has position() in seconds, seek(to), which tells where it goes (some only go so far),
// pause(), resume() and close(). What it says is kept in `said`.

import { execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { SECONDS } from "./media.mjs";
import { until } from "./wait.mjs";

/** A seek ends so near to where it should. */
const NEAR_SECONDS = 10;
const HEADLESS = { SDL_VIDEODRIVER: "dummy", SDL_AUDIODRIVER: "dummy" };

/** A program under way. */
class Program {
  constructor(command, options, environment = {}) {
    this.said = "";
    this.folder = mkdtempSync(join(tmpdir(), "players-"));
    chmodSync(this.folder, 0o777);
    const env = { ...process.env, ...HEADLESS, HOME: this.folder, ...environment };
    this.child = spawn(command, options(this.folder), { env, stdio: ["pipe", "pipe", "pipe"], detached: true });
    this.child.on("error", (error) => (this.said += error.message));
    this.child.on("exit", (code) => (this.ended = code ?? "a signal"));
    this.child.stdin.on("error", () => {});
    const hear = (text) => (this.said = (this.said + text).slice(-20_000));
    this.child.stdout.on("data", hear);
    this.child.stderr.on("data", hear);
  }

  running() {
    if (this.ended !== undefined) throw new Error(`the player ended: ${this.said.trim().split("\n").slice(-3).join(" | ")}`);
  }

  close() {
    // Its whole group: some start others.
    try {
      process.kill(-this.child.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

class Mpv extends Program {
  constructor(url) {
    super("mpv", (folder) => ["--no-config", "--vo=null", "--ao=null", "--no-terminal", `--input-ipc-server=${folder}/ipc`, url]);
    this.waiting = new Map();
    this.next = 1;
  }

  async ask(...command) {
    this.running();
    if (!this.socket) {
      this.socket = await until("mpv's socket", () => new Promise((resolve, reject) => {
        const socket = connect(join(this.folder, "ipc"), () => resolve(socket)).on("error", reject);
      }));
      this.socket.on("error", () => {});
      createInterface(this.socket).on("error", () => {}).on("line", (line) => {
        const message = JSON.parse(line);
        this.waiting.get(message.request_id)?.(message.data);
        this.waiting.delete(message.request_id);
      });
    }
    const id = this.next++;
    this.socket.write(`${JSON.stringify({ command, request_id: id })}\n`);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, resolve);
      setTimeout(() => reject(new Error("mpv does not answer")), 10_000).unref();
    });
  }

  position() { return this.ask("get_property", "time-pos"); }
  async seek(to) {
    await this.ask("seek", to, "absolute");
    return to;
  }
  pause() { return this.ask("set_property", "pause", true); }
  resume() { return this.ask("set_property", "pause", false); }
}

class Vlc extends Program {
  constructor(url) {
    // VLC refuses to run as root.
    const command = process.getuid() === 0 ? "setpriv" : "vlc";
    const user = process.getuid() === 0 ? ["--reuid=65534", "--regid=65534", "--clear-groups", "vlc"] : [];
    super(command, () => [...user, "-I", "oldrc", "--rc-fake-tty", "--vout=dummy", "--aout=dummy", "--play-and-exit", url]);
  }

  tell(line) {
    this.running();
    this.child.stdin.write(`${line}\n`);
  }

  async position() {
    this.said = "";
    this.tell("get_time");
    return Number(await until("VLC's time", () => /^(?:> )*(\d+)\r?$/m.exec(this.said)?.[1], 2_000));
  }

  seek(to) {
    // As the slider does: without a fast seek VLC knows no length of a transport stream, and no place by its time.
    this.tell(`seek ${Math.round((to / SECONDS) * 100)}%`);
    return to;
  }
  pause() { this.tell("pause"); }
  resume() { this.tell("pause"); }
}

class Mplayer extends Program {
  constructor(url) {
    super("mplayer", () => ["-slave", "-quiet", "-noconsolecontrols", "-nolirc", "-vo", "null", "-ao", "null", url]);
  }

  tell(line) {
    this.running();
    this.child.stdin.write(`${line}\n`);
  }

  async position() {
    this.said = "";
    this.tell("pausing_keep_force get_time_pos");
    return Number(await until("MPlayer's time", () => /ANS_TIME_POSITION=([\d.]+)/.exec(this.said)?.[1], 2_000));
  }

  seek(to) {
    this.tell(`seek ${to} 2`);
    return to;
  }
  pause() { this.tell("pause"); }
  resume() { this.tell("pause"); }
}

/** GStreamer's playbin, which is what its desktop players are made of. */
class Playbin extends Program {
  constructor(url) {
    super("/usr/bin/python3", () => [fileURLToPath(new URL("playbin.py", import.meta.url)), url]);
  }

  tell(line) {
    this.running();
    this.child.stdin.write(`${line}\n`);
  }

  async position() {
    this.said = "";
    this.tell("position");
    return Number(await until("the time of playbin", () => /^(-?[\d.]+)$/m.exec(this.said)?.[1], 2_000));
  }

  seek(to) {
    this.tell(`seek ${to}`);
    return to;
  }
  pause() { this.tell("pause"); }
  resume() { this.tell("resume"); }
}

/** ffplay takes keys in its window, so it gets a screen of its own; an arrow goes 10 or 60 s, wherever it should go. */
class Ffplay extends Program {
  constructor(url) {
    const script = (folder) => `Xvfb -displayfd 3 -screen 0 640x360x24 -nolisten tcp 3>${folder}/display &
      until [ -s ${folder}/display ]; do sleep 0.1; done
      export DISPLAY=:$(cat ${folder}/display)
      xdotool mousemove 100 100
      exec ffplay -hide_banner -autoexit '${url}'`;
    super("sh", (folder) => ["-c", script(folder)], { SDL_VIDEODRIVER: "x11" });
  }

  async position() {
    this.running();
    this.said = "";
    return Number(await until("ffplay's clock", () => /([\d.]+) [AM]-[VA]/.exec(this.said)?.[1], 2_000));
  }

  press(key) {
    this.running();
    const display = readFileSync(join(this.folder, "display"), "utf8").trim();
    execFileSync("xdotool", ["key", key], { env: { ...process.env, DISPLAY: `:${display}` } });
  }

  async seek(to) {
    // It has no clock before its first pictures after a seek.
    const from = await until("ffplay's clock", () => this.position());
    const leaps = Object.entries({ Right: 10, Left: -10, Up: 60, Down: -60 });
    const [key, leap] = leaps.sort(([, a], [, b]) => Math.abs(from + a - to) - Math.abs(from + b - to))[0];
    this.press(key);
    return from + leap;
  }

  pause() { this.press("p"); }
  resume() { this.press("p"); }
}

export const PROGRAMS = {
  "mpv": Mpv,
  "VLC": Vlc,
  "ffplay": Ffplay,
  "GStreamer": Playbin,
  "MPlayer": Mplayer,
};

/** Runs a program to its end; its exit code and what it said. */
export function run(command, options) {
  return new Promise((resolve) => {
    const child = spawn(command, options, { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stdout.on("data", (text) => (said += text));
    child.stderr.on("data", (text) => (said += text));
    child.on("error", (error) => resolve({ code: -1, said: error.message }));
    child.on("exit", (code) => resolve({ code, said }));
  });
}

/**
 * Waits until a player shows a place of the film (near `to`, if that is given) and runs on from there by `seconds`; gives
 * the milliseconds until the first of these. A seek goes to the key frame before, or some more in a file without an index.
 */
export async function plays(player, seconds, to) {
  const began = performance.now();
  const first = await until("the first picture", async () => {
    player.running();
    const at = await player.position();
    return Number.isFinite(at) && at >= 0 && (to === undefined || Math.abs(at - to) < NEAR_SECONDS) ? { at } : null;
  });
  const shown = performance.now() - began;
  await until("playback", async () => {
    player.running();
    return (await player.position()) >= first.at + seconds;
  });
  return shown;
}
