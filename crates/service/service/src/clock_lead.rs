//! The lead of the system's clock after it was set ahead, which makes no content older.
//!
//! Promise: what is removed for its age is judged by the clock less its lead. A clock that a mistaken hand or time server sets a year ahead
//! removes nothing for a day ([`HELD`]), in which it can be set right; after that it is taken for right, for small computers start in 1970.
//! Not here: the clock of rights, which is never set back (`accounts`); a clock that is wrong when the server starts.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use crate::lock::lock;

/// A smaller step of the clock is its usual correction. Chosen.
const STEP_MAX: Duration = Duration::from_secs(3600);
/// Time for which a clock that was set ahead makes nothing older: an administrator sees the event within a day. Chosen.
const HELD: Duration = Duration::from_secs(86_400);

/// The time as it was when the clock was last taken for right.
#[derive(Debug)]
pub(crate) struct ClockLead(Mutex<TrustedTime>);

#[derive(Debug)]
struct TrustedTime {
    at: Instant,
    time: SystemTime,
    /// The first look at a clock that was set ahead.
    ahead_since: Option<Instant>,
}

impl ClockLead {
    pub(crate) fn start() -> Self {
        Self(Mutex::new(TrustedTime { at: Instant::now(), time: SystemTime::now(), ahead_since: None }))
    }

    /// By how much a clock that shows `time` was set ahead within the last day, and true if this is the first look at it.
    pub(crate) fn look(&self, time: SystemTime) -> (Duration, bool) {
        lock(&self.0).lead(Instant::now(), time)
    }
}

impl TrustedTime {
    /// The clock's lead, and true if this is the first look at it.
    fn lead(&mut self, now: Instant, time: SystemTime) -> (Duration, bool) {
        let expected = self.time + now.saturating_duration_since(self.at);
        let lead = time.duration_since(expected).unwrap_or_default();
        if lead > STEP_MAX {
            let since = *self.ahead_since.get_or_insert(now);
            if now.saturating_duration_since(since) < HELD {
                return (lead, since == now);
            }
        }
        *self = Self { at: now, time, ahead_since: None };
        (Duration::ZERO, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const YEAR: Duration = Duration::from_secs(365 * 86_400);

    #[test]
    fn a_clock_set_a_year_ahead_makes_nothing_older_for_a_day() {
        let (at, time) = (Instant::now(), SystemTime::now());
        let mut trusted = TrustedTime { at, time, ahead_since: None };
        let mut look = |hours: u32, ahead: Duration| trusted.lead(at + HOUR * hours, time + HOUR * hours + ahead);
        assert_eq!(look(1, HOUR), (Duration::ZERO, false), "a correction");
        assert_eq!(look(2, HOUR + YEAR), (YEAR, true));
        assert_eq!(look(25, HOUR + YEAR), (YEAR, false));
        assert_eq!(look(25, HOUR), (Duration::ZERO, false), "it is set right");
        assert_eq!(look(26, HOUR + YEAR), (YEAR, true));
        assert_eq!(look(50, HOUR + YEAR), (Duration::ZERO, false), "it stays so");
        assert_eq!(look(51, Duration::ZERO), (Duration::ZERO, false), "set back");
        assert_eq!(look(52, YEAR), (YEAR, true));
    }
}
