//! The group commit: the writes and flushes, in their order, that make all changes staged so far durable.
//!
//! Promise: one commit is under way at a time; the payload of the contents it publishes is durable before its record is written; the
//! units it frees are not used before it is durable and before the last reader of them is gone. A failed write or FLUSH is
//! never tried again on the same disk: the disk is taken out, or only read from then on, or the volume takes no more changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::changes::{CommitUnderWay, StagedChanges};
use crate::disk::DiskWrite;
use crate::record::{self, Record};
use crate::superblock::MemberState;
use crate::{MEMBERS_MAX, MemberId, Superblock, Volume, VolumeError};

/// A frame of a checkpoint is closed when it has so many bytes.
const CHECKPOINT_FRAME_BYTES: usize = 256 << 10;
/// Disks that hold the journal.
const JOURNAL_COPIES: usize = 2;

/// Writes and flushes that make the staged changes durable. Give the outcome to [`Volume::committed`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupCommit {
    /// Flush these first: they hold the payload of the contents that it publishes.
    pub flush_first: Vec<MemberId>,
    /// Then write these, in any order.
    pub writes: Vec<DiskWrite>,
    /// Then flush these, once.
    pub flush_then: Vec<MemberId>,
}

impl Volume {
    /// The writes and flushes that make all changes staged so far durable; `None` if there are none, or while the commit before is under
    /// way.
    #[must_use]
    pub fn commit(&mut self) -> Option<GroupCommit> {
        if self.committing.is_some()
            || self.read_only
            || (self.changes.records.is_empty() && !self.changes.with_checkpoint)
        {
            return None;
        }
        self.numbers.reserve_if_few(&mut self.changes.records);
        let StagedChanges { records, retired, dirty, with_checkpoint } = std::mem::take(&mut self.changes);
        let appended = if with_checkpoint { None } else { self.journal.append(&records) };
        let area_writes = match appended {
            Some(write) => vec![write],
            None => {
                let payloads = self.checkpoint_payloads();
                self.journal.start_checkpoint(&payloads)
            }
        };
        let members = self.journal_members();
        let start = self.areas(MemberId(0)).journal_start();
        let writes = area_writes.into_iter().flat_map(|(position, bytes)| {
            let position = start + position;
            members.iter().map(move |member| DiskWrite { member: *member, position, bytes: bytes.clone() })
        });
        let flush_first = dirty.iter().copied().collect();
        self.committing = Some(CommitUnderWay { retired, dirty, journal: members.clone() });
        Some(GroupCommit { flush_first, writes: writes.collect(), flush_then: members })
    }

    /// Takes the outcome of the commit under way. After a failure the volume takes no more changes, unless the disk that failed is taken
    /// out with [`Volume::take_out`] instead.
    pub fn committed(&mut self, outcome: Result<(), MemberId>) {
        let Some(commit) = self.committing.take() else { return };
        if outcome.is_err() {
            self.read_only = true;
            return;
        }
        self.retired.extend(commit.retired);
        self.journal_on = commit.journal;
        self.journal.made_durable();
        self.numbers.made_durable();
        self.reuse_retired();
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
        if let Some(commit) = self.committing.take() {
            self.changes.retired.extend(commit.retired);
            self.changes.dirty.extend(commit.dirty);
        }
        if !self.keeps_all_without(member) {
            if self.is_readable(member) && self.journal_goes_on_without(member) && !self.read_only {
                self.only_read.push(member);
                self.changes.dirty.remove(&member);
                self.changes.with_checkpoint = true;
                return Ok([Vec::new(), Vec::new()]);
            }
            self.read_only = true;
            return Err(VolumeError::ReadOnly);
        }
        Ok(self.set_member(member, MemberState::Out))
    }

    /// True if other disks that can be read have a copy of everything, the journal too; also of contents that are gone, but not durably.
    #[must_use]
    pub fn keeps_all_without(&self, member: MemberId) -> bool {
        let stays = |other: MemberId| other != member && self.is_readable(other);
        let committing = self.committing.iter().flat_map(|commit| &commit.retired);
        let gone = self.changes.retired.iter().chain(committing).map(|retired| &retired.content);
        let mut parts = self.named_parts().chain(gone.flat_map(|content| &content.parts));
        self.placement().copies() > 1
            && self.journal_on.iter().any(|other| stays(*other))
            && parts.all(|part| part.places().any(|place| stays(place.member)))
    }

    /// True if a volume with one copy of everything can make changes durable without a disk: on another one of those that a start reads the
    /// journal from, which has its durable state.
    fn journal_goes_on_without(&self, member: MemberId) -> bool {
        let goes_on = |other: &MemberId| *other != member && self.journal_on.contains(other);
        self.placement().copies() == 1 && self.journal_members().iter().any(goes_on)
    }

    /// Gives a disk another state, with the superblocks to write for it (see [`Volume::take_out`]).
    pub(crate) fn set_member(&mut self, member: MemberId, state: MemberState) -> [Vec<DiskWrite>; 2] {
        self.superblock.members[member.index()].state = state;
        self.superblock.generation += 1;
        self.filled.retain(|filled| *filled != member);
        if state == MemberState::Out {
            self.leave_out_of_recordings(member);
        }
        self.changes.dirty.retain(|dirty| *dirty != member || state != MemberState::Out);
        self.changes.with_checkpoint = true;
        self.superblock_writes()
    }

    /// Gives a disk that comes its state: its own superblocks are durable before any other says that it is there, or it would be taken for
    /// the one that had its number before.
    pub(crate) fn set_coming(&mut self, member: MemberId, state: MemberState) -> [Vec<DiskWrite>; 4] {
        let steps = self.set_member(member, state);
        let [[own_one, one], [own_two, two]] = steps.map(|step| {
            let (own, others): (Vec<_>, Vec<_>) = step.into_iter().partition(|write| write.member == member);
            [own, others]
        });
        [own_one, own_two, one, two]
    }

    /// The superblocks of all disks that take part, in two steps.
    #[must_use]
    pub fn superblock_writes(&self) -> [Vec<DiskWrite>; 2] {
        let mut steps = [Vec::new(), Vec::new()];
        for number in 0..self.superblock.members.len() {
            let member = MemberId(u8::try_from(number).expect("at most MEMBERS_MAX"));
            if !self.is_writable(member) {
                continue;
            }
            let bytes = Superblock { member, ..self.superblock.clone() }.encode();
            let positions = crate::Areas::superblock_positions(self.superblock.members[number].size);
            // One copy of each end in each step: an end that was damaged as a whole leaves two of the other.
            for (copy, position) in positions.into_iter().enumerate() {
                steps[copy % 2].push(DiskWrite { member, position, bytes: bytes.clone() });
            }
        }
        steps
    }

    /// The disks that the journal is written to: the first two that can be read, if they can be written to, and those that are being
    /// filled, so that one which counts from now on has no old journal.
    pub(crate) fn journal_members(&self) -> Vec<MemberId> {
        let readable = self.member_ids().filter(|member| self.is_readable(*member)).take(JOURNAL_COPIES);
        readable.filter(|member| self.is_writable(*member)).chain(self.unreadable()).collect()
    }

    pub(crate) fn member_ids(&self) -> impl Iterator<Item = MemberId> + use<> {
        (0..self.superblock.members.len().min(MEMBERS_MAX)).filter_map(|number| u8::try_from(number).ok()).map(MemberId)
    }

    /// Gives units back that are durably free and unread. A reader of a version as it lay before some of it moved may read units that moved
    /// later from their old places, too.
    pub(crate) fn reuse_retired(&mut self) {
        let mut read_generations = BTreeSet::new();
        let (read, unread): (Vec<_>, Vec<_>) = std::mem::take(&mut self.retired).into_iter().partition(|retired| {
            let generation = retired.content.generation;
            let read = Arc::strong_count(&retired.content) > 1 || read_generations.contains(&generation);
            if read {
                read_generations.insert(generation);
            }
            read
        });
        self.retired = read;
        for place in unread.iter().flat_map(|retired| &retired.units) {
            self.free[place.member.index()].give(place.unit);
        }
    }

    fn checkpoint_payloads(&self) -> Vec<Vec<u8>> {
        let mut payloads = Vec::new();
        let mut payload = Vec::with_capacity(CHECKPOINT_FRAME_BYTES * 2);
        self.numbers.reserved().encode(&mut payload);
        let mut close_if_full = |payload: &mut Vec<u8>| {
            if payload.len() >= CHECKPOINT_FRAME_BYTES {
                payloads.push(std::mem::take(payload));
            }
        };
        for recorded in self.recordings.values() {
            Record::Recorded(0, recorded.name.clone(), recorded.content.clone()).encode(&mut payload);
            close_if_full(&mut payload);
        }
        for (name, content) in self.catalogue.iter() {
            record::put(name, content, &mut payload);
            close_if_full(&mut payload);
        }
        if !payload.is_empty() {
            payloads.push(payload);
        }
        payloads
    }
}
