//! Time of `bench all`, the part of it that is left, and how much of the rest may go to repeats of disturbed runs.
//!
//! Promise: knows no clock; parts are never dropped for lack of time, only repeats are. Not here: how long a part takes
//! (`estimate` of each experiment).

use units::Nanos;

/// Starting and ending a server, and emptying the page cache, per run.
pub(super) const PER_RUN: Nanos = Nanos::from_secs(1);

/// The parts still to come.
#[derive(Debug)]
pub(super) struct PartsTimetable {
    began: Nanos,
    /// The whole set should be over after this, repeats included.
    limit: Nanos,
    /// Duration of each part that has not ended, in order.
    parts: Vec<Nanos>,
}

impl PartsTimetable {
    /// Timetable of parts that begin at `now`.
    pub(super) fn new(now: Nanos, limit: Nanos, parts: Vec<Nanos>) -> Self {
        Self { began: now, limit, parts }
    }

    /// Duration of the parts that have not ended, without repeats.
    pub(super) fn left(&self) -> Nanos {
        self.parts.iter().fold(Nanos::ZERO, |sum, part| sum.saturating_add(*part))
    }

    /// Time up to the limit that repeats may take.
    pub(super) fn for_repeats(&self, now: Nanos) -> Nanos {
        let over = now.saturating_sub(self.began).saturating_add(self.left());
        self.limit.saturating_sub(over)
    }

    /// The first of the parts has ended.
    pub(super) fn ended(&mut self) {
        if !self.parts.is_empty() {
            self.parts.remove(0);
        }
    }
}

/// Whole minutes where there are some, else seconds: `13 min`, `40 s`.
pub(super) fn about(span: Nanos) -> String {
    let seconds = span.0.div_ceil(1_000_000_000);
    if seconds < 90 { format!("{seconds} s") } else { format!("{} min", (seconds + 30) / 60) }
}

/// Time for repeats of disturbed runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spare {
    /// Time left; `None` without a limit.
    left: Option<Nanos>,
}

impl Spare {
    /// Spare time of `left`; no limit if `None`.
    pub(super) fn new(left: Option<Nanos>) -> Self {
        Self { left }
    }

    /// Takes `span` of it, if there is as much.
    pub(super) fn take(&mut self, span: Nanos) -> bool {
        let Some(left) = &mut self.left else { return true };
        let enough = span <= *left;
        if enough {
            *left = left.saturating_sub(span);
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn repeats_get_the_time_the_parts_leave_of_the_limit() {
        let mut table = PartsTimetable::new(s(1_000), s(900), vec![s(100), s(600)]);
        assert_eq!((table.left(), table.for_repeats(s(1_000))), (s(700), s(200)));
        // The first part took 250 s instead of 100.
        table.ended();
        assert_eq!((table.left(), table.for_repeats(s(1_250))), (s(600), s(50)));
        assert_eq!(table.for_repeats(s(1_400)), Nanos::ZERO);
        table.ended();
        table.ended();
        assert_eq!((table.left(), table.for_repeats(s(1_250))), (Nanos::ZERO, s(650)));
    }

    #[test]
    fn spare_time_is_used_up() {
        let mut spare = Spare::new(Some(s(50)));
        assert!(spare.take(s(30)) && !spare.take(s(30)) && spare.take(s(20)) && !spare.take(s(1)));
        assert!((0..100).all(|_| Spare::new(None).take(s(100))));
    }

    #[test]
    fn spans_are_printed_in_seconds_and_minutes() {
        assert_eq!((about(s(40)), about(s(100)), about(s(7_200))), ("40 s".into(), "2 min".into(), "120 min".into()));
    }
}
