//! Alarms, quotas, forecasts of room, and the removals that make room.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DiskFailure;

/// A thing that is wrong now and lasts (`GET /api/v1/alarms`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alarm {
    /// How much it matters.
    pub severity: AlarmSeverity,
    /// Its cause: `kind`, and the members of that kind.
    #[serde(flatten)]
    pub cause: AlarmCause,
    /// The name of the volume, disk, folder, job or webhook, the certificate's file, or `configuration`.
    pub about: String,
    /// Its state, and the next step, in English.
    pub text: String,
    /// The effect of its cause.
    pub why: String,
    /// The command that shows or mends it.
    pub remedy: String,
    /// The rest that there is to say about that command.
    pub note: Option<String>,
}

impl Alarm {
    /// The command that shows or mends it, with its note behind.
    #[must_use]
    pub fn noted_remedy(&self) -> String {
        self.note.as_ref().map_or_else(|| self.remedy.clone(), |note| format!("{}   ({note})", self.remedy))
    }
}

/// The cause of an alarm: its kind, and the figures of its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AlarmCause {
    /// A disk of a volume is not in its regular state.
    VolumeDisk {
        /// Its number in the volume.
        disk: u64,
        /// Its path, if it is known.
        path: Option<String>,
        /// Its state.
        state: VolumeDiskAlarm,
        /// The error that led to it, if one did.
        error: Option<String>,
    },
    /// Contents lie in part on a disk that is not there.
    VolumeMissing {
        /// Contents.
        contents: u64,
    },
    /// Contents, or copies, are wrong and stay so.
    VolumeDamaged {
        /// Contents that are damaged in every copy.
        contents: u64,
        /// Copies that the last scrub could not make right, where no content is damaged in every copy.
        copies: u64,
    },
    /// A volume is not scrubbed, or not whole.
    VolumeScrub {
        /// Time since the last scrub; null if there was none.
        since_seconds: Option<u64>,
        /// Contents of which the last one could not read all copies.
        contents_unknown: u64,
    },
    /// A disk gets nothing new.
    DiskFailing {
        /// The failure.
        failure: DiskFailure,
        /// Reads and writes that failed.
        errors: u64,
    },
    /// The figures of a disk are not measured.
    DiskAssumed {
        /// The reason.
        doubt: String,
    },
    /// A folder is another one than at the start.
    FolderAway,
    /// A quota refuses uploads, or is about to.
    QuotaFull {
        /// Its part in use.
        percent: u64,
    },
    /// A disk, volume or quota will be full, or is.
    FullSoon {
        /// `disk`, `volume` or `quota`.
        of: String,
        /// Free room; null if it is full.
        free_bytes: Option<u64>,
        /// Time until then.
        left_seconds: u64,
        /// Span over which its rate was seen.
        seen_seconds: u64,
        /// Bytes by which the room shrinks in a day.
        bytes_per_day: u64,
    },
    /// The last run of a job failed.
    JobFailed {
        /// The reason, if one is known.
        reason: Option<String>,
    },
    /// Events wait for their delivery.
    WebhookWaiting {
        /// Events.
        events: u64,
        /// The last error.
        error: String,
    },
    /// The receiver wants no more events.
    WebhookEnded {
        /// Its answer.
        error: String,
    },
    /// A certificate is not valid any more.
    CertificateExpired,
    /// A certificate is not valid much longer.
    CertificateExpires {
        /// Time until then.
        left_seconds: u64,
    },
    /// A new certificate is not put in force.
    CertificateRefused {
        /// The reason.
        problem: String,
    },
    /// A changed configuration is not put in force.
    ConfigurationRefused {
        /// The reason.
        problem: String,
    },
}

impl AlarmCause {
    /// The name of its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::VolumeDisk { .. } => "volume_disk",
            Self::VolumeMissing { .. } => "volume_missing",
            Self::VolumeDamaged { .. } => "volume_damaged",
            Self::VolumeScrub { .. } => "volume_scrub",
            Self::DiskFailing { .. } => "disk_failing",
            Self::DiskAssumed { .. } => "disk_assumed",
            Self::FolderAway => "folder_away",
            Self::QuotaFull { .. } => "quota_full",
            Self::FullSoon { .. } => "full_soon",
            Self::JobFailed { .. } => "job_failed",
            Self::WebhookWaiting { .. } => "webhook_waiting",
            Self::WebhookEnded { .. } => "webhook_ended",
            Self::CertificateExpired => "certificate_expired",
            Self::CertificateExpires { .. } => "certificate_expires",
            Self::CertificateRefused { .. } => "certificate_refused",
            Self::ConfigurationRefused { .. } => "configuration_refused",
        }
    }
}

/// States of a volume's disk that are alarms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VolumeDiskAlarm {
    /// It has wrong copies, and the right ones may be on a disk that is away.
    WrongCopiesOtherAway,
    /// It has wrong copies that could not be rewritten.
    WrongCopies,
    /// It is being filled.
    Filling,
    /// It is out: other copies are read.
    Out,
    /// It was not there at the start.
    Missing,
    /// It takes no writes.
    ReadOnly,
    /// It failed, and the volume takes no changes.
    Failed,
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
    /// Of these, bytes of the oldest contents, which are removed when room is needed.
    pub removable_bytes: u64,
    /// True if the oldest contents make room.
    pub overwrites: bool,
    /// False until the first scan of the folder: its contents do not count yet.
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
    /// Time at which no room is left at this rate, seconds since 1970; null if the room does not shrink.
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
