//! Volumes on files: the disks, the contents put on them, and the server's figures of them.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::http::{Client, fetch};
use super::program;
use super::server::Server;
use super::until;

pub const DISK_BYTES: u64 = 96 << 20;

pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 9).to_le_bytes()[0]).collect()
}

pub fn put(address: SocketAddr, target: &str, body: &[u8]) -> u16 {
    let mut client = Client::try_to(address).expect("it listens");
    let head = format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    client.stream.write_all(head.as_bytes()).expect("it reads");
    client.stream.write_all(body).expect("it reads");
    let mut answer = client.try_head().expect("an answer");
    client.try_body(&mut answer).expect("an answer");
    answer.status
}

pub fn disks(folder: &Path, count: usize) -> Vec<PathBuf> {
    let disk = |number: usize| {
        let path = folder.join(format!("disk{number}"));
        File::create(&path).and_then(|file| file.set_len(DISK_BYTES)).expect("there is room");
        path
    };
    (0..count).map(disk).collect()
}

pub fn joined(disks: &[PathBuf]) -> String {
    disks.iter().map(|disk| disk.to_str().expect("UTF-8")).collect::<Vec<_>>().join(",")
}

pub fn volume(arguments: &[&str], disks: &[PathBuf]) {
    let mut command = Command::new(program());
    let output = command.arg("volume").args(arguments).args(disks).output().expect("the program runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The entry of the one volume in `/api/v1/volumes`, once no upkeep is under way any more.
pub fn volume_after_upkeep(server: &Server) -> serde_json::Value {
    until("the end of an upkeep", || {
        let volume = server.json("/api/v1/volumes")[0].clone();
        if volume["upkeep"].is_null() { Ok(volume) } else { Err(volume.to_string()) }
    })
}

/// The same, once an upkeep has ended: a server begins its own upkeep only after its start.
pub fn volume_after_fill(server: &Server) -> serde_json::Value {
    until("a filling", || {
        let volume = volume_after_upkeep(server);
        if volume["last_upkeep"].is_null() { Err(volume.to_string()) } else { Ok(volume) }
    })
}

pub fn gives_all(server: &Server, contents: &[(String, Vec<u8>)], what: &str) {
    for (name, bytes) in contents {
        let (status, body) = fetch(server.address, "GET", &format!("/media/{name}?rate=max")).expect("an answer");
        assert!(status == 200 && body == *bytes, "{what}: {name}: {status}, {} bytes", body.len());
    }
}

/// Contents of 0 to 5 MB, none of which begins as another does.
pub fn films() -> Vec<(String, Vec<u8>)> {
    let film = |number: usize| {
        let bytes = (0..number * 500_007).map(|at| (at * at + number * 7).wrapping_mul(2_654_435_761) >> 11);
        (format!("{}/{number}.ts", number % 3), bytes.map(|value| value.to_le_bytes()[0]).collect())
    };
    (0..10).map(film).collect()
}

fn last_event(server: &Server, is_meant: impl Fn(&serde_json::Value) -> bool) -> Option<serde_json::Value> {
    let serde_json::Value::Array(events) = server.json("/api/v1/events") else { panic!("events are a list") };
    events.into_iter().rfind(is_meant)
}

pub fn event(server: &Server, event: &str) -> Option<serde_json::Value> {
    last_event(server, |one| one["event"] == event)
}

/// The last event of the end of an upkeep of this kind. An idle volume may have ended one of another kind since.
pub fn upkeep_ended(server: &Server, kind: &str) -> serde_json::Value {
    let ended = last_event(server, |one| one["event"] == "upkeep_ended" && one["upkeep"] == kind);
    ended.expect("it is told")
}

/// Runs an `isocast volume` command on the volume that a server has open. Returns its exit code and all its output.
pub fn run_volume_command(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    command.arg("volume").args(arguments).args(["--url", &format!("http://{}", server.address)]);
    let output = command.output().expect("the program runs");
    let said = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}
