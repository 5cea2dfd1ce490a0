//! Tally of the viewers of segments, for people and for the law.

use units::Nanos;

/// A viewer that has waited for its picture for longer stalls, too.
const START_MAX: Nanos = Nanos::from_secs(20);

/// Figures of all viewers of segments of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ViewersTally {
    /// Viewers that came.
    pub viewers: u64,
    /// Of these, those that played without a stall.
    pub smooth: u64,
    /// Of these, those that stalled, though no fault excuses that.
    pub stalled: u64,
    /// Of these, those that a fault excuses.
    pub excused: u64,
    /// Of these, those with a refused first segment.
    pub refused: u64,
    /// Sessions that were admitted, and of which a later request was refused though no fault excuses that.
    pub lost: u64,
    /// Longest stall.
    pub stall_max: Nanos,
    /// Most by which a segment was later than its session's rate allows, from the session's first byte on.
    pub lag_max: Nanos,
    /// Segments that were later than that.
    pub lags: u64,
    /// From coming to the first picture, ascending.
    pub starts: Vec<Nanos>,
    /// From a seek to its picture, ascending.
    pub seeks: Vec<Nanos>,
    /// From asking for a segment to having all of it, ascending.
    pub segments: Vec<Nanos>,
}

impl ViewersTally {
    /// The value below which `percent` percent of ascending spans lie.
    #[must_use]
    pub fn percentile(spans: &[Nanos], percent: usize) -> Nanos {
        spans.get(spans.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
    }

    /// Counts a viewer that watched to the end of the run: its stalls, the longest of them, and its present wait for a picture.
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
