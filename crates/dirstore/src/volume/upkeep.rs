//! Upkeep beside the streams: a disk is filled or emptied, or every copy is read and mended, one copy at a time. While nobody reads or
//! writes, what was read most is moved to the outer zones.
//!
//! Promise: reads and writes are best effort of the disks' schedules, as uploads are; only bytes that were just verified are written;
//! the memory of one unit is used. Broken off, it is done again: what is right already is only read.
//! Not here: which copies there are to look after (crate `volume`); when a disk is used (its thread, on grants).

use std::collections::VecDeque;
use std::sync::Arc;

use units::{ByteCount, UploadId};
use volume::{CopyTask, MemberId, NewCopy, StoredContent, Upkeep, VolumeError, ZoneMove};

use super::UpkeepError;
use super::core::{Core, Task};
use super::member_change::MemberChange;
use super::part::{AlignedBlock, Block, BlockBytes};
use super::unit_read::{UnitBytes, UnitRead};
use crate::StoreError;
use crate::event::StoreEvent;
use crate::upload::index;

/// Contents that are looked at without letting others at the volume.
const CONTENTS_PER_TURN: usize = 1_000;

/// How far an upkeep has come, or how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpkeepReport {
    /// Bytes of contents that were looked at.
    pub seen: ByteCount,
    /// Bytes of all contents when it began.
    pub total: ByteCount,
    /// Copies that were written.
    pub written: u64,
    /// Copies that no copy was right for.
    pub lost: u64,
}

/// What an upkeep was, what it did, and why it did not do all.
pub(super) type EndedUpkeep = (&'static str, UpkeepReport, Option<StoreError>);

/// An upkeep that is under way.
pub(super) struct UpkeepRun {
    upkeep: Upkeep,
    pub(super) report: UpkeepReport,
    /// The content that is looked after, and its next part.
    name: String,
    content: Option<Arc<StoredContent>>,
    next_part: u32,
    tasks: VecDeque<CopyTask>,
    copies: Vec<NewCopy>,
    copying: Option<CopyUnderWay>,
    /// Every content was looked after.
    is_through: bool,
    /// Contents that are still to be moved to other zones, if that is what is done.
    moves: Option<VecDeque<ZoneMove>>,
}

/// A copy that is looked after.
struct CopyUnderWay {
    /// What the disks' threads know it by: no upload has this number.
    id: UploadId,
    task: CopyTask,
    /// The source that is being read, by its place in the task; none while the target is written.
    source: Option<usize>,
}

/// What a disk's thread tells of a copy.
#[derive(Debug)]
pub(super) enum CopyStep {
    /// The source was read; none if it is not what it should be.
    Read(Option<UnitBytes>),
    /// The target is durable.
    Written,
}

impl UpkeepRun {
    fn new(upkeep: Upkeep, total: ByteCount) -> Self {
        Self {
            upkeep,
            report: UpkeepReport { total, ..UpkeepReport::default() },
            name: String::new(),
            content: None,
            next_part: 0,
            tasks: VecDeque::new(),
            copies: Vec::new(),
            copying: None,
            is_through: false,
            moves: None,
        }
    }

    /// Moves contents to other zones, while nobody needs the disks.
    fn of_moves(moves: Vec<ZoneMove>) -> Self {
        Self { moves: Some(moves.into()), ..Self::new(Upkeep::Outward, ByteCount(0)) }
    }

    /// Whether it gives way to whatever else is asked for.
    pub(super) const fn gives_way(&self) -> bool {
        self.moves.is_some()
    }

    /// What it is, for events and reports.
    pub(super) fn kind(&self) -> &'static str {
        match self.upkeep {
            Upkeep::Fill(_) => "fill",
            Upkeep::Drain(_) => "drain",
            Upkeep::Balance => "balance",
            Upkeep::Scrub => "scrub",
            Upkeep::Outward | Upkeep::Inward => "zones",
        }
    }
}

impl Core {
    /// Begins an upkeep.
    ///
    /// # Errors
    /// One is under way; too few disks would be left; the volume takes no changes.
    pub(super) fn begin_upkeep(&mut self, upkeep: Upkeep) -> Result<(), UpkeepError> {
        if self.is_looked_after() {
            return Err(UpkeepError::Busy);
        }
        if self.upkeep.is_some() {
            self.end_upkeep(Ok(()));
        }
        if let Upkeep::Drain(member) = upkeep {
            self.volume.begin_drain(member).map_err(|error| match error {
                VolumeError::Full => UpkeepError::TooFew,
                error => self.error(error).into(),
            })?;
        }
        if upkeep == Upkeep::Balance {
            self.volume.begin_balance().map_err(|error| self.error(error))?;
        }
        let total = ByteCount(self.volume.contents().map(|(_, content)| content.length).sum());
        self.upkeep = Some(UpkeepRun::new(upkeep, total));
        self.front.wake();
        Ok(())
    }

    /// Whether something is under way that was asked for, or is needed.
    pub(super) fn is_looked_after(&self) -> bool {
        self.upkeep.as_ref().is_some_and(|run| !run.gives_way())
    }

    /// So much of a content was read.
    pub(super) fn note_read(&mut self, name: &str, bytes: u64) {
        if self.volume.find(name).is_some() {
            self.reads.add(name, bytes, self.volume.outer_bytes());
            self.reads_changed = true;
        }
    }

    /// Begins to move what is read most outwards, if nobody reads or writes and there is something to gain.
    fn begin_moves(&mut self) {
        if self.upkeep.is_some() || !self.reads_changed || !self.is_idle() {
            return;
        }
        let moves = self.volume.zone_moves(&self.reads);
        match moves.is_empty() {
            true => self.reads_changed = false,
            false => self.upkeep = Some(UpkeepRun::of_moves(moves)),
        }
    }

    /// Nobody reads a content, uploads one, or waits for the journal.
    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.upload_count() == 0 && !self.has_journal()
    }

    /// Fills a disk that stands in for one that failed.
    pub(super) fn fill_disks(&mut self) {
        let filling = self.volume.filling().next();
        if let Some(member) = filling {
            let _ = self.begin_upkeep(Upkeep::Fill(member));
        }
    }

    /// Goes on with the upkeep. What is to be written so that a disk that was filled, or is empty, counts as that.
    pub(super) fn upkeep_turn(&mut self) -> Option<MemberChange> {
        self.begin_moves();
        for _ in 0..CONTENTS_PER_TURN {
            let is_idle = self.is_idle();
            let run = self.upkeep.as_mut()?;
            // A unit that was left is free for the next content when that is durable.
            if run.copying.is_some() || (run.gives_way() && !is_idle) {
                return None;
            }
            if run.is_through {
                return self.conclude_upkeep();
            }
            match run.tasks.pop_front() {
                Some(task) => self.begin_copy(task),
                None => self.next_part(),
            }
        }
        self.front.wake();
        None
    }

    /// Finds out what there is to look after in the next part, or content.
    fn next_part(&mut self) {
        let Some(run) = &mut self.upkeep else { return };
        let Some(content) = run.content.clone().filter(|content| index(u64::from(run.next_part)) < content.parts.len())
        else {
            return self.next_content();
        };
        match self.volume.copies_to_look_after(run.upkeep, &content, run.next_part) {
            Ok(tasks) => {
                run.tasks = tasks.into();
                run.report.seen.0 += self.volume.part_bytes(&content, run.next_part);
                run.next_part += 1;
            }
            Err(error) => self.end_upkeep(Err(error)),
        }
    }

    fn next_content(&mut self) {
        let Some(run) = &mut self.upkeep else { return };
        let copies = std::mem::take(&mut run.copies);
        let taken = match run.content.take() {
            Some(content) => self.volume.take_copies(&run.name, &content, &copies).map(|_| ()),
            None => Ok(()),
        };
        let next = match &mut run.moves {
            None => self.volume.content_behind(&run.name).map(|(name, content)| (name.to_owned(), Arc::clone(content))),
            Some(moves) => moves.pop_front().and_then(|next| {
                run.upkeep = next.upkeep;
                self.volume.find(&next.name).map(|content| (next.name, Arc::clone(content)))
            }),
        };
        match next {
            Some((name, content)) => (run.name, run.content, run.next_part) = (name, Some(content), 0),
            None => run.is_through = true,
        }
        if !copies.is_empty() {
            self.start_journal();
        }
        if let Err(error) = taken {
            self.end_upkeep(Err(error));
        }
    }

    fn begin_copy(&mut self, task: CopyTask) {
        let id = self.new_upload_id();
        let Some(run) = &mut self.upkeep else { return };
        run.copying = Some(CopyUnderWay { id, task, source: None });
        self.read_source(0);
    }

    /// Reads the source of this number; there is none left to be read if that is one too many.
    fn read_source(&mut self, number: usize) {
        let Some(run) = &mut self.upkeep else { return };
        let (Some(copying), Some(content)) = (&mut run.copying, &run.content) else { return };
        let Some(place) = copying.task.sources.get(number).copied() else { return self.copy_lost() };
        copying.source = Some(number);
        let (id, part) = (copying.id, copying.task.part);
        if self.members.get(place.member.index()).is_none_or(Option::is_none) {
            return self.read_source(number + 1);
        }
        let areas = self.volume.areas(place.member);
        let length = self.volume.part_bytes(content, part);
        let read = UnitRead::new(id, Arc::clone(content), part, (place, areas), length);
        self.tell(place.member, Task::Read(Box::new(read)));
    }

    /// A disk's thread tells how a step of a copy went.
    pub(super) fn copy_step(&mut self, id: UploadId, step: CopyStep) {
        let Some(run) = self.upkeep.as_mut().filter(|run| run.copying.as_ref().is_some_and(|copy| copy.id == id))
        else {
            return;
        };
        let Some(copying) = &run.copying else { return };
        match (step, copying.source) {
            (CopyStep::Read(None), Some(source)) => self.read_source(source + 1),
            (CopyStep::Read(Some(bytes)), Some(source)) => {
                if copying.task.sources[source] == copying.task.target {
                    self.copy_done(false);
                } else {
                    self.write_copy(bytes);
                }
            }
            (CopyStep::Written, None) => self.copy_done(true),
            (CopyStep::Read(_), None) | (CopyStep::Written, Some(_)) => {}
        }
        self.front.wake();
    }

    fn write_copy(&mut self, bytes: UnitBytes) {
        let Some(run) = &mut self.upkeep else { return };
        let (Some(copying), Some(content)) = (&mut run.copying, &run.content) else { return };
        copying.source = None;
        let (id, part, target) = (copying.id, copying.task.part, copying.task.target);
        let mend = self.volume.mend(&run.name, content, part, target, bytes.table);
        let header = AlignedBlock::new(&mend.header.bytes);
        self.tell(target.member, Task::Begin(id, None));
        for (position, bytes) in [(mend.payload.1, bytes.payload), (mend.header.position, header)] {
            self.tell(target.member, Task::Write(id, Block { position, bytes: BlockBytes::Made(Arc::new(bytes)) }));
        }
        self.tell(target.member, Task::Finish(id));
    }

    fn copy_done(&mut self, was_written: bool) {
        let Some(run) = &mut self.upkeep else { return };
        let Some(CopyUnderWay { task, .. }) = run.copying.take() else { return };
        run.copies.extend(task.news);
        run.report.written += u64::from(was_written);
        if was_written && run.upkeep == Upkeep::Scrub {
            self.front.events.tell(StoreEvent::CopyMended { name: run.name.clone(), part: task.part });
        }
    }

    fn copy_lost(&mut self) {
        let Some(run) = &mut self.upkeep else { return };
        let Some(CopyUnderWay { task, .. }) = run.copying.take() else { return };
        task.news.iter().for_each(|news| self.volume.give_back(news.to));
        run.report.lost += 1;
        self.front.events.tell(StoreEvent::CopyLost { name: run.name.clone(), part: task.part });
    }

    /// The disk was taken out: what was to be copied to it is given up, what was to be read from it is read elsewhere.
    pub(super) fn upkeep_without(&mut self, member: MemberId) {
        let Some(run) = &self.upkeep else { return };
        let is_its = matches!(run.upkeep, Upkeep::Fill(own) | Upkeep::Drain(own) if own == member);
        if is_its {
            return self.end_upkeep(Err(VolumeError::PartLost));
        }
        let Some(copying) = &run.copying else { return };
        match copying.source {
            Some(source) if copying.task.sources[source].member == member => self.read_source(source + 1),
            None if copying.task.target.member == member => self.copy_lost(),
            _ => {}
        }
        self.front.wake();
    }

    /// Every content was looked after: when that is durable, a disk that was filled or emptied counts as that.
    fn conclude_upkeep(&mut self) -> Option<MemberChange> {
        self.start_journal();
        if self.has_journal() {
            return None;
        }
        let upkeep = self.upkeep.as_ref()?.upkeep;
        let lost = self.upkeep.as_ref()?.report.lost > 0;
        let steps = match upkeep {
            Upkeep::Fill(member) => Some(Ok(self.volume.filled(member))),
            Upkeep::Drain(_) if lost => Some(Err(VolumeError::PartLost)),
            Upkeep::Drain(member) => Some(self.volume.leave(member)),
            Upkeep::Scrub | Upkeep::Balance | Upkeep::Outward | Upkeep::Inward => None,
        };
        let steps = steps.transpose();
        self.end_upkeep(steps.as_ref().map(|_| ()).map_err(|error| *error));
        if let (Upkeep::Drain(member), Ok(_)) = (upkeep, &steps) {
            self.members[member.index()] = None;
        }
        let change = steps.ok().flatten().map(|steps| self.begin_change(steps));
        self.fill_disks();
        change
    }

    pub(super) fn end_upkeep(&mut self, outcome: Result<(), VolumeError>) {
        let Some(run) = self.upkeep.take() else { return };
        self.volume.end_upkeep();
        // The unit that is being written is nobody's until the next start.
        let unused = run.copies.iter().chain(run.tasks.iter().filter_map(|task| task.news.as_ref()));
        unused.for_each(|copy| self.volume.give_back(copy.to));
        let failed = outcome.err().map(|error| self.error(error));
        if run.gives_way() {
            self.moved_copies += run.report.written;
            // What could not be moved is not tried again before something else is read.
            self.reads_changed &= run.report.written > 0;
            if run.report.written == 0 {
                return;
            }
            return self.front.events.tell(StoreEvent::UpkeepEnded { kind: run.kind(), report: run.report, failed });
        }
        self.last_upkeep = Some((run.kind(), run.report.clone(), failed.clone()));
        self.front.events.tell(StoreEvent::UpkeepEnded { kind: run.kind(), report: run.report, failed });
    }
}
