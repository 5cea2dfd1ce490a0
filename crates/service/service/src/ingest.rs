//! Uploads and recordings: bytes that come in, through stages, to the store.
//!
//! Promise: what is finished is durable; a writer that is dropped, or fails, leaves nothing behind or what came ([`OnBreak`]),
//! and is logged. A recording is written on the disk that reserved its rate. The caller does not read on while `write` waits, so
//! that a slow disk slows the client. Not here: disks (`contents`), who may write (`access`), a reservation's life (`recording`).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use dataplane::control::{Command, Refusal};
use tokio::sync::watch;
use units::{BitRate, Nanos};

use crate::access::{Permit, ToDelete, ToWrite};
use crate::contents::{
    ContentPath, NameTaken, OnBreak, Precondition, Published, StoreError, StoredItem, UploadClass, UploadRequest,
    UploadSink,
};
use crate::delivery::DeliveryError;
use crate::delivery::{Client, note_refusal};
use crate::events::{self, Remover, UploadOutcome};
use crate::media_service::MediaService;
use crate::pipeline::{StageError, Stages};
use crate::quota::{QuotaRefusal, QuotaShare, QuotaTerms};
use crate::recording::RunningRecording;
use crate::recording_pace::{RecordingPace, RecordingProgress};
use crate::shares::{ClientIdentity, Share};

/// A content to be stored under the path of a permit.
#[derive(Debug, Clone)]
pub struct IngestRequest {
    /// Its length, if that was announced.
    pub length: Option<u64>,
    /// What must hold of what is there.
    pub precondition: Precondition,
    /// The rate to reserve; none: an upload takes what is left over.
    pub rate: Option<BitRate>,
    /// What has come of a recording is to be durable after so long; none: as is configured. An upload may be so long after its answer;
    /// none: it is then.
    pub durable: Option<Nanos>,
    /// What becomes of it if it breaks off.
    pub on_break: OnBreak,
    /// Who sends it.
    pub client: Client,
}

/// Why something is not stored.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A quota does not take it.
    #[error(transparent)]
    Quota(#[from] QuotaRefusal),
    /// Its rate cannot be reserved.
    #[error("there is no room for a recording at this rate")]
    NoRoom(Refusal),
    /// A queue or table is full.
    #[error("too many requests are under way")]
    Busy,
    /// Its client sends as many as it may at once; with how many these are.
    #[error("this client sends {0} uploads already, the most that one may at once; let one of them end first")]
    ClientBusy(usize),
    /// Longer than an upload may be; with how long that is.
    #[error("an upload has at most {0} bytes here")]
    TooLarge(u64),
    /// No recording is durable so soon; with how soon one is.
    #[error("durable= is at least {0} here: three rounds of the disk's schedule")]
    Durable(Nanos),
    /// The server ends.
    #[error("the server ended before all of it had come")]
    Stopping,
    /// A stage refused.
    #[error(transparent)]
    Stage(#[from] StageError),
}

/// An upload under way.
pub struct Writer {
    service: Arc<MediaService>,
    upload: Option<Box<dyn UploadSink>>,
    _share: Share<ClientIdentity>,
    stages: Stages,
    recording: Option<RunningRecording>,
    quota: QuotaShare,
    progress: Arc<RecordingProgress>,
    pace: Option<RecordingPace>,
    stopping: watch::Receiver<bool>,
    bytes_max: u64,
    path: ContentPath,
    client: IpAddr,
    begun: Instant,
    /// What is logged when this is dropped.
    end: Result<u64, String>,
}

/// Begins to store under the permit's path. A rate is reserved before the first byte is taken.
///
/// # Errors
/// Why it cannot be stored.
pub async fn begin(
    service: &Arc<MediaService>,
    permit: &Permit<ToWrite>,
    request: IngestRequest,
    stages: Stages,
) -> Result<Writer, IngestError> {
    let bytes_max = service.config().upload_bytes_max;
    if request.length.is_some_and(|length| length > bytes_max) {
        return Err(IngestError::TooLarge(bytes_max));
    }
    let most = service.config().uploads_per_client;
    let identity = ClientIdentity::of(permit.user(), request.client.address);
    let share = service.uploads.take(identity, most).ok_or(IngestError::ClientBusy(most))?;
    let progress: Arc<RecordingProgress> = Arc::default();
    // What stages alter may become longer or shorter than what was announced.
    let length = request.length.filter(|_| stages.alteration().is_none());
    let path = permit.path().clone();
    let IngestRequest { precondition, rate, durable, on_break, client, .. } = request;
    let quota = if service.quotas.is_empty() {
        QuotaShare::default()
    } else {
        let place = service.contents.place_of(&path).await?;
        service.quotas.take(&path, QuotaTerms { length, is_kept: on_break == OnBreak::Keep, place }).await?
    };
    let upload = UploadRequest {
        path: path.clone(),
        length,
        precondition,
        class: UploadClass::BestEffort,
        on_break,
        durable,
        name_taken: NameTaken::Replace,
        memory: None,
    };
    let (recording, upload) = match rate {
        Some(rate) => {
            let (recording, upload) = begin_recording(service, upload, (rate, durable), client, &progress).await?;
            (Some(recording), upload)
        }
        None => (None, service.contents.begin_upload(upload).await?),
    };
    progress.received.store(upload.begun_with(), Ordering::Relaxed);
    service.stats.uploads_open.fetch_add(1, Ordering::Relaxed);
    Ok(Writer {
        service: Arc::clone(service),
        upload: Some(upload),
        _share: share,
        stages,
        recording,
        quota,
        progress,
        pace: rate.map(RecordingPace::new),
        stopping: service.stopping(),
        bytes_max,
        path,
        client: client.address,
        begun: Instant::now(),
        end: Err("it broke off".to_owned()),
    })
}

/// Reserves `rate` and begins the upload `request`, on the first of the disks it may go to that has room for it and takes it. What
/// is counted in `progress` is listed as its bytes.
///
/// # Errors
/// No room, with the highest rate that one of the disks would grant; what the store says.
async fn begin_recording(
    service: &Arc<MediaService>,
    request: UploadRequest,
    (rate, durable): (BitRate, Option<Nanos>),
    client: Client,
    progress: &Arc<RecordingProgress>,
) -> Result<(RunningRecording, Box<dyn UploadSink>), IngestError> {
    let link = service.link(client.local);
    let durable = durable.unwrap_or(service.config().recording_durable);
    let least = service.config().recording_durable_min;
    if durable < least {
        return Err(IngestError::Durable(least));
    }
    let mut refused: Option<Refusal> = None;
    for disks in service.contents.placements(&request).await? {
        let recording = match RunningRecording::reserve(service, (rate, disks, link), durable).await {
            Ok(recording) => recording,
            Err(DeliveryError::NoRoom(refusal)) => {
                refused = refused.filter(|before| before.grantable >= refusal.grantable).or(Some(refusal));
                continue;
            }
            Err(_) => return Err(IngestError::Busy),
        };
        match service.contents.begin_upload(UploadRequest { class: recording.class(), ..request.clone() }).await {
            Ok(upload) => {
                recording.list(&request.path, client.address, Arc::clone(progress));
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

impl Writer {
    /// Bytes that an earlier upload has left ([`OnBreak::Resume`]): what is written goes behind them.
    #[must_use]
    pub fn begun_with(&self) -> u64 {
        self.progress.received.load(Ordering::Relaxed)
    }

    /// Takes the next bytes; waits while the disk is behind.
    ///
    /// # Errors
    /// Why they are not taken; the upload is over.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), IngestError> {
        let bytes = piece.len() as u64;
        let received = self.progress.received.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.look_at_rate(bytes);
        self.service.stats.bytes_uploaded.fetch_add(bytes, Ordering::Relaxed);
        let outcome = async {
            if *self.stopping.borrow() {
                return Err(IngestError::Stopping);
            }
            if received > self.bytes_max {
                return Err(IngestError::TooLarge(self.bytes_max));
            }
            self.quota.came(received).await?;
            let passed = self.stages.pass(piece)?;
            append(&mut self.upload, &passed).await
        };
        let outcome = outcome.await;
        self.noted(outcome)
    }

    /// Tells once that a recording is further ahead of its rate than it may be: the excess is written in what streams leave.
    fn look_at_rate(&mut self, bytes: u64) {
        let now = Nanos::from(self.begun.elapsed());
        let Some(pace) = &mut self.pace else { return };
        if pace.came(bytes, now) && !self.progress.over_rate.swap(true, Ordering::Relaxed) {
            self.service.stats.recordings_over_rate.fetch_add(1, Ordering::Relaxed);
            let rate = pace.rate();
            let event = events::recording_over_rate(&self.path.joined(), self.client, rate, SystemTime::now());
            self.service.events.tell(event);
        }
    }

    /// Waits for a failure of the store, which may come while nothing is written, and for the server's end.
    pub async fn failed(&mut self) -> IngestError {
        let upload = self.upload.as_mut().expect("nothing is asked after the end");
        let error = tokio::select! {
            Err(error) = upload.failed() => error.into(),
            _ = self.stopping.wait_for(|stopping| *stopping) => IngestError::Stopping,
        };
        self.end = Err(error.to_string());
        error
    }

    /// Says why nothing more will come, for the log.
    pub fn give_up(&mut self, reason: &str) {
        self.end = Err(reason.to_owned());
    }

    /// Makes it durable and visible.
    ///
    /// # Errors
    /// Why it is not stored.
    pub async fn finish(mut self) -> Result<Published, IngestError> {
        let outcome = async {
            let rest = self.stages.end()?;
            append(&mut self.upload, &rest).await?;
            if self.quota.replaces() {
                // Somebody may have removed what this replaces since it began.
                let place = self.service.contents.place_of(&self.path).await?;
                self.quota.replaces_now(place.replaced_bytes).await?;
            }
            let upload = self.upload.take().expect("it is finished once");
            let mut published = upload.finish().await?;
            if let Some(stored) = published.stored.take() {
                // With no room in the queue it is read from its disk.
                let _ = self.service.plane.send(Command::Keep(Box::new(stored)));
            }
            Ok(published)
        };
        let outcome = outcome.await;
        let published = self.noted(outcome)?;
        self.end = Ok(published.size);
        self.quota.stored(published.size);
        self.service.listings.note_write();
        Ok(published)
    }

    fn noted<T>(&mut self, outcome: Result<T, IngestError>) -> Result<T, IngestError> {
        if let Err(error) = &outcome {
            self.end = Err(error.to_string());
        }
        outcome
    }
}

async fn append(upload: &mut Option<Box<dyn UploadSink>>, bytes: &[u8]) -> Result<(), IngestError> {
    if bytes.is_empty() {
        return Ok(());
    }
    Ok(upload.as_mut().expect("nothing comes after the end").append(bytes).await?)
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.service.stats.uploads_open.fetch_sub(1, Ordering::Relaxed);
        // It leaves the listing before its end is logged.
        drop((self.upload.take(), self.recording.take()));
        let stored_bytes = std::mem::replace(&mut self.end, Ok(0));
        let end = UploadOutcome { stored_bytes, duration: self.begun.elapsed() };
        self.service.events.tell(events::upload_ended(&self.path.joined(), self.client, &end, SystemTime::now()));
    }
}

/// Removes the content, or the empty folder, at the permit's path.
///
/// # Errors
/// What the store says.
pub async fn delete(
    service: &MediaService,
    permit: &Permit<ToDelete>,
    precondition: Precondition,
    client: IpAddr,
) -> Result<(), StoreError> {
    service.contents.delete(permit.path(), precondition).await?;
    note_removal(service, &permit.path().joined(), Remover::Client(client));
    Ok(())
}

/// Removes a file that a walk through the permit's folder met.
///
/// # Errors
/// What the store says.
pub async fn remove(
    service: &MediaService,
    permit: &Permit<ToDelete>,
    item: &StoredItem,
    remover: Remover<'_>,
) -> Result<(), StoreError> {
    let folder = permit.path();
    service.contents.remove(folder, item).await?;
    let slash = if folder.components().is_empty() { "" } else { "/" };
    note_removal(service, &format!("{}{slash}{}", folder.joined(), item.walked.path.display()), remover);
    Ok(())
}

fn note_removal(service: &MediaService, name: &str, remover: Remover<'_>) {
    service.listings.note_write();
    service.quotas.removed();
    service.events.tell(events::content_deleted(name, remover, SystemTime::now()));
}
