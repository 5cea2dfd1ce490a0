//! Index of contents, kept over restarts: the rate of each version of each file.
//!
//! Promise: bounded; a file that is damaged or of another format is ignored and the index starts anew; a version that
//! changed is not known; it is written by a thread of its own, whole or not at all. Not here: finding rates (`media`).

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::{BitRate, Nanos};

use crate::entry::Stamp;
use crate::lock::lock;
use media::{Codec, Container, MediaRate, RateSource};

/// Versions the index knows at most. The oldest tenth makes room.
pub const ENTRIES_MAX: usize = 200_000;

/// Bytes of an index file at most: more is not ours.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Changed when the file's meaning changes; files of another format are ignored.
const FORMAT: u32 = 5;

const FILE_NAME: &str = "contents.json";

/// Time for which changes are gathered before they are written.
const SAVE_DELAY: Duration = Duration::from_secs(5);

/// Time that the end waits for the last save. A state directory that hangs does not hold up the end for longer.
const LAST_SAVE_MAX: Duration = Duration::from_secs(2);

/// The key of an entry: the file and its version, as a restart finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexKey {
    device: u64,
    inode: u64,
    modified_ns: i128,
    changed_ns: i128,
    size: u64,
}

impl IndexKey {
    fn of(stamp: &Stamp) -> Self {
        let Stamp { device, inode, size, modified_ns, changed_ns } = *stamp;
        Self { device, inode, modified_ns, changed_ns, size }
    }
}

/// Rates by version. Shared by all disks' threads.
#[derive(Debug)]
pub struct Index {
    state: Mutex<IndexState>,
    changed: Condvar,
    entries_max: usize,
}

#[derive(Debug, Default)]
struct IndexState {
    /// The rate (none: it was looked for and there is none), and when it was added.
    known: HashMap<IndexKey, (Option<MediaRate>, u64)>,
    next: u64,
    unsaved: bool,
    saving: bool,
    closed: bool,
}

impl IndexState {
    fn insert(&mut self, key: IndexKey, rate: Option<MediaRate>) {
        let before = self.known.insert(key, (rate, self.next));
        debug_assert!(before.is_none_or(|(_, age)| age < self.next), "the newest entry is the youngest");
        self.next += 1;
    }
}

/// Keeps the index in a directory until dropped.
#[derive(Debug)]
pub struct IndexWriter(Arc<Index>);

impl Default for Index {
    /// An index that knows nothing.
    fn default() -> Self {
        Self::with_limit(ENTRIES_MAX)
    }
}

impl Index {
    fn with_limit(entries_max: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), entries_max }
    }

    /// The known rate of this version: `None` if not known, `Some(None)` if it has no rate of its own, or its rate.
    pub fn rate(&self, stamp: &Stamp) -> Option<Option<MediaRate>> {
        self.lock().known.get(&IndexKey::of(stamp)).map(|(rate, _)| *rate)
    }

    /// Remembers the rate found for a version.
    pub fn insert(&self, stamp: &Stamp, rate: Option<MediaRate>) {
        let mut state = self.lock();
        let entries_max = self.entries_max;
        if state.known.len() >= entries_max {
            let mut ages: Vec<u64> = state.known.values().map(|(_, age)| *age).collect();
            let (_, youngest_to_go, _) = ages.select_nth_unstable(entries_max / 10);
            let limit = *youngest_to_go;
            state.known.retain(|_, (_, age)| *age > limit);
        }
        debug_assert!(state.known.len() < entries_max, "bounded, whatever the number of contents");
        state.insert(IndexKey::of(stamp), rate);
        state.unsaved = true;
        self.changed.notify_all();
    }

    /// Reads the index kept in `directory`, and keeps it up to date there until the answer is dropped.
    pub fn keep_in(self: &Arc<Self>, directory: &Path) -> io::Result<IndexWriter> {
        fs::create_dir_all(directory)?;
        let file = directory.join(FILE_NAME);
        if let Some(entries) = load(&file) {
            let mut state = self.lock();
            for entry in entries.into_iter().take(self.entries_max) {
                match entry.media.map(|kept| kept.rate()) {
                    None => state.insert(entry.version, None),
                    Some(Some(rate)) => state.insert(entry.version, Some(rate)),
                    Some(None) => {}
                }
            }
            debug_assert!(state.known.len() <= self.entries_max, "bounded, whatever the file says");
        }
        let index = Arc::clone(self);
        thread::Builder::new().name("store-index".into()).spawn(move || index.save_until_closed(&file))?;
        Ok(IndexWriter(Arc::clone(self)))
    }

    fn save_until_closed(&self, file: &Path) {
        loop {
            let mut state = self.lock();
            while !state.unsaved && !state.closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.unsaved && !state.closed {
                let gathered = self.changed.wait_timeout_while(state, SAVE_DELAY, |state| !state.closed);
                state = gathered.unwrap_or_else(PoisonError::into_inner).0;
            }
            debug_assert!(!state.saving, "one thread saves");
            let entries = state.unsaved.then(|| entries_of(&state));
            state.unsaved = false;
            state.saving = entries.is_some();
            let closed = state.closed;
            drop(state);
            if let Some(entries) = entries {
                // A state directory that cannot be written costs the next start its probes, nothing else.
                let _ = save(file, entries);
                self.lock().saving = false;
                self.changed.notify_all();
            }
            if closed {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, IndexState> {
        lock(&self.state)
    }
}

impl Drop for IndexWriter {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        self.0.changed.notify_all();
        let saved = |state: &mut IndexState| state.unsaved || state.saving;
        let _ = self.0.changed.wait_timeout_while(state, LAST_SAVE_MAX, saved);
    }
}

/// The file: one object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexFile {
    format: u32,
    contents: Vec<KeptEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptEntry {
    version: IndexKey,
    media: Option<KeptMedia>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptMedia {
    bits_per_second: u64,
    preroll_bytes: u64,
    container: String,
    source: String,
    duration_ns: u64,
    codecs: Vec<String>,
}

impl From<MediaRate> for KeptMedia {
    fn from(media: MediaRate) -> Self {
        let MediaRate { rate, preroll_bytes, container, source, duration, codecs } = media;
        let codecs = codecs.iter().map(|codec| codec.name().to_owned()).collect();
        let (container, source) = (container.name().to_owned(), source.name().to_owned());
        Self { bits_per_second: rate.0, preroll_bytes, container, source, duration_ns: duration.0, codecs }
    }
}

impl KeptMedia {
    /// The rate; none if the entry names a container or source that this version does not know.
    fn rate(&self) -> Option<MediaRate> {
        Some(MediaRate {
            rate: BitRate(self.bits_per_second),
            preroll_bytes: self.preroll_bytes,
            container: Container::from_name(&self.container)?,
            source: RateSource::from_name(&self.source)?,
            duration: Nanos(self.duration_ns),
            codecs: self.codecs.iter().filter_map(|name| Codec::from_name(name)).collect(),
        })
    }
}

/// All entries, the oldest first.
fn entries_of(state: &IndexState) -> Vec<KeptEntry> {
    let mut entries: Vec<_> = state.known.iter().collect();
    entries.sort_unstable_by_key(|(_, (_, age))| *age);
    entries.into_iter().map(|(key, (rate, _))| KeptEntry { version: *key, media: rate.map(KeptMedia::from) }).collect()
}

/// Entries of a file; none if there is no file, or it is not ours.
fn load(file: &Path) -> Option<Vec<KeptEntry>> {
    if fs::metadata(file).ok()?.len() > FILE_BYTES_MAX {
        return None;
    }
    let kept: IndexFile = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (kept.format == FORMAT).then_some(kept.contents)
}

fn save(file: &Path, contents: Vec<KeptEntry>) -> io::Result<()> {
    device::state_file::replace(file, |writer| {
        Ok(serde_json::to_writer(writer, &IndexFile { format: FORMAT, contents })?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(inode: u64) -> Stamp {
        Stamp { device: 5, inode, size: 7, modified_ns: 1_700_000_000_123_456_789, changed_ns: 9 }
    }

    fn media(rate: u64) -> Option<MediaRate> {
        let (container, source) = (Container::MpegTs, RateSource::ProgramClock);
        Some(MediaRate {
            rate: BitRate(rate),
            preroll_bytes: 3,
            container,
            source,
            duration: Nanos(4),
            codecs: [Codec::Aac].into_iter().collect(),
        })
    }

    fn reopened(directory: &Path) -> (Arc<Index>, IndexWriter) {
        let index = Arc::new(Index::default());
        let saver = index.keep_in(directory).unwrap();
        (index, saver)
    }

    #[test]
    fn it_survives_a_restart_and_knows_versions_apart() {
        let place = tempfile::tempdir().unwrap();
        let (index, saver) = reopened(&place.path().join("state"));
        index.insert(&stamp(1), media(8_000_000));
        index.insert(&stamp(2), None);
        drop(saver);
        let (index, _saver) = reopened(&place.path().join("state"));
        assert_eq!(index.rate(&stamp(1)), Some(media(8_000_000)));
        assert_eq!(index.rate(&stamp(2)), Some(None), "known to have none: not to be looked for again");
        assert_eq!(index.rate(&stamp(3)), None);
        assert_eq!(index.rate(&Stamp { size: 8, ..stamp(1) }), None);
        assert_eq!(index.rate(&Stamp { modified_ns: 1, ..stamp(1) }), None);
        assert_eq!(index.rate(&Stamp { changed_ns: 1, ..stamp(1) }), None, "its time may have been set back");
    }

    #[test]
    fn a_damaged_file_is_ignored_and_replaced() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(FILE_NAME);
        let (index, saver) = reopened(place.path());
        index.insert(&stamp(1), media(8_000_000));
        drop(saver);
        let good = fs::read(&file).unwrap();
        let now = format!("\"format\":{FORMAT}");
        let other_format = String::from_utf8(good.clone()).unwrap().replace(&now, "\"format\":3");
        for damaged in [b"".as_slice(), &good[..good.len() / 2], b"\xff\xfe", b"[]", other_format.as_bytes()] {
            fs::write(&file, damaged).unwrap();
            let (index, saver) = reopened(place.path());
            assert_eq!(index.rate(&stamp(1)), None);
            index.insert(&stamp(1), media(9_000_000));
            drop(saver);
            assert_eq!(reopened(place.path()).0.rate(&stamp(1)), Some(media(9_000_000)));
        }
    }

    #[test]
    fn it_is_bounded_and_forgets_the_oldest() {
        let index = Index::with_limit(100);
        for inode in 0..1_000 {
            index.insert(&stamp(inode), None);
            assert!(index.lock().known.len() <= 100);
        }
        assert!(index.rate(&stamp(999)).is_some() && index.rate(&stamp(920)).is_some());
        assert!(index.rate(&stamp(0)).is_none());
    }
}
