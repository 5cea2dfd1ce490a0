//! The sockets that the client waits for: an epoll set that follows the state of each connection.
//!
//! Promise: a connection in its body, or over, wakes no thread. Not here: the use of a connection that is ready.

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::Timespec;
use units::Nanos;

use super::connection::ConnectionState;
use super::socket::ClientSocket;

const EVENTS_MAX: usize = 1024;

/// See the module.
pub(super) struct WaitedSockets {
    epoll: OwnedFd,
    /// Events for which each connection's socket is in the epoll set.
    watched: Vec<EventFlags>,
    /// Number of sockets in it.
    pub(super) waiting: usize,
}

impl WaitedSockets {
    /// For `count` connections.
    ///
    /// # Errors
    /// No epoll set can be made.
    pub(super) fn new(count: usize) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("creating an epoll set")?;
        Ok(Self { epoll, watched: vec![EventFlags::empty(); count], waiting: 0 })
    }

    /// Waits at most `span`, rounded down to milliseconds, and returns the numbers of those that are ready.
    ///
    /// # Errors
    /// Waiting failed.
    pub(super) fn wait(&self, span: Nanos) -> anyhow::Result<Vec<usize>> {
        let millis = span.0 / 1_000_000;
        let timeout =
            Timespec { tv_sec: i64::try_from(millis / 1000)?, tv_nsec: i64::try_from(millis % 1000 * 1_000_000)? };
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e).context("waiting for sockets"),
        }
        events.iter().map(|event| Ok(usize::try_from({ event.data }.u64())?)).collect()
    }

    /// Puts the socket of connection `n` into the set, changes its events, or takes it out, as its state requires.
    pub(super) fn watch(&mut self, n: usize, connection: &ConnectionState) {
        let wanted = match connection {
            ConnectionState::Asking { socket, .. } if socket.awaits_handshake() => EventFlags::IN,
            ConnectionState::Asking { .. } => EventFlags::OUT,
            ConnectionState::Head { .. } | ConnectionState::First { .. } | ConnectionState::Refused { .. } => {
                EventFlags::IN
            }
            ConnectionState::Idle | ConnectionState::Body { .. } | ConnectionState::Done => EventFlags::empty(),
        };
        let before = std::mem::replace(&mut self.watched[n], wanted);
        self.waiting = self.waiting + usize::from(!wanted.is_empty()) - usize::from(!before.is_empty());
        let Some(socket) = connection.socket().map(ClientSocket::descriptor) else { return };
        let data = EventData::new_u64(n as u64);
        // A socket that was closed left the set by itself; a new socket is not in it yet. `NOENT` and `EXIST` say so.
        let _ = if wanted.is_empty() {
            epoll::delete(&self.epoll, socket)
        } else {
            match epoll::modify(&self.epoll, socket, data, wanted) {
                Err(Errno::NOENT) => epoll::add(&self.epoll, socket, data, wanted),
                other => other,
            }
        };
    }
}
