//! The share: litmus, rclone and cadaver against the real server, and the sequences of clients that cannot run here, with their fields.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::client::{Answer, Client, pattern};
use crate::common::server::{Server, Setup};
use crate::common::skip::skipped;
use crate::common::until;
use crate::common::volume::{disks, joined, put, volume};
use tempfile::TempDir;

fn share() -> Server {
    Setup::default().start()
}

fn is_missing(program: &str) -> bool {
    let missing = !Path::new("/usr/bin").join(program).exists();
    if missing {
        skipped(&format!("{program} is not installed (`scripts/setup --snmp`)"));
    }
    missing
}

/// A request with a body on an open connection.
fn ask(client: &mut Client, method: &str, target: &str, fields: &str, body: &str) -> Answer {
    let length = body.len();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    ));
    let mut answer = client.head();
    client.try_body(&mut answer).expect("a whole body");
    answer
}

fn status(server: &Server, method: &str, target: &str, fields: &str) -> u16 {
    ask(&mut server.connect(), method, target, fields, "").status
}

const LOCK: &str = "<?xml version=\"1.0\"?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
    <D:locktype><D:write/></D:locktype><D:owner>tests</D:owner></D:lockinfo>";

#[test]
fn a_folder_shows_its_use_where_a_quota_counts_it() {
    let server = Setup::default().config("[[quota]]\nfolder = \"cams\"\nmax_size = \"8MB\"\n").start();
    fs::create_dir(server.root.join("cams")).expect("made");
    let wish =
        "<D:propfind xmlns:D=\"DAV:\"><D:prop><D:quota-available-bytes/><D:quota-used-bytes/></D:prop></D:propfind>";
    let found = |target| ask(&mut server.connect(), "PROPFIND", target, "Depth: 0\r\n", wish).text();
    // Bytes that come amid a count may count twice.
    server.wait_for("the first count", |server| server.json("/api/v1/quotas")[0]["counted"] == true);
    assert_eq!(server.put("/media/cams/a.ts", "", &pattern(1000)).status, 201);
    let (with, without) = (found("/media/cams/"), found("/media/"));
    assert!(with.contains("quota-used-bytes>1000<") && with.contains("quota-available-bytes>7999000<"), "{with}");
    assert!(without.contains("quota-used-bytes/>") && !without.contains("quota-available-bytes/>"), "{without}");
}

#[test]
fn litmus_passes_as_a_whole() {
    if is_missing("litmus") {
        return;
    }
    passes_litmus(&share());
}

fn passes_litmus(server: &Server) {
    let place = TempDir::new().expect("a folder");
    let mut litmus = Command::new("litmus");
    litmus.arg("-k").arg(format!("http://{}/media/", server.address)).current_dir(place.path());
    let output = litmus.output().expect("litmus runs");
    let said = String::from_utf8_lossy(&output.stdout);
    for (part, count) in [("basic", 16), ("copymove", 13), ("props", 30), ("locks", 41), ("http", 4)] {
        let summary = format!("summary for `{part}': of {count} tests run: {count} passed, 0 failed");
        assert!(said.contains(&summary), "{summary}: {said}");
    }
    assert!(!said.contains("WARNING"), "{said}");
}

/// A volume of two disks, served.
fn on_volume(folder: &Path) -> Server {
    let disks = disks(folder, 2);
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks);
    serve_volume(folder)
}

fn serve_volume(folder: &Path) -> Server {
    let disks: Vec<_> = ["disk0", "disk1"].iter().map(|name| folder.join(name)).collect();
    Server::on(&[], &folder.join("state"), &["--volume", &joined(&disks)])
}

#[test]
fn litmus_passes_as_a_whole_on_a_volume() {
    if is_missing("litmus") {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    passes_litmus(&on_volume(folder.path()));
}

#[test]
fn trees_of_a_volume_are_moved_copied_and_removed_and_empty_folders_stay() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let server = on_volume(folder.path());
    for made in ["a", "a/empty", "a/b", "c"] {
        assert_eq!(status(&server, "MKCOL", &format!("/media/{made}/"), ""), 201, "{made}");
    }
    assert_eq!(status(&server, "MKCOL", "/media/a", ""), 405);
    assert_eq!(status(&server, "MKCOL", "/media/x/y", ""), 409);
    for name in ["a/1", "a/b/2", "c/3"] {
        assert_eq!(put(server.address, &format!("/media/{name}"), name.as_bytes()), 201);
    }
    let there = |server: &Server, name: &str| server.get(&format!("/media/{name}")).text();
    let deep = "Depth: infinity\r\n";
    assert_eq!(status(&server, "COPY", "/media/a", &format!("{deep}Destination: /media/d\r\n")), 201);
    let onto = "Destination: /media/c\r\n";
    assert_eq!(status(&server, "MOVE", "/media/a", &format!("Overwrite: F\r\n{onto}")), 412);
    assert_eq!(there(&server, "c/3"), "c/3", "nothing has changed");
    let long = format!("Destination: /media/{}/x\r\n", vec!["n".repeat(250); 5].join("/"));
    assert!(status(&server, "MOVE", "/media/a", &long) >= 400);
    assert_eq!(there(&server, "a/b/2"), "a/b/2", "nothing has changed");
    assert_eq!(status(&server, "MOVE", "/media/a", onto), 204);
    assert_eq!((there(&server, "c/1"), there(&server, "c/b/2")), ("a/1".to_owned(), "a/b/2".to_owned()));
    assert_eq!((server.get("/media/c/3").status, server.get("/media/a/1").status), (404, 404));
    assert_eq!(status(&server, "DELETE", "/media/c/b/2", ""), 204);
    server.stop();
    let server = serve_volume(folder.path());
    assert_eq!(there(&server, "d/b/2"), "a/b/2", "of the copy");
    for empty in ["c/empty", "c/b", "d/empty"] {
        assert_eq!(status(&server, "PROPFIND", &format!("/media/{empty}"), "Depth: 0\r\n"), 207, "{empty}");
        assert_eq!(status(&server, "DELETE", &format!("/media/{empty}"), ""), 204, "{empty}");
    }
    assert_eq!(status(&server, "DELETE", "/media/d", ""), 204);
    let listed = ask(&mut server.connect(), "PROPFIND", "/media/", "Depth: 1\r\n", "").text();
    assert!(listed.contains("/media/c/") && !listed.contains("/media/d"), "{listed}");
    assert_eq!(server.get("/media/c/1").status, 200);
    server.stop();
}

#[test]
fn rclone_synchronizes_and_checks_a_tree() {
    if is_missing("rclone") {
        return;
    }
    let (server, source) = (share(), TempDir::new().expect("a folder"));
    fs::create_dir_all(source.path().join("a/b & c")).expect("folders");
    for (name, length) in [("a/1.ts", 300_000), ("a/b & c/ü #.txt", 10), ("a/b & c/empty", 0)] {
        fs::write(source.path().join(name), pattern(length)).expect("room");
    }
    let url = format!("http://{}/media/", server.address);
    let run = |arguments: &[&str]| {
        let mut rclone = Command::new("rclone");
        rclone.args(["--config", "/dev/null", "--webdav-vendor", "other", "--webdav-url", &url]).args(arguments);
        let output = rclone.output().expect("rclone runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let from = source.path().to_str().expect("UTF-8");
    run(&["sync", from, ":webdav:there"]);
    run(&["check", "--download", from, ":webdav:there"]);
    run(&["moveto", ":webdav:there/a/1.ts", ":webdav:there/2.ts"]);
    assert!(fs::read(server.root.join("there/2.ts")).expect("moved") == pattern(300_000));
    run(&["purge", ":webdav:there/a"]);
    let there = |server: &Server| fs::read_dir(server.root.join("there")).expect("a folder").count();
    server.wait_for("nothing hidden is left", |server| there(server) == 1);
}

#[test]
fn cadaver_copies_moves_and_locks() {
    if is_missing("cadaver") {
        return;
    }
    let server = share();
    let script = server.folders.path().join("script");
    let upload = server.folders.path().join("up.txt");
    fs::write(&upload, "words").expect("room");
    let orders = format!(
        "open http://{}/media/\nmkcol c\ncd c\nput {} a\ncopy a b\nmove b d\nlock d\nunlock d\npropset d color blue\npropget d color\nquit\n",
        server.address,
        upload.display()
    );
    fs::write(&script, orders).expect("room");
    let mut cadaver = Command::new("cadaver");
    let output = cadaver.stdin(fs::File::open(&script).expect("the script")).output().expect("cadaver runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("failed") && said.contains("Value of color is: blue"), "{said}");
    assert_eq!(fs::read(server.root.join("c/d")).expect("moved"), b"words");
}

#[test]
fn finder_copies_a_file_with_its_companion() {
    let server = share();
    let mut client = server.connect();
    let agent = "User-Agent: WebDAVFS/3.0.0 (03008000) Darwin/22.6.0 (arm64)\r\n";
    let options = ask(&mut client, "OPTIONS", "/media/", agent, "");
    assert_eq!((options.status, options.field("dav")), (200, Some("1, 2")));
    for name in ["film.mp4", "._film.mp4", ".DS_Store"] {
        let target = format!("/media/{name}");
        assert_eq!(ask(&mut client, "PROPFIND", &target, &format!("{agent}Depth: 0\r\n"), "").status, 404, "{name}");
        assert_eq!(ask(&mut client, "PUT", &target, agent, "").status, 201, "of no bytes");
        let locked = ask(&mut client, "LOCK", &target, &format!("{agent}Depth: 0\r\nTimeout: Second-600\r\n"), LOCK);
        assert_eq!(locked.status, 200);
        let token = locked.field("lock-token").expect("a token").to_owned();
        let chunked = format!(
            "PUT {target} HTTP/1.1\r\nHost: localhost\r\n{agent}Transfer-Encoding: chunked\r\n\
             X-Expected-Entity-Length: 5\r\nIf: ({token})\r\n\r\n5\r\nbytes\r\n0\r\n\r\n"
        );
        client.send(chunked.replace("Length: 5", "Length: 6"));
        assert_eq!(client.answer(true).status, 400, "{name}: of fewer bytes than the client has");
        client.send(&chunked);
        assert_eq!(client.answer(true).status, 204, "{name}");
        let unlock = format!("{agent}Lock-Token: {token}\r\n");
        assert_eq!(ask(&mut client, "UNLOCK", &target, &unlock, "").status, 204);
        let found = ask(&mut client, "PROPFIND", &target, &format!("{agent}Depth: 0\r\n"), "").text();
        assert!(found.contains("<D:getcontentlength>5</D:getcontentlength>"), "{found}");
        let tag = server.get(&target).field("etag").expect("a tag").replace('"', "&quot;");
        assert!(found.contains(&tag), "{found}");
    }
    let listed = ask(&mut client, "PROPFIND", "/media/", &format!("{agent}Depth: 1\r\n"), "").text();
    assert!(listed.contains("/media/film.mp4") && !listed.contains("DS_Store"), "{listed}");
}

#[test]
fn windows_stores_a_file_with_its_properties() {
    let server = share();
    let mut client = server.connect();
    let agent = "User-Agent: Microsoft-WebDAV-MiniRedir/10.0.19045\r\nTranslate: f\r\n";
    assert_eq!(ask(&mut client, "OPTIONS", "/", agent, "").field("ms-author-via"), Some("DAV"));
    assert_eq!(ask(&mut client, "PROPFIND", "/", &format!("{agent}Depth: 0\r\n"), "").status, 207);
    assert_eq!(ask(&mut client, "PROPFIND", "/media", &format!("{agent}Depth: 0\r\n"), "").status, 207);
    assert_eq!(ask(&mut client, "MKCOL", "/media/a%20%26%20b", agent, "").status, 201);
    let target = "/media/a%20%26%20b/f%C3%BCr%20%23%20alle.txt";
    assert_eq!(ask(&mut client, "PUT", target, agent, "").status, 201);
    let locked = ask(&mut client, "LOCK", target, &format!("{agent}Timeout: Second-3600\r\n"), LOCK);
    let token = locked.field("lock-token").expect("a token").to_owned();
    let held = format!("{agent}If: ({token})\r\n");
    let patch = "<?xml version=\"1.0\"?><D:propertyupdate xmlns:D=\"DAV:\" xmlns:Z=\"urn:schemas-microsoft-com:\"><D:set><D:prop>\
        <Z:Win32CreationTime>Mon, 21 Nov 2022 10:00:00 GMT</Z:Win32CreationTime>\
        <Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>";
    assert_eq!(ask(&mut client, "PROPPATCH", target, &held, patch).status, 207);
    client.send(format!("HEAD {target} HTTP/1.1\r\nHost: localhost\r\n{agent}\r\n"));
    assert_eq!(client.answer(false).status, 200);
    assert_eq!(ask(&mut client, "PUT", target, &held, "words").status, 204);
    assert_eq!(ask(&mut client, "PROPPATCH", target, &held, patch).status, 207);
    assert_eq!(ask(&mut client, "UNLOCK", target, &format!("{agent}Lock-Token: {token}\r\n"), "").status, 204);
    let moved = format!("{agent}Destination: http://localhost/media/a%20%26%20b/neu.txt\r\nOverwrite: F\r\n");
    assert_eq!(ask(&mut client, "MOVE", target, &moved, "").status, 201);
    let again = ask(&mut client, "PROPFIND", "/media/a%20%26%20b/", &format!("{agent}Depth: 1\r\n"), "").text();
    assert!(again.contains("00000020") && again.contains("/media/a%20%26%20b/neu.txt"), "{again}");
}

#[test]
fn nextcloud_uploads_and_renames() {
    let server = share();
    let mut client = server.connect();
    let agent = "User-Agent: Mozilla/5.0 (Linux) mirall/3.16.7 (Nextcloud, debian-6.1.0 ClientArchitecture: x86_64)\r\n\
        X-Request-ID: 1c0e5a5e-0f5a-4d0a-9a4e-6f2b1d2f0c11\r\n";
    let known = "<?xml version=\"1.0\" ?><d:propfind xmlns:d=\"DAV:\"><d:prop><d:resourcetype/><d:getlastmodified/><d:getcontentlength/>\
        <d:getetag/><id xmlns=\"http://owncloud.org/ns\"/><permissions xmlns=\"http://owncloud.org/ns\"/></d:prop></d:propfind>";
    let xml = "Content-Type: text/xml; charset=utf-8\r\n";
    let found = ask(&mut client, "PROPFIND", "/media/", &format!("{agent}{xml}Depth: 0\r\n"), known);
    assert!(
        found.status == 207 && found.text().contains("404 Not Found"),
        "fields of its own server: {}",
        found.text()
    );
    assert_eq!(ask(&mut client, "MKCOL", "/media/Fotos%202026", agent, "").status, 201);
    let sums = "OC-Checksum: SHA1:a9993e364706816aba3e25717850c26c9cd0d89d\r\nOC-Total-Length: 3\r\nX-OC-Mtime: 1600000000\r\n";
    let target = "/media/Fotos%202026/IMG_0001%20(1).jpg";
    let stored =
        ask(&mut client, "PUT", target, &format!("{agent}{sums}Content-Type: application/octet-stream\r\n"), "abc");
    assert_eq!((stored.status, stored.field("x-oc-mtime")), (201, Some("accepted")));
    let tag = stored.field("etag").expect("a tag").to_owned();
    // It replaces the version that it knows, and no other.
    let replace = |tag: &str| format!("{agent}If-Match: {tag}\r\nX-OC-Mtime: 1600000001\r\n");
    assert_eq!(ask(&mut client, "PUT", target, &replace(&tag), "abcd").status, 204);
    assert_eq!(ask(&mut client, "PUT", target, &replace(&tag), "lost").status, 412);
    let moved = format!("{agent}Destination: http://localhost/media/Fotos%202026/%C3%BC.jpg\r\nOverwrite: F\r\n");
    assert_eq!(ask(&mut client, "MOVE", target, &moved, "").status, 201);
    let listed =
        ask(&mut client, "PROPFIND", "/media/Fotos%202026/", &format!("{agent}{xml}Depth: 1\r\n"), known).text();
    let named = listed.contains("/media/Fotos%202026/%C3%BC.jpg") && listed.contains("Sun, 13 Sep 2020 12:26:41 GMT");
    assert!(named && !listed.contains("IMG_0001"), "{listed}");
}

#[test]
fn cyberduck_and_an_app_of_a_phone_store_a_file() {
    let server = share();
    let agents = [
        "User-Agent: Cyberduck/9.1.3.42945 (Mac OS X/14.5) (aarch64)\r\nAccept-Encoding: gzip,deflate\r\n",
        "User-Agent: Documents/8.21 CFNetwork/1498.700.2 Darwin/23.6.0\r\nAccept-Language: de-DE,de;q=0.9\r\n",
    ];
    for (number, agent) in agents.iter().enumerate() {
        let mut client = server.connect();
        let target = format!("/media/{number}/note.txt");
        assert_eq!(ask(&mut client, "OPTIONS", "/media/", agent, "").field("dav"), Some("1, 2"));
        let all = "<?xml version=\"1.0\" encoding=\"utf-8\"?><propfind xmlns=\"DAV:\"><allprop/></propfind>";
        assert_eq!(ask(&mut client, "PROPFIND", "/media/", &format!("{agent}Depth: 1\r\n"), all).status, 207);
        assert_eq!(ask(&mut client, "MKCOL", &format!("/media/{number}/"), agent, "").status, 201);
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: localhost\r\n{agent}\r\n"));
        assert_eq!(client.answer(false).status, 404);
        let head = format!(
            "PUT {target} HTTP/1.1\r\nHost: localhost\r\n{agent}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        );
        client.send(head);
        assert_eq!(client.head().status, 100);
        client.send("words");
        assert_eq!(client.answer(true).status, 201);
        // Its own property for the time of the file.
        let patch = "<?xml version=\"1.0\"?><D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop><S:lastmodified xmlns:S=\"SAR:\">\
            Mon, 21 Nov 2022 10:00:00 GMT</S:lastmodified></D:prop></D:set></D:propertyupdate>";
        assert_eq!(ask(&mut client, "PROPPATCH", &target, agent, patch).status, 207);
        let found = ask(&mut client, "PROPFIND", &target, &format!("{agent}Depth: 0\r\n"), all).text();
        assert!(found.contains("Mon, 21 Nov 2022 10:00:00 GMT") && found.contains(">5<"), "{found}");
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{agent}Range: bytes=2-\r\n\r\n"));
        let part = client.answer(true);
        assert_eq!((part.status, part.text()), (206, "rds".to_owned()));
        let copied = format!("{agent}Destination: http://localhost/media/{number}/copy.txt\r\nDepth: infinity\r\n");
        assert_eq!(ask(&mut client, "COPY", &target, &copied, "").status, 201);
        assert_eq!(ask(&mut client, "DELETE", &format!("/media/{number}/"), agent, "").status, 204);
    }
    // A removed folder has a hidden name until it is taken apart.
    server.wait_for("an empty root", |server| server.names().is_empty());
}

#[test]
fn locks_and_properties_outlive_the_server() {
    let place = TempDir::new().expect("a folder");
    let (root, state) = (place.path().join("media"), place.path().join("state"));
    fs::create_dir(&root).expect("a folder");
    let server = Server::on(&[&root], &state, &[]);
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "PUT", "/media/a", "", "x").status, 201);
    let locked = ask(&mut client, "LOCK", "/media/a", "Timeout: Second-3000\r\n", LOCK);
    let token = locked.field("lock-token").expect("a token").to_owned();
    let patch =
        "<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop><c xmlns=\"u\">blue</c></D:prop></D:set></D:propertyupdate>";
    assert_eq!(ask(&mut client, "PROPPATCH", "/media/a", &format!("If: ({token})\r\n"), patch).status, 207);
    server.kill();
    let server = Server::on(&[&root], &state, &[]);
    assert_eq!(status(&server, "DELETE", "/media/a", ""), 423);
    let found = ask(&mut server.connect(), "PROPFIND", "/media/a", "Depth: 0\r\n", "").text();
    assert!(found.contains("<c xmlns=\"u\">blue</c>") && found.contains(token.trim_matches(['<', '>'])), "{found}");
    assert_eq!(status(&server, "DELETE", "/media/a", &format!("If: ({token})\r\n")), 204);
    assert_eq!(status(&server, "PROPFIND", "/media/a", "Depth: 0\r\n"), 404);
}

#[test]
fn bad_requests_change_nothing() {
    let server = share();
    server.file("a/b", b"b");
    server.file("c", b"c");
    let to = |destination: &str| format!("Destination: {destination}\r\n");
    for (method, target, fields, expected) in [
        ("MOVE", "/media/a", to("http://elsewhere.example/media/x"), 502),
        ("MOVE", "/media/a", to("/media/../x"), 400),
        ("MOVE", "/media/a", to("/media/x%2fy"), 400),
        ("MOVE", "/media/a", to("/x"), 403),
        ("MOVE", "/media/a", to("/media/a"), 403),
        ("MOVE", "/media/a", to("/media/a/in"), 403),
        ("COPY", "/media/a", to("/media/a/in"), 403),
        ("MOVE", "/media/a", to("/media/none/x"), 409),
        ("MOVE", "/media/a", format!("{}Overwrite: F\r\n", to("/media/c")), 412),
        ("MOVE", "/media/a", format!("{}Depth: 0\r\n", to("/media/x")), 400),
        ("MOVE", "/media/a", String::new(), 400),
        ("MOVE", "/media/", to("/media/x"), 403),
        ("MOVE", "/media/none", to("/media/x"), 404),
        ("PROPFIND", "/media/a", "Depth: infinity\r\n".to_owned(), 403),
        ("PROPFIND", "/media/a", "Depth: 2\r\n".to_owned(), 400),
        ("MKCOL", "/media/c", String::new(), 405),
        ("MKCOL", "/media/none/x", String::new(), 409),
        ("DELETE", "/media/a", "Depth: 1\r\n".to_owned(), 400),
        ("DELETE", "/media/a", "If: (<urn:uuid:none>)\r\n".to_owned(), 412),
        ("UNLOCK", "/media/c", "Lock-Token: <urn:uuid:none>\r\n".to_owned(), 409),
        ("UNLOCK", "/media/c", String::new(), 400),
        ("LOCK", "/media/c", String::new(), 400),
    ] {
        assert_eq!(status(&server, method, target, &fields), expected, "{method} {target} {fields}");
    }
    let bomb = "<!DOCTYPE a [<!ENTITY b \"bb\">]><propfind xmlns=\"DAV:\"><prop>&b;</prop></propfind>";
    let deep = format!("<propfind xmlns=\"DAV:\">{}", "<a>".repeat(10_000));
    for (body, expected) in [(bomb, 403), (deep.as_str(), 413), ("<propfind", 400), ("<x/>", 400)] {
        let answer = ask(&mut server.connect(), "PROPFIND", "/media/a", "Depth: 0\r\n", body);
        assert_eq!(answer.status, expected, "{body:.40}");
    }
    assert_eq!(server.names(), ["a", "c"]);
    assert_eq!(fs::read(server.root.join("a/b")).expect("as it was"), b"b");
}

#[test]
fn a_lock_on_a_folder_protects_all_in_it_and_stays_under_another_content() {
    let server = share();
    server.file("f/a", b"a");
    server.file("g", b"g");
    let mut client = server.connect();
    let locked = ask(&mut client, "LOCK", "/media/f/", "", LOCK);
    let token = locked.field("lock-token").expect("a token").to_owned();
    let move_g = |fields: &str| format!("Destination: /media/f/a\r\n{fields}");
    assert_eq!(ask(&mut client, "PUT", "/media/f/a", "", "x").status, 423);
    assert_eq!(ask(&mut client, "PUT", "/media/f/new", "", "x").status, 423);
    assert_eq!(ask(&mut client, "MOVE", "/media/g", &move_g(""), "").status, 423);
    assert_eq!(ask(&mut client, "DELETE", "/media/f", "", "").status, 423);
    let submitted = ask(&mut client, "DELETE", "/media/f/a", "Translate: f\r\n", "").text();
    assert!(submitted.contains("<D:lock-token-submitted><D:href>/media/f</D:href>"), "{submitted}");
    let second = ask(&mut client, "LOCK", "/media/f/a", "", LOCK);
    assert!(second.status == 423 && second.text().contains("no-conflicting-lock"), "{}", second.text());
    let tagged = format!("If: <http://localhost/media/f> ({token})\r\n");
    assert_eq!(ask(&mut client, "MOVE", "/media/g", &move_g(&tagged), "").status, 204);
    assert_eq!(fs::read(server.root.join("f/a")).expect("moved"), b"g");
    assert_eq!(ask(&mut client, "PUT", "/media/f/a", "", "x").status, 423, "the lock stays");
}

#[test]
fn a_content_has_the_time_that_its_client_gives_and_is_checked_before_it_is_stored() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    for (server, place) in [(share(), "folder"), (on_volume(folder.path()), "volume")] {
        let mut client = server.connect();
        let fields = "X-OC-Mtime: 1600000000\r\nOC-Checksum: MD5:900150983cd24fb0d6963f7d28e17f72\r\n";
        let stored = ask(&mut client, "PUT", "/media/a", fields, "abc");
        assert_eq!((stored.status, stored.field("x-oc-mtime")), (201, Some("accepted")), "{place}");
        let date = Some("Sun, 13 Sep 2020 12:26:40 GMT");
        assert_eq!(server.get("/media/a").field("last-modified"), date, "{place}");
        assert_eq!(status(&server, "COPY", "/media/a", "Destination: /media/b\r\n"), 201, "{place}");
        assert_eq!(status(&server, "MOVE", "/media/b", "Destination: /media/c\r\n"), 201, "{place}");
        assert_eq!(server.get("/media/c").field("last-modified"), date, "{place}");
        for fields in [
            "Content-MD5: kAFQmDzST7DWlj99KOF/cg==\r\n",
            "Repr-Digest: sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:\r\n",
            "Content-Digest: sha-256=:AAAA\r\n",
            "X-OC-Mtime: yesterday\r\n",
        ] {
            assert_eq!(ask(&mut server.connect(), "PUT", "/media/d", fields, "abd").status, 400, "{place}: {fields}");
        }
        assert_eq!((server.get("/media/d").status, server.get("/media/a").text()), (404, "abc".to_owned()), "{place}");
    }
}

#[test]
fn a_lock_ends_at_its_time() {
    let server = share();
    server.file("a", b"a");
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "LOCK", "/media/a", "Timeout: Second-1\r\n", LOCK).status, 200);
    server.wait_for("the end of the lock", |server| status(server, "PUT", "/media/a", "") == 204);
}

#[test]
fn a_failed_condition_is_named_to_clients_of_webdav() {
    let quota = "[[quota]]\nfolder = \"small\"\nmax_size = \"10kB\"\n";
    let server = Setup::default().config(quota).start();
    server.file("small/a", b"a");
    server.file("large", &pattern(20_000));
    let answer = |method: &str, target: &str, fields: &str, body: &str| {
        let answer = ask(&mut server.connect(), method, target, fields, body);
        (answer.status, answer.text())
    };
    let entity =
        "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><propfind xmlns=\"DAV:\"><prop>&b;</prop></propfind>";
    let (token, to_small) = ("Lock-Token: <urn:uuid:none>\r\n", "Destination: /media/small/b\r\n");
    let large = "x".repeat(20_000);
    for (method, target, fields, body, status, element) in [
        ("PROPFIND", "/media/", "Depth: infinity\r\n", "", 403, "propfind-finite-depth"),
        ("PROPFIND", "/media/", "Depth: 0\r\n", entity, 403, "no-external-entities"),
        ("UNLOCK", "/media/large", token, "", 409, "lock-token-matches-request-uri"),
        ("MKCOL", "/media/small", "", "", 405, "resource-must-be-null"),
        ("COPY", "/media/large", to_small, "", 507, "quota-not-exceeded"),
        ("PUT", "/media/small/b", "User-Agent: davfs2/1.7\r\n", &large, 507, "quota-not-exceeded"),
    ] {
        let (got, text) = answer(method, target, fields, body);
        assert_eq!(got, status, "{method} {target}: {text}");
        assert!(
            text.contains(&format!("<D:error xmlns:D=\"DAV:\"><D:{element}/><D:responsedescription>")),
            "{method} {target}: {text}"
        );
    }
    let (_, text) = answer("COPY", "/media/large", to_small, "");
    let description = text.split("<D:responsedescription>").nth(1).unwrap_or_default();
    assert!(description.contains("the quota of `small` is 9.8 KiB"), "the quota and its limit: {text}");
    let (status, text) = answer("PUT", "/media/small/b", "", &large);
    assert!(status == 507 && text.contains("urn:isocast:quota"), "{text}");
}

#[test]
fn a_content_keeps_its_time_of_creation_when_it_is_replaced_and_moved() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    for server in [share(), on_volume(folder.path())] {
        let mut client = server.connect();
        for (at, status) in [("1500000000", 201), ("1600000000", 204), ("1700000000", 204)] {
            assert_eq!(ask(&mut client, "PUT", "/media/a", &format!("X-OC-Mtime: {at}\r\n"), "x").status, status);
        }
        assert_eq!(status(&server, "MOVE", "/media/a", "Destination: /media/b\r\n"), 201);
        let names = "<propfind xmlns=\"DAV:\"><prop><creationdate/></prop></propfind>";
        for body in ["", names] {
            let found = ask(&mut client, "PROPFIND", "/media/b", "Depth: 0\r\n", body).text();
            assert_eq!(found.matches("creationdate>").count(), 2, "{found}");
            assert!(found.contains("<D:creationdate>2017-07-14T02:40:00Z</D:creationdate>"), "{found}");
        }
        assert_eq!(status(&server, "DELETE", "/media/b", ""), 204);
        assert_eq!(ask(&mut client, "PUT", "/media/b", "", "x").status, 201);
        let found = ask(&mut client, "PROPFIND", "/media/b", "Depth: 0\r\n", "").text();
        assert!(!found.contains("2017-07-14"), "{found}");
    }
}

#[test]
fn a_folder_keeps_its_time_of_creation_when_its_contents_change() {
    let server = share();
    assert_eq!(status(&server, "MKCOL", "/media/made", ""), 201);
    assert_eq!(server.put("/media/filled/a", "", b"x").status, 201);
    for name in ["made", "filled"] {
        let folder = fs::File::open(server.root.join(name)).expect("a folder");
        folder.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
        let found = ask(&mut server.connect(), "PROPFIND", &format!("/media/{name}"), "Depth: 0\r\n", "").text();
        let created = found.split("creationdate>").nth(1).expect("one");
        assert!(found.contains("1970") && !created.contains("1970"), "{found}");
    }
}

#[test]
fn a_folder_that_is_made_again_has_no_properties_of_the_one_before() {
    let server = share();
    let update = "<propertyupdate xmlns=\"DAV:\"><set><prop><mark xmlns=\"urn:test\"/></prop></set></propertyupdate>";
    let mut client = server.connect();
    let mut is_marked = || ask(&mut client, "PROPFIND", "/media/a", "Depth: 0\r\n", "").text().contains("urn:test");
    assert_eq!(status(&server, "MKCOL", "/media/a", ""), 201);
    assert_eq!(ask(&mut server.connect(), "PROPPATCH", "/media/a", "", update).status, 207);
    assert!(is_marked());
    fs::remove_dir(server.root.join("a")).expect("removed by another program");
    assert_eq!(status(&server, "MKCOL", "/media/a", ""), 201);
    assert!(!is_marked());
}

/// A copy that takes a while, seen meanwhile, and ended amid it.
#[test]
fn a_copy_of_hundreds_of_megabytes_is_never_half_visible() {
    const BYTES: u64 = 300 << 20;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (root, state) = (folder.path().join("root"), folder.path().join("state"));
    fs::create_dir(&root).expect("a folder");
    fs::File::create(root.join("a")).and_then(|file| file.set_len(BYTES)).expect("room for holes");
    let server = Server::on(&[&root], &state, &[]);
    let copy = |server: &Server, to: &str| {
        let mut client = server.connect();
        let ask = format!(
            "COPY /media/a HTTP/1.1\r\nHost: localhost\r\nDestination: /media/{to}\r\nContent-Length: 0\r\n\r\n"
        );
        client.send(ask);
        client
    };
    let mut copying = copy(&server, "b");
    let mut client = server.connect();
    until("the copy", || {
        let listed = ask(&mut client, "PROPFIND", "/media/", "Depth: 1\r\n", "").text();
        let is_there = listed.contains("<D:href>/media/b</D:href>");
        let lengths = listed.matches(&format!("<D:getcontentlength>{BYTES}<")).count();
        assert_eq!(lengths, 1 + usize::from(is_there), "{listed}");
        if is_there { Ok(()) } else { Err(listed) }
    });
    assert_eq!(copying.head().status, 201);
    let _amid = copy(&server, "c");
    std::thread::sleep(std::time::Duration::from_millis(200));
    server.kill();
    let server = Server::on(&[&root], &state, &[]);
    let found = ask(&mut server.connect(), "PROPFIND", "/media/c", "Depth: 0\r\n", "");
    assert!(found.status == 404 || found.text().contains(&format!("<D:getcontentlength>{BYTES}<")), "{}", found.status);
}
