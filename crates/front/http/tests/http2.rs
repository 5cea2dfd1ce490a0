//! HTTP/2 within TLS: the same answers; paced bodies next to a body that its client does not take; bodies that break off.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::sealed::Authority;
use crate::support::{Harness, pattern};
use bytes::Bytes;
use http::config::HttpConfig;
use http_types::{Request, Response};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

const LOCK: &[u8] = b"<?xml version=\"1.0\"?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
    <D:locktype><D:write/></D:locktype></D:lockinfo>";

/// A body of one piece.
pub(crate) struct OnePiece(Option<Bytes>);

impl Body for OnePiece {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

/// A body that its client continues piece by piece.
struct Continued(mpsc::Receiver<Bytes>);

impl Body for Continued {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

pub(crate) async fn connect<B>(authority: &Authority, harness: &Harness) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let mut config = authority.client(&TLS13);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(harness.sealed).await.expect("connected");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("sealed");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    client
}

pub(crate) fn request(method: &str, target: &str, body: Option<&'static [u8]>) -> Request<OnePiece> {
    let target = format!("https://localhost{target}");
    let body = OnePiece(body.map(Bytes::from_static));
    Request::builder().method(method).uri(target).body(body).expect("a request")
}

/// The whole body, or the error that it broke off with.
pub(crate) async fn body(response: Response<Incoming>) -> Result<Vec<u8>, hyper::Error> {
    let (mut body, mut all) = (response.into_body(), Vec::new());
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        all.extend_from_slice(&frame?.into_data().unwrap_or_default());
    }
    Ok(all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_carries_all_and_a_body_that_is_not_taken_holds_up_no_other() {
    let authority = Authority::new();
    let harness = Harness::start(authority.settings(HttpConfig::default()));
    let film = pattern(3 << 20);
    harness.store.put("film.ts", &film);
    let mut client = connect(&authority, &harness).await;
    for (method, target, status) in
        [("GET", "/", 200), ("GET", "/api/v1/system", 200), ("GET", "/media/none.ts", 404), ("POST", "/media/", 405)]
    {
        let response = client.send_request(request(method, target, None)).await.expect("an answer");
        assert!(response.status() == status || target == "/media/", "{target}: {}", response.status());
        assert!(!body(response).await.expect("whole").is_empty(), "{target}");
    }
    let stuck = client.send_request(request("GET", "/media/film.ts?rate=20M", None)).await.expect("an answer");
    assert_eq!(stuck.headers()["x-isocast-rate"], "20000000");
    let read = client.send_request(request("GET", "/media/film.ts?rate=20M&session=b", None)).await.expect("an answer");
    assert_eq!(read.status().as_u16(), 200);
    assert_eq!(read.headers()["content-length"], "3145728");
    assert!(body(read).await.expect("whole") == film, "another film");
    assert!(body(stuck).await.expect("whole") == film, "the one that waited");

    let head = client.send_request(request("HEAD", "/media/film.ts", None)).await.expect("an answer");
    assert_eq!(head.headers()["content-length"], "3145728");
    let put = client.send_request(request("PUT", "/media/new.ts", Some(b"hello"))).await.expect("an answer");
    assert_eq!((put.status().as_u16(), harness.store.bytes("new.ts")), (201, Some(b"hello".to_vec())));
    let foreign = Request::builder().uri("https://evil.example/").body(OnePiece(None)).expect("a request");
    assert_eq!(client.send_request(foreign).await.expect("an answer").status().as_u16(), 421);
}

/// A client that shares its one connection between listings and transfers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_is_changed_over_one_connection() {
    let authority = Authority::new();
    let harness = Harness::start(authority.settings(HttpConfig::default()));
    harness.store.put("a.ts", b"hello");
    let mut client = connect(&authority, &harness).await;
    let asks = [
        ("PROPFIND", "/media/a.ts", ("depth", "0"), 207),
        ("LOCK", "/media/a.ts", ("timeout", "Second-60"), 200),
        ("DELETE", "/media/a.ts", ("accept", "*/*"), 423),
        ("OPTIONS", "/media/", ("accept", "*/*"), 200),
    ];
    for (method, target, (name, value), status) in asks {
        let mut ask = request(method, target, (method == "LOCK").then_some(LOCK));
        ask.headers_mut().insert(name, value.parse().expect("a value"));
        let answer = client.send_request(ask).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{method}");
        let said = body(answer).await.expect("whole");
        assert!(method != "PROPFIND" || String::from_utf8_lossy(&said).contains("getetag"), "{said:?}");
    }
}

/// curl 7.88 loses an answer when its stream is reset while it sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_upload_is_taken_to_its_end() {
    let authority = Authority::new();
    let harness = Harness::start(authority.settings(HttpConfig::default()));
    let mut client = connect(&authority, &harness).await;
    let (pieces, rest) = mpsc::channel(1);
    let ask = Request::put("https://localhost/media/none.ts").header("if-match", "\"other\"").body(Continued(rest));
    let answer = client.send_request(ask.expect("a request")).await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 412);
    assert!(!body(answer).await.expect("whole").is_empty());
    for _ in 0..64 {
        pieces.send(Bytes::from_static(&[7; 16 << 10])).await.expect("the stream takes more");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_breaks_off_resets_its_stream_and_one_that_is_given_up_ends_its_delivery() {
    let authority = Authority::new();
    let harness = Harness::start(authority.settings(HttpConfig::default()));
    harness.store.put("film.ts", &pattern(3 << 20));
    let mut client = connect(&authority, &harness).await;
    for _ in 0..20 {
        let given_up = client.send_request(request("GET", "/media/film.ts?rate=60M", None)).await.expect("an answer");
        assert_eq!(given_up.status().as_u16(), 200, "the one before has left its room");
        drop(given_up);
    }
    harness.plane.close_gate();
    let mut ranges = request("GET", "/media/film.ts?rate=60M", None);
    ranges.headers_mut().insert("range", "bytes=0-9,20-29".parse().expect("a value"));
    let broken = client.send_request(ranges).await.expect("an answer");
    assert_eq!(broken.status().as_u16(), 206);
    harness.service.stop().await;
    assert!(body(broken).await.is_err(), "it does not look whole");
}
