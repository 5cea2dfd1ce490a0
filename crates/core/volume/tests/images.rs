//! Images with flipped bytes, cut images, and journals made of anything: errors, never a panic, never wrong bytes.
#![allow(clippy::cast_possible_truncation, reason = "lengths of the test are small")]

use std::sync::Arc;

use crate::common::{MemoryDisk, MemoryDisks, UNIT, new_volume, payload, read_content, write_content};
use proptest::prelude::*;
use volume::{DiskWrite, MemberId, Placement, SuperblockError, Volume, VolumeOpenError};

const DISK: u64 = 6 << 20;

fn commit(volume: &mut Volume, disks: &mut MemoryDisks) {
    let Some(commit) = volume.commit() else { return };
    commit.writes.iter().for_each(|write| disks.write(write));
    disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
    volume.committed(Ok(()));
}

fn write_steps(steps: impl IntoIterator<Item = Vec<DiskWrite>>, disks: &mut MemoryDisks) {
    steps.into_iter().flatten().for_each(|write| disks.write(&write));
    disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
}

fn add(volume: &mut Volume, disks: &mut MemoryDisks, name: &str, seed: u64, length: u64) {
    let mut draft = volume.begin(name, Some(length)).expect("there is room");
    write_content(volume, &mut draft, (seed, length, 1), |write| disks.write(write)).expect("room was promised");
    volume.publish(draft, 1).expect("nothing came between");
}

const NAMES: [(&str, u64, u64); 4] =
    [("a", 11, 3 * UNIT + 5_000), ("b/c", 22, 8_000), ("b/d", 33, 2 * UNIT), ("e", 44, 1)];

fn sample(placement: Placement, count: usize) -> MemoryDisks {
    let mut volume = Volume::create(new_volume(placement, vec![DISK; count])).expect("sizes are fine");
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK)); count]);
    commit(&mut volume, &mut disks);
    write_steps(volume.members().superblock_writes(), &mut disks);
    for (name, seed, length) in NAMES {
        add(&mut volume, &mut disks, name, seed, length);
        commit(&mut volume, &mut disks);
    }
    disks
}

fn flip(disk: &mut MemoryDisk, pick: usize, byte: usize, mask: u8) -> u64 {
    let block = *disk.blocks.keys().nth(pick % disk.blocks.len()).expect("a volume has blocks");
    let mut bytes = disk.blocks[&block].to_vec();
    bytes[byte] ^= mask;
    disk.blocks.insert(block, bytes.into());
    block
}

/// Every content that can be opened is right, or reported as damaged; gives how many are whole.
fn count_whole(volume: &Volume, disks: &mut MemoryDisks) -> usize {
    let whole = |(name, content): (&str, &Arc<volume::StoredContent>)| {
        let known = NAMES.iter().find(|(known, _, _)| *known == name).expect("no name is made up");
        let bytes = read_content(volume, content, disks);
        bytes.is_some_and(|bytes| {
            assert!(bytes == payload(known.1, 0, known.2), "wrong bytes of `{name}`");
            true
        })
    };
    volume.contents().map(whole).filter(|whole| *whole).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_flipped_byte_is_never_served(pick in any::<usize>(), byte in 0usize..4096, mask in 1u8..) {
        let mut disks = sample(Placement::Span, 1);
        flip(disks.0[0].as_mut().expect("it is there"), pick, byte, mask);
        if let Ok(volume) = disks.open() {
            count_whole(&volume, &mut disks);
        }
    }

    #[test]
    fn a_mirror_heals_any_damage_of_one_disk(
        disk in 0usize..2,
        flips in prop::collection::vec((any::<usize>(), 0usize..4096, 1u8..), 1..20),
    ) {
        let mut disks = sample(Placement::Mirror, 2);
        // Three of the four superblocks stay: a disk without any is not of the volume any more.
        let superblock = |block: u64| block == 0;
        for (pick, byte, mask) in flips {
            let there = disks.0[disk].as_mut().expect("it is there");
            let block = flip(there, pick, byte, mask);
            if !superblock(block) && !(256..(DISK - (1 << 20)) / 4096).contains(&block) {
                flip(there, there.blocks.keys().position(|at| *at == block).expect("it is there"), byte, mask);
            }
        }
        let volume = disks.open().expect("the other copy is whole");
        prop_assert_eq!(count_whole(&volume, &mut disks), NAMES.len());
    }

    #[test]
    fn anything_in_the_journal_gives_an_answer(
        blocks in prop::collection::vec((0u64..512, prop::collection::vec(any::<u8>(), 4096)), 0..4),
        copied in prop::collection::vec((0u64..512, 0u64..512), 0..12),
    ) {
        let mut disks = sample(Placement::Span, 1);
        let disk = disks.0[0].as_mut().expect("it is there");
        for (from, to) in copied {
            if let Some(bytes) = disk.blocks.get(&(256 + from)).cloned() {
                disk.blocks.insert(256 + to, bytes);
            }
        }
        for (block, bytes) in blocks {
            disk.blocks.insert(256 + block, bytes.into());
        }
        if let Ok(volume) = disks.open() {
            count_whole(&volume, &mut disks);
        }
    }

    #[test]
    fn a_superblock_of_anything_is_no_volume(bytes in prop::collection::vec(any::<u8>(), 4096)) {
        let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK))]);
        let mut marked = b"ISOCAVOL\x02\0\0\0".to_vec();
        marked.extend_from_slice(&bytes[12..]);
        for position in volume::Areas::superblock_positions(DISK) {
            disks.write(&DiskWrite { member: MemberId(0), position, bytes: marked.clone() });
        }
        prop_assert!(disks.open().is_err());
    }
}

#[test]
fn a_damaged_record_is_reported_and_the_catalogue_rebuilt() {
    let mut disks = sample(Placement::Span, 1);
    let disk = disks.0[0].as_mut().expect("it is there");
    // The checkpoint is frame 0, each content one frame of a block behind it.
    let mut block = disk.blocks[&258].to_vec();
    block[90] ^= 1;
    disk.blocks.insert(258, block.into());
    assert!(matches!(disks.open(), Err(VolumeOpenError::CatalogueDamaged(_))));
    let identified = volume::identify(&[DISK], &mut disks).expect("the superblock is whole");
    let rebuilt = volume::rebuild(&identified, &mut disks, |_, _| {});
    let mut volume = rebuilt.volume;
    assert!(rebuilt.incomplete.is_empty());
    commit(&mut volume, &mut disks);
    let volume = disks.open().expect("the new catalogue is whole");
    assert_eq!(count_whole(&volume, &mut disks), NAMES.len());
}

#[test]
fn a_catalogue_is_rebuilt_from_one_disk_of_a_mirror() {
    let mut disks = sample(Placement::Mirror, 2);
    disks.0[0] = None;
    let mut given = MemoryDisks(vec![disks.0[1].clone()]);
    let identified = volume::identify(&[DISK], &mut given).expect("the superblock is whole");
    assert_eq!(identified.missing(), [MemberId(0)]);
    let rebuilt = volume::rebuild(&identified, &mut given, |_, _| {});
    assert_eq!(rebuilt.volume.len(), NAMES.len());
}

#[test]
fn each_wrong_set_of_disks_gets_its_own_error() {
    let mut mirror = sample(Placement::Mirror, 2);
    let [one, two] = [0, 1].map(|disk| mirror.0[disk].take());
    let open = |disks: Vec<Option<MemoryDisk>>, sizes: &[u64]| {
        volume::identify(sizes, &mut MemoryDisks(disks)).map(|identified| identified.missing())
    };
    assert_eq!(open(vec![two.clone(), one.clone()], &[DISK; 2]), Ok(vec![]), "the order does not matter");
    assert_eq!(open(vec![two.clone()], &[DISK]), Ok(vec![MemberId(0)]));
    assert!(matches!(open(vec![one.clone(), one.clone()], &[DISK; 2]), Err(VolumeOpenError::Doubled { .. })));
    assert!(matches!(open(vec![], &[]), Err(VolumeOpenError::NoDisk)));
    let empty = Some(MemoryDisk::new(DISK));
    assert!(matches!(open(vec![one.clone(), empty], &[DISK; 2]), Err(VolumeOpenError::Superblock { disk: 1, .. })));
    let unreadable = VolumeOpenError::Superblock { disk: 1, source: SuperblockError::Unreadable };
    assert_eq!(open(vec![one.clone(), None], &[DISK; 2]), Err(unreadable), "each read of it fails");
    let short = DISK - (2 << 20);
    assert!(matches!(open(vec![one], &[short]), Err(VolumeOpenError::Truncated { needed: DISK, .. })));
}

/// The disk that is left of a mirror after the other one was taken out.
fn without_the_other(mirror: &MemoryDisks, away: u8) -> (Volume, MemoryDisks) {
    let mut alone = mirror.clone();
    alone.0[usize::from(away)] = None;
    let mut volume = alone.open().expect("one disk of a mirror is enough");
    let steps = volume.take_out(MemberId(away)).expect("the other one has everything");
    write_steps(steps, &mut alone);
    commit(&mut volume, &mut alone);
    (volume, alone)
}

#[test]
fn absent_diverged_and_replaced_disks_are_distinguished() {
    let mirror = sample(Placement::Mirror, 2);
    let (mut volume, first) = without_the_other(&mirror, 1);
    let (_, second) = without_the_other(&mirror, 0);
    let identified = |one: &MemoryDisks, two: &MemoryDisks| {
        let mut given = MemoryDisks(vec![one.0[0].clone(), two.0[1].clone()]);
        volume::identify(&[DISK; 2], &mut given).map(|identified| identified.is_uneven)
    };
    assert_eq!(identified(&mirror, &mirror), Ok(false));
    assert!(matches!(identified(&first, &mirror), Err(VolumeOpenError::Stale { disk: 1, member: 1 })));
    assert!(matches!(identified(&first, &second), Err(VolumeOpenError::Diverged { first: 0, second: 1 })));
    let superblock = |disks: &MemoryDisks, number: usize| {
        let mut one = MemoryDisks(vec![disks.0[number].clone()]);
        volume::identify(&[DISK], &mut one).expect("a disk of the volume").superblock
    };
    let own = volume.superblock();
    assert!(volume::may_return(own, &superblock(&mirror, 1)), "it left, and is as it was then");
    assert!(!volume::may_return(own, &superblock(&second, 1)), "it continued alone");
    assert!(!volume::may_return(own, &superblock(&first, 0)), "it is not out");
    let mut replaced = MemoryDisks(vec![first.0[0].clone(), Some(MemoryDisk::new(DISK))]);
    write_steps(volume.put_in(MemberId(1), DISK).expect("it is as large"), &mut replaced);
    commit(&mut volume, &mut replaced);
    assert_eq!(identified(&replaced, &replaced), Ok(false));
    assert!(matches!(identified(&replaced, &mirror), Err(VolumeOpenError::Replaced { disk: 1, member: 1 })));
}

#[test]
fn a_million_contents_need_as_many_units_and_no_more_time_each() {
    // Counted, not timed: the checkpoint of 20 000 contents is read in one pass of long reads.
    struct Counting(MemoryDisks, u64);
    impl volume::ReadDisk for Counting {
        fn read(&mut self, disk: usize, position: u64, buffer: &mut [u8]) -> Result<(), volume::ReadError> {
            self.1 += 1;
            self.0.read(disk, position, buffer)
        }
    }
    let size = 4u64 << 30;
    let mut volume = Volume::create(new_volume(Placement::Span, vec![size])).expect("sizes are fine");
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(size))]);
    commit(&mut volume, &mut disks);
    write_steps(volume.members().superblock_writes(), &mut disks);
    for number in 0..20_000 {
        add(&mut volume, &mut disks, &format!("folder/content-{number:07}"), number, 8);
    }
    commit(&mut volume, &mut disks);
    let identified = volume::identify(&[size], &mut disks).expect("it was just made");
    let mut counting = Counting(disks, 0);
    let opened = volume::open(&identified, &mut counting).expect("it was just made");
    assert_eq!(opened.len(), 20_000);
    assert!(counting.1 < 100, "{} reads", counting.1);
}
