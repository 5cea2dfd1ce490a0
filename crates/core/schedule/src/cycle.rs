//! Absolute time grids: cycles, ticks and rounds.
//!
//! Promise: the n-th start is derived from the epoch, never accumulated, so that a late one does not move the next.

use units::Nanos;

/// A grid of equal periods that begins at an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    epoch: Nanos,
    period: Nanos,
}

impl Grid {
    /// A grid from `epoch` on.
    ///
    /// # Panics
    /// If `period` is zero.
    #[must_use]
    pub fn new(epoch: Nanos, period: Nanos) -> Self {
        assert!(period > Nanos::ZERO, "a grid needs a period");
        Self { epoch, period }
    }

    /// A grid from the same epoch on with another period.
    #[must_use]
    pub fn with_period(&self, period: Nanos) -> Self {
        Self::new(self.epoch, period)
    }

    /// When period `index` begins.
    #[must_use]
    pub fn start_of(&self, index: u64) -> Nanos {
        self.epoch.saturating_add(self.period.saturating_mul(index))
    }

    /// The period `at` lies in; 0 before the epoch.
    #[must_use]
    pub fn index_at(&self, at: Nanos) -> u64 {
        let index = at.saturating_sub(self.epoch).0 / self.period.0;
        debug_assert!(index == 0 || self.start_of(index) <= at, "a period has begun before what lies in it");
        index
    }

    /// The length of one period.
    #[must_use]
    pub const fn period(&self) -> Nanos {
        self.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_derived() {
        let grid = Grid::new(Nanos(7), Nanos::from_millis(250));
        for index in [0, 1, 2, 1_000_000] {
            assert_eq!(grid.index_at(grid.start_of(index)), index);
            assert_eq!(grid.index_at(Nanos(grid.start_of(index + 1).0 - 1)), index);
        }
        assert_eq!(grid.index_at(Nanos(0)), 0);
    }
}
