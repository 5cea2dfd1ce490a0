//! One job that runs and one webhook.

use api::{
    JobOutcome, JobProgress, JobRun, JobStatus, RemovableContent, Removals, SettingEntry, SettingSource, SettingValue,
    WebhookStatus,
};
use bytes::Bytes;
use service::access::{Permit, ToRead};
use service::delivery::Client;
use service::operations::{
    JobError, Operations, PendingSettings, PendingThumbnail, RemovalRule, Requester, SettingsChange, SettingsError,
    SettingsInForce,
};
use tokio::sync::oneshot;

/// `copy` runs, nothing else is there.
pub struct FakeOperations;

fn setting() -> SettingEntry {
    SettingEntry {
        key: "limits.connections".to_owned(),
        value: SettingValue::Number(5),
        default: None,
        source: SettingSource::File,
        written_at: None,
        changeable: true,
        needs_restart: false,
    }
}

impl Operations for FakeOperations {
    fn jobs(&self) -> Vec<JobStatus> {
        let last = JobRun {
            started: 1.0,
            seconds: 2.0,
            outcome: JobOutcome::Failed,
            reason: Some("full".to_owned()),
            files: 3,
            bytes: 4,
        };
        vec![JobStatus {
            name: "copy".to_owned(),
            kind: "copy".to_owned(),
            schedule: "@daily".to_owned(),
            time_zone: None,
            next: Some(5.0),
            running: Some(JobProgress { started: 3.0, bytes: 1, bytes_total: 2, stopping: false }),
            last: Some(last),
            last_success: Some(1_700_000_009.5),
            due: Some(1_700_086_400.0),
            succeeded: 6,
            failed: 1,
            stopped: 0,
            missed: 7,
        }]
    }

    fn run_job(&self, name: &str, _by: Requester<'_>) -> Result<(), JobError> {
        if name == "copy" { Err(JobError::Runs) } else { Err(JobError::Unknown) }
    }

    fn stop_job(&self, name: &str, _by: Requester<'_>) -> Result<(), JobError> {
        if name == "copy" { Ok(()) } else { Err(JobError::Unknown) }
    }

    fn certificates(&self) -> Vec<api::CertificateStatus> {
        let (file, names) = ("/etc/isocast/tls.pem".to_owned(), vec!["media.example".to_owned()]);
        vec![api::CertificateStatus { file, names, expires: 4_000_000_000.0, problem: None }]
    }

    fn settings(&self, change: Option<SettingsChange>) -> Result<PendingSettings, SettingsError> {
        let (answer, answered) = oneshot::channel();
        let tag = "\"1\"".to_owned();
        let shown = match change {
            Some(change) if !(change.applies_to)(&tag) => Err(SettingsError::Outdated),
            Some(change) => Err(SettingsError::NotHere(change.values.0.into_keys().collect())),
            None => Ok(SettingsInForce { tag, settings: vec![setting()] }),
        };
        answer.send(shown).map_err(|_| SettingsError::Busy)?;
        Ok(answered)
    }

    fn removals(&self, rule: RemovalRule) -> Result<oneshot::Receiver<Result<Removals, String>>, JobError> {
        if rule != RemovalRule::Job("keep".to_owned()) {
            return Err(JobError::Unknown);
        }
        let (answer, answered) = oneshot::channel();
        let removal =
            RemovableContent { path: "a/b.ts".to_owned(), bytes: 4, age_seconds: 90.0, reason: "max_age".to_owned() };
        let removals = Removals {
            folder: "a".to_owned(),
            stored_bytes: 9,
            contents: 1,
            bytes: 4,
            first: vec![removal],
            problem: None,
        };
        answer.send(Ok(removals)).map_err(|_| JobError::Stopping)?;
        Ok(answered)
    }

    fn thumbnail(&self, permit: Permit<ToRead>, _client: Client) -> PendingThumbnail {
        let (answer, pending) = oneshot::channel();
        let is_film = permit.path().joined() == "films/a.ts";
        answer.send(is_film.then(|| Bytes::from_static(b"a picture"))).expect("somebody waits");
        pending
    }

    fn test_webhook(&self, name: &str) -> bool {
        name == "takes"
    }

    fn webhooks(&self) -> Vec<WebhookStatus> {
        vec![WebhookStatus {
            name: "chat".to_owned(),
            waiting: 1,
            delivered: 2,
            retried: 3,
            failed: 4,
            dropped: 5,
            ended: false,
            error: None,
        }]
    }
}
