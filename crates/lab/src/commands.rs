//! The command line: `isocast lab disk …`.

use clap::{Args, Subcommand};
use serde::Serialize;
use sim::drive::{Parameters, Profile};

use crate::check::Check;
use crate::fill::Fill;
use crate::state::{Places, State};
use crate::stats::Statistics;
use crate::up::{self, Up};
use crate::{control, daemon, down};

/// Things to measure with that this machine does not have.
#[derive(Debug, Args)]
pub struct LabCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Emulated hard disks: real block devices with a drive's service times.
    #[command(subcommand)]
    Disk(Disk),
}

#[derive(Debug, Subcommand)]
enum Disk {
    Up(Up),
    /// Takes disks down; nothing of them remains.
    Down {
        /// Names of the disks.
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// All disks.
        #[arg(long)]
        all: bool,
    },
    /// Lists the disks.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// What a disk has done since `ctl NAME reset`, and how late its answers left.
    Stat {
        /// Name of the disk.
        #[arg(default_value = "disk0")]
        name: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Controls a disk: timing, faults, power.
    #[command(after_help = control::COMMANDS)]
    Ctl {
        /// Name of the disk.
        name: String,
        /// The command; several separated by `;`.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    Fill(Fill),
    Check(Check),
    /// Lists all drive parameters of a profile.
    Params {
        /// Which.
        #[arg(default_value = "desktop", value_parser = |text: &str| text.parse::<Profile>())]
        profile: Profile,
    },
    #[command(hide = true)]
    Daemon {
        name: String,
    },
}

impl LabCommand {
    /// Does it.
    ///
    /// # Errors
    /// Whatever is missing or fails, with what to do about it.
    pub fn run(self) -> anyhow::Result<()> {
        let What::Disk(disk) = self.what;
        match disk {
            Disk::Up(up) => up.run(),
            Disk::Down { names, all } => take_down(&names, all),
            Disk::List { json } => list(json),
            Disk::Stat { name, json } => stat(&name, json),
            Disk::Ctl { name, command } => {
                println!("{}", control::ask(&Places::of(&name)?, &command.join(" "))?);
                Ok(())
            }
            Disk::Fill(fill) => fill.run(),
            Disk::Check(check) => check.run(),
            Disk::Params { profile } => {
                for (key, value) in Parameters::of(profile).listed() {
                    println!("{key}={value}");
                }
                Ok(())
            }
            Disk::Daemon { name } => daemon::run(&name),
        }
    }
}

fn take_down(names: &[String], all: bool) -> anyhow::Result<()> {
    up::need_root()?;
    let disks = if all { Places::all() } else { names.iter().map(|n| Places::of(n)).collect::<Result<_, _>>()? };
    for places in disks {
        let existed = down::take_down(&places)?;
        println!("{}: {}", places.name, if existed { "down" } else { "was not up" });
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    state: State,
    alive: bool,
}

fn list(json: bool) -> anyhow::Result<()> {
    let disks: Vec<Listed> = Places::all()
        .iter()
        .map(|p| Listed {
            state: p.load().unwrap_or_else(|| State { name: p.name.clone(), ..State::default() }),
            alive: down::is_alive(p),
        })
        .collect();
    if json {
        println!("{}", serde_json::to_string_pretty(&disks)?);
        return Ok(());
    }
    for Listed { state, alive } in disks {
        let shown = |path: &Option<std::path::PathBuf>| path.as_ref().map_or("-".into(), |p| p.display().to_string());
        println!(
            "{:<12} {:<13} {:<12} {:<28} pid {:<8} {}",
            state.name,
            state.profile,
            shown(&state.device),
            shown(&state.mount),
            state.daemon.map_or(0, |d| d.pid),
            if alive { "up" } else { "dead: `isocast lab disk down` cleans up" }
        );
    }
    Ok(())
}

fn stat(name: &str, json: bool) -> anyhow::Result<()> {
    let answer = control::ask(&Places::of(name)?, "stat")?;
    if json {
        println!("{answer}");
    } else {
        let statistics: Statistics = serde_json::from_str(&answer)?;
        print!("{}", statistics.table(name));
    }
    Ok(())
}
