//! Reservations ahead: their room is kept from newcomers, over a restart too, until they are removed or over.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::common::client::{Answer, pattern};
use crate::common::server::{Server, Setup};
use crate::serve_accounts::isocast;

const ADA: &str = "Authorization: Basic YWRhOnNlY3JldA==\r\n";
const BOB: &str = "Authorization: Basic Ym9iOnNlY3JldA==\r\n";

/// A server of this folder with a link of 100 Mbit/s, on which viewers that read nothing stay.
fn start(folder: &Path) -> Server {
    Setup::on(&[&folder.join("root")], &folder.join("state"), &[])
        .set("links.lo=100M")
        .set("streams.stall=600s")
        .start()
}

/// The same with a film, and the users ada, who administers it, and bob.
fn server(folder: &Path) -> Server {
    fs::create_dir_all(folder.join("root/films")).expect("a folder");
    fs::write(folder.join("root/films/film.ts"), pattern(30_000_000)).expect("written");
    fs::write(folder.join("root/films/list.txt"), "film.ts").expect("written");
    let state = folder.join("state");
    isocast(&state, &["user", "add", "ada", "--admin", "--password-stdin"], "secret\n");
    isocast(&state, &["user", "add", "bob", "--password-stdin"], "secret\n");
    start(folder)
}

fn call(server: &Server, request: &str, login: &str, body: &str) -> Answer {
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n{login}", body.len());
    server.ask(&format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n{body}"))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn reserve(server: &Server, login: &str, path: &str, rate: u64, (from, until): (u64, u64)) -> Answer {
    let body = json!({ "path": path, "rate_bps": rate, "from": from, "until": until });
    call(server, "POST /api/v1/reservations", login, &body.to_string())
}

fn list(server: &Server, login: &str) -> Vec<Value> {
    let answer = call(server, "GET /api/v1/reservations", login, "");
    assert_eq!(answer.status, 200);
    answer.json().as_array().expect("a list").clone()
}

/// The status of a read, and the rate that it gets or would get.
fn read(server: &Server, query: &str) -> (u16, u64) {
    let mut client = server.connect();
    client.send(format!("GET /media/films/film.ts?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let head = client.head();
    let rate = head.field("x-isocast-rate").and_then(|rate| rate.parse().ok());
    (head.status, rate.unwrap_or_default())
}

fn all_over(server: &Server) {
    server.wait_for("the end of all streams", |server| {
        server.json("/api/v1/streams").as_array().is_some_and(Vec::is_empty)
    });
}

#[test]
fn the_room_of_a_reservation_is_kept_from_newcomers_and_over_a_restart() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let server = server(folder.path());
    let time = (now(), now() + 3600);
    let made = reserve(&server, BOB, "films", 60_000_000, time);
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    assert_eq!((&made["state"], &made["by"], &made["path"]), (&"kept".into(), &"bob".into(), &"films".into()));
    all_over(&server);
    let session = made["session"].as_str().expect("a name").to_owned();
    assert_eq!(read(&server, "rate=60M&session=other").0, 503, "the room is bob's");
    all_over(&server);
    assert_eq!(read(&server, &format!("session={session}")), (200, 60_000_000));
    all_over(&server);
    assert_eq!(read(&server, "rate=60M").0, 503, "after a read too");
    let second = reserve(&server, ADA, "films/film.ts", 60_000_000, time);
    assert_eq!(second.status, 503, "{}", second.text());
    let grantable = second.json()["grantable_bps"].as_u64().expect("the rate that would fit");
    assert!((30_000_000..40_000_000).contains(&grantable), "{grantable}");
    assert_eq!(reserve(&server, ADA, "films/film.ts", grantable, time).status, 201);
    assert_eq!((list(&server, BOB).len(), list(&server, ADA).len()), (1, 2), "a user sees the own ones");

    assert!(server.stop().0.success());
    let server = start(folder.path());
    server.wait_for("the reservations", |server| {
        list(server, ADA).len() == 2 && list(server, ADA).iter().all(|one| one["state"] == "kept")
    });
    all_over(&server);
    assert_eq!(read(&server, "rate=60M").0, 503);
    all_over(&server);
    assert_eq!(read(&server, &format!("session={session}")), (200, 60_000_000));
    all_over(&server);
    let id = made["id"].as_u64().expect("a number");
    assert_eq!(call(&server, "DELETE /api/v1/reservations/2", BOB, "").status, 404, "ada's");
    assert_eq!(call(&server, &format!("DELETE /api/v1/reservations/{id}"), BOB, "").status, 204);
    server.wait_for("its room", |server| read(server, "rate=60M").0 == 200);
    let (_, events) = server.stop();
    assert!(events.contains("\"event\":\"reservation_kept\"") && !events.contains(&session), "{events}");
}

#[test]
fn a_reservation_that_comes_near_on_a_full_server_gets_the_next_room() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let server = server(folder.path());
    let mut viewers: Vec<_> = (0..9)
        .map(|viewer| {
            let mut client = server.connect_from(&format!("127.0.0.{}", 20 + viewer));
            client.send("GET /media/films/film.ts?rate=10M HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert_eq!(client.head().status, 200);
            client
        })
        .collect();
    // It is near an hour before its beginning: in five seconds, or later where a login alone takes as long.
    let planned = [5, 20, 80].into_iter().find_map(|seconds| {
        let from = now() + 3600 + seconds;
        let made = reserve(&server, BOB, "films/film.ts", 20_000_000, (from, from + 60));
        assert!(made.status == 201 || made.status == 503, "{}", made.text());
        (made.status == 201).then(|| made.json())
    });
    assert_eq!(planned.expect("it is not near yet")["state"], "planned");
    server.wait_for("its turn", |server| list(server, BOB)[0]["state"] == "waiting");
    assert_eq!(list(&server, BOB)[0]["short"], "network lo");
    drop(viewers.pop());
    // The room of one stream is too little for the reservation, and no newcomer gets it.
    for _ in 0..3 {
        assert_eq!(read(&server, "rate=10M").0, 503);
    }
    viewers.truncate(6);
    server.wait_for("its room", |server| list(server, BOB)[0]["state"] == "kept");
    let session = list(&server, BOB)[0]["session"].as_str().expect("a name").to_owned();
    assert_eq!(read(&server, &format!("session={session}&rate=80M")).0, 503, "it has not begun");
}

#[test]
fn reservations_are_within_rights_budgets_the_link_and_bounds() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (server, state) = (server(folder.path()), folder.path().join("state"));
    let (from, until) = (now() + 100_000, now() + 110_000);
    let status = |path: &str, rate, time| reserve(&server, BOB, path, rate, time).status;
    assert_eq!(reserve(&server, "", "films", 1_000_000, (from, until)).status, 401);
    assert_eq!(status("films/none.ts", 1_000_000, (from, until)), 404);
    assert_eq!(status("films/../films", 1_000_000, (from, until)), 400);
    for (rate, time) in [(1, (from, until)), (1_000_000, (until, from)), (1_000_000, (from, from + 8 * 86_400))] {
        assert_eq!(status("films", rate, time), 400, "{rate} {time:?}");
    }
    assert_eq!(status("films", 1_000_000, (0, now() - 1)), 400);
    assert_eq!(status("films", 1_000_000, (now() + 367 * 86_400, now() + 367 * 86_400 + 1)), 400);
    // All of one time share the link; others do not count.
    assert_eq!(status("films", 60_000_000, (from, until)), 201);
    assert_eq!(status("films", 60_000_000, (until, until + 10)), 201);
    let full = reserve(&server, BOB, "films", 60_000_000, (until - 1, until + 1));
    assert_eq!(full.status, 503, "{}", full.text());
    assert_eq!(full.json()["resource"], "network");
    isocast(&state, &["user", "budget", "bob", "--reserved", "80M"], "");
    let over = reserve(&server, BOB, "films", 30_000_000, (from, until));
    assert_eq!(over.status, 429, "{}", over.text());
    assert_eq!((&over.json()["budget"], &over.json()["used"]), (&"user:bob".into(), &60_000_000.into()));
    assert_eq!(status("films", 20_000_000, (from, until)), 201);
    // With its user they go.
    isocast(&state, &["user", "remove", "bob"], "");
    assert!(list(&server, ADA).is_empty());
}
