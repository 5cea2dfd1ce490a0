// hls.js for playlists, and for MPEG-TS, which is handed to it as a playlist of segments cut here: both get a length and can be sought.

import type HlsType from "hls.js";
import type { FragmentLoaderContext, Loader, LoaderCallbacks, LoaderConfiguration, LoaderContext, LoaderStats } from "hls.js";
import { ReadError, Segments } from "./segments";

/** Media kept behind and read ahead, seconds. */
const BEHIND_S = 60;
const AHEAD_S = 30;
/** Status of a refusal: asking again at once changes nothing. */
const REFUSED = 503;

/** An address that failed, the words of the library, and the status of the answer (0: none). */
export type Failed = (url: string, detail: string, status: number) => void;

/** What a library plays; it has taken the element over. */
export interface Playback {
  /** Called when it is known how many tracks of sound there are. */
  onTracks: (names: string[]) => void;
  /** Plays another track of sound. */
  choose(track: number): void;
  stop(): void;
}

/** Playback of a playlist; `failed` is called once, when it cannot continue. */
export class HlsPlayback implements Playback {
  private hls: HlsType | null = null;
  private segments: Segments | null = null;
  private stopped = false;
  onTracks: (names: string[]) => void = () => {};

  constructor(
    private readonly video: HTMLVideoElement,
    private readonly failed: Failed,
  ) {}

  /** A playlist that the server has. */
  async playlist(url: string): Promise<void> {
    const { default: Hls } = await import("hls.js");
    if (!this.stopped) this.load(Hls, {}, new URL(url, location.href).href, url);
  }

  /** A file of MPEG-TS. */
  async transportStream(url: string): Promise<void> {
    const address = new URL(url, location.href).href;
    try {
      const [{ default: Hls }, segments] = await Promise.all([import("hls.js"), Segments.open(address)]);
      if (this.stopped) return;
      this.segments = segments;
      this.load(Hls, { loader: loaderOf(segments) }, address, url);
    } catch (error) {
      if (!this.stopped) this.failed(url, (error as Error).message, error instanceof ReadError ? error.status : 0);
    }
  }

  private load(Hls: typeof HlsType, more: Partial<HlsType["config"]>, source: string, url: string): void {
    if (!Hls.isSupported()) return this.failed(url, "Media Source Extensions", 0);
    const hls = new Hls({ enableWorker: false, backBufferLength: BEHIND_S, maxBufferLength: AHEAD_S, ...more });
    for (const policy of [hls.config.manifestLoadPolicy, hls.config.playlistLoadPolicy, hls.config.fragLoadPolicy]) {
      const { errorRetry } = policy.default;
      if (errorRetry !== null) errorRetry.shouldRetry = (_config, _count, _late, answer, retry) => retry && answer?.code !== REFUSED;
    }
    this.hls = hls;
    hls.on(Hls.Events.ERROR, (_event, data) => {
      if (!data.fatal) return;
      // A playlist's own part is asked for again, to learn why; a cut segment is a part of the file.
      const part = this.segments === null ? (data.frag?.url ?? data.url ?? url) : url;
      this.failed(part, data.details, data.response?.code ?? 0);
    });
    hls.on(Hls.Events.AUDIO_TRACKS_UPDATED, (_event, { audioTracks }) => this.onTracks(audioTracks.map(({ name, lang }) => name || lang || "")));
    hls.attachMedia(this.video);
    hls.loadSource(source);
  }

  choose(track: number): void {
    if (this.hls !== null) this.hls.audioTrack = track;
  }

  stop(): void {
    this.stopped = true;
    this.hls?.destroy();
    this.segments?.close();
  }
}

/** A loader, as hls.js wants one, for `segments` and their playlist. */
function loaderOf(segments: Segments): new () => Loader<LoaderContext> {
  return class implements Loader<LoaderContext> {
    context: LoaderContext | null = null;
    readonly stats: LoaderStats = {
      aborted: false,
      loaded: 0,
      total: 0,
      retry: 0,
      chunkCount: 0,
      bwEstimate: 0,
      loading: { start: 0, first: 0, end: 0 },
      parsing: { start: 0, end: 0 },
      buffering: { start: 0, first: 0, end: 0 },
    };
    private readonly ended = new AbortController();

    load(context: LoaderContext, _: LoaderConfiguration, callbacks: LoaderCallbacks<LoaderContext>): void {
      this.context = context;
      const { stats } = this;
      stats.loading.start = performance.now();
      this.read(context).then(
        (data) => {
          stats.loading.first = stats.loading.end = performance.now();
          stats.loaded = stats.total = typeof data === "string" ? data.length : data.byteLength;
          callbacks.onSuccess({ url: context.url, data, code: 200 }, stats, context, null);
        },
        (error: unknown) => {
          if (this.ended.signal.aborted) return;
          const code = error instanceof ReadError ? error.status : 0;
          callbacks.onError({ code, text: String(error) }, context, null, stats);
        },
      );
    }

    private async read(context: LoaderContext): Promise<string | ArrayBuffer> {
      if (!("frag" in context)) return segments.playlist((n) => `${context.url}#${n}`);
      return (await segments.segment(Number((context as FragmentLoaderContext).frag.sn), this.ended.signal)).buffer;
    }

    abort(): void {
      if (this.stats.loading.end > 0 || this.ended.signal.aborted) return;
      this.stats.aborted = true;
      this.ended.abort();
      segments.close();
    }

    destroy(): void {
      this.abort();
    }
  };
}
