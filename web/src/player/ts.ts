// MPEG-TS as far as a player without an index needs it: packets, starts of pictures, key frames, the length.

/** Bytes of a packet; one of a disc (.m2ts) has four more in front. */
export const PACKET = 188;
const SYNC = 0x47;
/** Ticks of a time stamp per second, and where they begin anew. */
const TICKS = 90_000;
const WRAP = 2 ** 33;

/** How packets lie in a file: where the first begins, and how far apart they are. */
export interface Grid {
  first: number;
  step: number;
}

/** The grid of what begins with `bytes`; null if this is no MPEG-TS. */
export function grid(bytes: Uint8Array): Grid | null {
  for (const step of [PACKET, PACKET + 4]) {
    for (let first = 0; first < step; first += 1) {
      const at = [0, 1, 2, 3].map((n) => bytes[first + n * step]);
      if (at.every((byte) => byte === SYNC)) return { first, step };
    }
  }
  return null;
}

/** What a packet begins. */
export interface Start {
  video: boolean;
  /** A picture from which decoding can begin, where the multiplexer says so. */
  key: boolean;
  /** Its time in seconds; null if it has none. */
  time: number | null;
}

/** The picture or piece of sound that begins in the packet at `at`; null if none does. */
export function start(bytes: Uint8Array, at: number): Start | null {
  const byte = (offset: number) => bytes[at + offset] ?? 0;
  if (byte(0) !== SYNC || (byte(1) & 0x40) === 0 || (byte(3) & 0x10) === 0) return null;
  const adapted = (byte(3) & 0x20) !== 0;
  const payload = adapted ? 5 + byte(4) : 4;
  if (byte(payload) !== 0 || byte(payload + 1) !== 0 || byte(payload + 2) !== 1) return null;
  const stream = byte(payload + 3);
  const video = stream >= 0xe0 && stream <= 0xef;
  if (!video && !(stream >= 0xc0 && stream <= 0xdf) && stream !== 0xbd) return null;
  const key = adapted && byte(4) > 0 && (byte(5) & 0x40) !== 0;
  const stamped = (byte(payload + 7) & 0x80) !== 0;
  const stamp = payload + 9;
  const ticks = (byte(stamp) & 0x0e) * 2 ** 29 + byte(stamp + 1) * 2 ** 22 + (byte(stamp + 2) & 0xfe) * 2 ** 14 + byte(stamp + 3) * 2 ** 7 + (byte(stamp + 4) >> 1);
  return { video, key, time: stamped ? ticks / TICKS : null };
}

/** Seconds between the first and the last time stamp of a file's `head` and `tail`, which are whole packets; null if there are none. */
export function length(head: Uint8Array, tail: Uint8Array): number | null {
  const times = (bytes: Uint8Array) => {
    const found: number[] = [];
    for (let at = 0; at + PACKET <= bytes.length; at += PACKET) {
      const time = start(bytes, at)?.time ?? null;
      if (time !== null) found.push(time);
    }
    return found;
  };
  const [first] = times(head);
  const last = times(tail);
  if (first === undefined || last.length === 0) return null;
  // Counted from the first, so that a clock that begins anew in between does no harm.
  return Math.max(...last.map((time) => (time - first + WRAP / TICKS) % (WRAP / TICKS)));
}

/** Packets of `step` bytes, the first at 0, without what stands before each. */
export function plain(bytes: Uint8Array, step: number): Uint8Array {
  if (step === PACKET) return bytes;
  const count = Math.floor(bytes.length / step);
  const packets = new Uint8Array(count * PACKET);
  for (let n = 0; n < count; n += 1) packets.set(bytes.subarray(n * step, n * step + PACKET), n * PACKET);
  return packets;
}
