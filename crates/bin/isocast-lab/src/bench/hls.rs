//! `bench hls`: number of HLS viewers served with constant streams, and the server's treatment of one viewer too many.

use std::fs;
use std::io::Write;

use anyhow::{Context, bail};
use clap::Args;
use units::{BitRate, Nanos};

use super::args::ExperimentArgs;
use super::client::crowd::{Crowd, VIEWERS_MAX};
use super::experiment::RunRequest;
use super::report::ExperimentKind;
use super::session::Session;
use super::{Stop, network, scratch};

/// Segments made, four minutes of four seconds each: they fit in any memory, and are more than one viewer's window.
const SEGMENTS: usize = 60;

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct HlsCommand {
    #[command(flatten)]
    common: ExperimentArgs,
    /// Numbers of HLS viewers to measure; 0 shows the streams without them.
    #[arg(long, value_delimiter = ',', default_value = "0,1000,2000,4000")]
    viewers: Vec<usize>,
    /// Rate that each viewer requests.
    #[arg(long, default_value = "2M", value_parser = units::parse_rate)]
    viewer_rate: BitRate,
    /// Duration of a segment.
    #[arg(long, default_value = "4s", value_parser = units::parse_duration)]
    segment: Nanos,
    /// Concurrent constant streams.
    #[arg(long, default_value_t = 100)]
    streams: usize,
}

impl HlsCommand {
    /// Runs it.
    ///
    /// # Errors
    /// See [`super::BenchCommand::run`].
    pub(crate) fn run(self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.common.wants_network() {
            return network::run_inside(self.common.shape, stop);
        }
        let choices = self.common.choices()?;
        if let Some(viewers) = self.viewers.iter().find(|&&viewers| viewers > VIEWERS_MAX) {
            bail!(crate::wrong_usage(format_args!("{viewers} viewers: this client carries up to {VIEWERS_MAX}")));
        }
        if self.segment < Nanos::from_secs(1) || self.segment.saturating_mul(2) > self.common.duration() {
            bail!(crate::wrong_usage(format_args!(
                "--segment must be from 1s to half of --duration ({})",
                self.common.duration()
            )));
        }
        let base = self.common.job(self.streams)?;
        let root = self
            .common
            .root
            .first()
            .ok_or_else(|| crate::wrong_usage("segments are made among the contents: give --root DIR"))?;
        let folder = scratch::folder_in(root)?;
        let name = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let crowd = Crowd {
            viewers: 0,
            rate: self.viewer_rate,
            segment: self.segment,
            contents: (0..SEGMENTS).map(|n| format!("{name}/{n:03}.ts")).collect(),
        };
        let segment = vec![0; usize::try_from(crowd.segment_bytes())?];
        for content in &crowd.contents {
            fs::write(root.join(content), &segment).with_context(|| format!("writing the segment {content}"))?;
        }
        let mut session =
            Session::begin(&self.common, ExperimentKind::Hls, "HLS viewers beside constant streams", stop)?;
        for repeat in 0..self.common.repeat {
            for &viewers in &self.viewers {
                let crowd = (viewers > 0).then(|| Crowd { viewers, ..crowd.clone() });
                session.each(&choices, repeat, &RunRequest { crowd, ..base.clone() })?;
            }
        }
        session.finish(out).map(drop)
    }
}
