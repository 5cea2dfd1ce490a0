//! State that all connections share.

use std::sync::{Arc, PoisonError, RwLock};

use http_types::StatusCode;
use service::MediaService;
use service::requests::{FrontRequests, RequestRecord};
use service::resumable::ResumableUploads;
use tokio::sync::{Semaphore, watch};

use crate::config::HttpConfig;
use crate::dav_state::DavKeeper;
use crate::live::LatestEvent;
use crate::memory::ConnectionMemory;

/// Logins that may wait for the provider of identities at once.
const PROVIDER_TURNS: usize = 8;

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) service: Arc<MediaService>,
    requests: Arc<FrontRequests>,
    pub(crate) draining: watch::Receiver<bool>,
    pub(crate) memory: ConnectionMemory,
    /// Locks and dead properties.
    pub(crate) dav: DavKeeper,
    /// Uploads that clients continue.
    pub(crate) uploads: Arc<ResumableUploads>,
    /// Turns of logins to ask the provider of identities.
    pub(crate) provider_turns: Semaphore,
    /// The latest event of the figures that clients follow.
    pub(crate) live: LatestEvent,
    config: RwLock<Arc<HttpConfig>>,
}

impl Shared {
    pub(crate) fn new(
        config: HttpConfig,
        service: Arc<MediaService>,
        (dav, uploads): (DavKeeper, Arc<ResumableUploads>),
    ) -> Self {
        Self {
            draining: service.draining(),
            requests: service.requests.begin("http_requests_total", "Requests finished, by class of status."),
            service,
            dav,
            uploads,
            memory: ConnectionMemory::new(config.memory_bytes),
            provider_turns: Semaphore::new(PROVIDER_TURNS),
            live: LatestEvent::default(),
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

    /// Counts a finished request and writes its line of the access log.
    pub(crate) fn note_request(&self, status: StatusCode, body_bytes: u64, record: impl FnOnce() -> RequestRecord) {
        self.service.requests.note(&self.requests, (status.as_u16(), body_bytes), record);
    }
}
