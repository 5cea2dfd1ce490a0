//! The reads with which a stream starts, before its regular ones.
//!
//! Promise: the first read brings the burst and the look-ahead, later ones double until they are as long as a block. Not here: the round
//! with room for them (`disk_table`).

use units::Nanos;

use super::demand_load::{DemandKind, DiskDemand, RoundLoad};
use super::rounds::{LOOKAHEAD_ROUNDS, SLOTS, slot_of};

/// A start seeks twice: the head leaves its sweep for it, and then goes back to the block where it was. Follows.
const START_SEEKS: f64 = 2.0;
/// Rounds from the first read of a start to its second: the look-ahead that the first fills, and a round. Follows.
const FIRST_GAP: u64 = LOOKAHEAD_ROUNDS + 1;

/// The time of a stream's start, and the work of its disk then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartConditions {
    /// The round.
    pub round: u64,
    /// The part of it that is left, 0.0 … 1.0.
    pub remaining: f64,
    /// Disk time already waiting, in seconds, without the blocks of sessions that read whole contents.
    pub queued_seconds: f64,
    /// If all of it is one block: the earliest time at which all of it may be sent, with everything that waits for its disk.
    /// `Nanos::MAX` where that is not known.
    pub room_at: Nanos,
    /// Bytes it reads at most: of a reservation that serves one request after the other, this request's. `u64::MAX` where
    /// unknown.
    pub payload_bytes: u64,
}

impl StartConditions {
    /// The beginning of a round in which nothing waits.
    #[must_use]
    pub fn idle(round: u64) -> Self {
        Self { round, remaining: 1.0, queued_seconds: 0.0, room_at: Nanos::MAX, payload_bytes: u64::MAX }
    }
}

/// How a stream starts, in seconds of disk time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartCost {
    /// The conditions that the start meets in its round.
    pub conditions: StartConditions,
    /// Seconds of transfer per round of the stream's data.
    pub transfer_per_round: f64,
    /// Seconds of transfer of its start burst.
    pub burst_transfer: f64,
    /// Seconds of transfer of all it reads, at most.
    pub payload_transfer: f64,
}

impl StartCost {
    /// The reads of a start with its first regular block in round `first`; a recording has none, nor has a session of whole contents.
    pub(super) fn reads(&self, first: u64, demand: &DiskDemand) -> [RoundLoad; SLOTS] {
        let mut loads = [RoundLoad::default(); SLOTS];
        if demand.kind != DemandKind::Reads {
            return loads;
        }
        let (mut round, mut gap, mut left) = (self.conditions.round, 0, self.payload_transfer);
        while round < first && left > 0.0 {
            let (next, length) = next_read(round, gap, first, demand.period);
            // The first read also fills the look-ahead, which every later one only keeps up, and brings the burst.
            let is_first = gap == 0;
            let (ahead, burst, seeks) =
                if is_first { (LOOKAHEAD_ROUNDS, self.burst_transfer, START_SEEKS) } else { (0, 0.0, 1.0) };
            let transfer = ((length + ahead) as f64 * self.transfer_per_round + burst).min(left);
            let slot = &mut loads[slot_of(round - self.conditions.round)];
            *slot = slot.plus(RoundLoad { transfer, seeks, ..RoundLoad::default() });
            (round, gap, left) = (next, length, left - transfer);
            debug_assert!(left >= 0.0 && length > 0, "a start reads on, and no more than there is");
        }
        loads
    }
}

/// The round in which a stream reads after it read in `round`, `gap` rounds after the time before (0: it starts now),
/// and how many rounds later that is: regular reads lie `period` apart, one of them in `first`; a start reads small
/// and then doubles.
#[must_use]
pub fn next_read(round: u64, gap: u64, first: u64, period: u32) -> (u64, u64) {
    let period = u64::from(period);
    let next = if round >= first {
        first + ((round - first) / period + 1) * period
    } else {
        first.min(round + (2 * gap).max(FIRST_GAP))
    };
    (next, next - round)
}
