//! Names uploaded to one root, or removed from it, while the disk of an earlier root could not be asked: it did not
//! answer, or erred.
//!
//! An earlier root hides what a later one has under the same name, and whether it has the name cannot be known while its
//! disk does not answer. An upload is an answer to that: it replaces whatever is there; so is a removal. What the silent
//! root may have is hidden from now on, and removed as soon as the root can be asked.
//!
//! Promise: an acknowledged upload is what its name shows, and an acknowledged removal shows nothing, also when the silent
//! disk is back. Limits: at most [`DISPLACED_MAX`] names (then both are refused); only for as long as this process runs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::store::{Inner, Store};
use crate::{ContentPath, Precondition, StoreError};

/// Names that may wait for their removal.
const DISPLACED_MAX: usize = 4096;

/// How soon a root is asked again; each time twice as late, for one that errs may take seconds to say so.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest time.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The names, each with the number of the root in which it is void.
#[derive(Debug, Default)]
pub(crate) struct Displaced(Mutex<Vec<(usize, ContentPath)>>);

impl Displaced {
    /// True if what this root has under this name is void.
    pub(crate) fn holds(&self, root: usize, path: &ContentPath) -> bool {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().any(|(number, name)| *number == root && name == path)
    }

    /// The names in the folder `parent` that are void in this root.
    pub(crate) fn names_in(&self, root: usize, parent: &ContentPath) -> HashSet<String> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here = names.iter().filter(|(number, _)| *number == root).filter_map(|(_, name)| name.split());
        here.filter(|(folder, _)| folder == parent).map(|(_, name)| name.to_owned()).collect()
    }

    /// False if there is no room.
    fn add(&self, root: usize, path: &ContentPath) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= DISPLACED_MAX {
            return false;
        }
        names.push((root, path.clone()));
        true
    }

    /// Takes one out; there may be several of the same name.
    fn remove(&self, root: usize, path: &ContentPath) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = names.iter().position(|(number, name)| *number == root && name == path) {
            names.swap_remove(at);
        }
    }
}

/// Earlier roots that could not be asked when an upload was placed or a content removed.
#[derive(Debug)]
pub(crate) struct Unasked {
    store: Weak<Inner>,
    roots: Vec<usize>,
    path: ContentPath,
}

impl Unasked {
    pub(crate) fn new(store: &Arc<Inner>, roots: Vec<usize>, path: ContentPath) -> Option<Self> {
        (!roots.is_empty()).then(|| Self { store: Arc::downgrade(store), roots, path })
    }

    /// The upload is visible, or the content gone: what the roots may have under its name is void. Called before it is
    /// acknowledged.
    pub(crate) fn displace(self) -> Result<(), StoreError> {
        let Some(store) = self.store.upgrade() else { return Ok(()) };
        for root in self.roots {
            if !store.displaced.add(root, &self.path) {
                return Err(StoreError::Busy);
            }
            tokio::spawn(remove_when_it_answers(self.store.clone(), root, self.path.clone()));
        }
        Ok(())
    }
}

/// Removes a void name as soon as its root can be asked. Does not keep the store alive.
async fn remove_when_it_answers(store: Weak<Inner>, root: usize, path: ContentPath) {
    let mut pause = PAUSE_MIN;
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = store.upgrade() else { return };
        let removed = Store::of(Arc::clone(&inner)).remove_from(root, &path, &Precondition::None).await;
        match removed {
            Err(StoreError::DiskFailing(_) | StoreError::Busy) => pause = (pause * 2).min(PAUSE_MAX),
            Ok(()) => return inner.displaced.remove(root, &path),
            Err(error) if error.is_absence() => return inner.displaced.remove(root, &path),
            // It cannot be removed: it stays hidden.
            Err(_) => return,
        }
    }
}
