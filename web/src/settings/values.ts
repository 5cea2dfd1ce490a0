// Values of settings as texts of a field.

import type { SettingValue } from "../server";

/** A list has each value on a line, for a path may have a comma. */
export function toText(value: SettingValue): string {
  if (Array.isArray(value)) return value.join("\n");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** The value of a text, of the kind that `like` has. A number that is none stays a text: the server says what is wrong with it. */
export function fromText(text: string, like: SettingValue): SettingValue {
  const trimmed = text.trim();
  if (Array.isArray(like)) {
    return trimmed
      .split("\n")
      .map((part) => part.trim())
      .filter((part) => part !== "");
  }
  if (typeof like === "boolean") return trimmed === "true";
  if (typeof like === "number" && /^-?\d+$/.test(trimmed)) return Number(trimmed);
  return trimmed;
}
