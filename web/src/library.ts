// The list of a folder's contents, with a way back up.

import { el, type Child } from "./dom";
import * as format from "./format";
import { list, mediaUrl, type Entry, type Problem } from "./server";

/** Videos that browsers do not play: chosen, they say so. */
const OTHER_VIDEOS = ["avi", "flv", "mpg", "mpeg", "wmv", "vob", "rm", "3gp", "mxf"];

/** What the page can do with a file, by its name. */
export function playableAs(name: string): "video" | "mpegts" | "playlist" | null {
  const ending = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? "";
  if (["ts", "m2ts", "mts"].includes(ending)) return "mpegts";
  if (ending === "m3u8") return "playlist";
  if (["mp4", "m4v", "mov", "webm", "mkv", "m4a", "mp3", "ogg", "opus", "oga", "ogv", "wav"].includes(ending)) return "video";
  return null;
}

/** Whether a file is something to watch or to hear. */
export function isMedia(name: string): boolean {
  return playableAs(name) !== null || OTHER_VIDEOS.some((ending) => name.toLowerCase().endsWith(`.${ending}`));
}

/** The address, within this page, of a folder (`a/b/`) or a content (`a/b.mp4`). */
export function pageAddress(path: string): string {
  return `#/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** Shows `folder` in `place`; `playing` is the path of the content that plays, if any. */
export async function showFolder(place: HTMLElement, folder: string, playing: string | null): Promise<void> {
  place.setAttribute("aria-busy", "true");
  try {
    const entries = await list(folder);
    place.replaceChildren(crumbs(folder), entries.length === 0 ? empty() : table(folder, entries, playing));
  } catch (error) {
    const { status, title, detail } = error as Problem;
    const reason = status === 404 ? "There is no such folder." : (detail ?? title ?? "The server does not answer.");
    place.replaceChildren(crumbs(folder), el("p", { class: "notice", role: "alert" }, `The contents cannot be listed. ${reason}`));
  } finally {
    place.removeAttribute("aria-busy");
  }
}

function crumbs(folder: string): HTMLElement {
  const items: Child[] = [el("li", {}, el("a", { href: "#/" }, "Contents"))];
  let path = "";
  for (const part of folder.split("/").filter((part) => part !== "")) {
    path += `${part}/`;
    items.push(el("li", {}, el("a", { href: pageAddress(path) }, ...format.breakable(part))));
  }
  return el("nav", { "aria-label": "Folder" }, el("ol", { class: "crumbs" }, ...items));
}

function empty(): HTMLElement {
  return el("p", { class: "quiet" }, "Nothing here yet. Upload with: ", el("code", {}, `curl -T film.mp4 ${location.origin}/media/film.mp4`));
}

function table(folder: string, entries: Entry[], playing: string | null): HTMLElement {
  const head = el("tr", {}, el("th", { scope: "col" }, "Name"), el("th", { scope: "col", class: "figure" }, "Rate"), el("th", { scope: "col", class: "figure" }, "Size"), el("th", { scope: "col" }, el("span", { class: "unseen" }, "Download")));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, ...entries.map((entry) => row(folder, entry, playing))));
}

/** The rate that a stream reserves, which is not the mean that the list shows. */
function reserved(entry: Entry): Record<string, string> {
  return entry.rate_bps === null ? {} : { title: `A stream of it reserves ${format.rate(entry.rate_bps)}, and sends 4 s ahead` };
}

function row(folder: string, entry: Entry, playing: string | null): HTMLElement {
  if (entry.kind === "directory") {
    const link = el("a", { href: pageAddress(`${folder}${entry.name}/`) }, ...format.breakable(`${entry.name}/`));
    return el("tr", {}, el("td", { class: "name" }, link), el("td"), el("td"), el("td"));
  }
  const path = folder + entry.name;
  const shown = format.breakable(entry.name);
  const name = isMedia(entry.name) ? el("a", { href: pageAddress(path) }, ...shown) : el("span", {}, ...shown);
  if (path === playing) name.setAttribute("aria-current", "true");
  const download = el("a", { href: mediaUrl(path, { rate: "max" }), download: entry.name, "aria-label": `Download ${entry.name}` }, "↓");
  return el(
    "tr",
    {},
    el("td", { class: "name" }, name),
    el("td", { class: "figure", ...reserved(entry) }, entry.rate_bps === null ? "" : format.rate(entry.mean_bps ?? entry.rate_bps)),
    el("td", { class: "figure" }, format.size(entry.size)),
    el("td", { class: "figure" }, download),
  );
}
