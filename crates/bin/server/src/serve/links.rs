//! The links that streams leave and recordings arrive by: each network interface, its addresses, and its rate in each direction.
//!
//! Promise: every local address belongs to a link with a capacity that was configured, read from the kernel, or assumed;
//! assumed ones are reported. Not here: sharing a link out (admission).

use std::net::IpAddr;
use std::path::Path;

use api::LinkDirection;
use service::config::{LinkFigure, LinkPair};
use units::{BitRate, LinkId, limits};

use crate::config::LinkSetting;

/// Loopback has no wire: bounded by memory and processor, which are counted by themselves.
const LOOPBACK: BitRate = BitRate(1_000_000_000_000);
/// An interface that does not tell its speed (most virtual ones) is taken for a gigabit one.
const ASSUMED: BitRate = BitRate(1_000_000_000);

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetworkLink {
    pub(super) name: String,
    /// Rate at which it sends.
    pub(super) out: BitRate,
    /// Rate at which it receives.
    pub(super) into: BitRate,
    /// Both directions share the first of these.
    pub(super) shared: bool,
    pub(super) assumed: bool,
    pub(super) addresses: Vec<IpAddr>,
}

/// All interfaces; the first is loopback. Of each, the direction out has its own number, and the direction in that of all these and its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Links(pub(super) Vec<NetworkLink>);

impl Links {
    /// The interfaces of this machine, with the configured rates over their own reports.
    pub(super) fn discover(configured: &[LinkSetting]) -> Self {
        let link = |name: &str, rate, assumed, shared| NetworkLink {
            name: name.to_owned(),
            out: rate,
            into: rate,
            shared,
            assumed,
            addresses: Vec::new(),
        };
        let mut links = vec![link("lo", LOOPBACK, false, false)];
        for interface in if_addrs::get_if_addrs().unwrap_or_default() {
            let address = interface.ip();
            let name = if address.is_loopback() { "lo" } else { interface.name.as_str() };
            if !links.iter().any(|link| link.name == name) && links.len() < limits::LINKS_MAX / 2 {
                let told = speed_of(name);
                links.push(link(name, told.unwrap_or(ASSUMED), told.is_none(), is_shared(name)));
            }
            if let Some(link) = links.iter_mut().find(|link| link.name == name) {
                link.addresses.push(address);
            }
        }
        for setting in configured {
            if let Some(link) = links.iter_mut().find(|link| link.name == setting.name) {
                link.shared = setting.shared.unwrap_or(link.shared);
                let either = setting.out.or(setting.into);
                link.assumed &= either.is_none();
                link.out = setting.out.or(either.filter(|_| link.shared)).unwrap_or(link.out);
                link.into = setting.into.unwrap_or(link.into);
            }
        }
        Self(links)
    }

    /// Capacities, in the order of [`LinkId`].
    pub(super) fn capacities(&self) -> Vec<BitRate> {
        self.0.iter().map(|link| link.out).chain(self.0.iter().map(|link| link.into)).collect()
    }

    /// The same links with the rates configured now: no new ones, since those in use have their numbers.
    pub(super) fn reconfigured(&self, configured: &[LinkSetting]) -> Self {
        let now = Self::discover(configured);
        let again = |link: &NetworkLink| {
            let now = now.0.iter().find(|other| other.name == link.name);
            NetworkLink { addresses: link.addresses.clone(), ..now.unwrap_or(link).clone() }
        };
        Self(self.0.iter().map(again).collect())
    }

    /// The links of each address.
    pub(super) fn by_address(&self) -> Vec<(IpAddr, LinkPair)> {
        let numbered = self.numbered();
        numbered.flat_map(|(link, pair)| link.addresses.iter().map(move |&address| (address, pair))).collect()
    }

    /// Names, directions and rates, as they are shown.
    pub(super) fn figures(&self) -> Vec<LinkFigure> {
        let figure = |link: &NetworkLink, id, direction, capacity| LinkFigure {
            name: link.name.clone(),
            id,
            direction,
            capacity,
        };
        let out = self.numbered().map(|(link, pair)| {
            let direction = if link.shared { LinkDirection::Both } else { LinkDirection::Out };
            figure(link, pair.out, direction, link.out)
        });
        let apart = self.numbered().filter(|(link, _)| !link.shared);
        out.chain(apart.map(|(link, pair)| figure(link, pair.into, LinkDirection::In, link.into))).collect()
    }

    fn numbered(&self) -> impl Iterator<Item = (&NetworkLink, LinkPair)> {
        let count = u16::try_from(self.0.len()).expect("far fewer than that");
        self.0.iter().zip(0u16..).map(move |(link, id)| {
            let out = LinkId(id);
            (link, LinkPair { out, into: if link.shared { out } else { LinkId(count + id) } })
        })
    }
}

/// True for an interface that cannot send and receive at once: radio, and half duplex.
fn is_shared(name: &str) -> bool {
    let folder = Path::new("/sys/class/net").join(name);
    let duplex = std::fs::read_to_string(folder.join("duplex")).unwrap_or_default();
    folder.join("wireless").exists() || folder.join("phy80211").exists() || duplex.trim() == "half"
}

/// Rate by the driver, in `/sys/class/net/NAME/speed` (Mbit/s; -1 or an error where it does not know).
fn speed_of(name: &str) -> Option<BitRate> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
    let mbits: u64 = text.trim().parse().ok()?;
    (mbits > 0 && mbits < 10_000_000).then(|| BitRate(mbits * 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback(out: Option<u64>, into: Option<u64>, shared: Option<bool>) -> LinkSetting {
        LinkSetting { name: "lo".to_owned(), out: out.map(BitRate), into: into.map(BitRate), shared }
    }

    fn pair(links: &Links) -> LinkPair {
        let address: IpAddr = [127, 0, 0, 1].into();
        links.by_address().into_iter().find(|(known, _)| *known == address).expect("loopback").1
    }

    #[test]
    fn loopback_comes_first_and_is_found_by_its_address() {
        let links = Links::discover(&[loopback(Some(5_000_000), None, None)]);
        let rates = |links: &Links| (links.0[0].out.0, links.0[0].into);
        assert_eq!((links.0[0].name.as_str(), rates(&links)), ("lo", (5_000_000, LOOPBACK)));
        let none = LinkSetting { name: "none".to_owned(), ..loopback(Some(1), None, None) };
        let again = links.reconfigured(&[loopback(Some(7_000_000), Some(1_000_000), None), none]);
        assert_eq!((again.0.len(), rates(&again)), (links.0.len(), (7_000_000, BitRate(1_000_000))));
        let count = u16::try_from(links.0.len()).expect("few");
        assert_eq!(again.capacities()[usize::from(count)], BitRate(1_000_000), "the ways in follow all ways out");
        assert_eq!(pair(&again), LinkPair { out: LinkId(0), into: LinkId(count) });
        assert_eq!(again.reconfigured(&[]).0[0].out, LOOPBACK, "as it says itself, when nothing is configured");
    }

    #[test]
    fn a_shared_interface_has_one_link_for_both_directions() {
        let links = Links::discover(&[loopback(None, Some(9_000_000), Some(true))]);
        assert_eq!(pair(&links), LinkPair { out: LinkId(0), into: LinkId(0) });
        assert_eq!(links.capacities()[0], BitRate(9_000_000), "whichever direction its rate was written for");
        let figures = links.figures();
        assert_eq!(figures.iter().filter(|figure| figure.name == "lo").count(), 1);
        assert_eq!(figures[0].direction, LinkDirection::Both);
        let apart = links.reconfigured(&[]);
        assert_ne!(pair(&apart).out, pair(&apart).into);
    }
}
