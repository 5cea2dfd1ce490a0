//! Uploads that continue (tus 1.0) on a folder and on a volume: cut, killed, in parts, with lies and checksums.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::common::client::{Answer, Client, pattern};
use crate::common::server::{Server, Setup};
use crate::common::skip::skipped;
use crate::common::until;
use crate::common::volume::{disks, joined, volume};

const OFFSET_BYTES: &str = "Content-Type: application/offset+octet-stream\r\n";

fn ask(client: &mut Client, method: &str, target: &str, fields: &str, body: &[u8]) -> Answer {
    let length = body.len();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nTus-Resumable: 1.0.0\r\nContent-Length: {length}\r\n{fields}\r\n"
    ));
    let _ = client.stream.write_all(body);
    let mut answer = client.head();
    if method != "HEAD" {
        client.try_body(&mut answer).expect("a whole body");
    }
    answer
}

fn one(server: &Server, method: &str, target: &str, fields: &str, body: &[u8]) -> Answer {
    ask(&mut server.connect(), method, target, fields, body)
}

fn path(path: &str) -> String {
    format!("Upload-Metadata: path {},mtime {}\r\n", STANDARD.encode(path), STANDARD.encode("1600000000"))
}

pub(crate) fn create(server: &Server, at: &str, length: usize) -> String {
    let created = one(server, "POST", "/upload/", &format!("{}Upload-Length: {length}\r\n", path(at)), b"");
    assert_eq!(created.status, 201, "{}", created.text());
    assert!(created.field("upload-expires").is_some() && created.field("tus-resumable") == Some("1.0.0"));
    created.field("location").expect("an address").to_owned()
}

pub(crate) fn offset(server: &Server, upload: &str) -> usize {
    let state = one(server, "HEAD", upload, "", b"");
    assert_eq!(state.status, 200, "{upload}");
    state.field("upload-offset").expect("an offset").parse().expect("a number")
}

pub(crate) fn patch(server: &Server, upload: &str, from: usize, bytes: &[u8]) -> Answer {
    one(server, "PATCH", upload, &format!("{OFFSET_BYTES}Upload-Offset: {from}\r\n"), bytes)
}

/// Sends a part of the announced bytes, and breaks off.
pub(crate) fn cut(server: &Server, upload: &str, from: usize, bytes: &[u8], announced: usize) -> Client {
    let mut client = server.connect();
    client.send(format!(
        "PATCH {upload} HTTP/1.1\r\nHost: localhost\r\nTus-Resumable: 1.0.0\r\n{OFFSET_BYTES}\
         Content-Length: {announced}\r\nUpload-Offset: {from}\r\n\r\n"
    ));
    client.stream.write_all(bytes).expect("it reads");
    client
}

fn on_folder(folder: &Path) -> Server {
    let [first, second] = ["root", "second"].map(|name| folder.join(name));
    std::fs::create_dir_all(&first).expect("a folder");
    let roots: &[&Path] = if second.exists() { &[&first, &second] } else { &[&first] };
    Server::on(roots, &folder.join("state"), &[])
}

fn on_volume(folder: &Path) -> Server {
    let disks: Vec<_> = ["disk0", "disk1"].iter().map(|name| folder.join(name)).collect();
    Server::on(&[], &folder.join("state"), &["--volume", &joined(&disks)])
}

/// Does the same on a folder and on a volume.
fn on_both(test: impl Fn(&str, &dyn Fn() -> Server)) {
    let place = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let folder = place();
    test("folder", &|| on_folder(folder.path()));
    let folder = place();
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks(folder.path(), 2));
    test("volume", &|| on_volume(folder.path()));
}

#[test]
fn an_upload_continues_after_cuts_kills_and_restarts() {
    on_both(|place, start| {
        let (bytes, mut server) = (pattern(9_000_000), start());
        let upload = create(&server, "new/folder/film.ts", bytes.len());
        assert_eq!(offset(&server, &upload), 0);
        let (mut at, mut kills) = (0, 0);
        for step in 0..24 {
            let length = (bytes.len() / 20 + step * 1000).min(bytes.len() - at);
            if length == 0 {
                break;
            }
            let piece = &bytes[at..at + length];
            match step % 4 {
                0 => {
                    let answer = patch(&server, &upload, at, piece);
                    if answer.status == 409 {
                        // A request that broke off came to its bytes later.
                        at = offset(&server, &upload);
                        continue;
                    }
                    assert_eq!(answer.status, 204, "{place} {step}");
                }
                // Another request takes over from a hanging one.
                1 => {
                    let hangs = cut(&server, &upload, at, piece, bytes.len() - at);
                    assert!(offset(&server, &upload) >= at, "{place} {step}");
                    drop(hangs);
                }
                2 => drop(cut(&server, &upload, at, &piece[..length / 2], length)),
                _ => {
                    let hangs = cut(&server, &upload, at, piece, bytes.len() - at);
                    server.kill();
                    drop(hangs);
                    (server, kills) = (start(), kills + 1);
                }
            }
            let now = offset(&server, &upload);
            assert!((at..=bytes.len()).contains(&now), "{place} {step}: {now} after {at}");
            assert!(step % 4 != 0 || now == at + length, "acknowledged bytes are there");
            at = now;
            assert_eq!(server.get("/media/new/folder/film.ts").status, 404, "nothing half is visible");
        }
        assert!(kills >= 3);
        at = offset(&server, &upload);
        let listed = server.json("/api/v1/uploads");
        assert!(listed[0]["path"] == "new/folder/film.ts" && listed[0]["length"] == bytes.len(), "{listed}");
        assert_eq!(listed[0]["offset"], at, "{listed}");
        assert_eq!(patch(&server, &upload, at, &bytes[at..]).status, 204, "{place}");
        let stored = server.get("/media/new/folder/film.ts");
        assert!(stored.body == bytes, "{place}: the same bytes");
        assert_eq!(stored.field("last-modified"), Some("Sun, 13 Sep 2020 12:26:40 GMT"), "{place}");
        assert_eq!((offset(&server, &upload), server.json("/api/v1/uploads")), (bytes.len(), serde_json::json!([])));
        assert_eq!(one(&server, "DELETE", "/media/new/folder/film.ts", "", b"").status, 204);
        assert_eq!(
            one(&server, "DELETE", "/media/new/folder", "", b"").status / 100,
            if place == "folder" { 2 } else { 4 }
        );
        server.stop();
    });
}

#[test]
fn the_first_answer_after_a_kill_counts_the_bytes_that_the_kill_left() {
    // A volume records the bytes that its disks have flushed, which no figure shows.
    const ATTEMPTS: usize = 5;
    const FOLDERS: usize = 3_000;
    on_both(|place, start| {
        let (bytes, mut server) = (pattern(9_000_000), start());
        if place == "folder" {
            // The start's look for leftovers comes to the upload's folder last.
            (0..FOLDERS).for_each(|number| fs::create_dir(server.root.join(number.to_string())).expect("a folder"));
            fs::create_dir_all(server.root.with_file_name("second").join("new")).expect("a folder");
            server.stop();
            server = start();
        }
        let (mut upload, mut at) = (String::new(), 0);
        for _ in 0..ATTEMPTS {
            upload = create(&server, "new/film.ts", bytes.len());
            let before = server.best_effort_bytes();
            let hangs = cut(&server, &upload, 0, &bytes[..8_000_000], bytes.len());
            server.wait_for("written bytes", |server| server.best_effort_bytes() >= before + 7.0e6);
            server.kill();
            drop(hangs);
            server = start();
            at = offset(&server, &upload);
            if at > 0 {
                break;
            }
        }
        assert!(at > 0, "{place}: the bytes that were written are not counted");
        assert_eq!(patch(&server, &upload, at, &bytes[at..]).status, 204, "{place}");
        assert!(server.get("/media/new/film.ts").body == bytes, "{place}: other bytes");
        server.stop();
    });
}

#[test]
fn tus_js_client_continues_after_cuts_and_kills() {
    let packages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../web/node_modules");
    if !Path::new(packages).join("tus-js-client").exists() {
        skipped("tus-js-client is not there (`scripts/setup`)");
        return;
    }
    on_both(|place, start| {
        let (bytes, mut server) = (pattern(6_000_000), start());
        let folder = tempfile::tempdir().expect("a folder");
        let (file, store) = (folder.path().join("film.ts"), folder.path().join("store.json"));
        std::fs::write(&file, &bytes).expect("room");
        let upload = |server: &Server, stop_at: &[&str]| {
            let mut node = Command::new("node");
            node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tus_client.mjs")).arg(packages);
            node.arg(format!("http://{}/upload/", server.address)).arg(&file).arg("clips/film.ts").arg(&store);
            let output = node.args(stop_at).output().expect("node runs");
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        for stop_at in ["1000000", "2500000", "4000000"] {
            let (code, said) = upload(&server, &[stop_at]);
            let first = if stop_at == "1000000" { "begins" } else { "continues" };
            assert_eq!((code, said.trim()), (Some(3), first), "{place}");
            assert!(server.get("/media/clips/film.ts").status == 404, "{place}: nothing half is visible");
            if stop_at == "2500000" {
                let before = server.address.to_string();
                server.kill();
                server = start();
                // The address that the client kept has the port of the server before.
                let kept = std::fs::read_to_string(&store).expect("kept");
                std::fs::write(&store, kept.replace(&before, &server.address.to_string())).expect("room");
            }
        }
        assert_eq!(upload(&server, &[]), (Some(0), "continues\ndone\n".to_owned()), "{place}");
        let stored = server.get("/media/clips/film.ts");
        assert!(stored.body == bytes, "{place}: the same bytes");
        assert_eq!(stored.field("last-modified"), Some("Sun, 13 Sep 2020 12:26:40 GMT"), "{place}");
        server.stop();
    });
}

#[test]
fn an_upload_in_one_request_a_deferred_length_and_parts_of_one_content() {
    on_both(|place, start| {
        let server = start();
        let whole =
            one(&server, "POST", "/upload/", &format!("{}{OFFSET_BYTES}Upload-Length: 5\r\n", path("one")), b"bytes");
        assert_eq!((whole.status, whole.field("upload-offset")), (201, Some("5")), "{place}");
        assert_eq!(server.get("/media/one").text(), "bytes");
        assert_eq!(create(&server, "empty", 0).len(), "/upload/".len() + 32);
        assert_eq!(server.get("/media/empty").status, 200);
        let later = one(&server, "POST", "/upload", &format!("{}Upload-Defer-Length: 1\r\n", path("later")), b"");
        let later = later.field("location").expect("an address");
        assert_eq!(one(&server, "HEAD", later, "", b"").field("upload-defer-length"), Some("1"));
        assert_eq!(patch(&server, later, 0, b"abc").status, 204);
        let fields = format!("{OFFSET_BYTES}Upload-Offset: 3\r\nUpload-Length: 6\r\n");
        assert_eq!(one(&server, "PATCH", later, &fields, b"def").status, 204);
        assert_eq!(server.get("/media/later").text(), "abcdef", "{place}");
        let part = |bytes: &[u8]| {
            let fields = format!("Upload-Concat: partial\r\nUpload-Length: {}\r\n", bytes.len());
            let part = one(&server, "POST", "/upload/", &fields, b"").field("location").expect("an address").to_owned();
            assert_eq!(patch(&server, &part, 0, bytes).status, 204);
            part
        };
        let (first, second) = (part(&pattern(1_500_000)), part(b"end"));
        let fields = |parts: &str| format!("{}Upload-Concat: final;{parts}\r\n", path("joined"));
        assert_eq!(one(&server, "POST", "/upload/", &fields("/upload/none"), b"").status, 400);
        let joined = one(&server, "POST", "/upload/", &fields(&format!("{first} http://h{second}")), b"");
        assert_eq!(joined.status, 201, "{place}: {}", joined.text());
        let mut bytes = pattern(1_500_000);
        bytes.extend_from_slice(b"end");
        assert!(server.get("/media/joined").body == bytes, "{place}");
        assert_eq!(one(&server, "HEAD", &first, "", b"").status, 404, "it is over");
        let names = server.json("/media/?format=json");
        assert_eq!(names.as_array().expect("a listing").len(), 4, "nothing else is there: {names}");
        server.stop();
    });
}

#[test]
fn a_put_continues_a_content_that_its_client_knows() {
    on_both(|place, start| {
        let (server, bytes) = (start(), pattern(3_000_000));
        let (target, range) = ("/media/a", |first: usize| format!("Content-Range: bytes {first}-2999999/3000000\r\n"));
        assert_eq!(one(&server, "PUT", target, "", &bytes[..1_000_000]).status, 201, "{place}");
        let tag = server.get(target).field("etag").expect("a tag").to_owned();
        let known = format!("If-Match: {tag}\r\n");
        let part = |fields: &str, first: usize| one(&server, "PUT", target, fields, &bytes[first..]).status;
        let sum = format!("{known}{}Content-MD5: kAFQmDzST7DWlj99KOF/cg==\r\n", range(1_000_000));
        for (fields, first, status) in [
            (range(1_000_000), 1_000_000, 400),
            (format!("If-Match: *\r\n{}", range(1_000_000)), 1_000_000, 400),
            (format!("{known}{}", range(1_000_000)), 1_000_001, 400),
            (format!("{known}Content-Range: bytes 1000000-2999999/3000001\r\n"), 1_000_000, 400),
            (format!("{known}Content-Range: bytes 1000000-99999999999999999999/*\r\n"), 1_000_000, 400),
            (sum, 1_000_000, 400),
            (format!("If-Match: \"other\"\r\n{}", range(1_000_000)), 1_000_000, 412),
            (format!("{known}{}", range(999_999)), 999_999, 409),
        ] {
            assert_eq!(part(&fields, first), status, "{place}: {fields}");
        }
        assert!(server.get(target).body == bytes[..1_000_000], "{place}: as it was");
        assert_eq!(part(&format!("{known}{}", range(1_000_000)), 1_000_000), 204, "{place}");
        assert!(server.get(target).body == bytes, "{place}");
        assert_eq!(part(&format!("{known}{}", range(1_000_000)), 1_000_000), 412, "{place}: it is another now");
        server.stop();
    });
}

#[test]
fn wrong_requests_change_nothing() {
    on_both(|place, start| {
        let server = start();
        let options = one(&server, "OPTIONS", "/upload/", "", b"");
        assert_eq!((options.status, options.field("tus-version")), (204, Some("1.0.0")));
        assert!(options.field("tus-extension").is_some_and(|all| all.contains("creation-with-upload")));
        let mut client = server.connect();
        client.send("POST /upload/ HTTP/1.1\r\nHost: localhost\r\nUpload-Length: 1\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.answer(true).status, 412, "without the version");
        let (length, long) = ("Upload-Length: 1\r\n", format!("Upload-Metadata: path {}\r\n", "A".repeat(5000)));
        for (fields, status) in [
            (length.to_owned(), 400),
            (path("a"), 400),
            (format!("{length}Upload-Metadata: path !\r\n"), 400),
            (format!("{length}Upload-Metadata: path {}\r\n", STANDARD.encode("../a")), 400),
            (format!("{length}{long}"), 400),
            (format!("{length}{}", path(".a/b")), 403),
            (format!("{}Upload-Length: -1\r\n", path("a")), 400),
            (format!("{}Upload-Length: 99999999999999999\r\n", path("a")), 413),
            (format!("{length}{}Upload-Concat: half\r\n", path("a")), 400),
        ] {
            assert_eq!(one(&server, "POST", "/upload/", &fields, b"").status, status, "{place}: {fields}");
        }
        assert_eq!(server.json("/api/v1/uploads"), serde_json::json!([]));
        let upload = create(&server, "a", 6);
        for from in [1, 7] {
            assert_eq!(patch(&server, &upload, from, b"x").status, 409, "{place}: {from}");
        }
        assert_eq!(patch(&server, &upload, 0, b"more than six").status, 413, "{place}");
        assert_eq!(one(&server, "PATCH", &upload, "Upload-Offset: 0\r\n", b"x").status, 415);
        let with = |sum: &str| format!("{OFFSET_BYTES}Upload-Offset: 0\r\nUpload-Checksum: {sum}\r\n");
        for (sum, status) in [("sha1 AAAA", 460), ("crc32 AAAA", 400), ("sha1", 400)] {
            assert_eq!(one(&server, "PATCH", &upload, &with(sum), b"abc").status, status, "{place}: {sum}");
            assert_eq!(offset(&server, &upload), 0, "{place}: {sum}");
        }
        assert_eq!(one(&server, "PATCH", &upload, &with("sha1 qZk+NkcGgWq6PiVxeFDCbJzQ2J0="), b"abc").status, 204);
        assert_eq!(offset(&server, &upload), 3);
        assert_eq!(one(&server, "POST", &upload, "X-HTTP-Method-Override: DELETE\r\n", b"").status, 204);
        for method in ["HEAD", "PATCH", "DELETE"] {
            let fields = format!("{OFFSET_BYTES}Upload-Offset: 3\r\n");
            assert_eq!(one(&server, method, &upload, &fields, b"").status, 404, "{place}: {method}");
        }
        assert_eq!((server.get("/media/a").status, server.get("/upload/").status), (404, 412));
        server.stop();
    });
}

#[test]
fn an_upload_of_a_new_content_replaces_none() {
    on_both(|place, start| {
        let server = start();
        let begin = |fields: &str| {
            one(&server, "POST", "/upload/", &format!("{}Upload-Length: 6\r\n{fields}", path("film.ts")), b"")
        };
        let content = || one(&server, "GET", "/media/film.ts", "", b"").body;
        let address = |created: Answer| created.field("location").expect("an address").to_owned();
        let only_new = || begin("If-None-Match: *\r\n");
        assert_eq!(begin("If-Match: \"a\"\r\n").status, 400, "{place}");
        let (whole, parts) = (address(only_new()), address(only_new()));
        assert_eq!(patch(&server, &parts, 0, b"of").status, 204, "{place}");
        assert_eq!(one(&server, "PUT", "/media/film.ts", "", b"other").status, 201, "{place}");
        assert_eq!(patch(&server, &whole, 0, b"a film").status, 412, "{place}: the one part");
        assert_eq!(patch(&server, &parts, 2, b"film").status, 412, "{place}: several parts");
        assert_eq!((only_new().status, content()), (412, b"other".to_vec()), "{place}");
        assert_eq!(one(&server, "DELETE", "/media/film.ts", "", b"").status, 204, "{place}");
        assert_eq!(patch(&server, &parts, 6, b"").status, 204, "{place}: the name is free again");
        assert_eq!(content(), b"offilm", "{place}");
        assert_eq!(patch(&server, &parts, 6, b"").status, 204, "{place}: the last answer was lost");
        assert_eq!(patch(&server, &parts, 6, b"more").status, 413, "{place}");
        assert_eq!(patch(&server, &address(begin("")), 0, b"a film").status, 204, "{place}: without the condition");
        assert_eq!(content(), b"a film", "{place}");
    });
}

#[test]
fn of_two_writers_of_one_upload_the_newer_continues_it_alone() {
    on_both(|place, start| {
        let server = start();
        let film = pattern(300_000);
        let upload = create(&server, "a", film.len());
        let mut first = cut(&server, &upload, 0, &film[..100_000], film.len());
        let sends = std::thread::spawn(move || first.stream.write_all(&film[100_000..200_000]).map(|()| film));
        // The older one may have come further since that answer.
        let film = pattern(300_000);
        let statuses = (0..10).map(|_| {
            let from = offset(&server, &upload);
            patch(&server, &upload, from, &film[from..]).status
        });
        let refused = statuses.take_while(|status| *status != 204).collect::<Vec<_>>();
        assert!(refused.len() < 10 && refused.iter().all(|status| *status == 409), "{place}: {refused:?}");
        drop(sends.join().expect("no panic"));
        assert!(server.get("/media/a").body == film, "{place}: other bytes");
        server.stop();
    });
}

#[test]
fn metadata_of_a_megabyte_is_refused() {
    let server = Setup::default().start();
    let fields = format!("Upload-Length: 1\r\nUpload-Metadata: path YQ==,x {}\r\n", "A".repeat(1 << 20));
    assert_eq!(one(&server, "POST", "/upload/", &fields, b"").status, 431);
    assert_eq!(server.json("/api/v1/uploads"), serde_json::json!([]));
}

const INTEROP_6: &str = "Upload-Draft-Interop-Version: 6\r\n";

/// The head of an interim response, and the upload that it names.
fn resumption(client: &mut Client) -> String {
    let interim = client.head();
    assert_eq!((interim.status, interim.field("upload-draft-interop-version")), (104, Some("6")));
    let (_, upload) = interim.field("location").expect("an address").split_once("localhost").expect("the server's");
    upload.to_owned()
}

#[test]
fn a_put_of_apples_systems_continues_after_a_cut() {
    on_both(|place, start| {
        let (server, bytes) = (start(), pattern(3_000_000));
        let put = |name: &str, sent: &[u8]| {
            let mut client = server.connect();
            client.send(format!(
                "PUT /media/{name} HTTP/1.1\r\nHost: localhost\r\n{INTEROP_6}Upload-Complete: ?1\r\nContent-Length: {}\r\n\r\n",
                bytes.len()
            ));
            let upload = resumption(&mut client);
            client.stream.write_all(sent).expect("it reads");
            (client, upload)
        };
        let (mut whole, _) = put("whole", &bytes);
        let answer = whole.answer(true);
        assert_eq!((answer.status, answer.field("upload-complete")), (201, Some("?1")), "{place}");
        assert!(server.get("/media/whole").body == bytes, "{place}");
        let (broken, upload) = put("cut", &bytes[..2_000_000]);
        drop(broken);
        let fields = |at: usize, complete: &str| {
            let of_part = "Content-Type: application/partial-upload\r\n";
            format!("{INTEROP_6}{of_part}Upload-Offset: {at}\r\nUpload-Complete: {complete}\r\n")
        };
        let state = one(&server, "HEAD", &upload, INTEROP_6, b"");
        assert_eq!((state.status, state.field("upload-complete")), (204, Some("?0")), "{place}");
        assert_eq!(server.get("/media/cut").status, 404, "{place}");
        // Another offset is refused with the right one: a client asks again while the request that broke off comes to its end.
        let wrong = one(&server, "PATCH", &upload, &fields(2_000_001, "?1"), b"x");
        let offset = |answer: &Answer| answer.field("upload-offset").and_then(|at| at.parse().ok()).expect("an offset");
        let mut at: usize = offset(&wrong);
        assert!(wrong.status == 409 && at <= 2_000_000, "{place}: {wrong:?}");
        until("the end of the broken request", || {
            let part = one(&server, "PATCH", &upload, &fields(at, "?0"), &bytes[at..at + 1000]);
            if (part.status, part.field("upload-complete")) == (204, Some("?0")) {
                return Ok(());
            }
            assert_eq!(part.status, 409, "{place}");
            at = offset(&part);
            Err(format!("{part:?}"))
        });
        let rest = one(&server, "PATCH", &upload, &fields(at + 1000, "?1"), &bytes[at + 1000..]);
        assert_eq!((rest.status / 100, rest.field("upload-complete")), (2, Some("?1")), "{place}");
        assert!(server.get("/media/cut").body == bytes, "{place}");
        // Few bytes are an ordinary PUT, and so is one with a condition.
        let few = one(&server, "PUT", "/media/few", &format!("{INTEROP_6}Upload-Complete: ?1\r\n"), b"few");
        assert_eq!(few.status, 201, "{place}");
        let fields = format!("{INTEROP_6}Upload-Complete: ?1\r\nIf-None-Match: *\r\n");
        assert_eq!(one(&server, "PUT", "/media/cut", &fields, &bytes).status, 412, "{place}");
        // A part of a content, and a body that is shorter than the content, never make one.
        for (fields, status) in [
            (format!("{INTEROP_6}Upload-Complete: ?0\r\n"), 201),
            (format!("{INTEROP_6}Upload-Complete: ?1\r\nUpload-Length: 30\r\n"), 201),
            (format!("{INTEROP_6}Upload-Complete: ?0\r\nIf-None-Match: *\r\n"), 400),
            (format!("{INTEROP_6}Upload-Complete: ?1\r\nUpload-Length: 30\r\nIf-None-Match: *\r\n"), 400),
            ("Upload-Draft-Interop-Version: 8\r\nUpload-Complete: ?0\r\n".to_owned(), 400),
        ] {
            let mut client = server.connect();
            client.send(format!("PUT /media/part HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: 3\r\n\r\nfew"));
            let mut answer = client.head();
            if answer.status == 104 {
                answer = client.head();
            }
            assert_eq!(answer.status, status, "{place}: {fields}");
            assert_eq!(server.get("/media/part").status, 404, "{place}: {fields}");
        }
        server.stop();
    });
}

#[test]
fn parts_that_go_and_contents_that_are_replaced_give_the_room_of_their_budget_back() {
    let config = "[[budget]]\nof = \"address\"\nstored = \"1MB\"\n";
    let server = Setup::default().config(config).set("access.local_writes=true").start();
    let stored = || {
        let all = server.json("/api/v1/budgets");
        let mut all = all.as_array().expect("a list").iter();
        all.find_map(|budget| budget["used"]["stored_bytes"].as_u64()).unwrap_or(0)
    };
    let upload = create(&server, "film.ts", 900_000);
    assert_eq!(patch(&server, &upload, 0, &pattern(600_000)).status, 204);
    assert_eq!(patch(&server, &upload, 600_000, &pattern(100_000)).status, 204);
    until("the parts in the budget", || if stored() == 700_000 { Ok(()) } else { Err(stored().to_string()) });
    let second = create(&server, "other.ts", 400_000);
    assert_eq!(patch(&server, &second, 0, &pattern(400_000)).status, 507, "beyond it");
    // The bytes that came before are kept.
    let came = offset(&server, &second);
    let becomes = |bytes: usize| {
        until("the sum", || if stored() == bytes as u64 { Ok(()) } else { Err(stored().to_string()) });
    };
    assert_eq!(one(&server, "DELETE", &upload, "", b"").status, 204);
    becomes(came);
    assert_eq!(patch(&server, &second, came, &pattern(400_000)[came..]).status, 204);
    becomes(400_000);
    let again = create(&server, "other.ts", 300_000);
    assert_eq!(patch(&server, &again, 0, &pattern(300_000)).status, 204);
    becomes(300_000);
}

#[test]
fn parts_of_unfinished_uploads_count_in_quotas_and_go_with_them() {
    let config = "[[quota]]\nfolder = \"q\"\nmax_size = \"1MB\"\n";
    let server = Setup::default().config(config).set("access.local_writes=true").start();
    let first = create(&server, "q/film.ts", 900_000);
    assert_eq!(patch(&server, &first, 0, &pattern(600_000)).status, 204);
    // A look at the folder, which this begins, does not find them.
    assert_eq!(one(&server, "PUT", "/media/q/other.ts", "", &pattern(600_000)).status, 507);
    let second = create(&server, "q/second.ts", 900_000);
    assert_eq!(patch(&server, &second, 0, &pattern(900_000)).status, 507, "amid it");
    for upload in [&first, &second] {
        assert_eq!(one(&server, "DELETE", upload, "", b"").status, 204);
    }
    let folder = server.root.join("q");
    until("an empty folder", || {
        let left: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    assert_eq!(one(&server, "PUT", "/media/q/other.ts", "", &pattern(600_000)).status, 201);
}
