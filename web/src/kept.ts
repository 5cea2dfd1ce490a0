// Choices that the browser keeps. A browser that keeps nothing (full, forbidden) forgets them at the next visit.

const PREFIX = "isocast.";
/** Values that the browser did not take. */
const refused = new Map<string, string>();

export function recall(name: string): string | null {
  try {
    return refused.get(name) ?? localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function store(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
    refused.delete(name);
  } catch {
    refused.set(name, value);
  }
}

/** False for a value that is gone after this visit; a value that the browser takes by now is not. */
export function isKept(name: string): boolean {
  const value = refused.get(name);
  if (value !== undefined) store(name, value);
  return !refused.has(name);
}
