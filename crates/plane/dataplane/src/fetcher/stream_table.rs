//! The read-aheads of all streams, by their slots, and the questions that several of them answer: groups and their leaders, and the
//! youngest stream of a disk.
//!
//! Promise: nothing here changes a stream. Not here: the requests to disks (`source`), the reads of a group's leader (`groups`).

use std::ops::{Index, IndexMut};

use units::DiskId;
use units::limits::CACHE_PAGE_BYTES;

use super::buffer_pool::BufferPool;
use super::read_ahead::{FOLLOW_LAG_BYTES, ReadAhead, ReadsLife};
use super::source::Sources;
use crate::cache::{PageKey, PageState};
use crate::control::{Delivery, Service};
use crate::cursor::SegmentList;
use crate::message::SharingGroup;

/// See the module.
#[derive(Debug)]
pub(super) struct StreamTable(Vec<ReadAhead>);

impl StreamTable {
    pub(super) fn new(streams_max: usize) -> Self {
        Self((0..streams_max).map(|_| ReadAhead::default()).collect())
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.0.len()).expect("within limits")
    }

    /// The streams of a list of slots, with these.
    fn of<'a>(&'a self, listed: &'a [u32]) -> impl Iterator<Item = (u32, &'a ReadAhead)> {
        listed.iter().map(|&slot| (slot, &self[slot]))
    }

    /// True if the streams that this one waits for run.
    pub(super) fn leader_runs(&self, slot: u32) -> bool {
        self[slot].leader().is_none_or(|leader| self[leader].life() == ReadsLife::Running)
    }

    /// Up to where in this stream's payload its leader has asked for, and has sent.
    pub(super) fn leader_at(&self, slot: u32) -> Option<(u64, u64)> {
        let stream = &self[slot];
        let leader = &self[stream.leader()?];
        Some((stream.in_payload(leader.fetched_in_content()), stream.in_payload(leader.sent_in_content())))
    }

    /// The stream that reads for this one, and the disk of its next read.
    pub(super) fn next_reader(&self, slot: u32, sources: &Sources) -> (u32, DiskId) {
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
        let ahead = self.of(listed).filter_map(|(slot, stream)| {
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
            Some((next, slot, behind_bytes + stream.behind_bytes(), other.burst_bytes.max(behind_bytes)))
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
    pub(super) fn pages_held(&self, leader: u32, joins: Option<u64>, listed: &[u32]) -> u64 {
        let followers = self.of(listed).filter(|(_, stream)| stream.leader() == Some(leader));
        let behind = followers.map(|(_, stream)| stream.behind_bytes());
        behind.chain(joins).max().map_or(0, |bytes| (bytes + FOLLOW_LAG_BYTES).div_ceil(CACHE_PAGE_BYTES) + 1)
    }

    /// The stream to end first of those listed at a disk that it still has to read for: the one admitted last, if possible of those
    /// that share their reads with no other stream. A recording does not count as a stream here, and its unwritten
    /// bytes would be lost.
    pub(super) fn youngest_reader(&self, listed: &[u32]) -> Option<u32> {
        let readers = self.of(listed).filter_map(|(slot, stream)| {
            let reads = stream.is_active() && stream.leader().is_none() && !stream.has_all();
            let plan = stream.plan().filter(|_| reads)?;
            let company = self.of(listed).any(|(_, other)| other.leader() == Some(slot));
            Some((!company, plan.age, slot))
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
