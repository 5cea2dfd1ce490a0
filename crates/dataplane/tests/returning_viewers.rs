//! Viewers that return: before newcomers where there is no room, and before those that wait for their start.

mod common;

use std::collections::VecDeque;

use common::{Machine, RATE, viewer, viewer_as};
use dataplane::control::{Command, RecordingRequest, Refusal, Report, Resource, Standing};
use units::{BitRate, DiskId, LinkId, Nanos, StreamId};

/// Room for two: the link is what is short.
const LINK: BitRate = BitRate(RATE.0 * 5 / 2);
const SECOND: Nanos = Nanos::from_secs(1);
/// As decision 0013 says.
const MAY_RETURN: u64 = 128;

fn returns(number: u64) -> Command {
    viewer_as(number, Standing::Returning)
}

fn stop(number: u64) -> Command {
    Command::Stop(StreamId(number))
}

/// Who starts, in this order, and who is refused.
fn started_and_refused(reports: Vec<Report>) -> (Vec<u64>, Vec<u64>) {
    let (mut started, mut refused) = (Vec::new(), Vec::new());
    for report in reports {
        match report {
            Report::Started { stream, reservation: Some(_) } => started.push(stream.0),
            Report::Refused { delivery, .. } => refused.push(delivery.stream.0),
            _ => {}
        }
    }
    (started, refused)
}

/// How a request that is answered at once is.
fn refusal_of(reports: &[Report]) -> Option<Refusal> {
    match reports {
        [Report::Started { .. }, ..] => None,
        [Report::Refused { refusal, .. }] => Some(*refusal),
        _ => panic!("{reports:?}"),
    }
}

/// A machine in which 1 and 2 stream, and nobody else can.
fn full() -> Machine {
    let mut machine = Machine::new(LINK);
    for number in [1, 2] {
        assert_eq!(refusal_of(&machine.told(viewer(number))), None);
    }
    assert!(refusal_of(&machine.told(viewer(3))).is_some(), "there is no room for three");
    machine
}

#[test]
fn what_becomes_free_is_for_who_returned_and_not_for_newcomers() {
    let mut machine = full();
    assert!(machine.told(returns(4)).is_empty(), "it waits");
    let nothing = Refusal { resource: Resource::Network(LinkId(0)), grantable: BitRate(0) };
    assert_eq!(refusal_of(&machine.told(viewer(5))), Some(nothing));
    machine.told(stop(1));
    assert_eq!(machine.promised(), RATE.0, "there is room");
    assert_eq!(refusal_of(&machine.told(viewer(6))), Some(nothing), "and no newcomer takes it");
    let recording = RecordingRequest { stream: StreamId(7), disk: DiskId(0), link: LinkId(0), rate: RATE };
    let reports = machine.told(Command::Reserve(recording));
    assert!(
        matches!(reports.as_slice(), [Report::ReserveRefused { refusal, .. }] if *refusal == nothing),
        "{reports:?}"
    );
    assert_eq!(started_and_refused(machine.later(SECOND)), (vec![4], vec![]));

    machine.told(stop(2));
    assert_eq!(refusal_of(&machine.told(viewer(8))), None, "nobody waits any more");
    assert_eq!(machine.promised(), 2 * RATE.0);
}

#[test]
fn who_watches_gives_way_to_nobody() {
    let mut machine = full();
    assert!(machine.told(returns(4)).is_empty(), "it waits");
    machine.told(stop(1));
    assert_eq!(refusal_of(&machine.told(viewer_as(5, Standing::Present))), None, "it gave back as much for it");
    let refused = refusal_of(&machine.told(viewer_as(6, Standing::Present)));
    assert!(refused.is_some(), "it does not wait for room either: {refused:?}");
    assert_eq!(started_and_refused(machine.later(SECOND)), (vec![], vec![]));
}

#[test]
fn those_who_return_are_let_in_in_their_order_and_as_long_as_a_start_may_wait() {
    let mut machine = full();
    for number in [4, 5, 6] {
        assert!(machine.told(returns(number)).is_empty(), "{number} waits");
    }
    machine.told(stop(1));
    assert!(machine.told(returns(7)).is_empty(), "nor does one of them overtake the others");
    assert_eq!(started_and_refused(machine.later(SECOND)), (vec![4], vec![]));
    let reports = machine.told(stop(5));
    assert!(
        matches!(reports.as_slice(), [Report::Started { reservation: None, .. }, Report::Finished { end, .. }] if end.held.is_none()),
        "its viewer is gone: {reports:?}"
    );
    assert_eq!(started_and_refused(machine.later(Nanos::from_secs(13))), (vec![], vec![]));
    assert_eq!(started_and_refused(machine.later(SECOND)), (vec![], vec![6, 7]), "fifteen seconds are over");
    assert_eq!(machine.promised(), 2 * RATE.0, "nothing is left of them");
    machine.told(stop(2));
    assert_eq!(refusal_of(&machine.told(viewer(8))), None);
}

#[test]
fn who_waits_for_room_is_refused_when_the_server_is_about_to_stop() {
    let mut machine = full();
    assert!(machine.told(returns(4)).is_empty(), "it waits");
    machine.told(Command::Drain);
    let reports = machine.later(SECOND);
    let [Report::Refused { refusal, .. }] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!(refusal.resource, Resource::Draining);
}

#[test]
fn the_129th_that_would_wait_for_room_is_refused() {
    let mut machine = full();
    for number in 10..10 + MAY_RETURN {
        assert!(machine.told(returns(number)).is_empty(), "{number} waits");
    }
    assert!(refusal_of(&machine.told(returns(9))).is_some());
    assert_eq!(machine.promised(), 2 * RATE.0);
}

#[test]
fn who_returned_starts_before_newcomers_that_waited_longer() {
    let mut machine = Machine::new(BitRate(10_000_000_000));
    let started = (1..).find(|&number| machine.told(viewer(number)).is_empty()).expect("some have to wait") - 1;
    for waits in started + 2..started + 20 {
        assert!(machine.told(viewer(waits)).is_empty());
    }
    let mut expected = VecDeque::from([501, 502]);
    for number in expected.clone() {
        assert!(machine.told(returns(number)).is_empty(), "it waits, too");
    }
    expected.extend(started + 1..started + 20);
    machine.disk_answers();
    for _ in 0..60 {
        let (started, refused) = started_and_refused(machine.later(Nanos::from_millis(250)));
        assert_eq!(refused, []);
        for number in started {
            assert_eq!(Some(number), expected.pop_front(), "in this order");
        }
    }
    assert!(expected.is_empty(), "{expected:?} still wait");
}
