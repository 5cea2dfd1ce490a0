//! Ageing: contents stay together however often a nearly full volume is replaced.
#![allow(clippy::cast_possible_truncation, reason = "lengths of the test are small")]

use crate::common::{Chance, UNIT, new_volume};
use volume::{Draft, Placement, StoredContent, Volume};

const DISK: u64 = 96 << 20;
const TURNS: u64 = 10;
/// Parts of the largest content; as many sizes lie in each doubling.
const DOUBLINGS: u64 = 4;

struct AgedVolume {
    volume: Volume,
    chance: Chance,
    kept: Vec<(String, u64)>,
    is_length_known: bool,
    written: u64,
}

/// Bytes of a content of this number of parts, with its tail.
fn bytes_of(parts: u64) -> u64 {
    parts * UNIT - UNIT / 2
}

/// The number of places of its first copies on all disks.
fn stretches(content: &StoredContent, disks: usize) -> u64 {
    let mut last: Vec<Option<u32>> = vec![None; disks];
    let begins = content.parts.iter().filter(|part| {
        let behind = last[part.first.member.index()].replace(part.first.unit + 1);
        behind != Some(part.first.unit)
    });
    begins.count() as u64
}

impl AgedVolume {
    fn new(placement: Placement, disks: usize, is_length_known: bool) -> Self {
        let mut volume = Volume::create(new_volume(placement, vec![DISK; disks])).expect("sizes are fine");
        while volume.commit().is_some() {
            volume.committed(Ok(()));
        }
        Self { volume, chance: Chance::new(5), kept: Vec::new(), is_length_known, written: 0 }
    }

    fn draw(&mut self) -> u64 {
        let least = 1 << self.chance.below(DOUBLINGS);
        least + self.chance.below(least)
    }

    /// Two contents that come at the same time, part by part.
    fn write(&mut self, parts: [u64; 2]) {
        let mut drafts = parts.map(|parts| {
            self.written += parts;
            let (name, length) = (format!("{:06}", self.written), bytes_of(parts));
            self.kept.push((name.clone(), parts));
            (self.volume.begin(&name, self.is_length_known.then_some(length)).expect("there is room"), length)
        });
        while drafts.iter().any(|(draft, length)| draft.length() < *length) {
            for (draft, length) in &mut drafts {
                let left = *length - draft.length();
                if left > 0 {
                    self.add(draft, left);
                }
            }
        }
        for (mut draft, _) in drafts {
            let tail = draft.tail();
            assert!(self.volume.room(&mut draft).expect("room was kept").1 >= tail.len() as u64);
            draft.add(self.volume.members(), &tail);
            draft.end(self.volume.members(), 0);
            self.volume.publish(draft, 0).expect("nothing came between");
        }
    }

    fn add(&mut self, draft: &mut Draft, left: u64) {
        let (_, room) = self.volume.room(draft).expect("there is room");
        draft.add(self.volume.members(), &vec![0; room.min(left) as usize]);
    }

    /// Stretches of all contents, for each content.
    fn stretches(&self) -> f64 {
        let disks = self.volume.superblock().members.len();
        let all: u64 = self.volume.contents().map(|(_, content)| stretches(content, disks)).sum();
        all as f64 / self.volume.len() as f64
    }

    /// Replaces everything [`TURNS`] times at 90 % full; gives the stretches before and after.
    fn age(&mut self) -> [f64; 2] {
        let room = self.volume.free_bytes() / UNIT * 9 / 10;
        let mut fresh = None;
        while self.written < (1 + TURNS) * room {
            let parts = [self.draw(), self.draw()];
            while self.kept.iter().map(|(_, parts)| parts).sum::<u64>() + parts[0] + parts[1] > room {
                fresh.get_or_insert_with(|| self.stretches());
                let gone = self.chance.below(self.kept.len() as u64) as usize;
                self.volume.remove(&self.kept.swap_remove(gone).0).expect("it is there");
                while self.volume.commit().is_some() {
                    self.volume.committed(Ok(()));
                }
            }
            self.write(parts);
        }
        assert!(self.volume.unbalanced().is_empty());
        [fresh.expect("it was full"), self.stretches()]
    }
}

#[test]
fn contents_of_known_length_lie_together_after_ten_turns() {
    let [fresh, aged] = AgedVolume::new(Placement::Span, 1, true).age();
    assert!(fresh < 1.001 && aged < 1.08, "{fresh} {aged}");
}

#[test]
fn on_several_disks_they_lie_together_on_each() {
    for placement in [Placement::Stripe, Placement::Mirror] {
        let mut volume = AgedVolume::new(placement, 2, true);
        let [fresh, aged] = volume.age();
        assert!(aged < fresh * 1.08, "{placement:?}: {fresh} {aged}");
    }
}

#[test]
fn contents_of_unknown_length_lie_in_few_places() {
    let [fresh, aged] = AgedVolume::new(Placement::Span, 1, false).age();
    assert!(fresh < 2.0 && aged < 3.0, "{fresh} {aged}");
}

/// Recorders: 128 cameras that record side by side, each in files of as many units as ten minutes of 4 Mbit/s have (of 8 MiB), each with a
/// ring that is full; half a unit of each comes at a time. Gives the stretches of a file, after this number of turns.
fn rings(placement: Placement, disks: usize, turns: u64) -> f64 {
    const CAMERAS: u64 = 128;
    const FILE_UNITS: u64 = 36;
    const FILES: u64 = 4;
    /// Halves of units that a file has: its tail fits into the last one.
    const HALVES: u64 = 2 * FILE_UNITS - 1;
    let mut aged = AgedVolume::new(placement, disks, false);
    let units = CAMERAS * FILES * FILE_UNITS * 100 / 95 * placement.copies() / disks as u64;
    aged.volume = Volume::create(new_volume(placement, vec![units * (UNIT + 4096) + (8 << 20); disks])).expect("sizes");
    let commit = |volume: &mut Volume| {
        while volume.commit().is_some() {
            volume.committed(Ok(()));
        }
    };
    commit(&mut aged.volume);
    let name = |camera: u64, number: u64| format!("cam{camera}/{number:05}");
    let begin = |volume: &mut Volume, camera, number| volume.begin(&name(camera, number), None).expect("there is room");
    // They do not cut at the same moment.
    let mut cameras: Vec<(Draft, u64)> = (0..CAMERAS).map(|camera| (begin(&mut aged.volume, camera, 0), 0)).collect();
    for step in 0..HALVES * FILES * turns {
        for (camera, (draft, number)) in (0..).zip(&mut cameras) {
            aged.add(draft, UNIT / 2);
            if !(step + camera * 5).is_multiple_of(HALVES) {
                continue;
            }
            let tail = draft.tail();
            assert!(aged.volume.room(draft).expect("room was kept").1 >= tail.len() as u64);
            draft.add(aged.volume.members(), &tail);
            draft.end(aged.volume.members(), 0);
            if *number + 1 >= FILES {
                aged.volume.remove(&name(camera, *number + 1 - FILES)).expect("it is there");
                commit(&mut aged.volume);
            }
            *number += 1;
            let next = begin(&mut aged.volume, camera, *number);
            aged.volume.publish(std::mem::replace(draft, next), 0).expect("nothing came between");
            commit(&mut aged.volume);
        }
    }
    aged.stretches()
}

#[test]
fn files_of_full_rings_that_are_recorded_side_by_side_lie_in_few_places() {
    for (placement, disks, most) in
        [(Placement::Span, 1, 4.0), (Placement::Stripe, 2, 8.0), (Placement::Mirror, 2, 8.0)]
    {
        let [fresh, aged] = [1, 4].map(|turns| rings(placement, disks, turns));
        // A stretch of a span has nine units, the block of a viewer of 8.8 Mbit/s a little more than two.
        assert!(fresh < most && aged < most, "{placement:?}: {fresh}, then {aged}");
    }
}
