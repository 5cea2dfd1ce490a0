//! Permits for open connections, within a limit that may change.
//!
//! Promise: a permit is given back however its connection ends, by a panic too. Not here: accepting (`server`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// When a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// While all is served.
    Serving,
    /// While the server drains: its one request is answered, if only with a refusal.
    Draining,
    /// While all connections are taken: its one request is answered if it asks how the server is.
    Reserve,
}

/// Open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// Those that the limit counts.
    counted: AtomicUsize,
    /// Those of the reserve. The limit does not count them: most are open only until they are told that it is reached.
    reserve: AtomicUsize,
    /// Those that were there when the drain began: their requests may finish.
    awaited: AtomicUsize,
    closed: Notify,
}

/// A permit for one connection; given back when dropped.
pub(crate) struct ConnectionPermit {
    connections: Arc<Connections>,
    arrival: Arrival,
}

impl Connections {
    /// A permit for one more: of the reserve, or of all others, if fewer than `max` of them are taken.
    pub(crate) fn permit(self: &Arc<Self>, arrival: Arrival, max: usize) -> Option<ConnectionPermit> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        self.taken(arrival).fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        if arrival == Arrival::Serving {
            self.awaited.fetch_add(1, Ordering::AcqRel);
        }
        Some(ConnectionPermit { connections: Arc::clone(self), arrival })
    }

    /// How many are open, with those of the reserve.
    pub(crate) fn open(&self) -> usize {
        self.counted.load(Ordering::Relaxed) + self.reserve.load(Ordering::Relaxed)
    }

    fn taken(&self, arrival: Arrival) -> &AtomicUsize {
        match arrival {
            Arrival::Serving | Arrival::Draining => &self.counted,
            Arrival::Reserve => &self.reserve,
        }
    }

    /// Waits until no connection is left whose requests may finish.
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

impl Drop for ConnectionPermit {
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

    #[tokio::test]
    async fn a_connection_that_panics_gives_its_permit_back() {
        let connections = Arc::new(Connections::default());
        let permit = connections.permit(Arrival::Serving, 1).expect("nobody is there yet");
        assert!(connections.permit(Arrival::Draining, 1).is_none(), "one is the limit");
        assert_eq!(connections.open(), 1);
        let broken = tokio::spawn(async move {
            let _permit = permit;
            panic!("a connection breaks");
        });
        assert!(broken.await.is_err_and(|error| error.is_panic()));
        assert_eq!(connections.open(), 0);
        connections.all_closed().await;
    }

    #[test]
    fn the_reserve_takes_no_place_of_the_limit() {
        let connections = Arc::new(Connections::default());
        let first = connections.permit(Arrival::Serving, 1).expect("nobody is there yet");
        let reserve = connections.permit(Arrival::Reserve, 1).expect("it has places of its own");
        assert!(connections.permit(Arrival::Reserve, 1).is_none(), "and no more of them");
        assert_eq!(connections.open(), 2);
        let second = connections.permit(Arrival::Serving, 2).expect("a higher limit, of which one place is taken");
        drop(first);
        assert!(connections.permit(Arrival::Serving, 1).is_none(), "the second has the one place");
        drop(second);
        assert!(connections.permit(Arrival::Serving, 1).is_some());
        assert_eq!(connections.open(), 1, "that of the reserve");
        drop(reserve);
        assert_eq!(connections.open(), 0);
    }
}
