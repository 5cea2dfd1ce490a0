//! `sim`: runs the whole data plane in virtual time, seed after seed, and says which seed breaks which law.

use std::fmt::Arguments as Words;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Parser;
use sim::drive::DriveProfile;
use sim::{Law, RunReport, Scenario, Trace};
use units::{BitRate, Nanos};

/// Simulate the data plane: disks, clients, uploads and faults in virtual time, all drawn from a seed, with the laws of
/// the schedule checked on the way.
#[derive(Debug, Parser)]
#[command(name = "sim", version)]
struct Arguments {
    /// Seeds to run: one (`7`) or a range without its end (`0..500`).
    #[arg(long, default_value = "0..500", value_parser = parse_seeds)]
    seeds: (u64, u64),
    /// Viewers of segments alone, instead of every kind of demand.
    #[arg(long)]
    viewers: bool,
    /// Print every event of the run (one seed only).
    #[arg(long)]
    trace: bool,
    /// Print the figures of each run.
    #[arg(long)]
    verbose: bool,
    /// Continue after a broken law, up to this many of them.
    #[arg(long, default_value_t = 1)]
    failures: u64,
    /// Instead of seeds: this many streams of 8.8 Mbit/s on two flash drives for a virtual hour, and the time it took.
    #[arg(long, value_name = "STREAMS", conflicts_with = "seeds")]
    hour: Option<u32>,
    /// Instead of seeds: only the canary, a run that must break a law. (A range of seeds begins with it.)
    #[arg(long, conflicts_with_all = ["seeds", "hour"])]
    canary: bool,
    /// Threads; every run is on one.
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

fn parse_seeds(text: &str) -> Result<(u64, u64), String> {
    let number = |t: &str| t.parse::<u64>().map_err(|_| format!("`{text}` is no seed; write `7` or `0..500`"));
    let (from, to) = match text.split_once("..") {
        None => (number(text)?, number(text)?.saturating_add(1)),
        Some((from, to)) => (number(from)?, number(to)?),
    };
    if from < to { Ok((from, to)) } else { Err(format!("`{text}` holds no seed; the end is not included")) }
}

/// State shared by all threads.
#[derive(Debug, Default)]
struct SeedProgress {
    next: AtomicU64,
    done: AtomicU64,
    broken: Mutex<Vec<RunReport>>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(streams) = arguments.hour {
        return hour(streams);
    }
    if arguments.canary {
        return canary(if arguments.trace { Trace::Print } else { Trace::Off });
    }
    let (from, to) = arguments.seeds;
    let single = to - from == 1;
    if arguments.trace && !single {
        eprintln!("sim: --trace prints one run; name one seed, for example --seeds {from}");
        return ExitCode::from(2);
    }
    tell(format_args!("sim: seeds {from}..{to}"));
    // A panic of the plane is a broken law and reported as one; where it was is worth a line.
    std::panic::set_hook(Box::new(|panic| eprintln!("sim: {panic}")));
    if !single && !canary_fails() {
        return ExitCode::FAILURE;
    }
    let progress = SeedProgress { next: AtomicU64::new(from), ..SeedProgress::default() };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if single {
        1
    } else if arguments.threads == 0 {
        cores
    } else {
        arguments.threads
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&arguments, &progress));
        }
    });
    let done = progress.done.load(Ordering::Relaxed);
    let broken = progress.broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    tell(format_args!("sim: seeds {from}..{to}: {done} runs, {} broke a law", broken.len()));
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the laws are watching: the run that must break one does, and that one.
fn canary_fails() -> bool {
    let broken = sim::run(&Scenario::canary(), Trace::Off).broken.map(|broken| broken.law);
    let fails = broken == Some(Law::EveryDeadline);
    if fails {
        tell(format_args!("sim: the canary broke a law, as it must"));
    } else {
        tell(format_args!(
            "sim: the canary should break `{}`, but broke {broken:?}: the laws are not watching",
            Law::EveryDeadline
        ));
    }
    fails
}

/// Only the canary, as a seed would be run: it must fail.
fn canary(trace: Trace) -> ExitCode {
    match sim::run(&Scenario::canary(), trace).broken {
        Some(broken) => {
            tell(format_args!("the canary broke a law at {broken}"));
            ExitCode::FAILURE
        }
        None => {
            tell(format_args!("the canary broke no law"));
            ExitCode::SUCCESS
        }
    }
}

/// A virtual hour of steady load: how fast the simulator is.
fn hour(streams: u32) -> ExitCode {
    let mut scenario = Scenario::steady(1, DriveProfile::SsdSata, 4 << 30, BitRate(8_800_000), streams);
    scenario.disks.push(scenario.disks[0].clone());
    scenario.safety = Nanos::from_secs(3600);
    let begun = std::time::Instant::now();
    let report = sim::run(&scenario, Trace::Off);
    let took = begun.elapsed().as_secs_f64();
    tell(format_args!(
        "sim: {} virtual s of up to {} streams in {took:.1} s, {} events",
        report.ended.as_secs_f64(),
        report.tally.deliveries.running_max,
        report.events
    ));
    if report.broken.is_some() {
        tell_broken(&report, false);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A line on standard output, whether anybody reads it or not: `sim … | head` ends as it would have.
fn tell(line: Words<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn work(arguments: &Arguments, progress: &SeedProgress) {
    let trace = if arguments.trace { Trace::Print } else { Trace::Off };
    loop {
        let failures = progress.broken.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        let seed = progress.next.fetch_add(1, Ordering::Relaxed);
        if seed >= arguments.seeds.1 || failures >= arguments.failures {
            return;
        }
        let scenario = if arguments.viewers { Scenario::draw_viewers(seed) } else { Scenario::draw(seed) };
        let report = sim::run(&scenario, trace);
        let done = progress.done.fetch_add(1, Ordering::Relaxed) + 1;
        if arguments.verbose {
            tell(format_args!("seed {seed}: hash {:016x}, {} events, {:?}", report.hash, report.events, report.tally));
        }
        if report.broken.is_some() {
            tell_broken(&report, arguments.viewers);
            progress.broken.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        } else if done.is_multiple_of(50) && std::io::stderr().is_terminal() {
            eprint!("\rsim: {done} of {} seeds ", arguments.seeds.1 - arguments.seeds.0);
            let _ = std::io::stderr().flush();
        }
    }
}

fn tell_broken(report: &RunReport, viewers: bool) {
    let Some(broken) = &report.broken else { return };
    let seed = report.seed;
    tell(format_args!("seed {seed} broke a law at {broken}"));
    tell(format_args!(
        "  replay: cargo run -p sim --release -- --seeds {seed} --trace{}",
        if viewers { " --viewers" } else { "" }
    ));
}
