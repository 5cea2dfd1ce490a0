//! Quotas of folders with the real program, in a folder and on a volume: refused before a byte is taken, or the oldest goes first.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::common::client::{Client, pattern};
use crate::common::http::fetch;
use crate::common::program;
use crate::common::server::Server;
use crate::common::until;
use serde_json::Value;

/// Uploads here are of this size, and six of them fit into a quota.
const UPLOAD: usize = 1 << 20;
const QUOTAS: &str = r#"
[[quota]]
folder = "kept"
max_size = "6MiB"

[[quota]]
folder = "ring"
max_size = "6MiB"
when_full = "overwrite_oldest"
protected = ["ring/door"]
"#;

/// Uploads `bytes`. Returns the status and, of a refusal, whether it came before `100 Continue`.
fn put(address: SocketAddr, target: &str, bytes: usize) -> (u16, bool) {
    let mut client = Client::to(address);
    client.send(format!(
        "PUT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\nExpect: 100-continue\r\n\r\n"
    ));
    let head = client.head();
    if head.status != 100 {
        return (head.status, true);
    }
    client.send(pattern(bytes));
    (client.answer(true).status, false)
}

fn names(address: SocketAddr, folder: &str) -> Vec<String> {
    let (status, body) = fetch(address, "GET", &format!("/media/{folder}/?format=json")).expect("it answers");
    assert_eq!(status, 200);
    let entries: Vec<Value> = serde_json::from_slice(&body).expect("JSON");
    let name = |entry: &Value| entry["name"].as_str().expect("a name").to_owned();
    entries.iter().map(name).filter(|name| name != "door").collect()
}

fn check(server: &Server) {
    let address = server.address;
    for number in 0..6 {
        assert_eq!(put(address, &format!("/media/kept/{number}.ts"), UPLOAD), (201, false), "{number}");
    }
    assert_eq!(put(address, "/media/kept/more.ts", UPLOAD), (507, true));
    assert_eq!(put(address, "/media/kept/large.ts", 7 * UPLOAD), (507, true));
    assert_eq!(fetch(address, "DELETE", "/media/kept/0.ts").expect("it answers").0, 204);
    assert_eq!(put(address, "/media/kept/more.ts", UPLOAD), (201, false), "room after a removal");
    assert_eq!(names(address, "kept"), ["1.ts", "2.ts", "3.ts", "4.ts", "5.ts", "more.ts"]);

    // A protected one counts, and stays; of the others the newest are there.
    assert_eq!(put(address, "/media/ring/door/kept.ts", UPLOAD), (201, false));
    for number in 10..30 {
        assert_eq!(put(address, &format!("/media/ring/{number}.ts"), UPLOAD), (201, false), "{number}");
    }
    let ring = names(address, "ring");
    assert!(ring.len() <= 5 && ring.last().is_some_and(|last| last == "29.ts"), "{ring:?}");
    assert_eq!(ring[0], format!("{}.ts", 30 - ring.len()), "the oldest went: {ring:?}");
    assert_eq!(names(address, "ring/door"), ["kept.ts"]);
    assert_eq!(put(address, "/media/ring/large.ts", 7 * UPLOAD), (507, true));
    assert_eq!(put(address, "/media/free.ts", 7 * UPLOAD), (201, false), "no quota");
}

fn configuration(folder: &Path) -> String {
    let path = folder.join("isocast.toml");
    fs::write(&path, QUOTAS).expect("written");
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn of_a_folder() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let root = scratch.path().join("root");
    for folder in ["kept", "ring/door"] {
        fs::create_dir_all(root.join(folder)).expect("made");
    }
    let arguments = ["--config", &configuration(scratch.path())];
    check(&Server::on(&[&root], &scratch.path().join("state"), &arguments));
    // The contents there are known after a start, too.
    let again = Server::on(&[&root], &scratch.path().join("state"), &arguments);
    // Before that, uploads are let in: each has a name of its own, for a content may be replaced by one of its size.
    let mut names = (0..).map(|attempt| format!("/media/kept/late-{attempt}.ts"));
    until("the quota to be known", || match put(again.address, &names.next().expect("endless"), 2 * UPLOAD) {
        (507, true) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn of_a_volume() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disk = scratch.path().join("disk");
    File::create(&disk).and_then(|file| file.set_len(96 << 20)).expect("there is room");
    let disk = disk.to_str().expect("a plain path");
    let mut create = Command::new(program());
    create.args(["volume", "create", "--name", "v", "--layout", "span", "--unit", "1MiB", "--yes", disk]);
    assert!(create.status().expect("the program runs").success());
    let arguments = ["--config", &configuration(scratch.path()), "--volume", disk];
    check(&Server::on(&[], &scratch.path().join("state"), &arguments));
}
