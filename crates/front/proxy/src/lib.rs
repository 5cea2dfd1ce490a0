//! Proxies that are trusted to name their clients, and the header by which one does so before a connection's first byte: the PROXY
//! protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt).
//!
//! Promise: a header is read to its last byte and no further, is bounded in size and time, and counts from trusted proxies only. Its form is
//! never guessed: where headers are set, a connection of a trusted proxy without one is refused, for a client could send its own. Not here:
//! fields of requests (`http::forwarded`), places of connections (`service::connections`).

mod header;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use tokio::io::AsyncRead;
use tokio::time::timeout;

pub use header::ProxyHeaderError;

/// For a proxy to send its header: it has it when it connects.
const HEADER_TIME_MAX: Duration = Duration::from_secs(5);

/// The proxies that are trusted to name their clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// Their networks.
    pub networks: Vec<IpNet>,
    /// Their connections begin with a PROXY header.
    pub send_header: bool,
}

impl TrustedProxies {
    /// True if the address is one of theirs.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// The client of a connection that came from `peer`: that which the header names, or `peer` itself.
    ///
    /// # Errors
    /// There is no header where one is set.
    pub async fn client(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
        peer: SocketAddr,
    ) -> Result<SocketAddr, ProxyHeaderError> {
        if !self.send_header || !self.has(peer.ip()) {
            return Ok(peer);
        }
        let named = timeout(HEADER_TIME_MAX, header::read(stream)).await.map_err(|_| ProxyHeaderError::TimedOut)??;
        Ok(named.map_or(peer, |client| SocketAddr::new(client.ip().to_canonical(), client.port())))
    }
}
