//! The job `keep`: removes the oldest contents of a folder.
//!
//! Promise: only files that lie in the folder itself or a folder below it, not the targets of links out of it, are counted and removed, each once even if several names or links
//! lead to it. A file younger than `min_age` stays, and so does a content that changed since the job read its age. A failed
//! removal does not stop the others. Every removal is in the event log. Folders stay, even empty ones. Not here: the protected
//! files (`protected`).

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use api::{RemovableContent, Removals};
use copy::{Failures, MoveProgress};
use service::access::{Permit, ToDelete};
use service::clock_watch::clock_lead;
use service::events::Remover;
use service::operations::RemovalLimits;
use service::{MediaService, ingest};
use store::{ContentPath, FileId, StoreError, StoredItem, WalkedFile, WalkedKind};
use tokio::sync::watch;
use units::{ByteCount, Nanos, counted};

use super::protected::Protected;

/// Most contents of a folder that the job examines, at 400 bytes of memory each.
const CONTENTS_MAX: usize = 1_000_000;

/// Most contents that a dry run names.
const REMOVALS_LISTED: usize = 1000;

/// A file of the folder, with all its names there.
#[derive(Debug)]
struct OldContent {
    names: Vec<StoredItem>,
    path: PathBuf,
    age: Duration,
    bytes: u64,
    /// The file is protected, or hidden from clients.
    stays: bool,
    /// Its modification time is in the future.
    is_ahead: bool,
}

/// The files of a folder, as a scan found them.
#[derive(Debug, Default)]
pub(super) struct Look {
    contents: Vec<OldContent>,
    /// Bytes of all files, each counted once.
    pub(super) stored: u64,
    /// The folder and those below it.
    pub(super) folders: HashSet<FileId>,
    /// Errors of folders and files that could not be examined.
    pub(super) failures: Failures,
    /// There are more than [`CONTENTS_MAX`] contents: they are counted, and none is removed.
    is_too_long: bool,
}

/// Removes the contents beyond the limits, the oldest first, for the job `name`.
///
/// # Errors
/// The store's error; a list of the contents that could not be examined or removed.
pub(super) async fn keep(
    service: &MediaService,
    name: &str,
    limits: &RemovalLimits,
    moved: &MoveProgress,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut protected = Protected::find(service, &limits.protected).await.context("looking up protected contents")?;
    let look = look(service, &limits.folder, &mut protected, stop).await?;
    look.check()?;
    protected.check()?;
    let done = |bytes| moved.file_is_done(bytes);
    let mut failures = Failures::default();
    let limits = by_clock(limits, clock_lead(service));
    let left = look.remove(service, &limits, (&mut failures, stop), done, |reason| Remover::Job { name, reason });
    left.await;
    failures.judge("passed over; the others were checked")
}

/// The contents that these limits would remove now; removes nothing.
///
/// # Errors
/// The folder does not exist, or the store's error.
pub(super) async fn would_remove(service: &MediaService, limits: &RemovalLimits) -> anyhow::Result<Removals> {
    let (_stop_sender, stop) = watch::channel(false);
    let mut protected = Protected::find(service, &limits.protected).await.context("looking up protected contents")?;
    let mut look = look(service, &limits.folder, &mut protected, &stop).await?;
    let failures = std::mem::take(&mut look.failures);
    let judged = look.check().and_then(|()| protected.check());
    let problem = judged.and_then(|()| failures.judge("not looked at"));
    Ok(Removals {
        problem: problem.err().map(|error| format!("{error:#}")),
        ..look.would_remove(&by_clock(limits, clock_lead(service)))
    })
}

/// The limits for a clock that was set ahead by `lead`: `max_age` grows by it, so that the jump removes no content.
fn by_clock(limits: &RemovalLimits, lead: Duration) -> RemovalLimits {
    let max_age = limits.max_age.map(|max_age| max_age.saturating_add(Nanos::from(lead)));
    RemovalLimits { max_age, ..limits.clone() }
}

/// Scans a folder and the folders below it.
///
/// # Errors
/// The folder does not exist.
pub(super) async fn look(
    service: &MediaService,
    folder: &ContentPath,
    protected: &mut Protected,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<Look> {
    let now = SystemTime::now();
    let mut walk = service.walk(&Permit::of_configuration(folder.clone())).await.with_context(|| folder.to_string())?;
    let all_stays = protected.protects_all(walk.ids());
    let mut look = Look { folders: walk.ids().iter().copied().collect(), ..Look::default() };
    // Index in `look.contents` of each content that has several names.
    let mut linked: HashMap<FileId, usize> = HashMap::new();
    while let Some(item) = walk.next().await {
        if *stop.borrow() {
            return Ok(Look::default());
        }
        let item = match item {
            Ok(item) => item,
            Err(error) => {
                look.failures.add(error);
                continue;
            }
        };
        let stays = protected.protects(folder, &item.walked) || all_stays || !item.is_shown;
        match item.walked.kind {
            WalkedKind::Folder(id) => look.folders.extend(id),
            WalkedKind::Other => {}
            WalkedKind::File(file) => {
                let known = linked.get(&file.id()).and_then(|at| look.contents.get_mut(*at));
                match known.filter(|_| file.is_again) {
                    Some(content) => {
                        content.names.push(item);
                        content.stays |= stays;
                    }
                    None if file.is_again => {}
                    None => {
                        look.stored += file.bytes();
                        if file.links > 1 {
                            linked.insert(file.id(), look.contents.len());
                        }
                        look.add(OldContent::new(item, &file, stays, now));
                    }
                }
            }
        }
    }
    Ok(look)
}

impl OldContent {
    fn new(item: StoredItem, file: &WalkedFile, stays: bool, now: SystemTime) -> Self {
        let is_ahead = file.modified() > now;
        // A modification time in the future is not used; the age counts from the file's last change in the file system.
        let written = if is_ahead { file.changed().unwrap_or(now) } else { file.modified() };
        let age = now.duration_since(written).unwrap_or_default();
        Self { path: item.walked.path.clone(), names: vec![item], age, bytes: file.bytes(), stays, is_ahead }
    }
}

/// The limit that removes a content of this age when `bytes_left` remain; `None` if the content stays.
fn reason(limits: &RemovalLimits, age: Duration, bytes_left: u64) -> Option<&'static str> {
    let span = |nanos: Nanos| Duration::from_nanos(nanos.0);
    if age < span(limits.min_age) {
        return None;
    }
    let is_old = limits.max_age.is_some_and(|max_age| age > span(max_age));
    let is_too_much = limits.max_size.is_some_and(|size| bytes_left > size.0);
    if is_old { Some("max_age") } else { is_too_much.then_some("max_size") }
}

impl Look {
    fn add(&mut self, content: OldContent) {
        self.is_too_long |= self.contents.len() >= CONTENTS_MAX;
        if self.is_too_long {
            self.contents = Vec::new();
        } else {
            self.contents.push(content);
        }
    }

    /// Fails if there were too many contents to find the oldest.
    ///
    /// # Errors
    /// There are more contents than the bound, which the error names.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !self.is_too_long,
            "more than {CONTENTS_MAX} contents, so nothing is removed: name a folder with fewer"
        );
        Ok(())
    }

    /// Bytes of the contents that may be removed to make room.
    pub(super) fn removable(&self, min_age: Nanos) -> u64 {
        let may_go = |content: &&OldContent| !content.stays && content.age >= Duration::from_nanos(min_age.0);
        self.contents.iter().filter(may_go).map(|content| content.bytes).sum()
    }

    /// The contents that [`Look::remove`] would remove if every removal succeeded.
    pub(super) fn would_remove(mut self, limits: &RemovalLimits) -> Removals {
        self.oldest_first();
        let folder = limits.folder.joined();
        let below = PathBuf::from(&folder);
        let mut removals = Removals { folder, stored_bytes: self.stored, ..Removals::default() };
        for content in &self.contents {
            let left = self.stored - removals.bytes;
            let Some(reason) = reason(limits, content.age, left).filter(|_| !content.stays) else { continue };
            removals.contents += 1;
            removals.bytes += content.bytes;
            if removals.first.len() < REMOVALS_LISTED {
                removals.first.push(RemovableContent {
                    path: below.join(&content.path).display().to_string(),
                    bytes: content.bytes,
                    age_seconds: content.age.as_secs_f64(),
                    reason: reason.to_owned(),
                });
            }
        }
        removals
    }

    fn oldest_first(&mut self) {
        self.contents.sort_by(|a, b| b.age.cmp(&a.age).then_with(|| a.path.cmp(&b.path)));
    }

    /// Removes the contents beyond the limits, the oldest first; `done` gets the bytes of each.
    pub(super) async fn remove<'a>(
        mut self,
        service: &MediaService,
        limits: &RemovalLimits,
        (failures, stop): (&mut Failures, &watch::Receiver<bool>),
        done: impl Fn(u64),
        remover: impl Fn(&'static str) -> Remover<'a>,
    ) {
        let permit = Permit::<ToDelete>::of_configuration(limits.folder.clone());
        *failures = std::mem::take(&mut self.failures);
        self.oldest_first();
        let (mut left, mut ahead) = (self.stored, 0);
        for content in self.contents {
            if *stop.borrow() {
                return;
            }
            let Some(reason) = reason(limits, content.age, left).filter(|_| !content.stays) else {
                ahead += u64::from(content.is_ahead);
                continue;
            };
            // Removing the last name frees the file.
            let mut is_gone = true;
            for item in &content.names {
                match ingest::remove(service, &permit, item, remover(reason)).await {
                    Ok(()) => {}
                    // It was removed by another program, or replaced.
                    Err(StoreError::NotFound | StoreError::PreconditionFailed) => is_gone = false,
                    Err(error) => {
                        is_gone = false;
                        failures.add(format_args!("{}: {error}", item.walked.path.display()));
                    }
                }
            }
            if is_gone {
                left -= content.bytes;
                done(content.bytes);
            }
        }
        if ahead > 0 && limits.max_size.is_some_and(|size| left > size.0) {
            failures.add(format_args!(
                "{}, dated after now, counted from when it was stored: {} are left",
                counted(ahead, "content"),
                ByteCount(left)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(max_age: Option<u64>, max_size: Option<u64>) -> RemovalLimits {
        let hours = |hours: u64| Nanos::from_secs(3600 * hours);
        RemovalLimits {
            folder: ContentPath::root().child("cams").expect("a name"),
            max_age: max_age.map(hours),
            max_size: max_size.map(ByteCount),
            min_age: hours(1),
            protected: Vec::new(),
        }
    }

    /// The names of the removed ones of four contents, which have different ages and sizes.
    fn gone(limits: &RemovalLimits) -> Vec<&'static str> {
        let all = [("a", 30, 10), ("b", 30, 20), ("c", 5, 30), ("new", 0, 50)];
        let mut left: u64 = all.iter().map(|(_, _, bytes)| bytes).sum();
        let goes = |(name, hours, bytes): &(&'static str, u64, u64)| {
            reason(limits, Duration::from_secs(3600 * hours), left)?;
            left -= bytes;
            Some(*name)
        };
        all.iter().filter_map(goes).collect()
    }

    #[test]
    fn the_oldest_go_first_and_the_youngest_never() {
        assert!(gone(&limits(None, None)).is_empty());
        assert!(gone(&limits(Some(30), None)).is_empty(), "just as old is not older");
        assert_eq!(gone(&limits(Some(29), None)), ["a", "b"]);
        assert_eq!(gone(&limits(None, Some(100))), ["a"]);
        assert_eq!(gone(&limits(None, Some(99))), ["a", "b"]);
        assert_eq!(gone(&limits(None, Some(1))), ["a", "b", "c"], "the newest is too young");
        assert_eq!(gone(&limits(Some(29), Some(80))), ["a", "b"], "what went by age counts");
        assert!(gone(&by_clock(&limits(Some(29), None), Duration::from_secs(86_400))).is_empty(), "a clock set ahead");
        let old = RemovalLimits { min_age: Nanos::from_secs(3600 * 31), ..limits(Some(1), None) };
        assert!(gone(&old).is_empty());
        assert_eq!(reason(&limits(Some(29), Some(1)), Duration::from_secs(3600 * 30), 5), Some("max_age"));
        assert_eq!(reason(&limits(None, Some(1)), Duration::from_secs(3600), 2), Some("max_size"));
    }

    #[test]
    fn a_dry_run_names_the_contents_that_a_run_removes() {
        let content = |(name, hours, bytes): (&str, u64, u64), stays| OldContent {
            names: Vec::new(),
            path: name.into(),
            age: Duration::from_secs(3600 * hours),
            bytes,
            stays,
            is_ahead: false,
        };
        let look = || Look {
            contents: vec![
                content(("new", 0, 50), false),
                content(("c", 5, 30), false),
                content(("a", 30, 10), false),
                content(("kept", 40, 5), true),
                content(("b", 30, 20), false),
            ],
            stored: 115,
            ..Look::default()
        };
        let removals = look().would_remove(&limits(Some(29), Some(60)));
        let paths: Vec<_> = removals.first.iter().map(|one| (one.path.as_str(), one.reason.as_str())).collect();
        assert_eq!(paths, [("cams/a", "max_age"), ("cams/b", "max_age"), ("cams/c", "max_size")]);
        assert_eq!((removals.contents, removals.bytes, removals.stored_bytes), (3, 60, 115));
        assert_eq!(look().would_remove(&limits(None, None)).contents, 0);
    }
}
