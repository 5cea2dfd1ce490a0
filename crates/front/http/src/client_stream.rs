//! The byte stream of a client's connection: plain, or sealed by TLS.
//!
//! Promise: only a plain stream has a socket that the data plane can send to. A stream that is dropped before its announced end never looks
//! as if it had ended properly. Not here: handshakes (`tls`).

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use socket2::SockRef;
use tls::TlsStream;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For a client to take a small response.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
/// For a client to take the word that its connection ends.
const END_TIME_MAX: Duration = Duration::from_secs(1);

/// The byte stream of a client's connection.
#[derive(Debug)]
pub(crate) enum ClientStream {
    /// As it came.
    Plain(TcpStream),
    /// By TLS. In a box: most of a connection's state is the cipher's.
    Sealed(Box<TlsStream>),
}

impl From<TcpStream> for ClientStream {
    fn from(stream: TcpStream) -> Self {
        Self::Plain(stream)
    }
}

impl ClientStream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Sealed(stream) => stream.get_ref().0,
        }
    }

    /// True if its bytes are sealed.
    pub(crate) const fn is_sealed(&self) -> bool {
        matches!(self, Self::Sealed(_))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket().local_addr()
    }

    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        self.socket().set_nodelay(true)
    }

    /// Wakes the reader when this number of bytes is there, or the end of the stream, and not for each segment.
    pub(crate) fn wake_reader_at(&self, bytes: usize) -> io::Result<()> {
        kernel::socket::wake_reader_at(self.socket(), bytes)
    }

    /// Makes a drop reset the connection, or not: for a body that ends with its connection, only a reset differs from the proper end.
    /// TLS has an end of its own, which only a shutdown sends.
    pub(crate) fn reset_on_drop(&self, resets: bool) -> io::Result<()> {
        SockRef::from(self.socket()).set_linger(resets.then_some(Duration::ZERO))
    }

    /// Takes the socket out of the runtime, for the data plane; none if it is sealed.
    pub(crate) fn detach(self) -> Option<OwnedFd> {
        match self {
            Self::Plain(stream) => stream.into_std().ok().map(OwnedFd::from),
            Self::Sealed(_) => None,
        }
    }

    /// The stream for the next request, after a whole response; or none and, of a sealed one, the word that this is its end.
    pub(crate) async fn kept(mut self, is_kept: bool) -> Option<Self> {
        if is_kept {
            return Some(self);
        }
        let _ = timeout(END_TIME_MAX, self.shutdown()).await;
        None
    }

    /// Puts a socket back into the runtime; or closes it if that fails.
    pub(crate) fn attach(socket: OwnedFd) -> Option<Self> {
        TcpStream::from_std(socket.into()).ok().map(Self::Plain)
    }
}

/// A stream of bytes both ways.
trait ByteStream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> ByteStream for S {}

impl ClientStream {
    fn either(self: Pin<&mut Self>) -> Pin<&mut dyn ByteStream> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream),
            Self::Sealed(stream) => Pin::new(stream),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.either().poll_read(context, into)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.either().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.either().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Sealed(stream) => stream.is_write_vectored(),
        }
    }

    /// Bytes that were written may wait here for room in the socket, sealed, until they are flushed.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.either().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.either().poll_shutdown(context)
    }
}

/// Writes all of a small response, within [`WRITE_TIME_MAX`].
pub(crate) async fn write_all(stream: &mut ClientStream, mut bytes: impl Buf + Send) -> io::Result<()> {
    let written = async {
        stream.write_all_buf(&mut bytes).await?;
        stream.flush().await
    };
    timeout(WRITE_TIME_MAX, written).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
