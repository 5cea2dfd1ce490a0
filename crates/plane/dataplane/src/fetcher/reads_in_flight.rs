//! Reads in flight: each from its request to its last byte.
//!
//! Promise: a number names one read until it is taken out, and no more reads are out than there is room for. Not here: making them
//! (`reads`).

use schedule::disk::health::ErrorLocation;
use units::limits::CACHE_PAGE_BYTES;
use units::{DiskId, Nanos};

use super::READS_MAX;
use crate::cache::{Cache, Page};
use crate::port::{Completion, FileSlot, IoFault};

/// "No data available". Follows from the system's numbers of errors (`errno`(3)).
const ENODATA: i32 = 61;

/// A read in flight, or read and not looked at yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadOp {
    /// The stream that asked for it.
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) disk: DiskId,
    pub(super) file: FileSlot,
    pub(super) first: Page,
    pub(super) count: u32,
    pub(super) place: ErrorLocation,
    /// The copy of the content it reads, and how many were tried before.
    pub(super) copy: usize,
    pub(super) tried: usize,
    /// Offset in the content, and bytes expected there.
    pub(super) offset: u64,
    pub(super) expected: u64,
    /// Bytes that earlier, short answers to it brought.
    pub(super) got: u64,
    pub(super) real_time: bool,
    pub(super) issued: Nanos,
    pub(super) predicted: Nanos,
}

impl ReadOp {
    /// The same read, of one page into another place.
    pub(super) const fn of_one_page(self, first: Page, offset: u64, expected: u64) -> Self {
        Self { first, count: 1, offset, expected, got: 0, ..self }
    }

    /// Where in the arena its first byte comes: a part of a page lies at its place in it.
    pub(super) fn memory(&self) -> u64 {
        Cache::span(self.first).offset + self.within_page()
    }

    /// The outcome of its last answer. A disk of a volume that ends before the bytes it was given erred: the kernel gives a disk that was
    /// pulled out no length.
    pub(super) fn judge_end(&mut self, completion: Completion, is_on_volume: bool) -> Completion {
        if completion.result.is_err() || self.got >= self.expected || !is_on_volume {
            return completion;
        }
        self.got = 0;
        Completion { result: Err(IoFault::Device(ENODATA)), ..completion }
    }

    /// Bytes of its first page before its own.
    pub(super) const fn within_page(&self) -> u64 {
        if self.count == 1 { self.offset % CACHE_PAGE_BYTES } else { 0 }
    }
}

/// The reads by their numbers.
#[derive(Debug)]
pub(super) struct ReadsInFlight {
    reads: Vec<Option<ReadOp>>,
    free: Vec<u32>,
}

impl ReadsInFlight {
    pub(super) fn new() -> Self {
        let numbers = (0..READS_MAX).rev().map(|op| u32::try_from(op).expect("few"));
        Self { reads: vec![None; READS_MAX], free: numbers.collect() }
    }

    /// Reads that can be added.
    pub(super) const fn room(&self) -> usize {
        self.free.len()
    }

    /// Adds a read, for which there is room.
    pub(super) fn add(&mut self, read: ReadOp) -> u32 {
        let op = self.free.pop().expect("the caller looked for room");
        self.reads[op as usize] = Some(read);
        op
    }

    /// The read of this number, which is out.
    pub(super) fn get(&self, op: u32) -> ReadOp {
        self.find(op).expect("a read is out")
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self, op: u32) -> &mut ReadOp {
        self.reads[op as usize].as_mut().expect("a read is out")
    }

    /// Takes a read out.
    pub(super) fn take(&mut self, op: u32) -> ReadOp {
        self.free.push(op);
        self.reads[op as usize].take().expect("a read was out")
    }

    /// The read of this number, if one is out.
    pub(super) fn find(&self, op: u32) -> Option<ReadOp> {
        self.reads[op as usize]
    }

    /// The reads that are out.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ReadOp> {
        // The table is large, and is looked through at each tick while a disk is quiet.
        let count = if self.free.len() < self.reads.len() { self.reads.len() } else { 0 };
        self.reads[..count].iter().flatten()
    }
}
