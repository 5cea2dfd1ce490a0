// Plays one content: what the browser plays by itself in <video>, MPEG-TS through mpegts.js. A refusal is said in words.

import type Mpegts from "mpegts.js";
import { button, el } from "./dom";
import * as format from "./format";
import { playableAs } from "./library";
import { mediaUrl, whyNot, type Problem } from "./server";

/** How often the line below the picture is renewed. */
const STATUS_MS = 500;

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
  private readonly timer: number;
  /** Names this viewer to the server: all requests of this playback hold one stream. */
  private readonly session = crypto.getRandomValues(new Uint32Array(2)).join("-");
  private query: Record<string, string> = {};
  private transport: Mpegts.Player | null = null;
  private stopped = false;
  private waits = 0;

  constructor(place: HTMLElement, private readonly path: string, close: () => void) {
    const name = path.split("/").pop() ?? path;
    const bar = el("div", { class: "bar" }, el("h2", {}, name), button("Close", close));
    place.replaceChildren(bar, this.video, this.notice, this.status);
    place.hidden = false;
    this.video.addEventListener("error", () => void this.explain());
    this.video.addEventListener("waiting", () => {
      if (this.video.currentTime > 0 && !this.video.seeking) this.waits += 1;
    });
    this.timer = window.setInterval(() => this.report(), STATUS_MS);
    void this.start({});
  }

  /** Ends playback and lets go of the connection. */
  stop(): void {
    this.stopped = true;
    window.clearInterval(this.timer);
    this.drop();
    this.video.remove();
  }

  private drop(): void {
    this.transport?.destroy();
    this.transport = null;
    this.video.removeAttribute("src");
    this.video.load();
  }

  private url(query: Record<string, string>): string {
    return mediaUrl(this.path, { ...query, session: this.session });
  }

  private async start(query: Record<string, string>): Promise<void> {
    this.notice.hidden = true;
    this.query = query;
    this.waits = 0;
    if (playableAs(this.path) === "mpegts") {
      const { default: mpegts } = await import("mpegts.js");
      if (this.stopped) return;
      if (!mpegts.isSupported()) return this.say("This browser cannot play MPEG-TS. Download it instead.");
      mpegts.LoggingControl.enableAll = false;
      const source = { type: "mpegts", isLive: false, url: new URL(this.url(query), location.href).href };
      this.transport = mpegts.createPlayer(source, { lazyLoad: false, enableWorker: false, autoCleanupSourceBuffer: true });
      this.transport.on(mpegts.Events.ERROR, () => void this.explain());
      this.transport.attachMediaElement(this.video);
      this.transport.load();
    } else {
      this.video.src = this.url(query);
    }
    // A browser may want a click first; the controls are there for it.
    this.video.play().catch(() => {});
  }

  /** Playback failed: finds out why, and says it. */
  private async explain(): Promise<void> {
    const failed = this.video.error?.message ?? "";
    const refusal = await whyNot(this.url(this.query));
    if (this.stopped) return;
    this.drop();
    if (refusal === null) {
      this.say("Playback stopped: this browser cannot go on with what it received.", failed);
    } else if (refusal.status === 503) {
      this.refused(refusal);
    } else if (refusal.status === 404) {
      this.say("There is no such content any more.");
    } else {
      this.say(refusal.detail ?? refusal.title ?? "The server does not answer.");
    }
  }

  private refused(refusal: Problem): void {
    const reason = SHORT[(refusal.resource ?? "").replace(/ \d+/, "")] ?? refusal.detail ?? "the server is full";
    const grantable = refusal.grantable_bps ?? 0;
    const offer = grantable > 0 ? ` It could guarantee ${format.rate(grantable)} now.` : "";
    const again = refusal.retryAfterSeconds ? ` Try again in ${refusal.retryAfterSeconds} s.` : "";
    this.say(`The server refused this stream, so that those running keep their rate: ${reason}.${offer}${again}`);
    this.notice.append(
      el("div", { class: "bar" }, button("Try again", () => void this.start({})), button("Play without a guarantee", () => void this.start({ rate: "max" }))),
    );
  }

  private say(text: string, detail = ""): void {
    this.notice.replaceChildren(el("p", {}, text), detail === "" ? "" : el("p", { class: "quiet" }, detail));
    this.notice.hidden = false;
  }

  private report(): void {
    const { video } = this;
    if (video.readyState === 0) {
      this.status.textContent = this.notice.hidden ? "Starting …" : "";
      return;
    }
    let ahead = 0;
    for (let i = 0; i < video.buffered.length; i += 1) {
      if (video.buffered.start(i) <= video.currentTime + 0.1) ahead = Math.max(ahead, video.buffered.end(i) - video.currentTime);
    }
    const length = Number.isFinite(video.duration) ? ` of ${format.time(video.duration)}` : "";
    const stalls = this.waits === 0 ? "no interruption" : `${this.waits} interruption${this.waits === 1 ? "" : "s"}`;
    this.status.textContent = `${format.time(video.currentTime)}${length} · ${ahead.toFixed(1)} s ahead · ${stalls}`;
  }
}
