//! `check`: the emulated disk against its own model, measured by a program that knows neither (fio).
//!
//! Random cases replay the very offsets that the model is given, so that only the angle of the platters is left to
//! chance. A case that the machine disturbed is repeated, and says so.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use sim::drive::{DriveProfile, OffsetOrder, Op, Parameters, Workload, predict, predict_list};
use units::Nanos;

use super::state::Places;
use super::stats::Statistics;
use super::up::{self, DiskUp};
use super::{control, down, sys};
use crate::child;
use crate::stop::Stop;

/// Measure an emulated disk with fio and compare with its model; fail beyond the tolerance.
#[derive(Debug, Args)]
pub(crate) struct DiskCheck {
    /// Drive to emulate.
    #[arg(long, default_value = "desktop", value_parser = |text: &str| text.parse::<DriveProfile>())]
    profile: DriveProfile,
    /// A drive parameter (repeatable).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seconds per case.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Allowed deviation, per cent.
    #[arg(long, default_value_t = 2.0)]
    tolerance: f64,
    /// Only cases with this in their name.
    #[arg(long, default_value = "")]
    only: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Period at which the check looks whether fio has ended.
const PAUSE: Duration = Duration::from_millis(50);
const ATTEMPTS: u32 = 4;
/// Below the daemon's.
const PRIORITY: u8 = 20;
/// CPU pressure (per cent of the time in which a runnable task waited) beyond which a run counts as disturbed.
const PRESSURE_MAX: f64 = 5.0;

#[derive(Debug, Clone)]
struct FioCase {
    name: String,
    load: Workload,
}

#[derive(Debug, Serialize)]
struct CheckedCase {
    case: String,
    unit: &'static str,
    model: f64,
    measured: f64,
    deviation_percent: f64,
    attempts: u32,
    disturbed: bool,
    ok: bool,
}

impl DiskCheck {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let name = format!("check-{}", std::process::id());
        let disk = DiskUp::raw(&name, self.profile, &self.set);
        let parameters = disk.parameters()?;
        let (cases, others): (Vec<FioCase>, Vec<FioCase>) =
            self.cases(&parameters).into_iter().partition(|case| case.name.contains(&self.only));
        if cases.is_empty() {
            bail!(crate::unknown_part(&self.only, others.iter().map(|case| case.name.as_str())));
        }
        up::need_root()?;
        if crate::in_path("fio").is_none() {
            bail!("fio is missing: `apt-get install fio`");
        }
        let stop = Stop::on_signals()?;
        disk.run_quietly()?;
        let places = Places::of(&name)?;
        let results = self.measure_all(&places, &parameters, &cases, &stop, out);
        down::take_down(&places)?;
        let results = results?;
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&results)?)?;
        }
        let bad: Vec<&str> = results.iter().filter(|r| !r.ok).map(|r| r.case.as_str()).collect();
        if !bad.is_empty() {
            let busy =
                if results.iter().any(|r| !r.ok && r.disturbed) { " (the machine was busy meanwhile)" } else { "" };
            bail!("more than {} % off the model: {}{busy}", self.tolerance, bad.join(", "));
        }
        Ok(())
    }

    fn cases(&self, parameters: &Parameters) -> Vec<FioCase> {
        let near_end = parameters.size / 100 * 98 / (1 << 20) * (1 << 20);
        let case = |name: &str, op, pattern, block, depth, offset| FioCase {
            name: name.to_owned(),
            load: Workload {
                op,
                pattern,
                block,
                depth,
                offset,
                length: u64::MAX,
                duration: Nanos::from_secs(u64::from(self.seconds)),
            },
        };
        use OffsetOrder::{Random, Sequential};
        let mut cases = vec![
            case("sequential read 1M QD1, outer", Op::Read, Sequential, 1 << 20, 1, 0),
            case("sequential read 1M QD1, inner", Op::Read, Sequential, 1 << 20, 1, near_end),
            case("random read 4K QD1", Op::Read, Random, 4096, 1, 0),
            case("random read 256K QD1", Op::Read, Random, 256 << 10, 1, 0),
        ];
        if parameters.rotational {
            cases.extend([
                case("random read 4K QD4", Op::Read, Random, 4096, 4, 0),
                case("random read 4K QD32", Op::Read, Random, 4096, 32, 0),
                case("random read 256K QD8", Op::Read, Random, 256 << 10, 8, 0),
                case("sequential write 1M QD4", Op::Write, Sequential, 1 << 20, 4, 0),
            ]);
        }
        cases
    }

    fn measure_all(
        &self,
        places: &Places,
        p: &Parameters,
        cases: &[FioCase],
        stop: &Stop,
        out: &mut dyn Write,
    ) -> anyhow::Result<Vec<CheckedCase>> {
        let device = places.load().and_then(|s| s.device).context("the disk has no device")?;
        let subject =
            CheckedDisk { places, parameters: p, device: &device, seconds: self.seconds, tolerance: self.tolerance };
        if !self.json {
            writeln!(out, "{:<34} {:>9} {:>9} {:>8}", "case", "model", "measured", "off")?;
        }
        let mut results = Vec::new();
        for case in cases {
            let result = subject.settle(case, stop)?;
            if !self.json {
                let r = &result;
                writeln!(
                    out,
                    "{:<34} {:>9.2} {:>9.2} {:>+7.2}% {}{}{}",
                    r.case,
                    r.model,
                    r.measured,
                    r.deviation_percent,
                    r.unit,
                    if r.attempts > 1 { format!(", attempt {}", r.attempts) } else { String::new() },
                    if r.disturbed { ", disturbed by the machine" } else { "" },
                )?;
            }
            results.push(result);
        }
        Ok(results)
    }
}

/// The disk that is held to its model, and how.
struct CheckedDisk<'a> {
    places: &'a Places,
    parameters: &'a Parameters,
    device: &'a Path,
    /// Duration of one case.
    seconds: u32,
    /// Percent.
    tolerance: f64,
}

impl CheckedDisk<'_> {
    /// Measures until a run is within the tolerance, or an undisturbed one is not.
    fn settle(&self, case: &FioCase, stop: &Stop) -> anyhow::Result<CheckedCase> {
        for attempt in 1.. {
            let mut result = self.measure(case, stop)?;
            result.attempts = attempt;
            if result.ok || !result.disturbed || attempt == ATTEMPTS {
                return Ok(result);
            }
        }
        bail!("not reached: the loop ends with its last attempt")
    }

    fn measure(&self, case: &FioCase, stop: &Stop) -> anyhow::Result<CheckedCase> {
        const SEED: u64 = 1;
        const ANGLES: u64 = 16;
        let Self { places, parameters: p, device, .. } = *self;
        let load = &case.load;
        let plain = predict(p, load, SEED)?;
        let random = load.pattern == OffsetOrder::Random;
        let mut list = None;
        let model = if random {
            let count = sensible_count(plain.requests_per_second * f64::from(self.seconds));
            list = Some(self.write_list(load, count, SEED)?);
            // The angle of the platters is chance: the model's figure is the mean over many.
            let mut sum = 0.0;
            for angle in 0..ANGLES {
                sum += predict_list(p, load, load.offsets(p.size, SEED).take(count), angle)?.requests_per_second;
            }
            sum / f64::from(u32::try_from(ANGLES).unwrap_or(1))
        } else {
            plain.bytes_per_second / 1e6
        };
        // Writes that the last case left in the write cache must not be drained in this one.
        fs::File::open(device).and_then(|d| d.sync_all()).context("cannot flush the disk")?;
        control::ask(places, "drop; reset")?;
        let pressure = Pressure::now();
        let measured = self.fio(load, list.as_ref(), stop);
        if let Some(list) = &list {
            fs::remove_file(list).context("cannot remove the list")?;
        }
        let measured = measured?;
        let waited = pressure.percent_since();
        let statistics: Statistics = serde_json::from_str(&control::ask(places, "stat")?)?;
        let (unit, measured) = if random { ("requests/s", measured.0) } else { ("MB/s", measured.1 / 1e6) };
        let deviation_percent = (measured / model - 1.0) * 100.0;
        Ok(CheckedCase {
            case: case.name.clone(),
            unit,
            model,
            measured,
            deviation_percent,
            attempts: 1,
            disturbed: statistics.lateness_us.over_10ms > 0 || waited > PRESSURE_MAX,
            ok: deviation_percent.abs() <= self.tolerance,
        })
    }

    /// The offsets in fio's own form.
    fn write_list(&self, load: &Workload, count: usize, seed: u64) -> anyhow::Result<PathBuf> {
        let device = self.device.display();
        let mut text = format!("fio version 2 iolog\n{device} add\n{device} open\n");
        for offset in load.offsets(self.parameters.size, seed).take(count) {
            writeln!(text, "{device} read {offset} {}", load.block)?;
        }
        writeln!(text, "{device} close")?;
        let path = self.places.home.join("offsets");
        fs::write(&path, text).context("cannot write the list of offsets")?;
        Ok(path)
    }

    /// (requests per second, bytes per second).
    fn fio(&self, load: &Workload, list: Option<&PathBuf>, stop: &Stop) -> anyhow::Result<(f64, f64)> {
        let mut fio = child::bound(Path::new("fio"), "KILL");
        fio.args(["--name=check", "--direct=1", "--ioengine=libaio", "--output-format=json", "--zero_buffers=1"]);
        // A thread, not a process of its own: it ends together with fio.
        fio.arg("--thread");
        fio.arg(format!("--filename={}", self.device.display())).arg(format!("--iodepth={}", load.depth));
        let direction = if load.op == Op::Read { "read" } else { "write" };
        match list {
            Some(list) => fio.arg(format!("--read_iolog={}", list.display())).arg("--replay_no_stall=1"),
            None => fio
                .args([format!("--rw={direction}"), format!("--bs={}", load.block)])
                .arg(format!("--offset={}", load.offset))
                .arg(format!("--runtime={}", self.seconds))
                .arg("--time_based"),
        };
        // Else the measuring program's own wait for a CPU counts as the disk's time.
        let output = sys::in_real_time(PRIORITY, || output_unless(stop, &mut fio))??;
        if !output.status.success() {
            bail!("fio failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).context("fio's report")?;
        let job = &report["jobs"][0][direction];
        let figure = |key: &str| job[key].as_f64().with_context(|| format!("fio reports no {key}"));
        let depth = f64::from(load.depth);
        let requests = match list {
            // fio 3.33 stops its clock when the list's last request is sent, with the queue still full.
            Some(_) if depth > 1.0 => (figure("total_ios")? - depth) / figure("runtime")? * 1e3,
            _ => figure("iops")?,
        };
        Ok((requests, figure("bw_bytes")?))
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates between the bounds")]
fn sensible_count(requests: f64) -> usize {
    (requests as usize).clamp(50, 1_000_000)
}

/// As `Command::output`, for a program that prints little; it is killed when it is time to stop, or this process dies.
fn output_unless(stop: &Stop, command: &mut Command) -> anyhow::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    while child.try_wait()?.is_none() {
        if stop.is_set() {
            child.kill()?;
            child.wait()?;
            stop.check()?;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(child.wait_with_output()?)
}

/// Time in which some runnable task waited for a CPU.
struct Pressure {
    at: std::time::Instant,
    total_us: Option<f64>,
}

impl Pressure {
    fn now() -> Self {
        let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        let total = text.lines().find(|l| l.starts_with("some")).and_then(|l| l.rsplit_once("total="));
        Self { at: std::time::Instant::now(), total_us: total.and_then(|(_, n)| n.trim().parse().ok()) }
    }

    /// Zero where the kernel does not say.
    fn percent_since(&self) -> f64 {
        let (Some(before), Some(after)) = (self.total_us, Self::now().total_us) else { return 0.0 };
        (after - before) / 1e4 / self.at.elapsed().as_secs_f64().max(1e-9)
    }
}
