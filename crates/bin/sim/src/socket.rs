//! A client and the socket it reads from: a send buffer that drains at the client's speed.
//!
//! Promise: accepts at most the bytes that fit into the buffer, and reports when a full buffer has room again, as the kernel
//! does: at two thirds full. Not here: the check of the bytes (`arena`, `laws`).

use dataplane::port::{Span, Token};
use units::{BitRate, Nanos};

/// Room of fewer bytes counts as none, unless the send needs no more.
const SCRAPS: u64 = 4096;

/// The speed at which a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientReading {
    /// At this rate, or as fast as the bytes arrive.
    AtRate(BitRate),
    /// Not at all: the client pauses, or has vanished.
    Stopped,
    /// It reset the connection.
    Reset,
}

/// Result of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The socket accepted this number of bytes, at least one.
    Bytes(u32),
    /// There is no room.
    Full,
    /// The peer is gone.
    Gone,
}

/// The server's end of one connection.
#[derive(Debug)]
pub(crate) struct SimSocket {
    capacity: u64,
    queued: u64,
    since: Nanos,
    reading: ClientReading,
    /// The send that waits for room.
    pub(crate) pending: Option<(Token, Span)>,
}

impl SimSocket {
    pub(crate) fn new(capacity: u64, reading: ClientReading, now: Nanos) -> Self {
        Self { capacity, queued: 0, since: now, reading, pending: None }
    }

    /// The client reads differently from now on.
    pub(crate) fn set_reading(&mut self, reading: ClientReading, now: Nanos) {
        self.settle(now);
        // A reset is for ever.
        if self.reading != ClientReading::Reset {
            self.reading = reading;
        }
    }

    /// Sends up to `bytes` into the buffer.
    pub(crate) fn take(&mut self, bytes: u32, now: Nanos) -> Taken {
        self.settle(now);
        let room = self.capacity - self.queued;
        if self.reading == ClientReading::Reset {
            return Taken::Gone;
        }
        let taken = u64::from(bytes).min(room);
        // A socket with a waiting send becomes writable only when a third is free. Any other socket accepts the bytes that fit,
        // but the kernel frees whole packets, so room of a few bytes does not occur.
        let scraps = taken < u64::from(bytes) && room < SCRAPS;
        if taken == 0 || scraps || self.pending.is_some() && self.queued > self.writable_level() {
            return Taken::Full;
        }
        self.queued += taken;
        Taken::Bytes(u32::try_from(taken).unwrap_or(bytes))
    }

    /// True if the kernel would report the socket as writable: a third is free, or the next send would fail.
    pub(crate) fn has_room(&mut self, now: Nanos) -> bool {
        self.settle(now);
        self.reading == ClientReading::Reset || self.queued <= self.writable_level()
    }

    /// Time at which a waiting send can continue, if the client keeps its speed.
    pub(crate) fn writable_at(&self) -> Option<Nanos> {
        match self.reading {
            ClientReading::Stopped => None,
            ClientReading::Reset => Some(self.since),
            ClientReading::AtRate(rate) => {
                let wait = rate.time_for(self.queued.saturating_sub(self.writable_level()));
                (wait != Nanos::MAX).then(|| self.since.saturating_add(wait))
            }
        }
    }

    /// Time at which the client has read all bytes in the buffer, if it keeps its speed.
    pub(crate) fn empty_at(&self) -> Nanos {
        match self.reading {
            ClientReading::AtRate(rate) => self.since.saturating_add(rate.time_for(self.queued)),
            ClientReading::Stopped | ClientReading::Reset => Nanos::MAX,
        }
    }

    fn writable_level(&self) -> u64 {
        self.capacity / 3 * 2
    }

    fn settle(&mut self, now: Nanos) {
        if let ClientReading::AtRate(rate) = self.reading {
            let read = rate.bytes_in(now.saturating_sub(self.since));
            self.queued = self.queued.saturating_sub(read);
        }
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Token = Token(0);
    const SPAN: Span = Span { offset: 0, length: 1 };

    #[test]
    fn a_buffer_drains_at_the_clients_rate() {
        let mut socket = SimSocket::new(30_000, ClientReading::AtRate(BitRate(80_000)), Nanos::ZERO);
        assert_eq!(socket.take(50_000, Nanos::ZERO), Taken::Bytes(30_000));
        assert_eq!(socket.take(1, Nanos::ZERO), Taken::Full);
        socket.pending = Some((NEVER, SPAN));
        assert_eq!(socket.writable_at(), Some(Nanos::from_secs(1)), "10 kB/s, a third free");
        assert_eq!(socket.take(50_000, Nanos::from_millis(999)), Taken::Full);
        assert_eq!(socket.take(50_000, Nanos::from_secs(1)), Taken::Bytes(10_000));
        socket.pending = None;
        assert_eq!(socket.take(50_000, Nanos::from_millis(1200)), Taken::Full, "2000 bytes free are scraps");
        assert_eq!(socket.take(1000, Nanos::from_millis(1200)), Taken::Bytes(1000), "unless no more is wanted");
    }

    #[test]
    fn a_stopped_client_takes_one_buffer_and_no_more() {
        let mut socket = SimSocket::new(3000, ClientReading::Stopped, Nanos::ZERO);
        assert_eq!(socket.take(2000, Nanos::ZERO), Taken::Bytes(2000));
        assert_eq!(socket.take(1000, Nanos::from_secs(1)), Taken::Bytes(1000));
        socket.pending = Some((NEVER, SPAN));
        assert_eq!(socket.writable_at(), None);
        assert_eq!(socket.take(1, Nanos::from_secs(1000)), Taken::Full);
        socket.set_reading(ClientReading::AtRate(BitRate(8_000_000)), Nanos::from_secs(1000));
        assert_eq!(socket.writable_at(), Some(Nanos(1_000_001_000_000)));
    }

    #[test]
    fn a_reset_is_reported_at_once_and_for_ever() {
        let mut socket = SimSocket::new(3000, ClientReading::Stopped, Nanos::ZERO);
        socket.set_reading(ClientReading::Reset, Nanos::from_secs(1));
        assert_eq!(socket.writable_at(), Some(Nanos::from_secs(1)));
        socket.set_reading(ClientReading::Stopped, Nanos::from_secs(2));
        assert_eq!(socket.take(1, Nanos::from_secs(2)), Taken::Gone);
    }
}
