// Unit tests of the page: what needs no browser. `npm test`, or `make test`.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../src/format";
import { isMedia, pageAddress, playableAs } from "../src/library";
import { ReadError, Segments } from "../src/segments";
import { mediaUrl } from "../src/server";
import { Stalls } from "../src/stalls";
import * as ts from "../src/ts";

const PICTURES_PER_S = 25;
const PACKETS_PER_PICTURE = 40;

/** A packet that begins a picture, or one that goes on with it. */
function packet(picture: number, first: boolean, key: boolean): Uint8Array {
  const bytes = new Uint8Array(ts.PACKET).fill(picture & 0xff);
  bytes.set([0x47, first ? 0x41 : 0x01, 0x00, first ? 0x30 : 0x10]);
  if (!first) return bytes;
  const ticks = (picture * 90_000) / PICTURES_PER_S + 126_000;
  const stamp = [0x21 | (Math.floor(ticks / 2 ** 30) << 1), (ticks >> 22) & 0xff, ((ticks >> 14) & 0xfe) | 1, (ticks >> 7) & 0xff, ((ticks << 1) & 0xfe) | 1];
  bytes.set([0x01, key ? 0x40 : 0x00, 0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, ...stamp], 4);
  return bytes;
}

/** So many seconds of film with a key frame every two. */
function film(seconds: number): Uint8Array {
  const packets = Array.from({ length: seconds * PICTURES_PER_S * PACKETS_PER_PICTURE }, (_, n) => {
    const picture = Math.floor(n / PACKETS_PER_PICTURE);
    return packet(picture, n % PACKETS_PER_PICTURE === 0, picture % (2 * PICTURES_PER_S) === 0);
  });
  return new Uint8Array(Buffer.concat(packets));
}

/** A server with one file, in the place of `fetch`; returns what it was asked. `broken`: after so many bytes it breaks off. */
function serve(file: Uint8Array, answer: (url: string) => { status?: number; broken?: number } = () => ({})): string[] {
  const asked: string[] = [];
  globalThis.fetch = (async (url: string, { headers }: { headers: { Range: string } }) => {
    asked.push(`${url} ${headers.Range}`);
    const { status = 206, broken = Infinity } = answer(url);
    if (status !== 206) return new Response(null, { status });
    const [from = 0, to] = /bytes=(\d+)-(\d*)/.exec(headers.Range)!.slice(1).map((text) => (text === "" ? undefined : Number(text)));
    const part = file.slice(from, Math.min((to ?? file.length) + 1, from + broken));
    const pieces = Array.from({ length: Math.ceil(part.length / 50_000) }, (_, n) => part.slice(n * 50_000, (n + 1) * 50_000));
    const body = new ReadableStream({ pull: (control) => (pieces.length > 0 ? control.enqueue(pieces.shift()) : control.close()) });
    return new Response(body, { status, headers: { "Content-Range": `bytes ${from}-${file.length - 1}/${file.length}` } });
  }) as typeof fetch;
  return asked;
}

const { signal } = new AbortController();

test("a packet tells what begins in it", () => {
  assert.deepEqual(ts.start(packet(25, true, true), 0), { video: true, key: true, time: 2.4 });
  assert.deepEqual(ts.start(packet(25, true, false), 0), { video: true, key: false, time: 2.4 });
  assert.equal(ts.start(packet(25, false, false), 0), null);
});

test("packets are found, of a disc too, and other files are told apart", () => {
  const plain = film(1);
  assert.deepEqual(ts.grid(plain), { first: 0, step: 188 });
  const disc = Buffer.concat(Array.from({ length: 10 }, (_, n) => Buffer.concat([Buffer.alloc(4), plain.subarray(n * 188, (n + 1) * 188)])));
  assert.deepEqual(ts.grid(disc), { first: 4, step: 192 });
  assert.deepEqual(Buffer.from(ts.plain(disc.subarray(4), 192)), Buffer.from(plain.subarray(0, 9 * 188)));
  assert.equal(ts.grid(new Uint8Array(4000)), null);
});

test("segments in a row are the file, cut where pictures begin, in one request", async () => {
  const file = film(10);
  const asked = serve(file);
  const segments = await Segments.open("/media/a.ts?session=x");
  assert.ok(Math.abs(segments.seconds - 9.96) < 1e-6, `${segments.seconds}`);
  assert.match(segments.playlist((n) => `s${n}`), /#EXTINF:1\.960,\ns8\n#EXT-X-ENDLIST/);
  const parts: Uint8Array[] = [];
  for (let n = 0; n < 9; n += 1) parts.push(await segments.segment(n, signal));
  assert.ok(Buffer.concat(parts).equals(file));
  for (const part of parts) assert.ok(ts.start(part, 0)?.video);
  assert.equal(asked.length, 3, asked.join("\n"));
});

test("a segment that was sought begins with the key frame before it", async () => {
  serve(film(20));
  const segments = await Segments.open("/media/a.ts?session=x");
  for (const [n, key] of [[11, 10], [4, 4], [17, 16]] as const) {
    const start = ts.start(await segments.segment(n, signal), 0);
    assert.ok(start?.key);
    assert.ok(Math.abs(start.time! - 1.4 - key) < 1e-6, `segment ${n} begins at ${start.time! - 1.4}`);
  }
});

test("a request that the server ended is gone on with where it ended", async () => {
  const file = film(6);
  let asked = 0;
  serve(file, () => ((asked += 1) === 3 ? { broken: 500_123 } : {}));
  const segments = await Segments.open("/media/a.ts?session=x");
  const parts: Uint8Array[] = [];
  for (let n = 0; n < 5; n += 1) parts.push(await segments.segment(n, signal));
  assert.ok(Buffer.concat(parts).equals(file));
});

test("where there is no room for a burst the rate alone is asked for, and a refusal of that is told", async () => {
  const file = film(3);
  serve(file, (url) => (url.includes("burst=") ? { status: 503 } : {}));
  const segments = await Segments.open("/media/a.ts?session=x");
  assert.ok((await segments.segment(0, signal)).length > 0);
  serve(file, () => ({ status: 503 }));
  await assert.rejects(segments.segment(0, signal), (error) => error instanceof ReadError && error.status === 503);
});

test("an interruption is a picture that stands, not a start, a seek or a pause", () => {
  const stalls = new Stalls();
  let now = 0;
  let time = 0;
  const run = (seconds: number, speed: number, shouldRun = true) => {
    for (let n = 0; n < seconds * 10; n += 1) {
      now += 0.1;
      time += 0.1 * speed;
      stalls.look({ now, time, shouldRun });
    }
  };
  run(2, 0); // It starts.
  run(3, 1);
  run(1, 0, false); // Paused or sought,
  run(1, 0); // and begun again.
  run(3, 1);
  assert.equal(stalls.count, 0);
  run(1, 0);
  run(2, 1);
  run(0.5, 0);
  assert.equal(stalls.count, 2);
  assert.ok(Math.abs(stalls.seconds - 1.5) < 0.25, `${stalls.seconds}`);
});

test("figures are written as people read them", () => {
  assert.deepEqual([format.rate(8_801_308), format.size(70_410_464), format.percent(0.423)], ["8.80 Mbit/s", "67.1 MiB", "42 %"]);
  assert.deepEqual([59.9, 3725].map(format.time), ["0:59", "1:02:05"]);
  assert.deepEqual([0, 1, 8_801_308, 2e7].map(format.roundAbove), [1, 1, 1e7, 2e7]);
});

test("names say how a content is played, and are encoded in addresses", () => {
  assert.deepEqual(["a.TS", "b.mp4", "c.m3u8", "d.avi", "e.txt"].map(playableAs), ["mpegts", "video", "playlist", null, null]);
  assert.deepEqual(["d.AVI", "e.txt", "avi"].map(isMedia), [true, false, false]);
  assert.equal(mediaUrl("a b/c#d?.ts", { rate: "max" }), "media/a%20b/c%23d%3F.ts?rate=max");
  assert.equal(pageAddress("a b/ü.ts"), "#/a%20b/%C3%BC.ts");
});
