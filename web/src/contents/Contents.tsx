// A folder: its way up, what to find in it, its names, and what can be done with them.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import * as format from "../format";
import { useLatest, usePolled } from "../hooks";
import { recall, store } from "../kept";
import { addressOf } from "../route";
import { change, figures, isDenied, list, mediaUrl, relocate, restore, toTrash, zipUrl, type Entry, type Problem, type Stream } from "../server";
import { t, words } from "../texts";
import { Details } from "./Details";
import { arranged, type Kind, type Order } from "./kinds";
import { Names } from "./Names";
import { SearchResults } from "./SearchResults";
import { UploadPanel } from "./UploadPanel";
import { chosen, dropped, Uploads } from "./uploads";

/** A folder that others write into is read again so often, milliseconds, if it is short. */
const RENEW_MS = 15_000;
const RENEWED_MAX = 2000;
/** Status of the refusal of a larger item than the trash takes. */
const TRASH_FULL = 507;
/** Longer addresses are not asked for: the server takes heads of 16 KiB. */
const ADDRESS_MAX = 12_000;

interface Listing {
  folder: string;
  entries: Entry[];
  whole: boolean;
  problem: Problem | null;
}

/** The names of `folder`, read again when `stamp` changes, after changes made here, and while the page is looked at. */
function useListing(folder: string, stamp: number): [Listing | null, () => void] {
  const [listing, set] = useState<Listing | null>(null);
  const [again, setAgain] = useState(0);
  const length = useLatest(listing?.entries.length ?? 0);
  const renew = useCallback(() => setAgain((count) => count + 1), []);
  // Asked for before the frame is painted.
  useLayoutEffect(() => {
    const stop = new AbortController();
    let parts = 0;
    list(folder, stop.signal, (entries, whole) => {
      parts += 1;
      // A list that is read again keeps its length until all of it has come.
      if (whole || parts === 1) set((old) => (!whole && old?.folder === folder ? old : { folder, entries, whole, problem: null }));
    }).catch((problem: unknown) => {
      if (!stop.signal.aborted) set({ folder, entries: [], whole: true, problem: problem as Problem });
    });
    return () => stop.abort();
  }, [folder, again, stamp]);
  useEffect(() => {
    const look = () => {
      if (document.visibilityState === "visible" && length.current <= RENEWED_MAX) renew();
    };
    const timer = window.setInterval(look, RENEW_MS);
    window.addEventListener("focus", look);
    return () => {
      window.clearInterval(timer);
      window.removeEventListener("focus", look);
    };
  }, []);
  return [listing?.folder === folder ? listing : null, renew];
}

/** `stamp` changes when the server is back after it was gone. */
export function Contents({ folder, playing, stamp, onEntries }: { folder: string; playing: string | null; stamp: number; onEntries: (entries: Entry[]) => void }) {
  const [listing, renew] = useListing(folder, stamp);
  const [search, setSearch] = useState("");
  const [kind, setKind] = useState<Kind | null>(null);
  const [order, setOrder] = useState<Order>({ column: "name", down: false });
  const [grid, setGrid] = useState(recall("grid") === "yes");
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const [shown, setShown] = useState<Entry | null>(null);
  /** Names to be deleted for good, once that is confirmed. */
  const [removing, setRemoving] = useState<string[]>([]);
  /** Items of the trash that were deleted last. */
  const [undo, setUndo] = useState<string[]>([]);
  const [naming, setNaming] = useState<Naming | null>(null);
  const [failed, setFailed] = useState("");
  const [over, setOver] = useState(false);
  const [, draw] = useState(0);
  const renewed = useLatest(renew);
  const uploads = useMemo(() => new Uploads(() => draw((count) => count + 1), () => renewed.current()), []);
  useEffect(() => {
    setMarked(new Set());
    setSearch("");
    setFailed("");
    setUndo([]);
  }, [folder]);
  const entries = listing?.entries ?? [];
  const names = useMemo(() => arranged(entries, search, kind, order), [listing, search, kind, order]);
  useEffect(() => onEntries(names), [names]);

  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (event.dataTransfer !== null) uploads.add(await dropped(event.dataTransfer, folder));
  };
  const each = async (names: string[], act: (path: string) => Promise<void>, failure = t.notRemoved) => {
    const left = new Set(marked);
    setFailed("");
    for (const name of names) {
      try {
        await act(folder + name);
        left.delete(name);
      } catch (problem) {
        setFailed(failure(name, words(problem as Problem)));
      }
    }
    setMarked(left);
    renew();
  };
  const discard = async (names: string[]) => {
    const [put, large]: [string[], string[]] = [[], []];
    await each(names, async (path) => {
      try {
        put.push(await toTrash(path));
      } catch (problem) {
        if ((problem as Problem).status !== TRASH_FULL) throw problem;
        large.push(path.slice(folder.length));
      }
    });
    setUndo(put);
    setRemoving(large);
  };
  const remove = async () => {
    setRemoving([]);
    await each(removing, (path) => change("DELETE", mediaUrl(path)));
  };
  const putBack = async () => {
    setUndo([]);
    await act((async () => {
      for (const id of undo) await restore(id);
    })());
  };
  const act = async (request: Promise<void>) => {
    setNaming(null);
    setFailed("");
    await request.catch((problem: unknown) => setFailed(words(problem as Problem)));
    renew();
  };
  const newFolder = () => setNaming({ title: t.newFolder, name: "", act: (name) => act(change("MKCOL", mediaUrl(`${folder}${name}/`))) });
  const rename = ({ name: from }: Entry) => {
    setShown(null);
    setNaming({ title: t.rename, name: from, act: (name) => act(relocate("MOVE", folder + from, folder + name)) });
  };
  const elsewhere = (method: "MOVE" | "COPY", names: string[]) => {
    setShown(null);
    const to = async (target: string) => {
      setNaming(null);
      const under = target.replace(/^\/|\/$/g, "");
      await each(names, (path) => relocate(method, path, `${under === "" ? "" : `${under}/`}${path.slice(folder.length)}`), t.notMoved);
    };
    setNaming({ title: method === "MOVE" ? t.moveTo : t.copyTo, name: `/${folder}`, folders: foldersNear(folder, entries), act: (target) => void to(target) });
  };
  const address = zipUrl([...marked].map((name) => folder + name));
  const removesFolder = removing.some((name) => entries.some((entry) => entry.name === name && entry.kind === "directory"));
  const view = (grid: boolean) => {
    setGrid(grid);
    store("grid", grid ? "yes" : "no");
  };

  return (
    <section
      id="library"
      class={over ? "card over" : "card"}
      aria-label={t.contents}
      aria-busy={listing === null}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => void drop(event)}
    >
      <div class="bar wrap">
        <Crumbs folder={folder} />
        <UploadButtons folder={folder} uploads={uploads} newFolder={newFolder} />
      </div>
      <div class="bar wrap tools">
        <input type="search" value={search} placeholder={t.search} aria-label={t.search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <KindChoice kind={kind} set={setKind} />
        <span role="group" class="joined">
          <button aria-pressed={!grid} onClick={() => view(false)}>
            {t.list}
          </button>
          <button aria-pressed={grid} onClick={() => view(true)}>
            {t.grid}
          </button>
        </span>
        <span class="quiet" role="status">
          {listing === null || !listing.whole ? t.reading : t.counted(names.length, entries.length)}
        </span>
      </div>
      {marked.size > 0 && (
        <div class="bar wrap tools">
          <span>{t.selected(marked.size)}</span>
          {address.length <= ADDRESS_MAX ? (
            <a class="button" href={address} download>
              {t.download}
            </a>
          ) : (
            <span class="quiet">{t.tooManyForZip}</span>
          )}
          <button onClick={() => elsewhere("MOVE", [...marked])}>{t.moveTo}</button>
          <button onClick={() => elsewhere("COPY", [...marked])}>{t.copyTo}</button>
          <button onClick={() => void discard([...marked])}>{t.remove}</button>
          <button onClick={() => setMarked(new Set())}>{t.cancel}</button>
        </div>
      )}
      {failed !== "" && (
        <p class="notice" role="alert">
          {failed}
        </p>
      )}
      {undo.length > 0 && (
        <p class="notice bar" role="status">
          {t.inTrash(undo.length)}
          <button onClick={() => void putBack()}>{t.putBack}</button>
        </p>
      )}
      <UploadPanel uploads={uploads} />
      <Recordings folder={folder} />
      {listing?.problem ? (
        <p class="notice" role="alert">
          {t.notListed(listing.problem.status === 404 ? t.noFolder : words(listing.problem))} {isDenied(listing.problem) && <a class="button" href="#access">{t.logIn}</a>}
        </p>
      ) : listing !== null && entries.length === 0 ? (
        <p class="quiet">
          {t.nothingHere} <code>{`curl -T film.mp4 ${new URL(mediaUrl(`${folder}film.mp4`), location.href).href}`}</code>
        </p>
      ) : listing !== null && names.length === 0 ? (
        <p class="quiet">{t.nothingFound}</p>
      ) : (
        <Names folder={folder} names={names} grid={grid} playing={playing} order={order} setOrder={setOrder} marked={marked} setMarked={setMarked} show={setShown} />
      )}
      {search.trim() !== "" && <SearchResults text={search.trim()} folder={folder} stamp={stamp} />}
      {shown !== null && <Details path={folder + shown.name} entry={shown} close={() => setShown(null)} rename={() => rename(shown)} elsewhere={(method) => elsewhere(method, [shown.name])} remove={() => (setShown(null), void discard([shown.name]))} />}
      {naming !== null && <NameQuestion naming={naming} close={() => setNaming(null)} />}
      {removing.length > 0 && <Ask text={`${t.removeAsk(removing.length, removing[0] ?? "")}${removesFolder ? ` ${t.removeWithAll}` : ""}`} yes={t.remove} no={() => setRemoving([])} act={() => void remove()} />}
    </section>
  );
}

/** The recordings into `folder`, which have no name there until they end. */
function Recordings({ folder }: { folder: string }) {
  const streams = usePolled((signal) => figures<Stream[]>("streams", signal), RENEW_MS, [folder]);
  const here = (streams ?? []).filter((stream) => stream.direction === "in" && stream.class === "constant" && stream.path.startsWith(folder) && !stream.path.slice(folder.length).includes("/"));
  return (
    <ul class="rows" aria-label={t.recordings} hidden={here.length === 0}>
      {here.map((stream) => (
        <li key={stream.id}>
          {stream.path.slice(folder.length)} <span class="quiet">{t.recordingLine(format.size(stream.received_bytes))}</span>
        </li>
      ))}
    </ul>
  );
}

function Crumbs({ folder }: { folder: string }) {
  const parts = folder.split("/").filter((part) => part !== "");
  return (
    <nav aria-label={t.folder}>
      <ol class="crumbs">
        <li>
          <a href="#/">{t.contents}</a>
        </li>
        {parts.map((part, index) => (
          <li key={index}>
            <a href={addressOf(`${parts.slice(0, index + 1).join("/")}/`)}>{part}</a>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function UploadButtons({ folder, uploads, newFolder }: { folder: string; uploads: Uploads; newFolder: () => void }) {
  const files = useRef<HTMLInputElement>(null);
  const folders = useRef<HTMLInputElement>(null);
  const take = (input: HTMLInputElement) => {
    if (input.files !== null) uploads.add(chosen(input.files, folder));
    input.value = "";
  };
  useEffect(() => folders.current?.setAttribute("webkitdirectory", ""), []);
  return (
    <span class="bar wrap">
      <input ref={files} type="file" multiple hidden onChange={(event) => take(event.currentTarget)} />
      <input ref={folders} type="file" multiple hidden onChange={(event) => take(event.currentTarget)} />
      <button class="primary" title={t.dropHere} onClick={() => files.current?.click()}>
        {t.upload}
      </button>
      <button onClick={() => folders.current?.click()}>{t.uploadFolder}</button>
      <button onClick={newFolder}>{t.newFolder}</button>
      <a class="button" href="#trash">
        {t.trash}
      </a>
    </span>
  );
}

function KindChoice({ kind, set }: { kind: Kind | null; set: (kind: Kind | null) => void }) {
  const kinds: [string, string][] = [
    ["", t.all],
    ["folder", t.folders],
    ["video", t.videos],
    ["sound", t.sounds],
    ["picture", t.pictures],
    ["other", t.others],
  ];
  return (
    <select aria-label={t.kind} value={kind ?? ""} onChange={(event) => set((event.currentTarget.value || null) as Kind | null)}>
      {kinds.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** The folders above `folder`, itself, and those in it, as paths to choose from. */
function foldersNear(folder: string, entries: Entry[]): string[] {
  const parts = folder.split("/").filter((part) => part !== "");
  const above = parts.map((_, index) => `/${parts.slice(0, index + 1).join("/")}/`);
  return ["/", ...above, ...entries.filter(({ kind }) => kind === "directory").map(({ name }) => `/${folder}${name}/`)];
}

/** A name that is asked for: of a new folder, or a new one of a content. */
interface Naming {
  title: string;
  name: string;
  /** It is the path of a folder, such as these. */
  folders?: string[];
  act: (name: string) => void;
}

function NameQuestion({ naming, close }: { naming: Naming; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [name, setName] = useState(naming.name);
  const possible = name !== "" && name !== naming.name && (naming.folders !== undefined || !name.includes("/"));
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={close}>
      <form method="dialog" onSubmit={() => possible && naming.act(name)}>
        <label>
          {naming.folders === undefined ? naming.title : t.toFolder}
          <input value={name} maxLength={naming.folders === undefined ? 255 : undefined} list="folders" onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <datalist id="folders">
          {naming.folders?.map((path) => (
            <option key={path} value={path} />
          ))}
        </datalist>
        <div class="bar">
          <button type="button" onClick={() => dialog.current?.close()}>
            {t.cancel}
          </button>
          <button class="primary" disabled={!possible}>
            {naming.title}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** A question before something that cannot be undone. */
export function Ask({ text, yes, act, no }: { text: string; yes: string; act: () => void; no: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={no}>
      <p>{text}</p>
      <div class="bar">
        <button onClick={() => dialog.current?.close()}>{t.cancel}</button>
        <button class="danger" onClick={act}>
          {yes}
        </button>
      </div>
    </dialog>
  );
}
