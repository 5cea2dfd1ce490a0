//! The servers under test: a running one (`--url`), ours, and nginx.
//!
//! Promise: a server started here is stopped, and the files written for it removed, however the benchmark ends short of
//! SIGKILL; the child then gets SIGTERM from the kernel (`setpriv --pdeathsig`, where util-linux has it). Not here:
//! nginx's configuration (`nginx`).

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::say;
use anyhow::{Context, anyhow, bail};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tempfile::TempDir;
use units::{BitRate, Nanos};

use super::client::{AnswerHead, CERTIFIED_NAME, SealedAddress, rate_text};
use super::host::KernelReadAhead;
use super::nginx::{CERTIFICATE, KEY};
use super::requests::ServerConnection;
use super::{Stop, account, child, clock, network, nginx, scratch};

/// Longest time of a server to be ready, and to end.
const START_MAX: Nanos = Nanos::from_secs(180);
const END_MAX: Nanos = Nanos::from_secs(20);
const PAUSE: Nanos = Nanos::from_millis(50);
/// Longest time of an answer, from the first byte of the request to the last one read, and of a connection.
const ANSWER_MAX: Nanos = Nanos::from_secs(5);
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Time to end for a server that was not ready yet: it has nothing to finish.
const ABANDON_MAX: Nanos = Nanos::from_secs(2);
/// Lines of a server's log shown when it fails.
const LOG_LINES: usize = 12;
/// The characters to escape in a path; `/` separates folders and is not among them.
const IN_PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

/// A server to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A running one, by its URL template.
    Url(String),
    /// This program's own `serve`.
    Isocast,
    /// nginx.
    Nginx {
        /// Whether file reads go to a thread pool: right for cold contents, a waste for those in memory.
        threads: bool,
    },
}

impl Choice {
    /// Name in results.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Url(url) => url.clone(),
            Self::Isocast => "isocast".to_owned(),
            Self::Nginx { .. } => "nginx".to_owned(),
        }
    }
}

/// Surroundings of the servers started: folders, arguments, rates.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerGround {
    /// The folders served.
    pub roots: Vec<PathBuf>,
    /// More arguments for `isocast serve`.
    pub serve_args: Vec<String>,
    /// Rates streams will ask for: nginx knows a rate only if its configuration names it.
    pub rates: Vec<BitRate>,
    /// The process to account for with `--url`, where it cannot be found by its port.
    pub pid: Option<u32>,
    /// Folder of our server's disk profiles; in each server's own folder if `None`.
    pub state: Option<PathBuf>,
    /// The disk's read-ahead while a peer runs, KiB.
    pub peer_read_ahead: Option<u64>,
    /// The network namespace servers run in.
    pub namespace: Option<String>,
    /// Whether uploads will come.
    pub uploads: bool,
    /// Whether streams go by TLS.
    pub tls: bool,
}

impl ServerGround {
    /// Address for a server: a free port on loopback, or the one port in its own namespace. Another program may
    /// take a free port before the server does; it then says so and fails.
    fn address(&self) -> anyhow::Result<SocketAddr> {
        match self.namespace {
            Some(_) => Ok(SocketAddr::new(network::SERVER.parse()?, network::PORT)),
            None => free_address(),
        }
    }

    /// Address with TLS beside `plain` where streams go by that, with a pair for it in `folder`.
    fn sealed(&self, plain: SocketAddr, folder: &Path) -> anyhow::Result<Option<SealedAddress>> {
        if !self.tls {
            return Ok(None);
        }
        let address = match self.namespace {
            Some(_) => SocketAddr::new(plain.ip(), plain.port() + 1),
            None => free_address()?,
        };
        let made =
            rcgen::generate_simple_self_signed(vec![CERTIFIED_NAME.to_owned()]).context("making a certificate")?;
        fs::write(folder.join(CERTIFICATE), made.cert.pem())?;
        fs::write(folder.join(KEY), made.signing_key.serialize_pem())?;
        Ok(Some(SealedAddress::new(address, made.cert.der().clone())?))
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
pub(crate) struct RunningServer {
    /// Name in results.
    pub name: String,
    /// Address on which it listens.
    pub address: SocketAddr,
    /// Its address with TLS, if streams go by that.
    pub sealed: Option<SealedAddress>,
    /// Host and port for the Host header.
    pub authority: String,
    /// Path template with `{content}`, `{rate}` and `{number}`.
    template: String,
    /// Its first process, if known.
    pub pid: Option<u32>,
    /// Its configuration, for the results.
    pub configuration: String,
    started: Option<Started>,
}

/// Process and folder of a started server, to be removed at its end.
struct Started {
    child: Child,
    directory: TempDir,
    /// A folder next to the contents, for bodies on their way.
    beside: Option<TempDir>,
    /// Set back when the server has ended.
    _read_ahead: Option<KernelReadAhead>,
}

impl RunningServer {
    /// Starts `choice`, or finds it, and waits until it answers.
    ///
    /// # Errors
    /// It is not installed, ended, or does not answer; the text names the remedy.
    pub(crate) fn start(choice: &Choice, ground: &ServerGround, stop: &Stop) -> anyhow::Result<Self> {
        match choice {
            Choice::Url(url) => from_url(url, ground),
            Choice::Isocast => start_isocast(choice, ground, stop),
            Choice::Nginx { threads } => start_nginx(choice, *threads, ground, stop),
        }
    }

    /// Path and query of stream `n` for `content` at `rate`.
    pub(crate) fn path_of(&self, content: &str, rate: BitRate, n: usize) -> String {
        self.template
            .replace("{content}", &escaped(content))
            .replace("{rate}", &rate_text(rate))
            .replace("{number}", &n.to_string())
    }

    /// A connection to it.
    pub(super) fn connection<'a>(&self, give_up: impl Fn() -> bool + 'a) -> ServerConnection<'a> {
        ServerConnection::new(self.address, &self.authority, give_up)
    }

    /// The head with which `method` and `path` are answered; its body is not read.
    fn head(&self, method: &str, path: &str, stop: &Stop) -> Option<AnswerHead> {
        let until = clock::now() + ANSWER_MAX;
        let begun = self.connection(|| stop.is_set() || clock::now() > until).begin(method, path, None);
        begun.ok().map(|(head, _)| head)
    }

    /// The status with which a DELETE of `path` is answered.
    ///
    /// # Errors
    /// No answer within `span`.
    pub(super) fn delete(&self, path: &str, span: Nanos) -> std::io::Result<u16> {
        let until = clock::now() + span;
        self.connection(|| clock::now() > until).request("DELETE", path, None, &mut |_| ())
    }

    /// Requests `path` once, so that a missing content is reported before anything is measured.
    ///
    /// # Errors
    /// It answers, but neither with a content nor that there is no room.
    pub(crate) fn probe(&self, path: &str, stop: &Stop) -> anyhow::Result<()> {
        let wrong = |method| {
            // No answer: the streams' results say more.
            self.head(method, path, stop).map(|head| head.status).filter(|status| !matches!(status, 200..=299 | 503))
        };
        // A server may know no HEAD; and a GET takes room that a stream would get.
        if wrong("HEAD").is_some()
            && let Some(status) = wrong("GET")
        {
            bail!("{}: `{path}` is answered {status}; is the URL right?", self.name);
        }
        Ok(())
    }

    /// The length of the content at `path`; `None` if there is none, or no answer.
    pub(crate) fn length_of(&self, path: &str, stop: &Stop) -> Option<u64> {
        self.head("HEAD", path, stop).filter(|head| head.status == 200)?.content_length
    }

    /// Path to upload `name` to.
    pub(crate) fn upload_path(&self, name: &str) -> String {
        let path = self.template.split('?').next().unwrap_or("/media/{content}");
        path.replace("{content}", &escaped(name))
    }

    /// Ends it, and says so if it did not end well.
    ///
    /// # Errors
    /// It had ended before, or did not in time and was killed.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        let Some(mut started) = self.started.take() else { return Ok(()) };
        if let Some(status) = started.child.try_wait()? {
            started.end()?;
            return Err(
                started.fault(&format!("{} ended by itself while it was measured ({status})", self.name), status)
            );
        }
        started.end()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Some(mut started) = self.started.take()
            && let Err(e) = started.end()
        {
            say(format_args!("isocast bench: {e:#}"));
        }
    }
}

impl Started {
    fn end(&mut self) -> anyhow::Result<()> {
        self.end_within(END_MAX)
    }

    fn end_within(&mut self, span: Nanos) -> anyhow::Result<()> {
        let ended = child::end(&mut self.child, span);
        if let Some(beside) = self.beside.take() {
            let path = beside.path().to_owned();
            beside.close().with_context(|| format!("removing {}", path.display()))?;
        }
        ended
    }

    /// The failure with its exit status and its last lines of log: the cause stands last. A killed server could not say why.
    fn fault(&self, what: &str, status: ExitStatus) -> anyhow::Error {
        let log = self.log();
        match status.signal() {
            _ if log.is_empty() => anyhow!("{what}"),
            Some(_) => anyhow!("the server's last words:\n{log}\n{what}"),
            None => anyhow!("{what}:\n{log}"),
        }
    }

    /// The last lines it wrote.
    fn log(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

fn escaped(name: &str) -> String {
    utf8_percent_encode(name, IN_PATH).to_string()
}

/// A URL's parts: host and port, and a template that has `{content}` and `{rate}`.
///
/// # Errors
/// It is no URL that can be measured.
pub(crate) fn parts_of(url: &str) -> anyhow::Result<(String, String)> {
    let Some(rest) = url.strip_prefix("http://") else {
        bail!(crate::wrong_usage(format_args!(
            "--url `{url}` must begin with http:// (`--tls` is for servers that are started)"
        )));
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.is_empty() {
        bail!(crate::wrong_usage(format_args!("--url `{url}` names no host")));
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

fn from_url(url: &str, ground: &ServerGround) -> anyhow::Result<RunningServer> {
    let (authority, template) = parts_of(url)?;
    let with_port = if authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        authority.clone()
    } else {
        format!("{authority}:80")
    };
    let mut addresses = with_port.to_socket_addrs().with_context(|| format!("looking up `{authority}`"))?;
    let address = addresses.next().with_context(|| format!("`{authority}` has no address"))?;
    TcpStream::connect_timeout(&address, CONNECT_MAX)
        .with_context(|| format!("no program answers at {address}: is the server running?"))?;
    let local = address.ip().is_loopback();
    let pid = ground.pid.or_else(|| if local { account::listener_of(address.port()) } else { None });
    let configuration = format!("already running at {url}");
    let (name, sealed) = (url.to_owned(), None);
    Ok(RunningServer { name, address, sealed, authority, template, pid, configuration, started: None })
}

fn start_isocast(choice: &Choice, ground: &ServerGround, stop: &Stop) -> anyhow::Result<RunningServer> {
    let directory = scratch::folder()?;
    let address = ground.address()?;
    let program = crate::isocast()?;
    let mut arguments =
        vec!["serve".to_owned(), "--local-writes".to_owned(), "--listen".to_owned(), address.to_string()];
    for root in &ground.roots {
        arguments.extend(["--root".to_owned(), root.display().to_string()]);
    }
    let state = ground.state.clone().unwrap_or_else(|| directory.path().join("state"));
    arguments.extend(["--state".to_owned(), state.display().to_string()]);
    let sealed = ground.sealed(address, directory.path())?;
    if let Some(sealed) = &sealed {
        let pair = [("certificate", CERTIFICATE), ("key", KEY)];
        let pair = pair.map(|(name, file)| format!("tls.{name}={}", directory.path().join(file).display()));
        for setting in [format!("tls.listen={}", sealed.address)].into_iter().chain(pair) {
            arguments.extend(["--set".to_owned(), setting]);
        }
    }
    arguments.extend(ground.serve_args.iter().cloned());
    let configuration = format!("isocast {}", arguments.join(" "));
    let started = spawn(ground, &program, &arguments, directory, None)?;
    finish_start(choice, (address, sealed), "/ready", configuration, started, stop)
}

fn start_nginx(choice: &Choice, threads: bool, ground: &ServerGround, stop: &Stop) -> anyhow::Result<RunningServer> {
    let Some(program) = nginx::find() else {
        bail!("no nginx found; install it (Debian: `apt install nginx-light`) or leave out `--peer nginx`");
    };
    let [root] = ground.roots.as_slice() else {
        bail!(crate::wrong_usage("nginx serves one folder; give exactly one --root with --peer nginx"));
    };
    let directory = scratch::folder()?;
    let address = ground.address()?;
    // On the contents' own file system: nginx then publishes an upload by renaming it.
    let beside = match scratch::among_contents(root) {
        Ok(beside) => Some(beside),
        Err(_) if !ground.uploads => None,
        Err(error) => {
            return Err(error.context(
                "nginx writes uploads beside the contents: make their folder writable, or measure without --writers",
            ));
        }
    };
    let bodies = beside.as_ref().map_or_else(|| directory.path().join("bodies"), |beside| beside.path().to_owned());
    let sealed = ground.sealed(address, directory.path())?;
    let layout = nginx::NginxPaths {
        prefix: directory.path(),
        address,
        sealed: sealed.as_ref().map(|sealed| sealed.address),
        root,
        bodies: &bodies,
        threads,
    };
    let configuration = nginx::configuration(&layout, &ground.rates);
    let file = directory.path().join("nginx.conf");
    fs::write(&file, &configuration)?;
    let arguments =
        ["-p", &directory.path().display().to_string(), "-c", &file.display().to_string()].map(str::to_owned).to_vec();
    let mut started = spawn(ground, &program, &arguments, directory, beside)?;
    if let Some(kib) = ground.peer_read_ahead {
        let set = KernelReadAhead::set(root, kib);
        started._read_ahead = Some(set.context("setting --peer-read-ahead: it needs root and a local disk")?);
    }
    finish_start(choice, (address, sealed), "/ready", configuration, started, stop)
}

/// A free port on loopback.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("finding a free port on 127.0.0.1")?;
    Ok(listener.local_addr()?)
}

fn spawn(
    ground: &ServerGround,
    program: &Path,
    arguments: &[String],
    directory: TempDir,
    beside: Option<TempDir>,
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
    (address, sealed): (SocketAddr, Option<SealedAddress>),
    path: &str,
    configuration: String,
    mut started: Started,
    stop: &Stop,
) -> anyhow::Result<RunningServer> {
    let deadline = clock::now() + START_MAX;
    loop {
        if stop.is_set() || clock::now() >= deadline {
            let ended = started.end_within(ABANDON_MAX);
            stop.check()?;
            ended?;
            bail!("{} was not ready within {START_MAX}:\n{}", choice.name(), started.log());
        }
        if let Some(status) = started.child.try_wait()? {
            started.end()?;
            return Err(started.fault(&format!("{} ended at its start ({status})", choice.name()), status));
        }
        if get(address, path, clock::now() + ANSWER_MAX, stop).is_some() {
            break;
        }
        clock::sleep_until(clock::now() + PAUSE);
    }
    Ok(RunningServer {
        name: choice.name(),
        address,
        sealed,
        authority: address.to_string(),
        template: "/media/{content}?rate={rate}".to_owned(),
        pid: Some(started.child.id()),
        configuration,
        started: Some(started),
    })
}

/// The body a GET of `path` is answered with before `until`, if the status is 200; `None` when it is time to stop.
pub(crate) fn get(address: SocketAddr, path: &str, until: Nanos, stop: &Stop) -> Option<String> {
    let give_up = || stop.is_set() || clock::now() >= until;
    let mut body = Vec::new();
    let take = &mut |piece: &[u8]| body.extend_from_slice(piece);
    let status = ServerConnection::new(address, &address.to_string(), give_up).request("GET", path, None, take);
    (status.ok()? == 200).then(|| String::from_utf8(body).ok())?
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

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

    /// A server that answers every connection with `answer`, then byte after byte.
    fn trickling(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let _ = socket.read(&mut [0; 4096]);
                    let mut sent = socket.write_all(answer.as_bytes());
                    while sent.is_ok() {
                        std::thread::sleep(Duration::from_millis(20));
                        sent = socket.write_all(b"x");
                    }
                });
            }
        });
        address
    }

    #[test]
    fn an_answer_that_trickles_is_given_up_in_time_and_at_once_when_it_is_time_to_stop() {
        let address = trickling("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        assert_eq!(get(address, "/x", clock::now() + Nanos::from_millis(300), &Stop::default()), None);
        let stop = Stop::default();
        stop.set();
        assert_eq!(get(address, "/x", clock::now() + Nanos::from_secs(100_000), &stop), None);
    }

    #[test]
    fn a_url_without_a_content_is_refused_before_a_run() {
        let probe = |answer| {
            let choice = Choice::Url(format!("http://{}/", trickling(answer)));
            let server = RunningServer::start(&choice, &ServerGround::default(), &Stop::default()).unwrap();
            server.probe("/film", &Stop::default()).map_err(|error| error.to_string())
        };
        assert_eq!(probe("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), Ok(()));
        assert_eq!(probe("HTTP/1.1 503 Full\r\n\r\n"), Ok(()));
        for answer in ["HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n"] {
            assert!(probe(answer).unwrap_err().contains(&format!("answered {}", &answer[9..12])));
        }
    }

    #[test]
    fn an_address_without_a_server_is_reported() {
        let address = free_address().unwrap();
        let choice = Choice::Url(format!("http://{address}/"));
        let Err(error) = RunningServer::start(&choice, &ServerGround::default(), &Stop::default()) else {
            panic!("started")
        };
        assert!(format!("{error:#}").contains("is the server running?"), "{error:#}");
    }
}
