//! The rounds of a time table: their number, the lead of reads over them, and the part of a round that may carry over.

/// Rounds in the table; also the longest period. Chosen: the longest block of the longest round is 32 MiB, 30 s of 8.8 Mbit/s.
pub const SLOTS: usize = 32;
/// Rounds a stream is read ahead when its block is requested: its deadline lies at least this far away. Decision 0007, table of
/// constants.
pub const LOOKAHEAD_ROUNDS: u64 = 3;
/// Rounds of work that may carry over into the next: the look-ahead, less the round itself, and less half a round that is kept
/// for delays that no model foresees. Many streams can start in one round because of it; in the long run, placement keeps the
/// carry-over near zero. Decision 0007, table of constants.
pub const CARRY_MAX: f64 = 1.5;
/// Rounds in which a recording's block is written: from the round of its place on, with its commit. Decision 0057.
pub const WRITE_ROUNDS: u64 = 2;

/// The slot of a round.
pub(super) fn slot_of(round: u64) -> usize {
    usize::try_from(round % SLOTS as u64).expect("below SLOTS")
}
