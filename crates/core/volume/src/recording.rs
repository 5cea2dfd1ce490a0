//! Recordings that are not over: the journal says how much of each is durable, and a start makes contents of them.
//!
//! Promise: a stretch is entered when all its disks have made it durable, with the checksum of its last part, so that a start finds
//! the bytes written, or leaves them out. A unit that the journal names goes to no other content before a commit frees it.
//! Not here: when the bytes received are durable (`drafts`).

use std::sync::Arc;

use crate::changes::RetiredUnits;
use crate::content::{StoredContent, StoredPart, UnitPlace};
use crate::disk::ReadDisk;
use crate::draft::{Draft, OpenUnit};
use crate::record::{Record, Recorded};
use crate::unit::{CHECKED_BYTES, ChecksumTable, Checksums, UnitHeader};
use crate::{Areas, BLOCK_BYTES, BLOCK_LEN, DiskWrite, MemberId, Volume, VolumeError, VolumeId};

/// Payload bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

impl Volume {
    /// The recordings that are not over, as far as they are durable, or will be with the next commit.
    pub fn recordings(&self) -> impl Iterator<Item = (&str, &StoredContent)> {
        self.recordings.values().map(|recorded| (&*recorded.name, &recorded.content))
    }

    /// True if nothing has this name, and a content may.
    #[must_use]
    pub fn is_free_name(&self, name: &str) -> bool {
        self.check_new_name(name).is_ok() && self.find(name).is_none()
    }

    /// Enters `length` bytes of a recording, which are on its disks; `digest` is the checksum of the last part's table there. Durable with
    /// the next commit.
    pub(crate) fn enter(&mut self, draft: &Draft, length: u64, digest: u32, modified: u64) -> Result<(), VolumeError> {
        self.check_changes()?;
        let count = usize::try_from(length.div_ceil(self.unit_bytes())).expect("at most PARTS_MAX");
        let open = draft.open.iter().map(|open| StoredPart { digest, first: open.first, second: open.second });
        let mut parts: Box<[StoredPart]> = draft.parts.iter().copied().chain(open).take(count).collect();
        let Some(last) = parts.last_mut() else { return Ok(()) };
        last.digest = digest;
        let content = StoredContent { content: draft.content, generation: draft.generation, length, modified, parts };
        let new = Recorded { name: draft.name.clone(), content };
        let old = self.recordings.remove(&draft.generation);
        let before = old.as_ref().map_or(0, Recorded::bytes);
        if new.bytes() > before
            && let Err(error) = self.check_catalogue_room(new.bytes())
        {
            self.recordings.extend(old.map(|old| (draft.generation, old)));
            return Err(error);
        }
        let known = old.as_ref().map_or(&[][..], |old| &old.content.parts);
        let same = known.iter().zip(&new.content.parts).take_while(|(old, new)| old == new).count();
        let parts = new.content.parts[same..].into();
        let from = u32::try_from(same).expect("at most PARTS_MAX");
        let record = Record::Recorded(from, new.name.clone(), StoredContent { parts, ..new.content.clone() });
        record.encode(&mut self.changes.records);
        // A part that continued elsewhere, since its disk is only read.
        if let Some(old) = old {
            let gone = old.places().filter(|place| !new.places().any(|other| other == *place)).collect();
            self.retire_units(gone, old.content);
        }
        self.recordings.insert(draft.generation, new);
        Ok(())
    }

    fn retire_units(&mut self, units: Vec<UnitPlace>, content: StoredContent) {
        if !units.is_empty() {
            self.changes.retired.push(RetiredUnits { units, content: Arc::new(content) });
        }
    }

    /// It is a content now.
    pub(crate) fn end_recording(&mut self, content: &StoredContent) {
        if let Some(Recorded { content: recorded, .. }) = self.recordings.remove(&content.generation) {
            let stays = |place: &UnitPlace| content.parts.iter().flat_map(StoredPart::places).any(|it| it == *place);
            let gone = recorded.parts.iter().flat_map(StoredPart::places).filter(|place| !stays(place)).collect();
            self.retire_units(gone, recorded);
        }
    }

    /// Nothing of it is to be left. Gives the units that the journal still names, which are free when it does not.
    pub(crate) fn give_up_recording(&mut self, generation: u64) -> Vec<UnitPlace> {
        let Some(recorded) = self.recordings.remove(&generation) else { return Vec::new() };
        Record::GivenUp(generation).encode(&mut self.changes.records);
        let units: Vec<_> = recorded.places().collect();
        self.retire_units(units.clone(), recorded.content);
        units
    }

    /// True if the journal names a unit for a recording.
    pub(crate) fn is_recorded(&self, generation: u64, place: UnitPlace) -> bool {
        self.recordings.get(&generation).is_some_and(|recorded| recorded.places().any(|other| other == place))
    }

    /// A disk is out: the one that comes in its place holds nothing of the recordings. A part that is nowhere else stays named.
    pub(crate) fn leave_out_of_recordings(&mut self, member: MemberId) {
        for part in self.recordings.values_mut().flat_map(|recorded| &mut recorded.content.parts) {
            let kept: Vec<_> = part.places().filter(|place| place.member != member).collect();
            if let Some(first) = kept.first() {
                (part.first, part.second) = (*first, kept.get(1).copied());
            }
        }
    }

    /// Takes up the recordings that a crash left, each as a draft: to be done once, before anything is begun. Each is to be read
    /// ([`Volume::reader_of`]), restored and ended.
    pub fn take_up_recordings(&self) -> Vec<Draft> {
        let draft = |recorded: &Recorded| {
            Draft::of_recorded(&recorded.name, &recorded.content, self.placement_of(&recorded.name))
        };
        self.recordings.values().map(draft).collect()
    }

    /// The parts to read of a recording that was taken up.
    #[must_use]
    pub fn reader_of(&self, draft: &Draft) -> Restore {
        let readable = |member: MemberId| self.is_readable(member).then(|| self.areas(member));
        Restore {
            volume: self.superblock.volume,
            areas: self.member_ids().map(readable).collect(),
            unit_bytes: self.unit_bytes(),
            content: draft.content,
            generation: draft.generation,
            length: draft.sealed_bytes,
            parts: draft.parts.clone(),
        }
    }

    /// A recording that was taken up was read: it can be ended now as any other. Gives headers that are to be written, and how many
    /// bytes of it could not be read, or differ from those written: the last part is left out then, any other is damaged.
    pub fn restore(&self, draft: &mut Draft, restored: Restored) -> (Vec<DiskWrite>, u64) {
        let unit_bytes = self.unit_bytes();
        let length = draft.sealed_bytes;
        let last = draft.parts.pop();
        draft.sealed_bytes = u64::try_from(draft.parts.len()).expect("at most PARTS_MAX") * unit_bytes;
        let (mut headers, mut lost) = (Vec::new(), 0);
        for (number, (part, table)) in (0u32..).zip(draft.parts.iter().zip(restored.tables)) {
            let Some((table, has_headers)) = table else {
                // No checksum agrees with bytes that are wrong: reads find them.
                draft.table.resize(draft.table.len() + checksums_of(unit_bytes), 0);
                lost += unit_bytes;
                continue;
            };
            draft.table.extend(&table.0);
            for place in part.places().filter(|place| !has_headers.contains(place)) {
                headers.push(self.header_of(draft, number, place, table.clone(), unit_bytes));
            }
        }
        match last.zip(restored.last) {
            Some((StoredPart { first, second, .. }, checksums)) => {
                draft.open = Some(OpenUnit { first, second, checksums });
            }
            None => lost += length - draft.sealed_bytes,
        }
        (headers, lost)
    }

    fn header_of(
        &self,
        draft: &Draft,
        part: u32,
        place: UnitPlace,
        table: ChecksumTable,
        unit_bytes: u64,
    ) -> DiskWrite {
        self.write_of(&UnitHeader {
            volume: self.superblock.volume,
            member: place.member,
            unit: place.unit,
            content: draft.content,
            generation: draft.generation,
            part,
            payload: u32::try_from(unit_bytes).expect("at most 32 MiB"),
            last: None,
            name: draft.name.to_string(),
            table,
        })
    }
}

fn checksums_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("at most 32 MiB").div_ceil(CHECKED_BYTES)
}

/// The parts to read of a recording that a crash left: without the volume, which others use meanwhile.
#[derive(Debug, Clone)]
pub struct Restore {
    volume: VolumeId,
    /// The areas of the disks that can be read.
    areas: Vec<Option<Areas>>,
    unit_bytes: u64,
    content: u64,
    generation: u64,
    length: u64,
    parts: Vec<StoredPart>,
}

/// The result of reading it.
#[derive(Debug)]
pub struct Restored {
    /// Of each full part its checksums, and the copies that have a header; none if no copy is right.
    tables: Vec<Option<(ChecksumTable, Vec<UnitPlace>)>>,
    /// The checksums of the bytes that count of the last part.
    last: Option<Checksums>,
}

impl Restored {
    /// True if of each part a copy is right.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.last.is_some() && self.tables.iter().all(Option::is_some)
    }
}

impl Restore {
    /// Reads it. `disks` counts the disks as the volume does. The headers of full units give their checksums; for the last one, and where a
    /// crash came before the header, the payload gives them.
    pub fn read(&self, disks: &mut impl ReadDisk) -> Restored {
        let full = self.parts.len().saturating_sub(1);
        let table = |(number, part): (u32, &StoredPart)| {
            let headers: Vec<_> =
                part.places().filter_map(|place| Some((place, self.header(number, part, place, disks)?))).collect();
            let places = headers.iter().map(|(place, _)| *place).collect();
            let told = headers.into_iter().next().map(|(_, table)| table);
            let table = told.or_else(|| Some(self.payload(part, self.unit_bytes, disks)?.finish()))?;
            Some((table, places))
        };
        let tables = (0u32..).zip(&self.parts[..full]).map(table).collect();
        let last = self.parts.last().and_then(|last| {
            let before = u64::try_from(full).ok()? * self.unit_bytes;
            self.payload(last, self.length.checked_sub(before)?, disks)
        });
        Restored { tables, last }
    }

    fn areas(&self, place: UnitPlace) -> Option<&Areas> {
        self.areas.get(place.member.index()).and_then(Option::as_ref)
    }

    fn header(
        &self,
        number: u32,
        part: &StoredPart,
        place: UnitPlace,
        disks: &mut impl ReadDisk,
    ) -> Option<ChecksumTable> {
        let mut block = vec![0; BLOCK_LEN];
        disks.read(place.member.index(), self.areas(place)?.header(place.unit), &mut block).ok()?;
        let header = UnitHeader::decode(&block)?;
        let named = (header.volume, header.member, header.unit, header.content, header.generation, header.part)
            == (self.volume, place.member, place.unit, self.content, self.generation, number);
        let right = named && header.table.digest() == part.digest && u64::from(header.payload) == self.unit_bytes;
        right.then_some(header.table)
    }

    /// The checksums of the first copy with its first `length` bytes as written.
    fn payload(&self, part: &StoredPart, length: u64, disks: &mut impl ReadDisk) -> Option<Checksums> {
        part.places().find_map(|place| {
            let start = self.areas(place)?.payload(place.unit);
            let (mut checksums, mut offset) = (Checksums::default(), 0);
            while offset < length {
                let counted = READ_BYTES.min(length - offset);
                let mut buffer = vec![0; usize::try_from(counted.next_multiple_of(BLOCK_BYTES)).ok()?];
                disks.read(place.member.index(), start + offset, &mut buffer).ok()?;
                checksums.add(&buffer[..usize::try_from(counted).ok()?]);
                offset += counted;
            }
            (checksums.clone().finish().digest() == part.digest).then_some(checksums)
        })
    }
}
