//! Engine: a way in which the plane's requests reach the kernel.
//!
//! Promise: with each engine, a request completes once, only [`Engine::enter`] waits, and nothing is allocated. Not here: the two
//! engines (`ring`, `epoll`) and the choice between them (`engine_choice`), the meaning of a request (`io`), reads that an engine does
//! not make itself (`readers`).

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use dataplane::port::{SocketSlot, Token};
use units::Nanos;

/// A read of a file that is open for direct I/O.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectRead {
    /// Place in the table of reads.
    pub(crate) index: u32,
    pub(crate) file: RawFd,
    pub(crate) offset: u64,
    pub(crate) memory: *mut u8,
    pub(crate) length: u32,
}

/// Bytes for a socket. They stay in place until the send has completed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutgoingBytes {
    pub(crate) token: Token,
    pub(crate) slot: SocketSlot,
    pub(crate) socket: RawFd,
    pub(crate) memory: *const u8,
    pub(crate) length: u32,
}

/// A report of an engine. Results are counts of bytes, or `-errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineReport {
    /// A wake of the plane.
    Woken,
    /// A direct read is over: its place in the table.
    Read(u32, i32),
    /// A send is over.
    Sent(Token, i32),
}

/// A way to the kernel, used by one thread.
pub(crate) trait Engine {
    /// True if this engine makes direct reads at all.
    fn makes_reads(&self) -> bool;

    /// Makes a direct read; false if a reading thread has to.
    fn read(&mut self, read: DirectRead) -> bool;

    /// Sends; pending until the socket took at least one byte.
    fn send(&mut self, outgoing: OutgoingBytes);

    /// Completes like a send, with any number, once the socket has room or an error to report.
    fn await_room(&mut self, token: Token, slot: SocketSlot, socket: RawFd);

    /// Ends a pending send, which completes all the same.
    fn cancel_send(&mut self, token: Token);

    /// This socket is no longer used; no send on it is pending.
    fn close_socket(&mut self, slot: SocketSlot, socket: RawFd);

    /// True if a request waits for [`Engine::enter`] to hand it over or look after it.
    fn has_queued(&mut self) -> bool;

    /// True if [`Engine::next_done`] has a report.
    fn has_done(&mut self) -> bool;

    /// Hands over the queued requests and takes note of completions; waits for one until `until`, if given.
    ///
    /// # Errors
    /// The kernel's; all queued requests are still queued then.
    fn enter(&mut self, until: Option<Nanos>) -> io::Result<()>;

    /// Returns the next report.
    fn next_done(&mut self) -> Option<EngineReport>;

    /// Sends that are pending.
    fn sends(&self) -> usize;

    /// Ends all pending requests, as far as the kernel lets go of them in time.
    fn cancel_all(&mut self, patience: Duration);

    /// Completions that were lost; anything but zero is a fault of ours.
    fn lost_completions(&mut self) -> u64;
}
