//! A wake-up between threads: an eventfd and a flag that keeps rings of one waiting from piling up.
//!
//! Promise: what was pushed before [`Bell::ring`] is seen by whoever drains after [`Bell::answer`]; ringing never blocks,
//! and costs no system call while an earlier ring is unanswered. Not here: what is waited for (`link`, `helpers`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// One thread waits for it, any thread rings it.
#[derive(Debug)]
pub(crate) struct Bell {
    event: OwnedFd,
    rung: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, rung: AtomicBool::new(false) })
    }

    /// Wakes the waiter. Push first, then ring.
    pub(crate) fn ring(&self) {
        // The exchange orders the push before it, for an `answer` that comes later in the flag's history.
        if !self.rung.swap(true, Ordering::AcqRel) {
            // Fails only if the counter is full, which takes 2^64 unanswered rings.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Takes note of a ring, for a waiter that watches the descriptor's *edges* (the plane's multishot poll): the
    /// counter is left as it is. Answer first, then drain. True if it had been rung.
    pub(crate) fn answer(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    /// As [`Bell::answer`], for a waiter that watches the descriptor's *level* (`poll`, epoll).
    ///
    /// The counter is reset first: a ring between the two steps finds the flag still up, writes nothing, and its push is
    /// found by the drain that follows. In the other order its event would be eaten and the flag stay up for ever.
    pub(crate) fn silence(&self) {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.event, &mut counter); // EAGAIN: not rung
        self.answer();
    }

    /// Waits until it is rung (true) or the timeout is over (false; `None`: for ever). Does not answer it.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        // A timeout beyond the kernel's reach (centuries) is none.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut watched = [PollFd::new(&self.event, PollFlags::IN)];
        // A signal (EINTR) wakes too; the caller looks for work and comes back.
        matches!(poll(&mut watched, timeout.as_ref()), Ok(1..))
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn a_ring_is_seen_until_silenced() {
        let bell = Bell::new().unwrap();
        assert!(!bell.wait(NOW));
        bell.ring();
        bell.ring();
        assert!(bell.wait(NOW) && bell.wait(None));
        bell.silence();
        assert!(!bell.wait(NOW));
        bell.ring();
        assert!(bell.wait(NOW), "rings again after it was silenced");
    }

    #[test]
    fn answering_lets_the_next_ring_through_and_leaves_the_level() {
        let bell = Bell::new().unwrap();
        assert!(!bell.answer());
        bell.ring();
        assert!(bell.answer());
        assert!(!bell.answer());
        assert!(bell.wait(NOW));
    }
}
