//! The figures of a server at one time, as its API tells them.

use std::time::Instant;

use api::{Alarm, Disk, JobStatus, Stream, System, VolumeStatus};
use client::{HttpClient, Login, expect};
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

/// A server that is looked at.
pub(super) struct Observed {
    client: HttpClient,
    url: String,
}

impl Observed {
    pub(super) fn new(url: &str, login: Option<Login>) -> Self {
        Self { client: HttpClient::new(login), url: url.trim_end_matches('/').to_owned() }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn figures(&self) -> anyhow::Result<Figures> {
        let url = |what: &str| format!("{}/api/v1/{what}", self.url);
        Ok(Figures {
            system: self.client.json(&url("system"))?,
            alarms: self.client.json(&url("alarms"))?,
            disks: self.client.json(&url("disks"))?,
            volumes: self.client.json(&url("volumes"))?,
            jobs: self.client.json(&url("jobs"))?,
            streams: self.client.json(&url("streams"))?,
            at: Instant::now(),
        })
    }

    /// Asks for the end of a stream.
    pub(super) fn stop(&self, id: u64) -> anyhow::Result<()> {
        let answer = self.client.ask("POST", &format!("{}/api/v1/streams/{id}/stop", self.url), &[])?;
        expect(answer, &[202]).map(drop)
    }
}
