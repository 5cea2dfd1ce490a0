//! Moves the bytes of a test from memory into a socket and from a socket into memory.
//!
//! Promise: one buffer per side; between two messages it does nothing beyond the plan, reads no clock and takes no
//! memory. The watching thread (`Watch`) sees the progress and ends it.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use kernel::clock::thread_processor_time;
use net::{Coalescing, Connection, Numbered, SenderStats, Urgency};
use socket2::Socket;
use units::ByteCount;

use super::wire::{Carrier, TestPlan, TrafficPattern};

/// Bytes of one read into one buffer: as in iperf3, so that the two compare.
const READ_BYTES: usize = 128 << 10;
/// Period at which a call that waits for the other side checks whether to end.
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(500);
/// Silence, after the sender's count of bytes, from which missing datagrams are lost.
const QUIET: Duration = Duration::from_millis(300);
/// Round trips longer than this are counted as this, nanoseconds.
const ROUND_TRIP_NS_MAX: u64 = 60_000_000_000;

/// Progress of one side, and the order to stop: for another thread.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) bytes: AtomicU64,
    pub(super) messages: AtomicU64,
    /// The sender: the time is over. The receiver: the sender has gone, or has said how much it sent.
    pub(super) over: AtomicBool,
    /// Datagrams that the sender said it sent.
    pub(super) expected: AtomicU64,
}

impl Watch {
    fn moved(&self, messages: u64, bytes: u64) {
        self.messages.store(messages, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Progress as readable text.
    pub(super) fn count(&self) -> String {
        let (bytes, messages) = (self.bytes.load(Ordering::Relaxed), self.messages.load(Ordering::Relaxed));
        format!("{} ({messages} messages)", ByteCount(bytes))
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Result of one side.
#[derive(Debug)]
pub(super) struct SideMoved {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    /// Nanoseconds.
    pub(super) round_trips: Option<Histogram<u64>>,
    pub(super) coalesced: Option<SenderStats>,
}

/// Times and number of a sender's messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct SenderPace {
    /// No more messages than this.
    pub(super) count: u64,
    /// One message each such span, however long the last one took.
    pub(super) every: Option<Duration>,
}

/// Sends the messages of the plan until all are sent or the watch is over.
///
/// # Errors
/// The other side has gone, or takes nothing any more.
pub(super) fn send(socket: Socket, plan: &TestPlan, pace: SenderPace, watch: &Watch) -> anyhow::Result<SideMoved> {
    let buffer: Vec<u8> = (0..=u8::MAX).cycle().take(plan.size).collect();
    socket.set_write_timeout(Some(STOP_CHECK_PERIOD))?;
    let (began, cpu) = (Instant::now(), thread_processor_time());
    let (mut round_trips, mut coalesced) = (None, None);
    let messages = if let Some(delay) = plan.coalesce {
        socket.set_write_timeout(None)?;
        let connection = Connection::over(socket, Coalescing::within(delay), Numbered { session: 0, first: 0 })?;
        let sent = paced(plan, pace, watch, began, || Ok(connection.sender.send(&buffer, Urgency::MayWait)?))?;
        coalesced = Some(connection.sender.finish()?);
        sent
    } else if plan.carrier == Carrier::Udp {
        paced(plan, pace, watch, began, || send_datagram(&socket, &buffer))?
    } else if plan.pattern == TrafficPattern::RoundTrip {
        // A message under way when the time is over comes back as well.
        socket.set_read_timeout(Some(net::transport::SILENCE_MAX))?;
        let mut back = vec![0; plan.size];
        let mut times = Histogram::new_with_bounds(1, ROUND_TRIP_NS_MAX, 3).context("bounds that are in order")?;
        let sent = paced(plan, pace, watch, began, || {
            let left = Instant::now();
            write_all(&socket, &buffer)?;
            (&socket).read_exact(&mut back).context("the receiver stopped in the middle")?;
            times.saturating_record(u64::try_from(left.elapsed().as_nanos()).unwrap_or(ROUND_TRIP_NS_MAX));
            Ok(())
        })?;
        round_trips = Some(times);
        net::transport::finish(&socket);
        sent
    } else {
        let sent = paced(plan, pace, watch, began, || write_all(&socket, &buffer))?;
        net::transport::finish(&socket);
        sent
    };
    let background = coalesced.as_ref().map_or(Duration::ZERO, |stats| stats.background_cpu);
    Ok(SideMoved {
        messages,
        bytes: messages * plan.bytes(),
        seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: (thread_processor_time().saturating_sub(cpu)).as_secs_f64() + background.as_secs_f64(),
        round_trips,
        coalesced,
    })
}

/// Calls `one` for each message at its time; returns how many.
fn paced(
    plan: &TestPlan,
    pace: SenderPace,
    watch: &Watch,
    began: Instant,
    mut one: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let (mut messages, mut bytes) = (0, 0);
    while messages < pace.count && !watch.is_over() {
        if let Some(every) = pace.every {
            let due = began + every.saturating_mul(u32::try_from(messages).unwrap_or(u32::MAX));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        one()?;
        messages += 1;
        bytes += plan.bytes();
        watch.moved(messages, bytes);
    }
    Ok(messages)
}

/// Receives the messages of the plan until the sender has finished or the watch is over.
///
/// # Errors
/// The connection is broken.
pub(super) fn receive(socket: Socket, plan: &TestPlan, watch: &Watch) -> anyhow::Result<SideMoved> {
    let mut buffer = vec![0; plan.size.max(READ_BYTES)];
    socket.set_read_timeout(Some(STOP_CHECK_PERIOD))?;
    let (mut began, mut ended) = (Instant::now(), None);
    let (mut messages, mut bytes) = (0_u64, 0_u64);
    let cpu = thread_processor_time();
    let mut take = |messages: &mut u64, read: usize| {
        if bytes == 0 {
            began = Instant::now();
        }
        bytes += u64::try_from(read).unwrap_or(u64::MAX);
        *messages += 1;
        watch.moved(*messages, bytes);
    };
    if plan.coalesce.is_some() {
        let mut connection = Connection::over(socket, Coalescing::NONE, Numbered { session: 0, first: 0 })?;
        while let Some(message) = connection.receiver.receive()? {
            take(&mut messages, message.len());
        }
    } else if plan.carrier == Carrier::Udp {
        socket.set_read_timeout(Some(QUIET))?;
        loop {
            match (&socket).read(&mut buffer) {
                Ok(read) => {
                    take(&mut messages, read);
                    ended = Some(Instant::now());
                }
                Err(error) if is_wait(&error) && !watch.is_over() => continue,
                // The sender's machine answered a datagram of ours that its port is closed: the sender has finished.
                Err(_) => break,
            }
            if watch.is_over() && messages >= watch.expected.load(Ordering::Relaxed) {
                break;
            }
        }
    } else if plan.pattern == TrafficPattern::RoundTrip {
        socket.set_write_timeout(Some(STOP_CHECK_PERIOD))?;
        while read_exact(&socket, &mut buffer[..plan.size], watch)? {
            take(&mut messages, plan.size);
            write_all(&socket, &buffer[..plan.size])?;
        }
    } else {
        let mut reads = 0;
        if let Some(first) = read_some(&socket, &mut buffer, watch)? {
            take(&mut reads, first);
            // A wake-up for each segment costs a tenth of the rate. For more bytes the kernel would enlarge its buffer.
            kernel::socket::wake_reader_at(&socket, plan.size.min(READ_BYTES))?;
            while let Some(read) = read_some(&socket, &mut buffer, watch)? {
                take(&mut reads, read);
            }
        }
        messages = bytes / plan.bytes();
    }
    let cpu_seconds = thread_processor_time().saturating_sub(cpu).as_secs_f64();
    let seconds = ended.unwrap_or_else(Instant::now).duration_since(began).as_secs_f64();
    Ok(SideMoved { messages, bytes, seconds, cpu_seconds, round_trips: None, coalesced: None })
}

/// Whether a call only ran out of time, or was interrupted.
fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn write_all(mut socket: &Socket, mut bytes: &[u8]) -> anyhow::Result<()> {
    let mut stuck_since = None;
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(written) => {
                bytes = &bytes[written..];
                stuck_since = None;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // On a slow network the kernel's full buffer takes seconds to leave, even after the time of the test is
                // over.
                if stuck_since.get_or_insert_with(Instant::now).elapsed() > net::transport::SILENCE_MAX {
                    bail!("the receiver has stopped reading");
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("the receiver stopped in the middle"),
        }
    }
    Ok(())
}

/// Reads something; `None` when the other side has finished.
fn read_some(mut socket: &Socket, buffer: &mut [u8], watch: &Watch) -> anyhow::Result<Option<usize>> {
    loop {
        match socket.read(buffer) {
            Ok(0) => return Ok(None),
            Ok(read) => return Ok(Some(read)),
            Err(error) if error.kind() == ErrorKind::WouldBlock && watch.is_over() => return Ok(None),
            Err(error) if is_wait(&error) => {}
            Err(error) => return Err(error).context("the other side stopped in the middle"),
        }
    }
}

/// Fills the buffer; false if the other side has finished before its first byte.
fn read_exact(socket: &Socket, buffer: &mut [u8], watch: &Watch) -> anyhow::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read_some(socket, &mut buffer[filled..], watch)? {
            Some(read) => filled += read,
            None if filled == 0 => return Ok(false),
            None => bail!("the other side stopped in the middle"),
        }
    }
    Ok(true)
}

/// A datagram that finds no room is lost here, as it would be on the way.
fn send_datagram(socket: &Socket, datagram: &[u8]) -> anyhow::Result<()> {
    match socket.send(datagram) {
        Ok(_) => Ok(()),
        Err(error) if is_wait(&error) || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
            Ok(())
        }
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) => {
            bail!("a datagram of {} bytes is too large for this network: a smaller --size", datagram.len())
        }
        Err(error) => Err(error).context("the receiver stopped in the middle"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    fn plan(pattern: TrafficPattern) -> TestPlan {
        TestPlan { carrier: Carrier::Unix, pattern, size: 4 << 20, coalesce: None, window: None, no_delay: false }
    }

    #[test]
    fn bytes_under_way_at_the_time_limit_still_arrive() {
        let plan = plan(TrafficPattern::Stream);
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
        let (watch, other) = (Watch::default(), Watch::default());
        let pace = SenderPace { count: 1, every: None };
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| send(ours, &plan, pace, &watch));
            // As a slow network: the first look of the sender finds that nothing went for a while.
            std::thread::sleep(STOP_CHECK_PERIOD + STOP_CHECK_PERIOD / 4);
            watch.over.store(true, Ordering::Relaxed);
            std::thread::sleep(STOP_CHECK_PERIOD + STOP_CHECK_PERIOD / 4);
            let received = receive(theirs, &plan, &other).expect("all comes");
            let sent = sending.join().expect("no panic").expect("all is sent");
            assert_eq!((sent.bytes, received.bytes), (4 << 20, 4 << 20));
        });
    }

    #[test]
    fn a_reply_due_after_the_time_limit_is_awaited() {
        let plan = plan(TrafficPattern::RoundTrip);
        let (ours, mut theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
        let watch = Watch::default();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| send(ours, &plan, SenderPace { count: 1, every: None }, &watch));
            let mut message = vec![0; plan.size];
            theirs.read_exact(&mut message).expect("all comes");
            watch.over.store(true, Ordering::Relaxed);
            // As on a long way.
            std::thread::sleep(STOP_CHECK_PERIOD + STOP_CHECK_PERIOD / 4);
            theirs.write_all(&message).expect("it is awaited");
            assert_eq!(sending.join().expect("no panic").expect("it came back").messages, 1);
        });
    }
}
