//! The time table of one disk: how many seconds of disk time each round has promised.
//!
//! A stream reads a block every `period` rounds, a power of two, so the load of every future round is known exactly:
//! [`SLOTS`] slots repeat for ever. Admission picks the slot (the *phase*) in which the stream reads, so that no round
//! holds more than its share; what a round cannot finish carries over into the next, within what streams read ahead.
//!
//! Promise: a demand is placed only if, with everything placed before, no carry-over grows beyond [`CARRY_MAX`] rounds;
//! removing a demand never turns a yes into a no. Not here: memory, network, processor (`admission`). The cost of a
//! sweep of n blocks is bounded by n equal seeks over the whole disk, since the seek curve is concave (Oyang, "A tight
//! upper bound of the lumped disk seek time for the Scan disk scheduling policy", 1995), and one seek back.

use units::Nanos;

use crate::profile::DiskProfile;

/// Rounds in the table; also the longest period.
pub const SLOTS: usize = 32;
/// Rounds a stream is read ahead when its block is asked for: its deadline lies at least this far away.
pub const LOOKAHEAD_ROUNDS: u64 = 3;
/// Rounds of work that may carry over: what is left of the look-ahead when the round itself is taken off, with half a
/// round in hand for what no model foresees. It is what lets many start in one round: placement keeps it near zero in
/// the long run.
pub const CARRY_MAX: f64 = 1.5;
/// Of so many rounds one must have room for a start.
const WINDOW: usize = 8;
/// Rounds in which a start finds room at the latest, if nobody else starts.
pub const STARTS_WITHIN: u64 = 2 * WINDOW as u64 - 1;
/// Rounds of work that may carry over where best-effort work kept the disk over the end of a round: half a round less, for
/// how long a flush takes is known less well than how long a read does.
const SLACK_CARRY_MAX: f64 = 1.0;

/// What one stream's reading (or one recording's writing) costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskDemand {
    /// Rounds between blocks: a power of two, at most [`SLOTS`].
    pub period: u32,
    /// Seconds of transfer per block.
    pub transfer: f64,
    /// Seeks per block: one, and one for each fragment.
    pub seeks: f64,
}

/// Reads beside the periodic ones while a stream starts: `load[k]` in the k-th round from now.
pub type Transient = [RoundLoad; SLOTS];

/// Disk time of a round, in the parts that add up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RoundLoad {
    /// Seconds of transfer.
    pub transfer: f64,
    /// Seeks.
    pub seeks: f64,
}

impl RoundLoad {
    fn plus(self, other: Self) -> Self {
        Self { transfer: self.transfer + other.transfer, seeks: self.seeks + other.seeks }
    }

    fn minus(self, other: Self) -> Self {
        Self { transfer: (self.transfer - other.transfer).max(0.0), seeks: (self.seeks - other.seeks).max(0.0) }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { transfer: self.transfer * factor, seeks: self.seeks * factor }
    }
}

/// The table.
#[derive(Debug, Clone)]
pub struct DiskTable {
    periodic: [RoundLoad; SLOTS],
    transient: [RoundLoad; SLOTS],
    /// First round `transient` speaks of.
    transient_from: u64,
    /// Promised to streams that have not started yet: they will be placed when they do.
    unplaced: RoundLoad,
    round: Nanos,
    /// Share of a round that may be promised.
    budget: f64,
}

impl DiskTable {
    /// An empty table; `budget` is the share of each round that may be promised, 0.0 … 1.0.
    #[must_use]
    pub fn new(round: Nanos, budget: f64) -> Self {
        Self {
            periodic: [RoundLoad::default(); SLOTS],
            transient: [RoundLoad::default(); SLOTS],
            transient_from: 0,
            unplaced: RoundLoad::default(),
            round,
            budget,
        }
    }

    /// Seconds of disk time a round with this load needs.
    #[must_use]
    pub fn seconds(&self, load: RoundLoad, profile: &DiskProfile, slowdown: f64) -> f64 {
        profile.sweep_seconds(load.seeks, load.transfer) * slowdown
    }

    /// Mean share of each round promised, 0.0 … 1.0 and above.
    #[must_use]
    pub fn promised_share(&self, profile: &DiskProfile, slowdown: f64) -> f64 {
        self.seconds(self.mean(), profile, slowdown) / self.round.as_secs_f64()
    }

    /// Whether `demand`, so many times, fits beside everything promised, in the long run.
    #[must_use]
    pub fn fits(&self, demand: &DiskDemand, times: f64, profile: &DiskProfile, slowdown: f64) -> bool {
        let load = self.mean().plus(per_round(demand).scaled(times));
        self.seconds(load, profile, slowdown) <= self.budget * self.round.as_secs_f64()
    }

    /// Promises `demand`; it must have fitted.
    pub fn promise(&mut self, demand: &DiskDemand) {
        self.unplaced = self.unplaced.plus(per_round(demand));
    }

    /// Takes a promise back that was not placed.
    pub fn withdraw(&mut self, demand: &DiskDemand) {
        self.unplaced = self.unplaced.minus(per_round(demand));
    }

    /// Finds the round after `now_round` in which a promised demand should read first, and enters it and the reads of
    /// its start. `queued_seconds` is disk time already waiting; `remaining` is what is left of this round, 0.0 … 1.0.
    /// `None`: not now, ask again next round.
    pub fn place(&mut self, demand: &DiskDemand, start: &Start, profile: &DiskProfile, slowdown: f64) -> Option<u64> {
        self.forget_before(start.round);
        let mut best: Option<(f64, u64, Transient)> = None;
        for ahead in 1..=u64::from(demand.period) {
            let first = start.round + ahead;
            let transient = start.reads(first, demand);
            let peak = self.peak_with(demand, first, &transient, start, profile, slowdown);
            if let Some(peak) = peak
                && best.as_ref().is_none_or(|(least, ..)| peak < *least - 1e-9)
            {
                best = Some((peak, first, transient));
            }
        }
        let (_, first, transient) = best?;
        self.withdraw(demand);
        self.enter(demand, first);
        for (round, load) in (start.round..).zip(transient) {
            let slot = &mut self.transient[slot_of(round)];
            *slot = slot.plus(load);
        }
        Some(first)
    }

    /// Whether a demand that fits could also start within [`STARTS_WITHIN`] rounds, whichever round it is now, once the
    /// reads of other starts are over; `start` says how large its own are. What is promised and not placed yet counts as
    /// evenly spread.
    #[must_use]
    pub fn starts(&self, demand: &DiskDemand, start: &Start, profile: &DiskProfile, slowdown: f64) -> bool {
        let mut settled = Self::new(self.round, self.budget);
        settled.periodic = self.periodic.map(|load| load.plus(self.unplaced));
        let work = settled.periodic.map(|load| self.seconds(load, profile, slowdown));
        let carried = |behind: f64, work: &f64| (behind + work - self.budget * self.round.as_secs_f64()).max(0.0);
        let mut behind = work.iter().fold(0.0, carried);
        let mut rounds = (0u64..).zip(work.map(|due| {
            let queued = behind + due;
            behind = carried(behind, &due);
            queued
        }));
        let mut has_room = |(round, queued_seconds)| {
            let start = Start { round, queued_seconds, ..*start };
            (1..=u64::from(demand.period)).any(|ahead| {
                let first = round + ahead;
                settled.peak_with(demand, first, &start.reads(first, demand), &start, profile, slowdown).is_some()
            })
        };
        // One round with room in each eight: the next is never further away than twice that.
        (0..SLOTS / WINDOW).all(|_| {
            let mut window = rounds.by_ref().take(WINDOW);
            let found = window.any(&mut has_room);
            window.for_each(drop);
            found
        })
    }

    /// For how long after the end of `round` the disk may do something else, if nothing is left of what was asked for up
    /// to then: no later round carries over more than [`SLACK_CARRY_MAX`]. `Nanos::MAX` if nothing is placed.
    #[must_use]
    pub fn slack(&self, round: u64, profile: &DiskProfile, slowdown: f64) -> Nanos {
        let length = self.round.as_secs_f64();
        let (mut behind, mut most, mut placed) = (0.0f64, 0.0f64, false);
        for at in round + 1..=round + SLOTS as u64 {
            let mut load = self.periodic[slot_of(at)];
            if at < self.transient_from + SLOTS as u64 {
                load = load.plus(self.transient[slot_of(at)]);
            }
            placed |= load.seeks > 1e-6;
            behind += self.seconds(load, profile, slowdown) - self.budget * length;
            most = most.max(behind);
        }
        if placed { Nanos::from_secs_f64((SLACK_CARRY_MAX * length - most).max(0.0)) } else { Nanos::MAX }
    }

    /// Seconds of disk time entered for a round.
    #[cfg(test)]
    pub(super) fn work_in(&self, round: u64, profile: &DiskProfile, slowdown: f64) -> f64 {
        let starts = (self.transient_from..self.transient_from + SLOTS as u64).contains(&round);
        let starts = if starts { self.transient[slot_of(round)] } else { RoundLoad::default() };
        self.seconds(self.periodic[slot_of(round)].plus(starts), profile, slowdown)
    }

    /// The share of each round that may be promised.
    pub(super) const fn budget(&self) -> f64 {
        self.budget
    }

    /// Takes a placed demand out: its regular reads, of which one is in round `first`, and what is still to come of its start.
    pub fn remove(&mut self, demand: &DiskDemand, start: &Start, first: u64) {
        let load = RoundLoad { transfer: demand.transfer, seeks: demand.seeks };
        self.each_slot(demand, first, |slot| *slot = slot.minus(load));
        for (round, load) in (start.round..).zip(start.reads(first, demand)) {
            if round >= self.transient_from {
                let slot = &mut self.transient[slot_of(round)];
                *slot = slot.minus(load);
            }
        }
    }

    fn enter(&mut self, demand: &DiskDemand, first: u64) {
        let load = RoundLoad { transfer: demand.transfer, seeks: demand.seeks };
        self.each_slot(demand, first, |slot| *slot = slot.plus(load));
    }

    fn each_slot(&mut self, demand: &DiskDemand, first: u64, mut change: impl FnMut(&mut RoundLoad)) {
        let period = demand.period.max(1) as usize;
        let phase = slot_of(first) % period;
        self.periodic.iter_mut().skip(phase).step_by(period).for_each(&mut change);
    }

    /// The load of the fullest round the demand would read in, if all rounds from now on can be kept.
    fn peak_with(
        &self,
        demand: &DiskDemand,
        first: u64,
        transient: &Transient,
        start: &Start,
        profile: &DiskProfile,
        slowdown: f64,
    ) -> Option<f64> {
        let round = self.round.as_secs_f64();
        let own = RoundLoad { transfer: demand.transfer, seeks: demand.seeks };
        let reads = |at: u64| at >= first && (at - first).is_multiple_of(u64::from(demand.period.max(1)));
        let (mut backlog, mut peak) = (start.queued_seconds, 0.0f64);
        // Twice round the table: once with the start's reads, once more to see that the carry-over does not grow.
        for ahead in 0..2 * SLOTS as u64 {
            let at = start.round + ahead;
            let mut load = if ahead == 0 { RoundLoad::default() } else { self.periodic[slot_of(at)] };
            if ahead < SLOTS as u64 {
                load = load.plus(transient[slot_of(ahead)]);
                if ahead > 0 {
                    load = load.plus(self.transient[slot_of(at)]);
                }
            }
            if reads(at) {
                load = load.plus(own);
                peak = peak.max(self.seconds(load, profile, slowdown));
            }
            let share = if ahead == 0 { start.remaining } else { 1.0 };
            backlog = (backlog + self.seconds(load, profile, slowdown) - share * self.budget * round).max(0.0);
            if backlog > CARRY_MAX * round {
                return None;
            }
        }
        Some(peak)
    }

    fn mean(&self) -> RoundLoad {
        let sum = self.periodic.iter().fold(RoundLoad::default(), |sum, load| sum.plus(*load));
        sum.scaled(1.0 / SLOTS as f64).plus(self.unplaced)
    }

    fn forget_before(&mut self, round: u64) {
        let passed = round.saturating_sub(self.transient_from).min(SLOTS as u64);
        for ahead in 0..passed {
            self.transient[slot_of(self.transient_from + ahead)] = RoundLoad::default();
        }
        self.transient_from = self.transient_from.max(round);
    }
}

/// When a stream starts, and what its disk has to do then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// The round.
    pub round: u64,
    /// What is left of it, 0.0 … 1.0.
    pub remaining: f64,
    /// Disk time already waiting, in seconds.
    pub queued_seconds: f64,
    /// Bytes it reads at most: of a reservation that serves one request after the other, this request's. `u64::MAX` where
    /// unknown.
    pub payload_bytes: u64,
}

impl Moment {
    /// The beginning of a round in which nothing waits.
    #[must_use]
    pub fn idle(round: u64) -> Self {
        Self { round, remaining: 1.0, queued_seconds: 0.0, payload_bytes: u64::MAX }
    }
}

/// How a stream starts, in seconds of disk time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start {
    /// The round it starts in.
    pub round: u64,
    /// What is left of it, 0.0 … 1.0.
    pub remaining: f64,
    /// Disk time already waiting, in seconds.
    pub queued_seconds: f64,
    /// Seconds of transfer per round of the stream's data.
    pub transfer_per_round: f64,
    /// Seconds of transfer of its start burst.
    pub burst_transfer: f64,
    /// Seconds of transfer of all it reads, at most.
    pub payload_transfer: f64,
}

impl Start {
    /// The reads of a start whose first regular block is in round `first`.
    fn reads(&self, first: u64, demand: &DiskDemand) -> Transient {
        let mut loads = [RoundLoad::default(); SLOTS];
        let (mut round, mut gap, mut left) = (self.round, 0, self.payload_transfer);
        while round < first && left > 0.0 {
            let (next, length) = next_read(round, gap, first, demand.period);
            // The first read also fills the look-ahead, which every later one only keeps up, and brings the burst. It leaves
            // the sweep, and somebody's block is gone back to behind it.
            let is_first = gap == 0;
            let (ahead, burst, seeks) =
                if is_first { (LOOKAHEAD_ROUNDS, self.burst_transfer, 2.0) } else { (0, 0.0, 1.0) };
            let transfer = ((length + ahead) as f64 * self.transfer_per_round + burst).min(left);
            let slot = &mut loads[slot_of(round - self.round)];
            *slot = slot.plus(RoundLoad { transfer, seeks });
            (round, gap, left) = (next, length, left - transfer);
        }
        loads
    }
}

/// The round in which a stream reads after it read in `round`, `gap` rounds after the time before (0: it starts now),
/// and how many rounds later that is: regular reads lie `period` apart, one of them in `first`; a start reads small
/// and then doubles.
#[must_use]
pub fn next_read(round: u64, gap: u64, first: u64, period: u32) -> (u64, u64) {
    let period = u64::from(period.max(1));
    let next = if round >= first {
        first + ((round - first) / period + 1) * period
    } else {
        first.min(round + (2 * gap).max(4))
    };
    (next, next - round)
}

fn per_round(demand: &DiskDemand) -> RoundLoad {
    RoundLoad { transfer: demand.transfer, seeks: demand.seeks }.scaled(1.0 / f64::from(demand.period.max(1)))
}

fn slot_of(round: u64) -> usize {
    usize::try_from(round % SLOTS as u64).expect("below SLOTS")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Nanos = Nanos::from_secs(1);

    fn start(round: u64) -> Start {
        Start {
            round,
            remaining: 1.0,
            queued_seconds: 0.0,
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
        let profile = DiskProfile::spindle_default();
        let demand = DiskDemand { period: 16, transfer: 0.15, seeks: 1.0 };
        let mut table = DiskTable::new(ROUND, 0.95);
        let mut placed = vec![];
        let mut round = 1000;
        while table.fits(&demand, 1.0, &profile, 1.0) {
            table.promise(&demand);
            round += 3;
            let first = table.place(&demand, &start(round), &profile, 1.0).expect("fits in the long run, so places");
            placed.push(first);
        }
        assert!((80..=101).contains(&placed.len()), "about 95 % / (160..180 ms per 16 s): {}", placed.len());
        let share = table.promised_share(&profile, 1.0);
        assert!((0.93..=0.95).contains(&share));
        let last = placed.pop().expect("one at least");
        table.remove(&demand, &start(round), last);
        assert!(table.fits(&demand, 1.0, &profile, 1.0), "removing one makes room for one");
        for first in placed {
            table.remove(&demand, &start(round), first);
        }
        assert!(table.promised_share(&profile, 1.0) < 1e-6);
    }

    #[test]
    fn who_leaves_takes_along_what_its_start_had_still_to_read() {
        let profile = DiskProfile::spindle_default();
        let demand = DiskDemand { period: 16, transfer: 0.16, seeks: 1.0 };
        let mut table = DiskTable::new(ROUND, 0.95);
        table.promise(&demand);
        let first = table.place(&demand, &start(1000), &profile, 1.0).expect("nothing else is placed");
        assert!(table.work_in(1000, &profile, 1.0) > 0.05);
        table.remove(&demand, &start(1000), first);
        assert!((1000..1032).all(|round| table.work_in(round, &profile, 1.0) < 1e-9));
    }

    #[test]
    fn a_slower_disk_is_promised_less() {
        let profile = DiskProfile::spindle_default();
        let demand = DiskDemand { period: 16, transfer: 0.15, seeks: 1.0 };
        let count = |slowdown: f64| {
            let mut table = DiskTable::new(ROUND, 0.95);
            let mut count = 0;
            while table.fits(&demand, 1.0, &profile, slowdown) {
                table.promise(&demand);
                count += 1;
            }
            count
        };
        let ratio = f64::from(count(1.3)) / f64::from(count(1.0));
        assert!((0.74..0.80).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_start_is_charged_what_lasts_to_its_next_read_and_the_look_ahead() {
        let demand = DiskDemand { period: 16, transfer: 0.16, seeks: 1.0 };
        // A round of data is 0.01 s; the first read is seven of them, those after 4 and 12 rounds are eight and four.
        let reads = |start: Start| {
            let loads = start.reads(1016, &demand);
            [0, 4, 12].map(|round| (1000.0 * loads[round].transfer).round())
        };
        let alone = start(1000);
        assert_eq!(reads(alone), [70.0, 80.0, 40.0]);
        assert_eq!(reads(Start { burst_transfer: 0.02, ..alone }), [90.0, 80.0, 40.0]);

        // What lies behind the end of what it reads is not.
        assert_eq!(reads(Start { payload_transfer: 0.02, ..alone }), [20.0, 0.0, 0.0]);
        assert_eq!(reads(Start { payload_transfer: 0.1, ..alone }), [70.0, 30.0, 0.0]);
        assert_eq!(reads(Start { payload_transfer: 0.16, ..alone }), [70.0, 80.0, 10.0]);
    }

    #[test]
    fn slack_is_what_the_fullest_rounds_to_come_leave() {
        let profile = DiskProfile::spindle_default();
        let mut table = DiskTable::new(ROUND, 0.9);
        assert_eq!(table.slack(1000, &profile, 1.0), Nanos::MAX, "nobody reads");
        let demand = DiskDemand { period: 32, transfer: 0.5, seeks: 1.0 };
        let alone = Start { transfer_per_round: 0.0, ..start(1000) };
        let first = (0..32).map(|_| table.place(&demand, &alone, &profile, 1.0).expect("a slot for each"));
        let first: Vec<u64> = first.collect();
        assert_eq!(table.slack(1100, &profile, 1.0), ROUND, "each round makes good for some of it");
        // Another one in three rounds that follow each other: what they carry over is not there to be lent.
        (0..3).for_each(|ahead| table.enter(&demand, 1201 + ahead));
        let slack = table.slack(1200, &profile, 1.0).as_secs_f64();
        assert!((0.4..0.7).contains(&slack), "three times 0.14 s too much: {slack}");
        first.into_iter().for_each(|round| table.remove(&demand, &alone, round));
        assert_eq!(table.slack(1200, &profile, 1.0), ROUND, "half a round in three of 32");
    }
}
