//! The load that a stream or a recording puts on its disk: of one block, and of all blocks of a round.
//!
//! Promise: loads add up. Not here: the rounds that they lie in (`disk_table`).

use super::rounds::{CARRY_MAX, LOOKAHEAD_ROUNDS, SLOTS, WRITE_ROUNDS};

/// Fewer writes than that are a rounding error. Chosen.
const NO_WRITE: f64 = 1e-6;
/// Sums of loads may differ by so much from the load taken out of them: rounding errors. Chosen.
const ENTERED_TOLERANCE: f64 = 1e-6;
/// Rounds of work that may carry over from a round in which a block is written: a write has a round less than a read, and half a
/// round is kept as for that.
const WRITE_CARRY_MAX: f64 = CARRY_MAX - (LOOKAHEAD_ROUNDS - WRITE_ROUNDS) as f64;

/// The cost of one stream's reading (or one recording's writing).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskDemand {
    /// Rounds between blocks: a power of two, at most [`SLOTS`].
    pub period: u32,
    /// Seconds of transfer per block.
    pub transfer: f64,
    /// Seeks per block: one, and one for each fragment.
    pub seeks: f64,
    /// Which blocks these are.
    pub kind: DemandKind,
}

/// Which blocks a demand is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemandKind {
    /// A stream reads one every period, and starts before that.
    Reads,
    /// A session reads whole contents, each a block, at times that only its player knows: the demand is spread over all rounds
    /// (its period is 1), and needs no start. Decision 0060.
    Spread,
    /// A recording writes one every period.
    Writes,
}

impl DiskDemand {
    /// It has no phase, but a part of every round.
    pub(super) const fn is_spread(&self) -> bool {
        matches!(self.kind, DemandKind::Spread)
    }

    pub(super) fn writes(&self) -> bool {
        self.kind == DemandKind::Writes
    }

    /// True if its rounds fit into the table and its cost is one.
    pub(super) fn is_sound(&self) -> bool {
        let is_cost = |value: f64| value.is_finite() && value >= 0.0;
        self.period.is_power_of_two() && self.period as usize <= SLOTS && is_cost(self.transfer) && is_cost(self.seeks)
    }

    /// The same with this factor of reading in each block.
    pub(super) fn with(self, more: RoundLoad) -> Self {
        Self { transfer: self.transfer + more.transfer, seeks: self.seeks + more.seeks, ..self }
    }

    pub(super) fn block(&self) -> RoundLoad {
        let Self { transfer, seeks, .. } = *self;
        if self.writes() {
            return RoundLoad { write_transfer: transfer, writes: seeks, ..RoundLoad::default() };
        }
        RoundLoad { transfer, seeks, ..RoundLoad::default() }
    }

    pub(super) fn per_round(&self) -> RoundLoad {
        self.block().scaled(1.0 / f64::from(self.period))
    }
}

/// Disk time of a round, in the parts that add up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RoundLoad {
    /// Seconds of transfer of the reads.
    pub transfer: f64,
    /// Reads.
    pub seeks: f64,
    /// Seconds of transfer of the writes.
    pub write_transfer: f64,
    /// Writes; all of a round are made in one sweep, with one commit behind it.
    pub writes: f64,
}

impl RoundLoad {
    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, |one, other| one + other)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.with(other, |one, other| (one - other).max(0.0))
    }

    /// True if `part` can be taken out: it was entered before.
    pub(super) fn holds(self, part: Self) -> bool {
        let left = self.with(part, |all, part| all + ENTERED_TOLERANCE - part);
        left.transfer.min(left.seeks).min(left.write_transfer).min(left.writes) >= 0.0
    }

    pub(super) fn scaled(self, factor: f64) -> Self {
        debug_assert!(factor.is_finite() && factor >= 0.0, "a load is scaled by a count or a share");
        self.with(self, |one, _| one * factor)
    }

    fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            transfer: of(self.transfer, other.transfer),
            seeks: of(self.seeks, other.seeks),
            write_transfer: of(self.write_transfer, other.write_transfer),
            writes: of(self.writes, other.writes),
        }
    }

    /// True if anything is written in it: a commit lies behind that.
    pub(super) fn has_writes(&self) -> bool {
        self.writes > NO_WRITE
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seeks + self.writes <= NO_WRITE
    }

    /// The work that may carry over from a round with this load, in rounds.
    pub(super) fn carry_max(&self) -> f64 {
        if self.has_writes() { WRITE_CARRY_MAX } else { CARRY_MAX }
    }
}
