//! Viewers that return after what they held ran out: they wait for room where newcomers are refused.
//!
//! Promise: at most `RETURNING_MAX` wait, each as long as a start may; they are let in in the order they came, as far as they are short
//! of the same thing, and meanwhile no newcomer is given any of it. Not here: who is one (the control plane's sessions), the
//! wait of who was admitted for its start (`admit`). See decisions/0013.

use units::{BitRate, DiskId, LinkId, Nanos};

use super::Plane;
use crate::control::{Refusal, Resource, Service};
use crate::port::Io;

/// Returning viewers that wait for room at most.
pub(super) const RETURNING_MAX: usize = 128;

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Returning {
    pub(super) slot: u32,
    /// What there was no room for when it was tried last.
    short: Resource,
}

impl<I: Io> Plane<I> {
    /// True if one more can wait for this.
    pub(super) fn may_wait_for(&self, short: Resource) -> bool {
        passes(short) && self.returning.len() < RETURNING_MAX
    }

    /// Takes a stream in among those that wait for room.
    pub(super) fn wait_for_room(&mut self, slot: u32, short: Resource) {
        self.returning.push(Returning { slot, short });
    }

    /// What somebody waits for that a stream on this disk and link would take.
    pub(super) fn waited_for(&self, disk: DiskId, link: LinkId) -> Option<Resource> {
        self.returning.iter().map(|other| other.short).find(|&short| is_taken(short, disk, link))
    }

    /// Once a second: lets in whom there is room for by now, and refuses who has waited for too long.
    pub(super) fn let_returning_in(&mut self, now: Nanos) {
        let mut nth = 0;
        while nth < self.returning.len() {
            if let Some(short) = self.try_returning(nth, now) {
                self.returning[nth].short = short;
                nth += 1;
            }
        }
    }

    /// Tries one; what it is still short of, or `None` if it does not wait for room any more.
    fn try_returning(&mut self, nth: usize, now: Nanos) -> Option<Resource> {
        let slot = self.returning[nth].slot;
        let delivery = self.streams[slot as usize].delivery();
        let (disk, link) = (delivery.content.disk, delivery.link);
        let Service::Constant { rate, burst_bytes, hold, .. } = delivery.service else {
            unreachable!("who waits for room asks for a rate")
        };
        let before = self.returning[..nth].iter().map(|other| other.short).find(|&short| is_taken(short, disk, link));
        let none = |resource| Refusal { resource, grantable: BitRate(0) };
        let found = if self.draining {
            Err(none(Resource::Draining))
        } else if !self.disks[usize::from(disk.0)].health.is_good() {
            Err(none(Resource::DiskFailing(disk)))
        } else if let Some(short) = before {
            Err(none(short))
        } else {
            self.reserve(self.request(delivery, rate, burst_bytes))
        };
        match found {
            Ok(id) => {
                self.returning.remove(nth);
                self.holders[id.slot as usize] = Some(slot);
                self.streams[slot as usize].class = self.admitted(id, hold);
                // From here on it waits for its start like everybody, and as long.
                self.streams[slot as usize].started = now;
                self.wait_for_start(slot, now);
                None
            }
            Err(refusal) => {
                if passes(refusal.resource) && !self.waited_too_long(slot, now) {
                    return Some(refusal.resource);
                }
                self.refuse_waiting(slot, refusal);
                None
            }
        }
    }
}

/// True if this shortage may pass: a failing disk and a server about to stop are not waited for.
fn passes(short: Resource) -> bool {
    !matches!(short, Resource::DiskFailing(_) | Resource::Draining)
}

/// True if a stream on this disk and link takes some of `short`.
fn is_taken(short: Resource, disk: DiskId, link: LinkId) -> bool {
    match short {
        Resource::Disk(id) => id == disk,
        Resource::Network(id) => id == link,
        Resource::Memory | Resource::Processor | Resource::Table => true,
        Resource::DiskFailing(_) | Resource::Draining => false,
    }
}
