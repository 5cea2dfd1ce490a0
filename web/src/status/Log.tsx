// The event log as it grows, by server-sent events; the latest are kept.

import { useEffect, useState } from "preact/hooks";
import { moment, t } from "../texts";

const KEPT_MAX = 1000;

interface Event {
  event: string;
  time: number;
  [member: string]: unknown;
}

export function Log() {
  const [events, set] = useState<Event[]>([]);
  const [filter, setFilter] = useState("");
  useEffect(() => {
    const source = new EventSource("api/v1/events");
    const add = (more: Event[]) => set((old) => [...more.reverse(), ...old].slice(0, KEPT_MAX));
    const stop = new AbortController();
    void fetch("api/v1/events", { signal: stop.signal, headers: { Accept: "application/json" }, cache: "no-store" })
      .then(async (answer) => answer.ok && add((await answer.json()) as Event[]))
      .catch(() => {});
    source.onmessage = ({ data }) => add([JSON.parse(String(data)) as Event]);
    return () => {
      source.close();
      stop.abort();
    };
  }, []);
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
