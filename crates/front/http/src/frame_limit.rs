//! A limit on the frames of an HTTP/2 connection that move no request: PING, SETTINGS, RST_STREAM, PRIORITY, unknown ones.
//!
//! hyper answers each PING and SETTINGS, so a client that sends many of them costs time that no request needs. The heads of the frames are read as
//! they pass. Promise: beyond the limit the connection breaks off. Not here: frames themselves (hyper). See decisions/0069.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tls::TlsStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Before the first frame (RFC 9113 §3.4).
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
/// DATA, HEADERS, WINDOW_UPDATE and CONTINUATION, which hyper bounds by streams, windows and heads.
const UNCOUNTED: [u8; 4] = [0, 1, 8, 9];
/// Each other frame is paid for in this time: 50 a second,
const FRAME_COST: Duration = Duration::from_millis(20);
/// and 1,000 at once. Chosen: far above a player that seeks or a browser that gives a page up.
const AHEAD_MAX: Duration = Duration::from_secs(20);

/// A sealed connection whose received frames are counted.
pub(crate) struct LimitedFrames {
    stream: TlsStream,
    count: FrameCount,
}

impl LimitedFrames {
    pub(crate) fn new(stream: TlsStream) -> Self {
        Self { stream, count: FrameCount::new(Instant::now()) }
    }
}

/// Counts frames among the bytes that pass.
struct FrameCount {
    /// Bytes to the head of the next frame.
    skipped: usize,
    /// The beginning of that head.
    head: [u8; HEAD_BYTES],
    filled: usize,
    /// Frames are paid for until then.
    paid_until: Instant,
}

impl FrameCount {
    const fn new(now: Instant) -> Self {
        Self { skipped: PREFACE_BYTES, head: [0; HEAD_BYTES], filled: 0, paid_until: now }
    }

    /// Takes the bytes that came. True if the frames are within the limit.
    fn pass(&mut self, mut bytes: &[u8], now: Instant) -> bool {
        while !bytes.is_empty() {
            let payload = self.skipped.min(bytes.len());
            (self.skipped, bytes) = (self.skipped - payload, &bytes[payload..]);
            let taken = bytes.len().min(HEAD_BYTES - self.filled);
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            (self.filled, bytes) = (self.filled + taken, &bytes[taken..]);
            if self.filled < HEAD_BYTES {
                continue;
            }
            let [high, middle, low, kind, ..] = self.head;
            (self.skipped, self.filled) = (usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low), 0);
            if !UNCOUNTED.contains(&kind) {
                self.paid_until = self.paid_until.max(now) + FRAME_COST;
            }
        }
        self.paid_until <= now + AHEAD_MAX
    }
}

impl AsyncRead for LimitedFrames {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, into))?;
        let is_within = this.count.pass(&into.filled()[before..], Instant::now());
        Poll::Ready(if is_within { Ok(()) } else { Err(io::Error::other("beyond the frame limit")) })
    }
}

impl AsyncWrite for LimitedFrames {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    const DATA: [u8; 12] = [0, 0, 3, 0, 0, 0, 0, 0, 1, 6, 6, 6];

    #[test]
    fn frames_are_counted_however_their_bytes_come() {
        let now = Instant::now();
        let mut all = vec![6; PREFACE_BYTES];
        (0..1000).for_each(|_| all.extend_from_slice(&[&PING[..], &DATA[..]].concat()));
        for piece in [1, 2, 9, 29, 1 << 20] {
            let mut count = FrameCount::new(now);
            assert!(all.chunks(piece).all(|bytes| count.pass(bytes, now)), "{piece}");
            assert!(count.pass(&DATA, now) && !count.pass(&PING, now), "{piece}");
            assert!(count.pass(&DATA, now + FRAME_COST) && !count.pass(&PING, now + FRAME_COST), "{piece}");
        }
    }
}
