//! Leases, which show that a file is open elsewhere: the kernel grants a write lease only on a file that no other process has open
//! (`F_SETLEASE`, fcntl(2)).
//!
//! Promise: no lease is left behind. Not here: the consequences; a descriptor that only names a file (`O_PATH`), which the
//! kernel does not count.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `<linux/fcntl.h>`; the crate `libc` lacks it for this C library.
const F_SETSIG: i32 = 10;

/// Returns true if the file is open through another open file description than `file`, which is open for writing: in this
/// process, in another, or as a mapping.
///
/// # Errors
/// The kernel's, without an answer: `EINVAL` on a file system that has no leases, `EACCES` to a user that does not own the file.
pub fn is_open_elsewhere(file: BorrowedFd<'_>) -> io::Result<bool> {
    // Opening a file under a lease sends a signal to the holder: SIGIO, which ends a process, unless another one is named.
    control(file, F_SETSIG, libc::SIGURG)?;
    match control(file, libc::F_SETLEASE, libc::F_WRLCK) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
        other => other?,
    }
    control(file, libc::F_SETLEASE, libc::F_UNLCK)?;
    Ok(false)
}

fn control(file: BorrowedFd<'_>, command: i32, argument: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open for the whole call, and none of the commands above takes an address.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn another_open_file_is_seen_until_it_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("film");
        let file = File::create(&path).expect("created");
        let elsewhere = || is_open_elsewhere(file.as_fd()).expect("leases are there");
        assert!(!elsewhere());
        let named = File::options().read(true).custom_flags(libc::O_PATH).open(&path).expect("there");
        assert!(!elsewhere(), "a name is no open file");
        let reader = File::open(&path).expect("no lease is left that would hold this up");
        std::fs::remove_file(&path).expect("removed");
        assert!(elsewhere());
        drop((reader, named));
        assert!(!elsewhere());
    }
}
