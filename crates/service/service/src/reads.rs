//! The read of an open content, from a request as a front end understood it to its bytes: it decides at which rate, and whether
//! they come from memory, through stages, or by the data plane alone.
//!
//! Promise: a front end makes one call, [`open`], and sends the bytes that it returns. Not here: the choice of the part of the
//! content, and the literal bytes between its ranges (the front ends); admission (the data plane).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use content::{Content, Segment};
use dataplane::control::DeliveryDestination;
use units::BitRate;

use crate::access::{Permit, ToRead};
use crate::budget_meter::Metered;
use crate::budget_use;
use crate::budgets::ChargedBudgets;
use crate::contents::{Entry, MediaRate, Opened, StoreError, Want};
use crate::delivery::{self, Client, DeliveryError, DeliveryRequest, DeliveryTerms, HeadRenderer, Paced};
use crate::media_service::MediaService;
use crate::pipeline::{self, Pipe, Stages};
use crate::rate::{RateTerms, RequestedRate};
use crate::session::{ContentPart, Viewer};
use crate::small_reads;

/// A read up to this number of bytes may be a look at an index, or belong to the media that its viewer plays: sound, subtitles, a
/// playlist.
const SMALL_READ_BYTES_MAX: u64 = 1 << 20;

/// An open content, with a permit to read it.
pub struct OpenedContent {
    /// The permit to read it.
    permit: Permit<ToRead>,
    /// Its entry in its directory.
    pub entry: Entry,
    pub(crate) content: Arc<Content>,
    /// The rate that it needs, if that was looked up.
    pub(crate) media: Option<MediaRate>,
    requested_at: Instant,
}

/// A read of an open content.
pub struct ContentRead {
    /// The content.
    pub opened: OpenedContent,
    /// The segments to send: ranges of the content, and literal bytes between them.
    pub body: Vec<Segment>,
    /// The part of the content that is read.
    pub part: ContentPart,
    /// Purpose of the read.
    pub purpose: ReadPurpose,
    /// The rate, burst and ceiling that the request names.
    pub terms: RateTerms,
    /// The viewer.
    pub viewer: Viewer,
    /// The budgets that it is charged to ([`MediaService::charged`]).
    pub charged: ChargedBudgets,
    /// The connection.
    pub client: Client,
    /// The stages that the bytes pass on their way.
    pub stages: Stages,
}

/// The purpose of a read, as far as the request shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPurpose {
    /// To be played, or kept.
    Plays,
    /// A part of it, which may be its index if it is short.
    Looks,
    /// Beside the media played: a playlist, an initialization segment, captions.
    Accompanies,
}

/// The bytes of a read.
pub enum PacedRead {
    /// They are here already.
    Kept {
        /// All of them.
        bytes: Bytes,
        /// The rate that they would have had.
        rate: Option<BitRate>,
    },
    /// They go to the client's socket.
    Socket(Box<Paced>),
    /// They come out of a pipe.
    Pipe(Box<Pipe>),
}

impl ContentRead {
    /// A download of `body`, as best effort.
    #[must_use]
    pub fn bulk(
        opened: OpenedContent,
        body: Vec<Segment>,
        (viewer, charged): (Viewer, ChargedBudgets),
        client: Client,
    ) -> Self {
        Self {
            opened,
            body,
            part: ContentPart::Download,
            purpose: ReadPurpose::Plays,
            terms: RateTerms { rate: RequestedRate::Bulk, burst: None, ceiling: None },
            viewer,
            charged,
            client,
            stages: Stages::default(),
        }
    }

    /// The rate that it is going to ask for.
    #[must_use]
    pub fn rate(&self, service: &MediaService) -> Option<BitRate> {
        self.terms(service).decision.rate()
    }

    /// Gives the terms of the delivery. A look at the index of the media that the viewer plays uses its reservation, or else the
    /// rate that is left over; so does a read that a player makes along with the parts it plays. So does a read without a rate, of a viewer
    /// that names that of what it plays: sound in files of its own, in a playlist of HLS.
    fn terms(&self, service: &MediaService) -> DeliveryTerms {
        let ranges = self.body.iter().filter(|segment| matches!(segment, Segment::Range { .. }));
        let bytes = ranges.map(Segment::length).sum();
        let is_small = bytes <= SMALL_READ_BYTES_MAX;
        let (mut asked, path) = (self.terms, self.opened.permit.path().joined());
        if self.charged.is_open() {
            asked = asked.within_need(self.opened.media, self.opened.content.size);
        }
        match self.purpose {
            _ if !is_small => {}
            ReadPurpose::Plays
                if asked.rate != RequestedRate::Unstated
                    || !service.sessions.read(|sessions| sessions.names_rate(&self.viewer)) => {}
            ReadPurpose::Looks if service.sessions.read(|sessions| sessions.has(&self.viewer, service.hash(&path))) => {
                asked.ceiling = asked.ceiling.or(Some(BitRate(u64::MAX)));
            }
            ReadPurpose::Plays | ReadPurpose::Looks | ReadPurpose::Accompanies => asked.rate = RequestedRate::Bulk,
        }
        let mut terms = DeliveryTerms::decide(&service.config(), &path, asked, self.opened.media, bytes);
        terms.is_companion = is_small && self.terms.rate != RequestedRate::Bulk;
        terms
    }

    fn into_request(self, service: &MediaService) -> (DeliveryRequest, Stages) {
        let terms = self.terms(service);
        let want = if self.terms.rate == RequestedRate::Unstated { Want::FileAndRate } else { Want::File };
        let Self {
            opened: OpenedContent { permit, content, requested_at, .. },
            body,
            part,
            viewer,
            charged,
            client,
            stages,
            ..
        } = self;
        let path = permit.path().joined();
        (
            DeliveryRequest { path, content, body, terms, viewer, part, client, permit, charged, want, requested_at },
            stages,
        )
    }
}

/// Opens the content at the permit's path.
///
/// # Errors
/// As the store reports.
pub async fn open_content(
    service: &MediaService,
    permit: &Permit<ToRead>,
    want: Want,
) -> Result<OpenedContent, StoreError> {
    let requested_at = Instant::now();
    let Opened { entry, content, media } = service.contents.open(permit.path(), want).await?;
    Ok(OpenedContent { permit: permit.clone(), entry, content, media, requested_at })
}

/// Opens the content at the permit's path for a read of `viewer` that asks for `rate`. Where that is not said, the container is looked into,
/// but for a small content that is read along with the viewer's media: each look is a seek, and 72 viewers with sound of its own made
/// twelve of them in a second, which no disk time was promised for.
///
/// # Errors
/// As the store reports.
pub async fn open_for(
    service: &MediaService,
    permit: &Permit<ToRead>,
    rate: RequestedRate,
    viewer: &Viewer,
) -> Result<OpenedContent, StoreError> {
    if rate != RequestedRate::Unstated {
        return open_content(service, permit, Want::File).await;
    }
    if service.sessions.read(|sessions| sessions.names_rate(viewer)) {
        let opened = open_content(service, permit, Want::File).await?;
        if opened.content.size <= SMALL_READ_BYTES_MAX {
            return Ok(opened);
        }
    }
    open_content(service, permit, Want::FileAndRate).await
}

/// Starts a read for the server itself: its bytes come out of a pipe.
///
/// # Errors
/// Why it was not started.
pub async fn open_pipe(service: &Arc<MediaService>, read: ContentRead) -> Result<Pipe, DeliveryError> {
    let (request, stages) = read.into_request(service);
    pipeline::open(service, request, stages).await
}

/// Starts a read. The client's socket is taken only where the data plane sends to it; then the head that `prefix` renders goes
/// before the content. Without one to take, the bytes come out of a pipe.
///
/// # Errors
/// The reason why it was not started, with the socket as it was if it was taken.
pub async fn open(
    service: &Arc<MediaService>,
    read: ContentRead,
    take_socket: Option<impl FnOnce() -> Option<OwnedFd> + Send>,
    prefix: HeadRenderer<'_>,
) -> Result<PacedRead, (Option<OwnedFd>, DeliveryError)> {
    let (request, mut stages) = read.into_request(service);
    if request.body.is_empty() && stages.0.is_empty() {
        return Ok(PacedRead::Kept { bytes: Bytes::new(), rate: request.terms.decision.rate() });
    }
    if stages.0.is_empty()
        && let Some(bytes) = small_reads::kept_bytes(service, &request, &mut stages)
    {
        budget_use::wait_for(service, &request.charged, Metered::Download, bytes.len() as u64).await;
        return Ok(PacedRead::Kept { bytes, rate: None });
    }
    let is_metered =
        request.terms.may_be_best_effort() && budget_use::is_metered(service, &request.charged, Metered::Download);
    if stages.0.is_empty()
        && !is_metered
        && let Some(take_socket) = take_socket
    {
        let socket = take_socket().ok_or((None, DeliveryError::Busy))?;
        let opened = delivery::open(service, request, DeliveryDestination::Socket(socket), prefix).await;
        return opened
            .map(|paced| PacedRead::Socket(Box::new(paced)))
            .map_err(|(destination, error)| (destination.and_then(DeliveryDestination::into_socket), error));
    }
    let pipe = Box::pin(pipeline::open(service, request, stages)).await;
    pipe.map(|pipe| PacedRead::Pipe(Box::new(pipe))).map_err(|error| (None, error))
}
