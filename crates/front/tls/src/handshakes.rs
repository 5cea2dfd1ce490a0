//! Handshakes: from an accepted connection to a sealed connection, or to its end.
//!
//! Promise: each ends within its time. A bounded number may be under way at once; the next one takes the place of the oldest,
//! so that clients that begin and never finish cannot keep out others, which need a few round trips. Not here: the certificates.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, ServerConfig, crypto::ring::Ticketer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::certificates::Certificates;
use crate::challenges::PROOF_PROTOCOL;

/// From the beginning of a connection to its first sealed byte.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(30);

const AES_128: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// A sealed connection.
pub type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

/// Why a connection is not sealed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The client sent something else, has no version or name in common with this side, or is gone.
    #[error("the handshake failed: {0}")]
    Failed(#[from] io::Error),
    /// Too slow.
    #[error("the handshake took too long")]
    TimedOut,
    /// An authority has seen a proof, and wants nothing else.
    #[error("the handshake was a proof for an authority")]
    Proof,
    /// Newer ones took its place.
    #[error("the handshake was the oldest of too many")]
    Replaced,
}

/// Makes sealed connections of accepted ones.
#[derive(Clone)]
pub struct Acceptor {
    acceptor: TlsAcceptor,
    under_way: Arc<Handshakes>,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// An acceptor with these certificates, for the protocols `alpn` in this order of preference, and at most `handshakes_max` at once.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(certificates: Arc<Certificates>, alpn: &[&str], handshakes_max: usize) -> Result<Self, rustls::Error> {
        let mut provider = ring::default_provider();
        // The order of the choice: of ciphers that are all strong, the cheapest for each byte first.
        provider.cipher_suites.sort_by_key(|suite| !AES_128.contains(&suite.suite()));
        let builder = ServerConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(&[&TLS13, &TLS12])?.with_no_client_auth();
        let mut config = builder.with_cert_resolver(certificates);
        config.ignore_client_order = true;
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        if !alpn.is_empty() {
            config.alpn_protocols.push(PROOF_PROTOCOL.to_vec());
        }
        config.ticketer = Ticketer::new()?;
        let under_way = Arc::new(Handshakes { table: Mutex::default(), most: handshakes_max.max(1) });
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), under_way })
    }

    /// The same for connections of which a client may read nothing, as uploads of FTP: with a ticket of TLS 1.3 that lies unread the kernel
    /// resets the connection when the client closes it (RFC 2525 §2.17), and the end of the upload is lost. Their sessions resume by tickets of
    /// others.
    #[must_use]
    pub fn without_tickets(&self) -> Self {
        let mut config = ServerConfig::clone(self.acceptor.config());
        config.send_tls13_tickets = 0;
        Self { acceptor: TlsAcceptor::from(Arc::new(config)), under_way: Arc::clone(&self.under_way) }
    }

    /// A place for a handshake: of the oldest one, if all are taken.
    #[must_use]
    pub fn begin(&self) -> Handshake {
        let (place, replaced) = self.under_way.begin();
        Handshake { acceptor: self.acceptor.clone(), _place: place, replaced }
    }
}

/// A handshake that has a place.
pub struct Handshake {
    acceptor: TlsAcceptor,
    _place: Place,
    replaced: oneshot::Receiver<()>,
}

impl Handshake {
    /// Makes a sealed connection of an accepted one, within `time_max`.
    ///
    /// # Errors
    /// Why it is not sealed; the connection is closed.
    pub async fn seal(self, stream: TcpStream, time_max: Duration) -> Result<TlsStream, HandshakeError> {
        tokio::select! {
            done = timeout(time_max, self.acceptor.accept(stream)) => {
                let stream = done.map_err(|_| HandshakeError::TimedOut)??;
                match stream.get_ref().1.alpn_protocol() {
                    Some(PROOF_PROTOCOL) => Err(HandshakeError::Proof),
                    _ => Ok(stream),
                }
            }
            _ = self.replaced => Err(HandshakeError::Replaced),
        }
    }
}

/// Handshakes under way, the oldest first.
#[derive(Debug)]
struct Handshakes {
    table: Mutex<Table>,
    most: usize,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// Ends the handshake when it is dropped.
    begun: BTreeMap<u64, oneshot::Sender<()>>,
}

/// The place of a handshake.
struct Place {
    under_way: Arc<Handshakes>,
    number: u64,
}

impl Handshakes {
    /// A place, of the oldest if all are taken; the other end becomes ready when a newer one takes it.
    fn begin(self: &Arc<Self>) -> (Place, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let mut table = self.table();
        if table.begun.len() >= self.most {
            table.begun.pop_first();
        }
        let number = table.next;
        table.next += 1;
        table.begun.insert(number, end);
        (Place { under_way: Arc::clone(self), number }, ended)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.under_way.table().begun.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_handshake_makes_room() {
        let under_way = Arc::new(Handshakes { table: Mutex::default(), most: 2 });
        let (first, mut first_ended) = under_way.begin();
        let (second, mut second_ended) = under_way.begin();
        drop(second);
        let (_third, _) = under_way.begin();
        assert!(second_ended.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        assert_eq!(first_ended.try_recv(), Err(oneshot::error::TryRecvError::Empty), "it has its place");
        let (_fourth, _) = under_way.begin();
        assert_eq!(first_ended.try_recv(), Err(oneshot::error::TryRecvError::Closed), "it lost its place");
        drop(first);
        assert_eq!(under_way.table().begun.len(), 2, "a place that was lost is not given back twice");
    }
}
