//! Budgets: no holder keeps the server from others, by however many names, ranges and connections.

use std::time::{Duration, Instant};

use crate::common::client::{Client, pattern};
use crate::common::server::{Server, Setup};
use crate::serve_accounts::isocast;

const FILM_BYTES: usize = 30_000_000;
/// Bytes of a stream that wait in buffers for its budget.
const BUFFERED_MAX: u64 = 1_200_000;

/// A server with a link of this rate and a film.
fn server(link: &str, setup: Setup) -> Server {
    let server = setup.set(&format!("links.lo={link}")).start();
    server.file("film.ts", &pattern(FILM_BYTES));
    server
}

/// Begins to read `target` from `source`; gives the connection and the status.
fn read(server: &Server, source: &str, target: &str, fields: &str) -> (Client, u16) {
    let mut client = server.connect_from(source);
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
    let status = client.head().status;
    (client, status)
}

fn streams(server: &Server) -> Vec<serde_json::Value> {
    server.json("/api/v1/streams").as_array().expect("a list").clone()
}

fn constant(server: &Server) -> usize {
    streams(server).iter().filter(|stream| stream["class"] == "constant").count()
}

#[test]
fn eleven_requests_with_invented_names_cost_others_nothing() {
    let server = server("100M", Setup::default());
    for name in 0..11 {
        let (mut client, status) = read(&server, "127.0.0.5", &format!("/media/film.ts?rate=8.8M&session=x{name}"), "");
        assert_eq!(status, 200, "request {name}");
        // Each plays for some time, and is closed.
        client.take(2_000_000);
    }
    server.wait_for("the end of all streams", |server| streams(server).is_empty());
    let budgets = server.json("/api/v1/budgets");
    let held = budgets.as_array().expect("a list").iter().find(|budget| budget["budget"] == "address:127.0.0.5");
    assert!(held.is_some_and(|held| held["used"]["idle_bps"].as_u64() > Some(80_000_000)), "{budgets}");
    let viewers: Vec<_> = (0..6)
        .map(|viewer| read(&server, &format!("127.0.0.{}", 20 + viewer), "/media/film.ts?rate=8.8M", ""))
        .collect();
    let statuses: Vec<u16> = viewers.iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses, [200; 6], "all but the four that it may hold");
}

#[test]
fn connections_that_are_not_read_cost_others_nothing() {
    let server = server("100M", Setup::default());
    let open: Vec<_> = (0..11)
        .map(|name| read(&server, "127.0.0.5", &format!("/media/film.ts?rate=8.8M&session=x{name}"), ""))
        .collect();
    assert!(open.iter().filter(|(_, status)| *status == 200).count() >= 10, "the link is full");
    for viewer in 20..24 {
        let source = format!("127.0.0.{viewer}");
        server.wait_for("a place", |server| {
            let (client, status) = read(server, &source, "/media/film.ts?rate=8.8M&session=honest", "");
            // It stays open, and its client takes nothing either: its address has one stream.
            std::mem::forget(client);
            status == 200
        });
    }
}

#[test]
fn one_address_takes_no_places_and_no_buffers_with_reads_that_it_closes() {
    let server = server("1G", Setup::default());
    for name in 0..300 {
        let (_, status) = read(&server, "127.0.0.5", &format!("/media/film.ts?rate=1k&session=x{name}"), "");
        assert_eq!(status, 200);
    }
    let (_, status) = read(&server, "127.0.0.5", "/media/film.ts?rate=60M&burst=60s&session=long", "");
    assert!(matches!(status, 200 | 503), "{status}");
    server.wait_for("room for another", |server| {
        read(server, "127.0.0.9", "/media/film.ts?rate=8.8M&session=honest", "").1 == 200
    });
}

#[test]
fn viewers_without_names_behind_one_address_lose_nothing_to_newcomers_and_seeks() {
    let server = server("20M", Setup::default());
    let fields = "User-Agent: TV/1\r\nRange: bytes=0-\r\n";
    let target = "/media/film.ts?rate=2.8M&burst=0";
    let watching: Vec<_> = (0..6).map(|_| read(&server, "127.0.0.1", target, fields)).collect();
    assert!(watching.iter().all(|(_, status)| *status == 206));
    let readers: Vec<_> = watching
        .into_iter()
        .map(|(mut client, _)| {
            std::thread::spawn(move || {
                client.take(4_000_000);
                client
            })
        })
        .collect();
    for range in ["0-", "5000000-"] {
        let fields = format!("User-Agent: TV/1\r\nRange: bytes={range}\r\n");
        assert_eq!(read(&server, "127.0.0.1", target, &fields).1, 503, "{range}: there is room for six");
        assert_eq!(constant(&server), 6, "{range}");
    }
    for reader in readers {
        drop(reader.join().expect("it got its bytes"));
    }
}

#[test]
fn two_hundred_boxes_without_names_behind_a_trusted_proxy_hold_a_stream_each() {
    let server = server("90M", Setup::default().config("[access]\ntrusted_proxies = [\"127.0.0.1\"]\n"));
    let fields = "User-Agent: Box/1\r\nRange: bytes=0-\r\n";
    let begin = || read(&server, "127.0.0.1", "/media/film.ts?rate=400k&burst=0", fields);
    let watched = (0..200).map(|_| {
        let (mut client, status) = begin();
        assert_eq!(status, 206);
        std::thread::spawn(move || {
            client.take(500_000);
            client
        })
    });
    let watched: Vec<_> = watched.collect();
    // There is room for few more; the next one is refused, and takes nothing from the boxes that play.
    let newcomers: Vec<_> = std::iter::repeat_with(begin).take_while(|(_, status)| *status == 206).take(40).collect();
    assert!(newcomers.len() < 40, "the link is full");
    assert_eq!(constant(&server), watched.len() + newcomers.len());
    for client in watched {
        drop(client.join().expect("it got its bytes"));
    }
}

#[test]
fn a_trusted_proxy_names_its_clients_by_the_proxy_protocol() {
    let config = "[access]\ntrusted_proxies = [\"127.0.0.9\"]\nproxy_protocol = true\n";
    let server = server("100M", Setup::default().config(config).set("ftp.listen=127.0.0.1:0"));
    let ask = |source: &str, header: &[u8]| {
        let mut client = server.connect_from(source);
        let request = b"GET /media/film.ts?rate=1M HTTP/1.1\r\nHost: localhost\r\n\r\n";
        client.send([header, request].concat());
        let status = client.head().status;
        (client, status)
    };
    let version_1 = b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\n";
    let version_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x08\x7f\0\0\x01\x12\x67\0\x50";
    let open = [ask("127.0.0.9", version_1), ask("127.0.0.9", version_2), ask("127.0.0.1", b"")];
    assert_eq!(open.each_ref().map(|(_, status)| *status), [200; 3]);
    let clients: Vec<_> = streams(&server).iter().map(|stream| stream["client"].to_string()).collect();
    assert_eq!(clients, ["\"192.0.2.7\"", "\"192.0.2.8\"", "\"127.0.0.1\""]);
    assert_eq!(ask("127.0.0.9", b"").1, 400, "a proxy without a header");
    assert_eq!(ask("127.0.0.1", version_1).1, 400, "a header of another client");

    let greets = |source: &str, header: &[u8]| {
        let mut client = Client::from_to(source, crate::ftp::address(&server, "ftp"));
        client.send(header);
        String::from_utf8(client.take(4)).expect("a reply")
    };
    assert_eq!(greets("127.0.0.9", version_1), "220 ");
    assert_eq!(greets("127.0.0.9", b"USER anonymous\r\n"), "421 ");
}

#[test]
fn a_read_that_passes_its_reservation_on_is_listed_and_logged() {
    let server = server("20M", Setup::default());
    let target = "/media/film.ts?rate=5M&burst=0&session=v";
    let (_older, status) = read(&server, "127.0.0.1", target, "");
    assert_eq!(status, 200);
    let (_newer, status) = read(&server, "127.0.0.1", target, "Range: bytes=1000000-\r\n");
    assert_eq!(status, 206);
    server.wait_event(&["reservation_passed", "film.ts"]);
    let all = streams(&server);
    assert_eq!(all[0]["passed_to"], all[1]["id"], "{all:?}");
}

#[test]
fn budgets_set_by_commands_are_in_force_at_once_and_refusals_name_them() {
    let server = server("100M", Setup::default());
    let state = server.folders.path().join("state");
    isocast(&state, &["user", "add", "ada", "--password-stdin"], "secret\n");
    isocast(&state, &["user", "grant", "ada", "read,write,delete"], "");
    let token = isocast(&state, &["token", "add", "ada", "--rights", "read,write,delete"], "");
    isocast(&state, &["user", "budget", "ada", "--streams", "2", "--reserved", "8M", "--stored", "1MB"], "");
    isocast(&state, &["token", "budget", "1", "--requests", "1000"], "");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let open = |rate: &str, name: u32| {
        let mut client = server.connect();
        client.send(format!(
            "GET /media/film.ts?rate={rate}&burst=0&session={name} HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n"
        ));
        let head = client.head();
        (client, head)
    };
    let (first, head) = open("5M", 1);
    assert_eq!(head.status, 200);
    let refused = |rate: &str| {
        let answer = server
            .ask(&format!("GET /media/film.ts?rate={rate}&session=9 HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n"));
        (answer.status, serde_json::from_slice::<serde_json::Value>(&answer.body).expect("a problem"))
    };
    let (status, problem) = refused("4M");
    assert_eq!((status, &problem["budget"], &problem["limit"]), (429, &"user:ada".into(), &"reserved".into()));
    assert_eq!((&problem["most"], &problem["used"]), (&8_000_000.into(), &5_000_000.into()), "{problem}");
    let (_second, head) = open("1M", 2);
    assert_eq!(head.status, 200);
    let (status, problem) = refused("1M");
    assert_eq!((status, &problem["limit"], &problem["used"]), (429, &"streams".into(), &2.into()), "{problem}");
    drop(first);

    let put = |name: &str, bytes: usize| server.put(&format!("/media/{name}"), &bearer, &pattern(bytes)).status;
    assert_eq!((put("a", 700_000), put("b", 700_000)), (201, 507));
    assert_eq!(server.ask(&format!("DELETE /media/a HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n")).status, 204);
    server.wait_for("room for another", |_| put("b", 700_000) == 201);
    let all = server.json("/api/v1/budgets");
    let ada = all.as_array().expect("a list").iter().find(|budget| budget["budget"] == "user:ada").expect("listed");
    assert_eq!((&ada["limits"]["stored_bytes"], &ada["used"]["stored_bytes"]), (&1_000_000.into(), &700_000.into()));
    let chunked = |name: &str, bytes: usize| {
        let body = format!("{bytes:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(bytes));
        let fields = format!("Host: localhost\r\n{bearer}Transfer-Encoding: chunked\r\n");
        server.ask(&format!("PUT /media/{name} HTTP/1.1\r\n{fields}\r\n{body}")).status
    };
    assert_eq!((chunked("c", 200_000), chunked("d", 200_000)), (201, 507), "their lengths come with their ends");
    server.wait_for("what the refused one took", |_| chunked("d", 100_000) == 201);

    isocast(&state, &["token", "budget", "1", "--requests", "1"], "");
    let list = || server.ask(&format!("GET /media/?format=json HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n")).status;
    let answers: Vec<u16> = (0..20).map(|_| list()).collect();
    assert!(answers.contains(&429), "{answers:?}");
    isocast(&state, &["token", "budget", "1"], "");
    isocast(&state, &["user", "budget", "ada"], "");
    assert_eq!(open("1M", 3).1.status, 200);
}

#[test]
fn downloads_and_uploads_without_a_rate_wait_for_their_budget() {
    let config = "[[budget]]\nof = \"address\"\ndownload = \"8M\"\nupload = \"8M\"\n";
    let server = server("1G", Setup::default().config(config).set("access.local_writes=true"));
    let mut client = server.connect();
    client.send(b"GET /media/film.ts?rate=max HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.head().status, 200);
    // A second of it comes at once, and the buffers of the connection hold some more.
    client.take(1_000_000);
    std::thread::sleep(Duration::from_secs(1));
    let sent = streams(&server)[0]["sent_bytes"].as_u64().expect("a number");
    assert!(sent < FILM_BYTES as u64 / 2, "{sent} bytes in a second at 1 MB/s");
    assert_eq!(read(&server, "127.0.0.1", "/media/film.ts?rate=9M", "").1, 429, "beyond it");
}

#[test]
fn reads_that_become_best_effort_for_want_of_room_wait_for_their_budget() {
    let config = "[[budget]]\nof = \"user:ada\"\ndownload = \"8M\"\n";
    let server = server("100M", Setup::default().config(config).set("path_when_full.previews/=best-effort"));
    server.file("previews/film.ts", &pattern(FILM_BYTES));
    let state = server.folders.path().join("state");
    isocast(&state, &["user", "add", "ada", "--password-stdin"], "secret\n");
    let token = isocast(&state, &["token", "add", "ada", "--rights", "read"], "");
    let ada = format!("Authorization: Bearer {token}\r\n");
    let (mut other, status) = read(&server, "127.0.0.5", "/media/film.ts?rate=92M", "");
    assert_eq!(status, 200);
    other.take(2_000_000);
    let begun = Instant::now();
    let (mut client, status) = read(&server, "127.0.0.1", "/media/previews/film.ts?rate=6M", &ada);
    assert_eq!((status, constant(&server)), (200, 1), "there is no room for its rate");
    drop(other);
    std::thread::spawn(move || while client.more() {});
    std::thread::sleep(Duration::from_secs(3));
    let preview = streams(&server).into_iter().find(|stream| stream["path"] == "previews/film.ts");
    let sent = preview.map_or(FILM_BYTES as u64, |stream| stream["sent_bytes"].as_u64().expect("a number"));
    let most = 1_000_000 * (begun.elapsed().as_secs() + 2) + BUFFERED_MAX;
    assert!(sent < most, "{sent} bytes of {most}");
}

#[test]
fn a_right_password_has_the_budgets_of_its_user_where_all_may_read() {
    let server = server("1G", Setup::default());
    let state = server.folders.path().join("state");
    isocast(&state, &["user", "add", "ada", "--password-stdin"], "secret\n");
    isocast(&state, &["user", "budget", "ada", "--streams", "1"], "");
    let ada = "Authorization: Basic YWRhOnNlY3JldA==\r\n";
    let _first = read(&server, "127.0.0.1", "/media/film.ts?rate=1M&session=a", ada);
    let request = format!("GET /media/film.ts?rate=1M&session=b HTTP/1.1\r\nHost: localhost\r\n{ada}\r\n");
    let second = server.ask(&request);
    assert_eq!((second.status, &second.json()["budget"]), (429, &"user:ada".into()));
    let (_guess, status) = read(&server, "127.0.0.1", "/media/film.ts?rate=1M", "Authorization: Basic YWRhOnh4\r\n");
    assert_eq!(status, 200, "a wrong one is none");
}

#[test]
fn bytes_ahead_of_a_rate_are_charged_to_a_download_budget() {
    let config = "[[budget]]\nof = \"address\"\ndownload = \"50M\"\n";
    let server = server("1G", Setup::default().config(config));
    let _ahead = read(&server, "127.0.0.1", "/media/film.ts?rate=5M&burst=30s", "");
    server.wait_for("the burst among the bytes of the last second", |server| {
        let budgets = server.json("/api/v1/budgets");
        let used = budgets.as_array().expect("a list").iter().find(|one| one["budget"] == "address:127.0.0.1");
        used.is_some_and(|used| used["used"]["download_bps"].as_u64() > Some(5_000_000))
    });
}

#[test]
fn reads_that_passed_their_reservation_on_count_towards_budgets_until_they_end() {
    for (limits, refused) in [("download = \"50M\"", "download"), ("streams = 2", "streams")] {
        let config = format!("[[budget]]\nof = \"address\"\n{limits}\n");
        let server = server("1G", Setup::default().config(&config));
        let range = |nth: u32| format!("Range: bytes={nth}000000-\r\n");
        let target = "/media/film.ts?rate=20M&session=v";
        let reads: Vec<_> = (0..3).map(|nth| read(&server, "127.0.0.1", target, &range(nth))).collect();
        assert!(reads.iter().all(|(_, status)| *status == 206), "the second takes over from the first");
        let answer = server.ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", range(3)));
        assert_eq!((answer.status, &answer.json()["limit"]), (429, &refused.into()));
    }
}

#[test]
fn short_ranges_and_archives_by_a_link_have_its_rate() {
    let server = server("1G", Setup::default());
    let state = server.folders.path().join("state");
    let url = isocast(&state, &["share", "film.ts", "--rate", "8M", "--url", "http://h"], "");
    let target = url.strip_prefix("http://h").expect("an address of the content");
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nRange: bytes=2000000-2999999\r\n\r\n");
    for _ in 0..2 {
        assert_eq!(server.ask(&request).field("x-isocast-rate"), Some("8000000"));
    }
    let (_, share) = target.split_once('?').expect("the right is in the query");
    let begun = Instant::now();
    for _ in 0..4 {
        let (mut archive, _) = read(&server, "127.0.0.2", &format!("/api/v1/contents/zip?path=film.ts&{share}"), "");
        std::thread::spawn(move || while archive.more() {});
    }
    std::thread::sleep(Duration::from_secs(4));
    let sent: u64 = streams(&server).iter().map(|stream| stream["sent_bytes"].as_u64().expect("a number")).sum();
    // A second of it passes at once.
    let most = 1_000_000 * (begun.elapsed().as_secs() + 2) + 4 * BUFFERED_MAX;
    assert!(sent < most, "{sent} bytes of {most}, all of them at 1 MB/s");
}

#[test]
fn small_reads_within_a_download_budget_come_from_memory_and_are_charged_to_it() {
    let config = "[[budget]]\nof = \"user:ada\"\ndownload = \"800k\"\n";
    let server = server("1G", Setup::default().config(config));
    let state = server.folders.path().join("state");
    isocast(&state, &["user", "add", "ada", "--admin", "--password-stdin"], "secret\n");
    let token = isocast(&state, &["token", "add", "ada", "--rights", "read"], "");
    server.file("small.bin", &pattern(60_000));
    let request = format!("GET /media/small.bin HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    let from_memory = |server: &Server| server.metric("isocast_small_reads_total");
    // Each is 0.6 s of the budget: the last one leaves with a second of it used up.
    server.wait_for("reads from memory that are charged", |server| {
        let before = from_memory(server);
        (0..4).for_each(|_| assert_eq!(server.ask(&request).body.len(), 60_000));
        let budgets = server.json("/api/v1/budgets");
        let ada = budgets.as_array().expect("a list").iter().find(|one| one["budget"] == "user:ada").expect("listed");
        from_memory(server) - before >= 4.0 && ada["used"]["download_bps"].as_u64() > Some(0)
    });
}

#[test]
fn the_page_and_playlists_name_their_viewer_once() {
    let server = server("20M", Setup::default());
    server.file("a.m3u8", b"#EXTM3U\n");
    let cookie = |target: &str, fields: &str| {
        let answer = server.ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        answer.field("set-cookie").map(str::to_owned)
    };
    for target in ["/", "/media/a.m3u8"] {
        let given = cookie(target, "").expect("a name");
        assert!(given.starts_with("session=") && given.contains("SameSite=Lax"), "{given}");
        let pair = given.split(';').next().expect("a pair");
        assert_eq!(cookie(target, &format!("Cookie: {pair}\r\n")), None);
    }
    assert_eq!(cookie("/media/film.ts", "Range: bytes=0-1\r\n"), None);
}
