// Figures that the server keeps: of the last minutes, and of up to thirty days.

import { useState } from "preact/hooks";
import * as format from "../format";
import { usePolled } from "../hooks";
import { recall, store } from "../kept";
import { figures, type FiguresHistory } from "../server";
import { t } from "../texts";
import { Graph, type Lines } from "./Graph";

/** The server keeps a mean of every ten seconds. */
const PERIOD_MS = 10_000;
/** Spans that can be chosen, seconds. */
const SPANS = [600, 3600, 86_400, 604_800, 2_592_000];
/** Of a server that sends nothing the axis ends here, bits per second. */
const RATE_AXIS_MIN = 1_000_000;

type Kind = "rates" | "use" | "streams";

export function History() {
  const kept = Number(recall("span"));
  const [span, setSpan] = useState(SPANS.includes(kept) ? kept : SPANS[0]!);
  const [kind, setKind] = useState<Kind>("rates");
  const choose = (span: number) => {
    setSpan(span);
    store("span", String(span));
  };
  const answer = usePolled(async (signal) => ({ span, history: await figures<FiguresHistory>(`history?seconds=${span}`, signal) }), PERIOD_MS, [span]);
  const history = answer?.span === span ? answer.history : null;
  const shown = history === null ? null : lines(history, kind);
  return (
    <>
      <div class="bar wrap tools">
        <select aria-label={t.figuresShown} value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
          <option value="rates">{t.rates}</option>
          <option value="use">{t.use}</option>
          <option value="streams">{t.streams}</option>
        </select>
        <select aria-label={t.span} value={span} onChange={(event) => choose(Number(event.currentTarget.value))}>
          {SPANS.map((seconds, index) => (
            <option key={seconds} value={seconds}>
              {t.spans[index]}
            </option>
          ))}
        </select>
      </div>
      {shown === null ? <div class="graph" /> : <Graph name={`${kind} ${span}`} shown={shown} label={shown.lines.map(({ label, values }) => t.most(label, shown.words(Math.max(0, ...values.map((value) => value ?? 0))))).join(", ")} />}
    </>
  );
}

function lines(history: FiguresHistory, kind: Kind): Lines {
  const base = { from: history.from, period: history.period_seconds };
  switch (kind) {
    case "rates":
      return {
        ...base,
        least: RATE_AXIS_MIN,
        words: format.rate,
        lines: [
          { label: t.sent, colour: "--accent-plain", values: history.sent_bps },
          { label: t.received, colour: "--second-plain", values: history.received_bps },
          { label: t.diskRate, colour: "--third-plain", values: history.disk_bps },
        ],
      };
    case "use":
      return {
        ...base,
        least: 1,
        words: format.percent,
        lines: [
          { label: t.disksForStreams, colour: "--accent-plain", values: history.real_time_share },
          { label: t.disksForOthers, colour: "--second-plain", values: history.best_effort_share },
          { label: t.processors, colour: "--third-plain", values: history.cpu_share },
        ],
      };
    case "streams":
      return { ...base, least: 4, words: (value) => value.toFixed(value < 10 && value % 1 !== 0 ? 1 : 0), lines: [{ label: t.streams, colour: "--accent-plain", values: history.streams }] };
  }
}
