//! Jobs and webhooks of the configuration.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A job of the configuration (`GET /api/v1/jobs`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobStatus {
    /// Its name.
    pub name: String,
    /// `keep`, `copy`, `scrub`, `measure` or `command`.
    pub kind: String,
    /// Its schedule, as in the configuration.
    pub schedule: String,
    /// Its time zone; null: the machine's.
    pub time_zone: Option<String>,
    /// Time of its next run, seconds since 1970; null: never.
    pub next: Option<f64>,
    /// The run under way.
    pub running: Option<JobProgress>,
    /// The last run that ended.
    pub last: Option<JobRun>,
    /// The end of the last run that succeeded, seconds since 1970.
    pub last_success: Option<f64>,
    /// When it was due first after its last success, seconds since 1970: one that is over has no success since.
    pub due: Option<f64>,
    /// Runs that succeeded since the start of the server.
    pub succeeded: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that were stopped.
    pub stopped: u64,
    /// Runs that did not begin at their time and were not made up for.
    pub missed: u64,
}

/// A job's run under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobProgress {
    /// When it began, seconds since 1970.
    pub started: f64,
    /// Bytes copied, removed or read so far.
    pub bytes: u64,
    /// Bytes that it will have copied or read; zero where that is not known.
    pub bytes_total: u64,
    /// True once it got the order to stop.
    pub stopping: bool,
}

/// A run of a job that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobRun {
    /// When it began, seconds since 1970.
    pub started: f64,
    /// How long it took.
    pub seconds: f64,
    /// How it came out.
    pub outcome: JobOutcome,
    /// Why it failed, in words.
    pub reason: Option<String>,
    /// Files copied, contents removed or read.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// How a run of a job came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum JobOutcome {
    /// All was done.
    Succeeded,
    /// Not all was done.
    Failed,
    /// Stopped on a client's request, or by the end of the server.
    Stopped,
}

/// A webhook of the configuration (`GET /api/v1/webhooks`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookStatus {
    /// Its name.
    pub name: String,
    /// Events that wait to be sent.
    pub waiting: u64,
    /// Events that it accepted.
    pub delivered: u64,
    /// Tries that failed.
    pub retried: u64,
    /// Events that it did not accept in any of the tries.
    pub failed: u64,
    /// Events that were dropped because too many waited.
    pub dropped: u64,
    /// The target answered 410: it gets no more events until the configuration is read again.
    pub ended: bool,
    /// Reason why the last attempt failed; null if it did not.
    pub error: Option<String>,
}
