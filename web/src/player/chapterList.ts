// Chapters in a file next to the content: `film.chapters.vtt` for `film.mp4`, cues of WebVTT whose text is a title.

import { mediaUrl } from "../server";

export interface Chapter {
  /** Its beginning, seconds. */
  start: number;
  title: string;
}

/** The path of the chapters of `name` among the `names` of `folder`; null if there are none. */
export function chaptersBeside(folder: string, name: string, names: string[]): string | null {
  const file = `${name.replace(/\.[^.]+$/, "")}.chapters.vtt`;
  return names.includes(file) ? folder + file : null;
}

/** The chapters of a text, in order. */
export function parseChapters(text: string): Chapter[] {
  const blocks = text.replace(/\r\n?/g, "\n").split(/\n{2,}/);
  const chapters = blocks.flatMap((block) => {
    const lines = block.split("\n");
    const at = lines.findIndex((line) => line.includes("-->"));
    const [, hours, minutes, seconds] = /^\s*(?:(\d+):)?(\d\d):(\d\d\.\d\d\d)\s/.exec(lines[at] ?? "") ?? [];
    const title = lines.slice(at + 1).join(" ").trim();
    if (seconds === undefined || title === "") return [];
    return [{ start: 3600 * Number(hours ?? 0) + 60 * Number(minutes) + Number(seconds), title }];
  });
  return chapters.sort((a, b) => a.start - b.start);
}

/** The chapters of the file at `path`; none if it cannot be read. */
export async function loadChapters(path: string): Promise<Chapter[]> {
  const answer = await fetch(mediaUrl(path, { rate: "max" })).catch(() => null);
  return answer?.ok === true ? parseChapters(await answer.text()) : [];
}
