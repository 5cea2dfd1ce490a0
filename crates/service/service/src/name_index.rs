//! A snapshot of the names of all contents and folders, for searches.
//!
//! Promise: one snapshot serves all clients, of [`NAMES_MAX`] names at most. The library is read at most a tenth of the time: a snapshot serves
//! requests for nine times as long as it took (decision 0088). Links to folders are in it, and are not entered. Not here: the match (`search`).

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::contents::{ContentPath, Contents, Entry, NameKind, StoreError};

/// Names of a snapshot at most: 130 MB with paths of 100 bytes, each of which is there twice, and its entry with name and tag.
const NAMES_MAX: usize = 200_000;
/// A snapshot serves requests for this multiple of the time of reading it.
const FRESH_FACTOR: u32 = 9;

/// The latest snapshot of all names.
#[derive(Default)]
pub(crate) struct NameIndex(Arc<Mutex<Option<NameSnapshot>>>);

struct NameSnapshot {
    fresh_until: Instant,
    names: Arc<LibraryNames>,
}

/// The names of the library at one time.
pub(crate) struct LibraryNames {
    /// Each with its path in lower case, in the order of the walk.
    pub(crate) all: Vec<(String, NamedItem)>,
    pub(crate) is_whole: bool,
}

/// A content or folder that a search found.
#[derive(Debug, Clone)]
pub struct NamedItem {
    /// Its path below all contents.
    pub path: ContentPath,
    /// Its entry in the listing of its folder.
    pub entry: Entry,
}

impl NameIndex {
    /// The latest snapshot, or a new one for all that wait. It is taken to its end, also if the client leaves.
    pub(crate) async fn latest(
        &self,
        contents: &Arc<dyn Contents>,
        runtime: &Handle,
    ) -> Result<Arc<LibraryNames>, StoreError> {
        let mut latest = Arc::clone(&self.0).lock_owned().await;
        if let Some(snapshot) = latest.as_ref().filter(|snapshot| Instant::now() < snapshot.fresh_until) {
            return Ok(Arc::clone(&snapshot.names));
        }
        *latest = None;
        let contents = Arc::clone(contents);
        let taken = runtime.spawn(async move {
            let begun = Instant::now();
            let names = Arc::new(read_names(&*contents, NAMES_MAX).await?);
            let fresh_until = Instant::now() + FRESH_FACTOR * begun.elapsed();
            *latest = Some(NameSnapshot { fresh_until, names: Arc::clone(&names) });
            Ok(names)
        });
        taken.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Forgets a snapshot that serves no request any more. Called once a second.
    pub(crate) fn expire(&self) {
        if let Ok(mut latest) = self.0.try_lock()
            && latest.as_ref().is_some_and(|snapshot| Instant::now() >= snapshot.fresh_until)
        {
            *latest = None;
        }
    }
}

/// The first `count` names, folder by folder.
async fn read_names(contents: &dyn Contents, count: usize) -> Result<LibraryNames, StoreError> {
    let mut names = LibraryNames { all: Vec::new(), is_whole: true };
    let mut folders = vec![ContentPath::root()];
    while let Some(folder) = folders.pop() {
        let listed = match contents.list(&folder).await {
            Err(StoreError::TooManyNames(_)) => {
                names.is_whole = false;
                contents.list_part(&folder, "", count).await
            }
            listed => listed,
        };
        let entries = match listed {
            Ok(entries) => entries,
            Err(error) if folder.components().is_empty() => return Err(error),
            Err(error) => {
                // A folder that was removed meanwhile has no names.
                names.is_whole &= error.is_absence();
                continue;
            }
        };
        for entry in entries {
            if names.all.len() >= count {
                names.is_whole = false;
                return Ok(names);
            }
            let Ok(path) = folder.child(&entry.name) else { continue };
            if entry.kind == NameKind::Directory && !entry.is_link {
                folders.push(path.clone());
            }
            names.all.push((path.joined().to_lowercase(), NamedItem { path, entry }));
        }
    }
    Ok(names)
}
