//! Greeting of `serve` when it is ready: folders, address, carried streams, rights to write, missing permissions.
//!
//! Promise: at most six lines, each true when it is printed and each with the next step. Not here: details (`--verbose`).

use capacity::{Carried, EXAMPLE_CAMERA_RATE, PlannedCameras, recordings_carried, streams_carried};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use http::ListenAddress;
use kernel::permissions::{PermissionSubject, Permissions};
use units::limits::{self, EXAMPLE_RATE};
use units::{ByteCount, counted};

use super::disks::KnownDisk;
use super::links::Links;
use super::resources;
use super::wiring::upload_memory;
use crate::config::Config;

/// The start names at most this number of disks, and sums up a larger number.
const DISKS_NAMED: usize = 4;
/// A client on another machine needs an address; more addresses than this do not help.
const ADDRESSES_MAX: usize = 4;

/// Everything the lines are made of.
pub(super) struct Greeting<'a> {
    pub(super) config: &'a Config,
    /// Accounts that there are.
    pub(super) users: usize,
    /// The code by which the first account is made.
    pub(super) first_code: Option<&'a str>,
    pub(super) addresses: &'a [ListenAddress],
    pub(super) disks: &'a [KnownDisk],
    pub(super) links: &'a Links,
    /// Permissions and resources that the start missed.
    pub(super) missing: &'a [String],
    pub(super) memory: ByteCount,
}

impl Greeting<'_> {
    /// The lines, in order.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.served(), self.carried(), self.network(), self.writing()];
        lines.extend(self.first_account());
        lines.extend(self.missing());
        lines
    }

    fn served(&self) -> String {
        let served = self.config.roots.iter().chain(self.config.volumes.iter().flatten());
        let roots: Vec<_> = served.map(|path| path.display().to_string()).collect();
        let roots =
            if roots.len() > DISKS_NAMED { format!("{} folders and disks", roots.len()) } else { roots.join(", ") };
        let urls = self.addresses.iter().flat_map(|ListenAddress { scheme, address }| {
            usable(*address, self.links)
                .into_iter()
                .take(ADDRESSES_MAX)
                .map(move |address| format!("{scheme}://{address}/"))
        });
        let urls: Vec<_> = urls.collect();
        format!("serving {roots} on {}", urls.join(" and "))
    }

    fn carried(&self) -> String {
        let streams = |disk: &KnownDisk| carried_by(disk, self.config, self.memory).streams;
        let mut line = format!("streams of {EXAMPLE_RATE} it can carry: ");
        if self.disks.len() > DISKS_NAMED {
            let counts: Vec<u32> = self.disks.iter().map(streams).collect();
            let (least, sum) = (counts.iter().min().unwrap_or(&0), counts.iter().sum::<u32>());
            let _ = write!(line, "{sum} from {} disks, {least} from the slowest of them", self.disks.len());
            return line;
        }
        for (number, disk) in self.disks.iter().enumerate() {
            let comma = if number > 0 { "; " } else { "" };
            let kind = if disk.profile.rotational { "spinning" } else { "flash or memory" };
            let origin = disk.doubt.as_deref().unwrap_or("measured");
            let _ = write!(line, "{comma}{} from disk {} ({kind}, {origin})", streams(disk), disk.name);
        }
        line
    }

    fn network(&self) -> String {
        let links = self.links.0.iter().filter(|link| link.name != "lo").map(|link| {
            let origin = if link.assumed { " assumed" } else { "" };
            let into = if link.shared {
                " both ways together".to_owned()
            } else if link.into == link.out {
                String::new()
            } else {
                format!(" out, {} in", link.into)
            };
            format!("{} {}{into}{origin}", link.name, link.out)
        });
        let text = links.collect::<Vec<_>>().join(", ");
        let advice = if text.contains("assumed") { "; `--set links.NAME=RATE` corrects it" } else { "" };
        format!("network: {}{advice}", if text.is_empty() { "this machine only" } else { &text })
    }

    fn writing(&self) -> String {
        let (users, open) = (self.users, self.addresses.iter().any(|each| !each.address.ip().is_loopback()));
        let writers = match (users, self.config.local_writes) {
            (1.., _) => format!("{}, with a password", counted(users, "user")),
            (0, true) => "programs on this machine".to_owned(),
            (0, false) => "no client (`--local-writes`: this machine)".to_owned(),
        };
        match (self.config.anonymous_reads, users, open) {
            (false, 0, _) => {
                "reading and writing: no client, until there is a user (`isocast user add NAME`)".to_owned()
            }
            (false, ..) => format!("reading and writing: {}, as far as they have the right", counted(users, "user")),
            (true, 0, true) => format!(
                "WARNING: every client that reaches this address can read everything; writing: {writers}, until there is a user \
                 (`isocast user add NAME`)"
            ),
            (true, _, true) => format!("reading: every client that reaches this address; writing: {writers}"),
            (true, _, false) => format!("reading: programs on this machine; writing: {writers}"),
        }
    }

    /// The address at which the first account is made: one at which a password is taken. A browser sends no server the part behind `#`.
    fn first_account(&self) -> Option<String> {
        let code = self.first_code?;
        let all = self.addresses.iter().rev().flat_map(|ListenAddress { scheme, address }| {
            usable(*address, self.links).into_iter().map(move |address| (*scheme, address))
        });
        let takes = |scheme: &str, address: SocketAddr| {
            scheme == "https" || self.config.plain_passwords || address.ip().is_loopback()
        };
        Some(match all.into_iter().find(|(scheme, address)| takes(scheme, *address)) {
            Some((scheme, address)) => {
                format!("no user yet: make the first administrator, once, at {scheme}://{address}/#access?code={code}")
            }
            None => "no user yet: `isocast user add NAME --admin` makes the first administrator".to_owned(),
        })
    }

    fn missing(&self) -> Option<String> {
        let advice = "`--verbose` gives the effect of each and the setting that permits it";
        (!self.missing.is_empty()).then(|| format!("missing: {}: {advice}", self.missing.join(", ")))
    }
}

/// The names of permissions that were refused, and of processor time that the control group does not allow.
pub(super) fn missing(permissions: &Permissions) -> Vec<String> {
    let refused = permissions.refused().filter_map(|refused| name(refused.subject)).map(str::to_owned);
    let quota = resources::cpu_quota().filter(|quota| *quota < 1.0);
    refused.chain(quota.map(|quota| format!("a whole processor (the control group allows {quota:.2})"))).collect()
}

/// Streams of 8.8 Mbit/s that a disk carries with nothing else to do, each of another content.
pub(super) fn carried_by(disk: &KnownDisk, config: &Config, memory: ByteCount) -> Carried {
    let best_effort = f64::from(config.schedule.best_effort_percent) / 100.0;
    streams_carried(&disk.profile, memory, best_effort, EXAMPLE_RATE)
}

/// Recordings of the example's rate that a disk takes with nothing else to do.
pub(super) fn recorded_by(disk: &KnownDisk, config: &Config, allowed: ByteCount) -> u32 {
    let best_effort = f64::from(config.schedule.best_effort_percent) / 100.0;
    let chunks = u64::try_from(upload_memory(allowed).recording_chunks).unwrap_or(u64::MAX);
    let cameras = PlannedCameras {
        count: u32::try_from(limits::UPLOADS_MAX).unwrap_or(u32::MAX),
        rate: EXAMPLE_CAMERA_RATE,
        durable: config.recording_durable,
        memory: ByteCount(chunks.saturating_mul(limits::CHUNK_BYTES)),
    };
    recordings_carried(&disk.profile, best_effort, cameras)
}

/// Addresses that a client can connect to: a wildcard stands for the addresses of all interfaces.
fn usable(address: SocketAddr, links: &Links) -> Vec<SocketAddr> {
    if !address.ip().is_unspecified() {
        return vec![address];
    }
    let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let reached = |ip: &&IpAddr| !link_local(ip) && (ip.is_ipv4() || address.is_ipv6());
    let (loopback, others): (Vec<&IpAddr>, Vec<&IpAddr>) =
        links.0.iter().flat_map(|link| &link.addresses).filter(reached).partition(|ip| ip.is_loopback());
    others.into_iter().chain(loopback).map(|ip| SocketAddr::new(*ip, address.port())).collect()
}

/// Name, in two words, of a permission on which the promise of a rate, or of room for all streams, depends; a permission that
/// only saves processor time is a detail.
const fn name(subject: PermissionSubject) -> Option<&'static str> {
    match subject {
        PermissionSubject::RealTime => Some("real-time priority"),
        PermissionSubject::LockedMemory => Some("locked memory"),
        PermissionSubject::OpenFiles => Some("open files"),
        PermissionSubject::Engine => Some("io_uring"),
        PermissionSubject::Processor => Some("the configured CPU"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use service::config::LinkPair;
    use units::{BitRate, LinkId};

    use super::*;
    use crate::serve::links::NetworkLink;

    fn links() -> Links {
        let link = |name: &str, addresses: &[&str]| NetworkLink {
            name: name.to_owned(),
            out: BitRate(1_000_000_000),
            into: BitRate(1_000_000_000),
            shared: false,
            assumed: name != "lo",
            addresses: addresses.iter().map(|address| address.parse().expect("an address")).collect(),
        };
        Links(vec![link("lo", &["127.0.0.1", "::1"]), link("eth0", &["192.0.2.7", "fe80::1", "2001:db8::7"])])
    }

    fn lines(listen: &str, users: usize, disks: u16) -> Vec<String> {
        let text = format!("listen = \"{listen}\"\nroots = [\"/srv/video\"]\n");
        let config = Config::load_file("f.toml".as_ref(), &text).expect("good");
        let profile = schedule::profile::DiskProfile::spindle_default();
        let disks: Vec<_> = (0..disks)
            .map(|number| KnownDisk {
                id: units::DiskId(number),
                name: format!("sd{number}"),
                profile: profile.clone(),
                doubt: None,
                assumed_at: None,
                measurable_at: None,
            })
            .collect();
        let greeting = Greeting {
            config: &config,
            users,
            first_code: (users == 0).then_some("abc"),
            addresses: &[ListenAddress { scheme: "http", address: config.listen }],
            disks: &disks,
            links: &links(),
            missing: &[],
            memory: ByteCount(1 << 30),
        };
        greeting.lines()
    }

    #[test]
    fn a_server_on_all_interfaces_names_its_addresses_and_warns() {
        let lines = lines("0.0.0.0:80", 0, 1);
        assert_eq!(lines[0], "serving /srv/video on http://192.0.2.7:80/ and http://127.0.0.1:80/");
        assert!(lines[3].starts_with("WARNING") && lines[3].contains("isocast user add"), "{}", lines[3]);
        assert!(lines[4].ends_with(" at http://127.0.0.1:80/#access?code=abc"), "{}", lines[4]);
        assert_eq!(lines.len(), 5, "nothing is missing: {lines:?}");
        let pair = LinkPair { out: LinkId(1), into: LinkId(3) };
        assert!(links().by_address().contains(&("192.0.2.7".parse().expect("an address"), pair)));
    }

    #[test]
    fn each_disk_is_counted_and_many_are_summed_up() {
        assert!(lines("127.0.0.1:80", 1, 2)[1].contains(" from disk sd1 (spinning, measured)"));
        let many = lines("[::]:80", 1, 22);
        assert!(many[1].contains("from 22 disks"), "{}", many[1]);
        assert!(many[0].contains("http://[2001:db8::7]:80/") && !many[0].contains("fe80"), "{}", many[0]);
        assert!(many[3].contains("1 user, "), "{}", many[3]);
    }
}
