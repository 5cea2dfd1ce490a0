//! What all connections share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use http_types::StatusCode;
use service::MediaService;
use service::log::Log;
use tokio::sync::watch;

use crate::access_log::Access;
use crate::config::Config;
use crate::connection_limit::Connections;
use crate::figures::Looks;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) service: Arc<MediaService>,
    pub(crate) access: Log,
    pub(crate) draining: watch::Receiver<bool>,
    pub(crate) stats: Stats,
    pub(crate) connections: Arc<Connections>,
    pub(crate) looks: Mutex<Looks>,
    config: RwLock<Arc<Config>>,
}

/// What is counted of connections and requests.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    /// By the class of their status.
    pub(crate) requests: [AtomicU64; 5],
}

impl Shared {
    pub(crate) fn new(config: Config, service: Arc<MediaService>, access: Log) -> Self {
        Self {
            draining: service.draining(),
            service,
            access,
            stats: Stats::default(),
            connections: Arc::default(),
            looks: Mutex::new(None),
            config: RwLock::new(Arc::new(config)),
        }
    }

    /// The settings in force. A request that was begun under older ones may go on with them.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other settings in force, for what begins from now on.
    pub(crate) fn configure(&self, config: Config) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Counts a finished request and writes its line of the access log.
    pub(crate) fn note_request(&self, access: &Access, status: StatusCode, body_bytes: u64) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.stats.requests[class].fetch_add(1, Ordering::Relaxed);
        self.access.line(access.line(status, body_bytes, SystemTime::now()));
    }
}

/// No table here is left half-changed by a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
