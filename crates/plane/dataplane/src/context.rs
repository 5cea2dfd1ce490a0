//! Context of the parts of the plane: the world outside, the settings, the figures, and the messages between
//! them and to the control plane, in queues that have their room from the start.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{DiskId, Nanos, limits};

use crate::config::PlaneConfig;
use crate::control::{Event, Report};
use crate::gauges::Gauges;
use crate::message::{PartMessage, ToAdmitter, ToFetcher, ToPacer};
use crate::port::{Io, Token};

/// Reports that wait for room in the queue: a start, a send and an end of each stream. Chosen.
const OUTBOX: usize = 3 * limits::STREAMS_MAX;
/// Events are reported while there are fewer reports than this. Chosen: a part of the room.
const EVENT_REPORTS_MAX: usize = OUTBOX / 4;
/// Commands are taken while the reports fill no more than one part in this number of their room: each may cause some. Chosen.
const COMMANDS_PART: usize = 2;
/// Messages between the parts for each stream: most are under way when a disk fails and all its streams receive the
/// report. Chosen.
const MESSAGES_PER_STREAM: usize = 4;
const NO_EVENT: Event = Event::DiskRecovered { disk: DiskId(u16::MAX) };

/// The state that each part receives in addition to its own.
#[derive(Debug)]
pub(crate) struct PlaneContext<I> {
    pub(crate) io: I,
    pub(crate) config: PlaneConfig,
    pub(crate) gauges: Arc<Gauges>,
    /// The time of the current work: the turn's, or a completion's.
    pub(crate) now: Nanos,
    reports: Vec<Report>,
    messages: VecDeque<PartMessage>,
}

impl<I: Io> PlaneContext<I> {
    pub(crate) fn new(config: PlaneConfig, gauges: Arc<Gauges>, io: I) -> Self {
        let messages = VecDeque::with_capacity(MESSAGES_PER_STREAM * (config.streams_max + limits::DISKS_MAX));
        Self { io, config, gauges, now: Nanos::ZERO, reports: Vec::with_capacity(OUTBOX), messages }
    }

    pub(crate) fn tell_admitter(&mut self, message: ToAdmitter) {
        self.send(PartMessage::Admitter(message));
    }

    pub(crate) fn tell_fetcher(&mut self, message: ToFetcher) {
        self.send(PartMessage::Fetcher(message));
    }

    pub(crate) fn tell_pacer(&mut self, message: ToPacer) {
        self.send(PartMessage::Pacer(message));
    }

    fn send(&mut self, message: PartMessage) {
        assert!(self.messages.len() < self.messages.capacity(), "a part answers each message with few others");
        self.messages.push_back(message);
    }

    /// The next message to be delivered.
    pub(crate) fn next_message(&mut self) -> Option<PartMessage> {
        if self.messages.is_empty() {
            // The queue begins at its start again: all of its room is more than a processor's cache holds.
            self.messages.clear();
        }
        self.messages.pop_front()
    }

    /// Sends a report to the control plane.
    pub(crate) fn report(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// Reports an event. Events are no state: with no room they are dropped, the gauges have the numbers.
    pub(crate) fn tell(&mut self, event: Event) {
        if self.reports.len() < EVENT_REPORTS_MAX {
            self.report(Report::Event(event));
        }
    }

    /// True if there is room for the reports that a command causes.
    pub(crate) fn has_room_for_reports(&self) -> bool {
        self.reports.len() <= self.reports.capacity() / COMMANDS_PART
    }

    pub(crate) fn flush_reports(&mut self) {
        let mut sent = 0;
        while sent < self.reports.len() {
            let report = std::mem::replace(&mut self.reports[sent], Report::Event(NO_EVENT));
            if let Err(report) = self.io.report(report) {
                self.reports[sent] = report;
                break;
            }
            sent += 1;
        }
        self.reports.drain(..sent);
    }
}

/// The request that a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Send {
        slot: u32,
        generation: u32,
    },
    Read {
        op: u32,
    },
    /// The check of its file's version that follows a read.
    Verify {
        op: u32,
    },
    /// A change of memory.
    Memory,
}

const SEND_TAG: u64 = 1 << 56;
const READ_TAG: u64 = 2 << 56;
const VERIFY_TAG: u64 = 4 << 56;
const MEMORY_TAG: u64 = 8 << 56;

impl RequestKind {
    pub(crate) fn token(self) -> Token {
        match self {
            Self::Send { slot, generation } => Token(SEND_TAG | u64::from(generation) << 32 | u64::from(slot)),
            Self::Read { op } => Token(READ_TAG | u64::from(op)),
            Self::Verify { op } => Token(VERIFY_TAG | u64::from(op)),
            Self::Memory => Token(MEMORY_TAG),
        }
    }

    pub(crate) fn of(token: Token) -> Self {
        let low = u32::try_from(token.0 & u64::from(u32::MAX)).expect("masked");
        if token.0 & READ_TAG != 0 {
            return Self::Read { op: low };
        }
        if token.0 & VERIFY_TAG != 0 {
            return Self::Verify { op: low };
        }
        if token.0 & MEMORY_TAG != 0 {
            return Self::Memory;
        }
        let generation = u32::try_from(token.0 >> 32 & 0x00FF_FFFF).expect("masked");
        Self::Send { slot: low, generation }
    }
}

/// A share in millionths, as gauges show it.
pub(crate) fn ppm(share: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares are small and positive")]
    let millionths = (share * 1e6) as u64;
    millionths
}

/// The time `span` from `now` on, as the regular looks of the parts count it: true when `next` has come, which then moves.
pub(crate) fn is_time(next: &mut Nanos, span: Nanos, now: Nanos) -> bool {
    let is_due = now >= *next;
    if is_due {
        *next = now.saturating_add(span);
    }
    is_due
}
