//! The emulated Ethernet: a switch between the guests, with cables that can be cut, lossy or long.
//!
//! Promise: a frame reaches the guest it is for, or all where it is for all; frames for a full port are dropped, as in a
//! switch. Nothing of the machine's own network is touched. Not here: the rate, which each guest's own queue keeps.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};
use sim::Random;
use units::Nanos;

use crate::clock;

/// The largest frame: an Ethernet's, and the headers that guests may put before it.
const FRAME_BYTES_MAX: usize = 2048;
/// Frames under way on cables with a delay; more are dropped.
const UNDER_WAY_MAX: usize = 20_000;
/// Frames taken of one port before the others' turn.
const TURN: usize = 64;
const STOP_CHECK_PERIOD: Nanos = Nanos::from_millis(20);

/// Settings and counters of the cables.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Cables {
    /// Nodes that are unplugged.
    pub(super) cut: BTreeSet<usize>,
    /// The share of frames that is lost on their way out.
    pub(super) loss: f64,
    pub(super) delay_ns: u64,
    pub(super) forwarded: u64,
    /// Lost as was wished.
    pub(super) lost: u64,
    /// Dropped for want of room.
    pub(super) dropped: u64,
}

/// A frame on a cable: when it arrives, in which order, at which port.
type UnderWay = Reverse<(Nanos, u64, usize, Vec<u8>)>;

/// The switch; port `i` is the cable of node `i + 1`.
pub(super) struct Hub {
    ports: Vec<OwnedFd>,
    /// Port of the last frame from each address.
    known: HashMap<[u8; 6], usize>,
    under_way: BinaryHeap<UnderWay>,
    sequence: u64,
    chance: Random,
}

impl Hub {
    pub(super) fn new(ports: Vec<OwnedFd>) -> Self {
        let chance = Random::new(1);
        Self { ports, known: HashMap::new(), under_way: BinaryHeap::new(), sequence: 0, chance }
    }

    /// Forwards for ever.
    ///
    /// # Errors
    /// The error that the kernel gave.
    pub(super) fn run(mut self, cables: &Mutex<Cables>) -> io::Result<()> {
        let mut frame = [0; FRAME_BYTES_MAX];
        let mut open: Vec<bool> = vec![true; self.ports.len()];
        loop {
            let next = self.under_way.peek().map_or(STOP_CHECK_PERIOD, |Reverse((due, ..))| {
                due.saturating_sub(clock::now()).min(STOP_CHECK_PERIOD)
            });
            let indices: Vec<usize> = (0..self.ports.len()).filter(|&port| open[port]).collect();
            let mut polled: Vec<PollFd<'_>> =
                indices.iter().map(|&port| PollFd::new(&self.ports[port], PollFlags::IN)).collect();
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(next.0).unwrap_or(0) };
            if let Err(error) = poll(&mut polled, Some(&timeout))
                && error != rustix::io::Errno::INTR
            {
                return Err(error.into());
            }
            let ready: Vec<usize> =
                indices.iter().zip(&polled).filter(|(_, p)| !p.revents().is_empty()).map(|(&port, _)| port).collect();
            let mut cables = cables.lock().unwrap_or_else(PoisonError::into_inner);
            for port in ready {
                for _ in 0..TURN {
                    match recv(&self.ports[port], &mut frame, RecvFlags::DONTWAIT) {
                        Ok((0, _)) => {
                            open[port] = false;
                            break;
                        }
                        Ok((bytes, _)) => self.forward(port, &frame[..bytes.min(FRAME_BYTES_MAX)], &mut cables),
                        Err(_) => break,
                    }
                }
            }
            while self.under_way.peek().is_some_and(|Reverse((due, ..))| *due <= clock::now()) {
                if let Some(Reverse((_, _, port, frame))) = self.under_way.pop() {
                    self.deliver(port, &frame, &mut cables);
                }
            }
        }
    }

    fn forward(&mut self, from: usize, frame: &[u8], cables: &mut Cables) {
        let Some((to, sender)) = addresses(frame) else { return };
        if cables.cut.contains(&(from + 1)) {
            cables.lost += 1;
            return;
        }
        self.known.insert(sender, from);
        // The lowest bit of the first byte: for a group, not for one.
        let only = if to[0] & 1 == 0 { self.known.get(&to).copied() } else { None };
        for port in (0..self.ports.len()).filter(|&port| port != from && only.is_none_or(|only| only == port)) {
            if cables.loss > 0.0 && self.chance.chance(cables.loss) {
                cables.lost += 1;
            } else if cables.delay_ns == 0 {
                self.deliver(port, frame, cables);
            } else if self.under_way.len() < UNDER_WAY_MAX {
                let due = clock::now().saturating_add(Nanos(cables.delay_ns));
                self.sequence += 1;
                self.under_way.push(Reverse((due, self.sequence, port, frame.to_vec())));
            } else {
                cables.dropped += 1;
            }
        }
    }

    fn deliver(&self, port: usize, frame: &[u8], cables: &mut Cables) {
        if cables.cut.contains(&(port + 1)) {
            cables.lost += 1;
        } else if send(&self.ports[port], frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok() {
            cables.forwarded += 1;
        } else {
            cables.dropped += 1;
        }
    }
}

/// Destination and source address of a frame.
fn addresses(frame: &[u8]) -> Option<([u8; 6], [u8; 6])> {
    Some((*frame.first_chunk()?, *frame.get(6..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// A hub of three, and the guests' ends.
    fn hub() -> (Hub, Vec<OwnedFd>) {
        let pairs = (0..3).map(|_| {
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair")
        });
        let (ports, guests) = pairs.unzip();
        (Hub::new(ports), guests)
    }

    fn frame(to: u8, from: u8) -> Vec<u8> {
        [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from]].concat()
    }

    fn heard(guest: &OwnedFd) -> bool {
        recv(guest, &mut [0; 64], RecvFlags::DONTWAIT).is_ok()
    }

    #[test]
    fn frames_go_to_their_port_or_to_all_while_it_is_unknown() {
        let ((mut hub, guests), mut cables) = (hub(), Cables::default());
        hub.forward(0, &frame(2, 1), &mut cables);
        assert!(!heard(&guests[0]) && heard(&guests[1]) && heard(&guests[2]));
        hub.forward(1, &frame(1, 2), &mut cables);
        assert!(heard(&guests[0]) && !heard(&guests[2]), "node 1 was heard on its port");
        hub.forward(0, &[&[0xff; 6][..], &[2, 0, 0, 0, 0, 1]].concat(), &mut cables);
        assert!(heard(&guests[1]) && heard(&guests[2]), "for all");
        assert_eq!((cables.forwarded, cables.lost, cables.dropped), (5, 0, 0));
    }

    #[test]
    fn a_cut_cable_carries_nothing_either_way_and_a_lossy_one_some() {
        let ((mut hub, guests), mut cables) = (hub(), Cables::default());
        cables.cut.insert(2);
        hub.forward(0, &frame(2, 1), &mut cables);
        hub.forward(1, &frame(1, 2), &mut cables);
        assert!(!heard(&guests[0]) && !heard(&guests[1]) && heard(&guests[2]));
        cables = Cables { loss: 0.5, ..Cables::default() };
        for _ in 0..200 {
            hub.forward(0, &frame(3, 1), &mut cables);
            while heard(&guests[1]) || heard(&guests[2]) {}
        }
        assert!((100..300).contains(&cables.lost) && cables.lost + cables.forwarded == 400, "{cables:?}");
    }
}
