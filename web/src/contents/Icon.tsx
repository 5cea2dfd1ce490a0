// Small pictures of the kinds of contents, drawn in the colour of the text next to them.

import type { Kind } from "./kinds";

const PATHS: Record<Kind, string> = {
  folder: "M3 7a2 2 0 0 1 2-2h4l2 2h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z",
  video: "M4 5h16v14H4zM10 9v6l5-3z",
  sound: "M9 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zM9 18V5l11-2v13M20 16a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0z",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M9 8.5h.01",
  subtitles: "M4 5h16v14H4zM7 12h6M7 15h10M15 12h2",
  other: "M6 3h8l4 4v14H6zM14 3v4h4",
};

export function Icon({ kind }: { kind: Kind }) {
  return (
    <svg class={`icon ${kind}`} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[kind]} />
    </svg>
  );
}
