//! Changes of names: new folders, other names, copies, removal of folders with all that is in them.
//!
//! Promise: each is one change that is durable at its end, and done in full or not at all: a copy, and a folder with all below it, gets
//! its name when it is whole. Quotas count them, listings show them. Not here: names on disks (`contents`), the rights (`access`).

use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use content::Segment;

use crate::access::{Permit, ToDelete, ToRead, ToWrite};
use crate::contents::{
    ContentPath, Entry, ForbiddenBy, NameKind, NameTaken, OnBreak, Precondition, StoreError, UploadClass,
    UploadRequest, WalkedKind, Want, below_content,
};
use crate::delivery::{Client, DeliveryError};
use crate::events::{self, Remover};
use crate::ingest::{self, IngestError, IngestRequest, Writer};
use crate::media_service::MediaService;
use crate::pipeline::{Pipe, PipeError, Stages};
use crate::quota::QuotaShare;
use crate::reads::{self, ContentRead, OpenedContent};
use crate::session::Viewer;

/// Most contents and folders that one copy makes: a larger tree is copied in parts.
const COPIED_MAX: usize = 100_000;

/// Why a name is not changed.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A content cannot be stored, or a quota has no room.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// A content cannot be read.
    #[error("a content cannot be read: {0}")]
    Read(#[from] PipeError),
    /// The folder that it would lie in is not there.
    #[error("the folder that it would lie in is not there")]
    NoParent,
    /// Something has the name already, and may not be replaced.
    #[error("something has this name already")]
    Exists,
    /// Source and destination are the same, or one lies in the other.
    #[error("source and destination are the same, or one lies in the other")]
    Overlap,
    /// The trash is off, or has no room for this item.
    #[error("it is larger than the trash may be, or the trash is off: remove it for good")]
    NoTrash,
    /// A copy of this number of contents is not made at once.
    #[error("a copy makes at most {COPIED_MAX} contents and folders at once: copy parts of it")]
    TooMany,
}

impl From<DeliveryError> for NamespaceError {
    fn from(error: DeliveryError) -> Self {
        Self::Read(error.into())
    }
}

/// Makes an empty folder.
///
/// # Errors
/// [`NamespaceError::NoParent`], [`NamespaceError::Exists`], the store's error.
pub async fn make_folder(
    service: &MediaService,
    permit: &Permit<ToWrite>,
    client: Client,
) -> Result<(), NamespaceError> {
    let path = permit.path();
    check_parent(service, permit).await?;
    match service.contents.make_folder(path).await {
        Err(StoreError::Exists) => return Err(NamespaceError::Exists),
        other => other?,
    }
    service.listings.note_write();
    service.events.tell(events::folder_made(&path.joined(), permit.by(client), SystemTime::now()));
    Ok(())
}

/// Gives a content or folder another name; with `replaces` in the place of the item that has it. True if there was none.
///
/// # Errors
/// [`NamespaceError::NoParent`], [`NamespaceError::Exists`], [`NamespaceError::Overlap`], no room in a quota, the store's error.
pub async fn rename(
    service: &MediaService,
    (from, to): (&Permit<ToDelete>, &Permit<ToWrite>),
    replaces: bool,
    client: Client,
) -> Result<bool, NamespaceError> {
    check_apart(from.path(), to.path())?;
    let entry = service.lookup(from).await?;
    let by = from.by(client);
    check_parent(service, to).await?;
    let (from, to) = (from.path(), to.path());
    let bytes = if service.quotas.is_empty() { 0 } else { bytes_of(service, from, &entry).await? };
    let mut quota = quota_of(service, to, bytes).await?;
    let created = match service.contents.rename(from, to, replaces).await {
        Err(StoreError::Exists) => return Err(NamespaceError::Exists),
        other => other?,
    };
    quota.stored(bytes);
    service.quotas.removed();
    service.listings.note_write();
    service.events.tell(events::content_moved(&from.joined(), &to.joined(), by, SystemTime::now()));
    Ok(created)
}

/// Gives a content another modification time.
///
/// # Errors
/// The store's error.
pub async fn set_modified(
    service: &MediaService,
    permit: &Permit<ToWrite>,
    modified: SystemTime,
) -> Result<(), StoreError> {
    service.contents.set_modified(permit.path(), modified).await?;
    service.listings.note_write();
    Ok(())
}

/// Removes a folder with all that is in it.
///
/// # Errors
/// The store's error.
pub async fn remove_tree(service: &MediaService, permit: &Permit<ToDelete>, client: Client) -> Result<(), StoreError> {
    service.contents.remove_tree(permit.path()).await?;
    ingest::note_removal(service, &permit.path().joined(), Remover::Client(permit.by(client)));
    Ok(())
}

/// Terms of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyWish {
    /// The item that has the name goes.
    pub replaces: bool,
    /// A folder is copied with all below it, not alone.
    pub is_deep: bool,
    /// The client that asks for it.
    pub client: Client,
}

/// Copies a content or folder. It gets its name when it is whole. True if nothing had the name before.
///
/// # Errors
/// [`NamespaceError::NoParent`], [`NamespaceError::Exists`], [`NamespaceError::Overlap`], [`NamespaceError::TooMany`], no room, and errors
/// of the store.
pub async fn copy(
    service: &Arc<MediaService>,
    (from, to): (&Permit<ToRead>, &Permit<ToWrite>),
    terms: CopyWish,
) -> Result<bool, NamespaceError> {
    let (source, target) = (from.path(), to.path());
    check_apart(source, target)?;
    let entry = service.lookup(from).await?;
    check_parent(service, to).await?;
    let replaced = match service.contents.lookup(target).await {
        Ok(_) if !terms.replaces => return Err(NamespaceError::Exists),
        Ok(entry) => Some(entry),
        Err(StoreError::NotFound) => None,
        Err(error) => return Err(error.into()),
    };
    if entry.kind == NameKind::File && replaced.as_ref().is_none_or(|replaced| replaced.kind == NameKind::File) {
        copy_content(service, from, to, terms).await?;
        return Ok(replaced.is_none());
    }
    // The copy is made under a hidden name, and takes its own when it is whole.
    let hidden = Hidden { service, path: Some(target.hidden_sibling()) };
    let aside = hidden.path.as_ref().expect("it is there until the end");
    match entry.kind {
        NameKind::File => copy_content(service, from, &to.at(aside.clone()), terms).await?,
        NameKind::Directory => copy_folder(service, (from, &to.at(aside.clone())), terms).await?,
    }
    service.contents.rename(aside, target, terms.replaces).await?;
    hidden.has_its_name();
    service.quotas.removed();
    service.listings.note_write();
    Ok(replaced.is_none())
}

/// A hidden name: the item that has it goes when this is dropped.
struct Hidden<'a> {
    service: &'a Arc<MediaService>,
    path: Option<ContentPath>,
}

impl Hidden<'_> {
    fn has_its_name(mut self) {
        self.path = None;
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        let Some(path) = self.path.take() else { return };
        let service = Arc::clone(self.service);
        self.service.runtime.spawn(async move {
            if service.contents.remove_tree(&path).await.is_err() {
                // It is a content, or the next start removes it.
                let _ = service.contents.delete(&path, Precondition::None).await;
            }
        });
    }
}

/// Copies a folder, and if `terms` say so, all below it, to a path where nothing is.
async fn copy_folder(
    service: &Arc<MediaService>,
    (from, to): (&Permit<ToRead>, &Permit<ToWrite>),
    terms: CopyWish,
) -> Result<(), NamespaceError> {
    let mut folders = vec![(from.path().clone(), to.path().clone())];
    let mut count = 0;
    while let Some((source, target)) = folders.pop() {
        service.contents.make_folder(&target).await?;
        if !terms.is_deep {
            break;
        }
        for entry in service.contents.list(&source).await? {
            count += 1;
            if count > COPIED_MAX {
                return Err(NamespaceError::TooMany);
            }
            let name =
                |folder: &ContentPath| folder.child(&entry.name).map_err(|_| StoreError::Forbidden(ForbiddenBy::Name));
            let (source, target) = (name(&source)?, name(&target)?);
            match entry.kind {
                // A link to a folder may lead back to one above it.
                NameKind::Directory if entry.is_link => {}
                NameKind::Directory => folders.push((source, target)),
                NameKind::File => copy_content(service, &from.at(source), &to.at(target), terms).await?,
            }
        }
    }
    Ok(())
}

/// Copies the bytes of a content, as best effort.
async fn copy_content(
    service: &Arc<MediaService>,
    from: &Permit<ToRead>,
    to: &Permit<ToWrite>,
    terms: CopyWish,
) -> Result<(), NamespaceError> {
    let source = service.lookup(from).await?;
    let client = terms.client;
    let precondition = if terms.replaces { Precondition::None } else { Precondition::MustNotExist };
    let modified = Some(source.modified);
    let request = IngestRequest { precondition, modified, ..IngestRequest::upload(Some(source.size), client) };
    let mut writer = ingest::begin(service, to, request, Stages::default()).await?;
    copy_into(service, from, &mut writer, client).await?;
    writer.finish().await?;
    Ok(())
}

/// Appends the bytes of a content to an upload, as best effort.
///
/// # Errors
/// The content cannot be read, or the upload be written.
pub async fn copy_into(
    service: &Arc<MediaService>,
    from: &Permit<ToRead>,
    writer: &mut Writer,
    client: Client,
) -> Result<(), NamespaceError> {
    let opened = reads::open_content(service, from, Want::File).await?;
    let all = (0, opened.entry.size);
    let mut pipe = open_parts(service, from, client, (opened, &[all])).await?;
    while let Some(piece) = pipe.next().await? {
        writer.write(piece).await?;
    }
    Ok(())
}

/// Opens parts of a content, each an offset and a length, to be read as best effort by the server itself.
async fn open_parts(
    service: &Arc<MediaService>,
    from: &Permit<ToRead>,
    client: Client,
    (opened, parts): (OpenedContent, &[(u64, u64)]),
) -> Result<Pipe, NamespaceError> {
    let parts = parts.iter().filter(|(_, length)| *length > 0);
    let body = parts.map(|&(offset, length)| Segment::Range { offset, length }).collect();
    let charged = service.charged(from, client);
    let viewer = Viewer::unnamed(client.address, service.hash(module_path!()), &charged);
    let read = ContentRead::bulk(opened, body, (viewer, charged), client);
    Ok(reads::open_pipe(service, read).await?)
}

/// Reads parts of a content, each an offset and a length, as best effort. Gives those bytes of each that there are.
///
/// # Errors
/// The content cannot be read.
pub async fn read_parts(
    service: &Arc<MediaService>,
    from: &Permit<ToRead>,
    client: Client,
    parts: &[(u64, u64)],
) -> Result<Vec<(u64, Bytes)>, NamespaceError> {
    let opened = reads::open_content(service, from, Want::File).await?;
    let size = opened.entry.size;
    let parts: Vec<_> =
        parts.iter().map(|&(offset, length)| (offset, length.min(size.saturating_sub(offset)))).collect();
    let mut pipe = open_parts(service, from, client, (opened, &parts)).await?;
    let mut all = BytesMut::new();
    while let Some(piece) = pipe.next().await? {
        all.extend_from_slice(&piece);
    }
    let mut all = all.freeze();
    let bytes_of = |(offset, length): (u64, u64)| {
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(all.len());
        (offset, all.split_to(length))
    };
    Ok(parts.into_iter().map(bytes_of).collect())
}

/// The share of the quotas that items of `bytes` take that come to `path`.
pub(crate) async fn quota_of(
    service: &MediaService,
    path: &ContentPath,
    bytes: u64,
) -> Result<QuotaShare, IngestError> {
    let request = UploadRequest {
        path: path.clone(),
        length: Some(bytes),
        precondition: Precondition::None,
        class: UploadClass::BestEffort,
        on_break: OnBreak::Discard,
        durable: None,
        name_taken: NameTaken::Replace,
        modified: None,
        memory: None,
    };
    ingest::take_quota(service, &request).await
}

/// Bytes of a content, or of all contents in a folder.
pub(crate) async fn bytes_of(service: &MediaService, path: &ContentPath, entry: &Entry) -> Result<u64, StoreError> {
    if entry.kind == NameKind::File {
        return Ok(entry.size);
    }
    let mut walk = service.contents.walk(path).await?;
    let mut bytes = 0_u64;
    while let Some(item) = walk.next().await {
        bytes = bytes.saturating_add(item.map_or(0, |item| match item.walked.kind {
            WalkedKind::File(file) if !file.is_again => file.bytes(),
            _ => 0,
        }));
    }
    Ok(bytes)
}

fn check_apart(from: &ContentPath, to: &ContentPath) -> Result<(), NamespaceError> {
    if from.lies_in(to) || to.lies_in(from) { Err(NamespaceError::Overlap) } else { Ok(()) }
}

/// Bytes that may come into the permit's folder, and those that are there: by the quota with the least room. Without a quota they are not
/// counted, and the room is that of the disk with the most. Neither is known before a quota was counted first.
#[must_use]
pub fn room(service: &MediaService, permit: &Permit<ToRead>) -> Option<(u64, Option<u64>)> {
    let disks = service.admin.disks();
    let free = disks.iter().map(|disk| disk.free_bytes).max()?;
    let over = service.quotas.all().into_iter().filter(|quota| permit.path().lies_in(&quota.config.folder));
    let over: Vec<_> = over.map(|quota| quota.status()).collect();
    if over.iter().any(|status| !status.counted) {
        return None;
    }
    Some(match over.iter().min_by_key(|status| status.max_bytes.saturating_sub(status.used_bytes)) {
        Some(status) => (status.max_bytes.saturating_sub(status.used_bytes).min(free), Some(status.used_bytes)),
        None => (free, None),
    })
}

/// The folder that `path` lies in is there.
///
/// # Errors
/// [`NamespaceError::NoParent`]; [`NamespaceError::Exists`] for the root, which lies in none.
pub async fn check_parent(service: &MediaService, permit: &Permit<ToWrite>) -> Result<(), NamespaceError> {
    let path = permit.path();
    let Some((parent, _)) = path.split() else { return Err(NamespaceError::Exists) };
    match service.contents.lookup(&parent).await {
        Ok(entry) if entry.kind == NameKind::Directory => Ok(()),
        Err(StoreError::NotFound) => Err(NamespaceError::NoParent),
        Ok(_) | Err(StoreError::NotADirectory) => Err(below_content(&*service.contents, path).await.into()),
        Err(error) => Err(error.into()),
    }
}
