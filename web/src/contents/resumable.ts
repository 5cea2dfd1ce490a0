// An upload that continues where it broke off (tus 1.0): after a lost connection by itself, after a reload of the page once the same file is
// chosen again. The browser keeps its address.

import { isKept, recall, store } from "../kept";
import { PAGE, problemOf, type Problem } from "../server";

const TUS = { ...PAGE, "Tus-Resumable": "1.0.0" };
/** Kept addresses at most: the oldest are forgotten, and end on the server by themselves. */
const KEPT_MAX = 500;
/** Tries one after the other of which none brings a byte. */
const TRIES_MAX = 8;
const PAUSE_MAX_MS = 15_000;
/** Status of an upload that the server does not know any more. */
const GONE = 410;

/** A file that is sent, by which it is known again. */
export interface Sent {
  path: string;
  size: number;
  modified: number;
}

export interface Unfinished extends Sent {
  id: string;
  /** It replaces a content, as the user said. */
  replace: boolean;
}

/** Uploads that this browser began and did not end. */
export function unfinished(): Unfinished[] {
  try {
    const kept = JSON.parse(recall("uploads") ?? "[]") as unknown;
    return Array.isArray(kept) ? (kept as Unfinished[]).filter((one) => typeof one?.id === "string" && typeof one.path === "string") : [];
  } catch {
    return [];
  }
}

function keep(all: Unfinished[]): void {
  store("uploads", JSON.stringify(all.slice(-KEPT_MAX)));
}

/** False while the storage of the browser is full or forbidden: after a reload of the page uploads begin anew. */
export const areKept = (): boolean => isKept("uploads");

/** Ends the uploads of a path on the server. The browser keeps the address of each until the server has answered. */
export function forget(path: string): void {
  for (const one of unfinished().filter((each) => each.path === path)) void end(one.id).catch(() => {});
}

async function end(id: string): Promise<void> {
  const { ok, status } = await answered(`upload/${id}`, { method: "DELETE" });
  if (ok || status === 404) drop(id);
}

function drop(id: string): void {
  keep(unfinished().filter((each) => each.id !== id));
}

/** Sends the file. Throws a Problem: 412 where a content of the name is there, or came meanwhile, and `replace` is false. */
export async function sendResumable(sent: Sent, file: Blob, replace: boolean, signal: AbortSignal, progress: (bytes: number, waits: boolean) => void): Promise<void> {
  const known = unfinished().find((one) => one.path === sent.path && one.size === sent.size && one.modified === sent.modified && one.replace === replace);
  let id = known?.id ?? null;
  let reached = 0;
  await persist(signal, () => progress(reached, true), async (came) => {
    id ??= await create(sent, replace, signal);
    try {
      const offset = await offsetOf(id, signal);
      progress(offset, false);
      const headers = { ...TUS, "Upload-Offset": String(offset), "Content-Type": "application/offset+octet-stream" };
      await sendBody("PATCH", `upload/${id}`, headers, file.slice(offset), signal, (bytes) => {
        if (offset + bytes > reached) came();
        reached = offset + bytes;
        progress(reached, false);
      });
      drop(id);
    } catch (error) {
      const { status } = error as Problem;
      // It would never replace the content that came meanwhile.
      if (status === 412) await end(id).catch(() => {});
      if (status === GONE) {
        drop(id);
        id = null;
      }
      throw error;
    }
  });
}

/** Tries again, after a pause, while the server is away, starts or is busy; `came`: the last try brought bytes that none before did. */
export async function persist(signal: AbortSignal, waits: () => void, attempt: (came: () => void) => Promise<void>): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    signal.throwIfAborted();
    try {
      return await attempt(() => void (tries = 0));
    } catch (error) {
      if (signal.aborted || !passes(error as Problem) || tries >= TRIES_MAX) throw error;
    }
    waits();
    await new Promise((done) => setTimeout(done, Math.min(PAUSE_MAX_MS, 500 * 2 ** tries)));
  }
}

/** True for a server that is away, starts or is busy, and an upload that it does not know any more or whose offset it knows better. */
function passes({ status }: Problem): boolean {
  return [0, 409, GONE, 429, 500, 502, 503, 504].includes(status);
}

/** The upload's address. One that is canceled or paused meanwhile ends: its address is kept nowhere else. */
async function create(sent: Sent, replace: boolean, signal: AbortSignal): Promise<string> {
  const { path, size, modified } = sent;
  const metadata = [`path ${base64(path)}`, ...(modified > 0 ? [`mtime ${base64(String(Math.floor(modified / 1000)))}`] : [])].join(",");
  const answer = await answered("upload/", {
    method: "POST",
    headers: { "Upload-Length": String(size), "Upload-Metadata": metadata, ...(replace ? {} : { "If-None-Match": "*" }) },
  });
  if (!answer.ok) throw await problemOf(answer);
  const id = (answer.headers.get("Location") ?? "").split("/").at(-1) ?? "";
  if (signal.aborted) await end(id).catch(() => {});
  signal.throwIfAborted();
  forget(path);
  keep([...unfinished(), { id, path, size, modified, replace }]);
  return id;
}

/** Durable bytes. */
async function offsetOf(id: string, signal: AbortSignal): Promise<number> {
  const answer = await answered(`upload/${id}`, { method: "HEAD", signal });
  if (!answer.ok) throw { status: answer.status === 404 ? GONE : answer.status } satisfies Problem;
  return Number(answer.headers.get("Upload-Offset"));
}

/** Sends bytes. A request of this kind tells of its progress, `fetch` does not. */
export function sendBody(method: string, url: string, headers: Record<string, string>, body: Blob, signal: AbortSignal, progress: (bytes: number) => void): Promise<void> {
  return new Promise((done, failed) => {
    signal.throwIfAborted();
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded }) => progress(loaded);
    request.onload = () => {
      const { status, statusText, responseText } = request;
      if (status >= 200 && status < 300) done();
      else void problemOf(new Response(responseText, { status, statusText })).then(failed);
    };
    request.onerror = request.onabort = () => failed({ status: 0 } satisfies Problem);
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(body);
  });
}

async function answered(url: string, options: { method: string; headers?: Record<string, string>; signal?: AbortSignal }): Promise<Response> {
  return fetch(url, { ...options, cache: "no-store", headers: { ...TUS, ...options.headers } }).catch(() => {
    throw { status: 0 } satisfies Problem;
  });
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
