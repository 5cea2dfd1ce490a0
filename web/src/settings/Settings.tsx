// Settings in force, with their sources; those that may be changed while the server runs are changed here.

import { useCallback, useEffect, useState } from "preact/hooks";
import { changeSetting, isDenied, settings, type Problem, type SettingEntry, type SettingsInForce, type SettingValue } from "../server";
import { t, words } from "../texts";
import { ARRAYS } from "./members";
import { Work } from "./Work";
import { fromText, toText } from "./values";

interface Change {
  key: string;
  /** `null`: the default. */
  value: SettingValue | null;
}

export function Settings() {
  const [state, setState] = useState<SettingsInForce | Problem | null>(null);
  const [note, setNote] = useState("");
  /** The latest changes made here, the newest first: each can be undone. */
  const [undo, setUndo] = useState<Change[]>([]);
  const [changing, setChanging] = useState(false);
  const read = useCallback(async () => setState(await settings().catch((problem: Problem) => problem)), []);
  useEffect(() => void read(), []);
  if (state === null) return <section class="card" aria-busy="true">{t.reading}</section>;
  if ("status" in state) {
    return (
      <section class="card">
        <p class="notice">{isDenied(state) ? t.settingsForAdministrators : words(state)}</p>
      </section>
    );
  }
  /** The reason for which it is not in force; empty: it is, and `undoable` are the changes that can be undone from then on. */
  const change = async ({ key, value }: Change, undoable: Change[]): Promise<string> => {
    setChanging(true);
    try {
      setState(await changeSetting(key, value, state.tag));
      setNote(t.settingChanged(key));
      setUndo(undoable);
      return "";
    } catch (problem) {
      if ((problem as Problem).status !== 412) return words(problem as Problem);
      await read();
      return t.settingsChangedElsewhere;
    } finally {
      setChanging(false);
    }
  };
  const keep = (key: string, value: SettingValue | null) => {
    const before = state.settings.find((entry) => entry.key === key);
    return change({ key, value }, [{ key, value: before === undefined || before.source === "default" ? null : before.value }, ...undo]);
  };
  const undoLast = async () => {
    const [last, ...others] = undo;
    if (last === undefined) return;
    const failed = await change(last, others);
    if (failed !== "") setNote(failed);
  };
  const single = state.settings.filter(({ key }) => !ARRAYS.some((array) => key.startsWith(`${array}.`)));
  const changeable = single.filter((entry) => entry.changeable);
  const fixed = single.filter((entry) => !entry.changeable);
  return (
    <>
      {note !== "" && (
        <p class="notice bar" role="status">
          {note}
          {undo.length > 0 && (
            <button disabled={changing} onClick={() => void undoLast()}>
              {t.undo(undo[0]?.key ?? "")}
            </button>
          )}
        </p>
      )}
      <Work settings={state.settings} changeable={changeable.length > 0} keep={keep} />
      <section class="card settings" aria-label={t.settings}>
        <h2>{t.settings}</h2>
        <p class="quiet">{changeable.length > 0 ? t.settingsText : t.settingsNoFile}</p>
        <ul class="rows">
          {changeable.map((entry) => (
            <li key={entry.key}>
              <Changeable entry={entry} keep={(value) => keep(entry.key, value)} />
            </li>
          ))}
        </ul>
      </section>
      <section class="card settings" aria-label={t.settingsOfFile}>
        <details>
          <summary>{t.settingsOfFile}</summary>
          <p class="quiet">{t.settingsOfFileText}</p>
          <dl class="lines">
            {fixed.map((entry) => (
              <div key={entry.key}>
                <dt>
                  <code>{entry.key}</code> <Source entry={entry} />
                </dt>
                <dd>{toText(entry.value)}</dd>
              </div>
            ))}
          </dl>
        </details>
      </section>
    </>
  );
}

function Source({ entry }: { entry: SettingEntry }) {
  const parts = [t.sources[entry.source], entry.written_at ?? "", entry.needs_restart ? t.needsRestart : ""];
  return <span class="quiet">{parts.filter((part) => part !== "").join(" · ")}</span>;
}

/** `keep` gives the reason for which a value is refused; empty: it is in force. */
function Changeable({ entry, keep }: { entry: SettingEntry; keep: (value: SettingValue | null) => Promise<string> }) {
  const present = toText(entry.value);
  const [text, setText] = useState(present);
  const [failed, setFailed] = useState("");
  useEffect(() => setText(present), [present]);
  const save = async (value: SettingValue | null) => setFailed(await keep(value));
  const about = t.settingAbout[entry.key] ?? t.settingAbout[entry.key.split(".")[0] ?? ""] ?? "";
  return (
    <form
      class="setting"
      onSubmit={(event) => {
        event.preventDefault();
        void save(fromText(text, entry.value));
      }}
    >
      <label>
        <code>{entry.key}</code>
        <span>{about}</span>
        {typeof entry.value === "boolean" ? (
          <select value={text} onChange={(event) => setText(event.currentTarget.value)}>
            <option value="true">{t.yes}</option>
            <option value="false">{t.no}</option>
          </select>
        ) : Array.isArray(entry.value) ? (
          <textarea value={text} rows={text.split("\n").length} aria-invalid={failed !== ""} onInput={(event) => setText(event.currentTarget.value)} />
        ) : (
          <input value={text} aria-invalid={failed !== ""} onInput={(event) => setText(event.currentTarget.value)} />
        )}
      </label>
      <span class="bar wrap tools">
        {text !== present && (
          <>
            <button class="primary">{t.save}</button>
            <button type="button" onClick={() => (setText(present), setFailed(""))}>
              {t.cancel}
            </button>
          </>
        )}
        {entry.source !== "default" && (
          <button type="button" onClick={() => void save(null)}>
            {entry.default === null ? t.takeOut : t.toDefault(toText(entry.default).replaceAll("\n", ", "))}
          </button>
        )}
        <Source entry={entry} />
      </span>
      {failed !== "" && (
        <span class="warn" role="alert">
          {failed}
        </span>
      )}
    </form>
  );
}
