//! The time table of one disk: the seconds of disk time that are promised in each round.
//!
//! A stream reads a block every `period` rounds, a power of two, so the load of every future round is known exactly: [`SLOTS`]
//! slots repeat for ever. Admission picks the slot (the *phase*) in which the stream reads, so that no round exceeds its share;
//! work that a round cannot finish carries over into the next rounds, within the look-ahead of streams.
//!
//! Promise: a demand is placed only if, with everything placed before, no carry-over grows beyond [`CARRY_MAX`](super::rounds::CARRY_MAX) rounds;
//! removing a demand never turns a yes into a no. Not here: memory, network, processor (`admission`). The cost of a
//! sweep of n blocks is bounded by n equal seeks over the whole disk, since the seek curve is concave (Oyang, "A tight
//! upper bound of the lumped disk seek time for the Scan disk scheduling policy", 1995), and one seek back.

use units::Nanos;

use super::MARGIN;
use super::demand_load::{DiskDemand, RoundLoad};
use super::rounds::{SLOTS, slot_of};
use super::start_cost::{StartConditions, StartCost};
use crate::profile::DiskProfile;

/// A seek in a sweep crosses the disk's capacity divided by this, as with eight reads a round. Chosen; used only to compare demands.
const HOPS: u64 = 8;
/// Seconds below which a time counts as a rounding error. Chosen.
pub(crate) const ROUNDING: f64 = 1e-9;
/// Rounds of work that may carry over after best-effort work beyond the end of a round: half a round less than otherwise,
/// because the time of a flush is less certain than that of a read. Decision 0007, table of constants.
const JOB_CARRY_MAX: f64 = 1.0;

/// A batch of writes gets a commit of its own if it takes at least this multiple of the commit's time; a recording with less
/// joins the batch of others. Chosen.
const BATCH_COMMITS: f64 = 4.0;

/// The promises of the coming rounds.
#[derive(Debug, Clone, Default)]
pub(super) struct PlannedLoads {
    /// Load of regular reads, by slot.
    periodic: [RoundLoad; SLOTS],
    /// Load of demands that have a part of every round.
    spread: RoundLoad,
    /// Load of starts, by slot, from the present round on.
    starting: [RoundLoad; SLOTS],
    starting_from: u64,
}

impl PlannedLoads {
    pub(super) fn at(&self, round: u64) -> RoundLoad {
        let slot = slot_of(round);
        let has_starts = (self.starting_from..self.starting_from + SLOTS as u64).contains(&round);
        let regular = self.periodic[slot].plus(self.spread);
        if has_starts { regular.plus(self.starting[slot]) } else { regular }
    }

    /// Enters a demand whose first regular read is in round `first`, and the reads of its start.
    pub(super) fn enter_start(&mut self, demand: &DiskDemand, start: &StartCost, first: u64) {
        self.enter(demand, first);
        for (round, load) in (start.conditions.round..).zip(start.reads(first, demand)) {
            let slot = &mut self.starting[slot_of(round)];
            *slot = slot.plus(load);
        }
    }

    fn enter(&mut self, demand: &DiskDemand, first: u64) {
        let load = demand.block();
        self.each_slot(demand, first, |slot| *slot = slot.plus(load));
    }

    fn each_slot(&mut self, demand: &DiskDemand, first: u64, change: impl FnMut(&mut RoundLoad)) {
        let period = demand.period as usize;
        self.periodic.iter_mut().skip(slot_of(first) % period).step_by(period).for_each(change);
    }

    pub(super) fn forget_starts_before(&mut self, round: u64) {
        let passed = round.saturating_sub(self.starting_from).min(SLOTS as u64);
        for ahead in 0..passed {
            self.starting[slot_of(self.starting_from + ahead)] = RoundLoad::default();
        }
        self.starting_from = self.starting_from.max(round);
    }
}

/// The table.
#[derive(Debug)]
pub struct DiskTable {
    profile: DiskProfile,
    /// Ratio of the disk's times to those of its profile.
    slowdown: f64,
    round: Nanos,
    /// Longest time to first byte of a start.
    first_byte_max: Nanos,
    /// Share of a round that may be promised.
    budget: f64,
    planned: PlannedLoads,
    /// Promises to streams that have not started yet: they get a place at their start.
    unplaced: RoundLoad,
    /// Span of the disk, in bytes, that contains the writes of a round.
    write_span: u64,
}

impl DiskTable {
    /// An empty table of a disk with this profile; `budget` is the share of each round that may be promised, 0.0 … 1.0, and
    /// `first_byte_max` the longest time to first byte.
    #[must_use]
    pub fn new(profile: DiskProfile, round: Nanos, budget: f64, first_byte_max: Nanos) -> Self {
        assert!(round > Nanos::ZERO && (0.0..=1.0).contains(&budget), "a share of a round is promised");
        let (planned, unplaced, write_span) = (PlannedLoads::default(), RoundLoad::default(), profile.capacity.0);
        Self { profile, slowdown: 1.0, round, first_byte_max, budget, planned, unplaced, write_span }
    }

    /// Begins anew with another profile, for a disk without promises; returns the old one.
    pub(super) fn replace_profile(&mut self, profile: DiskProfile, round: Nanos) -> DiskProfile {
        std::mem::replace(self, Self::new(profile, round, self.budget, self.first_byte_max)).profile
    }

    /// The disk's profile.
    #[must_use]
    pub const fn profile(&self) -> &DiskProfile {
        &self.profile
    }

    /// The length of a round.
    #[must_use]
    pub const fn round(&self) -> Nanos {
        self.round
    }

    /// The time to first byte.
    pub(super) const fn first_byte_max(&self) -> Nanos {
        self.first_byte_max
    }

    /// The loads of the coming rounds.
    pub(super) const fn planned(&self) -> &PlannedLoads {
        &self.planned
    }

    /// The load of each round when all promised streams run; streams without a place count evenly in all rounds.
    pub(super) fn settled(&self) -> PlannedLoads {
        let periodic = self.planned.periodic.map(|load| load.plus(self.unplaced));
        PlannedLoads { periodic, spread: self.planned.spread, ..PlannedLoads::default() }
    }

    /// Sets the ratio of the disk's times to those of its profile.
    pub const fn set_slowdown(&mut self, slowdown: f64) {
        self.slowdown = slowdown.max(1.0);
    }

    /// Additional seconds of a write at an unknown position, for the stroke of the head from the other writes of the round to
    /// that position. Zero if the other writes are spread over the whole disk.
    pub(super) fn stroke_seconds(&self) -> f64 {
        let is_anywhere = self.write_span >= self.profile.capacity.0;
        if is_anywhere { 0.0 } else { self.profile.access_time(self.profile.capacity.0).as_secs_f64() }
    }

    /// Sets the span of the disk, in bytes, that contains the writes of a round.
    pub(super) const fn set_write_span(&mut self, bytes: u64) {
        self.write_span = bytes;
    }

    /// Seconds of disk time that a round with this load needs.
    pub(super) fn seconds(&self, load: RoundLoad) -> f64 {
        self.sweep(load.seeks, load.transfer) + self.batch(load)
    }

    fn sweep(&self, seeks: f64, transfer: f64) -> f64 {
        self.profile.sweep_seconds(seeks, transfer) * self.slowdown
    }

    /// Seconds of the writes of a round: a sweep and a commit.
    fn batch(&self, load: RoundLoad) -> f64 {
        let commit = if load.has_writes() { self.profile.flush.as_secs_f64() } else { 0.0 };
        self.profile.sweep_seconds_within(self.write_span, load.writes, load.write_transfer) * self.slowdown + commit
    }

    /// Mean seconds of all rounds, with `more` in addition to the promises. Writes without a place count as a separate batch.
    fn mean_seconds(&self, more: RoundLoad) -> f64 {
        let (mean, unplaced) = (self.mean().plus(more), self.unplaced.plus(more));
        let placed = self.planned.periodic.iter().map(|load| self.batch(*load)).sum::<f64>() / SLOTS as f64;
        let commits = unplaced.writes.min(1.0) * self.profile.flush.as_secs_f64();
        self.sweep(mean.seeks, mean.transfer) + placed + self.sweep(unplaced.writes, unplaced.write_transfer) + commits
    }

    /// Seconds of disk time that may be promised in each round.
    pub(super) fn seconds_to_promise(&self) -> f64 {
        self.budget * self.round.as_secs_f64()
    }

    /// Approximate seconds of disk time of this transfer and its seeks in a sweep, with seeks over an eighth of the disk. Used
    /// to compare demands; a sum over streams is no bound.
    #[must_use]
    pub(super) fn seconds_among_others(&self, transfer: f64, seeks: f64) -> f64 {
        transfer
            + seeks * self.profile.access_time(self.profile.capacity.0 / HOPS).as_secs_f64()
                / self.profile.parallel_requests()
    }

    /// True if `demand` fits in place of `instead`, its present promise (`None` for a follower). A promise whose cost has grown
    /// (fragments, a slower zone) may also use the share of best effort; only new promises are refused for that.
    pub(super) fn fits_instead(&self, demand: &DiskDemand, instead: Option<&DiskDemand>) -> bool {
        let others = self.mean().minus(instead.map(DiskDemand::per_round).unwrap_or_default());
        self.seconds(others.plus(demand.per_round())) <= (1.0 - MARGIN) * self.round.as_secs_f64()
    }

    /// Mean promised share of a round, from 0.0; may exceed 1.0.
    #[must_use]
    pub fn promised_share(&self) -> f64 {
        self.mean_seconds(RoundLoad::default()) / self.round.as_secs_f64()
    }

    /// Mean share of a round that may still be promised.
    #[must_use]
    pub fn free_share(&self) -> f64 {
        (self.budget - self.promised_share()).max(0.0)
    }

    /// True if this multiple of `demand` fits beside all promises, as a mean over the rounds.
    #[must_use]
    pub fn fits(&self, demand: &DiskDemand, times: f64) -> bool {
        self.mean_seconds(demand.per_round().scaled(times)) <= self.seconds_to_promise()
    }

    /// Promises `demand`; a spread demand is entered in all rounds at once.
    pub fn promise(&mut self, demand: &DiskDemand) {
        assert!(demand.is_sound(), "{demand:?}");
        let promised = self.promised_mut(demand);
        *promised = promised.plus(demand.per_round());
    }

    /// Withdraws a promise without a place.
    pub fn withdraw(&mut self, demand: &DiskDemand) {
        let promised = self.promised_mut(demand);
        debug_assert!(promised.holds(demand.per_round()), "a promise is taken back once: {demand:?}");
        *promised = promised.minus(demand.per_round());
    }

    const fn promised_mut(&mut self, demand: &DiskDemand) -> &mut RoundLoad {
        if demand.is_spread() { &mut self.planned.spread } else { &mut self.unplaced }
    }

    /// Finds the round after the start for the first regular read of a promised demand, and enters the demand and the reads of
    /// its start. `None`: there is no room yet; the caller tries again in the next round.
    pub fn place(&mut self, demand: &DiskDemand, start: &StartCost) -> Option<u64> {
        self.planned.forget_starts_before(start.conditions.round);
        let first = self.first_round(&self.planned, demand, start)?;
        assert!(first > start.conditions.round, "a start reads before its first regular round");
        self.withdraw(demand);
        self.planned.enter_start(demand, start, first);
        Some(first)
    }

    /// The rounds after the start in which a demand may begin, the round with the lowest peak first.
    #[must_use]
    pub(super) fn emptiest_rounds(&self, demand: &DiskDemand, start: &StartCost) -> [Option<u64>; SLOTS] {
        let mut found = [(Nanos::MAX, None); SLOTS];
        for (place, (peak, first)) in found.iter_mut().zip(self.rounds_with_room(&self.planned, demand, start)) {
            // To the nanosecond: smaller differences come from rounding.
            *place = (Nanos::from_secs_f64(peak), Some(first));
        }
        found.sort_unstable();
        found.map(|(_, first)| first)
    }

    /// Enters a promised demand, and the reads of its start, if it can begin in round `first`.
    #[must_use]
    pub(super) fn place_at(&mut self, demand: &DiskDemand, start: &StartCost, first: u64) -> bool {
        self.planned.forget_starts_before(start.conditions.round);
        let fits = self.peak_with(&self.planned, demand, start, first).is_some();
        debug_assert!(first > start.conditions.round, "a start reads before its first regular round");
        if fits {
            self.withdraw(demand);
            self.planned.enter_start(demand, start, first);
        }
        fits
    }

    /// The round after the start, with the lowest peak, for the first regular read of a demand beside the `planned` loads.
    pub(super) fn first_round(&self, planned: &PlannedLoads, demand: &DiskDemand, start: &StartCost) -> Option<u64> {
        let lower = |best: (f64, u64), other: (f64, u64)| if other.0 < best.0 - ROUNDING { other } else { best };
        self.rounds_with_room(planned, demand, start).reduce(lower).map(|(_, first)| first)
    }

    /// The rounds after the start for the first regular read of a demand beside the `planned` loads, each with its peak.
    pub(super) fn rounds_with_room<'a>(
        &'a self,
        planned: &'a PlannedLoads,
        demand: &'a DiskDemand,
        start: &'a StartCost,
    ) -> impl Iterator<Item = (f64, u64)> + 'a {
        let rounds = (start.conditions.round + 1..).take(demand.period as usize);
        rounds.filter_map(|first| Some((self.peak_with(planned, demand, start, first)?, first)))
    }

    /// Time after the end of `round` for which the disk may do other work, if all requests up to then are served: no later
    /// round then carries over more than [`JOB_CARRY_MAX`]. `Nanos::MAX` for an empty table.
    #[must_use]
    pub fn carry_headroom(&self, round: u64) -> Nanos {
        let (mut behind, mut most, mut placed) = (0.0f64, 0.0f64, false);
        for load in (round + 1..).take(SLOTS).map(|round| self.planned.at(round)) {
            placed |= !load.is_empty();
            behind += self.seconds(load) - self.seconds_to_promise();
            most = most.max(behind);
        }
        let left = JOB_CARRY_MAX * self.round.as_secs_f64() - most;
        if placed { Nanos::from_secs_f64(left.max(0.0)) } else { Nanos::MAX }
    }

    /// Removes a placed demand: its regular reads, one of which is in round `first`, and the remaining reads of its start.
    pub fn remove(&mut self, demand: &DiskDemand, start: &StartCost, first: u64) {
        let load = demand.block();
        self.planned.each_slot(demand, first, |slot| {
            debug_assert!(slot.holds(load), "a demand is taken out of the rounds that it was entered in: {demand:?}");
            *slot = slot.minus(load);
        });
        for (round, load) in (start.conditions.round..).zip(start.reads(first, demand)) {
            if round >= self.planned.starting_from {
                let slot = &mut self.planned.starting[slot_of(round)];
                *slot = slot.minus(load);
            }
        }
    }

    /// Enters a demand whose place is fixed by another disk, even if there is no room.
    pub(super) fn enter(&mut self, demand: &DiskDemand, first: u64) {
        self.planned.enter(demand, first);
    }

    /// Exchanges a placed demand for another with the same period.
    pub(super) fn replace(&mut self, demand: &DiskDemand, by: &DiskDemand, first: u64) {
        assert_eq!((demand.period, demand.kind), (by.period, by.kind), "it keeps its rounds");
        let (old, new) = (demand.block(), by.block());
        self.planned.each_slot(demand, first, |slot| *slot = slot.minus(old).plus(new));
    }

    /// The load of the fullest round of the demand beside the `planned` loads; `None` if a round could not be kept.
    fn peak_with(&self, planned: &PlannedLoads, demand: &DiskDemand, start: &StartCost, first: u64) -> Option<f64> {
        let reads = |at: u64| at >= first && (at - first).is_multiple_of(u64::from(demand.period));
        let StartConditions { round, remaining, queued_seconds, .. } = start.conditions;
        let own = start.reads(first, demand);
        let (mut backlog, mut peak) = (queued_seconds, 0.0f64);
        // Two passes over the table: the first with the reads of the start, the second to check that the carry-over does not grow.
        for ahead in 0..2 * SLOTS {
            let at = round + ahead as u64;
            // The reads that were promised in the present round are queued or done.
            let others = if ahead == 0 { RoundLoad::default() } else { planned.at(at) };
            let mut load = others.plus(own.get(ahead).copied().unwrap_or_default());
            if reads(at) {
                let opens = demand.writes() && !load.has_writes();
                let worth = if opens { BATCH_COMMITS * self.profile.flush.as_secs_f64() } else { 0.0 };
                load = load.plus(demand.block());
                peak = peak.max(self.seconds(load) + worth);
            }
            let share = if ahead == 0 { remaining } else { 1.0 };
            backlog = (backlog + self.seconds(load) - share * self.seconds_to_promise()).max(0.0);
            if backlog > load.carry_max() * self.round.as_secs_f64() {
                return None;
            }
        }
        Some(peak)
    }

    /// Seconds of disk time that are entered for a round.
    #[cfg(test)]
    pub(super) fn work_in(&self, round: u64) -> f64 {
        self.seconds(self.planned.at(round))
    }

    fn mean(&self) -> RoundLoad {
        let sum = self.planned.periodic.iter().fold(RoundLoad::default(), |sum, load| sum.plus(*load));
        sum.scaled(1.0 / SLOTS as f64).plus(self.planned.spread).plus(self.unplaced)
    }
}

#[cfg(test)]
mod tests {
    use super::super::demand_load::DemandKind;
    use super::super::start_cost::next_read;
    use super::*;

    const ROUND: Nanos = Nanos::from_secs(1);

    fn table(budget: f64) -> DiskTable {
        DiskTable::new(DiskProfile::spindle_default(), ROUND, budget, Nanos::from_secs(10))
    }

    fn regular(period: u32, transfer: f64) -> DiskDemand {
        DiskDemand { period, transfer, seeks: 1.0, kind: DemandKind::Reads }
    }

    fn start(round: u64) -> StartCost {
        StartCost {
            conditions: StartConditions::idle(round),
            transfer_per_round: 0.01,
            burst_transfer: 0.0,
            payload_transfer: f64::INFINITY,
        }
    }

    #[test]
    fn reads_double_until_they_are_regular() {
        let (mut round, mut gap, mut rounds) = (100, 0, vec![]);
        for _ in 0..8 {
            (round, gap) = next_read(round, gap, 113, 16);
            rounds.push(round);
        }
        assert_eq!(rounds, [104, 112, 113, 129, 145, 161, 177, 193], "4, 8 rounds, then the regular ones");
    }

    #[test]
    fn the_table_fills_evenly_and_then_refuses() {
        let demand = regular(16, 0.15);
        let mut table = table(0.95);
        let mut placed = vec![];
        let mut round = 1000;
        while table.fits(&demand, 1.0) {
            table.promise(&demand);
            round += 3;
            let first = table.place(&demand, &start(round)).expect("fits in the long run, so places");
            placed.push(first);
        }
        assert!((80..=101).contains(&placed.len()), "about 95 % / (160..180 ms per 16 s): {}", placed.len());
        let share = table.promised_share();
        assert!((0.93..=0.95).contains(&share));
        let last = placed.pop().expect("one at least");
        table.remove(&demand, &start(round), last);
        assert!(table.fits(&demand, 1.0), "removing one makes room for one");
        for first in placed {
            table.remove(&demand, &start(round), first);
        }
        assert!(table.promised_share() < 1e-6);
    }

    #[test]
    fn a_removed_stream_takes_its_unread_start_along() {
        let demand = regular(16, 0.16);
        let mut table = table(0.95);
        table.promise(&demand);
        let first = table.place(&demand, &start(1000)).expect("nothing else is placed");
        assert!(table.work_in(1000) > 0.05);
        table.remove(&demand, &start(1000), first);
        assert!((1000..1032).all(|round| table.work_in(round) < 1e-9));
    }

    /// Places recordings that write for this time every 8 rounds; returns the number of rounds in 8 with writes, and their mean share.
    fn recorded(count: usize, transfer: f64) -> (usize, f64) {
        let demand = DiskDemand { period: 8, transfer, seeks: 1.0, kind: DemandKind::Writes };
        let mut table = table(0.95);
        for _ in 0..count {
            assert!(table.fits(&demand, 1.0));
            table.promise(&demand);
            table.place(&demand, &start(1000)).expect("it fits");
        }
        let written = table.planned.periodic.iter().filter(|load| load.has_writes()).count();
        (written / 4, table.promised_share())
    }

    #[test]
    fn recordings_of_a_round_share_a_commit_and_small_ones_a_round() {
        let (small, large) = (recorded(10, 0.001), recorded(2, 0.005));
        assert_eq!((small.0, large.0), (1, 1), "one commit in 8 rounds");
        assert!(small.1 < 2.0 * large.1 && small.1 < 0.03, "{small:?} {large:?}");
        let (rounds, share) = recorded(96, 0.03);
        assert_eq!(rounds, 8, "large ones are spread");
        let commits = DiskProfile::spindle_default().flush.as_secs_f64();
        let sweep = DiskProfile::spindle_default().sweep_seconds(12.0, 12.0 * 0.03);
        assert!((share - sweep - commits).abs() < 1e-6, "{share}: one commit a round, whatever their number");
    }

    #[test]
    fn a_slower_disk_is_promised_less() {
        let demand = regular(16, 0.15);
        let count = |slowdown: f64| {
            let mut table = table(0.95);
            table.set_slowdown(slowdown);
            let mut count = 0;
            while table.fits(&demand, 1.0) {
                table.promise(&demand);
                count += 1;
            }
            count
        };
        let ratio = f64::from(count(1.3)) / f64::from(count(1.0));
        assert!((0.74..0.80).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_start_is_charged_to_its_next_read_plus_look_ahead() {
        let demand = regular(16, 0.16);
        // A round of data is 0.01 s; the first read is seven of them, those after 4 and 12 rounds are eight and four.
        let reads = |start: StartCost| {
            let loads = start.reads(1016, &demand);
            [0, 4, 12].map(|round| (1000.0 * loads[round].transfer).round())
        };
        let alone = start(1000);
        assert_eq!(reads(alone), [70.0, 80.0, 40.0]);
        assert_eq!(reads(StartCost { burst_transfer: 0.02, ..alone }), [90.0, 80.0, 40.0]);

        // No bytes behind the end of the payload are read.
        assert_eq!(reads(StartCost { payload_transfer: 0.02, ..alone }), [20.0, 0.0, 0.0]);
        assert_eq!(reads(StartCost { payload_transfer: 0.1, ..alone }), [70.0, 30.0, 0.0]);
        assert_eq!(reads(StartCost { payload_transfer: 0.16, ..alone }), [70.0, 80.0, 10.0]);
    }

    #[test]
    fn carry_headroom_is_the_rest_of_the_fullest_rounds() {
        let mut table = table(0.9);
        assert_eq!(table.carry_headroom(1000), Nanos::MAX, "nobody reads");
        let demand = regular(32, 0.5);
        let alone = StartCost { transfer_per_round: 0.0, ..start(1000) };
        let first = (0..32).map(|_| {
            table.promise(&demand);
            table.place(&demand, &alone).expect("a slot for each")
        });
        let first: Vec<u64> = first.collect();
        assert_eq!(table.carry_headroom(1100), ROUND, "each round makes good for some of it");
        // Another stream in three consecutive rounds: the time that they carry over cannot be used by other work.
        (0..3).for_each(|ahead| table.planned.enter(&demand, 1201 + ahead));
        let headroom = table.carry_headroom(1200).as_secs_f64();
        assert!((0.4..0.7).contains(&headroom), "three times 0.14 s too much: {headroom}");
        first.into_iter().for_each(|round| table.remove(&demand, &alone, round));
        assert_eq!(table.carry_headroom(1200), ROUND, "half a round in three of 32");
    }
}
