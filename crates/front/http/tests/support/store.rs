//! A store in memory, with the faults that tests order.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use content::Content;
use content::layout::{ContentLayout, FileAccess};
use content::watched::{FileStat, WatchedContent};
use dataplane::control::WrittenDisks;
use service::contents::{
    ContentPath, Contents, Device, DiskInfo, Entry, ForbiddenBy, LastScrub, NameKind, Opened, Pending, Precondition,
    Published, StoreAdmin, StoreError, StoreWalk, StoredItem, UpkeepError, UpkeepReport, UploadClass, UploadPlace,
    UploadRequest, UploadSink, VolumeInfo, VolumeMemberInfo, VolumeWish, Want,
};
use units::{ByteCount, ContentVersion, DiskFault, DiskId};

use super::PATIENCE;
use super::names::{entries, entry};

/// One file of the store.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) bytes: Vec<u8>,
    pub(super) version: u64,
}

/// A store in memory.
#[derive(Clone, Default)]
pub struct FakeStore {
    files: Arc<Mutex<HashMap<String, Stored>>>,
    versions: Arc<AtomicU64>,
    /// Uploads begun and neither finished nor dropped.
    pub open_uploads: Arc<AtomicU64>,
    uploads_changed: Arc<tokio::sync::Notify>,
    /// Names that were to be opened, in order.
    opened: Arc<(Mutex<Vec<String>>, tokio::sync::Notify)>,
    pub looks: Arc<AtomicU64>,
    /// Folders that were listed whole.
    pub listed: Arc<AtomicU64>,
    pub capacity: Arc<AtomicU64>,
    pub media: Arc<Mutex<Option<media::MediaRate>>>,
    /// The index knows the rate without a look.
    pub media_is_known: Arc<AtomicBool>,
    pub last_class: Arc<Mutex<Option<UploadClass>>>,
    /// The disk of uploads is full from now on, though no upload needed more.
    pub full: Arc<(AtomicBool, tokio::sync::Notify)>,
    /// Its disk does not answer.
    pub failing: Arc<AtomicBool>,
    /// Its disk does not answer in time that an upload is stored.
    pub unsettled: Arc<AtomicBool>,
    /// Its contents can be found, but not opened.
    pub unreadable: Arc<AtomicBool>,
    /// Looking up a content is a fault of ours.
    pub panics: Arc<AtomicBool>,
    /// Disks for uploads besides disk 0.
    pub spare_disks: Arc<AtomicU16>,
    /// Disks that take no recording.
    pub read_only: Arc<Mutex<Vec<DiskId>>>,
}

impl FakeStore {
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let version = self.versions.fetch_add(1, Ordering::SeqCst) + 1;
        self.files.lock().expect("lock").insert(name.to_owned(), Stored { bytes: bytes.to_vec(), version });
    }

    pub fn fill_up(&self) {
        self.full.0.store(true, Ordering::SeqCst);
        self.full.1.notify_waiters();
    }

    /// Waits until a content of this name was to be opened.
    pub async fn wait_opened(&self, name: &str) {
        let is_opened = || self.opened.0.lock().expect("lock").iter().any(|opened| opened == name);
        loop {
            let changed = self.opened.1.notified();
            if is_opened() {
                return;
            }
            tokio::time::timeout(PATIENCE, changed).await.expect("a content that nobody opens");
        }
    }

    /// Waits until `count` uploads are under way.
    pub async fn wait_uploads(&self, count: u64) {
        loop {
            let changed = self.uploads_changed.notified();
            if self.open_uploads.load(Ordering::SeqCst) == count {
                return;
            }
            tokio::time::timeout(PATIENCE, changed).await.expect("an upload that does not begin or end");
        }
    }

    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.files.lock().expect("lock").get(name).map(|stored| stored.bytes.clone())
    }

    fn find(&self, path: &ContentPath) -> Result<(Entry, Stored), StoreError> {
        let name = path.joined();
        assert!(!self.panics.load(Ordering::SeqCst), "a fault of ours");
        let files = self.files.lock().expect("lock");
        let Some(stored) = files.get(&name) else {
            let prefix = format!("{name}/");
            let is_directory = name.is_empty() || files.keys().any(|key| key.starts_with(&prefix));
            return Err(if is_directory { StoreError::IsDirectory } else { StoreError::NotFound });
        };
        Ok((entry(&name, stored), stored.clone()))
    }
}

impl Contents for FakeStore {
    fn recording_memory(&self) -> u64 {
        1 << 30
    }

    fn open<'a>(&'a self, path: &'a ContentPath, want: Want) -> Pending<'a, Opened> {
        Box::pin(async move {
            self.opened.0.lock().expect("lock").push(path.joined());
            self.opened.1.notify_waiters();
            let (entry, stored) = self.find(path)?;
            if self.unreadable.load(Ordering::SeqCst) {
                return Err(StoreError::Forbidden(ForbiddenBy::Permission));
            }
            let mut file = tempfile::tempfile().expect("a temporary file");
            file.write_all(&stored.bytes).expect("room for it");
            let content = Arc::new(Content {
                version: ContentVersion(stored.version),
                size: entry.size,
                layout: ContentLayout::of_file(
                    DiskId(0),
                    file.into(),
                    FileAccess::Buffered,
                    entry.size,
                    Box::default(),
                ),
                watched: Some(WatchedContent::new(FileStat::new(0, entry.size), 0)),
                checksums: None,
            });
            self.looks.fetch_add(u64::from(want == Want::FileAndRate), Ordering::SeqCst);
            let is_known = want == Want::FileAndRate || self.media_is_known.load(Ordering::SeqCst);
            let media = if is_known { *self.media.lock().expect("lock") } else { None };
            Ok(Opened { entry, content, media })
        })
    }

    fn list<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, Vec<Entry>> {
        self.listed.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { entries(&self.files.lock().expect("lock"), path) })
    }

    fn list_part<'a>(&'a self, path: &'a ContentPath, after: &'a str, count: usize) -> Pending<'a, Vec<Entry>> {
        let behind = |all: Vec<Entry>| all.into_iter().filter(|entry| *entry.name > *after).take(count).collect();
        let part = entries(&self.files.lock().expect("lock"), path).map(behind);
        Box::pin(async { part })
    }

    fn lookup<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, Entry> {
        Box::pin(async {
            match self.find(path) {
                Err(StoreError::IsDirectory) => {
                    let found = entry(&path.joined(), &Stored { bytes: Vec::new(), version: 0 });
                    Ok(Entry { kind: NameKind::Directory, ..found })
                }
                found => found.map(|(entry, _)| entry),
            }
        })
    }

    fn walk<'a>(&'a self, _: &'a ContentPath) -> Pending<'a, StoreWalk> {
        Box::pin(async { Err(StoreError::NotFound) })
    }

    fn remove<'a>(&'a self, _: &'a ContentPath, _: &'a StoredItem) -> Pending<'a, ()> {
        Box::pin(async { Err(StoreError::NotFound) })
    }

    fn place_of<'a>(&'a self, _: &'a ContentPath) -> Pending<'a, UploadPlace> {
        Box::pin(async { Ok(UploadPlace::default()) })
    }

    fn placements<'a>(&'a self, _: &'a UploadRequest) -> Pending<'a, Vec<WrittenDisks>> {
        Box::pin(async {
            Ok((0..=self.spare_disks.load(Ordering::SeqCst)).map(|disk| WrittenDisks::one(DiskId(disk))).collect())
        })
    }

    fn begin_upload(&self, request: UploadRequest) -> Pending<'_, Box<dyn UploadSink>> {
        Box::pin(async move {
            let existing = self.find(&request.path).ok().map(|(entry, _)| entry);
            if !request.precondition.holds(existing.as_ref().map(Entry::existing)) {
                return Err(StoreError::PreconditionFailed);
            }
            if let UploadClass::Recording { disks, .. } = request.class
                && self.read_only.lock().expect("lock").contains(&disks.store)
            {
                return Err(StoreError::ReadOnly);
            }
            *self.last_class.lock().expect("lock") = Some(request.class);
            self.open_uploads.fetch_add(1, Ordering::SeqCst);
            self.uploads_changed.notify_waiters();
            let sink = FakeUpload { store: self.clone(), request, bytes: Vec::new() };
            Ok(Box::new(sink) as Box<dyn UploadSink>)
        })
    }

    fn rename<'a>(&'a self, from: &'a ContentPath, to: &'a ContentPath, replaces: bool) -> Pending<'a, bool> {
        Box::pin(async move {
            let (mut files, to) = (self.files.lock().expect("lock"), to.joined());
            if !replaces && files.contains_key(&to) {
                return Err(StoreError::Exists);
            }
            let stored = files.remove(&from.joined()).ok_or(StoreError::NotFound)?;
            Ok(files.insert(to, stored).is_none())
        })
    }

    fn remove_tree<'a>(&'a self, path: &'a ContentPath) -> Pending<'a, ()> {
        Box::pin(async move {
            let prefix = format!("{}/", path.joined());
            self.files.lock().expect("lock").retain(|name, _| !name.starts_with(&prefix));
            Ok(())
        })
    }

    fn delete<'a>(&'a self, path: &'a ContentPath, precondition: Precondition) -> Pending<'a, ()> {
        Box::pin(async move {
            let (entry, _) = self.find(path)?;
            if !precondition.holds(Some(entry.existing())) {
                return Err(StoreError::PreconditionFailed);
            }
            self.files.lock().expect("lock").remove(&path.joined());
            Ok(())
        })
    }
}

impl StoreAdmin for FakeStore {
    fn disks(&self) -> Vec<DiskInfo> {
        let device = Device {
            name: "sda".to_owned(),
            drive: "sda".to_owned(),
            model: "FAKE".to_owned(),
            rotational: true,
            capacity_bytes: 1 << 40,
            node: None,
        };
        vec![DiskInfo {
            id: DiskId(0),
            device,
            free_bytes: 1 << 39,
            roots: vec!["/srv/video".into()],
            errors: 0,
            failure: self.failing.load(Ordering::SeqCst).then_some(DiskFault::Hung),
        }]
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        let (disk, path) = (Some(DiskId(0)), Some("/dev/sda".into()));
        let size = ByteCount(1 << 31);
        let disk = VolumeMemberInfo {
            disk,
            path,
            state: "active",
            size,
            failure: Some(StoreError::Closed),
            wrong_copies: 2,
            units: 255,
            free_units: Some(128),
        };
        vec![VolumeInfo {
            folders: vec![("masters".to_owned(), "mirror")],
            unit: ByteCount(8 << 20),
            moved_copies: 0,
            name: "films".to_owned(),
            layout: "span",
            contents: 3,
            missing_contents: 0,
            damaged_contents: 1,
            last_scrub: Some(LastScrub {
                ended: std::time::UNIX_EPOCH,
                seen_bytes: 1,
                copies_written: 0,
                copies_lost: 0,
                contents_unknown: 0,
            }),
            free: ByteCount(1 << 30),
            disks: vec![disk],
            upkeep: Some(("scrub", UpkeepReport::default())),
            last_upkeep: Some(("fill", UpkeepReport::default(), Some(StoreError::Closed))),
        }]
    }

    fn begin_upkeep(&self, volume: &str, wish: &VolumeWish) -> Result<(), UpkeepError> {
        match (volume, wish) {
            ("films", VolumeWish::Scrub) => Err(UpkeepError::Busy),
            ("films", VolumeWish::Replace(0, device)) if device.to_str() == Some("/dev/my disk") => Ok(()),
            ("films", VolumeWish::Replace(..)) => Err(UpkeepError::NotBlank),
            ("films", VolumeWish::Remove(0)) => Ok(()),
            _ => Err(UpkeepError::Unknown),
        }
    }
}

struct FakeUpload {
    store: FakeStore,
    request: UploadRequest,
    bytes: Vec<u8>,
}

impl Drop for FakeUpload {
    fn drop(&mut self) {
        self.store.open_uploads.fetch_sub(1, Ordering::SeqCst);
        self.store.uploads_changed.notify_waiters();
    }
}

impl UploadSink for FakeUpload {
    fn disk(&self) -> DiskId {
        DiskId(0)
    }

    fn append<'a>(&'a mut self, bytes: &'a [u8]) -> Pending<'a, ()> {
        Box::pin(async {
            let capacity = self.store.capacity.load(Ordering::SeqCst);
            if capacity > 0 && (self.bytes.len() + bytes.len()) as u64 > capacity {
                return Err(StoreError::NoSpace);
            }
            self.bytes.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn failed(&mut self) -> Pending<'_, Infallible> {
        Box::pin(async {
            loop {
                let changed = self.store.full.1.notified();
                if self.store.full.0.load(Ordering::SeqCst) {
                    return Err(StoreError::NoSpace);
                }
                changed.await;
            }
        })
    }

    fn finish(self: Box<Self>) -> Pending<'static, Published> {
        Box::pin(async move {
            if self.request.length.is_some_and(|length| length != self.bytes.len() as u64) {
                return Err(StoreError::TooShort);
            }
            let name = self.request.path.joined();
            let replaced = self.store.find(&self.request.path).ok().map(|(entry, _)| entry.modified);
            self.store.put(&name, &self.bytes);
            if self.store.unsettled.load(Ordering::SeqCst) {
                return Err(StoreError::Unsettled("sda".into()));
            }
            let etag = self.store.find(&self.request.path)?.0.etag;
            Ok(Published {
                path: self.request.path.clone(),
                replaced,
                etag,
                size: self.bytes.len() as u64,
                durable: None,
                stored: None,
            })
        })
    }
}
