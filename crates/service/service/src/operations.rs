//! Jobs, webhooks and certificates, as front ends show and steer them.
//!
//! Not here: running them (crate `automation`; the server passes an object that does).

use std::net::IpAddr;

use api::{CertificateStatus, JobStatus, WebhookStatus};

/// The client that steers a job, for the event log.
#[derive(Debug, Clone, Copy)]
pub struct AskedBy<'a> {
    /// The client's address.
    pub address: IpAddr,
    /// The user's name, if users are configured.
    pub user: Option<&'a str>,
}

/// Why a job is not begun or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// There is none of this name.
    #[error("there is no job of this name; /api/v1/jobs lists those there are")]
    Unknown,
    /// It cannot be begun twice.
    #[error("it runs already")]
    Runs,
    /// It cannot be stopped.
    #[error("it does not run")]
    RunsNot,
    /// Nothing is begun any more.
    #[error("the server is about to stop")]
    Stopping,
}

/// Jobs, webhooks and certificates. Called on the threads of connections: nothing here waits.
pub trait Operations: Send + Sync + 'static {
    /// All jobs.
    fn jobs(&self) -> Vec<JobStatus>;

    /// Begins a job now.
    ///
    /// # Errors
    /// There is none of this name, or it runs.
    fn run_job(&self, name: &str, by: AskedBy<'_>) -> Result<(), JobError>;

    /// Tells a job's run to end.
    ///
    /// # Errors
    /// There is none of this name, or it does not run.
    fn stop_job(&self, name: &str, by: AskedBy<'_>) -> Result<(), JobError>;

    /// All webhooks.
    fn webhooks(&self) -> Vec<WebhookStatus>;

    /// The certificates that serve TLS.
    fn certificates(&self) -> Vec<CertificateStatus>;
}
