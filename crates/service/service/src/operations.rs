//! Jobs, webhooks, certificates and settings, as front ends show and steer them.
//!
//! Not here: running them (crate `automation`; the server passes an object that does).

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
    /// Only `keep` jobs remove contents.
    #[error("this job is no `keep` job, so it removes nothing")]
    RemovesNot,
    /// No quota of this folder removes contents.
    #[error(
        "there is no quota of this folder that overwrites the oldest contents; /api/v1/quotas lists those there are"
    )]
    NoRing,
    /// Each dry run reads a folder: one at a time does.
    #[error("another dry run is under way; try again when it is over")]
    LooksAlready,
    /// Nothing is begun any more.
    #[error("the server is about to stop")]
    Stopping,
}

/// The settings in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsInForce {
    /// A strong entity tag, with its quotes: another one for other settings.
    pub tag: String,
    /// All of them, by key.
    pub settings: Vec<SettingEntry>,
}

/// A change of settings.
pub struct SettingsChange {
    /// The new values.
    pub values: SettingsPatch,
    /// True if the settings with this tag may be changed.
    pub applies_to: Box<dyn Fn(&str) -> bool + Send>,
}

/// Why settings are not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// They have changed since the client saw them.
    #[error("the settings were changed since: read them again")]
    Outdated,
    /// It is none that can be changed so.
    #[error("`{0}` is not changed here: write it into the configuration file")]
    NotHere(String),
    /// Something before the file sets it.
    #[error("`{0}` is set by {1}, which goes before the configuration file: change it there")]
    SetBy(String, String),
    /// The keys stand in several files.
    #[error("these keys stand in several files; change those of one at a time: {0}")]
    SeveralFiles(String),
    /// There is no file.
    #[error("the server was started without a configuration file (`--config`), so that nothing could be kept")]
    NoFile,
    /// They would be no configuration.
    #[error("{0}")]
    Invalid(String),
    /// The file cannot be read or written.
    #[error("nothing was changed: {0}")]
    File(String),
    /// Too much waits, or the server is about to stop.
    #[error("too many requests for settings are under way, or the server is about to stop")]
    Busy,
}

/// Settings that are looked up or changed.
pub type PendingSettings = oneshot::Receiver<Result<SettingsInForce, SettingsError>>;

/// A thumbnail that is being made.
pub type PendingThumbnail = oneshot::Receiver<Option<Bytes>>;

/// The rule by which a dry run looks for the contents that would go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalRule {
    /// That of a `keep` job in force.
    Job(String),
    /// That of a ring in force: a quota, by its folder, that overwrites the oldest contents.
    Quota(String),
    /// This one, which needs not be in force.
    Limits(RemovalLimits),
}

/// The limits of a folder, as a `keep` job has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalLimits {
    /// The folder.
    pub folder: ContentPath,
    /// Contents that are older go.
    pub max_age: Option<Nanos>,
    /// The oldest go until no more than this is left.
    pub max_size: Option<ByteCount>,
    /// Contents that are younger stay in any case.
    pub min_age: Nanos,
    /// So do these, and all that lies below them.
    pub protected: Vec<ContentPath>,
}

impl RemovalLimits {
    /// `min_age` of a rule that names none: an upload of the last hour may still be in use.
    pub const MIN_AGE: Nanos = Nanos::from_secs(3600);

    /// The key that contradicts the others, and the reason.
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

/// Jobs, webhooks, certificates and settings. Called on the threads of connections: nothing here waits.
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

    /// Begins to look which contents would go now; nothing is removed. The answer is an error in words if the folder cannot be looked
    /// through.
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
    /// When disks, volumes and quotas are full, as of the last look.
    forecasts: Mutex<Vec<Forecast>>,
}

impl StartedOperations {
    /// Shows and steers these from now on, for as long as they live. Has no effect the second time.
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

    /// When each disk, volume and quota is full at its present rate, as of a minute ago at most.
    #[must_use]
    pub fn forecasts(&self, _permit: &Permit<ToObserve>) -> Vec<Forecast> {
        lock(&self.forecasts).clone()
    }

    /// Shows these forecasts from now on.
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

    /// The thumbnail of the permit's content, a JPEG; none where it has none, or too many wait.
    pub async fn thumbnail(&self, permit: Permit<ToRead>, client: Client) -> Option<Bytes> {
        self.get()?.thumbnail(permit, client).await.ok().flatten()
    }

    /// The settings in force, after a change of them if there is one.
    ///
    /// # Errors
    /// They are not changed, or cannot be looked up now.
    pub async fn settings(
        &self,
        change: Option<SettingsChange>,
        _permit: &Permit<ToAdminister>,
    ) -> Result<SettingsInForce, SettingsError> {
        let pending = self.get().ok_or(SettingsError::Busy)?.settings(change)?;
        pending.await.unwrap_or(Err(SettingsError::Busy))
    }
}
