//! Deliveries through a stage, by the real program: playlists that carry the session and the rate of their request.

use std::fmt::Write as _;

use crate::common::client::Client;
use crate::common::server::{Server, Setup};
use rustix::process::Signal;

const ASKED: &str = "session=viewer&rate=16M";

/// A playlist of at least `bytes`, and the altered one.
fn playlist(bytes: usize, asked: &str) -> (String, String) {
    let (mut list, mut carried) = ("#EXTM3U\n".to_owned(), "#EXTM3U\n".to_owned());
    for nth in 0.. {
        if list.len() >= bytes {
            break;
        }
        let line = format!("#EXTINF:4.000,\npart-{nth:0200}.ts");
        writeln!(list, "{line}").expect("written");
        writeln!(carried, "{line}?{asked}").expect("written");
    }
    (list, carried)
}

/// Requests `target` without a framing: the body ends with the connection.
fn ask(server: &Server, target: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.0\r\n\r\n").as_bytes());
    client
}

fn rest(client: &mut Client) -> Vec<u8> {
    client.take(usize::MAX)
}

fn seconds_of(event: &str) -> f64 {
    let event: serde_json::Value = serde_json::from_str(event).expect("JSON");
    event["seconds"].as_f64().expect("a number")
}

#[test]
fn a_player_of_a_playlist_holds_one_stream() {
    let server = Server::start();
    let list = "#EXTM3U\n#EXTINF:4,\n0.ts\n#EXTINF:4,\n1.ts\n";
    server.file("a/list.m3u8", list.as_bytes());
    for name in ["a/0.ts", "a/1.ts"] {
        server.file(name, &crate::common::client::pattern(500_000));
    }
    let mut client = server.connect();
    client.get(&format!("/media/a/list.m3u8?{ASKED}"));
    let head = client.head();
    assert_eq!((head.status, head.field("transfer-encoding")), (200, Some("chunked")));
    assert_eq!((head.field("content-length"), head.field("accept-ranges")), (None, Some("none")));
    let text = format!("#EXTM3U\n#EXTINF:4,\n0.ts?{ASKED}\n#EXTINF:4,\n1.ts?{ASKED}\n");
    let framed = format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
    assert_eq!(String::from_utf8(client.take(framed.len())).expect("text"), framed);
    for name in ["0.ts", "1.ts"] {
        client.get(&format!("/media/a/{name}?{ASKED}"));
        assert_eq!(client.answer(true).body.len(), 500_000, "the connection goes on");
        server.wait_for("one reservation for all of them", |server| {
            (1.9e6..2.1e6).contains(&server.metric("isocast_promised_bytes_per_second"))
        });
    }
    let plain = server.get("/media/a/list.m3u8");
    assert_eq!((plain.text().as_str(), plain.field("accept-ranges")), (list, Some("bytes")), "as it is");
}

#[test]
fn a_stream_through_a_stage_keeps_its_rate() {
    let server = Server::start();
    // To a viewer with a name so short a content would be a segment, which is sent faster than its rate.
    let asked = "rate=16M";
    let (list, carried) = playlist(3_000_000, asked);
    server.file("long.m3u8", list.as_bytes());
    server.file("long.txt", list.as_bytes());
    let mut passing = ask(&server, &format!("/media/long.m3u8?{asked}"));
    let mut direct = ask(&server, &format!("/media/long.txt?{asked}"));
    let direct = std::thread::spawn(move || (direct.head(), rest(&mut direct)));
    assert_eq!(passing.head().field("x-isocast-rate"), Some("16000000"));
    assert!(rest(&mut passing) == carried.as_bytes(), "every byte, in its place");
    assert!(direct.join().expect("a client").1 == list.as_bytes());
    let seconds = |path: &str| seconds_of(&server.wait_event(&["stream_ended", path, "Complete"]));
    // By the plane's clock, which does not start before the stream: 1.5 s at the rate; bytes in the buffers run ahead.
    let (passing, direct) = (seconds("long.m3u8"), seconds("long.txt"));
    assert!(passing > 1.0 && direct > 1.0, "paced: {passing} s with the stage, {direct} s without");
}

#[test]
fn a_vanished_client_or_refusing_stage_frees_the_stream() {
    // The time for which a viewer's reservation is held for its next read.
    let server = Setup::default().set("sessions.hold=1s").start();
    let (list, carried) = playlist(3_000_000, ASKED);
    server.file("long.m3u8", list.as_bytes());
    let mut client = ask(&server, "/media/long.m3u8?rate=16M");
    assert_eq!(client.head().status, 200);
    assert!(!client.take(1000).is_empty());
    drop(client);
    server.wait_event(&["stream_ended", "ClientGone"]);
    server.wait_for("its room", |server| server.metric("isocast_promised_bytes_per_second") == 0.0);
    server.file("none.m3u8", &[b'x'; 2_000_000]);
    let refused = server.get("/media/none.m3u8?rate=16M");
    assert_eq!((refused.status, refused.field("content-type")), (422, Some("application/problem+json")));
    server.file("late.m3u8", &[list.as_bytes(), &[b'x'; 100_000]].concat());
    let mut client = ask(&server, "/media/late.m3u8?rate=max&session=viewer");
    assert_eq!(client.head().status, 200);
    assert!(rest(&mut client).len() < carried.len() + 100_000, "broken off");
    server.wait_for("both", |server| server.events().matches("StageFailed").count() == 2);
    server.wait_for("their room", |server| server.metric("isocast_promised_bytes_per_second") == 0.0);
}

#[test]
fn a_drain_lets_it_finish() {
    let mut server = Server::start();
    let (list, carried) = playlist(3_000_000, ASKED);
    server.file("long.m3u8", list.as_bytes());
    let mut client = ask(&server, &format!("/media/long.m3u8?{ASKED}"));
    assert_eq!(client.head().status, 200);
    server.signal(Signal::TERM);
    assert!(rest(&mut client) == carried.as_bytes());
    assert!(server.ended().success());
}
