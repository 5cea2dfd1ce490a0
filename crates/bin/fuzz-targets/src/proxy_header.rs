//! The PROXY header before a connection's first byte: any bytes give a client or a refusal; a header is read to its last byte
//! and no further, and only from a trusted proxy.

use std::net::SocketAddr;

use proxy::TrustedProxies;
use tokio::runtime::Builder;

/// The client that a proxy's bytes name, and the number of bytes behind the header; `None` if the header is refused.
fn read(proxies: &TrustedProxies, mut bytes: &[u8]) -> Option<(SocketAddr, usize)> {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let peer = SocketAddr::from(([127, 0, 0, 9], 80));
    let client = runtime.block_on(proxies.client(&mut bytes, peer)).ok()?;
    Some((client, bytes.len()))
}

/// Fuzz target: reads the header as from a trusted proxy, and as from an address without trust.
pub fn target(bytes: &[u8]) {
    let networks = vec!["127.0.0.0/8".parse().expect("a network")];
    let trusted = TrustedProxies { networks, send_header: true };
    if let Some((client, left)) = read(&trusted, bytes) {
        let header = &bytes[..bytes.len() - left];
        assert_eq!(read(&trusted, header), Some((client, 0)), "the bytes behind it change nothing");
        assert_eq!(read(&trusted, &header[..header.len() - 1]), None, "it is read to its last byte");
        assert!(header.len() <= 16 + 2048, "it is bounded");
    }
    let others = TrustedProxies { networks: Vec::new(), send_header: true };
    let unread = read(&others, bytes).expect("its bytes are not looked at");
    assert_eq!((unread.0.ip().to_string().as_str(), unread.1), ("127.0.0.9", bytes.len()));
}
