//! The time to first byte: the starts that may wait for a disk, for how long, and the answers to the others.

use crate::common::{MIB, Machine, RATE, viewer};
use content::Segment;
use dataplane::control::{Command, Outcome, RecordingRequest, Refusal, Report, Resource, WrittenDisks};
use units::{BitRate, DiskId, LinkId, Nanos, StreamId, limits};

const FIRST_BYTE_MAX: Nanos = Nanos::from_secs(10);
const NO: Refusal = Refusal { resource: Resource::Disk(DiskId(0)), grantable: BitRate(0) };

/// A machine with a disk that does not answer, how many viewers it began to read for, and with the next one how many
/// came.
fn with_one_that_waits() -> (Machine, u64) {
    let mut machine = Machine::new(BitRate(10_000_000_000));
    let begun = (1..500).take_while(|&number| !machine.command(viewer(number)).is_empty()).count() as u64;
    assert!((1..499).contains(&begun), "an idle disk takes some, but not all: {begun}");
    (machine, begun)
}

#[test]
fn a_start_too_late_behind_the_queue_is_refused_at_once() {
    let (mut machine, begun) = with_one_that_waits();
    let refused = (begun + 2..900).find_map(|number| {
        let reports = machine.command(viewer(number));
        (!reports.is_empty()).then_some((number, reports))
    });
    let (number, reports) = refused.expect("the time is used up by some number of them");
    let [Report::Unused(_), Report::Refused { delivery, refusal }] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((delivery.stream, *refusal), (StreamId(number), NO));
    assert_eq!(*delivery.segments, [Segment::Range { offset: 0, length: 64 * MIB }], "as it was sent");
    let all = (number - 1) * RATE.0;
    assert_eq!(machine.promised(), all, "nothing is left of who was refused");

    // The start that waited longest leaves, and one more can wait.
    let reports = machine.command(Command::Stop(StreamId(begun + 1)));
    let [Report::Unused(_), Report::Started { .. }, Report::Finished { .. }] = reports.as_slice() else {
        panic!("{reports:?}")
    };
    assert!(machine.later(Nanos::from_secs(1)).is_empty());
    assert!(machine.command(viewer(number + 1)).is_empty());
    assert_eq!(machine.promised(), all);
}

#[test]
fn a_start_without_a_first_byte_in_time_is_refused() {
    let (mut machine, begun) = with_one_that_waits();
    assert!(machine.later(FIRST_BYTE_MAX - Nanos(1)).is_empty());
    let reports = machine.later(Nanos(1));
    let waited = reports.iter().filter(|report| matches!(report, Report::Refused { refusal: NO, .. })).count();
    let late = reports.iter().filter(|report| match report {
        Report::Finished { end, .. } => (end.outcome, end.sent_bytes) == (Outcome::StartTooLate, 0),
        _ => false,
    });
    assert_eq!((waited as u64, late.count() as u64), (1, begun), "{reports:?}");
    assert_eq!(machine.promised(), 0);
}

fn recording(number: u64, rate: BitRate) -> Command {
    let (disks, link) = (WrittenDisks::one(DiskId(0)), LinkId(0));
    let (durable, block_bytes_max) = (Nanos::from_secs(10), limits::BLOCK_BYTES_MAX);
    Command::Reserve(RecordingRequest { stream: StreamId(number), disks, link, rate, durable, block_bytes_max })
}

/// Streams that start read more than later. A recording was refused at once then, though the disk had time for it.
#[test]
fn a_recording_waits_for_the_starts_of_streams_no_longer_than_for_a_block() {
    let (mut machine, _) = with_one_that_waits();
    let promised = machine.promised();
    assert!(machine.command(recording(900, BitRate(96_000_000))).is_empty());
    assert!(machine.later(Nanos::from_secs(2) - Nanos(1)).is_empty());
    let reports = machine.later(Nanos(1));
    let [Report::ReserveRefused { stream, refusal }] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((*stream, *refusal), (StreamId(900), NO));
    assert_eq!(machine.promised(), promised, "nothing of it is left");
}

#[test]
fn a_recording_waits_for_the_places_of_others_no_longer_than_for_a_block() {
    let mut machine = Machine::new(BitRate(10_000_000_000));
    let admitted = (1..500)
        .take_while(|&number| !machine.command(recording(number, BitRate(4_000_000))).is_empty())
        .count() as u64;
    assert!((1..499).contains(&admitted), "some have room, all charged for the worst: {admitted}");
    let promised = machine.promised();
    assert!(machine.later(Nanos::from_secs(2) - Nanos(1)).is_empty());
    let reports = machine.later(Nanos(1));
    let [Report::ReserveRefused { stream, refusal }] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((*stream, refusal.resource), (StreamId(admitted + 1), Resource::Disk(DiskId(0))));
    assert_eq!(machine.promised(), promised, "nothing of it is left");
}
