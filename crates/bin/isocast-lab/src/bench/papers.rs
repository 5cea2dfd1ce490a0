//! `bench papers`: makes every table and figure of the papers anew, each by a command that can also be typed by hand.
//!
//! Promise: a part that cannot be measured here does not keep the others from being measured, and is named at the end; the page beside the
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
struct PaperPart {
    name: &'static str,
    /// The paper, and its tables and figures.
    of: &'static str,
    /// Figures of the paper.
    theirs: &'static str,
    /// Differences of this measurement.
    differs: &'static str,
    /// What it needs besides the folder.
    needs: &'static str,
    /// The command line: `ROOT` is the folder, `FILMS` one with contents in it, `PEER` nginx where it is installed.
    line: &'static str,
    /// More words for the whole measurement, and for a brief one.
    whole: &'static str,
    brief: &'static str,
}

const PARTS: [PaperPart; 10] = [
    PaperPart {
        name: "hpsm-4.1",
        of: "HPSM/AVFS, table 4.1: streams of 25 Mbit/s on 100 Mbit/s",
        theirs: "4 streams run, the 5th stops all of them",
        differs: "a virtual cable, shaped; the server refuses what does not fit, so that those admitted go on",
        needs: "root",
        line: "bench streams --server isocast --root FILMS --streams 1,2,3,4,5 --rate 25M --network veth --shape 100M",
        whole: "--duration 30s",
        brief: "--duration 8s",
    },
    PaperPart {
        name: "hpsm-4.2",
        of: "HPSM/AVFS, tables 4.2 and 4.3, figures 4.1 to 4.6: load by streams, from a file system and from AVFS",
        theirs: "Ext3: 20.2, 36.4, 53.1, 74.4 % CPU and 2.6, 5.4, 8.3, 11.2 MB for 1 to 4 streams; AVFS: 19.1, 37.0, 54.5, 73.0 %; disk 26 to 93, network 26 to 98 Mbit/s",
        differs: "a volume of ours in a file stands for AVFS; the memory is that of the server's process, buffers included",
        needs: "",
        line: "bench load --root ROOT",
        whole: "",
        brief: "--quick",
    },
    PaperPart {
        name: "hpsm-4.4",
        of: "HPSM/AVFS, tables 4.4 and 4.5: filecp at 5, 10, 15 Mbit/s by PIO and by DMA",
        theirs: "PIO: 35.7, 72.8 %, not measurable; DMA: 0.9, 1.4, 1.9 %",
        differs: "no disk has PIO today: 4 KiB calls through the page cache, mappings, splice and direct reads stand beside `isocast cp`",
        needs: "fio",
        line: "bench access --root ROOT --rates 5M,10M,15M",
        whole: "",
        brief: "--quick",
    },
    PaperPart {
        name: "hitactix-9",
        of: "HiTactix, figures 9 and 10: sent against requested rate, and processor load by rate",
        theirs: "88 Mbit/s on Linux, 880 with HiTactix (11 times as much); load in proportion to the rate",
        differs: "nginx is the ordinary server, on today's kernel, from one disk and memory; the rates are of 10, 50 and 100 streams of 8.8 Mbit/s",
        needs: "",
        line: "bench streams --server isocast PEER --root FILMS --streams 10,50,100 --rate 8.8M",
        whole: "--duration 30s",
        brief: "--duration 8s",
    },
    PaperPart {
        name: "hitactix-12",
        of: "HiTactix, figure 12: streams while a file is written, with the cyclic schedule",
        theirs: "J about 0.48 %",
        differs: "writers upload through the server, each upload durable before it is answered",
        needs: "",
        line: "bench jitter --server isocast PEER --root FILMS --cold --streams 16 --rate 9M",
        whole: "",
        brief: "--duration 12s --alone 4s",
    },
    PaperPart {
        name: "hitactix-13",
        of: "HiTactix, figure 13: the same without the schedule",
        theirs: "the rate falls by about 96 %",
        differs: "a plain program of readers and a writer, through the page cache and the kernel's own scheduler; a disk that is much faster than its load shows nothing",
        needs: "",
        line: "bench plain --root ROOT --streams 16 --rate 9M",
        whole: "",
        brief: "--quick",
    },
    PaperPart {
        name: "tipc",
        of: "TIPC and TCP, figures 1 to 7 and table 1",
        theirs: "TCP puts small messages together, TIPC sends a packet each; replies of TIPC are a fifteenth of its packets",
        differs: "two guests on an emulated Ethernet where User-mode Linux is installed, else loopback without TIPC",
        needs: "",
        line: "net figures",
        whole: "",
        brief: "--seconds 1",
    },
    PaperPart {
        name: "parallel-1",
        of: "Disk parallelism, figures 1 and 2: buffer sizes",
        theirs: "the buffer hardly matters, memory does",
        differs: "figure 2 is of another machine: run it there",
        needs: "",
        line: "bench buffer --root ROOT",
        whole: "",
        brief: "--quick",
    },
    PaperPart {
        name: "parallel-5",
        of: "Disk parallelism, figure 5: 1 GB from one disk and from two at once",
        theirs: "5.93 s from one, 3.36 s from two; from memory 2.49 and 2.70 s",
        differs: "two emulated disks; the times are relative to one of them",
        needs: "root",
        line: "bench disks --part files",
        whole: "",
        brief: "--quick",
    },
    PaperPart {
        name: "ttcp",
        of: "Ethernet how-to, the ttcp table and the advice on windows and sizes",
        theirs: "740 to 1,075 kB/s by the speed of the ISA bus",
        differs: "no bus to set: the sizes of messages and of the TCP window are what is left to choose; loopback, or `--to` another machine",
        needs: "",
        line: "bench windows",
        whole: "",
        brief: "--quick",
    },
];

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
        if let Some(unknown) = self.only.iter().find(|only| !PARTS.iter().any(|part| part.is_named(only))) {
            bail!(crate::unknown_part(unknown, PARTS.iter().map(|part| part.name)));
        }
        let wanted = |part: &&PaperPart| self.only.is_empty() || self.only.iter().any(|only| part.is_named(only));
        let chosen: Vec<&PaperPart> = PARTS.iter().filter(wanted).collect();
        if self.list {
            for part in chosen {
                let needs = if part.needs.is_empty() { String::new() } else { format!("  (needs {})", part.needs) };
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

/// The page beside the results: the papers' figures, the differences, and where ours are.
fn page(outcomes: &[(&PaperPart, String, Option<String>, f64)]) -> String {
    let Host { date, processors, processor, kernel, .. } = Host::here(None);
    let mut page = format!(
        "# The papers' tables and figures, made anew\n\n{date} · {processors} × {processor} · Linux {kernel}\n"
    );
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

    /// Each line is one that the program understands, whole and brief.
    #[test]
    fn the_command_lines_can_be_typed() {
        for quick in [false, true] {
            let papers = PapersCommand { root: None, out: None, only: Vec::new(), quick, list: true };
            for part in &PARTS {
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
        let page = page(&[
            (&PARTS[0], "bench streams".to_owned(), None, 3.2),
            (&PARTS[1], "bench load".to_owned(), Some("no room".to_owned()), 0.1),
        ]);
        assert!(page.contains("[hpsm-4.1](hpsm-4.1/)") && page.contains("Not measured: no room."), "{page}");
        assert!(page.contains("the 5th stops all of them") && page.contains("`isocast bench load` (0 s)"), "{page}");
    }
}
