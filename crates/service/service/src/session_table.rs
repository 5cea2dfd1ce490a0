//! The table of sessions, and the waits that their rules require.
//!
//! The plane's queue of starts orders the starts it has admitted. A start that it refuses may still find room, but only the sessions know
//! where, so `delivery::open` asks the plane again after each of these, once each:
//!
//! - reservations that others hold but may lose are released ([`Retry::Release`]): the firmness of a hold depends on the reads of its
//!   viewer, which the plane does not see, and none is released earlier because its viewer is likely to come back;
//! - the start uses a reservation that its viewer has ([`Retry::TakeOwn`]): a viewer without a name may be two people, and each gets a
//!   reservation of its own while there is room for both. One with a name has left a read of which nothing was sent yet;
//! - another read of the viewer has ended ([`Retry::Wait`]), which leaves it something for one of the two above: the plane notices
//!   that a player has closed its old connection two sends after it has opened the new one, or got the answer there.
//!
//! Promise: no request waits longer than a player's patience. Not here: the rules (`session`).

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use dataplane::control::{Command, Resource};
use dataplane::gauges::Gauges;
use tokio::sync::Notify;
use tokio::time::timeout_at;
use units::{BitRate, Nanos, ReservationId, StreamId};

use crate::accounts::Accounts;
use crate::blocked_streams::UnreadStreams;
use crate::budgets::{BudgetKey, BudgetRefusal, ChargedBudgets};
use crate::lock::lock;
use crate::plane_client::PlaneClient;
use crate::running::RunningStreams;
use crate::session::{
    ContentPart, ReservationSource, Retry, SessionRequest, Sessions, ShortResource, StreamRelease, Viewer,
};
use crate::session_account::{SessionAccount, WholeContent};

/// A player closes its old connection while it opens the next one, which the data plane notices two sends later. A
/// client that takes nothing for this time, twenty ticks, does not play.
const GONE_TIME_MAX: Duration = Duration::from_secs(1);
/// Longest wait for a plane with a full queue to take releases: half of the time that a start may take.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);
/// Time between two tries to send releases to a plane with a full queue.
const RELEASE_PERIOD: Duration = Duration::from_millis(5);
/// Number of times that reservations are released for a refused request, each time for twice as much as before.
const RELEASES_MAX: u32 = 8;
/// Longest wait for the end of a stream that was stopped because it had not started; then the newer one runs in no session.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);

/// All sessions.
pub(crate) struct SessionTable {
    sessions: Mutex<Sessions>,
    changed: Notify,
    plane: Arc<PlaneClient>,
    gauges: Arc<Gauges>,
    /// The limits of budgets.
    accounts: Arc<Accounts>,
    running: Arc<RunningStreams>,
    unread: UnreadStreams,
    started: Instant,
}

/// A stream's slot in its viewer's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionSlot {
    /// A reservation to use.
    pub(crate) held: Option<ReservationId>,
    /// The read of its viewer that loses this reservation.
    pub(crate) from: Option<StreamId>,
    /// The session keeps the reservation afterwards.
    pub(crate) in_session: bool,
    /// It reads the next segment of the media that its viewer plays.
    pub(crate) is_series: bool,
}

/// The attempts so far of a request that is refused for want of room.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RefusedStart {
    /// Number of times that reservations of others were released for it.
    released: u32,
    /// It uses any reservation that its viewer has.
    pub(crate) no_room: bool,
    waited: bool,
}

impl SessionTable {
    pub(crate) fn new(
        hold: Nanos,
        plane: Arc<PlaneClient>,
        gauges: Arc<Gauges>,
        accounts: Arc<Accounts>,
        running: Arc<RunningStreams>,
    ) -> Self {
        let sessions = Mutex::new(Sessions::new(hold));
        Self {
            sessions,
            changed: Notify::new(),
            plane,
            gauges,
            accounts,
            running,
            unread: UnreadStreams::default(),
            started: Instant::now(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }

    /// Reads the rules, as they are between two waits. No other lock is taken meanwhile.
    pub(crate) fn read<T>(&self, reader: impl FnOnce(&Sessions) -> T) -> T {
        reader(&self.lock())
    }

    /// Reservations are held for this time from now on.
    pub(crate) fn hold_for(&self, hold: Nanos) {
        self.lock().hold_for(hold);
    }

    /// The viewer's reservation beside which small reads are made ([`Sessions::share_of`]), of segments of which the first may have been asked for at the same time: whether that is admitted is
    /// waited for.
    pub(crate) async fn segment_share(&self, viewer: &Viewer) -> Option<ReservationId> {
        let deadline = tokio::time::Instant::now() + GONE_TIME_MAX;
        loop {
            let changed = self.changed.notified();
            let (share, begins) = {
                let sessions = self.lock();
                (sessions.share_of(viewer, BitRate(0)), sessions.begins(viewer, BitRate(0)))
            };
            if share.is_some() || !begins || timeout_at(deadline, changed).await.is_err() {
                return share;
            }
        }
    }

    /// Time since the start, for the rules, which take it as an argument.
    fn now(&self) -> Nanos {
        Nanos::from(self.started.elapsed())
    }

    /// Enters a stream into its viewer's session. Before it takes over from a read that waits for its start, it waits for that
    /// start, and stops a slow one.
    ///
    /// # Errors
    /// A budget does not admit it.
    pub(crate) async fn enter(&self, request: &SessionRequest) -> Result<SessionSlot, BudgetRefusal> {
        let mut deadline = tokio::time::Instant::now() + GONE_TIME_MAX;
        let mut stopped = false;
        loop {
            let changed = self.changed.notified();
            let (begin, is_series) = {
                let mut sessions = self.lock();
                let begin = sessions.begin(request, &|key| self.accounts.limits(key), self.now());
                (begin, sessions.is_series(&request.viewer, request.stream))
            };
            let slot = |held, from| Ok(SessionSlot { held, from, in_session: true, is_series });
            let superseded = match begin {
                ReservationSource::New => return slot(None, None),
                ReservationSource::Take(reservation) => return slot(Some(reservation), None),
                ReservationSource::TakeFrom(reservation, stream) => return slot(Some(reservation), Some(stream)),
                ReservationSource::Refused(refusal) => return Err(refusal),
                ReservationSource::After(superseded) => superseded,
            };
            if timeout_at(deadline, changed).await.is_err() {
                if stopped {
                    return Ok(SessionSlot { held: None, from: None, in_session: false, is_series: false });
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
        let release = self.lock().started(viewer, stream, reservation);
        self.changed.notify_waiters();
        self.plane.release_all(release);
    }

    /// True if a request that was refused may have room now: others gave up reservations that yield to it, or the viewer has one of
    /// its own. `answer` sends the head of the answer, for a player that closes its older connection then.
    pub(crate) async fn makes_room(
        &self,
        request: &SessionRequest,
        short: Resource,
        tried: &mut RefusedStart,
        answer: &mut (dyn FnMut() + Send),
    ) -> bool {
        let deadline = tokio::time::Instant::now() + GONE_TIME_MAX;
        // A download takes over from no read.
        let mut older = match request.part {
            ContentPart::Download => Vec::new(),
            _ => self.taken_bytes(&request.viewer, request.content),
        };
        loop {
            let changed = self.changed.notified();
            let times = 1 << tried.released;
            let limits = &|key: &_| self.accounts.limits(key);
            let unread = self.unread.unread(Instant::now());
            let short = ShortResource { resource: short, times, unread: &unread };
            let retry = self.lock().refused(request, short, limits, self.now());
            match retry {
                Retry::Release(yielding, streams) => {
                    self.plane.release_all(yielding);
                    let patience = tokio::time::Instant::now() + RELEASE_TIME_MAX;
                    while !self.plane.send_releases() && tokio::time::Instant::now() < patience {
                        tokio::time::sleep(RELEASE_PERIOD).await;
                    }
                    if !streams.is_empty() {
                        self.end_unread(&streams, deadline).await;
                    }
                    if tried.released < RELEASES_MAX {
                        tried.released += 1;
                        return true;
                    }
                }
                Retry::TakeOwn => return !std::mem::replace(&mut tried.no_room, true),
                Retry::GiveUp => return std::mem::take(&mut tried.waited),
                Retry::Wait { closes_once_answered } => {
                    if closes_once_answered {
                        answer();
                    }
                    if let Some(unsent) = self.unsent(&request.viewer).filter(|_| !tried.no_room) {
                        self.lock().leaves(&request.viewer, unsent);
                        tried.no_room = true;
                        return true;
                    }
                    tried.waited = true;
                    if timeout_at(deadline, changed).await.is_err() {
                        let still = self.taken_bytes(&request.viewer, request.content);
                        let mut stopped = still.into_iter().filter(|read| older.contains(read));
                        let Some((stopped, _)) = stopped.find(|(stream, _)| self.is_blocked(*stream)) else {
                            return false;
                        };
                        older.clear();
                        self.lock().leaves(&request.viewer, stopped);
                    }
                }
            }
        }
    }

    /// Ends streams that are not read, and waits until they have ended, as long as that takes no longer than `deadline`. Their viewers keep
    /// nothing of them.
    async fn end_unread(&self, streams: &[StreamId], deadline: tokio::time::Instant) {
        for stream in streams {
            if let Some(known) = self.running.lock().get_mut(stream) {
                known.stopped = true;
            }
            self.plane.stop(*stream);
        }
        loop {
            let changed = self.changed.notified();
            let is_over = !streams.iter().any(|stream| self.running.lock().contains_key(stream));
            if is_over || timeout_at(deadline, changed).await.is_err() {
                return;
            }
        }
    }

    /// The viewer's reads of a content, the newest first, with the bytes that the client of each has taken.
    fn taken_bytes(&self, viewer: &Viewer, content: u64) -> Vec<(StreamId, u64)> {
        let reads = self.lock().reads(viewer, content);
        let taken = |stream| Some((stream, self.gauges.find(stream)?.sent_bytes.get()));
        reads.into_iter().filter_map(taken).collect()
    }

    /// True if the client of a read takes nothing just now.
    fn is_blocked(&self, stream: StreamId) -> bool {
        self.gauges.find(stream).is_some_and(|gauges| gauges.blocked.get() != 0)
    }

    /// A recording begins.
    ///
    /// # Errors
    /// A budget does not admit it.
    pub(crate) fn begin_recording(
        &self,
        stream: StreamId,
        charged: &ChargedBudgets,
        rate: BitRate,
    ) -> Result<(), BudgetRefusal> {
        let limits = &|key: &_| self.accounts.limits(key);
        self.lock().begin_recording(stream, (charged, rate), limits, self.now())
    }

    /// The recording ended.
    pub(crate) fn end_recording(&self, stream: StreamId) {
        self.lock().end_recording(stream);
        self.changed.notify_waiters();
    }

    /// Waits a moment for the start or end of a stream; true if there was one.
    pub(crate) async fn changes(&self) -> bool {
        timeout_at(tokio::time::Instant::now() + GONE_TIME_MAX, self.changed.notified()).await.is_ok()
    }

    /// Releases what a budget holds without reading it, but for the reservations of `viewer`; true if there was something.
    pub(crate) fn give_up(&self, key: &BudgetKey, viewer: &Viewer) -> bool {
        let given_up = self.lock().give_up(key, viewer, self.now());
        let some = !given_up.is_empty();
        self.plane.release_all(given_up);
        some
    }

    /// Keeps the reservation of a viewer for this time; false: it has none.
    pub(crate) fn keep(&self, viewer: &Viewer, time: Nanos) -> bool {
        self.lock().keep(viewer, self.now().saturating_add(time))
    }

    /// True if a reservation is kept for this viewer.
    pub(crate) fn keeps(&self, viewer: &Viewer) -> bool {
        self.lock().keeps(viewer, self.now())
    }

    /// Keeps nothing for this viewer any more.
    pub(crate) fn keep_no_more(&self, viewer: &Viewer) {
        let released = self.lock().keep_no_more(viewer);
        self.plane.release_all(released);
    }

    /// A read of a viewer that names itself of which nothing was sent yet.
    fn unsent(&self, viewer: &Viewer) -> Option<StreamId> {
        let reads = self.lock().named_reads(viewer);
        let is_unsent =
            |stream: &StreamId| self.gauges.find(*stream).is_some_and(|gauges| gauges.sent_bytes.get() == 0);
        reads.into_iter().find(is_unsent)
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
        self.lock().sent_whole(viewer, stream, &WholeContent { requested_at, lasts, was_late }, now)
    }

    /// Ends a stream's part in its session; a reservation that the session does not keep is released.
    pub(crate) fn leave(&self, viewer: &Viewer, stream: StreamId, left: StreamRelease) {
        let release = self.lock().end(viewer, stream, left, self.now());
        self.changed.notify_waiters();
        self.plane.release_all(release);
    }

    /// Releases the reservations that sessions held for too long, and looks for streams that are not read. Called each second.
    pub(crate) fn expire(&self) {
        self.unread.look(&self.gauges, Instant::now());
        let expired = self.lock().expire(self.now());
        self.plane.release_all(expired);
    }
}
