//! The reason for which an alarm of each kind matters, and the command that shows or mends its cause.
//!
//! Promise: the page, `/ready` and `isocast doctor` have them from here. Not here: the alarms (`alarms`).

use api::AlarmCause;

/// The words for one kind of alarm.
pub struct Remedy {
    /// The effect of its cause.
    pub why: &'static str,
    /// The command.
    pub command: &'static str,
    /// The rest that there is to say about the command.
    pub note: Option<&'static str>,
}

const fn remedy(why: &'static str, command: &'static str, note: &'static str) -> Remedy {
    Remedy { why, command, note: Some(note) }
}

/// The remedy for a certificate that ends.
const fn renewal(why: &'static str) -> Remedy {
    remedy(why, "certbot renew", "or cp a new certificate and its key over the files: they are in force within 10 s")
}

/// The remedy for a cause.
#[must_use]
pub const fn remedy_of(cause: &AlarmCause) -> Remedy {
    match cause {
        AlarmCause::VolumeDisk { .. } => Remedy {
            why: "another failure would lose contents, or keep them from being served",
            command: "isocast volume status DEV…; isocast volume replace",
            note: None,
        },
        AlarmCause::VolumeMissing { .. } => remedy(
            "they are answered with 503, in part or whole",
            "isocast volume status DEV…",
            "names the disk: put it back, and start again",
        ),
        AlarmCause::VolumeDamaged { .. } => remedy(
            "they break off where they are damaged",
            "isocast volume scrub DEV…",
            "names them: store them anew, and scrub again",
        ),
        AlarmCause::VolumeScrub { .. } => remedy(
            "a wrong copy that no stream reads stays unknown until another disk fails",
            "isocast volume scrub DEV…",
            "reads every copy",
        ),
        AlarmCause::DiskFailing { .. } => {
            Remedy { why: "no stream is admitted on it", command: "dmesg; smartctl -a /dev/DISK", note: None }
        }
        AlarmCause::DiskAssumed { .. } => remedy(
            "admission counts by figures of another disk",
            "isocast disk calibrate --state DIR ROOT",
            "then start again; else it is measured as soon as nothing runs",
        ),
        AlarmCause::FolderAway => {
            remedy("its contents are answered with 503", "findmnt", "the event log has `root_away` with the reason")
        }
        AlarmCause::QuotaFull { .. } => {
            remedy("uploads into it are refused", "isocast config show FILE", "the quota: raise it, or remove contents")
        }
        AlarmCause::FullSoon { .. } => remedy(
            "uploads and recordings are refused from then on (507)",
            "curl -s URL/api/v1/forecasts",
            "remove contents, or have a `keep` job or a ring do so: docs/guide/jobs.md",
        ),
        AlarmCause::JobFailed { .. } => remedy(
            "its task is not done until a run succeeds",
            "curl -s URL/api/v1/jobs",
            "the event log has `job_failed`",
        ),
        AlarmCause::WebhookWaiting { .. } => remedy(
            "its receiver does not hear of failures",
            "curl -s URL/api/v1/webhooks",
            "mend the receiver: events are kept for a day",
        ),
        AlarmCause::WebhookEnded { .. } => remedy(
            "its receiver answered that it wants no more events, and misses all of them",
            "systemctl reload isocast",
            "after the receiver is mended, or the webhook removed",
        ),
        AlarmCause::CertificateExpired => renewal("clients refuse the server"),
        AlarmCause::CertificateExpires { .. } => renewal("clients refuse the server from then on"),
        AlarmCause::CertificateRefused { .. } => remedy(
            "the one in force is not renewed",
            "isocast config check FILE",
            "names the fault of the files; the event `certificate_refused` has an authority's reason: docs/guide/tls.md",
        ),
        AlarmCause::ConfigurationRefused { .. } => remedy(
            "no change in it is in force, and the next start fails",
            "isocast config check FILE",
            "names each problem; then `systemctl reload isocast`",
        ),
    }
}
