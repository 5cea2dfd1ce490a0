//! The `isocast` program: the command line, and the wiring of `serve`.

mod config;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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

/// Exit codes: 0 done, 1 failed, 2 wrong usage (clap's own).
fn main() -> ExitCode {
    let line = CommandLine::parse();
    match run(line.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("isocast: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Config(args) => args.run(),
        Command::Disk(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Lab(command) => command.run(),
        Command::Plan(command) => command.run(),
    }
}
