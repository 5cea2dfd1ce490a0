//! Data connections: a passive port and the client that comes to it, or an active connection to the client; sealed where that was agreed.
//!
//! Promise: the other end is the client of the control connection: any other at a passive port is turned away, and a third
//! party is never connected to (RFC 2577 §3, §4). A port is open until its client has come, and no longer than [`CONNECT_TIME_MAX`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use tls::{Acceptor, HANDSHAKE_TIME_MAX};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::control::{Duplex, FtpReply};

/// For the client to make its data connection, or to take one.
pub(crate) const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);
/// Clients that wait at a passive port: one is meant.
const BACKLOG: u32 = 4;

/// The way in which the next data connection is made.
pub(crate) enum DataWay {
    Passive(TcpListener),
    Active(SocketAddr),
}

/// Opens a passive port of the range, at the address that the client reached; `chance` chooses it.
///
/// # Errors
/// The last port's, if none is free.
pub(crate) fn listen(address: IpAddr, ports: &RangeInclusive<u16>, chance: u64) -> io::Result<TcpListener> {
    let (first, count) = (u64::from(*ports.start()), u64::from(*ports.end() - *ports.start()) + 1);
    let mut failure = io::Error::from(io::ErrorKind::AddrInUse);
    for step in 0..count {
        let port = u16::try_from(first + (chance % count + step) % count).expect("a port of the range");
        match listen_at(SocketAddr::new(address, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port that a closed connection still holds may be used.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl DataWay {
    /// The data connection with `client`, sealed by `seal`.
    ///
    /// # Errors
    /// The reply to a client that made none.
    pub(crate) async fn connect(self, client: IpAddr, seal: Option<&Acceptor>) -> Result<Box<dyn Duplex>, FtpReply> {
        let none = |reason: &str| FtpReply::new(425, format!("there is no data connection: {reason}"));
        let connected = async {
            match self {
                Self::Passive(listener) => accept(&listener, client).await,
                Self::Active(address) => TcpStream::connect(address).await,
            }
        };
        let stream = timeout(CONNECT_TIME_MAX, connected).await.map_err(|_| none("the client made none in time"))?;
        let stream = stream.map_err(|error| none(&error.to_string()))?;
        match seal {
            None => Ok(Box::new(stream)),
            Some(acceptor) => {
                let sealed = acceptor.begin().seal(stream, HANDSHAKE_TIME_MAX).await;
                Ok(Box::new(sealed.map_err(|error| none(&error.to_string()))?))
            }
        }
    }
}

/// The first connection that comes from `client`; others are closed.
async fn accept(listener: &TcpListener, client: IpAddr) -> io::Result<TcpStream> {
    loop {
        let (stream, peer) = listener.accept().await?;
        if peer.ip().to_canonical() == client {
            return Ok(stream);
        }
    }
}
