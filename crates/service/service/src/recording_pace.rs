//! Progress of a recording or an upload, and a recording's lead over its rate.
//!
//! Promise: arithmetic only. Not here: its reservation (`recording`), its events (`ingest`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use units::limits::RECORDING_EXCESS;
use units::{BitRate, Nanos};

/// Progress of a recording or an upload, for the listing of streams.
#[derive(Debug, Default)]
pub struct RecordingProgress {
    /// Bytes received.
    pub received: AtomicU64,
    /// It was ahead of its rate by more than [`RECORDING_EXCESS`] once.
    pub over_rate: AtomicBool,
    /// When the last of them came, or it began: in nanoseconds of the service's time.
    last: AtomicU64,
}

impl RecordingProgress {
    pub(crate) fn note(&self, bytes: u64, now: Nanos) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
        self.last.store(now.0, Ordering::Relaxed);
    }

    /// For how long nothing has come.
    pub(crate) fn silence(&self, now: Nanos) -> Nanos {
        now.saturating_sub(Nanos(self.last.load(Ordering::Relaxed)))
    }
}

/// When a recording may have its next byte, at its rate.
#[derive(Debug)]
pub(crate) struct RecordingPace {
    rate: BitRate,
    next: Nanos,
}

impl RecordingPace {
    pub(crate) const fn new(rate: BitRate) -> Self {
        Self { rate, next: Nanos::ZERO }
    }

    pub(crate) const fn rate(&self) -> BitRate {
        self.rate
    }

    /// Notes that `bytes` came; true if those before them are further ahead of the rate than they may be. Unused time is not saved.
    pub(crate) fn came(&mut self, bytes: u64, now: Nanos) -> bool {
        let ahead = self.next.saturating_sub(now);
        self.next = self.next.max(now).saturating_add(self.rate.time_for(bytes));
        ahead > RECORDING_EXCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three times the rate for a second in four, as key frames come, and half as much again, as rain makes.
    #[test]
    fn a_recording_is_over_its_rate_when_it_is_two_seconds_ahead() {
        let ahead = |tenths: fn(u64) -> u64| {
            let mut pace = RecordingPace::new(BitRate(8_000_000));
            (0..600).position(|n| pace.came(tenths(n) * 10_000, Nanos::from_millis(1000 + 100 * n)))
        };
        assert_eq!(ahead(|n| if n % 40 < 10 { 30 } else { 3 }), None);
        assert_eq!(ahead(|n| if n < 300 { 0 } else { 10 }), None, "silence is not saved");
        assert!(ahead(|_| 15).is_some_and(|n| (40..=42).contains(&n)), "after four seconds");
        assert_eq!(ahead(|n| if n == 0 { 300 } else { 0 }), Some(1));
    }
}
