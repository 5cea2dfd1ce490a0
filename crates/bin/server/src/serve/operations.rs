//! Jobs, webhooks, certificates, settings and the SNMP subagent; all but the last as front ends show and steer them.

use std::sync::Arc;

use api::{CertificateStatus, JobStatus, Removals, WebhookStatus};
use automation::{Jobs, Thumbnails, Webhooks};
use service::access::{Permit, ToRead};
use service::delivery::Client;
use service::events::unix_seconds;
use service::operations::{
    JobError, Operations, PendingSettings, PendingThumbnail, RemovalRule, Requester, SettingsChange, SettingsError,
};
use snmp::Snmp;
use tls::{CertificateState, Certificates};
use tokio::sync::oneshot;

use super::settings::SettingsDesk;

/// Work that the server does by itself.
pub(super) struct ServerOperations {
    pub(super) jobs: Arc<Jobs>,
    pub(super) webhooks: Arc<Webhooks>,
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) thumbnails: Arc<Thumbnails>,
    pub(super) snmp: Snmp,
    pub(super) settings: SettingsDesk,
}

impl Operations for ServerOperations {
    fn jobs(&self) -> Vec<JobStatus> {
        self.jobs.statuses()
    }

    fn run_job(&self, name: &str, by: Requester<'_>) -> Result<(), JobError> {
        self.jobs.run_now(name, by)
    }

    fn stop_job(&self, name: &str, by: Requester<'_>) -> Result<(), JobError> {
        self.jobs.stop(name, by)
    }

    fn removals(&self, rule: RemovalRule) -> Result<oneshot::Receiver<Result<Removals, String>>, JobError> {
        self.jobs.removals(rule)
    }

    fn webhooks(&self) -> Vec<WebhookStatus> {
        self.webhooks.statuses()
    }

    fn thumbnail(&self, permit: Permit<ToRead>, client: Client) -> PendingThumbnail {
        let (answer, pending) = oneshot::channel();
        let thumbnails = Arc::clone(&self.thumbnails);
        // It is made to its end, and kept, also if the client leaves.
        tokio::spawn(async move { answer.send(thumbnails.of(&permit, client).await) });
        pending
    }

    fn test_webhook(&self, name: &str) -> bool {
        self.webhooks.test(name)
    }

    fn certificates(&self) -> Vec<CertificateStatus> {
        let states = self.certificates.as_ref().map_or_else(Vec::new, |certificates| certificates.states());
        let status = |CertificateState { file, names, expires, problem }| CertificateStatus {
            file: file.display().to_string(),
            names,
            expires: unix_seconds(expires),
            problem,
        };
        states.into_iter().map(status).collect()
    }

    fn settings(&self, change: Option<SettingsChange>) -> Result<PendingSettings, SettingsError> {
        self.settings.ask(change)
    }
}
