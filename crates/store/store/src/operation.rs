//! Operations of a disk's thread.
//!
//! Promise: plain messages; each that has an answer carries where it goes; a change that its caller gave up is not made later.
//! Not here: doing it (crates `folder` and `volumes`).

use std::any::Any;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use storage::uploads::RecordingTerms;
use tokio::sync::{Notify, oneshot};
use units::{DiskId, Nanos, UploadId};

use crate::buffers::Chunk;
use crate::entry::{FileId, Stamp};
use crate::event::StoreEvent;
use crate::request::{NameTaken, OnBreak, Published, UploadPlace};
use crate::shared::DiskShared;
use crate::walk::FolderItem;
use crate::{ContentPath, Entry, NameKind, Opened, Precondition, StoreError, Want};

/// Operations that wait for one disk's thread at most, and for its openers: more than the buffers of all uploads, so that these leave
/// room for others.
pub const OPERATIONS_MAX: usize = 4096;

/// Destination of an answer.
pub type ReplyTo<T> = oneshot::Sender<Result<T, StoreError>>;

/// Destination of the answer to a change. Either the disk's thread begins a step that it cannot take back, or the caller gives up: the
/// first of the two decides.
#[derive(Debug)]
pub struct ChangeReply<T> {
    reply: ReplyTo<T>,
    decided: Arc<AtomicBool>,
}

/// The caller's end of a [`ChangeReply`].
#[derive(Debug)]
pub struct ChangeAnswer<T> {
    /// The answer, when it comes.
    pub answer: oneshot::Receiver<Result<T, StoreError>>,
    decided: Arc<AtomicBool>,
}

/// Both ends for one change.
pub fn change<T>() -> (ChangeReply<T>, ChangeAnswer<T>) {
    let (reply, answer) = oneshot::channel();
    let decided = Arc::new(AtomicBool::new(false));
    (ChangeReply { reply, decided: Arc::clone(&decided) }, ChangeAnswer { answer, decided })
}

impl<T> ChangeReply<T> {
    /// Begins the step that cannot be taken back; false if the caller gave up.
    pub fn begin(&self) -> bool {
        !self.is_closed() && !self.decided.swap(true, Ordering::Relaxed)
    }

    /// True if no caller waits any more.
    pub fn is_closed(&self) -> bool {
        self.reply.is_closed()
    }

    /// Answers.
    pub fn send(self, result: Result<T, StoreError>) {
        drop(self.reply.send(result));
    }
}

/// Answers the client of an upload: it is durable, or the error; writes to the log if no client waits for it any more.
pub fn tell_end(
    path: ContentPath,
    reply: Option<ChangeReply<Published>>,
    outcome: Result<Published, StoreError>,
    shared: &DiskShared,
) {
    let stats = &shared.stats;
    if outcome.is_ok() { &stats.uploads_published } else { &stats.uploads_failed }.add(1);
    match reply.filter(|reply| !reply.is_closed()) {
        Some(reply) => reply.send(outcome),
        // Its client is gone, and it is kept.
        None => shared.events.tell(match outcome {
            Ok(published) => StoreEvent::RecordingKept { path, bytes: published.size, after_restart: false },
            Err(why) => StoreEvent::RecordingLost { path, why },
        }),
    }
}

impl<T> ChangeAnswer<T> {
    /// Gives the change up; false if it was begun.
    pub fn give_up(&self) -> bool {
        !self.decided.swap(true, Ordering::Relaxed)
    }
}

/// State of an upload that the disk's thread sets for the upload's handle.
#[derive(Debug, Default)]
pub struct UploadProgress {
    /// The error for which it cannot continue.
    pub failure: OnceLock<StoreError>,
    /// Wakes the handle when that is set.
    pub failed: Notify,
}

impl UploadProgress {
    /// Sets the error, and wakes the handle.
    pub fn fail(&self, error: StoreError) {
        let _ = self.failure.set(error);
        self.failed.notify_one();
    }
}

/// Terms that the disk's thread needs to begin an upload.
#[derive(Debug)]
pub struct UploadTerms {
    /// Its bytes, if they are known.
    pub length: Option<u64>,
    /// Checked now and when it is published.
    pub precondition: Precondition,
    /// Of a recording: its rate and time.
    pub recording: Option<RecordingTerms>,
    /// The disk on which that time is reserved, if it is one: it is written there.
    pub reserved_on: Option<DiskId>,
    /// Its outcome if it breaks off.
    pub on_break: OnBreak,
    /// Its outcome if another content has its name.
    pub name_taken: NameTaken,
    /// Time from the answer to its being durable, where that may be later.
    pub durable: Option<Nanos>,
    /// The content's modification time, if its client gave one.
    pub modified: Option<SystemTime>,
    /// State that the handle sees.
    pub progress: Arc<UploadProgress>,
}

/// An upload that the disk's thread knows. Dropping it signals the thread that no more bytes will come.
#[derive(Debug)]
pub struct Begun {
    shared: Arc<DiskShared>,
    /// Its number with the disk's thread.
    pub id: UploadId,
    /// Bytes of an earlier upload.
    pub begun_with: u64,
    /// The chunk that is being filled.
    pub filling: Option<Chunk>,
}

impl Begun {
    /// An upload that the thread has begun.
    pub const fn new(shared: Arc<DiskShared>, id: UploadId, begun_with: u64) -> Self {
        Self { shared, id, begun_with, filling: None }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // The thread has forgotten an upload that is finished.
        self.shared.abort(self.id, self.filling.take());
    }
}

/// A folder as it is read from one page to the next, in a state that only the kind of disk knows on which it lies.
#[derive(Debug, Clone)]
pub struct FolderHandle {
    /// Its identity; none if no other name can lead to it.
    pub id: Option<FileId>,
    state: Arc<dyn Any + Send + Sync>,
}

impl FolderHandle {
    /// A folder in this state.
    pub fn new(id: Option<FileId>, state: impl Any + Send + Sync) -> Self {
        Self { id, state: Arc::new(state) }
    }

    /// Its state.
    ///
    /// # Errors
    /// A disk of another kind has it.
    pub fn state<T: Any>(&self) -> Result<&T, StoreError> {
        self.state.downcast_ref().ok_or(StoreError::NotFound)
    }
}

/// An operation that changes nothing. `root` is the number of a folder among those on the disk.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields of a message are named by their contents")]
pub enum StoreQuery {
    /// Look up the entry that a path names.
    LookUp { root: usize, path: ContentPath, reply: ReplyTo<Entry> },
    /// Open a content for reading.
    Open { root: usize, path: ContentPath, want: Want, reply: ReplyTo<Opened> },
    /// Open a folder to read its entries.
    Folder { root: usize, path: ContentPath, reply: ReplyTo<FolderHandle> },
    /// Open the folder of this name in another, unless it is a link.
    Enter { folder: FolderHandle, name: OsString, reply: ReplyTo<FolderHandle> },
    /// The next page of a folder: names as they are, no link followed; empty at the end.
    Items { folder: FolderHandle, reply: ReplyTo<(FolderHandle, Vec<FolderItem>)> },
    /// The entries of the wanted names in the next page of the folder at `path`, as it is listed; none at the end.
    Entries {
        root: usize,
        path: ContentPath,
        folder: FolderHandle,
        wanted: NameRange,
        reply: ReplyTo<(FolderHandle, Option<Vec<Entry>>)>,
    },
    /// Find the place where an upload comes to lie.
    PlaceOf { root: usize, path: ContentPath, reply: ReplyTo<UploadPlace> },
    /// Bytes free in the file system of a directory; all there can be if it holds this hidden name.
    Space { root: usize, path: ContentPath, part: Option<String>, reply: ReplyTo<u64> },
}

/// The names that a listing wants; other names cost no look at their files.
#[derive(Debug, Clone, Default)]
pub struct NameRange {
    /// Names are wanted after this one; empty: from the first.
    pub after: String,
    /// The last wanted name, if there is one.
    pub last: Option<String>,
}

impl NameRange {
    /// True if `name` is wanted.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        name > self.after.as_str() && self.last.as_deref().is_none_or(|last| name <= last)
    }
}

/// One thing to do.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields of a message are named by their contents")]
pub enum Operation {
    /// Answer a query.
    Query(StoreQuery),
    /// Remove a file that was met in a walk below `folder`, if it was not written to since.
    Remove { folder: FolderHandle, path: PathBuf, stamp: Stamp, reply: ChangeReply<()> },
    /// Make an empty folder; answered when that is durable.
    MakeFolder { root: usize, path: ContentPath, reply: ChangeReply<()> },
    /// Give an item another name, with `replaces` in the place of the item there; answered when that is durable.
    Rename { root: usize, from: ContentPath, to: ContentPath, replaces: bool, reply: ChangeReply<()> },
    /// Give a content another modification time; answered when that is durable.
    SetModified { root: usize, path: ContentPath, modified: SystemTime, reply: ChangeReply<()> },
    /// Remove a folder with all in it; answered when its name is durably gone.
    RemoveTree { root: usize, path: ContentPath, reply: ChangeReply<()> },
    /// Remove a content, or an empty folder; answered when that is durable.
    Delete { root: usize, path: ContentPath, kind: NameKind, precondition: Precondition, reply: ChangeReply<()> },
    /// Give the bytes that a crash left of the upload to `path` this name; answered when that is durable.
    Recover { root: usize, path: ContentPath, reply: ChangeReply<Published> },
    /// Make ready for an upload.
    Begin { root: usize, path: ContentPath, terms: UploadTerms, reply: ReplyTo<Begun> },
    /// A full chunk of an upload has come.
    Append { upload: UploadId, chunk: Chunk },
    /// All of an upload has come; answered when it is durable.
    Finish { upload: UploadId, last: Option<Chunk>, reply: ChangeReply<Published> },
}

impl From<StoreQuery> for Operation {
    fn from(query: StoreQuery) -> Self {
        Self::Query(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_begun_or_given_up() {
        let (reply, answer) = change::<()>();
        assert!(reply.begin() && !answer.give_up());
        let (reply, answer) = change::<()>();
        assert!(answer.give_up() && !reply.begin());
        let (reply, answer) = change::<()>();
        drop(answer);
        assert!(!reply.begin(), "nobody waits");
    }
}
