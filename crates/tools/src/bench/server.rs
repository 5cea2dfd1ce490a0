//! The servers under test: one that runs already (`--url`), ours, and nginx.
//!
//! Promise: what is started is stopped, and what is written for it removed, however the benchmark ends short of
//! SIGKILL; the child then gets SIGTERM from the kernel (`setpriv --pdeathsig`, where util-linux has it). Not here:
//! nginx's configuration (`nginx`).

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use units::{BitRate, Nanos};

use super::host::ReadAhead;
use super::{Stop, account, child, clock, network, nginx};

/// How long a server may take to be ready, and to end.
const START_MAX: Nanos = Nanos::from_secs(180);
const END_MAX: Nanos = Nanos::from_secs(20);
const PAUSE: Nanos = Nanos::from_millis(50);
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Most that is read of an answer.
const BODY_BYTES_MAX: u64 = 1 << 20;
/// Lines of a server's log shown when it fails.
const LOG_LINES: usize = 12;
/// What a path keeps unescaped; `/` separates folders.
const IN_PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

/// A server to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// One that runs already, by its URL template.
    Url(String),
    /// This program's own `serve`.
    Isocast {
        /// Passed as `--disk-scheduler`; `None` is the default.
        scheduler: Option<String>,
    },
    /// nginx.
    Nginx {
        /// Whether file reads go to a thread pool: right for cold contents, a waste for those in memory.
        threads: bool,
    },
}

impl Choice {
    /// What it is called in results.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Url(url) => url.clone(),
            Self::Isocast { scheduler: None } => "isocast".to_owned(),
            Self::Isocast { scheduler: Some(s) } => format!("isocast-{s}"),
            Self::Nginx { .. } => "nginx".to_owned(),
        }
    }
}

/// What the servers started need to know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ground {
    /// The folders served.
    pub roots: Vec<PathBuf>,
    /// More arguments for `isocast serve`.
    pub serve_args: Vec<String>,
    /// Rates streams will ask for: nginx knows a rate only if its configuration names it.
    pub rates: Vec<BitRate>,
    /// The process to account for with `--url`, where it cannot be found by its port.
    pub pid: Option<u32>,
    /// Where our server keeps its disk profiles; with each server's own if `None`.
    pub state: Option<PathBuf>,
    /// The disk's read-ahead while a peer runs, KiB.
    pub peer_read_ahead: Option<u64>,
    /// The network namespace servers run in.
    pub namespace: Option<String>,
}

impl Ground {
    /// Where a server may listen: a free port on loopback, or the one port in its own namespace. Another program may
    /// take a free port before the server does; it then says so and fails.
    fn address(&self) -> anyhow::Result<SocketAddr> {
        match self.namespace {
            Some(_) => Ok(SocketAddr::new(network::SERVER.parse()?, network::PORT)),
            None => free_address(),
        }
    }

    /// `program`, to be run where servers run.
    fn command(&self, program: &Path) -> Command {
        let Some(namespace) = &self.namespace else { return child::command(program) };
        let words = network::enter(namespace);
        let mut command = child::command(Path::new(&words[0]));
        command.args(&words[1..]).arg(program);
        command
    }
}

/// A server that answers.
pub(crate) struct Server {
    /// What it is called in results.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Host and port for the Host header.
    pub authority: String,
    /// Path template with `{content}`, `{rate}` and `{n}`.
    template: String,
    /// Its first process, if known.
    pub pid: Option<u32>,
    /// How it is configured, for the results.
    pub configuration: String,
    started: Option<Started>,
}

/// What has to be undone.
struct Started {
    child: Child,
    directory: TempDir,
    /// A folder beside the contents, for bodies on their way.
    beside: Option<PathBuf>,
    /// Set back when the server has ended.
    _read_ahead: Option<ReadAhead>,
}

impl Server {
    /// Starts `choice`, or finds it, and waits until it answers.
    ///
    /// # Errors
    /// It is not installed, ended, or does not answer; the text says what to do.
    pub(crate) fn start(choice: &Choice, ground: &Ground, stop: &Stop) -> anyhow::Result<Self> {
        match choice {
            Choice::Url(url) => from_url(url, ground),
            Choice::Isocast { scheduler } => start_isocast(choice, scheduler.as_deref(), ground, stop),
            Choice::Nginx { threads } => start_nginx(choice, *threads, ground, stop),
        }
    }

    /// Path and query of stream `n` for `content` at `rate`.
    pub(crate) fn path_of(&self, content: &str, rate: BitRate, n: usize) -> String {
        self.template
            .replace("{content}", &escaped(content))
            .replace("{rate}", &rate_text(rate))
            .replace("{n}", &n.to_string())
    }

    /// Path to upload `name` to.
    pub(crate) fn upload_path(&self, name: &str) -> String {
        let path = self.template.split('?').next().unwrap_or("/media/{content}");
        path.replace("{content}", &escaped(name))
    }

    /// Ends it, and says so if it did not end well.
    ///
    /// # Errors
    /// It did not end in time and was killed.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        self.started.take().map_or(Ok(()), |mut started| started.end())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut started) = self.started.take()
            && let Err(e) = started.end()
        {
            eprintln!("isocast bench: {e:#}");
        }
    }
}

impl Started {
    fn end(&mut self) -> anyhow::Result<()> {
        let ended = self.terminate();
        if let Some(beside) = &self.beside {
            fs::remove_dir_all(beside).with_context(|| format!("removing {}", beside.display()))?;
        }
        ended
    }

    fn terminate(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        let pid = i32::try_from(self.child.id())?;
        if let Some(pid) = Pid::from_raw(pid) {
            kill_process(pid, Signal::TERM)?;
        }
        let deadline = clock::now() + END_MAX;
        while clock::now() < deadline {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            clock::sleep_until(clock::now() + PAUSE);
        }
        self.child.kill()?;
        self.child.wait()?;
        bail!("the server (process {pid}) did not end within {END_MAX} of SIGTERM and was killed")
    }

    /// The last lines it wrote.
    fn log(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

/// The rate as queries carry it: `8800k`, exact to the kilobit where it is whole, else in bit/s.
pub(crate) fn rate_text(rate: BitRate) -> String {
    if rate.0.is_multiple_of(1_000) { format!("{}k", rate.0 / 1_000) } else { format!("{}bit/s", rate.0) }
}

fn escaped(name: &str) -> String {
    utf8_percent_encode(name, IN_PATH).to_string()
}

/// A URL's parts: host and port, and a template that has `{content}` and `{rate}`.
fn parts_of(url: &str) -> anyhow::Result<(String, String)> {
    let Some(rest) = url.strip_prefix("http://") else {
        bail!("`{url}` must begin with http:// (TLS is not measured)");
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.is_empty() {
        bail!("`{url}` names no host");
    }
    let mut template = if path.is_empty() { "/media/".to_owned() } else { path.to_owned() };
    if !template.contains("{content}") && template.ends_with('/') {
        template.push_str("{content}");
    }
    if !template.contains("{rate}") && !template.contains("rate=") {
        template.push_str(if template.contains('?') { "&rate={rate}" } else { "?rate={rate}" });
    }
    Ok((authority.to_owned(), template))
}

fn from_url(url: &str, ground: &Ground) -> anyhow::Result<Server> {
    let (authority, template) = parts_of(url)?;
    let with_port = if authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        authority.clone()
    } else {
        format!("{authority}:80")
    };
    let mut addresses = with_port.to_socket_addrs().with_context(|| format!("looking up `{authority}`"))?;
    let address = addresses.next().with_context(|| format!("`{authority}` has no address"))?;
    TcpStream::connect_timeout(&address, ANSWER_MAX)
        .with_context(|| format!("nobody answers at {address}: is the server running?"))?;
    let local = address.ip().is_loopback();
    let pid = ground.pid.or_else(|| if local { account::listener_of(address.port()) } else { None });
    let configuration = format!("already running at {url}");
    Ok(Server { name: url.to_owned(), address, authority, template, pid, configuration, started: None })
}

fn start_isocast(choice: &Choice, scheduler: Option<&str>, ground: &Ground, stop: &Stop) -> anyhow::Result<Server> {
    let directory = tempfile::tempdir().context("making a temporary folder")?;
    let address = ground.address()?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut arguments = vec!["serve".to_owned(), "--listen".to_owned(), address.to_string()];
    for root in &ground.roots {
        arguments.extend(["--root".to_owned(), root.display().to_string()]);
    }
    let state = ground.state.clone().unwrap_or_else(|| directory.path().join("state"));
    arguments.extend(["--state".to_owned(), state.display().to_string()]);
    if let Some(scheduler) = scheduler {
        arguments.extend(["--disk-scheduler".to_owned(), scheduler.to_owned()]);
    }
    arguments.extend(ground.serve_args.iter().cloned());
    let configuration = format!("isocast {}", arguments.join(" "));
    let started = spawn(ground, &program, &arguments, directory, None)?;
    finish_start(choice, address, "/ready", configuration, started, stop)
}

fn start_nginx(choice: &Choice, threads: bool, ground: &Ground, stop: &Stop) -> anyhow::Result<Server> {
    let Some(program) = nginx::find() else {
        bail!("no nginx found; install it (Debian: `apt install nginx-light`) or leave out `--peer nginx`");
    };
    let [root] = ground.roots.as_slice() else {
        bail!("nginx serves one folder; give exactly one --root with --peer nginx");
    };
    let directory = tempfile::tempdir().context("making a temporary folder")?;
    let address = ground.address()?;
    // On the contents' own file system: nginx then publishes an upload by renaming it.
    let beside = root.join(format!(".isocast-bench-nginx-{}", std::process::id()));
    fs::create_dir_all(&beside).with_context(|| format!("making {}", beside.display()))?;
    let layout = nginx::Layout { prefix: directory.path(), address, root, bodies: &beside, threads };
    let configuration = nginx::configuration(&layout, &ground.rates);
    let file = directory.path().join("nginx.conf");
    fs::write(&file, &configuration)?;
    let arguments =
        ["-p", &directory.path().display().to_string(), "-c", &file.display().to_string()].map(str::to_owned).to_vec();
    let mut started = spawn(ground, &program, &arguments, directory, Some(beside))?;
    if let Some(kib) = ground.peer_read_ahead {
        let set = ReadAhead::set(root, kib);
        started._read_ahead = Some(set.context("setting --peer-read-ahead: it needs root and a local disk")?);
    }
    finish_start(choice, address, "/ready", configuration, started, stop)
}

/// A free port on loopback.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("finding a free port on 127.0.0.1")?;
    Ok(listener.local_addr()?)
}

fn spawn(
    ground: &Ground,
    program: &Path,
    arguments: &[String],
    directory: TempDir,
    beside: Option<PathBuf>,
) -> anyhow::Result<Started> {
    let log = File::create(directory.path().join("log"))?;
    let mut command = ground.command(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
    Ok(Started { child, directory, beside, _read_ahead: None })
}

/// Waits until `started` answers 200 to `path`.
fn finish_start(
    choice: &Choice,
    address: SocketAddr,
    path: &str,
    configuration: String,
    mut started: Started,
    stop: &Stop,
) -> anyhow::Result<Server> {
    let deadline = clock::now() + START_MAX;
    loop {
        if stop.is_set() || clock::now() >= deadline {
            started.end()?;
            stop.check()?;
            bail!("{} was not ready within {START_MAX}:\n{}", choice.name(), started.log());
        }
        if let Some(status) = started.child.try_wait()? {
            started.end()?;
            bail!("{} ended at its start ({status}):\n{}", choice.name(), started.log());
        }
        if status_of(address, path) == Some(200) {
            break;
        }
        clock::sleep_until(clock::now() + PAUSE);
    }
    Ok(Server {
        name: choice.name(),
        address,
        authority: address.to_string(),
        template: "/media/{content}?rate={rate}".to_owned(),
        pid: Some(started.child.id()),
        configuration,
        started: Some(started),
    })
}

/// The body a GET of `path` is answered with, if the status is 200.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut socket = TcpStream::connect_timeout(&address, ANSWER_MAX).ok()?;
    socket.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    socket.take(BODY_BYTES_MAX).read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.get(8..)?.starts_with(" 200").then(|| body.to_owned())
}

/// The status a GET of `path` is answered with.
fn status_of(address: SocketAddr, path: &str) -> Option<u16> {
    let mut socket = TcpStream::connect_timeout(&address, ANSWER_MAX).ok()?;
    socket.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut start = [0_u8; 12];
    socket.read_exact(&mut start).ok()?;
    std::str::from_utf8(&start).ok()?.strip_prefix("HTTP/1.")?.get(2..)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_become_templates() {
        let parts = |url| parts_of(url).unwrap();
        assert_eq!(parts("http://h:1"), ("h:1".into(), "/media/{content}?rate={rate}".into()));
        assert_eq!(parts("http://h/v/"), ("h".into(), "/v/{content}?rate={rate}".into()));
        assert_eq!(parts("http://h/a.ts?x=1"), ("h".into(), "/a.ts?x=1&rate={rate}".into()));
        assert_eq!(parts("http://h/{content}?rate=5M"), ("h".into(), "/{content}?rate=5M".into()));
        assert!(parts_of("https://h/").is_err());
        assert!(parts_of("http:///x").is_err());
    }

    #[test]
    fn rates_are_written_exactly() {
        assert_eq!(rate_text(BitRate(8_800_000)), "8800k");
        assert_eq!(rate_text(BitRate(1_001)), "1001bit/s");
        assert_eq!(units::parse_rate(&rate_text(BitRate(8_800_000))), Ok(BitRate(8_800_000)));
    }

    #[test]
    fn nobody_at_the_address_is_said_so() {
        let address = free_address().unwrap();
        let choice = Choice::Url(format!("http://{address}/"));
        let Err(error) = Server::start(&choice, &Ground::default(), &Stop::default()) else { panic!("started") };
        assert!(format!("{error:#}").contains("is the server running?"), "{error:#}");
    }
}
