//! Feeding sockets: the sends of each stream's tick, and their completions.

use content::{LITERAL_BYTES, Segment};
use schedule::pace::{BURST_FACTOR, Stride};
use units::limits;

use super::send_piece::{NextPiece, SendPiece};
use super::*;
use crate::control::Event;
use crate::cursor::AtCursor;
use crate::message::BlockTimes;
use crate::port::{Completion, IoFault, SendRequest, Span};

/// Fewer bytes are copied: to lend a few pages costs as much, and memory that was lent is replaced before it is read into
/// (decision 0008).
const LENT_BYTES_MIN: u64 = 16 * 1024;
/// The least time between two reports of misses. Chosen.
const MISS_NEWS: Nanos = Nanos::from_secs(1);

impl Pacer {
    /// The next step that has come and in which any stream is fed. After a long delay the steps that all streams have
    /// had since are left out: the bytes due are counted from each stream's own start, so nothing is lost by it.
    pub(crate) fn next_due_step(&mut self, now: Nanos) -> Option<u64> {
        let current = self.steps.index_at(now);
        if current > self.step + PLACES as u64 {
            self.step = current - PLACES as u64 + 1;
        }
        while self.step <= current {
            self.step += 1;
            if self.is_step_used(self.step - 1) {
                return Some(self.step - 1);
            }
        }
        None
    }

    /// When the next step begins that feeds any stream; while there is none, a turn of the wheel from the last one.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        let end = self.step + PLACES as u64;
        self.steps.start_of((self.step..end).find(|&step| self.is_step_used(step)).unwrap_or(end))
    }

    fn is_step_used(&self, step: u64) -> bool {
        self.wheel.is_used(step) || self.best_effort.is_waiting()
    }

    /// Feeds every guaranteed stream that has its place in this step.
    pub(crate) fn feed_step<I: Io>(&mut self, step: u64, pages: &Cache, context: &mut PlaneContext<I>) {
        let at = self.steps.start_of(step);
        context.gauges.plane.tick_late(context.now.saturating_sub(at));
        let mut nth = 0;
        while let Some(slot) = self.wheel.at(step, nth) {
            if let Some(next) = self.wheel.at(step, nth + 1) {
                context.io.prefetch(&self.streams[next as usize]);
            }
            self.feed(slot, pages, context, at);
            // A stream that ended left its places, and another has them now.
            if self.wheel.at(step, nth) == Some(slot) {
                nth += 1;
            }
        }
    }

    /// One tick of one stream.
    fn feed<I: Io>(&mut self, slot: u32, pages: &Cache, context: &mut PlaneContext<I>, at: Nanos) {
        if !self.streams[slot as usize].is_running() {
            return;
        }
        self.streams[slot as usize].measure_jitter(&context.gauges.streams[slot as usize], at);
        if self.blocked_for(slot, context, at) > context.config.stall_max {
            self.leave_wheel(slot);
            return context.tell_fetcher(ToFetcher::Demote { slot, at });
        }
        let stream = &mut self.streams[slot as usize];
        let Some(before) = stream.pace else { return };
        let mut pace = before;
        let due = pace.allowance(at, stream.send.payload);
        // The bytes that its rate promises in a tick; of a block, the bytes left in each of the ticks left, up to the pace of bursts.
        let left = stream.payload - stream.send.payload;
        let ticks = stream.sent_by.map(|sent_by| sent_by.saturating_sub(at).0 / pace.tick().0);
        let needed = ticks.map_or(0, |ticks| left / ticks.max(1)).min(pace.quota() * BURST_FACTOR);
        let quota = pace.quota().max(needed) + 1;
        stream.pace = Some(pace);
        if pace != before {
            context.tell_fetcher(ToFetcher::Paced { slot, pace });
        }
        let link = stream.link;
        // Its rate is promised, and a block until its time; a burst, and overdue bytes, are sent as far as the link has room.
        let most = if due > quota { self.link_room(link, Nanos::ZERO, context, at).max(quota) } else { quota };
        let stream = &mut self.streams[slot as usize];
        stream.budget = due.min(most);
        let was_blocked = stream.in_flight.is_some();
        self.push(slot, pages, context, at);
        // The bytes that a send took from the buffers are reported when it ends.
        if was_blocked || self.streams[slot as usize].in_flight.is_none() {
            context.tell_fetcher(ToFetcher::SentNothing { slot });
        }
    }

    /// For how long its client has taken nothing.
    pub(super) fn blocked_for<I: Io>(&mut self, slot: u32, context: &PlaneContext<I>, at: Nanos) -> Nanos {
        let stream = &mut self.streams[slot as usize];
        let since = stream.in_flight.map(|send| send.since);
        if stream.blocked_reported != since.is_some() {
            stream.blocked_reported = since.is_some();
            context.gauges.streams[slot as usize].blocked.set(u64::from(since.is_some()));
        }
        since.map_or(Nanos::ZERO, |since| at.saturating_sub(since))
    }

    /// Sends the next contiguous bytes the stream may send and has, if no send is out.
    pub(super) fn push<I: Io>(&mut self, slot: u32, pages: &Cache, context: &mut PlaneContext<I>, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        if stream.in_flight.is_some() || !stream.is_running() {
            return;
        }
        if let Some(current) = stream.current
            && stream.budget <= current.left
        {
            if let Ok(length @ 1..) = u32::try_from(stream.budget) {
                let memory = Span { offset: current.offset, length };
                self.hand_over(
                    slot,
                    SendPiece { memory, then: None, sharing: current.sharing, kind: SendKind::Content },
                    context,
                    now,
                );
            }
            return;
        }
        let mut cursor = stream.send;
        let place = cursor.place(SegmentList::of(stream.delivery()));
        stream.send = cursor;
        match place {
            AtCursor::End => self.finish(slot, Outcome::Complete, context),
            AtCursor::Content { .. } if stream.send.payload >= stream.payload => {
                let outcome = stream.cut.expect("its payload ends before its content");
                self.finish(slot, outcome, context);
            }
            AtCursor::Literal { left } => {
                let memory = self.literal(slot, left, context);
                let piece = SendPiece { memory, then: None, sharing: Sharing::Single, kind: SendKind::Literal };
                self.hand_over(slot, piece, context, now);
            }
            AtCursor::Content { key, within, left } => match stream.ready_bytes((key, within, left), pages) {
                NextPiece::Bytes(piece) => self.hand_over(slot, piece, context, now),
                NextPiece::NothingDue => {}
                NextPiece::Late => self.late(slot, context, now),
                NextPiece::Changed => self.finish(slot, Outcome::ContentChanged, context),
            },
        }
    }

    fn hand_over<I: Io>(&mut self, slot: u32, piece: SendPiece, context: &mut PlaneContext<I>, now: Nanos) {
        let SendPiece { memory, then, sharing, kind } = piece;
        let bytes = u64::from(memory.length) + then.map_or(0, |then| u64::from(then.length));
        let sharing = if bytes < LENT_BYTES_MIN { Sharing::Single } else { sharing };
        self.on_time(slot, context, now);
        let stream = &mut self.streams[slot as usize];
        // The second piece may be left out.
        let sure = u64::from(memory.length);
        let (is_rest, is_end) = (stream.budget <= sure, stream.send.payload + sure >= stream.payload);
        let is_awaited = !stream.is_guaranteed || kind == SendKind::Literal || !is_rest || is_end;
        stream.in_flight = Some(InFlight { kind, bytes, since: now });
        let token = RequestKind::Send { slot, generation: stream.generation }.token();
        context.gauges.plane.sends.add(1);
        self.link_takes(slot, bytes, context, now);
        context.io.send(SendRequest { token, socket: SocketSlot(slot), memory, then, sharing, is_awaited });
        self.report_posted(slot, context);
    }

    /// The reader of an outlet learns of a send by a report.
    pub(super) fn report_posted<I: Io>(&self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &self.streams[slot as usize];
        if stream.reports_sends {
            context.report(Report::Posted { stream: stream.delivery().stream });
        }
    }

    /// Puts the literal bytes at the send cursor into the stream's own area of the arena.
    fn literal<I: Io>(&mut self, slot: u32, left: u64, context: &mut PlaneContext<I>) -> Span {
        let stream = &self.streams[slot as usize];
        let Some(Segment::Bytes(bytes)) = stream.delivery().segments.get(stream.send.segment) else {
            unreachable!("the cursor is at a literal segment");
        };
        let length = left.min(LITERAL_BYTES);
        let from = usize::try_from(stream.send.passed).expect("a literal is short");
        let until = from + usize::try_from(length).expect("a literal is short");
        let base = u64::from(context.io.chunk_count()) * limits::CHUNK_BYTES;
        let memory = Span {
            offset: base + u64::from(slot) * LITERAL_BYTES,
            length: u32::try_from(length).expect("a literal is short"),
        };
        context.io.fill(memory, &bytes[from..until]);
        memory
    }

    fn late<I: Io>(&mut self, slot: u32, context: &PlaneContext<I>, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        if !stream.is_guaranteed {
            return;
        }
        if stream.pace.is_some_and(|pace| stream.send.payload >= pace.promised_bytes(now)) {
            return; // only its burst is slower than it might be
        }
        self.miss(slot, now, context);
    }

    /// A block that comes later than its session's clock says is a miss, too: no tick of it is late, for it is sent once it is in the
    /// buffers.
    pub(super) fn begin_block<I: Io>(&mut self, slot: u32, block: Option<BlockTimes>, context: &PlaneContext<I>) {
        let Some(BlockTimes { late_from, sent_by, .. }) = block else { return };
        self.streams[slot as usize].sent_by = Some(sent_by);
        if late_from < context.now {
            self.miss(slot, late_from, context);
        }
    }

    fn miss<I: Io>(&mut self, slot: u32, since: Nanos, context: &PlaneContext<I>) {
        let stream = &mut self.streams[slot as usize];
        stream.misses += 1;
        stream.late_since.get_or_insert(since);
        context.gauges.plane.misses.add(1);
        let gauges = &context.gauges.streams[slot as usize];
        gauges.misses.set(stream.misses);
        gauges.late.set(1);
    }

    fn on_time<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        let Some(since) = stream.late_since.take() else { return };
        context.gauges.streams[slot as usize].late.set(0);
        let late = now.saturating_sub(since);
        let (id, disk) = (stream.delivery().stream, stream.disk);
        context.gauges.disks[usize::from(disk.0)].late(late);
        if now.saturating_sub(self.misses_published_at) > MISS_NEWS {
            self.misses_published_at = now;
            context.tell(Event::Miss { stream: id, late });
        }
    }

    /// A send ended.
    pub(crate) fn send_done<I: Io>(
        &mut self,
        (slot, generation): (u32, u32),
        completion: Completion,
        pages: &Cache,
        context: &mut PlaneContext<I>,
    ) {
        let stream = &mut self.streams[slot as usize];
        assert_eq!(stream.generation, generation, "a slot is freed only when its send is over");
        let send = stream.in_flight.take().expect("a send was out");
        let gives_way = std::mem::take(&mut stream.gives_way);
        let taken = if send.bytes == 0 { 0 } else { completion.result.map_or(0, u64::from) };
        self.link_gets_back(slot, send.bytes.saturating_sub(taken));
        if let (Ok(bytes), SendKind::Content | SendKind::Literal) = (completion.result, send.kind) {
            self.account(slot, u64::from(bytes), send.kind, context);
        }
        if matches!(self.streams[slot as usize].life, PacedLife::Ending(_)) {
            return self.end(slot, context);
        }
        match completion.result {
            Err(IoFault::Cancelled) if gives_way => self.park(slot, send.since, context),
            Ok(0) if send.kind != SendKind::Room => self.finish(slot, Outcome::ClientGone, context),
            Err(IoFault::Gone | IoFault::Device(_)) => self.finish(slot, Outcome::ClientGone, context),
            Err(IoFault::Cancelled) => self.finish(slot, Outcome::Stopped, context),
            // After its client took bytes, a stream sends as many more as it may.
            Ok(_) if self.streams[slot as usize].is_guaranteed => self.push(slot, pages, context, completion.at),
            Ok(_) if self.ask_back(slot, context) => {}
            Ok(_) => self.want(slot, context),
        }
    }

    /// `bytes` left: moves the cursor on, and reports it to the fetcher, which takes back the pages passed.
    fn account<I: Io>(&mut self, slot: u32, bytes: u64, kind: SendKind, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot as usize];
        stream.sent_bytes += bytes;
        context.gauges.plane.sent_bytes.add(bytes);
        if !stream.is_guaranteed {
            context.gauges.streams[slot as usize].sent_bytes.set(stream.sent_bytes);
        }
        if kind == SendKind::Literal {
            stream.send.passed += bytes;
        } else {
            stream.budget = stream.budget.saturating_sub(bytes);
            self.pass(slot, bytes);
        }
        context.tell_fetcher(ToFetcher::Sent { slot, cursor: self.streams[slot as usize].send });
    }

    fn pass(&mut self, slot: u32, bytes: u64) {
        let stream = &mut self.streams[slot as usize];
        if let Some(current) = &mut stream.current
            && bytes < current.left
        {
            (current.offset, current.left) = (current.offset + bytes, current.left - bytes);
            return stream.send.pass(bytes);
        }
        stream.current = None;
        let (mut cursor, mut left) = (stream.send, bytes);
        while left > 0 {
            let Some((.., in_page)) = cursor.next_content(SegmentList::of(stream.delivery())) else { break };
            let step = left.min(in_page);
            cursor.pass(step);
            left -= step;
        }
        stream.send = cursor;
    }

    /// The first bytes of a stream are in the buffers: its clock begins.
    pub(super) fn run<I: Io>(&mut self, slot: u32, pages: &Cache, context: &mut PlaneContext<I>) {
        let stream = &self.streams[slot as usize];
        let (PacedLife::Waiting, Service::Constant { rate, burst_bytes, .. }) =
            (stream.life, stream.delivery().service)
        else {
            return;
        };
        let stride = Stride::of(rate, context.config.tick);
        let tick = stride.span(context.config.tick);
        // After a delay of the loop the next step to be fed lies in the past. A clock that began there would owe the
        // viewer the delay, at twice its rate.
        let step = self.steps.index_at(context.now).max(self.step);
        let tick_slot = self.wheel.place(slot, stride, step);
        // No client waits for a first byte that is in the buffers: its tick is the one before its first on the wheel. With the clock begun
        // at that one, the second send came up to two ticks behind the first, and a client that reads request after request, as
        // players of segments do, had up to a tick less than its rate in each. A burst's first send lasts as long.
        let before = if burst_bytes < rate.bytes_in(tick) { tick } else { Nanos::ZERO };
        let first_tick = self.steps.start_of(Wheel::next_step(tick_slot, step)).saturating_sub(before);
        let stream = &mut self.streams[slot as usize];
        stream.life.pass_to(PacedLife::Running);
        debug_assert!(stream.tick_slot.is_none(), "a stream is on the wheel once");
        (stream.tick_slot, stream.window) = (Some(tick_slot), JitterWindow::default());
        let pace = Pace::new(rate, tick, first_tick, burst_bytes).after(stream.send.payload);
        stream.pace = Some(pace);
        context.tell_fetcher(ToFetcher::Paced { slot, pace });
        context.tell_fetcher(ToFetcher::Running { slot });
        self.feed(slot, pages, context, first_tick);
    }

    /// The start burst of a stream ends where it is: its rate continues from there.
    pub(super) fn end_burst<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot as usize];
        if let Some(Service::Constant { burst_bytes, .. }) =
            stream.delivery.as_deref_mut().map(|delivery| &mut delivery.service)
        {
            *burst_bytes = 0;
        }
        if let Some(pace) = stream.pace {
            let pace = pace.without_burst(stream.send.payload, context.now);
            stream.pace = Some(pace);
            context.tell_fetcher(ToFetcher::Paced { slot, pace });
        }
    }
}
