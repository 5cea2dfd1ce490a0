//! Changes of a volume that are not durable yet, the commits that make them so, and the units that are free then.
//!
//! Promise: a unit that the catalogue names no more goes to nothing else before that is durable and its last reader is gone; of the changes
//! of a commit that is given up none is lost. Not here: doing the writes (`write_sets`).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::content::{StoredContent, StoredPart, UnitPlace};
use crate::journal::Journal;
use crate::members::MemberTable;
use crate::numbers::Numbers;
use crate::record::{self, Record};
use crate::{DiskWrite, MemberId, VolumeError};

/// See the module.
#[derive(Debug)]
pub(crate) struct PendingChanges {
    journal: Journal,
    /// Disks that hold the durable state of the journal.
    journal_on: Vec<MemberId>,
    numbers: Numbers,
    staged: StagedChanges,
    committing: Option<CommitUnderWay>,
    /// Units that are durably free, and may be read still.
    retired: Vec<RetiredUnits>,
    read_only: bool,
}

/// Changes that the next commit makes durable.
#[derive(Debug, Default)]
struct StagedChanges {
    /// Records of the journal.
    records: Vec<u8>,
    /// Units that are free then.
    retired: Vec<RetiredUnits>,
    /// Disks with payload that must be durable first.
    dirty: BTreeSet<MemberId>,
    /// True if all of the catalogue is written anew.
    with_checkpoint: bool,
}

/// The commit under way.
#[derive(Debug)]
struct CommitUnderWay {
    retired: Vec<RetiredUnits>,
    /// Disks with payload that is durable when it is.
    dirty: BTreeSet<MemberId>,
    /// Disks that hold the journal when it is durable.
    journal: Vec<MemberId>,
}

/// Units that the catalogue names no more, and the content with the readers that may still use them.
#[derive(Debug)]
pub(crate) struct RetiredUnits {
    pub(crate) units: Vec<UnitPlace>,
    pub(crate) content: Arc<StoredContent>,
}

/// Writes and flushes that make the staged changes durable. Give the outcome to [`crate::Volume::committed`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupCommit {
    /// Flush these first: they hold the payload of the contents that it publishes.
    pub flush_first: Vec<MemberId>,
    /// Then write these, in any order.
    pub writes: Vec<DiskWrite>,
    /// Then flush these, once.
    pub flush_then: Vec<MemberId>,
}

impl PendingChanges {
    /// Changes behind a journal, of which these disks hold the durable state. Numbers below `next_number` were used.
    pub(crate) fn behind(journal: Journal, journal_on: Vec<MemberId>, next_number: u64) -> Self {
        let mut staged = StagedChanges::default();
        let numbers = Numbers::from(next_number, &mut staged.records);
        Self { journal, journal_on, numbers, staged, committing: None, retired: Vec::new(), read_only: false }
    }

    /// True if the volume takes no more changes.
    pub(crate) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The volume takes no more changes.
    pub(crate) const fn stop(&mut self) {
        self.read_only = true;
    }

    /// # Errors
    /// The volume takes no changes.
    pub(crate) const fn check(&self) -> Result<(), VolumeError> {
        if self.read_only { Err(VolumeError::ReadOnly) } else { Ok(()) }
    }

    /// A number that was never used and never will be, even after a crash.
    pub(crate) fn new_number(&mut self) -> Result<u64, VolumeError> {
        self.numbers.take().ok_or(VolumeError::ReadOnly)
    }

    pub(crate) fn record(&mut self, record: &Record) {
        record.encode(&mut self.staged.records);
    }

    /// Records [`Record::Put`].
    pub(crate) fn record_content(&mut self, name: &str, content: &StoredContent) {
        record::put(name, content, &mut self.staged.records);
    }

    /// Payload was written to these disks.
    pub(crate) fn await_payload(&mut self, members: impl IntoIterator<Item = MemberId>) {
        self.staged.dirty.extend(members);
    }

    /// Nothing is written to a disk any more.
    pub(crate) fn forget_payload(&mut self, member: MemberId) {
        self.staged.dirty.remove(&member);
    }

    /// The next commit writes all of the catalogue anew.
    pub(crate) const fn renew_catalogue(&mut self) {
        self.staged.with_checkpoint = true;
    }

    /// A content is gone.
    pub(crate) fn retire(&mut self, content: Arc<StoredContent>) {
        let units: Vec<_> = content.parts.iter().flat_map(StoredPart::places).collect();
        debug_assert!(
            self.retired.iter().flat_map(|retired| &retired.units).all(|place| !units.contains(place)),
            "a unit is retired once"
        );
        self.retire_units(units, content);
    }

    /// A content lies no more in these units.
    pub(crate) fn retire_units(&mut self, units: Vec<UnitPlace>, content: Arc<StoredContent>) {
        self.staged.retired.push(RetiredUnits { units, content });
    }

    /// Units that are not durably free.
    pub(crate) fn undurable(&self) -> impl Iterator<Item = &RetiredUnits> {
        self.staged.retired.iter().chain(self.committing.iter().flat_map(|commit| &commit.retired))
    }

    /// Units that are not free, though the catalogue names them no more.
    pub(crate) fn retired_units(&self) -> impl Iterator<Item = UnitPlace> {
        self.undurable().chain(&self.retired).flat_map(|retired| retired.units.iter().copied())
    }

    /// Another disk has a number now: the units that are not free, and the journal, were on the one before it.
    pub(crate) fn forget_disk(&mut self, member: MemberId) {
        self.journal_on.retain(|other| *other != member);
        let committing = self.committing.iter_mut().map(|commit| &mut commit.retired);
        let waiting = committing.chain([&mut self.staged.retired, &mut self.retired]).flatten();
        waiting.for_each(|retired| retired.units.retain(|place| place.member != member));
    }

    /// Takes the units that are durably free and unread. A reader of a version as it lay before some of it moved may read units that moved
    /// later from their old places, too.
    pub(crate) fn take_unread(&mut self) -> Vec<UnitPlace> {
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
        unread.into_iter().flat_map(|retired| retired.units).collect()
    }

    /// Disks that hold the durable state of the journal.
    pub(crate) fn journal_on(&self) -> &[MemberId] {
        &self.journal_on
    }

    /// See [`crate::Volume::commit`]. `checkpoint` gives the payloads of the frames with all of the catalogue, but for the numbers in use.
    pub(crate) fn commit(
        &mut self,
        members: &MemberTable,
        checkpoint: impl FnOnce(&Record) -> Vec<Vec<u8>>,
    ) -> Option<GroupCommit> {
        let is_due = !self.staged.records.is_empty() || self.staged.with_checkpoint;
        if self.committing.is_some() || self.read_only || !is_due {
            return None;
        }
        self.numbers.reserve_if_few(&mut self.staged.records);
        debug_assert!(
            self.staged.dirty.iter().all(|member| members.is_writable(*member)),
            "a commit would wait for a disk that is out"
        );
        let StagedChanges { records, retired, dirty, with_checkpoint } = std::mem::take(&mut self.staged);
        let appended = if with_checkpoint { None } else { self.journal.append(&records) };
        let area_writes = match appended {
            Some(write) => vec![write],
            None => self.journal.start_checkpoint(&checkpoint(&self.numbers.reserved())),
        };
        let journal = members.journal_members();
        assert!(!journal.is_empty(), "a commit on no disk would acknowledge changes that are nowhere");
        let areas = members.areas(MemberId(0));
        let start = areas.journal_start();
        let writes = area_writes.into_iter().flat_map(|(position, bytes)| {
            let position = start + position;
            journal.iter().map(move |member| DiskWrite { member: *member, position, bytes: bytes.clone() })
        });
        let commit = GroupCommit {
            flush_first: dirty.iter().copied().collect(),
            writes: writes.collect(),
            flush_then: journal.clone(),
        };
        let end = |write: &DiskWrite| write.position + u64::try_from(write.bytes.len()).expect("64 bits");
        assert!(
            commit.writes.iter().all(|write| start <= write.position && end(write) <= areas.units_start()),
            "the journal ends before the first unit"
        );
        self.committing = Some(CommitUnderWay { retired, dirty, journal });
        Some(commit)
    }

    /// See [`crate::Volume::committed`].
    pub(crate) fn committed(&mut self, outcome: Result<(), MemberId>) {
        let Some(commit) = self.committing.take() else { return };
        if outcome.is_err() {
            return self.stop();
        }
        self.retired.extend(commit.retired);
        self.journal_on = commit.journal;
        self.journal.made_durable();
        self.numbers.made_durable();
    }

    /// A disk erred: the commit under way counts as failed, and the next one makes everything durable anew.
    pub(crate) fn give_up_commit(&mut self) {
        if let Some(commit) = self.committing.take() {
            self.staged.retired.extend(commit.retired);
            self.staged.dirty.extend(commit.dirty);
        }
    }
}
