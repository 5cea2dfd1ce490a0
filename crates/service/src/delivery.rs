//! Deliveries: a content, or ranges of it, at the rate that was decided, to a socket.
//!
//! Promise: the socket is in one place at a time: with the caller, or inside a command or report of the data plane; a refusal
//! gives it back untouched. A stream leaves the listing and its session before its end is logged, however it ends.
//! Not here: what the ranges are framed with (the caller gives literal segments), stages (`pipeline`).

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use dataplane::control::{
    Command, Content, Delivery, Ending, Outcome, Refusal, Report, Resource, Segment, Service as Class, Standing,
};
use socket2::SockRef;
use units::{BitRate, LinkId, Nanos, ReservationId, StreamId};

use crate::config::{Config, WhenFull};
use crate::contents::MediaRate;
use crate::events;
use crate::media_service::{MediaService, RunningStream};
use crate::plane_client::PendingStream;
use crate::rate::{Asked, Decision};
use crate::session::{self, Left, LeftOff, Viewer};
use crate::session_table::SessionSlot;

/// Smallest send buffer asked for.
const BUFFER_BYTES_MIN: usize = 16 * 1024;
/// Largest send buffer asked for.
const BUFFER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The two ends of a client's connection.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// Where the client is.
    pub address: IpAddr,
    /// The address it has reached us at, which tells the link.
    pub local: IpAddr,
}

/// How a read is to be served, and what becomes of it when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// At which rate.
    pub decision: Decision,
    /// What becomes of it when there is no room.
    pub when_full: WhenFull,
}

/// A read of an open content.
pub struct Request {
    /// The content's path below the root.
    pub path: String,
    /// The content.
    pub content: Arc<Content>,
    /// What is sent of it: ranges, and literal bytes between them.
    pub body: Vec<Segment>,
    /// How it is served.
    pub terms: Terms,
    /// Who watches.
    pub viewer: Viewer,
    /// The viewer asks for ranges, as players do that come back for more.
    pub ranged: bool,
    /// The connection.
    pub client: Client,
}

/// Why a delivery was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Not admitted; with what is short and what would be granted.
    #[error("there is no room for the stream")]
    NoRoom(Refusal),
    /// A queue or table is full.
    #[error("too many requests are under way")]
    Busy,
    /// The data plane is gone; so is the socket.
    #[error("the data plane is gone")]
    Lost,
}

/// What sends a head with the content: the bytes that go before it, by the rate granted.
pub type Prefix<'a> = &'a (dyn Fn(Option<BitRate>) -> Vec<u8> + Send + Sync);

/// A delivery under way.
pub struct Paced {
    service: Arc<MediaService>,
    request: Request,
    pending: PendingStream,
    session: SessionGuard,
    prefix_bytes: u64,
    /// What the data plane said before anybody asked for the end.
    ended: Option<(Box<Delivery>, Ending)>,
}

/// A delivery that came to its end.
pub struct Finished {
    /// The socket; none if the plane is gone.
    pub socket: Option<OwnedFd>,
    /// How it ended, or why nothing at all was sent.
    pub end: Result<Ending, OpenError>,
    /// Bytes sent after the prefix.
    pub body_bytes: u64,
}

impl Terms {
    /// What was asked, what the content needs and what the path is set to, put together. What is `brief` (a player's look at a
    /// part, or a list of parts) takes what is left over: it is read between the parts that are played.
    #[must_use]
    pub fn decide(config: &Config, path: &str, asked: Asked, media: Option<MediaRate>, brief: Option<u64>) -> Self {
        let policy = config.policy(path);
        let probe = brief.is_some_and(|bytes| bytes <= config.sessions.probe_bytes_max);
        let decision = if probe { Decision::BestEffort } else { asked.decide(media, &policy, config.burst) };
        Self { decision, when_full: policy.when_full }
    }
}

impl Request {
    /// A plain read of the whole, without a name, is not a player's: nothing comes after it.
    const fn in_session(&self) -> bool {
        matches!(self.viewer, Viewer::Named(_)) || self.ranged
    }

    fn content_key(&self, service: &MediaService) -> u64 {
        service.hash(&self.path)
    }
}

/// Starts a delivery to `socket`. Where there is no room, the viewer's older read of the content is waited for, and best
/// effort is tried where the path is set to that.
///
/// # Errors
/// Why it was not started, with the socket as it was.
pub async fn open(
    service: &Arc<MediaService>,
    mut request: Request,
    mut socket: OwnedFd,
    prefix: Prefix<'_>,
) -> Result<Paced, (Option<OwnedFd>, OpenError)> {
    let asked_rate = request.terms.decision.rate();
    let mut waited = false;
    loop {
        let (back, unused, error) = match start(service, request, socket, prefix).await {
            Ok(paced) => return Ok(paced),
            Err(refused) => *refused,
        };
        request = unused;
        let OpenError::NoRoom(refusal) = error else { return Err((back, error)) };
        let Some(back) = back else { return Err((None, error)) };
        socket = back;
        let draining = refusal.resource == Resource::Draining;
        if !draining && !waited && request.in_session() {
            waited = true;
            let key = request.content_key(service);
            if service.sessions.older_read_ends(&request.viewer, key).await {
                continue;
            }
        }
        let guaranteed = request.terms.decision != Decision::BestEffort;
        if guaranteed && request.terms.when_full == WhenFull::BestEffort && !draining {
            request.terms.decision = Decision::BestEffort;
            continue;
        }
        let rate = request.terms.decision.rate().and(asked_rate);
        note_refusal(service, &refusal, &request.path, request.client.address, rate);
        return Err((Some(socket), error));
    }
}

/// One attempt.
async fn start(
    service: &Arc<MediaService>,
    request: Request,
    socket: OwnedFd,
    prefix: Prefix<'_>,
) -> Result<Paced, Box<(Option<OwnedFd>, Request, OpenError)>> {
    let Some(mut pending) = service.plane.number() else {
        return Err(Box::new((Some(socket), request, OpenError::Busy)));
    };
    let rate = request.terms.decision.rate();
    // A socket that refuses this is about to fail anyway.
    let _ = SockRef::from(&socket).set_send_buffer_size(send_buffer_bytes(&service.config(), rate));
    let head = prefix(rate);
    let prefix_bytes = head.len() as u64;
    let mut segments = Vec::with_capacity(request.body.len() + 1);
    if !head.is_empty() {
        segments.push(Segment::Bytes(head.into()));
    }
    segments.extend(request.body.iter().cloned());
    let link = service.link(request.client.local);
    let (class, viewer) = enter(service, &request, pending.stream, link).await;
    let mut session =
        SessionGuard { service: Arc::clone(service), stream: pending.stream, viewer, left: Left::Unstarted };
    // Listed from here on, not when the plane's report arrives: a client that reads its head finds its stream.
    list(service, &request, pending.stream);
    let content = Arc::clone(&request.content);
    let segments = segments.into();
    let delivery = Box::new(Delivery { stream: pending.stream, socket, link, segments, content, service: class });
    if let Err(command) = service.plane.send(Command::Start(delivery)) {
        if let Some(held) = held_of(class) {
            session.left = Left::Held(held, LeftOff::Midway);
        }
        let Command::Start(delivery) = command else { unreachable!("the command that was sent") };
        return Err(Box::new((Some(delivery.socket), request, OpenError::Busy)));
    }
    let ended = match pending.report().await {
        Some(Report::Started { reservation, .. }) => {
            session.left = if reservation.is_some() { Left::Nothing } else { Left::Unstarted };
            service.stats.streams_started.fetch_add(1, Ordering::Relaxed);
            None
        }
        Some(Report::Refused { delivery, refusal }) => {
            // Whether the plane still counts a held reservation it refused to use is its affair: releasing one that is gone
            // does nothing.
            held_of(delivery.service).into_iter().for_each(|held| service.plane.release(held));
            return Err(Box::new((Some(delivery.socket), request, OpenError::NoRoom(refusal))));
        }
        Some(Report::Finished { delivery, end }) => Some((delivery, end)),
        _ => return Err(Box::new((None, request, OpenError::Lost))),
    };
    Ok(Paced { service: Arc::clone(service), request, pending, session, prefix_bytes, ended })
}

impl Paced {
    /// Waits for the end, and logs it.
    pub async fn finished(self) -> Finished {
        self.finished_as(None).await
    }

    /// As [`Paced::finished`]; `failed` says what failed beside the plane, in the words of the event log.
    pub(crate) async fn finished_as(mut self, failed: Option<&'static str>) -> Finished {
        let (delivery, end) = loop {
            match self.ended.take() {
                Some(ended) => break ended,
                None => match self.pending.report().await {
                    Some(Report::Finished { delivery, end }) => self.ended = Some((delivery, end)),
                    Some(_) => {}
                    None => return Finished { socket: None, end: Err(OpenError::Lost), body_bytes: 0 },
                },
            }
        };
        self.session.left = match end.held {
            Some(held) => Left::Held(held, left_off(&self.request, end.outcome)),
            None if end.outcome == Outcome::ClientStalled => Left::GivenUp,
            None => self.session.left,
        };
        let stream = self.pending.stream;
        // Whoever reads in the log that it ended does not find it listed.
        drop(self.session);
        let stats = &self.service.stats;
        stats.bytes_sent.fetch_add(end.sent_bytes, Ordering::Relaxed);
        stats.misses.fetch_add(end.misses, Ordering::Relaxed);
        let outcome = failed.map_or_else(|| format!("{:?}", end.outcome), str::to_owned);
        let (path, client) = (&self.request.path, self.request.client.address);
        self.service.events.line(events::stream_ended(stream, path, client, (&outcome, &end), SystemTime::now()));
        let body_bytes = end.sent_bytes.saturating_sub(self.prefix_bytes);
        let end = if end.outcome == Outcome::DiskError && end.sent_bytes == 0 {
            // Its disk failed before anything was sent: this can still be told.
            let resource = Resource::DiskFailing(self.request.content.disk);
            let refusal = Refusal { resource, grantable: BitRate(0) };
            note_refusal(&self.service, &refusal, path, client, self.request.terms.decision.rate());
            Err(OpenError::NoRoom(refusal))
        } else {
            Ok(end)
        };
        Finished { socket: Some(delivery.socket), end, body_bytes }
    }

    /// Asks for the end.
    pub(crate) fn stop(&self) {
        // A full queue leaves it to the next send, which finds nobody there.
        let _ = self.service.plane.send(Command::Stop(self.pending.stream));
    }
}

/// Two ticks and 200 ms of the rate: enough for a stream, and counted by admission.
fn send_buffer_bytes(config: &Config, rate: Option<BitRate>) -> usize {
    let Some(rate) = rate else { return config.best_effort_buffer_bytes };
    let span = config.tick.saturating_mul(2).saturating_add(Nanos::from_millis(200));
    usize::try_from(rate.bytes_in(span)).unwrap_or(usize::MAX).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)
}

/// How a stream is served, and the viewer in whose session it is entered, if it is.
async fn enter(service: &MediaService, request: &Request, stream: StreamId, link: LinkId) -> (Class, Option<Viewer>) {
    let Decision::Constant { rate, burst_bytes } = request.terms.decision else { return (Class::BestEffort, None) };
    let slot = if request.in_session() {
        let terms = session::Terms { disk: request.content.disk, link, rate, burst_bytes };
        let (viewer, content) = (request.viewer.clone(), request.content_key(service));
        service.sessions.enter(&session::Request { viewer, stream, content, terms }).await
    } else {
        SessionSlot::APART
    };
    let SessionSlot { held, in_session: hold, mut standing } = slot;
    if request.terms.when_full == WhenFull::BestEffort && standing == Standing::Returning {
        // Where nobody is refused nobody waits for room.
        standing = Standing::Newcomer;
    }
    (Class::Constant { rate, burst_bytes, held, hold, standing }, hold.then(|| request.viewer.clone()))
}

fn list(service: &MediaService, request: &Request, stream: StreamId) {
    let running = RunningStream {
        path: request.path.clone(),
        client: request.client.address,
        rate: request.terms.decision.rate(),
        disk: request.content.disk,
        started: SystemTime::now(),
        received: None,
    };
    service.running().insert(stream, running);
}

/// Counts a refusal and tells it in the event log.
pub(crate) fn note_refusal(
    service: &MediaService,
    refusal: &Refusal,
    path: &str,
    client: IpAddr,
    rate: Option<BitRate>,
) {
    service.stats.streams_refused.fetch_add(1, Ordering::Relaxed);
    let short = (resource_name(refusal.resource), refusal.grantable);
    service.events.line(events::stream_refused(path, client, rate, (&short.0, short.1), SystemTime::now()));
}

/// How a resource is named in events and answers.
#[must_use]
pub fn resource_name(resource: Resource) -> String {
    match resource {
        Resource::Disk(disk) => format!("disk {}", disk.0),
        Resource::DiskFailing(disk) => format!("disk {} failing", disk.0),
        Resource::Network(link) => format!("network {}", link.0),
        Resource::Memory => "memory".to_owned(),
        Resource::Processor => "processor".to_owned(),
        Resource::Table => "table".to_owned(),
        Resource::Draining => "draining".to_owned(),
    }
}

/// Where a delivery that ended so left off in its content.
fn left_off(request: &Request, outcome: Outcome) -> LeftOff {
    let size = request.content.size;
    let at_end = |segment: &Segment| matches!(segment, Segment::Range { offset, length } if offset + length >= size);
    if outcome == Outcome::Complete && request.body.iter().any(at_end) { LeftOff::AtEnd } else { LeftOff::Midway }
}

const fn held_of(class: Class) -> Option<ReservationId> {
    match class {
        Class::Constant { held, .. } => held,
        Class::BestEffort => None,
    }
}

/// A stream's entries in the listing and in its viewer's session, taken out when this is dropped.
struct SessionGuard {
    service: Arc<MediaService>,
    stream: StreamId,
    /// None: in no session.
    viewer: Option<Viewer>,
    left: Left,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        match (&self.viewer, self.left) {
            (Some(viewer), left) => self.service.sessions.leave(viewer, self.stream, left),
            (None, Left::Held(held, _)) => self.service.plane.release(held),
            (None, _) => {}
        }
        self.service.running().remove(&self.stream);
    }
}
