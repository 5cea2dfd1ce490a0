//! Upkeep beside the streams: a disk is filled or emptied, or every copy is read and mended, one copy at a time. While no client reads or
//! writes, the contents read most are moved to the outer zones.
//!
//! Promise: reads and writes are best effort of the disks' schedules, as uploads are; only bytes that were just verified are written; the
//! memory of one unit is used. Broken off, it is done again: copies that are right already are only read.
//! Not here: the choice of copies to look after (crate `volume`); the time of each use of a disk (its thread, on grants).

use std::sync::Arc;

use kernel::aligned::AlignedBlock;
use units::{ByteCount, UploadId};
use volume::{CopyTask, MemberId, StoredContent, Upkeep, VolumeError};

use super::core::{Core, Task};
use super::info::UpkeepError;
use super::part::{Block, BlockBytes};
use super::unit_read::{UnitBytes, UnitRead};
use store::buffers::{count, index};
use store::event::StoreEvent;
use store::{OnBreak, StoreError};

use super::upkeep_run::{CopyOwner, CopyStep, CopyUnderWay, CopyVerdict, UpkeepRun};

/// Contents that are looked at without letting others at the volume.
const CONTENTS_PER_TURN: usize = 1_000;

impl Core {
    /// Begins an upkeep.
    ///
    /// # Errors
    /// One is under way; too few disks would be left; the volume takes no changes.
    pub(super) fn begin_upkeep(&mut self, upkeep: Upkeep) -> Result<(), UpkeepError> {
        if self.is_looked_after() {
            return Err(UpkeepError::Busy);
        }
        self.end_moves();
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

    /// True if an upkeep is under way that was requested, or is needed.
    pub(super) fn is_looked_after(&self) -> bool {
        self.upkeep.as_ref().is_some_and(|run| !run.gives_way())
    }

    /// True if a disk was filled, and that is not durable yet.
    pub(super) fn is_filled_undurably(&self, member: MemberId) -> bool {
        self.undurable_upkeep.as_ref().is_some_and(|run| run.upkeep == Upkeep::Fill(member))
    }

    /// Ends moves to other zones, for a caller that needs their units: false if there are none.
    pub(super) fn end_moves(&mut self) -> bool {
        let moves = self.upkeep.as_ref().is_some_and(UpkeepRun::gives_way);
        if moves {
            self.end_upkeep(Ok(()));
        }
        moves
    }

    /// Counts `bytes` read of a content.
    pub(super) fn note_read(&mut self, name: &str, bytes: u64) {
        if self.volume.find(name).is_some() {
            self.reads.add(name, bytes, self.volume.members().outer_bytes());
            self.reads_changed = true;
        }
    }

    /// Begins to move the contents read most outwards, if no client reads or writes and there is a gain.
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

    /// True if no client reads a content, uploads one, or waits for a change.
    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.upload_count() == 0 && !self.has_write_set()
    }

    /// Fills a disk that stands in for one that failed.
    pub(super) fn fill_disks(&mut self) {
        let filling = self.volume.members().filling().next();
        if let Some(member) = filling {
            let _ = self.begin_upkeep(Upkeep::Fill(member));
        }
    }

    /// Continues the upkeep.
    pub(super) fn upkeep_turn(&mut self) {
        self.begin_moves();
        self.mend_next();
        for _ in 0..CONTENTS_PER_TURN {
            let is_idle = self.is_idle();
            let Some(run) = self.upkeep.as_mut().filter(|_| self.copying.is_none()) else { return };
            // A unit that was left is free for the next content when that is durable.
            if run.gives_way() && !is_idle {
                return;
            }
            if run.is_through {
                return self.conclude_upkeep();
            }
            match run.tasks.pop_front() {
                Some(task) => {
                    let (name, content) = (run.name.clone(), run.content.clone().expect("its tasks are there"));
                    self.begin_copy(CopyOwner::Upkeep, name, content, task);
                }
                None => self.next_part(),
            }
        }
        self.front.wake();
    }

    /// Finds the copies to look after in the next part, or content.
    fn next_part(&mut self) {
        let Some(run) = &mut self.upkeep else { return };
        let Some(content) = run.content.clone().filter(|content| index(u64::from(run.next_part)) < content.parts.len())
        else {
            return self.next_content();
        };
        match self.volume.copies_to_look_after(run.upkeep, &run.name, &content, run.next_part) {
            Ok(tasks) => {
                run.tasks = tasks.into();
                run.report.seen.0 += self.volume.members().part_bytes(&content, run.next_part);
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
            self.begin_write_set();
        }
        if let Err(error) = taken {
            self.end_upkeep(Err(error));
        }
    }

    fn begin_copy(&mut self, owner: CopyOwner, name: String, content: Arc<StoredContent>, task: CopyTask) {
        let id = UploadId(self.drafts.new_number());
        self.copying = Some(CopyUnderWay { id, owner, name, content, task, source: None, was_written: false });
        self.read_source(0);
    }

    /// Reads the source of this number; there is none left to be read if that is one too many.
    fn read_source(&mut self, number: usize) {
        let Some(copying) = &mut self.copying else { return };
        let Some(place) = copying.task.sources.get(number).copied() else {
            let end = if copying.was_written { CopyVerdict::Unwritten } else { CopyVerdict::Lost };
            return self.end_copy(end);
        };
        copying.source = Some(number);
        let (id, part) = (copying.id, copying.task.part);
        if self.members.there.get(place.member.index()).is_none_or(Option::is_none) {
            return self.read_source(number + 1);
        }
        let areas = self.volume.members().areas(place.member);
        let length = self.volume.members().part_bytes(&copying.content, part);
        let read = UnitRead::new(id, Arc::clone(&copying.content), part, (place, areas), length);
        self.members.tell(place.member, Task::Read(Box::new(read)));
    }

    /// Takes the result of a copy's step from a disk's thread.
    pub(super) fn copy_step(&mut self, id: UploadId, step: CopyStep) {
        let Some(copying) = self.copying.as_mut().filter(|copying| copying.id == id) else { return };
        match (step, copying.source) {
            (CopyStep::Read(None), Some(source)) => self.read_source(source + 1),
            (CopyStep::Read(Some(bytes)), Some(source)) => {
                if copying.task.sources[source] == copying.task.target {
                    self.end_copy(CopyVerdict::Right);
                } else {
                    self.write_copy(bytes);
                }
            }
            (CopyStep::Written, None) => {
                copying.was_written = true;
                if copying.task.new_copy.is_some() {
                    self.end_copy(CopyVerdict::Right);
                } else {
                    // A place that was wrong may be wrong again: the copy counts once it was read.
                    copying.task.sources = vec![copying.task.target];
                    self.read_source(0);
                }
            }
            (CopyStep::Read(_), None) | (CopyStep::Written, Some(_)) => {}
        }
        self.front.wake();
    }

    fn write_copy(&mut self, bytes: UnitBytes) {
        let Some(target) = self.copying.as_ref().map(|copying| copying.task.target) else { return };
        let takes_writes = self.takes_writes(target.member);
        let Some(copying) = &mut self.copying else { return };
        copying.source = None;
        if !takes_writes {
            return self.end_copy(CopyVerdict::Unwritten);
        }
        let (id, part) = (copying.id, copying.task.part);
        let mend = self.volume.members().mend(&copying.name, &copying.content, part, target, bytes.table);
        let header = AlignedBlock::new(&mend.header.bytes);
        self.members.tell(target.member, Task::Begin(id, OnBreak::Discard, None));
        for (position, bytes) in [(mend.payload.1, bytes.payload), (mend.header.position, header)] {
            self.members
                .tell(target.member, Task::Write(id, Block { position, bytes: BlockBytes::Made(Arc::new(bytes)) }));
        }
        self.members.tell(target.member, Task::Finish(id));
    }

    /// A disk's thread could not write the copy of this number. True if it was a copy in its old place: that stays wrong, and the disk
    /// may be good for everything else.
    pub(super) fn could_not_mend(&mut self, id: UploadId) -> bool {
        let is_mend = self.copying.as_ref().is_some_and(|copying| copying.id == id && copying.task.new_copy.is_none());
        if is_mend {
            self.end_copy(CopyVerdict::Unwritten);
            self.front.wake();
        }
        is_mend
    }

    /// No disk has anything to do with the copy any more.
    fn end_copy(&mut self, end: CopyVerdict) {
        let Some(copying) = self.copying.take() else { return };
        let CopyUnderWay { owner, name, content, task, was_written, .. } = copying;
        let run = self.upkeep.as_mut().filter(|_| owner == CopyOwner::Upkeep);
        match (end, task.new_copy, run) {
            (CopyVerdict::Right, new_copy, Some(run)) => {
                run.copies.extend(new_copy);
                run.report.moved += u64::from(new_copy.is_some());
                run.report.right += u64::from(!was_written);
                if was_written {
                    run.report.written += 1;
                    run.report.written_bytes.0 += self.volume.members().part_bytes(&content, task.part);
                }
            }
            (_, new_copy, run) => {
                new_copy.iter().for_each(|copy| self.volume.give_back(copy.to));
                if let Some(run) = run {
                    run.report.lost += u64::from(end != CopyVerdict::Right);
                }
            }
        }
        let is_mended = was_written && task.new_copy.is_none();
        let part = task.part;
        match end {
            CopyVerdict::Right if !is_mended => {}
            CopyVerdict::Right => self.health.note_wrong_copy(task.target.member),
            CopyVerdict::Unwritten => self.health.note_unwritten(task.target.member),
            CopyVerdict::Lost => self.health.note_damage(&name, &content),
        }
        match end {
            CopyVerdict::Right if is_mended => {
                self.front.events.tell(StoreEvent::CopyMended { name, part });
            }
            CopyVerdict::Right => {}
            CopyVerdict::Lost => self.front.events.tell(StoreEvent::CopyLost { name, part }),
            CopyVerdict::Unwritten => self.front.events.tell(StoreEvent::CopyUnwritten { name, part }),
        }
    }

    /// A copy that a read found wrong is written anew from another one, before anything else that is to be copied.
    fn mend_next(&mut self) {
        while self.copying.is_none() {
            if self.mending.is_empty() {
                let Some((name, generation, part)) = self.open.take_failed() else { return };
                let content = self.volume.find(&name).filter(|content| content.generation == generation).cloned();
                let Some(content) = content else { continue };
                let tasks = self.volume.copies_to_look_after(Upkeep::Scrub, &name, &content, part).unwrap_or_default();
                self.mending = tasks.into_iter().map(|task| (name.clone(), Arc::clone(&content), task)).collect();
            }
            let Some((name, content, task)) = self.mending.pop_front() else { continue };
            self.begin_copy(CopyOwner::Mending, name, content, task);
        }
    }

    /// Begins to read all copies of these parts, and to write the wrong ones anew.
    pub(super) fn mend_parts(&mut self, parts: &[(String, u32)]) {
        for (name, part) in parts {
            let Some(content) = self.volume.find(name).cloned() else { continue };
            let tasks = self.volume.copies_to_look_after(Upkeep::Scrub, name, &content, *part).unwrap_or_default();
            self.mending.extend(tasks.into_iter().map(|task| (name.clone(), Arc::clone(&content), task)));
        }
        self.front.wake();
    }

    /// True if copies are being mended, or wait for that.
    pub(super) fn is_mending(&self) -> bool {
        !self.mending.is_empty() || self.copying.is_some()
    }

    /// The disk was taken out, or is only read: copies to be written to it are given up, copies that cannot be read from it are read
    /// elsewhere.
    pub(super) fn upkeep_without(&mut self, member: MemberId) {
        let upkeep = self.upkeep.as_ref().map(|run| run.upkeep);
        let is_read = self.volume.is_readable(member);
        if !is_read && matches!(upkeep, Some(Upkeep::Fill(own) | Upkeep::Drain(own)) if own == member) {
            self.end_upkeep(Err(VolumeError::PartLost));
        }
        if self.undurable_upkeep.as_ref().is_some_and(|run| run.upkeep == Upkeep::Fill(member)) {
            self.fail_undurable_upkeep(VolumeError::PartLost);
        }
        // Its number may soon be another disk's, with other contents in these units.
        self.mending.retain(|(_, _, task)| task.target.member != member);
        let Some(copying) = &self.copying else { return };
        match copying.source {
            Some(source) if !is_read && copying.task.sources[source].member == member => self.read_source(source + 1),
            None if copying.task.target.member == member => self.end_copy(CopyVerdict::Unwritten),
            _ => {}
        }
        self.front.wake();
    }

    /// Every content was looked after: when that is durable, a disk that was filled or emptied counts as that.
    fn conclude_upkeep(&mut self) {
        self.begin_write_set();
        let Some(run) = self.upkeep.as_ref().filter(|_| !self.has_write_set()) else { return };
        let (upkeep, lost) = (run.upkeep, run.report.lost > 0);
        // Resting uploads have units on a disk that leaves, and none on one that was filled.
        if matches!(upkeep, Upkeep::Drain(_) | Upkeep::Fill(_)) {
            self.resting.let_go(&mut self.volume);
        }
        let left = match upkeep {
            Upkeep::Drain(_) if lost => Err(VolumeError::PartLost),
            // Bytes that are being uploaded to it still are not lost.
            Upkeep::Drain(member) if self.drafts.any_on(member) => return,
            Upkeep::Drain(member) => match self.volume.leave(member) {
                // That came while it was emptied.
                Err(VolumeError::PartLost) => return self.upkeep.iter_mut().for_each(UpkeepRun::begin_again),
                left => left.map(Some),
            },
            Upkeep::Fill(member) => Ok(Some(self.volume.filled(member))),
            Upkeep::Scrub | Upkeep::Balance | Upkeep::Outward | Upkeep::Inward => Ok(None),
        };
        let outcome = left.map(|steps| self.write_sets.write_superblocks(steps.into_iter().flatten()));
        self.end_upkeep(outcome);
        if let (Upkeep::Drain(member), Ok(())) = (upkeep, outcome) {
            self.members.there[member.index()] = None;
        }
        self.begin_write_set();
        self.fill_disks();
    }

    pub(super) fn end_upkeep(&mut self, outcome: Result<(), VolumeError>) {
        let Some(mut run) = self.upkeep.take() else { return };
        self.volume.end_upkeep();
        if let Some(copying) = &mut self.copying {
            copying.owner = CopyOwner::Mending; // the unit that is being written is given back when that has ended
        }
        let unused = run.copies.iter().chain(run.tasks.iter().filter_map(|task| task.new_copy.as_ref()));
        unused.for_each(|copy| self.volume.give_back(copy.to));
        run.report.written -= count(run.copies.len());
        run.report.moved -= count(run.copies.len());
        let failed = outcome.err().map(|error| self.error(error));
        if run.gives_way() {
            self.moved_copies += run.report.written;
            // Copies that could not be moved are not tried again before another read.
            self.reads_changed &= run.report.written > 0;
            if run.report.written == 0 {
                return;
            }
            return self.front.events.tell(StoreEvent::UpkeepEnded { kind: run.kind(), report: run.report, failed });
        }
        if failed.is_none() && self.has_superblocks() {
            self.undurable_upkeep = Some(run);
        } else {
            self.tell_of_upkeep(&run, failed);
        }
    }

    /// The result of an upkeep on a disk counts when it is durable, the catalogue on the disks that hold it from then on as well.
    pub(super) fn settle_upkeep(&mut self) {
        let is_durable = !self.write_sets.has_superblocks() && self.volume.has_catalogue_in_place();
        if let Some(run) = self.undurable_upkeep.take_if(|_| is_durable) {
            self.tell_of_upkeep(&run, None);
        }
    }

    /// The result of an upkeep on a disk will not become durable.
    pub(super) fn fail_undurable_upkeep(&mut self, error: VolumeError) {
        if let Some(run) = self.undurable_upkeep.take() {
            self.tell_of_upkeep(&run, Some(self.error(error)));
        }
    }

    fn tell_of_upkeep(&mut self, run: &UpkeepRun, failed: Option<StoreError>) {
        if run.upkeep == Upkeep::Scrub && failed.is_none() {
            self.health.note_scrub(&run.report);
        }
        self.last_upkeep = Some((run.kind(), run.report.clone(), failed.clone()));
        self.front.events.tell(StoreEvent::UpkeepEnded { kind: run.kind(), report: run.report.clone(), failed });
    }
}

#[cfg(test)]
mod tests;
