//! Messages to one node without an end, over one connection after the other.
//!
//! Promise: messages arrive in the order sent and none twice. Of a connection that broke, messages that the kernel had taken may be
//! lost: messages are numbered, and the receiver sees by the first number of the next connection of the same session how many.
//! A node that is away is tried again after 100 ms, then twice as long each time, up to 5 s; meanwhile messages are
//! refused, not kept.

use std::time::{Duration, Instant};

use crate::connection::{ConnectError, Connection};
use crate::frame;
use crate::greeting::{Numbered, SharedSecret};
use crate::receiver::Receiver;
use crate::sender::{Coalescing, SendError, Sender, Urgency};
use crate::transport::Transport;

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// A message that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReconnectError {
    /// It can never be sent.
    #[error(transparent)]
    Message(#[from] frame::FrameError),
    /// The node is away.
    #[error(transparent)]
    Away(#[from] ConnectError),
    /// The node was away a moment ago.
    #[error("it is tried again in {0:?}")]
    Pause(Duration),
}

/// Sends to one node.
#[derive(Debug)]
pub struct Reconnecting {
    place: Box<dyn Transport>,
    token: Option<SharedSecret>,
    coalescing: Coalescing,
    numbered: Numbered,
    connected: Option<(Sender, Receiver)>,
    pause: Duration,
    not_before: Option<Instant>,
}

impl Reconnecting {
    /// A sender to `place`; connects when there is something to send.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn new(
        place: Box<dyn Transport>,
        token: Option<SharedSecret>,
        coalescing: Coalescing,
    ) -> std::io::Result<Self> {
        let numbered = Numbered::new()?;
        Ok(Self { place, token, coalescing, numbered, connected: None, pause: PAUSE_MIN, not_before: None })
    }

    /// Takes `message`, over a new connection if the last one broke.
    ///
    /// # Errors
    /// It is empty or too large, or the node is away.
    pub fn send(&mut self, message: &[u8], urgency: Urgency) -> Result<(), ReconnectError> {
        loop {
            let known = self.connected.is_some();
            match self.connect()?.send(message, urgency) {
                Ok(()) => {
                    self.numbered.first += 1;
                    return Ok(());
                }
                Err(SendError::Message(error)) => return Err(error.into()),
                Err(SendError::Broken(kind)) => {
                    // Not all of this message was taken, so it did not arrive and may be sent again.
                    self.connected = None;
                    if !known {
                        return Err(self.away(ConnectError::Unreachable(self.place.to_string(), kind.into())));
                    }
                }
            }
        }
    }

    /// Receives the messages that the node sends back, while there is a connection.
    pub fn receiver(&mut self) -> Option<&mut Receiver> {
        self.connected.as_mut().map(|(_, receiver)| receiver)
    }

    fn connect(&mut self) -> Result<&Sender, ReconnectError> {
        if self.connected.is_none() {
            let left = self.not_before.map_or(Duration::ZERO, |then| then.saturating_duration_since(Instant::now()));
            if !left.is_zero() {
                return Err(ReconnectError::Pause(left));
            }
            let opened =
                Connection::open(&*self.place, self.token.as_ref(), self.coalescing, CONNECT_WITHIN, self.numbered);
            let connection = opened.map_err(|error| self.away(error))?;
            (self.pause, self.not_before) = (PAUSE_MIN, None);
            self.connected = Some((connection.sender, connection.receiver));
        }
        Ok(&self.connected.as_ref().expect("just connected").0)
    }

    fn away(&mut self, error: ConnectError) -> ReconnectError {
        self.not_before = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        error.into()
    }
}
