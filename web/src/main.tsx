// The page: contents and player, live figures, health, log. The view is in the address (after `#`).

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Contents } from "./contents/Contents";
import { isMedia } from "./contents/kinds";
import { usePolled } from "./hooks";
import { later } from "./later";
import { chaptersBeside } from "./player/chapterList";
import { beside } from "./player/subtitles";
import { addressOf, useRoute, type Route, type View } from "./route";
import { figures, ready, type Alarm, type Entry } from "./server";
import { begin, choose, LANGUAGES, t, useLanguage, type Language } from "./texts";
import "./style.css";
import "./live/live.css";

const READY_MS = 1000;
const ALARMS_MS = 10_000;
/** Looks without an answer until the page says it across. */
const OFFLINE = 2;

const Access = later(async () => (await import("./access/Access")).Access);
const Health = later(async () => (await import("./status/Health")).Health);
const Live = later(async () => (await import("./live/Live")).Live);
const Log = later(async () => (await import("./status/Log")).Log);
const Player = later(async () => (await import("./player/Player")).Player);
const Settings = later(async () => (await import("./settings/Settings")).Settings);
const SetUp = later(async () => (await import("./access/SetUp")).SetUp);
const Trash = later(async () => (await import("./contents/Trash")).Trash);

function App() {
  const language = useLanguage();
  const route = useRoute();
  const admits = usePolled(ready, READY_MS);
  const alarms = usePolled((signal) => figures<Alarm[]>("alarms", signal), ALARMS_MS) ?? [];
  const [missing, setMissing] = useState(0);
  // Grows each time the server is back: lists are read again.
  const [back, setBack] = useState(0);
  // A part of the page that this server does not have any more: it was upgraded while the page was open.
  const [outdated, setOutdated] = useState(false);
  useEffect(() => {
    const answers = () => ready(AbortSignal.timeout(READY_MS)).then((admits) => admits !== null && setOutdated(true));
    window.addEventListener("vite:preloadError", () => void answers());
  }, []);
  useEffect(() => {
    const timer = window.setInterval(() => setMissing((count) => (admits === null ? count + 1 : 0)), READY_MS);
    if (admits !== null && missing >= OFFLINE) setBack((count) => count + 1);
    if (admits !== null) setMissing(0);
    return () => window.clearInterval(timer);
  }, [admits]);
  return (
    <>
      <button class="skip" onClick={() => document.querySelector("main")?.focus()}>
        {t.skip}
      </button>
      <header>
        <h1>
          <a href="#/">Isocast</a>
        </h1>
        <Views view={route.view} alarms={(alarms ?? []).filter(({ severity }) => severity === "serious").length} />
        <State admits={admits} />
        <select aria-label={t.language} value={language} onChange={(event) => choose(event.currentTarget.value as Language)}>
          {Object.entries(LANGUAGES).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </header>
      {outdated && (
        <p class="notice bar wrap" role="alert">
          {t.outdated}
          <button onClick={() => location.reload()}>{t.reload}</button>
        </p>
      )}
      {missing >= OFFLINE && (
        <p id="offline" class="notice" role="alert">
          {t.offline}
        </p>
      )}
      <main tabIndex={-1}>
        {route.view === "contents" && <Place route={route} back={back} />}
        {route.view === "live" && <Live />}
        {route.view === "health" && <Health />}
        {route.view === "log" && <Log />}
        {route.view === "settings" && <Settings />}
        {route.view === "trash" && <Trash />}
        {route.view === "access" && <Access />}
        {route.view === "setup" && <SetUp />}
      </main>
    </>
  );
}

/** A folder, and the player of one of its contents. */
function Place({ route: { folder, content }, back }: { route: Route; back: number }) {
  const [names, setNames] = useState<Entry[]>([]);
  const [left, setLeft] = useState("");
  const playing = content !== null && isMedia(content) ? content : null;
  const name = playing?.slice(folder.length) ?? "";
  const at = names.findIndex((entry) => entry.name === name);
  const following = at < 0 ? undefined : names.slice(at + 1).find((entry) => entry.kind === "file" && isMedia(entry.name));
  useEffect(() => {
    document.title = playing === null ? "Isocast" : `${name} · Isocast`;
    if (playing !== null) setLeft(playing);
    // After a player was closed the focus is where it was chosen.
    else if (left !== "") document.querySelector<HTMLElement>(`a[href="${CSS.escape(addressOf(left))}"]`)?.focus();
  }, [playing]);
  return (
    <>
      {playing !== null && (
        <Player
          key={playing}
          path={playing}
          chapters={chaptersBeside(folder, name, names.map((entry) => entry.name))}
          subtitles={beside(folder, name, names.map((entry) => entry.name))}
          next={following === undefined ? null : () => (location.hash = addressOf(folder + following.name))}
          close={() => (location.hash = addressOf(folder))}
        />
      )}
      <Contents folder={folder} playing={playing} stamp={back} onEntries={setNames} />
    </>
  );
}

function Views({ view, alarms }: { view: View; alarms: number }) {
  const views: [View, string, string][] = [
    ["contents", "#/", t.contents],
    ["live", "#live", t.live],
    ["health", "#health", t.health],
    ["log", "#log", t.log],
    ["settings", "#settings", t.settings],
    ["access", "#access", t.access],
  ];
  return (
    <nav aria-label="Isocast">
      <ul class="views">
        {views.map(([each, address, text]) => (
          <li key={each}>
            <a href={address} aria-current={each === view ? "page" : undefined}>
              {text}
              {each === "health" && alarms > 0 && <span class="badge">{alarms}</span>}
            </a>
          </li>
        ))}
        <li>
          <a href={t.helpPage}>{t.help}</a>
        </li>
      </ul>
    </nav>
  );
}

function State({ admits }: { admits: boolean | null | undefined }) {
  const [text, state] = admits === undefined ? ["", ""] : admits === null ? [t.noAnswer, "gone"] : admits ? [t.admitting, "ready"] : [t.notAdmitting, "closed"];
  return (
    <p id="state" role="status" data-state={state}>
      {text}
    </p>
  );
}

const place = document.getElementById("page");
if (place !== null) void begin().then(() => render(<App />, place));
