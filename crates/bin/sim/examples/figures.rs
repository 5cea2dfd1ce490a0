//! The figures by which two schedules of a disk are compared (docs/decisions/0007): late blocks, streams, the rates of uploads
//! and the times to first bytes, for a few machines and a few seeds each.
//!
//! `cargo run -p sim --release --example figures [starts|full|uploads|slower|seeks|recorder [SEEDS]]`

use std::thread;

use sim::drive::DriveProfile;
use sim::{Fault, FaultAt, RunReport, Scenario, Trace};
use units::{BitRate, Nanos};

const SECS: fn(u64) -> Nanos = Nanos::from_secs;
const MS: fn(u64) -> Nanos = Nanos::from_millis;
const DRIVES: [(&str, DriveProfile); 3] =
    [("7200 rpm", DriveProfile::Desktop), ("2005", DriveProfile::T7k250), ("surveillance", DriveProfile::Surveillance)];

fn main() {
    let part = std::env::args().nth(1);
    let seeds = std::env::args().nth(2).and_then(|seeds| seeds.parse().ok());
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    let mut cases = Vec::new();
    if wanted("starts") {
        starts(&mut cases);
    }
    if wanted("full") {
        full(&mut cases);
    }
    if wanted("uploads") {
        uploads(&mut cases);
    }
    if wanted("slower") {
        slower(&mut cases);
    }
    if wanted("seeks") {
        seeks(&mut cases);
    }
    if wanted("recorder") {
        recorder(&mut cases);
    }
    println!(
        "| case | broken | streams | refused | seeks refused | ended | misses | first byte p50 | p95 | worst | uploads MB/s | disk reads | idle | recorded | refused | at risk |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for case in &mut cases {
        case.seeds = seeds.unwrap_or(case.seeds);
        println!("{}", case.run());
    }
}

/// A scenario with a name, run with several seeds.
struct Case {
    name: String,
    seeds: u64,
    make: Box<dyn Fn(u64) -> Scenario + Sync>,
}

impl Case {
    fn run(&self) -> String {
        let reports: Vec<RunReport> = thread::scope(|scope| {
            let runs: Vec<_> =
                (0..self.seeds).map(|seed| scope.spawn(move || sim::run(&(self.make)(seed), Trace::Off))).collect();
            runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
        });
        let broken = reports.iter().filter(|report| report.broken.is_some()).count();
        for report in reports.iter().filter(|report| report.broken.is_some()) {
            eprintln!("{} seed {}: {}", self.name, report.seed, report.broken.as_ref().expect("filtered"));
        }
        let mut first: Vec<Nanos> = reports.iter().flat_map(|report| report.first_bytes.iter().copied()).collect();
        first.sort_unstable();
        let at = |percent: usize| first.get(first.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default();
        let mean = |of: &dyn Fn(&RunReport) -> f64| reports.iter().map(of).sum::<f64>() / reports.len() as f64;
        let calm = |of: &dyn Fn(&sim::Calm) -> f64| {
            mean(&|report| of(&report.tally.calm) / report.tally.calm.spent.total().as_secs_f64().max(1e-9))
        };
        format!(
            "| {} | {broken} of {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} ms | {:.0} ms | {:.0} ms | {:.1} | {:.0} % | {:.0} % | {:.1} | {:.1} | {:.1} s |",
            self.name,
            self.seeds,
            mean(&|report| report.tally.deliveries.running_max as f64),
            mean(&|report| report.tally.deliveries.refused as f64),
            mean(&|report| report.tally.deliveries.sessions_refused as f64),
            mean(&|report| report.tally.deliveries.shed as f64),
            mean(&|report| report.tally.deliveries.excused_misses as f64),
            at(50).as_millis_f64(),
            at(95).as_millis_f64(),
            at(100).as_millis_f64(),
            calm(&|calm| calm.writes.upload_bytes as f64) / 1e6,
            100.0 * calm(&|calm| calm.spent.reading.as_secs_f64()),
            100.0 * calm(&|calm| calm.spent.idle.as_secs_f64()),
            mean(&|report| report.tally.writes.recordings as f64),
            mean(&|report| report.tally.writes.recordings_refused as f64),
            mean(&|report| report.tally.disks.at_risk_max.as_secs_f64()),
        )
    }
}

fn push(cases: &mut Vec<Case>, name: String, seeds: u64, make: impl Fn(u64) -> Scenario + Sync + 'static) {
    cases.push(Case { name, seeds, make: Box::new(make) });
}

/// Viewers that come close together to a disk that can carry them.
fn starts(cases: &mut Vec<Case>) {
    for (streams, gap) in
        [(25, MS(5)), (50, MS(5)), (75, MS(5)), (25, MS(100)), (50, MS(100)), (75, MS(100)), (76, MS(66))]
    {
        push(cases, format!("{streams} starts, {gap} apart"), 4, move |seed| {
            let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), streams);
            scenario.load.arrivals = gap;
            scenario
        });
    }
}

/// Viewers of a full disk that go elsewhere in their contents.
fn seeks(cases: &mut Vec<Case>) {
    for (per_second, slower) in [(1, 1.0), (3, 1.0), (10, 1.0), (30, 1.0), (10, 1.06), (30, 1.06)] {
        push(cases, format!("7200 rpm, {slower} times slower, full, {per_second} seeks/s"), 4, move |seed| {
            let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), 150);
            scenario.load.arrivals = MS(100);
            scenario.load.hold_share = 1.0;
            scenario.load.seeks = Nanos(SECS(1).0 / per_second);
            (scenario.safety, scenario.liveness) = (SECS(60), SECS(180));
            if slower > 1.0 {
                let (lasts, fault) = (SECS(240), Fault::Slow { disk: 0, factor: slower });
                scenario.faults = vec![FaultAt { at: Nanos::ZERO, lasts, fault }];
            }
            scenario
        });
    }
}

/// As many streams as admission accepts, at ten starts a second; without and with a writer.
fn full(cases: &mut Vec<Case>) {
    for (name, drive) in DRIVES {
        for rate in [8_800_000, 25_000_000] {
            for be_share in [0.0, 0.1] {
                let uploads = if be_share > 0.0 { ", uploads" } else { "" };
                push(cases, format!("{name}, {} Mbit/s{uploads}", rate as f64 / 1e6), 4, move |seed| {
                    let mut scenario = Scenario::steady(seed, drive, 3 << 30, BitRate(rate), 150);
                    scenario.load.arrivals = MS(100);
                    scenario.load.viewing = (SECS(140), SECS(150));
                    (scenario.safety, scenario.liveness) = (SECS(60), SECS(40));
                    scenario.be_share = be_share;
                    if be_share > 0.0 {
                        scenario.load.uploads.uploaders = 1;
                        scenario.load.uploads.rate = BitRate(8_000_000_000);
                    }
                    scenario
                });
            }
        }
    }
    push(cases, "7200 rpm, 400 of 2 Mbit/s".to_owned(), 4, |seed| {
        let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(2_000_000), 400);
        scenario.load.arrivals = MS(100);
        scenario.safety = SECS(90);
        scenario.load.viewing = (SECS(90), SECS(120));
        scenario
    });
}

/// Uploads of 10 MB, each durable when answered, during streams and alone.
fn uploads(cases: &mut Vec<Case>) {
    let one = SECS(1);
    let quarter = MS(250);
    for (drive, memory, round, streams, writers) in [
        (DriveProfile::Desktop, 3 << 30, one, 91, 1),
        (DriveProfile::Desktop, 3 << 30, one, 91, 16),
        (DriveProfile::Desktop, 3 << 30, one, 84, 1),
        (DriveProfile::T7k250, 256 << 20, quarter, 28, 1),
        (DriveProfile::T7k250, 256 << 20, quarter, 28, 16),
        (DriveProfile::T7k250, 3 << 30, one, 36, 1),
    ] {
        for (streams, writers) in [(0, 1), (streams, 0), (streams, writers)] {
            push(cases, format!("{drive:?} {round}, {streams} streams, {writers} writers"), 3, move |seed| {
                let mut scenario = Scenario::steady(seed, drive, memory, BitRate(8_800_000), streams);
                scenario.round = round;
                scenario.be_share = 0.1;
                scenario.load.uploads.uploaders = writers;
                scenario.load.uploads.rate = BitRate(8_000_000_000);
                (scenario.safety, scenario.liveness) = (SECS(60), SECS(60));
                scenario.load.viewing = (SECS(130), SECS(130));
                scenario
            });
        }
    }
}

/// Cameras, and viewers of other contents.
fn recorder(cases: &mut Vec<Case>) {
    for (cameras, rate, viewers) in [
        (32, 4_000_000, 40),
        (64, 4_000_000, 40),
        (96, 4_000_000, 40),
        (128, 4_000_000, 40),
        (128, 4_000_000, 0),
        (512, 500_000, 0),
    ] {
        push(cases, format!("{cameras} cameras of {} Mbit/s, {viewers} viewers", rate as f64 / 1e6), 2, move |seed| {
            let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), viewers);
            (scenario.load.recordings.recorded, scenario.load.recordings.rates) = (cameras, vec![BitRate(rate)]);
            scenario.load.recordings.side_by_side = true;
            scenario.load.arrivals = MS(200);
            scenario.load.viewing = (SECS(140), SECS(150));
            (scenario.safety, scenario.liveness) = (SECS(60), SECS(40));
            scenario
        });
    }
}

/// A disk with room to spare that becomes slower.
fn slower(cases: &mut Vec<Case>) {
    for (streams, writers) in [(70, 0), (70, 2)] {
        for factor in [1.1, 1.2, 1.3] {
            push(cases, format!("{streams} streams, {writers} writers, {factor} times slower"), 4, move |seed| {
                let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), streams);
                scenario.be_share = 0.1;
                scenario.load.arrivals = MS(200);
                scenario.load.uploads.uploaders = writers;
                scenario.load.uploads.rate = BitRate(8_000_000_000);
                scenario.load.viewing = (SECS(140), SECS(150));
                (scenario.safety, scenario.liveness) = (SECS(60), SECS(40));
                let fault = Fault::Slow { disk: 0, factor };
                scenario.faults = vec![FaultAt { at: SECS(30), lasts: SECS(25), fault }];
                scenario
            });
        }
    }
}
