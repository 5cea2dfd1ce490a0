//! Grants, by which a disk's thread works.
//!
//! Promise: the thread speaks to its schedule through [`GrantPort`] only. [`Governed`] is the data plane's schedule.
//! Not here: the decision on grants (`schedule`), the queues to the data plane (`kernel`).

use std::sync::Arc;
use std::time::Duration;

use channel::{StorePort, Wake};
use storage::grant::{Grant, StoreMessage};

/// Wakes a disk's thread out of [`GrantPort::wait`], from any thread, without blocking. A wake while it does not wait
/// is kept for its next wait.
pub type WakeFn = Arc<dyn Fn() + Send + Sync>;

/// A disk thread's side of the conversation with its disk's schedule. Used by that thread alone, but for its waker.
pub trait GrantPort: Send {
    /// Sends a message to the schedule. False if there was no room: the thread keeps the message and tries again.
    fn send(&mut self, message: StoreMessage) -> bool;

    /// The next grant, if one waits.
    fn grant(&mut self) -> Option<Grant>;

    /// Waits until a grant comes, the waker is used, or `timeout` is over. May return without cause.
    fn wait(&mut self, timeout: Duration);

    /// Function that ends a wait.
    fn waker(&self) -> WakeFn;

    /// True once no grant will come any more.
    fn is_closed(&self) -> bool;
}

/// The data plane's schedule of the disk.
#[derive(Debug)]
pub struct Governed {
    port: StorePort,
    /// A grant that ended a wait.
    next: Option<Grant>,
}

impl Governed {
    /// Speaks through `port`.
    #[must_use]
    pub fn new(port: StorePort) -> Self {
        Self { port, next: None }
    }
}

impl GrantPort for Governed {
    fn send(&mut self, message: StoreMessage) -> bool {
        self.port.message(message).is_ok()
    }

    fn grant(&mut self) -> Option<Grant> {
        self.next.take().or_else(|| self.port.try_grant())
    }

    fn wait(&mut self, timeout: Duration) {
        if self.next.is_none()
            && let Wake::Grant(grant) = self.port.next_grant_or_wake(Some(timeout))
        {
            self.next = Some(grant);
        }
    }

    fn waker(&self) -> WakeFn {
        let waker = self.port.waker();
        Arc::new(move || waker.wake())
    }

    fn is_closed(&self) -> bool {
        self.port.is_closed()
    }
}
