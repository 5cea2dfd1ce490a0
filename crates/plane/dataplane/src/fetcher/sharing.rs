//! Streams of one content that share its reads: a *group*. The one furthest ahead, the leader, reads; the others hold
//! the bytes it read until they have sent them, and take no disk time.
//!
//! Promise: a stream of a viewer that keeps playing is served as if it read for itself: when the leader ends, the next
//! stream reads in its place, with its disk time; when the leader's client stalls, the stream that overtakes it does.
//! The pages between the last of a group and its leader are charged to the leader's reservation. A stream that falls
//! further behind than it was when it joined reads for itself, with disk time of the reserve that admission keeps for
//! that, or continues as best effort. Not here: admission.

use units::limits;

use super::*;
use crate::cache::PageState;
use crate::control::Service;

/// A stream may fall this many bytes further behind its leader before it has to read for itself. Chosen: one chunk
/// (decision 0020).
const FOLLOW_LAG_BYTES: u64 = 4 * CACHE_PAGE_BYTES;

impl Fetcher {
    /// The group that a delivery can join: everything from its first byte to the leader's next read is in the buffers or
    /// being read. Whether there is memory to keep it there, for which the leader is charged, the admitter knows.
    pub(super) fn find_group<I: Io>(&mut self, delivery: Box<Delivery>, context: &mut PlaneContext<I>) {
        let has_room = self.files.has_room(delivery.content.layout.files().len());
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
            let page = self.cache.find(key).map(|page| self.cache.state(page));
            if !matches!(page, Some(PageState::Ready(_))) {
                return false;
            }
        }
        cursor.payload > 0
    }

    fn group_for(&self, delivery: &Delivery) -> Option<SharingGroup> {
        let Service::Constant { rate, .. } = delivery.service else { return None };
        let range = SegmentList::of(delivery).range()?;
        let version = delivery.content.version;
        let ahead = self.disk(self.home(&delivery.content.layout)?).streams.iter().filter_map(|&slot| {
            let stream = &self.streams[slot as usize];
            let other = stream.plan?.rate;
            let leads = stream.leader.is_none() && stream.is_active() && stream.content().version == version;
            if !leads || other.rate != rate {
                return None;
            }
            let read = stream.segment_list().range()?;
            let (next, sent) = (read.start + stream.fetch.payload, read.start + stream.send.payload);
            let fits = sent >= range.start && read.end >= range.end && next < read.end;
            // Only from behind: a stream that overtook its leader by a burst would need pages that no stream has
            // planned to read.
            let behind_bytes = sent.checked_sub(range.start).filter(|_| fits)?;
            Some((next, slot, behind_bytes + stream.behind_bytes, other.burst_bytes.max(behind_bytes)))
        });
        let (next, leader, behind_bytes, burst_bytes) = ahead.min()?;
        let mut pages = range.start / CACHE_PAGE_BYTES..next.div_ceil(CACHE_PAGE_BYTES);
        let is_there = |index| {
            let page = self.cache.find(PageKey { version, index });
            page.is_some_and(|page| matches!(self.cache.state(page), PageState::Ready(_) | PageState::Reading))
        };
        let pages_held = self.pages_held(leader, Some(behind_bytes));
        pages.all(is_there).then_some(SharingGroup { leader, behind_bytes, pages: pages_held, burst_bytes })
    }

    /// Pages that a leader's group holds, with one more that is so far behind.
    fn pages_held(&self, leader: u32, joins: Option<u64>) -> u64 {
        let streams = &self.disk(self.streams[leader as usize].disk).streams;
        let followers = streams.iter().map(|&slot| &self.streams[slot as usize]);
        let behind = followers.filter(|stream| stream.leader == Some(leader)).map(|stream| stream.behind_bytes);
        behind.chain(joins).max().map_or(0, |bytes| (bytes + FOLLOW_LAG_BYTES).div_ceil(CACHE_PAGE_BYTES) + 1)
    }

    fn charge<I: Io>(&self, leader: u32, joins: Option<u64>, context: &mut PlaneContext<I>) {
        context.tell_admitter(ToAdmitter::Charge { leader, pages: self.pages_held(leader, joins) });
    }

    /// A stream joins a group, and starts as soon as its first bytes are there and the leader runs.
    pub(super) fn begin_following<I: Io>(&mut self, slot: u32, group: SharingGroup, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot as usize];
        (stream.leader, stream.behind_bytes) = (Some(group.leader), group.behind_bytes);
        self.reads_nothing(slot);
        self.list_as_starting(slot);
        context.tell_admitter(ToAdmitter::Started { slot });
        self.take_behind_leader(slot, context);
        self.run_if_ready(slot, context);
    }

    /// Holds the pages that the leader has read.
    pub(super) fn take_behind_leader<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let Some((read, _)) = self.leader_at(slot) else { return };
        let stream = &mut self.streams[slot as usize];
        stream.target = stream.target.max(read.min(stream.payload));
        self.take_buffered(slot, context);
    }

    /// Up to where in this stream's payload its leader has asked for, and has sent.
    fn leader_at(&self, slot: u32) -> Option<(u64, u64)> {
        let stream = &self.streams[slot as usize];
        let leader = &self.streams[stream.leader? as usize];
        let from = |payload: u64| (leader.range_start + payload).saturating_sub(stream.range_start);
        Some((from(leader.fetch.payload), from(leader.send.payload)))
    }

    /// [`Self::read_on`] of a stream that shares another's reads.
    pub(super) fn follow<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        self.take_behind_leader(slot, context);
        let (Some((read, sent)), Some(leader)) = (self.leader_at(slot), self.streams[slot as usize].leader) else {
            return;
        };
        let leads = &self.streams[leader as usize];
        let (window, leader_has_all) = (leads.ahead, leads.fetch.payload >= leads.payload);
        let stream = &self.streams[slot as usize];
        let held = stream.fetch.payload - stream.send.payload;
        let is_lost = stream.fetch.payload < read.min(stream.payload);
        if is_lost || held > window.saturating_add(stream.behind_bytes + FOLLOW_LAG_BYTES) {
            let conditions = self.start_conditions(slot, context.now);
            context.tell_admitter(ToAdmitter::NeedsOwn { slot, conditions });
        } else if stream.send.payload > sent || (stream.fetch.payload < stream.payload && leader_has_all) {
            self.hand_over_reads(leader, slot, context);
        }
    }

    /// The first stream that shares a leader's reads, in the order of their next bytes, reads in its place.
    pub(super) fn leave_group<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        if let Some(leader) = self.streams[slot as usize].leader.take() {
            return self.charge(leader, None, context);
        }
        let disk = usize::from(self.streams[slot as usize].disk.0);
        let mut next: Option<(u64, u32)> = None;
        for nth in 0..self.disks[disk].streams.len() {
            let other = self.disks[disk].streams[nth];
            if self.streams[other as usize].leader != Some(slot) {
                continue;
            }
            self.take_behind_leader(other, context);
            let stream = &mut self.streams[other as usize];
            if stream.is_whole() && stream.fetch.payload >= stream.payload {
                // It holds all that it will send, in pages of its own reservation.
                stream.leader = None;
                continue;
            }
            let at = stream.range_start + stream.send.payload;
            if next.is_none_or(|(furthest, _)| at > furthest) {
                next = Some((at, other));
            }
        }
        if let Some((_, other)) = next {
            self.hand_over_reads(slot, other, context);
            self.streams[slot as usize].leader = None;
        }
    }

    /// `to` reads for the group of `from` from now on, which shares its reads.
    fn hand_over_reads<I: Io>(&mut self, from: u32, to: u32, context: &mut PlaneContext<I>) {
        context.tell_admitter(ToAdmitter::HandOver { from, to });
        self.ask_nothing(from);
        let giver = &self.streams[from as usize];
        // The new leader asks for the bytes that the old one had requested and not got, and for more if its own range
        // goes further.
        let (end, ahead, given, disk) = (giver.range_start + giver.target, giver.ahead, giver.plan, giver.disk);
        self.reads_nothing(from);
        for nth in 0..self.disk(disk).streams.len() {
            let other = self.disk(disk).streams[nth];
            if self.streams[other as usize].leader == Some(from) {
                self.streams[other as usize].leader = Some(to);
            }
        }
        self.streams[from as usize].leader = Some(to);
        let stream = &mut self.streams[to as usize];
        if let (Some(given), Some(plan)) = (given, &mut stream.plan) {
            let rate = ReadRate { period: given.rate.period, ..plan.rate };
            *plan = ReadPlan { rate, age: plan.age, ..given };
        }
        let own = stream.range_start;
        (stream.leader, stream.ahead) = (None, ahead);
        stream.target = end.saturating_sub(own).min(stream.payload).max(stream.target);
        let behind = stream.behind_bytes;
        self.charge(to, Some(behind), context);
        let round = self.disk(disk).rounds.index_at(context.now);
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
        if self.streams[slot as usize].leader.is_some() {
            self.leave_group(slot, context);
        }
        let stream = &mut self.streams[slot as usize];
        stream.behind_bytes = 0;
        if let Some(plan) = &mut stream.plan {
            plan.rate.period = period;
        }
        self.plan_from(slot, start);
        let until = self.streams[slot as usize].send.payload + self.window(slot);
        self.keep_until(slot, until, context);
        self.read_ahead(slot, start.round, context);
    }
}
