//! An open volume with the threads of its disks, and the sets of writes that make its changes durable.
//!
//! Promise: no disk is touched here. A task goes into the inbox of its disk, whose thread is woken. Not here: the names and bytes of contents
//! (`core`), the copies that are looked after (`upkeep`).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use content::layout::FileAccess;
use device::Device;
use kernel::aligned::AlignedBlock;
use storage::uploads::RecordingTerms;
use units::{ByteCount, DiskId, UploadId};
use volume::{MemberId, Volume, VolumeError, WriteSets};

use super::health::VolumeHealth;
use super::open_disk::OpenDisk;
use super::part::Block;
use super::small_read::SmallRead;
use super::unit_read::UnitRead;
use super::waiter::Waiter;
use store::grants::GrantPort;
use store::shared::DiskShared;
use store::{AwayDisk, FullPlace, OnBreak, StoreError};

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

/// The name of a disk in errors: that of the figures of disks.
pub(super) fn name_of(disk: &OpenDisk) -> String {
    format!("disk {}", disk.device.name)
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
    /// The disk that stands for all of them: errors of none in particular name it.
    pub(super) front: Arc<DiskShared>,
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
        if let Some(there) = self.there.get_mut(member.index()).and_then(Option::as_mut) {
            debug_assert!(there.member == member, "a disk lies at its number");
            there.inbox.push_back(task);
            there.shared.wake();
        }
    }

    /// The disks with threads that have been at one step for longer than a caller should wait.
    pub(super) fn stuck(&self) -> Vec<MemberId> {
        self.there.iter().flatten().filter(|member| member.shared.is_stuck()).map(|member| member.member).collect()
    }
}

/// See the module.
pub(crate) struct LiveVolume {
    pub(super) volume: Volume,
    pub(super) members: Members,
    pub(super) write_sets: WriteSets<Waiter>,
    /// The front's: its disk is where a recording's rate is reserved.
    pub(super) front: Arc<DiskShared>,
    pub(super) health: VolumeHealth,
    pub(super) closed: bool,
}

impl LiveVolume {
    pub(super) fn new(volume: Volume, members: Members, front: Arc<DiskShared>) -> Self {
        let write_sets = WriteSets::new(volume.superblock().generation);
        Self { volume, members, write_sets, front, health: VolumeHealth::default(), closed: false }
    }

    /// Begins to make all pending changes durable, unless a set is under way.
    pub(super) fn begin_write_set(&mut self) {
        if self.closed {
            return;
        }
        for member in self.write_sets.begin(&mut self.volume) {
            debug_assert!(self.members.get(member).is_some(), "a set would wait for a disk without a thread");
            self.members.tell(member, Task::Share);
        }
    }

    /// Checks the disks' threads against the volume, in builds with debug assertions.
    pub(super) fn assert_sound(&self) {
        // The threads end at different times.
        if self.closed {
            return;
        }
        let (count, members) = (self.volume.superblock().members.len(), &self.members);
        debug_assert!(members.there.len() == count, "a place for each disk");
        debug_assert!(members.named.len() == count, "a name for each disk");
        debug_assert!(
            (0u8..)
                .zip(&members.there)
                .all(|(at, there)| there.as_ref().is_none_or(|there| there.member == MemberId(at))),
            "a disk lies at its number"
        );
        debug_assert!(
            members.vacant.keys().all(|place| members.get(*place).is_none()),
            "a place with a disk in it is not vacant"
        );
        debug_assert!(members.vacant.keys().all(|place| place.index() <= count), "one place is spare");
        debug_assert!(
            (0u8..)
                .map(MemberId)
                .take(count)
                .all(|member| !self.volume.is_readable(member) || members.get(member).is_some()),
            "a disk that is read has a thread"
        );
        debug_assert!(
            self.durable_generation() <= self.volume.superblock().generation,
            "a superblock is durable that the volume has not made"
        );
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

    /// True if a disk is there and written to.
    pub(super) fn takes_writes(&self, member: MemberId) -> bool {
        self.members.get(member).is_some() && self.volume.is_writable(member)
    }

    /// True if the volume takes no more changes since this disk failed: no other has copies of everything on it.
    pub(super) fn is_stopped_by(&self, member: MemberId) -> bool {
        self.volume.is_read_only() && self.takes_writes(member) && self.health.failure(member).is_some()
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
                let failed = members.clone().find(|member| self.is_stopped_by(*member));
                let needed = failed.or_else(|| members.find(|member| !self.takes_writes(*member)));
                needed.map_or(StoreError::ReadOnly, |member| {
                    let away = self.members.away_disk(&self.volume, member);
                    let state = if failed.is_some() { "failed" } else { away.state };
                    StoreError::VolumeReadOnly(Arc::new(AwayDisk { state, ..away }))
                })
            }
            VolumeError::PartLost => self.front.failing(),
        }
    }
}

fn full(volume: &Volume) -> StoreError {
    let place = format!("the volume `{}`", volume.superblock().name);
    StoreError::Full(Arc::new(FullPlace { place, free: ByteCount(volume.free_bytes()) }))
}
