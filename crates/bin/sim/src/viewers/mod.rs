//! Viewers of films in segments: each holds one session, asks for segment after segment with the reservation of that, seeks and pauses.
//!
//! Promise: all chance is their own, so that a run without such viewers is the same as ever. A session does here the same as the server's
//! `session` and `delivery`: its reservation passes from segment to segment, each is sent ahead of the rate, and a reservation unused for
//! a while is released. Not here: the buffer and the stalls of a player (`player`), the time at which a segment is due (`clock`), its
//! place (`film`).

mod clock;
mod film;
mod player;
mod tally;

use dataplane::control::{Command, Ending, Outcome, Service};
use schedule::pace::BURST_FACTOR;
use units::{BitRate, DiskId, Nanos, ReservationId};

use crate::bounds::PlaneBounds;
use crate::channel::SimChannel;
use crate::contents::{SimContents, one_range};
use crate::control_side::SimDelivery;
use crate::course::Course;
use crate::delays::PlaneDelays;
use crate::events::{ClientTurn, ControlAction, FilmViewerAction, ViewerTrackId, WorldEvent};
use crate::laws::Law;
use crate::ledger::{Ledger, LedgerEntry};
use crate::load::{PAUSE, SegmentViewers};
use crate::random::Random;

use clock::SessionClock;
use film::{SegmentRange, SegmentTrack, new_film};
use player::{Reception, SegmentPlayer};
pub use tally::ViewersTally;

/// From the last byte in the socket to the next request, beside the time in which the client reads the bytes in it.
const ROUND_TRIP: Nanos = Nanos::from_millis(2);
/// From the last byte in a socket until the control side reads that it is there.
const NOTICE_DELAY_MAX: Nanos = Nanos::from_millis(100);
/// As `sessions.hold` by default.
const SESSION_HOLD: Nanos = Nanos::from_secs(60);
/// Time after which a player asks again for a segment it did not get.
const RETRY: Nanos = Nanos::from_secs(1);
/// No more than this at the rate is sent ahead, as `service::rate` has it.
const SENT_AHEAD_MAX: Nanos = Nanos::from_secs(30);

/// All viewers of segments of a run.
#[derive(Debug)]
pub(crate) struct Viewers {
    bounds: PlaneBounds,
    random: Random,
    loads: Vec<SegmentViewers>,
    /// The films of each load.
    films: Vec<Vec<Vec<SegmentTrack>>>,
    all: Vec<FilmViewer>,
    tally: ViewersTally,
    /// When an admitted session first fell behind, and how. The figures of a run that breaks this law are whole all the same.
    fell_behind: Option<(Nanos, String)>,
}

/// One viewer.
#[derive(Debug)]
struct FilmViewer {
    load: usize,
    film: usize,
    player: SegmentPlayer,
    tracks: Vec<ViewerTrack>,
    /// It began to watch, and was not refused.
    watches: bool,
    /// Something went wrong that excuses a stall.
    excused: bool,
    began: bool,
}

/// Requests of a viewer for one track, all with one reservation.
#[derive(Debug)]
struct ViewerTrack {
    rate: BitRate,
    next: usize,
    /// Requests so far.
    requests: u32,
    state: TrackState,
    reservation: Option<ReservationId>,
    clock: SessionClock,
    /// The session held a reservation when it first asked for this segment.
    is_promised: bool,
    /// When the segment was asked for first.
    requested_at: Option<Nanos>,
    /// Since when the server has looked up the name of the next segment.
    opens_since: Option<Nanos>,
}

/// State of a track: the event that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrackState {
    /// The next time it may ask.
    Rests,
    /// The end of this delivery.
    Runs { stream: u64 },
    /// The end of this delivery, of which it needs nothing any more.
    Leaves { stream: u64 },
    /// The last bytes, which are on their way.
    Arrives,
    /// The time at which it asks for the next segment, or again for a refused one.
    Asks,
}

impl Viewers {
    /// Draws the films; no viewer has come yet.
    pub(crate) fn new(loads: &[SegmentViewers], capacities: &[u64], bounds: PlaneBounds, mut random: Random) -> Self {
        let films = loads.iter().map(|load| {
            let films = (0..load.films.max(1)).map(|nth| {
                let count = capacities.len();
                let first = usize::try_from(nth).expect("few films") % count;
                let numbered = |nth: usize| DiskId(u16::try_from((first + nth) % count).expect("few disks"));
                let used = if load.striped { count } else { 1 };
                let disks: Vec<DiskId> = (0..used).map(numbered).collect();
                let capacity = disks.iter().map(|disk| capacities[usize::from(disk.0)]).min().unwrap_or(0);
                new_film(load, &disks, capacity, &mut random)
            });
            films.collect()
        });
        let films: Vec<Vec<Vec<SegmentTrack>>> = films.collect();
        let mut all = Vec::new();
        for (load, of) in loads.iter().enumerate() {
            let count = usize::try_from(of.viewers).expect("few viewers");
            all.extend((0..count).map(|nth| FilmViewer::new(load, nth % films[load].len(), &of.rates())));
        }
        let tally = ViewersTally::default();
        Self { bounds, random, loads: loads.to_vec(), films, all, tally, fell_behind: None }
    }

    fn load_of(&self, viewer: usize) -> &SegmentViewers {
        &self.loads[self.all[viewer].load]
    }

    /// A viewer that was admitted is refused. That breaks a law unless it is late (`may_start_late`), or leaves groups.
    fn lose_room(&mut self, viewer: usize, may_start_late: bool, now: Nanos, what: String) {
        if may_start_late || self.load_of(viewer).splits_groups() {
            self.all[viewer].excused = true;
        } else {
            self.tally.lost += 1;
            self.falls_behind(now, what);
        }
    }

    pub(crate) fn tally(&self) -> &ViewersTally {
        &self.tally
    }

    /// Schedules when each of them comes.
    pub(crate) fn begin(&self, course: &mut Course) {
        let each =
            self.loads.iter().flat_map(|load| (0..u64::from(load.viewers)).map(|nth| load.apart.saturating_mul(nth)));
        for (viewer, at) in each.enumerate() {
            act_in(at, FilmViewerAction::Come(viewer), course);
        }
    }

    /// Acts, and returns the viewer that may ask for its next segments now, if one may.
    pub(crate) fn act(
        &mut self,
        action: FilmViewerAction,
        ledger: &mut Ledger,
        channel: &mut SimChannel,
        course: &mut Course,
    ) -> Option<usize> {
        let now = course.now();
        match action {
            FilmViewerAction::Come(viewer) => {
                self.come(viewer, now);
                let &SegmentViewers { pauses, seeks, .. } = self.load_of(viewer);
                self.again(pauses, FilmViewerAction::Pause(viewer), course);
                self.again(seeks, FilmViewerAction::Seek(viewer), course);
                Some(viewer)
            }
            FilmViewerAction::Ask(id, requests) => {
                let track = self.track(id);
                let asks = track.requests == requests && matches!(track.state, TrackState::Rests | TrackState::Asks);
                asks.then(|| {
                    track.state = TrackState::Rests;
                    id.viewer
                })
            }
            FilmViewerAction::Receive(id, requests) => {
                let track = self.track(id);
                if track.requests == requests && track.state == TrackState::Arrives {
                    let stalled = self.receive(id, now);
                    if stalled > self.bounds.interruption_max() && !self.all[id.viewer].excused {
                        self.falls_behind(now, format!("{id:?} stalled for {stalled}"));
                    }
                    let way = self.ask_in_a_while(id, now);
                    act_in(way, FilmViewerAction::Ask(id, requests), course);
                }
                None
            }
            FilmViewerAction::Expire(id, requests) => {
                if self.track(id).requests == requests && self.track(id).reservation.is_some() {
                    // It may be refused when it comes back.
                    self.all[id.viewer].excused = true;
                    self.end_session(id, channel, course);
                }
                None
            }
            FilmViewerAction::Pause(viewer) => {
                if self.all[viewer].player.plays(now) {
                    self.all[viewer].player.pause(now);
                    act_in(self.random.span(PAUSE.0, PAUSE.1), FilmViewerAction::Resume(viewer), course);
                }
                self.again(self.load_of(viewer).pauses, action, course);
                None
            }
            FilmViewerAction::Resume(viewer) => {
                self.all[viewer].player.resume(now);
                Some(viewer)
            }
            FilmViewerAction::Seek(viewer) => {
                let plays = self.all[viewer].player.plays(now);
                if plays {
                    self.seek(viewer, now);
                    self.leave_tracks(viewer, ledger, course);
                }
                self.again(self.load_of(viewer).seeks, action, course);
                plays.then_some(viewer)
            }
        }
    }

    /// The action again after a random time with this mean; never, if it is zero.
    fn again(&mut self, mean: Nanos, action: FilmViewerAction, course: &mut Course) {
        if mean > Nanos::ZERO {
            act_in(self.random.wait(mean), action, course);
        }
    }

    fn track(&mut self, id: ViewerTrackId) -> &mut ViewerTrack {
        &mut self.all[id.viewer].tracks[id.track]
    }

    /// How many tracks a viewer plays.
    pub(crate) fn tracks(&self, viewer: usize) -> usize {
        self.all[viewer].tracks.len()
    }

    /// The delivery of the next segment, if the track has room for one; or notes when it will have.
    pub(crate) fn consider(
        &mut self,
        id: ViewerTrackId,
        contents: &mut SimContents,
        ledger: &Ledger,
        course: &mut Course,
    ) -> Option<SimDelivery> {
        let (ahead, now, state) = (self.load_of(id.viewer).ahead, course.now(), &self.all[id.viewer]);
        if !state.watches || state.tracks[id.track].state != TrackState::Rests {
            return None;
        }
        let at = state.player.asks_at(id.track, ahead, now)?;
        if at > now {
            let requests = state.tracks[id.track].requests;
            self.track(id).opens_since = None;
            act_in(at.saturating_sub(now), FilmViewerAction::Ask(id, requests), course);
            return None;
        }
        if id.track == 0 {
            return Some(self.ask_for_segment(id, None, contents, now));
        }
        // Sound waits until the session of its pictures has begun.
        let pictures = &state.tracks[0];
        let session = pictures.reservation.or_else(|| ledger.delivery(pictures.stream()?)?.reservation())?;
        Some(self.ask_for_segment(id, Some(session), contents, now))
    }

    /// Asks for the track's next segment, ahead of the rate, or `beside` a session.
    fn ask_for_segment(
        &mut self,
        id: ViewerTrackId,
        beside: Option<ReservationId>,
        contents: &mut SimContents,
        now: Nanos,
    ) -> SimDelivery {
        let (range, round) = (self.next_range(id, contents), self.bounds.round);
        let track = self.track(id);
        let (rate, held) = (track.rate, track.reservation);
        track.requests += 1;
        let asked = track.opens_since.take().unwrap_or(now);
        if track.requested_at.is_none() {
            (track.requested_at, track.is_promised) = (Some(asked), held.is_some());
        }
        // The share of a session has one content in a round.
        track.clock.ask(rate.time_for(range.bytes).max(round), asked);
        let (burst_bytes, service) = match beside {
            Some(session) => (range.bytes, Service::Beside { session }),
            None => {
                let burst_bytes = sent_ahead(rate, range.bytes);
                (burst_bytes, Service::Constant { rate, burst_bytes, held, hold: true })
            }
        };
        let (segments, waited) = (one_range(range.offset, range.bytes), now.saturating_sub(asked));
        SimDelivery { content: range.content, segments, rate, burst_bytes, service, viewer: Some(id), waited }
    }

    /// The delivery of a track's segment is asked for.
    pub(crate) fn runs(&mut self, id: ViewerTrackId, stream: u64) {
        self.track(id).state = TrackState::Runs { stream };
    }

    /// A viewer's delivery is over, or was refused. True if the viewer may ask for its next segments now; `asks`: the run does.
    pub(crate) fn delivery_over(
        &mut self,
        id: ViewerTrackId,
        (record, end): (&mut LedgerEntry, Option<&Ending>),
        asks: bool,
        ledger: &mut Ledger,
        channel: &mut SimChannel,
        course: &mut Course,
    ) -> bool {
        let leaves = matches!(self.track(id).state, TrackState::Leaves { .. });
        self.track(id).state = TrackState::Asks;
        let kept = end.and_then(|end| end.held);
        if kept.is_none() && id.track == 0 {
            // Refused with its reservation, or the reservation is lost.
            self.end_session(id, channel, course);
        }
        self.track(id).reservation = kept;
        match end.filter(|end| end.sent_bytes > 0).map(|end| end.outcome) {
            _ if !asks || !self.all[id.viewer].watches => self.end_session(id, channel, course),
            _ if leaves => {
                self.track(id).state = TrackState::Rests;
                return true;
            }
            Some(Outcome::Complete) => self.segment_sent(id, record, ledger.delays(), course),
            None => self.segment_refused(id, record, ledger, course),
            Some(_) => {
                self.all[id.viewer].excused = true;
                self.end_session(id, channel, course);
                self.track(id).is_promised = false;
                act_in(RETRY, FilmViewerAction::Ask(id, self.track(id).requests), course);
            }
        }
        false
    }

    /// All bytes are in the socket, and its client reads the rest of them.
    fn segment_sent(&mut self, id: ViewerTrackId, record: &mut LedgerEntry, delays: &PlaneDelays, course: &mut Course) {
        let (first, now) = (record.first_at(), course.now());
        self.judge_session(id, record, delays, now);
        let whole = record.whole_at().unwrap_or(now);
        let arrives = record.arrives_at().saturating_add(ROUND_TRIP);
        let track = self.track(id);
        track.clock.served(first, whole);
        if record.may_be_late() {
            track.clock.forgive(now);
        }
        track.state = TrackState::Arrives;
        let requests = track.requests;
        // The next request waits until the control side reads of the last one's end.
        let noticed_late = now.saturating_sub(whole) > NOTICE_DELAY_MAX;
        let delayed = noticed_late || delays.between(record.requested.at, now) > Nanos::ZERO;
        self.all[id.viewer].excused |= record.may_be_late() || delayed;
        act_in(arrives.saturating_sub(now), FilmViewerAction::Receive(id, requests), course);
        act_in(SESSION_HOLD, FilmViewerAction::Expire(id, requests), course);
    }

    /// How much later than its session's rate is a segment that is whole, or was to be by now?
    fn judge_session(&mut self, id: ViewerTrackId, record: &mut LedgerEntry, delays: &PlaneDelays, now: Nanos) {
        let at = record.whole_at().unwrap_or(now);
        let late = self.track(id).clock.lag(record.first_at(), at);
        let lag = record.unexcused(late, at, delays, Nanos::ZERO);
        if !record.may_always_be_late() {
            self.tally.note_lag(lag);
            if lag > self.bounds.lateness_max(record.requested.burst_bytes) {
                let what = format!("{id:?}: {:?} is {lag} behind its session's rate", record.requested.id);
                self.falls_behind(now, what);
            }
        }
    }

    /// There was no room: a viewer that has not begun is sent away, and another asks again later.
    fn segment_refused(&mut self, id: ViewerTrackId, record: &LedgerEntry, ledger: &mut Ledger, course: &mut Course) {
        let (requests, now) = (self.track(id).requests, course.now());
        if requests == 1 {
            self.refuse(id.viewer);
            return self.leave_tracks(id.viewer, ledger, course);
        }
        if std::mem::take(&mut self.track(id).is_promised) {
            let what = format!("{id:?} was admitted, and {:?} is refused", record.requested.id);
            self.lose_room(id.viewer, record.may_start_late(now), now, what);
        }
        act_in(RETRY, FilmViewerAction::Ask(id, requests), course);
    }

    /// The segments that a viewer has asked for are of no use any more: the client closes its connections, and its next requests
    /// take the reservation over from them.
    fn leave_tracks(&mut self, viewer: usize, ledger: &mut Ledger, course: &mut Course) {
        for track in 0..self.tracks(viewer) {
            let id = ViewerTrackId { viewer, track };
            let track = self.track(id);
            if let TrackState::Runs { stream } = track.state {
                track.state = TrackState::Leaves { stream };
                course.schedule_in(Nanos::ZERO, WorldEvent::Client(stream, ClientTurn::Resets));
                if let Some(reservation) = ledger.pass_on(stream) {
                    (track.state, track.reservation) = (TrackState::Rests, (id.track == 0).then_some(reservation));
                }
            } else if track.stream().is_none() {
                track.state = TrackState::Rests;
            }
        }
    }

    fn end_session(&mut self, id: ViewerTrackId, channel: &mut SimChannel, course: &mut Course) {
        if let Some(held) = self.track(id).end_session() {
            channel.command(Command::Release(held), course);
        }
    }

    /// Ends all requests: segments late by now stay late, and the reservations of sessions are released.
    pub(crate) fn end(&mut self, ledger: &mut Ledger, channel: &mut SimChannel, course: &mut Course) {
        let tracks = |(viewer, state): (usize, &FilmViewer)| {
            (0..state.tracks.len()).map(|track| ViewerTrackId { viewer, track }).collect::<Vec<_>>()
        };
        for id in self.all.iter().enumerate().flat_map(tracks).collect::<Vec<_>>() {
            match self.track(id).state {
                TrackState::Runs { stream } => {
                    if let Some((record, delays)) = ledger.delivery_mut(stream) {
                        self.judge_session(id, record, delays, course.now());
                    }
                }
                TrackState::Leaves { .. } => {}
                _ => self.end_session(id, channel, course),
            }
        }
        self.close(course.now());
        if let Some((at, how)) = self.fell_behind.take() {
            course.broke_at(Law::SessionKeepsRate, at, how);
        }
    }

    /// The next segment of a track, of which the film begins anew behind its last.
    fn next_range(&mut self, id: ViewerTrackId, contents: &mut SimContents) -> SegmentRange {
        let FilmViewer { load, film, tracks, .. } = &self.all[id.viewer];
        let next = tracks[id.track].next;
        let track = &mut self.films[*load][*film][id.track];
        track.range(next % track.len(), contents)
    }

    /// The viewer begins to watch.
    fn come(&mut self, viewer: usize, now: Nanos) {
        let viewer = &mut self.all[viewer];
        viewer.player = SegmentPlayer::new(viewer.tracks.len(), now);
        viewer.watches = true;
        self.tally.viewers += 1;
    }

    /// Notes that a segment is whole, and tallies it. Returns for how long its player stalled beyond the time that a seek may
    /// take.
    fn receive(&mut self, id: ViewerTrackId, now: Nanos) -> Nanos {
        let span = self.load_of(id.viewer).segment;
        let viewer = &mut self.all[id.viewer];
        let track = &mut viewer.tracks[id.track];
        (track.next, track.state) = (track.next + 1, TrackState::Rests);
        self.tally.segments.extend(track.requested_at.take().map(|requested_at| now.saturating_sub(requested_at)));
        match viewer.player.receive(id.track, span, now) {
            Reception::Ahead => Nanos::ZERO,
            Reception::Begins { waited } => {
                let waits = if viewer.began { &mut self.tally.seeks } else { &mut self.tally.starts };
                waits.push(waited);
                viewer.began = true;
                Nanos::ZERO
            }
            Reception::Late { beyond, .. } => beyond,
        }
    }

    /// Its player asks for the next segment of a track, and the server opens that: the time which both take.
    fn ask_in_a_while(&mut self, id: ViewerTrackId, now: Nanos) -> Nanos {
        let &SegmentViewers { way_max, open_max, .. } = self.load_of(id.viewer);
        let way = self.random.span(Nanos::ZERO, way_max);
        let open = if open_max > Nanos::ZERO { self.random.span(Nanos::ZERO, open_max) } else { Nanos::ZERO };
        let track = &mut self.all[id.viewer].tracks[id.track];
        (track.state, track.opens_since) = (TrackState::Asks, Some(now.saturating_add(way)));
        way.saturating_add(open)
    }

    /// An admitted session fell behind: the first time is kept.
    fn falls_behind(&mut self, now: Nanos, how: String) {
        self.fell_behind.get_or_insert((now, how));
    }

    /// The viewer goes to a place of its film.
    fn seek(&mut self, viewer: usize, now: Nanos) {
        let FilmViewer { load, film, .. } = self.all[viewer];
        let count = self.films[load][film][0].len();
        let place = usize::try_from(self.random.below(count as u64)).expect("few segments");
        let viewer = &mut self.all[viewer];
        viewer.player.seek(now);
        viewer
            .tracks
            .iter_mut()
            .for_each(|track| (track.next, track.requested_at, track.opens_since) = (place, None, None));
    }

    /// The viewer is refused.
    fn refuse(&mut self, viewer: usize) {
        self.all[viewer].watches = false;
        self.tally.refused += 1;
    }

    /// Nothing is asked for any more: the figures of all players.
    fn close(&mut self, now: Nanos) {
        for viewer in self.all.iter_mut().filter(|viewer| viewer.watches) {
            viewer.player.finish(now);
            // Without a picture for all that time.
            let waited = viewer.player.waits_since().map_or(Nanos::ZERO, |since| now.saturating_sub(since));
            self.tally.count(viewer.player.stalls, viewer.player.stall_max, waited, viewer.excused);
        }
        self.tally.sort();
    }
}

impl FilmViewer {
    fn new(load: usize, film: usize, rates: &[BitRate]) -> Self {
        let track = |&rate| ViewerTrack {
            rate,
            next: 0,
            requests: 0,
            state: TrackState::Rests,
            reservation: None,
            clock: SessionClock::NEW,
            is_promised: false,
            requested_at: None,
            opens_since: None,
        };
        let tracks: Vec<ViewerTrack> = rates.iter().map(track).collect();
        let player = SegmentPlayer::new(tracks.len(), Nanos::ZERO);
        Self { load, film, player, tracks, watches: false, excused: false, began: false }
    }
}

impl ViewerTrack {
    /// The session has no reservation any more: its next request begins anew.
    fn end_session(&mut self) -> Option<ReservationId> {
        self.clock = SessionClock::NEW;
        self.reservation.take()
    }

    /// The delivery that it waits for, if it does.
    const fn stream(&self) -> Option<u64> {
        match self.state {
            TrackState::Runs { stream } | TrackState::Leaves { stream } => Some(stream),
            TrackState::Rests | TrackState::Arrives | TrackState::Asks => None,
        }
    }
}

fn act_in(span: Nanos, action: FilmViewerAction, course: &mut Course) {
    course.act_in(span, ControlAction::Viewer(action));
}

/// The bytes of a segment that are sent ahead of its rate, so that its player's buffer fills: as `service::rate` decides it.
fn sent_ahead(rate: BitRate, bytes: u64) -> u64 {
    if bytes > rate.bytes_in(SENT_AHEAD_MAX) {
        return 0;
    }
    let highest = BitRate(rate.0.saturating_mul(BURST_FACTOR));
    bytes.saturating_sub(rate.bytes_in(highest.time_for(bytes)))
}
