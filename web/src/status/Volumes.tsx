// Volumes with their disks: state, room, upkeep under way, and the orders that an administrator gives, each with its consequences.

import { useState } from "preact/hooks";
import { Copied } from "../contents/Address";
import * as format from "../format";
import type { VolumeStatus } from "../server";
import { moment, t } from "../texts";

type VolumeDisk = VolumeStatus["disks"][number];
/** Gives an order; its refusal is shown by the view. */
export type Act = (url: string) => void;

export function Volumes({ volumes, act }: { volumes: VolumeStatus[]; act: Act }) {
  return (
    <section class="card" aria-label={t.volumes}>
      <h2>{t.volumes}</h2>
      {volumes.length === 0 && <p class="quiet">{t.noVolumes}</p>}
      <ul class="rows">
        {volumes.map((volume) => (
          <li key={volume.name}>
            <Volume volume={volume} act={act} />
          </li>
        ))}
      </ul>
      <NewVolume />
    </section>
  );
}

function Volume({ volume, act }: { volume: VolumeStatus; act: Act }) {
  const url = `api/v1/volumes/${encodeURIComponent(volume.name)}`;
  const { upkeep, last_upkeep: last, last_scrub: scrub } = volume;
  return (
    <>
      <span class="name">
        {volume.name} {volume.degraded && <span class="warn">{t.degraded}</span>}
      </span>
      <span class="quiet">{t.volumeLine(t.layouts[volume.layout] ?? volume.layout, volume.contents, format.size(volume.free_bytes))}</span>
      {volume.missing_contents + volume.damaged_contents > 0 && <span class="warn">{t.lostContents(volume.missing_contents, volume.damaged_contents)}</span>}
      {upkeep && (
        <>
          <span class="quiet" role="status">
            {t.upkeep[upkeep.kind] ?? upkeep.kind} · {format.percent(upkeep.seen_bytes / Math.max(1, upkeep.total_bytes))} · {t.copiesWritten(upkeep.copies_written)}
          </span>
          <progress value={upkeep.seen_bytes} max={Math.max(1, upkeep.total_bytes)} aria-label={t.upkeep[upkeep.kind] ?? upkeep.kind} />
        </>
      )}
      {!upkeep && last && (
        <span class="quiet">
          {t.upkeepEnded(t.upkeep[last.kind] ?? last.kind)} · {t.copiesWritten(last.copies_written)}
        </span>
      )}
      <span class="quiet">{scrub ? t.lastScrub(moment(scrub.ended), format.size(scrub.seen_bytes), scrub.copies_written, scrub.copies_lost, scrub.contents_unknown) : t.neverScrubbed}</span>
      <span class="bar wrap tools">
        <Order words={t.scrub} warning={t.scrubWarning} busy={upkeep != null} order={() => act(`${url}/scrub`)} />
        <Order words={t.rebalance} warning={t.rebalanceWarning} busy={upkeep != null} order={() => act(`${url}/rebalance`)} />
        <Order words={t.addDisk} warning={t.addDiskWarning} busy={upkeep != null} device order={(device) => act(`${url}/disks/add?${new URLSearchParams({ device }).toString()}`)} />
      </span>
      <ul class="rows disks">
        {volume.disks.map((disk, number) => (
          <li key={number}>
            <Disk volume={volume} disk={disk} number={number} act={(what) => act(`${url}/disks/${number}/${what}`)} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Disk({ volume, disk, number, act }: { volume: VolumeStatus; disk: VolumeDisk; number: number; act: Act }) {
  const free = disk.free_units;
  const name = `${t.diskNumber(number)}${disk.path ? ` · ${disk.path}` : ""}`;
  const busy = volume.upkeep != null;
  return (
    <>
      <span class="name">{name}</span>
      <span class={["active", "left"].includes(disk.state) ? "quiet" : "warn"}>
        {t.diskStates[disk.state] ?? disk.state}
        {disk.error ? ` · ${disk.error}` : ""}
        {disk.wrong_copies > 0 ? ` · ${t.wrongCopies(disk.wrong_copies)}` : ""}
      </span>
      {free != null && disk.state !== "left" && (
        <>
          <progress value={disk.units - free} max={Math.max(1, disk.units)} aria-label={name} />
          <span class="quiet">{t.diskFree(format.size(free * volume.unit_bytes), format.size(disk.units * volume.unit_bytes))}</span>
        </>
      )}
      {disk.state !== "left" && (
        <span class="bar wrap tools">
          {volume.layout === "mirror" && (
            <Order words={t.replaceDisk} about={name} warning={t.replaceDiskWarning} busy={busy} device order={(device) => act(`replace?${new URLSearchParams({ device }).toString()}`)} />
          )}
          <Order words={t.removeDisk} about={name} warning={t.removeDiskWarning} busy={busy} order={() => act("remove")} />
        </span>
      )}
    </>
  );
}

interface OrderProps {
  words: string;
  about?: string;
  warning: string;
  busy: boolean;
  /** The order names a disk that comes. */
  device?: true;
  order: (device: string) => void;
}

/** A button that says first what its order does. */
function Order({ words, about, warning, busy, device, order }: OrderProps) {
  const [asked, setAsked] = useState(false);
  const [path, setPath] = useState("");
  const label = about === undefined ? words : `${words}: ${about}`;
  if (!asked) {
    return (
      <button disabled={busy} aria-label={label} onClick={() => setAsked(true)}>
        {words}
      </button>
    );
  }
  return (
    <form
      class="entry order"
      aria-label={label}
      onSubmit={(event) => {
        event.preventDefault();
        order(path.trim());
        setAsked(false);
      }}
    >
      <p>{warning}</p>
      {device && (
        <label>
          <span>{t.device}</span>
          <input value={path} required pattern="/.+" placeholder="/dev/sdd" onInput={(event) => setPath(event.currentTarget.value)} />
        </label>
      )}
      <span class="bar wrap tools">
        <button class="primary">{words}</button>
        <button type="button" onClick={() => setAsked(false)}>
          {t.cancel}
        </button>
      </span>
    </form>
  );
}

/** A volume is made by a command, as its disks are cleared and the server reads its volumes at the start. */
function NewVolume() {
  const [name, setName] = useState("films");
  const [layout, setLayout] = useState("mirror");
  const [disks, setDisks] = useState("/dev/sdb /dev/sdc");
  const all = disks.split(/[\s,]+/).filter((disk) => disk !== "");
  return (
    <details>
      <summary>{t.newVolume}</summary>
      <p class="notice">{t.newVolumeWarning}</p>
      <div class="entry">
        <label>
          <span>{t.name}</span>
          <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <label>
          <span>{t.layout}</span>
          <select value={layout} onChange={(event) => setLayout(event.currentTarget.value)}>
            {Object.entries(t.layouts).map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>{t.disks}</span>
          <input value={disks} onInput={(event) => setDisks(event.currentTarget.value)} />
        </label>
      </div>
      <Copied label={t.newVolumeCommand} text={`isocast volume create --name ${quoted(name)} --layout ${layout} --yes ${all.map(quoted).join(" ")}`} />
      <Copied label={t.newVolumeLine} text={`volumes = [${JSON.stringify(all.join(","))}]`} />
    </details>
  );
}

/** For a shell. */
function quoted(text: string): string {
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
