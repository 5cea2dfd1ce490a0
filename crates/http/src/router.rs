//! Who answers a request that is no read of a content.

use std::sync::Arc;

use http_types::header::{ALLOW, LOCATION};
use http_types::{Method, StatusCode};
use hyper::body::Incoming;

use crate::access_log::Access;
use crate::content::PREFIX;
use crate::exchange::Exchange;
use crate::message::reply::Reply;
use crate::{listing, management, page, problem, upload};

/// Answers a request, and logs it.
pub(crate) async fn respond(exchange: Arc<Exchange>, body: Incoming) -> Reply {
    if exchange.head.method != Method::PUT {
        return respond_now(exchange, body).await;
    }
    // An upload goes on without its connection: a client that closes right after its last byte, as ffmpeg does, has sent
    // all of it.
    tokio::spawn(respond_now(exchange, body))
        .await
        .unwrap_or_else(|_| Reply::problem(StatusCode::INTERNAL_SERVER_ERROR, "the upload failed by a fault of ours"))
}

async fn respond_now(exchange: Arc<Exchange>, body: Incoming) -> Reply {
    let mut access = Access::of(exchange.peer.ip(), &exchange.head);
    let reply = route(&exchange, body, &mut access).await;
    exchange.shared.note_request(&access, reply.status, reply.body_bytes(&exchange.head.method));
    reply
}

async fn route(exchange: &Exchange, body: Incoming, access: &mut Access) -> Reply {
    let path = exchange.head.path.as_str();
    if path.starts_with(PREFIX) {
        return media(exchange, body, access).await;
    }
    let read = exchange.head.method == Method::GET || exchange.head.method == Method::HEAD;
    let found = match path {
        // Contents are below it; without the slash, relative links would lead elsewhere.
        "/media" => Some(Reply::empty(StatusCode::MOVED_PERMANENTLY).field(LOCATION, PREFIX)),
        _ => management::answer(&exchange.shared, path).or_else(|| page::file(path)),
    };
    match found {
        Some(reply) if read => return reply,
        Some(_) => return problem::not_allowed("GET, HEAD"),
        None => {}
    }
    if path == "*" {
        return Reply::empty(StatusCode::NO_CONTENT).field(ALLOW, "GET, HEAD, PUT, DELETE, OPTIONS");
    }
    Reply::problem(StatusCode::NOT_FOUND, "there is nothing at this path; contents are below /media/")
}

async fn media(exchange: &Exchange, body: Incoming, access: &mut Access) -> Reply {
    match exchange.head.method {
        Method::GET | Method::HEAD => listing::answer(exchange).await,
        Method::PUT | Method::DELETE if exchange.shared.service.is_draining() => problem::stopping(&exchange.shared),
        Method::PUT => upload::put(exchange, body, access).await,
        Method::DELETE => upload::delete(exchange, access).await,
        Method::OPTIONS => Reply::empty(StatusCode::NO_CONTENT).field(ALLOW, "GET, HEAD, PUT, DELETE, OPTIONS"),
        _ => problem::not_allowed("GET, HEAD, PUT, DELETE, OPTIONS"),
    }
}
