//! The command line: `isocast-lab net …`, which `isocast net` starts.

use std::io::Write;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;
use units::Nanos;

use super::daemon::{self, COMMANDS};
use super::figures::FiguresCommand;
use super::hub::Cables;
use super::network_folder::NetworkFolder;
use super::transfer::{ServeCommand, TestCommand};
use super::up::{NetUp, down};
use crate::tell_down;

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
    /// Change the cables of a network, or print their counters.
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

impl NetCommand {
    /// Does it, and prints to `out`.
    ///
    /// # Errors
    /// A missing part or a failure, with its remedy; of `run`, that the command failed.
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
                    // Errors are ignored: the reader may have gone.
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
