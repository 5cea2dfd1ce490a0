//! The account of a session: the bytes of its contents against the bytes that its rate promised over all of them.
//!
//! The clock is that of decision 0060, seen from the client: playback begins when the first content is whole, and each further content is
//! due its length at the rate after the one before it, or after its request, if that was later. A content that comes later lets
//! playback stand still, and moves the clock. Only contents that the plane itself sent late count: a client that reads slowly breaks no
//! promise of the plane.
//!
//! Promise: pure, and of constant size. Not here: which reads belong together (`session`).

use units::Nanos;

/// A session may fall behind its clock by the time that its first content took, and by this time at least, before that is logged: no
/// player begins with less in its buffer. Chosen.
const LAG_LOGGED_MIN: Nanos = Nanos::from_secs(1);

/// A content that was sent whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeContent {
    /// When it was requested.
    pub requested_at: Nanos,
    /// Its length at the session's rate.
    pub lasts: Nanos,
    /// Whether the plane had something of it too late.
    pub was_late: bool,
}

/// The deliveries of a session against its promised rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionAccount {
    /// Contents that were sent whole.
    pub contents: u64,
    /// By how much the last of them was late.
    pub lag: Nanos,
    /// Sum of the lateness of all of them.
    late: Nanos,
    /// Duration of all of them at the rate.
    promised: Nanos,
    /// When the last content was due; zero before the first.
    clock: Nanos,
    /// Until then playback has something of the last content.
    plays_until: Nanos,
    /// Time that the first content took.
    start_up: Nanos,
}

impl SessionAccount {
    /// Enters a content that was whole at `now`; true if the session has just fallen behind by more than its start-up delay.
    pub fn enter(&mut self, content: &WholeContent, now: Nanos) -> bool {
        self.contents += 1;
        self.promised = self.promised.saturating_add(content.lasts);
        if self.contents == 1 {
            (self.clock, self.start_up) = (now, now.saturating_sub(content.requested_at));
            self.plays_until = now.saturating_add(content.lasts);
            return false;
        }
        let due = self.clock.max(content.requested_at).saturating_add(content.lasts);
        let (lag, before) = (now.saturating_sub(due), self.lag);
        self.lag = if content.was_late { lag } else { Nanos::ZERO };
        self.late = self.late.saturating_add(self.lag);
        self.clock = due.saturating_add(lag);
        self.plays_until = self.clock.saturating_add(content.lasts);
        let logged_from = self.start_up.max(LAG_LOGGED_MIN);
        before <= logged_from && self.lag > logged_from
    }

    /// The media that its contents hold, at the session's rate.
    #[must_use]
    pub const fn promised(&self) -> Nanos {
        self.promised
    }

    /// Until when a player that takes its rate has something to play.
    #[must_use]
    pub const fn plays_until(&self) -> Nanos {
        self.plays_until
    }

    /// J of the session: the time by which contents were late, in percent of the time that they last; none before the second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn j_percent(&self) -> Option<f64> {
        (self.contents > 1).then(|| self.late.0 as f64 * 100.0 / self.promised.0.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Nanos = Nanos::from_secs;

    fn segment(asked: u64, was_late: bool) -> WholeContent {
        WholeContent { requested_at: S(asked), lasts: S(6), was_late }
    }

    #[test]
    fn a_content_is_due_its_length_after_the_last_or_its_request() {
        let mut account = SessionAccount::default();
        assert!(!account.enter(&segment(10, true), S(12)), "playback begins with the first");
        assert!(!account.enter(&segment(12, false), S(13)), "due at 18");
        assert!(!account.enter(&segment(13, true), S(24)), "due at 24");
        assert_eq!((account.lag, account.j_percent()), (Nanos::ZERO, Some(0.0)));
        assert!(!account.enter(&segment(24, true), S(32)), "due at 30: as long as its start-up");
        assert_eq!(account.lag, S(2));
        assert!(account.enter(&segment(32, true), S(41)), "due at 38");
        assert!(!account.enter(&segment(41, true), S(50)), "it is told once");
        assert_eq!(account.j_percent(), Some(8.0 * 100.0 / 36.0));
        assert!(!account.enter(&segment(100, false), S(105)) && account.lag == Nanos::ZERO, "asked for late");
    }

    #[test]
    fn a_client_that_reads_slowly_is_not_behind() {
        let mut account = SessionAccount::default();
        for nth in 0..5 {
            assert!(!account.enter(&segment(nth * 20, false), S(nth * 20 + 20)));
        }
        assert_eq!((account.lag, account.j_percent()), (Nanos::ZERO, Some(0.0)));
    }
}
