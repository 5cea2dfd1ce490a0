// Requests to the server and its answers: listings, refusals, figures, changes. The types of its API come from its description.

import type { components } from "#api";

type Schemas = components["schemas"];
export type FiguresHistory = Schemas["FiguresHistory"];
export type LiveFigures = Schemas["LiveFigures"];
export type System = Schemas["System"];
export type Stream = Schemas["Stream"];
export type StreamExplanation = Schemas["StreamExplanation"];
export type Disk = Schemas["Disk"];
export type Alarm = Schemas["Alarm"];
export type StreamFact = Schemas["StreamFact"];
export type ProblemType = Schemas["Problem"]["type"];
export type VolumeStatus = Schemas["VolumeStatus"];
export type JobStatus = Schemas["JobStatus"];
export type BudgetStatus = Schemas["BudgetStatus"];
export type CertificateStatus = Schemas["CertificateStatus"];
export type QuotaStatus = Schemas["QuotaStatus"];
export type WebhookStatus = Schemas["WebhookStatus"];
export type LoginStatus = Schemas["LoginStatus"];
export type AccountEntry = Schemas["AccountEntry"];
export type GroupEntry = Schemas["GroupEntry"];
export type TokenText = Schemas["TokenText"];
export type TokenEntry = Schemas["TokenEntry"];
export type LinkEntry = Schemas["LinkEntry"];
export type SettingEntry = Schemas["SettingEntry"];
export type SettingValue = Schemas["SettingValue"];
export type ContentDetails = Schemas["ContentDetails"];
export type FoundNames = Schemas["FoundNames"];
export type TrashEntry = Schemas["TrashEntry"];
export type LinkText = Schemas["LinkText"];

/** One line of a folder's listing. */
export type Entry = Schemas["ListingEntry"];

/** application/problem+json, with the members that a refusal has. Status 0: no answer. */
export interface Problem {
  status: number;
  type?: ProblemType;
  title?: string;
  detail?: string;
  resource?: string;
  grantable_bps?: number;
  retryAfterSeconds?: number;
}

/** True if a log-in, or another one, may help. */
export const isDenied = ({ status }: Problem) => status === 401 || status === 403;

/** The words for an alarm; `note`: those behind its command. */
export interface AlarmWords {
  text: string;
  why: string;
  remedy: string;
  note?: string | null;
}

/** Names of a folder that are read in one request: the first are shown while the others come. */
const PART = 2000;

/** The address of a content or, with a closing slash, of a folder. Path components are encoded one by one. */
export function mediaUrl(path: string, query: Record<string, string> = {}): string {
  const encoded = path.split("/").map(encodeURIComponent).join("/");
  const parameters = new URLSearchParams(query).toString();
  return `media/${encoded}${parameters === "" ? "" : `?${parameters}`}`;
}

/** The address of the picture of a film, in this version. */
export function thumbnailUrl(path: string, { modified, size }: Entry): string {
  return `api/v1/contents/thumbnail?${new URLSearchParams({ path, version: `${modified} ${size}` }).toString()}`;
}

/** The address of an archive of these contents and folders. */
export function zipUrl(paths: string[]): string {
  return `api/v1/contents/zip?${new URLSearchParams(paths.map((path) => ["path", path])).toString()}`;
}

/** Reads the names of a folder part by part; `came` gets all of them so far, and whether these are all. Throws a Problem. */
export async function list(folder: string, signal: AbortSignal, came: (entries: Entry[], whole: boolean) => void): Promise<void> {
  const entries: Entry[] = [];
  let after: Record<string, string> = {};
  for (;;) {
    const answer = await ask(mediaUrl(folder, { format: "json", limit: String(PART * (entries.length === 0 ? 1 : 10)), ...after }), { signal });
    entries.push(...((await answer.json()) as Entry[]));
    const last = entries.at(-1);
    const whole = !(answer.headers.get("Link") ?? "").includes('rel="next"') || last === undefined;
    came(entries.slice(), whole);
    if (whole) return;
    after = { after: last.name };
  }
}

/** The contents and folders of all, else of `folder`, that match the words. Throws a Problem. */
export async function findNames(text: string, folder: string, signal: AbortSignal): Promise<FoundNames> {
  const search = async (query: Record<string, string>) => (await ask(`api/v1/contents/search?${new URLSearchParams({ text, ...query }).toString()}`, { signal })).json() as Promise<FoundNames>;
  // Rights may begin at a folder.
  return search({}).catch((problem: Problem) => {
    if (folder === "" || !isDenied(problem)) throw problem;
    return search({ folder });
  });
}

/** Bytes of a content, which are read in addition to its stream, and its length. */
export async function bytesAt(path: string, offset: number, bytes: number): Promise<{ bytes: Uint8Array; size: number }> {
  const answer = await ask(mediaUrl(path, { rate: "max" }), { headers: { Range: `bytes=${offset}-${offset + bytes - 1}` } });
  return { bytes: new Uint8Array(await answer.arrayBuffer()), size: Number(answer.headers.get("Content-Range")?.split("/")[1]) };
}

/** Asks why a stream did not start: the refusal, or null if it would start now. */
export async function whyNot(url: string): Promise<Problem | null> {
  const stop = new AbortController();
  try {
    await ask(url, { headers: { Range: "bytes=0-" }, signal: stop.signal });
    return null;
  } catch (problem) {
    return problem as Problem;
  } finally {
    stop.abort();
  }
}

/** A document of the API; null if it cannot be had. */
export async function figures<T>(name: string, signal: AbortSignal): Promise<T | null> {
  try {
    return (await (await ask(`api/v1/${name}`, { signal })).json()) as T;
  } catch {
    return null;
  }
}

/** True if streams are admitted; null if the server does not answer. */
export async function ready(signal: AbortSignal): Promise<boolean | null> {
  try {
    const answer = await fetch("ready", { signal, cache: "no-store" });
    // Chromium ends a request only once its body is read.
    await answer.text();
    return answer.ok;
  } catch {
    return null;
  }
}

/** A change. Throws a Problem. */
export async function change(method: "POST" | "DELETE" | "MKCOL", url: string): Promise<void> {
  await ask(url, { method });
}

/** Moves a content or folder into the trash; gives its name there. Throws a Problem: 507 where it does not fit. */
export async function toTrash(path: string): Promise<string> {
  const answer = await ask(`api/v1/contents/remove?${new URLSearchParams({ path, trash: "true" }).toString()}`, { method: "POST" });
  return (answer.headers.get("Location") ?? "").split("/").at(-1) ?? "";
}

/** Gives an item of the trash its path back. Throws a Problem. */
export async function restore(id: string): Promise<void> {
  await ask(`api/v1/trash/${encodeURIComponent(id)}/restore`, { method: "POST" });
}

/** Gives a content or folder another path, or a copy there; an existing one stays. Throws a Problem. */
export async function relocate(method: "MOVE" | "COPY", from: string, to: string): Promise<void> {
  await ask(mediaUrl(from), { method, headers: { Destination: new URL(mediaUrl(to), location.href).href, Overwrite: "F" } });
}

/** A call of the API with a document. Throws a Problem. */
export async function send(method: "POST" | "PUT" | "DELETE", url: string, body?: object): Promise<Response> {
  if (body === undefined) return ask(url, { method });
  return ask(url, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

/** The settings in force, and the tag by which a change says that it knows them. */
export interface SettingsInForce {
  tag: string;
  settings: SettingEntry[];
}

async function inForce(answer: Response): Promise<SettingsInForce> {
  return { tag: answer.headers.get("ETag") ?? "", settings: (await answer.json()) as SettingEntry[] };
}

/** Throws a Problem. */
export async function settings(): Promise<SettingsInForce> {
  return inForce(await ask("api/v1/settings", {}));
}

/** Changes a setting of the state `tag`; null: it has its default. Throws a Problem: 412 where the settings are others by now. */
export async function changeSetting(key: string, value: SettingValue | null, tag: string): Promise<SettingsInForce> {
  return inForce(await ask("api/v1/settings", { method: "PATCH", headers: { "Content-Type": "application/json", "If-Match": tag }, body: JSON.stringify({ [key]: value }) }));
}

/** Says to the server that a page of its own sends the request: a log-in counts for changes, and the browser asks for no password itself. */
export const PAGE = { "X-Isocast-Page": "1" };

async function ask(url: string, options: RequestInit): Promise<Response> {
  const answer = await fetch(url, { cache: "no-store", ...options, headers: { ...(options.headers as Record<string, string> | undefined), ...PAGE } }).catch((error: unknown) => {
    if (options.signal?.aborted === true) throw error;
    return null;
  });
  if (answer === null) throw { status: 0 } satisfies Problem;
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

/** The problem that an answer tells of. */
export async function problemOf(answer: Response): Promise<Problem> {
  const retry = Number(answer.headers.get("Retry-After"));
  const base: Problem = { status: answer.status, title: answer.statusText };
  if (retry > 0) base.retryAfterSeconds = retry;
  return { ...base, ...parsed(await answer.text().catch(() => "")) };
}

/** The members of a problem's document; none of another text. */
export function parsed(text: string): Partial<Problem> {
  try {
    return JSON.parse(text) as Partial<Problem>;
  } catch {
    return {};
  }
}
