//! Bytes that leave a reader no faster than a rate, and how many came through.
//!
//! Promise: over any span the rate is kept as a stream's is (`schedule::pace`): a stall is made up by twice the rate, for a
//! second of it at most. The last byte leaves when it is due, so that a mean over the whole is the rate.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use schedule::pace::Pace;
use units::real;
use units::{BitRate, Nanos};

/// The tick, as that in which the server feeds its sockets.
const TICK: Nanos = Nanos::from_millis(50);
/// The period in which progress is shown.
const SHOW_PERIOD: Duration = Duration::from_millis(500);

/// The pace of all that one command copies, file after file.
pub(super) struct Pacing {
    pace: Pace,
    began: Instant,
    /// Ticks that are over.
    ticks: u64,
    passed: u64,
    /// Bytes that may still pass in this tick.
    allowed: u64,
}

impl Pacing {
    pub(super) fn new(rate: BitRate) -> Self {
        Self { pace: Pace::new(rate, TICK, TICK, 0), began: Instant::now(), ticks: 0, passed: 0, allowed: 0 }
    }

    /// The number of `wanted` bytes that may pass now; waits until some may. `ends` says that they are the last.
    fn allow(&mut self, wanted: u64, ends: bool) -> u64 {
        while self.allowed == 0 {
            let mut at = Nanos((self.ticks + 1) * TICK.0);
            if ends {
                at = at.min(self.pace.promised_at(self.passed + wanted));
            }
            let elapsed = self.began.elapsed();
            std::thread::sleep(Duration::from_nanos(at.0).saturating_sub(elapsed));
            // Ticks that were missed while this slept are not made up one by one: the next tick may pass their bytes as
            // well.
            let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.ticks = (now / TICK.0).max(self.ticks + 1);
            self.allowed = self.pace.allowance(Nanos(self.ticks * TICK.0).min(at.max(Nanos(now))), self.passed);
        }
        wanted.min(self.allowed)
    }

    fn pass(&mut self, bytes: u64) {
        self.passed += bytes;
        self.allowed -= bytes;
    }
}

/// The bytes and files moved, for the caller that watches them and may stop the move.
pub struct MoveProgress {
    /// Zero until it is known.
    all: AtomicU64,
    bytes: AtomicU64,
    /// Those of `bytes` that need not be moved.
    passed_over: AtomicU64,
    files: AtomicU64,
    stopped: AtomicBool,
    began: Instant,
}

impl Default for MoveProgress {
    fn default() -> Self {
        Self {
            all: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            passed_over: AtomicU64::new(0),
            files: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            began: Instant::now(),
        }
    }
}

impl MoveProgress {
    /// Says how much there is to move.
    pub(super) fn expect(&self, all: u64) {
        self.all.store(all, Ordering::Relaxed);
    }

    /// Bytes that are to be moved; zero until that is known.
    pub fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Bytes that were moved, or need not be.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were moved.
    pub fn moved_bytes(&self) -> u64 {
        self.bytes().saturating_sub(self.passed_over.load(Ordering::Relaxed))
    }

    /// Files that were copied, removed or read whole.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Counts a finished item, and `bytes` of it that no reader counted.
    pub fn file_is_done(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends it before its next bytes.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// An error once it was stopped.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.stopped.load(Ordering::Relaxed) { Err(io::Error::other("stopped")) } else { Ok(()) }
    }

    /// Counts bytes that need not be moved.
    pub(super) fn pass_over(&self, bytes: u64) {
        self.passed_over.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn line(&self) -> String {
        let (bytes, all) = (self.bytes(), self.all());
        let seconds = self.began.elapsed().as_secs_f64().max(1e-3);
        let percent = bytes.saturating_mul(100).checked_div(all).unwrap_or(100).min(100);
        let rate = real(bytes) * 8.0 / seconds / 1e6;
        format!("{percent:3} %  {} of {}  {rate:.1} Mbit/s", units::ByteCount(bytes), units::ByteCount(all))
    }
}

/// A reader that counts its bytes, and paces them if there is a pace.
pub(super) struct PacedReader<'a> {
    reader: Box<dyn Read + 'a>,
    pacing: Option<&'a mut Pacing>,
    moved: &'a MoveProgress,
}

impl<'a> PacedReader<'a> {
    pub(super) fn new(reader: Box<dyn Read + 'a>, pacing: Option<&'a mut Pacing>, moved: &'a MoveProgress) -> Self {
        Self { reader, pacing, moved }
    }
}

impl Read for PacedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.moved.check()?;
        let left = self.moved.all().saturating_sub(self.moved.bytes());
        let mut most = buffer.len();
        // After the last byte there is nothing to wait for: only the end of the file is read.
        if let Some(pacing) = self.pacing.as_mut().filter(|_| left > 0) {
            let wanted = left.min(buffer.len() as u64);
            let allowed = pacing.allow(wanted, wanted == left);
            most = usize::try_from(allowed).unwrap_or(most).min(most);
        }
        let count = self.reader.read(&mut buffer[..most])?;
        let bytes = count as u64;
        self.moved.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(pacing) = self.pacing.as_mut().filter(|_| left > 0) {
            pacing.pass(bytes);
        }
        Ok(count)
    }
}

/// The line of progress on a terminal.
pub(super) struct Shown(Option<(Sender<()>, JoinHandle<()>)>);

/// Shows progress until it is ended, where standard error is a terminal.
pub(super) fn show_progress(moved: &Arc<MoveProgress>) -> Shown {
    if !io::stderr().is_terminal() {
        return Shown(None);
    }
    let (end, ended) = channel();
    let moved = Arc::clone(moved);
    let thread = std::thread::spawn(move || {
        while ended.recv_timeout(SHOW_PERIOD) == Err(RecvTimeoutError::Timeout) {
            let _ = write!(io::stderr(), "\r{:60}", moved.line());
        }
        let _ = write!(io::stderr(), "\r{:60}\r", "");
    });
    Shown(Some((end, thread)))
}

impl Shown {
    pub(super) fn end(self) {
        if let Some((end, thread)) = self.0 {
            drop(end);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_reader_takes_the_time_of_its_rate() {
        // 80 kbyte at 8 Mbit/s: 80 ms. Faster would be wrong on any machine; slower is the machine's.
        let (moved, mut pacing) = (MoveProgress::default(), Pacing::new(BitRate(8_000_000)));
        moved.expect(80_000);
        let began = Instant::now();
        let mut reader = PacedReader::new(Box::new(io::repeat(1).take(80_000)), Some(&mut pacing), &moved);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).expect("memory");
        drop(reader);
        assert_eq!(bytes.len(), 80_000);
        assert!(began.elapsed() >= Duration::from_millis(80), "{:?}", began.elapsed());
        assert!(moved.line().starts_with("100 %"), "{}", moved.line());
        moved.stop();
        let stopped = PacedReader::new(Box::new(io::empty()), Some(&mut pacing), &moved).read(&mut [0]);
        assert!(stopped.is_err_and(|error| error.to_string() == "stopped"));
    }
}
