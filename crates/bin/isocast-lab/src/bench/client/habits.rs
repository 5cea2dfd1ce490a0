//! Habits of viewers: in each minute some of them pause, and some seek.
//!
//! Promise: each viewer's actions and their times follow from the seed and the viewer's number, so that a run can be made again.
//! Not here: the actions themselves (`viewer`), their effect on the player (`player`) and on J (`grid`).

use serde::{Deserialize, Serialize};
use units::{BitRate, Nanos};

use super::result::StreamResult;
use crate::bench::content_choice::mix;
use crate::bench::quantiles::Quantiles;

/// Span in which a viewer that pauses reads nothing: longer than the socket's buffers last, so that the server sees it, and shorter
/// than the 30 s after which our server gives a stream's reservation back (`streams.stall`).
pub(crate) const PAUSE: Nanos = Nanos::from_secs(20);
/// Span without J after a pause, and after the first byte that follows a seek, as at the start of a stream: our server
/// makes up for a second of a pause at twice the rate.
pub(crate) const SETTLE: Nanos = Nanos::from_secs(2);
/// No seek goes into the end of a content, within this span: our server takes a range that lasts no longer for a segment, and sends it
/// ahead of its rate where the viewer's session has read before.
const SEGMENT_MAX: Nanos = Nanos::from_secs(30);
const MINUTE: Nanos = Nanos::from_secs(60);

/// Shares of the viewers, percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ViewerHabits {
    /// Those that pause in a minute.
    pub pause_percent: u64,
    /// Those that seek in a minute.
    pub seek_percent: u64,
}

/// Action of a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewerAction {
    /// Reads nothing for [`PAUSE`].
    Pause,
    /// Requests the same content from another place on: `place` / 2³² of the way to its last [`SEGMENT_MAX`].
    Seek { place: u32 },
}

/// First byte that a seek to `place` requests, of a content of `content_bytes` sent at `rate`.
pub(crate) fn first_byte_of(place: u32, content_bytes: u64, rate: BitRate) -> u64 {
    let places = content_bytes.saturating_sub(rate.bytes_in(SEGMENT_MAX));
    u64::try_from((u128::from(places) * u128::from(place)) >> 32).expect("less than the content")
}

impl ViewerHabits {
    /// Actions of viewer `index` in a run of `span`, each with the time since its beginning: the latest first.
    pub(crate) fn actions(self, seed: u64, index: usize, span: Nanos) -> Vec<(Nanos, ViewerAction)> {
        let mut actions = Vec::new();
        let viewer = mix(mix(seed).wrapping_add(index as u64));
        for minute in 0..span.0.div_ceil(MINUTE.0) {
            let draw = |n: u64| mix(viewer.wrapping_add(minute * 8 + n));
            let at = |n: u64| MINUTE.saturating_mul(minute) + Nanos(draw(n) % MINUTE.0);
            if draw(0) % 100 < self.pause_percent {
                actions.push((at(1), ViewerAction::Pause));
            }
            if draw(2) % 100 < self.seek_percent {
                let place = u32::try_from(draw(4) >> 32).expect("half of its bits");
                actions.push((at(3), ViewerAction::Seek { place }));
            }
        }
        actions.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        actions
    }
}

/// Pauses and seeks of all viewers of a run, with their results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HabitFigures {
    /// Pauses.
    pub pauses: u64,
    /// Seeks.
    pub seeks: u64,
    /// Those that were refused.
    pub refused_seeks: u64,
    /// From a seek to its first byte, ms; a seek that still waited when the run ended counts its wait.
    pub first_byte_ms: Quantiles,
}

impl HabitFigures {
    /// Figures of a run's streams.
    pub(crate) fn of(streams: &[StreamResult]) -> Self {
        let all = || streams.iter().map(|stream| &stream.actions);
        let mut first_bytes: Vec<f64> =
            all().flat_map(|one| &one.first_bytes).map(|span| span.as_millis_f64()).collect();
        Self {
            pauses: all().map(|one| one.pauses).sum(),
            seeks: all().map(|one| one.seeks).sum(),
            refused_seeks: all().filter(|one| one.refused).count() as u64,
            first_byte_ms: Quantiles::of(&mut first_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: ViewerHabits = ViewerHabits { pause_percent: 10, seek_percent: 10 };

    #[test]
    fn a_tenth_of_the_viewers_pauses_and_a_tenth_seeks_in_each_minute() {
        let all: Vec<_> = (0..1_000).flat_map(|index| TENTH.actions(1, index, Nanos::from_secs(600))).collect();
        let pauses = all.iter().filter(|(_, action)| *action == ViewerAction::Pause).count();
        // Ten minutes of 1,000 viewers; a deviation of the chance is 30.
        assert!((880..=1_120).contains(&pauses) && (880..=1_120).contains(&(all.len() - pauses)), "{pauses}");
        let early = all.iter().filter(|(at, _)| at.0 % MINUTE.0 < MINUTE.0 / 2).count();
        assert!((900..=1_100).contains(&early), "spread over the minute: {early}");
        let far = |(_, action): &&(Nanos, ViewerAction)| matches!(action, ViewerAction::Seek { place } if *place > u32::MAX / 2);
        assert!((420..=580).contains(&all.iter().filter(far).count()), "spread over the content");
    }

    #[test]
    fn a_seek_goes_to_any_place_but_the_last_half_minute() {
        let (rate, minute) = (BitRate(8_000_000), 60_000_000);
        assert_eq!(first_byte_of(0, minute, rate), 0);
        assert_eq!(first_byte_of(1 << 31, minute, rate), 15_000_000);
        assert_eq!(first_byte_of(u32::MAX, minute, rate), 29_999_999);
        assert_eq!(first_byte_of(u32::MAX, 29_000_000, rate), 0, "a content that is shorter");
        assert!(first_byte_of(u32::MAX, u64::MAX, rate) < u64::MAX - 30_000_000);
    }

    #[test]
    fn the_seed_fixes_each_viewers_actions_in_reverse_order() {
        let always = ViewerHabits { pause_percent: 100, seek_percent: 100 };
        let actions = always.actions(1, 7, Nanos::from_secs(180));
        assert_eq!(actions.len(), 6);
        assert!(actions.is_sorted_by_key(|(at, _)| std::cmp::Reverse(*at)));
        assert_eq!(actions, always.actions(1, 7, Nanos::from_secs(180)));
        assert_ne!(actions, always.actions(2, 7, Nanos::from_secs(180)));
        assert_ne!(actions, always.actions(1, 8, Nanos::from_secs(180)));
        assert_eq!(ViewerHabits::default().actions(1, 7, Nanos::from_secs(180)), []);
    }
}
