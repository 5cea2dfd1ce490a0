// Subtitles in files next to the content: `film.srt`, `film.en.vtt` for `film.mp4`.

import { mediaUrl } from "../server";

export interface Subtitles {
  /** Path of the file. */
  path: string;
  /** The part of the name that tells them apart: "en", "ja.forced"; empty for the only one. */
  label: string;
}

/** The subtitles among `names` of `folder` that belong to the content `name`. */
export function beside(folder: string, name: string, names: string[]): Subtitles[] {
  const stem = name.replace(/\.[^.]+$/, "");
  return names
    .filter((other) => other.startsWith(`${stem}.`) && /\.(srt|vtt)$/i.test(other) && !other.endsWith(".chapters.vtt"))
    .map((other) => ({ path: folder + other, label: other.slice(stem.length + 1).replace(/\.?(srt|vtt)$/i, "") }))
    .sort((a, b) => (a.label < b.label ? -1 : 1));
}

/** SubRip as WebVTT, which browsers take: the times have points, the file a first line. */
export function webVtt(text: string): string {
  const plain = text.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n");
  if (plain.startsWith("WEBVTT")) return plain;
  return `WEBVTT\n\n${plain.replace(/(\d\d:\d\d:\d\d),(\d\d\d)/g, "$1.$2")}`;
}

/** The address of subtitles as WebVTT within this page; null if they cannot be had. */
export async function load(subtitles: Subtitles): Promise<string | null> {
  const answer = await fetch(mediaUrl(subtitles.path, { rate: "max" })).catch(() => null);
  if (answer?.ok !== true) return null;
  const bytes = await answer.arrayBuffer();
  return URL.createObjectURL(new Blob([webVtt(decode(bytes))], { type: "text/vtt" }));
}

/** UTF-8, or what old files of the West have. */
function decode(bytes: ArrayBuffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}
