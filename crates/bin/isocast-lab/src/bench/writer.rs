//! Writers during the streams: continuous uploads by PUT.

use std::cell::Cell;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use units::{Nanos, real};

use super::quantiles::Quantiles;
use super::requests::UploadBody;
use super::server::RunningServer;
use super::yardstick::Yardstick;
use super::{Stop, clock, lab_disk};

/// Time after which an upload counts as failed.
const ANSWER_MAX: Nanos = Nanos::from_secs(60);
/// Time that an upload may still take when measuring ends.
const GRACE: Nanos = Nanos::from_secs(10);
/// Number of names that a writer uses in turn: it replaces old uploads, so the disk does not fill.
const NAMES: u64 = 8;
/// Pause of a writer after a failed upload.
const PAUSE: Nanos = Nanos::from_millis(200);
const PIECE_BYTES: usize = 256 * 1024;

/// Results of a run's uploads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct UploadFigures {
    /// Concurrent writers.
    pub writers: usize,
    /// Bytes of one upload.
    pub upload_bytes: u64,
    /// Uploads answered while measuring (durable ones, if the server promises that).
    pub done: u64,
    /// Uploads that failed while measuring.
    pub failed: u64,
    /// Reason of the last failure.
    pub reason: Option<String>,
    /// Rate of the answered uploads, 10^6 bytes per second.
    pub mb_per_s: f64,
    /// From the first byte sent to the answer, ms.
    pub latency_ms: Quantiles,
    /// That rate relative to the rate of one sequential durable writer alone on the disk, if it was measured.
    pub share_of_yardstick: Option<f64>,
    /// Bytes written to the disk for the uploads, unfinished ones included, relative to the bytes that the lone writer would
    /// have written in the time in which the disk did not read. Only an emulated disk reports both.
    pub share_of_left: Option<f64>,
    /// Work of the emulated disk's head while writers were measured; `None` on another disk.
    pub disk: Option<lab_disk::HeadShare>,
}

impl UploadFigures {
    /// Compares the uploads with those of a lone writer on the same disk. For both, the bytes written to the disk count, not
    /// the uploads answered before measuring ended: these would leave out half an upload of each writer in the mean.
    pub(crate) fn compare(&mut self, alone: &Yardstick) {
        self.share_of_yardstick = Some(self.mb_per_s / alone.mb_per_s);
        self.share_of_left = self.disk.zip(alone.disk).and_then(|(beside, alone)| {
            let left = alone.written_mb_per_s * beside.left_by_reads;
            (left > 0.0).then(|| beside.written_mb_per_s / left)
        });
    }
}

/// Outcome of an upload.
#[derive(Debug, Clone)]
pub(crate) struct UploadResult {
    /// Time of the answer or of the failure.
    pub at: Nanos,
    /// Duration of the upload.
    pub took: Nanos,
    /// Reason of the failure, if it failed.
    pub failure: Option<String>,
}

/// Prefix of the names of uploads.
pub(crate) const UPLOAD_PREFIX: &str = "isocast-bench-upload-";

/// Paths of the uploads of writer `n`.
fn paths(server: &RunningServer, n: usize) -> Vec<String> {
    (0..NAMES).map(|k| server.upload_path(&format!("{UPLOAD_PREFIX}{n}-{k}.bin"))).collect()
}

/// Uploads as writer `n` without pause from `begin` until `end`, which may move to an earlier time, or `stop`.
pub(crate) fn upload(
    (server, n, bytes): (&RunningServer, usize, u64),
    begin: Nanos,
    end: &dyn Fn() -> Nanos,
    stop: &Stop,
    done: &Mutex<Vec<UploadResult>>,
) {
    clock::wait_until(begin, || stop.is_set() || begin >= end());
    let start = Cell::new(begin);
    let give_up = || stop.is_set() || clock::now() > (start.get() + ANSWER_MAX).min(end() + GRACE);
    let (mut connection, piece) = (server.connection(give_up), vec![0x5a_u8; PIECE_BYTES]);
    for path in paths(server, n).iter().cycle() {
        if stop.is_set() || clock::now() >= end() {
            break;
        }
        start.set(clock::now());
        let failure = connection.put(path, UploadBody { piece: &piece, bytes }).err().map(|e| e.to_string());
        let now = clock::now();
        let failed = failure.is_some();
        if let Ok(mut done) = done.lock() {
            done.push(UploadResult { at: now, took: now.saturating_sub(start.get()), failure });
        }
        if failed {
            clock::sleep_until(now + PAUSE);
        }
    }
}

/// Removes the uploads of writer `n`.
pub(crate) fn remove(server: &RunningServer, n: usize) {
    // A name that was never uploaded is answered with 404, which is fine; if the server does not answer, it will not answer for
    // the other names either.
    let _ = paths(server, n).iter().try_for_each(|path| server.delete(path, GRACE).map(drop));
}

/// The figures of the uploads from `from` to `end`.
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
        ..UploadFigures::default()
    }
}
