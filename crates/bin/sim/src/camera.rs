//! The bytes of a recording's client: a camera, at a rate that may vary around the reserved one.
//!
//! Promise: the bytes sent by a time are a function of that time. Not here: the server's handling of them.

use units::{BitRate, Nanos};

const SECOND: Nanos = Nanos::from_secs(1);

/// A kind of camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Camera {
    /// Its rate.
    Steady,
    /// Three times its rate for a second in four, and little in the others.
    Bursts,
    /// Half as much again as its rate, all the time.
    Rain,
    /// Its rate for ten seconds, then nothing for twenty.
    Silent,
}

impl Camera {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Steady, Self::Bursts, Self::Rain, Self::Silent];

    /// Thousandths of its rate, second by second, again and again.
    fn thousandths(self, second: u64) -> u64 {
        match self {
            Self::Steady => 1000,
            Self::Bursts if second.is_multiple_of(4) => 3000,
            Self::Bursts => 333,
            Self::Rain => 1500,
            Self::Silent => {
                if second % 30 < 10 {
                    1000
                } else {
                    0
                }
            }
        }
    }

    /// Time at its rate by which the bytes sent may be ahead of it, and the bytes not yet durable may exceed the promise.
    pub(crate) const fn ahead_max(self) -> Nanos {
        match self {
            Self::Steady | Self::Silent => Nanos::ZERO,
            Self::Bursts => Nanos::from_secs(2),
            Self::Rain => Nanos::MAX,
        }
    }

    /// Bytes sent `after` its first byte, at this rate.
    pub(crate) fn bytes(self, rate: BitRate, after: Nanos) -> u64 {
        let seconds = after.0 / SECOND.0;
        let whole: u64 = (0..seconds).map(|second| self.thousandths(second)).sum();
        let rest = Nanos(after.0 % SECOND.0);
        rate.bytes_in(Nanos::from_millis(whole)) + BitRate(rate.0 * self.thousandths(seconds) / 1000).bytes_in(rest)
    }

    /// Time at which `bytes` have been sent, or the first second after `after` that changes its rate, if that is earlier.
    pub(crate) fn comes(self, rate: BitRate, bytes: u64, after: Nanos) -> Nanos {
        let second = after.0 / SECOND.0;
        let now = BitRate(rate.0 * self.thousandths(second) / 1000);
        let end = SECOND.saturating_mul(second + 1);
        if now.0 == 0 {
            return end;
        }
        after.saturating_add(now.time_for(bytes.saturating_sub(self.bytes(rate, after)))).min(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_camera_comes_to_its_rate_in_the_mean_and_varies_on_the_way() {
        let rate = BitRate(8_000_000);
        let mega = |camera: Camera, seconds: u64| camera.bytes(rate, Nanos::from_secs(seconds)) / 100_000;
        assert_eq!([1, 2, 4, 5].map(|s| mega(Camera::Bursts, s)), [30, 33, 39, 69]);
        assert_eq!([10, 20, 30, 31].map(|s| mega(Camera::Silent, s)), [100, 100, 100, 110]);
        assert_eq!(mega(Camera::Rain, 10), 150);
        let comes = |camera: Camera, bytes, after| camera.comes(rate, bytes, Nanos::from_millis(after)).0 / 1_000_000;
        assert_eq!(comes(Camera::Steady, 500_000, 0), 500);
        assert_eq!(comes(Camera::Bursts, 6_000_000, 0), 1000, "then it is slower");
        assert_eq!(comes(Camera::Silent, 20_000_000, 12_300), 13_000);
    }
}
