//! The order in which passwords are verified: one at a time, those of the networks first that have tried least.
//!
//! Promise: guessing keeps no other network's first login out: each try, also a refused one, moves the next ones of its
//! network back, and counts in part against the networks around it (a /56 and a /48 of IPv6, a /24 and a /16 of IPv4). Memory is
//! bounded however many networks try. Not here: the verification (`logins`).

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::lock::lock;
use crate::shares::network;

/// Verifications that wait at once.
pub(crate) const WAITING_MAX: usize = 512;
/// Counters of tries. Networks share them by two keyed hashes, so that hardly one has both in common with a network that guesses.
const COUNTERS: usize = 32 * 1024;
/// Half of the tries are forgotten after this time.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// Verifications that run or wait.
#[derive(Debug)]
pub(crate) struct LoginQueue(Mutex<QueueState>);

#[derive(Debug)]
struct QueueState {
    running: bool,
    arrivals: u64,
    waiting: Vec<WaitingLogin>,
    tries: Tries,
}

#[derive(Debug)]
struct WaitingLogin {
    /// Those of its network before it.
    tries: u32,
    arrival: u64,
    turn: oneshot::Sender<LoginTurn>,
}

/// The right to verify a password. The next one has it when this is dropped.
#[derive(Debug)]
pub(crate) struct LoginTurn(Arc<LoginQueue>);

impl Default for LoginQueue {
    fn default() -> Self {
        Self(Mutex::new(QueueState { running: false, arrivals: 0, waiting: Vec::new(), tries: Tries::new() }))
    }
}

impl LoginQueue {
    /// Waits for a turn. `None`: it is turned away, for as many wait as there are places for, and none of them has tried more often; or
    /// a network with fewer tries came after it.
    pub(crate) async fn turn(self: &Arc<Self>, from: IpAddr) -> Option<LoginTurn> {
        let waits = {
            let mut state = lock(&self.0);
            let tries = state.tries.note(from, Instant::now());
            if !state.running {
                state.running = true;
                return Some(LoginTurn(Arc::clone(self)));
            }
            state.enter(tries)?
        };
        waits.await.ok()
    }

    /// Forgets the tries of a network after a right password.
    pub(crate) fn forgive(&self, from: IpAddr) {
        lock(&self.0).tries.forget(from);
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.0).waiting.len()
    }
}

impl QueueState {
    fn enter(&mut self, tries: u32) -> Option<oneshot::Receiver<LoginTurn>> {
        self.waiting.retain(|login| !login.turn.is_closed());
        if self.waiting.len() >= WAITING_MAX {
            let places = 0..self.waiting.len();
            let last = places.max_by_key(|place| (self.waiting[*place].tries, self.waiting[*place].arrival))?;
            if self.waiting[last].tries <= tries {
                return None;
            }
            self.waiting.swap_remove(last);
        }
        let (turn, waits) = oneshot::channel();
        self.arrivals += 1;
        self.waiting.push(WaitingLogin { tries, arrival: self.arrivals, turn });
        Some(waits)
    }

    /// The login that has the next turn.
    fn next(&mut self) -> Option<WaitingLogin> {
        self.waiting.retain(|login| !login.turn.is_closed());
        let places = 0..self.waiting.len();
        let first = places.min_by_key(|place| (self.waiting[*place].tries, self.waiting[*place].arrival));
        self.running = first.is_some();
        first.map(|first| self.waiting.swap_remove(first))
    }
}

impl Drop for LoginTurn {
    fn drop(&mut self) {
        let next = lock(&self.0.0).next();
        if let Some(next) = next {
            // If it has given up just now, the turn comes back here, and is dropped.
            let _ = next.turn.send(Self(Arc::clone(&self.0)));
        }
    }
}

/// How often networks have tried lately: a count-min sketch.
#[derive(Debug)]
struct Tries {
    keys: [RandomState; 2],
    counters: [Vec<u32>; 2],
    halved: Instant,
}

impl Tries {
    fn new() -> Self {
        let counters = [vec![0; COUNTERS], vec![0; COUNTERS]];
        Self { keys: Default::default(), counters, halved: Instant::now() }
    }

    /// Counts a try. Returns those before it: of its network all, of the networks around it a part.
    fn note(&mut self, from: IpAddr, now: Instant) -> u32 {
        while now.saturating_duration_since(self.halved) >= HALF_LIFE {
            self.halved += HALF_LIFE;
            self.counters.iter_mut().flatten().for_each(|count| *count /= 2);
        }
        let mut tries = 0u32;
        for (network, divisor) in networks(from).into_iter().zip([1, 4, 16]) {
            let mut least = u32::MAX;
            for row in 0..2 {
                let count = self.counter((network, divisor), row);
                least = least.min(*count);
                *count = count.saturating_add(1);
            }
            tries = tries.saturating_add(least / divisor);
        }
        tries
    }

    fn forget(&mut self, from: IpAddr) {
        for row in 0..2 {
            *self.counter((networks(from)[0], 1), row) = 0;
        }
    }

    fn counter(&mut self, network: (IpAddr, u32), row: usize) -> &mut u32 {
        let counters = u64::try_from(COUNTERS).expect("a few");
        let place = self.keys[row].hash_one(network) % counters;
        &mut self.counters[row][usize::try_from(place).expect("less than the counters")]
    }
}

/// An address's own network, and two around it.
fn networks(address: IpAddr) -> [IpAddr; 3] {
    match network(address, 64) {
        IpAddr::V4(address) => [32, 24, 16].map(|bits| {
            let mask = u32::MAX << (32 - bits);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }),
        address @ IpAddr::V6(_) => [64, 56, 48].map(|bits| network(address, bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn tries_count_against_their_network_and_in_part_against_those_around_it() {
        let (mut tries, now) = (Tries::new(), Instant::now());
        for tried in 0..40 {
            let before = tries.note(parse("2001:db8:0:1::1"), now);
            assert!(before >= tried && before <= tried * 2, "{before} of {tried}");
        }
        assert!(tries.note(parse("2001:db8:0:1::ffff"), now) >= 40, "the same network");
        let (beside, near) = (tries.note(parse("2001:db8:0:2::1"), now), tries.note(parse("2001:db8:0:200::1"), now));
        assert!(beside >= 10 && near >= 2 && near < beside, "{beside} {near}");
        assert_eq!(tries.note(parse("2001:db9::1"), now), 0, "far away");
        tries.forget(parse("2001:db8:0:1::1"));
        assert!(tries.note(parse("2001:db8:0:1::1"), now) < 20);
        assert_eq!(tries.note(parse("2001:db9::1"), now + 2 * HALF_LIFE), 0, "one try is forgotten");
    }

    #[tokio::test]
    async fn networks_that_tried_least_come_first_and_replace_those_that_tried_most() {
        let queue = Arc::new(LoginQueue::default());
        let running = queue.turn(parse("192.0.2.1")).await.expect("nobody is there yet");
        let ask = |from: &str| {
            let (queue, from) = (Arc::clone(&queue), parse(from));
            tokio::spawn(async move { queue.turn(from).await })
        };
        let mut storm = Vec::new();
        for guess in 0..WAITING_MAX {
            storm.push(ask("192.0.2.1"));
            while queue.waiting() <= guess {
                tokio::task::yield_now().await;
            }
        }
        assert!(queue.turn(parse("192.0.2.1")).await.is_none(), "it has tried more often than all that wait");
        let other = ask("198.51.100.1");
        while !storm.iter().any(tokio::task::JoinHandle::is_finished) {
            tokio::task::yield_now().await;
        }
        let replaced = storm.pop().expect("the last");
        assert!(replaced.await.expect("no panic").is_none());
        drop(running);
        let turn = other.await.expect("no panic").expect("it is the next");
        assert_eq!(queue.waiting(), WAITING_MAX - 1, "before all of the storm");
        drop(turn);
        for guess in storm {
            assert!(guess.await.expect("no panic").is_some(), "each has its turn");
        }
        assert!(queue.turn(parse("192.0.2.1")).await.is_some(), "nobody is there any more");
    }

    #[tokio::test]
    async fn a_turn_that_is_no_longer_waited_for_passes_on() {
        let queue = Arc::new(LoginQueue::default());
        let running = queue.turn(parse("192.0.2.1")).await.expect("nobody is there yet");
        let mut given_up = Box::pin(queue.turn(parse("192.0.2.2")));
        assert!(tokio::time::timeout(Duration::ZERO, given_up.as_mut()).await.is_err());
        drop(running);
        drop(given_up);
        assert!(queue.turn(parse("192.0.2.3")).await.is_some());
    }
}
