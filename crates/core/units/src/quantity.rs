//! Times, byte counts and bit rates.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A point on a monotonic clock, or a span of it, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Nothing; also the clock's origin.
    pub const ZERO: Self = Self(0);
    /// The latest time, and the longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// `seconds` as a span.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// `millis` thousandths of a second.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `micros` millionths of a second.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// The nearest span to `seconds`; negative and not-a-number become zero, too large becomes [`Nanos::MAX`].
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate, as promised")]
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as u64)
    }

    /// The span in seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "for display and models, not for deadlines")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span in milliseconds.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.as_secs_f64() * 1e3
    }

    /// `self - other`, or zero if `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `self × factor`, or [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

/// A longer one becomes [`Nanos::MAX`].
impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.as_secs_f64();
        if s >= 1.0 {
            write!(f, "{s:.3} s")
        } else if s >= 1e-3 {
            write!(f, "{:.3} ms", s * 1e3)
        } else {
            write!(f, "{:.1} µs", s * 1e6)
        }
    }
}

/// A number of bytes, or an offset in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// `megabytes` times 10^6 bytes, as makers of disks count.
    #[must_use]
    pub const fn from_megabytes(megabytes: u64) -> Self {
        Self(megabytes.saturating_mul(1_000_000))
    }
}

impl fmt::Display for ByteCount {
    #[allow(clippy::cast_precision_loss, reason = "for display")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{:.1} KiB", b / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.1} MiB", b / 1_048_576.0),
            _ => write!(f, "{:.2} GiB", b / 1_073_741_824.0),
        }
    }
}

/// A rate in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BitRate(pub u64);

impl BitRate {
    /// Bytes due after `elapsed` at this rate, rounded down. Exact for any span: a due count is derived from the
    /// start, never accumulated, so rounding does not drift.
    #[must_use]
    pub fn bytes_in(self, elapsed: Nanos) -> u64 {
        // Whole seconds apart from the rest: two multiplications instead of a long division, which a tick of thousands
        // of streams feels. Only absurd rates and spans do not fit.
        let whole = self.0.checked_mul(elapsed.0 / NANOS_PER_SECOND);
        let rest = self.0.checked_mul(elapsed.0 % NANOS_PER_SECOND);
        if let (Some(whole), Some(rest)) = (whole, rest)
            && let Some(rest) = rest.checked_add(whole % 8 * NANOS_PER_SECOND)
        {
            return whole / 8 + rest / (8 * NANOS_PER_SECOND);
        }
        let bytes = u128::from(self.0) * u128::from(elapsed.0) / (8 * u128::from(NANOS_PER_SECOND));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The least span in which `bytes` are due; [`Nanos::MAX`] at rate zero.
    #[must_use]
    pub fn time_for(self, bytes: u64) -> Nanos {
        if self.0 == 0 {
            return Nanos::MAX;
        }
        let nanos = (u128::from(bytes) * 8 * u128::from(NANOS_PER_SECOND)).div_ceil(u128::from(self.0));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bytes per second, rounded down.
    #[must_use]
    pub const fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }
}

impl fmt::Display for BitRate {
    #[allow(clippy::cast_precision_loss, reason = "for display")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} bit/s", self.0),
            1_000..1_000_000 => write!(f, "{:.1} kbit/s", r / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.2} Mbit/s", r / 1e6),
            _ => write!(f, "{:.3} Gbit/s", r / 1e9),
        }
    }
}

/// A count for figures that people read: exact up to 2^53, rounded beyond.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "for display")]
pub const fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_bytes_do_not_drift() {
        let rate = BitRate(8_800_000);
        let day = Nanos::from_secs(86_400);
        assert_eq!(rate.bytes_in(day), 1_100_000 * 86_400);
        assert_eq!(rate.time_for(1_100_000), Nanos::from_secs(1));
        assert_eq!(BitRate(0).time_for(1), Nanos::MAX);
    }

    #[test]
    fn due_bytes_are_exact_however_they_are_counted() {
        let rates = [0, 1, 7, 8, 999, 2_000_000, 8_800_001, 25_000_000, 18_446_744_073, 18_446_744_075, u64::MAX];
        let spans = [0, 1, 999_999_999, 1_000_000_000, 1_000_000_001, 86_400_123_456_789, u64::MAX];
        for rate in rates {
            for span in spans {
                let exact = u128::from(rate) * u128::from(span) / 8_000_000_000;
                let expected = u64::try_from(exact).unwrap_or(u64::MAX);
                assert_eq!(BitRate(rate).bytes_in(Nanos(span)), expected, "{rate} bit/s for {span} ns");
            }
        }
    }

    #[test]
    fn time_for_is_the_least_span() {
        for rate in [1, 7, 999, 8_800_000, 25_000_001] {
            for bytes in [1, 2, 1000, 4096, 1_048_577] {
                let t = BitRate(rate).time_for(bytes);
                assert!(BitRate(rate).bytes_in(t) >= bytes);
                assert!(BitRate(rate).bytes_in(Nanos(t.0 - 1)) < bytes);
            }
        }
    }
}
