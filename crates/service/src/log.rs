//! Logs of lines, written by a thread of their own.
//!
//! Promise: a line is handed over without waiting; when the writer is behind, lines are dropped and counted.
//! Not here: where the lines go; the wiring gives a writer, and a thread of its own serves it.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Lines that may wait for the writer.
const LINES_MAX: usize = 4096;

/// Where lines go.
pub type Writer = Box<dyn Write + Send>;

/// One log; clones write to the same.
#[derive(Clone)]
pub struct Log {
    waiting: SyncSender<Message>,
    /// The writer that the thread changes to before its next line.
    next: Arc<Mutex<Option<Writer>>>,
    dropped: Arc<AtomicU64>,
}

/// What the thread is given.
enum Message {
    Line(String),
    /// Nothing to write: look whether there is another writer.
    Look,
}

impl Log {
    /// Starts the thread that writes to `writer`; it ends when the last clone is gone.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(name: &str, writer: Writer) -> std::io::Result<Self> {
        let (sender, waiting) = sync_channel(LINES_MAX);
        let next = Arc::new(Mutex::new(None));
        let source = Arc::clone(&next);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || write_lines(&waiting, &source, writer))?;
        Ok(Self { waiting: sender, next, dropped: Arc::default() })
    }

    /// Hands over one line (without its line feed).
    pub fn line(&self, line: String) {
        if self.waiting.try_send(Message::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes to `writer` from now on: the file was renamed by who rotates logs, or another one was configured. Lines that
    /// wait already may go to either.
    pub fn reopen(&self, writer: Writer) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        // With the queue full, the thread is at work and finds the writer by itself.
        let _ = self.waiting.try_send(Message::Look);
    }

    /// Lines dropped because the writer was behind.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Writes lines as they come, flushing when none waits. A writer that fails loses its line: there is nowhere to say so.
fn write_lines(waiting: &Receiver<Message>, next: &Mutex<Option<Writer>>, writer: Writer) {
    let mut writer = std::io::BufWriter::new(writer);
    while let Ok(first) = waiting.recv() {
        if let Some(other) = next.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Flushed when its last line was written.
            writer = std::io::BufWriter::new(other);
        }
        write_one(&mut writer, &first);
        while let Ok(message) = waiting.try_recv() {
            write_one(&mut writer, &message);
        }
        let _ = writer.flush();
    }
}

fn write_one(writer: &mut impl Write, message: &Message) {
    if let Message::Line(line) = message {
        let _ = writeln!(writer, "{line}");
    }
}
