//! Streams of one content that share its reads: a *group*. The leader, furthest ahead, reads; the others hold
//! the bytes it read until they have sent them, and take no disk time.
//!
//! Promise: a stream of a viewer that keeps playing is served as if it read for itself: when the leader ends, the next
//! stream reads in its place, with its disk time; when the leader's client stalls, the stream that overtakes it reads.
//! The pages between the last of a group and its leader are charged to the leader's reservation. A stream that falls
//! further behind than it was when it joined reads for itself, with disk time of the reserve that admission keeps for
//! that, or continues as best effort. Not here: admission.

use units::limits;

use super::*;

impl Fetcher {
    /// Tells the admitter of the group that a delivery can join. The admitter knows whether memory has room for
    /// the group's pages, which the leader is charged for.
    pub(super) fn find_group<I: Io>(&mut self, delivery: Box<Delivery>, context: &mut PlaneContext<I>) {
        let has_room = self.buffers.has_room_for_files(delivery.content.layout.files().len());
        let shares = context.config.sharing.is_some();
        let group = shares.then(|| self.streams.group_for(&delivery, &self.sources, &self.buffers)).flatten();
        let segments = SegmentList::of(&delivery);
        let is_block = (1..=limits::BLOCK_BYTES_MAX).contains(&segments.payload());
        let is_buffered = shares && is_block && self.buffers.has_all(Cursor::default(), segments);
        context.tell_admitter(ToAdmitter::Found { delivery, group, is_buffered, has_room });
    }

    /// A stream joins a group, and starts as soon as its first bytes are in the buffers and the leader runs.
    pub(super) fn begin_following<I: Io>(&mut self, slot: u32, group: SharingGroup, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot];
        stream.follow(group.leader, group.behind_bytes);
        stream.start();
        context.tell_admitter(ToAdmitter::Started { slot });
        self.streams.take_behind_leader(slot, &mut self.buffers, context);
        self.run_if_ready(slot, context);
    }

    /// [`Self::read_on`] of a stream that shares another's reads.
    pub(super) fn follow<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        self.streams.take_behind_leader(slot, &mut self.buffers, context);
        let stream = &self.streams[slot];
        let (Some((read, sent)), Some(leader)) = (self.streams.leader_at(slot), stream.leader()) else { return };
        let leads = &self.streams[leader];
        if stream.fell_behind(read, leads.ahead()) {
            let conditions = stream.start_conditions(&self.sources, context);
            context.tell_admitter(ToAdmitter::NeedsOwn { slot, conditions });
        } else if stream.sent() > sent || (!stream.has_all() && leads.has_all()) {
            self.hand_over_reads(leader, slot, context);
        }
    }

    /// The first stream that shares a leader's reads, in the order of their next bytes, reads in its place.
    pub(super) fn leave_group<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        if let Some(leader) = self.streams[slot].stop_following() {
            return self.streams.charge(leader, None, &self.sources, context);
        }
        let disk = self.streams[slot].disk();
        let mut next: Option<(u64, u32)> = None;
        for nth in 0..self.sources[disk].streams.len() {
            let other = self.sources[disk].streams[nth];
            if self.streams[other].leader() != Some(slot) {
                continue;
            }
            self.streams.take_behind_leader(other, &mut self.buffers, context);
            let stream = &mut self.streams[other];
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
            self.streams[slot].stop_following();
        }
    }

    /// `to` reads for the group of `from` from now on, which shares its reads.
    fn hand_over_reads<I: Io>(&mut self, from: u32, to: u32, context: &mut PlaneContext<I>) {
        context.tell_admitter(ToAdmitter::HandOver { from, to });
        self.streams[from].ask_nothing(&mut self.sources);
        let given = self.streams[from].hand_over(to);
        let disk = self.streams[from].disk();
        for &other in &self.sources[disk].streams {
            let other = &mut self.streams[other];
            if other.leader() == Some(from) {
                other.follow_next(to);
            }
        }
        let stream = &mut self.streams[to];
        stream.take_over(given);
        let behind = stream.behind_bytes();
        self.streams.charge(to, Some(behind), &self.sources, context);
        let round = self.sources[disk].rounds().index_at(context.now);
        self.streams[to].read_ahead(round, (&mut self.sources, &mut self.buffers), context);
    }

    /// A stream that fell behind its group has disk time of its own.
    pub(super) fn read_alone<I: Io>(
        &mut self,
        slot: u32,
        period: u32,
        start: PlacedStart,
        context: &mut PlaneContext<I>,
    ) {
        if !self.streams[slot].is_active() {
            return;
        }
        // If its leader has left meanwhile, it may read for the group already: then it continues with that.
        if self.streams[slot].leader().is_some() {
            self.leave_group(slot, context);
        }
        let stream = &mut self.streams[slot];
        stream.read_alone(period);
        stream.plan_from(start);
        let until = stream.sent() + stream.window(&self.sources[stream.disk()]);
        self.streams[slot].keep_until(until, &mut self.buffers, context);
        self.streams[slot].read_ahead(start.round, (&mut self.sources, &mut self.buffers), context);
    }
}
