//! The trash of the real program: on folders and volumes, over restarts, within its bounds.

use std::fs;

use crate::common::http::Answer;
use crate::common::server::{Server, Setup};
use crate::common::volume::{disks, joined, put, volume};

fn call(server: &Server, method: &str, target: &str) -> Answer {
    server.ask(&format!("{method} /api/v1/{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"))
}

/// Removes an item into the trash. Gives its name there.
fn remove(server: &Server, path: &str) -> String {
    let answer = call(server, "POST", &format!("contents/remove?trash=true&path={path}"));
    assert_eq!(answer.status, 204, "{path}: {}", answer.text());
    let at = answer.field("location").and_then(|at| at.strip_prefix("/api/v1/trash/"));
    at.expect("its name in the trash").to_owned()
}

fn paths(server: &Server, query: &str) -> Vec<String> {
    let listed = call(server, "GET", &format!("trash{query}")).json();
    let paths = listed.as_array().expect("a list").iter().map(|item| item["path"].as_str().expect("text").to_owned());
    paths.collect()
}

#[test]
fn removed_items_come_back_over_a_restart_from_several_folders() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [first, second, state] = ["first", "second", "state"].map(|name| folder.path().join(name));
    for (root, file) in [(&first, "films/a/one.ts"), (&second, "films/a/two.ts"), (&second, "films/b.ts")] {
        fs::create_dir_all(root.join(file).parent().expect("a folder")).expect("made");
        fs::write(root.join(file), file).expect("written");
    }
    let start = || Setup::on(&[&first, &second], &state, &[]).start();
    let server = start();
    let (tree, file) = (remove(&server, "films/a"), remove(&server, "films/b.ts"));
    assert_eq!(call(&server, "GET", "contents/search?text=one").json()["entries"].as_array().map(Vec::len), Some(0));
    for gone in ["films/a/", "films/a/two.ts", "films/b.ts"] {
        assert_eq!(server.get(&format!("/media/{gone}")).status, 404, "{gone}");
    }
    assert!(!server.get("/media/?format=json").text().contains("isocast-upload"), "no listing shows it");
    assert_eq!(server.get("/media/.isocast-upload-kept-trash/").status, 400, "no path leads to it");
    assert!(server.stop().0.success());

    let server = start();
    assert_eq!(paths(&server, ""), ["films/b.ts", "films/a"]);
    let listed = call(&server, "GET", "trash").json();
    assert_eq!((&listed[1]["kind"], &listed[1]["bytes"]), (&"directory".into(), &28.into()));
    assert_eq!(listed[1]["id"].as_str(), Some(tree.as_str()));
    assert!(paths(&server, "?folder=other").is_empty());
    assert_eq!(server.put("/media/films/b.ts", "", b"another").status, 201);
    assert_eq!(call(&server, "POST", &format!("trash/{file}/restore")).status, 412, "the path is taken");
    // A folder that is gone is made again.
    assert_eq!(call(&server, "POST", "contents/remove?path=films").status, 204);
    for id in [&tree, &file] {
        assert_eq!(call(&server, "POST", &format!("trash/{id}/restore")).status, 204, "{id}");
        assert_eq!(call(&server, "POST", &format!("trash/{id}/restore")).status, 404, "it is there no more");
    }
    for (path, root) in [("films/a/one.ts", &first), ("films/a/two.ts", &second), ("films/b.ts", &second)] {
        assert_eq!(server.get(&format!("/media/{path}")).text(), path);
        assert!(root.join(path).exists(), "{path} is on the disk that it was on");
    }
    assert!(paths(&server, "").is_empty());
    let id = remove(&server, "films/a");
    assert_eq!(call(&server, "DELETE", &format!("trash/{id}")).status, 204);
    assert_eq!(call(&server, "DELETE", &format!("trash/{id}")).status, 404);
}

#[test]
fn the_oldest_items_go_and_a_larger_one_does_not_come() {
    let server = Setup::default().set("trash.size=16KiB").start();
    for name in ["a", "b", "c"] {
        server.file(name, &[7; 6000]);
    }
    server.file("large", &[7; 20_000]);
    let refused = call(&server, "POST", "contents/remove?trash=true&path=large");
    assert_eq!((refused.status, server.get("/media/large").status), (507, 200), "{}", refused.text());
    let ids = ["a", "b", "c"].map(|name| remove(&server, name));
    assert_eq!(paths(&server, ""), ["c", "b"], "the oldest made room");
    server.wait_event(&["content_deleted", "\"path\":\"a\"", "\"trash\":true", "\"reason\":\"max_size\""]);
    server.wait_event(&["content_moved", "\"path\":\"b\"", "\"to\":\"the trash\""]);
    let is_lost = |line: &str| line.contains("content_deleted") && line.contains("\"path\":\"b\"");
    assert!(!server.events().lines().any(is_lost), "it can be restored");
    assert_eq!(call(&server, "DELETE", &format!("trash/{}", ids[1])).status, 204);
    server.wait_event(&["content_deleted", "\"path\":\"b\"", "\"client\":\"127.0.0.1\""]);
    assert_eq!(call(&server, "POST", &format!("trash/{}/restore", ids[0])).status, 404);
    for wrong in ["none", "1-2-3", "..%2f..%2fstate"] {
        assert_eq!(call(&server, "POST", &format!("trash/{wrong}/restore")).status, 404, "{wrong}");
    }
    assert_eq!(call(&server, "POST", "contents/remove?trash=perhaps&path=large").status, 400);
}

#[test]
fn items_of_a_volume_come_back_over_a_restart() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disks = disks(folder.path(), 2);
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks);
    let start = || Server::on(&[], &folder.path().join("state"), &["--volume", &joined(&disks)]);
    let server = start();
    for name in ["a/b/c.ts", "a/d.ts"] {
        assert_eq!(put(server.address, &format!("/media/{name}"), name.as_bytes()), 201);
    }
    let ids = [remove(&server, "a/d.ts"), remove(&server, "a")];
    assert_eq!(server.get("/media/a/b/c.ts").status, 404);
    assert!(server.stop().0.success());
    let server = start();
    assert_eq!(paths(&server, ""), ["a", "a/d.ts"]);
    // The folder first: else there would be one of its name.
    for id in ids.iter().rev() {
        assert_eq!(call(&server, "POST", &format!("trash/{id}/restore")).status, 204, "{id}");
    }
    for name in ["a/b/c.ts", "a/d.ts"] {
        assert_eq!(server.get(&format!("/media/{name}")).text(), name);
    }
}

#[test]
fn folders_that_are_left_of_a_restored_item_go() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [root, state] = ["root", "state"].map(|name| folder.path().join(name));
    let left = |number: u32| root.join(format!(".isocast-upload-kept-trash/2000000000000-{number}-3-16000"));
    fs::create_dir_all(left(1).join("films/a")).expect("made");
    let server = Setup::on(&[&root], &state, &[]).set("trash.size=16KiB").start();
    server.wait_for("the start", |_| !left(1).exists());
    fs::create_dir_all(left(2).join("films")).expect("made");
    fs::write(root.join("film.ts"), "film").expect("written");
    let id = remove(&server, "film.ts");
    assert_eq!(paths(&server, ""), ["film.ts"]);
    assert!(!left(2).exists());
    assert_eq!(call(&server, "POST", &format!("trash/{id}/restore")).status, 204);
    let names = fs::read_dir(root.join(".isocast-upload-kept-trash")).expect("the trash");
    assert_eq!(names.count(), 0, "nothing is left of it");
}

#[test]
fn a_restored_content_takes_its_bytes_of_the_budget_again() {
    let config = "[[budget]]\nof = \"address\"\nstored = \"1MB\"\n";
    let server = Setup::default().config(config).set("access.local_writes=true").start();
    let becomes = |bytes: u64| {
        server.wait_for("the sum", |_| {
            let all = server.json("/api/v1/budgets");
            let mut all = all.as_array().expect("a list").iter();
            all.find_map(|budget| budget["used"]["stored_bytes"].as_u64()).unwrap_or(0) == bytes
        });
    };
    let restore = |id: &str| call(&server, "POST", &format!("trash/{id}/restore")).status;
    assert_eq!(server.put("/media/a.ts", "", &[7; 600_000]).status, 201);
    let id = remove(&server, "a.ts");
    becomes(0);
    assert_eq!(server.put("/media/b/c.ts", "", &[7; 700_000]).status, 201);
    assert_eq!(restore(&id), 507);
    becomes(700_000);
    let folder = remove(&server, "b");
    assert_eq!(restore(&folder), 204);
    becomes(700_000);
    assert_eq!(call(&server, "POST", "contents/remove?path=b/c.ts").status, 204);
    becomes(0);
    assert_eq!(restore(&id), 204);
    becomes(600_000);
}

#[test]
fn nothing_is_restored_into_a_locked_folder() {
    let server = Setup::default().start();
    server.file("films/a.ts", b"film");
    let id = remove(&server, "films/a.ts");
    let body = "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
    let ask = |method: &str, fields: &str, body: &str| {
        let fields = format!("Host: localhost\r\n{fields}Content-Length: {}\r\n", body.len());
        server.ask(&format!("{method} /media/films/ HTTP/1.1\r\n{fields}\r\n{body}"))
    };
    let locked = ask("LOCK", "Depth: infinity\r\n", body);
    let token = locked.field("lock-token").expect("a token").to_owned();
    let restore = || call(&server, "POST", &format!("trash/{id}/restore")).status;
    assert_eq!(restore(), 423);
    assert_eq!(ask("UNLOCK", &format!("Lock-Token: {token}\r\n"), "").status, 204);
    assert_eq!(restore(), 204);
}
