//! One connection: reads request heads and gives each request to who answers it, until one of both sides has enough.
//!
//! Promise: a head is bounded in size and time; bytes read beyond a request belong to the next one; an error is answered
//! precisely before the connection is closed. Not here: answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes, BytesMut};
use http_types::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::access_log::Access;
use crate::content;
use crate::exchange::{Exchange, write_all};
use crate::message::head::{BodyFraming, HEAD_BYTES_MAX, HeadError, RequestHead, Version, parse_head};
use crate::message::reply::{After, Reply, render};
use crate::replay::serve_one;
use crate::router;
use crate::shared::Shared;

/// First size of the read buffer: an ordinary head fits.
const BUFFER_BYTES: usize = 2048;
/// A client that still sends when it was refused is listened to for so long and so much, that it can read why.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 1 << 20;

/// When a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// While all is served.
    Serving,
    /// While the server drains: its one request is answered, if only with a refusal.
    Draining,
}

/// What came of waiting for a request head.
enum Next {
    Head(Box<RequestHead>),
    Refused(HeadError),
    TimedOut,
    Closed,
}

/// Serves a connection to its end.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, arrival: Arrival) {
    let Ok(local) = stream.local_addr() else { return };
    let _ = stream.set_nodelay(true);
    let mut buffer = BytesMut::new();
    let mut wait_max = shared.config().head_time_max;
    let mut stream = stream;
    loop {
        let head = match next_head(&shared, &mut stream, &mut buffer, wait_max, arrival).await {
            Next::Head(head) => *head,
            Next::Closed => return,
            Next::Refused(error) => {
                let reply = Reply::problem(error.status(), &error.to_string());
                return refuse(&shared, stream, peer, &reply).await;
            }
            Next::TimedOut => {
                let reply = Reply::problem(StatusCode::REQUEST_TIMEOUT, "the request head did not come in time");
                return refuse(&shared, stream, peer, &reply).await;
            }
        };
        let exchange = Exchange { shared: Arc::clone(&shared), head, peer, local };
        let back = if content::is_content_read(&exchange.head) {
            read_content(exchange, &mut buffer, stream).await
        } else {
            Box::pin(other(exchange, &mut buffer, stream)).await
        };
        match back {
            Some(back) if !shared.service.is_draining() => stream = back,
            _ => return,
        }
        wait_max = shared.config().idle_time_max;
    }
}

/// Reads until a head is complete. The clock of the head starts with its first byte. A head that is not complete when a
/// drain begins is none that runs.
async fn next_head(
    shared: &Shared,
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    wait_max: Duration,
    arrival: Arrival,
) -> Next {
    let mut draining = shared.draining.clone();
    let mut deadline = Instant::now() + wait_max;
    let mut begun = false;
    let mut looked_at = 0;
    loop {
        if !begun && !buffer.is_empty() {
            begun = true;
            deadline = Instant::now() + shared.config().head_time_max;
        }
        // A head ends with a line; a parser that ran for each byte would let slow clients cost much.
        if buffer[looked_at..].contains(&b'\n') || buffer.len() >= HEAD_BYTES_MAX {
            match parse_head(buffer) {
                Ok(Some(head)) => return Next::Head(Box::new(head)),
                Ok(None) => {}
                Err(error) => return Next::Refused(error),
            }
        }
        looked_at = buffer.len();
        buffer.reserve(BUFFER_BYTES);
        let read = tokio::select! {
            biased; // what has arrived already is answered, drain or not
            read = timeout_at(deadline, stream.read_buf(buffer)) => read,
            _ = draining.wait_for(|draining| *draining), if arrival == Arrival::Serving => return Next::Closed,
        };
        match read {
            Ok(Ok(0) | Err(_)) => return Next::Closed,
            Ok(Ok(_)) => {}
            Err(_) if begun => return Next::TimedOut,
            Err(_) => return Next::Closed,
        }
    }
}

/// A GET or HEAD of a content: ours.
async fn read_content(exchange: Exchange, buffer: &mut BytesMut, stream: TcpStream) -> Option<TcpStream> {
    buffer.advance(exchange.head.bytes);
    if exchange.head.body != BodyFraming::Length(0) {
        let reply = Reply::problem(StatusCode::BAD_REQUEST, "a read of a content has no request body; send none");
        refuse(&exchange.shared, stream, exchange.peer, &reply).await;
        return None;
    }
    if buffer.is_empty() {
        // A stream may last for hours: it keeps no buffer here meanwhile.
        *buffer = BytesMut::new();
    }
    content::serve(&exchange, stream).await
}

/// Everything else: through hyper, one request at a time.
async fn other(exchange: Exchange, buffer: &mut BytesMut, stream: TcpStream) -> Option<TcpStream> {
    let (shared, head) = (Arc::clone(&exchange.shared), &exchange.head);
    let rest = match head.body {
        BodyFraming::Chunked => u64::MAX,
        BodyFraming::Length(length) => length,
    };
    let body_here = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len() - head.bytes);
    let before = replayed_head(head, buffer, body_here);
    let rest = rest - u64::try_from(body_here).expect("a buffer is no longer than the body");
    let keep_alive = head.keep_alive;
    let exchange = Arc::new(exchange);
    let respond = |body| router::respond(Arc::clone(&exchange), body);
    let back = serve_one(stream, before, rest, shared.config().write_time_max, respond).await?;
    if keep_alive && back.whole {
        return Some(back.stream);
    }
    if !back.whole {
        linger(&shared, back.stream).await;
    }
    None
}

/// The head as hyper gets it, and the part of the body that came with it. The target is left out: it has been read here,
/// and hyper's idea of a target is narrower (it refuses some that browsers and curl send).
fn replayed_head(head: &RequestHead, buffer: &mut BytesMut, body_here: usize) -> Bytes {
    let original = buffer.split_to(head.bytes + body_here);
    let line_start = original.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(0);
    let line_end = original[line_start..].iter().position(|byte| *byte == b'\n').map_or(0, |at| line_start + at + 1);
    let version = if head.version == Version::Http10 { "1.0" } else { "1.1" };
    let mut replayed = BytesMut::with_capacity(original.len() + 16);
    replayed.extend_from_slice(format!("{} / HTTP/{version}\r\n", head.method).as_bytes());
    replayed.extend_from_slice(&original[line_end..]);
    replayed.freeze()
}

/// Answers what is no acceptable request, and closes.
async fn refuse(shared: &Shared, mut stream: TcpStream, peer: SocketAddr, reply: &Reply) {
    let bytes = render(reply, false, After::Close, SystemTime::now());
    let written = write_all(shared, &mut stream, &bytes).await;
    let none = || "-".to_owned();
    let access = Access { peer: peer.ip(), user: None, request: none(), referer: none(), agent: none() };
    shared.note_request(&access, reply.status, reply.body.len() as u64);
    if written.is_ok() {
        linger(shared, stream).await;
    }
}

/// Closes our side and listens for a moment: closing at once would reset the connection, and the client would lose
/// the answer while it still sends (RFC 9112 §9.6). Nobody who stops waits for that.
async fn linger(shared: &Shared, mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let drained = async {
        let mut sink = [0u8; 4096];
        let mut total = 0;
        while total < LINGER_BYTES {
            match stream.read(&mut sink).await {
                Ok(0) | Err(_) => return,
                Ok(read) => total += read,
            }
        }
    };
    let mut draining = shared.draining.clone();
    tokio::select! {
        _ = timeout(LINGER_TIME, drained) => {}
        _ = draining.wait_for(|draining| *draining) => {}
    }
}
