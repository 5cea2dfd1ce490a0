//! Quantiles of measured values. Not here: the choice of the values (`summary`).

use serde::{Deserialize, Serialize};

/// Quantiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    /// The median: half of the values are at most this.
    pub p50: f64,
    /// 95 % of the values are at most this.
    pub p95: f64,
    /// 99 % of the values are at most this.
    pub p99: f64,
    /// The greatest value.
    pub max: f64,
}

impl Quantiles {
    /// The quantiles of `values`, which are sorted in place; zeros if there are none.
    pub(crate) fn of(values: &mut [f64]) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |percent| quantile(values, percent);
        Self { p50: at(50), p95: at(95), p99: at(99), max: at(100) }
    }
}

/// The least of the `sorted` values that at least `percent` of them do not exceed; zero if there are none.
pub(crate) fn quantile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_least_values_not_exceeded() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(Quantiles::of(&mut values), Quantiles { p50: 50.0, p95: 95.0, p99: 99.0, max: 100.0 });
        assert_eq!(Quantiles::of(&mut [7.0]), Quantiles { p50: 7.0, p95: 7.0, p99: 7.0, max: 7.0 });
        assert_eq!(Quantiles::of(&mut []), Quantiles::default());
    }
}
