//! The requests of one player hold one stream, also when it breaks them off to seek or to pause.

mod fixtures;

use fixtures::{Client, Server, Setup, pattern};

const FILM_BYTES: usize = 5_000_000;
const NAMED: &str = "/media/film.ts?rate=15M&session=v";
const UNNAMED: &str = "/media/film.ts?rate=15M";
const NEWCOMER: &str = "/media/other.ts?rate=15M&session=w";

/// A server with room for one stream of 15 Mbit/s: the link is what is short, whatever the machine and its disk can do.
fn room_for_one() -> Server {
    let server = Setup::default().set("links.lo=20M").start();
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

fn wait_nobody_streams(server: &Server) {
    let none = |server: &Server| server.json("/api/v1/streams").as_array().is_some_and(Vec::is_empty);
    server.wait_for("the end of the stream", none);
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
