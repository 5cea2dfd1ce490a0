// Forms of an administrator: rights of users and groups over folders, members of groups, passwords; and of every user: tokens.

import { useState } from "preact/hooks";
import { Copied } from "../contents/Address";
import { usePolled } from "../hooks";
import { figures, send, type AccountEntry, type GroupEntry, type Problem, type TokenText } from "../server";
import { t, words } from "../texts";
import { Field, LISTS_MS, rightsOf, type Act } from "./Access";

const RIGHTS = ["read", "write", "delete", "share", "admin"];
const DAY_S = 86_400;

/** The words of a form, and the button that sent it. */
function sent(event: SubmitEvent): [FormData, string] {
  event.preventDefault();
  return [new FormData(event.currentTarget as HTMLFormElement), (event.submitter as HTMLButtonElement | null)?.value ?? ""];
}

const part = (fields: FormData, name: string) => encodeURIComponent(String(fields.get(name)));

function RightChoice({ chosen }: { chosen: string[] }) {
  return (
    <>
      {RIGHTS.map((right) => (
        <label key={right}>
          <input name="rights" type="checkbox" value={right} defaultChecked={chosen.includes(right)} /> {t.rightNames[right]}
        </label>
      ))}
    </>
  );
}

/** Groups, and what users and groups may do. */
export function Rights({ act, changes, users }: { act: Act; changes: number; users: AccountEntry[] }) {
  const groups = usePolled((signal) => figures<GroupEntry[]>("groups", signal), LISTS_MS, [changes]) ?? [];
  const grant = (event: SubmitEvent) => {
    const [fields, verb] = sent(event);
    void act("POST", `${String(fields.get("of"))}/${part(fields, "name")}/${verb}`, { folder: String(fields.get("folder")), rights: fields.getAll("rights") });
  };
  const join = (event: SubmitEvent) => {
    const [fields, verb] = sent(event);
    void act(verb === "PUT" ? "PUT" : "DELETE", `groups/${part(fields, "group")}/members/${part(fields, "user")}`);
  };
  const password = async (event: SubmitEvent) => {
    const form = event.currentTarget as HTMLFormElement;
    const [fields] = sent(event);
    if (await act("PUT", `users/${part(fields, "name")}/password`, { password: String(fields.get("password")) })) form.reset();
  };
  return (
    <section class="card" aria-label={t.rights}>
      <h2>{t.rights}</h2>
      <ul class="rows">
        {groups.map(({ name, members, rights }) => (
          <li key={name}>
            <span class="name">
              {t.group} {name}
            </span>{" "}
            <span class="quiet">{[...rights.map((grant) => `${grant.folder}: ${rightsOf(grant)}`), members.join(", ")].filter((text) => text !== "").join(" · ")}</span>
          </li>
        ))}
      </ul>
      <datalist id="users">
        {users.map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <form class="bar wrap tools" aria-label={t.rights} onSubmit={grant}>
        <select name="of" aria-label={t.holder}>
          <option value="users">{t.user}</option>
          <option value="groups">{t.group}</option>
        </select>
        <Field name="name" label={t.userName} list="users" />
        <Field name="folder" label={t.folder} value="/" />
        <RightChoice chosen={["read"]} />
        <button value="grant">{t.grant}</button>
        <button value="revoke">{t.revoke}</button>
      </form>
      <form class="bar wrap tools" aria-label={t.members} onSubmit={join}>
        <Field name="user" label={t.user} list="users" />
        <Field name="group" label={t.group} />
        <button value="PUT">{t.putInto}</button>
        <button value="DELETE">{t.takeOut}</button>
      </form>
      <form class="bar wrap tools" aria-label={t.newPassword} onSubmit={(event) => void password(event)}>
        <Field name="name" label={t.user} list="users" />
        <Field name="password" label={t.newPassword} type="password" complete="new-password" />
        <button>{t.save}</button>
      </form>
    </section>
  );
}

/** A token for a program; its text is shown once. */
export function NewToken({ renew }: { renew: () => void }) {
  const [token, setToken] = useState<TokenText | null>(null);
  const [problem, setProblem] = useState("");
  const make = async (event: SubmitEvent) => {
    const [fields] = sent(event);
    const days = Number(fields.get("days"));
    try {
      const answer = await send("POST", "api/v1/tokens", { label: String(fields.get("label")), folder: String(fields.get("folder")), rights: fields.getAll("rights"), ...(days > 0 && { expires_seconds: days * DAY_S }) });
      setToken((await answer.json()) as TokenText);
      setProblem("");
      renew();
    } catch (refusal) {
      setProblem(words(refusal as Problem));
    }
  };
  return (
    <>
      <form class="bar wrap tools" aria-label={t.newToken} onSubmit={(event) => void make(event)}>
        <Field name="label" label={t.purpose} />
        <Field name="folder" label={t.folder} value="/" />
        <RightChoice chosen={["read"]} />
        <label>
          {t.daysValid} <input name="days" type="number" min="1" max="36500" />
        </label>
        <button>{t.newToken}</button>
      </form>
      {problem !== "" && (
        <p class="warn" role="alert">
          {problem}
        </p>
      )}
      {token !== null && <Copied key={token.id} label={t.tokenText} text={token.token} />}
    </>
  );
}

/** The password of the user that is logged in. */
export function OwnPassword({ user, act }: { user: string; act: Act }) {
  const change = async (event: SubmitEvent) => {
    const form = event.currentTarget as HTMLFormElement;
    const [fields] = sent(event);
    const of = (name: string) => String(fields.get(name));
    if (await act("PUT", `users/${encodeURIComponent(user)}/password`, { present: of("present"), password: of("password") })) form.reset();
  };
  return (
    <details>
      <summary>{t.newPassword}</summary>
      <form class="bar wrap tools" onSubmit={(event) => void change(event)}>
        <Field name="present" label={t.presentPassword} type="password" complete="current-password" />
        <Field name="password" label={t.newPassword} type="password" complete="new-password" />
        <button>{t.save}</button>
      </form>
    </details>
  );
}
