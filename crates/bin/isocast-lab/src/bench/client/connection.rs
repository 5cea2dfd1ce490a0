//! One stream's connection: connect, ask, read the head, then discard the body uncopied.
//!
//! Promise: never blocks; bytes of a body are counted and dropped in the kernel (`MSG_TRUNC`, tcp(7)), only heads and
//! refusals are copied. Not here: when to look (`run`), the meaning of the bytes for J and the player (`Viewer`).

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with, sockopt,
};

use super::head::{self, HEAD_BYTES_MAX, RefusalReason};

/// A refusal's body is read up to this many bytes.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;
/// No body is as long: where more remains, its length is unknown.
const BODY_BYTES_MAX: u64 = u64::MAX / 2;
/// Room for the next read to start with: heads and refusals are small.
const READ_BYTES: usize = 4096;

/// State of a connection.
#[derive(Debug)]
pub(crate) enum ConnectionState {
    /// Not begun.
    Idle,
    /// Connecting, or sending the request from `sent` on.
    Asking { socket: OwnedFd, sent: usize },
    /// Reading the head.
    Head { socket: OwnedFd, read: Vec<u8> },
    /// The head is read, not one byte of the body has come.
    First { socket: OwnedFd, remaining: u64, keep_alive: bool },
    /// In the body.
    Body { socket: OwnedFd, remaining: u64, keep_alive: bool },
    /// Refused; reads the reason.
    Refused { socket: OwnedFd, read: Vec<u8>, length: u64, status: u16 },
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
    /// Begins to connect to `address` with a receive buffer of `buffer_bytes` (as far as the kernel permits).
    ///
    /// # Errors
    /// No socket, or the address cannot be reached.
    pub(crate) fn open(address: SocketAddr, buffer_bytes: usize) -> Result<Self, Errno> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        // A buffer that holds a whole burst of the sender: the reader must not become its pacer. Without the
        // privilege the kernel's own tuning does better than the small size it would permit, so that one is not tried.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, buffer_bytes);
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::Asking { socket, sent: 0 }),
            Err(e) => Err(e),
        }
    }

    /// The socket, if there is one.
    pub(crate) fn socket(&self) -> Option<&OwnedFd> {
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
            match recv(&*socket, &mut scratch[..room], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                // Of unknown length (RFC 9112, 6.3): the connection's end is the body's.
                Ok((0, _)) if *remaining > BODY_BYTES_MAX => {
                    return Drained { bytes, end: BodyEnd::Over { keep_alive: false } };
                }
                Ok((0, _)) => {
                    let reason = format!("the server closed the connection {remaining} bytes before the end");
                    return Drained { bytes, end: BodyEnd::Broken { reason } };
                }
                Ok((n, _)) => {
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

fn ask(socket: OwnedFd, sent: usize, request: &[u8]) -> NextStep {
    match send(&socket, &request[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        Ok(n) if sent + n == request.len() => (ConnectionState::Head { socket, read: Vec::new() }, None),
        Ok(n) => (ConnectionState::Asking { socket, sent: sent + n }, Some(ConnectionStep::Wait)),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => {
            (ConnectionState::Asking { socket, sent }, Some(ConnectionStep::Wait))
        }
        Err(e) => failed(format!("connecting: {e}")),
    }
}

fn read_head(socket: OwnedFd, mut read: Vec<u8>) -> NextStep {
    match read_some(&socket, &mut read, HEAD_BYTES_MAX) {
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

/// Looks whether the body has begun, without taking anything of it.
fn first(socket: OwnedFd, remaining: u64, keep_alive: bool) -> NextStep {
    let mut one = [0_u8];
    match recv(&socket, &mut one, RecvFlags::DONTWAIT | RecvFlags::PEEK) {
        Ok((0, _)) => failed("the server closed the connection before the first byte".to_owned()),
        Ok(_) => {
            (ConnectionState::Body { socket, remaining, keep_alive }, Some(ConnectionStep::FirstBytes { bytes: 0 }))
        }
        Err(Errno::AGAIN | Errno::INTR) => {
            (ConnectionState::First { socket, remaining, keep_alive }, Some(ConnectionStep::Wait))
        }
        Err(e) => failed(format!("reading: {e}")),
    }
}

fn read_refusal(socket: OwnedFd, mut read: Vec<u8>, length: u64, status: u16) -> NextStep {
    let refused = |read: &[u8]| ConnectionStep::Refused { status, reason: head::refusal(read) };
    if read.len() as u64 >= length || read.len() >= REFUSAL_BYTES_MAX {
        return (ConnectionState::Done, Some(refused(&read)));
    }
    match read_some(&socket, &mut read, REFUSAL_BYTES_MAX) {
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
fn read_some(socket: &OwnedFd, read: &mut Vec<u8>, bytes_max: usize) -> ReadSome {
    let mut buffer = [0_u8; READ_BYTES];
    let room = READ_BYTES.min(bytes_max.saturating_sub(read.len()));
    if room == 0 {
        return ReadSome::Error(Errno::MSGSIZE);
    }
    match recv(socket, &mut buffer[..room], RecvFlags::DONTWAIT) {
        Ok((0, _)) => ReadSome::Closed,
        Ok((n, _)) => {
            read.extend_from_slice(&buffer[..n]);
            ReadSome::Some
        }
        Err(Errno::AGAIN | Errno::INTR) => ReadSome::Nothing,
        Err(e) => ReadSome::Error(e),
    }
}
