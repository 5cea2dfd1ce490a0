//! Links: best effort takes no more than the reserved rates leave of a link, and bytes that its clients do not take are not
//! the server's unevenness.

use crate::common::{MIB, Machine, RATE, delivery, viewer};
use dataplane::control::{Command, Report, Service};
use schedule::admission::WIRE_OVERHEAD;
use units::{BitRate, Nanos};

/// Payload that the link carries.
const LINK: BitRate = BitRate(4_000_000);
const STEP: Nanos = Nanos::from_millis(10);
const SECOND: usize = 100;
const SMALL: u64 = 1000;

fn machine() -> Machine {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
    let wire = BitRate((LINK.0 as f64 * WIRE_OVERHEAD) as u64 + 1);
    let mut machine = Machine::new(wire);
    machine.disk_answers();
    machine
}

fn ahead(number: u64, burst: u64) -> Command {
    let service = Service::Constant { rate: RATE, burst_bytes: burst, held: None, hold: false };
    delivery(number, number, 64 * MIB, service)
}

/// Bytes that clients take in each step in which they read.
fn plays(machine: &mut Machine, steps: usize) -> Vec<u64> {
    let step = |machine: &mut Machine| {
        machine.later(STEP);
        machine.clients_read();
        machine.taken()
    };
    (0..steps).map(|_| step(machine)).collect()
}

/// The most bytes in any second, as a share of the link's capacity in one.
fn busiest(steps: &[u64]) -> f64 {
    let most = steps.windows(SECOND).map(|second| second.iter().sum::<u64>()).max().expect("a second at least");
    most as f64 / LINK.bytes_in(Nanos::from_secs(1)) as f64
}

/// A link that was idle has two ticks' worth left over: a tenth of a second.
const DEPTH: f64 = 0.1;

#[test]
fn bursts_and_best_effort_are_no_more_than_the_link_has_left() {
    let mut machine = machine();
    (1..=3).for_each(|number| drop(machine.command(ahead(number, MIB))));
    (4..=5).for_each(|number| drop(machine.command(delivery(number, number, 64 * MIB, Service::BestEffort))));
    let steps = plays(&mut machine, 20 * SECOND);
    assert!((0.9..=1.0 + DEPTH).contains(&busiest(&steps)), "{}", busiest(&steps));
    let last = busiest(&steps[18 * SECOND..]);
    assert!(last > 0.95, "the bursts are over, and best effort has what three reservations leave: {last}");
}

#[test]
fn a_burst_is_four_times_as_fast_where_there_is_room() {
    let mut machine = machine();
    machine.command(ahead(1, MIB));
    let first: u64 = plays(&mut machine, SECOND).iter().sum();
    let second = RATE.bytes_in(Nanos::from_secs(1));
    assert!((second * 7 / 2..=second * 9 / 2).contains(&first), "{first}");
}

#[test]
fn catching_up_after_a_stall_stays_within_the_link() {
    let mut machine = machine();
    (1..=7).for_each(|number| drop(machine.command(viewer(number))));
    plays(&mut machine, 2 * SECOND);
    // A second in which no client reads: all of them are owed it, at once.
    (0..SECOND).for_each(|_| drop(machine.later(STEP)));
    let steps = plays(&mut machine, 8 * SECOND);
    assert!(busiest(&steps[2..]) <= 1.0 + DEPTH, "{}", busiest(&steps[2..]));
    assert!(busiest(&steps) > 0.95, "and that is made up: {}", busiest(&steps));
}

fn j_percent(machine: &Machine) -> (f64, u64) {
    let shown = machine.shown(1);
    let windows = shown.jitter_windows.get();
    (shown.jitter_sum_ppm.get() as f64 / windows.max(1) as f64 / 1e4, windows)
}

#[test]
fn a_client_that_does_not_read_is_no_unevenness_of_the_server() {
    let mut machine = machine();
    machine.command(viewer(1));
    for _ in 0..5 {
        plays(&mut machine, 4 * SECOND);
        (0..SECOND * 3 / 2).for_each(|_| drop(machine.later(STEP)));
    }
    plays(&mut machine, 10 * SECOND);
    let (j, windows) = j_percent(&machine);
    assert!(j < 1.0 && windows > 10, "{j} % in {windows} windows");
}

#[test]
fn a_disk_that_does_not_answer_is_one() {
    let mut machine = machine();
    machine.command(viewer(1));
    plays(&mut machine, 4 * SECOND);
    machine.break_disks(&[], &[0]);
    plays(&mut machine, 60 * SECOND);
    let (j, windows) = j_percent(&machine);
    assert!(j > 20.0 && windows > 20, "{j} % in {windows} windows");
}

/// Shaka asks for an initialization segment of a thousand bytes along with the part it begins. That part is sent as fast as the link
/// carries, for seconds, and left nothing over for the segment that its player cannot do without.
#[test]
fn a_small_read_does_not_wait_for_a_burst_to_end() {
    let mut machine = machine();
    machine.command(delivery(1, 1, SMALL, Service::BestEffort));
    plays(&mut machine, SECOND);
    (2..=4).for_each(|number| drop(machine.command(ahead(number, MIB))));
    plays(&mut machine, SECOND / 2);
    let ended = |report: &Report| matches!(report, Report::Finished { delivery, .. } if delivery.stream.0 == 5);
    let mut ends = machine.command(delivery(5, 1, SMALL, Service::BestEffort));
    let mut steps = 0;
    while !ends.iter().any(ended) {
        steps += 1;
        assert!(steps < SECOND / 4, "five ticks");
        ends = machine.later(STEP);
        ends.append(&mut machine.clients_read());
    }
    machine.taken();
    let later = plays(&mut machine, SECOND);
    assert!((0.95..=1.0 + DEPTH).contains(&busiest(&later)), "the bursts go on: {}", busiest(&later));
}
