//! Writes that are due: the blocks of recordings, each with a deadline.
//!
//! All that wait are one *batch*: written in one sweep by their places, with one commit behind them.
//!
//! ```text
//! batch = S(n, T) + commit
//! ```
//!
//! Promise: a batch that has begun ends with its commit, and nothing comes between. Not here: when one begins (`disk`), how much
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
    /// Something of a batch was written that no commit is behind.
    begun: bool,
}

impl DueWrites {
    /// None, with room for `capacity` recordings.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { waiting: Vec::with_capacity(capacity), begun: false }
    }

    /// Adds the bytes that a recording has ready, or replaces its earlier ones.
    pub fn put(&mut self, write: DueWrite) {
        assert!(write.bytes > 0, "a block has bytes");
        self.remove(write.job);
        assert!(self.waiting.len() < self.waiting.capacity(), "recordings are bounded");
        self.waiting.push(write);
    }

    /// Forgets the bytes that a recording has ready.
    pub fn remove(&mut self, job: JobId) {
        self.waiting.retain(|write| write.job != job);
    }

    /// True if nothing waits, and no commit is owed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.begun
    }

    /// True if writes of this batch were granted.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Enters the due writes, with a commit for each quarter of a round in which there is one.
    pub fn fill(&self, buckets: &mut Buckets, cost: &CostModel) {
        for write in &self.waiting {
            buckets.add_write(write.deadline, write.position, write.transfer(cost), cost.commit());
        }
    }

    /// The earliest deadline.
    #[must_use]
    pub fn first_deadline(&self) -> Option<Nanos> {
        self.waiting.iter().map(|write| write.deadline).min()
    }

    /// The time of the batch at most, in seconds.
    #[must_use]
    pub fn seconds(&self, cost: &CostModel) -> f64 {
        let transfer: f64 = self.waiting.iter().map(|write| write.transfer(cost).as_secs_f64()).sum();
        #[allow(clippy::cast_precision_loss, reason = "at most a few thousand")]
        let seeks = self.waiting.len() as f64;
        let places = || self.waiting.iter().map(|write| write.position);
        let span = places().max().zip(places().min()).map_or(0, |(last, first)| last - first);
        let sweep = cost.profile().sweep_seconds_within(span, seeks, transfer);
        sweep * cost.slowdown() + cost.commit().as_secs_f64()
    }

    /// The write that the head comes to next; at most a run of it.
    #[must_use]
    pub fn pick(&self, head: u64) -> Option<DueWrite> {
        let next = self.waiting.iter().min_by_key(|write| sweep_key(head, write.position))?;
        Some(DueWrite { bytes: next.bytes.min(limits::RUN_BYTES_MAX), ..*next })
    }

    /// A write was granted.
    pub fn granted(&mut self, granted: &DueWrite) {
        self.begun = true;
        let Some(at) = self.waiting.iter().position(|write| write.job == granted.job) else { return };
        let write = &mut self.waiting[at];
        write.bytes = write.bytes.saturating_sub(granted.bytes);
        write.position = write.position.saturating_add(granted.bytes);
        if write.bytes == 0 {
            self.waiting.swap_remove(at);
        }
    }

    /// The commit behind the batch was granted, or there is nothing to commit.
    pub const fn settled(&mut self) {
        self.begun = false;
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
