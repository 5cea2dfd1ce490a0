//! Changes that are not durable yet, and the units that are free when they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::MemberId;
use crate::content::{StoredContent, UnitPlace};

/// Changes that the next commit makes durable.
#[derive(Debug, Default)]
pub(crate) struct StagedChanges {
    /// Records of the journal.
    pub(crate) records: Vec<u8>,
    /// Units that are free then.
    pub(crate) retired: Vec<RetiredUnits>,
    /// Disks with payload that must be durable first.
    pub(crate) dirty: BTreeSet<MemberId>,
    /// True if all of the catalogue is written anew.
    pub(crate) with_checkpoint: bool,
}

/// The commit under way.
#[derive(Debug)]
pub(crate) struct CommitUnderWay {
    pub(crate) retired: Vec<RetiredUnits>,
    /// Disks with payload that is durable when it is.
    pub(crate) dirty: BTreeSet<MemberId>,
    /// Disks that hold the journal when it is durable.
    pub(crate) journal: Vec<MemberId>,
}

/// Units that the catalogue names no more, and the content with the readers that may still use them.
#[derive(Debug)]
pub(crate) struct RetiredUnits {
    pub(crate) units: Vec<UnitPlace>,
    pub(crate) content: Arc<StoredContent>,
}
