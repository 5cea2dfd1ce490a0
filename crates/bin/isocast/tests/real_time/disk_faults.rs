//! A disk that errs, hangs and comes back, next to a good one, under streams and uploads.
//!
//! Promise: only the faulty disk's streams end, and never with a wrong byte; an upload to it ends with an error and leaves
//! nothing; the event log says so; admission refuses with its name; after its return all work continues. Uploads that share a
//! commit share its failure.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::common::content::Content;
use crate::common::disk::{Disk, FileSystem, possible};
use crate::common::http::{Client, Framing, Upload, fetch};
use crate::common::server::Server;
use crate::common::until;
use crate::ftp::Ftp;

const FILMS: u64 = 10;
const FILM_BYTES: u64 = 24 << 20;
const RATE: &str = "2M";

/// Ends the faults of a disk, also when the test fails meanwhile: a server cannot die while its disk hangs.
struct Revive<'a>(&'a Disk);

impl Drop for Revive<'_> {
    fn drop(&mut self) {
        self.0.ctl("fault clear; revive");
    }
}

fn film(folder: &str, number: u64) -> (String, Content) {
    let seed = number + if folder == "good" { 0 } else { 1000 };
    (format!("{folder}/{number}.bin"), Content { seed, bytes: FILM_BYTES })
}

fn furnish(disk: &Disk, folder: &str) {
    disk.ctl("timing off");
    fs::create_dir(disk.mount().join(folder)).expect("made");
    let mut bytes = vec![0; usize::try_from(FILM_BYTES).expect("fits")];
    for number in 0..FILMS {
        let (path, content) = film(folder, number);
        content.fill(0, &mut bytes);
        fs::write(disk.mount().join(path), &bytes).expect("written");
    }
    rustix::fs::syncfs(fs::File::open(disk.mount()).expect("opens")).expect("synced");
    disk.ctl("timing on");
}

/// A group of streams of one disk.
#[derive(Default)]
struct Group {
    over: AtomicBool,
    /// Streams that have got bytes.
    running: AtomicU64,
    /// Streams that ended before the order to end.
    broken: AtomicU64,
    bytes: AtomicU64,
}

/// Ends a group, also when the test fails meanwhile.
struct Stop<'a>(&'a Group);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

impl Group {
    /// Streams a film again and again, until `over` is set. Panics on a wrong byte and on a refusal.
    fn watch(&self, address: SocketAddr, folder: &str, number: u64) {
        let (path, content) = film(folder, number);
        let mut buffer = vec![0; 1 << 16];
        while !self.over.load(Relaxed) {
            let mut connection = Client::to(address);
            let answer = connection.try_ask("GET", &format!("/media/{path}?rate={RATE}")).expect("an answer");
            assert_eq!((answer.status, answer.length() as u64), (200, content.bytes), "{path}");
            let mut at = 0;
            while at < content.bytes && !self.over.load(Relaxed) {
                let Ok(count) = connection.try_some(&mut buffer) else {
                    self.broken.fetch_add(1, Relaxed);
                    return;
                };
                assert_eq!(content.difference(at, &buffer[..count]), None, "{path}");
                let count = u64::try_from(count).expect("fits");
                self.running.fetch_add(u64::from(at == 0), Relaxed);
                self.bytes.fetch_add(count, Relaxed);
                at += count;
            }
        }
    }

    fn wait_until_all_run(&self) {
        until("all streams", || {
            let running = self.running.load(Relaxed);
            if running >= FILMS { Ok(()) } else { Err(format!("{running} run")) }
        });
    }

    fn wait_until_all_broke(&self) {
        until("the end of the faulty disk's streams", || {
            let broken = self.broken.load(Relaxed);
            if broken == FILMS { Ok(()) } else { Err(format!("{broken} ended")) }
        });
    }
}

fn wait_stderr_words(server: &Server, words: &[&str]) {
    until("an event", || {
        let said = server.stderr_text();
        let found = said.lines().any(|line| words.iter().all(|word| line.contains(word)));
        if found { Ok(()) } else { Err(format!("{words:?} in {said}")) }
    });
}

fn put(address: SocketAddr, path: &str, bytes: u64) -> io::Result<u16> {
    let content = Content { seed: bytes, bytes };
    let mut connection = Client::try_to(address)?;
    let target = format!("/media/{path}");
    let upload = Upload { target: &target, fields: "", content, framing: Framing::Length, send_bytes: bytes };
    let answer = upload.run(&mut connection, &mut |_| ())?;
    Ok(answer.expect("all was sent").status)
}

/// Runs the bad disk's streams, does `harm` while they run, and waits until they have ended for it.
fn under_streams(server: &Server, harm: impl FnOnce()) {
    let group = Group::default();
    thread::scope(|scope| {
        let _stop = Stop(&group);
        for number in 0..FILMS {
            let (group, address) = (&group, server.address);
            scope.spawn(move || group.watch(address, "bad", number));
        }
        group.wait_until_all_run();
        harm();
        group.wait_until_all_broke();
    });
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("reads").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Streams and uploads of the bad disk are as if nothing had been.
fn assert_well(server: &Server, name: &str) {
    let (path, content) = film("bad", 0);
    until("a stream from the disk that is back", || {
        match fetch(server.address, "GET", &format!("/media/{path}?rate=max")) {
            Ok((200, body)) => {
                assert_eq!(content.difference(0, &body), None);
                Ok(())
            }
            other => Err(format!("{:?}", other.map(|(status, _)| status))),
        }
    });
    // A disk that erred is given uploads again after it has been without an error for a while.
    until("an upload to the disk that is back", || match put(server.address, &format!("bad/{name}"), 300_001) {
        Ok(201) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    until("a disk that is not failing", || match fetch(server.address, "GET", "/api/v1/disks") {
        Ok((200, body)) if !is_failing(&body, 1) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

fn is_failing(disks: &[u8], disk: usize) -> bool {
    of_disk(disks, disk)["failing"].as_bool().expect("true or false")
}

fn of_disk(disks: &[u8], disk: usize) -> serde_json::Value {
    let disks: serde_json::Value = serde_json::from_slice(disks).expect("JSON");
    disks[disk].clone()
}

/// New streams and uploads are refused in the bad disk's name, and it is shown as failing, and how.
fn assert_refused(server: &Server, failure: &str) {
    let (path, _) = film("bad", 3);
    let refused = until("a refusal", || match fetch(server.address, "GET", &format!("/media/{path}?rate={RATE}")) {
        Ok((503, body)) => Ok(String::from_utf8(body).expect("text")),
        other => Err(format!("{:?}", other.map(|(status, _)| status))),
    });
    let (_, disks) = fetch(server.address, "GET", "/api/v1/disks").expect("the disks");
    let name = of_disk(&disks, 1)["name"].as_str().expect("a name").to_owned();
    assert!(
        refused.contains("\"resource\":\"disk_failing\"") && refused.contains(&format!("\"name\":\"{name}\"")),
        "{refused}"
    );
    assert!(is_failing(&disks, 1) && !is_failing(&disks, 0), "{}", String::from_utf8_lossy(&disks));
    let (_, metrics) = fetch(server.address, "GET", "/metrics").expect("metrics");
    let metrics = String::from_utf8(metrics).expect("text");
    let failing = metrics.lines().filter(|line| line.starts_with("isocast_disk_failing{") && line.ends_with(" 1"));
    assert_eq!(failing.count(), 1, "{metrics}");
    until("the kind of its failure", || {
        let (_, disks) = fetch(server.address, "GET", "/api/v1/disks").expect("the disks");
        let disks: serde_json::Value = serde_json::from_slice(&disks).expect("JSON");
        if disks[1]["failure"] == failure && disks[0]["failure"].is_null() { Ok(()) } else { Err(disks.to_string()) }
    });
}

/// Clients of WebDAV and FTP have an answer though the disk of `bad` hangs: a change is refused (503), or may be made later where the
/// disk's thread had begun it (504), names may still be in memory. Those of the other disk are served.
fn assert_shares_answer(server: &Server, ftp: &mut Ftp) {
    let (path, content) = film("bad", 0);
    let dav = |method: &str, path: &str, fields: &str| {
        server
            .ask(&format!("{method} /media/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{fields}\r\n"))
            .status
    };
    assert!([207, 503].contains(&dav("PROPFIND", &path, "Depth: 0\r\n")));
    // Not a film: it may be moved after all.
    let changes = [("MKCOL", "bad/made", ""), ("MOVE", "bad/spare", "Destination: /media/bad/moved\r\n")];
    for (method, path, fields) in changes {
        let status = dav(method, path, fields);
        assert!([503, 504].contains(&status), "{method}: {status}");
    }
    let (good, _) = film("good", 0);
    assert_eq!(dav("PROPFIND", &good, "Depth: 0\r\n"), 207);
    assert_eq!(ftp.ask(&format!("SIZE /{good}")), (213, format!("213 {}\r\n", content.bytes)));
    for command in ["SIZE", "RNFR"] {
        let (code, text) = ftp.ask(&format!("{command} /{path}"));
        assert_ne!(code, 0, "{command}: {text}");
    }
    let (code, text) = ftp.store("STOR /bad/while-stored", b"x");
    assert!((400..600).contains(&code), "{text}");
}

#[test]
fn a_faulty_disk_harms_no_other_disk_and_comes_back() {
    // The films of both disks, uploads, and as much for the file systems' own writes.
    if !possible(4 * FILMS * FILM_BYTES) {
        return;
    }
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disks = ["good", "bad"].map(|name| (name, Disk::up(name, "8G", FileSystem::Ext4)));
    for (name, disk) in &disks {
        furnish(disk, name);
        Server::calibrate(&disk.mount(), state.path());
    }
    let [(_, good), (_, bad)] = &disks;
    let server = Server::on(&[&good.mount(), &bad.mount()], state.path(), &["--set", "ftp.listen=127.0.0.1:0"]);
    let mut ftp = Ftp::anonymous(&server);
    let revived = Revive(bad);
    let others = Group::default();
    thread::scope(|scope| {
        let _stop = Stop(&others);
        for number in 0..FILMS {
            let (others, address) = (&others, server.address);
            scope.spawn(move || others.watch(address, "good", number));
        }
        others.wait_until_all_run();
        let before = others.bytes.load(Relaxed);

        // It errs.
        under_streams(&server, || {
            bad.ctl("fault 0 8G r");
        });
        wait_stderr_words(&server, &["disk_failing", "\"disk\":1", "\"hung\":false"]);
        assert_refused(&server, "erring");
        assert_eq!(put(server.address, "bad/while-it-errs", 1000).expect("an answer"), 503);
        assert_eq!(put(server.address, "good/while-it-errs", 3_000_001).expect("an answer"), 201);
        bad.ctl("fault clear");
        assert_well(&server, "after-errors");

        // It hangs, with half an upload on its way.
        assert_eq!(put(server.address, "bad/spare", 1000).expect("an answer"), 201);
        let content = Content { seed: 5, bytes: 9 << 20 };
        let mut half = Client::to(server.address);
        let (target, framing, send_bytes) = ("/media/bad/half", Framing::Length, content.bytes / 2);
        let sent = Upload { target, fields: "", content, framing, send_bytes }.run(&mut half, &mut |_| ());
        assert!(sent.expect("sent").is_none());
        under_streams(&server, || {
            bad.ctl("hang");
        });
        wait_stderr_words(&server, &["disk_failing", "\"disk\":1", "\"hung\":true"]);
        assert_refused(&server, "hung");
        assert_shares_answer(&server, &mut ftp);
        let late = put(server.address, "bad/while-it-hangs", 1_000_000);
        assert!(late.as_ref().map_or(true, |status| *status >= 500), "{late:?}");
        assert_eq!(put(server.address, "good/while-it-errs", 3_000_002).expect("an answer"), 204);
        assert_eq!(put(server.address, "good/while-it-hangs", 3_000_003).expect("an answer"), 201, "a new name, too");
        drop(half);

        bad.ctl("revive");
        wait_stderr_words(&server, &["disk_recovered", "\"disk\":1"]);
        assert_well(&server, "after-hanging");
        until("the end of what was not finished", || {
            let names = names_in(&bad.mount().join("bad"));
            let strange = names.iter().any(|name| name.starts_with('.') || name == "half" || name.contains("while"));
            if strange { Err(format!("{names:?}")) } else { Ok(()) }
        });

        // It hangs while no stream reads from it: a refused request is not carried out after its return, and a request that may still be
        // carried out is not refused.
        let told = |kind: &str| server.stderr_text().matches(kind).count();
        let (failed, recovered) = (told("disk_failing"), told("disk_recovered"));
        bad.ctl("hang");
        let ask =
            |method, path: &str| fetch(server.address, method, &format!("/media/bad/{path}")).map(|(status, _)| status);
        let created = put(server.address, "bad/empty", 0).expect("an answer");
        assert!([503, 504].contains(&created), "{created}");
        assert_eq!(put(server.address, "bad/empty-later", 0).expect("an answer"), 503);
        assert_eq!(ask("DELETE", "after-errors").expect("an answer"), 503);
        until("an event", || if told("disk_failing") > failed { Ok(()) } else { Err(server.stderr_text()) });
        bad.ctl("revive");
        assert_well(&server, "after-a-silence");
        until("an event", || if told("disk_recovered") > recovered { Ok(()) } else { Err(server.stderr_text()) });
        if created == 503 {
            assert_eq!(ask("GET", "empty").expect("an answer"), 404);
        }
        assert_eq!(ask("GET", "empty-later").expect("an answer"), 404);
        assert_eq!(ask("GET", "after-errors").expect("an answer"), 200);

        // The others have noticed nothing.
        assert_eq!(others.broken.load(Relaxed), 0);
        assert!(others.bytes.load(Relaxed) > before);
    });
    drop(revived);
    let (status, said) = server.stop();
    assert!(status.success() && !said.contains("panicked"), "{said}");
    for (_, disk) in disks {
        disk.end();
    }
}

/// The first of several roots is searched first, for every name: the contents of the others are found there all the same.
#[test]
fn a_first_root_that_cannot_be_read_hides_no_other() {
    if !possible(4 * FILMS * FILM_BYTES) {
        return;
    }
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disks = ["bad", "good"].map(|name| (name, Disk::up(&format!("{name}-first"), "8G", FileSystem::Ext4)));
    for (name, disk) in &disks {
        furnish(disk, name);
        Server::calibrate(&disk.mount(), state.path());
    }
    let [(_, bad), (_, good)] = &disks;
    for (_, disk) in &disks {
        fs::create_dir(disk.mount().join("both")).expect("made");
    }
    let server = Server::on(&[&bad.mount(), &good.mount()], state.path(), &[]);
    let revived = Revive(bad);
    let ask = |target: &str| {
        let (status, body) = fetch(server.address, "GET", target).expect("an answer");
        (status, String::from_utf8_lossy(&body).into_owned())
    };

    // Nothing of it is in memory (bytes not written yet would stay there), and it answers with errors only.
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").expect("caches are dropped");
    bad.ctl("drop; die");
    let (path, content) = film("good", 0);
    let (status, body) = fetch(server.address, "GET", &format!("/media/{path}?rate=max")).expect("an answer");
    assert_eq!((status, content.difference(0, &body)), (200, None));
    let (status, names) = ask("/media/?format=json");
    assert!(status == 200 && names.contains("\"good\""), "{status} {names}");
    assert_eq!(put(server.address, "good/while-the-first-errs", 3_000_001).expect("an answer"), 201);
    let (status, refused) = ask(&format!("/media/{}?rate={RATE}", film("bad", 0).0));
    assert!(status == 503 && refused.contains("\"resource\":\"disk_failing\""), "{status} {refused}");
    let disks_now: serde_json::Value = serde_json::from_str(&ask("/api/v1/disks").1).expect("JSON");
    assert!(disks_now[0]["errors"].as_u64() > Some(0) && disks_now[1]["errors"] == 0, "{disks_now}");

    drop(revived);
    until("a stream from the disk that is back", || match ask(&format!("/media/{}?rate=max", film("bad", 0).0)) {
        (200, _) => Ok(()),
        other => Err(format!("{other:?}")),
    });

    // Read-only, with the most space: a new name goes to the root that can take it; contents of this root cannot be replaced.
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(bad.mount()).status().expect("mount is there");
    assert!(remounted.success());
    assert_eq!(put(server.address, "both/while-the-first-is-read-only", 1000).expect("an answer"), 201);
    assert_eq!(put(server.address, &film("bad", 1).0, 1000).expect("an answer"), 507);
    let (status, said) = server.stop();
    assert!(status.success() && !said.contains("panicked"), "{said}");
    for (_, disk) in disks {
        disk.end();
    }
}

/// First byte and length of the journal of a fresh ext4.
fn journal(disk: &Disk) -> (u64, u64) {
    let said =
        Command::new("debugfs").args(["-R", "stat <8>"]).arg(disk.device()).output().expect("e2fsprogs is there");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    // One line: `(0-16383):1081344-1097727`.
    let (_, extents) = said.split_once("EXTENTS:").expect("a journal in extents");
    let (_, blocks) = extents.trim().rsplit_once(':').expect("an extent");
    let (first, last) = blocks.split_once('-').expect("in one piece");
    let [first, last] = [first, last].map(|block| block.parse::<u64>().expect("a number"));
    (first * 4096, (last + 1 - first) * 4096)
}

#[test]
fn uploads_that_share_a_commit_share_its_failure() {
    const UPLOADS: u32 = 24;
    if !possible(256 << 20) {
        return;
    }
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disk = Disk::up("journal", "8G", FileSystem::Ext4);
    Server::calibrate(&disk.mount(), state.path());
    let server = Server::on(&[&disk.mount()], state.path(), &[]);
    let begin = |number: u32| {
        let mut client = Client::to(server.address);
        let head = format!("PUT /media/{number} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(head);
        // As much as is written without waiting for the end.
        client.send([b"100000\r\n".as_slice(), &vec![b'x'; 1 << 20], b"\r\n"].concat());
        client
    };
    let mut clients: Vec<_> = (0..UPLOADS).map(begin).collect();
    until("all to be written", || {
        let bytes = server.best_effort_bytes();
        if bytes >= f64::from(UPLOADS << 20) { Ok(()) } else { Err(format!("{bytes} bytes")) }
    });
    rustix::fs::syncfs(fs::File::open(disk.mount()).expect("opens")).expect("synced");
    let (start, bytes) = journal(&disk);
    disk.ctl(&format!("fault {start}B {bytes}B w 0s"));
    // Nothing but the end is missing: they come to one commit.
    for client in &mut clients {
        client.stream.write_all(b"0\r\n\r\n").expect("sent");
    }
    let answers: Vec<u16> = clients.iter_mut().map(|client| client.answer(true).status).collect();
    assert!(answers.iter().all(|status| *status >= 500), "acknowledged without a journal: {answers:?}");
    let (status, said) = server.stop();
    assert!(status.success() && !said.contains("panicked"), "{said}");
    disk.ctl("fault clear");
    disk.end();
}
