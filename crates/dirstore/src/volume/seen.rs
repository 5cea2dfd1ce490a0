//! The newest generation of a volume's superblock that a server has seen, which it keeps beside its other state, not on the disks.
//!
//! Why: a disk that was taken out does not know that when it is found without the others. It would be served as if it had everything,
//! and written to, so that no disk would have all that was acknowledged. See docs/decisions/0050.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use volume::VolumeId;

/// Where it is kept.
pub(super) fn file_of(state: &Path, volume: &VolumeId) -> PathBuf {
    let mut name = "volume-".to_owned();
    volume.iter().for_each(|byte| write!(name, "{byte:02x}").expect("text takes all"));
    state.join(name)
}

/// The newest that was seen; none if nothing is known.
pub(super) fn read(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

pub(super) fn write(file: &Path, generation: u64) -> io::Result<()> {
    device::state_file::replace(file, |to| writeln!(to, "{generation}"))
}
