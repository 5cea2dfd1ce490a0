//! Jobs, webhooks and the SNMP subagent; the first two as front ends show and steer them.

use std::sync::Arc;

use api::{JobStatus, WebhookStatus};
use automation::{Jobs, Webhooks};
use service::operations::{AskedBy, JobError, Operations};

use snmp::Snmp;

/// Work that the server does by itself.
pub(super) struct ServerOperations {
    pub(super) jobs: Arc<Jobs>,
    pub(super) webhooks: Arc<Webhooks>,
    pub(super) snmp: Snmp,
}

impl Operations for ServerOperations {
    fn jobs(&self) -> Vec<JobStatus> {
        self.jobs.statuses()
    }

    fn run_job(&self, name: &str, by: AskedBy<'_>) -> Result<(), JobError> {
        self.jobs.run_now(name, by)
    }

    fn stop_job(&self, name: &str, by: AskedBy<'_>) -> Result<(), JobError> {
        self.jobs.stop(name, by)
    }

    fn webhooks(&self) -> Vec<WebhookStatus> {
        self.webhooks.statuses()
    }
}
