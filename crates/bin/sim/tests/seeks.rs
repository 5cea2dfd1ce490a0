//! Viewers of a full disk that go elsewhere in their contents: each has its first byte in time or hears no, and a disk that
//! keeps its profile ends no stream, however many seek.

use sim::drive::DriveProfile;
use sim::{RunReport, Scenario, Trace};
use units::{BitRate, Nanos};

const SECS: fn(u64) -> Nanos = Nanos::from_secs;

/// As many films of 8.8 Mbit/s as a 7200 rpm disk carries, and `per_second` seeks a second, over a minute, among their viewers.
fn seeks(seed: u64, per_second: u64) -> RunReport {
    let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), 130);
    scenario.load.arrivals = Nanos::from_millis(100);
    scenario.load.hold_share = 1.0;
    scenario.load.seeks = Nanos(SECS(1).0 / per_second);
    (scenario.safety, scenario.liveness) = (SECS(30), SECS(60));
    let report = sim::run(&scenario, Trace::Tail);
    assert_eq!(report.broken, None, "{per_second} seeks/s");
    assert!(report.tally.deliveries.running_max > 95, "{:?}", report.tally);
    report
}

#[test]
fn seeks_on_a_full_disk_have_their_first_byte_in_time_or_are_refused() {
    for per_second in [10, 30] {
        let tally = seeks(1, per_second).tally;
        let asked = 60 * per_second;
        assert!(tally.deliveries.first_bytes > asked * 8 / 10, "{per_second} seeks/s: {tally:?}");
        assert!(tally.deliveries.sessions_refused < asked / 10, "{per_second} seeks/s: {tally:?}");
        assert_eq!((tally.deliveries.shed, tally.deliveries.excused_misses), (0, 0), "{per_second} seeks/s: {tally:?}");
    }
}

/// The unread rest of a start is promised no more when its viewer goes elsewhere: with those reads left in the table a
/// disk was idle for half of its time while viewers waited.
#[test]
fn a_disk_with_waiting_viewers_is_not_idle() {
    let calm = seeks(2, 30).tally.calm.spent;
    assert!(calm.idle.saturating_mul(20) < calm.total(), "{calm:?}");
}
