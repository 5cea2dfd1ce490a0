//! Cameras with viewers: the load a disk accepts of both, and of cameras that come at the same moment.

use sim::drive::DriveProfile;
use sim::{RunReport, Scenario, Trace};
use units::{BitRate, Nanos};

const SECS: fn(u64) -> Nanos = Nanos::from_secs;

/// Cameras of this rate that come 7 ms apart, and viewers behind them, on a 7200 rpm disk.
fn recorded(cameras: u32, rate: u64, viewers: u32) -> RunReport {
    let mut scenario = Scenario::steady(1, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), viewers);
    (scenario.load.recordings.recorded, scenario.load.recordings.rates) = (cameras, vec![BitRate(rate)]);
    scenario.load.recordings.side_by_side = true;
    scenario.load.arrivals = Nanos::from_millis(200);
    scenario.load.viewing = (SECS(60), SECS(70));
    (scenario.safety, scenario.liveness) = (SECS(30), SECS(10));
    let report = sim::run(&scenario, Trace::Off);
    assert_eq!(report.broken, None);
    report
}

#[test]
fn a_disk_records_96_cameras_of_4_mbit_beside_40_viewers() {
    let tally = recorded(96, 4_000_000, 40).tally;
    assert_eq!(
        (tally.writes.recordings, tally.writes.recordings_refused, tally.deliveries.running_max),
        (96, 0, 40),
        "{tally:?}"
    );
}

/// In the slowest zone, with strokes between them, there is no room for all; they lie elsewhere.
#[test]
fn cameras_that_come_together_wait_for_each_others_places_instead_of_being_refused() {
    let tally = recorded(128, 4_000_000, 0).tally;
    assert_eq!((tally.writes.recordings, tally.writes.recordings_refused), (128, 0), "{tally:?}");
}

#[test]
fn five_hundred_slow_cameras_fit_a_disk() {
    let tally = recorded(512, 500_000, 0).tally;
    assert_eq!((tally.writes.recordings, tally.writes.recordings_refused), (512, 0), "{tally:?}");
}

/// Runs `cameras` cameras of 4 Mbit/s alone, with `copies` copies of each spread over `disks` disks. Returns how many were recorded.
fn spread(disks: usize, copies: u8, cameras: u32) -> u64 {
    let mut scenario = Scenario::steady(1, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), 0);
    scenario.disks = vec![scenario.disks[0].clone(); disks];
    (scenario.load.recordings.recorded, scenario.load.recordings.rates) = (cameras, vec![BitRate(4_000_000)]);
    (scenario.load.recordings.copies, scenario.load.recordings.side_by_side) = (copies, true);
    (scenario.safety, scenario.liveness) = (SECS(25), SECS(5));
    let report = sim::run(&scenario, Trace::Off);
    assert_eq!(report.broken, None);
    report.tally.writes.recordings
}

#[test]
fn a_mirror_of_two_carries_the_cameras_of_one_disk_and_stripes_those_of_two() {
    // Each disk's store begins as many. Where they lie is drawn for each disk.
    let (one, mirror, stripes) = (spread(1, 0, 125), spread(2, 2, 62), spread(2, 1, 125));
    assert_eq!((one, mirror, stripes), (125, 124, 250));
}

/// Both disks write each camera, and share the viewers: one has room for about 42.
#[test]
fn a_mirror_of_two_carries_the_cameras_of_one_disk_and_half_again_its_viewers() {
    let mut scenario = Scenario::steady(1, DriveProfile::Desktop, 6 << 30, BitRate(8_800_000), 63);
    scenario.disks = vec![scenario.disks[0].clone(); 2];
    (scenario.load.contents.mirrored, scenario.survive_disk_loss) = (true, false);
    scenario.load.contents.per_disk = 100;
    // Each disk's store begins as many.
    (scenario.load.recordings.recorded, scenario.load.recordings.rates) = (48, vec![BitRate(4_000_000)]);
    (scenario.load.recordings.copies, scenario.load.recordings.side_by_side) = (2, true);
    scenario.load.arrivals = Nanos::from_millis(200);
    scenario.load.viewing = (SECS(60), SECS(70));
    (scenario.safety, scenario.liveness) = (SECS(30), SECS(10));
    let RunReport { broken, tally, .. } = sim::run(&scenario, Trace::Off);
    assert_eq!(broken, None);
    assert_eq!(
        (tally.writes.recordings, tally.writes.recordings_refused, tally.deliveries.running_max),
        (96, 0, 63),
        "{tally:?}"
    );
}
