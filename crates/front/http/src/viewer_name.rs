//! Names of viewers: the page and playlists give one to each program that has none, as a cookie.
//!
//! A viewer with a name keeps its stream among others behind its address (`service::session`). The name is no secret: it is good only for the
//! account, link or address that began it.

use std::time::SystemTime;

use http_types::HeaderName;
use http_types::header::SET_COOKIE;

use crate::exchange::Exchange;
use crate::message::cookie::cookie;
use crate::message::head::RequestHead;
use crate::message::reply::Reply;

/// The cookie with the name.
const NAME: &str = "session";

/// The name that a request carries as a cookie.
pub(crate) fn carried(head: &RequestHead) -> Option<&str> {
    cookie(&head.headers, NAME)
}

/// The field that gives a name to a program that sent none.
pub(crate) fn field(exchange: &Exchange) -> Option<(HeaderName, String)> {
    if carried(&exchange.head).is_some() {
        return None;
    }
    let (service, now) = (&exchange.shared.service, SystemTime::now());
    let name = service.hash((exchange.peer, now, NAME));
    let secure = if exchange.is_sealed { "; Secure" } else { "" };
    Some((SET_COOKIE, format!("{NAME}={name:016x}; Path=/; HttpOnly; SameSite=Lax{secure}")))
}

/// Adds it to the page.
pub(crate) fn named(exchange: &Exchange, page: Reply) -> Reply {
    match field(exchange) {
        Some((field, value)) => page.field(field, value),
        None => page,
    }
}
