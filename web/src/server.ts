// What the server is asked, and what it answers: the listing, a refusal, the live figures.

/** One line of a folder's listing. */
export interface Entry {
  name: string;
  kind: "file" | "directory";
  size: number;
  modified: string;
  rate_bps: number | null;
  mean_bps?: number;
}

/** application/problem+json, with the members that a refusal has. */
export interface Problem {
  status: number;
  title?: string;
  detail?: string;
  resource?: string;
  grantable_bps?: number;
  retryAfterSeconds?: number;
}

/** The address of a content or, with a closing slash, of a folder. Path components are encoded one by one. */
export function mediaUrl(path: string, query: Record<string, string> = {}): string {
  const encoded = path.split("/").map(encodeURIComponent).join("/");
  const parameters = new URLSearchParams(query).toString();
  return `media/${encoded}${parameters === "" ? "" : `?${parameters}`}`;
}

/** The contents of a folder, folders first. Throws a Problem. */
export async function list(folder: string): Promise<Entry[]> {
  const answer = await fetch(mediaUrl(folder, { format: "json" }));
  if (!answer.ok) throw await problem(answer);
  const entries = (await answer.json()) as Entry[];
  return entries.sort((a, b) => (a.kind === b.kind ? a.name.localeCompare(b.name) : a.kind === "directory" ? -1 : 1));
}

/** Asks why a stream did not start: the refusal, or null if it would start now. */
export async function whyNot(url: string): Promise<Problem | null> {
  const stop = new AbortController();
  try {
    const answer = await fetch(url, { headers: { Range: "bytes=0-" }, signal: stop.signal, cache: "no-store" });
    return answer.ok ? null : await problem(answer);
  } catch {
    return { status: 0, title: "The server does not answer." };
  } finally {
    stop.abort();
  }
}

/** Live figures; null if they cannot be had. */
export async function figures<T>(name: string, signal: AbortSignal): Promise<T | null> {
  try {
    const answer = await fetch(`api/v1/${name}`, { signal, cache: "no-store" });
    return answer.ok ? ((await answer.json()) as T) : null;
  } catch {
    return null;
  }
}

/** Whether streams are admitted; null if the server does not answer. */
export async function ready(signal: AbortSignal): Promise<boolean | null> {
  try {
    return (await fetch("ready", { signal, cache: "no-store" })).ok;
  } catch {
    return null;
  }
}

async function problem(answer: Response): Promise<Problem> {
  const retry = Number(answer.headers.get("Retry-After"));
  const base: Problem = { status: answer.status, title: answer.statusText };
  if (retry > 0) base.retryAfterSeconds = retry;
  try {
    return { ...base, ...((await answer.json()) as Partial<Problem>) };
  } catch {
    return base;
  }
}
