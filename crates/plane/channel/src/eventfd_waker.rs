//! A wake-up between threads: an eventfd and a flag that keeps wakes of one waiter from piling up.
//!
//! Promise: a drain after [`EventFdWaker::acknowledge`] sees all that was pushed before [`EventFdWaker::wake`]; waking never blocks, and
//! costs no system call while an earlier wake is not acknowledged. Not here: the queues behind it (the crate's root).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// One thread waits, any thread wakes it.
#[derive(Debug)]
pub(crate) struct EventFdWaker {
    event: OwnedFd,
    woken: AtomicBool,
}

impl EventFdWaker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, woken: AtomicBool::new(false) })
    }

    /// Wakes the waiter. Push first, then wake.
    pub(crate) fn wake(&self) {
        // The exchange orders the push before it, for an `acknowledge` that comes later in the flag's history.
        if !self.woken.swap(true, Ordering::AcqRel) {
            // Fails only if the counter is full, which takes 2^64 wakes.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Takes note of a wake, for a waiter that watches the descriptor's *edges* (the plane's multishot poll): the
    /// counter is left as it is. Acknowledge first, then drain. True if there had been one.
    pub(crate) fn acknowledge(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// As [`EventFdWaker::acknowledge`], for a waiter that watches the descriptor's *level* (`poll`, epoll).
    ///
    /// The counter is reset first: a wake between the two steps finds the flag still up, writes nothing, and its push is
    /// found by the drain that follows. In the other order its event would be eaten and the flag stay up for ever.
    pub(crate) fn reset(&self) {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.event, &mut counter); // EAGAIN: no wake came
        self.acknowledge();
    }

    /// Waits until it is woken (true) or the timeout is over (false; `None`: for ever). Does not acknowledge it.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        // A timeout beyond the kernel's reach (centuries) is none.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut watched = [PollFd::new(&self.event, PollFlags::IN)];
        // A signal (EINTR) wakes too; the caller looks for work and comes back.
        matches!(poll(&mut watched, timeout.as_ref()), Ok(1..))
    }
}

impl AsFd for EventFdWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn a_wake_is_seen_until_reset() {
        let waker = EventFdWaker::new().unwrap();
        assert!(!waker.wait(NOW));
        waker.wake();
        waker.wake();
        assert!(waker.wait(NOW) && waker.wait(None));
        waker.reset();
        assert!(!waker.wait(NOW));
        waker.wake();
        assert!(waker.wait(NOW), "wakes again after it was reset");
    }

    #[test]
    fn acknowledging_lets_the_next_wake_through_and_leaves_the_level() {
        let waker = EventFdWaker::new().unwrap();
        assert!(!waker.acknowledge());
        waker.wake();
        assert!(waker.acknowledge());
        assert!(!waker.acknowledge());
        assert!(waker.wait(NOW));
    }
}
