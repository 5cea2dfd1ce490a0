//! One thread of the client: starts its streams, watches each up to its first byte, then looks at them slot by slot.

use std::sync::atomic::Ordering;

use serde::Serialize;
use units::Nanos;

use super::connection::ConnectionState;
use super::result::StreamResult;
use super::sockets::WaitedSockets;
use super::viewer::BenchViewer;
use super::{ClientPlan, RunProgress, SLOTS, Stop, WINDOW};
use crate::bench::clock;

/// A look later than this at its window's end makes the run disturbed: 10 % of a short window.
pub(crate) const LATE_BOUND: Nanos = Nanos::from_millis(10);
/// Bytes one read may drop; the memory is never touched.
pub(super) const SCRATCH_BYTES: usize = 8 * 1024 * 1024;
/// Two streams of one client thread are never further apart in a slot than the whole sweep; see [`ClientLateness`].
const _: () = assert!(LATE_BOUND.0 < WINDOW.0);

/// Lateness of the client at the ends of its windows, while measuring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ClientLateness {
    /// Looks taken.
    pub looks: u64,
    /// Those more than [`LATE_BOUND`] late.
    pub over_10ms: u64,
    /// Those more than 1 ms late.
    pub over_1ms: u64,
    /// The latest, in nanoseconds.
    pub late_ns_max: u64,
    /// The longest time one look at a slot's streams took, in nanoseconds.
    pub sweep_ns_max: u64,
}

impl ClientLateness {
    fn add(&mut self, late: Nanos, sweep: Nanos) {
        self.looks += 1;
        self.over_10ms += u64::from(late > LATE_BOUND);
        self.over_1ms += u64::from(late > Nanos::from_millis(1));
        self.late_ns_max = self.late_ns_max.max(late.0);
        self.sweep_ns_max = self.sweep_ns_max.max(sweep.0);
    }

    /// Both together.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            looks: self.looks + other.looks,
            over_10ms: self.over_10ms + other.over_10ms,
            over_1ms: self.over_1ms + other.over_1ms,
            late_ns_max: self.late_ns_max.max(other.late_ns_max),
            sweep_ns_max: self.sweep_ns_max.max(other.sweep_ns_max),
        }
    }
}

/// Results of one thread.
pub(super) struct ThreadReport {
    pub(super) streams: Vec<StreamResult>,
    pub(super) lateness: ClientLateness,
    pub(super) cpu: Nanos,
}

/// The slot of stream `index`.
pub(super) fn slot_of(index: usize) -> u64 {
    u64::try_from(index).unwrap_or(0) % SLOTS
}

/// Due time of the `n`th look, counted from `base`: derived, never accumulated.
fn due(base: Nanos, n: u64) -> Nanos {
    let offset = u128::from(n) * u128::from(WINDOW.0) / u128::from(SLOTS);
    base.saturating_add(Nanos(u64::try_from(offset).unwrap_or(u64::MAX)))
}

pub(super) struct Thread<'a> {
    plan: &'a ClientPlan,
    viewers: Vec<BenchViewer>,
    /// Numbers of the viewers of each slot.
    slots: Vec<Vec<usize>>,
    sockets: WaitedSockets,
    started: usize,
    scratch: Vec<u8>,
}

impl<'a> Thread<'a> {
    pub(super) fn new(plan: &'a ClientPlan, viewers: Vec<BenchViewer>) -> anyhow::Result<Self> {
        let mut slots = vec![Vec::new(); usize::try_from(SLOTS)?];
        for (n, viewer) in viewers.iter().enumerate() {
            slots[usize::try_from(slot_of(viewer.index))?].push(n);
        }
        let sockets = WaitedSockets::new(viewers.len())?;
        Ok(Self { plan, viewers, slots, sockets, started: 0, scratch: vec![0; SCRATCH_BYTES] })
    }

    pub(super) fn run(mut self, stop: &Stop, progress: &RunProgress) -> anyhow::Result<ThreadReport> {
        let plan = self.plan;
        // The grid's origin is a whole number of windows after `base`, so windows end exactly when a look is due.
        let windows_before = plan.measure.saturating_sub(plan.begin).0.div_ceil(WINDOW.0);
        let base = plan.measure.saturating_sub(WINDOW.saturating_mul(windows_before));
        let last = (windows_before + plan.seconds * 10 + 1) * SLOTS;
        let (mut lateness, mut cpu_start) = (ClientLateness::default(), None);
        for n in 1..=last {
            let due = due(base, n);
            self.wait_until(due)?;
            if stop.is_set() || due > progress.end(plan).saturating_add(WINDOW) {
                break;
            }
            let now = clock::now();
            if cpu_start.is_none() && due >= plan.measure {
                cpu_start = Some(clock::thread_cpu());
            }
            let bytes = self.sweep(usize::try_from(n % SLOTS)?, due, now);
            progress.bytes.fetch_add(bytes, Ordering::Relaxed);
            if plan.give_up && due > plan.measure && self.viewers.iter().any(BenchViewer::has_stalled) {
                progress.give_up(plan, now);
            }
            if due > plan.measure {
                lateness.add(now.saturating_sub(due), clock::now().saturating_sub(now));
            }
        }
        let cpu = clock::thread_cpu().saturating_sub(cpu_start.unwrap_or_default());
        let now = clock::now();
        Ok(ThreadReport { streams: self.viewers.into_iter().map(|v| v.finish(now)).collect(), lateness, cpu })
    }

    /// Looks at the streams of one slot.
    fn sweep(&mut self, slot: usize, due: Nanos, now: Nanos) -> u64 {
        let mut bytes = 0;
        for position in 0..self.slots[slot].len() {
            let n = self.slots[slot][position];
            if matches!(self.viewers[n].connection(), ConnectionState::Body { .. }) {
                bytes += self.viewers[n].sweep(&self.plan.terms, due, now, &mut self.scratch);
                if !matches!(self.viewers[n].connection(), ConnectionState::Body { .. }) {
                    // Over: asked again on the same socket, or on a new one.
                    self.viewers[n].step(now);
                    self.watch(n);
                }
            }
        }
        bytes
    }

    /// Starts the streams due before `due`, and serves those before their first byte, until then.
    fn wait_until(&mut self, due: Nanos) -> anyhow::Result<()> {
        loop {
            let now = clock::now();
            while self.started < self.viewers.len() && self.starts(self.started) <= now {
                let n = self.started;
                self.started += 1;
                self.viewers[n].start(&self.plan.terms, now);
                self.watch(n);
            }
            let next = if self.started < self.viewers.len() { self.starts(self.started).min(due) } else { due };
            if now >= due {
                return Ok(());
            }
            if self.sockets.waiting == 0 {
                clock::sleep_until(next);
            } else if !self.serve(next.saturating_sub(now))? {
                // The kernel's epoll rounds to milliseconds; the rest is slept exactly.
                clock::sleep_until(next.min(clock::now().saturating_add(Nanos::from_millis(1))));
            }
        }
    }

    /// Start of viewer `n`.
    fn starts(&self, n: usize) -> Nanos {
        let (index, count) = (self.viewers[n].index, self.plan.paths.len().max(1));
        let offset = u128::from(self.plan.ramp.0) * (index as u128) / (count as u128);
        self.plan.begin.saturating_add(Nanos(u64::try_from(offset).unwrap_or(u64::MAX)))
    }

    /// Waits for sockets, at most `span` rounded down to milliseconds, and serves them. Whether there was any.
    fn serve(&mut self, span: Nanos) -> anyhow::Result<bool> {
        let ready = self.sockets.wait(span)?;
        let now = clock::now();
        for &n in &ready {
            self.viewers[n].step(now);
            self.watch(n);
        }
        Ok(!ready.is_empty())
    }

    fn watch(&mut self, n: usize) {
        self.sockets.watch(n, self.viewers[n].connection());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_fall_on_the_ends_of_windows_without_drift() {
        let base = Nanos::from_secs(3);
        assert_eq!(due(base, 0), base);
        assert_eq!(due(base, SLOTS * 36_000), base + Nanos::from_secs(3600));
        // A stream of slot 5 has its grid's origin at a look of slot 5, and every window ends at one.
        let origin = base + Nanos(WINDOW.0 * 5 / SLOTS);
        for k in 0..100 {
            assert_eq!(due(base, 5 + k * SLOTS), origin + WINDOW.saturating_mul(k));
        }
    }

    #[test]
    fn lateness_adds_up() {
        let mut a = ClientLateness::default();
        a.add(Nanos::from_millis(2), Nanos(5));
        let mut b = ClientLateness::default();
        b.add(Nanos::from_millis(11), Nanos(4));
        let both = a.with(b);
        assert_eq!((both.looks, both.over_1ms, both.over_10ms), (2, 2, 1));
        assert_eq!((both.late_ns_max, both.sweep_ns_max), (11_000_000, 5));
    }
}
