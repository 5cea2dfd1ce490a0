//! Reads that must not be made by the plane's thread: a few ordinary threads that read into the arena.
//!
//! Used for files without direct I/O (tmpfs, network mounts) and for direct reads that the kernel could not start
//! without waiting (metadata not in memory, a full device queue): those would else block the plane or wake io-wq.
//!
//! Promise: handing over and taking back neither allocates nor locks nor waits; the threads run at ordinary priority and
//! not on the plane's CPU. Deliberately: a mount that hangs holds as many threads as it has reads, at worst all; then
//! buffered reads wait, direct ones and all sends go on.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_queue::ArrayQueue;
use dataplane::port::Span;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::CpuSet;

use crate::arena::Arena;
use crate::link::PlaneWaker;
use crate::scheduling::start_ordinary;

/// A read to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
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

/// The threads and their queues. Dropping it ends them as soon as they come back from the kernel.
#[derive(Debug)]
pub(crate) struct Readers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    jobs: ArrayQueue<Job>,
    done: ArrayQueue<JobDone>,
    /// Counts the jobs in the queue (an eventfd as semaphore: taking one blocks only the taker, a mutex would let an
    /// ordinary thread hold up the plane).
    waiting: OwnedFd,
    ended: AtomicBool,
    /// Held by every reader: the memory stays while a read is under way, whatever becomes of the plane.
    arena: Arc<Arena>,
    waker: PlaneWaker,
}

impl Readers {
    /// Starts `threads` readers (1 at least) on `cpus` (None: wherever the caller may run), for at most `jobs_max` jobs.
    ///
    /// # Errors
    /// The kernel's, if threads or descriptors cannot be had.
    pub(crate) fn start(
        threads: usize,
        jobs_max: usize,
        cpus: Option<CpuSet>,
        arena: Arc<Arena>,
        waker: PlaneWaker,
    ) -> io::Result<Self> {
        let readers = Self(Arc::new(Shared {
            jobs: ArrayQueue::new(jobs_max),
            done: ArrayQueue::new(jobs_max),
            waiting: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?,
            ended: AtomicBool::new(false),
            arena,
            waker,
        }));
        for n in 0..threads.max(1) {
            let shared = Arc::clone(&readers.0);
            start_ordinary(format!("reader-{n}"), cpus, move || serve(&shared))?;
        }
        Ok(readers)
    }

    /// Hands a read over. There is room for as many as were promised to [`Readers::start`].
    pub(crate) fn begin(&self, job: Job) {
        self.0.jobs.push(job).expect("the plane's table of reads is no longer than this queue");
        post(&self.0.waiting);
    }

    /// A read that was made waits to be taken in.
    pub(crate) fn has_done(&self) -> bool {
        !self.0.done.is_empty()
    }

    /// The next read that was made.
    pub(crate) fn next_done(&self) -> Option<JobDone> {
        self.0.done.pop()
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        // One post wakes one thread, which passes it on. Nobody waits for them: one may hang with its mount.
        post(&self.0.waiting);
    }
}

pub(crate) fn post(semaphore: &OwnedFd) {
    // Blocks only at 2^64 - 2 waiting jobs.
    let _ = rustix::io::write(semaphore, &1_u64.to_ne_bytes());
}

fn serve(shared: &Shared) {
    loop {
        let mut one = [0; 8];
        let taken = rustix::io::read(&shared.waiting, &mut one);
        if shared.ended.load(Ordering::SeqCst) {
            return post(&shared.waiting);
        }
        if taken.is_err() {
            continue; // EINTR
        }
        let Some(job) = shared.jobs.pop() else { continue };
        let done = JobDone { read: job.read, result: read(&shared.arena, job) };
        shared
            .done
            .push(done)
            .expect("as long as the queue of jobs, and the plane takes one before it hands over more");
        shared.waker.wake();
    }
}

fn read(arena: &Arena, job: Job) -> i32 {
    // SAFETY: the plane keeps the file open while a read of it is in flight.
    let file = unsafe { BorrowedFd::borrow_raw(job.file) };
    let (Ok(length), Ok(offset)) = (usize::try_from(job.memory.length), i64::try_from(job.offset)) else {
        return -libc::EINVAL;
    };
    loop {
        // SAFETY: `at` checked that the span lies in the arena, of which `shared` holds a share; the plane names no
        // byte twice at once, so nothing else uses it. A raw pointer: no reference to these bytes exists anywhere.
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
