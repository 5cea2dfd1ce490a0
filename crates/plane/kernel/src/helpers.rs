//! Ordinary threads for work that the plane's thread must not wait for; each thread does one job at a time.
//!
//! Promise: handing over a job and taking its result neither allocates nor locks nor waits; the threads run at ordinary
//! priority and not on the plane's CPU; a result wakes the plane. Dropping [`Helpers`] does not wait for a thread that hangs in
//! the kernel: the thread ends when its system call returns. Not here: the work of a job (`readers`, `memory_supply`,
//! `version_check`).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use channel::PlaneWaker;
use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::CpuSet;

use crate::scheduling::start_ordinary;

/// Handle of the threads' shared queue of jobs and of the results.
#[derive(Debug)]
pub(crate) struct Helpers<J, D>(Arc<HelperQueue<J, D>>);

#[derive(Debug)]
struct HelperQueue<J, D> {
    jobs: ArrayQueue<J>,
    done: ArrayQueue<D>,
    /// Counts the jobs in the queue: an eventfd as a semaphore, on which only the helper threads block. With a mutex, an
    /// ordinary thread could delay the plane.
    waiting: OwnedFd,
    ended: AtomicBool,
    waker: PlaneWaker,
}

/// Number, name and CPUs of the threads, and the size of their queue.
#[derive(Debug, Clone)]
pub(crate) struct HelperSetup {
    /// Prefix of the threads' names; a number follows.
    pub(crate) name: &'static str,
    /// Number of threads, at least one.
    pub(crate) threads: usize,
    /// Most jobs at once, queued and done.
    pub(crate) jobs_max: usize,
    /// CPUs of the threads; `None`: those of the caller.
    pub(crate) cpus: Option<CpuSet>,
}

/// The work of a thread.
pub(crate) trait HelperWork<J, D>: Send + 'static {
    /// Does a job.
    fn work(&mut self, job: J) -> D;

    /// Does periodic work that is due, and returns the longest time that the thread may wait for a job. Only for a setup of one
    /// thread.
    fn look_around(&mut self) -> Option<Duration> {
        None
    }
}

impl<J, D, F: FnMut(J) -> D + Send + 'static> HelperWork<J, D> for F {
    fn work(&mut self, job: J) -> D {
        self(job)
    }
}

impl<J: Send + 'static, D: Send + 'static> Helpers<J, D> {
    /// Starts threads that work like `worker`.
    ///
    /// # Errors
    /// The kernel's error, if it refuses a thread or a descriptor.
    pub(crate) fn start(
        setup: &HelperSetup,
        waker: PlaneWaker,
        worker: impl HelperWork<J, D> + Clone,
    ) -> io::Result<Self> {
        let helpers = Self(Arc::new(HelperQueue {
            jobs: ArrayQueue::new(setup.jobs_max),
            done: ArrayQueue::new(setup.jobs_max),
            waiting: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?,
            ended: AtomicBool::new(false),
            waker,
        }));
        for n in 0..setup.threads.max(1) {
            let (shared, worker) = (Arc::clone(&helpers.0), worker.clone());
            start_ordinary(format!("{}-{n}", setup.name), setup.cpus, move || serve(&shared, worker))?;
        }
        Ok(helpers)
    }

    /// Hands a job over. The queue has room for the `jobs_max` of [`Helpers::start`].
    pub(crate) fn begin(&self, job: J) {
        assert!(self.0.jobs.push(job).is_ok(), "no more jobs are out than the queue has room for");
        post(&self.0.waiting);
    }

    /// True if a result waits to be taken.
    pub(crate) fn has_done(&self) -> bool {
        !self.0.done.is_empty()
    }

    /// Takes the result of the next finished job.
    pub(crate) fn next_done(&self) -> Option<D> {
        self.0.done.pop()
    }
}

impl<J, D> Drop for Helpers<J, D> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        // One post wakes one thread; a thread that ends posts again, for the next one.
        post(&self.0.waiting);
    }
}

fn post(semaphore: &OwnedFd) {
    // The write blocks only at 2^64 - 2 waiting jobs.
    let _ = rustix::io::write(semaphore, &1_u64.to_ne_bytes());
}

fn serve<J, D>(shared: &HelperQueue<J, D>, mut worker: impl HelperWork<J, D>) {
    loop {
        let pause = worker.look_around().and_then(|pause| Timespec::try_from(pause).ok());
        let is_posted =
            |pause| matches!(poll(&mut [PollFd::new(&shared.waiting, PollFlags::IN)], Some(&pause)), Ok(1..));
        if pause.is_some_and(|pause| !is_posted(pause)) {
            continue;
        }
        let taken = rustix::io::read(&shared.waiting, &mut [0; 8]);
        if shared.ended.load(Ordering::SeqCst) {
            return post(&shared.waiting);
        }
        if taken.is_err() {
            continue; // EINTR
        }
        let Some(job) = shared.jobs.pop() else { continue };
        assert!(shared.done.push(worker.work(job)).is_ok(), "the plane takes a result before it hands over more");
        shared.waker.wake();
    }
}
