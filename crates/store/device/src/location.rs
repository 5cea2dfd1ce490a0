//! Location of a folder: its disk.
//!
//! Promise: folders on partitions of one block device are on one disk; loop devices are disks of their own; a file system
//! without a block device (tmpfs, overlay, network mounts, btrfs's anonymous ones) is a disk of its own without positions.
//! The range of one actuator of a drive of several is a disk of its own, too: the others move while it reads.
//! Not here: the profile of the disk (`calibrate`).

use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::sysfs::{self, DrivePart, SECTOR_BYTES, number, text};

/// A disk, as the schedule sees it: a block device as `/sys` describes it, or the range of one of its actuators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name of the whole disk (`sda`, `nvme0n1`, `loop0`), with the actuator's number on a drive of several (`sda-actuator1`), or of
    /// the file system where there is no block device (`tmpfs-…`).
    pub name: String,
    /// Name of the drive: the disks on one drive fail together.
    pub drive: String,
    /// The drive's own name of its model; empty where it gives none.
    pub model: String,
    /// True if it has heads; false where unknown.
    pub rotational: bool,
    /// Bytes of it; zero where unknown.
    pub capacity_bytes: u64,
    /// The whole drive's node in `/dev`; none where there is no block device.
    pub node: Option<PathBuf>,
}

/// A folder's disk, and where the file system starts on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The disk.
    pub device: Device,
    /// Bytes from the start of the disk to the start of the file system's device; none where positions mean nothing.
    pub start_bytes: Option<u64>,
}

/// Finds the disk under device number `dev` (a file's `st_dev`).
#[must_use]
pub fn location_of(dev: u64) -> Location {
    location_at(sysfs::folder_of(dev), dev)
}

/// The ranges that the actuators of the block device `name` reach; none where it has one.
#[must_use]
pub fn actuator_ranges(name: &str) -> Vec<Range<u64>> {
    sysfs::actuators(&Path::new("/sys/block").join(name)).into_iter().map(|actuator| actuator.range).collect()
}

fn location_at(folder: Option<PathBuf>, dev: u64) -> Location {
    let Some(folder) = folder else {
        let name = format!("anonymous-{}-{}", major(dev), minor(dev));
        let drive = name.clone();
        let device = Device { name, drive, model: String::new(), rotational: false, capacity_bytes: 0, node: None };
        return Location { device, start_bytes: None };
    };
    let part = DrivePart::of(folder);
    let reached_from = part.actuator.as_ref().map_or(0, |actuator| actuator.range.start);
    Location { device: Device::of(&part), start_bytes: Some(part.start_bytes - reached_from) }
}

impl Device {
    /// The disk that this part of a drive is, or lies on.
    pub(crate) fn of(part: &DrivePart) -> Self {
        let folder = &part.drive;
        let drive = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let (name, range) = match &part.actuator {
            Some(actuator) => (format!("{drive}-actuator{}", actuator.number), actuator.range.clone()),
            None => (drive.clone(), 0..number(&folder.join("size")).saturating_mul(SECTOR_BYTES)),
        };
        Self {
            name,
            model: text(&folder.join("device/model")),
            rotational: number(&folder.join("queue/rotational")) == 1,
            capacity_bytes: range.end - range.start,
            // `!` stands for `/` in names of /sys (`cciss!c0d0`).
            node: Some(Path::new("/dev").join(drive.replace('!', "/"))),
            drive,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;

    use super::*;

    fn location_in(sys: &Path, dev: u64) -> Location {
        location_at(sysfs::folder_in(sys, dev), dev)
    }

    #[test]
    fn a_partition_is_on_its_whole_disk() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("block/sdq");
        let partition = disk.join("sdq2");
        fs::create_dir_all(&partition).unwrap();
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("device")).unwrap();
        for (file, text) in [
            ("block/sdq/size", "2000\n"),
            ("block/sdq/queue/rotational", "1\n"),
            ("block/sdq/device/model", "SPINDLE 7200 \n"),
            ("block/sdq/sdq2/partition", "2\n"),
            ("block/sdq/sdq2/start", "40\n"),
        ] {
            fs::write(sys.path().join(file), text).unwrap();
        }
        symlink(&disk, sys.path().join("8:0")).unwrap();
        symlink(&partition, sys.path().join("8:2")).unwrap();
        let whole = location_in(sys.path(), makedev(8, 0));
        let part = location_in(sys.path(), makedev(8, 2));
        assert_eq!(whole.device, part.device);
        assert_eq!((whole.start_bytes, part.start_bytes), (Some(0), Some(20_480)));
        assert_eq!(part.device.name, "sdq");
        assert_eq!(part.device.model, "SPINDLE 7200");
        assert_eq!(part.device.capacity_bytes, 1_024_000);
        assert!(part.device.rotational);
        assert_eq!(part.device.node.as_deref(), Some(Path::new("/dev/sdq")));
    }

    /// Two actuators, of which each reaches half of the drive, and a partition on each, another on both.
    #[test]
    fn a_partition_in_the_range_of_one_actuator_is_a_disk_of_its_own() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("block/sdq");
        let files = [
            ("size", "4000"),
            ("queue/independent_access_ranges/0/sector", "0"),
            ("queue/independent_access_ranges/0/nr_sectors", "2000"),
            ("queue/independent_access_ranges/1/sector", "2000"),
            ("queue/independent_access_ranges/1/nr_sectors", "2000"),
            ("sdq1/partition", "1"),
            ("sdq1/start", "40"),
            ("sdq1/size", "1960"),
            ("sdq2/partition", "2"),
            ("sdq2/start", "2008"),
            ("sdq2/size", "1000"),
            ("sdq3/partition", "3"),
            ("sdq3/start", "1999"),
            ("sdq3/size", "9"),
        ];
        for (file, text) in files {
            fs::create_dir_all(disk.join(file).parent().unwrap()).unwrap();
            fs::write(disk.join(file), format!("{text}\n")).unwrap();
        }
        let located = |number: u32, name: &str| {
            symlink(disk.join(name), sys.path().join(format!("8:{number}"))).unwrap();
            let Location { device, start_bytes } = location_in(sys.path(), makedev(8, number));
            assert_eq!((device.drive.as_str(), device.node.as_deref()), ("sdq", Some(Path::new("/dev/sdq"))));
            (device.name, device.capacity_bytes, start_bytes.unwrap())
        };
        assert_eq!(located(1, "sdq1"), ("sdq-actuator0".to_owned(), 1_024_000, 20_480));
        assert_eq!(located(2, "sdq2"), ("sdq-actuator1".to_owned(), 1_024_000, 4_096));
        assert_eq!(located(3, "sdq3"), ("sdq".to_owned(), 2_048_000, 1_023_488));
        assert_eq!(located(0, ""), ("sdq".to_owned(), 2_048_000, 0));
        // A drive with a single range has one actuator.
        fs::remove_dir_all(disk.join("queue/independent_access_ranges/1")).unwrap();
        assert_eq!(located(9, "sdq1").0, "sdq");
    }

    #[test]
    fn without_a_block_device_it_is_a_disk_of_its_own() {
        let sys = tempfile::tempdir().unwrap();
        let place = location_in(sys.path(), makedev(0, 35));
        assert_eq!(place.start_bytes, None);
        assert_eq!(place.device.node, None);
        assert_ne!(place.device.name, location_in(sys.path(), makedev(0, 36)).device.name);
    }
}
