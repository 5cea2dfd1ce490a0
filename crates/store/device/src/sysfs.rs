//! The kernel's description of a block device, and the part of a drive that the device is.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// `start`, `size` and the ranges of actuators count sectors of 512 bytes, also on drives with others.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Characters of a file of `/sys` that are read.
const TEXT_MAX: usize = 200;

/// The folder in `/sys` of the block device with this number, which may be a partition; none if there is no such device.
pub(crate) fn folder_of(number: u64) -> Option<PathBuf> {
    folder_in(Path::new("/sys/dev/block"), number)
}

/// As [`folder_of`], among the links in `names`.
pub(crate) fn folder_in(names: &Path, number: u64) -> Option<PathBuf> {
    fs::canonicalize(names.join(format!("{}:{}", major(number), minor(number)))).ok()
}

/// A block device as a part of a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DrivePart {
    /// The folder of the whole drive.
    pub(crate) drive: PathBuf,
    /// Offset of its first byte on the drive.
    pub(crate) start_bytes: u64,
    /// The actuator that reaches all of it, on a drive of several.
    pub(crate) actuator: Option<Actuator>,
}

/// An arm that moves on its own in a drive of several: it reads and writes its range while the others do theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Actuator {
    /// Its number, from 0.
    pub(crate) number: usize,
    /// The bytes of the drive that it reaches.
    pub(crate) range: Range<u64>,
}

impl DrivePart {
    /// The part that the block device with this folder is.
    pub(crate) fn of(folder: PathBuf) -> Self {
        let size = number(&folder.join("size")) * SECTOR_BYTES;
        let (mut drive, mut start_bytes) = (folder, 0);
        if drive.join("partition").exists() {
            start_bytes = number(&drive.join("start")) * SECTOR_BYTES;
            drive.pop();
        }
        let reaches_all =
            |one: &Actuator| one.range.start <= start_bytes && start_bytes.saturating_add(size) <= one.range.end;
        let actuator = actuators(&drive).into_iter().find(reaches_all);
        Self { drive, start_bytes, actuator }
    }
}

/// The actuators of a drive of several; none for a drive that has one or reports no ranges
/// (Documentation/ABI/stable/sysfs-block: `independent_access_ranges`).
pub(crate) fn actuators(drive: &Path) -> Vec<Actuator> {
    let ranges = drive.join("queue/independent_access_ranges");
    let range = |number_of_range: usize| {
        let folder = ranges.join(number_of_range.to_string());
        let start = number(&folder.join("sector")).saturating_mul(SECTOR_BYTES);
        let length = number(&folder.join("nr_sectors")).saturating_mul(SECTOR_BYTES);
        (length > 0).then(|| Actuator { number: number_of_range, range: start..start.saturating_add(length) })
    };
    let found: Vec<Actuator> = (0..).map_while(range).collect();
    if found.len() > 1 { found } else { Vec::new() }
}

/// Text of a file of `/sys`, with one blank between its words and none around them; empty where there is no file.
pub(crate) fn text(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TEXT_MAX).collect()
}

/// The number in a file of `/sys`; 0 where there is none.
pub(crate) fn number(path: &Path) -> u64 {
    text(path).parse().unwrap_or(0)
}
