//! Certificates that an authority signs (ACME): a small authority of the test's own on loopback, which looks at files by plain HTTP or at
//! certificates in handshakes.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{CertificateParams, CertificateSigningRequestParams, Issuer, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use serde_json::{Value, json};

use crate::common::client::Client;
use crate::common::free_address;
use crate::common::http::Received;
use crate::common::server::{Server, Setup};

const DAY: Duration = Duration::from_secs(24 * 3600);
const NAME: &str = "media.example";

/// An authority.
#[derive(Clone)]
struct TestAuthority {
    address: SocketAddr,
    /// The server that has the name: its port of HTTP, or of TLS.
    server: SocketAddr,
    /// The proof that it looks at.
    proof: &'static str,
    state: Arc<Mutex<AuthorityState>>,
}

#[derive(Default)]
struct AuthorityState {
    accounts: usize,
    /// SHA-256 of the account's public key (RFC 7638).
    thumbprint: String,
    orders: usize,
    /// Its next certificate began this time ago, and each after that a day ago.
    age: Duration,
    /// It refuses every proof.
    refuses: bool,
    /// State of the order and of its only name.
    status: (&'static str, &'static str),
    problem: Value,
    certificate: String,
}

impl TestAuthority {
    fn start(server: SocketAddr, proof: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let authority = Self { address, server, proof, state: Arc::default() };
        let own = authority.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                own.answer(connection.expect("a connection"));
            }
        });
        authority
    }

    fn change(&self, change: impl FnOnce(&mut AuthorityState)) {
        change(&mut self.state.lock().expect("no panic"));
    }

    fn counts(&self) -> (usize, usize) {
        let state = self.state.lock().expect("no panic");
        (state.accounts, state.orders)
    }

    /// True if it has signed for this many orders, and its last certificate is in this text.
    fn has_signed(&self, orders: usize, text: &str) -> bool {
        let state = self.state.lock().expect("no panic");
        let is_signed = state.orders == orders && state.status.0 == "valid";
        is_signed && text.replace('\r', "").contains(&state.certificate.replace('\r', ""))
    }

    fn answer(&self, connection: TcpStream) {
        let Some(mut received) = Received::read(connection) else { return };
        let path = received.path();
        let (status, document) = self.document(path, &serde_json::from_slice(&received.body).unwrap_or_default());
        let text = document.as_str().map_or_else(|| document.to_string(), str::to_owned);
        let place = if path == "/new-account" { "/account" } else { "/order" };
        let answer = format!(
            "HTTP/1.1 {status} X\r\nReplay-Nonce: bm9uY2U\r\nLocation: http://{}{place}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
            self.address,
            text.len(),
            if received.head.starts_with("HEAD ") { "" } else { &text }
        );
        let _ = received.stream.write_all(answer.as_bytes());
    }

    fn document(&self, path: &str, message: &Value) -> (u16, Value) {
        let here = |path: &str| format!("http://{}/{path}", self.address);
        let part = |name: &str| -> Value {
            let bytes = URL_SAFE_NO_PAD.decode(message[name].as_str().unwrap_or_default()).expect("encoded");
            serde_json::from_slice(&bytes).unwrap_or_default()
        };
        let mut state = self.state.lock().expect("no panic");
        let order = |state: &AuthorityState| {
            json!({
                "status": state.status.0, "authorizations": [here("name")], "finalize": here("finalize"),
                "certificate": here("certificate"), "identifiers": [{"type": "dns", "value": NAME}],
            })
        };
        match path {
            "/directory" => {
                let names = ["newNonce", "newAccount", "newOrder"].iter().zip(["nonce", "new-account", "new-order"]);
                (200, names.map(|(name, path)| ((*name).to_owned(), Value::from(here(path)))).collect())
            }
            "/nonce" => (200, json!({})),
            "/new-account" => {
                let (key, wish) = (part("protected")["jwk"].clone(), part("payload"));
                assert_eq!(wish["contact"], json!(["mailto:admin@media.example"]));
                assert_eq!(wish["termsOfServiceAgreed"], true);
                let text =
                    format!(r#"{{"crv":{},"kty":{},"x":{},"y":{}}}"#, key["crv"], key["kty"], key["x"], key["y"]);
                state.thumbprint = URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()));
                state.accounts += 1;
                (201, json!({"status": "valid"}))
            }
            "/new-order" => {
                assert_eq!(part("payload")["identifiers"], json!([{"type": "dns", "value": NAME}]));
                assert_eq!(part("protected")["kid"], here("account"));
                state.orders += 1;
                state.status = ("pending", "pending");
                (201, order(&state))
            }
            "/order" => (200, order(&state)),
            "/name" => {
                let challenge = json!({
                    "type": self.proof, "url": here("look"), "token": "the-token", "status": state.status.1, "error": state.problem,
                });
                let name = json!({"type": "dns", "value": NAME});
                (200, json!({"identifier": name, "status": state.status.1, "challenges": [challenge]}))
            }
            "/look" => {
                let expected = format!("the-token.{}", state.thumbprint);
                match self.proof {
                    "http-01" => self.look_at_file(&expected),
                    _ => self.look_at_certificate(&expected),
                }
                state.status = if state.refuses { ("invalid", "invalid") } else { ("ready", "valid") };
                state.problem = match state.refuses {
                    true => json!({"type": "urn:ietf:params:acme:error:caa", "detail": "CAA forbids it"}),
                    false => Value::Null,
                };
                (200, json!({"type": self.proof, "url": here("look"), "token": "the-token", "status": "processing"}))
            }
            "/finalize" => {
                let request =
                    URL_SAFE_NO_PAD.decode(part("payload")["csr"].as_str().expect("a request")).expect("encoded");
                state.certificate = signed(request, std::mem::replace(&mut state.age, DAY));
                state.status.0 = "valid";
                (200, order(&state))
            }
            "/certificate" => (200, Value::from(state.certificate.clone())),
            other => panic!("{other} was asked for"),
        }
    }

    fn look_at_file(&self, expected: &str) {
        let mut client = Client::to(self.server);
        client.send(format!(
            "GET /.well-known/acme-challenge/the-token HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n"
        ));
        let answer = client.answer(true);
        assert_eq!((answer.status, answer.text().as_str()), (200, expected));
    }

    /// As RFC 8737 §3 says: the protocol, the name alone, and the digest in a critical extension.
    fn look_at_certificate(&self, expected: &str) {
        let (protocol, certificate) = handshake(self.server, b"acme-tls/1").expect("a handshake");
        assert_eq!(protocol.as_deref(), Some(&b"acme-tls/1"[..]));
        let digest = ring::digest::digest(&ring::digest::SHA256, expected.as_bytes());
        let extension = [&b"\x06\x08\x2b\x06\x01\x05\x05\x07\x01\x1f\x01\x01\xff\x04\x22\x04\x20"[..], digest.as_ref()];
        assert!(has(&certificate, &extension.concat()), "another proof");
        let names = [&[0x30, 0x0f, 0x82, 0x0d], NAME.as_bytes()].concat();
        assert!(has(&certificate, &names), "another name");
    }
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The protocol and the certificate of a handshake for the name.
fn handshake(server: SocketAddr, protocol: &[u8]) -> std::io::Result<(Option<Vec<u8>>, Vec<u8>)> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let verifier = Arc::new(AnyCertificate(provider));
    let builder = builder.expect("versions").dangerous().with_custom_certificate_verifier(verifier);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from(NAME).expect("a name");
    let mut connection = ClientConnection::new(Arc::new(config), name).expect("usable");
    let mut stream = TcpStream::connect(server)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    let chain = connection.peer_certificates().expect("a certificate");
    Ok((connection.alpn_protocol().map(<[u8]>::to_vec), chain[0].to_vec()))
}

/// An authority looks at a certificate that none has signed.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A certificate of 90 days for a request, which began `age` ago.
fn signed(request: Vec<u8>, age: Duration) -> String {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.distinguished_name.push(rcgen::DnType::CommonName, "Authority of a test");
    let issuer = Issuer::new(params, KeyPair::generate().expect("a key"));
    let request = CertificateSigningRequestDer::from(request);
    let mut request = CertificateSigningRequestParams::from_der(&request).expect("a request");
    let begins = SystemTime::now() - age;
    (request.params.not_before, request.params.not_after) = (begins.into(), (begins + 90 * DAY).into());
    request.signed_by(&issuer).expect("signed").pem()
}

#[test]
fn an_authority_signs_and_renews_and_its_refusal_leaves_the_certificate_in_force() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [root, state] = ["root", "state"].map(|name| folder.path().join(name));
    fs::create_dir(&root).expect("a folder");
    let port = free_address();
    let authority = TestAuthority::start(port, "http-01");
    let config = format!(
        "[tls]\nlisten = \"127.0.0.1:0\"\nredirect = true\nauthority = \"http://{}/directory\"\nnames = [\"{NAME}\"]\n\
         contact = \"admin@media.example\"\nproof = \"http\"\n",
        authority.address
    );
    let start = || Setup::on(&[&root], &state, &[]).listen(&port.to_string()).config(&config).start();
    let file = state.join("tls/authority.pem");
    let kept = || fs::read_to_string(&file).expect("a certificate");

    authority.change(|state| state.refuses = true);
    let server: Server = start();
    let said = server.wait_stderr_line("\"certificate_refused\"");
    assert!(said.contains("`media.example`: ") && said.contains("CAA forbids it"), "{said}");
    let alarms = server.json("/api/v1/alarms").to_string();
    assert!(alarms.contains("certificate_refused") && alarms.contains("CAA forbids it"), "{alarms}");
    let own = kept();
    assert!(server.stop().0.success());

    // The first one is in the last third of its time already.
    authority.change(|state| (state.refuses, state.age) = (false, 61 * DAY));
    let server = start();
    server.wait_stderr_line("\"certificate_loaded\"");
    assert_ne!(kept(), own);
    server.wait_for("another certificate", |_| authority.has_signed(3, &kept()));
    assert_eq!(authority.counts(), (1, 3), "of one account");
    let modes = fs::metadata(state.join("tls/account.json")).expect("the account").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&modes) & 0o077, 0, "its key is its user's");
    // It goes when the certificate is in its file, whose sync may take longer than the look at it here.
    let proof = |server: &Server| server.get("/.well-known/acme-challenge/the-token").status;
    server.wait_for("the end of the proof", |server| proof(server) == 404);
    assert!(server.stop().0.success());

    let second = kept();
    authority.change(|state| state.refuses = true);
    let server = start();
    server.wait_stderr_line("server_started");
    assert_eq!((kept(), authority.counts().1), (second, 3), "a young one is kept");
}

#[test]
fn an_authority_looks_at_a_certificate_in_a_handshake() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [root, state] = ["root", "state"].map(|name| folder.path().join(name));
    fs::create_dir(&root).expect("a folder");
    let port = free_address();
    let authority = TestAuthority::start(port, "tls-alpn-01");
    let config = format!(
        "[tls]\nlisten = \"{port}\"\nauthority = \"http://{}/directory\"\nnames = [\"{NAME}\"]\n\
         contact = \"admin@media.example\"\nproof = \"tls\"\n",
        authority.address
    );
    let server = Setup::on(&[&root], &state, &[]).config(&config).start();
    server.wait_stderr_line("\"certificate_loaded\"");
    assert_eq!(authority.counts(), (1, 1));
    let (_, certificate) = handshake(port, b"http/1.1").expect("a handshake");
    assert!(has(&certificate, b"Authority of a test"), "the one that it signed is in force");
    server.wait_for("the end of the proof", |_| handshake(port, b"acme-tls/1").is_err());
    assert!(server.stop().0.success());
}
