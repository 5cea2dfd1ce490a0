//! The requests of one player hold one stream, also when it breaks them off to seek or to pause.

use crate::common::client::{Client, pattern};
use crate::common::server::{Server, Setup};
use schedule::profile::DiskProfile;

const FILM_BYTES: usize = 5_000_000;
const NAMED: &str = "/media/film.ts?rate=15M&session=v";
const UNNAMED: &str = "/media/film.ts?rate=15M";
const NEWCOMER: &str = "/media/other.ts?rate=15M&session=w";
const ANOTHER: &str = "/media/other.ts?rate=15M&session=x";

/// A server with room for one stream of 15 Mbit/s: the link is the limit, on any machine and disk.
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

fn wait_for_last_stream_end(server: &Server) {
    server.wait_for("the end of the stream", |server| streams(server) == 0);
}

#[test]
fn a_viewer_that_closes_its_connection_finds_its_stream_again() {
    let server = room_for_one();
    let (mut watching, status) = read_from(&server, NAMED, 0);
    assert_eq!(status, 206);
    // More than a second of it, which keeps its room for more than four.
    watching.take(2_000_000);
    drop(watching);
    wait_for_last_stream_end(&server);
    assert_eq!(read_from(&server, NEWCOMER, 0).1, 503, "what somebody may come back to is not given away");
    let (mut last, status) = read_from(&server, NAMED, FILM_BYTES - 1_500_000);
    assert_eq!(status, 206);
    last.take(1_500_000);
    // The reservation of a read to the end of a content is held for a moment only.
    server.wait_for("room for another", |server| read_from(server, NEWCOMER, 0).1 == 206);
}

#[test]
fn a_name_that_is_closed_at_once_keeps_nothing_from_others() {
    let server = room_for_one();
    let (looks, status) = read_from(&server, NAMED, 0);
    assert_eq!(status, 206);
    drop(looks);
    wait_for_last_stream_end(&server);
    server.wait_for("room for another", |server| read_from(server, NEWCOMER, 0).1 == 206);
}

#[test]
fn a_session_is_its_addresss_own() {
    let server = room_for_one();
    let (_watching, status) = read_from(&server, NAMED, 0);
    assert_eq!(status, 206);
    let mut other = server.connect_from("127.0.0.9");
    other.get(NAMED);
    assert_eq!(other.head().status, 503, "its name is no proof");
    let (_sought, status) = read_from(&server, NAMED, 1_000_000);
    assert_eq!(status, 206);
}

#[test]
fn a_viewer_that_seeks_needs_no_room_for_two() {
    for target in [NAMED, UNNAMED] {
        let server = room_for_one();
        let (mut watching, status) = read_from(&server, target, 0);
        assert_eq!(status, 206);
        for place in 1..=10 {
            // A player opens the new range before it closes the one it leaves.
            let (mut sought, status) = read_from(&server, target, place * 300_000);
            assert_eq!(status, 206, "seek {place} of {target}");
            sought.take(1000);
            watching = sought;
        }
        drop(watching);
    }
}

#[test]
fn a_viewer_that_closes_one_content_finds_room_for_the_next_at_once() {
    let server = room_for_one();
    let (mut film, mut other) = (UNNAMED.to_owned(), UNNAMED.replace("film", "other"));
    for title in 0..6 {
        let (mut watching, status) = read_from(&server, &film, 0);
        assert_eq!(status, 206, "title {title}");
        watching.take(100_000);
        // The next request comes before the server has noticed the close.
        drop(watching);
        std::mem::swap(&mut film, &mut other);
    }
}

/// Twenty viewers of titles of 19 s need 200 MB to have each sent ahead on its own, and 80 MB for the four titles.
#[test]
fn a_second_title_needs_no_room_to_be_sent_ahead() {
    let server = Setup::default().set("plane.memory=128MiB").start();
    for title in 0..4 {
        let file = std::fs::File::create(server.root.join(format!("title{title}.ts"))).expect("made");
        file.set_len(20 << 20).expect("long enough");
    }
    for shift in 0..2 {
        let watch = |viewer: usize| {
            let mut client = server.connect();
            let target = format!("/media/title{}.ts?rate=8.8M&session=v{viewer}", (viewer + shift) % 4);
            client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
            client
        };
        let mut viewers: Vec<Client> = (0..20).map(watch).collect();
        for viewer in &mut viewers {
            assert_eq!(viewer.head().status, 200, "title {}", shift + 1);
            viewer.take(1_000_000);
        }
    }
}

/// A spinning disk, and memory for fewer viewers than the disk has time for.
#[test]
fn a_name_takes_no_memory_from_other_viewers() {
    let admitted = |session: &str| {
        let spinning = Setup::default().disk(DiskProfile::spindle_default());
        let server = spinning.set("plane.memory=48MiB").start();
        let room = || server.json("/api/v1/system")["more_streams"].as_u64().expect("a number");
        server.wait_for("the first figures", |_| room() > 0);
        let free = room();
        let watch = |viewer: usize| {
            let name = format!("title{viewer}.ts");
            let file = std::fs::File::create(server.root.join(&name)).expect("made");
            file.set_len(20 << 20).expect("long enough");
            open_whole(&server, &format!("/media/{name}?rate=8.8M&{session}{viewer}"))
        };
        let viewers: Vec<(Client, u16)> = (0..16).map(watch).collect();
        let admitted = viewers.iter().filter(|(_, status)| *status == 200).count();
        let refused = server.get("/media/title0.ts?rate=8.8M&session=late").text();
        assert!(refused.contains("\"resource\":\"memory\""), "{refused}");
        assert_eq!((free, room()), (admitted as u64, 0), "the room that was shown");
        admitted
    };
    let unnamed = admitted("viewer=");
    assert!((2..16).contains(&unnamed), "{unnamed}");
    assert_eq!(admitted("session=v"), unnamed);
}

#[test]
fn a_brief_read_leaves_its_room_to_others() {
    let server = room_for_one();
    let (mut looks, status) = read_from(&server, UNNAMED, 0);
    assert_eq!(status, 206);
    looks.take(100_000);
    drop(looks);
    wait_for_last_stream_end(&server);
    assert_eq!(read_from(&server, NEWCOMER, 0).1, 206);
}

#[test]
fn the_ranges_of_a_download_share_one_reservation() {
    let server = with_room_for_one(Setup::default().set("sessions.hold=1s"));
    let ranges: Vec<(Client, u16)> = (0..8).map(|part| read_from(&server, UNNAMED, part * 200_000)).collect();
    assert!(ranges.iter().all(|(_, status)| *status == 206));
    assert_eq!(read_from(&server, NEWCOMER, 0).1, 503, "one of them has the room");
    drop(ranges);
    server.wait_for("room for another", |server| read_from(server, NEWCOMER, 0).1 == 206);
}

#[test]
fn the_encoded_rate_is_reserved_not_the_throughput() {
    let server = with_room_for_one(Setup::default());
    let cmcd = "/media/film.ts?CMCD=br%3D15000%2Crtp%3D600000%2Csid%3D%22p%22";
    let (watching, status) = read_from(&server, cmcd, 0);
    assert_eq!(status, 206, "forty times the rate of its level");
    let (_, status) = read_from(&server, ANOTHER, 0);
    assert_eq!(status, 503, "its level is reserved");
    drop(watching);
}

/// Requests all of `target`, without a range. Returns the connection, still in use, and the status.
fn open_whole(server: &Server, target: &str) -> (Client, u16) {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    let status = client.head().status;
    (client, status)
}

#[test]
fn an_initialization_segment_needs_no_room() {
    let server = with_room_for_one(Setup::default());
    server.file("init.m4s", &pattern(1000));
    let cmcd = |object: &str| format!("CMCD=br%3D15000%2Cot%3D{object}%2Csid%3D%22p%22");
    let (_watching, status) = open_whole(&server, &format!("/media/film.ts?{}", cmcd("v")));
    assert_eq!(status, 200);
    assert_eq!(open_whole(&server, &format!("/media/init.m4s?{}", cmcd("i"))).1, 200, "beside a part");
}

#[test]
fn a_player_that_opens_its_content_again_before_it_closes_it_plays() {
    let server = with_room_for_one(Setup::default().set("path_rates.film=15M"));
    let first = open_whole(&server, "/media/film.ts");
    let second = open_whole(&server, "/media/film.ts");
    let third = open_whole(&server, "/media/film.ts");
    assert_eq!((first.1, second.1, third.1), (200, 200, 200));
    assert_eq!(open_whole(&server, UNNAMED).1, 503, "who names a rate ends nothing that was promised");
}

#[test]
fn a_player_that_restarts_without_closing_plays() {
    let server = with_room_for_one(Setup::default().set("path_rates.long=15M"));
    server.file("long.ts", &pattern(60_000_000));
    // Eleven seconds: it plays, it does not only look.
    let (mut watching, status) = open_whole(&server, "/media/long.ts");
    assert_eq!(status, 200);
    watching.take(20_000_000);
    let neighbour = std::thread::spawn(move || {
        watching.take(10_000_000);
        watching
    });
    assert_eq!(open_whole(&server, "/media/long.ts").1, 503, "what is being watched is not taken away");
    let left = neighbour.join().expect("it watches");
    server.wait_for("the start again", |server| open_whole(server, "/media/long.ts").1 == 200);
    drop(left);
}

#[test]
fn a_streams_entry_has_the_figures_of_its_session() {
    let server = room_for_one();
    for nth in 0..3 {
        server.file(&format!("s{nth}.ts"), &pattern(300_000));
    }
    let mut player = server.connect();
    for nth in 0..3 {
        let target = format!("/media/s{nth}.ts?rate=15M&session=v");
        player.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        assert_eq!(player.head().status, 200);
        player.take(300_000);
    }
    let (_watching, status) = read_from(&server, NAMED, 0);
    assert_eq!(status, 206);
    let session = || server.json("/api/v1/streams")[0]["session"].clone();
    server.wait_for("the account of three contents", |_| session()["contents"] == 3);
    let session = session();
    assert!(session["lag_seconds"].is_number() && session["j_percent"].is_number(), "{session}");
}
