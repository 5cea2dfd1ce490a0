//! An emulated disk with a file system: power cuts, and the boot after them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{program, until};

/// True if emulated disks are possible here, with room in memory for `bytes` of what will be written. (What the program
/// says where they are not: `lab_disk.rs`.)
pub fn possible(bytes: u64) -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0);
    let devices = ["/dev/fuse", "/dev/loop-control"].iter().all(|path| Path::new(path).exists());
    let room = rustix::fs::statvfs("/dev/shm").is_ok_and(|space| space.f_bavail * space.f_frsize >= bytes);
    let all = root && devices && room;
    if !all {
        eprintln!("not run: emulated disks need root, /dev/fuse, /dev/loop-control, and {bytes} bytes in /dev/shm");
    }
    all
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
}

pub struct Disk {
    name: String,
    pub file_system: FileSystem,
}

fn lab(arguments: &[&str]) -> Output {
    Command::new(program()).args(["lab", "disk"]).args(arguments).output().expect("the program runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn run(command: &mut Command) {
    let said = command.output().expect("the command is there");
    assert!(said.status.success(), "{command:?}: {}", text(&said));
}

impl Disk {
    /// `size` of mostly nothing: what is not written takes no memory.
    pub fn up(purpose: &str, size: &str, file_system: FileSystem) -> Self {
        let disk = Self { name: format!("test-{purpose}-{}", std::process::id()), file_system };
        let fs = if file_system == FileSystem::Ext4 { "ext4" } else { "xfs" };
        let said = lab(&["up", &disk.name, "--set", &format!("size={size}"), "--fs", fs]);
        assert!(said.status.success(), "{}", text(&said));
        disk
    }

    fn home(&self) -> PathBuf {
        Path::new("/run/isocast-lab").join(&self.name)
    }

    pub fn mount(&self) -> PathBuf {
        self.home().join("mnt")
    }

    pub fn device(&self) -> PathBuf {
        let state = fs::read(self.home().join("state.json")).expect("a state");
        let state: serde_json::Value = serde_json::from_slice(&state).expect("JSON");
        PathBuf::from(state["device"].as_str().expect("a device"))
    }

    pub fn ctl(&self, command: &str) -> String {
        let said = lab(&["ctl", &self.name, command]);
        assert!(said.status.success(), "{command}: {}", text(&said));
        text(&said)
    }

    /// The power comes back, as at a boot: the journal is replayed, and the file system is without fault.
    pub fn boot(&self) {
        // While anything holds the file system, its dead memory of it would be mounted again.
        until("the end of the dead mount", || {
            let said = Command::new("umount").arg(self.mount()).output().expect("umount is there");
            if said.status.success() { Ok(()) } else { Err(text(&said)) }
        });
        self.ctl("revive; timing off");
        let device = self.device();
        run(Command::new("mount").arg(&device).arg(self.mount()));
        run(Command::new("umount").arg(self.mount()));
        // Only looks: whatever it would have to mend is a failure.
        match self.file_system {
            FileSystem::Ext4 => run(Command::new("e2fsck").args(["-f", "-n"]).arg(&device)),
            FileSystem::Xfs => run(Command::new("xfs_repair").arg("-n").arg(&device)),
        }
        run(Command::new("mount").arg(&device).arg(self.mount()));
        self.ctl("timing on");
    }

    /// Takes it down, and asserts that nothing is left.
    pub fn down(self) {
        let said = lab(&["down", &self.name]);
        assert!(said.status.success(), "{}", text(&said));
        let mounts = fs::read_to_string("/proc/mounts").expect("/proc/mounts");
        assert!(!mounts.contains(&self.name) && !self.home().exists());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A failed test must not leave its disk behind; after a good one there is nothing to do.
        let _again = lab(&["down", &self.name]);
    }
}
