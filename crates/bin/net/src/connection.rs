//! A connection that both sides have agreed on: messages in both directions.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

use crate::greeting::{self, GreetingError, Numbered, SharedSecret};
use crate::receiver::Receiver;
use crate::sender::{Coalescing, Sender};
use crate::transport::{self, Transport};

/// The reason that there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No node is there, or it cannot be reached.
    #[error("{0} cannot be reached")]
    Unreachable(String, #[source] io::Error),
    /// A node is there, but the greeting failed.
    #[error("{0}")]
    Greeting(String, #[source] GreetingError),
}

/// Messages in both directions with one other node.
#[derive(Debug)]
pub struct Connection {
    /// Ours to the other side.
    pub sender: Sender,
    /// The other side's to us.
    pub receiver: Receiver,
    /// The messages that come: their session, and the number of the first.
    pub numbered: Numbered,
}

impl Connection {
    /// Connects to `place` and greets, each `within` that time.
    ///
    /// # Errors
    /// No node is there, or the greeting failed.
    pub fn open(
        place: &dyn Transport,
        token: Option<&SharedSecret>,
        coalescing: Coalescing,
        within: Duration,
        numbered: Numbered,
    ) -> Result<Self, ConnectError> {
        let unreachable = |error| ConnectError::Unreachable(place.to_string(), error);
        let socket = place.connect(within, None).map_err(unreachable)?;
        greeting::call(&socket, token, numbered).map_err(|error| ConnectError::Greeting(place.to_string(), error))?;
        // Messages are put together here, and an urgent one must not wait for an acknowledgement.
        place.set_no_delay(&socket, true).map_err(unreachable)?;
        Self::over(socket, coalescing, numbered).map_err(unreachable)
    }

    /// Messages over `socket`, on which both sides have greeted.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn over(socket: Socket, coalescing: Coalescing, numbered: Numbered) -> io::Result<Self> {
        let socket = Arc::new(socket);
        let receiver = Receiver::new(Arc::clone(&socket), numbered.first)?;
        Ok(Self { sender: Sender::new(socket, coalescing)?, receiver, numbered })
    }
}

/// Listens at one place, until it is dropped.
#[derive(Debug)]
pub struct Listener {
    place: Arc<dyn Transport>,
    socket: Socket,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.place.unlisten();
    }
}

impl Listener {
    /// Listens at `place`; `window` sets the buffers of the connections, bytes, where it is given.
    ///
    /// # Errors
    /// The error that the kernel gave.
    pub fn bind(place: Arc<dyn Transport>, window: Option<usize>) -> io::Result<Self> {
        let socket = place.listen(window)?;
        Ok(Self { place, socket })
    }

    /// The transport it goes over.
    #[must_use]
    pub fn place(&self) -> &dyn Transport {
        &*self.place
    }

    /// The address in fact, of a TCP port.
    #[must_use]
    pub fn tcp_address(&self) -> Option<std::net::SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// Waits for the next connection. Its caller has not greeted yet: that may take a while, so let a thread of its own do it.
    ///
    /// # Errors
    /// The error that the kernel gave.
    pub fn accept(&self) -> io::Result<Socket> {
        let (socket, _) = self.socket.accept()?;
        let prepared = (|| {
            if self.place.name() == "tcp" {
                socket.set_tcp_user_timeout(Some(transport::SILENCE_MAX))?;
            }
            self.place.set_no_delay(&socket, true)
        })();
        // A peer that has gone meanwhile is noticed when it is greeted.
        drop(prepared);
        Ok(socket)
    }

    /// As [`Listener::accept`]; `None` if no connection comes `within` that time.
    ///
    /// # Errors
    /// The error that the kernel gave.
    pub fn accept_within(&self, within: Duration) -> io::Result<Option<Socket>> {
        let timeout = Timespec {
            tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: within.subsec_nanos().into(),
        };
        let ready = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout))?;
        if ready == 0 { Ok(None) } else { self.accept().map(Some) }
    }
}
