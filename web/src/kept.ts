// Choices that the browser keeps. A browser that keeps nothing (full, forbidden) forgets them at the next visit.

const PREFIX = "isocast.";

export function recall(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function store(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Nothing to be done.
  }
}
