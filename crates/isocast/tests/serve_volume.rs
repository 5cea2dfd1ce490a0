//! `isocast serve --volume`: what is uploaded is there after a restart, and verified by the volume's own check.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::http::{Client, exchange, fetch};
use common::server::Server;

const DISK_BYTES: u64 = 96 << 20;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 9).to_le_bytes()[0]).collect()
}

fn put(address: SocketAddr, target: &str, body: &[u8]) -> u16 {
    let mut client = Client::try_to(address).expect("it listens");
    let head = format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    client.stream.write_all(head.as_bytes()).expect("it reads");
    client.stream.write_all(body).expect("it reads");
    let mut answer = client.try_head().expect("an answer");
    client.try_body(&mut answer).expect("an answer");
    answer.status
}

fn disks(folder: &Path, count: usize) -> Vec<PathBuf> {
    let disk = |number: usize| {
        let path = folder.join(format!("disk{number}"));
        File::create(&path).and_then(|file| file.set_len(DISK_BYTES)).expect("there is room");
        path
    };
    (0..count).map(disk).collect()
}

fn joined(disks: &[PathBuf]) -> String {
    disks.iter().map(|disk| disk.to_str().expect("UTF-8")).collect::<Vec<_>>().join(",")
}

fn volume(arguments: &[&str], disks: &[PathBuf]) {
    let mut command = Command::new(common::program());
    let output = command.arg("volume").args(arguments).args(disks).output().expect("the program runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn serves(layout: &str, count: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), count), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes"], &disks);
    let named = joined(&disks);
    let contents = [("a.ts", 5_000_000_usize), ("old/b.ts", 1 << 20), ("old/c.ts", 70_001), ("empty.ts", 0)];
    let server = Server::start(&[], &state, &["--volume", &named]);
    for (name, length) in contents {
        let target = format!("/media/{name}");
        assert_eq!(put(server.address, &target, &pattern(length)), 201, "{target}");
    }
    let check = |server: &Server| {
        for (name, length) in contents {
            let (status, body) = fetch(server.address, "GET", &format!("/media/{name}?rate=max")).expect("an answer");
            assert!(status == 200 && body == pattern(length), "{layout}: {name}: {status}, {} bytes", body.len());
        }
        let (status, listed) = fetch(server.address, "GET", "/media/old/").expect("an answer");
        let listed = String::from_utf8_lossy(&listed);
        assert!(status == 200 && listed.contains("b.ts") && listed.contains("c.ts"), "{listed}");
    };
    check(&server);
    // Killed, not stopped: what was answered is there.
    server.kill();
    let server = Server::start(&[], &state, &["--volume", &named]);
    check(&server);
    assert_eq!(put(server.address, "/media/a.ts", &pattern(100)), 204, "replaced");
    assert_eq!(exchange(server.address, "DELETE", "/media/old/c.ts").expect("an answer").status, 204);
    assert_eq!(fetch(server.address, "GET", "/media/old/c.ts").expect("an answer").0, 404);
    server.stop();
    let mut scrub = Command::new(common::program());
    let output = scrub.args(["volume", "scrub", "--json", &named]).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"contents\": 3"));
}

/// Changes a byte of each 64 KiB that lies on the disk of the content of this pattern; how many that were.
fn damage(disk: &Path, content: &[u8]) -> usize {
    let mut bytes = std::fs::read(disk).expect("a disk");
    let mut damaged = 0;
    for piece in content.chunks(1 << 16) {
        // The pattern repeats, but no piece of it as often as a part of a unit lies somewhere.
        let at = (0..bytes.len() - piece.len()).step_by(4096).find(|at| bytes[*at..].starts_with(piece));
        if let Some(at) = at {
            bytes[at + piece.len() / 2] ^= 1;
            damaged += 1;
        }
    }
    std::fs::write(disk, bytes).expect("a disk");
    damaged
}

/// What a disk gives falsely is never sent: it comes from the other copy, or not at all.
fn wrong_bytes(layout: &str, count: usize, whole: bool) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), count), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes"], &disks);
    let named = joined(&disks);
    let content: Vec<u8> =
        (0..3_000_000_u32).map(|n| n.wrapping_mul(n).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let server = Server::start(&[], &state, &["--volume", &named]);
    assert_eq!(put(server.address, "/media/a.ts", &content), 201);
    server.stop();
    assert!(damage(&disks[0], &content) > 0, "something of it lies there");
    let server = Server::start(&[], &state, &["--volume", &named]);
    for target in ["/media/a.ts?rate=max", "/media/a.ts?rate=100M"] {
        let mut client = Client::try_to(server.address).expect("it listens");
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        client.stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        // It may be reset: what came before counts.
        let _ = client.stream.read_to_end(&mut answer);
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let got = &answer[head..];
        assert!(got.len() <= content.len() && content.starts_with(got), "{layout}: wrong bytes among {}", got.len());
        assert_eq!(got.len() == content.len(), whole, "{layout} {target}: {} bytes", got.len());
    }
    let (_, metrics) = fetch(server.address, "GET", "/metrics").expect("an answer");
    let metrics = String::from_utf8_lossy(&metrics);
    let errors = metrics.lines().filter(|line| line.starts_with("isocast_disk_errors_total{") && !line.ends_with(" 0"));
    assert!(errors.count() > 0, "it is counted");
    server.stop();
}

#[test]
fn a_mirror_reads_what_one_disk_gives_falsely_from_the_other() {
    wrong_bytes("mirror", 2, true);
}

#[test]
fn without_another_copy_wrong_bytes_are_not_sent() {
    wrong_bytes("span", 1, false);
}

#[test]
fn a_volume_on_one_disk_is_served() {
    serves("span", 1);
}

#[test]
fn a_stripe_is_served() {
    serves("stripe", 2);
}

#[test]
fn a_mirror_is_served() {
    serves("mirror", 2);
}
