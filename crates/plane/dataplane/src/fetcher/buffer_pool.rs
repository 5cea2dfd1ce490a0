//! The buffers: pages, the memory behind them, the files that they are read from, and the share of deliveries without a reservation.
//!
//! Promise: a page is given to a stream that holds it, or to a read; deliveries without a reservation hold at most their share; a file
//! stays registered while a stream or a read needs it. Not here: which pages a stream wants (`read_ahead`), reading them (`reads`).

use std::sync::Arc;

use content::{Content, FreshContent};
use units::limits::CACHE_PAGE_BYTES;
use units::{ContentVersion, Nanos};

use crate::cache::{CHUNK_PAGES, Cache, Page, PageKey, PageState};
use crate::config::PlaneConfig;
use crate::context::{PlaneContext, RequestKind};
use crate::control::Report;
use crate::cursor::{Cursor, SegmentList};
use crate::files::FileTable;
use crate::memory::ArenaMemory;
use crate::port::{Completion, FileSlot, Io};

/// Best-effort deliveries may use one part in this number of the buffers. Chosen.
pub const BEST_EFFORT_PAGES_SHARE: u32 = 8;
/// Promised pages are in memory up to this multiple of the pages in use: viewers of the same contents use little of the memory promised
/// to each, and a crowd would wait seconds for gigabytes that it never uses. Chosen.
const USED_FACTOR: u64 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct BufferPool {
    cache: Cache,
    memory: ArenaMemory,
    files: FileTable,
    /// Deliveries without a reservation, and the pages they hold.
    deliveries: u32,
    delivery_pages: u32,
}

impl BufferPool {
    pub(super) fn new(config: &PlaneConfig, chunk_count: u32, files: usize) -> Self {
        let mut cache = Cache::new(chunk_count);
        let memory = ArenaMemory::new(chunk_count, config.memory_lull, &mut cache);
        Self { cache, memory, files: FileTable::new(files), deliveries: 0, delivery_pages: 0 }
    }

    pub(super) const fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(super) fn set_clock(&mut self, now: Nanos) {
        self.cache.set_clock(now);
    }

    pub(super) fn set_obtainable(&mut self, chunks: u32) {
        self.cache.set_obtainable(chunks);
    }

    /// Pages that can be promised to guaranteed streams.
    pub(super) fn pages_to_promise(&self) -> u64 {
        u64::from(self.cache.obtainable() * CHUNK_PAGES - self.delivery_pages_max())
    }

    /// The state of a page of content, if it has a place.
    pub(super) fn state(&self, key: PageKey) -> Option<PageState> {
        self.cache.find(key).map(|page| self.cache.state(page))
    }

    /// True if all bytes of content behind a cursor are in the buffers.
    pub(super) fn has_all(&self, mut cursor: Cursor, segments: SegmentList<'_>) -> bool {
        while let Some((key, _, left)) = cursor.next_content(segments) {
            if !matches!(self.state(key), Some(PageState::Ready(_))) {
                return false;
            }
            cursor.pass(left);
        }
        true
    }

    /// True if a page of content has a place.
    pub(super) fn has(&self, key: PageKey) -> bool {
        self.cache.find(key).is_some()
    }

    /// Holds a page for one stream more; false if it has no place.
    pub(super) fn hold(&mut self, key: PageKey, is_delivery: bool) -> bool {
        let is_there = self.cache.take(key).is_some();
        self.delivery_pages += u32::from(is_there && is_delivery);
        is_there
    }

    /// Gives back a page that a stream holds.
    pub(super) fn give_back(&mut self, key: PageKey, is_delivery: bool) {
        self.cache.release(self.cache.find(key).expect("a referenced page stays"));
        self.delivery_pages -= u32::from(is_delivery);
    }

    /// Places for `count` pages from `key` on, held by one stream, each to be read in `pieces`; else a place for the first of them. A disk
    /// that spins has its pages kept longer. `None` if there is none, or if the deliveries without a reservation hold their share.
    pub(super) fn allocate(&mut self, key: PageKey, count: u32, pieces: u8, terms: PageTerms) -> Option<(Page, u32)> {
        if terms.is_delivery && self.delivery_pages >= self.delivery_pages_max() {
            return None;
        }
        let run = self.cache.allocate(key, count, pieces).map(|first| (first, count));
        let got = run.or_else(|| Some((self.cache.allocate(key, 1, pieces)?, 1)))?;
        if terms.is_kept {
            self.cache.keep(got.0);
        }
        self.delivery_pages += if terms.is_delivery { got.1 } else { 0 };
        Some(got)
    }

    /// A read of a page ended with this number of valid bytes.
    pub(super) fn read_done(&mut self, page: Page, valid: u32) {
        self.cache.read_done(page, valid);
    }

    /// A page could not be read, and no stream holds it.
    pub(super) fn read_failed(&mut self, page: Page) {
        self.cache.read_failed(page);
    }

    /// Another place for a page that streams wait for, in place of the page that a silent disk may still write.
    pub(super) fn supersede(&mut self, page: Page) -> Option<Page> {
        self.cache.supersede(page)
    }

    /// Takes the content just stored into the buffers, page by page, until there is no room.
    pub(super) fn keep<I: Io>(&mut self, stored: &FreshContent, is_kept: bool, context: &mut PlaneContext<I>) {
        let page_bytes = usize::try_from(CACHE_PAGE_BYTES).expect("a page is small");
        for (index, bytes) in (0..).zip(stored.bytes.chunks(page_bytes)) {
            let key = PageKey { version: stored.version, index };
            if self.has(key) {
                continue;
            }
            let Some(page) = self.cache.allocate(key, 1, 1) else { return };
            let is_filled = context.io.fill_page(Cache::span(page), bytes);
            if is_filled && is_kept {
                self.cache.keep(page);
            }
            self.cache.release(page);
            if is_filled {
                self.cache.read_done(page, u32::try_from(bytes.len()).expect("a page is small"));
            } else {
                self.cache.read_failed(page);
            }
        }
    }

    /// Pages that deliveries without a reservation may hold in all.
    fn delivery_pages_max(&self) -> u32 {
        self.cache.obtainable() * CHUNK_PAGES / BEST_EFFORT_PAGES_SHARE
    }

    /// Pages of their share that they do not hold.
    pub(super) fn delivery_pages_left(&self) -> u32 {
        self.delivery_pages_max().saturating_sub(self.delivery_pages)
    }

    /// Bytes of their share for each of them.
    pub(super) fn bytes_per_delivery(&self) -> u64 {
        u64::from(self.delivery_pages_max() / self.deliveries.max(1)) * CACHE_PAGE_BYTES
    }

    /// One more delivery without a reservation, which holds this number of pages.
    pub(super) fn begin_delivery(&mut self, pages: u32) {
        self.deliveries += 1;
        self.delivery_pages += pages;
    }

    /// One delivery less, which holds no page.
    pub(super) fn end_delivery(&mut self) {
        self.deliveries -= 1;
    }

    /// Brings in memory for the promised pages and for the share of best effort before they are used, or gives some back.
    pub(super) fn change_memory<I: Io>(&mut self, promised: u64, context: &mut PlaneContext<I>) {
        let in_use = u64::from(self.deliveries) * u64::from(CHUNK_PAGES);
        let best_effort = u64::from(self.delivery_pages_max()).min(in_use);
        let wanted = promised.min(USED_FACTOR * u64::from(self.cache.used())) + best_effort;
        if let Some(change) = self.memory.next_change(&mut self.cache, wanted, context.now) {
            context.io.change_memory(RequestKind::Memory.token(), change);
        }
    }

    /// A change of memory ended.
    pub(super) fn memory_changed(&mut self, completion: Completion) {
        self.memory.changed(&mut self.cache, completion.result.is_ok(), completion.at);
    }

    pub(super) fn next_wakeup(&self) -> Option<Nanos> {
        self.memory.next_wakeup()
    }

    /// True if this number of further files can be open.
    pub(super) fn has_room_for_files(&self, files: usize) -> bool {
        self.files.has_room(files)
    }

    /// Makes the files of a content usable.
    pub(super) fn open_files<I: Io>(&mut self, content: &Arc<Content>, context: &mut PlaneContext<I>) {
        for (nth, file) in (0u16..).zip(content.layout.files()) {
            if let Some(slot) = self.files.open(content, nth) {
                context.io.open_file(slot, &file.file, file.access);
            }
        }
    }

    /// A stream needs the files of its content no more.
    pub(super) fn close_files<I: Io>(&mut self, content: &Content, context: &mut PlaneContext<I>) {
        for nth in (0u16..).take(content.layout.files().len()) {
            let file = self.files.find(content.version, nth).expect("a stream's files are open");
            self.release_file(file, context);
        }
    }

    /// One more user of a file of a content, if it is open.
    pub(super) fn use_file(&mut self, version: ContentVersion, file: u16) -> Option<FileSlot> {
        let slot = self.files.find(version, file)?;
        self.files.user(slot);
        Some(slot)
    }

    /// One more user of an open file.
    pub(super) fn use_file_again(&mut self, file: FileSlot) {
        self.files.user(file);
    }

    pub(super) fn release_file<I: Io>(&mut self, file: FileSlot, context: &mut PlaneContext<I>) {
        if let Some(content) = self.files.release(file) {
            context.io.close_file(file);
            // Dropping the last reference closes the file, which may take long, so it is not done here. That others
            // hold one now does not help: they may drop theirs first.
            context.report(Report::Unused(content));
        }
    }

    /// The content of the file that is open in a slot.
    pub(super) fn content(&self, file: FileSlot) -> &Arc<Content> {
        self.files.content(file)
    }
}

/// Terms of a place for a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageTerms {
    /// It is for a delivery without a reservation.
    pub(super) is_delivery: bool,
    /// It is of a disk that spins: the page stays longer than others when no stream holds it.
    pub(super) is_kept: bool,
}
