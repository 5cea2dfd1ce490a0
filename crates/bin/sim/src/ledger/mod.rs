//! Ledger of the deliveries that run, kept apart from the plane: are they on time, not ahead, started in time and ended for a reason?
//!
//! Promise: judges only by the calls that crossed the port. Not here: the bytes and the excuses of one delivery (`entry`), which faults
//! are on (`faults`).

mod entry;

use std::collections::BTreeMap;
use std::os::fd::RawFd;

use dataplane::control::{Ending, Outcome};
use dataplane::port::Span;
use schedule::pace::LAG_MAX;
use units::{BitRate, ContentVersion, DiskId, Nanos, ReservationId, StreamId};

use crate::arena::SimArena;
use crate::bounds::PlaneBounds;
use crate::channel::SimChannel;
use crate::contents::number_of;
use crate::course::Course;
use crate::delays::PlaneDelays;
use crate::events::ClientTurn;
use crate::laws::Law;
use crate::log::LogKind;
use crate::socket::SimSocket;

pub(crate) use entry::{DeliveryLife, LedgerEntry, RequestedDelivery};

/// Figures of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryTally {
    /// Deliveries asked for at a guaranteed rate.
    pub requested: u64,
    /// Of these, started.
    pub started: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Longest time from a command to a refusal, of guaranteed deliveries without an excuse.
    pub refusal_max: Nanos,
    /// Of the refused, viewers with a reservation from an earlier delivery.
    pub sessions_refused: u64,
    /// Best-effort deliveries.
    pub best_effort: u64,
    /// Deliveries that completed.
    pub completed: u64,
    /// Deliveries ended because their disk had become too slow for all.
    pub shed: u64,
    /// Viewers below their rate long after a pause: they may have lost their reservation by it.
    pub late_after_pause: u64,
    /// Ticks that deliveries missed: with an excuse, for else a law is broken.
    pub excused_misses: u64,
    /// Most guaranteed deliveries at once.
    pub running_max: u64,
    /// Payload bytes that crossed sockets.
    pub payload_bytes: u64,
    /// Longest time from a command to the first payload byte, of guaranteed deliveries without an excuse.
    pub first_byte_max: Nanos,
    /// Sum of those times, for the mean.
    pub first_byte_sum: Nanos,
    /// Number of first bytes.
    pub first_bytes: u64,
}

/// A delivery that ended because its disk had become too slow.
#[derive(Debug, Clone, Copy)]
struct Shed {
    stream: StreamId,
    disk: DiskId,
    at: Nanos,
}

/// All deliveries of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    bounds: PlaneBounds,
    running: BTreeMap<u64, LedgerEntry>,
    /// Guaranteed ones that have started.
    guaranteed: u64,
    /// When the plane's thread was late so far.
    delays: PlaneDelays,
    /// Deliveries that ended because their disk was too slow, since the last audit.
    shed: Vec<Shed>,
    tally: DeliveryTally,
    /// From a command to the first payload byte, of guaranteed deliveries without an excuse.
    first_bytes: Vec<Nanos>,
}

impl Ledger {
    pub(crate) fn new(bounds: PlaneBounds) -> Self {
        Self {
            bounds,
            running: BTreeMap::new(),
            guaranteed: 0,
            delays: PlaneDelays::default(),
            shed: Vec::new(),
            tally: DeliveryTally::default(),
            first_bytes: Vec::new(),
        }
    }

    pub(crate) fn tally(&self) -> DeliveryTally {
        self.tally
    }

    /// Times to first bytes, ascending.
    pub(crate) fn first_bytes(&self) -> Vec<Nanos> {
        let mut spans = self.first_bytes.clone();
        spans.sort_unstable();
        spans
    }

    pub(crate) fn delays(&self) -> &PlaneDelays {
        &self.delays
    }

    pub(crate) fn delivery(&self, stream: u64) -> Option<&LedgerEntry> {
        self.running.get(&stream)
    }

    /// A delivery that runs, and the delays by which it is judged.
    pub(crate) fn delivery_mut(&mut self, stream: u64) -> Option<(&mut LedgerEntry, &PlaneDelays)> {
        Some((self.running.get_mut(&stream)?, &self.delays))
    }

    /// The socket of a stream that has it open.
    pub(crate) fn socket(&mut self, stream: u64) -> &mut SimSocket {
        &mut self.running.get_mut(&stream).expect("an open socket has its stream").socket
    }

    /// Bytes that the socket of a stream at this rate has room for.
    pub(crate) fn socket_bytes(&self, rate: BitRate) -> u64 {
        let span = self.bounds.tick.saturating_mul(2).saturating_add(Nanos::from_millis(200));
        rate.bytes_in(span).max(16 << 10)
    }

    /// Streams that may be late.
    pub(crate) fn late_streams(&self) -> Vec<u64> {
        self.running.iter().filter(|(_, stream)| stream.may_be_late()).map(|(stream, _)| *stream).collect()
    }

    /// Picks one of the streams whose viewers watch the content they asked for, at their rate.
    pub(crate) fn pick_viewer(&self, wanted: impl Fn(&RequestedDelivery) -> bool, course: &mut Course) -> Option<u64> {
        let now = course.now();
        let watches = |stream: &&LedgerEntry| {
            stream.first_at().is_some()
                && wanted(&stream.requested)
                && !stream.client_is_excused(now)
                && !stream.may_always_be_late()
                && !stream.excuses.stopped
        };
        let viewers: Vec<u64> = self.running.values().filter(watches).map(|stream| stream.requested.id.0).collect();
        (!viewers.is_empty()).then(|| *course.demand().pick(&viewers))
    }

    /// The rates of all guaranteed streams that run.
    fn promised_rate(&self) -> BitRate {
        let running = self.running.values().filter(|stream| stream.life == DeliveryLife::Started);
        BitRate(running.filter_map(|stream| stream.requested.rate).map(|rate| rate.0).sum())
    }

    /// The plane's thread is late by this much, from now on.
    pub(crate) fn plane_is_late(&mut self, from: Nanos, delay: Nanos) {
        if delay > Nanos::ZERO {
            self.delays.add(from, from.saturating_add(delay), self.promised_rate());
        }
    }

    /// A delivery is asked for; a fault of its disk excuses it until `excused`.
    pub(crate) fn open(&mut self, requested: RequestedDelivery, socket: SimSocket, excused: Nanos) {
        let (id, version, at) = (requested.id.0, requested.version, requested.at);
        let best_effort = requested.rate.is_none();
        self.tally.requested += u64::from(!best_effort);
        self.tally.best_effort += u64::from(best_effort);
        let mut stream = LedgerEntry::new(requested, socket);
        if excused > at {
            stream.excuse_disk(excused);
        }
        for other in self.running.values_mut().filter(|other| other.requested.version == version) {
            (other.shares, stream.shares) = (true, true);
        }
        self.running.insert(id, stream);
    }

    /// The plane says that a delivery began.
    pub(crate) fn started(&mut self, stream: StreamId, reservation: Option<ReservationId>, course: &mut Course) {
        let Some(record) = self.running.get_mut(&stream.0).filter(|s| s.life == DeliveryLife::Asked) else {
            return course.broke(Law::EveryEndHasAReason, format!("{stream:?} started, but not asked for"));
        };
        record.life = DeliveryLife::Started;
        record.started_at = Some(course.now());
        record.reservation = reservation;
        self.delays.give_way(record.requested.burst_bytes);
        let guaranteed = record.requested.rate.is_some();
        if guaranteed != reservation.is_some() {
            course.broke(Law::EveryEndHasAReason, format!("{stream:?} holds {reservation:?}"));
        }
        if guaranteed {
            self.guaranteed += 1;
            self.tally.started += 1;
            self.tally.running_max = self.tally.running_max.max(self.guaranteed);
        }
    }

    /// The socket of a stream takes `bytes` of `span`.
    pub(crate) fn take(&mut self, stream: u64, arena: &SimArena, span: Span, bytes: u32, course: &mut Course) {
        let record = self.running.get_mut(&stream).expect("an open socket has its stream");
        course.check(Law::NeverWrongBytes, record.take(arena, span, bytes, course.now()));
    }

    /// The client of a stream reads differently. False if the stream does not run any more.
    pub(crate) fn client_turns(&mut self, stream: u64, turn: ClientTurn, course: &mut Course) -> bool {
        let Some(record) = self.running.get_mut(&stream) else { return false };
        record.client_turns(turn, course.now(), self.bounds.stall_max);
        course.log(LogKind::Client, stream, 0, || format!("stream {stream} {turn:?}"));
        true
    }

    /// The stream gets the order to end. False if it does not run.
    pub(crate) fn stop(&mut self, stream: u64, now: Nanos) -> bool {
        let Some(record) = self.running.get_mut(&stream) else { return false };
        record.excuses.stopped = true;
        record.stopped_at = Some(now);
        true
    }

    /// The viewer of a stream reads elsewhere, with its reservation, if that has one: which one.
    pub(crate) fn pass_on(&mut self, stream: u64) -> Option<ReservationId> {
        let record = self.running.get_mut(&stream)?;
        record.excuses.passed_on |= record.reservation.is_some();
        record.reservation
    }

    /// A fault of their disk excuses such streams.
    pub(crate) fn excuse_disk(&mut self, until: Nanos, excused: impl Fn(&RequestedDelivery) -> bool) {
        let streams = self.running.values_mut().filter(|stream| excused(&stream.requested));
        streams.for_each(|stream| stream.excuse_disk(until));
    }

    /// A content is not whole any more.
    pub(crate) fn content_spoilt(&mut self, version: ContentVersion) {
        let streams = self.running.values_mut().filter(|stream| stream.requested.version == version);
        streams.for_each(|stream| stream.excuses.content = true);
    }

    /// The plane gives the socket of a delivery back, which must be the one that was given; `end` is none if it was refused.
    pub(crate) fn close(
        &mut self,
        (stream, fd): (StreamId, RawFd),
        end: Option<&Ending>,
        course: &mut Course,
    ) -> Option<LedgerEntry> {
        let life = if end.is_some() { DeliveryLife::Started } else { DeliveryLife::Asked };
        let found = self.running.remove(&stream.0).filter(|s| s.life == life && s.requested.fd == fd);
        if found.is_none() {
            course.broke(Law::EveryEndHasAReason, format!("{stream:?} comes back from {life:?} with {end:?}"));
        }
        found
    }

    /// Judges and counts the end of a delivery, or its refusal.
    pub(crate) fn judge_end(
        &mut self,
        record: &LedgerEntry,
        end: Option<&Ending>,
        channel: &SimChannel,
        course: &mut Course,
    ) {
        self.judge_start(record, channel, course);
        let (now, guaranteed) = (course.now(), u64::from(record.requested.rate.is_some()));
        let tally = &mut self.tally;
        let is_refused = end.is_none_or(|end| end.outcome == Outcome::StartTooLate);
        tally.sessions_refused += u64::from(is_refused && record.requested.continues);
        let Some(end) = end else {
            tally.refused += guaranteed;
            if guaranteed > 0 && !record.may_start_late(now) {
                tally.refusal_max = tally.refusal_max.max(record.waited(now, &self.delays));
            }
            if record.taken_bytes > 0 {
                let what = format!("{:?} was refused after bytes were sent", record.requested.id);
                course.broke(Law::EveryEndHasAReason, what);
            }
            return;
        };
        let found = record.judge(end, now, &self.delays);
        let late = found.is_err() && end.misses > 0;
        course.check(if late { Law::EveryDeadline } else { Law::EveryEndHasAReason }, found);
        self.guaranteed -= guaranteed;
        tally.completed += u64::from(end.outcome == Outcome::Complete);
        if end.outcome == Outcome::DiskOverloaded {
            tally.shed += 1;
            self.shed.push(Shed { stream: record.requested.id, disk: record.requested.disk, at: now });
        }
        tally.excused_misses += end.misses;
        tally.payload_bytes += record.payload_bytes;
        self.count_first_byte(record.first_wait());
    }

    /// A viewer goes elsewhere in the content of a stream: with this reservation, of this content, at this rate. The wait for its
    /// picture counts now.
    pub(crate) fn seek(&mut self, stream: u64) -> Option<(ReservationId, u32, BitRate)> {
        let record = self.running.get(&stream)?;
        let session = (record.reservation?, number_of(record.requested.version), record.requested.rate?);
        self.count_first_byte(record.first_wait());
        self.pass_on(stream);
        Some(session)
    }

    fn count_first_byte(&mut self, waited: Option<Nanos>) {
        let Some(span) = waited else { return };
        self.first_bytes.push(span);
        self.tally.first_byte_max = self.tally.first_byte_max.max(span);
        self.tally.first_byte_sum += span;
        self.tally.first_bytes += 1;
    }

    /// A send to this stream is about to take effect, or time has passed: is it on time?
    pub(crate) fn judge_lateness(&mut self, stream: u64, course: &mut Course) {
        let (now, grace) = (course.now(), self.bounds.tick.saturating_mul(2));
        let Some(record) = self.running.get_mut(&stream) else { return };
        let Some(late) = record.lateness(now) else { return };
        let late = record.unexcused(late, now, &self.delays, grace);
        let allowed = self.bounds.lateness_max(record.requested.burst_bytes);
        if late <= allowed || record.excuses.stopped {
            return;
        }
        if record.excuses.unreserved {
            let first = !std::mem::replace(&mut record.late_after_pause, true);
            self.tally.late_after_pause += u64::from(first);
        }
        if !record.may_always_be_late() {
            let what =
                format!("stream {stream} is {late} late, {allowed} allowed ({} bytes sent)", record.payload_bytes);
            course.broke(Law::EveryDeadline, what);
        }
    }

    /// The plane reports that a stream's bytes were so late: had it an excuse at the time they were due? Reports of bytes due
    /// before the control side last read its reports may have waited there.
    pub(crate) fn judge_miss(&self, stream: u64, late: Nanos, channel: &SimChannel, course: &mut Course) {
        let since = course.now().saturating_sub(late);
        let Some(record) = self.running.get(&stream).filter(|_| !channel.was_unread(since)) else { return };
        if !record.may_miss(since, &self.delays) && !record.excuses.stopped {
            course.broke(Law::EveryDeadline, format!("stream {stream} missed a tick, by {late}"));
        }
    }

    /// A send took effect: is the stream too far ahead?
    pub(crate) fn judge_ahead(&self, stream: u64, course: &mut Course) {
        let Some(record) = self.running.get(&stream) else { return };
        let Some(rate) = record.requested.rate else { return };
        let allowed = rate.bytes_in(self.bounds.ahead_max()) + 4096;
        let ahead = record.ahead(course.now());
        if ahead > allowed {
            let what = format!("stream {stream} is {ahead} bytes ahead of its rate and burst, {allowed} allowed");
            course.broke(Law::BoundedCatchUp, what);
        }
        let second = record.second_bytes(course.now());
        // Its own second, the bytes it may be behind, and its burst: one that lost its reservation gets these as fast as its link
        // has room.
        let most = rate.bytes_in(LAG_MAX.saturating_add(Nanos::from_secs(1))) + record.requested.burst_bytes;
        if second > most + allowed {
            course.broke(Law::BoundedCatchUp, format!("stream {stream} got {second} bytes in a second at {rate}"));
        }
    }

    /// Looks at all streams; `is_late`: the plane's thread is about to be.
    pub(crate) fn audit(&mut self, period: Nanos, is_late: bool, channel: &SimChannel, course: &mut Course) {
        let running: Vec<u64> = self.running.keys().copied().collect();
        for stream in running {
            self.judge_lateness(stream, course);
            let record = &self.running[&stream];
            if !is_late && !channel.is_closed() {
                record.judge_forgotten(course);
            }
            self.judge_start(record, channel, course);
        }
        self.judge_shed(period, course);
        let left = self.bounds.payload_rate().0.saturating_sub(self.promised_rate().0);
        self.delays.make_up(BitRate(left).bytes_in(period));
    }

    /// Checks that its first byte, or its refusal, came in time; at the end of a delivery, and while it waits. A delivery asked
    /// for before the control side last read its reports has an excuse: the answer may wait there.
    fn judge_start(&self, record: &LedgerEntry, channel: &SimChannel, course: &mut Course) {
        let excused = record.may_start_late(course.now()) || record.excuses.stopped;
        if excused || channel.is_closed() || channel.was_unread(record.requested.at) {
            return;
        }
        let waited = record.waited(course.now(), &self.delays);
        if waited > self.bounds.first_byte_max() {
            let what = format!("stream {}: {waited} without a byte or a no", record.requested.id.0);
            course.broke(Law::StartsInTime, what);
        }
    }

    /// A delivery that ended because its disk was too slow was younger than those that continue; checked when the others of the
    /// same moment have come back. Not compared: sessions, as their reservation is older than the delivery, and viewers of one
    /// content, as they end together.
    fn judge_shed(&mut self, period: Nanos, course: &mut Course) {
        let (now, streams) = (course.now(), &self.running);
        let viewers =
            |stream: &LedgerEntry| streams.values().filter(|s| s.requested.version == stream.requested.version).count();
        self.shed.retain(|shed| {
            if now.saturating_sub(shed.at) < period {
                return true;
            }
            let younger = streams.range(shed.stream.0 + 1..).map(|(_, stream)| stream).find(|stream| {
                stream.requested.disk == shed.disk
                    && stream.started_at.is_some_and(|started| started < shed.at)
                    && stream.needs_disk()
                    && !stream.requested.continues
                    && !stream.client_is_excused(now)
                    && !stream.excuses.unreserved
                    && viewers(stream) == 1
            });
            if let Some(stream) = younger {
                let what = format!("{:?} ended and {:?} goes on", shed.stream, stream.requested.id);
                course.broke(Law::YoungestFirst, what);
            }
            false
        });
    }

    /// The plane has ended: every delivery has come back.
    pub(crate) fn judge_last(&self, course: &mut Course) {
        if let Some(stream) = self.running.values().next() {
            let what = format!(
                "stream {} never came back ({:?}, {} bytes taken)",
                stream.requested.id.0, stream.life, stream.taken_bytes
            );
            course.broke(Law::EveryEndHasAReason, what);
        }
    }
}
