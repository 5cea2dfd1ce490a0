//! `isocast serve` as a process, on a port of its own: started, queried, ended by force or by request.
//!
//! Promise: each wait has an end ([`PATIENCE`]), and nothing is left behind: the program is killed by its process id, the folders of
//! its own are removed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use device::calibrate::{self, Calibration, ProfileSource, identify};
use rustix::process::{Pid, Signal, kill_process};
use schedule::profile::DiskProfile;
use tempfile::TempDir;

use super::client::{Answer, Client};
use super::{PATIENCE, program, until};

/// A running `isocast serve`.
pub struct Server {
    pub address: SocketAddr,
    /// The first folder that it serves.
    pub root: PathBuf,
    /// Folder of the fixture's files: root, state, configuration, event log.
    pub folders: TempDir,
    child: Child,
    stderr: Arc<(Mutex<StderrLog>, Condvar)>,
    listener: Option<JoinHandle<()>>,
}

/// Standard error so far.
#[derive(Default)]
struct StderrLog {
    text: String,
    is_whole: bool,
}

/// Parameters of the start of a server.
pub struct Setup {
    listen: String,
    roots: Vec<PathBuf>,
    state: Option<PathBuf>,
    settings: Vec<String>,
    arguments: Vec<String>,
    config: Option<String>,
    environment: Vec<(String, String)>,
    limits: String,
    unmeasured: bool,
    profile: DiskProfile,
}

impl Default for Setup {
    /// An empty folder and a state of its own, on a disk that has time for every test; with little memory, and an event log.
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            roots: Vec::new(),
            state: None,
            settings: ["plane.memory=64MiB", "schedule.be_share=20%"].map(str::to_owned).to_vec(),
            arguments: Vec::new(),
            config: None,
            environment: Vec::new(),
            limits: String::new(),
            unmeasured: false,
            profile: DiskProfile::flash_default(),
        }
    }
}

impl Setup {
    /// Folders and a state that outlive the server, on the disk as it is measured.
    pub fn on(roots: &[&Path], state: &Path, arguments: &[&str]) -> Self {
        Self {
            roots: roots.iter().map(|root| root.to_path_buf()).collect(),
            state: Some(state.to_owned()),
            settings: vec!["plane.memory=512M".to_owned()],
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            unmeasured: true,
            ..Self::default()
        }
    }

    /// At this address instead of a free port.
    pub fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.listen);
        self
    }

    /// No profile is kept: the program measures the disk.
    pub fn unmeasured(mut self) -> Self {
        self.unmeasured = true;
        self
    }

    /// Its disk has this profile.
    pub fn disk(mut self, profile: DiskProfile) -> Self {
        self.profile = profile;
        self
    }

    /// `--verbose`.
    pub fn verbose(mut self) -> Self {
        self.arguments.push("--verbose".to_owned());
        self
    }

    /// `--set KEY=VALUE`, over the fixture's settings.
    pub fn set(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Text of a configuration file (`Server::config_file`): a text that begins with `roots` names the folders, and the rights to write, by
    /// itself.
    pub fn config(mut self, text: &str) -> Self {
        self.config = Some(text.to_owned());
        self
    }

    /// Another folder than one of its own.
    pub fn root(mut self, root: &Path) -> Self {
        self.roots.push(root.to_owned());
        self
    }

    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Under limits that a shell's commands set, each ended by a semicolon.
    pub fn limits(mut self, commands: &str) -> Self {
        self.limits = commands.to_owned();
        self
    }

    /// Starts the program and waits until it is ready.
    pub fn start(mut self) -> Server {
        let folders = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        if self.state.is_none() && self.roots.is_empty() {
            self.roots.push(folders.path().join("root"));
        }
        let root = self.roots.first().cloned().unwrap_or_default();
        let own_state = folders.path().join("state");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{} exec \"$@\"", self.limits), "sh"]).arg(program());
        command.args(["serve", "--listen", &self.listen, "--state"]);
        command.arg(self.state.as_ref().unwrap_or(&own_state));
        if self.config.as_deref().is_none_or(|text| !text.starts_with("roots")) {
            command.arg("--local-writes");
            command.args(self.roots.iter().flat_map(|root| [Path::new("--root"), root]));
        }
        if let Some(text) = &self.config {
            fs::write(folders.path().join("isocast.toml"), text).expect("a configuration");
            command.arg("--config").arg(folders.path().join("isocast.toml"));
        } else if self.state.is_none() {
            command.arg("--set").arg(format!("log.events={}", folders.path().join("events.jsonl").display()));
        }
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.args(&self.arguments);
        // Variables for the tests are not the server's.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ISOCAST_")) {
            command.env_remove(name);
        }
        command.envs(self.environment).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if self.state.is_none() {
            fs::create_dir_all(&root).expect("a root");
        }
        if !self.unmeasured {
            assume_disk(&root, &own_state, &self.profile);
        }
        let mut child = command.spawn().expect("the program starts");
        let stderr = Arc::<(Mutex<StderrLog>, Condvar)>::default();
        let output = child.stderr.take().expect("a pipe");
        let collected = Arc::clone(&stderr);
        let listener = std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let text = &mut collected.0.lock().expect("no panic while it is held").text;
                text.push_str(&line);
                text.push('\n');
                collected.1.notify_all();
            }
            collected.0.lock().expect("no panic while it is held").is_whole = true;
            collected.1.notify_all();
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Server { address, root, folders, child, stderr, listener: Some(listener) };
        let line = server.wait_stderr_line(" on http://");
        let (_, rest) = line.split_once(" on http://").expect("waited for");
        server.address = rest.split('/').next().and_then(|address| address.parse().ok()).expect("an address");
        server.wait_for("ready", |server| server.get("/ready").status == 200);
        server
    }
}

impl Server {
    /// With an empty folder of its own.
    pub fn start() -> Self {
        Setup::default().start()
    }

    /// With folders and a state that outlive it ([`Setup::on`]).
    pub fn on(roots: &[&Path], state: &Path, arguments: &[&str]) -> Self {
        Setup::on(roots, state, arguments).start()
    }

    /// Measures the disk of a folder for two seconds, so that the first start need not.
    pub fn calibrate(root: &Path, state: &Path) {
        let mut command = Command::new(program());
        command.args(["disk", "calibrate", "--time", "2s", "--state"]).arg(state).arg(root);
        let output = command.output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn config_file(&self) -> PathBuf {
        self.folders.path().join("isocast.toml")
    }

    /// Puts a file into the served folder, without the server.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(&path, bytes).expect("room for it");
        path
    }

    /// Names in the served folder, sorted; hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.root).expect("the root");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub fn connect(&self) -> Client {
        Client::to(self.address)
    }

    /// A client at another address of this machine.
    pub fn connect_from(&self, source: &str) -> Client {
        Client::from_to(source, self.address)
    }

    /// True if the server says that it drains. A connection made just before may be closed unanswered: it was idle.
    pub fn drains(&self) -> bool {
        let mut client = self.connect();
        let _ = client.stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        while client.more() {}
        client.buffer.starts_with(b"HTTP/1.1 503")
    }

    /// One request on a connection of its own.
    pub fn ask(&self, request: &str) -> Answer {
        let mut client = self.connect();
        client.send(request.as_bytes());
        client.answer(!request.starts_with("HEAD"))
    }

    pub fn get(&self, target: &str) -> Answer {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    pub fn put(&self, target: &str, fields: &str, body: &[u8]) -> Answer {
        let mut client = self.connect();
        let length = body.len();
        client.send(
            format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n").as_bytes(),
        );
        // A refusal may come, and the connection end, before all of it is sent.
        let _ = client.stream.write_all(body);
        client.answer(true)
    }

    /// The samples of `/metrics`, all of one moment.
    pub fn metrics(&self) -> Metrics {
        Metrics(self.get("/metrics").text())
    }

    /// One of them.
    pub fn metric(&self, name: &str) -> f64 {
        self.metrics().value(name)
    }

    /// Bytes that have gone to or come from disks in best-effort time.
    pub fn best_effort_bytes(&self) -> f64 {
        let metrics = self.get("/metrics").text();
        let lines =
            metrics.lines().filter(|line| line.starts_with("isocast_disk_bytes_total{") && line.contains("best_"));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    }

    pub fn json(&self, target: &str) -> serde_json::Value {
        serde_json::from_slice(&self.get(target).body).expect("JSON")
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("it runs");
    }

    /// Bytes of its own in memory (`RssAnon`, proc(5)): pages of the program's file, of which an optimised build has half as many, do not count.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB"));
        1024 * kilobytes.expect("a line RssAnon").parse::<u64>().expect("a number")
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_none()
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        let status = until("the end of the program", || match self.child.try_wait().expect("our child") {
            Some(status) => Ok(status),
            None => Err(format!("it said {}", self.stderr_text())),
        });
        // All of standard error is read then.
        self.listener.take().map(JoinHandle::join);
        status
    }

    /// `kill -9`. Gives all that it said.
    pub fn kill(mut self) -> String {
        self.child.kill().expect("it was ours to kill");
        self.ended();
        self.stderr_text()
    }

    /// SIGTERM, and waits until it has ended.
    pub fn stop(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        (self.ended(), self.stderr_text())
    }

    /// Standard error so far.
    pub fn stderr_text(&self) -> String {
        self.stderr.0.lock().expect("no panic while it is held").text.clone()
    }

    /// Waits until standard error has a line with `text`; that line.
    pub fn wait_stderr_line(&self, text: &str) -> String {
        let said = self.stderr.0.lock().expect("no panic while it is held");
        let lacks = |said: &mut StderrLog| !said.text.contains(text) && !said.is_whole;
        let (said, _) = self.stderr.1.wait_timeout_while(said, PATIENCE, lacks).expect("no panic while it is held");
        let line = said.text.lines().find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("never said {text:?}, but {}", said.text)).to_owned()
    }

    pub fn events(&self) -> String {
        fs::read_to_string(self.folders.path().join("events.jsonl")).unwrap_or_default()
    }

    /// Waits until the event log has a line with all of `parts`; that line.
    pub fn wait_event(&self, parts: &[&str]) -> String {
        let mut found = None;
        self.wait_for("an event", |server| {
            let events = server.events();
            found = events.lines().find(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned);
            found.is_some()
        });
        found.expect("waited for")
    }

    /// Repeats `done` until it is true.
    pub fn wait_for(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "waited in vain for: {what}; it said {}", self.stderr_text());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// A page of `/metrics`.
pub struct Metrics(String);

impl Metrics {
    /// A sample, labels included in the name.
    pub fn value(&self, name: &str) -> f64 {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {}", self.0)).parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failed test must not leave its server behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the program said:\n{}\nevents:\n{}", self.stderr_text(), self.events());
        }
    }
}

/// Keeps a profile in the state folder, by default of a disk that has time for every test: a measurement on a busy machine may give
/// any figure, and the admitted rate would be as arbitrary.
fn assume_disk(root: &Path, state: &Path, profile: &DiskProfile) {
    let disk = identify(root).expect("the root is there");
    let profile = profile.clone().scaled_to(disk.capacity);
    let source = ProfileSource::BlockDevice { device: disk.device.clone().unwrap_or_default() };
    calibrate::save(state, &Calibration { disk, source, profile, notes: Vec::new(), disturbed: false }).expect("kept");
}
