//! Contents of the plane's arena: not the bytes, but for every 4 KiB page which content version and offset they are of.
//!
//! Promise: [`Arena::check_range`] is true only if the bytes are exactly those of that version at that offset, wholly
//! read; a page being read into is owned by that one read. Not here: the right to send bytes (`laws`).

use content::LITERAL_BYTES;
use dataplane::port::{Chunks, STEP_CHUNKS, Span};
use units::{ContentVersion, limits};

/// Bytes of one page: direct reads begin and end on it.
pub(crate) const PAGE_BYTES: u64 = limits::DIRECT_ALIGN;

/// Content of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageContent {
    /// No memory is there.
    Absent,
    /// Nothing that anybody may send.
    Unknown,
    /// A read into it is under way.
    Reading,
    /// `valid` bytes of `version` from `number × PAGE_BYTES`.
    Holds { version: u32, number: u32, valid: u16 },
}

/// The provenance of every page, and the literal areas' bytes.
#[derive(Debug)]
pub(crate) struct SimArena {
    chunk_bytes: u64,
    pages: Vec<PageContent>,
    /// Sends in flight that name the page.
    senders: Vec<u16>,
    literals: Vec<Literal>,
}

/// One stream's literal area.
#[derive(Debug, Clone, Default)]
struct Literal {
    bytes: Box<[u8]>,
    /// Sends in flight that name it.
    senders: u16,
}

/// Why an access of the arena is wrong: always a fault of the plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArenaError(pub(crate) String);

impl SimArena {
    pub(crate) fn new(chunk_count: u32) -> Self {
        let chunk_bytes = u64::from(chunk_count) * limits::CHUNK_BYTES;
        let pages = usize::try_from(chunk_bytes / PAGE_BYTES).expect("an arena fits the address space");
        let step = u64::from(STEP_CHUNKS) * limits::CHUNK_BYTES / PAGE_BYTES;
        Self {
            chunk_bytes,
            pages: (0..pages as u64)
                .map(|page| if page < step { PageContent::Unknown } else { PageContent::Absent })
                .collect(),
            senders: vec![0; pages],
            literals: vec![Literal::default(); limits::STREAMS_MAX],
        }
    }

    /// These chunks have memory from now on.
    pub(crate) fn bring_in(&mut self, chunks: Chunks) -> Result<(), ArenaError> {
        let pages = self.chunk_pages(chunks)?;
        if self.pages[pages.clone()].iter().any(|page| *page != PageContent::Absent) {
            return Err(ArenaError(format!("memory brought in that is there: {chunks:?}")));
        }
        self.pages[pages].fill(PageContent::Unknown);
        Ok(())
    }

    /// These chunks have no memory any more.
    pub(crate) fn give_back(&mut self, chunks: Chunks) -> Result<(), ArenaError> {
        let pages = self.chunk_pages(chunks)?;
        let in_use = pages.clone().any(|page| self.senders[page] > 0 || self.pages[page] == PageContent::Reading);
        if in_use || self.pages[pages.clone()].contains(&PageContent::Absent) {
            return Err(ArenaError(format!("memory given back that is in use, or not there: {chunks:?}")));
        }
        self.pages[pages].fill(PageContent::Absent);
        Ok(())
    }

    fn chunk_pages(&self, chunks: Chunks) -> Result<std::ops::Range<usize>, ArenaError> {
        let page =
            |chunk: u32| usize::try_from(u64::from(chunk) * limits::CHUNK_BYTES / PAGE_BYTES).unwrap_or(usize::MAX);
        let range = page(chunks.first)..page(chunks.first.saturating_add(chunks.count));
        if range.end > self.pages.len() || range.is_empty() {
            return Err(ArenaError(format!("not chunks of the arena: {chunks:?}")));
        }
        Ok(range)
    }

    /// True if the span lies behind the chunks.
    pub(crate) fn is_literal(&self, span: Span) -> bool {
        span.offset >= self.chunk_bytes
    }

    /// A read takes possession of its pages.
    pub(crate) fn begin_read(&mut self, span: Span) -> Result<(), ArenaError> {
        let pages = self.page_range(span)?;
        if !span.offset.is_multiple_of(PAGE_BYTES) || !u64::from(span.length).is_multiple_of(PAGE_BYTES) {
            return Err(ArenaError(format!("a read into memory that is not aligned: {span:?}")));
        }
        for page in pages {
            if matches!(self.pages[page], PageContent::Reading | PageContent::Absent) || self.senders[page] > 0 {
                return Err(ArenaError(format!("a read into memory in use: {span:?}, page {page}")));
            }
            self.pages[page] = PageContent::Reading;
        }
        Ok(())
    }

    /// A read is over: `bytes` of `version` from `offset` arrived; the rest of the span holds nothing.
    pub(crate) fn end_read(&mut self, span: Span, version: ContentVersion, offset: u64, bytes: u64) {
        let first = usize::try_from(span.offset / PAGE_BYTES).unwrap_or(usize::MAX);
        let pages = usize::try_from(u64::from(span.length) / PAGE_BYTES).unwrap_or(0);
        let version = u32::try_from(version.0).expect("the simulator numbers its contents from 1");
        let number = u32::try_from(offset / PAGE_BYTES).expect("contents are below 16 TiB");
        for (step, index) in (0u32..).zip(first..first + pages) {
            let valid = bytes.saturating_sub(u64::from(step) * PAGE_BYTES).min(PAGE_BYTES);
            self.pages[index] = match u16::try_from(valid) {
                Ok(0) | Err(_) => PageContent::Unknown,
                Ok(valid) => PageContent::Holds { version, number: number + step, valid },
            };
        }
    }

    /// Literal bytes replace those of their area.
    pub(crate) fn fill(&mut self, span: Span, bytes: &[u8]) -> Result<(), ArenaError> {
        let area = self.literal_area(span)?;
        if !span.offset.is_multiple_of(LITERAL_BYTES) || bytes.len() as u64 != u64::from(span.length) {
            return Err(ArenaError(format!("literal bytes must fill their area from its start: {span:?}")));
        }
        if self.literals[area].senders > 0 {
            return Err(ArenaError(format!("literal bytes replaced while they are sent: {span:?}")));
        }
        self.literals[area].bytes = bytes.into();
        Ok(())
    }

    /// The literal bytes of a span.
    pub(crate) fn literal(&self, span: Span) -> Result<&[u8], ArenaError> {
        let area = self.literal_area(span)?;
        let from = usize::try_from((span.offset - self.chunk_bytes) % LITERAL_BYTES).unwrap_or(usize::MAX);
        let to = from.saturating_add(span.length as usize);
        self.literals[area]
            .bytes
            .get(from..to)
            .ok_or_else(|| ArenaError(format!("a send of literal bytes that were never filled in: {span:?}")))
    }

    /// Whether `bytes` at the arena's `at` are exactly `version`'s from `offset`.
    pub(crate) fn check_range(
        &self,
        at: u64,
        bytes: u64,
        version: ContentVersion,
        offset: u64,
    ) -> Result<(), ArenaError> {
        let mut done = 0;
        while done < bytes {
            let (place, wanted) = (at + done, offset + done);
            let within = place % PAGE_BYTES;
            let part = (PAGE_BYTES - within).min(bytes - done);
            let page = usize::try_from(place / PAGE_BYTES).ok().and_then(|p| self.pages.get(p));
            let right = matches!(page, Some(PageContent::Holds { version: v, number, valid })
                if u64::from(*v) == version.0
                    && u64::from(*number) * PAGE_BYTES + within == wanted
                    && within + part <= u64::from(*valid));
            if !right {
                return Err(ArenaError(format!(
                    "wrong bytes: arena {place} should hold content {} from {wanted} ({part} bytes), holds {page:?}",
                    version.0
                )));
            }
            done += part;
        }
        Ok(())
    }

    /// A send names these pages until [`Self::end_send`].
    pub(crate) fn begin_send(&mut self, span: Span) -> Result<(), ArenaError> {
        if self.is_literal(span) {
            self.literal(span)?;
            let area = self.literal_area(span)?;
            self.literals[area].senders += 1;
            return Ok(());
        }
        for page in self.page_range(span)? {
            self.senders[page] += 1;
        }
        Ok(())
    }

    /// The send is over.
    pub(crate) fn end_send(&mut self, span: Span) {
        if let Ok(area) = self.literal_area(span) {
            self.literals[area].senders -= 1;
        } else if let Ok(pages) = self.page_range(span) {
            for page in pages {
                self.senders[page] -= 1;
            }
        }
    }

    fn page_range(&self, span: Span) -> Result<std::ops::Range<usize>, ArenaError> {
        let end = span.offset.saturating_add(u64::from(span.length));
        if span.length == 0 || u64::from(span.length) > limits::CHUNK_BYTES || end > self.chunk_bytes {
            return Err(ArenaError(format!("not a run of the arena's chunks: {span:?} of {} bytes", self.chunk_bytes)));
        }
        let page = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
        Ok(page(span.offset / PAGE_BYTES)..page(end.div_ceil(PAGE_BYTES)))
    }

    fn literal_area(&self, span: Span) -> Result<usize, ArenaError> {
        let wrong = || ArenaError(format!("not inside one stream's literal area: {span:?}"));
        let offset = span.offset.checked_sub(self.chunk_bytes).ok_or_else(wrong)?;
        let inside = span.length > 0 && offset % LITERAL_BYTES + u64::from(span.length) <= LITERAL_BYTES;
        let area = usize::try_from(offset / LITERAL_BYTES).map_err(|_| wrong())?;
        if inside && area < self.literals.len() { Ok(area) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: ContentVersion = ContentVersion(3);

    fn span(offset: u64, length: u32) -> Span {
        Span { offset, length }
    }

    #[test]
    fn only_the_right_bytes_pass() {
        let mut arena = SimArena::new(2);
        arena.begin_read(span(8192, 8192)).expect("free");
        assert!(arena.check_range(8192, 1, V, 4096).is_err(), "not there yet");
        arena.end_read(span(8192, 8192), V, 4096, 5000);
        assert_eq!(arena.check_range(8192, 5000, V, 4096), Ok(()));
        assert_eq!(arena.check_range(8192 + 100, 4900, V, 4196), Ok(()));
        assert!(arena.check_range(8192, 5001, V, 4096).is_err(), "more than was read");
        assert!(arena.check_range(8192, 100, V, 4097).is_err(), "another offset");
        assert!(arena.check_range(8192, 100, ContentVersion(4), 4096).is_err(), "another version");
        assert!(arena.check_range(4096, 100, V, 0).is_err(), "never read");
    }

    #[test]
    fn memory_in_use_is_not_read_into() {
        let mut arena = SimArena::new(1);
        arena.begin_read(span(0, 4096)).expect("free");
        assert!(arena.begin_read(span(0, 8192)).is_err(), "a read is under way");
        arena.end_read(span(0, 4096), V, 0, 4096);
        arena.begin_send(span(100, 10)).expect("there");
        arena.begin_send(span(200, 10)).expect("shared");
        arena.end_send(span(100, 10));
        assert!(arena.begin_read(span(0, 4096)).is_err(), "one send still names it");
        arena.end_send(span(200, 10));
        arena.begin_read(span(0, 4096)).expect("free again");
        assert!(arena.begin_read(span(limits::CHUNK_BYTES - 4096, 8192)).is_err(), "beyond the chunks");
        assert!(arena.begin_read(span(4096, 100)).is_err(), "not aligned");
    }

    #[test]
    fn memory_that_is_not_there_is_not_read_into_and_memory_in_use_stays() {
        let step = u64::from(STEP_CHUNKS) * limits::CHUNK_BYTES;
        let mut arena = SimArena::new(2 * STEP_CHUNKS);
        let second = Chunks { first: STEP_CHUNKS, count: STEP_CHUNKS };
        assert!(arena.begin_read(span(step, 4096)).is_err());
        arena.bring_in(second).expect("absent");
        assert!(arena.bring_in(second).is_err());
        arena.begin_read(span(step, 4096)).expect("there");
        assert!(arena.give_back(second).is_err(), "it is read into");
        arena.end_read(span(step, 4096), V, 0, 4096);
        arena.give_back(second).expect("nobody uses it");
        assert!(arena.check_range(step, 4096, V, 0).is_err() && arena.begin_read(span(step, 4096)).is_err());
    }

    #[test]
    fn literals_are_kept_byte_for_byte() {
        let mut arena = SimArena::new(1);
        let area = limits::CHUNK_BYTES + LITERAL_BYTES;
        assert!(arena.begin_send(span(area, 3)).is_err(), "nothing filled in");
        arena.fill(span(area, 5), b"hello").expect("inside");
        assert_eq!(arena.literal(span(area + 1, 3)), Ok(&b"ell"[..]));
        assert!(arena.literal(span(area + 1, 5)).is_err());
        assert!(arena.fill(span(area + 1, 5), b"hello").is_err());
        arena.begin_send(span(area, 5)).expect("there");
        assert!(arena.fill(span(area, 5), b"other").is_err(), "it is being sent");
        arena.end_send(span(area, 5));
        arena.fill(span(area, 5), b"other").expect("free again");
    }
}
