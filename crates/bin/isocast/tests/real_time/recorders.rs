//! Recorders: each sends at its rate until its server is gone, and the next start then has all but the bytes not durable yet.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::crash::setting;
use crate::common::content::{Chance, Content};
use crate::common::http::{Client, Framing, Upload, encoded, exchange};
use crate::common::server::Server;
use crate::common::{until, until_done};

const RATE: &str = "2M&durable=3s";
const BYTES_PER_SECOND: u64 = 250_000;
/// Bytes sent before the end may come: four times those that need not be durable.
const SENT_MIN: u64 = BYTES_PER_SECOND * 12;
/// Of the bytes sent, one in this number is there at least. Chosen: during other tests and a build's writes, an emulated disk can stall for
/// ten seconds. The promise, in seconds, is a law of the simulation, and `make crash` asserts it ([`MISSING_SECONDS`]).
const THERE_ONE_IN: u64 = 3;
/// Names the seconds of a recording that may be missing; without it any number may be.
const MISSING_SECONDS: &str = "ISOCAST_CRASH_MISSING";
/// More than any test records here.
const ENDLESS_BYTES: u64 = 1 << 40;
const CHUNK: usize = 1 << 14;

/// One recorder.
#[derive(Debug)]
pub(super) struct Recorder {
    path: String,
    content: Content,
    sent: AtomicU64,
    /// Bytes sent when the end began.
    sent_by_end: AtomicU64,
    /// There was no room for it: nothing was promised.
    refused: AtomicBool,
}

impl Recorder {
    /// Makes `count` recorders, into names that begin with `names`.
    pub(super) fn several(count: u64, names: &str, chance: &mut Chance) -> Vec<Self> {
        let one = |number| Self {
            path: format!("{names}-{number}.ts"),
            content: Content { seed: chance.next(), bytes: ENDLESS_BYTES },
            sent: AtomicU64::new(0),
            sent_by_end: AtomicU64::new(0),
            refused: AtomicBool::new(false),
        };
        (0..count).map(one).collect()
    }

    /// The end begins now.
    pub(super) fn note_end(&self) {
        self.sent_by_end.store(self.sent.load(Relaxed), Relaxed);
    }

    /// Records until the server is gone.
    pub(super) fn run(&self, address: SocketAddr) -> io::Result<()> {
        let target = format!("/media/{}?rate={RATE}", encoded(&self.path));
        let (content, framing) = (self.content, Framing::Chunked(CHUNK));
        let upload = Upload { target: &target, fields: "", content, framing, send_bytes: content.bytes };
        let mut client = Client::try_to(address)?;
        let answer = client.stream.try_clone()?;
        let mut sent = |bytes| {
            self.sent.fetch_add(bytes, Relaxed);
            thread::sleep(Duration::from_nanos(bytes * 1_000_000_000 / BYTES_PER_SECOND));
            // An admitted camera is answered as well when its disk is gone.
            if self.sent_by_end.load(Relaxed) == 0 && is_refusal(&answer) {
                self.refused.store(true, Relaxed);
            }
        };
        upload.run(&mut client, &mut sent).map(drop)
    }
}

/// True if the answer that has come, if one has, says that there is no room. The server takes what is sent behind it for a while, so that
/// nothing else tells a client that does not look.
fn is_refusal(stream: &TcpStream) -> bool {
    let mut answer = [0; 2048];
    stream.set_nonblocking(true).expect("a socket");
    let count = stream.peek(&mut answer).unwrap_or(0);
    stream.set_nonblocking(false).expect("a socket");
    String::from_utf8_lossy(&answer[..count]).contains("grantable_bps")
}

/// Waits until each has sent enough for most of it to be durable, since the end that was noted if one was, or was refused.
pub(super) fn wait_until_sent(recorders: &[Recorder]) {
    until_done("recordings", || {
        let still: Vec<_> = recorders
            .iter()
            .filter(|one| !one.refused.load(Relaxed))
            .filter(|one| one.sent.load(Relaxed) < one.sent_by_end.load(Relaxed) + SENT_MIN)
            .map(|one| (&one.path, one.sent.load(Relaxed)))
            .collect();
        let sent = recorders.iter().map(|one| one.sent.load(Relaxed)).sum();
        if still.is_empty() { Ok(()) } else { Err((sent, format!("{still:?}"))) }
    });
}

/// The bytes of a recording that a start must have.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) path: String,
    content: Content,
    sent_by_end: u64,
}

/// The bytes of them that the next start must have, now that the server is gone.
pub(super) fn recorded(recorders: Vec<Recorder>) -> Vec<Recorded> {
    let admitted = recorders.into_iter().filter(|one| !one.refused.load(Relaxed));
    admitted
        .map(|Recorder { path, content, sent_by_end, .. }| Recorded {
            path,
            content,
            sent_by_end: sent_by_end.into_inner(),
        })
        .collect()
}

impl Recorded {
    pub(super) fn target(&self) -> String {
        format!("/media/{}", encoded(&self.path))
    }

    /// Asserts that the server has as many bytes as it must, and that they equal the bytes sent. Returns the time of those that are
    /// missing of the bytes sent before the end, in seconds.
    pub(super) fn assert_there(&self, server: &Server) -> f64 {
        let target = format!("{}?rate=max", self.target());
        // A volume reads the bytes left of a recording before it gives them a name.
        let answer = until(&self.path, || {
            let answer = exchange(server.address, "GET", &target).map_err(|error| error.to_string())?;
            if answer.status == 200 { Ok(answer) } else { Err(format!("{}: {}", answer.status, server.stderr_text())) }
        });
        let bytes = answer.body.len() as u64;
        let wrong = self.content.difference(0, &answer.body);
        assert!(wrong.is_none(), "{}: of {bytes} bytes that at {wrong:?} was not sent", self.path);
        let missing = self.sent_by_end.saturating_sub(bytes);
        let missing_max = setting(MISSING_SECONDS, u64::MAX).saturating_mul(BYTES_PER_SECOND);
        let is_enough = missing <= missing_max && bytes >= self.sent_by_end / THERE_ONE_IN;
        assert!(is_enough, "{}: {bytes} bytes are there, {missing} of those sent are missing", self.path);
        Duration::from_nanos(missing * 1_000_000_000 / BYTES_PER_SECOND).as_secs_f64()
    }
}
