//! `isocast serve --volume`: what is uploaded is there after a restart, and verified by the volume's own check.

mod common;

use std::fs::File;
use std::io::Write;
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
