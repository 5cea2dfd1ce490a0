//! Results of viewers of films in segments, as players of HLS and DASH ask for them: one table, some viewers and some seeds each.
//!
//! `cargo run -p sim --release --example segments` prints the table of all cases; `-- --viewers 56 --seconds 6` one case.

use std::thread;

use clap::Parser;
use sim::drive::DriveProfile;
use sim::{RunReport, Scenario, SegmentLayout, SegmentViewers, Trace, ViewersTally};
use units::{BitRate, Nanos};

const SOUND: BitRate = BitRate(128_000);

/// Viewers of films in segments on one simulated 7200 rpm disk.
#[derive(Debug, Clone, Parser)]
struct Arguments {
    /// Number of viewers; without it: the table of all cases.
    #[arg(long)]
    viewers: Option<u32>,
    /// For how long a segment plays.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Films; as many as viewers if it is not given.
    #[arg(long)]
    films: Option<u32>,
    /// Sound of 128 kbit/s in files of its own.
    #[arg(long)]
    audio: bool,
    /// Segments are ranges of one file.
    #[arg(long)]
    ranges: bool,
    /// Disks over which the films' files are striped.
    #[arg(long, default_value_t = 1)]
    disks: usize,
    /// Bytes of the smallest segments as a share of the largest ones'; the reservation is for the rate of the largest.
    #[arg(long, default_value_t = 1.0)]
    smallest: f64,
    /// Seconds that a player keeps ahead.
    #[arg(long, default_value_t = 30)]
    ahead: u64,
    /// Milliseconds from a segment to the next request at most.
    #[arg(long, default_value_t = 200)]
    way: u64,
    /// Milliseconds that an open takes at most.
    #[arg(long, default_value_t = 0)]
    open: u64,
    /// Milliseconds between two arrivals.
    #[arg(long, default_value_t = 150)]
    apart: u64,
    /// Mean seconds between a viewer's pauses.
    #[arg(long, default_value_t = 0)]
    pauses: u64,
    /// Mean seconds between a viewer's seeks.
    #[arg(long, default_value_t = 0)]
    seeks: u64,
    /// Endless uploads of 10 MB.
    #[arg(long, default_value_t = 0)]
    uploads: u32,
    /// Concurrent streams of whole files of 8.8 Mbit/s.
    #[arg(long, default_value_t = 0)]
    streams: usize,
    /// Seconds from the first arrival to the end.
    #[arg(long, default_value_t = 90)]
    lasts: u64,
    /// Percent of disk time that best effort counts on.
    #[arg(long, default_value_t = 10)]
    be_share: u32,
    /// Seeds of each case.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further viewers, and the seconds of each file of their films, that keep as much ahead as they can.
    #[arg(long, num_args = 2, value_names = ["VIEWERS", "SECONDS"])]
    greedy: Vec<u32>,
    /// Print every event of the run.
    #[arg(long)]
    trace: bool,
}

/// A line of the table.
struct Case {
    name: String,
    arguments: Arguments,
}

fn main() {
    let arguments = Arguments::parse();
    let cases = match arguments.viewers {
        Some(_) => vec![Case { name: "as asked for".to_owned(), arguments }],
        None => table(&arguments),
    };
    println!(
        "| case | viewers | smooth | stall | refused | sessions lost | worst stall | worst lag | first picture p50 | p95 | max \
         | segment p50 | p95 | max | misses | disk busy | uploads MB/s | law |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for case in cases {
        case.run();
    }
}

/// The cases of the comparison with a plain server, and further ones.
fn table(arguments: &Arguments) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |name: &str, viewers: u32, change: &dyn Fn(&mut Arguments)| {
        let mut arguments = Arguments { viewers: Some(viewers), ..arguments.clone() };
        change(&mut arguments);
        cases.push(Case { name: name.to_owned(), arguments });
    };
    for viewers in [40, 46, 50, 56, 66, 80, 92] {
        push("files of 6 s", viewers, &|_| {});
    }
    for viewers in [40, 72] {
        push("sound in files of its own", viewers, &|of| of.audio = true);
    }
    push("files of 2 s", 60, &|of| of.seconds = 2);
    push("files of 10 s", 88, &|of| of.seconds = 10);
    push("files of 1 s", 40, &|of| of.seconds = 1);
    for viewers in [56, 95] {
        push("byte ranges of one file", viewers, &|of| of.ranges = true);
    }
    push("sizes of 43 to 100 %", 66, &|of| of.smallest = 0.43);
    push("50 s ahead", 66, &|of| of.ahead = 50);
    push("all within 0.3 s", 80, &|of| of.apart = 4);
    for viewers in [120, 200] {
        push("of 20 films", viewers, &|of| of.films = Some(20));
    }
    push("on two striped disks", 160, &|of| of.disks = 2);
    push("pauses", 66, &|of| of.pauses = 60);
    push("seeks", 56, &|of| of.seeks = 30);
    push("30 streams of whole files beside", 46, &|of| of.streams = 30);
    for (viewers, uploads) in [(0, 1), (56, 1), (56, 4), (80, 1)] {
        push("endless uploads beside", viewers, &|of| of.uploads = uploads);
    }
    cases
}

impl Arguments {
    fn scenario(&self, seed: u64) -> Scenario {
        let viewers = self.viewers.unwrap_or(0);
        let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), 0);
        scenario.disks = vec![scenario.disks[0].clone(); self.disks];
        scenario.be_share = f64::from(self.be_share) / 100.0;
        scenario.load.streams_max = self.streams;
        scenario.load.contents.per_disk = u32::try_from(self.streams).unwrap_or(0);
        scenario.load.arrivals = Nanos::from_millis(300);
        // Streams still running at the end get this time.
        scenario.load.viewing = (Nanos::from_secs(60), Nanos::from_secs(60));
        scenario.load.uploads.uploaders = self.uploads;
        scenario.load.uploads.rate = BitRate(8_000_000_000);
        (scenario.safety, scenario.liveness) = (Nanos::ZERO, Nanos::from_secs(self.lasts));
        scenario.load.segments = vec![SegmentViewers {
            apart: Nanos::from_millis(self.apart),
            films: self.films.unwrap_or(viewers),
            segment: Nanos::from_secs(self.seconds),
            smallest: self.smallest,
            layout: if self.ranges { SegmentLayout::Ranges } else { SegmentLayout::Files },
            striped: self.disks > 1,
            sound: self.audio.then_some(SOUND),
            ahead: Nanos::from_secs(self.ahead),
            way_max: Nanos::from_millis(self.way),
            open_max: Nanos::from_millis(self.open),
            pauses: Nanos::from_secs(self.pauses),
            seeks: Nanos::from_secs(self.seeks),
            ..SegmentViewers::of_hls(viewers)
        }];
        if let &[viewers, seconds] = &self.greedy[..] {
            scenario.load.segments.push(SegmentViewers {
                apart: Nanos::from_millis(self.apart),
                segment: Nanos::from_secs(u64::from(seconds)),
                ahead: Nanos::from_secs(3600),
                film: Nanos::from_secs(1800),
                ..SegmentViewers::of_hls(viewers)
            });
        }
        scenario
    }
}

impl Case {
    fn run(&self) {
        let trace = if self.arguments.trace { Trace::Print } else { Trace::Off };
        let seeds = self.arguments.seed..self.arguments.seed + self.arguments.seeds;
        let reports: Vec<RunReport> = thread::scope(|scope| {
            let run = |seed| scope.spawn(move || sim::run(&self.arguments.scenario(seed), trace));
            let runs: Vec<_> = seeds.map(run).collect();
            runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
        });
        for report in reports {
            println!("| {} | {}", self.name, line(&report));
        }
    }
}

fn line(report: &RunReport) -> String {
    let of = &report.viewers;
    let at = |spans: &[Nanos], percent| format!("{:.2}", ViewersTally::percentile(spans, percent).as_secs_f64());
    let spans = |spans: &[Nanos]| [50, 95, 100].map(|percent| at(spans, percent)).join(" | ");
    let calm = &report.tally.calm;
    let total = calm.spent.total().as_secs_f64().max(1e-9);
    format!(
        "{} | {} | {} | {} | {} | {:.2} | {:.2} | {} | {} | {} | {:.2} | {:.1} | {} |",
        of.viewers,
        of.smooth,
        of.stalled,
        of.refused,
        of.lost,
        of.stall_max.as_secs_f64(),
        of.lag_max.as_secs_f64(),
        spans(&of.starts),
        spans(&of.segments),
        report.tally.deliveries.excused_misses,
        1.0 - calm.spent.idle.as_secs_f64() / total,
        calm.writes.upload_bytes as f64 / 1e6 / total,
        report.broken.as_ref().map_or("kept".to_owned(), |broken| format!("seed {}: {broken}", report.seed)),
    )
}
