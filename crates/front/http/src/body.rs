//! The body of a request, read from the connection on demand.
//!
//! Promise: the body is read only on demand, so a slow disk slows the client; exactly the body is taken, so that not a byte of
//! the next request is lost; a client that waits for `100 Continue` gets it when the body is wanted, and not otherwise; a body
//! that trickles ends.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::body::{Body as _, Frame, Incoming};
use tokio::time::{Instant, timeout};

use crate::client_stream::{ClientStream, write_all};
use crate::memory::ConnectionBuffer;
use crate::message::chunked::{ChunkError, ChunkedDecoder, Decoded};
use crate::message::head::{BodyFraming, RequestHead};

/// Bytes that a client must send in the time that it may be silent for; with fewer, the wait for it ends.
const TRICKLE_BYTES: usize = 1024;

/// Reason for the early end of a body. The text is fit to be shown to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("too little of the body came for too long")]
    TimedOut,
    #[error("the connections hold as much memory as they may; try again later")]
    NoMemory,
    #[error("the connection broke off before the end of the body")]
    BrokenOff,
    #[error("this request needs no body; send none")]
    Unwanted,
    #[error("the body of this request has at most {0} bytes")]
    TooLong(usize),
    #[error(transparent)]
    Coding(#[from] ChunkError),
}

/// Rest of a body.
#[derive(Debug)]
enum BodyLeft {
    Length(u64),
    Chunked(ChunkedDecoder),
}

/// The body of one request.
pub(crate) enum RequestBody<'a> {
    /// Bytes of an HTTP/1 connection.
    Bytes(ConnectionBody<'a>),
    /// Frames of HTTP/2.
    Frames(FrameBody),
}

impl<'a> RequestBody<'a> {
    /// The body of `head`, of which the beginning may be in `buffer`.
    pub(crate) fn new(
        head: &RequestHead,
        stream: &'a mut ClientStream,
        buffer: &'a mut ConnectionBuffer,
        idle_max: Duration,
    ) -> Self {
        Self::Bytes(ConnectionBody::new(head, stream, buffer, idle_max))
    }

    /// The body that these frames carry.
    pub(crate) const fn of_frames(frames: Incoming, idle_max: Duration) -> Self {
        Self::Frames(FrameBody { frames, trickle: Trickle::new(idle_max) })
    }

    /// The next bytes, never none of them; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        match self {
            Self::Bytes(body) => body.next().await,
            Self::Frames(body) => body.next().await,
        }
    }

    /// All of a body that is a document, of at most `bytes_max`. It takes no longer in all than a client may be silent for: one that sends a
    /// little now and then would keep its connection for as long as it likes.
    pub(crate) async fn document(&mut self, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
        let time_max = match self {
            Self::Bytes(body) => body.trickle.idle_max,
            Self::Frames(body) => body.trickle.idle_max,
        };
        let all = async {
            let mut bytes = Vec::new();
            while let Some(piece) = self.next().await? {
                if bytes.len() + piece.len() > bytes_max {
                    return Err(BodyError::TooLong(bytes_max));
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes)
        };
        timeout(time_max, all).await.unwrap_or(Err(BodyError::TimedOut))
    }

    /// Sends an interim response before the body is read; over HTTP/2 none is.
    pub(crate) async fn inform(&mut self, head: &str) -> Result<(), BodyError> {
        match self {
            Self::Bytes(body) => write_all(body.stream, head.as_bytes()).await.map_err(|_| BodyError::BrokenOff),
            Self::Frames(_) => Ok(()),
        }
    }

    /// Skips the rest of the body, if all of it is here already. False if more of it may come.
    pub(crate) fn skip_rest(&mut self) -> bool {
        match self {
            Self::Bytes(body) => body.skip_rest(),
            Self::Frames(body) => body.frames.is_end_stream(),
        }
    }

    /// Reads on to the end of a body that no request has use for, which must not have more than `bytes_max`, nor take longer in all
    /// than a client may be silent for.
    pub(crate) async fn discard(&mut self, bytes_max: u64) -> Result<(), BodyError> {
        match self {
            Self::Bytes(body) => body.discard(bytes_max).await,
            Self::Frames(_) => Ok(()),
        }
    }
}

/// The time that a client has for sending a body.
#[derive(Debug)]
struct Trickle {
    idle_max: Duration,
    /// Time of waiting for the client, and bytes received meanwhile: both since [`TRICKLE_BYTES`] were there last.
    waited: Duration,
    came: usize,
}

impl Trickle {
    const fn new(idle_max: Duration) -> Self {
        Self { idle_max, waited: Duration::ZERO, came: 0 }
    }

    /// Waits once. The time of waiting counts until the client has sent [`TRICKLE_BYTES`], so that a byte now and then does not
    /// prolong it.
    async fn wait<T>(&mut self, next: impl Future<Output = T>, bytes: impl Fn(&T) -> usize) -> Result<T, BodyError> {
        let begun = Instant::now();
        let left = self.idle_max.saturating_sub(self.waited);
        let next = timeout(left, next).await.map_err(|_| BodyError::TimedOut)?;
        self.came += bytes(&next);
        self.waited += begun.elapsed();
        if self.came >= TRICKLE_BYTES {
            (self.came, self.waited) = (0, Duration::ZERO);
        }
        Ok(next)
    }
}

/// A body in frames.
pub(crate) struct FrameBody {
    frames: Incoming,
    trickle: Trickle,
}

impl FrameBody {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let frames = &mut self.frames;
            let next = poll_fn(|context| Pin::new(&mut *frames).poll_frame(context));
            let length = |frame: &Option<Result<Frame<Bytes>, hyper::Error>>| match frame {
                Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
                _ => 0,
            };
            match self.trickle.wait(next, length).await? {
                None => return Ok(None),
                Some(Err(_)) => return Err(BodyError::BrokenOff),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                    _ => {}
                },
            }
        }
    }
}

/// The body of one request of an HTTP/1 connection.
pub(crate) struct ConnectionBody<'a> {
    stream: &'a mut ClientStream,
    buffer: &'a mut ConnectionBuffer,
    left: BodyLeft,
    /// The client waits for `100 Continue`.
    expects: bool,
    trickle: Trickle,
}

impl<'a> ConnectionBody<'a> {
    fn new(
        head: &RequestHead,
        stream: &'a mut ClientStream,
        buffer: &'a mut ConnectionBuffer,
        idle_max: Duration,
    ) -> Self {
        let left = match head.body {
            BodyFraming::Length(length) => BodyLeft::Length(length),
            BodyFraming::Chunked => BodyLeft::Chunked(ChunkedDecoder::default()),
        };
        // A client that has sent some of the body already does not wait.
        let expects = head.expects_continue && buffer.bytes.is_empty();
        Self { stream, buffer, left, expects, trickle: Trickle::new(idle_max) }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            match &mut self.left {
                BodyLeft::Length(0) => return Ok(None),
                BodyLeft::Length(left) if !self.buffer.bytes.is_empty() => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(self.buffer.bytes.len());
                    *left -= u64::try_from(here).expect("a part of the body");
                    return Ok(Some(self.buffer.bytes.split_to(here).freeze()));
                }
                BodyLeft::Length(_) => {}
                BodyLeft::Chunked(decoder) => match decoder.decode(&mut self.buffer.bytes)? {
                    Decoded::Data(bytes) => return Ok(Some(bytes)),
                    Decoded::End => return Ok(None),
                    Decoded::More => {}
                },
            }
            if std::mem::take(&mut self.expects) {
                let told = write_all(self.stream, b"HTTP/1.1 100 Continue\r\n\r\n".as_slice()).await;
                told.map_err(|_| BodyError::BrokenOff)?;
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> Result<(), BodyError> {
        let next = self.buffer.read_from(self.stream);
        match self.trickle.wait(next, |read| *read.as_ref().unwrap_or(&0)).await? {
            Ok(1..) => Ok(()),
            Err(error) if error.kind() == ErrorKind::OutOfMemory => Err(BodyError::NoMemory),
            Ok(0) | Err(_) => Err(BodyError::BrokenOff),
        }
    }

    fn skip_rest(&mut self) -> bool {
        match &mut self.left {
            BodyLeft::Length(left) => match usize::try_from(*left) {
                Ok(here) if here <= self.buffer.bytes.len() => {
                    self.buffer.bytes.advance(here);
                    *left = 0;
                    true
                }
                _ => false,
            },
            BodyLeft::Chunked(decoder) => loop {
                match decoder.decode(&mut self.buffer.bytes) {
                    Ok(Decoded::Data(_)) => {}
                    Ok(Decoded::End) => return true,
                    Ok(Decoded::More) | Err(_) => return false,
                }
            },
        }
    }

    async fn discard(&mut self, bytes_max: u64) -> Result<(), BodyError> {
        timeout(self.trickle.idle_max, self.discard_all(bytes_max)).await.unwrap_or(Err(BodyError::TimedOut))
    }

    async fn discard_all(&mut self, bytes_max: u64) -> Result<(), BodyError> {
        if matches!(self.left, BodyLeft::Length(left) if left > bytes_max) {
            return Err(BodyError::Unwanted);
        }
        let mut discarded = 0;
        while let Some(bytes) = self.next().await? {
            discarded += u64::try_from(bytes.len()).expect("usize fits");
            if discarded > bytes_max {
                return Err(BodyError::Unwanted);
            }
        }
        Ok(())
    }
}
