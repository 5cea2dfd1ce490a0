//! Delays of the plane's thread, which should have run: a fault of the world, not of the plane.
//!
//! Not here: how long it takes to wake otherwise, which is part of every run.

use units::Nanos;

/// All such spans so far, in order.
#[derive(Debug, Default)]
pub(crate) struct PlaneDelays(Vec<(Nanos, Nanos)>);

impl PlaneDelays {
    /// It does not run between these moments.
    pub(crate) fn add(&mut self, from: Nanos, to: Nanos) {
        self.0.push((from, to));
    }

    /// For how long it did not run between these moments.
    pub(crate) fn between(&self, from: Nanos, to: Nanos) -> Nanos {
        let last = self.0.iter().rev().take_while(|(_, end)| *end > from);
        let overlaps = last.map(|(began, ended)| to.min(*ended).saturating_sub(from.max(*began)));
        overlaps.fold(Nanos::ZERO, Nanos::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_between_two_moments_add_up() {
        let mut delays = PlaneDelays::default();
        delays.add(Nanos(10), Nanos(20));
        delays.add(Nanos(30), Nanos(35));
        for (from, to, sum) in [(0, 10, 0), (0, 15, 5), (0, 100, 15), (12, 32, 10), (20, 30, 0), (34, 100, 1)] {
            assert_eq!(delays.between(Nanos(from), Nanos(to)), Nanos(sum), "{from}..{to}");
        }
    }
}
