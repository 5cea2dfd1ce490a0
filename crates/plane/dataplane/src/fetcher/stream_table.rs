//! The read-aheads of all streams, by their slots, and the questions that several of them answer: groups and their leaders, the streams that
//! hold a page, the youngest stream of a disk.
//!
//! Not here: one stream's own bytes (`read_ahead`), its requests to disks (`source`), the change of a group's leader (`groups`).

use std::ops::{Index, IndexMut};

use schedule::pace::Stride;
use units::limits::CACHE_PAGE_BYTES;
use units::{DiskId, Nanos};

use super::buffer_pool::BufferPool;
use super::read_ahead::{FOLLOW_LAG_BYTES, ReadAhead, ReadPlan, ReadsLife};
use super::source::Sources;
use crate::cache::{Page, PageKey, PageState};
use crate::context::PlaneContext;
use crate::control::{Delivery, Outcome, Service};
use crate::cursor::SegmentList;
use crate::message::{ReadRate, SharingGroup, ToAdmitter, ToPacer};
use crate::port::Io;

/// Ticks by which the buffered bytes of a start outlast the promise of the next read. Follows: a read is reported in one tick and sent in
/// the next.
const MARGIN_TICKS: u64 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct StreamTable(Vec<ReadAhead>);

impl StreamTable {
    pub(super) fn new(streams_max: usize) -> Self {
        let slots = 0..u32::try_from(streams_max).expect("within limits");
        Self(slots.map(ReadAhead::of_slot).collect())
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.0.len()).expect("within limits")
    }

    /// The streams of a list of slots.
    fn of<'a>(&'a self, listed: &'a [u32]) -> impl Iterator<Item = &'a ReadAhead> {
        listed.iter().map(|&slot| &self[slot])
    }

    /// True if the streams that this one waits for run.
    pub(super) fn leader_runs(&self, slot: u32) -> bool {
        self[slot].leader().is_none_or(|leader| self[leader].life() == ReadsLife::Running)
    }

    /// True if the rest of a stream, the first bytes of which are buffered, can be there in time. The buffered bytes may last shorter than the
    /// work that its disk has to do first, a grant or promised reads: then the stream's clock must not run yet.
    pub(super) fn can_keep_pace(&self, slot: u32, sources: &Sources, tick: Nanos, now: Nanos) -> bool {
        let stream = &self[slot];
        let Some(ReadPlan { rate: ReadRate { rate, .. }, .. }) = stream.plan() else { return false };
        let step = Stride::of(rate, tick).span(tick);
        let there = stream.fetched() - stream.sent();
        let lasts = rate.time_for(there + 1).saturating_sub(step.saturating_mul(MARGIN_TICKS));
        let (reader, disk) = self.next_reader(slot, sources);
        sources[disk].schedule.can_promise(reader, now.saturating_add(lasts), now)
    }

    /// Sets the deadline of a stream's next bytes by its clock, which runs.
    pub(super) fn promise_next(&self, slot: u32, sources: &mut Sources) {
        let (reader, disk) = self.next_reader(slot, sources);
        if let Some(deadline) = self[slot].promised_at() {
            sources[disk].schedule.promise(reader, deadline);
        }
    }

    /// Holds the pages that the leader of a stream has read.
    pub(super) fn take_behind_leader<I: Io>(
        &mut self,
        slot: u32,
        buffers: &mut BufferPool,
        context: &mut PlaneContext<I>,
    ) {
        let Some((read, _)) = self.leader_at(slot) else { return };
        self[slot].want(read);
        self[slot].take_buffered(buffers, context);
    }

    /// A page cannot be read: the streams that wait for it send the bytes before it and end with `outcome`; a stream
    /// that wants it from now on reads it anew.
    pub(super) fn lose_page<I: Io>(
        &mut self,
        page: Page,
        key: PageKey,
        outcome: Outcome,
        (sources, buffers): (&mut Sources, &mut BufferPool),
        context: &mut PlaneContext<I>,
    ) {
        // No stream holds a superseded page, and the cache may find another one in its place.
        let holders = if buffers.cache().find(key) == Some(page) { self.0.as_mut_slice() } else { &mut [] };
        for stream in holders {
            let Some(payload) = stream.holds_at(key) else { continue };
            stream.ask_nothing(sources);
            stream.keep_until(payload, buffers, context);
            stream.cut(payload);
            context.tell_pacer(ToPacer::Cut { slot: stream.slot(), payload, outcome });
        }
        buffers.read_failed(page);
    }

    /// Ends of its leader's requested and sent bytes, as places in this stream's payload.
    pub(super) fn leader_at(&self, slot: u32) -> Option<(u64, u64)> {
        let stream = &self[slot];
        let leader = &self[stream.leader()?];
        Some((stream.in_payload(leader.fetched_in_content()), stream.in_payload(leader.sent_in_content())))
    }

    /// The stream that reads for this one, and the disk of its next read.
    fn next_reader(&self, slot: u32, sources: &Sources) -> (u32, DiskId) {
        let reader = self[slot].leader().unwrap_or(slot);
        let next = self[reader].next_piece(sources);
        (reader, next.map_or(self[slot].disk(), |next| next.disk))
    }

    /// The group that a delivery can join: everything from its first byte to the leader's next read is in the buffers or being read.
    pub(super) fn group_for(
        &self,
        delivery: &Delivery,
        sources: &Sources,
        buffers: &BufferPool,
    ) -> Option<SharingGroup> {
        let Service::Constant { rate, .. } = delivery.service else { return None };
        let range = SegmentList::of(delivery).range()?;
        let version = delivery.content.version;
        let listed = &sources[sources.home(&delivery.content.layout)?].streams;
        let ahead = self.of(listed).filter_map(|stream| {
            let other = stream.plan()?.rate;
            let leads = stream.leader().is_none() && stream.is_active() && stream.content().version == version;
            if !leads || other.rate != rate {
                return None;
            }
            let read = stream.segment_list().range()?;
            let (next, sent) = (stream.fetched_in_content(), stream.sent_in_content());
            let fits = sent >= range.start && read.end >= range.end && next < read.end;
            // Only from behind: a stream that overtook its leader by a burst would need pages that no stream has
            // planned to read.
            let behind_bytes = sent.checked_sub(range.start).filter(|_| fits)?;
            Some((next, stream.slot(), behind_bytes + stream.behind_bytes(), other.burst_bytes.max(behind_bytes)))
        });
        let (next, leader, behind_bytes, burst_bytes) = ahead.min()?;
        let mut pages = range.start / CACHE_PAGE_BYTES..next.div_ceil(CACHE_PAGE_BYTES);
        let is_there = |index| {
            let state = buffers.state(PageKey { version, index });
            matches!(state, Some(PageState::Ready(_) | PageState::Reading))
        };
        let pages_held = self.pages_held(leader, Some(behind_bytes), listed);
        pages.all(is_there).then_some(SharingGroup { leader, behind_bytes, pages: pages_held, burst_bytes })
    }

    /// Pages that a leader's group, of the streams listed at its disk, holds, with one more that is so far behind.
    fn pages_held(&self, leader: u32, joins: Option<u64>, listed: &[u32]) -> u64 {
        let followers = self.of(listed).filter(|stream| stream.leader() == Some(leader));
        let behind = followers.map(ReadAhead::behind_bytes);
        behind.chain(joins).max().map_or(0, |bytes| (bytes + FOLLOW_LAG_BYTES).div_ceil(CACHE_PAGE_BYTES) + 1)
    }

    /// Has a leader charged for the pages that its group holds, with one stream more that is so far behind.
    pub(super) fn charge<I: Io>(
        &self,
        leader: u32,
        joins: Option<u64>,
        sources: &Sources,
        context: &mut PlaneContext<I>,
    ) {
        let pages = self.pages_held(leader, joins, &sources[self[leader].disk()].streams);
        context.tell_admitter(ToAdmitter::Charge { leader, pages });
    }

    /// The stream to end first of those listed at a disk that it still has to read for: the one admitted last, if possible of those
    /// that share their reads with no other stream. A recording does not count as a stream here, and its unwritten
    /// bytes would be lost.
    pub(super) fn youngest_reader(&self, listed: &[u32]) -> Option<u32> {
        let readers = self.of(listed).filter_map(|stream| {
            let reads = stream.is_active() && stream.leader().is_none() && !stream.has_all();
            let plan = stream.plan().filter(|_| reads)?;
            let company = self.of(listed).any(|other| other.leader() == Some(stream.slot()));
            Some((!company, plan.age, stream.slot()))
        });
        readers.max().map(|(.., slot)| slot)
    }

    /// True if a stream waits for bytes that this disk and another, good one have.
    pub(super) fn another_could_read(&self, disk: DiskId, sources: &Sources) -> bool {
        self.0.iter().filter(|stream| stream.reads() && stream.has_copies()).any(|stream| {
            let disks = stream.content().layout.disks();
            disks.contains(&disk) && disks.iter().any(|&other| other != disk && sources[other].health.is_good())
        })
    }
}

impl Index<u32> for StreamTable {
    type Output = ReadAhead;

    fn index(&self, slot: u32) -> &ReadAhead {
        &self.0[slot as usize]
    }
}

impl IndexMut<u32> for StreamTable {
    fn index_mut(&mut self, slot: u32) -> &mut ReadAhead {
        &mut self.0[slot as usize]
    }
}
