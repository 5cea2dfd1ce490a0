//! The budget of best-effort jobs: a constant-bandwidth server (Abeni & Buttazzo 1998).
//!
//! While jobs wait the budget grows by their share of the time. Once it covers the job in front, that job has a deadline
//! like a read, and its time is kept for it; the budget pays its time while reads wait, and its time on a disk without
//! waiting reads is free. Admission has left the share out of its promises, so there is room for it. Not here: which job
//! (`best_effort`), when it runs (`disk`). See docs/decisions/0007.

use units::Nanos;

/// Where no share is configured, jobs have this much of the margin that admission holds back: an upload to a disk that is full
/// of streams continues, if slowly. Decision 0007, varied.
const SHARE_MIN: f64 = 0.01;

/// The budget of one disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskBudget {
    share: f64,
    /// Seconds saved; negative after a job that took longer than expected.
    saved: f64,
    /// Deadline of the covered job.
    deadline: Option<Nanos>,
}

impl DiskBudget {
    /// A budget without savings; jobs earn this share of the time, 0.0 … 0.9.
    #[must_use]
    pub(super) const fn new(share: f64) -> Self {
        assert!(share < 1.0, "admission has the rest");
        Self { share: share.max(SHARE_MIN), saved: 0.0, deadline: None }
    }

    /// Sets the share of the time that jobs earn from now on, as in [`DiskBudget::new`]; the savings stay.
    pub(super) const fn set_share(&mut self, share: f64) {
        debug_assert!(share < 1.0, "admission has the rest");
        self.share = share.max(SHARE_MIN);
    }

    /// Jobs have waited for `elapsed`; no more than `most` is ever saved.
    pub(super) fn earn(&mut self, elapsed: Nanos, most: Nanos) {
        self.saved = (self.saved + self.share * elapsed.as_secs_f64()).min(most.as_secs_f64());
        debug_assert!(self.saved.is_finite(), "a budget that is no number covers nothing");
    }

    /// The deadline of a job of this price, if the budget covers it: `by`, or its present deadline if that is earlier.
    pub(super) fn cover(&mut self, price: Nanos, by: Nanos) -> Option<Nanos> {
        self.deadline = (self.saved >= price.as_secs_f64()).then(|| self.deadline.map_or(by, |known| known.min(by)));
        self.deadline
    }

    /// Pays the time that a job took while reads waited; the debt never exceeds `most`.
    pub(super) fn pay(&mut self, took: Nanos, most: Nanos) {
        self.saved = (self.saved - took.as_secs_f64()).max(-most.as_secs_f64());
        self.deadline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn a_job_is_covered_once_its_time_is_saved_and_keeps_its_deadline() {
        let mut budget = DiskBudget::new(0.1);
        budget.earn(MS(1000), MS(500));
        assert_eq!(budget.cover(MS(200), MS(4000)), None);
        budget.earn(MS(1000), MS(500));
        assert_eq!(budget.cover(MS(200), MS(5000)), Some(MS(5000)));
        assert_eq!(budget.cover(MS(200), MS(6000)), Some(MS(5000)), "it does not recede");
        assert_eq!(budget.cover(MS(200), MS(4500)), Some(MS(4500)), "rounds that became shorter bring it nearer");
        budget.pay(MS(250), MS(1000));
        assert_eq!(budget.cover(MS(200), MS(7000)), None);
        budget.earn(MS(100_000), MS(500));
        assert_eq!(budget.cover(MS(501), MS(8000)), None, "nobody saves for ever");
    }

    #[test]
    fn without_a_share_a_job_has_its_turn_at_last() {
        let mut budget = DiskBudget::new(0.0);
        budget.earn(Nanos::from_secs(21), MS(500));
        assert!(budget.cover(MS(200), Nanos::from_secs(30)).is_some());
    }
}
