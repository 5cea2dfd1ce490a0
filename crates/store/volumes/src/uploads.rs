//! A volume's uploads as its clients see them: the bytes from them, the answers to them, and the names of the contents.
//!
//! Promise: an upload that is answered has its units and its record on the disks. Not here: the life of an upload (`volume::Drafts`,
//! which is carried out here), the disks' writing (`member`), the sets of writes that make records durable (`core`).

use std::sync::Arc;
use std::time::SystemTime;

use kernel::aligned::AlignedBlock;
use units::UploadId;
use volume::{DraftBytes, DraftStep, MemberId, VolumeError};

use super::content::{entry_of, modified_of};
use super::core::{Core, nanos_at, now_nanos};
use super::live::Task;
use super::part::{Block, BlockBytes};
use super::upkeep_run::CopyStep;
use super::upload::VolumeUpload;
use super::waiter::Waiter;
use store::buffers::{Chunk, index};
use store::event::StoreEvent;
use store::operation::{ChangeReply, UploadTerms};
use store::{ContentPath, NameTaken, OnBreak, Precondition, Published, StoreError};

impl Core {
    /// Uploads that are not over. Those that wait for the journal count.
    pub(super) fn upload_count(&self) -> usize {
        let waiting = self.live.write_sets.waiting().filter(|waiter| matches!(waiter, Waiter::Upload { .. }));
        self.drafts.numbers().len() + waiting.count()
    }

    /// Begins an upload, and says how much an earlier one has left of it.
    pub(super) fn begin(&mut self, path: &ContentPath, terms: UploadTerms) -> Result<(UploadId, u64), StoreError> {
        self.open.let_go();
        let name = path.joined();
        self.check_precondition(&name, &terms.precondition)?;
        let resting = self.resting.take(&mut self.live.volume, &name, terms.on_break);
        let mut draft =
            resting.map_or_else(|| self.with_room(|core| core.live.volume.begin(&name, terms.length)), Ok)?;
        let begun_with = draft.length();
        let UploadTerms { precondition, on_break, name_taken, recording, reserved_on, modified, progress, .. } = terms;
        debug_assert!(begun_with.is_multiple_of(volume::BLOCK_BYTES), "the next bytes begin at a whole block");
        self.live.members.at(reserved_on).into_iter().for_each(|member| draft.begin_on(member));
        let (path, reply, is_recovered) = (path.clone(), None, false);
        let upload = VolumeUpload {
            path,
            precondition,
            on_break,
            recording,
            modified,
            progress,
            reply,
            name_taken,
            is_recovered,
        };
        let number = self.drafts.begin(draft, on_break == OnBreak::Keep, upload);
        Ok((UploadId(number), begun_with))
    }

    /// Does work that needs room; where there is none, once more without the units that no client waits for.
    fn with_room<T>(&mut self, mut work: impl FnMut(&mut Self) -> Result<T, VolumeError>) -> Result<T, StoreError> {
        let done = match work(self) {
            Err(VolumeError::Full) if self.let_go() => work(self),
            done => done,
        };
        done.map_err(|error| self.live.error(error))
    }

    /// Gives back the units that no client waits for: those of uploads that rest, and of contents that are moved. False if there were none.
    fn let_go(&mut self) -> bool {
        let moves = self.upkeep.end_moves(&mut self.live);
        self.resting.let_go(&mut self.live.volume) || moves
    }

    pub(super) fn check_precondition(&self, name: &str, precondition: &Precondition) -> Result<(), StoreError> {
        let existing = self.live.volume.find(name).map(|content| entry_of(name, content, self.live.front.id, None));
        let holds = precondition.holds(existing.as_ref().map(store::Entry::existing));
        if holds { Ok(()) } else { Err(StoreError::PreconditionFailed) }
    }

    /// A chunk has come; it is full unless it is the upload's last.
    pub(super) fn take_chunk(&mut self, id: UploadId, mut chunk: Chunk) {
        let padded = chunk.filled.next_multiple_of(index(volume::BLOCK_BYTES));
        debug_assert!(
            chunk.filled > 0 && padded <= chunk.lease.len(),
            "a chunk has bytes, and memory for whole blocks"
        );
        chunk.lease[chunk.filled..padded].fill(0);
        let chunk = Arc::new(chunk);
        // A unit is a whole number of chunks, and all but the last are full.
        let bytes = &chunk.lease[..chunk.filled];
        let received = self.with_room(|core| core.drafts.receive(id.0, &chunk, bytes, &mut core.live.volume));
        self.go_on(id, received);
    }

    pub(super) fn finish(&mut self, id: UploadId, last: Option<Chunk>, reply: Option<ChangeReply<Published>>) {
        if let Some(chunk) = last {
            self.take_chunk(id, chunk);
        }
        if self.drafts.receiving(id.0).is_none() {
            return;
        }
        let upload = self.drafts.upload_mut(id.0).expect("it receives");
        debug_assert!(upload.reply.is_none(), "an upload is finished once");
        upload.reply = reply;
        let modified = upload.modified.map_or_else(now_nanos, nanos_at);
        self.finish_at(id, modified);
    }

    /// All of it has come.
    pub(super) fn finish_at(&mut self, id: UploadId, modified: u64) {
        let finished = self.with_room(|core| core.drafts.finish(id.0, modified, &mut core.live.volume));
        self.go_on(id, finished);
    }

    /// The client is gone; `rest` had come last.
    pub(super) fn break_off(&mut self, id: UploadId, rest: Option<Chunk>) {
        let Some(came) = self.drafts.receiving(id.0) else { return };
        match self.drafts.upload_mut(id.0).expect("it receives").on_break {
            OnBreak::Keep if came > 0 || rest.is_some() => return self.finish(id, rest, None),
            // Another upload may continue the bytes received in whole chunks, when they are on the disks.
            OnBreak::Resume(_) if came > 0 => self.drafts.rest(id.0, &mut self.live.volume),
            OnBreak::Discard | OnBreak::Keep | OnBreak::Resume(_) => self.drafts.end(id.0, &mut self.live.volume),
        }
        self.carry_out();
    }

    /// Carries out the effects of an upload's next bytes. Without room for them it cannot continue.
    fn go_on(&mut self, id: UploadId, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) => self.carry_out(),
            Err(error) => self.fail(id, &error),
        }
    }

    /// It cannot continue: its client gets the error, and its units are free when no disk writes to them any more, unless its received
    /// bytes are kept.
    pub(super) fn fail(&mut self, id: UploadId, error: &StoreError) {
        let Some(upload) = self.drafts.upload_mut(id.0) else { return };
        upload.tell_failure(error);
        let keeps = upload.on_break == OnBreak::Keep && error.is_full();
        // On a full volume a recording ends as far as it came: there is room for that.
        let is_kept = keeps
            && self.drafts.receiving(id.0).is_some_and(|came| came > 0)
            && self.drafts.finish(id.0, now_nanos(), &mut self.live.volume).is_ok();
        if !is_kept {
            self.live.front.stats.uploads_failed.add(1);
            self.drafts.end(id.0, &mut self.live.volume);
        }
        self.carry_out();
    }

    /// A disk is through with an upload, or with a copy: it made all of it durable, or forgot it.
    pub(super) fn member_done(&mut self, id: UploadId, member: MemberId) {
        if self.drafts.disk_done(id.0, member, &mut self.live.volume) {
            self.carry_out();
        } else {
            self.copy_step(id, CopyStep::Written);
        }
    }

    /// Does all pending steps of the uploads.
    pub(super) fn carry_out(&mut self) {
        while let Some((number, step)) = self.drafts.next_step() {
            let id = UploadId(number);
            match step {
                DraftStep::Begin(member) => {
                    let Some(upload) = self.drafts.upload_mut(number) else { continue };
                    let (recording, on_break) = (upload.recording, upload.on_break);
                    self.live.members.tell(member, Task::Begin(id, on_break, recording));
                }
                DraftStep::Write(member, position, bytes) => {
                    let bytes = match bytes {
                        DraftBytes::Payload(chunk) => BlockBytes::Payload(chunk),
                        DraftBytes::Made(bytes) => BlockBytes::Made(Arc::new(AlignedBlock::new(&bytes))),
                    };
                    self.live.members.tell(member, Task::Write(id, Block { position, bytes }));
                }
                DraftStep::Finish(member) => self.live.members.tell(member, Task::Finish(id)),
                DraftStep::Forget(member) => self.live.members.tell(member, Task::Forget(id)),
                DraftStep::Doubtful(_, bytes) => {
                    let path = self.drafts.upload_mut(number).map(|upload| upload.path.clone()).unwrap_or_default();
                    self.live.front.events.tell(StoreEvent::RecordingDamaged { path, bytes });
                }
                DraftStep::Publish => self.publish(id),
                DraftStep::Rest => {
                    if let Some((upload, draft, _)) = self.drafts.take(number) {
                        self.resting.keep(&mut self.live.volume, upload.path.joined(), upload.on_break, draft);
                        self.live.front.wake(); // another upload may wait to continue it
                    }
                }
            }
        }
        // The journal may have named the uploads that ended.
        self.begin_write_set();
    }

    /// A disk has made the given number of bytes durable of each of these uploads.
    pub(super) fn made_durable(&mut self, member: MemberId, grown: &[(UploadId, u64)]) {
        let now = now_nanos();
        for (id, bytes) in grown {
            if let Err(error) = self.drafts.made_durable(id.0, (member, *bytes), now, &mut self.live.volume) {
                let error = self.live.error(error);
                self.fail(*id, &error);
            }
        }
        self.begin_write_set();
    }

    /// Gives an upload its name; it is answered when that is durable.
    fn publish(&mut self, id: UploadId) {
        let Some(upload) = self.drafts.upload_mut(id.0) else { return };
        let (path, precondition) = (upload.path.clone(), upload.precondition.clone());
        let given_up = !upload.reply.as_ref().is_some_and(ChangeReply::begin);
        let is_beside = given_up || upload.name_taken == NameTaken::Beside;
        let keeps = upload.on_break == OnBreak::Keep;
        let checked = match upload.on_break {
            OnBreak::Discard | OnBreak::Resume(_) if given_up => Err(StoreError::Closed),
            _ if is_beside => self.numbered_path(&path),
            OnBreak::Discard | OnBreak::Resume(_) | OnBreak::Keep => {
                self.check_precondition(&path.joined(), &precondition).map(|()| path.clone())
            }
        };
        let path = match checked {
            Ok(path) => path,
            Err(why) => {
                self.fail(id, &why);
                if given_up && keeps {
                    self.live.front.events.tell(StoreEvent::RecordingLost { path, why });
                }
                return;
            }
        };
        let Some((mut upload, mut draft, modified)) = self.drafts.take(id.0) else { return };
        let name = path.joined();
        if path != upload.path {
            draft.rename(&name);
            upload.path = path;
        }
        let replaced = self.live.volume.find(&name).map(|content| modified_of(content));
        match self.live.volume.publish(draft, modified) {
            Ok(content) => {
                self.names_changed = SystemTime::now();
                let etag = entry_of(&name, &content, self.live.front.id, None).etag;
                let VolumeUpload { path, reply, is_recovered, .. } = upload;
                debug_assert!(
                    self.live.volume.find(&name).is_some_and(|named| Arc::ptr_eq(named, &content)),
                    "the client is answered for the content that has the name"
                );
                let (size, durable, stored) = (content.length, None, None);
                let published = Published { path: path.clone(), replaced, etag, size, durable, stored };
                self.live.write_sets.wait(match reply {
                    None if is_recovered => Waiter::Recovered { path, bytes: content.length },
                    reply => Waiter::Upload { path, published, reply },
                });
                self.begin_write_set();
            }
            Err(error) => {
                self.live.front.stats.uploads_failed.add(1);
                upload.tell_failure(&self.live.error(error));
            }
        }
    }
}
