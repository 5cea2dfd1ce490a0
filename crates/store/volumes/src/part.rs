//! Part of an upload that one disk writes: its units' payload and headers, one behind the other.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kernel::aligned::AlignedBlock;
use kernel::clock::monotonic;
use kernel::direct::DirectWriter;
use storage::grant::piece_bytes;
use storage::uploads::UploadFile;
use units::{Nanos, UploadId, limits};

use store::StoreError;
use store::buffers::Chunk;
use store::buffers::{count, index};

/// Bytes to be written at a position of the disk.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) position: u64,
    pub(super) bytes: BlockBytes,
}

/// Memory that direct writes can take.
#[derive(Debug, Clone)]
pub(super) enum BlockBytes {
    /// Payload in a client's chunk, its rest zero up to a whole direct write.
    Payload(Arc<Chunk>),
    /// A unit's header, or a piece of a content's tail.
    Made(Arc<AlignedBlock>),
}

impl Block {
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            BlockBytes::Payload(chunk) => &chunk.lease[..chunk.filled.next_multiple_of(index(limits::DIRECT_ALIGN))],
            BlockBytes::Made(block) => block.bytes(),
        }
    }

    pub(super) fn len(&self) -> u64 {
        count(self.bytes().len())
    }
}

/// An upload on one disk: the schedule sees it as a file of the blocks in their order.
#[derive(Debug)]
pub(super) struct UploadPart {
    pub(super) upload: UploadId,
    /// Not written yet.
    blocks: VecDeque<Block>,
    /// Bytes of the lost blocks, and of the first written one.
    gone: u64,
    within: u64,
}

impl UploadPart {
    pub(super) const fn new(upload: UploadId) -> Self {
        Self { upload, blocks: VecDeque::new(), gone: 0, within: 0 }
    }

    /// Bytes written.
    pub(super) const fn written(&self) -> u64 {
        self.gone + self.within
    }

    pub(super) fn push(&mut self, block: Block) {
        let is_direct = |bytes: u64| bytes.is_multiple_of(limits::DIRECT_ALIGN);
        debug_assert!(
            block.len() > 0 && is_direct(block.len()) && is_direct(block.position),
            "a direct write takes it"
        );
        self.blocks.push_back(block);
    }

    /// Writes up to `bytes`, no piece after `until`, each run of blocks that lie one behind the other at once.
    pub(super) fn write(
        &mut self,
        mut bytes: u64,
        file: BorrowedFd<'_>,
        writer: &mut DirectWriter,
        until: Nanos,
    ) -> (u64, Option<StoreError>) {
        let mut written = 0;
        while bytes > 0 && !self.blocks.is_empty() {
            let (position, slices, length) = self.run(bytes);
            let run = writer.write_run(file, position, &slices, piece_bytes(until), || monotonic() < until);
            debug_assert!(0 < length && length <= bytes && run.bytes <= length, "a run is granted, and written once");
            let whole = run.bytes - run.bytes % limits::DIRECT_ALIGN;
            self.let_go(whole);
            written += whole;
            bytes -= whole;
            if let Some(error) = run.error {
                return (written, Some(StoreError::from(error)));
            }
            if whole < length {
                break;
            }
        }
        (written, None)
    }

    /// The next blocks that lie one behind the other: position, bytes and length, at most `bytes`.
    fn run(&self, bytes: u64) -> (u64, Vec<&[u8]>, u64) {
        let first = self.blocks.front().expect("there is a block");
        debug_assert!(self.within < first.len(), "a block that is written is gone");
        let position = first.position + self.within;
        let (mut slices, mut length, mut skip) = (Vec::new(), 0, self.within);
        for block in &self.blocks {
            if length == bytes || block.position + skip != position + length {
                break;
            }
            let end = block.len().min(skip + (bytes - length));
            debug_assert!(skip < end, "a piece of a run has bytes");
            slices.push(&block.bytes()[index(skip)..index(end)]);
            length += end - skip;
            skip = 0;
        }
        (position, slices, length)
    }

    fn let_go(&mut self, mut bytes: u64) {
        debug_assert!(bytes.is_multiple_of(limits::DIRECT_ALIGN), "the next write would begin within a block");
        bytes += std::mem::take(&mut self.within);
        while let Some(first) = self.blocks.front() {
            if bytes < first.len() {
                self.within = bytes;
                return;
            }
            bytes -= first.len();
            self.gone += first.len();
            self.blocks.pop_front();
        }
        debug_assert!(bytes == 0, "more was written than there is");
    }
}

impl UploadFile for UploadPart {
    fn run_at(&self, offset: u64) -> (u64, u64) {
        debug_assert!(offset >= self.gone, "blocks that are written are gone");
        let mut start = self.gone;
        for (nth, block) in self.blocks.iter().enumerate() {
            if offset < start + block.len() {
                let position = block.position + (offset - start);
                let mut end = block.position + block.len();
                for next in self.blocks.iter().skip(nth + 1) {
                    if next.position != end {
                        return (position, end - position);
                    }
                    end += next.len();
                }
                return (position, end - position);
            }
            start += block.len();
        }
        (u64::MAX, u64::MAX)
    }
}
