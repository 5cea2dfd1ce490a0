//! Load of the links in the last ticks: best effort takes no more than the reserved rates leave.
//!
//! Promise: start bursts, catching up after a stall, and best effort never bring the load of a link in any span over its
//! capacity in that span and [`DEPTH_TICKS`] more; the bytes of a stream's rate in a tick are never held back. It is a
//! leaky bucket that is measured in time (GCRA, ITU-T I.371). Not here: the sum of promises (`schedule::admission`).

use units::{BitRate, LinkId, Nanos};

use super::Pacer;
use crate::context::PlaneContext;
use crate::port::Io;

/// A link that was idle may be given the bytes of this number of ticks. Follows: the longest time between two sends of a stream.
pub(super) const DEPTH_TICKS: u64 = 2;
/// A link that became narrower than the promises on it owes no more than this when it is widened again. Chosen.
const OWED_MAX: Nanos = Nanos::from_secs(1);

/// One link.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkLoad {
    /// The payload rate that it carries.
    rate: BitRate,
    /// The time until which it is busy with the bytes sent.
    busy_until: Nanos,
    /// Bytes of small reads that had left by it outside the plane.
    small_bytes: u64,
}

impl LinkLoad {
    /// A link that was idle.
    pub(super) const fn idle(rate: BitRate) -> Self {
        Self { rate, busy_until: Nanos::ZERO, small_bytes: 0 }
    }

    pub(super) const fn set_rate(&mut self, rate: BitRate) {
        self.rate = rate;
    }

    fn take(&mut self, bytes: u64, depth: Nanos, now: Nanos) {
        let busy = self.busy_until.max(now.saturating_sub(depth)).saturating_add(self.rate.time_for(bytes));
        self.busy_until = busy.min(now.saturating_add(OWED_MAX));
    }

    fn room(&self, depth: Nanos, kept: Nanos, now: Nanos) -> u64 {
        self.rate.bytes_in(now.saturating_sub(self.busy_until).min(depth).saturating_sub(kept))
    }
}

/// The longest time that a link may be given at once.
pub(super) const fn depth(tick: Nanos) -> Nanos {
    tick.saturating_mul(DEPTH_TICKS)
}

impl Pacer {
    /// Bytes that a link has room for now, with `kept` of its time left to others.
    pub(super) fn link_room<I: Io>(&mut self, link: LinkId, kept: Nanos, context: &PlaneContext<I>, now: Nanos) -> u64 {
        let depth = depth(context.config.tick);
        let small_bytes = context.gauges.links[usize::from(link.0)].small_bytes.get();
        let load = &mut self.links[usize::from(link.0)];
        let more = small_bytes - std::mem::replace(&mut load.small_bytes, small_bytes);
        if more > 0 {
            load.take(more, depth, now);
        }
        load.room(depth, kept, now)
    }

    /// A stream hands this number of bytes over.
    pub(super) fn link_takes<I: Io>(&mut self, slot: u32, bytes: u64, context: &PlaneContext<I>, now: Nanos) {
        let stream = &self.streams[slot as usize];
        let link = stream.link;
        if !stream.is_guaranteed {
            self.best_effort.sent_in_step(bytes);
        }
        self.links[usize::from(link.0)].take(bytes, depth(context.config.tick), now);
    }

    /// A socket did not take this number of them.
    pub(super) fn link_gets_back(&mut self, slot: u32, bytes: u64) {
        let link = self.streams[slot as usize].link;
        let load = &mut self.links[usize::from(link.0)];
        load.busy_until = load.busy_until.saturating_sub(load.rate.time_for(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;
    const RATE: BitRate = BitRate(8_000_000);
    const DEPTH: Nanos = Nanos::from_millis(100);

    #[test]
    fn a_link_is_given_its_rate_and_no_more() {
        let (mut load, mut sent) = (LinkLoad::idle(RATE), 0);
        for ms in 0..1000 {
            let at = MS(5000 + ms);
            let more = load.room(DEPTH, Nanos::ZERO, at);
            load.take(more, DEPTH, at);
            sent += more;
        }
        assert!((1_099_000..=1_100_000).contains(&sent), "a second, and what it had left before: {sent}");
    }

    #[test]
    fn overdue_bytes_become_a_debt_of_the_link() {
        let mut load = LinkLoad::idle(RATE);
        assert_eq!(load.room(DEPTH, MS(90), MS(5000)), 10_000);
        load.take(250_000, DEPTH, MS(5000));
        assert_eq!(load.room(DEPTH, Nanos::ZERO, MS(5150)), 0);
        assert_eq!(load.room(DEPTH, Nanos::ZERO, MS(5160)), 10_000);
        load.take(u64::MAX, DEPTH, MS(5160));
        assert_eq!(load.room(DEPTH, Nanos::ZERO, MS(6170)), 10_000, "no debt is for ever");
    }
}
