//! Another profile for a disk while the plane runs.

use crate::common::{Machine, RATE, viewer};
use dataplane::control::{Command, NewProfile, Report};
use schedule::profile::DiskProfile;
use units::{BitRate, DiskId, Nanos, StreamId};

const SECOND: Nanos = Nanos::from_secs(1);

fn set(disk: u16, profile: &DiskProfile) -> Command {
    Command::SetProfile(Box::new(NewProfile::new(DiskId(disk), profile)))
}

/// A disk with twice the rates and half the access times.
fn faster() -> DiskProfile {
    let mut profile = DiskProfile::spindle_default();
    profile.zones.iter_mut().for_each(|zone| zone.bytes_per_second *= 2);
    profile.seeks.iter_mut().for_each(|seek| seek.time = Nanos(seek.time.0 / 2));
    profile
}

/// Viewers of the numbers from `first` on, until one is refused: how many were not.
fn admitted(machine: &mut Machine, first: u64) -> u64 {
    for number in first..first + 1000 {
        let mut reports = machine.command(viewer(number));
        reports.append(&mut machine.later(Nanos::from_millis(50)));
        if reports.iter().any(|report| matches!(report, Report::Refused { .. })) {
            return number - first;
        }
    }
    panic!("no end of viewers")
}

/// Reports of profiles in these: whether each is in force.
fn profiled(reports: &[Report]) -> Vec<bool> {
    let of = |report: &Report| match report {
        Report::Profiled { is_in_force, .. } => Some(*is_in_force),
        _ => None,
    };
    reports.iter().filter_map(of).collect()
}

#[test]
fn a_profile_waits_until_its_disk_is_idle_and_then_carries_more() {
    let mut machine = Machine::new(BitRate(10_000_000_000));
    machine.disk_answers();
    let before = admitted(&mut machine, 1);
    let flash = DiskProfile::flash_default();
    for waits in [&flash, &faster()] {
        let reports = machine.command(set(0, waits));
        // The second one takes the place of the first.
        assert_eq!(profiled(&reports), if waits == &flash { vec![] } else { vec![false] });
    }
    assert!(profiled(&machine.later(SECOND)).is_empty(), "streams are counted by the old one");
    for number in 1..=before {
        machine.command(Command::Stop(StreamId(number)));
    }
    let mut reports = Vec::new();
    (0..4).for_each(|_| reports.append(&mut machine.later(SECOND)));
    assert_eq!(profiled(&reports), [true]);
    let old = reports.iter().find_map(|report| match report {
        Report::Profiled { profile, .. } => Some(profile.as_ref()),
        _ => None,
    });
    assert_eq!(old, Some(&NewProfile::new(DiskId(0), &DiskProfile::spindle_default())), "the old one, to be dropped");
    let after = admitted(&mut machine, 2001);
    assert!(after * 10 >= before * 15, "{before} viewers before, {after} after");
}

#[test]
fn a_spinning_disk_that_is_none_and_its_neighbour_keep_their_rounds() {
    let mut machine = Machine::with_disks(2, BitRate(10_000_000_000));
    machine.disk_answers();
    machine.command(viewer(1));
    machine.later(SECOND);
    let mut reports = machine.command(set(1, &DiskProfile::flash_default()));
    reports.append(&mut machine.later(SECOND));
    assert_eq!(profiled(&reports), [true], "the neighbour's stream holds up nothing");
    assert_eq!(profiled(&machine.command(set(2, &DiskProfile::flash_default()))), [false], "there is no such disk");
    machine.taken();
    for _ in 0..200 {
        machine.later(Nanos::from_millis(50));
        machine.clients_read();
    }
    let whole = RATE.bytes_in(Nanos::from_secs(10));
    assert_eq!(machine.shown(1).misses.get(), 0);
    assert!(machine.taken() * 10 >= whole * 9, "its stream has its rate");
}
