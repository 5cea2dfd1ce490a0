//! Contents and responses of a run: the bytes on the disks, and the segments of a delivery.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use content::layout::{ContentFile, ContentLayout, Extent, FileAccess, Positions, Unit};
use content::watched::{FileStat, WatchedContent};
use content::{BlockChecksums, Content, Segment};
use units::{ContentVersion, DiskId, limits};

use crate::load::ContentLoad;
use crate::random::Random;

/// The unit of a mirrored content.
const UNIT_BYTES: u64 = 8 << 20;

/// A file of a content on one disk, which the plane may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SimFile {
    pub(crate) content: u32,
    pub(crate) disk: DiskId,
}

/// The number of the content with this version; versions are numbered from 1, contents from 0.
pub(crate) fn number_of(version: ContentVersion) -> u32 {
    u32::try_from(version.0 - 1).expect("few contents")
}

/// A content in the world outside the plane.
#[derive(Debug)]
pub(crate) struct SimContent {
    pub(crate) version: ContentVersion,
    /// The disk on which its first copy begins.
    pub(crate) disk: DiskId,
    pub(crate) access: FileAccess,
    /// Present size of the file; `size` is the size when the plane received the content.
    pub(crate) size_now: u64,
    /// The file was overwritten in part since the plane received it.
    rewritten: bool,
    size: u64,
    /// The plane's open content, while a reader holds it.
    open: Weak<Content>,
    kind: SimContentKind,
}

/// The time for which a content is open.
#[derive(Debug)]
enum SimContentKind {
    /// From the start of the run to its end.
    Open(Arc<Content>),
    /// While it is read: the films of a run are thousands of files, more than there are descriptors.
    OpenedToRead { extents: Box<[Extent]>, spread: Box<[DiskId]> },
}

impl SimContent {
    /// True while the file is unchanged since the plane received it.
    pub(crate) fn is_whole(&self) -> bool {
        self.size_now == self.size && !self.rewritten
    }

    /// The version of the bytes that a read returns now: a rewritten file has another one.
    pub(crate) fn version_now(&self) -> ContentVersion {
        const OTHER: u64 = 1 << 31;
        if self.rewritten { ContentVersion(self.version.0 | OTHER) } else { self.version }
    }

    /// True if each byte has copies on two disks.
    pub(crate) fn is_mirrored(&self) -> bool {
        matches!(&self.kind, SimContentKind::Open(content) if content.layout.copies() > 1)
    }

    /// True if it is a file of a film.
    fn is_of_film(&self) -> bool {
        matches!(self.kind, SimContentKind::OpenedToRead { .. })
    }

    /// Size when the plane received the content.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The open content; opens it if it is not.
    fn opened(&mut self, null: &OwnedFd) -> Arc<Content> {
        let (extents, spread) = match &self.kind {
            SimContentKind::Open(content) => return Arc::clone(content),
            SimContentKind::OpenedToRead { extents, spread } => (extents, spread),
        };
        self.open.upgrade().unwrap_or_else(|| {
            let layout = layout(self.disk, self.access, self.size, extents.clone(), null).spread_over(spread.clone());
            let content = open_file(self.version, self.size, layout);
            self.open = Arc::downgrade(&content);
            content
        })
    }

    /// The runs on the device of `bytes` from `offset` of the file on `disk`, in order.
    pub(crate) fn places(&self, disk: DiskId, offset: u64, bytes: u64) -> Vec<(u64, u64)> {
        let content = self.open.upgrade().expect("a content that is read is open");
        let files = content.layout.files().iter().filter(|file| file.disk == disk);
        files.flat_map(|file| file.runs(offset, bytes)).collect()
    }

    /// A file of a film, in one stretch of one of the disks on which the film lies.
    pub(crate) fn of_film(version: ContentVersion, (disks, nth): (&[DiskId], usize), size: u64, position: u64) -> Self {
        let disk = disks[nth];
        let length = size.next_multiple_of(limits::DIRECT_ALIGN);
        let extents = Box::new([Extent { logical: 0, physical: position, length }]);
        let kind = SimContentKind::OpenedToRead { extents, spread: disks.into() };
        let access = FileAccess::Direct;
        Self { version, disk, access, size_now: size, rewritten: false, size, open: Weak::new(), kind }
    }
}

/// All contents of a run.
#[derive(Debug)]
pub(crate) struct SimContents {
    all: Vec<SimContent>,
    /// An open `/dev/null`, which stands for every file and every socket.
    null: OwnedFd,
}

impl SimContents {
    pub(crate) fn empty(null: OwnedFd) -> Self {
        Self { all: Vec::new(), null }
    }

    /// Draws the contents that exist from the beginning of the run, on disks of these capacities.
    pub(crate) fn draw(&mut self, load: &ContentLoad, capacities: &[u64], random: &mut Random) {
        for disk in 0..capacities.len() {
            for _ in 0..load.per_disk {
                self.add(|version, null| new_content(version, disk, capacities, load, null, random));
            }
        }
    }

    /// Adds a content, and returns its number.
    pub(crate) fn add(&mut self, make: impl FnOnce(ContentVersion, &OwnedFd) -> SimContent) -> u32 {
        let number = u32::try_from(self.all.len()).expect("a run is short");
        self.all.push(make(ContentVersion(u64::from(number) + 1), &self.null));
        number
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).expect("a run is short")
    }

    pub(crate) fn content(&self, number: u32) -> &SimContent {
        &self.all[usize::try_from(number).expect("few contents")]
    }

    /// The open content; opens it if it is not.
    pub(crate) fn open(&mut self, number: u32) -> Arc<Content> {
        self.all[usize::try_from(number).expect("few contents")].opened(&self.null)
    }

    pub(crate) fn descriptor(&self) -> OwnedFd {
        self.null.try_clone().expect("a descriptor is free")
    }

    /// Lets another program spoil the first unspoilt content of a disk; returns its version.
    pub(crate) fn spoil(&mut self, disk: usize, how: Spoiling) -> Option<ContentVersion> {
        let whole = |c: &&mut SimContent| usize::from(c.disk.0) == disk && c.is_whole() && !c.is_of_film();
        let content = self.all.iter_mut().find(whole)?;
        match how {
            Spoiling::Cut => content.size_now /= 2,
            Spoiling::Rewritten => content.rewritten = true,
        }
        Some(content.version)
    }
}

/// A change of a content's file by another program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spoiling {
    /// It truncates the file to half its length.
    Cut,
    /// It writes into the file.
    Rewritten,
}

/// Stands for checksums: the world checks the origin of each page itself.
#[derive(Debug)]
struct Provenance;

impl BlockChecksums for Provenance {
    fn verify(&self, _: u64, _: &[u8]) -> bool {
        unreachable!("the simulator has no bytes")
    }

    fn copy_failed(&self, _: u64) {}
}

/// A content of random size at random positions of its disk; fragments may overlap those of other contents, without an effect.
/// A mirrored content has on each disk a file of its full length; each of its units is used on two neighbouring disks (chained
/// declustering).
fn new_content(
    version: ContentVersion,
    disk: usize,
    capacities: &[u64],
    load: &ContentLoad,
    null: &OwnedFd,
    random: &mut Random,
) -> SimContent {
    let least = if load.mirrored { capacities.iter().copied().min().unwrap_or(0) } else { capacities[disk] };
    let size = random.between(load.bytes.0, load.bytes.1).min(least / 2);
    let extents = extents(size, capacities[disk], load, random);
    let access = if random.chance(load.buffered_share) { FileAccess::Buffered } else { FileAccess::Direct };
    let number = |disk| DiskId(u16::try_from(disk).expect("few disks"));
    let file = || null.try_clone().expect("a descriptor is free");
    let shared = if load.mirrored {
        let disks = (0..capacities.len()).map(|nth| (disk + nth) % capacities.len());
        let files = disks.map(|disk| {
            let positions = Positions::Extents(self::extents(size, capacities[disk], load, random).into());
            ContentFile { disk: number(disk), file: file(), access, positions }
        });
        let copy = |copy: u64| {
            let units = (0..size.div_ceil(UNIT_BYTES)).map(|nth| {
                let file = u16::try_from((nth + copy) % capacities.len() as u64).expect("few disks");
                let logical = nth * UNIT_BYTES;
                Unit { logical, length: UNIT_BYTES.min(size - logical), file, offset: logical }
            });
            units.collect()
        };
        let layout = ContentLayout::new(files.collect(), Box::new([copy(0), copy(1)]));
        Arc::new(Content { version, size, layout, watched: None, checksums: Some(Box::new(Provenance)) })
    } else {
        open_file(version, size, layout(number(disk), access, size, extents.into(), null))
    };
    SimContent {
        version,
        disk: number(disk),
        access,
        size_now: size,
        rewritten: false,
        size,
        open: Arc::downgrade(&shared),
        kind: SimContentKind::Open(shared),
    }
}

/// The content of a file in a folder, which other programs may write to.
fn open_file(version: ContentVersion, size: u64, layout: ContentLayout) -> Arc<Content> {
    let watched = Some(WatchedContent::new(FileStat::new(0, size), 0));
    Arc::new(Content { version, size, layout, watched, checksums: None })
}

fn layout(disk: DiskId, access: FileAccess, size: u64, extents: Box<[Extent]>, null: &OwnedFd) -> ContentLayout {
    let file = null.try_clone().expect("a descriptor is free");
    ContentLayout::of_file(disk, file, access, size, extents)
}

fn extents(size: u64, capacity: u64, load: &ContentLoad, random: &mut Random) -> Vec<Extent> {
    let aligned = size.next_multiple_of(limits::DIRECT_ALIGN);
    let fragments = random.between(1, load.fragments_max.max(1));
    let part = (aligned / fragments).next_multiple_of(limits::DIRECT_ALIGN).max(limits::DIRECT_ALIGN);
    let mut extents = Vec::new();
    let mut logical = 0;
    while logical < aligned {
        let length = part.min(aligned - logical);
        let physical = random.below((capacity - length) / limits::DIRECT_ALIGN) * limits::DIRECT_ALIGN;
        extents.push(Extent { logical, physical, length });
        logical += length;
    }
    extents
}

/// The segments of a response of one range.
pub(crate) fn one_range(offset: u64, length: u64) -> Arc<[Segment]> {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
    Arc::new([Segment::Bytes(HEAD.into()), Segment::Range { offset, length }])
}

/// The segments of a response: a head, then one range, or several ranges with part heads between them.
pub(crate) fn segments(random: &mut Random, size: u64, wanted: u64, ranges_share: f64) -> Arc<[Segment]> {
    let literal = |random: &mut Random| {
        let length = random.between(20, 500);
        Segment::Bytes((0..length).map(|n| u8::try_from((n * 31 + length) % 251).unwrap_or(0)).collect())
    };
    let ranges = if random.chance(ranges_share) { random.between(2, 4) } else { 1 };
    let mut all = Vec::new();
    for _ in 0..ranges {
        all.push(literal(random));
        let length = (wanted / ranges).clamp(1, size);
        let offset = if random.chance(0.5) { 0 } else { random.below(size - length + 1) };
        all.push(Segment::Range { offset, length });
    }
    if ranges > 1 {
        all.push(literal(random));
    }
    all.into()
}
