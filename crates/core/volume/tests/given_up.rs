//! Work under way when a disk is taken out: a commit that is given up, a state that is not durable yet, a copy that is not named yet.
#![allow(clippy::cast_possible_truncation, reason = "lengths of the test are small")]

use std::sync::Arc;

use crate::common::{Chance, MemoryDisk, MemoryDisks, UNIT, new_volume, payload, read_content, write_content};
use volume::{Drafts, MemberId, NewCopy, Placement, StoredContent, Upkeep, Volume, VolumeOpenError, WriteSets};

const DISK: u64 = 6 << 20;
const ONE: MemberId = MemberId(0);
const TWO: MemberId = MemberId(1);
const THREE: MemberId = MemberId(2);

struct Bench {
    volume: Volume,
    write_sets: WriteSets<&'static str>,
    disks: MemoryDisks,
}

impl Bench {
    fn new(count: usize) -> Self {
        Self::with(Placement::Mirror, count)
    }

    fn with(placement: Placement, count: usize) -> Self {
        let volume = Volume::create(new_volume(placement, vec![DISK; count])).expect("sizes are fine");
        let disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK)); count]);
        let mut bench = Self { volume, write_sets: WriteSets::new(0), disks };
        let superblocks = bench.volume.members().superblock_writes();
        bench.write_sets.write_superblocks(superblocks);
        bench.go_on();
        bench
    }

    /// A disk writes its share of the set under way, and does not tell that yet. Gives the set's number.
    fn write(&mut self, member: MemberId) -> u64 {
        let (number, writes) = self.write_sets.share(member).expect("its turn");
        writes.into_iter().for_each(|write| self.disks.write(write));
        number
    }

    /// Makes all changes durable. Gives those that waited.
    fn go_on(&mut self) -> Vec<&'static str> {
        let mut durable = Vec::new();
        self.write_sets.begin(&mut self.volume);
        while !self.write_sets.is_idle() {
            for member in [ONE, TWO, THREE] {
                if self.write_sets.is_turn_of(member) {
                    let number = self.write(member);
                    self.disks.flush(member);
                    durable.extend(self.write_sets.done(member, number, &mut self.volume));
                }
            }
            self.write_sets.begin(&mut self.volume);
        }
        durable
    }

    fn publish(&mut self, name: &'static str) {
        let mut draft = self.volume.begin(name, Some(UNIT)).expect("there is room");
        let disks = &mut self.disks;
        write_content(&mut self.volume, &mut draft, (1, UNIT, 1), |write| disks.write(write)).expect("it was promised");
        self.disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
        self.volume.publish(draft, 1).expect("nothing came between");
        self.write_sets.wait(name);
    }

    fn take_out(&mut self, member: MemberId) {
        self.write_sets.take_out(member, &mut self.volume).expect("the others have everything");
    }

    fn put_in(&mut self, member: MemberId) {
        self.disks.0[member.index()] = Some(MemoryDisk::new(DISK));
        let steps = self.volume.put_in(member, DISK).expect("the others have everything");
        self.write_sets.write_superblocks(steps);
    }

    fn content(&self, name: &str) -> Arc<StoredContent> {
        Arc::clone(self.volume.find(name).expect("it is there"))
    }
}

/// The disk's thread was in its flush when the other disk was taken out: its report came when the next commit was under way, which was
/// acknowledged before it was written.
#[test]
fn a_report_of_a_given_up_commit_counts_for_no_other() {
    let mut bench = Bench::new(2);
    bench.publish("a");
    assert_eq!(bench.write_sets.begin(&mut bench.volume), [ONE, TWO]);
    let given_up = bench.write(ONE);
    bench.disks.flush(ONE);
    bench.publish("b");
    bench.take_out(TWO);
    bench.write_sets.begin(&mut bench.volume);
    while bench.write_sets.has_superblocks() {
        assert!(bench.write_sets.done(ONE, given_up, &mut bench.volume).is_empty());
        let number = bench.write(ONE);
        bench.disks.flush(ONE);
        assert!(bench.write_sets.done(ONE, number, &mut bench.volume).is_empty());
        bench.write_sets.begin(&mut bench.volume);
    }
    assert!(
        bench.write_sets.done(ONE, given_up, &mut bench.volume).is_empty(),
        "nothing of the next commit is written"
    );
    assert!(bench.write_sets.is_turn_of(ONE));
    assert_eq!(bench.go_on(), ["a", "b"]);
    let volume = bench.disks.open().expect("all is durable");
    assert!(volume.find("a").is_some() && volume.find("b").is_some());
}

/// A checkpoint goes to the half of the journal that is not in use. A checkpoint that is given up before it is written leaves the other
/// half in use.
#[test]
fn a_checkpoint_in_the_place_of_one_that_was_given_up_does_not_go_over_the_state_that_is_durable() {
    let mut bench = Bench::new(2);
    bench.publish("a");
    // A checkpoint of several blocks, which can be torn.
    for number in 0..20 {
        let draft = bench.volume.begin(&format!("{number}{}", "x".repeat(900)), Some(0)).expect("it needs no room");
        bench.volume.publish(draft, 1).expect("nothing came between");
    }
    bench.go_on();
    bench.take_out(TWO);
    bench.publish("b");
    assert_eq!(bench.go_on(), ["b"]);
    bench.put_in(TWO);
    bench.write_sets.begin(&mut bench.volume);
    while bench.write_sets.has_superblocks() {
        for member in [ONE, TWO].into_iter().filter(|member| bench.write_sets.is_turn_of(*member)).collect::<Vec<_>>() {
            let number = bench.write(member);
            bench.disks.flush(member);
            bench.write_sets.done(member, number, &mut bench.volume);
        }
        bench.write_sets.begin(&mut bench.volume);
    }
    assert!(bench.write_sets.is_turn_of(ONE), "the checkpoint is under way");
    bench.volume.remove("a").expect("it is there");
    bench.take_out(TWO);
    bench.write_sets.begin(&mut bench.volume);
    while bench.write_sets.has_superblocks() {
        let number = bench.write(ONE);
        bench.disks.flush(ONE);
        bench.write_sets.done(ONE, number, &mut bench.volume);
        bench.write_sets.begin(&mut bench.volume);
    }
    bench.write(ONE);
    for seed in 0..100 {
        let mut disks = bench.disks.clone();
        disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut Chance::new(seed)));
        let volume = disks.open().expect("a power cut leaves a state");
        assert!(volume.find("b").is_some(), "seed {seed}");
    }
}

#[test]
fn nothing_relies_on_a_disk_that_was_filled_before_a_superblock_says_so() {
    let mut bench = Bench::new(2);
    bench.take_out(TWO);
    bench.put_in(TWO);
    bench.go_on();
    let steps = bench.volume.filled(TWO);
    bench.write_sets.write_superblocks(steps);
    assert!(!bench.volume.is_readable(TWO) && !bench.volume.keeps_all_without(ONE));
    bench.go_on();
    assert!(bench.volume.is_readable(TWO) && bench.volume.keeps_all_without(ONE));
}

#[test]
fn a_disk_counts_until_its_removals_are_durable() {
    let mut bench = Bench::new(3);
    bench.publish("a");
    bench.go_on();
    let [first, second] = bench.content("a").parts[0].places().map(|place| place.member).collect::<Vec<_>>()[..] else {
        panic!("a mirror has two copies")
    };
    bench.take_out(first);
    bench.go_on();
    bench.volume.remove("a").expect("it is there");
    assert!(!bench.volume.keeps_all_without(second), "a power cut now brings it back");
    bench.go_on();
    assert!(bench.volume.keeps_all_without(second));
}

/// A copy that was made on a disk, and not named yet, went with the disk, and the copy that it took the place of was free.
#[test]
fn a_copy_on_a_disk_that_was_taken_out_takes_the_place_of_none() {
    let mut bench = Bench::new(3);
    bench.publish("a");
    bench.go_on();
    let (content, mut news) = (bench.content("a"), Vec::<NewCopy>::new());
    let from = content.parts[0].first.member;
    bench.volume.begin_drain(from).expect("two are left");
    for part in 0..content.parts.len() as u32 {
        let tasks = bench.volume.copies_to_look_after(Upkeep::Drain(from), "a", &content, part);
        news.extend(tasks.expect("there is room").into_iter().filter_map(|task| task.new_copy));
    }
    let to = news[0].to.member;
    bench.take_out(to);
    assert_eq!(bench.volume.take_copies("a", &content, &news), Ok(true));
    bench.volume.end_upkeep();
    drop(content);
    bench.go_on();
    bench.disks.0[to.index()] = None;
    let volume = bench.disks.open().expect("two of three are there");
    assert!(volume.unbalanced().is_empty());
    let content = Arc::clone(volume.find("a").expect("it is there"));
    assert!(content.parts[0].places().all(|place| place.member != to));
    assert_eq!(read_content(&volume, &content, &mut bench.disks), Some(payload(1, 0, UNIT)));
}

/// An upload that lasts longer than a disk is away: the disk that comes in its place does not have the bytes written to the other one.
#[test]
fn the_disk_that_comes_has_nothing_of_an_upload_that_was_written_to_the_one_before() {
    let mut bench = Bench::new(2);
    let mut draft = bench.volume.begin("a", Some(UNIT)).expect("there is room");
    let disks = &mut bench.disks;
    write_content(&mut bench.volume, &mut draft, (1, UNIT, 1), |write| disks.write(write)).expect("it was promised");
    bench.disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
    bench.take_out(TWO);
    assert_eq!(bench.volume.leave_out(&mut draft, TWO), Ok(0));
    bench.put_in(TWO);
    bench.go_on();
    let steps = bench.volume.filled(TWO);
    bench.write_sets.write_superblocks(steps);
    bench.go_on();
    let content = bench.volume.publish(draft, 1).expect("the other copy is there");
    assert!(content.parts.iter().flat_map(volume::StoredPart::places).all(|place| place.member == ONE));
    assert!(bench.volume.unbalanced().is_empty());
}

/// The disk's thread was in its flush when the disk was taken out.
#[test]
fn the_report_of_a_disk_that_was_left_out_says_nothing_of_an_upload() {
    let mut bench = Bench::new(2);
    let mut drafts: Drafts<(), ()> = Drafts::default();
    let draft = bench.volume.begin("a", None).expect("there is room");
    let number = drafts.begin(draft, true, ());
    drafts.receive(number, &(), &payload(1, 0, 4096), &mut bench.volume).expect("there is room");
    bench.take_out(TWO);
    assert!(drafts.leave_out(TWO, 0, &mut bench.volume).is_empty(), "it continues with its other copy");
    assert_eq!(drafts.made_durable(number, (TWO, 4096), 1, &mut bench.volume), Ok(false));
    assert_eq!(drafts.made_durable(number, (ONE, 4096), 1, &mut bench.volume), Ok(true));
}

/// One disk made the bytes durable while the other hung: they are as durable as they can be once that is out.
#[test]
fn bytes_that_only_a_disk_that_was_left_out_had_not_written_are_entered() {
    let mut bench = Bench::new(2);
    let mut drafts: Drafts<(), ()> = Drafts::default();
    let draft = bench.volume.begin("a", None).expect("there is room");
    let number = drafts.begin(draft, true, ());
    drafts.receive(number, &(), &payload(1, 0, 4096), &mut bench.volume).expect("there is room");
    assert_eq!(drafts.made_durable(number, (ONE, 4096), 1, &mut bench.volume), Ok(false), "the other hangs");
    bench.go_on();
    assert!(bench.volume.commit().is_none(), "nothing is to be recorded yet");
    bench.take_out(TWO);
    bench.go_on();
    assert!(drafts.leave_out(TWO, 2, &mut bench.volume).is_empty());
    assert!(bench.volume.commit().is_some(), "the journal records the bytes");
}

#[test]
fn a_disk_stays_where_no_other_takes_the_journal() {
    let mut bench = Bench::with(Placement::Span, 2);
    bench.go_on();
    assert!(bench.volume.members().may_leave(TWO));
    bench.publish("a");
    bench.go_on();
    bench.take_out(ONE);
    bench.go_on();
    assert!(!bench.volume.members().may_leave(TWO), "the other is only read");
}

/// The superblocks that a disk left are durable before the journal lies elsewhere.
#[test]
fn the_disk_with_the_only_durable_journal_stays() {
    let mut bench = Bench::with(Placement::Span, 3);
    bench.go_on();
    bench.take_out(ONE);
    bench.go_on();
    assert!(bench.volume.members().may_leave(TWO), "the third could take the journal");
    assert!(bench.volume.leave(TWO).is_err());
    assert!(bench.volume.leave(ONE).is_ok());
}

#[test]
fn every_part_has_a_copy_that_can_be_read_while_disks_are_being_filled() {
    let mut bench = Bench::new(3);
    for member in [ONE, TWO] {
        bench.take_out(member);
        bench.put_in(member);
        bench.go_on();
    }
    for name in ["a", "b", "c", "d"] {
        bench.publish(name);
        let readable = |place: volume::UnitPlace| bench.volume.is_readable(place.member);
        assert!(bench.content(name).parts.iter().all(|part| part.places().any(readable)), "`{name}`");
    }
}

#[test]
fn a_superblock_on_a_larger_disk_survives_a_power_cut() {
    let mut bench = Bench::new(2);
    bench.take_out(TWO);
    let size = DISK + (3 << 20);
    bench.disks.0[1] = Some(MemoryDisk::new(size));
    let steps = bench.volume.put_in(TWO, size).expect("it is larger");
    bench.write_sets.write_superblocks(steps);
    bench.go_on();
    let [one, _] = bench.volume.filled(TWO);
    one.iter().for_each(|write| bench.disks.write(write));
    bench.disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
    assert!(bench.disks.open().is_ok(), "two copies of each disk are old, two are new");
}

/// Two power cuts in a row, each in a change of the superblocks: the superblocks that the first one left half written are mended first.
#[test]
fn a_superblock_that_a_power_cut_left_half_written_survives_the_next_one() {
    let mut disks = Bench::new(2).disks;
    let change = |disks: &mut MemoryDisks, folder: &str| {
        let identified = volume::identify(&[DISK; 2], disks).expect("a power cut leaves a superblock");
        let mut volume = volume::open(&identified, disks).expect("nothing else was changed");
        for step in identified.even_superblocks(volume.members()) {
            step.iter().for_each(|write| disks.write(write));
            disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
        }
        let [one, _] = volume.set_folder_layout(folder, Some(Placement::Span)).expect("there is room");
        one.iter().for_each(|write| disks.write(write));
    };
    change(&mut disks, "first");
    disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
    change(&mut disks, "second");
    for seed in 0..100 {
        let mut disks = disks.clone();
        disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut Chance::new(seed)));
        let identified = volume::identify(&[DISK; 2], &mut disks).expect("a power cut leaves a superblock");
        assert_eq!(identified.superblock.folders[0].0, "first", "seed {seed}");
    }
}

/// A disk of a stripe takes no more writes: a recording has the rest on the other one, also of the unit it was at.
#[test]
fn a_recording_leaves_a_read_only_disk_and_counts_damage() {
    let length = 5 * UNIT + UNIT / 2;
    for fails in [ONE, TWO] {
        let mut bench = Bench::with(Placement::Stripe, 2);
        let mut draft = bench.volume.begin("a", None).expect("there is room");
        let (mut written, mut taken) = (0, None);
        while written < length {
            let (headers, room) = bench.volume.room(&mut draft).expect("there is room");
            headers.iter().for_each(|header| bench.disks.write(header));
            let bytes = payload(1, written, room.min(UNIT / 4));
            for (member, position) in draft.add(bench.volume.members(), &bytes) {
                assert!(taken.is_none() || member != fails, "it is only read");
                bench.disks.write(&volume::DiskWrite { member, position, bytes: bytes.clone() });
                // In the middle of a unit on that disk: no other disk has the bytes in the unit so far.
                if taken.is_none() && member == fails && written > 2 * UNIT && room == UNIT / 2 {
                    bench.take_out(fails);
                    taken = Some(bench.volume.leave_out(&mut draft, fails).expect("it goes on"));
                }
            }
            written += bytes.len() as u64;
        }
        let tail = draft.tail();
        bench.volume.room(&mut draft).expect("there is room");
        for (member, position) in draft.add(bench.volume.members(), &tail) {
            bench.disks.write(&volume::DiskWrite { member, position, bytes: crate::common::padded(tail.clone()) });
        }
        draft.end(bench.volume.members(), 1).iter().for_each(|header| bench.disks.write(header));
        bench.disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
        bench.volume.publish(draft, 1).expect("nothing came between");
        bench.write_sets.wait("a");
        assert_eq!(bench.go_on(), ["a"]);
        // A whole unit before, and three quarters of its current one.
        assert_eq!(taken, Some(UNIT + UNIT / 4 * 3));
        let volume = bench.disks.open().expect("the journal is on the other disk");
        assert!(volume.unbalanced().is_empty() && volume.is_writable(fails), "a start tries it again");
        let content = volume.find("a").cloned().expect("it is there");
        let right = |part: u32| crate::common::read_part(&volume, &content, part, &mut bench.disks.clone()).is_ok();
        let wrong: Vec<u32> = (0..content.parts.len() as u32).filter(|part| !right(*part)).collect();
        assert_eq!(wrong.len(), 1, "the unit that it was at: {wrong:?}");
        assert!(content.parts[wrong[0] as usize].first.member != fails);
    }
}

/// Of two disks with the journal one is only read: the other one has the only durable state.
#[test]
fn a_stripe_takes_no_changes_when_no_disk_with_its_journal_is_left() {
    let mut bench = Bench::with(Placement::Stripe, 3);
    bench.publish("a");
    bench.go_on();
    bench.take_out(ONE);
    bench.publish("b");
    assert_eq!(bench.go_on(), ["b"]);
    bench.take_out(THREE);
    bench.publish("c");
    assert_eq!(bench.go_on(), ["c"]);
    assert!(bench.write_sets.take_out(TWO, &mut bench.volume).is_err() && bench.volume.is_read_only());
    let volume = bench.disks.open().expect("all disks are there");
    assert!(["a", "b", "c"].iter().all(|name| volume.find(name).is_some()));
}

/// Both disks of a mirror lose their power, one after the other: that the first one is out is on no disk, though nothing is to be written.
#[test]
fn a_generation_that_was_given_up_is_not_durable() {
    let mut bench = Bench::new(2);
    let before = bench.write_sets.durable_generation();
    assert_eq!(before, bench.volume.superblock().generation);
    bench.take_out(ONE);
    bench.write_sets.begin(&mut bench.volume);
    assert!(bench.write_sets.take_out(TWO, &mut bench.volume).is_err(), "nothing is left");
    assert!(!bench.write_sets.has_superblocks() && bench.volume.superblock().generation > before);
    assert_eq!(bench.write_sets.durable_generation(), before);
    let found = bench.disks.open().expect("both are there again");
    assert!(found.superblock().generation >= bench.write_sets.durable_generation());
    // With one disk that stays it is.
    let mut bench = Bench::new(2);
    bench.take_out(ONE);
    bench.go_on();
    assert_eq!(bench.write_sets.durable_generation(), bench.volume.superblock().generation);
}

/// The power of a second disk of three goes after the superblocks said that the first one is out, and before the third one has the journal:
/// all acknowledged contents are found whole on any of the disks that are there again, or a copy is missed, or the catalogue is, or the
/// disks are known to be out of date.
#[test]
fn of_two_disks_that_fail_between_superblocks_and_checkpoint_nothing_is_lost_silently() {
    let pairs = [(ONE, TWO), (ONE, THREE), (TWO, ONE), (TWO, THREE), (THREE, ONE), (THREE, TWO)];
    for ((first, second), sets, seed) in
        pairs.into_iter().flat_map(|pair| (0..3).flat_map(move |sets| (0..20).map(move |seed| (pair, sets, seed))))
    {
        let what = format!("{first:?}, {second:?}, {sets} sets, seed {seed}");
        let mut bench = Bench::new(3);
        let mut acknowledged = Vec::new();
        for name in ["a", "b", "c"] {
            bench.publish(name);
            acknowledged.extend(bench.go_on());
        }
        bench.publish("d");
        bench.take_out(first);
        bench.write_sets.begin(&mut bench.volume);
        for _ in 0..sets {
            for member in [ONE, TWO, THREE].into_iter().filter(|member| *member != first) {
                if bench.write_sets.is_turn_of(member) {
                    let number = bench.write(member);
                    bench.disks.flush(member);
                    acknowledged.extend(bench.write_sets.done(member, number, &mut bench.volume));
                }
            }
            bench.write_sets.begin(&mut bench.volume);
        }
        assert_eq!(acknowledged, ["a", "b", "c"], "{what}");
        // Each may have any of its next writes.
        for member in
            [ONE, TWO, THREE].into_iter().filter(|member| bench.write_sets.is_turn_of(*member)).collect::<Vec<_>>()
        {
            bench.write(member);
        }
        let mut chance = Chance::new(seed);
        bench.disks.0[second.index()].as_mut().expect("it was there").crash(&mut chance);
        if bench.write_sets.take_out(second, &mut bench.volume).is_ok() {
            acknowledged.extend(bench.go_on());
        }
        bench.disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut chance));
        for there in 1..8_usize {
            let mut disks = bench.disks.clone();
            let gone = (0..3).filter(|number| there >> number & 1 == 0).collect::<Vec<_>>();
            gone.iter().for_each(|number| disks.0[*number] = None);
            let volume = match disks.open() {
                Ok(volume) => volume,
                Err(error) => {
                    assert!(matches!(error, VolumeOpenError::CatalogueMissing(_)), "{what}, {there:b}: {error}");
                    assert!(!gone.is_empty(), "{what}: all disks are there");
                    continue;
                }
            };
            // A disk that was taken out does not know that: a server does, by the generation that it has seen.
            if volume.superblock().generation < bench.write_sets.durable_generation() {
                assert_eq!(there, 1 << first.index(), "{what}, {there:b}");
                continue;
            }
            for name in &acknowledged {
                let content = Arc::clone(volume.find(name).unwrap_or_else(|| panic!("{what}, {there:b}: no `{name}`")));
                let is_there = |place: volume::UnitPlace| disks.0[place.member.index()].is_some();
                let whole = content.parts.iter().all(|part| part.places().any(is_there));
                let read = read_content(&volume, &content, &mut disks);
                assert_eq!(read, whole.then(|| payload(1, 0, UNIT)), "{what}, {there:b}: `{name}`");
            }
        }
    }
}

/// The full unit was sealed before it was known that there is none behind it: its header was lost when there was room again.
#[test]
fn a_draft_that_finds_no_room_can_try_again() {
    let Bench { mut volume, .. } = Bench::with(Placement::Span, 1);
    let fill = |volume: &mut Volume, draft: &mut volume::Draft| {
        let headers = volume.room(draft)?.0;
        draft.add(volume.members(), &payload(1, 0, UNIT));
        Ok::<_, volume::VolumeError>(headers)
    };
    let [mut draft, mut other] = ["a", "b"].map(|name| volume.begin(name, None).expect("there is room"));
    fill(&mut volume, &mut draft).expect("there is room");
    while fill(&mut volume, &mut other).is_ok() {}
    assert_eq!(fill(&mut volume, &mut draft), Err(volume::VolumeError::Full));
    volume.abandon(other);
    assert_eq!(fill(&mut volume, &mut draft).expect("there is room again").len(), 1, "the header of the first unit");
}
