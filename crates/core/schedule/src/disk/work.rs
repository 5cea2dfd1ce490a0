//! Best-effort work: the requests for disk time, their owners, and the choice among them.

use units::JobId;

use super::cost::SyncScope;

/// Something that wants disk time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeWork {
    /// A delivery without a guarantee wants `bytes` from `position`; served by reads of at most one piece.
    Read {
        /// Slot of its stream.
        slot: u32,
        /// Position on the disk in bytes.
        position: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// A store thread has `bytes` ready to write at `position`.
    Write {
        /// Its job.
        job: JobId,
        /// Position on the disk in bytes.
        position: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// Number of places in which a store thread would read.
    Probe {
        /// Its job.
        job: JobId,
        /// Number of reads.
        reads: u32,
        /// Bytes in all.
        bytes: u64,
    },
}

impl BeWork {
    pub(super) fn owner(&self) -> WorkOwner {
        match *self {
            Self::Read { slot, .. } => WorkOwner::Stream(slot),
            Self::Write { job, .. } | Self::Probe { job, .. } => WorkOwner::Job(job),
        }
    }

    /// Where it begins; of reads in many places, the start of the disk.
    pub(super) fn position(&self) -> u64 {
        match *self {
            Self::Read { position, .. } | Self::Write { position, .. } => position,
            Self::Probe { .. } => 0,
        }
    }

    /// Bytes to write.
    pub(super) fn write_bytes(&self) -> u64 {
        match *self {
            Self::Write { bytes, .. } => bytes,
            Self::Read { .. } | Self::Probe { .. } => 0,
        }
    }
}

/// The owner of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkOwner {
    /// A delivery's.
    Stream(u32),
    /// A store thread's job.
    Job(JobId),
}

/// A commit the store thread would make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Its job.
    pub job: JobId,
    /// Written since the last flush.
    pub dirty_bytes: u64,
    /// An upload waits for it.
    pub awaited: bool,
}

impl Commit {
    pub(super) const fn sync_scope(&self) -> SyncScope {
        if self.awaited { SyncScope::Journal } else { SyncScope::DriveCache }
    }
}

/// The next work that is not a due read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeChoice {
    /// Read at most one piece for this stream.
    Read {
        /// Slot of the stream.
        slot: u32,
        /// At most this many bytes.
        bytes: u64,
    },
    /// Let the store thread write up to `bytes` of this job.
    Write {
        /// The job.
        job: JobId,
        /// Position on the disk in bytes.
        position: u64,
        /// At most this many bytes.
        bytes: u64,
    },
    /// Let the store thread probe.
    Probe {
        /// The job.
        job: JobId,
    },
    /// Let the store thread commit.
    Commit {
        /// The job.
        job: JobId,
        /// The data made durable.
        scope: SyncScope,
    },
}
