//! `bench papers`: makes every table and figure of the papers anew, each by a command that can also be typed by hand.
//!
//! Promise: a part that cannot be measured here does not keep the others from being measured, and is named at the end; the page next to the
//! results has the papers' own figures. Not here: the measurements (the other subcommands).

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use units::ByteCount;

use super::{Host, Stop, child, clock, files, nginx, scratch};
use crate::say;

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct PapersCommand {
    /// A folder on the disk that is measured; 1.2 GB are written into it and removed.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    root: Option<PathBuf>,
    /// The folder for the results; each part has one in it.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Only this part, by its name or how that begins (repeatable).
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Measure each briefly: some minutes in all.
    #[arg(long)]
    quick: bool,
    /// Print the parts with their command lines; measure nothing.
    #[arg(long)]
    list: bool,
}

/// A table or figure of a paper, and the command that makes it anew.
#[derive(Debug)]
struct PaperPart {
    name: &'static str,
    /// Its needs besides the folder.
    needs: &'static str,
    /// The paper, and its tables and figures.
    of: &'static str,
    /// Figures of the paper.
    theirs: &'static str,
    /// Differences of this measurement.
    differs: &'static str,
    line: &'static str,
    /// More words for the whole measurement, and for a brief one.
    whole: &'static str,
    brief: &'static str,
}

const PARTS: &str = include_str!("papers.txt");

/// All parts, from the text file beside this one.
fn parts() -> Vec<PaperPart> {
    let lines: Vec<&str> =
        PARTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::trim).collect();
    let part = |of: &[&'static str]| {
        let (head, line) = (fields(of[0]), fields(of[3]));
        let [name, needs, paper] = head;
        let [line, whole, brief] = line;
        PaperPart { name, needs, of: paper, theirs: of[1], differs: of[2], line, whole, brief }
    };
    lines.chunks_exact(4).map(part).collect()
}

/// Three fields of a line; the last ones may be missing.
fn fields(line: &'static str) -> [&'static str; 3] {
    let mut fields = line.splitn(3, '|').map(str::trim);
    std::array::from_fn(|_| fields.next().unwrap_or_default())
}

impl PaperPart {
    /// True for its name, or how that begins.
    fn is_named(&self, name: &str) -> bool {
        self.name.starts_with(name)
    }

    /// True of the benchmarks of servers, whose tables and plots `report` makes.
    fn keeps_raw_results(&self) -> bool {
        ["bench streams ", "bench jitter "].iter().any(|bench| self.line.starts_with(bench))
    }
}

/// Contents for the servers: more than half a minute of 25 Mbit/s each.
const FILMS: u32 = 9;
const FILM_BYTES: u64 = 128_000_000;

impl PapersCommand {
    /// Runs it.
    ///
    /// # Errors
    /// The folders cannot be written; a part failed: all are named.
    pub(crate) fn run(self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        let parts = parts();
        if let Some(unknown) = self.only.iter().find(|only| !parts.iter().any(|part| part.is_named(only))) {
            bail!(crate::unknown_part(unknown, parts.iter().map(|part| part.name)));
        }
        let wanted = |part: &&PaperPart| self.only.is_empty() || self.only.iter().any(|only| part.is_named(only));
        let chosen: Vec<&PaperPart> = parts.iter().filter(wanted).collect();
        if self.list {
            for part in chosen {
                let needs = if part.needs == "-" { String::new() } else { format!("  (needs {})", part.needs) };
                let words = self.words(part, Path::new("ROOT"), Path::new("FILMS"), Path::new("OUT"));
                writeln!(out, "{}: {}{needs}\n  isocast {}", part.name, part.of, words.join(" "))?;
            }
            return Ok(());
        }
        let (root, results) = self.root.as_deref().zip(self.out.as_deref()).context("--root and --out are needed")?;
        fs::create_dir_all(results).with_context(|| format!("making {}", results.display()))?;
        let films = scratch::folder_in(root)?;
        if chosen.iter().any(|part| part.line.contains("FILMS")) {
            say(format_args!("writing {FILMS} contents of {} into {}", ByteCount(FILM_BYTES), films.path().display()));
            (0..FILMS).try_for_each(|number| {
                files::write_cold(&films.path().join(format!("film-{number}.bin")), FILM_BYTES, stop)
            })?;
        }
        let (mut failed, mut outcomes) = (Vec::new(), Vec::new());
        for (number, part) in chosen.iter().enumerate() {
            say(format_args!("\n== {} of {}: {} ==", number + 1, chosen.len(), part.of));
            let words = self.words(part, root, films.path(), &results.join(part.name));
            let begun = clock::now();
            let mut outcome = child::this_program(&words, &[], stop);
            if outcome.is_ok() && part.keeps_raw_results() {
                let report = [OsStr::new("report"), results.join(part.name).as_os_str()].map(OsStr::to_owned);
                outcome = child::this_program(&report, &[], stop);
            }
            stop.check()?;
            let took = (clock::now() - begun).as_secs_f64();
            outcomes.push((*part, words.join(" "), outcome.as_ref().err().map(|error| format!("{error:#}")), took));
            if let Err(error) = outcome {
                failed.push(format!("{}: {error:#}", part.name));
            }
            fs::write(results.join("README.md"), page(&outcomes))?;
        }
        writeln!(out, "{} shows the papers' figures and ours", results.join("README.md").display())?;
        if failed.is_empty() { Ok(()) } else { bail!("not everything could be measured:\n{}", failed.join("\n")) }
    }

    /// The command line of a part.
    fn words(&self, part: &PaperPart, root: &Path, films: &Path, out: &Path) -> Vec<String> {
        let more = if self.quick { part.brief } else { part.whole };
        let words = part.line.split_ascii_whitespace().chain(more.split_ascii_whitespace());
        let mut line: Vec<String> = Vec::new();
        for word in words {
            match word {
                "ROOT" => line.push(root.display().to_string()),
                "FILMS" => line.push(films.display().to_string()),
                "PEER" if nginx::find().is_some() => line.extend(["--peer", "nginx"].map(str::to_owned)),
                "PEER" => {}
                word => line.push(word.to_owned()),
            }
        }
        line.extend(["--out".to_owned(), out.display().to_string()]);
        line
    }
}

/// The page next to the results: the papers' figures, the differences, and where ours are.
fn page(outcomes: &[(&PaperPart, String, Option<String>, f64)]) -> String {
    let mut page = format!("# The papers' tables and figures, made anew\n\n{}\n", Host::here(None).sentence());
    for (part, line, failure, seconds) in outcomes {
        let _ = write!(
            page,
            "\n## {}\n\nThe paper: {}.\nDifferent here: {}.\n\n`isocast {line}` ({seconds:.0} s)\n\n",
            part.of, part.theirs, part.differs
        );
        let _ = match failure {
            None => writeln!(page, "Ours: [{0}]({0}/).", part.name),
            Some(failure) => writeln!(page, "Not measured: {failure}."),
        };
    }
    page
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The program understands each line, whole and brief.
    #[test]
    fn the_command_lines_can_be_typed() {
        for quick in [false, true] {
            let papers = PapersCommand { root: None, out: None, only: Vec::new(), quick, list: true };
            for part in &parts() {
                let words = papers.words(part, Path::new("/r"), Path::new("/f"), Path::new("/o"));
                let line = std::iter::once("isocast-lab".to_owned()).chain(words);
                let parsed = crate::LabCommandLine::try_parse_from(line);
                assert!(
                    parsed.is_ok(),
                    "{}: {}",
                    part.name,
                    parsed.err().map(|error| error.to_string()).unwrap_or_default()
                );
            }
        }
    }

    #[test]
    fn a_part_that_failed_is_on_the_page() {
        let parts = parts();
        assert_eq!(parts.len(), 10);
        let page = page(&[
            (&parts[0], "bench streams".to_owned(), None, 3.2),
            (&parts[1], "bench load".to_owned(), Some("no room".to_owned()), 0.1),
        ]);
        assert!(page.contains("[hpsm-4.1](hpsm-4.1/)") && page.contains("Not measured: no room."), "{page}");
        assert!(page.contains("the 5th stops all of them") && page.contains("`isocast bench load` (0 s)"), "{page}");
    }
}
