//! The socket of a connection of the client: plain, or sealed by TLS.
//!
//! Promise: never blocks. Unencrypted bytes are dropped without a copy (`MSG_TRUNC`, tcp(7)); TLS records are decrypted first,
//! as a player would do. The server must have the certificate that the benchmark made. Not here: requests and answers
//! (`connection`).

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with, sockopt,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Error, RootCertStore};

/// The name in the certificate of a server that a benchmark starts.
pub(crate) const CERTIFIED_NAME: &str = "localhost";

/// An address with TLS, and the TLS settings for it.
#[derive(Debug, Clone)]
pub(crate) struct SealedAddress {
    pub(crate) address: SocketAddr,
    config: Arc<ClientConfig>,
}

impl SealedAddress {
    /// Settings for a server at this address with this certificate.
    ///
    /// # Errors
    /// rustls refuses the protocol versions or the certificate.
    pub(crate) fn new(address: SocketAddr, certificate: CertificateDer<'static>) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
        Ok(Self { address, config: Arc::new(builder.with_no_client_auth()) })
    }
}

/// A socket, perhaps sealed.
#[derive(Debug)]
pub(crate) struct ClientSocket {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

impl ClientSocket {
    /// Begins to connect to `address`, or by TLS to `sealed`, with a receive buffer of `buffer_bytes` (as far as the kernel permits).
    ///
    /// # Errors
    /// No socket, or the address cannot be reached.
    pub(crate) fn open(
        address: SocketAddr,
        sealed: Option<&SealedAddress>,
        buffer_bytes: usize,
    ) -> Result<Self, Errno> {
        let address = sealed.map_or(address, |sealed| sealed.address);
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        // The buffer holds a whole burst of the sender, so that the reader does not pace the sender. Without the privilege to
        // set a large buffer, the kernel's own tuning is better than the size that it would permit.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, buffer_bytes);
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(e) => return Err(e),
        }
        let tls = sealed.map(|sealed| {
            let name = ServerName::try_from(CERTIFIED_NAME).map_err(|_| Errno::PROTO)?;
            ClientConnection::new(Arc::clone(&sealed.config), name).map(Box::new).map_err(|_| Errno::PROTO)
        });
        Ok(Self { socket, tls: tls.transpose()? })
    }

    /// The descriptor, for epoll.
    pub(crate) const fn descriptor(&self) -> &OwnedFd {
        &self.socket
    }

    /// True if a send waits for the server's part of a handshake.
    pub(crate) fn awaits_handshake(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking() && !tls.wants_write())
    }

    /// Sends some of `bytes`.
    ///
    /// # Errors
    /// As send(2); [`Errno::PROTO`] if TLS fails.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else {
            return send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        };
        while tls.is_handshaking() {
            flush(tls, &self.socket)?;
            if tls.is_handshaking() && receive(tls, &self.socket)? == 0 {
                return Err(Errno::CONNRESET);
            }
        }
        // A request fits into the send buffer of a new socket.
        let sent = tls.writer().write(bytes).map_err(|_| Errno::PROTO)?;
        flush(tls, &self.socket)?;
        Ok(sent)
    }

    /// Reads received bytes; zero: the server has closed the connection.
    ///
    /// # Errors
    /// As recv(2); [`Errno::PROTO`] if TLS fails.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else {
            return recv(&self.socket, into, RecvFlags::DONTWAIT).map(|(bytes, _)| bytes);
        };
        loop {
            match tls.reader().read(into) {
                Ok(bytes) => return Ok(bytes),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Ok(0),
            }
            receive(tls, &self.socket)?;
        }
    }

    /// Drops received bytes, at most the length of `scratch`; returns their number.
    ///
    /// # Errors
    /// As [`Self::receive`], if no byte was received.
    pub(crate) fn drop_some(&mut self, scratch: &mut [u8]) -> Result<usize, Errno> {
        if self.tls.is_none() {
            return recv(&self.socket, scratch, RecvFlags::DONTWAIT | RecvFlags::TRUNC).map(|(_, bytes)| bytes);
        }
        let mut dropped = 0;
        while dropped < scratch.len() {
            match self.receive(&mut scratch[dropped..]) {
                Ok(0) => break,
                Ok(bytes) => dropped += bytes,
                Err(_) if dropped > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(dropped)
    }
}

/// Reads TLS records from the socket; zero: the server has closed the connection.
fn receive(tls: &mut ClientConnection, socket: &OwnedFd) -> Result<usize, Errno> {
    let bytes = tls.read_tls(&mut Raw(socket)).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))?;
    tls.process_new_packets().map_err(|_| Errno::PROTO)?;
    Ok(bytes)
}

fn flush(tls: &mut ClientConnection, socket: &OwnedFd) -> Result<(), Errno> {
    while tls.wants_write() {
        tls.write_tls(&mut Raw(socket)).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))?;
    }
    Ok(())
}

/// The socket below TLS.
struct Raw<'a>(&'a OwnedFd);

impl Read for Raw<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, into, RecvFlags::DONTWAIT)?.0)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    /// A server of one connection, which answers one request with these bytes and closes.
    fn answering(answer: Vec<u8>) -> SealedAddress {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let made = rcgen::generate_simple_self_signed(vec![CERTIFIED_NAME.to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let certificate = made.cert.der().clone();
        let config = Arc::new(builder.with_single_cert(vec![certificate.clone()], key).unwrap());
        thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let mut stream: StreamOwned<_, TcpStream> =
                StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
            let mut request = [0; 64];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream.write_all(&answer).unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        });
        SealedAddress::new(address, certificate).unwrap()
    }

    fn awaited<T>(mut step: impl FnMut() -> Result<T, Errno>) -> T {
        loop {
            match step() {
                Ok(done) => return done,
                Err(Errno::AGAIN | Errno::NOTCONN) => thread::yield_now(),
                Err(e) => panic!("{e}"),
            }
        }
    }

    #[test]
    fn a_sealed_answer_is_read_and_dropped_to_its_end() {
        let answer: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let sealed = answering(answer.clone());
        let mut socket = ClientSocket::open(sealed.address, Some(&sealed), 1 << 16).unwrap();
        assert_eq!(awaited(|| socket.send(b"GET /")), 5);
        let mut first = [0; 3];
        let read = awaited(|| socket.receive(&mut first));
        assert_eq!(first[..read], answer[..read]);
        let (mut bytes, mut scratch) = (read, vec![0; 10_000]);
        loop {
            match awaited(|| socket.drop_some(&mut scratch)) {
                0 => break,
                dropped => bytes += dropped,
            }
        }
        assert_eq!(bytes, answer.len());
    }
}
