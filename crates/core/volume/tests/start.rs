//! Starts: blocks that one has read, the next need not read again.

use crate::common::{MemoryDisk, MemoryDisks, UNIT, new_volume, write_content};
use volume::{Areas, MemberId, Placement, Volume};

const DISK: u64 = 6 << 20;

/// Makes all durable; gives where the last frame was written.
fn commit(volume: &mut Volume, disks: &mut MemoryDisks) -> u64 {
    let mut last = 0;
    while let Some(commit) = volume.commit() {
        for write in &commit.writes {
            disks.write(write);
            last = write.position;
        }
        disks.flush(MemberId(0));
        volume.committed(Ok(()));
    }
    last
}

#[test]
fn a_start_that_read_more_changes_than_checkpoint_writes_a_checkpoint() {
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK))]);
    let mut volume = Volume::create(new_volume(Placement::Span, vec![DISK])).expect("room");
    let checkpoint = commit(&mut volume, &mut disks);
    volume.members().superblock_writes().concat().iter().for_each(|write| disks.write(write));
    for (number, name) in (1u64..).zip(["a", "b", "c"]) {
        let mut draft = volume.begin(name, None).expect("room");
        write_content(&mut volume, &mut draft, (number, UNIT, 0), |write| disks.write(write)).expect("room");
        volume.publish(draft, 0).expect("room");
        assert!(commit(&mut volume, &mut disks) > checkpoint);
    }
    let mut volume = disks.open().expect("sound");
    let again = commit(&mut volume, &mut disks);
    let half = volume.members().areas(MemberId(0)).journal_half;
    assert_eq!(again.abs_diff(checkpoint), half, "a checkpoint in the other half");
    let mut volume = disks.open().expect("sound");
    assert_eq!(volume.len(), 3);
    let behind = commit(&mut volume, &mut disks);
    assert!(behind > again && behind < again + half, "a few changes behind it");
}

/// The disk as a program that knew version 3 of the format left it.
fn of_version_3(disk: &mut MemoryDisk) {
    for position in Areas::superblock_positions(DISK) {
        let block = position / volume::BLOCK_BYTES;
        let mut bytes = disk.blocks[&block].to_vec();
        bytes[8..12].copy_from_slice(&3u32.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..4092]);
        bytes[4092..].copy_from_slice(&checksum.to_le_bytes());
        disk.blocks.insert(block, bytes.into());
    }
}

#[test]
fn a_volume_of_version_3_is_used_and_is_of_the_newest_version_from_then_on() {
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK))]);
    let mut volume = Volume::create(new_volume(Placement::Span, vec![DISK])).expect("room");
    commit(&mut volume, &mut disks);
    volume.members().superblock_writes().concat().iter().for_each(|write| disks.write(write));
    disks.flush(MemberId(0));
    let new = disks.0[0].clone().expect("it is there").blocks;
    of_version_3(disks.0[0].as_mut().expect("it is there"));
    assert!(disks.open().is_ok());
    assert!(disks.0[0].as_ref().expect("it is there").blocks == new, "the superblocks are written anew");
}
