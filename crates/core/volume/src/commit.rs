//! The group commit: the writes and flushes, in their order, that make all changes staged so far durable.
//!
//! Promise: one commit is under way at a time; the payload of the contents it publishes is durable before its record is written; the
//! units it frees are not used before it is durable and before the last reader of them is gone. A failed write or FLUSH is
//! never tried again on the same disk: the disk is taken out, or only read from then on, or the volume takes no more changes.

use crate::catalogue::Catalogue;
use crate::changes::GroupCommit;
use crate::disk::DiskWrite;
use crate::members::own_first;
use crate::record::{self, Record};
use crate::recording::Recordings;
use crate::superblock::MemberState;
use crate::{MemberId, Volume, VolumeError};

/// A frame of a checkpoint is closed at this number of bytes.
const CHECKPOINT_FRAME_BYTES: usize = 256 << 10;

impl Volume {
    /// The writes and flushes that make all changes staged so far durable; `None` if there are none, or while the commit before is under
    /// way.
    #[must_use]
    pub fn commit(&mut self) -> Option<GroupCommit> {
        let (recordings, catalogue) = (&self.recordings, &self.catalogue);
        self.changes.commit(&self.members, |numbers| checkpoint(numbers, recordings, catalogue))
    }

    /// Takes the outcome of the commit under way. After a failure the volume takes no more changes, unless the disk that failed is taken
    /// out with [`Volume::take_out`] instead.
    pub fn committed(&mut self, outcome: Result<(), MemberId>) {
        self.changes.committed(outcome);
        self.reuse_retired();
        self.assert_sound();
    }

    /// Takes a disk out that failed: nothing on it counts from now on. Gives the superblocks to write: the first list must
    /// be durable (each disk flushed) before the second is written and flushed too. A commit under way counts as failed,
    /// and the next one makes everything durable anew.
    ///
    /// A volume with one copy of everything keeps the disk, for it has nothing else to read, and writes to the others only. There are no
    /// superblocks to write then: a start tries the disk again. Contents that were published before they were flushed may be missing.
    ///
    /// # Errors
    /// No other disk that can be read has copies of everything on it, and it is not there, or a start would not find the journal on another
    /// disk: the volume takes no more changes, and reads continue.
    pub fn take_out(&mut self, member: MemberId) -> Result<[Vec<DiskWrite>; 2], VolumeError> {
        self.changes.give_up_commit();
        if !self.keeps_all_without(member) {
            if self.is_readable(member) && self.journal_continues_without(member) && !self.is_read_only() {
                self.members.only_read(member);
                self.changes.forget_payload(member);
                self.changes.renew_catalogue();
                return Ok([Vec::new(), Vec::new()]);
            }
            self.changes.stop();
            return Err(VolumeError::ReadOnly);
        }
        Ok(self.set_member(member, MemberState::Out))
    }

    /// True if other disks that can be read have a copy of everything, the journal too; also of contents that are gone, but not durably.
    #[must_use]
    pub fn keeps_all_without(&self, member: MemberId) -> bool {
        let stays = |other: MemberId| other != member && self.is_readable(other);
        let gone = self.changes.undurable().flat_map(|retired| &retired.content.parts);
        let mut parts = self.named_parts().chain(gone);
        self.members.placement().copies() > 1
            && self.changes.journal_on().iter().any(|other| stays(*other))
            && parts.all(|part| part.places().any(|place| stays(place.member)))
    }

    /// True if a volume with one copy of everything can make changes durable without a disk: on another one of those that a start reads the
    /// journal from, which has its durable state.
    fn journal_continues_without(&self, member: MemberId) -> bool {
        self.members.placement().copies() == 1 && self.journal_stays_without(member)
    }

    /// True if another disk of those that a start reads the journal from has its durable state, and takes more.
    pub(crate) fn journal_stays_without(&self, member: MemberId) -> bool {
        let stays = |other: &MemberId| {
            *other != member && self.is_readable(*other) && self.changes.journal_on().contains(other)
        };
        self.members.journal_members().iter().any(stays)
    }

    /// True if the durable catalogue lies on all disks that a start reads it from.
    #[must_use]
    pub fn has_catalogue_in_place(&self) -> bool {
        self.changes.journal_on() == self.members.journal_members()
    }

    /// Gives a disk another state, with the superblocks to write for it (see [`Volume::take_out`]).
    pub(crate) fn set_member(&mut self, member: MemberId, state: MemberState) -> [Vec<DiskWrite>; 2] {
        if !state.takes_part() {
            self.recordings.leave_out(member);
            self.changes.forget_payload(member);
        }
        self.changes.renew_catalogue();
        let steps = self.members.set_state(member, state);
        debug_assert!(
            state.takes_part() == self.is_writable(member),
            "contents are written to a disk exactly while it takes part"
        );
        self.assert_sound();
        steps
    }

    /// Gives a disk that comes its state: its own superblocks are durable before any other says that it is there.
    pub(crate) fn set_coming(&mut self, member: MemberId, state: MemberState) -> [Vec<DiskWrite>; 4] {
        own_first(member, self.set_member(member, state))
    }
}

/// The payloads of a checkpoint's frames.
fn checkpoint(numbers: &Record, recordings: &Recordings, catalogue: &Catalogue) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    let mut payload = Vec::with_capacity(CHECKPOINT_FRAME_BYTES * 2);
    numbers.encode(&mut payload);
    let mut close_if_full = |payload: &mut Vec<u8>| {
        if payload.len() >= CHECKPOINT_FRAME_BYTES {
            payloads.push(std::mem::take(payload));
        }
    };
    for recorded in recordings.iter() {
        Record::Recorded(0, recorded.name.clone(), recorded.content.clone()).encode(&mut payload);
        close_if_full(&mut payload);
    }
    for (name, content) in catalogue.iter() {
        record::put(name, content, &mut payload);
        close_if_full(&mut payload);
    }
    if !payload.is_empty() {
        payloads.push(payload);
    }
    payloads
}
