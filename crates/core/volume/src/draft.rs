//! A draft: a content that is being written. It is in no catalogue before it is published; a crash leaves its units free, except those that
//! the journal names for a recording (`recording`).

use crate::choice::HeldUnits;
use crate::content::{StoredContent, StoredPart, UnitPlace, stored_bytes};
use crate::members::MemberTable;
use crate::record::Recorded;
use crate::recording::{Recordings, Restore, Restored};
use crate::space::FreeSpace;
use crate::unit::{CHECKED_BYTES, ChecksumTable, Checksums, UnitHeader};
use crate::{BLOCK_BYTES, BLOCK_LEN, DiskWrite, MemberId, Placement, VolumeError};

/// Units of a content at most: its record fits into a frame of the journal.
pub(crate) const PARTS_MAX: usize = 4_000_000;
/// A content of unknown length holds as much ahead as it has, and this number of parts at least.
const AHEAD_PARTS_MIN: u64 = 8;
/// It holds this number of bytes at most: a seek of 12 ms after each of these is less than 1 % of the time for reading them at 400 MB/s.
const AHEAD_BYTES_MAX: u64 = 512 << 20;

/// A content that is being written. Publish it or give it back with [`crate::Volume::abandon`]: its units are not free before.
#[derive(Debug)]
pub struct Draft {
    name: Box<str>,
    content: u64,
    generation: u64,
    /// Payload bytes in the units that are sealed.
    sealed_bytes: u64,
    /// Bytes of the content without its tail, once all have come.
    content_bytes: Option<u64>,
    /// The checksums of all of the content that is in sealed units.
    table: Vec<u32>,
    parts: Vec<StoredPart>,
    open: Option<OpenUnit>,
    placement: Placement,
    /// Parts that are reserved for it and not taken yet.
    reserved: u64,
    /// Parts that are kept free for its tail, so that it can be ended when the volume is full.
    kept_for_tail: u64,
    held: HeldUnits,
    /// The disk of a span that it begins on.
    begins_on: Option<MemberId>,
    /// A part of it was on a disk that was taken out, and nowhere else.
    is_lost: bool,
}

/// A unit that was taken and is not sealed yet.
#[derive(Debug)]
struct OpenUnit {
    first: UnitPlace,
    second: Option<UnitPlace>,
    checksums: Checksums,
}

impl OpenUnit {
    fn places(&self) -> impl Iterator<Item = UnitPlace> + use<> {
        [Some(self.first), self.second].into_iter().flatten()
    }
}

impl Draft {
    /// A draft without bytes, for which `reserved` parts are promised.
    pub(crate) fn new(name: &str, (content, generation): (u64, u64), placement: Placement, reserved: u64) -> Self {
        Self {
            name: name.into(),
            content,
            generation,
            sealed_bytes: 0,
            content_bytes: None,
            table: Vec::new(),
            parts: Vec::new(),
            open: None,
            placement,
            reserved,
            kept_for_tail: 0,
            held: HeldUnits::default(),
            begins_on: None,
            is_lost: false,
        }
    }

    /// A recording that a crash left, as far as it was durable; nothing of it is read yet ([`Draft::restore`]).
    pub(crate) fn of_recorded(Recorded { name, content }: &Recorded, placement: Placement) -> Self {
        Self {
            sealed_bytes: content.length,
            parts: content.parts.to_vec(),
            ..Self::new(name, (content.content, content.generation), placement, 0)
        }
    }

    /// The name it will have.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn content(&self) -> u64 {
        self.content
    }

    /// The number of the version that it will be.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) const fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// True if a part of it was on a disk that was taken out, and nowhere else.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Keeps it next to the content it was to replace, as a content of its own.
    pub(crate) const fn set_apart(&mut self) {
        debug_assert!(self.parts.is_empty(), "headers name the content that it was begun as");
        self.content = self.generation;
    }

    /// It will have another name.
    pub fn rename(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Its first part goes to this disk of a span, where that has room; those behind it follow.
    pub const fn begin_on(&mut self, member: MemberId) {
        self.begins_on = Some(member);
    }

    /// The units of its copies.
    pub(crate) fn places(&self) -> impl Iterator<Item = UnitPlace> {
        let open = self.open.iter().flat_map(OpenUnit::places);
        self.parts.iter().flat_map(StoredPart::places).chain(open)
    }

    /// True if a copy of some part of it is on a disk.
    #[must_use]
    pub fn is_on(&self, member: MemberId) -> bool {
        self.places().any(|place| place.member == member)
    }

    /// Payload bytes that have come.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.sealed_bytes + self.open.as_ref().map_or(0, |open| open.checksums.bytes())
    }

    /// The checksum of the table of the part that is being filled.
    pub(crate) fn open_digest(&self) -> u32 {
        self.open.as_ref().map_or(0, |open| open.checksums.clone().finish().digest())
    }

    /// Its first `length` bytes as a recording; `digest` is the checksum of the last part's table there. None without a part.
    pub(crate) fn recorded(&self, length: u64, digest: u32, modified: u64, unit_bytes: u64) -> Option<Recorded> {
        debug_assert!(length <= self.length(), "the journal names no bytes that have not come");
        let count = usize::try_from(length.div_ceil(unit_bytes)).expect("at most PARTS_MAX");
        let open = self.open.iter().map(|open| StoredPart { digest, first: open.first, second: open.second });
        let mut parts: Box<[StoredPart]> = self.parts.iter().copied().chain(open).take(count).collect();
        parts.last_mut()?.digest = digest;
        let content = StoredContent { content: self.content, generation: self.generation, length, modified, parts };
        Some(Recorded { name: self.name.clone(), content })
    }

    /// All of the content has come: gives its length and the checksums of all of it, and fills its last block with zeros.
    pub(crate) fn end_content(&mut self) -> (u64, &[u32]) {
        debug_assert!(self.content_bytes.is_none(), "a content ends once");
        let length = self.length();
        self.content_bytes = Some(length);
        if let Some(open) = &mut self.open {
            self.table.extend(open.checksums.clone().finish().0);
            let padding = usize::try_from(length.next_multiple_of(BLOCK_BYTES) - length).expect("less than a block");
            open.checksums.add(&[0; BLOCK_LEN][..padding]);
        }
        (length, &self.table)
    }

    /// See [`crate::Volume::room`].
    pub(crate) fn room(
        &mut self,
        members: &MemberTable,
        space: &mut FreeSpace,
    ) -> Result<(Vec<DiskWrite>, u64), VolumeError> {
        let filled = self.open.as_ref().map_or(0, |open| open.checksums.bytes());
        let full = self.open.take_if(|_| filled == members.unit_bytes());
        if self.open.is_some() {
            return Ok((Vec::new(), members.unit_bytes() - filled));
        }
        match self.take_next(full.as_ref(), members, space) {
            Ok(next) => {
                let headers = full.map(|full| self.seal(full, None, members)).unwrap_or_default();
                self.open = Some(next);
                Ok((headers, members.unit_bytes()))
            }
            Err(error) => {
                self.open = full;
                Err(error)
            }
        }
    }

    /// Keeps a part free for the tail of a content of unknown length, if there is one and none is kept yet.
    pub(crate) fn keep_for_tail(&mut self, members: &MemberTable, space: &mut FreeSpace) {
        debug_assert!(self.content_bytes.is_none(), "the tail has come");
        if self.kept_for_tail == 0 && space.parts_left(self.placement, members) > 0 {
            self.kept_for_tail = 1;
            space.promise(self.placement, 1);
        }
    }

    /// The tail comes now.
    pub(crate) fn free_for_tail(&mut self, space: &mut FreeSpace) {
        space.end_promise(self.placement, std::mem::take(&mut self.kept_for_tail));
    }

    /// Takes the next unit, behind `full` if that is not sealed yet.
    fn take_next(
        &mut self,
        full: Option<&OpenUnit>,
        members: &MemberTable,
        space: &mut FreeSpace,
    ) -> Result<OpenUnit, VolumeError> {
        let parts = self.parts.len() + usize::from(full.is_some());
        if parts >= PARTS_MAX {
            return Err(VolumeError::TooLong);
        }
        if self.reserved == 0 && space.parts_left(self.placement, members) == 0 {
            return Err(VolumeError::Full);
        }
        let last = full.map(|full| full.first).or(self.parts.last().map(|part| part.first));
        let before = last.map(|place| place.member).or(self.begins_on);
        let taken = u64::try_from(parts).expect("at most PARTS_MAX");
        let ahead = match self.reserved {
            0 => taken.clamp(AHEAD_PARTS_MIN, AHEAD_BYTES_MAX / members.unit_bytes()),
            known => known,
        };
        let part = (self.placement, self.content + taken, before);
        let (first, second) = space.take_part(part, ahead, &mut self.held, members).ok_or(VolumeError::Full)?;
        if self.reserved > 0 {
            self.reserved -= 1;
            space.end_promise(self.placement, 1);
        }
        Ok(OpenUnit { first, second, checksums: Checksums::default() })
    }

    /// Adds payload, no more than [`crate::Volume::room`] said: gives where each copy is to be written, disk and position. All but the
    /// content's last bytes come in whole blocks; those are to be written with zeros up to a whole block.
    ///
    /// # Panics
    /// There is no room.
    pub fn add(&mut self, members: &MemberTable, payload: &[u8]) -> Vec<(MemberId, u64)> {
        let open = self.open.as_mut().expect("there is room in a unit");
        let within = open.checksums.bytes();
        debug_assert!(within.is_multiple_of(BLOCK_BYTES), "bytes behind those that ended the content");
        open.checksums.add(payload);
        assert!(
            open.checksums.bytes() <= members.unit_bytes(),
            "payload beyond its unit lies over a header and the next unit"
        );
        open.places().map(|place| (place.member, members.areas(place.member).payload(place.unit) + within)).collect()
    }

    /// Ends the content when all its payload was added, its tail too ([`Draft::tail`]): gives the last headers to write.
    /// `modified` is in nanoseconds since 1970.
    pub fn end(&mut self, members: &MemberTable, modified: u64) -> Vec<DiskWrite> {
        self.open.take().map(|open| self.seal(open, Some(modified), members)).unwrap_or_default()
    }

    fn seal(&mut self, full: OpenUnit, last: Option<u64>, members: &MemberTable) -> Vec<DiskWrite> {
        let OpenUnit { first, second, checksums } = full;
        let payload = checksums.bytes();
        let table = checksums.finish();
        let part = StoredPart { digest: table.digest(), first, second };
        if self.content_bytes.is_none() {
            self.table.extend(&table.0);
        }
        let last = last.map(|modified| (modified, self.content_bytes.expect("the tail comes before the end")));
        debug_assert!(payload > 0 && payload <= members.unit_bytes(), "a unit holds at least a byte, and its payload");
        debug_assert!(last.is_some() || payload == members.unit_bytes(), "all units but the last are full");
        debug_assert!(
            self.content_bytes.is_some() || self.sealed_bytes.is_multiple_of(members.unit_bytes()),
            "only the last part is short"
        );
        let number = u32::try_from(self.parts.len()).expect("at most PARTS_MAX");
        self.parts.push(part);
        self.sealed_bytes += payload;
        let header = |place| members.write_of(&self.header(number, place, (payload, last), table.clone(), members));
        part.places().map(header).collect()
    }

    fn header(
        &self,
        part: u32,
        place: UnitPlace,
        (payload, last): (u64, Option<(u64, u64)>),
        table: ChecksumTable,
        members: &MemberTable,
    ) -> UnitHeader {
        UnitHeader {
            volume: members.superblock().volume,
            member: place.member,
            unit: place.unit,
            content: self.content,
            generation: self.generation,
            part,
            payload: u32::try_from(payload).expect("a unit has at most 32 MiB"),
            last,
            name: self.name.to_string(),
            table,
        }
    }

    /// Its name and content; room that was promised to it and not taken is free again.
    pub(crate) fn into_content(self, modified: u64, space: &mut FreeSpace) -> (Box<str>, StoredContent) {
        space.end_promise(self.placement, self.reserved + self.kept_for_tail);
        space.let_go(self.held);
        assert!(self.open.is_none(), "its last unit has its header");
        debug_assert!(
            stored_bytes(self.content_bytes.unwrap_or(0)) == self.sealed_bytes,
            "its units hold its bytes, zeros up to a block, and its tail"
        );
        let content = StoredContent {
            content: self.content,
            generation: self.generation,
            length: self.content_bytes.unwrap_or(0),
            modified,
            parts: self.parts.into_boxed_slice(),
        };
        (self.name, content)
    }

    /// Gives its units back, but for those that the journal still names, and all that was promised to it.
    pub(crate) fn give_back(self, named: &[UnitPlace], space: &mut FreeSpace) {
        space.end_promise(self.placement, self.reserved + self.kept_for_tail);
        space.give(self.places().filter(|place| !named.contains(place)));
        space.let_go(self.held);
    }

    /// See [`crate::Volume::leave_out`].
    pub(crate) fn leave_out(
        &mut self,
        member: MemberId,
        members: &MemberTable,
        recordings: &Recordings,
        space: &mut FreeSpace,
    ) -> Result<u64, VolumeError> {
        let is_read = members.is_readable(member);
        let (mut left_out, mut is_lost, mut doubtful) = (Vec::new(), self.is_lost, 0);
        let mut keep = |first: &mut UnitPlace, second: &mut Option<UnitPlace>, bytes: Option<u64>| {
            let copies = [Some(*first), *second].into_iter().flatten();
            let (gone, kept): (Vec<_>, Vec<_>) = copies.partition(|place| place.member == member);
            if is_read && kept.is_empty() {
                doubtful += bytes.unwrap_or(members.unit_bytes());
                return bytes.is_none().then_some(());
            }
            left_out.extend(gone);
            is_lost |= !kept.iter().any(|place| members.is_readable(place.member));
            *first = *kept.first()?;
            *second = kept.get(1).copied();
            Some(())
        };
        self.parts.retain_mut(|part| keep(&mut part.first, &mut part.second, None).is_some());
        let open =
            self.open.take_if(|open| keep(&mut open.first, &mut open.second, Some(open.checksums.bytes())).is_none());
        self.is_lost = is_lost;
        if let Some(open) = open.filter(|_| is_read) {
            left_out.extend(open.places());
            self.open = self.take_next(None, members, space).ok();
            self.is_lost |= self.open.is_none();
            self.open.iter_mut().for_each(|elsewhere| elsewhere.checksums.clone_from(&open.checksums));
        }
        // A unit that the journal names is free when the journal names it no more.
        left_out.retain(|place| !recordings.names(self.generation, *place));
        space.give(left_out);
        debug_assert!(is_read || !self.is_on(member), "the next disk of this number holds none of its copies");
        if self.is_lost { Err(VolumeError::PartLost) } else { Ok(doubtful) }
    }

    /// The parts to read of a recording that was taken up ([`crate::Volume::take_up_recordings`]).
    #[must_use]
    pub fn reader(&self, members: &MemberTable) -> Restore {
        let readable = |member: MemberId| members.is_readable(member).then(|| members.areas(member));
        Restore {
            volume: members.superblock().volume,
            areas: members.ids().map(readable).collect(),
            unit_bytes: members.unit_bytes(),
            content: self.content,
            generation: self.generation,
            length: self.sealed_bytes,
            parts: self.parts.clone(),
        }
    }

    /// A recording that was taken up was read: it can be ended now as any other. Gives headers that are to be written, and how many
    /// bytes of it could not be read, or differ from those written: the last part is left out then, any other is damaged.
    pub fn restore(&mut self, restored: Restored, members: &MemberTable) -> (Vec<DiskWrite>, u64) {
        debug_assert!(
            self.open.is_none() && self.table.is_empty(),
            "a recording is restored once, before it gets bytes"
        );
        debug_assert!(self.parts.len() <= restored.tables.len() + 1, "its parts were read");
        let unit_bytes = members.unit_bytes();
        let length = self.sealed_bytes;
        let last = self.parts.pop();
        self.sealed_bytes = u64::try_from(self.parts.len()).expect("at most PARTS_MAX") * unit_bytes;
        let (mut headers, mut lost) = (Vec::new(), 0);
        for (number, (part, table)) in (0u32..).zip(self.parts.iter().zip(restored.tables)) {
            let Some((table, has_headers)) = table else {
                // No checksum agrees with bytes that are wrong: reads find them.
                self.table.resize(self.table.len() + checksums_of(unit_bytes), 0);
                lost += unit_bytes;
                continue;
            };
            self.table.extend(&table.0);
            for place in part.places().filter(|place| !has_headers.contains(place)) {
                let header = self.header(number, place, (unit_bytes, None), table.clone(), members);
                headers.push(members.write_of(&header));
            }
        }
        match last.zip(restored.last) {
            Some((StoredPart { first, second, .. }, checksums)) => {
                self.open = Some(OpenUnit { first, second, checksums });
            }
            None => lost += length - self.sealed_bytes,
        }
        (headers, lost)
    }
}

fn checksums_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("at most 32 MiB").div_ceil(CHECKED_BYTES)
}
