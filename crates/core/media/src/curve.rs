//! Fit of a rate and a preroll to the times by which bytes are needed.
//!
//! A player that starts with `P` bytes and receives `R` bytes a second never waits if P + R·t ≥ E(t) for each time t at
//! which it needs the file up to E(t). With the head H (the bytes before the first media byte) always in the preroll,
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

/// Fits `points` (in any order) of a file with its first media byte at `head`; `None` if there are none.
pub(crate) fn fit(points: &[Point], head: u64) -> Option<Fit> {
    let needed = |p: &Point| {
        let span = u128::from(p.time.0) + u128::from(PREROLL_MAX.0);
        (u128::from(p.end.saturating_sub(head)) * 8_000_000_000).div_ceil(span)
    };
    let rate = BitRate(u64::try_from(points.iter().map(needed).max()?).unwrap_or(u64::MAX));
    let preroll = points.iter().map(|p| p.end.saturating_sub(rate.bytes_in(p.time))).max()?;
    Some(Fit { rate, preroll_bytes: preroll.max(head) })
}

/// The media from `time` on begins at `offset`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) time: Nanos,
    pub(crate) offset: u64,
    /// Number of the clock that gives the time: those of joined streams have nothing in common.
    pub(crate) clock: u32,
}

impl Mark {
    pub(crate) fn new(time: Nanos, offset: u64) -> Self {
        Self { time, offset, clock: 0 }
    }

    /// A mark at a place amid some bytes.
    pub(crate) fn at(place: usize, time: Nanos) -> Self {
        Self::new(time, u64::try_from(place).unwrap_or(u64::MAX))
    }

    fn point(self) -> Point {
        Point { time: self.time, end: self.offset }
    }
}

/// Marks of a file (segments, cues, sampled clocks), between which bytes are taken as evenly spread.
#[derive(Debug, Default)]
pub(crate) struct Marks(Vec<Mark>);

impl Marks {
    /// More than [`STEPS_MAX`] are not kept.
    pub(crate) fn add(&mut self, mark: Mark) {
        if self.0.len() < STEPS_MAX {
            self.0.push(mark);
        }
    }

    /// Like [`Self::add`], but passes over a time that is not later than the one before: another track's media of the same time.
    pub(crate) fn add_later(&mut self, mark: Mark) {
        if self.0.last().is_none_or(|before| mark.time > before.time || is_restart(before, &mark)) {
            self.add(mark);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Offset of the last mark.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, |last| last.offset)
    }

    /// From the first mark to the last added one.
    pub(crate) fn span(&self) -> Nanos {
        let ends = self.0.first().zip(self.0.last());
        ends.map_or(Nanos::ZERO, |(first, last)| last.time.saturating_sub(first.time))
    }

    /// Returns the duration of the media if the bytes behind the last mark, up to `end`, go at the pace of the marks.
    pub(crate) fn duration_at_their_pace(&self, end: u64) -> Option<Nanos> {
        let (first, last) = self.0.first().zip(self.0.last())?;
        let marked = last.offset.checked_sub(first.offset).filter(|bytes| *bytes > 0)?;
        Some(time_at(end.saturating_sub(first.offset), marked, self.span()))
    }

    /// Fits the marks. The media ends at `end`, after `duration` if that is known, else after an interval like those
    /// before. Also gives the duration; `None` if there are too few marks.
    pub(crate) fn fit(mut self, duration: Option<Nanos>, end: u64) -> Option<(Fit, Nanos)> {
        close_restarts(&mut self.0);
        // Not by offset: a mark may lie about either, and the fit is over time.
        let mut points: Vec<Point> = self.0.into_iter().map(Mark::point).collect();
        points.sort_unstable_by_key(|p| (p.time, p.end));
        let (first, last) = (*points.first()?, *points.last()?);
        let span = last.time.saturating_sub(first.time);
        let intervals = u64::try_from(points.len() - 1).unwrap_or(u64::MAX);
        points.iter_mut().for_each(|p| p.time = p.time.saturating_sub(first.time));
        let told = duration.filter(|d| *d >= span && d.0 > 0);
        points.extend(told.map(|time| Point { time, end }));
        close_jumps(&mut points);
        if told.is_none() {
            let span = points.last()?.time;
            let time = span.saturating_add(Nanos(span.0.checked_div(intervals).unwrap_or(0)));
            points.push(Point { time, end });
        }
        let duration = points.last()?.time;
        (duration.0 > 0).then_some((fit(&points, first.end.min(end))?, duration))
    }
}

/// Shortest jump of a clock: a shorter interval is none. Chosen: encoders leave 250 pictures between key frames, 10.4 s of a film.
const JUMP_MIN: Nanos = Nanos::from_secs(15);
/// An interval below this part of the whole is no jump either: it hardly changes the rate.
const JUMP_PART: u64 = 6;
/// Nor is an interval with bytes at more than this part of the pace of all others. An interval with a good part of the bytes, which may be
/// a quiet part without a mark, is none at more than the second.
const JUMP_PACE: u128 = 8;
const JUMP_PACE_WIDE: u128 = 20;
/// Jumps in one content.
const JUMPS_MAX: usize = 16;

/// A time that lies less before the one of earlier bytes is no restart: tracks lie a little apart.
const RESTART_MIN: Nanos = Nanos::from_secs(5);

fn is_restart(before: &Mark, next: &Mark) -> bool {
    next.clock != before.clock || goes_back(before, next)
}

fn goes_back(before: &Mark, next: &Mark) -> bool {
    next.time.saturating_add(RESTART_MIN) < before.time
}

/// Where times begin anew amid the file (a recorder that was started again and appends, streams that were joined), the later part follows
/// the earlier one, at the pace of all others. Times of one clock in no order at all are kept.
fn close_restarts(marks: &mut [Mark]) {
    marks.sort_unstable_by_key(|mark| (mark.offset, mark.time));
    let (mut bytes, mut time, mut restarts, mut back) = (0, Nanos::ZERO, 0, 0);
    for pair in marks.windows(2) {
        if is_restart(&pair[0], &pair[1]) {
            restarts += 1;
            back += usize::from(pair[0].clock == pair[1].clock);
        } else {
            bytes += pair[1].offset - pair[0].offset;
            time = time.saturating_add(pair[1].time.saturating_sub(pair[0].time));
        }
    }
    if restarts == 0 || back > JUMPS_MAX {
        return;
    }
    // The time at which the next part begins, and the time of its clock there.
    let (mut begins, mut told_first) = (Nanos::ZERO, Nanos::ZERO);
    let mut before: Option<(Mark, Nanos)> = None;
    for mark in marks {
        let told = *mark;
        if let Some((before, at)) = before.filter(|(before, _)| is_restart(before, &told)) {
            begins = at.saturating_add(time_at(told.offset - before.offset, bytes, time));
            told_first = told.time;
        }
        mark.time = begins.saturating_add(told.time.saturating_sub(told_first));
        before = Some((told, mark.time));
    }
}

/// `points` are in the order of their times. An interval that lasts for a good part of the whole and has next to no bytes is a
/// clock that was set: cameras begin to record before they know the time. Its length becomes that of its bytes at the pace of
/// all others. Gives the time that all jumps together were longer.
fn close_jumps(points: &mut [Point]) -> Nanos {
    let mut closed = Nanos::ZERO;
    for _ in 0..JUMPS_MAX {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { break };
        let whole = Point { time: last.time.saturating_sub(first.time), end: last.end.saturating_sub(first.end) };
        let interval = |pair: &[Point]| Point {
            time: pair[1].time.saturating_sub(pair[0].time),
            end: pair[1].end.saturating_sub(pair[0].end),
        };
        let intervals = points.windows(2).map(interval).enumerate();
        let Some((at, longest)) = intervals.max_by_key(|(_, interval)| interval.time) else { break };
        let rest = Point { time: whole.time.saturating_sub(longest.time), end: whole.end.saturating_sub(longest.end) };
        let product = |bytes: u64, time: Nanos| u128::from(bytes).saturating_mul(u128::from(time.0));
        let pace = if longest.end < whole.end / JUMP_PART { JUMP_PACE } else { JUMP_PACE_WIDE };
        let is_slow = product(longest.end, rest.time).saturating_mul(pace) < product(rest.end, longest.time);
        let is_jump = longest.time > JUMP_MIN && longest.time.0 >= whole.time.0 / JUMP_PART && is_slow;
        if !is_jump || rest.time == Nanos::ZERO {
            break;
        }
        let excess = longest.time.saturating_sub(time_at(longest.end, rest.end, rest.time));
        points[at + 1..].iter_mut().for_each(|point| point.time = point.time.saturating_sub(excess));
        closed = closed.saturating_add(excess);
    }
    closed
}

/// Time that `bytes` last at the pace at which `of_bytes` last for `time`.
pub(crate) fn time_at(bytes: u64, of_bytes: u64, time: Nanos) -> Nanos {
    let nanos = u128::from(bytes) * u128::from(time.0) / u128::from(of_bytes.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Many samples, gathered in steps of time; each step counts as needed at its beginning.
#[derive(Debug)]
pub(crate) struct Samples {
    step: u64,
    /// By step: the furthest end of a sample, and the bytes of all samples.
    steps: Vec<(u64, u64)>,
    head: u64,
    file_bytes: u64,
    is_cut: bool,
}

impl Samples {
    pub(crate) fn new(file_bytes: u64) -> Self {
        Self { step: STEP_FIRST, steps: Vec::new(), head: u64::MAX, file_bytes, is_cut: false }
    }

    /// Time at which the samples end, if the file ends before all of them.
    pub(crate) fn cut_at(&self) -> Option<Nanos> {
        let steps = u64::try_from(self.steps.len()).ok().filter(|steps| self.is_cut && *steps > 0)?;
        Some(Nanos(self.step.saturating_mul(steps)))
    }

    /// A sample of `bytes` at `offset`, decoded at `time`.
    pub(crate) fn add(&mut self, time: Nanos, offset: u64, bytes: u64) {
        let there = self.file_bytes.saturating_sub(offset);
        self.is_cut |= there < bytes;
        if there == 0 {
            return;
        }
        let bytes = bytes.min(there);
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

    /// Fits by where the samples lie in the file. If that asks for much more than their sizes do (tracks one after the other instead of
    /// interleaved), no player can read it in one go; it jumps, and the sizes count. Also gives the time that the clock was set ahead.
    pub(crate) fn fit(&self) -> Option<(Fit, Nanos)> {
        let (mut end, mut sum) = (0, self.head);
        let (mut by_place, mut by_size) = (Vec::new(), Vec::new());
        for (index, slot) in self.steps.iter().enumerate().filter(|(_, slot)| slot.1 > 0) {
            let time = Nanos(self.step.saturating_mul(u64::try_from(index).unwrap_or(u64::MAX)));
            end = end.max(slot.0);
            sum = sum.saturating_add(slot.1);
            by_place.push(Point { time, end });
            by_size.push(Point { time, end: sum });
        }
        // By sizes: a place far behind has no bearing on the pace.
        let jumped = close_jumps(&mut by_size);
        by_place.iter_mut().zip(&by_size).for_each(|(place, size)| place.time = size.time);
        let (place, size) = (fit(&by_place, self.head)?, fit(&by_size, self.head)?);
        Some((if place.rate.0 / 3 > size.rate.0 / 2 { size } else { place }, jumped))
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
            (0..10).rev().for_each(|i| marks.add(Mark::new(Nanos::from_secs(1000 + 10 * i), 1000 + i * 1_000_000)));
            marks
        };
        let (fit, duration) = marks().fit(None, 10_001_000).expect("ten marks");
        assert_eq!(duration, Nanos::from_secs(100));
        assert_eq!(fit.rate.0, (80_000_000_u64).div_ceil(104));
        assert_eq!(marks().fit(Some(Nanos::from_secs(96)), 10_001_000).expect("ten marks").0.rate, BitRate(800_000));
        assert!(Marks::default().fit(Some(Nanos::from_secs(1)), 10).is_none());
    }

    /// A camera learns the time a second after it began, or at the end, or twice: 2 Mbit/s for 40 s.
    #[test]
    fn a_clock_that_was_set_is_no_time() {
        let places = [vec![1], vec![20], vec![39], vec![1, 20]];
        for (jumps, length) in places.iter().flat_map(|jumps| [20, 55, 7200].map(|length| (jumps, length))) {
            let time = |second: u64| {
                let late = jumps.iter().filter(|at| second >= **at).count();
                Nanos::from_secs(second + length * u64::try_from(late).expect("few"))
            };
            let (mut marks, mut samples) = (Marks::default(), Samples::new(u64::MAX));
            for second in 0..40 {
                marks.add(Mark::new(time(second), 1000 + second * 250_000));
                samples.add(time(second), 1000 + second * 250_000, 250_000);
            }
            let (fit, duration) = marks.fit(Some(time(40)), 10_001_000).expect("marks");
            assert!((1_600_000..2_200_000).contains(&fit.rate.0), "{jumps:?} of {length} s: {fit:?}");
            assert!((38..=46).contains(&(duration.0 / 1_000_000_000)), "{jumps:?} of {length} s: {duration:?}");
            let (fit, jumped) = samples.fit().expect("samples");
            let all = length * u64::try_from(jumps.len()).expect("few");
            assert!((all * 9 / 10..=all).contains(&(jumped.0 / 1_000_000_000)), "{jumps:?} of {length} s: {jumped:?}");
            assert!((1_600_000..2_200_000).contains(&fit.rate.0), "{jumps:?} of {length} s: {fit:?}");
        }
    }

    /// A recorder that was started again appends to its file, with times from zero: twice 50 s of 2 Mbit/s.
    #[test]
    fn a_clock_that_begins_anew_is_read_on() {
        let mut marks = Marks::default();
        (0..100).for_each(|second| marks.add(Mark::new(Nanos::from_secs(second % 50), 1000 + second * 250_000)));
        let (fit, duration) = marks.fit(None, 25_001_000).expect("marks");
        assert!((1_800_000..2_100_000).contains(&fit.rate.0), "{fit:?}");
        assert!((99..=102).contains(&(duration.0 / 1_000_000_000)), "{duration:?}");
    }

    /// Pictures that stay for minutes, and a film with a part in which nothing moves, are no jumps.
    #[test]
    fn long_times_between_bytes_are_kept() {
        let mut slides = Marks::default();
        (0..5).for_each(|number| slides.add(Mark::new(Nanos::from_secs(300 * number), 1000 + number * 200_000)));
        assert_eq!(slides.fit(None, 1_001_000).expect("marks").1, Nanos::from_secs(1500));
        let mut still = Marks::default();
        (0..100)
            .filter(|second| !(40..50).contains(second))
            .for_each(|at| still.add(Mark::new(Nanos::from_secs(at), at * 1000)));
        assert_eq!(still.fit(None, 100_000).expect("marks").1.0 / 1_000_000_000, 100);
    }

    #[test]
    fn tracks_one_after_the_other_count_by_size() {
        let (mut mixed, mut apart) = (Samples::new(u64::MAX), Samples::new(u64::MAX));
        for i in 0..1000 {
            let time = Nanos::from_millis(i * 40);
            mixed.add(time, 1000 + i * 50_000, 40_000);
            mixed.add(time, 41_000 + i * 50_000, 10_000);
            apart.add(time, 1000 + i * 40_000, 40_000);
            apart.add(time, 40_001_000 + i * 10_000, 10_000);
        }
        assert_eq!(mixed.fit(), apart.fit());
        // 50 kB each 40 ms is 10 Mbit/s; 40 s of it, 4 s ahead.
        let rate = mixed.fit().expect("samples").0.rate.0;
        assert!((9_000_000..9_200_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_very_long_content_keeps_memory_bounded() {
        let mut samples = Samples::new(u64::MAX);
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
