//! A crowd of HLS viewers: each requests one segment per segment duration, on a connection and in a session of its own.
//!
//! Promise: a segment's due time is derived from the viewer's own timetable, and every time is counted from then, or from the
//! end of the segment before where that came late: a server or client that lags cannot hide it. Each segment that fell due has
//! exactly one outcome. Not here: constant streams (`run`); this module shares their part of the client.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use anyhow::Context;
use kernel::permissions;
use serde::{Deserialize, Serialize};
use units::{BitRate, Nanos, real};

use super::connection::{BodyEnd, ConnectionState, ConnectionStep};
use super::run::SCRATCH_BYTES;
use super::sockets::WaitedSockets;
use super::{ClientPlan, RunProgress};
use crate::bench::quantiles::Quantiles;
use crate::bench::{Stop, clock, reasons};

/// Viewers one crowd may have.
pub(crate) const VIEWERS_MAX: usize = 20_000;
/// Period of looks at a body that has begun.
const LOOK: Nanos = Nanos::from_millis(50);

/// A crowd to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Crowd {
    /// Number of viewers.
    pub viewers: usize,
    /// The rate that each requests.
    pub rate: BitRate,
    /// Duration of a segment.
    pub segment: Nanos,
    /// The segments, which each viewer plays in turn, from another one on.
    pub contents: Vec<String>,
}

impl Crowd {
    /// Bytes of a segment.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.rate.bytes_in(self.segment)
    }
}

/// Outcomes of the crowd's segments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CrowdFigures {
    /// Viewers.
    pub viewers: usize,
    /// Rate of each, bit/s.
    pub rate_bps: u64,
    /// Segments that fell due while measuring, soon enough to be played to their end.
    pub due: u64,
    /// Those that were whole before the next one was due.
    pub in_time: u64,
    /// Those that came later, or not before the run's end.
    pub late: u64,
    /// Those not requested, because one before was still coming.
    pub skipped: u64,
    /// Those refused.
    pub refused: u64,
    /// Refusals that were not 503 with the rate that could be granted.
    pub refused_unexplained: u64,
    /// Those that broke.
    pub failed: u64,
    /// Reasons of the first few.
    pub reasons: Vec<String>,
    /// Bit/s of the segments that came in time.
    pub goodput_bps: f64,
    /// From when a segment was due to its first byte, ms.
    pub first_byte_ms: Quantiles,
    /// From when a segment was due to its last byte, ms.
    pub whole_ms: Quantiles,
    /// From when a segment was due to the end of the refusal, ms.
    pub refusal_ms: Quantiles,
    /// The crowd's own processor time, percent of one core.
    pub client_cpu_percent: f64,
}

impl CrowdFigures {
    /// Share of `segments`, percent of those due.
    pub(crate) fn share(&self, segments: u64) -> f64 {
        real(segments) * 100.0 / real(self.due.max(1))
    }
}

/// A requested segment.
#[derive(Debug, Clone, Copy)]
struct RequestedSegment {
    /// Due time: not before the one before had ended.
    from: Nanos,
    /// Time by which it must be whole.
    deadline: Nanos,
    counts: bool,
}

#[derive(Default)]
struct CrowdViewer {
    connection: ConnectionState,
    request: Vec<u8>,
    /// The next segment of the timetable.
    next: u64,
    requested: Option<RequestedSegment>,
    /// End of the last one.
    ended: Nanos,
}

struct CrowdRun<'a> {
    crowd: &'a Crowd,
    plan: &'a ClientPlan,
    /// Path of each segment, but for the session.
    paths: Vec<String>,
    address: SocketAddr,
    viewers: Vec<CrowdViewer>,
    sockets: WaitedSockets,
    /// Time of the next look at each viewer.
    agenda: BinaryHeap<Reverse<(Nanos, usize)>>,
    found: CrowdFigures,
    first_byte: Vec<f64>,
    whole: Vec<f64>,
    refusal: Vec<f64>,
    scratch: Vec<u8>,
}

/// Runs `crowd` during the streams of `plan`, from their first one's start to the end of measuring. `path_of` gives path
/// and query of a segment.
///
/// # Errors
/// Too many viewers for this machine's limits, or no epoll.
pub(crate) fn run(
    crowd: &Crowd,
    plan: &ClientPlan,
    path_of: impl Fn(&str) -> String,
    stop: &Stop,
    progress: &RunProgress,
) -> anyhow::Result<CrowdFigures> {
    let files = crowd.viewers + plan.paths.len();
    permissions::allow_open_files(files as u64).with_context(|| format!("{files} connections"))?;
    let mut run = CrowdRun {
        crowd,
        plan,
        paths: crowd.contents.iter().map(|content| path_of(content)).collect(),
        address: plan.terms.address,
        viewers: (0..crowd.viewers).map(|_| CrowdViewer::default()).collect(),
        sockets: WaitedSockets::new(crowd.viewers)?,
        agenda: BinaryHeap::new(),
        found: CrowdFigures { viewers: crowd.viewers, rate_bps: crowd.rate.0, ..CrowdFigures::default() },
        first_byte: Vec::new(),
        whole: Vec::new(),
        refusal: Vec::new(),
        scratch: vec![0; SCRATCH_BYTES],
    };
    run.agenda = (0..crowd.viewers).map(|n| Reverse((run.due(n, 0), n))).collect();
    run.play(stop, progress)
}

impl CrowdRun<'_> {
    fn play(mut self, stop: &Stop, progress: &RunProgress) -> anyhow::Result<CrowdFigures> {
        let mut cpu_start = None;
        loop {
            let now = clock::now();
            if stop.is_set() || now >= progress.end(self.plan) {
                break;
            }
            if cpu_start.is_none() && now >= self.plan.measure {
                cpu_start = Some(clock::thread_cpu());
            }
            while let Some(&Reverse((at, n))) = self.agenda.peek()
                && at <= now
            {
                self.agenda.pop();
                self.look(n, clock::now());
            }
            let next = self.agenda.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at).min(now + LOOK);
            // Up to the next millisecond: the kernel's epoll knows no less.
            for n in self.sockets.wait(next.saturating_sub(clock::now()) + Nanos::from_millis(1))? {
                let now = clock::now();
                self.step(n, now);
            }
        }
        let cpu = clock::thread_cpu().saturating_sub(cpu_start.unwrap_or_default());
        for n in 0..self.viewers.len() {
            self.found.late += u64::from(self.viewers[n].requested.is_some_and(|asked| asked.counts));
            while self.due(n, self.viewers[n].next) + self.crowd.segment <= self.plan.end() {
                self.skip(n);
            }
        }
        let mut found = self.found;
        let seconds = Nanos::from_secs(progress.seconds(self.plan));
        let counted = seconds.saturating_sub(self.crowd.segment).as_secs_f64();
        found.goodput_bps = real(found.in_time) * real(self.crowd.segment_bytes()) * 8.0 / counted;
        found.first_byte_ms = Quantiles::of(&mut self.first_byte);
        found.whole_ms = Quantiles::of(&mut self.whole);
        found.refusal_ms = Quantiles::of(&mut self.refusal);
        found.client_cpu_percent = cpu.as_secs_f64() * 100.0 / seconds.as_secs_f64();
        Ok(found)
    }

    /// Due time of segment `k` of viewer `n`.
    fn due(&self, n: usize, k: u64) -> Nanos {
        // The first ones of all are spread over whole segments, so that the crowd asks evenly.
        let spread = self.plan.ramp.max(self.crowd.segment);
        let spread = u128::from(spread.0.next_multiple_of(self.crowd.segment.0));
        let offset = spread * (n as u128) / (self.viewers.len().max(1) as u128);
        self.plan.begin + Nanos(u64::try_from(offset).unwrap_or(0)) + self.crowd.segment.saturating_mul(k)
    }

    /// Whether a segment due then counts: it must be so while measuring, and have its time.
    fn counts(&self, due: Nanos) -> bool {
        due >= self.plan.measure && due + self.crowd.segment <= self.plan.end()
    }

    /// Takes the next step of viewer `n`.
    fn look(&mut self, n: usize, now: Nanos) {
        match (&self.viewers[n].requested, &self.viewers[n].connection) {
            (None, _) => self.ask(n, now),
            (Some(_), ConnectionState::Body { .. }) => self.drain(n, now),
            // It is waited for.
            (Some(_), _) => {}
        }
    }

    fn ask(&mut self, n: usize, now: Nanos) {
        while self.due(n, self.viewers[n].next + 1) <= now {
            self.skip(n);
        }
        let k = self.viewers[n].next;
        let due = self.due(n, k);
        let counts = self.counts(due);
        self.found.due += u64::from(counts);
        let path = &self.paths[(n + usize::try_from(k).unwrap_or(0)) % self.paths.len()];
        let (authority, seed) = (&self.plan.authority, self.plan.seed);
        let viewer = &mut self.viewers[n];
        viewer.next = k + 1;
        viewer.requested =
            Some(RequestedSegment { from: due.max(viewer.ended), deadline: due + self.crowd.segment, counts });
        viewer.request = format!(
            "GET {path}&session=crowd-{seed}-{n} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: isocast-bench\r\n\r\n"
        )
        .into_bytes();
        if matches!(viewer.connection, ConnectionState::Body { .. }) {
            viewer.connection.ask_again();
        } else {
            match ConnectionState::open(self.address, self.plan.terms.sealed.as_ref(), self.plan.terms.buffer_bytes) {
                Ok(connection) => viewer.connection = connection,
                Err(e) => return self.failed(n, now, format!("connecting: {e}")),
            }
        }
        self.step(n, now);
    }

    /// Leaves out the next segment of viewer `n`.
    fn skip(&mut self, n: usize) {
        let counts = u64::from(self.counts(self.due(n, self.viewers[n].next)));
        self.found.due += counts;
        self.found.skipped += counts;
        self.viewers[n].next += 1;
    }

    /// Continues up to the first byte.
    fn step(&mut self, n: usize, now: Nanos) {
        let viewer = &mut self.viewers[n];
        let (step, asked) = (viewer.connection.step(&viewer.request), viewer.requested);
        self.sockets.watch(n, &self.viewers[n].connection);
        let Some(asked) = asked else { return };
        let waited = now.saturating_sub(asked.from).as_millis_f64();
        match step {
            ConnectionStep::Wait => {}
            ConnectionStep::FirstBytes { .. } => {
                self.first_byte.extend(asked.counts.then_some(waited));
                self.agenda.push(Reverse((now + LOOK, n)));
            }
            ConnectionStep::Refused { status, reason } => {
                if asked.counts {
                    self.refusal.push(waited);
                    self.found.refused += 1;
                    self.found.refused_unexplained += u64::from(status != 503 || reason.grantable_bps.is_none());
                }
                self.end(n, now);
            }
            ConnectionStep::Failed { reason } => self.failed(n, now, reason),
        }
    }

    fn drain(&mut self, n: usize, now: Nanos) {
        let viewer = &mut self.viewers[n];
        match viewer.connection.drain(&mut self.scratch).end {
            BodyEnd::More => self.agenda.push(Reverse((now + LOOK, n))),
            BodyEnd::Over { keep_alive } => {
                if !keep_alive {
                    viewer.connection = ConnectionState::Done;
                }
                if let Some(asked) = viewer.requested.filter(|asked| asked.counts) {
                    self.whole.push(now.saturating_sub(asked.from).as_millis_f64());
                    let came = if now <= asked.deadline { &mut self.found.in_time } else { &mut self.found.late };
                    *came += 1;
                }
                self.end(n, now);
            }
            BodyEnd::Broken { reason } => self.failed(n, now, reason),
        }
    }

    fn failed(&mut self, n: usize, now: Nanos, reason: String) {
        self.viewers[n].connection = ConnectionState::Done;
        if self.viewers[n].requested.is_some_and(|asked| asked.counts) {
            self.found.failed += 1;
            reasons::keep(&mut self.found.reasons, reason);
        }
        self.end(n, now);
    }

    /// Ends a segment that has its outcome; the next one is requested when it is due.
    fn end(&mut self, n: usize, now: Nanos) {
        self.viewers[n].requested = None;
        self.viewers[n].ended = now;
        let next = self.due(n, self.viewers[n].next);
        self.agenda.push(Reverse((next, n)));
    }
}
