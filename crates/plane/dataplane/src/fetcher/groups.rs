//! Streams of one content that share its reads: a *group*. The one furthest ahead, the leader, reads; the others hold
//! the bytes it read until they have sent them, and take no disk time.
//!
//! Promise: a stream of a viewer that keeps playing is served as if it read for itself: when the leader ends, the next
//! stream reads in its place, with its disk time; when the leader's client stalls, the stream that overtakes it does.
//! The pages between the last of a group and its leader are charged to the leader's reservation. A stream that falls
//! further behind than it was when it joined reads for itself, with disk time of the reserve that admission keeps for
//! that, or continues as best effort. Not here: admission.

use units::limits;

use super::read_ahead::FOLLOW_LAG_BYTES;
use super::*;
use crate::cache::PageState;
use crate::control::Service;

impl Fetcher {
    /// The group that a delivery can join: everything from its first byte to the leader's next read is in the buffers or
    /// being read. Whether there is memory to keep it there, for which the leader is charged, the admitter knows.
    pub(super) fn find_group<I: Io>(&mut self, delivery: Box<Delivery>, context: &mut PlaneContext<I>) {
        let has_room = self.buffers.has_room_for_files(delivery.content.layout.files().len());
        let group = context.config.sharing.and_then(|_| self.group_for(&delivery));
        let is_buffered = context.config.sharing.is_some() && self.is_buffered(&delivery);
        context.tell_admitter(ToAdmitter::Found { delivery, group, is_buffered, has_room });
    }

    /// Whether all of a delivery, if it is no longer than a block, lies in the buffers.
    fn is_buffered(&self, delivery: &Delivery) -> bool {
        let segments = SegmentList::of(delivery);
        let mut cursor = Cursor::default();
        while let Some((key, _, left)) =
            cursor.next_content(segments).filter(|_| segments.payload() <= limits::BLOCK_BYTES_MAX)
        {
            cursor.pass(left);
            if !self.buffers.is_ready(key) {
                return false;
            }
        }
        cursor.payload > 0
    }

    fn group_for(&self, delivery: &Delivery) -> Option<SharingGroup> {
        let Service::Constant { rate, .. } = delivery.service else { return None };
        let range = SegmentList::of(delivery).range()?;
        let version = delivery.content.version;
        let ahead = self.sources[self.sources.home(&delivery.content.layout)?].streams.iter().filter_map(|&slot| {
            let stream = &self.streams[slot as usize];
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
            let state = self.buffers.state(PageKey { version, index });
            matches!(state, Some(PageState::Ready(_) | PageState::Reading))
        };
        let pages_held = self.pages_held(leader, Some(behind_bytes));
        pages.all(is_there).then_some(SharingGroup { leader, behind_bytes, pages: pages_held, burst_bytes })
    }

    /// Pages that a leader's group holds, with one more that is so far behind.
    fn pages_held(&self, leader: u32, joins: Option<u64>) -> u64 {
        let streams = &self.sources[self.streams[leader as usize].disk()].streams;
        let followers = streams.iter().map(|&slot| &self.streams[slot as usize]);
        let behind = followers.filter(|stream| stream.leader() == Some(leader)).map(ReadAhead::behind_bytes);
        behind.chain(joins).max().map_or(0, |bytes| (bytes + FOLLOW_LAG_BYTES).div_ceil(CACHE_PAGE_BYTES) + 1)
    }

    fn charge<I: Io>(&self, leader: u32, joins: Option<u64>, context: &mut PlaneContext<I>) {
        context.tell_admitter(ToAdmitter::Charge { leader, pages: self.pages_held(leader, joins) });
    }

    /// A stream joins a group, and starts as soon as its first bytes are there and the leader runs.
    pub(super) fn begin_following<I: Io>(&mut self, slot: u32, group: SharingGroup, context: &mut PlaneContext<I>) {
        self.streams[slot as usize].follow(group.leader, group.behind_bytes);
        self.list_as_starting(slot);
        context.tell_admitter(ToAdmitter::Started { slot });
        self.take_behind_leader(slot, context);
        self.run_if_ready(slot, context);
    }

    /// Holds the pages that the leader has read.
    pub(super) fn take_behind_leader<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let Some((read, _)) = self.leader_at(slot) else { return };
        self.streams[slot as usize].want(read);
        self.take_buffered(slot, context);
    }

    /// Up to where in this stream's payload its leader has asked for, and has sent.
    fn leader_at(&self, slot: u32) -> Option<(u64, u64)> {
        let stream = &self.streams[slot as usize];
        let leader = &self.streams[stream.leader()? as usize];
        Some((stream.in_payload(leader.fetched_in_content()), stream.in_payload(leader.sent_in_content())))
    }

    /// [`Self::read_on`] of a stream that shares another's reads.
    pub(super) fn follow<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        self.take_behind_leader(slot, context);
        let stream = &self.streams[slot as usize];
        let (Some((read, sent)), Some(leader)) = (self.leader_at(slot), stream.leader()) else { return };
        let leads = &self.streams[leader as usize];
        if stream.fell_behind(read, leads.ahead()) {
            let conditions = stream.start_conditions(&self.sources[stream.disk()], context.config.tick, context.now);
            context.tell_admitter(ToAdmitter::NeedsOwn { slot, conditions });
        } else if stream.sent() > sent || (!stream.has_all() && leads.has_all()) {
            self.hand_over_reads(leader, slot, context);
        }
    }

    /// The first stream that shares a leader's reads, in the order of their next bytes, reads in its place.
    pub(super) fn leave_group<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        if let Some(leader) = self.streams[slot as usize].stop_following() {
            return self.charge(leader, None, context);
        }
        let disk = self.streams[slot as usize].disk();
        let mut next: Option<(u64, u32)> = None;
        for nth in 0..self.sources[disk].streams.len() {
            let other = self.sources[disk].streams[nth];
            if self.streams[other as usize].leader() != Some(slot) {
                continue;
            }
            self.take_behind_leader(other, context);
            let stream = &mut self.streams[other as usize];
            if stream.is_whole() && stream.has_all() {
                // It holds all that it will send, in pages of its own reservation.
                stream.stop_following();
                continue;
            }
            let at = stream.sent_in_content();
            if next.is_none_or(|(furthest, _)| at > furthest) {
                next = Some((at, other));
            }
        }
        if let Some((_, other)) = next {
            self.hand_over_reads(slot, other, context);
            self.streams[slot as usize].stop_following();
        }
    }

    /// `to` reads for the group of `from` from now on, which shares its reads.
    fn hand_over_reads<I: Io>(&mut self, from: u32, to: u32, context: &mut PlaneContext<I>) {
        context.tell_admitter(ToAdmitter::HandOver { from, to });
        self.ask_nothing(from);
        let given = self.streams[from as usize].hand_over(to);
        let disk = self.streams[from as usize].disk();
        for &other in &self.sources[disk].streams {
            let other = &mut self.streams[other as usize];
            if other.leader() == Some(from) {
                other.follow_next(to);
            }
        }
        let stream = &mut self.streams[to as usize];
        stream.take_over(given);
        let behind = stream.behind_bytes();
        self.charge(to, Some(behind), context);
        let round = self.sources[disk].rounds().index_at(context.now);
        self.read_ahead(to, round, context);
    }

    /// A stream that fell behind its group has disk time of its own.
    pub(super) fn read_alone<I: Io>(
        &mut self,
        slot: u32,
        period: u32,
        start: PlacedStart,
        context: &mut PlaneContext<I>,
    ) {
        if !self.streams[slot as usize].is_active() {
            return;
        }
        // If its leader has left meanwhile, it may read for the group already: then it continues with that.
        if self.streams[slot as usize].leader().is_some() {
            self.leave_group(slot, context);
        }
        let stream = &mut self.streams[slot as usize];
        stream.read_alone(period);
        stream.plan_from(start);
        let until = stream.sent() + stream.window(&self.sources[stream.disk()]);
        self.keep_until(slot, until, context);
        self.read_ahead(slot, start.round, context);
    }
}
