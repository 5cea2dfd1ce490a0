//! The client's side of an upload.
//!
//! Promise: bytes are copied once, into leased memory; whoever sends faster than the disk is granted time waits in
//! [`Upload::append`], in memory that is bounded per upload and over all, and that no other client keeps from it (`buffers`);
//! an upload that is dropped leaves nothing, or what came of it if that was asked for.
//! Not here: writing (`worker::upload`).

use std::sync::Arc;

use storage::uploads::RecordingTerms;
use units::limits;

use crate::StoreError;
use crate::buffers::{BufferShare, Chunk, UPLOAD_BUFFER_BYTES, UploadBuffers};
use crate::disk::DiskHandle;
use crate::home::UploadRoot;
use crate::operation::{self, Begun, Operation, UploadProgress, UploadTerms};
use crate::request::{Published, UploadClass, UploadRequest};

/// Bytes that a best-effort upload has in flight at most: enough to keep its disk busy while more come.
const UPLOAD_BYTES_MAX: u64 = 8 * limits::CHUNK_BYTES;

/// An upload in progress. Dropping it breaks it off ([`crate::OnBreak`]).
#[derive(Debug)]
pub struct Upload {
    disk: DiskHandle,
    begun: Begun,
    buffers: Arc<BufferShare>,
    progress: Arc<UploadProgress>,
    length: Option<u64>,
    received_bytes: u64,
    /// Kept so that other uploads of this name go to the same root meanwhile.
    _home: Arc<UploadRoot>,
}

impl Upload {
    /// Begins an upload on `disk`, below its root number `root`.
    pub(crate) async fn begin(
        disk: &DiskHandle,
        root: usize,
        request: UploadRequest,
        buffers: &UploadBuffers,
        home: Arc<UploadRoot>,
    ) -> Result<Self, StoreError> {
        let few = |count: u64| u32::try_from(count).expect("a few");
        let (own, most, recording) = match request.class {
            UploadClass::BestEffort => (1, few(UPLOAD_BYTES_MAX / UPLOAD_BUFFER_BYTES), None),
            UploadClass::Recording { rate, reservation, .. } => {
                let recording = RecordingTerms { rate, reservation };
                (few(recording.chunks()), few(recording.chunks()), Some(recording))
            }
        };
        let buffers = buffers.share(own, most)?;
        let progress = Arc::new(UploadProgress::default());
        let terms = UploadTerms {
            length: request.length,
            precondition: request.precondition,
            recording,
            on_break: request.on_break,
            progress: Arc::clone(&progress),
        };
        let (path, length) = (request.path, request.length);
        let begun = disk.call(|reply| Operation::Begin { root, path, terms, reply }).await?;
        let (disk, received_bytes) = (disk.clone(), begun.begun_with);
        Ok(Self { disk, begun, buffers, progress, length, received_bytes, _home: home })
    }

    /// Bytes that an earlier upload has left: what is appended goes behind them.
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
            let taken = bytes.len().min(chunk.lease.len() - chunk.filled);
            chunk.lease[chunk.filled..chunk.filled + taken].copy_from_slice(&bytes[..taken]);
            chunk.filled += taken;
            bytes = &bytes[taken..];
            self.received_bytes += u64::try_from(taken).expect("at most a lease");
            let full = chunk.filled == chunk.lease.len();
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
    /// hold any more, and as [`Upload::append`]. Nothing is visible then or later, unless it is [`crate::OnBreak::Keep`] or the
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

    /// An empty chunk, waited for while the disk works: it has one again as soon as the disk has written what it handed over.
    async fn lease(&self) -> Result<Chunk, StoreError> {
        let either = async {
            tokio::select! {
                chunk = self.buffers.lease() => chunk,
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
