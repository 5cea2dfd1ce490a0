//! Bytes per window on one fixed grid, and the seeds' jitter figure J over them.
//!
//! Promise: exact bookkeeping in 100 ms windows, of which 1 s windows are sums of ten; J is the time average of
//! |real − expected| / expected × 100 (HiTactix §5.2.1). Bytes before the grid's start and after its end are left out,
//! so no window is partial; a window that has a part of a span in which the viewer requested nothing is in no J. Not here: clocks;
//! the caller gives `at`.

use std::ops::Range;

use units::{BitRate, Nanos};

/// The short window; the long one is ten of them.
pub(crate) const WINDOW: Nanos = Nanos::from_millis(100);
/// Short windows in a long one.
pub(crate) const SHORT_IN_LONG: usize = 10;

/// Bytes that one stream got in each window.
#[derive(Debug, Clone)]
pub(crate) struct WindowGrid {
    origin: Nanos,
    bytes: Vec<u64>,
    /// Short windows that are in no J.
    left_out: Vec<Range<usize>>,
}

/// J over one stream's windows, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Jitter {
    /// The time average.
    pub mean: f64,
    /// The worst window.
    pub worst: f64,
}

impl WindowGrid {
    /// A grid of `seconds` whole seconds from `origin` on.
    pub(crate) fn new(origin: Nanos, seconds: u64) -> Self {
        let windows = usize::try_from(seconds).unwrap_or(0).saturating_mul(SHORT_IN_LONG);
        Self { origin, bytes: vec![0; windows], left_out: Vec::new() }
    }

    /// Bytes seen at `at` arrived in the window that ends at or after `at`: a reader that looks exactly at the end of
    /// a window sees the bytes that came within it.
    pub(crate) fn add(&mut self, at: Nanos, bytes: u64) {
        if at <= self.origin {
            return;
        }
        let index = (at.0 - self.origin.0 - 1) / WINDOW.0;
        if let Some(window) = usize::try_from(index).ok().and_then(|i| self.bytes.get_mut(i)) {
            *window += bytes;
        }
    }

    /// Nothing is expected between `from` and `to`: no window that has a part of that is in J.
    pub(crate) fn leave_out(&mut self, from: Nanos, to: Nanos) {
        let since = |at: Nanos| at.saturating_sub(self.origin).0;
        let index = |windows: u64| usize::try_from(windows).unwrap_or(usize::MAX);
        self.left_out.push(index(since(from) / WINDOW.0)..index(since(to).div_ceil(WINDOW.0)));
    }

    /// Drops the bytes after `seconds`.
    pub(crate) fn truncate(&mut self, seconds: u64) {
        self.bytes.truncate(usize::try_from(seconds).unwrap_or(usize::MAX).saturating_mul(SHORT_IN_LONG));
    }

    /// All bytes on the grid.
    pub(crate) fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Bytes that arrived in second `n`.
    pub(crate) fn second(&self, n: usize) -> u64 {
        let windows = self.bytes.iter().skip(n.saturating_mul(SHORT_IN_LONG)).take(SHORT_IN_LONG);
        windows.sum()
    }

    /// Bytes of the `n`th short window, if it is there and in J.
    pub(crate) fn short(&self, n: usize) -> Option<u64> {
        self.counted(n, 1)
    }

    /// Bytes of the `n`th long window, if it is there and in J.
    pub(crate) fn long(&self, n: usize) -> Option<u64> {
        self.counted(n, SHORT_IN_LONG)
    }

    /// Bytes of each short window that is in J.
    pub(crate) fn all_short(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.bytes.len()).filter_map(|n| self.short(n))
    }

    /// J over the short windows; `None` if all are left out.
    pub(crate) fn jitter_short(&self, rate: BitRate) -> Option<Jitter> {
        jitter(self.all_short(), expected(rate, WINDOW))
    }

    /// J over the long windows; `None` if all are left out.
    pub(crate) fn jitter_long(&self, rate: BitRate) -> Option<Jitter> {
        let seconds = 0..self.bytes.len() / SHORT_IN_LONG;
        jitter(seconds.filter_map(|n| self.long(n)), expected(rate, Nanos::from_secs(1)))
    }

    /// Bytes of the `n`th row of `length` short windows, unless one of them is left out.
    fn counted(&self, n: usize, length: usize) -> Option<u64> {
        let windows = n * length..(n + 1) * length;
        let bytes = self.bytes.get(windows.clone())?;
        let is_whole = self.left_out.iter().all(|out| out.end <= windows.start || windows.end <= out.start);
        is_whole.then(|| bytes.iter().sum())
    }
}

/// Bytes a window should hold. Not rounded: at 2 Mbit/s half a byte is not nothing in a sum over hours.
#[allow(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
pub(crate) fn expected(rate: BitRate, window: Nanos) -> f64 {
    rate.0 as f64 / 8.0 * window.as_secs_f64()
}

/// J of a sequence of windows that should hold `expected` bytes each; `None` if there are none.
#[allow(clippy::cast_precision_loss, reason = "bytes of a window are far below 2^53")]
pub(crate) fn jitter(windows: impl Iterator<Item = u64>, expected: f64) -> Option<Jitter> {
    let (mut sum, mut count, mut worst) = (0.0, 0.0, 0.0_f64);
    for bytes in windows {
        let j = (bytes as f64 - expected).abs() / expected * 100.0;
        sum += j;
        count += 1.0;
        worst = worst.max(j);
    }
    (count > 0.0).then_some(Jitter { mean: sum / count, worst })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BitRate = BitRate(8_800_000);

    /// Grid of a reader that looks every 100 ms, each time up to `late` after the due time, at a sender that has
    /// sent `sent(t)` bytes by `t`. The lateness is a fixed pseudo-random sequence.
    fn read_through(sent: impl Fn(Nanos) -> u64, late: Nanos) -> WindowGrid {
        let origin = Nanos::from_secs(5);
        let mut grid = WindowGrid::new(origin, 60);
        let (mut seen, mut state) = (0, 12_345_u64);
        for n in 1..=700_u64 {
            let due = Nanos(n * WINDOW.0);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let real = Nanos(due.0 + (state >> 33) % (late.0 + 1));
            let total = sent(real);
            grid.add(due, total - seen);
            seen = total;
        }
        grid
    }

    #[test]
    fn a_perfect_sender_has_no_jitter() {
        let grid = read_through(|t| RATE.bytes_in(t), Nanos::ZERO);
        assert!(grid.jitter_long(RATE).unwrap().mean < 0.05);
        assert!(grid.jitter_short(RATE).unwrap().mean < 0.5);
        assert_eq!(grid.total(), RATE.bytes_in(Nanos::from_secs(60)));
    }

    #[test]
    fn a_reader_half_a_millisecond_late_still_sees_a_perfect_sender() {
        let grid = read_through(|t| RATE.bytes_in(t), Nanos::from_micros(500));
        let (short, long) = (grid.jitter_short(RATE).unwrap().mean, grid.jitter_long(RATE).unwrap().mean);
        assert!(long < 0.05, "{long}");
        assert!(short < 0.5, "{short}");
    }

    #[test]
    fn ticks_that_divide_the_window_are_smooth_and_a_reader_late_by_less_than_their_phase_sees_that() {
        // 50 ms ticks, 10 ms before each window's end.
        let tick = Nanos::from_millis(50);
        let sent = |t: Nanos| RATE.bytes_in(Nanos((t.0 + 10_000_000) / tick.0 * tick.0));
        let grid = read_through(sent, Nanos::from_millis(5));
        assert!(grid.jitter_short(RATE).unwrap().mean < 0.01);
    }

    #[test]
    fn once_a_second_is_smooth_over_a_second_and_180_percent_over_100_ms() {
        let second = Nanos::from_secs(1);
        let grid = read_through(|t| RATE.bytes_in(Nanos((t.0 + 50_000_000) / second.0 * second.0)), Nanos::ZERO);
        assert!(grid.jitter_long(RATE).unwrap().mean < 0.01);
        // Nine windows of ten are 100 % short, one is 900 % over.
        assert!((grid.jitter_short(RATE).unwrap().mean - 180.0).abs() < 0.1);
    }

    #[test]
    fn a_sender_at_80_percent_has_j_20() {
        let grid = read_through(|t| RATE.bytes_in(t) * 8 / 10, Nanos::ZERO);
        assert!((grid.jitter_long(RATE).unwrap().mean - 20.0).abs() < 0.01);
        assert!((grid.jitter_short(RATE).unwrap().mean - 20.0).abs() < 0.01);
    }

    #[test]
    fn a_silent_second_of_sixty_is_one_window_of_100_percent_and_no_more_when_it_is_lost() {
        let (from, to) = (Nanos::from_secs(20), Nanos::from_secs(21));
        let sent = |t: Nanos| RATE.bytes_in(Nanos(t.0.min(from.0))) + RATE.bytes_in(t.saturating_sub(to));
        let j = read_through(sent, Nanos::ZERO).jitter_long(RATE).unwrap();
        assert!((j.mean - 100.0 / 60.0).abs() < 0.01);
        assert!((j.worst - 100.0).abs() < 0.01);
    }

    #[test]
    fn bytes_off_the_grid_are_left_out() {
        let mut grid = WindowGrid::new(Nanos::from_secs(1), 1);
        grid.add(Nanos::from_millis(999), 1);
        grid.add(Nanos::from_secs(1), 2);
        grid.add(Nanos(1_000_000_001), 4);
        grid.add(Nanos::from_secs(2), 8);
        grid.add(Nanos(2_000_000_001), 16);
        assert_eq!(grid.total(), 12);
        assert_eq!((grid.short(0), grid.short(9), grid.short(10)), (Some(4), Some(8), None));
    }

    #[test]
    fn windows_with_an_excused_part_are_left_out_of_j() {
        let mut grid = read_through(|t| RATE.bytes_in(t), Nanos::ZERO);
        // Of the first ten windows of the 4th second the last but one; then from a window's end to another's.
        grid.leave_out(Nanos::from_millis(8_810), Nanos::from_millis(8_890));
        grid.leave_out(Nanos::from_millis(20_000), Nanos::from_millis(20_500));
        let left_out: Vec<usize> = (0..600).filter(|&n| grid.short(n).is_none()).collect();
        assert_eq!(left_out, [38, 150, 151, 152, 153, 154]);
        let left_out: Vec<usize> = (0..60).filter(|&n| grid.long(n).is_none()).collect();
        assert_eq!(left_out, [3, 15]);
        assert_eq!(grid.total(), RATE.bytes_in(Nanos::from_secs(60)), "they arrived all the same");
        grid.leave_out(Nanos::ZERO, Nanos::MAX);
        assert_eq!((grid.jitter_long(RATE), grid.jitter_short(RATE)), (None, None));
    }

    #[test]
    fn a_pause_is_no_jitter_and_a_lack_beside_it_is() {
        // Nothing is read from 20 s to 40 s; the second that the sender makes up comes at 40 s; from 50 to 51 s nothing is sent.
        let sent = |t: Nanos| {
            let late = if t.0 > 40_000_000_000 { RATE.bytes_in(Nanos::from_secs(1)) } else { 0 };
            let until = |s| RATE.bytes_in(Nanos(t.0.min(s)));
            until(20_000_000_000)
                + late
                + until(50_000_000_000).saturating_sub(until(40_000_000_000))
                + RATE.bytes_in(t.saturating_sub(Nanos::from_secs(51)))
        };
        let mut grid = read_through(sent, Nanos::ZERO);
        assert!(grid.jitter_long(RATE).unwrap().mean > 30.0);
        grid.leave_out(Nanos::from_secs(20), Nanos::from_secs(42));
        let j = grid.jitter_long(RATE).unwrap();
        assert!((j.mean - 100.0 / 38.0).abs() < 0.01 && (j.worst - 100.0).abs() < 0.01, "{j:?}");
    }
}
