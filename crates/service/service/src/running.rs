//! Streams, recordings and uploads under way.
//!
//! Promise: a listing is never behind a stream's first byte, nor ahead of its end. Not here: the plane's table of streams (`dataplane`).

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use api::{RateOrigin, RunningClasses};
use units::{BitRate, DiskId, StreamId};

use crate::access::{Permit, ToRead};
use crate::accounts::RightsInForce;
use crate::budgets::{BudgetKey, BudgetLimit, BudgetLimits, BudgetRefusal, ChargedBudgets};
use crate::contents::ContentPath;
use crate::lock::lock;
use crate::plane_client::PlaneClient;
use crate::recording_pace::RecordingProgress;
use crate::session::Limits;

/// The streams, recordings and uploads under way, by number.
#[derive(Debug, Default)]
pub struct RunningStreams(Mutex<HashMap<StreamId, RunningStream>>);

/// A stream under way, as the service knows it: from the moment it asks the data plane for it, so that its listing is never
/// behind its first byte; a recording from the moment it has its reservation, an upload from its first byte.
#[derive(Debug, Clone)]
pub struct RunningStream {
    /// The content, below the root.
    pub path: String,
    /// The client.
    pub client: IpAddr,
    /// The account that it logged in as; none: without a login, or a recording's.
    pub user: Option<String>,
    /// The permit to read it; none: it is not a delivery.
    pub permit: Option<Permit<ToRead>>,
    /// The budgets that it is charged to.
    pub charged: ChargedBudgets,
    /// The rate promised; none for best effort.
    pub rate: Option<BitRate>,
    /// The source of its rate.
    pub rate_from: RateOrigin,
    /// The disk it reads from or is written to.
    pub disk: DiskId,
    /// When it began.
    pub started: SystemTime,
    /// Progress of a recording or an upload; none for a delivery.
    pub incoming: Option<Arc<RecordingProgress>>,
    /// A client requested its end, or its right was taken back: its viewer keeps nothing of it, so that others get its reservation.
    pub stopped: bool,
    /// The newer read of its viewer that took its reservation over; it continues as best effort.
    pub passed_to: Option<StreamId>,
}

/// Why a stream is not stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// No stream of this number runs.
    #[error("no stream of this number runs")]
    Unknown,
    /// Only the sending client ends a recording or an upload: the bytes received are kept or dropped as it requested.
    #[error("this is a recording or an upload: its own client ends it")]
    Incoming,
    /// The data plane's queue is full.
    #[error("too many requests are under way; try again later")]
    Busy,
}

impl RunningStreams {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, RunningStream>> {
        lock(&self.0)
    }

    /// Enters a stream, if its budgets admit one more; `from` is the stream that loses its reservation to it.
    ///
    /// # Errors
    /// A budget has as many streams as it may, or they are sent at its whole rate.
    pub(crate) fn enter(
        &self,
        stream: StreamId,
        running: RunningStream,
        from: Option<StreamId>,
        limits: Limits<'_>,
    ) -> Result<(), BudgetRefusal> {
        let mut streams = self.lock();
        for key in running.charged.iter() {
            let BudgetLimits { streams: streams_max, download, .. } = limits(key);
            let counts = |(id, known): &(&StreamId, &RunningStream)| Some(**id) != from && known.is_charged_to(key);
            let others = || streams.iter().filter(counts).map(|(_, known)| known);
            let refusal = |limit, most, used, more| {
                Err(BudgetRefusal { budget: key.clone(), limit, most, used, more, frees_in: None })
            };
            if let Some(most) = streams_max {
                let used = others().count() as u64;
                if used >= most {
                    return refusal(BudgetLimit::Streams, most, used, 1);
                }
            }
            // Reads that passed their reservation on are still sent at their rate.
            if let (Some(most), Some(rate)) = (download, running.delivered_rate()) {
                let used = others().filter_map(RunningStream::delivered_rate).fold(0, |sum, rate| sum + rate.0);
                if used + rate.0 > most.0 {
                    return refusal(BudgetLimit::Download, most.0, used, rate.0);
                }
            }
        }
        streams.insert(stream, running);
        Ok(())
    }

    /// Asks the plane for the end of a stream to a client. Gives its content's path.
    ///
    /// # Errors
    /// There is none of this number, it is a recording, or too much is under way.
    pub(crate) fn stop(&self, stream: StreamId, plane: &PlaneClient) -> Result<String, StopError> {
        // Its end is not looked at before the request to the plane.
        let mut running = self.lock();
        let known = running.get_mut(&stream).ok_or(StopError::Unknown)?;
        if known.incoming.is_some() {
            return Err(StopError::Incoming);
        }
        known.stop(stream, plane).then(|| known.path.clone()).ok_or(StopError::Busy)
    }

    /// Asks the plane for the end of streams with a right that was taken back. Gives their contents' paths and permits. Where the plane's queue is
    /// full, the next time is soon enough.
    pub(crate) fn stop_unpermitted(
        &self,
        rights: &RightsInForce,
        plane: &PlaneClient,
    ) -> Vec<(StreamId, String, Permit<ToRead>)> {
        let mut running = self.lock();
        let stopped = running.iter_mut().filter_map(|(stream, known)| {
            let permit =
                known.permit.as_ref().filter(|permit| !known.stopped && !permit.is_in_force(rights)).cloned()?;
            known.stop(*stream, plane).then(|| (*stream, known.path.clone(), permit))
        });
        stopped.collect()
    }

    /// Streams and recordings that are charged to a budget.
    pub(crate) fn charged_to(&self, key: &BudgetKey) -> u64 {
        self.lock().values().filter(|known| known.is_charged_to(key)).count() as u64
    }

    /// The budgets that streams and recordings are charged to.
    pub(crate) fn budgets(&self) -> HashSet<BudgetKey> {
        self.lock().values().flat_map(|known| known.charged.iter().cloned()).collect()
    }

    /// How many streams and recordings are under way, by how they were begun.
    #[must_use]
    pub fn counts(&self) -> RunningClasses {
        let mut counts = RunningClasses::default();
        for stream in self.lock().values() {
            let count = match (&stream.incoming, stream.rate) {
                (Some(_), None) => continue,
                (Some(_), Some(_)) => &mut counts.recordings,
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

impl RunningStream {
    /// An upload under way.
    pub(crate) fn incoming(
        path: &ContentPath,
        (client, charged): (IpAddr, &ChargedBudgets),
        disk: DiskId,
        progress: Arc<RecordingProgress>,
    ) -> Self {
        Self {
            path: path.joined(),
            client,
            user: None,
            permit: None,
            charged: charged.clone(),
            rate: None,
            rate_from: RateOrigin::LeftOver,
            disk,
            started: SystemTime::now(),
            incoming: Some(progress),
            stopped: false,
            passed_to: None,
        }
    }

    /// Asks the plane for its end; false if the plane's queue is full.
    fn stop(&mut self, stream: StreamId, plane: &PlaneClient) -> bool {
        let asked = plane.stop(stream);
        self.stopped |= asked;
        asked
    }

    /// True if it counts among the streams of a budget: an upload is no stream.
    fn is_charged_to(&self, key: &BudgetKey) -> bool {
        let is_upload = self.incoming.is_some() && self.rate.is_none();
        !is_upload && self.charged.has(key)
    }

    /// The rate of a stream to a client; none for best effort, which waits for its budgets, and for a recording.
    fn delivered_rate(&self) -> Option<BitRate> {
        self.rate.filter(|_| self.incoming.is_none())
    }
}

/// The entry of an upload, gone when this is dropped.
pub(crate) struct ListedUpload {
    running: Arc<RunningStreams>,
    stream: StreamId,
}

impl ListedUpload {
    /// Enters it under a number that no stream has.
    pub(crate) fn enter(running: &Arc<RunningStreams>, stream: StreamId, upload: RunningStream) -> Self {
        running.lock().insert(stream, upload);
        Self { running: Arc::clone(running), stream }
    }

    /// Lists it as this content.
    pub(crate) fn name(&self, path: &ContentPath) {
        if let Some(upload) = self.running.lock().get_mut(&self.stream) {
            upload.path = path.joined();
        }
    }
}

impl Drop for ListedUpload {
    fn drop(&mut self) {
        self.running.lock().remove(&self.stream);
    }
}
