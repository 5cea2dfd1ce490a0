//! J of a stream: how far the bytes of each second are from its rate (HiTactix §5.2.1).
//!
//! Promise: seconds in which its client did not take the bytes of a tick, or its start burst is on its way, count nothing. Not here: the mean
//! over seconds and streams (`service`).

use units::Nanos;

use super::PacedStream;
use crate::gauges::StreamGauges;

/// HiTactix §5.2.1. Chosen there.
const JITTER_WINDOW: Nanos = Nanos::from_secs(1);

/// The window in which J is measured: since when, and the payload sent by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct JitterWindow {
    from: Nanos,
    payload: u64,
}

impl PacedStream {
    /// At the tick `at`, before its send.
    pub(super) fn measure_jitter(&mut self, gauges: &StreamGauges, at: Nanos) {
        let Some(pace) = self.pace else { return };
        if self.in_flight.is_some() {
            // Its client has not taken the bytes of the last tick: the bytes it gets until it is no longer behind say
            // nothing about the server.
            self.window.from = Nanos::ZERO;
            return self.publish_progress(gauges);
        }
        if self.window.from == Nanos::ZERO {
            // The first window begins behind the start burst: that one is no unevenness of the rate.
            if pace.is_steady(at, self.send.payload) {
                self.window = JitterWindow { from: at, payload: self.send.payload };
            }
            return self.publish_progress(gauges);
        }
        let elapsed = at.saturating_sub(self.window.from);
        if elapsed < JITTER_WINDOW {
            return;
        }
        let real = self.send.payload - self.window.payload;
        let expected = pace.rate().bytes_in(elapsed);
        gauges.jitter_sum_ppm.add(real.abs_diff(expected).saturating_mul(1_000_000) / expected.max(1));
        gauges.jitter_windows.add(1);
        self.window = JitterWindow { from: at, payload: self.send.payload };
        self.publish_progress(gauges);
    }

    /// Once a window, not once a tick: thousands of streams' gauges lie in no cache.
    pub(super) fn publish_progress(&self, gauges: &StreamGauges) {
        gauges.sent_bytes.set(self.sent_bytes);
        gauges.buffered_bytes.set(self.fetched - self.send.payload);
    }
}
