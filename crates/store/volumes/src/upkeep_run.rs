//! An upkeep of a volume under way, and its current copy.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{ByteCount, UploadId};
use volume::{CopyTask, MemberId, NewCopy, StoredContent, Upkeep, ZoneMove};

use crate::unit_read::UnitBytes;
use store::StoreError;
use store::event::UpkeepReport;

/// The kind of an upkeep, its report, and the reason for which work is left.
pub(crate) type EndedUpkeep = (&'static str, UpkeepReport, Option<StoreError>);

/// An upkeep that is under way.
pub(crate) struct UpkeepRun {
    pub(super) upkeep: Upkeep,
    pub(crate) report: UpkeepReport,
    /// The content that is looked after, and its next part.
    pub(super) name: String,
    pub(super) content: Option<Arc<StoredContent>>,
    pub(super) next_part: u32,
    pub(super) tasks: VecDeque<CopyTask>,
    pub(super) copies: Vec<NewCopy>,
    /// A copy of the content is on a disk that is away.
    pub(super) is_unknown: bool,
    /// Every content was looked after.
    pub(super) is_through: bool,
    /// Contents that are still to be moved to other zones, if this upkeep moves contents.
    pub(super) moves: Option<VecDeque<ZoneMove>>,
}

/// A copy that is looked after. While it is under way no other thread writes to its units, for it holds their content.
pub(crate) struct CopyUnderWay {
    /// Its number for the disks' threads: no upload has this number.
    pub(super) id: UploadId,
    pub(super) owner: CopyOwner,
    pub(super) name: String,
    pub(super) content: Arc<StoredContent>,
    pub(super) task: CopyTask,
    /// The source that is being read, by its place in the task; none while the target is written.
    pub(super) source: Option<usize>,
    /// The target was written anew; it is read again.
    pub(super) was_written: bool,
    /// Disks of its sources that are away.
    pub(super) away: Vec<MemberId>,
}

/// Owner of a copy, for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyOwner {
    /// The upkeep under way.
    Upkeep,
    /// A read that found it wrong; or none, if the upkeep that began it was broken off.
    Mending,
}

/// Result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyVerdict {
    /// The target is right.
    Right,
    /// No source is.
    Lost,
    /// Not known: it is on a disk that is away.
    Unknown,
    /// The target is wrong, and the other copy on a disk that is away.
    OtherAway,
    /// The target is wrong, and another source right: its disk left, or did not give back the written bytes.
    Unwritten,
}

/// A copy that waits to be looked after.
pub(crate) type MendTask = (String, Arc<StoredContent>, CopyTask);

/// A disk's report on a copy.
#[derive(Debug)]
pub(crate) enum CopyStep {
    /// The source was read; none if its bytes are wrong.
    Read(Option<UnitBytes>),
    /// The source cannot be read, for its disk is away: it gives nothing at all.
    Away,
    /// The target is durable.
    Written,
}

impl UpkeepRun {
    pub(super) fn new(upkeep: Upkeep, total: ByteCount) -> Self {
        Self {
            upkeep,
            report: UpkeepReport { total, ..UpkeepReport::default() },
            name: String::new(),
            content: None,
            next_part: 0,
            tasks: VecDeque::new(),
            copies: Vec::new(),
            is_unknown: false,
            is_through: false,
            moves: None,
        }
    }

    /// Moves contents to other zones, while no client needs the disks.
    pub(super) fn of_moves(moves: Vec<ZoneMove>) -> Self {
        Self { moves: Some(moves.into()), ..Self::new(Upkeep::Outward, ByteCount(0)) }
    }

    /// Looks after every content once more.
    pub(super) fn begin_again(&mut self) {
        self.name.clear();
        (self.content, self.next_part, self.is_through) = (None, 0, false);
    }

    /// True if it gives way to every other request.
    pub(crate) const fn gives_way(&self) -> bool {
        self.moves.is_some()
    }

    /// Its kind, for events and reports.
    pub(crate) fn kind(&self) -> &'static str {
        match self.upkeep {
            Upkeep::Fill(_) => "fill",
            Upkeep::Drain(_) => "drain",
            Upkeep::Balance => "balance",
            Upkeep::Scrub => "scrub",
            Upkeep::Outward | Upkeep::Inward => "zones",
        }
    }
}
