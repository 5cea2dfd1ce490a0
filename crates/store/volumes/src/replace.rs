//! Another disk comes, in the place of one or beside all, and the streams continue.
//!
//! Promise: only a disk that holds nothing is written to; it has the number and the schedule of the one that goes, and is filled from the
//! other copies; one that comes beside all has the spare place, which the data plane has scheduled from the start. Not here: the check
//! that no owner needs the old bytes of the new disk (`isocast volume replace` makes it, and empties the disk).

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use device::Device;
use kernel::aligned::AlignedBlock;
use units::DiskId;
use volume::{AddError, CreateError, DiskWrite, MEMBERS_MAX, MemberId, Placement, Upkeep};

use super::core::Core;
use super::info::{ServedVolume, UpkeepError};
use super::live::{Member, NamedDisk, VacantDisk};
use super::open_disk::{OpenDisk, open_disk};
use store::StoreError;
use store::buffers::index;
use store::lock::lock;
use store::shared::DiskShared;

/// Bytes at both ends of a disk that must be zero: every owner of a disk has its mark there.
const BLANK_BYTES: u64 = 1 << 20;
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
        self.occupy(member, new, Core::put_in)?;
        lock(&self.core).begin_upkeep(Upkeep::Fill(member))
    }

    /// Takes the disk at `path` into the volume, in the place of one that left, or in the spare one. Waits for disks.
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
        let disk = vacant.shared.id;
        if let Err(error) = self.serve_disk(member, vacant, file).map_err(StoreError::from) {
            lock(&self.core).take_out(member, &error);
            return Err(error.into());
        }
        self.wait_until_durable(disk)
    }

    /// Waits until the disks' states are durable.
    fn wait_until_durable(&self, disk: DiskId) -> Result<(), UpkeepError> {
        let begun = Instant::now();
        while begun.elapsed() < LEAVE_MAX {
            let core = lock(&self.core);
            if core.live.durable_generation() == core.live.volume.superblock().generation {
                return Ok(());
            }
            drop(core);
            thread::sleep(Duration::from_millis(20));
        }
        Err(StoreError::Unsettled(disk).into())
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
        let others: Vec<&Device> = named.map(|(_, device)| device).collect();
        check_apart(&new.device, &others, core.live.volume.members().placement())
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

    fn take_in(&mut self, member: MemberId, new: OpenDisk, shared: &Arc<DiskShared>) -> Result<(), UpkeepError> {
        // Another one may have come meanwhile.
        if self.live.has_superblocks() || self.live.volume.next_member() != Some(member) {
            return Err(UpkeepError::Busy);
        }
        let (_, steps) = self.live.volume.add_disk(new.size)?;
        self.serve_from_now(member, new, shared, steps);
        Ok(())
    }

    fn serve_from_now(
        &mut self,
        member: MemberId,
        new: OpenDisk,
        shared: &Arc<DiskShared>,
        steps: impl IntoIterator<Item = Vec<DiskWrite>>,
    ) {
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

/// As when a volume is made: each disk is scheduled by itself, and a mirror is not all on one drive.
fn check_apart(new: &Device, others: &[&Device], placement: Placement) -> Result<(), UpkeepError> {
    let is_same = |other: &&Device| (&other.name, &other.drive) == (&new.name, &new.drive);
    let is_on_drive = |other: &&Device| other.drive == new.drive;
    let is_one_drive = placement == Placement::Mirror && !others.is_empty() && others.iter().all(is_on_drive);
    if is_one_drive || others.iter().any(is_same) { Err(UpkeepError::SameDisk(new.drive.clone())) } else { Ok(()) }
}

fn open_blank(path: &Path) -> Result<OpenDisk, UpkeepError> {
    let new = open_disk(path)?;
    if is_blank(&new)? { Ok(new) } else { Err(UpkeepError::NotBlank) }
}

/// True if the disk has no owner's mark.
fn is_blank(disk: &OpenDisk) -> Result<bool, StoreError> {
    let end = disk.size.saturating_sub(BLANK_BYTES) / volume::BLOCK_BYTES * volume::BLOCK_BYTES;
    let mut memory = AlignedBlock::zeroed(index(BLANK_BYTES));
    let length = index(disk.size.min(BLANK_BYTES) / volume::BLOCK_BYTES * volume::BLOCK_BYTES);
    for start in [0, end] {
        disk.file.read_exact_at(&mut memory.bytes_mut()[..length], start)?;
        if memory.bytes()[..length].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, drive: &str) -> Device {
        let (name, drive) = (name.to_owned(), drive.to_owned());
        Device { name, drive, model: String::new(), rotational: true, capacity_bytes: 1 << 40, node: None }
    }

    #[test]
    fn a_disk_that_comes_is_not_on_the_drive_of_another() {
        let [one, two, other] = [("sda", "sda"), ("sdb-actuator1", "sdb"), ("sdb-actuator2", "sdb")]
            .map(|(name, drive)| device(name, drive));
        let is_refused = |others: &[&Device], new: &Device, placement| check_apart(new, others, placement).is_err();
        assert!(is_refused(&[&one, &two], &one, Placement::Stripe), "another partition of a disk");
        assert!(!is_refused(&[&two], &other, Placement::Stripe), "heads of their own are disks of their own");
        assert!(is_refused(&[&two], &other, Placement::Mirror), "but they fail together");
        assert!(!is_refused(&[&one, &two], &other, Placement::Mirror), "copies go to the other drive");
        let files = ["/a/disk", "/b/disk"].map(|path| device("disk", path));
        assert!(!is_refused(&[&files[0]], &files[1], Placement::Mirror), "files of one name are not one");
    }
}
