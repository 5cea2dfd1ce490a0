//! Alarms: everything that is wrong now and lasts, in one list.
//!
//! Promise: `/api/v1/alarms`, `/ready`, `/metrics`, `isocast top` and `isocast doctor` show this list and judge nothing themselves; an
//! alarm names the thing, its state, its effect, and the next step. Not here: its words (`alarm_texts`, `remedies`), the moment at which it
//! began (`events`).

use std::time::SystemTime;

use api::{
    Alarm, AlarmCause, AlarmSeverity, CertificateStatus, Disk, FolderStatus, Forecast, JobOutcome, JobStatus,
    QuotaStatus, VolumeDiskAlarm, VolumeStatus, WebhookStatus,
};

use crate::access::{Permit, ToObserve};
use crate::alarm_texts;
use crate::config::LastReload;
use crate::events::unix_seconds;
use crate::figures::{self, whole};
use crate::media_service::MediaService;
use crate::remedies::{Remedy, remedy_of};

/// A quota that refuses uploads is an alarm from this many percent on.
const QUOTA_PERCENT: u64 = 95;
const DAY_SECONDS: f64 = 86_400.0;

/// A volume that has not been scrubbed for this time is an alarm.
const SCRUB_SECONDS: f64 = 40.0 * DAY_SECONDS;

/// A certificate that has not been renewed by this time before its end is an alarm.
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
            folders: service.disk_states.folders(),
            quotas: quotas(service, permit),
            forecasts: service.operations.forecasts(permit),
            jobs: service.operations.jobs(permit),
            webhooks: service.operations.webhooks(permit),
            certificates: (service.operations.certificates(permit), unix_seconds(SystemTime::now())),
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

fn alarm(severity: AlarmSeverity, about: &str, cause: AlarmCause) -> Alarm {
    let Remedy { why, command, note } = remedy_of(&cause);
    Alarm {
        severity,
        about: about.to_owned(),
        text: alarm_texts::text(&cause),
        why: why.to_owned(),
        remedy: command.to_owned(),
        note: note.map(str::to_owned),
        cause,
    }
}

fn serious(about: &str, cause: AlarmCause) -> Alarm {
    alarm(AlarmSeverity::Serious, about, cause)
}

fn advice(about: &str, cause: AlarmCause) -> Alarm {
    alarm(AlarmSeverity::Advice, about, cause)
}

fn of_volume(volume: &VolumeStatus) -> Vec<Alarm> {
    let name = volume.name.as_str();
    let mut all = Vec::new();
    let is_one_away = volume.disks.iter().any(|disk| matches!(disk.state.as_str(), "out" | "missing"));
    for (number, disk) in (0..).zip(&volume.disks) {
        let state = match disk.state.as_str() {
            "active" if disk.error.is_some() && is_one_away => VolumeDiskAlarm::WrongCopiesOtherAway,
            "active" if disk.error.is_some() => VolumeDiskAlarm::WrongCopies,
            "filling" => VolumeDiskAlarm::Filling,
            "out" => VolumeDiskAlarm::Out,
            "missing" => VolumeDiskAlarm::Missing,
            "read only" => VolumeDiskAlarm::ReadOnly,
            "failed" => VolumeDiskAlarm::Failed,
            _ => continue,
        };
        let severity = if state == VolumeDiskAlarm::Filling { AlarmSeverity::Advice } else { AlarmSeverity::Serious };
        let (path, error) = (disk.path.clone(), disk.error.clone());
        all.push(alarm(severity, name, AlarmCause::VolumeDisk { disk: number, path, state, error }));
    }
    if volume.missing_contents > 0 {
        all.push(serious(name, AlarmCause::VolumeMissing { contents: volume.missing_contents }));
    }
    let lost = volume.last_scrub.as_ref().map_or(0, |scrub| scrub.copies_lost);
    match (volume.damaged_contents, lost) {
        (0, 0) => {}
        (0, copies) => all.push(serious(name, AlarmCause::VolumeDamaged { contents: 0, copies })),
        (contents, _) => all.push(serious(name, AlarmCause::VolumeDamaged { contents, copies: 0 })),
    }
    all
}

fn of_scrub(volume: &VolumeStatus, now: f64) -> Option<Alarm> {
    let (since_seconds, contents_unknown) =
        match volume.last_scrub.as_ref().map(|scrub| (now - scrub.ended, scrub.contents_unknown)) {
            None if volume.contents > 0 => (None, 0),
            Some((since, _)) if since > SCRUB_SECONDS => (Some(whole(since)), 0),
            Some((since, unknown @ 1..)) => (Some(whole(since)), unknown),
            _ => return None,
        };
    Some(advice(&volume.name, AlarmCause::VolumeScrub { since_seconds, contents_unknown }))
}

fn of_disk(disk: &Disk) -> Vec<Alarm> {
    let errors = disk.errors;
    let failure = disk.failure.map(|failure| serious(&disk.name, AlarmCause::DiskFailing { failure, errors }));
    let doubt = disk.doubt.clone().map(|doubt| advice(&disk.name, AlarmCause::DiskAssumed { doubt }));
    failure.into_iter().chain(doubt).collect()
}

fn of_folder(folder: &FolderStatus) -> Option<Alarm> {
    folder.away.then(|| serious(&folder.path, AlarmCause::FolderAway))
}

fn of_quota(quota: &QuotaStatus) -> Option<Alarm> {
    let percent = quota.used_bytes.saturating_mul(100) / quota.max_bytes.max(1);
    let is_full = if quota.overwrites { quota.used_bytes > quota.max_bytes } else { percent >= QUOTA_PERCENT };
    is_full.then(|| advice(&quota.folder, AlarmCause::QuotaFull { percent }))
}

/// Serious from a day before, as the event; advice from a week before.
fn of_forecast(forecast: &Forecast, now: f64) -> Option<Alarm> {
    let left = (forecast.full? - now).max(0.0);
    let severity = match left / DAY_SECONDS {
        ..=1.0 => AlarmSeverity::Serious,
        ..=7.0 => AlarmSeverity::Advice,
        _ => return None,
    };
    let per_day = forecast.bytes_per_day.filter(|_| forecast.free_bytes > 0);
    let cause = AlarmCause::FullSoon {
        of: forecast.kind.clone(),
        free_bytes: per_day.map(|_| forecast.free_bytes),
        left_seconds: whole(left),
        seen_seconds: whole(forecast.seen_seconds),
        bytes_per_day: whole(per_day.unwrap_or_default()),
    };
    Some(alarm(severity, &forecast.name, cause))
}

fn of_job(job: &JobStatus) -> Option<Alarm> {
    let last = job.last.as_ref().filter(|last| last.outcome == JobOutcome::Failed)?;
    Some(serious(&job.name, AlarmCause::JobFailed { reason: last.reason.clone() }))
}

fn of_webhook(webhook: &WebhookStatus) -> Option<Alarm> {
    let error = webhook.error.clone()?;
    let cause = match (webhook.ended, webhook.waiting) {
        (true, _) => AlarmCause::WebhookEnded { error },
        (false, 0) => return None,
        (false, events) => AlarmCause::WebhookWaiting { events, error },
    };
    Some(serious(&webhook.name, cause))
}

fn of_certificate(certificate: &CertificateStatus, now: f64) -> Vec<Alarm> {
    let left = certificate.expires - now;
    let end = match () {
        () if left <= 0.0 => Some(serious(&certificate.file, AlarmCause::CertificateExpired)),
        () if left < EXPIRES_SOON_SECONDS => {
            Some(advice(&certificate.file, AlarmCause::CertificateExpires { left_seconds: whole(left) }))
        }
        () => None,
    };
    let refused = |problem| serious(&certificate.file, AlarmCause::CertificateRefused { problem });
    end.into_iter().chain(certificate.problem.clone().map(refused)).collect()
}

fn of_reload(last: &LastReload) -> Option<Alarm> {
    let reason = last.refused.as_ref()?;
    let problem = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(serious("configuration", AlarmCause::ConfigurationRefused { problem }))
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
    fn an_alarm_has_the_figures_of_its_text_as_members_beside_its_kind() {
        let volume = volume("out", &json!(null));
        let alarm = serde_json::to_value(&of_volume(&volume)[0]).expect("JSON");
        let (kind, disk, state) = (&alarm["kind"], &alarm["disk"], &alarm["state"]);
        assert_eq!((kind, disk, state), (&json!("volume_disk"), &json!(0), &json!("out")), "{alarm}");
        assert!(alarm["text"].as_str().is_some_and(|text| text.starts_with("disk 0, /dev/sdx, is out")), "{alarm}");
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
        assert!(alarms.len() == 1 && alarms[0].cause.kind() == "volume_damaged", "{alarms:?}");
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
