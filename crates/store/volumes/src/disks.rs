//! The disks of one volume, before its threads have them: reads, writes and commits one after the other.
//!
//! Promise: each step is durable before the next one is written. Not here: which disks these are (`find`), grants (`member`).

use std::collections::BTreeSet;
use std::path::Path;

use device::Device;
use volume::{DiskWrite, Identified, MemberId, Placement, ReadDisk, ReadError, Volume};

use super::open_disk::{OpenDisk, VolumeDiskError, is_same_disk};

/// Disks of an open volume, each at its number.
#[derive(Debug)]
pub struct VolumeDisks(pub Vec<Option<OpenDisk>>);

impl ReadDisk for VolumeDisks {
    fn read(&mut self, disk: usize, position: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let disk = self.0.get(disk).and_then(Option::as_ref).ok_or(ReadError)?;
        disk.read_at(position, buffer).map_err(|_| ReadError)
    }
}

impl VolumeDisks {
    /// Disks in the order in which they were given.
    #[must_use]
    pub fn given(disks: Vec<OpenDisk>) -> Self {
        Self(disks.into_iter().map(Some).collect())
    }

    /// The disks that are there.
    pub fn iter(&self) -> impl Iterator<Item = &OpenDisk> {
        self.0.iter().flatten()
    }

    /// Each disk at its number in the volume.
    #[must_use]
    pub fn in_order(mut self, identified: &Identified) -> Self {
        Self(identified.disks.iter().map(|disk| disk.and_then(|disk| self.0[disk].take())).collect())
    }

    /// The number of the disk with this path.
    ///
    /// # Errors
    /// It is not among them.
    pub fn number_of(&self, path: &Path) -> Result<MemberId, VolumeDiskError> {
        let is_it = |disk: &Option<OpenDisk>| disk.as_ref().is_some_and(|disk| is_same_disk(&disk.path, path));
        let number = self.0.iter().position(is_it).and_then(|number| u8::try_from(number).ok());
        number.map(MemberId).ok_or_else(|| VolumeDiskError::Foreign(path.to_owned()))
    }

    /// Gives the volume the drives of its disks.
    pub fn tell_drives(&self, volume: &mut Volume) {
        let drives = self.0.iter().map(|disk| disk.as_ref().map(|disk| disk.device.drive.as_str()));
        volume.set_drives(&drives.collect::<Vec<_>>());
    }

    /// Writes bytes that the volume gave; they are durable after a flush.
    ///
    /// # Errors
    /// The disk refuses them, or is not there.
    fn write(&self, write: &DiskWrite) -> Result<(), VolumeDiskError> {
        self.disk(write.member)?.write_at(write.position, &write.bytes)
    }

    /// Writes each step and makes it durable before the next one is begun.
    ///
    /// # Errors
    /// A disk refuses a write.
    pub fn write_steps(&self, steps: &[Vec<DiskWrite>]) -> Result<(), VolumeDiskError> {
        for step in steps {
            debug_assert!(
                step.iter().all(|write| write.position.is_multiple_of(volume::BLOCK_BYTES)),
                "a step is written in whole blocks"
            );
            step.iter().try_for_each(|write| self.write(write))?;
            let members: BTreeSet<_> = step.iter().map(|write| write.member).collect();
            members.into_iter().try_for_each(|member| self.flush(member))?;
        }
        Ok(())
    }

    /// Makes all staged changes durable.
    ///
    /// # Errors
    /// A disk refuses a write.
    pub fn commit(&self, volume: &mut Volume) -> Result<(), VolumeDiskError> {
        while let Some(commit) = volume.commit() {
            commit.flush_first.iter().try_for_each(|member| self.flush(*member))?;
            commit.writes.iter().try_for_each(|write| self.write(write))?;
            commit.flush_then.iter().try_for_each(|member| self.flush(*member))?;
            volume.committed(Ok(()));
        }
        Ok(())
    }

    fn flush(&self, member: MemberId) -> Result<(), VolumeDiskError> {
        self.disk(member)?.flush()
    }

    fn disk(&self, member: MemberId) -> Result<&OpenDisk, VolumeDiskError> {
        self.0.get(member.index()).and_then(Option::as_ref).ok_or(VolumeDiskError::Absent(member.0))
    }
}

/// Checks that a server can schedule each disk by itself, and that a mirror is not all on one drive.
///
/// # Errors
/// Two of them are one device, or all copies are on one drive.
pub fn check_apart(devices: &[&Device], placement: Placement) -> Result<(), VolumeDiskError> {
    for (number, device) in devices.iter().enumerate() {
        if devices[..number].iter().any(|other| (&other.name, &other.drive) == (&device.name, &device.drive)) {
            return Err(VolumeDiskError::SameDevice(device.name.clone()));
        }
    }
    match devices {
        [first, others @ ..]
            if placement == Placement::Mirror
                && !others.is_empty()
                && others.iter().all(|other| other.drive == first.drive) =>
        {
            Err(VolumeDiskError::SameDrive(first.drive.clone()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, drive: &str) -> Device {
        let (name, drive) = (name.to_owned(), drive.to_owned());
        Device { name, drive, model: String::new(), rotational: true, capacity_bytes: 1 << 40, node: None }
    }

    #[test]
    fn disks_are_devices_of_their_own_and_a_mirror_has_two_drives() {
        let [one, two, other] = [("sda", "sda"), ("sdb-actuator1", "sdb"), ("sdb-actuator2", "sdb")]
            .map(|(name, drive)| device(name, drive));
        let is_refused = |devices: &[&Device], placement| check_apart(devices, placement).is_err();
        assert!(is_refused(&[&one, &two, &one], Placement::Stripe), "another partition of a disk");
        assert!(!is_refused(&[&two, &other], Placement::Stripe), "heads of their own are disks of their own");
        assert!(is_refused(&[&two, &other], Placement::Mirror), "but they fail together");
        assert!(!is_refused(&[&one, &two, &other], Placement::Mirror), "copies go to the other drive");
        assert!(!is_refused(&[&one], Placement::Mirror), "the second comes later");
        let files = ["/a/disk", "/b/disk"].map(|path| device("disk", path));
        assert!(!is_refused(&[&files[0], &files[1]], Placement::Mirror), "files of one name are not one");
    }
}
