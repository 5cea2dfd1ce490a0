//! More best-effort deliveries than there are pages for them: each newcomer gets its turn.

use crate::common::{MIB, Machine, delivery};
use content::FreshContent;
use dataplane::control::{Command, Outcome, Report, Service};
use units::{BitRate, ContentVersion, DiskId, Nanos};

/// Of this number of chunks, best effort has 48 pages.
const CHUNKS: u32 = 96;
const STEP: Nanos = Nanos::from_millis(10);

/// Many clients request this number of contents.
fn crowd(machine: &mut Machine, contents: u64, reads: bool) {
    for number in 1..=64 {
        machine.command(delivery(number, number % contents, 64 * MIB, Service::BestEffort));
        machine.later(STEP);
        if reads {
            machine.client_reads(0..=63);
        }
    }
}

/// After how many steps a newcomer has all of its content, with a socket that takes all bytes sent.
fn newcomer(machine: &mut Machine, size: u64, steps: u32, crowd_reads: bool) -> Option<u32> {
    machine.command(delivery(100, 100, size, Service::BestEffort));
    (0..steps).find(|_| {
        let mut reports = machine.later(STEP);
        reports.append(&mut machine.client_reads(if crowd_reads { 0..=64 } else { 64..=64 }));
        let is_end = |report: &Report| {
            matches!(report, Report::Finished { delivery, end } if delivery.stream.0 == 100 && end.outcome == Outcome::Complete)
        };
        reports.iter().any(is_end)
    })
}

#[test]
fn clients_that_take_nothing_keep_no_page_from_a_newcomer() {
    let mut machine = Machine::with_chunks(CHUNKS, BitRate(1_000_000_000));
    crowd(&mut machine, 64, false);
    let steps = newcomer(&mut machine, MIB, 1000, false);
    assert!(steps.is_some_and(|steps| steps <= 30), "{steps:?} steps of 10 ms");
}

#[test]
fn on_a_slow_link_a_newcomer_has_its_turn_as_all_others() {
    // Of few contents the others find their pages in the buffers, and the newcomer does not.
    for contents in [64, 8] {
        let mut machine = Machine::with_chunks(CHUNKS, BitRate(11_000_000));
        crowd(&mut machine, contents, true);
        // The bytes in the pages when it comes, and a page for each of those that came before it, pass the link in 21
        // s.
        let steps = newcomer(&mut machine, 100_000, 10_000, true);
        assert!(steps.is_some_and(|steps| steps <= 2100), "{contents}: {steps:?} steps of 10 ms");
    }
}

/// Its pages come from unused memory; bytes without room are read from the disk, which does not answer here.
#[test]
fn fresh_contents_are_sent_without_their_disk() {
    let mut machine = Machine::new(BitRate(1_000_000_000));
    let size = 3 * MIB + 5;
    let bytes = vec![0; usize::try_from(size).expect("few")];
    let stored = FreshContent { version: ContentVersion(7), disk: DiskId(0), bytes, has_rate: true };
    let reports = machine.command(Command::Keep(Box::new(stored.clone())));
    assert!(matches!(reports.as_slice(), [Report::Kept(kept)] if **kept == stored), "it comes back to be dropped");
    assert_eq!(machine.pages_used(), 0);
    let rated = Service::Constant { rate: BitRate(8_000_000), burst_bytes: 0, held: None, hold: false };
    for (number, service) in [(1, Service::BestEffort), (2, rated)] {
        machine.command(delivery(number, 7, size, service));
    }
    let mut ended = Vec::new();
    for _ in 0..1000 {
        let mut reports = machine.later(STEP);
        reports.append(&mut machine.clients_read());
        ended.extend(reports.into_iter().filter_map(|report| match report {
            Report::Finished { end, .. } => Some((end.outcome, end.sent_bytes)),
            _ => None,
        }));
    }
    assert_eq!(ended, [(Outcome::Complete, size); 2]);
    assert_eq!(machine.requested_from(0), 0);
}

/// How many of sixteen viewers at once of 19 s each are served whole, with this start burst, from memory for fewer.
fn served(burst_bytes: u64) -> usize {
    let mut machine = Machine::with_chunks(48, BitRate(1_000_000_000));
    let service = Service::Constant { rate: BitRate(8_800_000), burst_bytes, held: None, hold: false };
    for number in 1..=16 {
        machine.command(delivery(number, number, 20 * MIB, service));
        machine.later(STEP);
        machine.clients_read();
    }
    let mut whole = 0;
    for _ in 0..4000 {
        let mut reports = machine.later(STEP);
        reports.append(&mut machine.clients_read());
        whole += reports
            .iter()
            .filter(|report| matches!(report, Report::Finished { end, .. } if end.outcome == Outcome::Complete))
            .count();
    }
    assert_eq!(machine.misses(), 0);
    whole
}

#[test]
fn start_bursts_take_no_memory_from_later_viewers() {
    let without = served(0);
    assert!((4..16).contains(&without), "{without}");
    assert_eq!(served(15 * MIB), without);
}
