//! Transfers: contents and listings that are sent, and contents that are stored.
//!
//! Promise: a content is sent as admission granted it, at its rate or as best effort; an upload is durable and visible when it is
//! answered. Dropping a transfer ends it, and an upload leaves nothing then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use content::Segment;
use service::access::{Permit, ToRead, ToWrite};
use service::contents::{ContentPath, NameKind, Precondition, Want};
use service::ingest::{self, IngestRequest, Writer};
use service::namespace;
use service::pipeline::{Pipe, Stages};
use service::rate::{RateTerms, RequestedRate};
use service::reads::{self, ContentRead};
use service::session::{ContentPart, Viewer};
use tls::Acceptor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use units::BitRate;

use crate::control::{Duplex, FtpReply};
use crate::data::DataWay;
use crate::listing::{FolderListing, ListingForm, line};
use crate::login::FtpClient;
use crate::names::look_up;

/// Bytes read of an upload at once.
const READ_BYTES: usize = 64 * 1024;

/// Contents or names that go through a data connection.
pub(crate) enum DataTransfer {
    Send(SentBytes),
    /// With the bytes of the present content that the upload begins with.
    Upload(Box<Writer>, Option<Box<Pipe>>),
}

/// Bytes that go to the client.
pub(crate) enum SentBytes {
    Content(Box<Pipe>),
    Folder(Box<FolderListing>),
    Text(Option<Bytes>),
}

impl SentBytes {
    /// The next of them; none at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, FtpReply> {
        match self {
            Self::Content(pipe) => pipe.next().await.map_err(FtpReply::from),
            Self::Folder(listing) => listing.next().await.map_err(FtpReply::from),
            Self::Text(text) => Ok(text.take()),
        }
    }
}

/// The seal of a transfer, and how long each side may be silent.
pub(crate) struct TransferRoute<'a> {
    pub(crate) seal: Option<&'a Acceptor>,
    pub(crate) stall_max: Duration,
    pub(crate) upload_idle_max: Duration,
    /// Counts the bytes that went through.
    pub(crate) carried: &'a AtomicU64,
}

/// `RETR` from the byte `offset` on.
pub(crate) async fn retrieve(
    client: &FtpClient,
    path: &ContentPath,
    (offset, rate): (u64, Option<BitRate>),
    viewer: &str,
) -> Result<DataTransfer, FtpReply> {
    let permit: Permit<ToRead> = client.permit("RETR", path)?;
    let rate = rate.or_else(|| client.service.config().rate_of(&path.joined()));
    let rate = rate.map_or(RequestedRate::Bulk, RequestedRate::Rate);
    let pipe = open(client, &permit, (offset, None), rate, viewer).await?;
    Ok(DataTransfer::Send(SentBytes::Content(Box::new(pipe))))
}

/// Opens the bytes of a content from `offset` on, up to `end`.
async fn open(
    client: &FtpClient,
    permit: &Permit<ToRead>,
    (offset, end): (u64, Option<u64>),
    rate: RequestedRate,
    viewer: &str,
) -> Result<Pipe, FtpReply> {
    let charged = client.service.charged(permit, client.ends);
    let opened = reads::open_content(&client.service, permit, Want::File).await?;
    let length = end.unwrap_or(opened.entry.size).checked_sub(offset);
    let length = length.ok_or_else(|| FtpReply::new(554, "the content ends before the byte that REST names"))?;
    let body = if length == 0 { Vec::new() } else { vec![Segment::Range { offset, length }] };
    let part = if offset == 0 { ContentPart::Download } else { ContentPart::Elsewhere };
    let terms = RateTerms { rate, burst: None, ceiling: None };
    let viewer = Viewer::named(viewer.to_owned(), &charged);
    let read = ContentRead { part, terms, ..ContentRead::bulk(opened, body, (viewer, charged), client.ends) };
    reads::open_pipe(&client.service, read).await.map_err(FtpReply::from)
}

/// `LIST`, `NLST` and `MLSD`.
pub(crate) async fn list(client: &FtpClient, path: &ContentPath, form: ListingForm) -> Result<DataTransfer, FtpReply> {
    let entry = look_up(client, "LIST", path).await?;
    if entry.kind == NameKind::File {
        if form == ListingForm::Facts {
            return Err(FtpReply::new(501, "this is a content: MLST describes it"));
        }
        let mut text = String::new();
        line(&mut text, &entry, form);
        return Ok(DataTransfer::Send(SentBytes::Text(Some(text.into()))));
    }
    let listing = FolderListing::begin(&client.service, client.permit("LIST", path)?, form).await?;
    Ok(DataTransfer::Send(SentBytes::Folder(Box::new(listing))))
}

/// The beginning of a stored content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreFrom {
    /// `STOR`, and the byte of `REST`: as many bytes of the present content stay.
    Byte(u64),
    /// `APPE`: all of the present content stays.
    End,
}

/// `STOR` and `APPE`.
pub(crate) async fn store(
    client: &FtpClient,
    path: &ContentPath,
    from: StoreFrom,
    viewer: &str,
) -> Result<DataTransfer, FtpReply> {
    let command = if from == StoreFrom::End { "APPE" } else { "STOR" };
    let permit: Permit<ToWrite> = client.permit(command, path)?;
    namespace::check_parent(&client.service, &permit).await?;
    let (kept, precondition) = kept(client, path, from, viewer).await?;
    let request = IngestRequest { precondition, ..IngestRequest::upload(None, client.ends) };
    let writer = ingest::begin(&client.service, &permit, request, Stages::default()).await;
    Ok(DataTransfer::Upload(Box::new(writer?), kept.map(Box::new)))
}

/// The bytes of the present content that an upload begins with, and the condition that they are still those of that content at its end.
async fn kept(
    client: &FtpClient,
    path: &ContentPath,
    from: StoreFrom,
    viewer: &str,
) -> Result<(Option<Pipe>, Precondition), FtpReply> {
    if from == StoreFrom::Byte(0) {
        return Ok((None, Precondition::None));
    }
    let permit: Permit<ToRead> = client.permit("REST", path)?;
    let entry = match (client.service.lookup(&permit).await, from) {
        (Err(error), StoreFrom::End) if error.is_absence() => return Ok((None, Precondition::MustNotExist)),
        (entry, _) => entry?,
    };
    let end = match from {
        StoreFrom::Byte(byte) if byte > entry.size => {
            return Err(FtpReply::new(554, "the content ends before the byte that REST names"));
        }
        StoreFrom::Byte(byte) => byte,
        StoreFrom::End => entry.size,
    };
    let pipe = open(client, &permit, (0, Some(end)), RequestedRate::Bulk, viewer).await?;
    Ok((Some(pipe), Precondition::MustMatch(vec![entry.etag])))
}

impl DataTransfer {
    /// Carries all of it, and gives the reply to its end.
    pub(crate) async fn run(self, client: &FtpClient, way: DataWay, route: TransferRoute<'_>) -> FtpReply {
        let stream = match way.connect(client.socket_peer, route.seal).await {
            Ok(stream) => stream,
            Err(reply) => return reply,
        };
        let ended = match self {
            Self::Upload(writer, kept) => take(*writer, kept, stream, &route).await,
            Self::Send(bytes) => send(stream, bytes, &route).await,
        };
        ended.unwrap_or_else(|reply| reply)
    }
}

fn broken_off() -> FtpReply {
    FtpReply::new(426, "the data connection broke off")
}

/// Sends all pieces.
async fn send(
    mut stream: Box<dyn Duplex>,
    mut bytes: SentBytes,
    route: &TransferRoute<'_>,
) -> Result<FtpReply, FtpReply> {
    while let Some(piece) = bytes.next().await? {
        let written = timeout(route.stall_max, stream.write_all(&piece)).await;
        written.map_err(|_| FtpReply::new(426, "the client took nothing for too long"))?.map_err(|_| broken_off())?;
        route.carried.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    let ended = async {
        stream.flush().await?;
        stream.shutdown().await
    };
    timeout(route.stall_max, ended).await.map_err(|_| broken_off())?.map_err(|_| broken_off())?;
    Ok(FtpReply::new(226, "all was sent"))
}

/// Stores all that comes. A failure of the store is seen while nothing comes, too.
async fn take(
    mut writer: Writer,
    kept: Option<Box<Pipe>>,
    mut stream: Box<dyn Duplex>,
    route: &TransferRoute<'_>,
) -> Result<FtpReply, FtpReply> {
    if let Some(mut kept) = kept {
        while let Some(piece) = kept.next().await? {
            writer.write(piece).await?;
        }
    }
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(READ_BYTES);
        let read = tokio::select! {
            biased;
            read = timeout(route.upload_idle_max, stream.read_buf(&mut buffer)) => read,
            error = writer.failed() => return Err(error.into()),
        };
        let reply = match read {
            Ok(Ok(0)) => break,
            Ok(Ok(_)) => {
                let piece = buffer.split().freeze();
                route.carried.fetch_add(piece.len() as u64, Ordering::Relaxed);
                writer.write(piece).await?;
                continue;
            }
            // TLS that ends without its own end (RFC 8446 §6.1) is an error here, too.
            Ok(Err(_)) => broken_off(),
            Err(_) => FtpReply::new(426, "the data connection was idle for too long"),
        };
        writer.give_up("the data connection broke off").await;
        return Err(reply);
    }
    let published = writer.finish().await?;
    // For clients that wait for the end of the data connection before they read the reply.
    let _ = timeout(Duration::from_secs(1), stream.shutdown()).await;
    Ok(FtpReply::new(226, format!("{} bytes are stored, durably", published.size)))
}
