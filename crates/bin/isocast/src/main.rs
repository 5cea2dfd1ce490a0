//! The `isocast` program: its command line.

// These macros panic on a pipe without a reader.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use commands::{disk, doctor, names, share, state, token, top, user, volume};
use copy::CopyArgs;
use program::output::{self, Output, say};
use program::sibling_programs::LabArgs;
use server::{ConfigArgs, ServeArgs};

/// A constant-rate, two-way stream server: guarantees every admitted reader its rate while uploads arrive.
#[derive(Debug, Parser)]
#[command(name = "isocast", version, about, propagate_version = true, after_help = EXIT_CODES)]
struct CommandLine {
    #[command(subcommand)]
    command: IsocastSubcommand,
}

/// Each subcommand is `Args` and a `run` in its module; one line here registers it.
#[derive(Debug, Subcommand)]
enum IsocastSubcommand {
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    Config(ConfigArgs),
    User(user::UserCommand),
    Token(token::TokenCommand),
    Share(share::ShareCommand),
    State(state::StateCommand),
    Disk(disk::DiskCommand),
    Volume(volume::VolumeCommand),
    /// Count how many streams a machine will carry before it is bought (a part of the program `isocast-lab`).
    Plan(LabArgs),
    #[command(name = "cp")]
    Copy(CopyArgs),
    #[command(name = "ls")]
    List(names::ListArgs),
    #[command(name = "mv")]
    Move(names::MoveArgs),
    #[command(name = "rm")]
    Remove(names::RemoveArgs),
    #[command(name = "mkdir")]
    MakeFolder(names::MakeFolderArgs),
    Top(top::TopArgs),
    Doctor(doctor::DoctorArgs),
    /// Measure servers of paced streams: rate, jitter, stalls, cost (a program of its own, `isocast-lab`).
    Bench(LabArgs),
    /// Measure a network from memory to memory: throughput, round trips, losses (a part of the program `isocast-lab`).
    Net(LabArgs),
    /// Make emulated disks, and reports of measurements (a program of its own, `isocast-lab`).
    Lab(LabArgs),
    /// Print the completions of this program for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages, one for each command, into a folder.
    Man {
        /// The folder.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

const SERVE_EXAMPLES: &str = "\
Examples:
  isocast serve --root /srv/video
  isocast serve --listen 0.0.0.0:8080 --root /srv/video --state /var/lib/isocast
  isocast serve --volume /dev/sdb,/dev/sdc --local-writes
  ISOCAST_SCHEDULE__CYCLE=500ms isocast serve --config /etc/isocast/isocast.toml";

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed or something is wrong, 2 wrong usage, 3 a volume could not be \
    looked at, 141 the reader of the output has gone.";

fn main() -> ExitCode {
    // A write beyond the limit of file sizes (`ulimit -f`) fails instead of ending the program. Programs that it starts do not
    // inherit that.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let line = CommandLine::parse();
    let mut out = Output::default();
    match run(line.command, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if out.is_closed() => ExitCode::from(output::CLOSED),
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(usage) => usage.exit(),
            Err(error) => {
                say(format_args!("{error:#}"));
                if error.is::<volume::NotLookedAt>() {
                    ExitCode::from(volume::NOT_LOOKED_AT)
                } else {
                    ExitCode::FAILURE
                }
            }
        },
    }
}

fn run(command: IsocastSubcommand, out: &mut Output) -> anyhow::Result<()> {
    match command {
        IsocastSubcommand::Serve(args) => server::run(&args),
        IsocastSubcommand::Config(args) => args.run(out),
        IsocastSubcommand::User(command) => command.run(out),
        IsocastSubcommand::Token(command) => command.run(out),
        IsocastSubcommand::Share(command) => command.run(out),
        IsocastSubcommand::State(command) => command.run(out),
        IsocastSubcommand::Disk(command) => command.run(out),
        IsocastSubcommand::Volume(command) => command.run(out),
        IsocastSubcommand::Plan(arguments) => arguments.become_lab(&["plan"]),
        IsocastSubcommand::Copy(args) => args.run(out),
        IsocastSubcommand::List(args) => args.run(out),
        IsocastSubcommand::Move(args) => args.run(out),
        IsocastSubcommand::Remove(args) => args.run(out),
        IsocastSubcommand::MakeFolder(args) => args.run(out),
        IsocastSubcommand::Top(args) => args.run(out),
        IsocastSubcommand::Doctor(args) => args.run(out),
        IsocastSubcommand::Bench(arguments) => arguments.become_lab(&["bench"]),
        IsocastSubcommand::Net(arguments) => arguments.become_lab(&["net"]),
        IsocastSubcommand::Lab(arguments) => arguments.become_lab(&[]),
        IsocastSubcommand::Completions { shell } => {
            // Made in memory: the generator would panic on a pipe without a reader.
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "isocast", &mut text);
            Ok(out.write_all(&text)?)
        }
        IsocastSubcommand::Man { folder } => clap_mangen::generate_to(CommandLine::command(), &folder)
            .with_context(|| format!("cannot write into {}", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help of a command is an imperative, that of a value a noun phrase; neither ends with a full stop.
    fn check_help(command: &clap::Command) {
        for inner in command.get_subcommands() {
            let name = inner.get_name();
            let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
            let verb = about.split_whitespace().next().unwrap_or_default();
            assert!(verb.starts_with(char::is_uppercase) && !verb.ends_with('s'), "{name}: `{about}` is no imperative");
            check_help(inner);
        }
        for argument in command.get_arguments().filter(|argument| argument.get_id() != "arguments") {
            let (name, help) = (argument.get_id(), argument.get_help().map(ToString::to_string).unwrap_or_default());
            assert!(!help.is_empty() && !help.ends_with('.'), "{} {name}: `{help}`", command.get_name());
        }
        let json = command.get_arguments().find(|argument| argument.get_long() == Some("json"));
        let help = json.and_then(|json| json.get_help()).map(ToString::to_string);
        assert!(help.is_none_or(|help| help.starts_with("Print ") && help.contains("JSON")), "{}", command.get_name());
    }

    #[test]
    fn the_help_texts_speak_one_grammar() {
        CommandLine::command().debug_assert();
        check_help(&CommandLine::command());
    }
}
