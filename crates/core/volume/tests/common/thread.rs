//! Tasks of the thread of a disk.

use std::collections::{BTreeMap, VecDeque};

use volume::DiskWrite;

/// A disk's thread.
#[derive(Default)]
pub(crate) struct DiskThread {
    pub(crate) job: Option<Job>,
    /// Writes of uploads that it has not begun yet.
    pub(crate) parts: BTreeMap<u64, UploadPart>,
    /// Its disk was taken out: it reports the end of its job, and ends.
    pub(crate) is_out: bool,
}

/// Its writes of an upload.
#[derive(Default)]
pub(crate) struct UploadPart {
    pub(crate) writes: VecDeque<DiskWrite>,
    /// Bytes written of it.
    pub(crate) written: u64,
    pub(crate) is_finished: bool,
    pub(crate) is_forgotten: bool,
}

/// Its work now: writes, and the flush behind them.
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) writes: VecDeque<DiskWrite>,
    pub(crate) is_flushed: bool,
}

/// The purpose of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// A share of the set of this number.
    Share(u64),
    /// Some of an upload.
    Write,
    /// A flush behind the recordings' blocks.
    Grow,
    /// All that is left of the upload of this number.
    Finish(u64),
}
