//! Listings, the page, health, metrics and figures over the wire.

mod support;

use std::sync::atomic::Ordering;

use http::config::Config;
use support::{Harness, pattern};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_as_page_and_as_json() {
    let harness = Harness::start(Config::default());
    harness.store.put("film.mp4", b"12345");
    harness.store.put("sub/über.ts", b"1");
    let json = harness.one(&get("/media/?format=json"));
    assert_eq!((json.status, json.field("content-type")), (200, Some("application/json")));
    let list = json.json();
    assert_eq!(list[0]["name"], "film.mp4");
    assert_eq!((&list[0]["size"], &list[0]["kind"]), (&5.into(), &"file".into()));
    assert_eq!((&list[1]["name"], &list[1]["kind"]), (&"sub".into(), &"directory".into()));
    let page = harness.one(&get("/media/sub/"));
    assert!(page.text().contains("href=\"./%C3%BCber.ts\">über.ts</a>"), "{}", page.text());
    let moved = harness.one(&get("/media/sub?format=json"));
    assert_eq!((moved.status, moved.field("location")), (301, Some("/media/sub/?format=json")));
    assert_eq!(harness.one(&get("/media/none/")).status, 404);
    assert_eq!(harness.one(&get("/media/?format=xml")).status, 400);
    let accept = harness.one("GET /media/ HTTP/1.1\r\nHost: h\r\nAccept: application/json\r\n\r\n");
    assert_eq!(accept.field("content-type"), Some("application/json"));
    let head = harness.one("HEAD /media/ HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(head.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_readiness_and_the_page() {
    let harness = Harness::start(Config::default());
    assert_eq!(harness.one(&get("/health")).status, 200);
    assert_eq!(harness.one(&get("/ready")).status, 200);
    harness.store.failing.store(true, Ordering::SeqCst);
    let failing = harness.one(&get("/ready"));
    assert!(failing.status == 503 && failing.text().contains("every disk is failing"), "{}", failing.text());
    harness.store.failing.store(false, Ordering::SeqCst);
    assert_eq!(harness.one(&get("/ready")).status, 200);
    harness.ready.store(false, Ordering::SeqCst);
    assert_eq!(harness.one(&get("/ready")).status, 503);
    let page = harness.one(&get("/"));
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.field("content-security-policy").is_some());
    assert_eq!(harness.one(&get("/nothing")).status, 404);
    let post = harness.one("POST /health HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((post.status, post.field("allow")), (405, Some("GET, HEAD")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_show_a_running_stream() {
    let harness = Harness::start(Config::default());
    harness.store.put("film.mp4", &pattern(1000));
    harness.plane.close_gate();
    let mut viewer = harness.connect();
    viewer.send(get("/media/film.mp4?rate=8.8M"));
    viewer.head();
    let streams = harness.one(&get("/api/v1/streams")).json();
    assert_eq!(streams.as_array().map(Vec::len), Some(1), "{streams}");
    assert_eq!((&streams[0]["path"], &streams[0]["rate_bps"]), (&"film.mp4".into(), &8_800_000.into()));
    assert_eq!((&streams[0]["class"], &streams[0]["client"]), (&"constant".into(), &"127.0.0.1".into()));
    assert_eq!((&streams[0]["direction"], &streams[0]["received_bytes"]), (&"out".into(), &0.into()));
    let disks = harness.one(&get("/api/v1/disks")).json();
    assert_eq!(disks[0]["name"], "sda");
    let system = harness.one(&get("/api/v1/system")).json();
    assert_eq!(system["streams"], 1);
    harness.plane.open_gate();
    // Counted when the plane's report arrives, which nothing a client sees waits for.
    let metrics = loop {
        let metrics = harness.one(&get("/metrics")).text();
        if metrics.contains("isocast_streams_started_total 1") {
            break metrics;
        }
        tokio::task::yield_now().await;
    };
    for name in ["isocast_disk_free_bytes{disk=\"sda\"}", "# TYPE isocast_sent_bytes_total counter"] {
        assert!(metrics.contains(name), "{name} in\n{metrics}");
    }
}
