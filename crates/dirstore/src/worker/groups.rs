//! The block groups of an ext4 file system, loaded before an upload needs them.
//!
//! Who allocates must know how much is free in each group that comes into question. What ext4 does not know yet it reads,
//! one block bitmap after the other, each behind the reads of streams. Behind a mount the kernel reads them all at once,
//! beside every schedule, unless told not to (`no_prefetch_block_bitmaps`): then it is done here. A read of
//! `/proc/fs/ext4/<device>/mb_groups` loads what is not known of the groups it shows, and the counts stay as long as the
//! file system is mounted (`ext4_mb_seq_groups_show`, `ext4_mb_load_buddy`; Linux 6.18), so that groups without room
//! are passed over without a read.
//!
//! Promise: a few groups per step, each once. For other file systems, and where the kernel does it, nothing is done.
//! Not here: when (`chores`). See decisions/0014.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use kernel::clock::monotonic;
use rustix::fs::{major, minor};
use units::Nanos;

use super::Root;

/// How a mount says that the kernel loads no group before it is needed.
const UNLOADED: &str = "no_prefetch_block_bitmaps";

/// Read at once: about nine groups, for the kernel loads no more than fit. The bitmaps of 16 groups lie side by side
/// (`flex_bg`).
const PIECE_BYTES: usize = 1024;

/// A step begins no read later than this: one that moves the heads is its last.
const STEP: Nanos = Nanos::from_millis(2);

/// Nor does it begin more than this, if the kernel knows all groups.
const PIECES_PER_STEP: usize = 64;

/// Small reads of a step: the nine groups may lie on both sides of a border, and the head comes from elsewhere.
pub(super) const READS_PER_STEP: u32 = 2;

/// What the kernel is still to load.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// One per file system, read up to the next group.
    tables: Vec<File>,
}

impl Groups {
    /// Those of the file systems that `roots` lie on.
    pub(super) fn below(roots: &[Root]) -> Self {
        let mut devices: Vec<u64> = roots.iter().map(|root| root.device_number).collect();
        devices.sort_unstable();
        devices.dedup();
        let (names, tables) = (Path::new("/sys/dev/block"), Path::new("/proc/fs/ext4"));
        Self { tables: devices.into_iter().filter_map(|device| table(names, tables, device)).collect() }
    }

    pub(super) fn are_loaded(&self) -> bool {
        self.tables.is_empty()
    }

    /// Loads the next few.
    pub(super) fn load_some(&mut self) {
        let mut piece = [0; PIECE_BYTES];
        let end = monotonic().saturating_add(STEP);
        for _ in 0..PIECES_PER_STEP {
            let Some(table) = self.tables.last_mut() else { return };
            // An error is one of the file system as a whole: a group that cannot be read has a line that says so.
            if !table.read(&mut piece).is_ok_and(|bytes| bytes > 0) {
                self.tables.pop();
            }
            if monotonic() > end {
                return;
            }
        }
    }
}

/// The groups of the file system on `device`, if it is an ext4 that leaves them to us. It goes by the kernel's name of the
/// device.
fn table(names: &Path, tables: &Path, device: u64) -> Option<File> {
    let link = fs::canonicalize(names.join(format!("{}:{}", major(device), minor(device)))).ok()?;
    let shown = tables.join(link.file_name()?);
    let options = fs::read_to_string(shown.join("options")).ok()?;
    options.lines().any(|option| option == UNLOADED).then(|| File::open(shown.join("mb_groups")).ok())?
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;

    use super::*;

    /// A kernel that shows an ext4 on 253:0 with these options, and knows of a disk with something else, 8:1.
    fn kernel(options: &str, groups_bytes: usize) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for directory in ["sys/dm-0", "sys/sda1", "proc/dm-0"] {
            fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        symlink(place.path().join("sys/dm-0"), place.path().join("sys/253:0")).unwrap();
        symlink(place.path().join("sys/sda1"), place.path().join("sys/8:1")).unwrap();
        fs::write(place.path().join("proc/dm-0/options"), options).unwrap();
        fs::write(place.path().join("proc/dm-0/mb_groups"), vec![b'#'; groups_bytes]).unwrap();
        place
    }

    fn groups(kernel: &Path, device: u64) -> Groups {
        Groups { tables: table(&kernel.join("sys"), &kernel.join("proc"), device).into_iter().collect() }
    }

    #[test]
    fn all_groups_are_passed_once_and_not_in_one_step() {
        let kernel = kernel("rw\nno_prefetch_block_bitmaps\n", 5 * PIECE_BYTES * PIECES_PER_STEP);
        let mut groups = groups(kernel.path(), makedev(253, 0));
        for _ in 0..5 {
            assert!(!groups.are_loaded(), "a step is too long");
            groups.load_some();
        }
        let mut more = 0;
        while !groups.are_loaded() {
            groups.load_some();
            more += 1;
            assert!(more < 5 * PIECES_PER_STEP, "it has no end");
        }
        assert!(more > 0, "the end is seen by reading on");
    }

    #[test]
    fn what_is_no_ext4_or_loaded_by_the_kernel_is_left_alone() {
        let ours = kernel("rw\nno_prefetch_block_bitmaps\n", PIECE_BYTES);
        assert!(!groups(ours.path(), makedev(253, 0)).are_loaded());
        for device in [makedev(8, 1), makedev(0, 35)] {
            assert!(groups(ours.path(), device).are_loaded());
        }
        let loaded = kernel("rw\nprefetch_block_bitmaps\n", PIECE_BYTES);
        assert!(groups(loaded.path(), makedev(253, 0)).are_loaded());
    }
}
