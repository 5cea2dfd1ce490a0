//! Many viewers of one content: what they are promised is not what they use.

mod common;

use common::{MIB, Machine, RATE, delivery};
use dataplane::control::{Report, Service};
use units::{BitRate, Nanos};

#[test]
fn memory_comes_for_what_a_crowd_reads_and_not_for_what_it_was_promised() {
    let mut machine = Machine::new(BitRate(10_000_000_000));
    machine.disk_answers();
    let mut started = 0;
    // Each keeps its reservation for its next segment.
    for number in 1..=400 {
        let service = Service::Constant { rate: RATE, burst_bytes: MIB, held: None, hold: true };
        let mut reports = machine.told(delivery(number, number % 20, MIB, service));
        reports.append(&mut machine.later(Nanos::from_millis(50)));
        machine.clients_read();
        started += reports.iter().filter(|report| matches!(report, Report::Started { .. })).count();
    }
    let (promised, present) = machine.memory();
    assert!(started > 100 && promised > 256 * MIB, "{started} were promised {promised} bytes");
    assert!(present <= 64 * MIB, "{present} bytes for {} in use", machine.pages_used());
}
