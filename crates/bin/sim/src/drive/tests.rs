//! Laws of the drive, in virtual time: counts and ratios.

use super::*;

fn run(
    parameters: &Parameters,
    op: Op,
    pattern: OffsetOrder,
    block: u64,
    depth: u32,
    offset: u64,
    secs: u64,
) -> Prediction {
    let load = Workload { op, pattern, block, depth, offset, length: u64::MAX, duration: Nanos::from_secs(secs) };
    predict(parameters, &load, 1).expect("a valid drive")
}

fn near(value: f64, expected: f64, per_cent: f64) {
    let off = (value / expected - 1.0) * 100.0;
    assert!(off.abs() <= per_cent, "{value:.3} is {off:.2} % off {expected:.3}");
}

#[test]
fn a_sequential_stream_gets_the_rate_of_its_zone() {
    for profile in [DriveProfile::Desktop, DriveProfile::T7k250, DriveProfile::Surveillance] {
        let p = Parameters::of(profile);
        let outer = run(&p, Op::Read, OffsetOrder::Sequential, 1 << 20, 1, 0, 10);
        near(outer.bytes_per_second, parameters::float_of(p.outer), 1.0);
        let inner = run(&p, Op::Read, OffsetOrder::Sequential, 1 << 20, 1, p.size / 100 * 98, 10);
        near(inner.bytes_per_second, parameters::float_of(p.inner), 1.0);
        let deep = run(&p, Op::Read, OffsetOrder::Sequential, 128 << 10, 8, 0, 10);
        near(deep.bytes_per_second, parameters::float_of(p.outer), 1.0);
    }
}

#[test]
fn random_reads_cost_a_seek_and_half_a_turn() {
    for (profile, expected) in
        [(DriveProfile::Desktop, 78.8), (DriveProfile::T7k250, 78.5), (DriveProfile::Surveillance, 56.9)]
    {
        let p = Parameters::of(profile);
        near(run(&p, Op::Read, OffsetOrder::Random, 4096, 1, 0, 600).requests_per_second, expected, 3.0);
    }
}

fn with(profile: DriveProfile, pairs: &[&str]) -> Parameters {
    let mut parameters = Parameters::of(profile);
    for pair in pairs {
        parameters.set(pair).expect("a valid pair");
    }
    parameters
}

fn read(tag: u64, offset: u64, bytes: u64) -> DriveRequest {
    DriveRequest { tag, op: Op::Read, offset, bytes }
}

fn write(tag: u64, offset: u64, bytes: u64) -> DriveRequest {
    DriveRequest { tag, op: Op::Write, offset, bytes }
}

const FLUSH: u64 = 1 << 32;

fn flush() -> DriveRequest {
    DriveRequest { tag: FLUSH, op: Op::Flush, offset: 0, bytes: 0 }
}

/// Runs until nothing more is pending; completions in order.
fn drain(drive: &mut Drive) -> Vec<CommandEnd> {
    let mut out = Vec::new();
    while drive.pending() > 0 {
        let at = drive.next_wakeup().expect("something is pending");
        drive.complete(at, &mut out);
    }
    out
}

#[test]
fn a_disk_30_per_cent_slower_takes_30_per_cent_longer() {
    let times = |factor: f64| {
        let mut drive = Drive::new(Parameters::of(DriveProfile::Desktop), 3).expect("valid");
        drive.set_slow(factor, Nanos::ZERO);
        let mut now = Nanos::ZERO;
        for tag in 0..500u64 {
            let offset = faults::mixed(tag) % (drive.parameters().size / 4096) * 4096;
            drive.submit(read(tag, offset, 4096), now);
            now = drain(&mut drive)[0].at;
        }
        now.as_secs_f64()
    };
    near(times(1.3) / times(1.0), 1.3, 0.1);
}

#[test]
fn shortest_positioning_first_beats_first_come() {
    let sptf = run(&with(DriveProfile::Desktop, &[]), Op::Read, OffsetOrder::Random, 4096, 32, 0, 120);
    let fifo = run(&with(DriveProfile::Desktop, &["sched=fifo"]), Op::Read, OffsetOrder::Random, 4096, 32, 0, 120);
    let one = run(&with(DriveProfile::Desktop, &[]), Op::Read, OffsetOrder::Random, 4096, 1, 0, 120);
    assert!(sptf.requests_per_second > 1.8 * fifo.requests_per_second);
    near(fifo.requests_per_second, one.requests_per_second, 4.0);
    // Ageing: no command waits for ever.
    assert!(sptf.p99 < Nanos::from_millis(600), "{}", sptf.p99);
}

#[test]
fn every_request_completes_once_and_never_early() {
    for profile in DriveProfile::ALL {
        let mut drive = Drive::new(Parameters::of(profile), 11).expect("valid");
        let size = drive.parameters().size;
        let mut out = Vec::new();
        let mut now = Nanos::ZERO;
        let mut came = std::collections::HashMap::new();
        let mut seen = 0;
        for tag in 0..4000u64 {
            let chance = faults::mixed(tag);
            now += Nanos(chance % 12_000_000);
            let offset = faults::mixed(chance) % (size / 4096 - 256) * 4096;
            let near = if chance.is_multiple_of(3) { tag * 65_536 } else { offset };
            let op = [Op::Read, Op::Write, Op::Write, Op::WriteThrough, Op::Flush]
                [usize::try_from(chance % 5).expect("small")];
            let bytes = 4096 * (1 + chance % 64);
            came.insert(tag, now);
            drive.submit(DriveRequest { tag, op, offset: near, bytes }, now);
            drive.complete(now, &mut out);
            for done in out.drain(..) {
                let began = came.remove(&done.tag).expect("completes once");
                assert!(done.at > began && done.at <= now && done.outcome == CommandOutcome::Ok);
                seen += 1;
            }
        }
        seen += drain(&mut drive).len();
        assert_eq!((seen, drive.pending()), (4000, 0), "{profile:?}");
    }
}

#[test]
fn late_calls_give_the_same_times() {
    let times = |step: u64| {
        let mut drive = Drive::new(Parameters::of(DriveProfile::Desktop), 5).expect("valid");
        for tag in 0..32u64 {
            let offset = faults::mixed(tag) % 200_000 * 4_194_304 / 4096 * 4096 % (900 << 30);
            drive.submit(read(tag, offset, 8192), Nanos::ZERO);
        }
        let mut out = Vec::new();
        let mut now = Nanos::ZERO;
        while drive.pending() > 0 {
            now += Nanos(step);
            drive.complete(now, &mut out);
        }
        out.iter().map(|done| (done.tag, done.at)).collect::<Vec<_>>()
    };
    assert_eq!(times(10_000), times(7_000_000));
}

#[test]
fn answers_known_ahead_are_the_same_answers() {
    let mut a = Drive::new(Parameters::of(DriveProfile::Desktop), 5).expect("valid");
    let mut b = Drive::new(Parameters::of(DriveProfile::Desktop), 5).expect("valid");
    let lead = Nanos::from_micros(200);
    let (mut plain, mut ahead) = (Vec::new(), Vec::new());
    for tag in 0..8 {
        a.submit(read(tag, tag << 33, 4096), Nanos::ZERO);
        b.submit(read(tag, tag << 33, 4096), Nanos::ZERO);
    }
    while a.pending() > 0 {
        a.complete(a.next_wakeup().expect("pending"), &mut plain);
    }
    while b.pending() > 0 {
        let at = b.next_wakeup_ahead(lead).expect("pending");
        b.complete_ahead(at, lead, &mut ahead);
        assert!(ahead.iter().all(|done| done.at <= at + lead));
    }
    assert_eq!(plain, ahead);
}

#[test]
fn bytes_read_ahead_cost_no_head_movement() {
    let mut drive = Drive::new(Parameters::of(DriveProfile::Desktop), 1).expect("valid");
    drive.submit(read(1, 50 << 30, 65_536), Nanos::ZERO);
    let first = drain(&mut drive)[0].at;
    // By then the head has passed far more than the next read.
    let later = first + Nanos::from_millis(5);
    drive.submit(read(2, (50 << 30) + 65_536, 65_536), later);
    let hit = drain(&mut drive)[0].at;
    assert!(hit - later < Nanos::from_millis(1));
    assert_eq!((drive.stats().hits, drive.stats().seeks), (1, 1));
    // After a drop it must be fetched again.
    drive.drop_read_buffer(hit);
    drive.submit(read(3, (50 << 30) + 65_536, 65_536), hit);
    drain(&mut drive);
    assert_eq!((drive.stats().hits, drive.stats().media_ops), (1, 2));
}

#[test]
fn a_write_hides_an_older_copy_in_the_read_buffer() {
    let mut drive = Drive::new(with(DriveProfile::Desktop, &["wcache=0"]), 1).expect("valid");
    drive.submit(read(1, 1 << 30, 65_536), Nanos::ZERO);
    let at = drain(&mut drive)[0].at;
    drive.submit(write(2, 1 << 30, 4096), at);
    let at = drain(&mut drive)[0].at;
    drive.submit(read(3, 1 << 30, 4096), at);
    drain(&mut drive);
    assert_eq!(drive.stats().hits, 0);
}

#[test]
fn cached_writes_are_quick_until_the_cache_is_full() {
    let mut drive = Drive::new(Parameters::of(DriveProfile::Desktop), 1).expect("valid");
    drive.submit(write(0, 0, 1 << 20), Nanos::ZERO);
    let quick = drain(&mut drive)[0].at;
    assert!(quick < Nanos::from_millis(5), "{quick}");
    assert_eq!(drive.dirty_bytes(), 1 << 20);
    // A second of writing as fast as it accepts: bytes not in the cache went at the media's rate.
    let sustained = run(drive.parameters(), Op::Write, OffsetOrder::Sequential, 1 << 20, 4, 0, 60);
    near(sustained.bytes_per_second, 180e6, 2.0);
}

#[test]
fn a_write_through_stream_loses_a_turn_each() {
    let p = with(DriveProfile::Desktop, &["wcache=0"]);
    let r = run(&p, Op::Write, OffsetOrder::Sequential, 256 << 10, 1, 0, 60);
    near(r.bytes_per_second, 26.8e6, 2.0);
}

#[test]
fn a_flush_waits_for_the_writes_before_it_only() {
    let mut drive = Drive::new(Parameters::of(DriveProfile::Desktop), 1).expect("valid");
    for tag in 0..10u64 {
        drive.submit(write(tag, tag << 35, 4096), Nanos::ZERO);
    }
    drive.submit(flush(), Nanos::from_millis(20));
    for tag in 10..20u64 {
        drive.submit(write(tag, (tag << 35) + (1 << 30), 4096), Nanos::from_millis(21));
    }
    let mut out = Vec::new();
    let flushed = loop {
        drive.complete(drive.next_wakeup().expect("pending"), &mut out);
        if let Some(done) = out.iter().find(|done| done.tag == FLUSH) {
            break done.at;
        }
    };
    // The answer takes the flush's own overhead, in which the idle head begins the next drain.
    assert!((10..=11).contains(&drive.stats().drains));
    assert_eq!(drive.dirty_bytes(), 10 * 4096);
    // Ten random writes in a good order: well under ten average ones.
    assert!(flushed > Nanos::from_millis(50) && flushed < Nanos::from_millis(160), "{flushed}");
}

#[test]
fn an_idle_drive_drains_its_cache() {
    let mut drive = Drive::new(Parameters::of(DriveProfile::Desktop), 1).expect("valid");
    drive.submit(write(0, 1 << 30, 65_536), Nanos::ZERO);
    drive.complete(Nanos::from_secs(1), &mut Vec::new());
    assert_eq!(drive.dirty_bytes(), 0);
    assert_eq!(drive.next_wakeup(), None);
}

#[test]
fn faults_hit_their_range_and_nothing_else() {
    let mut drive = Drive::new(Parameters::of(DriveProfile::Desktop), 1).expect("valid");
    let delay = Nanos::from_millis(500);
    drive.add_fault(FaultRange { start: 1 << 30, bytes: 4096, kind: FaultKind::Read, delay });
    drive.submit(read(1, (1 << 30) - 4096, 8192), Nanos::ZERO);
    let bad = drain(&mut drive)[0];
    assert!(bad.outcome == CommandOutcome::MediumError && bad.at > delay);
    for request in [read(2, (1 << 30) + 4096, 4096), write(3, 1 << 30, 4096)] {
        drive.submit(request, bad.at);
        assert_eq!(drain(&mut drive)[0].outcome, CommandOutcome::Ok);
    }
    drive.clear_faults();
    drive.drop_read_buffer(bad.at);
    drive.submit(read(4, 1 << 30, 4096), bad.at + Nanos::from_secs(9));
    assert_eq!(drain(&mut drive)[0].outcome, CommandOutcome::Ok);
}

#[test]
fn a_hung_drive_answers_after_it_is_revived_and_a_dead_one_with_errors() {
    let mut drive = Drive::new(Parameters::of(DriveProfile::Desktop), 1).expect("valid");
    drive.submit(read(1, 1 << 30, 4096), Nanos::ZERO);
    drive.hang(Nanos::from_micros(1));
    drive.submit(read(2, 2 << 30, 4096), Nanos::from_millis(1));
    let mut out = Vec::new();
    drive.complete(Nanos::from_secs(100), &mut out);
    assert!(out.is_empty() && drive.next_wakeup().is_none());
    drive.revive(Nanos::from_secs(100));
    assert_eq!(
        drain(&mut drive).iter().map(|d| (d.tag, d.outcome)).collect::<Vec<_>>(),
        [(1, CommandOutcome::Ok), (2, CommandOutcome::Ok)]
    );

    let now = Nanos::from_secs(200);
    drive.submit(read(3, 3 << 30, 4096), now);
    drive.submit(write(4, 3 << 30, 4096), now);
    drive.power_off(now);
    drive.submit(read(5, 3 << 30, 4096), now);
    assert!(drain(&mut drive).iter().all(|d| d.outcome == CommandOutcome::DriveGone));
    assert_eq!(drive.dirty_bytes(), 0);
    drive.revive(now + Nanos::from_secs(1));
    drive.submit(read(6, 3 << 30, 4096), now + Nanos::from_secs(1));
    assert_eq!(drain(&mut drive)[0].outcome, CommandOutcome::Ok);
}

#[test]
fn a_spike_delays_one_command_per_period() {
    let mut drive = Drive::new(Parameters::of(DriveProfile::Desktop), 1).expect("valid");
    drive.set_spike(Nanos::from_millis(300), Nanos::from_secs(10), Nanos::ZERO);
    let mut now = Nanos::ZERO;
    let mut slow = 0;
    for tag in 0..2000u64 {
        drive.submit(read(tag, faults::mixed(tag) % (1 << 27) * 4096, 4096), now);
        let at = drain(&mut drive)[0].at;
        slow += u64::from(at - now > Nanos::from_millis(200));
        now = at;
    }
    let periods = now.0 / 10_000_000_000;
    assert!(slow.abs_diff(periods) <= 1, "{slow} in {periods} periods");
}

#[test]
fn flash_is_bounded_by_its_rates() {
    let p = Parameters::of(DriveProfile::SsdSata);
    near(run(&p, Op::Read, OffsetOrder::Random, 4096, 1, 0, 2).requests_per_second, 11_000.0, 2.0);
    near(run(&p, Op::Read, OffsetOrder::Random, 4096, 32, 0, 2).requests_per_second, 90_000.0, 1.0);
    near(run(&p, Op::Read, OffsetOrder::Sequential, 1 << 20, 4, 0, 2).bytes_per_second, 540e6, 1.0);
    near(run(&p, Op::Write, OffsetOrder::Sequential, 1 << 20, 4, 0, 2).bytes_per_second, 500e6, 1.0);
}

#[test]
fn a_replayed_list_takes_as_long_as_the_load_it_came_from() {
    let p = Parameters::of(DriveProfile::Desktop);
    let load = Workload {
        op: Op::Read,
        pattern: OffsetOrder::Random,
        block: 4096,
        depth: 4,
        offset: 0,
        length: u64::MAX,
        duration: Nanos::from_secs(60),
    };
    let whole = predict(&p, &load, 1).expect("valid");
    let list = predict_list(&p, &load, load.offsets(p.size, 1).take(6000), 1).expect("valid");
    near(list.requests_per_second, whole.requests_per_second, 1.0);
    let nothing = Workload { length: 512, ..load };
    assert!(predict(&p, &nothing, 1).is_err());
}
