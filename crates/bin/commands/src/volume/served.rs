//! Requests to the server of a volume, which does the upkeep while streams run.
//!
//! Promise: a volume that a running server holds is changed by that server only. Not here: the upkeep itself (the crate `volumes`).

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::{Disk, UpkeepStatus, VolumeStatus};
use clap::Args;
use client::{Login, Remote, ServerApi};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use volumes::is_same_disk;

use super::DiskNames;
use super::disks::{is_held, stays_held};
use super::progress::ProgressLine;

/// Time between two queries of an upkeep's progress.
const PERIOD: Duration = Duration::from_millis(500);

/// The server that may hold the disks.
#[derive(Debug, Args)]
pub(super) struct VolumeServer {
    /// The server that receives the request if the disks are in use.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// A file that holds `name:password`, for that server.
    #[arg(long, value_name = "FILE")]
    login: Option<PathBuf>,
}

/// The disks of a volume, and the server that may hold them.
#[derive(Debug, Args)]
pub(super) struct ServedDisks {
    #[command(flatten)]
    pub(super) server: VolumeServer,
    #[command(flatten)]
    pub(super) names: DiskNames,
}

impl ServedDisks {
    pub(super) fn all(&self) -> &[PathBuf] {
        self.names.all()
    }

    /// As [`VolumeServer::serving`], for all disks.
    pub(super) fn serving(&self) -> anyhow::Result<Option<VolumeOfServer>> {
        self.server.serving(self.all())
    }
}

/// A volume that is served.
pub(super) struct VolumeOfServer {
    server: ServerApi,
    login: Option<Login>,
    pub(super) status: VolumeStatus,
}

impl VolumeServer {
    /// The volume of these disks on the server; none if no disk is in use.
    ///
    /// # Errors
    /// A disk is in use, and the server does not answer or has another volume.
    pub(super) fn serving(&self, disks: &[PathBuf]) -> anyhow::Result<Option<VolumeOfServer>> {
        let Some(held) = disks.iter().find(|disk| is_held(disk)) else { return Ok(None) };
        let login = self.login()?;
        let server = ServerApi::new(&self.url, login.clone());
        let asked =
            || format!("{} is in use, and {} was asked for it (`--url` names the server)", held.display(), self.url);
        let volumes = server.read::<Vec<VolumeStatus>>("volumes").with_context(asked);
        let of_it = |volume: &VolumeStatus| number_in(volume, held).is_some();
        let status = volumes.and_then(|volumes| {
            let status = volumes.into_iter().find(of_it);
            status.with_context(|| format!("{} is in use, but not by {}", held.display(), self.url))
        });
        // A server that is ending stops answering a little before it releases its disks.
        match status {
            Ok(status) => Ok(Some(VolumeOfServer { server, login, status })),
            Err(_) if !disks.iter().any(|disk| stays_held(disk)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file with the account and password for the server.
    pub(super) fn login_file(&self) -> Option<&Path> {
        self.login.as_deref()
    }

    /// Account and password for the server, read from their file.
    fn login(&self) -> anyhow::Result<Option<Login>> {
        self.login.as_deref().map(Login::read).transpose()
    }
}

/// The number of a disk in a volume.
fn number_in(volume: &VolumeStatus, disk: &Path) -> Option<usize> {
    volume.disks.iter().position(|known| known.path.as_ref().is_some_and(|path| is_same_disk(Path::new(path), disk)))
}

impl VolumeOfServer {
    /// The number of a disk in the volume.
    ///
    /// # Errors
    /// The disk is not one of the volume's.
    pub(super) fn number_of(&self, disk: &Path) -> anyhow::Result<usize> {
        let name = &self.status.name;
        number_in(&self.status, disk).with_context(|| format!("{} is no disk of the volume `{name}`", disk.display()))
    }

    /// The volume's contents at the server.
    ///
    /// # Errors
    /// The server serves other folders or volumes in the same namespace.
    pub(super) fn media(&self) -> anyhow::Result<Remote> {
        let disks: Vec<Disk> = self.server.read("disks")?;
        let is_its = |folder: &String| number_in(&self.status, Path::new(folder)).is_some();
        let other = disks.iter().flat_map(|disk| &disk.folders).find(|folder| !is_its(folder));
        let (name, url) = (&self.status.name, format!("{}/media", self.server.url()));
        if let Some(other) = other {
            bail!(
                "the server of the volume `{name}` serves {other} beside it, as one: say {url}/ instead of the disks \
                 (`isocast cp`, `isocast volume mount`)"
            );
        }
        Remote::new(&url, self.login.as_ref())
    }

    /// The paths of the volume's disks, as the server names them.
    pub(super) fn disks(&self) -> Vec<PathBuf> {
        let disks = self.status.disks.iter().filter(|disk| disk.state != "left");
        disks.filter_map(|disk| disk.path.clone()).map(PathBuf::from).collect()
    }

    /// The volume with its present status.
    pub(super) fn now(&self) -> anyhow::Result<Self> {
        let volumes: Vec<VolumeStatus> = self.server.read("volumes")?;
        let status = volumes.into_iter().find(|volume| volume.name == self.status.name);
        let status =
            status.with_context(|| format!("{} has no volume `{}` any more", self.server.url(), self.status.name))?;
        Ok(Self { server: self.server.clone(), login: self.login.clone(), status })
    }

    /// Requests an upkeep of the volume; if `waits`, returns the upkeep's status at its end.
    ///
    /// # Errors
    /// The server's refusal, or the error of the upkeep.
    pub(super) fn ask(&self, what: &str, waits: bool, progress: &'static str) -> anyhow::Result<Option<UpkeepStatus>> {
        let name = utf8_percent_encode(&self.status.name, NON_ALPHANUMERIC);
        self.server.order(&format!("volumes/{name}/{what}"))?;
        if !waits {
            return Ok(None);
        }
        let mut line = ProgressLine::new(progress);
        loop {
            let volume = self.now()?.status;
            match (volume.upkeep, volume.last_upkeep) {
                (Some(upkeep), _) => line.show(upkeep.seen_bytes, upkeep.total_bytes),
                (None, Some(UpkeepStatus { error: Some(error), .. })) => bail!("{error}"),
                (None, ended) => return Ok(Some(ended.context("the server was restarted meanwhile")?)),
            }
            thread::sleep(PERIOD);
        }
    }
}
