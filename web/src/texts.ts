// The texts of the page in the language of the browser, or in the chosen one, which the browser keeps.

import { useEffect, useState } from "preact/hooks";
import { recall, store } from "./kept";
import { en } from "./texts/en";
import { ja } from "./texts/ja";

export const LANGUAGES = { en: "English", ja: "日本語" } as const;
export type Language = keyof typeof LANGUAGES;

const CATALOGUES: Record<Language, typeof en> = { en, ja };

function chosen(): Language {
  const kept = recall("language");
  if (kept === "en" || kept === "ja") return kept;
  return navigator.languages.find((tag) => /^(en|ja)\b/.test(tag))?.startsWith("ja") === true ? "ja" : "en";
}

let language: Language = "en";
/** The texts of the chosen language. */
export let t: typeof en = en;
const listeners = new Set<(language: Language) => void>();

/** Changes the language, and keeps the choice. */
export function choose(to: Language): void {
  store("language", to);
  use(to);
}

function use(to: Language): void {
  language = to;
  t = CATALOGUES[to];
  document.documentElement.lang = to;
  listeners.forEach((listener) => listener(to));
}

/** The language; the component is drawn anew when it changes. */
export function useLanguage(): Language {
  const [now, set] = useState(language);
  useEffect(() => {
    listeners.add(set);
    return () => void listeners.delete(set);
  }, []);
  return now;
}

/** Begins with the kept or the browser's language. */
export function begin(): void {
  use(chosen());
}

/** A moment in the words of the language: date and time to the minute. */
export function moment(at: number | string): string {
  return new Date(typeof at === "number" ? at * 1000 : at).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
}
