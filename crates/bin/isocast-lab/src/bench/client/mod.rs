//! The benchmark's own client: thousands of streams on one or two threads, at a cost that does not drown the server's.
//!
//! It stays light: until its first byte epoll watches a stream; after that no thread wakes for it. The client looks
//! at each stream exactly once per 100 ms window, at the window's end, and drops the received bytes in the kernel
//! (`MSG_TRUNC`). The looks are spread over [`SLOTS`] times in the window, so that neither the client nor the server's
//! ticks fall into step with the grid; the windows of a stream are shifted by its slot and stay on that grid.
//!
//! Promise: one fixed grid per stream, no partial windows, its own lateness measured. Not here: the server's figures.

mod connection;
pub(crate) mod crowd;
mod grid;
pub(crate) mod habits;
mod head;
mod player;
mod result;
mod run;
pub(crate) mod segments;
mod socket;
mod sockets;
mod viewer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, bail};
use kernel::permissions;
use units::Nanos;

pub(crate) use grid::{Jitter, SHORT_IN_LONG, WINDOW, expected, jitter};
pub(crate) use head::{AnswerHead, parse as parse_head, rate_text, request as request_text};
pub(crate) use result::{StreamFate, StreamResult};
pub(crate) use run::{ClientLateness, LATE_BOUND};
pub(crate) use socket::{CERTIFIED_NAME, SealedAddress};
pub(crate) use viewer::ViewerTerms;

use super::{Stop, joined};
use grid::WindowGrid;
use habits::ViewerHabits;
use run::Thread;
use viewer::BenchViewer;

/// Times per window at which streams are looked at. A prime: with a server that serves its streams in 5, 10 or 25
/// groups, every pairing of group and slot occurs, so J does not depend on how the two clocks happen to lie.
pub(crate) const SLOTS: u64 = 17;
/// Connections one run may have.
pub(crate) const STREAMS_MAX: usize = 5_000;
/// Streams one thread looks after.
const STREAMS_PER_THREAD: usize = 2_500;

/// A run of the client: `paths.len()` streams.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    /// Terms that are the same for all.
    pub terms: ViewerTerms,
    /// Host and port as the server knows itself.
    pub authority: String,
    /// Path and query of each stream.
    pub paths: Vec<String>,
    /// Pauses and seeks of viewers.
    pub habits: ViewerHabits,
    /// Tells runs apart in session names.
    pub seed: u64,
    /// Start of the first stream.
    pub begin: Nanos,
    /// The streams start evenly spread over this.
    pub ramp: Nanos,
    /// Start of measuring: the grid's origin.
    pub measure: Nanos,
    /// Whole seconds measured.
    pub seconds: u64,
    /// Ends as soon as a player has stalled: a search need not see how badly.
    pub give_up: bool,
}

impl ClientPlan {
    /// End of measuring.
    pub(crate) fn end(&self) -> Nanos {
        self.measure.saturating_add(Nanos::from_secs(self.seconds))
    }
}

/// Results of a run of the client.
#[derive(Debug, Clone)]
pub(crate) struct ClientReport {
    /// Every stream.
    pub streams: Vec<StreamResult>,
    /// Lateness of the client itself.
    pub lateness: ClientLateness,
    /// Its processor time while measuring.
    pub cpu: Nanos,
    /// Whole seconds measured: fewer than planned if it gave up.
    pub seconds: u64,
}

/// Progress of a run, for the threads that watch it.
#[derive(Debug)]
pub(crate) struct RunProgress {
    /// Bytes of bodies received so far.
    pub bytes: AtomicU64,
    /// Whole seconds of measuring after which the run is given up.
    seconds_max: AtomicU64,
}

impl Default for RunProgress {
    fn default() -> Self {
        Self { bytes: AtomicU64::new(0), seconds_max: AtomicU64::new(u64::MAX) }
    }
}

impl RunProgress {
    /// Seconds that are measured, as far as is known yet.
    pub(crate) fn seconds(&self, plan: &ClientPlan) -> u64 {
        plan.seconds.min(self.seconds_max.load(Ordering::Relaxed))
    }

    /// End of measuring, as far as is known yet.
    pub(crate) fn end(&self, plan: &ClientPlan) -> Nanos {
        plan.measure.saturating_add(Nanos::from_secs(self.seconds(plan)))
    }

    /// Measures no longer than the second after the one `now` lies in: windows stay whole, and every thread of the
    /// client still learns of it in time.
    fn give_up(&self, plan: &ClientPlan, now: Nanos) {
        let second = now.saturating_sub(plan.measure).0 / 1_000_000_000;
        self.seconds_max.fetch_min(second + 2, Ordering::Relaxed);
    }
}

/// Runs `plan` to its end, or until `stop`.
///
/// # Errors
/// Too many streams for this machine's limits, no epoll, or interrupted.
pub(crate) fn run(plan: &ClientPlan, stop: &Stop, progress: &RunProgress) -> anyhow::Result<ClientReport> {
    if plan.paths.len() > STREAMS_MAX {
        bail!("{} streams asked for; this client opens at most {STREAMS_MAX}", plan.paths.len());
    }
    permissions::allow_open_files(plan.paths.len() as u64).with_context(|| format!("{} streams", plan.paths.len()))?;
    let threads = plan.paths.len().div_ceil(STREAMS_PER_THREAD).max(1);
    let reports = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|part| scope.spawn(move || Thread::new(plan, viewers(plan, part, threads))?.run(stop, progress)))
            .collect();
        running.into_iter().map(joined).collect::<anyhow::Result<Vec<_>>>()
    })?;
    stop.check()?;
    let seconds = progress.seconds(plan);
    let mut all = ClientReport { streams: Vec::new(), lateness: ClientLateness::default(), cpu: Nanos::ZERO, seconds };
    for report in reports {
        all.streams.extend(report.streams);
        all.lateness = all.lateness.with(report.lateness);
        all.cpu += report.cpu;
    }
    all.streams.sort_by_key(|s| s.index);
    all.streams.iter_mut().for_each(|s| s.grid.truncate(seconds));
    Ok(all)
}

/// The viewers of thread `part` of `threads`.
fn viewers(plan: &ClientPlan, part: usize, threads: usize) -> Vec<BenchViewer> {
    let viewer = |index: usize| {
        let request = head::request(&plan.authority, &plan.paths[index], plan.seed, index);
        let shift = WINDOW.0 * run::slot_of(index) / SLOTS;
        let grid = WindowGrid::new(plan.measure.saturating_add(Nanos(shift)), plan.seconds);
        let actions = plan.habits.actions(plan.seed, index, plan.end().saturating_sub(plan.begin));
        BenchViewer::new(index, request, grid, actions)
    };
    (part..plan.paths.len()).step_by(threads).map(viewer).collect()
}
