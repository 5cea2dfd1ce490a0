//! Prediction of a drive under a simple closed-loop load, from the model in virtual time.

use units::Nanos;

use super::faults::mixed;
use super::{Drive, DriveRequest, Op, ParameterError, Parameters};

/// Order of a load's offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetOrder {
    /// One after the other, from the start again at the end.
    Sequential,
    /// Anywhere in the range, on multiples of the block.
    Random,
}

/// A closed-loop load: `depth` requests always under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Read or write.
    pub op: Op,
    /// Order of the offsets.
    pub pattern: OffsetOrder,
    /// Bytes of a request; at least 512.
    pub block: u64,
    /// Requests under way; at least 1.
    pub depth: u32,
    /// Start of the range, bytes.
    pub offset: u64,
    /// Length of the range; cut at the drive's end; at least one block.
    pub length: u64,
    /// How long, in virtual time.
    pub duration: Nanos,
}

/// Rates and times reached by a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Requests per second.
    pub requests_per_second: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Mean time of a request.
    pub mean: Nanos,
    /// 99 % were faster.
    pub p99: Nanos,
}

impl Workload {
    /// The offsets it asks for, in order, without end. Empty if the range holds no block.
    pub fn offsets(&self, size: u64, seed: u64) -> impl Iterator<Item = u64> + use<> {
        let (block, start, pattern) = (self.block.max(512), self.offset, self.pattern);
        let room = size.saturating_sub(start).min(self.length) / block;
        (0u64..).take_while(move |_| room > 0).map(move |serial| match pattern {
            OffsetOrder::Sequential => start + serial % room * block,
            OffsetOrder::Random => start + mixed(seed.wrapping_add(serial)) % room * block,
        })
    }
}

/// Runs a load on a fresh drive in virtual time.
///
/// # Errors
/// The parameters contradict each other, or the load's range holds no block.
pub fn predict(parameters: &Parameters, load: &Workload, seed: u64) -> Result<Prediction, ParameterError> {
    let offsets = load.offsets(parameters.size, seed);
    let (mut times, _) = run(parameters, load, offsets, load.duration, seed)?;
    Ok(summary(&mut times, load.block, load.duration))
}

/// Runs a list of offsets to its end with the load's block and depth, as a program does that replays a list; `seed`
/// chooses the angle of the platters.
///
/// # Errors
/// As [`predict`].
pub fn predict_list(
    parameters: &Parameters,
    load: &Workload,
    offsets: impl Iterator<Item = u64>,
    seed: u64,
) -> Result<Prediction, ParameterError> {
    let (mut times, last) = run(parameters, load, offsets, Nanos::MAX, seed)?;
    // The rate while the queue was full: until the last request came.
    times.truncate(times.len().saturating_sub(usize::try_from(load.depth.max(1)).unwrap_or(1)));
    Ok(summary(&mut times, load.block, last))
}

/// The times of all requests that ended by `until`, in order, and when the last one came.
fn run(
    parameters: &Parameters,
    load: &Workload,
    mut offsets: impl Iterator<Item = u64>,
    until: Nanos,
    seed: u64,
) -> Result<(Vec<u64>, Nanos), ParameterError> {
    let mut drive = Drive::new(parameters.clone(), seed)?;
    let bytes = load.block.max(512);
    let depth = load.depth.max(1);
    let mut began = vec![Nanos::ZERO; usize::try_from(depth).unwrap_or(1)];
    let mut times: Vec<u64> = Vec::new();
    for tag in 0..u64::from(depth) {
        if let Some(offset) = offsets.next() {
            drive.submit(DriveRequest { tag, op: load.op, offset, bytes }, Nanos::ZERO);
        }
    }
    if drive.pending() == 0 {
        return Err(ParameterError::Inconsistent("the load's range holds no block"));
    }
    let mut out = Vec::new();
    let mut now = Nanos::ZERO;
    let mut last = Nanos::ZERO;
    while drive.pending() > 0 {
        let Some(at) = drive.next_wakeup().filter(|&at| at <= until) else { break };
        now = at.max(now);
        drive.complete(now, &mut out);
        for done in out.drain(..) {
            let slot = &mut began[usize::try_from(done.tag).unwrap_or(0)];
            times.push(done.at.saturating_sub(*slot).0);
            *slot = done.at;
            if let Some(offset) = offsets.next() {
                last = last.max(done.at);
                drive.submit(DriveRequest { tag: done.tag, op: load.op, offset, bytes }, done.at);
            }
        }
    }
    Ok((times, last))
}

#[allow(clippy::cast_precision_loss, reason = "a summary for people")]
fn summary(times: &mut [u64], block: u64, duration: Nanos) -> Prediction {
    times.sort_unstable();
    let count = times.len();
    let per_second = count as f64 / duration.as_secs_f64().max(1e-9);
    Prediction {
        requests_per_second: per_second,
        bytes_per_second: per_second * block as f64,
        mean: Nanos(times.iter().sum::<u64>().checked_div(u64::try_from(count).unwrap_or(1)).unwrap_or(0)),
        p99: Nanos(times.get(count * 99 / 100).or(times.last()).copied().unwrap_or(0)),
    }
}
