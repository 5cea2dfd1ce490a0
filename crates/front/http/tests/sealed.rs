//! HTTP over TLS: the same answers, sealed; a certificate that changes; clients that never finish a handshake.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Harness, PATIENCE, PlaneOrder, Settings, get, pattern};
use http::config::HttpConfig;
use proxy::TrustedProxies;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use service::config::ServiceConfig;
use tempfile::TempDir;
use tls::{Acceptor, CertificateSource, Certificates};
use units::BitRate;

/// A certificate of its own, and the place it is kept in.
pub(crate) struct Authority {
    folder: TempDir,
    certificates: Arc<Certificates>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let source = CertificateSource::SelfSigned {
            folder: folder.path().to_owned(),
            names: vec!["localhost".to_owned()],
            addresses: Vec::new(),
        };
        Self { certificates: Certificates::load(&source).expect("made"), folder }
    }

    pub(crate) fn acceptor(&self, handshakes_max: usize) -> Acceptor {
        Acceptor::new(Arc::clone(&self.certificates), http::PROTOCOLS, handshakes_max).expect("usable")
    }

    pub(crate) fn settings(&self, http: HttpConfig) -> Settings {
        Settings { service: ServiceConfig::default(), http, tls: Some(self.acceptor(100)) }
    }

    /// The settings of a client that trusts it.
    pub(crate) fn client(&self, version: &'static rustls::SupportedProtocolVersion) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let file = self.folder.path().join("self-signed.pem");
        roots.add(CertificateDer::from_pem_file(file).expect("a certificate")).expect("added");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        builder.expect("a version").with_root_certificates(roots).with_no_client_auth()
    }

    /// A sealed connection.
    fn connect(&self, address: SocketAddr, version: &'static rustls::SupportedProtocolVersion) -> Sealed {
        self.connect_behind(address, version, b"")
    }

    /// The same behind bytes that a proxy sends first.
    fn connect_behind(
        &self,
        address: SocketAddr,
        version: &'static rustls::SupportedProtocolVersion,
        first: &[u8],
    ) -> Sealed {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(self.client(version)), name).expect("usable");
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.write_all(first).expect("sent");
        StreamOwned::new(connection, stream)
    }
}

type Sealed = StreamOwned<ClientConnection, TcpStream>;

/// The head of an answer and its body of the announced length.
fn answer(stream: &mut Sealed) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let mut body = vec![0; length.map_or(0, |text| text.parse().expect("a number"))];
    stream.read_exact(&mut body).expect("a whole body");
    (head, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sealed_connection_carries_rated_media_uploads_and_the_page() {
    let authority = Authority::new();
    let harness = Harness::start(authority.settings(HttpConfig::default()));
    let film = pattern(300_000);
    harness.store.put("film.ts", &film);
    for version in [&TLS12, &TLS13] {
        let mut stream = authority.connect(harness.sealed, version);
        for (request, status) in [
            (get("/media/film.ts?rate=60M"), "http/1.1 200"),
            (get("/api/v1/system"), "http/1.1 200"),
            (get("/media/none.ts"), "http/1.1 404"),
            (get("/"), "http/1.1 200"),
        ] {
            stream.write_all(request.as_bytes()).expect("sent");
            let (head, body) = answer(&mut stream);
            assert!(head.starts_with(status), "{request}: {head}");
            if request.contains("rate=") {
                assert!(head.contains("x-isocast-rate: 60000000"), "{head}");
                assert!(body == film, "another film");
            }
        }
        let put = "PUT /media/new.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(put.as_bytes()).expect("sent");
        assert!(answer(&mut stream).0.starts_with("http/1.1 100"));
        stream.write_all(b"hello").expect("sent");
        let head = answer(&mut stream).0;
        assert!(head.starts_with("http/1.1 201") || head.starts_with("http/1.1 204"), "{head}");
    }
    let rates = harness.plane.orders().into_iter().filter_map(|told| match told {
        PlaneOrder::Start { rate, .. } => rate,
        _ => None,
    });
    assert_eq!(rates.collect::<Vec<_>>(), [BitRate(60_000_000); 2], "the plane paces what is sealed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sealed_answer_ends_with_close_notify_unless_broken() {
    let authority = Authority::new();
    let harness = Harness::start(authority.settings(HttpConfig::default()));
    harness.store.put("film.ts", &pattern(300_000));
    let ends = |request: &str| {
        let mut stream = authority.connect(harness.sealed, &TLS13);
        stream.write_all(request.as_bytes()).expect("sent");
        stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind())
    };
    for request in [
        "GET /media/film.ts HTTP/1.0\r\n\r\n",
        "GET /media/ HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        assert!(ends(request).is_ok_and(|bytes| bytes > 0), "{request}");
    }
    harness.plane.close_gate();
    let mut stream = authority.connect(harness.sealed, &TLS13);
    stream.write_all(b"GET /media/film.ts?rate=60M HTTP/1.0\r\nRange: bytes=0-9,20-29\r\n\r\n").expect("sent");
    let mut first = [0; 12];
    stream.read_exact(&mut first).expect("the head comes with the first boundary");
    assert_eq!(&first, b"HTTP/1.1 206");
    harness.service.stop().await;
    let broken = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
    assert_eq!(broken, Err(ErrorKind::UnexpectedEof));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_names_the_client_of_a_sealed_connection_before_its_handshake() {
    let authority = Authority::new();
    let networks = vec!["127.0.0.0/8".parse().expect("a network")];
    let trusted_proxies = TrustedProxies { networks, send_header: true };
    let harness = Harness::start(authority.settings(HttpConfig { trusted_proxies, ..HttpConfig::default() }));
    harness.store.put("film.ts", &pattern(1000));
    let version_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x08\x7f\0\0\x01\x12\x67\0\x50";
    for (header, client) in
        [(&b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 443\r\n"[..], "192.0.2.7"), (&version_2[..], "192.0.2.8")]
    {
        let mut stream = authority.connect_behind(harness.sealed, &TLS13, header);
        stream.write_all(get("/media/film.ts").as_bytes()).expect("sent");
        assert_eq!(answer(&mut stream).1, pattern(1000), "{client}");
        harness.access.wait_until(|text| text.contains(&format!("{client} - - [")));
    }
    for first in [&b""[..], b"PROXY TCP4 nobody\r\n"] {
        let mut stream = authority.connect_behind(harness.sealed, &TLS13, first);
        let sent = stream.write_all(get("/media/film.ts").as_bytes());
        assert!(sent.is_err() || stream.read(&mut [0]).is_ok_and(|read| read == 0) || stream.read(&mut [0]).is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_requests_are_redirected_and_browsers_get_hsts() {
    let authority = Authority::new();
    let http = HttpConfig { redirect_to: Some(8443), hsts: Duration::from_secs(3600), ..HttpConfig::default() };
    let harness = Harness::start(authority.settings(http));
    let ask = |host: &str, path: &str| harness.one(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let answer = ask("nas:8080", "/media/a%20b?x=1");
    assert_eq!((answer.status, answer.field("location")), (308, Some("https://nas:8443/media/a%20b?x=1")));
    assert_eq!(ask("[2001:db8::1]:80", "/").field("location"), Some("https://[2001:db8::1]:8443/"));
    for (host, path) in [("localhost", "/"), ("nas", "/health"), ("nas", "/ready")] {
        let answer = ask(host, path);
        assert_eq!((answer.status, answer.field("strict-transport-security")), (200, None), "{host} {path}");
    }
    let mut stream = authority.connect(harness.sealed, &TLS13);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: nas\r\n\r\n").expect("sent");
    let head = self::answer(&mut stream).0;
    assert!(head.starts_with("http/1.1 200") && head.contains("strict-transport-security: max-age=3600"), "{head}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_never_finish_a_handshake_keep_out_no_other() {
    let authority = Authority::new();
    let settings = Settings { tls: Some(authority.acceptor(4)), ..Settings::default() };
    let harness = Harness::start(settings);
    let idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(harness.sealed).expect("connected")).collect();
    // The oldest lost their places to the others.
    for mut oldest in idle.iter().take(16) {
        oldest.set_read_timeout(Some(PATIENCE)).expect("set");
        assert!(matches!(oldest.read(&mut [0; 9]), Ok(0) | Err(_)), "it is closed");
    }
    for _ in 0..3 {
        let mut stream = authority.connect(harness.sealed, &TLS13);
        stream.write_all(get("/health").as_bytes()).expect("sent");
        assert!(answer(&mut stream).0.starts_with("http/1.1 200"));
    }
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff], &[0; 600]] {
        let mut stream = TcpStream::connect(harness.sealed).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.write_all(nonsense).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("shut");
        // An alert, or a reset; never an answer.
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(!said.starts_with(b"HTTP"), "{said:?}");
    }
}
