//! Slack: the time that a disk has for other work before it must begin the first of its due reads and writes.
//!
//! Due reads and writes are kept in buckets, one for each quarter of a round in which a deadline lies. A bucket is served in one sweep, so
//! it takes at most S(n, T) for its reads and the same for its writes, which have a commit behind them, J; it must be over by the earliest
//! deadline in it. The slack before a bucket is the least time that the buckets in front of it leave:
//!
//! ```text
//! work(k)  = sum over j <= k of S(n_j, T_j) + J_j
//! slack(k) = min over j <= k of d_j - free - epsilon - work(j)
//! ```
//!
//! Promise: if slack is not negative, serving bucket after bucket meets every deadline, as far as S bounds the time of
//! a sweep; and work that takes no more than the slack before its own bucket leaves none of them negative. Not here:
//! the due requests (`real_time`, `due_writes`), the choice among them (`disk`). See docs/decisions/0007.

use units::Nanos;

use crate::cycle::Grid;
use crate::profile::DiskProfile;

/// Buckets in a round. Decision 0007, table of constants.
const PER_ROUND: u64 = 4;
/// Buckets in all; reads due later count as due in the last of them. Chosen: 16 rounds, so that the blocks of sessions, which are
/// due up to 15 s after their request, count when they are due.
const BUCKETS: usize = 64;
/// The last bucket of the check whether a disk falls behind: five rounds, two more than a read is requested ahead. The rest of
/// a long block, which is due later, counts as due then: a disk that is two and a half times slower is noticed before a stream is
/// late (`sim/tests/slower.rs`; with 64 buckets after 1,161 misses).
const NEAR: usize = 20;
/// Strokes over the whole disk for which nothing is promised: the bound of a sweep is for whole ones, and in the middle of one the head
/// may have to go to the far end first and then come back. Follows.
const STROKES: f64 = 2.0;

/// The reads and writes due in a quarter of a round.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// The earliest deadline in it.
    deadline: Nanos,
    /// Reads.
    seeks: f64,
    /// Seconds of transfer of all of them.
    transfer: f64,
    /// Writes, between which places they lie, seconds of transfer of all of them, and seconds of the commit behind them.
    writes: f64,
    places: (u64, u64),
    write_transfer: f64,
    commit: f64,
}

impl Bucket {
    const EMPTY: Self = Self {
        deadline: Nanos::MAX,
        seeks: 0.0,
        transfer: 0.0,
        writes: 0.0,
        places: (u64::MAX, 0),
        write_transfer: 0.0,
        commit: 0.0,
    };

    fn seconds(&self, profile: &DiskProfile, slowdown: f64) -> f64 {
        let span = self.places.1.saturating_sub(self.places.0);
        let writes = profile.sweep_seconds_within(span, self.writes, self.write_transfer);
        (profile.sweep_seconds(self.seeks, self.transfer) + writes) * slowdown + self.commit
    }
}

/// The due reads and writes, by quarters of rounds.
#[derive(Debug, Clone)]
pub struct Buckets {
    /// Time in which the first bucket ends, which holds overdue work as well.
    from: Nanos,
    width: Nanos,
    /// Buckets in use.
    count: usize,
    buckets: [Bucket; BUCKETS],
}

impl Buckets {
    /// Nothing is due.
    #[must_use]
    pub fn new(rounds: Grid, now: Nanos) -> Self {
        let width = Nanos((rounds.period().0 / PER_ROUND).max(1));
        let round = rounds.start_of(rounds.index_at(now));
        let passed = now.saturating_sub(round).0 / width.0;
        let from = round.saturating_add(width.saturating_mul(passed));
        Self { from, width, count: BUCKETS, buckets: [Bucket::EMPTY; BUCKETS] }
    }

    /// The same with all work due in five rounds or later in the last bucket.
    #[must_use]
    pub fn near(rounds: Grid, now: Nanos) -> Self {
        Self { count: NEAR, ..Self::new(rounds, now) }
    }

    /// A read is due.
    pub fn add_read(&mut self, deadline: Nanos, transfer: Nanos) {
        let bucket = self.bucket_mut(deadline);
        bucket.seeks += 1.0;
        bucket.transfer += transfer.as_secs_f64();
    }

    /// A write is due. Those of a quarter of a round share a commit.
    pub fn add_write(&mut self, deadline: Nanos, position: u64, transfer: Nanos, commit: Nanos) {
        let bucket = self.bucket_mut(deadline);
        bucket.writes += 1.0;
        bucket.places = (bucket.places.0.min(position), bucket.places.1.max(position));
        bucket.write_transfer += transfer.as_secs_f64();
        bucket.commit = commit.as_secs_f64();
    }

    fn bucket_mut(&mut self, deadline: Nanos) -> &mut Bucket {
        let index = self.index_of(deadline);
        let bucket = &mut self.buckets[index];
        bucket.deadline = bucket.deadline.min(deadline);
        bucket
    }

    fn index_of(&self, deadline: Nanos) -> usize {
        let ahead = deadline.saturating_sub(self.from).0 / self.width.0;
        usize::try_from(ahead).map_or(self.count - 1, |ahead| ahead.min(self.count - 1))
    }

    /// The slack that is left, when the disk is free for due work from `free` on and `slowdown` times slower than its profile.
    #[must_use]
    pub fn slack(self, free: Nanos, profile: &DiskProfile, slowdown: f64) -> Slack {
        let epsilon = STROKES * profile.access_time(profile.capacity.0).as_secs_f64() * slowdown;
        let begins = seconds_until(free, Nanos::ZERO) + epsilon;
        let (mut work, mut left, mut until) = (0.0, [f64::INFINITY; BUCKETS], [0.0; BUCKETS]);
        debug_assert!(
            self.buckets[self.count..].iter().all(|bucket| bucket.deadline == Nanos::MAX),
            "work lies in the buckets in use"
        );
        let sum = |of: fn(&Bucket) -> f64| self.buckets.iter().map(of).sum::<f64>();
        let between = |one: (u64, u64), other: (u64, u64)| (one.0.min(other.0), one.1.max(other.1));
        let at_once = Bucket {
            deadline: Nanos::MAX,
            seeks: sum(|b| b.seeks),
            transfer: sum(|b| b.transfer),
            writes: sum(|b| b.writes),
            places: self.buckets.iter().map(|b| b.places).fold(Bucket::EMPTY.places, between),
            write_transfer: sum(|b| b.write_transfer),
            commit: sum(|b| b.commit),
        }
        .seconds(profile, slowdown);
        for ((left, until), bucket) in left.iter_mut().zip(&mut until).zip(&self.buckets) {
            debug_assert!(
                bucket.deadline != Nanos::MAX || bucket.seeks + bucket.writes == 0.0,
                "work without a deadline"
            );
            if bucket.deadline != Nanos::MAX {
                work += bucket.seconds(profile, slowdown);
                *left = bucket.deadline.as_secs_f64() - begins - work;
            }
            *until = begins + work;
        }
        debug_assert!(until.is_sorted(), "a bucket is over after those before it");
        Slack { buckets: self, left, until, work: at_once }
    }
}

/// The slack of a disk at one moment, in seconds.
#[derive(Debug, Clone)]
pub struct Slack {
    buckets: Buckets,
    /// The time that each bucket leaves.
    left: [f64; BUCKETS],
    /// When the work of all buckets up to each is done.
    until: [f64; BUCKETS],
    work: f64,
}

impl Slack {
    /// Seconds for which everything due before the bucket of `deadline` can wait: without end if nothing is.
    #[must_use]
    pub fn before(&self, deadline: Nanos) -> f64 {
        self.left[..self.buckets.index_of(deadline)].iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// True if `deadline` lies in the first bucket.
    #[must_use]
    pub fn is_due(&self, deadline: Nanos) -> bool {
        self.buckets.index_of(deadline) == 0
    }

    /// Seconds by which everything due from the bucket of `deadline` on is early.
    #[must_use]
    pub fn from(&self, deadline: Nanos) -> f64 {
        self.left[self.buckets.index_of(deadline)..].iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Keeps time for a job that shall be over by `deadline`.
    pub fn keep(&mut self, deadline: Nanos, takes: Nanos) {
        let from = self.buckets.index_of(deadline);
        self.left[from..].iter_mut().for_each(|left| *left -= takes.as_secs_f64());
        self.until[from..].iter_mut().for_each(|until| *until += takes.as_secs_f64());
        debug_assert!(self.until.is_sorted(), "the time kept delays its own bucket and those behind it");
        self.work += takes.as_secs_f64();
    }

    /// Seconds for which all that is due can wait.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.left.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The earliest time from `least` on at which a further read of this duration may be due: with all that is due later still in time,
    /// or behind all of it.
    #[must_use]
    pub fn room_for(&self, seconds: f64, least: Nanos) -> Nanos {
        let Buckets { from, width, count, .. } = self.buckets;
        let mut behind = f64::INFINITY;
        let mut found = Nanos::from_secs_f64(self.until[count - 1] + seconds).max(least);
        for index in (self.buckets.index_of(least)..count).rev() {
            let due = from.saturating_add(width.saturating_mul(index as u64)).max(least);
            behind = behind.min(self.left[index]);
            if behind < seconds {
                break;
            }
            if due.as_secs_f64() - self.until[index] >= seconds {
                found = found.min(due);
            }
        }
        debug_assert!(found >= least, "no room is found before it may be");
        found
    }

    /// Seconds that all of it takes at most, in one sweep.
    #[must_use]
    pub const fn work(&self) -> f64 {
        self.work
    }
}

/// From `from` to `to`; negative if that has passed.
pub(super) fn seconds_until(to: Nanos, from: Nanos) -> f64 {
    to.saturating_sub(from).as_secs_f64() - from.saturating_sub(to).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(10);

    fn at(millis: u64) -> Nanos {
        NOW.saturating_add(Nanos::from_millis(millis))
    }

    #[test]
    fn the_slack_of_a_bucket_counts_all_before_it() {
        let profile = DiskProfile::spindle_default();
        let held_back = 2.0 * profile.access_time(profile.capacity.0).as_secs_f64();
        let mut buckets = Buckets::new(Grid::new(Nanos::ZERO, Nanos::from_secs(1)), NOW);
        assert!(buckets.clone().slack(NOW, &profile, 1.0).least().is_infinite(), "nothing is due");
        buckets.add_read(at(900), Nanos::from_millis(100));
        buckets.add_write(at(1400), 0, Nanos::from_millis(50), Nanos::from_millis(60));
        let one = profile.sweep_seconds(1.0, 0.1);
        let batch = profile.sweep_seconds_within(0, 1.0, 0.05) + 0.06;
        let slack = buckets.slack(NOW, &profile, 1.0);
        assert!(slack.before(at(900)).is_infinite() && slack.before(at(990)).is_infinite());
        assert!((slack.before(at(1100)) - (0.9 - one - held_back)).abs() < 1e-9);
        assert!((slack.from(at(1400)) - (1.4 - one - batch - held_back)).abs() < 1e-9);
        assert!((slack.least() - (0.9 - one - held_back)).abs() < 1e-9);
        assert!((slack.work() - one - batch).abs() < 1e-9);
        let mut kept = slack.clone();
        kept.keep(at(1200), Nanos::from_millis(600));
        assert!(
            (kept.least() - (1.4 - one - batch - 0.6 - held_back)).abs() < 1e-9,
            "only what is due behind it waits"
        );
    }

    #[test]
    fn a_further_read_is_due_where_all_behind_it_can_wait_or_behind_them() {
        let profile = DiskProfile::spindle_default();
        let mut buckets = Buckets::new(Grid::new(Nanos::ZERO, Nanos::from_secs(1)), NOW);
        assert_eq!(buckets.clone().slack(NOW, &profile, 1.0).room_for(0.1, at(1000)), at(1000), "nothing is due");
        buckets.add_read(at(2100), Nanos::from_millis(500));
        buckets.add_read(at(4100), Nanos::from_millis(1500));
        let slack = buckets.clone().slack(NOW, &profile, 1.0);
        assert_eq!(slack.room_for(0.5, at(1000)), at(1000), "both can wait for that");
        assert_eq!(slack.room_for(1.55, at(1000)), at(2250), "the first cannot");
        let all = slack.room_for(2.5, at(1000)).saturating_sub(NOW).as_secs_f64();
        assert!((4.5..4.75).contains(&all), "none can: {all}");
        let mut kept = slack;
        kept.keep(at(3000), Nanos::from_millis(1000));
        assert!(kept.room_for(1.55, at(1000)) > at(4000), "nor with the time of a job");
        buckets.add_read(NOW, Nanos::from_secs(20));
        assert!(buckets.slack(NOW, &profile, 1.0).room_for(0.1, at(1000)) > at(22_000), "a disk that is late");
    }

    #[test]
    fn overdue_work_is_in_the_first_bucket_and_far_in_the_last() {
        let profile = DiskProfile::spindle_default();
        let mut buckets = Buckets::new(Grid::new(Nanos::ZERO, Nanos::from_secs(1)), at(100));
        buckets.add_write(Nanos::from_secs(3), 0, Nanos::from_millis(10), Nanos::ZERO);
        let slack = buckets.clone().slack(at(100), &profile, 1.0);
        assert!(slack.is_due(Nanos::from_secs(3)) && slack.is_due(at(200)) && !slack.is_due(at(300)));
        assert!(slack.least() < -7.0);
        buckets.add_write(Nanos::from_secs(100), 0, Nanos::from_secs(1), Nanos::ZERO);
        assert!(buckets.slack(at(100), &profile, 1.0).from(Nanos::from_secs(50)) > 80.0);
    }
}
