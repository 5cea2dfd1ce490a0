// Views and players that the browser reads once they are shown: the first load is the frame and the contents.

import { h, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { t } from "./texts";

/** The component that `load` gives. A part that cannot be had is reported by the event `vite:preloadError`. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | null = null;
  return (props: P) => {
    const [, draw] = useState(false);
    useEffect(() => {
      if (loaded === null) void load().then((component) => ((loaded = component), draw(true)), () => undefined);
    }, []);
    return loaded === null ? <section class="card" aria-busy="true">{t.reading}</section> : h(loaded, props);
  };
}
