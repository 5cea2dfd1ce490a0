//! Cameras with viewers: the number of either that a machine carries, and the days for which its disks hold the recordings.
//!
//! Not here: counting (`capacity`), streams alone (`super`).

use std::fmt::Write as _;
use std::io::Write;

use anyhow::{Context, bail};
use capacity::{PlannedCameras, PlannedLayout, PlannedMachine, PlannedRecorder, recording_durable_min};
use clap::Args;
use kernel::permissions;
use serde::Serialize;
use sim::Trace;
use units::{BitRate, ByteCount, Nanos, counted, limits};

use super::drive::PlannedDisk;
use super::{joined, real, scenario};

/// A ring (`quota`) keeps one part in this number of each disk free.
const RING_SPARE: u64 = 16;
const DAY: u64 = 86_400;

/// Options of a plan for cameras.
#[derive(Debug, Args)]
pub(super) struct RecorderOptions {
    /// Cameras of this rate are recorded meanwhile: a line for each number of them, with the viewers that fit and the days that the
    /// disks hold.
    #[arg(long, value_name = "RATE", conflicts_with_all = ["popularity", "uploads"], value_parser = units::parse_rate)]
    pub(super) camera_rate: Option<BitRate>,
    /// Numbers of cameras [default: the most, and three quarters, half and a quarter of them].
    #[arg(long, value_delimiter = ',', value_name = "N", requires = "camera_rate", value_parser = clap::value_parser!(u32).range(1..))]
    cameras: Vec<u32>,
    /// Days for which recordings are kept: no more cameras are counted than the disks hold for that time.
    #[arg(long, value_name = "DAYS", requires = "camera_rate", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: Option<u32>,
    /// At most this time of a recording may be missing after a power cut (`recordings.durable`).
    #[arg(long, default_value = "10s", value_name = "SPAN", requires = "camera_rate", value_parser = units::parse_duration)]
    durable: Nanos,
    /// Memory for the blocks of recordings: 3/16 of the memory that the server may use, at most 2 GiB.
    #[arg(long, default_value = "2GiB", value_name = "SIZE", requires = "camera_rate", value_parser = units::parse_size)]
    recording_memory: ByteCount,
}

/// One line of the answer.
#[derive(Debug, Serialize)]
struct RecorderRow {
    camera_rate_bps: u64,
    cameras: u32,
    /// The resource that is short for one camera more; none if there are no more.
    cameras_limited_by: Option<&'static str>,
    viewer_rates_bps: Vec<u64>,
    viewers: u32,
    viewers_limited_by: &'static str,
    /// Days for which the disks hold the recordings of these cameras.
    days: f64,
    disk_share: Vec<f64>,
    simulated: Option<SimulatedRecorder>,
}

#[derive(Debug, Serialize)]
struct SimulatedRecorder {
    seconds: u64,
    cameras: u64,
    viewers: u64,
    broken_law: Option<String>,
    /// The most of a recording that was not durable, at its rate.
    not_durable_seconds_max: f64,
}

impl RecorderOptions {
    /// Counts and simulates; prints to `out`.
    pub(super) fn run(
        &self,
        (machine, disks): (&PlannedMachine, &[&PlannedDisk]),
        (rates, seconds, json): (&[BitRate], u64, bool),
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let rate = self.camera_rate.context("clap gives one")?;
        let durable_min = recording_durable_min();
        if self.durable < durable_min {
            bail!("no recording is durable within {}: the shortest time is {durable_min}", self.durable);
        }
        let usable = usable_bytes(machine);
        let of_day = rate.bytes_per_second().saturating_mul(DAY).max(1);
        let held = |days: u32| u32::try_from(usable / of_day.saturating_mul(days.into())).unwrap_or(u32::MAX);
        let by_space = self.days.map(held);
        let cameras = |count| PlannedCameras { count, rate, durable: self.durable, memory: self.recording_memory };
        let numbers = if self.cameras.is_empty() {
            let all = u32::try_from(limits::UPLOADS_MAX * disks.len()).unwrap_or(u32::MAX);
            let most = machine.records(cameras(by_space.map_or(all, |space| space.min(all))), rates).cameras;
            let mut numbers: Vec<u32> = (1..=4).rev().map(|quarters| most * quarters / 4).filter(|n| *n > 0).collect();
            numbers.dedup();
            numbers
        } else {
            self.cameras.clone()
        };
        if numbers.is_empty() {
            bail!("not one camera of {rate} can be recorded on these disks for as long");
        }
        let mut rows = Vec::new();
        for number in numbers {
            let wanted = by_space.map_or(number, |space| space.min(number));
            let mut recorded = machine.records(cameras(wanted), rates);
            if recorded.limited_by.is_none() && (wanted < number || by_space == Some(number)) {
                recorded.limited_by = Some("disk space");
            } else if recorded.limited_by.is_none() {
                recorded.limited_by = machine.records(cameras(wanted + 1), rates).limited_by;
            }
            let is_simulated = seconds > 0 && recorded.cameras > 0 && machine.layout == PlannedLayout::Span;
            let simulated =
                is_simulated.then(|| self.simulate((machine, disks), (rates, seconds), &recorded)).transpose()?;
            rows.push(RecorderRow {
                camera_rate_bps: rate.0,
                cameras: recorded.cameras,
                cameras_limited_by: recorded.limited_by,
                viewer_rates_bps: rates.iter().map(|rate| rate.0).collect(),
                viewers: recorded.beside.streams,
                viewers_limited_by: recorded.beside.limited_by,
                days: real(usable) / (real(of_day) * f64::from(recorded.cameras.max(1))),
                disk_share: recorded.beside.disk_share,
                simulated,
            });
        }
        if json {
            writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        } else {
            write!(out, "{}", self.table(&rows, machine))?;
        }
        if let Some(row) = rows.iter().find(|row| row.simulated.as_ref().is_some_and(|s| s.broken_law.is_some())) {
            bail!("{} cameras were counted, but the simulation says that they do not hold", row.cameras);
        }
        Ok(())
    }

    /// Runs the plane with these numbers of cameras and viewers, each of another content.
    fn simulate(
        &self,
        (machine, disks): (&PlannedMachine, &[&PlannedDisk]),
        (rates, seconds): (&[BitRate], u64),
        recorded: &PlannedRecorder,
    ) -> anyhow::Result<SimulatedRecorder> {
        let count = u32::try_from(disks.len())?;
        let memory = machine.memory.0.min(super::simulated_memory(&recorded.beside));
        let mut scenario = scenario((machine, disks), memory, (recorded.beside.streams, rates), seconds)?;
        scenario.load.recordings.recorded = recorded.cameras.div_ceil(count);
        scenario.load.recordings.rates = vec![self.camera_rate.unwrap_or_default()];
        scenario.load.recordings.durable = self.durable;
        let contents = u64::from(scenario.load.contents.per_disk + scenario.load.recordings.recorded);
        permissions::allow_open_files(u64::from(count) * contents + u64::from(recorded.beside.streams) * 2)
            .context("simulating the counted streams (`--simulate 0` leaves it out)")?;
        let report = sim::run(&scenario, Trace::Off);
        Ok(SimulatedRecorder {
            seconds,
            cameras: report.tally.writes.recordings,
            viewers: report.tally.deliveries.running_max,
            broken_law: report.broken.map(|broken| broken.to_string()),
            not_durable_seconds_max: report.tally.disks.at_risk_max.as_secs_f64(),
        })
    }

    fn table(&self, rows: &[RecorderRow], machine: &PlannedMachine) -> String {
        let mut text = String::new();
        let (disks, memory) = (counted(machine.disks.len(), "disk"), machine.memory);
        let _ = writeln!(
            text,
            "{disks}, {memory} for blocks of viewers and {} of recordings, network {}; durable within {}",
            self.recording_memory, machine.net, self.durable
        );
        let _ = writeln!(
            text,
            "{:>8} {:>22} {:>8} {:>22} {:>14} {:>8}  simulated",
            "cameras", "no more for want of", "viewers", "at", "limited by", "days"
        );
        for row in rows {
            let simulated = match &row.simulated {
                None => "–".to_owned(),
                Some(SimulatedRecorder { broken_law: Some(law), .. }) => format!("does not hold: {law}"),
                Some(s) => format!(
                    "{} cameras, {} viewers for {} s, no miss, {:.1} s not durable at most",
                    s.cameras, s.viewers, s.seconds, s.not_durable_seconds_max
                ),
            };
            let (short, rates) = (row.cameras_limited_by.unwrap_or("–"), joined(&row.viewer_rates_bps));
            let _ = writeln!(
                text,
                "{:>8} {short:>22} {:>8} {rates:>22} {:>14} {:>8.1}  {simulated}",
                row.cameras, row.viewers, row.viewers_limited_by, row.days
            );
        }
        text
    }
}

/// Bytes that recordings can fill: all but the part that a ring keeps free, once or in two copies.
fn usable_bytes(machine: &PlannedMachine) -> u64 {
    let all: u64 = machine.disks.iter().map(|disk| disk.capacity.0).sum();
    let copies = if machine.layout == PlannedLayout::Mirror { 2 } else { 1 };
    (all - all / RING_SPARE) / copies
}

#[cfg(test)]
mod tests {
    use super::super::tests::planned;

    fn rows(arguments: &str) -> Vec<serde_json::Value> {
        let arguments: Vec<&str> = arguments.split(' ').chain(["--memory", "3GiB", "--json"]).collect();
        let said = planned(&arguments).expect("planned");
        serde_json::from_str(&said).expect("JSON")
    }

    fn number(row: &serde_json::Value, name: &str) -> u64 {
        row[name].as_u64().unwrap_or_else(|| panic!("{name} of {row}"))
    }

    /// Counted cameras and viewers are recorded and served in the simulation, within a tenth, without a miss.
    #[test]
    fn a_plan_of_cameras_agrees_with_the_simulator() {
        for plan in [
            "--disk desktop --rate 8.8M --camera-rate 4M",
            "--disk desktop --rate 8.8M --camera-rate 500k --cameras 256",
            "--disk surveillance --rate 4M --camera-rate 8M --durable 30s --cameras 40",
        ] {
            for row in rows(plan) {
                let simulated = &row["simulated"];
                let close = |name| number(&row, name).abs_diff(number(simulated, name)) * 10 <= number(&row, name) + 10;
                assert!(simulated["broken_law"].is_null() && close("cameras") && close("viewers"), "{plan}: {row}");
            }
        }
    }

    #[test]
    fn fewer_cameras_leave_room_for_more_viewers_and_days() {
        let rows = rows("--disk desktop --rate 8.8M --camera-rate 4M --simulate 0");
        assert!(rows.len() == 4 && rows[0]["cameras_limited_by"] == "disk time", "{rows:?}");
        assert!(number(&rows[0], "cameras") >= 96, "{}", rows[0]);
        assert!(rows.is_sorted_by(|more, fewer| number(more, "viewers") < number(fewer, "viewers")));
        assert!(rows.is_sorted_by(|more, fewer| more["days"].as_f64() < fewer["days"].as_f64()));
    }

    #[test]
    fn days_limit_cameras_by_the_space_of_the_disks() {
        let of = |more: &str| {
            let plan = format!("--disk desktop --rate 8.8M --camera-rate 4M --days 2 --simulate 0 {more}");
            rows(&plan).remove(0)
        };
        let (one, two, mirror) = (of("--disks 1"), of("--disks 2"), of("--disks 2 --layout mirror"));
        for row in [&one, &two, &mirror] {
            assert!(row["cameras_limited_by"] == "disk space" && row["days"].as_f64() >= Some(2.0), "{row}");
        }
        assert!(number(&two, "cameras").abs_diff(2 * number(&one, "cameras")) <= 1, "{one} {two}");
        assert_eq!(number(&mirror, "cameras"), number(&one, "cameras"), "a mirror of two holds as much as one disk");
    }

    #[test]
    fn disks_carry_the_cameras_that_their_layout_lets_them() {
        let of = |more: &str| {
            let plan =
                format!("--disk desktop --rate 8.8M --camera-rate 4M --simulate 0 --recording-memory 64GiB {more}");
            number(&rows(&plan)[0], "cameras")
        };
        let one = of("--disks 1");
        assert!(of("--disks 2") * 100 >= one * 195, "each on one of two disks");
        assert!(of("--disks 2 --layout stripe") * 10 >= one * 15);
        assert_eq!(of("--disks 2 --layout mirror"), one);
    }

    #[test]
    fn a_camera_rate_above_the_disk_and_a_time_below_its_rounds_are_refused() {
        let plan = |more: &[&str]| planned(&[&["--disk", "desktop", "--rate", "8.8M"], more].concat());
        let error = plan(&["--camera-rate", "5G"]).expect_err("more than the disk").to_string();
        assert!(error.contains("not one camera of 5.000 Gbit/s"), "{error}");
        assert!(plan(&["--cameras", "4"]).is_err(), "of no rate");
        let error = plan(&["--camera-rate", "4M", "--durable", "1s"]).expect_err("a server refuses it").to_string();
        assert!(error.contains("within 1.000 s: the shortest time is 3.000 s"), "{error}");
        let few = rows("--disk desktop --rate 8.8M --camera-rate 4M --recording-memory 64MiB --simulate 0").remove(0);
        assert_eq!(few["cameras_limited_by"], "memory of recordings", "{few}");
    }
}
