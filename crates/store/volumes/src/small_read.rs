//! A small read of a disk of a volume, made by its thread on a grant.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;

use kernel::aligned::AlignedBlock;
use rustix::io::pread;

use store::buffers::count;
use units::limits;

/// A small read, for the disk's thread.
#[derive(Debug)]
pub(super) struct SmallRead {
    file: OwnedFd,
    position: u64,
    length: usize,
    reply: SyncSender<io::Result<(AlignedBlock, usize)>>,
}

impl SmallRead {
    pub(super) const fn new(
        file: OwnedFd,
        position: u64,
        length: usize,
        reply: SyncSender<io::Result<(AlignedBlock, usize)>>,
    ) -> Self {
        debug_assert!(position.is_multiple_of(limits::DIRECT_ALIGN), "a direct read begins at a whole block");
        Self { file, position, length, reply }
    }

    /// Bytes to read.
    pub(super) fn bytes(&self) -> u64 {
        count(self.length)
    }

    /// On a grant.
    pub(super) fn run(self) {
        let mut block = AlignedBlock::zeroed(self.length);
        let read = pread(&self.file, &mut block.bytes_mut()[..self.length], self.position);
        // The waiting open may have gone to another copy.
        let _ = self.reply.send(read.map(|read| (block, read)).map_err(io::Error::from));
    }
}
