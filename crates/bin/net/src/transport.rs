//! Transports of bytes between nodes: TCP, TIPC or a Unix socket, behind one trait.
//!
//! Promise: every socket made here is a connected or listening byte stream in order; [`finish`] ends it so that the other
//! side reads the end and not an error.

use std::fmt::{self, Debug, Display};
use std::io;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use kernel::tipc::{self, TipcService};
use socket2::{Domain, SockAddr, Socket, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;
/// The longest path of a Unix socket, bytes (`sun_path` less the closing zero).
const PATH_BYTES_MAX: usize = 107;

/// The nodes that a transport can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Programs on this machine only.
    Machine,
    /// Others on the network.
    Network,
}

/// A place on a network that can be connected to, or listened at. `Display` gives the text that [`parse_address`] reads.
pub trait Transport: Display + Debug + Send + Sync {
    /// `tcp`, `tipc` or `unix`.
    fn name(&self) -> &'static str;

    /// A socket connected to it `within` that time; `window` sets both buffers, bytes, where it is given.
    ///
    /// # Errors
    /// The error that the kernel gave.
    fn connect(&self, within: Duration, window: Option<usize>) -> io::Result<Socket>;

    /// A socket that listens at it.
    ///
    /// # Errors
    /// The error that the kernel gave.
    fn listen(&self, window: Option<usize>) -> io::Result<Socket>;

    /// Whether each send leaves at once (`on`), or the kernel puts small ones together (Nagle's algorithm).
    ///
    /// # Errors
    /// The error that the kernel gave.
    fn set_no_delay(&self, socket: &Socket, on: bool) -> io::Result<()>;

    /// The nodes that can reach a listener at it.
    fn reach(&self) -> Reach;

    /// Removes the traces of listening.
    fn unlisten(&self) {}
}

/// The reason that text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No port.
    #[error("`{0}` has no port; write HOST:PORT, for example 192.0.2.1:5001, or unix:PATH, or tipc:TYPE:INSTANCE")]
    NoPort(String),
    /// The port is not one.
    #[error("`{0}`: the port is 1 to 65535 (0: any that is free, to listen), for example 192.0.2.1:5001")]
    Port(String),
    /// Not a service.
    #[error("`{0}` is no TIPC service; write tipc:TYPE:INSTANCE, TYPE 64 or more, for example tipc:18888:1")]
    Service(String),
    /// The path is empty or too long.
    #[error("`{0}`: the path of a Unix socket has 1 to 107 bytes; write for example unix:/run/isocast.sock")]
    Path(String),
}

/// The place that `text` names: `HOST:PORT`, `unix:PATH` or `tipc:TYPE:INSTANCE`.
///
/// # Errors
/// It is none of them.
pub fn parse_address(text: &str) -> Result<Box<dyn Transport>, AddressError> {
    let shown = || text.escape_debug().take(80).collect::<String>();
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() || path.len() > PATH_BYTES_MAX || path.contains('\0') {
            return Err(AddressError::Path(shown()));
        }
        return Ok(Box::new(Unix { path: PathBuf::from(path) }));
    }
    if let Some(service) = text.strip_prefix("tipc:") {
        let (kind, instance) = service.split_once(':').ok_or_else(|| AddressError::Service(shown()))?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| AddressError::Service(shown()));
        let service = TipcService { kind: number(kind)?, instance: number(instance)? };
        if service.kind < tipc::SERVICE_MIN {
            return Err(AddressError::Service(shown()));
        }
        return Ok(Box::new(Tipc { service }));
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(|| AddressError::NoPort(shown()))?;
    let whole = !host.is_empty() && (!host.contains(':') || host.starts_with('[') && host.ends_with(']'));
    if !whole {
        return Err(AddressError::NoPort(shown()));
    }
    let port: u16 = port.parse().map_err(|_| AddressError::Port(shown()))?;
    Ok(Box::new(Tcp { host: host.to_owned(), port }))
}

/// A TCP port.
#[derive(Debug, Clone)]
pub struct Tcp {
    host: String,
    port: u16,
}

/// A path in the file system. The socket's file is its owner's alone.
#[derive(Debug, Clone)]
pub struct Unix {
    path: PathBuf,
}

/// A TIPC service, offered by any node.
#[derive(Debug, Clone, Copy)]
pub struct Tipc {
    service: TipcService,
}

impl Display for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Display for Unix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix:{}", self.path.display())
    }
}

impl Display for Tipc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tipc:{}:{}", self.service.kind, self.service.instance)
    }
}

impl Tcp {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.trim_matches(['[', ']']), self.port).to_socket_addrs()?.collect())
    }
}

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn connect(&self, within: Duration, window: Option<usize>) -> io::Result<Socket> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.addresses()? {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            set_window(&socket, window)?;
            match socket.connect_timeout(&address.into(), within) {
                Ok(()) => {
                    // A connection without an acknowledgement for this long is broken, also while we only send.
                    socket.set_tcp_user_timeout(Some(SILENCE_MAX))?;
                    return Ok(socket);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn listen(&self, window: Option<usize>) -> io::Result<Socket> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.addresses()? {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            set_window(&socket, window)?;
            match socket.bind(&address.into()).and_then(|()| socket.listen(BACKLOG)) {
                Ok(()) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn set_no_delay(&self, socket: &Socket, on: bool) -> io::Result<()> {
        socket.set_tcp_nodelay(on)
    }

    /// A name that resolves to nothing else than this machine is this machine.
    fn reach(&self) -> Reach {
        match self.addresses() {
            Ok(addresses) if addresses.iter().all(|address| address.ip().to_canonical().is_loopback()) => {
                Reach::Machine
            }
            _ => Reach::Network,
        }
    }
}

impl Transport for Unix {
    fn name(&self) -> &'static str {
        "unix"
    }

    fn connect(&self, _within: Duration, window: Option<usize>) -> io::Result<Socket> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        set_window(&socket, window)?;
        socket.connect(&SockAddr::unix(&self.path)?)?;
        Ok(socket)
    }

    fn listen(&self, window: Option<usize>) -> io::Result<Socket> {
        let address = SockAddr::unix(&self.path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        set_window(&socket, window)?;
        // A file without a listener is left from a killed process; a listener that answers belongs to another process.
        if Socket::new(Domain::UNIX, Type::STREAM, None)?.connect(&address).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| is_socket(&found)) {
            std::fs::remove_file(&self.path)?;
        }
        socket.bind(&address)?;
        // No client can connect before `listen`, so none slips in before the file is the owner's alone.
        rustix::fs::chmod(&self.path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    }

    fn set_no_delay(&self, _socket: &Socket, _on: bool) -> io::Result<()> {
        Ok(())
    }

    fn reach(&self) -> Reach {
        Reach::Machine
    }

    fn unlisten(&self) {
        // Another process may have removed it already.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Transport for Tipc {
    fn name(&self) -> &'static str {
        "tipc"
    }

    fn connect(&self, within: Duration, window: Option<usize>) -> io::Result<Socket> {
        let socket = Socket::from(tipc::connect(self.service, within)?);
        set_window(&socket, window)?;
        Ok(socket)
    }

    fn listen(&self, window: Option<usize>) -> io::Result<Socket> {
        let socket = Socket::from(tipc::listen(self.service, BACKLOG)?);
        set_window(&socket, window)?;
        Ok(socket)
    }

    fn set_no_delay(&self, socket: &Socket, on: bool) -> io::Result<()> {
        tipc::set_no_delay(socket, on)
    }

    fn reach(&self) -> Reach {
        Reach::Network
    }
}

/// A connection is broken when nothing has been heard of the other side for this long.
pub const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Ends a connection in order. TIPC knows no end of one direction, and a socket that is only closed reads as an error.
pub fn finish(socket: &Socket) {
    // A process that has ended already needs nothing.
    let _ = socket.shutdown(Shutdown::Write).or_else(|_| socket.shutdown(Shutdown::Both));
}

/// Sets both buffers of `socket` to `window` bytes, where it is given; the kernel doubles it for its own accounts.
///
/// # Errors
/// The error that the kernel gave.
pub fn set_window(socket: &Socket, window: Option<usize>) -> io::Result<()> {
    let Some(bytes) = window else { return Ok(()) };
    socket.set_recv_buffer_size(bytes)?;
    socket.set_send_buffer_size(bytes)
}

fn is_socket(found: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&found.file_type())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_printed_as_they_are_written() {
        for text in ["127.0.0.1:5001", "[::1]:5001", "localhost:1", "unix:/run/x.sock", "tipc:18888:7"] {
            assert_eq!(parse_address(text).expect(text).to_string(), text);
        }
    }

    #[test]
    fn a_malformed_address_gets_a_hint() {
        for text in ["", "host", "::1", "host:65536", "host:x", "unix:", "tipc:63:1", "tipc:99", "tipc:99:-1"] {
            let said = parse_address(text).expect_err(text).to_string();
            assert!(said.contains("for example") || said.contains("write"), "{said}");
        }
        assert!(parse_address(&format!("unix:/{}", "x".repeat(107))).is_err());
    }

    #[test]
    fn only_addresses_of_this_machine_need_no_token() {
        let reach = |text: &str| parse_address(text).expect(text).reach();
        for text in ["127.0.0.1:1", "[::1]:1", "unix:/x"] {
            assert_eq!(reach(text), Reach::Machine, "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "tipc:18888:1"] {
            assert_eq!(reach(text), Reach::Network, "{text}");
        }
    }

    #[test]
    fn a_unix_socket_is_taken_over_from_the_dead_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = parse_address(&format!("unix:{}/s", folder.path().display())).expect("an address");
        let first = place.listen(None).expect("no program listens there");
        assert_eq!(place.listen(None).expect_err("taken").kind(), io::ErrorKind::AddrInUse);
        drop(first);
        place.listen(None).expect("the file is left, nobody listens");
        std::fs::write(folder.path().join("f"), "mine").expect("a file");
        let file = parse_address(&format!("unix:{}/f", folder.path().display())).expect("an address");
        file.listen(None).expect_err("it is somebody's file");
        assert_eq!(std::fs::read(folder.path().join("f")).expect("still there"), b"mine");
    }
}
