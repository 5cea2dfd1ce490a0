//! Sink: an HTTP response on a client's socket.
//!
//! Promise: the head leaves with the first bytes, so that what fails before them can still be answered; a client that
//! takes nothing for too long is given up; a response that breaks off, or is dropped, is never taken for a whole one;
//! there are never more bytes of a body than its head says.
//! Not here: what the head says.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Buf, Bytes};
use dataplane::control::Outcome;
use http::StatusCode;
use socket2::SockRef;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Sink, Step};
use crate::message::reply::Reply;

/// How the client knows where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length, which the head says.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The connection is closed (HTTP/1.0).
    UntilClose,
}

pub(crate) struct Response {
    socket: TcpStream,
    /// Empty once it is on its way.
    head: Bytes,
    framing: Framing,
    stall_max: Duration,
    sent_bytes: u64,
    /// Bytes of the body taken so far, without framing.
    body_bytes: u64,
    lost: Option<Outcome>,
}

impl Response {
    /// A response of which nothing went out yet. `head` is all of it up to the empty line.
    pub(crate) fn new(socket: TcpStream, head: Vec<u8>, framing: Framing, stall_max: Duration) -> Self {
        assert!(!head.is_empty(), "a response begins with its head");
        let response = Self { socket, head: head.into(), framing, stall_max, sent_bytes: 0, body_bytes: 0, lost: None };
        if framing == Framing::UntilClose {
            // Until it is whole: only a reset differs from the proper end, also where it is dropped.
            response.reset_on_close(Some(Duration::ZERO));
        }
        response
    }

    fn reset_on_close(&self, linger: Option<Duration>) {
        let _ = SockRef::from(&self.socket).set_linger(linger);
    }

    /// Bytes the socket took, head and framing included.
    pub(crate) const fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Whether and how the client was lost: gone or stalled.
    pub(crate) const fn lost(&self) -> Option<Outcome> {
        self.lost
    }

    /// The socket after a whole response, for the next request.
    pub(crate) fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Ends a response that cannot be finished. The socket, if nothing went out and it can still be answered; otherwise
    /// it is closed, so that the client knows that something is missing.
    pub(crate) fn break_off(self) -> Option<TcpStream> {
        let answerable = self.lost.is_none() && !self.head.is_empty();
        answerable.then(|| {
            self.reset_on_close(None);
            self.socket
        })
    }

    /// Writes what is left of the head, then `bytes`.
    async fn write(&mut self, bytes: impl Buf + Send) -> Result<(), Reply> {
        let mut bytes = std::mem::take(&mut self.head).chain(bytes);
        while bytes.has_remaining() {
            match timeout(self.stall_max, self.socket.write_buf(&mut bytes)).await {
                Ok(Ok(written @ 1..)) => self.sent_bytes += u64::try_from(written).expect("usize fits"),
                Ok(Ok(0) | Err(_)) => return Err(self.lose(Outcome::ClientGone)),
                Err(_) => return Err(self.lose(Outcome::ClientStalled)),
            }
        }
        Ok(())
    }

    /// Nobody will read the reply; there is one because every step that fails has one.
    fn lose(&mut self, how: Outcome) -> Reply {
        self.lost = Some(how);
        Reply::empty(StatusCode::REQUEST_TIMEOUT)
    }
}

impl Sink for Response {
    type Done = ();

    fn take(&mut self, piece: Bytes) -> Step<'_, ()> {
        Box::pin(async move {
            self.body_bytes += u64::try_from(piece.len()).expect("usize fits");
            match self.framing {
                Framing::Length(length) if self.body_bytes > length => Err(not_the_length()),
                Framing::Chunked => {
                    let size = Bytes::from(format!("{:x}\r\n", piece.len()));
                    self.write(size.chain(piece).chain(b"\r\n".as_slice())).await
                }
                Framing::Length(_) | Framing::UntilClose => self.write(piece).await,
            }
        })
    }

    /// Only a reset is seen: a client may close its own side and still read.
    fn failed(&mut self) -> Step<'_, Infallible> {
        Box::pin(async {
            let _ = self.socket.ready(Interest::ERROR).await;
            Err(self.lose(Outcome::ClientGone))
        })
    }

    fn finish(&mut self) -> Step<'_, ()> {
        Box::pin(async {
            if matches!(self.framing, Framing::Length(length) if self.body_bytes != length) {
                return Err(not_the_length());
            }
            let last = if self.framing == Framing::Chunked { b"0\r\n\r\n".as_slice() } else { &[] };
            self.write(last).await?;
            self.reset_on_close(None);
            Ok(())
        })
    }
}

fn not_the_length() -> Reply {
    let detail = "a stage changed the length of the content without saying that it alters it";
    Reply::problem(StatusCode::INTERNAL_SERVER_ERROR, detail)
}
