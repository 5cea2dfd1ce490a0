// The event log as it grows, by server-sent events; the latest are kept.

import { useState } from "preact/hooks";
import { useEventStream } from "../hooks";
import { moment, t } from "../texts";

const KEPT_MAX = 1000;

interface Event {
  event: string;
  time: number;
  [member: string]: unknown;
}

/** Adds the server's latest events, oldest first, to those that came one by one meanwhile, newest first. */
export const withLatest = (latest: Event[]) => (old: Event[]) => {
  const known = new Set(latest.map((event) => JSON.stringify(event)));
  const from = latest.at(-1)?.time ?? 0;
  const later = old.filter((event) => event.time >= from && !known.has(JSON.stringify(event)));
  return [...later, ...[...latest].reverse()].slice(0, KEPT_MAX);
};

export function Log() {
  const [events, set] = useState<Event[]>([]);
  const [filter, setFilter] = useState("");
  useEventStream<Event>("api/v1/events", {
    begun: (stop) =>
      void fetch("api/v1/events", { signal: stop, headers: { Accept: "application/json" }, cache: "no-store" })
        .then(async (answer) => answer.ok && set(withLatest((await answer.json()) as Event[])))
        .catch(() => {}),
    received: (event) => set((old) => [event, ...old].slice(0, KEPT_MAX)),
  });
  const shown = events.filter((event) => JSON.stringify(event).toLowerCase().includes(filter.toLowerCase()));
  return (
    <section class="card" aria-label={t.log}>
      <input type="search" value={filter} placeholder={t.filter} aria-label={t.filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      {shown.length === 0 && <p class="quiet">{t.noEvents}</p>}
      <ul class="rows log">
        {shown.map(({ event, time, ...members }, index) => (
          <li key={events.length - index}>
            <span class="name">
              {event} <span class="quiet">{moment(time)}</span>
            </span>
            <span class="quiet">
              {Object.entries(members)
                .filter(([, value]) => value !== null)
                .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
                .join(" · ")}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
