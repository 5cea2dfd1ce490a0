//! Requests of WebDAV that exceed limits, contradict each other, or use another client's lock: each has its answer, and changes nothing.

use std::io::Write as _;

use crate::common::client::{Answer, Client};
use crate::common::server::{Server, Setup};
use crate::serve_accounts::ada_bob_and_eve;

fn ask(client: &mut Client, method: &str, target: &str, fields: &str, body: &[u8]) -> Answer {
    let length = body.len();
    let head =
        format!("{method} /media/{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n");
    // A body that is too long may be refused before its end.
    let _ = client.stream.write_all(&[head.as_bytes(), body].concat());
    client.answer(true)
}

fn lock(scope: &str) -> Vec<u8> {
    let text =
        format!("<lockinfo xmlns=\"DAV:\"><lockscope><{scope}/></lockscope><locktype><write/></locktype></lockinfo>");
    text.into_bytes()
}

fn share() -> Server {
    let server = Setup::default().start();
    server.file("f/a", b"a");
    server
}

#[test]
fn locks_of_a_folder_and_of_a_content_in_it_exclude_each_other_by_their_depth_and_scope() {
    for (first, second, expected) in [
        (("f/a", "0", "exclusive"), ("f", "infinity", "exclusive"), 423),
        (("f/a", "0", "shared"), ("f", "infinity", "exclusive"), 423),
        (("f/a", "0", "exclusive"), ("f", "infinity", "shared"), 423),
        (("f/a", "0", "shared"), ("f", "infinity", "shared"), 200),
        (("f/a", "0", "exclusive"), ("f", "0", "exclusive"), 200),
        (("f", "infinity", "exclusive"), ("f/a", "0", "shared"), 423),
        (("f", "infinity", "shared"), ("f/a", "0", "exclusive"), 423),
        (("f", "infinity", "shared"), ("f/a", "infinity", "shared"), 200),
        (("f", "0", "exclusive"), ("f/a", "infinity", "exclusive"), 200),
        (("f", "infinity", "exclusive"), ("", "0", "exclusive"), 200),
        (("f", "0", "shared"), ("", "infinity", "exclusive"), 423),
    ] {
        let server = share();
        let mut client = server.connect();
        let mut made = |(target, depth, scope): (&str, &str, &str)| {
            ask(&mut client, "LOCK", target, &format!("Depth: {depth}\r\n"), &lock(scope))
        };
        assert_eq!(made(first).status, 200, "{first:?}");
        let answer = made(second);
        assert_eq!(answer.status, expected, "{first:?} {second:?}");
        let named = format!("<D:href>/media/{}</D:href>", first.0);
        assert!(expected == 200 || answer.text().contains(&named), "{second:?}: {}", answer.text());
    }
    let server = share();
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "LOCK", "f", "Depth: 0\r\n", &lock("exclusive")).status, 200);
    assert_eq!(ask(&mut client, "PUT", "f/a", "", b"x").status, 204, "its contents are not locked");
    assert_eq!(ask(&mut client, "PUT", "f/new", "", b"x").status, 423, "its names are");
    assert_eq!(ask(&mut client, "LOCK", "f/a", "Depth: 1\r\n", &lock("exclusive")).status, 400);
}

#[test]
fn the_token_of_another_users_lock_is_of_no_use() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let server = ada_bob_and_eve(folder.path()).start();
    let mut client = server.connect();
    let (ada, bob) = ("Authorization: Basic YWRhOnA=\r\n", "Authorization: Basic Ym9iOnA=\r\n");
    let locked = ask(&mut client, "LOCK", "films/a.ts", ada, &lock("exclusive"));
    let token = locked.field("lock-token").expect("a token").to_owned();
    let with = |who: &str, field: &str| format!("{who}{field}\r\n");
    let (condition, unlock) = (format!("If: ({token})"), format!("Lock-Token: {token}"));
    assert_eq!(ask(&mut client, "UNLOCK", "films/a.ts", &with(bob, &unlock), b"").status, 403);
    assert_eq!(ask(&mut client, "LOCK", "films/a.ts", &with(bob, &condition), b"").status, 403, "a refresh");
    assert_eq!(ask(&mut client, "PUT", "films/a.ts", &with(bob, &condition), b"x").status, 423);
    assert_eq!(ask(&mut client, "GET", "films/a.ts", bob, b"").length(), 1000, "as it was");
    assert_eq!(ask(&mut client, "PUT", "films/a.ts", &with(ada, &condition), b"x").status, 204);
    assert_eq!(ask(&mut client, "UNLOCK", "films/a.ts", &with(ada, &unlock), b"").status, 204);
    assert_eq!(ask(&mut client, "PUT", "films/a.ts", bob, b"y").status, 204);
}

#[test]
fn bodies_that_are_no_request_of_webdav_are_refused() {
    let server = share();
    let external =
        b"<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><propfind xmlns=\"DAV:\"><prop>&b;</prop></propfind>";
    let bomb = b"<!DOCTYPE a [<!ENTITY b \"&c;&c;\"><!ENTITY c \"&d;&d;\">]><propfind xmlns=\"DAV:\"><prop>&b;</prop></propfind>";
    let nested = ["<propfind xmlns=\"DAV:\">", &"<a>".repeat((1 << 20) / 3)].concat();
    let many = ["<propfind xmlns=\"DAV:\"><prop>", &"<a/>".repeat(1 << 18), "</prop></propfind>"].concat();
    for (name, body, expected) in [
        ("an external entity", &external[..], 403),
        ("a bomb", bomb, 403),
        ("1 MiB of nested elements", nested.as_bytes(), 413),
        ("1 MiB of elements", many.as_bytes(), 413),
        ("another namespace", b"<propfind xmlns=\"urn:x\"><allprop/></propfind>", 400),
        ("no namespace", b"<propfind><allprop/></propfind>", 400),
        ("no UTF-8", b"<propfind xmlns=\"DAV:\"><prop><a\xff/></prop></propfind>", 400),
        ("an end without a beginning", b"<propfind xmlns=\"DAV:\"></prop></propfind>", 400),
        ("two roots", b"<propfind xmlns=\"DAV:\"><allprop/></propfind><a/>", 400),
    ] {
        let answer = ask(&mut server.connect(), "PROPFIND", "f/a", "Depth: 0\r\n", body);
        assert_eq!(answer.status, expected, "{name}: {}", answer.text());
    }
    assert_eq!(ask(&mut server.connect(), "PROPFIND", "f/a", "Depth: 0\r\n", b"").status, 207);
}
