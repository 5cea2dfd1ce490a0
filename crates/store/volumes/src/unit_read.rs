//! Reading a unit on grants: its header, and its payload if the header is the right one.
//!
//! Promise: the bytes given are the bytes written, by their checksums.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kernel::aligned::AlignedBlock;
use rustix::io::{Errno, pread};
use units::{UploadId, limits};
use volume::{Areas, BLOCK_BYTES, ChecksumTable, StoredContent, UnitPlace, Volume};

use store::buffers::{count, index};

/// A unit that is being read: its header, and the payload behind that, a run on each grant.
#[derive(Debug)]
pub(super) struct UnitRead {
    /// The copy that it is read for.
    pub(super) copy: UploadId,
    content: Arc<StoredContent>,
    part: u32,
    place: UnitPlace,
    /// Places of header and payload on the disk.
    header_at: u64,
    payload_at: u64,
    header: AlignedBlock,
    payload: AlignedBlock,
    payload_bytes: u64,
    /// Bytes of header and payload that were read.
    done: u64,
    /// Known when the header was read.
    table: Option<ChecksumTable>,
}

/// A unit's bytes.
#[derive(Debug)]
pub(super) struct UnitBytes {
    pub(super) payload: AlignedBlock,
    pub(super) table: ChecksumTable,
}

impl UnitRead {
    /// The read of the unit at `place`, with `payload_bytes` that should be part `part` of `content`.
    pub(super) fn new(
        copy: UploadId,
        content: Arc<StoredContent>,
        part: u32,
        (place, areas): (UnitPlace, Areas),
        payload_bytes: u64,
    ) -> Self {
        debug_assert!(
            usize::try_from(part).is_ok_and(|part| part < content.parts.len()),
            "a unit of a part that the content has"
        );
        debug_assert!(
            0 < payload_bytes && payload_bytes <= areas.unit_bytes,
            "a unit holds at least a byte, and its payload"
        );
        Self {
            copy,
            content,
            part,
            place,
            header_at: areas.header(place.unit),
            payload_at: areas.payload(place.unit),
            header: AlignedBlock::zeroed(index(BLOCK_BYTES)),
            payload: AlignedBlock::zeroed(index(payload_bytes)),
            payload_bytes,
            done: 0,
            table: None,
        }
    }

    /// The places and the bytes that are read next.
    pub(super) fn next_run(&self) -> (u32, u64) {
        let places = if self.done == 0 { 2 } else { 1 };
        (places, (self.total() - self.done).min(limits::RUN_BYTES_MAX))
    }

    fn total(&self) -> u64 {
        BLOCK_BYTES + count(self.payload.bytes().len())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.done == self.total()
    }

    /// Reads the next run in pieces, and calls `may_begin` before each.
    pub(super) fn read(&mut self, file: BorrowedFd<'_>, mut may_begin: impl FnMut() -> bool) -> Result<(), Errno> {
        let end = self.done + self.next_run().1;
        debug_assert!(end <= self.total(), "a run ends with the payload");
        debug_assert!(self.done < end, "a unit that was read whole is not read on");
        debug_assert!(
            self.done <= BLOCK_BYTES || self.table.is_some(),
            "payload behind a header that is another part's"
        );
        while self.done < end && may_begin() {
            let (position, run) = self.run_at(self.done);
            let length = index(run.min(end - self.done).min(limits::PIECE_BYTES_MAX));
            let (memory, from) = match self.done.checked_sub(BLOCK_BYTES) {
                None => (self.header.bytes_mut(), index(self.done)),
                Some(within) => (self.payload.bytes_mut(), index(within)),
            };
            match pread(file, &mut memory[from..from + length], position) {
                Ok(0) => return Err(Errno::IO),
                // Direct reads end at whole blocks.
                Ok(read) => self.done += count(read) / limits::DIRECT_ALIGN * limits::DIRECT_ALIGN,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// False if the header was read and is not that of the part.
    pub(super) fn may_continue(&mut self, volume: &Volume) -> bool {
        if self.done >= BLOCK_BYTES && self.table.is_none() {
            self.table = volume.members().table_of(&self.content, self.part, self.place, self.header.bytes()).ok();
        }
        self.done < BLOCK_BYTES || self.table.is_some()
    }

    /// The bytes read, if all were and their checksums are right.
    pub(super) fn into_bytes(self) -> Option<UnitBytes> {
        let whole = self.is_complete();
        let table = self.table.filter(|_| whole)?;
        table.verify(0, &self.payload.bytes()[..index(self.payload_bytes)]).ok()?;
        Some(UnitBytes { payload: self.payload, table })
    }

    /// Place on the disk of the byte at `offset` of header and payload, and how many bytes follow there without a gap.
    fn run_at(&self, offset: u64) -> (u64, u64) {
        match offset.checked_sub(BLOCK_BYTES) {
            None => (self.header_at + offset, BLOCK_BYTES - offset),
            Some(within) => (self.payload_at + within, self.total() - offset),
        }
    }
}
