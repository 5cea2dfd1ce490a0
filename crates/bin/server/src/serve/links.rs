//! The links streams leave by: each network interface, its addresses, and its capacity.
//!
//! Promise: every local address belongs to a link with a capacity that was configured, read from the kernel, or assumed;
//! assumed ones are reported. Not here: sharing a link out (admission).

use std::net::IpAddr;

use units::{BitRate, LinkId, limits};

/// Loopback has no wire: bounded by memory and processor, which are counted by themselves.
const LOOPBACK: BitRate = BitRate(1_000_000_000_000);
/// An interface that does not tell its speed (most virtual ones) is taken for a gigabit one.
const ASSUMED: BitRate = BitRate(1_000_000_000);

/// One link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetworkLink {
    pub(super) name: String,
    pub(super) capacity: BitRate,
    pub(super) assumed: bool,
    pub(super) addresses: Vec<IpAddr>,
}

/// All links; the first is loopback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Links(pub(super) Vec<NetworkLink>);

impl Links {
    /// The interfaces of this machine, with the configured rates over their own reports.
    pub(super) fn discover(configured: &[(String, BitRate)]) -> Self {
        let mut links =
            vec![NetworkLink { name: "lo".to_owned(), capacity: LOOPBACK, assumed: false, addresses: Vec::new() }];
        for interface in if_addrs::get_if_addrs().unwrap_or_default() {
            let address = interface.ip();
            let name = if address.is_loopback() { "lo".to_owned() } else { interface.name.clone() };
            if let Some(link) = links.iter_mut().find(|link| link.name == name) {
                link.addresses.push(address);
            } else if links.len() < limits::LINKS_MAX {
                let told = speed_of(&name);
                let capacity = told.unwrap_or(ASSUMED);
                links.push(NetworkLink { name, capacity, assumed: told.is_none(), addresses: vec![address] });
            }
        }
        for (name, rate) in configured {
            if let Some(link) = links.iter_mut().find(|link| link.name == *name) {
                (link.capacity, link.assumed) = (*rate, false);
            }
        }
        Self(links)
    }

    /// Capacities, in the order of [`LinkId`].
    pub(super) fn capacities(&self) -> Vec<BitRate> {
        self.0.iter().map(|link| link.capacity).collect()
    }

    /// The same links with the capacities configured now: no new ones, since those in use have their numbers.
    pub(super) fn reconfigured(&self, configured: &[(String, BitRate)]) -> Self {
        let now = Self::discover(configured);
        let capacity =
            |link: &NetworkLink| now.0.iter().find(|other| other.name == link.name).map(|other| other.capacity);
        Self(
            self.0
                .iter()
                .map(|link| NetworkLink { capacity: capacity(link).unwrap_or(link.capacity), ..link.clone() })
                .collect(),
        )
    }

    /// The link of each address.
    pub(super) fn by_address(&self) -> Vec<(IpAddr, LinkId)> {
        let numbered = self.0.iter().zip(0u16..);
        numbered.flat_map(|(link, id)| link.addresses.iter().map(move |&address| (address, LinkId(id)))).collect()
    }
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

    #[test]
    fn loopback_comes_first_and_is_found_by_its_address() {
        let links = Links::discover(&[("lo".to_owned(), BitRate(5_000_000))]);
        assert_eq!((links.0[0].name.as_str(), links.0[0].capacity), ("lo", BitRate(5_000_000)));
        let again = links.reconfigured(&[("lo".to_owned(), BitRate(7_000_000)), ("none".to_owned(), BitRate(1))]);
        assert_eq!((again.0.len(), again.0[0].capacity), (links.0.len(), BitRate(7_000_000)));
        assert_eq!(again.reconfigured(&[]).0[0].capacity, LOOPBACK, "what it tells itself, when nothing is configured");
        let loopback: IpAddr = [127, 0, 0, 1].into();
        assert!(links.by_address().contains(&(loopback, LinkId(0))));
    }
}
