//! Rights that an operator takes back while streams and uploads run by them.

use std::fs;

use crate::common::client::{Client, pattern};
use crate::common::server::Server;
use crate::serve_accounts::{ada_bob_and_eve, isocast};

const ADA: &str = "Authorization: Basic YWRhOnA=\r\n";
const BOB: &str = "Authorization: Basic Ym9iOnA=\r\n";
const EVE: &str = "Authorization: Basic ZXZlOnA=\r\n";

/// A server with a film of each of these names, of minutes at the rate at which it is read here.
fn server(films: &[&str]) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let setup = ada_bob_and_eve(folder.path());
    for film in films {
        fs::write(folder.path().join("root/films").join(film), pattern(10_000_000)).expect("written");
    }
    (folder, setup.set("links.lo=1G").start())
}

/// Begins to read a film at 400 kbit/s.
fn play(server: &Server, target: &str, fields: &str) -> Client {
    let mut client = server.connect();
    let target = if target.contains('?') { format!("{target}&rate=400k") } else { format!("{target}?rate=400k") };
    client.send(format!("GET /media/films/{target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    assert_eq!(client.head().status, 200, "{target}");
    client
}

#[test]
fn streams_end_when_their_account_right_token_or_link_is_taken_back() {
    let (folder, server) = server(&["right.ts", "token.ts", "link.ts", "made.ts", "account.ts", "ada.ts"]);
    let state = folder.path().join("state");
    let token = isocast(&state, &["token", "add", "bob", "--rights", "read", "--folder", "films"], "");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    isocast(&state, &["user", "grant", "eve", "share"], "");
    let link = isocast(&state, &["share", "films/link.ts", "--url", "http://h"], "");
    let made = server.ask(&format!(
        "POST /api/v1/shares HTTP/1.1\r\nHost: localhost\r\n{EVE}Content-Type: application/json\r\nContent-Length: 47\r\n\r\n{}",
        r#"{"path":"films/made.ts","expires_seconds":3600}"#
    ));
    assert_eq!(made.status, 201, "{}", made.text());
    let of_link = |url: &str| url.split_once("/media/films/").expect("an address below the folder").1.to_owned();
    let made = of_link(made.json()["address"].as_str().expect("an address"));
    let films = [
        ("right.ts", "bob", play(&server, "right.ts", BOB)),
        ("token.ts", "bob", play(&server, "token.ts", &bearer)),
        ("link.ts", "link:1", play(&server, &of_link(&link), "")),
        ("made.ts", "link:2", play(&server, &made, "")),
        ("account.ts", "eve", play(&server, "account.ts", EVE)),
    ];
    let _kept = play(&server, "ada.ts", ADA);
    let taken_back: [&[&str]; 5] = [
        &["user", "revoke", "bob", "read", "films"],
        &["token", "revoke", "1"],
        &["share", "revoke", "1"],
        &["user", "revoke", "eve", "share"],
        &["user", "remove", "eve"],
    ];
    // The token first: it is bob's, and so has lost its right when bob has.
    for nth in [1, 0, 2, 3, 4] {
        let (film, holder, _) = &films[nth];
        isocast(&state, taken_back[nth], "");
        let stopped = server.wait_stderr_line(&format!("\"event\":\"stream_stopped\",\"path\":\"films/{film}\""));
        assert!(stopped.contains("\"by\":null") && stopped.contains(&format!("\"user\":\"{holder}\"")), "{stopped}");
        server.wait_stderr_line(&format!("\"outcome\":\"Stopped\",\"path\":\"films/{film}\""));
    }
    let log = server.stderr_text();
    assert_eq!(log.lines().filter(|line| line.contains("\"stream_ended\"")).count(), 5, "ada's continues: {log}");
}

#[test]
fn an_upload_ends_when_its_right_is_taken_back() {
    let (folder, server) = server(&[]);
    let state = folder.path().join("state");
    let mut client = server.connect();
    client.send(format!("PUT /media/films/new.ts HTTP/1.1\r\nHost: localhost\r\n{BOB}Content-Length: 2000000\r\n\r\n"));
    client.send(pattern(1_000_000));
    // It has begun, by a right that there was.
    let metrics = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{ADA}\r\n");
    server.wait_for("the upload", |server| server.ask(&metrics).text().contains("\nisocast_uploads 1\n"));
    isocast(&state, &["user", "revoke", "bob", "write", "films"], "");
    client.send(pattern(1_000_000));
    let answer = client.answer(true);
    assert!(answer.status == 403 && answer.text().contains("taken back"), "{}: {}", answer.status, answer.text());
    assert!(!folder.path().join("root/films/new.ts").exists());
    server.wait_stderr_line("the right to store this was taken back");
}

#[test]
fn an_event_stream_ends_when_its_right_is_taken_back() {
    let (folder, server) = server(&[]);
    for call in ["events", "live"] {
        let mut client = server.connect();
        client.send(format!(
            "GET /api/v1/{call} HTTP/1.1\r\nHost: localhost\r\n{EVE}Accept: text/event-stream\r\nConnection: close\r\n\r\n"
        ));
        assert_eq!(client.head().status, 200);
        isocast(&folder.path().join("state"), &["user", "revoke", "eve", "read"], "");
        while client.more() {}
        isocast(&folder.path().join("state"), &["user", "grant", "eve", "read"], "");
    }
}
