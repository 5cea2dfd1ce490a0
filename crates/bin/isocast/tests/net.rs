//! `isocast net` for real, a part of `isocast-lab`: every transport, both sides' figures, and the message of each failure.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::common::program_and_others;
use serde_json::Value;

fn test(arguments: &[&str]) -> Output {
    Command::new(program_and_others())
        .args(["net", "test"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it runs")
}

/// Figures of a test that must succeed.
fn figures(arguments: &[&str]) -> Value {
    let output = test(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Error output of a test that must fail.
fn complaint(arguments: &[&str]) -> String {
    let output = test(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?} ended with {}: {said}", output.status);
    assert!(output.stdout.is_empty());
    said
}

/// A receiver, and where it listens.
struct Server {
    child: Child,
    places: Vec<String>,
}

impl Server {
    fn start(listen: &[&str], arguments: &[&str]) -> Self {
        let mut command = Command::new(program_and_others());
        command.args(["net", "serve"]).args(listen.iter().flat_map(|place| ["--listen", place])).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.as_mut().expect("a pipe"));
        let places = listen
            .iter()
            .map(|_| {
                let mut line = String::new();
                said.read_line(&mut line).expect("a line");
                line.trim().strip_prefix("listening at ").expect("it says where").to_owned()
            })
            .collect();
        Self { child, places }
    }

    /// Waits until it ends by itself. Returns its exit code and its output on standard error.
    fn ended(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("it ends");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().expect("a pipe"), &mut said).expect("text");
        (status.code(), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn token_file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// A listener that takes one connection, sends `greeting`, and nothing more until the other side has hung up.
fn greeter(greeting: &'static [u8]) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("an address").to_string();
    let greeting = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the test calls");
        stream.write_all(greeting).expect("it listens");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    (to, greeting)
}

#[test]
fn every_transport_moves_all_bytes_and_both_sides_count_them() {
    for transport in ["tcp", "unix"] {
        for more in [&[][..], &["--no-delay"], &["--round-trip"], &["--coalesce", "1ms"], &["--window", "65536"]] {
            let said =
                figures(&[&["--self", "--transport", transport, "--size", "1000", "--count", "2000"], more].concat());
            for side in ["sender", "receiver"] {
                assert_eq!(said[side]["bytes"], 2_000_000, "{transport} {more:?}: {said}");
                assert_eq!(said[side]["messages"], 2000, "{transport} {more:?}: {said}");
                assert!(said[side]["seconds"].as_f64() > Some(0.0), "{said}");
            }
            assert_eq!(said["round_trip"].is_object(), more == ["--round-trip"], "{said}");
        }
    }
    let said = figures(&["--self", "--transport", "udp", "--size", "1000", "--count", "100", "--every", "100us"]);
    let received = said["receiver"]["messages"].as_u64().expect("a count");
    assert_eq!(said["lost"].as_u64(), Some(100 - received), "{said}");
    assert!(received > 0, "{said}");
}

#[test]
fn small_messages_leave_together_and_wait_no_longer_than_allowed() {
    let together = figures(&["--self", "--size", "16", "--count", "20000", "--coalesce", "50ms"]);
    let sends = together["coalesced"]["sends"].as_u64().expect("a count");
    assert!(sends < 1000, "{together}");
    // All of these have room in one send: those that leave earlier do so as they have waited long enough.
    let lonely = figures(&["--self", "--size", "16", "--count", "20", "--every", "5ms", "--coalesce", "1ms"]);
    assert!(lonely["coalesced"]["sends"].as_u64() > Some(1), "{lonely}");
}

#[test]
fn a_receiver_serves_any_number_of_tests_over_all_its_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let unix = format!("unix:{}/s", folder.path().display());
    let server = Server::start(&["127.0.0.1:0", &unix], &[]);
    for to in &server.places {
        for transport in ["tcp", "unix", "tcp"] {
            if to.starts_with("unix:") && transport == "tcp" {
                assert!(complaint(&["--to", to, "--transport", "tcp"]).contains("--to HOST:PORT"));
            } else {
                assert_eq!(
                    figures(&["--to", to, "--transport", transport, "--count", "10"])["receiver"]["messages"],
                    10
                );
            }
        }
    }
    drop(server);
    let once = Server::start(&["127.0.0.1:0"], &["--once"]);
    figures(&["--to", &once.places[0], "--duration", "50ms"]);
    assert_eq!(once.ended().0, Some(0));
}

#[test]
fn only_senders_with_the_token_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = token_file(&folder, "token", "one token of some length\n");
    let other = token_file(&folder, "other", "another token of some length\n");
    let short = token_file(&folder, "short", "short");
    let open =
        Command::new(program_and_others()).args(["net", "serve", "--listen", "0.0.0.0:0"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(open.status.code() == Some(1) && said.contains("--token-file"), "{said}");
    let server = Server::start(&["127.0.0.1:0"], &["--token-file", &token]);
    let to = server.places[0].as_str();
    assert!(complaint(&["--to", to]).contains("wants a token"));
    let wrong = complaint(&["--to", to, "--token-file", &other]);
    assert_eq!(wrong.matches("not the other side's").count(), 1, "said once: {wrong}");
    assert!(complaint(&["--to", to, "--token-file", &short]).contains("16 bytes or more"));
    assert!(complaint(&["--to", to, "--token-file", "/no/such/file"]).contains("head -c 24"));
    figures(&["--to", to, "--token-file", &token, "--count", "10"]);
    let without = Server::start(&["127.0.0.1:0"], &[]);
    assert!(complaint(&["--to", &without.places[0], "--token-file", &token]).contains("has no token"));
}

#[test]
fn invalid_transfers_are_refused_before_the_first_byte() {
    for (arguments, reason) in [
        (&["--size", "0"][..], "0 bytes cannot be sent"),
        (&["--size", "16777217"], "1 to 16777216"),
        (&["--size", "65508", "--transport", "udp"], "1 to 65507"),
        (&["--size", "1x"], "write for example"),
        (&["--count", "0"], "--count"),
        (&["--duration", "10"], "has no unit"),
        (&["--coalesce", "1ms", "--transport", "udp"], "leave it out"),
        (&["--transport", "carrier-pigeon"], "possible values"),
        (&["--count", "1", "--duration", "1s"], "cannot be used with"),
    ] {
        let said = complaint(&[&["--self"], arguments].concat());
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    assert!(complaint(&[]).contains("--to"));
    assert!(complaint(&["--to", "192.0.2.1"]).contains("has no port"));
}

#[test]
fn absent_and_foreign_receivers_get_different_errors() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    assert!(complaint(&["--to", &closed.to_string()]).contains("no program listens there"));
    assert!(complaint(&["--to", "unix:/no/such/socket"]).contains("no program listens there"));
    for (greeting, reason) in [
        (&b"isocast<\xff\xff"[..], "speaks version 65535"),
        (b"HTTP/1.1 400 Bad", "does not speak"),
        (b"", "is it `isocast net serve`"),
    ] {
        let (to, other) = greeter(greeting);
        let said = complaint(&["--to", &to]);
        assert!(said.contains(reason), "{said}");
        other.join().expect("no panic");
    }
    if !kernel::tipc::is_available() {
        let said = complaint(&["--to", "tipc:18888:1"]);
        assert!(said.contains("modprobe tipc") && said.contains("isocast lab net up"), "{said}");
        assert!(complaint(&["--self", "--transport", "tipc"]).contains("--transport tcp works everywhere"));
    }
}

#[test]
fn a_side_that_stops_early_is_named_on_the_other() {
    let mut server = Server::start(&["127.0.0.1:0"], &[]);
    let to = server.places[0].clone();
    let mut sender = Command::new(program_and_others());
    sender.args(["net", "test", "--duration", "1h", "--limit", "2h", "--to", &to]).stderr(Stdio::piped());
    let sender = sender.spawn().expect("it starts");
    crate::common::until("the sender's bytes", || receives(server.child.id()));
    server.child.kill().expect("it runs");
    let output = sender.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the receiver stopped in the middle") && said.contains("after "), "{said}");

    let server = Server::start(&["127.0.0.1:0"], &["--once"]);
    let to = server.places[0].clone();
    let mut sender = Command::new(program_and_others());
    sender.args(["net", "test", "--duration", "1h", "--limit", "2h", "--to", &to]).stderr(Stdio::null());
    let mut sender = sender.spawn().expect("it starts");
    crate::common::until("the sender's bytes", || receives(server.child.id()));
    sender.kill().expect("it runs");
    sender.wait().expect("it ends");
    let (status, said) = server.ended();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("the sender stopped in the middle"), "{said}");
}

/// Checks that a receiver has the sockets of a test: its listener, control, and that of the bytes, twice.
fn receives(pid: u32) -> Result<(), String> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(|error| error.to_string())?;
    let sockets = open
        .flatten()
        .filter(|file| std::fs::read_link(file.path()).is_ok_and(|link| link.to_string_lossy().starts_with("socket:")));
    let sockets = sockets.count();
    if sockets >= 4 { Ok(()) } else { Err(format!("{sockets} sockets")) }
}

#[test]
fn a_test_ends_at_its_time_limit() {
    let said = complaint(&["--self", "--duration", "1h", "--limit", "200ms"]);
    assert!(said.contains("time limit"), "{said}");
    // Without the limit, the test would wait longer for a peer that falls silent before its greeting or in the middle of it.
    for greeting in [&b""[..], b"isocast<"] {
        let (to, silent) = greeter(greeting);
        let said = complaint(&["--to", &to, "--limit", "200ms"]);
        assert!(said.contains("the time limit of 200ms is over (--limit), after 0 B"), "{said}");
        silent.join().expect("no panic");
    }
}
