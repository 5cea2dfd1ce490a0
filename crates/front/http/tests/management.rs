//! Listings, the page, health, metrics and figures over the wire.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::Forecast;

use crate::support::{Harness, get, pattern};
use http::config::HttpConfig;
use service::accounts::{AccountFacts, Accounts, OpenRights};
use service::config::ServiceConfig;
use service::contents::ContentPath;
use service::quota::{QuotaConfig, QuotaLook, WhenQuotaFull};
use service::reservation_ahead::{ReservationAhead, ReservationWish};
use units::Nanos;

/// A server whose folders together have a quota of 1 GiB.
fn with_quota() -> ServiceConfig {
    let quota = QuotaConfig {
        folder: ContentPath::root(),
        bytes_max: 1 << 30,
        when_full: WhenQuotaFull::Refuse,
        min_age: Nanos(0),
        protected: Vec::new(),
    };
    ServiceConfig { quotas: vec![quota], ..ServiceConfig::default() }
}

/// A server, and a viewer of a film of which nothing comes.
fn watched() -> (Harness, crate::support::Client) {
    let service = with_quota();
    let accounts = Arc::<Accounts>::default();
    accounts.open(OpenRights { all_read: true, local_writes: true });
    let ahead = reservation();
    accounts.put(AccountFacts {
        reservations: HashMap::from([(ahead.session.clone(), Arc::new(ahead))]),
        ..AccountFacts::default()
    });
    let harness = Harness::with_accounts(service, accounts);
    harness.store.put("film.mp4", &pattern(1000));
    harness.plane.close_gate();
    let mut viewer = harness.connect();
    viewer.get("/media/film.mp4?rate=8.8M");
    viewer.head();
    (harness, viewer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_as_page_and_as_json() {
    let harness = Harness::start(HttpConfig::default());
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
async fn a_share_shows_its_room_once_its_quota_is_counted() {
    let harness = Harness::start(with_quota());
    let wish =
        "<D:propfind xmlns:D=\"DAV:\"><D:prop><D:quota-available-bytes/><D:quota-used-bytes/></D:prop></D:propfind>";
    let ask =
        format!("PROPFIND /media/ HTTP/1.1\r\nHost: h\r\nDepth: 0\r\nContent-Length: {}\r\n\r\n{wish}", wish.len());
    let found = harness.one(&ask).text();
    assert!(found.contains("quota-available-bytes/>") && found.contains("quota-used-bytes/>"), "{found}");
    harness.service.quotas.all()[0].found(QuotaLook { stored: 1000, ..QuotaLook::default() });
    let found = harness.one(&ask).text();
    assert!(found.contains("quota-used-bytes>1000<"), "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_listing_comes_in_pages_and_in_parts() {
    let harness = Harness::start(HttpConfig::default());
    for number in 0..2000 {
        harness.store.put(&format!("film-{number:04}.mp4"), b"x");
    }
    let names = |json: &serde_json::Value| -> Vec<String> {
        json.as_array()
            .expect("a list")
            .iter()
            .map(|entry| entry["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let first = harness.one(&get("/media/?format=json&limit=2"));
    assert_eq!(names(&first.json()), ["film-0000.mp4", "film-0001.mp4"]);
    let next = "</media/?format=json&limit=2&after=film-0001.mp4>; rel=\"next\"";
    assert_eq!((first.field("link"), harness.store.listed.load(Ordering::SeqCst)), (Some(next), 0));
    assert_eq!(harness.one(&get("/media/?format=json&limit=2000")).field("link"), None);
    let page = harness.one(&get("/media/?format=json&limit=2&after=film-0009.mp4"));
    assert_eq!(names(&page.json()), ["film-0010.mp4", "film-0011.mp4"]);
    let next = "</media/?format=json&limit=2&after=film-0011.mp4>; rel=\"next\"";
    assert_eq!(page.field("link"), Some(next));
    let last = harness.one(&get("/media/?format=json&limit=2&after=film-1997.mp4"));
    assert_eq!((names(&last.json()).len(), last.field("link")), (2, None));
    assert_eq!(harness.one(&get("/media/?format=json&after=x")).text(), "[]");
    for limit in ["0", "-1", "x", ""] {
        assert_eq!(harness.one(&get(&format!("/media/?limit={limit}"))).status, 400);
    }
    // HTTP/1.0 ends a body of unknown length with the connection.
    for (format, end) in [("json", "]"), ("html", "</table></html>\n")] {
        let mut client = harness.connect();
        client.send(format!("GET /media/?format={format} HTTP/1.0\r\n\r\n"));
        assert_eq!(client.head().field("content-length"), None);
        let body = String::from_utf8(client.take(usize::MAX)).expect("text");
        assert!(body.ends_with(end) && body.matches("film-1999.mp4").count() > 0);
        if format == "json" {
            let all = names(&serde_json::from_str(&body).expect("JSON"));
            assert!(all.len() == 2000 && all.is_sorted());
        }
    }
    let mut client = harness.connect();
    client.get("/media/?format=json");
    assert_eq!(client.head().field("transfer-encoding"), Some("chunked"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_read_share_one_listing() {
    let harness = Harness::start(HttpConfig::default());
    let long = "x".repeat(200);
    // More than the kernel takes for a client that does not read (tcp_wmem: 4 MiB).
    let count = 20_000;
    for number in 0..count {
        harness.store.put(&format!("{number:05}-{long}"), b"");
    }
    let held = || {
        let metrics = harness.one(&get("/metrics")).text();
        let line = metrics.lines().find(|line| line.starts_with("isocast_listing_bytes ")).expect("the metric");
        line.rsplit(' ').next().expect("a value").parse::<u64>().expect("a number")
    };
    let clients: Vec<_> = (0..100)
        .map(|_| {
            let mut client = harness.connect();
            client.get("/media/?format=json");
            assert_eq!(client.head().status, 200);
            client
        })
        .collect();
    let (one, all) = (count * 200, held());
    // Each for itself they would hold 600 MB. A snapshot is taken while less than 64 MiB are held, and names are most of it.
    assert!((one..(64 << 20) + 2 * one).contains(&all), "{all} bytes for {} clients", clients.len());
    assert_eq!(harness.one(&get("/health")).status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_readiness_and_the_page() {
    let harness = Harness::start(HttpConfig::default());
    assert_eq!(harness.one(&get("/health")).status, 200);
    assert_eq!(harness.one(&get("/ready")).status, 200);
    harness.store.failing.store(true, Ordering::SeqCst);
    let failing = harness.one(&get("/ready"));
    assert!(failing.status == 503 && failing.text().contains("every disk is failing"), "{}", failing.text());
    // The event log has it, too, though no read of the data plane met the fault.
    harness.events.wait_until(|text| {
        let named = ["\"event\":\"disk_failing\"", "\"hung\":true", "\"name\":\"sda\"", "\"folders\":[\"/srv/video\"]"];
        text.lines().any(|line| named.iter().all(|part| line.contains(part)))
    });
    harness.store.failing.store(false, Ordering::SeqCst);
    harness.events.wait_until(|text| text.contains("\"disk_recovered\""));
    assert_eq!(harness.one(&get("/ready")).status, 200);
    let page = harness.one(&get("/"));
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.field("content-security-policy").is_some());
    assert_eq!(harness.one(&get("/nothing")).status, 404);
    let post = harness.one("POST /health HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((post.status, post.field("allow")), (405, Some("GET, HEAD")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_the_right_to_write_stops_a_stream() {
    let (harness, _viewer) = watched();
    let id = harness.one(&get("/api/v1/streams")).json()[0]["id"].as_u64().expect("a number");
    let ask = |method: &str, id: &str, fields: &str| {
        harness.one(&format!("{method} /api/v1/streams/{id}/stop HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    };
    let proxied = ask("POST", &id.to_string(), "Via: 1.1 proxy\r\n");
    assert_eq!(proxied.status, 403, "{}", proxied.text());
    for unknown in [(id + 1).to_string(), "x".to_owned(), String::new()] {
        let answer = ask("POST", &unknown, "");
        assert!(answer.status == 404 && answer.text().contains("/api/v1/streams"), "{}", answer.text());
    }
    let wrong = ask("GET", &id.to_string(), "");
    assert_eq!((wrong.status, wrong.field("allow")), (405, Some("POST")));
    assert_eq!(ask("POST", &id.to_string(), "Content-Length: 0\r\n").status, 202);
    harness.plane.wait_until(|orders| orders.contains(&crate::support::PlaneOrder::Stop));
    let events = harness.one(&get("/api/v1/events")).json();
    let stopped = events.as_array().expect("a list").iter().find(|event| event["event"] == "stream_stopped");
    let stopped = stopped.unwrap_or_else(|| panic!("no event in {events}"));
    assert_eq!((&stopped["stream"], &stopped["path"]), (&id.into(), &"film.mp4".into()));
    harness.plane.open_gate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_explained_and_streams_are_listed_in_parts() {
    let (harness, _viewer) = watched();
    let mut second = harness.connect();
    second.send("GET /media/film.mp4 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: other\r\n\r\n");
    assert_eq!(second.head().status, 200);
    let first = harness.one(&get("/api/v1/streams?limit=1"));
    let id = first.json()[0]["id"].as_u64().expect("a number");
    assert_eq!(first.json().as_array().map(Vec::len), Some(1));
    let next = format!("</api/v1/streams?limit=1&after={id}>; rel=\"next\"");
    assert_eq!(first.field("link"), Some(next.as_str()));
    let rest = harness.one(&get(&format!("/api/v1/streams?after={id}")));
    assert_eq!((rest.json().as_array().map(Vec::len), rest.field("link")), (Some(1), None));
    assert!(rest.json()[0]["id"].as_u64() > Some(id));
    for bad in ["limit=0", "limit=1001", "limit=x", "after=x", "after=-1", "limit=1&limit=2"] {
        assert_eq!(harness.one(&get(&format!("/api/v1/streams?{bad}"))).status, 400, "{bad}");
    }
    let explained = harness.one(&get(&format!("/api/v1/streams/{id}"))).json();
    assert_eq!((&explained["stream"]["id"], &explained["stream"]["path"]), (&id.into(), &"film.mp4".into()));
    assert_eq!(explained["rate_from"], "request");
    assert_eq!(explained["budgets"], serde_json::json!(["address:127.0.0.1"]));
    let reasons = explained["reasons"].to_string();
    assert!(reasons.contains("Mbit/s are reserved for it: the request, or its link, names it."), "{reasons}");
    let facts = explained["facts"].as_array().expect("a list");
    assert_eq!(Some(facts.len()), explained["reasons"].as_array().map(Vec::len), "each sentence is a fact");
    assert!(facts.iter().any(|fact| fact["fact"] == "reserved" && fact["from"] == "request"), "{facts:?}");
    let other = harness.one(&get(&format!("/api/v1/streams/{}", rest.json()[0]["id"]))).json();
    assert_eq!((&other["rate_from"], &other["place"]), (&"left_over".into(), &serde_json::Value::Null), "{other}");
    for unknown in ["999999", "x", "-1"] {
        let answer = harness.one(&get(&format!("/api/v1/streams/{unknown}")));
        assert!(answer.status == 404 && answer.text().contains("no stream"), "{unknown}: {}", answer.text());
    }
    harness.plane.open_gate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_is_not_stopped_over_the_api() {
    let harness = Harness::start(HttpConfig::default());
    let mut recorder = harness.connect();
    recorder.send("PUT /media/new.ts?rate=8.8M HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345");
    let streams = loop {
        let streams = harness.one(&get("/api/v1/streams")).json();
        if streams[0]["received_bytes"] == 5 {
            break streams;
        }
        tokio::task::yield_now().await;
    };
    let stop = format!("POST /api/v1/streams/{}/stop HTTP/1.1\r\nHost: localhost\r\n\r\n", streams[0]["id"]);
    let answer = harness.one(&stop);
    assert!(answer.status == 409 && answer.text().contains("recording"), "{}", answer.text());
    recorder.send("67890");
    assert_eq!(recorder.answer(false).status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_figures_come_every_second() {
    let harness = Harness::start(HttpConfig::default());
    let once = harness.one(&get("/api/v1/live")).json();
    assert_eq!(
        (&once["system"]["streams"], &once["streams"], &once["unlisted"]),
        (&0.into(), &serde_json::json!([]), &0.into())
    );
    assert_eq!(once["disks"], harness.one(&get("/api/v1/disks")).json());
    let mut client = harness.connect();
    client.send("GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
    assert_eq!(client.head().field("content-type"), Some("text/event-stream"));
    let events = |client: &crate::support::Client| {
        let text = String::from_utf8_lossy(&client.buffer).into_owned();
        text.split("data: ")
            .skip(1)
            .filter_map(|event| serde_json::from_str(event.split_once("\n\n")?.0).ok())
            .collect()
    };
    let mut come: Vec<serde_json::Value> = events(&client);
    while come.len() < 3 {
        assert!(client.more(), "it ended after {come:?}");
        come = events(&client);
    }
    let uptimes: Vec<_> = come.iter().map(|figures| figures["system"]["uptime_seconds"].as_f64().unwrap()).collect();
    assert!(uptimes.is_sorted() && uptimes[0] < uptimes[2], "{uptimes:?}");
    // No client that follows the figures holds up the end of the server.
    assert!(harness.service.drain().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_followed_as_they_happen() {
    let harness = Harness::start(HttpConfig::default());
    harness.store.put("film.mp4", b"12345");
    let follow = |fields: &str| {
        let mut client = harness.connect();
        let head = "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n";
        client.send(format!("{head}{fields}\r\n"));
        let head = client.head();
        assert_eq!((head.status, head.field("content-type")), (200, Some("text/event-stream")));
        client
    };
    let next = |client: &mut crate::support::Client, what: &str| loop {
        let text = String::from_utf8_lossy(&client.buffer).into_owned();
        if text.contains(what) {
            return text;
        }
        assert!(client.more(), "it ended without {what}: {text}");
    };
    let mut newcomer = follow("");
    next(&mut newcomer, ": events");
    assert_eq!(harness.one(&get("/media/film.mp4?rate=max")).status, 200);
    let told = next(&mut newcomer, "stream_ended");
    assert!(!told.contains("server_started"), "what happened before is not news: {told}");
    let mut returned = follow("Last-Event-ID: 0\r\n");
    let told = next(&mut returned, "stream_ended");
    assert!(told.contains("id: 1\ndata: {") && told.contains("server_started"), "{told}");
    // No client that follows the events holds up the end of the server.
    assert!(harness.service.drain().await);
    next(&mut returned, "server_stopping");
    assert!(next(&mut newcomer, "\r\n0\r\n\r\n").ends_with("\r\n0\r\n\r\n"));
}

fn reservation() -> ReservationAhead {
    let wish = ReservationWish {
        by: None,
        path: ContentPath::root(),
        rate: units::BitRate(1_000_000),
        // Of the year 2100: one that is near would have its room taken by a stream.
        from: 4_102_444_800,
        until: u64::MAX,
        local: "127.0.0.1".parse().expect("an address"),
    };
    ReservationAhead { id: 1, session: "s".to_owned(), wish }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_match_the_openapi_document() {
    let (harness, _viewer) = watched();
    harness.service.operations.show_forecasts(vec![Forecast {
        kind: "disk".to_owned(),
        name: "/srv".to_owned(),
        free_bytes: 5,
        bytes_per_day: Some(5.0),
        seen_seconds: 3600.0,
        full: Some(1.0),
    }]);
    let upload = "POST /upload/ HTTP/1.1\r\nHost: localhost\r\nTus-Resumable: 1.0.0\r\nContent-Length: 0\r\n\
                  Upload-Length: 5\r\nUpload-Metadata: path YQ==\r\n\r\n";
    assert_eq!(harness.one(upload).status, 201);
    // Of the year 2100: an old item would go.
    harness.store.put(".isocast-upload-kept-trash/4102444800000-0-1-4/film.ts", b"film");
    let stream = harness.one(&get("/api/v1/streams")).json()[0]["id"].to_string();
    let document = harness.one(&get("/api/v1/openapi.json")).json();
    let members = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    for path in members(&document["paths"]) {
        let Some(schema) =
            document["paths"][&path]["get"]["responses"]["200"]["content"]["application/json"].get("schema")
        else {
            continue;
        };
        let query = match path.as_str() {
            "/api/v1/removals" => "?job=keep",
            "/api/v1/contents/search" => "?text=film",
            "/api/v1/contents/details" => "?path=film.mp4",
            _ => "",
        };
        let answer = harness.one(&get(&format!("{}{query}", path.replace("{id}", &stream)))).json();
        let (schema, one) = match schema.get("items") {
            Some(items) => (items, &answer[0]),
            None => (schema, &answer),
        };
        // Any JSON.
        let Some(name) = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) else { continue };
        let described = &document["components"]["schemas"][name];
        // Members that depend on a kind are described next to the document's own.
        let parts = described["allOf"].as_array();
        let described = parts.and_then(|parts| parts.last()).unwrap_or(described);
        if parts.is_none() && described.get("additionalProperties").is_none() {
            assert_eq!(members(one), members(&described["properties"]), "{path}");
        }
        for required in described["required"].as_array().expect("a list") {
            assert!(one.get(required.as_str().expect("a name")).is_some(), "{path}: {required}");
        }
    }
    harness.plane.open_gate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trash_of_a_folder_is_listed_whatever_came_later() {
    let harness = Harness::start(HttpConfig::default());
    // Of the year 2100: old items would go.
    harness.store.put(".isocast-upload-kept-trash/4102444800000-0-2-1/films/a.ts", b"a");
    for number in 1..=1000 {
        harness.store.put(&format!(".isocast-upload-kept-trash/4102444800001-{number}-2-1/other/{number}.ts"), b"b");
    }
    let listed = |query: &str| harness.one(&get(&format!("/api/v1/trash{query}"))).json();
    assert_eq!(listed("?folder=films")[0]["path"], "films/a.ts");
    assert_eq!(listed("").as_array().map(Vec::len), Some(1000));
    harness.service.drain().await;
    for request in ["POST /api/v1/trash/4102444800000-0-2-1/restore", "DELETE /api/v1/trash/4102444800000-0-2-1"] {
        assert_eq!(harness.one(&format!("{request} HTTP/1.1\r\nHost: localhost\r\n\r\n")).status, 503, "{request}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_shown_begun_and_stopped() {
    let harness = Harness::start(HttpConfig::default());
    let jobs = harness.one(&get("/api/v1/jobs")).json();
    assert_eq!((&jobs[0]["name"], &jobs[0]["last"]["outcome"]), (&"copy".into(), &"Failed".into()));
    let post = |path: &str| harness.one(&format!("POST /api/v1/jobs/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    for (path, status) in
        [("copy/stop", 202), ("copy/run", 409), ("other/run", 404), ("other/stop", 404), ("copy/x", 404)]
    {
        assert_eq!(post(path).status, status, "{path}");
    }
    assert_eq!(harness.one(&get("/api/v1/jobs/copy/run")).status, 405);
    let page = "POST /api/v1/jobs/copy/stop HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n";
    assert_eq!(harness.one(page).status, 403);
    let removals = harness.one(&get("/api/v1/removals?job=keep")).json();
    assert_eq!((&removals["contents"], &removals["first"][0]["path"]), (&1.into(), &"a/b.ts".into()));
    assert_eq!(harness.one(&get("/api/v1/removals?folder=a")).status, 400);
    let metrics = harness.one(&get("/metrics")).text();
    for line in [
        "isocast_job_running{name=\"copy\"} 1",
        "isocast_job_runs_total{name=\"copy\",outcome=\"succeeded\"} 6",
        "isocast_job_due_timestamp_seconds{name=\"copy\"} 1700086400",
        "isocast_job_missed_total{name=\"copy\"} 7",
        "isocast_webhook_waiting{webhook=\"chat\"} 1",
        "isocast_webhook_events_total{webhook=\"chat\",outcome=\"dropped\"} 5",
        "isocast_webhook_retries_total{webhook=\"chat\"} 3",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_are_shown_and_start_upkeep_on_request() {
    let harness = Harness::start(HttpConfig::default());
    let volumes = harness.one(&get("/api/v1/volumes")).json();
    assert_eq!((&volumes[0]["name"], &volumes[0]["upkeep"]["kind"]), (&"films".into(), &"scrub".into()));
    let post = |path: &str| harness.one(&format!("POST /api/v1/volumes/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    for (path, status) in [
        ("films/scrub", 409),
        ("films/disks/0/remove", 202),
        ("films/disks/1/remove", 404),
        ("films/disks/0/replace?device=%2Fdev%2Fmy+disk", 202),
        ("films/disks/0/replace?device=/dev/sdb", 409),
        ("films/disks/0/replace", 400),
        ("films/disks/x/remove", 404),
        ("other/scrub", 404),
        ("films", 404),
    ] {
        assert_eq!(post(path).status, status, "{path}");
    }
    assert_eq!(harness.one(&get("/api/v1/volumes/films/scrub")).status, 405);
    let page =
        "POST /api/v1/volumes/films/disks/0/remove HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n";
    assert_eq!(harness.one(page).status, 403);
}
