//! Scheduling of threads: in real time, or as ordinary threads next to the plane.
//!
//! Promise: no thread is changed but the calling or the started one. Not here: the choice of threads that
//! get real time, and the report of a refusal.

use std::io;
use std::sync::mpsc;
use std::thread;

use rustix::thread::CpuSet;

/// Bytes of stack of a thread that [`start_ordinary`] starts.
const STACK_BYTES: usize = 64 * 1024;

/// Scheduling of the threads that a thread starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildScheduling {
    /// As the thread itself.
    Inherited,
    /// As ordinary ones.
    Ordinary,
}

/// Gives the calling thread `SCHED_FIFO` at `priority`, 1 to 99.
///
/// # Errors
/// The kernel's: `EPERM` where it is not permitted, `EINVAL` for another priority.
pub fn first_in_first_out(priority: u8, children: ChildScheduling) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority.into() };
    let policy = match children {
        ChildScheduling::Inherited => libc::SCHED_FIFO,
        ChildScheduling::Ordinary => libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
    };
    // SAFETY: the parameter lives through the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts a thread of ordinary priority, on `cpus` (None: wherever the caller may run), also if the caller's own is
/// another. Returns once the thread is an ordinary one, so that the caller may then change its own scheduling.
///
/// # Errors
/// The kernel's, if there can be no more threads.
pub(crate) fn start_ordinary(
    name: String,
    cpus: Option<CpuSet>,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let (ready, readied) = mpsc::channel::<()>();
    thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
        become_ordinary(cpus.as_ref());
        drop(ready);
        work();
    })?;
    // Ends when the thread has dropped its side.
    let _ = readied.recv();
    Ok(())
}

/// Threads inherit the starter's scheduling; these must have none of the plane's.
fn become_ordinary(cpus: Option<&CpuSet>) {
    let ordinary = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter lives through the call; 0 is the calling thread. Going down needs no permission.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const ordinary) };
    if let Some(cpus) = cpus {
        // Fails if the administrator took these CPUs away meanwhile; then the thread runs where it may.
        let _ = rustix::thread::sched_setaffinity(None, cpus);
    }
}
