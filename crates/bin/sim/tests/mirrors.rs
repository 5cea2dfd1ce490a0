//! A mirror of which one disk fails: every content has its other copies on other disks, so that no stream misses a tick.

use sim::drive::DriveProfile;
use sim::{Fault, FaultAt, RunReport, Scenario, Trace};
use units::{BitRate, Nanos};

const SECS: fn(u64) -> Nanos = Nanos::from_secs;

#[test]
fn a_mirror_without_loss_promise_carries_both_disks_load() {
    for disks in [2, 3] {
        let full = |survive_disk_loss| Scenario { survive_disk_loss, chunks: 16 << 10, ..full(1, disks) };
        let [careful, report] = [true, false].map(|survives| sim::run(&full(survives), Trace::Off));
        for report in [&careful, &report] {
            // Of all viewers that come at once to a full disk one may hear after five seconds that it does not start.
            assert_eq!((&report.broken, report.tally.deliveries.excused_misses), (&None, 0), "{:?}", report.tally);
            assert!(report.tally.deliveries.refused > 0, "it was full: {:?}", report.tally);
        }
        let [few, many] = [&careful, &report].map(|report| report.tally.deliveries.running_max);
        println!("{disks} disks: {few} and {many}");
        assert!(many * 10 > few * 17, "{disks} disks: {few} and {many}");
    }
}

/// A scenario of `disks` disks, with streams up to the number that admission grants.
fn full(seed: u64, disks: usize) -> Scenario {
    watched(seed, disks, 400)
}

/// The same with `streams` viewers.
fn watched(seed: u64, disks: usize, streams: u32) -> Scenario {
    let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), streams);
    scenario.disks = vec![scenario.disks[0].clone(); disks];
    scenario.load.contents.mirrored = true;
    scenario.load.contents.per_disk = 100;
    scenario.load.contents.bytes = (500 << 20, 600 << 20);
    scenario.load.arrivals = Nanos::from_millis(150);
    scenario.load.viewing = (SECS(100), SECS(110));
    (scenario.safety, scenario.liveness) = (SECS(75), SECS(15));
    scenario
}

/// The same with writers; for 25 s one of the disks has `fault`.
fn mirror(seed: u64, disks: usize, fault: Option<Fault>, uploaders: u32) -> RunReport {
    let mut scenario = full(seed, disks);
    scenario.load.uploads.uploaders = uploaders;
    scenario.load.uploads.rate = BitRate(8_000_000_000);
    scenario.be_share = if uploaders > 0 { 0.1 } else { 0.0 };
    scenario.faults.extend(fault.map(|fault| FaultAt { at: SECS(40), lasts: SECS(25), fault }));
    sim::run(&scenario, Trace::Off)
}

fn lawful(report: &RunReport, what: &str) {
    assert_eq!(report.broken, None, "{what}: {:?}", report.tally);
    let tally = &report.tally;
    assert!(tally.deliveries.refused > 0 && tally.deliveries.running_max > 40, "{what}: it was full: {tally:?}");
    assert_eq!(
        (tally.deliveries.excused_misses, tally.deliveries.completed),
        (0, tally.deliveries.started),
        "{what}: nobody noticed: {tally:?}"
    );
}

#[test]
fn a_disk_of_a_full_mirror_that_fails_costs_no_stream_a_tick() {
    for disks in [2, 3] {
        for seed in 1..=2 {
            for disk in [0, disks - 1] {
                let bad = [Fault::BadSectors { disk }, Fault::Lies { disk }];
                for fault in [Fault::Hang { disk }, Fault::Dead { disk }].into_iter().chain(bad) {
                    lawful(&mirror(seed, disks, Some(fault), 0), &format!("seed {seed}, {disks} disks, {fault:?}"));
                }
            }
        }
    }
}

/// A disk that does not answer for a moment is waited for where the other copy is on a disk that is dead: streams ended there,
/// though this one had the bytes they wanted.
#[test]
fn the_last_disk_of_a_mirror_may_be_silent_for_a_moment() {
    for seed in 1..=4 {
        for disk in [0, 1] {
            let dead = FaultAt { at: SECS(40), lasts: SECS(25), fault: Fault::Dead { disk } };
            let silent =
                FaultAt { at: SECS(50), lasts: Nanos::from_millis(1_800), fault: Fault::Hang { disk: 1 - disk } };
            // With time to make up for the loss.
            let report = sim::run(&Scenario { faults: vec![dead, silent], ..watched(seed, 2, 50) }, Trace::Off);
            let tally = &report.tally;
            let ended = (tally.deliveries.completed, tally.deliveries.shed);
            assert_eq!((&report.broken, ended), (&None, (tally.deliveries.started, 0)), "seed {seed}: {tally:?}");
        }
    }
}

#[test]
fn a_failed_mirror_disk_delays_no_stream_beside_writers() {
    // In 8, once, a stream's clock began although its next byte, on its second disk, could not come in time.
    for (seed, fault) in [(5, Fault::Hang { disk: 0 }), (8, Fault::Hang { disk: 0 }), (5, Fault::Dead { disk: 1 })] {
        let report = mirror(seed, 2, Some(fault), 2);
        assert!(report.tally.writes.uploads > 20, "{:?}", report.tally);
        lawful(&report, &format!("{fault:?} beside writers"));
    }
}

/// Worlds as seeds draw them, on two or three disks of one kind, with every content mirrored and one disk that fails once.
#[test]
fn no_drawn_world_of_mirrors_breaks_a_law_when_a_disk_fails() {
    for seed in 0..16 {
        let mut scenario = Scenario::draw(seed);
        let disks = 2 + usize::from(seed.is_multiple_of(3));
        scenario.disks = vec![scenario.disks[0].clone(); disks];
        scenario.load.contents.mirrored = true;
        let disk = usize::from(seed.is_multiple_of(2));
        let fault = match seed % 4 {
            0 => Fault::Hang { disk },
            1 => Fault::Dead { disk },
            2 => Fault::Lies { disk },
            _ => Fault::BadSectors { disk },
        };
        scenario.faults =
            vec![FaultAt { at: Nanos(scenario.safety.0 / 3), lasts: Nanos(scenario.safety.0 / 3), fault }];
        let report = sim::run(&scenario, Trace::Off);
        assert_eq!(report.broken, None, "seed {seed}, {fault:?}");
    }
}

/// Viewers that share each other's reads, on a mirror of which one disk hangs or dies: they are read for from the other one,
/// and are counted there when one of them reads for itself. The plane ended here: it took the reads of a group for one disk's.
#[test]
fn viewers_that_share_reads_continue_from_the_other_disk() {
    for seed in 0..8 {
        let mut scenario = watched(seed, 2, 150);
        scenario.load.contents.per_disk = 8;
        scenario.load.contents.popularity = sim::Popularity::Zipf;
        scenario.load.contents.bytes = (64 << 20, 256 << 20);
        scenario.load.pause_share = 0.2;
        scenario.load.hold_share = 0.5;
        scenario.load.seeks = SECS(1);
        let disk = usize::from(seed % 2 == 0);
        let fault = if seed % 3 == 0 { Fault::Dead { disk } } else { Fault::Hang { disk } };
        scenario.faults = vec![
            FaultAt { at: SECS(20), lasts: SECS(10), fault },
            FaultAt { at: SECS(45), lasts: SECS(10), fault: Fault::Hang { disk: 1 - disk } },
        ];
        let report = sim::run(&scenario, Trace::Off);
        assert_eq!(report.broken, None, "seed {seed}: {:?}", report.tally);
        assert!(report.tally.deliveries.running_max > 75, "{:?}", report.tally);
    }
}

/// Two viewers, or as few as memory has room for, with writers. A disk that fell silent while it had a batch of writes was
/// not noticed if all viewers that waited for it were listed at the other one.
#[test]
fn a_disk_silent_over_writes_costs_its_few_viewers_nothing() {
    for seed in 0..40 {
        let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 64 << 20, BitRate(25_000_000), 2);
        scenario.disks = vec![scenario.disks[0].clone(); 2];
        scenario.be_share = 0.1;
        scenario.load.contents.mirrored = true;
        scenario.load.contents.popularity = sim::Popularity::Favourites;
        scenario.load.contents.per_disk = 8;
        scenario.load.contents.bytes = (500 << 20, 600 << 20);
        scenario.load.arrivals = Nanos::from_millis(200);
        scenario.load.uploads.uploaders = 2;
        scenario.faults = vec![FaultAt { at: SECS(16), lasts: SECS(16), fault: Fault::Hang { disk: 1 } }];
        scenario.safety = SECS(48);
        let report = sim::run(&scenario, Trace::Off);
        assert_eq!(report.broken, None, "seed {seed}: {:?}", report.tally);
        assert!(report.tally.writes.uploads > 0 && report.tally.deliveries.running_max > 0, "{:?}", report.tally);
    }
}

/// Viewers that begin anywhere in a content, many of them in the last pages of one of its units. Their next read, of another
/// disk, was begun only when the first disk had looked again at its finished reads.
#[test]
fn a_start_near_the_end_of_a_unit_goes_on_from_the_next_disk_at_once() {
    for disks in [2, 3] {
        for seed in 0..40 {
            let mut scenario = Scenario { chunks: 3 << 10, be_share: 0.1, ..watched(seed, disks, 32) };
            scenario.load.rates = vec![BitRate(25_000_000)];
            scenario.load.contents.per_disk = 8;
            scenario.load.arrivals = Nanos::from_millis(200);
            scenario.load.uploads.uploaders = 2;
            (scenario.safety, scenario.liveness) = (SECS(25), Nanos::ZERO);
            let report = sim::run(&scenario, Trace::Off);
            assert_eq!(report.broken, None, "seed {seed}: {:?}", report.tally);
            assert!(report.tally.writes.uploads > 0 && report.tally.deliveries.started > 20, "{:?}", report.tally);
        }
    }
}

/// Several ranges of a mirrored content, as best effort, from disks of which one dies. The plane ended here: a page that was read
/// before its turn, and that then could not be read, was not known to be held.
#[test]
fn several_ranges_of_a_mirror_of_which_a_disk_dies_are_read_on() {
    for (disks, streams, ranges_share, seed) in [(3, 20, 1.0, 3), (3, 60, 0.5, 0), (3, 60, 1.0, 1), (2, 60, 1.0, 2)] {
        let mut scenario = watched(seed, disks, streams);
        (scenario.load.best_effort_share, scenario.load.ranges_share) = (0.5, ranges_share);
        scenario.load.contents.bytes = (1 << 20, 600 << 20);
        scenario.load.viewing = (SECS(2), SECS(110));
        scenario.faults = vec![FaultAt { at: SECS(30), lasts: SECS(10), fault: Fault::Dead { disk: 1 } }];
        let report = sim::run(&scenario, Trace::Off);
        assert_eq!(report.broken, None, "seed {seed}: {:?}", report.tally);
        assert!(report.tally.deliveries.best_effort > 5, "{:?}", report.tally);
    }
}
