//! Upkeep by the core's decisions, with disks that have idle threads.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Duration;

use content::layout::FileAccess;
use units::{DiskId, Nanos};
use volume::{Checksums, NewVolume, Placement, SuperblockError, Volume, VolumeOpenError};

use super::*;
use crate::core::Core;
use crate::live::{Member, Members};
use crate::open_contents::OpenContents;
use crate::open_disk::VolumeDiskError;
use store::operation::UploadTerms;
use store::shared::DiskShared;

const DISK_BYTES: u64 = 64 << 20;

fn shared(id: u8) -> Arc<DiskShared> {
    let patience = Duration::from_secs(1);
    Arc::new(DiskShared::new(
        (DiskId(id.into()), format!("disk {id}"), vec![DiskId(id.into())]),
        patience,
        Arc::new(|| {}),
        Arc::default(),
        Arc::default(),
    ))
}

/// A disk with an idle thread.
fn disk(number: u8) -> Option<Member> {
    let file = OwnedFd::from(tempfile::tempfile().expect("a file"));
    let (shared, inbox) = (shared(number), VecDeque::new());
    let (member, disk, access) = (MemberId(number), shared.id, FileAccess::Buffered);
    Some(Member { member, disk, file, access, start_bytes: 0, shared, inbox })
}

/// An empty mirror of two disks, of which the second one was replaced; that it is filled is not durable yet.
fn with_filled_disk() -> Core {
    let mut core = new_core(Placement::Mirror, 2);
    core.take_out(MemberId(1), &StoreError::Closed);
    write_sets(&mut core);
    let steps = core.live.volume.put_in(MemberId(1), DISK_BYTES).expect("it is large enough");
    core.live.members.there[1] = disk(1);
    core.write_superblocks(steps);
    write_sets(&mut core);
    core.fill_disks();
    for _ in 0..100 {
        core.upkeep_turn();
        if core.upkeep.run.is_none() {
            break;
        }
        write_sets(&mut core);
    }
    core
}

/// A volume of one disk with eight contents of five parts, the last of which was read.
fn with_contents() -> Core {
    let mut core = new_core(Placement::Span, 1);
    (0..8).for_each(|number| store_content(&mut core, &number.to_string(), &[1, 1, 1, 1, 2]));
    core.begin_write_set();
    write_sets(&mut core);
    core.note_read("7", 5 << 20);
    core
}

/// A mirror of two disks with a content of one part.
fn with_mirrored_content() -> Core {
    let mut core = new_core(Placement::Mirror, 2);
    store_content(&mut core, "film", &[2]);
    core.begin_write_set();
    write_sets(&mut core);
    core
}

/// An empty volume.
fn new_core(placement: Placement, disks: u8) -> Core {
    let sizes = vec![DISK_BYTES; disks.into()];
    let new = NewVolume { volume: [9; 16], name: "films".to_owned(), placement, unit_bytes: 1 << 20, sizes };
    let volume = Volume::create(new).expect("it is as it should be");
    let (there, named) = ((0..disks).map(disk).collect(), vec![None; disks.into()]);
    let members = Members { there, named, vacant: BTreeMap::new(), front: shared(0) };
    let mut core = Core::new(volume, members, OpenContents::new(Arc::default()), shared(0));
    core.begin_write_set();
    write_sets(&mut core);
    core
}

/// Stores a content with parts of this fraction of a unit each.
fn store_content(core: &mut Core, name: &str, shares: &[usize]) {
    let volume = &mut core.live.volume;
    let mut draft = volume.begin(name, None).expect("there is room");
    for share in shares {
        let (_, room) = volume.room(&mut draft).expect("there is room");
        draft.add(volume.members(), &vec![7; index(room) / share]);
    }
    let tail = draft.tail();
    draft.add(volume.members(), &tail);
    draft.end(volume.members(), 0);
    volume.publish(draft, 0).expect("it is whole");
}

/// Bytes of the unit that the copy under way reads, with their checksums.
fn unit_bytes(core: &Core) -> UnitBytes {
    let copying = core.upkeep.copying.as_ref().expect("a copy is under way");
    let bytes = index(core.live.volume.members().part_bytes(&copying.content, copying.task.part));
    let (payload, mut checksums) = (AlignedBlock::zeroed(bytes), Checksums::default());
    checksums.add(&payload.bytes()[..bytes]);
    UnitBytes { payload, table: checksums.finish() }
}

#[test]
fn an_upload_takes_the_room_of_optional_moves() {
    let mut core = with_contents();
    for moved in 0..4 {
        core.upkeep_turn();
        let id = core.upkeep.copying.as_ref().expect("it moves").id;
        let bytes = unit_bytes(&core);
        core.copy_step(id, CopyStep::Read(Some(bytes)));
        core.copy_step(id, CopyStep::Written);
        assert_eq!(core.upkeep.run.as_ref().expect("it goes on").report.written, moved + 1);
    }
    core.upkeep_turn();
    // The unit that is being written is another matter.
    let room = u64::from(core.live.volume.members().unit_count(MemberId(0))) - 8 * 5 - 1;
    let mut begin = |parts: u64| {
        let path = store::ContentPath::parse_encoded("/new").expect("a name");
        let (length, on_break) = (Some((parts << 20) - (64 << 10)), store::OnBreak::Discard);
        let (precondition, progress) = (store::Precondition::default(), Arc::default());
        let (recording, reserved_on, name_taken, durable) = (None, None, store::NameTaken::Replace, None);
        let terms = UploadTerms {
            length,
            precondition,
            recording,
            reserved_on,
            on_break,
            name_taken,
            durable,
            modified: None,
            progress,
        };
        core.begin(&path, terms).map(|_| ())
    };
    assert!(begin(room + 1).is_err_and(|error| error.is_full()));
    assert!(begin(room).is_ok());
    assert!(core.upkeep.run.is_none() && core.upkeep.moved_copies == 0);
}

fn write_sets(core: &mut Core) {
    while core.live.has_write_set() {
        for member in (0..3).map(MemberId) {
            if let Some((number, _)) = core.live.share(member) {
                core.share_done(member, number);
            }
        }
    }
}

#[test]
fn a_disk_counts_as_filled_when_that_is_durable() {
    let mut core = with_filled_disk();
    assert!(core.upkeep.last.is_none(), "superblocks are to be written");
    write_sets(&mut core);
    assert!(matches!(core.upkeep.last, Some(("fill", _, None))));
}

#[test]
fn a_fill_that_does_not_become_durable_has_failed() {
    for member in [MemberId(0), MemberId(1)] {
        let mut core = with_filled_disk();
        core.take_out(member, &StoreError::Closed);
        write_sets(&mut core);
        assert!(matches!(core.upkeep.last, Some(("fill", _, Some(_)))), "{:?}", core.upkeep.last);
    }
}

#[test]
fn a_volume_that_takes_no_more_changes_names_the_disk_and_the_way_out() {
    let mut core = with_contents();
    core.tell_states(Nanos(0));
    core.take_out(MemberId(0), &shared(0).failing());
    assert_eq!(core.disk_state(MemberId(0)), "failed");
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    core.live.front.events.listen(Box::new(move |event| told.lock().expect("no panic").push(format!("{event:?}"))));
    core.tell_states(Nanos(1));
    core.tell_states(Nanos(2));
    let events = events.lock().expect("no panic").clone();
    let told: Vec<_> = events.iter().filter(|event| event.contains("VolumeDisk")).collect();
    assert!(told.len() == 1 && told[0].contains("takes no changes"), "{events:?}");
    let refused = core.live.error(VolumeError::ReadOnly).to_string();
    for words in ["`films`", "number 0", "failed", "started again"] {
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn a_disk_that_is_out_names_once_the_reason_for_which_it_stays_out() {
    let mut core = with_filled_disk();
    write_sets(&mut core);
    core.tell_states(Nanos(0));
    core.take_out(MemberId(1), &StoreError::Closed);
    write_sets(&mut core);
    core.tell_states(Nanos(1));
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    core.live.front.events.listen(Box::new(move |event| told.lock().expect("no panic").push(format!("{event:?}"))));
    let absent = VolumeDiskError::Open { path: "b".into(), source: std::io::ErrorKind::NotFound.into() };
    let source = VolumeOpenError::Superblock { disk: 0, source: SuperblockError::NotAVolume };
    let blank = || VolumeDiskError::Volume { disks: "b".to_owned(), source: source.clone() };
    events.lock().expect("no panic").clear();
    for refused in [absent, blank(), blank(), VolumeDiskError::InUse("b".into())] {
        core.tell_refused_return(MemberId(1), &refused.into());
    }
    let told = events.lock().expect("no panic").clone();
    assert!(told.len() == 2 && told[0].contains("stays out") && told[1].contains("b is in use"), "{told:?}");
    assert!(told[0].contains("b: it holds no Isocast volume"), "{told:?}");
}

#[test]
fn the_second_disk_that_fails_stops_a_mirror_and_the_first_is_left_alone() {
    let mut core = with_filled_disk();
    write_sets(&mut core);
    core.take_out(MemberId(1), &StoreError::Closed);
    write_sets(&mut core);
    core.take_out(MemberId(0), &StoreError::Closed);
    assert_eq!([0, 1].map(|member| core.disk_state(MemberId(member))), ["failed", "out"]);
    let refused = core.live.error(VolumeError::ReadOnly).to_string();
    assert!(refused.contains("number 0") && refused.contains("failed"), "{refused}");
}

#[test]
fn a_disk_that_left_has_no_failure() {
    let mut core = new_core(Placement::Mirror, 3);
    core.take_out(MemberId(1), &shared(1).failing());
    write_sets(&mut core);
    assert!(core.live.health.failure(MemberId(1)).is_some());
    core.begin_upkeep(Upkeep::Drain(MemberId(1))).expect("two are left");
    for _ in 0..100 {
        core.upkeep_turn();
        write_sets(&mut core);
    }
    assert_eq!(core.disk_state(MemberId(1)), "left");
    assert!(core.live.health.failure(MemberId(1)).is_none());
}

/// A copy on a disk that is away is neither right nor damaged; a wrong copy stays so while the other is away.
#[test]
fn a_scrub_counts_copies_on_a_disk_that_is_away_as_unknown() {
    let mut core = with_contents();
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    core.live.front.events.listen(Box::new(move |event| told.lock().expect("no panic").push(format!("{event:?}"))));
    core.begin_upkeep(Upkeep::Scrub).expect("nothing is under way");
    for number in 0..8 * 5 {
        core.upkeep_turn();
        let id = core.upkeep.copying.as_ref().expect("its copies are read").id;
        // The disk dies after the first content.
        let bytes = unit_bytes(&core);
        core.copy_step(id, if number < 5 { CopyStep::Read(Some(bytes)) } else { CopyStep::Away });
    }
    core.upkeep_turn();
    write_sets(&mut core);
    core.upkeep_turn();
    let Some(("scrub", report, None)) = core.upkeep.last() else { panic!("{:?}", core.upkeep.last()) };
    assert_eq!((report.unknown, report.lost, report.right), (7, 0, 5));
    assert_eq!(report.away.iter().copied().collect::<Vec<_>>(), [0]);
    assert_eq!(core.damaged_count(), 0);
    // A viewer meets it as well.
    core.mend_parts(&[("7".to_owned(), 1)]);
    core.upkeep_turn();
    let id = core.upkeep.copying.as_ref().expect("its copy is read").id;
    core.copy_step(id, CopyStep::Away);
    assert!(core.upkeep.copying.is_none() && core.damaged_count() == 0);
    let events = events.lock().expect("no panic").clone();
    assert!(!events.iter().any(|event| event.contains("CopyLost")), "{events:?}");
}

/// A wrong copy is not lost while the other one is on a disk that is away: the scrub to come decides.
#[test]
fn a_scrub_counts_a_wrong_copy_as_unknown_while_the_other_one_is_away() {
    let mut core = with_mirrored_content();
    core.begin_upkeep(Upkeep::Scrub).expect("nothing is under way");
    core.upkeep_turn();
    while let Some(copying) = &core.upkeep.copying {
        let (id, source) = (copying.id, &copying.task.sources[copying.source.expect("it is read")]);
        let step = if source.member == MemberId(0) { CopyStep::Read(None) } else { CopyStep::Away };
        core.copy_step(id, step);
        core.upkeep_turn();
    }
    write_sets(&mut core);
    core.upkeep_turn();
    let Some(("scrub", report, None)) = core.upkeep.last() else { panic!("{:?}", core.upkeep.last()) };
    assert_eq!((report.unknown, report.lost, report.right), (1, 0, 0));
    assert_eq!(report.away.iter().copied().collect::<Vec<_>>(), [1]);
    assert!(core.live.health.has_unwritten(MemberId(0)) && core.damaged_count() == 0);
}

#[test]
fn damage_that_reads_meet_is_one_event() {
    let mut core = with_contents();
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    core.live.front.events.listen(Box::new(move |event| told.lock().expect("no panic").push(format!("{event:?}"))));
    for _ in 0..2 {
        core.mend_parts(&[("7".to_owned(), 1)]);
        core.upkeep_turn();
        let id = core.upkeep.copying.as_ref().expect("its copy is read").id;
        core.copy_step(id, CopyStep::Read(None));
    }
    assert_eq!(core.damaged_count(), 1);
    let events = events.lock().expect("no panic").clone();
    assert_eq!(events.iter().filter(|event| event.contains("CopyLost")).count(), 1, "{events:?}");
}
