// The trash: deleted contents and folders, to be restored or deleted for good.

import { useState } from "preact/hooks";
import * as format from "../format";
import { usePolled } from "../hooks";
import { addressOf } from "../route";
import { figures, restore, send, type Problem, type TrashEntry } from "../server";
import { moment, t, words } from "../texts";
import { Ask } from "./Contents";
import { folderOf } from "./kinds";

const PERIOD_MS = 10_000;

export function Trash() {
  // Grows with each change, so that the list is read again.
  const [changes, setChanges] = useState(0);
  const [removing, setRemoving] = useState<TrashEntry | null>(null);
  const [failed, setFailed] = useState("");
  const items = usePolled((signal) => figures<TrashEntry[]>("trash", signal), PERIOD_MS, [changes]);
  const act = async (request: Promise<unknown>) => {
    setRemoving(null);
    setFailed("");
    await request.catch((problem: unknown) => setFailed(words(problem as Problem)));
    setChanges((count) => count + 1);
  };
  if (items === undefined) return <section class="card" aria-busy="true">{t.reading}</section>;
  return (
    <section class="card" aria-label={t.trash}>
      <h2>{t.trash}</h2>
      {failed !== "" && (
        <p class="notice" role="alert">
          {failed}
        </p>
      )}
      {items === null ? (
        <p class="quiet">{t.trashForOthers}</p>
      ) : items.length === 0 ? (
        <p class="quiet">{t.trashEmpty}</p>
      ) : (
        <ul class="rows">
          {items.map((item) => (
            <li key={item.id}>
              <span class="name">{item.path}</span>
              <span class="quiet">
                <a href={addressOf(folderOf(item.path))}>{folderOf(item.path) || t.contents}</a> · {format.size(item.bytes)} · {t.removedAt(moment(item.removed), moment(item.expires))}
              </span>
              <span class="bar wrap">
                <button onClick={() => void act(restore(item.id))}>{t.putBack}</button>
                <button class="danger" onClick={() => setRemoving(item)}>
                  {t.removeForGood}
                </button>
              </span>
            </li>
          ))}
        </ul>
      )}
      {removing !== null && <Ask text={t.removeAsk(1, removing.path)} yes={t.remove} no={() => setRemoving(null)} act={() => void act(send("DELETE", `api/v1/trash/${removing.id}`))} />}
    </section>
  );
}
