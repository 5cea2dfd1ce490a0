//! Small disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system in memory, unmounted at the end.
pub struct Small(pub PathBuf);

impl Small {
    /// None where mounting is not permitted.
    pub fn mount(folder: &Path, size: &str) -> Option<Self> {
        let path = folder.join("small");
        fs::create_dir(&path).expect("a mount point");
        let size = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "isocast-test"]).arg(&path).output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
