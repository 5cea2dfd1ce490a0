//! Starts that come at once: a viewer that shares others' reads does not wait for disk time that no stream uses.

use schedule::profile::DiskProfile;
use sim::drive::DriveProfile;
use sim::{RunReport, Scenario, Trace};
use units::{BitRate, ByteCount, Nanos};

const RATE: BitRate = BitRate(8_800_000);
const CYCLE: Nanos = Nanos::from_millis(250);

/// `streams` viewers within a millisecond, spread over `contents` contents, on a disk that no program could measure.
fn at_once(seed: u64, contents: u32, streams: u32) -> RunReport {
    let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, RATE, streams);
    let size = RATE.bytes_in(Nanos::from_secs(60));
    scenario.load.contents.per_disk = contents;
    scenario.load.contents.bytes = (size, size);
    scenario.load.arrivals = Nanos::from_micros(10);
    scenario.safety = Nanos::from_secs(1);
    let drive = &mut scenario.disks[0];
    drive.profile = Some(DiskProfile::spindle_default().scaled_to(ByteCount(drive.parameters.size)));
    let report = sim::run(&scenario, Trace::Tail);
    assert_eq!(report.broken, None, "seed {seed}");
    assert_eq!(report.tally.deliveries.started, u64::from(streams));
    report
}

#[test]
fn forty_viewers_of_one_content_have_their_first_bytes_within_a_cycle() {
    for seed in 0..4 {
        let report = at_once(seed, 1, 40);
        assert_eq!(report.tally.deliveries.first_bytes, 40);
        assert!(report.tally.deliveries.first_byte_max < CYCLE, "seed {seed}: {:?}", report.tally);
    }
}

/// Each content is read once, however many viewers come: forty viewers of ten wait no longer than ten of ten, but for the rest
/// of a round. Forty of forty have forty starts to wait for.
#[test]
fn viewers_of_a_few_contents_wait_for_the_starts_of_those_only() {
    let round = Nanos::from_secs(1);
    let (few, shared, many) = (at_once(1, 10, 10), at_once(1, 10, 40), at_once(1, 40, 40));
    assert_eq!((few.tally.deliveries.first_bytes, shared.tally.deliveries.first_bytes), (10, 40));
    let longest = |report: &RunReport| report.tally.deliveries.first_byte_max;
    assert!(longest(&shared) < longest(&few).saturating_add(round), "{:?}", shared.tally);
    assert!(longest(&many) > longest(&shared).saturating_mul(2), "{:?}", many.tally);
}

/// More at once than a disk can begin with before the last of them has waited for too long: all viewers without room by then
/// hear no, and at once: the starts before them are known then. They heard it after the time that a start may wait.
#[test]
fn all_starts_that_would_be_late_are_refused_at_once() {
    let mut scenario = Scenario::steady(1, DriveProfile::Desktop, 3 << 30, BitRate(2_000_000), 390);
    scenario.load.arrivals = Nanos::from_millis(2);
    scenario.safety = Nanos::from_secs(20);
    scenario.load.viewing = (Nanos::from_secs(30), Nanos::from_secs(40));
    let report = sim::run(&scenario, Trace::Tail);
    assert_eq!(report.broken, None);
    assert!(report.tally.deliveries.started > 75 && report.tally.deliveries.refused > 20, "{:?}", report.tally);
    assert!(report.tally.deliveries.refusal_max < CYCLE, "{:?}", report.tally);
}

/// A server's restart: all viewers come back within five seconds, each to another content.
#[test]
fn a_herd_begins_in_time_or_is_refused_at_once() {
    for seed in 0..4 {
        let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, RATE, 76);
        scenario.load.contents.per_disk = 76;
        scenario.load.arrivals = Nanos::from_millis(66);
        scenario.load.viewing = (Nanos::from_secs(60), Nanos::from_secs(90));
        scenario.safety = Nanos::from_secs(20);
        let report = sim::run(&scenario, Trace::Tail);
        assert_eq!(report.broken, None, "seed {seed}");
        assert!(report.tally.deliveries.started > 65, "seed {seed}: {:?}", report.tally);
        assert!(report.tally.deliveries.refusal_max < CYCLE, "seed {seed}: {:?}", report.tally);
    }
}

/// More blocks of small streams than a disk can serve by deadline alone: served so, the queue grew from the ramp on for
/// want of sweeps until one was late.
#[test]
fn a_full_disk_of_slow_streams_is_served_in_sweeps_while_it_catches_up() {
    for seed in [142, 160] {
        let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(2_000_000), 400);
        scenario.load.arrivals = Nanos::from_millis(100);
        scenario.safety = Nanos::from_secs(90);
        scenario.load.viewing = (Nanos::from_secs(90), Nanos::from_secs(120));
        let report = sim::run(&scenario, Trace::Tail);
        assert_eq!(report.broken, None, "seed {seed}");
        assert!(report.tally.deliveries.started > 380, "seed {seed}: {:?}", report.tally);
    }
}
