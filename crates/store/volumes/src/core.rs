//! Decisions that the threads of a volume share: the volume itself, its disks, and the sets of writes that make changes durable.
//!
//! Promise: no disk is touched here. The core puts the tasks of a disk into its inbox, and wakes its thread.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use content::layout::FileAccess;
use device::Device;
use kernel::aligned::AlignedBlock;
use storage::uploads::RecordingTerms;
use units::{ByteCount, DiskId, UploadId};
use volume::{DiskWrite, Drafts, MemberId, ReadCounts, Volume, VolumeError, WriteSets};

use super::health::VolumeHealth;
use super::open_contents::OpenContents;
use super::open_disk::OpenDisk;
use super::part::Block;
use super::resumable::RestingUploads;
use super::small_read::SmallRead;
use super::unit_read::UnitRead;
use super::upkeep_run::{CopyUnderWay, EndedUpkeep, MendTask, UpkeepRun};
use super::upload::VolumeUpload;
use super::waiter::Waiter;
use store::buffers::Chunk;
use store::grants::GrantPort;
use store::shared::DiskShared;
use store::{FullPlace, OnBreak, StoreError};

/// A task of a disk's thread.
#[derive(Debug)]
pub(super) enum Task {
    /// An upload has its first block for this disk. If it is kept, the disk says how much of it is durable.
    Begin(UploadId, OnBreak, Option<RecordingTerms>),
    Write(UploadId, Block),
    /// No more of it comes: make it durable.
    Finish(UploadId),
    /// Forget it.
    Forget(UploadId),
    /// Write this disk's share of the set under way.
    Share,
    /// Read a unit, and report its bytes to the upkeep.
    Read(Box<UnitRead>),
    /// A small read for an open that waits for it.
    Small(SmallRead),
}

/// A disk of the volume that is there.
pub(super) struct Member {
    pub(super) member: MemberId,
    pub(super) disk: DiskId,
    pub(super) file: OwnedFd,
    pub(super) access: FileAccess,
    /// Start of the file on the disk, for a partition.
    pub(super) start_bytes: u64,
    pub(super) shared: Arc<DiskShared>,
    pub(super) inbox: VecDeque<Task>,
}

impl Member {
    pub(super) fn new(member: MemberId, disk: OpenDisk, shared: Arc<DiskShared>) -> Self {
        let OpenDisk { file, access, start_bytes, .. } = disk;
        Self { member, disk: shared.id, file: file.into(), access, start_bytes, shared, inbox: VecDeque::new() }
    }
}

/// A disk that is, or was, the volume's.
#[derive(Debug, Clone)]
pub(super) struct NamedDisk {
    pub(super) path: PathBuf,
    /// The disk; none if it was away at the start.
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

/// The place of a disk that was taken out: its identity for the plane and the store, and the way to its schedule.
pub(super) struct VacantDisk {
    pub(super) shared: Arc<DiskShared>,
    pub(super) port: Box<dyn GrantPort>,
}

/// The disks of the volume, by their numbers.
pub(super) struct Members {
    /// Those that are there.
    pub(super) there: Vec<Option<Member>>,
    /// All that are known, as they were named, also those that are gone.
    pub(super) named: Vec<Option<NamedDisk>>,
    /// The places where no disk is, or one was taken out, for those that come: also the one behind the last number, if there is one.
    pub(super) vacant: BTreeMap<MemberId, VacantDisk>,
    /// The disk that stands for all of them: errors that are of none in particular are said of it.
    pub(super) front: DiskId,
}

impl Members {
    /// The disk of this number, if it is there.
    pub(super) fn get(&self, member: MemberId) -> Option<&Member> {
        self.there.get(member.index())?.as_ref()
    }

    /// The number of this disk, if there is one.
    pub(super) fn at(&self, disk: Option<DiskId>) -> Option<MemberId> {
        self.there.iter().flatten().find(|member| Some(member.disk) == disk).map(|member| member.member)
    }

    /// Gives a task to a disk's thread.
    pub(super) fn tell(&mut self, member: MemberId, task: Task) {
        if let Some(member) = self.there.get_mut(member.index()).and_then(Option::as_mut) {
            member.inbox.push_back(task);
            member.shared.wake();
        }
    }

    /// The disks with threads that have been at one step for longer than a caller should wait.
    pub(super) fn stuck(&self) -> Vec<MemberId> {
        self.there.iter().flatten().filter(|member| member.shared.is_stuck()).map(|member| member.member).collect()
    }
}

/// See the module.
pub(crate) struct Core {
    pub(super) volume: Volume,
    pub(super) members: Members,
    pub(super) open: OpenContents,
    /// The front's: its disk is where a recording's rate is reserved.
    pub(super) front: Arc<DiskShared>,
    pub(super) drafts: Drafts<VolumeUpload, Arc<Chunk>>,
    /// Time at which a name was given or removed last, at the earliest the start: the time of each folder.
    pub(super) names_changed: SystemTime,
    pub(super) resting: RestingUploads,
    pub(super) write_sets: WriteSets<Waiter>,
    pub(super) upkeep: Option<UpkeepRun>,
    /// The recent reads of contents, and whether they have changed since contents to be moved were last chosen by them.
    pub(super) reads: ReadCounts,
    pub(super) reads_changed: bool,
    /// Copies that were moved to other zones.
    pub(super) moved_copies: u64,
    /// The one copy that is under way, of the upkeep or after a read found it wrong.
    pub(super) copying: Option<CopyUnderWay>,
    /// Copies of one part, which reads found wrong.
    pub(super) mending: VecDeque<MendTask>,
    /// Did everything; the disks' states that it has changed are not durable yet.
    pub(super) undurable_upkeep: Option<UpkeepRun>,
    /// End of the last upkeep.
    pub(super) last_upkeep: Option<EndedUpkeep>,
    pub(super) health: VolumeHealth,
    pub(super) closed: bool,
}

impl Core {
    pub(super) fn new(volume: Volume, members: Members, open: OpenContents, front: Arc<DiskShared>) -> Self {
        let write_sets = WriteSets::new(volume.superblock().generation);
        Self {
            volume,
            members,
            open,
            front,
            drafts: Drafts::default(),
            names_changed: SystemTime::now(),
            resting: RestingUploads::default(),
            write_sets,
            upkeep: None,
            reads: ReadCounts::default(),
            reads_changed: false,
            moved_copies: 0,
            copying: None,
            mending: VecDeque::new(),
            undurable_upkeep: None,
            last_upkeep: None,
            health: VolumeHealth::default(),
            closed: false,
        }
    }

    /// Begins to make all pending changes durable, unless a set is under way.
    pub(super) fn begin_write_set(&mut self) {
        if self.closed {
            return;
        }
        for member in self.write_sets.begin(&mut self.volume) {
            self.members.tell(member, Task::Share);
        }
        self.settle_upkeep();
    }

    /// True if disks' states are being made durable.
    pub(super) fn has_superblocks(&self) -> bool {
        self.write_sets.has_superblocks()
    }

    /// As [`WriteSets::durable_generation`].
    pub(super) const fn durable_generation(&self) -> u64 {
        self.write_sets.durable_generation()
    }

    /// True if a change is being made durable.
    pub(super) fn has_write_set(&self) -> bool {
        !self.write_sets.is_idle()
    }

    /// True if `member` has a share of the set under way that it has not written.
    pub(super) fn is_turn_of(&self, member: MemberId) -> bool {
        self.write_sets.is_turn_of(member)
    }

    /// The writes of `member` in the set under way, if it is its turn, and the set's number.
    pub(super) fn share(&self, member: MemberId) -> Option<(u64, Vec<(u64, AlignedBlock)>)> {
        let (number, writes) = self.write_sets.share(member)?;
        Some((number, writes.into_iter().map(|write| (write.position, AlignedBlock::new(&write.bytes))).collect()))
    }

    /// A disk wrote and flushed its share of the set with this number.
    pub(super) fn share_done(&mut self, member: MemberId, number: u64) {
        for waiter in self.write_sets.done(member, number, &mut self.volume) {
            waiter.answer(Ok(()), &self.front);
        }
        self.front.wake(); // its gauges have changed
        self.begin_write_set();
    }

    /// Takes `member` out, durably before anything else. Uploads continue with their other copies; where there are none, they fail with
    /// `error`. A disk that may have the only copies of contents is read on; a recording continues elsewhere then, for no client can send
    /// it again. Where nothing can be made durable without the disk, the volume takes no more changes, and all waiting changes fail.
    pub(super) fn take_out(&mut self, member: MemberId, error: &StoreError) {
        if !self.takes_writes(member) {
            return;
        }
        self.health.note_failure(member, error);
        self.resting.let_go(&mut self.volume);
        if let Err((_, waiters)) = self.write_sets.take_out(member, &mut self.volume) {
            self.drafts.written_by(member).into_iter().for_each(|number| self.fail(UploadId(number), error));
            for waiter in waiters {
                waiter.answer(Err(error.clone()), &self.front);
            }
            self.end_upkeep(Err(VolumeError::ReadOnly));
            self.fail_undurable_upkeep(VolumeError::ReadOnly);
            self.copying = None;
            return;
        }
        if !self.volume.is_readable(member) {
            self.members.there[member.index()] = None;
        }
        let lost = self.drafts.leave_out(member, &mut self.volume);
        self.carry_out();
        lost.into_iter().for_each(|number| self.fail(UploadId(number), error));
        self.upkeep_without(member);
        self.begin_write_set();
    }

    /// Disks have other states: durably so before anything else is acknowledged.
    pub(super) fn write_superblocks(&mut self, steps: impl IntoIterator<Item = Vec<DiskWrite>>) {
        self.write_sets.write_superblocks(steps);
        self.begin_write_set();
    }

    /// True if a disk is there and written to.
    pub(super) fn takes_writes(&self, member: MemberId) -> bool {
        self.members.get(member).is_some() && self.volume.is_writable(member)
    }

    /// True if the volume uses the disk no more.
    pub(super) fn is_out(&self, member: MemberId) -> bool {
        self.closed || self.members.there[member.index()].is_none()
    }

    /// No caller is left, or no grant will come any more.
    pub(super) fn give_up(&mut self) {
        self.closed = true;
        self.upkeep = None;
        self.undurable_upkeep = None;
        self.copying = None;
        self.members.there.iter().flatten().for_each(|member| member.shared.wake());
        self.drafts.numbers().into_iter().for_each(|number| self.fail(UploadId(number), &StoreError::Closed));
        for waiter in self.write_sets.give_up() {
            waiter.answer(Err(StoreError::Closed), &self.front);
        }
    }

    pub(super) fn error(&self, error: VolumeError) -> StoreError {
        match error {
            VolumeError::NotFound => StoreError::NotFound,
            VolumeError::IsFolder => StoreError::IsDirectory,
            VolumeError::Name(_) => StoreError::NameTooLong,
            VolumeError::NotAFolder => StoreError::NotADirectory,
            VolumeError::Full | VolumeError::CatalogueFull | VolumeError::TooLong => full(&self.volume),
            VolumeError::ReadOnly => {
                let mut members = (0u8..).map(MemberId).take(self.volume.superblock().members.len());
                let away = |member| StoreError::VolumeReadOnly(Arc::new(self.members.away_disk(&self.volume, member)));
                members.find(|member| !self.takes_writes(*member)).map_or(StoreError::ReadOnly, away)
            }
            VolumeError::PartLost => StoreError::DiskFailing(self.front.id),
        }
    }
}

fn full(volume: &Volume) -> StoreError {
    let place = format!("the volume `{}`", volume.superblock().name);
    StoreError::Full(Arc::new(FullPlace { place, free: ByteCount(volume.free_bytes()) }))
}
