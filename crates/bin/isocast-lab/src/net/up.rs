//! Making a network of guests, and taking it down.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use units::{BitRate, Nanos};

use super::network_folder::NetworkFolder;
use super::{daemon, guests};
use crate::say;

/// Bytes shown of the log of a daemon that ended early.
const DAEMON_LOG_MAX: u64 = 4096;
/// A network ends within this time, guests included.
const END_MAX: Duration = Duration::from_secs(20);

/// Make a network: guests (User-mode Linux) with TIPC and TCP on an Ethernet of this program, ready in some seconds.
#[derive(Debug, Clone, Args)]
pub(super) struct NetUp {
    /// Name of the network.
    #[arg(default_value = "net0")]
    pub(super) name: String,
    /// Number of nodes.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=8))]
    pub(super) nodes: u8,
    /// Most that each node sends; as fast as the machine can if not given.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub(super) rate: Option<BitRate>,
    /// Percent of the frames that are lost.
    #[arg(long, value_name = "PERCENT", value_parser = daemon::loss)]
    pub(super) loss: Option<f64>,
    /// Delay of a frame.
    #[arg(long, value_name = "SPAN", value_parser = units::parse_duration)]
    pub(super) delay: Option<Nanos>,
}

impl NetUp {
    /// Prints the network's nodes once it is up.
    pub(super) fn report(&self, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        if json {
            let node =
                |node: u8| json!({ "node": node, "ip": format!("10.9.0.{node}"), "tipc": format!("1.1.{node}") });
            let nodes: serde_json::Value = (1..=self.nodes).map(node).collect();
            return Ok(writeln!(out, "{:#}", json!({ "name": self.name, "nodes": nodes }))?);
        }
        writeln!(out, "{}: {} nodes, 10.9.0.1 and so on, TIPC 1.1.1 and so on", self.name, self.nodes)?;
        Ok(writeln!(out, "run something there: isocast lab net run --name {} 1 -- tipc link list", self.name)?)
    }

    /// Starts the network's daemon and waits until it is ready.
    ///
    /// # Errors
    /// Something is not installed, the name is taken, or the guests do not start.
    pub(super) fn make(&self) -> anyhow::Result<NetworkFolder> {
        let home = NetworkFolder::of(&self.name)?;
        if let Some(missing) = guests::missing() {
            bail!("{missing}");
        }
        if home.ask("stat").is_ok() {
            bail!("network `{0}` is already up; `isocast lab net down {0}` first, or choose another name", self.name);
        }
        if home.folder.exists() {
            home.remove().context("removing the remains of a network that was killed")?;
        }
        home.make().with_context(|| format!("making {}", home.folder.display()))?;
        // The daemon removes it with the folder at its end; the open file keeps the log readable here.
        let mut log = File::options().read(true).write(true).create_new(true).open(home.folder.join("daemon.log"))?;
        let mut daemon = Command::new("/proc/self/exe");
        daemon.args(["net", "daemon", &self.name, "--nodes", &self.nodes.to_string()]);
        let option = |name: &str, value: Option<String>| value.map(|value| [name.to_owned(), value]);
        daemon.args(option("--rate", self.rate.map(|rate| format!("{}bit/s", rate.0))).into_iter().flatten());
        daemon.args(option("--loss", self.loss.map(|share| (share * 100.0).to_string())).into_iter().flatten());
        daemon.args(option("--delay", self.delay.map(|span| format!("{}us", span.0 / 1000))).into_iter().flatten());
        let mut daemon = daemon.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.try_clone()?).spawn()?;
        let mut said = String::new();
        if let Some(stdout) = daemon.stdout.take() {
            BufReader::new(stdout.take(80)).read_line(&mut said)?;
        }
        if said.trim() == "ready" {
            return Ok(home);
        }
        let _ = daemon.wait();
        let mut why = String::new();
        log.rewind()?;
        log.take(DAEMON_LOG_MAX).read_to_string(&mut why)?;
        bail!("network `{}` does not start: {}", self.name, why.trim())
    }
}

/// Takes a network down, whatever state it is in.
pub(super) fn down(home: &NetworkFolder) -> anyhow::Result<()> {
    if !home.folder.exists() {
        bail!("network `{}` is not up; see `isocast lab net list`", home.name);
    }
    if home.ask("end").is_err() {
        say(format_args!("network `{}` was killed; its guests ended with it", home.name));
        return home.remove().context("removing its remains");
    }
    let end = std::time::Instant::now() + END_MAX;
    while home.folder.exists() {
        if std::time::Instant::now() > end {
            bail!("network `{}` does not end", home.name);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
