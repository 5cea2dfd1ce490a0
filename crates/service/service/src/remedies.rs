//! The reason for which an alarm of each kind matters, and the command that shows or mends its cause.
//!
//! Promise: the page, `/ready` and `isocast doctor` have them from here. Not here: the alarms (`alarms`).

/// The words for one kind of alarm.
pub struct Remedy {
    /// The kind.
    pub kind: &'static str,
    /// The effect of its cause.
    pub why: &'static str,
    /// The command; what else there is to say stands behind it, after three spaces and in brackets.
    pub command: &'static str,
}

const fn remedy(kind: &'static str, why: &'static str, command: &'static str) -> Remedy {
    Remedy { kind, why, command }
}

/// The remedy for a certificate that ends.
const RENEW: &str =
    "certbot renew   (or cp a new certificate and its key over the files: they are in force within 10 s)";

/// One for each kind.
pub const REMEDIES: [Remedy; 16] = [
    remedy(
        "volume_disk",
        "another failure would lose contents, or keep them from being served",
        "isocast volume status DEV…; isocast volume replace",
    ),
    remedy(
        "volume_missing",
        "they are answered with 503, in part or whole",
        "isocast volume status DEV…   (names the disk: put it back, and start again)",
    ),
    remedy(
        "volume_damaged",
        "they break off where they are damaged",
        "isocast volume scrub DEV…   (names them); store them anew, and scrub again",
    ),
    remedy(
        "volume_scrub",
        "a wrong copy that no stream reads stays unknown until another disk fails",
        "isocast volume scrub DEV…   (reads every copy)",
    ),
    remedy("disk_failing", "no stream is admitted on it", "dmesg; smartctl -a /dev/DISK"),
    remedy(
        "disk_assumed",
        "admission counts by figures of another disk",
        "isocast disk calibrate --state DIR ROOT   (then start again; else it is measured as soon as nothing runs)",
    ),
    remedy(
        "folder_away",
        "its contents are answered with 503",
        "findmnt   (the event log has `root_away` with the reason)",
    ),
    remedy(
        "quota_full",
        "uploads into it are refused",
        "isocast config show FILE   (the quota: raise it, or remove contents)",
    ),
    remedy(
        "full_soon",
        "uploads and recordings are refused from then on (507)",
        "curl -s URL/api/v1/forecasts   (remove contents, or have a `keep` job or a ring do so: docs/guide/jobs.md)",
    ),
    remedy(
        "job_failed",
        "its task is not done until a run succeeds",
        "curl -s URL/api/v1/jobs   (the event log has `job_failed`)",
    ),
    remedy(
        "webhook_waiting",
        "its receiver does not hear of failures",
        "curl -s URL/api/v1/webhooks   (mend the receiver: events are kept for a day)",
    ),
    remedy(
        "webhook_ended",
        "its receiver answered that it wants no more events, and misses all of them",
        "systemctl reload isocast   (after the receiver is mended, or the webhook removed)",
    ),
    remedy("certificate_expired", "clients refuse the server", RENEW),
    remedy("certificate_expires", "clients refuse the server from then on", RENEW),
    remedy(
        "certificate_refused",
        "the one in force is not renewed",
        "isocast config check FILE   (names the fault of the files; the event `certificate_refused` has an authority's reason: docs/guide/tls.md)",
    ),
    remedy(
        "configuration_refused",
        "no change in it is in force, and the next start fails",
        "isocast config check FILE   (names each problem); systemctl reload isocast",
    ),
];
