//! A disk that has become slower than its profile: the streams and jobs affected, in their order.
//!
//! Promise: admission stops first, then best effort rests, and streams end only when all of the disk's time is less than its
//! promises, and its loss so far would make regular reads late even if it were as fast as its profile from now on: as few
//! streams as necessary, the youngest first. Not here: the slowdown of a disk (`schedule::disk::cost`), its promises
//! (`schedule::admission`). See docs/decisions/0025.

use super::source::Source;
use super::*;
use crate::control::{Event, Outcome};

/// How many times slower than its profile a disk is, in the levels at which an event is logged: two or three on the way
/// to half its speed. The first one is beyond the scatter of a sound disk's access times. Chosen.
const LEVELS: [f64; 4] = [1.2, 1.5, 2.0, 3.0];
/// A disk leaves a level only when it is better than it by this factor: speed that varies around a level causes one event.
/// Chosen.
const HYSTERESIS: f64 = 0.9;
/// How often the speed of the disks is looked at: a part of the half round that is in hand when streams have to end.
const SPEED_PERIOD: Nanos = Nanos::from_millis(250);

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

impl Source {
    /// Applies the speed of the disk to admission, best effort and streams.
    fn follow_speed<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        let (disk, factor) = (self.id(), self.schedule.cost().slowdown());
        context.gauges.disks[usize::from(disk.0)].slowdown_ppm.set(ppm(factor));
        let ended = std::mem::take(&mut self.shed);
        if ended > 0 {
            context.tell(Event::DiskOverloaded { disk, factor, ended });
        }
        let before = self.speed;
        self.speed = before.at(factor);
        if self.speed.0 > before.0 {
            context.tell(Event::DiskSlower { disk, factor });
        } else if self.speed.0 < before.0 {
            context.tell(Event::DiskFaster { disk, factor });
        }
        context.tell_admitter(ToAdmitter::Speed { disk, factor, is_behind: self.is_behind(context.now) });
    }

    /// So many streams end for it is too slow.
    fn streams_shed<I: Io>(&mut self, ended: u64, context: &mut PlaneContext<I>) {
        let (disk, factor) = (self.id(), self.schedule.cost().slowdown());
        context.gauges.disks[usize::from(disk.0)].shed_streams.add(ended);
        self.shed += ended;
        context.tell_admitter(ToAdmitter::Speed { disk, factor, is_behind: true });
    }
}

impl Fetcher {
    /// Applies the speed of the disks to admission, best effort and streams.
    pub(crate) fn follow_speeds<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        if is_time(&mut self.speeds_at, SPEED_PERIOD, context.now) {
            self.sources.iter_mut().for_each(|source| source.follow_speed(context));
        }
    }

    /// Ends the youngest stream of a disk, with those that share its reads. Others follow at once while the disk's time is
    /// less than its promises, without another test whether the waiting reads could be in time: on a disk as fast as its
    /// profile they could, long before this one carries the streams that continue.
    pub(super) fn shed<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        let Some(reader) = self.streams.youngest_reader(&self.sources[disk].streams) else { return };
        let mut ended = 1;
        for nth in (0..self.sources[disk].streams.len()).rev() {
            let slot = self.sources[disk].streams[nth];
            if self.streams[slot].leader() == Some(reader) {
                self.end_overloaded(slot, context);
                ended += 1;
            }
        }
        self.end_overloaded(reader, context);
        self.sources[disk].streams_shed(ended, context);
    }

    /// Ends a stream and gives its disk time back at once, whatever its socket still sends.
    fn end_overloaded<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        self.leave_group(slot, context);
        self.sources.leave_starting(&self.streams[slot]);
        self.sources.ask_nothing(&self.streams[slot]);
        self.streams[slot].end();
        context.tell_admitter(ToAdmitter::Overloaded { slot });
        context.tell_pacer(ToPacer::Finish { slot, outcome: Outcome::DiskOverloaded });
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
    fn a_disk_at_a_level_is_reported_once() {
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
