//! A disk that has become slower than its profile: who notices it, in which order.
//!
//! Promise: admission stops first, then best effort rests, and streams end only when all of the disk's time is less than what it
//! has promised, and it has lost so much already that regular reads would be late even if it were as fast as its profile from
//! now on: as few as that takes, the youngest first. Not here: how slow a disk is
//! (`schedule::disk::cost`), what it has promised (`schedule::admission`). See docs/decisions/0025.

use units::{DiskId, Nanos};

use super::Plane;
use crate::control::{Event, Outcome};
use crate::port::Io;
use crate::stream::StreamLife;

/// How many times slower than its profile a disk is, in levels that are told. A doubling is worth a word or two; the first
/// is beyond what the access times of a sound disk scatter by.
const LEVELS: [f64; 4] = [1.2, 1.5, 2.0, 3.0];
/// A level is left only when the disk is so much better than it: one that lies at a level is told once.
const HYSTERESIS: f64 = 0.9;
/// How often the speed of the disks is looked at: a part of the half round that is in hand when streams have to end.
const LOOK: Nanos = Nanos::from_millis(250);

/// How many of the [`LEVELS`] a disk has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Speed(usize);

impl Speed {
    /// The same disk when it is `slowdown` times slower than its profile.
    fn at(self, slowdown: f64) -> Self {
        let reached = |factor: f64| LEVELS.iter().filter(|&&level| slowdown >= level * factor).count();
        Self(self.0.clamp(reached(1.0), reached(HYSTERESIS)))
    }
}

impl<I: Io> Plane<I> {
    /// What the speed of the disks means for those who use them.
    pub(super) fn follow_speeds(&mut self, now: Nanos) {
        if now < self.meter.speeds {
            return;
        }
        self.meter.speeds = now.saturating_add(LOOK);
        for index in 0..self.disks.len() {
            self.follow_speed(index, now);
        }
    }

    fn follow_speed(&mut self, index: usize, now: Nanos) {
        let disk = DiskId(u16::try_from(index).expect("within limits"));
        let factor = self.disks[index].schedule.cost().slowdown();
        self.admission.set_slowdown(disk, factor);
        self.gauges.disks[index].slowdown_ppm.set(super::ppm(factor));
        let before = self.disks[index].speed;
        let speed = before.at(factor);
        self.disks[index].speed = speed;
        if speed.0 > before.0 {
            self.tell(Event::DiskSlower { disk, factor });
        } else if speed.0 < before.0 {
            self.tell(Event::DiskFaster { disk, factor });
        }
        let left = 1.0 - self.admission.promised_share(disk);
        self.disks[index].schedule.set_be_share(self.config.be_share.min(left));
        if self.disks[index].spins && !self.disks[index].health.is_hung() {
            self.shed(index, disk, now);
        }
    }

    /// Ends the youngest streams of a disk until the others can be kept.
    fn shed(&mut self, index: usize, disk: DiskId, now: Nanos) {
        let mut ended = 0;
        while self.admission.promised_share(disk) > 1.0 && self.disks[index].schedule.is_behind(now) {
            let Some(reader) = self.youngest_reader(index) else { break };
            ended += self.end_with_followers(index, reader, now);
        }
        if ended > 0 {
            let factor = self.disks[index].schedule.cost().slowdown();
            self.gauges.disks[index].shed_streams.add(ended);
            self.tell(Event::DiskOverloaded { disk, factor, ended });
        }
    }

    /// The stream to end first of those that a disk still has to read for: the one admitted last, of those whose reads
    /// nobody shares if there are any. A recording is no stream, and what it has not written would be lost.
    fn youngest_reader(&self, index: usize) -> Option<u32> {
        let readers = self.disks[index].streams.iter().filter_map(|&slot| {
            let stream = &self.streams[slot as usize];
            let reads = matches!(stream.life, StreamLife::Starting | StreamLife::Running)
                && stream.leader.is_none()
                && stream.fetch.payload < stream.payload;
            let id = self.reservation_of(slot).filter(|_| reads)?;
            let (company, age) = self.admission.company_and_age(id)?;
            Some((!company, age, slot))
        });
        readers.max().map(|(.., slot)| slot)
    }

    /// Ends a stream and those that share its reads; how many.
    fn end_with_followers(&mut self, index: usize, reader: u32, now: Nanos) -> u64 {
        let mut ended = 0;
        for nth in (0..self.disks[index].streams.len()).rev() {
            if let Some(&slot) = self.disks[index].streams.get(nth)
                && self.streams[slot as usize].leader == Some(reader)
            {
                self.end_overloaded(slot, now);
                ended += 1;
            }
        }
        self.end_overloaded(reader, now);
        ended + 1
    }

    /// Ends a stream and gives its disk time back at once, whatever its socket still sends.
    fn end_overloaded(&mut self, slot: u32, now: Nanos) {
        if let Some(id) = self.take_reservation(slot, now) {
            self.admission.release(id);
        }
        self.leave_schedule(slot);
        self.finish(slot, Outcome::DiskOverloaded, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_slows_down_step_by_step_passes_each_level_once() {
        let mut speed = Speed::default();
        let mut told = vec![];
        let slopes = (100..=250).chain((90..250).rev());
        for percent in slopes {
            let next = speed.at(f64::from(percent) / 100.0);
            if next != speed {
                told.push((percent, next.0));
            }
            speed = next;
        }
        assert_eq!(told, [(120, 1), (150, 2), (200, 3), (179, 2), (134, 1), (107, 0)]);
    }

    #[test]
    fn a_disk_that_lies_at_a_level_is_told_of_once() {
        let mut speed = Speed::default();
        let changes = (0..100).filter(|nth| {
            let next = speed.at(if nth % 2 == 0 { 1.51 } else { 1.49 });
            let changed = next != speed;
            speed = next;
            changed
        });
        assert_eq!(changes.count(), 1, "to the second level, and no further");
    }
}
