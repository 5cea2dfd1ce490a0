//! Commands that the plane was given, as tests compare them.

use units::{BitRate, ReservationId};

/// Orders that the plane received, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaneOrder {
    Start { rate: Option<BitRate>, burst_bytes: u64, held: Option<ReservationId>, hold: bool },
    Beside(ReservationId),
    Stop,
    Reserve(BitRate),
    Release(ReservationId),
    Drain,
}
