//! Read-ahead of one stream: its sent bytes, its bytes in the buffers and those it wants, and the plan of its regular reads.
//!
//! Promise: it holds the pages from its last sent byte up to its next read, and those marked behind that, each once. Not here: the
//! pages themselves (`buffer_pool`), the disks (`source`).

mod delivery;
mod demand;
mod group;
mod start;

use std::sync::Arc;

use content::layout::Piece;
use content::{Content, Segment};
use schedule::admission::rounds::LOOKAHEAD_ROUNDS;
use schedule::admission::start_cost::{StartConditions, next_read};
use schedule::admission::{REQUEST_WAY_MAX, window_bytes};
use schedule::disk::real_time::{ReadKind, START_BYTES};
use schedule::pace::{BlockSending, Pace};
use units::limits::CACHE_PAGE_BYTES;
use units::{DiskId, Nanos};

use super::ahead_pages::{AHEAD_BYTES_MAX, AheadPages};
use super::buffer_pool::BufferPool;
use super::source::{Source, Sources};
use crate::cache::{CHUNK_PAGES, PageKey, PageState};
use crate::context::PlaneContext;
use crate::cursor::{Cursor, SegmentList};
use crate::message::{BlockTimes, PlacedStart, ReadRate, ToAdmitter, ToPacer};
use crate::port::Io;

pub(super) use delivery::WINDOW_BYTES;
pub(super) use group::FOLLOW_LAG_BYTES;

/// How far a stream's reads are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ReadsLife {
    /// The slot is free.
    #[default]
    Free,
    /// It waits for its start.
    Waiting,
    /// Its first bytes are being read.
    Starting,
    /// Its bytes are sent as they are read.
    Running,
    /// It ends.
    Ending,
}

impl ReadsLife {
    /// Passes to the next life. One that runs starts once more when it has its reservation again, and a stream without a reservation runs
    /// from wherever it is.
    fn pass_to(&mut self, next: Self) {
        let follows = match next {
            Self::Free | Self::Ending => *self != Self::Free,
            Self::Waiting => *self == Self::Free,
            Self::Starting => matches!(self, Self::Waiting | Self::Running),
            Self::Running => matches!(self, Self::Waiting | Self::Starting | Self::Running),
        };
        assert!(follows, "{next:?} does not follow {self:?}");
        *self = next;
    }
}

/// The regular reads of a guaranteed stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadPlan {
    pub(super) rate: ReadRate,
    /// First round of its regular reads.
    first_round: u64,
    /// Its next read; `u64::MAX` of a follower.
    next_round: u64,
    /// Rounds between the last read and the next.
    gap: u64,
    /// How many reservations were made before its own: greater is younger.
    pub(super) age: u64,
    /// Its times, if it is read in one block.
    pub(super) block: Option<BlockTimes>,
}

impl ReadPlan {
    /// The plan of a stream that has no place in a time table yet.
    pub(super) const fn new(rate: ReadRate, age: u64) -> Self {
        Self { rate, first_round: 0, next_round: 0, gap: 0, age, block: None }
    }
}

/// Reads that one stream hands over to another of its content.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandedOver {
    /// Byte of the content up to which they go.
    end: u64,
    ahead: u64,
    plan: Option<ReadPlan>,
}

/// The reads of one stream. Thousands of these lie in no cache: the fields that each send's end looks at come first, in two
/// lines of it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct ReadAhead {
    /// How far it was sent.
    send: Cursor,
    /// Up to here in its payload no page is to be given back: it is the end of the page that is being sent. A tick's bytes seldom
    /// leave their page, and a stream's segments lie in no cache.
    page_end: u64,
    fetch: Cursor,
    /// Read ahead up to this much payload.
    target: u64,
    /// Payload in all; up to the first page that could not be read, if there is one.
    payload: u64,
    /// It need not look for more to read while it is this far ahead.
    ahead: u64,
    /// The first byte of the range it reads, if it is one.
    range_start: u64,
    /// How far it was behind its leader's sends when it began to share.
    behind_bytes: u64,
    /// The leader of its group: a stream of the same content, which reads for it.
    leader: Option<u32>,
    /// The disk that lists it and sets the rounds of its reads: one of its content's disks.
    disk: DiskId,
    life: ReadsLife,
    /// There is a page that could not be read.
    is_cut: bool,
    /// `None`: best effort.
    plan: Option<ReadPlan>,
    pace: Option<Pace>,
    /// The pages behind `fetch` that it holds: those of other disks, read before their turn.
    ahead_pages: AheadPages,
    content: Option<Arc<Content>>,
    segments: Option<Arc<[Segment]>>,
    started: Nanos,
    /// Its place in the table of streams, and how often that was used.
    slot: u32,
    generation: u32,
}

/// Its life.
impl ReadAhead {
    /// The read-ahead of the streams that will use a slot.
    pub(super) fn of_slot(slot: u32) -> Self {
        Self { slot, ..Self::default() }
    }

    /// A stream uses the free slot: it waits for its start.
    pub(super) fn begin(&mut self, content: Arc<Content>, segments: Arc<[Segment]>, disk: DiskId) {
        self.life.pass_to(ReadsLife::Waiting);
        let segment_list = SegmentList { version: content.version, segments: &segments };
        let (payload, range_start) = (segment_list.payload(), segment_list.range().map_or(0, |range| range.start));
        let (content, segments) = (Some(content), Some(segments));
        let (life, slot, generation) = (self.life, self.slot, self.generation);
        *self = Self { life, slot, generation, content, segments, disk, payload, range_start, ..Self::default() };
    }

    /// It has this plan from now on, and waits for its first bytes; its clock, if one ran, does not count.
    pub(super) fn await_start(&mut self, plan: ReadPlan, now: Nanos, sources: &mut Sources) {
        (self.plan, self.pace, self.started) = (Some(plan), None, now);
        debug_assert!(!sources[self.disk].starting.contains(&self.slot), "a stream waits for its first bytes once");
        sources[self.disk].starting.push(self.slot);
    }

    /// Its first bytes are read from now on.
    pub(super) fn start(&mut self) {
        self.life.pass_to(ReadsLife::Starting);
    }

    /// It does not wait for them any more.
    pub(super) fn leave_starting(&self, sources: &mut Sources) {
        sources[self.disk].starting.retain(|&other| other != self.slot);
    }

    /// Its first bytes are in the buffers.
    fn run(&mut self) {
        self.life.pass_to(ReadsLife::Running);
    }

    pub(super) fn end(&mut self) {
        self.life.pass_to(ReadsLife::Ending);
    }

    /// The stream has left its slot.
    pub(super) fn leave(&mut self) {
        self.life.pass_to(ReadsLife::Free);
        debug_assert!(!self.holds_pages(), "a stream gives its pages back before its slot");
        *self = Self { slot: self.slot, generation: self.generation.wrapping_add(1), ..Self::default() };
    }

    pub(super) const fn life(&self) -> ReadsLife {
        self.life
    }

    /// True while it reads or may do so.
    pub(super) const fn is_active(&self) -> bool {
        matches!(self.life, ReadsLife::Starting | ReadsLife::Running)
    }

    /// True while its disk has a request for bytes of its read-ahead.
    pub(super) const fn reads(&self) -> bool {
        self.is_active() && self.fetch.payload < self.target
    }

    pub(super) const fn slot(&self) -> u32 {
        self.slot
    }

    pub(super) const fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) fn content(&self) -> &Arc<Content> {
        self.content.as_ref().expect("a slot in use has its content")
    }

    pub(super) fn segment_list(&self) -> SegmentList<'_> {
        let segments = self.segments.as_deref().expect("a slot in use has its segments");
        SegmentList { version: self.content().version, segments }
    }

    /// True if its content has several copies.
    pub(super) fn has_copies(&self) -> bool {
        self.content().layout.copies() > 1
    }

    /// The disk that lists it.
    pub(super) const fn disk(&self) -> DiskId {
        self.disk
    }
}

/// Its plan and its clock.
impl ReadAhead {
    pub(super) const fn plan(&self) -> Option<ReadPlan> {
        self.plan
    }

    /// It has no reservation.
    pub(super) const fn is_best_effort(&self) -> bool {
        self.plan.is_none()
    }

    /// It has lost its reservation; its clock runs on.
    pub(super) fn lose_plan(&mut self) {
        self.plan = None;
    }

    /// Its regular reads begin.
    pub(super) fn plan_from(&mut self, start: PlacedStart) {
        if let Some(plan) = &mut self.plan {
            (plan.first_round, plan.next_round, plan.gap) = (start.first_round, start.round, 0);
            plan.block = start.block;
        }
    }

    /// It has no regular reads: all it needs is in the buffers, or another stream reads it.
    pub(super) fn reads_nothing(&mut self) {
        if let Some(plan) = &mut self.plan {
            plan.next_round = u64::MAX;
        }
    }

    /// True if a regular read of it is due in `round`.
    pub(super) fn is_due(&self, round: u64) -> bool {
        self.is_active() && self.plan.is_some_and(|plan| plan.next_round <= round)
    }

    /// True if it is read in one block.
    pub(super) fn is_whole(&self) -> bool {
        self.plan.is_some_and(|plan| plan.rate.whole)
    }

    pub(super) fn set_pace(&mut self, pace: Pace) {
        self.pace = Some(pace);
    }

    /// When its next byte to be read is promised, if its clock runs.
    pub(super) fn promised_at(&self) -> Option<Nanos> {
        Some(self.pace?.promised_at(self.fetch.payload + 1))
    }

    /// When its next byte to be read is due.
    pub(super) fn due(&self, now: Nanos) -> Nanos {
        let block = self.plan.and_then(|plan| plan.block);
        block.map(|block| block.read_by).or_else(|| self.promised_at()).unwrap_or(now)
    }

    /// The kind of its next read, and its rate, if it has a reservation.
    pub(super) fn kind(&self) -> Option<(ReadKind, ReadRate)> {
        let plan = self.plan?;
        let kind = match self.life {
            _ if plan.block.is_some_and(|block| block.is_first) => ReadKind::FirstWhole,
            _ if plan.rate.whole => ReadKind::Whole,
            ReadsLife::Starting => ReadKind::Start,
            _ => ReadKind::Regular,
        };
        Some((kind, plan.rate))
    }

    /// Bytes it may hold.
    pub(super) fn window(&self, source: &Source) -> u64 {
        match self.plan {
            None => 0,
            Some(ReadPlan { rate: ReadRate { whole: true, .. }, .. }) => self.payload,
            Some(ReadPlan { rate, .. }) => {
                let burst_bytes = if source.spins() { rate.burst_bytes } else { 0 };
                window_bytes(rate.rate, source.rounds().period(), rate.period) + burst_bytes
            }
        }
    }
}

/// Its bytes.
impl ReadAhead {
    pub(super) const fn payload(&self) -> u64 {
        self.payload
    }

    /// Payload that it was sent.
    pub(super) const fn sent(&self) -> u64 {
        self.send.payload
    }

    /// Payload that it has, or that is being read for it.
    pub(super) const fn fetched(&self) -> u64 {
        self.fetch.payload
    }

    /// True if all of its payload is in the buffers or being read.
    pub(super) const fn has_all(&self) -> bool {
        self.fetch.payload >= self.payload
    }

    /// Whether it holds pages that it was not sent yet.
    pub(super) const fn holds_pages(&self) -> bool {
        self.fetch.payload > self.send.payload || !self.ahead_pages.is_empty()
    }

    /// Its client has got the bytes before `cursor`: the pages passed are given back.
    pub(super) fn send_to(&mut self, cursor: Cursor, buffers: &mut BufferPool) {
        let mut at = std::mem::replace(&mut self.send, cursor);
        while cursor.payload >= self.page_end {
            let Some((key, _, left)) = at.next_content(self.segment_list()) else { return };
            self.page_end = at.payload + left;
            if cursor.payload >= self.page_end {
                at.pass(left);
                buffers.give_back(key, self.is_best_effort());
            }
        }
    }

    /// It wants its payload up to `until`, or as much as it wanted before.
    pub(super) fn want(&mut self, until: u64) {
        self.target = until.min(self.payload).max(self.target);
    }

    /// The first page that it wants and does not have: its bytes from the place of the next one on, and how many of them it wants.
    pub(super) fn next_page(&self) -> Option<(PageKey, u64, u64)> {
        if self.fetch.payload >= self.target {
            return None;
        }
        let mut cursor = self.fetch;
        cursor.next_content(self.segment_list())
    }

    /// It has the page that comes next; how much it wants of it.
    pub(super) fn pass_page(&mut self) -> u64 {
        let mut cursor = self.fetch;
        let (_, _, left) = cursor.next_content(self.segment_list()).expect("there is one");
        cursor.pass(left);
        self.fetch = cursor;
        left
    }

    /// Tells the pacer up to which payload pages are held for it.
    pub(super) fn tell_fetched<I: Io>(&self, context: &mut PlaneContext<I>) {
        context.tell_pacer(ToPacer::Fetched { slot: self.slot, payload: self.fetch.payload });
    }

    /// Passes over the pages that the buffers have (or another stream already reads), as far as it wants them. Gives the bytes passed.
    pub(super) fn take_buffered<I: Io>(&mut self, buffers: &mut BufferPool, context: &mut PlaneContext<I>) -> u64 {
        let before = self.fetch.payload;
        while let Some((key, ..)) = self.next_page() {
            if !self.ahead_pages.remove(key.index) {
                if !buffers.hold(key, self.is_best_effort()) {
                    break;
                }
                context.gauges.plane.cache_hits.add(1);
            }
            self.pass_page();
        }
        if self.fetch.payload > before {
            self.tell_fetched(context);
        }
        self.fetch.payload - before
    }

    /// Sets how far it shall have read ahead: on a spinning disk by a regular (or start) read in `round`, on flash at every tick. Gives
    /// the time by which the first byte that is to be read is due: buffered pages do not postpone that, for it may be earlier than that of
    /// the one behind it.
    fn look_ahead(&mut self, round: u64, source: &Source, now: Nanos) -> Option<Nanos> {
        let window = self.window(source);
        let plan = self.plan.as_mut()?;
        let mut wanted = u64::MAX;
        if plan.rate.whole {
            plan.next_round = u64::MAX;
        } else if source.spins() {
            (plan.next_round, plan.gap) = next_read(round, plan.gap, plan.first_round, plan.rate.period);
            let until = source.rounds().start_of(plan.next_round + LOOKAHEAD_ROUNDS);
            wanted = match self.pace {
                Some(pace) => pace.due_bytes(until),
                None => {
                    let ReadRate { rate, burst_bytes, .. } = plan.rate;
                    self.send.payload + rate.bytes_in(until.saturating_sub(now)) + burst_bytes
                }
            };
        }
        let due = self.due(now);
        self.ahead = window;
        self.want(wanted.min(self.send.payload + window));
        Some(due)
    }

    /// Sets how far it shall have read ahead in `round`, if its rate is constant, takes the pages that the buffers have, and asks its disk
    /// for the rest.
    pub(super) fn read_ahead<I: Io>(
        &mut self,
        round: u64,
        (sources, buffers): (&mut Sources, &mut BufferPool),
        context: &mut PlaneContext<I>,
    ) {
        let Some(due) = self.look_ahead(round, &sources[self.disk], context.now) else { return };
        self.take_buffered(buffers, context);
        self.ask_real_time(sources, due);
    }

    /// It asks again for its next bytes, of the disks as they are now, and is listed at the best of them.
    pub(super) fn ask_elsewhere<I: Io>(
        &mut self,
        (sources, buffers): (&mut Sources, &BufferPool),
        context: &mut PlaneContext<I>,
    ) {
        self.ask_nothing(sources);
        let (slot, from) = (self.slot, self.disk);
        let to = sources.home(&self.content().layout).unwrap_or(from);
        if to != from {
            self.disk = to;
            context.tell_admitter(ToAdmitter::Moved { slot, disk: to });
            sources.move_stream(slot, from, to);
        }
        if self.reads() {
            self.ask_again(sources, buffers, context.now);
        }
    }

    /// It has no start burst from now on, and gives back the pages beyond those of its rate.
    pub(super) fn end_burst<I: Io>(
        &mut self,
        sources: &Sources,
        buffers: &mut BufferPool,
        context: &mut PlaneContext<I>,
    ) {
        if let Some(plan) = &mut self.plan {
            plan.rate.burst_bytes = 0;
        }
        self.ahead = self.window(&sources[self.disk]);
        // Each page counts whole.
        let until = self.send.payload + self.ahead + CACHE_PAGE_BYTES;
        let target = self.target.min(until);
        if self.fetch.payload > until {
            self.give_back_from(until, buffers);
        }
        self.target = target.max(self.fetch.payload);
        self.tell_fetched(context);
    }

    /// True if a stream that reads at each tick has less than it may hold.
    pub(super) fn is_short(&self) -> bool {
        self.fetch.payload < self.send.payload.saturating_add(self.ahead).min(self.payload)
    }

    /// The next read of a guaranteed stream, and its place: as many bytes as it wants and lie there, of the first page only the
    /// bytes it sends.
    pub(super) fn next_piece(&self, sources: &Sources) -> Option<Piece> {
        let (key, within, _) = self.next_page()?;
        let wanted = self.target - self.fetch.payload;
        let layout = &self.content().layout;
        let offset = key.index * CACHE_PAGE_BYTES;
        let piece = layout.piece(layout.copy_at(offset, |disk| sources.reluctance(disk)), offset, within + wanted)?;
        // All that it wants lies on one disk, be it in several ranges.
        let length = if layout.disks().len() == 1 { wanted } else { piece.length - within };
        Some(Piece { length, ..piece })
    }

    /// How many pages from `key` on can be read in one go: in one chunk, absent, wanted, and next in the stream.
    pub(super) fn run_length(&self, key: PageKey, bytes_max: u64, buffers: &BufferPool) -> u32 {
        let in_chunk = u64::from(CHUNK_PAGES) - key.index % u64::from(CHUNK_PAGES);
        let most = in_chunk.min(bytes_max.div_ceil(CACHE_PAGE_BYTES));
        let mut cursor = self.fetch;
        let mut count = 0;
        while u64::from(count) < most && cursor.payload < self.target {
            let Some((next, _, left)) = cursor.next_content(self.segment_list()) else { break };
            let follows = next.index == key.index + u64::from(count);
            if !follows || (count > 0 && buffers.has(next)) {
                break;
            }
            cursor.pass(left);
            count += 1;
        }
        count.max(1)
    }

    /// Gives back the pages that end behind `until` in its payload, and those read out of turn. Gives the number of pages it keeps.
    pub(super) fn keep_until<I: Io>(
        &mut self,
        until: u64,
        buffers: &mut BufferPool,
        context: &mut PlaneContext<I>,
    ) -> u32 {
        let pages = self.give_back_from(until, buffers);
        self.tell_fetched(context);
        pages
    }

    /// The same, without a message.
    fn give_back_from(&mut self, until: u64, buffers: &mut BufferPool) -> u32 {
        self.give_back_ahead(buffers);
        let (mut cursor, end) = (self.send, self.fetch.payload);
        let (mut kept, mut pages) = (cursor, 0);
        while cursor.payload < end {
            let Some((key, _, left)) = cursor.next_content(self.segment_list()) else { break };
            cursor.pass(left);
            if cursor.payload <= until {
                (kept, pages) = (cursor, pages + 1);
            } else {
                buffers.give_back(key, self.is_best_effort());
            }
        }
        (self.fetch, self.target) = (kept, kept.payload);
        pages
    }

    /// Where in its payload a page begins, if it holds that.
    pub(super) fn holds_at(&self, page: PageKey) -> Option<u64> {
        self.content.as_ref().filter(|content| content.version == page.version)?;
        let mut cursor = self.send;
        while cursor.payload < self.fetch.payload {
            let (key, _, left) = cursor.next_content(self.segment_list())?;
            if key == page {
                return Some(cursor.payload);
            }
            cursor.pass(left);
        }
        let payload = (page.index * CACHE_PAGE_BYTES).checked_sub(self.range_start)?;
        let end = self.fetch.payload + AHEAD_BYTES_MAX;
        ((self.fetch.payload..end).contains(&payload) && self.ahead_pages.has(page.index)).then_some(payload)
    }

    /// A page that begins there in its payload cannot be read: it ends before that.
    pub(super) fn cut(&mut self, payload: u64) {
        (self.payload, self.is_cut) = (payload, true);
    }
}
