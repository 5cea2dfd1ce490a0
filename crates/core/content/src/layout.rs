//! Layout of a content: the files that hold its bytes, their disks, and the positions on each device, in one copy or several.
//!
//! A *copy* is all of the content as a list of *units*, one behind the other. A file in a folder has one copy of one unit,
//! and the file system's extents give its places on the disk. A store over whole disks names each disk once as a file and
//! lists the units; a mirror has a second copy, with units on other disks.
//!
//! Promise: look-ups only, no allocation after a layout is made. Not here: reading (`fetcher`), its cost (`schedule`).

use std::os::fd::OwnedFd;

use units::DiskId;
use units::limits::CACHE_PAGE_BYTES;

/// Way of reading a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Direct I/O by the data plane's ring.
    Direct,
    /// Through the page cache by a helper thread (tmpfs, network mounts, file systems without direct I/O).
    Buffered,
}

/// A contiguous range of a file on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub logical: u64,
    /// Position on the whole block device, in bytes.
    pub physical: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Places of a file on its device.
#[derive(Debug)]
pub enum Positions {
    /// In these extents, ascending by `logical`; positions outside of them are not known.
    Extents(Box<[Extent]>),
    /// The file is the whole device: an offset is a position.
    Device,
}

/// A file that holds bytes of a content.
#[derive(Debug)]
pub struct ContentFile {
    /// The disk that the file lies on, or the disk itself.
    pub disk: DiskId,
    /// Open for reading; with `O_DIRECT` where `access` is [`FileAccess::Direct`].
    pub file: OwnedFd,
    /// Way of reading it.
    pub access: FileAccess,
    /// The positions of its bytes on the disk.
    pub positions: Positions,
}

impl ContentFile {
    fn position_of(&self, offset: u64) -> Option<u64> {
        let Positions::Extents(extents) = &self.positions else { return Some(offset) };
        let at = extents.partition_point(|extent| extent.logical + extent.length <= offset);
        let extent = extents.get(at)?;
        offset.checked_sub(extent.logical).map(|within| extent.physical + within)
    }

    /// The known runs on the disk of `length` bytes from `offset`: positions and lengths.
    pub fn runs(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
        let (all, extents) = match &self.positions {
            Positions::Device => (Some((offset, length)), &[][..]),
            Positions::Extents(extents) => (None, &extents[..]),
        };
        let end = offset + length;
        let within = extents.iter().filter_map(move |extent| {
            let (from, to) = (extent.logical.max(offset), (extent.logical + extent.length).min(end));
            (from < to).then(|| (extent.physical + (from - extent.logical), to - from))
        });
        all.into_iter().chain(within)
    }
}

/// Bytes of a content that follow each other in one of its files (a layout unit). Each unit of a copy but the last ends at a
/// multiple of `CACHE_PAGE_BYTES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Offset in the content.
    pub logical: u64,
    /// Length in bytes.
    pub length: u64,
    /// Index of the file among the content's files.
    pub file: u16,
    /// Offset in that file, a multiple of `limits::DIRECT_ALIGN`.
    pub offset: u64,
}

/// Bytes of a content that one request can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The disk.
    pub disk: DiskId,
    /// Index of the file among the content's files.
    pub file: u16,
    /// Offset in that file.
    pub offset: u64,
    /// Position of the first byte on the device; `None` where it is not known.
    pub position: Option<u64>,
    /// Length in bytes.
    pub length: u64,
}

/// Layout of a content: its files, and its copies in them.
#[derive(Debug)]
pub struct ContentLayout {
    files: Box<[ContentFile]>,
    copies: Box<[Box<[Unit]>]>,
    /// All disks that hold bytes of the content, those of the first copy first.
    disks: Box<[DiskId]>,
    /// Each combination of disks that hold the copies of some byte, in the order of the copies, with the share of the content's
    /// bytes on that combination.
    combinations: Box<[(Box<[DiskId]>, f64)]>,
    /// All disks over which its store spreads contents like this one.
    spread: Box<[DiskId]>,
}

impl ContentLayout {
    /// Layout of a file of `size` bytes in a folder on `disk`; `extents` is empty if they are not known.
    #[must_use]
    pub fn of_file(disk: DiskId, file: OwnedFd, access: FileAccess, size: u64, extents: Box<[Extent]>) -> Self {
        let file = ContentFile { disk, file, access, positions: Positions::Extents(extents) };
        Self::new(Box::new([file]), Box::new([Box::new([Unit { logical: 0, length: size, file: 0, offset: 0 }])]))
    }

    /// Layout of a content in these files, in one copy or more.
    ///
    /// # Panics
    /// If there is no copy, or the units of a copy do not follow each other from zero in whole pages, or a unit names a missing
    /// file.
    #[must_use]
    pub fn new(files: Box<[ContentFile]>, copies: Box<[Box<[Unit]>]>) -> Self {
        assert!(!copies.is_empty(), "a content lies somewhere");
        let mut disks: Vec<DiskId> = Vec::new();
        for copy in &copies {
            let mut end = 0;
            for unit in copy {
                assert!(
                    unit.logical == end && end.is_multiple_of(CACHE_PAGE_BYTES),
                    "units follow each other in whole pages"
                );
                end += unit.length;
                let disk = files[usize::from(unit.file)].disk;
                if !disks.contains(&disk) {
                    disks.push(disk);
                }
            }
        }
        let combinations = combinations(&files, &copies);
        let spread = disks.clone().into_boxed_slice();
        Self { files, copies, disks: disks.into_boxed_slice(), combinations, spread }
    }

    /// This layout in a store that spreads contents over these disks, one after the other.
    #[must_use]
    pub fn spread_over(self, spread: Box<[DiskId]>) -> Self {
        Self { spread, ..self }
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> &[ContentFile] {
        &self.files
    }

    /// Number of its copies; at least one.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.copies.len()
    }

    /// The disks that hold bytes of it, in any copy; the first copy's first.
    #[must_use]
    pub fn disks(&self) -> &[DiskId] {
        &self.disks
    }

    /// The disks over which its store spreads contents: the next content of its viewer lies on any of them.
    #[must_use]
    pub fn spread(&self) -> &[DiskId] {
        &self.spread
    }

    /// The share of the content's bytes that is read from this disk if each byte is read from the copy whose disk has the least
    /// reluctance, 0.0 … 1.0.
    #[must_use]
    pub fn share_read(&self, disk: DiskId, reluctance: impl Fn(DiskId) -> u8) -> f64 {
        let is_read = |disks: &[DiskId]| disks.iter().copied().min_by_key(|other| reluctance(*other)) == Some(disk);
        self.combinations.iter().filter(|(disks, _)| is_read(disks)).map(|(_, share)| share).sum()
    }

    /// The disk on which the first copy begins.
    #[must_use]
    pub fn first_disk(&self) -> DiskId {
        let first = self.copies[0].first().map_or(0, |unit| unit.file);
        self.files[usize::from(first)].disk
    }

    /// True if every byte has a copy on a disk that serves.
    #[must_use]
    pub fn is_readable(&self, serves: impl Fn(DiskId) -> bool) -> bool {
        self.combinations.iter().all(|(disks, _)| disks.iter().any(|disk| serves(*disk)))
    }

    /// Of the disks that serve the content, the one with the least reluctance: its streams are listed there.
    #[must_use]
    pub fn best_disk(&self, serves: impl Fn(DiskId) -> bool, reluctance: impl Fn(DiskId) -> u8) -> Option<DiskId> {
        let disks = self.disks.iter().copied().chain([self.first_disk()]);
        disks.filter(|disk| serves(*disk)).min_by_key(|disk| reluctance(*disk))
    }

    /// The copy of the byte at `offset` on the disk with the least reluctance; of equal ones the first.
    #[must_use]
    pub fn copy_at(&self, offset: u64, reluctance: impl Fn(DiskId) -> u8) -> usize {
        let disk_of = |copy: usize| self.piece(copy, offset, 1).map_or(u8::MAX, |piece| reluctance(piece.disk));
        if self.copies.len() == 1 { 0 } else { (0..self.copies.len()).min_by_key(|copy| disk_of(*copy)).unwrap_or(0) }
    }

    /// The bytes of a copy from `offset` that one request can read, at most `length`; `None` behind the end of the copy.
    #[must_use]
    pub fn piece(&self, copy: usize, offset: u64, length: u64) -> Option<Piece> {
        let units = &self.copies[copy];
        let at = units.partition_point(|unit| unit.logical + unit.length <= offset);
        let unit = units.get(at)?;
        let (mut end, within) = (unit.logical + unit.length, offset - unit.logical);
        for next in &units[at + 1..] {
            let continues = next.file == unit.file && next.offset == unit.offset + (next.logical - unit.logical);
            if !continues || end >= offset.saturating_add(length) {
                break;
            }
            end += next.length;
        }
        let file = &self.files[usize::from(unit.file)];
        let from = unit.offset + within;
        let (position, length) = (file.position_of(from), (end - offset).min(length));
        Some(Piece { disk: file.disk, file: unit.file, offset: from, position, length })
    }

    /// The runs on the device of the bytes read from a disk (see [`ContentLayout::share_read`]): positions and lengths.
    pub fn placed_on(&self, disk: DiskId, reluctance: impl Fn(DiskId) -> u8) -> impl Iterator<Item = (u64, u64)> {
        let units = self.copies.iter().enumerate().flat_map(|(copy, units)| units.iter().map(move |unit| (copy, unit)));
        let read = units.filter(move |(copy, unit)| {
            self.files[usize::from(unit.file)].disk == disk && self.copy_at(unit.logical, &reluctance) == *copy
        });
        read.flat_map(|(_, unit)| self.files[usize::from(unit.file)].runs(unit.offset, unit.length))
    }
}

/// See [`ContentLayout::combinations`].
fn combinations(files: &[ContentFile], copies: &[Box<[Unit]>]) -> Box<[(Box<[DiskId]>, f64)]> {
    let mut found: Vec<(Box<[DiskId]>, u64)> = Vec::new();
    let (mut at, size) = (0, copies[0].last().map_or(0, |unit| unit.logical + unit.length));
    while at < size {
        let units = copies.iter().filter_map(|units| {
            let next = units.partition_point(|unit| unit.logical + unit.length <= at);
            units.get(next)
        });
        let disks: Box<[DiskId]> = units.clone().map(|unit| files[usize::from(unit.file)].disk).collect();
        let end = units.map(|unit| unit.logical + unit.length).min().unwrap_or(size);
        match found.iter_mut().find(|(other, _)| *other == disks) {
            Some((_, bytes)) => *bytes += end - at,
            None => found.push((disks, end - at)),
        }
        at = end;
    }
    if found.is_empty() {
        found.push((files.iter().map(|file| file.disk).collect(), 0));
    }
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    let share = |bytes: u64| bytes as f64 / size.max(1) as f64;
    found.into_iter().map(|(disks, bytes)| (disks, share(bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 4 * CACHE_PAGE_BYTES;

    #[expect(clippy::disallowed_methods, reason = "stands for a content's file")]
    fn null() -> OwnedFd {
        std::fs::File::open("/dev/null").expect("/dev/null opens").into()
    }

    fn file(disk: u16, positions: Positions) -> ContentFile {
        ContentFile { disk: DiskId(disk), file: null(), access: FileAccess::Direct, positions }
    }

    #[test]
    fn a_file_is_one_piece_wherever_its_extents_lie() {
        let extents = [(0, 8 * UNIT, UNIT), (UNIT, UNIT, 10)];
        let extents = extents.map(|(logical, physical, length)| Extent { logical, physical, length });
        let layout = ContentLayout::of_file(DiskId(3), null(), FileAccess::Direct, UNIT + 10, Box::new(extents));
        let piece = layout.piece(0, 100, u64::MAX).expect("within");
        let all = Piece { disk: DiskId(3), file: 0, offset: 100, position: Some(8 * UNIT + 100), length: UNIT - 90 };
        assert_eq!(piece, all);
        assert_eq!(layout.piece(0, UNIT + 4, 2).and_then(|piece| piece.position), Some(UNIT + 4));
        assert_eq!((layout.piece(0, UNIT + 10, 1), layout.share_read(DiskId(3), |_| 0)), (None, 1.0));
        assert_eq!(layout.placed_on(DiskId(3), |_| 0).map(|(_, length)| length).sum::<u64>(), UNIT + 10);
    }

    #[test]
    fn a_striped_content_has_a_piece_for_each_unit_and_a_share_of_each_disk() {
        let unit = |nth: u64, file, offset| Unit { logical: nth * UNIT, length: UNIT, file, offset };
        let units = [unit(0, 0, 10 * UNIT), unit(1, 0, 11 * UNIT), unit(2, 1, 0), unit(3, 0, 20 * UNIT)];
        let mirror = [Unit { logical: 0, length: 4 * UNIT, file: 2, offset: 5 * UNIT }];
        let files = [file(0, Positions::Device), file(1, Positions::Device), file(2, Positions::Device)];
        let layout = ContentLayout::new(Box::new(files), Box::new([Box::new(units), Box::new(mirror)]));
        let piece = |from, length| layout.piece(0, from, length).map(|p| (p.disk.0, p.offset, p.length));
        assert_eq!(piece(UNIT / 2, 4 * UNIT), Some((0, 10 * UNIT + UNIT / 2, UNIT * 3 / 2)), "two units in a row");
        assert_eq!(piece(2 * UNIT, 2 * UNIT), Some((1, 0, UNIT)));
        assert_eq!(piece(3 * UNIT, UNIT), Some((0, 20 * UNIT, UNIT)));
        assert_eq!(piece(4 * UNIT, UNIT), None);
        let shares = |bad: u16| [0, 1, 2].map(|disk| layout.share_read(DiskId(disk), |other| u8::from(other.0 == bad)));
        assert_eq!([shares(9), shares(0), shares(1)], [[0.75, 0.25, 0.0], [0.0, 0.25, 0.75], [0.75, 0.0, 0.25]]);
        let placed = |bad: u16| layout.placed_on(DiskId(2), move |other| u8::from(other.0 == bad)).count();
        assert_eq!((placed(9), placed(0)), (0, 1));
        assert_eq!((layout.disks(), layout.first_disk()), (&[0, 1, 2].map(DiskId)[..], DiskId(0)));
        assert_eq!(layout.piece(1, 3 * UNIT, UNIT).map(|p| p.position), Some(Some(8 * UNIT)));
    }

    #[test]
    fn each_unit_is_read_from_the_copy_on_the_better_disk() {
        // Chained: the second copy of each unit is on the next disk.
        let unit = |nth: u64, file: u16| Unit { logical: nth * UNIT, length: UNIT, file: file % 3, offset: nth * UNIT };
        let copy = |shift: u16| (0u16..3).map(|nth| unit(u64::from(nth), nth + shift)).collect::<Box<[Unit]>>();
        let files = [0, 1, 2].map(|disk| file(disk, Positions::Device));
        let layout = ContentLayout::new(Box::new(files), Box::new([copy(0), copy(1)]));
        let read = |bad: u16| {
            let copies = (0..3).map(|nth| layout.copy_at(nth * UNIT, |disk| u8::from(disk.0 == bad)));
            copies.collect::<Vec<_>>()
        };
        assert_eq!([read(9), read(0), read(1), read(2)], [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]);
        assert!((0..3).all(|dead| layout.is_readable(|disk| disk.0 != dead)), "any one disk may die");
        assert!(!layout.is_readable(|disk| disk.0 == 0), "of two, neighbours hold both copies of a unit");
    }
}
