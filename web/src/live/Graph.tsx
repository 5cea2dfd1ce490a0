// Rates over the last minutes, drawn by uPlot, which is read when the first graph is shown.

import { useEffect, useRef } from "preact/hooks";
import type uPlotType from "uplot";
import * as format from "../format";
import { t, useLanguage } from "../texts";
import type { Point } from "./Live";

const HEIGHT_PX = 200;
/** Length of the axis of time, seconds. */
const SHOWN_S = 600;
/** Of a server that sends nothing the axis ends here, bits per second. */
const AXIS_MIN = 1_000_000;

function columns(points: Point[]): uPlotType.AlignedData {
  return [points.map(({ time }) => time), points.map(({ sent }) => sent), points.map(({ received }) => received), points.map(({ disk }) => disk)];
}

export function Graph({ points, label }: { points: Point[]; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlotType | null>(null);
  const language = useLanguage();
  useEffect(() => {
    const element = place.current;
    let over = false;
    let watch: ResizeObserver | null = null;
    void Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]).then(([{ default: Plot }]) => {
      if (over || element === null) return;
      const colour = (name: string) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
      const axis = { stroke: colour("--quiet-plain"), grid: { stroke: colour("--line-plain"), width: 1 } };
      const line = (label: string, stroke: () => string) => ({ label, stroke, width: 2, points: { show: false } });
      const options: uPlotType.Options = {
        width: element.clientWidth,
        height: HEIGHT_PX,
        cursor: { drag: { x: false, y: false } },
        scales: { x: { range: (_, _first, last) => [last - SHOWN_S, last] }, y: { range: (_, _least, most) => [0, Math.max(most ?? 0, AXIS_MIN) * 1.05] } },
        axes: [{ ...axis, space: 90, incrs: [60, 120, 300], values: (_, ticks) => ticks.map((time) => new Date(1000 * time).toLocaleTimeString(language, { timeStyle: "short" })) }, { ...axis, size: 90, values: (_, ticks) => ticks.map((bits) => (bits === 0 ? "0" : format.rate(bits))) }],
        legend: { live: false },
        series: [{}, line(t.sent, colour("--accent-plain")), line(t.received, () => "#d97706"), line(t.diskRate, () => "#6b7fd7")],
      };
      plot.current = new Plot(options, columns(points), element);
      watch = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
      watch.observe(element);
    });
    return () => {
      over = true;
      watch?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [language]);
  useEffect(() => plot.current?.setData(columns(points)));
  return <div ref={place} class="graph" role="img" aria-label={label} />;
}
