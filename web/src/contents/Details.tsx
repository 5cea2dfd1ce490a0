// Details of a content or folder: rates, address for players, readers, download, deletion.

import { useEffect, useRef, useState } from "preact/hooks";
import * as format from "../format";
import { usePolled } from "../hooks";
import { figures, mediaUrl, type Entry, type Stream } from "../server";
import { moment, t } from "../texts";
import { isMedia, kindOf } from "./kinds";

const READERS_MS = 2000;

export function Details({ path, entry, close, rename, remove }: { path: string; entry: Entry; close: () => void; rename: () => void; remove: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const streams = usePolled((signal) => figures<Stream[]>("streams", signal), READERS_MS);
  const readers = (streams ?? []).filter((stream) => stream.path === path && stream.direction === "out");
  const file = entry.kind === "file";
  const lines: [string, string][] = [
    [t.type, file ? kindOf(entry) : t.folder],
    [t.size, file ? format.size(entry.size) : ""],
    [t.modified, moment(entry.modified)],
    [t.rateOf, entry.rate_bps === null ? (file ? t.bestEffort : "") : format.rate(entry.mean_bps ?? entry.rate_bps)],
    [t.reservedRate, entry.rate_bps === null ? "" : format.rate(entry.rate_bps)],
    [t.rateSource, entry.rate_source ?? ""],
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
      {file && <Address path={path} media={isMedia(entry.name)} />}
      <div class="bar wrap">
        {file && (
          <a class="button" href={mediaUrl(path, { rate: "max" })} download={entry.name}>
            {t.download}
          </a>
        )}
        <button onClick={rename}>{t.rename}</button>
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

/** The address for players of this content, to copy, to open, and as a QR code for a phone. */
export function Address({ path, media }: { path: string; media: boolean }) {
  const [code, setCode] = useState("");
  const [copied, setCopied] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const address = new URL(mediaUrl(path), location.href).href;
  const copy = async () => {
    field.current?.select();
    // Without a secure origin there is only the selection.
    await navigator.clipboard?.writeText(address).catch(() => {});
    setCopied(document.getSelection() !== null);
  };
  const show = async () => {
    const { renderSVG } = await import("uqr");
    setCode(`data:image/svg+xml,${encodeURIComponent(renderSVG(address, { border: 2 }))}`);
  };
  return (
    <div class="address">
      <label>
        {media ? t.addressFor : t.address}
        <input ref={field} readonly value={address} />
      </label>
      <div class="bar wrap">
        <button onClick={() => void copy()}>{copied ? t.copied : t.copy}</button>
        {media && (
          <a class="button" href={`vlc://${address}`}>
            {t.openInVlc}
          </a>
        )}
        {code === "" ? <button onClick={() => void show()}>{t.qrCode}</button> : <img src={code} alt={t.qrCode} width="160" height="160" />}
      </div>
    </div>
  );
}
