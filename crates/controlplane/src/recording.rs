//! Recordings: a PUT whose rate is reserved before its first byte is taken.
//!
//! Promise: a recording is written on the disk that reserved for it, and gives the reservation back however it ends. Not
//! here: its bytes (`upload`), what a reservation counts (the data plane).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use dataplane::control::{Command, RecordingRequest, Refusal, Report};
use units::{BitRate, DiskId, ReservationId, StreamId};

use crate::contents::{ContentPath, StoreError, UploadClass, UploadRequest, UploadSink};
use crate::media;
use crate::message::reply::Reply;
use crate::problem;
use crate::router::Exchange;
use crate::shared::{Running, Shared, lock};

/// A recording's reservation and its place in the listing of streams, given back when it is dropped.
pub(crate) struct Recording {
    shared: Arc<Shared>,
    stream: StreamId,
    terms: Terms,
    reservation: ReservationId,
}

/// What is to be reserved.
#[derive(Debug, Clone, Copy)]
struct Terms {
    rate: BitRate,
    disk: DiskId,
}

/// Reserves `rate` and begins the upload `request`, on the first of the disks it may go to that has room for it and takes
/// it. What is counted in `received` is listed as its bytes.
///
/// # Errors
/// 503 with the highest rate that one of the disks would grant; what the store says.
pub(crate) async fn begin(
    exchange: &Exchange,
    request: UploadRequest,
    rate: BitRate,
    received: &Arc<AtomicU64>,
) -> Result<(Recording, Box<dyn UploadSink>), Reply> {
    let contents = &exchange.shared.contents;
    let disks = contents.placements(&request.path).await.map_err(|error| problem::of_store(&error))?;
    let mut refused: Option<Refusal> = None;
    for disk in disks {
        let recording = match Recording::reserve(exchange, Terms { rate, disk }).await? {
            Ok(recording) => recording,
            Err(refusal) => {
                refused = refused.filter(|before| before.grantable >= refusal.grantable).or(Some(refusal));
                continue;
            }
        };
        let class = UploadClass::Recording { rate, disk, reservation: recording.reservation };
        match contents.begin_upload(UploadRequest { class, ..request.clone() }).await {
            Ok(upload) => {
                recording.list(&request.path, exchange.peer.ip(), Arc::clone(received));
                return Ok((recording, upload));
            }
            Err(StoreError::ReadOnly) => {}
            Err(error) => return Err(problem::of_store(&error)),
        }
    }
    Err(match refused {
        Some(refusal) => {
            media::refused(&exchange.shared, refusal, &request.path.joined(), exchange.peer.ip(), Some(rate))
        }
        None => problem::of_store(&StoreError::ReadOnly),
    })
}

impl Recording {
    async fn reserve(exchange: &Exchange, terms: Terms) -> Result<Result<Self, Refusal>, Reply> {
        let shared = &exchange.shared;
        let link = shared.config().link(exchange.local.ip());
        let Some(mut ticket) = shared.broker.ticket() else { return Err(problem::busy(&shared.config())) };
        let request = RecordingRequest { stream: ticket.stream, disk: terms.disk, link, rate: terms.rate };
        if shared.broker.send(Command::Reserve(request)).is_err() {
            return Err(problem::busy(&shared.config()));
        }
        match ticket.report().await {
            Some(Report::Reserved { reservation, .. }) => {
                Ok(Ok(Self { shared: Arc::clone(shared), stream: ticket.stream, terms, reservation }))
            }
            Some(Report::ReserveRefused { refusal, .. }) => Ok(Err(refusal)),
            _ => Err(problem::busy(&shared.config())),
        }
    }

    fn list(&self, path: &ContentPath, client: IpAddr, received: Arc<AtomicU64>) {
        let running = Running {
            path: path.joined(),
            client,
            rate: Some(self.terms.rate),
            disk: self.terms.disk,
            started: SystemTime::now(),
            received: Some(received),
        };
        lock(&self.shared.running).insert(self.stream, running);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        lock(&self.shared.running).remove(&self.stream);
        self.shared.broker.release(self.reservation);
    }
}
