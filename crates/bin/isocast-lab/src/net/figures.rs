//! `isocast net figures`: the tests A, B and C by message size, over TCP and TIPC side by side, as tables, JSON, CSV, plots.
//!
//! Promise: every figure is made from the raw results in the same folder. Two guests on an emulated Ethernet of
//! 100 Mbit/s, where User-mode Linux is installed; else this machine's loopback, without TIPC, which it reports; or this
//! machine and another that runs `isocast net serve`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use units::{BitRate, real};

use super::daemon::Stat;
use super::experiments::{NetCase, NetExperiment, Way};
use super::network_folder::NetworkFolder;
use super::up::{NetUp, down};
use crate::bench::{Host, Plot, PlotLine, align};
use crate::say;

/// Marks the raw results, and their shape.
const FORMAT: &str = "isocast-net-figures-1";
const TCP_PORT: u16 = 5001;
const TIPC_SERVICE: &str = "tipc:18888:1";
/// Tries, half a second each, within which the receiver in a guest begins.
const TRIES: u32 = 40;

/// Make all figures and tables: TCP and TIPC by message size, round trips, a paced stream, packets, processor time.
#[derive(Debug, Args)]
pub(super) struct FiguresCommand {
    /// The folder for them; made if it is missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Address of `isocast net serve` on another machine, instead of guests.
    #[arg(long, value_name = "ADDR")]
    to: Option<String>,
    /// The token of that one.
    #[arg(long, value_name = "FILE", requires = "to")]
    token_file: Option<PathBuf>,
    /// Seconds of each test; there are about ninety.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Rounds of all tests: the table shows medians, the least and the greatest value.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Rate of a guest's Ethernet.
    #[arg(long, value_name = "RATE", default_value = "100Mbit/s", value_parser = units::parse_rate, conflicts_with = "to")]
    rate: BitRate,
    /// Make tables and plots anew from the raw results in the folder, without measuring.
    #[arg(long, conflicts_with = "to")]
    redraw: bool,
}

/// The raw results.
#[derive(Debug, Serialize, Deserialize)]
struct Measurements {
    format: String,
    host: Host,
    /// Network between sender and receiver.
    network: String,
    /// Reason for results without TIPC; `None` with TIPC.
    without_tipc: Option<String>,
    /// Each as often as there were rounds.
    tests: Vec<MeasuredTest>,
}

/// One test.
#[derive(Debug, Serialize, Deserialize)]
struct MeasuredTest {
    #[serde(flatten)]
    case: NetCase,
    /// Output of `isocast net test --json`.
    report: Value,
    /// The host's processor time of the sender's and the receiver's guest, seconds, their kernels included.
    guest_cpu_seconds: Option<[f64; 2]>,
}

/// Network of the tests.
enum TestRig {
    Guests(NetworkFolder),
    Loopback,
    Other(String, Option<PathBuf>),
}

impl FiguresCommand {
    /// Measures, and writes everything into the folder.
    ///
    /// # Errors
    /// A test failed, or the folder cannot be written.
    pub(super) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        fs::create_dir_all(&self.out).with_context(|| format!("making {}", self.out.display()))?;
        let raw = self.out.join("figures.json");
        let all = if self.redraw {
            serde_json::from_slice(&fs::read(&raw).with_context(|| format!("reading {}", raw.display()))?)?
        } else {
            let all = self.measure()?;
            fs::write(&raw, serde_json::to_string_pretty(&all)? + "\n")
                .with_context(|| format!("writing {}", raw.display()))?;
            all
        };
        let table = table(&all);
        fs::write(self.out.join("tests.csv"), csv(&all))?;
        for (name, plot) in plots(&all) {
            if let Some(svg) = plot.svg()? {
                fs::write(self.out.join(format!("{name}.svg")), svg)?;
            }
        }
        fs::write(self.out.join("README.md"), page(&all, &table))?;
        Ok(write!(out, "{table}")?)
    }

    fn measure(&self) -> anyhow::Result<Measurements> {
        let mut without_tipc = None;
        let rig = match &self.to {
            Some(to) => TestRig::Other(to.clone(), self.token_file.clone()),
            None => match self.guests() {
                Ok(home) => TestRig::Guests(home),
                Err(why) => {
                    let why = format!("{why:#}");
                    say(format_args!("{why}"));
                    without_tipc = Some(why);
                    TestRig::Loopback
                }
            },
        };
        let tests = rig.begin().and_then(|()| self.tests(&rig));
        // Whatever became of the tests.
        let network = rig.describe(self.rate);
        if let TestRig::Guests(home) = &rig {
            down(home)?;
        }
        Ok(Measurements { format: FORMAT.to_owned(), host: Host::here(None), network, without_tipc, tests: tests? })
    }

    /// A network of two guests.
    fn guests(&self) -> anyhow::Result<NetworkFolder> {
        let name = format!("figures-{}", std::process::id());
        NetUp { name, nodes: 2, rate: Some(self.rate), loss: None, delay: None }.make()
    }

    fn tests(&self, rig: &TestRig) -> anyhow::Result<Vec<MeasuredTest>> {
        // Another machine may have TIPC: the first test shows whether ours has it.
        let cases = NetCase::all(!matches!(rig, TestRig::Loopback));
        let mut tests = Vec::new();
        let rounds = (0..self.repeat).flat_map(|_| &cases);
        for (number, case) in rounds.enumerate() {
            say(format_args!(
                "{}/{}: {:?}, {}, {} B",
                number + 1,
                cases.len() * self.repeat as usize,
                case.experiment,
                case.way.name(),
                case.size
            ));
            let before = rig.processor_ns()?;
            let report = rig.test(case, self.seconds)?;
            let guest_cpu_seconds = rig.processor_ns()?.zip(before).map(|(after, before)| {
                let used = |node: usize| units::Nanos(after[node].saturating_sub(before[node])).as_secs_f64();
                [used(0), used(1)]
            });
            tests.push(MeasuredTest { case: *case, report, guest_cpu_seconds });
        }
        Ok(tests)
    }
}

impl TestRig {
    /// Starts the receiver, where that is ours to do, and waits until it answers.
    fn begin(&self) -> anyhow::Result<()> {
        let Self::Guests(home) = self else { return Ok(()) };
        let program = program_for_guests()?;
        fs::write(home.folder.join("token"), format!("{:032x}", u128::from(std::process::id()) << 64))?;
        let mut words = vec![program, "net".to_owned(), "serve".to_owned()];
        for place in [format!("10.9.0.2:{TCP_PORT}").as_str(), TIPC_SERVICE] {
            words.extend(["--listen".to_owned(), place.to_owned()]);
        }
        words.extend(["--token-file", "/run/lab/token"].map(str::to_owned));
        let server = home.clone();
        // It ends with the network.
        std::thread::spawn(move || server.run(2, &words).map_err(|error| say(format_args!("the receiver: {error:#}"))));
        let first = NetCase { experiment: NetExperiment::A, way: Way::Tipc, size: 1024 };
        let mut last = anyhow!("no try");
        for _ in 0..TRIES {
            match self.test(&first, 1) {
                Ok(_) => return Ok(()),
                Err(error) => last = error,
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Err(last.context("the receiver in the guest does not answer"))
    }

    fn test(&self, case: &NetCase, seconds: u32) -> anyhow::Result<Value> {
        let mut words = vec!["net".to_owned(), "test".to_owned(), "--json".to_owned()];
        match self {
            Self::Loopback => words.push("--self".to_owned()),
            Self::Other(to, token) => {
                words.extend(["--to".to_owned(), to.clone()]);
                words.extend(token.iter().flat_map(|file| ["--token-file".to_owned(), file.display().to_string()]));
            }
            Self::Guests(_) => {
                let to = if case.way.is_tipc() { TIPC_SERVICE.to_owned() } else { format!("10.9.0.2:{TCP_PORT}") };
                words.extend(["--to".to_owned(), to, "--token-file".to_owned(), "/run/lab/token".to_owned()]);
            }
        }
        words.extend(case.words(seconds));
        let (out, err) = if let Self::Guests(home) = self {
            words.insert(0, program_for_guests()?);
            let ran = home.run(1, &words)?;
            (ran.out, ran.err)
        } else {
            let ran = Command::new(std::env::current_exe()?).args(&words).stdin(Stdio::null()).output()?;
            (ran.stdout, ran.stderr)
        };
        serde_json::from_slice(&out).map_err(|_| anyhow!("{}", String::from_utf8_lossy(&err).trim().to_owned()))
    }

    fn processor_ns(&self) -> anyhow::Result<Option<Vec<u64>>> {
        let Self::Guests(home) = self else { return Ok(None) };
        let stat: Stat = serde_json::from_str(&home.ask("stat")?)?;
        Ok(Some(stat.processor_ns))
    }

    fn describe(&self, rate: BitRate) -> String {
        match self {
            Self::Guests(_) => format!("two guests (User-mode Linux) on an emulated Ethernet of {rate}, MTU 1500"),
            Self::Loopback => "loopback".to_owned(),
            Self::Other(to, _) => format!("to {to}"),
        }
    }
}

/// This program, where guests see it too: their `/run` and `/dev` are their own.
fn program_for_guests() -> anyhow::Result<String> {
    let program = std::env::current_exe()?;
    if ["/run", "/dev", "/proc", "/sys"].iter().any(|hidden| program.starts_with(hidden)) {
        bail!("guests do not see {}: put the programs elsewhere than in /run", program.display());
    }
    Ok(program.display().to_string())
}

impl MeasuredTest {
    fn figure(&self, pointer: &str) -> Option<f64> {
        self.report.pointer(pointer)?.as_f64()
    }

    /// Percent of one processor that a side (0 sender, 1 receiver) took: of the host for a guest, else of its own thread.
    fn cpu_percent(&self, side: usize) -> Option<f64> {
        let name = ["sender", "receiver"][side];
        let seconds = self.figure(&format!("/{name}/seconds"))?;
        let own = self.figure(&format!("/{name}/cpu_seconds"));
        Some(self.guest_cpu_seconds.map(|both| both[side]).or(own)? / seconds * 100.0)
    }

    /// Packets of the sender in a direction (`sent` or `received`) per second.
    fn packets_per_second(&self, direction: &str) -> Option<f64> {
        Some(self.figure(&format!("/sender/interface/{direction}_packets"))? / self.figure("/sender/seconds")?)
    }

    fn mbps(&self) -> Option<f64> {
        self.figure("/receiver/bits_per_second").map(|rate| rate / 1e6)
    }

    /// Columns of the table and of the CSV.
    fn columns(&self) -> [(&'static str, Option<f64>, usize); 11] {
        let packets = |direction: &str| self.figure(&format!("/sender/interface/{direction}_packets"));
        let messages = self.figure("/sender/messages");
        let per_thousand = |count: Option<f64>| Some(count? * 1000.0 / messages.filter(|&messages| messages > 0.0)?);
        [
            ("messages", messages, 0),
            ("Mbit/s", self.mbps(), 2),
            ("send CPU %", self.cpu_percent(0), 1),
            ("receive CPU %", self.cpu_percent(1), 1),
            ("packets out", packets("sent"), 0),
            ("packets back", packets("received"), 0),
            ("out per 1000", per_thousand(packets("sent")), 1),
            ("back per 1000", per_thousand(packets("received")), 1),
            ("round trip µs", self.figure("/round_trip/p50_us"), 1),
            ("round trip p99", self.figure("/round_trip/p99_us"), 1),
            ("waited p99 µs", self.figure("/coalesced/waited/p99_us"), 0),
        ]
    }
}

/// The tests of each case, one of each round, in the order of the first round.
fn by_case(all: &Measurements) -> Vec<Vec<&MeasuredTest>> {
    let mut cases: Vec<Vec<&MeasuredTest>> = Vec::new();
    for test in &all.tests {
        match cases.iter_mut().find(|tests| tests[0].case == test.case) {
            Some(tests) => tests.push(test),
            None => cases.push(vec![test]),
        }
    }
    cases
}

/// The values of the tests, in order.
fn sorted(tests: &[&MeasuredTest], of: &dyn Fn(&MeasuredTest) -> Option<f64>) -> Vec<f64> {
    let mut values: Vec<f64> = tests.iter().filter_map(|test| of(test)).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// A row for each of these groups of tests, below the names of the columns.
fn rows(groups: &[Vec<&MeasuredTest>], gap: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for tests in groups {
        let first = tests[0];
        let columns = first.columns();
        if rows.is_empty() {
            let mut head: Vec<String> = ["test", "transport", "bytes"].map(str::to_owned).into();
            head.extend(columns.iter().map(|(name, ..)| (*name).to_owned()));
            rows.push(head);
        }
        let case = first.case;
        let mut row = vec![format!("{:?}", case.experiment), case.way.name().to_owned(), case.size.to_string()];
        row.extend(columns.iter().enumerate().map(|(at, (.., places))| {
            match sorted(tests, &|test| test.columns()[at].1).as_slice() {
                [] => gap.to_owned(),
                [only] => format!("{only:.places$}"),
                all @ [least, .., most] => {
                    format!("{:.places$} ({least:.places$}…{most:.places$})", all[all.len() / 2])
                }
            }
        }));
        rows.push(row);
    }
    rows
}

fn table(all: &Measurements) -> String {
    align(&rows(&by_case(all), "–"))
}

/// Each test of each round.
fn csv(all: &Measurements) -> String {
    let mut text = String::new();
    let tests: Vec<Vec<&MeasuredTest>> = all.tests.iter().map(|test| vec![test]).collect();
    for row in rows(&tests, "") {
        // No word of it holds a quotation mark.
        let cells: Vec<String> =
            row.iter().map(|cell| if cell.contains(',') { format!("\"{cell}\"") } else { cell.clone() }).collect();
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text
}

/// A figure of the comparison: its experiment, title, unit and value, and whether it shows only the sizes around the steps of TIPC.
type NetFigure = (NetExperiment, &'static str, &'static str, fn(&MeasuredTest) -> Option<f64>, bool);

const FIGURES: [NetFigure; 7] = [
    (NetExperiment::A, "A: throughput", "Mbit/s", MeasuredTest::mbps, false),
    (NetExperiment::A, "A: processor time of the sender", "% of one", |test| test.cpu_percent(0), false),
    (NetExperiment::A, "A: processor time of the receiver", "% of one", |test| test.cpu_percent(1), false),
    (NetExperiment::A, "A: throughput around the steps of TIPC", "Mbit/s", MeasuredTest::mbps, true),
    (
        NetExperiment::A,
        "A: packets of the sender per second",
        "packets/s",
        |test| test.packets_per_second("sent"),
        false,
    ),
    (
        NetExperiment::A,
        "A: packets back to the sender per second",
        "packets/s",
        |test| test.packets_per_second("received"),
        false,
    ),
    (NetExperiment::B, "B: there and back, median", "µs", |test| test.figure("/round_trip/p50_us"), false),
];

/// The figures, by the names of their files: a line for each transport, over the logarithm of the size.
fn plots(all: &Measurements) -> Vec<(String, Plot<'static>)> {
    let plot = |(number, &(experiment, title, y, of, is_near)): (usize, &NetFigure)| {
        let mut lines: Vec<(Way, PlotLine)> = Vec::new();
        for tests in by_case(all).iter().filter(|tests| tests[0].case.experiment == experiment) {
            let NetCase { way, size, .. } = tests[0].case;
            let (x, values) = (real(size as u64).log2(), sorted(tests, &of));
            let Some(&y) = values.get(values.len() / 2).filter(|_| !is_near || (10.0..=12.1).contains(&x)) else {
                continue;
            };
            match lines.iter_mut().find(|(known, _)| *known == way) {
                Some((_, line)) => line.points.push((x, y)),
                None => lines.push((way, PlotLine { name: way.name().to_owned(), points: vec![(x, y)], marked: true })),
            }
        }
        lines.retain(|(_, line)| !is_near || line.points.len() > 2);
        lines.sort_by_key(|(way, _)| *way);
        let lines = lines.into_iter().map(|(_, line)| line).collect();
        (format!("figure{}", number + 1), Plot { title, x: "message size, 2^x bytes", y, lines })
    };
    FIGURES.iter().enumerate().map(plot).collect()
}

/// The folder's first page.
fn page(all: &Measurements, table: &str) -> String {
    let Host { name, .. } = &all.host;
    let mut text = format!("# TCP and TIPC by message size\n\n{} · {name} · {}\n\n", all.host.sentence(), all.network);
    if let Some(why) = &all.without_tipc {
        let _ = writeln!(text, "Without TIPC: {why}\n");
    }
    let _ = writeln!(
        text,
        "Made by `isocast net figures`; raw results: [figures.json](figures.json), [tests.csv](tests.csv). Of guests, processor time is the\nhost's for \
         the whole guest, its kernel included.\n\n```\n{}```\n",
        table
    );
    for (name, plot) in plots(all) {
        if plot.lines.iter().map(|line| line.points.len()).sum::<usize>() >= 2 {
            let _ = writeln!(text, "![{}]({name}.svg)", plot.title);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::experiments::SIZES;
    use super::*;

    #[test]
    fn tables_csv_and_plots_come_from_the_raw_results() {
        let tests = NetCase::all(true)
            .into_iter()
            .map(|case| MeasuredTest {
                case,
                report: serde_json::json!({
                    "sender": {"messages": 1000, "seconds": 2.0, "cpu_seconds": 1.0,
                               "interface": {"sent_packets": 10, "received_packets": 5}},
                    "receiver": {"seconds": 2.0, "bits_per_second": 9e7},
                    "round_trip": {"p50_us": 120.0, "p99_us": 200.0},
                }),
                guest_cpu_seconds: Some([0.5, 0.25]),
            })
            .collect();
        let all = Measurements {
            format: FORMAT.to_owned(),
            host: Host::default(),
            network: "between two".to_owned(),
            without_tipc: None,
            tests,
        };
        let text = csv(&all);
        assert!(text.starts_with("test,transport,bytes,messages,Mbit/s,"), "{text}");
        assert!(text.contains("A,TIPC without Nagle,16,1000,90.00,25.0,12.5,10,5,10.0,5.0,"), "{text}");
        assert!(text.contains("A,\"TIPC, coalesced\",16,"), "{text}");
        let plots = plots(&all);
        assert_eq!(plots.len(), 7);
        for (name, plot) in &plots {
            let svg = plot.svg().expect("drawn").unwrap_or_else(|| panic!("{name} is empty"));
            assert!(svg.contains("TIPC") && svg.contains("TCP"), "{name}");
        }
        assert!(page(&all, &table(&all)).contains("figure7.svg"));
        let again: Measurements =
            serde_json::from_str(&serde_json::to_string(&all).expect("JSON")).expect("as written");
        assert_eq!(csv(&again), text);
    }

    #[test]
    fn rounds_are_shown_by_their_median_least_and_greatest() {
        let case = NetCase { experiment: NetExperiment::A, way: Way::Tcp, size: 16 };
        let test = |rate: f64| MeasuredTest {
            case,
            report: serde_json::json!({ "receiver": { "bits_per_second": rate } }),
            guest_cpu_seconds: None,
        };
        let all = Measurements {
            format: FORMAT.to_owned(),
            host: Host::default(),
            network: "between two".to_owned(),
            without_tipc: None,
            tests: [9e7, 6e7, 7e7].map(test).into(),
        };
        let table = table(&all);
        assert!(table.contains("70.00 (60.00…90.00)") && table.lines().count() == 2, "{table}");
        assert_eq!(csv(&all).lines().count(), 4, "each round has a line there");
        assert_eq!(plots(&all)[0].1.lines[0].points, [(4.0, 70.0)]);
    }

    #[test]
    fn sizes_lie_on_both_sides_of_each_step() {
        for last in [1404, 2752] {
            assert!(SIZES.contains(&last) && SIZES.contains(&(last + 1)));
        }
        assert!(NetCase::all(false).iter().all(|case| !case.way.is_tipc()));
    }
}
