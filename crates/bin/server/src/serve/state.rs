//! The state folder: made, found writable and taken before anything else is done.
//!
//! Promise: one server at a time has it; another one fails with an error that names the remedy. Not here: the files in it (`device`,
//! `store`).

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use kernel::exclusive::{is_in_use, retry_while_in_use};
use rustix::fs::{Access, FlockOperation, OFlags, access, flock};

/// Locked as long as its server lives; holds the number of its process.
const LOCK: &str = "lock";
/// As `open` takes it.
const NOT_THROUGH_LINKS: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// A state folder that is this server's until this is dropped.
#[derive(Debug)]
pub(super) struct StateFolder {
    _lock: File,
}

impl StateFolder {
    /// Takes `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made or written, or another server has it.
    pub(super) fn take(folder: &Path) -> anyhow::Result<Self> {
        let name = folder.display();
        fs::create_dir_all(folder).with_context(|| {
            format!("cannot make the state folder {name}: name one that can be written with `--state DIR`")
        })?;
        let writable = || {
            format!(
                "cannot write to the state folder {name}: give it to the user that this runs as (`chown`), or name another \
                 with `--state DIR`"
            )
        };
        let link = || format!("{name}/{LOCK} is a link to another file: remove it");
        access(folder, Access::WRITE_OK | Access::EXEC_OK).with_context(writable)?;
        let mut options = OpenOptions::new();
        let mut lock = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(NOT_THROUGH_LINKS)
            .open(folder.join(LOCK))
            .with_context(|| if folder.join(LOCK).is_symlink() { link() } else { writable() })?;
        // By another name it is a file of another program, which must not be emptied.
        let facts = lock.metadata().with_context(writable)?;
        ensure!(facts.is_file() && facts.nlink() == 1, link());
        if !locked(&lock)? {
            let mut text = String::new();
            let _ = lock.read_to_string(&mut text);
            let process = text.trim().parse::<u32>().map_or("unknown".to_owned(), |process| process.to_string());
            bail!(
                "another server has the state folder {name} (process {process}): stop that one first, or give this one a \
                 folder of its own with `--state DIR`"
            );
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).with_context(writable)?;
        Ok(Self { _lock: lock })
    }
}

fn locked(lock: &File) -> anyhow::Result<bool> {
    match retry_while_in_use(|| Ok(flock(lock, FlockOperation::NonBlockingLockExclusive)?)) {
        Ok(()) => Ok(true),
        Err(error) if is_in_use(&error) => Ok(false),
        Err(error) => Err(error).context("cannot lock the state folder: is it on a network mount without locks?"),
    }
}
