//! The listeners.
//!
//! Promise: control connections have places among those of all front ends, and a client has its share of them. Not here: the drain and the
//! end (`service`).

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use service::MediaService;
use service::guard::guarded;
use socket2::SockRef;
use tls::Acceptor;
use tokio::net::{TcpListener, TcpStream};

use crate::session;
use crate::shared::{FtpSettings, FtpShared};

/// Pause after an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Parts that the front end is made of.
pub struct FtpParts {
    /// Settings.
    pub settings: FtpSettings,
    /// Bound and listening.
    pub listeners: Vec<FtpListener>,
    /// Seals connections; none: there is no TLS.
    pub acceptor: Option<Acceptor>,
    /// The service behind it.
    pub service: Arc<MediaService>,
}

/// A bound address.
#[derive(Debug)]
pub struct FtpListener {
    socket: StdListener,
    is_implicit: bool,
}

impl FtpListener {
    /// Binds a listening socket; `is_implicit`: its connections begin with TLS.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(address: SocketAddr, is_implicit: bool) -> io::Result<Self> {
        let socket = StdListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, is_implicit })
    }
}

/// The running front end.
pub struct FtpServer {
    shared: Arc<FtpShared>,
    addresses: Vec<(&'static str, SocketAddr)>,
}

impl FtpServer {
    /// Starts serving on the current tokio runtime.
    ///
    /// # Errors
    /// A listener cannot be used.
    pub fn start(parts: FtpParts) -> io::Result<Self> {
        let shared = Arc::new(FtpShared::new(parts.settings, parts.service, parts.acceptor));
        let mut addresses = Vec::with_capacity(parts.listeners.len());
        for FtpListener { socket, is_implicit } in parts.listeners {
            addresses.push((if is_implicit { "ftps" } else { "ftp" }, socket.local_addr()?));
            tokio::spawn(accept(Arc::clone(&shared), TcpListener::from_std(socket)?, is_implicit));
        }
        Ok(Self { shared, addresses })
    }

    /// The addresses it listens on, with their schemes.
    #[must_use]
    pub fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.addresses
    }

    /// Puts other settings in force for commands that come from now on.
    pub fn reload(&self, settings: FtpSettings) {
        self.shared.configure(settings);
    }
}

async fn accept(shared: Arc<FtpShared>, listener: TcpListener, is_implicit: bool) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of descriptors or memory: accepting at once again would only burn the processor.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // An IPv4 client of an IPv6 listener is distinguished by its IPv4 address.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let is_proxy = shared.settings().trusted_proxies.has(peer.ip());
        shared.service.connection_stats.accepted.fetch_add(1, Ordering::Relaxed);
        let mut place = match shared.service.connect((!is_proxy).then(|| peer.ip())) {
            Ok(place) => place,
            Err(refusal) => {
                turn_away(&shared, &stream, &refusal, is_implicit);
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        // The urgent byte of `ABOR` belongs to a code of Telnet (RFC 854), which cannot be recognised without it.
        let _ = SockRef::from(&stream).set_out_of_band_inline(true);
        let (shared, mut stream) = (Arc::clone(&shared), stream);
        tokio::spawn(async move {
            let service = Arc::clone(&shared.service);
            let served = async {
                let named = shared.settings().trusted_proxies.client(&mut stream, peer).await;
                match named {
                    Ok(client) if client == peer => {
                        session::serve(shared, stream, (client, peer.ip()), is_implicit).await
                    }
                    Ok(client) => match shared.service.connect_for(&mut place, client.ip()) {
                        Ok(()) => session::serve(shared, stream, (client, peer.ip()), is_implicit).await,
                        Err(refusal) => turn_away(&shared, &stream, &refusal, is_implicit),
                    },
                    Err(error) => turn_away(&shared, &stream, &error, is_implicit),
                }
            };
            let _ = guarded(&service, served).await;
            drop(place);
        });
    }
}

/// Refuses a connection: sends as much of the reply as the socket takes at once. A client of TLS could not read it.
fn turn_away(shared: &FtpShared, stream: &TcpStream, refusal: &impl Display, is_implicit: bool) {
    shared.service.connection_stats.refused.fetch_add(1, Ordering::Relaxed);
    if !is_implicit {
        let _ = stream.try_write(format!("421 {refusal}\r\n").as_bytes());
    }
}
