//! The share of one client in a bounded resource: a count at once.
//!
//! Promise: a share is given back however its holder ends; only clients that hold something take memory. Not here: the resource that
//! is shared, and the limit of one client.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Bits of an IPv6 address that are the network of one client.
pub const NETWORK_BITS: u32 = 64;

/// A client, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientIdentity {
    /// By its login.
    User(String),
    /// By where it is: an IPv4 address, or the /64 of an IPv6 address.
    Network(IpAddr),
}

impl ClientIdentity {
    /// The user, else the network of the address.
    #[must_use]
    pub fn of(user: Option<&str>, address: IpAddr) -> Self {
        user.map_or_else(|| Self::Network(network(address, NETWORK_BITS)), |user| Self::User(user.to_owned()))
    }
}

/// How many each holds.
#[derive(Debug)]
pub struct Shares<K: Eq + Hash>(Mutex<HashMap<K, usize>>);

impl<K: Eq + Hash> Default for Shares<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// A held share; given back when dropped.
#[derive(Debug)]
pub struct Share<K: Eq + Hash> {
    shares: Arc<Shares<K>>,
    key: K,
}

impl<K: Eq + Hash + Clone> Shares<K> {
    /// One more for `key`, if it holds fewer than `most`.
    pub fn take(self: &Arc<Self>, key: K, most: usize) -> Option<Share<K>> {
        let mut held = lock(&self.0);
        let count = held.get(&key).copied().unwrap_or(0);
        if count >= most {
            return None;
        }
        held.insert(key.clone(), count + 1);
        Some(Share { shares: Arc::clone(self), key })
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = lock(&self.shares.0);
        if let Some(count) = held.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.key);
            }
        }
    }
}

/// The network of an address: of IPv6 its first `bits` bits, because a client has all the addresses behind them; of IPv4 the
/// address.
#[must_use]
pub fn network(address: IpAddr, bits: u32) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_client_holds_at_most_its_share_and_nothing_is_kept_of_those_that_hold_none() {
        let shares = Arc::new(Shares::default());
        let one = |user| ClientIdentity::of(user, parse("2001:db8::1"));
        let held: Vec<_> = (0..2).map(|_| shares.take(one(None), 2).expect("its share")).collect();
        let beside = ClientIdentity::of(None, parse("2001:db8::ffff:2"));
        assert!(shares.take(beside, 2).is_none(), "the same network");
        let others = [one(Some("ada")), ClientIdentity::of(None, parse("2001:db8:0:1::1"))];
        assert!(others.into_iter().all(|other| shares.take(other, 2).is_some()));
        drop(held);
        assert!(lock(&shares.0).is_empty());
        assert!(shares.take(one(None), 0).is_none());
    }

    #[test]
    fn addresses_of_a_network() {
        for (address, bits, same) in [
            ("2001:db8:1:2:3::4", 64, "2001:db8:1:2::"),
            ("2001:db8:1:2ff::", 56, "2001:db8:1:200::"),
            ("2001:db8:1:2::", 48, "2001:db8:1::"),
            ("2001:db8::1", 0, "::"),
            ("2001:db8::1", 128, "2001:db8::1"),
            ("192.0.2.1", 48, "192.0.2.1"),
            ("::ffff:192.0.2.1", 48, "192.0.2.1"),
        ] {
            assert_eq!(network(parse(address), bits), parse(same), "{address}/{bits}");
        }
    }
}
