//! Finished requests of all front ends: their counts by status, and the access log, in the combined format.
//!
//! Promise: nothing a client sends breaks out of its field, and a line is bounded. Lines of refused requests are limited in each second, by
//! their status; the event log states how many were left out. Not here: the text of a request (the front ends), writing lines (`log`).

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use crate::file_names::utc;
use crate::lock::lock;
use crate::log::{KindLimit, Log, LogWriter};

/// Bytes of a line's request at most.
const REQUEST_BYTES_MAX: usize = 1280;

/// Finished requests of one front end.
#[derive(Debug)]
pub struct FrontRequests {
    /// The metric that shows them.
    pub metric: &'static str,
    /// Its meaning.
    pub help: &'static str,
    /// By the first digit of their status, 1 to 5.
    pub by_class: [AtomicU64; 5],
}

/// Facts that the access log records of a finished request.
#[derive(Debug, Clone)]
pub struct RequestRecord {
    /// The client.
    pub peer: IpAddr,
    /// The account that it logged in as.
    pub user: Option<String>,
    /// `GET /media/x HTTP/1.1`, as far as it was understood.
    pub request: String,
    /// The page that it came from, or `-`.
    pub referer: String,
    /// The client's program, or `-`.
    pub agent: String,
}

/// Finished requests.
pub struct FinishedRequests {
    /// In the order of their starts.
    fronts: Mutex<Vec<Arc<FrontRequests>>>,
    access: Log,
    refused: KindLimit,
}

impl FinishedRequests {
    pub(crate) fn new(access: Log) -> Self {
        Self { fronts: Mutex::default(), access, refused: KindLimit::default() }
    }

    /// Counts of a front end that starts, shown as `metric`.
    pub fn begin(&self, metric: &'static str, help: &'static str) -> Arc<FrontRequests> {
        let front = Arc::new(FrontRequests { metric, help, by_class: Default::default() });
        lock(&self.fronts).push(Arc::clone(&front));
        front
    }

    /// Counts of all front ends.
    #[must_use]
    pub fn fronts(&self) -> Vec<Arc<FrontRequests>> {
        lock(&self.fronts).clone()
    }

    /// Counts a finished request of `front`, and writes its line of the access log; `bytes` are those of its body.
    pub fn note(&self, front: &FrontRequests, (status, bytes): (u16, u64), record: impl FnOnce() -> RequestRecord) {
        front.by_class[usize::from(status / 100).clamp(1, 5) - 1].fetch_add(1, Ordering::Relaxed);
        let is_written = || status < 400 || self.refused.admits(&status.to_string(), Instant::now());
        if self.access.is_on() && is_written() {
            self.access.line(record().line(status, bytes, SystemTime::now()));
        }
    }

    /// Lines that the access log dropped.
    #[must_use]
    pub fn lines_dropped(&self) -> u64 {
        self.access.dropped()
    }

    pub(crate) fn reopen(&self, access: Option<LogWriter>) {
        self.access.reopen(access);
    }

    /// The counts of lines left out since the last call, by status.
    pub(crate) fn left_out(&self) -> Vec<(String, u64)> {
        self.refused.left_out(Instant::now())
    }
}

impl RequestRecord {
    /// The combined-format line: `client - user [date] "request" status bytes "referer" "agent"`.
    fn line(&self, status: u16, bytes: u64, now: SystemTime) -> String {
        let user = self.user.as_deref().unwrap_or("-");
        let mut line = String::with_capacity(160);
        let date = utc(now).strftime("%d/%b/%Y:%H:%M:%S +0000");
        let _ = write!(line, "{} - {} [{date}] \"", self.peer, quoted(user));
        let request = &self.request[..self.request.floor_char_boundary(REQUEST_BYTES_MAX)];
        let (request, referer, agent) = (quoted(request), quoted(&self.referer), quoted(&self.agent));
        let _ = write!(line, "{request}\" {status} {bytes} \"{referer}\" \"{agent}\"");
        line
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    #[test]
    fn a_line_in_the_combined_format() {
        let record = RequestRecord {
            peer: Ipv4Addr::LOCALHOST.into(),
            user: None,
            request: "GET /media/a\"b HTTP/1.1".to_owned(),
            referer: "-".to_owned(),
            agent: "evil\n\"agent".to_owned(),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(
            record.line(206, 42, now),
            "127.0.0.1 - - [14/Nov/2023:22:13:20 +0000] \"GET /media/a\\\"b HTTP/1.1\" 206 42 \"-\" \"evil\\x0a\\\"agent\""
        );
        let long = RequestRecord { request: "ü".repeat(10_000), ..record };
        assert!(long.line(206, 42, now).len() < 2 * REQUEST_BYTES_MAX);
    }
}
