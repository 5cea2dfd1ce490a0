//! `isocast disk`: the disks of this machine, and their profiles.
//!
//! Promise: prints the figures that admission would use, and their sources; only reads.
//! Not here: the measuring (`device::calibrate`).

mod list;

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use device::calibrate::{self, Calibration, CalibrationProgress, Options};
use units::Nanos;

pub(crate) use list::shingled;

/// Measure disks and show their profiles.
#[derive(Debug, Args)]
pub struct DiskCommand {
    #[command(subcommand)]
    command: DiskSubcommand,
}

#[derive(Debug, Subcommand)]
enum DiskSubcommand {
    List(list::ListDisks),
    Profile(list::ShowProfile),
    Calibrate(Calibrate),
}

/// Measure a disk by reading from it (never writing), about ten seconds for a spinning one.
///
/// Streams that run from it meanwhile suffer: measure before serving.
#[derive(Debug, Args)]
struct Calibrate {
    /// A block device, or a folder on the disk.
    target: PathBuf,
    /// Print JSON (the form that `isocast plan --disk FILE` reads).
    #[arg(long)]
    json: bool,
    /// Keep the profile in this state directory, as `serve --state` does.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Chooses the places that are read.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// When to stop taking samples of a spinning disk.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = units::parse_duration)]
    time: Nanos,
}

impl DiskCommand {
    /// Runs the subcommand, which prints to `out`.
    ///
    /// # Errors
    /// The target cannot be examined, the profile not kept, or the output not written.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self.command {
            DiskSubcommand::List(list) => list.run(out),
            DiskSubcommand::Profile(profile) => profile.run(out),
            DiskSubcommand::Calibrate(calibrate) => calibrate.run(out),
        }
    }
}

impl Calibrate {
    fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut terminal = Some(std::io::stderr()).filter(IsTerminal::is_terminal);
        let mut watch = |progress: CalibrationProgress| {
            if let Some(terminal) = &mut terminal {
                let _ = write!(terminal, "\r{:14} {:3} %", progress.step, progress.permille / 10);
            }
            ControlFlow::Continue(())
        };
        let options = Options { seed: self.seed, time_max: self.time };
        let calibration = calibrate::calibrate(&self.target, options, &mut watch)?;
        if let Some(terminal) = &mut terminal {
            let _ = write!(terminal, "\r{:20}\r", "");
        }
        let text = if self.json { calibration.to_json()? } else { table(&calibration) };
        writeln!(out, "{}", text.trim_end())?;
        if let Some(state) = &self.state {
            calibrate::save(state, &calibration)?;
        }
        Ok(())
    }
}

/// The calibration as people read it.
fn table(calibration: &Calibration) -> String {
    let (disk, profile) = (&calibration.disk, &calibration.profile);
    let mut lines = vec![
        format!("disk      {}", disk.device.as_ref().map_or_else(|| "none".into(), |d| d.display().to_string())),
        format!("model     {}", disk.model.as_deref().unwrap_or("unknown")),
        format!("size      {}", profile.capacity),
        format!("kind      {}", if profile.rotational { "spinning" } else { "flash" }),
        format!("profile   {}", calibration.source),
    ];
    if profile.rotational && profile.turn.0 > 0 {
        lines.push(format!("rotation  {:.0} rpm", 60.0 / profile.turn.as_secs_f64()));
    }
    lines.push(format!("in flight {}", profile.queue_depth));
    lines.push(format!("flush     {} (assumed)", profile.flush));
    lines.push(String::new());
    lines.push("  position    sequential read".to_owned());
    for zone in &profile.zones {
        lines.push(format!("{:>10}    {:7.1} MB/s", zone.start.to_string(), zone.bytes_per_second as f64 / 1e6));
    }
    lines.push(String::new());
    lines.push("  distance    random access".to_owned());
    for seek in &profile.seeks {
        lines.push(format!("{:>10}    {}", seek.distance.to_string(), seek.time));
    }
    if !calibration.notes.is_empty() {
        lines.push(String::new());
        lines.extend(calibration.notes.iter().map(|note| format!("note: {note}")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_source_rates_and_notes() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("/dev/shm is a tmpfs on Linux");
        let mut go_on = |_| ControlFlow::Continue(());
        let mut calibration = calibrate::calibrate(folder.path(), Options::default(), &mut go_on).expect("a folder");
        calibration.notes.push("mind the gap".to_owned());
        let text = table(&calibration);
        for part in
            ["assumed, not measured", "no block device", "300.0 MB/s", "250.0 µs", "flash", "note: mind the gap"]
        {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
    }
}
