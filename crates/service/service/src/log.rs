//! Logs of lines, written by a thread of their own.
//!
//! Promise: a line is handed over without waiting; when the writer is behind, lines are dropped and counted.
//! Not here: where the lines go; the wiring gives a writer, and a thread of its own serves it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines that may wait for the writer.
const LINES_MAX: usize = 4096;

/// Written at once, when this number of bytes waits.
const BATCH_BYTES: usize = 64 * 1024;

/// Where lines go.
pub type LogWriter = Box<dyn Write + Send>;

/// One log; clones write to the same.
#[derive(Clone)]
pub struct Log {
    waiting: SyncSender<Message>,
    /// The writer that the thread changes to before its next line.
    next: Arc<Mutex<Option<LogWriter>>>,
    /// False: there is no writer, and callers need not make lines.
    is_on: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
}

/// A message to the thread.
enum Message {
    Line(String),
    /// Nothing to write: look whether there is another writer.
    Look,
    /// A caller waits until all before is written; dropped then.
    Written(SyncSender<()>),
}

impl Log {
    /// Starts the thread that writes to `writer`, if there is one; it ends when the last clone is gone.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(name: &str, writer: Option<LogWriter>) -> std::io::Result<Self> {
        let (sender, waiting) = sync_channel(LINES_MAX);
        let next = Arc::new(Mutex::new(None));
        let source = Arc::clone(&next);
        let is_on = Arc::new(AtomicBool::new(writer.is_some()));
        let writer = writer.unwrap_or_else(|| Box::new(std::io::sink()));
        let dropped = Arc::<AtomicU64>::default();
        let lost = Arc::clone(&dropped);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || write_lines(&waiting, &source, writer, &lost))?;
        Ok(Self { waiting: sender, next, is_on, dropped })
    }

    /// True if lines are written at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Hands over one line (without its line feed).
    pub fn line(&self, line: String) {
        if self.is_on() && self.waiting.try_send(Message::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes to `writer` from now on: a log rotation renamed the file, or another one was configured. Lines that wait
    /// already may go to either.
    pub fn reopen(&self, writer: Option<LogWriter>) {
        self.is_on.store(writer.is_some(), Ordering::Relaxed);
        let writer = writer.unwrap_or_else(|| Box::new(std::io::sink()));
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        // With the queue full, the thread is at work and finds the writer by itself.
        let _ = self.waiting.try_send(Message::Look);
    }

    /// Waits until the lines handed over are written, but no longer than `patience`: for the end of the program.
    pub fn wait_written(&self, patience: Duration) {
        let (written, told) = sync_channel(0);
        if self.waiting.try_send(Message::Written(written)).is_ok() {
            let _ = told.recv_timeout(patience);
        }
    }

    /// Lines dropped because the writer was behind, or failed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Lines of one kind in one second; further ones are left out and counted.
const PER_KIND_MAX: u32 = 200;
/// Kinds counted separately; further ones count as one.
const KINDS_MAX: usize = 64;

/// Bounds how many lines of a kind are written, so that one client that is refused again and again does not fill a disk.
pub struct KindLimit {
    most: u32,
    period: Duration,
    kinds: Mutex<BTreeMap<String, LimitWindow>>,
}

#[derive(Clone, Copy)]
struct LimitWindow {
    begun: Instant,
    lines: u32,
    left_out: u64,
    /// When the count was taken last.
    taken: Instant,
}

impl Default for KindLimit {
    fn default() -> Self {
        Self::new(PER_KIND_MAX, Duration::from_secs(1))
    }
}

impl KindLimit {
    /// At most this number of lines of each kind in `period`, and one count of those left out.
    pub(crate) fn new(most: u32, period: Duration) -> Self {
        Self { most, period, kinds: Mutex::default() }
    }

    /// True if a line of this kind may be written now.
    pub fn admits(&self, kind: &str, now: Instant) -> bool {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = if kinds.len() >= KINDS_MAX && !kinds.contains_key(kind) { "other" } else { kind };
        let first = LimitWindow { begun: now, lines: 0, left_out: 0, taken: now };
        let window = kinds.entry(kind.to_owned()).or_insert(first);
        if now.saturating_duration_since(window.begun) >= self.period {
            (window.begun, window.lines) = (now, 0);
        }
        let admitted = window.lines < self.most;
        window.lines += u32::from(admitted);
        window.left_out += u64::from(!admitted);
        admitted
    }

    /// Takes the counts of lines left out, by kind; each once in its period.
    pub fn left_out(&self, now: Instant) -> Vec<(String, u64)> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |window: &LimitWindow| now.saturating_duration_since(window.taken) >= self.period;
        let due = kinds.iter_mut().filter(|(_, window)| window.left_out > 0 && is_due(window));
        let take = |(kind, window): (&String, &mut LimitWindow)| {
            window.taken = now;
            (kind.clone(), std::mem::take(&mut window.left_out))
        };
        due.map(take).collect()
    }
}

/// Lines on their way to the writer.
#[derive(Default)]
struct LineBatch {
    text: String,
    lines: u64,
}

impl LineBatch {
    /// Writes them, or counts them as lost: a full disk, a limit of file sizes, a reader that has gone.
    fn write(&mut self, writer: &mut LogWriter, lost: &AtomicU64) {
        if writer.write_all(self.text.as_bytes()).and_then(|()| writer.flush()).is_err() {
            lost.fetch_add(self.lines, Ordering::Relaxed);
        }
        *self = Self::default();
    }
}

/// Writes lines as they come, in batches of the waiting ones.
fn write_lines(waiting: &Receiver<Message>, next: &Mutex<Option<LogWriter>>, mut writer: LogWriter, lost: &AtomicU64) {
    while let Ok(first) = waiting.recv() {
        let (mut batch, mut told) = (LineBatch::default(), Vec::new());
        for message in std::iter::once(first).chain(waiting.try_iter()) {
            if let Some(other) = next.lock().unwrap_or_else(PoisonError::into_inner).take() {
                batch.write(&mut writer, lost);
                writer = other;
            }
            match message {
                Message::Line(line) => {
                    batch.text.push_str(&line);
                    batch.text.push('\n');
                    batch.lines += 1;
                }
                Message::Look => {}
                Message::Written(sender) => told.push(sender),
            }
            if batch.text.len() >= BATCH_BYTES {
                batch.write(&mut writer, lost);
            }
        }
        batch.write(&mut writer, lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_writer_does_not_take_are_counted() {
        struct FullDisk;
        impl Write for FullDisk {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let log = Log::start("test", Some(Box::new(FullDisk))).expect("a thread");
        (0..3).for_each(|_| log.line("a line".to_owned()));
        log.wait_written(Duration::from_secs(60));
        assert_eq!(log.dropped(), 3);
    }

    #[test]
    fn lines_after_a_change_of_the_writer_go_to_the_new_one() {
        /// Sends its bytes, and then holds the thread until the other end of `go` is gone.
        struct Held(SyncSender<Vec<u8>>, Receiver<()>);
        impl Write for Held {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                let _ = (self.0.send(bytes.to_vec()), self.1.recv());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let held = || {
            let ((bytes, written), (go, going)) = (sync_channel(1), sync_channel(0));
            (Box::new(Held(bytes, going)), written, go)
        };
        let ((old, to_old, go), (new, to_new, _)) = (held(), held());
        let log = Log::start("test", Some(old)).expect("a thread");
        log.line("o".repeat(BATCH_BYTES));
        // The thread is amid the messages that it took from the queue at once.
        assert!(to_old.recv().expect("a line").starts_with(b"oo"));
        log.reopen(Some(new));
        log.line("newer".to_owned());
        drop((log, go));
        assert_eq!(to_new.recv().expect("the line, not the end of the log"), b"newer\n");
    }

    #[test]
    fn events_over_the_limit_are_counted() {
        let (limit, now) = (KindLimit::default(), Instant::now());
        let admitted = (0..1000).filter(|_| limit.admits("refused", now)).count();
        assert_eq!(u32::try_from(admitted), Ok(PER_KIND_MAX));
        assert!(limit.admits("ended", now), "another kind has its own");
        assert!(limit.left_out(now).is_empty(), "once in a second");
        let then = now + Duration::from_secs(1);
        assert_eq!(limit.left_out(then), [("refused".to_owned(), 1000 - u64::from(PER_KIND_MAX))]);
        assert!(limit.left_out(then).is_empty());
        assert!(limit.admits("refused", then));
    }
}
