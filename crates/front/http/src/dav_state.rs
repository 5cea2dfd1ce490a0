//! Locks and dead properties of WebDAV, in memory and in a journal.
//!
//! Promise: a change is in the journal before it is answered, and the order of the journal is that of the changes. Not here: the
//! database (`accounts`).

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use http_types::StatusCode;
use service::line_journal::LineJournal;
use webdav::{DavChange, DavState, UnixSeconds};

use crate::message::reply::Reply;

/// Lines after which the journal is written anew.
const LINES_MAX: usize = 16_384;

/// The state and its journal.
pub(crate) struct DavKeeper {
    state: Mutex<DavState>,
    journal: Arc<dyn LineJournal>,
    /// Lines since the journal was written anew.
    lines: tokio::sync::Mutex<usize>,
}

/// Seconds since 1970.
pub(crate) fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs())
}

impl DavKeeper {
    /// The state that the journal has kept.
    pub(crate) fn new(journal: Arc<dyn LineJournal>) -> io::Result<Self> {
        let mut state = DavState::default();
        for line in journal.read()? {
            if let Ok(change) = serde_json::from_str(&line) {
                state.apply(change);
            }
        }
        state.locks.expire(now());
        journal.replace(&lines_of(&state))?;
        Ok(Self { state: Mutex::new(state), journal, lines: tokio::sync::Mutex::new(0) })
    }

    /// Looks at the state, without the locks whose time is over, or changes it in memory.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut DavState) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.locks.expire(now());
        work(&mut state)
    }

    /// Makes a change that follows one of names, if there are locks or properties at one of `paths` or below.
    pub(crate) async fn follow(&self, paths: &[&str], change: impl FnOnce() -> DavChange) -> Result<(), Reply> {
        if self.with(|state| paths.iter().any(|path| state.knows(path))) {
            return self.change(change()).await;
        }
        Ok(())
    }

    /// Makes a change and keeps it.
    pub(crate) async fn change(&self, change: DavChange) -> Result<(), Reply> {
        let mut lines = self.lines.lock().await;
        *lines += 1;
        let line = serde_json::to_string(&change).map_err(|_| not_kept())?;
        let all = self.with(|state| {
            state.apply(change);
            (*lines > LINES_MAX).then(|| lines_of(state))
        });
        let journal = Arc::clone(&self.journal);
        let is_anew = all.is_some();
        let kept = tokio::task::spawn_blocking(move || match all {
            Some(all) => journal.replace(&all),
            None => journal.append(&line),
        });
        if is_anew {
            *lines = 0;
        }
        kept.await.map_err(|_| not_kept())?.map_err(|_| not_kept())
    }
}

fn lines_of(state: &DavState) -> Vec<String> {
    state.changes().filter_map(|change| serde_json::to_string(&change).ok()).collect()
}

fn not_kept() -> Reply {
    let detail = "locks and properties cannot be kept: the folder of the server's state takes no writes";
    Reply::problem(StatusCode::INSUFFICIENT_STORAGE, detail)
}
