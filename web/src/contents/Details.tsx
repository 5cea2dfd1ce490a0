// Details of a content or folder: rates, address for players, readers, download, deletion.

import { useEffect, useRef, useState } from "preact/hooks";
import { Share } from "../access/Share";
import * as format from "../format";
import { usePolled } from "../hooks";
import { figures, mediaUrl, zipUrl, type ContentDetails, type Entry, type Stream } from "../server";
import { moment, t } from "../texts";
import { Address } from "./Address";
import { isMedia, kindOf, playedSeconds } from "./kinds";

const READERS_MS = 2000;

interface Props {
  path: string;
  entry: Entry;
  close: () => void;
  rename: () => void;
  elsewhere: (method: "MOVE" | "COPY") => void;
  remove: () => void;
}

export function Details({ path, entry, close, rename, elsewhere, remove }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const streams = usePolled((signal) => figures<Stream[]>("streams", signal), READERS_MS);
  const readers = (streams ?? []).filter((stream) => stream.path === path && stream.direction === "out");
  const file = entry.kind === "file";
  const [details, setDetails] = useState<ContentDetails | null>(null);
  useEffect(() => {
    if (!file) return;
    const stop = new AbortController();
    void figures<ContentDetails>(`contents/details?${new URLSearchParams({ path }).toString()}`, stop.signal).then(setDetails);
    return () => stop.abort();
  }, []);
  const lines: [string, string][] = [
    [t.type, t.kinds[kindOf(entry)] ?? ""],
    [t.container, details?.container ?? ""],
    [t.codecs, details?.codecs.join(", ") ?? ""],
    [t.size, file ? format.size(entry.size) : ""],
    [t.duration, file ? playedSeconds(entry) : ""],
    [t.modified, moment(entry.modified)],
    [t.rateOf, entry.rate_bps === null ? (file ? t.bestEffort : "") : format.rate(entry.mean_bps ?? entry.rate_bps)],
    [t.reservedRate, entry.rate_bps === null ? "" : format.rate(entry.rate_bps)],
    [t.rateSource, t.rateSources[entry.rate_source ?? ""] ?? entry.rate_source ?? ""],
    [t.liesOn, details === null ? "" : t.copiesOn(details.copies, details.disks.join(", "))],
    [t.readers, file ? (readers.length === 0 ? t.noReaders : readers.map((stream) => `${stream.client} (${format.rate(stream.rate_bps)})`).join(", ")) : ""],
  ];
  return (
    <dialog ref={dialog} class="details" onClose={close} aria-label={t.details(entry.name)}>
      <div class="bar">
        <h2>{entry.name}</h2>
        <button onClick={() => dialog.current?.close()}>{t.close}</button>
      </div>
      <dl class="lines">
        {lines.map(([name, value]) => value !== "" && <Line key={name} name={name} value={value} />)}
      </dl>
      {file && <Address url={mediaUrl(path)} media={isMedia(entry.name)} />}
      <Share path={file ? path : `${path}/`} media={file && isMedia(entry.name)} />
      <div class="bar wrap">
        <a class="button" href={file ? mediaUrl(path, { rate: "max" }) : zipUrl([path])} download={file ? entry.name : true}>
          {t.download}
        </a>
        <button onClick={rename}>{t.rename}</button>
        <button onClick={() => elsewhere("MOVE")}>{t.moveTo}</button>
        <button onClick={() => elsewhere("COPY")}>{t.copyTo}</button>
        <button class="danger" onClick={remove}>
          {t.remove}
        </button>
      </div>
    </dialog>
  );
}

function Line({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
