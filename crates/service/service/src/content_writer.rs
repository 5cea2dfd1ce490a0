//! One content on its way to the store, with its share of the quotas and the line in the event log that tells its end.
//!
//! Promise: a finished content is durable, counted and listed; a dropped one is logged with the reason. Not here: the parts
//! of an upload, and its rate (`ingest`).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use crate::contents::{ContentPath, Published, UploadSink};
use crate::events::{self, UploadOutcome};
use crate::ingest_error::IngestError;
use crate::media_service::MediaService;
use crate::operations::Requester;
use crate::quota::QuotaShare;
use crate::recording::RunningRecording;
use crate::small_reads;

/// A content under way.
pub(crate) struct ContentWriter {
    service: Arc<MediaService>,
    pub(crate) upload: Option<Box<dyn UploadSink>>,
    /// Its reservation, which the next content of the same recording may have as well.
    pub(crate) recording: Option<Arc<RunningRecording>>,
    quota: QuotaShare,
    pub(crate) path: ContentPath,
    client: IpAddr,
    /// The account or link by which it is stored, for the event log.
    user: Option<String>,
    begun: Instant,
    received: u64,
    /// The end to be logged when this is dropped.
    pub(crate) end: Result<u64, String>,
}

impl ContentWriter {
    pub(crate) fn new(
        service: &Arc<MediaService>,
        (recording, upload): (Option<Arc<RunningRecording>>, Box<dyn UploadSink>),
        quota: QuotaShare,
        path: ContentPath,
        by: Requester<'_>,
    ) -> Self {
        service.stats.uploads_open.fetch_add(1, Ordering::Relaxed);
        let received = upload.begun_with();
        let (service, begun, end) = (Arc::clone(service), Instant::now(), Err("it broke off".to_owned()));
        let (client, user) = (by.address, by.user.map(str::to_owned));
        Self { service, upload: Some(upload), recording, quota, path, client, user, begun, received, end }
    }

    /// Its client.
    pub(crate) fn by(&self) -> Requester<'_> {
        Requester { address: self.client, user: self.user.as_deref() }
    }

    /// Names the account that stores it: of an upload that continues, which the server itself puts together.
    pub(crate) fn name_user(&mut self, user: Option<String>) {
        self.user = user;
    }

    /// Takes the next bytes; waits while the disk is behind.
    pub(crate) async fn append(&mut self, bytes: &[u8]) -> Result<(), IngestError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.received = self.received.saturating_add(bytes.len() as u64);
        let bytes_max = self.service.config().upload_bytes_max;
        if self.received > bytes_max {
            return Err(IngestError::TooLarge(bytes_max));
        }
        self.quota.came(self.received).await?;
        Ok(self.upload.as_mut().expect("nothing comes after the end").append(bytes).await?)
    }

    /// Makes it durable and visible.
    pub(crate) async fn finish(mut self) -> Result<Published, IngestError> {
        let outcome = async {
            if self.quota.replaces() {
                // A client may have removed the replaced content since this one began.
                let place = self.service.contents.place_of(&self.path).await?;
                self.quota.replaces_now(place.replaced_bytes).await?;
            }
            let upload = self.upload.take().expect("it is finished once");
            let mut published = upload.finish().await?;
            if let Some(stored) = published.stored.take() {
                small_reads::keep_fresh(&self.service, stored);
            }
            Ok(published)
        };
        let outcome = outcome.await;
        let published = self.noted(outcome)?;
        self.path = published.path.clone();
        self.end = Ok(published.size);
        self.quota.stored(published.size);
        self.service.listings.note_write();
        Ok(published)
    }

    pub(crate) fn noted<T>(&mut self, outcome: Result<T, IngestError>) -> Result<T, IngestError> {
        if let Err(error) = &outcome {
            self.end = Err(error.to_string());
        }
        outcome
    }
}

impl Drop for ContentWriter {
    fn drop(&mut self) {
        self.service.stats.uploads_open.fetch_sub(1, Ordering::Relaxed);
        // It leaves the listing before its end is logged.
        drop((self.upload.take(), self.recording.take()));
        let stored_bytes = std::mem::replace(&mut self.end, Ok(0));
        let end = UploadOutcome { stored_bytes, duration: self.begun.elapsed() };
        if self.path.is_reserved() {
            // It is a part of another content, which has its event when it is whole.
            return;
        }
        self.service.events.tell(events::upload_ended(&self.path.joined(), self.by(), &end, SystemTime::now()));
    }
}
