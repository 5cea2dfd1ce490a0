// Plays one content: what the browser plays by itself in <video>, MPEG-TS and playlists through hls.js. What fails is said in words.

import { button, el } from "./dom";
import * as format from "./format";
import { HlsPlayback } from "./hls";
import { playableAs } from "./library";
import { mediaUrl, whyNot, type Problem } from "./server";
import { Stalls } from "./stalls";

/** How often the picture is looked at, and the line below it renewed. */
const LOOK_MS = 100;
const STATUS_MS = 500;
/** What the keys to the left and right skip, seconds. */
const SKIP_S = 10;

/** What is short, in words; the server adds which disk or link: `disk 0`, `network 1`. */
const SHORT: Record<string, string> = {
  disk: "the disk has no time left for it",
  "disk failing": "its disk does not answer as it should",
  network: "the network link is full",
  memory: "there are no buffers left",
  processor: "the processor is busy",
  table: "too many streams are running",
  draining: "the server is shutting down",
};

/** A content being played; `stop` gives the stream back. */
export class Player {
  private readonly video = el("video", { controls: "", playsinline: "", preload: "auto" });
  private readonly status = el("p", { class: "quiet", role: "status" });
  private readonly notice = el("div", { class: "notice", role: "alert", hidden: "" });
  private readonly name: string;
  private readonly timers: number[];
  /** Names this viewer to the server: all requests of this playback hold one stream. */
  private readonly session = crypto.getRandomValues(new Uint32Array(2)).join("-");
  private readonly onKey = (event: KeyboardEvent) => this.key(event);
  private query: Record<string, string> = {};
  private playback: HlsPlayback | null = null;
  private stalls = new Stalls();
  private stopped = false;

  constructor(place: HTMLElement, private readonly path: string, private readonly close: () => void) {
    this.name = path.split("/").pop() ?? path;
    const bar = el("div", { class: "bar" }, el("h2", { tabindex: "-1" }, ...format.breakable(this.name)), button("Close", close, { title: "Escape" }));
    place.replaceChildren(bar, this.video, this.notice, this.status);
    place.hidden = false;
    this.video.addEventListener("error", () => void this.explain(this.url(this.query), this.video.error?.message ?? ""));
    document.addEventListener("keydown", this.onKey);
    this.timers = [window.setInterval(() => this.look(), LOOK_MS), window.setInterval(() => this.report(), STATUS_MS)];
    this.start({});
    bar.querySelector("h2")?.focus({ preventScroll: true });
  }

  /** Ends playback and lets go of the connection. */
  stop(): void {
    this.stopped = true;
    this.timers.forEach((timer) => window.clearInterval(timer));
    document.removeEventListener("keydown", this.onKey);
    this.drop();
    this.video.remove();
  }

  private drop(): void {
    this.playback?.stop();
    this.playback = null;
    this.video.removeAttribute("src");
    this.video.load();
  }

  private url(query: Record<string, string>): string {
    return mediaUrl(this.path, { ...query, session: this.session });
  }

  private start(query: Record<string, string>): void {
    this.drop();
    this.notice.hidden = true;
    this.video.hidden = false;
    this.query = query;
    this.stalls = new Stalls();
    const url = this.url(query);
    const kind = playableAs(this.path);
    if (kind === "video") {
      this.video.src = url;
    } else if (kind === null) {
      return this.unplayable(`browsers do not play ${/\.[^.]+$/.exec(this.name)?.[0] ?? "such files"}`);
    } else {
      this.playback = new HlsPlayback(this.video, (failed, detail) => void this.explain(failed, detail));
      void (kind === "mpegts" ? this.playback.transportStream(url) : this.playback.playlist(url));
    }
    // A browser may want a click first; the controls are there for it.
    this.video.play().catch(() => {});
  }

  /** Playback failed at `url`: finds out why, and says it. */
  private async explain(url: string, detail: string): Promise<void> {
    // Let go of by us.
    if (this.stopped || this.video.hidden) return;
    const refusal = await whyNot(url);
    if (this.stopped) return;
    const { code } = this.video.error ?? {};
    this.drop();
    if (refusal?.status === 503) {
      this.refused(refusal);
    } else if (refusal?.status === 404) {
      this.say("There is no such content any more.");
    } else if (refusal !== null) {
      this.say(refusal.detail ?? refusal.title ?? "The server does not answer.");
      this.notice.append(el("div", { class: "bar" }, button("Try again", () => this.start(this.query))));
    } else if (code === MediaError.MEDIA_ERR_NETWORK) {
      this.say("The connection broke off.", detail);
      this.notice.append(el("div", { class: "bar" }, button("Try again", () => this.start(this.query))));
    } else {
      this.unplayable("this browser does not know its container, or what is in it", detail);
    }
  }

  private unplayable(why: string, detail = ""): void {
    this.say(`This video cannot be played here: ${why}. A player such as VLC or mpv can, from the same address or from a copy.`, detail);
    const download = el("a", { href: mediaUrl(this.path, { rate: "max" }), download: this.name, class: "button" }, "Download");
    this.notice.append(el("div", { class: "bar" }, download));
  }

  private refused(refusal: Problem): void {
    const reason = SHORT[(refusal.resource ?? "").replace(/ \d+/, "")] ?? refusal.detail ?? "the server is full";
    const grantable = refusal.grantable_bps ?? 0;
    const offer = grantable > 0 ? ` It could guarantee ${format.rate(grantable)} now.` : "";
    const again = refusal.retryAfterSeconds ? ` Try again in ${refusal.retryAfterSeconds} s.` : "";
    this.say(`The server refused this stream, so that those running keep their rate: ${reason}.${offer}${again}`);
    this.notice.append(
      el("div", { class: "bar" }, button("Try again", () => this.start({})), button("Play without a guarantee", () => this.start({ rate: "max" }))),
    );
  }

  /** Words in the place of the picture. */
  private say(text: string, detail = ""): void {
    this.video.hidden = true;
    this.status.textContent = "";
    this.notice.replaceChildren(el("p", {}, text), detail === "" ? "" : el("p", { class: "quiet" }, detail));
    this.notice.hidden = false;
  }

  /** Space, the arrows, F and Escape, wherever the focus is, unless it is on something that takes keys itself. */
  private key(event: KeyboardEvent): void {
    const { video } = this;
    const on = event.target instanceof Element ? event.target : document.body;
    const taken = on.closest(event.key === " " ? "button, a, input, select, textarea" : "input, select, textarea") !== null;
    if (event.ctrlKey || event.altKey || event.metaKey || taken) return;
    if (event.key === "Escape" && document.fullscreenElement === null) this.close();
    else if (video.hidden) return;
    else if (event.key === " ") void (video.paused ? video.play().catch(() => {}) : video.pause());
    else if (event.key === "ArrowLeft") video.currentTime = Math.max(0, video.currentTime - SKIP_S);
    else if (event.key === "ArrowRight") video.currentTime = Math.min(video.duration || 0, video.currentTime + SKIP_S);
    else if (event.key.toLowerCase() === "f") void (document.fullscreenElement === null ? video.requestFullscreen() : document.exitFullscreen());
    else return;
    event.preventDefault();
  }

  private look(): void {
    const { paused, seeking, ended, currentTime } = this.video;
    this.stalls.look({ now: performance.now() / 1000, time: currentTime, shouldRun: !paused && !seeking && !ended });
  }

  private report(): void {
    const { video, stalls } = this;
    if (video.hidden) return;
    if (video.readyState === 0) {
      this.status.textContent = "Starting …";
      return;
    }
    let ahead = 0;
    for (let i = 0; i < video.buffered.length; i += 1) {
      if (video.buffered.start(i) <= video.currentTime + 0.1) ahead = Math.max(ahead, video.buffered.end(i) - video.currentTime);
    }
    const length = Number.isFinite(video.duration) ? ` of ${format.time(video.duration)}` : "";
    const times = stalls.count === 1 ? "1 interruption" : `${stalls.count} interruptions`;
    const interrupted = stalls.count === 0 ? "no interruption" : `${times} (${stalls.seconds.toFixed(1)} s)`;
    this.status.textContent = `${format.time(video.currentTime)}${length} · ${ahead.toFixed(1)} s ahead · ${interrupted}`;
  }
}
