//! The event log of a simulation: a running hash of everything that happened, and on request its text.
//!
//! Promise: two runs with the same hash did the same things at the same times in the same order.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};

use units::Nanos;

/// Lines of text kept for the report of a broken law when tracing is off.
const TAIL_LINES: usize = 60;

/// Where the text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Nowhere: only the hash is kept (fast).
    Off,
    /// The last lines are kept, for the report of a broken law.
    Tail,
    /// Everything is printed as it happens.
    Print,
}

/// The log of one run.
#[derive(Debug)]
pub(crate) struct RunLog {
    trace: Trace,
    hash: u64,
    events: u64,
    tail: VecDeque<String>,
}

impl RunLog {
    pub(crate) fn new(trace: Trace) -> Self {
        Self { trace, hash: 0xcbf2_9ce4_8422_2325, events: 0, tail: VecDeque::new() }
    }

    /// Mixes an event into the hash; `text` is only made when it will be shown.
    pub(crate) fn event(&mut self, at: Nanos, kind: LogKind, a: u64, b: u64, text: impl FnOnce() -> String) {
        self.events += 1;
        for word in [at.0, kind as u64, a, b] {
            self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        if self.trace != Trace::Off {
            self.line(format!("{:>14.6} ms {kind:<9} {}", at.as_millis_f64(), text()));
        }
    }

    fn line(&mut self, line: String) {
        if self.trace == Trace::Print {
            // The reader may close the output before its end: a panic here would be taken for one of the plane.
            let _ = writeln!(io::stdout(), "{line}");
            return;
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// The hash so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The last lines, oldest first.
    pub(crate) fn tail(&self) -> Vec<String> {
        self.tail.iter().cloned().collect()
    }
}

/// Kind of an event. The numbers are part of the hash only, so they may change with the code.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LogKind {
    Wait,
    Read,
    ReadDone,
    Send,
    SendDone,
    Cancel,
    Offer,
    Grant,
    Done,
    Command,
    Report,
    Client,
    Fault,
    File,
    Memory,
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Wait => "wait",
            Self::Read => "read",
            Self::ReadDone => "read-end",
            Self::Send => "send",
            Self::SendDone => "send-end",
            Self::Cancel => "cancel",
            Self::Offer => "offer",
            Self::Grant => "grant",
            Self::Done => "done",
            Self::Command => "command",
            Self::Report => "report",
            Self::Client => "client",
            Self::Fault => "fault",
            Self::File => "file",
            Self::Memory => "memory",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tells_order_time_and_content_apart() {
        let hash = |events: &[(u64, LogKind, u64)]| {
            let mut log = RunLog::new(Trace::Tail);
            for (at, kind, a) in events {
                log.event(Nanos(*at), *kind, *a, 0, || a.to_string());
            }
            assert_eq!(log.events(), events.len() as u64);
            assert_eq!(log.tail().len(), events.len());
            log.hash()
        };
        let one = hash(&[(1, LogKind::Read, 1), (2, LogKind::Send, 1)]);
        assert_eq!(one, hash(&[(1, LogKind::Read, 1), (2, LogKind::Send, 1)]));
        assert_ne!(one, hash(&[(1, LogKind::Send, 1), (2, LogKind::Read, 1)]));
        assert_ne!(one, hash(&[(1, LogKind::Read, 1), (3, LogKind::Send, 1)]));
        assert_ne!(one, hash(&[(1, LogKind::Read, 2), (2, LogKind::Send, 1)]));
    }
}
