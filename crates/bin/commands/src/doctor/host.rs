//! Sources of facts: files of `/proc` and `/sys`, and the output of a few commands.
//!
//! Promise: nothing is changed; a file that is not there and a command that fails or does not end are no facts. A test gives a folder that
//! stands for `/`, in which `commands/` holds the output of commands.

use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

/// Longest run of a command: a disk that hangs holds each command that queries it.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest answer of a command that is looked at.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// A machine that is looked at.
pub(super) struct Examined {
    root: PathBuf,
    /// Commands are not run: their output is read from a folder.
    recorded: bool,
}

impl Examined {
    /// The machine this runs on.
    pub(super) fn this() -> Self {
        Self { root: PathBuf::from("/"), recorded: false }
    }

    /// A machine in a folder.
    #[cfg(test)]
    pub(super) fn recorded(root: &Path) -> Self {
        Self { root: root.to_owned(), recorded: true }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file, without the white space around it.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The number in a file.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// The length of a file.
    pub(super) fn bytes(&self, path: &Path) -> Option<u64> {
        fs::metadata(self.path(&path.display().to_string())).ok().map(|what| what.len())
    }

    /// The names in a folder, in order.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The text of a link.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok()?.into_os_string().into_string().ok()
    }

    /// Where a link leads, as a path of the machine.
    pub(super) fn resolved(&self, path: &str) -> Option<String> {
        let whole = self.path(path).canonicalize().ok()?;
        let root = self.root.canonicalize().ok()?;
        Some(format!("/{}", whole.strip_prefix(root).ok()?.display()))
    }

    /// True if there is such a command.
    pub(super) fn has(&self, program: &str) -> bool {
        if self.recorded {
            return self.names("/commands").iter().any(|name| name.split(' ').next() == Some(program));
        }
        std::env::split_paths(&search_path()).any(|folder| folder.join(program).is_file())
    }

    /// Output of a command, whatever its exit code; `None` if there is no such command or it does not end.
    pub(super) fn prints(&self, program: &str, arguments: &[&str]) -> Option<String> {
        if self.recorded {
            let name = format!("{program} {}", arguments.join(" ")).replace('/', "_");
            return self.read(&format!("/commands/{name}"));
        }
        let mut child = Program::new(program)
            .args(arguments)
            .env("LC_ALL", "C")
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let pipe = child.stdout.take()?;
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            pipe.take(ANSWER_BYTES_MAX).read_to_string(&mut text).map(|_| text)
        });
        let end = Instant::now() + COMMAND_TIME_MAX;
        while !reader.is_finished() {
            if Instant::now() > end {
                let _ = child.kill();
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.wait();
        reader.join().ok()?.ok()
    }

    /// Files of a folder and below, at most this number.
    pub(super) fn files(&self, folder: &Path, most: usize) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut waiting = vec![self.path(&folder.display().to_string())];
        let root = &self.root;
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && waiting.len() < most => waiting.push(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        found.push(Path::new("/").join(entry.path().strip_prefix(root).unwrap_or(&entry.path())));
                    }
                    _ => {}
                }
                if found.len() >= most {
                    return found;
                }
            }
        }
        found
    }
}

/// Search path of commands: also folders that an ordinary user's lacks, for `ethtool` lies there.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}
