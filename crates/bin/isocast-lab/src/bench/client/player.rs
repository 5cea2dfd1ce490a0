//! A modelled player: it starts when it holds some seconds of media and plays at the stream's rate. When it runs dry, it waits
//! until it holds enough again; each such wait is a stall.
//!
//! Promise: exact to the arrivals reported to it; pure, `now` is given. Not here: decoding, or a viewer's tolerance of stalls.

use units::{BitRate, Nanos};

/// State of one player, with its stalls.
#[derive(Debug, Clone)]
pub(crate) struct Player {
    rate: BitRate,
    /// Bytes that it must hold before the first picture.
    start: u64,
    /// Bytes that it must hold to continue after a stall.
    rebuffer: u64,
    requested: Nanos,
    received: u64,
    state: PlayerState,
    stalls: Stalls,
}

/// Stalls of one player.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stalls {
    /// Number of stalls.
    pub count: u32,
    /// Total time of the stalls, without the wait for the first picture.
    pub time: Nanos,
    /// Time from the request to the first picture; `None` without a picture.
    pub startup: Option<Nanos>,
}

#[derive(Debug, Clone, Copy)]
enum PlayerState {
    /// Waits for the first picture; plays when `until` bytes are received.
    Starting { until: u64 },
    /// Plays; had played `played` bytes at `since`.
    Playing { since: Nanos, played: u64 },
    /// Ran dry at `since`, with all received bytes played; continues when `until` bytes are received.
    Stalled { since: Nanos, until: u64 },
}

impl Player {
    /// A player that requested its stream at `requested`, starts with `start` of media and continues after a stall with
    /// `rebuffer` of it.
    pub(crate) fn new(rate: BitRate, start: Nanos, rebuffer: Nanos, requested: Nanos) -> Self {
        Self {
            rate,
            start: rate.bytes_in(start).max(1),
            rebuffer: rate.bytes_in(rebuffer).max(1),
            requested,
            received: 0,
            state: PlayerState::Starting { until: rate.bytes_in(start).max(1) },
            stalls: Stalls::default(),
        }
    }

    /// Notes that `bytes` arrived at `now`, which never decreases.
    pub(crate) fn arrived(&mut self, now: Nanos, bytes: u64) {
        self.advance(now);
        self.received += bytes;
        match self.state {
            PlayerState::Starting { until } if self.received >= until => {
                self.stalls.startup.get_or_insert(now.saturating_sub(self.requested));
                self.state = PlayerState::Playing { since: now, played: until - self.start };
            }
            PlayerState::Stalled { since, until } if self.received >= until => {
                self.stalls.time += now.saturating_sub(since);
                // The player has played the bytes from before the stall, and holds those received during it.
                let played = until - self.rebuffer;
                self.state = PlayerState::Playing { since: now, played };
            }
            _ => {}
        }
    }

    /// Notes that no further byte has arrived up to `now`.
    pub(crate) fn looked(&mut self, now: Nanos) {
        self.advance(now);
    }

    /// Notes that the viewer paused it for `span`, up to now: its clock moves by `span`.
    pub(crate) fn paused(&mut self, span: Nanos) {
        self.requested = self.requested.saturating_add(span);
        match &mut self.state {
            PlayerState::Starting { .. } => {}
            PlayerState::Playing { since, .. } | PlayerState::Stalled { since, .. } => {
                *since = since.saturating_add(span)
            }
        }
    }

    /// Notes a seek of the viewer at `now`: the player drops the bytes it holds, and waits for a first picture again.
    pub(crate) fn sought(&mut self, now: Nanos) {
        self.advance(now);
        if let PlayerState::Stalled { since, .. } = self.state {
            self.stalls.time += now.saturating_sub(since);
        }
        self.state = PlayerState::Starting { until: self.received + self.start };
    }

    /// True if it has run dry by the last call.
    pub(crate) fn has_stalled(&self) -> bool {
        self.stalls.count > 0
    }

    /// The stalls up to `now`, including a present one.
    pub(crate) fn finish(mut self, now: Nanos) -> Stalls {
        self.advance(now);
        if let PlayerState::Stalled { since, .. } = self.state {
            self.stalls.time += now.saturating_sub(since);
        }
        self.stalls
    }

    /// Plays up to `now` with the bytes received.
    fn advance(&mut self, now: Nanos) {
        let PlayerState::Playing { since, played } = self.state else { return };
        if self.rate.bytes_in(now.saturating_sub(since)) > self.received - played {
            let dry = since.saturating_add(self.rate.time_for(self.received - played));
            self.stalls.count += 1;
            self.state = PlayerState::Stalled { since: dry, until: self.received + self.rebuffer };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BitRate = BitRate(8_000_000); // 1,000,000 bytes a second: figures below are plain
    const STEP: Nanos = Nanos::from_millis(1);

    /// Plays `sent` for `seconds`, looked at every millisecond; starts with 2 s, continues with 1 s.
    fn play(seconds: u64, sent: impl Fn(Nanos) -> u64) -> Stalls {
        let mut player = Player::new(RATE, Nanos::from_secs(2), Nanos::from_secs(1), Nanos::ZERO);
        let mut before = 0;
        for n in 1..=seconds * 1000 {
            let now = STEP.saturating_mul(n);
            let total = sent(now);
            if total > before {
                player.arrived(now, total - before);
            }
            before = total;
        }
        player.finish(Nanos::from_secs(seconds))
    }

    #[test]
    fn a_perfect_sender_never_stalls() {
        let stalls = play(600, |t| RATE.bytes_in(t));
        assert_eq!(stalls, Stalls { count: 0, time: Nanos::ZERO, startup: Some(Nanos::from_secs(2)) });
    }

    #[test]
    fn eighty_percent_of_the_rate_stalls_as_arithmetic_says() {
        // 2 s of media take 2.5 s to come. It then drains 1 − 0.8 a second: dry after 2 / 0.2 = 10 s. One second of
        // media takes 1.25 s to come (the stall) and lasts 1 / 0.2 = 5 s. So stalls at 12.5 s and every 6.25 s.
        let stalls = play(100, |t| RATE.bytes_in(t) * 8 / 10);
        // At exactly 100 s the fifteenth is about to begin: either side of the tie is right.
        assert!(stalls.count == 14 || stalls.count == 15, "{stalls:?}");
        assert!((stalls.time.as_secs_f64() - 14.0 * 1.25).abs() < 0.15, "{stalls:?}");
        assert_eq!(stalls.startup, Some(Nanos::from_millis(2500)));
    }

    #[test]
    fn a_gap_shorter_than_the_buffer_is_forgiven_and_a_longer_one_is_not() {
        let gap = |length: u64| {
            move |t: Nanos| {
                let (from, to) = (Nanos::from_secs(10), Nanos(10_000_000_000 + length));
                RATE.bytes_in(Nanos(t.0.min(from.0))) + RATE.bytes_in(t.saturating_sub(to))
            }
        };
        assert_eq!(play(60, gap(1_990_000_000)).count, 0);
        // Dry at 12 s (10 s received, played from 2 s on); bytes come again at 15 s, one second of them at 16 s.
        let stalls = play(60, gap(5_000_000_000));
        assert_eq!(stalls.count, 1);
        assert!((stalls.time.as_secs_f64() - 4.0).abs() < 0.02, "{stalls:?}");
    }

    #[test]
    fn a_square_wave_within_the_buffer_plays_through() {
        // One second at twice the rate, one second of silence.
        let wave = |t: Nanos| {
            let (whole, part) = (t.0 / 2_000_000_000, t.0 % 2_000_000_000);
            whole * 2_000_000 + 2 * RATE.bytes_in(Nanos(part.min(1_000_000_000)))
        };
        assert_eq!(play(120, wave).count, 0);
    }

    #[test]
    fn a_square_wave_longer_than_the_buffer_stalls_once_a_period() {
        // Eight seconds at twice the rate, eight of silence. The player starts at 1 s with 2 s in hand; at 8 s it holds
        // 16 − 7 = 9 s and plays on until 17 s: by then new bytes come from 16 s on, so nothing stalls.
        let wave = |half: u64| {
            move |t: Nanos| {
                let period = 2 * half * 1_000_000_000;
                let (whole, part) = (t.0 / period, t.0 % period);
                whole * 2 * half * 1_000_000 + 2 * RATE.bytes_in(Nanos(part.min(half * 1_000_000_000)))
            }
        };
        assert_eq!(play(160, wave(8)).count, 0);
        // The same wave, silence first: 16 s of media are never ahead of the player by more than it needs.
        let late = |t: Nanos| wave(8)(t.saturating_sub(Nanos::from_secs(8)));
        assert_eq!(play(160, late).count, 0);
        // At 90 % of the rate each period of 16 s brings 14.4 s of media: it runs dry in every silence after the
        // first cushion (2 s + 6 s − 1.6 s a period) is gone.
        let short = |t: Nanos| wave(8)(t) * 9 / 10;
        let stalls = play(160, short);
        assert!((5..=10).contains(&stalls.count), "{stalls:?}");
    }

    #[test]
    fn nothing_received_is_no_picture() {
        assert_eq!(play(10, |_| 0), Stalls::default());
    }

    #[test]
    fn a_pause_shifts_the_clock_and_keeps_the_player_buffer() {
        let (s, ms) = (Nanos::from_secs, Nanos::from_millis);
        let mut player = Player::new(RATE, s(2), s(1), Nanos::ZERO);
        player.arrived(s(2), 2_000_000);
        // Paused from 3 s to 23 s, with a second in hand: it lasts until 24 s.
        player.looked(s(3));
        player.paused(s(20));
        player.looked(ms(23_999));
        assert!(!player.has_stalled());
        // It is dry at 24 s, is paused from 25 s to 35 s, and continues at 36 s: two seconds of a stall.
        player.looked(s(25));
        assert!(player.has_stalled());
        player.paused(s(10));
        player.arrived(s(36), 1_000_000);
        let stalls = player.finish(ms(36_500));
        assert_eq!(stalls, Stalls { count: 1, time: s(2), startup: Some(s(2)) });
    }

    #[test]
    fn a_pause_before_the_first_picture_is_no_wait_for_it() {
        let s = Nanos::from_secs;
        let mut player = Player::new(RATE, s(2), s(1), s(10));
        player.arrived(s(11), 1_000_000);
        player.paused(s(20));
        player.arrived(s(32), 1_000_000);
        assert_eq!(player.finish(s(33)).startup, Some(s(2)));
    }

    #[test]
    fn after_a_seek_it_waits_for_a_picture_and_that_is_no_stall() {
        let s = Nanos::from_secs;
        let mut player = Player::new(RATE, s(2), s(1), Nanos::ZERO);
        player.arrived(s(2), 5_000_000);
        // Five seconds are in hand at 2 s; after the seek at 3 s none of them is.
        player.sought(s(3));
        player.looked(s(20));
        assert!(!player.has_stalled());
        player.arrived(s(20), 2_000_000);
        player.looked(s(22));
        assert!(!player.has_stalled());
        // Dry at 22 s; a stall that lasts ends with the next seek.
        player.looked(s(25));
        player.sought(s(26));
        assert_eq!(player.finish(s(60)), Stalls { count: 1, time: s(4), startup: Some(s(2)) });
    }
}
