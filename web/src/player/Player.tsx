// Plays one content: media that the browser plays by itself in <video>, MPEG-TS and playlists through hls.js, DASH through Shaka. Failures are said in words.

import { useEffect, useRef, useState } from "preact/hooks";
import { ending, playedAs } from "../contents/kinds";
import { Address } from "../contents/Address";
import * as format from "../format";
import { useLatest, usePolled } from "../hooks";
import { bytesAt, figures, isDenied, mediaUrl, ready, whyNot, type Problem, type Stream } from "../server";
import { t, words } from "../texts";
import { Chapters } from "./Chapters";
import { DashPlayback } from "./dash";
import { HlsPlayback, type Failed, type Playback } from "./hls";
import { actionOf, SPEEDS, type Action } from "./keys";
import { keepPlace, placeOf } from "./places";
import { soundTracksWithin, tracksOf } from "./sound";
import { Stalls } from "./stalls";
import { load, type Subtitles } from "./subtitles";

/** Periods of looks at the picture, of the line below it, and of the server's figures, milliseconds. */
const LOOK_MS = 100;
const STATUS_MS = 500;
const FIGURES_MS = 2000;
/** Time between looks whether a server that went admits streams again. */
const READY_MS = 1000;
/** A picture that has not begun for this time may wait for a password: Chromium then reports no error to the page. */
const BEGINS_MS = 3000;
/** Time of play without a decoded byte of sound after which a content has none that the browser knows, seconds. */
const SILENT_S = 3;

type Query = Record<string, string>;

/** Words in the place of the picture, and the ways on. */
interface Notice {
  text: string;
  detail?: string;
  again?: Query;
  lower?: number;
  bestEffort?: boolean;
  elsewhere?: boolean;
  logIn?: boolean;
  /** It continues by itself once the server admits streams again. */
  waits?: boolean;
}

interface Props {
  path: string;
  subtitles: Subtitles[];
  /** Path of the file with its chapters. */
  chapters: string | null;
  /** The next content of the folder. */
  next: (() => void) | null;
  close: () => void;
}

export function Player({ path, subtitles, chapters, next, close }: Props) {
  const name = path.split("/").pop() ?? path;
  const video = useRef<HTMLVideoElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const [query, setQuery] = useState<Query>({});
  const [attempt, setAttempt] = useState(0);
  const [notice, setNotice] = useState<Notice | null>(null);
  const [status, setStatus] = useState("");
  const [resumed, setResumed] = useState(0);
  const [speed, setSpeed] = useState(1);
  const [keys, setKeys] = useState(false);
  const [chosen, setChosen] = useState("");
  const [tracks, setTracks] = useState<string[]>([]);
  const [track, setTrack] = useState(0);
  /** Tracks of sound that the browser has, but does not let the page choose from. */
  const [unchosen, setUnchosen] = useState(0);
  const library = useRef<Playback | null>(null);
  /** The place at which it broke off last, seconds. */
  const brokeAt = useRef(0);
  // Names this viewer to the server: all requests of this playback hold one stream.
  const [session] = useState(() => crypto.getRandomValues(new Uint32Array(2)).join("-"));
  const streams = usePolled((signal) => figures<Stream[]>("streams", signal), FIGURES_MS);
  const stalls = useRef(new Stalls());
  const served = useLatest(servedLine(streams ?? [], path));

  useEffect(() => heading.current?.focus({ preventScroll: true }), []);

  // Playback: begins with the query, ends with the component.
  useEffect(() => {
    const element = video.current;
    if (element === null) return;
    const url = mediaUrl(path, { ...query, session });
    let over = false;
    const playsBy = <P extends Playback>(Kind: new (video: HTMLVideoElement, failed: Failed) => P): P => {
      const playback = new Kind(element, (...failed) => void explain(...failed));
      playback.onTracks = setTracks;
      library.current = playback;
      return playback;
    };
    setTracks([]);
    setTrack(0);
    setUnchosen(0);
    stalls.current = new Stalls();
    setNotice(null);
    const drop = () => {
      library.current?.stop();
      library.current = null;
      element.removeAttribute("src");
      element.load();
    };
    const explain = async (failedUrl: string, detail: string, status: number) => {
      if (over) return;
      const { code } = element.error ?? {};
      const refusal = (await whyNot(failedUrl)) ?? (status === 503 ? { status } : null);
      if (over) return;
      over = true;
      const at = element.currentTime;
      // One that breaks off at the same place again waits for its viewer.
      const progressed = at > brokeAt.current + 1;
      brokeAt.current = at;
      drop();
      setNotice(failure(refusal, query, code, detail, progressed));
    };
    const onError = () => {
      if (element.hasAttribute("src")) void explain(url, element.error?.message ?? "", 0);
    };
    element.addEventListener("error", onError);
    const unbegun = async () => {
      if (element.readyState === 0 && element.hasAttribute("src") && isDenied((await whyNot(url)) ?? { status: 200 })) await explain(url, "", 0);
    };
    const beginning = window.setTimeout(() => void unbegun(), BEGINS_MS);
    switch (playedAs(name)) {
      case "media":
        element.src = url;
        break;
      case null:
        setNotice({ text: t.playsNot(t.playsNotEnding(`.${ending(name)}`)), elsewhere: true });
        break;
      case "mpegts":
        void playsBy(HlsPlayback).transportStream(url);
        break;
      case "playlist":
        void playsBy(HlsPlayback).playlist(url);
        break;
      case "manifest":
        void playsBy(DashPlayback).manifest(url);
    }
    // A browser may want a click first; the controls are there for it.
    element.play().catch(() => {});
    return () => {
      over = true;
      window.clearTimeout(beginning);
      element.removeEventListener("error", onError);
      keep(path, element);
      drop();
    };
  }, [query, attempt]);

  // Looks at the picture.
  useEffect(() => {
    const element = video.current;
    if (element === null) return;
    const look = window.setInterval(() => {
      const { paused, seeking, ended, currentTime } = element;
      stalls.current.look({ now: performance.now() / 1000, time: currentTime, shouldRun: !paused && !seeking && !ended });
    }, LOOK_MS);
    const report = window.setInterval(() => setStatus([statusLine(element, stalls.current), served.current].filter((part) => part !== "").join(" · ")), STATUS_MS);
    const leave = () => keep(path, element);
    window.addEventListener("pagehide", leave);
    return () => {
      window.clearInterval(look);
      window.clearInterval(report);
      window.removeEventListener("pagehide", leave);
    };
  }, []);

  // The chosen subtitles.
  useEffect(() => {
    const element = video.current;
    const wanted = subtitles.find((each) => each.path === chosen);
    if (element === null || wanted === undefined) return;
    const track = document.createElement("track");
    let url: string | null = null;
    let over = false;
    void load(wanted).then((loaded) => {
      url = loaded;
      if (over || loaded === null) return;
      track.kind = "subtitles";
      track.label = wanted.label;
      track.src = loaded;
      element.append(track);
      track.track.mode = "showing";
    });
    return () => {
      over = true;
      track.remove();
      if (url !== null) URL.revokeObjectURL(url);
    };
  }, [chosen]);
  useEffect(() => {
    if (chosen === "" && subtitles.length > 0) setChosen(subtitles[0]?.path ?? "");
  }, [subtitles.length]);

  const act = useLatest((action: Action) => {
    if (action === "close") return close();
    const element = video.current;
    if (element === null || notice !== null) return;
    if (action === "next") next?.();
    else if (action === "fullScreen") void (document.fullscreenElement === null ? element.requestFullscreen() : document.exitFullscreen());
    else if (action === "pictureInPicture") void pictureInPicture(element);
    else if (action === "faster" || action === "slower") faster(action === "faster" ? 1 : -1);
    else action(element);
  });
  const faster = (steps: number) => setSpeed((now) => SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(now) + steps))] ?? 1);
  useEffect(() => {
    if (video.current !== null) video.current.playbackRate = speed;
  }, [speed, attempt]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const action = document.querySelector("dialog[open]") === null ? actionOf(event) : null;
      if (action === null || (action === "close" && document.fullscreenElement !== null)) return;
      act.current(action);
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);

  const again = (to: Query) => {
    setQuery(to);
    setAttempt((count) => count + 1);
  };
  useEffect(() => {
    if (notice?.waits !== true) return;
    const stop = new AbortController();
    const look = window.setInterval(() => void ready(stop.signal).then((admits) => admits === true && !stop.signal.aborted && again(query)), READY_MS);
    return () => {
      stop.abort();
      window.clearInterval(look);
    };
  }, [notice]);
  const loaded = () => {
    const element = video.current;
    const place = brokeAt.current > 1 ? brokeAt.current : placeOf(path);
    if (element !== null && library.current === null) void findTracks(element);
    if (element === null || place === 0 || element.currentTime > 1) return;
    element.currentTime = place;
    setResumed(place);
  };
  const findTracks = async (element: HTMLVideoElement) => {
    const own = tracksOf(element);
    if (own.length > 0) return setTracks(own.map(({ label, language }) => label || language));
    if (!["mp4", "m4v", "mov", "m4a"].includes(ending(name))) return;
    const source = element.currentSrc;
    const count = await soundTracksWithin((offset, bytes) => bytesAt(path, offset, bytes)).catch(() => 0);
    // Another content may play by now.
    if (element.currentSrc === source) setUnchosen(count);
  };
  const chooseTrack = (chosen: number) => {
    setTrack(chosen);
    library.current?.choose(chosen);
    if (library.current === null && video.current !== null) tracksOf(video.current).forEach((each, index) => (each.enabled = index === chosen));
  };
  const fromStart = () => {
    if (video.current !== null) video.current.currentTime = 0;
    setResumed(0);
  };

  return (
    <section id="player" class="card" aria-label={t.player}>
      <div class="bar">
        <h2 ref={heading} tabIndex={-1}>
          {name}
        </h2>
        <button onClick={close} title="Esc">
          {t.close}
        </button>
      </div>
      <video ref={video} controls playsInline preload="auto" hidden={notice !== null} onLoadedMetadata={loaded} onEnded={() => next?.()} />
      {notice !== null && <NoticeCard path={path} name={name} notice={notice} again={again} />}
      {notice === null && (
        <>
          <p class="quiet" role="status" title={t.meanings}>
            {status === "" ? t.starting : status}
          </p>
          {resumed > 0 && (
            <p class="bar wrap">
              <span class="quiet">{t.resumedAt(format.time(resumed))}</span>
              <button onClick={fromStart}>{t.fromStart}</button>
            </p>
          )}
          <div class="bar wrap tools">
            <label>
              {t.speed}{" "}
              <select value={String(speed)} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
                {SPEEDS.map((each) => (
                  <option key={each} value={String(each)}>{`${each} ×`}</option>
                ))}
              </select>
            </label>
            {subtitles.length > 0 && (
              <label>
                {t.subtitles}{" "}
                <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
                  <option value="none">{t.off}</option>
                  {subtitles.map(({ path, label }) => (
                    <option key={path} value={path}>
                      {label === "" ? t.subtitles : label}
                    </option>
                  ))}
                </select>
              </label>
            )}
            {tracks.length > 1 && (
              <label>
                {t.soundTrack}{" "}
                <select
                  value={String(track)}
                  onChange={(event) => chooseTrack(Number(event.currentTarget.value))}
                >
                  {tracks.map((name, index) => (
                    <option key={index} value={String(index)}>
                      {name === "" ? String(index + 1) : name}
                    </option>
                  ))}
                </select>
              </label>
            )}
            {chapters !== null && <Chapters path={chapters} video={video} />}
            {document.pictureInPictureEnabled && <button onClick={() => act.current("pictureInPicture")}>{t.pictureInPicture}</button>}
            {next !== null && <button onClick={next}>{t.next}</button>}
            <button aria-expanded={keys} onClick={() => setKeys(!keys)}>
              {t.keys}
            </button>
          </div>
          {unchosen > 1 && <p class="quiet">{t.soundTracksUnchosen(unchosen)}</p>}
          {keys && <p class="quiet">{t.keysText}</p>}
        </>
      )}
    </section>
  );
}

function NoticeCard({ path, name, notice, again }: { path: string; name: string; notice: Notice; again: (query: Query) => void }) {
  const { lower } = notice;
  return (
    <div class="notice" role="alert">
      <p>{notice.text}</p>
      {notice.detail !== undefined && notice.detail !== "" && <p class="quiet detail">{notice.detail}</p>}
      <div class="bar wrap">
        {notice.logIn === true && <a class="button" href="#access">{t.logIn}</a>}
        {notice.again !== undefined && <button onClick={() => again(notice.again ?? {})}>{t.tryAgain}</button>}
        {lower !== undefined && <button onClick={() => again({ rate: `${lower}bit/s` })}>{t.playLower(format.rate(lower))}</button>}
        {notice.bestEffort === true && <button onClick={() => again({ rate: "max" })}>{t.playBestEffort}</button>}
        {notice.elsewhere === true && (
          <a class="button" href={mediaUrl(path, { rate: "max" })} download={name}>
            {t.download}
          </a>
        )}
      </div>
      {notice.elsewhere === true && <Address url={mediaUrl(path)} media />}
    </div>
  );
}

/** The notice for a failure: the server's refusal or error, else the error `code` of the picture's element. */
function failure(problem: Problem | null, query: Query, code: number | undefined, detail: string, progressed: boolean): Notice {
  if (problem?.status === 0 || problem?.resource === "draining" || problem?.resource === "starting") return { text: t.continues(t.short[problem.resource ?? ""] ?? t.noAnswer), again: query, waits: true };
  if (problem?.status === 503) {
    const reason = t.short[problem.resource ?? ""] ?? (problem.type === undefined ? t.serverFull : words(problem));
    const grantable = problem.grantable_bps ?? 0;
    const parts = [t.refused(reason)];
    if (grantable > 0) parts.push(t.refusedWould(format.rate(grantable)));
    if (problem.retryAfterSeconds !== undefined) parts.push(t.refusedAgain(problem.retryAfterSeconds));
    return { text: parts.join(" "), again: {}, bestEffort: true, ...(grantable > 0 ? { lower: grantable } : {}) };
  }
  if (problem?.status === 404) return { text: t.gone };
  if (problem?.status === 416) return { text: t.playsNot(t.emptyContent) };
  if (problem !== null) return { text: words(problem), again: query, logIn: isDenied(problem) };
  if (code === MediaError.MEDIA_ERR_NETWORK) return { text: t.brokeOff, detail, again: query, waits: progressed };
  return { text: t.playsNot(t.playsNotKnown), detail, elsewhere: true };
}

/** Keeps the place of a content that plays; a content that broke off has none. */
function keep(path: string, video: HTMLVideoElement): void {
  if (video.readyState > 0) keepPlace(path, video.currentTime, video.duration);
}

/** What the server says of the only stream of this content. */
function servedLine(streams: Stream[], path: string): string {
  const own = streams.filter((stream) => stream.path === path && stream.direction === "out");
  const [stream] = own;
  if (own.length !== 1 || stream === undefined) return "";
  const parts = [stream.class === "constant" ? t.guaranteed(format.rate(stream.rate_bps)) : t.bestEffort];
  if (stream.j_percent !== null) parts.push(`J ${stream.j_percent.toFixed(2)} %`);
  if (stream.misses > 0) parts.push(`${t.misses} ${stream.misses}`);
  if (stream.held_up_by) parts.push(`${t.heldUpBy}: ${t.heldUp[stream.held_up_by]}`);
  return parts.join(" · ");
}

function statusLine(video: HTMLVideoElement, stalls: Stalls): string {
  if (video.readyState === 0) return t.starting;
  let ahead = 0;
  for (let i = 0; i < video.buffered.length; i += 1) {
    if (video.buffered.start(i) <= video.currentTime + 0.1) ahead = Math.max(ahead, video.buffered.end(i) - video.currentTime);
  }
  const of = Number.isFinite(video.duration) ? format.time(video.duration) : "";
  const parts = [t.position(format.time(video.currentTime), of), t.ahead(ahead.toFixed(1))];
  parts.push(stalls.count === 0 ? t.noInterruption : t.interruptions(stalls.count, stalls.seconds.toFixed(1)));
  // Chromium counts the bytes that it decodes, Firefox says whether it has sound.
  const { webkitAudioDecodedByteCount: decoded, mozHasAudio: hasSound } = video as { webkitAudioDecodedByteCount?: number; mozHasAudio?: boolean };
  if ((decoded === 0 || hasSound === false) && video.currentTime > SILENT_S) parts.push(t.noSound);
  return parts.join(" · ");
}

async function pictureInPicture(video: HTMLVideoElement): Promise<void> {
  if (document.pictureInPictureElement !== null) await document.exitPictureInPicture();
  else await video.requestPictureInPicture().catch(() => {});
}
