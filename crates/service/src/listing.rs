//! Listings of directories, shared by all who ask for them.
//!
//! Promise: what all listings hold is bounded, however many clients ask, and however slowly they read: clients of one
//! directory share one snapshot, and beyond [`BYTES_MAX`] no other is taken. A snapshot serves those who ask until as
//! much time has passed as reading it took, so that at most half the time goes into reading, and never one who asks after
//! a write through this service.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::contents::{ContentPath, Contents, Entry, StoreError};
use crate::lock::lock;

/// No snapshot is taken while those that are held have so many bytes.
const BYTES_MAX: usize = 64 << 20;
/// Directories read at once.
const SCANS_MAX: usize = 4;
/// Directories of which a snapshot is known at once.
const DIRECTORIES_MAX: usize = 256;

/// All listings.
pub(crate) struct Listings {
    scans: Semaphore,
    directories: Mutex<HashMap<String, Arc<Directory>>>,
    bytes: Arc<AtomicUsize>,
    /// Grows with each write.
    writes: AtomicU64,
}

/// A directory somebody asked for lately.
#[derive(Default)]
struct Directory {
    /// Whoever holds this takes the snapshot for the others.
    latest: tokio::sync::Mutex<Option<Snapshot>>,
}

struct Snapshot {
    /// Until when it serves those who ask.
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
    /// Where the entries after the name `after` begin.
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
        }
    }
}

impl Listings {
    /// The entries of the directory at `path`.
    ///
    /// # Errors
    /// What the store says, or that too much is held already.
    pub(crate) async fn list(&self, contents: &dyn Contents, path: &ContentPath) -> Result<Arc<Listing>, StoreError> {
        let name = path.joined();
        let directory = self.directory(&name).ok_or(StoreError::Busy)?;
        let asked = Instant::now();
        let mut latest = directory.latest.lock().await;
        let writes = self.writes.load(Ordering::Acquire);
        let is_full = self.bytes() >= BYTES_MAX;
        if let Some(snapshot) = latest.as_ref().filter(|snapshot| snapshot.writes == writes)
            // While clients that do not read hold as much as there may be, their snapshots serve others as well.
            && (is_full || asked < snapshot.fresh_until)
        {
            return Ok(Arc::clone(&snapshot.listing));
        }
        *latest = None;
        if self.bytes() >= BYTES_MAX {
            return Err(StoreError::Busy);
        }
        let _scan = self.scans.acquire().await.map_err(|_| StoreError::Closed)?;
        let begun = Instant::now();
        let mut entries = contents.list(path).await?;
        for entry in &mut entries {
            // Nobody asks for the tags of a listing.
            entry.etag = String::new();
        }
        let bytes = entries.iter().map(|entry| size_of::<Entry>() + entry.name.capacity()).sum();
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        let listing = Arc::new(Listing { entries, bytes, all: Arc::clone(&self.bytes) });
        // Where reading takes long, it is not done all the time.
        let fresh_until = Instant::now() + begun.elapsed();
        *latest = Some(Snapshot { fresh_until, writes, listing: Arc::clone(&listing) });
        Ok(listing)
    }

    /// Something was written: snapshots from before do not serve those who ask from now on.
    pub(crate) fn note_write(&self) {
        self.writes.fetch_add(1, Ordering::AcqRel);
    }

    /// Bytes that all snapshots hold.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Forgets snapshots that nobody reads or asked for lately. Called once a second.
    pub(crate) fn expire(&self) {
        lock(&self.directories).retain(|_, directory| {
            let is_asked_for = Arc::strong_count(directory) > 1;
            let is_useful = directory.latest.try_lock().is_ok_and(|latest| {
                latest.as_ref().is_some_and(|snapshot| {
                    snapshot.fresh_until > Instant::now() || Arc::strong_count(&snapshot.listing) > 1
                })
            });
            is_asked_for || is_useful
        });
    }

    fn directory(&self, name: &str) -> Option<Arc<Directory>> {
        let mut directories = lock(&self.directories);
        if directories.len() >= DIRECTORIES_MAX && !directories.contains_key(name) {
            return None;
        }
        Some(Arc::clone(directories.entry(name.to_owned()).or_default()))
    }
}
