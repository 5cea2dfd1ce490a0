// The films the players are given: one encoding of two minutes, in each container, and as HLS and DASH.

import { execFileSync } from "node:child_process";
import { existsSync, linkSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Length of the film. */
export const SECONDS = 120;
/** What the film needs; the link of a full server is made from it. */
export const BITS_PER_SECOND = 2_200_000;
/** The container of each file, as the table names it. */
export const FILES = {
  "MP4": "front.mp4",
  "MP4, index at the end": "end.mp4",
  "MPEG-TS": "film.ts",
  "Matroska": "film.mkv",
};
/** Further names of these files. */
export const COPIES = 19;
export const copyName = (nth) => `copies/${nth}-${Object.values(FILES)[nth % 4]}`;
export const HLS = "hls/master.m3u8";
export const HLS_FMP4 = "hls4/master.m3u8";
export const DASH = "dash/index.mpd";

function ffmpeg(...options) {
  execFileSync("ffmpeg", ["-hide_banner", "-loglevel", "error", "-nostdin", "-y", ...options]);
}

/** The one level of the HLS films, which ffmpeg does not describe when it only copies. */
const MASTER = `#EXTM3U
#EXT-X-STREAM-INF:BANDWIDTH=${BITS_PER_SECOND},RESOLUTION=320x180,CODECS="avc1.4d400d,mp4a.40.2"
index.m3u8
`;

/** Makes what is missing in `folder`. */
export function makeMedia(folder) {
  for (const name of ["hls", "hls4", "dash"]) mkdirSync(join(folder, name), { recursive: true });
  const master = join(folder, "film.mkv");
  if (!existsSync(master)) {
    // A picture with noise at a constant rate: small enough that ten decoders fit on two processors.
    ffmpeg("-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25,noise=c0s=40:c0f=t,format=yuv420p",
      "-f", "lavfi", "-i", "sine=frequency=440:beep_factor=2:sample_rate=48000", "-t", String(SECONDS),
      "-c:v", "libx264", "-preset", "ultrafast", "-profile:v", "main", "-g", "25", "-keyint_min", "25", "-sc_threshold", "0",
      "-b:v", "2000k", "-minrate", "2000k", "-maxrate", "2000k", "-bufsize", "1000k", "-x264-params", "nal-hrd=cbr:force-cfr=1",
      "-c:a", "aac", "-b:a", "128k", "-ac", "2", "-f", "matroska", master);
  }
  const remux = (name, ...options) => {
    const target = join(folder, name);
    if (!existsSync(target)) ffmpeg("-i", master, "-c", "copy", ...options, target);
  };
  remux("front.mp4", "-movflags", "+faststart");
  remux("end.mp4");
  remux("film.ts", "-f", "mpegts");
  // The same films under many names, for who looks into many of them.
  mkdirSync(join(folder, "copies"), { recursive: true });
  for (let nth = 0; nth < COPIES; nth++) {
    const copy = join(folder, copyName(nth));
    if (!existsSync(copy)) linkSync(join(folder, Object.values(FILES)[nth % 4]), copy);
  }
  remux("hls/index.m3u8", "-f", "hls", "-hls_time", "4", "-hls_playlist_type", "vod");
  remux("hls4/index.m3u8", "-f", "hls", "-hls_time", "4", "-hls_playlist_type", "vod", "-hls_segment_type", "fmp4");
  for (const name of [HLS, HLS_FMP4]) writeFileSync(join(folder, name), MASTER);
  remux(DASH, "-f", "dash", "-seg_duration", "4", "-use_template", "1", "-use_timeline", "0");
}
