//! One connection: reads request heads and gives each request to the module that answers it, until either side closes.
//!
//! Promise: a head is bounded in size and time; bytes read beyond a request belong to the next one; an error is answered
//! precisely before the connection is closed. Not here: answers.

use std::future::{Future, pending};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Buf;
use http_types::{Method, StatusCode};
use service::connections::{Arrival, ConnectionPlace};
use service::guard::guarded;
use service::requests::RequestRecord;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout, timeout_at};

use crate::body::RequestBody;
use crate::client_stream::{ClientStream, write_all};
use crate::content::{self, PREFIX};
use crate::exchange::Exchange;
use crate::memory::{ConnectionBuffer, drop_some};
use crate::message::head::{BodyFraming, HEAD_BYTES_MAX, RequestHead, parse_head};
use crate::message::reply::{After, Reply, render};
use crate::router;
use crate::shared::Shared;
use crate::{dav, generated_answers, hosts, management, problem, rest, upload, upload_part};

/// A connection of the reserve must have sent its request within this time.
pub(crate) const RESERVE_TIME_MAX: Duration = Duration::from_secs(1);
/// Limits of time and bytes for reads from a refused client that still sends; they also end when it was silent for
/// [`LINGER_SILENCE`]. The reads let it read the refusal: closing at once would reset the connection. A proxy sends all of an
/// upload before it looks for the answer.
pub(crate) const LINGER_TIME: Duration = Duration::from_secs(30);
/// The same for a refused recording, which has no end for a proxy to wait for: a camera that does not look at its answer (`ffmpeg -method PUT`)
/// learns of it by the reset of its connection. Chosen: an answer that was lost on its way is sent again three times within this time.
const LINGER_RECORDING: Duration = Duration::from_secs(5);
const LINGER_BYTES: usize = 1 << 30;
const LINGER_SILENCE: Duration = Duration::from_secs(2);
/// Most bytes read of a body that no request handler needs, so that the connection can stay open.
const SKIPPED_BYTES_MAX: u64 = 64 * 1024;

/// Serves a connection to its end.
pub(crate) async fn serve(shared: Arc<Shared>, stream: ClientStream, peer: SocketAddr, place: &ConnectionPlace) {
    let arrival = place.arrival();
    let Ok(local) = stream.local_addr() else { return };
    let _ = stream.set_nodelay();
    let mut buffer = ConnectionBuffer::new(shared.memory.clone());
    let mut wait_max = shared.config().head_time_max;
    if arrival == Arrival::Reserve {
        wait_max = wait_max.min(RESERVE_TIME_MAX);
    }
    let mut stream = stream;
    loop {
        // A head that is not complete when a drain begins does not count as a running request.
        let ends = async { if arrival == Arrival::Serving { drains(&shared).await } else { pending().await } };
        let head_time_max = || shared.config().head_time_max;
        let head = match next_head(&mut stream, &mut buffer, (wait_max, head_time_max), ends).await {
            Ok(Some(head)) => *head,
            Ok(None) => return,
            Err(reply) => return refuse(&shared, stream, peer, &reply).await,
        };
        buffer.bytes.advance(head.bytes);
        buffer.let_go();
        // A head is kept for as long as its request is served.
        let Some(_held) = shared.memory.reserve(head.bytes) else {
            return refuse(&shared, stream, peer, &problem::busy()).await;
        };
        let exchange = Exchange::new(Arc::clone(&shared), head, (peer, local), stream.is_sealed());
        if arrival == Arrival::Reserve {
            if management::is_health(&exchange.head.path) {
                answer(exchange, &mut buffer, stream).await;
            } else {
                refuse(&shared, stream, peer, &problem::busy()).await;
            }
            return;
        }
        match answer(exchange, &mut buffer, stream).await {
            Some(back) if !shared.service.is_draining() => stream = back,
            _ => return,
        }
        wait_max = shared.config().idle_time_max;
    }
}

/// Reads until a head is complete. It gives none if the connection ends, if no first byte comes within `wait_max`, or once
/// `ends` is ready. The head may take `head_time_max` from its first byte on.
///
/// # Errors
/// The refusal of the head.
pub(crate) async fn next_head(
    stream: &mut ClientStream,
    buffer: &mut ConnectionBuffer,
    (wait_max, head_time_max): (Duration, impl Fn() -> Duration),
    ends: impl Future<Output = ()>,
) -> Result<Option<Box<RequestHead>>, Reply> {
    let mut ends = pin!(ends);
    let mut deadline = Instant::now() + wait_max;
    let mut begun = false;
    let mut looked_at = 0;
    loop {
        if !begun && !buffer.bytes.is_empty() {
            begun = true;
            deadline = Instant::now() + head_time_max();
        }
        // A head ends with a line; a parser that ran for each byte would let slow clients cost much.
        if buffer.bytes[looked_at..].contains(&b'\n') || buffer.bytes.len() >= HEAD_BYTES_MAX {
            match parse_head(&buffer.bytes) {
                Ok(Some(head)) => return Ok(Some(Box::new(head))),
                Ok(None) => {}
                Err(error) => return Err(error.into()),
            }
        }
        looked_at = buffer.bytes.len();
        let read = tokio::select! {
            biased; // a head that has arrived already is answered all the same
            read = timeout_at(deadline, buffer.read_from(stream)) => read,
            () = &mut ends => return Ok(None),
        };
        match read {
            Ok(Err(error)) if error.kind() == ErrorKind::OutOfMemory => return Err(problem::busy()),
            Ok(Ok(0) | Err(_)) => return Ok(None),
            Ok(Ok(_)) => {}
            Err(_) if begun => {
                let late = "the request head did not come in time";
                return Err(Reply::problem(StatusCode::REQUEST_TIMEOUT, late));
            }
            Err(_) => return Ok(None),
        }
    }
}

/// Answers a request. Only an upload has use for a body; that of any other is skipped (RFC 9110 §9.3.1).
async fn answer(
    mut exchange: Exchange,
    buffer: &mut ConnectionBuffer,
    mut stream: ClientStream,
) -> Option<ClientStream> {
    let idle_max = exchange.shared.config().upload_idle_max;
    let mut body = RequestBody::new(&exchange.head, &mut stream, buffer, idle_max);
    if exchange.head.method != Method::PUT
        && !dav::takes_body(&exchange.head.method)
        && !rest::takes_body(&exchange.head)
        && !upload_part::is_upload(&exchange.head.path)
        && exchange.head.body != BodyFraming::Length(0)
        && let Err(error) = body.discard(SKIPPED_BYTES_MAX).await
    {
        let is_form = exchange.head.method == Method::POST && exchange.head.path.starts_with(PREFIX);
        let reply = if is_form { problem::form_refused() } else { problem::of_body(&error) };
        refuse(&exchange.shared, stream, exchange.peer, &reply).await;
        return None;
    }
    let config = exchange.shared.config();
    let misdirected = hosts::refusal(&config, &exchange.head).or_else(|| hosts::to_tls(&config, &exchange));
    if misdirected.is_none() && content::is_content_read(&exchange.head) {
        // A stream may last for hours: it keeps no buffer here meanwhile.
        buffer.let_go();
        return content::serve(&exchange, stream).await;
    }
    if misdirected.is_none() && generated_answers::is_request(&exchange.head) {
        return generated_answers::serve(&exchange, stream).await;
    }
    let responded = match misdirected {
        Some(reply) => Err(reply),
        None => guarded(&exchange.shared.service, Box::pin(router::respond(&exchange, &mut body)))
            .await
            .ok_or_else(problem::fault),
    };
    let reply = responded.unwrap_or_else(|reply| reply);
    // Where more of a body may come than was needed, the answer says that the connection is closed, and the client is
    // listened to for a while, so that it can read the reason.
    let is_read = body.skip_rest();
    exchange.head.keep_alive &= is_read;
    let stream = exchange.answer_whole(stream, reply).await?;
    if !is_read {
        linger(stream, linger_time(&exchange.head), drains(&exchange.shared)).await;
        return None;
    }
    stream.kept(exchange.head.keep_alive).await
}

/// Answers an unacceptable request, and closes.
async fn refuse(shared: &Shared, mut stream: ClientStream, peer: SocketAddr, reply: &Reply) {
    let bytes = render(reply, After::Close, SystemTime::now());
    let written = write_all(&mut stream, bytes.as_slice()).await;
    shared.note_request(reply.status, reply.body.len() as u64, || {
        let none = || "-".to_owned();
        RequestRecord { peer: peer.ip(), user: None, request: none(), referer: none(), agent: none() }
    });
    if written.is_ok() {
        linger(stream, LINGER_TIME, drains(shared)).await;
    }
}

/// Is ready once the server drains.
pub(crate) async fn drains(shared: &Shared) {
    let _ = shared.draining.clone().wait_for(|draining| *draining).await;
}

/// Time for which the rest of a body is read and dropped when its request was answered before.
pub(crate) fn linger_time(head: &RequestHead) -> Duration {
    if upload::has_rate(head) { LINGER_RECORDING } else { LINGER_TIME }
}

/// Closes our side and listens for `time_max`, at most until `ends` is ready: closing at once would reset the connection, and
/// the client would lose the answer while it still sends (RFC 9112 §9.6).
pub(crate) async fn linger(mut stream: ClientStream, time_max: Duration, ends: impl Future<Output = ()>) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let silent = async {
        let mut left = LINGER_BYTES;
        while left > 0
            && let Ok(Ok(bytes @ 1..)) = timeout(LINGER_SILENCE, drop_some(&mut stream)).await
        {
            left = left.saturating_sub(bytes);
        }
    };
    tokio::select! {
        _ = timeout(time_max, silent) => {}
        () = ends => {}
    }
}
