//! Permissions of the data plane, in sentences an operator can act on.
//!
//! Promise: every refusal states its cost and its exact remedy. Not here: the requests for permissions (`io`, `thread`).

use std::fmt;
use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use units::{ByteCount, limits};

/// Descriptors wanted: a socket and a file per stream or upload, and a thousand for the rest.
pub const OPEN_FILES: u64 = 2 * limits::STREAMS_MAX as u64 + 1024;

/// Reason that the data plane cannot start at all.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// io_uring is forbidden, missing or too old.
    #[error("cannot set up io_uring: {advice}")]
    Ring {
        /// The remedy.
        advice: String,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// Memory is short.
    #[error(
        "cannot have {0} MiB of buffer memory: give the server less memory in its configuration, or the machine (or its control group) more"
    )]
    Arena(u32, #[source] io::Error),
    /// The helper threads cannot be started.
    #[error(
        "cannot start the helper threads: raise the limits of processes and of open files (`ulimit -u`, `ulimit -n`, systemd: \
         `TasksMax=`, `LimitNOFILE=`)"
    )]
    Helpers(#[source] io::Error),
    /// The plane's thread cannot be started.
    #[error(
        "cannot start the data plane's thread: raise the limits of processes and of address space (`ulimit -u`, `ulimit -v`, systemd: \
         `TasksMax=`, `LimitAS=`)"
    )]
    Thread(#[source] io::Error),
}

impl StartError {
    pub(crate) fn ring(source: io::Error) -> Self {
        let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
        let advice = ring_advice(source.raw_os_error(), disabled.trim());
        Self::Ring { advice, source }
    }
}

fn ring_advice(errno: Option<i32>, disabled: &str) -> String {
    match (errno, disabled) {
        (Some(libc::EPERM), "1" | "2") => format!(
            "it is switched off (kernel.io_uring_disabled = {disabled}): run `sysctl -w kernel.io_uring_disabled=0` as root \
             and put the same line into /etc/sysctl.d/ to keep it; with 1 it is enough that the server's group is \
             kernel.io_uring_group"
        ),
        (Some(libc::EPERM | libc::EACCES | libc::ENOSYS), _) => {
            "the kernel lacks it, or a filter forbids it (containers do by default): permit io_uring_setup, \
             io_uring_enter and io_uring_register in the container's seccomp profile (Docker: `--security-opt \
             seccomp=profile.json`; systemd: `SystemCallFilter=@io-uring`)"
                .to_owned()
        }
        (Some(libc::EINVAL), _) => "this kernel is too old: Linux 6.1 or later is needed".to_owned(),
        (Some(libc::ENOMEM), _) => {
            "no memory for its queues: raise the limit of locked memory (`ulimit -l unlimited`, systemd: \
             `LimitMEMLOCK=infinity`)"
                .to_owned()
        }
        (Some(libc::EMFILE | libc::ENFILE), _) => {
            "too many open files: raise the limit (`ulimit -n`, systemd: `LimitNOFILE=`)".to_owned()
        }
        _ => "the kernel refused for a reason of its own".to_owned(),
    }
}

/// Subject of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionSubject {
    /// io_uring rather than ordinary system calls.
    Engine,
    /// Descriptors at once.
    OpenFiles,
    /// Buffer memory locked.
    LockedMemory,
    /// Buffer memory on huge pages.
    HugePages,
    /// Buffer memory lent to sockets.
    Lending,
    /// `SCHED_FIFO`.
    RealTime,
    /// A CPU of its own.
    Processor,
}

/// A permission that was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// Its subject.
    pub subject: PermissionSubject,
    /// True if it was granted. The server runs without.
    pub granted: bool,
    /// The extent of the permission, or the cost of its lack and the remedy.
    pub sentence: String,
}

/// All permissions that were requested, for the start-up message and `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions(pub Vec<Permission>);

impl Permissions {
    /// Returns the permission of a subject.
    #[must_use]
    pub fn of(&self, subject: PermissionSubject) -> Option<&Permission> {
        self.0.iter().find(|permission| permission.subject == subject)
    }

    /// Returns the permissions that were granted.
    pub fn granted(&self) -> impl Iterator<Item = &Permission> {
        self.0.iter().filter(|permission| permission.granted)
    }

    /// Returns the permissions that were refused.
    pub fn refused(&self) -> impl Iterator<Item = &Permission> {
        self.0.iter().filter(|permission| !permission.granted)
    }

    pub(crate) fn say(&mut self, subject: PermissionSubject, granted: bool, sentence: String) {
        self.0.push(Permission { subject, granted, sentence });
    }

    /// Raises the soft limit of descriptors to the hard one, and notes if that is enough.
    pub(crate) fn open_files(&mut self) {
        let limit = raise(Resource::Nofile, OPEN_FILES);
        let has = limit.map_or("no limit".to_owned(), |limit| limit.to_string());
        if limit.is_none_or(|limit| limit >= OPEN_FILES) {
            self.say(PermissionSubject::OpenFiles, true, format!("open files: {has}"));
        } else {
            let streams = limits::STREAMS_MAX;
            let sentence = format!(
                "open files: {has}, which is less than {streams} streams may need ({OPEN_FILES}): raise the hard limit \
                 (`ulimit -Hn {OPEN_FILES}`, systemd: `LimitNOFILE={OPEN_FILES}`)"
            );
            self.say(PermissionSubject::OpenFiles, false, sentence);
        }
    }

    pub(crate) fn arena(&mut self, bytes: u64, not_locked: Option<&io::Error>) {
        let size = ByteCount(bytes);
        let transparent = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let granted = !transparent.is_empty() && !transparent.contains("[never]");
        let sentence = if granted {
            format!("up to {size} of buffers on transparent huge pages as far as there are any free")
        } else {
            format!(
                "up to {size} of buffers on small pages, which costs processor time per read: write madvise to \
                 /sys/kernel/mm/transparent_hugepage/enabled"
            )
        };
        self.say(PermissionSubject::HugePages, granted, sentence);
        match not_locked {
            None => self.say(PermissionSubject::LockedMemory, true, "buffers locked in memory".to_owned()),
            Some(error) => {
                let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
                let sentence = format!(
                    "buffers not locked in memory ({error}; {size} wanted, the limit is {}): a machine short of memory may \
                     page them out and streams then miss; raise the limit (`ulimit -l unlimited`, systemd: \
                     `LimitMEMLOCK=infinity`) or grant CAP_IPC_LOCK",
                    ByteCount(limit)
                );
                self.say(PermissionSubject::LockedMemory, false, sentence);
            }
        }
    }

    pub(crate) fn lending(&mut self, possible: bool) {
        let sentence = if possible {
            "bytes that several streams share are lent to their sockets"
        } else {
            "bytes that several streams share are copied to their sockets, which costs processor time: lending them takes \
             Linux 5.18, pages of 4 KiB, /dev/null, and `vmsplice` and `splice` permitted by the container's seccomp profile"
        };
        self.say(PermissionSubject::Lending, possible, sentence.to_owned());
    }
}

impl fmt::Display for Permissions {
    /// One line each, those refused marked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for permission in &self.0 {
            writeln!(f, "{} {}", if permission.granted { "[ok]" } else { "[--]" }, permission.sentence)?;
        }
        Ok(())
    }
}

/// Lets this process open this number of files, and a few of its own.
///
/// # Errors
/// This number is not permitted; the text says how to permit it.
pub fn allow_open_files(files: u64) -> io::Result<()> {
    let needed = files.saturating_add(64);
    match raise(Resource::Nofile, needed) {
        Some(limit) if limit < needed => Err(io::Error::other(format!(
            "{needed} open files are needed, {limit} permitted: raise the limit (`ulimit -n {needed}` or LimitNOFILE=)"
        ))),
        _ => Ok(()),
    }
}

/// Raises the soft limit to `wanted` or as far as permitted; returns the resulting limit (none: unlimited).
fn raise(resource: Resource, wanted: u64) -> Option<u64> {
    let limit = getrlimit(resource);
    let current = limit.current?;
    if current >= wanted {
        return Some(current);
    }
    let within = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    // First the hard limit too, which only CAP_SYS_RESOURCE may raise; else the soft limit within the hard one.
    let raised = [
        Rlimit { current: Some(wanted), maximum: limit.maximum.map(|m| m.max(wanted)) },
        Rlimit { current: Some(within), maximum: limit.maximum },
    ];
    let _ = raised.into_iter().any(|limit| setrlimit(resource, limit).is_ok());
    getrlimit(resource).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_switch_the_filter_and_the_version() {
        assert!(ring_advice(Some(libc::EPERM), "2").contains("kernel.io_uring_disabled=0"));
        assert!(ring_advice(Some(libc::EPERM), "0").contains("seccomp"));
        assert!(ring_advice(Some(libc::ENOSYS), "").contains("seccomp"));
        assert!(ring_advice(Some(libc::EINVAL), "0").contains("6.1"));
        assert!(ring_advice(Some(libc::ENOMEM), "0").contains("LimitMEMLOCK"));
    }

    #[test]
    fn refusals_are_marked_and_found() {
        let mut permissions = Permissions::default();
        permissions.say(PermissionSubject::RealTime, false, "no real-time priority".to_owned());
        permissions.say(PermissionSubject::Processor, true, "the data plane has CPU 1".to_owned());
        assert_eq!(permissions.refused().count(), 1);
        assert!(permissions.of(PermissionSubject::Processor).unwrap().granted);
        assert!(permissions.to_string().starts_with("[--] no real-time"));
    }
}
