//! Clients that flood: each loses its connection, while a stream on another continues.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use crate::http2::{body, connect, request};
use crate::sealed::Authority;
use crate::support::{Harness, PATIENCE, Settings, pattern};
use http::config::HttpConfig;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, StreamOwned, SupportedProtocolVersion};

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const ENHANCE_YOUR_CALM: u8 = 11;
const END_HEADERS: u8 = 4;
const END_HEADERS_AND_STREAM: u8 = 5;
/// `GET https://localhost/`, by the static table (RFC 7541).
const GET: &[u8] = b"\x82\x87\x84\x41\x09localhost";
const ACK: u8 = 1;
/// Frames at once within each limit.
const HONEST: usize = 500;
/// Beyond each limit.
const FRAMES: usize = 3000;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("small").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Runs the flood while a stream waits, which comes whole afterwards.
async fn beside_an_honest_stream(handshakes_max: usize, flood: impl FnOnce(&Authority, &Harness)) {
    let authority = Authority::new();
    let tls = Some(authority.acceptor(handshakes_max));
    let harness = Harness::start(Settings { tls, ..Settings::from(HttpConfig::default()) });
    let film = pattern(300_000);
    harness.store.put("film.ts", &film);
    harness.plane.close_gate();
    let mut client = connect(&authority, &harness).await;
    let stream = tokio::spawn(client.send_request(request("GET", "/media/film.ts?rate=20M", None)));
    harness.plane.wait_reserved(1);
    flood(&authority, &harness);
    harness.plane.open_gate();
    let answer = stream.await.expect("no panic").expect("an answer");
    assert!(body(answer).await.expect("whole") == film, "another film");
    let next = client.send_request(request("GET", "/health", None)).await.expect("the connection lives");
    assert_eq!(next.status().as_u16(), 200);
}

fn sealed(
    authority: &Authority,
    harness: &Harness,
    (version, protocol): (&'static SupportedProtocolVersion, &str),
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut config = authority.client(version);
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("usable");
    StreamOwned::new(connection, connected(harness))
}

fn connected(harness: &Harness) -> TcpStream {
    let stream = TcpStream::connect(harness.sealed).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// The bytes that come until the other side closes.
fn rest_of(stream: &mut impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    if let Err(error) = stream.read_to_end(&mut all) {
        assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "it is left open: {error}");
    }
    all
}

/// True if a request on the connection is answered.
fn is_answered(stream: &mut (impl Read + Write)) -> bool {
    let _ = stream.write_all(b"GET /health HTTP/1.0\r\n\r\n");
    rest_of(stream).starts_with(b"HTTP/1.1 200")
}

/// Kind, flags and payload of the next frame; none where the other side closed.
fn next_frame(stream: &mut impl Read) -> Option<(u8, u8, Vec<u8>)> {
    let mut read = |length| {
        let mut bytes = vec![0; length];
        let came = stream.read_exact(&mut bytes).map_err(|error| error.kind());
        assert!(!matches!(came, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "it is left open");
        came.ok().map(|()| bytes)
    };
    let head = read(9)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    Some((head[3], head[4], read(length as usize)?))
}

fn over_http2(authority: &Authority, harness: &Harness) -> StreamOwned<ClientConnection, TcpStream> {
    let mut stream = sealed(authority, harness, (&TLS13, "h2"));
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
    stream.write_all(&frame(SETTINGS, 0, 0, b"")).expect("sent");
    stream
}

/// A connection of HTTP/2 on which these frames come ends with this reason.
async fn ends_a_connection(frames: Vec<u8>, reason: u8) {
    beside_an_honest_stream(100, |authority, harness| {
        let mut stream = over_http2(authority, harness);
        // The server may close amid them.
        let _ = stream.write_all(&frames);
        let mut given = None;
        while let Some((kind, _, payload)) = next_frame(&mut stream) {
            given = (kind == GOAWAY).then(|| payload[7]).or(given);
        }
        assert_eq!(given, Some(reason));
    })
    .await;
}

/// Many such frames at once are answered; beyond the limit the connection ends before all are.
async fn many_are_answered_and_a_flood_is_cut(kind: u8, payload: &[u8]) {
    beside_an_honest_stream(100, |authority, harness| {
        let mut stream = over_http2(authority, harness);
        let frame = frame(kind, 0, 0, payload);
        let is_answer = |given: (u8, u8, Vec<u8>)| usize::from(given.0 == kind && given.1 == ACK);
        stream.write_all(&frame.repeat(HONEST)).expect("sent");
        let mut answers = 0;
        while answers < HONEST {
            answers += is_answer(next_frame(&mut stream).expect("the connection lives"));
        }
        let _ = stream.write_all(&frame.repeat(FRAMES - HONEST));
        while let Some(given) = next_frame(&mut stream) {
            answers += is_answer(given);
        }
        assert!((HONEST..FRAMES).contains(&answers), "{answers}");
    })
    .await;
}

macro_rules! floods {
    ($($name:ident: $frames:expr, $reason:expr;)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            ends_a_connection($frames, $reason).await;
        }
    )+};
}

// So few that the client has sent them all before it is closed, and reads the reason.
floods! {
    a_rapid_reset_ends_its_connection: (0..100).flat_map(|nth| {
        let stream = 2 * nth + 1;
        [frame(HEADERS, END_HEADERS_AND_STREAM, stream, GET), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    }).collect(), ENHANCE_YOUR_CALM;
    a_continuation_flood_ends_its_connection:
        [frame(HEADERS, 0, 1, GET), frame(CONTINUATION, 0, 1, b"").repeat(100)].concat(), ENHANCE_YOUR_CALM;
    // One field of 4 KB in the table, and its number 11,000 times: a list of 44 MB.
    a_header_bomb_ends_its_connection: {
        let field = [GET, b"\x40\x01a\x7f\xa1\x1e", &[b'x'; 4000], &vec![0xbe; 11_000][..]].concat();
        frame(HEADERS, END_HEADERS, 1, &field)
    }, ENHANCE_YOUR_CALM;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ping_flood_ends_its_connection() {
    many_are_answered_and_a_flood_is_cut(PING, &[0; 8]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settings_flood_ends_its_connection() {
    many_are_answered_and_a_flood_is_cut(SETTINGS, b"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protocol_that_is_none_ends_its_handshake() {
    beside_an_honest_stream(100, |authority, harness| {
        for protocol in ["spdy/9", "h3", &"x".repeat(255)] {
            let mut stream = sealed(authority, harness, (&TLS13, protocol));
            assert!(
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").is_err() || rest_of(&mut stream).is_empty(),
                "{protocol}"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_tls_records_end_their_connections() {
    beside_an_honest_stream(100, |authority, harness| {
        // Each wants a new key of the other side.
        for (count, is_within) in [(10, true), (FRAMES, false)] {
            let mut stream = sealed(authority, harness, (&TLS13, "http/1.1"));
            stream.conn.complete_io(&mut stream.sock).expect("sealed");
            for _ in 0..count {
                if stream.conn.refresh_traffic_keys().is_err() || stream.flush().is_err() {
                    break;
                }
            }
            assert_eq!(is_answered(&mut stream), is_within, "{count}");
        }
        // Before the handshake: change_cipher_spec, warnings, an empty message, the longest record.
        let longest = [&b"\x16\x03\x03\x40\x00"[..], &[0; 1 << 14]].concat();
        for (record, count, is_within) in [
            (&b"\x14\x03\x03\x00\x01\x01"[..], 10, false),
            (b"\x15\x03\x03\x00\x02\x01\x5a", 2, true),
            (b"\x15\x03\x03\x00\x02\x01\x5a", 10, false),
            (b"\x16\x03\x03\x00\x00", 1, false),
            (&longest, 1, false),
        ] {
            let mut stream = sealed(authority, harness, (&TLS13, "http/1.1"));
            stream.sock.write_all(&record.repeat(count)).expect("sent");
            assert_eq!(is_answered(&mut stream), is_within, "{count} of {:02x?}", &record[..5]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_slow_handshakes_hold_up_no_stream() {
    beside_an_honest_stream(50, |authority, harness| {
        let begun = || {
            let mut stream = connected(harness);
            stream.write_all(b"\x16\x03\x01").map(|()| stream).expect("sent")
        };
        let slow: Vec<_> = (0..1000).map(|_| begun()).collect();
        // All but the newest lost their places.
        slow.iter().take(950).for_each(|mut stream| assert_eq!(rest_of(&mut stream), b""));
        for version in [&TLS12, &TLS13] {
            assert!(is_answered(&mut sealed(authority, harness, (version, "http/1.1"))));
        }
    })
    .await;
}
