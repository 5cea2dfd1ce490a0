// Uploads one after the other, two at a time. A content that exists is replaced only when the user says so.

import { PAGE, mediaUrl, type Problem } from "../server";
import { forget, persist, sendBody, sendResumable } from "./resumable";

/** Uploads under way at once: one fills the link while the other waits for its disk. */
const AT_ONCE = 2;
/** A larger file continues where it broke off; a smaller one is sent again. */
const RESUMABLE_BYTES = 4 << 20;
/** Weight of the last second in the shown rate. */
const RATE_WEIGHT = 0.3;

/** Treatment of a content that exists. */
export type Existing = "replace" | "both" | "skip";

export interface Item {
  readonly id: number;
  /** Path of the content. */
  path: string;
  readonly file: Blob;
  /** `exists`: the user is asked. */
  state: "waiting" | "sending" | "paused" | "exists" | "done" | "skipped" | "failed";
  /** The user said that what is there goes. */
  replace: boolean;
  sent: number;
  /** The server is away; the upload continues when it is back. */
  waits: boolean;
  /** Bytes per second. */
  rate: number;
  problem: Problem | null;
}

/** Sends `file` to `path`; returns a function that ends the request. */
export type Send = (item: Item, replace: boolean, ended: (problem: Problem | null) => void, progress: (bytes: number, waits: boolean) => void) => () => void;

export class Uploads {
  items: Item[] = [];
  private readonly under = new Map<number, () => void>();
  private always: Existing | null = null;
  private number = 0;

  constructor(
    private readonly changed: () => void,
    private readonly stored: (path: string) => void,
    private readonly send: Send = sendFile,
    private readonly now: () => number = () => performance.now() / 1000,
  ) {}

  /** Files that are chosen again take the place of those that failed or were paused, and continue them. */
  add(files: { path: string; file: Blob }[]): void {
    const paths = new Set(files.map(({ path }) => path));
    this.items = this.items.filter(({ state, path }) => (state !== "failed" && state !== "paused") || !paths.has(path));
    for (const { path, file } of files) {
      this.items.push({ id: ++this.number, path, file, state: "waiting", replace: false, sent: 0, waits: false, rate: 0, problem: null });
    }
    this.next();
  }

  /** Answers for a content that exists; `all`: for those that follow too. */
  answer(item: Item, existing: Existing, all: boolean): void {
    if (all) this.always = existing;
    const asked = this.items.filter((other) => other.state === "exists" && (all || other === item));
    asked.forEach((other) => this.settle(other, existing));
    this.next();
  }

  /** Ends an upload: nothing of it is stored, and its line goes. */
  cancel(item: Item): void {
    this.stop(item);
    forget(item.path);
    this.items = this.items.filter((other) => other !== item);
    this.next();
  }

  /** Ends the request of an upload, which continues with `retry`. */
  pause(item: Item): void {
    this.stop(item);
    item.state = "paused";
    this.next();
  }

  retry(item: Item): void {
    item.state = "waiting";
    item.problem = null;
    this.next();
  }

  clear(): void {
    this.items = this.items.filter(({ state }) => state !== "done" && state !== "skipped");
    this.always = this.items.length === 0 ? null : this.always;
    this.changed();
  }

  private stop(item: Item): void {
    this.under.get(item.id)?.();
    this.under.delete(item.id);
  }

  private next(): void {
    for (const item of this.items) {
      if (this.under.size >= AT_ONCE) break;
      if (item.state === "waiting") this.begin(item, item.replace || this.always === "replace");
    }
    this.changed();
  }

  private begin(item: Item, replace: boolean): void {
    item.state = "sending";
    item.replace = replace;
    item.sent = 0;
    item.rate = 0;
    item.waits = false;
    let looked = this.now();
    const end = this.send(
      item,
      replace,
      (problem) => this.ended(item, problem),
      (bytes, waits) => {
        if (waits !== item.waits) {
          item.waits = waits;
          this.changed();
        }
        const passed = this.now() - looked;
        // What is there already, of an upload that continues, was not sent now.
        if (item.sent === 0 && bytes > 0 && passed < 0.5) item.sent = bytes;
        if (waits || passed < 0.5) return;
        const rate = (bytes - item.sent) / Math.max(passed, 0.001);
        item.rate = item.rate === 0 ? rate : (1 - RATE_WEIGHT) * item.rate + RATE_WEIGHT * rate;
        item.sent = bytes;
        looked = this.now();
        this.changed();
      },
    );
    this.under.set(item.id, end);
  }

  private ended(item: Item, problem: Problem | null): void {
    this.under.delete(item.id);
    item.problem = problem;
    if (problem === null) {
      item.state = "done";
      item.sent = item.file.size;
      this.stored(item.path);
    } else if (problem.status !== 412) {
      item.state = "failed";
    } else if (this.always === null) {
      item.state = "exists";
    } else {
      this.settle(item, this.always);
    }
    this.next();
  }

  private settle(item: Item, existing: Existing): void {
    item.problem = null;
    if (existing === "skip") item.state = "skipped";
    else if (existing === "replace") this.begin(item, true);
    else {
      item.path = beside(item.path);
      item.state = "waiting";
    }
  }
}

/** The next name after `path`: "a.mp4" → "a (2).mp4" → "a (3).mp4" */
export function beside(path: string): string {
  const [, stem = path, number, end = ""] = /^(.*?)(?: \((\d+)\))?(\.[^./]+)?$/s.exec(path) ?? [];
  return `${stem} (${Number(number ?? 1) + 1})${end}`;
}

/** The files of a drop, folders walked, with their paths below `folder`. */
export async function dropped(transfer: DataTransfer, folder: string): Promise<{ path: string; file: Blob }[]> {
  const roots = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const files: { path: string; file: Blob }[] = [];
  const walk = async (entry: FileSystemEntry): Promise<void> => {
    if (entry.isFile) {
      const file = await new Promise<File>((found, failed) => (entry as FileSystemFileEntry).file(found, failed));
      files.push({ path: folder + entry.fullPath.replace(/^\//, ""), file });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const part = await new Promise<FileSystemEntry[]>((found, failed) => reader.readEntries(found, failed));
      if (part.length === 0) return;
      for (const child of part) await walk(child);
    }
  };
  for (const root of roots) await walk(root);
  return files;
}

/** The chosen files of an input, with their paths below `folder`. */
export function chosen(files: FileList, folder: string): { path: string; file: Blob }[] {
  return [...files].map((file) => ({ path: folder + (file.webkitRelativePath || file.name), file }));
}

/** A large file in a way that continues, any other as one request. */
const sendFile: Send = (item, replace, ended, progress) => {
  const stop = new AbortController();
  const { path, file } = item;
  const modified = file instanceof File ? file.lastModified : 0;
  const headers = { ...PAGE, ...(replace ? {} : { "If-None-Match": "*" }) };
  const put = () => sendBody("PUT", mediaUrl(path), headers, file, stop.signal, (bytes) => progress(bytes, false));
  const sending =
    file.size < RESUMABLE_BYTES ? persist(stop.signal, () => progress(0, true), put) : sendResumable({ path, size: file.size, modified }, file, replace, stop.signal, progress);
  const end = (problem: Problem | null) => {
    if (!stop.signal.aborted) ended(problem);
  };
  sending.then(() => end(null), end);
  return () => stop.abort();
};
