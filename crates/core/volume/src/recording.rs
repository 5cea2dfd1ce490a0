//! Recordings that are not over: the journal says how much of each is durable, and a start makes contents of them.
//!
//! Promise: a stretch is entered when all its disks have made it durable, with the checksum of its last part, so that a start finds
//! the bytes written, or leaves them out. A unit that the journal names goes to no other content before a commit frees it.
//! Not here: when the bytes received are durable (`drafts`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::changes::PendingChanges;
use crate::content::{StoredContent, StoredPart, UnitPlace};
use crate::disk::ReadDisk;
use crate::record::{Record, Recorded};
use crate::unit::{ChecksumTable, Checksums, UnitHeader};
use crate::{Areas, BLOCK_BYTES, BLOCK_LEN, MemberId, VolumeId};

/// Payload bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Recordings that are not over, as the journal has them, or will have them with the next commit, by their generations.
#[derive(Debug, Default)]
pub(crate) struct Recordings(BTreeMap<u64, Recorded>);

impl Recordings {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Recorded> {
        self.0.values()
    }

    pub(crate) fn generations(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// Bytes that the content of a recording will take in a checkpoint, as it is known.
    pub(crate) fn bytes_of(&self, generation: u64) -> usize {
        self.0.get(&generation).map_or(0, Recorded::bytes)
    }

    /// Replays `Recorded`. None if it makes no sense.
    pub(crate) fn replay(&mut self, from: u32, name: Box<str>, mut content: StoredContent) -> Option<()> {
        let before = self.0.remove(&content.generation);
        let before = before.as_ref().map_or(&[][..], |recorded| &recorded.content.parts);
        let same = before.get(..usize::try_from(from).ok()?)?;
        content.parts = same.iter().chain(&content.parts).copied().collect();
        self.0.insert(content.generation, Recorded { name, content });
        Some(())
    }

    /// Replays that a recording is a content, or is given up. None if there is none.
    pub(crate) fn remove(&mut self, generation: u64) -> Option<Recorded> {
        self.0.remove(&generation)
    }

    /// More of a recording is on its disks. Durable with the next commit.
    pub(crate) fn enter(&mut self, new: Recorded, changes: &mut PendingChanges) {
        let old = self.0.remove(&new.content.generation);
        debug_assert!(
            old.as_ref().is_none_or(|old| old.content.length <= new.content.length),
            "durable bytes of a recording stay so"
        );
        let known = old.as_ref().map_or(&[][..], |old| &old.content.parts);
        let same = known.iter().zip(&new.content.parts).take_while(|(old, new)| old == new).count();
        let parts = new.content.parts[same..].into();
        let from = u32::try_from(same).expect("a draft has at most 4 million parts");
        changes.record(&Record::Recorded(from, new.name.clone(), StoredContent { parts, ..new.content.clone() }));
        // A part that continued elsewhere, since its disk is only read.
        if let Some(old) = old {
            retire_all_but(&new.content, old.content, changes);
        }
        self.0.insert(new.content.generation, new);
    }

    /// It is a content now.
    pub(crate) fn end(&mut self, content: &StoredContent, changes: &mut PendingChanges) {
        if let Some(recorded) = self.0.remove(&content.generation) {
            retire_all_but(content, recorded.content, changes);
        }
    }

    /// Nothing of it is to be left. Gives the units that the journal still names, which are free when it does not.
    pub(crate) fn give_up(&mut self, generation: u64, changes: &mut PendingChanges) -> Vec<UnitPlace> {
        let Some(recorded) = self.0.remove(&generation) else { return Vec::new() };
        changes.record(&Record::GivenUp(generation));
        let units: Vec<_> = recorded.places().collect();
        changes.retire_units(units.clone(), Arc::new(recorded.content));
        units
    }

    /// True if the journal names a unit for a recording.
    pub(crate) fn names(&self, generation: u64, place: UnitPlace) -> bool {
        self.0.get(&generation).is_some_and(|recorded| recorded.places().any(|other| other == place))
    }

    /// A disk is out: the disk that comes in its place holds nothing of the recordings. A part that is nowhere else stays named.
    pub(crate) fn leave_out(&mut self, member: MemberId) {
        for part in self.0.values_mut().flat_map(|recorded| &mut recorded.content.parts) {
            let kept: Vec<_> = part.places().filter(|place| place.member != member).collect();
            if let Some(first) = kept.first() {
                (part.first, part.second) = (*first, kept.get(1).copied());
            }
        }
    }
}

/// Retires the units of `old` that `new`, the same content later, does not lie in. A unit stays with its part.
fn retire_all_but(new: &StoredContent, old: StoredContent, changes: &mut PendingChanges) {
    let stays = |number: usize, place: UnitPlace| {
        new.parts.get(number).is_some_and(|part: &StoredPart| part.places().any(|other| other == place))
    };
    let places =
        old.parts.iter().enumerate().flat_map(|(number, part)| part.places().map(move |place| (number, place)));
    let gone: Vec<_> = places.filter(|(number, place)| !stays(*number, *place)).map(|(_, place)| place).collect();
    if !gone.is_empty() {
        changes.retire_units(gone, Arc::new(old));
    }
}

/// The parts to read of a recording that a crash left: without the volume, which others use meanwhile.
#[derive(Debug, Clone)]
pub struct Restore {
    pub(crate) volume: VolumeId,
    /// The areas of the disks that can be read.
    pub(crate) areas: Vec<Option<Areas>>,
    pub(crate) unit_bytes: u64,
    pub(crate) content: u64,
    pub(crate) generation: u64,
    pub(crate) length: u64,
    pub(crate) parts: Vec<StoredPart>,
}

/// The result of reading it.
#[derive(Debug)]
pub struct Restored {
    /// Of each full part its checksums, and the copies that have a header; none if no copy is right.
    pub(crate) tables: Vec<Option<(ChecksumTable, Vec<UnitPlace>)>>,
    /// The checksums of the bytes that count of the last part.
    pub(crate) last: Option<Checksums>,
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
