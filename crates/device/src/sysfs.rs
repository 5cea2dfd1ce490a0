//! Where the kernel describes a block device.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// The folder in `/sys` of the block device with this number, which may be a partition; none if there is no such device.
pub(crate) fn folder_of(number: u64) -> Option<PathBuf> {
    folder_in(Path::new("/sys/dev/block"), number)
}

/// As [`folder_of`], among the links in `names`.
pub(crate) fn folder_in(names: &Path, number: u64) -> Option<PathBuf> {
    fs::canonicalize(names.join(format!("{}:{}", major(number), minor(number)))).ok()
}
