//! The header of the PROXY protocol.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest header of version 1, with its line end (proxy-protocol.txt, 2.1).
const LINE_BYTES_MAX: usize = 107;
/// The first bytes of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Addresses and further fields of version 2, at most: the protocol wants them to fit a first segment.
const FIELDS_BYTES_MAX: usize = 2048;

/// The reason why a connection has no usable header.
#[derive(Debug, thiserror::Error)]
pub enum ProxyHeaderError {
    /// Something else came.
    #[error("the connection of a trusted proxy begins with no PROXY header, as `access.proxy_protocol` has it")]
    Missing,
    /// It says nothing that the protocol knows.
    #[error("the PROXY header of a trusted proxy cannot be read")]
    Malformed,
    /// It did not come in time.
    #[error("the PROXY header of a trusted proxy did not come in time")]
    TimedOut,
    /// The connection broke off.
    #[error("the connection broke off within its PROXY header: {0}")]
    BrokenOff(#[from] io::Error),
}

/// Reads a header of either version; none: the proxy speaks for itself, or for a client without an IP address.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    let mut first = [0; SIGNATURE.len()];
    stream.read_exact(&mut first).await?;
    if first == SIGNATURE {
        let mut head = [0; 4];
        stream.read_exact(&mut head).await?;
        let [version_and_command, family, high, low] = head;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > FIELDS_BYTES_MAX {
            return Err(ProxyHeaderError::Malformed);
        }
        let mut fields = vec![0; length];
        stream.read_exact(&mut fields).await?;
        return of_fields(version_and_command, family, &fields).ok_or(ProxyHeaderError::Malformed);
    }
    if !first.starts_with(b"PROXY ") {
        return Err(ProxyHeaderError::Missing);
    }
    let mut line = first.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() == LINE_BYTES_MAX {
            return Err(ProxyHeaderError::Malformed);
        }
        line.push(stream.read_u8().await?);
    }
    of_line(&line).ok_or(ProxyHeaderError::Malformed)
}

/// The client in a line of version 1; the outer none: it is no such line.
fn of_line(line: &[u8]) -> Option<Option<SocketAddr>> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix("PROXY ")?.strip_suffix("\r\n")?;
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Some(None);
    }
    let fields: Vec<&str> = line.split(' ').collect();
    let [family, source, destination, source_port, destination_port] = fields[..] else { return None };
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse().ok().map(IpAddr::V4),
            "TCP6" => text.parse().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    address(destination)?;
    destination_port.parse::<u16>().ok()?;
    Some(Some(SocketAddr::new(address(source)?, source_port.parse().ok()?)))
}

/// The client in the fields of version 2, which begin with its address; the outer none: they are none of that version.
fn of_fields(version_and_command: u8, family: u8, fields: &[u8]) -> Option<Option<SocketAddr>> {
    match version_and_command {
        // A check of the proxy's own.
        0x20 => return Some(None),
        0x21 => {}
        _ => return None,
    }
    let (address, ports) = match family {
        0x11 => {
            let (addresses, ports) = fields.get(..12)?.split_at(8);
            (IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(&addresses[..4]).ok()?)), ports)
        }
        0x21 => {
            let (addresses, ports) = fields.get(..36)?.split_at(32);
            (IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(&addresses[..16]).ok()?)), ports)
        }
        // No IP address, or a socket of the proxy's own machine.
        0x00 | 0x31 => return Some(None),
        _ => return None,
    };
    Some(Some(SocketAddr::new(address, u16::from_be_bytes([ports[0], ports[1]]))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrustedProxies;

    /// The client and the bytes behind the header, or the failure.
    async fn read_all(bytes: &[u8]) -> Result<(Option<String>, Vec<u8>), String> {
        let mut stream = bytes;
        let client = read(&mut stream).await.map_err(|error| error.to_string())?;
        Ok((client.map(|client| client.to_string()), stream.to_vec()))
    }

    fn version_2(command: u8, family: u8, fields: &[u8]) -> Vec<u8> {
        let length = u16::try_from(fields.len()).expect("short").to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, fields, b"GET /"].concat()
    }

    #[tokio::test]
    async fn the_client_of_either_version_is_read_and_nothing_behind_it() {
        let v4 = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x67, 0, 80];
        let v6 = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 16], &[0, 7, 0, 80], b"\x04\0\x01x"].concat();
        for (bytes, client) in [
            (b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\nGET /".to_vec(), Some("192.0.2.1:4711")),
            (b"PROXY TCP6 2001:db8::1 ::1 4711 80\r\nGET /".to_vec(), Some("[2001:db8::1]:4711")),
            (b"PROXY UNKNOWN\r\nGET /".to_vec(), None),
            (b"PROXY UNKNOWN ff:ff::1 ff:ff::2 1 2\r\nGET /".to_vec(), None),
            (version_2(0x21, 0x11, &v4), Some("192.0.2.1:4711")),
            (version_2(0x21, 0x21, &v6), Some("[::1]:7")),
            (version_2(0x20, 0x00, b""), None),
            (version_2(0x21, 0x00, b"any"), None),
        ] {
            let read = read_all(&bytes).await;
            assert_eq!(read, Ok((client.map(str::to_owned), b"GET /".to_vec())), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[tokio::test]
    async fn anything_else_is_refused() {
        let long = [b"PROXY TCP4 ".to_vec(), vec![b'1'; 200], b"\r\n".to_vec()].concat();
        let huge = [&SIGNATURE[..], &[0x21, 0x11, 0xff, 0xff]].concat();
        for bytes in [
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n".to_vec(),
            b"PROXY TCP4 2001:db8::1 ::1 4711 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 99999 80\r\n".to_vec(),
            b"PROXY TCP5 192.0.2.1 10.0.0.1 4711 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1  10.0.0.1 4711 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1".to_vec(),
            long,
            huge,
            version_2(0x31, 0x11, &[0; 12]),
            version_2(0x22, 0x11, &[0; 12]),
            version_2(0x21, 0x12, &[0; 12]),
            version_2(0x21, 0x11, &[0; 11]),
            version_2(0x21, 0x21, &[0; 35]),
        ] {
            assert!(read_all(&bytes).await.is_err(), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[tokio::test]
    async fn a_header_counts_from_trusted_proxies_only() {
        let peers = ["10.1.1.1:9", "198.51.100.1:9"].map(|peer| peer.parse::<SocketAddr>().expect("an address"));
        let networks = vec!["10.0.0.0/8".parse().expect("a network")];
        for (send_header, peer, is_named) in [(true, peers[0], true), (true, peers[1], false), (false, peers[0], false)]
        {
            let mut stream = &b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n"[..];
            let proxies = TrustedProxies { networks: networks.clone(), send_header };
            let client = proxies.client(&mut stream, peer).await.expect("a client").to_string();
            assert_eq!((client == "192.0.2.1:4711", stream.is_empty()), (is_named, is_named), "{peer}");
        }
    }
}
