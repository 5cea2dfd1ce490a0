//! Refusals: a rate that does not fit names a rate that would, a word that is no rate names the way to write one.

use crate::common::client::{Client, pattern};
use crate::common::server::{Server, Setup};

#[test]
fn a_refusal_names_the_rate_that_would_fit() {
    // The link is the limit, on any machine and disk.
    let server = Setup::default().set("links.lo=20M").start();
    let film = pattern(5_000_000);
    server.file("film.ts", &film);
    let mut running: Vec<Client> = Vec::new();
    let refusal = loop {
        let mut client = server.connect();
        client.get("/media/film.ts?rate=3M");
        let head = client.head();
        if head.status != 200 {
            break head;
        }
        running.push(client);
        assert!(running.len() < 7, "more than 20 Mbit/s were promised");
    };
    assert!(running.len() >= 4, "only {} streams of 3 Mbit/s on a link of 20", running.len());
    assert_eq!(refusal.status, 503);
    assert!(refusal.field("retry-after").is_some());
    assert_eq!(refusal.field("content-type"), Some("application/problem+json"));

    let again = server.get("/media/film.ts?rate=3M").json();
    assert_eq!((&again["status"], &again["resource"]), (&503.into(), &"network".into()));
    let grantable = again["grantable_bps"].as_u64().expect("a rate");
    assert!(grantable > 0 && grantable < 3_000_000, "{grantable}");
    // The overhead of packets counts, too.
    let left = again["left_bps"].as_u64().expect("a rate");
    assert!((grantable..3_200_000).contains(&left) && again["name"] == "lo", "{again}");
    let said = again["detail"].as_str().expect("a sentence");
    assert!(said.contains("link `lo` has no room") && said.contains("bit/s of its 20.00 Mbit/s are left"), "{said}");
    let more = server.get(&format!("/media/film.ts?rate={}bit/s", grantable + grantable / 10));
    assert_eq!(more.status, 503, "more than what is grantable");
    let mut fits = server.connect();
    fits.get(&format!("/media/film.ts?rate={grantable}bit/s"));
    let head = fits.head();
    assert_eq!((head.status, head.field("x-isocast-rate")), (200, Some(grantable.to_string().as_str())));
    // The admitted do not notice.
    let mut first = running.swap_remove(0);
    assert!(first.take(film.len()) == film);
    // Bulk needs no room, and the room of clients that are gone is there again.
    assert!(server.get("/media/film.ts?rate=max").body == film);
    drop((fits, running));
    server.wait_for("room", |server| {
        let mut client = server.connect();
        client.get("/media/film.ts?rate=15M");
        client.head().status == 200
    });
}

#[test]
fn a_recording_that_does_not_fit_is_refused_like_a_stream() {
    let server = Setup::default().set("links.lo=20M").start();
    let refusal = server.put("/media/new.ts?rate=30M", "", &pattern(1000));
    assert_eq!(refusal.status, 503);
    let grantable = refusal.json()["grantable_bps"].as_u64().expect("a rate");
    assert!(grantable > 0 && grantable < 30_000_000, "{grantable}");
    assert_eq!((&refusal.json()["name"], &refusal.json()["left_bps"]), (&"lo".into(), &20_000_000.into()));
    assert_eq!(server.names(), [""; 0]);
    let target = format!("/media/new.ts?rate={grantable}bit/s");
    assert_eq!(server.put(&target, "", &pattern(1000)).status, 201);
}

/// Ethernet carries both directions at once; Wi-Fi, for example, does not.
#[test]
fn a_recording_needs_no_room_of_the_direction_that_streams_leave_by() {
    for (link, apart) in
        [("20M", true), ("{ out = \"20M\", in = \"20M\" }", true), ("{ out = \"20M\", shared = true }", false)]
    {
        let server = Setup::default().set(&format!("links.lo={link}")).start();
        server.file("film.ts", &pattern(5_000_000));
        let mut stream = server.connect();
        stream.get("/media/film.ts?rate=15M");
        assert_eq!(stream.head().status, 200, "{link}");
        assert_eq!(server.get("/media/film.ts?rate=8M").status, 503, "{link}: the way out is full");
        let recording = server.put("/media/cam.ts?rate=8M", "", &pattern(1000)).status;
        assert_eq!(recording, if apart { 201 } else { 503 }, "{link}");
        assert_eq!(
            server.put("/media/cam2.ts?rate=30M", "", &pattern(1000)).status,
            503,
            "{link}: more than the way in"
        );
    }
}

#[test]
fn a_path_may_be_served_as_best_effort_instead() {
    let server = Setup::default().set("links.lo=20M").set("path_when_full.previews/=best-effort").start();
    let film = pattern(100_000);
    server.file("previews/film.ts", &film);
    server.file("film.ts", &film);
    assert_eq!(server.get("/media/film.ts?rate=40M").status, 503);
    let preview = server.get("/media/previews/film.ts?rate=40M");
    assert_eq!((preview.status, preview.field("x-isocast-rate")), (200, None));
    assert!(preview.body == film);
}

#[test]
fn a_malformed_rate_is_400_with_a_hint() {
    let server = Server::start();
    server.file("film.ts", &pattern(1000));
    for (rate, hints) in [
        ("8800000", ["has no unit", "8.8M"]),
        ("8.8", ["has no unit", "8.8M"]),
        ("0M", ["0M", "1 kbit/s to 1 Tbit/s"]),
        ("-5M", ["-5M", "greater than zero"]),
        ("fast", ["fast", "8.8M"]),
        ("", ["rate", "8.8M"]),
        ("999999999G", ["999999999G", "1 kbit/s to 1 Tbit/s"]),
        ("1e3M", ["1e3M", "8.8M"]),
        ("8.8MB/s", ["8.8MB/s", "8.8Mbit/s"]),
    ] {
        for answer in [
            server.get(&format!("/media/film.ts?rate={rate}")),
            server.put(&format!("/media/new.ts?rate={rate}"), "", b"x"),
        ] {
            let text = answer.text();
            assert_eq!(answer.status, 400, "{rate:?}: {text}");
            assert_eq!(answer.field("content-type"), Some("application/problem+json"));
            hints.iter().for_each(|hint| assert!(text.contains(hint), "{rate:?} wants {hint:?}: {text}"));
        }
    }
    assert_eq!(server.names(), ["film.ts"]);
    // Absurd, but a rate: refused as one.
    let absurd = server.get("/media/film.ts?rate=900G");
    assert!(matches!(absurd.status, 400 | 503), "{}", absurd.text());
}
