// Texts to copy: a command, the address of a content or of a link to it.

import { useRef, useState } from "preact/hooks";
import { t } from "../texts";

/** A text to copy. */
export function Copied({ label, text, children }: { label: string; text: string; children?: preact.ComponentChildren }) {
  const [copied, setCopied] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const copy = async () => {
    field.current?.select();
    // Without a secure origin there is only the selection.
    await navigator.clipboard?.writeText(text).catch(() => {});
    setCopied(document.getSelection() !== null);
  };
  return (
    <div class="address">
      <label>
        {label}
        <input ref={field} readonly value={text} />
      </label>
      <div class="bar wrap">
        <button onClick={() => void copy()}>{copied ? t.copied : t.copy}</button>
        {children}
      </div>
    </div>
  );
}

/** The address for players of this content, to copy, to open, and as a QR code for a phone. */
export function Address({ url, media }: { url: string; media: boolean }) {
  const [code, setCode] = useState("");
  const address = new URL(url, location.href).href;
  const show = async () => {
    const { renderSVG } = await import("uqr");
    setCode(`data:image/svg+xml,${encodeURIComponent(renderSVG(address, { border: 2 }))}`);
  };
  return (
    <Copied label={media ? t.addressFor : t.address} text={address}>
      {media && (
        <a class="button" href={`vlc://${address}`}>
          {t.openInVlc}
        </a>
      )}
      {code === "" ? <button onClick={() => void show()}>{t.qrCode}</button> : <img src={code} alt={t.qrCode} width="160" height="160" />}
    </Copied>
  );
}
