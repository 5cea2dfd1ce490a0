//! Real-time scheduling of a thread.
//!
//! Promise: nothing but the calling thread is changed. Not here: who is given it, and what is said if it is refused.

use std::io;

/// How what a thread starts is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heirs {
    /// As the thread itself.
    Alike,
    /// As ordinary ones.
    Ordinary,
}

/// Gives the calling thread `SCHED_FIFO` at `priority`, 1 to 99.
///
/// # Errors
/// The kernel's: `EPERM` where it is not permitted, `EINVAL` for another priority.
pub fn first_in_first_out(priority: u8, heirs: Heirs) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority.into() };
    let policy = match heirs {
        Heirs::Alike => libc::SCHED_FIFO,
        Heirs::Ordinary => libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
    };
    // SAFETY: the parameter lives through the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
