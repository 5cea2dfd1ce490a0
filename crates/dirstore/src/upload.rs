//! The client's side of an upload.
//!
//! Promise: bytes are copied once, into leased memory; whoever sends faster than the disk is granted time waits in
//! [`Upload::append`], in memory that is bounded per upload and over all; an upload that is dropped leaves nothing, or what
//! came of it if that was asked for.
//! Not here: writing (`worker::upload`).

use std::io;
use std::sync::{Arc, OnceLock};

use kernel::pool::{LEASE_BYTES, LeasePool};
use storage::leftover::part_name;
use storage::uploads::RecordingTerms;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use units::{BitRate, DiskId, Nanos, ReservationId, UploadId};

use crate::disk::{DiskHandle, DiskShared};
use crate::home::NameHome;
use crate::operation::{self, Operation};
use crate::worker::Chunk;
use crate::{ContentPath, Precondition, StoreError};

/// Chunks a best-effort upload has in flight at most: enough to keep its disk busy while more come.
const CHUNKS_PER_UPLOAD: usize = 8;

/// How long a buffer's memory is kept for the next upload.
const LULL: Nanos = Nanos::from_secs(10);

/// What is to be uploaded.
#[derive(Debug, Clone)]
pub struct UploadRequest {
    /// Where to. Its directory must exist.
    pub path: ContentPath,
    /// Bytes, if known. It is refused at once if there is no space for all of it; space is taken as it comes.
    pub length: Option<u64>,
    /// Checked at once, and again when it is published.
    pub precondition: Precondition,
    /// How it is written.
    pub class: UploadClass,
    /// What becomes of it if it breaks off.
    pub on_break: OnBreak,
}

/// What becomes of an upload that is dropped before it is finished, or for which the disk has no more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBreak {
    /// Nothing of it is left.
    #[default]
    Discard,
    /// What has come is published under its name. If the server dies, the next start does that.
    Keep,
    /// What was written stays for a week, hidden, for an upload of the same name and the same number here, which stands for the version
    /// of what is sent: it goes on behind it ([`Upload::begun_with`]). A volume keeps nothing.
    Resume(u64),
}

impl OnBreak {
    /// The hidden name of what an upload called `name` goes on with.
    pub(crate) fn part_name(self, name: &str) -> Option<String> {
        match self {
            Self::Discard | Self::Keep => None,
            Self::Resume(version) => Some(part_name(name, version)),
        }
    }
}

/// How an upload is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadClass {
    /// In the time that streams leave.
    BestEffort,
    /// A recording, at a rate admission has granted.
    Recording {
        /// Payload bits per second.
        rate: BitRate,
        /// Where admission gave it.
        disk: DiskId,
        /// What admission gave.
        reservation: ReservationId,
    },
}

/// A content that is visible and durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// False if it replaced another one.
    pub created: bool,
    /// As [`crate::Entry::etag`].
    pub etag: String,
    /// Bytes.
    pub size: u64,
}

/// Upload buffers: the memory, and who is next.
#[derive(Debug, Clone)]
pub(crate) struct UploadBuffers {
    pool: LeasePool,
    permits: Arc<Semaphore>,
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
pub(crate) enum BufferRight {
    One { _permit: OwnedSemaphorePermit },
    Reserved { _permit: Arc<OwnedSemaphorePermit> },
}

/// What the disk's thread tells an upload's handle.
#[derive(Debug, Default)]
pub(crate) struct UploadProgress {
    failure: OnceLock<StoreError>,
    failed: Notify,
}

impl UploadProgress {
    pub(crate) fn fail(&self, error: StoreError) {
        let _ = self.failure.set(error);
        self.failed.notify_one();
    }
}

/// What the disk's thread must know to begin.
#[derive(Debug)]
pub(crate) struct UploadTerms {
    pub(crate) length: Option<u64>,
    pub(crate) precondition: Precondition,
    pub(crate) recording: Option<RecordingTerms>,
    pub(crate) on_break: OnBreak,
    pub(crate) progress: Arc<UploadProgress>,
}

/// An upload that the disk's thread knows. Dropping it tells the thread that no more will come.
#[derive(Debug)]
pub(crate) struct Begun {
    shared: Arc<DiskShared>,
    id: UploadId,
    /// Bytes of an earlier upload.
    begun_with: u64,
    /// The chunk that is being filled.
    filling: Option<Chunk>,
}

impl Begun {
    pub(crate) const fn new(shared: Arc<DiskShared>, id: UploadId, begun_with: u64) -> Self {
        Self { shared, id, begun_with, filling: None }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // Of an upload that is finished the thread knows nothing any more.
        self.shared.abort(self.id, self.filling.take());
    }
}

/// An upload in progress. Dropping it breaks it off ([`OnBreak`]).
#[derive(Debug)]
pub struct Upload {
    disk: DiskHandle,
    begun: Begun,
    buffers: UploadBuffers,
    /// This upload's share of them.
    share: Arc<Semaphore>,
    /// A recording's buffers are its own from the start.
    reserved: Option<Arc<OwnedSemaphorePermit>>,
    progress: Arc<UploadProgress>,
    length: Option<u64>,
    received_bytes: u64,
    /// Kept for who uploads the same name meanwhile.
    _home: Arc<NameHome>,
}

impl Upload {
    /// Begins an upload on `disk`, below its root number `root`.
    pub(crate) async fn begin(
        disk: &DiskHandle,
        root: usize,
        request: UploadRequest,
        buffers: UploadBuffers,
        home: Arc<NameHome>,
    ) -> Result<Self, StoreError> {
        let (chunks, recording) = match request.class {
            UploadClass::BestEffort => (CHUNKS_PER_UPLOAD, None),
            UploadClass::Recording { rate, reservation, .. } => {
                let recording = RecordingTerms { rate, reservation };
                (usize::try_from(recording.chunks()).expect("a few"), Some(recording))
            }
        };
        let reserved = match recording {
            None => None,
            Some(_) => {
                let count = u32::try_from(chunks).expect("a few");
                let permits = Arc::clone(&buffers.permits).try_acquire_many_owned(count);
                Some(Arc::new(permits.map_err(|_| StoreError::Busy)?))
            }
        };
        let progress = Arc::new(UploadProgress::default());
        let terms = UploadTerms {
            length: request.length,
            precondition: request.precondition,
            recording,
            on_break: request.on_break,
            progress: Arc::clone(&progress),
        };
        let (path, length) = (request.path, request.length);
        let share = Arc::new(Semaphore::new(chunks));
        let begun = disk.call(|reply| Operation::Begin { root, path, terms, reply }).await?;
        let (disk, received_bytes) = (disk.clone(), begun.begun_with);
        Ok(Self { disk, begun, buffers, share, reserved, progress, length, received_bytes, _home: home })
    }

    /// So many bytes of it are there from an earlier one: what is appended goes behind them.
    #[must_use]
    pub const fn begun_with(&self) -> u64 {
        self.begun.begun_with
    }

    /// Takes the next bytes. Waits while the upload is as far ahead of the disk as its memory allows.
    ///
    /// # Errors
    /// [`StoreError::TooLong`] beyond the announced length; whatever the disk said meanwhile ([`StoreError::NoSpace`]
    /// …), [`StoreError::DiskFailing`] if it says nothing for too long. The upload is over then: drop it.
    pub async fn append(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        let more = u64::try_from(bytes.len()).expect("usize is at most 64 bits");
        if self.length.is_some_and(|length| more > length - self.received_bytes) {
            return Err(StoreError::TooLong);
        }
        while !bytes.is_empty() {
            self.check()?;
            let mut chunk = match self.begun.filling.take() {
                Some(chunk) => chunk,
                None => self.lease().await?,
            };
            let taken = bytes.len().min(LEASE_BYTES - chunk.filled);
            chunk.lease[chunk.filled..chunk.filled + taken].copy_from_slice(&bytes[..taken]);
            chunk.filled += taken;
            bytes = &bytes[taken..];
            self.received_bytes += u64::try_from(taken).expect("at most a lease");
            let full = chunk.filled == LEASE_BYTES;
            self.begun.filling = Some(chunk);
            if full {
                self.hand_over().await?;
            }
        }
        Ok(())
    }

    /// Writes what is left, publishes, and makes durable.
    ///
    /// # Errors
    /// [`StoreError::TooShort`] if bytes are missing, [`StoreError::PreconditionFailed`] if the precondition does not
    /// hold any more, and as [`Upload::append`]. Nothing is visible then or later, unless it is [`OnBreak::Keep`] or the
    /// error [`StoreError::Unsettled`].
    pub async fn finish(mut self) -> Result<Published, StoreError> {
        self.check()?;
        if self.length.is_some_and(|length| length != self.received_bytes) {
            return Err(StoreError::TooShort);
        }
        let (reply, answer) = operation::change();
        let place = self.disk.place().await?;
        place.send(Operation::Finish { upload: self.begun.id, last: self.begun.filling.take(), reply });
        self.disk.shared.wake();
        self.disk.settle(answer).await.map_err(|error| match error {
            StoreError::Closed => self.failure().unwrap_or(error),
            error => error,
        })
    }

    /// Waits until the disk's side has given the upload up, and says why: it may do so while its client sends nothing. Never
    /// ends for an upload that goes well.
    pub async fn failed(&self) -> StoreError {
        loop {
            if let Err(error) = self.check() {
                return error;
            }
            self.progress.failed.notified().await;
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Why the disk's side gave it up.
    fn failure(&self) -> Option<StoreError> {
        let error = self.progress.failure.get()?;
        Some(error.clone().of_disk(self.disk.shared.id))
    }

    /// An empty chunk, waited for in turn.
    async fn lease(&self) -> Result<Chunk, StoreError> {
        let work = async {
            let of_upload = Arc::clone(&self.share).acquire_owned().await;
            let of_pool = match &self.reserved {
                Some(reserved) => BufferRight::Reserved { _permit: Arc::clone(reserved) },
                None => {
                    let permit = Arc::clone(&self.buffers.permits).acquire_owned().await;
                    BufferRight::One { _permit: permit.map_err(|_| StoreError::Closed)? }
                }
            };
            let lease = self.buffers.pool.try_lease().ok_or(StoreError::Busy)?;
            let _of_upload = of_upload.map_err(|_| StoreError::Closed)?;
            Ok(Chunk { lease, filled: 0, _of_pool: of_pool, _of_upload })
        };
        let either = async {
            tokio::select! {
                chunk = work => chunk,
                () = self.progress.failed.notified() => {
                    Err(self.failure().unwrap_or(StoreError::Closed))
                }
            }
        };
        self.disk.while_it_works(either).await?
    }

    /// Gives a full chunk to the disk's thread. It is taken only once there is a place for it: a cancelled wait loses
    /// nothing.
    async fn hand_over(&mut self) -> Result<(), StoreError> {
        let place = self.disk.place().await?;
        if let Some(chunk) = self.begun.filling.take() {
            place.send(Operation::Append { upload: self.begun.id, chunk });
            self.disk.shared.wake();
        }
        Ok(())
    }
}

/// So many bytes of chunks in memory.
pub(crate) fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("within a few chunks")
}

/// A length in memory, in bytes.
pub(crate) fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("usize is at most 64 bits")
}
