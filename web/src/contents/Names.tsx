// The names of a folder, as a list or a grid. Of a long folder only the part in view is drawn.

import { useEffect, useState } from "preact/hooks";
import * as format from "../format";
import { addressOf } from "../route";
import { mediaUrl, thumbnailUrl, type Entry } from "../server";
import { moment, t } from "../texts";
import { Icon } from "./Icon";
import { isMedia, kindOf, playedSeconds, type Column, type Order } from "./kinds";

/** Longer lists are drawn in part. */
const WHOLE_MAX = 400;
/** Height of a line of a list drawn in part, pixels; the style sheet says the same. */
const LINE_PX = 48;
/** Lines drawn above and below the view. */
const MARGIN = 30;

interface Props {
  folder: string;
  names: Entry[];
  grid: boolean;
  playing: string | null;
  order: Order;
  setOrder: (order: Order) => void;
  marked: ReadonlySet<string>;
  setMarked: (marked: ReadonlySet<string>) => void;
  show: (entry: Entry) => void;
}

export function Names(props: Props) {
  return props.grid ? <Grid {...props} /> : <List {...props} />;
}

/** The first and the last line in view of a list of `count` lines, whose top is `place`. */
function useView(count: number, place: () => Element | null): [number, number] {
  const from = (first: number): [number, number] => [first, first + Math.ceil(window.innerHeight / LINE_PX) + 2 * MARGIN];
  const [view, set] = useState(from(0));
  useEffect(() => {
    if (count <= WHOLE_MAX) return;
    const look = () => {
      const top = place()?.getBoundingClientRect().top ?? 0;
      set(from(Math.max(0, Math.floor(-top / LINE_PX) - MARGIN)));
    };
    look();
    window.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", look);
    return () => {
      window.removeEventListener("scroll", look);
      window.removeEventListener("resize", look);
    };
  }, [count]);
  return count <= WHOLE_MAX ? [0, count] : [view[0], Math.min(count, view[1])];
}

function List(props: Props) {
  const { names, marked, setMarked } = props;
  const [first, last] = useView(names.length, () => document.querySelector("#library tbody"));
  const all = names.length > 0 && names.every(({ name }) => marked.has(name));
  const part = names.length > WHOLE_MAX;
  return (
    <table class={part ? "names part" : "names"} aria-rowcount={names.length + 1}>
      <thead>
        <tr>
          <th scope="col">
            <input type="checkbox" aria-label={t.selectAll} checked={all} onChange={() => setMarked(new Set(all ? [] : names.map(({ name }) => name)))} />
          </th>
          <Head column="name" text={t.name} {...props} />
          <Head column="rate" text={t.rate} {...props} />
          <Head column="size" text={t.size} {...props} />
          <Head column="date" text={t.date} {...props} />
          <th scope="col">
            <span class="unseen">{t.actions}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {first > 0 && <tr class="gap" style={{ height: `${first * LINE_PX}px` }} />}
        {names.slice(first, last).map((entry, index) => (
          <Line key={entry.name} entry={entry} row={first + index + 2} {...props} />
        ))}
        {last < names.length && <tr class="gap" style={{ height: `${(names.length - last) * LINE_PX}px` }} />}
      </tbody>
    </table>
  );
}

function Head({ column, text, order, setOrder }: { column: Column; text: string } & Props) {
  const sorted = order.column === column;
  const next = { column, down: sorted ? !order.down : column === "date" };
  return (
    <th scope="col" class={column === "name" ? "" : "figure"} aria-sort={sorted ? (order.down ? "descending" : "ascending") : "none"}>
      <button class="plain" onClick={() => setOrder(next)}>
        {text}
        <span aria-hidden="true">{sorted ? (order.down ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

function Mark({ name, marked, setMarked }: { name: string } & Props) {
  const mark = () => {
    const now = new Set(marked);
    if (!now.delete(name)) now.add(name);
    setMarked(now);
  };
  return <input type="checkbox" aria-label={t.select(name)} checked={marked.has(name)} onChange={mark} />;
}

function Line({ entry, row, ...props }: { entry: Entry; row: number } & Props) {
  const { folder, playing, show } = props;
  const path = folder + entry.name;
  return (
    <tr aria-rowindex={row}>
      <td>
        <Mark name={entry.name} {...props} />
      </td>
      <td class="name">
        <Name path={path} entry={entry} playing={playing} />
      </td>
      <td class="figure">{entry.rate_bps === null ? "" : format.rate(entry.mean_bps ?? entry.rate_bps)}</td>
      <td class="figure">{entry.kind === "file" ? format.size(entry.size) : ""}</td>
      <td class="figure date">{moment(entry.modified)}</td>
      <td class="figure">
        <button class="plain" aria-label={t.details(entry.name)} onClick={() => show(entry)}>
          ⋯
        </button>
      </td>
    </tr>
  );
}

/** The name, as a link where there is something to see. */
export function Name({ path, entry, playing }: { path: string; entry: Entry; playing: string | null }) {
  const kind = kindOf(entry);
  const shown = (
    <>
      <Icon kind={kind} />
      <span>{breakable(entry.name)}</span>
    </>
  );
  if (kind === "folder") return <a href={addressOf(`${path}/`)}>{shown}</a>;
  if (isMedia(entry.name)) {
    return (
      <a href={addressOf(path)} aria-current={path === playing ? "true" : undefined}>
        {shown}
      </a>
    );
  }
  return (
    <a href={mediaUrl(path)} target="_blank" rel="noopener">
      {shown}
    </a>
  );
}

/** The picture of a content; its icon where it has none. */
function Thumbnail({ path, entry }: { path: string; entry: Entry }) {
  const kind = kindOf(entry);
  const url = kind === "picture" ? mediaUrl(path) : kind === "video" ? thumbnailUrl(path, entry) : null;
  const [failed, setFailed] = useState<string | null>(null);
  return url === null || failed === url ? <Icon kind={kind} /> : <img key={url} src={url} alt="" loading="lazy" onError={() => setFailed(url)} />;
}

/** "1:02:05 · 8.80 Mbit/s · 3.20 GiB" */
function figuresOf(entry: Entry): string {
  if (entry.kind === "directory") return "";
  const parts = [playedSeconds(entry), entry.rate_bps === null ? "" : format.rate(entry.mean_bps ?? entry.rate_bps), format.size(entry.size)];
  return parts.filter((part) => part !== "").join(" · ");
}

function Grid(props: Props) {
  const { folder, names, playing, show } = props;
  const [count, setCount] = useState(WHOLE_MAX);
  useEffect(() => {
    const more = () => {
      if (window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 1000) setCount((count) => Math.min(count + WHOLE_MAX, 1e6));
    };
    window.addEventListener("scroll", more, { passive: true });
    return () => window.removeEventListener("scroll", more);
  }, []);
  return (
    <ul class="grid">
      {names.slice(0, count).map((entry) => {
        const path = folder + entry.name;
        return (
          <li key={entry.name}>
            <div class="thumb" aria-hidden="true">
              <Thumbnail path={path} entry={entry} />
            </div>
            <div class="name">
              <Name path={path} entry={entry} playing={playing} />
            </div>
            <div class="bar">
              <Mark name={entry.name} {...props} />
              <span class="quiet">{figuresOf(entry)}</span>
              <button class="plain" aria-label={t.details(entry.name)} onClick={() => show(entry)}>
                ⋯
              </button>
            </div>
          </li>
        );
      })}
    </ul>
  );
}

/** A name that a line may end in, but in a word only where it does not fit on a line: "a_b.mp4" → "a_", <wbr>, "b.mp4" */
function breakable(name: string) {
  const parts = name.split(/(?<=[-_,;+/]|\.(?=.*\.))(?=[^-_.,;+/])/);
  return parts.flatMap((part, index) => (index === 0 ? [part] : [<wbr key={index} />, part]));
}
