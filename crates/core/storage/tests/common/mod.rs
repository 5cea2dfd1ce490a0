//! A file system in memory that can lose its power: writes and changes since the last sync are lost in part, as a drive's cache and a
//! journal lose them.
//!
//! Promise: changes of names and lengths survive in the order they were made (a journal), up to one of them that chance draws; a sync
//! makes them durable up to the last one of its file, and no further;
//! of the sectors that were not synced, any survive; the others are nothing, for the space that is taken ahead of writes reads so. On an
//! *ordered* file system (ext4, XFS with direct writes) the journal carries no change over a power cut without the bytes that were written
//! before it. Of a write in two pieces either may be there first.
#![allow(unreachable_pub, reason = "a module of tests")]

use std::collections::BTreeMap;

/// Bytes of a sector, which a drive writes whole or not at all.
pub const SECTOR: u64 = 4096;

/// The value of a sector: the number of its content, and its own number in that, from 1. No write has (0, 0).
pub type Sector = (u32, u32);
const NOTHING: Sector = (0, 0);

/// Numbers by chance (splitmix64).
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

#[derive(Debug, Clone)]
enum Change {
    Link { name: String, file: u64 },
    Rename { from: String, to: String, file: u64 },
    Unlink { name: String },
    Length { file: u64, bytes: u64 },
}

/// Names and lengths, as they are or as they are durable.
#[derive(Debug, Clone, Default)]
struct Names {
    files: BTreeMap<String, u64>,
    lengths: BTreeMap<u64, u64>,
}

impl Names {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Link { name, file } => drop(self.files.insert(name.clone(), *file)),
            Change::Rename { from, to, file } => {
                self.files.remove(from);
                self.files.insert(to.clone(), *file);
            }
            Change::Unlink { name } => drop(self.files.remove(name)),
            Change::Length { file, bytes } => drop(self.lengths.insert(*file, *bytes)),
        }
    }
}

/// The file system.
#[derive(Debug, Clone)]
pub struct FileSystem {
    ordered: bool,
    now: Names,
    durable: Names,
    /// Changes that are not durable, each with the number of the writes before it.
    changes: Vec<(Change, usize)>,
    sectors: BTreeMap<(u64, u64), Sector>,
    /// Writes that are not durable, with their numbers.
    writes: Vec<(usize, (u64, u64), Sector)>,
    written: usize,
    next_file: u64,
    broken: bool,
}

impl FileSystem {
    pub fn new(ordered: bool) -> Self {
        Self {
            ordered,
            now: Names::default(),
            durable: Names::default(),
            changes: Vec::new(),
            sectors: BTreeMap::new(),
            writes: Vec::new(),
            written: 0,
            next_file: 1,
            broken: false,
        }
    }

    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// A sync failed: nothing becomes durable any more, and later syncs find nothing left to do.
    pub fn fail(&mut self) {
        self.broken = true;
    }

    pub fn is_broken(&self) -> bool {
        self.broken
    }

    fn change(&mut self, change: Change) {
        self.now.apply(&change);
        self.changes.push((change, self.written));
    }

    /// A new file; without a name if none is given.
    pub fn create(&mut self, name: Option<&str>) -> u64 {
        let file = self.next_file;
        self.next_file += 1;
        if let Some(name) = name {
            self.link(name, file);
        }
        file
    }

    pub fn link(&mut self, name: &str, file: u64) {
        self.change(Change::Link { name: name.to_owned(), file });
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        let file = self.file(from).expect("it has that name");
        self.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), file });
    }

    pub fn unlink(&mut self, name: &str) {
        self.change(Change::Unlink { name: name.to_owned() });
    }

    pub fn truncate(&mut self, file: u64, bytes: u64) {
        self.change(Change::Length { file, bytes });
    }

    /// Writes the sectors of a content from `offset`, a whole sector.
    pub fn write(&mut self, file: u64, offset: u64, bytes: u64, content: u32) {
        for sector in offset / SECTOR..(offset + bytes).div_ceil(SECTOR) {
            self.written += 1;
            let holds = (content, u32::try_from(sector).expect("small") + 1);
            self.writes.push((self.written, (file, sector), holds));
        }
        if bytes > 0 && offset + bytes > self.now.lengths.get(&file).copied().unwrap_or(0) {
            self.truncate(file, offset + bytes);
        }
    }

    /// Makes a file durable, or without one the removals, and all changes before its last; on an ordered file system also all that was
    /// written.
    pub fn sync(&mut self, file: Option<u64>) {
        if self.broken {
            return;
        }
        let is_synced = |change: &Change| match change {
            Change::Link { file: of, .. } | Change::Rename { file: of, .. } | Change::Length { file: of, .. } => {
                file == Some(*of)
            }
            Change::Unlink { .. } => file.is_none(),
        };
        let last = self.changes.iter().rposition(|(change, _)| is_synced(change)).map_or(0, |last| last + 1);
        for (change, _) in self.changes.drain(..last) {
            self.durable.apply(&change);
        }
        let ordered = self.ordered;
        self.settle(|of| ordered || file == Some(of));
    }

    /// Empties the drive's cache, and no journal.
    pub fn flush(&mut self) {
        if self.broken {
            return;
        }
        self.settle(|_| true);
    }

    fn settle(&mut self, is_synced: impl Fn(u64) -> bool) {
        let sectors = &mut self.sectors;
        self.writes.retain(|(_, place, holds)| {
            let synced = is_synced(place.0);
            if synced {
                sectors.insert(*place, *holds);
            }
            !synced
        });
    }

    /// The file system after a power cut.
    pub fn after_power_cut(&self, chance: &mut Chance) -> Self {
        let mut after = self.clone();
        let survive = usize::try_from(chance.below(u64::try_from(self.changes.len()).expect("few") + 1)).expect("few");
        let mut carried = 0;
        for (change, written) in after.changes.drain(..).take(survive) {
            after.durable.apply(&change);
            carried = written;
        }
        for (number, place, holds) in after.writes.drain(..) {
            if self.ordered && number <= carried || chance.one_in(2) {
                after.sectors.insert(place, holds);
            }
        }
        after.now = after.durable.clone();
        after
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.now.files.keys()
    }

    pub fn file(&self, name: &str) -> Option<u64> {
        self.now.files.get(name).copied()
    }

    pub fn length(&self, file: u64) -> u64 {
        self.now.lengths.get(&file).copied().unwrap_or(0)
    }

    /// Bytes of a file before the first that were not written.
    pub fn written_bytes(&self, file: u64) -> u64 {
        let sectors = self.read(file);
        let written = sectors.iter().position(|holds| *holds == NOTHING);
        written.map_or(self.length(file), |sectors| u64::try_from(sectors).expect("few") * SECTOR)
    }

    /// The values of a file's sectors for a reader: also those that are not durable.
    pub fn read(&self, file: u64) -> Vec<Sector> {
        let mut sectors: Vec<Sector> = (0..self.length(file).div_ceil(SECTOR))
            .map(|sector| self.sectors.get(&(file, sector)).copied().unwrap_or(NOTHING))
            .collect();
        for (_, (of, sector), holds) in self.writes.iter().filter(|(_, place, _)| place.0 == file) {
            debug_assert_eq!(*of, file);
            if let Some(place) = usize::try_from(*sector).ok().and_then(|sector| sectors.get_mut(sector)) {
                *place = *holds;
            }
        }
        sectors
    }
}
