//! The whole data plane under the laws, seed by seed; `make sim` runs many more.

use sim::drive::DriveProfile;
use sim::{Law, RunReport, Scenario, Trace};
use units::{BitRate, Nanos};

fn assert_lawful(report: &RunReport) {
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

/// An old drive wrote blocks of 25 Mbit/s more slowly than promised, those of each next round joined the batch, and no upload came between
/// for 3 s.
#[test]
fn blocks_of_later_rounds_let_an_upload_come_between() {
    assert_lawful(&sim::run(&Scenario::draw(7259), Trace::Off));
}

/// A plane that was late by 150 ms on a link that is promised whole: for 3 s there was no room to make up for that.
#[test]
fn a_delay_is_made_up_for_as_far_as_the_link_has_room() {
    assert_lawful(&sim::run(&Scenario::draw(8211), Trace::Off));
}

/// An upload had its share of a tenth in jobs 6.5 s apart: the last one took longer than it had saved for.
#[test]
fn best_effort_waits_until_it_has_paid_and_saved() {
    assert_lawful(&sim::run(&Scenario::draw_viewers(35), Trace::Off));
}

#[test]
fn a_disk_filled_to_its_last_stream_keeps_every_deadline() {
    let scenario = Scenario::steady(1, DriveProfile::Desktop, 1 << 30, BitRate(8_800_000), 200);
    let report = sim::run(&scenario, Trace::Tail);
    assert_lawful(&report);
    assert!(report.tally.deliveries.running_max > 40 && report.tally.deliveries.refused > 0, "{:?}", report.tally);
}

#[test]
fn a_disk_four_times_slower_than_its_profile_must_fail() {
    let report = sim::run(&Scenario::canary(), Trace::Tail);
    assert_eq!(report.broken.as_ref().map(|b| b.law), Some(Law::EveryDeadline), "{:?}", report.tally);
    assert!(!report.tail.is_empty(), "and shows what happened before");
}

#[test]
fn many_starts_at_once_wait_for_seconds_and_break_no_law() {
    for seed in 0..3 {
        let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), 25);
        scenario.load.arrivals = Nanos::from_millis(5);
        let report = sim::run(&scenario, Trace::Tail);
        assert_lawful(&report);
        assert_eq!((report.tally.deliveries.started, report.tally.deliveries.first_bytes), (25, 25));
        assert!(report.tally.deliveries.first_byte_max < Nanos::from_secs(2), "{:?}", report.tally);
    }
}
