//! Machine of a result: without it a figure means nothing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::say;
use serde::{Deserialize, Serialize};

use super::{account, child};

/// The machine, the disk and the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Host {
    /// The machine's name.
    pub name: String,
    /// Date and time, UTC.
    pub date: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub processor: String,
    /// Processors this program may use.
    pub processors: usize,
    /// Memory, KiB.
    pub memory_kib: u64,
    /// Version of this program.
    pub version: String,
    /// Commit of the source it was built from, where that is known.
    pub commit: Option<String>,
    /// The disk of the contents.
    pub disk: Option<HostDisk>,
}

/// The disk under the contents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostDisk {
    /// Its name.
    pub device: String,
    /// Model of the disk, as far as the kernel reports it.
    pub model: String,
    /// Whether it spins.
    pub rotational: bool,
    /// Bytes.
    pub bytes: u64,
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The kernel's read-ahead, KiB.
    pub read_ahead_kb: u64,
    /// The file system of the contents.
    pub file_system: String,
}

impl Host {
    /// This machine, now; the disk under `root`.
    pub(crate) fn here(root: Option<&Path>) -> Self {
        let uname = rustix::system::uname();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            name: uname.nodename().to_string_lossy().into_owned(),
            date: tool("date --utc +%Y-%m-%dT%H:%M:%SZ"),
            kernel: uname.release().to_string_lossy().into_owned(),
            processor: value(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_kib: value(&meminfo, "MemTotal").and_then(|v| v.split(' ').next()?.parse().ok()).unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // A benchmark is run from its own source, or has none to name.
            commit: Some(tool("git describe --always --dirty --abbrev=12")).filter(|commit| !commit.is_empty()),
            disk: root.and_then(disk),
        }
    }
}

impl Host {
    /// Machine and date in a line.
    pub(crate) fn sentence(&self) -> String {
        let Self { date, processors, processor, kernel, .. } = self;
        let disk = self.disk.as_ref().map(|disk| format!(" · {} {} ({})", disk.device, disk.model, disk.file_system));
        format!("{date} · {processors} × {processor} · Linux {kernel}{}", disk.unwrap_or_default())
    }
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|l| l.strip_prefix(key)?.trim_start().strip_prefix(':').map(str::trim))
}

/// The output of a tool; empty if it has none.
fn tool(line: &str) -> String {
    child::tool(line, "").unwrap_or_default().trim().to_owned()
}

fn disk(root: &Path) -> Option<HostDisk> {
    let device = account::device_of(root)?;
    let block = Path::new("/sys/class/block").join(&device);
    let queue = queue_of(&block)?;
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let scheduler = read(queue.join("scheduler"));
    let chosen = scheduler.split(['[', ']']).nth(1).unwrap_or(&scheduler).to_owned();
    let backing = read(block.join("loop/backing_file"));
    Some(HostDisk {
        model: if backing.is_empty() { read(block.join("device/model")) } else { "loop device".to_owned() },
        rotational: read(queue.join("rotational")) == "1",
        bytes: read(block.join("size")).parse::<u64>().unwrap_or(0) * 512,
        scheduler: chosen,
        read_ahead_kb: read(queue.join("read_ahead_kb")).parse().unwrap_or(0),
        file_system: file_system(root).unwrap_or_default(),
        device,
    })
}

/// A partition has no queue of its own: its disk's is one step up.
fn queue_of(block: &Path) -> Option<PathBuf> {
    [block.join("queue"), block.join("../queue")].into_iter().find(|queue| queue.exists())
}

/// The type of the file system that holds `path`: of the mounts above it, the longest.
fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts
        .lines()
        .filter_map(|l| {
            let mut fields = l.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(at, _)| path.starts_with(at))
        .max_by_key(|(at, _)| at.len())
        .map(|(_, kind)| kind.to_owned())
}

/// A device's read-ahead, set for as long as this lives.
#[derive(Debug)]
pub(crate) struct KernelReadAhead {
    file: PathBuf,
    before: String,
}

impl KernelReadAhead {
    /// Sets the read-ahead of the disk under `root`; `None` where it cannot be set (not root, no disk).
    pub(crate) fn set(root: &Path, kib: u64) -> Option<Self> {
        let block = Path::new("/sys/class/block").join(account::device_of(root)?);
        let file = queue_of(&block)?.join("read_ahead_kb");
        let before = fs::read_to_string(&file).ok()?.trim().to_owned();
        fs::write(&file, kib.to_string()).ok()?;
        Some(Self { file, before })
    }
}

impl Drop for KernelReadAhead {
    fn drop(&mut self) {
        if let Err(e) = fs::write(&self.file, &self.before) {
            say(format_args!("isocast bench: setting {} back to {}: {e}", self.file.display(), self.before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_processors() {
        let host = Host::here(Some(Path::new(".")));
        assert!(host.date.ends_with('Z') && !host.kernel.is_empty() && host.processors >= 1 && host.memory_kib > 1024);
    }
}
