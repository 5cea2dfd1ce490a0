//! Best-effort deliveries: they get the time left on the links, at once while there is any, else in turn.
//!
//! Promise: a delivery to a client that takes nothing costs no turn, and after [`BLOCKED_MAX`] no buffer, where others find none
//! after a tick; all of them together delay a step of the wheel by no more than the time of [`STEP_BYTES`]. Not here: disk time
//! (`schedule::disk`).

use std::collections::VecDeque;

use units::limits::CACHE_PAGE_BYTES;

use super::links::depth;
use super::*;

/// A delivery sends at most this much at a time. Chosen.
const SEND_BYTES: u64 = 1024 * 1024;
/// A delivery may take the unused share of a link in this number of steps of the wheel once it has sent its first bytes; the rest is for
/// streams that start or are behind. Chosen.
const DELIVERY_STEPS: u64 = 2;
/// All of them send at most these bytes in a step of the wheel: the next step must not wait for them. Chosen.
const STEP_BYTES: u64 = 4 << 20;
/// A client that takes nothing for this time has its buffers taken back; they are read again when it continues. Chosen.
const BLOCKED_MAX: Nanos = Nanos::from_secs(1);
/// A stream that gave its reservation back and finds no room asks again after this time. Chosen.
const RESERVE_AGAIN_EVERY: Nanos = Nanos::from_secs(1);
/// A stream to a client that takes nothing gives its reservation back after [`PlaneConfig::stall_max`](crate::PlaneConfig),
/// and ends after this number of them: five minutes by default, which most pauses are shorter than.
const STALLS_OF_PLAYERS: u64 = 10;

/// All of them.
#[derive(Debug)]
pub(super) struct BestEffort {
    /// Slots of all.
    all: Vec<u32>,
    /// Slots of those without a send out: they wait for bytes, or for their share of a link.
    waiting: VecDeque<u32>,
    /// Links on which a delivery was given less than it wanted in this step: the next one waits for its turn.
    is_short: Vec<bool>,
    /// The step of the wheel, and the bytes they may still send in it.
    step: (u64, u64),
    /// Until then pages go round: it is a tick since a delivery without a page found none.
    pages_short_until: Nanos,
}

impl BestEffort {
    pub(super) fn new(streams_max: usize, links: usize) -> Self {
        Self {
            all: Vec::with_capacity(streams_max),
            waiting: VecDeque::with_capacity(streams_max),
            is_short: vec![false; links],
            step: (0, 0),
            pages_short_until: Nanos::ZERO,
        }
    }

    /// Whether pages go round.
    fn is_short_of_pages(&self, now: Nanos) -> bool {
        now < self.pages_short_until
    }

    pub(super) fn add(&mut self, slot: u32) {
        debug_assert!(!self.all.contains(&slot), "a delivery is one of them once");
        self.all.push(slot);
    }

    /// Bytes that they may send in this step.
    fn remaining_in_step(&mut self, step: u64) -> u64 {
        if self.step.0 != step {
            self.step = (step, STEP_BYTES);
        }
        self.step.1
    }

    /// They sent this number of bytes.
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

impl Pacer {
    /// Asks for the reservation of a stream that gave it back and has a reading client again, as a new stream would;
    /// true while the answer is to be waited for.
    pub(super) fn ask_back<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) -> bool {
        let stream = &mut self.streams[slot as usize];
        if !stream.is_running() || stream.asks_back.is_none_or(|from| context.now < from) {
            return false;
        }
        stream.asks_back = Some(context.now.saturating_add(RESERVE_AGAIN_EVERY));
        context.tell_fetcher(ToFetcher::ReserveAgain { slot });
        true
    }

    /// A stream has its reservation again: it starts once more, where it is, with its burst behind it.
    pub(super) fn promoted<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        self.best_effort.remove(slot);
        let stream = &mut self.streams[slot as usize];
        if !stream.is_running() {
            return;
        }
        stream.life.pass_to(PacedLife::Waiting);
        (stream.is_guaranteed, stream.pace, stream.current) = (true, None, None);
        (stream.budget, stream.queued, stream.asks_back) = (0, false, None);
        let delivery = stream.delivery.as_deref_mut().expect("a slot in use has its delivery");
        if let Service::Constant { rate, burst_bytes, .. } = &mut delivery.service {
            *burst_bytes = 0;
            context.gauges.streams[slot as usize].rate_bps.set(rate.0);
        }
    }

    /// A constant-rate stream has lost its reservation and continues in the time left over, no faster than its rate.
    pub(super) fn demoted<I: Io>(&mut self, slot: u32, at: Nanos, asks_back: bool, context: &mut PlaneContext<I>) {
        self.leave_wheel(slot);
        let stream = &mut self.streams[slot as usize];
        if !stream.life.is_active() {
            return;
        }
        if let (None, Service::Constant { rate, burst_bytes, .. }) = (stream.pace, stream.delivery().service) {
            stream.pace = Some(Pace::new(rate, context.config.tick, at, burst_bytes).after(stream.send.payload));
        }
        stream.life.pass_to(PacedLife::Running);
        (stream.late_since, stream.budget) = (None, 0);
        (stream.is_guaranteed, stream.asks_back) = (false, asks_back.then_some(at));
        context.gauges.streams[slot as usize].rate_bps.set(0);
        self.best_effort.add(slot);
        self.enqueue(slot);
        self.want(slot, context);
    }

    /// In each step of the wheel, gives the waiting deliveries the time left on the links, in turn.
    pub(crate) fn feed_best_effort<I: Io>(&mut self, pages: &Cache, context: &mut PlaneContext<I>) {
        let count = self.best_effort.waiting.len() as u64;
        let share = (STEP_BYTES / count.max(1)).clamp(CACHE_PAGE_BYTES, SEND_BYTES);
        self.best_effort.is_short.fill(false);
        let pages_short = self.best_effort.is_short_of_pages(context.now);
        if pages_short {
            self.take_from_blocked(context.config.tick, context);
        }
        for _ in 0..count {
            let Some(slot) = self.best_effort.waiting.pop_front() else { return };
            self.streams[slot as usize].queued = false;
            self.allot(slot, share, context);
            self.push(slot, pages, context, context.now);
            self.wait_for_turn(slot);
            context.tell_fetcher(ToFetcher::Want { slot, pages_short });
        }
    }

    /// A delivery asks for its next bytes after its client took bytes, or its bytes came, and sends as many as it may when it
    /// has an answer.
    pub(super) fn want<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let pages_short = self.best_effort.is_short_of_pages(context.now);
        let stream = &self.streams[slot as usize];
        if pages_short && stream.fetched <= stream.send.payload {
            self.wait_for_turn(slot); // behind those that found no page
        } else if self.may_send_best_effort(slot) {
            context.tell_fetcher(ToFetcher::Want { slot, pages_short });
        }
    }

    /// A delivery sends as many bytes as it may.
    pub(super) fn best_effort_continues<I: Io>(
        &mut self,
        slot: u32,
        has_pages: bool,
        pages: &Cache,
        context: &mut PlaneContext<I>,
    ) {
        if !has_pages {
            self.best_effort.pages_short_until = context.now.saturating_add(context.config.tick);
        }
        if !self.may_send_best_effort(slot) {
            return;
        }
        if !self.best_effort.is_short[usize::from(self.streams[slot as usize].link.0)] {
            self.allot(slot, SEND_BYTES, context);
        }
        self.push(slot, pages, context, context.now);
        self.wait_for_turn(slot);
    }

    fn may_send_best_effort(&self, slot: u32) -> bool {
        let stream = &self.streams[slot as usize];
        stream.is_running() && !stream.is_guaranteed && stream.in_flight.is_none()
    }

    /// Puts a delivery that has no send out into the queue.
    fn wait_for_turn(&mut self, slot: u32) {
        if self.may_send_best_effort(slot) {
            self.enqueue(slot);
        }
    }

    fn enqueue(&mut self, slot: u32) {
        let queued = &mut self.streams[slot as usize].queued;
        if !std::mem::replace(queued, true) {
            self.best_effort.waiting.push_back(slot);
        }
    }

    /// Lets a delivery send up to `most` bytes of the room left on its link.
    fn allot<I: Io>(&mut self, slot: u32, most: u64, context: &PlaneContext<I>) {
        let now = context.now;
        // A tick's bytes at a time: by the moment, each send would be followed by another one of the bytes that became
        // due since.
        let tick = context.config.tick;
        let at = Nanos(now.0 - now.0 % tick.0);
        let in_step = self.best_effort.remaining_in_step(self.steps.index_at(now));
        let stream = &mut self.streams[slot as usize];
        let link = stream.link;
        let there = stream.fetched - stream.send.payload;
        let due = stream.pace.as_mut().map_or(u64::MAX, |pace| pace.allowance(at, stream.send.payload));
        let wanted = most.min(there).min(due);
        // All but two steps of the link's unused time is for streams that start or are behind. They leave a delivery its first
        // bytes: a player that asks for a playlist or an initialization segment shows nothing without it.
        let kept = match stream.send.payload {
            0 => Nanos::ZERO,
            _ => depth(tick).saturating_sub(self.steps.period().saturating_mul(DELIVERY_STEPS)),
        };
        let room = self.link_room(link, kept, context, now).min(in_step);
        self.best_effort.is_short[usize::from(link.0)] |= room < wanted;
        self.streams[slot as usize].budget = wanted.min(room);
    }

    /// Once a second: a delivery to a client that takes nothing gives its buffers back, and at last its place.
    pub(crate) fn look_after_blocked<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        let now = context.now;
        for nth in (0..self.best_effort.all.len()).rev() {
            let Some(&slot) = self.best_effort.all.get(nth) else { continue };
            // A player that pauses keeps its connection, and pauses for longer than a download that hangs.
            let stalls = if self.streams[slot as usize].pace.is_some() { STALLS_OF_PLAYERS } else { 1 };
            if self.blocked_for(slot, context, now) > context.config.stall_max.saturating_mul(stalls) {
                self.finish(slot, Outcome::ClientStalled, context);
                continue;
            }
        }
        self.take_from_blocked(BLOCKED_MAX, context);
    }

    /// Cancels the sends that are out for at least `longest`: a delivery gives its buffers back if its client took
    /// nothing of the send.
    fn take_from_blocked<I: Io>(&mut self, longest: Nanos, context: &mut PlaneContext<I>) {
        for &slot in &self.best_effort.all {
            let stream = &mut self.streams[slot as usize];
            let Some(InFlight { kind: SendKind::Content | SendKind::Literal, since, .. }) = stream.in_flight else {
                continue;
            };
            if context.now.saturating_sub(since) >= longest && !stream.gives_way && stream.is_running() {
                stream.gives_way = true;
                let token = RequestKind::Send { slot, generation: stream.generation }.token();
                context.io.cancel_send(token, SocketSlot(slot));
            }
        }
    }

    /// A delivery with a cancelled send holds nothing until its client takes bytes again.
    pub(super) fn park<I: Io>(&mut self, slot: u32, since: Nanos, context: &mut PlaneContext<I>) {
        context.tell_fetcher(ToFetcher::Park { slot });
        let stream = &mut self.streams[slot as usize];
        (stream.budget, stream.current) = (0, None);
        stream.in_flight = Some(InFlight { kind: SendKind::Room, bytes: 0, since });
        let token = RequestKind::Send { slot, generation: stream.generation }.token();
        context.io.await_room(token, SocketSlot(slot));
        self.report_posted(slot, context);
    }
}
