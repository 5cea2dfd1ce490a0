//! The engine of ordinary system calls: sockets are written to without waiting and watched by epoll while they are full.
//! Reads are made by reading threads (`readers`).
//!
//! Promise: works where io_uring is forbidden, missing or has no memory for its queues, with nothing newer than Linux 2.6.
//! Not here: the start of reads (`io`).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use dataplane::port::{SocketSlot, Token};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use units::{Nanos, limits};

use crate::clock;
use crate::engine::{DirectRead, Engine, EngineReport, OutgoingBytes};

/// Events taken at once; those beyond come with the next call.
const EVENTS: usize = 512;
/// Not a socket's slot.
const WAKER: u64 = u64::MAX;

/// The plane's sockets, and an epoll that knows those that were full at some time.
pub(crate) struct EpollEngine {
    epoll: OwnedFd,
    sockets: Box<[SocketState]>,
    /// Sockets with a pending send.
    full: usize,
    done: VecDeque<EngineReport>,
    events: Vec<Event>,
}

/// State of a socket.
#[derive(Debug, Clone, Copy, Default)]
struct SocketState {
    /// Bytes that it has no room for yet; none in a wait for room only.
    pending: Option<OutgoingBytes>,
    /// Known to the epoll, by edges: from then on the epoll reports whenever there is room again.
    watched: bool,
}

impl EpollEngine {
    /// An engine that `waker` wakes.
    ///
    /// # Errors
    /// The kernel's, if there can be no more descriptors.
    pub(crate) fn new(waker: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // By edges, so that its counter need not be read.
        epoll::add(&epoll, waker, EventData::new_u64(WAKER), EventFlags::IN | EventFlags::ET)?;
        Ok(Self {
            epoll,
            sockets: vec![SocketState::default(); limits::STREAMS_MAX].into_boxed_slice(),
            full: 0,
            // A send of each socket, and a wake.
            done: VecDeque::with_capacity(limits::STREAMS_MAX + 1),
            events: Vec::with_capacity(EVENTS),
        })
    }

    fn happened(&mut self, event: Event) {
        let Ok(slot) = usize::try_from(event.data.u64()) else { return };
        let Some(socket) = self.sockets.get_mut(slot) else { return self.done.push_back(EngineReport::Woken) };
        let Some(outgoing) = socket.pending else { return };
        if let Some(result) = send_now(outgoing) {
            socket.pending = None;
            self.full -= 1;
            self.done.push_back(EngineReport::Sent(outgoing.token, result));
        }
    }

    /// Makes the epoll report room in a socket that is full now.
    fn watch(&mut self, outgoing: OutgoingBytes) -> io::Result<()> {
        let socket = &mut self.sockets[index_of(outgoing.slot)];
        let (data, edges) = (EventData::new_u64(outgoing.slot.0.into()), EventFlags::OUT | EventFlags::ET);
        if !socket.watched {
            epoll::add(&self.epoll, borrow(&outgoing.socket), data, edges)?;
            socket.watched = true;
        } else if outgoing.length == 0 {
            // No write found it full just now: the edge may be long past.
            epoll::modify(&self.epoll, borrow(&outgoing.socket), data, edges)?;
        }
        socket.pending = Some(outgoing);
        self.full += 1;
        Ok(())
    }

    fn watch_or_fail(&mut self, outgoing: OutgoingBytes) {
        if let Err(error) = self.watch(outgoing) {
            let result = -error.raw_os_error().unwrap_or(libc::EIO);
            self.done.push_back(EngineReport::Sent(outgoing.token, result));
        }
    }
}

impl Engine for EpollEngine {
    fn makes_reads(&self) -> bool {
        false
    }

    fn read(&mut self, _: DirectRead) -> bool {
        false
    }

    fn send(&mut self, outgoing: OutgoingBytes) {
        match send_now(outgoing) {
            Some(result) => self.done.push_back(EngineReport::Sent(outgoing.token, result)),
            None => self.watch_or_fail(outgoing),
        }
    }

    fn await_room(&mut self, token: Token, slot: SocketSlot, socket: RawFd) {
        // Nothing is sent when it has room: zero bytes are always taken.
        self.watch_or_fail(OutgoingBytes { token, slot, socket, memory: std::ptr::null(), length: 0 });
    }

    fn cancel_send(&mut self, token: Token) {
        let pending = |socket: &&mut SocketState| socket.pending.is_some_and(|outgoing| outgoing.token == token);
        if let Some(socket) = self.sockets.iter_mut().find(pending) {
            socket.pending = None;
            self.full -= 1;
            self.done.push_back(EngineReport::Sent(token, -libc::ECANCELED));
        }
    }

    fn close_socket(&mut self, slot: SocketSlot, socket: RawFd) {
        if std::mem::take(&mut self.sockets[index_of(slot)]).watched {
            let deleted = epoll::delete(&self.epoll, borrow(&socket));
            debug_assert!(deleted.is_ok(), "it was added, and is open");
        }
    }

    fn has_queued(&mut self) -> bool {
        // Sockets that wait for room are looked after also while completions never cease.
        self.full > 0
    }

    fn has_done(&mut self) -> bool {
        !self.done.is_empty()
    }

    fn enter(&mut self, until: Option<Nanos>) -> io::Result<()> {
        if let Some(until) = until {
            // epoll itself waits for milliseconds (before Linux 5.11), and this for nanoseconds.
            let left = timespec(until.saturating_sub(clock::monotonic()));
            poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&left))?;
        }
        let mut events = std::mem::take(&mut self.events);
        let taken = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timespec(Nanos::ZERO)));
        events.drain(..).for_each(|event| self.happened(event));
        self.events = events;
        Ok(taken.map(drop)?)
    }

    fn next_done(&mut self) -> Option<EngineReport> {
        self.done.pop_front()
    }

    fn sends(&self) -> usize {
        self.full
    }

    fn cancel_all(&mut self, _: Duration) {
        // The kernel holds nothing of a pending send.
        self.sockets.iter_mut().for_each(|socket| socket.pending = None);
        self.full = 0;
    }

    fn lost_completions(&mut self) -> u64 {
        0
    }
}

/// Writes as much as a socket has room for; none if there is no room for bytes that were to be written.
fn send_now(outgoing: OutgoingBytes) -> Option<i32> {
    if outgoing.length == 0 {
        return Some(0);
    }
    let length = usize::try_from(outgoing.length).expect("usize holds a u32");
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    loop {
        // SAFETY: the memory is the arena's, which outlives this engine, and the plane writes nothing into it while the
        // send is out; the plane keeps the socket open meanwhile.
        let sent = unsafe { libc::send(outgoing.socket, outgoing.memory.cast(), length, flags) };
        match i32::try_from(sent) {
            Ok(bytes @ 0..) => return Some(bytes),
            _ => match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => return None,
                errno => return Some(-errno.unwrap_or(libc::EIO)),
            },
        }
    }
}

fn borrow(socket: &RawFd) -> BorrowedFd<'_> {
    // SAFETY: the plane keeps a socket open from `open_socket` to `close_socket`, and this does not outlive the call.
    unsafe { BorrowedFd::borrow_raw(*socket) }
}

fn timespec(span: Nanos) -> Timespec {
    let nanos = i64::try_from(span.0).unwrap_or(i64::MAX);
    Timespec { tv_sec: nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 }
}

fn index_of(slot: SocketSlot) -> usize {
    usize::try_from(slot.0).expect("usize holds a u32")
}
