//! `isocast plan`: how many streams a machine will carry, its limit, and the gain from more disk or memory.
//!
//! Promise: counts with the admission code that `serve` uses, and only with the measurements of a disk; a drive that is named is measured
//! by the calibration procedure in virtual time. The streams counted are then run in the simulator.
//! Not here: counting (`capacity`), the simulator (`sim`).

mod drive;
mod files;
mod recorder;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use capacity::{Carried, PlannedLayout, PlannedMachine};
use clap::Args;
use kernel::permissions;
use serde::Serialize;
use sim::{DiskSetup, Popularity, Scenario, Trace};
use units::{BitRate, ByteCount, Nanos, counted, real};

use drive::PlannedDisk;
use files::FileRow;
use recorder::RecorderOptions;

/// How fast the simulated uploads come in, and their size.
const WRITER: BitRate = BitRate(1_000_000_000);
const UPLOAD_BYTES: u64 = 10_000_000;

/// Viewers that share contents come one after the other so far apart.
const VIEWER_PERIOD: Nanos = Nanos::from_millis(300);
/// How long the last of them is watched.
const LAST_VIEWER: Nanos = Nanos::from_secs(10);

/// Count how many streams a machine will carry before it is bought.
///
/// A disk is a file written by `isocast disk calibrate --json`, or one of desktop, t7k250, surveillance, ssd-sata: a drive model, measured
/// as a real disk would be. Of a FILE it says the rate that a stream of it reserves, and the part of the file from which that was found;
/// with --disk, streams of that rate are counted.
#[derive(Debug, Args)]
pub(crate) struct PlanCommand {
    /// Contents of which the rates are wanted.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The disks, one or more (repeat it, or separate by commas): names or files.
    #[arg(long, required_unless_present = "files", value_delimiter = ',', value_name = "NAME|FILE")]
    disk: Vec<String>,
    /// Number of each disk.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32))]
    disks: u16,
    /// How contents lie on several disks; only contents that lie on one disk each are simulated.
    #[arg(long, value_enum, default_value_t = PlannedLayout::Span)]
    layout: PlannedLayout,
    /// With --layout mirror: whether admitted streams find disk time when any one disk fails (`schedule.survive_disk_loss`).
    #[arg(long, default_value_t = true, value_name = "BOOL", action = clap::ArgAction::Set)]
    survive_disk_loss: bool,
    /// The rates of the streams.
    #[arg(long, required_unless_present = "files", value_delimiter = ',', value_name = "RATE", value_parser = units::parse_rate)]
    rate: Vec<BitRate>,
    /// Count streams of all rates together, equally many of each, instead of each rate alone.
    #[arg(long)]
    mix: bool,
    /// Rate of the uploads that run meanwhile, in all.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    uploads: Option<BitRate>,
    /// The share of disk time kept for best effort (`schedule.be_share`), instead of the share that the uploads need.
    #[arg(long, value_name = "PERCENT", conflicts_with = "uploads", value_parser = share)]
    be_share: Option<f64>,
    /// Memory for blocks (`plane.memory`).
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = units::parse_size)]
    memory: ByteCount,
    /// The rate that the network carries.
    #[arg(long, default_value = "10G", value_name = "RATE", value_parser = units::parse_rate)]
    net: BitRate,
    /// Virtual seconds to simulate the streams counted; 0: do not.
    #[arg(long, default_value_t = 90, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    simulate: u64,
    /// Viewers choose among N contents by Zipf's law (the k-th 1/k times as often as the first) and share the blocks read; they come 0.3 s
    /// apart, and the plan counts those that the simulation admits.
    #[arg(long, value_name = "zipf:N", conflicts_with_all = ["mix", "uploads", "layout"], value_parser = popularity)]
    popularity: Option<u32>,
    /// With --popularity: how many viewers come, at most [default: four times the number carried if each watches another content].
    #[arg(long, value_name = "N", requires = "popularity", value_parser = clap::value_parser!(u32).range(1..))]
    viewers: Option<u32>,
    /// With --popularity: the size of a content.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = units::parse_size)]
    content: ByteCount,
    #[command(flatten)]
    recorder: RecorderOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `zipf:40`, as a number of contents.
fn popularity(text: &str) -> Result<u32, String> {
    let contents = text.strip_prefix("zipf:").and_then(|number| number.parse().ok());
    contents
        .filter(|contents| (1..=100_000).contains(contents))
        .ok_or_else(|| format!("`{text}`: write for example zipf:40"))
}

/// One line of the answer.
#[derive(Debug, Serialize)]
struct PlanRow {
    rates_bps: Vec<u64>,
    streams: u32,
    limited_by: &'static str,
    blocks_bytes: Vec<u64>,
    disk_share: Vec<f64>,
    memory_used_bytes: u64,
    be_share: f64,
    /// The rate that uploads get with that share at least.
    upload_bytes_per_second_min: f64,
    /// None where viewers share contents: that would be another simulation.
    with_one_more_disk: Option<u32>,
    with_twice_the_memory: Option<u32>,
    simulated: Option<Simulated>,
}

/// Results of the simulator for it.
#[derive(Debug, Serialize)]
struct Simulated {
    seconds: u64,
    streams: u64,
    refused: u64,
    broken_law: Option<String>,
    first_byte_mean_ms: f64,
    first_byte_max_ms: f64,
    upload_bytes_per_second: f64,
}

impl PlanCommand {
    /// Runs the subcommand, which prints to `out`.
    ///
    /// # Errors
    /// A disk is neither a name nor a profile, uploads alone are too much, or the output cannot be written.
    pub(crate) fn run(mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        let files: Vec<FileRow> = self.files.iter().map(|file| FileRow::of(file)).collect();
        let reasons: Vec<String> = files.iter().filter_map(FileRow::reason).collect();
        if self.disk.is_empty() {
            if self.json {
                writeln!(out, "{}", serde_json::to_string_pretty(&files)?)?;
            } else {
                write!(out, "{}", files::table(&files))?;
            }
        }
        ensure!(reasons.is_empty(), "{}", reasons.join("\n"));
        if self.disk.is_empty() {
            return Ok(());
        }
        self.rate.extend(files.iter().filter_map(|file| file.rate.as_ref()).map(|found| BitRate(found.rate_bps)));
        let kinds =
            self.disk.iter().map(|text| PlannedDisk::named_or_file(text)).collect::<anyhow::Result<Vec<_>>>()?;
        let disks: Vec<&PlannedDisk> =
            kinds.iter().flat_map(|kind| std::iter::repeat_n(kind, usize::from(self.disks))).collect();
        let most = units::limits::DISKS_MAX;
        let wrong = match () {
            () if disks.len() > most => format!("{} disks: {most} at most", disks.len()),
            () if self.layout == PlannedLayout::Mirror && disks.len() < 2 => {
                "a mirror has at least 2 disks: say for example --disks 2".to_owned()
            }
            () if self.popularity.is_some() && self.simulate == 0 => {
                "shared reads are only counted by simulating the viewers: leave out --simulate 0, or --popularity"
                    .to_owned()
            }
            () => String::new(),
        };
        ensure!(wrong.is_empty(), crate::wrong_usage(wrong));
        let machine = PlannedMachine {
            layout: self.layout,
            survives_disk_loss: self.survive_disk_loss,
            disks: disks.iter().map(|d| d.profile.clone()).collect(),
            memory: self.memory,
            net: self.net,
            uploads: self.uploads.unwrap_or_default(),
            be_share: self.be_share,
        };
        if machine.be_share() > 0.9 {
            bail!("uploads of {} alone take {:.0} % of the disks' time", machine.uploads, machine.be_share() * 100.0);
        }
        if self.recorder.camera_rate.is_some() {
            return self.recorder.run((&machine, &disks), (&self.rate, self.simulate, self.json), out);
        }
        let groups: Vec<Vec<BitRate>> =
            if self.mix { vec![self.rate.clone()] } else { self.rate.iter().map(|r| vec![*r]).collect() };
        let rows = groups.iter().map(|rates| self.row(&machine, &disks, rates)).collect::<anyhow::Result<Vec<_>>>()?;
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        } else {
            write!(out, "{}", table(&rows, &machine))?;
        }
        if let Some(row) = rows.iter().find(|row| row.simulated.as_ref().is_some_and(|s| s.broken_law.is_some())) {
            let rates = joined(&row.rates_bps);
            bail!("{} streams of {rates} were counted, but the simulation says that they do not hold", row.streams);
        }
        Ok(())
    }

    fn row(&self, machine: &PlannedMachine, disks: &[&PlannedDisk], rates: &[BitRate]) -> anyhow::Result<PlanRow> {
        let mut carried = machine.carries(rates);
        // The simulator's contents lie on one disk each, or anywhere on several.
        let wanted = self.simulate > 0 && carried.streams > 0 && self.layout == PlannedLayout::Span;
        let simulated = wanted.then(|| self.simulate(machine, disks, rates, &carried)).transpose()?;
        let alone = carried.streams;
        if let (Some(_), Some(simulated)) = (self.popularity, &simulated) {
            carried.streams = u32::try_from(simulated.streams)?;
            if carried.streams == self.viewers_max(alone) {
                carried.limited_by = "viewers";
            } else if simulated.refused == 0 {
                carried.limited_by = "content length";
            }
        }
        let each_for_itself =
            |machine: PlannedMachine| self.popularity.is_none().then(|| machine.carries(rates).streams);
        let Carried { streams, limited_by, blocks, disk_share, memory_used } = carried;
        Ok(PlanRow {
            rates_bps: rates.iter().map(|r| r.0).collect(),
            streams,
            limited_by,
            blocks_bytes: blocks,
            disk_share,
            memory_used_bytes: memory_used,
            be_share: machine.be_share(),
            upload_bytes_per_second_min: machine.upload_floor(),
            with_one_more_disk: each_for_itself(machine.with_one_more_disk()),
            with_twice_the_memory: each_for_itself(machine.with_memory(ByteCount(machine.memory.0.saturating_mul(2)))),
            simulated,
        })
    }

    /// Runs the plane with the streams that `carried` counts, each of another content, all over the disks, or with viewers that share some.
    fn simulate(
        &self,
        machine: &PlannedMachine,
        disks: &[&PlannedDisk],
        rates: &[BitRate],
        carried: &Carried,
    ) -> anyhow::Result<Simulated> {
        let streams = match self.popularity {
            None => carried.streams,
            Some(_) => self.viewers_max(carried.streams),
        };
        // Viewers that share contents gain by memory that is not counted for.
        let memory =
            if self.popularity.is_some() { machine.memory.0 } else { machine.memory.0.min(simulated_memory(carried)) };
        let mut scenario = scenario((machine, disks), memory, (streams, rates), self.simulate)?;
        if let Some(contents) = self.popularity {
            scenario.load.contents.per_disk = contents.div_ceil(u32::try_from(disks.len())?);
            scenario.load.contents.bytes = (self.content.0, self.content.0);
            scenario.load.contents.popularity = Popularity::Zipf;
            scenario.load.arrivals = VIEWER_PERIOD;
            scenario.safety = VIEWER_PERIOD.saturating_mul(u64::from(streams)).saturating_add(LAST_VIEWER);
            // A viewer that has come stays until all have.
            scenario.load.viewing = (scenario.safety, scenario.safety);
        }
        if machine.uploads.0 > 0 {
            // One writer per disk that is never the slower side: its rate is the rate that uploads can have.
            scenario.load.uploads.uploaders = 1;
            scenario.load.uploads.rate = WRITER;
            scenario.load.uploads.bytes = (UPLOAD_BYTES, UPLOAD_BYTES);
            scenario.load.uploads.gap = Nanos::ZERO;
        }
        // Every content and every stream of the simulation is a descriptor, as in the server.
        let per_disk = u64::from(scenario.load.contents.per_disk) + self.simulated_uploads(machine);
        permissions::allow_open_files(disks.len() as u64 * per_disk + u64::from(streams) * 2)
            .context("simulating the counted streams (`--simulate 0` leaves it out)")?;
        let report = sim::run(&scenario, Trace::Off);
        let (tally, writes) = (report.tally.deliveries, report.tally.writes);
        let mean =
            if tally.first_bytes == 0 { 0.0 } else { tally.first_byte_sum.as_millis_f64() / real(tally.first_bytes) };
        Ok(Simulated {
            seconds: scenario.safety.0 / 1_000_000_000,
            streams: tally.running_max,
            refused: tally.refused,
            broken_law: report.broken.map(|b| b.to_string()),
            first_byte_mean_ms: mean,
            first_byte_max_ms: tally.first_byte_max.as_millis_f64(),
            upload_bytes_per_second: real(writes.upload_bytes) / real(self.simulate.max(1)),
        })
    }

    /// Number of viewers that come to share contents, where this number would be carried if each watched another one.
    fn viewers_max(&self, alone: u32) -> u32 {
        self.viewers.unwrap_or(alone.saturating_mul(4))
    }

    /// Most uploads that one simulated writer can make.
    fn simulated_uploads(&self, machine: &PlannedMachine) -> u64 {
        if machine.uploads.0 == 0 { 0 } else { WRITER.bytes_in(Nanos::from_secs(self.simulate)) / UPLOAD_BYTES }
    }
}

/// A run of the simulator on these disks for `seconds`, with as many streams at these rates.
fn scenario(
    (machine, disks): (&PlannedMachine, &[&PlannedDisk]),
    memory: u64,
    (streams, rates): (u32, &[BitRate]),
    seconds: u64,
) -> anyhow::Result<Scenario> {
    for disk in disks {
        disk.model
            .check()
            .context("no drive of the simulation fits this profile (`--simulate 0` counts without simulating)")?;
    }
    let mut scenario = Scenario::steady(1, sim::drive::DriveProfile::Desktop, memory, BitRate::default(), 0);
    let setup = |disk: &&PlannedDisk| DiskSetup {
        parameters: disk.model.clone(),
        profile: Some(disk.profile.clone()),
        slower: 1.0,
    };
    scenario.disks = disks.iter().map(setup).collect();
    (scenario.be_share, scenario.link) = (machine.be_share(), machine.net);
    scenario.load.streams_max = usize::try_from(streams)?;
    // Streams are spread over the disks: each of another content, and as many again.
    scenario.load.contents.per_disk = streams.div_ceil(u32::try_from(disks.len())?).max(1) * 2;
    scenario.load.rates = rates.to_vec();
    scenario.load.contents.popularity = Popularity::Even;
    // All begin within the first third of the time.
    scenario.safety = Nanos::from_secs(seconds);
    scenario.load.arrivals = Nanos(scenario.safety.0 / 3 / u64::from(streams.max(1)));
    scenario.load.viewing = (scenario.safety, scenario.safety);
    Ok(scenario)
}

/// More than this makes no difference to the streams counted, and the simulator keeps note of every page.
fn simulated_memory(carried: &Carried) -> u64 {
    carried.memory_used.saturating_mul(4).max(4 << 30)
}

/// `10%`, as a share of one.
fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let valid = percent.filter(|percent| (0.0..=90.0).contains(percent));
    valid.map(|percent| percent / 100.0).ok_or_else(|| format!("`{text}` is no share; write `0%` … `90%`"))
}

fn table(rows: &[PlanRow], machine: &PlannedMachine) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let disks = counted(machine.disks.len(), "disk");
    let _ = writeln!(text, "{disks}, {} for blocks, network {}", machine.memory, machine.net);
    if machine.uploads.0 > 0 {
        let share = machine.be_share() * 100.0;
        let _ = writeln!(text, "uploads {}: set schedule.be_share = \"{share:.0}%\"", machine.uploads);
    }
    let _ = writeln!(
        text,
        "{:>22} {:>8} {:>14} {:>18} {:>10} {:>10}  simulated",
        "rate", "streams", "limited by", "block", "+1 disk", "2×memory"
    );
    for row in rows {
        let rates = joined(&row.rates_bps);
        let blocks = row.blocks_bytes.iter().map(|b| ByteCount(*b).to_string()).collect::<Vec<_>>().join("+");
        let simulated = match &row.simulated {
            None => "–".to_owned(),
            Some(Simulated { broken_law: Some(law), .. }) => format!("does not hold: {law}"),
            Some(s) => {
                let uploads = if machine.uploads.0 > 0 {
                    format!(", uploads {:.1} MB/s", s.upload_bytes_per_second / 1e6)
                } else {
                    String::new()
                };
                format!("{} streams for {} s, no miss{uploads}", s.streams, s.seconds)
            }
        };
        let _ = writeln!(
            text,
            "{rates:>22} {:>8} {:>14} {blocks:>18} {:>10} {:>10}  {simulated}",
            row.streams,
            row.limited_by,
            shown(row.with_one_more_disk),
            shown(row.with_twice_the_memory)
        );
    }
    let differs = |row: &PlanRow| {
        row.simulated.as_ref().is_some_and(|s| s.broken_law.is_none() && s.streams != u64::from(row.streams))
    };
    if rows.iter().any(differs) {
        text.push_str(
            "Counted streams are spread evenly over a disk, simulated ones lie where chance puts them: of these a few more or \
             fewer fit.\n",
        );
    }
    text
}

fn shown(count: Option<u32>) -> String {
    count.map_or_else(|| "–".to_owned(), |count| count.to_string())
}

/// `8.80 Mbit/s+25.0 Mbit/s`.
fn joined(rates_bps: &[u64]) -> String {
    rates_bps.iter().map(|r| BitRate(*r).to_string()).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(disk: &str, memory: u64, uploads: u64) -> PlannedMachine {
        let disk = PlannedDisk::named_or_file(disk).expect("a name");
        PlannedMachine {
            disks: vec![disk.profile],
            layout: PlannedLayout::Span,
            survives_disk_loss: true,
            memory: ByteCount(memory),
            net: BitRate(100_000_000_000),
            uploads: BitRate(uploads),
            be_share: None,
        }
    }

    #[test]
    fn more_of_anything_never_carries_less() {
        let rate = [BitRate(8_800_000)];
        let base = machine("desktop", 1 << 30, 0);
        let carried = base.carries(&rate);
        assert!((30..110).contains(&carried.streams), "{carried:?}");
        assert!(base.with_one_more_disk().carries(&rate).streams >= carried.streams);
        assert!(base.with_memory(ByteCount(4 << 30)).carries(&rate).streams >= carried.streams);
        assert!(machine("desktop", 1 << 30, 80_000_000).carries(&rate).streams < carried.streams);
        assert!(base.carries(&[BitRate(25_000_000)]).streams < carried.streams);
    }

    #[test]
    fn the_network_is_a_limit_too_and_is_named() {
        let narrow = PlannedMachine { net: BitRate(100_000_000), ..machine("ssd-sata", 1 << 30, 0) };
        let carried = narrow.carries(&[BitRate(8_800_000)]);
        assert_eq!((carried.streams, carried.limited_by), (10, "network"));
    }

    #[test]
    fn an_unknown_disk_is_refused_with_names_and_remedy() {
        let error = PlannedDisk::named_or_file("floppy").expect_err("no such drive").to_string();
        assert!(error.contains("desktop") && error.contains("isocast disk calibrate"), "{error}");
    }

    /// Streams of a benchmark's files, in leaps of the golden section over them as it takes them: admitted before the first refusal, and of
    /// all.
    fn files_in_turn(machine: &PlannedMachine, rate: BitRate, files: u32) -> (u32, u32) {
        let leap = if files == 64 { 39 } else { 79 };
        let mut admission = machine.admission();
        let (mut before, mut all, mut refused) = (0, 0, false);
        for n in 0..files {
            let place = n * leap % files;
            match admission.reserve(&[machine.request_at(0, f64::from(place) / f64::from(files), rate)]) {
                Ok(_) => {
                    all += 1;
                    before += u32::from(!refused);
                }
                Err(_) => refused = true,
            }
        }
        (before, all)
    }

    /// A plan knows no files: it spreads streams over the disk. The count at which files, taken as the benchmark takes them, are first
    /// refused is to be within a tenth of it, and so is the number admitted in all.
    #[test]
    fn a_plan_says_at_which_file_of_a_benchmark_the_first_is_refused() {
        for (name, files) in [("desktop", 128), ("t7k250", 64), ("surveillance", 128)] {
            let disk = PlannedDisk::named_or_file(name).expect("a name").profile;
            for share in [0.0, 0.1, 0.25] {
                let machine = PlannedMachine {
                    disks: vec![disk.clone()],
                    layout: PlannedLayout::Span,
                    survives_disk_loss: true,
                    memory: ByteCount(3 << 30),
                    net: BitRate(100_000_000_000),
                    uploads: BitRate::default(),
                    be_share: Some(share),
                };
                for rate in [8_800_000, 25_000_000].map(BitRate) {
                    let planned = machine.carries(&[rate]).streams;
                    let (before, all) = files_in_turn(&machine, rate, files);
                    let close = |count: u32| count.abs_diff(planned) * 10 <= planned;
                    assert!(close(before) && close(all), "{name}, {rate}, {share}: {planned}, {before}, {all}");
                }
            }
        }
    }

    pub(super) fn planned(arguments: &[&str]) -> anyhow::Result<String> {
        use clap::Parser;
        #[derive(Parser)]
        struct PlanLine {
            #[command(flatten)]
            plan: PlanCommand,
        }
        let mut out = Vec::new();
        PlanLine::try_parse_from(["plan"].iter().chain(arguments))?.plan.run(&mut out)?;
        Ok(String::from_utf8(out)?)
    }

    #[test]
    fn several_disks_carry_the_streams_of_their_layout() {
        let of = |disks: &str, layout: &[&str]| {
            let options = ["--disk", "desktop", "--rate", "8.8M", "--memory", "64GiB", "--net", "100G", "--json"];
            let said = planned(&[&options[..], &["--disks", disks, "--layout"], layout].concat()).expect("planned");
            serde_json::from_str::<serde_json::Value>(&said).expect("JSON")[0]["streams"].as_u64().expect("a number")
        };
        let one = of("1", &["stripe"]);
        for disks in [2, 4, 8] {
            let [stripe, careful, outer] = [&["stripe"][..], &["mirror"], &["mirror", "--survive-disk-loss", "false"]]
                .map(|layout| of(&disks.to_string(), layout));
            assert!(stripe * 100 >= one * disks * 95, "{disks} disks: {stripe}, one {one}");
            assert!(outer * 10 >= one * disks * 11, "in their outer halves: {outer}, one {one}");
            assert!(careful * 2 < outer, "of {outer} as many are kept when any one fails: {careful}");
        }
        assert!(planned(&["--disk", "desktop", "--rate", "8.8M", "--layout", "mirror"]).is_err(), "of one disk");
    }

    #[test]
    fn viewers_of_shared_contents_exceed_separate_ones() {
        let evening = ["--disk", "desktop", "--rate", "8.8M", "--memory", "4GiB", "--popularity", "zipf:40", "--json"];
        let of = |more: &[&str]| {
            let said = planned(&[&evening, more].concat()).expect("planned");
            serde_json::from_str::<serde_json::Value>(&said).expect("JSON")[0].clone()
        };
        let (some, all) = (of(&["--viewers", "200"]), of(&[]));
        assert_eq!((&some["streams"], &some["limited_by"]), (&200.into(), &"viewers".into()), "{some}");
        assert!(all["streams"].as_u64() >= Some(200) && all["limited_by"] != "viewers", "{all}");
        assert!(planned(&[&evening[..], &["--mix"]].concat()).is_err());
        let error =
            planned(&[&evening[..], &["--simulate", "0"]].concat()).expect_err("nothing is counted").to_string();
        assert!(error.contains("leave out --simulate 0"), "{error}");
    }

    /// All watch one content, which is read once: only their number is the limit, however long they take to come.
    #[test]
    fn viewers_stay_until_the_last_has_come() {
        let crowd = ["--disk", "desktop", "--rate", "8.8M", "--memory", "4GiB", "--popularity", "zipf:1", "--json"];
        let of = |more: &[&str]| {
            let said = planned(&[&crowd, more].concat()).expect("planned");
            let row = serde_json::from_str::<serde_json::Value>(&said).expect("JSON")[0].clone();
            (row["streams"].as_u64(), row["limited_by"].as_str().map(str::to_owned))
        };
        assert_eq!(of(&["--viewers", "400"]), (Some(400), Some("viewers".to_owned())));
        assert_eq!(of(&["--viewers", "60", "--simulate", "5"]), (Some(60), Some("viewers".to_owned())));
        let (streams, limited_by) = of(&["--viewers", "60", "--content", "8MB"]);
        assert!(streams < Some(60) && limited_by.as_deref() == Some("content length"), "{streams:?} {limited_by:?}");
    }

    #[test]
    fn contents_that_are_shared_lie_on_all_disks() {
        // With 4 GiB the buffers of two disks' viewers are short.
        let evening = ["--disk", "desktop", "--rate", "8.8M", "--popularity", "zipf:64", "--memory", "8GiB", "--json"];
        let of = |disks: &str| {
            let said = planned(&[&evening[..], &["--disks", disks]].concat()).expect("planned");
            serde_json::from_str::<serde_json::Value>(&said).expect("JSON")[0]["streams"].as_u64().expect("a number")
        };
        let (one, two) = (of("1"), of("2"));
        assert!(two * 10 >= one * 16, "{two} on two disks, {one} on one");
    }

    #[test]
    fn memory_beyond_any_machine_is_counted_and_simulated() {
        let of = |memory| {
            let said = planned(&["--disk", "desktop", "--rate", "8.8M", "--simulate", "20", "--memory", memory]);
            said.expect("planned").lines().nth(2).expect("a line").to_owned()
        };
        assert!(of("64GiB").contains("no miss"));
        assert_eq!(of("64GiB"), of("7000000TiB"));
    }

    #[test]
    fn a_profile_that_no_drive_fits_is_counted_but_not_simulated() {
        let file = std::env::temp_dir().join(format!("isocast-plan-{}.json", std::process::id()));
        let array = serde_json::json!({
            "version": 2, "rotational": true, "capacity_bytes": 40_000_000_000_000u64,
            "zones": [{"start_bytes": 0, "bytes_per_second": 20_000_000_000u64}],
            "seeks": [{"distance_bytes": 0, "time_ns": 8_000_000}],
            "turn_ns": 8_333_333, "flush_ns": 60_000_000, "write_ratio": 1.0, "queue_depth": 32
        });
        std::fs::write(&file, array.to_string()).expect("written");
        let file_name = file.to_str().expect("UTF-8");
        let refused = planned(&["--disk", file_name, "--rate", "25M"]).expect_err("faster than any drive");
        let counted = planned(&["--disk", file_name, "--rate", "25M", "--simulate", "0"]);
        std::fs::remove_file(&file).expect("it was made");
        assert!(format!("{refused:#}").contains("--simulate 0"), "{refused:#}");
        assert!(counted.is_ok(), "{counted:?}");
    }
}
