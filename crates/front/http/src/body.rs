//! The body of a request, read from the connection on demand.
//!
//! Promise: the body is read only on demand, so a slow disk slows the client; exactly the body is taken, so that not a byte of
//! the next request is lost; a client that waits for `100 Continue` gets it when the body is wanted, and not otherwise; a body
//! that trickles ends. The bytes of a recording are gathered in its socket for a part of a second, and are read before its block is due.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes};
use dataplane::control::RecordingPlace;
use hyper::body::{Body as _, Frame, Incoming};
use kernel::clock::monotonic;
use tokio::time::{Instant, timeout};
use units::{BitRate, Nanos};

use crate::client_stream::{ClientStream, write_all};
use crate::memory::ConnectionBuffer;
use crate::message::chunked::{ChunkError, ChunkedDecoder, Decoded};
use crate::message::head::{BodyFraming, RequestHead};

/// Bytes that a client must send in the time that it may be silent for; with fewer, the wait for it ends.
const TRICKLE_BYTES: usize = 1024;
/// The bytes of a recording in this time at its rate wake its reader: those of each packet would, which costs several times as much
/// processor time.
const GATHERED: Nanos = Nanos::from_millis(250);
/// Fewer bytes, and the end of a body behind them, are read after this time.
const GATHERED_TIME_MAX: Nanos = Nanos::from_millis(500);
/// The bytes of a recording are read this long before its block is due, and are in that.
const READ_BEFORE_BLOCK: Nanos = Nanos::from_millis(10);

/// The rate of a recording, and when its blocks are due.
type RecordedBlocks = (BitRate, RecordingPlace);

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
        self.next_of(None).await
    }

    /// The next bytes of a recording, which are gathered before.
    pub(crate) async fn next_of(&mut self, recording: Option<RecordedBlocks>) -> Result<Option<Bytes>, BodyError> {
        match self {
            Self::Bytes(body) => body.next(recording).await,
            Self::Frames(body) => body.next().await,
        }
    }

    /// All of a body that is a document, of at most `bytes_max`. It takes no longer in all than a client may be silent for: a client that
    /// sends a little now and then would keep its connection for as long as it likes.
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
    /// Bytes in the socket that wake the reader.
    wakes_at: usize,
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
        Self { stream, buffer, left, expects, trickle: Trickle::new(idle_max), wakes_at: 1 }
    }

    async fn next(&mut self, recording: Option<RecordedBlocks>) -> Result<Option<Bytes>, BodyError> {
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
            self.read_more(recording).await?;
        }
    }

    async fn read_more(&mut self, recording: Option<RecordedBlocks>) -> Result<(), BodyError> {
        let Self { stream, buffer, wakes_at, .. } = self;
        let next = async {
            if let Some((rate, place)) = recording {
                let left = if let BodyLeft::Length(left) = self.left { left } else { u64::MAX };
                wake_at(stream, wakes_at, usize::try_from(rate.bytes_in(GATHERED).min(left)).unwrap_or(usize::MAX));
                let time = gathered_time(place, monotonic());
                if let Ok(read) = timeout(time, buffer.read_from(stream)).await {
                    return read;
                }
                wake_at(stream, wakes_at, 1);
            }
            buffer.read_from(stream).await
        };
        match self.trickle.wait(next, |read| *read.as_ref().unwrap_or(&0)).await? {
            Ok(1..) => Ok(()),
            Err(error) if error.kind() == ErrorKind::OutOfMemory => Err(BodyError::NoMemory),
            Ok(0) | Err(_) => Err(BodyError::BrokenOff),
        }
    }

    fn skip_rest(&mut self) -> bool {
        wake_at(self.stream, &mut self.wakes_at, 1);
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
        while let Some(bytes) = self.next(None).await? {
            discarded += u64::try_from(bytes.len()).expect("usize fits");
            if discarded > bytes_max {
                return Err(BodyError::Unwanted);
            }
        }
        Ok(())
    }
}

/// Wakes the reader of a connection when this number of bytes is there, at least one; it is woken at `now` of them. A socket that cannot do
/// that wakes it at each packet.
fn wake_at(stream: &ClientStream, now: &mut usize, bytes: usize) {
    let bytes = bytes.max(1);
    if *now != bytes && stream.wake_reader_at(bytes).is_ok() {
        *now = bytes;
    }
}

/// Time for which the bytes of a recording are gathered from `now` on: none is left behind for the block after its own.
fn gathered_time(place: RecordingPlace, now: Nanos) -> Duration {
    let soon = now.saturating_add(READ_BEFORE_BLOCK);
    Duration::from_nanos(place.next(soon).saturating_sub(soon).min(GATHERED_TIME_MAX).0)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::memory::ConnectionMemory;

    /// Long enough for anything but a wait without end.
    const LONG: Duration = Duration::from_secs(20);
    /// Shorter than what is gathered, and longer than a wake.
    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn bytes_of_a_recording_wake_its_reader_together_and_its_end_and_the_next_request_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut camera = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
        let mut stream = ClientStream::from(listener.accept().await.expect("accepted").0);
        let mut buffer = ConnectionBuffer::new(ConnectionMemory::new(1 << 20));
        let (period, within) = (Nanos::from_secs(3600), Nanos::from_secs(2));
        let place = RecordingPlace { first: monotonic().saturating_add(period), period, within };
        // 10,000 bytes in a quarter of a second.
        let recording = Some((BitRate(320_000), place));
        let (left, trickle) = (BodyLeft::Chunked(ChunkedDecoder::default()), Trickle::new(LONG));
        let (stream, buffer) = (&mut stream, &mut buffer);
        let mut body = ConnectionBody { stream, buffer, left, expects: false, trickle, wakes_at: 1 };
        let chunk = [b"2710\r\n".as_slice(), &[7; 10_000], b"\r\n"].concat();
        let (some, rest) = chunk.split_at(5_000);
        assert!(timeout(SHORT, body.next(recording)).await.is_err(), "nothing was sent");
        camera.write_all(some).await.expect("sent");
        assert!(timeout(SHORT, body.next(recording)).await.is_err(), "half of the bytes that wake it");
        camera.write_all(rest).await.expect("sent");
        let mut came = 0;
        while came < 10_000 {
            came += body.next(recording).await.expect("a piece").expect("no end").len();
        }
        camera.write_all(b"0\r\n\r\n").await.expect("sent");
        let end = timeout(LONG, body.next(recording)).await.expect("five bytes at the end are read, too");
        assert!(matches!(end, Ok(None)), "{end:?}");
        assert!(body.skip_rest());
        camera.write_all(b"G").await.expect("sent");
        let next = timeout(LONG, body.buffer.read_from(body.stream)).await.expect("the next request is not gathered");
        assert_eq!(next.expect("read"), 1);
    }

    #[test]
    fn bytes_of_a_recording_are_not_gathered_beyond_its_block() {
        let (first, period, within) = (Nanos::from_secs(100), Nanos::from_secs(8), Nanos::from_secs(2));
        let place = RecordingPlace { first, period, within };
        for (now, time) in [(90_000, 500), (99_400, 500), (99_600, 390), (99_989, 1), (99_990, 500), (107_500, 490)] {
            assert_eq!(gathered_time(place, Nanos::from_millis(now)), Duration::from_millis(time), "at {now} ms");
        }
    }
}
