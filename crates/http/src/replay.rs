//! One request through hyper, on a socket that is ours before and after.
//!
//! Promise: hyper sees exactly this request (head and Content-Length body), so not a byte of the next one is lost; the
//! socket comes back when the response is flushed. Where a part of the body is unread when it is answered (a chunked one has
//! no known end), the answer says that the connection is closed after it.
//! Why it is sound (hyper 1.12, `proto/h1/dispatch.rs`): keep-alive stays on, so no `connection: close` is written; at the
//! request's end this stream stays pending instead of ending, so hyper sees no half-closed client; hyper drops the
//! response body after it has encoded its last byte, and calls our `poll_flush` only when its buffer is empty.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body_util::Full;
use http_types::Response;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::message::reply::{Reply, SERVER};

const ANSWERING: u8 = 0;
const ENCODED: u8 = 1;
const FLUSHED: u8 = 2;

/// How far the response is.
#[derive(Debug, Default)]
struct Progress {
    stage: AtomicU8,
    /// All of the request was given to hyper.
    read: AtomicBool,
    /// The answer says that the connection is closed.
    closing: AtomicBool,
    answered: Notify,
}

/// What hyper reads and writes.
struct Replay {
    stream: TcpStream,
    /// Head and the part of the body that was read with it.
    before: Bytes,
    /// Bytes of the body still in the socket.
    rest: u64,
    progress: Arc<Progress>,
}

/// A socket back from hyper.
pub(crate) struct Replayed {
    /// The socket.
    pub(crate) stream: TcpStream,
    /// The response is out, the request's body was read to its end, and the client knows.
    pub(crate) whole: bool,
}

/// Serves one request. `before` is its head and what of its body has been read; `rest` bytes of it are still to come.
pub(crate) async fn serve_one<F>(
    stream: TcpStream,
    before: Bytes,
    rest: u64,
    write_time_max: Duration,
    respond: impl Fn(Incoming) -> F,
) -> Option<Replayed>
where
    F: Future<Output = Reply>,
{
    let progress = Arc::new(Progress::default());
    let replay = Replay { stream, before, rest, progress: Arc::clone(&progress) };
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let answer = respond(request.into_body());
        let progress = Arc::clone(&progress);
        async move {
            let mut reply = answer.await;
            if !progress.read.load(Ordering::Acquire) {
                progress.closing.store(true, Ordering::Release);
                reply = reply.field(http_types::header::CONNECTION, "close");
            }
            progress.answered.notify_one();
            Ok::<_, std::convert::Infallible>(to_response(reply, progress))
        }
    });
    let mut connection =
        std::pin::pin!(Some(Box::pin(http1::Builder::new().serve_connection(TokioIo::new(replay), service))));
    let flushed = std::future::poll_fn(|cx| {
        let Some(connection) = connection.as_mut().get_mut().as_mut() else { return Poll::Ready(false) };
        let ended = connection.as_mut().poll(cx).is_ready();
        if progress.stage.load(Ordering::Acquire) == FLUSHED {
            return Poll::Ready(true);
        }
        if ended { Poll::Ready(false) } else { Poll::Pending }
    });
    let too_slow = async {
        progress.answered.notified().await;
        tokio::time::sleep(write_time_max).await;
    };
    let flushed = tokio::select! {
        flushed = flushed => flushed,
        () = too_slow => false,
    };
    if !flushed {
        return None;
    }
    let parts = Pin::into_inner(connection.get_mut().take()?);
    let replay = parts.into_parts().io.into_inner();
    let whole = replay.is_read() && !replay.progress.closing.load(Ordering::Acquire);
    Some(Replayed { whole, stream: replay.stream })
}

fn to_response(reply: Reply, progress: Arc<Progress>) -> Response<Watched> {
    let mut response = Response::new(Watched { inner: Full::new(reply.body), progress });
    *response.status_mut() = reply.status;
    for (name, value) in reply.fields {
        if let Ok(value) = http_types::HeaderValue::from_str(&value) {
            response.headers_mut().append(name, value);
        }
    }
    response.headers_mut().insert(http_types::header::SERVER, http_types::HeaderValue::from_static(SERVER));
    response
}

/// A body that tells when hyper is done with it.
struct Watched {
    inner: Full<Bytes>,
    progress: Arc<Progress>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.progress.stage.store(ENCODED, Ordering::Release);
    }
}

impl Replay {
    fn is_read(&self) -> bool {
        self.rest == 0 && self.before.is_empty()
    }

    /// Tells whoever answers how much of the request was read.
    fn note(&self) {
        self.progress.read.store(self.is_read(), Ordering::Release);
    }
}

impl AsyncRead for Replay {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.before.is_empty() {
            let length = self.before.len().min(buffer.remaining());
            buffer.put_slice(&self.before[..length]);
            self.before.advance(length);
            self.note();
            return Poll::Ready(Ok(()));
        }
        if self.rest == 0 {
            // Pending without a waker: what comes next is the end of the response, which hyper learns elsewhere.
            return Poll::Pending;
        }
        let room = buffer.remaining();
        let limit = usize::try_from(self.rest).unwrap_or(usize::MAX).min(room);
        let filled = buffer.filled().len();
        if limit == room {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        } else {
            let mut window = ReadBuf::new(buffer.initialize_unfilled_to(limit));
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut window))?;
            let read = window.filled().len();
            buffer.advance(read);
        }
        let read = buffer.filled().len() - filled;
        self.rest -= u64::try_from(read).expect("a read is shorter than what is left of the body");
        self.note();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Replay {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        let stage = &self.progress.stage;
        let _ = stage.compare_exchange(ENCODED, FLUSHED, Ordering::AcqRel, Ordering::Acquire);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The socket is ours: closing it is decided outside.
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}

const _: () = assert!(ANSWERING < ENCODED && ENCODED < FLUSHED);
