//! A disk that becomes slower while it has time to spare: what was admitted suffers last, so nobody may notice.
//!
//! Not here: a disk that becomes slower than what was promised of it allows, which excuses its streams (`faults`).

use sim::drive::Profile;
use sim::{Fault, FaultAt, Report, Scenario, Trace};
use units::{BitRate, Nanos};

const SECS: fn(u64) -> Nanos = Nanos::from_secs;

/// Seventy streams on a disk for a hundred and two writers that want the rest of it; for 25 s everything takes `factor` times
/// as long.
fn slower(factor: f64) -> Report {
    let mut scenario = Scenario::steady(1, Profile::Desktop, 3 << 30, BitRate(8_800_000), 70);
    scenario.be_share = 0.1;
    scenario.load.arrivals = Nanos::from_millis(200);
    scenario.load.viewing = (SECS(100), SECS(110));
    scenario.load.uploaders = 2;
    scenario.load.upload_rate = BitRate(8_000_000_000);
    (scenario.safety, scenario.liveness) = (SECS(60), SECS(15));
    scenario.faults = vec![FaultAt { at: SECS(30), lasts: SECS(25), fault: Fault::Slow { disk: 0, factor } }];
    let report = sim::run(&scenario, Trace::Off);
    assert_eq!(report.broken, None, "{factor}");
    assert!(report.tally.running_max > 60 && report.tally.uploads > 20, "{:?}", report.tally);
    report
}

#[test]
fn a_disk_that_is_slower_within_its_margin_costs_no_stream_a_tick() {
    for factor in [1.1, 1.2, 1.3] {
        assert_eq!(slower(factor).tally.excused_misses, 0, "{factor} times slower");
    }
}

#[test]
fn a_disk_three_times_slower_does() {
    assert!(slower(3.0).tally.excused_misses > 0, "else the test above would see nothing");
}
