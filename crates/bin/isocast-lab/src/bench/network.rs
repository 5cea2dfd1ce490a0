//! A network between server and client on one machine: two network namespaces, a virtual cable (veth, MTU 1500) and, on
//! request, a shaper (TBF) at the server's end.
//!
//! Promise: the machine's own network stays as it is. The namespaces are removed at the end of the benchmark; after a kill, the
//! next benchmark removes them. Not here: starting servers in them (`server`).

use std::path::Path;

use crate::say;
use anyhow::{Context, bail};
use units::BitRate;

use super::{Stop, child};

/// Address on which the server listens.
pub(super) const SERVER: &str = "10.213.77.1";
/// The server's port: no other program is in its namespace.
pub(super) const PORT: u16 = 8080;
/// The server's end of the cable.
pub(super) const INTERFACE: &str = "veth0";
const CLIENT: &str = "10.213.77.2";
const MTU: u32 = 1500;
const PREFIX: &str = "isocast-bench";
const PLACE: &str = "/run/netns";
/// Burst of the shaper: some segments of the size that the kernel hands over (64 KiB).
const BURST: &str = "256kb";
/// Longest wait of a packet in the shaper, which drops it then.
const LATENCY: &str = "50ms";
/// Assumed rate of a cable without a shaper.
const UNSHAPED: BitRate = BitRate(10_000_000_000);
const PACKAGE: &str = "iproute2";

/// The two namespaces; dropping this removes them.
#[derive(Debug)]
pub(super) struct Network {
    owner: u32,
}

/// The namespace `end` (`client` or `server`) of the benchmark `owner`.
fn name(owner: u32, end: &str) -> String {
    format!("{PREFIX}-{owner}-{end}")
}

impl Network {
    /// Makes the namespaces and the cable.
    ///
    /// # Errors
    /// No root, no `ip` or `tc`, or a kernel without veth or TBF.
    pub(super) fn up(shape: Option<BitRate>) -> anyhow::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("--network needs root: it makes network namespaces");
        }
        remove_left();
        let network = Self { owner: std::process::id() };
        let (client, server) = (name(network.owner, "client"), name(network.owner, "server"));
        let mut lines = vec![
            format!("ip netns add {client}"),
            format!("ip netns add {server}"),
            format!(
                "ip -n {server} link add {INTERFACE} mtu {MTU} type veth peer name {INTERFACE} mtu {MTU} netns {client}"
            ),
        ];
        for (end, address) in [(&client, CLIENT), (&server, SERVER)] {
            lines.push(format!("ip -n {end} addr add {address}/24 dev {INTERFACE}"));
            lines.push(format!("ip -n {end} link set lo up"));
            lines.push(format!("ip -n {end} link set {INTERFACE} up"));
        }
        if let Some(rate) = shape {
            lines.push(format!(
                "tc -n {server} qdisc add dev {INTERFACE} root tbf rate {}bit burst {BURST} latency {LATENCY}",
                rate.0
            ));
        }
        // If a command fails, dropping `network` removes the parts made so far.
        lines.iter().try_for_each(|line| child::tool(line, PACKAGE).map(drop))?;
        Ok(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove(self.owner);
    }
}

/// Runs this process's command line again in the client's namespace of a new network.
///
/// # Errors
/// The network cannot be made, or the run failed.
pub(super) fn run_inside(shape: Option<BitRate>, stop: &Stop) -> anyhow::Result<()> {
    let network = Network::up(shape).context("making a network")?;
    let (client, server) = (name(network.owner, "client"), name(network.owner, "server"));
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    arguments.extend(["--inside".into(), server.into()]);
    child::this_program(&arguments, &enter(&client), stop)
}

/// The arguments to put before a command line so that it runs in `namespace`. `nsenter` enters only the network; `ip netns
/// exec` would also change mounts.
pub(super) fn enter(namespace: &str) -> Vec<String> {
    vec!["nsenter".to_owned(), format!("--net={PLACE}/{namespace}"), "--".to_owned()]
}

/// The setting of our server's link: the rate of the cable. Admission itself adds the packet headers.
pub(super) fn link_setting(shape: Option<BitRate>) -> String {
    let rate = shape.unwrap_or(UNSHAPED);
    format!("links.{INTERFACE}={}k", rate.0 / 1_000)
}

/// Removes the namespaces of killed benchmarks.
fn remove_left() {
    for entry in std::fs::read_dir(PLACE).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let owner = file.to_str().and_then(owner_of);
        if let Some(owner) = owner.filter(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            remove(owner);
        }
    }
}

fn owner_of(namespace: &str) -> Option<u32> {
    namespace.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-').next()?.parse().ok()
}

/// Removes both namespaces, and the cable with them.
fn remove(owner: u32) {
    for end in ["client", "server"] {
        let name = name(owner, end);
        if Path::new(PLACE).join(&name).exists()
            && let Err(error) = child::tool(&format!("ip netns del {name}"), PACKAGE)
        {
            say(format_args!("isocast bench: {error:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_names_the_process_it_belongs_to() {
        assert_eq!(owner_of(&name(4711, "server")), Some(4711));
        assert_eq!(owner_of("isocast-bench-x-client"), None);
        assert_eq!(owner_of("somebody-elses"), None);
    }

    #[test]
    fn the_links_setting_has_the_rate_of_the_cable() {
        assert_eq!(link_setting(Some(BitRate(1_000_000_000))), "links.veth0=1000000k");
        assert_eq!(link_setting(None), "links.veth0=10000000k");
    }
}
