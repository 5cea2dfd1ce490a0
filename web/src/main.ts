// The page: lists the contents, plays them, shows what the server is doing. What is shown is in the address (after `#/`).

import "./style.css";
import { byId } from "./dom";
import { isMedia, pageAddress, showFolder } from "./library";
import { showLive } from "./live";
import { Player } from "./player";

let player: Player | null = null;
let playing: string | null = null;
/** The link that gets the focus when the list is shown. */
let focusAfterwards = "";

/** Shows what the address says: a folder, or a content and its folder. */
async function show(): Promise<void> {
  const path = addressed();
  const content = path.endsWith("/") || path === "" || !isMedia(path) ? null : path;
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  const chosen = content !== playing;
  if (chosen) {
    player?.stop();
    const place = byId("player");
    player = content === null ? null : new Player(place, content, () => (location.hash = pageAddress(folder)));
    if (content === null) place.hidden = true;
    const left = playing;
    playing = content;
    // Who closed a player goes on where it was chosen.
    if (content === null && left !== null) focusAfterwards = pageAddress(left);
  }
  document.title = content === null ? "Isocast" : `${content.split("/").pop()} · Isocast`;
  await showFolder(byId("library"), folder, playing);
  document.querySelector<HTMLElement>(`a[href="${CSS.escape(focusAfterwards)}"]`)?.focus();
  focusAfterwards = "";
  // Who chose it from the end of a long list sees it play.
  if (chosen && content !== null && content === playing) byId("player").scrollIntoView({ block: "nearest" });
}

/** The path in the page's address, decoded; the top folder if it is broken. */
function addressed(): string {
  const parts = location.hash.replace(/^#?\/?/, "").split("/");
  try {
    return parts.map(decodeURIComponent).join("/");
  } catch {
    return "";
  }
}

window.addEventListener("hashchange", () => void show());
showLive(byId("live"), byId("state"), byId("offline"));
void show();
