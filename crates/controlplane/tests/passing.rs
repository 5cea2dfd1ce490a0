//! Deliveries through stages, and to another sink than the client's socket, over the wire.

mod support;

use std::io::Read;
use std::net::Shutdown;
use std::time::Duration;

use bytes::Bytes;
use controlplane::config::{Config, PathPolicy, WhenFull};
use controlplane::manager::registry::{BUILT_IN, Registry};
use controlplane::manager::{Sink, Stage, Step, Wanted};
use controlplane::message::reply::Reply;
use http::StatusCode;
use support::{Answer, Harness, Told, pattern};
use units::BitRate;

const WITH_TESTS: Registry = Registry { deliveries: &[shout, watch, err], sinks: &[count, stuck], ..BUILT_IN };

/// Makes capitals of all letters, and ends with what it held back.
struct Shout;

fn shout(wanted: &Wanted<'_>) -> Option<Box<dyn Stage>> {
    wanted.query?.contains("shout").then(|| Box::new(Shout) as Box<dyn Stage>)
}

impl Stage for Shout {
    fn alters(&self) -> Option<&'static str> {
        Some("shout")
    }

    fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply> {
        Ok(piece.to_ascii_uppercase().into())
    }

    fn end(&mut self) -> Result<Bytes, Reply> {
        Ok(Bytes::from_static(b"!"))
    }
}

/// Only looks; refuses a content in which it finds 0xFF.
struct Watch;

fn watch(wanted: &Wanted<'_>) -> Option<Box<dyn Stage>> {
    wanted.query?.contains("watch").then(|| Box::new(Watch) as Box<dyn Stage>)
}

impl Stage for Watch {
    fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply> {
        if piece.contains(&0xff) {
            return Err(Reply::problem(StatusCode::UNPROCESSABLE_ENTITY, "there is a 0xFF in it"));
        }
        Ok(piece)
    }
}

/// Does what no stage may: panics on 0xFF, or makes pieces longer or shorter without saying that it alters them.
enum Err {
    Panic,
    Longer,
    Shorter,
}

fn err(wanted: &Wanted<'_>) -> Option<Box<dyn Stage>> {
    let query = wanted.query?;
    let all = [("panic", Err::Panic), ("longer", Err::Longer), ("shorter", Err::Shorter)];
    let (_, stage) = all.into_iter().find(|(word, _)| query.contains(word))?;
    Some(Box::new(stage))
}

impl Stage for Err {
    fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply> {
        match self {
            Self::Panic => assert!(!piece.contains(&0xff), "as asked"),
            Self::Longer => return Ok([piece, Bytes::from_static(b"more")].concat().into()),
            Self::Shorter => return Ok(piece.slice(1..)),
        }
        Ok(piece)
    }
}

/// Takes everything, and never ends.
struct Stuck;

fn stuck(wanted: &Wanted<'_>) -> Option<Box<dyn Sink<Done = Reply>>> {
    wanted.query?.contains("stuck").then(|| Box::new(Stuck) as Box<dyn Sink<Done = Reply>>)
}

impl Sink for Stuck {
    type Done = Reply;

    fn take(&mut self, _: Bytes) -> Step<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn finish(&mut self) -> Step<'_, Reply> {
        Box::pin(std::future::pending())
    }
}

/// Tells how many bytes there are.
struct Count(u64);

fn count(wanted: &Wanted<'_>) -> Option<Box<dyn Sink<Done = Reply>>> {
    wanted.query?.contains("count").then(|| Box::new(Count(0)) as Box<dyn Sink<Done = Reply>>)
}

impl Sink for Count {
    type Done = Reply;

    fn take(&mut self, piece: Bytes) -> Step<'_, ()> {
        self.0 += u64::try_from(piece.len()).expect("fits");
        Box::pin(async { Ok(()) })
    }

    fn finish(&mut self) -> Step<'_, Reply> {
        Box::pin(async { Ok(Reply::with_body(StatusCode::OK, "text/plain", self.0.to_string())) })
    }
}

fn get(target: &str, fields: &str) -> String {
    format!("GET /media/{target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

/// Text of many pieces.
fn text() -> Vec<u8> {
    letters(700_001)
}

fn letters(length: usize) -> Vec<u8> {
    pattern(length).into_iter().map(|byte| b'a' + byte % 26).collect()
}

/// A whole connection: what is answered until the server closes it.
fn until_closed(harness: &Harness, request: &str) -> Vec<u8> {
    let mut client = harness.connect();
    client.send(request);
    client.take(usize::MAX)
}

fn split(answer: &[u8]) -> (String, &[u8]) {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    (String::from_utf8_lossy(&answer[..end]).to_lowercase(), &answer[end..])
}

/// The chunks at the start of `bytes`, and what comes behind the last; none if the last one is missing.
fn dechunked(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).expect("text"), 16).expect("a size");
        let chunk = bytes.get(line + 2..line + 2 + size)?;
        body.extend_from_slice(chunk);
        assert_eq!(bytes.get(line + 2 + size..line + 4 + size)?, b"\r\n");
        bytes = &bytes[line + 4 + size..];
        if size == 0 {
            return Some((body, bytes));
        }
    }
}

fn shouted() -> Vec<u8> {
    [text().to_ascii_uppercase(), b"!".to_vec()].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stage_alters_is_chunked_and_another_representation() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("a.txt", &text());
    // Two on one connection: the first response ends where it says.
    let requests = get("a.txt?shout&rate=50M", "Range: bytes=0-1\r\n") + &get("a.txt", "Connection: close\r\n");
    let all = until_closed(&harness, &requests);
    let (head, rest) = split(&all);
    assert!(head.starts_with("http/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
    assert!(head.contains("etag: w/\"v1-shout\"") && head.contains("accept-ranges: none"), "{head}");
    assert!(!head.contains("content-length") && !head.contains("last-modified"), "{head}");
    assert!(head.contains("x-isocast-rate: 50000000"), "{head}");
    let (body, rest) = dechunked(rest).expect("a whole body");
    assert!(body == shouted());
    let (head, body) = split(rest);
    assert!(head.contains("content-length: 700001") && body == text(), "{head}");
    let unchanged = harness.one(&get("a.txt?shout", "If-None-Match: W/\"v1-shout\"\r\n"));
    assert_eq!((unchanged.status, unchanged.field("etag")), (304, Some("W/\"v1-shout\"")));
    let head = harness.one("HEAD /media/a.txt?shout HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.field("etag"), head.field("content-length")), (200, Some("W/\"v1-shout\""), None));
    assert_eq!(harness.plane.reserved(), 0, "a plain GET of the whole holds nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_client_gets_it_until_the_connection_closes() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("a.txt", &text());
    let all = until_closed(&harness, "GET /media/a.txt?shout HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let (head, body) = split(&all);
    assert!(head.contains("connection: close") && !head.contains("transfer-encoding"), "{head}");
    assert!(body == shouted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_content_passes_too() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("none.txt", b"");
    let all = until_closed(&harness, &get("none.txt?shout", "Connection: close\r\n"));
    assert_eq!(dechunked(split(&all).1).expect("a whole body").0, b"!");
    assert_eq!(harness.one(&get("none.txt?watch", "")).field("content-length"), Some("0"));
    assert_eq!(harness.one(&get("none.txt?count", "")).text(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_only_looks_changes_nothing() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("a.txt", &text());
    let mut client = harness.connect();
    for (range, wanted) in [("", 0..700_001), ("Range: bytes=65535-600000\r\n", 65_535..600_001)] {
        client.send(get("a.txt?watch&rate=20M", range));
        let answer = client.answer(true);
        assert_eq!((answer.field("etag"), answer.field("accept-ranges")), (Some("\"v1\""), Some("bytes")));
        assert!(answer.body == text()[wanted], "{range}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_refuses_before_the_first_byte_is_answered_with_its_reply() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("bad.txt", &[0xff; 300_000]);
    let mut client = harness.connect();
    client.send(get("bad.txt?watch&rate=50M", ""));
    let refused = client.answer(true);
    assert_eq!((refused.status, refused.json()["detail"].as_str()), (422, Some("there is a 0xFF in it")));
    harness.plane.wait_unreserved();
    harness.events.wait_until(|text| text.contains("StageFailed"));
    client.send(get("bad.txt", ""));
    assert_eq!(client.answer(true).body.len(), 300_000, "the connection goes on");
    let mut old = harness.connect();
    old.send("GET /media/bad.txt?watch&shout HTTP/1.0\r\n\r\n");
    let mut answer = Vec::new();
    old.stream.read_to_end(&mut answer).expect("a proper end");
    assert!(answer.starts_with(b"HTTP/1.1 422"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_refuses_later_breaks_the_response_off() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    let mut late = text();
    late.push(0xff);
    harness.store.put("late.txt", &late);
    let all = until_closed(&harness, &get("late.txt?shout&watch&rate=50M", ""));
    let (head, body) = split(&all);
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(dechunked(body).is_none(), "no last chunk: it is not taken for a whole one");
    let all = until_closed(&harness, &get("late.txt?watch&rate=50M", ""));
    assert!(split(&all).1.len() < late.len(), "shorter than announced");
    // Without a framing, only a reset tells.
    let mut client = harness.connect();
    client.send("GET /media/late.txt?shout&watch HTTP/1.0\r\n\r\n");
    let error = client.stream.read_to_end(&mut Vec::new()).expect_err("no proper end");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    harness.plane.wait_unreserved();
    harness.events.wait_until(|text| text.matches("StageFailed").count() == 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_panics_leaves_nothing_behind() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    // So much behind it that no buffer takes it: the plane's stream has not ended before the panic.
    let mut late = letters(24 << 20);
    late[1 << 20] = 0xff;
    harness.store.put("late.txt", &late);
    // Without a framing, only a reset tells.
    let mut client = harness.connect();
    client.send("GET /media/late.txt?panic&shout&rate=60M&session=s HTTP/1.0\r\n\r\n");
    let error = client.stream.read_to_end(&mut Vec::new()).expect_err("no proper end");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    harness.plane.wait_unreserved();
    let listed = harness.one("GET /api/v1/streams HTTP/1.1\r\nHost: h\r\n\r\n").json();
    assert_eq!(listed.as_array().map(Vec::len), Some(0), "{listed}");
    assert_eq!(harness.one(&get("late.txt?rate=60M&session=s", "")).status, 200);
    let held = harness.plane.told().into_iter().filter_map(|told| match told {
        Told::Start { hold, .. } => Some(hold),
        _ => None,
    });
    assert_eq!(held.collect::<Vec<_>>(), [true, true], "its session goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_changes_the_length_unsaid_breaks_the_response_off() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("short.txt", b"now");
    harness.store.put("long.txt", &text());
    assert_eq!(harness.one(&get("short.txt?longer", "")).status, 500, "nothing was out");
    for target in ["short.txt?shorter", "long.txt?longer&rate=50M", "long.txt?shorter&rate=50M"] {
        let all = until_closed(&harness, &get(target, ""));
        let (head, body) = split(&all);
        let length = if target.starts_with("short") { 3 } else { 700_001 };
        assert!(head.contains(&format!("content-length: {length}")) && body.len() < length, "{target}: {head}");
    }
    harness.events.wait_until(|text| text.matches("StageFailed").count() == 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_frees_its_stream() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("long.txt", &pattern(30 << 20));
    let mut client = harness.connect();
    client.send(get("long.txt?shout&rate=50M", ""));
    assert_eq!(client.head().status, 200);
    drop(client);
    harness.events.wait_until(|text| text.contains("ClientGone"));
    harness.plane.wait_unreserved();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_nothing_loses_its_stream() {
    let config = Config { stall_max: Duration::from_millis(300), ..Config::default() };
    let harness = Harness::with(config, WITH_TESTS);
    harness.store.put("long.txt", &pattern(30 << 20));
    let mut client = harness.connect();
    client.send(get("long.txt?shout&rate=50M", ""));
    harness.events.wait_until(|text| text.contains("ClientStalled"));
    harness.plane.wait_unreserved();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seek_ends_a_read_that_has_not_begun_with_an_answer() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    let film = letters(3 << 20); // its rest is no probe
    harness.store.put("a.txt", &film);
    harness.plane.close_gate();
    let mut first = harness.connect();
    first.send(get("a.txt?watch&rate=60M&session=s", ""));
    harness.plane.wait_until(|told| told.iter().any(|told| matches!(told, Told::Start { .. })));
    let mut second = harness.connect();
    second.send(get("a.txt?watch&rate=60M&session=s", "Range: bytes=9000-\r\n"));
    assert_eq!(first.answer(true).status, 503);
    harness.plane.open_gate();
    let answer = second.answer(true);
    assert!(answer.status == 206 && answer.body == film[9000..]);
    harness.plane.wait_reserved(1); // one session, one reservation
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_sink_takes_the_whole_content() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("a.txt", &text());
    let mut client = harness.connect();
    for (target, fields, counted) in [
        ("a.txt?count", "Range: bytes=0-1\r\nIf-None-Match: *\r\n", "700001"),
        ("a.txt?count&shout&rate=20M", "", "700002"),
    ] {
        client.send(get(target, fields));
        let answer = client.answer(true);
        assert_eq!((answer.status, answer.text().as_str()), (200, counted), "{target}");
    }
    let rates = harness.plane.told().into_iter().filter_map(|told| match told {
        Told::Start { rate, .. } => Some(rate),
        _ => None,
    });
    assert_eq!(rates.collect::<Vec<_>>(), [None, Some(BitRate(20_000_000))], "at no rate unless asked for");
    let head = harness.one("HEAD /media/a.txt?count HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.field("allow")), (405, Some("GET")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_whose_client_is_gone_is_given_up() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("long.txt", &pattern(1 << 20));
    harness.plane.close_gate();
    let mut client = harness.connect();
    client.send(get("long.txt?count&rate=50M", ""));
    harness.plane.wait_until(|told| told.iter().any(|told| matches!(told, Told::Start { .. })));
    client.stream.shutdown(Shutdown::Write).expect("closed");
    harness.plane.wait_unreserved();
    harness.events.wait_until(|text| text.contains("ClientGone"));
    assert!(client.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_does_not_end_is_given_up() {
    let harness = Harness::with(Config::default(), WITH_TESTS);
    harness.store.put("a.txt", &text());
    let mut client = harness.connect();
    client.send(get("a.txt?stuck", ""));
    harness.plane.wait_until(|told| told.iter().any(|told| matches!(told, Told::Start { .. })));
    client.stream.shutdown(Shutdown::Write).expect("closed");
    harness.events.wait_until(|text| text.contains("ClientGone"));
    assert!(client.is_closed());
    let hasty = Harness::with(Config { stall_max: Duration::from_millis(300), ..Config::default() }, WITH_TESTS);
    hasty.store.put("a.txt", &text());
    assert_eq!(hasty.one(&get("a.txt?stuck", "")).status, 503);
    hasty.events.wait_until(|text| text.contains("SinkFailed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_and_what_is_left_over_pass_as_well() {
    let policies = vec![
        PathPolicy { prefix: "news/".to_owned(), rate: Some(BitRate(200_000_000)), when_full: WhenFull::BestEffort },
        PathPolicy { prefix: String::new(), rate: Some(BitRate(200_000_000)), when_full: WhenFull::Refuse },
    ];
    let harness = Harness::with(Config { policies, ..Config::default() }, WITH_TESTS);
    harness.store.put("a.txt", b"now");
    harness.store.put("news/a.txt", b"now");
    for target in ["a.txt?shout", "a.txt?watch", "a.txt?count&rate=200M"] {
        let refused: Answer = harness.one(&get(target, ""));
        assert_eq!((refused.status, refused.json()["grantable_bps"].as_u64()), (503, Some(100_000_000)), "{target}");
    }
    let all = until_closed(&harness, &get("news/a.txt?shout", "Connection: close\r\n"));
    let (head, body) = split(&all);
    assert!(!head.contains("x-isocast-rate"), "{head}");
    assert_eq!(dechunked(body).expect("whole").0, b"NOW!");
    harness.plane.fill_queue(true);
    assert_eq!(harness.one(&get("a.txt?watch", "")).status, 503);
}
