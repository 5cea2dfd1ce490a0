//! Viewers of films in segments: they come, ask for segment after segment with the reservation of their session, seek and
//! pause.
//!
//! Promise: a session does here the same as the server's `session` and `delivery`: its reservation passes from segment to
//! segment, each is sent ahead of the rate, and a reservation unused for a while is released. Not here: the buffer of a player
//! (`viewers`).

use dataplane::control::{Command, Ending, Outcome, Service};
use schedule::pace::BURST_FACTOR;
use units::{BitRate, Nanos, ReservationId};

use crate::contents::one_range;
use crate::control_side::ControlAction;
use crate::laws::Law;
use crate::ledger::LedgerEntry;
use crate::viewers::{FilmViewerAction, TrackState, ViewerTrack, ViewerTrackId};
use crate::world::{ClientTurn, World, WorldEvent};

use super::{PAUSE, SimDelivery};

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

impl World {
    pub(super) fn viewers_begin(&mut self) {
        for (viewer, at) in self.control.viewers.arrivals().into_iter().enumerate() {
            self.act_in(at, ControlAction::Viewer(FilmViewerAction::Come(viewer)));
        }
    }

    fn viewer_in(&mut self, span: Nanos, action: FilmViewerAction) {
        self.act_in(span, ControlAction::Viewer(action));
    }

    pub(super) fn viewer_acts(&mut self, action: FilmViewerAction) {
        match action {
            _ if self.control.draining => {}
            FilmViewerAction::Come(viewer) => {
                self.control.viewers.come(viewer, self.now);
                let load = self.control.viewers.load_of(viewer);
                let (pauses, seeks) = (load.pauses, load.seeks);
                self.viewer_again(pauses, FilmViewerAction::Pause(viewer));
                self.viewer_again(seeks, FilmViewerAction::Seek(viewer));
                self.viewer_considers(viewer);
            }
            FilmViewerAction::Ask(id, requests) => {
                let track = self.track(id);
                if track.requests == requests && matches!(track.state, TrackState::Rests | TrackState::Asks) {
                    track.state = TrackState::Rests;
                    self.viewer_considers(id.viewer);
                }
            }
            FilmViewerAction::Receive(id, requests) => {
                let track = self.track(id);
                if track.requests == requests && track.state == TrackState::Arrives {
                    let stalled = self.control.viewers.receive(id, self.now);
                    if stalled > self.stall_max() && !self.control.viewers.all[id.viewer].excused {
                        self.control.viewers.falls_behind(self.now, format!("{id:?} stalled for {stalled}"));
                    }
                    let way = self.control.viewers.ask_in_a_while(id, self.now);
                    self.viewer_in(way, FilmViewerAction::Ask(id, requests));
                }
            }
            FilmViewerAction::Expire(id, requests) => {
                if self.track(id).requests == requests && self.track(id).reservation.is_some() {
                    // It may be refused when it comes back.
                    self.control.viewers.all[id.viewer].excused = true;
                    self.end_session(id);
                }
            }
            FilmViewerAction::Pause(viewer) => self.viewer_pauses(viewer),
            FilmViewerAction::Resume(viewer) => {
                self.control.viewers.all[viewer].player.resume(self.now);
                self.viewer_considers(viewer);
            }
            FilmViewerAction::Seek(viewer) => self.viewer_seeks(viewer),
        }
    }

    /// The action again after a random time with this mean; never, if it is zero.
    fn viewer_again(&mut self, mean: Nanos, action: FilmViewerAction) {
        if mean > Nanos::ZERO {
            let span = self.control.viewers.random.wait(mean);
            self.viewer_in(span, action);
        }
    }

    fn track(&mut self, id: ViewerTrackId) -> &mut ViewerTrack {
        &mut self.control.viewers.all[id.viewer].tracks[id.track]
    }

    /// Asks for the next segment of each track that has room for one, or notes when it will have.
    pub(super) fn viewer_considers(&mut self, viewer: usize) {
        let ahead = self.control.viewers.load_of(viewer).ahead;
        for track in 0..self.control.viewers.all[viewer].tracks.len() {
            let id = ViewerTrackId { viewer, track };
            let state = &self.control.viewers.all[viewer];
            if !state.watches || state.tracks[track].state != TrackState::Rests {
                continue;
            }
            match state.player.asks_at(track, ahead, self.now) {
                // Sound waits until the session of its pictures has begun.
                Some(at) if at <= self.now && track > 0 => {
                    if let Some(session) = self.session_of(viewer) {
                        self.ask_for_segment(id, Some(session));
                    }
                }
                Some(at) if at <= self.now => self.ask_for_segment(id, None),
                Some(at) => {
                    let requests = state.tracks[track].requests;
                    self.track(id).opens_since = None;
                    self.viewer_in(at.saturating_sub(self.now), FilmViewerAction::Ask(id, requests));
                }
                None => {}
            }
        }
    }

    /// The reservation of a viewer's session, once it has one.
    fn session_of(&self, viewer: usize) -> Option<ReservationId> {
        let pictures = &self.control.viewers.all[viewer].tracks[0];
        pictures.reservation.or_else(|| self.streams.get(&pictures.stream()?)?.reservation)
    }

    /// Asks for the track's next segment, ahead of the rate, or `beside` a session.
    fn ask_for_segment(&mut self, id: ViewerTrackId, beside: Option<ReservationId>) {
        let now = self.now;
        let control = &mut self.control;
        let range = control.viewers.next_range(id, &mut control.contents);
        let round = control.round_span();
        let track = self.track(id);
        let (rate, held) = (track.rate, track.reservation);
        track.requests += 1;
        let asked = track.opens_since.take().unwrap_or(now);
        if track.requested_at.is_none() {
            (track.requested_at, track.is_promised) = (Some(asked), track.reservation.is_some());
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
        let stream = self.deliver(SimDelivery {
            content: usize::try_from(range.content).expect("few contents"),
            segments: one_range(range.offset, range.bytes),
            rate,
            burst_bytes,
            service,
            viewer: Some(id),
            waited: now.saturating_sub(asked),
        });
        self.track(id).state = TrackState::Runs { stream };
    }

    /// A viewer's delivery is over, or was refused.
    pub(super) fn viewer_delivery_over(&mut self, id: ViewerTrackId, record: &mut LedgerEntry, end: Option<&Ending>) {
        let leaves = matches!(self.track(id).state, TrackState::Leaves { .. });
        self.track(id).state = TrackState::Asks;
        let kept = end.and_then(|end| end.held);
        if kept.is_none() && id.track == 0 {
            // Refused with its reservation, or the reservation is lost.
            self.end_session(id);
        }
        self.track(id).reservation = kept;
        let outcome = end.filter(|end| end.sent_bytes > 0).map(|end| end.outcome);
        match outcome {
            _ if self.control.draining || !self.control.viewers.all[id.viewer].watches => self.end_session(id),
            _ if leaves => {
                self.track(id).state = TrackState::Rests;
                self.viewer_considers(id.viewer);
            }
            Some(Outcome::Complete) => self.segment_sent(id, record),
            None => self.segment_refused(id, record),
            Some(_) => {
                self.control.viewers.all[id.viewer].excused = true;
                self.end_session(id);
                self.track(id).is_promised = false;
                let requests = self.track(id).requests;
                self.viewer_in(RETRY, FilmViewerAction::Ask(id, requests));
            }
        }
    }

    /// All bytes are in the socket, and its client reads the rest of them.
    fn segment_sent(&mut self, id: ViewerTrackId, record: &mut LedgerEntry) {
        self.judge_session(id, record);
        let (first, now) = (record.first_at(), self.now);
        let whole = record.whole_at().unwrap_or(now);
        let arrives = record.socket.empty_at().saturating_add(ROUND_TRIP);
        let track = self.track(id);
        track.clock.served(first, whole);
        if record.may_be_late() {
            track.clock.forgive(now);
        }
        track.state = TrackState::Arrives;
        let requests = track.requests;
        // The next request waits until the control side reads of the last one's end.
        let noticed_late = now.saturating_sub(whole) > NOTICE_DELAY_MAX;
        let delayed = noticed_late || self.plane_delays.between(record.requested.at, now) > Nanos::ZERO;
        self.control.viewers.all[id.viewer].excused |= record.may_be_late() || delayed;
        self.viewer_in(arrives.saturating_sub(now), FilmViewerAction::Receive(id, requests));
        self.viewer_in(SESSION_HOLD, FilmViewerAction::Expire(id, requests));
    }

    /// How much later than its session's rate is a segment that is whole, or was to be by now?
    fn judge_session(&mut self, id: ViewerTrackId, record: &mut LedgerEntry) {
        let at = record.whole_at().unwrap_or(self.now);
        let clock = self.track(id).clock;
        let lag = record.unexcused(clock.lag(record.first_at(), at), at, &self.plane_delays, Nanos::ZERO);
        if !record.may_always_be_late() {
            self.control.viewers.tally.note_lag(lag);
            if lag > self.control.lateness_max(record.requested.burst_bytes) {
                let what = format!("{id:?}: {:?} is {lag} behind its session's rate", record.requested.id);
                self.control.viewers.falls_behind(self.now, what);
            }
        }
    }

    /// There was no room: a viewer that has not begun is sent away, and another asks again later.
    fn segment_refused(&mut self, id: ViewerTrackId, record: &LedgerEntry) {
        let requests = self.track(id).requests;
        if requests == 1 {
            self.control.viewers.refuse(id.viewer);
            for track in 0..self.control.viewers.all[id.viewer].tracks.len() {
                self.leave_track(ViewerTrackId { track, ..id });
            }
            return;
        }
        if std::mem::take(&mut self.track(id).is_promised) {
            let what = format!("{id:?} was admitted, and {:?} is refused", record.requested.id);
            self.control.viewers.lose_room(id.viewer, record.may_start_late(self.now), self.now, what);
        }
        self.viewer_in(RETRY, FilmViewerAction::Ask(id, requests));
    }

    /// The segment that a track has asked for is of no use any more: the client closes its connection, and its next request
    /// takes the reservation over from that.
    fn leave_track(&mut self, id: ViewerTrackId) {
        let track = self.track(id);
        if let TrackState::Runs { stream } = track.state {
            track.state = TrackState::Leaves { stream };
            self.schedule(self.now, WorldEvent::Client(stream, ClientTurn::Resets));
            if let Some(record) = self.streams.get_mut(&stream)
                && let Some(reservation) = record.reservation
            {
                record.excuses.passed_on = true;
                let track = self.track(id);
                (track.state, track.reservation) = (TrackState::Rests, (id.track == 0).then_some(reservation));
            }
        } else if track.stream().is_none() {
            track.state = TrackState::Rests;
        }
    }

    fn end_session(&mut self, id: ViewerTrackId) {
        if let Some(held) = self.track(id).end_session() {
            self.command(Command::Release(held));
        }
    }

    fn viewer_seeks(&mut self, viewer: usize) {
        let load = self.control.viewers.load_of(viewer);
        let mean = load.seeks;
        if self.control.viewers.all[viewer].player.plays(self.now) {
            self.control.viewers.seek(viewer, self.now);
            for track in 0..self.control.viewers.all[viewer].tracks.len() {
                self.leave_track(ViewerTrackId { viewer, track });
            }
            self.viewer_considers(viewer);
        }
        self.viewer_again(mean, FilmViewerAction::Seek(viewer));
    }

    fn viewer_pauses(&mut self, viewer: usize) {
        let mean = self.control.viewers.load_of(viewer).pauses;
        if self.control.viewers.all[viewer].player.plays(self.now) {
            self.control.viewers.all[viewer].player.pause(self.now);
            let lasts = self.control.viewers.random.span(PAUSE.0, PAUSE.1);
            self.viewer_in(lasts, FilmViewerAction::Resume(viewer));
        }
        self.viewer_again(mean, FilmViewerAction::Pause(viewer));
    }

    /// Ends all requests: segments late by now stay late, and the reservations of sessions are released.
    pub(super) fn viewers_end(&mut self) {
        for viewer in 0..self.control.viewers.all.len() {
            for track in 0..self.control.viewers.all[viewer].tracks.len() {
                let id = ViewerTrackId { viewer, track };
                match self.track(id).state {
                    TrackState::Runs { stream } => {
                        if let Some(mut record) = self.streams.remove(&stream) {
                            self.judge_session(id, &mut record);
                            self.streams.insert(stream, record);
                        }
                    }
                    TrackState::Leaves { .. } => {}
                    _ => self.end_session(id),
                }
            }
        }
        self.control.viewers.close(self.now);
        if let Some((at, how)) = self.control.viewers.fell_behind.take() {
            self.laws.broke(Law::SessionKeepsRate, at, how);
        }
    }

    /// Longest interruption that is no stall: the time between the last byte in a socket and the player, and between ticks.
    fn stall_max(&self) -> Nanos {
        self.control.tick_span().saturating_mul(4).saturating_add(Nanos::from_millis(100))
    }
}

/// The bytes of a segment that are sent ahead of its rate, so that its player's buffer fills: as `service::rate` decides it.
fn sent_ahead(rate: BitRate, bytes: u64) -> u64 {
    if bytes > rate.bytes_in(SENT_AHEAD_MAX) {
        return 0;
    }
    let highest = BitRate(rate.0.saturating_mul(BURST_FACTOR));
    bytes.saturating_sub(rate.bytes_in(highest.time_for(bytes)))
}
