//! The receiving side of a connection.
//!
//! Promise: whole messages in the order in which they were sent; memory of one message and 128 KiB. A peer that is silent for
//! longer than a live sender can be counts as gone, even if no packet reports it (a half-open connection).

use std::io::{self, Read};
use std::sync::Arc;

use socket2::Socket;

use crate::frame::{FrameError, Frames};
use crate::transport::SILENCE_MAX;

/// The reason why no more messages come.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The connection failed.
    #[error("the connection is broken")]
    Io(#[from] io::Error),
    /// The connection ended within a message.
    #[error("the other side stopped in the middle of a message")]
    Amid,
    /// The peer sent neither messages nor signs of life.
    #[error("nothing was heard for {} s: the other side, or the way to it, has gone", SILENCE_MAX.as_secs())]
    Silent,
    /// The received bytes are no message.
    #[error("the received bytes are no message")]
    Frame(#[from] FrameError),
}

/// Receives messages from one connection.
#[derive(Debug)]
pub struct Receiver {
    socket: Arc<Socket>,
    frames: Frames,
    next: u64,
}

impl Receiver {
    pub(crate) fn new(socket: Arc<Socket>, next: u64) -> io::Result<Self> {
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self { socket, frames: Frames::default(), next })
    }

    /// Waits for the next message; `None` after the peer's end of messages.
    ///
    /// # Errors
    /// The connection is broken or silent, or its bytes are no message.
    pub fn receive(&mut self) -> Result<Option<&[u8]>, ReceiveError> {
        loop {
            if let Some(place) = self.frames.take()? {
                self.next += 1;
                return Ok(Some(&self.frames.bytes()[place]));
            }
            let mut socket = &*self.socket;
            match socket.read(self.frames.space()) {
                Ok(0) if self.frames.is_amid() => return Err(ReceiveError::Amid),
                Ok(0) => return Ok(None),
                Ok(read) => self.frames.fill(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(ReceiveError::Silent),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The number of the next message in the sender's session.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};
    use std::io::Write;
    use std::time::Duration;

    fn pair() -> (Socket, Receiver) {
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
        (theirs, Receiver::new(Arc::new(ours), 5).expect("a timeout can be set"))
    }

    #[test]
    fn an_end_between_messages_is_the_end_and_within_one_a_break() {
        for (text, whole) in [(b"\x02hi".as_slice(), true), (b"\x02hi\x05he", false)] {
            let (mut other, mut receiver) = pair();
            other.write_all(text).expect("a pair has room");
            drop(other);
            assert_eq!(receiver.receive().expect("whole"), Some(b"hi".as_slice()));
            assert_eq!(receiver.next_number(), 6);
            match receiver.receive() {
                Ok(None) => assert!(whole),
                Err(ReceiveError::Amid) => assert!(!whole),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_silent_peer_counts_as_gone() {
        let (_other, mut receiver) = pair();
        receiver.socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout can be set");
        assert!(matches!(receiver.receive(), Err(ReceiveError::Silent)));
    }
}
