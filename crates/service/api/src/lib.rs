//! Documents that go over the wire as JSON: listings, streams, disks, the system.
//!
//! Promise: plain values in base units (bits per second, bytes, seconds, shares of one); a field is added, never changed. Not here:
//! where the values come from (`http` and, of jobs and webhooks, `isocast`), requests for them (`client`).

mod accounts;
mod alarms;
mod budget;
mod certificate;
mod contents;
mod jobs;
mod link;
mod modified;
mod settings;
mod streams;
mod system;
mod volumes;

pub use accounts::{
    AccountEntry, FirstAccount, GrantEntry, GroupEntry, LinkEntry, LinkText, LoginStatus, NewAccount, NewLink,
    NewPassword, NewReservation, NewToken, PasswordLogin, ReservationEntry, ReservationPhase, RightWord, TokenEntry,
    TokenText,
};
pub use alarms::{
    Alarm, AlarmCause, AlarmSeverity, Forecast, QuotaStatus, RemovableContent, Removals, VolumeDiskAlarm,
};
pub use budget::{BudgetAmounts, BudgetStatus};
pub use certificate::CertificateStatus;
pub use contents::{ContentDetails, EntryKind, FoundEntry, FoundNames, ListingEntry, TrashEntry, UploadStatus};
pub use jobs::{JobOutcome, JobProgress, JobRun, JobStatus, WebhookStatus};
pub use link::{LinkDirection, LinkStatus};
pub use modified::{MODIFIED_FIELD, MODIFIED_SECONDS_MAX, format_modified, parse_modified};
pub use settings::{SettingEntry, SettingSource, SettingValue, SettingsPatch};
pub use streams::{
    Class, Direction, HeldUpBy, RateOrigin, SessionFigures, Stream, StreamExplanation, StreamFact, StreamPlace,
};
pub use system::{
    Buffers, Disk, DiskFailure, FiguresHistory, FolderStatus, LiveFigures, Phases, PlaneFigures, RunningClasses,
    ServiceCounts, System,
};
pub use volumes::{ScrubStatus, UpkeepStatus, VOLUME_DISK_STATES, VolumeDiskStatus, VolumeStatus};
