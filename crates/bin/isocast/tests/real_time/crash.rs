//! Acknowledged means durable: the server killed, and the power cut, during 50 uploads and 50 streams.
//!
//! Promise: after each round and a restart, every name holds the content acknowledged last, or the one under way when the
//! end came, whole; nothing else is there; no temporary is left; no space is lost; the file system is without fault. The
//! recordings that were under way are there but for the bytes not durable yet, and uploads answered early (`durable=`) but for those within
//! their time.
//! Every draw (sizes, names, framing, conditions, recordings, removals, uploads broken off, the moment of the end) comes
//! from a printed seed.
//!
//! `ISOCAST_CRASH_ROUNDS` (2), `ISOCAST_CRASH_RECORDINGS` (4 at once), `ISOCAST_CRASH_MISSING` (seconds of a recording that may be missing),
//! `ISOCAST_CRASH_SEED`, `ISOCAST_CRASH_FS` (`ext4`, `xfs`) and `ISOCAST_BIN` (another build of the program) change the run:
//! `make crash ROUNDS=20`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::recorders::{Recorded, Recorder, recorded, wait_until_sent};
use crate::common::content::{Chance, Content};
use crate::common::disk::{Disk, FileSystem, possible};
use crate::common::http::{Answer, Client, Framing, Upload, encoded, exchange, fetch};
use crate::common::server::Server;
use crate::common::{until, until_done};

const UPLOADERS: u64 = 50;
const STREAMS: u64 = 50;
const NAMES_PER_UPLOADER: u64 = 3;
const FILMS: u64 = 10;
const FILM_BYTES: u64 = 12 << 20;
/// Least and most bytes of an uploaded content.
const SIZES: (u64, u64) = (4 << 10, 12 << 20);
/// Those of each second content: they pass through the page cache.
const SMALL_SIZES: (u64, u64) = (1, 64 << 10);
/// More bytes than are ever written to a disk in two rounds: films, uploads, and the file system's own writes.
const DISK_BYTES_WRITTEN: u64 = 1 << 30;
/// Ranges of the acknowledgements, and then of the uploaded bytes, after which the end comes.
const END_ACKNOWLEDGED: (u64, u64) = (1, 100);
const END_BYTES: (u64, u64) = (4 << 10, 16 << 20);
/// Uploads for each upload that is answered when it has its name, and the time within which that is durable.
const EARLY_ONE_IN: u64 = 4;
const DURABLE_WITHIN: Duration = Duration::from_secs(2);
/// Streams' rates together leave an old disk time for uploads.
const STREAM_RATE: &str = "1M";
/// Uploaders for each recorder, every other time, at a rate for which there is always room.
const UPLOADERS_PER_RECORDER: u64 = 10;
const RECORDING_RATE: &str = "16M";
/// The first is there from the beginning; uploads make the others.
const FOLDERS: [&str; 3] = ["films", "in/new", "入力 ü"];
const TEMPORARY_PREFIX: &str = ".isocast-upload-";
/// Names that no random draw would find.
const WORDS: [&str; 6] = ["映画", "фильм", "e\u{301}té", "a b%41&c=?#", "🎬", "plain"];

/// End of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    PowerCut,
}

/// A name, and the contents that may be under it.
#[derive(Debug, Clone)]
struct Name {
    path: String,
    /// The content that the last acknowledgement left there.
    acknowledged: Option<Content>,
    /// The entity tag it was acknowledged with.
    tag: Option<String>,
    /// The content that a request without an answer may have left there.
    open: Option<Option<Content>>,
    /// The contents before uploads that were answered early, and when: a power cut within [`DURABLE_WITHIN`] may leave them there.
    earlier: Vec<(Option<Content>, Instant)>,
}

/// The state that all clients of a round share.
struct Round {
    seed: u64,
    address: SocketAddr,
    /// Acknowledgements, then bytes, after which the end comes.
    end: (u64, u64),
    /// Bytes uploaded since that number of acknowledgements.
    late_bytes: AtomicU64,
    streamed_bytes: AtomicU64,
    streams_running: AtomicU64,
    /// Streams this machine's disk has no room for: promised nothing.
    streams_refused: AtomicU64,
    acknowledged: AtomicU64,
    failed: AtomicU64,
    over: AtomicBool,
    violations: Mutex<Vec<String>>,
}

impl Round {
    fn violation(&self, what: String) {
        self.violations.lock().expect("no panic while it is held").push(what);
    }
}

pub(super) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// Longest time for which a busy server may hold the name of a recording that broke off.
const NAME_HELD_MAX: Duration = Duration::from_secs(10);

/// Uploads, replaces, removes and breaks off until the end comes.
fn upload(round: &Round, number: u64, names: &mut [Name], mut chance: Chance) -> io::Result<()> {
    let mut sent = |bytes| {
        if round.acknowledged.load(Relaxed) >= round.end.0 {
            round.late_bytes.fetch_add(bytes, Relaxed);
        }
    };
    let mut connection = Client::try_to(round.address)?;
    let mut broke_off: BTreeMap<usize, Instant> = BTreeMap::new();
    while !round.over.load(Relaxed) {
        let place = usize::try_from(chance.within(0, NAMES_PER_UPLOADER)).expect("small");
        let name = &mut names[place];
        let target = format!("/media/{}", encoded(&name.path));
        if name.acknowledged.is_some() && chance.one_in(12) {
            name.open = Some(None);
            let mut answer = connection.try_ask("DELETE", &target)?;
            connection.try_body(&mut answer)?;
            settle(round, name, &answer, 204)?;
            name.earlier.clear();
            continue;
        }
        let (least, most) = if chance.one_in(2) { SMALL_SIZES } else { SIZES };
        let content = Content { seed: chance.next(), bytes: chance.size(least, most) };
        let framing = if chance.one_in(2) {
            Framing::Chunked(usize::try_from(chance.within(1000, 200_000)).expect("small"))
        } else {
            Framing::Length
        };
        let records = number.is_multiple_of(UPLOADERS_PER_RECORDER) && chance.one_in(2);
        let early = !records && chance.one_in(EARLY_ONE_IN);
        let target = match (records, early) {
            (true, _) => format!("{target}?rate={RECORDING_RATE}&on_break=discard"),
            (false, true) => format!("{target}?durable={}s", DURABLE_WITHIN.as_secs()),
            (false, false) => target,
        };
        let fields = match &name.tag {
            _ if chance.one_in(2) => String::new(),
            Some(tag) => format!("If-Match: {tag}\r\n"),
            None => "If-None-Match: *\r\n".to_owned(),
        };
        let upload = Upload { target: &target, fields: &fields, content, framing, send_bytes: content.bytes };
        if chance.one_in(10) {
            // Broken off: it was never there, so nothing is open.
            Upload { send_bytes: chance.within(0, content.bytes), ..upload }.run(&mut connection, &mut sent)?;
            connection = Client::try_to(round.address)?;
            if records {
                broke_off.insert(place, Instant::now());
            }
            continue;
        }
        name.open = Some(Some(content));
        let expected = if name.acknowledged.is_none() { 201 } else { 204 };
        let answer = upload.run(&mut connection, &mut sent)?.expect("all was sent");
        let is_recent = broke_off.get(&place).is_some_and(|at| at.elapsed() < NAME_HELD_MAX);
        if is_recent && answer.status == 409 && answer.field("retry-after").is_some() {
            // A busy server still holds the name for the recording that broke off. It stores nothing.
            name.open = None;
            connection = Client::try_to(round.address)?;
            continue;
        }
        let before = name.acknowledged;
        settle(round, name, &answer, expected)?;
        if early {
            name.earlier.push((before, Instant::now()));
        } else {
            // An upload that is durable at its answer makes those before it durable.
            name.earlier.clear();
        }
        if answer.field("connection") == Some("close") {
            // As behind every body of unknown length. An uploader that kept the connection found it closed, and its load was missing.
            connection = Client::try_to(round.address)?;
        }
    }
    Ok(())
}

/// Records the result of an answer.
fn settle(round: &Round, name: &mut Name, answer: &Answer, expected: u16) -> io::Result<()> {
    match answer.status {
        status if status == expected => {
            name.acknowledged = name.open.take().expect("something was asked for");
            name.tag = answer.field("etag").map(str::to_owned);
            round.acknowledged.fetch_add(1, Relaxed);
            Ok(())
        }
        // The disk is gone: the request may or may not have reached it. The kernel allows no writes to a file system that
        // found its disk gone (403: read-only).
        status @ (403 | 500..) => fail(round, status),
        status => {
            round.violation(format!("{}: {status} instead of {expected}", name.path));
            Err(io::Error::other("unexpected"))
        }
    }
}

fn fail(round: &Round, status: u16) -> io::Result<()> {
    round.failed.fetch_add(1, Relaxed);
    Err(io::Error::other(format!("{status}")))
}

/// Watches a film, byte by byte, until the end comes.
fn watch(round: &Round, film: u64) -> io::Result<()> {
    let content = film_content(film);
    let mut buffer = vec![0; 1 << 16];
    while !round.over.load(Relaxed) {
        let mut connection = Client::try_to(round.address)?;
        let answer = connection.try_ask("GET", &format!("/media/{}?rate={STREAM_RATE}", film_path(film)))?;
        if answer.status == 503 {
            round.streams_refused.fetch_add(1, Relaxed);
            return Ok(());
        }
        if answer.status != 200 || answer.length() as u64 != content.bytes {
            round.violation(format!("film {film}: {answer:?}"));
            return Ok(());
        }
        let mut at = 0;
        while at < content.bytes && !round.over.load(Relaxed) {
            let count = connection.try_some(&mut buffer)?;
            if let Some(place) = content.difference(at, &buffer[..count]) {
                round.violation(format!("film {film} is wrong at {place}"));
                return Ok(());
            }
            let count = u64::try_from(count).expect("fits");
            round.streams_running.fetch_add(u64::from(at == 0), Relaxed);
            at += count;
            round.streamed_bytes.fetch_add(count, Relaxed);
        }
    }
    Ok(())
}

fn film_path(film: u64) -> String {
    format!("films/{film}.bin")
}

fn film_bytes(film: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(FILM_BYTES).expect("fits")];
    film_content(film).fill(0, &mut bytes);
    bytes
}

fn film_content(film: u64) -> Content {
    Content { seed: film, bytes: FILM_BYTES }
}

/// The store that is served, and the contents known to be in it.
struct Library<'a> {
    store: Store<'a>,
    state: &'a Path,
    names: Vec<Name>,
    /// Of the last two rounds, and how many of them were there at the start before.
    recordings: Vec<Recorded>,
    seen: usize,
}

/// Store of the contents.
enum Store<'a> {
    /// In a folder; on a disk without other writers, the free and the used space always add up to the same.
    Folder(&'a Path, Option<(&'a Disk, Space)>),
    /// On a volume of these disks.
    Volume(&'a [Disk]),
}

impl Store<'_> {
    /// The server, started on the store that the last one left.
    fn serve(&self, state: &Path) -> Server {
        match self {
            Self::Folder(folder, _) => Server::on(&[folder], state, &[]),
            Self::Volume(disks) => {
                volume("check", disks);
                Server::on(&[], state, &["--volume", &devices(disks).join(",")])
            }
        }
    }

    /// The emulated disks that lose their power.
    fn disks(&self) -> Vec<&Disk> {
        match self {
            Self::Folder(_, disk) => disk.iter().map(|(disk, _)| *disk).collect(),
            Self::Volume(disks) => disks.iter().collect(),
        }
    }
}

fn devices(disks: &[Disk]) -> Vec<String> {
    disks.iter().map(|disk| disk.device().to_str().expect("UTF-8").to_owned()).collect()
}

/// Looks at a volume that no server has open, and asserts that it is sound. Where one disk of a mirror lost its power before the other,
/// it was taken out, and is filled with the copies it missed, or will be: only its copies may be missing, and each has another one.
fn volume(look: &str, disks: &[Disk]) {
    disks.iter().for_each(|disk| drop(disk.ctl("timing off")));
    let mut command = Command::new(crate::common::program());
    command.args(["volume", look, &devices(disks).join(",")]);
    // The kernel completes the requests that a killed server had under way, and holds its disks until then.
    let output = until("the killed server's disks", || {
        let output = command.output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("is in use") { Err(said) } else { Ok(output) }
    });
    let found = String::from_utf8_lossy(&output.stdout);
    let is_whole = output.status.code() == Some(3) && !found.lines().any(|line| line.starts_with('`'));
    assert!(output.status.success() || is_whole, "{look}: {output:?}");
    disks.iter().for_each(|disk| drop(disk.ctl("timing on")));
}

/// Bytes and inodes, free ones and ours together.
type Space = (u64, u64);

impl<'a> Library<'a> {
    /// Films in a folder, on a file system of its own if it lies on `disk`.
    fn in_folder(folder: &'a Path, state: &'a Path, disk: Option<&'a Disk>) -> Self {
        fs::create_dir(folder.join(FOLDERS[0])).expect("made");
        for film in 0..FILMS {
            fs::write(folder.join(film_path(film)), film_bytes(film)).expect("written");
        }
        rustix::fs::syncfs(fs::File::open(folder).expect("opens")).expect("synced");
        Server::calibrate(folder, state);
        Self::new(Store::Folder(folder, disk.map(|disk| (disk, space(folder)))), state)
    }

    /// Films on a new volume.
    fn on_volume(disks: &'a [Disk], layout: &str, state: &'a Path) -> Self {
        let mut create = Command::new(crate::common::program());
        create.args(["volume", "create", "--name", "crash", "--layout", layout, "--yes"]).args(devices(disks));
        let created = create.output().expect("the program runs");
        assert!(created.status.success(), "{created:?}");
        let library = Self::new(Store::Volume(disks), state);
        let server = library.store.serve(state);
        for film in 0..FILMS {
            let (target, content) = (format!("/media/{}", film_path(film)), film_content(film));
            let framing = Framing::Length;
            let upload = Upload { target: &target, fields: "", content, framing, send_bytes: content.bytes };
            let answer = upload.run(&mut Client::to(server.address), &mut |_| ()).expect("an answer");
            assert_eq!(answer.expect("all was sent").status, 201);
        }
        let (status, said) = server.stop();
        assert!(status.success(), "{said}");
        library
    }

    fn new(store: Store<'a>, state: &'a Path) -> Self {
        let name = |number: u64| {
            let word = WORDS[usize::try_from(number).expect("small") % WORDS.len()];
            let path = format!("{}/{word}-{number}", FOLDERS[1 + usize::from(number.is_multiple_of(2))]);
            Name { path, acknowledged: None, tag: None, open: None, earlier: Vec::new() }
        };
        let names = (0..UPLOADERS * NAMES_PER_UPLOADER).map(name).collect();
        Self { store, state, names, recordings: Vec::new(), seen: 0 }
    }

    /// Runs a round: the server starts on the store that the last one left, all is compared, the load begins, the end comes.
    fn round(&mut self, end: End, seed: u64) {
        let server = self.store.serve(self.state);
        self.compare(&server, seed);
        let mut chance = Chance(seed);
        let moment = (chance.within(END_ACKNOWLEDGED.0, END_ACKNOWLEDGED.1), chance.within(END_BYTES.0, END_BYTES.1));
        let round = Round {
            seed,
            address: server.address,
            end: moment,
            late_bytes: AtomicU64::new(0),
            streamed_bytes: AtomicU64::new(0),
            streams_running: AtomicU64::new(0),
            streams_refused: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            over: AtomicBool::new(false),
            violations: Mutex::default(),
        };
        let address = server.address;
        let names = format!("{}/recorded-{seed}", FOLDERS[1]);
        let recorders = Recorder::several(setting("ISOCAST_CRASH_RECORDINGS", 4), &names, &mut chance);
        let (said, ended) = thread::scope(|scope| {
            // Before the streams, so that these find room with all recordings, or are refused.
            recorders.iter().for_each(|one| drop(scope.spawn(move || drop(one.run(address)))));
            wait_until_sent(&recorders);
            for number in 0..STREAMS {
                let round = &round;
                scope.spawn(move || drop(watch(round, number % FILMS)));
            }
            until_done("all streams", || {
                let (running, refused) = (round.streams_running.load(Relaxed), round.streams_refused.load(Relaxed));
                let all = running > 0 && running + refused >= STREAMS;
                if all { Ok(()) } else { Err((running + refused, format!("{running} run, {refused} were refused"))) }
            });
            for (names, number) in self.names.chunks_mut(usize::try_from(NAMES_PER_UPLOADER).expect("small")).zip(0..) {
                let (chance, round) = (Chance(seed ^ (number << 32)), &round);
                // The result is ignored: only the answers count.
                scope.spawn(move || drop(upload(round, number, names, chance)));
            }
            let ended = bring(end, server, &self.store.disks(), &round, &recorders);
            round.over.store(true, Relaxed);
            ended
        });
        println!(
            "seed {seed}: {end:?} {} KiB after {} answers; {} acknowledged, {} open, {} failed at the end; {} streams, {} MiB",
            moment.1 >> 10,
            moment.0,
            round.acknowledged.load(Relaxed),
            self.names.iter().filter(|name| name.open.is_some()).count(),
            round.failed.load(Relaxed),
            round.streams_running.load(Relaxed),
            round.streamed_bytes.load(Relaxed) >> 20,
        );
        // A server that is killed loses nothing that has its name.
        self.names.iter_mut().for_each(|name| {
            name.earlier
                .retain(|(_, at)| end == End::PowerCut && ended.saturating_duration_since(*at) < DURABLE_WITHIN);
        });
        let wanted = recorders.len();
        let recorded = recorded(recorders);
        println!("  {} of {wanted} recordings had room", recorded.len());
        self.recordings.extend(recorded);
        let violations = round.violations.into_inner().expect("no panic while it was held");
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}\n{said}");
        assert!(!said.contains("panicked"), "seed {seed}: {said}");
    }

    /// Asserts that every name holds a content that it may hold, and that nothing else is there.
    fn compare(&mut self, server: &Server, seed: u64) {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for folder in &FOLDERS[1..] {
            let (status, body) =
                fetch(server.address, "GET", &format!("/media/{}/?format=json", encoded(folder))).expect("a listing");
            if status == 404 {
                continue;
            }
            assert_eq!(status, 200);
            let list: Vec<serde_json::Value> = serde_json::from_slice(&body).expect("JSON");
            for entry in list {
                let name = entry["name"].as_str().expect("a name");
                found.insert(format!("{folder}/{name}"), entry["size"].as_u64().expect("a size"));
            }
        }
        let recordings = self.recordings.iter().map(|one| &one.path);
        let known: BTreeSet<&String> = self.names.iter().map(|name| &name.path).chain(recordings).collect();
        let strange: Vec<_> = found.keys().filter(|path| !known.contains(path)).collect();
        assert!(strange.is_empty(), "before seed {seed}: nobody uploaded {strange:?}");
        let address = server.address;
        let wrong: Vec<String> = thread::scope(|scope| {
            let parts = self.names.chunks_mut(20).map(|names| {
                let found = &found;
                scope.spawn(move || {
                    names.iter_mut().filter_map(|name| compare_one(address, name, found)).collect::<Vec<_>>()
                })
            });
            let parts: Vec<_> = parts.collect();
            parts.into_iter().flat_map(|part| part.join().expect("compared")).collect()
        });
        assert!(wrong.is_empty(), "before seed {seed}: {wrong:#?}\n{}", server.stderr_text());
        self.assert_clean();
        let missing = self.recordings.iter().map(|one| one.assert_there(server)).fold(0.0, f64::max);
        println!("  {} recordings are there but for {missing:.1} s at most", self.recordings.len());
        // Of two rounds, so that many of them fit.
        for one in self.recordings.drain(..std::mem::replace(&mut self.seen, 0)) {
            let (status, _) = fetch(address, "DELETE", &one.target()).expect("an answer");
            assert_eq!(status, 204, "{one:?}");
        }
        self.seen = self.recordings.len();
    }

    /// No temporaries, no space lost.
    fn assert_clean(&self) {
        // A volume was looked at before it was served.
        let Store::Folder(folder, disk) = &self.store else { return };
        until("the end of temporaries", || {
            let left: Vec<_> = FOLDERS
                .iter()
                .filter_map(|name| fs::read_dir(folder.join(name)).ok())
                .flatten()
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .filter(|name| name.starts_with(TEMPORARY_PREFIX))
                .collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
        let Some((disk, before)) = disk else {
            // The space of other files is not known here; but no file takes more than its bytes need.
            let (blocks, bytes) = taken(folder);
            assert!(blocks <= bytes, "{blocks} bytes of blocks for at most {bytes}");
            return;
        };
        until("lost space", || {
            let now = space(folder);
            // XFS keeps chunks of inodes, and reserves for its trees.
            let slack = if disk.file_system == FileSystem::Xfs { 4 << 20 } else { 0 };
            let inodes_agree = disk.file_system == FileSystem::Xfs || now.1 == before.1;
            if now.0 + slack >= before.0 && now.0 <= before.0 + slack && inodes_agree {
                Ok(())
            } else {
                Err(format!("{now:?} instead of {before:?} (bytes, inodes)"))
            }
        });
    }
}

/// Waits for the moment of the end, and brings it. Gives the server's output, and when the end began.
fn bring(end: End, server: Server, disks: &[&Disk], round: &Round, recorders: &[Recorder]) -> (String, Instant) {
    until_done("the moment of the end", || {
        let done = [&round.acknowledged, &round.late_bytes].map(|count| count.load(Relaxed));
        let at_the_end = || format!("{done:?} of {:?}: {}", round.end, server.stderr_text());
        if done[1] >= round.end.1 { Ok(()) } else { Err((done.iter().sum(), at_the_end())) }
    });
    recorders.iter().for_each(Recorder::note_end);
    let ended = Instant::now();
    if end == End::Kill {
        return (server.kill(), ended);
    }
    assert!(!disks.is_empty(), "power is cut on emulated disks");
    thread::scope(|scope| {
        for (disk, nth) in disks.iter().zip(0..) {
            scope.spawn(move || println!("  {}", disk.ctl(&format!("cut {}", round.seed + nth)).trim()));
        }
    });
    let said = server.kill();
    disks.iter().for_each(|disk| disk.boot());
    (said, ended)
}

/// Returns nothing if this name holds a content that it may hold, and records that one; else a description of the error.
fn compare_one(address: SocketAddr, name: &mut Name, found: &BTreeMap<String, u64>) -> Option<String> {
    let earlier = std::mem::take(&mut name.earlier).into_iter().map(|(content, _)| content);
    let allowed: Vec<Option<Content>> =
        [Some(name.acknowledged), name.open].into_iter().flatten().chain(earlier).collect();
    let Some(&size) = found.get(&name.path) else {
        let absent = allowed.contains(&None);
        (name.acknowledged, name.tag, name.open) = (None, None, None);
        return (!absent).then(|| format!("{}: lost, one of {allowed:?}", name.path));
    };
    let answer = match exchange(address, "GET", &format!("/media/{}?rate=max", encoded(&name.path))) {
        Ok(answer) => answer,
        Err(error) => return Some(format!("{}: {error}", name.path)),
    };
    let (status, body) = (answer.status, &answer.body);
    let tag = answer.field("etag").map(str::to_owned);
    let is = |content: &Content| {
        content.bytes == size && u64::try_from(body.len()) == Ok(size) && content.difference(0, body).is_none()
    };
    let which = allowed.iter().flatten().find(|content| is(content));
    match which {
        // A client that saw it before the end may still replace that version, by its tag.
        Some(content) if name.acknowledged == Some(*content) && name.tag.is_some() && name.tag != tag => {
            Some(format!("{}: tagged {tag:?}, acknowledged as {:?}", name.path, name.tag))
        }
        Some(content) if status == 200 => {
            (name.acknowledged, name.tag, name.open) = (Some(*content), tag, None);
            None
        }
        _ => Some(format!("{}: {status}, {size} bytes, none of {allowed:?}", name.path)),
    }
}

/// Bytes of blocks of all files below, and the most that their sizes need.
fn taken(folder: &Path) -> (u64, u64) {
    let mut sums = (0, 0);
    each(folder, &mut |facts| {
        sums.0 += facts.blocks() * 512;
        // A block for each file's map of extents.
        sums.1 += facts.len().next_multiple_of(4096) + 4096;
    });
    sums
}

fn space(folder: &Path) -> Space {
    let facts = rustix::fs::statvfs(folder).expect("a file system");
    let mut sums = (facts.f_bfree * facts.f_frsize, facts.f_ffree);
    each(folder, &mut |facts| {
        sums.0 += facts.blocks() * 512;
        sums.1 += 1;
    });
    sums
}

fn each(folder: &Path, look: &mut dyn FnMut(&fs::Metadata)) {
    for entry in fs::read_dir(folder).expect("reads").flatten() {
        // A file that is removed meanwhile is skipped.
        let Ok(facts) = entry.path().symlink_metadata() else { continue };
        look(&facts);
        if facts.is_dir() {
            each(&entry.path(), look);
        }
    }
}

/// The last word: all is compared once more, and the server ends in order.
fn conclude(library: &mut Library<'_>) {
    let server = library.store.serve(library.state);
    library.compare(&server, 0);
    let (status, said) = server.stop();
    assert!(status.success() && !said.contains("panicked"), "{said}");
}

fn seed_of(round: u64) -> u64 {
    setting("ISOCAST_CRASH_SEED", 1) + round
}

#[test]
fn a_killed_server_keeps_acknowledged_contents() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (folder, state) = (place.path().join("media"), place.path().join("state"));
    fs::create_dir(&folder).expect("made");
    let mut library = Library::in_folder(&folder, &state, None);
    for round in 0..setting("ISOCAST_CRASH_ROUNDS", 2) {
        library.round(End::Kill, seed_of(round));
    }
    conclude(&mut library);
}

/// Rounds of power cuts, with a kill after every other: there the space it leaves can be counted to the byte.
fn cut_power(file_system: FileSystem) {
    if !possible(DISK_BYTES_WRITTEN) {
        return;
    }
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disk = Disk::up(&format!("crash-{file_system:?}"), "16G", file_system);
    let folder = disk.folder();
    let mut library = Library::in_folder(&folder, state.path(), Some(&disk));
    cut_and_kill(&mut library);
    disk.end();
}

fn cut_and_kill(library: &mut Library<'_>) {
    for round in 0..setting("ISOCAST_CRASH_ROUNDS", 2) {
        library.round(End::PowerCut, seed_of(1000 + 2 * round));
        if round % 2 == 1 {
            library.round(End::Kill, seed_of(1001 + 2 * round));
        }
    }
    conclude(library);
}

fn cut_power_of_volume(layout: &str, count: usize) {
    if !possible(u64::try_from(count).expect("few") * DISK_BYTES_WRITTEN) {
        return;
    }
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let up = |nth| Disk::up(&format!("crash-{layout}-{nth}"), "16G", FileSystem::None);
    let disks: Vec<Disk> = (0..count).map(up).collect();
    let mut library = Library::on_volume(&disks, layout, state.path());
    cut_and_kill(&mut library);
    volume("scrub", &disks);
    disks.into_iter().for_each(Disk::end);
}

#[test]
fn a_power_cut_takes_nothing_that_was_acknowledged() {
    let file_system = match std::env::var("ISOCAST_CRASH_FS").as_deref() {
        Ok("xfs") => FileSystem::Xfs,
        Ok("ext4") | Err(_) => FileSystem::Ext4,
        Ok(other) => panic!("ISOCAST_CRASH_FS is ext4 or xfs, not {other}"),
    };
    cut_power(file_system);
}

#[test]
fn a_power_cut_leaves_nothing_torn_behind_a_page_cache() {
    cut_power(FileSystem::Overlay);
}

#[test]
fn a_power_cut_takes_nothing_from_a_volume() {
    cut_power_of_volume("span", 1);
}

#[test]
fn a_power_cut_takes_nothing_from_a_mirror() {
    cut_power_of_volume("mirror", 2);
}
