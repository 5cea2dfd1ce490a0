//! `isocast serve`: takes the port, measures the disks, starts their threads, the data plane and the control plane, and
//! ends them.
//!
//! Promise: `/health` answers as soon as the port is taken, `/ready` once streams are admitted; SIGTERM and SIGINT end a start and let
//! running work finish, SIGHUP reloads; a missing permission is reported once, with its remedy. Not here: any of the parts (they are
//! crates).

mod advice;
mod disks;
mod greeting;
mod history_file;
mod identity;
mod layout;
mod links;
mod listening;
mod logs;
mod operations;
mod resources;
mod restart;
mod settings;
mod state;
mod wiring;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use accounts::{CommandNotice, Database, Keeper, KeptLines, random_text};
use anyhow::Context as _;
use automation::{Jobs, ReadWebhooks, Thumbnails, Webhooks};
use channel::{PlaneHandle, ReportReceiver};
use dataplane::Plane;
use dataplane::control::Command;
use dataplane::gauges::Gauges;
use folder::RootSetting;
use ftp::{FtpParts, FtpServer};
use http::config::HttpConfig;
use http::{ListenAddress, Server, Starting};
use kernel::thread::PlaneThread;
use program::output::{Console, say};
use sd_notify::NotifyState;
use service::MediaService;
use service::access::Permit;
use service::accounts::Accounts;
use service::administration::link_fault;
use service::contents::StoreAdmin;
use service::events::access_changed;
use service::log::Log;
use service::operations::Operations;
use snmp::Snmp;
use store::{Governed, StoreSettings};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use units::limits::{self, EXAMPLE_RATE};
use units::{ByteCount, counted};

use crate::config::{Change, Config, ServeArgs};
use disks::KnownDisk;
use greeting::Greeting;
use layout::{ServedStore, StoreLayout};
use links::Links;
use listening::{Listening, certificate_source};
use logs::log_writers;
use operations::ServerOperations;
use restart::Unknown;
use settings::SettingsDesk;
use state::StateFolder;
use wiring::{budgets, ftp_settings, open_rights, plane_config, served};

/// A data plane of its own CPU: with fewer CPUs than this it shares, but goes first.
const CPUS_FOR_OWN: usize = 3;
/// Threads per disk of the data plane, for reads that its own thread must not make.
const READERS: usize = 2;
/// Longest wait of the end for the event log to write the last events: its disk may hang.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs until a signal ends it.
///
/// # Errors
/// The part that cannot be started, with the remedy.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    if args.measure_only {
        return measure(args);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let run = |runtime: tokio::runtime::Runtime| {
        let outcome = runtime.block_on(start_and_serve(args));
        // A disk that hangs holds its thread in the kernel: the end does not wait for it.
        runtime.shutdown_timeout(Duration::from_secs(1));
        outcome
    };
    match runtime.map_err(anyhow::Error::from).and_then(run).map_err(advice::with_advice)? {
        ServerEnded::BySignal => Ok(()),
        ServerEnded::ToStartAgain => match restart::start_again()? {},
    }
}

/// The reason for a server's end.
enum ServerEnded {
    /// A signal ended it.
    BySignal,
    /// Another start would serve a disk that was mounted since ([`restart`]).
    ToStartAgain,
}

/// Measures the disks that are not known yet, and serves nothing.
fn measure(args: &ServeArgs) -> anyhow::Result<()> {
    let config = Config::load_to_serve(args)?;
    let layout = discover(&config)?;
    let _state = StateFolder::take(&config.state)?;
    disks::known(&layout, &config.state, Console { verbose: true }, &drop)?;
    Ok(())
}

/// The disks under the folders to be served.
fn discover(config: &Config) -> anyhow::Result<StoreLayout> {
    let root = |path: &PathBuf| RootSetting { path: path.clone(), require_mount: config.require_mount.contains(path) };
    StoreLayout::discover(&config.roots.iter().map(root).collect::<Vec<_>>(), &config.volumes, Some(&config.state))
}

/// The signals that are not left to their default action, from before the port is taken.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The program is to end.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn start_and_serve(args: &ServeArgs) -> anyhow::Result<ServerEnded> {
    let mut signals = Signals::catch()?;
    let console = Console { verbose: args.verbose };
    let config = Config::load_to_serve(args)?;
    let listening = Listening::begin(&config)?;
    let (step, steps) = watch::channel("opening the folders".to_owned());
    let starting = Starting::answer(&listening.listeners, &steps)?;
    let preparing = {
        let config = config.clone();
        tokio::task::spawn_blocking(move || prepare(&config, console, &step))
    };
    // A hang-up meanwhile waits: the configuration is read again as soon as there is a server to take it.
    let prepared = tokio::select! {
        prepared = preparing => prepared??,
        () = signals.end() => return Ok(ServerEnded::BySignal),
    };
    starting.end().await;
    serve(args, config, listening, signals, prepared).await
}

/// Everything that is started before anything is served. Dropping it frees the state folder.
struct PreparedServer {
    disks: Vec<KnownDisk>,
    links: Links,
    gauges: Arc<Gauges>,
    memory: ByteCount,
    thread: PlaneThread,
    plane: PlaneHandle,
    reports: ReportReceiver,
    store: ServedStore,
    accounts: Arc<Accounts>,
    keeper: Arc<Keeper>,
    _state: StateFolder,
}

/// Opens the folders, measures the disks, starts the data plane and the store. Reports its progress to `step`.
fn prepare(config: &Config, console: Console, step: &watch::Sender<String>) -> anyhow::Result<PreparedServer> {
    let layout = discover(config)?;
    let state = StateFolder::take(&config.state)?;
    let accounts = Arc::<Accounts>::default();
    accounts.open(open_rights(config));
    accounts.limit(budgets(config));
    if Database::is_emptied(&config.state) {
        say(format_args!(
            "the accounts in {} are an empty file: users, tokens and links begin anew; if there were some, stop the server and put a \
             backup in its place (`isocast state backup` makes them)",
            config.state.join(accounts::FILE).display(),
        ));
    }
    let keeper = Keeper::start(&config.state, &config.users, &accounts)?;
    // Faults that keep the data plane from starting at all are reported now, not when disks were measured for seconds.
    kernel::thread::check(kernel::thread::ThreadConfig {
        chunk_count: 1,
        engine: config.plane.engine,
        cpu: None,
        priority: None,
        readers: READERS,
    })?;
    let disks = disks::known(&layout, &config.state, console, &|text| drop(step.send_replace(text)))?;
    for notice in layout.notices() {
        say(format_args!("volume `{}`, {}: {}", notice.volume, notice.path.display(), notice.message));
    }
    let profiles = disks::profiles(&layout, &disks)?;
    let links = Links::discover(&config.links);

    let disk_count = u16::try_from(profiles.len()).context("too many disks")?;
    let queues = channel::connect(disk_count).context("cannot make the queues to the data plane")?;
    let gauges = Arc::new(Gauges::new(limits::STREAMS_MAX, profiles.len()));
    let cpus = kernel::thread::cpus().unwrap_or_default();
    let plane_cpu = config.plane.cpu.and_then(|cpu| usize::try_from(cpu).ok()).or(cpus.last().copied());
    let allowed = resources::memory();
    let memory = config.plane.memory.of(allowed);
    disks.iter().for_each(|disk| show_carried(disk, config, (memory, allowed), &gauges));
    step.send_replace(format!("taking {memory} of memory"));
    let thread = start_plane(config, memory, plane_cpu, queues.plane, &profiles, &links, Arc::clone(&gauges))?;
    say_permissions(&thread, console);

    let other_cpus: Vec<usize> = match cpus.len() {
        0..CPUS_FOR_OWN => cpus,
        _ => cpus.into_iter().filter(|cpu| Some(*cpu) != plane_cpu).collect(),
    };
    let mut ports = queues.stores.into_iter();
    let settings = StoreSettings {
        hidden_files: config.hidden_files,
        refill_disks: config.refill_disks,
        state: Some(config.state.clone()),
        cpus: other_cpus,
        ..wiring::upload_memory(allowed)
    };
    let store = layout.start(&settings, |_| Box::new(Governed::new(ports.next().expect("one port per disk"))))?;
    let known = Arc::clone(&gauges);
    store.store.heed(Box::new(move |id| known.disks.get(usize::from(id.0))?.fault()));
    Ok(PreparedServer {
        disks,
        links,
        gauges,
        memory,
        thread,
        plane: queues.handle,
        reports: queues.reports,
        store,
        accounts,
        keeper,
        _state: state,
    })
}

async fn serve(
    args: &ServeArgs,
    mut config: Config,
    listening: Listening,
    mut signals: Signals,
    prepared: PreparedServer,
) -> anyhow::Result<ServerEnded> {
    let PreparedServer { disks, links, gauges, memory, thread, plane, reports, store, accounts, keeper, _state } =
        prepared;
    let (access, events) = log_writers(&config)?;
    let events = Log::start("event-log", Some(events))?;
    let (settings, http) = served(&config, &links, resources::memory());
    let challenges = listening.certificates.as_ref().map(|certificates| Arc::clone(certificates.challenges()));
    let http = HttpConfig { openid: identity::logins(config.openid.as_ref())?, challenges, ..http };
    let store = Arc::new(store);
    let (figures, allowed) = (Arc::clone(&gauges), resources::memory());
    let missing = greeting::missing(&thread.permissions);
    let service = MediaService::start(service::ServiceParts {
        config: settings,
        contents: Arc::new(store.store.clone()),
        admin: Arc::clone(&store) as Arc<dyn StoreAdmin>,
        accounts: Arc::clone(&accounts),
        account_store: keeper.clone(),
        plane: Arc::new(PlaneCommands(plane.clone())),
        gauges,
        missing: missing.clone(),
        disk_doubts: disks.iter().filter_map(|disk| Some((disk.id, disk.doubt.clone()?))).collect(),
        access: Log::start("access-log", access)?,
        events: events.clone(),
        machine: copy::machine::sample,
    });
    history_file::keep(&config.state.join("figures"), &service);
    let told = Arc::downgrade(&service);
    keeper.hear(move |line| {
        let service = told.upgrade()?;
        match line {
            CommandNotice::Made(call, about) => {
                service.events.tell(access_changed((call, about), None, SystemTime::now()));
                None
            }
            CommandNotice::Shares(given) => link_fault(&service, given).map(|fault| fault.to_string()),
        }
    });
    let unknown = Arc::new(Unknown::of(&disks));
    let (told, noted) = (Arc::downgrade(&service), Arc::clone(&unknown));
    store.store.listen(Box::new(move |event| {
        noted.note(&event);
        if let Some(service) = told.upgrade() {
            service.on_store_event(&event);
        }
    }));
    drop(store);
    pump_reports(reports, Arc::clone(&service))?;
    let around = automation::Surroundings {
        disks: disks.iter().filter_map(|disk| disk.measurable_at.clone()).collect(),
        state: config.state.clone(),
        measured: Arc::clone(&unknown.measured),
        service: Arc::clone(&service),
    };
    let (settings, mut orders) = SettingsDesk::new();
    let operations = Arc::new(ServerOperations {
        settings,
        webhooks: Webhooks::start(&config.webhooks, &service, &config.state)?,
        thumbnails: Thumbnails::new(&service, &config.state),
        jobs: Jobs::start(&config.jobs, around),
        certificates: listening.certificates.clone(),
        snmp: Snmp::start(config.agentx.as_ref(), &service, Permit::of_server(), |text| say(format_args!("{text}"))),
    });
    service.operations.begin(&(Arc::clone(&operations) as Arc<dyn Operations>));
    let (at_work, streaming) = (Arc::clone(&operations), Arc::clone(&service));
    let is_busy = move || {
        let volumes = service::figures::volumes(&streaming, &Permit::of_server());
        streaming.is_busy() || at_work.jobs.is_running() || volumes.iter().any(|volume| volume.upkeep.is_some())
    };
    let take_up = {
        let (service, config) = (Arc::clone(&service), config.clone());
        move |disk: &KnownDisk| {
            if service.measured(disk.id, &disk.profile, disk.doubt.clone()).is_err() {
                return false;
            }
            show_carried(disk, &config, (memory, allowed), &figures);
            let streams = greeting::carried_by(disk, &config, memory).streams;
            say(format_args!(
                "disk {} was measured: it can carry {} of {EXAMPLE_RATE}",
                disk.name,
                counted(streams, "stream")
            ));
            true
        }
    };
    // If the system chose the port, no client would find the server again.
    let may_start_again = config.listen.port() != 0;
    let mut other_disk =
        Box::pin(unknown.watch((Arc::clone(&service), config.state.clone()), is_busy, take_up, may_start_again));
    if let Some(certificates) = &listening.certificates {
        listening::watch(certificates, &config, &service);
    }
    let server = Server::start(http::ServerParts {
        config: http,
        listeners: listening.listeners,
        service: Arc::clone(&service),
        dav_journal: Arc::new(KeptLines::new(Arc::clone(&keeper), "webdav")),
        upload_journal: Arc::new(KeptLines::new(keeper, "upload")),
    })?;
    let ftp = FtpServer::start(FtpParts {
        settings: ftp_settings(&config),
        listeners: listening.ftp,
        acceptor: listening.ftp_acceptor,
        service: Arc::clone(&service),
    })?;
    let of_ftp = ftp.addresses().iter().map(|&(scheme, address)| ListenAddress { scheme, address });
    let addresses: Vec<ListenAddress> = server.addresses().iter().copied().chain(of_ftp).collect();
    let (addresses, missing) = (addresses.as_slice(), missing.as_slice());
    let users = accounts.facts().accounts.len();
    let first_code = first_code(&accounts, addresses)?;
    first_code.iter().for_each(|code| service.credentials.offer_first_account(code));
    let first_code = first_code.as_deref();
    let greeting =
        Greeting { config: &config, users, first_code, addresses, disks: &disks, links: &links, missing, memory };
    for line in greeting.lines() {
        say(format_args!("{line}"));
    }
    tell_supervisor(&[NotifyState::Ready]);
    let running = StartedServer { accounts, service, server, ftp, operations, plane, thread, events };
    let ended = loop {
        tokio::select! {
            _ = signals.terminate.recv() => break ServerEnded::BySignal,
            _ = signals.interrupt.recv() => break ServerEnded::BySignal,
            () = &mut other_disk => break ServerEnded::ToStartAgain,
            _ = signals.hang_up.recv() => config = running.reload(args, config, &links),
            Some(order) = orders.recv() => config = running.obey(args, config, &links, order),
        }
    };
    drop(other_disk);
    running.end(ended, signals).await
}

/// The code by which a client makes the first administrator, where clients from elsewhere reach the server and there is none.
fn first_code(accounts: &Accounts, addresses: &[ListenAddress]) -> io::Result<Option<String>> {
    let is_reached = addresses.iter().any(|each| !each.address.ip().is_loopback());
    if is_reached && !accounts.has_administrator() { random_text().map(Some) } else { Ok(None) }
}

/// A server that admits streams.
struct StartedServer {
    accounts: Arc<Accounts>,
    service: Arc<MediaService>,
    server: Arc<Server>,
    ftp: FtpServer,
    operations: Arc<ServerOperations>,
    plane: PlaneHandle,
    thread: PlaneThread,
    events: Log,
}

impl StartedServer {
    /// The configuration in force after a SIGHUP.
    fn reload(&self, args: &ServeArgs, config: Config, links: &Links) -> Config {
        tell_reloading();
        let read = Config::load_again(args, &config).map_err(anyhow::Error::from);
        let in_force = read.and_then(|read| self.put_in_force(read, &config, links)).unwrap_or_else(|error| {
            let reason = format!("{error:#}");
            say(format_args!("the configuration in force stays: {reason}"));
            self.service.reload_refused(&reason);
            config
        });
        tell_supervisor(&[NotifyState::Ready]);
        in_force
    }

    /// Puts in force all settings that were read anew and need no restart; returns the configuration in force then.
    fn put_in_force(&self, read: Config, running: &Config, links: &Links) -> anyhow::Result<Config> {
        let Change { config, changed, restart } = Change::between(running, read);
        let (access, events) = log_writers(&config)?;
        let openid = identity::logins(config.openid.as_ref())?;
        let webhooks = ReadWebhooks::read(&config.webhooks)?;
        let certificates = self.operations.certificates.as_ref().zip(certificate_source(&config));
        let certificates = certificates.map(|(all, source)| source.read().map(|read| (all, read))).transpose()?;
        Keeper::take_over(&config.state, &config.users, &self.accounts)?;
        let tell = |command| {
            let sent = self.plane.send(command);
            sent.map_err(|_| anyhow::anyhow!("the data plane takes no more commands now; reload once more"))
        };
        tell(Command::SetStall(config.streams.stall))?;
        let links = links.reconfigured(&config.links);
        for (capacity, id) in links.capacities().into_iter().zip(0u16..) {
            tell(Command::SetLink { link: units::LinkId(id), capacity })?;
        }
        if restart.is_empty() {
            say(format_args!("configuration read again, {} changed", counted(changed.len(), "setting")));
        } else {
            say(format_args!("configuration read again; these changes need a restart: {}", restart.join(", ")));
        }
        self.operations.webhooks.configure(webhooks);
        if let Some((all, read)) = certificates {
            all.configure(read);
        }
        self.operations.jobs.configure(&config.jobs);
        self.operations.snmp.configure(config.agentx.as_ref());
        let (settings, http) = served(&config, &links, resources::memory());
        self.accounts.open(open_rights(&config));
        self.accounts.limit(budgets(&config));
        let certificates = self.operations.certificates.as_ref();
        let challenges = certificates.map(|certificates| Arc::clone(certificates.challenges()));
        self.server.reload(HttpConfig { openid, challenges, ..http });
        self.ftp.reload(ftp_settings(&config));
        self.service.reload(settings, (access, events), (&changed, &restart));
        Ok(config)
    }

    /// Lets running work finish, until another signal; then ends the rest.
    async fn end(self, ended: ServerEnded, mut signals: Signals) -> anyhow::Result<ServerEnded> {
        match ended {
            ServerEnded::BySignal => {
                tell_supervisor(&[NotifyState::Stopping]);
                say(format_args!("stopping: no new streams; running ones may finish (again: at once)"));
            }
            ServerEnded::ToStartAgain => {
                tell_reloading();
                say(format_args!("starting again: a served folder has another disk now"));
            }
        }
        let draining = async { tokio::join!(self.service.drain(), self.operations.jobs.end()) };
        tokio::select! {
            _ = draining => {}
            () = signals.end() => {}
        }
        tokio::select! {
            () = self.service.stop() => {}
            () = signals.end() => {}
        }
        let _ = self.plane.send(Command::Shutdown);
        let (thread, events, operations) = (self.thread, self.events, self.operations);
        let end = move || {
            let joined = thread.join();
            operations.webhooks.end();
            events.wait_written(LAST_WORDS);
            joined
        };
        let joined = tokio::task::spawn_blocking(end).await?;
        anyhow::ensure!(joined.is_ok(), "the data plane ended by a fault of ours; please report the lines above");
        Ok(ended)
    }
}

/// Shows how much a disk carries, with this memory for streams, and the memory allowed in all.
fn show_carried(disk: &KnownDisk, config: &Config, (memory, allowed): (ByteCount, ByteCount), gauges: &Gauges) {
    let gauges = &gauges.disks[usize::from(disk.id.0)];
    let carried = greeting::carried_by(disk, config, memory);
    gauges.carries_streams.set(carried.streams.into());
    gauges.stream_bytes.set(carried.memory_used / u64::from(carried.streams.max(1)));
    gauges.carries_recordings.set(greeting::recorded_by(disk, config, allowed).into());
}

fn start_plane(
    config: &Config,
    memory: ByteCount,
    cpu: Option<usize>,
    link: channel::PlaneLink,
    profiles: &[schedule::profile::DiskProfile],
    links: &Links,
    gauges: Arc<Gauges>,
) -> anyhow::Result<PlaneThread> {
    let chunks = u32::try_from(memory.0 / limits::CHUNK_BYTES).context("the memory for buffers is too large")?;
    let thread_config = kernel::thread::ThreadConfig {
        chunk_count: chunks,
        engine: config.plane.engine,
        cpu,
        priority: config.plane.priority,
        readers: READERS,
    };
    let plane_config = plane_config(config);
    let (profiles, capacities) = (profiles.to_vec(), links.capacities());
    Ok(kernel::thread::start(thread_config, link, move |io| {
        Plane::new(plane_config, profiles, &capacities, gauges, io).run();
    })?)
}

fn say_permissions(thread: &PlaneThread, console: Console) {
    let granted: Vec<&str> = thread.permissions.granted().map(|permission| permission.sentence.as_str()).collect();
    console.detail(format_args!("data plane: {}", granted.join("; ")));
    for permission in thread.permissions.refused() {
        console.detail(format_args!("{}", permission.sentence));
    }
}

/// Takes reports from the data plane for as long as it runs, on a thread of its own: it mostly sleeps.
fn pump_reports(reports: ReportReceiver, service: Arc<MediaService>) -> io::Result<()> {
    std::thread::Builder::new().name("reports".to_owned()).spawn(move || {
        while !reports.is_closed() {
            if let Some(report) = reports.recv_timeout(Duration::from_secs(1)) {
                service.on_report(report);
            }
        }
    })?;
    Ok(())
}

/// As [`tell_supervisor`], with the time that `Type=notify-reload` requires.
fn tell_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell_supervisor(&[NotifyState::Reloading, now]),
        Err(_) => tell_supervisor(&[NotifyState::Reloading]),
    }
}

/// Reports this state to the service manager that started the server (systemd, `Type=notify`), if it asked.
fn tell_supervisor(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        say(format_args!("cannot tell the service manager: {error}"));
    }
}

struct PlaneCommands(PlaneHandle);

impl service::PlaneQueue for PlaneCommands {
    fn send(&self, command: Command) -> Result<(), Command> {
        self.0.send(command)
    }
}
