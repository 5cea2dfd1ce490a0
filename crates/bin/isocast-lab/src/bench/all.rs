//! `bench all`: the set of experiments behind the published figures, each the same as its command line typed by hand.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Parser};
use tempfile::TempDir;
use units::Nanos;

use super::host::Host;
use super::lab_disk::LabDisk;
use super::parts::{self, BenchPart, PartGround};
use super::progress::Show;
use super::promises;
use super::timetable::{PartsTimetable, about};
use super::{BenchCommand, Stop, child, clock, nginx, report, scratch};

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
/// Making contents in memory; making and filling an emulated disk, and our server's measuring it once.
const MEMORY_SET_UP: Nanos = Nanos::from_secs(3);
const DISK_SET_UP: Nanos = Nanos::from_secs(20);

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
    /// See [`BenchCommand::run`]; results measured until then are kept.
    pub(crate) fn run(self, stop: &Stop) -> anyhow::Result<()> {
        let show = Show::on_stderr();
        let out = self.out.clone().unwrap_or_else(default_folder);
        let parts = self.chosen(&out)?;
        if !self.without_peer && nginx::find().is_none() {
            bail!("no nginx found; install it (Debian: `apt install nginx-light`) or give --without-peer");
        }
        if parts.iter().any(|part| part.ground != PartGround::Memory) && !rustix::process::geteuid().is_root() {
            bail!("emulated disks need root: run it with sudo, or give --without-lab for the parts that need none");
        }
        let mut table = self.timetable(&parts, &out)?;
        show.line(&format!(
            "{} parts, about {}; repeats of disturbed runs may add the rest up to {}",
            parts.len(),
            about(table.left()),
            about(self.limit()),
        ));
        let (mut failed, mut missed) = (Vec::new(), Vec::new());
        let mut begun = 0;
        // Parts on the same ground follow one another: it is made once for all of them.
        for same in parts.chunk_by(|a, b| a.ground == b.ground) {
            let ground = same.first().map_or(PartGround::Memory, |p| p.ground);
            let site = self.prepare(ground, &show, stop)?;
            for part in same {
                begun += 1;
                let left = about(table.left());
                show.line(&format!(
                    "\n== {}: {} (part {begun} of {}, about {left} left) ==",
                    part.label,
                    part.title,
                    parts.len()
                ));
                let mut line = self.line(part, &site.place()?, &out);
                let repeats = table.for_repeats(clock::now()).0 / 1_000_000_000;
                line.extend(["--repeats-within".to_owned(), format!("{repeats}s")]);
                let result = child::this_program(&line, &[], stop);
                table.ended();
                // An interrupt ends everything; a part that fails does not keep the others from being measured.
                if stop.is_set() {
                    return result;
                }
                if let Err(error) = result.and_then(|()| judge(part, &out, &show, &mut missed)) {
                    failed.push(format!("{}: {error:#}", part.label));
                }
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
        show.line(&format!("everything is in {0}; `isocast-lab report {0}` shows it", out.display()));
        Ok(())
    }

    /// The parts to run.
    fn chosen(&self, out: &Path) -> anyhow::Result<Vec<BenchPart>> {
        let all = if self.full { parts::full() } else { parts::quick() };
        if let Some(unknown) = self.only.iter().find(|only| !all.iter().any(|p| p.is_named(only))) {
            bail!(super::unknown_part(unknown, all.iter().map(|part| part.label.as_str())));
        }
        let wanted = |part: &BenchPart| {
            (self.only.is_empty() || self.only.iter().any(|only| part.is_named(only)))
                && (part.ground == PartGround::Memory || !self.without_lab)
                && !(self.resume && out.join(format!("{}.json", part.label)).exists())
        };
        Ok(all.into_iter().filter(wanted).collect())
    }

    /// Longest time of a set.
    fn limit(&self) -> Nanos {
        if self.full { FULL_MAX } else { QUICK_MAX }
    }

    /// Duration of each part, its site's set-up with the first part there.
    fn timetable(&self, parts: &[BenchPart], out: &Path) -> anyhow::Result<PartsTimetable> {
        let somewhere = SiteArgs { root: PathBuf::from("."), disk: Some((LAB_NAME.to_owned(), PathBuf::from("."))) };
        let mut ground = None;
        let mut spans = Vec::new();
        for part in parts {
            let line = self.line(part, &somewhere, out);
            let span = PartLine::try_parse_from(line)
                .with_context(|| format!("the command line of {}", part.label))?
                .bench
                .estimate()?;
            let set_up = match part.ground {
                _ if ground == Some(part.ground) => Nanos::ZERO,
                PartGround::Memory => MEMORY_SET_UP,
                PartGround::Disk(_) => DISK_SET_UP,
            };
            ground = Some(part.ground);
            spans.push(set_up + span);
        }
        Ok(PartsTimetable::new(clock::now(), self.limit(), spans))
    }

    fn prepare(&self, ground: PartGround, show: &Show, stop: &Stop) -> anyhow::Result<ContentSite> {
        match ground {
            PartGround::Memory => self.in_memory(stop).map(ContentSite::Memory),
            PartGround::Disk(profile) => {
                show.line(&format!("emulated disk `{profile}`: making and filling it"));
                // A drive of 250 GB holds half as many.
                let files = if profile == "t7k250" { COLD_FILES / 2 } else { COLD_FILES };
                let disk = LabDisk::with_films(&format!("{LAB_NAME}-{profile}"), profile, files, COLD_SIZE)?;
                Ok(ContentSite::Disk { disk, state: scratch::folder()? })
            }
        }
    }

    fn in_memory(&self, stop: &Stop) -> anyhow::Result<TempDir> {
        let folder = scratch::folder_in(&self.memory).context("a folder for contents in memory (--memory)")?;
        // Zeros, but written: a hole would be answered without touching memory.
        let piece = vec![0_u8; 1 << 20];
        for n in 0..WARM_FILES {
            let mut file = fs::File::create(folder.path().join(format!("film-{n:02}.bin")))?;
            for _ in 0..WARM_BYTES / piece.len() as u64 {
                std::io::Write::write_all(&mut file, &piece).context("writing the contents into memory")?;
            }
            stop.check()?;
        }
        Ok(folder)
    }

    /// The command line of one part, as it could be typed.
    fn line(&self, part: &BenchPart, place: &SiteArgs, out: &Path) -> Vec<String> {
        let mut line: Vec<String> = ["bench", part.experiment, "--server", "isocast"].map(str::to_owned).to_vec();
        line.extend(["--label", &part.label, "--title", &part.title].map(str::to_owned));
        let root = place.root.display().to_string();
        line.extend(["--root".to_owned(), root, "--out".to_owned(), out.display().to_string()]);
        if part.peer && !self.without_peer {
            line.extend(["--peer", "nginx"].map(str::to_owned));
        }
        if let Some((disk, state)) = &place.disk {
            line.extend(["--lab-disk".to_owned(), disk.clone(), "--state".to_owned(), state.display().to_string()]);
        }
        line.extend(part.arguments.split_ascii_whitespace().map(str::to_owned));
        line
    }
}

/// Says of each promise of `part` whether it was kept, and adds those that were missed to `missed`.
fn judge(part: &BenchPart, out: &Path, show: &Show, missed: &mut Vec<String>) -> anyhow::Result<()> {
    let results = report::read(out)?.into_iter().find(|results| results.label == part.label);
    for verdict in promises::verdicts(&part.label, &results.map(|results| results.runs).unwrap_or_default()) {
        show.line(&verdict.text);
        if verdict.missed {
            missed.push(format!("{}: {}", part.label, verdict.text));
        }
    }
    Ok(())
}

/// Place of the contents while parts run; removed when dropped.
enum ContentSite {
    Memory(TempDir),
    /// Our server measures the disk once for all parts, and keeps the profile in `state`.
    Disk {
        disk: LabDisk,
        state: TempDir,
    },
}

impl ContentSite {
    fn place(&self) -> anyhow::Result<SiteArgs> {
        Ok(match self {
            Self::Memory(folder) => SiteArgs { root: folder.path().to_owned(), disk: None },
            Self::Disk { disk, state } => {
                SiteArgs { root: disk.contents()?, disk: Some((disk.name.clone(), state.path().to_owned())) }
            }
        })
    }
}

/// Arguments of a command line that name a site.
#[derive(Debug)]
struct SiteArgs {
    root: PathBuf,
    /// The emulated disk, and our server's folder for its profile.
    disk: Option<(String, PathBuf)>,
}

/// A part's command line, read back as the program itself reads it.
#[derive(Debug, Parser)]
struct PartLine {
    #[command(flatten)]
    bench: BenchCommand,
}

fn default_folder() -> PathBuf {
    let host = Host::here(None);
    let day = host.date.split('T').next().unwrap_or_default().to_owned();
    Path::new("results").join(format!("{day}-{}", host.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> AllCommand {
        #[derive(Parser)]
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
            let table = all.timetable(&all.chosen(nowhere).unwrap(), nowhere).unwrap();
            let (left, limit) = (table.left(), all.limit());
            assert!(left.0 < limit.0 * 96 / 100 && left.0 > limit.0 / 2, "{set}: {left} of {limit}");
        }
    }

    #[test]
    fn parts_are_chosen_by_name_and_without_those_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let labels = |words: &[&str]| -> Vec<String> {
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
    fn without_the_peer_a_part_takes_half_as_long() {
        let nowhere = Path::new("/no/such/folder");
        let left = |words: &[&str]| {
            let all = command(words);
            all.timetable(&all.chosen(nowhere).unwrap(), nowhere).unwrap().left()
        };
        let (both, one) = (left(&["--quick", "--only", "02"]), left(&["--quick", "--only", "02", "--without-peer"]));
        assert_eq!(both.saturating_sub(MEMORY_SET_UP), one.saturating_sub(MEMORY_SET_UP).saturating_mul(2));
    }
}
