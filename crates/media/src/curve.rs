//! From "these bytes are needed by then" to (rate, preroll).
//!
//! A player that starts with `P` bytes and receives `R` bytes a second never waits if P + R·t ≥ E(t) for each time t at
//! which it needs the file up to E(t). With the head H (what lies before the first media byte) always in the preroll,
//! and at most [`PREROLL_MAX`] = T of media in it, P = H + R·T must do for each point, so the least rate is
//! R = max (E − H) / (t + T), and the least preroll at that rate is P = max (E − R·t).

use units::{BitRate, Nanos};

use super::PREROLL_MAX;

/// Steps of time a [`Samples`] can hold: memory is bounded, long contents get coarser steps.
const STEPS_MAX: usize = 1 << 16;
const STEP_FIRST: u64 = 10_000_000;

/// At `time` from the start of playing, the file is needed up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) time: Nanos,
    pub(crate) end: u64,
}

/// The least constant rate, and its preroll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fit {
    pub(crate) rate: BitRate,
    pub(crate) preroll_bytes: u64,
}

/// Fits `points` (in any order) of a file whose first media byte is at `head`; `None` if there are none.
pub(crate) fn fit(points: &[Point], head: u64) -> Option<Fit> {
    let needed = |p: &Point| {
        let span = u128::from(p.time.0) + u128::from(PREROLL_MAX.0);
        (u128::from(p.end.saturating_sub(head)) * 8_000_000_000).div_ceil(span)
    };
    let rate = BitRate(u64::try_from(points.iter().map(needed).max()?).unwrap_or(u64::MAX));
    let preroll = points.iter().map(|p| p.end.saturating_sub(rate.bytes_in(p.time))).max()?;
    Some(Fit { rate, preroll_bytes: preroll.max(head) })
}

/// Places in a file where the media of a time begins (segments, cues, sampled clocks), between which bytes are taken as
/// evenly spread.
#[derive(Debug, Default)]
pub(crate) struct Marks(Vec<Point>);

impl Marks {
    /// The media from `time` on begins at `offset`. More than [`STEPS_MAX`] are not kept.
    pub(crate) fn add(&mut self, time: Nanos, offset: u64) {
        if self.0.len() < STEPS_MAX {
            self.0.push(Point { time, end: offset });
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Fits them. The media ends at `end`, after `duration` if that is known, else after an interval like those before.
    /// Also gives the duration; `None` if there are too few marks to tell.
    pub(crate) fn fit(mut self, duration: Option<Nanos>, end: u64) -> Option<(Fit, Nanos)> {
        // Not by offset: a mark may lie about either, and time is what is fitted over.
        self.0.sort_unstable_by_key(|p| (p.time, p.end));
        let (first, last) = (*self.0.first()?, *self.0.last()?);
        let span = last.time.saturating_sub(first.time);
        let intervals = u64::try_from(self.0.len() - 1).unwrap_or(u64::MAX);
        let guessed = || span.saturating_add(Nanos(span.0.checked_div(intervals).unwrap_or(0)));
        let duration = duration.filter(|d| *d >= span && d.0 > 0).unwrap_or_else(guessed);
        self.0.iter_mut().for_each(|p| p.time = p.time.saturating_sub(first.time));
        self.0.push(Point { time: duration, end });
        (duration.0 > 0).then_some((fit(&self.0, first.end.min(end))?, duration))
    }
}

/// Many samples, gathered in steps of time; each step counts as needed at its beginning.
#[derive(Debug)]
pub(crate) struct Samples {
    step: u64,
    /// By step: the furthest end of a sample, and the bytes of all samples.
    steps: Vec<(u64, u64)>,
    head: u64,
}

impl Samples {
    pub(crate) fn new() -> Self {
        Self { step: STEP_FIRST, steps: Vec::new(), head: u64::MAX }
    }

    /// A sample of `bytes` at `offset`, decoded at `time`.
    pub(crate) fn add(&mut self, time: Nanos, offset: u64, bytes: u64) {
        while time.0 / self.step >= u64::try_from(STEPS_MAX).unwrap_or(u64::MAX) {
            self.step = self.step.saturating_mul(2);
            let pairs = self.steps.chunks(2);
            self.steps = pairs.map(|p| p.iter().fold((0, 0), |a, b| (a.0.max(b.0), a.1 + b.1))).collect();
        }
        let index = usize::try_from(time.0 / self.step).unwrap_or(STEPS_MAX - 1);
        if self.steps.len() <= index {
            self.steps.resize(index + 1, (0, 0));
        }
        let slot = &mut self.steps[index];
        slot.0 = slot.0.max(offset.saturating_add(bytes));
        slot.1 = slot.1.saturating_add(bytes);
        self.head = self.head.min(offset);
    }

    /// Fits by where the samples lie in the file. If that asks for much more than their sizes do (tracks one after the
    /// other instead of interleaved), no player can read it in one go; it jumps, and the sizes count.
    pub(crate) fn fit(&self) -> Option<Fit> {
        let (mut end, mut sum) = (0, self.head);
        let (mut by_place, mut by_size) = (Vec::new(), Vec::new());
        for (index, slot) in self.steps.iter().enumerate() {
            let time = Nanos(self.step.saturating_mul(u64::try_from(index).unwrap_or(u64::MAX)));
            end = end.max(slot.0);
            sum = sum.saturating_add(slot.1);
            by_place.push(Point { time, end });
            by_size.push(Point { time, end: sum });
        }
        let (place, size) = (fit(&by_place, self.head)?, fit(&by_size, self.head)?);
        Some(if place.rate.0 / 3 > size.rate.0 / 2 { size } else { place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(millis: u64, end: u64) -> Point {
        Point { time: Nanos::from_millis(millis), end }
    }

    #[test]
    fn a_constant_rate_is_lowered_by_its_preroll() {
        // 1 MB a second for 96 s, after a head of 500 kB.
        let points: Vec<Point> = (0..=96).map(|s| point(s * 1000, 500_000 + s * 1_000_000)).collect();
        let fit = fit(&points, 500_000).expect("points");
        assert_eq!(fit.rate, BitRate(8 * 960_000));
        assert_eq!(fit.preroll_bytes, 500_000 + 4 * 960_000);
    }

    #[test]
    fn marks_start_at_any_time_and_guess_their_end() {
        let marks = || {
            let mut marks = Marks::default();
            (0..10).rev().for_each(|i| marks.add(Nanos::from_secs(1000 + 10 * i), 1000 + i * 1_000_000));
            marks
        };
        let (fit, duration) = marks().fit(None, 10_001_000).expect("ten marks");
        assert_eq!(duration, Nanos::from_secs(100));
        assert_eq!(fit.rate.0, (80_000_000_u64).div_ceil(104));
        assert_eq!(marks().fit(Some(Nanos::from_secs(96)), 10_001_000).expect("ten marks").0.rate, BitRate(800_000));
        assert!(Marks::default().fit(Some(Nanos::from_secs(1)), 10).is_none());
    }

    #[test]
    fn tracks_one_after_the_other_count_by_size() {
        let (mut mixed, mut apart) = (Samples::new(), Samples::new());
        for i in 0..1000 {
            let time = Nanos::from_millis(i * 40);
            mixed.add(time, 1000 + i * 50_000, 40_000);
            mixed.add(time, 41_000 + i * 50_000, 10_000);
            apart.add(time, 1000 + i * 40_000, 40_000);
            apart.add(time, 40_001_000 + i * 10_000, 10_000);
        }
        assert_eq!(mixed.fit(), apart.fit());
        // 50 kB each 40 ms is 10 Mbit/s; 40 s of it, 4 s ahead.
        let rate = mixed.fit().expect("samples").rate.0;
        assert!((9_000_000..9_200_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_very_long_content_keeps_memory_bounded() {
        let mut samples = Samples::new();
        for hour in 0..100_000 {
            samples.add(Nanos::from_secs(hour * 3600), hour * 1_000_000, 1000);
        }
        samples.add(Nanos::MAX, 0, 1);
        assert!(samples.steps.len() <= STEPS_MAX);
        assert!(samples.fit().is_some());
    }

    proptest! {
        #[test]
        fn the_fit_never_waits_and_no_lower_rate_would_do(
            raw in proptest::collection::vec((0u64..3_600_000, 1u64..10_000_000_000), 1..60),
            head in 0u64..10_000_000,
        ) {
            let points: Vec<Point> = raw.iter().map(|(ms, end)| point(*ms, *end)).collect();
            let fit = fit(&points, head).expect("points");
            for p in &points {
                prop_assert!(fit.preroll_bytes + fit.rate.bytes_in(p.time) >= p.end);
            }
            prop_assert!(fit.preroll_bytes <= head + fit.rate.bytes_in(PREROLL_MAX) + 1);
            if let Some(lower) = fit.rate.0.checked_sub(9).map(BitRate) {
                let ahead = head + lower.bytes_in(PREROLL_MAX);
                prop_assert!(points.iter().any(|p| ahead + lower.bytes_in(p.time) < p.end));
            }
        }
    }
}
