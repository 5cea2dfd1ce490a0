//! Quotas of folders: the files in them are counted, and the oldest removed where a quota says so.
//!
//! Promise: room is made before an upload needs it: some of each quota is kept free. Removals are those of `keep`: through the server,
//! while streams run, each in the event log. Not here: holding uploads to a quota (`service::quota`).

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use copy::Failures;
use program::output::say;
use service::MediaService;
use service::events::Remover;
use service::operations::RemovalLimits;
use service::quota::{Quota, QuotaConfig, QuotaLook, Quotas, WhenQuotaFull};
use store::StoreError;
use tokio::sync::watch;
use units::ByteCount;

use super::keep::{self, Look};
use super::protected::Protected;

/// The period in which folders are counted: other programs than this server may have written there.
const PERIOD: Duration = Duration::from_secs(60);
/// After that, they are not counted again for this multiple of the count's duration: uploads that are refused one after the
/// other must not keep a disk busy.
const PAUSE_TIMES: u32 = 9;

/// Looks after the quotas of a service until it is gone.
pub(crate) async fn look_after(service: Weak<MediaService>) {
    let (_stop_sender, stop) = watch::channel(false);
    // The last message on each folder: the same one is not repeated each minute.
    let mut said: HashMap<String, String> = HashMap::new();
    while let Some(quotas) = service.upgrade().map(|here| Arc::clone(&here.quotas)) {
        // Both mean the same: it is time to look. New quotas are wanted at once, also those of the start.
        let _ = tokio::time::timeout(PERIOD, quotas.wanted()).await;
        let Some(here) = service.upgrade() else { return };
        let began = Instant::now();
        for quota in quotas.all() {
            let folder = quota.config.folder.joined();
            let problem = match count(&here, &folder, &quota, &stop).await {
                Ok(()) => String::new(),
                Err(error) => format!("{error:#}"),
            };
            let before = said.insert(folder.clone(), problem.clone());
            if !problem.is_empty() && before.as_ref() != Some(&problem) {
                say(format_args!("the quota of `{folder}`: {problem}"));
            }
        }
        drop(here);
        tokio::time::sleep(began.elapsed() * PAUSE_TIMES).await;
    }
}

/// The rule by which the ring of `folder` removes contents now; none if no quota of that folder overwrites the oldest.
pub(super) fn rule(quotas: &Quotas, folder: &str) -> Option<RemovalLimits> {
    ring_limits(quotas.all().iter().find(|quota| quota.config.folder.joined() == folder)?)
}

/// As [`removal_limits`], with room for the bytes that come now.
fn ring_limits(quota: &Quota) -> Option<RemovalLimits> {
    Some(RemovalLimits { max_size: Some(ByteCount(quota.keep_bytes())), ..removal_limits(&quota.config)? })
}

/// The rule by which a ring removes contents while nothing comes; none of a quota that refuses uploads.
pub fn removal_limits(quota: &QuotaConfig) -> Option<RemovalLimits> {
    (quota.when_full == WhenQuotaFull::OverwriteOldest).then(|| RemovalLimits {
        folder: quota.folder.clone(),
        max_age: None,
        max_size: Some(ByteCount(quota.keep_bytes())),
        min_age: quota.min_age,
        protected: quota.protected.clone(),
    })
}

async fn count(
    service: &MediaService,
    folder: &str,
    quota: &Quota,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let config = &quota.config;
    quota.begin_look();
    let mut protected = Protected::find(service, &config.protected).await?;
    let mut look = match keep::look(service, &config.folder, &mut protected, stop).await {
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::NotFound)) => Look::default(),
        look => look?,
    };
    // The removable contents are unknown while the protected ones are.
    let is_clear = protected.check();
    let removable = if is_clear.is_ok() { look.removable(config.min_age) } else { 0 };
    let (stored, folders) = (look.stored, std::mem::take(&mut look.folders));
    let unfinished = service.quotas.unfinished_below(&config.folder);
    quota.found(QuotaLook { stored, unfinished, removable, folders });
    if config.when_full == WhenQuotaFull::Refuse || stored <= quota.keep_bytes() {
        return look.failures.judge("not counted");
    }
    is_clear?;
    look.check()?;
    let Some(limits) = ring_limits(quota) else { return Ok(()) };
    let mut failures = Failures::default();
    let remover = |reason| Remover::Quota { folder, reason };
    let made_room = |bytes| quota.made_room(bytes);
    look.remove(service, &limits, (&mut failures, stop), made_room, remover).await;
    failures.judge("passed over; the others were checked")
}
