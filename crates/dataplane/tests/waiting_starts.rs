//! Starts that wait for a disk: how many may, and what the next one is told.

mod common;

use common::{MIB, Machine, RATE, viewer};
use dataplane::control::{Command, Refusal, Report, Resource, Segment};
use units::{BitRate, DiskId, StreamId};

/// As decision 0007 says.
const MAY_WAIT: u64 = 128;

#[test]
fn the_129th_start_that_would_wait_is_refused_and_takes_nothing() {
    let mut machine = Machine::new(BitRate(10_000_000_000));
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    let started = std::iter::from_fn(|| (!machine.told(viewer(next())).is_empty()).then_some(())).count() as u64;
    assert!(started > 0, "an idle disk takes some");
    for waits in 1..MAY_WAIT {
        let reports = machine.told(viewer(next()));
        assert!(reports.is_empty(), "{waits} wait behind {started}: {reports:?}");
    }
    let all = (started + MAY_WAIT) * RATE.0;
    assert_eq!(machine.promised(), all);

    let proper = Refusal { resource: Resource::Disk(DiskId(0)), grantable: BitRate(0) };
    for _ in 0..3 {
        let reports = machine.told(viewer(next()));
        let [Report::Refused { delivery, refusal }] = reports.as_slice() else { panic!("{reports:?}") };
        assert_eq!(*refusal, proper);
        assert_eq!(*delivery.segments, [Segment::Range { offset: 0, length: 64 * MIB }], "as it was sent");
        assert_eq!(machine.promised(), all, "nothing is left of who was refused");
    }

    // A place that a viewer leaves is there for the next.
    let reports = machine.told(Command::Stop(StreamId(started + 1)));
    let [Report::Started { .. }, Report::Unused(_), Report::Finished { .. }] = reports.as_slice() else {
        panic!("{reports:?}")
    };
    let reports = machine.told(viewer(next()));
    assert!(reports.is_empty(), "{reports:?}");
    assert_eq!(machine.promised(), all);
}
