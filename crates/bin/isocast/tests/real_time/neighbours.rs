//! Two people behind one address, with one program and no names, at one film, on a link for one viewer.

use crate::common::client::{Client, pattern};
use crate::common::server::{Server, Setup};

const FIELDS: &str = "Host: localhost\r\nUser-Agent: TV/1\r\nRange: bytes=0-\r\n\r\n";

fn opens(server: &Server) -> Client {
    let mut client = server.connect();
    client.send(format!("GET /media/film.ts?rate=5M&burst=0 HTTP/1.1\r\n{FIELDS}"));
    client
}

#[test]
fn the_same_film_opened_by_a_neighbour_takes_no_rate_and_a_seek_to_its_start_does() {
    let server = Setup::default().set("links.lo=7M").start();
    server.file("film.ts", &pattern(60_000_000));
    let mut watching = opens(&server);
    assert_eq!(watching.head().status, 206);
    // It plays after 10 s (`service::session::PLAYS_AFTER`).
    watching.take(7_000_000);
    let constant = || {
        let all = server.json("/api/v1/streams");
        all.as_array().expect("a list").iter().filter(|stream| stream["class"] == "constant").count()
    };
    let reader = std::thread::spawn(move || {
        watching.take(3_000_000);
        watching
    });
    let mut neighbour = opens(&server);
    assert_eq!(neighbour.head().status, 206, "a player that seeks would close its older connection now");
    assert!(neighbour.is_closed(), "it gets nothing, for that is still read");
    assert_eq!(constant(), 1);
    server.wait_event(&["stream_refused", "film.ts"]);

    let watching = reader.join().expect("it lost nothing");
    let mut seek = opens(&server);
    let head = seek.head();
    assert_eq!((head.status, head.field("x-isocast-rate")), (206, None), "nothing is promised yet");
    drop(watching);
    seek.take(1_000_000);
    assert_eq!(constant(), 1);
}
