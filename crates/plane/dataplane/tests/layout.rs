//! Contents on several disks: read from all of them, promised on all of them, and from another copy when a disk fails.

use crate::common::{MIB, Machine, RATE, delivery_of, disks};
use content::layout::{ContentLayout, Unit};
use dataplane::control::{Outcome, Report, Service};
use units::{BitRate, Nanos};

const LINK: BitRate = BitRate(1_000_000_000);
/// More than a stream reads ahead.
const SIZE: u64 = 32 * MIB;
/// Much for one stream: all is sent within [`LONG`].
const FAST: Service = Service::Constant { rate: BitRate(RATE.0 * 8), burst_bytes: 0, held: None, hold: false };
const LONG: Nanos = Nanos::from_secs(100);

fn unit(logical: u64, length: u64, file: u16) -> Unit {
    Unit { logical, length, file, offset: 1024 * MIB + logical }
}

/// Units of 1 MiB on two disks in turn.
fn striped() -> ContentLayout {
    let units = (0u16..32).map(|nth| unit(u64::from(nth) * MIB, MIB, nth % 2)).collect();
    ContentLayout::new(disks(2), Box::new([units]))
}

/// All on each of two disks.
fn mirrored() -> ContentLayout {
    ContentLayout::new(disks(2), Box::new([Box::new([unit(0, SIZE, 0)]), Box::new([unit(0, SIZE, 1)])]))
}

/// Time passes, and no client reads.
fn play_unread(machine: &mut Machine, span: Nanos) {
    for _ in 0..span.0 / Nanos::from_millis(10).0 {
        machine.later(Nanos::from_millis(10));
    }
}

/// Plays for `span`: the streams that ended, and whether all of each was sent.
fn play(machine: &mut Machine, span: Nanos) -> Vec<(u64, bool)> {
    let mut reports = Vec::new();
    for _ in 0..span.0 / Nanos::from_millis(50).0 {
        reports.append(&mut machine.later(Nanos::from_millis(50)));
        reports.append(&mut machine.clients_read());
    }
    let mut ended: Vec<_> = reports
        .iter()
        .filter_map(|report| match report {
            Report::Finished { delivery, end } => Some((delivery.stream.0, end.sent_bytes == SIZE)),
            _ => None,
        })
        .collect();
    ended.sort_unstable();
    ended
}

#[test]
fn a_striped_content_is_read_from_and_promised_on_each_of_its_disks() {
    for service in [FAST, Service::BestEffort] {
        let mut machine = Machine::with_disks(2, LINK);
        machine.disk_answers();
        machine.command(delivery_of(1, 1, SIZE, striped(), service));
        if service != Service::BestEffort {
            let (one, two) = (machine.promised_on(0), machine.promised_on(1));
            assert!(one > 0.0 && (0.9..1.1).contains(&(one / two)), "{one} {two}");
        }
        assert_eq!(play(&mut machine, LONG), [(1, true)], "{service:?}");
        assert_eq!((machine.read_from(0), machine.read_from(1)), (SIZE / 2, SIZE / 2));
        assert!(machine.promised_on(0) + machine.promised_on(1) < 1e-9, "all is given back");
    }
}

#[test]
fn a_bulk_read_keeps_all_disks_of_a_content_busy() {
    let mut machine = Machine::with_disks(2, LINK);
    machine.command(delivery_of(1, 1, SIZE, striped(), Service::BestEffort));
    assert_eq!((machine.requested_from(0), machine.requested_from(1)), (2 * MIB, MIB));
    // A client that takes nothing leaves a unit of each, and one more, in the buffers.
    machine.disk_answers();
    play_unread(&mut machine, Nanos::from_millis(500));
    assert_eq!((machine.read_from(0), machine.read_from(1)), (2 * MIB, MIB));
    assert_eq!(play(&mut machine, LONG), [(1, true)]);
    assert_eq!((machine.read_from(0), machine.read_from(1)), (SIZE / 2, SIZE / 2), "nothing is read twice");
    assert_eq!(machine.pages_used(), 0, "all is given back");
}

#[test]
fn a_page_unreadable_in_all_copies_ends_a_bulk_read_there() {
    for erring in [0, 1] {
        let mut machine = Machine::with_disks(2, LINK);
        machine.disk_answers();
        machine.break_disks(&[erring], &[]);
        machine.command(delivery_of(1, 1, SIZE, striped(), Service::BestEffort));
        let mut reports = Vec::new();
        for _ in 0..100 {
            reports.append(&mut machine.later(Nanos::from_millis(50)));
            reports.append(&mut machine.clients_read());
        }
        let sent = reports.iter().find_map(|report| match report {
            Report::Finished { end, .. } => Some((end.sent_bytes, end.outcome)),
            _ => None,
        });
        assert_eq!(sent, Some((u64::from(erring) * MIB, Outcome::DiskError)));
        assert_eq!(machine.pages_used(), 0, "all is given back");
    }
}

#[test]
fn failed_reads_are_made_again_from_the_other_copy() {
    for service in [FAST, Service::BestEffort] {
        let mut machine = Machine::with_disks(2, LINK);
        machine.disk_answers();
        machine.break_disks(&[0], &[]);
        machine.command(delivery_of(1, 1, SIZE, mirrored(), service));
        assert_eq!(play(&mut machine, LONG), [(1, true)], "{service:?}");
        assert_eq!(machine.read_from(1), SIZE);
    }
}

#[test]
fn failed_reads_go_before_the_bulk_reads_of_the_other_disk() {
    let mut machine = Machine::with_disks(2, LINK);
    machine.disks_answer_one_by_one();
    machine.break_disks(&[0], &[]);
    let on_the_other = || ContentLayout::new(disks(2), Box::new([Box::new([unit(0, SIZE, 1)])]));
    machine.command_together((2..40).map(|n| delivery_of(n, n, SIZE, on_the_other(), Service::BestEffort)));
    let on_both = ContentLayout::new(disks(2), Box::new([Box::new([unit(0, MIB, 0)]), Box::new([unit(0, MIB, 1)])]));
    machine.command(delivery_of(1, 1, MIB, on_both, Service::BestEffort));
    let is_over = |report: &Report| matches!(report, Report::Finished { delivery, .. } if delivery.stream.0 == 1);
    let mut turns = 0;
    while !machine.later(Nanos::from_millis(1)).iter().any(is_over) && !machine.clients_read().iter().any(is_over) {
        turns += 1;
        assert!(turns < 50, "its bytes wait for {} of others", machine.read_from(1));
    }
}

#[test]
fn wrong_bytes_are_read_again_from_the_other_copy() {
    for service in [FAST, Service::BestEffort] {
        let mut machine = Machine::with_disks(2, LINK);
        machine.disk_answers();
        machine.let_lie(&[0]);
        machine.command(delivery_of(1, 1, SIZE, mirrored(), service));
        assert_eq!(play(&mut machine, LONG), [(1, true)], "{service:?}");
        assert_eq!(machine.read_from(1), SIZE);
        machine.let_lie(&[0, 1]);
        machine.command(delivery_of(2, 2, SIZE, mirrored(), service));
        assert_eq!(play(&mut machine, LONG), [(2, false)], "{service:?}: not a byte of it");
    }
}

#[test]
fn a_disk_that_was_pulled_out_is_read_from_the_other_copy() {
    for service in [FAST, Service::BestEffort] {
        let mut machine = Machine::with_disks(2, LINK);
        machine.disk_answers();
        machine.let_end(&[0]);
        machine.command(delivery_of(1, 1, SIZE, mirrored(), service));
        assert_eq!(play(&mut machine, LONG), [(1, true)], "{service:?}");
        assert_eq!(machine.read_from(1), SIZE);
    }
}

#[test]
fn a_disk_that_falls_silent_costs_a_mirrored_stream_nothing_but_the_wait() {
    for service in [FAST, Service::BestEffort] {
        let mut machine = Machine::with_disks(2, BitRate(RATE.0 * 64));
        machine.disk_answers();
        machine.command(delivery_of(1, 1, SIZE, mirrored(), service));
        assert_eq!(play(&mut machine, Nanos::from_secs(2)), []);
        let before = machine.read_from(0);
        assert!(before > 0 && before < SIZE && machine.read_from(1) == 0, "{service:?}: {before}");
        machine.break_disks(&[], &[0]);
        assert_eq!(play(&mut machine, LONG), [(1, true)], "{service:?}");
        assert!(machine.read_from(1) > 0);
        // A new one begins on the copy that answers.
        machine.command(delivery_of(2, 2, SIZE, mirrored(), service));
        assert_eq!(play(&mut machine, LONG), [(2, true)], "{service:?}");
    }
}

#[test]
fn a_silent_disk_ends_only_streams_without_another_copy() {
    let mut machine = Machine::with_disks(2, LINK);
    machine.disk_answers();
    machine.command(delivery_of(1, 1, SIZE, striped(), FAST));
    let alone = ContentLayout::new(disks(2), Box::new([Box::new([unit(0, SIZE, 0)])]));
    machine.command(delivery_of(2, 2, SIZE, alone, FAST));
    play(&mut machine, Nanos::from_secs(2));
    machine.break_disks(&[], &[1]);
    assert_eq!(play(&mut machine, LONG), [(1, false), (2, true)]);
}

/// As a mirrored volume on two disks has it: first copies in turn, low on each disk; second ones high on the other.
fn chained(number: u64) -> ContentLayout {
    let copy = |first: u16, from: u64| {
        let units = (0u16..32).map(|nth| Unit {
            offset: from + u64::from(nth) * MIB,
            ..unit(u64::from(nth) * MIB, MIB, (nth + first) % 2)
        });
        units.collect::<Box<[Unit]>>()
    };
    ContentLayout::new(disks(2), Box::new([copy(0, number * SIZE), copy(1, (600 << 30) + number * SIZE)]))
}

#[test]
fn a_mirror_without_loss_promise_demotes_after_a_failure() {
    let full = |survive_disk_loss| {
        let fast = BitRate(1 << 40);
        let mut machine = Machine::with_config(2, fast, |config| {
            // All come at once, and their starts take a while.
            (config.survive_disk_loss, config.first_byte_max) = (survive_disk_loss, LONG);
        });
        machine.disk_answers();
        let admitted = |machine: &mut Machine, number| {
            let reports = machine.command(delivery_of(number, number, SIZE, chained(number), FAST));
            !reports.iter().any(|report| matches!(report, Report::Refused { .. }))
        };
        let count = (1..400u64).take_while(|&number| admitted(&mut machine, number)).count() as u64;
        (machine, count)
    };
    let ((mut careful, few), (mut machine, many)) = (full(true), full(false));
    assert!(many * 10 > few * 22 && many < 399, "two disks, read in their outer halves: {few} and {many}");
    let before = careful.promised();
    for machine in [&mut careful, &mut machine] {
        play(machine, Nanos::from_secs(8));
        machine.break_disks(&[], &[0]);
        play(machine, Nanos::from_secs(2));
        assert!(machine.promised_on(1) < 1.0, "{}", machine.promised_on(1));
    }
    assert_eq!(careful.promised(), before, "nobody lost anything");
    let kept = machine.promised() / (RATE.0 * 8);
    assert!(kept >= few && kept < many, "of {many} as many keep their promise as one disk carries: {kept}, {few}");
    // Best effort takes longer than its rate would: the last one ends some 110 s after it began.
    let ended = play(&mut machine, LONG.saturating_mul(2));
    assert!(
        ended.len() as u64 == many && ended.iter().all(|(_, whole)| *whole),
        "the others get what is left: {ended:?}"
    );
}
