//! A store on emulated disks: a volume, or a folder of a file system, and the server that serves it.
//!
//! Promise: disks, server and its state are gone when this is dropped. The disks are measured by the server once, with their drives'
//! timing.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde::Deserialize;
use tempfile::TempDir;
use units::{BitRate, ByteCount, Nanos, real};

use super::account::CountedNames;
use super::args::Peer;
use super::contents::KeptContent;
use super::figure_table::{FigureOutput, FigureTable};
use super::lab_disk::{self, DiskTiming, LabDisk, LabFigures};
use super::server::{Choice, RunningServer, ServerGround};
use super::{Stop, child, scratch};
use crate::say;

/// Room of a volume given to one content at a time, as `isocast volume create` takes it by default.
pub(super) const UNIT: ByteCount = ByteCount(8 << 20);
const VOLUME_NAME: &str = "bench";

/// Arguments of a benchmark of clients on one store.
#[derive(Debug, Clone, Args)]
pub(super) struct StoreArgs {
    /// Drive to emulate.
    #[arg(long, value_name = "PROFILE", default_value = "desktop")]
    pub profile: String,
    /// Measure in this folder instead of on an emulated disk.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Measure this one beside, in turn, over the same files.
    #[arg(long, value_enum)]
    pub peer: Option<Peer>,
    /// One more argument for our server (repeatable).
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub serve_arg: Vec<String>,
    /// A few seconds of two clients, to see that it works.
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub output: FigureOutput,
}

/// Results of a run on a store.
pub(super) struct MeasuredStore {
    pub values: Vec<(&'static str, f64)>,
    /// For progress.
    pub sentence: String,
    /// Remarks that a reader of the figures needs.
    pub remarks: Vec<String>,
}

/// Cost of a run.
pub(super) struct StoreCost {
    pub disk: Option<LabFigures>,
    cpu_percent: Option<f64>,
}

impl StoreCost {
    pub(super) fn values(&self) -> Vec<(&'static str, f64)> {
        let disk =
            |disk: LabFigures| [("disk_busy_percent", disk.busy_percent), ("disk_write_percent", disk.write_percent)];
        let cpu = self.cpu_percent.map(|cpu| ("server_cpu_percent", cpu));
        self.disk.map(disk).into_iter().flatten().chain(cpu).collect()
    }

    /// That the machine disturbed the run, if it did.
    pub(super) fn remark(&self) -> Option<String> {
        let late = self.disk.map(|disk| disk.over_10ms).filter(|late| *late > 0)?;
        Some(format!("disturbed: the emulated disk was more than 10 ms late {late} times"))
    }
}

impl StoreArgs {
    /// The folder for contents, on a disk that is made where none was named.
    ///
    /// # Errors
    /// It, or the disk, cannot be made.
    pub(super) fn site(&self, name: &str) -> anyhow::Result<StoreSite> {
        match &self.root {
            Some(root) => {
                let folder = scratch::folder_in(root)?;
                StoreSite::folder_at(folder.path().join("contents"), Vec::new(), Some(folder))
            }
            None => {
                let name = format!("{name}-{}", std::process::id());
                StoreSite::folder(vec![LabDisk::up(&name, &["--profile", &self.profile])?])
            }
        }
    }

    /// Has `run` measure each of the numbers of clients, with our server and its peer in turn, and finishes the table.
    ///
    /// # Errors
    /// A run failed, or the results cannot be written.
    pub(super) fn measure(
        &self,
        mut table: FigureTable,
        (numbers, noun): (&[usize], &str),
        out: &mut dyn Write,
        mut run: impl FnMut(&Choice, usize) -> anyhow::Result<MeasuredStore>,
    ) -> anyhow::Result<()> {
        for &number in numbers {
            for choice in Peer::beside(self.peer) {
                let found = run(&choice, number)?;
                say(format_args!("{}", found.sentence));
                table.add(&choice.name(), real(number as u64), &found.values);
                for remark in found.remarks {
                    say(format_args!("  {remark}"));
                    table.note(format!("{}, {number} {noun}: {remark}", choice.name()));
                }
                table.keep(&self.output)?;
            }
        }
        table.finish(&self.output, out)
    }
}

/// Place of the contents.
#[derive(Debug)]
enum SiteStore {
    Volume { devices: String },
    Folder { path: PathBuf },
}

/// See the module.
#[derive(Debug)]
pub(super) struct StoreSite {
    store: SiteStore,
    disks: Vec<LabDisk>,
    /// The server's: the disks' profiles are kept in it.
    state: TempDir,
    /// Holds the folder, if it is on no emulated disk.
    _folder: Option<TempDir>,
}

/// The part of `isocast volume ls --json` that is read.
#[derive(Deserialize)]
struct ListedContent {
    runs: u64,
}

/// The part of `isocast volume status --json` that is read.
#[derive(Deserialize)]
struct VolumeRoom {
    free_bytes: u64,
}

impl StoreSite {
    /// A volume over `disks`.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn volume(disks: Vec<LabDisk>, layout: &str) -> anyhow::Result<Self> {
        let state = scratch::folder()?;
        let mut site = Self { store: SiteStore::Volume { devices: String::new() }, disks, state, _folder: None };
        let count = site.disks.len();
        site.make_volume(layout, count)?;
        Ok(site)
    }

    /// Makes a new volume over the first `count` of the disks; their previous data is lost.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn make_volume(&mut self, layout: &str, count: usize) -> anyhow::Result<()> {
        let devices: Vec<String> =
            self.disks.iter().take(count).map(|disk| disk.device.display().to_string()).collect();
        let unit = format!("{}B", UNIT.0);
        let mut words =
            vec!["volume", "create", "--name", VOLUME_NAME, "--layout", layout, "--unit", &unit, "--yes", "--force"];
        words.extend(devices.iter().map(String::as_str));
        child::isocast(&words)?;
        self.store = SiteStore::Volume { devices: devices.join(",") };
        Ok(())
    }

    /// A folder on the file system of the first of `disks`.
    ///
    /// # Errors
    /// It has none, or cannot be written.
    pub(super) fn folder(disks: Vec<LabDisk>) -> anyhow::Result<Self> {
        let disk = disks.first().context("a folder lies on a disk")?;
        let path = disk.mount()?.join("contents");
        Self::folder_at(path, disks, None)
    }

    /// A new folder at `path`, on one of `disks` or in `folder`.
    fn folder_at(path: PathBuf, disks: Vec<LabDisk>, folder: Option<TempDir>) -> anyhow::Result<Self> {
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self { store: SiteStore::Folder { path }, disks, state: scratch::folder()?, _folder: folder })
    }

    /// The first disk's name, if it is an emulated one.
    pub(super) fn disk(&self) -> Option<&str> {
        self.disks.first().map(|disk| disk.name.as_str())
    }

    /// The folder; a volume has none.
    pub(super) fn root(&self) -> Option<&Path> {
        match &self.store {
            SiteStore::Volume { .. } => None,
            SiteStore::Folder { path } => Some(path),
        }
    }

    /// Folders and arguments of a server of this store; `more` are further arguments for it.
    pub(super) fn ground(&self, rate: BitRate, more: &[String]) -> ServerGround {
        let mut ground = ServerGround {
            serve_args: more.to_vec(),
            rates: vec![rate],
            state: Some(self.state.path().to_owned()),
            ..ServerGround::default()
        };
        match &self.store {
            SiteStore::Volume { devices } => ground.serve_args.extend(["--volume".to_owned(), devices.clone()]),
            SiteStore::Folder { path } => ground.roots.push(path.clone()),
        }
        ground
    }

    /// Room is given in pieces of this.
    pub(super) fn grain(&self) -> u64 {
        match self.store {
            SiteStore::Volume { .. } => UNIT.0,
            SiteStore::Folder { .. } => 4096,
        }
    }

    /// All disks take their drives' time from now on, or none.
    ///
    /// # Errors
    /// A disk does not answer.
    pub(super) fn set_timing(&self, timing: DiskTiming) -> anyhow::Result<()> {
        self.disks.iter().try_for_each(|disk| lab_disk::set_timing(&disk.name, timing))
    }

    /// Drops the data in the drives' buffers.
    ///
    /// # Errors
    /// A disk does not answer.
    pub(super) fn drop_buffers(&self) -> anyhow::Result<()> {
        self.disks.iter().try_for_each(|disk| lab_disk::reset(&disk.name))
    }

    /// Runs `job` against a server of it.
    ///
    /// # Errors
    /// Those of the job; the server cannot be started, or did not end well.
    pub(super) fn serve<T>(
        &self,
        more: &[String],
        stop: &Stop,
        job: impl FnOnce(&RunningServer) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        stop.check()?;
        let ground = self.ground(BitRate(1), more);
        let server = RunningServer::start(&Choice::Isocast, &ground, stop)?;
        let result = job(&server);
        server.end()?;
        result
    }

    /// Runs `job` for `span` against `choice`, a server of it, and counts the costs.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub(super) fn measured<T>(
        &self,
        choice: &Choice,
        ground: &ServerGround,
        span: Nanos,
        stop: &Stop,
        job: impl FnOnce(&RunningServer) -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, StoreCost)> {
        stop.check()?;
        let server = RunningServer::start(choice, ground, stop)?;
        self.drop_buffers()?;
        let counted = CountedNames { server: server.pid, ..CountedNames::default() };
        let before = counted.read().server_cpu_ns;
        let result = job(&server);
        let cpu = counted.read().server_cpu_ns.zip(before).map(|(after, before)| real(after.saturating_sub(before)));
        let disk = self.disk().map(lab_disk::statistics).transpose()?;
        server.end()?;
        stop.check()?;
        let cpu_percent = cpu.map(|cpu| cpu * 100.0 / real(span.0));
        Ok((result?, StoreCost { disk: disk.as_ref().map(LabFigures::of), cpu_percent }))
    }

    /// Bytes that the store offers to contents now.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn free_bytes(&self) -> anyhow::Result<u64> {
        match &self.store {
            SiteStore::Volume { devices } => {
                let status = child::isocast(&["volume", "status", "--json", devices])?;
                let status: VolumeRoom = serde_json::from_str(&status).context("reading `isocast volume status`")?;
                Ok(status.free_bytes)
            }
            SiteStore::Folder { path } => {
                let space =
                    rustix::fs::statvfs(path).with_context(|| format!("asking for room in {}", path.display()))?;
                Ok(space.f_bavail.saturating_mul(space.f_frsize))
            }
        }
    }

    /// In how many runs the contents lie: extents that follow each other on their disk are one.
    ///
    /// # Errors
    /// A content is not there, or the file system does not say.
    pub(super) fn runs(&self, contents: &[KeptContent]) -> anyhow::Result<u64> {
        match &self.store {
            SiteStore::Volume { devices } => {
                let listed: Vec<ListedContent> =
                    serde_json::from_str(&child::isocast(&["volume", "ls", "--json", devices])?)?;
                if listed.len() != contents.len() {
                    bail!("the volume lists {} contents of {}", listed.len(), contents.len());
                }
                Ok(listed.iter().map(|content| content.runs).sum())
            }
            SiteStore::Folder { path } => contents.iter().map(|content| runs_of_file(&path.join(&content.name))).sum(),
        }
    }
}

fn runs_of_file(path: &Path) -> anyhow::Result<u64> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let extents = kernel::fiemap::extents(file.as_fd()).context("asking where a file lies")?;
    let mut end = None;
    let begins_one = |extent: &&kernel::fiemap::RawExtent| {
        let before = end.replace(extent.physical + extent.length);
        before != Some(extent.physical)
    };
    Ok(extents.iter().filter(begins_one).count() as u64)
}
