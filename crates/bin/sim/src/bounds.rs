//! Settings of the plane, and the bounds that follow from them, by which the laws judge.

use dataplane::PlaneConfig;
use schedule::admission::WIRE_OVERHEAD;
use schedule::admission::rounds::LOOKAHEAD_ROUNDS;
use schedule::disk::{DEBT_PART, SAVED_PART};
use units::{BitRate, Nanos};

use crate::scenario::Scenario;

/// The settings of one run's plane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaneBounds {
    pub(crate) tick: Nanos,
    /// The round of spinning disks.
    pub(crate) round: Nanos,
    be_share: f64,
    pub(crate) link: BitRate,
    /// Longest time for which a stream keeps its reservation while its client takes nothing.
    pub(crate) stall_max: Nanos,
}

impl PlaneBounds {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let &Scenario { tick, round, be_share, link, stall_max, .. } = scenario;
        Self { tick, round, be_share, link, stall_max }
    }

    /// Time that the plane promises for starts, from the question to the first byte or to a no: the time to first byte, checked in
    /// each turn of its loop, and the first tick behind it; a slow stream's ticks are twice as long.
    pub(crate) fn first_byte_max(&self) -> Nanos {
        PlaneConfig::default().first_byte_max.saturating_add(self.tick.saturating_mul(4))
    }

    /// How much later than its rate, counted from its first byte, an unexcused stream may be: a tick's bytes are there
    /// before the time begins in which they are used. Behind a burst the clock may have begun a tick later, and a slow
    /// stream's ticks are twice as long.
    pub(crate) fn lateness_max(&self, burst_bytes: u64) -> Nanos {
        let clock = if burst_bytes == 0 { Nanos::ZERO } else { self.tick.saturating_mul(2) };
        clock.saturating_add(Nanos::from_millis(5))
    }

    /// How long best-effort work may wait for a grant, if it has a share: until that has paid the most that it may owe, and saved for
    /// the longest job, which then has the deadline of a read. By the rounds of spinning disks; those of flash are shorter.
    pub(crate) fn best_effort_wait_max(&self) -> Option<Nanos> {
        let to_earn = Nanos(self.round.0 / DEBT_PART + self.round.0 / SAVED_PART);
        let earned = |share: f64| Nanos::from_secs_f64(to_earn.as_secs_f64() / share);
        let share = Some(self.be_share).filter(|share| *share > 0.0)?;
        Some(earned(share).saturating_add(self.round.saturating_mul(LOOKAHEAD_ROUNDS)))
    }

    /// How far ahead of its rate a stream may be: slow streams are fed every second tick.
    pub(crate) fn ahead_max(&self) -> Nanos {
        self.tick.saturating_mul(8).saturating_add(Nanos::from_millis(20))
    }

    /// Longest interruption that is no stall: the time between the last byte in a socket and the player, and between ticks.
    pub(crate) fn interruption_max(&self) -> Nanos {
        self.tick.saturating_mul(4).saturating_add(Nanos::from_millis(100))
    }

    /// The payload that the link carries.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a rate")]
    pub(crate) fn payload_rate(&self) -> BitRate {
        BitRate((self.link.0 as f64 / WIRE_OVERHEAD) as u64)
    }
}
