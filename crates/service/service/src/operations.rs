//! Operations on jobs, webhooks, certificates and settings, for front ends.
//!
//! Not here: running jobs and webhooks (the crate `automation`; the server passes an object for that).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use api::{CertificateStatus, Forecast, JobStatus, Removals, SettingEntry, SettingsPatch, WebhookStatus};
use bytes::Bytes;
use tokio::sync::oneshot;
use units::{ByteCount, Nanos};

use crate::access::{Permit, ToAdminister, ToObserve, ToRead};
use crate::client::Client;
pub use crate::client::Requester;
use crate::contents::ContentPath;
use crate::lock::lock;

/// Reason why a job is not begun or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// No job has this name.
    #[error("there is no job of this name; /api/v1/jobs lists those there are")]
    Unknown,
    /// The job runs already.
    #[error("it runs already")]
    Runs,
    /// The job does not run.
    #[error("it does not run")]
    RunsNot,
    /// Only `keep` jobs remove contents.
    #[error("this job is no `keep` job, so it removes nothing")]
    RemovesNot,
    /// No quota of this folder removes contents.
    #[error(
        "there is no quota of this folder that overwrites the oldest contents; /api/v1/quotas lists those there are"
    )]
    NoRing,
    /// Another dry run is under way: there is one at a time, since each reads a folder.
    #[error("another dry run is under way; try again when it is over")]
    LooksAlready,
    /// The server drains.
    #[error("the server is about to stop")]
    Stopping,
}

/// The settings in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsInForce {
    /// A strong entity tag of the settings, with its quotes.
    pub tag: String,
    /// All settings, by key.
    pub settings: Vec<SettingEntry>,
}

/// A change of settings.
pub struct SettingsChange {
    /// The new values.
    pub values: SettingsPatch,
    /// Predicate on the present tag: true if these settings may be changed.
    pub applies_to: Box<dyn Fn(&str) -> bool + Send>,
}

/// Reason why settings are not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The settings have changed since the client read them.
    #[error("the settings were changed since: read them again")]
    Outdated,
    /// This setting can be changed in the file only.
    #[error("`{0}` is not changed here: write it into the configuration file")]
    NotHere(String),
    /// An option or variable that overrides the file sets it.
    #[error("`{0}` is set by {1}, which goes before the configuration file: change it there")]
    SetBy(String, String),
    /// The keys are in several files.
    #[error("these keys stand in several files; change those of one at a time: {0}")]
    SeveralFiles(String),
    /// There is no configuration file.
    #[error("the server was started without a configuration file (`--config`), so that nothing could be kept")]
    NoFile,
    /// The result would not be a valid configuration.
    #[error("{0}")]
    Invalid(String),
    /// The file cannot be read or written.
    #[error("nothing was changed: {0}")]
    File(String),
    /// Too many requests wait, or the server is about to stop.
    #[error("too many requests for settings are under way, or the server is about to stop")]
    Busy,
}

/// Settings that are looked up or changed.
pub type PendingSettings = oneshot::Receiver<Result<SettingsInForce, SettingsError>>;

/// A thumbnail that is being made.
pub type PendingThumbnail = oneshot::Receiver<Option<Bytes>>;

/// The rule of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalRule {
    /// The rule of a configured `keep` job.
    Job(String),
    /// The rule of a configured ring (a quota that overwrites the oldest contents), by its folder.
    Quota(String),
    /// This rule, which need not be configured.
    Limits(RemovalLimits),
}

/// The limits of a `keep` job for a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalLimits {
    /// The folder.
    pub folder: ContentPath,
    /// Older contents are removed.
    pub max_age: Option<Nanos>,
    /// The oldest contents are removed until at most this is left.
    pub max_size: Option<ByteCount>,
    /// Younger contents stay in any case.
    pub min_age: Nanos,
    /// These paths stay, with everything below them.
    pub protected: Vec<ContentPath>,
}

impl RemovalLimits {
    /// Default of `min_age`: an upload of the last hour may still be in use.
    pub const MIN_AGE: Nanos = Nanos::from_secs(3600);

    /// The key that contradicts the others, with the reason.
    #[must_use]
    pub fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        match self.max_age {
            None if self.max_size.is_none() => {
                Some(("max_age", "one of `max_age` and `max_size` is needed, else nothing would ever go"))
            }
            Some(max_age) if max_age < self.min_age => Some((
                "max_age",
                "it is shorter than `min_age`, `1h` where that is not written: no content would go at that age; write a shorter `min_age`",
            )),
            _ => None,
        }
    }
}

/// Port to jobs, webhooks, certificates and settings. The threads of connections call it, so no call may block.
pub trait Operations: Send + Sync + 'static {
    /// All jobs.
    fn jobs(&self) -> Vec<JobStatus>;

    /// Begins a job now.
    ///
    /// # Errors
    /// There is none of this name, or it runs.
    fn run_job(&self, name: &str, by: Requester<'_>) -> Result<(), JobError>;

    /// Tells a job's run to end.
    ///
    /// # Errors
    /// There is none of this name, or it does not run.
    fn stop_job(&self, name: &str, by: Requester<'_>) -> Result<(), JobError>;

    /// Begins a dry run, which finds the contents that would be removed now. If the folder cannot be read, the answer has an
    /// error text.
    ///
    /// # Errors
    /// There is no such job or ring, or another look is under way.
    fn removals(&self, rule: RemovalRule) -> Result<oneshot::Receiver<Result<Removals, String>>, JobError>;

    /// All webhooks.
    fn webhooks(&self) -> Vec<WebhookStatus>;

    /// The thumbnail of a content, once it is made: a JPEG; none where it has none, or too many wait.
    fn thumbnail(&self, permit: Permit<ToRead>, client: Client) -> PendingThumbnail;

    /// Sends a webhook an event that says that it is a test. False: there is none of this name.
    fn test_webhook(&self, name: &str) -> bool;

    /// The certificates that serve TLS.
    fn certificates(&self) -> Vec<CertificateStatus>;

    /// Looks settings up, or changes them first: in the configuration file, and in force.
    ///
    /// # Errors
    /// Too much waits.
    fn settings(&self, change: Option<SettingsChange>) -> Result<PendingSettings, SettingsError>;
}

/// The operations once the server has started them, and the forecasts that it makes. They have the service, and not the other way round.
#[derive(Default)]
pub struct StartedOperations {
    started: OnceLock<Weak<dyn Operations>>,
    /// The latest forecasts of the times at which disks, volumes and quotas become full.
    forecasts: Mutex<Vec<Forecast>>,
}

impl StartedOperations {
    /// Sets the object that performs the operations, while it exists. Only the first call has an effect.
    pub fn begin(&self, operations: &Arc<dyn Operations>) {
        let _ = self.started.set(Arc::downgrade(operations));
    }

    fn get(&self) -> Option<Arc<dyn Operations>> {
        self.started.get()?.upgrade()
    }

    /// All jobs.
    #[must_use]
    pub fn jobs(&self, _permit: &Permit<ToObserve>) -> Vec<JobStatus> {
        self.get().map_or_else(Vec::new, |operations| operations.jobs())
    }

    /// All webhooks.
    #[must_use]
    pub fn webhooks(&self, _permit: &Permit<ToObserve>) -> Vec<WebhookStatus> {
        self.get().map_or_else(Vec::new, |operations| operations.webhooks())
    }

    /// The certificates that serve TLS.
    #[must_use]
    pub fn certificates(&self, _permit: &Permit<ToObserve>) -> Vec<CertificateStatus> {
        self.get().map_or_else(Vec::new, |operations| operations.certificates())
    }

    /// The time at which each disk, volume and quota becomes full at its present rate; at most a minute old.
    #[must_use]
    pub fn forecasts(&self, _permit: &Permit<ToObserve>) -> Vec<Forecast> {
        lock(&self.forecasts).clone()
    }

    /// Sets the forecasts.
    pub fn show_forecasts(&self, forecasts: Vec<Forecast>) {
        *lock(&self.forecasts) = forecasts;
    }

    /// Begins a job now. The event log gets the client and the permit's user.
    ///
    /// # Errors
    /// There is none of this name, or it runs.
    pub fn run_job(&self, name: &str, address: IpAddr, permit: &Permit<ToAdminister>) -> Result<(), JobError> {
        self.get().ok_or(JobError::Unknown)?.run_job(name, Requester { address, user: permit.user() })
    }

    /// Ends a job's run. The event log gets the client and the permit's user.
    ///
    /// # Errors
    /// There is none of this name, or it does not run.
    pub fn stop_job(&self, name: &str, address: IpAddr, permit: &Permit<ToAdminister>) -> Result<(), JobError> {
        self.get().ok_or(JobError::Unknown)?.stop_job(name, Requester { address, user: permit.user() })
    }

    /// The contents that a `keep` job or a ring would remove now; none of them is removed.
    ///
    /// # Errors
    /// There is no such job or ring, or another look is under way; in words, the folder cannot be looked through.
    pub async fn removals(
        &self,
        rule: RemovalRule,
        _permit: &Permit<ToObserve>,
    ) -> Result<Result<Removals, String>, JobError> {
        self.get().ok_or(JobError::Unknown)?.removals(rule)?.await.map_err(|_| JobError::Stopping)
    }

    /// Sends a webhook an event that says that it is a test. False: there is none of this name.
    pub fn test_webhook(&self, name: &str, _permit: &Permit<ToAdminister>) -> bool {
        self.get().is_some_and(|operations| operations.test_webhook(name))
    }

    /// The thumbnail of the permit's content, a JPEG; `None` if it has none, or too many requests wait.
    pub async fn thumbnail(&self, permit: Permit<ToRead>, client: Client) -> Option<Bytes> {
        self.get()?.thumbnail(permit, client).await.ok().flatten()
    }

    /// The settings in force, after the requested change.
    ///
    /// # Errors
    /// The settings are not changed, or cannot be read now.
    pub async fn settings(
        &self,
        change: Option<SettingsChange>,
        _permit: &Permit<ToAdminister>,
    ) -> Result<SettingsInForce, SettingsError> {
        let pending = self.get().ok_or(SettingsError::Busy)?.settings(change)?;
        pending.await.unwrap_or(Err(SettingsError::Busy))
    }
}
