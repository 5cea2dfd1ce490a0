//! The access log (combined format) and the event log (JSON lines).
//!
//! Promise: a line is handed over without waiting; when the writer is behind, lines are dropped and counted.
//! Not here: where the lines go; the wiring gives a writer, and a thread of its own serves it.

use std::fmt::Write as _;
use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::header::{REFERER, USER_AGENT};
use http::{HeaderMap, HeaderName, StatusCode};

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

/// What the access log says of a finished request.
#[derive(Debug, Clone)]
pub struct Access {
    /// The client.
    pub peer: IpAddr,
    /// Who it logged in as.
    pub user: Option<String>,
    /// `GET /media/x HTTP/1.1`, as far as it was understood.
    pub request: String,
    /// `Referer`, bounded.
    pub referer: String,
    /// `User-Agent`, bounded.
    pub agent: String,
}

impl Access {
    /// The combined-format line: `client - user [date] "request" status bytes "referer" "agent"`.
    #[must_use]
    pub fn line(&self, status: StatusCode, bytes: u64, now: SystemTime) -> String {
        let user = self.user.as_deref().unwrap_or("-");
        let mut line = String::with_capacity(160);
        let _ = write!(line, "{} - {} [{}] \"", self.peer, quoted(user), clf_date(now));
        let request = quoted(&self.request);
        let (referer, agent) = (quoted(&self.referer), quoted(&self.agent));
        let _ = write!(line, "{request}\" {} {bytes} \"{referer}\" \"{agent}\"", status.as_u16());
        line
    }

    /// The field as it is logged: at most 256 bytes of it, `-` if there is none.
    #[must_use]
    pub fn field(headers: &HeaderMap, name: &HeaderName) -> String {
        headers.get(name).map_or_else(
            || "-".to_owned(),
            |value| {
                let bytes = value.as_bytes();
                String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).into_owned()
            },
        )
    }

    /// Of a request head.
    #[must_use]
    pub fn of(peer: IpAddr, head: &crate::message::head::RequestHead) -> Self {
        let version = if head.version == crate::message::head::Version::Http10 { "1.0" } else { "1.1" };
        let query = head.query.as_deref().map_or_else(String::new, |query| format!("?{query}"));
        let mut target: String = format!("{}{query}", head.path);
        if target.len() > 1024 {
            target = target.chars().take(1024).collect();
        }
        Self {
            peer,
            user: None,
            request: format!("{} {target} HTTP/{version}", head.method),
            referer: Self::field(&head.headers, &REFERER),
            agent: Self::field(&head.headers, &USER_AGENT),
        }
    }
}

/// Quotes and control characters cannot break out of their field.
fn quoted(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => safe.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(safe, "\\x{:02x}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// `21/Nov/2026:22:15:00 +0000`, from the HTTP date `Sat, 21 Nov 2026 22:15:00 GMT`.
fn clf_date(now: SystemTime) -> String {
    // Formatting panics beyond the year 9999: a clock that wrong is shown as that year.
    let now = now.min(SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799));
    let date = httpdate::fmt_http_date(now);
    format!("{}/{}/{}:{} +0000", &date[5..7], &date[8..11], &date[12..16], &date[17..25])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_line_in_the_combined_format() {
        let access = Access {
            peer: Ipv4Addr::LOCALHOST.into(),
            user: None,
            request: "GET /media/a\"b HTTP/1.1".to_owned(),
            referer: "-".to_owned(),
            agent: "evil\n\"agent".to_owned(),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(
            access.line(StatusCode::PARTIAL_CONTENT, 42, now),
            "127.0.0.1 - - [14/Nov/2023:22:13:20 +0000] \"GET /media/a\\\"b HTTP/1.1\" 206 42 \"-\" \"evil\\x0a\\\"agent\""
        );
    }
}
