// Figures over time, drawn by uPlot, which is read when the first graph is shown.

import { useEffect, useRef } from "preact/hooks";
import type uPlotType from "uplot";
import { useLanguage } from "../texts";

const HEIGHT_PX = 200;
const DAY_S = 86_400;

/** A line of a graph, with a value for each point; null: none is known. */
export interface Line {
  label: string;
  colour: "--accent-plain" | "--second-plain" | "--third-plain";
  values: (number | null)[];
}

export interface Lines {
  /** Time of the first point, seconds since 1970, and from each to the next. */
  from: number;
  period: number;
  lines: Line[];
  /** The axis of values reaches at least so far. */
  least: number;
  words: (value: number) => string;
}

function columns({ from, period, lines }: Lines): uPlotType.AlignedData {
  return [(lines[0]?.values ?? []).map((_, index) => from + index * period), ...lines.map(({ values }) => values)];
}

/** Drawn anew for another `name`: it says which figures over which span these are. */
export function Graph({ name, shown, label }: { name: string; shown: Lines; label: string }) {
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
      const days = shown.period * (shown.lines[0]?.values.length ?? 0) > 2 * DAY_S;
      const moment = (time: number) => new Date(1000 * time).toLocaleString(language, days ? { dateStyle: "short" } : { timeStyle: "short" });
      const options: uPlotType.Options = {
        width: element.clientWidth,
        height: HEIGHT_PX,
        cursor: { drag: { x: false, y: false } },
        scales: { y: { range: (_, _least, most) => [0, Math.max(most ?? 0, shown.least) * 1.05] } },
        axes: [
          { ...axis, space: 90, values: (_, ticks) => ticks.map(moment) },
          { ...axis, size: 90, values: (_, ticks) => ticks.map((value) => (value === 0 ? "0" : shown.words(value))) },
        ],
        legend: { live: false },
        series: [{}, ...shown.lines.map((line) => ({ label: line.label, stroke: colour(line.colour), width: 2, points: { show: false } }))],
      };
      plot.current = new Plot(options, columns(shown), element);
      watch = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
      watch.observe(element);
    });
    return () => {
      over = true;
      watch?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [language, name]);
  useEffect(() => plot.current?.setData(columns(shown)));
  return <div ref={place} class="graph" role="img" aria-label={label} />;
}
