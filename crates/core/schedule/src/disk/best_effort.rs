//! Jobs: requests for disk time without a deadline. Uploads, bulk reads, probes and flushes.
//!
//! Writes come in *batches*: the bytes that several writers have ready, up to `BATCH_BYTES_MAX`, and one flush behind
//! it, so that the drive's cache is clean when reads have their turn again. A batch is one job, and a write is begun
//! only if it and the flush behind it fit.
//!
//! Jobs have their turns in the order of their places on the disk, in one direction, and then from its start again (C-LOOK): small reads
//! of several clients take a fraction of a stroke each.
//!
//! Promise: each job has one turn in a sweep, and nothing is chosen that is not expected to be over in time. Not here:
//! how much time there is (`slack`), the turns of jobs and reads (`disk`), the cost of requests (`cost`). See
//! docs/decisions/0007.

use units::{Nanos, limits};

use super::cost::CostModel;
pub use super::work::{BeChoice, BeWork, Commit, WorkOwner};

/// Bytes of one batch. A file system's commit costs 45 ms in addition to its bytes (ext4, emulated 7200 rpm disk), and an upload of 10
/// MB should need one. Decision 0007, table of constants.
const BATCH_BYTES_MAX: u64 = 16 << 20;

/// From this number of dirty bytes on a flush is worth its time even if no caller waits for it. Flushing fewer costs more than
/// leaving them to the drive. Decision 0007, varied.
pub const DIRTY_BYTES_WORTH: u64 = 4 << 20;

/// Time that is kept free behind a write and its flush, for the time that passes between two grants. Without it, the flush
/// of a batch that had used all of its time did not quite fit any more. Decision 0007, varied.
const MARGIN: Nanos = Nanos::from_millis(3);

/// How much an upload may write in a row while no bulk read waits, and a bulk read bring while no store thread's job does. Changing to
/// another upload costs two seeks: with turns of 2 MiB and 16 writers, these took a quarter of the time of a drive of 2005.
/// Decision 0007, table of constants.
const TURN_BYTES_MAX: u64 = 4 * limits::RUN_BYTES_MAX;

/// The jobs allowed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobsAllowed {
    /// No read waits: whatever fits, in turn.
    Anything,
    /// Reads wait, but the job in front has earned its time.
    Front,
    /// Reads wait, but a batch has begun: it ends with its flush, before which there may be more writes.
    Batch {
        /// More writes may share the flush.
        grows: bool,
    },
}

/// The queue.
#[derive(Debug)]
pub struct BeQueue {
    /// In turn: the front is served, then goes to the back.
    work: Vec<BeWork>,
    /// Where on the disk the last turn has got to.
    place: u64,
    commit: Option<Commit>,
    /// Bytes the front has had in its turn.
    turn_bytes: u64,
    /// Bytes that bulk reads have had since the last turn of a store thread's job.
    read_bytes: u64,
    /// Bytes written since the last flush. The number in the store thread's offer may be older.
    dirty_bytes: u64,
}

impl BeQueue {
    /// An empty queue with room for `capacity` owners.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let work = Vec::with_capacity(capacity);
        Self { work, place: 0, commit: None, turn_bytes: 0, read_bytes: 0, dirty_bytes: 0 }
    }

    /// Adds work, or replaces the earlier work of its owner (keeping its turn).
    pub fn put(&mut self, work: BeWork) {
        match self.work.iter_mut().find(|other| other.owner() == work.owner()) {
            Some(place) => *place = work,
            None => {
                assert!(self.work.len() < self.work.capacity(), "owners are bounded");
                self.work.push(work);
                debug_assert!(self.place_of(work.owner()) == Some(self.work.len() - 1), "an owner waits once");
                // Turns are shorter while bulk reads wait, so the present one may be over already.
                if self.turn_bytes >= self.turn_bytes_max() {
                    self.next_turn();
                }
            }
        }
    }

    /// Sets the commit that the store thread offers.
    pub fn put_commit(&mut self, commit: Commit) {
        self.commit = Some(commit);
    }

    /// Forgets an owner's work.
    pub fn remove(&mut self, owner: WorkOwner) {
        self.commit = self.commit.filter(|commit| WorkOwner::Job(commit.job) != owner);
        if let Some(at) = self.place_of(owner) {
            self.work.remove(at);
            if at == 0 {
                self.begin_turn();
            }
        }
    }

    /// True if nothing waits. A flush that no caller waits for counts only once its bytes are worth it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.work.is_empty() && !self.commit_is_wanted()
    }

    /// Owners waiting, the flush included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.work.len() + usize::from(self.commit_is_wanted())
    }

    /// Bulk reads waiting.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.work.iter().filter(|work| matches!(work, BeWork::Read { .. })).count()
    }

    /// True if a caller waits for the flush, or it is worth its time.
    fn commit_is_wanted(&self) -> bool {
        self.commit.is_some_and(|commit| commit.awaited) || self.is_dirty() && self.dirty_bytes() >= DIRTY_BYTES_WORTH
    }

    /// True if a batch has begun: something is dirty, and its flush is offered.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.commit.is_some() && self.dirty_bytes() > 0
    }

    /// The time of the job in front: of writes the whole batch, if it takes no more than `most`, else as much of it as
    /// fits `most`, and a piece at least.
    #[must_use]
    pub fn price(&self, most: Nanos, head: u64, cost: &CostModel) -> Nanos {
        match self.work.first().copied() {
            Some(BeWork::Write { position, .. }) => {
                let ready: u64 = self.work.iter().map(BeWork::write_bytes).sum();
                let takes = |bytes| cost.write(head, position, bytes) + cost.commit() + MARGIN;
                let left = BATCH_BYTES_MAX.saturating_sub(self.dirty_bytes()).max(limits::PIECE_BYTES_MAX);
                takes(ready.min(left)).min(most).max(takes(ready.min(limits::PIECE_BYTES_MAX)))
            }
            Some(BeWork::Read { position, bytes, .. }) => {
                cost.read(head, position, bytes.min(limits::PIECE_BYTES_MAX)) + self.settling(cost)
            }
            Some(BeWork::Probe { reads, bytes, .. }) => cost.probe(reads, bytes) + self.settling(cost),
            None => {
                self.settling(cost).max(self.commit.map_or(Nanos::ZERO, |commit| cost.sync_time(commit.sync_scope())))
            }
        }
    }

    /// The next thing to do that is over, its flush included, within `limit`.
    #[must_use]
    pub fn pick(&self, allowed: JobsAllowed, limit: Nanos, head: u64, cost: &CostModel) -> Option<BeChoice> {
        let commit = self.commit_within(limit, cost);
        let may = |work: &BeWork| match allowed {
            JobsAllowed::Anything | JobsAllowed::Front => true,
            JobsAllowed::Batch { grows } => grows && matches!(work, BeWork::Write { .. }),
        };
        // A job that does not fit keeps its turn. While reads wait no other job overtakes it, for its time was saved
        // for it.
        let turns = if allowed == JobsAllowed::Front { 1 } else { self.work.len() };
        for work in self.work.iter().take(turns).filter(|work| may(work)) {
            if !matches!(work, BeWork::Write { .. }) && self.commit_is_wanted() && commit.is_some() {
                // A drive empties a dirty cache among the reads: each of them took three times as long as expected.
                return commit;
            }
            if let Some(choice) = self.fitting(*work, limit, head, cost) {
                return Some(choice);
            }
        }
        // If no job waits at all, the flush is left until more writes have come that share it.
        commit.filter(|_| allowed != JobsAllowed::Anything || self.commit_is_wanted() || !self.work.is_empty())
    }

    /// The commit that is offered, for a batch that was promised its time.
    #[must_use]
    pub const fn offered_commit(&self) -> Option<Commit> {
        self.commit
    }

    /// The commit, if there is something to settle and it fits.
    fn commit_within(&self, limit: Nanos, cost: &CostModel) -> Option<BeChoice> {
        let commit = self.commit.filter(|commit| commit.awaited || self.dirty_bytes() > 0)?;
        let scope = commit.sync_scope();
        (cost.sync_time(scope) <= limit).then_some(BeChoice::Commit { job: commit.job, scope })
    }

    /// Enters that `bytes` of an owner's work were issued; the rest lies at `position`.
    pub fn advance(&mut self, owner: WorkOwner, bytes: u64, position: u64) {
        let Some(at) = self.place_of(owner) else { return };
        let reads = matches!(self.work[at], BeWork::Read { .. });
        self.place = self.work[at].position();
        let left = match &mut self.work[at] {
            BeWork::Read { bytes: left, position: place, .. } | BeWork::Write { bytes: left, position: place, .. } => {
                *left = left.saturating_sub(bytes);
                *place = position;
                *left
            }
            BeWork::Probe { .. } => 0,
        };
        if left == 0 {
            self.remove(owner);
        } else if at == 0 {
            self.turn_bytes += bytes;
            if self.turn_bytes >= self.turn_bytes_max() {
                self.next_turn();
            }
        }
        self.read_bytes = if reads { self.read_bytes + bytes.min(limits::PIECE_BYTES_MAX) } else { 0 };
        if self.read_bytes >= limits::RUN_BYTES_MAX {
            self.store_turn();
        }
        debug_assert!(
            self.read_bytes < limits::RUN_BYTES_MAX,
            "bulk reads keep store threads waiting for a run at most"
        );
        debug_assert!(
            self.work.is_empty() || self.turn_bytes < TURN_BYTES_MAX,
            "a turn ends with the bytes that it has"
        );
    }

    /// All bulk reads together, however many there are, have had a turn: the next one is the store thread's.
    fn store_turn(&mut self) {
        let job = self.work.iter().position(|work| !matches!(work, BeWork::Read { .. }));
        if let Some(at) = job.filter(|at| *at > 0) {
            self.work[..=at].rotate_right(1);
            self.turn_bytes = 0;
        }
        self.read_bytes = 0;
    }

    /// The commit was granted: it is no longer waiting (the store thread offers the next one).
    pub fn commit_granted(&mut self) {
        (self.commit, self.dirty_bytes) = (None, 0);
    }

    /// Counts the bytes that the store thread wrote.
    pub fn wrote(&mut self, bytes: u64) {
        self.dirty_bytes = self.dirty_bytes.saturating_add(bytes);
    }

    /// Whether this owner waits.
    #[must_use]
    pub fn wants(&self, owner: WorkOwner) -> bool {
        self.place_of(owner).is_some()
    }

    fn place_of(&self, owner: WorkOwner) -> Option<usize> {
        self.work.iter().position(|work| work.owner() == owner)
    }

    fn dirty_bytes(&self) -> u64 {
        self.commit.map_or(0, |commit| commit.dirty_bytes).max(self.dirty_bytes)
    }

    /// All bulk reads together take turns with the store thread's jobs, each turn of one run. Where only uploads wait, or only reads,
    /// they have longer turns.
    fn turn_bytes_max(&self) -> u64 {
        let reads = self.work.iter().filter(|work| matches!(work, BeWork::Read { .. })).count();
        if reads == 0 || reads == self.work.len() { TURN_BYTES_MAX } else { limits::RUN_BYTES_MAX }
    }

    fn next_turn(&mut self) {
        if !self.work.is_empty() {
            self.work.rotate_left(1);
        }
        self.begin_turn();
    }

    /// The next turn is that of the job that lies next behind the place of the last one.
    fn begin_turn(&mut self) {
        self.turn_bytes = 0;
        let behind = |nth: &usize| {
            let position = self.work[*nth].position();
            (position <= self.place, position)
        };
        if let Some(next) = (0..self.work.len()).min_by_key(behind) {
            self.work[..=next].rotate_right(1);
        }
    }

    /// The time of the flush behind other work, if something is dirty.
    pub(super) fn settling(&self, cost: &CostModel) -> Nanos {
        let dirty = self.commit.filter(|_| self.is_dirty());
        dirty.map_or(Nanos::ZERO, |commit| cost.sync_time(commit.sync_scope()) + MARGIN)
    }

    /// As much of a job as is expected to be over within `limit`, with the flush of the dirty bytes behind it.
    fn fitting(&self, work: BeWork, limit: Nanos, head: u64, cost: &CostModel) -> Option<BeChoice> {
        let settled = limit.saturating_sub(self.settling(cost));
        match work {
            BeWork::Read { slot, position, bytes } => {
                let bytes = bytes.min(limits::PIECE_BYTES_MAX);
                (cost.read(head, position, bytes) <= settled).then_some(BeChoice::Read { slot, bytes })
            }
            BeWork::Probe { job, reads, bytes } => {
                (cost.probe(reads, bytes) <= settled).then_some(BeChoice::Probe { job })
            }
            BeWork::Write { job, position, bytes } => {
                let turn = self.turn_bytes_max().saturating_sub(self.turn_bytes).min(limits::RUN_BYTES_MAX);
                let mut bytes = bytes.min(turn).min(BATCH_BYTES_MAX.saturating_sub(self.dirty_bytes()));
                let fits = |bytes: u64| cost.write(head, position, bytes) + cost.commit() + MARGIN <= limit;
                while bytes > limits::PIECE_BYTES_MAX && !fits(bytes) {
                    bytes = (bytes / 2).next_multiple_of(limits::PIECE_BYTES_MAX);
                }
                (bytes > 0 && fits(bytes)).then_some(BeChoice::Write { job, position, bytes })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use units::JobId;

    use super::*;
    use crate::disk::cost::SyncScope;
    use crate::profile::DiskProfile;

    const LONG: Nanos = Nanos::from_secs(1);

    fn write(job: u64, bytes: u64) -> BeWork {
        BeWork::Write { job: JobId(job), position: job << 30, bytes }
    }

    fn commit(dirty_bytes: u64, awaited: bool) -> Commit {
        Commit { job: JobId(0), dirty_bytes, awaited }
    }

    fn spindle() -> CostModel {
        CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1))
    }

    #[test]
    fn an_awaited_commit_comes_before_bulk_reads_and_behind_writes_that_share_it() {
        let mut queue = BeQueue::new(4);
        queue.put_commit(commit(1 << 20, true));
        queue.put(BeWork::Read { slot: 1, position: 0, bytes: 1 << 20 });
        let flush = BeChoice::Commit { job: JobId(0), scope: SyncScope::Journal };
        assert_eq!(queue.pick(JobsAllowed::Anything, LONG, 0, &spindle()), Some(flush));
        queue.remove(WorkOwner::Stream(1));
        queue.put(write(7, 1 << 20));
        let choice = queue.pick(JobsAllowed::Anything, LONG, 0, &spindle());
        assert!(matches!(choice, Some(BeChoice::Write { job: JobId(7), .. })), "{choice:?}");
    }

    #[test]
    fn owners_take_turns_of_one_run() {
        let cost = CostModel::new(DiskProfile::flash_default(), Nanos::from_secs(1));
        let mut queue = BeQueue::new(8);
        queue.put(write(1, 64 << 20));
        queue.put(write(2, 64 << 20));
        let mut served = [0u64; 3];
        for _ in 0..16 {
            let Some(BeChoice::Write { job, bytes, .. }) = queue.pick(JobsAllowed::Anything, LONG, 0, &cost) else {
                panic!("a write")
            };
            assert!(bytes <= limits::RUN_BYTES_MAX);
            served[usize::try_from(job.0).expect("small")] += bytes;
            queue.advance(WorkOwner::Job(job), bytes, 0);
        }
        assert_eq!(served[1], served[2]);
    }

    #[test]
    fn a_store_threads_job_waits_for_one_run_of_bulk_reads_however_many_there_are() {
        let cost = spindle();
        let read = |slot: u32| BeWork::Read { slot, position: u64::from(slot) << 33, bytes: limits::PIECE_BYTES_MAX };
        // Behind all reads, so that no turn by place is its own before.
        let last = BeWork::Write { job: JobId(1), position: 1 << 40, bytes: 8 << 20 };
        for job in [last, BeWork::Probe { job: JobId(1), reads: 8, bytes: 0 }] {
            let mut queue = BeQueue::new(32);
            (0..20).for_each(|slot| queue.put(read(slot)));
            queue.put(job);
            let mut pieces = 0;
            while let Some(BeChoice::Read { slot, bytes }) = queue.pick(JobsAllowed::Front, LONG, 0, &cost) {
                queue.advance(WorkOwner::Stream(slot), bytes, 0);
                queue.put(read(slot));
                pieces += 1;
                assert!(pieces <= 16, "a run is sixteen pieces");
            }
            assert_eq!(pieces, 16, "before {job:?}");
        }
    }

    #[test]
    fn small_reads_have_their_turns_by_their_places() {
        let cost = spindle();
        let read = |slot: u32, place: u64| BeWork::Read { slot, position: place << 30, bytes: 1000 };
        let mut queue = BeQueue::new(8);
        [(1, 50), (2, 90), (3, 10), (4, 70)].into_iter().for_each(|(slot, place)| queue.put(read(slot, place)));
        let mut order = Vec::new();
        while let Some(BeChoice::Read { slot, bytes }) = queue.pick(JobsAllowed::Anything, LONG, 0, &cost) {
            order.push(slot);
            queue.advance(WorkOwner::Stream(slot), bytes, 0);
            if slot == 4 {
                queue.put(read(5, 60));
            }
        }
        assert_eq!(order, [1, 4, 2, 3, 5], "one that comes too late for this sweep is of the next");
    }

    #[test]
    fn a_turn_that_a_bulk_read_makes_shorter_is_over() {
        let cost = spindle();
        let mut queue = BeQueue::new(8);
        queue.put(write(1, 32 << 20));
        queue.advance(WorkOwner::Job(JobId(1)), 2 * limits::RUN_BYTES_MAX, 0);
        queue.put(BeWork::Read { slot: 1, position: 0, bytes: limits::PIECE_BYTES_MAX });
        assert!(matches!(queue.pick(JobsAllowed::Front, LONG, 0, &cost), Some(BeChoice::Read { .. })));
        queue.advance(WorkOwner::Stream(1), limits::PIECE_BYTES_MAX, 0);
        assert!(
            matches!(queue.pick(JobsAllowed::Front, LONG, 0, &cost), Some(BeChoice::Write { .. })),
            "it has its turn again"
        );
    }

    #[test]
    fn a_write_needs_room_for_its_flush_and_keeps_its_turn() {
        let cost = spindle();
        let mut queue = BeQueue::new(8);
        queue.put(write(1, 2 << 20));
        queue.put(BeWork::Read { slot: 1, position: 0, bytes: 1 << 20 });
        let enough = queue.price(Nanos::ZERO, 0, &cost);
        let short = enough.saturating_sub(Nanos(1));
        assert_eq!(queue.pick(JobsAllowed::Front, short, 0, &cost), None, "it has saved for this");
        let read = queue.pick(JobsAllowed::Anything, short, 0, &cost);
        assert!(matches!(read, Some(BeChoice::Read { .. })), "nobody else wants the time: {read:?}");
        let turn = queue.pick(JobsAllowed::Front, enough, 0, &cost);
        assert!(matches!(turn, Some(BeChoice::Write { bytes: limits::PIECE_BYTES_MAX, .. })), "{turn:?}");
        assert!(queue.price(LONG, 0, &cost) > enough, "a batch is worth more than a piece");
    }

    #[test]
    fn a_batch_has_an_end() {
        let cost = spindle();
        let mut queue = BeQueue::new(8);
        queue.put(write(1, 64 << 20));
        queue.put_commit(commit(BATCH_BYTES_MAX, false));
        assert!(matches!(queue.pick(JobsAllowed::Anything, LONG, 0, &cost), Some(BeChoice::Commit { .. })));
        queue.commit_granted();
        assert!(matches!(queue.pick(JobsAllowed::Anything, LONG, 0, &cost), Some(BeChoice::Write { .. })));
    }

    #[test]
    fn a_batch_that_reads_wait_behind_ends_with_its_flush() {
        let cost = spindle();
        let mut queue = BeQueue::new(8);
        queue.put_commit(commit(1 << 20, false));
        assert!(queue.is_empty() && queue.is_dirty());
        assert_eq!(queue.pick(JobsAllowed::Anything, LONG, 0, &cost), None, "more may come and share the flush");
        let flush = BeChoice::Commit { job: JobId(0), scope: SyncScope::DriveCache };
        let (closed, open) = (JobsAllowed::Batch { grows: false }, JobsAllowed::Batch { grows: true });
        assert_eq!(queue.pick(open, LONG, 0, &cost), Some(flush));
        queue.put(write(1, 4 << 20));
        assert!(matches!(queue.pick(open, LONG, 0, &cost), Some(BeChoice::Write { .. })));
        assert_eq!(queue.pick(closed, LONG, 0, &cost), Some(flush), "a start waits");
        assert_eq!(queue.pick(open, cost.sync_time(SyncScope::DriveCache), 0, &cost), Some(flush), "no write fits");
    }
}
