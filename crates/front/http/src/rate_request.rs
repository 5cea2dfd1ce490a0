//! Rate in a request: `rate=`, `burst=`, CMCD.
//!
//! Promise: a value that cannot be parsed is refused with a correct form to write instead. Not here: the choice of the rate
//! (`service::rate`).

use service::rate::{RateTerms, RequestedRate};
use units::{BitRate, Nanos, ParseError};

use crate::message::cmcd::Cmcd;
use crate::message::query::Query;

/// Longest start burst.
const BURST_MAX: Nanos = Nanos::from_secs(60);

/// The rate or burst of a request cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RateTermsError {
    /// `rate=`.
    #[error("rate={0}, or rate=max for a bulk transfer")]
    Rate(#[source] ParseError),
    /// `burst=`.
    #[error("burst={0}")]
    Burst(#[source] ParseError),
    /// `durable=`.
    #[error("durable={0}")]
    Durable(#[source] ParseError),
    /// `every=`.
    #[error("every={0}")]
    Every(#[source] ParseError),
    /// `burst=` is too long.
    #[error("burst= is more than 60s; write for example 2s")]
    BurstTooLong,
}

/// Reads the rate that a request states.
///
/// # Errors
/// `rate=` or `burst=` is not understood.
pub(crate) fn requested_rate(query: &Query, cmcd: &Cmcd) -> Result<RateTerms, RateTermsError> {
    let rate = match query.rate.as_deref() {
        Some("max") => RequestedRate::Bulk,
        Some(text) => RequestedRate::Rate(units::parse_rate(text).map_err(RateTermsError::Rate)?),
        None => cmcd.encoded.map_or(RequestedRate::Unstated, RequestedRate::Rate),
    };
    // A player that sends CMCD, or was given a session, is prepared for segments that come faster than they play.
    let named = cmcd.session.is_some() || cmcd.encoded.is_some() || query.session.is_some();
    let ceiling = cmcd.requested.or(named.then_some(BitRate(u64::MAX)));
    let burst = match query.burst.as_deref() {
        None => None,
        Some("0") => Some(Nanos::ZERO),
        Some(text) => Some(units::parse_duration(text).map_err(RateTermsError::Burst)?),
    };
    if burst.is_some_and(|burst| burst > BURST_MAX) {
        return Err(RateTermsError::BurstTooLong);
    }
    Ok(RateTerms { rate, burst, ceiling })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_types::HeaderMap;

    fn read(query: &str) -> Result<RateTerms, RateTermsError> {
        let query = Query::parse(Some(query)).expect("no key twice");
        let cmcd = Cmcd::read(query.cmcd.as_deref(), &HeaderMap::new());
        requested_rate(&query, &cmcd)
    }

    #[test]
    fn the_query_goes_before_cmcd() {
        let rate = |query: &str| read(query).expect("fine").rate;
        assert_eq!(rate("rate=8.8M&CMCD=br%3D3200"), RequestedRate::Rate(BitRate(8_800_000)));
        assert_eq!(rate("CMCD=br%3D3200"), RequestedRate::Rate(BitRate(3_200_000)));
        assert_eq!(rate("rate=max"), RequestedRate::Bulk);
        assert_eq!(rate(""), RequestedRate::Unstated);
        assert_eq!(read("burst=0").expect("fine").burst, Some(Nanos::ZERO));
    }

    #[test]
    fn bad_rates_get_a_hint() {
        for query in ["rate=8800000", "rate=", "rate=-1M", "rate=fast", "rate=0M"] {
            let text = read(query).expect_err(query).to_string();
            assert!(text.contains("rate="), "{text}");
        }
        assert!(read("rate=8800000").expect_err("no unit").to_string().contains("8.8M"));
        assert!(read("burst=2").is_err());
        assert_eq!(read("burst=2h"), Err(RateTermsError::BurstTooLong));
    }
}
