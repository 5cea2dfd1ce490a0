//! Quotas: how much may lie below a folder, known without asking a disk.
//!
//! Promise: what is under way counts; an upload that does not fit is refused before its first byte where its length is known, else with the
//! first byte too many. Not here: looking what lies in a folder and removing the oldest of it, for whoever waits in
//! [`Quotas::wanted`].

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use units::Nanos;

use crate::contents::{ContentPath, StoreError};

/// Where the oldest contents are overwritten, one part in so many of a quota is kept free. Removing begins when half of
/// that is used.
const SPARE: u64 = 16;
/// An upload waits so long for the oldest to be removed.
const ROOM_TIME_MAX: Duration = Duration::from_secs(10);

/// What a folder may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaConfig {
    /// The folder that is limited.
    pub folder: ContentPath,
    /// Bytes of all contents below it.
    pub bytes_max: u64,
    /// What happens when it is full.
    pub when_full: WhenQuotaFull,
    /// Contents that are younger are not overwritten.
    pub min_age: Nanos,
    /// Contents, and folders with all in them, that are not overwritten.
    pub protected: Vec<ContentPath>,
}

/// What happens when a quota is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenQuotaFull {
    /// Uploads are refused.
    Refuse,
    /// The oldest contents go, before the room is needed.
    OverwriteOldest,
}

/// All quotas.
#[derive(Debug, Default)]
pub struct Quotas {
    all: RwLock<Vec<Arc<Quota>>>,
    wanted: Arc<Notify>,
}

/// A quota and what is counted towards it.
#[derive(Debug)]
pub struct Quota {
    /// What was set.
    pub config: QuotaConfig,
    counts: watch::Sender<QuotaCounts>,
    wanted: Arc<Notify>,
}

#[derive(Debug, Default, Clone, Copy)]
struct QuotaCounts {
    /// Bytes that were counted in the folder, and those stored since that look began.
    stored: u64,
    /// Bytes stored since the last look began: it may have seen them, or not.
    stored_since_look: u64,
    /// Something was stored or removed since the last look began.
    is_changed: bool,
    /// Something was during the last look, or since: there may be more room than is counted.
    is_estimate: bool,
    /// Bytes of uploads under way: announced, or come where nothing was announced.
    coming: u64,
}

impl QuotaCounts {
    /// A content was stored with so many bytes, or one was removed.
    const fn change(&mut self, stored: u64) {
        self.stored = self.stored.saturating_add(stored);
        self.stored_since_look = self.stored_since_look.saturating_add(stored);
        (self.is_changed, self.is_estimate) = (true, true);
    }
}

impl Quotas {
    /// Puts other quotas in force. What is under way goes on counting towards those it began with.
    pub(crate) fn configure(&self, configs: &[QuotaConfig]) {
        let quota = |config: &QuotaConfig| {
            let (counts, wanted) = (watch::Sender::default(), Arc::clone(&self.wanted));
            Arc::new(Quota { config: config.clone(), counts, wanted })
        };
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = configs.iter().map(quota).collect();
        self.wanted.notify_one();
    }

    /// The quotas in force.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Quota>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until a look at the folders is wanted: room has to be made, or there may be more than was counted.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Counts an upload to `path` towards all quotas that it lies in, with the bytes that were announced.
    ///
    /// # Errors
    /// One of them has no room.
    pub(crate) async fn take(&self, path: &ContentPath, length: Option<u64>) -> Result<QuotaShare, StoreError> {
        let quotas = self.all().into_iter().filter(|quota| is_in(path, &quota.config.folder)).collect();
        let mut share = QuotaShare { quotas, counted: 0 };
        share.count(length.unwrap_or(0));
        share.get_room(length.unwrap_or(0)).await?;
        Ok(share)
    }

    /// A content was removed: an upload may find room now.
    pub(crate) fn removed(&self, path: &ContentPath) {
        for quota in self.all().iter().filter(|quota| is_in(path, &quota.config.folder)) {
            quota.counts.send_modify(|counts| counts.change(0));
        }
    }
}

impl Quota {
    /// A look at the folder begins. What is stored before it ends counts besides what it finds, and may be counted twice.
    pub fn begin_look(&self) {
        self.counts.send_modify(|counts| (counts.stored_since_look, counts.is_changed) = (0, false));
    }

    /// Notes what was found in the folder.
    pub fn found(&self, bytes: u64) {
        self.counts.send_modify(|counts| {
            counts.stored = bytes.saturating_add(counts.stored_since_look);
            counts.is_estimate = counts.is_changed;
        });
    }

    /// How many of the bytes that are there may stay, where the oldest contents are overwritten.
    #[must_use]
    pub fn keep_bytes(&self) -> u64 {
        let coming = self.counts.borrow().coming;
        self.config.bytes_max.saturating_sub(self.config.bytes_max / SPARE).saturating_sub(coming)
    }

    fn fits(&self, counts: &QuotaCounts) -> bool {
        counts.stored.saturating_add(counts.coming) <= self.config.bytes_max
    }

    fn add(&self, bytes: u64) {
        self.counts.send_modify(|counts| counts.coming = counts.coming.saturating_add(bytes));
        let counts = *self.counts.borrow();
        let spare = self.config.bytes_max / SPARE / 2;
        let is_close = counts.stored.saturating_add(counts.coming) > self.config.bytes_max - spare;
        if !self.fits(&counts) || (is_close && self.config.when_full == WhenQuotaFull::OverwriteOldest) {
            self.wanted.notify_one();
        }
    }

    /// Waits for a look that says whether what is coming fits, or for the oldest to be removed.
    async fn gets_room(&self, length: u64) -> bool {
        let may_come = |counts: &QuotaCounts| {
            length <= self.config.bytes_max
                && (counts.is_estimate || self.config.when_full == WhenQuotaFull::OverwriteOldest)
        };
        let mut counts = self.counts.subscribe();
        let decided = counts.wait_for(|counts| self.fits(counts) || !may_come(counts));
        let decided = tokio::time::timeout(ROOM_TIME_MAX, decided).await;
        matches!(decided, Ok(Ok(counts)) if self.fits(&counts))
    }
}

/// What one upload takes of the quotas it lies in, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct QuotaShare {
    quotas: Vec<Arc<Quota>>,
    counted: u64,
}

impl QuotaShare {
    /// So many bytes came in all.
    ///
    /// # Errors
    /// They do not fit.
    pub(crate) async fn came(&mut self, bytes: u64) -> Result<(), StoreError> {
        if bytes > self.counted {
            self.count(bytes);
            self.get_room(bytes).await?;
        }
        Ok(())
    }

    async fn get_room(&self, length: u64) -> Result<(), StoreError> {
        for quota in &self.quotas {
            if !quota.gets_room(length).await {
                return Err(StoreError::NoSpace);
            }
        }
        Ok(())
    }

    /// It is stored, with so many bytes.
    pub(crate) fn stored(&mut self, bytes: u64) {
        for quota in &self.quotas {
            quota.counts.send_modify(|counts| counts.change(bytes));
        }
    }

    fn count(&mut self, bytes: u64) {
        self.quotas.iter().for_each(|quota| quota.add(bytes - self.counted));
        self.counted = bytes;
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        for quota in &self.quotas {
            quota.counts.send_modify(|counts| counts.coming = counts.coming.saturating_sub(self.counted));
        }
    }
}

/// Whether `path` is `folder`, or lies below it.
#[must_use]
pub fn is_in(path: &ContentPath, folder: &ContentPath) -> bool {
    path.components().starts_with(folder.components())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ContentPath {
        ContentPath::parse_encoded(text).expect("a path")
    }

    fn quotas(when_full: WhenQuotaFull) -> Quotas {
        let config = |folder: &str, bytes_max| QuotaConfig {
            folder: path(folder),
            bytes_max,
            when_full,
            min_age: Nanos::ZERO,
            protected: Vec::new(),
        };
        let quotas = Quotas::default();
        quotas.configure(&[config("a", 100), config("a/b", 60)]);
        quotas
    }

    #[tokio::test]
    async fn what_is_under_way_counts_in_every_folder_it_lies_in() {
        let quotas = quotas(WhenQuotaFull::Refuse);
        let [outer, inner] = [&quotas.all()[0], &quotas.all()[1]].map(Arc::clone);
        outer.found(30);
        let first = quotas.take(&path("a/b/x"), Some(50)).await.expect("room in both");
        assert!(quotas.take(&path("a/b/y"), Some(11)).await.is_err(), "50 + 11 > 60");
        assert!(quotas.take(&path("a/y"), Some(21)).await.is_err(), "30 + 50 + 21 > 100");
        assert!(quotas.take(&path("ab/y"), Some(1 << 40)).await.is_ok(), "another folder");
        let mut growing = quotas.take(&path("a/y"), None).await.expect("nothing was announced");
        assert!(growing.came(20).await.is_ok() && growing.came(20).await.is_ok() && growing.came(21).await.is_err());
        drop((first, growing));
        let mut stored = quotas.take(&path("a/b/x"), Some(60)).await.expect("the room is given back");
        stored.stored(60);
        drop(stored);
        // What was stored since a look began is counted, and whoever does not fit waits for another look.
        [&inner, &outer].into_iter().for_each(|quota| quota.found(0));
        let waits = tokio::time::timeout(Duration::from_millis(20), quotas.take(&path("a/b/y"), Some(1))).await;
        assert!(waits.is_err(), "nobody looks");
        for quota in [&inner, &outer] {
            quota.begin_look();
            quota.found(60);
        }
        assert!(quotas.take(&path("a/b/y"), Some(1)).await.is_err(), "nothing was stored meanwhile");
        quotas.removed(&path("a/b/x"));
        let name = path("a/b/y");
        let (taken, ()) = tokio::join!(quotas.take(&name, Some(60)), async {
            for quota in [&inner, &outer] {
                quota.begin_look();
                quota.found(0);
            }
        });
        assert!(taken.is_ok());
    }

    #[tokio::test]
    async fn where_the_oldest_goes_an_upload_waits_for_its_room() {
        let quotas = Arc::new(quotas(WhenQuotaFull::OverwriteOldest));
        let outer = Arc::clone(&quotas.all()[0]);
        outer.found(95);
        let remover = tokio::spawn({
            let (quotas, outer) = (Arc::clone(&quotas), Arc::clone(&outer));
            async move {
                loop {
                    quotas.wanted().await;
                    outer.found(outer.keep_bytes());
                }
            }
        });
        let share = quotas.take(&path("a/x"), Some(80)).await.expect("the oldest goes");
        assert_eq!(outer.keep_bytes(), 14, "100, less 80 that come, less a sixteenth");
        drop(share);
        remover.abort();
        outer.found(95);
        let waits = tokio::time::timeout(Duration::from_millis(20), quotas.take(&path("a/x"), Some(6))).await;
        assert!(waits.is_err(), "nobody removes anything");
        assert!(quotas.take(&path("a/x"), Some(101)).await.is_err());
    }
}
