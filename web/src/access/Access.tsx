// Accounts: log-in and log-out, the first administrator, users, tokens and logins, signed links.

import { useState } from "preact/hooks";
import { usePolled } from "../hooks";
import { figures, send, type AccountEntry, type LinkEntry, type LoginStatus, type Problem, type TokenEntry } from "../server";
import { moment, t, words } from "../texts";
import { NewToken, OwnPassword, Rights } from "./Rights";
import { Steps } from "./SetUp";

export const LISTS_MS = 5000;

/** The code of the address that a server without users prints. */
const firstCode = () => new URLSearchParams(location.hash.split("?")[1] ?? "").get("code");

/** The rights over a folder, in words. */
export const rightsOf = ({ rights }: { rights: string[] }) => rights.map((right) => t.rightNames[right] ?? right).join(", ");

export function Access() {
  // Grows with each change, so that the lists are read again.
  const [changes, setChanges] = useState(0);
  const [problem, setProblem] = useState("");
  const status = usePolled((signal) => figures<LoginStatus>("session", signal), LISTS_MS, [changes]);
  const act: Act = async (method, call, body) => {
    try {
      await send(method, `api/v1/${call}`, body);
      setProblem("");
      setChanges((count) => count + 1);
      return true;
    } catch (refusal) {
      setProblem(words(refusal as Problem));
      return false;
    }
  };
  if (status === undefined) return <section class="card" aria-busy="true">{t.reading}</section>;
  return (
    <>
      {problem !== "" && (
        <p class="notice" role="alert">
          {problem}
        </p>
      )}
      {status === null || status.user === null ? <LogIn act={act} provider={status?.provider ?? null} /> : <LoggedIn status={status} act={act} />}
      {status !== null && (status.user !== null || status.administers) && (
        <>
          {status.administers && <Users act={act} changes={changes} />}
          <Tokens act={act} changes={changes} renew={() => setChanges((count) => count + 1)} own={status.user !== null} />
          <Links act={act} changes={changes} />
        </>
      )}
    </>
  );
}

export type Act = (method: "POST" | "PUT" | "DELETE", call: string, body?: object) => Promise<boolean>;

/** The form of a log-in; of the first administrator, where the address has the code. */
function LogIn({ act, provider }: { act: Act; provider: string | null }) {
  const code = firstCode();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const login = { name: String(form.get("name")), password: String(form.get("password")) };
    if (code !== null && !(await act("POST", "first-account", { code, ...login }))) return;
    if (await act("POST", "session", login)) location.hash = code === null ? "#access" : "#setup";
  };
  return (
    <section class="card" aria-label={t.logIn}>
      {code === null ? (
        <h2>{t.logIn}</h2>
      ) : (
        <>
          <Steps step={0} />
          <p>{t.firstUser}</p>
        </>
      )}
      <form class="bar wrap" onSubmit={(event) => void submit(event)}>
        <Field name="name" label={t.userName} complete="username" />
        <Field name="password" label={t.password} type="password" complete={code === null ? "current-password" : "new-password"} />
        <button>{code === null ? t.logIn : t.addUser}</button>
      </form>
      {code === null && provider !== null && (
        <p>
          <a href="login">{t.logInBy(provider)}</a>
        </p>
      )}
    </section>
  );
}

interface FieldProps {
  name: string;
  label: string;
  type?: string;
  complete?: string;
  /** The names to choose from, by the identity of their list. */
  list?: string;
  value?: string;
}

export function Field({ name, label, type = "text", complete = "off", list, value }: FieldProps) {
  return (
    <label>
      {label} <input name={name} type={type} required autocomplete={complete} list={list} defaultValue={value} />
    </label>
  );
}

function LoggedIn({ status, act }: { status: LoginStatus; act: Act }) {
  return (
    <section class="card" aria-label={t.logIn}>
      <div class="bar wrap">
        <p class="lead">{t.loggedInAs(status.user ?? "")}</p>
        <button onClick={() => void act("DELETE", "session")}>{t.logOut}</button>
      </div>
      <ul class="rows">
        {status.rights.map((grant) => (
          <li key={grant.folder}>
            <span class="name">{grant.folder}</span> <span class="quiet">{rightsOf(grant)}</span>
          </li>
        ))}
      </ul>
      <OwnPassword user={status.user ?? ""} act={act} />
    </section>
  );
}

function Users({ act, changes }: { act: Act; changes: number }) {
  const users = usePolled((signal) => figures<AccountEntry[]>("users", signal), LISTS_MS, [changes]) ?? [];
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const fields = new FormData(form);
    const rights = fields.get("admin") === null ? ["read"] : ["read", "write", "delete", "share", "admin"];
    if (await act("POST", "users", { name: String(fields.get("name")), password: String(fields.get("password")), rights })) form.reset();
  };
  return (
    <>
      <section class="card" aria-label={t.users}>
        <h2>{t.users}</h2>
        <ul class="rows">
          {users.map(({ name, groups, rights }) => (
            <Row key={name} name={name} remove={t.removeNamed(name)} onRemove={() => confirm(t.removeUser(name)) && void act("DELETE", `users/${encodeURIComponent(name)}`)}>
              {[...rights.map((grant) => `${grant.folder}: ${rightsOf(grant)}`), ...groups].join(" · ")}
            </Row>
          ))}
        </ul>
        <form class="bar wrap" onSubmit={(event) => void submit(event)}>
          <Field name="name" label={t.userName} />
          <Field name="password" label={t.password} type="password" complete="new-password" />
          <label>
            <input name="admin" type="checkbox" /> {t.administrator}
          </label>
          <button>{t.addUser}</button>
        </form>
      </section>
      <Rights act={act} changes={changes} users={users} />
    </>
  );
}

function Tokens({ act, changes, renew, own }: { act: Act; changes: number; renew: () => void; own: boolean }) {
  const tokens = usePolled((signal) => figures<TokenEntry[]>("tokens", signal), LISTS_MS, [changes]) ?? [];
  return (
    <section class="card" aria-label={t.tokens}>
      <h2>{t.tokens}</h2>
      <ul class="rows">
        {tokens.map((token) => (
          <Row key={token.id} name={`${token.user}: ${token.label || token.id}`} remove={t.removeNamed(`${token.id}`)} onRemove={() => void act("DELETE", `tokens/${token.id}`)}>
            {[token.is_login ? t.browser : `${token.folder}: ${rightsOf(token)}`, token.last_used === null ? t.neverUsed : t.lastUsed(moment(token.last_used))].join(" · ")}
          </Row>
        ))}
      </ul>
      {own && <NewToken renew={renew} />}
    </section>
  );
}

function Links({ act, changes }: { act: Act; changes: number }) {
  const links = usePolled((signal) => figures<LinkEntry[]>("shares", signal), LISTS_MS, [changes]) ?? [];
  return (
    <section class="card" aria-label={t.links}>
      <h2>{t.links}</h2>
      {links.length === 0 && <p class="quiet">{t.noLinks}</p>}
      <ul class="rows">
        {links.map((link) => (
          <Row key={link.id} name={link.path} remove={t.removeNamed(link.path)} onRemove={() => void act("DELETE", `shares/${link.id}`)}>
            {[t.until(moment(link.expires)), link.uses === null ? "" : t.used(link.used, link.uses), link.by ?? ""].filter((text) => text !== "").join(" · ")}
          </Row>
        ))}
      </ul>
    </section>
  );
}

function Row({ name, remove, onRemove, children }: { name: string; remove: string; onRemove: () => void; children: string }) {
  return (
    <li>
      <span class="name">{name}</span> <span class="quiet">{children}</span>
      <button class="danger" aria-label={remove} onClick={onRemove}>
        {t.remove}
      </button>
    </li>
  );
}
