//! One request and the inputs of its answer: its head, the two addresses, the state that all connections share.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes};
use http_types::{Method, StatusCode};
use service::delivery::Client;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::access_log::AccessRecord;
use crate::message::head::RequestHead;
use crate::message::reply::{After, Reply, render_head, render_reply_head};
use crate::shared::Shared;
use crate::streamed::{Framing, Streamed};
use crate::{cors, problem};

/// For a client to take a small response.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);

/// One request.
pub(crate) struct Exchange {
    pub(crate) shared: Arc<Shared>,
    pub(crate) head: RequestHead,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// The account that the request logged in as.
    user: OnceLock<String>,
}

impl Exchange {
    pub(crate) fn new(shared: Arc<Shared>, head: RequestHead, peer: SocketAddr, local: SocketAddr) -> Self {
        Self { shared, head, peer, local, user: OnceLock::new() }
    }

    /// Notes the account for the access log.
    pub(crate) fn note_user(&self, user: Option<&str>) {
        if let Some(user) = user {
            let _ = self.user.set(user.to_owned());
        }
    }

    fn record(&self) -> AccessRecord {
        AccessRecord { user: self.user.get().cloned(), ..AccessRecord::of(self.peer.ip(), &self.head) }
    }

    pub(crate) fn client(&self) -> Client {
        Client { address: self.peer.ip(), local: self.local.ip() }
    }

    /// Writes a complete reply and logs it. Returns the socket if the connection stays open.
    pub(crate) async fn answer(&self, stream: TcpStream, reply: Reply) -> Option<TcpStream> {
        self.answer_whole(stream, reply).await.filter(|_| self.head.keep_alive)
    }

    /// Writes a complete reply and logs it. Returns the socket if all of it was written.
    pub(crate) async fn answer_whole(&self, mut stream: TcpStream, mut reply: Reply) -> Option<TcpStream> {
        let reserved = self.shared.memory.reserve(reply.body.len());
        if reserved.is_none() {
            reply = problem::busy();
        }
        cors::add(&self.shared.config(), &self.head, &mut reply);
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

    /// Writes a reply and makes its body piece by piece as the client takes it. Returns how many bytes of the body it took.
    async fn answer_in_pieces(&self, mut stream: TcpStream, mut reply: Reply) -> (Option<TcpStream>, u64) {
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
        (written.filter(|()| after != After::Close).map(|()| response.into_socket()), sent)
    }

    /// Writes a head that is followed by nothing.
    pub(crate) async fn send_head(
        &self,
        mut stream: TcpStream,
        head: Vec<u8>,
        status: StatusCode,
        keep_alive: bool,
    ) -> Option<TcpStream> {
        let written = write_all(&mut stream, Bytes::from(head)).await;
        self.log(status, 0);
        (written.is_ok() && keep_alive).then_some(stream)
    }

    /// Counts the request and logs it; `bytes` are those of the body.
    pub(crate) fn log(&self, status: StatusCode, bytes: u64) {
        self.shared.note_request(status, bytes, || self.record());
    }
}

/// Writes all of a small response, within [`WRITE_TIME_MAX`].
pub(crate) async fn write_all(stream: &mut TcpStream, mut bytes: impl Buf + Send) -> std::io::Result<()> {
    timeout(WRITE_TIME_MAX, stream.write_all_buf(&mut bytes))
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}
