//! The index of the pages: the page that holds given bytes.
//!
//! A table of buckets, each with a chain of pages (Knuth, TAOCP 3, §6.4).
//!
//! Promise: bytes are found in one page at most, in a step or two; no allocation after construction. Not here: the state of a page.

use super::{NONE, PageKey};

/// The index.
#[derive(Debug)]
pub(super) struct PageIndex {
    /// The first page of each chain.
    buckets: Box<[u32]>,
    pages: Box<[IndexedPage]>,
}

/// A page.
#[derive(Debug, Clone, Copy)]
struct IndexedPage {
    /// The bytes by which it is found.
    key: Option<PageKey>,
    /// The next one in its bucket.
    chain: u32,
}

impl PageIndex {
    /// An index of so many pages, of which none is found.
    pub(super) fn new(pages: u32) -> Self {
        let buckets = vec![NONE; pages.next_power_of_two() as usize].into_boxed_slice();
        Self { buckets, pages: vec![IndexedPage { key: None, chain: NONE }; pages as usize].into_boxed_slice() }
    }

    /// How many pages there are.
    pub(super) fn pages(&self) -> u32 {
        u32::try_from(self.pages.len()).expect("built from a u32")
    }

    /// The bytes by which a page is found.
    pub(super) fn key(&self, page: u32) -> Option<PageKey> {
        self.pages[page as usize].key
    }

    /// The page that holds (or will hold) these bytes.
    pub(super) fn find(&self, key: PageKey) -> Option<u32> {
        self.chain(self.bucket(key)).find(|&page| self.key(page) == Some(key))
    }

    /// A page is found by these bytes from now on, which no other page is.
    pub(super) fn enter(&mut self, page: u32, key: PageKey) {
        debug_assert!(self.find(key).is_none() && self.key(page).is_none(), "bytes lie in one place");
        let bucket = self.bucket(key);
        self.pages[page as usize] = IndexedPage { key: Some(key), chain: self.buckets[bucket] };
        self.buckets[bucket] = page;
    }

    /// A page is not found any more.
    pub(super) fn forget(&mut self, page: u32) {
        let IndexedPage { key: Some(key), chain: next } = self.pages[page as usize] else { return };
        let bucket = self.bucket(key);
        let before = self.chain(bucket).find(|&before| self.pages[before as usize].chain == page);
        let link = before.map_or(&mut self.buckets[bucket], |before| &mut self.pages[before as usize].chain);
        debug_assert!(*link == page, "a page with a key is in its bucket");
        *link = next;
        self.pages[page as usize].key = None;
    }

    fn chain(&self, bucket: usize) -> impl Iterator<Item = u32> {
        let link = |page: u32| (page != NONE).then_some(page);
        std::iter::successors(link(self.buckets[bucket]), move |&page| link(self.pages[page as usize].chain))
    }

    fn bucket(&self, key: PageKey) -> usize {
        // Fibonacci hashing: neighbours spread over the table.
        let mixed = (key.version.0.rotate_left(32) ^ key.index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        usize::try_from(mixed >> 32).expect("32 bits") & (self.buckets.len() - 1)
    }
}
