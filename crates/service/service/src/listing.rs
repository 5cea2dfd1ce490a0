//! Listings of directories, shared by all clients that request them.
//!
//! Promise: the memory of all listings is bounded for any number of clients, even if these read slowly. Clients of one
//! directory share a snapshot; while the snapshots being read have [`BYTES_MAX`], no other is taken. Unread snapshots make
//! room, the one with the oldest request first, so that a client may walk through any number of directories. A snapshot serves
//! requests for as long as its reading took, so that at most half the time is spent reading directories, and no request after a
//! write through this service.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::contents::{ContentPath, Contents, Entry, StoreError};
use crate::lock::lock;

/// Bytes of the held snapshots from which no further one is taken.
const BYTES_MAX: usize = 64 << 20;
/// Directories read at once.
const SCANS_MAX: usize = 4;
/// Most directories in the table of snapshots.
const DIRECTORIES_MAX: usize = 256;

/// All listings.
pub(crate) struct Listings {
    scans: Semaphore,
    directories: Mutex<HashMap<String, Arc<Directory>>>,
    bytes: Arc<AtomicUsize>,
    /// Number of writes through this service.
    writes: AtomicU64,
    /// Number of requests.
    questions: AtomicU64,
}

/// A recently requested directory.
#[derive(Default)]
struct Directory {
    /// The number of the last request for it.
    last_request: AtomicU64,
    /// The snapshot. The request that holds the lock takes it for the others.
    latest: tokio::sync::Mutex<Option<Snapshot>>,
}

struct Snapshot {
    /// Time until which the snapshot serves requests.
    fresh_until: Instant,
    writes: u64,
    listing: Arc<Listing>,
}

/// The entries of a directory at one time, by name.
#[derive(Debug)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<Entry>,
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl Listing {
    /// Index of the first entry after the name `after`.
    #[must_use]
    pub fn position_after(&self, after: Option<&str>) -> usize {
        after.map_or(0, |after| self.entries.partition_point(|entry| entry.name.as_str() <= after))
    }
}

impl Default for Listings {
    fn default() -> Self {
        Self {
            scans: Semaphore::new(SCANS_MAX),
            directories: Mutex::default(),
            bytes: Arc::default(),
            writes: AtomicU64::new(0),
            questions: AtomicU64::new(0),
        }
    }
}

impl Listings {
    /// The entries of the directory at `path`, or the `first` of them.
    ///
    /// # Errors
    /// The store's error, or [`StoreError::Busy`] if too many bytes are held.
    pub(crate) async fn list(
        &self,
        contents: &dyn Contents,
        path: &ContentPath,
        first: Option<usize>,
    ) -> Result<Arc<Listing>, StoreError> {
        // No path ends in a slash.
        let name = first.map_or_else(|| path.joined(), |count| format!("{}/{count}", path.joined()));
        let directory = self.directory(&name);
        let asked = Instant::now();
        let mut latest = directory.latest.lock().await;
        let writes = self.writes.load(Ordering::Acquire);
        let is_full = self.bytes() >= BYTES_MAX;
        if let Some(snapshot) = latest.as_ref().filter(|snapshot| snapshot.writes == writes)
            // If snapshots of slow clients use all memory, they serve other requests even after their time.
            && (is_full || asked < snapshot.fresh_until)
        {
            return Ok(Arc::clone(&snapshot.listing));
        }
        *latest = None;
        let _scan = self.scan().await?;
        let begun = Instant::now();
        let entries = match first {
            Some(count) => contents.list_part(path, "", count).await?,
            None => contents.list(path).await?,
        };
        let listing = Arc::new(self.hold(entries));
        // A directory that takes long to read is read for at most half the time.
        let fresh_until = Instant::now() + begun.elapsed();
        *latest = Some(Snapshot { fresh_until, writes, listing: Arc::clone(&listing) });
        Ok(listing)
    }

    /// The first `count` entries after the name `after`, of a directory that may hold too many for a snapshot: from its beginning in a
    /// snapshot, else for one reader.
    ///
    /// # Errors
    /// As [`Listings::list`].
    pub(crate) async fn list_part(
        &self,
        contents: &dyn Contents,
        path: &ContentPath,
        (after, count): (&str, usize),
    ) -> Result<Arc<Listing>, StoreError> {
        if after.is_empty() {
            return self.list(contents, path, Some(count)).await;
        }
        let _scan = self.scan().await?;
        Ok(Arc::new(self.hold(contents.list_part(path, after, count).await?)))
    }

    /// Permission to read a directory.
    async fn scan(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        while self.bytes() >= BYTES_MAX {
            if !forget_oldest(&mut lock(&self.directories)) {
                return Err(StoreError::Busy);
            }
        }
        self.scans.acquire().await.map_err(|_| StoreError::Closed)
    }

    fn hold(&self, entries: Vec<Entry>) -> Listing {
        let bytes_of = |entry: &Entry| size_of::<Entry>() + entry.name.capacity() + entry.etag.capacity();
        let bytes = entries.iter().map(bytes_of).sum();
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        Listing { entries, bytes, all: Arc::clone(&self.bytes) }
    }

    /// Notes a write: snapshots from before it serve no more requests.
    pub(crate) fn note_write(&self) {
        self.writes.fetch_add(1, Ordering::AcqRel);
    }

    /// Bytes that all snapshots hold.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Drops snapshots that no client reads or has requested recently. Called once a second.
    pub(crate) fn expire(&self) {
        lock(&self.directories).retain(|_, directory| {
            let is_fresh = directory
                .latest
                .try_lock()
                .is_ok_and(|latest| latest.as_ref().is_some_and(|snapshot| snapshot.fresh_until > Instant::now()));
            is_fresh || directory.is_used()
        });
    }

    /// The directory of this name; for one reader alone if the table of shared ones is full.
    fn directory(&self, name: &str) -> Arc<Directory> {
        let mut directories = lock(&self.directories);
        let asked = self.questions.fetch_add(1, Ordering::AcqRel);
        let is_known = directories.contains_key(name);
        if !is_known && directories.len() >= DIRECTORIES_MAX && !forget_oldest(&mut directories) {
            return Arc::default();
        }
        let directory = directories.entry(name.to_owned()).or_default();
        directory.last_request.store(asked, Ordering::Release);
        Arc::clone(directory)
    }
}

impl Directory {
    /// True if a request waits for the snapshot or reads it. The caller holds the lock of all directories, so that no other
    /// request can begin to.
    fn is_used(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
            || self
                .latest
                .try_lock()
                .is_ok_and(|latest| latest.as_ref().is_some_and(|snapshot| Arc::strong_count(&snapshot.listing) > 1))
    }
}

/// Drops the unused directory with the oldest request; false if all are in use.
fn forget_oldest(directories: &mut HashMap<String, Arc<Directory>>) -> bool {
    let unused = directories.iter().filter(|(_, directory)| !directory.is_used());
    let oldest = unused.min_by_key(|(_, directory)| directory.last_request.load(Ordering::Acquire));
    let oldest = oldest.map(|(name, _)| name.clone());
    oldest.is_some_and(|name| directories.remove(&name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_directories_make_room_oldest_first() {
        let listings = Listings::default();
        let known = |name: &str| lock(&listings.directories).contains_key(name);
        let read = listings.directory("read");
        for number in 0..DIRECTORIES_MAX {
            let directory = listings.directory(&number.to_string());
            *directory.latest.try_lock().expect("nobody else") =
                Some(Snapshot { fresh_until: Instant::now(), writes: 0, listing: Arc::new(listings.hold(Vec::new())) });
        }
        assert!(known("read") && !known("0") && known("1"), "the one that was asked for longest ago");
        drop(listings.directory("1"));
        drop(listings.directory("next"));
        assert!(known("1") && !known("2") && known("next"));
        // All are in use: the listing is made for its one reader.
        let used: Vec<_> = lock(&listings.directories).values().cloned().collect();
        drop(listings.directory("alone"));
        assert!(!known("alone") && used.len() == DIRECTORIES_MAX);
        drop((read, used));
        listings.expire();
        assert!(lock(&listings.directories).is_empty(), "nothing is fresh or used");
    }
}
