//! The sending side of a connection: small messages leave together.
//!
//! Promise: a message leaves when [`Coalescing::bytes`] are there, when the first of them has waited
//! [`Coalescing::delay`], or at once if it is urgent, and never before an earlier message. At most a batch is kept;
//! beyond it the caller waits for the kernel, which waits for the other side (flow control). An idle sender says "still here" from time to
//! time, so that the other side can distinguish silence from absence.

use std::io::{self, IoSlice, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use kernel::clock::thread_processor_time;
use socket2::Socket;

use crate::frame::{self, FrameError};
use crate::transport::{self, SILENCE_MAX};

/// The period in which an idle sender says "still here": a third of the silence that the other side bears.
const STILL_HERE: Duration = Duration::from_secs(SILENCE_MAX.as_secs() / 3);
/// Waits longer than this are counted as this, microseconds.
const WAIT_US_MAX: u64 = 60_000_000;

/// The longest wait and the most bytes of small messages that leave together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coalescing {
    /// The longest a message waits for others; zero: none waits.
    pub delay: Duration,
    /// The bytes that leave at once, lengths included.
    pub bytes: usize,
}

impl Coalescing {
    /// Every message by itself.
    pub const NONE: Self = Self { delay: Duration::ZERO, bytes: 0 };
    /// As many bytes as fill about 47 packets of an Ethernet, and one send of TIPC (66,000 bytes at most).
    pub const BYTES: usize = 64 << 10;

    /// Messages wait up to `delay`, or until [`Self::BYTES`] are there.
    #[must_use]
    pub fn within(delay: Duration) -> Self {
        Self { delay, bytes: Self::BYTES }
    }
}

/// Whether a message may wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// It leaves now, with the messages that wait before it.
    Now,
    /// It may wait as long as [`Coalescing`] says.
    MayWait,
}

/// A message that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It can never be sent; the connection is as it was.
    #[error(transparent)]
    Message(#[from] FrameError),
    /// The connection is broken; messages it had taken may be lost.
    #[error("the connection is broken: {0}")]
    Broken(io::ErrorKind),
}

/// Figures of a sender.
#[derive(Debug, Clone)]
pub struct SenderStats {
    /// Messages taken.
    pub messages: u64,
    /// Sends they left in.
    pub sends: u64,
    /// Waits of the first message of each batch until its send began, microseconds.
    pub waited_us: Histogram<u64>,
    /// Processor time of the thread that sends due messages, in addition to the callers' own.
    pub background_cpu: Duration,
}

/// Sends messages over one connection. May be shared by threads.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<OutgoingMessage>,
    flusher: Option<JoinHandle<Duration>>,
}

#[derive(Debug)]
struct OutgoingMessage {
    socket: Arc<Socket>,
    coalescing: Coalescing,
    batch: Mutex<MessageBatch>,
    /// The flusher sleeps without an end in sight and something waits now, or all is over.
    roused: Condvar,
}

#[derive(Debug)]
struct MessageBatch {
    bytes: Vec<u8>,
    /// The time when its first message came.
    since: Option<Instant>,
    failed: Option<io::ErrorKind>,
    is_over: bool,
    flusher_rests: bool,
    messages: u64,
    sends: u64,
    waited_us: Histogram<u64>,
}

impl Sender {
    pub(crate) fn new(socket: Arc<Socket>, coalescing: Coalescing) -> io::Result<Self> {
        let waited_us = Histogram::new_with_bounds(1, WAIT_US_MAX, 3).expect("bounds that are in order");
        let batch = MessageBatch {
            bytes: Vec::with_capacity(coalescing.bytes),
            since: None,
            failed: None,
            is_over: false,
            flusher_rests: false,
            messages: 0,
            sends: 0,
            waited_us,
        };
        let shared = Arc::new(OutgoingMessage { socket, coalescing, batch: Mutex::new(batch), roused: Condvar::new() });
        let flushed = Arc::clone(&shared);
        let flusher = std::thread::Builder::new().name("net-send".to_owned()).spawn(move || flushed.run())?;
        Ok(Self { shared, flusher: Some(flusher) })
    }

    /// Takes `message`. Waits while the other side does not read.
    ///
    /// # Errors
    /// It is empty or too large, or the connection is broken.
    pub fn send(&self, message: &[u8], urgency: Urgency) -> Result<(), SendError> {
        let (length, used) = frame::length(message.len())?;
        let length = &length[..used];
        let limits = self.shared.coalescing;
        let mut batch = self.shared.lock();
        if let Some(kind) = batch.failed {
            return Err(SendError::Broken(kind));
        }
        batch.messages += 1;
        let full = batch.bytes.len() + length.len() + message.len() >= limits.bytes;
        if full || urgency == Urgency::Now || limits.delay.is_zero() {
            return self.shared.write(&mut batch, length, message).map_err(|error| SendError::Broken(error.kind()));
        }
        batch.bytes.extend_from_slice(length);
        batch.bytes.extend_from_slice(message);
        if batch.since.is_none() {
            batch.since = Some(Instant::now());
            if batch.flusher_rests {
                batch.flusher_rests = false;
                drop(batch);
                self.shared.roused.notify_one();
            }
        }
        Ok(())
    }

    /// Sends the messages that wait.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&self) -> Result<(), SendError> {
        self.shared.flush(&mut self.shared.lock()).map_err(|error| SendError::Broken(error.kind()))
    }

    /// Sends the messages that wait, ends the direction, and returns the sender's figures.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn finish(mut self) -> Result<SenderStats, SendError> {
        self.flush()?;
        transport::finish(&self.shared.socket);
        let background_cpu = self.end();
        let batch = self.shared.lock();
        Ok(SenderStats {
            messages: batch.messages,
            sends: batch.sends,
            waited_us: batch.waited_us.clone(),
            background_cpu,
        })
    }

    fn end(&mut self) -> Duration {
        self.shared.lock().is_over = true;
        self.shared.roused.notify_one();
        self.flusher.take().and_then(|flusher| flusher.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sender {
    /// Sends the messages that wait if there is room for them; call [`Sender::finish`] to know that they left.
    fn drop(&mut self) {
        if self.flusher.is_some() {
            let _ = self.shared.socket.set_nonblocking(true);
            let _ = self.flush();
            transport::finish(&self.shared.socket);
            self.end();
        }
    }
}

impl OutgoingMessage {
    fn lock(&self) -> MutexGuard<'_, MessageBatch> {
        // A panic of another caller leaves a batch that is whole up to its last message.
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush(&self, batch: &mut MessageBatch) -> io::Result<()> {
        if batch.bytes.is_empty() { Ok(()) } else { self.write(batch, &[], &[]) }
    }

    /// Sends the messages that wait and then this one, in one send where the kernel takes it.
    fn write(&self, batch: &mut MessageBatch, length: &[u8], message: &[u8]) -> io::Result<()> {
        let waited = batch.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        let waited_us = u64::try_from(waited.as_micros()).unwrap_or(WAIT_US_MAX);
        batch.waited_us.saturating_record(waited_us);
        batch.sends += 1;
        let sent = write_all(&self.socket, [&batch.bytes, length, message]);
        batch.bytes.clear();
        batch.failed = sent.as_ref().err().map(io::Error::kind);
        sent
    }

    /// Sends due messages, until all is over or broken; returns the processor time it took.
    fn run(&self) -> Duration {
        let mut batch = self.lock();
        while !batch.is_over && batch.failed.is_none() {
            let now = Instant::now();
            // An eighth early: a thread wakes some time after the moment set, 50 to 100 µs on a machine that has nothing else to do.
            let patience = self.coalescing.delay - self.coalescing.delay / 8;
            let due = batch.since.map(|since| since + patience);
            let sleep = match due {
                Some(due) if due <= now => {
                    // The next caller that sends gets the error.
                    let _ = self.flush(&mut batch);
                    // Messages that come meanwhile are due no earlier than this, so that a busy sender wakes no thread.
                    patience
                }
                Some(due) => due - now,
                None => {
                    batch.flusher_rests = true;
                    STILL_HERE
                }
            };
            let timed_out;
            (batch, timed_out) = self.roused.wait_timeout(batch, sleep).unwrap_or_else(PoisonError::into_inner);
            let rested = std::mem::take(&mut batch.flusher_rests);
            if rested && timed_out.timed_out() && batch.failed.is_none() && !batch.is_over {
                // One byte that is no message.
                batch.failed = write_all(&self.socket, [&[0], &[], &[]]).err().map(|error| error.kind());
            }
        }
        Duration::from_nanos(thread_processor_time().0)
    }
}

fn write_all(mut socket: &Socket, parts: [&[u8]; 3]) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match socket.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
