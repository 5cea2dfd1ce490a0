//! The server under Debian's SNMP agent: `snmpwalk` and its like read the same figures as `/metrics` shows.
//!
//! Promise: the agent is one of our own, on a port of its own of loopback, with its own settings and socket.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::client::{Client, pattern};
use crate::common::disk::{Disk, FileSystem, possible};
use crate::common::server::{Server, Setup};
use crate::common::skip::skipped;
use crate::common::until;
use tempfile::TempDir;

const MIB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../packaging/ISOCAST-MIB.txt");

/// Our own `snmpd`, and the `snmptrapd` that gets its traps.
struct Agent {
    port: u16,
    trap_port: u16,
    folder: TempDir,
    running: Vec<Child>,
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}

impl Agent {
    /// An agent that is not started yet; none if a program is missing.
    fn installed() -> Option<Self> {
        for (program, package) in [("snmpd", "snmpd"), ("snmptrapd", "snmptrapd"), ("snmpget", "snmp")] {
            if !["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(program).exists()) {
                skipped(&format!("{program} is not installed (Debian: {package})"));
                return None;
            }
        }
        // Not below the target folder: the path of a socket is short.
        let folder = tempfile::tempdir().expect("a temporary folder");
        Some(Self { port: free_port(), trap_port: free_port(), folder, running: Vec::new() })
    }

    fn started() -> Option<Self> {
        let mut agent = Self::installed()?;
        agent.start();
        Some(agent)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("master")
    }

    fn start(&mut self) {
        let agent = format!(
            "master agentx\nagentXSocket {}\nrocommunity public 127.0.0.1\ntrap2sink 127.0.0.1:{} public\n",
            self.socket().display(),
            self.trap_port
        );
        self.run("snmptrapd", "disableAuthorization yes\n", &["-n", "-m", MIB], self.trap_port);
        self.run("snmpd", &agent, &["-r"], self.port);
    }

    fn run(&mut self, program: &str, settings: &str, options: &[&str], port: u16) {
        let config = self.folder.path().join(format!("{program}.conf"));
        fs::write(&config, settings).expect("written");
        let mut command = Command::new(Path::new("/usr/sbin").join(program));
        command.args(["-f", "-C", "-Lf"]).arg(self.log(program)).arg("-c").arg(config).args(options);
        command.arg(format!("udp:127.0.0.1:{port}"));
        command.env("SNMP_PERSISTENT_DIR", self.folder.path()).env("MIBS", "").stdin(Stdio::null());
        self.running.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
    }

    fn log(&self, program: &str) -> PathBuf {
        self.folder.path().join(format!("{program}.log"))
    }

    fn stop(&mut self) {
        for mut child in self.running.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Output of a tool on an object of the agent; `None`: it fails, or the agent has no such object.
    fn ask(&self, tool: &str, options: &[&str], object: &str) -> Option<String> {
        let mut command = Command::new(tool);
        command.args(["-v2c", "-c", "public", "-t", "5", "-Pe", "-m", MIB]).args(options);
        command.arg(format!("udp:127.0.0.1:{}", self.port)).arg(format!("ISOCAST-MIB::{object}"));
        let output = command.output().expect("it starts");
        let text = String::from_utf8(output.stdout).expect("text");
        (output.status.success() && !text.contains("No Such Object")).then_some(text)
    }

    fn value(&self, object: &str) -> f64 {
        let said = self.ask("snmpget", &["-OqvUte"], object).unwrap_or_else(|| panic!("no {object}"));
        said.trim().parse().unwrap_or_else(|_| panic!("{object}: {said}"))
    }

    /// Starts a server, and waits until this agent has registered it.
    fn serving(&self, setup: Setup) -> Server {
        let server = setup.set(&format!("snmp.agentx={}", self.socket().display())).start();
        self.wait_until_known(&server);
        server
    }

    fn wait_until_known(&self, server: &Server) {
        server.wait_for("the agent to know the server", |_| self.ask("snmpget", &[], "isocastVersion.0").is_some());
    }

    /// Waits for a notification with all of these.
    fn wait_notification(&self, server: &Server, parts: &[&str]) {
        let log = self.log("snmptrapd");
        server.wait_for(&format!("{parts:?}"), |_| {
            let told = fs::read_to_string(&log).unwrap_or_default();
            told.lines().any(|line| parts.iter().all(|part| line.contains(part)))
        });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            for program in ["snmpd", "snmptrapd"] {
                eprintln!("{program} said:\n{}", fs::read_to_string(self.log(program)).unwrap_or_default());
            }
        }
    }
}

/// Objects and the samples of `/metrics` that show the same.
const SAME: [(&str, &str); 18] = [
    ("isocastStreams.0", "isocast_streams"),
    ("isocastPromisedRate.0", "isocast_promised_bytes_per_second"),
    ("isocastSentBytes.0", "isocast_sent_bytes_total"),
    ("isocastMisses.0", "isocast_misses_total"),
    ("isocastStreamsStarted.0", "isocast_streams_started_total"),
    ("isocastStreamsRefused.0", "isocast_streams_refused_total"),
    ("isocastUploads.0", "isocast_uploads"),
    ("isocastUploadBytes.0", "isocast_upload_bytes_total"),
    ("isocastSessions.0", "isocast_sessions"),
    ("isocastSmallReads.0", "isocast_small_reads_total"),
    ("isocastConstantStreams.0", "isocast_running{class=\"constant\"}"),
    ("isocastBestEffortStreams.0", "isocast_running{class=\"best_effort\"}"),
    ("isocastRecordings.0", "isocast_running{class=\"recording\"}"),
    ("isocastRefusals.disk", "isocast_refusals_total{resource=\"disk\"}"),
    ("isocastRefusals.network", "isocast_refusals_total{resource=\"network\"}"),
    ("isocastRefusals.draining", "isocast_refusals_total{resource=\"draining\"}"),
    ("isocastLinkCapacity.1", "isocast_link_capacity_bytes_per_second{link=\"lo\"}"),
    ("isocastLinkPromised.1", "isocast_link_promised_bytes_per_second{link=\"lo\"}"),
];

#[test]
fn the_snmp_agent_agrees_with_the_metrics() {
    let Some(agent) = Agent::started() else { return };
    let server = agent.serving(Setup::default().set("links.lo=20M"));
    server.file("film.ts", &pattern(5_000_000));
    let mut running: Vec<Client> = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect();
        client.get("/media/film.ts?rate=3M");
        assert_eq!(client.head().status, 200);
        running.push(client);
    }
    assert_eq!(server.get("/media/film.ts?rate=19M").status, 503);
    assert_eq!(server.put("/media/new.ts", "", &pattern(1000)).status, 201);
    assert_eq!((agent.value("isocastStreams.0"), server.metric("isocast_streams")), (3.0, 3.0));
    assert_eq!((agent.value("isocastDiskStreams.1"), agent.value("isocastConstantStreams.0")), (3.0, 3.0));
    let promised = ["isocastPromisedRate.0", "isocastLinkPromised.1"].map(|object| agent.value(object));
    assert!(promised[0] == 1_125_000.0 && promised[1] >= promised[0], "three of 3 Mbit/s: {promised:?}");
    assert_eq!(promised[1], server.metric("isocast_link_promised_bytes_per_second{link=\"lo\"}"));
    // While bytes are sent their number grows.
    let mut before = 0.0;
    server.wait_for("bytes", |server| {
        before = server.metric("isocast_sent_bytes_total");
        before > 0.0
    });
    let told = agent.value("isocastSentBytes.0");
    assert!(before <= told && told <= server.metric("isocast_sent_bytes_total"), "{before} {told}");

    drop(running);
    server.wait_for("the end of the streams", |server| server.metric("isocast_streams") == 0.0);
    for (object, sample) in SAME {
        // Some change by themselves, as sessions end: those count that were the same before and after.
        let (before, told, after) = until("a figure that stays", || {
            let [before, told, after] = [server.metric(sample), agent.value(object), server.metric(sample)];
            if before == after { Ok((before, told, after)) } else { Err(format!("{object}: {before}, {after}")) }
        });
        assert!(told == before && told == after, "{object}: {told} of {before}");
    }
    let counted =
        ["isocastStreamsStarted.0", "isocastStreamsRefused.0", "isocastRefusals.network", "isocastUploadBytes.0"];
    assert_eq!(counted.map(|object| agent.value(object)), [3.0, 1.0, 1.0, 1000.0]);
    let table = agent.ask("snmptable", &["-Ci", "-CH"], "isocastDiskTable").expect("a table");
    let disks = server.json("/api/v1/disks");
    let disks = disks.as_array().expect("disks");
    assert_eq!(table.lines().filter(|line| !line.trim().is_empty()).count(), disks.len(), "{table}");
    assert!(table.contains(disks[0]["name"].as_str().expect("a name")) && table.contains("good"), "{table}");
}

#[test]
fn every_object_of_the_mib_is_there_and_nothing_else() {
    let Some(agent) = Agent::started() else { return };
    let _server = agent.serving(Setup::default());
    let text = fs::read_to_string(MIB).expect("the MIB");
    let mut objects: Vec<&str> = text
        .split("\n\n")
        .filter(|paragraph| paragraph.contains("MAX-ACCESS  read-only"))
        .filter_map(|paragraph| paragraph.trim_start().split(' ').next())
        .collect();
    let walked = agent.ask("snmpwalk", &["-Oq"], "isocastMIB").expect("a walk");
    let mut found: Vec<&str> = walked
        .lines()
        .map(|line| {
            let name = line.strip_prefix("ISOCAST-MIB::").unwrap_or_else(|| panic!("{line} is not of our MIB"));
            name.split('.').next().expect("a name")
        })
        .collect();
    objects.sort_unstable();
    found.sort_unstable();
    found.dedup();
    // A server without volumes and alarms has no rows of these two tables.
    objects.retain(|object| !["isocastVolumeDisk", "isocastAlarm"].iter().any(|table| object.starts_with(table)));
    assert_eq!(found, objects);
    assert_eq!(
        agent.ask("snmpbulkwalk", &["-Oq"], "isocastObjects").expect("a walk").lines().count(),
        walked.lines().count()
    );
}

#[test]
fn a_refusal_sends_a_notification() {
    let Some(agent) = Agent::started() else { return };
    let server = agent.serving(Setup::default().set("links.lo=20M"));
    server.file("film.ts", &pattern(1_000_000));
    assert_eq!(server.get("/media/film.ts?rate=30M").status, 503);
    let refused = [
        "ISOCAST-MIB::isocastStreamRefused",
        "isocastEventPath.0 = STRING: \"film.ts\"",
        "isocastEventClient.0 = STRING: \"127.0.0.1\"",
        "isocastEventRate.0 = Counter64: 30000000",
        "isocastEventResource.0 = STRING: \"network lo\"",
    ];
    agent.wait_notification(&server, &refused);
}

/// A server cannot end while its disk hangs.
struct Revive<'a>(&'a Disk);

impl Drop for Revive<'_> {
    fn drop(&mut self) {
        self.0.ctl("revive");
    }
}

#[test]
fn a_failing_disk_sends_a_notification() {
    let Some(agent) = Agent::started() else { return };
    if !possible(64 << 20) {
        return;
    }
    let disk = Disk::up("snmp", "1G", FileSystem::Ext4);
    let server = agent.serving(Setup::default().root(&disk.mount()));
    let film = server.file("film.ts", &pattern(20_000_000));
    fs::File::open(film).and_then(|film| film.sync_all()).expect("written");
    let name = server.json("/api/v1/disks")[0]["name"].as_str().expect("a name").to_owned();
    let named = format!("isocastDiskName.1 = STRING: \"{name}\"");
    let mut client = server.connect();
    client.get("/media/film.ts?rate=8M");
    assert_eq!(client.head().status, 200);
    let revived = Revive(&disk);
    disk.ctl("hang");
    agent.wait_notification(&server, &["isocastDiskFailing", &named, "isocastDiskState.1 = INTEGER: hung(3)"]);
    assert_eq!(
        (agent.value("isocastDiskState.1"), server.metric(&format!("isocast_disk_hung{{disk=\"{name}\"}}"))),
        (3.0, 1.0)
    );
    drop(revived);
    agent.wait_notification(&server, &["isocastDiskRecovered", &named, "isocastDiskState.1 = INTEGER: good(1)"]);
    assert_eq!(agent.value("isocastDiskState.1"), 1.0);
}

#[test]
fn a_miss_sends_a_notification_once_its_bytes_have_come() {
    let Some(agent) = Agent::started() else { return };
    if !possible(128 << 20) {
        return;
    }
    let disk = Disk::up("snmp-miss", "1G", FileSystem::Ext4);
    let server = agent.serving(Setup::default().root(&disk.mount()));
    let film = server.file("film.ts", &pattern(60_000_000));
    fs::File::open(film).and_then(|film| film.sync_all()).expect("written");
    let mut client = server.connect();
    client.get("/media/film.ts?rate=8M");
    assert_eq!(client.head().status, 200);
    // A stream that its client does not read misses nothing.
    let mut reading = client.stream.try_clone().expect("a socket");
    let reader = std::thread::spawn(move || drop(std::io::copy(&mut reading, &mut std::io::sink())));
    let revived = Revive(&disk);
    disk.ctl("hang");
    // The look-ahead lasts for three seconds; five without an answer would end the stream.
    server.wait_for("a miss", |server| server.metric("isocast_misses_total") > 0.0);
    drop(revived);
    agent.wait_notification(&server, &["ISOCAST-MIB::isocastMiss", "isocastEventStream.0", "isocastEventLateness.0"]);
    assert!(agent.value("isocastMisses.0") > 0.0);
    let _ = client.stream.shutdown(std::net::Shutdown::Both);
    reader.join().expect("no panic");
}

#[test]
fn a_folder_that_is_away_sends_a_notification() {
    let Some(agent) = Agent::started() else { return };
    let server = agent.serving(Setup::default());
    let state = || agent.value("isocastFolderState.1");
    assert_eq!(
        (state(), server.metric(&format!("isocast_folder_away{{folder=\"{}\"}}", server.root.display()))),
        (1.0, 0.0)
    );
    let aside = server.root.with_extension("aside");
    fs::rename(&server.root, &aside).expect("renamed");
    server.wait_for("the folder to be away", |server| server.get("/media/").status == 503);
    let folder = format!("isocastEventFolder.0 = STRING: \"{}\"", server.root.display());
    agent.wait_notification(&server, &["ISOCAST-MIB::isocastFolderAway", &folder]);
    assert_eq!(state(), 2.0);
    fs::rename(&aside, &server.root).expect("renamed");
    server.wait_for("the folder to be back", |server| server.get("/media/").status == 200);
    agent.wait_notification(&server, &["ISOCAST-MIB::isocastFolderBack", &folder]);
    assert_eq!((state(), agent.value("isocastFolderDisk.1")), (1.0, 1.0));
}

#[test]
fn an_agent_that_is_away_is_waited_for() {
    let Some(mut agent) = Agent::installed() else { return };
    let server = Setup::default().set(&format!("snmp.agentx={}", agent.socket().display())).start();
    let film = pattern(100_000);
    server.file("film.ts", &film);
    let said = |server: &Server| server.stderr_text().lines().filter(|line| line.contains("SNMP: ")).count();
    server.wait_stderr_line("SNMP: no agent at ");
    for times in 1..=3 {
        assert!(server.get("/media/film.ts?rate=8M").body == film, "nothing is lost to streams");
        assert_eq!(said(&server), times, "{}", server.stderr_text());
        agent.start();
        agent.wait_until_known(&server);
        agent.stop();
        server.wait_for("the end of the agent", |server| said(server) > times);
    }
}

#[test]
fn a_second_server_at_one_agent_waits_for_the_first() {
    let Some(agent) = Agent::started() else { return };
    let first = agent.serving(Setup::default());
    let second = Setup::default().set(&format!("snmp.agentx={}", agent.socket().display())).start();
    second.wait_stderr_line(
        "refuses our part of the tree: another program, perhaps a second one of this kind, answers for it",
    );
    assert!(!second.stderr_text().contains("no agent at"), "{}", second.stderr_text());
    drop(first);
    agent.wait_until_known(&second);
}
