//! Health of a volume: failures of its disks, wrong copies, damaged contents, the last scrub.
//!
//! Not here: the states of disks and their events (`disk_states`), upkeep (`upkeep`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use units::Nanos;
use volume::{MemberId, StoredContent};

use store::StoreError;
use store::event::UpkeepReport;

/// The last scrub that came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastScrub {
    /// Its end.
    pub ended: SystemTime,
    /// Bytes of contents that were looked at.
    pub seen_bytes: u64,
    /// Copies that were wrong and are written anew.
    pub copies_written: u64,
    /// Copies that could not be made right.
    pub copies_lost: u64,
    /// Contents with a copy on a disk that was away.
    #[serde(default)]
    pub contents_unknown: u64,
}

/// The file of the last scrub in the state folder.
#[derive(Debug)]
pub(super) struct ScrubFile {
    file: PathBuf,
    kept: Option<LastScrub>,
}

impl ScrubFile {
    /// The file next to `seen`, for the volume's generation, and the scrub in it.
    pub(super) fn beside(seen: &Path) -> Self {
        let file = seen.with_extension("scrub.json");
        let text = std::fs::read(&file).unwrap_or_default();
        Self { kept: serde_json::from_slice(&text).ok(), file }
    }

    pub(super) const fn kept(&self) -> Option<&LastScrub> {
        self.kept.as_ref()
    }

    /// Writes another scrub. A scrub that cannot be written is shown until the server ends.
    pub(super) fn keep(&mut self, last: Option<LastScrub>) {
        if last.is_some() && last != self.kept {
            let _ = device::state_file::replace(&self.file, |to| Ok(serde_json::to_writer(to, &last)?));
            self.kept = last;
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct VolumeHealth {
    /// By disk: the state in the last event.
    pub(super) reported: Vec<&'static str>,
    /// Failures of disks that are out, only read, or without which the volume takes no changes.
    pub(super) failures: BTreeMap<MemberId, StoreError>,
    /// Copies on a disk that were found wrong since the start, or since it came.
    wrong_copies: BTreeMap<MemberId, u64>,
    /// Disks on which a copy stays wrong, for it could not be written anew.
    unwritten: BTreeSet<MemberId>,
    /// Contents with a part of which no copy is right, and the number of scrubs before that was found.
    pub(super) damaged: BTreeMap<String, (Weak<StoredContent>, u32)>,
    scrubs: u32,
    last_scrub: Option<LastScrub>,
    pub(super) returns: BTreeMap<MemberId, DiskReturn>,
    /// An attempt to fill a disk is under way.
    pub(super) is_returning: bool,
}

/// Attempts to fill a disk that was taken out.
#[derive(Debug)]
pub(super) struct DiskReturn {
    pub(super) next: Nanos,
    pub(super) pause: Nanos,
    /// Reason in the last report of a disk that cannot be filled.
    pub(super) refusal: String,
}

impl VolumeHealth {
    pub(super) fn note_failure(&mut self, member: MemberId, error: &StoreError) {
        self.failures.insert(member, error.clone());
    }

    pub(super) fn note_wrong_copy(&mut self, member: MemberId) {
        *self.wrong_copies.entry(member).or_default() += 1;
    }

    /// A copy that is wrong could not be written anew.
    pub(super) fn note_unwritten(&mut self, member: MemberId) {
        self.note_wrong_copy(member);
        self.unwritten.insert(member);
        debug_assert!(
            self.unwritten.iter().all(|disk| self.wrong_copies(*disk) > 0),
            "a copy that stays wrong was counted"
        );
    }

    /// All copies on the disk are written anew.
    pub(super) fn forget_unwritten(&mut self, member: MemberId) {
        self.unwritten.remove(&member);
    }

    /// Another disk is in the place: the wrong copies left with the one before.
    pub(super) fn forget_copies(&mut self, member: MemberId) {
        self.wrong_copies.remove(&member);
        self.forget_unwritten(member);
    }

    /// The disk has left, and its failures and copies with it.
    pub(super) fn forget_disk(&mut self, member: MemberId) {
        self.failures.remove(&member);
        self.forget_copies(member);
    }

    /// True if the content was not known to be damaged.
    pub(super) fn note_damage(&mut self, name: &str, content: &Arc<StoredContent>) -> bool {
        let content = Arc::downgrade(content);
        let before = self.damaged.insert(name.to_owned(), (Weak::clone(&content), self.scrubs));
        before.is_none_or(|(before, _)| !Weak::ptr_eq(&before, &content))
    }

    /// A scrub came to its end. If it read every copy, contents that it did not find damaged are whole again.
    pub(super) fn note_scrub(&mut self, report: &UpkeepReport) {
        let (scrubs, is_whole) = (self.scrubs, report.unknown == 0);
        self.damaged.retain(|_, (content, found_at)| (*found_at == scrubs || !is_whole) && content.strong_count() > 0);
        if is_whole && report.lost == 0 {
            self.unwritten.clear();
        }
        self.scrubs += 1;
        self.last_scrub = Some(LastScrub {
            ended: SystemTime::now(),
            seen_bytes: report.seen.0,
            copies_written: report.written,
            copies_lost: report.lost,
            contents_unknown: report.unknown,
        });
    }

    /// A scrub of before the start.
    pub(super) fn resume(&mut self, last_scrub: LastScrub) {
        self.last_scrub = Some(last_scrub);
    }

    pub(super) fn last_scrub(&self) -> Option<LastScrub> {
        self.last_scrub.clone()
    }

    pub(super) fn wrong_copies(&self, member: MemberId) -> u64 {
        self.wrong_copies.get(&member).copied().unwrap_or(0)
    }

    pub(super) fn has_unwritten(&self, member: MemberId) -> bool {
        self.unwritten.contains(&member)
    }

    pub(super) fn failure(&self, member: MemberId) -> Option<&StoreError> {
        self.failures.get(&member)
    }
}
