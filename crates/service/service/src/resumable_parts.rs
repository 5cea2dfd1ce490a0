//! The bytes of uploads that are continued: each request's bytes are a content of their own under a hidden name in the target's folder, and
//! become the target when all are there.
//!
//! Promise: a part that is counted is durable; a request that breaks off leaves the bytes that came of it, unless a checksum was to prove
//! them. One part gets the target's name; several are copied into it, as best effort. Not here: the table (`resumable`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use crate::access::{Permit, ToWrite};
use crate::budget_use;
use crate::contents::{ContentPath, NameKind, OnBreak, Precondition, StoreError};
use crate::delivery::Client;
use crate::events::{self, UploadOutcome};
use crate::ingest::{self, IngestRequest, Writer};
use crate::ingest_error::IngestError;
use crate::namespace;
use crate::operations::Requester;
use crate::pipeline::Stages;
use crate::resumable::{KeptUpload, ResumableUploads, ResumeError, UploadRecord, UploadRole};
use crate::stored_parts::{PARTS_MAX, StoredParts, part_path};

/// A client waits this long for bytes that a crash left: a disk full of streams has little time for them, and a disk that is gone has none.
const RECOVERY_MAX: Duration = Duration::from_secs(30);

/// Terms of an append.
#[derive(Debug, Clone, Copy)]
pub struct AppendTerms {
    /// The byte at which the client continues.
    pub offset: u64,
    /// Bytes that the request has, if it says so.
    pub length: Option<u64>,
    /// Bytes of a request that breaks off are not kept: its checksum could not prove them.
    pub whole_only: bool,
    /// These are the last bytes: with them the length is known.
    pub completes: bool,
    /// The client.
    pub client: Client,
}

/// A request that appends to an upload.
pub struct AppendedPart {
    uploads: Arc<ResumableUploads>,
    kept: Arc<KeptUpload>,
    turn: Option<OwnedMutexGuard<StoredParts>>,
    writer: Option<Writer>,
    received: u64,
    /// Bytes that may come at most.
    room: Option<u64>,
    whole_only: bool,
    completes: bool,
}

/// State of an upload after an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Durable bytes.
    pub offset: u64,
    /// It is a content by now.
    pub is_done: bool,
}

impl ResumableUploads {
    /// Begins to append at an offset.
    ///
    /// # Errors
    /// The offset is another one, more bytes are announced than there is room for, or they cannot be stored.
    pub async fn append(
        self: &Arc<Self>,
        permit: &Permit<ToWrite>,
        id: &str,
        terms: AppendTerms,
    ) -> Result<AppendedPart, ResumeError> {
        let kept = self.find(id, permit.user())?;
        let turn = self.turn(&kept).await?;
        let record = kept.record();
        // A client whose last answer was lost sends no more bytes, and gets it again.
        let end = if record.is_done { record.length.unwrap_or(0) } else { turn.end() };
        if terms.offset != end {
            return Err(ResumeError::Offset(end));
        }
        let room = record.length.map(|length| length.saturating_sub(terms.offset));
        if let (Some(length), Some(room), Some(all)) = (terms.length, room, record.length)
            && length > room
        {
            return Err(ResumeError::TooLong(all));
        }
        if turn.parts.len() >= PARTS_MAX {
            return Err(ResumeError::TooMany);
        }
        let request = IngestRequest {
            on_break: if terms.whole_only { OnBreak::Discard } else { OnBreak::Keep },
            modified: record.modified(),
            // It may replace a part that a crash left and that was found late: that is of the same bytes.
            ..IngestRequest::upload(None, terms.client)
        };
        let at = permit.at(part_path(&kept.path(), id, terms.offset));
        let writer = match terms.length {
            Some(0) => None,
            _ => {
                let writer = ingest::begin(&self.service, &at, request, Stages::default()).await?;
                writer.list_as(&kept.path());
                Some(writer)
            }
        };
        let AppendTerms { whole_only, completes, .. } = terms;
        let (uploads, turn) = (Arc::clone(self), Some(turn));
        Ok(AppendedPart { uploads, kept, turn, writer, received: 0, room, whole_only, completes })
    }

    /// Looks up the parts that are there, once. Behind them may lie the bytes of a request that a crash broke off: at most one such, for
    /// the offset at which the next one began counted it.
    pub(crate) async fn look_at_parts(&self, kept: &KeptUpload, turn: &mut StoredParts) -> Result<(), ResumeError> {
        let record = kept.record();
        if turn.is_known || record.is_done {
            return Ok(());
        }
        let (target, contents) = (kept.path(), &self.service.contents);
        let mut is_recovered = false;
        while turn.parts.len() < PARTS_MAX {
            let part = part_path(&target, &record.id, turn.end);
            match contents.lookup(&part).await {
                Ok(entry) if entry.kind == NameKind::File && entry.size > 0 => turn.add(entry.size),
                Err(StoreError::NotFound) if !is_recovered => {
                    let recovered = timeout(RECOVERY_MAX, contents.recover(&part)).await;
                    match recovered.unwrap_or(Err(StoreError::Busy)) {
                        // It may have got its name between the two.
                        Ok(_) | Err(StoreError::NotFound | StoreError::NotADirectory) => is_recovered = true,
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(_) | Err(StoreError::NotFound | StoreError::NotADirectory) => break,
                Err(error) => return Err(error.into()),
            }
        }
        turn.is_known = true;
        kept.offset.store(turn.end, Ordering::Relaxed);
        Ok(())
    }

    /// Removes all parts. What an upload stored belongs to its parts until it is a content.
    pub(crate) async fn remove_parts(&self, kept: &KeptUpload, turn: &mut StoredParts) {
        // A part that came late, as the rest of a request that the store refused, goes as well.
        *turn = StoredParts::of(&kept.record().id);
        let _ = self.look_at_parts(kept, turn).await;
        let (target, mut removed) = (kept.path(), 0);
        for (id, offset, bytes) in std::mem::take(&mut turn.parts) {
            // A part that stays is hidden, and takes space until an operator removes it.
            let path = part_path(&target, &id, offset);
            if self.service.contents.delete(&path, Precondition::None).await.is_ok() {
                removed += bytes;
            }
        }
        self.service.quotas.removed();
        budget_use::removed(&self.service, kept.record().charged.iter(), removed);
        turn.end = 0;
    }

    /// Makes the content of its parts: the one part gets the name, several are copied.
    pub(crate) async fn assemble(&self, kept: &KeptUpload, turn: &mut StoredParts) -> Result<(), ResumeError> {
        let (record, target) = (kept.record(), kept.path());
        let modified = record.modified();
        let UploadRecord { client, user, charged, only_new, .. } = record;
        let replaced = match self.service.contents.lookup(&target).await {
            Ok(entry) if entry.kind == NameKind::Directory => return Err(StoreError::IsDirectory.into()),
            Ok(entry) => entry.size,
            Err(_) => 0,
        };
        let client = Client { address: client, local: client, is_proxy: true };
        let begun = Instant::now();
        if let [(id, offset, bytes)] = turn.parts.as_slice() {
            let (part, bytes) = (self.part_place(id, &target, *offset), *bytes);
            self.service.contents.rename(&part, &target, !only_new).await?;
            self.service.quotas.removed();
            budget_use::removed(&self.service, charged.iter(), replaced);
            self.service.listings.note_write();
            let end = UploadOutcome { stored_bytes: Ok(bytes), duration: begun.elapsed() };
            let by = Requester { address: client.address, user: user.as_deref() };
            let event = events::upload_ended(&target.joined(), by, &end, SystemTime::now());
            self.service.events.tell(event);
            turn.parts.clear();
            return Ok(());
        }
        let request = IngestRequest {
            precondition: if only_new { Precondition::MustNotExist } else { Precondition::None },
            modified,
            ..IngestRequest::upload(Some(turn.end), client)
        };
        let to = Permit::of_configuration(target.clone());
        let mut writer = ingest::begin(&self.service, &to, request, Stages::default()).await?;
        writer.name_user(user);
        for (id, offset, _) in &turn.parts {
            let from = Permit::of_configuration(self.part_place(id, &target, *offset));
            namespace::copy_into(&self.service, &from, &mut writer, client).await?;
        }
        writer.finish().await?;
        for (id, offset, _) in std::mem::take(&mut turn.parts) {
            let part = self.part_place(&id, &target, offset);
            let _ = self.service.contents.delete(&part, Precondition::None).await;
        }
        self.service.quotas.removed();
        budget_use::removed(&self.service, charged.iter(), replaced);
        Ok(())
    }

    /// The path of a part of the upload `id`, which may have another target than the content that it becomes a part of.
    fn part_place(&self, id: &str, target: &ContentPath, offset: u64) -> ContentPath {
        part_path(&self.path_of(id).unwrap_or_else(|_| target.clone()), id, offset)
    }
}

impl AppendedPart {
    /// Takes the next bytes; waits while the disk is behind.
    ///
    /// # Errors
    /// More than were announced, or they cannot be stored.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), ResumeError> {
        let came = self.received + piece.len() as u64;
        if let Some(room) = self.room.filter(|room| came > *room) {
            return Err(ResumeError::TooLong(self.turn.as_ref().map_or(0, |turn| turn.end) + room));
        }
        if let Some(writer) = &mut self.writer {
            writer.write(piece).await?;
        }
        self.received = came;
        Ok(())
    }

    /// Waits until a newer request wants the turn, or the store fails.
    pub async fn ends(&mut self) -> ResumeError {
        let failed = async {
            match &mut self.writer {
                Some(writer) => writer.failed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.kept.wanted.notified() => ResumeError::InUse,
            error = failed => error.into(),
        }
    }

    /// Nothing of this request's bytes is to be kept.
    pub fn discard(mut self) {
        self.whole_only = true;
    }

    /// Makes the received bytes durable: no more of the request come.
    ///
    /// # Errors
    /// As [`AppendedPart::finish`].
    pub async fn break_off(mut self) -> Result<Appended, ResumeError> {
        self.completes = false;
        self.finish().await
    }

    /// Makes the received bytes durable; a content of all, if they are all.
    ///
    /// # Errors
    /// They cannot be stored, or not be put together.
    pub async fn finish(mut self) -> Result<Appended, ResumeError> {
        let Some(turn) = self.turn.take() else { return Err(ResumeError::Unknown) };
        let work = end(
            Arc::clone(&self.uploads),
            Arc::clone(&self.kept),
            turn,
            (self.writer.take(), self.received),
            self.completes,
        );
        // Its client may go before the end; what came is kept all the same.
        let ended = self.uploads.service.runtime.spawn(work).await;
        ended.map_err(|_| ResumeError::Ingest(IngestError::Stopping))?
    }
}

impl Drop for AppendedPart {
    fn drop(&mut self) {
        if self.whole_only {
            return;
        }
        let (Some(turn), Some(writer)) = (self.turn.take(), self.writer.take()) else { return };
        let work = end(Arc::clone(&self.uploads), Arc::clone(&self.kept), turn, (Some(writer), self.received), false);
        self.uploads.service.runtime.spawn(work);
    }
}

/// Ends the part of a request, and the upload if that is whole.
async fn end(
    uploads: Arc<ResumableUploads>,
    kept: Arc<KeptUpload>,
    mut turn: OwnedMutexGuard<StoredParts>,
    (writer, received): (Option<Writer>, u64),
    completes: bool,
) -> Result<Appended, ResumeError> {
    let record = kept.record();
    if record.is_done {
        return Ok(Appended { offset: record.length.unwrap_or(0), is_done: true });
    }
    if let Some(writer) = writer.filter(|_| received > 0) {
        match writer.finish().await {
            Ok(stored) => turn.add(stored.size),
            Err(error) => {
                // What came before a disk or quota was full is kept. The next request looks at the parts that are there.
                *turn = StoredParts::of(&record.id);
                return Err(error.into());
            }
        }
        kept.offset.store(turn.end, Ordering::Relaxed);
    }
    uploads.touch(&kept).await?;
    if completes {
        kept.end_at(turn.end);
    }
    let (record, offset) = (kept.record(), turn.end);
    if record.role == UploadRole::Whole && record.length == Some(offset) {
        if let Err(error) = uploads.assemble(&kept, &mut turn).await {
            // The next request looks at the parts that are there.
            *turn = StoredParts::of(&record.id);
            return Err(error);
        }
        uploads.note_done(&kept).await?;
        return Ok(Appended { offset, is_done: true });
    }
    Ok(Appended { offset, is_done: false })
}
