//! Meters of budgets: bytes sent and received, and requests, against a limit per second.
//!
//! Each meter has a moment until which all that it has let pass is paid for at its rate. What passes moves it on; it may be [`AHEAD_MAX`] ahead of
//! the clock, so that short bursts pass at once. No timer runs, and a meter that is behind the clock is forgotten.
//!
//! Promise: pure but for its table (the time is an argument); memory is bounded by the budgets that are in use. Not here: waiting
//! (`budget_use`), the limits (`budgets`).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::budgets::BudgetKey;
use crate::lock::lock;

/// A meter may be so far ahead of the clock.
const AHEAD_MAX: Duration = Duration::from_secs(1);
/// Number of holders with meters beyond which meters behind the clock are removed.
const KEPT_MIN: usize = 1024;

/// What a meter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metered {
    /// Bytes sent.
    Download,
    /// Bytes received.
    Upload,
    /// Requests.
    Requests,
}

/// All meters.
#[derive(Debug, Default)]
pub(crate) struct BudgetMeters(Mutex<HashMap<BudgetKey, HolderMeters>>);

/// The meters of one holder: the moments until which all that has passed is paid for.
#[derive(Debug, Clone, Copy)]
struct HolderMeters {
    download: Instant,
    upload: Instant,
    requests: Instant,
}

impl BudgetMeters {
    /// Lets something pass that is paid for in `cost`. Returns the time until it is to pass.
    pub(crate) fn pass(&self, key: &BudgetKey, metered: Metered, cost: Duration, now: Instant) -> Duration {
        let mut holders = lock(&self.0);
        let paid_until = meters_of(&mut holders, key, now).of(metered);
        *paid_until = (*paid_until).max(now) + cost;
        paid_until.saturating_duration_since(now + AHEAD_MAX)
    }

    /// Lets something pass the meters of all these holders, if each lets it pass now; else none, and gives the first that does not, with the time
    /// until it would.
    pub(crate) fn pass_now<'a>(
        &self,
        metered: Metered,
        costs: &[(&'a BudgetKey, Duration)],
        now: Instant,
    ) -> Result<(), (&'a BudgetKey, Duration)> {
        let mut holders = lock(&self.0);
        for (key, cost) in costs {
            let paid_until = (*meters_of(&mut holders, key, now).of(metered)).max(now);
            // One always passes a meter that is not ahead, whatever it costs.
            let wait = (paid_until + *cost).saturating_duration_since(now + AHEAD_MAX.max(*cost));
            if !wait.is_zero() {
                return Err((key, wait));
            }
        }
        for (key, cost) in costs {
            let paid_until = meters_of(&mut holders, key, now).of(metered);
            *paid_until = (*paid_until).max(now) + *cost;
        }
        Ok(())
    }

    /// By how much a meter is ahead of the clock: the part of a second that is used up.
    pub(crate) fn ahead(&self, key: &BudgetKey, metered: Metered, now: Instant) -> Duration {
        let mut holders = lock(&self.0);
        let paid_until = holders.get_mut(key).map(|meters| *meters.of(metered));
        paid_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

/// The meters of a holder; new ones take the place of those that are paid for.
fn meters_of<'a>(
    holders: &'a mut HashMap<BudgetKey, HolderMeters>,
    key: &BudgetKey,
    now: Instant,
) -> &'a mut HolderMeters {
    if !holders.contains_key(key) {
        if holders.len() > KEPT_MIN {
            holders.retain(|_, meters| meters.is_ahead(now));
        }
        holders.insert(key.clone(), HolderMeters { download: now, upload: now, requests: now });
    }
    holders.get_mut(key).expect("it is there")
}

impl HolderMeters {
    const fn of(&mut self, metered: Metered) -> &mut Instant {
        match metered {
            Metered::Download => &mut self.download,
            Metered::Upload => &mut self.upload,
            Metered::Requests => &mut self.requests,
        }
    }

    fn is_ahead(&self, now: Instant) -> bool {
        [self.download, self.upload, self.requests].into_iter().any(|paid_until| paid_until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_second_passes_at_once_and_the_rest_at_its_rate() {
        let (meters, now, key) = (BudgetMeters::default(), Instant::now(), BudgetKey::Token(1));
        let pass = |at: Duration| meters.pass(&key, Metered::Download, MS(100), now + at);
        assert_eq!((0..10).map(|_| pass(MS(0))).max(), Some(MS(0)));
        assert_eq!([pass(MS(0)), pass(MS(0)), pass(MS(200))], [MS(100), MS(200), MS(100)]);
        assert_eq!(pass(MS(60_000)), MS(0));
        assert_eq!(meters.pass(&key, Metered::Upload, MS(100), now), MS(0), "another meter");
    }

    #[test]
    fn requests_beyond_their_number_learn_when_one_passes() {
        let (meters, now, key) = (BudgetMeters::default(), Instant::now(), BudgetKey::Token(1));
        let ask =
            |at: Duration| meters.pass_now(Metered::Requests, &[(&key, MS(250))], now + at).map_err(|(_, wait)| wait);
        assert_eq!([ask(MS(0)), ask(MS(0)), ask(MS(0)), ask(MS(0))], [Ok(()); 4]);
        assert_eq!(
            [ask(MS(0)), ask(MS(100)), ask(MS(250)), ask(MS(250))],
            [Err(MS(250)), Err(MS(150)), Ok(()), Err(MS(250))]
        );
    }

    #[test]
    fn a_meter_is_not_charged_for_bytes_that_another_one_refuses() {
        let (meters, now) = (BudgetMeters::default(), Instant::now());
        let (own, groups) = (BudgetKey::Token(1), BudgetKey::Token(2));
        let ask = |costs: &[_]| {
            meters.pass_now(Metered::Download, costs, now).map_err(|(key, wait): (&BudgetKey, _)| (key.clone(), wait))
        };
        assert_eq!(ask(&[(&groups, MS(1000))]), Ok(()));
        assert_eq!(ask(&[(&own, MS(600)), (&groups, MS(300))]), Err((groups.clone(), MS(300))));
        assert_eq!(meters.ahead(&own, Metered::Download, now), MS(0));
        assert_eq!(ask(&[(&own, MS(600))]), Ok(()));
    }

    #[test]
    fn meters_that_are_paid_for_are_forgotten() {
        let (meters, now) = (BudgetMeters::default(), Instant::now());
        for id in 0..3000 {
            meters.pass(&BudgetKey::Token(id), Metered::Requests, MS(1), now + MS(2 * id.unsigned_abs()));
        }
        assert!(lock(&meters.0).len() <= KEPT_MIN + 1);
    }
}
