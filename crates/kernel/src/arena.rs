//! The data plane's buffer memory: chunks, and behind them a literal area per stream, in one flat address space.
//!
//! Promise: present and on huge pages where that can be had, locked where permitted, and touched through raw pointers
//! only: the kernel writes into it at any time. Who may touch which byte when is the plane's business
//! (`dataplane::port`).

use std::io;

use dataplane::port::{LITERAL_BYTES, Span};
use units::limits;

use crate::mapping::Mapping;

/// The arena.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Mapping,
    chunk_count: u32,
    bytes: u64,
    /// How the memory came out.
    pub(crate) facts: ArenaFacts,
}

/// What could be had.
#[derive(Debug)]
pub(crate) struct ArenaFacts {
    /// On huge pages reserved by the administrator (else transparent ones, as far as there are any).
    pub(crate) reserved_huge_pages: bool,
    /// Why the memory is not there beforehand.
    pub(crate) not_present: Option<io::Error>,
    /// Why it is not locked.
    pub(crate) not_locked: Option<io::Error>,
}

impl Arena {
    /// Maps the arena, brings its memory in and locks it.
    ///
    /// # Errors
    /// The kernel's, if there is not that much memory.
    pub(crate) fn new(chunk_count: u32) -> io::Result<Self> {
        let streams = u64::try_from(limits::STREAMS_MAX).expect("a small constant");
        let bytes = u64::from(chunk_count) * limits::CHUNK_BYTES + streams * LITERAL_BYTES;
        let length = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let reserved = Mapping::new(length, true).ok().filter(|memory| memory.populate().is_ok());
        let reserved_huge_pages = reserved.is_some();
        let memory = reserved.map_or_else(|| Mapping::new(length, false), Ok)?;
        let not_present = if reserved_huge_pages { None } else { memory.populate().err() };
        if let Some(error) = &not_present
            && error.raw_os_error() == Some(libc::ENOMEM)
        {
            return Err(io::Error::from(io::ErrorKind::OutOfMemory));
        }
        let not_locked = memory.lock().err();
        Ok(Self { memory, chunk_count, bytes, facts: ArenaFacts { reserved_huge_pages, not_present, not_locked } })
    }

    pub(crate) fn chunk_count(&self) -> u32 {
        self.chunk_count
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first byte of `span`, which lies in the arena (checked) and may be written by the kernel at any time.
    pub(crate) fn at(&self, span: Span) -> *mut u8 {
        let end = span.offset.checked_add(u64::from(span.length));
        assert!(
            end.is_some_and(|end| end <= self.bytes) && u64::from(span.length) <= limits::CHUNK_BYTES,
            "{span:?} lies outside of the arena's {} bytes",
            self.bytes
        );
        let offset = usize::try_from(span.offset).expect("the arena is mapped, so its offsets fit");
        // SAFETY: checked above; the mapping holds at least `bytes` bytes.
        unsafe { self.memory.base().as_ptr().add(offset) }
    }

    /// Copies `bytes` to the start of `span`.
    pub(crate) fn fill(&self, span: Span, bytes: &[u8]) {
        assert!(
            bytes.len() <= usize::try_from(span.length).expect("usize holds a u32"),
            "more bytes than the span holds"
        );
        // SAFETY: `at` checked that the span lies in the arena; `bytes` is a reference, so it does not. That nothing
        // else uses the span meanwhile is the plane's promise (`dataplane::port`).
        unsafe { self.at(span).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies the start of `span` out.
    pub(crate) fn copy_out(&self, span: Span, bytes: &mut [u8]) {
        assert!(
            bytes.len() <= usize::try_from(span.length).expect("usize holds a u32"),
            "more bytes than the span holds"
        );
        // SAFETY: as in `fill`. While a read into the span is in flight the bytes are any mixture, which bytes may be.
        unsafe { self.at(span).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Puts other memory behind the whole pages of `span`, its contents lost. Whoever holds the pages that were there
    /// (sockets they were lent to) keeps them as they are.
    ///
    /// # Errors
    /// The kernel's; then the pages are as they were.
    pub(crate) fn replace(&self, span: Span) -> io::Result<()> {
        let first = self.at(span);
        let length = usize::try_from(span.length).expect("usize holds a u32");
        // SAFETY: `at` checked that the range lies in the arena. That nobody needs its bytes is the plane's promise:
        // it asked for a read into them.
        let dropped = unsafe { libc::madvise(first.cast(), length, MADV_DONTNEED_LOCKED) };
        if dropped != 0 {
            return Err(io::Error::last_os_error());
        }
        // Only a help: what is not there yet comes with the first touch.
        // SAFETY: as above; this changes no contents.
        let _ = unsafe { libc::madvise(first.cast(), length, libc::MADV_POPULATE_WRITE) };
        Ok(())
    }
}

/// Linux 5.18: as `MADV_DONTNEED`, for locked memory too.
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use super::*;

    #[test]
    fn spans_are_checked_and_hold_what_was_filled_in() {
        let arena = Arena::new(3).unwrap();
        assert_eq!(arena.bytes(), 3 * limits::CHUNK_BYTES + 8192 * LITERAL_BYTES);
        let last = Span { offset: arena.bytes() - 8, length: 8 };
        arena.fill(last, b"literal");
        let mut back = [0; 7];
        arena.copy_out(last, &mut back);
        assert_eq!(&back, b"literal");
        for outside in [Span { offset: arena.bytes() - 8, length: 9 }, Span { offset: u64::MAX, length: 1 }] {
            assert!(std::panic::catch_unwind(AssertUnwindSafe(|| arena.at(outside))).is_err());
        }
    }
}
