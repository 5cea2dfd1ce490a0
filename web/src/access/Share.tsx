// A signed link to a content or folder: its limits, its address, its QR code.

import { useState } from "preact/hooks";
import { Address } from "../contents/Address";
import { send, type LinkText, type Problem } from "../server";
import { t, words } from "../texts";

/** As `t.spansOfLinks` names them. */
const HOURS = [1, 24, 168, 720];

export function Share({ path, media }: { path: string; media: boolean }) {
  const [link, setLink] = useState<LinkText | null>(null);
  const [problem, setProblem] = useState("");
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const [rate, uses] = [Number(form.get("rate")), Number(form.get("uses"))];
    const limits = { ...(rate > 0 && { rate_bps: Math.round(rate * 1e6) }), ...(uses > 0 && { uses }) };
    try {
      const answer = await send("POST", "api/v1/shares", { path, expires_seconds: Number(form.get("hours")) * 3600, ...limits });
      setLink((await answer.json()) as LinkText);
      setProblem("");
    } catch (refusal) {
      setProblem(words(refusal as Problem));
    }
  };
  return (
    <details>
      <summary>{t.share}</summary>
      <form class="bar wrap" onSubmit={(event) => void submit(event)}>
        <label>
          {t.expires}{" "}
          <select name="hours">
            {HOURS.map((hours, index) => (
              <option key={hours} value={hours} selected={hours === 168}>
                {t.spansOfLinks[index]}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t.shareRate} <input name="rate" type="number" min="0" step="any" />
        </label>
        <label>
          {t.shareUses} <input name="uses" type="number" min="1" />
        </label>
        <button>{t.makeLink}</button>
      </form>
      {problem !== "" && (
        <p class="warn" role="alert">
          {problem}
        </p>
      )}
      {link !== null && <Address key={link.id} url={link.address.replace(/^\//, "")} media={media} />}
    </details>
  );
}
