//! Counts of an emulated disk.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use units::real;

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
        let line = |what: &str, q: &TimeQuantiles| {
            let [p50, p90, p99, max] = [q.p50, q.p90, q.p99, q.max].map(|us| real(us) / 1e3);
            format!("{what:<10} p50 {p50:.2}  p90 {p90:.2}  p99 {p99:.2}  max {max:.2} ms\n")
        };
        let latencies =
            [("read", &self.read_latency_us), ("write", &self.write_latency_us), ("flush", &self.flush_latency_us)];
        let latencies = latencies.map(|(what, quantiles)| line(what, quantiles)).concat();
        let Self { timing, reads, writes, flushes, errors, busy_percent, write_percent, seeks, .. } = self;
        let Self { seek_seconds, rotation_seconds, transfer_seconds, buffer_hits, streamed, drains, .. } = self;
        let Self { unflushed_writes, queue_now, queue_mean, queue_max, lateness_us, .. } = self;
        let ModelLateness { quantiles: TimeQuantiles { p50, p99, max, .. }, over_1ms, over_10ms } = lateness_us;
        let (seconds, alive) = (self.seconds.round(), if self.alive { "alive" } else { "DEAD" });
        let is_slow = (self.slow_factor - 1.0).abs() > 1e-9;
        let slow = if is_slow { format!(", slow x{}", self.slow_factor) } else { String::new() };
        let [read_mb, written_mb] = [self.read_bytes, self.written_bytes].map(|bytes| real(bytes) / 1e6);
        let dirty_mib = real(self.dirty_bytes) / 1_048_576.0;
        let disturbed = if *over_10ms > 0 { "  <- disturbed by the machine: repeat the run" } else { "" };
        format!(
            "{name}: {seconds} s, timing {timing}, {alive}{slow}\n\
             reads      {reads} ({read_mb:.1} MB), writes {writes} ({written_mb:.1} MB), flushes {flushes}, errors {errors}\n\
             head       busy {busy_percent:.1} % (writes {write_percent:.1} %): seeks {seek_seconds:.2} s ({seeks}), rotation \
             {rotation_seconds:.2} s, transfer {transfer_seconds:.2} s\n\
             buffer     {buffer_hits} hits, {streamed} streamed; cache {drains} drains, {dirty_mib:.1} MiB dirty, {unflushed_writes} \
             writes not flushed\n\
             queue      now {queue_now}, mean {queue_mean:.2}, max {queue_max}\n{latencies}\
             lateness   p50 {p50} us, p99 {p99} us, max {max} us; over 1 ms: {over_1ms}, over 10 ms: {over_10ms}{disturbed}\n"
        )
    }
}
