//! Recordings that a crash left: each gets its own name, or a numbered one, in a commit with the others.
//!
//! Promise: a recording is listed with the bytes that were written, and replaces nothing; a recording that cannot be given its name stays
//! for the next look. Not here: the look for all of them (`chores`), the commit (`storage::uploads`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::pread;
use units::limits;

use crate::root::Identity;
use store::buffers::{count, index};
use store::operation::ChangeReply;
use store::{ContentPath, Published};

use super::Worker;
use super::temporary::TemporaryFile;
use super::upload::UploadTarget;

/// A recording during which an earlier run was killed.
#[derive(Debug)]
pub(super) struct LeftRecording {
    root: usize,
    /// The name it was to have.
    path: ContentPath,
    file: TemporaryFile,
    bytes: u64,
    reply: Option<ChangeReply<Published>>,
}

impl LeftRecording {
    /// The one called `own` that lies in a folder under a hidden name. None if nothing of it was written, or a process still writes it.
    pub(super) fn open(root: usize, path: ContentPath, folder: BorrowedFd<'_>, hidden: &str) -> Option<Self> {
        let mut file = TemporaryFile::left_behind(folder.try_clone_to_owned().ok()?, hidden).ok()?;
        let bytes = without_padding(&file.file, file.written_bytes());
        if bytes == 0 {
            file.forget();
            return None;
        }
        Some(Self { root, path, file, bytes, reply: None })
    }

    /// The same, with a client that waits for it.
    pub(super) fn for_client(self, reply: ChangeReply<Published>) -> Self {
        Self { reply: Some(reply), ..self }
    }
}

impl Worker {
    /// Has the recording taken up next that was to have this path; its client is answered when it has its name durably.
    pub(super) fn recover(&mut self, root: usize, path: &ContentPath, reply: ChangeReply<Published>) {
        let is_it = |target: &UploadTarget| target.after_restart && target.root == root && target.path == *path;
        if let Some(target) = self.uploads.files_mut().find(|target| is_it(target)) {
            target.reply = Some(reply);
            return;
        }
        self.chores.recover(&self.folders, (root, path), reply);
    }

    /// Hands a recording to the next commit. Where there are too many uploads, the next look finds it.
    pub(super) fn take_up(&mut self, left: LeftRecording) {
        let LeftRecording { root, path, file, bytes, reply } = left;
        if self.uploads.count() >= limits::UPLOADS_MAX {
            return;
        }
        let folder = &file.directory;
        let (Ok(parent), Ok(journal)) = (Identity::of(folder), self.journals.of(folder.as_fd())) else {
            return;
        };
        let mut kept = UploadTarget::kept((root, path), file, parent, journal, bytes);
        (kept.after_restart, kept.reply) = (true, reply);
        debug_assert!(bytes > 0, "a recording without bytes is no content");
        let upload = self.uploads.begin(kept, None, true, bytes);
        self.uploads.finish(upload);
    }
}

/// The `bytes` of a file that an upload has left, without those that may be the padding of its last direct write: zeros at the end of a
/// whole block. The server may have been killed before it cut them off.
fn without_padding(file: &OwnedFd, bytes: u64) -> u64 {
    if bytes == 0 || !bytes.is_multiple_of(limits::DIRECT_ALIGN) {
        return bytes;
    }
    let mut block = vec![0; index(limits::DIRECT_ALIGN)];
    let begin = bytes - limits::DIRECT_ALIGN;
    match pread(file, &mut block, begin) {
        Ok(read) if read == block.len() => {
            begin + count(block.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1))
        }
        _ => begin,
    }
}
