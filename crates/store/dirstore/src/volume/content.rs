//! Contents of a volume as the data plane reads them, and as listings show them.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use content::layout::{ContentFile, ContentLayout, Extent, Positions, Unit};
use content::{BlockChecksums, Content};
use media::MediaRate;
use units::{ContentVersion, DiskId};
use volume::{ChecksumTable, Placement, StoredContent, UnitPlace, Volume, stored_bytes};

use super::core::Core;
use crate::entry::Stamp;
use crate::{Entry, NameKind, StoreError};

/// The contents somebody reads: their units are not used for anything else meanwhile.
pub(super) struct OpenContents {
    /// By their generations.
    open: HashMap<u64, OpenContent>,
    /// Checksums of the contents opened last, by generation: the newest last.
    tables: VecDeque<(u64, Arc<ChecksumTable>)>,
    /// Shared by all disks, for versions are unique in the process.
    next_version: Arc<AtomicU64>,
}

/// A content that somebody reads, or read.
struct OpenContent {
    name: String,
    /// As it was opened, the latest last: who reads goes on with the copies that could be read when it was opened.
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

/// Which disks are read: the superblock's generation, and the newest that is durable, for a disk that was filled is read from then on.
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
        Self { unit_bytes, parts: (0..parts.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A copy of the byte at `offset` is wrong.
    fn add(&self, offset: u64) {
        let part = offset / self.unit_bytes;
        if let Some(bits) = usize::try_from(part / 64).ok().and_then(|word| self.parts.get(word)) {
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

/// How many contents' checksums are kept when nobody reads them: opening one of them again costs its disk nothing.
const TABLES_MAX: usize = 1024;
/// And of how many 64 KiB in all: 16 MiB of memory, 256 GiB of contents.
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

    fn remember(&mut self, generation: u64, table: &Arc<ChecksumTable>) {
        self.tables.retain(|(other, _)| *other != generation);
        self.tables.push_back((generation, Arc::clone(table)));
        let blocks =
            |tables: &VecDeque<(u64, Arc<ChecksumTable>)>| tables.iter().map(|(_, table)| table.len()).sum::<usize>();
        while self.tables.len() > TABLES_MAX || (self.tables.len() > 1 && blocks(&self.tables) > CHECKSUMS_MAX) {
            self.tables.pop_front();
        }
    }

    /// Whether nobody reads anything.
    pub(super) fn is_empty(&self) -> bool {
        !self.open.values().any(OpenContent::is_read)
    }

    /// Lets go of what nobody reads any more, and nothing of is to be mended.
    pub(super) fn let_go(&mut self) {
        self.open.retain(|_, open| {
            open.readers.retain(OpenLayout::is_read);
            !open.readers.is_empty() || !open.failed.is_empty()
        });
    }

    /// The name, generation and part of a content of which a read found a copy wrong; told once.
    pub(super) fn take_failed(&mut self) -> Option<(String, u64, u32)> {
        self.open
            .iter()
            .find_map(|(generation, open)| open.failed.take().map(|part| (open.name.clone(), *generation, part)))
    }
}

/// A content as it is listed.
pub(super) fn entry_of(name: &str, content: &StoredContent, disk: DiskId, rate: Option<MediaRate>) -> Entry {
    Entry {
        name: last_of(name),
        kind: NameKind::File,
        id: None,
        is_link: false,
        size: content.length,
        modified: SystemTime::UNIX_EPOCH + Duration::from_nanos(content.modified),
        etag: format!("\"{:x}-{:x}\"", content.content, content.generation),
        disk,
        rate,
    }
}

/// A folder as it is listed: it is nothing but what names have in common, and `changed` when one of the volume's was.
pub(super) fn folder_of(name: &str, changed: SystemTime, disk: DiskId) -> Entry {
    Entry {
        name: last_of(name),
        kind: NameKind::Directory,
        id: None,
        is_link: false,
        size: 0,
        modified: changed,
        etag: "\"folder\"".to_owned(),
        disk,
        rate: None,
    }
}

fn last_of(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

/// Names a version of a content in the index of rates, as inode and times do for a file.
pub(super) fn stamp_of(volume: &Volume, content: &StoredContent) -> Stamp {
    let identity = volume.superblock().volume;
    let (first, _) = identity.split_first_chunk().expect("an identity has 16 bytes");
    Stamp {
        device: u64::from_le_bytes(*first),
        inode: content.content,
        size: content.length,
        modified_ns: i128::from(content.modified),
        changed_ns: i128::from(content.generation),
    }
}

impl Core {
    /// The content as somebody already reads it, from disks that are what they were when it was opened.
    pub(super) fn open_content(&self, stored: &StoredContent) -> Option<Arc<Content>> {
        let latest = self.open.open.get(&stored.generation)?.readers.last()?;
        latest.content.upgrade().filter(|_| latest.disks == self.disks_read())
    }

    /// Another one may have other disks that can be read.
    pub(super) const fn disks_read(&self) -> DisksRead {
        (self.volume.superblock().generation, self.durable_generation())
    }

    /// The checksums of a content that was read before.
    pub(super) fn known_checksums(&self, stored: &StoredContent) -> Option<Arc<ChecksumTable>> {
        self.open
            .tables
            .iter()
            .find(|(generation, _)| *generation == stored.generation)
            .map(|(_, table)| Arc::clone(table))
    }

    /// The content as the data plane reads it, from where `layout` says, which was made when `disks` were read: the same one while
    /// somebody holds it and the disks are what they were.
    pub(super) fn add_content(
        &mut self,
        name: &str,
        stored: &Arc<StoredContent>,
        (layout, disks): (ContentLayout, DisksRead),
        table: Arc<ChecksumTable>,
    ) -> Arc<Content> {
        let version = ContentVersion(self.open.next_version.fetch_add(1, Ordering::Relaxed));
        self.open.remember(stored.generation, &table);
        self.open.let_go();
        let (unit_bytes, parts) = (self.volume.unit_bytes(), stored.parts.len());
        let open = self.open.open.entry(stored.generation).or_insert_with(|| OpenContent {
            name: name.to_owned(),
            readers: Vec::new(),
            failed: Arc::new(FailedParts::new(unit_bytes, parts)),
        });
        let failed = Arc::clone(&open.failed);
        let checksums: Option<Box<dyn BlockChecksums>> = Some(Box::new(TableOfContent { table, failed }));
        let content = Arc::new(Content { version, size: stored.length, layout, watched: None, checksums });
        open.readers.push(OpenLayout { content: Arc::downgrade(&content), _stored: Arc::clone(stored), disks });
        content
    }

    /// A run for each unit: the copy to be read in normal times, and the others where every part has one.
    pub(super) fn layout(&self, name: &str, content: &StoredContent) -> Result<ContentLayout, StoreError> {
        let mut places: Vec<Vec<UnitPlace>> = Vec::with_capacity(content.parts.len());
        for part in &content.parts {
            let there = part.places().filter(|place| self.volume.is_readable(place.member)).collect::<Vec<_>>();
            if there.is_empty() {
                return Err(StoreError::DiskFailing(self.front.id));
            }
            places.push(there);
        }
        let copies = places.iter().map(Vec::len).min().unwrap_or(1);
        let mut numbers: HashMap<usize, u16> = HashMap::new();
        let mut files = Vec::new();
        let mut runs = vec![Vec::with_capacity(places.len()); copies];
        for (copy, runs) in runs.iter_mut().enumerate() {
            let mut logical = 0;
            for there in &places {
                let place = there[copy];
                let file = match numbers.get(&place.member.index()) {
                    Some(file) => *file,
                    None => {
                        let file = u16::try_from(files.len()).expect("at most 32 disks");
                        files.push(self.file_of(place)?);
                        numbers.insert(place.member.index(), file);
                        file
                    }
                };
                let offset = self.volume.areas(place.member).payload(place.unit);
                let length = self.volume.unit_bytes().min(stored_bytes(content.length) - logical);
                runs.push(Unit { logical, length, file, offset });
                logical += length;
            }
        }
        if files.is_empty() {
            // A content without bytes lies nowhere; it is on some disk all the same.
            files.push(self.file_of(self.anywhere()?)?);
            runs = vec![vec![Unit { logical: 0, length: 0, file: 0, offset: 0 }]];
        }
        let runs = runs.into_iter().map(Vec::into_boxed_slice).collect();
        let layout = ContentLayout::new(files.into_boxed_slice(), runs);
        Ok(match self.volume.placement_of(name) {
            Placement::Span => layout,
            Placement::Stripe | Placement::Mirror => layout.spread_over(self.readable_disks()),
        })
    }

    fn readable_disks(&self) -> Box<[DiskId]> {
        let numbered = (0u8..).map(volume::MemberId).zip(&self.members);
        let readable = numbered.filter(|(number, _)| self.volume.is_readable(*number));
        readable.filter_map(|(_, member)| Some(member.as_ref()?.disk)).collect()
    }

    fn anywhere(&self) -> Result<UnitPlace, StoreError> {
        let member = self.volume.superblock().members.len();
        let mut members = (0..member).filter_map(|number| u8::try_from(number).ok()).map(volume::MemberId);
        let member = members.find(|member| self.volume.is_readable(*member));
        member.map(|member| UnitPlace { member, unit: 0 }).ok_or(StoreError::DiskFailing(self.front.id))
    }

    fn file_of(&self, place: UnitPlace) -> Result<ContentFile, StoreError> {
        let member = self.members.get(place.member.index()).and_then(Option::as_ref);
        let member = member.ok_or(StoreError::DiskFailing(self.front.id))?;
        let file: OwnedFd = member.file.try_clone()?;
        let positions = match member.start_bytes {
            0 => Positions::Device,
            start => {
                let length = self.volume.areas(place.member).size;
                Positions::Extents(Box::new([Extent { logical: 0, physical: start, length }]))
            }
        };
        Ok(ContentFile { disk: member.disk, file, access: member.access, positions })
    }
}
