//! A unit's header, and the checksums of its payload.
//!
//! Promise: the header names volume, disk, unit, content, part and generation and holds a CRC-32C for each 64 KiB of payload.
//! The catalogue keeps one checksum of that table (`digest`), so that a lost or misplaced write is found even though the unit
//! in its place is consistent in itself.

use crate::bytes::{Decoder, Encode, open_block, seal_block};
use crate::{BLOCK_LEN, MemberId, VolumeId};

const MAGIC: &[u8; 8] = b"ISOCAUNI";
/// Payload bytes under one checksum.
pub const CHECKED_BYTES: usize = 64 << 10;
const LAST: u8 = 1;

/// The checksums of a unit's payload, one for each 64 KiB; the last may be of fewer bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChecksumTable(pub(crate) Vec<u32>);

impl ChecksumTable {
    /// The number of checksums.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no checksum: the table of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One checksum of the whole table, kept in the catalogue.
    #[must_use]
    pub fn digest(&self) -> u32 {
        self.0.iter().fold(0, |sum, checksum| crc32c::crc32c_append(sum, &checksum.to_le_bytes()))
    }

    /// Verifies that `bytes`, which begin at the multiple `offset` of [`CHECKED_BYTES`] in the payload, are those written: they must end at
    /// another multiple, or at the payload's end.
    ///
    /// # Errors
    /// The offset in the payload of the first 64 KiB that differ, or that no checksum covers.
    pub fn verify(&self, offset: usize, bytes: &[u8]) -> Result<(), usize> {
        if !offset.is_multiple_of(CHECKED_BYTES) {
            return Err(offset);
        }
        let first = offset / CHECKED_BYTES;
        for (number, block) in bytes.chunks(CHECKED_BYTES).enumerate() {
            if self.0.get(first + number) != Some(&crc32c::crc32c(block)) {
                return Err((first + number) * CHECKED_BYTES);
            }
        }
        Ok(())
    }
}

/// Computes the checksums of a payload that arrives in pieces of any size.
#[derive(Debug, Clone, Default)]
pub struct Checksums {
    whole: Vec<u32>,
    current: u32,
    filled: usize,
}

impl Checksums {
    /// Adds the next bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHECKED_BYTES - self.filled));
            self.current = crc32c::crc32c_append(self.current, now);
            self.filled += now.len();
            bytes = later;
            if self.filled == CHECKED_BYTES {
                self.close();
            }
        }
    }

    /// The table of the added bytes.
    #[must_use]
    pub fn finish(mut self) -> ChecksumTable {
        if self.filled > 0 {
            self.close();
        }
        ChecksumTable(self.whole)
    }

    /// Number of added bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.whole.len() * CHECKED_BYTES + self.filled).expect("at most 32 MiB")
    }

    fn close(&mut self) {
        self.whole.push(std::mem::take(&mut self.current));
        self.filled = 0;
    }
}

/// The header of a unit: its identity, from which a lost catalogue can be rebuilt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitHeader {
    /// The volume.
    pub volume: VolumeId,
    /// The disk that it was written to.
    pub member: MemberId,
    /// The number of the unit on that disk.
    pub unit: u32,
    /// Identifier of the content; a replacement of the content keeps it.
    pub content: u64,
    /// The version of the content; never used twice.
    pub generation: u64,
    /// The number of the part in the content, from 0.
    pub part: u32,
    /// Length of the payload in bytes, 1 to the unit's size.
    pub payload: u32,
    /// In the last part only: the time when the content was modified, in nanoseconds since 1970, and its bytes without the tail.
    pub last: Option<(u64, u64)>,
    /// The content's name when the unit was written.
    pub name: String,
    /// Checksums of the payload.
    pub table: ChecksumTable,
}

impl UnitHeader {
    /// Encodes the header as one block.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.is_covered(), "each 64 KiB of the payload have a checksum");
        debug_assert!(self.last.is_none_or(|(_, length)| length > 0), "a content without bytes has no unit");
        let mut bytes = Vec::with_capacity(BLOCK_LEN);
        bytes.put(MAGIC);
        bytes.put(&self.volume);
        bytes.put_u8(self.member.0);
        bytes.put_u8(if self.last.is_some() { LAST } else { 0 });
        bytes.put_u16(u16::try_from(self.table.0.len()).expect("at most 512 checksums in 32 MiB"));
        bytes.put_u32(self.unit);
        bytes.put_u64(self.content);
        bytes.put_u64(self.generation);
        bytes.put_u32(self.part);
        bytes.put_u32(self.payload);
        let (modified, length) = self.last.unwrap_or((0, 0));
        bytes.put_u64(modified);
        bytes.put_u64(length);
        for checksum in &self.table.0 {
            bytes.put_u32(*checksum);
        }
        bytes.put_text(&self.name);
        seal_block(&mut bytes);
        bytes
    }

    /// The header in `block`, if `block` is a valid header.
    #[must_use]
    pub fn decode(block: &[u8]) -> Option<Self> {
        let mut body = Decoder::new(open_block(block)?);
        (body.array()? == *MAGIC).then_some(())?;
        let volume = body.array()?;
        let (member, flags, checksums) = (MemberId(body.u8()?), body.u8()?, body.u16()?);
        let unit = body.u32()?;
        let (content, generation) = (body.u64()?, body.u64()?);
        let (part, payload) = (body.u32()?, body.u32()?);
        let end = (body.u64()?, body.u64()?);
        let table = (0..checksums).map(|_| body.u32()).collect::<Option<Vec<_>>>()?;
        let name = body.text()?.to_owned();
        let last = (flags & LAST != 0).then_some(end);
        let table = ChecksumTable(table);
        let header = Self { volume, member, unit, content, generation, part, payload, last, name, table };
        header.is_covered().then_some(header)
    }

    /// True if there is a payload, and the table has a checksum for each 64 KiB of it.
    fn is_covered(&self) -> bool {
        let pieces = usize::try_from(self.payload).map(|payload| payload.div_ceil(CHECKED_BYTES));
        self.payload > 0 && pieces == Ok(self.table.len())
    }
}

const _: () = assert!(88 + 512 * 4 + 2 + crate::NAME_BYTES_MAX + 4 <= BLOCK_LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_do_not_depend_on_how_the_bytes_came() {
        let bytes: Vec<u8> = (0..200_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let mut whole = Checksums::default();
        whole.add(&bytes);
        let mut pieces = Checksums::default();
        bytes.chunks(7_001).for_each(|piece| pieces.add(piece));
        let table = whole.finish();
        assert_eq!(table, pieces.finish());
        assert_eq!(table.verify(0, &bytes), Ok(()));
        let mut wrong = bytes.clone();
        wrong[140_000] ^= 4;
        assert_eq!(table.verify(0, &wrong), Err(2 * CHECKED_BYTES));
        assert_eq!(table.verify(CHECKED_BYTES, &bytes[..CHECKED_BYTES]), Err(CHECKED_BYTES));
    }
}
