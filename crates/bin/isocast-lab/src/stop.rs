//! The wish to stop: a command that is interrupted stops its processes and removes its files before it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Set once, looked at by every loop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Set by SIGINT, SIGTERM and SIGHUP from now on. A second signal changes nothing: `timeout` sends SIGTERM twice, and
    /// the command must still remove its files.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(crate) fn on_signals() -> anyhow::Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0)).context("installing signal handlers")?;
        }
        Ok(stop)
    }

    /// Whether to stop.
    #[must_use]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Stops all parts that check it.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Ends the caller with an error if it is time to stop.
    ///
    /// # Errors
    /// Stopped.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.is_set() {
            bail!("interrupted; all that was started is stopped and removed");
        }
        Ok(())
    }
}
