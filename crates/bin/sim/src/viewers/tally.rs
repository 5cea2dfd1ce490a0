//! Tally of the viewers of segments: figures for the report, and the input of the law.

use units::Nanos;

/// A wait for the first picture that is longer than this counts as a stall.
const START_MAX: Nanos = Nanos::from_secs(20);

/// Figures of all viewers of segments of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ViewersTally {
    /// Viewers that began to watch.
    pub viewers: u64,
    /// Viewers that played without a stall.
    pub smooth: u64,
    /// Viewers that stalled without a fault that excuses it.
    pub stalled: u64,
    /// Viewers whose stalls a fault excuses.
    pub excused: u64,
    /// Viewers whose first segment was refused.
    pub refused: u64,
    /// Admitted sessions with a later request that was refused without a fault that excuses it.
    pub lost: u64,
    /// Longest stall.
    pub stall_max: Nanos,
    /// Greatest lateness of a segment against its session's rate, from the session's first byte on.
    pub lag_max: Nanos,
    /// Segments that were later than the session's rate allows.
    pub lags: u64,
    /// Times from a viewer's beginning to its first picture, ascending.
    pub starts: Vec<Nanos>,
    /// Times from a seek to its first picture, ascending.
    pub seeks: Vec<Nanos>,
    /// Times from the request of a segment to its last byte, ascending.
    pub segments: Vec<Nanos>,
}

impl ViewersTally {
    /// The value below which `percent` percent of ascending spans lie.
    #[must_use]
    pub fn percentile(spans: &[Nanos], percent: usize) -> Nanos {
        spans.get(spans.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
    }

    /// Counts a viewer that watched to the end of the run: `stalls`, the longest of them, and `waits`, its present wait for a picture.
    pub(super) fn count(&mut self, stalls: u32, stall_max: Nanos, waits: Nanos, excused: bool) {
        let without_picture = if waits > START_MAX { waits } else { Nanos::ZERO };
        let smooth = stalls == 0 && without_picture == Nanos::ZERO;
        self.smooth += u64::from(smooth);
        self.excused += u64::from(!smooth && excused);
        if !smooth && !excused {
            self.stalled += 1;
            self.stall_max = self.stall_max.max(stall_max).max(without_picture);
        }
    }

    /// Notes by how much a segment was later than its session's rate allows.
    pub(crate) fn note_lag(&mut self, lag: Nanos) {
        self.lag_max = self.lag_max.max(lag);
        self.lags += u64::from(lag > Nanos::ZERO);
    }

    pub(super) fn sort(&mut self) {
        for spans in [&mut self.starts, &mut self.seeks, &mut self.segments] {
            spans.sort_unstable();
        }
    }
}
