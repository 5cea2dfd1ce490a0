//! A draft: a content that is being written. It is in no catalogue before it is published; a crash leaves its units free.

use std::sync::Arc;

use crate::catalogue::{StoredContent, StoredPart, UnitPlace};
use crate::layout::choose;
use crate::record::{Record, put_bytes};
use crate::unit::{ChecksumTable, UnitHeader};
use crate::{DiskWrite, MemberId, Volume, VolumeError};

/// Units of a content at most: its record fits into a frame of the journal.
const PARTS_MAX: usize = 4_000_000;

/// A content that is being written. Publish it or give it back with [`Volume::abandon`]: its units are not free before.
#[derive(Debug)]
pub struct Draft {
    name: Box<str>,
    content: u64,
    generation: u64,
    length: u64,
    parts: Vec<StoredPart>,
    /// The unit that was taken and is not sealed yet.
    open: Option<(UnitPlace, Option<UnitPlace>)>,
    /// Parts that are reserved for it and not taken yet.
    reserved: u64,
}

/// Where the payload of a part is to be written: all copies alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitWrite {
    /// Which part of the content.
    pub part: u32,
    /// For each copy: the disk, and the position of the payload's first byte.
    pub copies: Vec<(MemberId, u64)>,
}

impl Draft {
    /// The name it will have.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes in the units that are sealed.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }
}

impl Volume {
    /// Begins a content, which replaces the one of this name when it is published. Where its length is known, room for it is
    /// reserved.
    ///
    /// # Errors
    /// The name is not possible; there is no room for the length; the volume takes no changes.
    pub fn begin(&mut self, name: &str, length: Option<u64>) -> Result<Draft, VolumeError> {
        self.check_new_name(name)?;
        let parts = length.map_or(0, |length| length.div_ceil(self.unit_bytes()));
        let count = usize::try_from(parts).ok().filter(|count| *count <= PARTS_MAX).ok_or(VolumeError::TooLong)?;
        self.check_catalogue_room(put_bytes(name.len(), count))?;
        self.reuse_retired();
        if parts > self.parts_left() || self.parts_left() == 0 && length != Some(0) {
            return Err(VolumeError::Full);
        }
        let generation = self.new_number()?;
        let content = self.catalogue.find(name).map_or(generation, |old| old.content);
        self.reserved += parts;
        let name = Box::from(name);
        Ok(Draft { name, content, generation, length: 0, parts: Vec::new(), open: None, reserved: parts })
    }

    /// Takes the unit for the next part. Write its payload, then [`Volume::seal`] it.
    ///
    /// # Errors
    /// The volume is full; the content is too long.
    pub fn next_unit(&mut self, draft: &mut Draft) -> Result<UnitWrite, VolumeError> {
        assert!(draft.open.is_none(), "a unit is sealed before the next is taken");
        if draft.parts.len() >= PARTS_MAX {
            return Err(VolumeError::TooLong);
        }
        if draft.reserved == 0 && self.parts_left() == 0 {
            self.reuse_retired();
            if self.parts_left() == 0 {
                return Err(VolumeError::Full);
            }
        }
        let part = u32::try_from(draft.parts.len()).expect("at most PARTS_MAX");
        let before = draft.parts.last().map(|part| part.first.member.index());
        let chosen = choose(self.placement(), &self.free_counts(), draft.content + u64::from(part), before);
        let (first, second) = chosen.and_then(|chosen| self.take_units(chosen)).ok_or(VolumeError::Full)?;
        if draft.reserved > 0 {
            draft.reserved -= 1;
            self.reserved -= 1;
        }
        draft.open = Some((first, second));
        let payload = |place: UnitPlace| (place.member, self.areas(place.member).payload(place.unit));
        Ok(UnitWrite { part, copies: [Some(first), second].into_iter().flatten().map(payload).collect() })
    }

    /// Ends the part whose payload was written: gives the headers to write. All parts but the last must be full; `last` is when
    /// the content was modified, in nanoseconds since 1970, if this is the last.
    pub fn seal(&self, draft: &mut Draft, payload: u32, table: ChecksumTable, last: Option<u64>) -> Vec<DiskWrite> {
        let (first, second) = draft.open.take().expect("a unit was taken");
        let part = StoredPart { digest: table.digest(), first, second };
        let mut header = UnitHeader {
            volume: self.superblock.volume,
            member: first.member,
            unit: first.unit,
            content: draft.content,
            generation: draft.generation,
            part: u32::try_from(draft.parts.len()).expect("at most PARTS_MAX"),
            payload,
            last,
            name: draft.name.to_string(),
            table,
        };
        draft.parts.push(part);
        draft.length += u64::from(payload);
        let mut write = |place: UnitPlace| {
            header.member = place.member;
            header.unit = place.unit;
            let position = self.areas(place.member).header(place.unit);
            DiskWrite { member: place.member, position, bytes: header.encode() }
        };
        part.places().map(&mut write).collect()
    }

    /// Gives the content its name, once all writes of the draft are complete. It is visible at once and durable with the
    /// next commit. What had the name is free when that is durable and nobody reads it any more.
    ///
    /// # Errors
    /// A disk was taken out that held the only copy of a part; a name on the way to it became a content; the catalogue is
    /// full. The draft's units are free again.
    pub fn publish(&mut self, mut draft: Draft, modified: u64) -> Result<Arc<StoredContent>, VolumeError> {
        let checked = self.check_new_name(&draft.name).and_then(|()| {
            self.check_catalogue_room(put_bytes(draft.name.len(), draft.parts.len()))?;
            draft.parts.iter_mut().try_for_each(|part| self.keep_written_copies(part))
        });
        if let Err(error) = checked {
            self.abandon(draft);
            return Err(error);
        }
        self.reserved -= draft.reserved;
        let content = StoredContent {
            content: draft.content,
            generation: draft.generation,
            length: draft.length,
            modified,
            parts: draft.parts.into_boxed_slice(),
        };
        self.dirty.extend(content.parts.iter().flat_map(StoredPart::places).map(|place| place.member));
        Record::Put(draft.name.clone(), content.clone()).encode(&mut self.staged);
        let content = Arc::new(content);
        if let Some(old) = self.catalogue.insert(draft.name, Arc::clone(&content)) {
            self.retire(old);
        }
        Ok(content)
    }

    /// Gives up a draft: its units are free at once. All writes to them must be complete.
    pub fn abandon(&mut self, draft: Draft) {
        self.reserved -= draft.reserved;
        let open = draft.open.into_iter().flat_map(|(first, second)| [Some(first), second]).flatten();
        for place in draft.parts.iter().flat_map(StoredPart::places).chain(open) {
            self.free[place.member.index()].give(place.unit);
        }
    }

    /// Leaves out copies on a disk that was taken out since they were written.
    fn keep_written_copies(&mut self, part: &mut StoredPart) -> Result<(), VolumeError> {
        let (kept, lost): (Vec<_>, Vec<_>) = part.places().partition(|place| self.is_writable(place.member));
        let Some(first) = kept.first() else { return Err(VolumeError::PartLost) };
        (part.first, part.second) = (*first, kept.get(1).copied());
        lost.iter().for_each(|place| self.free[place.member.index()].give(place.unit));
        Ok(())
    }
}
