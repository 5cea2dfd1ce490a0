//! A schedule that never says no.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use dirstore::{GrantPort, WakeFn};
use storage::grant::{Grant, Offer, StoreMessage, StoreWork};
use units::{Nanos, limits};

/// Grants whatever is offered, at once and in order: a store without a data plane.
#[derive(Debug, Default)]
pub struct Ungoverned {
    offers: VecDeque<Offer>,
    granted: Option<Offer>,
    nap: Arc<Nap>,
}

/// A wait that can be ended by others.
#[derive(Debug, Default)]
struct Nap {
    woken: Mutex<bool>,
    changed: Condvar,
}

/// Time for which an ungoverned grant lasts.
const GRANT_SPAN: Nanos = Nanos::from_secs(1);

impl GrantPort for Ungoverned {
    fn send(&mut self, message: StoreMessage) -> bool {
        match message {
            StoreMessage::Offer(offer) => {
                self.offers.retain(|old| old.job != offer.job);
                self.offers.push_back(offer);
            }
            StoreMessage::Placed { .. } => {}
            StoreMessage::Withdraw { job, .. } => self.offers.retain(|old| old.job != job),
            StoreMessage::Done(done) => {
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
        self.granted = Some(offer);
        Some(Grant {
            disk: offer.disk,
            job: offer.job,
            bytes_max: match offer.work {
                StoreWork::Write { bytes, .. } => bytes.min(limits::RUN_BYTES_MAX),
                StoreWork::Commit { .. } | StoreWork::Probe { .. } => 0,
            },
            until: kernel::clock::monotonic().saturating_add(GRANT_SPAN),
        })
    }

    fn wait(&mut self, timeout: Duration) {
        if self.offers.is_empty() || self.granted.is_some() {
            let woken = self.nap.woken.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.nap.changed.wait_timeout_while(woken, timeout, |woken| !*woken);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        }
    }

    fn waker(&self) -> WakeFn {
        let nap = Arc::clone(&self.nap);
        Arc::new(move || {
            *nap.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
            nap.changed.notify_all();
        })
    }

    fn is_closed(&self) -> bool {
        false
    }
}
