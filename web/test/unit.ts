// Unit tests of the page: what needs no browser. `npm test`, or `make test`.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as format from "../src/format";
import { arranged, isMedia, kindOf, playedAs, playedSeconds } from "../src/contents/kinds";
import { beside, Uploads, type Item } from "../src/contents/uploads";
import { areKept, forget, sendResumable, unfinished } from "../src/contents/resumable";
import { store } from "../src/kept";
import { chaptersBeside, parseChapters } from "../src/player/chapterList";
import { actionOf } from "../src/player/keys";
import { keepPlace, placeOf } from "../src/player/places";
import { ReadError, Segments } from "../src/player/segments";
import { soundTracksWithin } from "../src/player/sound";
import { Stalls } from "../src/player/stalls";
import * as subtitles from "../src/player/subtitles";
import * as ts from "../src/player/ts";
import { addressOf, parse } from "../src/route";
import { fieldsOf, isOperators, newFields, valueOf } from "../src/settings/members";
import { fromText, toText } from "../src/settings/values";
import { list, mediaUrl, ready, type Alarm, type Entry, type Problem, type StreamExplanation } from "../src/server";
import { withLatest } from "../src/status/Log";
import { en } from "../src/texts/en";
import { ja } from "../src/texts/ja";

const PICTURES_PER_S = 25;
const PACKETS_PER_PICTURE = 40;

/** A packet that begins a picture, or a packet that continues it. */
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

/** A server with one file, in the place of `fetch`; returns the requests. `broken`: it breaks off after this number of bytes. */
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
});

test("names say how a content is played, and are encoded in addresses", () => {
  assert.deepEqual(["a.TS", "b.mp4", "c.m3u8", "d.avi", "e.txt", "f.flac"].map(playedAs), ["mpegts", "media", "playlist", null, null, "media"]);
  assert.deepEqual(["d.AVI", "e.txt", "avi"].map(isMedia), [true, false, false]);
  assert.deepEqual(["a.mp3", "b.JPG", "c.srt", "d"].map((name) => kindOf({ name, kind: "file" })), ["sound", "picture", "subtitles", "other"]);
  assert.equal(mediaUrl("a b/c#d?.ts", { rate: "max" }), "media/a%20b/c%23d%3F.ts?rate=max");
  assert.equal(addressOf("a b/ü.ts"), "#/a%20b/%C3%BC.ts");
});

test("an address leads to its folder and content, and a broken one to the top", () => {
  assert.deepEqual(parse("#/a%20b/%C3%BC.ts"), { view: "contents", folder: "a b/", content: "a b/ü.ts" });
  assert.deepEqual(parse("#/a/b/"), { view: "contents", folder: "a/b/", content: null });
  assert.deepEqual(parse("#live"), { view: "live", folder: "", content: null });
  for (const broken of ["", "#", "#/%zz"]) assert.deepEqual(parse(broken), { view: "contents", folder: "", content: null });
});

const entry = (name: string, more: Partial<Entry> = {}): Entry => ({ name, kind: "file", size: 1, modified: "2026-11-28T12:00:00Z", rate_bps: null, ...more });

test("a list has folders first, numbers in order, and the names that were searched for", () => {
  const entries = [entry("episode 10.mp4", { size: 5 }), entry("episode 2.mp4", { size: 9 }), entry("Episode 1.txt"), entry("zoo", { kind: "directory" })];
  const names = (...more: [string, Parameters<typeof arranged>[2], Parameters<typeof arranged>[3]]) => arranged(entries, ...more).map(({ name }) => name);
  assert.deepEqual(names("", null, { column: "name", down: false }), ["zoo", "Episode 1.txt", "episode 2.mp4", "episode 10.mp4"]);
  assert.deepEqual(names("", null, { column: "size", down: true }), ["zoo", "episode 2.mp4", "episode 10.mp4", "Episode 1.txt"]);
  assert.deepEqual(names("EPISODE 1", "video", { column: "name", down: false }), ["episode 10.mp4"]);
});

test("a long folder is read part by part, and a refusal is thrown", async () => {
  const names = Array.from({ length: 50_000 }, (_, n) => entry(`n${String(n).padStart(6, "0")}`));
  globalThis.fetch = (async (url: string) => {
    const query = new URL(url, "http://x/").searchParams;
    const first = names.findIndex(({ name }) => name > (query.get("after") ?? ""));
    const part = names.slice(first, first + Number(query.get("limit")));
    const more = names[first + part.length] !== undefined;
    return new Response(JSON.stringify(part), { headers: more ? { Link: '<x>; rel="next"' } : {} });
  }) as typeof fetch;
  const came: [number, boolean][] = [];
  await list("a/", signal, (entries, whole) => came.push([entries.length, whole]));
  assert.deepEqual(came.at(-1), [50_000, true]);
  assert.ok(came[0]![0] <= 2000 && !came[0]![1]);
  globalThis.fetch = (async () => new Response('{"detail":"no"}', { status: 503, headers: { "Retry-After": "7" } })) as typeof fetch;
  await assert.rejects(list("a/", signal, () => {}), (problem: Problem) => problem.status === 503 && problem.retryAfterSeconds === 7 && problem.detail === "no");
});

test("the answer to whether the server is ready is read to its end, until which the browser holds its request", async () => {
  for (const status of [200, 503]) {
    const answer = new Response("words", { status });
    globalThis.fetch = (async () => answer) as typeof fetch;
    assert.deepEqual([await ready(signal), answer.bodyUsed], [status === 200, true]);
  }
  globalThis.fetch = (async () => { throw new TypeError("away"); }) as typeof fetch;
  assert.equal(await ready(signal), null);
});

/** Uploads whose server is played by the test: `sent` holds those under way. */
function uploads() {
  const sent: { item: Item; replace: boolean; end: (problem: Problem | null) => void; stopped: boolean }[] = [];
  const stored: string[] = [];
  const all = new Uploads(() => {}, (path) => stored.push(path), (item, replace, end) => {
    const one = { item, replace, end, stopped: false };
    sent.push(one);
    return () => void (one.stopped = true);
  }, () => 0);
  const file = new Blob(["12345"]);
  all.add(["a.mp4", "b.mp4", "c.mp4"].map((path) => ({ path, file })));
  return { all, sent, stored };
}

test("uploads go two at a time, and end stored, failed or canceled", () => {
  const { all, sent, stored } = uploads();
  assert.deepEqual(sent.map(({ item }) => item.path), ["a.mp4", "b.mp4"]);
  sent[0]!.end(null);
  assert.equal(sent[2]!.item.path, "c.mp4");
  sent[1]!.end({ status: 507, detail: "the disk is full" });
  assert.deepEqual(all.items.map(({ state }) => state), ["done", "failed", "sending"]);
  all.cancel(all.items[2]!);
  assert.ok(sent[2]!.stopped);
  all.retry(all.items[1]!);
  sent[3]!.end(null);
  assert.deepEqual(stored, ["a.mp4", "b.mp4"]);
  all.clear();
  assert.equal(all.items.length, 0);
});

test("a content that exists is replaced only on request, and an answer for all is kept", () => {
  const { all, sent } = uploads();
  assert.ok(sent.every(({ replace }) => !replace));
  sent[0]!.end({ status: 412 });
  sent[1]!.end({ status: 412 });
  assert.deepEqual(all.items.map(({ state }) => state), ["exists", "exists", "sending"]);
  all.answer(all.items[0]!, "replace", false);
  assert.ok(sent[3]!.item.path === "a.mp4" && sent[3]!.replace);
  all.answer(all.items[1]!, "both", true);
  sent[2]!.end({ status: 412 });
  assert.deepEqual(all.items.map(({ path }) => path), ["a.mp4", "b (2).mp4", "c (2).mp4"]);
  assert.deepEqual(["a", "x (2).tar", "d.e/f"].map(beside), ["a (2)", "x (3).tar", "d.e/f (2)"]);
});

/** A server of uploads in the place of the browser's requests: `asked` has the method of each, `answer` gives its status, 0: it is away. */
function uploadServer(answer: (method: string, url: string) => number | Promise<number>) {
  const asked: string[] = [];
  const kept = new Map<string, string>();
  globalThis.localStorage = { getItem: (name: string) => kept.get(name) ?? null, setItem: (name: string, value: string) => void kept.set(name, value) } as Storage;
  let created = 0;
  const answered = async (method: string, url: string): Promise<Response> => {
    asked.push(method);
    const status = await answer(method, url);
    if (status === 0) throw new TypeError("away");
    return new Response(null, { status, headers: { Location: `/upload/${++created}`, "Upload-Offset": "0" } });
  };
  globalThis.fetch = ((url: string, { method = "GET" }: RequestInit) => answered(method, url)) as typeof fetch;
  globalThis.XMLHttpRequest = class {
    upload = {};
    status = 0;
    statusText = "";
    responseText = "";
    onload = () => {};
    onerror = () => {};
    open(): void {}
    setRequestHeader(): void {}
    abort(): void {}
    send(): void {
      answered("PATCH", "").then(({ status }) => ((this.status = status), this.onload()), () => this.onerror());
    }
  } as unknown as typeof XMLHttpRequest;
  return asked;
}

const SENT = { path: "film.ts", size: 3, modified: 0 };

test("an upload that is canceled or paused sends nothing more, wherever it is", async () => {
  for (const at of ["POST", "HEAD", "PATCH"]) {
    const stop = new AbortController();
    const asked = uploadServer((method) => {
      if (method === at) stop.abort();
      // The lost PATCH would be tried again.
      return { POST: 201, HEAD: 200, PATCH: 0 }[method] ?? 204;
    });
    await assert.rejects(sendResumable(SENT, new Blob(["123"]), true, stop.signal, () => {}));
    assert.deepEqual(asked, { POST: ["POST", "DELETE"], HEAD: ["POST", "HEAD"], PATCH: ["POST", "HEAD", "PATCH"] }[at]);
    assert.equal(unfinished().length, at === "POST" ? 0 : 1);
  }
  const stop = new AbortController();
  const asked = uploadServer(() => 0);
  const waiting = sendResumable(SENT, new Blob(["123"]), true, stop.signal, (_, waits) => waits && stop.abort());
  await assert.rejects(waiting);
  assert.deepEqual(asked, ["POST"], "the pause before the next try was the last");
});

test("an upload replaces a content only once the user has said so, one that came meanwhile too", async () => {
  const heads: Record<string, string>[] = [];
  let there = true;
  const asked = uploadServer((method) => ({ POST: there && "If-None-Match" in heads.at(-1)! ? 412 : 201, HEAD: 200, PATCH: "If-None-Match" in heads[0]! ? 412 : 204, DELETE: 204 })[method] ?? 0);
  const answered = globalThis.fetch;
  globalThis.fetch = ((url: string, options: RequestInit) => (options.method === "POST" && heads.push(options.headers as Record<string, string>), answered(url, options))) as typeof fetch;
  const send = (replace: boolean) => sendResumable(SENT, new Blob(["123"]), replace, new AbortController().signal, () => {});
  await assert.rejects(send(false), { status: 412 });
  there = false;
  await assert.rejects(send(false), { status: 412 });
  assert.deepEqual([asked, unfinished()], [["POST", "POST", "HEAD", "PATCH", "DELETE"], []]);
  heads.length = 0;
  await send(true);
  assert.deepEqual(asked.slice(5), ["POST", "HEAD", "PATCH"]);
});

test("an upload that the server forgets begins again, after a pause and not for ever; one of few bytes is sent again too", async () => {
  const timeout = globalThis.setTimeout;
  const pauses: number[] = [];
  globalThis.setTimeout = ((done: () => void, pause = 0) => (pauses.push(pause), timeout(done))) as typeof setTimeout;
  try {
    const asked = uploadServer((method) => ({ POST: 201, HEAD: 404, DELETE: 204 })[method] ?? 0);
    await assert.rejects(sendResumable(SENT, new Blob(["123"]), true, new AbortController().signal, () => {}), { status: 410 });
    assert.deepEqual([asked.length, pauses.length, pauses.slice(0, 3), unfinished()], [18, 8, [500, 1000, 2000], []]);
    let away = 2;
    const small = uploadServer(() => (away-- > 0 ? 0 : 201));
    const all = new Uploads(() => {}, () => {});
    all.add([{ path: "small.ts", file: new Blob(["123"]) }]);
    while (all.items[0]!.state === "sending") await new Promise((done) => timeout(done));
    assert.deepEqual([all.items[0]!.state, small.length], ["done", 3]);
  } finally {
    globalThis.setTimeout = timeout;
  }
});

test("an upload is kept until the server has answered that it ended", async () => {
  let away = true;
  uploadServer((method) => ({ POST: 201, HEAD: 200, PATCH: 403, DELETE: away ? 0 : 204 })[method] ?? 0);
  await assert.rejects(sendResumable(SENT, new Blob(["123"]), true, new AbortController().signal, () => {}));
  const settled = () => new Promise((done) => setTimeout(done));
  forget(SENT.path);
  await settled();
  assert.equal(unfinished().length, 1);
  away = false;
  forget(SENT.path);
  await settled();
  assert.deepEqual(unfinished(), []);
});

test("a canceled upload leaves the list and the server, a failed one too, and one chosen again takes its place", async () => {
  uploadServer(() => 204);
  store("uploads", JSON.stringify(["a.mp4", "b.mp4"].map((path) => ({ id: path, path, size: 5, modified: 0, replace: false }))));
  const { all, sent } = uploads();
  sent[0]!.end({ status: 507, detail: "the disk is full" });
  all.cancel(all.items[0]!);
  all.cancel(all.items[0]!);
  assert.ok(sent[1]!.stopped);
  sent[2]!.end({ status: 507, detail: "the disk is full" });
  assert.deepEqual(all.items.map(({ path, state }) => `${path} ${state}`), ["c.mp4 failed"]);
  await new Promise((done) => setTimeout(done));
  assert.deepEqual(unfinished(), []);
  all.add([{ path: "c.mp4", file: new Blob(["12345"]) }]);
  assert.deepEqual(all.items.map(({ path, state }) => `${path} ${state}`), ["c.mp4 sending"]);
});

test("an upload that the browser's full storage does not keep continues after a pause, and is kept once there is room", async () => {
  const asked = uploadServer((method) => ({ POST: 201, HEAD: 200 })[method] ?? 403);
  const kept = globalThis.localStorage;
  globalThis.localStorage = { getItem: () => null, setItem: () => { throw new DOMException("full", "QuotaExceededError"); } } as unknown as Storage;
  const send = () => sendResumable(SENT, new Blob(["123"]), true, new AbortController().signal, () => {});
  await assert.rejects(send());
  await assert.rejects(send());
  assert.deepEqual(asked, ["POST", "HEAD", "PATCH", "HEAD", "PATCH"]);
  assert.equal(areKept(), false);
  globalThis.localStorage = kept;
  assert.equal(areKept(), true);
  assert.match(kept.getItem("isocast.uploads") ?? "", /film\.ts/);
});

test("subtitles beside a film are found by its name, and SubRip becomes WebVTT", () => {
  const found = subtitles.beside("s/", "film.mp4", ["film.mp4", "film.ja.srt", "film.vtt", "filmed.srt", "other.srt"]);
  assert.deepEqual(found, [{ path: "s/film.vtt", label: "" }, { path: "s/film.ja.srt", label: "ja" }]);
  assert.equal(subtitles.webVtt("\uFEFF1\r\n00:00:01,500 --> 00:00:02,000\r\n1,5 litres\r\n"), "WEBVTT\n\n1\n00:00:01.500 --> 00:00:02.000\n1,5 litres\n");
});

test("keys act unless the focus takes them, and digits lead to tenths", () => {
  const key = (key: string, more = {}) => actionOf({ key, ctrlKey: false, altKey: false, metaKey: false, target: null, ...more });
  assert.deepEqual(["f", "F", "n", "Escape", "x"].map((name) => key(name)), ["fullScreen", "fullScreen", "next", "close", null]);
  assert.equal(key("f", { ctrlKey: true }), null);
  const video = { duration: 200, currentTime: 0 } as HTMLVideoElement;
  (key("3") as (video: HTMLVideoElement) => void)(video);
  assert.equal(video.currentTime, 60);
});

test("places of contents are kept up to a number, and not near the ends", () => {
  const kept = new Map<string, string>();
  globalThis.localStorage = { getItem: (name: string) => kept.get(name) ?? null, setItem: (name: string, value: string) => void kept.set(name, value) } as Storage;
  for (let n = 0; n < 250; n += 1) keepPlace(`film ${n}`, 100 + n, 5000);
  assert.deepEqual([placeOf("film 249"), placeOf("film 0")], [349, 0]);
  keepPlace("film 249", 4990, 5000);
  assert.equal(placeOf("film 249"), 0);
  globalThis.localStorage = { getItem: () => { throw new Error("forbidden"); }, setItem: () => { throw new Error("full"); } } as unknown as Storage;
  keepPlace("film", 100, 5000);
  assert.equal(placeOf("film"), 100, "until the end of the visit");
});

test("each text stands in both languages, and takes the same figures", () => {
  const texts = (catalogue: object) => Object.entries(catalogue).map(([name, text]) => `${name} ${typeof text} ${typeof text === "function" ? text.length : ""}`);
  assert.deepEqual(texts(ja), texts(en));
  for (const [name, text] of Object.entries(en)) {
    if (typeof text === "object" && !Array.isArray(text)) assert.deepEqual(Object.keys(ja[name as keyof typeof ja]), Object.keys(text), name);
  }
  const english = Object.entries(ja).filter(([name, text]) => typeof text === "string" && text === en[name as keyof typeof en] && name !== "j");
  assert.deepEqual(english, []);
  assert.deepEqual([en.counted(1, 1), en.counted(1, 3)], ["1 name", "1 of 3 names"]);
});

/** The names among which the server's description has a member choose: of each of its forms, or of one. */
function namesOf(description: { components: { schemas: Record<string, unknown> } }, schema: string, member: string): string[] {
  return JSON.stringify(description.components.schemas[schema]).split(`"${member}":`).slice(1).flatMap((rest) => (JSON.parse(/"enum":(\[[^\]]*\])/.exec(rest)?.[1] ?? "[]") as string[]));
}

test("each alarm, fact and refusal of the server has words in Japanese, and an unknown one those of the server", () => {
  const description = JSON.parse(readFileSync("../crates/front/http/src/openapi.json", "utf8")) as Parameters<typeof namesOf>[0];
  const japanese = /[ぁ-んァ-ン]/;
  const english = { text: "the text", why: "the effect", remedy: "isocast x", note: "a note" };
  const kinds = namesOf(description, "AlarmCause", "kind");
  assert.ok(kinds.includes("folder_away") && kinds.length > 15, kinds.join());
  for (const kind of kinds) {
    const { text, why, remedy, note } = ja.alarm({ ...english, severity: "advice", about: "x", kind, disk: 1, state: "out", left_seconds: 1e5, bytes_per_day: 1e9 } as unknown as Alarm);
    assert.ok(japanese.test(text) && japanese.test(why), `${kind}: ${text}; ${why}`);
    assert.equal(remedy, "isocast x");
    assert.ok(note == null || japanese.test(note), `${kind}: ${note}`);
  }
  const facts = namesOf(description, "StreamFact", "fact");
  assert.ok(facts.length > 9, facts.join());
  for (const fact of facts) assert.match(ja.explanation({ facts: [{ fact, from: "path", rate_bps: 1, slowdown: 1 }], reasons: ["It"] } as unknown as StreamExplanation)[0] ?? "", japanese, fact);
  const problems = namesOf(description, "Problem", "type");
  assert.ok(problems.length > 30, problems.join());
  for (const type of problems) assert.match(ja.problem({ status: 400, type, detail: "why" } as Problem), japanese, type);
  const sources = [...(/enum RateSource|RateSource \{([^}]*)\}/.exec(readFileSync("../crates/core/media/src/rate.rs", "utf8"))?.[1] ?? "").matchAll(/= "([^"]+)"/g)].map(([, name]) => name ?? "");
  assert.ok(sources.length > 9, sources.join());
  for (const source of sources) assert.ok(source in en.rateSources && japanese.test(ja.rateSources[source] ?? ""), source);

  assert.deepEqual(ja.alarm({ ...english, kind: "new" } as unknown as Alarm).text, "the text");
  assert.deepEqual(ja.explanation({ facts: [{ fact: "new" }], reasons: ["It is new."] } as unknown as StreamExplanation), ["It is new."]);
  assert.equal(ja.problem({ status: 400, type: "urn:isocast:new", detail: "why" } as unknown as Problem), "why");
});

test("values of settings keep their kind as texts", () => {
  for (const value of [true, false, 500, -1, "30s", [], ["10.0.0.0/8", "::1/128"], ["/dev/sdb,/dev/sdc", "/srv/Old, rare"]]) assert.deepEqual(fromText(toText(value), value), value);
  assert.equal(fromText("many", 500), "many", "the server says what is wrong with it");
  assert.deepEqual(fromText(" a \n\n b ", ["x"]), ["a", "b"]);
});

test("chapters beside a content are cues with titles, and no subtitles", () => {
  const names = ["film.mp4", "film.chapters.vtt", "film.vtt", "other.chapters.vtt"];
  assert.equal(chaptersBeside("a/", "film.mp4", names), "a/film.chapters.vtt");
  assert.equal(chaptersBeside("a/", "film.2.mp4", names), null);
  assert.deepEqual(subtitles.beside("a/", "film.mp4", names).map(({ path }) => path), ["a/film.vtt"]);
  const text = "WEBVTT\r\n\r\n2\r\n01:00:05.500 --> 01:00:06.000 align:start\r\nThe end\r\n\r\nNOTE none\r\n\r\n00:00.000 --> 59:00.000\r\nThe\r\nbeginning\r\n\r\n00:01.000 --> 00:02.000\r\n";
  assert.deepEqual(parseChapters(text), [{ start: 0, title: "The beginning" }, { start: 3605.5, title: "The end" }]);
});

test("the time that a content plays follows from its size and its mean rate", () => {
  const entry = { name: "a.mp4", kind: "file", size: 1_000_000, modified: "", rate_bps: 900_000 } as Entry;
  assert.equal(playedSeconds({ ...entry, mean_bps: 100_000 }), "1:20");
  assert.equal(playedSeconds(entry), "");
});

test("an entry's fields become its members, and say nothing of what means nothing", () => {
  const job = { name: "tidy", kind: "keep", schedule: "0 4 * * *", folder: "x", max_age: "30d", min_age: "1h", jitter: "0s", protected: ["x/Old, rare", "x/b"] };
  const fields = fieldsOf("job", job);
  assert.deepEqual([fields["protected"], fields["missed"], fields["rate"]], ["x/Old, rare\nx/b", "skip", ""]);
  assert.deepEqual(valueOf("job", { ...fields, rate: "8M", jitter: "5min" }), { name: "tidy", kind: "keep", schedule: "0 4 * * *", folder: "x", max_age: "30d", protected: ["x/Old, rare", "x/b"], jitter: "5min" });
  assert.deepEqual(valueOf("budget", { ...newFields("budget"), of: "address", streams: "9", stored: "many" }), { of: "address", streams: "9", stored: "many" });
  assert.equal((valueOf("quota", { ...newFields("quota"), folder: "0012", max_size: "1GB" }) as { folder: unknown }).folder, "0012", "a folder of digits is no number");
  assert.deepEqual(valueOf("job", newFields("job")), { name: "", kind: "keep", schedule: "" }, "the server says what is needed");
});

test("an entry is the operator's by its program, its login or its remote store alone", () => {
  const job = { name: "a", kind: "copy", from: "x", to: "http://archive/media/x" };
  assert.deepEqual([job, { ...job, to: "rclone:s3:x" }, { ...job, login: "/etc/login" }, { ...job, command: ["/bin/true"] }].map(isOperators), [false, true, true, true]);
});

test("the log holds each event once, also those that came before the list of the latest", () => {
  const [a, b, c, d] = [1, 2, 3, 4].map((time) => ({ event: "stream_started", time }));
  assert.deepEqual(withLatest([a!, b!, c!])([d!, c!]), [d, c, b, a], "one came behind the list, one is in it");
  assert.deepEqual(withLatest([c!, d!])([b!, a!]), [d, c], "the server has forgotten the older ones");
  assert.deepEqual(withLatest([])([a!]), [a]);
});

test("the tracks of sound of an MP4 are counted, whichever end its index is at", async () => {
  const box = (type: string, ...parts: Uint8Array[]) => {
    const body = Buffer.concat(parts);
    const head = Buffer.alloc(8);
    head.writeUInt32BE(8 + body.length);
    head.write(type, 4);
    return Buffer.concat([head, body]);
  };
  const samples = (code: string) => box("minf", box("stbl", box("stsd", Buffer.alloc(8), box(code, Buffer.alloc(4000)))));
  const track = (handler: string, code: string) => box("trak", box("tkhd", Buffer.alloc(84)), box("mdia", box("hdlr", Buffer.alloc(8), Buffer.from(handler), Buffer.alloc(20)), samples(code)));
  const index = box("moov", box("mvhd", Buffer.alloc(100)), track("vide", "avc1"), track("soun", "mp4a"), track("soun", "xyz1"));
  const [head, body] = [box("ftyp", Buffer.from("isom")), box("mdat", Buffer.alloc(50_000))];
  const reads = (file: Buffer) => (offset: number, bytes: number) => Promise.resolve({ bytes: new Uint8Array(file.subarray(offset, offset + bytes)), size: file.length });
  assert.equal(await soundTracksWithin(reads(Buffer.concat([head, index, body]))), 2);
  assert.equal(await soundTracksWithin(reads(Buffer.concat([head, body, index]))), 2);
  for (const damaged of [Buffer.alloc(5000), Buffer.from("no film at all, only words of a text"), Buffer.concat([head, body]).subarray(0, 30)]) assert.equal(await soundTracksWithin(reads(damaged)), 0);
});
