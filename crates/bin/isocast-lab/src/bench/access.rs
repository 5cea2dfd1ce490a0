//! `bench access`: processor time of reading a file at a rate, by the method of reading.
//!
//! HPSM's tables 4.4 and 4.5 (PIO and DMA, 5 to 15 Mbit/s) for today: the page cache, a mapping, direct reads, io_uring with registered
//! buffers, and splice, as fio makes them, and our own `isocast cp`, which is the tables' `filecp`. Files are read cold from the file
//! system of `--root`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use units::{BitRate, Nanos, real};

use super::figure_table::{FigureOutput, FigureTable, TableFigure};
use super::{Stop, child, scratch};

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct AccessCommand {
    /// A folder on the disk that is read.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Rates of reading.
    #[arg(long, value_delimiter = ',', default_value = "5M,10M,15M,100M,1000M", value_parser = units::parse_rate)]
    rates: Vec<BitRate>,
    /// Duration of each measurement; each is made three times.
    #[arg(long, default_value = "5s", value_parser = units::parse_duration)]
    duration: Nanos,
    /// A quick trial: one measurement of two seconds for each method.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: FigureOutput,
}

/// Methods of reading: their names, and the arguments for fio.
const WAYS: [(&str, &[&str]); 7] = [
    ("page cache, 4 KiB", &["--ioengine=psync", "--bs=4k"]),
    ("page cache, 128 KiB", &["--ioengine=psync", "--bs=128k"]),
    ("mmap, 128 KiB", &["--ioengine=mmap", "--bs=128k"]),
    ("splice, 128 KiB", &["--ioengine=splice", "--bs=128k"]),
    ("direct, 4 KiB", &["--ioengine=psync", "--direct=1", "--bs=4k"]),
    ("direct, 256 KiB", &["--ioengine=psync", "--direct=1", "--bs=256k"]),
    (
        "io_uring, direct, registered, 256 KiB",
        &["--ioengine=io_uring", "--direct=1", "--fixedbufs", "--registerfiles", "--iodepth=2", "--bs=256k"],
    ),
];
const OURS: &str = "isocast cp";
/// Runs of a measurement, of which the cheapest counts: fio spins between its reads if it found sleeping inexact at its start.
const TRIES: u32 = 3;

impl AccessCommand {
    /// Runs it.
    ///
    /// # Errors
    /// fio is missing or fails, or the folder cannot be written.
    pub(crate) fn run(self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        let (span, tries) = if self.quick { (Nanos::from_secs(2), 1) } else { (self.duration, TRIES) };
        let folder = scratch::folder_in(&self.root)?;
        let mut table = FigureTable::new(
            "access",
            "Reading a file at a rate: processor time by the way it is read",
            "Mbit/s asked for",
            &[TableFigure::new("cpu_percent", "CPU, % of one", 2), TableFigure::new("mbps", "Mbit/s", 1)],
            Some(&self.root),
        );
        table.note(format!(
            "Each read for {span}, cold, the cheapest of {tries}: fio spins between its reads where the machine was busy when it began. Processor \
             time of the reading thread (of `isocast cp`, the process), without the kernel's own threads"
        ));
        for &rate in &self.rates {
            let file = folder.path().join(format!("{}", rate.0));
            // More bytes than are read: a reader that reached the end would begin again and read from memory.
            let bytes = (rate.0 / 8).saturating_mul(span.0 / 1_000_000_000 + 1).next_multiple_of(1 << 20);
            write_file(&file, bytes, stop)?;
            let x = real(rate.0) / 1e6;
            for (name, arguments) in WAYS {
                let (cpu, got) = cheapest(tries, || fio(&file, rate, span, arguments, stop))?;
                table.add(name, x, &[("cpu_percent", cpu), ("mbps", got)]);
            }
            let (cpu, got) = cheapest(tries, || ours(&file, rate, stop))?;
            table.add(OURS, x, &[("cpu_percent", cpu), ("mbps", got)]);
            fs::remove_file(&file)?;
        }
        table.finish(&self.output, out)
    }
}

fn cheapest(tries: u32, mut run: impl FnMut() -> anyhow::Result<(f64, f64)>) -> anyhow::Result<(f64, f64)> {
    let mut best = run()?;
    for _ in 1..tries {
        let next = run()?;
        best = if next.0 < best.0 { next } else { best };
    }
    Ok(best)
}

/// Writes a file of incompressible bytes that are not in the page cache.
fn write_file(file: &Path, bytes: u64, stop: &Stop) -> anyhow::Result<()> {
    let arguments = ["--rw=write", "--bs=1m", "--direct=1", "--ioengine=psync", "--end_fsync=1", "--refill_buffers"];
    run(Command::new("fio").args(job(file)).args(arguments).arg(format!("--size={bytes}")), stop).map(drop)
}

fn job(file: &Path) -> [String; 4] {
    let file = format!("--filename={}", file.display());
    ["--name=access", "--thread", "--output-format=json", &file].map(str::to_owned)
}

/// Measures fio: percent of one processor, and Mbit/s.
fn fio(file: &Path, rate: BitRate, span: Nanos, way: &[&str], stop: &Stop) -> anyhow::Result<(f64, f64)> {
    let mut command = Command::new("fio");
    command.args(job(file)).args(way).args(["--rw=read", "--invalidate=1"]);
    command.arg(format!("--rate={}", rate.0 / 8)).arg(format!("--runtime={}", span.0 / 1_000_000_000));
    let report: Value = serde_json::from_str(&run(&mut command, stop)?).context("fio's report")?;
    let job = &report["jobs"][0];
    let figure = |value: &Value| value.as_f64().context("fio reports no such figure");
    let cpu = figure(&job["usr_cpu"])? + figure(&job["sys_cpu"])?;
    Ok((cpu, figure(&job["read"]["bw_bytes"])? * 8.0 / 1e6))
}

fn ours(file: &Path, rate: BitRate, stop: &Stop) -> anyhow::Result<(f64, f64)> {
    stop.check()?;
    let (rate, file) = (format!("{}bit/s", rate.0), file.display().to_string());
    let printed = child::isocast(&["cp", "--json", "--rate", &rate, &file, "/dev/null"])?;
    let report: Value = serde_json::from_str(&printed).context("the report of `isocast cp`")?;
    let figure = |key: &str| report[key].as_f64().with_context(|| format!("`isocast cp` reports no {key}"));
    Ok((figure("cpu_percent")?, figure("throughput_bps")? / 1e6))
}

fn run(command: &mut Command, stop: &Stop) -> anyhow::Result<String> {
    stop.check()?;
    child::output(command, "fio", "fio")
}
