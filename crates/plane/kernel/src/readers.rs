//! Reading threads: a few ordinary ones, for reads into the arena that the plane's thread must not make.
//!
//! Used for files without direct I/O (tmpfs, network mounts), for direct reads that the kernel could not start
//! without waiting (metadata not in memory, a full device queue; those would else block the plane or wake io-wq), and for all
//! reads where io_uring cannot be had.
//!
//! Deliberately: a disk that hangs holds as many threads as it has reads, at worst all of its own. Other disks have theirs.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use channel::PlaneWaker;
use dataplane::port::Span;

use crate::arena::Arena;
use crate::helpers::{HelperSetup, Helpers};

/// The threads. Each holds a share of the arena: the memory stays while a read is under way, also after the end of the plane.
pub(crate) type Readers = Helpers<ReadJob, JobDone>;

/// A read to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadJob {
    /// Place in the plane's table of reads.
    pub(crate) read: u32,
    /// Open until the job is done: the plane closes no file with a read in flight.
    pub(crate) file: RawFd,
    pub(crate) offset: u64,
    pub(crate) memory: Span,
}

/// A read that was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobDone {
    pub(crate) read: u32,
    /// Bytes, or `-errno`.
    pub(crate) result: i32,
}

/// Starts the threads.
///
/// # Errors
/// The kernel's, if threads or descriptors cannot be had.
pub(crate) fn start(setup: &HelperSetup, arena: &Arc<Arena>, waker: PlaneWaker) -> io::Result<Readers> {
    let arena = Arc::clone(arena);
    Readers::start(setup, waker, move |job: ReadJob| JobDone { read: job.read, result: read(&arena, job) })
}

fn read(arena: &Arena, job: ReadJob) -> i32 {
    // SAFETY: the plane keeps the file open while a read of it is in flight.
    let file = unsafe { BorrowedFd::borrow_raw(job.file) };
    let (Ok(length), Ok(offset)) = (usize::try_from(job.memory.length), i64::try_from(job.offset)) else {
        return -libc::EINVAL;
    };
    loop {
        // SAFETY: `at` checked that the span lies in the arena, of which this thread holds a share; the plane names no
        // byte twice at once, so no other code uses it. A raw pointer: no reference to these bytes exists anywhere.
        let got = unsafe { libc::pread(file.as_raw_fd(), arena.at(job.memory).cast(), length, offset) };
        match i32::try_from(got) {
            Ok(bytes @ 0..) => return bytes,
            _ => match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                errno => return -errno.unwrap_or(libc::EIO),
            },
        }
    }
}
