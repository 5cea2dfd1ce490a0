//! Many viewers of one content share its pages.

use crate::common::{MIB, Machine, RATE, delivery};
use dataplane::control::{Report, Service};
use dataplane::port::Sharing;
use units::{BitRate, Nanos};

#[test]
fn a_crowd_is_promised_and_brings_in_no_more_memory_than_its_contents_take() {
    let mut machine = Machine::new(BitRate(10_000_000_000));
    machine.disk_answers();
    let mut started = 0;
    // Each keeps its reservation for its next segment.
    for number in 1..=400 {
        let service = Service::Constant { rate: RATE, burst_bytes: MIB, held: None, hold: true };
        let mut reports = machine.command(delivery(number, number % 20, MIB, service));
        reports.append(&mut machine.later(Nanos::from_millis(50)));
        machine.clients_read();
        started += reports.iter().filter(|report| matches!(report, Report::Started { .. })).count();
    }
    let (promised, present) = machine.memory();
    assert!(started == 400 && promised <= 32 * MIB, "{started} were promised {promised} bytes of twenty contents");
    assert!(present <= 64 * MIB, "{present} bytes for {} in use", machine.pages_used());
}

#[test]
fn pages_of_a_crowd_are_lent_at_low_rates_and_across_pages() {
    for rate in [BitRate(2_000_000), BitRate(8_800_000)] {
        let mut machine = Machine::new(BitRate(10_000_000_000));
        machine.disk_answers();
        for number in 1..=5 {
            let service = Service::Constant { rate, burst_bytes: 0, held: None, hold: false };
            machine.command(delivery(number, 1, 32 * MIB, service));
        }
        let (mut sends, mut copied, mut in_two) = (0, 0, 0);
        for tick in 0..400 {
            machine.later(Nanos::from_millis(50));
            // All hold the pages from then on.
            if tick > 40 {
                let out = machine.sends();
                sends += out.len();
                copied += out.iter().filter(|send| send.sharing == Sharing::Single).count();
                in_two += out.iter().filter(|send| send.then.is_some()).count();
            }
            machine.clients_read();
        }
        assert!(sends > 500 && in_two >= 10, "{rate}: {sends} sends, {in_two} of bytes in two places");
        assert_eq!(copied, 0, "{rate}: of {sends}");
    }
}

#[test]
fn a_crowd_that_comes_at_once_is_answered_without_a_wait() {
    let mut machine = Machine::new(BitRate(1_000));
    // No link has room for them: each is refused at once.
    let service = Service::Constant { rate: RATE, burst_bytes: 0, held: None, hold: false };
    let reports = machine.command_together((1..=200).map(|number| delivery(number, number, MIB, service)));
    assert_eq!(reports.len(), 200, "{:?}", reports.last());
}
