//! The English text of each alarm: its state, and the next step.
//!
//! Promise: every program and protocol that shows alarms has these; the page has them in other languages by the same causes. Not here: the
//! effect and the command (`remedies`).

use api::{AlarmCause, DiskFailure, VolumeDiskAlarm};
use units::{ByteCount, real};

/// The text of an alarm.
pub(crate) fn text(cause: &AlarmCause) -> String {
    match cause {
        AlarmCause::VolumeDisk { disk, path, state, error } => {
            let path = path.as_deref().unwrap_or("unknown path");
            let error = error.as_ref().map_or_else(String::new, |error| format!(" ({error})"));
            format!("disk {disk}, {path}, {}{error}", volume_disk(*state))
        }
        AlarmCause::VolumeMissing { contents } => {
            format!("contents in part on a disk that is not there: {contents}")
        }
        AlarmCause::VolumeDamaged { contents: 0, copies } => format!(
            "copies that the last scrub could not make right: {copies}; `isocast volume scrub` names them (events `copy_lost`, `copy_unwritten`); \
             store them anew, and scrub again"
        ),
        AlarmCause::VolumeDamaged { contents, .. } => format!(
            "contents damaged in every copy: {contents}; `isocast volume scrub` names them (events `copy_lost`); store them anew"
        ),
        AlarmCause::VolumeScrub { since_seconds: None, .. } => {
            "it was never scrubbed: `isocast volume scrub` reads every copy".to_owned()
        }
        AlarmCause::VolumeScrub { since_seconds: Some(since), contents_unknown: 0 } => {
            format!("it was not scrubbed for {:.0} days", days(*since))
        }
        AlarmCause::VolumeScrub { contents_unknown: unknown, .. } => format!(
            "the last scrub could not read all copies of {unknown} contents, for a disk was away: scrub again when it is back"
        ),
        AlarmCause::DiskFailing { failure: DiskFailure::Erring, errors } => {
            format!("it answers with errors ({errors} so far) and gets nothing new")
        }
        AlarmCause::DiskFailing { failure: DiskFailure::Hung, .. } => {
            "it does not answer and gets nothing new".to_owned()
        }
        AlarmCause::DiskAssumed { doubt } => {
            format!("its figures are not measured ({doubt}): it may be promised to too few streams, or to too many")
        }
        AlarmCause::FolderAway => "it differs from the folder at the start (unmounted, renamed or removed)".to_owned(),
        AlarmCause::QuotaFull { percent } => {
            format!("{percent} % of the quota are used; uploads that do not fit are answered with 507")
        }
        AlarmCause::FullSoon { of, free_bytes: None, .. } => format!("the {of} is full"),
        AlarmCause::FullSoon { of, free_bytes: Some(free), left_seconds, seen_seconds, bytes_per_day } => format!(
            "the {of} is full in {} at the rate of the last {}, {:.1} GB a day: {} are left",
            span(*left_seconds),
            span(*seen_seconds),
            real(*bytes_per_day) / 1e9,
            ByteCount(*free)
        ),
        AlarmCause::JobFailed { reason } => {
            format!("its last run failed: {}", reason.as_deref().unwrap_or("without a reason"))
        }
        AlarmCause::WebhookWaiting { events, error } => format!("events waiting for delivery: {events}; {error}"),
        AlarmCause::WebhookEnded { error } => error.clone(),
        AlarmCause::CertificateExpired => {
            "it has expired, clients refuse it: put a new one and its key in place of the files".to_owned()
        }
        AlarmCause::CertificateExpires { left_seconds } => {
            let left = days(*left_seconds);
            format!("it expires in {left:.1} days: put a new one and its key in place of the files")
        }
        AlarmCause::CertificateRefused { problem } => format!("{problem}; the one before stays in force"),
        AlarmCause::ConfigurationRefused { problem } => {
            format!("{problem}; the one before stays in force: mend it, and read it again (SIGHUP)")
        }
    }
}

const fn volume_disk(state: VolumeDiskAlarm) -> &'static str {
    match state {
        VolumeDiskAlarm::WrongCopiesOtherAway => {
            "has wrong copies, and the right ones may be on the disk that is away: put that back, then `isocast volume scrub`"
        }
        VolumeDiskAlarm::WrongCopies => {
            "has wrong copies that could not be written anew: `isocast volume replace` it, or `isocast volume scrub` them"
        }
        VolumeDiskAlarm::Filling => "is being filled; until then there are fewer copies",
        VolumeDiskAlarm::Out => {
            "is out: everything is read from the other copies; put it back, or `isocast volume replace` it"
        }
        VolumeDiskAlarm::Missing => {
            "is missing: the volume takes no changes, and its contents are not served; put it back and start again"
        }
        VolumeDiskAlarm::ReadOnly => "takes no writes: `isocast volume remove` moves its contents to the others",
        VolumeDiskAlarm::Failed => "failed: the volume takes no changes; start the server again when the disk answers",
    }
}

fn days(seconds: u64) -> f64 {
    real(seconds) / 86_400.0
}

fn span(seconds: u64) -> String {
    match real(seconds) / 3600.0 {
        hours if hours < 48.0 => format!("{hours:.0} h"),
        hours => format!("{:.0} days", hours / 24.0),
    }
}
