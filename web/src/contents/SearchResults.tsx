// Names found in the whole library, as one types. The names of the folder in view are not among them: its list shows those.

import { useEffect, useState } from "preact/hooks";
import * as format from "../format";
import { addressOf } from "../route";
import { findNames, type FoundNames, type Problem } from "../server";
import { t, words } from "../texts";
import { folderOf } from "./kinds";
import { Name } from "./Names";

/** Pause in the typing before the server searches, milliseconds. */
const PAUSE_MS = 200;

export function SearchResults({ text, folder, stamp }: { text: string; folder: string; stamp: number }) {
  const [found, setFound] = useState<FoundNames | Problem | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const search = () =>
      findNames(text, folder, stop.signal)
        .then(setFound)
        .catch((problem: unknown) => stop.signal.aborted || setFound(problem as Problem));
    const timer = window.setTimeout(() => void search(), PAUSE_MS);
    return () => {
      window.clearTimeout(timer);
      stop.abort();
    };
  }, [text, folder, stamp]);
  if (found === null) return <p class="quiet">{t.searching}</p>;
  if ("status" in found) return <p class="notice">{words(found)}</p>;
  const elsewhere = found.entries.filter(({ path }) => folderOf(path) !== folder);
  return (
    <section id="found" aria-label={t.elsewhere}>
      <h2>{t.elsewhere}</h2>
      <ul class="rows">
        {elsewhere.map(({ path, entry }) => (
          <li key={path}>
            <div class="name">
              <Name path={path} entry={entry} playing={null} />
            </div>
            <span class="quiet">
              <a href={addressOf(folderOf(path))}>{folderOf(path) || t.contents}</a>
              {entry.kind === "file" && ` · ${format.size(entry.size)}`}
            </span>
          </li>
        ))}
      </ul>
      <p class="quiet" role="status">
        {elsewhere.length === 0 ? t.nothingElsewhere : found.is_part ? t.foundPart(elsewhere.length) : t.foundAll(elsewhere.length)}
      </p>
    </section>
  );
}
