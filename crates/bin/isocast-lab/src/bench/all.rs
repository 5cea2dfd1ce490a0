//! `bench all`: the set of experiments behind the published figures, each the same as its command line typed by hand.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use tempfile::TempDir;
use units::Nanos;

use super::host::Host;
use super::lab_disk::LabDisk;
use super::parts::{self, BenchPart};
use super::{Stop, child, clock, files, nginx, promises, report, scratch};
use crate::say;

/// Contents in memory: their number, and the bytes of each.
const WARM_FILES: usize = 16;
const WARM_BYTES: u64 = 64 * 1024 * 1024;
/// Contents on the emulated disk; more than the streams of any run, so that each reads another.
const COLD_FILES: usize = 128;
const COLD_SIZE: &str = "256MiB";
const LAB_NAME: &str = "bench";
/// Longest time of a set with repeats of disturbed runs.
const QUICK_MAX: Nanos = Nanos::from_secs(15 * 60);
const FULL_MAX: Nanos = Nanos::from_secs(160 * 60);

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct AllCommand {
    /// Fixed numbers of streams, once: 15 minutes at most.
    #[arg(long, conflicts_with = "full", required_unless_present = "full")]
    quick: bool,
    /// Searches for the most streams, three drives, repeats, a network: about two and a half hours.
    #[arg(long)]
    full: bool,
    /// Only this part, by its name or how that begins (repeatable).
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Only parts without results in the folder.
    #[arg(long)]
    resume: bool,
    /// Folder for the results [default: results/DATE-HOST].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder in memory for the contents of the first experiments.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
    /// Leave out nginx.
    #[arg(long)]
    without_peer: bool,
    /// Leave out parts that need an emulated disk (and with it root).
    #[arg(long)]
    without_lab: bool,
}

impl AllCommand {
    /// Runs it.
    ///
    /// # Errors
    /// See [`super::BenchCommand::run`]; results measured until then are kept.
    pub(crate) fn run(self, stop: &Stop) -> anyhow::Result<()> {
        let out = self.out.clone().unwrap_or_else(default_folder);
        let parts = self.chosen(&out)?;
        if !self.without_peer && nginx::find().is_none() {
            bail!("no nginx found; install it (Debian: `apt install nginx-light`) or give --without-peer");
        }
        if parts.iter().any(|part| part.disk.is_some()) && !rustix::process::geteuid().is_root() {
            bail!("emulated disks need root: run it with sudo, or give --without-lab for the parts that need none");
        }
        let (began, count) = (clock::now(), parts.len());
        let (all, limit) = (length(&parts), self.limit());
        say(format_args!(
            "{count} parts, about {}; repeats of disturbed runs may add the rest up to {}",
            about(all),
            about(limit),
        ));
        let (mut failed, mut missed) = (Vec::new(), Vec::new());
        // Parts in the same place follow one another: it is made once for all of them.
        let mut made: Option<(Option<&str>, ContentSite)> = None;
        for (n, part) in parts.iter().enumerate() {
            if made.as_ref().is_none_or(|(disk, _)| *disk != part.disk) {
                drop(made.take());
                made = Some((part.disk, self.prepare(part.disk, stop)?));
            }
            let place = made.as_ref().map(|(_, site)| site.words.as_slice()).unwrap_or_default();
            let (left, time) = (length(&parts[n..]), about(length(&parts[n..])));
            say(format_args!("\n== {}: {} (part {} of {count}, about {time} left) ==", part.label, part.title, n + 1));
            let mut line = self.line(part, place, &out);
            let repeats = limit.saturating_sub(clock::now().saturating_sub(began).saturating_add(left));
            line.extend(["--repeats-within".to_owned(), format!("{}s", repeats.0 / 1_000_000_000)]);
            let result = child::this_program(&line, &[], stop);
            // An interrupt ends everything; a part that fails does not keep the others from being measured.
            if stop.is_set() {
                return result;
            }
            if let Err(error) = result.and_then(|()| judge(part, &out, &mut missed)) {
                failed.push(format!("{}: {error:#}", part.label));
            }
        }
        if !failed.is_empty() {
            failed.insert(0, "not everything could be measured:".to_owned());
        }
        if !missed.is_empty() {
            failed.push("promises were not met:".to_owned());
            failed.extend(missed);
        }
        if !failed.is_empty() {
            bail!("{}", failed.join("\n"));
        }
        say(format_args!("everything is in {0}; `isocast-lab report {0}` shows it", out.display()));
        Ok(())
    }

    /// The parts to run.
    fn chosen(&self, out: &Path) -> anyhow::Result<Vec<BenchPart>> {
        let all = parts::of_set(if self.full { "full" } else { "quick" });
        if let Some(unknown) = self.only.iter().find(|only| !all.iter().any(|p| p.is_named(only))) {
            bail!(crate::unknown_part(unknown, all.iter().map(|part| part.label)));
        }
        let wanted = |part: &BenchPart| {
            (self.only.is_empty() || self.only.iter().any(|only| part.is_named(only)))
                && (part.disk.is_none() || !self.without_lab)
                && !(self.resume && out.join(format!("{}.json", part.label)).exists())
        };
        let mut parts: Vec<_> = all.into_iter().filter(wanted).collect();
        // The servers take turns.
        parts
            .iter_mut()
            .filter(|part| self.without_peer && part.line.contains("--peer nginx "))
            .for_each(|part| part.length.0 /= 2);
        Ok(parts)
    }

    /// Longest time of a set.
    fn limit(&self) -> Nanos {
        if self.full { FULL_MAX } else { QUICK_MAX }
    }

    /// Contents on the emulated disk `profile`, or in memory.
    fn prepare(&self, profile: Option<&str>, stop: &Stop) -> anyhow::Result<ContentSite> {
        let Some(profile) = profile else { return self.in_memory(stop) };
        say(format_args!("emulated disk `{profile}`: making and filling it"));
        // A drive of 250 GB holds half as many.
        let files = if profile == "t7k250" { COLD_FILES / 2 } else { COLD_FILES };
        let disk = LabDisk::with_films(&format!("{LAB_NAME}-{profile}"), profile, files, COLD_SIZE)?;
        // Our server measures the disk once for all parts, and keeps the profile there.
        let state = scratch::folder()?;
        let words =
            [("--root", disk.contents()?), ("--lab-disk", (&disk.name).into()), ("--state", state.path().into())];
        let words =
            words.into_iter().flat_map(|(option, path)| [option.to_owned(), path.display().to_string()]).collect();
        Ok(ContentSite { words, _disk: Some(disk), _folder: state })
    }

    fn in_memory(&self, stop: &Stop) -> anyhow::Result<ContentSite> {
        let folder = scratch::folder_in(&self.memory).context("a folder for contents in memory (--memory)")?;
        for n in 0..WARM_FILES {
            // Zeros, but written: a hole would be answered without touching memory.
            files::write(&folder.path().join(format!("film-{n:02}.bin")), WARM_BYTES, 0, stop)?;
        }
        let words = vec!["--root".to_owned(), folder.path().display().to_string()];
        Ok(ContentSite { words, _disk: None, _folder: folder })
    }

    /// The command line of one part, as it could be typed.
    fn line(&self, part: &BenchPart, place: &[String], out: &Path) -> Vec<String> {
        let line = if self.without_peer { part.line.replace("--peer nginx ", "") } else { part.line.clone() };
        let mut words = vec!["bench".to_owned()];
        words.extend(line.split_ascii_whitespace().map(str::to_owned));
        words.extend(["--server", "isocast", "--label", part.label, "--title", part.title].map(str::to_owned));
        words.extend_from_slice(place);
        words.extend(["--out".to_owned(), out.display().to_string()]);
        words
    }
}

/// Estimated duration of these parts, without repeats.
fn length(parts: &[BenchPart]) -> Nanos {
    parts.iter().fold(Nanos::ZERO, |sum, part| sum + part.length)
}

/// Whole minutes where there are some, else seconds: `13 min`, `40 s`.
fn about(span: Nanos) -> String {
    let seconds = span.0.div_ceil(1_000_000_000);
    if seconds < 90 { format!("{seconds} s") } else { format!("{} min", (seconds + 30) / 60) }
}

/// Says of each promise of `part` whether it was kept, and adds those that were missed to `missed`.
fn judge(part: &BenchPart, out: &Path, missed: &mut Vec<String>) -> anyhow::Result<()> {
    let results = report::read(out)?.into_iter().find(|results| results.label == part.label);
    for verdict in promises::verdicts(part.label, &results.map(|results| results.runs).unwrap_or_default()) {
        say(format_args!("{}", verdict.text));
        if verdict.missed {
            missed.push(format!("{}: {}", part.label, verdict.text));
        }
    }
    Ok(())
}

/// Place of the contents while parts run; removed when dropped.
struct ContentSite {
    /// Arguments that name it.
    words: Vec<String>,
    _disk: Option<LabDisk>,
    _folder: TempDir,
}

fn default_folder() -> PathBuf {
    let host = Host::here(None);
    let day = host.date.split('T').next().unwrap_or_default().to_owned();
    Path::new("results").join(format!("{day}-{}", host.name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;

    use super::*;

    fn command(words: &[&str]) -> AllCommand {
        #[derive(clap::Parser)]
        struct All {
            #[command(flatten)]
            all: AllCommand,
        }
        All::try_parse_from(["all"].iter().chain(words)).unwrap().all
    }

    /// Their lines can be typed, and leave time for repeats of disturbed runs.
    #[test]
    fn both_sets_end_before_their_limit() {
        let nowhere = Path::new("/no/such/folder");
        for set in ["--quick", "--full"] {
            let all = command(&[set]);
            let (parts, limit) = (all.chosen(nowhere).unwrap(), all.limit());
            let left = length(&parts);
            assert!(left.0 < limit.0 * 96 / 100 && left.0 > limit.0 / 2, "{set}: {left} of {limit}");
            for part in parts {
                let line = [
                    vec!["isocast-lab".to_owned()],
                    all.line(&part, &["--root", "x", "--lab-disk", "x"].map(str::to_owned), nowhere),
                ]
                .concat();
                assert!(crate::LabCommandLine::try_parse_from(&line).is_ok(), "{line:?}");
            }
        }
        assert_eq!((about(Nanos::from_secs(40)), about(Nanos::from_secs(100))), ("40 s".into(), "2 min".into()));
    }

    #[test]
    fn parts_are_chosen_by_name_and_without_those_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let labels = |words: &[&str]| -> Vec<&str> {
            command(words).chosen(folder.path()).unwrap().into_iter().map(|part| part.label).collect()
        };
        assert_eq!(labels(&["--quick", "--only", "01", "--only", "disk-jitter-ample"]).len(), 2);
        let all = labels(&["--quick"]).len();
        fs::write(folder.path().join("01-memory-8.8M.json"), "").unwrap();
        assert_eq!((labels(&["--quick"]).len(), labels(&["--quick", "--resume"]).len()), (all, all - 1));
        assert_eq!(labels(&["--quick", "--without-lab", "--resume"]), ["02-memory-2M", "07-memory-system-calls"]);
        assert!(command(&["--quick", "--only", "nothing"]).chosen(folder.path()).is_err());
    }

    #[test]
    fn without_the_peer_no_part_names_it() {
        let all = command(&["--full", "--without-peer"]);
        let parts = all.chosen(Path::new("/no/such/folder")).unwrap();
        assert!(parts.iter().all(|part| !all.line(part, &[], Path::new("x")).contains(&"nginx".to_owned())));
    }
}
