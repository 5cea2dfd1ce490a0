//! Another profile for a disk that was measured while the plane runs.
//!
//! Promise: it is in force once nothing reads or writes the disk and no reservation has time of it, so that each demand is counted by one
//! profile from its beginning to its end; streams of other disks notice nothing, and nothing is allocated or freed. Not here: measuring.

use units::Nanos;

use crate::admitter::Admitter;
use crate::context::PlaneContext;
use crate::control::{NewProfile, Report};
use crate::fetcher::Fetcher;
use crate::port::Io;

impl NewProfile {
    /// Gives the copies to the parts of the plane, and takes the profile that each had.
    fn exchange(&mut self, admitter: &mut Admitter, fetcher: &mut Fetcher, (round, now): (Nanos, Nanos)) {
        let disk = self.disk;
        let [promised, placed, read] = &mut self.copies;
        *promised = promised.take().map(|profile| admitter.replace_promised(disk, profile, round));
        *placed = placed.take().map(|profile| admitter.replace_profile(disk, profile, round));
        *read = read.take().map(|profile| fetcher.replace_profile(disk, profile, round, now));
    }
}

/// Profiles that wait until their disks are idle, one for each disk at most.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "a profile goes back in the box in which it came: nothing is allocated")]
pub(crate) struct NewProfiles(Vec<Box<NewProfile>>);

impl NewProfiles {
    /// Room for a profile of each disk.
    pub(crate) fn new(disks: usize) -> Self {
        Self(Vec::with_capacity(disks))
    }

    /// Takes a profile. One of the same disk that still waits, or one of an unknown disk, goes back.
    pub(crate) fn add<I: Io>(&mut self, mut new: Box<NewProfile>, context: &mut PlaneContext<I>) {
        if let Some(waiting) = self.0.iter_mut().find(|waiting| waiting.disk == new.disk) {
            std::mem::swap(waiting, &mut new);
        } else if self.0.len() < self.0.capacity() && usize::from(new.disk.0) < self.0.capacity() {
            return self.0.push(new);
        }
        context.report(Report::Profiled { profile: new, is_in_force: false });
    }

    /// Puts those in force whose disks are idle.
    pub(crate) fn put_in_force<I: Io>(
        &mut self,
        (admitter, fetcher): (&mut Admitter, &mut Fetcher),
        context: &mut PlaneContext<I>,
    ) {
        for at in (0..self.0.len()).rev() {
            let disk = self.0[at].disk;
            if !admitter.is_unused(disk) || !fetcher.is_idle(disk) || !context.has_room_for_reports() {
                continue;
            }
            let mut new = self.0.swap_remove(at);
            let round = new.copies[0].as_ref().map_or(context.config.round, |profile| context.config.round_of(profile));
            new.exchange(admitter, fetcher, (round, context.now));
            context.report(Report::Profiled { profile: new, is_in_force: true });
        }
    }
}
