//! PUT, DELETE and recordings over the wire; the right to write.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Harness, PATIENCE, PlaneOrder, users};
use http::config::HttpConfig;
use service::accounts::{Accounts, FolderRights};
use service::config::ServiceConfig;
use service::contents::UploadClass;
use units::{BitRate, DiskId, Nanos};

fn put(name: &str, fields: &str, body: &str) -> String {
    format!("PUT /media/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn created_then_replaced_then_deleted() {
    let harness = Harness::start(HttpConfig::default());
    let created = harness.one(&put("a.ts", "", "one"));
    assert_eq!((created.status, created.field("location")), (201, Some("/media/a.ts")));
    let etag = created.field("etag").expect("an entity tag").to_owned();
    assert_eq!(harness.store.bytes("a.ts").as_deref(), Some(b"one".as_slice()));
    assert_eq!(harness.one(&put("a.ts", "If-None-Match: *\r\n", "two")).status, 412);
    assert_eq!(harness.one(&put("a.ts", &format!("If-Match: {etag}\r\n"), "two")).status, 204);
    assert_eq!(harness.one(&put("a.ts", &format!("If-Match: {etag}\r\n"), "three")).status, 412);
    assert_eq!(harness.store.bytes("a.ts").as_deref(), Some(b"two".as_slice()));
    let now = harness.one("HEAD /media/a.ts HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let tag = now.field("etag").expect("an entity tag");
    let modified = now.field("last-modified").expect("a date");
    let (before, same) =
        ("If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n", format!("If-Unmodified-Since: {modified}\r\n"));
    for refused in
        [before.to_owned(), format!("If-None-Match: {tag}\r\n"), format!("If-None-Match: \"x\", W/{tag}\r\n")]
    {
        assert_eq!(harness.one(&put("a.ts", &refused, "four")).status, 412, "{refused}");
        let delete = format!("DELETE /media/a.ts HTTP/1.1\r\nHost: localhost\r\n{refused}\r\n");
        assert_eq!(harness.one(&delete).status, 412, "{refused}");
    }
    assert_eq!(harness.store.bytes("a.ts").as_deref(), Some(b"two".as_slice()), "not performed");
    assert_eq!(harness.one(&put("new.ts", before, "x")).status, 201, "nothing there has no date");
    assert_eq!(harness.one(&put("a.ts", &format!("{same}If-None-Match: \"x\"\r\n"), "two")).status, 204);
    let delete = "DELETE /media/a.ts HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(harness.one(delete).status, 204);
    assert_eq!(harness.one(delete).status, 404);
    for name in ["über ärgern.ts".replace(' ', "%20"), "a\"b{c}|d^e.ts".to_owned(), "%e2%82%ac".to_owned()] {
        assert_eq!(harness.one(&put(&name, "", "x")).status, 201, "{name}");
    }
    assert!(harness.store.bytes("über ärgern.ts").is_some() && harness.store.bytes("€").is_some());
    assert_eq!(harness.one(&put("%ff", "", "x")).status, 400, "not UTF-8");
    assert_eq!(harness.one(&put("", "", "x")).status, 409);
    assert_eq!(harness.one(&put("a.ts", "Content-Range: bytes 0-0/5\r\n", "x")).status, 400);
}

/// RFC 9110 §13.2.2: If-None-Match is looked at where If-Match or If-Unmodified-Since holds, not instead of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_conditions_hold_together() {
    let harness = Harness::start(HttpConfig::default());
    let etag = harness.one(&put("a.ts", "", "one")).field("etag").expect("an entity tag").to_owned();
    let later = "If-Unmodified-Since: Sat, 01 Jan 2050 00:00:00 GMT\r\n";
    let delete = |fields: &str| format!("DELETE /media/a.ts HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    for refused in [
        "If-Match: *\r\nIf-None-Match: *\r\n".to_owned(),
        format!("If-Match: {etag}\r\nIf-None-Match: *\r\n"),
        format!("If-Match: *\r\nIf-None-Match: W/{etag}\r\n"),
        "If-Match: \"x\"\r\nIf-None-Match: \"y\"\r\n".to_owned(),
        format!("{later}If-None-Match: *\r\n"),
        format!("{later}If-None-Match: {etag}\r\n"),
    ] {
        assert_eq!(harness.one(&put("a.ts", &refused, "two")).status, 412, "{refused}");
        assert_eq!(harness.one(&delete(&refused)).status, 412, "{refused}");
    }
    assert_eq!(harness.store.bytes("a.ts").as_deref(), Some(b"one".as_slice()));
    let both = format!("If-Match: {etag}\r\nIf-None-Match: \"x\"\r\n");
    assert_eq!(harness.one(&put("a.ts", &both, "two")).status, 204);
    assert_eq!(harness.one(&put("new.ts", &format!("{later}If-None-Match: *\r\n"), "x")).status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_would_destroy_a_content_are_refused() {
    let harness = Harness::start(HttpConfig::default());
    assert_eq!(harness.one(&put("a.ts", "", "one")).status, 201);
    let unannounced = harness.one("PUT /media/a.ts HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(unannounced.status, 411, "{}", unannounced.text());
    let coded = harness.one(&put("a.ts", "Content-Encoding: gzip\r\n", "x"));
    assert_eq!((coded.status, coded.field("accept-encoding")), (415, Some("identity")));
    // With a slash it is not the content's name, as for a read.
    for target in ["/media/a.ts/", "/media//a.ts"] {
        let answer = harness.one(&format!("DELETE {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(answer.status, if target.ends_with('/') { 409 } else { 400 }, "{target}");
        assert_eq!(
            harness.one(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")).status / 100,
            4,
            "{target}"
        );
    }
    assert_eq!(harness.store.bytes("a.ts").as_deref(), Some(b"one".as_slice()));
    assert_eq!(harness.one(&put("a.ts", "Content-Encoding: identity\r\n", "two")).status, 204);
}

/// A client that keeps its connection for more requests gets `Connection: close` when it cannot (RFC 9112 §9.6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_not_read_closes_the_connection_and_says_so() {
    let harness = Harness::start(service::config::ServiceConfig { upload_bytes_max: 10, ..Default::default() });
    for (fields, status) in [("Content-Length: 1000\r\n", 413), ("If-Match: *\r\nContent-Length: 5\r\n", 412)] {
        let mut client = harness.connect();
        client.send(format!("PUT /media/a.ts HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        let answer = client.answer(true);
        assert_eq!((answer.status, answer.field("connection")), (status, Some("close")));
        assert!(client.is_closed());
    }
    let mut client = harness.connect();
    client.send(put("a.ts", "If-Match: *\r\n", "whole"));
    let answer = client.answer(true);
    assert_eq!((answer.status, answer.field("connection")), (412, None), "a body that came is no hindrance");
    client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.answer(true).status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunked_uploads_and_empty_ones() {
    let harness = Harness::start(HttpConfig::default());
    let mut client = harness.connect();
    client.send("PUT /media/a.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.send("4\r\ndefg\r\n0\r\n\r\n");
    let answer = client.answer(true);
    assert_eq!((answer.status, answer.field("connection")), (201, None));
    client.send("PUT /media/b.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n");
    let answer = client.answer(true);
    assert_eq!((answer.status, answer.field("connection")), (400, Some("close")));
    assert!(client.is_closed() && harness.store.bytes("b.ts").is_none());
    assert_eq!(harness.store.bytes("a.ts").as_deref(), Some(b"abcdefg".as_slice()));
    assert_eq!(harness.one(&put("empty", "", "")).status, 201);
    let read = harness.one("GET /media/empty?rate=1M HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((read.status, read.field("content-length")), (200, Some("0")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expect_continue_gets_100_or_the_refusal() {
    let harness = Harness::start(service::config::ServiceConfig { upload_bytes_max: 10, ..Default::default() });
    let mut client = harness.connect();
    client.send("PUT /media/a.ts HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.head().status, 100);
    client.send("abc");
    assert_eq!(client.answer(true).status, 201);
    // The connection stays open after it; a refusal comes instead of 100 and ends it, as the body may follow or not.
    client.send("PUT /media/b.ts HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
    assert_eq!(client.answer(true).status, 413);
    assert!(client.is_closed());
}

/// `curl -F` and forms of browsers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_is_answered_with_the_method_that_stores() {
    let harness = Harness::start(HttpConfig::default());
    for length in [100, 10_000_000] {
        let mut client = harness.connect();
        client.send(format!("POST /media/a.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"));
        client.send(vec![b'x'; 100]);
        let answer = client.answer(true);
        assert_eq!((answer.status, answer.field("allow").is_some_and(|allow| allow.contains("PUT"))), (405, true));
        assert!(answer.text().contains("curl -T"), "{}", answer.text());
    }
}

/// As encoders do that end a live transfer: the body is whole, though no client waits for the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_body_is_stored_though_its_client_is_gone() {
    let harness = Harness::start(HttpConfig::default());
    let mut client = harness.connect();
    client.send("PUT /media/live.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("3\r\nabc\r\n0\r\n\r\n");
    drop(client);
    harness.events.wait_until(|text| text.contains("\"outcome\":\"Stored\""));
    assert_eq!(harness.store.bytes("live.ts").as_deref(), Some(b"abc".as_slice()));
}

/// Some clients send one, and proxies pass it on: it means nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_with_a_body_is_a_read() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("a.ts", b"whole");
    let mut client = harness.connect();
    for body in ["Content-Length: 4\r\n\r\nGET ", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"] {
        for target in ["/media/a.ts?rate=max", "/health", "/media/"] {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{body}"));
            assert_eq!(client.answer(true).status, 200, "{target} {body}");
        }
    }
    client.send("GET /media/a.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n");
    assert_eq!(client.answer(true).status, 413);
    assert!(client.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_upload_leaves_nothing_in_the_store() {
    let harness = Harness::start(HttpConfig { upload_idle_max: Duration::from_millis(50), ..HttpConfig::default() });
    let mut client = harness.connect();
    client.send("PUT /media/a.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nsome");
    let answer = client.answer(true);
    assert_eq!(answer.status, 408, "{}", answer.text());
    assert!(client.is_closed());
    let mut gone = harness.connect();
    gone.send("PUT /media/b.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nsome");
    drop(gone);
    harness.access.wait_until(|text| text.contains("/media/a.ts HTTP/1.1\" 408"));
    harness.store.wait_uploads(0).await;
    assert!(harness.store.bytes("a.ts").is_none() && harness.store.bytes("b.ts").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_client_has_no_more_than_its_share_of_the_uploads() {
    let service = ServiceConfig { uploads_per_client: 1, ..ServiceConfig::default() };
    let harness = Harness::start(service);
    let mut slow = harness.connect();
    slow.send("PUT /media/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab");
    harness.store.wait_uploads(1).await;
    let refused = harness.one(&put("a.ts", "", "one too many"));
    assert_eq!((refused.status, refused.field("retry-after")), (429, Some("10")));
    let mut other = harness.connect_from("127.0.0.9");
    other.send(put("b.ts", "", "another client's"));
    assert_eq!(other.answer(true).status, 201);
    slow.send("cd");
    assert_eq!(slow.answer(true).status, 201);
    assert_eq!(harness.one(&put("a.ts", "", "one too many")).status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_and_a_refused_body_on_one_connection() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.capacity.store(4, Ordering::SeqCst);
    let full = harness.one(&put("a.ts", "", "too much for it"));
    assert_eq!((full.status, full.field("content-type")), (507, Some("application/problem+json")));
    harness.store.wait_uploads(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fills_up_ends_a_silent_upload_at_once() {
    let harness = Harness::start(HttpConfig { upload_idle_max: Duration::from_secs(3600), ..HttpConfig::default() });
    let mut client = harness.connect();
    client.send("PUT /media/a.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    while harness.store.open_uploads.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    harness.store.fill_up();
    assert_eq!(client.answer(true).status, 507, "though it has not sent another byte");
    harness.store.wait_uploads(0).await;
    assert!(harness.store.bytes("a.ts").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_reserves_its_rate_and_gives_it_back() {
    let harness = Harness::start(ServiceConfig { session_hold: Nanos::ZERO, ..Default::default() });
    assert_eq!(harness.one(&put("rec.ts?rate=25M", "", "frames")).status, 201);
    assert!(matches!(
        *harness.store.last_class.lock().expect("lock"),
        Some(UploadClass::Recording { rate: BitRate(25_000_000), .. })
    ));
    assert_eq!(harness.plane.orders()[0], PlaneOrder::Reserve(BitRate(25_000_000)));
    harness.plane.wait_unreserved();
    let refused = harness.one(&put("rec.ts?rate=101M", "", "frames"));
    assert_eq!((refused.status, refused.json()["grantable_bps"].as_u64()), (503, Some(100_000_000)));
    let bad = harness.one(&put("rec.ts?rate=25", "", "frames"));
    assert_eq!(bad.status, 400);
    // A client that vanishes gives its reservation back too.
    let mut client = harness.connect();
    client.send("PUT /media/x.ts?rate=25M HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc");
    harness.plane.wait_until(|orders| orders.iter().filter(|t| matches!(t, PlaneOrder::Reserve(_))).count() == 3);
    drop(client);
    harness.plane.wait_unreserved();
}

/// As `ffmpeg -method PUT`, which looks for its answer when it has sent all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_camera_that_does_not_look_at_its_answer_is_reset_behind_it() {
    let harness = Harness::start(HttpConfig::default());
    harness.plane.fill_disk(DiskId(0), BitRate(1_000_000));
    let mut camera = TcpStream::connect(harness.address).expect("a server");
    let head = "PUT /media/cam.ts?rate=25M HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    camera.write_all(head.as_bytes()).expect("it listens");
    let mut sends = || {
        std::thread::sleep(Duration::from_millis(100));
        camera.write_all(b"3\r\nabc\r\n").is_ok()
    };
    let sent = (0..250).take_while(|_| sends()).count();
    assert!((10..250).contains(&sent), "{sent} pieces");
    let mut answer = String::new();
    let _ = camera.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.trim_end().ends_with('}'), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_goes_to_a_disk_that_has_room_and_takes_it() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.spare_disks.store(2, Ordering::SeqCst);
    harness.plane.fill_disk(DiskId(0), BitRate(1_000_000));
    harness.store.read_only.lock().expect("lock").push(DiskId(1));
    assert_eq!(harness.one(&put("rec.ts?rate=25M", "", "frames")).status, 201);
    let class = *harness.store.last_class.lock().expect("lock");
    assert!(matches!(class, Some(UploadClass::Recording { disks, .. }) if disks.store == DiskId(2)), "{class:?}");
    harness.plane.wait_unreserved();
    // With no room on any disk, the refusal names the best.
    harness.plane.fill_disk(DiskId(2), BitRate(9_000_000));
    harness.plane.fill_disk(DiskId(1), BitRate(3_000_000));
    let refused = harness.one(&put("rec.ts?rate=25M", "", "frames"));
    let body = refused.json();
    assert_eq!(refused.status, 503);
    assert_eq!((body["resource"].as_str(), body["grantable_bps"].as_u64()), (Some("disk"), Some(9_000_000)));
    // With every disk read-only, the refusal is 507, not a lack of rate.
    let harness = Harness::start(HttpConfig::default());
    harness.store.read_only.lock().expect("lock").push(DiskId(0));
    assert_eq!(harness.one(&put("rec.ts?rate=25M", "", "frames")).status, 507);
    harness.plane.wait_unreserved();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_far_ahead_of_its_rate_is_logged_once() {
    let harness = Harness::start(HttpConfig::default());
    let mut client = harness.connect();
    client.send("PUT /media/fast.ts?rate=100k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200002\r\n\r\n");
    let streams = || harness.one("GET /api/v1/streams HTTP/1.1\r\nHost: h\r\n\r\n").json();
    let until_over = || async {
        while streams()[0]["over_rate"] != true {
            tokio::task::yield_now().await;
        }
    };
    // Sixteen seconds of its rate.
    (0..2).for_each(|_| client.send("x".repeat(100_000)));
    tokio::time::timeout(PATIENCE, until_over()).await.expect("it is told");
    let metrics = harness.one("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").text();
    assert!(metrics.contains("isocast_recordings_over_rate_total 1\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recordings_and_uploads_are_listed_while_they_run() {
    let harness = Harness::start(ServiceConfig { session_hold: Nanos::ZERO, ..Default::default() });
    let figures = |name: &str| harness.one(&format!("GET /api/v1/{name} HTTP/1.1\r\nHost: h\r\n\r\n")).json();
    let mut plain = harness.connect();
    plain.send("PUT /media/plain.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc");
    // The bytes received are counted some time after they were sent.
    let until_received = |at: usize| async move {
        while figures("streams")[at]["received_bytes"] != 3 {
            tokio::task::yield_now().await;
        }
        figures("streams")[at].clone()
    };
    let upload = tokio::time::timeout(PATIENCE, until_received(0)).await.expect("it is listed");
    assert_eq!((&upload["path"], &upload["direction"]), (&"plain.ts".into(), &"in".into()));
    assert_eq!((&upload["class"], &upload["rate_bps"]), (&"best-effort".into(), &0.into()));
    let mut client = harness.connect();
    client.send("PUT /media/x/a%20b.ts?rate=25M HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc");
    let recording = tokio::time::timeout(PATIENCE, until_received(1)).await.expect("it is listed");
    assert_eq!((&recording["path"], &recording["direction"]), (&"x/a b.ts".into(), &"in".into()));
    assert_eq!((&recording["class"], &recording["rate_bps"]), (&"constant".into(), &25_000_000.into()));
    assert_eq!((&recording["client"], &recording["sent_bytes"]), (&"127.0.0.1".into(), &0.into()));
    assert_eq!(figures("system")["streams"], 0, "it counts as an upload");
    assert_eq!(recording["over_rate"], false, "{recording}");
    client.send("defghi");
    assert_eq!(client.answer(true).status, 201);
    plain.send("defghi");
    assert_eq!(plain.answer(true).status, 201);
    assert_eq!(figures("streams").as_array().map(Vec::len), Some(0));
    // A recording with a vanished client leaves the list as well, before the event of its end.
    let mut client = harness.connect();
    client.send("PUT /media/y.ts?rate=25M HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc");
    tokio::time::timeout(PATIENCE, until_received(0)).await.expect("it is listed");
    drop(client);
    harness.plane.wait_unreserved();
    assert_eq!(figures("streams").as_array().map(Vec::len), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_users_foreign_names_origins_and_proxies_do_not_write() {
    let harness = Harness::start(HttpConfig { hosts: vec!["media.example".to_owned()], ..HttpConfig::default() });
    for (request, why) in [
        ("PUT /media/a HTTP/1.1\r\nHost: media.example\r\nContent-Length: 0\r\n\r\n".to_owned(), "loopback name"),
        (
            "PUT http://media.example/media/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "loopback name",
        ),
        (put("a", "X-Forwarded-For: 192.0.2.1\r\n", ""), "proxy"),
        (put("a", "Via: 1.1 x\r\n", ""), "proxy"),
        (put("a", "Origin: http://evil.example\r\n", ""), "origin"),
    ] {
        let answer = harness.one(&request);
        assert_eq!(answer.status, 403, "{request}");
        assert!(answer.text().contains(why), "{}", answer.text());
    }
    assert_eq!(harness.one(&put("a", "Origin: http://localhost\r\n", "")).status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_users_writes_need_a_login_and_reads_do_not() {
    let accounts = Arc::<Accounts>::default();
    accounts.put(users(&[("ada", "p:q", FolderRights::all())]));
    let harness = Harness::with_accounts(HttpConfig::default(), accounts);
    let anonymous = harness.one(&put("a", "", "x"));
    assert_eq!(anonymous.status, 401);
    assert!(anonymous.field("www-authenticate").is_some_and(|value| value.starts_with("Basic")));
    let wrong = "Authorization: Basic YWRhOndyb25n\r\n";
    let right = "Authorization: Basic YWRhOnA6cQ==\r\n";
    assert_eq!(harness.one(&put("a", wrong, "x")).status, 401);
    assert_eq!(harness.one(&put("a", right, "x")).status, 201);
    assert_eq!(harness.one(&put("a", right, "y")).status, 204);
    assert_eq!(harness.one(&put("a", wrong, "x")).status, 401);
    assert_eq!(harness.one("GET /media/a?rate=1M HTTP/1.1\r\nHost: other\r\n\r\n").status, 200);
    harness.access.wait_until(|text| text.contains(" - ada ["));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_event_log_has_ends_of_writes_and_refusals() {
    let harness = Harness::start(HttpConfig::default());
    assert_eq!(harness.one(&put("a.ts", "", "one")).status, 201);
    assert_eq!(harness.one(&put("a.ts?rate=101M", "", "two")).status, 503);
    harness.store.capacity.store(2, Ordering::SeqCst);
    assert_eq!(harness.one(&put("b.ts", "", "too much for it")).status, 507);
    assert_eq!(harness.one("GET /media/a.ts?rate=101M HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 503);
    assert_eq!(harness.one("DELETE /media/a.ts HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 204);
    let event = |text: &str, parts: &[&str]| text.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    for parts in [
        &["server_started", "127.0.0.1:"][..],
        &["upload_ended", "\"path\":\"a.ts\"", "\"outcome\":\"Stored\"", "\"stored_bytes\":3", "\"reason\":null"],
        &["stream_refused", "\"path\":\"a.ts\"", "\"rate_bps\":101000000", "\"grantable_bps\":100000000"],
        &["upload_ended", "\"path\":\"b.ts\"", "\"outcome\":\"Failed\"", "\"reason\":\""],
        &["content_deleted", "\"path\":\"a.ts\"", "\"client\":\"127.0.0.1\""],
    ] {
        harness.events.wait_until(|text| event(text, parts));
    }
    harness.events.wait_until(|text| text.matches("stream_refused").count() == 2);
    harness.events.wait_until(|text| text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_recording_of_a_name_is_refused_and_one_that_comes_back_has_its_place() {
    let service = ServiceConfig { session_hold: Nanos::from_secs(3600), ..Default::default() };
    let harness = Harness::start(service);
    let begin = "PUT /media/cam7.ts?rate=25M HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc";
    let reserves = || harness.plane.orders().iter().filter(|told| matches!(told, PlaneOrder::Reserve(_))).count();
    let mut first = harness.connect();
    first.send(begin);
    harness.store.wait_uploads(1).await;
    let second = harness.one(&put("cam7.ts?rate=25M", "", "frames"));
    assert_eq!((second.status, second.text().contains("two cameras need two names")), (409, true));
    assert_eq!(harness.one(&put("cam8.ts?rate=25M", "", "frames")).status, 201, "another name");
    assert_eq!(reserves(), 2, "what is refused reserves nothing");
    drop(first);
    harness.store.wait_uploads(0).await;
    harness.events.wait_until(|text| text.contains("cam7.ts"));
    // It comes back to the place that was held, and gives it back at its regular end.
    let comes_back = async {
        while harness.one(&put("cam7.ts?rate=25M", "", "frames")).status == 409 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, comes_back).await.expect("its name is free");
    assert_eq!(reserves(), 2);
    harness.plane.wait_unreserved();
    // One of another rate reserves anew, and the place is given back.
    let mut third = harness.connect();
    third.send(begin);
    harness.store.wait_uploads(1).await;
    drop(third);
    harness.store.wait_uploads(0).await;
    let other_rate = async {
        while harness.one(&put("cam7.ts?rate=26M", "", "frames")).status == 409 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, other_rate).await.expect("its name is free");
    assert_eq!(reserves(), 4);
    harness.plane.wait_unreserved();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_thousand_locks_as_many_are_made_as_one_holder_may_have() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("a", b"a");
    let mut client = harness.connect();
    let mut ask = |method: &str, path: &str, fields: &str, body: &str| {
        let length = body.len();
        let head =
            format!("{method} /media/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}");
        client.send(format!("{head}\r\n{body}"));
        client.answer(true)
    };
    let lock = "<lockinfo xmlns=\"DAV:\"><lockscope><shared/></lockscope><locktype><write/></locktype></lockinfo>";
    let answers: Vec<_> = (0..10_000).map(|_| ask("LOCK", "a", "", lock)).collect();
    let made = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(made, webdav::HOLDER_LOCKS_MAX);
    assert!(answers[made..].iter().all(|answer| answer.status == 429), "the first that is refused is not the last");
    assert_eq!(ask("PUT", "a", "", "x").status, 423);
    assert_eq!(ask("PUT", "b", "", "x").status, 201, "no lock covers it");
    let token = answers[0].field("lock-token").expect("a token");
    assert_eq!(ask("UNLOCK", "a", &format!("Lock-Token: {token}\r\n"), "").status, 204);
    assert_eq!(ask("LOCK", "b", "", lock).status, 200, "there is room for one");
    let excluded = ask("LOCK", "b", "", &lock.replace("shared", "exclusive"));
    assert_eq!(excluded.status, 423);
    assert!(excluded.text().contains("another lock is on `/media/b`"), "{}", excluded.text());
}
