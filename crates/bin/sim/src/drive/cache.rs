//! The volatile write cache: dirty extents in order of position, with a bound on bytes and on extents.
//!
//! Promise: an extent that a flush waits for does not grow, so a flush ends even under continuous writes. Not here: when the
//! head drains it (`rotating`).

use units::Nanos;

use super::geometry::{Geometry, HeadPosition};

/// A contiguous run of bytes that are not on the media yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dirty {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Head position of `start`.
    pub(crate) place: HeadPosition,
    /// Time at which its oldest byte was written to the cache.
    pub(crate) since: Nanos,
    /// Number of flushes before its oldest byte was written.
    pub(crate) epoch: u64,
}

#[derive(Debug)]
pub(crate) struct WriteCache {
    extents: Vec<Dirty>,
    bytes: u64,
    /// Bytes on their way to the media: still in the cache, no longer in an extent.
    in_flight: u64,
    in_flight_epoch: u64,
    bytes_max: u64,
    extents_max: usize,
    epoch: u64,
}

impl WriteCache {
    pub(crate) fn new(bytes_max: u64, extents_max: u32) -> Self {
        let extents_max = usize::try_from(extents_max).unwrap_or(usize::MAX);
        Self {
            extents: Vec::with_capacity(extents_max.min(4096)),
            bytes: 0,
            in_flight: 0,
            in_flight_epoch: 0,
            bytes_max,
            extents_max,
            epoch: 0,
        }
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes not on the media.
    pub(crate) fn dirty(&self) -> u64 {
        self.bytes + self.in_flight
    }

    pub(crate) fn extents(&self) -> &[Dirty] {
        &self.extents
    }

    /// Fill in percent, by bytes or by extents, whichever is greater.
    pub(crate) fn fill(&self) -> u64 {
        let by_bytes = self.dirty() * 100 / self.bytes_max.max(1);
        let extents = u64::try_from(self.extents.len()).unwrap_or(u64::MAX);
        let limit = u64::try_from(self.extents_max).unwrap_or(u64::MAX);
        by_bytes.max(extents * 100 / limit.max(1))
    }

    /// Begins a flush and returns its mark; the flush is done when [`WriteCache::is_clean_before`] is true for the mark.
    pub(crate) fn mark(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// True if every byte written before the mark is on the media.
    pub(crate) fn is_clean_before(&self, mark: u64) -> bool {
        (self.in_flight == 0 || self.in_flight_epoch >= mark) && self.extents.iter().all(|e| e.epoch >= mark)
    }

    /// Accepts a write if there is room.
    pub(crate) fn accept(&mut self, start: u64, end: u64, now: Nanos, geometry: &Geometry) -> bool {
        if self.dirty() + (end - start) > self.bytes_max {
            return false;
        }
        let epoch = self.epoch;
        // Extents that touch or overlap the range, and are young enough to grow, become one.
        let first = self.extents.partition_point(|e| e.end < start);
        let mut last = first;
        let (mut from, mut to, mut since) = (start, end, now);
        let mut mixed_epochs = false;
        while let Some(e) = self.extents.get(last).filter(|e| e.start <= end) {
            mixed_epochs |= e.epoch != epoch;
            from = from.min(e.start);
            to = to.max(e.end);
            since = since.min(e.since);
            last += 1;
        }
        if mixed_epochs {
            return self.accept_next_to_older(start, end, now, geometry);
        }
        if first == last && self.extents.len() >= self.extents_max {
            return false;
        }
        let absorbed: u64 = self.extents[first..last].iter().map(|e| e.end - e.start).sum();
        self.bytes = self.bytes - absorbed + (to - from);
        let place = match self.extents.get(first) {
            Some(e) if first < last && e.start == from => e.place,
            _ => geometry.place(from),
        };
        let merged = Dirty { start: from, end: to, place, since, epoch };
        if first == last {
            self.extents.insert(first, merged);
        } else {
            self.extents[first] = merged;
            self.extents.drain(first + 1..last);
        }
        true
    }

    /// Accepts a write next to an extent that a flush waits for. The overlap stays in the old extent, with the new bytes; the
    /// rest becomes a new extent.
    fn accept_next_to_older(&mut self, start: u64, end: u64, now: Nanos, geometry: &Geometry) -> bool {
        let (mut start, mut end) = (start, end);
        for e in &self.extents {
            if e.start <= start && start < e.end {
                start = e.end.min(end);
            }
            if e.start < end && end <= e.end {
                end = e.start.max(start);
            }
        }
        if start == end {
            return true;
        }
        if self.extents.len() >= self.extents_max {
            return false;
        }
        // Older extents wholly inside the range become part of the new extent: a flush may have to wait a little longer for them.
        let inside = |e: &Dirty| start <= e.start && e.end <= end;
        let epoch = self.extents.iter().filter(|e| inside(e)).map(|e| e.epoch).min().unwrap_or(self.epoch);
        let absorbed: u64 = self.extents.iter().filter(|e| inside(e)).map(|e| e.end - e.start).sum();
        self.extents.retain(|e| !inside(e));
        self.bytes = self.bytes - absorbed + (end - start);
        let at = self.extents.partition_point(|e| e.start < start);
        self.extents.insert(at, Dirty { start, end, place: geometry.place(start), since: now, epoch });
        true
    }

    /// True if the cache holds the whole range, so that a read of it needs no access to the media.
    pub(crate) fn holds(&self, start: u64, end: u64) -> bool {
        let at = self.extents.partition_point(|e| e.end <= start);
        self.extents.get(at).is_some_and(|e| e.start <= start && end <= e.end)
    }

    /// Takes up to `unit` bytes from the front of an extent for the head to write.
    pub(crate) fn begin_drain(&mut self, index: usize, unit: u64, geometry: &Geometry) -> Dirty {
        debug_assert_eq!(self.in_flight, 0, "one head drains one piece at a time");
        let e = &mut self.extents[index];
        let piece = Dirty { end: e.end.min(e.start + unit), ..*e };
        if piece.end == e.end {
            self.extents.remove(index);
        } else {
            e.start = piece.end;
            e.place = geometry.place(e.start);
        }
        let bytes = piece.end - piece.start;
        self.bytes -= bytes;
        self.in_flight = bytes;
        self.in_flight_epoch = piece.epoch;
        piece
    }

    pub(crate) fn end_drain(&mut self) {
        self.in_flight = 0;
    }

    pub(crate) fn clear(&mut self) {
        self.extents.clear();
        self.bytes = 0;
        self.in_flight = 0;
    }
}
