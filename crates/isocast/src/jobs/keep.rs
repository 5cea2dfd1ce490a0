//! `keep`: removes the oldest contents of a folder.
//!
//! Promise: what is younger than `min_age` stays, and so does what was changed since it was looked at; every removal is in the event
//! log, as if a client had asked for it. Folders stay, also empty ones.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use dirstore::{ContentPath, NameKind, Precondition, StoreError};
use service::access::WritePermit;
use service::quota::is_in;
use service::{MediaService, ingest};
use tokio::sync::watch;
use units::{ByteCount, Nanos};

use crate::copy::MoveProgress;

/// Contents of one folder that are looked at: 300 bytes of memory each.
const CONTENTS_MAX: usize = 1_000_000;
/// Who removes, as the event log tells it.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What is kept.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) max_age: Option<Nanos>,
    pub(super) max_size: Option<ByteCount>,
    pub(super) min_age: Nanos,
    /// Contents, and folders with all in them, that stay whatever else.
    pub(super) protected: Vec<ContentPath>,
}

/// A content that may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OldContent {
    path: ContentPath,
    age: Duration,
    pub(super) bytes: u64,
    etag: String,
}

/// Removes what is too much, the oldest first.
///
/// # Errors
/// What the store says; what was removed before is gone.
pub(super) async fn keep(
    service: &MediaService,
    folder: &ContentPath,
    limits: &Limits,
    moved: &MoveProgress,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let contents = contents(service, folder, stop).await?;
    remove(service, contents, limits, moved, stop).await
}

/// Removes of these what is too much, the oldest first.
///
/// # Errors
/// What the store says; what was removed before is gone.
pub(super) async fn remove(
    service: &MediaService,
    contents: Vec<OldContent>,
    limits: &Limits,
    moved: &MoveProgress,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let permit = WritePermit::of_configuration();
    for content in chosen(contents, limits) {
        if *stop.borrow() {
            break;
        }
        let unchanged = Precondition::MustMatch(vec![content.etag]);
        match ingest::delete(service, &permit, &content.path, unchanged, OWN).await {
            Ok(()) => moved.file_is_done(content.bytes),
            // Somebody was faster, or wrote it anew.
            Err(StoreError::NotFound | StoreError::PreconditionFailed) => {}
            Err(error) => return Err(error).context(content.path.joined()),
        }
    }
    Ok(())
}

/// All contents below a folder.
pub(super) async fn contents(
    service: &MediaService,
    folder: &ContentPath,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<Vec<OldContent>> {
    let now = SystemTime::now();
    let (mut found, mut waiting) = (Vec::new(), vec![folder.clone()]);
    while let Some(folder) = waiting.pop() {
        if *stop.borrow() {
            return Ok(Vec::new());
        }
        let entries = service.contents.list(&folder).await.with_context(|| folder.joined())?;
        for entry in entries {
            // A name that cannot be asked for cannot be removed either.
            let Ok(path) = folder.child(&entry.name) else { continue };
            if entry.kind == NameKind::Directory {
                waiting.push(path);
                continue;
            }
            let age = now.duration_since(entry.modified).unwrap_or_default();
            found.push(OldContent { path, age, bytes: entry.size, etag: entry.etag });
        }
        ensure!(found.len() <= CONTENTS_MAX, "more than {CONTENTS_MAX} contents: name a folder with fewer");
    }
    Ok(found)
}

/// Those that go, the oldest first.
fn chosen(mut contents: Vec<OldContent>, limits: &Limits) -> Vec<OldContent> {
    let span = |nanos: Nanos| Duration::from_nanos(nanos.0);
    let mut left: u64 = contents.iter().map(|content| content.bytes).sum();
    contents.sort_by(|a, b| b.age.cmp(&a.age).then_with(|| a.path.cmp(&b.path)));
    contents.retain(|content| {
        let is_old = limits.max_age.is_some_and(|age| content.age > span(age));
        let is_too_much = limits.max_size.is_some_and(|size| left > size.0);
        let is_protected = limits.protected.iter().any(|protected| is_in(&content.path, protected));
        let goes = content.age >= span(limits.min_age) && (is_old || is_too_much) && !is_protected;
        left -= if goes { content.bytes } else { 0 };
        goes
    });
    contents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(name: &str, hours: u64, bytes: u64) -> OldContent {
        let path = ContentPath::root().child(name).expect("a name");
        OldContent { path, age: Duration::from_secs(3600 * hours), bytes, etag: String::new() }
    }

    fn gone(limits: &Limits) -> Vec<String> {
        let all = vec![content("new", 0, 50), content("b", 30, 20), content("a", 30, 10), content("c", 5, 30)];
        chosen(all, limits).iter().map(|content| content.path.joined()).collect()
    }

    #[test]
    fn the_oldest_go_first_and_the_youngest_never() {
        let hours = |hours: u64| Nanos::from_secs(3600 * hours);
        let limits = |max_age, max_size| Limits {
            max_age: Option::map(max_age, hours),
            max_size: Option::map(max_size, ByteCount),
            min_age: hours(1),
            protected: Vec::new(),
        };
        assert!(gone(&limits(None, None)).is_empty());
        assert!(gone(&limits(Some(30), None)).is_empty(), "just as old is not older");
        assert_eq!(gone(&limits(Some(29), None)), ["a", "b"]);
        assert_eq!(gone(&limits(None, Some(100))), ["a"]);
        assert_eq!(gone(&limits(None, Some(99))), ["a", "b"]);
        assert_eq!(gone(&limits(None, Some(1))), ["a", "b", "c"], "the newest is too young");
        assert_eq!(gone(&limits(Some(29), Some(80))), ["a", "b"], "what went by age counts");
        assert!(gone(&Limits { min_age: hours(31), ..limits(Some(1), None) }).is_empty());
        let protected = vec![ContentPath::root().child("a").expect("a name")];
        assert_eq!(gone(&Limits { protected, ..limits(None, Some(100)) }), ["b"]);
    }
}
