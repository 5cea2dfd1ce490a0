//! The reservation of a recording, an upload with a rate that is reserved before its first byte is taken.
//!
//! Promise: it is given back however the recording ends. Not here: its bytes, and on which disk it is written (`ingest`), the
//! cost of a reservation (the data plane).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::RateOrigin;
use dataplane::control::{Command, RecordingPlace, RecordingRequest, Report, WrittenDisks};
use units::{BitRate, LinkId, Nanos, ReservationId, limits};

use crate::budgets::{BudgetRefusal, ChargedBudgets};
use crate::contents::{ContentPath, UploadClass};
use crate::delivery::DeliveryError;
use crate::media_service::MediaService;
use crate::recording_names::HeldPlace;
use crate::recording_pace::RecordingProgress;
use crate::running::RunningStream;
use crate::shortage::Shortage;

/// A recording's reservation and its entry in the listing of streams, given back when it is dropped.
pub(crate) struct RunningRecording {
    service: Arc<MediaService>,
    request: RecordingRequest,
    reservation: ReservationId,
    place: RecordingPlace,
    /// Its reservation is held for another recording.
    is_handed_over: AtomicBool,
}

impl RunningRecording {
    /// Reserves the rate on the disks, and on the link by which it comes in; received bytes are to be durable after the time
    /// `durable`.
    pub(crate) async fn reserve(
        service: &Arc<MediaService>,
        (rate, disks, link): (BitRate, WrittenDisks, LinkId),
        durable: Nanos,
    ) -> Result<Self, DeliveryError> {
        if let Some(refusal) = service.near.bars(None, &[disks.store], link) {
            return Err(DeliveryError::NoRoom(Shortage::of(service, refusal)));
        }
        let mut pending = service.plane.number().ok_or(DeliveryError::Busy)?;
        let block_bytes_max = service.contents.recording_memory() / limits::RECORDING_BLOCK_PART;
        let request = RecordingRequest { stream: pending.stream, disks, link, rate, durable, block_bytes_max };
        service.plane.send(Command::Reserve(request)).map_err(|_| DeliveryError::Busy)?;
        match pending.report().await {
            Some(Report::Reserved { reservation, place, .. }) => {
                Ok(Self::with(service, HeldPlace { request, reservation, place }))
            }
            Some(Report::ReserveRefused { refusal, .. }) => Err(DeliveryError::NoRoom(Shortage::of(service, refusal))),
            _ => Err(DeliveryError::Busy),
        }
    }

    /// How its upload is written.
    pub(crate) const fn class(&self) -> UploadClass {
        let RecordingRequest { rate, disks, .. } = self.request;
        UploadClass::Recording { rate, disks, reservation: self.reservation, place: self.place }
    }

    /// A recording in a place that is there.
    pub(crate) fn with(service: &Arc<MediaService>, held: HeldPlace) -> Self {
        let HeldPlace { request, reservation, place } = held;
        Self { service: Arc::clone(service), request, reservation, place, is_handed_over: AtomicBool::new(false) }
    }

    /// Whether it equals the reservation of a recording with these terms.
    pub(crate) fn is(&self, rate: BitRate, durable: Nanos, link: LinkId) -> bool {
        self.request.rate == rate && self.request.durable == durable && self.request.link == link
    }

    /// Leaves its place to another recording; the recording itself has ended.
    pub(crate) fn hand_over(&self) -> HeldPlace {
        self.is_handed_over.store(true, Ordering::Relaxed);
        self.leave_listing();
        HeldPlace { request: self.request, reservation: self.reservation, place: self.place }
    }

    fn leave_listing(&self) {
        self.service.running.lock().remove(&self.request.stream);
        self.service.sessions.end_recording(self.request.stream);
    }

    /// The reserved rate, in bits per second.
    pub(crate) const fn rate(&self) -> BitRate {
        self.request.rate
    }

    /// When its blocks are due.
    pub(crate) const fn place(&self) -> RecordingPlace {
        self.place
    }

    /// It is listed with another content from now on.
    pub(crate) fn continues_in(&self, path: &ContentPath) {
        if let Some(running) = self.service.running.lock().get_mut(&self.request.stream) {
            running.path = path.joined();
        }
    }

    /// Enters it into the listing of streams; with its `progress`.
    ///
    /// # Errors
    /// A budget does not admit it.
    pub(crate) fn list(
        &self,
        path: &ContentPath,
        (client, charged): (IpAddr, &ChargedBudgets),
        progress: Arc<RecordingProgress>,
    ) -> Result<(), BudgetRefusal> {
        let service = &self.service;
        service.sessions.begin_recording(self.request.stream, charged, self.request.rate)?;
        let (rate, rate_from) = (Some(self.request.rate), RateOrigin::Request);
        let running = RunningStream::incoming(path, (client, charged), self.request.disks.store, progress);
        let running = RunningStream { rate, rate_from, ..running };
        service.running.enter(self.request.stream, running, None, &|key| service.accounts.limits(key))
    }
}

impl Drop for RunningRecording {
    fn drop(&mut self) {
        if !*self.is_handed_over.get_mut() {
            self.leave_listing();
            self.service.plane.release(self.reservation);
        }
    }
}
