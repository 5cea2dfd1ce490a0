//! `isocast volume mount`: the program `isocast-mount` in this one's place. A server does without it, and without FUSE.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use program::sibling_programs::become_program;
use units::BitRate;

use super::parse_disks;
use super::served::VolumeServer;

/// Mount contents of a server as a folder, for programs that read files. Stays until it is unmounted or stopped (a program of its own,
/// `isocast-mount`).
///
/// The source is an address of a folder (`http://HOST:PORT/media/…`), of volumes or of other folders, or the disks of a volume that a
/// server of this machine serves. Reads get the disk time left beside guaranteed streams; with `--rate` each open file is such a stream
/// itself.
#[derive(Debug, Args)]
pub(super) struct MountFolder {
    /// Guarantee each file that is read this rate, for example 15Mbit/s.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    rate: Option<BitRate>,
    /// Let other users of this machine read, too.
    #[arg(long)]
    allow_other: bool,
    #[command(flatten)]
    server: VolumeServer,
    /// The source: an address, or the disks of a volume.
    #[arg(value_name = "URL|DEV[,DEV…]")]
    source: String,
    /// The folder that becomes it.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl MountFolder {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut arguments: Vec<OsString> = Vec::new();
        arguments.extend(self.rate.map(|rate| format!("--rate={}bit/s", rate.0).into()));
        arguments.extend(self.allow_other.then(|| "--allow-other".into()));
        if let Some(login) = self.server.login_file() {
            arguments.extend(["--login".into(), login.into()]);
        }
        let url = if self.source.contains("://") { self.source } else { self.address()? };
        arguments.extend(["--".into(), url.into(), self.folder.into()]);
        become_program("isocast-mount", ["build", "install"], arguments)
    }

    /// Address at which the server of the named disks serves them.
    fn address(&self) -> anyhow::Result<String> {
        let disks = parse_disks(&self.source).map_err(anyhow::Error::msg)?;
        let served = self.server.serving(&disks.0)?;
        let served = served.with_context(|| {
            format!(
                "no server serves {}: start one (`isocast serve --volume {0}`), and its contents are mounted",
                self.source
            )
        })?;
        Ok(served.media()?.at(""))
    }
}
