//! Quotas of folders: what lies in them is counted, and the oldest removed where a quota says so.
//!
//! Promise: room is made before an upload needs it: some of each quota is kept free. Removals are those of `keep`: through the server, beside
//! its streams, each in the event log. Not here: holding uploads to a quota (`service::quota`).

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use dirstore::StoreError;
use service::MediaService;
use service::quota::{Quota, WhenQuotaFull};
use tokio::sync::watch;
use units::ByteCount;

use super::keep::{self, Limits};
use crate::copy::MoveProgress;
use crate::output::say;

/// How often folders are counted: other programs than this server may have written there.
const PERIOD: Duration = Duration::from_secs(60);
/// After that, they are not counted again for so many times as long as it took: uploads that are refused one after the
/// other must not keep a disk busy.
const PAUSE_TIMES: u32 = 9;

/// Looks after the quotas of a service until it is gone.
pub(crate) async fn look_after(service: Weak<MediaService>) {
    let (_goes_on, stop) = watch::channel(false);
    while let Some(here) = service.upgrade() {
        let (quotas, began) = (Arc::clone(&here.quotas), Instant::now());
        for quota in quotas.all() {
            if let Err(error) = count(&here, &quota, &stop).await {
                say(format_args!("the quota of `{}`: {error:#}", quota.config.folder.joined()));
            }
        }
        drop(here);
        tokio::time::sleep(began.elapsed() * PAUSE_TIMES).await;
        // Both mean the same: it is time to look.
        let _ = tokio::time::timeout(PERIOD, quotas.wanted()).await;
    }
}

async fn count(service: &MediaService, quota: &Quota, stop: &watch::Receiver<bool>) -> anyhow::Result<()> {
    quota.begin_look();
    let contents = match keep::contents(service, &quota.config.folder, stop).await {
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::NotFound)) => Vec::new(),
        contents => contents?,
    };
    let stored: u64 = contents.iter().map(|content| content.bytes).sum();
    quota.found(stored);
    if quota.config.when_full == WhenQuotaFull::OverwriteOldest && stored > quota.keep_bytes() {
        let limits = Limits {
            max_age: None,
            max_size: Some(ByteCount(quota.keep_bytes())),
            min_age: quota.config.min_age,
            protected: quota.config.protected.clone(),
        };
        let moved = MoveProgress::default();
        let removed = keep::remove(service, contents, &limits, &moved, stop).await;
        removed.context("removing the oldest")?;
        quota.found(stored - moved.moved_bytes());
    }
    Ok(())
}
