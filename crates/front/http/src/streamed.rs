//! A response that is written while its body arrives.
//!
//! Promise: the head is sent with the first bytes of the body. The connection of a client that takes no bytes for `stall_max`
//! is closed. A client can tell a response that breaks off, or is dropped, from a whole one. A body is never longer than its
//! head says. Not here: the fields of the head.

use std::future::Future;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_types::header::{HeaderName, TRANSFER_ENCODING};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::client_stream::ClientStream;
use crate::message::head::{HttpVersion, RequestHead};
use crate::message::reply::After;

/// The way by which the client finds the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length, which the head says.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The connection is closed (HTTP/1.0).
    UntilClose,
}

impl Framing {
    /// The framing of a body of this length, if it is known, for a client of this version.
    pub(crate) fn of(length: Option<u64>, version: HttpVersion) -> Self {
        match (length, version) {
            (Some(length), _) => Self::Length(length),
            (None, HttpVersion::Http11 | HttpVersion::Http2) => Self::Chunked,
            (None, HttpVersion::Http10) => Self::UntilClose,
        }
    }

    /// The head field that states it, besides `Content-Length`.
    pub(crate) fn field(self) -> Option<(HeaderName, String)> {
        (self == Self::Chunked).then(|| (TRANSFER_ENCODING, "chunked".to_owned()))
    }

    /// Fate of the connection after the body.
    pub(crate) fn after(self, head: &RequestHead) -> After {
        if self == Self::UntilClose { After::Close } else { After::of(head) }
    }
}

/// A receiver of the pieces of a body.
pub(crate) trait PieceSink {
    /// Sends a piece; `None` if the client is gone, or the body is longer than its head says.
    fn write(&mut self, piece: Bytes) -> impl Future<Output = Option<()>> + Send;

    /// Ends the body; `None` if the client is gone, or the body is shorter than its head says.
    fn finish(&mut self) -> impl Future<Output = Option<()>> + Send;
}

/// A response over HTTP/1.
pub(crate) struct Streamed {
    socket: ClientStream,
    /// The head that is still to be sent; empty after that.
    head: Bytes,
    framing: Framing,
    stall_max: Duration,
    /// Body bytes written so far, without framing.
    body_bytes: u64,
}

impl Streamed {
    /// A response of which no byte has been sent. `head` includes the empty line at its end.
    pub(crate) fn new(socket: ClientStream, head: Vec<u8>, framing: Framing, stall_max: Duration) -> Self {
        if framing == Framing::UntilClose {
            // Dropping the socket resets the connection until the response is whole: the client can tell only a reset from a proper end.
            let _ = socket.reset_on_drop(true);
        }
        Self { socket, head: head.into(), framing, stall_max, body_bytes: 0 }
    }

    /// Body bytes written so far, without framing.
    pub(crate) const fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// The socket after a whole response, for the next request.
    pub(crate) fn into_socket(self) -> ClientStream {
        self.socket
    }

    /// Writes the rest of the head, then `bytes`.
    async fn send(&mut self, bytes: impl Buf + Send) -> Option<()> {
        let mut bytes = std::mem::take(&mut self.head).chain(bytes);
        while bytes.has_remaining() {
            let written = timeout(self.stall_max, self.socket.write_buf(&mut bytes)).await.ok()?.ok()?;
            if written == 0 {
                return None;
            }
        }
        timeout(self.stall_max, self.socket.flush()).await.ok()?.ok()
    }
}

impl PieceSink for Streamed {
    async fn write(&mut self, piece: Bytes) -> Option<()> {
        self.body_bytes += piece.len() as u64;
        match self.framing {
            Framing::Length(length) if self.body_bytes > length => None,
            Framing::Chunked => {
                let size = Bytes::from(format!("{:x}\r\n", piece.len()));
                self.send(size.chain(piece).chain(b"\r\n".as_slice())).await
            }
            Framing::Length(_) | Framing::UntilClose => self.send(piece).await,
        }
    }

    async fn finish(&mut self) -> Option<()> {
        if matches!(self.framing, Framing::Length(length) if self.body_bytes != length) {
            return None;
        }
        let last = if self.framing == Framing::Chunked { b"0\r\n\r\n".as_slice() } else { &[] };
        self.send(last).await?;
        self.socket.reset_on_drop(false).ok()
    }
}
