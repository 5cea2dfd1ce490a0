//! The trash: contents and folders that clients removed, for a time and up to a size.
//!
//! Promise: an item goes into the trash, and back, in one durable change of its name on the disks that it lies on; it says itself which path
//! it had, when it was removed and how large it is (`.isocast-upload-kept-trash/ID/its/path`), so that nothing else can be lost. Every minute
//! the items that are too old go, and the oldest while there are more items or bytes than may be (decision 0090). Not here: removals for good
//! (`ingest`, `namespace`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use tokio::time::interval;

use crate::access::{self, Denied, PathRight, Permit, Principal, ToDelete, ToWrite};
use crate::budget_use::{self, StoredClaim};
use crate::clock_watch::clock_lead;
use crate::contents::{ContentPath, NameKind, Precondition, StoreError};
use crate::delivery::Client;
use crate::events::{self, Remover};
use crate::ingest::{IngestError, note_removal};
use crate::media_service::MediaService;
use crate::namespace::{NamespaceError, bytes_of, quota_of};

/// Time between two searches for expired items.
const LOOK_PERIOD: Duration = Duration::from_secs(60);
/// Items of the trash that are listed, at most.
const LISTED_MAX: usize = 1000;
/// Items of the trash, at most: empty ones take no bytes.
const ITEMS_MAX: usize = 10_000;

/// An item's name in the trash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrashId {
    /// The time of its removal, milliseconds since 1970.
    removed_ms: u64,
    /// Distinguishes it from others of that time.
    number: u64,
    /// Names of the path that it had.
    depth: usize,
    /// Its bytes, with those of all below it.
    bytes: u64,
}

impl TrashId {
    fn new(now: SystemTime, depth: usize, bytes: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let removed_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Self { removed_ms, number: NEXT.fetch_add(1, Ordering::Relaxed), depth, bytes }
    }

    /// The item that a text names.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('-').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (removed_ms, number, depth, bytes) = (next()?, next()?, next()?, next()?);
        let id = Self { removed_ms, number, depth: usize::try_from(depth).ok()?, bytes };
        (id.to_string() == text).then_some(id)
    }

    /// The time of the removal.
    #[must_use]
    pub fn removed(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.removed_ms)
    }

    /// Bytes of the item, with those of all below it.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn folder(&self) -> Result<ContentPath, StoreError> {
        child(&trash(), &self.to_string())
    }
}

impl std::fmt::Display for TrashId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}-{}", self.removed_ms, self.number, self.depth, self.bytes)
    }
}

/// An item of the trash.
#[derive(Debug, Clone)]
pub struct TrashItem {
    /// Its name there.
    pub id: TrashId,
    /// The path that it had.
    pub path: ContentPath,
    /// Content or folder.
    pub kind: NameKind,
}

/// The folder of the trash, in each root.
fn trash() -> ContentPath {
    ContentPath::root().reserved_sibling("trash")
}

fn child(folder: &ContentPath, name: &str) -> Result<ContentPath, StoreError> {
    folder.stored_child(name).map_err(|_| StoreError::TooDeep)
}

/// Moves the content or folder at the permit's path into the trash.
///
/// # Errors
/// [`NamespaceError::NoTrash`]: it is larger than the trash may be, or there is none; the store's error.
pub async fn put(
    service: &Arc<MediaService>,
    permit: &Permit<ToDelete>,
    client: Client,
) -> Result<TrashId, NamespaceError> {
    let path = permit.path();
    let entry = service.lookup(permit).await?;
    let bytes = bytes_of(service, path, &entry).await?;
    let config = service.config();
    if config.trash_keep.is_zero() || bytes > config.trash_bytes_max {
        return Err(NamespaceError::NoTrash);
    }
    let id = TrashId::new(SystemTime::now(), path.components().len(), bytes);
    let place = path.components().iter().try_fold(id.folder()?, |folder, name| child(&folder, name))?;
    service.contents.rename(path, &place, false).await?;
    budget_use::removed(service, permit.charged(&service.accounts, client).iter(), budgeted(entry.kind, bytes));
    service.listings.note_write();
    service.quotas.removed();
    service.events.tell(events::content_moved(&path.joined(), "the trash", permit.by(client), SystemTime::now()));
    make_room(service).await;
    Ok(id)
}

/// Bytes of an item that the budget of its holder has back while it is in the trash. A folder gives none back, as where it is removed for
/// good: its bytes may be removed, and given back, one by one while they are counted.
const fn budgeted(kind: NameKind, bytes: u64) -> u64 {
    match kind {
        NameKind::File => bytes,
        NameKind::Directory => 0,
    }
}

/// Whether `principal` has the right `R` over the path that an item may have had.
///
/// # Errors
/// Why not.
pub fn permit<R: PathRight>(service: &MediaService, principal: &Principal) -> Result<Permit<R>, Denied> {
    access::permit_somewhere(&service.accounts, principal)
}

/// The items of the trash that were below the permit's folder, the latest first.
///
/// # Errors
/// The store's error.
pub async fn list(service: &MediaService, permit: &Permit<ToDelete>) -> Result<Vec<TrashItem>, StoreError> {
    let mut items = Vec::new();
    for id in ids(service).await?.into_iter().rev() {
        if items.len() == LISTED_MAX {
            break;
        }
        // One that goes meanwhile is none.
        if let Ok(item) = item_of(service, id).await
            && item.path.lies_in(permit.path())
        {
            items.push(item);
        }
    }
    Ok(items)
}

/// The item of this name, for a client with a right over a path that an item may have had ([`permit`]).
///
/// # Errors
/// [`StoreError::NotFound`], and others of the store.
pub async fn find<R: PathRight>(
    service: &MediaService,
    id: TrashId,
    _somewhere: &Permit<R>,
) -> Result<TrashItem, StoreError> {
    item_of(service, id).await
}

/// The item of this name. Folders that are left of one that is gone go, too.
async fn item_of(service: &MediaService, id: TrashId) -> Result<TrashItem, StoreError> {
    let (mut folder, mut path, mut kind) = (id.folder()?, ContentPath::root(), NameKind::Directory);
    for _ in 0..id.depth {
        let Some(entry) = service.contents.list(&folder).await?.into_iter().next() else {
            remove_empty(service, folder).await;
            return Err(StoreError::NotFound);
        };
        folder = child(&folder, &entry.name)?;
        path = child(&path, &entry.name)?;
        kind = entry.kind;
    }
    if path.components().is_empty() { Err(StoreError::NotFound) } else { Ok(TrashItem { id, path, kind }) }
}

/// Removes a folder in the trash and those above it, as far as they are empty. An item that comes into one meanwhile stays.
async fn remove_empty(service: &MediaService, mut folder: ContentPath) {
    while folder != trash()
        && let Some((above, _)) = folder.split()
    {
        match service.contents.delete(&folder, Precondition::None).await {
            Err(error) if !error.is_absence() => return,
            _ => folder = above,
        }
    }
}

/// Gives an item its path back, which is the permit's. Folders above it that are gone are made again.
///
/// # Errors
/// [`NamespaceError::Exists`], no room in a quota or budget, the store's error.
pub async fn restore(
    service: &Arc<MediaService>,
    item: &TrashItem,
    permit: &Permit<ToWrite>,
    client: Client,
) -> Result<(), NamespaceError> {
    let path = permit.path();
    let place = path.components().iter().try_fold(item.id.folder()?, |folder, name| child(&folder, name))?;
    let mut quota = quota_of(service, path, item.id.bytes).await?;
    let (charged, budgeted) = (permit.charged(&service.accounts, client), budgeted(item.kind, item.id.bytes));
    let claim = StoredClaim::take(service, &charged, Some(budgeted), 0).await.map_err(IngestError::from)?;
    match service.contents.rename(&place, path, false).await {
        Err(StoreError::Exists) => return Err(NamespaceError::Exists),
        other => other?,
    };
    quota.stored(item.id.bytes);
    claim.stored(budgeted);
    service.listings.note_write();
    service.events.tell(events::content_moved("the trash", &path.joined(), permit.by(client), SystemTime::now()));
    if let Some((folder, _)) = place.split() {
        remove_empty(service, folder).await;
    }
    Ok(())
}

/// Removes an item, which was at the permit's path, for good.
///
/// # Errors
/// The store's error.
pub async fn remove(
    service: &MediaService,
    item: &TrashItem,
    permit: &Permit<ToDelete>,
    client: Client,
) -> Result<(), StoreError> {
    service.contents.remove_tree(&item.id.folder()?).await?;
    note_removal(service, &permit.path().joined(), Remover::Client(permit.by(client)));
    Ok(())
}

/// Removes what is too old or too much, every minute while the service is there.
pub(crate) async fn keep(service: Weak<MediaService>) {
    let mut period = interval(LOOK_PERIOD);
    let mut is_first = true;
    loop {
        period.tick().await;
        let Some(service) = service.upgrade() else { return };
        if !service.is_draining() {
            // Of items that were restored as the server died, folders are left.
            if std::mem::take(&mut is_first) {
                for id in ids(&service).await.unwrap_or_default() {
                    let _ = item_of(&service, id).await;
                }
            }
            make_room(&service).await;
        }
    }
}

/// Names of the items, the oldest first: of more than there may be, the oldest.
async fn ids(service: &MediaService) -> Result<Vec<TrashId>, StoreError> {
    let entries = match service.contents.list_part(&trash(), "", 2 * ITEMS_MAX).await {
        Err(error) if error.is_absence() => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut ids: Vec<TrashId> = entries.iter().filter_map(|entry| TrashId::parse(&entry.name)).collect();
    ids.sort_unstable();
    Ok(ids)
}

async fn make_room(service: &MediaService) {
    let config = service.config();
    let failed = |error| service.events.tell(events::trash_failed(&error, SystemTime::now()));
    let ids = ids(service).await.map_err(failed).unwrap_or_default();
    let now = SystemTime::now() - clock_lead(service);
    for (id, reason) in expired(&ids, config.trash_keep, config.trash_bytes_max, now) {
        // Where a disk does not answer, a later look removes it.
        let _ = evict(service, id, reason).await.map_err(failed);
    }
}

async fn evict(service: &MediaService, id: TrashId, reason: &str) -> Result<(), StoreError> {
    let path = item_of(service, id).await.map_or_else(|_| id.to_string(), |item| item.path.joined());
    match service.contents.remove_tree(&id.folder()?).await {
        Err(error) if error.is_absence() => {}
        removed => {
            removed?;
            note_removal(service, &path, Remover::Trash { reason });
        }
    }
    Ok(())
}

/// Those of `ids`, the oldest first, that are too old, or too much, with the limit.
fn expired(ids: &[TrashId], keep: Duration, bytes_max: u64, now: SystemTime) -> Vec<(TrashId, &'static str)> {
    // Of names that others may have written: their sum may be more than a u64.
    let mut bytes: u128 = ids.iter().map(|id| u128::from(id.bytes)).sum();
    let mut count = ids.len();
    let is_old = |id: &TrashId| now.duration_since(id.removed()).is_ok_and(|age| age >= keep);
    let goes = |id: &TrashId| {
        let reason = if is_old(id) {
            "max_age"
        } else if bytes > u128::from(bytes_max) {
            "max_size"
        } else if count > ITEMS_MAX {
            "max_count"
        } else {
            return None;
        };
        bytes -= u128::from(id.bytes);
        count -= 1;
        Some((*id, reason))
    };
    ids.iter().filter_map(goes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_name_says_when_and_how_much() {
        let id = TrashId::new(at(1_800_000_000), 3, 77);
        assert_eq!(TrashId::parse(&id.to_string()), Some(id));
        assert_eq!((id.removed(), id.bytes()), (at(1_800_000_000), 77));
        for other in ["", "1-2-3", "1-2-3-4-5", "01-2-3-4", "1-2-3-x", "../x", "+1-2-3-4"] {
            assert_eq!(TrashId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_old_go_and_the_oldest_while_there_is_too_much() {
        let ids = [(10, 5), (20, 1), (30, 7), (40, 2)].map(|(second, bytes)| TrashId::new(at(second), 1, bytes));
        let gone = |keep, bytes_max| expired(&ids, Duration::from_secs(keep), bytes_max, at(45));
        let first = |count, reason| ids[..count].iter().map(|id| (*id, reason)).collect::<Vec<_>>();
        assert_eq!(gone(100, 100), []);
        assert_eq!(gone(25, 100), first(2, "max_age"));
        assert_eq!(gone(100, 9), first(2, "max_size"));
        assert_eq!(gone(100, 8), first(3, "max_size"));
        assert_eq!(gone(0, 100), first(4, "max_age"), "the trash is off");
    }

    #[test]
    fn names_with_any_numbers_are_bounded() {
        let count_max = |count: usize, bytes| {
            let ids: Vec<_> = (0..count as u64).map(|second| TrashId::new(at(second), 1, bytes)).collect();
            let gone = expired(&ids, Duration::MAX, u64::MAX, at(45));
            assert!(
                gone.iter().all(|(_, reason)| *reason == if bytes == 0 { "max_count" } else { "max_size" }),
                "{gone:?}"
            );
            gone.len()
        };
        assert_eq!(count_max(ITEMS_MAX, 0), 0);
        assert_eq!(count_max(ITEMS_MAX + 3, 0), 3, "empty items");
        assert_eq!(count_max(3, u64::MAX), 2, "their sum");
    }
}
