//! Memory of uploads: leased buffers, and the right to one.
//!
//! Promise: what uploads hold is bounded per upload and over all, and given back after a lull. Not here: who waits for a buffer
//! (`upload`).

use std::io;
use std::sync::Arc;

use kernel::pool::{Lease, LeasePool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use units::Nanos;

/// How long a buffer's memory is kept for the next upload.
const LULL: Nanos = Nanos::from_secs(10);

/// Upload buffers: the memory, and who is next.
#[derive(Debug, Clone)]
pub(crate) struct UploadBuffers {
    pub(crate) pool: LeasePool,
    pub(crate) permits: Arc<Semaphore>,
}

impl UploadBuffers {
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        Ok(Self { pool: LeasePool::new(count)?, permits: Arc::new(Semaphore::new(count)) })
    }

    /// Gives memory back that was not used for a while.
    pub(crate) fn give_back(&self) {
        self.pool.give_back(LULL);
    }
}

/// The right to a buffer: one taken from what is free, or one of a recording's own.
#[derive(Debug)]
pub(crate) enum BufferPermit {
    One { _permit: OwnedSemaphorePermit },
    Reserved { _permit: Arc<OwnedSemaphorePermit> },
}

/// Bytes on their way from a client to the disk. Dropping it frees the memory and wakes who waits for some.
#[derive(Debug)]
pub(crate) struct Chunk {
    // Dropped before the permits, so that a permit always finds a buffer.
    pub(crate) lease: Lease,
    pub(crate) filled: usize,
    pub(crate) _of_pool: BufferPermit,
    pub(crate) _of_upload: OwnedSemaphorePermit,
}

/// So many bytes of chunks in memory.
pub(crate) fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("within a few chunks")
}

/// A length in memory, in bytes.
pub(crate) fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("usize is at most 64 bits")
}
