//! The data plane's buffer memory: chunks, and behind them a literal area per stream, in one flat address space.
//!
//! Promise: chunks with memory are present, on huge pages where there are any, locked where permitted, and touched through
//! raw pointers only: the kernel writes into them at any time. The plane decides when a byte may be touched
//! (`dataplane::port`), and which chunks have memory. Not here: the thread that changes the memory (`memory_supply`).

use std::io;
use std::ops::Range;

use content::LITERAL_BYTES;
use dataplane::port::{Chunks, HUGE_PAGE_CHUNKS, STEP_CHUNKS, Span};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use units::limits;

use crate::mapping::{HUGE_PAGE_BYTES, Mapping};

const _: () = assert!(HUGE_PAGE_BYTES as u64 == HUGE_PAGE_CHUNKS as u64 * limits::CHUNK_BYTES);

/// The arena.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Mapping,
    chunk_count: u32,
    bytes: u64,
    /// Reason that memory is not locked when it is brought in.
    pub(crate) not_locked: Option<io::Error>,
}

impl Arena {
    /// Maps the arena, and brings the first step of chunks and the literal areas in.
    ///
    /// # Errors
    /// The kernel's, if address space is short, or memory for the first step.
    pub(crate) fn new(chunk_count: u32) -> io::Result<Self> {
        let streams = u64::try_from(limits::STREAMS_MAX).expect("a small constant");
        let bytes = u64::from(chunk_count) * limits::CHUNK_BYTES + streams * LITERAL_BYTES;
        let length = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut this = Self { memory: Mapping::new(length)?, chunk_count, bytes, not_locked: None };
        if !may_lock(bytes) {
            this.not_locked = Some(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        this.bring_in(Chunks { first: 0, count: chunk_count.min(STEP_CHUNKS) })?;
        let literals = this.offset(u64::from(chunk_count) * limits::CHUNK_BYTES)..length;
        this.memory.populate(literals.clone())?;
        this.not_locked = this.not_locked.take().or_else(|| this.memory.lock(literals).err());
        Ok(this)
    }

    pub(crate) fn chunk_count(&self) -> u32 {
        self.chunk_count
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives chunks memory.
    ///
    /// # Errors
    /// The kernel's, if memory is short; then the chunks have none.
    pub(crate) fn bring_in(&self, chunks: Chunks) -> io::Result<()> {
        let range = self.range(chunks);
        self.memory.populate(range.clone()).inspect_err(|_| drop(self.give_back(chunks)))?;
        self.memory.collapse(range.clone());
        if self.not_locked.is_none() {
            // Permitted at the start; if not any more, memory that may be paged out is better than none.
            let _ = self.memory.lock(range);
        }
        Ok(())
    }

    /// Gives the memory of chunks back to the system. Pages that were lent to sockets live on in those.
    ///
    /// # Errors
    /// The error that the kernel gave.
    pub(crate) fn give_back(&self, chunks: Chunks) -> io::Result<()> {
        self.memory.discard(self.range(chunks))
    }

    /// The first byte of `span`, which lies in the arena (checked) and may be written by the kernel at any time.
    pub(crate) fn at(&self, span: Span) -> *mut u8 {
        let end = span.offset.checked_add(u64::from(span.length));
        assert!(
            end.is_some_and(|end| end <= self.bytes) && u64::from(span.length) <= limits::CHUNK_BYTES,
            "{span:?} lies outside of the arena's {} bytes",
            self.bytes
        );
        // SAFETY: checked above; the mapping holds at least `bytes` bytes.
        unsafe { self.memory.base().as_ptr().add(self.offset(span.offset)) }
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

    /// Appends the bytes of `span` to `bytes`.
    pub(crate) fn append(&self, span: Span, bytes: &mut Vec<u8>) {
        let (before, length) = (bytes.len(), usize::try_from(span.length).expect("usize holds a u32"));
        bytes.reserve_exact(length);
        // SAFETY: as in `copy_out`, and the vector has room for as many bytes behind its own, which are all set before it has them.
        unsafe {
            self.at(span).copy_to_nonoverlapping(bytes.as_mut_ptr().add(before), length);
            bytes.set_len(before + length);
        }
    }

    /// Puts other memory behind the whole pages of `span`, its contents lost. Sockets to which the former pages were
    /// lent keep them as they are.
    ///
    /// # Errors
    /// The kernel's; then the pages are as they were.
    pub(crate) fn replace(&self, span: Span) -> io::Result<()> {
        let first = self.at(span);
        let length = usize::try_from(span.length).expect("usize holds a u32");
        // SAFETY: `at` checked that the range lies in the arena. That its bytes are no longer needed is the plane's
        // promise: it requested a read into them.
        let dropped = unsafe { libc::madvise(first.cast(), length, MADV_DONTNEED_LOCKED) };
        if dropped != 0 {
            return Err(io::Error::last_os_error());
        }
        // Only a help: a page that is not there yet comes with the first touch.
        // SAFETY: as above; this changes no contents.
        let _ = unsafe { libc::madvise(first.cast(), length, libc::MADV_POPULATE_WRITE) };
        Ok(())
    }

    fn range(&self, chunks: Chunks) -> Range<usize> {
        let end = u64::from(chunks.first) + u64::from(chunks.count);
        assert!(end <= u64::from(self.chunk_count), "{chunks:?} lie outside of the arena's {}", self.chunk_count);
        self.offset(u64::from(chunks.first) * limits::CHUNK_BYTES)..self.offset(end * limits::CHUNK_BYTES)
    }

    fn offset(&self, offset: u64) -> usize {
        usize::try_from(offset).expect("the arena is mapped, so its offsets fit")
    }
}

/// Linux 5.18: as `MADV_DONTNEED`, for locked memory too.
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

/// True if this process may lock this number of bytes: the limit counts only without the capability.
fn may_lock(bytes: u64) -> bool {
    let capable = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::IPC_LOCK));
    capable || getrlimit(Resource::Memlock).current.is_none_or(|limit| limit >= bytes)
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use super::*;

    #[test]
    fn spans_are_checked_and_hold_their_bytes() {
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

    /// Bytes of the arena that are in memory, by `mincore`.
    fn resident(arena: &Arena) -> usize {
        let length = usize::try_from(arena.bytes()).unwrap();
        let mut pages = vec![0_u8; length.div_ceil(4096)];
        // SAFETY: the range is the arena's, and the vector has a byte for each of its pages.
        let asked = unsafe { libc::mincore(arena.memory.base().as_ptr().cast(), length, pages.as_mut_ptr()) };
        assert_eq!(asked, 0);
        pages.iter().filter(|page| **page & 1 == 1).count() * 4096
    }

    #[test]
    fn memory_comes_in_steps_and_goes_again() {
        let bytes = |count: u64| usize::try_from(count).unwrap();
        let step = bytes(u64::from(STEP_CHUNKS) * limits::CHUNK_BYTES);
        let literals = limits::STREAMS_MAX * bytes(LITERAL_BYTES);
        let arena = Arena::new(4 * STEP_CHUNKS).unwrap();
        assert_eq!(resident(&arena), step + literals);
        let third = Chunks { first: 2 * STEP_CHUNKS, count: STEP_CHUNKS };
        arena.bring_in(third).unwrap();
        assert_eq!(resident(&arena), 2 * step + literals);
        let span = Span { offset: 2 * u64::from(STEP_CHUNKS) * limits::CHUNK_BYTES, length: 4 };
        arena.fill(span, b"read");
        arena.give_back(third).unwrap();
        assert_eq!(resident(&arena), step + literals);
        arena.bring_in(third).unwrap();
        let mut back = [1; 4];
        arena.copy_out(span, &mut back);
        assert_eq!(back, [0; 4], "other memory");
    }
}
