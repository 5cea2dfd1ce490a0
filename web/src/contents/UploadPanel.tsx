// The uploads of this page: progress, rate and time left of each, and what to do with contents that exist.

import { useState } from "preact/hooks";
import * as format from "../format";
import { isDenied } from "../server";
import { t, words } from "../texts";
import { areKept, forget, unfinished } from "./resumable";
import type { Item, Uploads } from "./uploads";

/** Lines that are shown; the others wait below. */
const SHOWN = 100;

export function UploadPanel({ uploads }: { uploads: Uploads }) {
  const { items } = uploads;
  if (items.length === 0) return <Unfinished />;
  const unfinished = items.filter(({ state }) => !["done", "skipped"].includes(state));
  const shown = [...unfinished, ...items.filter((item) => !unfinished.includes(item))].slice(0, SHOWN);
  return (
    <section class="card uploads" aria-label={t.uploads}>
      <div class="bar">
        <h2>{t.uploads}</h2>
        <button onClick={() => uploads.clear()} disabled={unfinished.length === items.length}>
          {t.clearDone}
        </button>
      </div>
      {unfinished.length > 0 && !areKept() && <p class="warn">{t.uploadsNotKept}</p>}
      <ul>
        {shown.map((item) => (
          <li key={item.id}>
            <Line item={item} uploads={uploads} />
          </li>
        ))}
      </ul>
      {items.length > SHOWN && <p class="quiet">{t.more(items.length - SHOWN)}</p>}
    </section>
  );
}

/** Uploads of an earlier visit that did not end: the browser gives their files only to the user's choice. */
function Unfinished() {
  const [left, setLeft] = useState(unfinished);
  if (left.length === 0) return null;
  const end = () => {
    left.forEach(({ path }) => forget(path));
    setLeft([]);
  };
  return (
    <section class="card uploads" aria-label={t.uploads}>
      <div class="bar">
        <h2>{t.unfinishedUploads}</h2>
        <button onClick={end}>{t.forgetUploads}</button>
      </div>
      <p class="quiet">{t.unfinishedText}</p>
      <ul>
        {left.slice(0, SHOWN).map(({ path, size }) => (
          <li key={path}>
            <span class="name">{path}</span>
            <span class="quiet">{format.size(size)}</span>
          </li>
        ))}
      </ul>
      {left.length > SHOWN && <p class="quiet">{t.more(left.length - SHOWN)}</p>}
    </section>
  );
}

function Line({ item, uploads }: { item: Item; uploads: Uploads }) {
  return (
    <>
      <span class="name">{item.path}</span>
      {item.state === "sending" && <progress value={item.sent} max={Math.max(item.file.size, 1)} aria-label={item.path} />}
      <span class="quiet">{state(item)}</span>
      {item.state === "exists" && <Question item={item} uploads={uploads} />}
      {item.state === "failed" && <button onClick={() => uploads.retry(item)}>{t.tryAgain}</button>}
      <span class="bar wrap">
        {item.state === "sending" && <button onClick={() => uploads.pause(item)}>{t.pause}</button>}
        {item.state === "paused" && <button onClick={() => uploads.retry(item)}>{t.goOn}</button>}
        {["waiting", "sending", "paused", "failed"].includes(item.state) && <button onClick={() => uploads.cancel(item)}>{t.cancel}</button>}
      </span>
    </>
  );
}

function Question({ item, uploads }: { item: Item; uploads: Uploads }) {
  const [all, setAll] = useState(false);
  return (
    <span class="bar wrap">
      <button onClick={() => uploads.answer(item, "replace", all)}>{t.replace}</button>
      <button onClick={() => uploads.answer(item, "both", all)}>{t.keepBoth}</button>
      <button onClick={() => uploads.answer(item, "skip", all)}>{t.skipIt}</button>
      <label>
        <input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /> {t.forAll}
      </label>
    </span>
  );
}

function state(item: Item): string {
  switch (item.state) {
    case "waiting":
      return t.waiting;
    case "paused":
      return t.paused(format.size(item.sent), format.size(item.file.size));
    case "sending": {
      if (item.waits) return t.uploadWaits;
      const left = item.rate > 0 ? format.time((item.file.size - item.sent) / item.rate) : "–";
      return t.uploadProgress(format.size(item.sent), format.size(item.file.size), format.rate(8 * item.rate), left);
    }
    case "exists":
      return t.there;
    case "done":
      return `${format.size(item.file.size)} · ${t.uploaded}`;
    case "skipped":
      return t.skipIt;
    case "failed": {
      const problem = item.problem ?? { status: 0 };
      return isDenied(problem) ? t.uploadNotAllowed : words(problem);
    }
  }
}
