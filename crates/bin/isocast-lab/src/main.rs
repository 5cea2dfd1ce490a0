//! `isocast-lab`: measures servers of paced streams, and makes the disks that a machine does not have to measure with.
//!
//! Promise: it talks to servers over the network like any client; it ends and removes everything that it starts or makes.
//! Not here: anything a running server needs. `isocast bench`, `isocast lab`, `isocast net` and `isocast plan`
//! start this program.

// They panic where no program reads any more, and disks and networks made would stay.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod child;
mod clock;
mod disk;
mod net;
mod plan;
mod stop;

use std::fmt::{Arguments, Display};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Exit code when the reader of the output has gone: as a shell reports a program that a broken pipe ended.
const READER_GONE: u8 = 128 + 13;

/// Measuring tools for Isocast: benchmarks beside other servers, emulated disks and networks, plans.
#[derive(Debug, Parser)]
#[command(name = "isocast-lab", version, about, propagate_version = true)]
struct LabCommandLine {
    #[command(subcommand)]
    command: LabSubcommand,
}

#[derive(Debug, Subcommand)]
enum LabSubcommand {
    Bench(Box<bench::BenchCommand>),
    Disk(disk::EmulatedDiskCommand),
    Net(net::NetCommand),
    Plan(plan::PlanCommand),
    Report(bench::ReportCommand),
}

/// Exit codes: 0 done, 1 failed, 2 wrong usage (clap's own), 141 the reader of the output has gone.
fn main() -> ExitCode {
    let mut out = io::stdout();
    let done = LabCommandLine::parse().run(&mut out);
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if reader_has_gone() => ExitCode::from(READER_GONE),
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(usage) => usage.exit(),
            Err(error) => {
                say(format_args!("isocast-lab: {error:#}"));
                ExitCode::FAILURE
            }
        },
    }
}

impl LabCommandLine {
    fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self.command {
            LabSubcommand::Bench(command) => command.run(out),
            LabSubcommand::Disk(command) => command.run(out),
            LabSubcommand::Net(command) => command.run(out),
            LabSubcommand::Plan(command) => command.run(out),
            LabSubcommand::Report(command) => command.run(),
        }
    }
}

/// Runs another command line of this program in this process, and returns its output.
fn printed(words: &[&str]) -> anyhow::Result<String> {
    let mut printed = Vec::new();
    LabCommandLine::try_parse_from([&["isocast-lab"], words].concat())?.run(&mut printed)?;
    Ok(String::from_utf8(printed)?)
}

/// Whether standard output is a pipe with its other end closed.
fn reader_has_gone() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Writes a line on standard error and ignores errors: a reader that has gone breaks nothing off, least of all the removal
/// of disks and networks.
fn say(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Wrong usage that is found behind the command line's own check: exit code 2, as of that.
fn wrong_usage(message: impl Display) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{message}\n"))
}

/// The error of an `--only` that names none of these parts.
fn unknown_part<'a>(name: &str, parts: impl Iterator<Item = &'a str>) -> clap::Error {
    let parts: Vec<&str> = parts.collect();
    let (name, parts) = (name.escape_debug(), parts.join(", "));
    wrong_usage(format_args!("--only {name}: there is no such part; there are {parts}"))
}

/// Refuses a name of a disk or network (`kind`) that cannot be a folder's.
fn check_name(kind: &str, name: &str) -> Result<(), clap::Error> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 32 || !name.chars().all(good) {
        let name = name.escape_debug();
        return Err(wrong_usage(format_args!("`{name}` cannot name a {kind}: 1 to 32 letters, digits, - and _")));
    }
    Ok(())
}

/// Prints the names of the disks or networks that `down` took down.
fn tell_down(names: &[&str], json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    if json {
        return Ok(writeln!(out, "{:#}", serde_json::json!(names))?);
    }
    Ok(names.iter().try_for_each(|name| writeln!(out, "{name}: down"))?)
}

/// The server's program: in this program's folder, else on the path.
///
/// # Errors
/// It is in neither.
fn isocast() -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe().context("finding this program")?.with_file_name("isocast");
    let found = Some(beside).filter(|program| program.is_file()).or_else(|| in_path("isocast"));
    found.context("`isocast` is neither beside this program nor on the path")
}

/// The place of a program on the path.
fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// A command's help is an imperative, a value's a noun phrase; neither ends with a full stop.
    fn check_help(command: &clap::Command) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let name = inner.get_name();
            let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
            let verb = about.split_whitespace().next().unwrap_or_default();
            assert!(verb.starts_with(char::is_uppercase) && !verb.ends_with('s'), "{name}: `{about}` is no imperative");
            check_help(inner);
        }
        for argument in command.get_arguments() {
            let (name, help) = (argument.get_id(), argument.get_help().map(ToString::to_string).unwrap_or_default());
            assert!(argument.is_hide_set() || !(help.is_empty() || help.ends_with('.')), "{name}: `{help}`");
        }
        let json = command.get_arguments().find(|argument| argument.get_long() == Some("json"));
        let help = json.and_then(|json| json.get_help()).map(ToString::to_string);
        assert!(help.is_none_or(|help| help.starts_with("Print ") && help.contains("JSON")), "{}", command.get_name());
    }

    #[test]
    fn the_help_texts_speak_one_grammar() {
        LabCommandLine::command().debug_assert();
        check_help(&LabCommandLine::command());
    }
}
