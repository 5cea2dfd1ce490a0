// The chapters of a content: the present one is chosen, another is a place to go to.

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as format from "../format";
import { t } from "../texts";
import { loadChapters, type Chapter } from "./chapterList";

export function Chapters({ path, video }: { path: string; video: RefObject<HTMLVideoElement> }) {
  const [chapters, setChapters] = useState<Chapter[]>([]);
  const [present, setPresent] = useState(0);
  useEffect(() => {
    let over = false;
    void loadChapters(path).then((loaded) => over || setChapters(loaded));
    return () => void (over = true);
  }, [path]);
  useEffect(() => {
    const element = video.current;
    const look = () => setPresent(Math.max(0, chapters.filter(({ start }) => start <= (element?.currentTime ?? 0)).length - 1));
    element?.addEventListener("timeupdate", look);
    return () => element?.removeEventListener("timeupdate", look);
  }, [chapters]);
  const go = (index: number) => {
    const chapter = chapters[index];
    if (video.current !== null && chapter !== undefined) video.current.currentTime = chapter.start;
  };
  if (chapters.length === 0) return null;
  return (
    <label>
      {t.chapter}{" "}
      <select value={String(present)} onChange={(event) => go(Number(event.currentTarget.value))}>
        {chapters.map(({ start, title }, index) => (
          <option key={index} value={String(index)}>
            {format.time(start)} {title}
          </option>
        ))}
      </select>
    </label>
  );
}
