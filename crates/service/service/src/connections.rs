//! Places for the connections of all front ends: among all, and among those of one client.
//!
//! Promise: a place is given back however its connection ends, by a panic too; a drain waits for the connections that were open when it
//! began, and for no other. Not here: accepting connections (the front ends).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::shares::{ClientIdentity, Share, Shares};

/// Places beyond the limit.
const RESERVE: usize = 64;

/// When a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// While all is served.
    Serving,
    /// While the server drains: its one request is answered, if only with a refusal.
    Draining,
    /// While all places are taken: its one request is answered if it asks for the server's health.
    Reserve,
}

/// The limits in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at once.
    pub all: usize,
    /// Of these, connections of one client ([`ClientIdentity`]).
    pub per_client: usize,
}

/// Counts of the connections of all front ends.
#[derive(Debug, Default)]
pub struct ConnectionStats {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections turned away because too many were open.
    pub refused: AtomicU64,
    /// Connections that ended before they were sealed by TLS.
    pub handshakes_failed: AtomicU64,
    /// Requests that ended in a panic.
    pub panics: AtomicU64,
}

/// The reason why a connection has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionRefusal {
    /// All places are taken.
    #[error("as many connections are open as this server takes")]
    Full,
    /// One client has as many as one may have.
    #[error("{0} connections of this address are open, the most that one may have")]
    ClientFull(usize),
}

/// Open connections.
#[derive(Debug, Default)]
pub struct Connections {
    /// Connections that the limit counts.
    counted: AtomicUsize,
    /// Connections in the reserve. The limit does not count them: most are open only until they have their refusal.
    reserve: AtomicUsize,
    /// Connections that a drain waits for.
    awaited: AtomicUsize,
    closed: Notify,
    /// Of each client, by its network.
    of_clients: Arc<Shares<ClientIdentity>>,
}

/// A connection's place; given back when dropped.
#[derive(Debug)]
pub struct ConnectionPlace {
    connections: Arc<Connections>,
    arrival: Arrival,
    _share: Option<Share<ClientIdentity>>,
}

impl Connections {
    /// A place for one more connection of `client`; none: of a proxy, which has no share of its own.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn take(
        self: &Arc<Self>,
        arrival: Arrival,
        client: Option<IpAddr>,
        limits: ConnectionLimits,
    ) -> Result<ConnectionPlace, ConnectionRefusal> {
        let mut place = self.place(arrival, limits.all)?;
        if let Some(client) = client {
            self.share(&mut place, client, limits)?;
        }
        Ok(place)
    }

    /// Counts a place as one of `client`.
    ///
    /// # Errors
    /// It has as many as one may have.
    pub(crate) fn share(
        &self,
        place: &mut ConnectionPlace,
        client: IpAddr,
        limits: ConnectionLimits,
    ) -> Result<(), ConnectionRefusal> {
        let share = self.of_clients.take(ClientIdentity::of(None, client), limits.per_client);
        place._share = Some(share.ok_or(ConnectionRefusal::ClientFull(limits.per_client))?);
        Ok(())
    }

    /// A place beyond the limit, for a request that asks for the server's health.
    ///
    /// # Errors
    /// These places are taken as well.
    pub fn reserve(self: &Arc<Self>) -> Result<ConnectionPlace, ConnectionRefusal> {
        self.place(Arrival::Reserve, RESERVE)
    }

    fn place(self: &Arc<Self>, arrival: Arrival, max: usize) -> Result<ConnectionPlace, ConnectionRefusal> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        let taken = self.taken(arrival).fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.map_err(|_| ConnectionRefusal::Full)?;
        if arrival == Arrival::Serving {
            self.awaited.fetch_add(1, Ordering::AcqRel);
        }
        Ok(ConnectionPlace { connections: Arc::clone(self), arrival, _share: None })
    }

    /// Open connections, those of the reserve among them.
    #[must_use]
    pub fn open(&self) -> usize {
        self.counted.load(Ordering::Relaxed) + self.reserve.load(Ordering::Relaxed)
    }

    fn taken(&self, arrival: Arrival) -> &AtomicUsize {
        match arrival {
            Arrival::Serving | Arrival::Draining => &self.counted,
            Arrival::Reserve => &self.reserve,
        }
    }

    /// Waits until no connection is left with requests that may finish.
    pub(crate) async fn all_closed(&self) {
        loop {
            let mut closed = std::pin::pin!(self.closed.notified());
            closed.as_mut().enable();
            if self.awaited.load(Ordering::Acquire) == 0 {
                return;
            }
            closed.await;
        }
    }
}

impl ConnectionPlace {
    /// When the connection came.
    #[must_use]
    pub const fn arrival(&self) -> Arrival {
        self.arrival
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.connections.taken(self.arrival).fetch_sub(1, Ordering::AcqRel);
        if self.arrival == Arrival::Serving && self.connections.awaited.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.connections.closed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    fn limits(all: usize) -> ConnectionLimits {
        ConnectionLimits { all, per_client: 2 }
    }

    #[tokio::test]
    async fn a_connection_that_panics_gives_its_place_back() {
        let connections = Arc::new(Connections::default());
        let place = connections.take(Arrival::Serving, HERE, limits(1)).expect("none is open yet");
        let refused = connections.take(Arrival::Draining, HERE, limits(1));
        assert_eq!(refused.err(), Some(ConnectionRefusal::Full), "one is the limit");
        assert_eq!(connections.open(), 1);
        let broken = tokio::spawn(async move {
            let _place = place;
            panic!("a connection breaks");
        });
        assert!(broken.await.is_err_and(|error| error.is_panic()));
        assert_eq!(connections.open(), 0);
        connections.all_closed().await;
    }

    #[test]
    fn the_reserve_takes_no_place_of_the_limit() {
        let connections = Arc::new(Connections::default());
        let first = connections.take(Arrival::Serving, HERE, limits(1)).expect("none is open yet");
        let reserve: Vec<_> = (0..RESERVE).map(|_| connections.reserve().expect("it has places of its own")).collect();
        assert!(connections.reserve().is_err(), "and no more of them");
        assert_eq!(connections.open(), 1 + RESERVE);
        let second =
            connections.take(Arrival::Serving, HERE, limits(2)).expect("a higher limit, of which one is taken");
        let third = connections.take(Arrival::Serving, HERE, limits(3));
        assert_eq!(third.err(), Some(ConnectionRefusal::ClientFull(2)));
        drop(first);
        assert!(connections.take(Arrival::Serving, HERE, limits(1)).is_err(), "the second has the one place");
        drop(second);
        assert!(connections.take(Arrival::Serving, HERE, limits(1)).is_ok());
        assert_eq!(connections.open(), RESERVE, "those of the reserve");
        drop(reserve);
        assert_eq!(connections.open(), 0);
    }
}
