//! Worlds in which something once went wrong, as small as they still hold its cause. Each asserts the events in it, so that a
//! world without such events any more does not pass unseen.

use std::cell::Cell;
use std::sync::Arc;

use dataplane::gauges::Gauges;
use dataplane::{Plane, PlaneConfig};
use sim::drive::DriveProfile;
use sim::{Camera, Fault, FaultAt, Popularity, RunReport, Scenario, Trace};
use units::{BitRate, Nanos};

const MS: fn(u64) -> Nanos = Nanos::from_millis;
const SECS: fn(u64) -> Nanos = Nanos::from_secs;
const MIB: u64 = 1 << 20;

/// One disk, half a minute, streams that come and go.
fn small(profile: DriveProfile, streams: u32) -> Scenario {
    let mut scenario = Scenario::steady(7, profile, 256 << 20, BitRate(8_800_000), streams);
    scenario.be_share = 0.1;
    scenario.load.arrivals = MS(200);
    scenario.load.viewing = (SECS(2), SECS(20));
    (scenario.safety, scenario.liveness) = (SECS(30), SECS(15));
    scenario
}

fn with_uploads(mut scenario: Scenario, uploaders: u32) -> Scenario {
    scenario.load.uploads.uploaders = uploaders;
    scenario.load.uploads.bytes = (MIB, 20 * MIB);
    scenario
}

fn lawful(scenario: &Scenario) -> RunReport {
    let report = sim::run(scenario, Trace::Off);
    assert_eq!(report.broken, None);
    report
}

#[test]
fn short_reads_are_not_taken_for_a_cut_content() {
    // Few: each read that is short costs the disk a turn more, and a disk that is too slow for its streams ends some.
    let mut scenario = small(DriveProfile::Desktop, 8);
    scenario.short_read = 0.3;
    scenario.load.contents.fragments_max = 20;
    assert!(lawful(&scenario).tally.deliveries.completed > 8);
}

#[test]
fn streams_slower_than_a_page_a_tick_start_and_end() {
    let mut scenario = small(DriveProfile::Desktop, 40);
    scenario.load.rates = vec![BitRate(400_000)];
    scenario.load.contents.bytes = (1, 200_000);
    scenario.tick = scenario.cycle;
    scenario.load.burst_max = SECS(4);
    assert!(lawful(&scenario).tally.deliveries.completed > 40);
}

#[test]
fn a_disk_grants_again_after_a_grant_that_hung() {
    let mut scenario = with_uploads(small(DriveProfile::Desktop, 5), 3);
    scenario.liveness = SECS(30);
    scenario.faults = vec![FaultAt { at: SECS(10), lasts: SECS(8), fault: Fault::Hang { disk: 0 } }];
    let tally = lawful(&scenario).tally;
    assert!(
        tally.writes.uploads > tally.calm.writes.uploads && tally.calm.writes.uploads > 0,
        "before and after: {tally:?}"
    );
}

#[test]
fn bulk_reads_without_end_leave_uploads_their_share() {
    for profile in [DriveProfile::Desktop, DriveProfile::Surveillance, DriveProfile::SsdSata] {
        let mut scenario = with_uploads(small(profile, 10), 2);
        scenario.load.best_effort_share = 0.7;
        scenario.load.viewing = (SECS(60), SECS(120));
        let tally = lawful(&scenario).tally;
        assert!(tally.deliveries.best_effort > 2 && tally.writes.uploads > 5, "{profile:?}: {tally:?}");
    }
}

#[test]
fn bulk_reads_without_end_leave_small_reads_of_the_store_their_turn() {
    let mut scenario = small(DriveProfile::Desktop, 60);
    scenario.load.best_effort_share = 0.7;
    scenario.load.viewing = (SECS(60), SECS(120));
    scenario.load.probes = MS(700);
    let tally = lawful(&scenario).tally;
    assert!(tally.deliveries.best_effort > 20 && tally.disks.best_effort_wait_max < SECS(5), "{tally:?}");
}

#[test]
fn bulk_reads_without_a_buffer_leave_the_disk_free() {
    let mut scenario = with_uploads(small(DriveProfile::Desktop, 60), 1);
    scenario.chunks = 64;
    scenario.load.best_effort_share = 0.5;
    let tally = lawful(&scenario).tally;
    assert!(tally.deliveries.best_effort > 10 && tally.deliveries.refused > 0 && tally.writes.uploads > 0, "{tally:?}");
}

#[test]
fn a_late_loop_gives_no_viewer_the_delay_at_twice_its_rate() {
    let mut scenario = small(DriveProfile::Desktop, 40);
    scenario.load.burst_max = SECS(3);
    scenario.faults = (2..14).map(|n| FaultAt { at: SECS(2 * n), lasts: MS(150), fault: Fault::PlaneLate }).collect();
    assert!(lawful(&scenario).tally.deliveries.completed > 20);
}

#[test]
fn bursts_pauses_and_bulk_reads_fit_a_narrow_link() {
    let mut scenario = small(DriveProfile::SsdSata, 20);
    scenario.link = BitRate(100_000_000);
    scenario.load.burst_max = SECS(4);
    (scenario.load.best_effort_share, scenario.load.pause_share) = (0.3, 0.3);
    let tally = lawful(&scenario).tally;
    assert!(tally.deliveries.best_effort > 3 && tally.deliveries.completed > 20, "{tally:?}");
}

/// Clients that pause for longer than they may keep their reservation, and read again: it is theirs again, by the same
/// admission as anybody's.
#[test]
fn a_viewer_after_a_long_pause_reserves_again() {
    for profile in [DriveProfile::Desktop, DriveProfile::SsdSata] {
        let mut scenario = small(profile, 40);
        (scenario.load.pause_share, scenario.load.viewing) = (0.5, (SECS(20), SECS(40)));
        scenario.safety = SECS(60);
        scenario.stall_max = SECS(3);
        scenario.load.contents.per_disk = 60;
        let reserved_again = Cell::new(0);
        let report = sim::run_with(&scenario, Trace::Off, |io, machine| {
            let config =
                PlaneConfig { stall_max: scenario.stall_max, streams_max: 60, be_share: 0.1, ..PlaneConfig::default() };
            let gauges = Arc::new(Gauges::new(config.streams_max, machine.profiles.len()));
            let mut plane = Plane::new(config, machine.profiles.clone(), &[scenario.link], Arc::clone(&gauges), io);
            let mut shown = vec![(0, 0); gauges.streams.len()];
            let reserved_again = &reserved_again;
            move || {
                let goes_on = plane.turn();
                for (before, stream) in shown.iter_mut().zip(&gauges.streams) {
                    let now = (stream.id.get(), stream.rate_bps.get());
                    // The same delivery had no rate, and has one again.
                    reserved_again
                        .set(reserved_again.get() + u32::from(now.0 == before.0 && before.1 == 0 && now.1 > 0));
                    *before = now;
                }
                goes_on
            }
        });
        assert_eq!(report.broken, None, "{profile:?}");
        assert!(reserved_again.get() > 3, "{profile:?}: {:?}", report.tally);
    }
}

#[test]
fn a_session_that_goes_on_has_buffers_for_its_burst() {
    let mut scenario = small(DriveProfile::Desktop, 30);
    scenario.chunks = 128;
    scenario.load.hold_share = 1.0;
    scenario.load.burst_max = SECS(4);
    scenario.load.contents.per_disk = 5;
    scenario.load.contents.popularity = Popularity::Favourites;
    scenario.load.viewing = (SECS(1), SECS(3));
    assert!(lawful(&scenario).tally.deliveries.completed > 60);
}

#[test]
fn writes_of_recordings_do_not_stay_dirty() {
    let mut scenario = small(DriveProfile::Desktop, 60);
    scenario.load.recordings.apart = SECS(2);
    scenario.load.recordings.rates = vec![BitRate(25_000_000)];
    let tally = lawful(&scenario).tally;
    assert!(tally.writes.recordings > 3 && tally.writes.commits > 3, "{tally:?}");
}

/// A job had to fit into the rest of the round with a recording: of each half second the disk was idle for up to a third
/// while uploads waited (ten of 10,000 seeds), and a recording's buffer overflowed (one).
#[test]
fn a_disk_that_records_is_not_idle_while_uploads_wait() {
    for profile in [DriveProfile::Desktop, DriveProfile::T7k250, DriveProfile::Surveillance] {
        let mut scenario = with_uploads(small(profile, 10), 3);
        scenario.load.recordings.apart = SECS(5);
        let tally = lawful(&scenario).tally;
        assert!(tally.writes.recordings > 3 && tally.writes.uploads > 20, "{profile:?}: {tally:?}");
        assert_eq!(tally.disks.idle_beside_work_max, Nanos::ZERO, "{profile:?}: {tally:?}");
    }
}

#[test]
fn contents_in_the_page_cache_start_beside_commits_and_reads() {
    let mut scenario = with_uploads(small(DriveProfile::Desktop, 60), 3);
    scenario.load.contents.buffered_share = 0.4;
    scenario.load.contents.per_disk = 20;
    scenario.load.contents.popularity = Popularity::Favourites;
    let tally = lawful(&scenario).tally;
    assert!(tally.deliveries.completed > 40 && tally.writes.commits > 5, "{tally:?}");
}

#[test]
fn uploads_live_beside_a_full_disk_that_becomes_slow() {
    let mut scenario = with_uploads(small(DriveProfile::Surveillance, 80), 2);
    scenario.load.best_effort_share = 0.2;
    scenario.faults = vec![FaultAt { at: SECS(10), lasts: SECS(5), fault: Fault::Slow { disk: 0, factor: 2.5 } }];
    let tally = lawful(&scenario).tally;
    assert!(tally.deliveries.running_max > 20 && tally.writes.uploads > 3, "{tally:?}");
}

/// Ten streams and six recordings; the disk's reads would fit three times, with its recordings they do not. The law that no
/// stream ends on a disk that has time to spare counted the reads only.
#[test]
fn a_disk_that_records_has_less_time_to_spare() {
    let mut scenario = small(DriveProfile::Desktop, 10);
    scenario.load.viewing = (SECS(60), SECS(90));
    scenario.load.recordings.apart = MS(300);
    scenario.load.recordings.rates = vec![BitRate(60_000_000)];
    scenario.safety = SECS(40);
    scenario.faults = vec![FaultAt { at: SECS(20), lasts: SECS(15), fault: Fault::Slow { disk: 0, factor: 3.0 } }];
    let tally = lawful(&scenario).tally;
    assert!(tally.writes.recordings > 3 && tally.deliveries.shed > 0, "{tally:?}");
}

/// Cameras that fall silent while no commit succeeds: no more bytes of them come that would be made durable with those written,
/// so six seconds of each were not durable until they sent again (one of 1,500 seeds).
#[test]
fn bytes_of_failed_commits_become_durable_after_the_hang() {
    let mut scenario = small(DriveProfile::Desktop, 5);
    scenario.load.recordings.apart = MS(500);
    scenario.load.recordings.rates = vec![BitRate(500_000)];
    (scenario.load.recordings.cameras, scenario.load.recordings.recorded) = (vec![Camera::Silent], 8);
    scenario.load.recordings.durable = SECS(3);
    scenario.faults = vec![FaultAt { at: SECS(8), lasts: SECS(9), fault: Fault::BadSectors { disk: 0 } }];
    let tally = lawful(&scenario).tally;
    assert!(tally.writes.recordings > 3, "{tally:?}");
}
