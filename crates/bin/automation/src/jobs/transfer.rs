//! `copy`: a folder to another Isocast, from one, or to a remote of rclone.
//!
//! Promise: as `isocast cp --resume` copies; contents of this server are read through its own schedule, at the rate that was reserved or as
//! best effort. A target that is full, gone or silent for a minute fails the run; the next one continues with the files that are missing,
//! and within the file under way where that comes from another Isocast into a folder. A run that is stopped while the other end is
//! silent is over soon; its thread moves nothing more.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use client::{Login, Remote};
use copy::{self, CopyTerms, Endpoint, MoveProgress, OwnFolder, Rclone};
use service::MediaService;
use tokio::runtime::Handle;
use tokio::sync::watch;
use units::BitRate;

use crate::job_config::CopyEnd;

/// The longest time that a run with a silent other end may still take after the order to end.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);

/// One run of a copy.
pub(super) struct Transfer {
    /// The source and the target.
    pub(super) ends: (CopyEnd, CopyEnd),
    pub(super) login: Option<PathBuf>,
    pub(super) rate: Option<BitRate>,
    pub(super) moved: Arc<MoveProgress>,
}

impl Transfer {
    /// Copies, on a thread that may wait, until it is done or `end` says so.
    ///
    /// # Errors
    /// The files that were not copied, and why.
    pub(super) async fn run(self, service: &Arc<MediaService>, mut end: watch::Receiver<bool>) -> anyhow::Result<()> {
        let (service, runtime) = (Arc::clone(service), Handle::current());
        let copying = tokio::task::spawn_blocking(move || {
            let login = self.login.as_deref().map(Login::read).transpose()?;
            let end = |end: &CopyEnd| -> anyhow::Result<Endpoint> {
                Ok(match end {
                    CopyEnd::Served(path) => Endpoint::Served(OwnFolder::new(&service, path, runtime.clone())),
                    CopyEnd::Isocast(url) => Endpoint::There(Remote::new(url, login.as_ref())?),
                    CopyEnd::Rclone(remote) => Endpoint::Rclone(Rclone::new(remote)?),
                })
            };
            let terms = CopyTerms { rate: self.rate, resume: true, verify: false };
            copy::copy(end(&self.ends.0)?, end(&self.ends.1)?, terms, &self.moved)
                .and_then(|summary| summary.check())
                .with_context(|| format!("{} to {}", shown(&self.ends.0), shown(&self.ends.1)))
        });
        let waits_no_longer = async {
            let _ = end.wait_for(|end| *end).await;
            tokio::time::sleep(STOP_TIME_MAX).await;
        };
        tokio::select! {
            done = copying => done.context("copying")?,
            () = waits_no_longer => anyhow::bail!("the other end did not answer the order to stop"),
        }
    }
}

/// The end as users read it: all that is served is `/`.
fn shown(end: &CopyEnd) -> String {
    match end {
        CopyEnd::Served(path) => path.to_string(),
        other => other.to_string(),
    }
}
