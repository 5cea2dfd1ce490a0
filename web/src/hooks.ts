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

/** Receiver of server-sent events. */
interface EventFollower<T> {
  /** They are asked for, until `stop`. */
  begun?: (stop: AbortSignal) => void;
  received: (event: T) => void;
  /** The server does not answer; it is asked again. */
  lost?: () => void;
}

/** Follows the server-sent events of `url` while the page is visible. */
export function useEventStream<T>(url: string, follower: EventFollower<T>) {
  useEffect(() => {
    let source: EventSource | null = null;
    let stop = new AbortController();
    let timer = 0;
    const end = () => {
      source?.close();
      source = null;
      stop.abort();
      window.clearTimeout(timer);
    };
    const begin = () => {
      end();
      if (document.visibilityState !== "visible") return;
      stop = new AbortController();
      source = new EventSource(url);
      source.onmessage = ({ data }) => follower.received(JSON.parse(String(data)) as T);
      // A browser opens it again by itself after some failures, never after others.
      source.onerror = () => {
        follower.lost?.();
        end();
        timer = window.setTimeout(begin, AGAIN_MS);
      };
      follower.begun?.(stop.signal);
    };
    document.addEventListener("visibilitychange", begin);
    begin();
    return () => {
      document.removeEventListener("visibilitychange", begin);
      end();
    };
  }, [url]);
}

/** The latest server-sent event of `url` while the page is visible; null while the server does not answer. */
export function useEvents<T>(url: string): T | null | undefined {
  const [latest, set] = useState<T | null>();
  useEventStream<T>(url, { received: set, lost: () => set(null) });
  return latest;
}

/** The latest value, for callbacks that outlive a drawing. */
export function useLatest<T>(value: T): { readonly current: T } {
  const latest = useRef(value);
  latest.current = value;
  return latest;
}
