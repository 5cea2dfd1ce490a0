//! The tail of a content: the checksums of all its bytes in one row behind them.
//!
//! A stream verifies every byte of its content, and needs the checksums before the first one. The headers have them too, but
//! a header for each unit is a seek for each unit; the tail is one read.
//!
//! Promise: a tail is of one version of one content, or it is none.

use crate::BLOCK_BYTES;
use crate::bytes::{Decoder, Encode};
use crate::content::{StoredContent, stored_bytes};
use crate::draft::Draft;
use crate::unit::{CHECKED_BYTES, ChecksumTable};

impl StoredContent {
    /// The place of the tail in its stored bytes: start and length.
    #[must_use]
    pub const fn tail(&self) -> (u64, u64) {
        let start = self.length.next_multiple_of(BLOCK_BYTES);
        (start, stored_bytes(self.length) - start)
    }

    /// The checksums of the whole content in `tail`, which was read where [`StoredContent::tail`] says; `None` if it is damaged
    /// or of another content or version.
    #[must_use]
    pub fn checksums_in(&self, tail: &[u8]) -> Option<ChecksumTable> {
        if self.length == 0 {
            return Some(ChecksumTable(Vec::new()));
        }
        let (sum, body) = tail.split_first_chunk::<4>()?;
        let whole =
            u64::try_from(tail.len()).ok()? == self.tail().1 && u32::from_le_bytes(*sum) == crc32c::crc32c(body);
        let mut body = Decoder::new(whole.then_some(body)?);
        let named = (body.u64()?, body.u64()?) == (self.content, self.generation);
        let count = self.length.div_ceil(CHECKED_BYTES as u64);
        let table = (0..count).map(|_| body.u32()).collect::<Option<Vec<_>>>()?;
        named.then_some(ChecksumTable(table))
    }
}

impl Draft {
    /// Ends the content's own bytes and gives its tail: payload that is added to the draft like theirs, from the next block on.
    pub fn tail(&mut self) -> Vec<u8> {
        let (content, generation) = (self.content(), self.generation());
        let (length, table) = self.end_content();
        if length == 0 {
            return Vec::new();
        }
        let mut body = Vec::new();
        body.put_u64(content);
        body.put_u64(generation);
        table.iter().for_each(|sum| body.put_u32(*sum));
        debug_assert!(
            u64::try_from(table.len()) == Ok(length.div_ceil(CHECKED_BYTES as u64)),
            "a stream verifies every byte of the content"
        );
        // In front: behind its own checksum any tail would have the same one in the unit's table.
        let tail = [&crc32c::crc32c(&body).to_le_bytes()[..], &body].concat();
        debug_assert!(
            u64::try_from(tail.len()) == Ok(stored_bytes(length) - length.next_multiple_of(BLOCK_BYTES)),
            "a reader finds the tail by the content's length"
        );
        tail
    }
}
