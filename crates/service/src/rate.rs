//! The rate of a stream: what was asked for, what the player says, what the content needs, what the path is set to.
//!
//! Promise: in that order. Not here: admission; how a request says it (the front ends).

use units::{BitRate, Nanos};

use crate::config::PathPolicy;
use crate::contents::MediaRate;

/// What a request says of its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The rate, or bulk.
    pub rate: AskedRate,
    /// The start burst.
    pub burst: Option<Nanos>,
}

/// What a request says of its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedRate {
    /// A rate.
    Rate(BitRate),
    /// As fast as can be: best-effort.
    Bulk,
    /// Nothing: the content's own.
    Unsaid,
}

/// How a request is to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// At this rate, with so much ahead at the start.
    Constant {
        /// Payload bits per second.
        rate: BitRate,
        /// Start burst.
        burst_bytes: u64,
    },
    /// With what is left over.
    BestEffort,
}

impl Decision {
    /// The guaranteed rate, if there is one.
    #[must_use]
    pub const fn rate(self) -> Option<BitRate> {
        match self {
            Self::Constant { rate, .. } => Some(rate),
            Self::BestEffort => None,
        }
    }
}

impl Asked {
    /// Puts together what was asked, what the content needs and what the path is set to.
    #[must_use]
    pub fn decide(self, media: Option<MediaRate>, policy: &PathPolicy, burst_default: Nanos) -> Decision {
        let span = self.burst.unwrap_or(burst_default);
        let constant = |rate: BitRate| Decision::Constant { rate, burst_bytes: rate.bytes_in(span) };
        match (self.rate, media, policy.rate) {
            (AskedRate::Bulk, _, _) => Decision::BestEffort,
            (AskedRate::Rate(rate), _, _) => constant(rate),
            (AskedRate::Unsaid, Some(media), _) => {
                let burst_bytes = self.burst.map_or(media.preroll_bytes, |span| media.rate.bytes_in(span));
                Decision::Constant { rate: media.rate, burst_bytes }
            }
            (AskedRate::Unsaid, None, Some(rate)) => constant(rate),
            (AskedRate::Unsaid, None, None) => Decision::BestEffort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use media::Container;

    const MEDIA: MediaRate = MediaRate {
        rate: BitRate(5_000_000),
        preroll_bytes: 777,
        container: Container::Mp4,
        duration: Nanos::from_secs(60),
    };

    #[test]
    fn the_order_of_sources() {
        let policy = PathPolicy { rate: Some(BitRate(1_000_000)), ..Config::default().policy("") };
        let decide = |rate, burst, media| Asked { rate, burst }.decide(media, &policy, Nanos::ZERO);
        let constant = |rate, burst_bytes| Decision::Constant { rate: BitRate(rate), burst_bytes };
        let asked = |rate| AskedRate::Rate(BitRate(rate));
        assert_eq!(decide(asked(8_800_000), None, Some(MEDIA)), constant(8_800_000, 0));
        assert_eq!(decide(asked(8_000_000), Some(Nanos::from_secs(2)), Some(MEDIA)), constant(8_000_000, 2_000_000));
        assert_eq!(decide(AskedRate::Unsaid, None, Some(MEDIA)), constant(5_000_000, 777));
        assert_eq!(decide(AskedRate::Unsaid, Some(Nanos::ZERO), Some(MEDIA)), constant(5_000_000, 0));
        assert_eq!(decide(AskedRate::Unsaid, None, None), constant(1_000_000, 0));
        assert_eq!(decide(AskedRate::Bulk, None, Some(MEDIA)), Decision::BestEffort);
        let free = Config::default().policy("");
        let unsaid = Asked { rate: AskedRate::Unsaid, burst: None };
        assert_eq!(unsaid.decide(None, &free, Nanos::ZERO), Decision::BestEffort);
    }
}
