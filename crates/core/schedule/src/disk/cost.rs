//! Cost of requests: the profile's prediction, corrected by observation.
//!
//! Promise: costs rise when the disk is slower than its profile, fall again slowly, and are never below the profile. Not here:
//! when a request may start (`disk`), whether a stream fits (`admission`).

use units::Nanos;

use crate::admission::MARGIN;
use crate::admission::disk_table::ROUNDING;
use crate::profile::DiskProfile;

/// Disk time over which observations are averaged (exponentially). Chosen.
const MEMORY_SECONDS: f64 = 5.0;
/// Length of a spell of disk time, seconds. A slowdown that appears in [`SPELLS`] consecutive spells counts at once. So a slow
/// disk is known after a second, and a few long reads are not mistaken for a slow disk: a spell has a dozen reads or more.
/// Decision 0025 has the consequences.
const SPELL_SECONDS: f64 = 0.3;
const SPELLS: usize = 3;
/// An observation counts for at most its prediction times this: a retry of the drive or a stall of the machine does not make a
/// slow disk. Time beyond that (a stall) counts only if another stall follows while the first is remembered: a drive that
/// cleans up every few seconds does lose this time. Decision 0007, varied.
const OUTLIER: f64 = 4.0;
/// A random access moves the head by the disk's capacity divided by this. Follows: the mean distance of two random points of a
/// line is a third of the line.
const RANDOM_DISTANCE: u64 = 3;
/// A longer stall counts as one of this length: then the disk is not slow but hung. Chosen: a bound that no figure has
/// (decision 0007).
const STALL_MAX_SECONDS: f64 = 5.0;
/// Ratio of observed to predicted time up to which the disk counts as keeping its profile: random access times scatter by the
/// margin that admission holds back. Decision 0007, table of constants.
const TOLERANCE: f64 = 1.0 + MARGIN;
/// Upper bound of the dirty bytes in a drive's cache; further bytes are on the platters already. Chosen: a bound that no figure
/// has (decision 0007).
const CACHE_BYTES_MAX: u64 = 32 << 20;
/// The learned cost of a commit is at most the round divided by this. Without a bound, one hang could teach a cost that no
/// slack ever allows, and no upload would be acknowledged again. Chosen.
const COMMIT_PART: u64 = 2;
/// Least cost of a commit, in seconds, by which outliers are judged. Chosen: a revolution of a 7200 rpm drive takes 8 ms.
const COMMIT_KNOWN_MIN: f64 = 0.005;
/// A learned cost moves by the share `RISE` of an excess and by the share `FALL` of a shortfall, so it stays near the 90th
/// percentile (0.05 of 0.55). Decision 0007, varied.
const RISE: f64 = 0.5;
const FALL: f64 = 0.05;

/// The data that a commit makes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncScope {
    /// Bytes and names, for callers that wait: the file system commits.
    Journal,
    /// The bytes in the drive's cache, so that the reads that follow find it clean.
    DriveCache,
}

/// The cost model of one disk.
#[derive(Debug, Clone)]
pub struct CostModel {
    profile: DiskProfile,
    /// Sums of the observed and predicted times of reads, in seconds, decaying.
    took_seconds: f64,
    predicted_seconds: f64,
    /// Observed and predicted sums of the present spell, and the ratios of the last spells.
    spell: (f64, f64),
    spells: [f64; SPELLS],
    /// Time of reads beyond [`OUTLIER`], in seconds: the sum and the greatest, both decaying.
    stalled_seconds: f64,
    longest_stall_seconds: f64,
    /// Time of reads beyond their predictions and the tolerance, in seconds (a cumulative sum: Page 1954).
    lost_seconds: f64,
    /// Cost of a commit, without the writing of the dirty bytes.
    commit: Nanos,
    /// Cost of a flush that no caller waits for: it empties the drive's cache, and the file system commits no name.
    flush: Nanos,
    /// The time that the writes since the last commit still need on the platters. A drive's cache accepts bytes before it
    /// writes them, so the flush takes the part of the transfer time that the writes did not. If write and flush were both
    /// charged in full, a batch would seem to need twice its time.
    unsettled: Nanos,
    /// The length of a round.
    round: Nanos,
}

impl CostModel {
    /// A model without observations, as of a disk that keeps its profile.
    #[must_use]
    pub fn new(profile: DiskProfile, round: Nanos) -> Self {
        let commit = profile.flush;
        debug_assert!(round > Nanos::ZERO, "parts of a round bound what is learned");
        Self {
            profile,
            took_seconds: MEMORY_SECONDS,
            predicted_seconds: MEMORY_SECONDS,
            spell: (0.0, 0.0),
            spells: [1.0; SPELLS],
            stalled_seconds: 0.0,
            longest_stall_seconds: 0.0,
            lost_seconds: 0.0,
            commit,
            flush: commit,
            unsettled: Nanos::ZERO,
            round,
        }
    }

    /// Begins anew with another profile; returns the old one.
    pub(super) fn replace_profile(&mut self, profile: DiskProfile, round: Nanos) -> DiskProfile {
        std::mem::replace(self, Self::new(profile, round)).profile
    }

    /// The profile that the model corrects.
    #[must_use]
    pub const fn profile(&self) -> &DiskProfile {
        &self.profile
    }

    /// Cost of reading `bytes` at `position` with the head at `head`.
    #[must_use]
    pub fn read(&self, head: u64, position: u64, bytes: u64) -> Nanos {
        self.corrected(self.predicted_read(head, position, bytes))
    }

    /// Cost of writing `bytes` at `position` with the head at `head`.
    #[must_use]
    pub fn write(&self, head: u64, position: u64, bytes: u64) -> Nanos {
        self.corrected(self.access(head, position).saturating_add(self.write_transfer(position, bytes)))
    }

    /// The transfer alone of writing `bytes` at `position`, by the profile.
    #[must_use]
    pub fn write_transfer(&self, position: u64, bytes: u64) -> Nanos {
        Nanos::from_secs_f64(self.profile.write_seconds(self.profile.transfer_time(position, bytes).as_secs_f64()))
    }

    /// Cost of a commit now: the bytes in the drive's cache are written, then the file system commits.
    #[must_use]
    pub fn commit(&self) -> Nanos {
        self.sync_time(SyncScope::Journal)
    }

    /// Cost of making this data durable now.
    #[must_use]
    pub fn sync_time(&self, what: SyncScope) -> Nanos {
        let own = match what {
            SyncScope::Journal => self.commit,
            SyncScope::DriveCache => self.flush,
        };
        own.min(Nanos(self.round.0 / COMMIT_PART)).saturating_add(self.unsettled)
    }

    /// Cost of `reads` random reads of `bytes` in all, in the slowest zone.
    #[must_use]
    pub fn probe(&self, reads: u32, bytes: u64) -> Nanos {
        let access =
            self.profile.access_time(self.profile.capacity.0 / RANDOM_DISTANCE).saturating_mul(u64::from(reads));
        self.corrected(access.saturating_add(self.profile.transfer_time(u64::MAX, bytes)))
    }

    /// Learns from a read: `predicted` is its time by the profile, `took` the observed time.
    pub fn observe_read(&mut self, predicted: Nanos, took: Nanos) {
        if predicted == Nanos::ZERO {
            return;
        }
        let predicted = predicted.as_secs_f64();
        let took = took.as_secs_f64();
        let counted = took.min(OUTLIER * predicted);
        let stalled = (took - counted).min(STALL_MAX_SECONDS);
        let keep = (1.0 - predicted / MEMORY_SECONDS).max(0.0);
        self.took_seconds = self.took_seconds * keep + counted;
        self.predicted_seconds = self.predicted_seconds * keep + predicted;
        debug_assert!(self.predicted_seconds > 0.0, "the slowdown is divided by it");
        self.stalled_seconds = self.stalled_seconds * keep + stalled;
        self.longest_stall_seconds = (self.longest_stall_seconds * keep).max(stalled);
        // At most a round of lost time is remembered, which is twice the loss that has an effect. Reads that take less than the
        // tolerated time reduce the loss.
        let lost = self.lost_seconds + counted - TOLERANCE * predicted;
        self.lost_seconds = lost.clamp(0.0, self.round.as_secs_f64());
        debug_assert!(self.stalled_seconds >= self.longest_stall_seconds - ROUNDING, "one stall is part of their sum");
        self.spell = (self.spell.0 + counted, self.spell.1 + predicted);
        if self.spell.0 >= SPELL_SECONDS {
            let (took, predicted) = std::mem::take(&mut self.spell);
            self.spells.rotate_left(1);
            self.spells[SPELLS - 1] = took / predicted;
            debug_assert!(self.spells.iter().all(|spell| spell.is_finite()), "each spell has a prediction");
        }
    }

    /// Learns from a write that took `took`: the next commit has to spend the rest of the bytes' transfer time. Seeks are not
    /// counted: the number of seeks that the drive still has to make is unknown, and the learned cost of a commit includes a
    /// high quantile of them.
    pub fn wrote(&mut self, position: u64, bytes: u64, took: Nanos) {
        let cache = self.profile.transfer_time(u64::MAX, CACHE_BYTES_MAX);
        let transfer = self.profile.transfer_time(position, bytes);
        self.unsettled = self.unsettled.saturating_add(transfer).saturating_sub(took).min(cache);
    }

    /// Learns from a commit.
    pub fn sync_took(&mut self, what: SyncScope, took: Nanos) {
        let own = took.saturating_sub(std::mem::take(&mut self.unsettled)).as_secs_f64();
        let learned = match what {
            SyncScope::Journal => &mut self.commit,
            SyncScope::DriveCache => &mut self.flush,
        };
        let known = learned.as_secs_f64();
        // A hang is not the cost of a commit: even after an hour's hang, commits must be granted within a minute.
        let own = own.min(OUTLIER * known.max(COMMIT_KNOWN_MIN));
        let weight = if own > known { RISE } else { FALL };
        *learned = Nanos::from_secs_f64(known + (own - known) * weight);
        debug_assert!(
            (known.min(own) - ROUNDING..=known.max(own) + ROUNDING).contains(&learned.as_secs_f64()),
            "learned beyond the observation"
        );
    }

    /// Ratio of the disk's times to those of its profile, at least 1.0. Admission multiplies its costs by it.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        let recurring = (self.stalled_seconds - self.longest_stall_seconds).max(0.0);
        let lately = self.spells.iter().copied().fold(f64::INFINITY, f64::min);
        let ratio = ((self.took_seconds + recurring) / self.predicted_seconds).max(lately);
        debug_assert!(ratio.is_finite(), "costs multiplied by this decide on every grant");
        if ratio <= TOLERANCE { 1.0 } else { ratio }
    }

    /// Time that the disk has lost against its profile and not regained, in seconds. On a disk that keeps its profile it is
    /// mostly zero, under any load; on a slower disk it grows from the first slow read on.
    #[must_use]
    pub const fn lost_seconds(&self) -> f64 {
        self.lost_seconds
    }

    /// Time of a read by the profile, without correction, for [`CostModel::observe_read`].
    #[must_use]
    pub fn predicted_read(&self, head: u64, position: u64, bytes: u64) -> Nanos {
        self.access(head, position).saturating_add(self.profile.transfer_time(position, bytes))
    }

    fn access(&self, head: u64, position: u64) -> Nanos {
        if head == position { Nanos::ZERO } else { self.profile.access_time(head.abs_diff(position)) }
    }

    fn corrected(&self, time: Nanos) -> Nanos {
        Nanos::from_secs_f64(time.as_secs_f64() * self.slowdown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_disk_is_believed_soon_and_an_outlier_is_not() {
        let mut cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let predicted = Nanos::from_millis(100);
        for _ in 0..20 {
            cost.observe_read(predicted, Nanos::from_millis(100));
        }
        cost.observe_read(predicted, Nanos::from_millis(300));
        assert!(cost.slowdown() < 1.1);
        for _ in 0..60 {
            cost.observe_read(predicted, Nanos::from_millis(130));
        }
        assert!((1.2..1.35).contains(&cost.slowdown()), "{}", cost.slowdown());
    }

    #[test]
    fn a_disk_that_becomes_slow_is_known_after_seconds_and_trusted_again_as_soon() {
        let mut cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let chunk = Nanos::from_millis(10);
        let mut after = |seconds: u64, factor: u64| {
            (0..100 * seconds / factor).for_each(|_| cost.observe_read(chunk, chunk.saturating_mul(factor)));
            cost.slowdown()
        };
        assert!(after(10, 1) <= 1.0);
        let soon = after(1, 2);
        assert!((1.1..1.7).contains(&soon), "a second proves little: {soon}");
        assert!((1.9..2.01).contains(&after(1, 2)));
        let recovers = after(1, 1);
        assert!((1.1..1.5).contains(&recovers), "{recovers}");
        assert!(after(15, 1) <= 1.1);
    }

    #[test]
    fn time_is_lost_by_a_slower_disk_and_not_by_scatter() {
        let mut cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let chunk = Nanos::from_millis(10);
        let mut after = |reads: u64, percent: &[u64]| {
            let took =
                (0..).map(|nth: u64| Nanos(chunk.0 * percent[usize::try_from(nth).unwrap_or(0) % percent.len()] / 100));
            took.zip(0..reads).for_each(|(took, _)| cost.observe_read(chunk, took));
            cost.lost_seconds()
        };
        assert!(after(20_000, &[70, 130, 110, 96]) < 0.05, "every read scatters by a third");
        let lost = after(500, &[110]);
        assert!((0.29..0.36).contains(&lost), "five seconds' reads took a tenth longer: {lost}");
        assert!((0.99..=1.0).contains(&after(300, &[250])));
        assert!(after(4000, &[100]) < 0.01, "made up for in time");
    }

    #[test]
    fn no_few_reads_prove_that_a_disk_is_slow() {
        let mut cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let chunk = Nanos::from_millis(10);
        for reads in [0, 1000] {
            (0..reads).for_each(|_| cost.observe_read(chunk, chunk));
            // Each needed a revolution and a seek more than it should have.
            (0..8).for_each(|_| cost.observe_read(chunk, chunk.saturating_mul(4)));
            assert!(cost.slowdown() < 1.2, "after {reads} reads: {}", cost.slowdown());
        }
    }

    #[test]
    fn a_stall_is_forgiven_and_stalls_that_recur_are_not() {
        let mut cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let chunk = Nanos::from_millis(10);
        let mut after = |seconds: u32, stall_in_each: Nanos| {
            for _ in 0..seconds {
                (0..100).for_each(|_| cost.observe_read(chunk, chunk));
                cost.observe_read(chunk, chunk.saturating_add(stall_in_each));
            }
            cost.slowdown()
        };
        assert!(after(1, Nanos::from_secs(2)) <= 1.0);
        let recurring = after(8, Nanos::from_secs(2));
        assert!((2.0..3.0).contains(&recurring), "two seconds of three are lost: {recurring}");
        let healed = after(20, Nanos::ZERO);
        assert!(healed < 1.1, "{healed}");
    }

    #[test]
    fn a_disk_that_hung_with_several_reads_out_is_admitted_to_again() {
        let mut cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let chunk = Nanos::from_millis(10);
        (0..1000).for_each(|_| cost.observe_read(chunk, chunk));
        // Both reads that were out waited for the same hour. A slowdown without bound would admit no stream, and with
        // no reads to learn from would stay.
        (0..2).for_each(|_| cost.observe_read(chunk, Nanos::from_secs(3600)));
        assert!(cost.slowdown() < 2.2, "{}", cost.slowdown());
    }

    #[test]
    fn a_hang_does_not_teach_that_no_time_is_long_enough() {
        let mut cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        cost.sync_took(SyncScope::Journal, Nanos::from_secs(3600));
        assert!(cost.commit() <= Nanos::from_millis(500), "the bound holds");
    }

    #[test]
    fn commits_settle_near_a_high_quantile() {
        let mut cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        for n in 0..400u64 {
            cost.sync_took(SyncScope::Journal, Nanos::from_millis(if n % 10 == 0 { 60 } else { 30 }));
        }
        let learned = cost.commit();
        assert!(learned > Nanos::from_millis(33) && learned < Nanos::from_millis(61), "{learned}");
    }

    #[test]
    fn an_unawaited_flush_does_not_change_the_commit_cost() {
        let mut cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let awaited = cost.commit();
        for _ in 0..200 {
            cost.sync_took(SyncScope::DriveCache, Nanos::from_millis(10));
        }
        assert_eq!(cost.commit(), awaited);
        assert!(cost.sync_time(SyncScope::DriveCache) < Nanos::from_millis(11));
    }
}
