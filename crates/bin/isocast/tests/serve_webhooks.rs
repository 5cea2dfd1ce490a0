//! Webhooks of the real program: signed, repeated until they are taken, over TLS as well.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};

use crate::common::server::Setup;
use crate::common::{PATIENCE, free_address};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Reads one request and answers it.
fn take(mut connection: impl Read + Write, status: &str) -> String {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = connection.read(&mut buffer).expect("a request");
        request.extend(&buffer[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if count == 0 || text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.ends_with('}')) {
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            connection.write_all(answer.as_bytes()).expect("an answer");
            return text;
        }
    }
}

#[test]
fn webhooks_are_signed_and_retried_despite_a_hung_target() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (secret, told) = (folder.path().join("secret"), folder.path().join("told"));
    fs::write(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("written");
    let [target, hanging] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [at, hanging_at] = [&target, &hanging].map(|listener| listener.local_addr().expect("an address"));
    let config = format!(
        r#"
        [[webhook]]
        name = "hangs"
        events = ["upload_ended"]
        url = "http://{hanging_at}/"
        secret = "{secret}"
        timeout = "200ms"
        [[webhook]]
        name = "takes"
        events = ["upload_ended"]
        url = "http://{at}/hook"
        secret = "{secret}"
        [[webhook]]
        name = "program"
        events = ["upload_ended"]
        command = ["/bin/sh", "-c", "cat >>{told}"]
        "#,
        secret = secret.display(),
        told = told.display(),
    );
    let server = Setup::default().config(&config).start();
    let (tell, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for (connection, status) in target.incoming().zip(["503 Service Unavailable", "204 No Content"]) {
            let connection = connection.expect("a connection");
            connection.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let _ = tell.send(take(connection, status));
        }
    });
    assert_eq!(server.put("/media/film.ts", "", b"film").status, 201);
    let [first, second] = [0, 1].map(|_| requests.recv_timeout(PATIENCE).expect("a request"));
    let field = |request: &str, name: &str| {
        let line = request.lines().find(|line| line.starts_with(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {request}")).to_owned()
    };
    assert!(first.starts_with("POST /hook HTTP/1.1\r\n") && first.contains("film.ts"), "{first}");
    assert!(field(&first, "webhook-signature").starts_with("webhook-signature: v1,"));
    assert_eq!(field(&first, "webhook-id"), field(&second, "webhook-id"), "the same event");
    server.wait_for("delivery", |server| {
        server.metric("isocast_webhook_events_total{webhook=\"takes\",outcome=\"delivered\"}") == 1.0
    });
    server.wait_for("the program", |_| fs::read_to_string(&told).is_ok_and(|told| told.contains("film.ts")));
    server.wait_for("a retry", |server| server.metric("isocast_webhook_retries_total{webhook=\"hangs\"}") >= 1.0);
    assert_eq!(server.metric("isocast_webhook_waiting{webhook=\"hangs\"}"), 1.0);
    let test = |name: &str| {
        let head =
            format!("POST /api/v1/webhooks/{name}/test HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        server.ask(&head).status
    };
    assert_eq!((test("program"), test("none")), (202, 404));
    server.wait_for("the test", |_| fs::read_to_string(&told).is_ok_and(|told| told.contains("webhook_test")));
    server.wait_for("its count", |server| {
        server.metric("isocast_webhook_events_total{webhook=\"program\",outcome=\"delivered\"}") == 2.0
    });
}

#[test]
fn events_that_wait_for_a_webhook_outlive_the_server_and_a_refused_one_holds_up_no_other() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [secret, root, state] = ["secret", "root", "state"].map(|name| folder.path().join(name));
    fs::write(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("written");
    fs::create_dir(&root).expect("a folder");
    let at = free_address();
    let config = format!(
        "[[webhook]]\nname = \"chat\"\nevents = [\"upload_ended\"]\nurl = \"http://{at}/\"\nsecret = \"{}\"\n",
        secret.display()
    );
    let start = || Setup::on(&[&root], &state, &[]).config(&config).start();
    let waiting = "isocast_webhook_waiting{webhook=\"chat\"}";
    let server = start();
    for name in ["first.ts", "second.ts", "third.ts"] {
        assert_eq!(server.put(&format!("/media/{name}"), "", b"film").status, 201);
    }
    server.wait_for("three that wait", |server| server.metric(waiting) == 3.0);
    assert!(server.stop().0.success());

    let target = TcpListener::bind(at).expect("the port of before");
    let (tell, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for connection in target.incoming() {
            let connection = connection.expect("a connection");
            connection.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let mut peeked = [0; 4096];
            let mut count = 0;
            while !peeked[..count].ends_with(b"}") {
                count = connection.peek(&mut peeked).expect("a request");
            }
            let is_second = String::from_utf8_lossy(&peeked[..count]).contains("second.ts");
            let _ = tell.send(take(connection, if is_second { "400 Bad Request" } else { "204 No Content" }));
        }
    });
    let server = start();
    for name in ["first.ts", "second.ts", "third.ts"] {
        let request = requests.recv_timeout(PATIENCE).expect("a request");
        assert!(request.contains(name), "{name}: {request}");
    }
    let outcome = |outcome: &str| format!("isocast_webhook_events_total{{webhook=\"chat\",outcome=\"{outcome}\"}}");
    // Each is counted when its answer is read.
    server.wait_for("the end of all", |server| server.metric(waiting) == 0.0);
    assert_eq!(["delivered", "failed"].map(|name| server.metric(&outcome(name))), [2.0, 1.0]);
}

#[test]
fn one_webhook_gets_the_events_that_another_never_took() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (secret, told) = (folder.path().join("secret"), folder.path().join("told"));
    fs::write(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("written");
    let target = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = target.local_addr().expect("an address");
    std::thread::spawn(move || {
        for connection in target.incoming() {
            let _ = take(connection.expect("a connection"), "410 Gone");
        }
    });
    let config = format!(
        "[[webhook]]\nname = \"gone\"\nevents = [\"upload_ended\"]\nurl = \"http://{at}/\"\nsecret = {secret:?}\n\
         [[webhook]]\nname = \"pager\"\nevents = [\"webhook_failed\"]\ncommand = [\"/bin/sh\", \"-c\", \"cat >>{}\"]\n",
        told.display()
    );
    let server = Setup::default().config(&config).start();
    assert_eq!(server.put("/media/film.ts", "", b"film").status, 201);
    server.wait_for("the failure", |_| {
        fs::read_to_string(&told)
            .is_ok_and(|told| told.contains("\"of\":\"upload_ended\"") && told.contains("\"webhook\":\"gone\""))
    });
}

/// A certificate authority of our own.
struct Authority<'a> {
    folder: &'a Path,
    name: &'a str,
}

impl Authority<'_> {
    fn openssl(&self, arguments: &str) {
        let mut openssl = Command::new("openssl");
        let made = openssl.current_dir(self.folder).args(arguments.split_whitespace()).output().expect("openssl");
        assert!(made.status.success(), "{arguments}: {}", String::from_utf8_lossy(&made.stderr));
    }

    fn new<'a>(folder: &'a Path, name: &'a str) -> Authority<'a> {
        let own = Authority { folder, name };
        own.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ));
        own
    }

    /// A server with a certificate for `host`, which answers every request with 204 and passes it on.
    fn server(&self, host: &str) -> (String, mpsc::Receiver<String>) {
        let (name, file) = (self.name, format!("{}-{}", self.name, host.replace(':', "-")));
        fs::write(self.folder.join("ext"), format!("subjectAltName={host}\n")).expect("written");
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=hook -keyout {file}.key -out {file}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {file}.csr -CA {name}.pem -CAkey {name}.key -CAcreateserial -days 2 -extfile ext -out {file}.pem"
        ));
        let pem = |kind: &str| self.folder.join(format!("{file}.{kind}"));
        let certificate = CertificateDer::from_pem_file(pem("pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(pem("key")).expect("a key");
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
        let config = Arc::new(config.expect("they belong together"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("https://{}/hook", listener.local_addr().expect("an address"));
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let connection = connection.expect("a connection");
                connection.set_read_timeout(Some(PATIENCE)).expect("a socket");
                let tls = ServerConnection::new(Arc::clone(&config)).expect("a configuration");
                let mut stream = StreamOwned::new(tls, connection);
                // A client that does not trust it sends no more.
                if stream.conn.complete_io(&mut stream.sock).is_ok() {
                    let _ = tell.send(take(stream, "204 No Content"));
                }
            }
        });
        (url, told)
    }
}

#[test]
fn a_tls_webhook_trusts_the_machines_authorities() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("written");
    let (known, unknown) = (Authority::new(folder.path(), "known"), Authority::new(folder.path(), "unknown"));
    let (good, requests) = known.server("IP:127.0.0.1");
    let (other_name, _other_name) = known.server("DNS:elsewhere.example");
    let (stranger, _stranger) = unknown.server("IP:127.0.0.1");
    let [hanging, plain] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [hangs, no_tls] =
        [&hanging, &plain].map(|target| format!("https://{}", target.local_addr().expect("an address")));
    std::thread::spawn(move || {
        for connection in plain.incoming() {
            let _ =
                connection.expect("a connection").write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let targets =
        [("good", &good), ("other", &other_name), ("stranger", &stranger), ("hangs", &hangs), ("plain", &no_tls)];
    let config: String = targets
        .iter()
        .map(|(name, url)| {
            format!(
                "[[webhook]]\nname = \"{name}\"\nevents = [\"upload_ended\"]\nurl = \"{url}\"\nsecret = \"{}\"\ntimeout = \"{}\"\n",
                secret.display(),
                if *name == "hangs" { "200ms" } else { "10s" }
            )
        })
        .collect();
    let trusted = folder.path().join("known.pem").display().to_string();
    let server = Setup::default().config(&config).environment("SSL_CERT_FILE", &trusted).start();
    assert_eq!(server.put("/media/film.ts", "", b"film").status, 201);
    let request = requests.recv_timeout(PATIENCE).expect("a request");
    assert!(request.starts_with("POST /hook HTTP/1.1\r\n") && request.contains("film.ts"), "{request}");
    assert!(request.contains("webhook-signature: v1,"), "{request}");
    server.wait_for("delivery", |server| {
        server.metric("isocast_webhook_events_total{webhook=\"good\",outcome=\"delivered\"}") == 1.0
    });
    let said = |name: &str| {
        let hooks = server.json("/api/v1/webhooks");
        let hook = hooks.as_array().and_then(|hooks| hooks.iter().find(|hook| hook["name"] == name));
        hook.and_then(|hook| hook["error"].as_str()).unwrap_or_default().to_owned()
    };
    for (name, advice) in [
        ("other", "a name that its certificate has"),
        ("stranger", "update-ca-certificates"),
        ("hangs", "timeout"),
        ("plain", "does not speak TLS"),
    ] {
        server.wait_for(advice, |_| said(name).contains(advice));
        assert_eq!(
            server.metric(&format!("isocast_webhook_events_total{{webhook=\"{name}\",outcome=\"delivered\"}}")),
            0.0
        );
    }
}
