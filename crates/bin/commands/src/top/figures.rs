//! The figures of a server at one time, as its API tells them.

use std::time::Instant;

use api::{Alarm, Disk, JobStatus, Stream, System, VolumeStatus};
use client::ServerApi;
use serde::Serialize;

/// The figures of a server at one time.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) system: System,
    pub(super) alarms: Vec<Alarm>,
    pub(super) disks: Vec<Disk>,
    pub(super) volumes: Vec<VolumeStatus>,
    pub(super) jobs: Vec<JobStatus>,
    pub(super) streams: Vec<Stream>,
    #[serde(skip)]
    pub(super) at: Instant,
}

impl Figures {
    pub(super) fn read(server: &ServerApi) -> anyhow::Result<Self> {
        Ok(Self {
            system: server.read("system")?,
            alarms: server.read("alarms")?,
            disks: server.read("disks")?,
            volumes: server.read("volumes")?,
            jobs: server.read("jobs")?,
            streams: server.read("streams")?,
            at: Instant::now(),
        })
    }
}
