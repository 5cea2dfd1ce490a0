//! The store as the service sees it: contents for clients ([`Contents`]), disks and volumes for operators ([`StoreAdmin`]). Tests put a
//! small store in its place.
//!
//! Promise: the only way from here to contents. Not here: disks. See the crates `store` and `volumes`.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::SystemTime;

use dataplane::control::WrittenDisks;
use dataplane::gauges::DiskGauges;
pub use media::MediaRate;
pub use store::{
    AwayDisk, ContentPath, Device, DiskInfo, Entry, FileId, ForbiddenBy, NameKind, NameTaken, OnBreak, Opened,
    PathError, Precondition, Published, RecordingMemory, RootAway, StoreError, StoreEvent, StoreWalk, StoredItem,
    UpkeepReport, UploadClass, UploadPlace, UploadRequest, WalkError, Walked, WalkedKind, Want,
};
use store::{Store, Upload};
use units::DiskId;
pub use volumes::{LastScrub, UpkeepError, VolumeInfo, VolumeMemberInfo, VolumeWish};

/// A store operation under way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Contents by their names. A source of contents without disks of this machine implements this trait alone.
pub trait Contents: Send + Sync + 'static {
    /// Opens the content at `path`.
    fn open<'a>(&'a self, path: &'a ContentPath, want: Want) -> Pending<'a, Opened>;
    /// The entries of the directory at `path`, by name.
    fn list<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, Vec<Entry>>;
    /// The first `count` names after `after` in the directory at `path`, however many it holds.
    fn list_part<'a>(&'a self, path: &'a ContentPath, after: &'a str, count: usize) -> Pending<'a, Vec<Entry>>;
    /// The entry at `path`.
    fn lookup<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, Entry>;
    /// A walk through a folder and all below it.
    fn walk<'a>(&'a self, folder: &'a ContentPath) -> Pending<'a, StoreWalk>;
    /// Removes a file that a walk through `folder` met.
    fn remove<'a>(&'a self, folder: &'a ContentPath, item: &'a StoredItem) -> Pending<'a, ()>;
    /// Where an upload to `path` comes to lie.
    fn place_of<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, UploadPlace>;
    /// The disks an upload may go to, the best first; at least one.
    fn placements<'a>(&'a self, request: &'a UploadRequest) -> Pending<'a, Vec<WrittenDisks>>;
    /// Bytes that the buffers of recordings can still hold.
    fn recording_memory(&self) -> u64;
    /// Begins an upload; nothing is visible before it is finished.
    fn begin_upload(&self, request: UploadRequest) -> Pending<'_, Box<dyn UploadSink>>;
    /// Gives the bytes that a crash left of the upload to `path` their name, durably.
    fn recover<'a>(&'a self, _path: &'a ContentPath) -> Pending<'a, Published> {
        Box::pin(async { Err(StoreError::NotFound) })
    }
    /// Makes an empty folder at `path`, durably. The folder that it lies in is there.
    fn make_folder<'a>(&'a self, _path: &'a ContentPath) -> Pending<'a, ()> {
        Box::pin(async { Err(StoreError::ReadOnly) })
    }
    /// Gives the content or folder at `from` the name `to`, durably, and with `replaces` in the place of the item that is there. True if
    /// there was none.
    fn rename<'a>(&'a self, from: &'a ContentPath, to: &'a ContentPath, replaces: bool) -> Pending<'a, bool>;
    /// Gives the content at `path` another modification time, durably.
    fn set_modified<'a>(&'a self, _path: &'a ContentPath, _modified: SystemTime) -> Pending<'a, ()> {
        Box::pin(async { Err(StoreError::ReadOnly) })
    }
    /// Removes the folder at `path` with all below it, durably and at once; its space is free later.
    fn remove_tree<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, ()>;
    /// Removes the content at `path`.
    fn delete<'a>(&'a self, path: &'a ContentPath, precondition: Precondition) -> Pending<'a, ()>;
    /// Notes that bytes of a content were read from `disk` and sent.
    fn note_read(&self, _disk: DiskId, _path: &str, _bytes: u64) {}
}

/// Disks and volumes, as operators see and steer them.
pub trait StoreAdmin: Send + Sync + 'static {
    /// The disks.
    fn disks(&self) -> Vec<DiskInfo>;
    /// The volumes.
    fn volumes(&self) -> Vec<VolumeInfo>;
    /// Begins a change of a volume; waits for disks where one is replaced.
    ///
    /// # Errors
    /// As [`volumes::ServedVolume::begin`]; there is no volume of this name.
    fn begin_upkeep(&self, volume: &str, wish: &VolumeWish) -> Result<(), UpkeepError>;
    /// True if no upload is under way.
    fn is_settled(&self) -> bool;
}

/// Errors of a disk: reads of streams and writes, as the plane sees them, and look-ups of the store's thread.
#[must_use]
pub fn errors_of(disk: &DiskInfo, gauges: &DiskGauges) -> u64 {
    gauges.errors.get().saturating_add(disk.errors)
}

/// The error where nothing can lie at `path`, for a content lies on the way there: it names that.
pub(crate) async fn below_content(contents: &dyn Contents, path: &ContentPath) -> StoreError {
    let folder_of = |path: &ContentPath| path.split().map(|(folder, _)| folder);
    let mut above = folder_of(path);
    while let Some(name) = above {
        match contents.lookup(&name).await {
            Ok(entry) if entry.kind == NameKind::File => return StoreError::BelowContent(name.joined().into()),
            Ok(_) => break,
            Err(_) => above = folder_of(&name),
        }
    }
    StoreError::NotADirectory
}

/// An upload under way; dropping it leaves nothing behind.
pub trait UploadSink: Send {
    /// Bytes that an earlier upload has left: appended bytes go behind them.
    fn begun_with(&self) -> u64 {
        0
    }
    /// The disk that it is written to.
    fn disk(&self) -> DiskId;
    /// Its memory, for another content of the same recording.
    fn memory(&self) -> Option<RecordingMemory> {
        None
    }
    /// Takes the next bytes; waits while the disk is behind.
    fn append<'a>(&'a mut self, bytes: &'a [u8]) -> Pending<'a, ()>;
    /// Waits for its failure, which may come while nothing is appended; for ever if there is none.
    fn failed(&mut self) -> Pending<'_, Infallible>;
    /// Makes it durable and visible.
    fn finish(self: Box<Self>) -> Pending<'static, Published>;
}

impl Contents for Store {
    fn recording_memory(&self) -> u64 {
        Self::recording_memory(self)
    }

    fn open<'a>(&'a self, path: &'a ContentPath, want: Want) -> Pending<'a, Opened> {
        Box::pin(Self::open(self, path, want))
    }

    fn list<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, Vec<Entry>> {
        Box::pin(Self::list(self, path))
    }

    fn list_part<'a>(&'a self, path: &'a ContentPath, after: &'a str, count: usize) -> Pending<'a, Vec<Entry>> {
        Box::pin(Self::list_part(self, path, after, count))
    }

    fn lookup<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, Entry> {
        Box::pin(Self::lookup(self, path))
    }

    fn walk<'a>(&'a self, folder: &'a ContentPath) -> Pending<'a, StoreWalk> {
        Box::pin(Self::walk(self, folder))
    }

    fn remove<'a>(&'a self, folder: &'a ContentPath, item: &'a StoredItem) -> Pending<'a, ()> {
        Box::pin(Self::remove(self, folder, item))
    }

    fn place_of<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, UploadPlace> {
        Box::pin(Self::place_of(self, path))
    }

    fn placements<'a>(&'a self, request: &'a UploadRequest) -> Pending<'a, Vec<WrittenDisks>> {
        Box::pin(Self::placements(self, request))
    }

    fn begin_upload(&self, request: UploadRequest) -> Pending<'_, Box<dyn UploadSink>> {
        Box::pin(async move {
            let upload = Self::begin_upload(self, request).await?;
            Ok(Box::new(upload) as Box<dyn UploadSink>)
        })
    }

    fn recover<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, Published> {
        Box::pin(Self::recover(self, path))
    }

    fn make_folder<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, ()> {
        Box::pin(Self::make_folder(self, path))
    }

    fn rename<'a>(&'a self, from: &'a ContentPath, to: &'a ContentPath, replaces: bool) -> Pending<'a, bool> {
        Box::pin(Self::rename(self, from, to, replaces))
    }

    fn set_modified<'a>(&'a self, path: &'a ContentPath, modified: SystemTime) -> Pending<'a, ()> {
        Box::pin(Self::set_modified(self, path, modified))
    }

    fn remove_tree<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, ()> {
        Box::pin(Self::remove_tree(self, path))
    }

    fn delete<'a>(&'a self, path: &'a ContentPath, precondition: Precondition) -> Pending<'a, ()> {
        Box::pin(Self::delete(self, path, precondition))
    }

    fn note_read(&self, disk: DiskId, path: &str, bytes: u64) {
        Self::note_read(self, disk, path, bytes);
    }
}

impl UploadSink for Upload {
    fn begun_with(&self) -> u64 {
        Self::begun_with(self)
    }

    fn disk(&self) -> DiskId {
        Self::disk(self)
    }

    fn memory(&self) -> Option<RecordingMemory> {
        Some(Self::memory(self))
    }

    fn append<'a>(&'a mut self, bytes: &'a [u8]) -> Pending<'a, ()> {
        Box::pin(Self::append(self, bytes))
    }

    fn failed(&mut self) -> Pending<'_, Infallible> {
        Box::pin(async { Err(Self::failed(self).await) })
    }

    fn finish(self: Box<Self>) -> Pending<'static, Published> {
        Box::pin(Self::finish(*self))
    }
}
