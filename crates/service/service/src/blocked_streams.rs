//! Streams with clients that take nothing, found each second in the figures that the data plane publishes.
//!
//! Promise: a stream counts as unread once its client has taken nothing for [`UNREAD_AFTER`]. Not here: the end of a stream with a client that
//! takes nothing for longer (`streams.stall`, the data plane).

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use dataplane::gauges::Gauges;
use units::StreamId;

use crate::lock::lock;

/// A client takes something in every tick of its stream, or its player has stopped.
const UNREAD_AFTER: Duration = Duration::from_secs(2);

/// The streams that were blocked at the last look: the bytes that each had sent, and since when.
#[derive(Debug, Default)]
pub(crate) struct UnreadStreams(Mutex<HashMap<StreamId, (u64, Instant)>>);

impl UnreadStreams {
    /// Looks at all streams.
    pub(crate) fn look(&self, gauges: &Gauges, now: Instant) {
        let mut before = lock(&self.0);
        let blocked = gauges.streams.iter().filter(|slot| slot.id.get() != 0 && slot.blocked.get() != 0);
        let since = |stream: StreamId, sent: u64| match before.get(&stream) {
            Some((then, since)) if *then == sent => (sent, *since),
            _ => (sent, now),
        };
        *before = blocked
            .map(|slot| (StreamId(slot.id.get()), slot.sent_bytes.get()))
            .map(|(id, sent)| (id, since(id, sent)))
            .collect();
    }

    /// The streams of which the clients have taken nothing for some time.
    pub(crate) fn unread(&self, now: Instant) -> HashSet<StreamId> {
        let blocked = lock(&self.0);
        let is_long = |since: &Instant| now.saturating_duration_since(*since) >= UNREAD_AFTER;
        blocked.iter().filter(|(_, (_, since))| is_long(since)).map(|(stream, _)| *stream).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_unread_while_nothing_is_taken_of_it() {
        let (gauges, unread, now) = (Gauges::new(2, 1), UnreadStreams::default(), Instant::now());
        let slot = &gauges.streams[0];
        slot.id.set(7);
        let looks = |second: u64, blocked: u64, sent: u64| {
            slot.blocked.set(blocked);
            slot.sent_bytes.set(sent);
            let now = now + Duration::from_secs(second);
            unread.look(&gauges, now);
            unread.unread(now).contains(&StreamId(7))
        };
        assert_eq!([looks(0, 1, 5), looks(1, 1, 5), looks(2, 1, 5), looks(9, 1, 5)], [false, false, true, true]);
        assert_eq!([looks(10, 1, 6), looks(11, 1, 6), looks(12, 1, 6), looks(13, 0, 6)], [false, false, true, false]);
    }
}
