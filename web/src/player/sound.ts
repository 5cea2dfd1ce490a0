// Tracks within a file: those of sound are chosen where the browser lets pages choose (`audioTracks`), else counted, so that the page can say so.

/** Bytes that are read at the head of each box: enough for a track's handler. */
const HEAD_BYTES = 1024;
const BOXES_MAX = 64;

interface AudioTrack {
  enabled: boolean;
  label: string;
  language: string;
}

/** The tracks that the browser lets the page choose from; none if it does not. */
export function tracksOf(video: HTMLVideoElement): AudioTrack[] {
  const tracks = (video as { audioTracks?: ArrayLike<AudioTrack> }).audioTracks;
  return tracks === undefined ? [] : Array.from(tracks);
}

/** Reads bytes of a file, and says how long that is. */
export type ReadAt = (offset: number, bytes: number) => Promise<{ bytes: Uint8Array; size: number }>;

/** The number of tracks of sound of an MP4; 0 of another file. */
export async function soundTracksWithin(read: ReadAt): Promise<number> {
  let count = 0;
  const walk = async (from: number, to: number | null): Promise<void> => {
    let end = to ?? Infinity;
    for (let at = from, boxes = 0; at + 8 <= end && boxes < BOXES_MAX; boxes += 1) {
      const { bytes, size } = await read(at, HEAD_BYTES);
      end = to ?? size;
      const box = boxOf(bytes);
      if (box === null) return;
      if (box.type === "moov") return walk(at + box.head, at + box.size);
      if (box.type === "trak" && new TextDecoder("latin1").decode(bytes.subarray(0, box.size)).includes("soun")) count += 1;
      at += box.size;
    }
  };
  await walk(0, null);
  return count;
}

/** The box at the beginning of these bytes. */
function boxOf(bytes: Uint8Array): { type: string; head: number; size: number } | null {
  if (bytes.length < 16) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const type = String.fromCharCode(...bytes.subarray(4, 8));
  const short = view.getUint32(0);
  const [head, size] = short === 1 ? [16, Number(view.getBigUint64(8))] : [8, short];
  return size < head || !/^[\x20-\x7e]{4}$/.test(type) ? null : { type, head, size };
}
