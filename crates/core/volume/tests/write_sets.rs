//! Uploads, commits and changes of disks' states, as the threads of a server carry them out, step by step: clients break off and return,
//! disks err, hang, lose their power one after the other, and are replaced and filled; and the power may go at every step. The decisions
//! are the product's (`Drafts`, `WriteSets`, `Volume`); only the disks and their threads are a model.
//!
//! Law: a restart finds the acknowledged state, and the generation of the superblock that was reported as durable, and of everything that
//! it finds each copy on a disk that it trusts is right, except bytes that were reported to a recording as doubtful. On two disks it
//! never finds less when one of them is gone that the other has a copy of.
#![allow(clippy::cast_possible_truncation, reason = "lengths of the test are small")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::common::thread::{DiskThread, Job, Task, UploadPart};
use crate::common::{Chance, MemoryDisk, MemoryDisks, UNIT, new_volume, open_as_served, padded, payload, read_part};
use volume::{
    Checksums, DiskWrite, Draft, DraftBytes, DraftStep, Drafts, MemberId, NewCopy, Placement, ReadDisk, StoredContent,
    Upkeep, Volume, VolumeOpenError, WriteSets,
};

const DISK: u64 = 6 << 20;
/// Bytes that a client sends at once.
const CHUNK: u64 = UNIT / 2;

/// The state that a restart is to find.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    /// Names, each with the generation of its content.
    names: BTreeMap<String, u64>,
    /// Bytes that are there of each generation that is being recorded.
    recorded: BTreeMap<u64, u64>,
}

fn recorded(volume: &Volume) -> BTreeMap<u64, u64> {
    volume.recordings().map(|(_, content)| (content.generation, content.length)).collect()
}

/// An upload as its client knows it.
struct Upload {
    seed: u64,
    length: u64,
    is_recording: bool,
    /// A crash left it.
    is_recovered: bool,
    doubts: Doubts,
}

/// The parts of a recording that may be wrong.
#[derive(Default, Clone)]
struct Doubts {
    /// All parts on these disks.
    disks: BTreeSet<MemberId>,
    /// Parts that were open then, and continued elsewhere.
    parts: BTreeSet<u32>,
}

struct Fill {
    member: MemberId,
    name: String,
}

struct Server {
    volume: Volume,
    /// A waiting caller is the number of a state.
    write_sets: WriteSets<usize>,
    disks: MemoryDisks,
    /// Disks without power.
    dead: BTreeSet<MemberId>,
    workers: Vec<Option<DiskThread>>,
    drafts: Drafts<Upload, Vec<u8>>,
    /// An upload that broke off, with the bytes received.
    resting: Option<(Upload, Draft)>,
    fill: Option<Fill>,
    /// The state after each change, and the last of them that was acknowledged.
    states: Vec<Model>,
    acknowledged: usize,
    /// Seed and length of each generation.
    payloads: BTreeMap<u64, (u64, u64)>,
    /// The doubtful parts of a generation.
    doubtful: BTreeMap<u64, Doubts>,
    chance: Chance,
    counts: Counts,
}

#[derive(Default, Debug)]
struct Counts {
    acknowledged: u64,
    taken_out: u64,
    out_at_work: u64,
    grown: u64,
    recovered: u64,
    filled: u64,
    doubtful: u64,
    ended: u64,
    gone_on_with: u64,
    restarts: u64,
    cuts: u64,
}

impl Server {
    fn new(placement: Placement, count: usize, seed: u64) -> Self {
        let volume = Volume::create(new_volume(placement, vec![DISK; count])).expect("sizes are fine");
        let mut server = Self {
            volume,
            write_sets: WriteSets::new(1),
            disks: MemoryDisks(vec![Some(MemoryDisk::new(DISK)); count]),
            dead: BTreeSet::new(),
            workers: (0..count).map(|_| Some(DiskThread::default())).collect(),
            drafts: Drafts::default(),
            resting: None,
            fill: None,
            states: vec![Model::default()],
            acknowledged: 0,
            payloads: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            chance: Chance::new(seed),
            counts: Counts::default(),
        };
        let commit = server.volume.commit().expect("a new volume has a first commit");
        let superblocks = server.volume.members().superblock_writes();
        for step in [commit.writes].into_iter().chain(superblocks) {
            step.iter().for_each(|write| server.disks.write(write));
            server.disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
        }
        server.volume.committed(Ok(()));
        server
    }

    fn members(&self) -> Vec<MemberId> {
        (0..self.workers.len() as u8).map(MemberId).collect()
    }

    fn is_served(&self, member: MemberId) -> bool {
        self.workers[member.index()].as_ref().is_some_and(|worker| !worker.is_out)
    }

    fn step(&mut self) {
        let member = MemberId(self.chance.below(self.workers.len() as u64) as u8);
        match self.chance.below(200) {
            0..12 => self.begin_upload(),
            12..16 => self.remove(),
            16..20 => self.fill_step(),
            20..22 => self.replace(member),
            // It hangs: its thread continues when it comes back.
            22 => self.take_out(member),
            // A flush fails: some of the bytes written are gone.
            23 if self.is_served(member) => {
                let Self { disks, chance, .. } = self;
                disks.0[member.index()].as_mut().expect("a disk that is served").fail_flush(chance);
                self.take_out(member);
                self.workers[member.index()] = None;
            }
            24 => drop(self.dead.insert(member)),
            25 if self.chance.one_in(8) => self.restart(),
            26..30 => self.check_cut(),
            30..60 => self.receive(),
            60..63 => self.break_off(),
            _ => self.work(member),
        }
        if self.volume.is_read_only() {
            self.restart();
        }
    }

    fn begin(&mut self) {
        // The threads find out by themselves when they have their turn.
        self.write_sets.begin(&mut self.volume);
    }

    fn begin_upload(&mut self) {
        if self.drafts.numbers().len() > 3 {
            return;
        }
        if self.chance.one_in(2)
            && let Some((upload, draft)) = self.resting.take()
        {
            self.counts.gone_on_with += 1;
            self.drafts.begin(draft, upload.is_recording, upload);
            return;
        }
        let name = ["a", "b", "c", "d/a", "d/b", "e"][self.chance.below(6) as usize];
        let is_recording = self.chance.one_in(2);
        let units = self.chance.below(if is_recording { 6 } else { 3 });
        let (seed, length) = (self.chance.below(u64::MAX), units * UNIT + self.chance.below(9_000));
        let announced = (!is_recording).then_some(length);
        let Ok(draft) = self.volume.begin(name, announced) else { return };
        self.payloads.insert(draft.generation(), (seed, length));
        let doubts = Doubts::default();
        self.drafts.begin(draft, is_recording, Upload { seed, length, is_recording, is_recovered: false, doubts });
    }

    /// Some upload to which more may come, and how much has.
    fn receiving(&mut self) -> Option<(u64, u64)> {
        let receiving = |number: u64| Some((number, self.drafts.receiving(number)?));
        let all: Vec<_> = self.drafts.numbers().into_iter().filter_map(receiving).collect();
        (!all.is_empty()).then(|| all[self.chance.below(all.len() as u64) as usize])
    }

    /// A client sends a chunk, or has sent all.
    fn receive(&mut self) {
        let Some((number, came)) = self.receiving() else { return };
        let upload = self.drafts.upload_mut(number).expect("it receives");
        let received = if came == upload.length {
            self.drafts.finish(number, 1, &mut self.volume)
        } else {
            let bytes = payload(upload.seed, came, CHUNK.min(upload.length - came));
            self.drafts.receive(number, &padded(bytes.clone()), &bytes, &mut self.volume)
        };
        if received.is_err() {
            self.end(number);
        }
        self.carry_out();
    }

    /// A client goes: the bytes received of a recording are kept, and some of the other uploads are continued later.
    fn break_off(&mut self) {
        let Some((number, came)) = self.receiving() else { return };
        let upload = self.drafts.upload_mut(number).expect("it receives");
        if upload.is_recording {
            upload.length = came;
            if self.drafts.finish(number, 1, &mut self.volume).is_err() {
                self.end(number);
            }
        } else if came.is_multiple_of(CHUNK) && self.chance.one_in(2) {
            self.drafts.rest(number, &mut self.volume);
        } else {
            self.end(number);
        }
        self.carry_out();
    }

    fn end(&mut self, number: u64) {
        self.counts.ended += 1;
        self.drafts.end(number, &mut self.volume);
    }

    fn carry_out(&mut self) {
        while let Some((number, step)) = self.drafts.next_step() {
            match step {
                DraftStep::Begin(member) => assert!(self.part(member, number).is_some(), "its disk is served"),
                DraftStep::Write(member, position, bytes) => {
                    let (DraftBytes::Payload(bytes) | DraftBytes::Made(bytes)) = bytes;
                    let part = self.part(member, number).expect("its disk is served");
                    part.writes.push_back(DiskWrite { member, position, bytes });
                }
                DraftStep::Finish(member) => self.part(member, number).expect("it is served").is_finished = true,
                DraftStep::Forget(member) => {
                    self.part(member, number).into_iter().for_each(|part| part.is_forgotten = true);
                }
                DraftStep::Doubtful(member, _) => {
                    let came = self.drafts.receiving(number).unwrap_or(0);
                    let doubts = &mut self.drafts.upload_mut(number).expect("it goes on").doubts;
                    doubts.disks.insert(member);
                    doubts.parts.extend(came.checked_sub(1).map(|last| (last / UNIT) as u32));
                    let doubts = doubts.clone();
                    self.doubtful.insert(self.drafts.draft(number).expect("it goes on").generation(), doubts);
                }
                DraftStep::Publish => self.publish(number),
                DraftStep::Rest => {
                    self.let_go();
                    self.resting = self.drafts.take(number).map(|(upload, draft, _)| (upload, draft));
                }
            }
        }
        self.note_recorded();
    }

    /// The recordings that the journal is to have are others now.
    fn note_recorded(&mut self) {
        let (state, recorded) = (self.states.last().expect("there is one"), recorded(&self.volume));
        if state.recorded != recorded {
            self.changed(Model { recorded, ..state.clone() });
        }
    }

    /// The writes that a disk's thread has of an upload.
    fn part(&mut self, member: MemberId, number: u64) -> Option<&mut UploadPart> {
        let worker = self.workers[member.index()].as_mut().filter(|worker| !worker.is_out)?;
        Some(worker.parts.entry(number).or_default())
    }

    fn let_go(&mut self) {
        if let Some((_, draft)) = self.resting.take() {
            self.volume.abandon(draft);
        }
    }

    fn publish(&mut self, number: u64) {
        let (upload, mut draft, modified) = self.drafts.take(number).expect("all of it is durable");
        if upload.is_recovered && !self.volume.is_free_name(draft.name()) {
            draft.rename(&format!("recovered-{}", draft.generation()));
        }
        let name = draft.name().to_owned();
        let Ok(content) = self.volume.publish(draft, modified) else { return };
        self.payloads.insert(content.generation, (upload.seed, upload.length));
        self.counts.doubtful += u64::from(!upload.doubts.disks.is_empty());
        self.doubtful.insert(content.generation, upload.doubts);
        let mut state = self.states.last().expect("there is one").clone();
        state.names.insert(name, content.generation);
        state.recorded = recorded(&self.volume);
        self.changed(state);
    }

    fn remove(&mut self) {
        let state = self.states.last().expect("there is one");
        let at = self.chance.below(state.names.len().max(1) as u64) as usize;
        let Some(name) = state.names.keys().nth(at).cloned() else { return };
        self.volume.remove(&name).expect("it is there");
        let mut state = state.clone();
        state.names.remove(&name);
        self.changed(state);
    }

    fn changed(&mut self, state: Model) {
        self.states.push(state);
        self.write_sets.wait(self.states.len() - 1);
        self.begin();
    }

    /// One step of a disk's thread: a write, a flush, or telling that it was done.
    fn work(&mut self, member: MemberId) {
        let Some(worker) = self.workers[member.index()].as_mut() else { return };
        let Some(job) = &mut worker.job else { return self.take_job(member) };
        if self.dead.contains(&member) {
            self.take_out(member);
            self.workers[member.index()] = None;
            return;
        }
        let disk = self.disks.0[member.index()].as_mut().expect("a disk that is served");
        if let Some(write) = job.writes.pop_front() {
            return disk.write(write.position, &write.bytes);
        }
        if !std::mem::replace(&mut job.is_flushed, true) {
            return disk.flush();
        }
        let (task, is_out) = (job.task, worker.is_out);
        worker.job = None;
        if is_out {
            self.workers[member.index()] = None;
            self.counts.out_at_work += 1;
        }
        match task {
            Task::Share(number) => {
                let durable = self.write_sets.done(member, number, &mut self.volume);
                self.counts.acknowledged += durable.len() as u64;
                self.acknowledged = durable.into_iter().fold(self.acknowledged, usize::max);
                self.begin();
            }
            Task::Write => {}
            Task::Grow => self.grow(member),
            Task::Finish(number) => self.through_with(member, number),
        }
    }

    /// A disk flushed its writes of all uploads.
    fn grow(&mut self, member: MemberId) {
        let Some(worker) = &self.workers[member.index()] else { return };
        let written: Vec<_> = worker.parts.iter().map(|(number, part)| (*number, part.written)).collect();
        for (number, bytes) in written {
            match self.drafts.made_durable(number, (member, bytes), 1, &mut self.volume) {
                Ok(entered) => self.counts.grown += u64::from(entered),
                Err(_) => self.end(number),
            }
        }
        self.carry_out();
    }

    /// A disk made its writes of an upload durable, or forgot them.
    fn through_with(&mut self, member: MemberId, number: u64) {
        if let Some(worker) = self.workers[member.index()].as_mut() {
            worker.parts.remove(&number);
        }
        self.drafts.disk_done(number, member, &mut self.volume);
        self.carry_out();
    }

    fn take_job(&mut self, member: MemberId) {
        let worker = self.workers[member.index()].as_mut().expect("it asks");
        if let Some((number, writes)) = self.write_sets.share(member) {
            let writes = writes.into_iter().cloned().collect();
            worker.job = Some(Job { task: Task::Share(number), writes, is_flushed: false });
            return;
        }
        if self.chance.one_in(2) && worker.parts.values().any(|part| part.written > 0) {
            worker.job = Some(Job { task: Task::Grow, writes: VecDeque::new(), is_flushed: false });
            return;
        }
        let has_work = |part: &UploadPart| part.is_finished || part.is_forgotten || !part.writes.is_empty();
        let ready: Vec<u64> =
            worker.parts.iter().filter(|(_, part)| has_work(part)).map(|(number, _)| *number).collect();
        if ready.is_empty() {
            return;
        }
        let number = ready[self.chance.below(ready.len() as u64) as usize];
        let part = worker.parts.get_mut(&number).expect("one of them");
        if part.is_forgotten {
            return self.through_with(member, number);
        }
        let task = if part.is_finished { Task::Finish(number) } else { Task::Write };
        let writes = std::mem::take(&mut part.writes);
        part.written += writes.iter().map(|write| write.bytes.len() as u64).sum::<u64>();
        worker.job = Some(Job { task, writes, is_flushed: task == Task::Write });
    }

    fn take_out(&mut self, member: MemberId) {
        if !self.is_served(member) {
            return;
        }
        self.let_go();
        let taken = self.write_sets.take_out(member, &mut self.volume);
        if taken.is_err() {
            return;
        }
        self.counts.taken_out += 1;
        let worker = self.workers[member.index()].as_mut().expect("it is served");
        worker.is_out = true;
        if worker.job.is_none() {
            self.workers[member.index()] = None;
        }
        let lost = self.drafts.leave_out(member, 0, &mut self.volume);
        lost.into_iter().for_each(|number| self.end(number));
        self.fill.take_if(|fill| fill.member == member);
        self.carry_out();
        self.begin();
    }

    /// An empty disk comes in the place of a removed one.
    fn replace(&mut self, member: MemberId) {
        if self.workers[member.index()].is_some() || self.fill.is_some() || self.volume.is_readable(member) {
            return;
        }
        let Ok(steps) = self.volume.put_in(member, DISK) else { return };
        self.disks.0[member.index()] = Some(MemoryDisk::new(DISK));
        self.dead.remove(&member);
        self.workers[member.index()] = Some(DiskThread::default());
        self.write_sets.write_superblocks(steps);
        self.fill = Some(Fill { member, name: String::new() });
        self.begin();
    }

    fn fill_step(&mut self) {
        let Some(Fill { member, name }) = self.fill.take() else { return };
        if self.members().iter().any(|member| self.dead.contains(member)) {
            // Its thread finds that.
            self.fill = Some(Fill { member, name });
            return;
        }
        let next = self.volume.content_behind(&name).map(|(name, content)| (name.to_owned(), Arc::clone(content)));
        let Some((name, content)) = next else {
            if self.write_sets.is_idle() {
                let steps = self.volume.filled(member);
                self.write_sets.write_superblocks(steps);
                self.counts.filled += 1;
            } else {
                self.fill = Some(Fill { member, name });
            }
            return self.begin();
        };
        let mut copies: Vec<NewCopy> = Vec::new();
        for part in 0..content.parts.len() as u32 {
            let Ok(tasks) = self.volume.copies_to_look_after(Upkeep::Fill(member), &name, &content, part) else {
                break;
            };
            for task in tasks {
                if task.new_copy.is_some() || !self.volume.members().holds(&content, part, task.target, &mut self.disks)
                {
                    let bytes =
                        read_part(&self.volume, &content, part, &mut self.disks).expect("the other copy is right");
                    let mut checksums = Checksums::default();
                    checksums.add(&bytes);
                    let mend = self.volume.members().mend(&name, &content, part, task.target, checksums.finish());
                    let (member, position) = mend.payload;
                    self.disks.write(&DiskWrite { member, position, bytes: padded(bytes) });
                    self.disks.write(&mend.header);
                }
                copies.extend(task.new_copy);
            }
        }
        self.disks.flush(member);
        self.volume.take_copies(&name, &content, &copies).expect("the volume takes changes");
        self.fill = Some(Fill { member, name });
        self.begin();
    }

    /// The power goes now, and comes back: checks the state that a restart finds.
    fn check_cut(&mut self) {
        self.counts.cuts += 1;
        let mut disks = self.disks.clone();
        disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut self.chance));
        let volume = self.found(&mut disks);
        for member in self.members() {
            if self.workers.len() == 2 && volume.is_readable(member) && volume.keeps_all_without(member) {
                let mut rest = disks.clone();
                rest.0[member.index()] = None;
                match open_as_served(&mut rest) {
                    Ok((volume, _)) => drop(self.check_state(&volume)),
                    Err(error) => assert!(matches!(error, VolumeOpenError::CatalogueMissing(_)), "{error}"),
                }
            }
        }
    }

    /// The volume on these disks, checked.
    fn found(&self, disks: &mut MemoryDisks) -> Volume {
        let (volume, _) = open_as_served(disks).expect("a power cut leaves a state");
        assert!(volume.unbalanced().is_empty());
        self.check_state(&volume);
        for (name, content) in volume.contents() {
            let (seed, length) = self.payloads[&content.generation];
            for (part, stored) in (0u32..).zip(&content.parts) {
                let start = u64::from(part) * UNIT;
                let doubts = &self.doubtful[&content.generation];
                if doubts.disks.contains(&stored.first.member) || doubts.parts.contains(&part) {
                    continue;
                }
                for place in stored.places().filter(|place| volume.is_readable(place.member)) {
                    let holds = volume.members().holds(content, part, place, disks);
                    assert!(holds, "part {part} of `{name}` is not on {:?}, which is trusted", place.member);
                }
                let bytes = read_part(&volume, content, part, disks).expect("a copy was just right");
                let own = UNIT.min(length.saturating_sub(start)) as usize;
                assert!(bytes[..own] == payload(seed, start, own as u64), "part {part} of `{name}` is wrong");
            }
        }
        self.check_recordings(&volume, disks);
        volume
    }

    /// Checks that the recordings of the journal are there, byte for byte.
    fn check_recordings(&self, volume: &Volume, disks: &mut MemoryDisks) {
        for mut draft in volume.take_up_recordings() {
            if self.doubtful.contains_key(&draft.generation()) {
                continue;
            }
            let length = draft.length();
            let restored = draft.reader(volume.members()).read(disks);
            let (_, lost) = draft.restore(restored, volume.members());
            assert!((lost, draft.length()) == (0, length), "{lost} of {length} bytes of `{}`", draft.name());
            let (seed, _) = self.payloads[&draft.generation()];
            let bytes = read_recorded(volume, draft.generation(), disks);
            assert!(bytes == payload(seed, 0, length), "`{}` is wrong", draft.name());
        }
    }

    /// The number of the state that was found: it is none before the last acknowledged one.
    fn check_state(&self, volume: &Volume) -> usize {
        let known = |(name, content): (&str, &Arc<StoredContent>)| (name.to_owned(), content.generation);
        let found = Model { names: volume.contents().map(known).collect(), recorded: recorded(volume) };
        let at = (self.acknowledged..self.states.len()).rev().find(|at| self.states[*at] == found);
        at.unwrap_or_else(|| {
            panic!("found {found:?}, acknowledged {:?}, then {:?}", self.states[self.acknowledged], self.states.last())
        })
    }

    /// The power of all goes, if it was not gone; the server starts again, and may lose its power while it does.
    fn restart(&mut self) {
        self.counts.restarts += 1;
        loop {
            self.disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut self.chance));
            let mut disks = self.disks.clone();
            self.volume = self.found(&mut disks);
            let (found, durable) = (self.volume.superblock().generation, self.write_sets.durable_generation());
            assert!(found >= durable, "generation {durable} was said to be durable, {found} is found");
            let state = self.check_state(&self.volume);
            self.states = vec![self.states[state].clone()];
            self.acknowledged = 0;
            if self.settle().is_some() {
                break;
            }
        }
        self.write_sets = WriteSets::new(self.volume.superblock().generation);
        self.dead.clear();
        (self.drafts, self.resting) = (Drafts::default(), None);
        let worker = |member: MemberId| self.volume.is_writable(member).then(DiskThread::default);
        self.workers = self.members().into_iter().map(worker).collect();
        self.fill = self.volume.members().filling().next().map(|member| Fill { member, name: String::new() });
        self.take_up_recordings();
    }

    /// Ends the recordings that a crash left.
    fn take_up_recordings(&mut self) {
        for draft in self.volume.take_up_recordings() {
            self.counts.recovered += 1;
            let (seed, _) = self.payloads[&draft.generation()];
            let doubts = self.doubtful.get(&draft.generation()).cloned().unwrap_or_default();
            let restored = draft.reader(self.volume.members()).read(&mut self.disks);
            let length = draft.length();
            let upload = Upload { seed, length, is_recording: false, is_recovered: true, doubts };
            let number = self.drafts.begin(draft, false, upload);
            let lost = self.drafts.restore(number, restored, &self.volume);
            let left = self.drafts.receiving(number).unwrap_or(0);
            self.drafts.upload_mut(number).expect("it goes on").length = left;
            if (lost > 0 && left == 0) || self.drafts.finish(number, 1, &mut self.volume).is_err() {
                self.end(number);
            }
        }
        self.carry_out();
    }

    /// Opens the volume anew with the disks that are there, and makes the changes that this needs durable. None if the power goes
    /// meanwhile.
    fn settle(&mut self) -> Option<()> {
        let (volume, found) = open_as_served(&mut self.disks).expect("it was just opened");
        self.volume = volume;
        self.write(found.superblocks)?;
        for member in found.missing {
            let steps = self.volume.take_out(member).expect("the other one has everything");
            self.write(steps)?;
        }
        for member in found.stale {
            if let Ok(steps) = self.volume.put_in(member, DISK) {
                self.write(steps)?;
            }
        }
        while let Some(commit) = self.volume.commit() {
            self.write([commit.writes])?;
            self.volume.committed(Ok(()));
        }
        Some(())
    }

    fn write(&mut self, steps: impl IntoIterator<Item = Vec<DiskWrite>>) -> Option<()> {
        for step in steps {
            step.iter().for_each(|write| self.disks.write(write));
            for member in step.iter().map(|write| write.member).collect::<BTreeSet<_>>() {
                if self.chance.one_in(50) {
                    return None;
                }
                self.disks.flush(member);
            }
        }
        Some(())
    }
}

/// The bytes of a recording that is not over.
fn read_recorded(volume: &Volume, generation: u64, disks: &mut MemoryDisks) -> Vec<u8> {
    let (_, content) = volume.recordings().find(|(_, content)| content.generation == generation).expect("it is there");
    let mut bytes = Vec::new();
    for part in &content.parts {
        let place = part.places().find(|place| volume.is_readable(place.member)).expect("a copy can be read");
        let mut unit = vec![0; UNIT as usize];
        let position = volume.members().areas(place.member).payload(place.unit);
        disks.read(place.member.index(), position, &mut unit).expect("it is there");
        bytes.extend(unit);
    }
    bytes.truncate(content.length as usize);
    bytes
}

fn run(placement: Placement, count: usize, seeds: std::ops::Range<u64>) -> Counts {
    let mut all = Counts::default();
    for seed in seeds {
        println!("seed {seed}");
        let mut server = Server::new(placement, count, seed);
        server.counts = all;
        for _ in 0..2_000 {
            server.step();
        }
        server.restart();
        all = server.counts;
    }
    println!("{all:?}");
    all
}

fn seeds() -> std::ops::Range<u64> {
    let all = std::env::var("ISOCAST_VOLUME_SEEDS").ok().and_then(|count| count.parse().ok());
    0..all.unwrap_or(40)
}

#[test]
fn acknowledged_changes_of_two_disks_survive_a_power_cut() {
    let counts = run(Placement::Mirror, 2, seeds());
    assert!(
        counts.acknowledged > 100 && counts.out_at_work > 0 && counts.gone_on_with > 0 && counts.filled > 0,
        "{counts:?}"
    );
    assert!(counts.grown > 20 && counts.recovered > 20, "{counts:?}");
}

#[test]
fn acknowledged_changes_of_three_disks_survive_a_power_cut() {
    let counts = run(Placement::Mirror, 3, seeds());
    assert!(
        counts.acknowledged > 100 && counts.out_at_work > 0 && counts.gone_on_with > 0 && counts.filled > 0,
        "{counts:?}"
    );
    assert!(counts.grown > 20 && counts.recovered > 20, "{counts:?}");
}

#[test]
fn striped_changes_survive_and_recordings_leave_a_lost_disk() {
    for count in [2, 3] {
        let counts = run(Placement::Stripe, count, seeds());
        assert!(counts.acknowledged > 100 && counts.out_at_work > 0 && counts.doubtful > 0, "{counts:?}");
    }
}

#[test]
fn durable_bytes_of_recordings_survive_a_power_cut() {
    let counts = run(Placement::Span, 1, seeds());
    assert!(counts.acknowledged > 100 && counts.grown > 100 && counts.recovered > 20, "{counts:?}");
}
