//! The volume against a plain map, with a crash at every sync, disks that lie, and failed flushes.
#![allow(clippy::cast_possible_truncation, reason = "lengths of the test are small")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{
    Chance, MemoryDisk, MemoryDisks, UNIT, new_volume, padded, payload, read_content, read_part, write_content,
};
use volume::{Checksums, DiskWrite, GroupCommit, MemberId, Placement, StoredContent, StoredPart, Volume, VolumeError};

/// The map's entry for a content.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    generation: u64,
    seed: u64,
    length: u64,
}

type Model = BTreeMap<String, Known>;

/// Faults that may occur, in addition to crashes.
#[derive(Clone, Copy)]
struct Faults {
    /// One write in this number to this disk is lost or goes elsewhere, although it is acknowledged.
    lying: Option<(MemberId, u64)>,
    /// One commit in this number meets a flush that fails.
    failed_flush: u64,
}

/// A flush of a commit that failed.
#[derive(Debug)]
struct FailedFlush {
    member: MemberId,
    /// True if it was to make the payload of published contents durable, not the journal.
    is_payload: bool,
}

struct Machine {
    volume: Volume,
    disks: MemoryDisks,
    chance: Chance,
    faults: Faults,
    acknowledged: Model,
    now: Model,
    readers: Vec<(Arc<StoredContent>, u64)>,
    crashes: u64,
    reported: u64,
    replaced: u64,
    only_read: u64,
}

const DISK: u64 = 10 << 20;

impl Machine {
    fn new(placement: Placement, disks: usize, faults: Faults, seed: u64) -> Self {
        let volume = Volume::create(new_volume(placement, vec![DISK; disks])).expect("sizes are fine");
        let mut machine = Self {
            volume,
            disks: MemoryDisks(vec![Some(MemoryDisk::new(DISK)); disks]),
            chance: Chance::new(seed),
            faults: Faults { lying: None, failed_flush: u64::MAX },
            acknowledged: Model::new(),
            now: Model::new(),
            readers: Vec::new(),
            crashes: 0,
            reported: 0,
            replaced: 0,
            only_read: 0,
        };
        let commit = machine.volume.commit().expect("a new volume has a first commit");
        machine.carry_out(&commit, &mut |_| {}).expect("no faults yet");
        machine.volume.committed(Ok(()));
        let steps = machine.volume.members().superblock_writes();
        machine.write_steps(steps);
        machine.faults = faults;
        machine
    }

    fn write_steps(&mut self, steps: impl IntoIterator<Item = Vec<DiskWrite>>) {
        for step in steps {
            step.iter().for_each(|write| self.disks.write(write));
            let members: std::collections::BTreeSet<_> = step.iter().map(|write| write.member).collect();
            members.into_iter().for_each(|member| self.disks.flush(member));
        }
    }

    fn write(&mut self, write: &DiskWrite) {
        match self.faults.lying {
            Some((member, often)) if member == write.member && self.chance.one_in(often) => {
                // Half of them go elsewhere: over another unit, or over the journal where the disk is not alone.
                let alone = self.disks.0.len() == 1;
                let areas = self.volume.members().areas(member);
                let start = if alone { areas.units_start() } else { areas.journal_start() };
                if self.chance.one_in(2) {
                    let room = (DISK - (1 << 20) - start - write.bytes.len() as u64) / 4096;
                    let position = start + self.chance.below(room) * 4096;
                    self.disks.write(&DiskWrite { position, ..write.clone() });
                }
            }
            _ => self.disks.write(write),
        }
    }

    fn carry_out(&mut self, commit: &GroupCommit, at_sync: &mut dyn FnMut(&mut Self)) -> Result<(), FailedFlush> {
        let steps = [(&commit.flush_first, &Vec::new(), true), (&commit.flush_then, &commit.writes, false)];
        for (members, writes, is_payload) in steps {
            for write in writes {
                // A disk that is alone keeps its journal: nothing could tell that its last record is missing.
                if self.disks.0.len() == 1 { self.disks.write(write) } else { self.write(write) }
            }
            for member in members {
                at_sync(self);
                if self.chance.one_in(self.faults.failed_flush) {
                    let disk = self.disks.0[member.index()].as_mut().expect("flushed disks are there");
                    disk.fail_flush(&mut self.chance);
                    return Err(FailedFlush { member: *member, is_payload });
                }
                self.disks.flush(*member);
            }
        }
        at_sync(self);
        Ok(())
    }

    fn commit(&mut self) {
        let Some(commit) = self.volume.commit() else { return };
        let outcome = self.carry_out(&commit, &mut Self::check_crash);
        match outcome {
            Ok(()) => {
                self.volume.committed(Ok(()));
                self.acknowledged = self.now.clone();
            }
            Err(FailedFlush { member, is_payload }) => match self.volume.take_out(member) {
                Ok(_) if self.volume.is_readable(member) => self.go_on_without_writing_to(member, is_payload),
                Ok(steps) => {
                    self.write_steps(steps);
                    self.disks.0[member.index()] = None;
                    self.check_crash();
                    self.commit();
                    self.replace(member);
                }
                // No other disk stands in: start anew from the state of the disks, with or without the last commit.
                Err(error) => {
                    assert_eq!(error, VolumeError::ReadOnly);
                    assert_eq!(self.volume.remove("any"), Err(VolumeError::ReadOnly));
                    self.restart();
                }
            },
        }
    }

    /// If the disk was to flush payload, contents published since the last commit may be missing: they are given up. All else is as before.
    fn go_on_without_writing_to(&mut self, member: MemberId, is_payload: bool) {
        self.only_read += 1;
        let is_lost = |(name, known): (&String, &Known)| {
            let parts = &self.volume.find(name).expect("the map and the volume agree").parts;
            let is_new = self.acknowledged.values().all(|other| other.generation != known.generation);
            let is_lost = is_new && parts.iter().flat_map(StoredPart::places).any(|place| place.member == member);
            (is_payload && is_lost).then(|| name.clone())
        };
        let lost: Vec<String> = self.now.iter().filter_map(is_lost).collect();
        lost.iter().for_each(|name| self.remove(name));
        self.readers.clear();
        self.commit();
        if self.chance.one_in(2) {
            self.restart();
        }
    }

    fn restart(&mut self) {
        self.readers.clear();
        self.disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut self.chance));
        self.volume = self.disks.open().expect("the state before is there");
        let state = self.state(&self.volume);
        assert!(state == self.acknowledged || state == self.now, "all of a commit or nothing of it");
        self.now = state.clone();
        self.acknowledged = state;
        self.commit();
    }

    /// Puts an empty disk in, and fills it from the others.
    fn replace(&mut self, member: MemberId) {
        if self.volume.is_readable(member) || self.disks.0[member.index()].is_some() {
            return;
        }
        self.replaced += 1;
        // The other copy serves readers of contents removed meanwhile; it is not written to the new disk.
        self.readers.clear();
        let faults = std::mem::replace(&mut self.faults, Faults { lying: None, failed_flush: u64::MAX });
        self.disks.0[member.index()] = Some(MemoryDisk::new(DISK));
        let steps = self.volume.put_in(member, DISK).expect("the other copies are there");
        self.write_steps(steps);
        self.commit();
        let contents: Vec<(String, Arc<StoredContent>)> =
            self.volume.contents().map(|(name, content)| (name.to_owned(), Arc::clone(content))).collect();
        for (name, content) in contents {
            for part in 0..content.parts.len() as u32 {
                let places: Vec<_> = content.parts[part as usize].places().collect();
                let Some(place) = places.iter().find(|place| place.member == member) else { continue };
                // A part that the lying disk alone had is lost: that is two faults in one mirror.
                let Ok(bytes) = read_part(&self.volume, &content, part, &mut self.disks) else { continue };
                let mut checksums = Checksums::default();
                checksums.add(&bytes);
                let mend = self.volume.members().mend(&name, &content, part, *place, checksums.finish());
                let (member, position) = mend.payload;
                self.disks.write(&DiskWrite { member, position, bytes: padded(bytes) });
                self.disks.write(&mend.header);
            }
        }
        self.disks.flush(member);
        let steps = self.volume.filled(member);
        self.write_steps(steps);
        self.commit();
        self.faults = faults;
    }

    fn state(&self, volume: &Volume) -> Model {
        let seed = |generation: u64| {
            let known = self.now.values().chain(self.acknowledged.values());
            known.clone().find(|known| known.generation == generation).map_or(0, |known| known.seed)
        };
        let known = |content: &StoredContent| Known {
            generation: content.generation,
            seed: seed(content.generation),
            length: content.length,
        };
        volume.contents().map(|(name, content)| (name.to_owned(), known(content))).collect()
    }

    /// The power goes now: the state found is the acknowledged one, or the one under way, and all of it is right.
    fn check_crash(&mut self) {
        self.crashes += 1;
        let mut disks = self.disks.clone();
        disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut self.chance));
        let mut volume = disks.open().expect("a crash leaves a state");
        assert!(volume.unbalanced().is_empty());
        let state = self.state(&volume);
        assert!(
            state == self.acknowledged || state == self.now,
            "neither what was acknowledged nor what was under way: crash {}\nfound {state:?}\nacknowledged {:?}\nunder way {:?}",
            self.crashes,
            self.acknowledged,
            self.now
        );
        if self.chance.one_in(8) {
            self.check_crash_in_recovery(&mut volume, &mut disks, &state);
        }
        let all = self.crashes.is_multiple_of(64);
        for (name, known) in &state {
            if all || self.chance.one_in(8) || !self.acknowledged.contains_key(name) {
                self.reported += check_content(&volume, &mut disks, name, known, self.faults);
            }
        }
    }

    fn check_crash_in_recovery(&mut self, volume: &mut Volume, disks: &mut MemoryDisks, state: &Model) {
        let Some(commit) = volume.commit() else { return };
        commit.writes.iter().for_each(|write| disks.write(write));
        disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut self.chance));
        *volume = disks.open().expect("a crash in the recovery leaves a state");
        assert_eq!(self.state(volume), *state, "recovery twice gives what it gives once");
    }

    fn put(&mut self, name: &str) {
        let length = match self.chance.below(4) {
            0 => self.chance.below(3) * UNIT,
            1 => self.chance.below(4 * UNIT),
            _ => self.chance.below(12_000),
        };
        let told = self.chance.one_in(2).then_some(length);
        let mut draft = match self.volume.begin(name, told) {
            Ok(draft) => draft,
            Err(VolumeError::Full) => return self.make_room(),
            Err(VolumeError::IsFolder) => return assert!(self.volume.is_folder(name)),
            Err(VolumeError::NotAFolder) => return assert!(!self.now.contains_key(name)),
            Err(error) => panic!("{error}"),
        };
        let seed = self.chance.below(u64::MAX);
        let mut writes = Vec::new();
        let written =
            write_content(&mut self.volume, &mut draft, (seed, length, 7), |write| writes.push(write.clone()));
        writes.iter().for_each(|write| self.write(write));
        if let Err(error) = written {
            assert!(error == VolumeError::Full && told.is_none(), "room that was promised is there");
            self.volume.abandon(draft);
            return self.make_room();
        }
        if self.chance.one_in(16) {
            return self.volume.abandon(draft);
        }
        let content = self.volume.publish(draft, 7).expect("nothing came between");
        self.now.insert(name.to_owned(), Known { generation: content.generation, seed, length });
    }

    fn make_room(&mut self) {
        for name in self.now.keys().take(4).cloned().collect::<Vec<_>>() {
            self.remove(&name);
        }
        self.commit();
    }

    fn remove(&mut self, name: &str) {
        assert_eq!(self.volume.remove(name).is_ok(), self.now.remove(name).is_some());
    }

    fn rename(&mut self, from: &str, to: &str) {
        match self.volume.rename(from, to) {
            Ok(()) if from == to => assert!(self.now.keys().any(|name| lies_in(name, from))),
            Ok(()) => {
                let moved: Vec<_> = self.now.extract_if(.., |name, _| lies_in(name, from)).collect();
                assert!(!moved.is_empty());
                self.now.retain(|name, _| !lies_in(name, to));
                self.now.extend(moved.into_iter().map(|(name, known)| (format!("{to}{}", &name[from.len()..]), known)));
            }
            Err(VolumeError::NotFound) => assert!(!self.now.keys().any(|name| lies_in(name, from))),
            Err(error) => assert!(matches!(error, VolumeError::IsFolder | VolumeError::NotAFolder), "{error}"),
        }
    }

    /// A reader keeps a content while it is replaced, removed and its room is wanted.
    fn read_long(&mut self) {
        if self.readers.len() == 3 {
            let (content, seed) = self.readers.remove(0);
            let known = Known { generation: content.generation, seed, length: content.length };
            let whole = check_parts(&self.volume, &mut self.disks, &content, &known);
            assert!(whole || self.disks.0.len() == 1 && self.faults.lying.is_some(), "a reader lost its content");
        } else if let Some((name, known)) = self.now.iter().next() {
            let content = self.volume.find(name).expect("the map and the volume agree");
            self.readers.push((Arc::clone(content), known.seed));
        }
    }

    fn step(&mut self) {
        let name = |chance: &mut Chance| {
            let folder = ["", "", "a/", "a/b/"][chance.below(4) as usize];
            format!("{folder}{}", ["a", "b", "c", "d", "e", "f"][chance.below(6) as usize])
        };
        let (one, other) = (name(&mut self.chance), name(&mut self.chance));
        match self.chance.below(10) {
            0..5 => self.put(&one),
            5 | 6 => self.remove(&one),
            7 => self.rename(&one, &other),
            8 => self.read_long(),
            _ => self.check_crash(),
        }
        if self.chance.one_in(2) {
            self.commit();
        }
    }
}

/// Checks a content; gives 1 if it is damaged and that is seen, where that may be.
/// True if a name is that of the item, or of a content below it.
fn lies_in(name: &str, item: &str) -> bool {
    name.strip_prefix(item).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn check_content(volume: &Volume, disks: &mut MemoryDisks, name: &str, known: &Known, faults: Faults) -> u64 {
    let content = Arc::clone(volume.find(name).expect("the map and the volume agree"));
    let whole = check_parts(volume, disks, &content, known);
    let alone = volume.members().placement().copies() == 1;
    assert!(whole || (alone && faults.lying.is_some()), "`{name}` was lost although a copy was right");
    u64::from(!whole)
}

/// True if all parts can be read; bytes that are read are right.
fn check_parts(volume: &Volume, disks: &mut MemoryDisks, content: &StoredContent, known: &Known) -> bool {
    let bytes = read_content(volume, content, disks);
    bytes.is_some_and(|bytes| {
        assert!(bytes == payload(known.seed, 0, known.length), "wrong bytes were taken for right ones");
        true
    })
}

/// `steps` are those of the long run, which `ISOCAST_VOLUME_STEPS=all` selects and which takes minutes; else the first third.
fn run(placement: Placement, disks: usize, faults: Faults, steps: u64, seed: u64) -> Machine {
    let all = std::env::var_os("ISOCAST_VOLUME_STEPS").is_some_and(|asked| asked == "all");
    let steps = if all { steps } else { steps / 3 };
    let mut machine = Machine::new(placement, disks, faults, seed);
    for _ in 0..steps {
        machine.step();
        let names: Vec<&str> = machine.volume.contents().map(|(name, _)| name).collect();
        assert!(names.iter().eq(machine.now.keys()), "the volume and the map differ");
    }
    machine.readers.clear();
    machine.commit();
    assert!(machine.volume.unbalanced().is_empty());
    assert!(machine.crashes > steps / 2, "the test crashes as often as it means to");
    machine
}

const HONEST: Faults = Faults { lying: None, failed_flush: u64::MAX };

#[test]
fn a_span_survives_a_crash_at_every_sync() {
    run(Placement::Span, 1, HONEST, 10_000, 1);
}

#[test]
fn a_stripe_survives_crashes_and_failed_flushes() {
    let machine = run(Placement::Stripe, 3, Faults { failed_flush: 50, ..HONEST }, 3_000, 2);
    assert!(machine.only_read > 0, "disks were only read {} times", machine.only_read);
}

#[test]
fn a_mirror_survives_crashes_failed_flushes_and_replaced_disks() {
    let machine = run(Placement::Mirror, 3, Faults { failed_flush: 200, ..HONEST }, 4_000, 3);
    assert!(machine.replaced > 0, "disks were replaced {} times", machine.replaced);
}

#[test]
fn a_mirror_with_a_lying_disk_loses_nothing() {
    let machine = run(Placement::Mirror, 3, Faults { lying: Some((MemberId(1), 20)), ..HONEST }, 4_000, 4);
    assert_eq!(machine.reported, 0);
}

#[test]
fn a_lying_disk_alone_is_found_out() {
    let machine = run(Placement::Span, 1, Faults { lying: Some((MemberId(0), 50)), ..HONEST }, 3_000, 5);
    assert!(machine.reported > 0, "units were lost, and it was seen");
}
