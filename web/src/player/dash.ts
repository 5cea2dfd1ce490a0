// Shaka Player for DASH: manifests and their segments, tracks of sound.

import type { Failed, Playback } from "./hls";

/** Media kept behind and read ahead, seconds. */
const BEHIND_S = 60;
const AHEAD_S = 30;

/** Playback of a manifest; `failed` is called once, when it cannot continue. */
export class DashPlayback implements Playback {
  private player: shaka.Player | null = null;
  private tracks: shaka.extern.AudioTrack[] = [];
  private stopped = false;
  onTracks: (names: string[]) => void = () => {};

  constructor(
    private readonly video: HTMLVideoElement,
    private readonly failed: Failed,
  ) {}

  async manifest(url: string): Promise<void> {
    // @ts-expect-error: its types are global, those of no module
    const { default: library } = (await import("shaka-player/dist/shaka-player.dash.js")) as { default: typeof shaka };
    if (this.stopped) return;
    library.polyfill.installAll();
    if (!library.Player.isBrowserSupported()) return this.failed(url, "Media Source Extensions", 0);
    const player = new library.Player();
    this.player = player;
    const fail = (error: shaka.util.Error) => {
      if (this.stopped) return;
      this.stopped = true;
      const [address, status] = error.category === library.util.Error.Category.NETWORK ? (error.data as unknown[]) : [];
      this.failed(typeof address === "string" ? address : url, `Shaka ${error.code}`, typeof status === "number" ? status : 0);
    };
    player.addEventListener("error", (event: unknown) => fail((event as { detail: shaka.util.Error }).detail));
    player.configure({ streaming: { bufferBehind: BEHIND_S, bufferingGoal: AHEAD_S, retryParameters: { maxAttempts: 2 } }, manifest: { retryParameters: { maxAttempts: 1 } } });
    try {
      await player.attach(this.video);
      await player.load(new URL(url, location.href).href);
      // The first order to play came before there was anything; a browser may want a click.
      this.video.play().catch(() => {});
      this.tracks = player.getAudioTracks();
      this.onTracks(this.tracks.map(({ label, language }) => label ?? language));
    } catch (error) {
      fail(error as shaka.util.Error);
    }
  }

  choose(track: number): void {
    const chosen = this.tracks[track];
    if (chosen !== undefined) this.player?.selectAudioTrack(chosen);
  }

  stop(): void {
    this.stopped = true;
    void this.player?.destroy();
  }
}
