// The address of a view, after `#`: `#/a/b/` is a folder, `#/a/b.mp4` a content and its folder, `#live` another view.

import { useEffect, useState } from "preact/hooks";

export const VIEWS = ["live", "health", "log", "settings", "access", "trash", "setup"] as const;
export type View = "contents" | (typeof VIEWS)[number];

export interface Route {
  view: View;
  /** The folder, with a closing slash; empty for the top. */
  folder: string;
  /** Path of the content that plays. */
  content: string | null;
}

/** The address, within this page, of a folder (`a/b/`) or a content (`a/b.mp4`). */
export function addressOf(path: string): string {
  return `#/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** The route of an address; the top folder of a broken one. */
export function parse(hash: string): Route {
  const view = VIEWS.find((view) => hash.split("?")[0] === `#${view}`);
  if (view !== undefined) return { view, folder: "", content: null };
  let path = "";
  try {
    path = hash.replace(/^#?\/?/, "").split("/").map(decodeURIComponent).join("/");
  } catch {
    // Not an address that this page wrote.
  }
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  return { view: "contents", folder, content: path === folder ? null : path };
}

/** The route of the page's address. */
export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash));
  useEffect(() => {
    const follow = () => set(parse(location.hash));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return route;
}
