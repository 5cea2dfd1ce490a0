// The texts of the page in the language of the browser, or in the chosen one, which the browser keeps.

import { useEffect, useState } from "preact/hooks";
import { recall, store } from "./kept";
import type { Problem } from "./server";
import { en } from "./texts/en";

export const LANGUAGES = { en: "English", ja: "日本語" } as const;
export type Language = keyof typeof LANGUAGES;

/** The first load has the English texts. */
const CATALOGUES: Record<Language, () => Promise<typeof en>> = { en: () => Promise.resolve(en), ja: async () => (await import("./texts/ja")).ja };

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
  // The event `vite:preloadError` reports a catalogue that cannot be had.
  void use(to).catch(() => undefined);
}

async function use(to: Language): Promise<void> {
  t = await CATALOGUES[to]();
  language = to;
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

/** Begins with the kept or the browser's language; with English where its texts cannot be had. */
export async function begin(): Promise<void> {
  await use(chosen()).catch(() => undefined);
}

/** Making one takes as long as hundreds of its texts. */
const moments = Object.fromEntries(Object.keys(LANGUAGES).map((language) => [language, new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" })]));

/** A moment in the words of the language: date and time to the minute. */
export function moment(at: number | string): string {
  return moments[language]?.format(new Date(typeof at === "number" ? at * 1000 : at)) ?? "";
}

/** A refusal, or the lack of an answer, in the words of the language. */
export function words(problem: Problem): string {
  return problem.status === 0 ? t.noAnswer : t.problem(problem);
}
