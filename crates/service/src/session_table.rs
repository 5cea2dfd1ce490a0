//! The sessions, with the waiting that their rules ask for.
//!
//! Promise: a read that supersedes another begins when the other has ended, or in no session. Not here: the rules
//! (`session`).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dataplane::control::{Command, Standing};
use tokio::sync::Notify;
use units::{Nanos, ReservationId, StreamId};

use crate::config::SessionConfig;
use crate::media_service::lock;
use crate::plane_client::PlaneClient;
use crate::session::{Begin, Left, Request, Sessions, Viewer};

/// Longest wait for a superseded stream to end; then its viewer's next read is a stream of its own.
const SUPERSEDE_TIME_MAX: Duration = Duration::from_secs(2);
/// A player that seeks opens a connection while it closes the other, which the data plane notices two sends later.
const GONE_TIME_MAX: Duration = Duration::from_millis(500);

/// All sessions.
pub(crate) struct SessionTable {
    sessions: Mutex<Sessions>,
    changed: Notify,
    plane: Arc<PlaneClient>,
    started: Instant,
}

/// A stream's slot in its viewer's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionSlot {
    /// A reservation to use again.
    pub(crate) held: Option<ReservationId>,
    /// The session keeps the reservation afterwards.
    pub(crate) in_session: bool,
    /// Whose request it is beside others.
    pub(crate) standing: Standing,
}

impl SessionSlot {
    /// In no session: a stream of its own.
    pub(crate) const APART: Self = Self { held: None, in_session: false, standing: Standing::Newcomer };
}

impl SessionTable {
    pub(crate) fn new(config: SessionConfig, plane: Arc<PlaneClient>) -> Self {
        Self { sessions: Mutex::new(Sessions::new(config)), changed: Notify::new(), plane, started: Instant::now() }
    }

    pub(crate) fn configure(&self, config: SessionConfig) {
        lock(&self.sessions).configure(config);
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.sessions).len()
    }

    pub(crate) fn remembered(&self) -> usize {
        lock(&self.sessions).remembered()
    }

    /// Time since the start, for the rules, which take it as an argument.
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Enters a stream into its viewer's session, after ending the read it supersedes.
    pub(crate) async fn enter(&self, request: &Request) -> SessionSlot {
        let deadline = tokio::time::Instant::now() + SUPERSEDE_TIME_MAX;
        let mut stopped = None;
        loop {
            let changed = self.changed.notified();
            let begin = lock(&self.sessions).begin(request, self.now());
            let slot = |held, standing| SessionSlot { held, in_session: true, standing };
            let older = match begin {
                Begin::New(standing) => return slot(None, standing),
                Begin::Apart => return SessionSlot::APART,
                Begin::Reuse(reservation) => return slot(Some(reservation), Standing::Present),
                Begin::Replace(reservation, standing) => {
                    self.plane.release(reservation);
                    return slot(None, standing);
                }
                Begin::Supersede(older) => older,
            };
            if stopped != Some(older) {
                // A full queue shows again when the new stream is started; nothing to do about it here.
                let _ = self.plane.send(Command::Stop(older));
                stopped = Some(older);
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return SessionSlot::APART;
            }
        }
    }

    /// Waits until `viewer` reads nothing of this content any more. False if it did not anyway, or still does after a time in
    /// which a client that is gone is noticed.
    pub(crate) async fn older_read_ends(&self, viewer: &Viewer, content: u64) -> bool {
        let deadline = tokio::time::Instant::now() + GONE_TIME_MAX;
        let mut waited = false;
        loop {
            let changed = self.changed.notified();
            if !lock(&self.sessions).reads(viewer, content) {
                return waited;
            }
            waited = true;
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return false;
            }
        }
    }

    /// Ends a stream's part in its session; what the session does not keep is released.
    pub(crate) fn leave(&self, viewer: &Viewer, stream: StreamId, left: Left) {
        let release = lock(&self.sessions).end(viewer, stream, left, self.now());
        self.changed.notify_waiters();
        if let Some(reservation) = release {
            self.plane.release(reservation);
        }
    }

    /// Releases what sessions held for too long.
    pub(crate) fn expire(&self) {
        let expired = lock(&self.sessions).expire(self.now());
        for reservation in expired {
            self.plane.release(reservation);
        }
    }
}
