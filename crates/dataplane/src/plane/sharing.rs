//! Streams of one content that share its reads: a *group*. The one furthest ahead, the leader, reads; the others hold
//! what it read until they have sent it, and take no disk time.
//!
//! Promise: who plays on is served as if it read for itself: when the leader goes, the next one reads in its place with
//! its disk time; when the leader's client stalls, whoever overtakes it does. The pages between the last of a group and
//! its leader are charged to the leader's reservation. Who falls further behind than it was when it joined reads for
//! itself, out of the reserve that admission keeps for that, or goes on as best effort. Not here: who is admitted.

use schedule::admission::QUARTER_BYTES;
use schedule::admission::disk_table::Moment;
use units::Nanos;

use super::Plane;
use crate::cache::{QuarterKey, QuarterState};
use crate::control::{Delivery, Report, Service};
use crate::port::Io;
use crate::stream::{StreamClass, StreamLife, range_of};

/// A stream may fall so much further behind its leader before it has to read for itself.
const SLACK_BYTES: u64 = 4 * QUARTER_BYTES;

/// Whose reads a stream is to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharingGroup {
    leader: u32,
    /// Bytes from the new stream's first byte to the leader's next one to send.
    behind_bytes: u64,
}

impl<I: Io> Plane<I> {
    /// The group that a delivery can join: everything from its first byte to what the leader reads next is in the buffers or
    /// being read, and there is memory to keep it there. Its leader is charged for it.
    pub(super) fn group_for(&mut self, delivery: &Delivery) -> Option<SharingGroup> {
        self.config.sharing?;
        let Service::Constant { rate, burst_bytes, .. } = delivery.service else { return None };
        let range = range_of(delivery)?;
        let streams = &self.disks[usize::from(delivery.content.disk().0)].streams;
        let ahead = streams.iter().filter_map(|&slot| {
            let stream = &self.streams[slot as usize];
            let leads = stream.leader.is_none() && matches!(stream.life, StreamLife::Starting | StreamLife::Running);
            let StreamClass::Constant { reservation: Some(_), .. } = stream.class else { return None };
            let Service::Constant { rate: other, burst_bytes: others, .. } = stream.delivery().service else {
                return None;
            };
            let content = &stream.delivery().content;
            if !leads || other != rate || content.version != delivery.content.version || burst_bytes > others {
                return None;
            }
            let read = stream.range()?;
            let (next, sent) = (read.start + stream.fetch.payload, read.start + stream.send.payload);
            // Only from behind: whoever overtakes its leader by a burst would need what nobody has planned to read.
            let fits = sent >= range.start && read.end >= range.end && next < read.end;
            fits.then(|| (next, slot, sent - range.start + stream.behind_bytes))
        });
        let (next, leader, behind_bytes) = ahead.min()?;
        let version = delivery.content.version;
        let pages = range.start / QUARTER_BYTES..next.div_ceil(QUARTER_BYTES);
        let is_there = |index| {
            let page = self.cache.find(QuarterKey { version, index });
            page.is_some_and(|page| matches!(self.cache.state(page), QuarterState::Ready(_) | QuarterState::Reading))
        };
        let there = pages.into_iter().all(is_there);
        let group = SharingGroup { leader, behind_bytes };
        (there && self.charge(leader, Some(behind_bytes))).then_some(group)
    }

    /// Charges a leader for the pages its group holds, with one more that is so far behind; false if there are not so many.
    fn charge(&mut self, leader: u32, joins: Option<u64>) -> bool {
        let disk = usize::from(self.streams[leader as usize].disk.0);
        let followers = self.disks[disk].streams.iter().map(|&slot| &self.streams[slot as usize]);
        let behind = followers.filter(|stream| stream.leader == Some(leader)).map(|stream| stream.behind_bytes);
        let most = behind.chain(joins).max();
        let pages = most.map_or(0, |bytes| (bytes + SLACK_BYTES).div_ceil(QUARTER_BYTES) + 1);
        self.reservation_of(leader).is_some_and(|id| self.admission.hold_pages(id, pages))
    }

    /// A stream joins a group, and starts as soon as its first bytes are there and the leader runs.
    pub(super) fn begin_following(&mut self, slot: u32, group: SharingGroup, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        (stream.leader, stream.behind_bytes) = (Some(group.leader), group.behind_bytes);
        stream.life = StreamLife::Starting;
        if let StreamClass::Constant { next_round, .. } = &mut stream.class {
            *next_round = u64::MAX;
        }
        let (id, disk) = (stream.delivery().stream, usize::from(stream.disk.0));
        self.disks[disk].starting.push(slot);
        self.outbox.push(Report::Started { stream: id, reservation: self.reservation_of(slot) });
        self.take_behind_leader(slot);
        self.run_if_ready(slot, now);
    }

    /// Holds what the leader has read.
    pub(super) fn take_behind_leader(&mut self, slot: u32) {
        let Some((read, _)) = self.leader_at(slot) else { return };
        let stream = &mut self.streams[slot as usize];
        stream.target = stream.target.max(read.min(stream.payload));
        self.take_buffered(slot);
    }

    /// Up to where in this stream's payload its leader has asked for, and has sent.
    fn leader_at(&self, slot: u32) -> Option<(u64, u64)> {
        let stream = &self.streams[slot as usize];
        let leader = &self.streams[stream.leader? as usize];
        let (own, other) = (stream.range()?, leader.range()?);
        let from = |payload: u64| (other.start + payload).saturating_sub(own.start);
        Some((from(leader.fetch.payload), from(leader.send.payload)))
    }

    fn has_read_all(&self, slot: u32) -> bool {
        self.streams[slot as usize].fetch.payload >= self.streams[slot as usize].payload
    }

    /// A tick of a stream that shares another's reads.
    pub(super) fn follow(&mut self, slot: u32, now: Nanos) {
        self.take_behind_leader(slot);
        let (Some((read, sent)), Some(leader)) = (self.leader_at(slot), self.streams[slot as usize].leader) else {
            return;
        };
        let window = self.streams[leader as usize].ahead;
        let stream = &self.streams[slot as usize];
        let held = stream.fetch.payload - stream.send.payload;
        let is_lost = stream.fetch.payload < read.min(stream.payload);
        if is_lost || held > window.saturating_add(stream.behind_bytes + SLACK_BYTES) {
            self.read_alone(slot, now);
        } else if stream.send.payload > sent || (stream.fetch.payload < stream.payload && self.has_read_all(leader)) {
            self.hand_over_reads(leader, slot, now);
        }
    }

    /// The first stream that shares a leader's reads, in the order of what they send next, reads in its place.
    pub(super) fn leave_group(&mut self, slot: u32, now: Nanos) {
        if let Some(leader) = self.streams[slot as usize].leader.take() {
            self.charge(leader, None);
            return;
        }
        let disk = usize::from(self.streams[slot as usize].disk.0);
        let mut next: Option<(u64, u32)> = None;
        for nth in 0..self.disks[disk].streams.len() {
            let other = self.disks[disk].streams[nth];
            if self.streams[other as usize].leader != Some(slot) {
                continue;
            }
            self.take_behind_leader(other);
            let stream = &self.streams[other as usize];
            let at = stream.range().map_or(0, |range| range.start) + stream.send.payload;
            if next.is_none_or(|(furthest, _)| at > furthest) {
                next = Some((at, other));
            }
        }
        if let Some((_, other)) = next {
            self.hand_over_reads(slot, other, now);
            self.streams[slot as usize].leader = None;
        }
    }

    /// `to` reads for the group of `from` from now on, which shares its reads.
    fn hand_over_reads(&mut self, from: u32, to: u32, now: Nanos) {
        let (Some(giver), Some(taker)) = (self.reservation_of(from), self.reservation_of(to)) else { return };
        self.admission.hand_over(giver, taker);
        let disk = usize::from(self.streams[from as usize].disk.0);
        self.ask_nothing(from);
        let given = self.streams[from as usize].class;
        let ahead = self.streams[from as usize].ahead;
        // What one had asked its disk for and not got, the other asks for, and for more if its range goes further.
        let end =
            self.streams[from as usize].range().map_or(0, |range| range.start) + self.streams[from as usize].target;
        if let (
            StreamClass::Constant { first_round: a, period: b, next_round: c, gap: d, .. },
            StreamClass::Constant { first_round, period, next_round, gap, .. },
        ) = (given, &mut self.streams[to as usize].class)
        {
            (*first_round, *period, *next_round, *gap) = (a, b, c, d);
        }
        if let StreamClass::Constant { next_round, .. } = &mut self.streams[from as usize].class {
            *next_round = u64::MAX;
        }
        for nth in 0..self.disks[disk].streams.len() {
            let other = &mut self.streams[self.disks[disk].streams[nth] as usize];
            if other.leader == Some(from) {
                other.leader = Some(to);
            }
        }
        self.streams[from as usize].leader = Some(to);
        let stream = &mut self.streams[to as usize];
        let own = stream.range().map_or(0, |range| range.start);
        (stream.leader, stream.ahead) = (None, ahead);
        stream.target = end.saturating_sub(own).min(stream.payload).max(stream.target);
        let behind = stream.behind_bytes;
        self.charge(to, Some(behind));
        let round = self.disks[disk].rounds.index_at(now);
        self.read_ahead(to, round, now);
    }

    /// A stream that fell behind its group reads for itself from now on, if the disk has time for it; else what is left over
    /// has to do.
    fn read_alone(&mut self, slot: u32, now: Nanos) {
        let stream = &self.streams[slot as usize];
        let disk = usize::from(stream.disk.0);
        let (Service::Constant { rate, burst_bytes, .. }, Some(id)) =
            (stream.delivery().service, self.reservation_of(slot))
        else {
            return;
        };
        let request = self.request(stream.delivery(), stream.disk, rate, burst_bytes);
        let round = self.disks[disk].rounds.index_at(now);
        let queued_seconds = self.disks[disk].schedule.queued_seconds(now);
        let moment = Moment { queued_seconds, payload_bytes: stream.payload, ..Moment::idle(round) };
        let placed = match self.admission.unshare(id, &request) {
            Ok(()) => self.admission.place(id, &moment),
            Err(_) => None,
        };
        let Some(first) = placed else {
            return self.give_up_reservation(slot, now);
        };
        self.leave_group(slot, now);
        let granted = self.admission.period(id).expect("it is held");
        let stream = &mut self.streams[slot as usize];
        stream.behind_bytes = 0;
        if let StreamClass::Constant { first_round, period, next_round, gap, .. } = &mut stream.class {
            (*first_round, *period, *next_round, *gap) = (first, granted, round, 0);
        }
        let until = self.streams[slot as usize].send.payload + self.window(slot);
        self.keep_until(slot, until);
        self.read_ahead(slot, round, now);
    }
}
