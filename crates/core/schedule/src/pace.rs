//! Pace of a constant-rate stream: the bytes that it may have sent by a tick, and the length of its ticks.
//!
//! Promise: exact over any span (derived from the stream's anchor, never accumulated); a stall is made up by at most
//! [`CATCH_UP`] times the rate, and only [`LAG_MAX`] of it: the rest is forgotten, so that no viewer gets an unbounded
//! burst; before the first byte nothing is owed. Not here: whether the bytes are in the buffers, whether the socket takes them.

use units::{BitRate, Nanos};

/// While behind, a tick may carry this many times its own bytes. Chosen.
pub const CATCH_UP: u64 = 2;
/// While the start burst lasts, the stream runs at this many times its rate. Chosen.
pub const BURST_FACTOR: u64 = 4;
/// A block waits for its first send, and its last one takes another. Follows.
const EDGES: u64 = 2;
/// A burst that leaves no faster than at the rate is over after this multiple of its own duration. Chosen.
const BURST_OVER: u64 = 2;

/// Time of sending a block that is in the buffers as a whole: as fast as a burst, in whole sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSending {
    /// In all.
    pub takes: Nanos,
    /// Of these, until the first send and for the last.
    pub edges: Nanos,
}

impl BlockSending {
    /// Of a block of this number of bytes in a session with this rate.
    #[must_use]
    pub fn of(rate: BitRate, bytes: u64, tick: Nanos) -> Self {
        let edges = Stride::of(rate, tick).span(tick).saturating_mul(EDGES);
        let fastest = BitRate(rate.0.saturating_mul(BURST_FACTOR));
        Self { takes: fastest.time_for(bytes).saturating_add(edges), edges }
    }
}
/// A client that did not read is not owed more than this. Chosen.
pub const LAG_MAX: Nanos = Nanos::from_secs(1);

/// With fewer bytes than this in a tick, a stream is fed every second tick: the cost of TCP is per packet, and a packet holds this
/// many bytes (decision 0010). Its bytes stay as even: J over 100 ms is 0.3 % at 2,000 streams of 2 Mbit/s
/// (docs/results/2026-11-25-vm).
const SEND_BYTES_MIN: u64 = 64 * 1024;

/// How often a stream is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stride {
    /// Every tick.
    Tick,
    /// Every second tick: low rates, where a tick's bytes are too few to be worth a send.
    TwoTicks,
}

impl Stride {
    /// How often a stream of this rate is fed.
    #[must_use]
    pub fn of(rate: BitRate, tick: Nanos) -> Self {
        if rate.bytes_in(tick) < SEND_BYTES_MIN { Self::TwoTicks } else { Self::Tick }
    }

    /// The time between two sends.
    #[must_use]
    pub const fn span(self, tick: Nanos) -> Nanos {
        match self {
            Self::Tick => tick,
            Self::TwoTicks => tick.saturating_mul(2),
        }
    }
}

/// The pace of one running stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    rate: BitRate,
    tick: Nanos,
    /// Bytes are counted from here…
    anchor: Nanos,
    /// …on top of these.
    base_bytes: u64,
    burst_bytes: u64,
}

impl Pace {
    /// The pace of a stream that has its first tick at `first_tick` (it carries one tick's bytes) and runs ahead by
    /// `burst_bytes` at [`BURST_FACTOR`] times the rate.
    #[must_use]
    pub fn new(rate: BitRate, tick: Nanos, first_tick: Nanos, burst_bytes: u64) -> Self {
        assert!(rate.0 > 0 && tick > Nanos::ZERO, "a paced stream has a rate");
        Self { rate, tick, anchor: first_tick.saturating_sub(tick), base_bytes: 0, burst_bytes }
    }

    /// The same of a stream that has sent this number of bytes before.
    #[must_use]
    pub const fn after(self, base_bytes: u64) -> Self {
        Self { base_bytes, ..self }
    }

    /// The same with its burst ended at `now`: the rate continues from `sent_bytes` on, and its promise stays, for the reads under way
    /// are due by that.
    #[must_use]
    pub fn without_burst(self, sent_bytes: u64, now: Nanos) -> Self {
        let ahead = sent_bytes.saturating_sub(self.promised_bytes(now));
        Self { burst_bytes: ahead.min(self.burst_bytes), ..self }
    }

    /// Bytes that should have been sent when the tick at `at` is over.
    #[must_use]
    pub fn due_bytes(&self, at: Nanos) -> u64 {
        let elapsed = at.saturating_sub(self.anchor);
        let steady = self.rate.bytes_in(elapsed);
        self.base_bytes + steady + self.burst_bytes.min(steady.saturating_mul(BURST_FACTOR - 1))
    }

    /// Bytes its rate alone promises by the end of the tick at `at`: being behind the burst is not being late.
    #[must_use]
    pub fn promised_bytes(&self, at: Nanos) -> u64 {
        self.base_bytes + self.rate.bytes_in(at.saturating_sub(self.anchor))
    }

    /// Bytes the tick at `at` may send when `sent_bytes` went before; forgets the debt beyond [`LAG_MAX`].
    pub fn allowance(&mut self, at: Nanos, sent_bytes: u64) -> u64 {
        if sent_bytes == self.base_bytes {
            // The clock runs from the first tick that sends: if the loop was late for it, or the client did not take
            // the head at once, that is not made up for at twice the rate.
            self.anchor = self.anchor.max(at.saturating_sub(self.tick));
        }
        let quota = self.quota();
        let lag_max = self.rate.bytes_in(LAG_MAX) + quota;
        // Only bytes that the rate promises can lag: a burst that fits into one long tick is still sent, and not
        // forgotten.
        let lag = self.promised_bytes(at).saturating_sub(sent_bytes);
        if lag > lag_max {
            let forgiven = self.rate.time_for(lag - lag_max);
            self.anchor = self.anchor.saturating_add(forgiven);
        }
        debug_assert!(self.due_bytes(at) >= self.promised_bytes(at), "a burst is due ahead of the rate");
        let factor = if self.bursting(at) { BURST_FACTOR } else { CATCH_UP };
        self.due_bytes(at).saturating_sub(sent_bytes).min(quota.saturating_mul(factor) + 1)
    }

    /// Bytes that its rate promises in a tick, rounded down.
    #[must_use]
    pub fn quota(&self) -> u64 {
        self.rate.bytes_in(self.tick)
    }

    /// True while the start burst lasts.
    #[must_use]
    pub fn bursting(&self, at: Nanos) -> bool {
        self.burst_bytes > 0 && {
            let steady = self.rate.bytes_in(at.saturating_sub(self.anchor));
            self.burst_bytes > steady.saturating_mul(BURST_FACTOR - 1)
        }
    }

    /// True once the start burst is behind the stream, which has sent `sent_bytes` before the tick at `at`: the burst's
    /// time is over and its bytes are out, and nothing is left to be made up. If the burst leaves no faster than at the
    /// rate, the wait for that is over after twice the time that it lasts.
    #[must_use]
    pub fn is_steady(&self, at: Nanos, sent_bytes: u64) -> bool {
        let last_tick = at.saturating_sub(self.tick);
        let (out, level) = (sent_bytes >= self.due_bytes(last_tick), sent_bytes >= self.promised_bytes(last_tick));
        let lasted = self.rate.bytes_in(at.saturating_sub(self.anchor)) >= self.burst_bytes.saturating_mul(BURST_OVER);
        !self.bursting(last_tick) && level && (out || lasted)
    }

    /// When byte number `bytes` (counted from the start) is promised: by the rate alone. The burst is due sooner, but
    /// is not promised: disks with several bursts at that pace read a chunk here and a chunk there, and
    /// no other stream got anything for ten seconds.
    #[must_use]
    pub fn promised_at(&self, bytes: u64) -> Nanos {
        self.anchor.saturating_add(self.rate.time_for(bytes.saturating_sub(self.base_bytes)))
    }

    /// The time between two of its ticks.
    #[must_use]
    pub const fn tick(&self) -> Nanos {
        self.tick
    }

    /// The rate.
    #[must_use]
    pub const fn rate(&self) -> BitRate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_that_ends_leaves_the_bytes_ahead_and_the_rate() {
        let burst = Pace::new(RATE, TICK, Nanos::ZERO, 4_400_000);
        let (now, later) = (Nanos::from_secs(1), Nanos::from_secs(3));
        let sent = burst.due_bytes(now);
        let pace = burst.without_burst(sent, now);
        assert_eq!((pace.due_bytes(now), pace.due_bytes(later)), (sent, sent + 2_200_000));
        assert_eq!(pace.promised_at(sent + 1), burst.promised_at(sent + 1), "reads under way are due as before");
        let behind = burst.without_burst(1_000, now);
        assert_eq!(behind.due_bytes(now), burst.promised_bytes(now), "what it is behind is still promised");
    }

    const RATE: BitRate = BitRate(8_800_000);
    const TICK: Nanos = Nanos::from_millis(50);

    #[test]
    fn the_pace_after_a_burst_is_exactly_the_rate() {
        for (burst_bytes, taken_at_once) in [(0, true), (200_000, true), (4_400_000, true), (4_400_000, false)] {
            let mut pace = Pace::new(RATE, TICK, Nanos::from_secs(1), burst_bytes);
            let (mut sent, mut window) = (0, None);
            for n in 0..400 {
                let at = Nanos(Nanos::from_secs(1).0 + n * TICK.0);
                if window.is_none() && pace.is_steady(at, sent) {
                    window = Some((at, sent));
                }
                // A client or a disk that is slower than the burst, but not than the rate.
                let slow = sent + RATE.bytes_in(TICK) * 2;
                let allowed = pace.allowance(at, sent);
                sent = if taken_at_once { sent + allowed } else { (sent + allowed).min(slow) };
                if let Some((from, before)) = window
                    && at.saturating_sub(from).saturating_add(TICK) == Nanos::from_secs(1)
                {
                    assert!((sent - before).abs_diff(1_100_000) <= 1, "{burst_bytes}: {}", sent - before);
                    window = Some((at.saturating_add(TICK), sent));
                }
            }
            assert!(window.is_some(), "{burst_bytes}: measured at last");
        }
        // A client that takes only the rate is measured too.
        let mut pace = Pace::new(RATE, TICK, Nanos::from_secs(1), 4_400_000);
        let mut sent = 0;
        let steady = (0..400).find(|n| {
            let at = Nanos(Nanos::from_secs(1).0 + n * TICK.0);
            let steady = pace.is_steady(at, sent);
            sent += pace.allowance(at, sent).min(RATE.bytes_in(TICK));
            steady
        });
        assert_eq!(steady, Some(159), "after twice the four seconds that the burst is for");
    }

    #[test]
    fn every_tick_carries_its_share() {
        let mut pace = Pace::new(RATE, TICK, Nanos::from_secs(1), 0);
        let mut sent = 0;
        for n in 0..1000 {
            let bytes = pace.allowance(Nanos(Nanos::from_secs(1).0 + n * TICK.0), sent);
            assert!((55_000..=55_001).contains(&bytes), "tick {n} carries {bytes}");
            sent += bytes;
        }
        assert_eq!(sent, 55_000_000);
    }

    #[test]
    fn a_stall_is_made_up_slowly_and_not_wholly() {
        let mut pace = Pace::new(RATE, TICK, TICK, 0);
        let mut sent = pace.allowance(TICK, 0);
        let late = Nanos::from_secs(60);
        let bytes = pace.allowance(late, sent);
        assert_eq!(bytes, 110_001, "twice a tick's bytes at most");
        sent += bytes;
        let mut ticks = 0;
        for n in 1..200 {
            let more = pace.allowance(Nanos(late.0 + n * TICK.0), sent);
            sent += more;
            ticks += u64::from(more > 60_000);
        }
        assert!((15..=25).contains(&ticks), "about one second is made up, at double rate: {ticks}");
    }

    #[test]
    fn the_clock_begins_with_the_tick_that_sends() {
        let mut pace = Pace::new(RATE, TICK, Nanos::from_secs(1), 0);
        let late = Nanos::from_millis(1200);
        let first = pace.allowance(late, 0);
        assert_eq!(first, 55_000, "one tick's bytes, though four ticks passed");
        assert_eq!(pace.allowance(late + TICK, first), 55_000);
    }

    #[test]
    fn the_burst_is_four_times_as_fast_and_ends() {
        let start = Nanos::from_secs(9);
        let mut pace = Pace::new(RATE, TICK, start, 3_300_000);
        let mut sent = 0;
        for n in 0..20 {
            sent += pace.allowance(Nanos(start.0 + n * TICK.0), sent);
        }
        assert!((4_280_000..=4_400_020).contains(&sent), "one second at four times the rate: {sent}");
        for n in 20..100 {
            sent += pace.allowance(Nanos(start.0 + n * TICK.0), sent);
        }
        assert_eq!(sent, 5 * 1_100_000 + 3_300_000);
        assert!(!pace.bursting(start + Nanos::from_secs(5)));
    }

    /// Else the anchor was moved by the burst, and the stream ran half a second late.
    #[test]
    fn a_burst_within_one_long_tick_is_not_forgiven_as_a_lag() {
        let tick = Nanos::from_millis(500);
        let mut pace = Pace::new(BitRate(400_000), tick, Nanos::from_secs(1), 74_539);
        let first = pace.allowance(Nanos::from_secs(1), 0);
        assert_eq!(first, 50_001, "twice a tick's bytes");
        assert_eq!(pace.allowance(Nanos::from_millis(1500), first), 50_001, "and again: the burst is still owed");
    }

    #[test]
    fn promised_at_is_the_inverse_of_promised_bytes() {
        let pace = Pace::new(RATE, TICK, Nanos::from_secs(3), 1_000_000);
        for bytes in [1, 55_000, 900_000, 1_333_333, 1_500_000, 9_000_000] {
            let promised = pace.promised_bytes(pace.promised_at(bytes));
            assert!(promised + 8 >= bytes && promised <= bytes + 8, "{bytes}: {promised}");
        }
    }
}
