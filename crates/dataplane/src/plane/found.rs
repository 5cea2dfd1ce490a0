//! What a start need not read: bytes in the buffers, and bytes that others have asked for (interval caching).
//!
//! Promise: what is said to be there is in the buffers, being read, or in its disk's queue. Not here: reading (`fetch`),
//! what a start is charged (`schedule::admission`).

use std::ops::Range;

use schedule::admission::{QUARTER_BYTES, window_bytes};

use super::Plane;
use crate::cache::QuarterKey;
use crate::control::Service;
use crate::port::Io;
use crate::stream::{StreamClass, StreamEntry};

impl<I: Io> Plane<I> {
    /// Bytes from a starting stream's next one on that it need not read: they are in the buffers, or others on its disk have
    /// asked for them; `u64::MAX`: all it may hold.
    pub(super) fn found_ahead(&self, slot: u32) -> u64 {
        let stream = &self.streams[slot as usize];
        let most = self.window(slot);
        let (mut cursor, mut asked) = (stream.fetch, 0..0);
        while cursor.payload - stream.fetch.payload < most {
            let Some((key, _, left)) = cursor.next_content(stream.delivery()) else { break };
            if !asked.contains(&key.index) && self.cache.find(key).is_none() {
                asked = self.asked_by_others(slot, key);
                if asked.is_empty() {
                    return cursor.payload - stream.fetch.payload;
                }
            }
            cursor.pass(left);
        }
        u64::MAX
    }

    /// A starting stream takes hold of what others have read of what it wants: its turn may come when they are through
    /// with it, and it would have to be read again.
    pub(super) fn take_found(&mut self, slot: u32) {
        let stream = &self.streams[slot as usize];
        let disk = usize::from(stream.disk.0);
        if stream.leader.is_some() {
            return self.take_behind_leader(slot);
        }
        let taken = self.take_buffered(slot);
        if taken > 0 {
            let position = self.next_piece(slot).and_then(|next| next.position).unwrap_or(0);
            self.disks[disk].schedule.found(slot, taken, position);
        }
    }

    /// Bytes from a starting stream's next one on that streams with the same bytes at the same pace have asked for: they
    /// began before it, so theirs are due earlier.
    pub(super) fn asked_alike(&self, slot: u32) -> u64 {
        let stream = &self.streams[slot as usize];
        let mut cursor = stream.fetch;
        let Some((key, within, _)) = cursor.next_content(stream.delivery()) else { return 0 };
        let others = self.disks[usize::from(stream.disk.0)].streams.iter().filter(|&&other| other != slot);
        let alike =
            others.map(|&other| &self.streams[other as usize]).filter(|other| other.reads() && other.is_like(stream));
        let asked = alike.map(StreamEntry::asked).filter(|asked| asked.contains(&key.index)).map(|asked| asked.end);
        asked.max().map_or(0, |end| (end - key.index) * QUARTER_BYTES - within)
    }

    /// Bytes a stream may hold.
    pub(super) fn window(&self, slot: u32) -> u64 {
        let stream = &self.streams[slot as usize];
        match (stream.delivery().service, stream.class) {
            (Service::Constant { rate, burst_bytes, .. }, StreamClass::Constant { period, .. }) => {
                let round = self.disks[usize::from(stream.disk.0)].rounds.period();
                window_bytes(rate, round, period) + burst_bytes
            }
            (Service::BestEffort, _) | (_, StreamClass::BestEffort) => 0,
        }
    }

    /// The quarters from `key` on that another stream has asked its disk for and that are not read yet.
    fn asked_by_others(&self, slot: u32, key: QuarterKey) -> Range<u64> {
        let disk = &self.disks[usize::from(self.streams[slot as usize].disk.0)];
        let others = disk.streams.iter().filter(|&&other| other != slot).map(|&other| &self.streams[other as usize]);
        let until = others.filter_map(|other| {
            let guaranteed = matches!(other.class, StreamClass::Constant { .. });
            if !guaranteed || !other.reads() || other.delivery().content.version != key.version {
                return None;
            }
            let asked = other.asked();
            asked.contains(&key.index).then_some(asked.end)
        });
        key.index..until.max().unwrap_or(key.index)
    }
}
