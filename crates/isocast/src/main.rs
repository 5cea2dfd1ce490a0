//! The `isocast` program: the command line, and the wiring of `serve`.

// They panic where nobody reads any more.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod config;
mod disk;
mod lab;
mod net;
mod output;
mod plan;
mod serve;
mod user;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use output::{Output, say};

/// A constant-rate, two-way stream server: guarantees every admitted reader its rate while uploads arrive.
#[derive(Debug, Parser)]
#[command(name = "isocast", version, about, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// Each subcommand is `Args` and a `run` in its module; one line here registers it.
#[derive(Debug, Subcommand)]
enum Command {
    Serve(config::ServeArgs),
    Config(config::ConfigArgs),
    User(user::UserCommand),
    Disk(disk::DiskCommand),
    Plan(plan::PlanCommand),
    Net(net::NetCommand),
    /// Measures servers of paced streams: rate, jitter, stalls, cost (a program of its own, `isocast-lab`).
    Bench(lab::LabArgs),
    /// Emulated disks and reports of measurements (a program of its own, `isocast-lab`).
    Lab(lab::LabArgs),
    /// Print what completes this program's words in a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages, one for each command, into a folder.
    Man {
        /// The folder.
        folder: PathBuf,
    },
}

/// Exit codes: 0 done, 1 failed, 2 wrong usage (clap's own), 141 whoever read the output has gone.
fn main() -> ExitCode {
    let line = CommandLine::parse();
    let mut out = Output::default();
    match run(line.command, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if out.is_closed() => ExitCode::from(output::CLOSED),
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(usage) => usage.exit(),
            Err(error) => {
                say(format_args!("{error:#}"));
                ExitCode::FAILURE
            }
        },
    }
}

fn run(command: Command, out: &mut Output) -> anyhow::Result<()> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Config(args) => args.run(out),
        Command::User(command) => command.run(out),
        Command::Disk(command) => command.run(out),
        Command::Plan(command) => command.run(out),
        Command::Net(command) => command.run(out),
        Command::Bench(arguments) => arguments.become_lab(&["bench"]),
        Command::Lab(arguments) => arguments.become_lab(&[]),
        Command::Completions { shell } => {
            // Made in memory: the generator would panic where nobody reads any more.
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "isocast", &mut text);
            Ok(out.write_all(&text)?)
        }
        Command::Man { folder } => Ok(clap_mangen::generate_to(CommandLine::command(), folder)?),
    }
}
