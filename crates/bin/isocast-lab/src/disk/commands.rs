//! The command line: `isocast-lab disk …`.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::anyhow;
use clap::error::ErrorKind;
use clap::{Args, Subcommand};
use serde::Serialize;
use sim::drive::{DriveProfile, Parameters};

use super::check::DiskCheck;
use super::fill::Fill;
use super::state::{EmulatorState, Places};
use super::stats::Statistics;
use super::up::{self, DiskUp};
use super::{control, daemon, down};
use crate::tell_down;

/// Make emulated hard disks: real block devices with a drive's service times.
#[derive(Debug, Args)]
pub(crate) struct EmulatedDiskCommand {
    #[command(subcommand)]
    command: EmulatedDiskSubcommand,
}

#[derive(Debug, Subcommand)]
enum EmulatedDiskSubcommand {
    Up(DiskUp),
    /// Take disks down; nothing of them remains.
    Down {
        /// Names of the disks.
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// All disks.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the disks.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the work of a disk since `ctl NAME reset`, and how late its answers left.
    Stat {
        /// Name of the disk.
        #[arg(default_value = "disk0")]
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Control a disk: timing, faults, power.
    #[command(after_help = control::COMMANDS)]
    Ctl {
        /// Name of the disk.
        name: String,
        /// The command; several separated by `;`.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    Fill(Fill),
    Check(DiskCheck),
    /// List all drive parameters of a profile.
    Params {
        /// Name of the drive.
        #[arg(default_value = "desktop", value_parser = |text: &str| text.parse::<DriveProfile>())]
        profile: DriveProfile,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    #[command(hide = true)]
    Daemon {
        name: String,
    },
}

impl EmulatedDiskCommand {
    /// Does it, and prints to `out`.
    ///
    /// # Errors
    /// A missing part or a failure, with its remedy; wrong usage is clap's error.
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self.command {
            EmulatedDiskSubcommand::Up(up) => up.run(out),
            EmulatedDiskSubcommand::Down { names, all, json } => take_down(&names, all, json, out),
            EmulatedDiskSubcommand::List { json } => list(json, out),
            EmulatedDiskSubcommand::Stat { name, json } => stat(&name, json, out),
            EmulatedDiskSubcommand::Ctl { name, command } => ctl(&name, &command.join(" "), out),
            EmulatedDiskSubcommand::Fill(fill) => fill.run(out),
            EmulatedDiskSubcommand::Check(check) => check.run(out),
            EmulatedDiskSubcommand::Params { profile, json } => params(profile, json, out),
            EmulatedDiskSubcommand::Daemon { name } => daemon::run(&name),
        }
    }
}

fn params(profile: DriveProfile, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let listed = Parameters::of(profile).listed();
    if json {
        let listed: BTreeMap<_, _> = listed.into_iter().collect();
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&listed)?)?);
    }
    Ok(listed.into_iter().try_for_each(|(key, value)| writeln!(out, "{key}={value}"))?)
}

fn ctl(name: &str, commands: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    if commands.split(';').all(|command| command.trim().is_empty()) {
        let what = format!("no command was given; there are: {}\n", control::COMMANDS);
        return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, what).into());
    }
    Ok(writeln!(out, "{}", control::ask(&Places::of(name)?, commands)?)?)
}

/// Takes all of them down, even after a failure of one; an unknown name is an error, as it is of `stat` and `ctl`.
fn take_down(names: &[String], all: bool, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    up::need_root()?;
    let disks = if all { Places::all() } else { names.iter().map(|n| Places::of(n)).collect::<Result<_, _>>()? };
    let (mut gone, mut outcome) = (Vec::new(), Ok(()));
    for places in &disks {
        let name = &places.name;
        outcome = outcome.and(match down::take_down(places) {
            Ok(true) => {
                gone.push(name.as_str());
                Ok(())
            }
            Ok(false) => Err(anyhow!("disk `{name}` is not up; see `isocast lab disk list`")),
            Err(error) => Err(error.context(format!("disk `{name}`"))),
        });
    }
    tell_down(&gone, json, out)?;
    outcome
}

#[derive(Debug, Serialize)]
struct DiskListing {
    #[serde(flatten)]
    state: EmulatorState,
    alive: bool,
}

fn list(json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let disks: Vec<DiskListing> = Places::all()
        .iter()
        .map(|p| DiskListing {
            state: p.load().unwrap_or_else(|| EmulatorState { name: p.name.clone(), ..EmulatorState::default() }),
            alive: down::is_up(p),
        })
        .collect();
    if json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&disks)?)?);
    }
    for DiskListing { state, alive } in disks {
        let shown = |path: &Option<std::path::PathBuf>| path.as_ref().map_or("-".into(), |p| p.display().to_string());
        writeln!(
            out,
            "{:<12} {:<13} {:<12} {:<28} pid {:<8} {}",
            state.name,
            state.profile,
            shown(&state.device),
            shown(&state.mount),
            state.daemon.map_or(0, |d| d.pid),
            if alive { "up" } else { "dead: `isocast lab disk down` cleans up" }
        )?;
    }
    Ok(())
}

fn stat(name: &str, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = control::ask(&Places::of(name)?, "stat")?;
    if json {
        writeln!(out, "{answer}")?;
    } else {
        let statistics: Statistics = serde_json::from_str(&answer)?;
        write!(out, "{}", statistics.table(name))?;
    }
    Ok(())
}
