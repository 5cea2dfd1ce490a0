//! The data plane's only way out: the kernel behind `kernel`, virtual time behind `sim`.
//!
//! Promise: everything the plane does to the world is a call of [`Io`]; everything it learns is a [`Completion`], a
//! command or a store message. Not here: why it does it.
//!
//! All buffer memory is one *arena* with a flat address space `0..Io::arena_bytes()`; the plane alone decides the place of all bytes and
//! never names a byte twice at once. Not all of it has memory at all times ([`MemoryChange`]). The first `chunk_count × CHUNK_BYTES` bytes
//! hold chunks; behind them lies one [`content::LITERAL_BYTES`] area per stream slot, for response heads.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use content::Content;
use content::layout::FileAccess;
use units::{DiskId, Nanos};

use crate::control::{Command, Report};
use crate::outlet::Outlet;
pub use crate::request::{IoFault, Span, Token};
use storage::grant::{Grant, StoreMessage};

/// Completions handed over by one [`Io::wait`] at most. Chosen.
pub const COMPLETIONS_MAX: usize = 1024;

/// Place of an open content in the plane's table, `0..FILES_MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileSlot(pub u32);

/// Place of a stream's socket in the plane's table, `0..STREAMS_MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketSlot(pub u32);

/// Chunks with memory that is brought in or given back together. This number of them has memory from the start. Chosen:
/// 32 MiB, of which a server with few streams needs no second one.
pub const STEP_CHUNKS: u32 = 32;

/// Chunks in a huge page of 2 MiB. Follows from both sizes.
pub const HUGE_PAGE_CHUNKS: u32 = 2;

/// A run of the arena's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    /// The first one.
    pub first: u32,
    /// Number of chunks.
    pub count: u32,
}

/// How much of the arena has memory shall change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryChange {
    /// These chunks shall have memory: present, and locked where permitted.
    BringIn(Chunks),
    /// The memory of these chunks goes back to the system. No request on it is in flight.
    GiveBack(Chunks),
}

/// A read of a file into the arena. Offset, length and memory are multiples of `DIRECT_ALIGN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// Comes back in the completion.
    pub token: Token,
    /// The disk it lies on: reads of one disk never wait for those of another.
    pub disk: DiskId,
    /// The file to read from.
    pub file: FileSlot,
    /// Where in the file.
    pub offset: u64,
    /// Where to; the length to read.
    pub memory: Span,
}

/// Whether several streams send the same bytes. Then it can pay to lend a socket the memory instead of copying it
/// (decision 0008); it is only a hint, and the bytes that arrive are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Sent once or twice before the memory is used for something else.
    Single,
    /// Sent by at least [`SHARED_STREAMS_MIN`] streams.
    Shared,
}

/// From this number of streams on, bytes count as shared: replacing 256 KiB of lent memory costs as much as two copies of it
/// (measured: 90 µs against 44 µs each).
pub const SHARED_STREAMS_MIN: u32 = 3;

/// A send from the arena to a socket or outlet. At most one per socket is in flight. It completes when the socket took at least
/// one byte: a full socket leaves it pending, at no cost to other sends. Once it completed the memory may be read into
/// again, whether the peer has taken the bytes or not: the bytes sent do not change by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRequest {
    /// Comes back in the completion.
    pub token: Token,
    /// The socket to send to.
    pub socket: SocketSlot,
    /// The bytes to send.
    pub memory: Span,
    /// The bytes that follow it, elsewhere in memory; both together are at most a chunk. A world that sends one piece
    /// at a time may leave it out: then the send is a short one.
    pub then: Option<Span>,
    /// Whether several streams send these bytes.
    pub sharing: Sharing,
    /// The stream continues as soon as this completes. Else nothing follows before its next tick, and the plane need not be woken.
    pub is_awaited: bool,
}

/// One request is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// As in the request.
    pub token: Token,
    /// Bytes read or sent (fewer than asked are possible; a read of 0 is the end of the file), or why not.
    pub result: Result<u32, IoFault>,
    /// When it was noticed.
    pub at: Nanos,
}

/// The world, as the plane sees it. One thread calls it.
pub trait Io {
    /// Monotonic time.
    fn now(&mut self) -> Nanos;

    /// Processor time this thread has used; with [`Io::now`] it gives the core's load.
    fn processor_time(&mut self) -> Nanos;

    /// An entry of a table is looked at soon: it may be fetched into the processor's cache meanwhile.
    fn prefetch<T>(&self, _entry: &T) {}

    /// Bytes that sockets took by reference instead of a copy, since the start.
    fn lent_bytes(&mut self) -> u64 {
        0
    }

    /// Chunks of `CHUNK_BYTES` that the arena may have at most. All but the first [`STEP_CHUNKS`] have no memory at the
    /// start, and must not be named in a request before they were brought in.
    fn chunk_count(&self) -> u32;

    /// Chunks that could have memory now: those that do, and those for which the system has room. May be a second old.
    fn chunks_obtainable(&mut self) -> u32 {
        self.chunk_count()
    }

    /// Asks for a change of memory; one at a time is out. It completes like a read, with 1 if it was made and with an
    /// [`IoFault`] if not.
    fn change_memory(&mut self, token: Token, change: MemoryChange);

    /// Makes `file` usable as `slot` until [`Io::close_file`]. The plane keeps `file` open meanwhile.
    fn open_file(&mut self, slot: FileSlot, file: &OwnedFd, access: FileAccess);

    /// Forgets `slot`. No request on it is in flight.
    fn close_file(&mut self, slot: FileSlot);

    /// Makes `socket` usable as `slot` until [`Io::close_socket`]. The plane keeps `socket` open meanwhile.
    fn open_socket(&mut self, slot: SocketSlot, socket: &OwnedFd);

    /// Makes `outlet` usable as `slot` until [`Io::close_socket`].
    fn open_outlet(&mut self, slot: SocketSlot, outlet: &Arc<Outlet>);

    /// Forgets `slot`. No request on it is in flight.
    fn close_socket(&mut self, slot: SocketSlot);

    /// Copies literal bytes into the arena (at most [`content::LITERAL_BYTES`]).
    fn fill(&mut self, memory: Span, bytes: &[u8]);

    /// Copies the bytes of a page into the arena. False if its memory was lent and cannot be had back.
    fn fill_page(&mut self, memory: Span, bytes: &[u8]) -> bool {
        self.fill(memory, bytes);
        true
    }

    /// Queues a read; it is handed to the kernel by [`Io::wait`].
    fn read(&mut self, request: ReadRequest);

    /// Asks whether the bytes read into `memory`, which are those of `content` from `offset` on, are right: whether its file is
    /// still the version that was opened, seen from a moment after this call, and whether the bytes agree with their checksums,
    /// where it has some. It completes like a read, with 1 if so and with 0 if it is another version (an [`IoFault`] if the
    /// bytes are wrong, or the version cannot be known).
    fn verify(&mut self, token: Token, content: &Arc<Content>, offset: u64, memory: Span);

    /// Queues a send; it is handed to the kernel by [`Io::wait`] at the latest.
    fn send(&mut self, request: SendRequest);

    /// Waits until the socket can take bytes, with no memory of the arena. Counts as its send: completes like one, with any
    /// number once there is room or an error that the next send reports.
    fn await_room(&mut self, token: Token, socket: SocketSlot);

    /// Asks for the end of the pending send `token` to `socket`. Its completion still comes, once: with its result or
    /// [`IoFault::Cancelled`].
    fn cancel_send(&mut self, token: Token, socket: SocketSlot);

    /// Hands a grant to its disk's store thread and wakes it. At most one per disk is out, so there is always room.
    fn grant(&mut self, grant: Grant);

    /// The next message of a store thread, if one waits.
    fn store_message(&mut self) -> Option<StoreMessage>;

    /// The next command, if one waits.
    fn command(&mut self) -> Option<Command>;

    /// Sends a report to the control plane. A full queue gives the report back; the plane keeps it and tries again next
    /// tick.
    ///
    /// # Errors
    /// The report, if there was no room.
    fn report(&mut self, report: Report) -> Result<(), Report>;

    /// Hands over the queued requests, then waits until `until`, or earlier if a request completed, a command or a
    /// store message came. Appends at most [`COMPLETIONS_MAX`] completions in the order they happened; never allocates
    /// (`completions` has that capacity).
    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>);
}
