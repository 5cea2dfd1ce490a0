//! Quotas: the most bytes below a folder, known without a query to a disk.
//!
//! Promise: uploads under way count; an upload that does not fit is refused before its first byte where its length is known, else with the
//! first byte too many, and nothing is removed for an upload that cannot be stored. The quotas of an upload follow from the folder that its
//! path leads to, by any way. Not here: the look at the contents of a folder and the removal of the oldest, by the job that waits in
//! [`Quotas::wanted`].

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use units::{ByteCount, Nanos};

use crate::contents::{ContentPath, FileId, UploadPlace};

/// Where the oldest contents are overwritten, one part in this number of a quota is kept free. Removing begins when half of that is used.
const SPARE: u64 = 16;
/// Where the oldest contents are overwritten, a content may take one part in this number of a quota.
const SHARE: u64 = 2;
/// The part for a content that comes without its length and leaves nothing if it breaks off: it may be refused before it ends, and the
/// contents removed for it by then would have been removed for nothing.
const UNKNOWN_SHARE: u64 = 8;
/// Time for which an upload waits for the oldest to be removed.
const ROOM_TIME_MAX: Duration = Duration::from_secs(10);

/// Why a quota does not take an upload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuotaRefusal {
    /// There is no room.
    #[error(
        "the quota of `{folder}` has no room: {used} of {bytes_max} are used, uploads under way included, and {wanted} more do not fit{rest}"
    )]
    Full {
        /// Folder of the quota.
        folder: String,
        /// Most bytes that it holds.
        bytes_max: ByteCount,
        /// Stored and coming.
        used: ByteCount,
        /// Of this upload.
        wanted: ByteCount,
        /// Bytes that may be removed, where the oldest contents are overwritten.
        rest: String,
    },
    /// The content exceeds the largest share that one may take.
    #[error("the quota of `{folder}` is {bytes_max}, of which a content may take {share}{}", hint(*.is_unknown))]
    Share {
        /// Folder of the quota.
        folder: String,
        /// Most bytes that it holds.
        bytes_max: ByteCount,
        /// Most bytes of one content.
        share: ByteCount,
        /// Its length was not announced.
        is_unknown: bool,
    },
}

fn hint(is_unknown: bool) -> &'static str {
    if is_unknown { ", as its length was not announced (`Content-Length`)" } else { "" }
}

/// Limits on a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaConfig {
    /// The folder that is limited.
    pub folder: ContentPath,
    /// Bytes of all contents below it.
    pub bytes_max: u64,
    /// Action when it is full.
    pub when_full: WhenQuotaFull,
    /// Contents that are younger are not overwritten.
    pub min_age: Nanos,
    /// Contents, and folders with all in them, that are not overwritten.
    pub protected: Vec<ContentPath>,
}

impl QuotaConfig {
    /// How many of the bytes that are there may stay while nothing comes, where the oldest contents are overwritten.
    #[must_use]
    pub const fn keep_bytes(&self) -> u64 {
        self.bytes_max - self.bytes_max / SPARE
    }

    /// The folder as errors name it: `/` is all of them.
    fn shown(&self) -> String {
        if self.folder.joined().is_empty() { "/".to_owned() } else { self.folder.joined() }
    }
}

/// Action when a quota is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenQuotaFull {
    /// Uploads are refused.
    Refuse,
    /// The oldest contents go, before the room is needed.
    OverwriteOldest,
}

/// Uploads that are no contents yet: no look at a folder finds their bytes.
pub(crate) trait UnfinishedUploads: Send + Sync {
    /// Bytes of those below a folder.
    fn bytes_below(&self, folder: &ContentPath) -> u64;
}

/// All quotas.
#[derive(Debug, Default)]
pub struct Quotas {
    all: RwLock<Vec<Arc<Quota>>>,
    wanted: Arc<Notify>,
    unfinished: OnceLock<Weak<dyn UnfinishedUploads>>,
}

/// A quota and the counts towards it.
#[derive(Debug)]
pub struct Quota {
    /// The configuration.
    pub config: QuotaConfig,
    /// The folder itself and those below it, as the last look found them.
    folders: RwLock<HashSet<FileId>>,
    counts: watch::Sender<QuotaCounts>,
    wanted: Arc<Notify>,
}

/// Result of a look at a folder.
#[derive(Debug, Default)]
pub struct QuotaLook {
    /// Bytes of all files, each once.
    pub stored: u64,
    /// Bytes of uploads that are no contents yet ([`Quotas::unfinished_below`]).
    pub unfinished: u64,
    /// Bytes stored that may be removed to make room.
    pub removable: u64,
    /// The folder itself and those below it.
    pub folders: HashSet<FileId>,
}

#[derive(Debug, Default, Clone, Copy)]
struct QuotaCounts {
    /// Bytes that were counted in the folder, and those stored since that look began.
    stored: u64,
    /// Of these, the bytes of uploads that are no contents yet, as of the last look.
    unfinished: u64,
    /// Bytes that the last look would remove to make room.
    removable: u64,
    /// Bytes stored since the last look began: it may have seen them, or not.
    stored_since_look: u64,
    /// Something was stored or removed since the last look began.
    is_changed: bool,
    /// Something was during the last look, or since: there may be more room than is counted.
    is_estimate: bool,
    /// The folder was looked through.
    is_counted: bool,
    /// Bytes of uploads under way: announced, or come where nothing was announced.
    coming: u64,
}

impl QuotaCounts {
    /// Notes that a content was stored with `stored` bytes, or that one was removed.
    const fn change(&mut self, stored: u64) {
        self.stored = self.stored.saturating_add(stored);
        self.stored_since_look = self.stored_since_look.saturating_add(stored);
        (self.is_changed, self.is_estimate) = (true, true);
    }
}

/// The facts of an upload that its quotas use.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuotaTerms {
    /// Its length, if that was announced.
    pub(crate) length: Option<u64>,
    /// If it breaks off, the bytes received are kept.
    pub(crate) is_kept: bool,
    /// Its place, and the bytes that it replaces there.
    pub(crate) place: UploadPlace,
}

impl Quotas {
    /// Puts other quotas in force. Uploads under way continue to count towards those they began with.
    pub(crate) fn configure(&self, configs: &[QuotaConfig]) {
        let quota = |config: &QuotaConfig| {
            let (counts, wanted) = (watch::Sender::default(), Arc::clone(&self.wanted));
            Arc::new(Quota { config: config.clone(), folders: RwLock::default(), counts, wanted })
        };
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = configs.iter().map(quota).collect();
        self.wanted.notify_one();
    }

    /// Counts the bytes of these besides those that looks find.
    pub(crate) fn count_unfinished(&self, uploads: Weak<dyn UnfinishedUploads>) {
        let _ = self.unfinished.set(uploads);
    }

    /// Bytes below a folder of uploads that are no contents yet.
    #[must_use]
    pub fn unfinished_below(&self, folder: &ContentPath) -> u64 {
        self.unfinished.get().and_then(Weak::upgrade).map_or(0, |uploads| uploads.bytes_below(folder))
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

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Counts an upload to `path` towards all quotas that it lies in, with the bytes that were announced.
    ///
    /// # Errors
    /// One of them has no room.
    pub(crate) async fn take(&self, path: &ContentPath, terms: QuotaTerms) -> Result<QuotaShare, QuotaRefusal> {
        let quotas = self.all().into_iter().filter(|quota| quota.has(path, &terms.place.folders)).collect();
        let (length, replaced) = (terms.length.unwrap_or(0), terms.place.replaced_bytes);
        let is_unknown = terms.length.is_none() && !terms.is_kept;
        let mut share = QuotaShare { quotas, received: 0, replaced, counted: 0, is_unknown };
        share.came(length).await?;
        Ok(share)
    }

    /// A content was removed: an upload may find room now.
    pub(crate) fn removed(&self) {
        self.all().iter().for_each(|quota| quota.counts.send_modify(|counts| counts.change(0)));
    }
}

impl Quota {
    /// The quota and its use.
    #[must_use]
    pub fn status(&self) -> api::QuotaStatus {
        let counts = *self.counts.borrow();
        api::QuotaStatus {
            folder: self.config.folder.joined(),
            max_bytes: self.config.bytes_max,
            used_bytes: counts.stored.saturating_add(counts.coming),
            removable_bytes: counts.removable,
            overwrites: self.config.when_full == WhenQuotaFull::OverwriteOldest,
            counted: counts.is_counted,
        }
    }

    /// A look at the folder begins. Bytes stored before it ends count besides those that it finds, and may be counted twice.
    pub fn begin_look(&self) {
        self.counts.send_modify(|counts| (counts.stored_since_look, counts.is_changed) = (0, false));
    }

    /// Notes the result of a look at the folder.
    pub fn found(&self, look: QuotaLook) {
        *self.folders.write().unwrap_or_else(PoisonError::into_inner) = look.folders;
        self.counts.send_modify(|counts| {
            counts.unfinished = look.unfinished;
            counts.stored = look.stored.saturating_add(look.unfinished).saturating_add(counts.stored_since_look);
            counts.removable = look.removable;
            counts.is_estimate = counts.is_changed;
            counts.is_counted = true;
        });
    }

    /// Notes that `bytes` of those found were removed.
    pub fn made_room(&self, bytes: u64) {
        self.counts.send_modify(|counts| {
            counts.stored = counts.stored.saturating_sub(bytes);
            counts.removable = counts.removable.saturating_sub(bytes);
        });
    }

    /// How many of the bytes that are there may stay, where the oldest contents are overwritten. Bytes still to come get room only if there
    /// can be enough.
    #[must_use]
    pub fn keep_bytes(&self) -> u64 {
        let counts = *self.counts.borrow();
        let coming = if self.may_fit(&counts) { counts.coming } else { 0 };
        self.config.keep_bytes().saturating_sub(coming).saturating_sub(counts.unfinished)
    }

    /// Whether an upload to `path`, which comes to lie in `folders`, lies in this one.
    fn has(&self, path: &ContentPath, folders: &[FileId]) -> bool {
        let found = self.folders.read().unwrap_or_else(PoisonError::into_inner);
        path.lies_in(&self.config.folder) || folders.iter().any(|folder| found.contains(folder))
    }

    /// Most bytes that one content may take.
    fn content_bytes_max(&self, is_unknown: bool) -> u64 {
        match self.config.when_full {
            WhenQuotaFull::Refuse => self.config.bytes_max,
            WhenQuotaFull::OverwriteOldest if is_unknown => self.config.bytes_max / UNKNOWN_SHARE,
            WhenQuotaFull::OverwriteOldest => self.config.bytes_max / SHARE,
        }
    }

    fn fits(&self, counts: &QuotaCounts) -> bool {
        counts.stored.saturating_add(counts.coming) <= self.config.bytes_max
    }

    /// Whether it would, once all is removed that may be.
    fn may_fit(&self, counts: &QuotaCounts) -> bool {
        let rest = counts.stored.saturating_sub(counts.removable);
        self.config.when_full == WhenQuotaFull::OverwriteOldest
            && rest.saturating_add(counts.coming) <= self.config.bytes_max
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

    /// Waits for a look that shows whether the bytes still to come fit, or for the removal of the oldest.
    async fn get_room(&self, wanted: u64) -> Result<(), QuotaRefusal> {
        let may_come = |counts: &QuotaCounts| counts.is_estimate || self.may_fit(counts);
        let mut counts = self.counts.subscribe();
        let decided = counts.wait_for(|counts| self.fits(counts) || !may_come(counts));
        let decided = tokio::time::timeout(ROOM_TIME_MAX, decided).await;
        if matches!(decided, Ok(Ok(counts)) if self.fits(&counts)) {
            return Ok(());
        }
        let counts = *self.counts.borrow();
        let rest = match self.config.when_full {
            WhenQuotaFull::Refuse => String::new(),
            WhenQuotaFull::OverwriteOldest => format!("; {} may be removed now", ByteCount(counts.removable)),
        };
        Err(QuotaRefusal::Full {
            folder: self.config.shown(),
            bytes_max: ByteCount(self.config.bytes_max),
            used: ByteCount(counts.stored.saturating_add(counts.coming).saturating_sub(wanted)),
            wanted: ByteCount(wanted),
            rest,
        })
    }
}

/// The share of one upload in its quotas, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct QuotaShare {
    quotas: Vec<Arc<Quota>>,
    received: u64,
    /// Bytes of the content that it replaces, which need not be free besides.
    replaced: u64,
    counted: u64,
    is_unknown: bool,
}

impl QuotaShare {
    /// Notes that `bytes` came in all, or will.
    ///
    /// # Errors
    /// They do not fit.
    pub(crate) async fn came(&mut self, bytes: u64) -> Result<(), QuotaRefusal> {
        self.received = self.received.max(bytes);
        self.count().await
    }

    /// Whether it counts less for the content that it replaces.
    pub(crate) fn replaces(&self) -> bool {
        self.replaced > 0 && !self.quotas.is_empty()
    }

    /// Notes that the replaced content now has `bytes`.
    ///
    /// # Errors
    /// It does not fit any more: the content to be replaced was removed meanwhile, and the room was taken.
    pub(crate) async fn replaces_now(&mut self, bytes: u64) -> Result<(), QuotaRefusal> {
        self.replaced = self.replaced.min(bytes);
        self.count().await
    }

    async fn count(&mut self) -> Result<(), QuotaRefusal> {
        for quota in &self.quotas {
            let share = quota.content_bytes_max(self.is_unknown);
            if self.received > share {
                return Err(QuotaRefusal::Share {
                    folder: quota.config.shown(),
                    bytes_max: ByteCount(quota.config.bytes_max),
                    share: ByteCount(share),
                    is_unknown: self.is_unknown && share < quota.content_bytes_max(false),
                });
            }
        }
        let counted = self.received.saturating_sub(self.replaced);
        if counted <= self.counted {
            return Ok(());
        }
        self.quotas.iter().for_each(|quota| quota.add(counted - self.counted));
        self.counted = counted;
        for quota in &self.quotas {
            quota.get_room(counted).await?;
        }
        Ok(())
    }

    /// Notes that it is stored, with `bytes`.
    pub(crate) fn stored(&mut self, bytes: u64) {
        for quota in &self.quotas {
            quota.counts.send_modify(|counts| counts.change(bytes.saturating_sub(self.replaced)));
        }
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        for quota in &self.quotas {
            quota.counts.send_modify(|counts| counts.coming = counts.coming.saturating_sub(self.counted));
        }
    }
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

    fn found(quota: &Quota, stored: u64, removable: u64) {
        quota.found(QuotaLook { stored, unfinished: 0, removable, folders: HashSet::new() });
    }

    fn of(length: impl Into<Option<u64>>) -> QuotaTerms {
        QuotaTerms { length: length.into(), ..QuotaTerms::default() }
    }

    #[tokio::test]
    async fn an_upload_under_way_counts_in_every_folder_above_it() {
        let quotas = quotas(WhenQuotaFull::Refuse);
        let [outer, inner] = [&quotas.all()[0], &quotas.all()[1]].map(Arc::clone);
        found(&outer, 30, 0);
        let first = quotas.take(&path("a/b/x"), of(50)).await.expect("room in both");
        assert!(quotas.take(&path("a/b/y"), of(11)).await.is_err(), "50 + 11 > 60");
        assert!(quotas.take(&path("a/y"), of(21)).await.is_err(), "30 + 50 + 21 > 100");
        assert!(quotas.take(&path("ab/y"), of(1 << 40)).await.is_ok(), "another folder");
        let mut growing = quotas.take(&path("a/y"), of(None)).await.expect("nothing was announced");
        assert!(growing.came(20).await.is_ok() && growing.came(20).await.is_ok() && growing.came(21).await.is_err());
        drop((first, growing));
        let mut stored = quotas.take(&path("a/b/x"), of(60)).await.expect("the room is given back");
        stored.stored(60);
        drop(stored);
        // Bytes stored since a look began are counted, and an upload that does not fit waits for another look.
        [&inner, &outer].into_iter().for_each(|quota| found(quota, 0, 0));
        let waits = tokio::time::timeout(Duration::from_millis(20), quotas.take(&path("a/b/y"), of(1))).await;
        assert!(waits.is_err(), "nobody looks");
        for quota in [&inner, &outer] {
            quota.begin_look();
            found(quota, 60, 0);
        }
        let full = quotas.take(&path("a/b/y"), of(1)).await.expect_err("nothing was stored meanwhile");
        let said = full.to_string();
        assert!(said.starts_with("the quota of `a/b` has no room: 60 B of 60 B are used"), "{said}");
        quotas.removed();
        let name = path("a/b/y");
        let (taken, ()) = tokio::join!(quotas.take(&name, of(60)), async {
            for quota in [&inner, &outer] {
                quota.begin_look();
                found(quota, 0, 0);
            }
        });
        assert!(taken.is_ok());
    }

    #[tokio::test]
    async fn a_content_is_replaced_though_both_would_not_fit() {
        let quotas = quotas(WhenQuotaFull::Refuse);
        let [outer, inner] = [&quotas.all()[0], &quotas.all()[1]].map(Arc::clone);
        let all = |stored| {
            for quota in [&outer, &inner] {
                quota.begin_look();
                found(quota, stored, 0);
            }
        };
        all(60);
        let place = UploadPlace { replaced_bytes: 60, ..UploadPlace::default() };
        let replacing = |length| QuotaTerms { place: place.clone(), ..of(length) };
        assert!(quotas.take(&path("a/b/x"), replacing(61)).await.is_err(), "one more than there was");
        let mut share = quotas.take(&path("a/b/x"), replacing(60)).await.expect("the one takes the other's room");
        assert!(share.replaces());
        // Meanwhile the old one was removed, and another one stored in its room.
        assert!(share.replaces_now(60).await.is_ok() && share.replaces_now(0).await.is_err());
        drop(share);
        all(0);
        let mut share = quotas.take(&path("a/b/x"), replacing(60)).await.expect("room");
        assert!(share.replaces_now(0).await.is_ok());
        assert!(quotas.take(&path("a/b/y"), of(1)).await.is_err(), "it counts in full now");
    }

    #[tokio::test]
    async fn an_upload_counts_in_a_quota_by_every_way_to_it() {
        let quotas = quotas(WhenQuotaFull::Refuse);
        let id = |inode| FileId { device: 1, inode };
        let outer = &quotas.all()[0];
        outer.found(QuotaLook { stored: 90, unfinished: 0, removable: 0, folders: HashSet::from([id(7), id(8)]) });
        let by =
            |inode| QuotaTerms { place: UploadPlace { folders: vec![id(inode), id(2)], replaced_bytes: 0 }, ..of(11) };
        assert!(quotas.take(&path("alias/x"), by(8)).await.is_err());
        assert!(quotas.take(&path("alias/x"), by(9)).await.is_ok());
    }

    #[tokio::test]
    async fn an_upload_waits_for_the_room_of_the_oldest() {
        let quotas = Arc::new(quotas(WhenQuotaFull::OverwriteOldest));
        let outer = Arc::clone(&quotas.all()[0]);
        found(&outer, 95, 95);
        let remover = tokio::spawn({
            let (quotas, outer) = (Arc::clone(&quotas), Arc::clone(&outer));
            async move {
                loop {
                    quotas.wanted().await;
                    let kept = outer.keep_bytes();
                    found(&outer, kept, kept);
                }
            }
        });
        let share = quotas.take(&path("a/x"), of(50)).await.expect("the oldest goes");
        assert_eq!(outer.keep_bytes(), 44, "100, less 50 that come, less a sixteenth");
        drop(share);
        remover.abort();
        found(&outer, 95, 95);
        let waits = tokio::time::timeout(Duration::from_millis(20), quotas.take(&path("a/x"), of(6))).await;
        assert!(waits.is_err(), "nobody removes anything");
    }

    #[tokio::test]
    async fn a_quota_of_everything_has_a_name() {
        let quotas = quotas(WhenQuotaFull::Refuse);
        let everything = QuotaConfig { folder: path(""), ..quotas.all()[0].config.clone() };
        quotas.configure(&[everything]);
        let said = quotas.take(&path("a/x"), of(101)).await.expect_err("more than all").to_string();
        assert!(said.starts_with("the quota of `/` is 100 B"), "{said}");
    }

    #[tokio::test]
    async fn nothing_is_removed_for_an_upload_that_cannot_be_stored() {
        let quotas = quotas(WhenQuotaFull::OverwriteOldest);
        let outer = Arc::clone(&quotas.all()[0]);
        found(&outer, 90, 90);
        let said = quotas.take(&path("a/x"), of(51)).await.expect_err("more than half").to_string();
        assert_eq!(said, "the quota of `a` is 100 B, of which a content may take 50 B");
        let mut growing = quotas.take(&path("a/x"), of(None)).await.expect("it may fit");
        assert!(growing.came(10).await.is_ok());
        let said = growing.came(13).await.expect_err("more than an eighth").to_string();
        assert!(said.ends_with("12 B, as its length was not announced (`Content-Length`)"), "{said}");
        drop(growing);
        let recording = QuotaTerms { is_kept: true, ..of(None) };
        let mut recording = quotas.take(&path("a/x"), recording).await.expect("what comes of it stays");
        assert!(recording.came(10).await.is_ok() && recording.came(51).await.is_err());
        drop(recording);
        // Half of it may not go: there can be no room for this one.
        found(&outer, 90, 35);
        assert!(quotas.take(&path("a/x"), of(50)).await.is_err());
        let _counts = quotas.take(&path("a/x"), of(10)).await;
        assert_eq!(outer.keep_bytes(), 84, "nothing is coming");
    }
}
