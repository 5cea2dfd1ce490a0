//! An emulated disk with a file system: power cuts, and the boot after them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags};

use super::skip::skipped;
use super::{program_and_others, until};

/// True if this process may make emulated disks. (The program's answer where it may not: `lab_disk.rs`.)
pub fn permitted() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0);
    root && ["/dev/fuse", "/dev/loop-control"].iter().all(|path| Path::new(path).exists())
}

/// True if emulated disks are possible here, with room in memory for `bytes` written to them.
pub fn possible(bytes: u64) -> bool {
    let room = rustix::fs::statvfs("/dev/shm").is_ok_and(|space| space.f_bavail * space.f_frsize >= bytes);
    let all = permitted() && room;
    if !all {
        skipped(&format!("emulated disks need root, /dev/fuse, /dev/loop-control, and {bytes} bytes in /dev/shm"));
    }
    all
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
    /// Overlay on ext4, as containers have it: written through the page cache.
    Overlay,
    None,
}

impl FileSystem {
    /// Name of the format of the device.
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Overlay => "ext4",
            Self::Xfs => "xfs",
            Self::None => "none",
        }
    }
}

pub struct Disk {
    pub name: String,
    size: String,
    pub file_system: FileSystem,
}

/// `isocast lab disk …`.
pub fn lab(arguments: &[&str]) -> Output {
    Command::new(program_and_others()).args(["lab", "disk"]).args(arguments).output().expect("the program runs")
}

/// All that a program said.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn run(command: &mut Command) {
    let said = command.output().expect("the command is there");
    assert!(said.status.success(), "{command:?}: {}", text(&said));
}

impl Disk {
    /// Makes a disk of `size`, mostly empty: unwritten bytes take no memory.
    pub fn up(purpose: &str, size: &str, file_system: FileSystem) -> Self {
        Self::raised(purpose, size, file_system, &[])
    }

    /// A disk that goes when process `owner` ends.
    pub fn owned(owner: u32, size: &str) -> Self {
        Self::raised("owned", size, FileSystem::Ext4, &["--owner", &owner.to_string()])
    }

    /// With more arguments.
    pub fn raised(purpose: &str, size: &str, file_system: FileSystem, more: &[&str]) -> Self {
        static RAISED: AtomicU32 = AtomicU32::new(0);
        // Tests of one process run concurrently, and two may have the same purpose.
        let name = format!("test-{purpose}-{}-{}", std::process::id(), RAISED.fetch_add(1, Ordering::Relaxed));
        let disk = Self { name, size: size.to_owned(), file_system };
        disk.raise(more);
        disk
    }

    /// A disk that the program itself makes.
    pub fn named(name: String) -> Self {
        Self { name, size: String::new(), file_system: FileSystem::Ext4 }
    }

    /// Makes it again after [`Self::down`], or over one of its name that died.
    pub fn raise(&self, more: &[&str]) {
        let size = format!("size={}", self.size);
        let arguments = ["up", &self.name, "--set", &size, "--fs", self.file_system.name()];
        let said = lab(&[&arguments[..], more].concat());
        assert!(said.status.success(), "{}", text(&said));
        self.lay_over();
    }

    pub fn home(&self) -> PathBuf {
        Path::new("/run/isocast-lab").join(&self.name)
    }

    pub fn mount(&self) -> PathBuf {
        self.home().join("mnt")
    }

    /// The folder to serve.
    pub fn folder(&self) -> PathBuf {
        if self.file_system == FileSystem::Overlay { self.mount().join("merged") } else { self.mount() }
    }

    /// Mounts the overlay, where there is to be one.
    fn lay_over(&self) {
        if self.file_system != FileSystem::Overlay {
            return;
        }
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| self.mount().join(name));
        for folder in [&lower, &upper, &work, &self.folder()] {
            fs::create_dir_all(folder).expect("made");
        }
        let layers = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        run(Command::new("mount").args(["-t", "overlay", "-o", &layers, "overlay"]).arg(self.folder()));
    }

    fn state(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.home().join("state.json")).expect("a state")).expect("JSON")
    }

    pub fn device(&self) -> PathBuf {
        PathBuf::from(self.state()["device"].as_str().expect("a device"))
    }

    /// Process of its daemon.
    pub fn daemon(&self) -> String {
        self.state()["daemon"]["pid"].to_string()
    }

    pub fn ctl(&self, command: &str) -> String {
        let said = lab(&["ctl", &self.name, command]);
        assert!(said.status.success(), "{command}: {}", text(&said));
        text(&said)
    }

    pub fn stat(&self) -> serde_json::Value {
        serde_json::from_slice(&lab(&["stat", &self.name, "--json"]).stdout).expect("JSON")
    }

    /// The power comes back, as at a boot: the journal is replayed, and the file system is without fault.
    pub fn boot(&self) {
        if self.file_system == FileSystem::None {
            self.ctl("revive");
            return;
        }
        // While anything holds the file system, its dead memory of it would be mounted again.
        let overlay = (self.file_system == FileSystem::Overlay).then(|| self.folder());
        for dead in overlay.into_iter().chain([self.mount()]) {
            until("the end of the dead mount", || {
                let said = Command::new("umount").arg(&dead).output().expect("umount is there");
                if said.status.success() { Ok(()) } else { Err(text(&said)) }
            });
        }
        let device = self.device();
        // A mount namespace that another program made meanwhile has a copy of the mount, and ends with it.
        until("the end of copies of the dead mount", || {
            rustix::fs::open(&device, OFlags::RDONLY | OFlags::EXCL, Mode::empty()).map_err(|error| error.to_string())
        });
        self.ctl("revive; timing off");
        run(Command::new("mount").arg(&device).arg(self.mount()));
        run(Command::new("umount").arg(self.mount()));
        // Only looks: anything to mend is a failure.
        match self.file_system {
            FileSystem::Ext4 | FileSystem::Overlay => run(Command::new("e2fsck").args(["-f", "-n"]).arg(&device)),
            FileSystem::Xfs => run(Command::new("xfs_repair").arg("-n").arg(&device)),
            FileSystem::None => {}
        }
        run(Command::new("mount").arg(&device).arg(self.mount()));
        self.lay_over();
        self.ctl("timing on");
    }

    pub fn down(&self) {
        self.uncover();
        let said = lab(&["down", &self.name]);
        assert!(said.status.success(), "{}", text(&said));
    }

    /// Takes the overlay away, if there is one: it holds the disk.
    fn uncover(&self) {
        if self.file_system == FileSystem::Overlay {
            let _gone = Command::new("umount").arg(self.folder()).output();
        }
    }

    /// Takes it down, and asserts that nothing is left.
    pub fn end(self) {
        let daemon = self.daemon();
        self.down();
        self.assert_nothing_left(&daemon);
    }

    /// Mounts, loop devices, files and the daemon are gone.
    pub fn assert_nothing_left(&self, daemon: &str) {
        assert_eq!(self.left(daemon), Ok(()));
    }

    pub fn assert_daemon_gone(&self, daemon: &str) {
        assert!(!self.has_daemon(daemon), "the daemon still runs");
    }

    /// The first thing that is left of it.
    pub fn left(&self, daemon: &str) -> Result<(), String> {
        let mounts = fs::read_to_string("/proc/mounts").expect("/proc/mounts");
        if mounts.contains(&self.name) {
            return Err(mounts);
        }
        for entry in fs::read_dir("/sys/block").expect("/sys/block").flatten() {
            let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            if backing.contains(&self.name) {
                return Err(format!("{:?} is over {backing}", entry.file_name()));
            }
        }
        let image = Path::new("/dev/shm/isocast-lab").join(format!("{}.img", self.name));
        if let Some(path) = [self.home(), image].iter().find(|path| path.exists()) {
            return Err(path.display().to_string());
        }
        if self.has_daemon(daemon) { Err("the daemon still runs".to_owned()) } else { Ok(()) }
    }

    fn has_daemon(&self, daemon: &str) -> bool {
        fs::read_to_string(format!("/proc/{daemon}/cmdline")).is_ok_and(|command| command.contains(&self.name))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A failed test must not leave its disk behind; after a good one there is nothing to do.
        self.uncover();
        let _again = lab(&["down", &self.name]);
    }
}
