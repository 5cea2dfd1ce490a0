//! The sessions, with the waiting that their rules ask for.
//!
//! The plane's queue of starts orders the starts it has admitted. A start that it refuses may still find room, but only the sessions know
//! where, so `delivery::open` asks the plane again after each of these, once each:
//!
//! - reservations that others hold but may lose are released ([`Retry::Release`]): the firmness of a hold depends on the reads of its
//!   viewer, which the plane does not see, and none is released earlier because its viewer is likely to come back;
//! - the start uses a reservation that its viewer has ([`Retry::TakeOwn`]): a viewer without a name may be two people, and each gets a
//!   reservation of its own while there is room for both. One with a name has left a read of which nothing was sent yet;
//! - another read of the viewer has ended ([`Retry::Wait`]), which leaves it something for one of the two above: the plane notices
//!   that a player has closed its old connection two sends after it has opened the new one.
//!
//! Promise: no request waits longer than a player's patience. Not here: the rules (`session`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dataplane::control::Command;
use dataplane::gauges::Gauges;
use tokio::sync::Notify;
use tokio::time::timeout_at;
use units::{BitRate, Nanos, ReservationId, StreamId};

use crate::lock::lock;
use crate::plane_client::PlaneClient;
use crate::session::{ContentPart, ReservationSource, Retry, SessionRequest, Sessions, StreamRelease, Viewer};
use crate::session_account::{SessionAccount, WholeContent};

/// A player closes its old connection while it opens the next one, which the data plane notices two sends later. A
/// client that takes nothing for so long, twenty ticks, does not play.
const GONE_TIME_MAX: Duration = Duration::from_secs(1);
/// Longest wait for the end of a stream that was stopped because it had not started; then the newer one runs in no session.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);

/// All sessions.
pub(crate) struct SessionTable {
    sessions: Mutex<Sessions>,
    changed: Notify,
    plane: Arc<PlaneClient>,
    gauges: Arc<Gauges>,
    started: Instant,
}

/// A stream's slot in its viewer's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionSlot {
    /// A reservation to use.
    pub(crate) held: Option<ReservationId>,
    /// The session keeps the reservation afterwards.
    pub(crate) in_session: bool,
    /// It reads the next segment of the media that its viewer plays.
    pub(crate) goes_on: bool,
}

/// The attempts so far of a request that is refused for want of room.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RefusedStart {
    released: bool,
    /// It uses any reservation that its viewer has.
    pub(crate) no_room: bool,
    waited: bool,
}

/// A read from which a newer one would take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OlderRead {
    stream: StreamId,
    sent_bytes: u64,
}

impl SessionTable {
    pub(crate) fn new(hold: Nanos, plane: Arc<PlaneClient>, gauges: Arc<Gauges>) -> Self {
        let sessions = Mutex::new(Sessions::new(hold));
        Self { sessions, changed: Notify::new(), plane, gauges, started: Instant::now() }
    }

    pub(crate) fn hold_for(&self, hold: Nanos) {
        lock(&self.sessions).hold_for(hold);
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.sessions).len()
    }

    /// True if the viewer has a reservation for this content.
    pub(crate) fn has(&self, viewer: &Viewer, content: u64) -> bool {
        lock(&self.sessions).has(viewer, content)
    }

    /// True if the viewer has named the rate of what it plays ([`Sessions::names_rate`]).
    pub(crate) fn names_rate(&self, viewer: &Viewer) -> bool {
        lock(&self.sessions).names_rate(viewer)
    }

    /// The viewer's reservation beside which small reads of this rate are made.
    pub(crate) fn share_of(&self, viewer: &Viewer, rate: BitRate) -> Option<ReservationId> {
        lock(&self.sessions).share_of(viewer, rate)
    }

    /// The same for a read beside segments of which the first may have been asked for at the same time: whether that is admitted is
    /// waited for.
    pub(crate) async fn share_beside(&self, viewer: &Viewer) -> Option<ReservationId> {
        let deadline = tokio::time::Instant::now() + GONE_TIME_MAX;
        loop {
            let changed = self.changed.notified();
            let share = self.share_of(viewer, BitRate(0));
            let begins = lock(&self.sessions).begins(viewer, BitRate(0));
            if share.is_some() || !begins || timeout_at(deadline, changed).await.is_err() {
                return share;
            }
        }
    }

    /// Time since the start, for the rules, which take it as an argument.
    fn now(&self) -> Nanos {
        Nanos::from(self.started.elapsed())
    }

    /// Enters a stream into its viewer's session. Where that would take over from a read that waits for its start, that is
    /// waited for, and stopped if it takes long.
    pub(crate) async fn enter(&self, request: &SessionRequest) -> SessionSlot {
        let mut deadline = tokio::time::Instant::now() + GONE_TIME_MAX;
        let mut stopped = false;
        loop {
            let changed = self.changed.notified();
            let (begin, goes_on) = {
                let mut sessions = lock(&self.sessions);
                let begin = sessions.begin(request, self.now());
                (begin, sessions.goes_on(&request.viewer, request.stream))
            };
            let superseded = match begin {
                ReservationSource::New => return SessionSlot { held: None, in_session: true, goes_on },
                ReservationSource::Take(reservation) => {
                    return SessionSlot { held: Some(reservation), in_session: true, goes_on };
                }
                ReservationSource::After(superseded) => superseded,
            };
            if timeout_at(deadline, changed).await.is_err() {
                if stopped {
                    return SessionSlot { held: None, in_session: false, goes_on: false };
                }
                // A full queue shows again when the new stream is started; nothing to do about it here.
                let _ = self.plane.send(Command::Stop(superseded));
                stopped = true;
                deadline = tokio::time::Instant::now() + STOP_TIME_MAX;
            }
        }
    }

    /// A stream of a session was admitted.
    pub(crate) fn started(&self, viewer: &Viewer, stream: StreamId, reservation: ReservationId) {
        lock(&self.sessions).started(viewer, stream, reservation);
        self.changed.notify_waiters();
    }

    /// True if a request that was refused may have room now: others gave up reservations that they do not need, or the viewer has one of
    /// its own.
    pub(crate) async fn makes_room(
        &self,
        viewer: &Viewer,
        content: u64,
        part: ContentPart,
        tried: &mut RefusedStart,
    ) -> bool {
        let deadline = tokio::time::Instant::now() + GONE_TIME_MAX;
        let is_from_start = matches!(part, ContentPart::Whole | ContentPart::FromStart);
        let superseded = is_from_start.then(|| self.superseded(viewer, content)).flatten();
        loop {
            let changed = self.changed.notified();
            let retry = lock(&self.sessions).refused(viewer, content, part, self.now());
            match retry {
                Retry::Release(loose) => {
                    loose.into_iter().for_each(|reservation| self.plane.release(reservation));
                    if !tried.released {
                        tried.released = true;
                        return true;
                    }
                }
                Retry::TakeOwn => return !std::mem::replace(&mut tried.no_room, true),
                Retry::GiveUp => return std::mem::take(&mut tried.waited),
                Retry::Wait => {
                    if let Some(unsent) = self.unsent(viewer).filter(|_| !tried.no_room) {
                        lock(&self.sessions).leaves(viewer, unsent);
                        tried.no_room = true;
                        return true;
                    }
                    tried.waited = true;
                    if timeout_at(deadline, changed).await.is_err() {
                        let still = superseded.filter(|older| self.blocked(older.stream) == Some(*older));
                        let Some(still) = still else { return false };
                        lock(&self.sessions).looks_away(viewer, still.stream, self.now());
                    }
                }
            }
        }
    }

    /// The viewer's newest read of the content of which the client takes nothing just now.
    fn superseded(&self, viewer: &Viewer, content: u64) -> Option<OlderRead> {
        let reads = lock(&self.sessions).reads(viewer, content);
        reads.into_iter().find_map(|stream| self.blocked(stream))
    }

    /// A read of a viewer that names itself of which nothing was sent yet.
    fn unsent(&self, viewer: &Viewer) -> Option<StreamId> {
        let reads = lock(&self.sessions).named_reads(viewer);
        let is_unsent =
            |stream: &StreamId| self.gauges.find(*stream).is_some_and(|gauges| gauges.sent_bytes.get() == 0);
        reads.into_iter().find(is_unsent)
    }

    /// How much the client of a read has taken, if it takes nothing just now.
    fn blocked(&self, stream: StreamId) -> Option<OlderRead> {
        let gauges = self.gauges.find(stream)?;
        (gauges.blocked.get() != 0).then(|| OlderRead { stream, sent_bytes: gauges.sent_bytes.get() })
    }

    /// Notes that a read sent its content whole, `took` after its request; the content `lasts` this time at its rate. Returns the account
    /// of its session, if that has just fallen behind.
    pub(crate) fn sent_whole(
        &self,
        viewer: &Viewer,
        stream: StreamId,
        (took, lasts, was_late): (Duration, Nanos, bool),
    ) -> Option<SessionAccount> {
        let now = self.now();
        let requested_at = now.saturating_sub(Nanos::from(took));
        lock(&self.sessions).sent_whole(viewer, stream, &WholeContent { requested_at, lasts, was_late }, now)
    }

    /// The accounts of the sessions in which a stream runs.
    pub(crate) fn accounts(&self) -> HashMap<StreamId, SessionAccount> {
        lock(&self.sessions).accounts()
    }

    /// Ends a stream's part in its session; a reservation that the session does not keep is released.
    pub(crate) fn leave(&self, viewer: &Viewer, stream: StreamId, left: StreamRelease) {
        let release = lock(&self.sessions).end(viewer, stream, left, self.now());
        self.changed.notify_waiters();
        if let Some(reservation) = release {
            self.plane.release(reservation);
        }
    }

    /// Releases the reservations that sessions held for too long.
    pub(crate) fn expire(&self) {
        let expired = lock(&self.sessions).expire(self.now());
        for reservation in expired {
            self.plane.release(reservation);
        }
    }
}
