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

/// An upload that takes longer than this has failed.
const ANSWER_MAX: Nanos = Nanos::from_secs(60);
/// Time for an upload under way at the end of measuring to end in order.
const GRACE: Nanos = Nanos::from_secs(10);
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
    /// Compares them with the result of a lone writer on the same disk. By the same rule for both, what the disk took counts:
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

/// How names of uploads begin.
pub(crate) const UPLOAD_PREFIX: &str = "isocast-bench-upload-";

/// Paths of the uploads of writer `n`.
fn paths(server: &RunningServer, n: usize) -> Vec<String> {
    (0..NAMES).map(|k| server.upload_path(&format!("{UPLOAD_PREFIX}{n}-{k}.bin"))).collect()
}

/// Has writer `n` upload without pause from `begin` until `end`, which may come earlier than was planned, or `stop`.
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

/// Removes what writer `n` uploaded.
pub(crate) fn remove(server: &RunningServer, n: usize) {
    // What was never uploaded is answered 404, which is as good; a server that does not answer will not do so for the others either.
    let _ = paths(server, n).iter().try_for_each(|path| server.delete(path, GRACE).map(drop));
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
        ..UploadFigures::default()
    }
}
