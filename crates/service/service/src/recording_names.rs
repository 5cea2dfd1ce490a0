//! Names of recordings: one recording at a time has a name, and keeps its place for a recording that comes back to it.
//!
//! Promise: a second recording of a name is refused while the first one sends, and takes its place when that has been silent, or ends soon; the place of
//! that of a broken one is held for as long as a viewer's. Not here: the definition of a place (`recording`), the names of contents
//! (`store`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dataplane::control::{RecordingPlace, RecordingRequest};
use tokio::sync::Notify;
use tokio::time::timeout;
use units::{Nanos, ReservationId};

use crate::contents::ContentPath;
use crate::lock::lock;
use crate::recording_pace::RecordingProgress;

/// A recording that was silent for this time gives way to another one of its name: a camera that lost its connection comes back sooner than
/// TCP tells the server. Chosen: half of the least time after which a client's silence ends an upload.
const SILENT: Nanos = Nanos::from_secs(5);
/// Time that the first recording of a name has to end when another one comes: it may have given way, or be that of a camera which lost its
/// connection a moment ago.
const GIVES_WAY: Duration = Duration::from_secs(2);

/// The names of the recordings under way, and of places that are held.
#[derive(Default)]
pub(crate) struct RecordingNames(Mutex<HashMap<ContentPath, NameUse>>);

enum NameUse {
    Running(Arc<NameHolder>),
    Held(HeldPlace, Instant),
}

/// A reservation that nothing uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldPlace {
    pub(crate) request: RecordingRequest,
    pub(crate) reservation: ReservationId,
    pub(crate) place: RecordingPlace,
}

struct NameHolder {
    progress: Arc<RecordingProgress>,
    /// Another recording has come to its name.
    gives_way: Notify,
    gone: Notify,
}

/// A recording's name, until it is dropped.
pub(crate) struct ClaimedName {
    names: Arc<RecordingNames>,
    path: ContentPath,
    holder: Arc<NameHolder>,
    /// Its place, which is held until then.
    held: Option<(HeldPlace, Instant)>,
}

impl RecordingNames {
    /// Gives a recording its name, and the place that was held for it. `now` is the time of [`RecordingProgress::note`]. None if another
    /// one has the name.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        path: &ContentPath,
        progress: &Arc<RecordingProgress>,
        now: Nanos,
    ) -> Option<(ClaimedName, Option<HeldPlace>)> {
        let other = match self.try_claim(path, progress) {
            Ok(claimed) => return Some(claimed),
            Err(other) => other,
        };
        let gone = other.gone.notified();
        if other.progress.silence(now) >= SILENT {
            other.gives_way.notify_one();
        }
        // It may be gone by now.
        if let Ok(claimed) = self.try_claim(path, progress) {
            return Some(claimed);
        }
        let _ = timeout(GIVES_WAY, gone).await;
        self.try_claim(path, progress).ok()
    }

    fn try_claim(
        self: &Arc<Self>,
        path: &ContentPath,
        progress: &Arc<RecordingProgress>,
    ) -> Result<(ClaimedName, Option<HeldPlace>), Arc<NameHolder>> {
        let mut names = lock(&self.0);
        if let Some(NameUse::Running(other)) = names.get(path) {
            return Err(Arc::clone(other));
        }
        let (gives_way, gone) = (Notify::new(), Notify::new());
        let holder = Arc::new(NameHolder { progress: Arc::clone(progress), gives_way, gone });
        let held = match names.insert(path.clone(), NameUse::Running(Arc::clone(&holder))) {
            Some(NameUse::Held(place, _)) => Some(place),
            _ => None,
        };
        let names = Arc::clone(self);
        Ok((ClaimedName { names, path: path.clone(), holder, held: None }, held))
    }

    /// Ends the places held until `now` at most; all of them without a time. The reservations are to be given back.
    pub(crate) fn expire(&self, now: Option<Instant>) -> Vec<ReservationId> {
        let mut over = Vec::new();
        lock(&self.0).retain(|_, name| match name {
            NameUse::Held(place, until) if now.is_none_or(|now| *until <= now) => {
                over.push(place.reservation);
                false
            }
            _ => true,
        });
        over
    }
}

impl ClaimedName {
    /// Waits until another recording has come to its name.
    pub(crate) async fn is_wanted(&self) {
        self.holder.gives_way.notified().await;
    }

    /// When it is dropped, its place is held until then.
    pub(crate) fn hold(&mut self, place: HeldPlace, until: Instant) {
        self.held = Some((place, until));
    }
}

impl Drop for ClaimedName {
    fn drop(&mut self) {
        let mut names = lock(&self.names.0);
        match self.held.take() {
            Some((place, until)) => names.insert(self.path.clone(), NameUse::Held(place, until)),
            None => names.remove(&self.path),
        };
        drop(names);
        self.holder.gone.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_one_recordings_until_it_ends_or_has_been_silent() {
        let (names, path) = (Arc::<RecordingNames>::default(), ContentPath::parse_encoded("/cam7.ts").expect("a path"));
        let (first, second) = (Arc::<RecordingProgress>::default(), Arc::<RecordingProgress>::default());
        let now = Nanos::from_secs(60);
        first.note(1, now);
        let (claimed, held) = names.claim(&path, &first, now).await.expect("it is free");
        assert!(held.is_none());
        let early = now.saturating_add(Nanos(SILENT.0 - 1));
        assert!(names.claim(&path, &second, early).await.is_none(), "it sends");
        let other = ContentPath::parse_encoded("/cam8.ts").expect("a path");
        assert!(names.claim(&other, &second, early).await.is_some());
        // It ends when another one comes to its name, and not before.
        let ends = tokio::spawn(async move {
            claimed.is_wanted().await;
            drop(claimed);
        });
        let late = now.saturating_add(SILENT);
        let (claimed, _) = names.claim(&path, &second, late).await.expect("the first gave way");
        ends.await.expect("it ended");
        // A camera comes back before the server sees that its connection broke.
        second.note(1, late);
        let (claimed, ()) = tokio::join!(names.claim(&path, &first, late), async { drop(claimed) });
        assert!(claimed.is_some());
        drop(claimed);
        assert!(lock(&names.0).is_empty(), "nothing is kept of those that are over");
    }
}
