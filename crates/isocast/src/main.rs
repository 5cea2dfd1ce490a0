//! The `isocast` program: the command line, and the wiring of `serve`.

// They panic where nobody reads any more.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod config;
mod output;
mod serve;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::{Output, say};

/// A constant-rate, two-way stream server: guarantees every admitted reader its rate while uploads arrive.
#[derive(Debug, Parser)]
#[command(name = "isocast", version, about, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// Each subcommand is `Args` and a `run` in the crate that implements it; one line here registers it.
#[derive(Debug, Subcommand)]
enum Command {
    Serve(config::ServeArgs),
    Config(config::ConfigArgs),
    Disk(tools::disk::DiskCommand),
    Bench(Box<tools::bench::BenchCommand>),
    Lab(lab::LabCommand),
    Plan(tools::plan::PlanCommand),
}

/// Exit codes: 0 done, 1 failed, 2 wrong usage (clap's own), 141 whoever read the output has gone.
fn main() -> ExitCode {
    let line = CommandLine::parse();
    let mut out = Output::default();
    match run(line.command, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if out.is_closed() => ExitCode::from(tools::OUTPUT_CLOSED),
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
        Command::Disk(command) => command.run(out),
        Command::Bench(command) => command.run(out),
        Command::Lab(command) => command.run(out),
        Command::Plan(command) => command.run(out),
    }
}
