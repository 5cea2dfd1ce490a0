//! `bench recorder`: number of cameras recorded with viewers on one disk, and the cost for either.
//!
//! Our server records the cameras' bodies; with nginx, plain writers write the same through the page cache. The disk is an emulated one
//! where no `--root` is given. Not here: the cameras (`cameras`), uploads without a rate (`jitter`).

use std::io::Write;

use anyhow::bail;
use clap::Args;
use units::{BitRate, Nanos};

use super::args::{ExperimentArgs, OwnServer, STARTS_PER_SECOND};
use super::cameras::{CAMERAS_MAX, Cameras};
use super::experiment::RunRequest;
use super::lab_disk::LabDisk;
use super::report::ExperimentKind;
use super::server::Choice;
use super::session::Session;
use super::{Stop, network, scratch};

const CAMERA_RATE: BitRate = BitRate(4_000_000);
const DURATION: Nanos = Nanos::from_secs(60);
/// Viewers that get their first bytes from a cold disk in a second.
const STARTS: u64 = 4;
/// The best read-ahead of those tried for nginx.
const PEER_READ_AHEAD_KIB: u64 = 2048;
const CONTENT_SIZE: &str = "256MiB";

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecorderCommand {
    #[command(flatten)]
    common: ExperimentArgs,
    /// Numbers of cameras to measure; their rate is --rate.
    #[arg(long, value_delimiter = ',', default_value = "32,64,96,128")]
    cameras: Vec<usize>,
    /// Vary the cameras' rate: three times the mean in one second of ten.
    #[arg(long)]
    vary: bool,
    /// Concurrent viewers.
    #[arg(long, default_value_t = 40)]
    viewers: usize,
    /// Rate that each viewer requests.
    #[arg(long, default_value = "8.8M", value_parser = units::parse_rate)]
    viewer_rate: BitRate,
    /// Drive to emulate where no --root is given.
    #[arg(long, value_name = "PROFILE", default_value = "desktop")]
    profile: String,
}

impl RecorderCommand {
    /// Runs it.
    ///
    /// # Errors
    /// See [`super::BenchCommand::run`].
    pub(crate) fn run(mut self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.common.wants_network() {
            return network::run_inside(self.common.shape, stop);
        }
        if let Some(count) = self.cameras.iter().find(|count| !(1..=CAMERAS_MAX).contains(*count)) {
            bail!(crate::wrong_usage(format_args!("{count} cameras: this client feeds 1 to {CAMERAS_MAX}")));
        }
        let rate = self.common.rate.replace(self.viewer_rate).unwrap_or(CAMERA_RATE);
        let _disk = self.fill_in()?;
        let base = RunRequest { streams: self.viewers, ..self.common.job(self.viewers.max(1))? };
        let root = self
            .common
            .root
            .first()
            .ok_or_else(|| crate::wrong_usage("recordings lie among the contents: give --root DIR"))?;
        let folder = scratch::among_contents(root)?;
        let mut session = Session::begin(&self.common, ExperimentKind::Recorder, "Cameras beside viewers", stop)?;
        for repeat in 0..self.common.repeat {
            for &count in &self.cameras {
                for choice in self.common.choices()? {
                    let files = matches!(choice, Choice::Nginx { .. }).then(|| folder.path().to_owned());
                    let cameras = Cameras { count, rate, varies: self.vary, files };
                    let seed = base.seed + u64::from(repeat);
                    session.one(&choice, &RunRequest { seed, cameras: Some(cameras), ..base.clone() })?;
                }
            }
        }
        session.finish(out).map(drop)
    }

    /// Fills in this experiment's defaults; returns the disk it makes where there is no place for contents.
    fn fill_in(&mut self) -> anyhow::Result<Option<LabDisk>> {
        let common = &mut self.common;
        common.duration.get_or_insert(DURATION);
        if common.url.is_none() {
            common.server.get_or_insert(OwnServer::Isocast);
        }
        if common.starts_per_second == STARTS_PER_SECOND {
            common.starts_per_second = STARTS;
        }
        if !common.root.is_empty() {
            return Ok(None);
        }
        let name = format!("recorder-{}", std::process::id());
        let disk = LabDisk::with_films(&name, &self.profile, self.viewers.max(1), CONTENT_SIZE)?;
        (common.root, common.lab_disk, common.cold) = (vec![disk.contents()?], Some(name), true);
        common.peer_read_ahead.get_or_insert(PEER_READ_AHEAD_KIB);
        Ok(Some(disk))
    }
}
