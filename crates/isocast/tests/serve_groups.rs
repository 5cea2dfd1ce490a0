//! The real server on a cold ext4 that is mounted without prefetching: it has the kernel load the block groups.
//!
//! Promise: nobody needs to read a block bitmap afterwards. Not here: when it is done beside streams (`schedule`).

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use common::disk::{Disk, FileSystem, lab, possible, text};
use common::server::Server;
use common::until;

/// Of 128 MiB each, on a disk of 4 GiB.
const GROUPS: u64 = 32;

/// Reads of a block device since it is there.
fn reads(device: &Path) -> u64 {
    let name = device.file_name().expect("a name").to_string_lossy();
    let line = fs::read_to_string(format!("/sys/block/{name}/stat")).expect("figures of the device");
    line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

/// Has the kernel load all groups, and counts the reads that takes.
fn reads_for_all_groups(device: &Path) -> u64 {
    let name = device.file_name().expect("a name").to_string_lossy();
    let before = reads(device);
    fs::read(format!("/proc/fs/ext4/{name}/mb_groups")).expect("the groups");
    reads(device) - before
}

/// As after a boot: nothing of the file system is in memory.
fn mount_anew(disk: &Disk) {
    let device = disk.device();
    assert!(Command::new("umount").arg(disk.mount()).status().expect("umount runs").success());
    assert!(Command::new("blockdev").arg("--flushbufs").arg(&device).status().expect("blockdev runs").success());
    let mut mount = Command::new("mount");
    mount.args(["-o", "noinit_itable,no_prefetch_block_bitmaps"]).arg(&device).arg(disk.mount());
    assert!(mount.status().expect("mount runs").success());
}

#[test]
fn the_groups_of_a_cold_file_system_are_loaded_before_an_upload_needs_them() {
    if !possible(64 << 20) {
        return;
    }
    let disk = Disk::up("groups", "4G", FileSystem::Ext4);
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    Server::calibrate(&disk.mount(), state.path());
    // Something in every group: of an empty one the kernel knows what its bitmap says.
    let filled = lab(&["fill", &disk.name, "--files", "40", "--size", "1M", "--spread"]);
    assert!(filled.status.success(), "{}", text(&filled));
    let device = disk.device();

    mount_anew(&disk);
    let all = reads_for_all_groups(&device);
    assert!(all >= GROUPS / 2, "{all} reads: the file system is not cold, or reads in other pieces now");
    assert!(reads_for_all_groups(&device) <= all / 8, "once loaded they stay");

    mount_anew(&disk);
    let mounted = reads(&device);
    let server = Server::start(&[&disk.mount()], state.path(), &[]);
    until("the reads of all groups", || {
        let since = reads(&device) - mounted;
        if since >= all { Ok(()) } else { Err(format!("{since} reads of {all}")) }
    });
    // The server has read some other things as well, which are few.
    let left = reads_for_all_groups(&device);
    assert!(left <= all / 2, "{left} of {all} groups were not loaded");
    let (status, said) = server.stop();
    assert!(status.success(), "{said}");
    File::open(disk.mount()).expect("it is still mounted");
    disk.end();
}
