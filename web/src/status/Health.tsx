// What is wrong now and what to do about it; volumes and their disks.

import { useState } from "preact/hooks";
import { usePolled } from "../hooks";
import { change, figures, type Alarm, type Problem, type VolumeStatus } from "../server";
import { t, words } from "../texts";
import { Volumes } from "./Volumes";

const PERIOD_MS = 3000;

export function Health() {
  const [failed, setFailed] = useState("");
  const [orders, setOrders] = useState(0);
  const answer = usePolled(
    async (signal) => {
      const [alarms, volumes] = await Promise.all([figures<Alarm[]>("alarms", signal), figures<VolumeStatus[]>("volumes", signal)]);
      return { alarms, volumes: volumes ?? [] };
    },
    PERIOD_MS,
    [orders],
  );
  if (answer === undefined) return <section class="card" aria-busy="true">{t.reading}</section>;
  const { alarms, volumes } = answer;
  const act = (url: string) => {
    setFailed("");
    change("POST", url).then(
      () => setOrders((count) => count + 1),
      (problem: unknown) => setFailed(words(problem as Problem)),
    );
  };
  return (
    <>
      <section class="card" aria-label={t.health}>
        {alarms === null ? (
          <p class="quiet">{t.noFigures}</p>
        ) : alarms.length === 0 ? (
          <p class="lead">✓ {t.allWell}</p>
        ) : (
          <ul class="rows">
            {alarms.map((alarm) => (
              <AlarmRow key={alarm.kind + alarm.about + alarm.text} alarm={alarm} />
            ))}
          </ul>
        )}
      </section>
      {failed !== "" && (
        <p class="notice" role="alert">
          {failed}
        </p>
      )}
      <Volumes volumes={volumes} act={act} />
    </>
  );
}

function AlarmRow({ alarm }: { alarm: Alarm }) {
  const { text, why, remedy, note } = t.alarm(alarm);
  return (
    <li class={alarm.severity === "serious" ? "serious" : ""}>
      <span class="name">
        {alarm.severity === "serious" ? t.serious : t.advice}: {alarm.about}
      </span>
      <span>{text}</span>
      <span class="quiet">
        {why} · <code>{remedy}</code> {note}
      </span>
    </li>
  );
}
