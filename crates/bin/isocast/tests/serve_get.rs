//! Reading contents from the real program, byte for byte.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::client::pattern;
use crate::common::server::{Server, Setup};

const LENGTH: usize = 700_001;

fn with_film() -> (Server, Vec<u8>) {
    let server = Server::start();
    let film = pattern(LENGTH);
    server.file("film.mp4", &film);
    (server, film)
}

fn get(server: &Server, fields: &str) -> crate::common::client::Answer {
    server.ask(&format!("GET /media/film.mp4?rate=20M HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
}

fn set_modified(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("a time");
}

#[test]
fn the_whole_and_its_head() {
    let (server, film) = with_film();
    for target in ["/media/film.mp4?rate=20M", "/media/film.mp4?rate=max", "/media/film.mp4"] {
        let whole = server.get(target);
        assert_eq!((whole.status, whole.field("content-type")), (200, Some("video/mp4")));
        assert!(whole.body == film, "{target}: every byte, in its place");
        let head = server.ask(&format!("HEAD {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        for name in ["content-length", "content-type", "etag", "last-modified", "accept-ranges"] {
            assert!(head.field(name).is_some(), "{name}");
            assert_eq!(head.field(name), whole.field(name), "{target} {name}");
        }
    }
    assert_eq!(server.get("/media/none").status, 404);
    server.file("empty.ts", b"");
    let empty = server.get("/media/empty.ts?rate=1M");
    assert_eq!((empty.status, empty.field("content-length")), (200, Some("0")));
}

#[test]
fn an_unknown_disk_is_measured_before_serving() {
    let server = Setup::default().unmeasured().verbose().start();
    let said = server.stderr_text();
    let (before, _) = said.split_once("serving ").expect("it serves");
    assert!(before.contains("MB/s") || before.contains("in memory"), "{said}");
    let film = pattern(LENGTH);
    server.file("film.mp4", &film);
    assert!(get(&server, "").body == film);
}

#[test]
fn ranges() {
    let (server, film) = with_film();
    let last = LENGTH - 1;
    // Block, page and sector borders, and none of them.
    for (first, end) in [(0, 0), (1, 511), (511, 513), (4095, 4097), (262_143, 262_145), (333_333, last), (last, last)]
    {
        let part = get(&server, &format!("Range: bytes={first}-{end}\r\n"));
        assert_eq!(part.status, 206);
        assert_eq!(part.field("content-range"), Some(format!("bytes {first}-{end}/{LENGTH}").as_str()));
        assert!(part.body == film[first..=end], "{first}-{end}");
    }
    assert!(get(&server, "Range: bytes=-5\r\n").body == film[LENGTH - 5..]);
    assert!(get(&server, "Range: bytes=699999-\r\n").body == film[699_999..]);
    assert!(get(&server, "Range: bytes=699999-99999999\r\n").body == film[699_999..]);
    let beyond = get(&server, &format!("Range: bytes={LENGTH}-\r\n"));
    assert_eq!((beyond.status, beyond.field("content-range")), (416, Some("bytes */700001")));
    // A field that is no range at all is no reason to refuse (RFC 9110 §14.2).
    for nonsense in ["bytes=5-1", "bytes=a-b", "lines=1-2", "bytes="] {
        assert_eq!(get(&server, &format!("Range: {nonsense}\r\n")).body.len(), LENGTH, "{nonsense}");
    }
}

#[test]
fn several_ranges_in_one_answer() {
    let (server, film) = with_film();
    let answer = get(&server, "Range: bytes=0-9,500000-500099,-7\r\n");
    assert_eq!(answer.status, 206);
    let kind = answer.field("content-type").expect("a type").to_owned();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("multipart").trim_matches('"');
    let mut rest = answer.body.as_slice();
    for (first, end) in [(0, 9), (500_000, 500_099), (LENGTH - 7, LENGTH - 1)] {
        let head_end = rest.windows(4).position(|window| window == b"\r\n\r\n").expect("a part's head") + 4;
        let head = String::from_utf8_lossy(&rest[..head_end]).to_lowercase();
        assert!(head.contains(&format!("--{boundary}\r\n")), "{head}");
        assert!(head.contains("content-type: video/mp4\r\n"), "{head}");
        assert!(head.contains(&format!("content-range: bytes {first}-{end}/{LENGTH}")), "{head}");
        let length = end + 1 - first;
        assert!(rest[head_end..head_end + length] == film[first..=end]);
        rest = &rest[head_end + length..];
    }
    assert_eq!(String::from_utf8_lossy(rest).trim(), format!("--{boundary}--"));
}

#[test]
fn conditions() {
    let (server, film) = with_film();
    let whole = get(&server, "");
    let (etag, date) = (whole.field("etag").expect("a tag"), whole.field("last-modified").expect("a date"));
    assert_eq!(get(&server, &format!("If-None-Match: {etag}\r\n")).status, 304);
    assert_eq!(get(&server, "If-None-Match: *\r\n").status, 304);
    assert_eq!(get(&server, "If-None-Match: \"other\"\r\n").status, 200);
    assert_eq!(get(&server, &format!("If-Modified-Since: {date}\r\n")).status, 304);
    assert_eq!(get(&server, "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n").status, 200);
    assert_eq!(get(&server, &format!("If-Match: {etag}\r\n")).status, 200);
    assert_eq!(get(&server, "If-Match: \"other\"\r\n").status, 412);
    assert_eq!(get(&server, "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n").status, 412);
    let same = get(&server, &format!("Range: bytes=0-9\r\nIf-Range: {etag}\r\n"));
    assert_eq!((same.status, same.body == film[..10]), (206, true));
    assert_eq!(get(&server, "Range: bytes=0-9\r\nIf-Range: \"other\"\r\n").body.len(), LENGTH);
    // A replaced file has another tag.
    server.file("film.mp4", &film[1..]);
    let replaced = get(&server, &format!("Range: bytes=0-9\r\nIf-Range: {etag}\r\n"));
    assert_eq!((replaced.status, replaced.body == film[1..]), (200, true));
}

#[test]
fn one_connection_carries_many_requests() {
    let (server, film) = with_film();
    let mut client = server.connect();
    // All are sent before the first is answered.
    let ranges = [(0, 99_999), (5, 5), (600_000, 700_000)];
    for (first, end) in ranges {
        let fields = format!("Host: localhost\r\nRange: bytes={first}-{end}\r\n");
        client.send(format!("GET /media/film.mp4?rate=50M HTTP/1.1\r\n{fields}\r\n").as_bytes());
        client.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for (first, end) in ranges {
        let part = client.answer(true);
        assert_eq!((part.status, part.body == film[first..=end]), (206, true), "{first}-{end}");
        assert_eq!(client.answer(true).text(), "ok\n");
    }
    client.get("/media/none");
    assert_eq!(client.answer(true).status, 404, "a refusal keeps the connection too");
    client.send(b"GET /media/film.mp4?rate=50M HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(client.answer(true).body == film);
    assert!(client.is_closed());
}

#[test]
fn clients_of_1996() {
    let (server, film) = with_film();
    let mut client = server.connect();
    client.send(b"GET /media/film.mp4?rate=50M HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let first = client.answer(true);
    assert_eq!((first.status, first.body == film), (200, true));
    client.send(b"GET /media/film.mp4?rate=50M HTTP/1.0\r\n\r\n");
    assert!(client.answer(true).body == film);
    assert!(client.is_closed(), "without keep-alive, the end of the body is the end of the connection");
}

/// A file that other programs wrote anew, with its times set back (`cp -p`, `rsync -t`, an unpacked archive), is another version.
#[test]
fn times_that_are_set_back_keep_no_tag() {
    let server = Server::start();
    let made = |bytes: &[u8]| {
        let path = server.file("film.mp4", bytes);
        set_modified(&path, SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000));
        path
    };
    let path = made(&[1; 5000]);
    let tag = server.get("/media/film.mp4").field("etag").expect("a tag").to_owned();
    for anew in [false, true] {
        if anew {
            fs::remove_file(&path).expect("removed");
        }
        made(if anew { &[2; 5000] } else { &[3; 5000] });
        assert_eq!(get(&server, &format!("If-None-Match: {tag}\r\n")).status, 200);
        assert_eq!(get(&server, &format!("If-Match: {tag}\r\n")).status, 412);
        for validator in [tag.as_str(), "Sun, 13 Sep 2020 12:26:40 GMT"] {
            let part = get(&server, &format!("Range: bytes=0-9\r\nIf-Range: {validator}\r\n"));
            assert_eq!((part.status, part.body.len()), (200, 5000), "{validator}");
        }
    }
}

/// A file with any time of the file system is served; only a time that an HTTP date can state is a validator.
#[test]
fn dates_before_1970_and_ahead_are_no_validators() {
    let server = Server::start();
    let now = SystemTime::now();
    let (second, decade) = (Duration::from_secs(1), Duration::from_secs(315_000_000));
    let old = SystemTime::UNIX_EPOCH;
    for (modified, dated) in [(old - decade, false), (old - second, false), (old, true), (now + decade, false)] {
        set_modified(&server.file("film.mp4", b"12345"), modified);
        let answer = get(&server, "");
        assert_eq!((answer.status, answer.body.as_slice()), (200, b"12345".as_slice()), "{modified:?}");
        assert_eq!(answer.field("last-modified").is_some(), dated, "{modified:?}");
        let date = answer.field("last-modified").unwrap_or("Sat, 01 Jan 2000 00:00:00 GMT");
        assert_eq!(get(&server, &format!("If-Unmodified-Since: {date}\r\n")).status, 200, "{modified:?}");
        assert_eq!(get(&server, &format!("If-Modified-Since: {date}\r\n")).status, if dated { 304 } else { 200 });
        assert_eq!(server.get("/media/?format=json").status, 200);
        let put = "Content-Length: 3\r\n\r\nabc";
        let put = format!("PUT /media/film.mp4 HTTP/1.1\r\nHost: localhost\r\nIf-Unmodified-Since: {date}\r\n{put}");
        assert_eq!(server.ask(&put).status, 204, "{modified:?}");
    }
    assert_eq!(server.metric("isocast_panics_total"), 0.0);
}

/// A small content that was just stored is read from memory from the first read on, and an upload over it replaces it there.
#[test]
fn a_small_upload_is_read_from_memory() {
    let server = Server::start();
    // The share of the link that small reads have begins with the first of them.
    for (read, length) in [(0.0, 10_000), (1.0, 20_000), (2.0, 65_536), (3.0, 1)] {
        let body = pattern(length);
        let stored = server.put("/media/small.bin", "", &body).status;
        assert!(matches!(stored, 201 | 204), "{stored}");
        assert_eq!(server.get("/media/small.bin").body, body);
        assert_eq!(server.metric("isocast_small_reads_total"), read);
    }
}

/// Repeated small reads come from memory: the same bytes and heads, and never of an older version.
#[test]
fn small_reads_come_from_memory_and_of_the_version_that_is_there() {
    let server = Server::start();
    for (nth, length) in [(0, 16_384), (1, 65_536), (2, 30_001)] {
        let body: Vec<u8> = pattern(length + nth)[nth..].to_vec();
        server.file("small.bin", &body);
        let before = server.metric("isocast_small_reads_total");
        let first = server.get("/media/small.bin");
        // The plane's answer, the answer that is kept on its way, and the others.
        for _ in 0..20 {
            let again = server.get("/media/small.bin");
            assert!(again.status == 200 && again.body == body, "every byte, of this version");
            for name in ["content-length", "content-type", "etag", "last-modified", "accept-ranges", "connection"] {
                assert_eq!(again.field(name), first.field(name), "{name}");
            }
            let part = server.ask("GET /media/small.bin HTTP/1.1\r\nHost: localhost\r\nRange: bytes=99-2098\r\n\r\n");
            assert!(part.status == 206 && part.body == body[99..2099]);
        }
        assert!(server.metric("isocast_small_reads_total") - before >= 10.0, "{length}");
    }
    let started = server.metric("isocast_streams_started_total");
    server.file("large.bin", &pattern(65_537));
    (0..5).for_each(|_| assert_eq!(server.get("/media/large.bin").body.len(), 65_537));
    // Counted when it is reported, which may be after its bytes came.
    server.wait_for("five deliveries", |server| server.metric("isocast_streams_started_total") - started >= 5.0);
}
