//! Sessions, rates and policies over the wire: the requests of one player hold one stream.

use std::sync::atomic::Ordering;

use crate::support::{Harness, PlaneOrder, pattern};
use dataplane::control::Outcome;
use http::config::HttpConfig;
use media::{Codec, CodecSet, Container, RateSource};
use service::config::WhenFull;
use service::contents::MediaRate;
use units::{BitRate, Nanos, ReservationId};

const FIRST: ReservationId = ReservationId { slot: 1, generation: 1 };

fn get(target: &str, fields: &str) -> String {
    format!("GET /media/{target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

fn starts(orders: &[PlaneOrder]) -> Vec<PlaneOrder> {
    orders.iter().filter(|order| matches!(order, PlaneOrder::Start { .. })).cloned().collect()
}

const fn start(rate: u64, burst_bytes: u64, held: Option<ReservationId>, hold: bool) -> PlaneOrder {
    PlaneOrder::Start { rate: Some(BitRate(rate)), burst_bytes, held, hold }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ranges_of_a_player_hold_one_stream() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", &pattern(3 << 20));
    // Most of the capacity: a second reservation would be refused.
    for (ended, first) in (1..).zip([0, 1000, 5000]) {
        let answer = harness.one(&get("film.mp4?rate=60M", &format!("Range: bytes={first}-\r\n")));
        assert_eq!((answer.status, answer.field("x-isocast-rate")), (206, Some("60000000")));
        harness.events.wait_until(|text| text.matches("stream_ended").count() == ended);
    }
    let orders = starts(&harness.plane.orders());
    assert_eq!(orders[0], start(60_000_000, 0, None, true));
    assert_eq!(orders[1], start(60_000_000, 0, Some(FIRST), true));
    assert_eq!(harness.plane.reserved(), 1, "held for the next request");
}

/// At exactly its rate each segment would arrive when it is to be played, and the player live from hand to mouth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_segments_of_a_player_after_the_first_are_sent_ahead() {
    let harness = Harness::start(HttpConfig::default());
    let segment = 3 << 20;
    for (ended, name) in (1..).zip(["a.ts", "b.ts", "c.ts"]) {
        harness.store.put(name, &pattern(segment));
        let fields = if name == "c.ts" { "&burst=0" } else { "" };
        let answer = harness.one(&get(&format!("{name}?rate=6M{fields}"), ""));
        assert_eq!((answer.status, answer.field("x-isocast-rate")), (200, Some("6000000")));
        harness.events.wait_until(|text| text.matches("stream_ended").count() == ended);
    }
    // Four times as fast: three quarters of it are ahead.
    let ahead = segment as u64 * 3 / 4;
    let orders = starts(&harness.plane.orders());
    assert_eq!(orders[0], start(6_000_000, 0, None, true), "what comes first may be all that is read");
    assert_eq!(orders[1], start(6_000_000, ahead, Some(FIRST), true));
    assert_eq!(orders[2], start(6_000_000, 0, Some(FIRST), true), "what was asked for stands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_segment_is_opened_before_its_request() {
    let harness = Harness::start(HttpConfig::default());
    for (ended, name) in (1..).zip(["s08.ts", "s09.ts"]) {
        harness.store.put(name, &pattern(3 << 20));
        assert_eq!(harness.one(&get(&format!("{name}?rate=6M"), "")).status, 200);
        harness.events.wait_until(|text| text.matches("stream_ended").count() == ended);
    }
    harness.store.wait_opened("s10.ts").await;
    assert_eq!(starts(&harness.plane.orders()).len(), 2, "a guess reads nothing");
}

/// Each look into a container is a seek that no disk time is promised for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sound_without_a_rate_is_read_beside_the_pictures_of_its_session_and_not_looked_into() {
    let harness = Harness::start(HttpConfig::default());
    for (name, bytes) in [("s01.ts", 3 << 20), ("a01.ts", 96_000), ("a02.ts", 96_000), ("film.ts", 2 << 20)] {
        harness.store.put(name, &pattern(bytes));
    }
    let looks = || harness.store.looks.load(Ordering::SeqCst);
    let read = |target: &str| {
        let ended = harness.events.text().matches("stream_ended").count() + 1;
        assert_eq!(harness.one(&get(target, "")).status, 200, "{target}");
        harness.events.wait_until(|text| text.matches("stream_ended").count() == ended);
    };
    ["s01.ts?rate=6M&session=a", "a01.ts?session=a", "a02.ts?session=a"].into_iter().for_each(read);
    assert_eq!(looks(), 0);
    read("film.ts?session=a");
    assert_eq!(looks(), 1, "a film is played, whatever it is beside");
    ["a01.ts?session=b", "a01.ts"].into_iter().for_each(read);
    assert_eq!(looks(), 3, "of a viewer that plays nothing");
    let bulk = PlaneOrder::Start { rate: None, burst_bytes: 0, held: None, hold: false };
    assert_eq!(harness.plane.orders()[1..3], [PlaneOrder::Beside(FIRST), PlaneOrder::Beside(FIRST)]);
    assert_eq!(harness.plane.orders()[4..], [bulk.clone(), bulk]);
}

/// The player goes back to the quality before, for which there may be no room any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_player_that_is_refused_a_better_quality_keeps_the_one_it_has() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("a.ts", &pattern(3 << 20));
    let status = |target: &str| harness.one(&get(target, "")).status;
    let read = |target: &str, ended: usize| {
        assert_eq!(status(target), 200, "{target}");
        harness.events.wait_until(|text| text.matches("stream_ended").count() == ended);
    };
    read("a.ts?rate=60M&session=a", 1);
    let refused = harness.one(&get("a.ts?rate=101M&session=a", ""));
    assert_eq!((refused.status, refused.json()["grantable_bps"].as_u64()), (503, Some(100_000_000)));
    read("a.ts?rate=60M&session=a", 2);
    read("a.ts?rate=90M&session=a", 3);
    let orders = harness.plane.orders();
    assert!(!orders.iter().any(|order| matches!(order, PlaneOrder::Release(_))), "{orders:?}");
    assert_eq!(harness.plane.reserved(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_reservation_is_released_after_its_hold() {
    let service = service::config::ServiceConfig { session_hold: Nanos::ZERO, ..Default::default() };
    let harness = Harness::start(service);
    harness.store.put("film.mp4", &pattern(3 << 20));
    assert_eq!(harness.one(&get("film.mp4?rate=60M", "Range: bytes=0-\r\n")).status, 206);
    harness.plane.wait_until(|orders| orders.contains(&PlaneOrder::Release(FIRST)));
    harness.plane.wait_unreserved();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_ride_best_effort() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", &pattern(3 << 20));
    let answer = harness.one(&get("film.mp4?rate=60M", "Range: bytes=0-1023\r\n"));
    assert_eq!((answer.status, answer.field("x-isocast-rate")), (206, None));
    assert_eq!(harness.plane.orders(), [PlaneOrder::Start { rate: None, burst_bytes: 0, held: None, hold: false }]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seek_of_a_named_session_takes_over_from_its_older_read() {
    let harness = Harness::start(HttpConfig::default());
    let film = pattern(3 << 20);
    harness.store.put("film.mp4", &film);
    harness.plane.close_gate();
    let mut first = harness.connect();
    first.send(get("film.mp4?rate=60M&CMCD=sid%3D%22a%22", "Range: bytes=0-\r\n"));
    assert_eq!(first.head().status, 206);
    let mut second = harness.connect();
    second.send(get("film.mp4?rate=60M&CMCD=sid%3D%22a%22", "Range: bytes=9000-\r\n"));
    assert_eq!(second.head().status, 206);
    // At once, and nothing is stopped or released. A content of less than 30 s is sent to a named viewer in a quarter of its
    // time: three quarters of it are ahead.
    let expected =
        [start(60_000_000, 2_359_296, None, true), start(60_000_000, (3_145_728 - 9000) / 4 * 3, Some(FIRST), true)];
    assert_eq!(harness.plane.orders(), expected);
    assert_eq!(harness.plane.reserved(), 1, "one for both");
    harness.plane.open_gate();
    // The older one continues as best effort.
    assert!(first.take(3 << 20) == film, "all of it");
    assert!(second.take((3 << 20) - 9000) == film[9000..], "all from where it sought");
    harness.events.wait_until(|text| text.matches("\"outcome\":\"Complete\"").count() == 2);
    assert_eq!(harness.plane.orders(), expected, "its end gives nothing back that the newer one has");
    assert_eq!(harness.plane.reserved(), 1, "held for the next request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contents_own_rate_with_its_preroll() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", &pattern(1000));
    *harness.store.media.lock().expect("lock") = Some(MediaRate {
        rate: BitRate(8_801_308),
        preroll_bytes: 500,
        container: Container::Mp4,
        source: RateSource::SampleTables,
        duration: Nanos::from_secs(60),
        codecs: [Codec::H264, Codec::Aac].into_iter().collect(),
    });
    assert_eq!(harness.one(&get("film.mp4", "")).field("x-isocast-rate"), Some("8801308"));
    assert_eq!(harness.one(&get("film.mp4?rate=1M", "CMCD-Object: br=5000\r\n")).status, 200);
    assert_eq!(harness.one(&get("film.mp4", "CMCD-Object: br=5000\r\n")).status, 200);
    // A player that tells its rate fills its buffer: a content of less than 30 s is sent to it in a quarter of its time.
    let expected =
        [start(8_801_308, 500, None, true), start(1_000_000, 750, None, true), start(5_000_000, 750, None, true)];
    assert_eq!(starts(&harness.plane.orders()), expected);
}

/// Two minutes of media, so that it is no segment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_above_the_contents_need_is_for_accounts_and_links() {
    let harness = Harness::start(HttpConfig::default());
    let duration = Nanos::from_secs(120);
    harness.store.put("film.mp4", &pattern(1_500_000));
    let media = MediaRate {
        rate: BitRate(90_000),
        preroll_bytes: 500,
        container: Container::Mp4,
        source: RateSource::SampleTables,
        duration,
        codecs: CodecSet::NONE,
    };
    *harness.store.media.lock().expect("lock") = Some(media);
    let granted = |target: &str| {
        let answer = harness.one(&get(target, ""));
        assert_eq!(answer.status, 200, "{target}");
        answer.field("x-isocast-rate").expect("a rate").parse::<u64>().expect("a number")
    };
    assert_eq!(granted("film.mp4?rate=210k"), 210_000, "its need is not known, and no look is taken for it");
    harness.store.media_is_known.store(true, Ordering::SeqCst);
    assert_eq!(granted("film.mp4?rate=200k"), 200_000, "twice its size over its time");
    assert_eq!(granted("film.mp4?rate=210k"), 90_000);
    assert_eq!(granted("film.mp4?rate=1M"), 1_000_000, "a segment");
    assert_eq!(harness.store.looks.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_may_be_served_best_effort_when_it_is_full() {
    // The setting of full servers names a part of the path without a rate of its own: the rate of the whole holds there, too.
    let harness = Harness::start(service::config::ServiceConfig {
        path_rates: vec![(String::new(), BitRate(200_000_000))],
        path_when_full: vec![("news/".to_owned(), WhenFull::BestEffort)],
        ..Default::default()
    });
    harness.store.put("news/a.ts", b"now");
    harness.store.put("a.ts", b"now");
    let served = harness.one(&get("news/a.ts", ""));
    assert_eq!((served.status, served.field("x-isocast-rate"), served.text().as_str()), (200, None, "now"));
    assert_eq!(harness.one(&get("a.ts", "")).status, 503);
    assert_eq!(harness.one(&get("a.ts?rate=max", "")).status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_disk_is_named_to_viewers_behind_a_stage_too() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("list.m3u8", b"#EXTM3U\na.ts\n");
    for (outcome, resource) in
        [(Outcome::DiskError, "disk_failing"), (Outcome::DiskOverloaded, "disk"), (Outcome::StartTooLate, "disk")]
    {
        harness.plane.fail(outcome);
        // Only the second passes a stage.
        let [direct, piped] = ["list.m3u8", "list.m3u8?session=a"].map(|target| harness.one(&get(target, "")));
        for answer in [&direct, &piped] {
            assert_eq!((answer.status, answer.field("retry-after")), (503, Some("10")), "{}", answer.text());
        }
        let named = format!("\"resource\":\"{resource}\"");
        assert!(direct.text().contains(&named) && direct.text().contains("\"name\":\"sda\""), "{}", direct.text());
        assert_eq!(piped.text(), direct.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_stream_through_a_stage_is_reported() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("list.m3u8", b"#EXTM3U\na.ts\n");
    let mut client = harness.connect();
    client.send("GET /media/list.m3u8?session=a HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.head().status, 200);
    let carried = b"#EXTM3U\na.ts?session=a\n";
    assert_eq!(client.take(carried.len()), carried);
    harness.events.wait_until(|text| text.contains("\"stream_ended\"") && text.contains("\"Complete\""));
}
