// The first minutes of a server, in four steps: administrator, folders, name and access, TLS.

import { useState } from "preact/hooks";
import { usePolled } from "../hooks";
import { changeSetting, change, figures, mediaUrl, settings, type CertificateStatus, type Disk, type Problem, type SettingEntry, type SettingsInForce } from "../server";
import { Certificates } from "../settings/Work";
import { toText } from "../settings/values";
import * as format from "../format";
import { t, words } from "../texts";

/** Its first step, the administrator, is the form of the log-in. */
const STEPS = ["administrator", "folder", "name", "tls"] as const;
const PERIOD_MS = 3000;

export function SetUp() {
  const [step, setStep] = useState(1);
  const [state, setState] = useState<SettingsInForce | null | undefined>();
  const [changes, setChanges] = useState(0);
  const [problem, setProblem] = useState("");
  usePolled(async () => setState(await settings().catch(() => null)), 60_000, [changes]);
  if (state === undefined) return <section class="card" aria-busy="true">{t.reading}</section>;
  if (state === null) return <section class="card"><p class="notice">{t.settingsForAdministrators}</p></section>;
  const entry = (key: string) => state.settings.find((each) => each.key === key);
  const act = async (call: () => Promise<unknown>) => {
    setProblem("");
    await call().catch((refusal: unknown) => setProblem(words(refusal as Problem)));
    setChanges((count) => count + 1);
  };
  const last = step === STEPS.length - 1;
  return (
    <section class="card" aria-label={t.setUp}>
      <Steps step={step} />
      {problem !== "" && (
        <p class="notice" role="alert">
          {problem}
        </p>
      )}
      {step === 1 && <Folders act={act} />}
      {step === 2 && <Naming entry={entry} set={(key, value) => act(async () => setState(await changeSetting(key, value, state.tag)))} />}
      {step === 3 && <Tls entry={entry} />}
      <p class="bar wrap tools">
        {step > 1 && <button onClick={() => setStep(step - 1)}>{t.back}</button>}
        {last ? (
          <a class="button primary" href="#/">
            {t.setUpDone}
          </a>
        ) : (
          <button class="primary" onClick={() => (setProblem(""), setStep(step + 1))}>
            {t.nextStep}
          </button>
        )}
      </p>
    </section>
  );
}

export function Steps({ step }: { step: number }) {
  return (
    <>
      <h2>{t.setUp}</h2>
      <ol class="steps">
        {STEPS.map((each, index) => (
          <li key={each} aria-current={index === step ? "step" : undefined} class={index < step ? "done" : ""}>
            {index + 1}. {t.steps[each]}
          </li>
        ))}
      </ol>
    </>
  );
}

type Act = (call: () => Promise<unknown>) => Promise<void>;

function Folders({ act }: { act: Act }) {
  const disks = usePolled((signal) => figures<Disk[]>("disks", signal), PERIOD_MS) ?? [];
  const [made, setMade] = useState("");
  const make = (event: SubmitEvent) => {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget as HTMLFormElement).get("folder")).trim();
    void act(() => change("MKCOL", mediaUrl(name)).then(() => setMade(name)));
  };
  return (
    <>
      <p>{t.foldersServed}</p>
      <ul class="rows">
        {disks.map((disk) => (
          <li key={disk.id}>
            <span class="name">{disk.folders.join(", ")}</span>
            <span class="quiet">{t.diskFree(format.size(disk.free_bytes ?? 0), format.size(disk.capacity_bytes ?? 0))}</span>
          </li>
        ))}
      </ul>
      <p class="quiet">
        {t.foldersHow} <code>roots = ["/srv/video", "/mnt/disk2"]</code>
      </p>
      <form class="bar wrap tools" onSubmit={make}>
        <label>
          {t.firstFolder} <input name="folder" required placeholder="films" />
        </label>
        <button>{t.newFolder}</button>
        {made !== "" && <span role="status">✓ {made}</span>}
      </form>
    </>
  );
}

function Naming({ entry, set }: { entry: (key: string) => SettingEntry | undefined; set: (key: string, value: string[] | string) => Promise<void> }) {
  const hosts = entry("access.hosts");
  const anonymous = entry("access.anonymous");
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const names = String(new FormData(event.currentTarget as HTMLFormElement).get("hosts")).split(/[\s,]+/);
    void set("access.hosts", names.filter((name) => name !== ""));
  };
  return (
    <>
      <p>
        {t.listensAt} <code>{toText(entry("listen")?.value ?? "")}</code>
        {entry("tls.listen") !== undefined && <code> {toText(entry("tls.listen")?.value ?? "")}</code>}
      </p>
      <p class="quiet">
        {t.listensHow} <code>listen = "0.0.0.0:8080"</code>
      </p>
      {hosts?.changeable !== true && <p class="notice">{t.settingsNoFile}</p>}
      <form class="bar wrap tools" onSubmit={submit}>
        <label>
          {t.namesOfServer} <textarea name="hosts" rows={2} defaultValue={toText(hosts?.value ?? [])} placeholder="media.example" disabled={hosts?.changeable !== true} />
        </label>
        <button disabled={hosts?.changeable !== true}>{t.save}</button>
      </form>
      <label>
        {t.anonymousMay}{" "}
        <select value={toText(anonymous?.value ?? "read")} disabled={anonymous?.changeable !== true} onChange={(event) => void set("access.anonymous", event.currentTarget.value)}>
          <option value="read">{t.anonymousRead}</option>
          <option value="none">{t.anonymousNone}</option>
        </select>
      </label>
    </>
  );
}

function Tls({ entry }: { entry: (key: string) => SettingEntry | undefined }) {
  const certificates = usePolled((signal) => figures<CertificateStatus[]>("certificates", signal), PERIOD_MS) ?? [];
  const on = entry("tls.listen") !== undefined;
  return (
    <>
      <p>{on ? t.tlsOn : t.tlsOff}</p>
      {!on && (
        <>
          <p class="quiet">{t.tlsHow}</p>
          <pre>{'[tls]\nlisten = "[::]:8443"\nself_signed = true'}</pre>
        </>
      )}
      <Certificates certificates={certificates} />
    </>
  );
}
