// Views and players that the browser reads after the first load, which is the frame and the contents.

import { h, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { t } from "./texts";

/** So long after the first load the others are read, so that they are there without the server. */
const AFTER_MS = 2000;
/** Time until a failed item is requested again, milliseconds. */
const AGAIN_MS = 1000;

/** The component that `load` gives. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | null = null;
  const read = async () => void (loaded ??= await load());
  window.setTimeout(() => void read().catch(() => undefined), AFTER_MS);
  return (props: P) => {
    const [, draw] = useState(false);
    useEffect(() => {
      let timer = 0;
      const look = () => {
        if (loaded === null) read().then(() => draw(true), () => (timer = window.setTimeout(look, AGAIN_MS)));
      };
      look();
      return () => window.clearTimeout(timer);
    }, []);
    return loaded === null ? <section class="card" aria-busy="true">{t.reading}</section> : h(loaded, props);
  };
}
