//! Which disk a folder is on.
//!
//! Promise: folders on partitions of one block device are on one disk; loop devices are disks of their own; what has no
//! block device (tmpfs, overlay, network mounts, btrfs's anonymous ones) is a disk of its own without positions.
//! Not here: what the disk can do (`calibrate`).

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::sysfs;

/// A block device as `/sys` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name of the whole disk (`sda`, `nvme0n1`, `loop0`), or of the file system where there is none (`tmpfs-…`).
    pub name: String,
    /// What the drive calls itself; empty where it does not say.
    pub model: String,
    /// True if it has heads; false where unknown.
    pub rotational: bool,
    /// Bytes of the whole disk; zero where unknown.
    pub capacity_bytes: u64,
    /// The whole disk's node in `/dev`; none where there is no block device.
    pub node: Option<PathBuf>,
}

/// A folder's disk, and where the file system starts on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The disk.
    pub device: Device,
    /// Bytes from the start of the whole disk to the start of the file system's device; none where positions mean nothing.
    pub start_bytes: Option<u64>,
}

/// Finds the disk under device number `dev` (a file's `st_dev`).
#[must_use]
pub fn location_of(dev: u64) -> Location {
    location_at(sysfs::folder_of(dev), dev)
}

fn location_at(folder: Option<PathBuf>, dev: u64) -> Location {
    let Some(mut directory) = folder else {
        let name = format!("anonymous-{}-{}", major(dev), minor(dev));
        let device = Device { name, model: String::new(), rotational: false, capacity_bytes: 0, node: None };
        return Location { device, start_bytes: None };
    };
    let mut start_bytes = 0;
    if directory.join("partition").exists() {
        // `start` and `size` count 512-byte sectors whatever the drive's are.
        start_bytes = number(&directory.join("start")) * 512;
        directory.pop();
    }
    let name = directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let device = Device {
        model: text(&directory.join("device/model")),
        rotational: number(&directory.join("queue/rotational")) == 1,
        capacity_bytes: number(&directory.join("size")) * 512,
        // `!` stands for `/` in names of /sys (`cciss!c0d0`).
        node: Some(Path::new("/dev").join(name.replace('!', "/"))),
        name,
    };
    Location { device, start_bytes: Some(start_bytes) }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn number(path: &Path) -> u64 {
    text(path).parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn without_a_block_device_it_is_a_disk_of_its_own() {
        let sys = tempfile::tempdir().unwrap();
        let place = location_in(sys.path(), makedev(0, 35));
        assert_eq!(place.start_bytes, None);
        assert_eq!(place.device.node, None);
        assert_ne!(place.device.name, location_in(sys.path(), makedev(0, 36)).device.name);
    }
}
