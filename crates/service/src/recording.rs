//! Recordings: an upload whose rate is reserved before its first byte is taken.
//!
//! Promise: a recording is written on the disk that reserved for it, and gives the reservation back however it ends. Not
//! here: its bytes (`ingest`), what a reservation counts (the data plane).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use dataplane::control::{Command, RecordingRequest, Refusal, Report};
use units::{BitRate, DiskId, LinkId, ReservationId, StreamId};

use crate::contents::{ContentPath, StoreError, UploadClass, UploadRequest, UploadSink};
use crate::delivery::{Client, note_refusal};
use crate::ingest::IngestError;
use crate::media_service::{MediaService, RunningStream};

/// A recording's reservation and its entry in the listing of streams, given back when it is dropped.
pub(crate) struct RunningRecording {
    service: Arc<MediaService>,
    stream: StreamId,
    demand: RecordingDemand,
    reservation: ReservationId,
}

/// What is to be reserved.
#[derive(Debug, Clone, Copy)]
struct RecordingDemand {
    rate: BitRate,
    disk: DiskId,
    link: LinkId,
}

/// Reserves `rate` and begins the upload `request`, on the first of the disks it may go to that has room for it and takes
/// it. What is counted in `received` is listed as its bytes.
///
/// # Errors
/// No room, with the highest rate that one of the disks would grant; what the store says.
pub(crate) async fn begin(
    service: &Arc<MediaService>,
    request: UploadRequest,
    rate: BitRate,
    client: Client,
    received: &Arc<AtomicU64>,
) -> Result<(RunningRecording, Box<dyn UploadSink>), IngestError> {
    let link = service.link(client.local);
    let mut refused: Option<Refusal> = None;
    for disk in service.contents.placements(&request).await? {
        let recording = match RunningRecording::reserve(service, RecordingDemand { rate, disk, link }).await? {
            Ok(recording) => recording,
            Err(refusal) => {
                refused = refused.filter(|before| before.grantable >= refusal.grantable).or(Some(refusal));
                continue;
            }
        };
        let class = UploadClass::Recording { rate, disk, reservation: recording.reservation };
        match service.contents.begin_upload(UploadRequest { class, ..request.clone() }).await {
            Ok(upload) => {
                recording.list(&request.path, client.address, Arc::clone(received));
                return Ok((recording, upload));
            }
            Err(StoreError::ReadOnly) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let Some(refusal) = refused else { return Err(StoreError::ReadOnly.into()) };
    note_refusal(service, &refusal, &request.path.joined(), client.address, Some(rate));
    Err(IngestError::NoRoom(refusal))
}

impl RunningRecording {
    async fn reserve(
        service: &Arc<MediaService>,
        demand: RecordingDemand,
    ) -> Result<Result<Self, Refusal>, IngestError> {
        let mut pending = service.plane.number().ok_or(IngestError::Busy)?;
        let RecordingDemand { rate, disk, link } = demand;
        let request = RecordingRequest { stream: pending.stream, disk, link, rate };
        service.plane.send(Command::Reserve(request)).map_err(|_| IngestError::Busy)?;
        match pending.report().await {
            Some(Report::Reserved { reservation, .. }) => {
                Ok(Ok(Self { service: Arc::clone(service), stream: pending.stream, demand, reservation }))
            }
            Some(Report::ReserveRefused { refusal, .. }) => Ok(Err(refusal)),
            _ => Err(IngestError::Busy),
        }
    }

    fn list(&self, path: &ContentPath, client: IpAddr, received: Arc<AtomicU64>) {
        let running = RunningStream {
            path: path.joined(),
            client,
            rate: Some(self.demand.rate),
            disk: self.demand.disk,
            started: SystemTime::now(),
            received: Some(received),
        };
        self.service.running().insert(self.stream, running);
    }
}

impl Drop for RunningRecording {
    fn drop(&mut self) {
        self.service.running().remove(&self.stream);
        self.service.plane.release(self.reservation);
    }
}
