//! Checks that what was read is right: that its file is still the version that was opened, and that its bytes agree with their
//! checksums, where there are some: two ordinary threads.
//!
//! A look at a file is one `fstat`, on a local file system a matter of memory, but of no length that anybody promises; and files
//! on a network mount, which may hang, must not keep others from being checked: they have a thread of their own.
//!
//! Promise: handing over and taking back neither allocates nor locks nor waits. Each check begins after it was asked for.
//! Not here: what a difference means (`dataplane::watched`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use std::{slice, thread};

use crossbeam_queue::ArrayQueue;
use dataplane::control::Content;
use dataplane::layout::FileAccess;
use dataplane::port::{Span, Token};
use dataplane::watched::{ChangeVerdict, Facts, WatchedContent};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::fstat;
use rustix::thread::CpuSet;

use crate::arena::Arena;
use crate::helpers::post;
use crate::plane_channel::PlaneWaker;
use crate::scheduling::start_ordinary;

/// How often a file that may be growing is looked at, whoever reads it: a rest must not be missed.
const GROWING_EVERY: Duration = Duration::from_millis(250);
/// How often, and with what in between, a file is looked at again that was written to but is no longer.
const AGAIN_MAX: u32 = 10;
const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// A file as it is now, to be told from what it will be.
///
/// # Errors
/// The kernel's.
pub fn watch(file: BorrowedFd<'_>) -> io::Result<WatchedContent> {
    Ok(WatchedContent::new(facts(file)?, now_nanos()))
}

fn facts(file: BorrowedFd<'_>) -> io::Result<Facts> {
    let stat = fstat(file)?;
    let modified = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    Ok(Facts::new(modified, u64::try_from(stat.st_size).unwrap_or(0)))
}

fn now_nanos() -> i128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}

/// The threads. Dropping it ends them as soon as they come back from the kernel.
#[derive(Debug)]
pub(crate) struct VersionCheckers {
    direct: VersionChecker,
    buffered: VersionChecker,
}

impl VersionCheckers {
    /// Starts both, on `cpus` (None: wherever the caller may run), for at most `checks_max` checks at once.
    ///
    /// # Errors
    /// The kernel's, if threads or descriptors cannot be had.
    pub(crate) fn start(
        checks_max: usize,
        cpus: Option<CpuSet>,
        arena: &Arc<Arena>,
        waker: &PlaneWaker,
    ) -> io::Result<Self> {
        Ok(Self {
            direct: VersionChecker::start("checker-direct", checks_max, cpus, arena, waker.clone())?,
            buffered: VersionChecker::start("checker-cached", checks_max, cpus, arena, waker.clone())?,
        })
    }

    /// Asks for a check. There is room for as many as were promised to [`VersionCheckers::start`].
    pub(crate) fn begin(&self, job: CheckJob) {
        let checker = match job.content.file().access {
            FileAccess::Direct => &self.direct,
            FileAccess::Buffered => &self.buffered,
        };
        assert!(checker.0.jobs.push(job).is_ok(), "a check belongs to a read, of which there are no more");
        post(&checker.0.waiting);
    }

    pub(crate) fn has_done(&self) -> bool {
        !self.direct.0.done.is_empty() || !self.buffered.0.done.is_empty()
    }

    /// The next check that was done: 1 for the same, 0 for another version, or `-errno`.
    pub(crate) fn next_done(&self) -> Option<(Token, i32)> {
        let done = self.direct.0.done.pop().or_else(|| self.buffered.0.done.pop())?;
        // The plane holds the content until it knows of this: nothing is closed here.
        Some((done.job.token, done.result))
    }
}

#[derive(Debug)]
struct VersionChecker(Arc<CheckQueue>);

#[derive(Debug)]
struct CheckQueue {
    jobs: ArrayQueue<CheckJob>,
    done: ArrayQueue<CheckDone>,
    /// An eventfd that counts jobs; the thread takes all of them at once.
    waiting: OwnedFd,
    ended: AtomicBool,
    waker: PlaneWaker,
}

/// What was read into `memory`: the bytes of a content from `offset` on.
#[derive(Debug)]
pub(crate) struct CheckJob {
    pub(crate) token: Token,
    pub(crate) content: Arc<Content>,
    pub(crate) offset: u64,
    pub(crate) memory: Span,
}

#[derive(Debug)]
struct CheckDone {
    job: CheckJob,
    result: i32,
}

impl VersionChecker {
    fn start(
        name: &str,
        checks_max: usize,
        cpus: Option<CpuSet>,
        arena: &Arc<Arena>,
        waker: PlaneWaker,
    ) -> io::Result<Self> {
        let checker = Self(Arc::new(CheckQueue {
            jobs: ArrayQueue::new(checks_max),
            done: ArrayQueue::new(checks_max),
            waiting: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            ended: AtomicBool::new(false),
            waker,
        }));
        let (shared, arena) = (Arc::clone(&checker.0), Arc::clone(arena));
        start_ordinary(name.to_owned(), cpus, move || serve(&shared, &arena))?;
        Ok(checker)
    }
}

impl Drop for VersionChecker {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        // Nobody waits for it: it may hang with a mount.
        post(&self.0.waiting);
    }
}

fn serve(shared: &CheckQueue, arena: &Arena) {
    let mut growing: Vec<Weak<Content>> = Vec::new();
    loop {
        wait(&shared.waiting, if growing.is_empty() { None } else { Some(GROWING_EVERY) });
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        while let Some(job) = shared.jobs.pop() {
            let result = if has_right_bytes(&job, arena) { check(&job.content) } else { -libc::EBADMSG };
            let known = || growing.iter().any(|other| other.as_ptr() == Arc::as_ptr(&job.content));
            if is_growing(&job.content) && !known() {
                growing.push(Arc::downgrade(&job.content));
            }
            let pushed = shared.done.push(CheckDone { job, result });
            assert!(pushed.is_ok(), "as long as the queue of jobs, and the plane takes one before it asks for more");
            shared.waker.wake();
        }
        growing.retain(|content| {
            content.upgrade().is_some_and(|content| {
                check(&content);
                is_growing(&content)
            })
        });
    }
}

fn wait(waiting: &OwnedFd, timeout: Option<Duration>) {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    // A signal wakes too; then there is nothing to do, and it waits again.
    let _ = poll(&mut [PollFd::new(waiting, PollFlags::IN)], timeout.as_ref());
    let _ = rustix::io::read(waiting, &mut [0; 8]);
}

fn is_growing(content: &Content) -> bool {
    content.watched.as_ref().is_some_and(WatchedContent::is_growing)
}

fn has_right_bytes(job: &CheckJob, arena: &Arena) -> bool {
    let Some(checksums) = &job.content.checksums else { return true };
    let length = usize::try_from(job.memory.length).expect("usize holds a u32");
    // SAFETY: `at` checked that the span lies in the arena, of which this thread holds a share. The read is over, and the plane
    // neither names these bytes to the kernel nor gives them to anybody before this check has been told of.
    let bytes = unsafe { slice::from_raw_parts(arena.at(job.memory), length) };
    checksums.verify(job.offset, bytes)
}

/// 1 if it is what was opened, 0 if not, or `-errno`.
fn check(content: &Content) -> i32 {
    let Some(watched) = &content.watched else { return 1 };
    for _ in 0..AGAIN_MAX {
        let changes = watched.changes();
        let facts = match facts(content.file().file.as_fd()) {
            Ok(facts) => facts,
            Err(error) => return -error.raw_os_error().unwrap_or(libc::EIO),
        };
        match watched.judge(changes, facts, now_nanos()) {
            ChangeVerdict::Same => return 1,
            ChangeVerdict::Changed => return 0,
            ChangeVerdict::Unsure => thread::sleep(AGAIN_AFTER),
        }
    }
    watched.give_up();
    0
}
