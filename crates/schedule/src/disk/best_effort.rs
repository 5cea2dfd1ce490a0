//! Best-effort disk queue: uploads, copies, bulk reads, probes and commits, which have no deadline.
//!
//! Promise: served in turn, bulk reads and uploads in runs of at most `RUN_BYTES_MAX`, uploads among themselves in turns
//! of `TURN_BYTES_MAX`; nothing is chosen that is not expected to end before the window closes. Writes are chosen only
//! if the flush that settles them fits behind them, so that a window can end with the drive's cache clean.
//! Not here: when a window opens (`disk`), what things cost (`cost`). See decisions/0007.

use units::{Nanos, limits};

use super::JobKey;
use super::cost::CostModel;
pub use super::work::{BeChoice, BeWork, Commit, Owner};

/// Bytes that may be dirty in a drive's volatile cache before a flush. Since a window ends with its flush, this only
/// says how many bytes share one: a file system's commit costs 45 ms beside its bytes (ext4, emulated 7200 rpm disk), and
/// a 10 MB upload should need one (with 8 MiB it needed two). Without windows 4 MiB was the most that left readers alone
/// (26 of 44 cycles were missed unbounded).
const DIRTY_BYTES_MAX: u64 = 16 << 20;

/// Dirty bytes that are flushed among blocks that wait. Recordings write there, outside of all windows, and what drains
/// beside them and the reads makes both late (simulator, seed 1624 with 16 MiB).
const DIRTY_BYTES_DUE: u64 = 8 << 20;

/// Dirty bytes that are flushed though nobody waits for it and nothing else asks for it: a flush of less costs more than
/// leaving it to the drive.
const DIRTY_BYTES_WORTH: u64 = 4 << 20;

/// In hand behind a write and its flush, for what passes between two grants: without it the flush of a window filled to
/// its end did not fit by a hair, and what was dirty stayed so beside the blocks (simulator, seed 1312).
const MARGIN: Nanos = Nanos::from_millis(3);

/// What an upload may write in a row while no bulk read waits. Changing to another one costs two seeks: with 2 MiB a
/// quarter of a 2005 drive's time beside 16 writers.
const TURN_BYTES_MAX: u64 = 4 * limits::RUN_BYTES_MAX;

/// An awaited commit lets this many bytes of other work go first (found by the simulator, seed 239: bulk reads without end
/// left an upload unacknowledged for ever).
const PASS_BYTES_MAX: u64 = 2 * limits::RUN_BYTES_MAX;

/// Bytes of deliveries after which a store thread's work that waits starves: in a busy disk's short windows a read always
/// fits, and a write with the commit behind it never did (found by the simulator, seed 952).
const STARVING_BYTES: u64 = 4 * limits::RUN_BYTES_MAX;

/// What waits for the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nothing,
    Blocks,
}

/// The queue.
#[derive(Debug)]
pub struct BeQueue {
    /// In turn: the front is served, then goes to the back.
    work: Vec<BeWork>,
    commit: Option<Commit>,
    /// Bytes of other work that went before an awaited commit.
    passed_over: u64,
    /// Bytes read for deliveries while a store thread's work waited, since it last had something.
    jobs_passed: u64,
    /// Bytes the front has had in its turn.
    turn_bytes: u64,
    /// Bytes written since the last commit: what the store thread offers may be older.
    dirty_bytes: u64,
}

impl BeQueue {
    /// An empty queue with room for `capacity` owners.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            work: Vec::with_capacity(capacity),
            commit: None,
            passed_over: 0,
            jobs_passed: 0,
            turn_bytes: 0,
            dirty_bytes: 0,
        }
    }

    /// Adds work, or replaces what its owner wanted before (keeping its turn).
    pub fn put(&mut self, work: BeWork) {
        match self.work.iter_mut().find(|other| other.owner() == work.owner()) {
            Some(place) => *place = work,
            None => {
                assert!(self.work.len() < self.work.capacity(), "owners are bounded");
                self.work.push(work);
            }
        }
    }

    /// Sets what the store thread would commit.
    pub fn put_commit(&mut self, commit: Commit) {
        self.commit = Some(commit);
    }

    /// Forgets an owner's work; true if there was some.
    pub fn remove(&mut self, owner: Owner) -> bool {
        if let Owner::Job(job) = owner
            && self.commit.is_some_and(|commit| commit.job == job)
        {
            self.commit = None;
            return true;
        }
        match self.work.iter().position(|work| work.owner() == owner) {
            Some(at) => {
                self.work.remove(at);
                if at == 0 {
                    self.turn_bytes = 0;
                }
                true
            }
            None => false,
        }
    }

    /// True if nothing waits. A commit nobody waits for counts only once its bytes are too many.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.work.is_empty() && !self.commit_is_wanted()
    }

    /// Owners waiting, the commit included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.work.len() + usize::from(self.commit_is_wanted())
    }

    /// What the commit takes, if it is wanted.
    fn wanted_commit(&self, cost: &CostModel) -> Option<Nanos> {
        self.commit.filter(|_| self.commit_is_wanted()).map(|commit| cost.settle(commit.settles()))
    }

    /// True if somebody waits for the commit, or it is worth a flush.
    fn commit_is_wanted(&self) -> bool {
        self.commit.is_some_and(|commit| commit.awaited)
            || self.is_unsettled() && self.dirty_bytes() >= DIRTY_BYTES_WORTH
    }

    /// The shortest window in which something waiting can be done.
    #[must_use]
    pub fn window_min(&self, head: u64, cost: &CostModel) -> Nanos {
        let first = if self.starves() { self.first_job() } else { 0 };
        let work = self.work.get(first).map(|work| match *work {
            BeWork::Write { position, bytes, .. } => {
                let bytes = bytes.min(limits::PIECE_BYTES_MAX);
                cost.write(head, position, bytes) + cost.commit() + MARGIN
            }
            BeWork::Read { position, bytes, .. } => {
                cost.read(head, position, bytes.min(limits::PIECE_BYTES_MAX)) + self.settling(cost)
            }
            BeWork::Probe { reads, .. } => cost.probe(reads) + self.settling(cost),
        });
        let commit = self.wanted_commit(cost);
        match (work, commit) {
            (Some(work), Some(commit)) => work.max(commit),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => Nanos::ZERO,
        }
    }

    /// A window that is worth its flush: all the writes that wait, or as much as shares one. Without any it needs none.
    #[must_use]
    pub fn window_worth(&self, head: u64, cost: &CostModel) -> Nanos {
        let writes = || {
            self.work.iter().filter_map(|work| match *work {
                BeWork::Write { position, bytes, .. } => Some((position, bytes)),
                BeWork::Read { .. } | BeWork::Probe { .. } => None,
            })
        };
        let commit = self.wanted_commit(cost);
        match writes().next() {
            Some((position, _)) => {
                let most = DIRTY_BYTES_MAX.saturating_sub(self.dirty_bytes());
                cost.write(head, position, writes().map(|(_, bytes)| bytes).sum::<u64>().min(most)) + cost.commit()
            }
            None => commit.unwrap_or(Nanos::ZERO),
        }
    }

    /// The next thing to do that ends before `end`, if any.
    #[must_use]
    pub fn pick(&mut self, now: Nanos, end: Nanos, head: u64, cost: &CostModel) -> Option<BeChoice> {
        self.pick_before(Behind::Nothing, now, end, head, cost)
    }

    /// As [`Self::pick`] in a window before blocks that wait: what is due is settled before more is written.
    #[must_use]
    pub fn pick_lent(&mut self, now: Nanos, end: Nanos, head: u64, cost: &CostModel) -> Option<BeChoice> {
        self.pick_before(Behind::Blocks, now, end, head, cost)
    }

    fn pick_before(&mut self, behind: Behind, now: Nanos, end: Nanos, head: u64, cost: &CostModel) -> Option<BeChoice> {
        let most = match behind {
            Behind::Nothing => DIRTY_BYTES_MAX,
            Behind::Blocks => DIRTY_BYTES_DUE,
        };
        let commit = self.commit_before(end, now, cost);
        if let Some(commit) = commit.filter(|_| self.commit_is_wanted() && self.commit_has_its_turn(most)) {
            return Some(commit);
        }
        if self.starves() {
            let first = self.first_job();
            self.work.rotate_left(first);
            self.turn_bytes = 0;
            let job = self.work.first().copied().filter(|work| matches!(work.owner(), Owner::Job(_)));
            let choice = job.and_then(|work| self.fitting(work, now, end, head, cost));
            if let Some(choice) = choice.or(commit) {
                self.pass_over(choice);
                return Some(choice);
            }
        }
        // The window is at its end: with a clean cache, however little is in it. Where nothing waits at all, more may come
        // and share the flush.
        let settles = behind == Behind::Blocks || self.commit_is_wanted() || !self.work.is_empty();
        let reads = self.work.first().is_some_and(|work| matches!(work, BeWork::Read { .. }));
        if reads && self.dirty_bytes() >= DIRTY_BYTES_WORTH && commit.is_some() {
            // What a drive has in its cache it writes among the reads: each took three times as long as expected, and the
            // window ended with neither in time (simulator, seed 1110).
            return commit;
        }
        self.next_that_fits(|_| true, now, end, head, cost).or(commit.filter(|_| settles))
    }

    /// As [`Self::pick`], where blocks wait already: the flush, and before it writes that share it.
    #[must_use]
    pub fn pick_settling(&mut self, now: Nanos, end: Nanos, head: u64, cost: &CostModel) -> Option<BeChoice> {
        let commit = self.commit_before(end, now, cost);
        if let Some(commit) = commit.filter(|_| self.commit_has_its_turn(DIRTY_BYTES_MAX)) {
            return Some(commit);
        }
        let writes = |work: &BeWork| matches!(work, BeWork::Write { .. });
        self.next_that_fits(writes, now, end, head, cost).or(commit)
    }

    fn next_that_fits(
        &mut self,
        eligible: fn(&BeWork) -> bool,
        now: Nanos,
        end: Nanos,
        head: u64,
        cost: &CostModel,
    ) -> Option<BeChoice> {
        for _ in 0..self.work.len() {
            let front = self.work[0];
            let choice = if eligible(&front) { self.fitting(front, now, end, head, cost) } else { None };
            if let Some(choice) = choice {
                self.pass_over(choice);
                return Some(choice);
            }
            self.next_turn();
        }
        None
    }

    /// The commit, if there is something to settle and it ends before `end`.
    fn commit_before(&self, end: Nanos, now: Nanos, cost: &CostModel) -> Option<BeChoice> {
        let commit = self.commit.filter(|commit| commit.awaited || self.dirty_bytes() > 0)?;
        let settles = commit.settles();
        (now.saturating_add(cost.settle(settles)) <= end).then_some(BeChoice::Commit { job: commit.job, settles })
    }

    /// True if the store thread's work has waited behind deliveries for too long: a window must be long enough for it.
    #[must_use]
    pub const fn starves(&self) -> bool {
        self.jobs_passed >= STARVING_BYTES
    }

    /// The store thread's work, if some waits, has waited for too long by the clock: a slow disk with a small share reads
    /// a few megabytes in all that time (simulator, seed 1775).
    pub fn starve(&mut self) {
        if self.job_waits() {
            self.jobs_passed = self.jobs_passed.max(STARVING_BYTES);
        }
    }

    fn job_waits(&self) -> bool {
        self.commit_is_wanted() || self.work.iter().any(|work| matches!(work.owner(), Owner::Job(_)))
    }

    /// The store thread's work whose turn is next; 0 if there is none.
    fn first_job(&self) -> usize {
        self.work.iter().position(|work| matches!(work.owner(), Owner::Job(_))).unwrap_or(0)
    }

    /// Some work goes before a commit, so that uploads ending together share it, but not without end: least when
    /// somebody waits for it, none when too much is dirty.
    fn commit_has_its_turn(&self, most: u64) -> bool {
        let awaited = self.commit.is_some_and(|commit| commit.awaited);
        let patience = if awaited { PASS_BYTES_MAX } else { 8 * PASS_BYTES_MAX };
        self.dirty_bytes() >= most || self.passed_over >= patience
    }

    /// True if so much is dirty that the next commit must not wait for a lull.
    #[must_use]
    pub fn commit_is_due(&self) -> bool {
        self.commit.is_some() && self.dirty_bytes() >= DIRTY_BYTES_DUE
    }

    /// After `bytes` of an owner's work were issued; what is left lies at `position`.
    pub fn advance(&mut self, owner: Owner, bytes: u64, position: u64) {
        let Some(at) = self.work.iter().position(|work| work.owner() == owner) else { return };
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
            return;
        }
        if at == 0 {
            self.turn_bytes += bytes;
            if self.turn_bytes >= self.turn_bytes_max() {
                self.next_turn();
            }
        }
    }

    /// Counts what goes before a commit, and before the store thread's work.
    fn pass_over(&mut self, choice: BeChoice) {
        let waits = self.job_waits();
        self.jobs_passed = match choice {
            BeChoice::Read { bytes, .. } if waits => self.jobs_passed.saturating_add(bytes),
            BeChoice::Read { .. } | BeChoice::Write { .. } | BeChoice::Probe { .. } | BeChoice::Commit { .. } => 0,
        };
        if self.commit_is_wanted() {
            self.passed_over += match choice {
                BeChoice::Read { bytes, .. } | BeChoice::Write { bytes, .. } => bytes,
                BeChoice::Probe { .. } | BeChoice::Commit { .. } => limits::PIECE_BYTES_MAX,
            };
        }
    }

    /// The commit was granted: it is no longer waiting (the store thread offers the next one).
    pub fn commit_granted(&mut self) {
        self.commit = None;
        (self.passed_over, self.jobs_passed, self.dirty_bytes) = (0, 0, 0);
    }

    /// The store thread wrote so much.
    pub fn wrote(&mut self, bytes: u64) {
        self.dirty_bytes = self.dirty_bytes.saturating_add(bytes);
    }

    /// True if a flush is offered and has something to flush.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.commit.is_some() && self.dirty_bytes() > 0
    }

    /// Where a job's next bytes go.
    #[must_use]
    pub fn position_of(&self, job: JobKey) -> Option<u64> {
        self.work.iter().find_map(|work| match *work {
            BeWork::Write { job: owner, position, .. } if owner == job => Some(position),
            BeWork::Write { .. } | BeWork::Read { .. } | BeWork::Probe { .. } => None,
        })
    }

    /// Whether this owner waits.
    #[must_use]
    pub fn wants(&self, owner: Owner) -> bool {
        self.work.iter().any(|work| work.owner() == owner)
    }

    fn dirty_bytes(&self) -> u64 {
        self.commit.map_or(0, |commit| commit.dirty_bytes).max(self.dirty_bytes)
    }

    /// Bulk reads take turns of one run with uploads, uploads among themselves longer ones.
    fn turn_bytes_max(&self) -> u64 {
        let reads = self.work.iter().any(|work| matches!(work, BeWork::Read { .. }));
        if reads { limits::RUN_BYTES_MAX } else { TURN_BYTES_MAX }
    }

    fn next_turn(&mut self) {
        self.turn_bytes = 0;
        if !self.work.is_empty() {
            self.work.rotate_left(1);
        }
    }

    /// What the flush behind other work takes, if something is dirty.
    pub(super) fn settling(&self, cost: &CostModel) -> Nanos {
        let unsettled = self.commit.filter(|_| self.is_unsettled());
        unsettled.map_or(Nanos::ZERO, |commit| cost.settle(commit.settles()) + MARGIN)
    }

    /// As much of `work` as is expected to end before `end`.
    fn fitting(&self, work: BeWork, now: Nanos, end: Nanos, head: u64, cost: &CostModel) -> Option<BeChoice> {
        // What is dirty is flushed in this window if it can be: other work leaves room for that.
        let settle = self.settling(cost);
        let settled =
            if now.saturating_add(settle) <= end.saturating_add(MARGIN) { end.saturating_sub(settle) } else { end };
        match work {
            BeWork::Read { slot, position, bytes } => {
                let bytes = bytes.min(limits::PIECE_BYTES_MAX);
                let over = now.saturating_add(cost.read(head, position, bytes));
                (over <= settled).then_some(BeChoice::Read { slot, bytes })
            }
            BeWork::Probe { job, reads } => {
                (now.saturating_add(cost.probe(reads)) <= settled).then_some(BeChoice::Probe { job })
            }
            BeWork::Write { job, position, bytes } => {
                let dirty = self.dirty_bytes();
                let turn = self.turn_bytes_max().saturating_sub(self.turn_bytes).min(limits::RUN_BYTES_MAX);
                let mut bytes = bytes.min(turn).min(DIRTY_BYTES_MAX.saturating_sub(dirty));
                let fits = |bytes: u64| {
                    let write = cost.write(head, position, bytes);
                    now.saturating_add(write).saturating_add(cost.commit()).saturating_add(MARGIN) <= end
                };
                while bytes > limits::PIECE_BYTES_MAX && !fits(bytes) {
                    bytes = (bytes / 2).next_multiple_of(limits::PIECE_BYTES_MAX);
                }
                (bytes > 0 && fits(bytes)).then_some(BeChoice::Write { job, bytes })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::cost::Settle;
    use crate::profile::DiskProfile;

    const END: Nanos = Nanos::from_secs(1);

    fn write(job: u64, bytes: u64) -> BeWork {
        BeWork::Write { job: JobKey(job), position: job << 30, bytes }
    }

    #[test]
    fn a_write_has_its_turn_beside_reads_without_end_in_windows_too_short_for_it() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let mut queue = BeQueue::new(4);
        queue.put(write(7, 1 << 20));
        let mut picks = 0;
        loop {
            queue.put(BeWork::Read { slot: 1, position: 0, bytes: 1 << 20 });
            let short = cost.read(0, 1 << 30, limits::PIECE_BYTES_MAX) + cost.read(0, 1 << 30, 1 << 20);
            let window = if queue.starves() { queue.window_min(0, &cost) } else { short };
            match queue.pick(Nanos::ZERO, window, 0, &cost) {
                Some(BeChoice::Read { .. }) => assert!(!queue.starves() || picks < 1000),
                choice => {
                    assert!(matches!(choice, Some(BeChoice::Write { job: JobKey(7), .. })), "{choice:?}");
                    break;
                }
            }
            picks += 1;
            assert!(picks < 1000, "the write starves");
        }
        assert!(picks > 1 && !queue.starves(), "reads went first, and the count begins anew");
    }

    #[test]
    fn an_awaited_commit_has_its_turn_beside_reads_without_end() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let mut queue = BeQueue::new(4);
        queue.put_commit(Commit { job: JobKey(1), dirty_bytes: 1 << 20, awaited: true });
        for picks in 0..100 {
            queue.put(BeWork::Read { slot: 1, position: 0, bytes: 1 << 20 });
            if let Some(BeChoice::Commit { job, .. }) = queue.pick(Nanos::ZERO, END, 0, &cost) {
                assert_eq!(job, JobKey(1));
                assert!(picks > 0, "a little work goes first");
                return;
            }
        }
        panic!("the commit never has its turn");
    }

    #[test]
    fn owners_take_turns_of_one_run() {
        let cost = CostModel::new(DiskProfile::flash_default());
        let mut queue = BeQueue::new(8);
        queue.put(write(1, 64 << 20));
        queue.put(write(2, 64 << 20));
        let mut served = [0u64; 3];
        for _ in 0..16 {
            let Some(BeChoice::Write { job, bytes }) = queue.pick(Nanos::ZERO, END, 0, &cost) else {
                panic!("a write")
            };
            assert!(bytes <= limits::RUN_BYTES_MAX);
            served[usize::try_from(job.0).expect("small")] += bytes;
            queue.advance(Owner::Job(job), bytes, 0);
        }
        assert_eq!(served[1], served[2]);
    }

    #[test]
    fn a_write_needs_room_for_its_flush() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let mut queue = BeQueue::new(8);
        queue.put(write(1, 2 << 20));
        let enough = queue.window_min(0, &cost);
        assert!(queue.pick(Nanos::ZERO, enough.saturating_sub(Nanos(1)), 0, &cost).is_none());
        assert!(queue.pick(Nanos::ZERO, enough, 0, &cost).is_some());
    }

    #[test]
    fn the_dirty_bound_forces_a_commit() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let mut queue = BeQueue::new(8);
        queue.put(write(1, 64 << 20));
        queue.put_commit(Commit { job: JobKey(0), dirty_bytes: DIRTY_BYTES_MAX, awaited: false });
        assert!(matches!(queue.pick(Nanos::ZERO, END, 0, &cost), Some(BeChoice::Commit { .. })));
        queue.commit_granted();
        assert!(matches!(queue.pick(Nanos::ZERO, END, 0, &cost), Some(BeChoice::Write { .. })));
    }

    #[test]
    fn an_awaited_commit_is_done_when_no_write_waits() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let mut queue = BeQueue::new(8);
        queue.put_commit(Commit { job: JobKey(0), dirty_bytes: 0, awaited: true });
        assert!(!queue.is_empty());
        assert!(matches!(queue.pick(Nanos::ZERO, END, 0, &cost), Some(BeChoice::Commit { .. })));
    }

    #[test]
    fn little_is_flushed_only_where_a_window_ends() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let mut queue = BeQueue::new(8);
        queue.put_commit(Commit { job: JobKey(0), dirty_bytes: 1 << 20, awaited: false });
        assert!(queue.is_empty() && queue.is_unsettled());
        assert_eq!(queue.pick(Nanos::ZERO, END, 0, &cost), None, "more may come and share the flush");
        let flush = BeChoice::Commit { job: JobKey(0), settles: Settle::Cache };
        assert_eq!(queue.pick_lent(Nanos::ZERO, END, 0, &cost), Some(flush), "blocks wait");
        queue.put(write(1, 4 << 20));
        let rest = cost.settle(Settle::Cache);
        assert_eq!(queue.pick(Nanos::ZERO, rest, 0, &cost), Some(flush), "what waits does not fit");
    }
}
