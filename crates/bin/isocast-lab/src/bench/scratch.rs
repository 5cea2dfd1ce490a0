//! Temporary folders, named after the process they belong to.
//!
//! Promise: a folder is removed when it is dropped; the next benchmark removes the folders of a killed process. Not here: the
//! files in them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context;
use tempfile::TempDir;

/// Prefix of the names of folders in memory and in the system's temporary folder.
const PREFIX: &str = "isocast-bench-";
/// Prefix of the names of folders among contents: hidden, so that they are not served.
const PREFIX_AMONG_CONTENTS: &str = ".isocast-bench-";

/// Makes a folder in the system's temporary folder.
///
/// # Errors
/// It cannot be written.
pub(super) fn folder() -> anyhow::Result<TempDir> {
    make(&std::env::temp_dir(), PREFIX)
}

/// Makes a folder in `parent`.
///
/// # Errors
/// It cannot be written.
pub(super) fn folder_in(parent: &Path) -> anyhow::Result<TempDir> {
    make(parent, PREFIX)
}

/// Makes a folder among the contents in `root`.
///
/// # Errors
/// It cannot be written.
pub(super) fn among_contents(root: &Path) -> anyhow::Result<TempDir> {
    make(root, PREFIX_AMONG_CONTENTS)
}

fn make(parent: &Path, prefix: &str) -> anyhow::Result<TempDir> {
    remove_left(parent, prefix);
    tempfile::Builder::new()
        .prefix(&format!("{prefix}{}-", std::process::id()))
        .tempdir_in(parent)
        .with_context(|| format!("making a temporary folder in {}", parent.display()))
}

/// Removes this user's folders of processes that have ended. A folder that cannot be removed does not stop the benchmark.
fn remove_left(parent: &Path, prefix: &str) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| owner_of(name, prefix));
        let is_own = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if is_own && owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn owner_of(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_processes_that_have_ended_are_removed_by_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let left = parent.path().join(format!("{PREFIX}{}-abc", ended.id()));
        let others = ["isocast-bench-x-1", "somebody-elses-1-2"].map(|name| parent.path().join(name));
        for folder in others.iter().chain([&left]) {
            fs::create_dir_all(folder.join("state")).unwrap();
        }
        let own = folder_in(parent.path()).unwrap();
        assert!(!left.exists() && others.iter().all(|folder| folder.exists()));
        let second = folder_in(parent.path()).unwrap();
        assert!(own.path().exists() && second.path().exists(), "of a process that runs");
    }
}
