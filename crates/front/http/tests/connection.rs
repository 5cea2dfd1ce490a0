//! Real sockets: keep-alive, pipelining, both kinds of requests on one connection, clients that vanish or dawdle.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Harness, PATIENCE, PlaneOrder, pattern};
use http::config::HttpConfig;
use service::config::ServiceConfig;
use service::connections::ConnectionLimits;
use units::{BitRate, ReservationId};

const FIRST: ReservationId = ReservationId { slot: 1, generation: 1 };

const fn start(rate: u64, held: Option<ReservationId>) -> PlaneOrder {
    PlaneOrder::Start { rate: Some(BitRate(rate)), burst_bytes: 0, held, hold: true }
}

fn reconfigure(harness: &Harness, config: HttpConfig) {
    harness.server.reload(config);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_trickles_ends_though_it_never_pauses_for_long() {
    let harness = Harness::start(HttpConfig { upload_idle_max: Duration::from_millis(400), ..HttpConfig::default() });
    for (method, target) in [("POST", "/api/v1/session"), ("PROPFIND", "/media/")] {
        let mut client = harness.connect();
        let fields = "Content-Type: application/json\r\nContent-Length: 60000\r\n";
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        let mut sender = client.stream.try_clone().expect("a socket");
        let trickles = std::thread::spawn(move || {
            for _ in 0..29 {
                std::thread::sleep(Duration::from_millis(50));
                if sender.write_all(&[b' '; 2048]).is_err() {
                    break;
                }
            }
        });
        assert_eq!(client.head().status, 408, "{method}");
        trickles.join().expect("it ends");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_goes_through_the_data_plane_and_the_connection_continues() {
    let harness = Harness::start(HttpConfig::default());
    let film = pattern(300_000);
    harness.store.put("film.mp4", &film);
    let mut client = harness.connect();
    for _ in 0..3 {
        client.send("GET /media/film.mp4?rate=8.8M HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = client.answer(true);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("x-isocast-rate"), Some("8800000"));
        assert_eq!(answer.field("content-type"), Some("video/mp4"));
        assert!(answer.field("connection").is_none());
        assert_eq!(answer.body, film);
    }
    // One viewer: each read takes over the reservation of the one before.
    let mut expected = vec![start(8_800_000, None), start(8_800_000, Some(FIRST)), start(8_800_000, Some(FIRST))];
    assert_eq!(harness.plane.orders(), expected);
    assert_eq!(harness.plane.reserved(), 1);
    // A viewer keeps its rate while it plays what it was sent, here less than a second: then the next request gets the whole capacity.
    harness.events.wait_until(|text| text.matches("stream_ended").count() == 3);
    let other = "GET /media/film.mp4?rate=100M HTTP/1.1\r\nHost: localhost\r\nUser-Agent: other\r\n\r\n";
    let is_refused = |_: &u32| harness.one(other).status == 503;
    let waited = |_| std::thread::sleep(Duration::from_millis(20));
    let refused = (0..1000).take_while(is_refused).map(waited).count();
    expected.extend(vec![start(100_000_000, None); refused]);
    expected.extend([start(100_000_000, None), PlaneOrder::Release(FIRST), start(100_000_000, None)]);
    assert_eq!(harness.plane.orders(), expected);
    assert_eq!(harness.one("HEAD /media/none HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 404);
    assert_eq!(harness.one("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
    // Bytes of the body, in every line.
    let logged = |text: &str, line: &str| text.matches(line).count();
    harness.access.wait_until(|text| {
        logged(text, "\"GET /media/film.mp4?rate=8.8M HTTP/1.1\" 200 300000 \"") == 3
            && logged(text, "\"HEAD /media/none HTTP/1.1\" 404 0 \"") == 1
            && logged(text, "\"HEAD /health HTTP/1.1\" 200 0 \"") == 1
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_and_conditions_over_the_wire() {
    let harness = Harness::start(HttpConfig::default());
    let film = pattern(5000);
    harness.store.put("film.mp4", &film);
    let ask = |fields: &str| format!("GET /media/film.mp4?rate=max HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    let part = harness.one(&ask("Range: bytes=100-199\r\n"));
    assert_eq!((part.status, part.field("content-range")), (206, Some("bytes 100-199/5000")));
    assert_eq!(part.body, film[100..200]);
    let parts = harness.one(&ask("Range: bytes=0-9,4990-\r\n"));
    assert_eq!(parts.status, 206);
    assert!(parts.field("content-type").is_some_and(|t| t.starts_with("multipart/byteranges; boundary=")));
    assert!(parts.body.windows(10).any(|window| window == &film[4990..]));
    let none = harness.one(&ask("Range: bytes=5000-\r\n"));
    assert_eq!((none.status, none.field("content-range")), (416, Some("bytes */5000")));
    let etag = part.field("etag").expect("an entity tag").to_owned();
    assert_eq!(harness.one(&ask(&format!("If-None-Match: {etag}\r\n"))).status, 304);
    assert_eq!(harness.one(&ask("If-Match: \"other\"\r\n")).status, 412);
    let head = harness.one("HEAD /media/film.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.field("content-length")), (200, Some("5000")));
    harness.plane.wait_unreserved();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_that_opens_an_address_gets_the_words_of_an_error_and_a_program_its_members() {
    let harness = Harness::start(HttpConfig::default());
    for (accept, media_type) in [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/plain; charset=utf-8"),
        ("video/webm,video/*;q=0.9,*/*;q=0.5", "application/problem+json"),
        ("*/*", "application/problem+json"),
    ] {
        let answer = harness.one(&format!("GET /media/gone HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n"));
        assert_eq!((answer.status, answer.field("content-type")), (404, Some(media_type)), "{accept}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_is_answered_as_a_get() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", &pattern(5000));
    harness.store.put("list.m3u8", b"#EXTM3U\n");
    let answers = |target: &str, field: &str| {
        ["GET", "HEAD"].map(|method| {
            let answer = harness.one(&format!("{method} /media/{target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            (answer.status, answer.field(field).map(str::to_owned))
        })
    };
    for (target, field, value) in [
        ("film.mp4?rate=1M", "x-isocast-rate", Some("1000000")),
        ("list.m3u8?rate=1M", "x-isocast-rate", None),
        ("film.mp4?rate=1", "content-type", Some("application/problem+json")),
    ] {
        let [get, head] = answers(target, field);
        assert_eq!((&head, get.1.as_deref()), (&get, value), "{target}");
    }
    harness.store.unreadable.store(true, Ordering::SeqCst);
    let [get, head] = answers("film.mp4", "content-length");
    assert_eq!((&head, get.0), (&get, 403), "one that cannot be opened");
    // A GET of the film and a concurrent one of the playlist; no HEAD starts or reserves anything.
    let playlist = PlaneOrder::Beside(ReservationId { slot: 1, generation: 1 });
    assert_eq!(harness.plane.orders(), [start(1_000_000, None), playlist]);
    assert_eq!(harness.plane.reserved(), 1, "held for the viewer of the film");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_of_both_kinds_are_answered_in_order() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("a.ts", b"first");
    let mut client = harness.connect();
    client.send(
        "GET /media/a.ts?rate=1M HTTP/1.1\r\nHost: localhost\r\n\r\n\
             PUT /media/b.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nsecond\
             GET /media/b.ts?rate=1M HTTP/1.1\r\nHost: localhost\r\n\r\n\
             OPTIONS /media/b.ts HTTP/1.1\r\nHost: localhost\r\n\r\n\
             GET /media/missing HTTP/1.1\r\nHost: localhost\r\n\r\n\
             GET /media/a.ts?rate=1M HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(client.answer(true).text(), "first");
    assert_eq!(client.answer(true).status, 201);
    assert_eq!(client.answer(true).text(), "second");
    let options = client.answer(true);
    assert_eq!((options.status, options.field("connection")), (200, None));
    assert_eq!(client.answer(true).status, 404);
    let last = client.answer(true);
    assert_eq!((last.text().as_str(), last.field("connection")), ("first", Some("close")));
    assert!(client.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_too_many_is_refused_with_the_grantable_rate() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", &pattern(1000));
    harness.plane.close_gate();
    let mut first = harness.connect();
    first.send("GET /media/film.mp4?rate=60M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(first.head().status, 200);
    // Another viewer: the same one would take over the reservation of its older read.
    let ask = |rate: &str| {
        format!("GET /media/film.mp4?rate={rate} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: other\r\n\r\n")
    };
    let mut second = harness.connect();
    second.send(ask("60M"));
    let refusal = second.answer(true);
    assert_eq!((refusal.status, refusal.field("retry-after")), (503, Some("10")));
    assert_eq!(refusal.field("content-type"), Some("application/problem+json"));
    assert_eq!(refusal.json()["grantable_bps"], 40_000_000);
    assert_eq!(refusal.json()["resource"], "disk");
    let name = refusal.json()["name"].as_str().expect("a name").to_owned();
    let said =
        format!("the disk `{name}` has no time left for another stream at this rate; 40.00 Mbit/s would be granted");
    assert_eq!(refusal.json()["detail"], said);
    // The connection stays open, and the grantable rate is granted.
    harness.plane.open_gate();
    second.send(ask("40M"));
    assert_eq!(second.answer(true).status, 200);
    assert_eq!(harness.plane.orders(), [start(60_000_000, None), start(60_000_000, None), start(40_000_000, None)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_without_room_takes_the_rate_of_its_older_one() {
    let harness = Harness::start(HttpConfig::default());
    let film = pattern(1000);
    harness.store.put("film.mp4", &film);
    harness.plane.close_gate();
    let mut first = harness.connect();
    first.send("GET /media/film.mp4?rate=60M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(first.head().status, 200);
    let mut second = harness.connect();
    second.send("GET /media/film.mp4?rate=60M HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-\r\n\r\n");
    let head = second.head();
    assert_eq!((head.status, head.field("x-isocast-rate")), (206, Some("60000000")));
    // With room, the second read would have got a reservation of its own; nothing was released or stopped.
    // So short a range of its content is sent ahead of the rate, as an index is.
    let ahead = |held| PlaneOrder::Start { rate: Some(BitRate(60_000_000)), burst_bytes: 750, held, hold: true };
    let expected = [start(60_000_000, None), ahead(None), ahead(Some(FIRST))];
    assert_eq!(harness.plane.orders(), expected);
    assert_eq!(harness.plane.reserved(), 1);
    harness.plane.open_gate();
    assert!(first.take(1000) == film && second.take(1000) == film, "both are whole");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_an_answer() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", &pattern(1000));
    let mut client = harness.connect();
    harness.plane.fill_queue(true);
    client.send("GET /media/film.mp4?rate=1M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.answer(true).status, 503);
    harness.plane.fill_queue(false);
    client.send("GET /media/film.mp4?rate=1M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.answer(true).status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_keeps_nothing_from_others() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", &pattern(8 << 20));
    harness.plane.close_gate();
    let mut client = harness.connect();
    client.send("GET /media/film.mp4?rate=60M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.head();
    drop(client);
    harness.plane.open_gate();
    harness.events.wait_until(|text| text.contains("\"outcome\":\"ClientGone\""));
    // It may be a viewer that seeks, so it is held; but that one played for less than 10 s, so only until others need it.
    assert_eq!(harness.plane.reserved(), 1);
    let other = "GET /media/film.mp4?rate=100M HTTP/1.1\r\nHost: localhost\r\nUser-Agent: other\r\n\r\n";
    assert_eq!(harness.one(other).status, 200);
    let all = start(100_000_000, None);
    assert_eq!(harness.plane.orders(), [start(60_000_000, None), all.clone(), PlaneOrder::Release(FIRST), all]);
    assert_eq!(harness.plane.reserved(), 1, "its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_heads_are_cut_off() {
    let harness = Harness::start(HttpConfig::default());
    let mut client = harness.connect();
    client.send("GET /media/none HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.answer(true).status, 404);
    // Between requests it is idle; its clock starts with the first byte, however late that is sent.
    reconfigure(&harness, HttpConfig { head_time_max: Duration::from_millis(50), ..HttpConfig::default() });
    client.send("GET /media/film.mp4 HTTP/1.1\r\nHost: lo");
    assert_eq!(client.answer(true).status, 408);
    assert!(client.is_closed());
    let mut silent = harness.connect();
    assert!(silent.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_are_closed_quietly() {
    let config = HttpConfig { idle_time_max: Duration::from_millis(50), ..HttpConfig::default() };
    let harness = Harness::start(config);
    let mut client = harness.connect();
    client.send("GET /media/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.answer(true).status, 404);
    assert!(client.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_too_many_gets_health_and_metrics_only() {
    let harness = Harness::start(ServiceConfig {
        connections: ConnectionLimits { all: 1, per_client: 1 },
        ..ServiceConfig::default()
    });
    let mut first = harness.connect();
    first.send("GET /media/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(first.answer(true).status, 404);
    // Beyond the limit, only requests for the health and the metrics get their answer.
    for (target, status) in [("/media/x", 503), ("/health", 200), ("/metrics", 200)] {
        let mut beyond = harness.connect();
        beyond.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(beyond.answer(true).status, status, "{target}");
        assert!(beyond.is_closed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_trickles_ends() {
    let config = HttpConfig { upload_idle_max: Duration::from_millis(100), ..HttpConfig::default() };
    let harness = Harness::start(config);
    for method in ["PUT", "GET"] {
        let mut client = harness.connect();
        client.send(format!("{method} /media/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"));
        // A byte now and then, until there is an answer.
        client.stream.set_read_timeout(Some(Duration::from_millis(5))).expect("set");
        let mut first = [0; 12];
        let mut sent = 0;
        while client.stream.peek(&mut first).is_err() {
            sent += 1;
            assert!(sent < 1000, "{method}: no pause was longer than what is permitted, and yet it took far too long");
            client.send(b"x");
        }
        assert_eq!(&first, b"HTTP/1.1 408", "{method}");
    }
    harness.store.wait_uploads(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_no_request_has_use_for_hold_no_memory() {
    // Enough for one long head at a time.
    let harness = Harness::start(HttpConfig { memory_bytes: 64 << 10, ..HttpConfig::default() });
    let mut held: Vec<_> = (0..30).map(|_| harness.connect()).collect();
    for (nth, client) in held.iter_mut().enumerate() {
        let (head, sent) = match nth % 3 {
            0 => ("GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n", 65_000),
            1 => ("GET /health HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n", 65_000),
            _ => ("GARBAGE\r\n\r\n", 1 << 20),
        };
        client.send(head);
        client.send(vec![b'x'; sent]);
    }
    let long = format!("GET /health HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(10_000));
    let begun = std::time::Instant::now();
    while harness.one(&long).status != 200 {
        assert!(begun.elapsed() < PATIENCE, "bodies of {} connections are kept", held.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_has_no_more_than_its_share_of_the_connections() {
    let harness = Harness::start(ServiceConfig {
        connections: ConnectionLimits { all: 9, per_client: 2 },
        ..ServiceConfig::default()
    });
    let health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut held: Vec<_> = (0..2).map(|_| harness.connect()).collect();
    for client in &mut held {
        client.send(health);
        assert_eq!(client.answer(true).status, 200);
    }
    let refused = harness.connect().answer(true);
    assert_eq!((refused.status, refused.field("retry-after")), (429, Some("10")));
    assert!(refused.text().contains("2 connections of this address"), "{}", refused.text());
    let mut other = harness.connect_from("127.0.0.9");
    other.send(health);
    assert_eq!(other.answer(true).status, 200);
    drop(held);
    let begun = std::time::Instant::now();
    let freed = || {
        let mut client = harness.connect();
        let _ = client.stream.write_all(health.as_bytes());
        client.try_head().is_ok_and(|head| head.status == 200)
    };
    while !freed() {
        assert!(begun.elapsed() < PATIENCE, "its connections are closed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_lets_its_name_lead_here_reads_nothing() {
    let harness = Harness::start(HttpConfig { hosts: vec!["media.example".to_owned()], ..HttpConfig::default() });
    harness.store.put("a.ts", b"bytes");
    let paths = ["/media/a.ts", "/media/?format=json", "/api/v1/streams", "/api/v1/events", "/metrics", "/"];
    let mut client = harness.connect();
    for path in paths {
        let ask = |host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.send(ask("evil.example"));
        let refused = client.answer(true);
        assert_eq!(refused.status, 421, "{path}");
        assert!(refused.text().contains("`access.hosts`"), "{}", refused.text());
        assert_ne!(harness.one(&ask("media.example:8080")).status, 421, "{path}");
    }
    let followed = "GET /api/v1/events HTTP/1.1\r\nHost: evil.example\r\nAccept: text/event-stream\r\n\r\n";
    assert_eq!(harness.one(followed).status, 421);
    let put = "PUT /media/b.ts HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\nok";
    assert_eq!(harness.one(put).status, 421);
    assert_eq!(harness.store.bytes("b.ts"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_heads_are_answered_precisely_and_closed() {
    let harness = Harness::start(HttpConfig::default());
    for (request, status) in [
        ("GARBAGE\r\n\r\n", 400),
        ("GET /media/x HTTP/1.1\r\n\r\n", 400),
        ("GET /media/x HTTP/3.0\r\nHost: h\r\n\r\n", 505),
        ("PUT /media/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET /media/x HTTP/1.1\r\nHost: h\r\nX: a\r\n folded\r\n\r\n", 400),
        ("PUT /media/x HTTP/1.1\r\nHost: h\r\nExpect: gold\r\n\r\n", 417),
    ] {
        let mut client = harness.connect();
        client.send(request);
        let answer = client.answer(true);
        assert_eq!(answer.status, status, "{request}");
        assert_eq!(answer.field("content-type"), Some("application/problem+json"));
        assert_eq!(answer.field("connection"), Some("close"));
        assert!(client.is_closed());
    }
    for (target, hint) in
        [("/media/x?rate=8800000", "8.8M"), ("/media/x?rate=0M", "1 kbit/s"), ("/media/../etc/passwd", "..")]
    {
        let answer = harness.one(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(answer.status, 400, "{target}");
        assert!(answer.json()["detail"].as_str().is_some_and(|detail| detail.contains(hint)), "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_in_single_bytes_is_still_a_head() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("a.ts", b"bytes");
    let mut client = harness.connect();
    for byte in b"GET /media/a.ts?rate=1M HTTP/1.1\r\nHost: localhost\r\n\r\n" {
        client.stream.write_all(&[*byte]).expect("sent");
    }
    assert_eq!(client.answer(true).text(), "bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_1_0_clients() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("a.ts", b"bytes");
    let mut client = harness.connect();
    client.send("GET /media/a.ts?rate=1M HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.answer(true);
    assert_eq!((answer.text().as_str(), answer.field("connection")), ("bytes", Some("keep-alive")));
    client.send("GET /media/a.ts?rate=1M HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer(true).text(), "bytes");
    assert!(client.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_lets_streams_finish_and_refuses_new_ones() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", &pattern(100_000));
    let mut idle = harness.connect();
    idle.send("GET /media/none HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(idle.answer(true).status, 404);
    harness.plane.close_gate();
    let mut viewer = harness.connect();
    viewer.send("GET /media/film.mp4?rate=10M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = viewer.head();
    assert_eq!(head.status, 200);
    let service = std::sync::Arc::clone(&harness.service);
    let drained = tokio::spawn(async move { service.drain().await });
    harness.plane.wait_until(|orders| orders.contains(&PlaneOrder::Drain));
    assert!(idle.is_closed());
    harness.plane.open_gate();
    let mut rest = Vec::new();
    viewer.stream.read_to_end(&mut rest).expect("the rest");
    assert!(rest.ends_with(&pattern(100_000)[99_000..]));
    drained.await.expect("drained");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_stops_streams_that_do_not_end() {
    let harness = Harness::start(ServiceConfig { drain_time_max: Duration::from_millis(50), ..Default::default() });
    harness.store.put("film.mp4", &pattern(100_000));
    harness.plane.close_gate();
    let mut viewer = harness.connect();
    viewer.send("GET /media/film.mp4?rate=10M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    viewer.head();
    assert!(!harness.service.drain().await, "it goes on");
    harness.service.stop().await;
    assert!(harness.plane.orders().contains(&PlaneOrder::Stop));
    assert!(viewer.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_panics_is_answered_and_counted() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", b"12345");
    let mut client = harness.connect();
    let count = |client: &mut crate::support::Client| {
        client.get("/metrics");
        let text = client.answer(true).text().to_owned();
        let line = text.lines().find(|line| line.starts_with("isocast_panics_total ")).expect("counted").to_owned();
        line.rsplit(' ').next().expect("a figure").to_owned()
    };
    assert_eq!(count(&mut client), "0");
    harness.store.panics.store(true, Ordering::SeqCst);
    for request in ["GET /media/film.mp4", "DELETE /media/film.mp4"] {
        client.send(format!("{request} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        let answer = client.answer(true);
        assert_eq!((answer.status, answer.json()["status"].as_u64()), (500, Some(500)), "{request}");
    }
    assert_eq!(count(&mut client), "2", "on the same connection");
    harness.store.panics.store(false, Ordering::SeqCst);
    client.get("/media/film.mp4");
    assert_eq!(client.answer(true).body, b"12345");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_spoilt_heads_and_the_server_still_serves() {
    let harness = Harness::start(HttpConfig { head_time_max: Duration::from_millis(20), ..HttpConfig::default() });
    harness.store.put("a.ts", b"bytes");
    let good = b"PUT /media/b.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    for round in 0..1000usize {
        let mut spoilt = good.to_vec();
        let at = (round * 7919) % spoilt.len();
        match round % 3 {
            0 => spoilt[at] = u8::try_from(round % 256).expect("small"),
            1 => spoilt.truncate(at),
            _ => spoilt.insert(at, b"\0\r\n: \xff"[round % 6]),
        }
        let mut client = harness.connect();
        // The server may close while this is still being sent: that is an answer too.
        let _ = client.stream.write_all(&spoilt);
        let _ = client.stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = client.stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 "), "{}", String::from_utf8_lossy(&answer));
        assert!(!answer.starts_with(b"HTTP/1.1 500"), "{}", String::from_utf8_lossy(&answer));
    }
    harness.store.wait_uploads(0).await;
    reconfigure(&harness, HttpConfig::default());
    let read = harness.one("GET /media/a.ts?rate=1M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(read.text(), "bytes");
}
