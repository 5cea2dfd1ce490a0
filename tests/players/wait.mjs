// Waiting: for a moment, and until something is so.

/** Longer than anything here takes on a busy machine. */
export const PATIENCE_MS = 20_000;

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Looks until `look` finds something; what it throws is told if it never does. */
export async function until(what, look, patience = PATIENCE_MS) {
  const end = performance.now() + patience;
  let last = "";
  while (performance.now() < end) {
    try {
      const found = await look();
      if (found) return found;
    } catch (error) {
      last = ` (${error.message})`;
    }
    await sleep(50);
  }
  throw new Error(`${what} does not come in ${patience / 1000} s${last}`);
}
