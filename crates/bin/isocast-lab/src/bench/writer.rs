//! Writers beside the streams: continuous uploads by PUT.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::{Nanos, real};

use super::quantiles::Quantiles;
use super::yardstick::Yardstick;
use super::{Stop, clock, lab_disk};

/// An upload that takes longer than this has failed.
const ANSWER_MAX: Nanos = Nanos::from_secs(60);
/// One that is under way when measuring ends has this long to end in order.
const GRACE: Nanos = Nanos::from_secs(10);
/// How often a writer that waits looks whether to go on.
const CONNECT_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(500);
/// Names one writer uses in turn: old uploads are replaced, so the disk does not fill.
const NAMES: u64 = 8;
/// After a failed upload a writer waits this long.
const PAUSE: Nanos = Nanos::from_millis(200);
const PIECE_BYTES: usize = 256 * 1024;

/// What the uploads of a run got.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct UploadFigures {
    /// Writers at work at once.
    pub writers: usize,
    /// Bytes of one upload.
    pub upload_bytes: u64,
    /// Uploads answered (durable, where the server promises that) while measuring.
    pub done: u64,
    /// Uploads that failed while measuring, and why the last one did.
    pub failed: u64,
    /// Why the last failed.
    pub reason: Option<String>,
    /// Bytes per second of those done, 10^6.
    pub mb_per_s: f64,
    /// From the first byte sent to the answer, ms.
    pub latency_ms: Quantiles,
    /// Rate relative to one sequential durable writer's with the disk to itself, where that was measured.
    pub share_of_yardstick: Option<f64>,
    /// Bytes that the disk took for them, those under way included, relative to what it takes for that writer in the
    /// time in which it was not reading, where it is an emulated disk, which tells both.
    pub share_of_left: Option<f64>,
    /// What the emulated disk, if it is one, did while the writers were at work and measured.
    pub disk: Option<lab_disk::HeadShare>,
}

impl UploadFigures {
    /// Puts them beside what a writer alone got on the same disk. By the same rule for both, what the disk took counts:
    /// not only what was answered before measuring ended, which leaves out half an upload of each writer in the mean.
    pub(crate) fn compare(&mut self, alone: &Yardstick) {
        self.share_of_yardstick = Some(self.mb_per_s / alone.mb_per_s);
        self.share_of_left = self.disk.zip(alone.disk).and_then(|(beside, alone)| {
            let left = alone.written_mb_per_s * beside.left_by_reads;
            (left > 0.0).then(|| beside.written_mb_per_s / left)
        });
    }
}

/// One upload's outcome.
#[derive(Debug, Clone)]
pub(crate) struct UploadResult {
    /// When it was answered, or failed.
    pub at: Nanos,
    /// How long it took.
    pub took: Nanos,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// Where a writer writes.
#[derive(Debug, Clone)]
pub(crate) struct WriterSite {
    /// The server.
    pub address: SocketAddr,
    /// Its Host header.
    pub authority: String,
    /// Path of each name.
    pub paths: Vec<String>,
    /// Bytes of one upload.
    pub upload_bytes: u64,
}

/// How names of uploads begin.
pub(crate) const UPLOAD_PREFIX: &str = "isocast-bench-upload-";

/// Names of the uploads of writer `n`.
pub(crate) fn names(n: usize) -> impl Iterator<Item = String> {
    (0..NAMES).map(move |k| format!("{UPLOAD_PREFIX}{n}-{k}.bin"))
}

/// Uploads without pause from `begin` until `end`, which may come earlier than was planned, or `stop`.
pub(crate) fn upload(
    site: &WriterSite,
    begin: Nanos,
    end: &dyn Fn() -> Nanos,
    stop: &Stop,
    done: &Mutex<Vec<UploadResult>>,
) {
    while clock::now() < begin && !stop.is_set() && begin < end() {
        clock::sleep_until(begin.min(clock::now() + PAUSE));
    }
    let mut socket = None;
    let body = vec![0x5a_u8; PIECE_BYTES];
    for path in site.paths.iter().cycle() {
        if stop.is_set() || clock::now() >= end() {
            break;
        }
        let start = clock::now();
        let give_up = || stop.is_set() || clock::now() > (start + ANSWER_MAX).min(end() + GRACE);
        let failure = put(site, path, &body, &mut socket, &give_up).err().map(|e| e.to_string());
        let now = clock::now();
        let failed = failure.is_some();
        if let Ok(mut done) = done.lock() {
            done.push(UploadResult { at: now, took: now.saturating_sub(start), failure });
        }
        if failed {
            socket = None;
            clock::sleep_until(now + PAUSE);
        }
    }
}

/// Removes what the writers uploaded.
pub(crate) fn remove(site: &WriterSite) {
    for path in &site.paths {
        let begin = clock::now();
        // What was never uploaded is answered 404, which is as good; a server that does not answer will not do so for
        // the others either.
        if delete(site, path, &|| clock::now() > begin + GRACE).is_err() {
            break;
        }
    }
}

/// The status with which a DELETE of `path` is answered.
pub(super) fn delete(site: &WriterSite, path: &str, give_up: &dyn Fn() -> bool) -> std::io::Result<u16> {
    let head = format!("DELETE {path} HTTP/1.1\r\nHost: {}\r\n\r\n", site.authority);
    request(site, &mut None, &head, 0, &[], give_up)
}

/// The figures of what was done from `from` to `end`.
pub(crate) fn figures(
    from: Nanos,
    end: Nanos,
    writers: usize,
    upload_bytes: u64,
    uploads: &[UploadResult],
) -> UploadFigures {
    let in_time = || uploads.iter().filter(|u| u.at > from && u.at <= end);
    let mut took: Vec<f64> = in_time().filter(|u| u.failure.is_none()).map(|u| u.took.as_millis_f64()).collect();
    let done = u64::try_from(took.len()).unwrap_or(0);
    let seconds = end.saturating_sub(from).as_secs_f64().max(f64::MIN_POSITIVE);
    UploadFigures {
        writers,
        upload_bytes,
        done,
        failed: in_time().filter(|u| u.failure.is_some()).count() as u64,
        reason: in_time().filter_map(|u| u.failure.clone()).next_back(),
        mb_per_s: real(done * upload_bytes) / seconds / 1e6,
        latency_ms: Quantiles::of(&mut took),
        share_of_yardstick: None,
        share_of_left: None,
        disk: None,
    }
}

/// Uploads to `path`: `body` again and again, as far as the site says.
pub(super) fn put(
    site: &WriterSite,
    path: &str,
    body: &[u8],
    socket: &mut Option<TcpStream>,
    give_up: &dyn Fn() -> bool,
) -> std::io::Result<()> {
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: isocast-bench\r\nContent-Length: {}\r\n\r\n",
        site.authority, site.upload_bytes
    );
    match request(site, socket, &head, site.upload_bytes, body, give_up)? {
        200 | 201 | 204 => Ok(()),
        status => Err(std::io::Error::other(format!("answered {status}"))),
    }
}

/// A connection on which a client asks for contents, and the client's name.
pub(super) struct ReaderConnection {
    pub(super) agent: String,
    pub(super) socket: Option<TcpStream>,
}

/// The status with which a GET of `path` is answered; pieces of the answer's body go to `take`.
pub(super) fn get(
    site: &WriterSite,
    path: &str,
    ReaderConnection { agent, socket }: &mut ReaderConnection,
    take: &mut dyn FnMut(&[u8]),
    give_up: &dyn Fn() -> bool,
) -> std::io::Result<u16> {
    let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {agent}\r\n\r\n", site.authority);
    let stream = connected(site, socket)?;
    send(stream, head.as_bytes(), give_up)?;
    read_answer(stream, give_up, take)
}

/// Sends `head` and `length` bytes of `body` repeated, and returns the status, unless told to `give_up` before. Keeps the
/// connection in `socket`.
fn request(
    site: &WriterSite,
    socket: &mut Option<TcpStream>,
    head: &str,
    length: u64,
    body: &[u8],
    give_up: &dyn Fn() -> bool,
) -> std::io::Result<u16> {
    let stream = connected(site, socket)?;
    send(stream, head.as_bytes(), give_up)?;
    let mut left = length;
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(usize::MAX).min(body.len());
        send(stream, &body[..piece], give_up)?;
        left -= piece as u64;
    }
    read_answer(stream, give_up, &mut |_| ())
}

fn connected<'a>(site: &WriterSite, socket: &'a mut Option<TcpStream>) -> std::io::Result<&'a mut TcpStream> {
    if socket.is_none() {
        let fresh = TcpStream::connect_timeout(&site.address, CONNECT_MAX)?;
        fresh.set_read_timeout(Some(LOOK))?;
        fresh.set_write_timeout(Some(LOOK))?;
        *socket = Some(fresh);
    }
    socket.as_mut().ok_or_else(|| std::io::ErrorKind::NotConnected.into())
}

/// Does `step` until the kernel has something to do for it, looking between whether to give up.
fn patiently(give_up: &dyn Fn() -> bool, mut step: impl FnMut() -> std::io::Result<usize>) -> std::io::Result<usize> {
    loop {
        match step() {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                if give_up() {
                    return Err(std::io::Error::other("the server did not go on with it in time"));
                }
            }
            other => return other,
        }
    }
}

fn send(stream: &mut TcpStream, bytes: &[u8], give_up: &dyn Fn() -> bool) -> std::io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        sent += match patiently(give_up, || stream.write(&bytes[sent..]))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            n => n,
        };
    }
    Ok(())
}

/// Reads one answer, its body too, so that the connection can be used again; pieces of the body go to `take`.
fn read_answer(
    stream: &mut TcpStream,
    give_up: &dyn Fn() -> bool,
    take: &mut dyn FnMut(&[u8]),
) -> std::io::Result<u16> {
    let mut read = Vec::new();
    let mut buffer = [0_u8; 32 * 1024];
    loop {
        let n = patiently(give_up, || stream.read(&mut buffer))?;
        if n == 0 {
            return Err(std::io::Error::other("the server closed the connection without an answer"));
        }
        read.extend_from_slice(&buffer[..n]);
        let Some(head) = super::client::parse_head(&read).map_err(std::io::Error::other)? else { continue };
        let length = if head.status == 204 { 0 } else { head.content_length.unwrap_or(0) };
        let have = (read.len() - head.head_bytes) as u64;
        take(&read[head.head_bytes..]);
        let mut left = length.saturating_sub(have);
        while left > 0 {
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let n = patiently(give_up, || stream.read(&mut buffer[..room]))?;
            if n == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            take(&buffer[..n]);
            left -= n as u64;
        }
        return Ok(head.status);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_never_answers_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let site = WriterSite { address, authority: address.to_string(), paths: Vec::new(), upload_bytes: 100_000_000 };
        let error = put(&site, "/media/x", &[0; 65_536], &mut None, &|| true).unwrap_err();
        assert!(error.to_string().contains("did not go on"), "{error}");
    }
}
