//! A player's buffer and playback: pure, with the time as an argument.
//!
//! Promise: as hls.js does it. Playback begins when a segment of each track is whole, stalls when one of them is used up, and goes
//! on with the next whole segment. Not here: which segment comes next (`viewers`).

use units::Nanos;

/// Most that a viewer may wait after a seek, for its picture and in stalls behind that: by then all requests it sent at once
/// are due (decision 0060).
const START_UP_MAX: Nanos = Nanos::from_secs(10);

/// The buffer and the clock of one player.
#[derive(Debug)]
pub(crate) struct SegmentPlayer {
    /// Playing time of the segments that are whole, since the start or the last seek, of each track.
    received: Vec<Nanos>,
    playback: PlaybackState,
    paused_at: Option<Nanos>,
    /// Rest of the start-up delay that a seek may take: the time not spent waiting for its picture, which stalls may take.
    spare: Nanos,
    /// Stalls so far, and the longest.
    pub(crate) stalls: u32,
    pub(crate) stall_max: Nanos,
}

/// Whether something plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaybackState {
    /// The viewer waits since then for the first picture.
    Waits { since: Nanos },
    /// The first segment received was played then, and the rest without a stall or a pause behind it.
    Plays { began: Nanos },
}

/// Effect of a whole segment on a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reception {
    /// It has more than it had, or waits for another track.
    Ahead,
    /// The first picture, for which its viewer waited.
    Begins { waited: Nanos },
    /// It had nothing to play for a time, and `beyond` of that exceeds the rest of a seek's start-up delay.
    Late { stalled: Nanos, beyond: Nanos },
}

impl SegmentPlayer {
    /// A player of this number of tracks; its viewer waits from now on.
    pub(crate) fn new(tracks: usize, now: Nanos) -> Self {
        Self {
            received: vec![Nanos::ZERO; tracks],
            playback: PlaybackState::Waits { since: now },
            paused_at: None,
            spare: Nanos::ZERO,
            stalls: 0,
            stall_max: Nanos::ZERO,
        }
    }

    /// A segment of this track is whole.
    pub(crate) fn receive(&mut self, track: usize, span: Nanos, now: Nanos) -> Reception {
        let before = self.playable();
        self.received[track] += span;
        let now = self.clock(now);
        match self.playback {
            _ if self.playable() == before => Reception::Ahead,
            PlaybackState::Waits { since } => {
                self.playback = PlaybackState::Plays { began: now };
                let waited = now.saturating_sub(since);
                self.spare = self.spare.saturating_sub(waited);
                Reception::Begins { waited }
            }
            PlaybackState::Plays { began } => {
                let stalled = now.saturating_sub(began.saturating_add(before));
                self.count_stall(stalled);
                self.playback = PlaybackState::Plays { began: began.saturating_add(stalled) };
                if stalled == Nanos::ZERO {
                    return Reception::Ahead;
                }
                let beyond = stalled.saturating_sub(self.spare);
                self.spare = self.spare.saturating_sub(stalled);
                Reception::Late { stalled, beyond }
            }
        }
    }

    /// Time at which this player asks for the next segment of a track if it keeps `ahead` ahead; `None`: after another event.
    pub(crate) fn asks_at(&self, track: usize, ahead: Nanos, now: Nanos) -> Option<Nanos> {
        let received = self.received[track];
        let played = match self.playback {
            PlaybackState::Waits { .. } => Nanos::ZERO,
            PlaybackState::Plays { began } => self.clock(now).saturating_sub(began).min(self.playable()),
        };
        if received < played.saturating_add(ahead) {
            return Some(now);
        }
        match self.playback {
            PlaybackState::Plays { began } if self.paused_at.is_none() => {
                Some(began.saturating_add(received).saturating_sub(ahead).max(now))
            }
            _ => None,
        }
    }

    /// True if something plays that a viewer may pause.
    pub(crate) fn plays(&self, now: Nanos) -> bool {
        let dry = |began: Nanos| began.saturating_add(self.playable()) <= now;
        self.paused_at.is_none() && matches!(self.playback, PlaybackState::Plays { began } if !dry(began))
    }

    pub(crate) fn pause(&mut self, now: Nanos) {
        self.paused_at.get_or_insert(now);
    }

    pub(crate) fn resume(&mut self, now: Nanos) {
        let Some(at) = self.paused_at.take() else { return };
        if let PlaybackState::Plays { began } = &mut self.playback {
            *began = began.saturating_add(now.saturating_sub(at));
        }
    }

    /// The viewer goes elsewhere: no segment received is of use any more, and it waits from now on.
    pub(crate) fn seek(&mut self, now: Nanos) {
        self.finish(now);
        (self.paused_at, self.spare) = (None, START_UP_MAX);
        self.received.fill(Nanos::ZERO);
        self.playback = PlaybackState::Waits { since: now };
    }

    /// Nothing more comes: a stall that has begun lasted until now.
    pub(crate) fn finish(&mut self, now: Nanos) {
        if let PlaybackState::Plays { began } = self.playback {
            self.count_stall(self.clock(now).saturating_sub(began.saturating_add(self.playable())));
        }
    }

    /// Since when the viewer has waited for the first picture, if it does.
    pub(crate) fn waits_since(&self) -> Option<Nanos> {
        if let PlaybackState::Waits { since } = self.playback { Some(since) } else { None }
    }

    fn count_stall(&mut self, lasted: Nanos) {
        self.stalls += u32::from(lasted > Nanos::ZERO);
        self.stall_max = self.stall_max.max(lasted);
    }

    /// Playing time of which all tracks are there.
    fn playable(&self) -> Nanos {
        self.received.iter().copied().min().unwrap_or(Nanos::ZERO)
    }

    /// The time by which it plays: it stands still in a pause.
    fn clock(&self, now: Nanos) -> Nanos {
        self.paused_at.unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECS: fn(u64) -> Nanos = Nanos::from_secs;

    #[test]
    fn playback_begins_with_the_first_segment_and_stalls_without_a_next_one() {
        let mut player = SegmentPlayer::new(1, SECS(10));
        assert_eq!(player.receive(0, SECS(6), SECS(13)), Reception::Begins { waited: SECS(3) });
        assert_eq!(player.receive(0, SECS(6), SECS(19)), Reception::Ahead);
        assert_eq!(player.stalls, 0, "in the last moment");
        assert_eq!(player.receive(0, SECS(6), SECS(27)), Reception::Late { stalled: SECS(2), beyond: SECS(2) });
        assert_eq!((player.stalls, player.stall_max), (1, SECS(2)));
        player.receive(0, SECS(6), SECS(33));
        assert_eq!(player.stalls, 1, "it was used up at 27 s and six seconds");
        player.finish(SECS(44));
        assert_eq!((player.stalls, player.stall_max), (2, SECS(5)));
    }

    #[test]
    fn a_full_buffer_waits_until_a_segment_was_played() {
        let mut player = SegmentPlayer::new(1, SECS(0));
        for _ in 0..2 {
            assert_eq!(player.asks_at(0, SECS(12), SECS(1)), Some(SECS(1)));
            player.receive(0, SECS(6), SECS(1));
        }
        assert_eq!(player.asks_at(0, SECS(12), SECS(1)), Some(SECS(1)), "less than 12 s from now on");
        player.receive(0, SECS(6), SECS(1));
        assert_eq!(player.asks_at(0, SECS(12), SECS(2)), Some(SECS(7)));
        player.pause(SECS(3));
        assert_eq!(player.asks_at(0, SECS(12), SECS(20)), None, "nothing is played in a pause");
        player.resume(SECS(23));
        assert_eq!(player.asks_at(0, SECS(12), SECS(23)), Some(SECS(27)));
        assert!(player.plays(SECS(38)) && !player.plays(SECS(39)));
        player.receive(0, SECS(6), SECS(38));
        assert_eq!(player.stalls, 0);
    }

    #[test]
    fn sound_and_pictures_are_played_together() {
        let mut player = SegmentPlayer::new(2, SECS(0));
        assert_eq!(player.receive(1, SECS(6), SECS(1)), Reception::Ahead);
        assert_eq!(player.receive(0, SECS(6), SECS(2)), Reception::Begins { waited: SECS(2) });
        player.receive(0, SECS(6), SECS(3));
        player.receive(1, SECS(6), SECS(9));
        assert_eq!((player.stalls, player.stall_max), (1, SECS(1)));
    }

    #[test]
    fn a_seek_begins_anew() {
        let mut player = SegmentPlayer::new(1, SECS(0));
        player.receive(0, SECS(6), SECS(1));
        player.seek(SECS(2));
        assert_eq!((player.waits_since(), player.asks_at(0, SECS(6), SECS(2))), (Some(SECS(2)), Some(SECS(2))));
        assert_eq!(player.receive(0, SECS(6), SECS(5)), Reception::Begins { waited: SECS(3) });
        let late = |stalled, beyond| Reception::Late { stalled: SECS(stalled), beyond: SECS(beyond) };
        assert_eq!(player.receive(0, SECS(6), SECS(13)), late(2, 0), "five seconds of its start-up delay");
        assert_eq!(player.receive(0, SECS(6), SECS(25)), late(6, 1), "and the rest of it");
        player.finish(SECS(31));
        assert_eq!((player.stalls, player.waits_since()), (2, None));
    }
}
