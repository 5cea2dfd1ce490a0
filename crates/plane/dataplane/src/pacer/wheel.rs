//! The wheel of ticks: the steps in which each stream is fed.
//!
//! A tick is cut into [`STEPS`] steps and the wheel has two ticks' worth; a stream has every place that is its
//! phase, one or two ticks apart. Phases spread the streams over the steps, so that the wire sees no burst; each place
//! that is used costs a wake-up, so few streams use few places.
//!
//! Promise: each stream is fed exactly once per its own tick, at an absolute time. Not here: feeding (`feed`).

use schedule::pace::Stride;
use units::limits;

/// Steps in a tick. Chosen: 6 ms of a tick of 50 ms.
pub(crate) const STEPS: usize = 8;
/// Places on the wheel.
pub(crate) const PLACES: usize = 2 * STEPS;
/// Places used by few streams: each is a wake-up of the plane and of its receivers, which costs as much as many sends.
/// Decision 0010 has the figures of 2, 4 and 10.
const PLACES_MIN: usize = 4;
/// Streams in a place before twice as many places are used: the last of a place waits for the sends of all others, and
/// how long that takes varies, which its viewer sees as jitter.
const CROWD: usize = 100;

/// Which places of the wheel a stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TickSlot {
    /// Its first place.
    phase: u8,
    /// Steps between its places: one tick's or two ticks' worth.
    stride: u8,
}

/// The wheel.
#[derive(Debug)]
pub(crate) struct Wheel {
    places: [Vec<u32>; PLACES],
}

impl Wheel {
    /// An empty wheel with room for every stream in every place.
    pub(crate) fn new() -> Self {
        Self { places: std::array::from_fn(|_| Vec::with_capacity(limits::STREAMS_MAX)) }
    }

    /// Adds a stream that is fed every tick, or every second tick (`slow`): in the emptiest of the places that come
    /// first after `step`.
    pub(crate) fn place(&mut self, stream: u32, stride: Stride, step: u64) -> TickSlot {
        let stride = match stride {
            Stride::Tick => STEPS,
            Stride::TwoTicks => PLACES,
        };
        let next = usize::try_from((step + 1) % PLACES as u64).expect("below PLACES");
        let apart = PLACES / self.places_used();
        let places = (next..next + stride).map(|place| place % PLACES).filter(|place| place.is_multiple_of(apart));
        let phase = places.min_by_key(|&place| self.places[place].len()).expect("not empty") % stride;
        for place in (phase..PLACES).step_by(stride) {
            debug_assert!(!self.places[place].contains(&stream), "a stream is fed once in a step");
            self.places[place].push(stream);
        }
        let small = |value: usize| u8::try_from(value).expect("a wheel is small");
        TickSlot { phase: small(phase), stride: small(stride) }
    }

    /// How many places streams that come now may have.
    fn places_used(&self) -> usize {
        let taken: usize = self.places.iter().map(Vec::len).sum();
        let mut places = PLACES_MIN;
        while places < PLACES && taken >= places * CROWD {
            places *= 2;
        }
        places
    }

    /// Takes a stream off.
    pub(crate) fn leave(&mut self, stream: u32, tick_slot: TickSlot) {
        for place in (usize::from(tick_slot.phase)..PLACES).step_by(usize::from(tick_slot.stride)) {
            let streams = &mut self.places[place];
            if let Some(at) = streams.iter().position(|&other| other == stream) {
                streams.swap_remove(at);
            }
        }
    }

    /// The `nth` stream fed in `step`.
    pub(crate) fn at(&self, step: u64, nth: usize) -> Option<u32> {
        self.places[usize::try_from(step % PLACES as u64).expect("below PLACES")].get(nth).copied()
    }

    /// True if any stream is fed in `step`.
    pub(crate) fn is_used(&self, step: u64) -> bool {
        self.at(step, 0).is_some()
    }

    /// The first step from `step` on in which a stream of these places is fed.
    pub(crate) fn next_step(tick_slot: TickSlot, step: u64) -> u64 {
        let (stride, phase) = (u64::from(tick_slot.stride), u64::from(tick_slot.phase));
        step + (phase + stride - step % stride) % stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(wheel: &Wheel, step: u64) -> impl Iterator<Item = u32> {
        (0..).map_while(move |nth| wheel.at(step, nth))
    }

    #[test]
    fn phases_spread_and_every_stream_has_its_ticks() {
        let mut wheel = Wheel::new();
        let tick_slots: Vec<TickSlot> = (0..100).map(|n| wheel.place(n, Stride::Tick, 7)).collect();
        let used: Vec<usize> = (0..PLACES as u64).map(|step| fed(&wheel, step).count()).filter(|&n| n > 0).collect();
        assert_eq!(used, [50; PLACES_MIN]);
        assert_eq!((0..PLACES as u64).filter(|&step| fed(&wheel, step).any(|s| s == 42)).count(), 2);
        let next = Wheel::next_step(tick_slots[42], 1000);
        assert!(wheel.is_used(next) && fed(&wheel, next).any(|s| s == 42));
        for (n, tick_slot) in (0..).zip(tick_slots) {
            wheel.leave(n, tick_slot);
        }
        assert!((0..PLACES as u64).all(|step| !wheel.is_used(step)));
    }

    #[test]
    fn a_crowd_uses_more_places_and_these_evenly() {
        let mut wheel = Wheel::new();
        for n in 0..2000 {
            wheel.place(n, Stride::TwoTicks, u64::from(n) * 5);
            let fullest = (0..PLACES as u64).map(|step| fed(&wheel, step).count()).max();
            assert!(fullest <= Some(CROWD.max(n as usize / PLACES + 1)), "{fullest:?} of {n}");
        }
        assert!((0..PLACES as u64).all(|step| fed(&wheel, step).count() == 125));
    }
}
