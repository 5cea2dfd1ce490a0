//! One entry of the delivery table: where a stream is in what it sends and in what it reads ahead.
//!
//! Promise: the send cursor never passes the fetch cursor; every quarter between them is referenced exactly once per
//! time the stream will pass through it. Not here: sockets and disks (`plane`).

use std::ops::Range;

use schedule::admission::QUARTER_BYTES;
use schedule::pace::Pace;
use units::{DiskId, Nanos, ReservationId};

use crate::cache::QuarterKey;
use crate::control::{Delivery, Outcome, Segment, Service};
use crate::port::Sharing;
use crate::wheel::Seat;

/// A place in a delivery's segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    /// Which segment.
    pub(crate) segment: usize,
    /// Bytes of it already passed.
    pub(crate) passed: u64,
    /// Bytes of content passed in all segments.
    pub(crate) payload: u64,
}

/// What lies at a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtCursor {
    /// Literal bytes, so many left in the segment.
    Literal { left: u64 },
    /// Content: the quarter, the offset in it, and how many bytes of it belong to this segment from here.
    Content { key: QuarterKey, within: u64, left: u64 },
    /// Behind the last segment.
    End,
}

impl Cursor {
    /// What lies here; finished segments are stepped over.
    pub(crate) fn place(&mut self, delivery: &Delivery) -> AtCursor {
        while let Some(segment) = delivery.segments.get(self.segment) {
            let length = length_of(segment);
            if self.passed < length {
                return match *segment {
                    Segment::Bytes(_) => AtCursor::Literal { left: length - self.passed },
                    Segment::Range { offset, .. } => {
                        let at = offset + self.passed;
                        let within = at % QUARTER_BYTES;
                        let key = QuarterKey { version: delivery.content.version, index: at / QUARTER_BYTES };
                        AtCursor::Content { key, within, left: (QUARTER_BYTES - within).min(length - self.passed) }
                    }
                };
            }
            self.segment += 1;
            self.passed = 0;
        }
        AtCursor::End
    }

    /// What content lies at or behind this cursor: literal segments are stepped over as well.
    pub(crate) fn next_content(&mut self, delivery: &Delivery) -> Option<(QuarterKey, u64, u64)> {
        loop {
            match self.place(delivery) {
                AtCursor::Literal { left } => self.passed += left,
                AtCursor::Content { key, within, left } => return Some((key, within, left)),
                AtCursor::End => return None,
            }
        }
    }

    /// Passes `bytes` of content.
    pub(crate) fn pass(&mut self, bytes: u64) {
        self.passed += bytes;
        self.payload += bytes;
    }
}

/// Bytes of content in all segments.
pub(crate) fn payload_of(delivery: &Delivery) -> u64 {
    ranges_of(delivery).map(length_of).sum()
}

fn ranges_of(delivery: &Delivery) -> impl Iterator<Item = &Segment> {
    delivery.segments.iter().filter(|segment| matches!(segment, Segment::Range { .. }))
}

/// The range that a delivery reads, if it is one.
pub(crate) fn range_of(delivery: &Delivery) -> Option<Range<u64>> {
    let mut ranges = ranges_of(delivery);
    match (ranges.next(), ranges.next()) {
        (Some(&Segment::Range { offset, length }), None) => Some(offset..offset + length),
        _ => None,
    }
}

pub(crate) fn length_of(segment: &Segment) -> u64 {
    match segment {
        Segment::Bytes(bytes) => bytes.len() as u64,
        Segment::Range { length, .. } => *length,
    }
}

/// The life of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamLife {
    /// The slot is free.
    Free,
    /// Admitted, and waits for a round in which its start fits.
    Waiting,
    /// Its first bytes are being read.
    Starting,
    /// Fed on the wheel.
    Running,
    /// Ends as soon as the kernel lets go of its memory.
    Ending(Outcome),
}

/// Guaranteed, with what that takes, or not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum StreamClass {
    /// A constant rate.
    Constant {
        /// What admission granted; `None` once another request of the session took it over.
        reservation: Option<ReservationId>,
        /// Keep it at the end.
        hold: bool,
        /// Where it sits on the wheel.
        seat: Option<Seat>,
        /// First round of its regular reads, and rounds between them.
        first_round: u64,
        /// Rounds between its regular reads.
        period: u32,
        /// Its next read.
        next_round: u64,
        /// Rounds between the last read and the next.
        gap: u64,
    },
    /// Whatever is left over.
    BestEffort,
}

impl StreamClass {
    /// Guaranteed, before its start.
    pub(crate) const fn constant(reservation: ReservationId, hold: bool, period: u32) -> Self {
        Self::Constant {
            reservation: Some(reservation),
            hold,
            seat: None,
            first_round: 0,
            period,
            next_round: 0,
            gap: 0,
        }
    }
}

/// What the kernel has not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) what: Sent,
    /// How many.
    pub(crate) bytes: u64,
    /// Since when the client has taken nothing.
    pub(crate) since: Nanos,
}

/// What a send carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Literal bytes of a segment.
    Literal,
    /// Content.
    Content,
    /// Nothing: it waits for room in the socket.
    Room,
}

/// Where the send cursor stands: a tick that stays in its quarter need look neither at the segments nor at the table of
/// buffers. Holds as long as the quarter is referenced, which it is until the cursor has passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Here {
    /// First byte not sent.
    pub(crate) offset: u64,
    /// Bytes from there that belong to the segment and lie in the quarter.
    pub(crate) left: u64,
    pub(crate) sharing: Sharing,
}

/// One entry of the delivery table.
#[derive(Debug)]
pub(crate) struct StreamEntry {
    pub(crate) life: StreamLife,
    /// How often this slot was used; tokens carry it.
    pub(crate) generation: u32,
    pub(crate) delivery: Option<Box<Delivery>>,
    pub(crate) class: StreamClass,
    /// The disk at which it is listed, and in whose rounds it reads: one of its content's.
    pub(crate) disk: DiskId,
    pub(crate) send: Cursor,
    pub(crate) fetch: Cursor,
    /// Read ahead up to this much payload.
    pub(crate) target: u64,
    /// Payload in all; up to the first page that could not be read, if there is one.
    pub(crate) payload: u64,
    /// What it ends with when its payload is sent.
    pub(crate) ends: Outcome,
    /// Payload it may still send in this tick.
    pub(crate) budget: u64,
    /// What may be sent by when, of a delivery with a rate: from its start on, and after the loss of its reservation.
    pub(crate) pace: Option<Pace>,
    pub(crate) in_flight: Option<InFlight>,
    /// The stream of the same content whose reads it shares.
    pub(crate) leader: Option<u32>,
    /// How far it was behind that one's sends when it began to share.
    pub(crate) behind_bytes: u64,
    /// Its send was cancelled so that it gives its buffers back: its client takes nothing.
    pub(crate) gives_way: bool,
    /// It gave its reservation back, and asks for it from then on when its client takes bytes.
    pub(crate) asks_back: Option<Nanos>,
    /// It is in the queue of best-effort deliveries that have no send out.
    pub(crate) queued: bool,
    /// Where in the buffers the send cursor stands, if that is known.
    pub(crate) here: Option<Here>,
    /// It need not look for more to read while it is this far ahead.
    pub(crate) ahead: u64,
    /// Everybody was told that its client does not take bytes.
    pub(crate) told_blocked: bool,
    pub(crate) sent_bytes: u64,
    pub(crate) misses: u64,
    /// Since when bytes that are due are not there.
    pub(crate) late_since: Option<Nanos>,
    pub(crate) started: Nanos,
    pub(crate) window: JitterWindow,
}

/// The 1 s window in which J is measured (HiTactix §5.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct JitterWindow {
    pub(crate) from: Nanos,
    pub(crate) payload: u64,
}

impl StreamEntry {
    /// A free slot.
    pub(crate) const fn free() -> Self {
        Self {
            life: StreamLife::Free,
            generation: 0,
            delivery: None,
            class: StreamClass::BestEffort,
            disk: DiskId(0),
            send: Cursor { segment: 0, passed: 0, payload: 0 },
            fetch: Cursor { segment: 0, passed: 0, payload: 0 },
            target: 0,
            payload: 0,
            ends: Outcome::Complete,
            budget: 0,
            pace: None,
            in_flight: None,
            leader: None,
            behind_bytes: 0,
            gives_way: false,
            asks_back: None,
            queued: false,
            here: None,
            ahead: u64::MAX,
            told_blocked: false,
            sent_bytes: 0,
            misses: 0,
            late_since: None,
            started: Nanos::ZERO,
            window: JitterWindow { from: Nanos::ZERO, payload: 0 },
        }
    }

    /// True while its disk is asked for what it shall have read ahead.
    pub(crate) const fn reads(&self) -> bool {
        matches!(self.life, StreamLife::Starting | StreamLife::Running) && self.fetch.payload < self.target
    }

    /// Where in its payload a quarter begins that it holds.
    pub(crate) fn holds_at(&self, quarter: QuarterKey) -> Option<u64> {
        let delivery = self.delivery.as_deref().filter(|delivery| delivery.content.version == quarter.version)?;
        let mut cursor = self.send;
        while cursor.payload < self.fetch.payload {
            let (key, _, left) = cursor.next_content(delivery)?;
            if key == quarter {
                return Some(cursor.payload);
            }
            cursor.pass(left);
        }
        None
    }

    /// The quarters it has asked for in its present segment, from the next one on.
    pub(crate) fn asked(&self) -> Range<u64> {
        let mut cursor = self.fetch;
        let Some((key, within, _)) = cursor.next_content(self.delivery()) else { return 0..0 };
        let in_segment = length_of(&self.delivery().segments[cursor.segment]) - cursor.passed;
        let bytes = self.target.saturating_sub(cursor.payload).min(in_segment);
        key.index..key.index + (within + bytes).div_ceil(QUARTER_BYTES)
    }

    /// True if both send the same bytes of one content at the same pace.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (self.delivery(), other.delivery());
        let pace = |service| match service {
            Service::Constant { rate, burst_bytes, .. } => Some((rate, burst_bytes)),
            Service::BestEffort => None,
        };
        one.content.version == two.content.version
            && pace(one.service) == pace(two.service)
            && ranges_of(one).eq(ranges_of(two))
    }

    /// The range it reads, if it is one.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        range_of(self.delivery())
    }

    /// The delivery of a slot in use.
    pub(crate) fn delivery(&self) -> &Delivery {
        self.delivery.as_deref().expect("a slot in use has its delivery")
    }

    /// Takes `delivery` in.
    pub(crate) fn begin(&mut self, delivery: Box<Delivery>, class: StreamClass, disk: DiskId, now: Nanos) {
        assert_eq!(self.life, StreamLife::Free, "a slot is used by one stream at a time");
        let payload = payload_of(&delivery);
        *self = Self {
            life: StreamLife::Waiting,
            generation: self.generation,
            disk,
            delivery: Some(delivery),
            class,
            payload,
            started: now,
            ..Self::free()
        };
    }

    /// Lets the delivery go; the slot is free again.
    pub(crate) fn end(&mut self) -> Box<Delivery> {
        self.life = StreamLife::Free;
        self.generation = self.generation.wrapping_add(1) & 0x00FF_FFFF;
        self.delivery.take().expect("a slot in use has its delivery")
    }

    /// The seat on the wheel, if it has one.
    pub(crate) fn seat(&self) -> Option<Seat> {
        match self.class {
            StreamClass::Constant { seat, .. } => seat,
            StreamClass::BestEffort => None,
        }
    }
}
