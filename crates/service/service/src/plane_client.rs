//! The data plane's client: numbers streams, sends commands, and gives each report to the request that
//! waits for it.
//!
//! Promise: never waits for the plane (a full queue is an answer); a reservation without an owner is released.
//! Not here: the use of a report by its request (`delivery`, `recording`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use dataplane::control::{Command, NewProfile, Report};
use tokio::sync::mpsc;
use units::limits::{STREAMS_MAX, UPLOADS_MAX};
use units::{ReservationId, StreamId};

use crate::lock::lock;

/// The data plane's command queue.
pub trait PlaneQueue: Send + Sync + 'static {
    /// Hands over a command without waiting.
    ///
    /// # Errors
    /// The command, when the queue is full.
    fn send(&self, command: Command) -> Result<(), Command>;
}

/// Reports one stream can get before they are read: started, a send to its outlet, that it waits there instead, and finished.
const REPORTS_MAX: usize = 4;
/// Releases kept for later while the plane's queue is full.
const RELEASES_MAX: usize = 2 * STREAMS_MAX;

/// This side of the command and report queues.
pub(crate) struct PlaneClient {
    plane: Arc<dyn PlaneQueue>,
    next: AtomicU64,
    waiting: Mutex<HashMap<StreamId, mpsc::Sender<Report>>>,
    /// Reservations to release that the plane's queue had no room for.
    unsent_releases: Mutex<Vec<ReservationId>>,
}

/// A numbered stream; its reports come here.
pub(crate) struct PendingStream {
    plane: Arc<PlaneClient>,
    /// Its number.
    pub stream: StreamId,
    reports: mpsc::Receiver<Report>,
}

impl PlaneClient {
    /// A client of `plane`.
    #[must_use]
    pub(crate) fn new(plane: Arc<dyn PlaneQueue>) -> Self {
        Self { plane, next: AtomicU64::new(1), waiting: Mutex::default(), unsent_releases: Mutex::default() }
    }

    /// Numbers a stream; `None` when as many as the tables hold are under way.
    pub(crate) fn number(self: &Arc<Self>) -> Option<PendingStream> {
        let stream = self.stream_id();
        let (sender, reports) = mpsc::channel(REPORTS_MAX);
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= STREAMS_MAX + UPLOADS_MAX {
            return None;
        }
        waiting.insert(stream, sender);
        Some(PendingStream { plane: Arc::clone(self), stream, reports })
    }

    /// A number that no other stream has.
    pub(crate) fn stream_id(&self) -> StreamId {
        StreamId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands a command to the plane.
    ///
    /// # Errors
    /// The command, when the plane's queue is full.
    pub(crate) fn send(&self, command: Command) -> Result<(), Command> {
        self.plane.send(command)
    }

    /// Releases a reservation, now or as soon as the plane's queue has room.
    pub(crate) fn release(&self, reservation: ReservationId) {
        if self.plane.send(Command::Release(reservation)).is_err() {
            let mut unsent = lock(&self.unsent_releases);
            assert!(unsent.len() < RELEASES_MAX, "more releases than reservations exist");
            unsent.push(reservation);
        }
    }

    /// Releases all of these.
    pub(crate) fn release_all(&self, reservations: impl IntoIterator<Item = ReservationId>) {
        reservations.into_iter().for_each(|reservation| self.release(reservation));
    }

    /// Sends the releases that wait for room in the queue; true if none is left.
    pub(crate) fn send_releases(&self) -> bool {
        let mut unsent = lock(&self.unsent_releases);
        while let Some(reservation) = unsent.pop() {
            if self.plane.send(Command::Release(reservation)).is_err() {
                unsent.push(reservation);
                return false;
            }
        }
        true
    }

    /// Gives a disk another profile.
    ///
    /// # Errors
    /// The plane's queue is full.
    pub(crate) fn set_profile(&self, profile: NewProfile) -> Result<(), Command> {
        self.plane.send(Command::SetProfile(Box::new(profile)))
    }

    /// Asks for the end of one stream; false if the plane's queue is full.
    pub(crate) fn stop(&self, stream: StreamId) -> bool {
        self.plane.send(Command::Stop(stream)).is_ok()
    }

    /// Asks for the end of all streams under way.
    pub(crate) fn stop_all(&self) {
        let streams: Vec<StreamId> = lock(&self.waiting).keys().copied().collect();
        for stream in streams {
            // A full queue leaves the rest running: the process is about to end anyway.
            let _ = self.plane.send(Command::Stop(stream));
        }
    }

    /// Gives a report of a stream to the request that waits for it.
    pub(crate) fn on_report(&self, report: Report) {
        let stream = match &report {
            Report::Started { stream, .. }
            | Report::Posted { stream }
            | Report::Reserved { stream, .. }
            | Report::ReserveRefused { stream, .. } => *stream,
            Report::Refused { delivery, .. } | Report::Finished { delivery, .. } => delivery.stream,
            Report::Event(_) | Report::Unused(_) | Report::Kept(_) | Report::Profiled { .. } => return,
        };
        let sender = lock(&self.waiting).get(&stream).cloned();
        let unclaimed = match sender {
            // The reader examines its outlet for each unread report; the last place is kept for the report of the end.
            Some(sender) if matches!(report, Report::Posted { .. }) && sender.capacity() < 2 => return,
            Some(sender) => sender.try_send(report).err().map(|error| match error {
                mpsc::error::TrySendError::Full(report) | mpsc::error::TrySendError::Closed(report) => report,
            }),
            None => Some(report),
        };
        if let Some(report) = unclaimed {
            self.abandoned(&report);
        }
    }

    /// Releases the reservations in a report for a request that is over.
    fn abandoned(&self, report: &Report) {
        match report {
            Report::Finished { end, .. } => self.release_all(end.held),
            Report::Reserved { reservation, .. } => self.release(*reservation),
            _ => {}
        }
    }
}

impl PendingStream {
    /// The stream's next report; `None` if the plane is gone.
    pub(crate) async fn report(&mut self) -> Option<Report> {
        self.reports.recv().await
    }
}

impl Drop for PendingStream {
    fn drop(&mut self) {
        lock(&self.plane.waiting).remove(&self.stream);
        self.reports.close();
        while let Ok(report) = self.reports.try_recv() {
            self.plane.abandoned(&report);
        }
    }
}

#[cfg(test)]
mod tests {
    use dataplane::control::{Refusal, Resource};
    use units::BitRate;

    use super::*;

    struct NoPlane;

    impl PlaneQueue for NoPlane {
        fn send(&self, _: Command) -> Result<(), Command> {
            Ok(())
        }
    }

    /// Regression: a slow reader of an outlet takes a part of each send, and reads none of the reports of these.
    #[test]
    fn sends_whose_reports_are_not_read_leave_room_for_the_end() {
        let client = Arc::new(PlaneClient::new(Arc::new(NoPlane)));
        let mut pending = client.number().expect("there is room");
        let stream = pending.stream;
        (0..10).for_each(|_| client.on_report(Report::Posted { stream }));
        let refusal = Refusal { resource: Resource::Draining, grantable: BitRate(0) };
        client.on_report(Report::ReserveRefused { stream, refusal });
        let reports: Vec<Report> = std::iter::from_fn(|| pending.reports.try_recv().ok()).collect();
        assert_eq!(reports.len(), REPORTS_MAX);
        assert!(matches!(reports.last(), Some(Report::ReserveRefused { .. })), "the last one is lost");
    }
}
