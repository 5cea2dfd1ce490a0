//! Feeding sockets: what each stream's tick sends, and what became of it.

use schedule::admission::QUARTER_BYTES;
use schedule::pace::Pace;
use units::{Nanos, limits};

use super::{Plane, TokenWork};
use crate::cache::{Cache, QuarterKey, QuarterState};
use crate::control::{Event, Outcome, Segment};
use crate::port::{Completion, Io, IoFault, LITERAL_BYTES, SendRequest, Sharing, SocketSlot, Span};
use crate::stream::{AtCursor, Here, InFlight, JitterWindow, Sent, StreamClass, StreamLife};
use crate::wheel::{PLACES, Stride, Wheel};

/// A tick's send smaller than this is not worth its system call: such streams are fed every second tick, which at the
/// default tick is still as smooth (100 ms windows: research trial, 0.00 %) and costs a seventh less per bit.
const SEND_BYTES_MIN: u64 = 64 * 1024;
/// A start begins to run when this much of it is there (or all, if it is shorter).
const START_BYTES: u64 = 2 * QUARTER_BYTES;
const JITTER_WINDOW: Nanos = Nanos::from_secs(1);
/// News of misses are told at most this often.
const MISS_NEWS: Nanos = Nanos::from_secs(1);

impl<I: Io> Plane<I> {
    /// Feeds every stream whose tick has come. After a long delay the steps that all streams have had since are left
    /// out: what is due is counted from each stream's own start, so nothing is lost by it.
    pub(super) fn feed_due_steps(&mut self, now: Nanos) {
        let current = self.steps.index_at(now);
        if current > self.step + PLACES as u64 {
            self.step = current - PLACES as u64 + 1;
        }
        while self.step <= current {
            if self.is_step_used(self.step) {
                self.feed_step(self.step, self.steps.start_of(self.step), now);
            }
            self.step += 1;
        }
    }

    /// When the next step begins that anybody is fed in; while nobody is, a turn of the wheel from the last one.
    pub(super) fn next_used_step(&self) -> Nanos {
        let end = self.step + PLACES as u64;
        self.steps.start_of((self.step..end).find(|&step| self.is_step_used(step)).unwrap_or(end))
    }

    fn is_step_used(&self, step: u64) -> bool {
        self.wheel.is_used(step) || self.best_effort.is_waiting()
    }

    fn feed_step(&mut self, step: u64, at: Nanos, now: Nanos) {
        self.gauges.plane.tick_late(now.saturating_sub(at));
        let mut nth = 0;
        while let Some(slot) = self.wheel.at(step, nth) {
            self.feed(slot, at);
            // A stream that ended left its seat, and another sits there now.
            if self.wheel.at(step, nth) == Some(slot) {
                nth += 1;
            }
        }
        self.feed_best_effort(now);
    }

    /// One tick of one stream.
    fn feed(&mut self, slot: u32, at: Nanos) {
        let stream = &mut self.streams[slot as usize];
        if stream.life != StreamLife::Running {
            return;
        }
        self.measure_jitter(slot, at);
        if self.blocked_for(slot, at) > self.config.stall_max {
            return self.give_up_reservation(slot, at);
        }
        let stream = &mut self.streams[slot as usize];
        let Some(pace) = &mut stream.pace else { return };
        let (due, quota) = (pace.allowance(at, stream.send.payload), pace.quota() + 1);
        let link = stream.delivery().link;
        // Its rate is promised; a burst, and what it is behind, are sent as far as the link has room for them.
        let most = if due > quota { self.link_room(link, Nanos::ZERO, at).max(quota) } else { quota };
        let stream = &mut self.streams[slot as usize];
        stream.budget = due.min(most);
        let wanted = stream.send.payload.saturating_add(stream.ahead).min(stream.payload);
        if stream.leader.is_some() {
            self.follow(slot, at);
        } else if stream.fetch.payload < wanted && !self.disks[usize::from(stream.disk.0)].spins {
            self.read_ahead(slot, 0, at);
        }
        self.push(slot, at);
    }

    /// For how long its client has taken nothing.
    pub(super) fn blocked_for(&mut self, slot: u32, at: Nanos) -> Nanos {
        let stream = &mut self.streams[slot as usize];
        let since = stream.in_flight.map(|send| send.since);
        if stream.told_blocked != since.is_some() {
            stream.told_blocked = since.is_some();
            self.gauges.streams[slot as usize].blocked.set(u64::from(since.is_some()));
        }
        since.map_or(Nanos::ZERO, |since| at.saturating_sub(since))
    }

    /// Sends the next contiguous bytes the stream may send and has, if no send is out.
    pub(super) fn push(&mut self, slot: u32, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        if stream.in_flight.is_some() || stream.life != StreamLife::Running {
            return;
        }
        if let Some(here) = stream.here
            && stream.budget <= here.left
        {
            if let Ok(length @ 1..) = u32::try_from(stream.budget) {
                let memory = Span { offset: here.offset, length };
                self.hand_over(slot, SendPiece { memory, then: None, sharing: here.sharing, sent: Sent::Content }, now);
            }
            return;
        }
        let delivery = stream.delivery.as_deref().expect("a running slot has its delivery");
        match stream.send.place(delivery) {
            AtCursor::End => self.finish(slot, Outcome::Complete, now),
            AtCursor::Content { .. } if stream.send.payload >= stream.payload => {
                let outcome = stream.ends;
                self.finish(slot, outcome, now);
            }
            AtCursor::Literal { left } => {
                let memory = self.literal(slot, left);
                self.hand_over(
                    slot,
                    SendPiece { memory, then: None, sharing: Sharing::Single, sent: Sent::Literal },
                    now,
                );
            }
            AtCursor::Content { key, within, left } => match self.ready_bytes(slot, key, within, left) {
                Ready::Bytes(piece) => self.hand_over(slot, piece, now),
                Ready::NothingDue => {}
                Ready::Late => self.late(slot, now),
                Ready::Changed => self.finish(slot, Outcome::ContentChanged, now),
            },
        }
    }

    fn hand_over(&mut self, slot: u32, piece: SendPiece, now: Nanos) {
        let SendPiece { memory, then, sharing, sent } = piece;
        // Lending a few pages costs more than copying them.
        let sharing = if u64::from(memory.length) < SEND_BYTES_MIN { Sharing::Single } else { sharing };
        self.on_time(slot, now);
        let stream = &mut self.streams[slot as usize];
        let bytes = u64::from(memory.length) + then.map_or(0, |then| u64::from(then.length));
        stream.in_flight = Some(InFlight { what: sent, bytes, since: now });
        let token = TokenWork::Send { slot, generation: stream.generation }.token();
        self.gauges.plane.sends.add(1);
        self.link_takes(slot, bytes, now);
        self.io.send(SendRequest { token, socket: SocketSlot(slot), memory, then, sharing });
    }

    /// Puts the literal bytes at the send cursor into the stream's own area of the arena.
    fn literal(&mut self, slot: u32, left: u64) -> Span {
        let stream = &self.streams[slot as usize];
        let Some(Segment::Bytes(bytes)) = stream.delivery().segments.get(stream.send.segment) else {
            unreachable!("the cursor is at a literal segment");
        };
        let length = left.min(LITERAL_BYTES);
        let from = usize::try_from(stream.send.passed).expect("a literal is short");
        let until = from + usize::try_from(length).expect("a literal is short");
        let base = u64::from(self.io.chunk_count()) * limits::CHUNK_BYTES;
        let memory = Span {
            offset: base + u64::from(slot) * LITERAL_BYTES,
            length: u32::try_from(length).expect("a literal is short"),
        };
        self.io.fill(memory, &bytes[from..until]);
        memory
    }

    /// The bytes from a place in the content that are in memory and may be sent now: in one piece, or in two where they
    /// are lent.
    fn ready_bytes(&mut self, slot: u32, key: QuarterKey, within: u64, left: u64) -> Ready {
        let stream = &self.streams[slot as usize];
        if stream.budget == 0 {
            return Ready::NothingDue;
        }
        // Not yet asked for, or still being read: late either way.
        let quarter = if stream.send.payload < stream.fetch.payload { self.cache.find(key) } else { None };
        let Some(quarter) = quarter else { return Ready::Late };
        let valid = match self.cache.state(quarter) {
            QuarterState::Ready(valid) => u64::from(valid),
            QuarterState::Reading | QuarterState::Empty => return Ready::Late,
        };
        if valid < within + left {
            return Ready::Changed;
        }
        let (offset, sharing) = (Cache::span(quarter).offset + within, self.cache.sharing(quarter));
        let mut length = left;
        // Neighbours in the content are often neighbours in memory: one send for both.
        let (mut last, mut next) = (quarter, self.after(slot, key, within + length, length));
        while let Some((key, wanted)) = next {
            let Some((neighbour, valid)) = self.cache.ready_neighbour(last, key) else { break };
            last = neighbour;
            let more = wanted.min(u64::from(valid));
            length += more;
            next = self.after(slot, key, more, length);
        }
        let budget = self.streams[slot as usize].budget.min(limits::CHUNK_BYTES);
        let then = next.filter(|_| sharing == Sharing::Shared).and_then(|(key, wanted)| {
            let quarter = self.cache.find(key)?;
            let ready = matches!(self.cache.state(quarter), QuarterState::Ready(valid) if u64::from(valid) >= wanted);
            let length = u32::try_from(wanted.min(budget.checked_sub(length)?)).expect("at most a quarter");
            let both = ready && length > 0 && self.cache.sharing(quarter) == Sharing::Shared;
            both.then(|| Span { length, ..Cache::span(quarter) })
        });
        self.streams[slot as usize].here = Some(Here { offset, left, sharing });
        let length = u32::try_from(length.min(budget)).expect("at most a chunk");
        Ready::Bytes(SendPiece { memory: Span { offset, length }, then, sharing, sent: Sent::Content })
    }

    /// The quarter after the one of `key`, and how many bytes of it belong to the segment, if a send of `length` bytes
    /// that ends at `end` in that of `key` may and can go on.
    fn after(&self, slot: u32, key: QuarterKey, end: u64, length: u64) -> Option<(QuarterKey, u64)> {
        let stream = &self.streams[slot as usize];
        let goes_on = length < stream.budget
            && end.is_multiple_of(QUARTER_BYTES)
            && stream.send.payload + length < stream.fetch.payload;
        let more = if goes_on { self.in_segment_after(slot, length) } else { 0 };
        (more > 0).then_some((QuarterKey { index: key.index + 1, ..key }, more))
    }

    /// Bytes of the send cursor's segment that follow the next `length`, at most a quarter.
    fn in_segment_after(&self, slot: u32, length: u64) -> u64 {
        let stream = &self.streams[slot as usize];
        let segment = &stream.delivery().segments[stream.send.segment];
        let total = crate::stream::length_of(segment);
        total.saturating_sub(stream.send.passed + length).min(QUARTER_BYTES)
    }

    fn late(&mut self, slot: u32, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        if stream.class == StreamClass::BestEffort {
            return;
        }
        if stream.pace.is_some_and(|pace| stream.send.payload >= pace.promised_bytes(now)) {
            return; // only its burst is slower than it might be
        }
        stream.misses += 1;
        stream.late_since.get_or_insert(now);
        self.gauges.plane.misses.add(1);
        let gauges = &self.gauges.streams[slot as usize];
        gauges.misses.set(stream.misses);
        gauges.late.set(1);
    }

    fn on_time(&mut self, slot: u32, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        let Some(since) = stream.late_since.take() else { return };
        self.gauges.streams[slot as usize].late.set(0);
        let late = now.saturating_sub(since);
        let (id, disk) = (stream.delivery().stream, stream.disk);
        self.gauges.disks[usize::from(disk.0)].late(late);
        if now.saturating_sub(self.meter.misses_reported) > MISS_NEWS {
            self.meter.misses_reported = now;
            self.tell(Event::Miss { stream: id, late });
        }
    }

    /// A send ended.
    pub(super) fn send_done(&mut self, slot: u32, generation: u32, completion: Completion) {
        let stream = &mut self.streams[slot as usize];
        assert_eq!(stream.generation, generation, "a slot is freed only when its send is over");
        let send = stream.in_flight.take().expect("a send was out");
        let gives_way = std::mem::take(&mut stream.gives_way);
        let taken = if send.bytes == 0 { 0 } else { completion.result.map_or(0, u64::from) };
        self.link_gets_back(slot, send.bytes.saturating_sub(taken));
        if let (Ok(bytes), Sent::Content | Sent::Literal) = (completion.result, send.what) {
            self.account(slot, u64::from(bytes), send.what);
        }
        let stream = &mut self.streams[slot as usize];
        if matches!(stream.life, StreamLife::Ending(_)) {
            return self.end(slot, completion.at);
        }
        match completion.result {
            Err(IoFault::Cancelled) if gives_way => self.park(slot, send.since),
            Ok(0) if send.what != Sent::Room => self.finish(slot, Outcome::ClientGone, completion.at),
            Err(IoFault::Gone | IoFault::Device(_)) => self.finish(slot, Outcome::ClientGone, completion.at),
            Err(IoFault::Cancelled) => self.finish(slot, Outcome::Stopped, completion.at),
            Ok(_) => self.go_on(slot, completion.at),
        }
    }

    /// A stream whose client took bytes sends what it may send besides.
    fn go_on(&mut self, slot: u32, now: Nanos) {
        match self.streams[slot as usize].class {
            StreamClass::Constant { .. } => self.push(slot, now),
            StreamClass::BestEffort => {
                self.ask_back(slot, now);
                if self.streams[slot as usize].class == StreamClass::BestEffort {
                    self.best_effort_goes_on(slot, now);
                }
            }
        }
    }

    /// `bytes` left: the cursor moves on and quarters it passed are given back.
    fn account(&mut self, slot: u32, bytes: u64, sent: Sent) {
        let stream = &mut self.streams[slot as usize];
        stream.sent_bytes += bytes;
        self.gauges.plane.sent_bytes.add(bytes);
        if stream.class == StreamClass::BestEffort {
            self.gauges.streams[slot as usize].sent_bytes.set(stream.sent_bytes);
        }
        if sent == Sent::Literal {
            stream.send.passed += bytes;
            return;
        }
        stream.budget = stream.budget.saturating_sub(bytes);
        if let Some(here) = &mut stream.here
            && bytes < here.left
        {
            (here.offset, here.left) = (here.offset + bytes, here.left - bytes);
            return stream.send.pass(bytes);
        }
        stream.here = None;
        let mut left = bytes;
        while left > 0 {
            let stream = &mut self.streams[slot as usize];
            let delivery = stream.delivery.as_deref().expect("a slot in use has its delivery");
            let Some((key, _, in_quarter)) = stream.send.next_content(delivery) else { break };
            let step = left.min(in_quarter);
            stream.send.pass(step);
            left -= step;
            if step == in_quarter {
                self.give_back(slot, key);
            }
        }
    }

    /// A starting stream begins to run once its first bytes are there.
    pub(super) fn run_if_ready(&mut self, slot: u32, now: Nanos) {
        let stream = &self.streams[slot as usize];
        let leads = |leader: u32| self.streams[leader as usize].life == StreamLife::Running;
        if stream.life != StreamLife::Starting || !stream.leader.is_none_or(leads) || !self.start_is_there(slot) {
            return;
        }
        let StreamClass::Constant { .. } = stream.class else { return };
        let crate::control::Service::Constant { rate, burst_bytes, .. } = stream.delivery().service else { return };
        let per_tick = rate.bytes_in(self.config.tick);
        let stride = if per_tick < SEND_BYTES_MIN { Stride::TwoTicks } else { Stride::Tick };
        let tick = match stride {
            Stride::Tick => self.config.tick,
            Stride::TwoTicks => self.config.tick.saturating_mul(2),
        };
        // What is in the buffers may last shorter than what its disk has to do first, a grant or promised reads: the
        // stream's clock must not run before the rest can be there in time (simulator, seeds 4193 and 10463).
        let there = stream.fetch.payload - stream.send.payload;
        let lasts = rate.time_for(there + 1).saturating_sub(tick.saturating_mul(2));
        let reader = stream.leader.unwrap_or(slot);
        let asked = usize::from(self.next_piece(reader).map_or(stream.disk, |next| next.disk).0);
        if !self.disks[asked].schedule.can_promise(reader, now.saturating_add(lasts), now) {
            return;
        }
        // After a delay of the loop the next step to be fed lies in the past. A clock that began there would owe the
        // viewer the delay, at twice its rate (found by the simulator, seed 995).
        let step = self.steps.index_at(now).max(self.step);
        let chosen = self.wheel.seat(slot, stride, step);
        // Nobody waits for a first byte that is there: its tick is the one before the seat's first. With the clock begun at
        // that one, the second send came up to two ticks behind the first, and whoever reads request after request, as
        // players of segments do, had up to a tick less than its rate in each. A burst's first send lasts as long.
        let before = if burst_bytes < rate.bytes_in(tick) { tick } else { Nanos::ZERO };
        let first_tick = self.steps.start_of(Wheel::next_step(chosen, step)).saturating_sub(before);
        let disk = usize::from(stream.disk.0);
        self.disks[disk].starting.retain(|&other| other != slot);
        let stream = &mut self.streams[slot as usize];
        stream.life = StreamLife::Running;
        stream.window = JitterWindow { from: Nanos::ZERO, payload: 0 };
        let clock = Pace::new(rate, tick, first_tick, burst_bytes).after(stream.send.payload);
        let deadline = clock.promised_at(stream.fetch.payload + 1);
        stream.pace = Some(clock);
        if let StreamClass::Constant { seat, .. } = &mut stream.class {
            *seat = Some(chosen);
        }
        self.disks[asked].schedule.promise(reader, deadline);
        self.feed(slot, first_tick);
    }

    /// The starting streams of a disk begin to run if their first bytes are there.
    pub(super) fn run_those_ready(&mut self, disk: usize, now: Nanos) {
        // In the order they came: who shares another's reads starts after it.
        let mut nth = 0;
        while let Some(&slot) = self.disks[disk].starting.get(nth) {
            self.take_found(slot);
            self.run_if_ready(slot, now);
            nth += usize::from(self.disks[disk].starting.get(nth) == Some(&slot));
        }
    }

    fn start_is_there(&self, slot: u32) -> bool {
        let stream = &self.streams[slot as usize];
        let mut cursor = stream.send;
        let enough = match stream.delivery().service {
            // Three ticks' worth: the second follows the first at once, and the third must not wait for a read that their
            // end asked for (simulator, seed 486).
            crate::control::Service::Constant { rate, .. } => {
                START_BYTES.max(rate.bytes_in(self.config.tick.saturating_mul(3)))
            }
            crate::control::Service::BestEffort => START_BYTES,
        };
        while let Some((key, _, left)) = cursor.next_content(stream.delivery()) {
            if cursor.payload - stream.send.payload >= enough {
                return true;
            }
            if cursor.payload >= stream.fetch.payload {
                // A slow stream's first block can be less than a usual start: then all that was asked for is enough.
                // One that cannot be read on is to be told so.
                let asked = stream.target > 0 || stream.ends != Outcome::Complete;
                return stream.fetch.payload >= stream.target && asked;
            }
            match self.cache.find(key).map(|quarter| self.cache.state(quarter)) {
                Some(QuarterState::Ready(_)) => cursor.pass(left),
                Some(QuarterState::Reading | QuarterState::Empty) | None => return false,
            }
        }
        true
    }

    fn measure_jitter(&mut self, slot: u32, at: Nanos) {
        let stream = &mut self.streams[slot as usize];
        let Some(pace) = stream.pace else { return };
        if stream.in_flight.is_some() {
            // Its client has not taken what the last tick offered: what it gets until it is no longer behind says nothing
            // about the server.
            stream.window.from = Nanos::ZERO;
            return self.publish_progress(slot);
        }
        if stream.window.from == Nanos::ZERO {
            // The first window begins behind the start burst: that one is no unevenness of the rate.
            if pace.is_steady(at, stream.send.payload) {
                stream.window = JitterWindow { from: at, payload: stream.send.payload };
            }
            return self.publish_progress(slot);
        }
        let elapsed = at.saturating_sub(stream.window.from);
        if elapsed < JITTER_WINDOW {
            return;
        }
        let real = stream.send.payload - stream.window.payload;
        let expected = pace.rate().bytes_in(elapsed);
        let gauges = &self.gauges.streams[slot as usize];
        gauges.jitter_sum_ppm.add(real.abs_diff(expected).saturating_mul(1_000_000) / expected.max(1));
        gauges.jitter_windows.add(1);
        stream.window = JitterWindow { from: at, payload: stream.send.payload };
        self.publish_progress(slot);
    }

    /// Once a window, not once a tick: thousands of streams' gauges lie in no cache.
    fn publish_progress(&self, slot: u32) {
        let stream = &self.streams[slot as usize];
        let gauges = &self.gauges.streams[slot as usize];
        gauges.sent_bytes.set(stream.sent_bytes);
        gauges.buffered_bytes.set(stream.fetch.payload - stream.send.payload);
    }
}

/// What one send carries.
struct SendPiece {
    memory: Span,
    then: Option<Span>,
    sharing: Sharing,
    sent: Sent,
}

/// What can be sent of the content now.
enum Ready {
    Bytes(SendPiece),
    NothingDue,
    Late,
    /// Its content is shorter than it was.
    Changed,
}
