//! Decisions that the threads of a volume share: its contents, uploads and upkeep, on the live volume.
//!
//! Promise: no disk is touched here. The core puts the tasks of a disk into its inbox, and wakes its thread.

use std::sync::Arc;
use std::time::SystemTime;

use units::UploadId;
use volume::{DiskWrite, Drafts, MemberId, Upkeep, Volume, VolumeError};

use super::info::UpkeepError;
use super::live::{LiveVolume, Members};
use super::open_contents::OpenContents;
use super::resumable::RestingUploads;
use super::upkeep::{ClientUse, VolumeUpkeep};
use super::upkeep_run::CopyStep;
use super::upload::VolumeUpload;
use store::StoreError;
use store::buffers::Chunk;
use store::shared::DiskShared;

/// See the module.
pub(crate) struct Core {
    pub(super) live: LiveVolume,
    pub(super) open: OpenContents,
    pub(super) drafts: Drafts<VolumeUpload, Arc<Chunk>>,
    /// Time at which a name was given or removed last, at the earliest the start: the time of each folder.
    pub(super) names_changed: SystemTime,
    pub(super) resting: RestingUploads,
    pub(super) upkeep: VolumeUpkeep,
}

impl Core {
    pub(super) fn new(volume: Volume, members: Members, open: OpenContents, front: Arc<DiskShared>) -> Self {
        Self {
            live: LiveVolume::new(volume, members, front),
            open,
            drafts: Drafts::default(),
            names_changed: SystemTime::now(),
            resting: RestingUploads::default(),
            upkeep: VolumeUpkeep::default(),
        }
    }

    /// Begins to make all pending changes durable, unless a set is under way.
    pub(super) fn begin_write_set(&mut self) {
        self.live.begin_write_set();
        self.upkeep.settle(&mut self.live);
    }

    /// A disk wrote and flushed its share of the set with this number.
    pub(super) fn share_done(&mut self, member: MemberId, number: u64) {
        for waiter in self.live.write_sets.done(member, number, &mut self.live.volume) {
            waiter.answer(Ok(()), &self.live.front);
        }
        self.live.front.wake(); // its gauges have changed
        self.begin_write_set();
    }

    /// Takes `member` out, durably before anything else. Uploads continue with their other copies; where there are none, they fail with
    /// `error`. A disk that may have the only copies of contents is read on; a recording continues elsewhere then, for no client can send
    /// it again. Where nothing can be made durable without the disk, the volume takes no more changes, and all waiting changes fail.
    pub(super) fn take_out(&mut self, member: MemberId, error: &StoreError) {
        if !self.live.takes_writes(member) {
            return;
        }
        self.live.health.note_failure(member, error);
        self.resting.let_go(&mut self.live.volume);
        if let Err((_, waiters)) = self.live.write_sets.take_out(member, &mut self.live.volume) {
            self.drafts.written_by(member).into_iter().for_each(|number| self.fail(UploadId(number), error));
            for waiter in waiters {
                waiter.answer(Err(error.clone()), &self.live.front);
            }
            return self.upkeep.stop(VolumeError::ReadOnly, &mut self.live);
        }
        if !self.live.volume.is_readable(member) {
            self.live.members.there[member.index()] = None;
        }
        let lost = self.drafts.leave_out(member, now_nanos(), &mut self.live.volume);
        self.carry_out();
        lost.into_iter().for_each(|number| self.fail(UploadId(number), error));
        self.upkeep.leave_out(member, &mut self.live);
        debug_assert!(!self.live.takes_writes(member), "a disk that failed gets no more writes");
        debug_assert!(self.drafts.written_by(member).is_empty(), "an upload would wait for a disk that is out");
        self.begin_write_set();
        self.live.assert_sound();
    }

    /// Disks have other states: durably so before anything else is acknowledged.
    pub(super) fn write_superblocks(&mut self, steps: impl IntoIterator<Item = Vec<DiskWrite>>) {
        self.live.write_sets.write_superblocks(steps);
        self.begin_write_set();
        self.live.assert_sound();
    }

    /// True if the volume uses the disk no more.
    pub(super) fn is_out(&self, member: MemberId) -> bool {
        self.live.closed || self.live.members.there[member.index()].is_none()
    }

    /// No caller is left, or no grant will come any more.
    pub(super) fn give_up(&mut self) {
        self.live.closed = true;
        self.upkeep.give_up();
        self.live.members.there.iter().flatten().for_each(|member| member.shared.wake());
        self.drafts.numbers().into_iter().for_each(|number| self.fail(UploadId(number), &StoreError::Closed));
        for waiter in self.live.write_sets.give_up() {
            waiter.answer(Err(StoreError::Closed), &self.live.front);
        }
        debug_assert!(self.live.write_sets.waiting().next().is_none(), "each client has its answer");
        debug_assert!(!self.live.has_write_set(), "nothing is written any more");
    }

    /// See [`VolumeUpkeep::begin`].
    pub(super) fn begin_upkeep(&mut self, upkeep: Upkeep) -> Result<(), UpkeepError> {
        self.upkeep.begin(upkeep, &mut self.live)
    }

    /// Continues the upkeep.
    pub(super) fn upkeep_turn(&mut self) {
        let is_idle = self.open.is_empty() && self.upload_count() == 0;
        let Self { live, open, drafts, resting, upkeep, .. } = self;
        upkeep.turn(&mut ClientUse { open, drafts, resting, is_idle }, live);
        live.assert_sound();
        upkeep.assert_sound(live);
    }

    /// See [`VolumeUpkeep::fill_disks`].
    pub(super) fn fill_disks(&mut self) {
        self.upkeep.fill_disks(&mut self.live);
    }

    /// See [`VolumeUpkeep::copy_step`].
    pub(super) fn copy_step(&mut self, id: UploadId, step: CopyStep) {
        self.upkeep.copy_step(id, step, &mut self.live);
    }

    /// See [`VolumeUpkeep::could_not_mend`].
    pub(super) fn could_not_mend(&mut self, id: UploadId) -> bool {
        self.upkeep.could_not_mend(id, &mut self.live)
    }

    /// See [`VolumeUpkeep::mend_parts`].
    pub(super) fn mend_parts(&mut self, parts: &[(String, u32)]) {
        self.upkeep.mend_parts(parts, &mut self.live);
    }

    /// See [`VolumeUpkeep::note_read`].
    pub(super) fn note_read(&mut self, name: &str, bytes: u64) {
        self.upkeep.note_read(name, bytes, &self.live);
    }
}

/// Nanoseconds since 1970.
pub(super) fn now_nanos() -> u64 {
    nanos_at(SystemTime::now())
}

/// Nanoseconds from 1970 to `time`; none for one before.
pub(super) fn nanos_at(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
