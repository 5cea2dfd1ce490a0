//! The service's life: since when it runs, whether it drains, whether running work is to end.
//!
//! Not here: the steps of its end (`media_service`).

use std::time::Instant;

use tokio::sync::watch;
use units::Nanos;

/// See the module.
pub(crate) struct Lifecycle {
    started: Instant,
    draining: watch::Sender<bool>,
    stopping: watch::Sender<bool>,
}

impl Lifecycle {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), draining: watch::Sender::new(false), stopping: watch::Sender::new(false) }
    }

    /// Time since the start.
    pub(crate) fn uptime(&self) -> Nanos {
        Nanos::from(self.started.elapsed())
    }

    /// Becomes true when a drain begins.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Becomes true when running streams and uploads are to end.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    pub(crate) fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }
}
