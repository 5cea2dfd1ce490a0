//! The service: its parts, the steps of its clock, its drain and its end.
//!
//! Promise: neither new settings nor a drain break off streams and uploads; [`MediaService::stop`] does, after the drain. Not here: its
//! start (`start`), a stream's life (`delivery`), figures (`figures`).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use dataplane::control::{Command, NewProfile, Report};
use dataplane::gauges::Gauges;
use schedule::profile::DiskProfile;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use units::{DiskId, LinkId, StreamId};

use crate::access::{
    self, Denied, OwnPermit, PathRight, Permit, Principal, RightKind, ServerRight, ToAdminister, ToObserve, ToRead,
};
use crate::account_changes::AccountStore;
use crate::accounts::Accounts;
use crate::budget_meter::BudgetMeters;
use crate::budgets::ChargedBudgets;
use crate::clock_lead::ClockLead;
use crate::config::{ConfigInForce, LastReload, ServiceConfig};
use crate::connections::{Arrival, ConnectionPlace, ConnectionRefusal, ConnectionStats, Connections};
use crate::contents::{
    ContentPath, Contents, Entry, StoreAdmin, StoreError, StoreEvent, StoreWalk, UpkeepError, VolumeWish,
};
use crate::counts::{AllCounts, Readings};
use crate::credentials::CredentialProofs;
use crate::delivery::Client;
use crate::disk_states::DiskStates;
use crate::events::{self, Events};
use crate::history::History;
use crate::lifecycle::Lifecycle;
use crate::listing::{Listing, Listings};
use crate::log::{Log, LogWriter};
use crate::machine::{MachineReader, MachineSample};
use crate::name_index::NameIndex;
use crate::open_ahead::OpensAhead;
use crate::operations::StartedOperations;
use crate::piece_cache::PieceCache;
use crate::plane_client::{PlaneClient, PlaneQueue};
use crate::quota::Quotas;
use crate::recent_events::RecentEvents;
use crate::recording_names::RecordingNames;
use crate::requests::FinishedRequests;
use crate::reservation_ahead::NearReservations;
use crate::running::{RunningStreams, StopError};
use crate::session_table::SessionTable;
use crate::shares::{ClientIdentity, Shares};
use crate::stats::ServiceStats;

/// For the last reports after streams received their end.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);
/// For the disks to write the buffered bytes of recordings, as long as a caller waits for a disk (`StoreSettings::patience`). Bytes that
/// are not written by then get their name at the next start.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(10);
/// Between two checks of that.
const SETTLE_PERIOD: Duration = Duration::from_millis(10);

/// Parts that the service is made of.
pub struct ServiceParts {
    /// Settings.
    pub config: ServiceConfig,
    /// The contents of the store.
    pub contents: Arc<dyn Contents>,
    /// Its disks and volumes.
    pub admin: Arc<dyn StoreAdmin>,
    /// Accounts and their rights.
    pub accounts: Arc<Accounts>,
    /// Keeps them.
    pub account_store: Arc<dyn AccountStore>,
    /// The data plane's command queue. Its reports go to [`MediaService::on_report`].
    pub plane: Arc<dyn PlaneQueue>,
    /// The figures that the data plane publishes.
    pub gauges: Arc<Gauges>,
    /// Access log, in the combined format.
    pub access: Log,
    /// Event log, JSON lines.
    pub events: Log,
    /// Reads the machine's figures.
    pub machine: MachineReader,
    /// Disks with figures that are not measured, with the reason.
    pub disk_doubts: BTreeMap<DiskId, String>,
    /// Permissions and resources that the start missed.
    pub missing: Vec<String>,
}

/// The service.
pub struct MediaService {
    /// The store.
    pub(crate) contents: Arc<dyn Contents>,
    /// Its disks and volumes.
    pub(crate) admin: Arc<dyn StoreAdmin>,
    /// The figures that the data plane publishes.
    pub(crate) gauges: Arc<Gauges>,
    /// Event log.
    pub events: Arc<Events>,
    /// Counts of the service.
    pub(crate) stats: ServiceStats,
    /// Limits on the contents of folders.
    pub quotas: Arc<Quotas>,
    /// Connections of all front ends.
    pub connections: Arc<Connections>,
    /// Counts of them.
    pub connection_stats: ConnectionStats,
    /// Finished requests of all front ends.
    pub requests: FinishedRequests,
    /// Streams and recordings under way.
    pub(crate) running: Arc<RunningStreams>,
    /// Names of recordings, and places that are held for them.
    pub(crate) recording_names: Arc<RecordingNames>,
    pub(crate) readings: Readings,
    /// Figures of the last hour and the last thirty days.
    pub history: History,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) account_store: Arc<dyn AccountStore>,
    /// Proofs of principals.
    pub credentials: CredentialProofs,
    pub(crate) meters: BudgetMeters,
    pub(crate) clock_lead: ClockLead,
    pub(crate) disk_states: DiskStates,
    pub(crate) missing: Vec<String>,
    /// The uploads of each client.
    pub(crate) uploads: Arc<Shares<ClientIdentity>>,
    pub(crate) listings: Listings,
    pub(crate) names: NameIndex,
    pub(crate) opens_ahead: OpensAhead,
    pub(crate) plane: Arc<PlaneClient>,
    pub(crate) sessions: SessionTable,
    /// Reservations ahead that are near.
    pub(crate) near: NearReservations,
    pub(crate) small_reads: Arc<PieceCache>,
    pub(crate) runtime: Handle,
    /// Jobs, webhooks, certificates and settings.
    pub operations: StartedOperations,
    pub(crate) life: Lifecycle,
    config: ConfigInForce,
    hasher: RandomState,
}

impl MediaService {
    pub(crate) fn of_parts(parts: ServiceParts) -> Arc<Self> {
        let ServiceParts { config, contents, admin, accounts, account_store, gauges, .. } = parts;
        let plane = Arc::new(PlaneClient::new(parts.plane));
        let running = Arc::<RunningStreams>::default();
        let quotas = Arc::new(Quotas::default());
        quotas.configure(&config.quotas);
        let events = Arc::new(Events::new(parts.events));
        Arc::new(Self {
            sessions: SessionTable::new(
                config.session_hold,
                Arc::clone(&plane),
                Arc::clone(&gauges),
                Arc::clone(&accounts),
                Arc::clone(&running),
            ),
            config: ConfigInForce::new(config),
            credentials: CredentialProofs::new(&accounts, &account_store, &events),
            disk_states: DiskStates::new(&admin, &events, parts.disk_doubts),
            contents,
            admin,
            small_reads: Arc::new(PieceCache::new(Arc::clone(&gauges))),
            gauges,
            events,
            stats: ServiceStats::default(),
            accounts,
            account_store,
            meters: BudgetMeters::default(),
            clock_lead: ClockLead::start(),
            quotas,
            uploads: Arc::default(),
            listings: Listings::default(),
            names: NameIndex::default(),
            opens_ahead: OpensAhead::default(),
            near: NearReservations::default(),
            plane,
            runtime: Handle::current(),
            connections: Arc::default(),
            connection_stats: ConnectionStats::default(),
            requests: FinishedRequests::new(parts.access),
            running,
            recording_names: Arc::default(),
            missing: parts.missing,
            readings: Readings::default(),
            history: History::default(),
            operations: StartedOperations::default(),
            life: Lifecycle::start(),
            hasher: RandomState::new(),
        })
    }

    /// Takes a report of the data plane. Never waits; call it from any thread.
    pub fn on_report(&self, report: Report) {
        match report {
            Report::Event(event) => match events::line(&event, SystemTime::now()) {
                Some(line) => self.events.tell(line),
                None => self.disk_states.tell_failures(),
            },
            // Closing the last reference to a deleted content frees its blocks, which can take long. Most are not the last.
            Report::Unused(content) => {
                if let Some(content) = Arc::into_inner(content) {
                    self.runtime.spawn_blocking(move || drop(content));
                }
            }
            Report::Profiled { profile, is_in_force: true } => self.disk_states.tell_measured(profile.disk),
            report => self.plane.on_report(report),
        }
    }

    /// The disk's figures were measured: they are those of `profile`, but for this doubt.
    ///
    /// # Errors
    /// The data plane's queue is full: try again later.
    pub fn measured(&self, disk: DiskId, profile: &DiskProfile, doubt: Option<String>) -> Result<(), Command> {
        self.plane.set_profile(NewProfile::new(disk, profile))?;
        self.disk_states.doubt(disk, doubt);
        Ok(())
    }

    /// Notes a reason for which a disk's figures are not measured.
    pub fn doubt(&self, disk: DiskId, why: String) {
        self.disk_states.doubt(disk, Some(why));
    }

    /// Notes an event of the store. Never waits; call it from any thread.
    pub fn on_store_event(&self, event: &StoreEvent) {
        self.disk_states.on_store_event(event);
    }

    /// The settings in force. A request that was begun under older ones may continue with them.
    #[must_use]
    pub fn config(&self) -> Arc<ServiceConfig> {
        self.config.get()
    }

    /// Puts other settings in force for all requests that begin from now on, and changes to another access log (none: it is not written)
    /// and event log. Running streams and uploads keep theirs. The event log gets the names of the settings that changed, and of those
    /// that need a restart.
    pub fn reload(
        &self,
        config: ServiceConfig,
        (access, events): (Option<LogWriter>, LogWriter),
        (changed, restart): (&[String], &[String]),
    ) {
        self.requests.reopen(access);
        self.events.reopen(events);
        self.sessions.hold_for(config.session_hold);
        if self.config().quotas != config.quotas {
            self.quotas.configure(&config.quotas);
        }
        self.config.put(config);
        self.events.tell(events::reloaded(changed, restart, SystemTime::now()));
    }

    /// Notes that settings were read anew and are wrong: an alarm until others are in force. Those in force stay.
    pub fn reload_refused(&self, reason: &str) {
        self.config.refuse(reason);
        self.events.tell(events::reload_refused(reason, SystemTime::now()));
    }

    /// The last time that settings were read.
    pub(crate) fn last_reload(&self) -> LastReload {
        self.config.last_reload()
    }

    /// Logs that front ends listen at `addresses`.
    pub fn listening(&self, addresses: &[SocketAddr]) {
        self.events.tell(events::server_started(addresses, SystemTime::now()));
    }

    /// A place for one more connection of a client, or of a trusted proxy for many; while the server drains, its one request is answered.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn connect(&self, client: Option<IpAddr>) -> Result<ConnectionPlace, ConnectionRefusal> {
        let arrival = if self.is_draining() { Arrival::Draining } else { Arrival::Serving };
        self.connections.take(arrival, client, self.config().connections)
    }

    /// Gives the connection of a proxy, which has a place, its client's share of them.
    ///
    /// # Errors
    /// The client has as many as one may have.
    pub fn connect_for(&self, place: &mut ConnectionPlace, client: IpAddr) -> Result<(), ConnectionRefusal> {
        self.connections.share(place, client, self.config().connections)
    }

    /// A keyed hash that no client can foresee.
    pub fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    /// Whether `principal` has the right `R` over `path`.
    ///
    /// # Errors
    /// Why not.
    pub fn permit<R: PathRight>(&self, principal: &Principal, path: &ContentPath) -> Result<Permit<R>, Denied> {
        access::permit(&self.accounts, principal, path)
    }

    /// Whether `principal` has the right `R` over the whole server.
    ///
    /// # Errors
    /// Why not.
    pub fn permit_server<R: ServerRight>(&self, principal: &Principal) -> Result<Permit<R>, Denied> {
        access::permit(&self.accounts, principal, &ContentPath::root())
    }

    /// Whether `principal` may see and change credentials.
    ///
    /// # Errors
    /// Why not.
    pub fn permit_own(&self, principal: &Principal) -> Result<OwnPermit, Denied> {
        access::permit_own(&self.accounts, principal)
    }

    /// The budgets to which requests of `client` with this permit are charged.
    pub fn charged<R: RightKind>(&self, permit: &Permit<R>, client: Client) -> ChargedBudgets {
        permit.charged(&self.accounts, client)
    }

    /// The entry of the permit's path. Below a content there is none.
    ///
    /// # Errors
    /// As the store reports.
    pub async fn lookup<R: RightKind>(&self, permit: &Permit<R>) -> Result<Entry, StoreError> {
        match self.contents.lookup(permit.path()).await {
            Err(StoreError::NotADirectory) => Err(StoreError::NotFound),
            found => found,
        }
    }

    /// A walk through the permit's folder and everything below it.
    ///
    /// # Errors
    /// As the store reports.
    pub async fn walk(&self, permit: &Permit<ToRead>) -> Result<StoreWalk, StoreError> {
        self.contents.walk(permit.path()).await
    }

    /// The entries of the permit's directory.
    ///
    /// # Errors
    /// As the store reports.
    pub async fn list(&self, permit: &Permit<ToRead>) -> Result<Arc<Listing>, StoreError> {
        self.listings.list(&*self.contents, permit.path(), None).await
    }

    /// The first `count` entries after the name `after`, of a directory with any number of them.
    ///
    /// # Errors
    /// As the store reports.
    pub async fn list_part(
        &self,
        permit: &Permit<ToRead>,
        after: &str,
        count: usize,
    ) -> Result<Arc<Listing>, StoreError> {
        self.listings.list_part(&*self.contents, permit.path(), (after, count)).await
    }

    /// The latest events.
    #[must_use]
    pub fn latest_events(&self, _permit: &Permit<ToObserve>) -> &RecentEvents {
        &self.events.latest
    }

    /// The link by which streams from `local` leave.
    pub(crate) fn link_out(&self, local: IpAddr) -> LinkId {
        self.config().links_of(local).out
    }

    /// The link by which recordings to `local` arrive.
    pub(crate) fn link_in(&self, local: IpAddr) -> LinkId {
        self.config().links_of(local).into
    }

    /// One step of the clock: stops streams that lost their right, expires reservations, snapshots and contents held for too long, and logs
    /// disks that fail and lines that were left out.
    pub(crate) fn every_second(&self, machine: Option<MachineSample>) {
        self.stop_unpermitted();
        self.sessions.expire();
        self.plane.release_all(self.recording_names.expire(Some(Instant::now())));
        self.plane.send_releases();
        self.listings.expire();
        self.names.expire();
        let held = self.small_reads.take_open();
        drop(self.runtime.spawn_blocking(move || drop(held)));
        self.disk_states.tell_failures();
        self.tell_left_out(SystemTime::now());
        let uploaded_bytes = self.stats.bytes_uploaded.load(Ordering::Relaxed);
        self.readings.add(AllCounts::read(&self.gauges, uploaded_bytes, machine));
    }

    /// Logs how many lines both logs left out.
    fn tell_left_out(&self, now: SystemTime) {
        self.events.tell_left_out(now);
        for (status, count) in self.requests.left_out() {
            self.events.tell(events::lines_left_out(&format!("access log: {status}"), count, now));
        }
    }

    /// True while a stream, a recording or an upload is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.running.is_empty() || self.stats.uploads_open.load(Ordering::Relaxed) > 0
    }

    /// True from the beginning of a drain.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.life.is_draining()
    }

    /// Becomes true when a drain begins.
    #[must_use]
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.life.draining()
    }

    /// Stops admitting, and lets connections finish their requests up to the configured time. True if all did.
    pub async fn drain(&self) -> bool {
        // The event comes first, so that clients that follow the events learn why their answer ends.
        self.events.tell(events::server_stopping(SystemTime::now()));
        // In this order, a client that has learned that the server is not ready is refused on its next connection, and
        // not cut off.
        let _ = self.plane.send(Command::Drain);
        self.life.drain();
        self.plane.release_all(self.recording_names.expire(None));
        timeout(self.config().drain_time_max, self.connections.all_closed()).await.is_ok()
    }

    /// Ends all streams and uploads, and waits until the bytes kept of them are durable under their names.
    pub async fn stop(&self) {
        self.life.stop();
        self.plane.stop_all();
        let _ = timeout(STOP_TIME_MAX, self.connections.all_closed()).await;
        let settled = async {
            while !self.admin.is_settled() {
                tokio::time::sleep(SETTLE_PERIOD).await;
            }
        };
        let _ = timeout(SETTLE_TIME_MAX, settled).await;
    }

    /// Asks for the end of one stream to a client; its `stream_ended` follows. The event log tells `by` and the permit's user.
    ///
    /// # Errors
    /// There is none of this number, it is a recording, or too much is under way.
    pub fn stop_stream(&self, stream: StreamId, by: IpAddr, permit: &Permit<ToAdminister>) -> Result<(), StopError> {
        let path = self.running.stop(stream, &self.plane)?;
        self.events.tell(events::stream_stopped(stream, &path, (Some(by), permit.user()), SystemTime::now()));
        Ok(())
    }

    /// Asks for the end of streams with a right that was taken back.
    fn stop_unpermitted(&self) {
        for (stream, path, permit) in self.running.stop_unpermitted(&self.accounts.rights(), &self.plane) {
            self.events.tell(events::stream_stopped(stream, &path, (None, permit.holder()), SystemTime::now()));
        }
    }

    /// True unless the permit's right was taken back meanwhile.
    #[must_use]
    pub fn is_in_force<R: RightKind>(&self, permit: &Permit<R>) -> bool {
        permit.is_in_force(&self.accounts.rights())
    }

    /// Begins the requested upkeep of the volume of this name; waits for disks where one is replaced.
    ///
    /// # Errors
    /// The store's error.
    pub fn begin_upkeep(
        &self,
        _permit: &Permit<ToAdminister>,
        volume: &str,
        wish: &VolumeWish,
    ) -> Result<(), UpkeepError> {
        self.admin.begin_upkeep(volume, wish)
    }
}
