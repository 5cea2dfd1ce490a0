//! An upload to a volume: its terms, and the answer to its client.

use std::sync::Arc;
use std::time::SystemTime;

use storage::uploads::RecordingTerms;

use store::operation::{ChangeReply, UploadProgress, UploadTerms};
use store::{ContentPath, NameTaken, OnBreak, Precondition, Published, StoreError};

/// The client's side of an upload; `storage::uploads` has its writes.
pub(super) struct VolumeUpload {
    pub(super) path: ContentPath,
    pub(super) precondition: Precondition,
    pub(super) on_break: OnBreak,
    pub(super) recording: Option<RecordingTerms>,
    /// The modification time that its client gave.
    pub(super) modified: Option<SystemTime>,
    pub(super) progress: Arc<UploadProgress>,
    pub(super) reply: Option<ChangeReply<Published>>,
    pub(super) name_taken: NameTaken,
    /// True for a leftover of a crash, which has no client.
    pub(super) is_recovered: bool,
}

impl VolumeUpload {
    /// True if an upload of these terms to this path continues the bytes of this one.
    pub(super) fn is_continued_by(&self, path: &ContentPath, terms: &UploadTerms) -> bool {
        self.path == *path && self.on_break == terms.on_break
    }

    /// Answers the client with the error.
    pub(super) fn tell_failure(&mut self, error: &StoreError) {
        self.progress.fail(error.clone());
        if let Some(reply) = self.reply.take() {
            reply.send(Err(error.clone()));
        }
    }
}
