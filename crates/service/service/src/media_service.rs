//! What all parts of the service share: the store, the data plane, the settings in force, the streams under way.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use api::DiskFailure;
use dataplane::control::{Command, Report};
use dataplane::gauges::Gauges;
use tokio::runtime::Handle;
use tokio::sync::watch;
use units::{BitRate, DiskId, LinkId, Nanos, StreamId};

use crate::access::WritePermit;
use crate::config::ServiceConfig;
use crate::contents::{ContentPath, Contents, DiskInfo, StoreError, StoreEvent, UpkeepError, VolumeWish, failure};
use crate::events::{self, Events};
use crate::listing::{Listing, Listings};
use crate::lock::lock;
use crate::log::{Log, LogWriter};
use crate::logins::Logins;
use crate::open_ahead::OpensAhead;
use crate::piece_cache::PieceCache;
use crate::plane_client::{PlaneClient, PlaneQueue};
use crate::quota::Quotas;
use crate::recording_pace::RecordingProgress;
use crate::refusals::RefusalCounts;
use crate::session_account::SessionAccount;
use crate::session_table::SessionTable;
use crate::shares::{ClientIdentity, Shares};

/// What the wiring gives the service.
pub struct ServiceParts {
    /// Settings.
    pub config: ServiceConfig,
    /// The store.
    pub contents: Arc<dyn Contents>,
    /// The data plane's command queue. Its reports go to [`MediaService::on_report`].
    pub plane: Arc<dyn PlaneQueue>,
    /// What the data plane publishes.
    pub gauges: Arc<Gauges>,
    /// Event log, JSON lines.
    pub events: Log,
}

/// The service.
pub struct MediaService {
    /// The store.
    pub contents: Arc<dyn Contents>,
    /// What the data plane publishes.
    pub gauges: Arc<Gauges>,
    /// Event log.
    pub events: Events,
    /// What is counted here.
    pub stats: ServiceStats,
    /// Checks names and passwords.
    pub logins: Logins,
    /// What folders may hold.
    pub quotas: Arc<Quotas>,
    /// The uploads of each client.
    pub(crate) uploads: Arc<Shares<ClientIdentity>>,
    pub(crate) listings: Listings,
    pub(crate) opens_ahead: OpensAhead,
    pub(crate) plane: Arc<PlaneClient>,
    pub(crate) sessions: SessionTable,
    pub(crate) small_reads: Arc<PieceCache>,
    pub(crate) runtime: Handle,
    running: Mutex<HashMap<StreamId, RunningStream>>,
    /// Folders that are away.
    away: Mutex<BTreeSet<PathBuf>>,
    /// Disks that were told to fail, and how.
    disk_failures: Mutex<BTreeMap<DiskId, DiskFailure>>,
    draining: watch::Sender<bool>,
    /// What runs is to end.
    stopping: watch::Sender<bool>,
    config: RwLock<Arc<ServiceConfig>>,
    started: Instant,
    hasher: RandomState,
}

/// A stream under way, as the service knows it: from the moment it asks the data plane for it, so that its listing is never
/// behind its first byte; a recording from the moment it has its reservation.
#[derive(Debug, Clone)]
pub struct RunningStream {
    /// The content, below the root.
    pub path: String,
    /// The client.
    pub client: IpAddr,
    /// The rate promised; none for best effort.
    pub rate: Option<BitRate>,
    /// The disk it reads from or is written to.
    pub disk: DiskId,
    /// When it began.
    pub started: SystemTime,
    /// What came of a recording; none for a delivery.
    pub recording: Option<Arc<RecordingProgress>>,
    /// Somebody asked for its end, so that others get what it has: its viewer keeps nothing of it.
    pub stopped: bool,
}

/// How many streams and recordings are under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunningCounts {
    /// Streams with a rate.
    pub constant: u64,
    /// Streams without one.
    pub best_effort: u64,
    /// Recordings.
    pub recordings: u64,
}

/// A folder that is served, or a disk of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedFolder {
    /// Its path.
    pub path: PathBuf,
    /// The disk that it lies on.
    pub disk: DiskId,
    /// Whether it is not what it was at the start: unmounted, for example.
    pub is_away: bool,
}

/// A network interface by which streams leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedLink {
    /// Its name.
    pub name: String,
    /// What it carries.
    pub capacity: BitRate,
    /// What of this is promised.
    pub promised: BitRate,
}

/// What the service counts.
#[derive(Debug, Default)]
pub struct ServiceStats {
    /// Uploads under way.
    pub uploads_open: AtomicU64,
    /// Bytes received by uploads.
    pub bytes_uploaded: AtomicU64,
    /// Recordings that were further ahead of their rate than they may be.
    pub recordings_over_rate: AtomicU64,
    /// Deliveries started.
    pub streams_started: AtomicU64,
    /// Sessions that fell behind by more than their start-up delay.
    pub sessions_behind: AtomicU64,
    /// Small reads answered from memory, without a delivery.
    pub small_reads: AtomicU64,
    /// Deliveries and recordings refused.
    pub refusals: RefusalCounts,
}

/// Why a stream is not stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// No stream of this number runs.
    #[error("no stream of this number runs")]
    Unknown,
    /// What a client sends is the client's to end: what came of it is kept or dropped as it asked for.
    #[error("this is a recording: whoever sends it ends it")]
    Recording,
    /// The data plane's queue is full.
    #[error("too many requests are under way; try again later")]
    Busy,
}

impl MediaService {
    /// Starts on the current tokio runtime.
    #[must_use]
    pub fn start(parts: ServiceParts) -> Arc<Self> {
        let plane = Arc::new(PlaneClient::new(parts.plane));
        let quotas = Arc::new(Quotas::default());
        quotas.configure(&parts.config.quotas);
        Arc::new(Self {
            sessions: SessionTable::new(parts.config.session_hold, Arc::clone(&plane), Arc::clone(&parts.gauges)),
            config: RwLock::new(Arc::new(parts.config)),
            contents: parts.contents,
            small_reads: Arc::new(PieceCache::new(Arc::clone(&parts.gauges))),
            gauges: parts.gauges,
            events: Events::new(parts.events),
            stats: ServiceStats::default(),
            logins: Logins::default(),
            quotas,
            uploads: Arc::default(),
            listings: Listings::default(),
            opens_ahead: OpensAhead::default(),
            plane,
            runtime: Handle::current(),
            running: Mutex::default(),
            away: Mutex::default(),
            disk_failures: Mutex::default(),
            draining: watch::Sender::new(false),
            stopping: watch::Sender::new(false),
            started: Instant::now(),
            hasher: RandomState::new(),
        })
    }

    /// Takes a report of the data plane. Never waits; call it from any thread.
    pub fn on_report(&self, report: Report) {
        match report {
            Report::Event(event) => match events::line(&event, SystemTime::now()) {
                Some(line) => self.events.tell(line),
                None => self.tell_disk_failures(),
            },
            // Closing the last reference to a deleted content frees its blocks, which can take long. Most are not the last.
            Report::Unused(content) => {
                if let Some(content) = Arc::into_inner(content) {
                    self.runtime.spawn_blocking(move || drop(content));
                }
            }
            report => self.plane.on_report(report),
        }
    }

    /// Tells which disks fail, or are used again, since it was asked last: as [`failure`] shows them, whether reads of the
    /// data plane or the store's thread found it.
    fn tell_disk_failures(&self) {
        let mut told = lock(&self.disk_failures);
        for disk in self.contents.disks() {
            let Some(gauges) = self.gauges.disks.get(usize::from(disk.id.0)) else { continue };
            let failure = failure(disk.failing, gauges);
            let before = match failure {
                Some(failure) => told.insert(disk.id, failure),
                None => told.remove(&disk.id),
            };
            if failure != before {
                self.events.tell(events::disk_failure(disk.id, failure, SystemTime::now()));
            }
        }
    }

    /// Notes what happened in the store. Never waits; call it from any thread.
    pub fn on_store_event(&self, event: &StoreEvent) {
        match event {
            StoreEvent::RootAway { root, .. } => {
                lock(&self.away).insert(root.clone());
            }
            StoreEvent::RootBack { root } => {
                lock(&self.away).remove(root);
            }
            _ => {}
        }
        self.events.tell(events::of_store(event, SystemTime::now()));
    }

    /// The settings in force. A request that was begun under older ones may go on with them.
    #[must_use]
    pub fn config(&self) -> Arc<ServiceConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other settings in force for what begins from now on, and changes to another event log. Running streams and
    /// uploads go on as they began.
    pub fn reload(&self, config: ServiceConfig, events: LogWriter) {
        self.events.reopen(events);
        self.sessions.hold_for(config.session_hold);
        if self.config().quotas != config.quotas {
            self.quotas.configure(&config.quotas);
        }
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Time since the start.
    #[must_use]
    pub fn uptime(&self) -> Nanos {
        Nanos::from(self.started.elapsed())
    }

    /// A keyed hash that nobody outside can foresee.
    pub fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    /// Sessions that run or hold something.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The entries of the directory at `path`.
    ///
    /// # Errors
    /// What the store says.
    pub async fn list(&self, path: &ContentPath) -> Result<Arc<Listing>, StoreError> {
        self.listings.list(&*self.contents, path).await
    }

    /// The first `count` entries after the name `after`, of a directory that holds more than [`MediaService::list`] gives.
    ///
    /// # Errors
    /// What the store says.
    pub async fn list_part(&self, path: &ContentPath, after: &str, count: usize) -> Result<Arc<Listing>, StoreError> {
        self.listings.list_part(&*self.contents, path, (after, count)).await.map(Arc::new)
    }

    /// Bytes that listings hold.
    #[must_use]
    pub fn listing_bytes(&self) -> usize {
        self.listings.bytes()
    }

    /// The accounts of the sessions in which a stream runs, by that.
    #[must_use]
    pub fn session_accounts(&self) -> HashMap<StreamId, SessionAccount> {
        self.sessions.accounts()
    }

    /// The streams and recordings under way.
    pub fn running(&self) -> MutexGuard<'_, HashMap<StreamId, RunningStream>> {
        lock(&self.running)
    }

    /// How many are under way, by how they were begun.
    #[must_use]
    pub fn running_counts(&self) -> RunningCounts {
        let mut counts = RunningCounts::default();
        for stream in self.running().values() {
            let count = match (&stream.recording, stream.rate) {
                (Some(_), _) => &mut counts.recordings,
                (None, Some(_)) => &mut counts.constant,
                (None, None) => &mut counts.best_effort,
            };
            *count += 1;
        }
        counts
    }

    /// The folders that are served.
    #[must_use]
    pub fn folders(&self) -> Vec<ServedFolder> {
        let away = lock(&self.away);
        let of_disk = |disk: DiskInfo| disk.roots.into_iter().map(move |path| (path, disk.id));
        let all = self.contents.disks().into_iter().flat_map(of_disk);
        all.map(|(path, disk)| ServedFolder { is_away: away.contains(&path), path, disk }).collect()
    }

    /// The links: the name of each, what it carries, and how much of that is promised.
    #[must_use]
    pub fn links(&self) -> Vec<ServedLink> {
        let links = self.config().link_capacities.clone().into_iter().zip(&self.gauges.links);
        links
            .map(|((name, capacity), gauges)| {
                let promised = BitRate(capacity.0.saturating_sub(gauges.left_bps.get()));
                ServedLink { name, capacity, promised }
            })
            .collect()
    }

    /// The link by which `local` is reached.
    pub(crate) fn link(&self, local: IpAddr) -> LinkId {
        self.config().link(local)
    }

    /// Gives back what was held for too long, and tells which disks fail and what the event log left out. Called once a
    /// second.
    pub fn expire(&self) {
        self.sessions.expire();
        self.plane.send_releases();
        self.listings.expire();
        let held = self.small_reads.take_open();
        drop(self.runtime.spawn_blocking(move || drop(held)));
        self.tell_disk_failures();
        self.events.tell_left_out(SystemTime::now());
    }

    /// True from the beginning of a drain.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Becomes true when a drain begins.
    #[must_use]
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Begins to drain: nothing new is admitted, what runs goes on.
    pub fn drain(&self) {
        // The event comes first, so that clients that follow the events learn why their answer ends.
        self.events.tell(events::server_stopping(SystemTime::now()));
        // In this order, a client that has learned that the server is not ready is refused on its next connection, and
        // not cut off.
        let _ = self.plane.send(Command::Drain);
        self.draining.send_replace(true);
    }

    /// Asks for the end of one stream to a client; its `stream_ended` follows. The event log tells `by` and the permit's user.
    ///
    /// # Errors
    /// There is none of this number, it is a recording, or too much is under way.
    pub fn stop_stream(&self, stream: StreamId, by: IpAddr, permit: &WritePermit) -> Result<(), StopError> {
        // Its end is not looked at before the plane was asked for it.
        let mut running = self.running();
        let known = running.get_mut(&stream).ok_or(StopError::Unknown)?;
        if known.recording.is_some() {
            return Err(StopError::Recording);
        }
        if !self.plane.stop(stream) {
            return Err(StopError::Busy);
        }
        known.stopped = true;
        let path = known.path.clone();
        drop(running);
        self.events.tell(events::stream_stopped(stream, &path, (by, permit.user()), SystemTime::now()));
        Ok(())
    }

    /// Begins what a volume of this name is asked for; waits for disks where one is replaced.
    ///
    /// # Errors
    /// What the store says.
    pub fn begin_upkeep(&self, _permit: &WritePermit, volume: &str, wish: &VolumeWish) -> Result<(), UpkeepError> {
        self.contents.begin_upkeep(volume, wish)
    }

    /// Asks for the end of all streams and uploads under way.
    pub fn stop_all(&self) {
        self.stopping.send_replace(true);
        self.plane.stop_all();
    }

    /// Becomes true when what runs is to end.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }
}
