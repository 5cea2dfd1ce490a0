//! Uploads and recordings: bytes that come in, through stages, to the store.
//!
//! Promise: finished contents are durable; a writer that is dropped, or fails, leaves nothing behind or the bytes received
//! ([`OnBreak`]), and is logged. A recording is written on the disk that reserved its rate. The caller does not read on while `write`
//! waits, so that a slow disk slows the client. Not here: disks (`contents`), the right to write (`access`), a reservation's life
//! (`recording`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use dataplane::control::RecordingPlace;
use tokio::sync::watch;
use units::{BitRate, Nanos};

use crate::access::{Permit, ToDelete, ToWrite};
use crate::budget_meter::Metered;
use crate::budget_use::{self, StoredClaim};
use crate::budgets::ChargedBudgets;
use crate::config::RECORDING_DURABLE_MAX;
use crate::content_writer::ContentWriter;
use crate::contents::{
    ContentPath, NameTaken, OnBreak, Precondition, Published, StoreError, StoredItem, UploadClass, UploadRequest,
    UploadSink, below_content,
};
use crate::delivery::{Client, note_refusal};
use crate::delivery::{DeliveryError, note_budget_refusal};
use crate::events::{self, Remover};
use crate::file_names::RecordingFiles;
pub use crate::ingest_error::IngestError;
use crate::media_service::MediaService;
use crate::pipeline::Stages;
use crate::quota::{QuotaShare, QuotaTerms};
use crate::recording::RunningRecording;
use crate::recording_files::FileWriter;
use crate::recording_names::{ClaimedName, HeldPlace};
use crate::recording_pace::{RecordingPace, RecordingProgress};
use crate::running::{ListedUpload, RunningStream};
use crate::shares::{ClientIdentity, Share};
use crate::shortage::Shortage;

/// A content to be stored under the path of a permit.
#[derive(Debug, Clone)]
pub struct IngestRequest {
    /// Its length, if that was announced.
    pub length: Option<u64>,
    /// Condition on the content that is there already.
    pub precondition: Precondition,
    /// The rate to reserve; none: an upload takes the rate that is left over.
    pub rate: Option<BitRate>,
    /// Time after which the received bytes of a recording are durable; none: as configured. For an upload, the time by which
    /// durability may follow the answer; none: it is durable at its answer.
    pub durable: Option<Nanos>,
    /// Treatment of its bytes if it breaks off.
    pub on_break: OnBreak,
    /// Length of the files into which a recording is cut; the permit's path is then the pattern of their names.
    pub every: Option<Nanos>,
    /// The content's modification time, where it is another one than that of its storing.
    pub modified: Option<SystemTime>,
    /// The client that sends it.
    pub client: Client,
}

impl IngestRequest {
    /// An upload of this length, of `client`: it replaces what is there, and leaves nothing where it breaks off.
    #[must_use]
    pub const fn upload(length: Option<u64>, client: Client) -> Self {
        let (precondition, on_break) = (Precondition::None, OnBreak::Discard);
        Self { length, precondition, rate: None, durable: None, on_break, every: None, modified: None, client }
    }
}

/// An upload under way: one content, or the files of a recording one after the other.
pub struct Writer {
    service: Arc<MediaService>,
    permit: Permit<ToWrite>,
    content: ContentWriter,
    _share: Share<ClientIdentity>,
    stages: Stages,
    files: Option<FileWriter>,
    /// The request with which each of its contents begins.
    request: UploadRequest,
    progress: Arc<RecordingProgress>,
    pace: Option<RecordingPace>,
    stopping: watch::Receiver<bool>,
    client: Client,
    charged: ChargedBudgets,
    claim: Option<StoredClaim>,
    begun: Instant,
    /// The entry of an upload in the listing of streams; recordings have one of their own.
    listed: Option<ListedUpload>,
    /// Dropped last, so that its name is free when all else of it is over.
    name: Option<ClaimedName>,
}

/// An upload that has begun, and the place of a recording.
type BegunUpload = (Option<Arc<RunningRecording>>, Box<dyn UploadSink>);

/// Begins to store under the permit's path. A rate is reserved before the first byte is taken.
///
/// # Errors
/// Why it cannot be stored.
pub async fn begin(
    service: &Arc<MediaService>,
    permit: &Permit<ToWrite>,
    mut request: IngestRequest,
    stages: Stages,
) -> Result<Writer, IngestError> {
    if permit.link().is_some() {
        // What a link was given for stays as it is.
        request.precondition = Precondition::All(vec![Precondition::MustNotExist, request.precondition]);
    }
    match begin_upload(service, permit, request, stages).await {
        Err(IngestError::Store(StoreError::NotADirectory)) => {
            Err(below_content(&*service.contents, permit.path()).await.into())
        }
        begun => begun.map_err(|error| named_by_link(permit, error)),
    }
}

/// The error of an upload, which names the precondition of all uploads by a link where that fails.
fn named_by_link(permit: &Permit<ToWrite>, error: IngestError) -> IngestError {
    match error {
        IngestError::Store(StoreError::PreconditionFailed) if permit.link().is_some() => IngestError::PresentByLink,
        error => error,
    }
}

async fn begin_upload(
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
    let charged = permit.charged(&service.accounts, request.client);
    let IngestRequest { precondition, rate, durable, on_break, every, modified, client, .. } = request;
    // Bytes that stages alter may become more or fewer than the announced length.
    let length = request.length.filter(|_| stages.alteration().is_none() && every.is_none());
    let (begun, now) = (Instant::now(), SystemTime::now());
    let files = every.map(|every| RecordingFiles::new(permit.path().clone(), every)).transpose()?;
    let files = files.map(|files| FileWriter::begin(files, now, Nanos::ZERO));
    let path = match &files {
        Some(files) => files.name(now)?,
        None => permit.path().clone(),
    };
    // A camera, which knows no length, comes back to its name after each break: the recordings before it stay.
    let is_camera =
        rate.is_some() && length.is_none() && on_break == OnBreak::Keep && precondition == Precondition::None;
    let name_taken = if is_camera || files.is_some() { NameTaken::Beside } else { NameTaken::Replace };
    let (class, memory) = (UploadClass::BestEffort, None);
    let request = UploadRequest { path, length, precondition, class, on_break, durable, name_taken, modified, memory };
    let quota = take_quota(service, &request).await?;
    let replaced = match budget_use::counts_stored(service, &charged) && name_taken == NameTaken::Replace {
        true => service.contents.place_of(&request.path).await?.replaced_bytes,
        false => 0,
    };
    let claim = StoredClaim::take(service, &charged, request.length, replaced).await?;
    let mut name = None;
    let begun_upload = match rate {
        Some(rate) => {
            progress.note(0, service.life.uptime());
            let claim = service.recording_names.claim(permit.path(), &progress, service.life.uptime()).await;
            let (claimed, held) = claim.ok_or(IngestError::NameTaken)?;
            name = Some(claimed);
            match go_on_in_place(service, &request, (held, rate), (client, &charged), &progress).await {
                Some(begun) => begun,
                None => begin_recording(service, &request, rate, (client, &charged), &progress).await?,
            }
        }
        None => (None, service.contents.begin_upload(request.clone()).await?),
    };
    progress.received.store(begun_upload.1.begun_with(), Ordering::Relaxed);
    let listed = rate.is_none().then(|| {
        let user = permit.user().map(str::to_owned);
        let (client, disk) = (client.address, begun_upload.1.disk());
        let upload = RunningStream::incoming(&request.path, (client, &charged), disk, Arc::clone(&progress));
        let upload = RunningStream { user, ..upload };
        ListedUpload::enter(&service.running, service.plane.stream_id(), upload)
    });
    Ok(Writer {
        service: Arc::clone(service),
        permit: permit.clone(),
        content: ContentWriter::new(service, begun_upload, quota, request.path.clone(), permit.by(client)),
        _share: share,
        stages,
        files,
        request,
        progress,
        pace: rate.map(RecordingPace::new),
        stopping: service.life.stopping(),
        client,
        charged,
        claim: Some(claim),
        begun,
        listed,
        name,
    })
}

/// The longest part of a recording that may be missing: as the request has it, or its folder.
fn durable_of(service: &MediaService, request: &UploadRequest) -> Nanos {
    request.durable.unwrap_or_else(|| service.config().durable_of(&request.path.joined()))
}

/// Begins an upload in the place that was held for its recording, if that place suits the request and its disk takes it.
async fn go_on_in_place(
    service: &Arc<MediaService>,
    request: &UploadRequest,
    (held, rate): (Option<HeldPlace>, BitRate),
    (client, charged): (Client, &ChargedBudgets),
    progress: &Arc<RecordingProgress>,
) -> Option<BegunUpload> {
    let durable = durable_of(service, request);
    // A place that does not suit is given back when it is dropped.
    let recording = RunningRecording::with(service, held?);
    if !recording.is(rate, durable, service.link_in(client.local)) {
        return None;
    }
    let request = UploadRequest { class: recording.class(), ..request.clone() };
    let upload = service.contents.begin_upload(request.clone()).await.ok()?;
    recording.list(&request.path, (client.address, charged), Arc::clone(progress)).ok()?;
    Some((Some(Arc::new(recording)), upload))
}

/// Counts an upload that is to begin towards the quotas that it lies in.
pub(crate) async fn take_quota(service: &MediaService, request: &UploadRequest) -> Result<QuotaShare, IngestError> {
    if service.quotas.is_empty() {
        return Ok(QuotaShare::default());
    }
    let mut place = service.contents.place_of(&request.path).await?;
    if request.name_taken == NameTaken::Beside {
        place.replaced_bytes = 0;
    }
    let terms = QuotaTerms { length: request.length, is_kept: request.on_break == OnBreak::Keep, place };
    Ok(service.quotas.take(&request.path, terms).await?)
}

/// Reserves `rate` and begins the upload `request`, on the first of the disks it may go to that has room for it and takes it. The
/// count in `progress` is listed as its bytes.
///
/// # Errors
/// No room, with the highest rate that one of the disks would grant; the store's error.
async fn begin_recording(
    service: &Arc<MediaService>,
    request: &UploadRequest,
    rate: BitRate,
    (client, charged): (Client, &ChargedBudgets),
    progress: &Arc<RecordingProgress>,
) -> Result<BegunUpload, IngestError> {
    let link = service.link_in(client.local);
    let durable = durable_of(service, request);
    let least = service.config().recording_durable_min;
    if !(least..=RECORDING_DURABLE_MAX).contains(&durable) {
        return Err(IngestError::Durable(least));
    }
    let (mut refused, mut read_only): (Option<Shortage>, _) = (None, StoreError::ReadOnly);
    for disks in service.contents.placements(request).await? {
        let recording = match RunningRecording::reserve(service, (rate, disks, link), durable).await {
            Ok(recording) => recording,
            Err(DeliveryError::NoRoom(short)) => {
                let is_better = |before: &Shortage| before.refusal.grantable >= short.refusal.grantable;
                refused = refused.filter(is_better).or(Some(short));
                continue;
            }
            Err(_) => return Err(IngestError::Busy),
        };
        match service.contents.begin_upload(UploadRequest { class: recording.class(), ..request.clone() }).await {
            Ok(upload) => {
                if let Err(refusal) = recording.list(&request.path, (client.address, charged), Arc::clone(progress)) {
                    note_budget_refusal(service, &refusal, &request.path.joined(), client.address);
                    return Err(refusal.into());
                }
                return Ok((Some(Arc::new(recording)), upload));
            }
            Err(error) if error.is_read_only() => read_only = error,
            Err(error) => return Err(error.into()),
        }
    }
    let Some(short) = refused else { return Err(read_only.into()) };
    note_refusal(service, &short, &request.path.joined(), client.address, Some(rate));
    Err(IngestError::NoRoom(short))
}

impl Writer {
    /// Bytes that an earlier upload has left ([`OnBreak::Resume`]): further bytes go behind them.
    #[must_use]
    pub fn begun_with(&self) -> u64 {
        self.progress.received.load(Ordering::Relaxed)
    }

    /// The rate of a recording, and when its blocks are due.
    #[must_use]
    pub fn recording(&self) -> Option<(BitRate, RecordingPlace)> {
        self.content.recording.as_ref().map(|recording| (recording.rate(), recording.place()))
    }

    /// Names the account that stores it, where the server itself writes it.
    pub(crate) fn name_user(&mut self, user: Option<String>) {
        self.content.name_user(user);
    }

    /// Lists it as this content, of which it writes a part.
    pub(crate) fn list_as(&self, path: &ContentPath) {
        if let Some(listed) = &self.listed {
            listed.name(path);
        }
    }

    /// Takes the next bytes; waits while the disk is behind.
    ///
    /// # Errors
    /// Why they are not taken; the upload is over.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), IngestError> {
        let bytes = piece.len() as u64;
        self.progress.note(bytes, self.service.life.uptime());
        self.look_at_rate(bytes);
        if self.pace.is_none() {
            budget_use::wait_for(&self.service, &self.charged, Metered::Upload, bytes).await;
        }
        self.service.stats.bytes_uploaded.fetch_add(bytes, Ordering::Relaxed);
        let outcome = async {
            if *self.stopping.borrow() {
                return Err(IngestError::Stopping);
            }
            self.check_right()?;
            let received = self.progress.received.load(Ordering::Relaxed);
            if let Some(claim) = &mut self.claim {
                claim.cover(received).await?;
            }
            let passed = self.stages.pass(piece)?;
            self.store(&passed).await
        };
        let outcome = outcome.await;
        self.content.noted(outcome)
    }

    /// Refuses bytes of a client with a right that was taken back meanwhile.
    fn check_right(&self) -> Result<(), IngestError> {
        let is_in_force = self.permit.is_in_force(&self.service.accounts.rights());
        if is_in_force { Ok(()) } else { Err(IngestError::RightTaken) }
    }

    /// Stores the bytes that passed the stages: in one content, or in files.
    async fn store(&mut self, bytes: &[u8]) -> Result<(), IngestError> {
        let Some(files) = &mut self.files else { return self.content.append(bytes).await };
        let parts = files.part(bytes, SystemTime::now(), Nanos::from(self.begun.elapsed()));
        self.content.append(&parts.before).await?;
        self.content.append(parts.end).await?;
        if let Some(beginning) = parts.next {
            self.begin_next().await?;
            self.content.append(&beginning).await?;
            self.content.append(parts.beginning).await?;
        }
        Ok(())
    }

    /// Begins the next file, with the reservation and memory of this one, which is made durable meanwhile.
    async fn begin_next(&mut self) -> Result<(), IngestError> {
        let (Some(files), Some(recording)) = (&mut self.files, &self.content.recording) else { return Ok(()) };
        let now = SystemTime::now();
        files.begin_next(now, Nanos::from(self.begun.elapsed()));
        let path = files.name(now)?;
        let memory = self.content.upload.as_ref().and_then(|upload| upload.memory());
        let request = UploadRequest { path, class: recording.class(), memory, ..self.request.clone() };
        let quota = take_quota(&self.service, &request).await?;
        let begun = match self.service.contents.begin_upload(request.clone()).await {
            Ok(upload) => {
                recording.continues_in(&request.path);
                (Some(Arc::clone(recording)), upload)
            }
            // Its disk takes no more; another one may have room.
            Err(error) => {
                let (request, rate) = (UploadRequest { memory: None, ..request.clone() }, recording.rate());
                let begun =
                    begin_recording(&self.service, &request, rate, (self.client, &self.charged), &self.progress).await;
                begun.map_err(|_| error)?
            }
        };
        let next = ContentWriter::new(&self.service, begun, quota, request.path, self.content.by());
        let before = std::mem::replace(&mut self.content, next);
        while files.ending.try_join_next().is_some() {}
        files.ending.spawn(async move {
            // The event log records its end.
            drop(before.finish().await);
        });
        Ok(())
    }

    /// Logs once that a recording is further ahead of its rate than it may be: the excess is written in the disk time that streams
    /// leave.
    fn look_at_rate(&mut self, bytes: u64) {
        let now = Nanos::from(self.begun.elapsed());
        let Some(pace) = &mut self.pace else { return };
        if pace.came(bytes, now) && !self.progress.over_rate.swap(true, Ordering::Relaxed) {
            self.service.stats.recordings_over_rate.fetch_add(1, Ordering::Relaxed);
            let (path, rate) = (self.content.path.joined(), pace.rate());
            let event = events::recording_over_rate(&path, self.client.address, rate, SystemTime::now());
            self.service.events.tell(event);
        }
    }

    /// Waits for a failure of the store, which may come while nothing is written, and for the server's end.
    pub async fn failed(&mut self) -> IngestError {
        let upload = self.content.upload.as_mut().expect("nothing is asked after the end");
        let is_wanted = async {
            match &self.name {
                Some(name) => name.is_wanted().await,
                None => std::future::pending().await,
            }
        };
        let error = tokio::select! {
            Err(error) = upload.failed() => error.into(),
            () = is_wanted => IngestError::Superseded,
            _ = self.stopping.wait_for(|stopping| *stopping) => IngestError::Stopping,
        };
        self.content.end = Err(error.to_string());
        error
    }

    /// Says why its client sends nothing more, for the log. If it is kept, so are the bytes that stages held back, and its place is
    /// held.
    pub async fn give_up(&mut self, reason: &str) {
        let hold = self.service.config().session_hold;
        let received = self.progress.received.load(Ordering::Relaxed);
        if self.request.on_break == OnBreak::Keep
            && let Some(claim) = self.claim.take()
        {
            claim.stored(received);
        }
        if let (Some(name), Some(recording)) = (&mut self.name, &self.content.recording)
            && self.request.on_break == OnBreak::Keep
            && hold > Nanos::ZERO
            && !self.service.is_draining()
        {
            name.hold(recording.hand_over(), Instant::now() + Duration::from_nanos(hold.0));
        }
        if let Some(files) = &mut self.files {
            // Where that is not taken, no more can be done.
            let _ = self.content.append(&files.rest()).await;
        }
        self.content.end = Err(reason.to_owned());
    }

    /// Makes it durable and visible.
    ///
    /// # Errors
    /// Why it is not stored.
    pub async fn finish(mut self) -> Result<Published, IngestError> {
        let outcome = async {
            self.check_right()?;
            let rest = self.stages.end()?;
            self.store(&rest).await?;
            let held = self.files.as_mut().map(FileWriter::rest).unwrap_or_default();
            self.content.append(&held).await
        };
        let outcome = outcome.await;
        self.content.noted(outcome)?;
        let received = self.progress.received.load(Ordering::Relaxed);
        let published = self.content.finish().await.map_err(|error| named_by_link(&self.permit, error));
        if let (Some(claim), true) = (self.claim.take(), published.is_ok()) {
            claim.stored(received);
        }
        if let Some(mut files) = self.files {
            while files.ending.join_next().await.is_some() {}
        }
        published
    }
}

/// Removes the content, or the empty folder, at the permit's path.
///
/// # Errors
/// The store's error.
pub async fn delete(
    service: &Arc<MediaService>,
    permit: &Permit<ToDelete>,
    precondition: Precondition,
    client: Client,
) -> Result<(), StoreError> {
    let charged = permit.charged(&service.accounts, client);
    let bytes = match budget_use::counts_stored(service, &charged) {
        true => service.contents.lookup(permit.path()).await?.size,
        false => 0,
    };
    service.contents.delete(permit.path(), precondition).await?;
    budget_use::removed(service, charged.iter(), bytes);
    note_removal(service, &permit.path().joined(), Remover::Client(permit.by(client)));
    Ok(())
}

/// Removes a file that a walk through the permit's folder met.
///
/// # Errors
/// The store's error.
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

pub(crate) fn note_removal(service: &MediaService, name: &str, remover: Remover<'_>) {
    service.listings.note_write();
    service.quotas.removed();
    service.events.tell(events::content_deleted(name, remover, SystemTime::now()));
}
