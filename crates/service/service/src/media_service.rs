//! The service: its parts, its settings, its clock, its drain and its end.
//!
//! Promise: neither new settings nor a drain break off streams and uploads; [`MediaService::stop`] does, after the drain. Not here: a
//! stream's life (`delivery`), figures (`figures`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use api::{CertificateStatus, DiskFailure, FolderStatus, Forecast, JobStatus, Removals, WebhookStatus};
use bytes::Bytes;
use dataplane::control::{Command, NewProfile, Report};
use dataplane::gauges::Gauges;
use schedule::profile::DiskProfile;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{interval, timeout};
use units::{DiskId, LinkId, Nanos, StreamId};

use crate::access::{
    self, Denied, OwnPermit, PathRight, Permit, Principal, RightKind, ServerRight, ToAdminister, ToObserve, ToRead,
    ToWrite,
};
use crate::account_changes::{AccountChange, AccountStore, ChangeError};
use crate::accounts::Accounts;
use crate::budget_meter::BudgetMeters;
use crate::budgets::ChargedBudgets;
use crate::clock_lead::ClockLead;
use crate::config::{LastReload, ServiceConfig};
use crate::connections::{Arrival, ConnectionPlace, ConnectionRefusal, ConnectionStats, Connections};
use crate::contents::{
    ContentPath, Contents, DiskInfo, Entry, StoreAdmin, StoreError, StoreEvent, StoreWalk, UpkeepError, VolumeWish,
    failure,
};
use crate::counts::{AllCounts, Readings};
use crate::delivery::Client;
use crate::events::{self, Events};
use crate::history::History;
use crate::latest::RecentEvents;
use crate::link_uses::LinkUses;
use crate::listing::{Listing, Listings};
use crate::lock::lock;
use crate::log::{Log, LogWriter};
use crate::logins::{self, CredentialError, LoginError, Logins};
use crate::machine::{MachineReader, MachineSample};
use crate::name_index::NameIndex;
use crate::open_ahead::OpensAhead;
use crate::operations::{JobError, Operations, RemovalRule, Requester, SettingsChange, SettingsError, SettingsInForce};
use crate::piece_cache::PieceCache;
use crate::plane_client::{PlaneClient, PlaneQueue};
use crate::quota::Quotas;
use crate::recording_names::RecordingNames;
use crate::requests::FinishedRequests;
use crate::reservation_ahead::NearReservations;
use crate::running::{RunningStreams, StopError};
use crate::session::Viewer;
use crate::session_account::SessionAccount;
use crate::session_table::SessionTable;
use crate::shares::{ClientIdentity, Shares};
use crate::stats::ServiceStats;

/// Period of the clock: held reservations expire, and rates are read.
const CLOCK_PERIOD: Duration = Duration::from_secs(1);
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
    pub events: Events,
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
    /// Digest of the code by which the first account is made, while there is none.
    first_code: OnceLock<[u8; 32]>,
    pub(crate) meters: BudgetMeters,
    pub(crate) clock_lead: ClockLead,
    link_uses: LinkUses,
    logins: Logins,
    disk_doubts: Mutex<BTreeMap<DiskId, String>>,
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
    /// When disks, volumes and quotas are full, as of the last look.
    forecasts: Mutex<Vec<Forecast>>,
    /// Folders that are away.
    away: Mutex<BTreeSet<PathBuf>>,
    /// Disks that were reported as failing, and how.
    disk_failures: Mutex<BTreeMap<DiskId, DiskFailure>>,
    last_reload: Mutex<LastReload>,
    draining: watch::Sender<bool>,
    /// True once running streams and uploads are to end.
    stopping: watch::Sender<bool>,
    /// Jobs and webhooks, once there are any; they have the service, and not the other way round.
    operations: OnceLock<Weak<dyn Operations>>,
    config: RwLock<Arc<ServiceConfig>>,
    started: Instant,
    hasher: RandomState,
}

impl MediaService {
    /// Starts on the current tokio runtime. The clock ends with the last reference.
    #[must_use]
    pub fn start(parts: ServiceParts) -> Arc<Self> {
        let machine = parts.machine;
        let service = Self::of_parts(parts);
        tokio::spawn(keep_time(Arc::downgrade(&service), machine));
        service
    }

    fn of_parts(parts: ServiceParts) -> Arc<Self> {
        let plane = Arc::new(PlaneClient::new(parts.plane));
        let running = Arc::<RunningStreams>::default();
        let quotas = Arc::new(Quotas::default());
        quotas.configure(&parts.config.quotas);
        Arc::new(Self {
            sessions: SessionTable::new(
                parts.config.session_hold,
                Arc::clone(&plane),
                Arc::clone(&parts.gauges),
                Arc::clone(&parts.accounts),
                Arc::clone(&running),
            ),
            config: RwLock::new(Arc::new(parts.config)),
            contents: parts.contents,
            admin: parts.admin,
            small_reads: Arc::new(PieceCache::new(Arc::clone(&parts.gauges))),
            gauges: parts.gauges,
            events: Events::new(parts.events),
            stats: ServiceStats::default(),
            accounts: parts.accounts,
            account_store: parts.account_store,
            first_code: OnceLock::new(),
            meters: BudgetMeters::default(),
            clock_lead: ClockLead::start(),
            link_uses: LinkUses::default(),
            logins: Logins::default(),
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
            disk_doubts: Mutex::new(parts.disk_doubts),
            missing: parts.missing,
            readings: Readings::default(),
            history: History::default(),
            forecasts: Mutex::default(),
            away: Mutex::default(),
            disk_failures: Mutex::default(),
            last_reload: Mutex::new(LastReload { in_force_since: SystemTime::now(), refused: None }),
            draining: watch::Sender::new(false),
            stopping: watch::Sender::new(false),
            operations: OnceLock::new(),
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
            Report::Profiled { profile, is_in_force: true } => {
                let disks = self.admin.disks();
                if let Some(disk) = disks.iter().find(|disk| disk.id == profile.disk) {
                    self.events.tell(events::disk_measured(disk, SystemTime::now()));
                }
            }
            report => self.plane.on_report(report),
        }
    }

    /// The disk's figures were measured: they are those of `profile`, but for this doubt.
    ///
    /// # Errors
    /// The data plane's queue is full: try again later.
    pub fn measured(&self, disk: DiskId, profile: &DiskProfile, doubt: Option<String>) -> Result<(), Command> {
        self.plane.set_profile(NewProfile::new(disk, profile))?;
        let mut doubts = lock(&self.disk_doubts);
        match doubt {
            Some(doubt) => drop(doubts.insert(disk, doubt)),
            None => drop(doubts.remove(&disk)),
        }
        Ok(())
    }

    /// Notes a reason for which a disk's figures are not measured.
    pub fn doubt(&self, disk: DiskId, why: String) {
        lock(&self.disk_doubts).insert(disk, why);
    }

    /// The reason for which a disk's figures are not measured.
    pub(crate) fn disk_doubt(&self, disk: DiskId) -> Option<String> {
        lock(&self.disk_doubts).get(&disk).cloned()
    }

    /// Tells which disks fail, or are used again, since it was asked last: as [`failure`] shows them, whether reads of the
    /// data plane or the store's thread found it.
    fn tell_disk_failures(&self) {
        let mut told = lock(&self.disk_failures);
        for disk in self.admin.disks() {
            let Some(gauges) = self.gauges.disks.get(usize::from(disk.id.0)) else { continue };
            let failure = failure(disk.failing, gauges);
            let before = match failure {
                Some(failure) => told.insert(disk.id, failure),
                None => told.remove(&disk.id),
            };
            if failure != before {
                self.events.tell(events::disk_failure(&disk, failure, SystemTime::now()));
            }
        }
    }

    /// Notes an event of the store. Never waits; call it from any thread.
    pub fn on_store_event(&self, event: &StoreEvent) {
        match event {
            StoreEvent::RootAway { root, .. } => {
                lock(&self.away).insert(root.clone());
            }
            StoreEvent::RootBack { root } => {
                lock(&self.away).remove(root);
            }
            // A part of an upload, which its client continues.
            StoreEvent::RecordingKept { path, .. } if path.is_reserved() => return,
            _ => {}
        }
        self.events.tell(events::of_store(event, SystemTime::now()));
    }

    /// The settings in force. A request that was begun under older ones may continue with them.
    #[must_use]
    pub fn config(&self) -> Arc<ServiceConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
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
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        let now = SystemTime::now();
        *lock(&self.last_reload) = LastReload { in_force_since: now, refused: None };
        self.events.tell(events::reloaded(changed, restart, now));
    }

    /// Notes that settings were read anew and are wrong: an alarm until others are in force. Those in force stay.
    pub fn reload_refused(&self, reason: &str) {
        lock(&self.last_reload).refused = Some(reason.to_owned());
        self.events.tell(events::reload_refused(reason, SystemTime::now()));
    }

    /// The last time that settings were read.
    pub(crate) fn last_reload(&self) -> LastReload {
        lock(&self.last_reload).clone()
    }

    /// Logs that front ends listen at `addresses`.
    pub fn listening(&self, addresses: &[SocketAddr]) {
        self.events.tell(events::server_started(addresses, SystemTime::now()));
    }

    /// Shows and steers these jobs and webhooks from now on, for as long as they live. Has no effect the second time.
    pub fn operate(&self, operations: &Arc<dyn Operations>) {
        let _ = self.operations.set(Arc::downgrade(operations));
    }

    fn operations(&self) -> Option<Arc<dyn Operations>> {
        self.operations.get()?.upgrade()
    }

    /// All jobs.
    #[must_use]
    pub fn jobs(&self, _permit: &Permit<ToObserve>) -> Vec<JobStatus> {
        self.operations().map_or_else(Vec::new, |operations| operations.jobs())
    }

    /// When each disk, volume and quota is full at its present rate, as of a minute ago at most.
    #[must_use]
    pub fn forecasts(&self, _permit: &Permit<ToObserve>) -> Vec<Forecast> {
        lock(&self.forecasts).clone()
    }

    /// Shows these forecasts from now on.
    pub fn show_forecasts(&self, forecasts: Vec<Forecast>) {
        *lock(&self.forecasts) = forecasts;
    }

    /// All webhooks.
    #[must_use]
    pub fn webhooks(&self, _permit: &Permit<ToObserve>) -> Vec<WebhookStatus> {
        self.operations().map_or_else(Vec::new, |operations| operations.webhooks())
    }

    /// The thumbnail of the permit's content, a JPEG; none where it has none, or too many wait.
    pub async fn thumbnail(&self, permit: Permit<ToRead>, client: Client) -> Option<Bytes> {
        self.operations()?.thumbnail(permit, client).await.ok().flatten()
    }

    /// Sends a webhook an event that says that it is a test. False: there is none of this name.
    pub fn test_webhook(&self, name: &str, _permit: &Permit<ToAdminister>) -> bool {
        self.operations().is_some_and(|operations| operations.test_webhook(name))
    }

    /// The certificates that serve TLS.
    #[must_use]
    pub fn certificates(&self, _permit: &Permit<ToObserve>) -> Vec<CertificateStatus> {
        self.operations().map_or_else(Vec::new, |operations| operations.certificates())
    }

    /// The settings in force, after a change of them if there is one.
    ///
    /// # Errors
    /// They are not changed, or cannot be looked up now.
    pub async fn settings(
        &self,
        change: Option<SettingsChange>,
        _permit: &Permit<ToAdminister>,
    ) -> Result<SettingsInForce, SettingsError> {
        let pending = self.operations().ok_or(SettingsError::Busy)?.settings(change)?;
        pending.await.unwrap_or(Err(SettingsError::Busy))
    }

    /// Begins a job now. The event log gets the client and the permit's user.
    ///
    /// # Errors
    /// There is none of this name, or it runs.
    pub fn run_job(&self, name: &str, address: IpAddr, permit: &Permit<ToAdminister>) -> Result<(), JobError> {
        let operations = self.operations().ok_or(JobError::Unknown)?;
        operations.run_job(name, Requester { address, user: permit.user() })
    }

    /// Ends a job's run. The event log gets the client and the permit's user.
    ///
    /// # Errors
    /// There is none of this name, or it does not run.
    pub fn stop_job(&self, name: &str, address: IpAddr, permit: &Permit<ToAdminister>) -> Result<(), JobError> {
        let operations = self.operations().ok_or(JobError::Unknown)?;
        operations.stop_job(name, Requester { address, user: permit.user() })
    }

    /// The contents that a `keep` job or a ring would remove now; none of them is removed.
    ///
    /// # Errors
    /// There is no such job or ring, or another look is under way; in words, the folder cannot be looked through.
    pub async fn removals(
        &self,
        rule: RemovalRule,
        _permit: &Permit<ToObserve>,
    ) -> Result<Result<Removals, String>, JobError> {
        let operations = self.operations().ok_or(JobError::Unknown)?;
        operations.removals(rule)?.await.map_err(|_| JobError::Stopping)
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

    /// Time since the start.
    pub(crate) fn uptime(&self) -> Nanos {
        Nanos::from(self.started.elapsed())
    }

    /// A keyed hash that no client can foresee.
    pub fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    /// Sessions that run or hold something.
    pub(crate) fn session_count(&self) -> usize {
        self.sessions.len()
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

    /// The principal, if `name` and `password` are those of an account. `from` is where they were sent from.
    ///
    /// # Errors
    /// They are not, or that cannot be found out now.
    pub async fn login(&self, name: &str, password: &str, from: IpAddr) -> Result<Principal, LoginError> {
        // Without accounts there is no name to hide.
        if self.accounts.facts().accounts.is_empty() {
            return Err(LoginError::Wrong);
        }
        let login = self.logins.login(&self.accounts, name, password, from).await;
        // One that is remembered was logged when it was verified.
        if login.as_ref().map_or_else(|error| *error == LoginError::Wrong, |login| !login.is_remembered) {
            self.events.tell(events::login(name, (from, login.is_ok()), SystemTime::now()));
        }
        login.map(|login| login.principal)
    }

    /// The principal of the token with this text.
    ///
    /// # Errors
    /// It is not valid.
    pub fn login_by_token(&self, text: &str) -> Result<Principal, CredentialError> {
        let (token, principal) = logins::of_token(&self.accounts, text)?;
        self.account_store.token_used(token.id);
        Ok(principal)
    }

    /// Lets the first account be made by this code, as long as there is none. Has no effect the second time.
    pub fn offer_first_account(&self, code: &str) {
        let _ = self.first_code.set(logins::token_digest(code));
    }

    /// True if it is that code. Digests are compared, so that the time shows nothing.
    pub(crate) fn is_first_code(&self, code: &str) -> bool {
        self.first_code.get().is_some_and(|digest| *digest == logins::token_digest(code))
    }

    /// The principal of the browser's login with this text, and the number of that.
    ///
    /// # Errors
    /// It is not valid.
    pub fn login_by_browser(&self, text: &str) -> Result<(i64, Principal), CredentialError> {
        let (login, principal) = logins::of_browser(&self.accounts, text)?;
        self.account_store.token_used(login.id);
        Ok((login.id, principal))
    }

    /// The principal of the signed link with this text, for a client at `from`.
    ///
    /// # Errors
    /// It is not valid, or not there.
    pub fn login_by_link(&self, text: &str, from: IpAddr) -> Result<Principal, CredentialError> {
        logins::of_link(&self.accounts, text, from)
    }

    /// Counts a use of the permit's link, if its uses are limited and this read of `viewer` begins one: a read of a whole content that was
    /// shared itself does, any other one unless its viewer has begun one before.
    ///
    /// # Errors
    /// The link is used up, or that cannot be found out now.
    pub async fn use_link(&self, permit: &Permit<ToRead>, viewer: &Viewer, is_whole: bool) -> Result<(), ChangeError> {
        let Some(link) = permit.link().filter(|link| link.uses.is_some()) else { return Ok(()) };
        let (viewer, now) = (self.hash(viewer), Instant::now());
        let begins = is_whole && link.given.folder == *permit.path();
        if !begins && self.link_uses.lasts(link.id, viewer, now) {
            return Ok(());
        }
        self.account_store.change(AccountChange::UseLink { id: link.id, uses: 1, stored: 0 }).await?;
        self.link_uses.begin(link.id, viewer, now);
        Ok(())
    }

    /// Takes uploads, and their bytes, of those that the permit's link permits, if these are limited; negative: gives them back.
    ///
    /// # Errors
    /// As many are not left, or that cannot be found out now.
    pub async fn store_by_link(&self, permit: &Permit<ToWrite>, uses: i64, bytes: i64) -> Result<(), ChangeError> {
        let link = permit.link().filter(|link| link.stored.is_some() || link.uses.is_some());
        let Some(link) = link else { return Ok(()) };
        let change = AccountChange::UseLink { id: link.id, uses, stored: bytes };
        self.account_store.change(change).await.map(|_| ())
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
    pub const fn latest_events(&self, _permit: &Permit<ToObserve>) -> &RecentEvents {
        &self.events.latest
    }

    /// Bytes that listings hold.
    pub(crate) fn listing_bytes(&self) -> usize {
        self.listings.bytes()
    }

    /// The accounts of the sessions in which a stream runs, by that.
    pub(crate) fn session_accounts(&self) -> HashMap<StreamId, SessionAccount> {
        self.sessions.accounts()
    }

    /// Served folders and disks of volumes.
    pub(crate) fn folders(&self) -> Vec<FolderStatus> {
        let away = lock(&self.away);
        let of_disk = |disk: DiskInfo| disk.roots.into_iter().map(move |path| (path, disk.id));
        let all = self.admin.disks().into_iter().flat_map(of_disk);
        all.map(|(path, disk)| FolderStatus {
            away: away.contains(&path),
            path: path.display().to_string(),
            disk: disk.0,
        })
        .collect()
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
    fn every_second(&self, machine: Option<MachineSample>) {
        self.stop_unpermitted();
        self.sessions.expire();
        self.recording_names.expire(Some(Instant::now())).into_iter().for_each(|held| self.plane.release(held));
        self.plane.send_releases();
        self.listings.expire();
        self.names.expire();
        let held = self.small_reads.take_open();
        drop(self.runtime.spawn_blocking(move || drop(held)));
        self.tell_disk_failures();
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
        *self.draining.borrow()
    }

    /// Becomes true when a drain begins.
    #[must_use]
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Stops admitting, and lets connections finish their requests up to the configured time. True if all did.
    pub async fn drain(&self) -> bool {
        // The event comes first, so that clients that follow the events learn why their answer ends.
        self.events.tell(events::server_stopping(SystemTime::now()));
        // In this order, a client that has learned that the server is not ready is refused on its next connection, and
        // not cut off.
        let _ = self.plane.send(Command::Drain);
        self.draining.send_replace(true);
        self.recording_names.expire(None).into_iter().for_each(|held| self.plane.release(held));
        timeout(self.config().drain_time_max, self.connections.all_closed()).await.is_ok()
    }

    /// Ends all streams and uploads, and waits until the bytes kept of them are durable under their names.
    pub async fn stop(&self) {
        self.stopping.send_replace(true);
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
            let holder = permit.holder();
            self.events.tell(events::stream_stopped(stream, &path, (None, holder.as_deref()), SystemTime::now()));
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

    /// Becomes true when running streams and uploads are to end.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }
}

/// The service's clock, until the last reference to the service is gone.
async fn keep_time(service: Weak<MediaService>, machine: MachineReader) {
    let mut period = interval(CLOCK_PERIOD);
    loop {
        period.tick().await;
        // Reading the machine may take its time.
        let sample = tokio::task::spawn_blocking(machine).await.ok().flatten();
        let Some(service) = service.upgrade() else { return };
        service.every_second(sample);
    }
}
