//! Checks of reads on two ordinary threads: the file is still the version that was opened, and the bytes agree with their
//! checksums, where there are some.
//!
//! A look at a file is one `fstat`, on a local file system a matter of memory, but without a promised length; and files on a
//! network mount, which may hang, must not hold up checks of others: they have a thread of their own.
//!
//! Promise: handing over and taking back neither allocates nor locks nor waits. Each check begins after its request. Not
//! here: the meaning of a difference (`content::watched`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};
use std::{slice, thread};

use channel::PlaneWaker;
use content::Content;
use content::layout::FileAccess;
use content::watched::{ChangeVerdict, FileStat, WatchedContent};
use dataplane::port::{Span, Token};
use rustix::fs::fstat;
use rustix::thread::CpuSet;

use crate::arena::Arena;
use crate::helpers::{HelperSetup, HelperWork, Helpers};

/// Time between two looks at a file that may be growing, also without readers: a rest must not be missed.
const GROWING_EVERY: Duration = Duration::from_millis(250);
/// Most looks at a file while the verdict is unsure (written to, but no longer), and the pause between two of them.
const AGAIN_MAX: u32 = 10;
const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// Notes a file as it is now, to detect later changes.
///
/// # Errors
/// The error that the kernel gave.
pub fn watch(file: BorrowedFd<'_>) -> io::Result<WatchedContent> {
    Ok(WatchedContent::new(file_stat(file)?, now_nanos()))
}

fn file_stat(file: BorrowedFd<'_>) -> io::Result<FileStat> {
    let stat = fstat(file)?;
    let modified = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    Ok(FileStat::new(modified, u64::try_from(stat.st_size).unwrap_or(0)))
}

fn now_nanos() -> i128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}

/// The threads. Dropping it ends them as soon as they come back from the kernel.
#[derive(Debug)]
pub(crate) struct VersionCheckers {
    direct: Helpers<CheckJob, CheckDone>,
    buffered: Helpers<CheckJob, CheckDone>,
}

/// A read to check: the bytes of a content from `offset` on, in `memory`.
#[derive(Debug)]
pub(crate) struct CheckJob {
    pub(crate) token: Token,
    pub(crate) content: Arc<Content>,
    pub(crate) offset: u64,
    pub(crate) memory: Span,
}

/// The result of a check. The plane holds the content until it has this: nothing is closed here.
#[derive(Debug)]
struct CheckDone {
    job: CheckJob,
    result: i32,
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
        let start = |name| {
            let checker = Checker { arena: Arc::clone(arena), growing: Vec::new(), look_at: Instant::now() };
            Helpers::start(&HelperSetup { name, threads: 1, jobs_max: checks_max, cpus }, waker.clone(), checker)
        };
        Ok(Self { direct: start("checker-direct")?, buffered: start("checker-cached")? })
    }

    /// Begins a check. There is room for as many as were promised to [`VersionCheckers::start`].
    pub(crate) fn begin(&self, job: CheckJob) {
        match job.content.file().access {
            FileAccess::Direct => self.direct.begin(job),
            FileAccess::Buffered => self.buffered.begin(job),
        }
    }

    pub(crate) fn has_done(&self) -> bool {
        self.direct.has_done() || self.buffered.has_done()
    }

    /// The next check that was done: 1 for the same, 0 for another version, or `-errno`.
    pub(crate) fn next_done(&self) -> Option<(Token, i32)> {
        let done = self.direct.next_done().or_else(|| self.buffered.next_done())?;
        Some((done.job.token, done.result))
    }
}

#[derive(Debug, Clone)]
struct Checker {
    arena: Arc<Arena>,
    /// Files that a writer may be extending.
    growing: Vec<Weak<Content>>,
    /// Time of the next look at them.
    look_at: Instant,
}

impl HelperWork<CheckJob, CheckDone> for Checker {
    fn work(&mut self, job: CheckJob) -> CheckDone {
        let result = if has_right_bytes(&job, &self.arena) { check(&job.content) } else { -libc::EBADMSG };
        let known = || self.growing.iter().any(|other| other.as_ptr() == Arc::as_ptr(&job.content));
        if is_growing(&job.content) && !known() {
            self.growing.push(Arc::downgrade(&job.content));
        }
        CheckDone { job, result }
    }

    fn look_around(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.look_at <= now {
            self.look_at = now + GROWING_EVERY;
            self.growing.retain(|content| {
                content.upgrade().is_some_and(|content| {
                    check(&content);
                    is_growing(&content)
                })
            });
        }
        (!self.growing.is_empty()).then(|| self.look_at - now)
    }
}

fn is_growing(content: &Content) -> bool {
    content.watched.as_ref().is_some_and(WatchedContent::is_growing)
}

fn has_right_bytes(job: &CheckJob, arena: &Arena) -> bool {
    let Some(checksums) = &job.content.checksums else { return true };
    let length = usize::try_from(job.memory.length).expect("usize holds a u32");
    // SAFETY: `at` checked that the span lies in the arena, of which this thread holds a share. The read is over, and the plane
    // neither names these bytes to the kernel nor hands them on before it has the result of this check.
    let bytes = unsafe { slice::from_raw_parts(arena.at(job.memory), length) };
    checksums.verify(job.offset, bytes)
}

/// Returns 1 if the file is the version that was opened, 0 if not, or `-errno`.
fn check(content: &Content) -> i32 {
    let Some(watched) = &content.watched else { return 1 };
    for _ in 0..AGAIN_MAX {
        let changes = watched.changes();
        let stat = match file_stat(content.file().file.as_fd()) {
            Ok(stat) => stat,
            Err(error) => return -error.raw_os_error().unwrap_or(libc::EIO),
        };
        match watched.judge(changes, stat, now_nanos()) {
            ChangeVerdict::Same => return 1,
            ChangeVerdict::Changed => return 0,
            ChangeVerdict::Unsure => thread::sleep(AGAIN_AFTER),
        }
    }
    watched.give_up();
    0
}
