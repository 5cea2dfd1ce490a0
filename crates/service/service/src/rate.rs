//! The rate of a stream: the first that is known of the requested rate, the player's rate, the rate that the content needs, and
//! the rate set for the path.
//!
//! Not here: admission; the form of the rate in a request (the front ends).

use api::RateOrigin;
use schedule::pace::BURST_FACTOR;
use units::{BitRate, Nanos};

use crate::contents::MediaRate;

/// The rate, burst and ceiling that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateTerms {
    /// The rate, or bulk.
    pub rate: RequestedRate,
    /// The start burst.
    pub burst: Option<Nanos>,
    /// Upper limit at which a segment may be sent faster than at the rate.
    pub ceiling: Option<BitRate>,
}

/// Longest playing time of a read that counts as a segment. A player requests the next segment when it has all of the last one,
/// so it can fill its buffer only if a segment is sent faster than it plays.
const SEGMENT_MAX: Nanos = Nanos::from_secs(30);

/// A client without an account or link may request at most this multiple of a content's need. Chosen: the need is a mean, which variable
/// bit rates exceed for longer than a player buffers (decision 0086).
const NEED_FACTOR: u64 = 2;

/// The rate that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedRate {
    /// A rate.
    Rate(BitRate),
    /// Best effort, as fast as possible.
    Bulk,
    /// None: the content's own rate.
    Unstated,
}

/// The terms by which a request is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// At this rate, with a burst ahead of it at the start.
    Constant {
        /// Payload bits per second.
        rate: BitRate,
        /// Start burst.
        burst_bytes: u64,
    },
    /// As best effort.
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

    /// The start burst with which `payload` bytes arrive at a mean rate of `ceiling`, or as close to it as the pace allows.
    pub(crate) fn ahead(self, payload: u64, ceiling: BitRate) -> Self {
        match self {
            Self::Constant { rate, burst_bytes } if payload <= rate.bytes_in(SEGMENT_MAX) && ceiling > rate => {
                let highest = BitRate(rate.0.saturating_mul(BURST_FACTOR)).min(ceiling);
                let regular = rate.bytes_in(highest.time_for(payload));
                Self::Constant { rate, burst_bytes: burst_bytes.max(payload.saturating_sub(regular)) }
            }
            other => other,
        }
    }
}

impl RateTerms {
    /// The terms of a client without an account or a link, for a content of `size` bytes: a rate far above the content's need
    /// is ignored, except for a segment, whose own need says little about the next segment's. See decisions/0086.
    pub(crate) fn within_need(mut self, media: Option<MediaRate>, size: u64) -> Self {
        if let (RequestedRate::Rate(rate), Some(media)) = (self.rate, media)
            && size > rate.bytes_in(SEGMENT_MAX)
            && rate.0 / NEED_FACTOR > media.rate.max(media.mean(size)).0
        {
            self.rate = RequestedRate::Unstated;
        }
        self
    }

    /// Combines the request, the rate that the content needs and the rate set for the path, for `payload` bytes of it.
    #[must_use]
    pub fn decide(self, media: Option<MediaRate>, of_path: Option<BitRate>, burst: Nanos, payload: u64) -> Decision {
        let decision = self.at_its_rate(media, of_path, burst);
        match self.ceiling {
            Some(ceiling) if self.burst.is_none() => decision.ahead(payload, ceiling),
            _ => decision,
        }
    }

    /// The source of the stream's rate.
    #[must_use]
    pub const fn origin(self, media: Option<MediaRate>, of_path: Option<BitRate>) -> RateOrigin {
        match (self.rate, media, of_path) {
            (RequestedRate::Rate(_), _, _) => RateOrigin::Request,
            (RequestedRate::Unstated, Some(_), _) => RateOrigin::Content,
            (RequestedRate::Unstated, None, Some(_)) => RateOrigin::Path,
            (RequestedRate::Bulk, _, _) | (RequestedRate::Unstated, None, None) => RateOrigin::LeftOver,
        }
    }

    fn at_its_rate(self, media: Option<MediaRate>, of_path: Option<BitRate>, burst_default: Nanos) -> Decision {
        let span = self.burst.unwrap_or(burst_default);
        let constant = |rate: BitRate| Decision::Constant { rate, burst_bytes: rate.bytes_in(span) };
        match (self.rate, media, of_path) {
            (RequestedRate::Bulk, _, _) => Decision::BestEffort,
            (RequestedRate::Rate(rate), _, _) => constant(rate),
            (RequestedRate::Unstated, Some(media), _) => {
                let burst_bytes = self.burst.map_or(media.preroll_bytes, |span| media.rate.bytes_in(span));
                Decision::Constant { rate: media.rate, burst_bytes }
            }
            (RequestedRate::Unstated, None, Some(rate)) => constant(rate),
            (RequestedRate::Unstated, None, None) => Decision::BestEffort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::{CodecSet, Container, RateSource};

    const fn asking(rate: RequestedRate, burst: Option<Nanos>, ceiling: Option<BitRate>) -> RateTerms {
        RateTerms { rate, burst, ceiling }
    }

    const MEDIA: MediaRate = MediaRate {
        rate: BitRate(5_000_000),
        preroll_bytes: 777,
        container: Container::Mp4,
        source: RateSource::SampleTables,
        duration: Nanos::from_secs(60),
        codecs: CodecSet::NONE,
    };

    #[test]
    fn the_order_of_sources() {
        let of_path = Some(BitRate(1_000_000));
        let decide = |rate, burst, media| asking(rate, burst, None).decide(media, of_path, Nanos::ZERO, 0);
        let constant = |rate, burst_bytes| Decision::Constant { rate: BitRate(rate), burst_bytes };
        let asked = |rate| RequestedRate::Rate(BitRate(rate));
        assert_eq!(decide(asked(8_800_000), None, Some(MEDIA)), constant(8_800_000, 0));
        assert_eq!(decide(asked(8_000_000), Some(Nanos::from_secs(2)), Some(MEDIA)), constant(8_000_000, 2_000_000));
        assert_eq!(decide(RequestedRate::Unstated, None, Some(MEDIA)), constant(5_000_000, 777));
        assert_eq!(decide(RequestedRate::Unstated, Some(Nanos::ZERO), Some(MEDIA)), constant(5_000_000, 0));
        assert_eq!(decide(RequestedRate::Unstated, None, None), constant(1_000_000, 0));
        assert_eq!(decide(RequestedRate::Bulk, None, Some(MEDIA)), Decision::BestEffort);
        let unsaid = asking(RequestedRate::Unstated, None, None);
        assert_eq!(unsaid.decide(None, None, Nanos::ZERO, 0), Decision::BestEffort);
    }

    #[test]
    fn an_open_client_gets_twice_the_need_of_a_long_content_at_most() {
        // Two minutes at 5 Mbit/s.
        let (size, media) = (75_000_000, Some(MediaRate { duration: Nanos::from_secs(120), ..MEDIA }));
        let asked = |rate| RequestedRate::Rate(BitRate(rate));
        let within = |rate, media, size| asking(asked(rate), None, None).within_need(media, size).rate;
        assert_eq!(within(10_000_000, media, size), asked(10_000_000));
        assert_eq!(within(10_500_000, media, size), RequestedRate::Unstated);
        assert_eq!(within(10_500_000, media, size + size / 10), asked(10_500_000), "its size over its time");
        assert_eq!(within(60_000_000, media, size), asked(60_000_000), "a segment");
        assert_eq!(within(10_500_000, None, size), asked(10_500_000), "its need is not known");
    }

    #[test]
    fn a_segment_is_sent_ahead_up_to_the_players_rate() {
        let segment = 2_000_000; // 4 s at 4 Mbit/s
        let burst = |ceiling, payload| {
            let asked = asking(RequestedRate::Rate(BitRate(4_000_000)), None, Some(BitRate(ceiling)));
            match asked.decide(None, None, Nanos::ZERO, payload) {
                Decision::Constant { rate: BitRate(4_000_000), burst_bytes } => burst_bytes,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(burst(4_000_000, segment), 0);
        assert_eq!(burst(8_000_000, segment), 1_000_000, "in half the time");
        assert_eq!(burst(u64::MAX, segment), 1_500_000, "in a quarter: the pace allows no more");
        assert_eq!(burst(u64::MAX, 20_000_000), 0, "no segment");
        let said =
            RateTerms { burst: Some(Nanos::ZERO), ..asking(RequestedRate::Unstated, None, Some(BitRate(u64::MAX))) };
        let decision = said.decide(Some(MEDIA), None, Nanos::ZERO, segment);
        assert_eq!(decision, Decision::Constant { rate: MEDIA.rate, burst_bytes: 0 }, "what was asked for stands");
    }
}
