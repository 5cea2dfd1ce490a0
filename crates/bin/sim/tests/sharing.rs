//! Sharing is admitted: viewers of one content that memory can keep together cost its disk the reads of one.

use sim::drive::DriveProfile;
use sim::{Popularity, RunReport, Scenario, Trace};
use units::{BitRate, Nanos};

const RATE: BitRate = BitRate(8_800_000);
const MIB: u64 = 1 << 20;
/// Between two pauses, or two seeks, of 200 viewers if one in ten makes one each minute. There are two minutes of that from the
/// moment when all of them are there.
const TENTH_EACH_MINUTE: Nanos = Nanos::from_secs(3);

/// 200 viewers, 0.3 s apart, of 40 contents of 256 MiB by Zipf's law, 4 GiB of buffers, a 7200 rpm disk.
fn evening(seed: u64) -> Scenario {
    let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 4 << 30, RATE, 200);
    scenario.load.contents.per_disk = 40;
    scenario.load.contents.bytes = (256 * MIB, 256 * MIB);
    scenario.load.contents.popularity = Popularity::Zipf;
    scenario.load.arrivals = Nanos::from_millis(300);
    scenario.safety = Nanos::from_secs(70);
    scenario
}

fn run(scenario: &Scenario) -> RunReport {
    let report = sim::run(scenario, Trace::Tail);
    println!("{:?} {:?}", report.broken, report.tally);
    report
}

#[test]
fn an_evening_of_200_viewers_of_40_films_is_admitted() {
    let report = run(&evening(1));
    assert_eq!(report.broken, None);
    assert!(report.tally.deliveries.running_max >= 195, "{:?}", report.tally);
}

#[test]
fn viewers_that_pause_need_reads_of_their_own_and_get_them() {
    let mut scenario = evening(2);
    scenario.load.pauses = TENTH_EACH_MINUTE;
    scenario.liveness = Nanos::from_secs(120);
    let report = run(&scenario);
    assert_eq!(report.broken, None);
    assert!(report.tally.deliveries.running_max >= 190 && report.tally.pauses >= 45, "{:?}", report.tally);
    assert_eq!(report.tally.deliveries.late_after_pause, 0, "{:?}", report.tally);
}

#[test]
fn viewers_that_pause_and_seek_keep_their_rate() {
    let mut scenario = evening(3);
    scenario.load.pauses = TENTH_EACH_MINUTE;
    scenario.load.hold_share = 1.0;
    scenario.load.seeks = TENTH_EACH_MINUTE;
    scenario.liveness = Nanos::from_secs(120);
    let report = run(&scenario);
    assert_eq!(report.broken, None);
    assert!(
        report.tally.deliveries.running_max >= 190 && report.tally.deliveries.requested >= 235,
        "{:?}",
        report.tally
    );
    assert!(report.tally.pauses >= 45, "{:?}", report.tally);
    assert_eq!(report.tally.deliveries.late_after_pause, 0, "{:?}", report.tally);
}
