//! A full volume: an upload that is kept can be ended as far as it came.
#![allow(clippy::cast_possible_truncation, reason = "lengths of the test are small")]

use crate::common::{MemoryDisk, MemoryDisks, UNIT, new_volume, padded, payload, read_content};
use volume::{CreateError, DiskWrite, DraftBytes, DraftStep, Drafts, MemberId, NewVolume, Placement, Volume};

const DISK: u64 = 6 << 20;

#[test]
fn recordings_that_fill_a_volume_are_contents_as_far_as_they_came() {
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK))]);
    let mut volume = Volume::create(new_volume(Placement::Span, vec![DISK])).expect("room");
    drop(volume.commit());
    volume.committed(Ok(()));
    let mut drafts: Drafts<u64, Vec<u8>> = Drafts::default();
    let mut numbers: Vec<(u64, u64)> = Vec::new();
    for seed in 0..3 {
        let draft = volume.begin(&format!("cam{seed}"), None).expect("room");
        numbers.push((drafts.begin(draft, true, seed), seed));
    }
    let mut came = [0u64; 3];
    while let Some((number, seed)) = numbers.first().copied() {
        let length = &mut came[seed as usize];
        let bytes = payload(seed, *length, UNIT);
        match drafts.receive(number, &padded(bytes.clone()), &bytes, &mut volume) {
            Ok(()) => *length += UNIT,
            Err(_) => {
                drafts.finish(number, 1, &mut volume).expect("there is room for its tail");
                numbers.retain(|(other, _)| *other != number);
            }
        }
        let turn = numbers.len().min(1);
        numbers.rotate_left(turn);
        while let Some((number, step)) = drafts.next_step() {
            match step {
                DraftStep::Write(member, position, DraftBytes::Payload(bytes) | DraftBytes::Made(bytes)) => {
                    disks.write(&DiskWrite { member, position, bytes });
                }
                DraftStep::Finish(member) => drop(drafts.disk_done(number, member, &mut volume)),
                DraftStep::Publish => {
                    let (_, draft, modified) = drafts.take(number).expect("all of it came");
                    volume.publish(draft, modified).expect("the catalogue has room");
                }
                _ => {}
            }
        }
    }
    disks.flush(MemberId(0));
    for (seed, length) in (0u64..).zip(came) {
        let content = volume.find(&format!("cam{seed}")).expect("it is there").clone();
        assert!(length > UNIT && content.length == length, "{length}");
        assert!(read_content(&volume, &content, &mut disks) == Some(payload(seed, 0, length)));
    }
}

#[test]
fn units_that_no_journal_can_list_are_refused() {
    let small = NewVolume { unit_bytes: 64 << 10, ..new_volume(Placement::Span, vec![1 << 55]) };
    assert_eq!(Volume::create(small).expect_err("too many units"), CreateError::TooManyUnits(64 << 10));
    Volume::create(new_volume(Placement::Span, vec![1 << 40])).expect("room in the journal");
}
