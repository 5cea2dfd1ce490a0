// Live figures of the server, once a second while the page is visible: streams, rates, disks.

import { el } from "./dom";
import * as format from "./format";
import { figures, ready } from "./server";

/** How often the figures are asked for. */
const PERIOD_MS = 1000;
/** Points of the curve: two minutes. */
const POINTS = 120;
/** Looks without an answer until it is said across the page. */
const OFFLINE = 2;

/** Streams that are listed one by one. */
const SHOWN = 12;

/** The parts of /api/v1/system that are shown. What the machine does not say is null. */
interface System {
  streams: number;
  uploads: number;
  network_bps: number;
  upload_bps: number;
  disk_bps: number;
  cpu_share: number | null;
  memory_bytes: number | null;
  buffers: { used_bytes: number; total_bytes: number };
}

/** The parts of an entry of /api/v1/streams that are shown. */
interface Stream {
  path: string;
  direction: "out" | "in";
  received_bytes: number;
  class: "constant" | "best-effort";
  rate_bps: number;
  j_percent: number | null;
  misses: number;
  session: { contents: number; lag_seconds: number; j_percent: number | null } | null;
}

/** The parts of an entry of /api/v1/disks that are shown. */
interface Disk {
  id: number;
  name: string;
  failing: boolean;
  /** Shares of its time. */
  promised_share: number;
  free_share: number;
  /** Of 8.8 Mbit/s, each of another content. */
  more_streams: number;
  /** Of 4 Mbit/s, instead of these. */
  more_recordings: number;
}

/** Starts to renew the panel in `place`, the word in `state` and the banner `offline`; runs as long as the page. */
export function showLive(place: HTMLElement, state: HTMLElement, offline: HTMLElement): void {
  const sent: number[] = [];
  const body = el("div", {});
  let unanswered = 0;
  place.replaceChildren(el("h2", {}, "Live"), body);
  const renew = async () => {
    if (document.visibilityState === "visible") {
      const signal = AbortSignal.timeout(5 * PERIOD_MS);
      const [admits, system, streams, disks] = await Promise.all([
        ready(signal),
        figures<System>("system", signal),
        figures<Stream[]>("streams", signal),
        figures<Disk[]>("disks", signal),
      ]);
      say(state, admits);
      unanswered = admits === null ? unanswered + 1 : 0;
      offline.hidden = unanswered < OFFLINE;
      if (system !== null) {
        sent.push(system.network_bps);
        if (sent.length > POINTS) sent.shift();
        body.replaceChildren(summary(system), graph(sent), shares(disks ?? []), running(streams ?? []));
      } else {
        body.replaceChildren(el("p", { class: "quiet" }, "No figures."));
      }
    }
    window.setTimeout(() => void renew(), PERIOD_MS);
  };
  void renew();
}

function say(state: HTMLElement, admits: boolean | null): void {
  const text = admits === null ? "no answer" : admits ? "admitting streams" : "not admitting streams";
  // Set only when it changes, so that a screen reader does not repeat it every second.
  if (state.textContent !== text) state.textContent = text;
  state.dataset["state"] = admits === null ? "gone" : admits ? "ready" : "closed";
}

function summary(system: System): HTMLElement {
  const list = el("dl", {});
  const add = (name: string, value: string) => list.append(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  add("Streams", String(system.streams));
  add("Sent", format.rate(system.network_bps));
  add("Uploads", String(system.uploads));
  add("Received", format.rate(system.upload_bps));
  add("Buffers", format.percent(system.buffers.used_bytes / Math.max(1, system.buffers.total_bytes)));
  if (system.cpu_share !== null) add("Processors", format.percent(system.cpu_share));
  if (system.memory_bytes !== null) add("Memory", format.size(system.memory_bytes));
  return list;
}

/** The rate sent over the last two minutes, from zero to a round figure above its highest. */
function graph(values: number[]): HTMLElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const highest = Math.max(...values, 0);
  // Of a server that sends nothing the axis ends at 1 Mbit/s.
  const top = format.roundAbove(Math.max(highest, 1_000_000));
  svg.setAttribute("viewBox", `0 0 ${POINTS - 1} 40`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Rate sent in the last two minutes, ${format.rate(highest)} at most`);
  const line = document.createElementNS(space, "polyline");
  const first = POINTS - values.length;
  line.setAttribute("points", values.map((value, index) => `${first + index},${(39.5 - (39 * value) / top).toFixed(1)}`).join(" "));
  svg.append(line);
  const text = (place: string, words: string) => el("span", { class: `quiet ${place}`, "aria-hidden": "true" }, words);
  return el("figure", {}, text("top", format.rate(top)), text("zero", "0"), svg, text("past", "2 min ago"), text("now", "sent now"));
}

/** What of each disk's time is promised, kept for best effort, and free. */
function shares(disks: Disk[]): HTMLElement {
  const items = disks.map((disk) => {
    const best = Math.max(0, 1 - disk.promised_share - disk.free_share);
    const bar = el("span", { class: "share", "aria-hidden": "true" });
    for (const [kind, share] of [["promised", disk.promised_share], ["best", best]] as const) {
      const part = el("span", { class: kind });
      part.style.width = `${(share * 100).toFixed(1)}%`;
      bar.append(part);
    }
    const words = [`promised ${format.percent(disk.promised_share)}`, `best effort ${format.percent(best)}`, `free ${format.percent(disk.free_share)}`];
    words.push(`room for about ${disk.more_streams} more viewers of 8.8 Mbit/s, or ${disk.more_recordings} recordings of 4`);
    const line = disk.failing ? "does not answer as it should" : words.join(" · ");
    return el("li", {}, el("span", { class: "name" }, disk.name), bar, el("span", { class: "quiet" }, line));
  });
  return el("ul", { class: "streams", "aria-label": "Disks" }, ...items);
}

function running(streams: Stream[]): HTMLElement {
  if (streams.length === 0) return el("p", { class: "quiet" }, "No stream is running.");
  const items = streams.slice(0, SHOWN).map((stream) => {
    const line = stream.direction === "in" ? recording(stream) : delivery(stream);
    return el("li", {}, el("span", { class: "name" }, ...format.breakable(stream.path)), el("span", { class: "quiet" }, line));
  });
  const rest = streams.length > SHOWN ? el("p", { class: "quiet" }, `and ${streams.length - SHOWN} more`) : "";
  return el("div", {}, el("ul", { class: "streams" }, ...items), rest);
}

function delivery(stream: Stream): string {
  const rate = stream.class === "constant" ? format.rate(stream.rate_bps) : "best effort";
  const j = stream.j_percent === null ? "" : ` · J ${stream.j_percent.toFixed(2)} %`;
  const misses = stream.misses === 1 ? "1 miss" : `${stream.misses} misses`;
  return `${rate}${j} · ${misses}${session(stream)}`;
}

/** What its session got over the contents that it read before. */
function session({ session }: Stream): string {
  if (!session) return "";
  const j = session.j_percent === null ? "" : `, J ${session.j_percent.toFixed(2)} %`;
  const late = session.lag_seconds > 0 ? `, ${session.lag_seconds.toFixed(1)} s late` : "";
  return ` · session of ${session.contents}${j}${late}`;
}

function recording(stream: Stream): string {
  return `${format.rate(stream.rate_bps)} · recording · ${format.size(stream.received_bytes)} received`;
}
