//! The client's side of an upload.
//!
//! Promise: bytes are copied once, into leased memory; a client faster than the grants of the disk waits in [`Upload::append`], in memory
//! that is bounded per upload and over all, and that no other client keeps from it (`buffers`); an upload that is dropped leaves nothing,
//! or its received bytes on request.
//! Not here: writing (`worker::upload`).

use std::sync::Arc;
use std::time::Duration;

use kernel::clock::monotonic;
use storage::grant::RecordingPlace;
use storage::uploads::RecordingTerms;
use tokio::time::timeout;
use units::{DiskId, Nanos, limits};

use crate::StoreError;
use crate::buffers::{BufferShare, Chunk, UPLOAD_BUFFER_BYTES, UploadBuffers, count, index};
use crate::disk::DiskHandle;
use crate::operation::{self, Begun, Operation, UploadProgress, UploadTerms};
use crate::request::{Published, RecordingMemory, UploadClass, UploadRequest};
use crate::upload_root::UploadRoot;

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
    /// Time at which the received bytes of a recording are handed over next, though no chunk is full.
    cut: Option<(RecordingPlace, Nanos)>,
    /// Kept so that other uploads of this name go to the same root meanwhile.
    _home: Arc<UploadRoot>,
}

impl Upload {
    /// The disk that it is written to.
    #[must_use]
    pub fn disk(&self) -> DiskId {
        self.disk.shared.id
    }

    /// Begins an upload on `disk`, below its root number `root`.
    pub(crate) async fn begin(
        disk: &DiskHandle,
        root: usize,
        request: UploadRequest,
        buffers: &UploadBuffers,
        home: Arc<UploadRoot>,
    ) -> Result<Self, StoreError> {
        let few = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let (own, most, recording, reserved_on) = match request.class {
            UploadClass::BestEffort => (1, few(UPLOAD_BYTES_MAX / UPLOAD_BUFFER_BYTES), None, None),
            UploadClass::Recording { rate, disks, reservation, place } => {
                // Another content of the same recording may have had its blocks before.
                let place = RecordingPlace { first: place.next(monotonic()), ..place };
                let recording = RecordingTerms { rate, reservation, place };
                (few(place.chunks(rate)), few(place.chunks(rate)), Some(recording), disks.alone())
            }
        };
        let free = buffers.own_free();
        let buffers = match request.memory {
            Some(RecordingMemory(memory)) => memory,
            None => buffers.share(own, most).map_err(|error| match recording {
                Some(_) => StoreError::NoBuffers { needed: index(own.into()), free },
                None => error,
            })?,
        };
        let progress = Arc::new(UploadProgress::default());
        let terms = UploadTerms {
            length: request.length,
            precondition: request.precondition,
            recording,
            reserved_on,
            on_break: request.on_break,
            name_taken: request.name_taken,
            durable: request.durable,
            modified: request.modified,
            progress: Arc::clone(&progress),
        };
        let (path, length) = (request.path, request.length);
        let begun = disk.call(|reply| Operation::Begin { root, path, terms, reply }).await?;
        let (disk, received_bytes) = (disk.clone(), begun.begun_with);
        debug_assert!(received_bytes.is_multiple_of(limits::DIRECT_ALIGN), "an upload resumes at a whole direct write");
        let cut = recording.map(|recording| (recording.place, recording.place.next(monotonic())));
        Ok(Self { disk, begun, buffers, progress, length, received_bytes, cut, _home: home })
    }

    /// Bytes that an earlier upload has left: appended bytes go behind them.
    #[must_use]
    pub const fn begun_with(&self) -> u64 {
        self.begun.begun_with
    }

    /// Its memory, for another content that continues it.
    #[must_use]
    pub fn memory(&self) -> RecordingMemory {
        RecordingMemory(Arc::clone(&self.buffers))
    }

    /// Takes the next bytes. Waits while the upload is as far ahead of the disk as its memory allows.
    ///
    /// # Errors
    /// [`StoreError::TooLong`] beyond the announced length; any error of the disk meanwhile ([`StoreError::NoSpace`] …),
    /// [`StoreError::DiskFailing`] if it does not answer for too long. The upload is over then: drop it.
    pub async fn append(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        let more = u64::try_from(bytes.len()).expect("usize is at most 64 bits");
        if self.length.is_some_and(|length| more > length - self.received_bytes) {
            return Err(StoreError::TooLong);
        }
        while !bytes.is_empty() {
            self.check()?;
            self.cut_if_due().await?;
            let mut chunk = match self.begun.filling.take() {
                Some(chunk) => chunk,
                None => self.lease().await?,
            };
            // A chunk ends where a whole one would: a recording's cut chunk never extends beyond a unit of a volume. Its first one ends
            // with the first direct write: on a volume its place is known then, and no other recording waits for that.
            let begin = index(self.received_bytes - count(chunk.filled)) % chunk.lease.len();
            let is_first = self.received_bytes == count(chunk.filled) && self.cut.is_some();
            let size = if is_first { index(limits::DIRECT_ALIGN) } else { chunk.lease.len() - begin };
            let taken = bytes.len().min(size - chunk.filled);
            chunk.lease[chunk.filled..chunk.filled + taken].copy_from_slice(&bytes[..taken]);
            chunk.filled += taken;
            bytes = &bytes[taken..];
            self.received_bytes += u64::try_from(taken).expect("at most a lease");
            let full = chunk.filled == size;
            self.begun.filling = Some(chunk);
            if full {
                self.hand_over().await?;
            }
        }
        debug_assert!(
            self.length.is_none_or(|length| self.received_bytes <= length),
            "bytes beyond the announced length"
        );
        Ok(())
    }

    /// Writes the remaining bytes, publishes, and makes durable.
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

    /// Waits until the disk's side has given the upload up, and returns its error: it may do so while the client sends nothing. Never
    /// ends for an upload without an error. The received bytes of a recording are handed over meanwhile when its block is due.
    pub async fn failed(&mut self) -> StoreError {
        loop {
            if let Err(error) = self.check() {
                return error;
            }
            let Some((_, at)) = self.cut.filter(|_| self.begun.filling.is_some()) else {
                self.progress.failed.notified().await;
                continue;
            };
            let until = Duration::from_nanos(at.saturating_sub(monotonic()).0);
            if timeout(until, self.progress.failed.notified()).await.is_err()
                && let Err(error) = self.cut_if_due().await
            {
                return error;
            }
        }
    }

    /// Hands over the received bytes of a recording with a block that is due, in whole direct writes; the rest begins another chunk.
    async fn cut_if_due(&mut self) -> Result<(), StoreError> {
        let Some((place, _)) = self.cut.filter(|(_, at)| monotonic() >= *at) else { return Ok(()) };
        let filled = self.begun.filling.as_ref().map_or(0, |chunk| chunk.filled);
        let whole = filled - filled % index(limits::DIRECT_ALIGN);
        if whole > 0 {
            let mut rest = if whole < filled { Some(self.lease().await?) } else { None };
            let turn = self.disk.place().await?;
            if let Some(mut chunk) = self.begun.filling.take() {
                if let Some(rest) = &mut rest {
                    debug_assert!(rest.filled == 0, "a leased chunk is empty");
                    rest.filled = filled - whole;
                    rest.lease[..rest.filled].copy_from_slice(&chunk.lease[whole..filled]);
                }
                chunk.filled = whole;
                turn.send(Operation::Append { upload: self.begun.id, chunk });
                self.disk.shared.wake();
            }
            self.begun.filling = rest;
        }
        debug_assert!(
            self.begun.filling.as_ref().is_none_or(|chunk| whole == 0 || count(chunk.filled) < limits::DIRECT_ALIGN),
            "all of a block that is due was handed over but for a part of a direct write"
        );
        self.cut = Some((place, place.next(monotonic())));
        Ok(())
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failure().map_or(Ok(()), Err)
    }

    /// The error for which the disk's side gave it up.
    fn failure(&self) -> Option<StoreError> {
        let error = self.progress.failure.get()?;
        Some(self.disk.shared.own(error.clone()))
    }

    /// An empty chunk, waited for while the disk works: it has one again as soon as the disk has written the chunk handed over before.
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
            debug_assert!(
                chunk.filled > 0 && count(chunk.filled).is_multiple_of(limits::DIRECT_ALIGN),
                "only an upload's last chunk ends within a direct write"
            );
            place.send(Operation::Append { upload: self.begun.id, chunk });
            self.disk.shared.wake();
        }
        Ok(())
    }
}
