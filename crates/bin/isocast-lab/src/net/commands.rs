//! The command line: `isocast-lab net …`, which `isocast net` starts.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use units::{BitRate, Nanos};

use super::daemon::{self, COMMANDS};
use super::figures::FiguresCommand;
use super::guests;
use super::home::NetworkFolder;
use super::hub::Cables;
use super::transfer::{ServeCommand, TestCommand};
use crate::{say, tell_down};

/// Of what its daemon said before it ended, so many bytes are shown.
const DAEMON_LOG_MAX: u64 = 4096;
/// A network ends within this time, guests included.
const END_MAX: Duration = Duration::from_secs(20);

/// Measure a network from memory to memory, and make emulated ones: nodes with TIPC on an Ethernet that can be cut, lossy and slow.
#[derive(Debug, Args)]
pub(crate) struct NetCommand {
    #[command(subcommand)]
    action: NetAction,
}

#[derive(Debug, Subcommand)]
enum NetAction {
    Serve(ServeCommand),
    Test(Box<TestCommand>),
    Figures(FiguresCommand),
    Up {
        #[command(flatten)]
        network: NetUp,
        /// Print the nodes as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take networks down; nothing of them remains.
    Down {
        /// Names of the networks.
        #[arg(default_value = "net0")]
        names: Vec<String>,
        /// All networks.
        #[arg(long, conflicts_with = "names")]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the networks.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change the cables of a network, or say what they carried.
    #[command(after_help = COMMANDS)]
    Ctl {
        /// Name of the network.
        name: String,
        /// The command.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// Run a command on a node, with this machine's programs and files, and pass on its output and exit status.
    Run {
        /// Name of the network.
        #[arg(long, default_value = "net0")]
        name: String,
        /// Print its output and exit status as JSON.
        #[arg(long)]
        json: bool,
        /// The node: 1 has the address 10.9.0.1 and TIPC's 1.1.1, and so on.
        node: usize,
        /// The command line.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    #[command(hide = true)]
    Daemon(NetUp),
}

/// Make a network: guests (User-mode Linux) with TIPC and TCP on an Ethernet of this program, ready in some seconds.
#[derive(Debug, Clone, Args)]
pub(super) struct NetUp {
    /// Name of the network.
    #[arg(default_value = "net0")]
    pub(super) name: String,
    /// How many nodes.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=8))]
    pub(super) nodes: u8,
    /// What each node sends at most; as fast as the machine can if not given.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub(super) rate: Option<BitRate>,
    /// Percent of the frames that are lost.
    #[arg(long, value_name = "PERCENT", value_parser = daemon::loss)]
    pub(super) loss: Option<f64>,
    /// How long a frame is under way.
    #[arg(long, value_name = "SPAN", value_parser = units::parse_duration)]
    pub(super) delay: Option<Nanos>,
}

impl NetCommand {
    /// Does it, and prints to `out`.
    ///
    /// # Errors
    /// Whatever is missing or fails, with what to do about it; of `run`, that the command failed.
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self.action {
            NetAction::Serve(serve) => serve.run(out),
            NetAction::Test(test) => test.run(out),
            NetAction::Figures(figures) => figures.run(out),
            NetAction::Up { network, json } => {
                network.make()?;
                network.report(json, out)
            }
            NetAction::Down { names, all, json } => {
                let homes = if all {
                    NetworkFolder::all()
                } else {
                    names.iter().map(|n| NetworkFolder::of(n)).collect::<Result<_, _>>()?
                };
                homes.iter().try_for_each(down)?;
                let gone: Vec<&str> = homes.iter().map(|home| home.name.as_str()).collect();
                tell_down(&gone, json, out)
            }
            NetAction::List { json } => list(json, out),
            NetAction::Ctl { name, command } => {
                Ok(writeln!(out, "{}", NetworkFolder::of(&name)?.ask(&command.join(" "))?)?)
            }
            NetAction::Run { name, json, node, command } => {
                let ran = NetworkFolder::of(&name)?.run(node, &command)?;
                if json {
                    let [output, errors] = [&ran.out, &ran.err].map(|said| String::from_utf8_lossy(said));
                    writeln!(out, "{:#}", json!({ "status": ran.status, "stdout": output, "stderr": errors }))?;
                } else {
                    out.write_all(&ran.out)?;
                    // Whether anybody reads it or not.
                    let _ = std::io::stderr().write_all(&ran.err);
                }
                out.flush()?;
                if ran.status != 0 {
                    bail!("`{}` on node {node} ended with status {}", command.join(" "), ran.status);
                }
                Ok(())
            }
            NetAction::Daemon(up) => {
                let cables = Cables {
                    loss: up.loss.unwrap_or(0.0),
                    delay_ns: up.delay.unwrap_or(Nanos::ZERO).0,
                    ..Cables::default()
                };
                daemon::run(&up.name, up.nodes.into(), up.rate.map(|rate| rate.0), cables)
            }
        }
    }
}

impl NetUp {
    /// Says what there is, once it is up.
    fn report(&self, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
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
            home.remove().context("what a network that was killed has left")?;
        }
        home.make().with_context(|| format!("making {}", home.folder.display()))?;
        // It goes with the folder, which the daemon removes at its end; what was said is still to be read here.
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

fn list(json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let networks: Vec<(String, bool)> =
        NetworkFolder::all().into_iter().map(|home| (home.name.clone(), home.ask("stat").is_ok())).collect();
    if json {
        let row = |(name, up): &(String, bool)| json!({ "name": name, "up": up });
        return Ok(writeln!(out, "{:#}", networks.iter().map(row).collect::<serde_json::Value>())?);
    }
    for (name, up) in networks {
        writeln!(out, "{name:<12} {}", if up { "up" } else { "dead: `isocast lab net down` cleans up" })?;
    }
    Ok(())
}

/// Takes a network down, whatever state it is in.
pub(super) fn down(home: &NetworkFolder) -> anyhow::Result<()> {
    if !home.folder.exists() {
        bail!("network `{}` is not up; see `isocast lab net list`", home.name);
    }
    if home.ask("end").is_err() {
        say(format_args!("network `{}` was killed; its guests ended with it", home.name));
        return home.remove().context("removing what it left");
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
