//! Grants, by which a disk's thread works.
//!
//! Promise: the thread speaks to its schedule through [`GrantPort`] only. [`Governed`] is the data plane's schedule, [`Ungoverned`] stands
//! where no stream is served.
//! Not here: the decision on grants (`schedule`), the queues to the data plane (`kernel`).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use channel::{StorePort, Wake};
use storage::grant::{Grant, Offer, StoreMessage, StoreWork};
use units::{Nanos, limits};

use crate::lock::lock;

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

/// Grants whatever is offered, at once, in order and without an end: a store without a data plane.
#[derive(Debug, Default)]
pub struct Ungoverned {
    offers: VecDeque<Offer>,
    granted: Option<Offer>,
    nap: Arc<Nap>,
}

/// The most bytes that a grant of this offer lets be written.
fn bytes_of(offer: &Offer) -> u64 {
    match offer.work {
        StoreWork::Write { bytes, .. } => bytes.min(limits::RUN_BYTES_MAX),
        StoreWork::Commit { .. } | StoreWork::Probe { .. } => 0,
    }
}

/// A wait that can be ended by others.
#[derive(Debug, Default)]
struct Nap {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl GrantPort for Ungoverned {
    fn send(&mut self, message: StoreMessage) -> bool {
        match message {
            StoreMessage::Offer(offer) => {
                debug_assert!(!matches!(offer.work, StoreWork::Write { bytes: 0, .. }), "a write has bytes");
                self.offers.retain(|old| old.job != offer.job);
                self.offers.push_back(offer);
            }
            StoreMessage::Placed { .. } => {}
            StoreMessage::Withdraw { job, .. } => self.offers.retain(|old| old.job != job),
            StoreMessage::Done(done) => {
                debug_assert!(self.granted.is_some_and(|offer| offer.job == done.job), "the granted job is done");
                debug_assert!(done.started <= done.ended, "a grant ends after it began");
                let granted = self.granted.map_or(0, |offer| bytes_of(&offer));
                debug_assert!(
                    !matches!(self.granted, Some(Offer { work: StoreWork::Write { .. }, .. })) || done.bytes <= granted,
                    "no more is written than granted"
                );
                if let Some(mut offer) = self.granted.take()
                    && done.ready_bytes > 0
                    && !self.offers.iter().any(|other| other.job == offer.job)
                {
                    offer.work = StoreWork::Write { bytes: done.ready_bytes, position: done.position };
                    self.offers.push_back(offer);
                }
            }
        }
        true
    }

    fn grant(&mut self) -> Option<Grant> {
        if self.granted.is_some() {
            return None;
        }
        let offer = self.offers.pop_front()?;
        debug_assert!(self.offers.iter().all(|other| other.job != offer.job), "a job has one offer");
        self.granted = Some(offer);
        Some(Grant { disk: offer.disk, job: offer.job, bytes_max: bytes_of(&offer), until: Nanos::MAX })
    }

    fn wait(&mut self, timeout: Duration) {
        if self.offers.is_empty() || self.granted.is_some() {
            let woken = lock(&self.nap.woken);
            let waited = self.nap.changed.wait_timeout_while(woken, timeout, |woken| !*woken);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        }
    }

    fn waker(&self) -> WakeFn {
        let nap = Arc::clone(&self.nap);
        Arc::new(move || {
            *lock(&nap.woken) = true;
            nap.changed.notify_all();
        })
    }

    fn is_closed(&self) -> bool {
        false
    }
}
