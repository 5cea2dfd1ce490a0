// Kinds of contents by the endings of their names, and the order of a list.

import * as format from "../format";
import type { Entry } from "../server";

export type Kind = "folder" | "video" | "sound" | "picture" | "subtitles" | "other";

const ENDINGS: Record<Exclude<Kind, "folder" | "other">, string[]> = {
  video: ["mp4", "m4v", "mov", "webm", "mkv", "ts", "m2ts", "mts", "m3u8", "mpd", "ogv", "avi", "flv", "mpg", "mpeg", "wmv", "vob", "rm", "3gp", "mxf"],
  sound: ["mp3", "m4a", "aac", "flac", "ogg", "oga", "opus", "wav"],
  picture: ["jpg", "jpeg", "png", "gif", "webp", "avif", "svg"],
  subtitles: ["vtt", "srt"],
};

/** Videos that browsers do not play: chosen, the page says so. */
const OTHER_VIDEOS = ["avi", "flv", "mpg", "mpeg", "wmv", "vob", "rm", "3gp", "mxf"];

/** The folder of a path, with a closing slash; empty for the top. */
export function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/") + 1);
}

export function ending(name: string): string {
  return /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? "";
}

export function kindOf(entry: Pick<Entry, "name" | "kind">): Kind {
  if (entry.kind === "directory") return "folder";
  const found = Object.entries(ENDINGS).find(([, endings]) => endings.includes(ending(entry.name)));
  return (found?.[0] as Kind | undefined) ?? "other";
}

/** The way a content is played, by its name; null for those that browsers do not play. */
export function playedAs(name: string): "media" | "mpegts" | "playlist" | "manifest" | null {
  const end = ending(name);
  if (["ts", "m2ts", "mts"].includes(end)) return "mpegts";
  if (end === "m3u8") return "playlist";
  if (end === "mpd") return "manifest";
  return isMedia(name) && !OTHER_VIDEOS.includes(end) ? "media" : null;
}

/** The time that a content plays, from its size and its mean rate; empty where that is not known. */
export function playedSeconds({ size, mean_bps }: Entry): string {
  return mean_bps === undefined || mean_bps === null || mean_bps === 0 ? "" : format.time((8 * size) / mean_bps);
}

/** True for contents to watch or to hear. */
export function isMedia(name: string): boolean {
  return ["video", "sound"].includes(kindOf({ name, kind: "file" }));
}

export type Column = "name" | "rate" | "size" | "date";

export interface Order {
  column: Column;
  down: boolean;
}

/** Compares names as people do: "episode 2" comes before "episode 10". */
const NAMES = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

const COMPARED: Record<Column, (a: Entry, b: Entry) => number> = {
  name: () => 0,
  rate: (a, b) => (a.rate_bps ?? 0) - (b.rate_bps ?? 0),
  size: (a, b) => a.size - b.size,
  date: (a, b) => Date.parse(a.modified) - Date.parse(b.modified),
};

/** The entries whose names hold `search` and whose kind is `kind` (null: any), in order, folders first. */
export function arranged(entries: Entry[], search: string, kind: Kind | null, { column, down }: Order): Entry[] {
  const wanted = search.toLocaleLowerCase();
  const turn = down ? -1 : 1;
  const folders = (entry: Entry) => (entry.kind === "directory" ? 0 : 1);
  return entries
    .filter((entry) => (kind === null || kindOf(entry) === kind) && entry.name.toLocaleLowerCase().includes(wanted))
    .sort((a, b) => folders(a) - folders(b) || turn * (COMPARED[column](a, b) || NAMES.compare(a.name, b.name)));
}
