// A file of MPEG-TS in segments of a second, as a player of playlists wants it: cut where pictures begin, read on in one request.

import * as ts from "./ts";

/** Media in a segment, seconds: the first is shown when it is there. */
const SEGMENT_S = 1;
/** Media asked for at once behind the place where playing begins, seconds. */
const BURST_S = 3;
/** Read at both ends of the file to find its length. */
const END_BYTES = 192 * 1024;
/** Key frames are looked for so far before the place sought, until their distance is known, seconds. */
const LEAD_S = 2.5;

/** A refusal or a failure on the way. */
export class ReadError extends Error {
  constructor(readonly status: number) {
    super(`status ${status}`);
  }
}

/** A file, opened: `segment` reads it piece by piece, one at a time. */
export class Segments {
  private reader: ReadableStreamDefaultReader<Uint8Array> | null = null;
  /** Packets read and not yet handed over, and where in the file the first lies. */
  private held = new Uint8Array(0);
  private position = 0;
  /** The part of a packet that came last. */
  private rest = new Uint8Array(0);
  /** The segment that comes next without seeking. */
  private next = -1;
  /** The longest way from one key frame to the next so far, bytes of the file; 0: none seen. */
  private lead = 0;

  private constructor(
    private readonly url: string,
    private readonly grid: ts.Grid,
    private readonly size: number,
    readonly seconds: number,
  ) {}

  /** Looks at both ends of the file at `url`, which has a query. */
  static async open(url: string): Promise<Segments> {
    const head = await fetched(url, `bytes=0-${END_BYTES - 1}`);
    const grid = ts.grid(head.bytes);
    if (grid === null) throw new Error("it is not MPEG-TS");
    const last = Math.max(0, Math.floor((head.size - END_BYTES - grid.first) / grid.step)) * grid.step + grid.first;
    const tail = await fetched(url, `bytes=${last}-`);
    const seconds = ts.length(ts.plain(head.bytes.subarray(grid.first), grid.step), ts.plain(tail.bytes, grid.step));
    if (seconds === null || seconds <= 0) throw new Error("it has no time stamps");
    return new Segments(url, grid, head.size, seconds);
  }

  /** The playlist of all segments; `address` names one. */
  playlist(address: (n: number) => string): string {
    const last = this.count - 1;
    const lines = ["#EXTM3U", "#EXT-X-VERSION:3", `#EXT-X-TARGETDURATION:${2 * SEGMENT_S}`, "#EXT-X-PLAYLIST-TYPE:VOD"];
    for (let n = 0; n <= last; n += 1) {
      const seconds = n < last ? SEGMENT_S : this.seconds - last * SEGMENT_S;
      lines.push(`#EXTINF:${seconds.toFixed(3)},`, address(n));
    }
    return [...lines, "#EXT-X-ENDLIST", ""].join("\n");
  }

  /** The last one holds what is left, so that none is without a picture. */
  private get count(): number {
    return Math.max(1, Math.floor(this.seconds / SEGMENT_S));
  }

  /** Where the segment begins that holds second `n`, as far as bytes tell time. */
  private offset(n: number): number {
    const packets = Math.floor((this.size - this.grid.first) / this.grid.step);
    const share = Math.min(1, (n * SEGMENT_S) / this.seconds);
    return this.grid.first + Math.round(packets * share) * this.grid.step;
  }

  /** Segment `n`. One that does not follow the last is begun at the key frame before it. */
  async segment(n: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const follows = n === this.next;
    this.next = -1;
    if (!follows) await this.seek(n, signal);
    const end = n + 1 < this.count ? this.offset(n + 1) : Infinity;
    const parts: Uint8Array[] = [];
    let key = -1;
    for (;;) {
      const cut = this.scan(end, (at) => {
        if (key >= 0) this.lead = Math.max(this.lead, at - key);
        key = at;
      });
      parts.push(this.take(cut ?? this.held.length));
      if (cut !== null || !(await this.more(signal))) break;
    }
    this.next = n + 1;
    return joined(parts);
  }

  /** Ends the request under way. */
  close(): void {
    this.next = -1;
    this.reader?.cancel().catch(() => {});
    this.reader = null;
  }

  /** Where among the held packets the first picture at or behind `end` of the file begins; null if it is not held yet. */
  private scan(end: number, onKey: (at: number) => void): number | null {
    for (let at = 0; at + ts.PACKET <= this.held.length; at += ts.PACKET) {
      const start = ts.start(this.held, at);
      const place = this.position + (at / ts.PACKET) * this.grid.step;
      // A file without pictures is cut where a sound begins, a second later.
      if (start !== null && place >= end + (start.video ? 0 : this.offset(1))) return at;
      if (start?.key === true && start.video) onKey(place);
    }
    return null;
  }

  private async seek(n: number, signal: AbortSignal): Promise<void> {
    const target = this.offset(n);
    const lead = this.lead > 0 ? this.lead : this.offset(LEAD_S);
    const from = n === 0 ? this.grid.first : Math.max(this.grid.first, target - Math.ceil(lead / this.grid.step) * this.grid.step);
    const distance = ((target - from) / this.grid.step) * ts.PACKET;
    this.held = new Uint8Array(0);
    this.position = from;
    await this.read(from, ((target - from) / this.size) * this.seconds, signal);
    const parts: Uint8Array[] = [];
    for (let bytes = 0; bytes <= distance && (await this.more(signal)); ) {
      bytes += this.held.length;
      parts.push(this.take(this.held.length));
    }
    this.held = joined(parts);
    this.position = from;
    let key = 0;
    for (let at = 0; at <= Math.min(distance, this.held.length - ts.PACKET); at += ts.PACKET) {
      const start = ts.start(this.held, at);
      if (start?.key === true && start.video) key = at;
    }
    this.take(key);
  }

  /** Begins to read at `from`, in the place of what was read before; `lead` seconds of it are not shown. */
  private async read(from: number, lead: number, signal: AbortSignal): Promise<void> {
    this.close();
    this.rest = new Uint8Array(0);
    if (from >= this.size) return;
    const range = `bytes=${from}-`;
    // Some media at once, for a player that is fed at the very rate of what it plays has nothing to bridge a late packet with.
    // Where there is no room for that, there may be for the rate alone.
    const answer = await asked(`${this.url}&burst=${Math.ceil(lead + BURST_S)}s`, range).catch((error: unknown) => {
      if (error instanceof ReadError && error.status === 503) return asked(this.url, range);
      throw error;
    });
    const reader = answer.body?.getReader() ?? null;
    if (signal.aborted) {
      reader?.cancel().catch(() => {});
      signal.throwIfAborted();
    }
    this.reader = reader;
  }

  /** Waits for more; false at the end of the file. A server that ended the request, as after a long pause, is asked for the rest. */
  private async more(signal: AbortSignal): Promise<boolean> {
    for (let again = 0; ; again += 1) {
      const read = await this.reader?.read().catch(() => undefined);
      signal.throwIfAborted();
      if (read?.done === false) {
        const bytes = joined([this.rest, read.value]);
        const whole = bytes.length - (bytes.length % this.grid.step);
        this.rest = bytes.slice(whole);
        this.held = joined([this.held, ts.plain(bytes.subarray(0, whole), this.grid.step)]);
        return true;
      }
      const reached = this.position + (this.held.length / ts.PACKET) * this.grid.step;
      if (reached + this.grid.step > this.size) return false;
      if (again > 0) throw new ReadError(0);
      await this.read(reached, 0, signal);
    }
  }

  /** Takes the first `bytes` of what is held. */
  private take(bytes: number): Uint8Array {
    const taken = this.held.slice(0, bytes);
    this.held = this.held.slice(bytes);
    this.position += (bytes / ts.PACKET) * this.grid.step;
    return taken;
  }
}

async function asked(url: string, range: string): Promise<Response> {
  // A refusal that the browser had kept would be read for ever.
  const answer = await fetch(url, { headers: { Range: range }, cache: "no-store" }).catch(() => null);
  if (answer === null) throw new ReadError(0);
  if (answer.status !== 206) {
    answer.body?.cancel().catch(() => {});
    throw new ReadError(answer.status);
  }
  return answer;
}

async function fetched(url: string, range: string): Promise<{ bytes: Uint8Array; size: number }> {
  const answer = await asked(url, range);
  const size = Number(answer.headers.get("Content-Range")?.split("/")[1]);
  return { bytes: new Uint8Array(await answer.arrayBuffer()), size };
}

function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
