//! Source: a content as the data plane delivers it: admitted, read and paced as for any client, but into one end of a
//! pair of connected sockets.
//!
//! Promise: holds one piece of at most [`PIECE_BYTES`], and the pair what its send buffer takes; what is not fetched from
//! here slows the plane's stream like a slow client, and dropping it ends that stream like a client that vanishes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use super::{Source, Step};
use crate::message::reply::Reply;

/// Largest piece.
const PIECE_BYTES: usize = 64 * 1024;

pub(crate) struct Delivered {
    socket: UnixStream,
    left: u64,
    buffer: BytesMut,
}

/// The socket for the data plane, with a send buffer of `buffer_bytes`, and the source of the `length` bytes that it is to
/// send there.
///
/// # Errors
/// No descriptors or memory are left.
pub(crate) fn delivered(length: u64, buffer_bytes: usize) -> io::Result<(OwnedFd, Delivered)> {
    let (theirs, ours) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    // The plane's end stays in blocking mode, for then no memory is lent to it (`kernel::lend`): before Linux 6.5, splicing
    // to such a socket waits for its reader, which is no thread of real-time priority. The plane's sends never wait.
    SockRef::from(&theirs).set_send_buffer_size(buffer_bytes)?;
    let source = Delivered { socket: UnixStream::from_std(ours)?, left: length, buffer: BytesMut::new() };
    Ok((theirs.into(), source))
}

impl Delivered {
    async fn piece(&mut self) -> Result<Option<Bytes>, Reply> {
        if self.left == 0 {
            return Ok(None);
        }
        self.buffer.reserve(PIECE_BYTES);
        let read = match self.socket.read_buf(&mut self.buffer).await {
            Ok(read @ 1..) => u64::try_from(read).expect("usize fits"),
            Ok(0) | Err(_) => {
                let detail = "the delivery of the content broke off";
                return Err(Reply::problem(StatusCode::SERVICE_UNAVAILABLE, detail));
            }
        };
        self.left = self.left.checked_sub(read).expect("the plane sends its segments and nothing else");
        Ok(Some(self.buffer.split().freeze()))
    }
}

impl Source for Delivered {
    fn next(&mut self) -> Step<'_, Option<Bytes>> {
        Box::pin(self.piece())
    }
}
