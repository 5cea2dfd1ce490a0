//! Deadlines of a session's segments over all its contents: the law that no admitted session falls behind.
//!
//! Promise: over any span in which the session always has an open request, counted from the first byte of the first segment,
//! the bytes due are rate × time, less one segment. A segment shorter than a round counts as a round, since a session's share
//! has one seek per round (decision 0060). An early request moves only the clock of its own session (a virtual clock, Zhang
//! 1990). Not here: the excuses of a late segment (`ledger`).

use units::Nanos;

/// The clock of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionClock {
    /// No segment of the session is whole yet: its time counts from the first byte.
    Starts { lasts: Nanos },
    /// The segment requested last is due at `due`; `late` is its lateness once it is whole, zero before.
    Runs { due: Nanos, late: Nanos },
}

impl SessionClock {
    pub(crate) const NEW: Self = Self::Starts { lasts: Nanos::ZERO };

    /// Notes the request of a segment that lasts `lasts` at the session's rate.
    pub(crate) fn ask(&mut self, lasts: Nanos, now: Nanos) {
        *self = match *self {
            Self::Starts { .. } => Self::Starts { lasts },
            // A session that requests late because it was served late may add its lateness to the next due time.
            Self::Runs { due, late } => {
                Self::Runs { due: due.max(now.saturating_sub(late)).saturating_add(lasts), late: Nanos::ZERO }
            }
        };
    }

    /// Lateness at `now` of the segment requested last, whether whole or not; its first byte came at `first`.
    pub(crate) fn lag(&self, first: Option<Nanos>, now: Nanos) -> Nanos {
        match (*self, first) {
            (Self::Runs { due, .. }, _) => now.saturating_sub(due),
            (Self::Starts { lasts }, Some(first)) => now.saturating_sub(first.saturating_add(lasts)),
            (Self::Starts { .. }, None) => Nanos::ZERO,
        }
    }

    /// Notes that the segment requested last is whole.
    pub(crate) fn served(&mut self, first: Option<Nanos>, now: Nanos) {
        let due = match *self {
            Self::Starts { lasts } => first.unwrap_or(now).saturating_add(lasts),
            Self::Runs { due, .. } => due,
        };
        *self = Self::Runs { due, late: now.saturating_sub(due) };
    }

    /// Excuses all lateness until now.
    pub(crate) fn forgive(&mut self, now: Nanos) {
        if let Self::Runs { due, late } = self {
            (*due, *late) = ((*due).max(now), Nanos::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECS: fn(u64) -> Nanos = Nanos::from_secs;

    /// Asks at these times for segments of 6 s, each whole at the time next to it: how late each was.
    fn lags(clock: &mut SessionClock, segments: &[(u64, u64)]) -> Vec<u64> {
        let lag = |&(asked, whole): &(u64, u64)| {
            clock.ask(SECS(6), SECS(asked));
            let lag = clock.lag(Some(SECS(asked + 1)), SECS(whole));
            clock.served(Some(SECS(asked + 1)), SECS(whole));
            lag.0 / SECS(1).0
        };
        segments.iter().map(lag).collect()
    }

    #[test]
    fn the_first_segment_is_due_from_its_first_byte_and_the_others_behind_it() {
        assert_eq!(lags(&mut SessionClock::NEW.clone(), &[(0, 7), (7, 13), (13, 20), (20, 26)]), [0, 0, 1, 1]);
    }

    #[test]
    fn a_session_that_was_served_ahead_may_be_served_late_and_one_that_rests_is_owed_nothing() {
        assert_eq!(lags(&mut SessionClock::NEW.clone(), &[(0, 2), (2, 4), (4, 18), (18, 26)]), [0, 0, 0, 1]);
        assert_eq!(lags(&mut SessionClock::NEW.clone(), &[(0, 7), (100, 106), (106, 113)]), [0, 0, 1]);
    }

    #[test]
    fn excused_lag_need_not_be_made_up_for() {
        let mut clock = SessionClock::NEW;
        assert_eq!(lags(&mut clock, &[(0, 17)]), [10]);
        clock.forgive(SECS(17));
        assert_eq!(lags(&mut clock, &[(17, 23), (23, 29)]), [0, 0]);
        assert_eq!(clock.lag(None, SECS(30)), SECS(1));
    }
}
