//! Files that others change while they are served.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::client::pattern;
use crate::common::server::Server;

#[test]
fn a_file_that_is_truncated_while_it_streams_ends_the_stream() {
    let server = Server::start();
    let film = pattern(12_000_000);
    let path = server.file("film.ts", &film);
    let mut viewer = server.connect();
    viewer.get("/media/film.ts?rate=16M&burst=0");
    assert_eq!(viewer.head().status, 200);
    assert!(viewer.take(100_000) == film[..100_000]);
    File::options().write(true).open(&path).expect("the film").set_len(200_001).expect("truncated");
    let rest = viewer.take(film.len());
    let total = 100_000 + rest.len();
    assert!(total < film.len(), "the stream ends early");
    assert!(rest == film[100_000..total], "and never with wrong bytes");
    let event = server.wait_event(&["stream_ended", "film.ts", "ContentChanged"]);
    let event: serde_json::Value = serde_json::from_str(&event).expect("JSON");
    assert!(event["time"].as_f64().is_some_and(|time| time > 1.7e9), "{event}");
    assert!(event["sent_bytes"].as_u64().is_some_and(|sent| sent < 12_000_000), "{event}");
    // The next one gets the new bytes.
    let now = server.get("/media/film.ts?rate=16M");
    assert_eq!((now.status, now.body == film[..200_001]), (200, true));
}

/// The bytes of the film until its stream ends, which it does early, with an event; never others.
fn ends_with_its_own_bytes(server: &Server, name: &str, film: &[u8], change: impl FnOnce()) {
    let mut viewer = server.connect();
    // Without a burst: a reader that waits holds up reading then, however late the change comes.
    viewer.get(&format!("/media/{name}?rate=16M&burst=0"));
    let head = viewer.head();
    assert_eq!(head.status, 200);
    assert!(viewer.take(100_000) == film[..100_000]);
    change();
    let rest = viewer.take(film.len());
    let total = 100_000 + rest.len();
    assert!(total < film.len(), "{name}: the stream ends early");
    assert!(rest == film[100_000..total], "{name}: and never with wrong bytes");
    server.wait_event(&["stream_ended", name, "ContentChanged"]);
    // The next one gets the new bytes, under another tag.
    let now = server.get(&format!("/media/{name}?rate=100M"));
    assert!(now.body == fs::read(server.root.join(name)).expect("the film"), "{name}");
    assert_ne!(now.field("etag"), head.field("etag"), "{name}");
}

fn age(path: &Path) {
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(path).and_then(|file| file.set_modified(long_ago)).expect("a time");
}

#[test]
fn a_file_that_is_written_to_while_it_streams_ends_the_stream() {
    let server = Server::start();
    let film = pattern(16_000_000);
    let other = vec![b'x'; film.len()];
    let longer = vec![b'y'; film.len() + 4_000_000];
    for (name, aged) in [("fresh", false), ("aged", true)] {
        let path = server.file(name, &film);
        if aged {
            age(&path);
        }
        // `dd of=film conv=notrunc`
        let rewrite = || File::options().write(true).open(&path).expect("the film").write_all(&other).expect("room");
        ends_with_its_own_bytes(&server, name, &film, rewrite);
    }
    // `cp other film`: cut to nothing, then written anew.
    let path = server.file("copied", &film);
    ends_with_its_own_bytes(&server, "copied", &film, || fs::write(&path, &other).expect("room"));
    let path = server.file("longer", &film);
    age(&path);
    ends_with_its_own_bytes(&server, "longer", &film, || fs::write(&path, &longer).expect("room"));
    // One byte of it, at its end.
    let path = server.file("touched", &film);
    age(&path);
    let end = u64::try_from(film.len()).expect("small") - 1;
    let touch = || File::options().write(true).open(&path).expect("the film").write_all_at(b"z", end).expect("room");
    ends_with_its_own_bytes(&server, "touched", &film, touch);
}

/// `touch`, `chmod`, a backup that sets times back: nothing was written, so the streams continue; a write as well ends them.
#[test]
fn a_stream_survives_changed_times_of_its_file() {
    let server = Server::start();
    let film = pattern(8_000_000);
    let path = server.file("film", &film);
    age(&path);
    let mut viewer = server.connect();
    viewer.get("/media/film?rate=16M");
    assert_eq!(viewer.head().status, 200);
    let mut got = viewer.take(1_000_000);
    while got.len() < film.len() {
        let now = SystemTime::now();
        let times = FileTimes::new().set_accessed(now).set_modified(now);
        File::options().write(true).open(&path).and_then(|file| file.set_times(times)).expect("a time");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("permissions");
        let part = viewer.take(1_000_000.min(film.len() - got.len()));
        assert!(!part.is_empty(), "it ended after {}", got.len());
        got.extend(part);
    }
    assert!(got == film);
    // Written to, and its time set back to another: that is no touch.
    let other = vec![b'x'; film.len()];
    let path = server.file("restored", &film);
    age(&path);
    let rewrite = || {
        File::options().write(true).open(&path).expect("the film").write_all(&other).expect("room");
        let earlier = SystemTime::now() - Duration::from_secs(7200);
        File::options().write(true).open(&path).and_then(|file| file.set_modified(earlier)).expect("a time");
    };
    ends_with_its_own_bytes(&server, "restored", &film, rewrite);
}

#[test]
fn a_file_that_grows_while_it_streams_is_streamed_as_long_as_it_was() {
    let server = Server::start();
    let film = pattern(6_000_000);
    let path = server.file("growing", &film);
    let mut writer = File::options().append(true).open(&path).expect("the film");
    let mut viewer = server.connect();
    writer.write_all(&film[..1000]).expect("room");
    viewer.get("/media/growing?rate=16M");
    assert_eq!(viewer.head().status, 200);
    let mut got = Vec::new();
    while got.len() < film.len() {
        writer.write_all(&film[..1000]).expect("room");
        let part = viewer.take(100_000.min(film.len() - got.len()));
        assert!(!part.is_empty(), "it ended after {}", got.len());
        got.extend(part);
    }
    assert!(got == film);
}

#[test]
fn a_file_that_is_replaced_while_it_streams_is_finished_as_it_was() {
    let server = Server::start();
    let film = pattern(2_000_000);
    let path = server.file("film.ts", &film);
    let mut viewer = server.connect();
    viewer.get("/media/film.ts?rate=8M");
    let etag = viewer.head().field("etag").expect("a tag").to_owned();
    let other = vec![b'x'; 1_500_000];
    let beside = server.file("new.tmp", &other);
    fs::rename(&beside, &path).expect("replaced");
    let second = server.get("/media/film.ts?rate=50M");
    assert_ne!(second.field("etag"), Some(etag.as_str()));
    assert!(second.body == other, "a new request gets the new file");
    assert!(viewer.take(film.len()) == film, "the old one the old file, whole");
    server.wait_event(&["stream_ended", "film.ts", "Complete"]);

    // The same through an upload and through its deletion.
    let mut viewer = server.connect();
    viewer.get("/media/film.ts?rate=8M");
    assert_eq!(viewer.head().status, 200);
    assert_eq!(server.put("/media/film.ts", "", &film).status, 204);
    assert!(viewer.take(other.len()) == other);
    let mut viewer = server.connect();
    viewer.get("/media/film.ts?rate=8M");
    assert_eq!(viewer.head().status, 200);
    assert_eq!(server.ask("DELETE /media/film.ts HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 204);
    assert!(viewer.take(film.len()) == film);
    assert_eq!(server.get("/media/film.ts").status, 404);
}

#[test]
fn changes_by_other_programs_in_the_folder_are_seen() {
    let server = Server::start();
    let names = |server: &Server| -> Vec<String> {
        let list = server.ask("GET /media/ HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n").json();
        let entries = list.as_array().or_else(|| list["entries"].as_array()).expect("entries");
        entries.iter().map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&server), [""; 0]);
    assert_eq!(server.get("/media/a.ts").status, 404);
    server.file("a.ts", b"first");
    server.file("folder/b.ts", b"b");
    assert_eq!(server.get("/media/a.ts").text(), "first");
    assert_eq!(server.get("/media/folder/b.ts").text(), "b");
    // A listing may be as old as reading it took.
    server.wait_for("the names in a listing", |server| names(server) == ["a.ts", "folder"]);
    server.file("a.ts", b"second, and longer");
    assert_eq!(server.get("/media/a.ts?rate=1M").text(), "second, and longer");
    fs::rename(server.root.join("a.ts"), server.root.join("c.ts")).expect("renamed");
    assert_eq!((server.get("/media/a.ts").status, server.get("/media/c.ts").status), (404, 200));
    fs::remove_dir_all(server.root.join("folder")).expect("removed");
    assert_eq!(server.get("/media/folder/b.ts").status, 404);
    server.wait_for("the names in a listing", |server| names(server) == ["c.ts"]);
}
