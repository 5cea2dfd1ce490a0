//! Settings that change while the server runs; a drain seen from outside.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Harness, Lines, PlaneOrder, pattern, users};
use http::config::HttpConfig;
use service::accounts::{Accounts, FolderRights, OpenRights};
use service::config::ServiceConfig;
use service::connections::ConnectionLimits;
use units::BitRate;

fn reload(harness: &Harness, service: ServiceConfig) -> (Lines, Lines) {
    let (access, events) = (Lines::default(), Lines::default());
    harness.server.reload(HttpConfig::default());
    let names = (&["limits.connections".to_owned()][..], &["listen".to_owned()][..]);
    harness.service.reload(service, (Some(Box::new(access.clone())), Box::new(events.clone())), names);
    (access, events)
}

fn connections(all: usize) -> ServiceConfig {
    ServiceConfig { connections: ConnectionLimits { all, per_client: all }, ..ServiceConfig::default() }
}

fn get(name: &str) -> String {
    format!("GET /media/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_requests_are_served_by_the_new_settings() {
    let accounts = Arc::<Accounts>::default();
    accounts.open(OpenRights { all_read: true, local_writes: true });
    let harness = Harness::with_accounts(HttpConfig::default(), Arc::clone(&accounts));
    harness.store.put("film.ts", &pattern(1000));
    let put = "PUT /media/a.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(harness.one(put).status, 201);
    assert_eq!(harness.one(&get("film.ts")).field("x-isocast-rate"), None);

    let path_rates = vec![(String::new(), BitRate(3_000_000))];
    accounts.put(users(&[("ada", "secret", FolderRights::all())]));
    reload(&harness, service::config::ServiceConfig { path_rates, upload_bytes_max: 0, ..Default::default() });
    assert_eq!(harness.one(put).status, 401);
    assert_eq!(harness.one(&get("film.ts")).field("x-isocast-rate"), Some("3000000"));
    let with_login = put.replace("Host", "Authorization: Basic YWRhOnNlY3JldA==\r\nHost");
    assert_eq!(harness.one(&with_login).status, 413, "and the largest upload is another");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_stream_does_not_notice() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", &pattern(100_000));
    harness.plane.close_gate();
    let mut viewer = harness.connect();
    viewer.send("GET /media/film.mp4?rate=10M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(viewer.head().status, 200);
    reload(&harness, connections(1));
    assert_eq!(harness.one(&get("none")).status, 503, "one connection is the limit now");
    reload(&harness, connections(2));
    assert_eq!(harness.one(&get("none")).status, 404);
    harness.plane.open_gate();
    assert!(viewer.take(100_000) == pattern(100_000), "all of it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_written_to_the_new_files() {
    let harness = Harness::start(HttpConfig::default());
    harness.one(&get("before"));
    harness.access.wait_until(|text| text.contains("/media/before"));
    let (access, events) = reload(&harness, ServiceConfig::default());
    events.wait_until(|text| text.contains("\"event\":\"configuration_reloaded\"") && text.ends_with('\n'));
    events.wait_until(|text| text.contains("[\"limits.connections\"]") && text.contains("[\"listen\"]"));
    harness.one(&get("after"));
    access.wait_until(|text| text.contains("/media/after"));
    assert!(!harness.access.text().contains("/media/after"), "the old one is left alone");
    harness.service.reload_refused("limits.drain: `x` has no unit");
    events.wait_until(|text| text.contains("\"event\":\"configuration_refused\"") && text.contains("has no unit"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_drains_it_says_so() {
    let harness = Harness::start(service::config::ServiceConfig {
        drain_time_max: Duration::from_secs(600),
        ..Default::default()
    });
    harness.store.put("film.mp4", &pattern(1000));
    harness.plane.close_gate();
    let mut viewer = harness.connect();
    viewer.send("GET /media/film.mp4?rate=10M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(viewer.head().status, 200);
    let service = Arc::clone(&harness.service);
    let drained = tokio::spawn(async move { service.drain().await });
    // The event comes first; the later steps need waiting.
    harness.events.wait_until(|text| text.contains("\"event\":\"server_stopping\"") && text.ends_with('\n'));
    let ready = "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n";
    harness.plane.wait_until(|orders| orders.contains(&PlaneOrder::Drain));
    let refused = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        harness.one(ready).status == 503
    });
    assert!(refused, "it goes on as if it were ready");
    assert_eq!(harness.one(&ready.replace("ready", "health")).status, 200);
    let put = "PUT /media/a.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx";
    let refused = harness.one(put);
    assert_eq!((refused.status, refused.field("retry-after").is_some()), (503, true));
    assert_eq!(harness.store.bytes("a.ts"), None);
    // The drain does not wait for a client that connects now and sends nothing.
    let _silent = harness.connect();
    harness.plane.open_gate();
    drained.await.expect("drained");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_does_not_wait_for_idle_connections() {
    let harness = Harness::start(HttpConfig::default());
    let mut half = harness.connect();
    half.send("GET /media/fi");
    let mut refused = harness.connect();
    // A refused connection is still read for a while, as if more could come.
    refused.send("GET / HTTP/9\r\n\r\n");
    assert!(refused.answer(true).status >= 400);
    let mut silent = harness.connect();
    silent.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(silent.answer(true).status, 200);
    assert!(harness.service.drain().await, "it ended by itself");
    assert!(half.is_closed() && silent.is_closed());
}
