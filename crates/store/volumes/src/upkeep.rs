//! Upkeep while streams run: fills or empties a disk, or reads and repairs every copy, one copy at a time. While no client
//! reads or writes, moves the most read contents to the outer zones.
//!
//! Promise: reads and writes are best-effort requests of the disks' schedules, as those of uploads are; only bytes that were
//! just verified are written; the upkeep uses the memory of one unit. After an interruption the upkeep begins again, and only
//! reads the copies that are right already. Not here: the choice of the copies (the crate `volume`); the time of each use of a
//! disk (the disk's thread, on grants).

use std::collections::VecDeque;
use std::sync::Arc;

use kernel::aligned::AlignedBlock;
use units::{ByteCount, UploadId};
use volume::{Drafts, MemberId, ReadCounts, Upkeep, VolumeError};

use super::info::UpkeepError;
use super::live::{LiveVolume, Task};
use super::open_contents::OpenContents;
use super::part::{Block, BlockBytes};
use super::resumable::RestingUploads;
use super::unit_read::{UnitBytes, UnitRead};
use super::upload::VolumeUpload;
use store::buffers::{Chunk, count, index};
use store::event::{StoreEvent, UpkeepReport};
use store::{OnBreak, StoreError};

use super::upkeep_run::{CopyOwner, CopyStep, CopyUnderWay, CopyVerdict, EndedUpkeep, MendTask, UpkeepRun};

/// Contents that one call examines before other operations of the volume get their turn.
const CONTENTS_PER_TURN: usize = 1_000;

/// Clients' use of the volume: open contents and uploads.
pub(super) struct ClientUse<'a> {
    pub(super) open: &'a mut OpenContents,
    pub(super) drafts: &'a mut Drafts<VolumeUpload, Arc<Chunk>>,
    pub(super) resting: &'a mut RestingUploads,
    /// True if no client reads a content or uploads one.
    pub(super) is_idle: bool,
}

impl ClientUse<'_> {
    /// True if no client reads a content, uploads one, or waits for a change.
    fn is_none(&self, live: &LiveVolume) -> bool {
        self.is_idle && !live.has_write_set()
    }

    /// A new number for a copy, by which the disks' threads report: no upload has it.
    fn new_number(&mut self) -> UploadId {
        UploadId(self.drafts.new_number())
    }
}

/// The upkeep of a volume. See the module.
#[derive(Default)]
pub(crate) struct VolumeUpkeep {
    run: Option<UpkeepRun>,
    /// An upkeep whose work is done, while the disks' states that it changed are not durable yet.
    undurable: Option<UpkeepRun>,
    /// End of the last upkeep.
    last: Option<EndedUpkeep>,
    /// The copy under way, one at a time: of the upkeep, or one that a read found wrong.
    copying: Option<CopyUnderWay>,
    /// Copies to repair: those of a part in which a read found a wrong copy.
    mending: VecDeque<MendTask>,
    /// The recent reads of contents; `reads_changed` is true if they have changed since the last choice of contents to move.
    reads: ReadCounts,
    reads_changed: bool,
    /// Copies that were moved to other zones.
    moved_copies: u64,
}

impl VolumeUpkeep {
    /// Begins an upkeep.
    ///
    /// # Errors
    /// An upkeep is under way; too few disks would be left; the volume accepts no changes.
    pub(super) fn begin(&mut self, upkeep: Upkeep, live: &mut LiveVolume) -> Result<(), UpkeepError> {
        if self.is_looked_after() {
            return Err(UpkeepError::Busy);
        }
        self.end_moves(live);
        // The disk may have failed since it was added.
        if let Upkeep::Fill(member) = upkeep
            && !live.takes_writes(member)
        {
            return Err(live.error(VolumeError::PartLost).into());
        }
        if let Upkeep::Drain(member) = upkeep {
            live.volume.begin_drain(member).map_err(|error| match error {
                VolumeError::Full => UpkeepError::TooFew,
                error => live.error(error).into(),
            })?;
        }
        if upkeep == Upkeep::Balance {
            live.volume.begin_balance().map_err(|error| live.error(error))?;
        }
        let total = ByteCount(live.volume.contents().map(|(_, content)| content.length).sum());
        debug_assert!(self.run.is_none(), "one upkeep is under way");
        self.run = Some(UpkeepRun::new(upkeep, total));
        live.front.wake();
        Ok(())
    }

    /// True if an upkeep other than moves to other zones is under way.
    pub(super) fn is_looked_after(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.gives_way())
    }

    /// True if the disk is filled, and this state is not durable yet.
    pub(super) fn is_filled_undurably(&self, member: MemberId) -> bool {
        self.undurable.as_ref().is_some_and(|run| run.upkeep == Upkeep::Fill(member))
    }

    /// Ends moves to other zones, for a caller that needs their units. False if none were under way.
    pub(super) fn end_moves(&mut self, live: &mut LiveVolume) -> bool {
        let moves = self.run.as_ref().is_some_and(UpkeepRun::gives_way);
        if moves {
            self.end(Ok(()), live);
        }
        moves
    }

    /// Counts `bytes` read of a content.
    pub(super) fn note_read(&mut self, name: &str, bytes: u64, live: &LiveVolume) {
        if live.volume.find(name).is_some() {
            self.reads.add(name, bytes, live.volume.members().outer_bytes());
            self.reads_changed = true;
        }
    }

    /// Begins to move the most read contents outwards, if no client reads or writes and a move would help.
    fn begin_moves(&mut self, uses: &ClientUse, live: &LiveVolume) {
        if self.run.is_some() || !self.reads_changed || !uses.is_none(live) {
            return;
        }
        let moves = live.volume.zone_moves(&self.reads);
        match moves.is_empty() {
            true => self.reads_changed = false,
            false => self.run = Some(UpkeepRun::of_moves(moves)),
        }
    }

    /// Begins to fill a disk that waits for its copies.
    pub(super) fn fill_disks(&mut self, live: &mut LiveVolume) {
        let filling = live.volume.members().filling().next();
        if let Some(member) = filling {
            let _ = self.begin(Upkeep::Fill(member), live);
        }
    }

    /// Continues the upkeep.
    pub(super) fn turn(&mut self, uses: &mut ClientUse, live: &mut LiveVolume) {
        self.begin_moves(uses, live);
        self.mend_next(uses, live);
        for _ in 0..CONTENTS_PER_TURN {
            let is_idle = uses.is_none(live);
            let Some(run) = self.run.as_mut().filter(|_| self.copying.is_none()) else { return };
            // A move needs the unit that the move before it left: that unit is free when the removal is durable.
            if run.gives_way() && !is_idle {
                return;
            }
            if run.is_through {
                return self.conclude(uses, live);
            }
            match run.tasks.pop_front() {
                Some(task) => {
                    let copy = (run.name.clone(), run.content.clone().expect("its tasks are there"), task);
                    self.begin_copy(uses.new_number(), CopyOwner::Upkeep, copy, live);
                }
                None => self.next_part(live),
            }
        }
        live.front.wake();
    }

    /// Sets the tasks of the next part, or of the next content.
    fn next_part(&mut self, live: &mut LiveVolume) {
        let Some(run) = &mut self.run else { return };
        let Some(content) = run.content.clone().filter(|content| index(u64::from(run.next_part)) < content.parts.len())
        else {
            return self.next_content(live);
        };
        match live.volume.copies_to_look_after(run.upkeep, &run.name, &content, run.next_part) {
            Ok(tasks) => {
                run.tasks = tasks.into();
                run.report.seen.0 += live.volume.members().part_bytes(&content, run.next_part);
                run.next_part += 1;
            }
            Err(error) => self.end(Err(error), live),
        }
    }

    fn next_content(&mut self, live: &mut LiveVolume) {
        let Some(run) = &mut self.run else { return };
        let copies = std::mem::take(&mut run.copies);
        run.report.unknown += u64::from(std::mem::take(&mut run.is_unknown));
        let taken = match run.content.take() {
            // A scrub continues on a volume that accepts no changes.
            Some(content) if !copies.is_empty() => live.volume.take_copies(&run.name, &content, &copies).map(|_| ()),
            _ => Ok(()),
        };
        let next = match &mut run.moves {
            None => live.volume.content_behind(&run.name).map(|(name, content)| (name.to_owned(), Arc::clone(content))),
            Some(moves) => moves.pop_front().and_then(|next| {
                run.upkeep = next.upkeep;
                live.volume.find(&next.name).map(|content| (next.name, Arc::clone(content)))
            }),
        };
        match next {
            Some((name, content)) => (run.name, run.content, run.next_part) = (name, Some(content), 0),
            None => run.is_through = true,
        }
        if !copies.is_empty() {
            self.begin_write_set(live);
        }
        if let Err(error) = taken {
            self.end(Err(error), live);
        }
    }

    fn begin_copy(&mut self, id: UploadId, owner: CopyOwner, (name, content, task): MendTask, live: &mut LiveVolume) {
        let (source, was_written, away) = (None, false, Vec::new());
        debug_assert!(self.copying.is_none(), "the memory of one unit is used");
        debug_assert!(!task.sources.is_empty(), "a copy is made from another");
        self.copying = Some(CopyUnderWay { id, owner, name, content, task, source, was_written, away });
        self.read_source(0, live);
    }

    /// Reads source `number` of the copy; ends the copy if there are no more sources.
    fn read_source(&mut self, number: usize, live: &mut LiveVolume) {
        let Some(copying) = &mut self.copying else { return };
        let Some(place) = copying.task.sources.get(number).copied() else {
            let is_target_wrong =
                copying.task.new_copy.is_none() && !copying.away.contains(&copying.task.target.member);
            let end = match copying.away.is_empty() {
                _ if copying.was_written => CopyVerdict::Unwritten,
                true => CopyVerdict::Lost,
                false if !is_target_wrong => CopyVerdict::Unknown,
                false => CopyVerdict::OtherAway,
            };
            return self.end_copy(end, live);
        };
        copying.source = Some(number);
        let (id, part) = (copying.id, copying.task.part);
        if live.members.get(place.member).is_none() {
            return self.source_away(number, live);
        }
        let areas = live.volume.members().areas(place.member);
        let length = live.volume.members().part_bytes(&copying.content, part);
        let read = UnitRead::new(id, Arc::clone(&copying.content), part, (place, areas), length);
        live.members.tell(place.member, Task::Read(Box::new(read)));
    }

    /// Notes that the disk of source `number` is away. A scrub examines each copy of the part in a task of its own, so it ends this copy.
    fn source_away(&mut self, number: usize, live: &mut LiveVolume) {
        let Some(copying) = &mut self.copying else { return };
        let (place, is_upkeep) = (copying.task.sources[number], copying.owner == CopyOwner::Upkeep);
        copying.away.push(place.member);
        let is_scrub = is_upkeep && self.run.as_ref().is_some_and(|run| run.upkeep == Upkeep::Scrub);
        match is_scrub && place == copying.task.target && !copying.was_written {
            true => self.end_copy(CopyVerdict::Unknown, live),
            false => self.read_source(number + 1, live),
        }
    }

    /// Takes the result of a copy's step from a disk's thread.
    pub(super) fn copy_step(&mut self, id: UploadId, step: CopyStep, live: &mut LiveVolume) {
        let Some(copying) = self.copying.as_mut().filter(|copying| copying.id == id) else { return };
        match (step, copying.source) {
            (CopyStep::Read(None), Some(source)) => self.read_source(source + 1, live),
            (CopyStep::Away, Some(source)) => self.source_away(source, live),
            (CopyStep::Read(Some(bytes)), Some(source)) => {
                if copying.task.sources[source] == copying.task.target {
                    self.end_copy(CopyVerdict::Right, live);
                } else {
                    self.write_copy(bytes, live);
                }
            }
            (CopyStep::Written, None) => {
                copying.was_written = true;
                if copying.task.new_copy.is_some() {
                    self.end_copy(CopyVerdict::Right, live);
                } else {
                    // The disk may store the rewritten copy wrongly again: the copy counts when it has been read back.
                    copying.task.sources = vec![copying.task.target];
                    self.read_source(0, live);
                }
            }
            (CopyStep::Read(_) | CopyStep::Away, None) | (CopyStep::Written, Some(_)) => {}
        }
        live.front.wake();
    }

    fn write_copy(&mut self, bytes: UnitBytes, live: &mut LiveVolume) {
        let Some(target) = self.copying.as_ref().map(|copying| copying.task.target) else { return };
        let takes_writes = live.takes_writes(target.member);
        let Some(copying) = &mut self.copying else { return };
        debug_assert!(
            copying.source.is_some_and(|source| copying.task.sources[source] != target),
            "a copy is written from another one that was just read"
        );
        copying.source = None;
        if !takes_writes {
            return self.end_copy(CopyVerdict::Unwritten, live);
        }
        let (id, part) = (copying.id, copying.task.part);
        let mend = live.volume.members().mend(&copying.name, &copying.content, part, target, bytes.table);
        let header = AlignedBlock::new(&mend.header.bytes);
        live.members.tell(target.member, Task::Begin(id, OnBreak::Discard, None));
        for (position, bytes) in [(mend.payload.1, bytes.payload), (mend.header.position, header)] {
            live.members
                .tell(target.member, Task::Write(id, Block { position, bytes: BlockBytes::Made(Arc::new(bytes)) }));
        }
        live.members.tell(target.member, Task::Finish(id));
    }

    /// Notes that a disk's thread could not write the copy of this number. True if the copy was to be rewritten in its place:
    /// it stays wrong, and the rest of the disk may be good.
    pub(super) fn could_not_mend(&mut self, id: UploadId, live: &mut LiveVolume) -> bool {
        let is_mend = self.copying.as_ref().is_some_and(|copying| copying.id == id && copying.task.new_copy.is_none());
        if is_mend {
            self.end_copy(CopyVerdict::Unwritten, live);
            live.front.wake();
        }
        is_mend
    }

    /// Ends the copy under way with its verdict; no disk works on it any more.
    fn end_copy(&mut self, end: CopyVerdict, live: &mut LiveVolume) {
        let Some(copying) = self.copying.take() else { return };
        let CopyUnderWay { owner, name, content, task, was_written, away, .. } = copying;
        let run = self.run.as_mut().filter(|_| owner == CopyOwner::Upkeep);
        match (end, task.new_copy, run) {
            (CopyVerdict::Right, new_copy, Some(run)) => {
                run.copies.extend(new_copy);
                run.report.moved += u64::from(new_copy.is_some());
                run.report.right += u64::from(!was_written);
                if was_written {
                    run.report.written += 1;
                    run.report.written_bytes.0 += live.volume.members().part_bytes(&content, task.part);
                }
            }
            (CopyVerdict::Unknown | CopyVerdict::OtherAway, _, Some(run)) if run.upkeep == Upkeep::Scrub => {
                run.is_unknown = true;
                run.report.away.extend(away.iter().map(|member| member.0));
            }
            (_, new_copy, run) => {
                new_copy.iter().for_each(|copy| live.volume.give_back(copy.to));
                if let Some(run) = run {
                    run.report.lost += u64::from(end != CopyVerdict::Right);
                    if end == CopyVerdict::Lost {
                        run.report.lost += count(std::mem::take(&mut run.tasks).len()); // the part's other copies were read, too
                    }
                }
            }
        }
        // A missing copy on a disk that is being filled is no damage.
        let is_filled = live.volume.members().filling().any(|member| member == task.target.member);
        let is_mended = was_written && task.new_copy.is_none() && !is_filled;
        let part = task.part;
        match end {
            CopyVerdict::Right if !is_mended => {}
            CopyVerdict::Unknown => {}
            CopyVerdict::Right => {
                live.health.note_wrong_copy(task.target.member);
                live.front.events.tell(StoreEvent::CopyMended { name, part });
            }
            CopyVerdict::Unwritten | CopyVerdict::OtherAway => {
                live.health.note_unwritten(task.target.member);
                live.front.events.tell(StoreEvent::CopyUnwritten { name, part });
            }
            CopyVerdict::Lost => {
                let is_news = live.health.note_damage(&name, &content);
                // Damage is logged once per content, since each viewer of the content finds it again.
                if is_news || owner == CopyOwner::Upkeep {
                    live.front.events.tell(StoreEvent::CopyLost { name, part });
                }
            }
        }
    }

    /// Begins to rewrite copies that a read found wrong from other copies, before any other copy.
    fn mend_next(&mut self, uses: &mut ClientUse, live: &mut LiveVolume) {
        while self.copying.is_none() {
            if self.mending.is_empty() {
                let Some((name, generation, part)) = uses.open.take_failed() else { return };
                let content = live.volume.find(&name).filter(|content| content.generation == generation).cloned();
                let Some(content) = content else { continue };
                let tasks = live.volume.copies_to_look_after(Upkeep::Scrub, &name, &content, part).unwrap_or_default();
                self.mending = tasks.into_iter().map(|task| (name.clone(), Arc::clone(&content), task)).collect();
            }
            let Some(copy) = self.mending.pop_front() else { continue };
            self.begin_copy(uses.new_number(), CopyOwner::Mending, copy, live);
        }
    }

    /// Begins to read all copies of these parts and to rewrite the wrong ones.
    pub(super) fn mend_parts(&mut self, parts: &[(String, u32)], live: &mut LiveVolume) {
        for (name, part) in parts {
            let Some(content) = live.volume.find(name).cloned() else { continue };
            let tasks = live.volume.copies_to_look_after(Upkeep::Scrub, name, &content, *part).unwrap_or_default();
            self.mending.extend(tasks.into_iter().map(|task| (name.clone(), Arc::clone(&content), task)));
        }
        live.front.wake();
    }

    /// True if copies are being repaired, or wait for repair.
    pub(super) fn is_mending(&self) -> bool {
        !self.mending.is_empty() || self.copying.is_some()
    }

    /// Notes that a disk was taken out, or is only read: gives up the copies to be written to it, and reads from other disks
    /// the copies that cannot be read from it.
    pub(super) fn leave_out(&mut self, member: MemberId, live: &mut LiveVolume) {
        let upkeep = self.run.as_ref().map(|run| run.upkeep);
        let is_read = live.volume.is_readable(member);
        if !is_read && matches!(upkeep, Some(Upkeep::Fill(own) | Upkeep::Drain(own)) if own == member) {
            self.end(Err(VolumeError::PartLost), live);
        }
        if self.undurable.as_ref().is_some_and(|run| run.upkeep == Upkeep::Fill(member)) {
            self.fail_undurable(VolumeError::PartLost, live);
        }
        // The disk's number may pass to another disk, with other contents in these units.
        self.mending.retain(|(_, _, task)| task.target.member != member);
        let Some(copying) = &self.copying else { return };
        match copying.source {
            Some(source) if !is_read && copying.task.sources[source].member == member => self.source_away(source, live),
            None if copying.task.target.member == member => self.end_copy(CopyVerdict::Unwritten, live),
            _ => {}
        }
        live.front.wake();
    }

    /// Ends an upkeep that has passed all contents. When its changes are durable, a filled or emptied disk gets its new state.
    fn conclude(&mut self, uses: &mut ClientUse, live: &mut LiveVolume) {
        self.begin_write_set(live);
        let Some(run) = self.run.as_ref().filter(|_| !live.has_write_set()) else { return };
        let (upkeep, lost) = (run.upkeep, run.report.lost > 0);
        // Resting uploads may have units on the emptied disk, and lack their second copies on the filled one.
        if matches!(upkeep, Upkeep::Drain(_) | Upkeep::Fill(_)) {
            uses.resting.let_go(&mut live.volume);
        }
        let left = match upkeep {
            Upkeep::Drain(_) if lost => Err(VolumeError::PartLost),
            // Wait for the uploads that still write to the disk.
            Upkeep::Drain(member) if uses.drafts.any_on(member) => return,
            Upkeep::Drain(member) => match live.volume.leave(member) {
                // Contents were written to the disk while it was emptied.
                Err(VolumeError::PartLost) => return self.run.iter_mut().for_each(UpkeepRun::begin_again),
                left => left.map(Some),
            },
            Upkeep::Fill(member) => Ok(Some(live.volume.filled(member))),
            Upkeep::Scrub | Upkeep::Balance | Upkeep::Outward | Upkeep::Inward => Ok(None),
        };
        let outcome = left.map(|steps| live.write_sets.write_superblocks(steps.into_iter().flatten()));
        self.end(outcome, live);
        if let (Upkeep::Drain(member), Ok(())) = (upkeep, outcome) {
            live.members.there[member.index()] = None;
            live.health.forget_disk(member);
        }
        self.begin_write_set(live);
        self.fill_disks(live);
    }

    fn end(&mut self, outcome: Result<(), VolumeError>, live: &mut LiveVolume) {
        let Some(mut run) = self.run.take() else { return };
        live.volume.end_upkeep();
        if let Some(copying) = &mut self.copying {
            copying.owner = CopyOwner::Mending; // the unit that is being written is given back when that has ended
        }
        let unused = run.copies.iter().chain(run.tasks.iter().filter_map(|task| task.new_copy.as_ref()));
        unused.for_each(|copy| live.volume.give_back(copy.to));
        debug_assert!(
            run.report.written >= count(run.copies.len()) && run.report.moved >= count(run.copies.len()),
            "a copy that is not entered was counted as written"
        );
        run.report.written -= count(run.copies.len());
        run.report.moved -= count(run.copies.len());
        let failed = outcome.err().map(|error| live.error(error));
        if run.gives_way() {
            self.moved_copies += run.report.written;
            // Copies that could not be moved are tried again only after further reads.
            self.reads_changed &= run.report.written > 0;
            if run.report.written == 0 {
                return;
            }
            return live.front.events.tell(StoreEvent::UpkeepEnded { kind: run.kind(), report: run.report, failed });
        }
        if failed.is_none() && live.has_superblocks() {
            self.undurable = Some(run);
        } else {
            self.report(&run, failed, live);
        }
    }

    /// Reports an upkeep of a disk when the disk's state is durable, and the catalogue is durable on the disks that hold it from then on.
    pub(super) fn settle(&mut self, live: &mut LiveVolume) {
        let is_durable = !live.write_sets.has_superblocks() && live.volume.has_catalogue_in_place();
        if let Some(run) = self.undurable.take_if(|_| is_durable) {
            self.report(&run, None, live);
        }
    }

    /// Reports the failure of an upkeep of a disk whose new state cannot become durable.
    fn fail_undurable(&mut self, error: VolumeError, live: &mut LiveVolume) {
        if let Some(run) = self.undurable.take() {
            self.report(&run, Some(live.error(error)), live);
        }
    }

    fn report(&mut self, run: &UpkeepRun, failed: Option<StoreError>, live: &mut LiveVolume) {
        if run.upkeep == Upkeep::Scrub && failed.is_none() {
            live.health.note_scrub(&run.report);
        }
        self.last = Some((run.kind(), run.report.clone(), failed.clone()));
        live.front.events.tell(StoreEvent::UpkeepEnded { kind: run.kind(), report: run.report.clone(), failed });
    }

    /// The upkeep under way, except moves to other zones, and its progress.
    pub(super) fn under_way(&self) -> Option<(&'static str, UpkeepReport)> {
        let run = self.run.as_ref().filter(|run| !run.gives_way()).or(self.undurable.as_ref())?;
        Some((run.kind(), run.report.clone()))
    }

    /// End of the last upkeep.
    pub(super) const fn last(&self) -> Option<&EndedUpkeep> {
        self.last.as_ref()
    }

    /// Copies that were moved to other zones.
    pub(super) const fn moved_copies(&self) -> u64 {
        self.moved_copies
    }

    /// Ends the upkeep: the volume accepts no more changes.
    pub(super) fn stop(&mut self, error: VolumeError, live: &mut LiveVolume) {
        self.end(Err(error), live);
        self.fail_undurable(error, live);
        self.copying = None;
    }

    /// Drops the upkeep: the plane has ended, and gives no more grants.
    pub(super) fn give_up(&mut self) {
        (self.run, self.undurable, self.copying) = (None, None, None);
    }

    /// Asserts the consistency of the copy under way and its upkeep, in builds with debug assertions.
    pub(super) fn assert_sound(&self, live: &LiveVolume) {
        if let Some(CopyUnderWay { task, source, owner, was_written, .. }) = &self.copying {
            debug_assert!(source.is_none_or(|source| source < task.sources.len()), "a source of the copy is read");
            debug_assert!(
                *owner == CopyOwner::Mending || self.run.is_some(),
                "an upkeep that ended has no copy under way"
            );
            debug_assert!(
                task.new_copy.is_none_or(|copy| copy.to == task.target),
                "the unit that was taken is written"
            );
            debug_assert!(!was_written || task.new_copy.is_none(), "a copy in a new unit counts when it is written");
        }
        let Some(run) = &self.run else { return };
        debug_assert!(run.content.is_some() || run.tasks.is_empty(), "tasks are of the content that is looked after");
        debug_assert!(run.content.is_some() || run.copies.is_empty(), "copies are entered with their content");
        debug_assert!(!run.is_through || run.content.is_none(), "every content was looked after");
        debug_assert!(
            run.content.as_ref().is_none_or(|content| index(u64::from(run.next_part)) <= content.parts.len()),
            "the next part is one of the content's"
        );
        debug_assert!(
            !matches!(run.upkeep, Upkeep::Drain(leaves) if run.copies.iter().any(|copy| copy.to.member == leaves)),
            "no copy goes to a disk that leaves"
        );
        debug_assert!(
            !matches!(run.upkeep, Upkeep::Fill(filled) if !live.volume.is_writable(filled)),
            "a disk that is out is not filled"
        );
    }

    fn begin_write_set(&mut self, live: &mut LiveVolume) {
        live.begin_write_set();
        self.settle(live);
    }
}

#[cfg(test)]
mod tests;
