//! The nodes: User-mode Linux guests of Debian's package, and the commands in them.
//!
//! Promise: guests see the machine's own files, read only but for the network's folder; they end with this process.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::bench::CountedNames;
use crate::child;

const PROGRAM: &str = "linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";
/// Buffer of each end of a cable: 1.6 Gbit/s between two guests were measured with it.
const CABLE_BYTES: usize = 1 << 20;
const BOOT_MAX: Duration = Duration::from_secs(60);
const MEMORY: &str = "256M";
/// Message of a guest's kernel where the host's processor has registers for which it keeps no room, before its init is killed. Seen
/// with Debian 12's User-mode Linux 6.1 on a processor with AMX.
const TOO_MANY_REGISTERS: &str = "ptrace set fp regs failed, errno = 14";
/// The script that each guest begins with, in the network's folder.
pub(super) const INIT: &str = "init";

/// Names the missing requirement for guests and its remedy; `None` if none is missing.
pub(super) fn missing() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into(), "/usr/bin".into()]).collect();
    let needed = [(PROGRAM, "user-mode-linux"), ("busybox", "busybox-static"), ("tipc", "iproute2")];
    let lacking: Vec<&str> = needed
        .iter()
        .filter(|(program, _)| !folders.iter().any(|folder| folder.join(program).is_file()))
        .map(|&(_, package)| package)
        .collect();
    if lacking.is_empty() && Path::new(MODULES).is_dir() {
        return None;
    }
    let packages = if lacking.is_empty() { "user-mode-linux".to_owned() } else { lacking.join(" ") };
    Some(format!(
        "guests with TIPC need User-mode Linux (Debian: `apt install {packages}`); TCP is measured without: \
         `isocast net test --transport tcp`"
    ))
}

/// Senders of exit statuses, by the id of a run, each with its node.
type RunWaiters = Arc<Mutex<HashMap<String, (usize, Sender<i32>)>>>;

/// All nodes of a network.
pub(super) struct Guests {
    nodes: Vec<Guest>,
    waiting: RunWaiters,
    /// Messages of the nodes: ready, or the reason for a failed start.
    reports: Mutex<Receiver<Result<(), String>>>,
}

struct Guest {
    child: Mutex<Child>,
    console: Mutex<UnixStream>,
}

impl Guests {
    /// Starts `count` guests; returns them and the hub's ends of their cables, which must be served before they get ready.
    ///
    /// # Errors
    /// One does not start.
    pub(super) fn start(home: &Path, count: usize, rate_bps: Option<u64>) -> anyhow::Result<(Self, Vec<OwnedFd>)> {
        let (say, reports) = channel();
        let mut guests = Self { nodes: Vec::new(), waiting: Arc::default(), reports: Mutex::new(reports) };
        let mut ports = Vec::new();
        for node in 1..=count {
            let (port, guest_end) = cable().context("a cable")?;
            let (console, guest_console) = UnixStream::pair().context("a console")?;
            let words = [
                format!("LAB={}", home.display()),
                format!("N={node}"),
                format!("NODES={count}"),
                format!("RATE={}", rate_bps.map_or(String::new(), |rate| rate.to_string())),
            ];
            let child = boot(home, node, &words, &guest_end, &guest_console)?;
            let heard = BufReader::new(console.try_clone()?);
            guests.nodes.push(Guest { child: Mutex::new(child), console: Mutex::new(console) });
            ports.push(port);
            let (say, waiting, log) = (say.clone(), Arc::clone(&guests.waiting), log_of(home, node));
            std::thread::Builder::new()
                .name(format!("console{node}"))
                .spawn(move || listen(node, heard, &log, &say, &waiting))?;
        }
        Ok((guests, ports))
    }

    /// Returns when all nodes have their links.
    ///
    /// # Errors
    /// One will not, or not within a minute.
    pub(super) fn wait_ready(&self) -> anyhow::Result<()> {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in &self.nodes {
            match reports.recv_timeout(BOOT_MAX) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => bail!("{why}"),
                Err(_) => bail!("a guest was not ready within {} s", BOOT_MAX.as_secs()),
            }
        }
        Ok(())
    }

    /// Runs `ID.sh` of the network's folder on a node; its exit status comes through the channel, unless the node ends first.
    ///
    /// # Errors
    /// There is no such node.
    pub(super) fn run(&self, node: usize, id: &str) -> anyhow::Result<Receiver<i32>> {
        let (tell, told) = channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), (node, tell));
        self.order(node, &format!("run {id}\n")).map(|()| told)
    }

    /// Ends the command `id` on `node`.
    pub(super) fn end(&self, node: usize, id: &str) {
        // A node that has ended runs nothing.
        let _ = self.order(node, &format!("end {id}\n"));
    }

    fn order(&self, node: usize, line: &str) -> anyhow::Result<()> {
        let guest = node.checked_sub(1).and_then(|index| self.nodes.get(index));
        let guest = guest.with_context(|| format!("there is no node {node}: they are 1 to {}", self.nodes.len()))?;
        let mut console = guest.console.lock().unwrap_or_else(PoisonError::into_inner);
        console.write_all(line.as_bytes()).with_context(|| format!("node {node} has ended"))
    }

    /// The host's processor time of each node, its kernel included.
    pub(super) fn processor_ns(&self) -> Vec<u64> {
        let child = |guest: &Guest| guest.child.lock().unwrap_or_else(PoisonError::into_inner).id();
        let of =
            |guest: &Guest| CountedNames { server: Some(child(guest)), ..CountedNames::default() }.read().server_cpu_ns;
        self.nodes.iter().map(|guest| of(guest).unwrap_or(0)).collect()
    }

    /// Number of nodes.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Ends all nodes.
    pub(super) fn stop(&self) {
        for guest in &self.nodes {
            let mut child = guest.child.lock().unwrap_or_else(PoisonError::into_inner);
            // Its helpers are in its group; they would stay if it alone were killed.
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Both ends of a cable: frames are kept apart.
fn cable() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (port, guest) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    for end in [&port, &guest] {
        sockopt::set_socket_send_buffer_size(end, CABLE_BYTES)?;
        sockopt::set_socket_recv_buffer_size(end, CABLE_BYTES)?;
    }
    Ok((port, guest))
}

fn boot(home: &Path, node: usize, words: &[String], cable: &OwnedFd, console: &UnixStream) -> anyhow::Result<Child> {
    // The guest inherits these two; nothing else is started meanwhile, and both are closed here right after.
    for end in [cable.as_fd(), console.as_fd()] {
        fcntl_setfd(end, FdFlags::empty())?;
    }
    let (cable, console) = (cable.as_raw_fd(), console.as_raw_fd());
    let log = File::create(log_of(home, node))?;
    let mut command = child::command(Path::new(PROGRAM));
    command
        .arg(format!("mem={MEMORY}"))
        .args(["rootfstype=hostfs", "root=/dev/root", "rootflags=/", "ro", "quiet"])
        .arg(format!("init={}", home.join(INIT).display()))
        .args(words)
        .arg(format!("vec0:transport=fd,fd={cable},mac=02:00:00:00:09:0{node}"))
        .args(["con=null", "con0=fd:0,fd:1"])
        .arg(format!("con1=fd:{console},fd:{console}"))
        .arg(format!("uml_dir={}", home.join("uml").display()))
        .arg(format!("umid=node{node}"))
        // A guest's memory is a file there; on a disk it would be slow.
        .env_remove("TMPDIR")
        .env_remove("TMP")
        .env_remove("TEMP")
        .stdin(Stdio::null())
        .stderr(log.try_clone()?)
        .stdout(log);
    command.spawn().with_context(|| format!("starting {PROGRAM}"))
}

/// Log of its kernel.
fn log_of(home: &Path, node: usize) -> PathBuf {
    home.join(format!("node{node}.log"))
}

/// Reads a node's console until the node has ended.
fn listen(
    node: usize,
    heard: BufReader<UnixStream>,
    log: &Path,
    say: &Sender<Result<(), String>>,
    waiting: &RunWaiters,
) {
    let waiting = || waiting.lock().unwrap_or_else(PoisonError::into_inner);
    for line in heard.lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The waiting thread may have gone.
        match words.as_slice() {
            ["ready"] => drop(say.send(Ok(()))),
            ["failed", ..] => drop(say.send(Err(line.trim().to_owned()))),
            ["done", id, status] => {
                if let Some((_, tell)) = waiting().remove(*id) {
                    let _ = tell.send(status.parse().unwrap_or(125));
                }
            }
            _ => {}
        }
    }
    waiting().retain(|_, (of, _)| *of != node);
    // The log goes with the network.
    let log = std::fs::read(log).unwrap_or_default();
    drop(say.send(Err(why_ended(node, &String::from_utf8_lossy(&log)))));
}

/// Reason for the end of a node, from its kernel's log.
fn why_ended(node: usize, log: &str) -> String {
    if log.contains(TOO_MANY_REGISTERS) {
        return "this version of User-mode Linux cannot run on this machine's processor: it has more registers (AMX) than that \
                knows. TCP is measured without: `isocast net test --transport tcp`"
            .to_owned();
    }
    let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    format!("node {node} has ended; it said last: {last}")
}
