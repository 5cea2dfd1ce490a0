//! The group commit: the writes and flushes, in their order, that make all changes staged so far durable.
//!
//! Promise: one commit is under way at a time. The payload of the contents that it publishes is durable before its record is
//! written. Units that it frees are not used again before it is durable and their last reader has ended. A failed write or
//! flush is never repeated on the same disk: the disk is taken out, or only read from then on, or the volume accepts no more
//! changes.

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
    /// Begins a commit: the writes and flushes that make all staged changes durable. `None` if there are no changes, or while
    /// the last commit is under way.
    #[must_use]
    pub fn commit(&mut self) -> Option<GroupCommit> {
        let (recordings, catalogue) = (&self.recordings, &self.catalogue);
        self.changes.commit(&self.members, |numbers| checkpoint(numbers, recordings, catalogue))
    }

    /// Notes the outcome of the commit under way. After a failure the volume accepts no more changes; to avoid that, the caller
    /// takes the failed disk out with [`Volume::take_out`] instead.
    pub fn committed(&mut self, outcome: Result<(), MemberId>) {
        self.changes.committed(outcome);
        self.reuse_retired();
        self.assert_sound();
    }

    /// Takes a failed disk out: its copies no longer count. Returns the superblocks to write: the first list must be durable
    /// (each disk flushed) before the second is written and flushed. A commit under way counts as failed, and the next commit
    /// makes all its changes durable.
    ///
    /// A volume with one copy of everything keeps the disk, since its bytes exist nowhere else, and writes to the other disks
    /// only. No superblock is written then, so the next start tries the disk again. Contents that were published before they
    /// were flushed may be missing.
    ///
    /// # Errors
    /// The other readable disks do not keep everything, and the volume has several copies, or the disk is missing, or no other
    /// journal disk has the durable state, or the volume accepts no changes already: it accepts no more, and reads continue.
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

    /// True if other readable disks have the journal and a copy of every content of the volume, including contents whose removal
    /// is not durable yet; false with one copy.
    #[must_use]
    pub fn keeps_all_without(&self, member: MemberId) -> bool {
        let stays = |other: MemberId| other != member && self.is_readable(other);
        let gone = self.changes.undurable().flat_map(|retired| &retired.content.parts);
        let mut parts = self.named_parts().chain(gone);
        self.members.placement().copies() > 1
            && self.changes.journal_on().iter().any(|other| stays(*other))
            && parts.all(|part| part.places().any(|place| stays(place.member)))
    }

    /// True if a volume with one copy of everything can make changes durable without this disk: another journal disk has the
    /// durable state.
    fn journal_continues_without(&self, member: MemberId) -> bool {
        self.members.placement().copies() == 1 && self.journal_stays_without(member)
    }

    /// True if another disk from which a start reads the journal has its durable state and accepts writes.
    pub(crate) fn journal_stays_without(&self, member: MemberId) -> bool {
        let stays = |other: &MemberId| {
            *other != member && self.is_readable(*other) && self.changes.journal_on().contains(other)
        };
        self.members.journal_members().iter().any(stays)
    }

    /// True if every disk from which a start reads the catalogue holds the durable one.
    #[must_use]
    pub fn has_catalogue_in_place(&self) -> bool {
        self.changes.journal_on() == self.members.journal_members()
    }

    /// Sets the state of a disk; returns the superblocks to write (see [`Volume::take_out`]).
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

    /// Sets the state of an added disk: its own superblocks become durable before those of other disks name it.
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
