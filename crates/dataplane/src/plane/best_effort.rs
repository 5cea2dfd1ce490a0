//! Best-effort deliveries: they get what the links have left, at once while there is any, else in turn.
//!
//! Promise: a delivery whose client takes nothing costs no turn, and after [`BLOCKED_MAX`] no buffer; all of them
//! together delay a step of the wheel by no more than what [`STEP_BYTES`] take. Not here: disk time (`schedule::disk`).

use std::collections::VecDeque;

use schedule::admission::QUARTER_BYTES;
use schedule::admission::disk_table::Moment;
use schedule::disk::best_effort::BeWork;
use schedule::pace::Pace;
use units::{DiskId, LinkId, Nanos};

use super::{Plane, ReadOp, TokenWork};
use crate::control::{Outcome, Report, Service};
use crate::port::{Io, SocketSlot};
use crate::stream::{InFlight, Sent, StreamClass, StreamLife};

/// Share of the buffers that best-effort deliveries may use: one in so many.
pub(super) const PAGES_SHARE: u32 = 8;
/// A delivery reads ahead this far.
const WINDOW_BYTES: u64 = 4 * QUARTER_BYTES;
/// A delivery sends at most this much at a time.
const SEND_BYTES: u64 = 1024 * 1024;
/// All of them send at most this much in a step of the wheel: the next step must not wait for them.
const STEP_BYTES: u64 = 4 << 20;
/// A client that takes nothing for so long has its buffers taken back; they are read again when it goes on.
const BLOCKED_MAX: Nanos = Nanos::from_secs(1);
/// A stream that gave its reservation back and finds no room asks again after so long.
const ASKED_BACK_EVERY: Nanos = Nanos::from_secs(1);
/// A stream whose client takes nothing gives its reservation back after [`PlaneConfig::stall_max`](super::PlaneConfig), and
/// ends after so many of them: five minutes by default, which most pauses are shorter than.
const STALLS_OF_PLAYERS: u64 = 10;

/// All of them.
#[derive(Debug)]
pub(super) struct BestEffort {
    /// Slots of all.
    all: Vec<u32>,
    /// Slots of those without a send out: they wait for bytes, or for their share of a link.
    waiting: VecDeque<u32>,
    /// Pages they hold.
    pub(super) pages: u32,
    /// Links on which somebody was given less than it wanted in this step: whoever comes now waits for its turn.
    is_short: Vec<bool>,
    /// The step of the wheel, and what they may still send in it.
    step: (u64, u64),
}

impl BestEffort {
    pub(super) fn new(streams_max: usize, links: usize) -> Self {
        Self {
            all: Vec::with_capacity(streams_max),
            waiting: VecDeque::with_capacity(streams_max),
            pages: 0,
            is_short: vec![false; links],
            step: (0, 0),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Bytes that they may send in this step.
    fn left_in_step(&mut self, step: u64) -> u64 {
        if self.step.0 != step {
            self.step = (step, STEP_BYTES);
        }
        self.step.1
    }

    /// They sent so many bytes.
    pub(super) const fn sent_in_step(&mut self, bytes: u64) {
        self.step.1 = self.step.1.saturating_sub(bytes);
    }

    /// True if one waits for its turn.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn remove(&mut self, slot: u32) {
        self.all.retain(|&other| other != slot);
        self.waiting.retain(|&other| other != slot);
    }
}

impl<I: Io> Plane<I> {
    /// A delivery begins: with the first bytes at once if they are in the buffers.
    pub(super) fn begin_best_effort(&mut self, slot: u32, now: Nanos) {
        self.streams[slot as usize].life = StreamLife::Running;
        self.best_effort.all.push(slot);
        self.best_effort_goes_on(slot, now);
    }

    /// A stream gives its reservation back and goes on in what is left over.
    pub(super) fn give_up_reservation(&mut self, slot: u32, now: Nanos) {
        if let Some(id) = self.take_reservation(slot, now) {
            self.admission.release(id);
        }
        self.demote(slot, now);
        self.streams[slot as usize].asks_back = Some(now);
    }

    /// A stream that gave its reservation back, and whose client reads again, asks for it as a new one would: if there is
    /// room it starts once more, where it is, with its burst behind it.
    pub(super) fn ask_back(&mut self, slot: u32, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        let disk = usize::from(stream.disk.0);
        let may_ask = stream.life == StreamLife::Running && !self.draining && self.disks[disk].health.is_good();
        if !may_ask || stream.asks_back.is_none_or(|from| now < from) {
            return;
        }
        stream.asks_back = Some(now.saturating_add(ASKED_BACK_EVERY));
        let delivery = stream.delivery.as_deref_mut().expect("a slot in use has its delivery");
        let Service::Constant { rate, burst_bytes, hold, .. } = &mut delivery.service else { return };
        *burst_bytes = 0;
        let (rate, hold) = (*rate, *hold);
        let delivery = stream.delivery.take().expect("just seen");
        let request = self.request(&delivery, DiskId(u16::try_from(disk).expect("within limits")), rate, 0);
        let reserved = self.held_or_new(None, request, &delivery, false);
        self.streams[slot as usize].delivery = Some(delivery);
        let Ok(id) = reserved else { return };
        let moment = Moment { found_bytes: 0, ..self.moment_of(slot, now) };
        let Some(first_round) = self.admission.place(id, &moment) else {
            return self.admission.release(id);
        };
        self.release_buffers(slot);
        self.ask_nothing(slot);
        self.best_effort.remove(slot);
        self.holders[id.slot as usize] = Some(slot);
        let period = self.admission.period(id).expect("just reserved");
        let next_round = moment.round;
        let stream = &mut self.streams[slot as usize];
        let reservation = Some(id);
        stream.class = StreamClass::Constant { reservation, hold, seat: None, first_round, period, next_round, gap: 0 };
        (stream.life, stream.pace, stream.here) = (StreamLife::Starting, None, None);
        (stream.budget, stream.queued, stream.asks_back) = (0, false, None);
        let id = stream.delivery().stream;
        self.disks[disk].starting.push(slot);
        self.gauges.streams[slot as usize].rate_bps.set(rate.0);
        self.outbox.push(Report::Started { stream: id, reservation });
        self.read_ahead(slot, moment.round, now);
        self.run_if_ready(slot, now);
    }

    /// A constant-rate stream has lost its reservation and goes on in what is left over, no faster than its rate, with as
    /// much in the buffers as others of its kind.
    pub(super) fn demote(&mut self, slot: u32, now: Nanos) {
        self.leave_schedule(slot);
        let stream = &mut self.streams[slot as usize];
        if stream.life == StreamLife::Waiting {
            self.outbox.push(Report::Started { stream: stream.delivery().stream, reservation: None });
        }
        if matches!(stream.life, StreamLife::Free | StreamLife::Ending(_)) {
            return;
        }
        if let (None, Service::Constant { rate, burst_bytes, .. }) = (stream.pace, stream.delivery().service) {
            stream.pace = Some(Pace::new(rate, self.config.tick, now, burst_bytes).after(stream.send.payload));
        }
        let until = stream.send.payload + WINDOW_BYTES + QUARTER_BYTES;
        (stream.late_since, stream.budget, stream.life) = (None, 0, StreamLife::Running);
        self.gauges.streams[slot as usize].rate_bps.set(0);
        let kept = self.keep_until(slot, until);
        self.streams[slot as usize].class = StreamClass::BestEffort;
        self.count_best_effort(slot, kept);
        self.best_effort.all.push(slot);
        self.enqueue(slot);
        self.best_effort_goes_on(slot, now);
    }

    /// In each step of the wheel those that wait get what the links have left, in turn.
    pub(super) fn feed_best_effort(&mut self, now: Nanos) {
        let count = self.best_effort.waiting.len() as u64;
        let share = (STEP_BYTES / count.max(1)).clamp(QUARTER_BYTES, SEND_BYTES);
        self.best_effort.is_short.fill(false);
        for _ in 0..count {
            let Some(slot) = self.best_effort.waiting.pop_front() else { return };
            self.streams[slot as usize].queued = false;
            self.allot(slot, share, now);
            self.push(slot, now);
            self.wait_for_turn(slot);
        }
    }

    /// A delivery whose client took bytes, or whose bytes came, sends what it may.
    pub(super) fn best_effort_goes_on(&mut self, slot: u32, now: Nanos) {
        if self.streams[slot as usize].life != StreamLife::Running || self.streams[slot as usize].in_flight.is_some() {
            return;
        }
        self.want_best_effort(slot);
        let LinkId(link) = self.streams[slot as usize].delivery().link;
        if !self.best_effort.is_short[usize::from(link)] {
            self.allot(slot, SEND_BYTES, now);
        }
        self.push(slot, now);
        self.wait_for_turn(slot);
    }

    /// Puts a delivery that has no send out into the queue, and asks for what it will send next.
    fn wait_for_turn(&mut self, slot: u32) {
        let stream = &self.streams[slot as usize];
        if stream.life != StreamLife::Running || stream.class != StreamClass::BestEffort {
            return;
        }
        if stream.in_flight.is_none() {
            self.enqueue(slot);
        }
        self.want_best_effort(slot);
    }

    fn enqueue(&mut self, slot: u32) {
        let queued = &mut self.streams[slot as usize].queued;
        if !std::mem::replace(queued, true) {
            self.best_effort.waiting.push_back(slot);
        }
    }

    /// Lets a delivery send up to `most` bytes of what its link has left.
    fn allot(&mut self, slot: u32, most: u64, now: Nanos) {
        // A tick's bytes at a time: by the moment, each send would be followed by one of what has become due since.
        let at = Nanos(now.0 - now.0 % self.config.tick.0);
        let in_step = self.best_effort.left_in_step(self.steps.index_at(now));
        let stream = &mut self.streams[slot as usize];
        let link = stream.delivery().link;
        let there = stream.fetch.payload - stream.send.payload;
        let due = stream.pace.as_mut().map_or(u64::MAX, |pace| pace.allowance(at, stream.send.payload));
        let wanted = most.min(there).min(due);
        // All but two steps of what the link was not given before is for streams that start or are behind.
        let kept = self.link_depth().saturating_sub(self.steps.period().saturating_mul(2));
        let room = self.link_room(link, kept, now).min(in_step);
        self.best_effort.is_short[usize::from(link.0)] |= room < wanted;
        self.streams[slot as usize].budget = wanted.min(room);
    }

    /// Asks for the next bytes of a delivery, if it has room for them.
    fn want_best_effort(&mut self, slot: u32) {
        let most = self.best_effort_pages_max();
        let stream = &mut self.streams[slot as usize];
        if self.best_effort.pages >= most || stream.fetch.payload < stream.target {
            return;
        }
        let target = (stream.send.payload + WINDOW_BYTES).min(stream.payload);
        if target < stream.target + WINDOW_BYTES / 2 && target < stream.payload {
            return; // half a window at a time: not every page is worth a seek
        }
        stream.target = target.max(stream.target);
        self.take_buffered(slot);
        let stream = &self.streams[slot as usize];
        if stream.fetch.payload < stream.target {
            self.ask_best_effort(slot);
        }
    }

    /// Asks the disk on which a delivery's next byte lies for what it wants there.
    pub(super) fn ask_best_effort(&mut self, slot: u32) {
        let Some(next) = self.next_piece(slot) else { return };
        let work = BeWork::Read { slot, position: next.position.unwrap_or(0), bytes: next.length };
        self.disks[usize::from(next.disk.0)].schedule.put_best_effort(work);
    }

    /// A delivery finds no buffer: it asks again in its next step, and does not keep its disk from others meanwhile
    /// (uploads stood still behind it).
    pub(super) fn postpone(&mut self, slot: u32) {
        let stream = &mut self.streams[slot as usize];
        stream.target = stream.fetch.payload;
        self.ask_nothing(slot);
    }

    /// What was read may be what its delivery waits for.
    pub(super) fn wake_reader(&mut self, read: &ReadOp, now: Nanos) {
        let stream = &self.streams[read.slot as usize];
        if !read.real_time && stream.generation == read.generation && stream.class == StreamClass::BestEffort {
            self.best_effort_goes_on(read.slot, now);
        }
    }

    /// Once a second: whose client takes nothing gives its buffers back, and at last its place.
    pub(super) fn look_after_blocked(&mut self, now: Nanos) {
        for nth in (0..self.best_effort.all.len()).rev() {
            let Some(&slot) = self.best_effort.all.get(nth) else { continue };
            // A player that pauses keeps its connection, and pauses for longer than a download that hangs.
            let stalls = if self.streams[slot as usize].pace.is_some() { STALLS_OF_PLAYERS } else { 1 };
            if self.blocked_for(slot, now) > self.config.stall_max.saturating_mul(stalls) {
                self.finish(slot, Outcome::ClientStalled, now);
                continue;
            }
            let stream = &mut self.streams[slot as usize];
            let Some(InFlight { what: Sent::Content | Sent::Literal, since, .. }) = stream.in_flight else { continue };
            if now.saturating_sub(since) >= BLOCKED_MAX && !stream.gives_way && stream.life == StreamLife::Running {
                stream.gives_way = true;
                self.io.cancel_send(TokenWork::Send { slot, generation: stream.generation }.token());
            }
        }
    }

    /// A delivery whose send was cancelled holds nothing until its client takes bytes again.
    pub(super) fn park(&mut self, slot: u32, since: Nanos) {
        self.release_buffers(slot);
        let stream = &mut self.streams[slot as usize];
        (stream.budget, stream.here) = (0, None);
        stream.in_flight = Some(InFlight { what: Sent::Room, bytes: 0, since });
        let token = TokenWork::Send { slot, generation: stream.generation }.token();
        self.ask_nothing(slot);
        self.io.await_room(token, SocketSlot(slot));
    }

    /// Pages that best-effort deliveries may hold in all.
    pub(super) fn best_effort_pages_max(&self) -> u32 {
        self.memory.quarters() / PAGES_SHARE
    }

    pub(super) fn count_best_effort(&mut self, slot: u32, change: i32) {
        if self.streams[slot as usize].class == StreamClass::BestEffort {
            self.best_effort.pages =
                self.best_effort.pages.checked_add_signed(change).expect("as many as were counted");
        }
    }
}
