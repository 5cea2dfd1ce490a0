//! Who answers what hyper carries: everything but reads of contents.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{ALLOW, LOCATION};
use http::{Method, StatusCode};
use hyper::body::Incoming;

use crate::listing;
use crate::log::Access;
use crate::management;
use crate::media::PREFIX;
use crate::message::head::RequestHead;
use crate::message::reply::Reply;
use crate::page;
use crate::problem;
use crate::shared::Shared;
use crate::upload;

/// One request through hyper.
pub(crate) struct Exchange {
    pub(crate) shared: Arc<Shared>,
    pub(crate) head: Arc<RequestHead>,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Answers a request.
pub(crate) async fn respond(
    shared: Arc<Shared>,
    head: Arc<RequestHead>,
    addresses: (SocketAddr, SocketAddr),
    body: Incoming,
) -> Reply {
    let exchange = Exchange { shared, head, peer: addresses.0, local: addresses.1 };
    let mut access = Access::of(exchange.peer.ip(), &exchange.head);
    let reply = exchange.route(body, &mut access).await;
    exchange.shared.stats.request(reply.status);
    let line = access.line(reply.status, reply.body_bytes(&exchange.head.method), SystemTime::now());
    exchange.shared.access.line(line);
    reply
}

impl Exchange {
    async fn route(&self, body: Incoming, access: &mut Access) -> Reply {
        let path = self.head.path.as_str();
        if path.starts_with(PREFIX) {
            return self.media(body, access).await;
        }
        let read = self.head.method == Method::GET || self.head.method == Method::HEAD;
        let found = match path {
            // Contents are below it; without the slash, relative links would lead elsewhere.
            "/media" => Some(Reply::empty(StatusCode::MOVED_PERMANENTLY).field(LOCATION, PREFIX)),
            _ => management::answer(&self.shared, path).or_else(|| page::file(path)),
        };
        match found {
            Some(reply) if read => return reply,
            Some(_) => return not_allowed("GET, HEAD"),
            None => {}
        }
        if path == "*" {
            return Reply::empty(StatusCode::NO_CONTENT).field(ALLOW, "GET, HEAD, PUT, DELETE, OPTIONS");
        }
        Reply::problem(StatusCode::NOT_FOUND, "there is nothing at this path; contents are below /media/")
    }

    async fn media(&self, body: Incoming, access: &mut Access) -> Reply {
        match self.head.method {
            Method::GET | Method::HEAD => listing::answer(self).await,
            Method::PUT | Method::DELETE if self.shared.is_draining() => problem::stopping(&self.shared.config()),
            Method::PUT => upload::put(self, body, access).await,
            Method::DELETE => upload::delete(self, access).await,
            Method::OPTIONS => Reply::empty(StatusCode::NO_CONTENT).field(ALLOW, "GET, HEAD, PUT, DELETE, OPTIONS"),
            _ => not_allowed("GET, HEAD, PUT, DELETE, OPTIONS"),
        }
    }
}

/// 405 with what is allowed.
pub(crate) fn not_allowed(methods: &str) -> Reply {
    Reply::problem(StatusCode::METHOD_NOT_ALLOWED, &format!("the methods for this path are {methods}"))
        .field(ALLOW, methods)
}
