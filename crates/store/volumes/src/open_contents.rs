//! Contents of a volume with readers, with their checksums and the parts of which a copy was found wrong.
//!
//! Promise: the units of a content are not used for anything else while it is read. Not here: where its parts lie (`content`).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use content::layout::ContentLayout;
use content::{BlockChecksums, Content};
use units::ContentVersion;
use volume::{ChecksumTable, StoredContent};

/// The contents with readers: their units are not used for anything else meanwhile.
pub(super) struct OpenContents {
    /// By their generations.
    open: HashMap<u64, OpenContent>,
    /// Checksums of the contents opened last, by generation: the newest last.
    tables: VecDeque<(u64, Arc<ChecksumTable>)>,
    /// Shared by all disks, for versions are unique in the process.
    next_version: Arc<AtomicU64>,
}

/// A content with a reader, now or before.
struct OpenContent {
    name: String,
    /// As it was opened, the latest last: a reader continues with the copies that could be read when it was opened.
    readers: Vec<OpenLayout>,
    failed: Arc<FailedParts>,
}

/// A content as the data plane reads it.
struct OpenLayout {
    content: Weak<Content>,
    /// Kept, so that its units are not used for anything else.
    _stored: Arc<StoredContent>,
    disks: DisksRead,
}

/// The set of disks read: the superblock's generation, and the newest that is durable, for a disk that was filled is read from then on.
pub(super) type DisksRead = (u64, u64);

impl OpenContent {
    fn is_read(&self) -> bool {
        self.readers.iter().any(OpenLayout::is_read)
    }
}

impl OpenLayout {
    fn is_read(&self) -> bool {
        self.content.strong_count() > 0
    }
}

/// The parts of a content of which a read found a copy wrong: a bit for each, so that the data plane can set it.
#[derive(Debug)]
pub(super) struct FailedParts {
    unit_bytes: u64,
    parts: Box<[AtomicU64]>,
}

impl FailedParts {
    fn new(unit_bytes: u64, parts: usize) -> Self {
        debug_assert!(unit_bytes.is_power_of_two(), "a volume's units");
        Self { unit_bytes, parts: (0..parts.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A copy of the byte at `offset` is wrong.
    fn add(&self, offset: u64) {
        let part = offset / self.unit_bytes;
        let bits = usize::try_from(part / 64).ok().and_then(|word| self.parts.get(word));
        debug_assert!(bits.is_some(), "a content has this part");
        if let Some(bits) = bits {
            bits.fetch_or(1 << (part % 64), Ordering::Relaxed);
        }
    }

    fn is_empty(&self) -> bool {
        self.parts.iter().all(|bits| bits.load(Ordering::Relaxed) == 0)
    }

    /// Takes one of them.
    fn take(&self) -> Option<u32> {
        (0u32..).zip(&self.parts).find_map(|(word, bits)| {
            let first = bits.load(Ordering::Relaxed).trailing_zeros();
            (first < 64).then(|| {
                bits.fetch_and(!(1 << first), Ordering::Relaxed);
                word * 64 + first
            })
        })
    }
}

/// Contents without a reader that keep their checksums, at most: opening one of them again costs its disk nothing.
const TABLES_MAX: usize = 1024;
/// Checksums kept, at most, each of 64 KiB: 16 MiB of memory, 256 GiB of contents.
const CHECKSUMS_MAX: usize = 4 << 20;

/// A content's checksums, as the data plane asks for them.
#[derive(Debug)]
struct TableOfContent {
    table: Arc<ChecksumTable>,
    failed: Arc<FailedParts>,
}

impl BlockChecksums for TableOfContent {
    fn verify(&self, offset: u64, bytes: &[u8]) -> bool {
        usize::try_from(offset).is_ok_and(|offset| self.table.verify(offset, bytes).is_ok())
    }

    fn copy_failed(&self, offset: u64) {
        self.failed.add(offset);
    }
}

impl OpenContents {
    pub(super) fn new(next_version: Arc<AtomicU64>) -> Self {
        Self { open: HashMap::new(), tables: VecDeque::new(), next_version }
    }

    /// A content as it was opened last, while it has a reader and its disks are `disks`.
    pub(super) fn content(&self, generation: u64, disks: DisksRead) -> Option<Arc<Content>> {
        let latest = self.open.get(&generation)?.readers.last()?;
        latest.content.upgrade().filter(|_| latest.disks == disks)
    }

    /// The checksums of a content that was read before.
    pub(super) fn checksums(&self, generation: u64) -> Option<Arc<ChecksumTable>> {
        let table = self.tables.iter().find(|(known, _)| *known == generation);
        table.map(|(_, table)| Arc::clone(table))
    }

    /// A content of this name, to be read as `layout` says, which was made when `disks` were read; its parts have `unit_bytes`.
    pub(super) fn add(
        &mut self,
        (name, stored): (&str, &Arc<StoredContent>),
        unit_bytes: u64,
        (layout, disks): (ContentLayout, DisksRead),
        table: Arc<ChecksumTable>,
    ) -> Arc<Content> {
        debug_assert!(
            u64::try_from(table.len()) == Ok(stored.length.div_ceil(volume::CHECKED_BYTES as u64)),
            "a stream verifies every byte of the content"
        );
        let version = ContentVersion(self.next_version.fetch_add(1, Ordering::Relaxed));
        self.remember(stored.generation, &table);
        self.let_go();
        let open = self.open.entry(stored.generation).or_insert_with(|| OpenContent {
            name: name.to_owned(),
            readers: Vec::new(),
            failed: Arc::new(FailedParts::new(unit_bytes, stored.parts.len())),
        });
        let failed = Arc::clone(&open.failed);
        let checksums: Option<Box<dyn BlockChecksums>> = Some(Box::new(TableOfContent { table, failed }));
        let content = Arc::new(Content { version, size: stored.length, layout, watched: None, checksums });
        debug_assert!(open.failed.unit_bytes == unit_bytes, "parts of a content are as long as units of its volume");
        open.readers.push(OpenLayout { content: Arc::downgrade(&content), _stored: Arc::clone(stored), disks });
        content
    }

    fn remember(&mut self, generation: u64, table: &Arc<ChecksumTable>) {
        self.tables.retain(|(other, _)| *other != generation);
        self.tables.push_back((generation, Arc::clone(table)));
        let blocks =
            |tables: &VecDeque<(u64, Arc<ChecksumTable>)>| tables.iter().map(|(_, table)| table.len()).sum::<usize>();
        while self.tables.len() > TABLES_MAX || (self.tables.len() > 1 && blocks(&self.tables) > CHECKSUMS_MAX) {
            self.tables.pop_front();
        }
        debug_assert!(self.tables.back().is_some_and(|(newest, _)| *newest == generation), "the newest table stays");
    }

    /// True if no content has a reader.
    pub(super) fn is_empty(&self) -> bool {
        !self.open.values().any(OpenContent::is_read)
    }

    /// Lets go of contents without a reader and without a copy to be mended.
    pub(super) fn let_go(&mut self) {
        self.open.retain(|_, open| {
            open.readers.retain(OpenLayout::is_read);
            !open.readers.is_empty() || !open.failed.is_empty()
        });
    }

    /// The name, generation and part of a content of which a read found a copy wrong; returned once.
    pub(super) fn take_failed(&mut self) -> Option<(String, u64, u32)> {
        self.open
            .iter()
            .find_map(|(generation, open)| open.failed.take().map(|part| (open.name.clone(), *generation, part)))
    }
}
