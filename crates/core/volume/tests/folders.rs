//! Folders laid in another way than the volume's, and disks that are parts of one drive.
#![allow(clippy::cast_possible_truncation, reason = "lengths of the test are small")]

use crate::common::{Chance, MemoryDisk, MemoryDisks, UNIT, new_volume, read_content, write_content};
use volume::{DiskWrite, FolderLayoutError, Placement, StoredPart, Volume, VolumeError};

const DISK: u64 = 6 << 20;
const LENGTH: u64 = 5 * UNIT;

fn commit(volume: &mut Volume, disks: &mut MemoryDisks) {
    while let Some(commit) = volume.commit() {
        commit.writes.iter().for_each(|write| disks.write(write));
        volume.committed(Ok(()));
    }
}

fn steps(steps: &[Vec<DiskWrite>], disks: &mut MemoryDisks) {
    steps.iter().flatten().for_each(|write| disks.write(write));
}

fn put(name: &str, volume: &mut Volume, disks: &mut MemoryDisks) {
    let mut draft = volume.begin(name, Some(LENGTH)).expect("there is room");
    let mut writes = Vec::new();
    let written = write_content(volume, &mut draft, (7, LENGTH, 1), |write| writes.push(write.clone()));
    written.expect("room was promised");
    writes.iter().for_each(|write| disks.write(write));
    volume.publish(draft, 1).expect("nothing came between");
    commit(volume, disks);
}

fn parts<'a>(name: &str, volume: &'a Volume) -> &'a [StoredPart] {
    &volume.find(name).expect("it is there").parts
}

#[test]
fn a_folder_has_its_own_layout_and_keeps_it() {
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK)); 3]);
    let mut volume = Volume::create(new_volume(Placement::Stripe, vec![DISK; 3])).expect("sizes are fine");
    commit(&mut volume, &mut disks);
    steps(&volume.set_folder_layout("kept", Some(Placement::Mirror)).expect("three drives"), &mut disks);
    steps(&volume.set_folder_layout("kept/raw", Some(Placement::Span)).expect("a name"), &mut disks);
    assert!(matches!(volume.set_folder_layout("../x", None), Err(FolderLayoutError::Volume(VolumeError::Name(_)))));
    disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
    disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut Chance::new(1)));
    let mut volume = disks.open().expect("it is whole");
    commit(&mut volume, &mut disks);
    for name in ["all", "kept/a", "kept/raw/a", "keptnot/a"] {
        put(name, &mut volume, &mut disks);
    }
    let copies = |name| parts(name, &volume).iter().map(|part| part.places().count()).collect::<Vec<_>>();
    assert!(copies("all").iter().chain(&copies("keptnot/a")).all(|copies| *copies == 1));
    assert!(copies("kept/a").iter().all(|copies| *copies == 2));
    let raw = parts("kept/raw/a", &volume);
    assert!(raw.iter().all(|part| part.second.is_none() && part.first.member == raw[0].first.member), "a span");
    for (name, content) in volume.contents() {
        assert!(read_content(&volume, content, &mut disks).is_some(), "{name}");
    }
    steps(&volume.set_folder_layout("kept/raw", None).expect("a name"), &mut disks);
    assert_eq!(volume.members().placement_of("kept/raw/b"), Placement::Mirror);
}

/// Room promised with two copies is there for both, even if contents with one come meanwhile.
#[test]
fn room_that_was_promised_to_a_mirrored_folder_is_there() {
    let mut volume = Volume::create(new_volume(Placement::Span, vec![DISK; 2])).expect("sizes are fine");
    volume.set_folder_layout("kept", Some(Placement::Mirror)).expect("two drives");
    commit(&mut volume, &mut MemoryDisks(vec![Some(MemoryDisk::new(DISK)); 2]));
    let free: u64 = volume.free_counts().into_iter().flatten().sum();
    let mut kept = volume.begin("kept/a", Some(LENGTH)).expect("there is room");
    let mut others = Vec::new();
    for number in 0.. {
        match volume.begin(&format!("{number}"), Some(UNIT / 2)) {
            Ok(mut draft) => {
                volume.room(&mut draft).expect("it was promised");
                others.push(draft);
            }
            Err(error) => {
                assert_eq!(error, VolumeError::Full);
                break;
            }
        }
    }
    let written = write_content(&mut volume, &mut kept, (7, LENGTH, 1), |_| ());
    assert!(written.is_ok(), "{free} units, {} others: {written:?}", others.len());
    volume.publish(kept, 1).expect("nothing came between");
    assert!(parts("kept/a", &volume).iter().all(|part| part.second.is_some()));
}

/// Two drives of two actuators, each a disk, and one of one.
#[test]
fn the_copies_of_a_mirror_are_on_two_drives() {
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK)); 5]);
    let mut volume = Volume::create(new_volume(Placement::Mirror, vec![DISK; 5])).expect("sizes are fine");
    volume.set_drives(&[Some("a"), Some("a"), Some("b"), None, Some("b")]);
    let drive = |member: volume::MemberId| ["a", "a", "b", "c", "b"][member.index()];
    commit(&mut volume, &mut disks);
    let mut count = 0;
    while volume.free_bytes() >= LENGTH + UNIT {
        put(&format!("{count}"), &mut volume, &mut disks);
        count += 1;
    }
    assert!(count > 3, "{count} contents");
    for (name, content) in volume.contents() {
        for part in &content.parts {
            let second = part.second.expect("two copies");
            assert_ne!(drive(part.first.member), drive(second.member), "{name}: {part:?}");
        }
    }
}

#[test]
fn one_drive_mirrors_nothing() {
    let mut volume = Volume::create(new_volume(Placement::Stripe, vec![DISK; 2])).expect("sizes are fine");
    volume.set_drives(&[Some("a"), Some("a")]);
    assert_eq!(volume.set_folder_layout("kept", Some(Placement::Mirror)), Err(FolderLayoutError::OneDrive));
}

#[test]
fn a_span_has_a_set_for_each_disk_and_begins_where_it_is_told() {
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK)); 3]);
    let mut volume = Volume::create(new_volume(Placement::Span, vec![DISK; 3])).expect("sizes are fine");
    commit(&mut volume, &mut disks);
    let sets = |volume: &Volume| volume.written_disks("a").0;
    let all = sets(&volume);
    assert!(all.len() == 3 && all.iter().all(|set| set.len() == 1), "{all:?}");
    let members: Vec<_> = all.into_iter().flatten().collect();
    for (name, member) in ["a", "b", "c"].into_iter().zip(members.iter().rev()) {
        let mut draft = volume.begin(name, Some(2 * UNIT)).expect("there is room");
        draft.begin_on(*member);
        write_content(&mut volume, &mut draft, (7, 2 * UNIT, 1), |write| disks.write(write))
            .expect("room was promised");
        let content = volume.publish(draft, 1).expect("nothing came between");
        assert!(content.parts.iter().all(|part| part.first.member == *member), "{name}: {:?}", content.parts);
    }
    // Where the disk has no room left, the rest goes to others.
    let mut draft = volume.begin("all", None).expect("there is room");
    draft.begin_on(members[0]);
    let left = volume.free_bytes() - 4 * UNIT;
    write_content(&mut volume, &mut draft, (7, left, 1), |write| disks.write(write)).expect("as much as is free");
    let content = volume.publish(draft, 1).expect("nothing came between");
    let on = |member| content.parts.iter().filter(|part| part.first.member == member).count();
    assert!(content.parts[0].first.member == members[0] && members.iter().all(|member| on(*member) > 0));
}

/// The volume as a crash leaves it after the last commit.
fn crashed(disks: &mut MemoryDisks) -> Volume {
    disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
    disks.0.iter_mut().flatten().for_each(|disk| disk.crash(&mut Chance::new(1)));
    disks.open().expect("it is whole")
}

fn names(volume: &Volume) -> Vec<&str> {
    volume.contents().map(|(name, _)| name).collect()
}

#[test]
fn an_empty_folder_is_kept_and_is_no_content() {
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK))]);
    let mut volume = Volume::create(new_volume(Placement::Span, vec![DISK])).expect("sizes are fine");
    commit(&mut volume, &mut disks);
    volume.make_folder("a", 1).expect("a name");
    volume.make_folder("a/b", 1).expect("a name");
    assert_eq!(volume.make_folder("a", 1), Err(VolumeError::IsFolder));
    assert!(matches!(volume.make_folder("a/", 1), Err(VolumeError::Name(_))));
    commit(&mut volume, &mut disks);
    steps(&volume.members().superblock_writes(), &mut disks);
    put("a/b/c", &mut volume, &mut disks);
    assert_eq!(volume.make_folder("a/b/c", 1), Err(VolumeError::NotAFolder));
    assert_eq!(volume.make_folder("a/b/c/d", 1), Err(VolumeError::NotAFolder));
    assert!(matches!(volume.begin("a/b", Some(0)), Err(VolumeError::IsFolder)));
    volume.remove("a/b/c").expect("it is there");
    commit(&mut volume, &mut disks);
    let mut volume = crashed(&mut disks);
    assert!(volume.is_folder("a/b") && volume.list("a/b").is_empty());
    assert_eq!((names(&volume).len(), volume.len()), (0, 0));
    let listed: Vec<_> = volume.list("a").iter().map(volume::ListedName::name).map(str::to_owned).collect();
    assert_eq!(listed, ["b"]);
    volume.remove_tree("a").expect("it is there");
    commit(&mut volume, &mut disks);
    assert!(!crashed(&mut disks).is_folder("a"));
}

#[test]
fn a_content_has_another_time_and_its_units_stay_while_it_is_read() {
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK))]);
    let mut volume = Volume::create(new_volume(Placement::Span, vec![DISK])).expect("sizes are fine");
    commit(&mut volume, &mut disks);
    steps(&volume.members().superblock_writes(), &mut disks);
    put("a", &mut volume, &mut disks);
    let free = volume.free_bytes();
    assert_eq!(volume.set_modified("b", 5), Err(VolumeError::NotFound));
    let read = volume.find("a").expect("it is there").clone();
    volume.set_modified("a", 5).expect("it is there");
    commit(&mut volume, &mut disks);
    assert_eq!(crashed(&mut disks).find("a").map(|content| content.modified), Some(5));
    volume.remove("a").expect("it is there");
    commit(&mut volume, &mut disks);
    commit(&mut volume, &mut disks);
    assert_eq!(volume.free_bytes(), free, "its first version is read");
    drop(read);
    put("b", &mut volume, &mut disks);
    assert_eq!(volume.free_bytes(), free, "the units of the one are the other's");
}

#[test]
fn a_tree_has_another_name_as_a_whole_or_not_at_all() {
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(16 << 20))]);
    let mut volume = Volume::create(new_volume(Placement::Span, vec![16 << 20])).expect("sizes are fine");
    commit(&mut volume, &mut disks);
    steps(&volume.members().superblock_writes(), &mut disks);
    for name in ["old/a", "old/deep/b", "old2/c", "there/x"] {
        put(name, &mut volume, &mut disks);
    }
    volume.make_folder("old/empty", 1).expect("a name");
    let before: Vec<_> = names(&volume).into_iter().map(str::to_owned).collect();
    let long = "n".repeat(1020);
    for (to, error) in [
        (long.as_str(), VolumeError::Name("a name has 1 to 1024 bytes")),
        ("there/x/y", VolumeError::NotAFolder),
        ("old/deep", VolumeError::IsFolder),
    ] {
        assert_eq!(volume.rename("old", to), Err(error), "{to}");
        assert_eq!(names(&volume), before, "{to}");
    }
    assert_eq!(volume.rename("nothing", "x"), Err(VolumeError::NotFound));
    assert_eq!(volume.remove_tree("there/x"), Err(VolumeError::NotAFolder));
    volume.rename("old", "there").expect("it takes the place of a folder");
    assert_eq!(names(&volume), ["old2/c", "there/a", "there/deep/b"]);
    commit(&mut volume, &mut disks);
    let mut volume = crashed(&mut disks);
    assert_eq!(names(&volume), ["old2/c", "there/a", "there/deep/b"]);
    assert!(volume.is_folder("there/empty"));
    for (_, content) in volume.contents() {
        assert!(read_content(&volume, content, &mut disks).is_some());
    }
    // The next commit is not made: a crash leaves the tree as it was.
    volume.rename("there", "gone").expect("it is there");
    assert_eq!(names(&crashed(&mut disks)), ["old2/c", "there/a", "there/deep/b"]);
}
