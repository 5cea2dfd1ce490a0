//! The listeners, and the settings of this front end.
//!
//! Promise: no change of settings breaks off a request. While the service drains, new connections are still answered (that streams are
//! refused, that `/ready` is no longer so). Not here: the drain and the end (`service`).

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use service::MediaService;
use service::connections::{Arrival, ConnectionPlace, ConnectionRefusal};
use service::guard::guarded;
use service::line_journal::LineJournal;
use service::resumable::ResumableUploads;
use tls::{Acceptor, HANDSHAKE_TIME_MAX, Handshake};
use tokio::net::{TcpListener, TcpStream};

use crate::client_stream::ClientStream;
use crate::config::HttpConfig;
use crate::connection::{self, RESERVE_TIME_MAX, drains};
use crate::dav_state::DavKeeper;
use crate::message::reply::{After, Reply, render};
use crate::shared::Shared;
use crate::{http2, problem};

/// Pause after an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Parts that the front end is made of.
pub struct ServerParts {
    /// Settings.
    pub config: HttpConfig,
    /// Bound and listening.
    pub listeners: Vec<HttpListener>,
    /// The service behind it.
    pub service: Arc<MediaService>,
    /// Keeps locks and dead properties of WebDAV.
    pub dav_journal: Arc<dyn LineJournal>,
    /// Keeps the uploads that clients continue.
    pub upload_journal: Arc<dyn LineJournal>,
}

/// The running front end.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<ListenAddress>,
}

/// An address that is listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The address.
    pub address: SocketAddr,
}

/// A bound address, and whether its connections are sealed.
#[derive(Debug)]
pub struct HttpListener {
    socket: StdListener,
    tls: Option<Acceptor>,
}

impl HttpListener {
    /// Binds a listening socket, with `SO_REUSEADDR` and a long backlog.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(address: SocketAddr, tls: Option<Acceptor>) -> io::Result<Self> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM.nonblocking(), Some(socket2::Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(4096)?;
        Ok(Self { socket: socket.into(), tls })
    }

    /// Its address.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(crate) fn accepting(self) -> io::Result<(TcpListener, Option<Acceptor>)> {
        Ok((TcpListener::from_std(self.socket)?, self.tls))
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, tls: self.tls.clone() })
    }
}

impl Server {
    /// Starts serving on the current tokio runtime.
    ///
    /// # Errors
    /// A listener cannot be used.
    pub fn start(parts: ServerParts) -> io::Result<Arc<Self>> {
        let dav = DavKeeper::new(parts.dav_journal)?;
        let (service, expire) = (Arc::clone(&parts.service), parts.config.uploads_expire);
        let uploads = ResumableUploads::start(service, parts.upload_journal, expire)?;
        let shared = Arc::new(Shared::new(parts.config, parts.service, (dav, uploads)));
        let mut addresses = Vec::with_capacity(parts.listeners.len());
        for listener in parts.listeners {
            let scheme = if listener.tls.is_some() { "https" } else { "http" };
            addresses.push(ListenAddress { scheme, address: listener.address()? });
            let (listener, tls) = listener.accepting()?;
            tokio::spawn(accept(Arc::clone(&shared), listener, tls));
        }
        shared.service.listening(&addresses.iter().map(|each| each.address).collect::<Vec<_>>());
        Ok(Arc::new(Self { shared, addresses }))
    }

    /// The addresses it listens on.
    #[must_use]
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// Puts other settings in force for requests that begin from now on. Running requests keep theirs.
    pub fn reload(&self, config: HttpConfig) {
        self.shared.configure(config);
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, tls: Option<Acceptor>) {
    loop {
        let accepted = listener.accept().await;
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors or memory: accepting at once again would only burn the processor.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // An IPv4 client of an IPv6 listener is shown and distinguished by its IPv4 address.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        shared.service.connection_stats.accepted.fetch_add(1, Ordering::Relaxed);
        let place = match place_for(&shared, peer) {
            Ok(place) => place,
            Err(reply) => {
                shared.service.connection_stats.refused.fetch_add(1, Ordering::Relaxed);
                // A client of TLS could not read it.
                if tls.is_none() {
                    turn_away(&stream, &reply);
                }
                continue;
            }
        };
        let (mut stream, mut place) = (stream, place);
        // In the order of their arrival, so that the oldest is the oldest.
        let (shared, handshake) = (Arc::clone(&shared), tls.as_ref().map(Acceptor::begin));
        tokio::spawn(async move {
            let service = Arc::clone(&shared.service);
            let served = async {
                let named = behind_proxy(&shared, &mut stream, peer, &mut place).await;
                let peer = match named {
                    Ok(peer) => peer,
                    Err(reply) => {
                        shared.service.connection_stats.refused.fetch_add(1, Ordering::Relaxed);
                        if handshake.is_none() {
                            turn_away(&stream, &reply);
                        }
                        return;
                    }
                };
                match sealed(&shared, stream, handshake, &place).await {
                    Some(ClientStream::Sealed(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                        Box::pin(http2::serve(shared, *stream, peer, &place)).await;
                    }
                    Some(stream) => connection::serve(shared, stream, peer, &place).await,
                    None => {}
                }
            };
            // A panic while a delivery is under way closes the connection, and is counted.
            let _ = guarded(&service, served).await;
        });
    }
}

/// The connection after its handshake, if it is to have one; none if that fails, or a drain begins meanwhile.
async fn sealed(
    shared: &Shared,
    stream: TcpStream,
    handshake: Option<Handshake>,
    place: &ConnectionPlace,
) -> Option<ClientStream> {
    let Some(handshake) = handshake else { return Some(stream.into()) };
    let (time_max, ends) = match place.arrival() {
        Arrival::Reserve => (RESERVE_TIME_MAX, true),
        arrival => (HANDSHAKE_TIME_MAX, arrival == Arrival::Serving),
    };
    let handshake = async { handshake.seal(stream, time_max).await.ok() };
    let sealed = tokio::select! {
        sealed = handshake => sealed,
        () = drains(shared), if ends => None,
    };
    if sealed.is_none() {
        shared.service.connection_stats.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }
    sealed.map(|stream| ClientStream::Sealed(Box::new(stream)))
}

/// The place of a connection that came: where all are taken, one of the reserve.
///
/// # Errors
/// The refusal to send.
fn place_for(shared: &Shared, peer: SocketAddr) -> Result<ConnectionPlace, Reply> {
    // Behind a proxy there are many clients.
    let is_proxy = shared.config().trusted_proxies.has(peer.ip());
    let client = (!is_proxy).then(|| peer.ip());
    match shared.service.connect(client) {
        Err(ConnectionRefusal::Full) => shared.service.connections.reserve().map_err(|_| problem::busy()),
        Err(refusal @ ConnectionRefusal::ClientFull(_)) => Err(problem::client_busy(&refusal.to_string())),
        Ok(place) => Ok(place),
    }
}

/// The client of a connection that came from `peer`, which a trusted proxy there may name; that one has its share of the places.
///
/// # Errors
/// The refusal to send.
async fn behind_proxy(
    shared: &Shared,
    stream: &mut TcpStream,
    peer: SocketAddr,
    place: &mut ConnectionPlace,
) -> Result<SocketAddr, Reply> {
    let client = shared.config().trusted_proxies.client(stream, peer).await;
    let client = client.map_err(Reply::malformed)?;
    if client != peer {
        let placed = shared.service.connect_for(place, client.ip());
        placed.map_err(|refusal| problem::client_busy(&refusal.to_string()))?;
    }
    Ok(client)
}

/// Refuses one connection too many: sends as much of the reply as the socket takes at once.
fn turn_away(stream: &TcpStream, reply: &Reply) {
    let _ = stream.try_write(&render(reply, After::Close, SystemTime::now()));
}
