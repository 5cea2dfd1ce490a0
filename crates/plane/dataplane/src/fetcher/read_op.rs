//! A read in flight: the pages it is for, the copy it reads, and its bytes so far.

use schedule::disk::health::ErrorLocation;
use units::limits::CACHE_PAGE_BYTES;
use units::{DiskId, Nanos};

use crate::cache::{Cache, Page};
use crate::port::FileSlot;

/// A read in flight, or read and not looked at yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadOp {
    /// The stream that requested it.
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

    /// Bytes of its first page before its own.
    pub(super) const fn within_page(&self) -> u64 {
        if self.count == 1 { self.offset % CACHE_PAGE_BYTES } else { 0 }
    }
}
