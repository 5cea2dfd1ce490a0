// Entries of an array of the configuration (jobs, quotas, budgets, webhooks): listed with their state, and a form for each.

import { useState } from "preact/hooks";
import type { SettingEntry, SettingValue } from "../server";
import { t } from "../texts";
import { fieldsOf, isOperators, membersOf, MEMBERS, newFields, valueOf, type ArrayName, type Fields, type Member } from "./members";

/** Puts an entry in force; gives the reason for which it is refused, empty: it is in force. */
export type Keep = (key: string, value: SettingValue | null) => Promise<string>;

interface Props {
  array: ArrayName;
  entries: SettingEntry[];
  /** False where no file could keep a change. */
  changeable: boolean;
  keep: Keep;
  /** The state of the entry of this name. */
  state: (name: string) => preact.ComponentChildren;
}

export function Entries({ array, entries, changeable, keep, state }: Props) {
  /** The key of the entry whose form is open; empty: of a new one. */
  const [open, setOpen] = useState<string | null>(null);
  const [failed, setFailed] = useState("");
  const close = () => (setOpen(null), setFailed(""));
  const save = async (key: string, value: SettingValue | null) => {
    const reason = await keep(key, value);
    setFailed(reason);
    if (reason === "") setOpen(null);
  };
  const form = (fields: Fields, key: string | null) => (
    <EntryForm array={array} fields={fields} isNew={key === null} failed={failed} close={close} save={(value, name) => void save(key ?? `${array}.${name}`, value)} />
  );
  return (
    <section class="card entries" aria-label={t.arrays[array]}>
      <h2>{t.arrays[array]}</h2>
      <p class="quiet">{t.arraysAbout[array]}</p>
      <ul class="rows">
        {entries.map((entry) => {
          const name = entry.key.slice(array.length + 1);
          return (
            <li key={entry.key}>
              <span class="name">{name}</span>
              <Summary array={array} entry={entry} />
              {state(name)}
              {open === entry.key ? (
                form(fieldsOf(array, entry.value), entry.key)
              ) : (
                <span class="bar wrap tools">
                  {entry.changeable && (
                    <>
                      <button aria-label={t.editNamed(name)} onClick={() => (setFailed(""), setOpen(entry.key))}>
                        {t.edit}
                      </button>
                      <button class="danger" aria-label={t.removeNamed(name)} onClick={() => void save(entry.key, null)}>
                        {t.remove}
                      </button>
                    </>
                  )}
                  <span class="quiet">{[entry.written_at ?? "", isOperators(entry.value) ? t.operatorsEntry : ""].filter((part) => part !== "").join(" · ")}</span>
                </span>
              )}
            </li>
          );
        })}
      </ul>
      {open === "" ? form(newFields(array), null) : changeable && <button onClick={() => (setFailed(""), setOpen(""))}>{t.addTo[array]}</button>}
      {failed !== "" && open === null && (
        <p class="warn" role="alert">
          {failed}
        </p>
      )}
    </section>
  );
}

/** "keep · 30 3 * * * · recordings · max_age 30d" */
function Summary({ array, entry }: { array: ArrayName; entry: SettingEntry }) {
  const fields = fieldsOf(array, entry.value);
  const [, ...others] = MEMBERS[array];
  const said = others.filter(({ name, absent }) => (fields[name] ?? "") !== "" && fields[name] !== absent && (entry.value as Record<string, unknown>)[name] !== undefined);
  const command = (entry.value as Record<string, unknown>)["command"];
  const parts = said.map(({ name, needed }) => `${needed ? "" : `${name} `}${(fields[name] ?? "").replaceAll("\n", ", ")}`);
  if (Array.isArray(command)) parts.push(command.join(" "));
  return <span class="quiet detail">{parts.join(" · ")}</span>;
}

interface FormProps {
  array: ArrayName;
  fields: Fields;
  isNew: boolean;
  failed: string;
  close: () => void;
  save: (value: SettingValue, name: string) => void;
}

function EntryForm({ array, fields: before, isNew, failed, close, save }: FormProps) {
  const [fields, setFields] = useState(before);
  const [first] = MEMBERS[array];
  return (
    <form
      class="entry"
      onSubmit={(event) => {
        event.preventDefault();
        save(valueOf(array, fields), (fields[first?.name ?? ""] ?? "").trim().replace(/\/+$/, ""));
      }}
    >
      {membersOf(array, fields).map((member) => (
        <Field key={member.name} array={array} member={member} value={fields[member.name] ?? ""} fixed={!isNew && member === first} set={(value) => setFields({ ...fields, [member.name]: value })} />
      ))}
      {failed !== "" && (
        <p class="warn" role="alert">
          {failed}
        </p>
      )}
      <span class="bar wrap tools">
        <button class="primary">{t.save}</button>
        <button type="button" onClick={close}>
          {t.cancel}
        </button>
      </span>
    </form>
  );
}

function Field({ array, member, value, fixed, set }: { array: ArrayName; member: Member; value: string; fixed: boolean; set: (value: string) => void }) {
  const { name, form, example, needed } = member;
  return (
    <label>
      <span>
        {t.memberAbout[`${array}.${name}`] ?? t.memberAbout[name] ?? name} <code>{name}</code>
      </span>
      {Array.isArray(form) ? (
        <select value={value} onChange={(event) => set(event.currentTarget.value)}>
          {form.map((word: string) => (
            <option key={word} value={word}>
              {t.memberWords[word] ?? word}
            </option>
          ))}
        </select>
      ) : form === "list" ? (
        <textarea value={value} required={needed === true} rows={Math.max(2, value.split("\n").length)} placeholder={example ?? ""} onInput={(event) => set(event.currentTarget.value)} />
      ) : (
        <input value={value} required={needed === true} readOnly={fixed} placeholder={example ?? ""} onInput={(event) => set(event.currentTarget.value)} />
      )}
    </label>
  );
}
