//! `bench windows`: throughput by the size of messages and of the TCP window, from memory to memory.
//!
//! The Ethernet how-to's ttcp table (by the speed of the bus) and its advice on windows and on sizes of NFS packets, for today: each cell is a run
//! of `isocast-lab net test`, on this machine or to another that runs `isocast net serve`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use units::Nanos;

use super::figure_table::{FigureOutput, FigureTable, TableFigure, median};
use super::{Stop, child};

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct WindowsCommand {
    /// Address of `isocast net serve` on another machine, instead of this one.
    #[arg(long, value_name = "ADDR")]
    to: Option<String>,
    /// The token of that one.
    #[arg(long, value_name = "FILE", requires = "to")]
    token_file: Option<PathBuf>,
    /// Time to send in each of three runs, of which the median counts.
    #[arg(long, default_value = "2s", value_parser = units::parse_duration)]
    duration: Nanos,
    /// Send once for half a second each.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: FigureOutput,
}

/// Messages, and windows; 0 is the kernel's own window.
const MESSAGE_KIB: [u32; 5] = [1, 4, 8, 32, 128];
const WINDOW_KIB: [u32; 5] = [4, 8, 32, 256, 0];
const REPEATS: usize = 3;

impl WindowsCommand {
    /// Runs it.
    ///
    /// # Errors
    /// A test failed.
    pub(crate) fn run(self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        let (span, repeats) = if self.quick { (Nanos::from_millis(500), 1) } else { (self.duration, REPEATS) };
        let figures = [
            TableFigure::new("kb_per_s", "10^3 bytes/s", 0),
            TableFigure::new("least_kb_per_s", "least", 0),
            TableFigure::new("most_kb_per_s", "most", 0),
        ];
        let title = "Throughput by the size of messages and of the TCP window";
        let mut table = FigureTable::new("windows", title, "message, KiB", &figures, None);
        let path = self.to.as_deref().map_or_else(|| "loopback".to_owned(), |to| format!("to {to}"));
        table.note(format!("TCP, {path}; each sent for {span}, the median of {repeats} and their spread"));
        for window in WINDOW_KIB {
            let way = if window == 0 { "the kernel's window".to_owned() } else { format!("window of {window} KiB") };
            for message in MESSAGE_KIB {
                let mut all = Vec::new();
                let middle = median(repeats, || {
                    stop.check()?;
                    let rate = self.test(window, message, span)?;
                    all.push(rate);
                    Ok(rate)
                })?;
                let (least, most) =
                    all.iter().fold((f64::MAX, 0.0), |(least, most), &rate| (rate.min(least), rate.max(most)));
                let values = [("kb_per_s", middle), ("least_kb_per_s", least), ("most_kb_per_s", most)];
                table.add(&way, f64::from(message), &values);
            }
        }
        table.finish(&self.output, out)
    }

    /// Thousands of bytes a second that the receiver got.
    fn test(&self, window_kib: u32, message_kib: u32, span: Nanos) -> anyhow::Result<f64> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = child::command(&program);
        command.args(["net", "test", "--json", "--size", &format!("{message_kib}KiB")]);
        command.args(["--duration", &format!("{}ms", span.0 / 1_000_000)]);
        match &self.to {
            Some(to) => command.args(["--to", to]),
            None => command.arg("--self"),
        };
        if let Some(file) = &self.token_file {
            command.arg("--token-file").arg(file);
        }
        if window_kib > 0 {
            command.args(["--window", &format!("{window_kib}KiB")]);
        }
        let printed = child::output(&mut command, &format!("isocast net test --window {window_kib}KiB"), "")?;
        let report: Value = serde_json::from_str(&printed).context("the report of `net test`")?;
        let rate = report.pointer("/receiver/bits_per_second").and_then(Value::as_f64);
        Ok(rate.context("`net test` reports no rate of the receiver")? / 8e3)
    }
}
