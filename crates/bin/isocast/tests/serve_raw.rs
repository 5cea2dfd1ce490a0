//! Raw requests to the real program, byte for byte: each gets the answer of RFC 9110 and 9112, and a connection that stays open is in
//! step after it: no byte of one request is taken for another's.

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::common::client::pattern;
use crate::common::server::Server;

/// Fate of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It stays open: the next request is answered.
    Open,
    /// The server closes it.
    Closed,
}
use Then::{Closed, Open};

/// A request, the statuses it is answered with in order, the connection after it, and fields that the last answer has. `$` stands
/// for `Host: localhost` and the end of its line, `¦` for waiting until one more answer has come.
type Case<'a> = (&'a str, &'a [u16], Then, &'a [(&'a str, &'a str)]);

const LENGTH: usize = 1000;
const ALLOWED: &[(&str, &str)] =
    &[("allow", "GET, HEAD, PUT, DELETE, OPTIONS, PROPFIND, PROPPATCH, MKCOL, COPY, MOVE, LOCK, UNLOCK")];

const REQUEST_LINE: &[Case<'_>] = &[
    ("GET /media/f.ts HTTP/1.1\r\n$\r\n", &[200], Open, &[("content-length", "1000"), ("accept-ranges", "bytes")]),
    ("\r\n\r\nGET /media/f.ts HTTP/1.1\r\n$\r\n", &[200], Open, &[]),
    ("GET /media/f.ts HTTP/1.1\nHost: h\n\n", &[200], Open, &[]),
    ("GARBAGE\r\n\r\n", &[400], Closed, &[("content-type", "application/problem+json"), ("connection", "close")]),
    ("GET /media/f.ts\r\n$\r\n", &[400], Closed, &[]),
    ("GET  /media/f.ts HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts  HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET\t/media/f.ts\tHTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    (" GET /media/f.ts HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1 x\r\n$\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\rX: y\r\n$\r\n", &[400], Closed, &[]),
    ("GET /media/a b.ts HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET /media/f\0.ts HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("G@T /media/f.ts HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\r\n", &[400], Closed, &[]),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[505], Closed, &[]),
    ("GET /media/f.ts HTTP/2.0\r\n$\r\n", &[505], Closed, &[]),
    ("GET /media/f.ts HTTP/3.0\r\n$\r\n", &[505], Closed, &[]),
    ("GET /media/f.ts http/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET media/f.ts HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET * HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET ftp://h/media/f.ts HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET http:///media/f.ts HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET http://user@h/media/f.ts HTTP/1.1\r\n$\r\n", &[400], Closed, &[]),
    ("GET http://h/media/f.ts HTTP/1.1\r\n$\r\n", &[200], Open, &[]),
    ("GET HTTP://other:81/media/f.ts HTTP/1.1\r\n$\r\n", &[200], Open, &[]),
    ("OPTIONS * HTTP/1.1\r\n$\r\n", &[204], Open, ALLOWED),
];

const METHODS: &[Case<'_>] = &[
    ("OPTIONS /media/f.ts HTTP/1.1\r\n$\r\n", &[200], Open, ALLOWED),
    ("HEAD /media/f.ts HTTP/1.1\r\n$\r\n", &[200], Open, &[("content-length", "1000"), ("content-type", "video/mp2t")]),
    ("HEAD /media/none HTTP/1.1\r\n$\r\n", &[404], Open, &[]),
    ("HEAD /media/f.ts HTTP/1.1\r\n$Content-Length: 4\r\n\r\nbody", &[200], Open, &[]),
    ("POST /media/f.ts HTTP/1.1\r\n$Content-Length: 4\r\n\r\nbody", &[405], Open, ALLOWED),
    ("PATCH /media/f.ts HTTP/1.1\r\n$\r\n", &[405], Open, ALLOWED),
    ("TRACE /media/f.ts HTTP/1.1\r\n$\r\n", &[405], Open, ALLOWED),
    ("POST /health HTTP/1.1\r\n$\r\n", &[405], Open, &[("allow", "GET, HEAD")]),
    ("DELETE /health HTTP/1.1\r\n$\r\n", &[405], Open, &[("allow", "GET, HEAD")]),
    ("PUT / HTTP/1.1\r\n$Content-Length: 0\r\n\r\n", &[405], Open, &[("allow", "GET, HEAD")]),
    ("CONNECT h:80 HTTP/1.1\r\n$\r\n", &[501], Closed, &[]),
    ("BREW /media/f.ts HTTP/1.1\r\n$\r\n", &[501], Closed, &[]),
    ("get /media/f.ts HTTP/1.1\r\n$\r\n", &[501], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$Content-Length: 4\r\n\r\nbody", &[200], Open, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", &[200], Open, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$Content-Length: 1000000\r\n\r\nbody", &[413], Closed, &[]),
    ("DELETE /media/none HTTP/1.1\r\n$Content-Length: 4\r\n\r\nbody", &[404], Open, &[]),
    ("DELETE /media/ HTTP/1.1\r\n$\r\n", &[409], Open, &[]),
];

const HOST: &[Case<'_>] = &[
    ("GET /media/f.ts HTTP/1.1\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.0\r\nHost: h\r\nHost: h\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\nHost: a/b\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\nHost: a b\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\nHost: user@h\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\nHost : h\r\n\r\n", &[400], Closed, &[]),
    ("GET http://h/media/f.ts HTTP/1.1\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\nHost:\r\n\r\n", &[200], Open, &[]),
    ("GET /media/f.ts HTTP/1.1\r\nhOST:[::1]:80\r\n\r\n", &[200], Open, &[]),
];

const FIELDS: &[Case<'_>] = &[
    ("GET /media/f.ts HTTP/1.1\r\n$X: a\r\n folded\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n X: y\r\n$\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$: value\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$two words: value\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$nothing\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$X: a\0b\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$X: a\rb\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$X: \u{7f}\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$X: \u{e9}\r\nY:\t\r\nZ:\r\n\r\n", &[200], Open, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", &[200], Open, &[]),
];

const FRAMING: &[Case<'_>] = &[
    ("PUT /media/p HTTP/1.1\r\n$Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", &[400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: chunked, chunked\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: chunked, gzip\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: identity\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: xchunked\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding:\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: chunked;q=1\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: \"chunked\"\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding:\r\n chunked\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding : chunked\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: \u{b}chunked\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: gzip, chunked\r\n\r\n", &[501], Closed, &[]),
    ("PUT /media/p HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Length: -1\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Length: +1\r\n\r\nx", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Length: 0x1\r\n\r\nx", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Length: 1 1\r\n\r\nx", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Length:\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Length: 1, 2\r\n\r\nx", &[400], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Length: 99999999999999999999\r\n\r\n", &[413], Closed, &[]),
    ("PUT /media/p HTTP/1.1\r\n$\r\n", &[411], Open, &[]),
    (
        "PUT /media/p HTTP/1.1\r\n$Content-Length: 5\r\n\r\nhelloGET /media/none HTTP/1.1\r\n$\r\n",
        &[201, 404],
        Open,
        &[],
    ),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: ChunKED \r\n\r\n5\r\nhello\r\n0\r\n\r\n", &[204], Open, &[]),
    (
        "PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n005;a=\"b\"\r\nhello\r\n0;x\r\nA: b\r\n\r\n",
        &[204],
        Open,
        &[],
    ),
    ("PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: , chunked,\r\n\r\n0\r\n\r\n", &[204], Open, &[]),
    (
        "PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n",
        &[204],
        Open,
        &[],
    ),
    (
        "PUT /media/p HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /media/none HTTP/1.1\r\n$\r\n",
        &[204, 404],
        Open,
        &[],
    ),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\nhello\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n5;a=\"\r\nb\"\r\nhello\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n5\r;a\r\nhello\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n", &[400], Closed, &[]),
    ("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n5 5\r\nhello\r\n", &[400], Closed, &[]),
];

const EXPECT: &[Case<'_>] = &[
    ("PUT /media/p HTTP/1.1\r\n$Expect: 100-continue\r\nContent-Length: 5\r\n\r\n¦hello", &[100, 204], Open, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Expect: 100-Continue\r\nContent-Length: 5\r\n\r\nhello", &[204], Open, &[]),
    (
        "PUT /media/p HTTP/1.1\r\n$Expect: 100-continue\r\nContent-Length: 5\r\nIf-Match: \"x\"\r\n\r\n",
        &[412],
        Closed,
        &[],
    ),
    ("PUT /media/p HTTP/1.1\r\n$Expect: 100-continue,\r\nContent-Length: 5\r\n\r\n¦hello", &[100, 204], Open, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Expect:\r\nContent-Length: 5\r\n\r\nhello", &[204], Open, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Expect: gold\r\nContent-Length: 5\r\n\r\n", &[417], Closed, &[]),
    ("PUT /media/p HTTP/1.0\r\n$Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", &[204], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$Expect: 100-continue\r\n\r\n", &[200], Open, &[]),
];

const RANGES: &[Case<'_>] = &[
    ("Range: bytes=0-0", &[206], Open, &[("content-range", "bytes 0-0/1000"), ("content-length", "1")]),
    ("Range: bytes=500-", &[206], Open, &[("content-range", "bytes 500-999/1000")]),
    ("Range: bytes=500-2000", &[206], Open, &[("content-range", "bytes 500-999/1000")]),
    ("Range: bytes=-1", &[206], Open, &[("content-range", "bytes 999-999/1000")]),
    ("Range: bytes=-5000", &[206], Open, &[("content-range", "bytes 0-999/1000")]),
    ("Range: BYTES= 7-8 , 9000-", &[206], Open, &[("content-range", "bytes 7-8/1000")]),
    ("Range: bytes=0-1,998-", &[206], Open, &[]),
    ("Range: bytes=998-,0-1,,5-5", &[206], Open, &[]),
    ("Range: bytes=-0", &[416], Open, &[("content-range", "bytes */1000")]),
    ("Range: bytes=1000-", &[416], Open, &[("content-range", "bytes */1000")]),
    ("Range: bytes=1000-1001,5000-", &[416], Open, &[("content-range", "bytes */1000")]),
    ("Range: bytes=99999999999999999999999-", &[416], Open, &[]),
    ("Range: bytes=5-1", &[200], Open, &[("content-length", "1000")]),
    ("Range: bytes=a-b", &[200], Open, &[]),
    ("Range: bytes=", &[200], Open, &[]),
    ("Range: bytes=-", &[200], Open, &[]),
    ("Range: bytes 0-5", &[200], Open, &[]),
    ("Range: items=0-5", &[200], Open, &[]),
    ("Range: bytes=0-5\r\nRange: bytes=7-8", &[200], Open, &[]),
    ("Range: bytes=0-,0-,0-", &[200], Open, &[("content-length", "1000")]),
    (
        "Range: bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8,9-9,10-10,11-11,12-12,13-13,14-14,15-15,16-16",
        &[200],
        Open,
        &[],
    ),
];

const OTHER_RANGES: &[Case<'_>] = &[
    ("HEAD /media/f.ts HTTP/1.1\r\n$Range: bytes=0-5\r\n\r\n", &[200], Open, &[("content-length", "1000")]),
    ("PUT /media/p HTTP/1.1\r\n$Range: bytes=0-5\r\nContent-Length: 1\r\n\r\nx", &[204], Open, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Range: bytes 0-0/5\r\nContent-Length: 1\r\n\r\nx", &[400], Open, &[]),
    ("PUT /media/p HTTP/1.1\r\n$Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", &[415], Open, &[]),
    ("GET /media/empty HTTP/1.1\r\n$Range: bytes=0-\r\n\r\n", &[416], Open, &[("content-range", "bytes */0")]),
    ("GET /media/empty HTTP/1.1\r\n$Range: bytes=-5\r\n\r\n", &[200], Open, &[("content-length", "0")]),
];

const PATHS: &[Case<'_>] = &[
    ("GET /media/%66%2Ets HTTP/1.1\r\n$\r\n", &[200], Open, &[]),
    ("GET /media/f.ts?x=%zz&rate=1M&& HTTP/1.1\r\n$\r\n", &[200], Open, &[]),
    ("GET /media/f.ts? HTTP/1.1\r\n$\r\n", &[200], Open, &[]),
    ("GET /media/f.ts?rate=%zz HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/folder HTTP/1.1\r\n$\r\n", &[301], Open, &[("location", "/media/folder/")]),
    ("GET /media HTTP/1.1\r\n$\r\n", &[301], Open, &[("location", "/media/")]),
    ("GET /media/%zz HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/%2 HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/f.ts% HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/f.ts%00 HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/%ff%fe HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/folder%2ff.ts HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/folder%2F..%2Ff.ts HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/../media/f.ts HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/./f.ts HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media/%2e%2e/f.ts HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET /media//f.ts HTTP/1.1\r\n$\r\n", &[400], Open, &[]),
    ("GET //media/f.ts HTTP/1.1\r\n$\r\n", &[404], Open, &[]),
    ("GET /media/f.ts%20 HTTP/1.1\r\n$\r\n", &[404], Open, &[]),
    ("GET /media/f.ts/ HTTP/1.1\r\n$\r\n", &[404], Open, &[]),
    ("GET /media/%252e%252e/f.ts HTTP/1.1\r\n$\r\n", &[404], Open, &[]),
    ("GET /nothing HTTP/1.1\r\n$\r\n", &[404], Open, &[]),
    ("PUT /media/folder/ HTTP/1.1\r\n$Content-Length: 1\r\n\r\nx", &[409], Open, &[]),
    ("PUT /media/new/f.ts HTTP/1.1\r\n$Content-Length: 1\r\n\r\nx", &[201], Open, &[]),
    ("PUT /media/f.ts/f.ts HTTP/1.1\r\n$Content-Length: 1\r\n\r\nx", &[409], Open, &[]),
    ("PUT /media/../f.ts HTTP/1.1\r\n$Content-Length: 1\r\n\r\nx", &[400], Open, &[]),
];

const CONNECTION: &[Case<'_>] = &[
    (
        "GET /media/f.ts HTTP/1.1\r\n$\r\nGET /media/none HTTP/1.1\r\n$\r\nGET /health HTTP/1.1\r\n$\r\n",
        &[200, 404, 200],
        Open,
        &[],
    ),
    ("GET /media/f.ts HTTP/1.1\r\n$Connection: close\r\n\r\n", &[200], Closed, &[("connection", "close")]),
    ("GET /media/f.ts HTTP/1.1\r\n$Connection: keep-alive, CLOSE\r\n\r\n", &[200], Closed, &[("connection", "close")]),
    ("GET /media/f.ts HTTP/1.0\r\n\r\n", &[200], Closed, &[("content-length", "1000")]),
    ("GET /media/f.ts HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &[200], Open, &[("connection", "keep-alive")]),
    ("GET /media/none HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &[404], Open, &[("connection", "keep-alive")]),
    ("GET /media/f.ts HTTP/1.1\r\n$\r\ngarbage behind it\r\n\r\n", &[200, 400], Closed, &[]),
    ("GET /media/f.ts HTTP/1.1\r\n$\r\n\r\n\r\nGET /health HTTP/1.1\r\n$\r\n", &[200, 200], Open, &[]),
    ("PUT /media/f.ts/f.ts HTTP/1.1\r\n$Content-Length: 1000000\r\n\r\nx", &[409], Closed, &[("connection", "close")]),
];

/// Heads at their limits: 16 KiB, 100 fields, a target of 8 KiB.
fn sizes() -> Vec<(String, u16, Then)> {
    let head = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\n${fields}\r\n");
    vec![
        (head("/media/f.ts", &"X: y\r\n".repeat(99)), 200, Open),
        (head("/media/f.ts", &"X: y\r\n".repeat(100)), 431, Closed),
        (head("/media/f.ts", &format!("X: {}\r\n", "y".repeat(16_000))), 200, Open),
        (head("/media/f.ts", &format!("X: {}\r\n", "y".repeat(16_384))), 431, Closed),
        (head(&format!("/media/f.ts?x={}", "y".repeat(8_000)), ""), 200, Open),
        (head(&format!("/media/{}", "y".repeat(8_192)), ""), 414, Closed),
        (format!("GET /{}", "y".repeat(20_000)), 414, Closed),
        (head(&format!("/media/{}", "y".repeat(300)), ""), 400, Open),
        (chunked(&format!("5;{}\r\nhello\r\n", "x".repeat(2_000))), 400, Closed),
        (chunked(&format!("0\r\n{}\r\n", "X: y\r\n".repeat(4_000))), 400, Closed),
    ]
}

fn chunked(body: &str) -> String {
    format!("PUT /media/q HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n{body}")
}

fn check(server: &Server, request: &str, statuses: &[u16], then: Then, fields: &[(&str, &str)]) {
    let request = request.replace('$', "Host: localhost\r\n");
    let shown = &request[..request.len().min(200)];
    let mut client = server.connect();
    let mut parts = request.split('¦');
    let mut answers = Vec::new();
    for status in statuses {
        if let Some(part) = parts.next() {
            // A letter that stands for a byte is sent as that byte, not its UTF-8. The server may close before all is sent.
            let bytes: Vec<u8> = part.chars().map(|letter| u8::try_from(letter).expect("one byte")).collect();
            let _ = std::io::Write::write_all(&mut client.stream, &bytes);
        }
        let answer = client.answer(!request.starts_with("HEAD") || !answers.is_empty());
        assert_eq!(answer.status, *status, "{shown:?}: {}", answer.text());
        answers.push(answer);
    }
    let last = answers.last().expect("an answer");
    for (name, value) in fields {
        assert_eq!(last.field(name), Some(*value), "{name} of {shown:?}");
    }
    let is_error = (400..600).contains(&last.status) && !request.starts_with("HEAD");
    assert!(!is_error || last.json()["detail"].is_string(), "{shown:?} is told why");
    if then == Closed {
        assert!(client.is_closed(), "{shown:?}");
        return;
    }
    client.get("/media/f.ts?rate=max");
    let next = client.answer(true);
    assert!(next.status == 200 && next.body == pattern(LENGTH), "out of step after {shown:?}: {}", next.status);
}

#[test]
fn each_raw_request_is_answered_as_the_rfcs_say() {
    let server = Server::start();
    server.file("f.ts", &pattern(LENGTH));
    server.file("empty", b"");
    server.file("folder/f.ts", b"x");
    let mut cases = 0;
    for (request, statuses, then, fields) in
        [REQUEST_LINE, METHODS, HOST, FIELDS, FRAMING, EXPECT, OTHER_RANGES, PATHS, CONNECTION].concat()
    {
        check(&server, request, statuses, then, fields);
        cases += 1;
    }
    for (range, statuses, then, fields) in RANGES {
        check(&server, &format!("GET /media/f.ts HTTP/1.1\r\n${range}\r\n\r\n"), statuses, *then, fields);
        cases += 1;
    }
    for (request, status, then) in sizes() {
        check(&server, &request, &[status], then, &[]);
        cases += 1;
    }
    assert!(cases >= 170, "{cases} cases");
    assert_eq!(server.names(), ["empty", "f.ts", "folder", "new", "p"], "nothing that was refused is left");
}

/// A condition's field, and its result for a content that is there: true, false, or none.
#[derive(Debug, Clone, Copy)]
struct Condition {
    value: &'static str,
    holds: Option<bool>,
}

const fn condition(value: &'static str, holds: Option<bool>) -> Condition {
    Condition { value, holds }
}

const DATE: &str = "Wed, 01 Jan 2020 00:00:00 GMT";
/// `@` stands for the content's entity tag.
const MATCH: [Condition; 6] = [
    condition("", None),
    condition("@", Some(true)),
    condition("\"x\", @", Some(true)),
    condition("*", Some(true)),
    condition("W/@", Some(false)),
    condition("\"x\"", Some(false)),
];
const UNMODIFIED: [Condition; 4] = [
    condition("", None),
    condition(DATE, Some(true)),
    condition("Tue, 31 Dec 2019 23:59:59 GMT", Some(false)),
    condition("yesterday", None),
];
const NONE_MATCH: [Condition; 6] = [
    condition("", None),
    condition("\"x\"", Some(true)),
    condition("@", Some(false)),
    condition("W/@", Some(false)),
    condition("\"x\",@", Some(false)),
    condition("*", Some(false)),
];
const MODIFIED: [Condition; 4] = [
    condition("", None),
    condition("Tue, 31 Dec 2019 23:59:59 GMT", Some(true)),
    condition(DATE, Some(false)),
    condition("yesterday", None),
];

/// RFC 9110 §13.2.2, for a content that is there: the status of a request without conditions, or 304, or 412.
fn by_precedence(method: &str, conditions: [Condition; 4], otherwise: u16) -> u16 {
    let [matching, unmodified, none_match, modified] = conditions;
    let reads = matches!(method, "GET" | "HEAD");
    let failed = if matching.value.is_empty() { unmodified.holds } else { matching.holds } == Some(false);
    let unwanted = if none_match.value.is_empty() {
        // If-Modified-Since is for GET and HEAD (§13.1.3).
        reads && modified.holds == Some(false)
    } else {
        none_match.holds == Some(false)
    };
    match (failed, unwanted) {
        (true, _) => 412,
        (false, true) => {
            if reads {
                304
            } else {
                412
            }
        }
        (false, false) => otherwise,
    }
}

fn fields(conditions: [Condition; 4], etag: &str) -> String {
    let names = ["If-Match", "If-Unmodified-Since", "If-None-Match", "If-Modified-Since"];
    let line = |(name, condition): (&str, Condition)| format!("{name}: {}\r\n", condition.value.replace('@', etag));
    names.into_iter().zip(conditions).filter(|(_, condition)| !condition.value.is_empty()).map(line).collect()
}

/// A content of a date of its own; its tag.
fn old_content(server: &Server, name: &str) -> String {
    let path = server.file(name, &pattern(LENGTH));
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800);
    File::options().write(true).open(path).and_then(|file| file.set_modified(modified)).expect("a date");
    let head = server.ask(&format!("HEAD /media/{name} HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_eq!(head.field("last-modified"), Some(DATE));
    head.field("etag").expect("a tag").to_owned()
}

fn ask(server: &Server, method: &str, name: &str, fields: &str) -> crate::common::client::Answer {
    let body = if method == "PUT" { "Content-Length: 1\r\n" } else { "" };
    let sent = if method == "PUT" { "x" } else { "" };
    server.ask(&format!("{method} /media/{name} HTTP/1.1\r\nHost: localhost\r\n{body}{fields}\r\n{sent}"))
}

#[test]
fn conditions_are_weighed_in_their_order() {
    let server = Server::start();
    let etag = old_content(&server, "read.ts");
    for matching in MATCH {
        for unmodified in UNMODIFIED {
            for none_match in NONE_MATCH {
                for modified in MODIFIED {
                    let conditions = [matching, unmodified, none_match, modified];
                    for method in ["GET", "HEAD"] {
                        let answer = ask(&server, method, "read.ts", &fields(conditions, &etag));
                        let expected = by_precedence(method, conditions, 200);
                        assert_eq!(answer.status, expected, "{method} {}", fields(conditions, &etag));
                        let told = answer.field("etag").is_some();
                        assert_eq!(told, expected != 412, "a 304 names what it speaks of, as a 200 does");
                    }
                }
            }
        }
    }
    assert_eq!(
        ask(&server, "GET", "none.ts", "If-Match: *\r\n").status,
        404,
        "what fails anyway is weighed against nothing"
    );
}

#[test]
fn writes_obey_the_same_conditions() {
    let server = Server::start();
    // One of each kind: lists and weak tags are tried with reads.
    for matching in [MATCH[0], MATCH[1], MATCH[4], MATCH[5]] {
        for unmodified in [UNMODIFIED[0], UNMODIFIED[1], UNMODIFIED[2]] {
            for none_match in [NONE_MATCH[0], NONE_MATCH[1], NONE_MATCH[2], NONE_MATCH[5]] {
                for modified in [MODIFIED[0], MODIFIED[2]] {
                    let conditions = [matching, unmodified, none_match, modified];
                    for method in ["PUT", "DELETE"] {
                        let etag = old_content(&server, "w.ts");
                        let answer = ask(&server, method, "w.ts", &fields(conditions, &etag));
                        let expected = by_precedence(method, conditions, 204);
                        assert_eq!(answer.status, expected, "{method} {}", fields(conditions, &etag));
                        let left = std::fs::metadata(server.root.join("w.ts")).ok().map(|file| file.len());
                        let as_answered = match (expected, method) {
                            (412, _) => Some(LENGTH as u64),
                            (_, "PUT") => Some(1),
                            _ => None,
                        };
                        assert_eq!(left, as_answered, "{method} {}", fields(conditions, &etag));
                    }
                }
            }
        }
    }
}

#[test]
fn conditions_on_missing_contents_hold() {
    let server = Server::start();
    for (fields, put) in [
        ("", 201),
        ("If-Match: *\r\n", 412),
        ("If-Match: \"x\"\r\n", 412),
        ("If-Match: \"x\"\r\nIf-None-Match: *\r\n", 412),
        ("If-None-Match: *\r\n", 201),
        ("If-None-Match: \"x\"\r\n", 201),
        // A content that is not there has no date (§13.1.4).
        ("If-Unmodified-Since: Wed, 01 Jan 2020 00:00:00 GMT\r\n", 201),
        ("If-Modified-Since: Wed, 01 Jan 2020 00:00:00 GMT\r\n", 201),
        ("If-Unmodified-Since: Wed, 01 Jan 2020 00:00:00 GMT\r\nIf-None-Match: *\r\n", 201),
    ] {
        // Without its conditions each of these is a 404, so they are not weighed (§13.2.1).
        for method in ["GET", "HEAD", "DELETE"] {
            assert_eq!(ask(&server, method, "n.ts", fields).status, 404, "{method} {fields}");
        }
        assert_eq!(ask(&server, "PUT", "n.ts", fields).status, put, "{fields}");
        let _ = std::fs::remove_file(server.root.join("n.ts"));
    }
}

#[test]
fn a_range_is_of_the_version_in_if_range() {
    let server = Server::start();
    let etag = old_content(&server, "read.ts");
    for (fields, status) in [
        ("Range: bytes=0-9\r\nIf-Range: @", 206),
        ("Range: bytes=0-9\r\nIf-Range: W/@", 200),
        ("Range: bytes=0-9\r\nIf-Range: \"x\"", 200),
        ("Range: bytes=0-9\r\nIf-Range: *", 200),
        ("Range: bytes=0-9\r\nIf-Range: Wed, 01 Jan 2020 00:00:00 GMT", 200),
        ("Range: bytes=0-9\r\nIf-Range: Thu, 02 Jan 2020 00:00:00 GMT", 200),
        ("Range: bytes=0-9\r\nIf-Range: Tue, 31 Dec 2019 00:00:00 GMT", 200),
        ("Range: bytes=0-9\r\nIf-Range: yesterday", 200),
        ("If-Range: @", 200),
        // No range of another version is out of bounds.
        ("Range: bytes=5000-\r\nIf-Range: \"x\"", 200),
        ("Range: bytes=5000-\r\nIf-Range: @", 416),
        // The other conditions come first (§13.2.2).
        ("Range: bytes=0-9\r\nIf-Range: @\r\nIf-Match: \"x\"", 412),
        ("Range: bytes=0-9\r\nIf-Range: @\r\nIf-None-Match: @", 304),
        ("Range: bytes=0-9\r\nIf-Range: @\r\nIf-Match: @", 206),
        ("Range: bytes=5000-\r\nIf-None-Match: @", 304),
    ] {
        let fields = format!("{}\r\n", fields.replace('@', &etag));
        let answer = ask(&server, "GET", "read.ts", &fields);
        assert_eq!(answer.status, status, "{fields}");
        let expected = match status {
            200 => pattern(LENGTH),
            206 => pattern(10),
            _ => continue,
        };
        assert!(answer.body == expected, "{fields}");
        let head = ask(&server, "HEAD", "read.ts", &fields);
        assert_eq!((head.status, head.field("content-length")), (200, Some("1000")), "HEAD {fields}");
    }
    // For writes it means nothing.
    assert_eq!(ask(&server, "PUT", "read.ts", "Range: bytes=0-9\r\nIf-Range: \"x\"\r\n").status, 204);
    assert_eq!(ask(&server, "DELETE", "read.ts", "Range: bytes=0-9\r\nIf-Range: \"x\"\r\n").status, 204);
}
