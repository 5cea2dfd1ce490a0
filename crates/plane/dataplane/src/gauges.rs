//! Live figures, published by the plane thread and read by any thread: plain atomics, one writer, no lock.
//!
//! Promise: reading them costs the plane nothing; each value is whole, values of one stream may be a tick apart.
//! Not here: rendering (`http`).

use std::sync::atomic::{AtomicU64, Ordering};

use units::{DiskFault, Nanos, StreamId, limits};

/// Buckets of a lateness histogram: the n-th counts lateness below 2^n milliseconds, the last all above. Chosen: the last
/// bucket begins at 4 s, near the time after which a disk counts as silent.
pub const LATENESS_BUCKETS: usize = 14;

/// One writer's number.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds to it.
    pub fn add(&self, value: u64) {
        // One writer: no read-modify-write instruction is needed.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
    }

    /// Reads it.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Everything the plane publishes.
#[derive(Debug)]
pub struct Gauges {
    /// One per stream slot; `id` 0 means free.
    pub streams: Box<[StreamGauges]>,
    /// One per disk.
    pub disks: Box<[DiskGauges]>,
    /// One per link that there may be.
    pub links: [LinkGauges; limits::LINKS_MAX],
    /// The plane itself.
    pub plane: PlaneGauges,
}

/// One stream slot.
#[derive(Debug, Default)]
pub struct StreamGauges {
    /// The stream's identifier, or 0.
    pub id: Gauge,
    /// Granted rate, bits per second; 0 for best effort.
    pub rate_bps: Gauge,
    /// Bytes the socket took.
    pub sent_bytes: Gauge,
    /// Ticks with bytes that were not ready.
    pub misses: Gauge,
    /// Bytes read ahead.
    pub buffered_bytes: Gauge,
    /// Sum over finished 1 s windows of |real − expected| / expected, in millionths.
    pub jitter_sum_ppm: Gauge,
    /// Finished windows.
    pub jitter_windows: Gauge,
    /// 1 while the client does not take bytes.
    pub blocked: Gauge,
    /// 1 while bytes that are due are not there.
    pub late: Gauge,
}

/// One disk.
#[derive(Debug, Default)]
pub struct DiskGauges {
    /// Time in the real-time, best-effort and idle phases, nanoseconds.
    pub phase_nanos: [Gauge; 3],
    /// Bytes read for guaranteed streams.
    pub rt_bytes: Gauge,
    /// Other bytes.
    pub be_bytes: Gauge,
    /// Commits.
    pub commits: Gauge,
    /// Requests waiting, real-time.
    pub rt_queued: Gauge,
    /// Requests waiting, best-effort.
    pub be_queued: Gauge,
    /// Reads that failed.
    pub errors: Gauge,
    /// 0: it fulfils its requests, 1: it errs, 2: it does not answer.
    fault: Gauge,
    /// Share of its time promised, in millionths.
    pub promised_ppm: Gauge,
    /// Share of its time that may still be promised, in millionths.
    pub free_ppm: Gauge,
    /// Streams of 8.8 Mbit/s that it carries with nothing else to do, each of another content; set by the part that
    /// counts them.
    pub carries_streams: Gauge,
    /// Bytes of buffers that each of those holds.
    pub stream_bytes: Gauge,
    /// Recordings of 4 Mbit/s likewise.
    pub carries_recordings: Gauge,
    /// Observed over predicted service time, in millionths.
    pub slowdown_ppm: Gauge,
    /// Streams ended because it had become too slow for all of them.
    pub shed_streams: Gauge,
    /// Late blocks by lateness.
    pub lateness: [Gauge; LATENESS_BUCKETS],
    /// Streams that read from it.
    pub streams: Gauge,
}

/// One link.
#[derive(Debug, Default)]
pub struct LinkGauges {
    /// Bits per second that are not promised.
    pub left_bps: Gauge,
    /// Bytes of small reads that left by it outside the plane, which takes them off its best effort. Not written by the
    /// plane, but by one thread at a time all the same.
    pub small_bytes: Gauge,
}

/// Counts something late in the bucket of its lateness.
fn count_late(histogram: &[Gauge; LATENESS_BUCKETS], by: Nanos) {
    let millis = by.0 / 1_000_000;
    let bucket = (u64::BITS - millis.leading_zeros()) as usize;
    histogram[bucket.min(LATENESS_BUCKETS - 1)].add(1);
}

impl PlaneGauges {
    /// Counts a tick, begun so late.
    pub fn tick_late(&self, by: Nanos) {
        count_late(&self.tick_lateness, by);
    }
}

impl DiskGauges {
    /// Failure of the disk as its requests show it; none: it gets new ones.
    #[must_use]
    pub fn fault(&self) -> Option<DiskFault> {
        match self.fault.get() {
            0 => None,
            1 => Some(DiskFault::Erring),
            _ => Some(DiskFault::Hung),
        }
    }

    /// Publishes its failure.
    pub(crate) fn set_fault(&self, fault: Option<DiskFault>) {
        self.fault.set(match fault {
            None => 0,
            Some(DiskFault::Erring) => 1,
            Some(DiskFault::Hung) => 2,
        });
    }

    /// Counts a late block.
    pub fn late(&self, by: Nanos) {
        count_late(&self.lateness, by);
    }
}

/// The plane thread.
#[derive(Debug, Default)]
pub struct PlaneGauges {
    /// Streams in the delivery table.
    pub streams: Gauge,
    /// Promised bits per second.
    pub promised_bps: Gauge,
    /// Bytes sent in all.
    pub sent_bytes: Gauge,
    /// Sends in all.
    pub sends: Gauge,
    /// Bytes lent to sockets instead of copied (decision 0008), as of the last second.
    pub lent_bytes: Gauge,
    /// Ticks not fed in time because the bytes were not ready.
    pub misses: Gauge,
    /// Processor time of the thread, nanoseconds.
    pub processor_nanos: Gauge,
    /// Buffer pages in use, promised, and in all.
    pub pages_used: Gauge,
    /// Buffer pages promised.
    pub pages_promised: Gauge,
    /// Buffer pages that may still be promised.
    pub pages_left: Gauge,
    /// Buffer pages in all.
    pub pages: Gauge,
    /// Pages found in the buffers instead of read.
    pub cache_hits: Gauge,
    /// Pages read.
    pub cache_misses: Gauge,
    /// Ticks begun late, by lateness.
    pub tick_lateness: [Gauge; LATENESS_BUCKETS],
}

impl Gauges {
    /// All zero, for these numbers of stream slots and disks.
    #[must_use]
    pub fn new(streams: usize, disks: usize) -> Self {
        Self {
            streams: (0..streams).map(|_| StreamGauges::default()).collect(),
            disks: (0..disks).map(|_| DiskGauges::default()).collect(),
            links: std::array::from_fn(|_| LinkGauges::default()),
            plane: PlaneGauges::default(),
        }
    }

    /// The slot of a running stream.
    #[must_use]
    pub fn find(&self, stream: StreamId) -> Option<&StreamGauges> {
        self.streams.iter().find(|gauges| gauges.id.get() == stream.0 && stream.0 != 0)
    }
}
