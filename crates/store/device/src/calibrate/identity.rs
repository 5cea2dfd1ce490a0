//! Identity of the disk below a path, from the kernel's sysfs.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use units::ByteCount;

use crate::location::Device;
use crate::sysfs::{DrivePart, SECTOR_BYTES, actuators, folder_of, number, text};

/// `f_type` of tmpfs and ramfs (statfs(2)): no disk at all.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// A disk, by facts that stay the same when the machine restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskIdentity {
    /// Names the disk: its world-wide name, else model and serial number, else path, and in any case its size.
    pub key: String,
    /// Its block device, the whole disk and not the partition; `None` where there is none (network, memory).
    pub device: Option<PathBuf>,
    /// The bytes of the block device that are the disk: those that one of several actuators reaches; all if none.
    pub range: Option<Range<u64>>,
    /// The drive's own name of its model.
    pub model: Option<String>,
    /// Bytes of the block device that are the disk's, or of the file system where there is no device.
    pub capacity: ByteCount,
    /// The kernel's flag of a spinning disk; calibration checks it.
    pub kernel_rotational: Option<bool>,
    /// The file system lies in memory.
    pub in_memory: bool,
    /// Reason that measurements of this device may mislead.
    pub caution: Option<String>,
}

/// The disk of `target`: a block device, or a file or folder on one.
///
/// # Errors
/// `target` cannot be examined.
pub fn identify(target: &Path) -> io::Result<DiskIdentity> {
    let meta = fs::metadata(target)?;
    let number = if meta.file_type().is_block_device() { meta.st_rdev() } else { meta.st_dev() };
    match folder_of(number).or_else(|| folder_of(device_of_mount(number)?)) {
        Some(folder) => Ok(from_sysfs(&DrivePart::of(folder))),
        None => without_device(target),
    }
}

/// The device number of the source of the mount with this (anonymous) number: btrfs hides its disk behind one.
fn device_of_mount(number: u64) -> Option<u64> {
    let wanted = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|l| l.split(' ').nth(2) == Some(&wanted))?;
    // After the separator: type, source, options (proc(5)).
    let source = line.split_once(" - ")?.1.split(' ').nth(1)?;
    let meta = fs::metadata(source).ok()?;
    meta.file_type().is_block_device().then(|| meta.st_rdev())
}

fn from_sysfs(part: &DrivePart) -> DiskIdentity {
    let device = Device::of(part);
    let read = |name: &str| Some(text(&part.drive.join(name))).filter(|text| !text.is_empty());
    let node = device.node.unwrap_or_default();
    let model = Some(device.model).filter(|model| !model.is_empty());
    let backing = read("loop/backing_file");
    let serial = read("device/serial").or_else(|| read("serial"));
    let by = match (read("wwid").or_else(|| read("device/wwid")), serial, &backing) {
        (Some(wwid), _, _) => format!("wwid {wwid}"),
        (None, Some(serial), _) => format!("serial {} {serial}", model.as_deref().unwrap_or("disk")),
        (None, None, Some(file)) => format!("loop {file}"),
        (None, None, None) => format!("path {}", read("dm/uuid").unwrap_or_else(|| device.drive.replace('!', "/"))),
    };
    let shown = node.display();
    let caution = if backing.is_some() && read("loop/dio").as_deref() != Some("1") {
        Some(format!(
            "{shown} is a loop device without direct I/O: its reads may come from memory; attach it with losetup --direct-io=on"
        ))
    } else {
        let count = if part.actuator.is_some() { 0 } else { actuators(&part.drive).len() };
        (count > 1).then(|| format!(
            "{shown} has {count} actuators and is used as if it had one: a partition in the range of each is a disk of its own and carries as much (`isocast disk list` tells the ranges)"
        ))
    };
    let whole_bytes = number(&part.drive.join("size")).saturating_mul(SECTOR_BYTES);
    let actuator = part.actuator.as_ref().map_or_else(String::new, |actuator| format!(" actuator {}", actuator.number));
    DiskIdentity {
        key: format!("{by} size {whole_bytes}{actuator}"),
        range: part.actuator.as_ref().map(|actuator| actuator.range.clone()),
        model: model.or_else(|| backing.map(|file| format!("loop device of {file}"))),
        capacity: ByteCount(device.capacity_bytes),
        kernel_rotational: read("queue/rotational").map(|_| device.rotational),
        in_memory: false,
        caution,
        device: Some(node),
    }
}

fn without_device(target: &Path) -> io::Result<DiskIdentity> {
    let system = rustix::fs::statfs(target)?;
    let kind = u64::try_from(system.f_type).unwrap_or(0);
    let block = u64::try_from(system.f_bsize).unwrap_or(0);
    let capacity = ByteCount(system.f_blocks.saturating_mul(block));
    let path = fs::canonicalize(target)?;
    Ok(DiskIdentity {
        key: format!("folder {} size {}", path.display(), capacity.0),
        device: None,
        range: None,
        model: None,
        capacity,
        kernel_rotational: None,
        in_memory: IN_MEMORY.contains(&kind),
        caution: None,
    })
}
