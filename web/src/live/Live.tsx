// Figures of the server, each second while the page is visible: head-room, rates, disks, streams.

import { useEffect, useRef, useState } from "preact/hooks";
import { Ask } from "../contents/Contents";
import * as format from "../format";
import { useEvents } from "../hooks";
import { addressOf } from "../route";
import { change, figures, type Disk, type LiveFigures, type Problem, type Stream, type StreamExplanation, type System } from "../server";
import { moment, t, words } from "../texts";
import { History } from "./History";

export function Live() {
  const latest = useEvents<LiveFigures>("api/v1/live");
  if (latest === undefined) return <section class="card" aria-busy="true">{t.reading}</section>;
  if (latest === null) return <section class="card"><p class="quiet">{t.noFigures}</p></section>;
  const { system, streams, disks, unlisted } = latest;
  const room = disks.reduce((sum, disk) => sum + disk.more_streams, 0);
  // Else memory or a link has less room than they have together.
  const short = disks.length > 1 && room <= system.more_streams ? disks.reduce((least, disk) => (disk.more_streams < least.more_streams ? disk : least)) : null;
  return (
    <>
      <section class="card" aria-label={t.live}>
        <p class="lead">
          {t.roomFor(system.more_streams, system.more_recordings)} {short === null ? "" : t.limits(short.name)}
        </p>
        <Summary system={system} />
        <History />
      </section>
      <section class="card" aria-label={t.disks}>
        <h2>{t.disks}</h2>
        <ul class="rows">
          {disks.map((disk) => (
            <li key={disk.id}>
              <DiskRow disk={disk} />
            </li>
          ))}
        </ul>
      </section>
      <Running streams={streams} unlisted={unlisted} />
      <p class="quiet">{t.meanings}</p>
      <p class="quiet">{t.version(system.version, format.time(system.uptime_seconds))}</p>
    </>
  );
}

function Summary({ system }: { system: System }) {
  const lines: [string, string][] = [
    [t.streams, String(system.streams)],
    [t.recordings, String(system.running.recordings)],
    [t.promised, format.rate(system.promised_bps)],
    [t.sent, format.rate(system.network_bps)],
    [t.received, format.rate(system.upload_bps)],
    [t.diskRate, format.rate(system.disk_bps)],
    [t.buffers, format.percent(system.buffers.used_bytes / Math.max(1, system.buffers.total_bytes))],
    [t.processors, system.cpu_share === null ? "" : format.percent(system.cpu_share)],
    [t.memory, system.memory_bytes === null ? "" : format.size(system.memory_bytes)],
    [t.misses, String(system.misses)],
    [t.refusedCount, String(system.refused)],
  ];
  return (
    <dl class="figures">
      {lines.map(
        ([name, value]) =>
          value !== "" && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

function DiskRow({ disk }: { disk: Disk }) {
  const best = Math.max(0, 1 - disk.promised_share - disk.free_share);
  const late = disk.lateness.reduce((sum, count) => sum + count, 0);
  return (
    <>
      <span class="name">
        {disk.name} <span class="quiet">{disk.model ?? ""}</span>
      </span>
      <span class="shares" aria-hidden="true">
        <span class="promised" style={{ width: `${(100 * disk.promised_share).toFixed(1)}%` }} />
        <span class="best" style={{ width: `${(100 * best).toFixed(1)}%` }} />
      </span>
      {late > 0 && <span class="quiet">{t.lateBlocks(late)}</span>}
      {disk.failing && <span class="warn">{t.failing}</span>}
      {disk.slowdown > 1.2 && <span class="warn">{t.slower(disk.slowdown.toFixed(1))}</span>}
      <span class="quiet">{t.diskShares(format.percent(disk.promised_share), format.percent(best), format.percent(disk.free_share))}</span>
      {disk.phases && <span class="quiet">{t.diskRound(format.percent(disk.phases.real_time), format.percent(disk.phases.best_effort), format.percent(disk.phases.idle))}</span>}
      <span class="quiet">
        {t.diskRoom(disk.more_streams, disk.more_recordings)}
        {disk.capacity_bytes === null || disk.free_bytes === null ? "" : ` · ${t.diskFree(format.size(disk.free_bytes), format.size(disk.capacity_bytes))}`}
      </span>
    </>
  );
}

function Running({ streams, unlisted }: { streams: Stream[]; unlisted: number }) {
  const [stopping, setStopping] = useState<Stream | null>(null);
  const [explained, setExplained] = useState<Stream | null>(null);
  const [failed, setFailed] = useState("");
  const stop = async (stream: Stream) => {
    setStopping(null);
    setFailed("");
    await change("POST", `api/v1/streams/${stream.id}/stop`).catch((problem: unknown) => setFailed(words(problem as Problem)));
  };
  return (
    <section class="card" aria-label={t.running}>
      <h2>{t.running}</h2>
      {failed !== "" && (
        <p class="notice" role="alert">
          {failed}
        </p>
      )}
      {streams.length === 0 ? (
        <p class="quiet">{t.noneRunning}</p>
      ) : (
        <div class="scroll">
          <table class="streams">
            <thead>
              <tr>
                <th scope="col">{t.name}</th>
                <th scope="col">{t.client}</th>
                <th scope="col" class="figure">
                  {t.rate}
                </th>
                <th scope="col" class="figure" title={t.jMeaning}>
                  {t.j}
                </th>
                <th scope="col" class="figure">
                  {t.misses}
                </th>
                <th scope="col">{t.heldUpBy}</th>
                <th scope="col">{t.since}</th>
                <th scope="col">
                  <span class="unseen">{t.actions}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {streams.map((stream) => (
                <Row key={stream.id} stream={stream} stop={() => setStopping(stream)} explain={() => setExplained(stream)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {unlisted > 0 && <p class="quiet">{t.more(unlisted)}</p>}
      {explained !== null && <Explanation stream={explained} close={() => setExplained(null)} />}
      {stopping !== null && <Ask text={t.stopAsk(stopping.path, stopping.client)} yes={t.stop} no={() => setStopping(null)} act={() => void stop(stopping)} />}
    </section>
  );
}

/** The reasons for the rate and the delay of a stream. */
function Explanation({ stream, close }: { stream: Stream; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [found, setFound] = useState<StreamExplanation | null>();
  useEffect(() => {
    dialog.current?.showModal();
    const stop = new AbortController();
    void figures<StreamExplanation>(`streams/${stream.id}`, stop.signal).then((explanation) => stop.signal.aborted || setFound(explanation));
    return () => stop.abort();
  }, []);
  return (
    <dialog ref={dialog} onClose={close} aria-label={t.explainNamed(stream.path)}>
      <h2>{stream.path}</h2>
      <ul class="rows">
        {found === undefined ? <li>{t.reading}</li> : found === null ? <li>{t.streamEnded}</li> : [...t.explanation(found), ...found.budgets.map((budget) => `${t.arrays.budget}: ${budget}`)].map((reason) => <li key={reason}>{reason}</li>)}
      </ul>
      <div class="bar">
        <button onClick={() => dialog.current?.close()}>{t.close}</button>
      </div>
    </dialog>
  );
}

function Row({ stream, stop, explain }: { stream: Stream; stop: () => void; explain: () => void }) {
  const late = stream.session !== null && stream.session !== undefined && stream.session.lag_seconds > 0 ? stream.session.lag_seconds.toFixed(1) : "";
  const incoming = stream.class === "constant" ? t.recordingLine : t.uploadLine;
  return (
    <tr>
      <td class="name">
        <a href={addressOf(stream.path)}>{stream.path}</a>
        {stream.direction === "in" && <span class="quiet">{incoming(format.size(stream.received_bytes))}</span>}
        {stream.session && <span class="quiet">{t.sessionLine(stream.session.contents, late)}</span>}
      </td>
      <td>
        {stream.client}
        {stream.user && <span class="quiet"> {stream.user}</span>}
      </td>
      <td class="figure">{stream.class === "constant" ? format.rate(stream.rate_bps) : t.bestEffort}</td>
      <td class="figure">{stream.j_percent === null ? "" : `${stream.j_percent.toFixed(2)} %`}</td>
      <td class="figure">{stream.misses}</td>
      <td>{stream.held_up_by ? t.heldUp[stream.held_up_by] : ""}</td>
      <td>{moment(stream.started)}</td>
      <td class="figure">
        <button aria-label={t.explainNamed(stream.path)} onClick={explain}>
          {t.explain}
        </button>
        {stream.direction === "out" && <button onClick={stop}>{t.stop}</button>}
      </td>
    </tr>
  );
}
