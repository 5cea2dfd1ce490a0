//! Best-effort deliveries: bytes in the buffers go out at once, clients that take nothing hold nothing, and a stream
//! continues after a newer read took over its reservation.

use crate::common::{MIB, Machine, RATE, delivery, viewer};
use dataplane::control::{Command, Outcome, Report, Service};
use units::{BitRate, Nanos, ReservationId, StreamId};

const LINK: BitRate = BitRate(1_000_000_000);
const SMALL: u64 = 16 << 10;

fn bulk(number: u64, content: u64, size: u64) -> Command {
    delivery(number, content, size, Service::BestEffort)
}

fn finished(reports: &[Report]) -> Vec<(u64, Outcome)> {
    let ends = reports.iter().filter_map(|report| match report {
        Report::Finished { delivery, end } => Some((delivery.stream.0, end.outcome)),
        _ => None,
    });
    ends.collect()
}

/// A machine that has read content 1, which is small.
fn warm() -> Machine {
    let mut machine = Machine::new(LINK);
    machine.disk_answers();
    machine.command(bulk(1, 1, SMALL));
    for _ in 0..4 {
        machine.later(Nanos::from_millis(10));
    }
    assert_eq!(finished(&machine.clients_read()), [(1, Outcome::Complete)]);
    machine
}

#[test]
fn buffered_bytes_are_sent_in_the_turn_of_their_command() {
    let mut machine = warm();
    for number in 2..100 {
        // A link has room left only as time passes.
        machine.later(Nanos::from_millis(1));
        machine.command(bulk(number, 1, SMALL));
        assert_eq!(machine.sends().len(), 1, "in the same turn");
        assert_eq!(finished(&machine.clients_read()), [(number, Outcome::Complete)]);
    }
}

#[test]
fn stalled_clients_hold_no_pages_and_delay_no_other() {
    let mut machine = warm();
    for number in 2..500 {
        machine.command(bulk(number, number, 64 * MIB));
        machine.later(Nanos::from_millis(10));
    }
    for _ in 0..500 {
        machine.later(Nanos::from_millis(500));
    }
    assert_eq!((machine.pages_used(), machine.awaited()), (0, 498), "all were given up, and all connections are kept");
    machine.command(bulk(500, 1, SMALL));
    let sends = machine.sends();
    assert_eq!(sends.len(), 1, "at once");
    // They continue at their old place when they read again.
    let reports = machine.clients_read();
    assert_eq!(finished(&reports), [(500, Outcome::Complete)]);
    machine.later(Nanos::from_millis(10));
    for _ in 0..20 {
        machine.later(Nanos::from_millis(10));
    }
    assert!(!machine.sends().is_empty() && machine.pages_used() > 0);
}

#[test]
fn a_newer_read_takes_the_reservation_over_and_the_older_one_continues_without() {
    let mut machine = Machine::new(BitRate(RATE.0 * 3 / 2));
    machine.disk_answers();
    let Some(Report::Started { reservation: Some(held), .. }) = machine.command(viewer(1)).pop() else {
        panic!("there is room for one")
    };
    for _ in 0..40 {
        machine.later(Nanos::from_millis(50));
        machine.clients_read();
    }
    let newer = |held: Option<ReservationId>| {
        let service = Service::Constant { rate: RATE, burst_bytes: 0, held, hold: false };
        delivery(2, 2, 64 * MIB, service)
    };
    let reports = machine.command(newer(Some(held)));
    let started = |report: &Report| matches!(report, Report::Started { stream, reservation: Some(_) } if stream.0 == 2);
    assert!(reports.iter().any(started), "{reports:?}");
    assert_eq!((finished(&reports), machine.promised()), (vec![], RATE.0));
    // Both are sent on; the older one in the room left on the link, and no faster than its rate.
    let (mut ended, mut sent) = (Vec::new(), std::collections::BTreeMap::<u32, u64>::new());
    for _ in 0..100 {
        machine.later(Nanos::from_millis(50));
        machine
            .sends()
            .iter()
            .for_each(|send| *sent.entry(send.socket.0).or_default() += u64::from(send.memory.length));
        ended.append(&mut finished(&machine.clients_read()));
    }
    assert_eq!((sent.len(), ended), (2, vec![]));
    let five_seconds = RATE.bytes_in(Nanos::from_secs(5));
    for (socket, bytes) in sent {
        assert!((1..five_seconds * 5 / 4).contains(&bytes), "socket {socket}: {bytes}");
    }
}

#[test]
fn a_paused_client_gives_its_reservation_back_and_gets_it_again_if_there_is_room() {
    let mut machine = Machine::new(LINK);
    machine.disk_answers();
    machine.command(Command::SetStall(Nanos::from_secs(2)));
    machine.command(viewer(1));
    let plays = |machine: &mut Machine| {
        let bytes = (0..40).map(|_| {
            machine.later(Nanos::from_millis(50));
            let sent: u64 = machine.sends().iter().map(|send| u64::from(send.memory.length)).sum();
            assert!(finished(&machine.clients_read()).is_empty());
            sent
        });
        bytes.sum::<u64>()
    };
    plays(&mut machine);
    assert_eq!(machine.promised(), RATE.0);
    for _ in 0..100 {
        assert!(finished(&machine.later(Nanos::from_millis(100))).is_empty(), "a pause ends nothing");
    }
    assert_eq!(machine.promised(), 0, "another viewer has room");
    let (two_seconds, after) = (RATE.bytes_in(Nanos::from_secs(2)), plays(&mut machine));
    assert!((two_seconds * 7 / 8..two_seconds * 7 / 4).contains(&after), "{after} bytes in two seconds");
    assert_eq!((machine.promised(), machine.shown(1).rate_bps.get()), (RATE.0, RATE.0), "it reads again");
    let steady = plays(&mut machine);
    assert!((two_seconds * 19 / 20..two_seconds * 21 / 20).contains(&steady), "{steady} bytes in two seconds");
    let later = (0..100).flat_map(|_| finished(&machine.later(Nanos::from_millis(250))));
    assert_eq!(later.collect::<Vec<_>>(), [(1, Outcome::ClientStalled)], "ten times as long");
}

/// Its session knows a reservation by its identifier. A reservation that was requested under another was in the way of the viewer's own
/// seek: MPlayer, after a pause of 90 s on a link with room for one, was refused.
#[test]
fn a_seek_takes_over_a_reservation_that_was_promoted() {
    let mut machine = Machine::new(BitRate(RATE.0 * 3 / 2));
    machine.disk_answers();
    machine.command(Command::SetStall(Nanos::from_secs(2)));
    let Some(Report::Started { reservation: Some(held), .. }) = machine.command(viewer(1)).pop() else {
        panic!("there is room for one")
    };
    let seek = |number: u64| {
        let service = Service::Constant { rate: RATE, burst_bytes: 0, held: Some(held), hold: true };
        delivery(number, number, 64 * MIB, service)
    };
    for _ in 0..100 {
        machine.later(Nanos::from_millis(100));
    }
    assert_eq!(machine.promised(), 0, "it pauses");
    while machine.promised() == 0 {
        machine.later(Nanos::from_millis(50));
        machine.clients_read();
    }
    let started = |report: &Report| matches!(report, Report::Started { reservation: Some(id), .. } if *id == held);
    assert!(machine.command(seek(2)).iter().any(started), "it plays again, and seeks in the next turn");
    assert_eq!(machine.promised(), RATE.0);

    for _ in 0..100 {
        machine.later(Nanos::from_millis(100));
    }
    assert_eq!(machine.promised(), 0, "it pauses again");
    assert!(machine.command(viewer(3)).iter().any(|report| matches!(report, Report::Started { .. })), "another viewer");
    assert!(machine.command(seek(4)).iter().any(|report| matches!(report, Report::Refused { .. })), "has the room now");
}

/// The older read, which had given the reservation back for its pause, gave it back again at its end.
#[test]
fn a_reservation_that_passed_to_a_newer_read_stays_with_that() {
    let mut machine = Machine::new(BitRate(RATE.0 * 3 / 2));
    machine.disk_answers();
    machine.command(Command::SetStall(Nanos::from_secs(2)));
    let Some(Report::Started { reservation: Some(held), .. }) = machine.command(viewer(1)).pop() else {
        panic!("there is room for one")
    };
    for _ in 0..100 {
        machine.later(Nanos::from_millis(100));
    }
    assert_eq!(machine.promised(), 0, "it pauses");
    let service = Service::Constant { rate: RATE, burst_bytes: 0, held: Some(held), hold: true };
    machine.command(delivery(2, 2, 64 * MIB, service));
    assert_eq!(machine.promised(), RATE.0);
    machine.command(Command::Stop(StreamId(1)));
    for _ in 0..20 {
        machine.later(Nanos::from_millis(50));
        machine.clients_read();
    }
    assert_eq!(machine.promised(), RATE.0, "the older one is over, and the newer one reads");
}
