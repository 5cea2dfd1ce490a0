// Plays the film with each player, in each container, from an idle server and from one with room for exactly one viewer:
// from the start, with a pause, and with ten seeks. Prints the table of docs/guide/players.md; fails if one does not play.
//
//   node main.mjs --program target/release/isocast [--only mpv,VLC,…] [--content MP4] [--pause SECONDS] [--lanes CELLS_AT_ONCE]
//
// With --pause 90 the pause is the one of the guide's table; by default it is shortened, and the server's times with it.

import { availableParallelism } from "node:os";
import { mkdirSync, mkdtempSync, chmodSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

import { closeBrowser } from "./browser.mjs";
import { browserCells, downloadCells, filmCells } from "./cells.mjs";
import { makeMedia } from "./media.mjs";
import { calibrate } from "./server.mjs";

const { values } = parseArgs({
  options: {
    program: { type: "string", default: "target/release/isocast" },
    only: { type: "string" },
    content: { type: "string" },
    pause: { type: "string", default: "6" },
    media: { type: "string", default: join(tmpdir(), "isocast-players-media") },
    lanes: { type: "string", default: String(3 * availableParallelism()) },
  },
});

const work = mkdtempSync(join(tmpdir(), "isocast-players-"));
chmodSync(work, 0o755);
mkdirSync(values.media, { recursive: true });
makeMedia(values.media);

const settings = { program: resolve(values.program), media: values.media, work, pause: Number(values.pause) };
calibrate(settings);
const wanted = values.only?.split(",");
const cells = [...filmCells(), ...browserCells(), ...downloadCells()]
  .filter((cell) => !wanted || wanted.includes(cell.player))
  .filter((cell) => !values.content || values.content === cell.what);
const began = performance.now();

// A few at once: each waits most of its time.
const queue = [...cells];
const lanes = Array.from({ length: Number(values.lanes) }, async () => {
  for (let cell = queue.shift(); cell; cell = queue.shift()) {
    try {
      cell.seen = await cell.run(settings);
    } catch (error) {
      cell.failed = error.message;
    }
    console.log(`${cell.failed ? "FAILED" : "ok    "} ${cell.player}, ${cell.what}, ${cell.server}: ${cell.failed ?? cell.seen}`);
  }
});
await Promise.all(lanes);
rmSync(work, { recursive: true, force: true });

const servers = [...new Set(cells.map((cell) => cell.server))];
console.log(`\n| player | content | ${servers.join(" | ")} |\n|---|---|${servers.map(() => "---|").join("")}`);
for (const row of new Set(cells.map((cell) => `${cell.player} | ${cell.what}`))) {
  const seen = servers.map((server) => {
    const cell = cells.find((each) => `${each.player} | ${each.what}` === row && each.server === server);
    return cell ? (cell.failed ? `**${cell.failed}**` : cell.seen) : "–";
  });
  console.log(`| ${row} | ${seen.join(" | ")} |`);
}
const failed = cells.filter((cell) => cell.failed).length;
console.log(`\n${cells.length - failed} of ${cells.length} play, in ${Math.round((performance.now() - began) / 1000)} s`);
await closeBrowser();
process.exit(failed ? 1 : 0);
