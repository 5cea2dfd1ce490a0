//! The whole data plane under the laws, seed by seed; `make sim` runs many more.

use sim::drive::Profile;
use sim::{Law, Report, Scenario, Trace};
use units::{BitRate, Nanos};

fn assert_lawful(report: &Report) {
    if let Some(broken) = &report.broken {
        panic!(
            "seed {} at {broken}\nreplay: cargo run -p sim --release -- --seeds {} --trace",
            report.seed, report.seed
        );
    }
}

#[test]
fn the_same_seed_does_the_same_things_at_the_same_times() {
    for seed in [2, 3, 12] {
        let (one, two) = (sim::run(&Scenario::draw(seed), Trace::Off), sim::run(&Scenario::draw(seed), Trace::Off));
        assert_eq!((one.hash, one.events, one.ended), (two.hash, two.events, two.ended), "seed {seed}");
        assert_eq!(one.tally, two.tally, "seed {seed}");
        assert!(one.events > 1000, "seed {seed} does something");
    }
}

#[test]
fn no_seed_breaks_a_law() {
    for seed in 0..24 {
        assert_lawful(&sim::run(&Scenario::draw(seed), Trace::Off));
    }
}

/// Seeds that found something once, with what they found.
#[test]
fn seeds_that_found_something_stay_found() {
    let found = [
        (0, "a short read was taken for a cut content"),
        (1, "three reads in flight on a spindle; a quarter's pieces answered in the other order"),
        (3, "a stream with a small first block never started"),
        (71, "a start burst slower than it might be counted as missed deadlines"),
        (93, "a disk whose grant hung was never asked again"),
        (151, "a delivery ended without having started"),
        (294, "a start burst within one long tick was forgiven as a lag, and the rate with it"),
        (239, "bulk reads without end left an upload unacknowledged for ever"),
        (995, "a loop late for a stream's first tick gave the viewer the delay at twice its rate"),
        (1803, "the read that was out was left out of the test whether deadlines hold"),
        (4193, "a stream began on what the buffers had while a commit kept its disk"),
        (7329, "a stream that ran already was still served as a start, behind every promise"),
        (952, "bulk reads and the memory of a lull left uploads without a grant for ten seconds"),
        (1563, "a session's reservation was used for a larger burst than it had buffers for"),
        (1775, "on a slow disk bulk reads of a few megabytes kept an upload waiting for ten seconds"),
        (6014, "the last moment to keep a promise went to another read of the block under way"),
        (8583, "a bulk read without a buffer kept its disk from everybody"),
        (9028, "a busy disk never opened a window, and bursts were read as if they were promised"),
        (10463, "a stream began on what the buffers had while promised reads kept its disk"),
        (1310, "a window kept what it was lent although a stream was promised something since"),
        (
            1312,
            "a window filled to its end had no room for its flush by a hair, and what recordings wrote stayed dirty",
        ),
        (1624, "a window over the end of its round went on with bulk reads beside recordings"),
        (1896, "a drive served the later of two reads first, and a stream began before the other"),
        (3290, "bulk reads had longer windows than they needed, and took longer than foreseen"),
        (1734, "a clock began at a step that a late loop had still to feed"),
    ];
    for (seed, what) in found {
        let report = sim::run(&Scenario::draw(seed), Trace::Off);
        assert!(report.broken.is_none(), "seed {seed} ({what}) is back: {:?}", report.broken);
    }
}

#[test]
fn a_disk_filled_to_its_last_stream_keeps_every_deadline() {
    let scenario = Scenario::steady(1, Profile::Desktop, 1 << 30, BitRate(8_800_000), 200);
    let report = sim::run(&scenario, Trace::Tail);
    assert_lawful(&report);
    assert!(report.tally.running_max > 40 && report.tally.refused > 0, "{:?}", report.tally);
}

#[test]
fn a_disk_four_times_slower_than_admission_was_told_must_fail() {
    let report = sim::run(&Scenario::canary(), Trace::Tail);
    assert_eq!(report.broken.as_ref().map(|b| b.law), Some(Law::EveryDeadline), "{:?}", report.tally);
    assert!(!report.tail.is_empty(), "and shows what happened before");
}

#[test]
fn many_starts_at_once_wait_for_seconds_at_most_and_cost_nobody_a_deadline() {
    for seed in 0..3 {
        let mut scenario = Scenario::steady(seed, Profile::Desktop, 3 << 30, BitRate(8_800_000), 25);
        scenario.load.arrivals = Nanos::from_millis(5);
        let report = sim::run(&scenario, Trace::Tail);
        assert_lawful(&report);
        assert_eq!((report.tally.started, report.tally.first_bytes), (25, 25));
        assert!(report.tally.first_byte_max < Nanos::from_secs(2), "{:?}", report.tally);
    }
}
