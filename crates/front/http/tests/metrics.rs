//! Figures: `/metrics` and `/api/v1/status` while a stream runs.

use crate::support::{Harness, get, pattern};
use http::config::HttpConfig;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_show_a_running_stream() {
    let harness = Harness::start(HttpConfig::default());
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
