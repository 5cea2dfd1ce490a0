//! Files and disks that one process holds alone.
//!
//! Promise: a caller gets a file that a process still holds after its end; it gets an error after [`PATIENCE`] if a running process holds
//! the file. Not here: the identity of the holder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use content::layout::FileAccess;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// The kernel releases the files of a ring some time after the end of its process (liburing 1627), and a process stops soon on
/// request. Chosen: some milliseconds were measured for the first, a busy disk makes them more.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two attempts. Chosen: a person does not notice it.
const PERIOD: Duration = Duration::from_millis(10);

/// Repeats `attempt` while its file is in use (`EWOULDBLOCK` from a lock, `EBUSY` from an exclusive opening), for [`PATIENCE`].
///
/// # Errors
/// The error of the last attempt.
pub fn retry_while_in_use<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_in_use(&error) && Instant::now() < deadline => sleep(PERIOD),
            outcome => return outcome,
        }
    }
}

/// Purpose of opening a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reading, with other readers.
    Read,
    /// Writing, alone.
    Write,
}

/// Opens a disk, or a file that is one, past the page cache where its file system can do that, and locks it; a device for writing also
/// against mounts.
///
/// # Errors
/// The system's; [`is_in_use`] is true of it if another process holds the disk.
pub fn open_disk(path: &Path, purpose: Purpose) -> io::Result<(File, FileAccess)> {
    let (writes, lock) = match purpose {
        Purpose::Read => (false, FlockOperation::NonBlockingLockShared),
        Purpose::Write => (true, FlockOperation::NonBlockingLockExclusive),
    };
    let is_device = path.metadata()?.file_type().is_block_device();
    let exclusive = if is_device && writes { OFlags::EXCL } else { OFlags::empty() };
    let open = |flags: OFlags| {
        retry_while_in_use(|| {
            let flags = (flags | exclusive).bits().cast_signed();
            let file = OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)?;
            flock(&file, lock)?;
            Ok(file)
        })
    };
    match open(OFlags::DIRECT) {
        // Some file systems (tmpfs of older kernels, some network mounts) have no direct I/O.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            Ok((open(OFlags::empty())?, FileAccess::Buffered))
        }
        opened => Ok((opened?, FileAccess::Direct)),
    }
}

/// True if the error says that another process holds the file.
#[must_use]
pub fn is_in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_use_is_retried_and_other_errors_are_returned() {
        let mut errors = vec![io::ErrorKind::ResourceBusy, io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
        let had = retry_while_in_use(|| errors.pop().map_or(Ok(7), |kind| Err(kind.into())));
        assert_eq!(had.expect("nobody has it"), 7);
        let mut attempts = 0;
        let refused = retry_while_in_use(|| {
            attempts += 1;
            Err::<(), _>(io::ErrorKind::NotFound.into())
        });
        assert_eq!((refused.expect_err("it is not there").kind(), attempts), (io::ErrorKind::NotFound, 1));
    }
}
