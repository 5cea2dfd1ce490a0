//! GET and HEAD of contents: from the request head to the service and back.
//!
//! Promise: only a complete response keeps the connection open. Not here: the plan of the answer (`plan`), its rate and
//! source (`service::reads`), and whether bytes are sealed (`client_stream`).

use std::time::SystemTime;

use bytes::{Buf, Bytes};
use content::Segment;
use dataplane::control::Outcome;
use http_types::header::{self, HeaderName, USER_AGENT};
use http_types::{Method, StatusCode};
use percent_encoding::utf8_percent_encode;
use service::access::{Permit, ToRead};
use service::budgets::ChargedBudgets;
use service::contents::{ContentPath, PathError, StoreError, Want};
use service::delivery::Finished;
use service::guard::guarded;
use service::pipeline::{Pipe, Stages};
use service::rate::RequestedRate;
use service::reads::{self, ContentRead, PacedRead, ReadPurpose};
use service::reservations;
use service::session::{ContentPart, Viewer};
use units::BitRate;

use crate::client_stream::{ClientStream, write_all};
use crate::exchange::Exchange;
use crate::message::cmcd::{Cmcd, ObjectType};
use crate::message::head::RequestHead;
use crate::message::media_type::{PLAYLIST, media_type};
use crate::message::query::Query;
use crate::message::reply::{After, COMPONENT, Reply, location, render_head};
use crate::plan::{StreamPlan, plan};
use crate::rate_request::requested_rate;
use crate::streamed::{Framing, PieceSink, Streamed};
use crate::{login, playlist, problem, share, viewer_name};

/// The field with the granted rate, in bits per second.
const RATE_FIELD: HeaderName = HeaderName::from_static("x-isocast-rate");
/// Prefix of the paths of contents.
pub(crate) const PREFIX: &str = "/media/";

/// True if the request is a read of a content.
pub(crate) fn is_content_read(head: &RequestHead) -> bool {
    let read = head.method == Method::GET || head.method == Method::HEAD;
    read && head.path.starts_with(PREFIX) && !head.path.ends_with('/')
}

/// The content or folder that a target below [`PREFIX`] names.
pub(crate) fn content_path(head: &RequestHead) -> Result<ContentPath, PathError> {
    // One slash of the prefix stays, so that a second one is seen.
    ContentPath::parse_encoded(&head.path[PREFIX.len() - 1..])
}

/// The pattern of names that a target below [`PREFIX`] is.
pub(crate) fn pattern(head: &RequestHead) -> Result<ContentPath, PathError> {
    ContentPath::parse_pattern(&head.path[PREFIX.len() - 1..])
}

/// Answers a read of a content. Returns the socket if the connection stays open.
pub(crate) async fn serve(exchange: &Exchange, stream: ClientStream) -> Option<ClientStream> {
    let (plan, read) = match prepared(exchange).await {
        Ok(prepared) => prepared,
        Err(reply) => return exchange.answer(stream, reply).await,
    };
    let service = &exchange.shared.service;
    let head = |rate| response_head(exchange, &plan, rate);
    if exchange.head.method == Method::HEAD {
        let keep_alive = keeps_alive(&exchange.head, &plan);
        return exchange.send_head(stream, head(read.rate(service)), plan.status, keep_alive).await;
    }
    let is_plain = !stream.is_sealed();
    let mut stream = Some(stream);
    let take_socket = is_plain.then_some(|| stream.take()?.detach());
    match reads::open(service, read, take_socket, &head).await {
        Ok(PacedRead::Kept { bytes, rate }) => send_kept(exchange, stream?, &plan, (head(rate), bytes)).await,
        Ok(PacedRead::Socket(paced)) => {
            let Finished { socket, end, body_bytes } = paced.finished().await;
            let end = match end {
                Ok(end) => end,
                Err(error) => return exchange.answer(ClientStream::attach(socket?)?, problem::of_open(&error)).await,
            };
            exchange.log(plan.status, body_bytes);
            let whole = end.outcome == Outcome::Complete && exchange.head.keep_alive;
            if whole { ClientStream::attach(socket?) } else { None }
        }
        // In a box: a delivery without a stage would carry the space for it for hours.
        Ok(PacedRead::Pipe(pipe)) => Box::pin(send_piped(exchange, stream?, &plan, *pipe)).await,
        Err((socket, error)) => {
            let Some(stream) = stream.or_else(|| ClientStream::attach(socket?)) else {
                exchange.log(plan.status, 0);
                return None;
            };
            exchange.answer(stream, problem::of_open(&error)).await
        }
    }
}

/// Parses the request and opens the content, or returns the answer to send instead. A panic meanwhile is such an answer.
pub(crate) async fn prepared(exchange: &Exchange) -> Result<(StreamPlan, ContentRead), Reply> {
    guarded(&exchange.shared.service, prepare(exchange)).await.ok_or_else(problem::fault).flatten()
}

/// Parses the request and opens the content, or returns the answer to send instead.
async fn prepare(exchange: &Exchange) -> Result<(StreamPlan, ContentRead), Reply> {
    let (service, head) = (&exchange.shared.service, &exchange.head);
    let query = Query::parse(head.query.as_deref()).map_err(problem::bad_request)?;
    let cmcd = Cmcd::read(query.cmcd.as_deref(), &head.headers);
    let asked = requested_rate(&query, &cmcd).map_err(problem::bad_request)?;
    let path = content_path(head).map_err(problem::bad_request)?;
    let permit = login::permit(exchange, &path).await?;
    let mut asked = share::bounded(asked, &permit);
    let mut charged = service.charged(&permit, exchange.client());
    let (mut viewer, object) = (viewer(exchange, &query, &cmcd, &charged), cmcd.object);
    let mut sessions = [&query.session, &cmcd.session].into_iter().flatten();
    if let Some(reserved) = sessions.find_map(|session| reservations::reserved(service, session, &path)) {
        (viewer, charged) = (reserved.viewer, reserved.charged);
        if asked.rate != RequestedRate::Bulk {
            asked.rate = RequestedRate::Rate(reserved.rate);
        }
    }
    // HEAD opens the content, too: that it cannot be read is answered as to a GET. It is not read to find its rate.
    let opened = match head.method {
        Method::GET => reads::open_for(service, &permit, asked.rate, &viewer).await,
        _ => reads::open_content(service, &permit, Want::File).await,
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(StoreError::IsDirectory) => return Err(to_folder(exchange, &permit).await),
        // Below a content there is nothing to read; only for a write it is in the way.
        Err(StoreError::NotADirectory) => return Err(problem::of_store(&StoreError::NotFound)),
        Err(error) => return Err(error.into()),
    };
    let name = path.joined();
    let name = name.as_str();
    let stages = Stages(playlist::stage(name, head.query.as_deref()).into_iter().collect());
    let now = SystemTime::now();
    let boundary = || format!("{:016x}{:016x}", service.hash((name, now)), service.hash((now, name, 1)));
    let mut plan = plan(head, &opened.entry, stages.alteration().as_deref(), &boundary, now)?;
    if query.download.is_some() {
        plan.fields.push((header::CONTENT_DISPOSITION, attachment(&opened.entry.name)));
    }
    // The rate of a link is the most for its short reads, too.
    let is_bounded = permit.link().is_some_and(|link| link.rate.is_some());
    let purpose = match () {
        () if is_bounded && media_type(name) != PLAYLIST => ReadPurpose::Plays,
        () if plan.status == StatusCode::PARTIAL_CONTENT => ReadPurpose::Looks,
        () if object == ObjectType::Accompanying || media_type(name) == PLAYLIST => ReadPurpose::Accompanies,
        () => ReadPurpose::Plays,
    };
    if media_type(name) == PLAYLIST {
        plan.fields.extend(viewer_name::field(exchange));
    }
    let read = ContentRead {
        opened,
        body: plan.body.clone(),
        part: part_of(&plan, &query),
        purpose,
        terms: asked,
        viewer,
        charged,
        client: exchange.client(),
        stages,
    };
    if plan.status.is_success() {
        share::count_use(exchange, &permit, &read.viewer, plan.status == StatusCode::OK).await?;
    }
    Ok((plan, read))
}

/// `Content-Disposition` of a content that is kept under its name (RFC 6266): in ASCII, and as it is (RFC 8187).
pub(crate) fn attachment(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || " -._()+,".contains(c) { c } else { '_' };
    let ascii: String = name.chars().map(plain).collect();
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{}", utf8_percent_encode(name, COMPONENT))
}

/// A folder that was named without its slash is a redirect to its listing, with the folder's time.
pub(crate) async fn to_folder(exchange: &Exchange, permit: &Permit<ToRead>) -> Reply {
    let head = &exchange.head;
    let query = head.query.as_deref().map_or_else(String::new, |query| format!("?{query}"));
    let reply = Reply::empty(StatusCode::MOVED_PERMANENTLY)
        .field(header::LOCATION, location(&format!("{}/{query}", head.path)));
    let folder = exchange.shared.service.lookup(permit).await;
    match folder.ok().and_then(|folder| folder.last_modified(SystemTime::now())) {
        Some(modified) => reply.field(header::LAST_MODIFIED, httpdate::fmt_http_date(modified)),
        None => reply,
    }
}

/// The part of a content that is sent.
fn part_of(plan: &StreamPlan, query: &Query) -> ContentPart {
    let ranges = plan.body.iter().filter_map(|segment| match segment {
        Segment::Range { offset, .. } => Some(*offset),
        Segment::Bytes(_) => None,
    });
    match ranges.min() {
        _ if !plan.ranged && query.rate.is_some() => ContentPart::Download,
        _ if !plan.ranged => ContentPart::Whole,
        Some(1..) => ContentPart::Elsewhere,
        _ => ContentPart::FromStart,
    }
}

/// The viewer of a request: the session it names, else its address and program.
fn viewer(exchange: &Exchange, query: &Query, cmcd: &Cmcd, charged: &ChargedBudgets) -> Viewer {
    let head = &exchange.head;
    // Sound counts as a viewer of its own: a reservation for its rate is of no use to the picture.
    let track = if cmcd.object == ObjectType::Audio { " audio" } else { "" };
    let session = cmcd.session.as_ref().map(|session| format!("{session}{track}"));
    let named = session.or_else(|| query.session.clone()).or_else(|| viewer_name::carried(head).map(str::to_owned));
    let service = &exchange.shared.service;
    match named {
        Some(name) if name.len() <= 128 && !name.is_empty() => Viewer::named(name, charged),
        _ => {
            let agent = service.hash(head.headers.get(USER_AGENT).map(http_types::HeaderValue::as_bytes));
            Viewer::unnamed(exchange.peer.ip(), agent, charged)
        }
    }
}

/// Head and content are in memory, and leave at once.
async fn send_kept(
    exchange: &Exchange,
    mut stream: ClientStream,
    plan: &StreamPlan,
    (head, body): (Vec<u8>, Bytes),
) -> Option<ClientStream> {
    let length = body.len() as u64;
    let written = write_all(&mut stream, Bytes::from(head).chain(body)).await;
    exchange.log(plan.status, if written.is_ok() { length } else { 0 });
    written.ok()?;
    stream.kept(exchange.head.keep_alive).await
}

/// Writes the bytes of a pipe. A failure before the first byte is out is answered with a problem; a later one breaks the
/// response off.
async fn send_piped(
    exchange: &Exchange,
    stream: ClientStream,
    plan: &StreamPlan,
    mut pipe: Pipe,
) -> Option<ClientStream> {
    let framing = Framing::of(plan.length, exchange.head.version);
    let first = match pipe.next().await {
        Ok(first) => first,
        Err(error) => return exchange.answer(stream, problem::of_pipe(&error)).await,
    };
    let head = response_head(exchange, plan, pipe.rate());
    let mut response = Streamed::new(stream, head, framing, exchange.shared.config().stall_max);
    let finished = pass_on(&mut pipe, first, &mut response).await;
    exchange.log(plan.status, response.body_bytes());
    finished?;
    response.into_socket().kept(keeps_alive(&exchange.head, plan)).await
}

/// Passes on the bytes of a pipe, `next` before all others; none if either side broke off.
pub(crate) async fn pass_on(pipe: &mut Pipe, mut next: Option<Bytes>, sink: &mut impl PieceSink) -> Option<()> {
    while let Some(piece) = next {
        sink.write(piece).await?;
        next = pipe.next().await.ok()?;
    }
    sink.finish().await
}

/// True if the connection stays open after the planned response.
fn keeps_alive(head: &RequestHead, plan: &StreamPlan) -> bool {
    Framing::of(plan.length, head.version).after(head) != After::Close
}

/// The fields of the planned response, but for its length and framing.
pub(crate) fn fields(exchange: &Exchange, plan: &StreamPlan, rate: Option<BitRate>) -> Vec<(HeaderName, String)> {
    let mut fields = plan.fields.clone();
    fields.extend(exchange.fields());
    fields.extend(rate.map(|rate| (RATE_FIELD, rate.0.to_string())));
    fields
}

fn response_head(exchange: &Exchange, plan: &StreamPlan, rate: Option<BitRate>) -> Vec<u8> {
    let head = &exchange.head;
    let mut fields = fields(exchange, plan, rate);
    let framing = Framing::of(plan.length, head.version);
    fields.extend(framing.field());
    render_head(plan.status, &fields, plan.length, framing.after(head), SystemTime::now())
}
