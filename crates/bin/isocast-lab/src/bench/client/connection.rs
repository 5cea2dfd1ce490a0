//! One stream's connection: connect, ask, read the head, then discard the body uncopied.
//!
//! Promise: never blocks; bytes of a body are counted and dropped, only heads and refusals are kept. Not here: the socket (`socket`), when to
//! look (`run`), the meaning of the bytes for J and the player (`Viewer`).

use std::net::SocketAddr;

use rustix::io::Errno;

use super::head::{self, HEAD_BYTES_MAX, RefusalReason};
use super::socket::{ClientSocket, SealedAddress};

/// A refusal's body is read up to this many bytes.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;
/// No body is as long: where more remains, its length is unknown.
const BODY_BYTES_MAX: u64 = u64::MAX / 2;
/// Room for the next read to start with: heads and refusals are small.
const READ_BYTES: usize = 4096;

/// State of a connection.
#[derive(Debug, Default)]
pub(crate) enum ConnectionState {
    /// Not begun.
    #[default]
    Idle,
    /// Connecting, or sending the request from `sent` on.
    Asking { socket: ClientSocket, sent: usize },
    /// Reading the head.
    Head { socket: ClientSocket, read: Vec<u8> },
    /// The head is read, not one byte of the body has come.
    First { socket: ClientSocket, remaining: u64, keep_alive: bool },
    /// In the body.
    Body { socket: ClientSocket, remaining: u64, keep_alive: bool },
    /// Refused; reads the reason.
    Refused { socket: ClientSocket, read: Vec<u8>, length: u64, status: u16 },
    /// Over.
    Done,
}

/// Result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConnectionStep {
    /// No result yet; epoll reports when there is more.
    Wait,
    /// The first `bytes` of the body came; from now on the sweep reads the rest.
    FirstBytes { bytes: u64 },
    /// Refused with a status, and why.
    Refused { status: u16, reason: RefusalReason },
    /// Broken; why.
    Failed { reason: String },
}

/// Result of reading a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Drained {
    /// Bytes of body dropped.
    pub bytes: u64,
    /// State of the body after the read.
    pub end: BodyEnd,
}

/// State of a body after a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// There is more to come.
    More,
    /// The content is over; ask again on this connection, or on a new one.
    Over { keep_alive: bool },
    /// The connection broke in the middle; why.
    Broken { reason: String },
}

impl ConnectionState {
    /// Begins to connect; see [`ClientSocket::open`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn open(
        address: SocketAddr,
        sealed: Option<&SealedAddress>,
        buffer_bytes: usize,
    ) -> Result<Self, Errno> {
        Ok(Self::Asking { socket: ClientSocket::open(address, sealed, buffer_bytes)?, sent: 0 })
    }

    /// The socket, if there is one.
    pub(crate) fn socket(&self) -> Option<&ClientSocket> {
        match self {
            Self::Idle | Self::Done => None,
            Self::Asking { socket, .. }
            | Self::Head { socket, .. }
            | Self::First { socket, .. }
            | Self::Body { socket, .. }
            | Self::Refused { socket, .. } => Some(socket),
        }
    }

    /// Bytes of the body still to come.
    pub(crate) fn remaining(&self) -> u64 {
        match self {
            Self::Body { remaining, .. } => *remaining,
            _ => 0,
        }
    }

    /// Goes as far as it can without waiting, up to the first byte of the body.
    pub(crate) fn step(&mut self, request: &[u8]) -> ConnectionStep {
        loop {
            let (next, step) = match std::mem::replace(self, Self::Done) {
                Self::Asking { socket, sent } => ask(socket, sent, request),
                Self::Head { socket, read } => read_head(socket, read),
                Self::First { socket, remaining, keep_alive } => first(socket, remaining, keep_alive),
                Self::Refused { socket, read, length, status } => read_refusal(socket, read, length, status),
                other @ (Self::Idle | Self::Body { .. } | Self::Done) => (other, Some(ConnectionStep::Wait)),
            };
            *self = next;
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// Drops the bytes of the body that have come; `scratch` bounds one read and is not written to.
    pub(crate) fn drain(&mut self, scratch: &mut [u8]) -> Drained {
        let Self::Body { socket, remaining, keep_alive } = self else {
            return Drained { bytes: 0, end: BodyEnd::More };
        };
        let mut bytes = 0;
        if *remaining == 0 {
            return Drained { bytes, end: BodyEnd::Over { keep_alive: *keep_alive } };
        }
        loop {
            let room = usize::try_from(*remaining).unwrap_or(usize::MAX).min(scratch.len());
            match socket.drop_some(&mut scratch[..room]) {
                // Of unknown length (RFC 9112, 6.3): the connection's end is the body's.
                Ok(0) if *remaining > BODY_BYTES_MAX => {
                    return Drained { bytes, end: BodyEnd::Over { keep_alive: false } };
                }
                Ok(0) => {
                    let reason = format!("the server closed the connection {remaining} bytes before the end");
                    return Drained { bytes, end: BodyEnd::Broken { reason } };
                }
                Ok(n) => {
                    bytes += n as u64;
                    *remaining -= n as u64;
                    if *remaining == 0 {
                        return Drained { bytes, end: BodyEnd::Over { keep_alive: *keep_alive } };
                    }
                    if n < room {
                        return Drained { bytes, end: BodyEnd::More };
                    }
                }
                Err(Errno::AGAIN) => return Drained { bytes, end: BodyEnd::More },
                Err(Errno::INTR) => {}
                Err(e) => return Drained { bytes, end: BodyEnd::Broken { reason: format!("reading: {e}") } },
            }
        }
    }

    /// Makes the connection ask again, where it was kept alive.
    pub(crate) fn ask_again(&mut self) {
        if let Self::Body { socket, .. } = std::mem::replace(self, Self::Done) {
            *self = Self::Asking { socket, sent: 0 };
        }
    }
}

type NextStep = (ConnectionState, Option<ConnectionStep>);

fn failed(reason: String) -> NextStep {
    (ConnectionState::Done, Some(ConnectionStep::Failed { reason }))
}

fn ask(mut socket: ClientSocket, sent: usize, request: &[u8]) -> NextStep {
    match socket.send(&request[sent..]) {
        Ok(n) if sent + n == request.len() => (ConnectionState::Head { socket, read: Vec::new() }, None),
        Ok(n) => (ConnectionState::Asking { socket, sent: sent + n }, Some(ConnectionStep::Wait)),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => {
            (ConnectionState::Asking { socket, sent }, Some(ConnectionStep::Wait))
        }
        Err(e) => failed(format!("connecting: {e}")),
    }
}

fn read_head(mut socket: ClientSocket, mut read: Vec<u8>) -> NextStep {
    match read_some(&mut socket, &mut read, HEAD_BYTES_MAX) {
        ReadSome::Nothing => return (ConnectionState::Head { socket, read }, Some(ConnectionStep::Wait)),
        ReadSome::Closed => return failed("the server closed the connection without an answer".to_owned()),
        ReadSome::Error(e) => return failed(format!("reading the answer: {e}")),
        ReadSome::Some => {}
    }
    let head = match head::parse(&read) {
        Ok(Some(head)) => head,
        Ok(None) => return (ConnectionState::Head { socket, read }, None),
        Err(what) => return failed(format!("the server sent {what}")),
    };
    let body = read.split_off(head.head_bytes);
    if !matches!(head.status, 200 | 206) {
        let length = head.content_length.unwrap_or(0);
        return (ConnectionState::Refused { socket, read: body, length, status: head.status }, None);
    }
    let length = head.content_length.unwrap_or(u64::MAX);
    if length == 0 {
        return failed("the content is empty".to_owned());
    }
    let (came, keep_alive) = (body.len() as u64, head.keep_alive);
    match length.checked_sub(came) {
        None => failed(format!("the server sent more than the {length} bytes it had announced")),
        Some(remaining) if came == 0 => (ConnectionState::First { socket, remaining, keep_alive }, None),
        Some(remaining) => {
            (ConnectionState::Body { socket, remaining, keep_alive }, Some(ConnectionStep::FirstBytes { bytes: came }))
        }
    }
}

/// Takes the first byte of the body, once it has come.
fn first(mut socket: ClientSocket, remaining: u64, keep_alive: bool) -> NextStep {
    match socket.receive(&mut [0]) {
        Ok(0) => failed("the server closed the connection before the first byte".to_owned()),
        Ok(_) => {
            let remaining = remaining - 1;
            (ConnectionState::Body { socket, remaining, keep_alive }, Some(ConnectionStep::FirstBytes { bytes: 1 }))
        }
        Err(Errno::AGAIN | Errno::INTR) => {
            (ConnectionState::First { socket, remaining, keep_alive }, Some(ConnectionStep::Wait))
        }
        Err(e) => failed(format!("reading: {e}")),
    }
}

fn read_refusal(mut socket: ClientSocket, mut read: Vec<u8>, length: u64, status: u16) -> NextStep {
    let refused = |read: &[u8]| ConnectionStep::Refused { status, reason: head::refusal(read) };
    if read.len() as u64 >= length || read.len() >= REFUSAL_BYTES_MAX {
        return (ConnectionState::Done, Some(refused(&read)));
    }
    match read_some(&mut socket, &mut read, REFUSAL_BYTES_MAX) {
        ReadSome::Some => (ConnectionState::Refused { socket, read, length, status }, None),
        ReadSome::Nothing => (ConnectionState::Refused { socket, read, length, status }, Some(ConnectionStep::Wait)),
        ReadSome::Closed | ReadSome::Error(_) => (ConnectionState::Done, Some(refused(&read))),
    }
}

enum ReadSome {
    Some,
    Nothing,
    Closed,
    Error(Errno),
}

/// Appends the bytes that have come to `read`, up to `bytes_max` in all.
fn read_some(socket: &mut ClientSocket, read: &mut Vec<u8>, bytes_max: usize) -> ReadSome {
    let mut buffer = [0_u8; READ_BYTES];
    let room = READ_BYTES.min(bytes_max.saturating_sub(read.len()));
    if room == 0 {
        return ReadSome::Error(Errno::MSGSIZE);
    }
    match socket.receive(&mut buffer[..room]) {
        Ok(0) => ReadSome::Closed,
        Ok(n) => {
            read.extend_from_slice(&buffer[..n]);
            ReadSome::Some
        }
        Err(Errno::AGAIN | Errno::INTR) => ReadSome::Nothing,
        Err(e) => ReadSome::Error(e),
    }
}
