//! Viewers of segments, as hls.js plays: a playlist, then one segment after the other on a connection that is kept, while less is held
//! than may be held ahead.
//!
//! Promise: playback begins when the first segment of every track is whole, and stands still exactly as long as the next one is late.
//! Each viewer has one outcome: smooth, stalled or refused. Not here: names and contents (`bench::segments`), viewers that drop late
//! segments (`crowd`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::ops::Range;

use anyhow::Context;
use kernel::permissions;
use units::Nanos;

use super::connection::{BodyEnd, ConnectionState, ConnectionStep};
use super::run::SCRATCH_BYTES;
use super::sockets::WaitedSockets;
use crate::bench::{Stop, clock, reasons};

/// Period of looks at a body that has begun: its end is seen late by this at most.
const LOOK: Nanos = Nanos::from_millis(20);
/// Period at which the client checks whether to stop.
const PAUSE: Nanos = Nanos::from_millis(100);
/// Pause of a player after a request that failed.
const RETRY: Nanos = Nanos::from_secs(1);

/// The viewers to be.
#[derive(Debug, Clone)]
pub(crate) struct SegmentAudience {
    /// The server.
    pub address: SocketAddr,
    /// Receive buffer of a connection.
    pub buffer_bytes: usize,
    /// Each viewer's tracks, the pictures first.
    pub viewers: Vec<Vec<TrackRequests>>,
    /// Duration of a segment.
    pub segment: Nanos,
    /// Media that a player holds before it pauses its requests.
    pub ahead: Nanos,
    /// From one viewer's start to the next.
    pub gap: Nanos,
    /// From the first viewer's start to the end of all.
    pub duration: Nanos,
}

/// Requests of a player for one track.
#[derive(Debug, Clone)]
pub(crate) struct TrackRequests {
    /// The request of the playlist.
    pub playlist: String,
    /// The request of each segment, in order.
    pub segments: Vec<String>,
}

/// Outcomes of the viewers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SegmentFigures {
    /// Viewers that played without a stall.
    pub smooth: usize,
    /// Viewers with a playback that stood still, or never began.
    pub stalled: usize,
    /// Viewers refused before their first segment.
    pub refused: usize,
    /// The longest time that a viewer stood still at once, s.
    pub stall_seconds_max: f64,
    /// From a viewer's start to its first whole segment, s, sorted.
    pub first_seconds: Vec<f64>,
    /// From the request of a segment of pictures to its last byte, s, sorted.
    pub segment_seconds: Vec<f64>,
    /// Requests refused after the first segment, which are repeated.
    pub refused_later: u64,
    /// Requests that broke, which are repeated.
    pub failed: u64,
    /// Reasons of the first few.
    pub reasons: Vec<String>,
    /// The client's own processor time, percent of one core.
    pub client_cpu_percent: f64,
}

/// Playback of one viewer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentPlayback {
    segment: Nanos,
    /// Time of the first picture, moved by the stalls since; `None` before it.
    origin: Option<Nanos>,
    /// Segments that every track holds or has played.
    pub held: u64,
    /// Whether playback has stood still, and for how long at most.
    pub stalled: bool,
    pub stall_max: Nanos,
}

impl SegmentPlayback {
    /// Nothing is held.
    pub(crate) fn new(segment: Nanos) -> Self {
        Self { segment, origin: None, held: 0, stalled: false, stall_max: Nanos::ZERO }
    }

    /// Takes in that every track holds `held` segments at `now`.
    pub(crate) fn holds(&mut self, held: u64, now: Nanos) {
        if held > self.held {
            self.stand_still_until(now);
            self.origin.get_or_insert(now);
            self.held = held;
        }
    }

    /// No further segment was whole up to `now`.
    pub(crate) fn stand_still_until(&mut self, now: Nanos) {
        let Some(origin) = &mut self.origin else { return };
        let late = now.saturating_sub(*origin + self.segment.saturating_mul(self.held));
        *origin += late;
        // A segment that is whole in time is seen up to a look later.
        if late > LOOK {
            self.stalled = true;
            self.stall_max = self.stall_max.max(late);
        }
    }

    /// Time at which a track with `whole` segments requests the next one.
    fn asks_at(&self, whole: u64, ahead: Nanos, now: Nanos) -> Nanos {
        (self.origin.unwrap_or(now) + self.segment.saturating_mul(whole)).saturating_sub(ahead)
    }
}

struct SegmentViewer {
    begin: Nanos,
    /// Its tracks' numbers.
    tracks: Range<usize>,
    playback: SegmentPlayback,
    is_refused: bool,
}

#[derive(Default)]
struct Track {
    viewer: usize,
    /// The playlist's, then the segments'.
    requests: Vec<Vec<u8>>,
    /// Requests that are answered whole.
    done: usize,
    connection: ConnectionState,
    is_waiting: bool,
    /// Time at which the request under way was first sent.
    requested_at: Option<Nanos>,
}

impl Track {
    fn whole_segments(&self) -> u64 {
        self.done.saturating_sub(1) as u64
    }
}

struct SegmentRun<'a> {
    audience: &'a SegmentAudience,
    viewers: Vec<SegmentViewer>,
    tracks: Vec<Track>,
    sockets: WaitedSockets,
    /// Time of the next look at each track.
    agenda: BinaryHeap<Reverse<(Nanos, usize)>>,
    found: SegmentFigures,
    scratch: Vec<u8>,
}

/// Has `audience` play to its end, or until `stop`.
///
/// # Errors
/// Too many viewers for this machine's limits, no epoll, or interrupted.
pub(crate) fn play(audience: &SegmentAudience, stop: &Stop) -> anyhow::Result<SegmentFigures> {
    let begin = clock::now();
    let (mut viewers, mut tracks) = (Vec::new(), Vec::new());
    for (n, of_viewer) in audience.viewers.iter().enumerate() {
        let first = tracks.len();
        tracks.extend(of_viewer.iter().map(|track| Track {
            viewer: n,
            requests:
                [&track.playlist].into_iter().chain(&track.segments).map(|text| text.clone().into_bytes()).collect(),
            ..Track::default()
        }));
        viewers.push(SegmentViewer {
            begin: begin + audience.gap.saturating_mul(n as u64),
            tracks: first..tracks.len(),
            playback: SegmentPlayback::new(audience.segment),
            is_refused: false,
        });
    }
    let count = tracks.len();
    permissions::allow_open_files(count as u64).with_context(|| format!("{count} connections"))?;
    let run = SegmentRun {
        audience,
        agenda: tracks.iter().enumerate().map(|(n, track)| Reverse((viewers[track.viewer].begin, n))).collect(),
        viewers,
        tracks,
        sockets: WaitedSockets::new(count)?,
        found: SegmentFigures::default(),
        scratch: vec![0; SCRATCH_BYTES],
    };
    run.play(begin + audience.duration, stop)
}

impl SegmentRun<'_> {
    fn play(mut self, end: Nanos, stop: &Stop) -> anyhow::Result<SegmentFigures> {
        let cpu = clock::thread_cpu();
        loop {
            let now = clock::now();
            stop.check()?;
            if now >= end {
                break;
            }
            while let Some(&Reverse((at, n))) = self.agenda.peek()
                && at <= now
            {
                self.agenda.pop();
                self.look(n, clock::now());
            }
            let next = self.agenda.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at).min(now + PAUSE);
            // Up to the next millisecond: the kernel's epoll knows no less.
            for n in self.sockets.wait(next.saturating_sub(clock::now()) + Nanos::from_millis(1))? {
                self.step(n, clock::now());
            }
        }
        let cpu = clock::thread_cpu().saturating_sub(cpu);
        self.found.client_cpu_percent = cpu.as_secs_f64() * 100.0 / self.audience.duration.as_secs_f64();
        Ok(self.figures(end))
    }

    fn figures(mut self, end: Nanos) -> SegmentFigures {
        let (found, mut stall_max) = (&mut self.found, Nanos::ZERO);
        for viewer in &mut self.viewers {
            let is_over = viewer.tracks.clone().all(|n| self.tracks[n].done == self.tracks[n].requests.len());
            if !is_over {
                viewer.playback.stand_still_until(end);
            }
            let count = match viewer.playback {
                _ if viewer.is_refused => &mut found.refused,
                SegmentPlayback { stalled: false, origin: Some(_), .. } => &mut found.smooth,
                _ => &mut found.stalled,
            };
            *count += 1;
            stall_max = stall_max.max(viewer.playback.stall_max);
        }
        found.stall_seconds_max = stall_max.as_secs_f64();
        found.first_seconds.sort_by(f64::total_cmp);
        found.segment_seconds.sort_by(f64::total_cmp);
        self.found
    }

    fn look(&mut self, n: usize, now: Nanos) {
        match (self.tracks[n].is_waiting, &self.tracks[n].connection) {
            (false, _) => self.ask(n, now),
            (true, ConnectionState::Body { .. }) => self.drain(n, now),
            // Its socket is waited for.
            (true, _) => {}
        }
    }

    /// Requests the next segment of track `n`, now or when the player will want it.
    fn ask(&mut self, n: usize, now: Nanos) {
        let track = &mut self.tracks[n];
        let viewer = &self.viewers[track.viewer];
        if viewer.is_refused || track.is_waiting || track.done == track.requests.len() {
            return;
        }
        let due = viewer.playback.asks_at(track.whole_segments(), self.audience.ahead, now);
        if due > now {
            return self.agenda.push(Reverse((due, n)));
        }
        track.is_waiting = true;
        track.requested_at.get_or_insert(now);
        if matches!(track.connection, ConnectionState::Body { .. }) {
            track.connection.ask_again();
        } else {
            match ConnectionState::open(self.audience.address, None, self.audience.buffer_bytes) {
                Ok(connection) => track.connection = connection,
                Err(e) => return self.failed(n, now, format!("connecting: {e}")),
            }
        }
        self.step(n, now);
    }

    /// Continues up to the first byte.
    fn step(&mut self, n: usize, now: Nanos) {
        let track = &mut self.tracks[n];
        if !track.is_waiting {
            return;
        }
        let step = track.connection.step(&track.requests[track.done]);
        self.sockets.watch(n, &track.connection);
        match step {
            ConnectionStep::Wait => {}
            ConnectionStep::FirstBytes { .. } => self.drain(n, now),
            ConnectionStep::Refused { status, .. } => self.refused(n, now, status),
            ConnectionStep::Failed { reason } => self.failed(n, now, reason),
        }
    }

    fn drain(&mut self, n: usize, now: Nanos) {
        let track = &mut self.tracks[n];
        match track.connection.drain(&mut self.scratch).end {
            BodyEnd::More => self.agenda.push(Reverse((now + LOOK, n))),
            BodyEnd::Over { keep_alive } => {
                if !keep_alive {
                    track.connection = ConnectionState::Done;
                }
                self.whole(n, now);
            }
            BodyEnd::Broken { reason } => self.failed(n, now, reason),
        }
    }

    /// A playlist or a segment is whole.
    fn whole(&mut self, n: usize, now: Nanos) {
        let track = &mut self.tracks[n];
        let took = now.saturating_sub(track.requested_at.take().unwrap_or(now));
        (track.is_waiting, track.done) = (false, track.done + 1);
        let viewer = &mut self.viewers[track.viewer];
        if track.whole_segments() > 0 && n == viewer.tracks.start {
            self.found.segment_seconds.push(took.as_secs_f64());
        }
        let held = viewer.tracks.clone().map(|n| self.tracks[n].whole_segments()).min().unwrap_or(0);
        if viewer.playback.held == 0 && held > 0 {
            self.found.first_seconds.push(now.saturating_sub(viewer.begin).as_secs_f64());
        }
        viewer.playback.holds(held, now);
        self.ask(n, now);
    }

    fn refused(&mut self, n: usize, now: Nanos, status: u16) {
        reasons::keep(&mut self.found.reasons, format!("refused with {status}"));
        let viewer = &mut self.viewers[self.tracks[n].viewer];
        if viewer.playback.held > 0 {
            self.found.refused_later += 1;
            return self.ask_later(n, now);
        }
        viewer.is_refused = true;
        for n in viewer.tracks.clone() {
            (self.tracks[n].connection, self.tracks[n].is_waiting) = (ConnectionState::Done, false);
        }
    }

    fn failed(&mut self, n: usize, now: Nanos, reason: String) {
        self.found.failed += 1;
        reasons::keep(&mut self.found.reasons, reason);
        self.ask_later(n, now);
    }

    fn ask_later(&mut self, n: usize, now: Nanos) {
        (self.tracks[n].connection, self.tracks[n].is_waiting) = (ConnectionState::Done, false);
        self.agenda.push(Reverse((now + RETRY, n)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Nanos = Nanos::from_secs;

    #[test]
    fn playback_stands_still_as_long_as_a_segment_is_late() {
        let mut playback = SegmentPlayback::new(S(6));
        playback.stand_still_until(S(9));
        playback.holds(1, S(10));
        playback.holds(1, S(12));
        playback.holds(2, S(15));
        assert!(!playback.stalled, "from 10 to 22 it holds enough");
        playback.holds(3, S(24));
        assert_eq!((playback.stalled, playback.stall_max, playback.origin), (true, S(2), Some(S(12))));
        playback.holds(4, S(30) + LOOK);
        assert_eq!(playback.stall_max, S(2), "a look later is in time");
        playback.stand_still_until(S(41));
        assert_eq!(playback.stall_max, S(5).saturating_sub(LOOK));
    }

    #[test]
    fn a_track_asks_while_it_holds_less_than_it_may() {
        let mut playback = SegmentPlayback::new(S(6));
        assert_eq!(playback.asks_at(1, S(30), S(3)), Nanos::ZERO, "sound waits for no picture");
        playback.holds(1, S(10));
        assert_eq!(playback.asks_at(4, S(30), S(11)), S(4));
        assert_eq!(playback.asks_at(5, S(30), S(11)), S(10));
        assert_eq!(playback.asks_at(7, S(30), S(11)), S(22));
    }
}
