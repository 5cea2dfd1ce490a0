//! Writes that are due: the blocks of recordings, each with a deadline.
//!
//! All that wait when a *batch* begins are written in one sweep by their places, with one commit behind them.
//!
//! ```text
//! batch = S(n, T) + commit
//! ```
//!
//! Promise: a batch that has begun ends with its commit, and nothing comes between; blocks of later rounds wait for the next batch. Not here: when one begins (`disk`), how much
//! may be due (`admission`), writes that nothing was promised to (`best_effort`). See docs/decisions/0057.

use units::{JobId, Nanos, limits};

use super::cost::CostModel;
use super::real_time::sweep_key;
use super::slack::Buckets;

/// The bytes that a recording has ready of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueWrite {
    /// The recording's.
    pub job: JobId,
    /// Where the first byte goes.
    pub position: u64,
    /// Bytes; not zero.
    pub bytes: u64,
    /// When all of it must be durable.
    pub deadline: Nanos,
}

impl DueWrite {
    fn transfer(&self, cost: &CostModel) -> Nanos {
        cost.write_transfer(self.position, self.bytes)
    }
}

/// The due writes of one disk.
#[derive(Debug)]
pub struct DueWrites {
    waiting: Vec<DueWrite>,
    /// The latest deadline of a batch of which something was written that no commit is behind.
    begun: Option<Nanos>,
}

impl DueWrites {
    /// None, with room for `capacity` recordings.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { waiting: Vec::with_capacity(capacity), begun: None }
    }

    /// Adds the bytes that a recording has ready, or replaces its earlier ones.
    pub fn put(&mut self, write: DueWrite) {
        assert!(write.bytes > 0, "a block has bytes");
        self.remove(write.job);
        assert!(self.waiting.len() < self.waiting.capacity(), "recordings are bounded");
        self.waiting.push(write);
        debug_assert!(self.jobs().filter(|job| *job == write.job).count() == 1, "a recording has one block that waits");
    }

    /// The recordings with a block that waits.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.waiting.iter().map(|write| write.job)
    }

    /// Forgets the bytes that a recording has ready.
    pub fn remove(&mut self, job: JobId) {
        self.waiting.retain(|write| write.job != job);
    }

    /// True if nothing waits, and no commit is owed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_none()
    }

    /// True if writes of this batch were granted.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Enters the writes that no batch has begun with, with a commit for each quarter of a round in which there is one.
    pub fn fill(&self, buckets: &mut Buckets, cost: &CostModel) {
        for write in self.waiting.iter().filter(|write| self.begun.is_none_or(|last| write.deadline > last)) {
            buckets.add_write(write.deadline, write.position, write.transfer(cost), cost.commit());
        }
    }

    /// The writes of the batch: those that wait until one begins, and then none that is due later.
    fn batch(&self) -> impl Iterator<Item = &DueWrite> {
        let last = self.begun.unwrap_or(Nanos::MAX);
        self.waiting.iter().filter(move |write| write.deadline <= last)
    }

    /// The earliest deadline.
    #[must_use]
    pub fn first_deadline(&self) -> Option<Nanos> {
        self.waiting.iter().map(|write| write.deadline).min()
    }

    /// The time that a batch that has begun still takes at most, in seconds.
    #[must_use]
    pub fn begun_seconds(&self, cost: &CostModel) -> f64 {
        if self.has_begun() { self.seconds(cost) } else { 0.0 }
    }

    /// The time of the batch at most, in seconds.
    #[must_use]
    pub fn seconds(&self, cost: &CostModel) -> f64 {
        let transfer: f64 = self.batch().map(|write| write.transfer(cost).as_secs_f64()).sum();
        #[allow(clippy::cast_precision_loss, reason = "at most a few thousand")]
        let seeks = self.batch().count() as f64;
        let places = || self.batch().map(|write| write.position);
        let span = places().max().zip(places().min()).map_or(0, |(last, first)| last - first);
        let sweep = cost.profile().sweep_seconds_within(span, seeks, transfer);
        sweep * cost.slowdown() + cost.commit().as_secs_f64()
    }

    /// The write that the head comes to next; at most a run of it.
    #[must_use]
    pub fn pick(&self, head: u64) -> Option<DueWrite> {
        let next = self.batch().min_by_key(|write| sweep_key(head, write.position))?;
        Some(DueWrite { bytes: next.bytes.min(limits::RUN_BYTES_MAX), ..*next })
    }

    /// A write was granted.
    pub fn granted(&mut self, granted: &DueWrite) {
        self.begun = self.begun.or_else(|| self.waiting.iter().map(|write| write.deadline).max());
        let Some(at) = self.waiting.iter().position(|write| write.job == granted.job) else { return };
        let write = &mut self.waiting[at];
        debug_assert!(
            self.begun.is_some_and(|last| write.deadline <= last),
            "a later block joins no batch that has begun"
        );
        debug_assert!(granted.bytes > 0, "a grant of nothing never ends its block");
        write.bytes = write.bytes.saturating_sub(granted.bytes);
        write.position = write.position.saturating_add(granted.bytes);
        if write.bytes == 0 {
            self.waiting.swap_remove(at);
        }
    }

    /// The commit behind the batch was granted, or there is nothing to commit.
    pub fn settled(&mut self) {
        debug_assert!(!self.has_begun() || self.batch().next().is_none(), "a commit stands behind its whole batch");
        self.begun = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Grid;
    use crate::profile::DiskProfile;

    fn write(job: u64, gigabyte: u64, deadline: u64) -> DueWrite {
        let deadline = Nanos::from_secs(deadline);
        DueWrite { job: JobId(job), position: gigabyte << 30, bytes: 3 << 20, deadline }
    }

    fn filled(writes: &[DueWrite]) -> DueWrites {
        let mut queue = DueWrites::new(8);
        writes.iter().for_each(|write| queue.put(*write));
        queue
    }

    #[test]
    fn a_batch_is_one_sweep_by_place_whatever_the_deadlines() {
        let mut queue = filled(&[write(1, 700, 5), write(2, 100, 9), write(3, 500, 7)]);
        let (mut head, mut order) = (400 << 30, Vec::new());
        while let Some(next) = queue.pick(head) {
            assert!(next.bytes <= limits::RUN_BYTES_MAX);
            queue.granted(&next);
            head = next.position + next.bytes;
            order.push(next.job.0);
        }
        assert_eq!(order, [3, 3, 1, 1, 2, 2], "up from the head, then from the beginning, each to its end");
        assert!(!queue.is_empty() && queue.has_begun(), "its commit is owed");
        queue.settled();
        assert!(queue.is_empty());
    }

    /// Else a disk that writes more slowly than promised would never come to a commit, nor to reads: blocks of round after round joined.
    #[test]
    fn a_batch_that_has_begun_ends_before_blocks_that_are_due_later() {
        let cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let mut queue = filled(&[write(1, 100, 5), write(2, 300, 6)]);
        queue.granted(&queue.pick(0).expect("two wait"));
        let (before, begun) = (queue.seconds(&cost), queue.begun_seconds(&cost));
        queue.put(write(3, 200, 7));
        assert_eq!((queue.seconds(&cost), begun), (before, before));
        queue.put(DueWrite { position: 101 << 30, ..write(1, 100, 5) });
        let mut order = Vec::new();
        while let Some(next) = queue.pick(100 << 30) {
            queue.granted(&next);
            order.push(next.job.0);
        }
        assert_eq!(order, [1, 1, 2, 2], "the rest of its own blocks belongs to it");
        queue.settled();
        assert_eq!(queue.pick(0).map(|next| next.job), Some(JobId(3)));
    }

    #[test]
    fn writes_that_are_due_together_share_one_commit() {
        let cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let work = |writes: &[DueWrite]| {
            let mut buckets = Buckets::new(Grid::new(Nanos::ZERO, Nanos::from_secs(1)), Nanos::ZERO);
            filled(writes).fill(&mut buckets, &cost);
            buckets.slack(Nanos::ZERO, cost.profile(), 1.0).work()
        };
        let commit = cost.commit().as_secs_f64();
        let bare = |writes: &[DueWrite]| filled(writes).seconds(&cost) - commit;
        let together = [write(1, 700, 3), write(2, 100, 3)];
        assert!((work(&together) - bare(&together) - commit).abs() < 1e-9);
        let apart = [write(1, 700, 3), write(2, 100, 4)];
        assert!((work(&apart) - bare(&apart) - 2.0 * commit).abs() < 1e-9);
    }
}
