//! State that all connections share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use http_types::StatusCode;
use service::MediaService;
use service::events;
use service::log::{KindLimit, Log};
use service::resumable::ResumableUploads;
use tokio::sync::{Semaphore, watch};

use crate::access_log::AccessRecord;
use crate::config::HttpConfig;
use crate::dav_state::DavKeeper;
use crate::memory::ConnectionMemory;

/// Logins that may wait for the provider of identities at once.
const PROVIDER_TURNS: usize = 8;

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) service: Arc<MediaService>,
    pub(crate) access: Log,
    pub(crate) draining: watch::Receiver<bool>,
    pub(crate) stats: ConnectionStats,
    pub(crate) memory: ConnectionMemory,
    /// Locks and dead properties.
    pub(crate) dav: DavKeeper,
    /// Uploads that clients continue.
    pub(crate) uploads: Arc<ResumableUploads>,
    /// Turns of logins to ask the provider of identities.
    pub(crate) provider_turns: Semaphore,
    errors_logged: KindLimit,
    config: RwLock<Arc<HttpConfig>>,
}

/// Counts of connections and requests.
#[derive(Debug, Default)]
pub(crate) struct ConnectionStats {
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    /// Connections that ended before they were sealed by TLS.
    pub(crate) handshakes_failed: AtomicU64,
    /// By the class of their status.
    pub(crate) requests: [AtomicU64; 5],
    /// Requests that ended in a panic.
    pub(crate) panics: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        config: HttpConfig,
        service: Arc<MediaService>,
        access: Log,
        (dav, uploads): (DavKeeper, Arc<ResumableUploads>),
    ) -> Self {
        Self {
            draining: service.draining(),
            service,
            access,
            dav,
            uploads,
            stats: ConnectionStats::default(),
            memory: ConnectionMemory::new(config.memory_bytes),
            provider_turns: Semaphore::new(PROVIDER_TURNS),
            errors_logged: KindLimit::default(),
            config: RwLock::new(Arc::new(config)),
        }
    }

    /// The settings in force. A request that was begun under older ones may continue with them.
    pub(crate) fn config(&self) -> Arc<HttpConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other settings in force, for requests that begin from now on.
    pub(crate) fn configure(&self, config: HttpConfig) {
        self.uploads.expire_after(config.uploads_expire);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Counts a finished request and writes its line of the access log. Lines of refused requests are limited in each
    /// second, by their status; the event log states how many were left out.
    pub(crate) fn note_request(&self, status: StatusCode, body_bytes: u64, access: impl FnOnce() -> AccessRecord) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.stats.requests[class].fetch_add(1, Ordering::Relaxed);
        let is_written = || status.as_u16() < 400 || self.errors_logged.admits(status.as_str(), Instant::now());
        if self.access.is_on() && is_written() {
            self.access.line(access().line(status, body_bytes, SystemTime::now()));
        }
    }

    /// Logs an event with the number of lines that the access log left out. Called once a second.
    pub(crate) fn tell_left_out(&self) {
        for (status, count) in self.errors_logged.left_out() {
            let kind = format!("access log: {status}");
            self.service.events.tell(events::lines_left_out(&kind, count, SystemTime::now()));
        }
    }
}
