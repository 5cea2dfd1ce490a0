// The uploads of this page: progress, rate and time left of each, and what to do with contents that exist.

import { useState } from "preact/hooks";
import * as format from "../format";
import { words } from "../server";
import { t } from "../texts";
import type { Item, Uploads } from "./uploads";

/** Lines that are shown; the others wait below. */
const SHOWN = 100;

export function UploadPanel({ uploads }: { uploads: Uploads }) {
  const { items } = uploads;
  if (items.length === 0) return null;
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

function Line({ item, uploads }: { item: Item; uploads: Uploads }) {
  return (
    <>
      <span class="name">{item.path}</span>
      {item.state === "sending" && <progress value={item.sent} max={Math.max(item.file.size, 1)} aria-label={item.path} />}
      <span class="quiet">{state(item)}</span>
      {item.state === "exists" && <Question item={item} uploads={uploads} />}
      {item.state === "failed" && <button onClick={() => uploads.retry(item)}>{t.tryAgain}</button>}
      {(item.state === "waiting" || item.state === "sending") && <button onClick={() => uploads.cancel(item)}>{t.cancel}</button>}
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
    case "sending": {
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
      return problem.status === 403 || problem.status === 401 ? t.uploadNotAllowed : words(problem, t.noAnswer);
    }
  }
}
