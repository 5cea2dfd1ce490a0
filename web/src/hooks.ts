// State that follows the server.

import { useEffect, useRef, useState } from "preact/hooks";

/** An answer that takes longer counts as none, milliseconds. */
const PATIENCE_MS = 5000;
/** Time until events are asked for again, milliseconds. */
const AGAIN_MS = 1000;

/** Asks again and again while the page is visible, each time `period` milliseconds after the last answer. */
export function usePolled<T>(ask: (signal: AbortSignal) => Promise<T>, period: number, follows: unknown[] = []): T | undefined {
  const [answer, set] = useState<T>();
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const look = async () => {
      if (document.visibilityState === "visible") {
        const got = await ask(AbortSignal.any([stop.signal, AbortSignal.timeout(PATIENCE_MS)]));
        if (stop.signal.aborted) return;
        set(() => got);
      }
      timer = window.setTimeout(() => void look(), period);
    };
    const atOnce = () => {
      if (document.visibilityState !== "visible") return;
      window.clearTimeout(timer);
      void look();
    };
    document.addEventListener("visibilitychange", atOnce);
    void look();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", atOnce);
    };
  }, follows);
  return answer;
}

/** The latest server-sent event of `url` while the page is visible; null while the server does not answer. */
export function useEvents<T>(url: string): T | null | undefined {
  const [latest, set] = useState<T | null>();
  useEffect(() => {
    let source: EventSource | null = null;
    let timer = 0;
    const end = () => {
      source?.close();
      source = null;
      window.clearTimeout(timer);
    };
    const begin = () => {
      end();
      if (document.visibilityState !== "visible") return;
      source = new EventSource(url);
      source.onmessage = ({ data }) => set(JSON.parse(String(data)) as T);
      // A browser opens it again by itself after some failures, never after others.
      source.onerror = () => {
        set(null);
        end();
        timer = window.setTimeout(begin, AGAIN_MS);
      };
    };
    document.addEventListener("visibilitychange", begin);
    begin();
    return () => {
      document.removeEventListener("visibilitychange", begin);
      end();
    };
  }, [url]);
  return latest;
}

/** The latest value, for callbacks that outlive a drawing. */
export function useLatest<T>(value: T): { readonly current: T } {
  const latest = useRef(value);
  latest.current = value;
  return latest;
}
