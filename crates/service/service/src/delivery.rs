//! Deliveries: a content, or ranges of it, at the rate that was decided, to a socket or outlet.
//!
//! Promise: the destination is in one place at a time: with the caller, or inside a command or report of the data plane; a refusal
//! gives it back untouched. A stream leaves the listing and its session before its end is logged, however it ends.
//! Not here: the framing of the ranges (the caller gives literal segments), stages (`pipeline`).

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use api::RateOrigin;
use content::{Content, Segment};
use dataplane::control::{
    Command, Delivery, DeliveryDestination, Ending, Outcome, Refusal, Report, Resource, Service as Class,
};
use socket2::SockRef;
use units::{BitRate, Nanos, StreamId};

use crate::access::{Permit, ToRead};
use crate::budget_use;
use crate::budgets::{BudgetLimit, BudgetRefusal, ChargedBudgets};
pub use crate::client::Client;
use crate::config::{ServiceConfig, WhenFull, by_prefix};
use crate::contents::{MediaRate, Want};
use crate::events;
use crate::media_service::MediaService;
use crate::plane_client::PendingStream;
use crate::rate::{Decision, RateTerms, RequestedRate};
use crate::running::RunningStream;
use crate::session::{self, ContentPart, StopPoint, StreamRelease, Viewer};
use crate::session_table::{RefusedStart, SessionSlot};
use crate::shortage::Shortage;

/// Smallest send buffer asked for.
const BUFFER_BYTES_MIN: usize = 16 * 1024;
/// Largest send buffer asked for.
const BUFFER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Send buffer of a best-effort delivery.
const BEST_EFFORT_BUFFER_BYTES: usize = 512 * 1024;

/// Terms on which a read is served, and its treatment when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeliveryTerms {
    /// At which rate.
    pub(crate) decision: Decision,
    /// The same if it is the next segment of the media that its viewer plays: ahead of the rate, so that the player's buffer
    /// fills.
    next: Decision,
    /// Treatment of the read when there is no room.
    when_full: WhenFull,
    /// The source of the rate.
    origin: RateOrigin,
    /// The request names the rate.
    is_named: bool,
    /// It may be read along with the media that its viewer plays, from the share of that.
    pub(crate) is_companion: bool,
}

/// A read of an open content.
pub(crate) struct DeliveryRequest {
    /// The content's path below the root.
    pub(crate) path: String,
    /// The content.
    pub(crate) content: Arc<Content>,
    /// The segments to send: ranges of the content, and literal bytes between them.
    pub(crate) body: Vec<Segment>,
    /// Terms of service.
    pub(crate) terms: DeliveryTerms,
    /// The viewer.
    pub(crate) viewer: Viewer,
    /// The part of the content that is read.
    pub(crate) part: ContentPart,
    /// The connection.
    pub(crate) client: Client,
    /// The permit to read it.
    pub(crate) permit: Permit<ToRead>,
    /// The budgets that it is charged to.
    pub(crate) charged: ChargedBudgets,
    /// How the content was opened.
    pub(crate) want: Want,
    /// When it was requested.
    pub(crate) requested_at: Instant,
}

/// Why a delivery was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// Not admitted: this is short.
    #[error("there is no room for the stream: {0}")]
    NoRoom(Shortage),
    /// A budget does not admit it.
    #[error(transparent)]
    Budget(#[from] BudgetRefusal),
    /// A queue or table is full, or the data plane is gone, with the socket.
    #[error("too many requests are under way")]
    Busy,
}

/// Makes the bytes that a protocol sends before the content, given the rate that was granted.
pub type HeadRenderer<'a> = &'a (dyn Fn(Option<BitRate>) -> Vec<u8> + Send + Sync);

/// A delivery under way.
pub struct Paced {
    service: Arc<MediaService>,
    request: DeliveryRequest,
    pending: PendingStream,
    session: SessionGuard,
    prefix_bytes: u64,
    /// The head of its answer was sent before it was admitted.
    is_answered: bool,
    /// Report of the data plane that came before the end was requested.
    ended: Option<(Box<Delivery>, Ending)>,
}

/// A delivery that came to its end.
pub struct Finished {
    /// The socket, if it went to one; none if the plane is gone, or the socket takes nothing any more.
    pub socket: Option<OwnedFd>,
    /// How it ended, or why nothing at all was sent.
    pub end: Result<Ending, DeliveryError>,
    /// Bytes sent after the prefix.
    pub body_bytes: u64,
}

impl DeliveryTerms {
    /// Combines the requested rate, the rate that the content needs and the rate of the path, for `bytes` of the content.
    pub(crate) fn decide(
        config: &ServiceConfig,
        path: &str,
        asked: RateTerms,
        media: Option<MediaRate>,
        bytes: u64,
    ) -> Self {
        let decision = asked.decide(media, config.rate_of(path), config.burst, bytes);
        // A burst or ceiling that the request itself names is not changed.
        let is_stated = asked.burst.is_some() || asked.ceiling.is_some();
        let next = if is_stated { decision } else { decision.ahead(bytes, BitRate(u64::MAX)) };
        Self {
            decision,
            next,
            when_full: by_prefix(&config.path_when_full, path).unwrap_or_default(),
            origin: asked.origin(media, config.rate_of(path)),
            is_named: matches!(asked.rate, RequestedRate::Rate(_)),
            is_companion: false,
        }
    }

    /// True if it is best effort, or becomes so where there is no room for its rate.
    pub(crate) fn may_be_best_effort(&self) -> bool {
        self.decision == Decision::BestEffort || self.when_full == WhenFull::BestEffort
    }
}

/// Starts a delivery to `destination`. If there is no room, it uses the reservations that its viewer holds and those that others
/// hold after a mere look at a content; then it tries best effort, if the path is configured for that. A player that closes its older
/// connection only once the newer one is answered gets the head before that, without a rate; if it closes nothing, the connection ends there.
///
/// # Errors
/// The reason why it was not started, with the destination as it was; none if the answer has begun there.
pub(crate) async fn open(
    service: &Arc<MediaService>,
    mut request: DeliveryRequest,
    mut destination: DeliveryDestination,
    prefix: HeadRenderer<'_>,
) -> Result<Paced, (Option<DeliveryDestination>, DeliveryError)> {
    let stated_rate = request.terms.decision.rate();
    let mut tried = RefusedStart::default();
    let mut over_budget = BudgetRetry::default();
    let mut is_answered = false;
    loop {
        let head = if is_answered { Vec::new() } else { prefix(request.terms.decision.rate()) };
        let (back, unused, error) = match start(service, request, destination, head, tried.no_room).await {
            Ok(paced) => return Ok(Paced { is_answered, ..paced }),
            Err(refused) => *refused,
        };
        request = unused;
        let Some(back) = back else { return Err((None, error)) };
        destination = back;
        let short = match error {
            DeliveryError::NoRoom(short) => short,
            DeliveryError::Budget(refusal) if over_budget.again(service, &refusal, &request.viewer).await => continue,
            DeliveryError::Budget(refusal) => {
                note_budget_refusal(service, &refusal, &request.path, request.client.address);
                return Err(((!is_answered).then_some(destination), refusal.into()));
            }
            DeliveryError::Busy => return Err(((!is_answered).then_some(destination), error)),
        };
        let resource = short.refusal.resource;
        let draining = resource == Resource::Draining;
        let guaranteed = request.terms.decision != Decision::BestEffort;
        let small = request.terms.decision.rate().filter(|_| request.terms.is_companion);
        if small
            .is_some_and(|rate| service.sessions.read(|sessions| sessions.share_of(&request.viewer, rate).is_some()))
        {
            request.terms.decision = Decision::BestEffort;
            continue;
        }
        if !draining
            && !matches!(resource, Resource::DiskFailing(_))
            && let Some(entering) = session_request(service, &request, StreamId(0), tried.no_room)
        {
            let mut answer = || is_answered = is_answered || answer_early(&destination, &prefix(None));
            if service.sessions.makes_room(&entering, resource, &mut tried, &mut answer).await {
                continue;
            }
        }
        if guaranteed && request.terms.when_full == WhenFull::BestEffort && !draining {
            request.terms.decision = Decision::BestEffort;
            continue;
        }
        let rate = request.terms.decision.rate().and(stated_rate);
        note_refusal(service, &short, &request.path, request.client.address, rate);
        return Err(((!is_answered).then_some(destination), DeliveryError::NoRoom(short)));
    }
}

/// Sends the head of an answer before its body is admitted; true if all of it left, as it does from a socket that was written to the end.
fn answer_early(destination: &DeliveryDestination, head: &[u8]) -> bool {
    let DeliveryDestination::Socket(socket) = destination else { return false };
    !head.is_empty() && SockRef::from(socket).send(head).is_ok_and(|sent| sent == head.len())
}

/// The attempts so far of a request that a budget did not admit.
#[derive(Debug, Clone, Copy, Default)]
struct BudgetRetry {
    has_waited: bool,
}

impl BudgetRetry {
    /// True if the budget may admit the request now: it gave up what it held without reading it, or a stream has ended meanwhile, as that
    /// which a player leaves.
    async fn again(&mut self, service: &MediaService, refusal: &BudgetRefusal, viewer: &Viewer) -> bool {
        if matches!(refusal.limit, BudgetLimit::Reserved | BudgetLimit::Download)
            && service.sessions.give_up(&refusal.budget, viewer)
        {
            return true;
        }
        !std::mem::replace(&mut self.has_waited, true) && service.sessions.changes().await
    }
}

/// One attempt.
async fn start(
    service: &Arc<MediaService>,
    mut request: DeliveryRequest,
    destination: DeliveryDestination,
    head: Vec<u8>,
    no_room: bool,
) -> Result<Paced, Box<(Option<DeliveryDestination>, DeliveryRequest, DeliveryError)>> {
    let Some(mut pending) = service.plane.number() else {
        return Err(Box::new((Some(destination), request, DeliveryError::Busy)));
    };
    let rate = request.terms.decision.rate();
    if let DeliveryDestination::Socket(socket) = &destination {
        // A socket that refuses this is about to fail anyway.
        let _ = SockRef::from(socket).set_send_buffer_size(send_buffer_bytes(&service.config(), rate));
    }
    let prefix_bytes = head.len() as u64;
    let mut segments = Vec::with_capacity(request.body.len() + 1);
    if !head.is_empty() {
        segments.push(Segment::Bytes(head.into()));
    }
    segments.extend(request.body.iter().cloned());
    let link = service.link_out(request.client.local);
    let entered = match enter(service, &mut request, pending.stream, no_room).await {
        Ok(entered) => entered,
        Err(refusal) => return Err(Box::new((Some(destination), request, refusal.into()))),
    };
    let EnteredStream { class, viewer, from } = entered;
    let mut session =
        SessionGuard { service: Arc::clone(service), stream: pending.stream, viewer, left: StreamRelease::Refused };
    if let Class::Constant { held: None, .. } = class
        && let Some(refusal) = service.near.bars(Some(&request.viewer), request.content.layout.disks(), link)
    {
        return Err(Box::new((Some(destination), request, DeliveryError::NoRoom(Shortage::of(service, refusal)))));
    }
    // Listed from here on, not when the plane's report arrives: a client that reads its head finds its stream.
    if let Err(refusal) = list(service, &request, pending.stream, from) {
        return Err(Box::new((Some(destination), request, refusal.into())));
    }
    let content = Arc::clone(&request.content);
    let segments = segments.into();
    let waited = Nanos::from(request.requested_at.elapsed());
    let delivery =
        Box::new(Delivery { stream: pending.stream, destination, link, segments, content, service: class, waited });
    if let Err(command) = service.plane.send(Command::Start(delivery)) {
        let Command::Start(delivery) = command else { unreachable!("the command that was sent") };
        return Err(Box::new((Some(delivery.destination), request, DeliveryError::Busy)));
    }
    let ended = match pending.report().await {
        Some(Report::Started { reservation, .. }) => {
            session.left = StreamRelease::Nothing;
            if let (Some(viewer), Some(reservation)) = (&session.viewer, reservation) {
                service.sessions.started(viewer, pending.stream, reservation);
            }
            service.stats.streams_started.fetch_add(1, Ordering::Relaxed);
            if let Some(older) = from {
                note_passed(service, older, pending.stream);
            }
            None
        }
        Some(Report::Refused { delivery, refusal }) => {
            let short = Shortage::of(service, refusal);
            return Err(Box::new((Some(delivery.destination), request, DeliveryError::NoRoom(short))));
        }
        Some(Report::Finished { delivery, end }) => Some((delivery, end)),
        _ => return Err(Box::new((None, request, DeliveryError::Busy))),
    };
    Ok(Paced { service: Arc::clone(service), request, pending, session, prefix_bytes, is_answered: false, ended })
}

impl Paced {
    /// The rate that it was granted.
    pub(crate) const fn rate(&self) -> Option<BitRate> {
        self.request.terms.decision.rate()
    }

    /// Waits for the end, and logs it.
    pub async fn finished(self) -> Finished {
        self.finished_as(None).await
    }

    /// As [`Paced::finished`]; `failed` names a failure outside the plane, in the words of the event log.
    pub(crate) async fn finished_as(mut self, failed: Option<&'static str>) -> Finished {
        let (delivery, end) = match self.ended.take() {
            Some(ended) => ended,
            None => loop {
                match self.pending.report().await {
                    Some(Report::Posted { .. }) => {} // to an outlet that has no reader any more
                    Some(Report::Finished { delivery, end }) => break (delivery, end),
                    _ => return Finished { socket: None, end: Err(DeliveryError::Busy), body_bytes: 0 },
                }
            },
        };
        let stream = self.pending.stream;
        self.enter_in_account(&end);
        let stopped = self.service.running.lock().get(&stream).is_some_and(|known| known.stopped);
        self.session.left = match end.held {
            Some(held) if stopped => {
                self.service.plane.release(held);
                StreamRelease::Nothing
            }
            Some(held) => StreamRelease::Held(held, stop_point(&self.request, end.outcome)),
            None => StreamRelease::Nothing,
        };
        // It leaves the listing before its end is logged.
        drop(self.session);
        let (path, client) = (&self.request.path, self.request.client.address);
        self.service.events.tell_limited("stream_ended", || {
            let outcome = failed.map_or_else(|| format!("{:?}", end.outcome), str::to_owned);
            events::stream_ended(stream, path, client, (&outcome, &end), SystemTime::now())
        });
        let body_bytes = end.sent_bytes.saturating_sub(self.prefix_bytes);
        let disk = self.request.content.disk();
        self.service.contents.note_read(disk, path, body_bytes);
        let short = match end.outcome {
            Outcome::DiskError => Some(Resource::DiskFailing(disk)),
            Outcome::DiskOverloaded | Outcome::StartTooLate => Some(Resource::Disk(disk)),
            _ => None,
        };
        // Nothing was sent yet, so the client can still receive the refusal.
        let end = if let Some(resource) = short.filter(|_| end.sent_bytes == 0) {
            let short = Shortage::of(&self.service, Refusal::outright(resource));
            note_refusal(&self.service, &short, path, client, self.request.terms.decision.rate());
            Err(DeliveryError::NoRoom(short))
        } else {
            Ok(end)
        };
        // Behind the head of an answer there is no place for a refusal.
        let socket = delivery.destination.into_socket().filter(|_| end.is_ok() || !self.is_answered);
        Finished { socket, end, body_bytes }
    }

    /// Enters a content that was sent whole in the account of its session.
    fn enter_in_account(&self, end: &Ending) {
        let (Some(rate), Some(viewer)) = (self.rate(), &self.session.viewer) else { return };
        if end.outcome != Outcome::Complete {
            return;
        }
        let lasts = rate.time_for(end.sent_bytes.saturating_sub(self.prefix_bytes));
        let sent = (self.request.requested_at.elapsed(), lasts, end.misses > 0);
        if let Some(account) = self.service.sessions.sent_whole(viewer, self.pending.stream, sent) {
            self.service.stats.sessions_behind.fetch_add(1, Ordering::Relaxed);
            self.service.events.tell_limited("session_behind", || {
                let Self { pending, request, .. } = self;
                events::session_behind(
                    pending.stream,
                    &request.path,
                    request.client.address,
                    &account,
                    SystemTime::now(),
                )
            });
        }
    }

    /// Waits for the next send to its outlet; false once there are no more.
    pub(crate) async fn posted(&mut self) -> bool {
        if self.ended.is_some() {
            return false;
        }
        match self.pending.report().await {
            Some(Report::Posted { .. }) => true,
            Some(Report::Finished { delivery, end }) => {
                self.ended = Some((delivery, end));
                false
            }
            _ => false,
        }
    }

    /// Asks for the end.
    pub(crate) fn stop(&self) {
        // With a full queue the next send ends it: its outlet has no reader any more.
        let _ = self.service.plane.send(Command::Stop(self.pending.stream));
    }
}

/// Two ticks and 200 ms of the rate: enough for a stream, and counted by admission.
fn send_buffer_bytes(config: &ServiceConfig, rate: Option<BitRate>) -> usize {
    let Some(rate) = rate else { return BEST_EFFORT_BUFFER_BYTES };
    let span = config.tick.saturating_mul(2).saturating_add(Nanos::from_millis(200));
    usize::try_from(rate.bytes_in(span)).unwrap_or(usize::MAX).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)
}

/// A stream that entered the session of its viewer, or runs in none.
struct EnteredStream {
    class: Class,
    /// The viewer of its session.
    viewer: Option<Viewer>,
    /// The read that loses its reservation to it.
    from: Option<StreamId>,
}

impl EnteredStream {
    const fn in_none(class: Class) -> Self {
        Self { class, viewer: None, from: None }
    }
}

/// The request to the session of its viewer; none: it reads as best effort.
fn session_request(
    service: &MediaService,
    request: &DeliveryRequest,
    stream: StreamId,
    no_room: bool,
) -> Option<session::SessionRequest> {
    let Decision::Constant { rate, .. } = request.terms.decision else { return None };
    // On a volume the next content of a session lies on another of its disks.
    let disk = request.content.layout.spread().first().copied().unwrap_or_else(|| request.content.disk());
    let link = service.link_out(request.client.local);
    let terms = session::ReservationTerms { disk, link, rate, is_named: request.terms.is_named };
    Some(session::SessionRequest {
        viewer: request.viewer.clone(),
        charged: request.charged.clone(),
        stream,
        content: service.hash(&request.path),
        part: request.part,
        terms,
        is_small: request.terms.is_companion,
        no_room,
    })
}

/// Enters a stream in the session of its viewer, and decides its class.
///
/// # Errors
/// A budget does not admit it.
async fn enter(
    service: &MediaService,
    request: &mut DeliveryRequest,
    stream: StreamId,
    no_room: bool,
) -> Result<EnteredStream, BudgetRefusal> {
    let Some(entering) = session_request(service, request, stream, no_room) else {
        let session =
            if request.terms.is_companion { service.sessions.segment_share(&request.viewer).await } else { None };
        return Ok(EnteredStream::in_none(session.map_or(Class::BestEffort, |session| Class::Beside { session })));
    };
    let SessionSlot { held, from, in_session: hold, is_series } = service.sessions.enter(&entering).await?;
    if is_series {
        let (contents, want) = (Arc::clone(&service.contents), request.want);
        service.opens_ahead.open_next(&request.path, |next| async move {
            // A wrong guess names nothing.
            let _ = contents.open(&next, want).await;
        });
    } else {
        request.terms.next = request.terms.decision;
    }
    let Decision::Constant { rate, burst_bytes } = request.terms.next else {
        return Ok(EnteredStream::in_none(Class::BestEffort));
    };
    let burst_bytes = budget_use::ahead(service, &request.charged, burst_bytes);
    let viewer = hold.then(|| request.viewer.clone());
    Ok(EnteredStream { class: Class::Constant { rate, burst_bytes, held, hold }, viewer, from })
}

/// Lists a stream, if its budgets admit one more; `from` is the stream that it continues.
fn list(
    service: &MediaService,
    request: &DeliveryRequest,
    stream: StreamId,
    from: Option<StreamId>,
) -> Result<(), BudgetRefusal> {
    let running = RunningStream {
        path: request.path.clone(),
        client: request.client.address,
        user: request.permit.user().map(str::to_owned),
        permit: Some(request.permit.clone()),
        charged: request.charged.clone(),
        rate: request.terms.decision.rate(),
        rate_from: request.terms.origin,
        disk: request.content.disk(),
        started: SystemTime::now(),
        incoming: None,
        stopped: false,
        passed_to: None,
    };
    service.running.enter(stream, running, from, &|key| service.accounts.limits(key))
}

/// Notes that a stream lost its reservation to a newer read of its viewer.
fn note_passed(service: &MediaService, older: StreamId, newer: StreamId) {
    let mut running = service.running.lock();
    let Some(known) = running.get_mut(&older) else { return };
    known.passed_to = Some(newer);
    let (path, client) = (known.path.clone(), known.client);
    drop(running);
    service.events.tell_limited("reservation_passed", || {
        events::reservation_passed((older, newer), &path, client, SystemTime::now())
    });
}

/// Counts a refusal by a budget and tells it in the event log.
pub(crate) fn note_budget_refusal(service: &MediaService, refusal: &BudgetRefusal, path: &str, client: IpAddr) {
    service.stats.refusals.count_budget();
    service.events.tell_limited("budget_refused", || events::budget_refused(refusal, path, client, SystemTime::now()));
}

/// Counts a refusal and tells it in the event log.
pub(crate) fn note_refusal(
    service: &MediaService,
    short: &Shortage,
    path: &str,
    client: IpAddr,
    rate: Option<BitRate>,
) {
    service.stats.refusals.count(short.refusal.resource);
    service.events.tell_limited("stream_refused", || short.event(path, client, rate));
}

/// Where a delivery that ended so left off in its content.
fn stop_point(request: &DeliveryRequest, outcome: Outcome) -> StopPoint {
    let size = request.content.size;
    let at_end = |segment: &Segment| matches!(segment, Segment::Range { offset, length } if offset + length >= size);
    if outcome == Outcome::Complete && request.body.iter().any(at_end) { StopPoint::AtEnd } else { StopPoint::Midway }
}

/// A stream's entries in the listing and in its viewer's session, taken out when this is dropped.
struct SessionGuard {
    service: Arc<MediaService>,
    stream: StreamId,
    /// None: in no session.
    viewer: Option<Viewer>,
    left: StreamRelease,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        match (&self.viewer, self.left) {
            (Some(viewer), left) => self.service.sessions.leave(viewer, self.stream, left),
            (None, StreamRelease::Held(held, _)) => self.service.plane.release(held),
            (None, _) => {}
        }
        self.service.running.lock().remove(&self.stream);
    }
}
