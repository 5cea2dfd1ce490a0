//! The state machine of a disk with one head: the next command, the place of the head, the read-ahead into the buffer.
//!
//! Promise: the head is the only resource; its next move is decided when it is free and something is ready, by the event's own
//! time and not the time of the call. A command is ready for the media `ovh` after it came.
//! Not here: the layout (`geometry`), the contents of the caches (`buffer`, `cache`).

use std::collections::VecDeque;

use units::Nanos;

use super::buffer::ReadBuffer;
use super::cache::WriteCache;
use super::faults::Spike;
use super::geometry::{Geometry, HeadPosition};
use super::parameters::{float_of, whole_of};
use super::{DriveRequest, DriveStats, DueList, Op, Order, Parameters};

/// A command that waits for the media.
#[derive(Debug, Clone, Copy)]
struct WaitingCommand {
    tag: u64,
    write: bool,
    start: u64,
    end: u64,
    place: HeadPosition,
    ready: Nanos,
    sequence: u64,
    fault: Option<Nanos>,
}

/// The head reads on: it passes `phase + (t - since)` at time `t`, until `limit`.
#[derive(Debug, Clone, Copy)]
struct MediaRead {
    segment: usize,
    phase: u64,
    since: Nanos,
    limit: u64,
}

/// A flush, and the mark before which all must be clean.
#[derive(Debug, Clone, Copy)]
struct PendingFlush {
    tag: u64,
    mark: u64,
}

#[derive(Debug)]
pub(crate) struct Rotating {
    parameters: Parameters,
    geometry: Geometry,
    buffer: ReadBuffer,
    cache: WriteCache,
    queue: Vec<WaitingCommand>,
    /// Commands beyond the drive's own queue.
    backlog: VecDeque<(DriveRequest, Option<Nanos>, Nanos)>,
    /// Cached writes that wait for room.
    stalled: VecDeque<DriveRequest>,
    flushes: VecDeque<PendingFlush>,
    sequence: u64,
    cylinder: u64,
    /// The byte and the moment at which the head ended its last transfer: continuing there needs no seek.
    tail: Option<(u64, u64)>,
    free_at: Nanos,
    stream: Option<MediaRead>,
    draining: bool,
    drain_in_flight: bool,
    /// Reads (or drains) served in the present turn, while both wait.
    turn_of_drains: bool,
    turn_count: u32,
    last_read: Nanos,
    iface_free: Nanos,
    pub(crate) stats: DriveStats,
    pub(crate) spike: Spike,
}

/// Next move of the head.
#[derive(Debug, Clone, Copy)]
enum NextMove {
    Media(usize),
    Drain(usize),
}

impl Rotating {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            parameters: parameters.clone(),
            geometry: Geometry::new(parameters),
            buffer: ReadBuffer::new(parameters.rcache, parameters.rsegs),
            cache: WriteCache::new(parameters.wcache, parameters.wsegs),
            queue: Vec::with_capacity(usize::try_from(parameters.ncq).unwrap_or(32)),
            backlog: VecDeque::new(),
            stalled: VecDeque::new(),
            flushes: VecDeque::new(),
            sequence: 0,
            cylinder: 0,
            tail: None,
            free_at: Nanos::ZERO,
            stream: None,
            draining: false,
            drain_in_flight: false,
            turn_of_drains: false,
            turn_count: 0,
            last_read: Nanos::ZERO,
            iface_free: Nanos::ZERO,
            stats: DriveStats::default(),
            spike: Spike::default(),
        }
    }

    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.cache.dirty()
    }

    pub(crate) fn rate_at(&self, offset: u64) -> u64 {
        self.geometry.rate(offset)
    }

    pub(crate) fn drop_read_buffer(&mut self) {
        self.stream = None;
        self.buffer.clear();
    }

    pub(crate) fn power_off(&mut self, now: Nanos, tags: &mut Vec<u64>) {
        tags.extend(self.queue.drain(..).map(|w| w.tag));
        tags.extend(self.backlog.drain(..).map(|(request, _, _)| request.tag));
        tags.extend(self.stalled.drain(..).map(|request| request.tag));
        tags.extend(self.flushes.drain(..).map(|flush| flush.tag));
        self.cache.clear();
        self.drop_read_buffer();
        self.draining = false;
        self.drain_in_flight = false;
        self.tail = None;
        self.free_at = now;
    }

    /// Takes a command. All events up to `now` have been handled.
    pub(crate) fn submit(&mut self, request: DriveRequest, fault: Option<Nanos>, now: Nanos, due: &mut DueList) {
        match request.op {
            Op::Discard => due.push(request.tag, now.saturating_add(self.parameters.hovh), false),
            Op::Flush => {
                let mark = self.cache.mark();
                self.flushes.push_back(PendingFlush { tag: request.tag, mark });
                self.end_flushes(now, due);
            }
            Op::Write if fault.is_none() && request.bytes <= self.cache.bytes_max() => {
                self.stalled.push_back(request);
                self.accept_stalled(now, due);
            }
            Op::Read => {
                self.last_read = now;
                if fault.is_none() && self.read_from_buffer(request, now, due) {
                    return;
                }
                self.enqueue(request, fault, now);
            }
            Op::Write | Op::WriteThrough => self.enqueue(request, fault, now),
        }
    }

    fn enqueue(&mut self, request: DriveRequest, fault: Option<Nanos>, now: Nanos) {
        if self.queue.len() >= usize::try_from(self.parameters.ncq).unwrap_or(usize::MAX) {
            self.backlog.push_back((request, fault, now));
            return;
        }
        self.sequence += 1;
        self.queue.push(WaitingCommand {
            tag: request.tag,
            write: request.op != Op::Read,
            start: request.offset,
            end: request.offset + request.bytes,
            place: self.geometry.place(request.offset),
            ready: now.saturating_add(self.parameters.ovh),
            sequence: self.sequence,
            fault,
        });
    }

    /// Serves a read from a buffer that holds all of its bytes: that needs no head.
    fn read_from_buffer(&mut self, request: DriveRequest, now: Nanos, due: &mut DueList) -> bool {
        self.settle_stream(now);
        let end = request.offset + request.bytes;
        let segment = self.buffer.holding(request.offset).filter(|&i| end <= self.buffer.segment(i).end);
        if segment.is_none() && !self.cache.holds(request.offset, end) {
            return false;
        }
        if let Some(index) = segment {
            self.buffer.touch(index, now);
            self.read_on(index, end, now);
        }
        self.stats.hits += 1;
        let at = self.transferred(now, request.bytes);
        due.push(request.tag, at, false);
        true
    }

    /// When `bytes` have passed the interface, if they start no earlier than now and the command's overhead.
    fn transferred(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let start = now.saturating_add(self.parameters.hovh).max(self.iface_free);
        self.iface_free = start.saturating_add(self.interface_time(bytes));
        self.iface_free
    }

    fn interface_time(&self, bytes: u64) -> Nanos {
        Nanos(bytes.saturating_mul(1_000_000_000) / self.parameters.iface)
    }

    /// End of the read-ahead beyond `end`.
    fn read_ahead_limit(&self, end: u64) -> u64 {
        (end + self.parameters.ra.min(self.buffer.capacity())).min(self.parameters.size)
    }

    /// A hit in the segment the head was filling moves the end of the read-ahead; a stopped head continues.
    fn read_on(&mut self, segment: usize, end: u64, now: Nanos) {
        let limit = self.read_ahead_limit(end);
        let Some(stream) = self.stream.filter(|s| s.segment == segment) else { return };
        if limit <= stream.limit {
            return;
        }
        let filled = self.buffer.segment(segment).end;
        if filled < stream.limit || self.free_at > now {
            self.stream = Some(MediaRead { limit, ..stream });
            return;
        }
        // It had stopped at its limit; the place comes round again.
        let place = self.geometry.place(filled);
        let wait = self.geometry.rotation_wait(place.phase, now);
        self.stream = Some(MediaRead { segment, phase: place.phase, since: Nanos(now.0 + wait), limit });
    }

    /// Adds the bytes that the head has passed by `now` to the buffer.
    fn settle_stream(&mut self, now: Nanos) {
        let Some(stream) = self.stream else { return };
        let passed = now.saturating_sub(stream.since).0;
        if passed == 0 {
            return;
        }
        let offset = self.geometry.offset_at(stream.phase + passed).min(stream.limit);
        self.buffer.grow(stream.segment, offset);
    }

    /// The next moment at which something happens by itself.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let end_of_drain = self.drain_in_flight.then_some(self.free_at);
        match (end_of_drain, self.next_decision()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// When the head will be free and something ready for it.
    fn next_decision(&self) -> Option<Nanos> {
        let media = self.queue.iter().map(|w| w.ready).min();
        let drain = self.drain_from();
        let earliest = match (media, drain) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        Some(earliest.max(self.free_at))
    }

    /// From when on the write cache should drain.
    fn drain_from(&self) -> Option<Nanos> {
        let oldest = self.cache.extents().iter().map(|e| e.since).min()?;
        if self.draining || !self.flushes.is_empty() || !self.stalled.is_empty() {
            return Some(Nanos::ZERO);
        }
        let aged = oldest.saturating_add(self.parameters.wage);
        if !self.queue.is_empty() {
            return Some(aged);
        }
        Some(aged.min(self.last_read.saturating_add(self.parameters.wdelay).max(oldest)))
    }

    /// Handles everything that happens up to `now`.
    pub(crate) fn advance(&mut self, now: Nanos, due: &mut DueList) {
        loop {
            if self.drain_in_flight && self.free_at <= now {
                self.end_drain(due);
            }
            match self.next_decision() {
                Some(at) if at <= now && !self.drain_in_flight => self.decide(at, due),
                _ => return,
            }
        }
    }

    fn end_drain(&mut self, due: &mut DueList) {
        self.drain_in_flight = false;
        self.cache.end_drain();
        if self.cache.fill() <= u64::from(self.parameters.wlo) {
            self.draining = false;
        }
        self.accept_stalled(self.free_at, due);
        self.end_flushes(self.free_at, due);
    }

    fn end_flushes(&mut self, now: Nanos, due: &mut DueList) {
        while let Some(flush) = self.flushes.front().copied().filter(|f| self.cache.is_clean_before(f.mark)) {
            self.flushes.pop_front();
            self.stats.flushes += 1;
            due.push(flush.tag, now.saturating_add(self.parameters.flush), false);
        }
    }

    fn accept_stalled(&mut self, now: Nanos, due: &mut DueList) {
        while let Some(request) = self.stalled.front().copied() {
            let end = request.offset + request.bytes;
            if !self.cache.accept(request.offset, end, now, &self.geometry) {
                break;
            }
            self.stalled.pop_front();
            self.settle_stream(now);
            if self.buffer.forget(request.offset, end, self.stream.map(|s| s.segment)) {
                self.stream = None;
            }
            self.stats.cached_writes += 1;
            let at = self.transferred(now, request.bytes);
            due.push(request.tag, at, false);
        }
        if self.cache.fill() >= u64::from(self.parameters.whi) {
            self.draining = true;
        }
    }

    fn decide(&mut self, at: Nanos, due: &mut DueList) {
        match self.choose(at) {
            NextMove::Media(index) => {
                let waiting = self.queue.swap_remove(index);
                if let Some((request, fault, came)) = self.backlog.pop_front() {
                    self.enqueue(request, fault, came.max(at));
                }
                if waiting.write { self.write_media(waiting, at, due) } else { self.read_media(waiting, at, due) }
            }
            NextMove::Drain(index) => self.drain(index, at),
        }
    }

    /// Reads and drains take turns while both are due; among each, the shortest positioning time wins.
    fn choose(&mut self, at: Nanos) -> NextMove {
        let media = self.choose_media(at);
        let drain = if self.drain_from().is_some_and(|from| from <= at) { self.choose_drain(at) } else { None };
        let next = match (media, drain) {
            (Some(m), Some(d)) => {
                let limit = if self.turn_of_drains { self.parameters.burst } else { self.parameters.rburst };
                if self.turn_count >= limit {
                    self.turn_of_drains = !self.turn_of_drains;
                    self.turn_count = 0;
                }
                self.turn_count += 1;
                return if self.turn_of_drains { NextMove::Drain(d) } else { NextMove::Media(m) };
            }
            (Some(m), None) => NextMove::Media(m),
            (None, Some(d)) => NextMove::Drain(d),
            (None, None) => unreachable!("a decision is due only when something is ready"),
        };
        self.turn_count = 0;
        next
    }

    fn choose_media(&self, at: Nanos) -> Option<usize> {
        let ready = self.queue.iter().enumerate().filter(|(_, w)| w.ready <= at);
        match self.parameters.sched {
            Order::Fifo => ready.min_by_key(|(_, w)| w.sequence).map(|(index, _)| index),
            Order::Sptf if self.queue.len() == 1 => Some(0).filter(|_| self.queue[0].ready <= at),
            Order::Sptf => {
                let aged = |w: &WaitingCommand| {
                    let wait = whole_of(float_of(at.0 - w.ready.0) * self.parameters.age);
                    i128::from(self.positioning(w.place, w.start, w.write, at).0) - i128::from(wait)
                };
                ready.min_by_key(|(_, w)| (aged(w), w.sequence)).map(|(index, _)| index)
            }
        }
    }

    fn choose_drain(&self, at: Nanos) -> Option<usize> {
        // A flush drains all earlier writes first; an extent beyond its age goes before all others.
        let mark = self.flushes.front().map_or(u64::MAX, |f| f.mark);
        let extents = self.cache.extents().iter().enumerate().filter(|(_, e)| e.epoch < mark);
        if self.parameters.sched == Order::Fifo {
            return extents.min_by_key(|(_, e)| e.since).map(|(index, _)| index);
        }
        let aged = |e: &super::cache::Dirty| {
            let wait = whole_of(float_of(at.saturating_sub(e.since).0) * self.parameters.dage);
            i128::from(self.positioning(e.place, e.start, true, at).0) - i128::from(wait)
        };
        extents.min_by_key(|(_, e)| aged(e)).map(|(index, _)| index)
    }

    /// Seek and rotation from where the head is at `at` to a place: (sum, seek).
    fn positioning(&self, place: HeadPosition, offset: u64, write: bool, at: Nanos) -> (u64, u64) {
        if let Some((end, phase)) = self.tail.filter(|_| self.free_at == at) {
            // The head is just there: a stream continues, over the skew if a track ends here.
            if end == offset {
                return (place.phase - phase, 0);
            }
        }
        let distance = place.cylinder.abs_diff(self.cylinder);
        let settle = if write { self.parameters.wsettle.0 } else { 0 };
        let seek = self.geometry.seek(distance) + settle;
        (seek + self.geometry.rotation_wait(place.phase, Nanos(at.0 + seek)), seek)
    }

    fn read_media(&mut self, w: WaitingCommand, at: Nanos, due: &mut DueList) {
        self.settle_stream(at);
        let bytes = w.end - w.start;
        let held = self.buffer.holding(w.start).filter(|_| w.fault.is_none());
        if let Some(index) = held {
            self.buffer.touch(index, at);
            if w.end <= self.buffer.segment(index).end {
                self.read_on(index, w.end, at);
                self.stats.hits += 1;
                due.push(w.tag, at.saturating_add(self.interface_time(bytes)), false);
                return;
            }
            if let Some(stream) = self.stream.filter(|s| s.segment == index && w.start < s.limit)
                && self.goes_on(stream, at)
            {
                self.go_on(stream, w, at, due);
                return;
            }
        }
        let first = held.map_or(w.start, |index| self.buffer.segment(index).end);
        let place = if first == w.start { w.place } else { self.geometry.place(first) };
        let (wait, seek) = self.positioning(place, first, false, at);
        let begin = self.begin_media(at, wait, seek, w.fault);
        let phase_end = self.geometry.phase_after(w.end);
        let end = Nanos(begin.0 + (phase_end - place.phase));
        self.end_media(end, w.end, phase_end, begin);
        self.stream = None;
        if w.fault.is_none() {
            let limit = self.read_ahead_limit(w.end);
            self.stream = held.or_else(|| self.buffer.take(w.start, at)).map(|segment| MediaRead {
                segment,
                phase: place.phase,
                since: begin,
                limit,
            });
        }
        self.complete_media(w, end, due);
    }

    /// Whether the head still reads on (it has not reached its limit).
    fn goes_on(&self, stream: MediaRead, at: Nanos) -> bool {
        self.buffer.segment(stream.segment).end < stream.limit && self.free_at <= at
    }

    /// The read is served by letting the head read on.
    fn go_on(&mut self, stream: MediaRead, w: WaitingCommand, at: Nanos, due: &mut DueList) {
        let phase_end = self.geometry.phase_after(w.end);
        let end = Nanos(stream.since.0 + phase_end.saturating_sub(stream.phase)).max(at);
        self.stats.streamed += 1;
        self.stats.media_ops += 1;
        self.end_media(end, w.end, phase_end, at);
        self.stream = Some(MediaRead { limit: self.read_ahead_limit(w.end).max(stream.limit), ..stream });
        self.complete_media(w, end, due);
    }

    fn write_media(&mut self, w: WaitingCommand, at: Nanos, due: &mut DueList) {
        self.settle_stream(at);
        self.stream = None;
        self.buffer.forget(w.start, w.end, None);
        let (wait, seek) = self.positioning(w.place, w.start, true, at);
        let begin = self.begin_media(at, wait, seek, w.fault);
        let phase_end = self.geometry.phase_after(w.end);
        let end = Nanos(begin.0 + (phase_end - w.place.phase));
        self.stats.write_time += Nanos(wait) + end.saturating_sub(begin);
        self.end_media(end, w.end, phase_end, begin);
        self.complete_media(w, end, due);
    }

    fn drain(&mut self, index: usize, at: Nanos) {
        self.settle_stream(at);
        self.stream = None;
        let piece = self.cache.begin_drain(index, self.parameters.wunit, &self.geometry);
        let (wait, seek) = self.positioning(piece.place, piece.start, true, at);
        let begin = self.begin_media(at, wait, seek, None);
        let phase_end = self.geometry.phase_after(piece.end);
        let end = Nanos(begin.0 + (phase_end - piece.place.phase));
        self.stats.write_time += Nanos(wait) + end.saturating_sub(begin);
        self.end_media(end, piece.end, phase_end, begin);
        self.drain_in_flight = true;
        self.stats.drains += 1;
    }

    /// Counts the positioning and returns when the transfer begins.
    fn begin_media(&mut self, at: Nanos, wait: u64, seek: u64, fault: Option<Nanos>) -> Nanos {
        let extra = self.spike.due(at).saturating_add(fault.unwrap_or(Nanos::ZERO)).0;
        // Whole revolutions: the head waits over the track until the sector comes by again.
        let extra = extra.div_ceil(self.geometry.turn()) * self.geometry.turn();
        self.stats.media_ops += 1;
        self.stats.seeks += u64::from(seek > 0);
        self.stats.seek_time += Nanos(seek);
        self.stats.rotation_time += Nanos(wait - seek);
        Nanos(at.0 + wait + extra)
    }

    fn end_media(&mut self, end: Nanos, offset: u64, phase: u64, begin: Nanos) {
        self.stats.transfer_time += end.saturating_sub(begin);
        self.cylinder = self.geometry.place(offset.saturating_sub(1)).cylinder;
        self.tail = Some((offset, phase));
        self.free_at = end;
    }

    /// The answer leaves when the last part has passed the interface.
    fn complete_media(&self, w: WaitingCommand, end: Nanos, due: &mut DueList) {
        let last = self.interface_time((w.end - w.start).min(64 * 1024));
        due.push(w.tag, end.saturating_add(last), w.fault.is_some());
    }
}
