//! Viewers of films in segments: each holds one session, and plays the segments it has asked for.
//!
//! Promise: all chance is their own, so that a run without such viewers is the same as ever. Not here: their actions in the
//! world (`workload`), the buffer and the stalls of a player (`player`), the time at which a segment is due (`clock`), its
//! place (`film`).

mod clock;
mod film;
mod player;
mod tally;

use units::{BitRate, DiskId, Nanos, ReservationId};

use crate::contents::SimContent;
use crate::load::SegmentViewers;
use crate::random::Random;

pub(crate) use clock::SessionClock;
pub(crate) use film::SegmentRange;
use film::{SegmentTrack, new_film};
use player::{Reception, SegmentPlayer};
pub use tally::ViewersTally;

/// A track of a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewerTrackId {
    pub(crate) viewer: usize,
    pub(crate) track: usize,
}

/// Something that a viewer does at some time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FilmViewerAction {
    /// Begins to watch.
    Come(usize),
    /// Asks for the next segment of a track, unless it has asked again since this many times.
    Ask(ViewerTrackId, u32),
    /// Has all bytes of the segment that it asked for as this request of it.
    Receive(ViewerTrackId, u32),
    /// Its session ends, unless it has asked again since this many times.
    Expire(ViewerTrackId, u32),
    Pause(usize),
    Resume(usize),
    Seek(usize),
}

/// All viewers of segments of a run.
#[derive(Debug)]
pub(crate) struct Viewers {
    pub(crate) random: Random,
    loads: Vec<SegmentViewers>,
    /// The films of each load.
    films: Vec<Vec<Vec<SegmentTrack>>>,
    pub(crate) all: Vec<FilmViewer>,
    pub(crate) tally: ViewersTally,
    /// When an admitted session first fell behind, and how. The figures of a run that breaks this law are whole all the same.
    pub(crate) fell_behind: Option<(Nanos, String)>,
}

/// One viewer.
#[derive(Debug)]
pub(crate) struct FilmViewer {
    load: usize,
    film: usize,
    pub(crate) player: SegmentPlayer,
    pub(crate) tracks: Vec<ViewerTrack>,
    /// It began to watch, and was not refused.
    pub(crate) watches: bool,
    /// Something went wrong that excuses a stall.
    pub(crate) excused: bool,
    began: bool,
}

/// Requests of a viewer for one track, all with one reservation.
#[derive(Debug)]
pub(crate) struct ViewerTrack {
    pub(crate) rate: BitRate,
    next: usize,
    /// Requests so far.
    pub(crate) requests: u32,
    pub(crate) state: TrackState,
    pub(crate) reservation: Option<ReservationId>,
    pub(crate) clock: SessionClock,
    /// The session held a reservation when it first asked for this segment.
    pub(crate) is_promised: bool,
    /// When the segment was asked for first.
    pub(crate) requested_at: Option<Nanos>,
    /// Since when the server has looked up the name of the next segment.
    pub(crate) opens_since: Option<Nanos>,
}

/// State of a track: the event that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrackState {
    /// The next time it may ask.
    Rests,
    /// The end of this delivery.
    Runs { stream: u64 },
    /// The end of this delivery, of which it needs nothing any more.
    Leaves { stream: u64 },
    /// The last bytes, which are on their way.
    Arrives,
    /// The time at which it asks for the next segment, or again for one that was refused.
    Asks,
}

impl Viewers {
    /// Draws the films; no viewer has come yet.
    pub(crate) fn new(loads: &[SegmentViewers], capacities: &[u64], mut random: Random) -> Self {
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
        Self { random, loads: loads.to_vec(), films, all, tally: ViewersTally::default(), fell_behind: None }
    }

    pub(crate) fn load_of(&self, viewer: usize) -> &SegmentViewers {
        &self.loads[self.all[viewer].load]
    }

    /// A viewer that was admitted is refused. That breaks a law unless it is late (`may_start_late`), or leaves groups.
    pub(crate) fn lose_room(&mut self, viewer: usize, may_start_late: bool, now: Nanos, what: String) {
        if may_start_late || self.load_of(viewer).splits_groups() {
            self.all[viewer].excused = true;
        } else {
            self.tally.lost += 1;
            self.falls_behind(now, what);
        }
    }

    /// When each of them comes, from the start.
    pub(crate) fn arrivals(&self) -> Vec<Nanos> {
        let each =
            self.loads.iter().flat_map(|load| (0..u64::from(load.viewers)).map(|nth| load.apart.saturating_mul(nth)));
        each.collect()
    }

    /// The next segment of a track, of which the film begins anew behind its last.
    pub(crate) fn next_range(&mut self, id: ViewerTrackId, contents: &mut Vec<SimContent>) -> SegmentRange {
        let FilmViewer { load, film, tracks, .. } = &self.all[id.viewer];
        let next = tracks[id.track].next;
        let track = &mut self.films[*load][*film][id.track];
        track.range(next % track.len(), contents)
    }

    /// The viewer begins to watch.
    pub(crate) fn come(&mut self, viewer: usize, now: Nanos) {
        let viewer = &mut self.all[viewer];
        viewer.player = SegmentPlayer::new(viewer.tracks.len(), now);
        viewer.watches = true;
        self.tally.viewers += 1;
    }

    /// Notes that a segment is whole, and tallies it. Returns for how long its player stalled beyond the time that a seek may
    /// take.
    pub(crate) fn receive(&mut self, id: ViewerTrackId, now: Nanos) -> Nanos {
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
    pub(crate) fn ask_in_a_while(&mut self, id: ViewerTrackId, now: Nanos) -> Nanos {
        let &SegmentViewers { way_max, open_max, .. } = self.load_of(id.viewer);
        let way = self.random.span(Nanos::ZERO, way_max);
        let open = if open_max > Nanos::ZERO { self.random.span(Nanos::ZERO, open_max) } else { Nanos::ZERO };
        let track = &mut self.all[id.viewer].tracks[id.track];
        (track.state, track.opens_since) = (TrackState::Asks, Some(now.saturating_add(way)));
        way.saturating_add(open)
    }

    /// An admitted session fell behind: the first time is kept.
    pub(crate) fn falls_behind(&mut self, now: Nanos, how: String) {
        self.fell_behind.get_or_insert((now, how));
    }

    /// The viewer goes to a place of its film.
    pub(crate) fn seek(&mut self, viewer: usize, now: Nanos) {
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
    pub(crate) fn refuse(&mut self, viewer: usize) {
        self.all[viewer].watches = false;
        self.tally.refused += 1;
    }

    /// Nothing is asked for any more: the figures of all players.
    pub(crate) fn close(&mut self, now: Nanos) {
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
    pub(crate) fn end_session(&mut self) -> Option<ReservationId> {
        self.clock = SessionClock::NEW;
        self.reservation.take()
    }

    /// The delivery that it waits for, if it does.
    pub(crate) const fn stream(&self) -> Option<u64> {
        match self.state {
            TrackState::Runs { stream } | TrackState::Leaves { stream } => Some(stream),
            TrackState::Rests | TrackState::Arrives | TrackState::Asks => None,
        }
    }
}
