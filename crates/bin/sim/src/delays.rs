//! Delays of the plane's thread, which should have run: a fault of the world, not of the plane.
//!
//! Streams make up for a delay at up to twice their rates, as far as their link has unpromised room. On a link that is promised
//! whole there is none: all of them stay late by the delay until one ends. Not here: how long the thread takes to wake otherwise, which
//! is part of every run.

use units::{BitRate, Nanos};

use crate::load::DELAY_RECOVERY;

/// One delay.
#[derive(Debug, Clone, Copy)]
struct PlaneDelay {
    from: Nanos,
    to: Nanos,
    /// Bytes promised in that time for which the link has had no room since.
    owed_bytes: u64,
}

/// All delays so far, in order.
#[derive(Debug, Default)]
pub(crate) struct PlaneDelays(Vec<PlaneDelay>);

impl PlaneDelays {
    /// The thread does not run between these moments, in which streams are promised `promised` in all.
    pub(crate) fn add(&mut self, from: Nanos, to: Nanos, promised: BitRate) {
        self.0.push(PlaneDelay { from, to, owed_bytes: promised.bytes_in(to.saturating_sub(from)) });
    }

    /// A start burst of this number of bytes takes room that streams need to make up for a delay.
    pub(crate) fn give_way(&mut self, burst_bytes: u64) {
        let owed = self.0.iter_mut().find(|delay| delay.owed_bytes > 0);
        owed.into_iter().for_each(|delay| delay.owed_bytes += burst_bytes);
    }

    /// The link has had room for this number of unpromised bytes.
    pub(crate) fn make_up(&mut self, mut bytes: u64) {
        for delay in &mut self.0 {
            let made_up = bytes.min(delay.owed_bytes);
            (delay.owed_bytes, bytes) = (delay.owed_bytes - made_up, bytes - made_up);
        }
    }

    /// For how long the thread did not run between these moments.
    pub(crate) fn between(&self, from: Nanos, to: Nanos) -> Nanos {
        let last = self.0.iter().rev().take_while(|delay| delay.to > from);
        last.map(|delay| delay.overlap(from, to)).fold(Nanos::ZERO, Nanos::saturating_add)
    }

    /// The same, of delays that streams may not have made up for by `now`.
    pub(crate) fn unrecovered(&self, from: Nanos, now: Nanos) -> Nanos {
        let recovered = from.max(now.saturating_sub(DELAY_RECOVERY));
        let since = |delay: &PlaneDelay| if delay.owed_bytes > 0 { from } else { recovered };
        self.0.iter().map(|delay| delay.overlap(since(delay), now)).fold(Nanos::ZERO, Nanos::saturating_add)
    }
}

impl PlaneDelay {
    fn overlap(&self, from: Nanos, to: Nanos) -> Nanos {
        to.min(self.to).saturating_sub(from.max(self.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_between_two_moments_add_up() {
        let mut delays = PlaneDelays::default();
        delays.add(Nanos(10), Nanos(20), BitRate(0));
        delays.add(Nanos(30), Nanos(35), BitRate(0));
        for (from, to, sum) in [(0, 10, 0), (0, 15, 5), (0, 100, 15), (12, 32, 10), (20, 30, 0), (34, 100, 1)] {
            assert_eq!(delays.between(Nanos(from), Nanos(to)), Nanos(sum), "{from}..{to}");
        }
    }

    #[test]
    fn a_delay_excuses_until_the_link_had_room_to_make_up_for_it() {
        let (ms, mut delays) = (Nanos::from_millis, PlaneDelays::default());
        delays.add(ms(1000), ms(1200), BitRate(8_000_000));
        assert_eq!(delays.unrecovered(ms(1100), ms(9000)), ms(100), "a link without room");
        delays.make_up(199_999);
        assert_eq!(delays.unrecovered(ms(1100), ms(9000)), ms(100));
        delays.give_way(5);
        delays.make_up(5);
        assert_eq!(delays.unrecovered(ms(1100), ms(9000)), ms(100), "another stream's burst had that room");
        delays.make_up(1);
        assert_eq!(delays.unrecovered(ms(0), ms(1200).saturating_add(DELAY_RECOVERY)), ms(0));
        assert_eq!(delays.unrecovered(ms(0), ms(1150).saturating_add(DELAY_RECOVERY)), ms(50), "not long ago");
    }
}
