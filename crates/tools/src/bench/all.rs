//! `bench all`: the set of experiments behind the published figures, each the same as its command line typed by hand.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use tempfile::TempDir;

use super::host::Host;
use super::lab_disk::LabDisk;
use super::parts::{self, Ground, Part};
use super::progress::Show;
use super::{Stop, child, nginx, scratch};

/// Contents in memory: so many files of so many bytes.
const WARM_FILES: usize = 16;
const WARM_BYTES: u64 = 64 * 1024 * 1024;
/// Contents on the emulated disk; more than the streams any run asks for, so that each reads another.
const COLD_FILES: usize = 128;
const COLD_SIZE: &str = "256MiB";
const LAB_NAME: &str = "bench";

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct AllCommand {
    /// Fixed numbers of streams, once: about 15 minutes.
    #[arg(long, conflicts_with = "full", required_unless_present = "full")]
    quick: bool,
    /// Searches for the most streams, three drives, repeats, a network: about three hours.
    #[arg(long)]
    full: bool,
    /// Only this part, by its name or how that begins (repeatable).
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Only parts whose results are not in the folder yet.
    #[arg(long)]
    resume: bool,
    /// Folder for the results [default: docs/results/DATE-HOST].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder in memory for the contents of the first experiments.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
    /// Leave out nginx.
    #[arg(long)]
    without_peer: bool,
    /// Leave out what needs an emulated disk (and with it root).
    #[arg(long)]
    without_lab: bool,
}

impl AllCommand {
    /// Runs it.
    ///
    /// # Errors
    /// See [`BenchCommand::run`]; what was measured until then is kept.
    pub(crate) fn run(self, stop: &Stop) -> anyhow::Result<()> {
        let show = Show::on_stderr();
        if !self.without_peer && nginx::find().is_none() {
            bail!("no nginx found; install it (Debian: `apt install nginx-light`) or give --without-peer");
        }
        let out = self.out.clone().unwrap_or_else(default_folder);
        let parts = self.chosen(&out)?;
        if parts.iter().any(|part| part.ground != Ground::Memory) && !rustix::process::geteuid().is_root() {
            bail!("emulated disks need root: run it with sudo, or give --without-lab for what needs none");
        }
        let mut failed = Vec::new();
        // Parts on the same ground follow one another: it is made once for all of them.
        for parts in parts.chunk_by(|a, b| a.ground == b.ground) {
            let ground = parts.first().map_or(Ground::Memory, |p| p.ground);
            let site = self.prepare(ground, &show, stop)?;
            for part in parts {
                show.line(&format!("\n== {}: {} ==", part.label, part.title));
                let result = child::this_program(&self.line(part, &site, &out), &[], stop);
                // An interrupt ends everything; a part that fails does not keep the others from being measured.
                if stop.is_set() {
                    return result;
                }
                if let Err(error) = result {
                    failed.push(format!("{}: {error:#}", part.label));
                }
            }
        }
        if !failed.is_empty() {
            bail!("not everything could be measured:\n{}", failed.join("\n"));
        }
        show.line(&format!("everything is in {}", out.join("report.html").display()));
        Ok(())
    }

    /// The parts to run.
    fn chosen(&self, out: &Path) -> anyhow::Result<Vec<Part>> {
        let all = if self.full { parts::full() } else { parts::quick() };
        if let Some(unknown) = self.only.iter().find(|only| !all.iter().any(|p| p.is_named(only))) {
            let labels: Vec<&str> = all.iter().map(|p| p.label.as_str()).collect();
            bail!("--only {unknown}: there is no such part; there are {}", labels.join(", "));
        }
        let wanted = |part: &Part| {
            (self.only.is_empty() || self.only.iter().any(|only| part.is_named(only)))
                && (part.ground == Ground::Memory || !self.without_lab)
                && !(self.resume && out.join(format!("{}.json", part.label)).exists())
        };
        Ok(all.into_iter().filter(wanted).collect())
    }

    fn prepare(&self, ground: Ground, show: &Show, stop: &Stop) -> anyhow::Result<Site> {
        match ground {
            Ground::Memory => self.in_memory(stop).map(Site::Memory),
            Ground::Disk(profile) => {
                show.line(&format!("emulated disk `{profile}`: making and filling it"));
                // A drive of 250 GB holds half as many.
                let files = if profile == "t7k250" { COLD_FILES / 2 } else { COLD_FILES };
                LabDisk::up(&format!("{LAB_NAME}-{profile}"), profile, files, COLD_SIZE).map(Site::Disk)
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
    fn line(&self, part: &Part, site: &Site, out: &Path) -> Vec<String> {
        let mut line: Vec<String> = ["bench", part.experiment, "--server", "isocast"].map(str::to_owned).to_vec();
        line.extend(["--label", &part.label, "--title", &part.title].map(str::to_owned));
        let root = match site {
            Site::Memory(folder) => folder.path().to_owned(),
            Site::Disk(disk) => disk.contents(),
        };
        line.extend(["--root".to_owned(), root.display().to_string(), "--out".to_owned(), out.display().to_string()]);
        if part.peer && !self.without_peer {
            line.extend(["--peer", "nginx"].map(str::to_owned));
        }
        if let Site::Disk(disk) = site {
            line.extend(["--lab-disk".to_owned(), disk.name.clone()]);
        }
        line.extend(part.arguments.split_ascii_whitespace().map(str::to_owned));
        line
    }
}

/// Where contents are while parts run; gone when dropped.
enum Site {
    Memory(TempDir),
    Disk(LabDisk),
}

fn default_folder() -> PathBuf {
    let host = Host::here(None);
    let day = host.date.split('T').next().unwrap_or_default().to_owned();
    Path::new("docs/results").join(format!("{day}-{}", host.name))
}
