//! `isocast serve`: measures the disks, starts their threads, the data plane and the control plane, and ends them.
//!
//! Promise: ready means that streams are admitted; SIGTERM and SIGINT let what runs finish, SIGHUP reloads; what is not
//! permitted is said once, with what to do. Not here: any of the parts (they are crates).

mod advice;
mod disks;
mod links;
mod machine;
mod state;

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use dataplane::control::Command;
use dataplane::gauges::Gauges;
use dataplane::{Plane, PlaneConfig};
use dirstore::{Governed, Layout, Served, Store, StoreSettings};
use http::{Reload, Server};
use kernel::link::{PlaneHandle, ReportReceiver};
use kernel::thread::PlaneThread;
use schedule::disk::Discipline;
use sd_notify::NotifyState;
use service::MediaService;
use service::config::{PathPolicy, SessionConfig, User, WhenFull};
use service::log::{Log, Writer};
use tokio::signal::unix::{SignalKind, signal};
use units::{ByteCount, Nanos, limits};

use crate::config::{self, Change, Config, DiskScheduler, ServeArgs};
use crate::output::say;
use links::Links;
use state::State;

/// A data plane of its own CPU: with fewer CPUs than this it shares, but goes first.
const CPUS_FOR_OWN: usize = 3;
/// Threads per disk of the data plane, for reads that its own thread must not make.
const READERS: usize = 2;

/// Runs until it is told to stop.
///
/// # Errors
/// What cannot be started, with what to do about it.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    run_as_configured(args).map_err(advice::with_advice)
}

fn run_as_configured(args: &ServeArgs) -> anyhow::Result<()> {
    let config = Config::load(args)?;
    anyhow::ensure!(!config.roots.is_empty(), "nothing to serve: name a folder with `--root DIR`");
    let layout = Layout::discover(&config.roots)?;
    let _state = State::take(&config.state)?;
    // What keeps the data plane from starting at all is said now, not when disks were measured for seconds.
    kernel::thread::check(kernel::thread::PlaneConfig {
        chunk_count: 1,
        engine: config.plane.engine,
        cpu: None,
        priority: None,
        readers: READERS,
    })?;
    let mut profiles = Vec::new();
    for (id, device) in layout.disks() {
        let root = layout.root_on(id).context("a disk without a folder")?;
        profiles.push(disks::profile_of(&device.name, root, &config.state)?);
    }
    let links = Links::discover(&config.links);
    for link in links.0.iter().filter(|link| link.assumed) {
        let (name, rate) = (&link.name, link.capacity);
        say(format_args!("{name} does not tell its speed: {rate} is assumed; set `links.{name}` in the configuration"));
    }
    // The address is taken before anything is started, so that a port in use is said at once.
    let listener = http::listen(config.listen).map_err(|error| {
        let advice = advice::on_listening(config.listen, &error);
        anyhow::Error::from(error).context(format!("cannot listen on {}: {advice}", config.listen))
    })?;

    let disk_count = u16::try_from(profiles.len()).context("too many disks")?;
    let queues = kernel::link::connect(disk_count).context("cannot make the queues to the data plane")?;
    let gauges = Arc::new(Gauges::new(limits::STREAMS_MAX, profiles.len()));
    let cpus = kernel::thread::cpus().unwrap_or_default();
    let plane_cpu = config.plane.cpu.and_then(|cpu| usize::try_from(cpu).ok()).or(cpus.last().copied());
    let thread = start_plane(&config, plane_cpu, queues.plane, &profiles, &links, Arc::clone(&gauges))?;
    let other_cpus: Vec<usize> = match cpus.len() {
        0..CPUS_FOR_OWN => cpus,
        _ => cpus.into_iter().filter(|cpu| Some(*cpu) != plane_cpu).collect(),
    };
    let mut ports = queues.stores.into_iter();
    let settings = StoreSettings { state: Some(config.state.clone()), cpus: other_cpus, ..StoreSettings::default() };
    let store = Store::start(layout, &settings, |id, _| Served {
        port: Box::new(Governed::new(ports.next().expect("one port per disk"))),
        profile: profiles.get(usize::from(id.0)).cloned(),
    })?;
    let known = Arc::clone(&gauges);
    let is_good = move |id: units::DiskId| {
        known.disks.get(usize::from(id.0)).is_none_or(|disk| disk.failing.get() == dataplane::gauges::DISK_GOOD)
    };
    store.rely_on(Box::new(is_good));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome =
        runtime.block_on(serve(args, config, listener, &links, store, queues.handle.clone(), queues.reports, gauges));
    // A disk that hangs holds its thread in the kernel: nobody waits for it.
    let _ = queues.handle.send(Command::Shutdown);
    if thread.join().is_err() {
        anyhow::bail!("the data plane ended by a fault of ours; please report what stands above");
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

#[allow(clippy::too_many_arguments, reason = "the wiring is where everything meets, once")]
async fn serve(
    args: &ServeArgs,
    mut config: Config,
    listener: std::net::TcpListener,
    links: &Links,
    store: Store,
    plane: PlaneHandle,
    reports: ReportReceiver,
    gauges: Arc<Gauges>,
) -> anyhow::Result<()> {
    // Before anybody can know that this runs: a signal that comes early is not a default action.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let ready = Arc::new(AtomicBool::new(false));
    let (access, events) = log_writers(&config)?;
    let commands = plane.clone();
    let settings = http_config(&config, links);
    let service = MediaService::start(service::Parts {
        config: settings.service.clone(),
        contents: Arc::new(store),
        plane: Arc::new(PlaneCommands(plane)),
        ready: Arc::clone(&ready),
        gauges,
        events: Log::start("event-log", events)?,
    });
    pump_reports(reports, Arc::clone(&service))?;
    let server = Server::start(http::Parts {
        config: settings,
        listeners: vec![listener],
        service,
        machine: Arc::new(machine::Proc),
        access: Log::start("access-log", access)?,
    })?;
    ready.store(true, Ordering::Release);
    for address in server.addresses() {
        say(format_args!("serving {} on http://{address}/", folders(&config.roots)));
    }
    tell_supervisor(&[NotifyState::Ready]);
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hang_up.recv() => {
                tell_reloading();
                match reload(args, &config, links, &server, &commands) {
                    Ok(in_force) => config = in_force,
                    Err(error) => {
                        let reason = format!("{error:#}");
                        say(format_args!("the configuration in force stays: {reason}"));
                        server.reload_refused(&reason);
                    }
                }
                tell_supervisor(&[NotifyState::Ready]);
            }
        }
    }
    tell_supervisor(&[NotifyState::Stopping]);
    say(format_args!("stopping: no new streams; what runs may finish (again: at once)"));
    tokio::select! {
        () = server.drain() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

fn start_plane(
    config: &Config,
    cpu: Option<usize>,
    link: kernel::link::PlaneLink,
    profiles: &[schedule::profile::DiskProfile],
    links: &Links,
    gauges: Arc<Gauges>,
) -> anyhow::Result<PlaneThread> {
    let memory = config.plane.memory.of(machine_memory());
    let chunks = u32::try_from(memory.0 / limits::CHUNK_BYTES).context("the memory for buffers is too large")?;
    let thread_config = kernel::thread::PlaneConfig {
        chunk_count: chunks,
        engine: config.plane.engine,
        cpu,
        priority: config.plane.priority,
        readers: READERS,
    };
    let plane_config = plane_config(config);
    let (profiles, capacities) = (profiles.to_vec(), links.capacities());
    let thread = kernel::thread::start(thread_config, link, move |io| {
        Plane::new(plane_config, profiles, &capacities, gauges, io).run();
    })?;
    let granted: Vec<&str> = thread.permissions.granted().map(|permission| permission.sentence.as_str()).collect();
    say(format_args!("data plane: {memory} for blocks; {}", granted.join("; ")));
    for permission in thread.permissions.refused() {
        say(format_args!("{}", permission.sentence));
    }
    Ok(thread)
}

fn plane_config(config: &Config) -> PlaneConfig {
    PlaneConfig {
        tick: config.schedule.tick,
        round: config.schedule.round,
        discipline: match config.schedule.disk_scheduler {
            DiskScheduler::Cyclic => Discipline::Cyclic,
            DiskScheduler::Fifo => Discipline::Fifo,
        },
        be_share: f64::from(config.schedule.best_effort_percent) / 100.0,
        stall_max: config.streams.stall,
        ..PlaneConfig::default()
    }
}

fn http_config(config: &Config, links: &Links) -> http::config::Config {
    let limits = &config.limits;
    let mut policies: Vec<PathPolicy> = Vec::new();
    for (prefix, rate) in &config.path_rates {
        policies.push(PathPolicy { prefix: prefix.clone(), rate: Some(*rate), when_full: WhenFull::Refuse });
    }
    for (prefix, when_full) in &config.path_when_full {
        let when_full = match when_full {
            config::WhenFull::Refuse => WhenFull::Refuse,
            config::WhenFull::BestEffort => WhenFull::BestEffort,
        };
        match policies.iter_mut().find(|policy| policy.prefix == *prefix) {
            Some(policy) => policy.when_full = when_full,
            None => policies.push(PathPolicy { prefix: prefix.clone(), rate: None, when_full }),
        }
    }
    let service = service::config::Config {
        drain_time_max: duration(limits.drain),
        upload_bytes_max: limits.upload_size.0,
        tick: config.schedule.tick,
        burst: config.streams.start_burst,
        sessions: SessionConfig {
            hold: config.session_hold,
            precedence: config.session_precedence,
            ..SessionConfig::default()
        },
        policies,
        links: links.by_address(),
        users: config
            .users
            .iter()
            .map(|(name, hash)| User { name: name.clone(), password_hash: hash.clone() })
            .collect(),
        ..service::config::Config::default()
    };
    http::config::Config {
        connections_max: usize::try_from(limits.connections).unwrap_or(usize::MAX),
        head_time_max: duration(limits.head_timeout),
        idle_time_max: duration(limits.idle_timeout),
        upload_idle_max: duration(limits.upload_idle),
        stall_max: duration(config.streams.stall),
        service,
        ..http::config::Config::default()
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

/// Reads the configuration again and puts in force what can be; returns what is in force then.
fn reload(
    args: &ServeArgs,
    running: &Config,
    links: &Links,
    server: &Server,
    plane: &PlaneHandle,
) -> anyhow::Result<Config> {
    let Change { config, changed, restart } = Change::between(running, Config::load(args)?);
    let (access, events) = log_writers(&config)?;
    let tell = |command| {
        let sent = plane.send(command);
        sent.map_err(|_| anyhow::anyhow!("the data plane takes no more commands now; reload once more"))
    };
    tell(Command::SetStall(config.streams.stall))?;
    for (link, id) in links.reconfigured(&config.links).0.into_iter().zip(0u16..) {
        tell(Command::SetLink { link: units::LinkId(id), capacity: link.capacity })?;
    }
    if restart.is_empty() {
        say(format_args!("configuration read again, {} setting(s) changed", changed.len()));
    } else {
        say(format_args!("configuration read again; these changes need a restart: {}", restart.join(", ")));
    }
    server.reload(Reload { config: http_config(&config, links), access, events, changed, restart });
    Ok(config)
}

/// As [`tell_supervisor`]; the time is what `Type=notify-reload` wants to know.
fn tell_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell_supervisor(&[NotifyState::Reloading, now]),
        Err(_) => tell_supervisor(&[NotifyState::Reloading]),
    }
}

/// Says what state this is in to who started it (systemd, `Type=notify`), if it asked.
fn tell_supervisor(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        say(format_args!("cannot tell the service manager: {error}"));
    }
}

struct PlaneCommands(PlaneHandle);

impl service::Plane for PlaneCommands {
    fn send(&self, command: Command) -> Result<(), Command> {
        self.0.send(command)
    }
}

/// The access log's and the event log's, opened anew.
fn log_writers(config: &Config) -> anyhow::Result<(Writer, Writer)> {
    let access = log_writer(config.log.access.as_deref(), Box::new(io::sink()))?;
    Ok((access, log_writer(config.log.events.as_deref(), Box::new(io::stderr()))?))
}

fn log_writer(path: Option<&Path>, otherwise: Writer) -> anyhow::Result<Writer> {
    let Some(path) = path else { return Ok(otherwise) };
    let file = OpenOptions::new().create(true).append(true).open(path);
    Ok(Box::new(file.with_context(|| format!("cannot write the log {}", path.display()))?))
}

fn machine_memory() -> ByteCount {
    let facts = rustix::system::sysinfo();
    ByteCount(facts.totalram.saturating_mul(u64::from(facts.mem_unit.max(1))))
}

fn duration(span: Nanos) -> Duration {
    Duration::from_nanos(span.0)
}

fn folders(roots: &[PathBuf]) -> String {
    roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(", ")
}
