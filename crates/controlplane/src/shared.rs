//! What all connections share.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use dataplane::control::{Command, Standing};
use dataplane::gauges::Gauges;
use tokio::sync::{Notify, watch};
use units::{BitRate, DiskId, Nanos, ReservationId, StreamId};

use crate::auth::Logins;
use crate::broker::Broker;
use crate::config::Config;
use crate::contents::Contents;
use crate::figures::Looks;
use crate::log::Log;
use crate::manager::registry::Registry;
use crate::seats::Connections;
use crate::session::{Begin, Left, Request, Sessions, Viewer};

/// Longest wait for a superseded stream to end; then its viewer's next read is a stream of its own.
const SUPERSEDE_TIME_MAX: Duration = Duration::from_secs(2);
/// A player that seeks opens a connection while it closes the other, which the data plane notices two sends later.
const GONE_TIME_MAX: Duration = Duration::from_millis(500);

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) contents: Arc<dyn Contents>,
    pub(crate) broker: Arc<Broker>,
    pub(crate) registry: Registry,
    pub(crate) access: Log,
    pub(crate) events: Log,
    pub(crate) ready: Arc<AtomicBool>,
    pub(crate) draining: watch::Receiver<bool>,
    pub(crate) stats: Stats,
    pub(crate) connections: Arc<Connections>,
    pub(crate) running: Mutex<HashMap<StreamId, Running>>,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) looks: Mutex<Looks>,
    pub(crate) logins: Logins,
    config: RwLock<Arc<Config>>,
    sessions: Mutex<Sessions>,
    sessions_changed: Notify,
    started: Instant,
    hasher: RandomState,
}

/// A stream under way, as the control plane knows it: from the moment it asks the data plane for it, so that its listing
/// is never behind its first byte; a recording from the moment it has its reservation.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) path: String,
    pub(crate) client: IpAddr,
    pub(crate) rate: Option<BitRate>,
    pub(crate) disk: DiskId,
    pub(crate) started: SystemTime,
    /// Bytes of a recording that came; none for a delivery.
    pub(crate) received: Option<Arc<AtomicU64>>,
}

/// What the control plane counts.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) uploads_open: AtomicU64,
    pub(crate) requests: [AtomicU64; 5],
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_uploaded: AtomicU64,
    pub(crate) streams_started: AtomicU64,
    pub(crate) streams_refused: AtomicU64,
    pub(crate) misses: AtomicU64,
}

impl Stats {
    /// Counts a finished request by the class of its status.
    pub(crate) fn request(&self, status: http::StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.requests[class].fetch_add(1, Ordering::Relaxed);
    }
}

/// A stream's place in its viewer's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// A reservation to use again.
    pub(crate) held: Option<ReservationId>,
    /// The session keeps the reservation afterwards.
    pub(crate) in_session: bool,
    /// Whose request it is beside others.
    pub(crate) standing: Standing,
}

impl Place {
    /// In no session: a stream of its own.
    pub(crate) const APART: Self = Self { held: None, in_session: false, standing: Standing::Newcomer };
}

impl Shared {
    #[allow(clippy::too_many_arguments, reason = "the parts the wiring gives, once")]
    pub(crate) fn new(
        config: Config,
        contents: Arc<dyn Contents>,
        broker: Arc<Broker>,
        registry: Registry,
        logs: (Log, Log),
        ready: Arc<AtomicBool>,
        gauges: Arc<Gauges>,
        draining: watch::Receiver<bool>,
    ) -> Self {
        Self {
            sessions: Mutex::new(Sessions::new(config.sessions)),
            config: RwLock::new(Arc::new(config)),
            contents,
            broker,
            registry,
            access: logs.0,
            events: logs.1,
            ready,
            draining,
            stats: Stats::default(),
            connections: Arc::default(),
            running: Mutex::default(),
            gauges,
            looks: Mutex::new(None),
            logins: Logins::default(),
            sessions_changed: Notify::new(),
            started: Instant::now(),
            hasher: RandomState::new(),
        }
    }

    /// The settings in force. A request that was begun under older ones may go on with them.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other settings in force, for what begins from now on.
    pub(crate) fn configure(&self, config: Config) {
        lock(&self.sessions).configure(config.sessions);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Time since the start, for the cores that take it as an argument.
    pub(crate) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// A keyed hash: for table keys and for multipart boundaries nobody can foresee.
    pub(crate) fn hash(&self, value: impl std::hash::Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    /// Sessions that run or hold something.
    pub(crate) fn session_count(&self) -> usize {
        lock(&self.sessions).len()
    }

    /// Viewers that come before newcomers if they return.
    pub(crate) fn remembered_count(&self) -> usize {
        lock(&self.sessions).remembered()
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Enters a stream into its viewer's session, after ending the read it supersedes.
    pub(crate) async fn enter(&self, request: &Request) -> Place {
        let deadline = tokio::time::Instant::now() + SUPERSEDE_TIME_MAX;
        let mut stopped = None;
        loop {
            let changed = self.sessions_changed.notified();
            let begin = lock(&self.sessions).begin(request, self.now());
            let place = |held, standing| Place { held, in_session: true, standing };
            let older = match begin {
                Begin::New(standing) => return place(None, standing),
                Begin::Apart => return Place::APART,
                Begin::Reuse(reservation) => return place(Some(reservation), Standing::Present),
                Begin::Replace(reservation, standing) => {
                    self.broker.release(reservation);
                    return place(None, standing);
                }
                Begin::Supersede(older) => older,
            };
            if stopped != Some(older) {
                // A full queue shows again when the new stream is started; nothing to do about it here.
                let _ = self.broker.send(Command::Stop(older));
                stopped = Some(older);
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Place::APART;
            }
        }
    }

    /// Waits until `viewer` reads nothing of this content any more. False if it did not anyway, or still does after a time in
    /// which a client that is gone is noticed.
    pub(crate) async fn older_read_ends(&self, viewer: &Viewer, content: u64) -> bool {
        let deadline = tokio::time::Instant::now() + GONE_TIME_MAX;
        let mut waited = false;
        loop {
            let changed = self.sessions_changed.notified();
            if !lock(&self.sessions).reads(viewer, content) {
                return waited;
            }
            waited = true;
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return false;
            }
        }
    }

    /// Ends a stream's place in its session; what the session does not keep is released.
    pub(crate) fn leave(&self, viewer: &Viewer, stream: StreamId, left: Left) {
        let release = lock(&self.sessions).end(viewer, stream, left, self.now());
        self.sessions_changed.notify_waiters();
        if let Some(reservation) = release {
            self.broker.release(reservation);
        }
    }

    /// Releases what sessions held for too long, and what could not be released before.
    pub(crate) fn expire_sessions(&self) {
        let expired = lock(&self.sessions).expire(self.now());
        for reservation in expired {
            self.broker.release(reservation);
        }
        self.broker.settle();
    }
}

/// No table here is left half-changed by a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
