//! GET and HEAD of contents: from the request head to the data plane and back.
//!
//! Promise: the socket is in one place at a time: here, or inside a command or report. What ends badly ends the
//! connection; only a complete response keeps it. Not here: what is answered (`plan`), at which rate (`rate`), what
//! passes stages or goes elsewhere than to the client (`passing`).

mod passing;
pub(crate) mod plan;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use dataplane::control::{
    Command, Content, Delivery, Ending, Outcome, Refusal, Report, Resource, Segment, Service, Standing,
};
use http::header::{self, HeaderName, USER_AGENT};
use http::{Method, StatusCode};
use serde_json::json;
use socket2::SockRef;
use tokio::net::TcpStream;
use units::{BitRate, Nanos};

use crate::broker::Ticket;
use crate::config::WhenFull;
use crate::connection::{finish_reply, write_all};
use crate::contents::{ContentPath, Opened, PathError, StoreError, Want};
use crate::events;
use crate::log::Access;
use crate::manager::Wanted;
use crate::manager::registry::Passage;
use crate::message::cmcd::Cmcd;
use crate::message::head::{RequestHead, Version};
use crate::message::media_type::{PLAYLIST, media_type};
use crate::message::query::Query;
use crate::message::reply::{After, Reply, location, problem_with, render_head};
use crate::problem;
use crate::rate::{Asked, AskedRate, Decision};
use crate::router::not_allowed;
use crate::session::{Left, LeftOff, Request, Terms, Viewer};
use crate::shared::{Place, Running, Shared, lock};
use plan::{Plan, StreamPlan, plan};

/// The field that tells the granted rate, in bits per second.
pub(crate) const RATE_FIELD: HeaderName = HeaderName::from_static("x-isocast-rate");
/// Where contents live.
pub(crate) const PREFIX: &str = "/media/";
/// Smallest send buffer asked for.
const BUFFER_BYTES_MIN: usize = 16 * 1024;
/// Largest send buffer asked for.
const BUFFER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// True if the request is a read of a content: ours, not hyper's.
pub(crate) fn is_content_read(head: &RequestHead) -> bool {
    let read = head.method == Method::GET || head.method == Method::HEAD;
    read && head.path.starts_with(PREFIX) && !head.path.ends_with('/')
}

/// What a target below [`PREFIX`] names.
pub(crate) fn content_path(head: &RequestHead) -> Result<ContentPath, PathError> {
    // One slash of the prefix stays, so that a second one is seen.
    ContentPath::parse_encoded(&head.path[PREFIX.len() - 1..])
}

/// One request on its way.
struct Reading {
    shared: Arc<Shared>,
    head: RequestHead,
    peer: SocketAddr,
    local: SocketAddr,
}

/// Answers a read of a content. Returns the socket if the connection goes on.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    head: RequestHead,
    stream: TcpStream,
    addresses: (SocketAddr, SocketAddr),
) -> Option<TcpStream> {
    let reading = Reading { shared: Arc::clone(shared), head, peer: addresses.0, local: addresses.1 };
    match reading.prepare().await {
        Ok((prepared, passage)) => reading.deliver(stream, prepared, passage).await,
        Err(reply) => reading.answer(stream, &reply).await,
    }
}

/// A request that is understood and whose content is open.
struct Prepared {
    path: String,
    plan: StreamPlan,
    /// None for HEAD: nothing is delivered.
    content: Option<Arc<Content>>,
    decision: Decision,
    viewer: Viewer,
    when_full: WhenFull,
}

impl Reading {
    /// Understands the request and opens the content, or says what is answered instead.
    async fn prepare(&self) -> Result<(Prepared, Passage), Reply> {
        let shared = &*self.shared;
        let query = Query::parse(self.head.query.as_deref()).map_err(problem::bad_request)?;
        let cmcd = Cmcd::read(query.cmcd.as_deref(), &self.head.headers);
        let asked = Asked::read(&query, &cmcd).map_err(problem::bad_request)?;
        let path = content_path(&self.head).map_err(problem::bad_request)?;
        let name = path.joined();
        let policy = shared.config().policy(&name);
        let now = SystemTime::now();
        let boundary = format!("{:016x}{:016x}", shared.hash((&name, now)), shared.hash((now, &name, 1)));
        // HEAD opens the content, too: that it cannot be read is answered as to a GET. It is not read to find its rate.
        let delivers = self.head.method == Method::GET;
        let want = if delivers && asked.rate == AskedRate::Unsaid { Want::FileAndRate } else { Want::File };
        let opened = shared.contents.open(&path, want).await;
        let Opened { entry, content, media } = opened.map_err(|error| self.refusal(&error))?;
        let passage = self.passage(&name, entry.size)?;
        let plan = if passage.sink.is_some() {
            plan::elsewhere(&entry)
        } else {
            match plan(&self.head, &entry, passage.alteration().as_deref(), &boundary, now) {
                Plan::Reply(reply) => return Err(reply),
                Plan::Stream(plan) => plan,
            }
        };
        let mut decision = asked.decide(media, &policy, shared.config().burst);
        let part = plan.ranged && plan.status == StatusCode::PARTIAL_CONTENT;
        // A playlist is read between the parts it names, and at no rate.
        let brief = part || media_type(&name) == PLAYLIST;
        let probe = brief && plan.content_bytes <= shared.config().sessions.probe_bytes_max;
        // A sink elsewhere plays nothing: it has no rate of its own.
        let plays = passage.sink.is_none() || asked.rate != AskedRate::Unsaid;
        if probe || !plays {
            decision = Decision::BestEffort;
        }
        let viewer = self.viewer(&query, cmcd, &name);
        let content = delivers.then_some(content);
        Ok((Prepared { path: name, plan, content, decision, viewer, when_full: policy.when_full }, passage))
    }

    /// The stages and the sink for a content, as they are registered.
    fn passage(&self, name: &str, size: u64) -> Result<Passage, Reply> {
        let wanted = Wanted { path: name, query: self.head.query.as_deref(), headers: &self.head.headers, size };
        let passage = self.shared.registry.delivery(&wanted);
        if passage.sink.is_some() && self.head.method == Method::HEAD {
            // What it would say is known only when all of the content was read.
            return Err(not_allowed("GET"));
        }
        Ok(passage)
    }

    /// A directory named without its slash is a redirect; everything else is in the one table.
    fn refusal(&self, error: &StoreError) -> Reply {
        // Below a content there is nothing to read; only for a write it is in the way.
        let error = if matches!(error, StoreError::NotADirectory) { &StoreError::NotFound } else { error };
        if !matches!(error, StoreError::IsDirectory) {
            return problem::of_store(error);
        }
        let query = self.head.query.as_deref().map_or_else(String::new, |query| format!("?{query}"));
        Reply::empty(StatusCode::MOVED_PERMANENTLY)
            .field(header::LOCATION, location(&format!("{}/{query}", self.head.path)))
    }

    /// Who watches: the session it names, else a guess.
    fn viewer(&self, query: &Query, cmcd: Cmcd, path: &str) -> Viewer {
        let named = cmcd.session.or_else(|| query.session.clone()).or_else(|| session_cookie(&self.head));
        match named {
            Some(name) if name.len() <= 128 && !name.is_empty() => Viewer::Named(name),
            _ => Viewer::Guessed {
                address: self.peer.ip(),
                agent: self.shared.hash(self.head.headers.get(USER_AGENT).map(http::HeaderValue::as_bytes)),
                content: self.shared.hash(path),
            },
        }
    }

    /// Sends a complete reply.
    async fn answer(&self, stream: TcpStream, reply: &Reply) -> Option<TcpStream> {
        finish_reply(&self.shared, stream, &self.head, self.peer, reply).await
    }

    /// Sends the planned response: head and nothing more ourselves, content through the data plane.
    async fn deliver(&self, mut stream: TcpStream, prepared: Prepared, mut passage: Passage) -> Option<TcpStream> {
        let passes = !passage.is_direct() || prepared.plan.content_bytes > 0;
        let Some(content) = prepared.content.clone().filter(|_| passes) else {
            let head = self.response_head(&prepared.plan, prepared.decision.rate());
            write_all(&self.shared, &mut stream, &head).await.ok()?;
            self.log(prepared.plan.status, 0);
            return self.keeps_alive(&prepared.plan).then_some(stream);
        };
        let Some(mut ticket) = self.shared.broker.ticket() else {
            return self.answer(stream, &problem::busy(&self.shared.config())).await;
        };
        let mut asking = Asking { ticket: &mut ticket, prepared: &prepared, content, decision: prepared.decision };
        let mut socket = stream;
        let mut asked_again = false;
        loop {
            let attempt = if passage.is_direct() {
                self.attempt(&mut asking, socket).await
            } else {
                // In a box, so that those who pass nothing carry none of it for hours.
                Box::pin(self.attempt_passing(&mut asking, socket, &mut passage)).await
            };
            match attempt {
                Attempt::Ended(back) => return back,
                Attempt::Busy(stream) => return self.answer(stream, &problem::busy(&self.shared.config())).await,
                Attempt::Refused(stream, refusal) => {
                    let draining = refusal.resource == Resource::Draining;
                    if !draining && !asked_again && self.older_read_ends(&prepared).await {
                        asked_again = true;
                        socket = stream;
                        continue;
                    }
                    let guaranteed = asking.decision != Decision::BestEffort;
                    if guaranteed && prepared.when_full == WhenFull::BestEffort && !draining {
                        asking.decision = Decision::BestEffort;
                        socket = stream;
                        continue;
                    }
                    let rate = asking.decision.rate();
                    let reply = refused(&self.shared, refusal, &prepared.path, self.peer.ip(), rate);
                    return self.answer(stream, &reply).await;
                }
            }
        }
    }

    /// Hands the client's socket to the data plane and waits until it comes back.
    async fn attempt(&self, asking: &mut Asking<'_>, stream: TcpStream) -> Attempt {
        let Prepared { plan, path, .. } = asking.prepared;
        let rate = asking.decision.rate();
        let Ok(socket) = detach(stream, self.buffer_bytes(rate)) else { return Attempt::Ended(None) };
        let head = self.response_head(plan, rate);
        let head_bytes = head.len() as u64;
        let mut segments = Vec::with_capacity(plan.body.len() + 1);
        segments.push(Segment::Bytes(head.into()));
        segments.extend(plan.body.iter().cloned());
        let stream = asking.ticket.stream;
        match self.run(asking, socket, segments.into()).await {
            Ran::Busy(socket) => attach(socket).map_or(Attempt::Ended(None), Attempt::Busy),
            Ran::Refused(socket, refusal) => {
                attach(socket).map_or(Attempt::Ended(None), |stream| Attempt::Refused(stream, refusal))
            }
            Ran::Lost => Attempt::Ended(None),
            Ran::Finished(socket, end) => {
                self.tell_end(stream, path, &end, None);
                if end.outcome == Outcome::DiskError && end.sent_bytes == 0 {
                    // Its disk failed before anything of an answer was out.
                    let resource = Resource::DiskFailing(asking.content.disk);
                    let refusal = Refusal { resource, grantable: BitRate(0) };
                    return attach(socket).map_or(Attempt::Ended(None), |stream| Attempt::Refused(stream, refusal));
                }
                self.log(plan.status, end.sent_bytes.saturating_sub(head_bytes));
                let whole = end.outcome == Outcome::Complete && self.head.keep_alive;
                Attempt::Ended(if whole { attach(socket) } else { None })
            }
        }
    }

    /// One delivery of the data plane into `socket`, from its command to its end.
    async fn run(&self, asking: &mut Asking<'_>, socket: OwnedFd, segments: Box<[Segment]>) -> Ran {
        let Asking { ticket, prepared, content, decision } = asking;
        let link = self.shared.config().link(self.local.ip());
        let stream_id = ticket.stream;
        let (service, viewer) = self.enter(stream_id, prepared, content.disk, *decision, link).await;
        let mut entered = Entered { shared: &self.shared, stream: stream_id, viewer, left: Left::Unstarted };
        let content = Arc::clone(content);
        let size = content.size;
        // Listed from here on, not when the plane's report arrives: a client that reads its head finds its stream.
        self.list(stream_id, prepared, decision.rate(), &content);
        let delivery = Box::new(Delivery { stream: stream_id, socket, link, segments, content, service });
        if let Err(command) = self.shared.broker.send(Command::Start(delivery)) {
            if let Some(held) = held_of(service) {
                entered.left = Left::Held(held, LeftOff::Midway);
            }
            let Command::Start(delivery) = command else { unreachable!("the command that was sent") };
            return Ran::Busy(delivery.socket);
        }
        loop {
            match ticket.report().await {
                Some(Report::Started { reservation, .. }) => {
                    entered.left = if reservation.is_some() { Left::Nothing } else { Left::Unstarted };
                    self.shared.stats.streams_started.fetch_add(1, Ordering::Relaxed);
                }
                Some(Report::Refused { delivery, refusal }) => {
                    // Whether the plane still counts a held reservation it refused to use is its affair: releasing one
                    // that is gone does nothing.
                    held_of(delivery.service).into_iter().for_each(|held| self.shared.broker.release(held));
                    return Ran::Refused(delivery.socket, refusal);
                }
                Some(Report::Finished { delivery, end }) => {
                    entered.left = match end.held {
                        Some(held) => Left::Held(held, left_off(&prepared.plan, size, end.outcome)),
                        None if end.outcome == Outcome::ClientStalled => Left::GivenUp,
                        None => entered.left,
                    };
                    return Ran::Finished(delivery.socket, end);
                }
                Some(_) => {}
                None => return Ran::Lost,
            }
        }
    }

    /// Waits for the viewer's older read of the content, if it has one that a seek left behind: what that held is its own.
    async fn older_read_ends(&self, prepared: &Prepared) -> bool {
        in_session(prepared) && self.shared.older_read_ends(&prepared.viewer, self.shared.hash(&prepared.path)).await
    }

    /// How a stream is served, and the viewer in whose session it is entered, if it is.
    async fn enter(
        &self,
        stream: units::StreamId,
        prepared: &Prepared,
        disk: units::DiskId,
        decision: Decision,
        link: units::LinkId,
    ) -> (Service, Option<Viewer>) {
        let Decision::Constant { rate, burst_bytes } = decision else { return (Service::BestEffort, None) };
        let viewer = prepared.viewer.clone();
        let content = self.shared.hash(&prepared.path);
        let request = Request { viewer, stream, content, terms: Terms { disk, link, rate, burst_bytes } };
        let place = if in_session(prepared) { self.shared.enter(&request).await } else { Place::APART };
        let Place { held, in_session: hold, mut standing } = place;
        if prepared.when_full == WhenFull::BestEffort && standing == Standing::Returning {
            // Where nobody is refused nobody waits for room.
            standing = Standing::Newcomer;
        }
        (Service::Constant { rate, burst_bytes, held, hold, standing }, hold.then_some(request.viewer))
    }

    /// Enters a stream that is about to be asked for into the listing.
    fn list(&self, stream: units::StreamId, prepared: &Prepared, rate: Option<BitRate>, content: &Content) {
        let running = Running {
            path: prepared.path.clone(),
            client: self.peer.ip(),
            rate,
            disk: content.disk,
            started: SystemTime::now(),
            received: None,
        };
        lock(&self.shared.running).insert(stream, running);
    }

    /// Counts and tells the end of a stream; `failed` says what failed beside the plane, in the words of the event log.
    fn tell_end(&self, stream: units::StreamId, path: &str, end: &Ending, failed: Option<&str>) {
        let outcome = failed.map_or_else(|| format!("{:?}", end.outcome), str::to_owned);
        let stats = &self.shared.stats;
        stats.bytes_sent.fetch_add(end.sent_bytes, Ordering::Relaxed);
        stats.misses.fetch_add(end.misses, Ordering::Relaxed);
        let event = json!({
            "event": "stream_ended", "stream": stream.0, "path": path, "client": self.peer.ip().to_string(),
            "outcome": outcome, "sent_bytes": end.sent_bytes, "misses": end.misses,
            "seconds": end.duration.as_secs_f64(),
        });
        self.shared.events.line(events::stamped(event, SystemTime::now()));
    }

    /// True if the connection goes on after the planned response. HTTP/1.0 tells the end of a body without a length by
    /// closing it.
    fn keeps_alive(&self, plan: &StreamPlan) -> bool {
        self.head.keep_alive && (plan.length.is_some() || self.head.version == Version::Http11)
    }

    fn response_head(&self, plan: &StreamPlan, rate: Option<BitRate>) -> Vec<u8> {
        let mut fields = plan.fields.clone();
        if let Some(rate) = rate {
            fields.push((RATE_FIELD, rate.0.to_string()));
        }
        if plan.length.is_none() && self.head.version == Version::Http11 {
            fields.push((header::TRANSFER_ENCODING, "chunked".to_owned()));
        }
        let after = if self.keeps_alive(plan) { after(&self.head) } else { After::Close };
        render_head(plan.status, &fields, plan.length, after, SystemTime::now())
    }

    /// Two ticks and 200 ms of the rate: enough for a stream, and counted by admission.
    fn buffer_bytes(&self, rate: Option<BitRate>) -> usize {
        let config = self.shared.config();
        let Some(rate) = rate else { return config.best_effort_buffer_bytes };
        let span = config.tick.saturating_mul(2).saturating_add(Nanos::from_millis(200));
        usize::try_from(rate.bytes_in(span)).unwrap_or(usize::MAX).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)
    }

    /// A line of the access log; `bytes` are those of the body.
    fn log(&self, status: StatusCode, bytes: u64) {
        self.shared.stats.request(status);
        let line = Access::of(self.peer.ip(), &self.head).line(status, bytes, SystemTime::now());
        self.shared.access.line(line);
    }
}

/// A plain GET of the whole, without a name, is not a player's: nothing comes after it.
const fn in_session(prepared: &Prepared) -> bool {
    matches!(prepared.viewer, Viewer::Named(_)) || prepared.plan.ranged
}

/// Where a delivery of this plan that ended so left off in a content of `size` bytes.
fn left_off(plan: &StreamPlan, size: u64, outcome: Outcome) -> LeftOff {
    let at_end = |segment: &Segment| matches!(segment, Segment::Range { offset, length } if offset + length >= size);
    if outcome == Outcome::Complete && plan.body.iter().any(at_end) { LeftOff::AtEnd } else { LeftOff::Midway }
}

/// A delivery that is asked of the data plane.
struct Asking<'a> {
    ticket: &'a mut Ticket,
    prepared: &'a Prepared,
    content: Arc<Content>,
    decision: Decision,
}

/// A stream's place in the listing and in its viewer's session. It leaves both when this is dropped: before its end is
/// told in the log (who reads there that it ended does not find it listed), and also where a stage panics.
struct Entered<'a> {
    shared: &'a Shared,
    stream: units::StreamId,
    /// None: in no session.
    viewer: Option<Viewer>,
    left: Left,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        match (&self.viewer, self.left) {
            (Some(viewer), left) => self.shared.leave(viewer, self.stream, left),
            (None, Left::Held(held, _)) => self.shared.broker.release(held),
            (None, _) => {}
        }
        lock(&self.shared.running).remove(&self.stream);
    }
}

/// What became of a delivery of the data plane; the socket it had.
enum Ran {
    /// It ended, whole or not.
    Finished(OwnedFd, Ending),
    /// Not admitted.
    Refused(OwnedFd, Refusal),
    /// The plane's queue is full.
    Busy(OwnedFd),
    /// The plane is gone.
    Lost,
}

/// How an attempt to start a delivery came out.
enum Attempt {
    /// The response is out, whole or not; the socket if it can go on.
    Ended(Option<TcpStream>),
    /// Not admitted.
    Refused(TcpStream, Refusal),
    /// The plane's queue is full.
    Busy(TcpStream),
}

const fn held_of(service: Service) -> Option<units::ReservationId> {
    match service {
        Service::Constant { held, .. } => held,
        Service::BestEffort => None,
    }
}

/// How the connection goes on after a request.
pub(crate) const fn after(head: &RequestHead) -> After {
    match (head.keep_alive, head.version) {
        (false, _) => After::Close,
        (true, Version::Http11) => After::KeepAlive,
        (true, Version::Http10) => After::KeepAlive10,
    }
}

/// 503 with what is short and what would be granted; counted and told in the event log.
pub(crate) fn refused(shared: &Shared, refusal: Refusal, path: &str, client: IpAddr, rate: Option<BitRate>) -> Reply {
    let (resource, what) = match refusal.resource {
        Resource::Disk(disk) => {
            (format!("disk {}", disk.0), "the disk has no time left for another stream at this rate")
        }
        Resource::DiskFailing(disk) => (problem::failing(disk), "the disk errs or does not answer"),
        Resource::Network(link) => (format!("network {}", link.0), "the network link has no room at this rate"),
        Resource::Memory => ("memory".to_owned(), "there is no buffer memory left"),
        Resource::Processor => ("processor".to_owned(), "the data plane has no processor time left"),
        Resource::Table => ("table".to_owned(), "as many streams run as the tables hold"),
        Resource::Draining => ("draining".to_owned(), "the server is about to stop"),
    };
    shared.stats.streams_refused.fetch_add(1, Ordering::Relaxed);
    let short = (resource.as_str(), refusal.grantable);
    shared.events.line(events::stream_refused(path, client, rate, short, SystemTime::now()));
    let members = [("resource", json!(resource)), ("grantable_bps", json!(refusal.grantable.0))];
    problem_with(StatusCode::SERVICE_UNAVAILABLE, "No room for this stream", what, &members)
        .field(header::RETRY_AFTER, shared.config().retry_after_seconds.to_string())
}

/// The `session` cookie.
fn session_cookie(head: &RequestHead) -> Option<String> {
    let cookies = head.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|line| line.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == "session").then(|| value.to_owned())
    })
}

/// Makes a socket ready for paced sends.
fn prepare_socket(stream: &TcpStream, buffer_bytes: usize) -> std::io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(buffer_bytes)
}

/// Takes the socket out of the runtime, ready for the data plane.
fn detach(stream: TcpStream, buffer_bytes: usize) -> std::io::Result<OwnedFd> {
    prepare_socket(&stream, buffer_bytes)?;
    Ok(stream.into_std()?.into())
}

/// Puts a socket back into the runtime; one that cannot be is closed.
fn attach(socket: OwnedFd) -> Option<TcpStream> {
    TcpStream::from_std(socket.into()).ok()
}
