//! Disks that come and leave: a crash at any moment leaves every content whole.
#![allow(clippy::cast_possible_truncation, reason = "lengths of the test are small")]

use std::sync::Arc;

use crate::common::{
    Chance, MemoryDisk, MemoryDisks, UNIT, new_volume, padded, payload, read_content, read_part, write_content,
};
use volume::{Checksums, DiskWrite, MemberId, Placement, StoredContent, Upkeep, Volume};

const DISK: u64 = 6 << 20;
const NAMES: [(&str, u64, u64); 3] = [("a", 11, 5 * UNIT + 5_000), ("b/c", 22, 8_000), ("b/d", 33, 3 * UNIT)];

/// Disks that lose their power when they are flushed for the last time.
struct Bench {
    disks: MemoryDisks,
    flushes_left: usize,
    chance: Chance,
}

/// The power is gone.
struct Crashed;

impl Bench {
    fn flush(&mut self) -> Result<(), Crashed> {
        if self.flushes_left == 0 {
            self.disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut self.chance));
            return Err(Crashed);
        }
        self.flushes_left -= 1;
        self.disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
        Ok(())
    }

    fn write(&mut self, writes: &[DiskWrite]) {
        writes.iter().for_each(|write| self.disks.write(write));
    }

    fn commit(&mut self, volume: &mut Volume) -> Result<(), Crashed> {
        while let Some(commit) = volume.commit() {
            self.flush()?;
            self.write(&commit.writes);
            self.flush()?;
            volume.committed(Ok(()));
        }
        Ok(())
    }

    fn steps(&mut self, steps: &[Vec<DiskWrite>]) -> Result<(), Crashed> {
        steps.iter().try_for_each(|step| {
            self.write(step);
            self.flush()
        })
    }

    fn add(&mut self, volume: &mut Volume) -> Result<MemberId, Crashed> {
        let (member, steps) = volume.add_disk(DISK).expect("there is room for a number");
        self.steps(&steps)?;
        self.commit(volume)?;
        Ok(member)
    }

    fn remove(&mut self, volume: &mut Volume, member: MemberId) -> Result<(), Crashed> {
        let contents: Vec<(String, Arc<StoredContent>)> =
            volume.contents().map(|(name, content)| (name.to_owned(), Arc::clone(content))).collect();
        for (name, content) in contents {
            let mut copies = Vec::new();
            for (part, stored) in (0u32..).zip(&content.parts) {
                let tasks = volume.copies_to_look_after(Upkeep::Drain(member), &name, &content, part);
                for task in tasks.expect("there is room") {
                    let to = task.target;
                    let bytes = read_part(volume, &content, part, &mut self.disks).expect("it is whole");
                    assert!(stored.places().all(|other| other.member != to.member), "not beside the other copy");
                    let mut checksums = Checksums::default();
                    checksums.add(&bytes);
                    let mend = volume.members().mend(&name, &content, part, to, checksums.finish());
                    let (member, position) = mend.payload;
                    self.write(&[DiskWrite { member, position, bytes: padded(bytes) }, mend.header]);
                    copies.extend(task.new_copy);
                }
            }
            assert_eq!(volume.take_copies(&name, &content, &copies), Ok(true), "it has the name");
            self.commit(volume)?;
        }
        let steps = volume.leave(member).expect("nothing is on it");
        self.steps(&steps)?;
        self.commit(volume)
    }

    fn check(&mut self, volume: &Volume, what: &str) {
        assert!(volume.unbalanced().is_empty(), "{what}");
        for (name, seed, length) in NAMES {
            let content = Arc::clone(volume.find(name).unwrap_or_else(|| panic!("{what}: `{name}`")));
            let bytes = read_content(volume, &content, &mut self.disks);
            assert!(bytes.is_some_and(|bytes| bytes == payload(seed, 0, length)), "{what}: `{name}`");
        }
    }
}

#[test]
fn a_disk_that_comes_under_the_number_of_one_that_failed_is_written_to() {
    let failed = MemberId(0);
    let mut volume = Volume::create(new_volume(Placement::Span, vec![DISK; 2])).expect("sizes are fine");
    let disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK)); 2]);
    let mut bench = Bench { disks, flushes_left: usize::MAX, chance: Chance::new(1) };
    let steps = volume.members().superblock_writes();
    assert!(bench.commit(&mut volume).and_then(|()| bench.steps(&steps)).is_ok());
    volume.take_out(failed).expect("the other one has the journal");
    assert!(volume.is_readable(failed) && !volume.is_writable(failed), "its contents are the only copies");
    assert!(bench.commit(&mut volume).and_then(|()| bench.remove(&mut volume, failed)).is_ok());
    bench.disks.0[0] = Some(MemoryDisk::new(DISK));
    assert!(matches!(bench.add(&mut volume), Ok(added) if added == failed), "the free number");
    assert!(volume.is_writable(failed));
    assert!(bench.disks.open().expect("both have a superblock").is_writable(failed));
}

/// Adds a third disk and takes the first out, with a crash at one flush; then all of it again.
fn with_crash_at(placement: Placement, crash_at: usize) -> bool {
    let mut volume = Volume::create(new_volume(placement, vec![DISK; 2])).expect("sizes are fine");
    let disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK)); 3]);
    let mut bench = Bench { disks, flushes_left: usize::MAX, chance: Chance::new(crash_at as u64) };
    let steps = volume.members().superblock_writes();
    let made = bench.commit(&mut volume).and_then(|()| bench.steps(&steps));
    assert!(made.is_ok(), "no crash yet");
    for (name, seed, length) in NAMES {
        let mut draft = volume.begin(name, Some(length)).expect("there is room");
        let mut writes = Vec::new();
        let written = write_content(&mut volume, &mut draft, (seed, length, 1), |write| writes.push(write.clone()));
        written.expect("room was promised");
        bench.write(&writes);
        volume.publish(draft, 1).expect("nothing came between");
    }
    assert!(bench.commit(&mut volume).is_ok(), "no crash yet");
    bench.flushes_left = crash_at;
    let first = MemberId(0);
    let outcome = bench.add(&mut volume).and_then(|_| bench.remove(&mut volume, first));
    let crashed = outcome.is_err();
    bench.flushes_left = usize::MAX;
    // A disk that is not of the volume is not given.
    let there = |disks: &MemoryDisks, number: usize| {
        let disk = disks.0[number].clone();
        volume::identify(&[DISK], &mut MemoryDisks(vec![disk])).is_ok()
    };
    for number in 0..3 {
        if !there(&bench.disks, number) {
            bench.disks.0[number] = None;
        }
    }
    let mut volume = bench.disks.open().expect("a crash leaves a state");
    bench.check(&volume, &format!("{placement:?}, crash at {crash_at}"));
    if volume.members().unit_count(MemberId(2)) == 0 {
        bench.disks.0[2] = Some(MemoryDisk::new(DISK));
        assert!(bench.add(&mut volume).is_ok());
    }
    if !volume.has_left(first) {
        assert!(bench.remove(&mut volume, first).is_ok());
    }
    bench.disks.0[0] = None;
    let volume = bench.disks.open().expect("the first is not needed");
    bench.check(&volume, &format!("{placement:?}, after the crash at {crash_at}"));
    crashed
}

#[test]
fn a_disk_that_comes_and_one_that_leaves_cost_no_content_whenever_the_power_goes() {
    for placement in [Placement::Span, Placement::Stripe, Placement::Mirror] {
        let crashes = (0..40).take_while(|crash_at| with_crash_at(placement, *crash_at)).count();
        assert!((8..40).contains(&crashes), "{placement:?}: at each of {crashes} flushes");
    }
}

#[test]
fn a_reader_keeps_the_units_that_moved_since_it_began() {
    let mut volume = Volume::create(new_volume(Placement::Stripe, vec![DISK; 3])).expect("sizes are fine");
    let mut bench = Bench {
        disks: MemoryDisks(vec![Some(MemoryDisk::new(DISK)); 3]),
        flushes_left: usize::MAX,
        chance: Chance::new(1),
    };
    assert!(bench.commit(&mut volume).is_ok());
    let mut draft = volume.begin("a", Some(5 * UNIT)).expect("there is room");
    let mut writes = Vec::new();
    let written = write_content(&mut volume, &mut draft, (11, 5 * UNIT, 1), |write| writes.push(write.clone()));
    written.expect("room was promised");
    bench.write(&writes);
    let reader = volume.publish(draft, 1).expect("nothing came between");
    assert!(bench.commit(&mut volume).is_ok());
    let free = |volume: &Volume| volume.free_counts().into_iter().flatten().sum::<u64>();
    let before = free(&volume);
    let mut moved = 0;
    for member in [0, 1, 2] {
        let content = Arc::clone(volume.find("a").expect("it is there"));
        let mut copies = Vec::new();
        for part in 0..content.parts.len() as u32 {
            let tasks = volume.copies_to_look_after(Upkeep::Drain(MemberId(member)), "a", &content, part);
            copies.extend(tasks.expect("there is room").into_iter().filter_map(|task| task.new_copy));
        }
        moved += copies.len() as u64;
        assert_eq!(volume.take_copies("a", &content, &copies), Ok(true));
        drop(content);
        assert!(bench.commit(&mut volume).is_ok());
        assert_eq!(free(&volume), before - moved, "the reader may still read where it lay");
    }
    drop(reader);
    // With any commit that follows.
    volume.remove("a").expect("it is there");
    assert!(bench.commit(&mut volume).is_ok());
    assert!(volume.unbalanced().is_empty());
    assert_eq!(free(&volume), before + 6);
}

#[test]
fn a_disk_takes_the_place_of_one_left_under_a_reader() {
    let mut volume = Volume::create(new_volume(Placement::Span, vec![DISK; 2])).expect("sizes are fine");
    let mut bench = Bench {
        disks: MemoryDisks(vec![Some(MemoryDisk::new(DISK)); 2]),
        flushes_left: usize::MAX,
        chance: Chance::new(1),
    };
    assert!(bench.commit(&mut volume).is_ok());
    let mut draft = volume.begin("a", Some(5 * UNIT)).expect("there is room");
    let mut writes = Vec::new();
    let written = write_content(&mut volume, &mut draft, (11, 5 * UNIT, 1), |write| writes.push(write.clone()));
    written.expect("room was promised");
    bench.write(&writes);
    let reader = volume.publish(draft, 1).expect("nothing came between");
    assert!(bench.commit(&mut volume).is_ok());
    let member = reader.parts[0].places().next().expect("a place").member;
    assert!(bench.remove(&mut volume, member).is_ok());
    bench.disks.0[member.index()] = Some(MemoryDisk::new(DISK));
    assert_eq!(bench.add(&mut volume).ok(), Some(member));
    let units = u64::from(volume.members().unit_count(member));
    drop(reader);
    volume.remove("a").expect("it is there");
    assert!(bench.commit(&mut volume).is_ok());
    assert!(volume.unbalanced().is_empty());
    assert_eq!(volume.free_counts()[member.index()], Some(units));
}

#[test]
fn a_disk_that_failed_before_a_content_lay_on_it_is_out_and_comes_back() {
    let mut volume = Volume::create(new_volume(Placement::Mirror, vec![DISK; 3])).expect("sizes are fine");
    let mut bench = Bench {
        disks: MemoryDisks(vec![Some(MemoryDisk::new(DISK)); 3]),
        flushes_left: usize::MAX,
        chance: Chance::new(1),
    };
    assert!(bench.commit(&mut volume).is_ok());
    let (failed, removed) = (MemberId(1), MemberId(2));
    let steps = volume.take_out(failed).expect("nothing lies on it");
    assert!(bench.steps(&steps).and_then(|()| bench.commit(&mut volume)).is_ok());
    bench.disks.0[1] = None;
    let mut volume = bench.disks.open().expect("the others have everything");
    assert!(volume.taken_out().eq([failed]) && !volume.has_left(failed));
    assert_eq!(volume.next_member(), Some(MemberId(3)), "its number is its own");
    let steps = volume.put_in(failed, DISK).expect("it may come back");
    bench.disks.0[1] = Some(MemoryDisk::new(DISK));
    assert!(bench.steps(&steps).and_then(|()| bench.commit(&mut volume)).is_ok());
    let steps = volume.filled(failed);
    assert!(bench.steps(&steps).is_ok());
    volume.superblocks_durable();
    // A removed disk is not missed.
    assert!(bench.remove(&mut volume, removed).is_ok());
    bench.disks.0[2] = None;
    let volume = bench.disks.open().expect("all that are left are there");
    assert!(volume.taken_out().next().is_none() && volume.has_left(removed));
    assert_eq!(volume.next_member(), Some(removed));
}

#[test]
fn most_read_contents_get_the_outer_zones() {
    for placement in [Placement::Span, Placement::Stripe, Placement::Mirror] {
        let count = if placement == Placement::Span { 1 } else { 2 };
        let mut volume = Volume::create(new_volume(placement, vec![DISK; count])).expect("sizes are fine");
        let mut bench = Bench {
            disks: MemoryDisks(vec![Some(MemoryDisk::new(DISK)); count]),
            flushes_left: usize::MAX,
            chance: Chance::new(1),
        };
        let steps = volume.members().superblock_writes();
        assert!(bench.commit(&mut volume).and_then(|()| bench.steps(&steps)).is_ok());
        // Each as long as an eighth of the volume, seven of them: some lie in the inner half.
        let units = volume.free_bytes() / UNIT / 8;
        let length = (units - 1) * UNIT;
        for number in 0..7u64 {
            let mut draft = volume.begin(&number.to_string(), Some(length)).expect("there is room");
            let mut writes = Vec::new();
            let written =
                write_content(&mut volume, &mut draft, (number, length, 1), |write| writes.push(write.clone()));
            written.expect("room was promised");
            bench.write(&writes);
            volume.publish(draft, 1).expect("nothing came between");
            assert!(bench.commit(&mut volume).is_ok());
        }
        let outer = |volume: &Volume, name: &str| {
            let parts = &volume.find(name).expect("it is there").parts;
            parts
                .iter()
                .filter(|part| part.first.unit < volume.members().unit_count(part.first.member).div_ceil(2))
                .count()
                == parts.len()
        };
        let mut counts = volume::ReadCounts::default();
        assert!(volume.zone_moves(&counts).is_empty(), "nothing was read");
        for (name, bytes) in [("6", 1_000), ("5", 900), ("0", 700)] {
            counts.add(name, bytes, volume.members().outer_bytes());
        }
        let (mut rounds, before) = (0, volume.free_bytes());
        loop {
            let moves = volume.zone_moves(&counts);
            if moves.is_empty() {
                break;
            }
            rounds += 1;
            assert!(rounds < 8, "it comes to an end: {moves:?}");
            for volume::ZoneMove { name, upkeep } in moves {
                let content = Arc::clone(volume.find(&name).expect("it is there"));
                let mut copies = Vec::new();
                for part in 0..content.parts.len() as u32 {
                    let tasks =
                        volume.copies_to_look_after(upkeep, &name, &content, part).expect("room is no condition");
                    for task in tasks {
                        let bytes = read_part(&volume, &content, part, &mut bench.disks).expect("it is whole");
                        let mut checksums = Checksums::default();
                        checksums.add(&bytes);
                        let mend = volume.members().mend(&name, &content, part, task.target, checksums.finish());
                        let (member, position) = mend.payload;
                        bench.write(&[DiskWrite { member, position, bytes: padded(bytes) }, mend.header]);
                        copies.extend(task.new_copy);
                    }
                }
                assert_eq!(volume.take_copies(&name, &content, &copies), Ok(true));
                drop(content);
                assert!(bench.commit(&mut volume).is_ok());
            }
        }
        assert!(["6", "5", "0"].into_iter().all(|name| outer(&volume, name)), "{placement:?}");
        assert!(rounds > 0 || placement == Placement::Mirror, "first copies of a mirror lie there already");
        let volume = bench.disks.open().expect("all is durable");
        assert!(volume.unbalanced().is_empty() && volume.free_bytes() == before);
        for number in 0..7u64 {
            let content = Arc::clone(volume.find(&number.to_string()).expect("it is there"));
            let bytes = read_content(&volume, &content, &mut bench.disks);
            assert!(bytes.is_some_and(|bytes| bytes == payload(number, 0, length)), "{placement:?}: {number}");
        }
    }
}
