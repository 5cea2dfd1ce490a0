// The address of a content, or of a link to it.

import { useRef, useState } from "preact/hooks";
import { t } from "../texts";

/** The address for players of this content, to copy, to open, and as a QR code for a phone. */
export function Address({ url, media }: { url: string; media: boolean }) {
  const [code, setCode] = useState("");
  const [copied, setCopied] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const address = new URL(url, location.href).href;
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
