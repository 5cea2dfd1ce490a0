//! Answers that are made while they are sent, but for contents: events as they happen, live figures, archives.
//!
//! Promise: a client that takes nothing loses its connection. Not here: the answers (`follow`, `live`, `archive`).

use std::time::SystemTime;

use http_types::Method;
use service::access::{Permit, ToObserve};

use crate::archive::Archive;
use crate::client_stream::ClientStream;
use crate::exchange::Exchange;
use crate::message::head::RequestHead;
use crate::message::reply::{After, Reply, render_head};
use crate::route_table::find;
use crate::routes::Call;
use crate::streamed::{Framing, PieceSink, Streamed};
use crate::{event_feed, live};

/// An answer to be sent.
pub(crate) enum Ongoing {
    Events(Permit<ToObserve>),
    Live(Permit<ToObserve>),
    Archive(Archive),
}

/// True for a request that has such an answer.
pub(crate) fn is_request(head: &RequestHead) -> bool {
    let is_archive = || find("GET", &head.path).is_ok_and(|found| found.route.call == Call::Archive);
    head.method == Method::GET && (event_feed::is_follow_request(head) || is_archive())
}

impl Ongoing {
    /// The answer to a request for which [`is_request`] is true, and its head.
    ///
    /// # Errors
    /// The answer to a client that has no right to it.
    pub(crate) async fn begin(exchange: &Exchange) -> Result<(Self, Reply), Reply> {
        let (ongoing, mut reply) = if event_feed::is_follow_request(&exchange.head) {
            let (permit, reply) = event_feed::begin(exchange).await?;
            let is_live = exchange.head.path == live::PATH;
            (if is_live { Self::Live(permit) } else { Self::Events(permit) }, reply)
        } else {
            let (archive, reply) = Archive::begin(exchange).await?;
            (Self::Archive(archive), reply)
        };
        exchange.add_fields(&mut reply);
        Ok((ongoing, reply))
    }

    /// Bytes of its body, if they are known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Events(_) | Self::Live(_) => None,
            Self::Archive(archive) => Some(archive.length()),
        }
    }

    /// Sends the body; none if it broke off.
    pub(crate) async fn send(self, exchange: &Exchange, sink: &mut impl PieceSink) -> Option<()> {
        match self {
            Self::Events(permit) => event_feed::follow(exchange, &permit, sink).await,
            Self::Live(permit) => event_feed::follow_figures(exchange, &permit, sink).await,
            Self::Archive(archive) => archive.send(exchange, sink).await,
        }
    }
}

/// Answers over HTTP/1. Returns the socket if the connection stays open.
pub(crate) async fn serve(exchange: &Exchange, stream: ClientStream) -> Option<ClientStream> {
    let (ongoing, mut reply) = match Ongoing::begin(exchange).await {
        Ok(begun) => begun,
        Err(reply) => return exchange.answer(stream, reply).await,
    };
    let length = ongoing.length();
    let framing = Framing::of(length, exchange.head.version);
    let after = if length.is_none() { After::Close } else { framing.after(&exchange.head) };
    reply.fields.extend(framing.field());
    let head = render_head(reply.status, &reply.fields, length, after, SystemTime::now());
    let mut response = Streamed::new(stream, head, framing, exchange.shared.config().stall_max);
    let sent = ongoing.send(exchange, &mut response).await;
    exchange.log(reply.status, response.body_bytes());
    let is_kept = sent.is_some() && after != After::Close;
    response.into_socket().kept(is_kept).await
}
