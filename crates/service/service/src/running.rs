//! Streams and recordings under way.
//!
//! Promise: a listing is never behind a stream's first byte, nor ahead of its end. Not here: the plane's table of streams (`dataplane`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use api::RunningClasses;
use units::{BitRate, DiskId, StreamId};

use crate::lock::lock;
use crate::recording_pace::RecordingProgress;

/// The streams and recordings under way, by number.
#[derive(Debug, Default)]
pub struct RunningStreams(Mutex<HashMap<StreamId, RunningStream>>);

/// A stream under way, as the service knows it: from the moment it asks the data plane for it, so that its listing is never
/// behind its first byte; a recording from the moment it has its reservation.
#[derive(Debug, Clone)]
pub struct RunningStream {
    /// The content, below the root.
    pub path: String,
    /// The client.
    pub client: IpAddr,
    /// The account that it logged in as; none: without a login, or a recording's.
    pub user: Option<String>,
    /// The rate promised; none for best effort.
    pub rate: Option<BitRate>,
    /// The disk it reads from or is written to.
    pub disk: DiskId,
    /// When it began.
    pub started: SystemTime,
    /// Progress of a recording; none for a delivery.
    pub recording: Option<Arc<RecordingProgress>>,
    /// A client requested its end, so that others get its reservation: its viewer keeps nothing of it.
    pub stopped: bool,
}

impl RunningStreams {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, RunningStream>> {
        lock(&self.0)
    }

    /// How many are under way, by how they were begun.
    #[must_use]
    pub fn counts(&self) -> RunningClasses {
        let mut counts = RunningClasses::default();
        for stream in self.lock().values() {
            let count = match (&stream.recording, stream.rate) {
                (Some(_), _) => &mut counts.recordings,
                (None, Some(_)) => &mut counts.constant,
                (None, None) => &mut counts.best_effort,
            };
            *count += 1;
        }
        counts
    }

    /// Streams to clients.
    #[must_use]
    pub fn deliveries(&self) -> u64 {
        let counts = self.counts();
        counts.constant + counts.best_effort
    }

    /// True if none is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}
