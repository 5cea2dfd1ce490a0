//! A new disk comes, in the place of another or in addition to all, and the streams continue.
//!
//! Promise: only a disk that holds nothing is written to; it has the number and the schedule of the disk that goes, and is filled from the
//! other copies; an additional disk has the spare place, which the data plane has scheduled from the start. Not here: the check
//! that no owner needs the old bytes of the new disk (`isocast volume replace` makes it, and empties the disk).

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kernel::exclusive::Purpose;
use volume::{AddError, CreateError, DiskWrite, MEMBERS_MAX, MemberId, Upkeep};

use super::core::Core;
use super::disks::check_apart;
use super::info::{ServedVolume, UpkeepError};
use super::live::{Member, NamedDisk, VacantDisk, name_of};
use super::open_disk::OpenDisk;
use store::StoreError;
use store::lock::lock;
use store::shared::DiskShared;

/// Time that the thread of the disk that goes may take to let go of it.
const LEAVE_MAX: Duration = Duration::from_secs(15);

impl ServedVolume {
    /// Takes a disk out if it is not, puts the one at `path` in its place, and begins to fill it. Waits for disks.
    pub(super) fn replace(&self, member: MemberId, path: &Path) -> Result<(), UpkeepError> {
        self.check_replacement(member)?;
        let new = open_blank(path)?;
        let needed = lock(&self.core).live.volume.members().areas(member).size;
        if new.size < needed {
            return Err(UpkeepError::TooSmall(needed));
        }
        self.check_apart(&new, Some(member))?;
        lock(&self.core).take_out(member, &StoreError::Closed);
        self.occupy(member, new, Core::put_new)?;
        lock(&self.core).begin_upkeep(Upkeep::Fill(member))
    }

    /// Takes the disk at `path` into the volume, in the place of a disk that left, or in the spare place. Waits for disks.
    pub(super) fn add(&self, path: &Path) -> Result<(), UpkeepError> {
        let new = open_blank(path)?;
        self.check_apart(&new, None)?;
        let member = {
            let core = lock(&self.core);
            if core.upkeep.is_looked_after() {
                return Err(UpkeepError::Busy);
            }
            let member =
                core.live.volume.next_member().ok_or(AddError::from(CreateError::DiskCount(MEMBERS_MAX + 1)))?;
            // The place of a disk that left is free when its thread has let go of it.
            if member.index() >= core.live.members.there.len() && !core.live.members.vacant.contains_key(&member) {
                return Err(UpkeepError::NoPlace);
            }
            member
        };
        self.occupy(member, new, Core::take_in)
    }

    /// Puts a disk into a place that is vacant, or will be: durably, and with a thread of its own.
    pub(super) fn occupy(
        &self,
        member: MemberId,
        new: OpenDisk,
        into: fn(&mut Core, MemberId, OpenDisk, &Arc<DiskShared>) -> Result<(), UpkeepError>,
    ) -> Result<(), UpkeepError> {
        let vacant = self.vacant(member)?;
        let file = new.file.try_clone().map(OwnedFd::from).map_err(StoreError::from);
        let taken = file.map_err(UpkeepError::from).and_then(|file| {
            into(&mut lock(&self.core), member, new, &vacant.shared)?;
            Ok(file)
        });
        let file = match taken {
            Ok(file) => file,
            Err(error) => {
                lock(&self.core).live.members.vacant.insert(member, vacant);
                return Err(error);
            }
        };
        let shared = Arc::clone(&vacant.shared);
        if let Err(error) = self.serve_disk(member, vacant, file).map_err(StoreError::from) {
            lock(&self.core).take_out(member, &error);
            return Err(error.into());
        }
        self.wait_until_durable(&shared)
    }

    /// Waits until the disks' states are durable.
    fn wait_until_durable(&self, disk: &DiskShared) -> Result<(), UpkeepError> {
        let begun = Instant::now();
        while begun.elapsed() < LEAVE_MAX {
            let core = lock(&self.core);
            if core.live.durable_generation() == core.live.volume.superblock().generation {
                return Ok(());
            }
            drop(core);
            thread::sleep(Duration::from_millis(20));
        }
        Err(disk.unsettled().into())
    }

    fn check_replacement(&self, member: MemberId) -> Result<(), UpkeepError> {
        let core = lock(&self.core);
        let is_served = core.live.members.there.get(member.index()).is_some_and(Option::is_some);
        if !is_served && !core.live.members.vacant.contains_key(&member) {
            return Err(UpkeepError::Unknown);
        }
        if core.upkeep.is_looked_after() {
            return Err(UpkeepError::Busy);
        }
        if is_served && !core.live.volume.keeps_all_without(member) { Err(UpkeepError::Needed) } else { Ok(()) }
    }

    fn check_apart(&self, new: &OpenDisk, instead_of: Option<MemberId>) -> Result<(), UpkeepError> {
        let core = lock(&self.core);
        let stay = core
            .live
            .members
            .there
            .iter()
            .flatten()
            .map(|member| member.member)
            .filter(|member| instead_of != Some(*member));
        let named = stay.filter_map(|member| core.live.members.named[member.index()].as_ref()?.found.as_ref());
        let devices: Vec<_> = named.map(|(_, device)| device).chain([&new.device]).collect();
        Ok(check_apart(&devices, core.live.volume.members().placement())?)
    }

    /// The place of a disk that was taken out, when its thread has let go of it.
    fn vacant(&self, member: MemberId) -> Result<VacantDisk, UpkeepError> {
        let begun = Instant::now();
        while begun.elapsed() < LEAVE_MAX {
            if let Some(vacant) = lock(&self.core).live.members.vacant.remove(&member) {
                return Ok(vacant);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(UpkeepError::Hangs)
    }
}

impl Core {
    pub(super) fn put_in(
        &mut self,
        member: MemberId,
        new: OpenDisk,
        shared: &Arc<DiskShared>,
    ) -> Result<(), UpkeepError> {
        let steps = self.live.volume.put_in(member, new.size).map_err(|error| self.live.error(error))?;
        self.serve_from_now(member, new, shared, steps);
        Ok(())
    }

    /// Puts a disk in that was not of the volume.
    fn put_new(&mut self, member: MemberId, new: OpenDisk, shared: &Arc<DiskShared>) -> Result<(), UpkeepError> {
        self.put_in(member, new, shared)?;
        self.live.health.forget_copies(member);
        Ok(())
    }

    fn take_in(&mut self, member: MemberId, new: OpenDisk, shared: &Arc<DiskShared>) -> Result<(), UpkeepError> {
        // Another one may have come meanwhile.
        if self.live.has_superblocks() || self.live.volume.next_member() != Some(member) {
            return Err(UpkeepError::Busy);
        }
        let (_, steps) = self.live.volume.add_disk(new.size)?;
        self.serve_from_now(member, new, shared, steps);
        self.live.health.forget_copies(member);
        Ok(())
    }

    fn serve_from_now(
        &mut self,
        member: MemberId,
        new: OpenDisk,
        shared: &Arc<DiskShared>,
        steps: impl IntoIterator<Item = Vec<DiskWrite>>,
    ) {
        debug_assert!(self.live.members.get(member).is_none(), "a disk comes into a vacant place");
        debug_assert!(!self.live.members.vacant.contains_key(&member), "its place was taken");
        debug_assert!(self.live.volume.is_writable(member), "the disk gets its superblocks first");
        self.live.health.failures.remove(&member);
        shared.rename(name_of(&new));
        let count = self.live.volume.superblock().members.len();
        self.live.members.named.resize_with(count, || None);
        self.live.members.there.resize_with(count, || None);
        self.live.members.named[member.index()] = Some(NamedDisk::of(&new, shared.id));
        self.live.members.there[member.index()] = Some(Member::new(member, new, Arc::clone(shared)));
        let drive = |named: &Option<NamedDisk>| Some(named.as_ref()?.found.as_ref()?.1.drive.clone());
        let drives: Vec<_> = self.live.members.named.iter().map(drive).collect();
        self.live.volume.set_drives(&drives.iter().map(Option::as_deref).collect::<Vec<_>>());
        self.write_superblocks(steps);
    }
}

fn open_blank(path: &Path) -> Result<OpenDisk, UpkeepError> {
    let new = OpenDisk::open(path, Purpose::Write)?;
    if new.is_blank().map_err(StoreError::from)? { Ok(new) } else { Err(UpkeepError::NotBlank) }
}
