//! What the threads of a volume decide together: the volume itself, its uploads, and the rounds that make changes durable.
//!
//! Promise: no disk is touched here. What a disk is to do is put into its inbox, and its thread is woken.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use dataplane::layout::FileAccess;
use device::Device;
use kernel::aligned::AlignedBlock;
use storage::uploads::RecordingTerms;
use units::{DiskId, UploadId};
use volume::{DiskWrite, Draft, MemberId, ReadCounts, Rounds, Volume, VolumeError};

use super::content::{OpenContents, entry_of};
use super::open::OpenDisk;
use super::part::{Block, BlockBytes};
use super::replace::VacantDisk;
use super::resting::RestingUploads;
use super::small_read::SmallRead;
use super::unit_read::UnitRead;
use super::upkeep::{CopyStep, CopyUnderWay, EndedUpkeep, MendTask, UpkeepRun};
use super::waiter::Waiter;
use crate::buffers::Chunk;
use crate::buffers::index;
use crate::event::StoreEvent;
use crate::operation::ChangeReply;
use crate::operation::{UploadProgress, UploadTerms};
use crate::shared::DiskShared;
use crate::{ContentPath, OnBreak, Precondition, Published, StoreError};

/// What a disk's thread is to do.
#[derive(Debug)]
pub(super) enum Task {
    /// An upload has its first block for this disk.
    Begin(UploadId, Option<RecordingTerms>),
    Write(UploadId, Block),
    /// No more of it comes: make it durable.
    Finish(UploadId),
    /// Forget it.
    Forget(UploadId),
    /// Write this disk's share of the round under way.
    Round,
    /// Read a unit, and tell the upkeep what it is.
    Read(Box<UnitRead>),
    /// Read what somebody waits for who opens a content.
    Small(SmallRead),
}

/// A disk of the volume that is there.
pub(super) struct Member {
    pub(super) member: MemberId,
    pub(super) disk: DiskId,
    pub(super) file: OwnedFd,
    pub(super) access: FileAccess,
    /// Where the file begins on the disk, for a partition.
    pub(super) start_bytes: u64,
    pub(super) shared: Arc<DiskShared>,
    pub(super) inbox: VecDeque<Task>,
}

impl Member {
    pub(super) fn new(member: MemberId, disk: OpenDisk, shared: Arc<DiskShared>) -> Self {
        let OpenDisk { file, access, start_bytes, .. } = disk;
        Self { member, disk: shared.id, file, access, start_bytes, shared, inbox: VecDeque::new() }
    }
}

/// A disk that is, or was, the volume's.
#[derive(Debug, Clone)]
pub(super) struct NamedDisk {
    pub(super) path: PathBuf,
    /// What it is; none if it was away at the start.
    pub(super) found: Option<(DiskId, Device)>,
}

impl NamedDisk {
    pub(super) fn of(disk: &OpenDisk, id: DiskId) -> Self {
        Self { path: disk.path.clone(), found: Some((id, disk.device.clone())) }
    }

    pub(super) fn away(path: &Path) -> Self {
        Self { path: path.to_owned(), found: None }
    }
}

/// By their numbers: the disks that are there, all that are known, and the places of those that are not.
pub(super) type MemberPlaces = (Vec<Option<Member>>, Vec<Option<NamedDisk>>, BTreeMap<MemberId, VacantDisk>);

/// An upload.
struct VolumeUpload {
    path: ContentPath,
    draft: Draft,
    precondition: Precondition,
    on_break: OnBreak,
    recording: Option<RecordingTerms>,
    progress: Arc<UploadProgress>,
    reply: Option<ChangeReply<Published>>,
    /// Disks that have something of it and are not through with it.
    members: Vec<MemberId>,
    /// When all had come, in nanoseconds since 1970.
    modified: u64,
    life: VolumeUploadLife,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VolumeUploadLife {
    Receiving,
    /// All has come; published when no disk is left in `members`.
    Finishing,
    /// What has come rests when no disk is left in `members`.
    Resting,
    /// Its units are free when no disk is left in `members`.
    Ending,
}

/// See the module.
pub(crate) struct Core {
    pub(super) volume: Volume,
    /// By their numbers in the volume.
    pub(super) members: Vec<Option<Member>>,
    /// As their disks were named, also when they are gone.
    pub(super) named: Vec<Option<NamedDisk>>,
    pub(super) open: OpenContents,
    /// The front's: its disk is where a recording's rate is reserved.
    pub(super) front: Arc<DiskShared>,
    uploads: BTreeMap<UploadId, VolumeUpload>,
    next_upload: u64,
    pub(super) resting: RestingUploads,
    rounds: Rounds<Waiter>,
    pub(super) upkeep: Option<UpkeepRun>,
    /// What was read of contents lately, and whether that has changed since it was last looked what to move for it.
    pub(super) reads: ReadCounts,
    pub(super) reads_changed: bool,
    /// Copies that were moved to other zones.
    pub(super) moved_copies: u64,
    /// The one copy that is under way, of the upkeep or of what reads found.
    pub(super) copying: Option<CopyUnderWay>,
    /// Copies of one part, which reads found wrong.
    pub(super) mending: VecDeque<MendTask>,
    /// How the last upkeep ended.
    pub(super) last_upkeep: Option<EndedUpkeep>,
    /// The places where no disk is, or one was taken out, for those that come: also the one behind the last number, if there is one.
    pub(super) vacant: BTreeMap<MemberId, VacantDisk>,
    closed: bool,
}

impl Core {
    pub(super) fn new(
        volume: Volume,
        (members, named, vacant): MemberPlaces,
        open: OpenContents,
        front: Arc<DiskShared>,
    ) -> Self {
        let rounds = Rounds::new(volume.superblock().generation);
        Self {
            volume,
            members,
            named,
            open,
            front,
            uploads: BTreeMap::new(),
            next_upload: 0,
            resting: RestingUploads::default(),
            rounds,
            upkeep: None,
            reads: ReadCounts::default(),
            reads_changed: false,
            moved_copies: 0,
            copying: None,
            mending: VecDeque::new(),
            last_upkeep: None,
            vacant,
            closed: false,
        }
    }

    pub(super) fn tell(&mut self, member: MemberId, task: Task) {
        if let Some(member) = self.members.get_mut(member.index()).and_then(Option::as_mut) {
            member.inbox.push_back(task);
            member.shared.wake();
        }
    }

    /// Uploads that are not over; one that waits for the journal is none that is.
    pub(super) fn upload_count(&self) -> usize {
        let waiting = self.rounds.waiting().filter(|waiter| matches!(waiter, Waiter::Upload { .. }));
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
            Err(VolumeError::Full) if self.resting.let_go(&mut self.volume) => self.volume.begin(name, length),
            other => other,
        }
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
        let upload = self.uploads.get_mut(&id)?;
        let mut room = self.volume.room(&mut upload.draft);
        if room == Err(VolumeError::Full) && self.resting.let_go(&mut self.volume) {
            room = self.volume.room(&mut upload.draft);
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
                self.rounds.wait(Waiter::Upload { path: upload.path, published, reply });
                self.begin_round();
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
                self.rounds.wait(Waiter::Removal(reply));
                self.begin_round();
            }
            Err(error) => reply.send(Err(error)),
        }
    }

    /// Begins to make durable what is to be, unless a round is under way.
    pub(super) fn begin_round(&mut self) {
        for member in self.rounds.begin(&mut self.volume) {
            self.tell(member, Task::Round);
        }
    }

    /// Whether disks' states are being made durable.
    pub(super) fn has_superblocks(&self) -> bool {
        self.rounds.has_superblocks()
    }

    /// As [`Rounds::durable_generation`].
    pub(super) const fn durable_generation(&self) -> u64 {
        self.rounds.durable_generation()
    }

    /// Whether something is being made durable.
    pub(super) fn has_round(&self) -> bool {
        !self.rounds.is_idle()
    }

    /// Whether `member` has a share of the round under way that it has not written.
    pub(super) fn is_turn_of(&self, member: MemberId) -> bool {
        self.rounds.is_turn_of(member)
    }

    /// What `member` is to write of the round under way, if it is its turn, and the round's number.
    pub(super) fn share(&self, member: MemberId) -> Option<(u64, Vec<(u64, AlignedBlock)>)> {
        let (number, writes) = self.rounds.share(member)?;
        Some((number, writes.into_iter().map(|write| (write.position, AlignedBlock::new(&write.bytes))).collect()))
    }

    /// A disk wrote and flushed its share of the round with this number.
    pub(super) fn share_done(&mut self, member: MemberId, number: u64) {
        for waiter in self.rounds.done(member, number, &mut self.volume) {
            waiter.answer(Ok(()), &self.front);
        }
        self.front.wake(); // its gauges have changed
        self.begin_round();
    }

    /// Takes `member` out, durably before anything else. Uploads go on with their other copies; where there are none, they fail with
    /// `error`. A disk that may have the only copies of contents is read on; a recording goes on elsewhere then, for nobody can send it
    /// again. Where nothing can be made durable without the disk, the volume takes no more changes, and everything fails that waits.
    pub(super) fn take_out(&mut self, member: MemberId, error: &StoreError) {
        if !self.takes_writes(member) {
            return;
        }
        self.resting.let_go(&mut self.volume);
        if let Err((_, waiters)) = self.rounds.take_out(member, &mut self.volume) {
            let touched = self.uploads.iter().filter(|(_, upload)| upload.members.contains(&member));
            let touched: Vec<UploadId> = touched.map(|(id, _)| *id).collect();
            touched.into_iter().for_each(|id| self.fail(id, error));
            for waiter in waiters {
                waiter.answer(Err(error.clone()), &self.front);
            }
            self.end_upkeep(Err(VolumeError::ReadOnly));
            self.copying = None;
            return;
        }
        let is_read = self.volume.is_readable(member);
        if is_read {
            self.tell_of_disk(member, error);
        } else {
            self.members[member.index()] = None;
        }
        let ids: Vec<UploadId> = self.uploads.keys().copied().collect();
        for id in ids {
            if self.uploads.get(&id).is_some_and(|upload| upload.members.contains(&member)) {
                self.tell(member, Task::Forget(id));
            }
            let Some(upload) = self.uploads.get_mut(&id) else { continue };
            let left_out = self.volume.leave_out(&mut upload.draft, member);
            let goes_on = left_out.is_ok_and(|bytes| bytes == 0 || upload.on_break == OnBreak::Keep);
            let is_ending = upload.life == VolumeUploadLife::Ending;
            if let (Ok(bytes @ 1..), true, false) = (left_out, goes_on, is_ending) {
                self.front.events.tell(StoreEvent::RecordingDamaged { path: upload.path.clone(), bytes });
            }
            if goes_on || is_ending {
                self.member_done(id, member);
            } else {
                upload.members.retain(|other| *other != member);
                self.fail(id, error);
            }
        }
        self.upkeep_without(member);
        self.begin_round();
    }

    /// Disks have other states: durably so before anything else is acknowledged.
    pub(super) fn write_superblocks(&mut self, steps: impl IntoIterator<Item = Vec<DiskWrite>>) {
        self.rounds.write_superblocks(steps);
        self.begin_round();
    }

    /// Whether an upload has something on a disk.
    pub(super) fn has_upload_on(&self, member: MemberId) -> bool {
        self.uploads.values().any(|upload| upload.draft.is_on(member))
    }

    /// The disks whose threads have been at one thing for longer than anybody should wait.
    pub(super) fn stuck(&self) -> Vec<MemberId> {
        self.members.iter().flatten().filter(|member| member.shared.is_stuck()).map(|member| member.member).collect()
    }

    /// Whether a disk is there and written to.
    pub(super) fn takes_writes(&self, member: MemberId) -> bool {
        self.members.get(member.index()).is_some_and(Option::is_some) && self.volume.is_writable(member)
    }

    /// Whether nothing more will happen to a disk.
    pub(super) fn is_out(&self, member: MemberId) -> bool {
        self.closed || self.members[member.index()].is_none()
    }

    /// No caller is left, or no grant will come any more.
    pub(super) fn give_up(&mut self) {
        self.closed = true;
        self.upkeep = None;
        self.copying = None;
        self.members.iter().flatten().for_each(|member| member.shared.wake());
        let ids: Vec<UploadId> = self.uploads.keys().copied().collect();
        ids.into_iter().for_each(|id| self.fail(id, &StoreError::Closed));
        for waiter in self.rounds.give_up() {
            waiter.answer(Err(StoreError::Closed), &self.front);
        }
    }

    pub(super) fn error(&self, error: VolumeError) -> StoreError {
        match error {
            VolumeError::NotFound => StoreError::NotFound,
            VolumeError::IsFolder => StoreError::IsDirectory,
            VolumeError::Name(_) => StoreError::NameTooLong,
            VolumeError::NotAFolder => StoreError::NotADirectory,
            VolumeError::Full | VolumeError::CatalogueFull | VolumeError::TooLong => StoreError::NoSpace,
            VolumeError::ReadOnly => StoreError::ReadOnly,
            VolumeError::PartLost => StoreError::DiskFailing(self.front.id),
        }
    }
}

fn now_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
