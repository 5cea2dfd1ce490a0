//! A small store and a data plane that really sends, so that the control plane can be tested alone.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

mod accounts;
mod client;
mod lines;
mod names;
mod operations;
mod sends;
mod told;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use accounts::NoStore;
#[allow(unused_imports, reason = "each test file uses its part")]
pub use accounts::{password_hash, users};
#[allow(unused_imports, reason = "each test file uses its part")]
pub use client::{Answer, Client, PATIENCE, pattern};
use content::layout::{ContentLayout, FileAccess};
use content::watched::{FileStat, WatchedContent};
use content::{Content, Segment};
use dataplane::control::{
    Command, Delivery, Ending, Outcome, RecordingPlace, Refusal, Report, Resource, Service as Class, WrittenDisks,
};
use dataplane::gauges::Gauges;
use http::config::HttpConfig;
use http::{HttpListener, Server, ServerParts};
pub use lines::Lines;
use lines::wait_while;
use names::{entries, entry};
use sends::Sends;
use service::account_changes::AccountStore;
use service::accounts::{Accounts, OpenRights};
use service::config::ServiceConfig;
use service::contents::{
    ContentPath, Contents, Device, DiskInfo, Entry, ForbiddenBy, LastScrub, NameKind, Opened, Pending, Precondition,
    Published, StoreAdmin, StoreError, StoreWalk, StoredItem, UpkeepError, UpkeepReport, UploadClass, UploadPlace,
    UploadRequest, UploadSink, VolumeInfo, VolumeMemberInfo, VolumeWish, Want,
};
use service::log::Log;
use service::operations::Operations;
use service::{MediaService, PlaneQueue};
pub use told::PlaneOrder;
use units::{BitRate, ByteCount, ContentVersion, DiskId, Nanos, ReservationId, StreamId};

/// One file of the store.
#[derive(Clone)]
struct Stored {
    bytes: Vec<u8>,
    version: u64,
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
            failing: self.failing.load(Ordering::SeqCst),
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

#[derive(Debug, Default)]
struct PlaneState {
    orders: Vec<PlaneOrder>,
    reserved: HashMap<ReservationId, u64>,
    /// The stream that has each, since it was admitted.
    holders: HashMap<ReservationId, StreamId>,
    stopped: HashSet<u64>,
    next: u32,
    /// Nothing of a content leaves until it is opened.
    gate_closed: bool,
    queue_full: bool,
    draining: bool,
    /// Outcome of every stream, before its first byte.
    failing: Option<Outcome>,
    /// Disks without room for a recording, and the rate they would grant.
    full_disks: Vec<(DiskId, BitRate)>,
}

/// A data plane: one thread per delivery, which sends the segments.
pub struct FakePlane {
    state: Mutex<PlaneState>,
    changed: Condvar,
    capacity: AtomicU64,
    service: OnceLock<Arc<MediaService>>,
    me: OnceLock<std::sync::Weak<Self>>,
}

impl FakePlane {
    fn new(capacity_bps: u64) -> Arc<Self> {
        let plane = Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            capacity: AtomicU64::new(capacity_bps),
            service: OnceLock::new(),
            me: OnceLock::new(),
        });
        let _ = plane.me.set(Arc::downgrade(&plane));
        plane
    }

    pub fn orders(&self) -> Vec<PlaneOrder> {
        self.state.lock().expect("lock").orders.clone()
    }

    pub fn reserved(&self) -> usize {
        self.state.lock().expect("lock").reserved.len()
    }

    /// Waits until there are `count` reservations.
    pub fn wait_reserved(&self, count: usize) {
        wait_while(&self.state, &self.changed, |state| state.reserved.len() != count);
    }

    /// Waits until nothing is reserved.
    pub fn wait_unreserved(&self) {
        self.wait_reserved(0);
    }

    pub fn close_gate(&self) {
        self.state.lock().expect("lock").gate_closed = true;
    }

    pub fn open_gate(&self) {
        self.state.lock().expect("lock").gate_closed = false;
        self.changed.notify_all();
    }

    pub fn fill_queue(&self, full: bool) {
        self.state.lock().expect("lock").queue_full = full;
    }

    /// From now on each stream ends so before its first byte.
    pub fn fail(&self, outcome: Outcome) {
        self.state.lock().expect("lock").failing = Some(outcome);
    }

    /// From now on a recording finds no room on `disk` but for `grantable`.
    pub fn fill_disk(&self, disk: DiskId, grantable: BitRate) {
        self.state.lock().expect("lock").full_disks.push((disk, grantable));
    }

    /// Waits until `ready` is true for the orders received.
    pub fn wait_until(&self, ready: impl Fn(&[PlaneOrder]) -> bool) {
        wait_while(&self.state, &self.changed, |state| !ready(&state.orders));
    }

    fn admit(&self, state: &mut PlaneState, rate: BitRate) -> Result<ReservationId, Refusal> {
        if state.draining {
            return Err(Refusal { resource: Resource::Draining, grantable: BitRate(0) });
        }
        let used: u64 = state.reserved.values().sum();
        let free = self.capacity.load(Ordering::SeqCst) - used;
        if rate.0 > free {
            return Err(Refusal { resource: Resource::Disk(DiskId(0)), grantable: BitRate(free) });
        }
        state.next += 1;
        let id = ReservationId { slot: state.next, generation: 1 };
        state.reserved.insert(id, rate.0);
        Ok(id)
    }

    fn renew(&self, state: &mut PlaneState, held: ReservationId, rate: BitRate) -> Result<(), Refusal> {
        let before = state.reserved.remove(&held).expect("a held reservation was released before its use");
        let renewed = if rate.0 > before { self.admit(state, rate) } else { Ok(held) };
        let own = renewed.ok().and_then(|other| state.reserved.remove(&other)).unwrap_or(before);
        state.reserved.insert(held, own);
        renewed.map(drop)
    }

    fn start(self: &Arc<Self>, delivery: Box<Delivery>) {
        let mut state = self.state.lock().expect("lock");
        let mut hold_it = false;
        let reservation = match delivery.service {
            Class::BestEffort | Class::Beside { .. } => {
                state.orders.push(match delivery.service {
                    Class::Beside { session } => PlaneOrder::Beside(session),
                    _ => PlaneOrder::Start { rate: None, burst_bytes: 0, held: None, hold: false },
                });
                Ok(None)
            }
            Class::Constant { rate, burst_bytes, held, hold, .. } => {
                hold_it = hold;
                state.orders.push(PlaneOrder::Start { rate: Some(rate), burst_bytes, held, hold });
                match held {
                    Some(held) => self.renew(&mut state, held, rate).map(|()| Some(held)),
                    None => self.admit(&mut state, rate).map(Some),
                }
            }
        };
        if let Ok(Some(reservation)) = reservation {
            // The stream that had it before continues without.
            state.holders.insert(reservation, delivery.stream);
        }
        drop(state);
        self.changed.notify_all();
        let plane = Arc::clone(self);
        std::thread::spawn(move || match reservation {
            Err(refusal) => plane.report(Report::Refused { delivery, refusal }),
            Ok(reservation) => plane.run(delivery, reservation, hold_it),
        });
    }

    fn run(&self, delivery: Box<Delivery>, reservation: Option<ReservationId>, hold: bool) {
        self.report(Report::Started { stream: delivery.stream, reservation });
        let stream = delivery.stream.0;
        let mut sends = Sends::to(&delivery);
        let mut sent = 0;
        let failing = self.state.lock().expect("lock").failing;
        let mut outcome = failing.unwrap_or(Outcome::Complete);
        for segment in delivery.segments.iter().filter(|_| failing.is_none()) {
            if matches!(segment, Segment::Range { .. }) && !self.pass_gate(stream) {
                outcome = Outcome::Stopped;
                break;
            }
            let bytes = match segment {
                Segment::Bytes(bytes) => {
                    assert!(bytes.len() as u64 <= content::LITERAL_BYTES);
                    bytes.to_vec()
                }
                Segment::Range { offset, length } => {
                    assert!(*length > 0 && offset + length <= delivery.content.size);
                    let file = std::fs::File::from(delivery.content.file().file.try_clone().expect("a descriptor"));
                    let mut bytes = vec![0; usize::try_from(*length).expect("small")];
                    file.read_exact_at(&mut bytes, *offset).expect("inside the file");
                    bytes
                }
            };
            if !sends.send(&bytes, || self.report(Report::Posted { stream: delivery.stream })) {
                outcome = Outcome::ClientGone;
                break;
            }
            sent += bytes.len() as u64;
        }
        drop(sends);
        let mut state = self.state.lock().expect("lock");
        let kept = reservation.filter(|reservation| state.holders.get(reservation) == Some(&delivery.stream));
        let held = kept.filter(|_| hold);
        if let (Some(reservation), None) = (kept, held) {
            state.reserved.remove(&reservation);
            self.changed.notify_all();
        }
        drop(state);
        let end = Ending { outcome, sent_bytes: sent, misses: 0, duration: Nanos::from_millis(1), held };
        self.report(Report::Finished { delivery, end });
    }

    /// Waits at the gate; false if the stream was stopped there.
    fn pass_gate(&self, stream: u64) -> bool {
        let mut state = self.state.lock().expect("lock");
        while state.gate_closed && !state.stopped.contains(&stream) {
            state = self.changed.wait(state).expect("lock");
        }
        !state.stopped.contains(&stream)
    }

    fn report(&self, report: Report) {
        self.service.get().expect("started").on_report(report);
    }
}

impl PlaneQueue for FakePlane {
    fn send(&self, command: Command) -> Result<(), Command> {
        let me = self.me.get().and_then(std::sync::Weak::upgrade).expect("the plane lives");
        {
            let mut state = self.state.lock().expect("lock");
            if state.queue_full {
                return Err(command);
            }
            match &command {
                Command::Stop(stream) => {
                    state.stopped.insert(stream.0);
                    state.orders.push(PlaneOrder::Stop);
                }
                Command::Release(reservation) => {
                    state.reserved.remove(reservation);
                    state.orders.push(PlaneOrder::Release(*reservation));
                }
                Command::Drain => {
                    state.draining = true;
                    state.orders.push(PlaneOrder::Drain);
                }
                Command::Reserve(request) => {
                    state.orders.push(PlaneOrder::Reserve(request.rate));
                    let full = state.full_disks.iter().find(|(disk, _)| *disk == request.disks.store).copied();
                    let admitted = match full {
                        Some((disk, grantable)) => Err(Refusal { resource: Resource::Disk(disk), grantable }),
                        None => me.admit(&mut state, request.rate),
                    };
                    let answer = match admitted {
                        Ok(reservation) => {
                            let second = Nanos::from_secs(1);
                            let place = RecordingPlace { first: second, period: second, within: second };
                            Report::Reserved { stream: request.stream, reservation, place }
                        }
                        Err(refusal) => Report::ReserveRefused { stream: request.stream, refusal },
                    };
                    let plane = Arc::clone(&me);
                    std::thread::spawn(move || plane.report(answer));
                }
                Command::Start(_)
                | Command::Keep(_)
                | Command::SetStall(_)
                | Command::SetLink { .. }
                | Command::SetProfile(_)
                | Command::Shutdown => {}
            }
            self.changed.notify_all();
        }
        if let Command::Start(delivery) = command {
            me.start(delivery);
        }
        Ok(())
    }
}

/// Settings of the service and of the front end; those that a test does not name are the default ones.
#[derive(Default)]
pub struct Settings {
    pub service: ServiceConfig,
    pub http: HttpConfig,
    /// For a second address, with TLS.
    pub tls: Option<tls::Acceptor>,
}

impl From<ServiceConfig> for Settings {
    fn from(service: ServiceConfig) -> Self {
        Self { service, ..Self::default() }
    }
}

impl From<HttpConfig> for Settings {
    fn from(http: HttpConfig) -> Self {
        Self { http, ..Self::default() }
    }
}

/// A server with its fakes.
pub struct Harness {
    pub server: Arc<Server>,
    pub service: Arc<MediaService>,
    operations: Arc<dyn Operations>,
    pub plane: Arc<FakePlane>,
    pub store: FakeStore,
    pub access: Lines,
    pub events: Lines,
    pub address: SocketAddr,
    /// The address with TLS, where the settings have one.
    pub sealed: SocketAddr,
}

/// 100 Mbit/s of room.
pub const CAPACITY_BPS: u64 = 100_000_000;

impl Harness {
    /// With these settings, but that programs on this machine may write.
    pub fn start(settings: impl Into<Settings>) -> Self {
        let accounts = Arc::<Accounts>::default();
        accounts.open(OpenRights { all_read: true, local_writes: true });
        Self::with_accounts(settings, accounts)
    }

    /// With these settings and accounts.
    pub fn with_accounts(settings: impl Into<Settings>, accounts: Arc<Accounts>) -> Self {
        Self::with_account_store(settings, accounts, Arc::new(NoStore))
    }

    /// With these settings and accounts, which `account_store` changes.
    pub fn with_account_store(
        settings: impl Into<Settings>,
        accounts: Arc<Accounts>,
        account_store: Arc<dyn AccountStore>,
    ) -> Self {
        let Settings { service, http, tls } = settings.into();
        let (plane, store) = (FakePlane::new(CAPACITY_BPS), FakeStore::default());
        let (access, events) = (Lines::default(), Lines::default());
        let bind = |tls| HttpListener::bind("127.0.0.1:0".parse().expect("an address"), tls).expect("a port");
        let listeners = std::iter::once(bind(None)).chain(tls.map(|tls| bind(Some(tls)))).collect();
        let service = MediaService::start(service::ServiceParts {
            config: service,
            contents: Arc::new(store.clone()),
            admin: Arc::new(store.clone()),
            accounts,
            account_store,
            plane: Arc::clone(&plane) as Arc<dyn PlaneQueue>,
            disk_doubts: [(DiskId(0), "no block device".to_owned())].into(),
            missing: Vec::new(),
            gauges: Arc::new(Gauges::new(16, 1)),
            access: Log::start("access", Some(Box::new(access.clone()))).expect("a thread"),
            events: Log::start("events", Some(Box::new(events.clone()))).expect("a thread"),
            machine: || None,
        });
        let operations: Arc<dyn Operations> = Arc::new(operations::FakeOperations);
        service.operations.begin(&operations);
        assert!(plane.service.set(Arc::clone(&service)).is_ok());
        let server = Server::start(ServerParts {
            config: http,
            listeners,
            service: Arc::clone(&service),
            dav_journal: Arc::new(service::line_journal::NoJournal),
            upload_journal: Arc::new(service::line_journal::NoJournal),
        })
        .expect("started");
        let address = server.addresses()[0].address;
        let sealed = server.addresses().last().expect("an address").address;
        Self { server, service, operations, plane, store, access, events, address, sealed }
    }

    pub fn connect(&self) -> Client {
        Client::to(self.address)
    }

    pub fn connect_from(&self, source: &str) -> Client {
        Client::from_to(source, self.address)
    }

    /// One request on a connection of its own.
    pub fn one(&self, request: &str) -> Answer {
        let mut client = self.connect();
        client.send(request);
        client.answer(!request.starts_with("HEAD"))
    }
}

/// The head of a GET.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}
