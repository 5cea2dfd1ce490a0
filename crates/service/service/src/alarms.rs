//! Alarms: everything that is wrong now and lasts, in one list.
//!
//! Promise: `/api/v1/alarms`, `/ready`, `/metrics`, `isocast top` and `isocast doctor` show this list and judge nothing themselves; an
//! alarm names the thing, its state, its effect, and the next step. Not here: the moment at which each of them began (`events`).

use std::time::SystemTime;

use api::{
    Alarm, AlarmSeverity, CertificateStatus, Disk, DiskFailure, FolderStatus, Forecast, JobOutcome, JobStatus,
    QuotaStatus, VolumeStatus, WebhookStatus,
};
use units::ByteCount;

use crate::access::{Permit, ToObserve};
use crate::config::LastReload;
use crate::events::unix_seconds;
use crate::figures;
use crate::media_service::MediaService;
use crate::remedies::REMEDIES;

/// A quota that refuses uploads is an alarm from this many percent on.
const QUOTA_PERCENT: u64 = 95;
const DAY_SECONDS: f64 = 86_400.0;

/// A volume that has not been scrubbed for so long is an alarm.
const SCRUB_SECONDS: f64 = 40.0 * DAY_SECONDS;

/// A certificate that has not been renewed by so long before its end is an alarm.
const EXPIRES_SOON_SECONDS: f64 = 14.0 * 86_400.0;

/// The figures that alarms are judged by, read once for a page that shows them as well.
pub struct AlarmSources {
    /// Volumes.
    pub volumes: Vec<VolumeStatus>,
    /// Disks.
    pub disks: Vec<Disk>,
    /// Folders.
    pub folders: Vec<FolderStatus>,
    /// Quotas.
    pub quotas: Vec<QuotaStatus>,
    /// When each of these is full.
    pub forecasts: Vec<Forecast>,
    /// Jobs.
    pub jobs: Vec<JobStatus>,
    /// Webhooks.
    pub webhooks: Vec<WebhookStatus>,
    /// Certificates, and the time that their ends are compared with, in seconds since 1970.
    pub certificates: (Vec<CertificateStatus>, f64),
    /// The last time that settings were read.
    pub last_reload: LastReload,
}

impl AlarmSources {
    /// Reads them.
    #[must_use]
    pub fn read(service: &MediaService, permit: &Permit<ToObserve>) -> Self {
        Self {
            volumes: figures::volumes(service, permit),
            disks: figures::disks(service, permit),
            folders: service.folders(),
            quotas: quotas(service, permit),
            forecasts: service.forecasts(permit),
            jobs: service.jobs(permit),
            webhooks: service.webhooks(permit),
            certificates: (service.certificates(permit), unix_seconds(SystemTime::now())),
            last_reload: service.last_reload(),
        }
    }

    /// All alarms, the serious ones first.
    #[must_use]
    pub fn alarms(&self) -> Vec<Alarm> {
        let mut all: Vec<Alarm> = self.volumes.iter().flat_map(of_volume).collect();
        all.extend(self.disks.iter().flat_map(of_disk));
        all.extend(self.folders.iter().filter_map(of_folder));
        all.extend(self.quotas.iter().filter_map(of_quota));
        let now = unix_seconds(SystemTime::now());
        all.extend(self.volumes.iter().filter_map(|volume| of_scrub(volume, now)));
        all.extend(self.forecasts.iter().filter_map(|forecast| of_forecast(forecast, now)));
        all.extend(self.jobs.iter().filter_map(of_job));
        all.extend(self.webhooks.iter().filter_map(of_webhook));
        let (certificates, now) = &self.certificates;
        all.extend(certificates.iter().flat_map(|certificate| of_certificate(certificate, *now)));
        all.extend(of_reload(&self.last_reload));
        all.sort_by_key(|alarm| alarm.severity);
        all
    }
}

/// All alarms, the serious ones first.
#[must_use]
pub fn alarms(service: &MediaService, permit: &Permit<ToObserve>) -> Vec<Alarm> {
    AlarmSources::read(service, permit).alarms()
}

/// The quotas and their use.
#[must_use]
pub fn quotas(service: &MediaService, _permit: &Permit<ToObserve>) -> Vec<QuotaStatus> {
    service.quotas.all().iter().map(|quota| quota.status()).collect()
}

fn serious(kind: &str, about: &str, text: String) -> Alarm {
    let remedy = REMEDIES.iter().find(|remedy| remedy.kind == kind).expect("each kind has one");
    Alarm {
        severity: AlarmSeverity::Serious,
        kind: kind.to_owned(),
        about: about.to_owned(),
        text,
        why: remedy.why.to_owned(),
        remedy: remedy.command.to_owned(),
    }
}

fn advice(kind: &str, about: &str, text: String) -> Alarm {
    Alarm { severity: AlarmSeverity::Advice, ..serious(kind, about, text) }
}

fn of_volume(volume: &VolumeStatus) -> Vec<Alarm> {
    let name = volume.name.as_str();
    let mut all = Vec::new();
    let is_one_away = volume.disks.iter().any(|disk| matches!(disk.state.as_str(), "out" | "missing"));
    for (number, disk) in volume.disks.iter().enumerate() {
        let path = disk.path.as_deref().unwrap_or("unknown path");
        let why = disk.error.as_ref().map_or_else(String::new, |error| format!(" ({error})"));
        let text = |state: &str| format!("disk {number}, {path}, {state}{why}");
        all.extend(match disk.state.as_str() {
            "active" if disk.error.is_some() && is_one_away => Some(serious(
                "volume_disk",
                name,
                text("has wrong copies, and the right ones may be on the disk that is away: put that back, then `isocast volume scrub`"),
            )),
            "active" if disk.error.is_some() => Some(serious(
                "volume_disk",
                name,
                text("has wrong copies that could not be written anew: `isocast volume replace` it, or `isocast volume scrub` them"),
            )),
            "filling" => Some(advice("volume_disk", name, text("is being filled; until then there are fewer copies"))),
            "out" => Some(serious(
                "volume_disk",
                name,
                text("is out: everything is read from the other copies; put it back, or `isocast volume replace` it"),
            )),
            "missing" => Some(serious(
                "volume_disk",
                name,
                text("is missing: the volume takes no changes, and its contents are not served; put it back and start again"),
            )),
            "read only" => Some(serious(
                "volume_disk",
                name,
                text("takes no writes: `isocast volume remove` moves its contents to the others"),
            )),
            "failed" => Some(serious(
                "volume_disk",
                name,
                text("failed: the volume takes no changes; start the server again when the disk answers"),
            )),
            _ => None,
        });
    }
    if volume.missing_contents > 0 {
        let text = format!("contents in part on a disk that is not there: {}", volume.missing_contents);
        all.push(serious("volume_missing", name, text));
    }
    if volume.damaged_contents > 0 {
        let text = format!(
            "contents damaged in every copy: {}; `isocast volume scrub` names them (events `copy_lost`); store them anew",
            volume.damaged_contents
        );
        all.push(serious("volume_damaged", name, text));
    }
    let lost = volume.last_scrub.as_ref().map_or(0, |scrub| scrub.copies_lost);
    if volume.damaged_contents == 0 && lost > 0 {
        let text = format!(
            "copies that the last scrub could not make right: {lost}; `isocast volume scrub` names them (events `copy_lost`, `copy_unwritten`); \
             store them anew, and scrub again"
        );
        all.push(serious("volume_damaged", name, text));
    }
    all
}

fn of_scrub(volume: &VolumeStatus, now: f64) -> Option<Alarm> {
    let text = match volume.last_scrub.as_ref().map(|scrub| (now - scrub.ended, scrub.contents_unknown)) {
        None if volume.contents > 0 => "it was never scrubbed: `isocast volume scrub` reads every copy".to_owned(),
        Some((since, _)) if since > SCRUB_SECONDS => format!("it was not scrubbed for {:.0} days", since / DAY_SECONDS),
        Some((_, unknown @ 1..)) => format!(
            "the last scrub could not read all copies of {unknown} contents, for a disk was away: scrub again when it is back"
        ),
        _ => return None,
    };
    Some(advice("volume_scrub", &volume.name, text))
}

fn of_disk(disk: &Disk) -> Vec<Alarm> {
    let failure = disk.failure.map(|failure| {
        let text = match failure {
            DiskFailure::Erring => format!("it answers with errors ({} so far) and gets nothing new", disk.errors),
            DiskFailure::Hung => "it does not answer and gets nothing new".to_owned(),
        };
        serious("disk_failing", &disk.name, text)
    });
    let doubt = disk.doubt.as_ref().map(|doubt| {
        let text =
            format!("its figures are not measured ({doubt}): it may be promised to too few streams, or to too many");
        advice("disk_assumed", &disk.name, text)
    });
    failure.into_iter().chain(doubt).collect()
}

fn of_folder(folder: &FolderStatus) -> Option<Alarm> {
    let text = "it differs from the folder at the start (unmounted, renamed or removed)";
    folder.away.then(|| serious("folder_away", &folder.path, text.to_owned()))
}

fn of_quota(quota: &QuotaStatus) -> Option<Alarm> {
    let percent = quota.used_bytes.saturating_mul(100) / quota.max_bytes.max(1);
    let is_full = if quota.overwrites { quota.used_bytes > quota.max_bytes } else { percent >= QUOTA_PERCENT };
    let text = format!("{percent} % of the quota are used; uploads that do not fit are answered with 507");
    is_full.then(|| advice("quota_full", &quota.folder, text))
}

/// Serious from a day before, as the event; advice from a week before.
fn of_forecast(forecast: &Forecast, now: f64) -> Option<Alarm> {
    let left = (forecast.full? - now).max(0.0);
    let span = |seconds: f64| match seconds / 3600.0 {
        hours if hours < 48.0 => format!("{hours:.0} h"),
        hours => format!("{:.0} days", hours / 24.0),
    };
    let text = match forecast.bytes_per_day.filter(|_| forecast.free_bytes > 0) {
        None => format!("the {} is full", forecast.kind),
        Some(per_day) => format!(
            "the {} is full in {} at the rate of the last {}, {:.1} GB a day: {} are left",
            forecast.kind,
            span(left),
            span(forecast.seen_seconds),
            per_day / 1e9,
            ByteCount(forecast.free_bytes)
        ),
    };
    match left / DAY_SECONDS {
        ..=1.0 => Some(serious("full_soon", &forecast.name, text)),
        ..=7.0 => Some(advice("full_soon", &forecast.name, text)),
        _ => None,
    }
}

fn of_job(job: &JobStatus) -> Option<Alarm> {
    let last = job.last.as_ref().filter(|last| last.outcome == JobOutcome::Failed)?;
    let why = last.reason.as_deref().unwrap_or("without a reason");
    Some(serious("job_failed", &job.name, format!("its last run failed: {why}")))
}

fn of_webhook(webhook: &WebhookStatus) -> Option<Alarm> {
    let error = webhook.error.as_ref()?;
    let waiting = webhook.waiting;
    let (kind, text) = match (webhook.ended, waiting) {
        (true, _) => ("webhook_ended", error.clone()),
        (false, 0) => return None,
        (false, _) => ("webhook_waiting", format!("events waiting for delivery: {waiting}; {error}")),
    };
    Some(serious(kind, &webhook.name, text))
}

fn of_certificate(certificate: &CertificateStatus, now: f64) -> Vec<Alarm> {
    let left = certificate.expires - now;
    let end = match () {
        () if left <= 0.0 => {
            let text = "it has expired, clients refuse it: put a new one and its key in place of the files";
            Some(serious("certificate_expired", &certificate.file, text.to_owned()))
        }
        () if left < EXPIRES_SOON_SECONDS => {
            let text = format!(
                "it expires in {:.1} days: put a new one and its key in place of the files",
                left / DAY_SECONDS
            );
            Some(advice("certificate_expires", &certificate.file, text))
        }
        () => None,
    };
    let refused = certificate.problem.as_ref().map(|problem| {
        serious("certificate_refused", &certificate.file, format!("{problem}; the one before stays in force"))
    });
    end.into_iter().chain(refused).collect()
}

fn of_reload(last: &LastReload) -> Option<Alarm> {
    let reason = last.refused.as_ref()?;
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = format!("{reason}; the one before stays in force: mend it, and read it again (SIGHUP)");
    Some(serious("configuration_refused", "configuration", text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(state: &str, last_scrub: &serde_json::Value) -> VolumeStatus {
        let disk = json!({
            "disk": 0, "path": "/dev/sdx", "state": state, "error": null, "wrong_copies": 0, "size_bytes": 1, "units": 1, "free_units": 1,
        });
        serde_json::from_value(json!({
            "name": "films", "layout": "span", "folder_layouts": {}, "unit_bytes": 1, "contents": 1, "degraded": false,
            "missing_contents": 0, "damaged_contents": 0, "free_bytes": 0, "disks": [disk], "moved_copies": 0, "upkeep": null,
            "last_upkeep": null, "last_scrub": last_scrub,
        }))
        .expect("a status")
    }

    #[test]
    fn a_disk_without_which_the_volume_takes_no_changes_is_serious() {
        let alarms = of_volume(&volume("failed", &json!(null)));
        assert!(alarms.len() == 1 && alarms[0].severity == AlarmSeverity::Serious, "{alarms:?}");
        assert!(alarms[0].text.contains("takes no changes"), "{alarms:?}");
    }

    #[test]
    fn wrong_copies_wait_for_the_disk_with_the_right_ones() {
        let mut status = volume("active", &json!(null));
        status.disks[0].error = Some("a copy stays wrong".to_owned());
        let text = |status: &VolumeStatus| of_volume(status)[0].text.clone();
        assert!(text(&status).contains("`isocast volume replace` it"), "{}", text(&status));
        status.disks.push(volume("out", &json!(null)).disks.remove(0));
        let waits = text(&status);
        assert!(waits.contains("put that back") && !waits.contains("replace"), "{waits}");
    }

    #[test]
    fn copies_that_the_last_scrub_lost_are_an_alarm_after_a_restart_too() {
        let scrub = |lost: u64| json!({ "ended": 100.0, "seen_bytes": 1, "copies_written": 0, "copies_lost": lost, "contents_unknown": 0 });
        assert_eq!(of_volume(&volume("active", &scrub(0))), []);
        let alarms = of_volume(&volume("active", &scrub(1)));
        assert!(alarms.len() == 1 && alarms[0].kind == "volume_damaged", "{alarms:?}");
    }

    #[test]
    fn the_alarm_of_a_scrub_looks_at_the_end_of_the_last_one_only() {
        assert!(of_scrub(&volume("active", &json!(null)), 0.0).is_some_and(|alarm| alarm.text.contains("never")));
        let scrub =
            json!({ "ended": 100.0, "seen_bytes": 1, "copies_written": 0, "copies_lost": 0, "contents_unknown": 0 });
        assert_eq!(of_scrub(&volume("active", &scrub), 200.0), None);
        assert!(of_scrub(&volume("active", &scrub), 100.0 + 41.0 * DAY_SECONDS).is_some());
        let unknown =
            json!({ "ended": 100.0, "seen_bytes": 1, "copies_written": 0, "copies_lost": 0, "contents_unknown": 3 });
        assert!(of_scrub(&volume("active", &unknown), 200.0).is_some_and(|alarm| alarm.text.contains("3 contents")));
        assert_eq!(of_volume(&volume("active", &unknown)), [], "it is no damage");
    }
}
