// Work of the server by its configuration, with forms: jobs and their runs, quotas, budgets, webhooks; and the certificates of TLS.

import { useState } from "preact/hooks";
import * as format from "../format";
import { usePolled } from "../hooks";
import { change, figures, type BudgetStatus, type CertificateStatus, type JobStatus, type Problem, type QuotaStatus, type SettingEntry, type WebhookStatus } from "../server";
import { moment, t, words } from "../texts";
import { Entries, type Keep } from "./Entries";
import { ARRAYS, type ArrayName } from "./members";

const PERIOD_MS = 3000;
/** Holders of one budget that are shown. */
const HOLDERS_MAX = 8;

interface Props {
  settings: SettingEntry[];
  changeable: boolean;
  keep: Keep;
}

export function Work({ settings, changeable, keep }: Props) {
  const [orders, setOrders] = useState(0);
  const [failed, setFailed] = useState("");
  const states = usePolled(
    async (signal) => {
      const [jobs, quotas, budgets, webhooks, certificates] = await Promise.all([
        figures<JobStatus[]>("jobs", signal),
        figures<QuotaStatus[]>("quotas", signal),
        figures<BudgetStatus[]>("budgets", signal),
        figures<WebhookStatus[]>("webhooks", signal),
        figures<CertificateStatus[]>("certificates", signal),
      ]);
      return { jobs: jobs ?? [], quotas: quotas ?? [], budgets: budgets ?? [], webhooks: webhooks ?? [], certificates: certificates ?? [] };
    },
    PERIOD_MS,
    [orders, settings],
  );
  const order: Order = (url) => {
    setFailed("");
    change("POST", url).then(
      () => setOrders((count) => count + 1),
      (problem: unknown) => setFailed(words(problem as Problem)),
    );
  };
  const stateOf = (array: ArrayName, name: string) => {
    const job = states?.jobs.find((each) => each.name === name);
    const quota = states?.quotas.find((each) => each.folder === name);
    const hook = states?.webhooks.find((each) => each.name === name);
    if (array === "job" && job !== undefined) return <JobState job={job} order={order} />;
    if (array === "quota" && quota !== undefined) return <QuotaState quota={quota} />;
    if (array === "webhook" && hook !== undefined) return <WebhookState hook={hook} order={order} />;
    if (array === "budget") return <BudgetState budgets={(states?.budgets ?? []).filter(({ budget }) => budget === name || budget.startsWith(`${name}:`))} />;
    return null;
  };
  return (
    <>
      {failed !== "" && (
        <p class="notice" role="alert">
          {failed}
        </p>
      )}
      {ARRAYS.map((array) => (
        <Entries
          key={array}
          array={array}
          entries={settings.filter(({ key }) => key.startsWith(`${array}.`))}
          changeable={changeable}
          keep={keep}
          state={(name) => stateOf(array, name)}
        />
      ))}
      <Certificates certificates={states?.certificates ?? []} />
    </>
  );
}

type Order = (url: string) => void;

function JobState({ job, order }: { job: JobStatus; order: Order }) {
  const { running, last } = job;
  const counts = [
    [t.outcomes["Succeeded"], job.succeeded],
    [t.outcomes["Failed"], job.failed],
    [t.outcomes["Stopped"], job.stopped],
    [t.missedRuns, job.missed],
  ].filter(([, count]) => Number(count) > 0);
  return (
    <>
      <span class="quiet">
        {[
          job.next === null ? t.jobNever : t.jobNext(moment(job.next)),
          last === null ? t.jobNoRun : t.jobLast(t.outcomes[last.outcome] ?? last.outcome, moment(last.started), format.time(last.seconds), last.files, format.size(last.bytes)),
        ].join(" · ")}
      </span>
      {counts.length > 0 && <span class="quiet">{t.jobRuns(counts.map(([text, count]) => `${count} ${text}`).join(", "))}</span>}
      {last?.reason && <span class="warn">{last.reason}</span>}
      {running !== null && (
        <>
          <span class="quiet">{t.jobRunning(moment(running.started), format.size(running.bytes))}</span>
          <progress {...(running.bytes_total > 0 && { value: running.bytes, max: running.bytes_total })} aria-label={job.name} />
        </>
      )}
      {running === null ? (
        <button aria-label={t.runNamed(job.name)} onClick={() => order(`api/v1/jobs/${encodeURIComponent(job.name)}/run`)}>
          {t.run}
        </button>
      ) : (
        <button disabled={running.stopping} aria-label={t.stopNamed(job.name)} onClick={() => order(`api/v1/jobs/${encodeURIComponent(job.name)}/stop`)}>
          {t.stop}
        </button>
      )}
    </>
  );
}

function QuotaState({ quota }: { quota: QuotaStatus }) {
  return (
    <>
      <progress value={quota.used_bytes} max={quota.max_bytes} aria-label={quota.folder} />
      <span class="quiet">{quota.counted ? t.quotaLine(format.size(quota.used_bytes), format.size(quota.max_bytes)) : t.quotaCounting}</span>
    </>
  );
}

function WebhookState({ hook, order }: { hook: WebhookStatus; order: Order }) {
  return (
    <>
      <span class="quiet">{t.webhookLine(hook.delivered, hook.waiting, hook.failed)}</span>
      {hook.ended && <span class="warn">{t.webhookEnded}</span>}
      {hook.error && <span class="warn">{hook.error}</span>}
      <button aria-label={t.testNamed(hook.name)} onClick={() => order(`api/v1/webhooks/${encodeURIComponent(hook.name)}/test`)}>
        {t.testWebhook}
      </button>
    </>
  );
}

function BudgetState({ budgets }: { budgets: BudgetStatus[] }) {
  return (
    <>
      {budgets.slice(0, HOLDERS_MAX).map(({ budget, used }) => (
        <span key={budget} class="quiet">
          {t.budgetUse(budget, used.streams ?? 0, format.rate(used.reserved_bps ?? 0))}
        </span>
      ))}
      {budgets.length > HOLDERS_MAX && <span class="quiet">{t.more(budgets.length - HOLDERS_MAX)}</span>}
    </>
  );
}

export function Certificates({ certificates }: { certificates: CertificateStatus[] }) {
  return (
    <section class="card" aria-label={t.certificates}>
      <h2>{t.certificates}</h2>
      {certificates.length === 0 && <p class="quiet">{t.noCertificates}</p>}
      <ul class="rows">
        {certificates.map(({ file, names, expires, problem }) => (
          <li key={file}>
            <span class="name">{names.join(", ")}</span>
            <span class="quiet">{t.certificateLine(file, moment(expires))}</span>
            {problem && <span class="warn">{problem}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
