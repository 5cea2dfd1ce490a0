//! Pages that cannot be read: a stream that waits for one sends the bytes before it, and a later stream reads it anew.

use crate::common::{MIB, Machine, RATE, delivery};
use dataplane::control::{Command, Outcome, Report, Service};
use units::{BitRate, Nanos};

/// More than is read at the start.
const SIZE: u64 = 32 * MIB;
const FAST: Service = Service::Constant { rate: BitRate(RATE.0 * 16), burst_bytes: 0, held: None, hold: false };

/// A viewer of the content that all watch.
fn viewer(number: u64, service: Service) -> Command {
    delivery(number, 1, SIZE, service)
}

/// Plays for `span`: the streams that ended, with their outcomes and bytes sent.
fn play(machine: &mut Machine, span: Nanos) -> Vec<(u64, Outcome, u64)> {
    let mut reports = Vec::new();
    for _ in 0..span.0 / Nanos::from_millis(50).0 {
        reports.append(&mut machine.later(Nanos::from_millis(50)));
        reports.append(&mut machine.clients_read());
    }
    let ended = |report: &Report| match report {
        Report::Finished { delivery, end } => Some((delivery.stream.0, end.outcome, end.sent_bytes)),
        _ => None,
    };
    reports.iter().filter_map(ended).collect()
}

#[test]
fn viewers_of_an_unreadable_page_get_the_bytes_before_it() {
    for service in [FAST, Service::BestEffort] {
        let mut machine = Machine::new(BitRate(RATE.0 * 64));
        machine.disk_answers();
        machine.command(viewer(1, service));
        machine.command(viewer(2, service));
        assert_eq!(play(&mut machine, Nanos::from_secs(1)), []);
        machine.break_disks(&[0], &[]);
        let ended = play(&mut machine, Nanos::from_secs(60));
        let [(one, Outcome::DiskError, sent), (two, Outcome::DiskError, _)] = ended.as_slice() else {
            panic!("{service:?}: {ended:?}")
        };
        assert_eq!(one + two, 3, "{service:?}: both of them");
        assert!(*sent >= MIB && sent.is_multiple_of(256 << 10), "{service:?}: whole pages, {sent}");
        assert_eq!(machine.pages_used(), 0, "{service:?}: and nothing is held");
    }
}

/// Found by the simulator: newcomers found the page that an earlier viewer still held, and ended with its error.
#[test]
fn a_later_viewer_reads_a_failed_page_anew() {
    for service in [FAST, Service::BestEffort] {
        let mut machine = Machine::new(BitRate(RATE.0 * 64));
        machine.disk_answers();
        machine.command(viewer(1, FAST));
        play(&mut machine, Nanos::from_secs(1));
        machine.break_disks(&[0], &[]);
        assert_eq!(play(&mut machine, Nanos::from_secs(5)), []);
        machine.break_disks(&[], &[]);
        machine.command(viewer(2, service));
        let ended = play(&mut machine, Nanos::from_secs(60));
        let first = ended.iter().position(|(number, ..)| *number == 1).expect("it ended");
        assert_eq!(ended[first].1, Outcome::DiskError, "{service:?}");
        assert_eq!(ended[1 - first], (2, Outcome::Complete, SIZE), "{service:?}");
    }
}
