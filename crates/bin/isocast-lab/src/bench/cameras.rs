//! Cameras during the streams: each sends a recording at its pace, as a chunked PUT with `rate=`, or writes a file through the page cache.
//!
//! Promise: a piece is due at its time whatever the fate of the one before, and is held up until the kernel has taken its last byte; the
//! bytes that a camera has sent are compared with those kept under its name. Not here: uploads without a rate (`writer`).

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;

use kernel::permissions;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use units::{BitRate, Nanos, real};

use super::client::{ClientPlan, RunProgress, parse_head, rate_text};
use super::quantiles::Quantiles;
use super::server::RunningServer;
use super::writer::UPLOAD_PREFIX;
use super::{Stop, clock, joined, reasons};

/// One thread feeds no more of them in time.
pub(crate) const CAMERAS_MAX: usize = 2_000;
/// Period of a camera's pieces.
const PIECE: Nanos = Nanos::from_millis(100);
/// The cameras take turns within that time; a held-up camera is tried again in its next turn.
const TURNS: usize = 5;
/// A rate that varies is three times the mean in one second of ten, and 7/9 of it in the others.
const PIECES_IN_SECOND: u64 = 10;
const SECONDS_OF_PATTERN: u64 = 10;
/// Little room in the kernel before a server: its hold-ups are seen.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Longest wait for the answer to a recording after its last byte.
const ANSWER_MAX: Nanos = Nanos::from_secs(60);
/// Longest wait for the removal of one.
const DELETED_MAX: Nanos = Nanos::from_secs(10);
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The cameras to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cameras {
    /// Number of cameras.
    pub count: usize,
    /// The mean rate of each.
    pub rate: BitRate,
    /// Whether the rate varies, as that of key frames does.
    pub varies: bool,
    /// Write files into this folder instead of recording with the server.
    pub files: Option<PathBuf>,
}

/// Figures of the cameras' recordings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CameraFigures {
    /// Cameras.
    pub cameras: usize,
    /// Mean rate of each, bit/s.
    pub rate_bps: u64,
    /// Cameras with a recording that the server confirmed as kept.
    pub recorded: usize,
    /// Cameras that were refused.
    pub refused: usize,
    /// Cameras with a recording that broke off.
    pub broken: usize,
    /// Reasons of the first few.
    pub reasons: Vec<String>,
    /// The longest time each camera that was not refused was held up, ms.
    pub held_up_ms: Quantiles,
    /// From a camera's last byte to its answer, ms.
    pub answer_ms: Quantiles,
    /// Bytes sent by cameras that were not refused.
    pub sent_bytes: u64,
    /// Of these, bytes missing from the kept recordings.
    pub lost_bytes: u64,
    /// Processor time of plain writers, s.
    pub writing_cpu_seconds: Option<f64>,
    /// Processor time for 10^9 bytes recorded, s: of the server while measuring, its viewers included, and of plain writers.
    pub cpu_s_per_gb: Option<f64>,
}

impl CameraFigures {
    fn of(cameras: &Cameras, results: Vec<CameraResult>) -> Self {
        let mut found = Self { cameras: cameras.count, rate_bps: cameras.rate.0, ..Self::default() };
        let (mut held_up, mut answer, mut cpu) = (Vec::new(), Vec::new(), Nanos::ZERO);
        for result in results {
            let (count, reason) = match result.fate {
                CameraFate::Recorded { waited } => {
                    answer.push(waited.as_millis_f64());
                    (&mut found.recorded, None)
                }
                CameraFate::Refused(status) => (&mut found.refused, Some(format!("refused with {status}"))),
                CameraFate::Broken(reason) => (&mut found.broken, Some(reason)),
            };
            *count += 1;
            if let Some(kept) = result.kept {
                held_up.push(result.held_up.as_millis_f64());
                found.sent_bytes += result.sent;
                found.lost_bytes += result.sent.saturating_sub(kept);
            }
            cpu += result.cpu;
            reason.into_iter().for_each(|reason| reasons::keep(&mut found.reasons, reason));
        }
        (found.held_up_ms, found.answer_ms) = (Quantiles::of(&mut held_up), Quantiles::of(&mut answer));
        found.writing_cpu_seconds = cameras.files.is_some().then(|| cpu.as_secs_f64());
        found
    }

    /// Relates the server's processor use, percent of one core, to the bytes recorded in the same time.
    pub(crate) fn charge(&mut self, server_cpu_percent: Option<f64>) {
        let recording = real((self.recorded + self.broken) as u64);
        let (gb, gb_per_s) = (real(self.sent_bytes) / 1e9, real(self.rate_bps) / 8e9 * recording);
        if gb > 0.0 {
            let writing = self.writing_cpu_seconds.unwrap_or(0.0) / gb;
            self.cpu_s_per_gb = server_cpu_percent.map(|percent| percent / 100.0 / gb_per_s + writing);
        }
    }

    /// Result in a sentence, for progress messages.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "{} of {} cameras recorded, {} refused, {} broken, held up for {:.2} s at most, {} bytes lost",
            self.recorded,
            self.cameras,
            self.refused,
            self.broken,
            self.held_up_ms.max / 1000.0,
            self.lost_bytes
        )
    }
}

/// End of a camera's recording.
#[derive(Debug)]
enum CameraFate {
    Recorded { waited: Nanos },
    Refused(u16),
    Broken(String),
}

#[derive(Debug)]
struct CameraResult {
    fate: CameraFate,
    held_up: Nanos,
    sent: u64,
    /// Bytes found under its name; `None` of a refused camera.
    kept: Option<u64>,
    cpu: Nanos,
}

/// A piece as it is sent, and its bytes of the recording.
#[derive(Debug)]
struct CameraPiece {
    sent: Vec<u8>,
    bytes: u64,
}

/// The pieces of every camera.
#[derive(Debug)]
struct CameraPieces {
    usual: CameraPiece,
    /// The piece in seconds of a high rate.
    large: Option<CameraPiece>,
}

impl CameraPieces {
    /// Zeros; those of chunked bodies stand in chunks.
    fn of(cameras: &Cameras) -> Self {
        let mean = cameras.rate.bytes_in(PIECE).max(9);
        let piece = |bytes: u64| {
            let mut sent = vec![0; usize::try_from(bytes).unwrap_or(0)];
            if cameras.files.is_none() {
                sent.splice(0..0, format!("{bytes:x}\r\n").into_bytes());
                sent.extend_from_slice(b"\r\n");
            }
            CameraPiece { sent, bytes }
        };
        if cameras.varies {
            Self { usual: piece(mean * 7 / 9), large: Some(piece(mean * 3)) }
        } else {
            Self { usual: piece(mean), large: None }
        }
    }

    /// CameraPiece `k` of camera `n`: no two neighbours have their high second at once.
    fn get(&self, n: usize, k: u64) -> &CameraPiece {
        let is_high = (k / PIECES_IN_SECOND + n as u64).is_multiple_of(SECONDS_OF_PATTERN);
        self.large.as_ref().filter(|_| is_high).unwrap_or(&self.usual)
    }
}

/// Has `cameras` record during the streams of `plan`, from within their ramp to the end of measuring; removes the recordings.
///
/// # Errors
/// Too many for this machine's limits, or a folder that cannot be written.
pub(super) fn record(
    cameras: &Cameras,
    server: &RunningServer,
    plan: &ClientPlan,
    stop: &Stop,
    progress: &RunProgress,
) -> anyhow::Result<CameraFigures> {
    permissions::allow_open_files((cameras.count + plan.paths.len()) as u64)?;
    let pieces = CameraPieces::of(cameras);
    let results = match &cameras.files {
        Some(folder) => write_files(cameras, folder, &pieces, plan, stop, progress)?,
        None => put_all(cameras, server, &pieces, plan, stop, progress),
    };
    Ok(CameraFigures::of(cameras, results))
}

/// Begin of camera `n`.
fn begin(cameras: &Cameras, plan: &ClientPlan, n: usize) -> Nanos {
    let offset = u128::from(plan.ramp.0) * (n as u128) / (cameras.count as u128);
    // In the camera's turn.
    let turn = PIECE.0 * (n % TURNS) as u64 / TURNS as u64;
    plan.begin + Nanos(u64::try_from(offset).unwrap_or(0) / PIECE.0 * PIECE.0 + turn)
}

/// Each camera in a thread of its own: a write through the page cache holds up its thread.
fn write_files(
    cameras: &Cameras,
    folder: &Path,
    pieces: &CameraPieces,
    plan: &ClientPlan,
    stop: &Stop,
    progress: &RunProgress,
) -> anyhow::Result<Vec<CameraResult>> {
    thread::scope(|scope| {
        let write = |n: usize| {
            let path = folder.join(format!("camera-{n}.ts"));
            let result = write_file(&path, n, begin(cameras, plan, n), pieces, &|| {
                stop.is_set() || clock::now() >= progress.end(plan)
            });
            // It is not there where it could not be made.
            let _ = fs::remove_file(&path);
            result
        };
        let all: Vec<_> = (0..cameras.count).map(|n| scope.spawn(move || write(n))).collect();
        all.into_iter().map(joined).collect()
    })
}

fn write_file(
    path: &Path,
    n: usize,
    begin: Nanos,
    pieces: &CameraPieces,
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<CameraResult> {
    let cpu = clock::thread_cpu();
    let mut file = File::create(path)?;
    let (mut held_up, mut sent) = (Nanos::ZERO, 0);
    for k in 0.. {
        let due = begin + PIECE.saturating_mul(k);
        clock::sleep_until(due);
        if is_over() {
            break;
        }
        let piece = pieces.get(n, k);
        file.write_all(&piece.sent)?;
        held_up = held_up.max(clock::now().saturating_sub(due));
        sent += piece.bytes;
    }
    let (kept, cpu) = (Some(file.metadata()?.len()), clock::thread_cpu().saturating_sub(cpu));
    Ok(CameraResult { fate: CameraFate::Recorded { waited: Nanos::ZERO }, held_up, sent, kept, cpu })
}

/// A camera that records with the server.
#[derive(Default)]
struct BenchCamera {
    begin: Nanos,
    path: String,
    socket: Option<TcpStream>,
    /// The piece under way, and how much of it the kernel has taken.
    piece: u64,
    taken: usize,
    held_up: Nanos,
    sent: u64,
    /// Time at which its last byte was sent.
    ended: Option<Nanos>,
    answer: Vec<u8>,
    fate: Option<CameraFate>,
}

fn put_all(
    cameras: &Cameras,
    server: &RunningServer,
    pieces: &CameraPieces,
    plan: &ClientPlan,
    stop: &Stop,
    progress: &RunProgress,
) -> Vec<CameraResult> {
    let path = |n: usize| server.upload_path(&format!("{UPLOAD_PREFIX}camera-{n}.ts"));
    let camera = |n| BenchCamera { begin: begin(cameras, plan, n), path: path(n), ..BenchCamera::default() };
    let mut all: Vec<BenchCamera> = (0..cameras.count).map(camera).collect();
    let rate = rate_text(cameras.rate);
    for turn in 0_u64.. {
        clock::sleep_until(plan.begin + Nanos(PIECE.0 * turn / TURNS as u64));
        let end = progress.end(plan);
        if stop.is_set() || clock::now() >= end + ANSWER_MAX || all.iter().all(|camera| camera.fate.is_some()) {
            break;
        }
        let first = usize::try_from(turn % TURNS as u64).unwrap_or(0);
        for (n, camera) in all.iter_mut().enumerate().skip(first).step_by(TURNS) {
            if let Err(error) = camera.act(n, server, &rate, pieces, end) {
                camera.fate = Some(CameraFate::Broken(error.to_string()));
            }
        }
    }
    all.into_iter().map(|camera| camera.result(server, stop)).collect()
}

impl BenchCamera {
    /// Takes the steps that are due.
    fn act(
        &mut self,
        n: usize,
        server: &RunningServer,
        rate: &str,
        pieces: &CameraPieces,
        end: Nanos,
    ) -> std::io::Result<()> {
        let now = clock::now();
        if self.fate.is_some() || now < self.begin {
            return Ok(());
        }
        let socket = match &mut self.socket {
            Some(socket) => socket,
            empty => empty.insert(open(server, &self.path, rate)?),
        };
        if let Some(status) = read_status(socket, &mut self.answer)? {
            self.fate = Some(match (status, self.ended) {
                (200..=299, Some(ended)) => CameraFate::Recorded { waited: now.saturating_sub(ended) },
                (200..=299, None) => CameraFate::Broken(format!("answered {status} before its end")),
                (_, None) => CameraFate::Refused(status),
                (_, Some(_)) => CameraFate::Broken(format!("answered {status} at its end")),
            });
            return Ok(());
        }
        while self.ended.is_none() {
            let due = self.begin + PIECE.saturating_mul(self.piece);
            // A piece that has begun is ended, and so are pieces due before the end.
            let is_last = due >= end && self.taken == 0;
            if due > now && !is_last {
                break;
            }
            let piece = pieces.get(n, self.piece);
            let (bytes, of_recording) = if is_last { (LAST_CHUNK, 0) } else { (piece.sent.as_slice(), piece.bytes) };
            self.held_up = self.held_up.max(now.saturating_sub(due.min(end)));
            match socket.write(&bytes[self.taken..]) {
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if self.taken == bytes.len() {
                (self.taken, self.piece, self.sent) = (0, self.piece + 1, self.sent + of_recording);
                self.ended = is_last.then_some(now);
            }
        }
        Ok(())
    }

    /// Returns the fate of its recording and the bytes kept, then removes it.
    fn result(self, server: &RunningServer, stop: &Stop) -> CameraResult {
        // The server keeps the received part of a recording when its connection closes.
        drop(self.socket);
        let fate = self.fate.unwrap_or_else(|| CameraFate::Broken(format!("not answered within {ANSWER_MAX}")));
        let (fate, kept) = match (fate, server.length_of(&self.path, stop)) {
            (CameraFate::Refused(status), None) => (CameraFate::Refused(status), None),
            // It was admitted: something is there.
            (CameraFate::Refused(status), kept) => (CameraFate::Broken(format!("answered {status}")), kept),
            (fate, kept) => (fate, kept.or(Some(0))),
        };
        // One that was never kept is answered 404, which is as good.
        let _ = server.delete(&self.path, DELETED_MAX);
        CameraResult { fate, held_up: self.held_up, sent: self.sent, kept, cpu: Nanos::ZERO }
    }
}

fn open(server: &RunningServer, path: &str, rate: &str) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect(server.address)?;
    sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
    let host = &server.authority;
    write!(
        socket,
        "PUT {path}?rate={rate} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: isocast-bench\r\nTransfer-Encoding: chunked\r\n\r\n"
    )?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The status of the answer, once its head is there.
fn read_status(socket: &mut TcpStream, answer: &mut Vec<u8>) -> std::io::Result<Option<u16>> {
    let mut read = [0; 4096];
    match socket.read(&mut read) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => {
            answer.extend_from_slice(&read[..count]);
            let head = parse_head(answer).map_err(std::io::Error::other)?;
            Ok(head.map(|head| head.status))
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cameras(varies: bool, files: Option<PathBuf>) -> Cameras {
        Cameras { count: 2, rate: BitRate(7_200_000), varies, files }
    }

    #[test]
    fn a_varying_rate_has_its_mean_and_no_two_neighbours_are_high_at_once() {
        let pieces = CameraPieces::of(&cameras(true, None));
        let bytes = |n| (0..PIECES_IN_SECOND * SECONDS_OF_PATTERN).map(move |k| (n, k));
        for n in 0..3 {
            assert_eq!(bytes(n).map(|(n, k)| pieces.get(n, k).bytes).sum::<u64>(), 900_000 * SECONDS_OF_PATTERN);
        }
        assert!(bytes(0).all(|(_, k)| pieces.get(0, k).bytes + pieces.get(1, k).bytes <= 4 * 90_000));
    }

    #[test]
    fn pieces_stand_in_chunks_on_the_way_to_a_server_and_bare_in_files() {
        let piece = CameraPieces::of(&cameras(false, None)).usual;
        assert!(piece.sent.starts_with(b"15f90\r\n") && piece.sent.ends_with(b"\r\n"));
        assert_eq!((piece.bytes, piece.sent.len()), (90_000, 90_009));
        assert_eq!(CameraPieces::of(&cameras(false, Some(PathBuf::new()))).usual.sent.len(), 90_000);
    }

    #[test]
    fn unkept_bytes_count_as_lost_except_of_refused_cameras() {
        let result =
            |fate, sent, kept| CameraResult { fate, held_up: Nanos::from_millis(20), sent, kept, cpu: Nanos::ZERO };
        let mut found = CameraFigures::of(
            &cameras(false, None),
            vec![
                result(CameraFate::Recorded { waited: Nanos::from_millis(5) }, 900, Some(900)),
                result(CameraFate::Broken("gone".to_owned()), 900, Some(600)),
                result(CameraFate::Refused(503), 100, None),
            ],
        );
        assert_eq!((found.recorded, found.broken, found.refused), (1, 1, 1));
        assert_eq!((found.sent_bytes, found.lost_bytes, found.held_up_ms.max), (1800, 300, 20.0));
        assert_eq!(found.reasons, ["gone", "refused with 503"]);
        // Half of a processor with two recordings of 7.2 Mbit/s, which are 1.8 MB/s.
        found.charge(Some(50.0));
        assert!(found.cpu_s_per_gb.is_some_and(|cpu| (cpu - 0.5 / 0.0018).abs() < 1e-6), "{found:?}");
    }
}
