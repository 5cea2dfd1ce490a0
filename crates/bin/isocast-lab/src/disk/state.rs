//! State of each emulated disk, in `/run/isocast-lab/NAME/`: enough to take it down after any crash.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

const RUN: &str = "/run/isocast-lab";

/// The places of one disk.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) name: String,
    pub(crate) home: PathBuf,
}

impl Places {
    /// The places of the disk `name`.
    pub(crate) fn of(name: &str) -> anyhow::Result<Self> {
        crate::check_name("disk", name)?;
        Ok(Self { name: name.to_owned(), home: Path::new(RUN).join(name) })
    }

    /// All disks that have left something.
    pub(crate) fn all() -> Vec<Self> {
        let entries = fs::read_dir(RUN).into_iter().flatten().flatten();
        let mut all: Vec<_> = entries.filter_map(|e| Self::of(&e.file_name().to_string_lossy()).ok()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub(crate) fn fuse(&self) -> PathBuf {
        self.home.join("fuse")
    }

    pub(crate) fn disk(&self) -> PathBuf {
        self.home.join("fuse/disk")
    }

    pub(crate) fn mount(&self) -> PathBuf {
        self.home.join("mnt")
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.home.join("control")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.home.join("daemon.log")
    }

    fn state(&self) -> PathBuf {
        self.home.join("state.json")
    }

    pub(crate) fn load(&self) -> Option<EmulatorState> {
        serde_json::from_slice(&fs::read(self.state()).ok()?).ok()
    }

    pub(crate) fn save(&self, state: &EmulatorState) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(state).context("state.json")?;
        let draft = self.home.join("state.json.new");
        fs::write(&draft, text).and_then(|()| fs::rename(&draft, self.state())).context("cannot write state.json")
    }

    /// Makes the directory of the disk, the file system's mount point in it included.
    pub(crate) fn make(&self) -> io::Result<()> {
        under_directory_lock(Path::new(RUN), || fs::create_dir_all(self.fuse()))
    }

    /// Removes the directory, and the one above it if it was the last.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for directory in [self.fuse(), self.mount()] {
            unless_missing(fs::remove_dir(directory))?;
        }
        let others = ["state.json.new", "offsets"].map(|name| self.home.join(name));
        for file in [self.control(), self.log(), self.state()].into_iter().chain(others) {
            unless_missing(fs::remove_file(file))?;
        }
        unless_missing(fs::remove_dir(&self.home))?;
        remove_shared(Path::new(RUN))
    }
}

/// The outcome of a removal, which need not find anything.
pub(crate) fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Makes the file if it is missing, in a directory that disks share.
pub(crate) fn make_shared_file(path: &Path) -> io::Result<()> {
    let shared = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    under_directory_lock(shared, || {
        fs::create_dir_all(shared)?;
        fs::OpenOptions::new().append(true).create(true).open(path).map(drop)
    })
}

/// The file in memory behind a disk that has no `--backing`.
pub(crate) fn memory_backing(name: &str) -> PathBuf {
    PathBuf::from(format!("/dev/shm/isocast-lab/{name}.img"))
}

/// Removes a directory that disks share, unless others are in it.
pub(crate) fn remove_shared(shared: &Path) -> io::Result<()> {
    under_directory_lock(shared, || match fs::remove_dir(shared) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => Ok(()),
        removed => removed,
    })
}

/// Does the work while no other disk makes or removes the shared directory: the first makes it, the last removes it,
/// and in between it may be empty. The lock is on the directory above, so that nothing of it is left.
fn under_directory_lock(shared: &Path, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let above = File::open(shared.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    rustix::fs::flock(&above, FlockOperation::LockExclusive)?;
    work()
}

/// Parts that `up` has made so far.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
pub(crate) struct EmulatorState {
    pub(crate) name: String,
    pub(crate) profile: String,
    /// `key=value` of every drive parameter.
    pub(crate) parameters: Vec<String>,
    pub(crate) backing: PathBuf,
    /// The backing file stays after `down`.
    pub(crate) keep: bool,
    pub(crate) seed: u64,
    pub(crate) daemon: Option<ProcessId>,
    /// The disk is taken down when this process ends: `up` itself until it has made the disk, then the process it is for.
    pub(crate) owner: Option<ProcessId>,
    /// `/dev/loopN`.
    pub(crate) device: Option<PathBuf>,
    pub(crate) file_system: Option<String>,
    pub(crate) mount: Option<PathBuf>,
    /// Directories made for the mount point, the deepest first.
    #[serde(default)]
    pub(crate) made: Vec<PathBuf>,
    /// All steps of `up` were done.
    pub(crate) ready: bool,
}

/// A process, and when it started: a number that was given to another process later does not match.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    pub(crate) started: u64,
}

impl ProcessId {
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command's name, in parentheses, may hold anything; 20 fields after it comes the start time.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        if fields.first() == Some(&"Z") {
            return None;
        }
        Some(Self { pid, started: fields.get(19)?.parse().ok()? })
    }

    pub(crate) fn is_running(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// A handle that becomes readable when it ends; `None` if it has ended.
    pub(crate) fn handle(self) -> Option<OwnedFd> {
        let handle = rustix::process::pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        self.is_running().then_some(handle)
    }

    /// Returns when it has ended.
    pub(crate) fn wait(self) {
        if let Some(handle) = self.handle() {
            has_ended(&handle, None);
        }
    }
}

/// Whether the process of this handle ends within `patience`; waits for it without one.
pub(crate) fn has_ended(handle: &OwnedFd, patience: Option<Duration>) -> bool {
    let timeout = patience.map(|patience| Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    });
    loop {
        match rustix::event::poll(&mut [PollFd::new(handle, PollFlags::IN)], timeout.as_ref()) {
            Err(Errno::INTR) => {}
            polled => return polled.is_ok_and(|ready| ready > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_leaves_a_shared_directory_does_not_remove_it_under_the_next() {
        let root = std::env::temp_dir().join(format!("isocast-lab-shared-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a directory");
        let shared = root.join("shared");
        std::thread::scope(|scope| {
            for disk in 0..4 {
                let (shared, file) = (&shared, shared.join(format!("{disk}.img")));
                scope.spawn(move || {
                    for _ in 0..1000 {
                        make_shared_file(&file).expect("made, whoever removes the directory");
                        fs::remove_file(&file).expect("it was made");
                        remove_shared(shared).expect("removed, or left to the others");
                    }
                });
            }
        });
        assert!(!shared.exists(), "the last one removes it");
        fs::remove_dir(&root).expect("nothing else is left");
    }
}
