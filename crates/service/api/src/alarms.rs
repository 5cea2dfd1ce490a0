//! Alarms, quotas, forecasts of room, and the removals that make room.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A thing that is wrong now and lasts (`GET /api/v1/alarms`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alarm {
    /// How much it matters.
    pub severity: AlarmSeverity,
    /// `volume_disk`, `volume_missing`, `volume_damaged`, `volume_scrub`, `disk_failing`, `disk_assumed`, `folder_away`, `quota_full`, `full_soon`,
    /// `job_failed`, `webhook_waiting`, `webhook_ended`, `certificate_expired`, `certificate_expires`, `certificate_refused` or
    /// `configuration_refused`.
    pub kind: String,
    /// The name of the volume, disk, folder, job or webhook, the certificate's file, or `configuration`.
    pub about: String,
    /// Its state, and the next step.
    pub text: String,
    /// The effect of its cause.
    pub why: String,
    /// The command that shows or mends it.
    pub remedy: String,
}

/// How much an alarm matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlarmSeverity {
    /// Contents, copies or streams are lost, or a task is not done.
    Serious,
    /// It will be, or less is carried than could be.
    Advice,
}

/// A quota and its use (`GET /api/v1/quotas`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaStatus {
    /// The folder that is limited.
    pub folder: String,
    /// Bytes that it may hold.
    pub max_bytes: u64,
    /// Bytes stored and coming.
    pub used_bytes: u64,
    /// Of these, bytes that the oldest contents free when room is needed.
    pub removable_bytes: u64,
    /// True if the oldest contents make room.
    pub overwrites: bool,
    /// False until the folder was looked through for the first time: its contents do not count yet.
    pub counted: bool,
}

/// The time at which a disk, a volume or a quota is full at its present rate (`GET /api/v1/forecasts`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// `disk`, `volume` or `quota`.
    pub kind: String,
    /// The first folder on the disk, the name of the volume, or the folder of the quota.
    pub name: String,
    /// Room that is left.
    pub free_bytes: u64,
    /// Bytes by which that shrinks in a day: the faster of the last day's and the last week's rate. None before it was watched for an
    /// hour; zero or less where it does not shrink.
    pub bytes_per_day: Option<f64>,
    /// Span over which that rate was seen.
    pub seen_seconds: f64,
    /// When no room is left at this rate, seconds since 1970; none where it does not shrink.
    pub full: Option<f64>,
}

/// The contents that a `keep` job or a ring would remove now (`GET /api/v1/removals`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Removals {
    /// The folder.
    pub folder: String,
    /// Bytes of all files in it, each once.
    pub stored_bytes: u64,
    /// Contents that would go.
    pub contents: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The first of them, in the order in which they would go.
    pub first: Vec<RemovableContent>,
    /// The reason for which a run would fail, or remove less than it should.
    pub problem: Option<String>,
}

/// A content that would go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RemovableContent {
    /// Its path below `/media/`.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Time since it was stored.
    pub age_seconds: f64,
    /// `max_age` or `max_size`.
    pub reason: String,
}
