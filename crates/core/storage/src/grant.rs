//! Grants between a disk's schedule and its store thread: the store thread *offers* work, the schedule *grants* it (a number of bytes,
//! or one operation, until a time), the store thread does it and reports the work *done*.
//!
//! Promise: no byte is written and no flush started on a data disk without a grant. One grant per disk is out at a
//! time, and no real-time read is in flight meanwhile. Both directions are bounded queues.
//! Not here: doing it (the crates `folder` and `volumes`), deciding (the `schedule` crate).

pub use units::JobId;
use units::{BitRate, DiskId, Nanos, ReservationId, limits};

/// From a store thread to its disk's schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMessage {
    /// There is work. A second offer of the same job replaces the first.
    Offer(Offer),
    /// The job is over or given up: forget it.
    Withdraw {
        /// The disk.
        disk: DiskId,
        /// The job.
        job: JobId,
    },
    /// A grant was used up, or could not be used.
    Done(GrantDone),
    /// A recording is written here from now on: admission charges it by the zone.
    Placed {
        /// The disk.
        disk: DiskId,
        /// The recording's.
        reservation: ReservationId,
        /// Where on the device its next byte goes.
        position: u64,
    },
}

/// Work a store thread would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The disk.
    pub disk: DiskId,
    /// The job.
    pub job: JobId,
    /// The work.
    pub work: StoreWork,
    /// With or without a deadline.
    pub class: WorkClass,
}

/// Work that a store thread offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreWork {
    /// Write `bytes` (all that is ready now) contiguously at `position` of the device.
    Write {
        /// Ready bytes; not zero.
        bytes: u64,
        /// Where on the device the first goes; `u64::MAX` where unknown.
        position: u64,
    },
    /// Flush the drive's cache, for `dirty_bytes` written since the last flush, and make finished uploads durable and
    /// visible. One per disk: uploads that finish together share it.
    Commit {
        /// Written since the last flush.
        dirty_bytes: u64,
        /// True if an upload waits for it; false if it is only to bound the dirty bytes.
        awaited: bool,
    },
    /// Random reads: metadata, container probes, listing, a unit of a volume that is to be copied.
    Probe {
        /// How many places are read.
        reads: u32,
        /// Bytes in all, beyond those that a seek has time for.
        bytes: u64,
    },
}

/// Times at which a recording's blocks are written: the bytes received by `first`, and by each `period` after that, are durable
/// `within` then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingPlace {
    /// When the first block is due to be written.
    pub first: Nanos,
    /// From one block to the next.
    pub period: Nanos,
    /// From when a block is due to be written until it is durable.
    pub within: Nanos,
}

impl RecordingPlace {
    /// Chunks of memory that hold the bytes of a rate until they are written; of two of them only parts are used.
    #[must_use]
    pub fn chunks(&self, rate: BitRate) -> u64 {
        let held = self.period.saturating_add(self.within).saturating_add(limits::RECORDING_EXCESS);
        rate.bytes_in(held).div_ceil(limits::CHUNK_BYTES) + 2
    }

    /// The first block after `now`.
    #[must_use]
    pub fn next(&self, now: Nanos) -> Nanos {
        let passed = now.saturating_sub(self.first).0 / self.period.0.max(1);
        if now < self.first { self.first } else { self.first.saturating_add(self.period.saturating_mul(passed + 1)) }
    }
}

/// The disks that a recording is written to: of a folder one, of a volume those of its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenDisks {
    /// The disk with the store in charge: a volume has one for all its disks.
    pub store: DiskId,
    /// A bit for each that is written to.
    disks: u32,
    /// How often each byte is written.
    copies: u8,
}

impl WrittenDisks {
    /// One disk, and its own store.
    #[must_use]
    pub fn one(disk: DiskId) -> Self {
        Self::several(disk, [disk], 1)
    }

    /// Several disks of a volume with the store of `store`, and `copies` copies of each byte spread over them.
    #[must_use]
    pub fn several(store: DiskId, disks: impl IntoIterator<Item = DiskId>, copies: u8) -> Self {
        Self { store, disks: disks.into_iter().fold(0, |bits, disk| bits | 1 << disk.0), copies }
    }

    /// The disks.
    pub fn iter(&self) -> impl Iterator<Item = DiskId> + use<> {
        let disks = self.disks;
        (0u16..).take(limits::DISKS_MAX).filter(move |disk| disks >> disk & 1 == 1).map(DiskId)
    }

    /// The disk, if there is only one.
    #[must_use]
    pub fn alone(&self) -> Option<DiskId> {
        self.iter().next().filter(|_| self.disks.count_ones() == 1)
    }

    /// The share of all bytes that each of them is written.
    #[must_use]
    pub fn share(&self) -> f64 {
        f64::from(self.copies) / f64::from(self.disks.count_ones().max(1))
    }
}

const _: () = assert!(limits::DISKS_MAX <= u32::BITS as usize, "a bit for each disk");

/// Real-time (a recording) or best-effort work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkClass {
    /// Served in the disk time that real-time work leaves.
    BestEffort,
    /// A block of a recording that is due.
    RealTime {
        /// Granted by admission.
        reservation: ReservationId,
        /// When the bytes must be durable.
        deadline: Nanos,
    },
}

/// Leave to work, from the schedule to a store thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The disk.
    pub disk: DiskId,
    /// The job.
    pub job: JobId,
    /// For writes: at most this many bytes, in pieces of [`piece_bytes`].
    pub bytes_max: u64,
    /// No piece is begun after this time (monotonic clock); the operation of a commit or probe is begun at once.
    pub until: Nanos,
}

/// Most bytes of a piece of a write that begins no piece after `until`. A write without such a bound is made in larger pieces: 200 MB
/// behind the end of a file on ext4, which writes such pieces one after the other, took 0.05 s of the kernel's processor time instead of
/// 0.18, and 4.0 s instead of 8.7 (emulated 7200 rpm disk).
#[must_use]
pub const fn piece_bytes(until: Nanos) -> u64 {
    if until.0 == Nanos::MAX.0 { limits::CHUNK_BYTES } else { limits::PIECE_BYTES_MAX }
}

/// Result of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantDone {
    /// The disk.
    pub disk: DiskId,
    /// The job.
    pub job: JobId,
    /// Bytes written.
    pub bytes: u64,
    /// When it began.
    pub started: Nanos,
    /// When it ended.
    pub ended: Nanos,
    /// False if the disk gave an error (the store thread deals with the upload; the schedule with the disk).
    pub ok: bool,
    /// Bytes of this job that are ready now beyond those written, and where they go: the job's next offer (zero: none yet).
    pub ready_bytes: u64,
    /// Position of the first of them.
    pub position: u64,
}
