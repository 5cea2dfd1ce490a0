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
use service::connections::{ConnectionPlace, ConnectionRefusal};
use service::log::{Log, LogWriter};
use tokio::net::{TcpListener, TcpStream};

use crate::config::HttpConfig;
use crate::connection;
use crate::guard::guarded;
use crate::message::reply::{After, Reply, render};
use crate::problem;
use crate::shared::Shared;

/// Period of the event log's count of lines that the access log left out.
const LEFT_OUT_PERIOD: Duration = Duration::from_secs(1);
/// Pause after an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Parts that the front end is made of.
pub struct ServerParts {
    /// Settings.
    pub config: HttpConfig,
    /// Bound and listening (see [`listen`]).
    pub listeners: Vec<StdListener>,
    /// The service behind it.
    pub service: Arc<MediaService>,
    /// Access log, combined format.
    pub access: Log,
}

/// The running front end.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
}

/// Binds a listening socket, with `SO_REUSEADDR` and a long backlog.
///
/// # Errors
/// The address cannot be bound.
pub fn listen(address: SocketAddr) -> io::Result<StdListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM.nonblocking(), Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

impl Server {
    /// Starts serving on the current tokio runtime.
    ///
    /// # Errors
    /// A listener cannot be used.
    pub fn start(parts: ServerParts) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::new(parts.config, parts.service, parts.access));
        let mut addresses = Vec::with_capacity(parts.listeners.len());
        for listener in parts.listeners {
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?);
            let listener = TcpListener::from_std(listener)?;
            tokio::spawn(accept(Arc::clone(&shared), listener));
        }
        tokio::spawn(tell_left_out(Arc::clone(&shared)));
        shared.service.listening(&addresses);
        Ok(Arc::new(Self { shared, addresses }))
    }

    /// The addresses it listens on.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Puts other settings in force for requests that begin from now on, and changes to another access log; none: it is not written.
    /// Running requests keep theirs.
    pub fn reload(&self, config: HttpConfig, access: Option<LogWriter>) {
        self.shared.access.reopen(access);
        self.shared.configure(config);
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let accepted = listener.accept().await;
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors or memory: accepting at once again would only burn the processor.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // An IPv4 client of an IPv6 listener is shown and distinguished by its IPv4 address.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        shared.stats.connections.fetch_add(1, Ordering::Relaxed);
        let place = match place_for(&shared, peer) {
            Ok(place) => place,
            Err(reply) => {
                shared.stats.connections_refused.fetch_add(1, Ordering::Relaxed);
                turn_away(&stream, &reply);
                continue;
            }
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let stats = Arc::clone(&shared);
            // A panic while a delivery is under way closes the connection, and is counted.
            let _ = guarded(&stats.stats, connection::serve(shared, stream, peer, &place)).await;
        });
    }
}

/// The place of a connection that came: where all are taken, one of the reserve.
///
/// # Errors
/// The refusal to send.
fn place_for(shared: &Shared, peer: SocketAddr) -> Result<ConnectionPlace, Reply> {
    match shared.service.connect(peer.ip()) {
        Err(ConnectionRefusal::Full) => shared.service.connections.reserve().map_err(|_| problem::busy()),
        Err(refusal @ ConnectionRefusal::ClientFull(_)) => Err(problem::client_busy(&refusal.to_string())),
        Ok(place) => Ok(place),
    }
}

/// Refuses one connection too many: sends as much of the reply as the socket takes at once.
fn turn_away(stream: &TcpStream, reply: &Reply) {
    let _ = stream.try_write(&render(reply, After::Close, SystemTime::now()));
}

/// Logs how many lines the access log left out.
async fn tell_left_out(shared: Arc<Shared>) {
    let mut period = tokio::time::interval(LEFT_OUT_PERIOD);
    loop {
        period.tick().await;
        shared.tell_left_out();
    }
}
