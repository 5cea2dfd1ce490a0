//! One request with what answers it needs: its head, the two addresses, what all connections share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http_types::{Method, StatusCode};
use service::delivery::Client;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::access_log::Access;
use crate::message::head::RequestHead;
use crate::message::reply::{After, Reply, render};
use crate::shared::Shared;

/// One request.
pub(crate) struct Exchange {
    pub(crate) shared: Arc<Shared>,
    pub(crate) head: RequestHead,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

impl Exchange {
    pub(crate) fn client(&self) -> Client {
        Client { address: self.peer.ip(), local: self.local.ip() }
    }

    /// Writes a complete reply and logs it. Returns the socket if the connection goes on.
    pub(crate) async fn answer(&self, stream: TcpStream, reply: &Reply) -> Option<TcpStream> {
        self.answer_as(stream, reply, None).await
    }

    /// As [`Exchange::answer`]; the log names the user.
    pub(crate) async fn answer_as(
        &self,
        mut stream: TcpStream,
        reply: &Reply,
        user: Option<String>,
    ) -> Option<TcpStream> {
        let bytes = render(reply, self.head.method == Method::HEAD, After::of(&self.head), SystemTime::now());
        let written = write_all(&self.shared, &mut stream, &bytes).await;
        let access = Access { user, ..Access::of(self.peer.ip(), &self.head) };
        self.shared.note_request(&access, reply.status, reply.body_bytes(&self.head.method));
        (written.is_ok() && self.head.keep_alive).then_some(stream)
    }

    /// Writes a head that is followed by nothing.
    pub(crate) async fn send_head(
        &self,
        mut stream: TcpStream,
        head: &[u8],
        status: StatusCode,
        keep_alive: bool,
    ) -> Option<TcpStream> {
        let written = write_all(&self.shared, &mut stream, head).await;
        self.log(status, 0);
        (written.is_ok() && keep_alive).then_some(stream)
    }

    /// Counts the request and logs it; `bytes` are those of the body.
    pub(crate) fn log(&self, status: StatusCode, bytes: u64) {
        self.shared.note_request(&Access::of(self.peer.ip(), &self.head), status, bytes);
    }
}

/// Writes all of a small response, within the configured time.
pub(crate) async fn write_all(shared: &Shared, stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    timeout(shared.config().write_time_max, stream.write_all(bytes))
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}
