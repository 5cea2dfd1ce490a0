//! The reservation of a recording, an upload whose rate is reserved before its first byte is taken.
//!
//! Promise: it is given back however the recording ends. Not here: its bytes, and on which disk it is written (`ingest`), what a
//! reservation counts (the data plane).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use dataplane::control::{Command, RecordingRequest, Refusal, Report};
use units::{BitRate, DiskId, LinkId, ReservationId, StreamId};

use crate::contents::{ContentPath, UploadClass};
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
pub(crate) struct RecordingDemand {
    pub(crate) rate: BitRate,
    pub(crate) disk: DiskId,
    pub(crate) link: LinkId,
}

/// Why a rate was not reserved.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReserveError {
    /// There is no room for it.
    NoRoom(Refusal),
    /// A queue or table is full.
    Busy,
}

impl RunningRecording {
    /// Reserves the rate.
    pub(crate) async fn reserve(service: &Arc<MediaService>, demand: RecordingDemand) -> Result<Self, ReserveError> {
        let mut pending = service.plane.number().ok_or(ReserveError::Busy)?;
        let RecordingDemand { rate, disk, link } = demand;
        let request = RecordingRequest { stream: pending.stream, disk, link, rate };
        service.plane.send(Command::Reserve(request)).map_err(|_| ReserveError::Busy)?;
        match pending.report().await {
            Some(Report::Reserved { reservation, .. }) => {
                Ok(Self { service: Arc::clone(service), stream: pending.stream, demand, reservation })
            }
            Some(Report::ReserveRefused { refusal, .. }) => Err(ReserveError::NoRoom(refusal)),
            _ => Err(ReserveError::Busy),
        }
    }

    /// How its upload is written.
    pub(crate) const fn class(&self) -> UploadClass {
        UploadClass::Recording { rate: self.demand.rate, disk: self.demand.disk, reservation: self.reservation }
    }

    /// Enters it into the listing of streams; what is counted in `received` is shown as its bytes.
    pub(crate) fn list(&self, path: &ContentPath, client: IpAddr, received: Arc<AtomicU64>) {
        let running = RunningStream {
            path: path.joined(),
            client,
            rate: Some(self.demand.rate),
            disk: self.demand.disk,
            started: SystemTime::now(),
            received: Some(received),
            stopped: false,
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
