//! HTTP/2 over TLS: hyper frames the requests of a connection, and each request is answered by a task of its own.
//!
//! Promise: the same answers as over HTTP/1.1. A body with a rate comes from a pipe that the data plane paces, and is read as
//! the client's flow-control windows allow, so that a slow stream does not delay others. Streams, windows and heads of a
//! connection are bounded; a client that resets many streams or sends useless frames loses its connection (hyper,
//! `frame_limit`). Not here: the answers. See decisions/0069.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_types::header::{CONTENT_LENGTH, HOST, SERVER};
use http_types::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use service::connections::{Arrival, ConnectionPlace};
use service::guard::guarded;
use service::pipeline::Pipe;
use service::reads::{self, PacedRead};
use tls::TlsStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::body::RequestBody;
use crate::connection::{drains, linger_time};
use crate::content::{self, pass_on};
use crate::exchange::Exchange;
use crate::frame_limit::LimitedFrames;
use crate::generated_answers::{self, Ongoing};
use crate::memory::HeldMemory;
use crate::message::head::{BodyFraming, HEAD_BYTES_MAX, HttpVersion, RequestHead, check_host};
use crate::message::reply::{self, Pieces, Reply};
use crate::plan::StreamPlan;
use crate::shared::Shared;
use crate::streamed::PieceSink;
use crate::{hosts, problem, router};

/// Most concurrent requests of a connection.
const STREAMS_MAX: u32 = 100;
/// Bytes of bodies that a client may send before they are read: per stream, and per connection.
const WINDOW_BYTES: u32 = 128 * 1024;
/// Bytes of a body that may wait for the client's window.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// Most streams that a client may reset before they are served.
const RESETS_MAX: usize = 20;
/// Period of pings while requests run, and longest wait for their answers.
const PING_PERIOD: Duration = Duration::from_secs(20);

/// Serves a connection to its end.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TlsStream, peer: SocketAddr, place: &ConnectionPlace) {
    let Ok(local) = stream.get_ref().0.local_addr() else { return };
    let _ = stream.get_ref().0.set_nodelay(true);
    let requests = Arc::<RequestCount>::default();
    let (ours, counted) = (Arc::clone(&shared), Arc::clone(&requests));
    let serve_one = service_fn(move |request| {
        let (shared, running) = (Arc::clone(&ours), RequestCount::begin(&counted));
        async move { Ok::<_, Infallible>(respond(shared, request, (peer, local), running).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX);
    builder.initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
    builder.max_header_list_size(u32::try_from(HEAD_BYTES_MAX).expect("16 KiB")).max_send_buf_size(SEND_BYTES_MAX);
    builder.max_pending_accept_reset_streams(RESETS_MAX).max_local_error_reset_streams(RESETS_MAX);
    builder.keep_alive_interval(PING_PERIOD).keep_alive_timeout(PING_PERIOD);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(LimitedFrames::new(stream)), serve_one));
    let is_serving = place.arrival() == Arrival::Serving;
    let ends = async {
        tokio::select! {
            () = drains(&shared), if is_serving => {}
            () = requests.idle_for(shared.config().idle_time_max) => {}
        }
    };
    tokio::select! {
        _ = connection.as_mut() => return,
        () = ends => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Requests of a connection.
#[derive(Debug, Default)]
struct RequestCount {
    /// Number of running requests.
    running: AtomicU64,
    /// Number of requests that began.
    begun: AtomicU64,
}

/// Counts a request as running until this is dropped.
#[derive(Debug)]
struct RunningRequest(Arc<RequestCount>);

impl RequestCount {
    fn begin(this: &Arc<Self>) -> RunningRequest {
        this.running.fetch_add(1, Ordering::AcqRel);
        this.begun.fetch_add(1, Ordering::Relaxed);
        RunningRequest(Arc::clone(this))
    }

    /// Completes when no request ran for a whole period of `span`.
    async fn idle_for(&self, span: Duration) {
        loop {
            let begun = self.begun.load(Ordering::Relaxed);
            let is_idle = self.running.load(Ordering::Acquire) == 0;
            sleep(span).await;
            if is_idle && self.begun.load(Ordering::Relaxed) == begun {
                return;
            }
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn respond(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    addresses: (SocketAddr, SocketAddr),
    running: RunningRequest,
) -> Response<FramedBody> {
    let (head, frames) = match head_of(request) {
        Ok(parts) => parts,
        Err(reply) => {
            return response(reply.status, reply.fields, (BodySource::Whole(Some(reply.body)), None, running));
        }
    };
    let exchange = Arc::new(Exchange::new(Arc::clone(&shared), head, addresses, true));
    if let Some(reply) = hosts::refusal(&shared.config(), &exchange.head) {
        return whole(&exchange, reply, running);
    }
    if content::is_content_read(&exchange.head) {
        return read_content(&exchange, running).await;
    }
    if generated_answers::is_request(&exchange.head) {
        return send_ongoing(&exchange, running).await;
    }
    let mut body = RequestBody::of_frames(frames, shared.config().upload_idle_max);
    let responded =
        guarded(&shared.service, Box::pin(router::respond(&exchange, &mut body))).await.ok_or_else(problem::fault);
    if !body.skip_rest() {
        tokio::spawn(linger(Arc::clone(&exchange), body));
    }
    whole(&exchange, responded.unwrap_or_else(|reply| reply), running)
}

/// Reads and drops the rest of a body after its answer. Dropping the body instead would reset the stream, and curl 7.88, which
/// is still sending, would lose the answer.
async fn linger(exchange: Arc<Exchange>, mut body: RequestBody<'static>) {
    let rest = async { while let Ok(Some(_)) = body.next().await {} };
    tokio::select! {
        _ = timeout(linger_time(&exchange.head), rest) => {}
        () = drains(&exchange.shared) => {}
    }
}

/// Converts the request to the front end's [`Exchange`].
fn head_of(request: Request<Incoming>) -> Result<(RequestHead, Incoming), Reply> {
    let (parts, frames) = request.into_parts();
    let mut headers = parts.headers;
    if let Some(authority) = parts.uri.authority() {
        let host = HeaderValue::from_str(authority.as_str());
        headers.insert(HOST, host.map_err(|_| Reply::malformed("`:authority` is no host"))?);
    }
    check_host(&headers, HttpVersion::Http2)?;
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let body = match length {
        Some(length) => BodyFraming::Length(length),
        None if frames.is_end_stream() => BodyFraming::Length(0),
        None => BodyFraming::Chunked,
    };
    let head = RequestHead {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().map(str::to_owned),
        version: HttpVersion::Http2,
        headers,
        body,
        expects_continue: false,
        keep_alive: true,
        bytes: 0,
    };
    Ok((head, frames))
}

/// Sends a complete reply.
fn whole(exchange: &Exchange, mut reply: Reply, running: RunningRequest) -> Response<FramedBody> {
    let held = exchange.shared.memory.reserve(reply.body.len());
    if held.is_none() {
        reply = problem::busy();
    }
    exchange.add_fields(&mut reply);
    let is_head = exchange.head.method == Method::HEAD;
    let bodiless = matches!(reply.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    exchange.log(reply.status, reply.body_bytes(&exchange.head.method));
    if reply.rest.is_none() && !bodiless {
        reply.fields.push((CONTENT_LENGTH, reply.body.len().to_string()));
    }
    let source = match reply.rest {
        _ if is_head => BodySource::Whole(None),
        Some(rest) => BodySource::Pieces(Some(reply.body), rest),
        None => BodySource::Whole(Some(reply.body)),
    };
    response(reply.status, reply.fields, (source, held, running))
}

async fn read_content(exchange: &Arc<Exchange>, running: RunningRequest) -> Response<FramedBody> {
    let (plan, read) = match content::prepared(exchange).await {
        Ok(prepared) => prepared,
        Err(reply) => return whole(exchange, reply, running),
    };
    let service = &exchange.shared.service;
    let fields = |plan: &StreamPlan, rate| {
        let mut fields = content::fields(exchange, plan, rate);
        fields.extend(plan.length.map(|length| (CONTENT_LENGTH, length.to_string())));
        fields
    };
    if exchange.head.method == Method::HEAD {
        exchange.log(plan.status, 0);
        let fields = fields(&plan, read.rate(service));
        return response(plan.status, fields, (BodySource::Whole(None), None, running));
    }
    let no_socket = None::<fn() -> Option<std::os::fd::OwnedFd>>;
    let mut pipe = match reads::open(service, read, no_socket, &|_| Vec::new()).await {
        Ok(PacedRead::Kept { bytes, rate }) => {
            exchange.log(plan.status, bytes.len() as u64);
            return response(plan.status, fields(&plan, rate), (BodySource::Whole(Some(bytes)), None, running));
        }
        Ok(PacedRead::Pipe(pipe)) => pipe,
        Ok(PacedRead::Socket(_)) => unreachable!("there was no socket to send to"),
        Err((_, error)) => return whole(exchange, problem::of_open(&error), running),
    };
    let first = match pipe.next().await {
        Ok(first) => first,
        Err(error) => return whole(exchange, problem::of_pipe(&error), running),
    };
    let head = fields(&plan, pipe.rate());
    let (sink, source) = FrameSink::new(exchange);
    tokio::spawn(send(Arc::clone(exchange), plan.status, (pipe, first), sink));
    response(plan.status, head, (source, None, running))
}

/// Sends the bytes of a pipe, and logs the request.
async fn send(
    exchange: Arc<Exchange>,
    status: StatusCode,
    (mut pipe, first): (Box<Pipe>, Option<Bytes>),
    mut sink: FrameSink,
) {
    pass_on(&mut pipe, first, &mut sink).await;
    exchange.log(status, sink.body_bytes);
}

async fn send_ongoing(exchange: &Arc<Exchange>, running: RunningRequest) -> Response<FramedBody> {
    let (ongoing, mut reply) = match Ongoing::begin(exchange).await {
        Ok(begun) => begun,
        Err(reply) => return whole(exchange, reply, running),
    };
    reply.fields.extend(ongoing.length().map(|length| (CONTENT_LENGTH, length.to_string())));
    let (mut sink, source) = FrameSink::new(exchange);
    let (sending, status) = (Arc::clone(exchange), reply.status);
    tokio::spawn(async move {
        ongoing.send(&sending, &mut sink).await;
        sending.log(status, sink.body_bytes);
    });
    response(status, reply.fields, (source, None, running))
}

fn response(
    status: StatusCode,
    fields: Vec<(HeaderName, String)>,
    (source, held, running): (BodySource, Option<HeldMemory>, RunningRequest),
) -> Response<FramedBody> {
    let mut response = Response::new(FramedBody { source, _held: held, _running: running });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(SERVER, HeaderValue::from_static(reply::SERVER));
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(name, value);
        }
    }
    response
}

/// The body of a response, taken as the client's windows allow.
struct FramedBody {
    source: BodySource,
    _held: Option<HeldMemory>,
    _running: RunningRequest,
}

enum BodySource {
    Whole(Option<Bytes>),
    Pieces(Option<Bytes>, Pieces),
    /// `None` marks the end: if the sender is dropped before, the body has broken off.
    Sent(mpsc::Receiver<Option<Bytes>>),
}

/// A body broke off; its stream is reset.
#[derive(Debug, thiserror::Error)]
#[error("the body broke off")]
struct BrokenBody;

impl Body for FramedBody {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let next = match &mut self.get_mut().source {
            BodySource::Whole(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()),
            BodySource::Pieces(first, rest) => first.take().or_else(|| rest.0.by_ref().find(|piece| !piece.is_empty())),
            BodySource::Sent(pieces) => match ready!(pieces.poll_recv(context)) {
                Some(piece) => piece,
                None => return Poll::Ready(Some(Err(BrokenBody))),
            },
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.source, BodySource::Whole(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }
}

/// The sender of a body whose bytes are sent as they come.
struct FrameSink {
    pieces: mpsc::Sender<Option<Bytes>>,
    stall_max: Duration,
    /// Body bytes passed on so far.
    body_bytes: u64,
}

impl FrameSink {
    fn new(exchange: &Exchange) -> (Self, BodySource) {
        // The memory of a stream: one piece waits here, one in hyper, and the pipe is full.
        let (pieces, taken) = mpsc::channel(1);
        let stall_max = exchange.shared.config().stall_max;
        (Self { pieces, stall_max, body_bytes: 0 }, BodySource::Sent(taken))
    }

    async fn send(&self, piece: Option<Bytes>) -> Option<()> {
        timeout(self.stall_max, self.pieces.send(piece)).await.ok()?.ok()
    }
}

impl PieceSink for FrameSink {
    async fn write(&mut self, piece: Bytes) -> Option<()> {
        self.body_bytes += piece.len() as u64;
        self.send(Some(piece)).await
    }

    async fn finish(&mut self) -> Option<()> {
        self.send(None).await
    }
}
