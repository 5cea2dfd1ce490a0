// Places at which contents were left, kept by the browser: the last two hundred.

import { recall, store } from "../kept";

const NAME = "places";
const KEPT_MAX = 200;
/** Nearer to the start or the end nothing is kept, seconds. */
const EDGE_S = 30;

function places(): [string, number][] {
  try {
    return JSON.parse(recall(NAME) ?? "[]") as [string, number][];
  } catch {
    return [];
  }
}

/** The place at which `path` was left, seconds; 0 for the start. */
export function placeOf(path: string): number {
  return places().find(([kept]) => kept === path)?.[1] ?? 0;
}

/** Keeps the place of `path`; one near the start or the end is forgotten. */
export function keepPlace(path: string, seconds: number, length: number): void {
  const others = places().filter(([kept]) => kept !== path);
  const worth = seconds > EDGE_S && Number.isFinite(length) && seconds < length - EDGE_S;
  store(NAME, JSON.stringify((worth ? [...others, [path, Math.floor(seconds)]] : others).slice(-KEPT_MAX)));
}
