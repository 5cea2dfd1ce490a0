//! Recordings that a crash left: read, ended and named while the volume is served.
//!
//! Promise: all durable bytes of a recording get its name, or a numbered one; it replaces nothing. A recording that cannot be read since
//! its disk is gone is tried again until that answers, and stays in the journal for the next start. Not here: the extent of the durable bytes (`volume::Restore`), the reads'
//! grants (`small_read`).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use storage::leftover::numbered_names;
use units::UploadId;
use volume::Restored;

use super::granted_reads::GrantedReads;
use super::info::ServedVolume;
use super::names::remove_leftovers;
use super::upload::VolumeUpload;
use super::{Core, SharedCore};
use store::event::StoreEvent;
use store::lock::lock;
use store::operation::ChangeReply;
use store::{ContentPath, NameTaken, OnBreak, Precondition, Published, StoreError};

/// Pause after a recording that could not be read. Chosen: its disk answers again within seconds, or not soon.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts a thread that ends when all of them have their names, if there are any.
pub(super) fn start(volume: &ServedVolume) -> io::Result<()> {
    let left = {
        let mut core = lock(&volume.core);
        // A volume that takes no changes keeps them: they are hidden.
        let _ = remove_leftovers(&mut core.live.volume);
        core.take_up_recordings()
    };
    if left.is_empty() {
        return Ok(());
    }
    let core = Arc::clone(&volume.core);
    let recover = move || {
        let mut left = VecDeque::from(left);
        while let Some((id, modified)) = left.pop_front() {
            if !recover(&core, id, modified) {
                left.push_back((id, modified));
                thread::sleep(PAUSE);
            }
        }
    };
    volume.common.spawn("volume-recover".to_owned(), recover).map(drop)
}

/// Reads and ends a recording. False if bytes of it could not be read and are on a disk that is not relied on now.
fn recover(core: &SharedCore, id: UploadId, modified: u64) -> bool {
    let locked = lock(core);
    let draft = locked.drafts.draft(id.0).filter(|_| !locked.live.closed);
    let Some(reader) = draft.map(|draft| draft.reader(locked.live.volume.members())) else { return true };
    drop(locked);
    let mut disks = GrantedReads::new(core);
    let restored = reader.read(&mut disks);
    if disks.is_any_gone() && !restored.is_whole() {
        return false;
    }
    lock(core).end_recording(id, restored, modified);
    true
}

impl Core {
    /// Gives them with the time at which each was written last.
    fn take_up_recordings(&mut self) -> Vec<(UploadId, u64)> {
        let mut left = Vec::new();
        let modified: Vec<u64> = self.live.volume.recordings().map(|(_, content)| content.modified).collect();
        for (draft, modified) in self.live.volume.take_up_recordings().into_iter().zip(modified) {
            let path = draft.name().split('/').try_fold(ContentPath::root(), |path, name| path.stored_child(name));
            // A name that another program gave, and no path has: it stays where it is.
            let Ok(path) = path else { continue };
            let upload = VolumeUpload {
                path,
                precondition: Precondition::None,
                on_break: OnBreak::Keep,
                recording: None,
                modified: None,
                progress: Arc::default(),
                reply: None,
                name_taken: NameTaken::Beside,
                is_recovered: true,
            };
            left.push((UploadId(self.drafts.begin_again(draft, upload)), modified));
        }
        left
    }

    /// Answers a client when the recording that was to have this path has its name durably.
    pub(super) fn recover(&mut self, path: &ContentPath, reply: ChangeReply<Published>) {
        let is_it = |upload: &VolumeUpload| upload.is_recovered && upload.path == *path;
        match self.drafts.uploads_mut().find(|upload| is_it(upload)) {
            Some(upload) => upload.reply = Some(reply),
            None => reply.send(Err(StoreError::NotFound)),
        }
    }

    /// Ends a recording that was read: its remaining bytes are a content now.
    fn end_recording(&mut self, id: UploadId, restored: Restored, modified: u64) {
        if self.live.closed {
            return;
        }
        let lost = self.drafts.restore(id.0, restored, &self.live.volume);
        let Some(left) = self.drafts.receiving(id.0) else { return };
        let path = self.drafts.upload_mut(id.0).map(|upload| upload.path.clone()).unwrap_or_default();
        if left == 0 {
            let why = self.live.front.failing();
            self.fail(id, &why);
            return self.live.front.events.tell(StoreEvent::RecordingLost { path, why });
        }
        if lost > 0 {
            self.live.front.events.tell(StoreEvent::RecordingDamaged { path, bytes: lost });
        }
        self.finish_at(id, modified);
    }

    /// The path of an upload that replaces nothing: its own, or the first free one numbered after it.
    pub(super) fn numbered_path(&self, path: &ContentPath) -> Result<ContentPath, StoreError> {
        let Some((folder, own)) = path.split() else { return Err(StoreError::IsDirectory) };
        let mut paths = numbered_names(own).filter_map(|name| folder.stored_child(&name).ok());
        paths.find(|path| self.live.volume.is_free_name(&path.joined())).ok_or(StoreError::PreconditionFailed)
    }
}
