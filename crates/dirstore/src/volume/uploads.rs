//! The life of a volume's uploads: where their bytes go, when they get their names, and what becomes of those that break off.
//!
//! Promise: an upload that is answered has its units and its record on the disks; one that ends gives its units back when no disk
//! writes to them any more. Not here: the disks' writing (`member`), the sets of writes that make records durable (`core`).

use std::sync::Arc;
use std::time::SystemTime;

use kernel::aligned::AlignedBlock;
use storage::uploads::RecordingTerms;
use units::UploadId;
use volume::{DiskWrite, Draft, MemberId, VolumeError};

use super::content::entry_of;
use super::core::{Core, Task};
use super::part::{Block, BlockBytes};
use super::upkeep::CopyStep;
use super::waiter::Waiter;
use crate::buffers::{Chunk, index};
use crate::operation::{ChangeReply, UploadProgress, UploadTerms};
use crate::{ContentPath, OnBreak, Precondition, Published, StoreError};

/// An upload.
pub(super) struct VolumeUpload {
    pub(super) path: ContentPath,
    pub(super) draft: Draft,
    pub(super) precondition: Precondition,
    pub(super) on_break: OnBreak,
    pub(super) recording: Option<RecordingTerms>,
    pub(super) progress: Arc<UploadProgress>,
    pub(super) reply: Option<ChangeReply<Published>>,
    /// Disks that have something of it and are not through with it.
    pub(super) members: Vec<MemberId>,
    /// When all had come, in nanoseconds since 1970.
    pub(super) modified: u64,
    pub(super) life: VolumeUploadLife,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeUploadLife {
    Receiving,
    /// All has come; published when no disk is left in `members`.
    Finishing,
    /// What has come rests when no disk is left in `members`.
    Resting,
    /// Its units are free when no disk is left in `members`.
    Ending,
}

impl Core {
    /// Uploads that are not over. Those that wait for the journal count.
    pub(super) fn upload_count(&self) -> usize {
        let waiting = self.write_sets.waiting().filter(|waiter| matches!(waiter, Waiter::Upload { .. }));
        self.uploads.len() + waiting.count()
    }

    /// Begins an upload, and says how much an earlier one has left of it.
    pub(super) fn begin(&mut self, path: &ContentPath, terms: UploadTerms) -> Result<(UploadId, u64), StoreError> {
        self.open.let_go();
        let name = path.joined();
        self.check_precondition(&name, &terms.precondition)?;
        let draft = match self.resting.take(&mut self.volume, &name, terms.on_break) {
            Some(draft) => draft,
            None => self.new_draft(&name, terms.length).map_err(|error| self.error(error))?,
        };
        let begun_with = draft.length();
        let id = self.new_upload_id();
        let upload = VolumeUpload {
            path: path.clone(),
            draft,
            precondition: terms.precondition,
            on_break: terms.on_break,
            recording: terms.recording,
            progress: terms.progress,
            reply: None,
            members: Vec::new(),
            modified: 0,
            life: VolumeUploadLife::Receiving,
        };
        self.uploads.insert(id, upload);
        Ok((id, begun_with))
    }

    fn new_draft(&mut self, name: &str, length: Option<u64>) -> Result<Draft, VolumeError> {
        match self.volume.begin(name, length) {
            Err(VolumeError::Full) if self.let_go() => self.volume.begin(name, length),
            other => other,
        }
    }

    /// Gives units back that nobody has asked for: false if there were none.
    fn let_go(&mut self) -> bool {
        let moves = self.end_moves();
        self.resting.let_go(&mut self.volume) || moves
    }

    pub(super) fn new_upload_id(&mut self) -> UploadId {
        self.next_upload += 1;
        UploadId(self.next_upload)
    }

    fn check_precondition(&self, name: &str, precondition: &Precondition) -> Result<(), StoreError> {
        let existing = self.volume.find(name).map(|content| entry_of(name, content, self.front.id, None));
        let holds = precondition.holds(existing.as_ref().map(crate::Entry::existing));
        if holds { Ok(()) } else { Err(StoreError::PreconditionFailed) }
    }

    /// A chunk has come, full unless it is the last.
    pub(super) fn take_chunk(&mut self, id: UploadId, mut chunk: Chunk) {
        let receives = self.uploads.get(&id).is_some_and(|upload| upload.life == VolumeUploadLife::Receiving);
        // A unit is a whole number of chunks, and all but the last are full.
        if !receives || self.make_room(id).is_none() {
            return;
        }
        let padded = chunk.filled.next_multiple_of(index(volume::BLOCK_BYTES));
        chunk.lease[chunk.filled..padded].fill(0);
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        let copies = self.volume.add(&mut upload.draft, &chunk.lease[..chunk.filled]);
        let chunk = Arc::new(chunk);
        for (member, position) in copies {
            self.write(id, member, Block { position, bytes: BlockBytes::Payload(Arc::clone(&chunk)) });
        }
    }

    /// How many bytes of an upload there is room for; `None` if there is none, and it failed.
    fn make_room(&mut self, id: UploadId) -> Option<usize> {
        let mut room = self.volume.room(&mut self.uploads.get_mut(&id)?.draft);
        if room == Err(VolumeError::Full) && self.let_go() {
            room = self.volume.room(&mut self.uploads.get_mut(&id)?.draft);
        }
        match room {
            Ok((headers, room)) => {
                self.write_headers(id, headers);
                Some(index(room))
            }
            Err(error) => {
                let error = self.error(error);
                self.fail(id, &error);
                None
            }
        }
    }

    fn write_headers(&mut self, id: UploadId, headers: Vec<DiskWrite>) {
        for header in headers {
            let bytes = BlockBytes::Made(Arc::new(AlignedBlock::new(&header.bytes)));
            self.write(id, header.member, Block { position: header.position, bytes });
        }
    }

    /// All has come: its checksums go behind it, and the last headers.
    fn write_end(&mut self, id: UploadId, modified: u64) -> Option<()> {
        let tail = self.volume.tail(&mut self.uploads.get_mut(&id)?.draft);
        let mut rest = &tail[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.make_room(id)?.min(rest.len()));
            let copies = self.volume.add(&mut self.uploads.get_mut(&id)?.draft, now);
            let block = Arc::new(AlignedBlock::new(now));
            for (member, position) in copies {
                self.write(id, member, Block { position, bytes: BlockBytes::Made(Arc::clone(&block)) });
            }
            rest = later;
        }
        let headers = self.volume.end(&mut self.uploads.get_mut(&id)?.draft, modified);
        self.write_headers(id, headers);
        Some(())
    }

    fn write(&mut self, id: UploadId, member: MemberId, block: Block) {
        let takes_writes = self.takes_writes(member);
        let Some(upload) = self.uploads.get_mut(&id).filter(|_| takes_writes) else { return };
        if !upload.members.contains(&member) {
            upload.members.push(member);
            // The rate of a recording is reserved on one disk; on the others its bytes are written in what streams leave.
            let here = self.members[member.index()].as_ref().is_some_and(|member| member.disk == self.front.id);
            let recording = upload.recording.filter(|_| here);
            self.tell(member, Task::Begin(id, recording));
        }
        self.tell(member, Task::Write(id, block));
    }

    pub(super) fn finish(&mut self, id: UploadId, last: Option<Chunk>, reply: Option<ChangeReply<Published>>) {
        if let Some(chunk) = last {
            self.take_chunk(id, chunk);
        }
        let Some(upload) = self.uploads.get_mut(&id).filter(|upload| upload.life == VolumeUploadLife::Receiving) else {
            return;
        };
        upload.reply = reply;
        upload.modified = now_nanos();
        let modified = upload.modified;
        if self.write_end(id, modified).is_none() {
            return;
        }
        self.close(id, VolumeUploadLife::Finishing, Task::Finish);
    }

    /// The client is gone; `rest` had come last.
    pub(super) fn break_off(&mut self, id: UploadId, rest: Option<Chunk>) {
        let Some(upload) = self.uploads.get(&id).filter(|upload| upload.life == VolumeUploadLife::Receiving) else {
            return;
        };
        let came = upload.draft.length();
        match upload.on_break {
            OnBreak::Keep if came > 0 || rest.is_some() => self.finish(id, rest, None),
            // Another upload may go on with what has come in whole chunks, when that is on the disks.
            OnBreak::Resume(_) if came > 0 => self.close(id, VolumeUploadLife::Resting, Task::Finish),
            OnBreak::Discard | OnBreak::Keep | OnBreak::Resume(_) => self.end(id),
        }
    }

    /// Nothing more is written of it: its disks are told, and it is over when none of them is left.
    fn close(&mut self, id: UploadId, life: VolumeUploadLife, task: fn(UploadId) -> Task) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        upload.life = life;
        let members = upload.members.clone();
        members.iter().for_each(|member| self.tell(*member, task(id)));
        self.settle(id);
    }

    /// Does with an upload what its life says, if no disk has anything of it to do.
    fn settle(&mut self, id: UploadId) {
        let Some(upload) = self.uploads.get(&id).filter(|upload| upload.members.is_empty()) else { return };
        match upload.life {
            VolumeUploadLife::Receiving => {}
            VolumeUploadLife::Finishing => self.publish(id),
            VolumeUploadLife::Resting => self.rest(id),
            VolumeUploadLife::Ending => self.free(id),
        }
    }

    fn rest(&mut self, id: UploadId) {
        if let Some(upload) = self.uploads.remove(&id) {
            self.resting.keep(&mut self.volume, upload.path.joined(), upload.on_break, upload.draft);
        }
    }

    /// It cannot go on: its client is told, and its units are free when no disk writes to them any more.
    pub(super) fn fail(&mut self, id: UploadId, error: &StoreError) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        upload.progress.fail(error.clone());
        if let Some(reply) = upload.reply.take() {
            reply.send(Err(error.clone()));
        }
        self.front.stats.uploads_failed.add(1);
        self.end(id);
    }

    fn end(&mut self, id: UploadId) {
        if self.uploads.get(&id).is_some_and(|upload| upload.life != VolumeUploadLife::Ending) {
            self.close(id, VolumeUploadLife::Ending, Task::Forget);
        }
    }

    fn free(&mut self, id: UploadId) {
        if let Some(upload) = self.uploads.remove(&id) {
            self.volume.abandon(upload.draft);
        }
    }

    /// A disk is through with an upload: it made all of it durable, or forgot it.
    pub(super) fn member_done(&mut self, id: UploadId, member: MemberId) {
        let Some(upload) = self.uploads.get_mut(&id) else { return self.copy_step(id, CopyStep::Written) };
        upload.members.retain(|other| *other != member);
        self.settle(id);
    }

    /// Gives an upload its name; it is answered when that is durable.
    fn publish(&mut self, id: UploadId) {
        let Some(mut upload) = self.uploads.remove(&id) else { return };
        let name = upload.path.joined();
        let given_up = !upload.reply.as_ref().is_some_and(ChangeReply::begin);
        let checked = match upload.on_break {
            OnBreak::Discard | OnBreak::Resume(_) if given_up => Err(StoreError::Closed),
            OnBreak::Discard | OnBreak::Resume(_) | OnBreak::Keep => {
                self.check_precondition(&name, &upload.precondition)
            }
        };
        let created = self.volume.find(&name).is_none();
        let published = match checked {
            Err(error) => {
                self.volume.abandon(upload.draft);
                Err(error)
            }
            Ok(()) => self.volume.publish(upload.draft, upload.modified).map_err(|error| self.error(error)),
        };
        match published {
            Ok(content) => {
                let etag = entry_of(&name, &content, self.front.id, None).etag;
                let published = Published { created, etag, size: content.length };
                let reply = upload.reply.take();
                self.write_sets.wait(Waiter::Upload { path: upload.path, published, reply });
                self.begin_write_set();
            }
            Err(error) => {
                self.front.stats.uploads_failed.add(1);
                upload.progress.fail(error.clone());
                if let Some(reply) = upload.reply.take() {
                    reply.send(Err(error));
                }
            }
        }
    }

    pub(super) fn remove(&mut self, path: &ContentPath, precondition: &Precondition, reply: ChangeReply<()>) {
        if !reply.begin() {
            return;
        }
        let name = path.joined();
        let removed = self.check_precondition(&name, precondition).and_then(|()| {
            if self.volume.find(&name).is_none() && self.volume.is_folder(&name) {
                // A folder of a volume is what its contents are named by.
                return Err(StoreError::NotEmpty);
            }
            self.volume.remove(&name).map_err(|error| self.error(error))
        });
        match removed {
            Ok(()) => {
                self.write_sets.wait(Waiter::Removal(reply));
                self.begin_write_set();
            }
            Err(error) => reply.send(Err(error)),
        }
    }
}

fn now_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
