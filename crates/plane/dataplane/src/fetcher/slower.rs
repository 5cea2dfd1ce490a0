//! A disk that has become slower than its profile: the streams and jobs affected, in their order.
//!
//! Promise: admission stops first, then best effort rests, and streams end only when all of the disk's time is less than its
//! promises, and its loss so far would make regular reads late even if it were as fast as its profile from now on: as few
//! streams as necessary, the youngest first. Not here: the slowdown of a disk (`schedule::disk::cost`), its promises
//! (`schedule::admission`). See docs/decisions/0025.

use super::*;
use crate::control::Outcome;

/// How often the speed of the disks is looked at. Chosen: a part of the half round that is in hand when streams have to end.
const SPEED_PERIOD: Nanos = Nanos::from_millis(250);

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
        self.streams[slot].leave_starting(&mut self.sources);
        self.streams[slot].ask_nothing(&mut self.sources);
        self.streams[slot].end();
        context.tell_admitter(ToAdmitter::Overloaded { slot });
        context.tell_pacer(ToPacer::Finish { slot, outcome: Outcome::DiskOverloaded });
    }
}
