// The cells of the table: a player, a content and a server, and what is done with them.

import { Browser, WEB_PLAYERS } from "./browser.mjs";
import { BITS_PER_SECOND, COPIES, FILES, copyName } from "./media.mjs";
import { PROGRAMS, plays, run } from "./programs.mjs";
import { Server } from "./server.mjs";
import { sleep } from "./wait.mjs";

/** Where the seeks go: each away from what was played before, so that no player has it in its buffer. */
const PLACES = [60, 20, 90, 40, 100, 10, 70, 30, 80, 50];
/** Room for one viewer, not for two. */
const ROOM_FOR_ONE = BITS_PER_SECOND * 1.3;
const SERVERS = { "idle server": undefined, "room for exactly one": ROOM_FOR_ONE };
function serverFor(settings, link, tapped = true) {
  const { pause } = settings;
  // In a pause as long as a person's the server's own times run out; in a shorter one only the hold does, made shorter: who
  // takes nothing for a few seconds may only be slow on a busy machine.
  const times = pause >= 90 ? [] : [`sessions.hold=${Math.ceil(pause / 2)}s`];
  return Server.start({ ...settings, link, tapped, settings: times });
}

/** Plays from the start, pauses, and seeks ten times; what was seen. */
async function watch(settings, link, open) {
  const server = await serverFor(settings, link);
  let player;
  let doing = "from the start";
  try {
    player = await open(server);
    const first = await plays(player, 2);
    doing = "after the pause";
    await player.pause();
    await sleep(settings.pause * 1000);
    await player.resume();
    await plays(player, 1.5);
    const before = server.notes.length;
    let slowest = 0;
    for (const [nth, place] of PLACES.entries()) {
      doing = `seek ${nth + 1}`;
      slowest = Math.max(slowest, await plays(player, 0.5, await player.seek(place)));
    }
    doing = "in all";
    const refused = server.notes.filter((note) => note.status >= 500);
    if (refused.length > 0) throw new Error(`refused, the first: ${refused[0].target} ${refused[0].range ?? "whole"}`);
    const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;
    return `picture after ${seconds(first)}, seeks ≤ ${seconds(slowest)}${firstBytes(server.notes.slice(before))}`;
  } catch (error) {
    const refused = server.notes.filter((note) => note.status >= 500).length;
    throw new Error(`${doing}: ${error.message} (${refused} of ${server.notes.length} requests refused)`);
  } finally {
    await player?.close();
    await server.stop();
  }
}

/** When the first bytes of these answers came, as the table tells it. No verdict: the players share the machine. */
function firstBytes(notes) {
  if (notes.length === 0) return "";
  const times = notes.map((note) => note.ms).sort((a, b) => a - b);
  const middle = times[Math.floor(times.length / 2)];
  return `, first bytes ${Math.round(middle)} ms (≤ ${Math.round(times.at(-1))})`;
}

function cellsOf(player, contents, open) {
  return Object.entries(contents).flatMap(([what, file]) =>
    Object.entries(SERVERS).map(([server, link]) => ({
      player, what, server,
      run: (settings) => watch(settings, link, (server) => open(server, file)),
    })));
}

/** Debian's players on the files. */
export function filmCells() {
  return Object.entries(PROGRAMS).flatMap(([player, Program]) =>
    cellsOf(player, FILES, (server, file) => new Program(server.url(file))));
}

/** Players in a browser: the element itself, and the libraries with CMCD. */
export function browserCells() {
  return Object.entries(WEB_PLAYERS).flatMap(([player, { contents }]) =>
    cellsOf(player, contents, (server, file) => Browser.open(server, player, file)));
}

/** Programs that open many ranges or many files at once hold one reservation, or none. */
export function downloadCells() {
  const server = "room for exactly one";
  return [
    { player: "aria2", what: "16 ranges of one MP4", server, run: sixteenRanges },
    { player: "ffprobe", what: `${COPIES} files`, server, run: nineteenLooks },
  ];
}

async function sixteenRanges(settings) {
  const server = await serverFor(settings, ROOM_FOR_ONE, false);
  try {
    const options = ["--no-conf", "-q", "-x16", "-s16", "-k1M", "--stop=12", "-d", settings.work, "-o", "copy.mp4"];
    const download = run("aria2c", [...options, server.url(FILES.MP4)]).then(() => true);
    let most = 0;
    while (!(await Promise.race([download, sleep(100)]))) {
      most = Math.max(most, await server.promised());
    }
    const refused = server.refusals().length;
    if (most > BITS_PER_SECOND || refused > 0) throw new Error(`${most} bit/s promised, ${refused} requests refused`);
    return "one reservation, no request refused";
  } finally {
    await server.stop();
  }
}

async function nineteenLooks(settings) {
  const server = await serverFor(settings, ROOM_FOR_ONE, false);
  try {
    for (let nth = 0; nth < COPIES; nth++) {
      const options = ["-hide_banner", "-loglevel", "error", "-show_format"];
      const { code, said } = await run("ffprobe", [...options, server.url(copyName(nth))]);
      if (code !== 0) throw new Error(`file ${nth + 1}: ${said.trim()}`);
    }
    return "all looked at";
  } finally {
    await server.stop();
  }
}
