//! The rate of a stream: what was asked for, what the player says, what the content needs, what the path is set to.
//!
//! Promise: in that order; a bad `rate=` or `burst=` is refused with what to write instead. Not here: admission.

use units::{BitRate, Nanos, ParseError};

use crate::config::PathPolicy;
use crate::contents::MediaRate;
use crate::message::cmcd::Cmcd;
use crate::message::query::Query;

/// Longest start burst.
const BURST_MAX: Nanos = Nanos::from_secs(60);

/// What a request says of its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The rate, or bulk.
    pub rate: AskedRate,
    /// `burst=`.
    pub burst: Option<Nanos>,
}

/// What a request says of its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedRate {
    /// `rate=` or CMCD.
    Rate(BitRate),
    /// `rate=max`: best-effort.
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

/// What was asked for cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// `rate=`.
    #[error("rate={0}, or rate=max for a bulk transfer")]
    Rate(#[source] ParseError),
    /// `burst=`.
    #[error("burst={0}")]
    Burst(#[source] ParseError),
    /// `burst=` is too long.
    #[error("burst= is more than 60s; write for example 2s")]
    BurstTooLong,
}

impl Asked {
    /// Reads what a request says.
    ///
    /// # Errors
    /// `rate=` or `burst=` is not understood.
    pub fn read(query: &Query, cmcd: &Cmcd) -> Result<Self, AskError> {
        let rate = match query.rate.as_deref() {
            Some("max") => AskedRate::Bulk,
            Some(text) => AskedRate::Rate(units::parse_rate(text).map_err(AskError::Rate)?),
            None => cmcd.rate().map_or(AskedRate::Unsaid, AskedRate::Rate),
        };
        let burst = match query.burst.as_deref() {
            None => None,
            Some("0") => Some(Nanos::ZERO),
            Some(text) => Some(units::parse_duration(text).map_err(AskError::Burst)?),
        };
        if burst.is_some_and(|burst| burst > BURST_MAX) {
            return Err(AskError::BurstTooLong);
        }
        Ok(Self { rate, burst })
    }

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
    use http::HeaderMap;
    use media::Container;

    fn asked(query: &str) -> Result<Asked, AskError> {
        let query = Query::parse(Some(query)).expect("no key twice");
        let cmcd = Cmcd::read(query.cmcd.as_deref(), &HeaderMap::new());
        Asked::read(&query, &cmcd)
    }

    const MEDIA: MediaRate = MediaRate {
        rate: BitRate(5_000_000),
        preroll_bytes: 777,
        container: Container::Mp4,
        duration: Nanos::from_secs(60),
    };

    #[test]
    fn the_order_of_sources() {
        let policy = PathPolicy { rate: Some(BitRate(1_000_000)), ..Config::default().policy("") };
        let decide = |query: &str, media| asked(query).expect("fine").decide(media, &policy, Nanos::ZERO);
        let constant = |rate, burst_bytes| Decision::Constant { rate: BitRate(rate), burst_bytes };
        assert_eq!(decide("rate=8.8M&CMCD=br%3D3200", Some(MEDIA)), constant(8_800_000, 0));
        assert_eq!(decide("rate=8M&burst=2s", Some(MEDIA)), constant(8_000_000, 2_000_000));
        assert_eq!(decide("CMCD=br%3D3200", Some(MEDIA)), constant(3_200_000, 0));
        assert_eq!(decide("", Some(MEDIA)), constant(5_000_000, 777));
        assert_eq!(decide("burst=0", Some(MEDIA)), constant(5_000_000, 0));
        assert_eq!(decide("", None), constant(1_000_000, 0));
        assert_eq!(decide("rate=max", Some(MEDIA)), Decision::BestEffort);
        let free = Config::default().policy("");
        assert_eq!(asked("").expect("fine").decide(None, &free, Nanos::ZERO), Decision::BestEffort);
    }

    #[test]
    fn bad_rates_say_what_to_write() {
        for query in ["rate=8800000", "rate=", "rate=-1M", "rate=fast", "rate=0M"] {
            let text = asked(query).expect_err(query).to_string();
            assert!(text.contains("rate="), "{text}");
        }
        assert!(asked("rate=8800000").expect_err("no unit").to_string().contains("8.8M"));
        assert!(asked("burst=2").is_err());
        assert_eq!(asked("burst=2h"), Err(AskError::BurstTooLong));
    }
}
