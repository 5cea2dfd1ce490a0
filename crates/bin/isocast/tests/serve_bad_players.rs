//! Players of segments that ask for missing files, for everything at once, or under the name of others: the rate of others holds,
//! and memory and streams stay bounded.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::thread;

use crate::common::client::{Answer, Client, pattern};
use crate::common::server::{Server, Setup};

/// More than a segment of sound of its own.
const SEGMENT_BYTES: usize = 1_200_000;
const SEGMENTS: usize = 10;
/// Most memory that a player's playlists may add.
const PLAYLIST_MEMORY: u64 = 64 << 20;

/// A server with a film in segments, on a link with room for three viewers.
fn film() -> Server {
    let server = Setup::default().set("links.lo=30M").start();
    for nth in 0..SEGMENTS {
        server.file(&segment(nth), &pattern(SEGMENT_BYTES));
    }
    server
}

fn segment(nth: usize) -> String {
    format!("s{nth:02}.ts")
}

fn target(nth: usize, viewer: &str) -> String {
    format!("/media/{}?rate=8M&session={viewer}", segment(nth))
}

/// A viewer plays these segments, one after the other on one connection: how each was answered.
fn play(mut client: Client, viewer: &str, segments: impl Iterator<Item = usize>) -> Vec<(u16, usize)> {
    let ask = |nth| {
        client.get(&target(nth, viewer));
        let Answer { status, body, .. } = client.answer(true);
        (status, body.len())
    };
    segments.map(ask).collect()
}

/// Another viewer has begun to play before `bad` begins, and has every segment whole.
fn beside_an_honest_viewer(server: &Server, bad: impl FnOnce()) {
    thread::scope(|scope| {
        let mut honest = server.connect();
        honest.get(&target(0, "honest"));
        assert_eq!(honest.head().status, 200);
        honest.take(SEGMENT_BYTES);
        let played = scope.spawn(|| play(honest, "honest", 1..6));
        bad();
        let played = played.join().expect("it plays");
        assert!(played.iter().all(|answer| *answer == (200, SEGMENT_BYTES)), "{played:?}");
    });
}

/// The playlist of this name, which is rewritten for its session: it has no length, and HTTP/1.0 no chunks.
fn playlist(server: &Server, name: &str) -> String {
    let mut client = server.connect();
    client.send(format!("GET /media/{name}.m3u8?rate=8M&session=v HTTP/1.0\r\nHost: localhost\r\n\r\n"));
    assert_eq!(client.head().status, 200, "{name}");
    client.stream.read_to_end(&mut client.buffer).expect("all of it");
    String::from_utf8(client.buffer).expect("text")
}

fn streams(server: &Server) -> usize {
    server.json("/api/v1/streams").as_array().expect("a list").len()
}

#[test]
fn a_playlist_of_a_hundred_thousand_lines_is_passed_on_in_pieces() {
    let server = film();
    let lines: String = (0..50_000).map(|nth| format!("#EXTINF:6.0,\n{nth}.ts\n")).collect();
    server.file("long.m3u8", format!("#EXTM3U\n{lines}").as_bytes());
    let before = server.resident_bytes();
    beside_an_honest_viewer(&server, || {
        let body = playlist(&server, "long");
        assert_eq!(body.matches("session=v&rate=8M").count(), 50_000);
    });
    let after = server.resident_bytes();
    assert!(after < before + PLAYLIST_MEMORY, "{before} bytes before it, {after} after");
}

#[test]
fn names_that_lead_nowhere_or_in_a_circle_are_answered_one_by_one() {
    let server = film();
    for (name, next) in [("a", "b.m3u8"), ("b", "a.m3u8"), ("self", "self.m3u8"), ("out", "../../../etc/passwd")] {
        server.file(&format!("{name}.m3u8"), format!("#EXTM3U\n{next}\n").as_bytes());
    }
    for name in ["a", "b", "self", "out"] {
        assert_eq!(playlist(&server, name).matches("session=v").count(), 1, "{name}");
    }
    let last = SEGMENTS - 1;
    let played = play(server.connect(), "v", last - 2..SEGMENTS + 2);
    let (there, missing) = played.split_at(3);
    assert!(there.iter().all(|answer| *answer == (200, SEGMENT_BYTES)), "{played:?}");
    assert!(missing.iter().all(|(status, _)| *status == 404), "the guess of the next one led nowhere: {played:?}");
}

#[test]
fn each_request_gets_the_present_version_of_a_segment() {
    let server = film();
    let (gone, other, grown) = (server.file(&segment(2), &pattern(8)), SEGMENT_BYTES / 2, SEGMENT_BYTES * 2);
    let first = play(server.connect(), "v", 0..2);
    fs::remove_file(gone).expect("it was there");
    server.file(&segment(3), &pattern(other));
    server.file(&segment(4), &pattern(grown));
    let then = play(server.connect(), "v", 2..6);
    let whole = (200, SEGMENT_BYTES);
    assert_eq!(first, [whole; 2]);
    assert_eq!((then[0].0, &then[1..]), (404, &[(200, other), (200, grown), whole][..]));
}

#[test]
fn a_segment_that_vanishes_is_replaced_or_grows_amid_a_read_comes_as_it_was() {
    let server = film();
    let is_as_it_was = |nth: usize, change: &dyn Fn(&Path)| {
        let path = server.file(&segment(nth), &pattern(SEGMENT_BYTES));
        let mut client = server.connect();
        client.get(&target(nth, "v"));
        assert_eq!(client.head().status, 200);
        change(&path);
        assert_eq!(client.take(SEGMENT_BYTES), pattern(SEGMENT_BYTES), "segment {nth}");
    };
    beside_an_honest_viewer(&server, || {
        is_as_it_was(6, &|path| fs::remove_file(path).expect("it was there"));
        is_as_it_was(7, &|path| fs::rename(server.file("other.ts", &pattern(8)), path).expect("it is there"));
        is_as_it_was(8, &|path| {
            let mut grows = OpenOptions::new().append(true).open(path).expect("it is there");
            grows.write_all(&pattern(SEGMENT_BYTES)).expect("room for it");
        });
    });
    let then: Vec<_> = play(server.connect(), "v", 6..9);
    assert_eq!(then.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [404, 200, 200]);
    assert_eq!((then[1].1, then[2].1), (8, 2 * SEGMENT_BYTES));
}

#[test]
fn a_player_that_asks_for_all_at_once_backwards_and_twice_takes_nothing_from_others() {
    let server = film();
    beside_an_honest_viewer(&server, || {
        let order = (0..SEGMENTS).rev().chain((0..SEGMENTS).map(|nth| nth * 7 % SEGMENTS));
        let greedy: Vec<Client> = order
            .map(|nth| {
                let mut client = server.connect();
                client.get(&target(nth, "greedy"));
                client
            })
            .collect();
        assert!(streams(&server) <= 2 * SEGMENTS + 1);
        for mut client in greedy {
            let answer = client.answer(true);
            let is_whole = answer.status == 200 && answer.body.len() == SEGMENT_BYTES;
            assert!(is_whole || answer.status == 503, "{} with {} bytes", answer.status, answer.body.len());
        }
    });
    server.wait_for("the end of all streams", |server| streams(server) == 0);
}

#[test]
fn a_rate_that_no_player_means_is_refused_or_holds_as_little() {
    let server = film();
    beside_an_honest_viewer(&server, || {
        let said = |rate: &str| format!("/media/{}?CMCD=br%3D{rate}%2Csid%3D%22p%22", segment(9));
        let mut slow = server.connect();
        slow.get(&said("1"));
        assert_eq!(slow.head().status, 200, "a kilobit a second takes no room");
        let refused = server.get(&said("1000000000"));
        assert_eq!((refused.status, refused.json()["resource"].as_str()), (503, Some("network")));
    });
}

#[test]
fn a_player_that_closes_amid_each_segment_leaves_no_stream_behind() {
    let server = film();
    beside_an_honest_viewer(&server, || {
        for nth in 0..3 * SEGMENTS {
            let mut client = server.connect();
            client.get(&target(nth % SEGMENTS, "closes"));
            if client.head().status == 200 {
                client.take(1000);
            }
        }
    });
    server.wait_for("the end of all streams", |server| streams(server) == 0);
}

#[test]
fn the_name_of_another_viewer_is_no_way_to_its_rate() {
    let server = film();
    beside_an_honest_viewer(&server, || {
        let intruder = server.connect_from("127.0.0.9");
        play(intruder, "honest", (0..SEGMENTS).rev().take(4));
    });
}
