//! Read-ahead of a stream that shares its reads with others of its content: it follows its group's leader, or leads.
//!
//! Not here: the choice of a group, and its charge (`groups`).

use super::*;

/// A stream may fall this many bytes further behind its leader before it has to read for itself. Chosen: one chunk
/// (decision 0020).
pub(in super::super) const FOLLOW_LAG_BYTES: u64 = 4 * CACHE_PAGE_BYTES;

impl ReadAhead {
    pub(in super::super) const fn leader(&self) -> Option<u32> {
        self.leader
    }

    pub(in super::super) const fn behind_bytes(&self) -> u64 {
        self.behind_bytes
    }

    /// End of its sent bytes, counted from the content's first byte.
    pub(in super::super) const fn sent_in_content(&self) -> u64 {
        self.range_start + self.send.payload
    }

    /// End of its requested bytes, counted alike.
    pub(in super::super) const fn fetched_in_content(&self) -> u64 {
        self.range_start + self.fetch.payload
    }

    /// A place in its content, as a place in its payload.
    pub(in super::super) const fn in_payload(&self, in_content: u64) -> u64 {
        in_content.saturating_sub(self.range_start)
    }

    /// `leader` reads for it from now on; it is `behind_bytes` behind that.
    pub(in super::super) fn follow(&mut self, leader: u32, behind_bytes: u64) {
        debug_assert!(leader != self.slot, "a stream follows another one");
        (self.leader, self.behind_bytes) = (Some(leader), behind_bytes);
        self.reads_nothing();
    }

    /// Another stream reads for its group.
    pub(in super::super) fn follow_next(&mut self, leader: u32) {
        self.leader = Some(leader);
    }

    /// It reads for itself; its leader until now.
    pub(in super::super) fn stop_following(&mut self) -> Option<u32> {
        self.leader.take()
    }

    /// True if it lacks pages that its leader has read up to `read`, or holds more than it may behind a leader that may hold `window`.
    pub(in super::super) fn fell_behind(&self, read: u64, window: u64) -> bool {
        let held = self.fetch.payload - self.send.payload;
        let is_lost = self.fetch.payload < read.min(self.payload);
        is_lost || held > window.saturating_add(self.behind_bytes + FOLLOW_LAG_BYTES)
    }

    /// How far it need not look for more to read.
    pub(in super::super) const fn ahead(&self) -> u64 {
        self.ahead
    }

    /// It reads no more, and follows `to`, which takes over what this gives.
    pub(in super::super) fn hand_over(&mut self, to: u32) -> HandedOver {
        // The new leader requests the bytes that the old one had requested and not got, and for more if its own range
        // goes further.
        debug_assert!(self.leader.is_none() && to != self.slot, "a leader hands its reads over to another stream");
        let given = HandedOver { end: self.range_start + self.target, ahead: self.ahead, plan: self.plan };
        self.reads_nothing();
        self.leader = Some(to);
        given
    }

    /// It reads for the group.
    pub(in super::super) fn take_over(&mut self, given: HandedOver) {
        if let (Some(given), Some(plan)) = (given.plan, &mut self.plan) {
            let rate = ReadRate { period: given.rate.period, ..plan.rate };
            *plan = ReadPlan { rate, age: plan.age, ..given };
        }
        (self.leader, self.ahead) = (None, given.ahead);
        self.want(self.in_payload(given.end));
    }

    /// It has disk time of its own, and reads each `period` rounds.
    pub(in super::super) fn read_alone(&mut self, period: u32) {
        self.behind_bytes = 0;
        if let Some(plan) = &mut self.plan {
            plan.rate.period = period;
        }
    }
}
