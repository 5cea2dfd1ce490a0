//! Steps of a disk's schedule: the actions that it chooses, what came of them, and the sums of both.
//!
//! Not here: the choice (`disk`), the work that is chosen from (`work`).

use units::{JobId, Nanos};

/// The next action of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Issue at most `bytes_max` bytes of this stream's next data, then call [`super::DiskSchedule::issued`].
    Read {
        /// Slot of the stream.
        slot: u32,
        /// At most this many bytes.
        bytes_max: u64,
        /// True for a guaranteed stream.
        real_time: bool,
    },
    /// Hand the store thread a grant; [`super::DiskSchedule::grant_done`] must follow.
    Grant {
        /// The job.
        job: JobId,
        /// At most this many bytes (writes).
        bytes_max: u64,
        /// No piece begins later.
        until: Nanos,
    },
    /// Nothing before a completion or the next wake-up.
    Wait,
}

/// The three phases of HiTactix, figure 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Blocks of admitted streams.
    RealTime,
    /// Uploads, copies, bulk reads.
    BestEffort,
    /// Nothing to do.
    #[default]
    Idle,
}

/// The reads that the plane issued for a [`Step::Read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssuedRead {
    /// As in the step.
    pub real_time: bool,
    /// Position of the first byte read from the disk.
    pub position: u64,
    /// Bytes asked from the disk (zero if they were in the buffers already).
    pub bytes: u64,
    /// Requests that went to the disk: each is answered by one [`super::DiskSchedule::read_done`].
    pub requests: u32,
    /// By how much the stream's request shrank: bytes read, and bytes found in the buffers.
    pub advanced_bytes: u64,
    /// Where the stream's next byte lies.
    pub next_position: u64,
}

/// Counters and sums, incremented by the schedule and rendered elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScheduleStats {
    /// Time spent in each phase: real-time, best-effort, idle.
    pub phase_nanos: [u64; 3],
    /// Bytes read for guaranteed streams.
    pub rt_bytes: u64,
    /// Bytes read or written without a deadline, and recordings.
    pub be_bytes: u64,
    /// Commits granted.
    pub commits: u64,
}
