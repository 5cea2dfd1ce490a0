//! The two ways in which the plane's requests reach the kernel: io_uring, and ordinary system calls where it cannot be had.
//!
//! Promise: whichever it is, a request completes once, nothing waits but [`Engine::enter`], and nothing is allocated.
//! Not here: what a request means (`io`), reads that an engine does not make itself (`readers`).

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use dataplane::port::{SocketSlot, Token};
use rustix::thread::CpuSet;
use units::Nanos;

use crate::epoll::EpollEngine;
use crate::permissions::{PermissionSubject, Permissions, StartError};
use crate::plane_channel::PlaneLink;
use crate::ring::RingEngine;

/// Which engine the data plane shall use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// io_uring, or ordinary system calls where it cannot be had.
    #[default]
    Auto,
    /// io_uring or nothing.
    IoUring,
    /// Ordinary system calls: epoll for sockets, threads for reads.
    Threads,
}

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

/// What an engine has to tell. Results are counts of bytes, or `-errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineReport {
    /// Somebody woke the plane.
    Woken,
    /// A direct read is over: its place in the table.
    Read(u32, i32),
    /// A send is over.
    Sent(Token, i32),
}

/// A way to the kernel, used by one thread.
pub(crate) trait Engine {
    /// Whether direct reads are made here at all.
    fn makes_reads(&self) -> bool;

    /// Makes a direct read; false if a reading thread has to.
    fn read(&mut self, read: DirectRead) -> bool;

    /// Sends; pending until the socket took at least one byte.
    fn send(&mut self, outgoing: OutgoingBytes);

    /// Completes like a send, with any number, once the socket has room or an error to tell.
    fn await_room(&mut self, token: Token, slot: SocketSlot, socket: RawFd);

    /// Ends a pending send, which completes all the same.
    fn cancel_send(&mut self, token: Token);

    /// This socket is no longer used; no send on it is pending.
    fn close_socket(&mut self, slot: SocketSlot, socket: RawFd);

    /// Something waits to be handed over or looked after by [`Engine::enter`].
    fn has_queued(&mut self) -> bool;

    /// [`Engine::next_done`] has something.
    fn has_done(&mut self) -> bool;

    /// Hands over what is queued and takes note of what happened; waits for that until `until`, if given.
    ///
    /// # Errors
    /// The kernel's; everything queued is still queued.
    fn enter(&mut self, until: Option<Nanos>) -> io::Result<()>;

    /// The next thing that happened.
    fn next_done(&mut self) -> Option<EngineReport>;

    /// Sends that are pending.
    fn sends(&self) -> usize;

    /// Ends everything that is pending, as far as the kernel lets go of it in time.
    fn cancel_all(&mut self, patience: Duration);

    /// Completions that were lost; anything but zero is a fault of ours.
    fn lost_completions(&mut self) -> u64;
}

/// Sets up an engine and says which it is and why.
///
/// # Errors
/// What io_uring lacks, if nothing else was asked for; else what any engine lacks.
pub(crate) fn start(
    choice: EngineChoice,
    link: &PlaneLink,
    helper_cpus: Option<&CpuSet>,
    permissions: &mut Permissions,
) -> Result<Box<dyn Engine>, StartError> {
    let why = match choice {
        EngineChoice::Threads => None,
        EngineChoice::Auto | EngineChoice::IoUring => match RingEngine::new(link.own_waker(), helper_cpus) {
            Ok(engine) => {
                permissions.say(PermissionSubject::Engine, true, "the data plane runs on io_uring".to_owned());
                return Ok(Box::new(engine));
            }
            Err(error) if choice == EngineChoice::IoUring => return Err(error),
            Err(error) => Some(error.to_string()),
        },
    };
    let engine = EpollEngine::new(link.own_waker()).map_err(StartError::Helpers)?;
    let sentence = match &why {
        None => "the data plane runs on ordinary system calls, as configured".to_owned(),
        Some(why) => format!(
            "the data plane runs on ordinary system calls, which keep the same promises for some more processor time per \
             read: it {why}"
        ),
    };
    permissions.say(PermissionSubject::Engine, why.is_none(), sentence);
    Ok(Box::new(engine))
}
