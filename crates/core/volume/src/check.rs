//! Check of each unit against the catalogue.
//!
//! Promise: finds every unit that was lost, torn, written elsewhere or changed: its header must name it, its table of
//! checksums must be the one of the catalogue, and, on request, its payload must agree with the table.

use crate::content::{StoredContent, UnitPlace, stored_bytes};
use crate::disk::ReadDisk;
use crate::members::MemberTable;
use crate::unit::{ChecksumTable, UnitHeader};
use crate::{BLOCK_BYTES, BLOCK_LEN};

/// Payload bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// The damage of a copy of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The disk is not there or was taken out.
    DiskMissing,
    /// The disk gives an error.
    Unreadable,
    /// There is no whole header: it was torn, or never written.
    NoHeader,
    /// The header is of another unit, content or version: a write was lost, or went elsewhere.
    WrongUnit,
    /// The payload differs from its checksum from this byte on (64 KiB are checked at once).
    Payload(u32),
}

/// A damaged copy of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedCopy {
    /// The content's name.
    pub name: String,
    /// The number of the part in it.
    pub part: u32,
    /// The unit.
    pub place: UnitPlace,
    /// Its damage.
    pub damage: Damage,
}

impl MemberTable {
    /// The checksums of the unit at `place`, which holds part `part` of `content`. `disks` counts the disks as the volume does.
    ///
    /// # Errors
    /// The unit does not agree with the catalogue.
    pub fn checksums(
        &self,
        content: &StoredContent,
        part: u32,
        place: UnitPlace,
        disks: &mut impl ReadDisk,
    ) -> Result<ChecksumTable, Damage> {
        if !self.is_readable(place.member) {
            return Err(Damage::DiskMissing);
        }
        let mut block = vec![0; BLOCK_LEN];
        let position = self.areas(place.member).header(place.unit);
        disks.read(place.member.index(), position, &mut block).map_err(|_| Damage::Unreadable)?;
        self.table_of(content, part, place, &block)
    }

    /// As [`MemberTable::checksums`], from the bytes of the header's block.
    ///
    /// # Errors
    /// The unit does not agree with the catalogue.
    pub fn table_of(
        &self,
        content: &StoredContent,
        part: u32,
        place: UnitPlace,
        block: &[u8],
    ) -> Result<ChecksumTable, Damage> {
        let header = UnitHeader::decode(block).ok_or(Damage::NoHeader)?;
        let stored = usize::try_from(part).ok().and_then(|part| content.parts.get(part)).ok_or(Damage::WrongUnit)?;
        let named = (header.volume, header.member, header.unit, header.content, header.generation, header.part)
            == (self.superblock().volume, place.member, place.unit, content.content, content.generation, part);
        let right = named
            && header.table.digest() == stored.digest
            && u64::from(header.payload) == self.part_bytes(content, part);
        if right { Ok(header.table) } else { Err(Damage::WrongUnit) }
    }

    /// Payload bytes of a part; the last ones are the tail.
    #[must_use]
    pub fn part_bytes(&self, content: &StoredContent, part: u32) -> u64 {
        stored_bytes(content.length).saturating_sub(u64::from(part) * self.unit_bytes()).min(self.unit_bytes())
    }

    /// Looks at every copy of a part: at the headers, and at the payload too for `whole`. `disks` counts the disks as the
    /// volume does.
    pub fn examine(
        &self,
        name: &str,
        content: &StoredContent,
        part: u32,
        depth: Depth,
        disks: &mut impl ReadDisk,
    ) -> Vec<DamagedCopy> {
        let stored = usize::try_from(part).ok().and_then(|part| content.parts.get(part));
        let places = stored.into_iter().flat_map(crate::StoredPart::places);
        let findings = places.filter_map(|place| {
            let outcome = self.checksums(content, part, place, disks);
            let outcome = outcome.and_then(|table| match depth {
                Depth::Headers => Ok(()),
                Depth::Payload => self.read_whole(place, self.part_bytes(content, part), &table, disks, |_| {}),
            });
            outcome.err().map(|damage| DamagedCopy { name: name.to_owned(), part, place, damage })
        });
        findings.collect()
    }

    /// Reads and verifies the payload of a unit, of which `length` bytes count, and gives it to `take` in pieces.
    ///
    /// # Errors
    /// It cannot be read, or does not agree with its checksums.
    pub fn read_whole(
        &self,
        place: UnitPlace,
        length: u64,
        table: &ChecksumTable,
        disks: &mut impl ReadDisk,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), Damage> {
        let start = self.areas(place.member).payload(place.unit);
        let mut buffer = Vec::new();
        let mut offset = 0;
        while offset < length {
            let counted = READ_BYTES.min(length - offset);
            let bytes = |count: u64| usize::try_from(count).expect("at most READ_BYTES");
            buffer.resize(bytes(counted.next_multiple_of(BLOCK_BYTES)), 0);
            disks.read(place.member.index(), start + offset, &mut buffer).map_err(|_| Damage::Unreadable)?;
            let payload = &buffer[..bytes(counted)];
            let within = usize::try_from(offset).expect("a unit has at most 32 MiB");
            table
                .verify(within, payload)
                .map_err(|offset| Damage::Payload(u32::try_from(offset).unwrap_or(u32::MAX)))?;
            take(payload);
            offset += counted;
        }
        Ok(())
    }
}

/// The depth to which a part is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The headers: one block of each unit.
    Headers,
    /// All bytes.
    Payload,
}
