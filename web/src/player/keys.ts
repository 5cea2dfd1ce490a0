// The keys of the player, as video pages have them.

/** Speeds that can be chosen. */
export const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 2];
/** Skipped by the keys to the left and right, seconds. */
const SKIP_S = 10;
const VOLUME_STEP = 0.1;

export type Action = "close" | "next" | "fullScreen" | "pictureInPicture" | "faster" | "slower" | ((video: HTMLVideoElement) => void);

const skip = (seconds: number) => (video: HTMLVideoElement) => {
  video.currentTime = Math.max(0, Math.min(video.duration || 0, video.currentTime + seconds));
};
const louder = (step: number) => (video: HTMLVideoElement) => {
  video.volume = Math.max(0, Math.min(1, video.volume + step));
};
const play = (video: HTMLVideoElement) => {
  if (video.paused) video.play().catch(() => {});
  else video.pause();
};
const mute = (video: HTMLVideoElement) => {
  video.muted = !video.muted;
};

const ACTIONS: Record<string, Action> = {
  " ": play,
  k: play,
  arrowleft: skip(-SKIP_S),
  j: skip(-SKIP_S),
  arrowright: skip(SKIP_S),
  l: skip(SKIP_S),
  arrowup: louder(VOLUME_STEP),
  arrowdown: louder(-VOLUME_STEP),
  m: mute,
  f: "fullScreen",
  p: "pictureInPicture",
  n: "next",
  ">": "faster",
  "<": "slower",
  escape: "close",
};

/** The action of a key, unless the focus is on something that takes the key itself. */
export function actionOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "altKey" | "metaKey" | "target">): Action | null {
  if (event.ctrlKey || event.altKey || event.metaKey) return null;
  const taking = event.key === " " ? "button, a, input, select, textarea" : "input, select, textarea";
  if ((event.target as Element | null)?.closest?.(taking)) return null;
  if (/^[0-9]$/.test(event.key)) {
    return (video) => {
      if (Number.isFinite(video.duration)) video.currentTime = (video.duration * Number(event.key)) / 10;
    };
  }
  return ACTIONS[event.key.toLowerCase()] ?? null;
}
