// What is wrong now and what to do about it; volumes, jobs, quotas, webhooks.

import { useState } from "preact/hooks";
import * as format from "../format";
import { usePolled } from "../hooks";
import { change, figures, words, type Alarm, type JobStatus, type Problem, type QuotaStatus, type VolumeStatus, type WebhookStatus } from "../server";
import { moment, t } from "../texts";

const PERIOD_MS = 5000;

export function Health() {
  const [failed, setFailed] = useState("");
  const answer = usePolled(async (signal) => {
    const [alarms, volumes, jobs, quotas, webhooks] = await Promise.all([
      figures<Alarm[]>("alarms", signal),
      figures<VolumeStatus[]>("volumes", signal),
      figures<JobStatus[]>("jobs", signal),
      figures<QuotaStatus[]>("quotas", signal),
      figures<WebhookStatus[]>("webhooks", signal),
    ]);
    return { alarms, volumes: volumes ?? [], jobs: jobs ?? [], quotas: quotas ?? [], webhooks: webhooks ?? [] };
  }, PERIOD_MS);
  if (answer === undefined) return <section class="card" aria-busy="true">{t.reading}</section>;
  const { alarms, volumes, jobs, quotas, webhooks } = answer;
  const act = (url: string) => {
    setFailed("");
    change("POST", url).catch((problem: unknown) => setFailed(words(problem as Problem, t.noAnswer)));
  };
  return (
    <>
      <section class="card" aria-label={t.health}>
        {alarms === null ? (
          <p class="quiet">{t.noAnswer}</p>
        ) : alarms.length === 0 ? (
          <p class="lead">✓ {t.allWell}</p>
        ) : (
          <ul class="rows">
            {alarms.map((alarm) => (
              <li key={alarm.kind + alarm.about} class={alarm.severity === "serious" ? "serious" : ""}>
                <span class="name">
                  {alarm.severity === "serious" ? t.serious : t.advice}: {alarm.about}
                </span>
                <span>{alarm.text}</span>
              </li>
            ))}
          </ul>
        )}
      </section>
      {failed !== "" && (
        <p class="notice" role="alert">
          {failed}
        </p>
      )}
      {volumes.length > 0 && <Volumes volumes={volumes} act={act} />}
      {jobs.length > 0 && (
        <Rows title={t.jobs}>
          {jobs.map((job) => (
            <li key={job.name}>
              <span class="name">
                {job.name} <span class="quiet">{job.kind}</span>
              </span>
              <span class="quiet">
                {[job.next === null ? "" : t.jobNext(moment(job.next)), job.last === null ? "" : t.jobLast(job.last.outcome, moment(job.last.started)), job.last?.reason ?? ""].filter((part) => part !== "").join(" · ")}
              </span>
              {job.running === null ? (
                <button onClick={() => act(`api/v1/jobs/${encodeURIComponent(job.name)}/run`)}>{t.run}</button>
              ) : (
                <button onClick={() => act(`api/v1/jobs/${encodeURIComponent(job.name)}/stop`)}>{t.stop}</button>
              )}
            </li>
          ))}
        </Rows>
      )}
      {quotas.length > 0 && (
        <Rows title={t.quotas}>
          {quotas.map((quota) => (
            <li key={quota.folder}>
              <span class="name">{quota.folder}</span>
              <progress value={quota.used_bytes} max={quota.max_bytes} aria-label={quota.folder} />
              <span class="quiet">{t.quotaLine(format.size(quota.used_bytes), format.size(quota.max_bytes))}</span>
            </li>
          ))}
        </Rows>
      )}
      {webhooks.length > 0 && (
        <Rows title={t.webhooks}>
          {webhooks.map((hook) => (
            <li key={hook.name}>
              <span class="name">{hook.name}</span>
              <span class="quiet">{t.webhookLine(hook.delivered, hook.waiting, hook.failed)}</span>
              {hook.error && <span class="warn">{hook.error}</span>}
              <button onClick={() => act(`api/v1/webhooks/${encodeURIComponent(hook.name)}/test`)}>{t.testWebhook}</button>
            </li>
          ))}
        </Rows>
      )}
    </>
  );
}

function Rows({ title, children }: { title: string; children: preact.ComponentChildren }) {
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <ul class="rows">{children}</ul>
    </section>
  );
}

function Volumes({ volumes, act }: { volumes: VolumeStatus[]; act: (url: string) => void }) {
  return (
    <Rows title={t.volumes}>
      {volumes.map((volume) => (
        <li key={volume.name}>
          <span class="name">
            {volume.name} {volume.degraded && <span class="warn">{t.degraded}</span>}
          </span>
          <span class="quiet">{t.volumeLine(volume.layout, volume.contents, format.size(volume.free_bytes))}</span>
          {volume.upkeep ? (
            <>
              <span class="quiet">
                {volume.upkeep.kind} · {format.percent(volume.upkeep.seen_bytes / Math.max(1, volume.upkeep.total_bytes))}
              </span>
              <progress value={volume.upkeep.seen_bytes} max={Math.max(1, volume.upkeep.total_bytes)} aria-label={volume.upkeep.kind} />
            </>
          ) : (
            <span class="bar wrap">
              <button onClick={() => act(`api/v1/volumes/${encodeURIComponent(volume.name)}/scrub`)}>{t.scrub}</button>
              <button onClick={() => act(`api/v1/volumes/${encodeURIComponent(volume.name)}/rebalance`)}>{t.rebalance}</button>
              <span class="quiet">{volume.last_scrub ? t.lastScrub(moment(volume.last_scrub.ended)) : t.neverScrubbed}</span>
            </span>
          )}
          <ul class="rows">
            {volume.disks.map((disk) => (
              <li key={disk.path}>
                <span class="name">{disk.path}</span>
                <span class={["active", "left"].includes(disk.state) ? "quiet" : "warn"}>
                  {disk.state}
                  {disk.error ? ` · ${disk.error}` : ""}
                </span>
              </li>
            ))}
          </ul>
        </li>
      ))}
    </Rows>
  );
}
