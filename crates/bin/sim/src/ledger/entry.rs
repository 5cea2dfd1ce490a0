//! One delivery: which bytes its socket must get next, by when, and how it may end.
//!
//! Promise: judges only by the calls that crossed the port. Not here: which faults are on.

use std::sync::Arc;

use std::os::fd::RawFd;

use content::Segment;
use dataplane::control::{Ending, Outcome};
use dataplane::port::Span;
use units::{BitRate, ContentVersion, DiskId, Nanos, ReservationId, StreamId};

use crate::arena::SimArena;
use crate::contents::number_of;
use crate::course::Course;
use crate::delays::PlaneDelays;
use crate::events::{ClientTurn, ViewerTrackId};
use crate::laws::Law;
use crate::load::RECOVERY;
use crate::socket::{ClientReading, SimSocket};

/// No stream has read ahead further than its longest period and the look-ahead, in the longest rounds that are drawn.
const READ_AHEAD_MAX: Nanos = Nanos::from_secs(40);
/// Longest time from an order to end until the end.
const END_MAX: Nanos = Nanos::from_secs(5);

/// Where a delivery is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryLife {
    /// The command is on its way.
    Asked,
    /// The plane said it began.
    Started,
    /// The plane gave the socket back.
    Over,
}

/// Why a delivery may be late or end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Excuses {
    /// Its client paused for longer than a reservation is kept, or while others watched the same content: a stream that shared
    /// their reads needs some of its own then. It may have no reservation any more, and nothing that crosses the port says so.
    pub(super) unreserved: bool,
    /// Its client reset the connection.
    pub(super) reset: bool,
    /// Its content was cut short.
    pub(super) content: bool,
    /// The stream, or the plane, got the order to end.
    pub(super) stopped: bool,
    /// Its viewer reads elsewhere in the content, with its reservation.
    pub(super) passed_on: bool,
}

/// Terms of a delivery, as asked for.
#[derive(Debug)]
pub(crate) struct RequestedDelivery {
    pub(crate) id: StreamId,
    pub(crate) fd: RawFd,
    pub(crate) version: ContentVersion,
    pub(crate) disk: DiskId,
    /// `None`: best effort.
    pub(crate) rate: Option<BitRate>,
    pub(crate) burst_bytes: u64,
    pub(crate) hold: bool,
    /// It continues with the reservation of an earlier delivery.
    pub(crate) continues: bool,
    pub(crate) segments: Arc<[Segment]>,
    pub(crate) at: Nanos,
    /// The viewer of segments that asked.
    pub(crate) viewer: Option<ViewerTrackId>,
}

/// One delivery.
#[derive(Debug)]
pub(crate) struct LedgerEntry {
    pub(crate) requested: RequestedDelivery,
    pub(super) life: DeliveryLife,
    pub(super) socket: SimSocket,
    pub(super) excuses: Excuses,
    /// Until when its disk's faults excuse that it is late; none if its disk was never slow, silent or erring while it ran.
    disk_excused_until: Option<Nanos>,
    /// The same of its client's pauses: without end while it reads slower than at the stream's rate.
    client_excused_until: Option<Nanos>,
    /// Since when it does.
    reads_slowly_since: Option<Nanos>,
    /// Another stream delivered the same content meanwhile.
    pub(super) shares: bool,
    /// It was late after a pause and its recovery, though not by anything else than the pause.
    pub(super) late_after_pause: bool,
    /// How late it has always been since they did not any more.
    forgiven: Option<Nanos>,
    /// When the plane said it began.
    pub(super) started_at: Option<Nanos>,
    pub(super) stopped_at: Option<Nanos>,
    pub(super) reservation: Option<ReservationId>,
    /// When the first payload byte was taken, and the last one so far.
    first: Option<Nanos>,
    last: Option<Nanos>,
    at_segment: usize,
    within: u64,
    /// Literal and payload bytes taken.
    pub(super) taken_bytes: u64,
    pub(super) payload_bytes: u64,
    payload_total: u64,
    /// Which second, and payload bytes taken in it.
    second: (u64, u64),
}

impl LedgerEntry {
    pub(super) fn new(requested: RequestedDelivery, socket: SimSocket) -> Self {
        let payload_of = |segment: &Segment| if let Segment::Range { length, .. } = segment { *length } else { 0 };
        Self {
            life: DeliveryLife::Asked,
            socket,
            excuses: Excuses::default(),
            disk_excused_until: None,
            client_excused_until: None,
            reads_slowly_since: None,
            shares: false,
            late_after_pause: false,
            forgiven: None,
            started_at: None,
            stopped_at: None,
            reservation: None,
            first: None,
            last: None,
            payload_total: requested.segments.iter().map(payload_of).sum(),
            requested,
            at_segment: 0,
            within: 0,
            taken_bytes: 0,
            payload_bytes: 0,
            second: (0, 0),
        }
    }

    /// The track of a viewer of segments that waits for it, if that has not gone elsewhere.
    pub(crate) fn watching(&self) -> Option<ViewerTrackId> {
        self.requested.viewer.filter(|_| !self.excuses.passed_on)
    }

    /// The session that its viewer may continue behind this end: its reservation, content and rate.
    pub(crate) fn session(&self, end: &Ending) -> Option<(ReservationId, u32, BitRate)> {
        let session = (end.held?, number_of(self.requested.version), self.requested.rate?);
        (!self.excuses.passed_on).then_some(session)
    }

    pub(crate) fn reservation(&self) -> Option<ReservationId> {
        self.reservation
    }

    /// Time at which its client has read all that is in the socket.
    pub(crate) fn arrives_at(&self) -> Nanos {
        self.socket.empty_at()
    }

    /// The socket takes `bytes` of `span`: are they the next ones?
    pub(super) fn take(&mut self, arena: &SimArena, span: Span, bytes: u32, now: Nanos) -> Result<(), String> {
        if self.life == DeliveryLife::Over {
            return Err(format!("stream {} is served after its end", self.requested.id.0));
        }
        let count = u64::from(bytes);
        let Some(segment) = self.requested.segments.get(self.at_segment) else {
            return Err(format!("stream {} gets {count} bytes more than it asked for", self.requested.id.0));
        };
        let length = match segment {
            Segment::Bytes(literal) => {
                let sent = Span { offset: span.offset, length: bytes };
                let got = arena.literal(sent).map_err(|e| e.0)?;
                let from = usize::try_from(self.within).unwrap_or(usize::MAX);
                if literal.get(from..from.saturating_add(got.len())) != Some(got) {
                    return Err(format!("stream {} gets wrong literal bytes", self.requested.id.0));
                }
                literal.len() as u64
            }
            Segment::Range { offset, length } => {
                if arena.is_literal(span) || self.within + count > *length {
                    return Err(format!("stream {} gets bytes beyond its range", self.requested.id.0));
                }
                let next = offset + self.within;
                arena
                    .check_range(span.offset, count, self.requested.version, next)
                    .map_err(|e| format!("stream {}: {}", self.requested.id.0, e.0))?;
                self.first.get_or_insert(now);
                self.last = Some(now);
                self.payload_bytes += count;
                let second = now.0 / Nanos::from_secs(1).0;
                self.second = if self.second.0 == second { (second, self.second.1 + count) } else { (second, count) };
                *length
            }
        };
        self.taken_bytes += count;
        self.within += count;
        if self.within == length {
            self.at_segment += 1;
            self.within = 0;
        }
        Ok(())
    }

    /// How much later than its rate the stream is at `now`. `None` before its first byte, and for best effort.
    pub(super) fn lateness(&self, now: Nanos) -> Option<Nanos> {
        let (rate, first) = (self.requested.rate?, self.first?);
        if self.payload_bytes == self.payload_total {
            return None;
        }
        let due = first.saturating_add(rate.time_for(self.payload_bytes));
        Some(now.saturating_sub(due))
    }

    /// A fault of its disk excuses it until then.
    pub(super) fn excuse_disk(&mut self, until: Nanos) {
        self.disk_excused_until = self.disk_excused_until.max(Some(until));
        self.forgiven = None;
    }

    /// Its client reads at most so fast from now on. `stall_max`: for how long its reservation is kept while it takes nothing.
    fn client_reads(&mut self, line: BitRate, now: Nanos, stall_max: Nanos) {
        let is_slow = line < self.requested.rate.unwrap_or(BitRate(1));
        let since = if is_slow { self.reads_slowly_since.or(Some(now)) } else { None };
        let before = std::mem::replace(&mut self.reads_slowly_since, since);
        if is_slow {
            self.client_excused_until = Some(Nanos::MAX);
        } else if let Some(before) = before {
            self.client_excused_until = Some(now.saturating_add(RECOVERY));
            self.excuses.unreserved |= self.shares || now.saturating_sub(before) > stall_max;
        }
        self.forgiven = None;
    }

    /// Its client reads differently from now on.
    pub(super) fn client_turns(&mut self, turn: ClientTurn, now: Nanos, stall_max: Nanos) {
        let reading = match turn {
            ClientTurn::Reads(rate) => {
                self.client_reads(rate, now, stall_max);
                ClientReading::AtRate(rate)
            }
            ClientTurn::Stops => {
                self.client_reads(BitRate(0), now, stall_max);
                ClientReading::Stopped
            }
            ClientTurn::Resets => {
                self.excuses.reset = true;
                ClientReading::Reset
            }
        };
        self.socket.set_reading(reading, now);
    }

    /// Its client does not read, or has only just begun to again.
    pub(super) fn client_is_excused(&self, now: Nanos) -> bool {
        self.client_excused_until.is_some_and(|until| now < until)
    }

    /// A fault of its disk excuses it at `now`.
    fn disk_is_excused(&self, now: Nanos) -> bool {
        self.disk_excused_until.is_some_and(|until| now < until)
    }

    /// A read that failed by a fault of its disk is met when all bytes before it are sent: as long after the fault as a stream
    /// is read ahead, and at any time by one without a rate.
    fn may_meet_a_failed_read(&self, now: Nanos) -> bool {
        let is_paced = self.requested.rate.is_some() && !self.excuses.passed_on && self.client_excused_until.is_none();
        self.disk_excused_until.is_some_and(|until| !is_paced || now < until.saturating_add(READ_AHEAD_MAX))
    }

    /// Its first byte, or its wait for it up to `now`, came before a fault of its disk and its recovery were over.
    pub(crate) fn may_start_late(&self, now: Nanos) -> bool {
        self.disk_is_excused(self.first_at().unwrap_or(now)) || self.may_always_be_late()
    }

    /// The unexcused part of a lateness: excuses are a recent delay of the plane, a fault of its disk and a pause of its
    /// client. Its least lateness since that excuse ended, and `grace`, it need not make up for.
    pub(crate) fn unexcused(&mut self, late: Nanos, now: Nanos, delays: &PlaneDelays, grace: Nanos) -> Nanos {
        let forgiven = match self.disk_excused_until.max(self.client_excused_until) {
            None => Nanos::ZERO,
            Some(until) if now < until => return Nanos::ZERO,
            Some(_) => {
                let most = late.saturating_add(grace);
                *self.forgiven.insert(self.forgiven.map_or(most, |forgiven| forgiven.min(most)))
            }
        };
        late.saturating_sub(forgiven).saturating_sub(delays.unrecovered(self.first.unwrap_or(now), now))
    }

    /// Something excuses that its bytes are not there at `now`.
    pub(super) fn may_miss(&self, now: Nanos, delays: &PlaneDelays) -> bool {
        let delayed = delays.unrecovered(self.first.unwrap_or(now), now);
        self.disk_is_excused(now) || self.client_is_excused(now) || delayed > Nanos::ZERO || self.may_always_be_late()
    }

    /// How many bytes the stream is ahead of its rate and burst at `now`.
    pub(super) fn ahead(&self, now: Nanos) -> u64 {
        let (Some(rate), Some(first)) = (self.requested.rate, self.first) else { return 0 };
        self.payload_bytes.saturating_sub(self.requested.burst_bytes + rate.bytes_in(now.saturating_sub(first)))
    }

    /// Payload bytes taken in the second of `now` so far.
    pub(super) fn second_bytes(&self, now: Nanos) -> u64 {
        if self.second.0 == now.0 / Nanos::from_secs(1).0 { self.second.1 } else { 0 }
    }

    /// Time the plane has taken so far to the first payload byte, or up to `now`; without the delays the world gave it.
    pub(super) fn waited(&self, now: Nanos, delays: &PlaneDelays) -> Nanos {
        let first = self.first.unwrap_or(now);
        first.saturating_sub(self.requested.at).saturating_sub(delays.between(self.requested.at, first))
    }

    /// True if it needs so much more than any stream has read ahead that its disk still has to read for it.
    pub(super) fn needs_disk(&self) -> bool {
        let left = self.payload_total - self.payload_bytes;
        self.requested.rate.is_some_and(|rate| left > rate.bytes_in(READ_AHEAD_MAX) + self.requested.burst_bytes)
    }

    /// A delivery that got the order to end does end.
    pub(super) fn judge_forgotten(&self, course: &mut Course) {
        if self.stopped_at.is_some_and(|at| course.now().saturating_sub(at) > END_MAX) {
            let what = format!("stream {} did not stop on request", self.requested.id.0);
            course.broke(Law::EveryEndHasAReason, what);
        }
    }

    /// How long it waited for its first byte, without an excuse.
    pub(super) fn first_wait(&self) -> Option<Nanos> {
        let first = self.first.filter(|_| !self.may_be_late())?;
        Some(first.saturating_sub(self.requested.at))
    }

    /// When the first payload byte was taken.
    pub(crate) fn first_at(&self) -> Option<Nanos> {
        self.first
    }

    /// Time at which its last byte was taken, if all were; reports of it may wait.
    pub(crate) fn whole_at(&self) -> Option<Nanos> {
        self.last.filter(|_| self.payload_bytes == self.payload_total)
    }

    /// True once every byte is in the socket.
    fn complete(&self) -> bool {
        self.at_segment == self.requested.segments.len()
    }

    /// Whether this end is one the delivery may have. It tells how many ticks the plane missed, and not when: with a fault at any
    /// time some may be excused. The events of single misses are judged by when they were (`Ledger::judge_miss`).
    pub(super) fn judge(&self, end: &Ending, now: Nanos, delays: &PlaneDelays) -> Result<(), String> {
        let fail = |why: &str| Err(format!("stream {}: {why}: {end:?}, {:?}", self.requested.id.0, self.excuses));
        if end.sent_bytes != self.taken_bytes {
            return fail(&format!("{} bytes were taken", self.taken_bytes));
        }
        let e = &self.excuses;
        let delayed = delays.between(self.requested.at, now);
        match end.outcome {
            Outcome::Complete if !self.complete() => fail("complete, but bytes are missing"),
            Outcome::ClientGone if !e.reset => fail("its client is not gone"),
            Outcome::ClientStalled if !self.client_is_excused(now) => fail("its client reads"),
            Outcome::Stopped if !e.stopped => fail("no client stopped it"),
            Outcome::DiskError if !self.may_meet_a_failed_read(now) => fail("its disk works"),
            Outcome::StartTooLate if end.sent_bytes > 0 => fail("it had begun"),
            Outcome::DiskOverloaded if !self.disk_is_excused(now) => fail("its disk is not slow"),
            Outcome::ContentChanged if !e.content => fail("its content is whole"),
            _ if end.misses > 0 && delayed == Nanos::ZERO && !self.may_be_late() => fail("missed deadlines"),
            _ if end.held.is_some() && (!self.requested.hold || end.held != self.reservation) => {
                fail("holds a reservation it should not")
            }
            _ => Ok(()),
        }
    }

    /// True if something was the matter, at any time, that excuses a missed deadline.
    pub(crate) fn may_be_late(&self) -> bool {
        self.disk_excused_until.max(self.client_excused_until).is_some() || self.may_always_be_late()
    }

    /// The same, if it is no matter of a time.
    pub(crate) fn may_always_be_late(&self) -> bool {
        let e = &self.excuses;
        self.requested.rate.is_none() || e.unreserved || e.reset || e.content || e.passed_on
    }
}

#[cfg(test)]
mod tests {
    use units::limits;

    use super::*;
    use crate::load::DELAY_RECOVERY;

    fn stream() -> LedgerEntry {
        let asked = RequestedDelivery {
            id: StreamId(7),
            fd: 0,
            version: ContentVersion(1),
            disk: DiskId(0),
            rate: Some(BitRate(8_000)),
            burst_bytes: 500,
            hold: false,
            continues: false,
            segments: Arc::new([Segment::Bytes(Box::new(*b"head")), Segment::Range { offset: 4096, length: 3000 }]),
            at: Nanos::ZERO,
            viewer: None,
        };
        LedgerEntry::new(asked, SimSocket::new(1 << 20, ClientReading::Stopped, Nanos::ZERO))
    }

    fn arena() -> (SimArena, Span, Span) {
        let mut arena = SimArena::new(1);
        let literal = Span { offset: limits::CHUNK_BYTES, length: 4 };
        arena.fill(literal, b"head").expect("inside");
        let chunk = Span { offset: 0, length: 4096 };
        arena.begin_read(chunk).expect("free");
        arena.end_read(chunk, ContentVersion(1), 4096, 4096);
        (arena, literal, chunk)
    }

    #[test]
    fn bytes_come_in_order_and_no_others() {
        let (arena, literal, chunk) = arena();
        let mut s = stream();
        assert!(s.take(&arena, chunk, 10, Nanos::ZERO).is_err(), "the head comes first");
        let mut s2 = stream();
        s2.take(&arena, literal, 4, Nanos::ZERO).expect("the head");
        assert!(s2.take(&arena, Span { offset: 10, length: 10 }, 10, Nanos::ZERO).is_err(), "skipped");
        s = stream();
        s.take(&arena, literal, 4, Nanos::ZERO).expect("the head");
        s.take(&arena, chunk, 1000, Nanos::ZERO).expect("its first bytes");
        let rest = Span { offset: 1000, length: 3000 };
        assert!(s.take(&arena, rest, 2001, Nanos::ZERO).is_err(), "beyond the range");
        s.take(&arena, rest, 2000, Nanos::ZERO).expect("the rest");
        assert!(s.complete());
        assert!(s.take(&arena, rest, 1, Nanos::ZERO).is_err(), "more than asked for");
    }

    #[test]
    fn lateness_counts_from_the_first_byte_and_leaves_out_the_worlds_delays_for_a_while() {
        let (arena, literal, chunk) = arena();
        let mut s = stream();
        let (second, mut delays) = (Nanos::from_secs, PlaneDelays::default());
        s.take(&arena, literal, 4, second(1)).expect("the head");
        assert_eq!(s.lateness(second(9)), None);
        s.take(&arena, chunk, 1000, second(1)).expect("its first bytes");
        assert_eq!(s.lateness(second(2)), Some(Nanos::ZERO));
        assert_eq!(s.lateness(second(5)), Some(second(3)));
        delays.add(second(3), second(4), BitRate(0));
        assert_eq!(s.unexcused(second(3), second(5), &delays, Nanos::ZERO), second(2));
        let over = second(4).saturating_add(DELAY_RECOVERY);
        assert_eq!(s.unexcused(second(3), over, &delays, Nanos::ZERO), second(3), "by then it is made up for");
        assert_eq!(s.ahead(second(1)), 500, "1000 bytes, of which the burst excuses 500");
    }

    #[test]
    fn a_disks_excuse_ends_and_its_lateness_stays_forgiven() {
        let (mut s, second, none) = (stream(), Nanos::from_secs, PlaneDelays::default());
        assert_eq!(s.unexcused(second(3), second(1), &none, second(1)), second(3));
        s.excuse_disk(second(10));
        assert_eq!(s.unexcused(second(30), second(9), &none, second(1)), Nanos::ZERO);
        assert_eq!(s.unexcused(second(30), second(11), &none, second(1)), Nanos::ZERO);
        assert_eq!(s.unexcused(second(31), second(12), &none, second(1)), Nanos::ZERO, "the grace");
        assert_eq!(s.unexcused(second(33), second(14), &none, second(1)), second(2));
        assert_eq!(s.unexcused(second(20), second(15), &none, second(1)), Nanos::ZERO, "it catches up");
        assert_eq!(s.unexcused(second(30), second(25), &none, second(1)), second(9), "and may not fall back");
    }

    #[test]
    fn a_pause_is_no_excuse_before_it_and_after_its_recovery() {
        let (second, line, none) = (Nanos::from_secs, BitRate(8_000_000), PlaneDelays::default());
        let mut s = stream();
        let stall_max = second(30);
        assert_eq!(s.unexcused(second(1), second(9), &none, Nanos::ZERO), second(1), "before");
        s.client_reads(BitRate(0), second(10), stall_max);
        assert_eq!(s.unexcused(second(20), second(30), &none, Nanos::ZERO), Nanos::ZERO);
        s.client_reads(line, second(31), stall_max);
        let over = second(31).saturating_add(RECOVERY);
        assert!(s.client_is_excused(second(32)) && !s.client_is_excused(over) && !s.may_always_be_late());
        assert_eq!(s.unexcused(second(20), over, &none, Nanos::ZERO), Nanos::ZERO, "what was lost is not given back");
        assert_eq!(s.unexcused(second(21), over.saturating_add(second(1)), &none, Nanos::ZERO), second(1), "after");
        for (shares, until, unreserved) in [(false, 29, false), (false, 31, true), (true, 1, true)] {
            let mut s = LedgerEntry { shares, ..stream() };
            s.client_reads(BitRate(0), Nanos::ZERO, stall_max);
            s.client_reads(line, second(until), stall_max);
            assert_eq!(s.may_always_be_late(), unreserved, "{shares}, {until} s");
        }
    }

    #[test]
    fn an_end_needs_its_reason() {
        let mut s = stream();
        let (none, mut delays) = (PlaneDelays::default(), PlaneDelays::default());
        delays.add(Nanos(1), Nanos(2), BitRate(0));
        let end = |outcome| Ending { outcome, sent_bytes: 0, misses: 0, duration: Nanos::ZERO, held: None };
        for outcome in [
            Outcome::Complete,
            Outcome::ClientGone,
            Outcome::ClientStalled,
            Outcome::Stopped,
            Outcome::DiskError,
            Outcome::DiskOverloaded,
            Outcome::ContentChanged,
        ] {
            assert!(s.judge(&end(outcome), Nanos::ZERO, &none).is_err(), "{outcome:?} without a reason");
        }
        s.client_reads(BitRate(0), Nanos::ZERO, Nanos::MAX);
        s.judge(&end(Outcome::ClientStalled), Nanos::ZERO, &none).expect("its client does not read");
        s = stream();
        s.excuses = Excuses { reset: true, ..Excuses::default() };
        s.judge(&end(Outcome::ClientGone), Nanos::ZERO, &none).expect("its client is gone");
        assert!(
            s.judge(&Ending { sent_bytes: 1, ..end(Outcome::ClientGone) }, Nanos::ZERO, &none).is_err(),
            "a byte nobody took"
        );
        assert!(s.judge(&Ending { misses: 1, ..end(Outcome::ClientGone) }, Nanos::ZERO, &none).is_ok());
        s.excuses = Excuses { stopped: true, ..Excuses::default() };
        let missed = Ending { misses: 1, ..end(Outcome::Stopped) };
        assert!(s.judge(&missed, Nanos::ZERO, &none).is_err(), "nothing excuses the miss");
        assert!(s.judge(&missed, Nanos(2), &delays).is_ok(), "the plane's thread did not run");
        s = stream();
        s.excuse_disk(Nanos::from_secs(10));
        for (outcome, last) in [(Outcome::DiskError, 49), (Outcome::DiskOverloaded, 9)] {
            assert!(s.judge(&end(outcome), Nanos::from_secs(last), &none).is_ok(), "{outcome:?}");
            assert!(s.judge(&end(outcome), Nanos::from_secs(last + 2), &none).is_err(), "{outcome:?} after the fault");
        }
    }
}
