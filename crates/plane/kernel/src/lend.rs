//! Lending arena memory to sockets: pages travel by reference (`vmsplice`, `splice`), nothing is copied.
//!
//! A page that was lent may lie in a socket long after its send completed: on loopback until the peer has read it. So
//! that bytes that were sent cannot change, **no read goes into a page that was ever lent**: [`Lender::reclaim`] first
//! puts new pages behind those addresses, and the lent ones live on in the sockets alone.
//!
//! Promise: nothing is allocated after `new`, nothing waits (sockets that could block are not lent to). Not here: the
//! choice of sends that lend (`dataplane::cache`, decision 0008).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use dataplane::port::{Chunks, Span};
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use units::limits;

use crate::arena::Arena;

/// The only page size for which all reads consist of whole pages.
const PAGE_BYTES: u64 = limits::DIRECT_ALIGN;
/// Pages with their marks in one word.
const WORD_PAGES: u64 = u64::BITS as u64;
const HUGE_PAGES: u64 = crate::mapping::HUGE_PAGE_BYTES as u64 / PAGE_BYTES;
/// Pages that were lent are replaced later, but the kernel frees a huge page only when all of it was replaced (or when
/// memory is short). So the lent pages of huge pages that were lent in part take memory beyond the arena: at most
/// one part in this number of it. From then on only memory is lent that was lent before.
const SPARE_SHARE: u64 = 8;

/// Marks of the pages that are lent, and the pipe they pass through.
#[derive(Debug)]
pub(crate) struct Lender {
    reader: OwnedFd,
    writer: OwnedFd,
    /// `/dev/null`, which takes pages that a socket had no room for.
    sink: File,
    /// A bit per page of the chunks: a socket may hold it.
    lent: Box<[u64]>,
    /// A bit per page of the chunks: it was lent at some time, so it is or will be replaced.
    ever_lent: Box<[u64]>,
    /// Pages ever lent in huge pages of which others never were.
    spare: u64,
    spare_max: u64,
    /// The pipe could not be emptied; nothing may pass through it any more.
    broken: bool,
}

impl Lender {
    /// A lender for the chunks of `arena`; none if the system lacks a part. Then all bytes are copied, which only costs
    /// more processor time. The arena must not be in use yet.
    pub(crate) fn new(arena: &Arena) -> Option<Self> {
        let page_fits = u64::try_from(rustix::param::page_size()).ok() == Some(PAGE_BYTES);
        if !page_fits || !broken_pipes_are_errors() || arena.chunk_count() == 0 {
            return None;
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // As much as may be; with less, long sends are cut.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, usize::try_from(limits::CHUNK_BYTES).expect("1 MiB"));
        let sink = File::options().write(true).open("/dev/null").ok()?;
        let pages = u64::from(arena.chunk_count()) * limits::CHUNK_BYTES / PAGE_BYTES;
        let words = usize::try_from(pages.div_ceil(WORD_PAGES)).expect("an arena is mapped");
        let mut this = Self {
            reader,
            writer,
            sink,
            lent: vec![0; words].into_boxed_slice(),
            ever_lent: vec![0; words].into_boxed_slice(),
            spare: 0,
            spare_max: (pages / SPARE_SHARE).max(HUGE_PAGES),
            broken: false,
        };
        // Tried once in earnest, on memory that is not in use yet; behind the chunks, so that their huge pages stay whole.
        let page =
            Span { offset: arena.bytes() - PAGE_BYTES, length: u32::try_from(PAGE_BYTES).expect("a page is small") };
        let passed = this.fill_pipe(arena, page, None).ok()?;
        this.empty_pipe(passed);
        arena.replace(page).ok()?;
        (passed > 0 && !this.broken).then_some(this)
    }

    /// A socket that would make the caller wait cannot be lent to.
    pub(crate) fn can_lend_to(socket: &OwnedFd) -> bool {
        rustix::fs::fcntl_getfl(socket).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
    }

    /// Sends the start of `memory`, and of the span `then` behind it, by reference. None: the socket is full or this
    /// memory cannot be lent; the caller sends it in the ordinary way.
    pub(crate) fn send(
        &mut self,
        arena: &Arena,
        memory: Span,
        then: Option<Span>,
        socket: RawFd,
    ) -> Option<io::Result<u32>> {
        if self.broken {
            return None;
        }
        // First marked, then lent.
        self.mark(memory)?;
        let then = then.filter(|&then| self.mark(then).is_some());
        let passed = self.fill_pipe(arena, memory, then).ok()?;
        let sent = splice(self.reader.as_raw_fd(), socket, passed);
        self.empty_pipe(passed - sent.as_ref().map_or(0, |&sent| sent));
        match sent {
            Ok(0) => None,
            Ok(sent) => Some(Ok(u32::try_from(sent).expect("no more than a span"))),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOMEM)) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Makes `memory` fit to be read into: pages that were lent are replaced. True if any were.
    ///
    /// # Errors
    /// The kernel's; then nothing may be read into it.
    pub(crate) fn reclaim(&mut self, arena: &Arena, memory: Span) -> io::Result<bool> {
        let mut lent = 0;
        if self.for_words(memory, |lender, word, mask| lent |= lender.lent[word] & mask).is_none() || lent == 0 {
            return Ok(false);
        }
        assert!(
            memory.offset.is_multiple_of(PAGE_BYTES) && u64::from(memory.length).is_multiple_of(PAGE_BYTES),
            "reads consist of whole pages"
        );
        arena.replace(memory)?;
        let _ = self.for_words(memory, |lender, word, mask| lender.lent[word] &= !mask);
        Ok(true)
    }

    /// Forgets the marks of `chunks`, after their memory was given back: memory in its place was never lent.
    pub(crate) fn forget(&mut self, chunks: Chunks) {
        for chunk in chunks.first..chunks.first + chunks.count {
            let length = u32::try_from(limits::CHUNK_BYTES).expect("1 MiB");
            let memory = Span { offset: u64::from(chunk) * limits::CHUNK_BYTES, length };
            let before = self.spare_around(memory);
            let _ = self.for_words(memory, |lender, word, mask| {
                lender.lent[word] &= !mask;
                lender.ever_lent[word] &= !mask;
            });
            self.spare = self.spare + self.spare_around(memory) - before;
        }
    }

    /// Notes that the pages of `memory` are lent; none if they are not to be.
    fn mark(&mut self, memory: Span) -> Option<()> {
        let mut new = 0;
        self.for_words(memory, |lender, word, mask| new |= mask & !lender.ever_lent[word])?;
        if new != 0 {
            if self.spare >= self.spare_max {
                return None;
            }
            let before = self.spare_around(memory);
            self.for_words(memory, |lender, word, mask| lender.ever_lent[word] |= mask)?;
            self.spare = self.spare + self.spare_around(memory) - before;
        }
        self.for_words(memory, |lender, word, mask| lender.lent[word] |= mask)
    }

    /// Calls `act` with each word that has marks of `memory`, and the mask of those; none if it is not in the chunks.
    fn for_words(&mut self, memory: Span, mut act: impl FnMut(&mut Self, usize, u64)) -> Option<()> {
        let mut page = memory.offset / PAGE_BYTES;
        let end = (memory.offset + u64::from(memory.length)).div_ceil(PAGE_BYTES);
        let words = u64::try_from(self.lent.len()).expect("usize fits");
        if end > words * WORD_PAGES {
            return None;
        }
        while page < end {
            let word = page / WORD_PAGES;
            let until = end.min((word + 1) * WORD_PAGES);
            let mask = (u64::MAX >> (WORD_PAGES - (until - page))) << (page % WORD_PAGES);
            act(self, usize::try_from(word).expect("checked above"), mask);
            page = until;
        }
        Some(())
    }

    /// Pages ever lent in huge pages that `memory` touches and of which others never were.
    fn spare_around(&self, memory: Span) -> u64 {
        let huge = |offset: u64| offset / PAGE_BYTES / HUGE_PAGES;
        let last = huge(memory.offset + u64::from(memory.length) - 1);
        let words_each = HUGE_PAGES / WORD_PAGES;
        let lent_in = |huge: u64| -> u64 {
            let words = huge * words_each..(huge + 1) * words_each;
            words
                .map_while(|word| self.ever_lent.get(usize::try_from(word).ok()?))
                .map(|word| u64::from(word.count_ones()))
                .sum()
        };
        (huge(memory.offset)..=last).map(lent_in).filter(|&pages| pages < HUGE_PAGES).sum()
    }

    /// Puts references to the pages of `memory`, and of the span `then` behind it, into the empty pipe; returns how many bytes went in.
    fn fill_pipe(&mut self, arena: &Arena, memory: Span, then: Option<Span>) -> io::Result<usize> {
        let part = |span: Span| {
            let length = usize::try_from(span.length).expect("usize holds a u32");
            libc::iovec { iov_base: arena.at(span).cast(), iov_len: length }
        };
        let parts = [part(memory), part(then.unwrap_or(Span { length: 0, ..memory }))];
        let count: libc::c_long = if then.is_some() { 2 } else { 1 };
        let flags = libc::c_long::from(libc::SPLICE_F_NONBLOCK);
        let writer = self.writer.as_raw_fd();
        // SAFETY: the iovecs live through the call, and `at` checked that they lie in the arena. The kernel only reads
        // it; `reclaim` and its caller see to it that the pages are not written to while referenced.
        let passed = unsafe { libc::syscall(libc::SYS_vmsplice, writer, parts.as_ptr(), count, flags) };
        usize::try_from(passed).map_err(|_| io::Error::last_os_error())
    }

    /// Lets go of the pages left in the pipe.
    fn empty_pipe(&mut self, mut left: usize) {
        while left > 0 {
            match splice(self.reader.as_raw_fd(), self.sink.as_raw_fd(), left) {
                Ok(gone @ 1..) => left = left.saturating_sub(gone),
                Ok(0) | Err(_) => {
                    self.broken = true;
                    return;
                }
            }
        }
    }
}

/// The C library's own `splice` and `vmsplice` are points of cancellation, which costs two atomic operations a call.
fn splice(from: RawFd, to: RawFd, length: usize) -> io::Result<usize> {
    let none = std::ptr::null_mut::<libc::loff_t>();
    let flags = libc::c_long::from(libc::SPLICE_F_NONBLOCK);
    // SAFETY: two descriptors and no offsets.
    let moved = unsafe { libc::syscall(libc::SYS_splice, from, none, to, none, length, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// `splice` knows no `MSG_NOSIGNAL`: a vanished peer would end the process unless the signal is ignored, as Rust's
/// runtime does.
fn broken_pipes_are_errors() -> bool {
    // SAFETY: all zeros is a value of this plain structure, and the call only writes to it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives through the call; a null new action changes nothing.
    let asked = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
