//! Commits: one operation makes all waiting uploads durable, on one grant, in parts.
//!
//! Promise: an acknowledged content or removal survives a power cut, and no name is left with a part of its bytes. Uploads that wait
//! together share a commit: where a journal keeps changes in their order, the sync of the name that was given last, or of the recording
//! that grew last, makes all of them durable. The schedule receives the number of bytes written since the last flush: it decides how much a drive's cache may hold, and
//! when it is emptied though no upload waits.

use std::collections::{BTreeMap, VecDeque};

use units::{Nanos, UploadId};

use super::{GrantUse, JournalId, UploadFailure, UploadFile, UploadLife, UploadState, Uploads};
use crate::grant::StoreWork;

/// Growth of the bytes in the drive's cache after which they are reported again.
const DIRTY_BYTES_NEWS: u64 = 4 * 1024 * 1024;

/// Names that one commit makes durable at most: the schedule has learned how long a commit takes, so all must take
/// about as long. Chosen: more than wait in a round of a disk with 64 live channels.
const NAMES_PER_COMMIT: usize = 128;

/// The next part of a commit. Report its outcome by [`Uploads::part_done`].
#[derive(Debug)]
pub enum CommitPart<'a, R> {
    /// Cut the file to `length` bytes, and make them durable where the file system's journal does not put bytes before
    /// names: the commit of another upload would else carry the name alone over a power cut.
    Secure {
        /// The upload that the file belongs to.
        upload: UploadId,
        /// Its content's length in bytes.
        length: u64,
    },
    /// Give the file its name, in one step of the file system.
    Publish(UploadId),
    /// Make the file and its name durable. If that succeeded, it is acknowledged.
    SyncName(UploadId),
    /// The sync of a later change made the file and its name durable, too. It is acknowledged.
    Settled(UploadId),
    /// An earlier sync failed and may have lost changes that this file's sync should have written: the upload may not be
    /// acknowledged.
    Withhold(UploadId),
    /// Make a removal durable.
    SyncRemoval(&'a mut R),
    /// See whether the file system still makes changes durable. If so, the removal is acknowledged.
    CheckRemoval(&'a mut R),
    /// Make durable the growth of uploads that are to be found after a power cut. They continue.
    Grown {
        /// Those that have grown.
        uploads: Vec<UploadId>,
        /// Those of them with syncs that make all durable: the last to grow of each journal, and each without one. In any order, also
        /// concurrently.
        syncs: Vec<UploadId>,
    },
    /// Empty the drive's cache, though no upload waits for it.
    Flush {
        /// The upload written last, if it still continues.
        upload: Option<UploadId>,
    },
}

/// Effect of a write on the bytes found after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// Nothing: the upload is whole or not there.
    None,
    /// The bytes written are to be found, with the next flush.
    Kept,
    /// Promised to be found soon.
    Promised,
}

/// A change of a name, and its number among all of them.
#[derive(Debug)]
struct NameChange<T> {
    of: T,
    number: u64,
}

/// The change after this number of changes, which grows by one.
fn next_change<T>(changes: &mut u64, of: T) -> NameChange<T> {
    *changes += 1;
    NameChange { of, number: *changes }
}

/// Uploads, names and removals to be made durable.
#[derive(Debug)]
pub(super) struct Commits<R> {
    /// Written since the last flush.
    dirty_bytes: u64,
    uploads: VecDeque<UploadId>,
    /// Those that have their names already, in the order in which they got them, and when they begin to wait.
    named: VecDeque<(NameChange<UploadId>, Nanos)>,
    /// One of them waits.
    named_due: bool,
    removals: VecDeque<(NameChange<R>, Option<JournalId>)>,
    /// How many names were changed, and how often one grew.
    changes: u64,
    /// Those that have grown since the last commit, and the number of their last growth.
    grown: BTreeMap<UploadId, (Growth, u64)>,
    /// The offer that is out: the dirty bytes, and whether any change waited.
    offered: Option<(u64, bool)>,
    /// The upload written to last: a flush that no upload waits for goes through its file.
    written_last: Option<UploadId>,
    batch: Option<CommitBatch<R>>,
}

/// A commit under way: the remainder of each of its parts, in this order.
#[derive(Debug)]
struct CommitBatch<R> {
    dirty_bytes: u64,
    /// In the order of their last growth.
    grown: Vec<NameChange<UploadId>>,
    to_secure: VecDeque<UploadId>,
    to_publish: Option<UploadId>,
    /// In the order of their names' changes: the last is synced first.
    to_sync: Vec<NameChange<UploadId>>,
    removals_to_sync: Vec<(NameChange<R>, Option<JournalId>)>,
    /// Journals of which all changes up to this number are durable.
    settled_journals: Vec<(JournalId, u64)>,
    removals_to_check: VecDeque<R>,
    to_flush: bool,
    /// A sync failed: later ones may succeed only because they find nothing left to do.
    journal_broke: bool,
    /// Everything in the drive's cache is durable now.
    settled: bool,
    disk_ok: bool,
}

impl<R> Default for Commits<R> {
    fn default() -> Self {
        Self {
            dirty_bytes: 0,
            uploads: VecDeque::new(),
            named: VecDeque::new(),
            named_due: false,
            removals: VecDeque::new(),
            changes: 0,
            grown: BTreeMap::new(),
            offered: None,
            written_last: None,
            batch: None,
        }
    }
}

impl<R> Commits<R> {
    pub(super) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    pub(super) fn wrote(&mut self, upload: UploadId, bytes: u64, growth: Growth) {
        self.dirty_bytes += bytes;
        if growth != Growth::None && bytes > 0 {
            let NameChange { of, number } = next_change(&mut self.changes, upload);
            self.grown.insert(of, (growth, number));
        }
        self.written_last = Some(upload);
    }

    pub(super) fn wait_for_upload(&mut self, upload: UploadId) {
        debug_assert!(!self.uploads.contains(&upload), "an upload waits once");
        self.grown.remove(&upload);
        self.uploads.push_back(upload);
    }

    /// It has its name, and waits from `due` on to be made durable.
    pub(super) fn wait_for_named(&mut self, upload: UploadId, due: Nanos) {
        let change = next_change(&mut self.changes, upload);
        debug_assert!(
            self.named.back().is_none_or(|(before, _)| before.number < change.number),
            "the sync of the last name makes those before it durable"
        );
        debug_assert!(!self.uploads.contains(&upload), "it would get its name twice");
        self.named.push_back((change, due));
    }

    pub(super) fn forget_growth(&mut self, upload: UploadId) {
        self.grown.remove(&upload);
    }

    /// The growth of a recording that a commit did not make durable is promised again with its next block; true if there is any.
    pub(super) fn promise_again(&mut self, upload: UploadId) -> bool {
        let grown = self.grown.get_mut(&upload);
        grown.is_some_and(|(growth, _)| std::mem::replace(growth, Growth::Promised) == Growth::Kept)
    }

    /// When the next named upload begins to wait.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.named.iter().map(|(_, due)| *due).min().filter(|_| !self.named_due)
    }

    /// True if a named upload begins to wait.
    pub(super) fn becomes_due(&mut self, now: Nanos) -> bool {
        let is_due = self.next_due().is_some_and(|due| due <= now);
        self.named_due |= is_due;
        is_due
    }

    pub(super) fn forget(&mut self, upload: UploadId) {
        self.uploads.retain(|waiting| *waiting != upload);
        self.named.retain(|(waiting, _)| waiting.of != upload);
        self.grown.remove(&upload);
    }

    pub(super) fn wait_for_removal(&mut self, removal: R, journal: Option<JournalId>) {
        let change = next_change(&mut self.changes, removal);
        debug_assert!(
            self.removals.back().is_none_or(|(before, _)| before.number < change.number),
            "the sync of the last removal makes those before it durable"
        );
        self.removals.push_back((change, journal));
    }

    /// True if there is nothing to make durable.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_awaited() && self.named.is_empty() && self.dirty_bytes == 0 && self.batch.is_none()
    }

    fn is_awaited(&self) -> bool {
        let promised = self.grown.values().any(|(growth, _)| *growth == Growth::Promised);
        !self.uploads.is_empty() || !self.removals.is_empty() || promised || self.named_due
    }

    /// No commit will be granted any more.
    pub(super) fn give_up(&mut self) -> Vec<R> {
        self.uploads.clear();
        self.named.clear();
        self.removals.drain(..).map(|(removal, _)| removal.of).collect()
    }

    /// The offer that is out was used up.
    pub(super) fn forget_offer(&mut self) {
        self.offered = None;
    }

    /// The offer to make now, if it says anything that the last one does not.
    pub(super) fn next_offer(&mut self) -> Option<StoreWork> {
        let (dirty_bytes, awaited) = (self.dirty_bytes, self.is_awaited());
        debug_assert!(
            self.batch.is_some() || self.offered.is_none_or(|(known, _)| known <= dirty_bytes),
            "only a commit makes fewer bytes dirty, and its grant used the offer up"
        );
        if self.batch.is_some() || (!awaited && dirty_bytes == 0) {
            return None;
        }
        let news = self.offered.is_none_or(|(known, was)| awaited != was || dirty_bytes >= known + DIRTY_BYTES_NEWS);
        if !news {
            return None;
        }
        self.offered = Some((dirty_bytes, awaited));
        Some(StoreWork::Commit { dirty_bytes, awaited })
    }

    /// Begins a commit of all that waits. False if there is nothing to do.
    pub(super) fn begin(&mut self) -> bool {
        debug_assert!(self.batch.is_none(), "one commit at a time: its parts belong to its grant");
        let uploads = self.uploads.len().min(NAMES_PER_COMMIT);
        let removals = self.removals.len().min(NAMES_PER_COMMIT - uploads);
        self.named_due = false;
        let grown = std::mem::take(&mut self.grown).into_iter();
        let mut grown: Vec<_> = grown.map(|(of, (_, number))| NameChange { of, number }).collect();
        grown.sort_unstable_by_key(|growth| growth.number);
        let batch = CommitBatch {
            dirty_bytes: self.dirty_bytes,
            grown,
            to_secure: self.uploads.drain(..uploads).collect(),
            to_publish: None,
            to_sync: self.named.drain(..).map(|(upload, _)| upload).collect(),
            settled_journals: Vec::new(),
            removals_to_sync: self.removals.drain(..removals).collect(),
            removals_to_check: VecDeque::new(),
            to_flush: false,
            journal_broke: false,
            settled: true,
            disk_ok: true,
        };
        debug_assert!(batch.to_secure.len() + batch.removals_to_sync.len() <= NAMES_PER_COMMIT, "takes too long");
        debug_assert!(
            batch.to_sync.is_sorted_by_key(|change| change.number),
            "the last name is synced first, and makes the others durable"
        );
        let names_any = uploads + removals > 0 || !batch.grown.is_empty() || !batch.to_sync.is_empty();
        let batch = CommitBatch { to_flush: !names_any && self.dirty_bytes > 0, ..batch };
        let has_work = names_any || batch.to_flush;
        self.batch = has_work.then_some(batch);
        has_work
    }
}

impl<R> CommitBatch<R> {
    fn is_over(&self) -> bool {
        self.grown.is_empty()
            && self.to_secure.is_empty()
            && self.to_publish.is_none()
            && self.to_sync.is_empty()
            && self.removals_to_sync.is_empty()
            && self.removals_to_check.is_empty()
            && !self.to_flush
    }

    /// Whether the change of this number in `journal` is durable by the sync of a later one.
    fn is_settled(&self, journal: Option<JournalId>, number: u64) -> bool {
        self.settled_journals.iter().any(|(settled, up_to)| Some(*settled) == journal && *up_to >= number)
    }

    /// The next removal that the sync of a later change made durable.
    fn next_settled_removal(&mut self) -> Option<R> {
        let (removal, journal) = self.removals_to_sync.last()?;
        if !self.is_settled(*journal, removal.number) {
            return None;
        }
        self.removals_to_sync.pop().map(|(removal, _)| removal.of)
    }

    /// The change of this number in `journal` was synced.
    fn synced(&mut self, journal: Option<JournalId>, number: u64, outcome: Result<(), UploadFailure>) {
        if outcome.is_ok() && !self.is_settled(journal, number) {
            self.settled_journals.extend(journal.map(|journal| (journal, number)));
        }
    }

    fn note(&mut self, outcome: Result<(), UploadFailure>) {
        self.settled &= outcome.is_ok();
        self.disk_ok &= outcome != Err(UploadFailure::Disk);
        self.journal_broke |= matches!(outcome, Err(UploadFailure::Disk | UploadFailure::Other));
    }
}

impl<F: UploadFile, R> Uploads<F, R> {
    /// The next part of the commit under way; none once it is over. The same one again until [`Uploads::part_done`].
    pub fn next_part(&mut self) -> Option<CommitPart<'_, R>> {
        let batch = self.commits.batch.as_mut()?;
        if !batch.grown.is_empty() {
            let uploads: Vec<_> = batch.grown.iter().map(|growth| growth.of).collect();
            let (mut syncs, mut journals) = (Vec::new(), Vec::new());
            for upload in uploads.iter().rev() {
                let journal = self.uploads.get(upload).and_then(|upload| upload.file.journal());
                if journal.is_none() || !journals.contains(&journal) {
                    syncs.push(*upload);
                    journals.push(journal);
                }
            }
            return Some(CommitPart::Grown { uploads, syncs });
        }
        if let Some(upload) = batch.to_publish {
            return Some(CommitPart::Publish(upload));
        }
        if let Some(upload) = batch.to_secure.front().copied() {
            let length = match self.uploads.get(&upload).map(|upload| upload.life) {
                Some(UploadLife::Written(length)) => length,
                other => unreachable!("an upload that waits for a commit is written, not {other:?}"),
            };
            return Some(CommitPart::Secure { upload, length });
        }
        if let Some(&NameChange { of: upload, number }) = batch.to_sync.last() {
            let journal = self.uploads.get(&upload).and_then(|upload| upload.file.journal());
            let part = match batch.is_settled(journal, number) {
                _ if batch.journal_broke => CommitPart::Withhold,
                true => CommitPart::Settled,
                false => CommitPart::SyncName,
            };
            return Some(part(upload));
        }
        while let Some(removal) = batch.next_settled_removal() {
            batch.removals_to_check.push_back(removal);
        }
        if let Some((removal, _)) = batch.removals_to_sync.last_mut() {
            return Some(CommitPart::SyncRemoval(&mut removal.of));
        }
        // All removals are synced before the first is checked: a check changes something itself, which the next
        // removal's sync would commit.
        if let Some(removal) = batch.removals_to_check.front_mut() {
            return Some(CommitPart::CheckRemoval(removal));
        }
        let upload = self.commits.written_last.filter(|upload| self.uploads.contains_key(upload));
        batch.to_flush.then_some(CommitPart::Flush { upload })
    }

    /// The uploads without a journal that the commit under way still has to secure, with the lengths of their contents: the caller may
    /// secure them concurrently, ahead of their parts.
    #[must_use]
    pub fn secured_alone(&self) -> Vec<(UploadId, u64)> {
        let waiting = self.commits.batch.iter().flat_map(|batch| &batch.to_secure);
        let length = |id: &UploadId| match self.uploads.get(id) {
            Some(UploadState { file, life: UploadLife::Written(length), .. }) if file.journal().is_none() => {
                Some((*id, *length))
            }
            _ => None,
        };
        waiting.filter_map(length).collect()
    }

    /// The uploads without a journal whose names the commit under way still has to sync: as [`Uploads::secured_alone`], but the outcome is
    /// one for all, since a sync may find nothing left to do where another one failed.
    #[must_use]
    pub fn synced_alone(&self) -> Vec<UploadId> {
        let named = self.commits.batch.iter().flat_map(|batch| &batch.to_sync).map(|change| change.of);
        named.filter(|id| self.file(*id).is_some_and(|file| file.journal().is_none())).collect()
    }

    /// The part that [`Uploads::next_part`] gave last is done, or could not be. An upload that could not be secured,
    /// was refused its name, or is durable, is forgotten: tell its client before this call.
    pub fn part_done(&mut self, outcome: Result<(), UploadFailure>, now: Nanos) {
        let Commits { batch: Some(batch), changes, grown, .. } = &mut self.commits else { return };
        let mut over = None;
        if !batch.grown.is_empty() {
            batch.note(outcome);
            for NameChange { of: id, number } in std::mem::take(&mut batch.grown).into_iter().rev() {
                batch.synced(self.uploads.get(&id).and_then(|upload| upload.file.journal()), number, outcome);
                if outcome.is_err() && self.uploads.contains_key(&id) {
                    grown.entry(id).or_insert((Growth::Kept, number));
                }
            }
        } else if let Some(id) = batch.to_publish.take() {
            match outcome {
                Ok(()) => {
                    batch.to_sync.push(next_change(changes, id));
                    debug_assert!(batch.to_sync.is_sorted_by_key(|change| change.number), "synced from the last on");
                }
                Err(_) => over = Some(id),
            }
        } else if let Some(id) = batch.to_secure.pop_front() {
            batch.note(outcome);
            match outcome {
                Ok(()) => batch.to_publish = Some(id),
                Err(_) => over = Some(id),
            }
        } else if let Some(NameChange { of: id, number }) = batch.to_sync.pop() {
            batch.note(outcome);
            batch.synced(self.uploads.get(&id).and_then(|upload| upload.file.journal()), number, outcome);
            over = Some(id);
        } else if let Some((removal, journal)) = batch.removals_to_sync.pop() {
            batch.note(outcome);
            batch.synced(journal, removal.number, outcome);
            if outcome.is_ok() {
                batch.removals_to_check.push_back(removal.of);
            }
        } else if batch.removals_to_check.pop_front().is_some() {
            batch.note(outcome);
        } else {
            batch.to_flush = false;
            batch.note(outcome);
        }
        if let Some(id) = over {
            self.uploads.remove(&id);
        }
        self.end_commit_if_over(now);
    }

    fn end_commit_if_over(&mut self, now: Nanos) {
        let Some(batch) = self.commits.batch.take_if(|batch| batch.is_over()) else { return };
        debug_assert!(self.commits.dirty_bytes >= batch.dirty_bytes, "bytes stay dirty until a commit ends");
        debug_assert!(batch.disk_ok || !batch.settled, "a disk that failed settled nothing");
        if batch.settled {
            self.commits.dirty_bytes -= batch.dirty_bytes;
        }
        self.offers.done(GrantUse { bytes: batch.dirty_bytes, ok: batch.disk_ok, ..GrantUse::default() }, now);
        self.offer_commit();
    }
}
