//! The requests of one player hold one stream, also when it breaks them off to seek or to pause.

mod fixtures;

use std::thread;

use fixtures::{Client, Server, Setup, pattern};

const FILM_BYTES: usize = 5_000_000;
const NAMED: &str = "/media/film.ts?rate=15M&session=v";
const UNNAMED: &str = "/media/film.ts?rate=15M";
const NEWCOMER: &str = "/media/other.ts?rate=15M&session=w";
const ANOTHER: &str = "/media/other.ts?rate=15M&session=x";

/// A server with room for one stream of 15 Mbit/s: the link is what is short, whatever the machine and its disk can do.
fn room_for_one() -> Server {
    with_room_for_one(Setup::default())
}

fn with_room_for_one(setup: Setup) -> Server {
    let server = setup.set("links.lo=20M").start();
    server.file("film.ts", &pattern(FILM_BYTES));
    server.file("other.ts", &pattern(FILM_BYTES));
    server
}

fn read_from(server: &Server, target: &str, first: usize) -> (Client, u16) {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nRange: bytes={first}-\r\n\r\n").as_bytes());
    let status = client.head().status;
    (client, status)
}

fn streams(server: &Server) -> usize {
    server.json("/api/v1/streams").as_array().expect("a list").len()
}

fn wait_nobody_streams(server: &Server) {
    server.wait_for("the end of the stream", |server| streams(server) == 0);
}

#[test]
fn a_viewer_that_closes_its_connection_finds_its_stream_again() {
    let server = room_for_one();
    let (mut watching, status) = read_from(&server, NAMED, 0);
    assert_eq!(status, 206);
    watching.take(100_000);
    drop(watching);
    wait_nobody_streams(&server);
    assert_eq!(read_from(&server, NEWCOMER, 0).1, 503, "what somebody may come back to is not given away");
    let (mut last, status) = read_from(&server, NAMED, FILM_BYTES - 1_500_000);
    assert_eq!(status, 206);
    last.take(1_500_000);
    // What was read to its end is held for a moment only.
    server.wait_for("room for another", |server| read_from(server, NEWCOMER, 0).1 == 206);
}

#[test]
fn a_viewer_that_seeks_needs_no_room_for_two() {
    let server = room_for_one();
    let (watching, status) = read_from(&server, NAMED, 0);
    assert_eq!(status, 206);
    let (sought, status) = read_from(&server, NAMED, 1_000_000);
    assert_eq!(status, 206, "the read it left behind is ended for it");
    drop((watching, sought));
    assert_eq!(read_from(&server, NAMED, 2_000_000).1, 206, "the one it closed a moment ago, too");
}

#[test]
fn a_viewer_without_a_name_seeks_by_closing_and_asking_anew() {
    let server = room_for_one();
    let (watching, status) = read_from(&server, UNNAMED, 0);
    assert_eq!(status, 206);
    let (_, status) = read_from(&server, UNNAMED, 1_000_000);
    assert_eq!(status, 503, "beside a read that goes on it is another viewer");
    drop(watching);
    assert_eq!(read_from(&server, UNNAMED, 2_000_000).1, 206);
}

fn remembered(server: &Server) -> u64 {
    let page = server.get("/metrics").text();
    let line = page.lines().find_map(|line| line.strip_prefix("isocast_viewers_remembered "));
    line.and_then(|count| count.parse().ok()).expect("a gauge")
}

/// A viewer paused until a newcomer had its place; the newcomer.
fn paused_for_long(server: &Server) -> Client {
    let (mut watching, status) = read_from(server, NAMED, 0);
    assert_eq!(status, 206);
    watching.take(100_000);
    drop(watching);
    let mut newcomer = None;
    server.wait_for("the end of what was held", |server| {
        let (client, status) = read_from(server, NEWCOMER, 0);
        newcomer = (status == 206).then_some(client);
        newcomer.is_some()
    });
    newcomer.expect("waited for")
}

/// The viewer returns while `newcomer` has the place it had, and that leaves only then: the answer to the viewer. Another
/// newcomer asks for the place all the while.
fn returns_before_it_leaves(server: &Server, newcomer: Client) -> u16 {
    let mut returning = server.connect();
    returning.send(format!("GET {NAMED} HTTP/1.1\r\nHost: localhost\r\nRange: bytes=100000-\r\n\r\n").as_bytes());
    let returning = thread::spawn(move || returning.head().status);
    server.wait_for("the viewer's request", |server| streams(server) == 2 || returning.is_finished());
    drop(newcomer);
    while !returning.is_finished() {
        let status = read_from(server, ANOTHER, 0).1;
        assert!(status == 503 || returning.is_finished(), "a newcomer overtook who returned");
    }
    returning.join().expect("it was answered")
}

#[test]
fn who_returns_after_a_long_pause_is_let_in_before_newcomers() {
    let server = with_room_for_one(Setup::default().set("sessions.hold=1s"));
    let newcomer = paused_for_long(&server);
    assert_eq!(remembered(&server), 1);
    assert_eq!(read_from(&server, ANOTHER, 0).1, 503, "it came before the viewer returns, and asks again and again");
    assert_eq!(returns_before_it_leaves(&server, newcomer), 206);
}

#[test]
fn who_returns_too_late_is_a_newcomer() {
    let server = with_room_for_one(Setup::default().set("sessions.hold=1s").set("sessions.precedence=1s"));
    let newcomer = paused_for_long(&server);
    server.wait_for("the end of its precedence", |server| remembered(server) == 0);
    assert_eq!(returns_before_it_leaves(&server, newcomer), 503);
}
