// Members of the entries of arrays, as the forms have them: budgets, jobs, quotas, webhooks.

import type { SettingValue } from "../server";
import { fromText, toText } from "./values";

export interface Member {
  name: string;
  /** A text; a list of texts, each on a line; or one of these words. */
  form: "text" | "list" | readonly string[];
  /** The value that means the same as none. */
  absent?: string;
  /** Kinds of a job that have it; without: all. */
  kinds?: readonly string[];
  example?: string;
  needed?: true;
}

export const ARRAYS = ["job", "quota", "budget", "webhook"] as const;
export type ArrayName = (typeof ARRAYS)[number];

/** The first member distinguishes an entry from the others. */
export const MEMBERS: Record<ArrayName, readonly Member[]> = {
  job: [
    { name: "name", form: "text", example: "nightly-copy", needed: true },
    { name: "kind", form: ["keep", "copy", "scrub", "measure"], needed: true },
    { name: "schedule", form: "text", example: "30 2 * * *", needed: true },
    { name: "folder", form: "text", kinds: ["keep", "scrub"], absent: "", example: "recordings" },
    { name: "max_age", form: "text", kinds: ["keep"], example: "30d" },
    { name: "max_size", form: "text", kinds: ["keep"], example: "500GB" },
    { name: "min_age", form: "text", kinds: ["keep"], absent: "1h", example: "1h" },
    { name: "protected", form: "list", kinds: ["keep"], example: "recordings/kept" },
    { name: "from", form: "text", kinds: ["copy"], example: "recordings", needed: true },
    { name: "to", form: "text", kinds: ["copy"], example: "http://archive:8080/media/recordings", needed: true },
    { name: "rate", form: "text", kinds: ["copy", "scrub"], example: "40M" },
    { name: "time_zone", form: "text", example: "Asia/Tokyo" },
    { name: "jitter", form: "text", absent: "0s", example: "10min" },
    { name: "missed", form: ["skip", "once"], absent: "skip" },
    { name: "time_limit", form: "text", absent: "1d", example: "6h" },
  ],
  quota: [
    { name: "folder", form: "text", example: "cameras", needed: true },
    { name: "max_size", form: "text", example: "8TB", needed: true },
    { name: "when_full", form: ["refuse", "overwrite_oldest"], absent: "refuse" },
    { name: "min_age", form: "text", absent: "0s", example: "1d" },
    { name: "protected", form: "list", example: "cameras/kept" },
  ],
  budget: [
    { name: "of", form: "text", example: "user:ada", needed: true },
    { name: "streams", form: "text", example: "4" },
    { name: "reserved", form: "text", example: "40M" },
    { name: "idle", form: "text", example: "20M" },
    { name: "download", form: "text", example: "100M" },
    { name: "upload", form: "text", example: "50M" },
    { name: "requests", form: "text", example: "20" },
    { name: "stored", form: "text", example: "200GB" },
  ],
  webhook: [
    { name: "name", form: "text", example: "chat", needed: true },
    { name: "events", form: "list", example: "job_failed\ndisk_failing\nfull_soon", needed: true },
    { name: "url", form: "text", example: "https://hooks.example/isocast", needed: true },
    { name: "secret", form: "text", example: "/etc/isocast/chat.secret", needed: true },
    { name: "timeout", form: "text", absent: "10s", example: "10s" },
  ],
};

export type Fields = Record<string, string>;

/** The members that an entry with these fields has. */
export function membersOf(array: ArrayName, fields: Fields): readonly Member[] {
  return MEMBERS[array].filter(({ kinds }) => kinds === undefined || kinds.includes(fields["kind"] ?? ""));
}

/** The fields of a new entry. */
export function newFields(array: ArrayName): Fields {
  return Object.fromEntries(MEMBERS[array].map(({ name, form, absent }) => [name, absent ?? (Array.isArray(form) ? (form[0] ?? "") : "")]));
}

/** The fields of an entry in force. */
export function fieldsOf(array: ArrayName, value: SettingValue): Fields {
  const members = typeof value === "object" && !Array.isArray(value) ? value : {};
  return { ...newFields(array), ...Object.fromEntries(Object.entries(members).map(([name, member]) => [name, toText(member)])) };
}

/** True for an entry that runs a program or sends a file of the machine: only its operator changes it, in the file. */
export function isOperators(value: SettingValue): boolean {
  if (typeof value !== "object" || Array.isArray(value)) return false;
  return Object.entries(value).some(([name, member]) => name === "command" || name === "login" || String(member).startsWith("rclone:"));
}

/** The entry of these fields: members that say nothing are left out. */
export function valueOf(array: ArrayName, fields: Fields): SettingValue {
  const value: Record<string, SettingValue> = {};
  for (const { name, form, absent, needed } of membersOf(array, fields)) {
    const text = (fields[name] ?? "").trim();
    if (!needed && (text === "" || text === absent)) continue;
    value[name] = fromText(text, form === "list" ? [] : "");
  }
  return value;
}
