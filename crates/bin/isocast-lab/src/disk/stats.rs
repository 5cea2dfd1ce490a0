//! Counts of an emulated disk.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Quantiles of a time, in microseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub(crate) struct TimeQuantiles {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

impl TimeQuantiles {
    pub(crate) fn of(h: &Histogram<u64>) -> Self {
        Self {
            count: h.len(),
            mean: h.mean(),
            p50: h.value_at_quantile(0.5),
            p90: h.value_at_quantile(0.9),
            p99: h.value_at_quantile(0.99),
            p999: h.value_at_quantile(0.999),
            max: h.max(),
        }
    }
}

/// Lateness of answers against the model.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub(crate) struct ModelLateness {
    #[serde(flatten)]
    pub(crate) quantiles: TimeQuantiles,
    /// Answers more than 1 ms late.
    pub(crate) over_1ms: u64,
    /// Answers more than 10 ms late: not zero means that the machine disturbed the run.
    pub(crate) over_10ms: u64,
}

/// The answer to `stat`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub(crate) struct Statistics {
    /// Seconds since the last `reset`.
    pub(crate) seconds: f64,
    /// `model`, `off` or `fixed`.
    pub(crate) timing: String,
    /// False: dead, hung or without power.
    pub(crate) alive: bool,
    pub(crate) slow_factor: f64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) flushes: u64,
    pub(crate) errors: u64,
    /// Answers sent while `timing off`.
    pub(crate) untimed: u64,
    pub(crate) media_operations: u64,
    pub(crate) seeks: u64,
    pub(crate) seek_seconds: f64,
    pub(crate) rotation_seconds: f64,
    pub(crate) transfer_seconds: f64,
    /// Per cent of the time in which the head was busy.
    pub(crate) busy_percent: f64,
    /// Of this, per cent of the time spent on writes.
    pub(crate) write_percent: f64,
    pub(crate) buffer_hits: u64,
    pub(crate) streamed: u64,
    pub(crate) drains: u64,
    pub(crate) dirty_bytes: u64,
    /// Writes that a power cut could destroy.
    pub(crate) unflushed_writes: u64,
    pub(crate) queue_now: u32,
    pub(crate) queue_max: u32,
    pub(crate) queue_mean: f64,
    pub(crate) read_latency_us: TimeQuantiles,
    pub(crate) write_latency_us: TimeQuantiles,
    pub(crate) flush_latency_us: TimeQuantiles,
    pub(crate) lateness_us: ModelLateness,
    /// Arriving sizes: (bytes, requests).
    pub(crate) sizes: Vec<(u64, u64)>,
    /// Path latency subtracted from each answer: microseconds, and microseconds per MiB.
    pub(crate) compensation_us: (f64, f64),
}

impl Statistics {
    /// Readable text.
    pub(crate) fn table(&self, name: &str) -> String {
        let l = &self.lateness_us;
        let line = |what: &str, q: &TimeQuantiles| {
            format!(
                "{what:<10} p50 {:.2}  p90 {:.2}  p99 {:.2}  max {:.2} ms\n",
                ms(q.p50),
                ms(q.p90),
                ms(q.p99),
                ms(q.max)
            )
        };
        format!(
            "{name}: {} s, timing {}, {}{}\n\
             reads      {} ({:.1} MB), writes {} ({:.1} MB), flushes {}, errors {}\n\
             head       busy {:.1} % (writes {:.1} %): seeks {:.2} s ({}), rotation {:.2} s, transfer {:.2} s\n\
             buffer     {} hits, {} streamed; cache {} drains, {:.1} MiB dirty, {} writes not flushed\n\
             queue      now {}, mean {:.2}, max {}\n{}{}{}\
             lateness   p50 {} us, p99 {} us, max {} us; over 1 ms: {}, over 10 ms: {}{}\n",
            self.seconds.round(),
            self.timing,
            if self.alive { "alive" } else { "DEAD" },
            if (self.slow_factor - 1.0).abs() > 1e-9 { format!(", slow x{}", self.slow_factor) } else { String::new() },
            self.reads,
            megabytes(self.read_bytes),
            self.writes,
            megabytes(self.written_bytes),
            self.flushes,
            self.errors,
            self.busy_percent,
            self.write_percent,
            self.seek_seconds,
            self.seeks,
            self.rotation_seconds,
            self.transfer_seconds,
            self.buffer_hits,
            self.streamed,
            self.drains,
            megabytes(self.dirty_bytes) / 1.048_576,
            self.unflushed_writes,
            self.queue_now,
            self.queue_mean,
            self.queue_max,
            line("read", &self.read_latency_us),
            line("write", &self.write_latency_us),
            line("flush", &self.flush_latency_us),
            l.quantiles.p50,
            l.quantiles.p99,
            l.quantiles.max,
            l.over_1ms,
            l.over_10ms,
            if l.over_10ms > 0 { "  <- disturbed by the machine: repeat the run" } else { "" },
        )
    }
}

#[allow(clippy::cast_precision_loss, reason = "for display")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[allow(clippy::cast_precision_loss, reason = "for display")]
fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}
