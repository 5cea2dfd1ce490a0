//! Files and disks that one process has for itself.
//!
//! Promise: who wants what a process still holds that has ended gets it; who wants what a running one has is refused in [`PATIENCE`]. Not
//! here: who that is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use content::layout::FileAccess;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// What a ring has is let go by the kernel some time after its process has ended (liburing 1627), and a process that was told to
/// end does so soon. Chosen: some milliseconds were measured for the first, a busy disk makes them more.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Between two attempts. Chosen: a person does not notice it.
const PERIOD: Duration = Duration::from_millis(10);

/// Does `attempt` until what it wants is not in use any more (`EWOULDBLOCK` from a lock, `EBUSY` from an exclusive opening), for [`PATIENCE`].
///
/// # Errors
/// What the last attempt said.
pub fn when_let_go<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_in_use(&error) && Instant::now() < deadline => sleep(PERIOD),
            outcome => return outcome,
        }
    }
}

/// What a disk is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Beside others who read it.
    Read,
    /// Alone.
    Write,
}

/// Opens a disk, or a file that is one, past the page cache where its file system can do that, and locks it: a device that is written to also
/// against mounts.
///
/// # Errors
/// What the system says; [`is_in_use`] if another process has it.
pub fn open_disk(path: &Path, purpose: Purpose) -> io::Result<(File, FileAccess)> {
    let (writes, lock) = match purpose {
        Purpose::Read => (false, FlockOperation::NonBlockingLockShared),
        Purpose::Write => (true, FlockOperation::NonBlockingLockExclusive),
    };
    let is_device = path.metadata()?.file_type().is_block_device();
    let exclusive = if is_device && writes { OFlags::EXCL } else { OFlags::empty() };
    let open = |flags: OFlags| {
        when_let_go(|| {
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

/// Whether an error says that somebody else has it.
#[must_use]
pub fn is_in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_go_is_had_and_other_errors_are_told_at_once() {
        let mut errors = vec![io::ErrorKind::ResourceBusy, io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
        let had = when_let_go(|| errors.pop().map_or(Ok(7), |kind| Err(kind.into())));
        assert_eq!(had.expect("nobody has it"), 7);
        let mut attempts = 0;
        let refused = when_let_go(|| {
            attempts += 1;
            Err::<(), _>(io::ErrorKind::NotFound.into())
        });
        assert_eq!((refused.expect_err("it is not there").kind(), attempts), (io::ErrorKind::NotFound, 1));
    }
}
