//! One request and the inputs of its answer: the head, the addresses of both ends, the state that all connections share.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::{Buf, Bytes};
use http_types::header::{ACCEPT, HeaderName, STRICT_TRANSPORT_SECURITY, VARY};
use http_types::{Method, StatusCode};
use service::delivery::Client;
use service::operations::Requester;
use service::requests::RequestRecord;

use crate::access_log::record;
use crate::client_stream::{ClientStream, write_all};
use crate::forwarded::{RequestSender, sender};
use crate::message::accept::quality;
use crate::message::conditional::joined;
use crate::message::head::RequestHead;
use crate::message::reply::{After, PROBLEM, Reply, render_head, render_reply_head};
use crate::shared::Shared;
use crate::streamed::{Framing, PieceSink, Streamed};
use crate::{cors, problem};

/// One request.
pub(crate) struct Exchange {
    pub(crate) shared: Arc<Shared>,
    pub(crate) head: RequestHead,
    /// Address of the client: the peer of the connection, or the client that a trusted proxy names.
    pub(crate) peer: SocketAddr,
    /// Address of the connection's peer: the client, or a proxy.
    pub(crate) socket_peer: IpAddr,
    pub(crate) local: SocketAddr,
    /// The client sent the request over TLS, to this server or to a trusted proxy.
    pub(crate) is_sealed: bool,
    /// The account or link by which the request is authorized.
    user: OnceLock<String>,
}

impl Exchange {
    pub(crate) fn new(
        shared: Arc<Shared>,
        head: RequestHead,
        (socket, local): (SocketAddr, SocketAddr),
        is_sealed: bool,
    ) -> Self {
        let RequestSender { address, encrypted } = sender(&head.headers, socket.ip(), &shared.config().trusted_proxies);
        let peer = SocketAddr::new(address, socket.port());
        let is_sealed = is_sealed || encrypted;
        Self { shared, head, peer, socket_peer: socket.ip(), local, is_sealed, user: OnceLock::new() }
    }

    /// The header fields of every answer: CORS, and HSTS (RFC 6797 §7).
    pub(crate) fn fields(&self) -> Vec<(HeaderName, String)> {
        let config = self.shared.config();
        let mut fields = cors::fields(&config, &self.head);
        if self.is_sealed && !config.hsts.is_zero() {
            fields.push((STRICT_TRANSPORT_SECURITY, format!("max-age={}", config.hsts.as_secs())));
        }
        fields
    }

    /// Adds [`Self::fields`] to a reply.
    pub(crate) fn add_fields(&self, reply: &mut Reply) {
        for (name, value) in self.fields() {
            match reply.fields.iter_mut().find(|(known, _)| *known == name && name == VARY) {
                Some((_, vary)) => *vary = format!("{vary}, {value}"),
                None => reply.fields.push((name, value)),
            }
        }
    }

    /// Notes the account for the access log.
    pub(crate) fn note_user(&self, user: Option<&str>) {
        if let Some(user) = user {
            let _ = self.user.set(user.to_owned());
        }
    }

    /// The account or link by which the request is authorized.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.get().map(String::as_str)
    }

    /// Logs that the login, token or link of the request is refused.
    pub(crate) fn tell_refused(&self, user: Option<&str>, reason: &str) {
        let by = Requester { address: self.peer.ip(), user };
        self.shared.service.events.tell_refused((self.head.method.as_str(), &self.head.path), by, reason);
    }

    fn record(&self) -> RequestRecord {
        RequestRecord { user: self.user.get().cloned(), ..record(self.peer.ip(), &self.head) }
    }

    pub(crate) fn client(&self) -> Client {
        let is_proxy = self.shared.config().trusted_proxies.has(self.peer.ip());
        Client { address: self.peer.ip(), local: self.local.ip(), is_proxy }
    }

    /// True if the client prefers HTML to a problem document, as a browser does for an address that its user opens.
    fn prefers_page(&self) -> bool {
        let accept = joined(&self.head.headers, &ACCEPT).unwrap_or_default();
        quality(&accept, "text/html") > quality(&accept, PROBLEM)
    }

    /// Writes a complete reply and logs it. Returns the socket if the connection stays open.
    pub(crate) async fn answer(&self, stream: ClientStream, reply: Reply) -> Option<ClientStream> {
        self.answer_whole(stream, reply).await?.kept(self.head.keep_alive).await
    }

    /// Writes a complete reply and logs it. Returns the socket if all of it was written.
    pub(crate) async fn answer_whole(&self, mut stream: ClientStream, mut reply: Reply) -> Option<ClientStream> {
        let reserved = self.shared.memory.reserve(reply.body.len());
        if reserved.is_none() {
            reply = problem::busy();
        }
        // Firefox does not display a body of the media type of problems.
        if (reply.status.is_client_error() || reply.status.is_server_error()) && self.prefers_page() {
            reply = reply.into_plain_text();
        }
        self.add_fields(&mut reply);
        let (status, mut sent) = (reply.status, reply.body_bytes(&self.head.method));
        let back = if reply.rest.is_some() {
            let written = self.answer_in_pieces(stream, reply).await;
            sent = written.1;
            written.0
        } else {
            let head = render_reply_head(&reply, After::of(&self.head), SystemTime::now());
            let body = if self.head.method == Method::HEAD { Bytes::new() } else { reply.body };
            let written = write_all(&mut stream, Bytes::from(head).chain(body)).await;
            written.is_ok().then_some(stream)
        };
        self.shared.note_request(status, sent, || self.record());
        back
    }

    /// Writes a reply whose body is made piece by piece while the client takes it. Returns the socket if the connection stays
    /// open, and the number of body bytes written.
    async fn answer_in_pieces(&self, mut stream: ClientStream, mut reply: Reply) -> (Option<ClientStream>, u64) {
        let framing = Framing::of(None, self.head.version);
        let after = framing.after(&self.head);
        reply.fields.extend(framing.field());
        let head = render_head(reply.status, &reply.fields, None, after, SystemTime::now());
        if self.head.method == Method::HEAD {
            let written = write_all(&mut stream, Bytes::from(head)).await;
            return (written.is_ok().then_some(stream), 0);
        }
        let mut response = Streamed::new(stream, head, framing, self.shared.config().stall_max);
        let pieces = reply.rest.into_iter().flat_map(|rest| rest.0);
        let written = async {
            for piece in std::iter::once(reply.body).chain(pieces) {
                response.write(piece).await?;
            }
            response.finish().await
        };
        let written = written.await;
        let sent = response.body_bytes();
        let back = match written {
            Some(()) => response.into_socket().kept(after != After::Close).await,
            None => None,
        };
        (back, sent)
    }

    /// Writes a head without a body.
    pub(crate) async fn send_head(
        &self,
        mut stream: ClientStream,
        head: Vec<u8>,
        status: StatusCode,
        keep_alive: bool,
    ) -> Option<ClientStream> {
        let written = write_all(&mut stream, Bytes::from(head)).await;
        self.log(status, 0);
        written.ok()?;
        stream.kept(keep_alive).await
    }

    /// Counts the request and logs it; `bytes` are those of the body.
    pub(crate) fn log(&self, status: StatusCode, bytes: u64) {
        self.shared.note_request(status, bytes, || self.record());
    }
}
