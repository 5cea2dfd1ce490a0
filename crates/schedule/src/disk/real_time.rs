//! Real-time disk queue: the blocks of admitted streams, each with a deadline.
//!
//! Promise: requests go out in position order (one sweep) as long as every deadline can be kept that way, else in shorter
//! sweeps over the most urgent, down to the earliest deadline alone (SCAN-EDF: Reddy & Wyllie, "Disk scheduling in a
//! multimedia I/O system", ACM Multimedia 1993). A starting stream's first bytes go ahead of the sweep if that costs nobody
//! a deadline. Not here: best-effort work (`best_effort`), phases (`disk`). See decisions/0007.

use units::{BitRate, Nanos, limits};

use super::cost::CostModel;

/// One request: what a stream still wants to read, from its next byte on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtRequest {
    /// The stream's slot, or a recording's job: unique in the queue.
    pub key: RtKey,
    /// Where its next byte lies.
    pub position: u64,
    /// Bytes left; not zero.
    pub bytes: u64,
    /// Of these, from the first on, what others that are due earlier ask for as well: it will find them in the buffers.
    pub found_bytes: u64,
    /// When its next byte must be there.
    pub deadline: Nanos,
    /// How fast its deadline recedes as it is served.
    pub rate: BitRate,
    /// A start: not yet promised anything, wants its first bytes soon.
    pub starting: bool,
}

impl RtRequest {
    /// Where it begins to read itself, and how many bytes.
    fn own(&self) -> (u64, u64) {
        (self.position.saturating_add(self.found_bytes), self.bytes.saturating_sub(self.found_bytes))
    }

    /// When its first read unit is there, which must not be after its deadline (the rest of the block follows faster than it
    /// is used), if it is read from `at` on with the head at `head`.
    fn there(&self, at: Nanos, head: u64, cost: &CostModel) -> Nanos {
        at.saturating_add(cost.read(head, self.position, self.bytes.min(limits::CHUNK_BYTES)))
    }

    /// When it is over, and where the head is then, if it is read from `at` on with the head at `head`.
    fn served(&self, at: Nanos, head: u64, cost: &CostModel) -> (Nanos, u64) {
        let (position, bytes) = self.own();
        if bytes == 0 {
            return (at, head);
        }
        (at.saturating_add(cost.read(head, position, bytes)), position.saturating_add(bytes))
    }
}

/// Whose request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RtKey {
    /// A delivery: the slot of its stream. Served by reads.
    Stream(u32),
    /// A recording: the job of its store thread. Served by grants.
    Job(crate::disk::JobKey),
}

/// A request whose next byte is due within this is critical: it may interrupt a long block.
const CRITICAL: Nanos = Nanos::from_millis(200);
/// A block is not interrupted before it had so much transfer time: a queue in which every block is critical would
/// otherwise be served in single read units, which costs half of the disk's rate, and never catch up (simulator: 20
/// streams of 25 Mbit/s on a disk for 38 stayed late for ever).
const TURN_MIN: Nanos = Nanos::from_millis(50);
/// Headroom in the test of deadlines: completion is noticed, copied and sent after it happened.
const GUARD: Nanos = Nanos::from_millis(20);
/// The same for what is served in sweeps: a late read is not made good by the next one, as it is where the most urgent always
/// goes first, and the errors of a whole sweep add up (with 20 and 60 ms seed 5998 has a block 32 ms late).
const SWEEP_GUARD: Nanos = Nanos::from_millis(100);
/// The same when a start would go ahead: others wait for it on purpose, and the error of what is foreseen adds up over
/// a queue of starts.
const START_GUARD: Nanos = Nanos::from_millis(150);
/// More of it when a read unit of another block would go before the last one that keeps a promise: two seeks may both
/// be long ones (simulator, seed 6014).
const LAST_CHANCE_GUARD: Nanos = Nanos::from_millis(40);
/// A starting request's share that is hurried: enough to begin with (two read units).
const START_BYTES: u64 = 512 * 1024;
/// With more requests than this the order is by deadline alone: no spindle carries that many streams.
const SWEEP_MAX: usize = 256;

/// The queue.
#[derive(Debug)]
pub struct RtQueue {
    /// On a disk with a head: sorted by deadline, latest first. Else in no order: flash carries thousands of streams,
    /// and one scan per read is cheaper than keeping them sorted.
    requests: Vec<RtRequest>,
    /// Where a stream's request is, on a disk without a head.
    places: Vec<u32>,
    current: Option<RtKey>,
    /// Bytes of the current request served in a row.
    turn_bytes: u64,
    sweeps: bool,
}

const NOWHERE: u32 = u32::MAX;

impl RtQueue {
    /// An empty queue with room for every stream and upload; `sweeps` on a disk with a head.
    #[must_use]
    pub fn new(sweeps: bool) -> Self {
        let capacity = limits::STREAMS_MAX + limits::UPLOADS_MAX;
        let places = if sweeps { Vec::new() } else { vec![NOWHERE; limits::STREAMS_MAX] };
        Self { requests: Vec::with_capacity(capacity), places, current: None, turn_bytes: 0, sweeps }
    }

    /// Adds a request, or replaces the one with the same key.
    pub fn put(&mut self, request: RtRequest) {
        let current = self.current;
        self.remove(request.key);
        self.current = current;
        self.insert(request);
    }

    /// Forgets a request; true if it was there.
    pub fn remove(&mut self, key: RtKey) -> bool {
        self.take(key).is_some()
    }

    /// The request with this key.
    #[must_use]
    pub fn find(&self, key: RtKey) -> Option<&RtRequest> {
        self.place_of(key).map(|at| &self.requests[at])
    }

    /// After `bytes` of a request were issued: what is left lies at `position`. Gone when nothing is left.
    pub fn advance(&mut self, key: RtKey, bytes: u64, position: u64) {
        let turn_bytes = if self.current == Some(key) { self.turn_bytes } else { 0 };
        let Some(mut request) = self.take(key) else { return };
        if request.bytes <= bytes {
            return;
        }
        request.bytes -= bytes;
        request.found_bytes = request.found_bytes.saturating_sub(bytes);
        request.position = position;
        if request.starting && bytes >= START_BYTES {
            request.starting = false;
        }
        request.deadline = request.deadline.saturating_add(request.rate.time_for(bytes));
        self.insert(request);
        self.current = Some(key);
        self.turn_bytes = turn_bytes + bytes;
    }

    /// The next `bytes` of a request were found, not read: what is left lies at `position`, and the head where it was.
    pub fn pass(&mut self, key: RtKey, bytes: u64, position: u64) {
        let before = (self.current, self.turn_bytes);
        self.advance(key, bytes, position);
        if before.0 != Some(key) {
            (self.current, self.turn_bytes) = before;
        }
    }

    fn insert(&mut self, request: RtRequest) {
        assert!(self.requests.len() < self.requests.capacity(), "admission bounds the queue");
        if self.sweeps {
            let at = self.requests.partition_point(|other| other.deadline > request.deadline);
            self.requests.insert(at, request);
            return;
        }
        self.note_place(request.key, self.requests.len());
        self.requests.push(request);
    }

    fn take(&mut self, key: RtKey) -> Option<RtRequest> {
        if self.current == Some(key) {
            self.current = None;
        }
        let at = self.place_of(key)?;
        if self.sweeps {
            return Some(self.requests.remove(at));
        }
        let request = self.requests.swap_remove(at);
        self.note_place(key, NOWHERE as usize);
        if let Some(moved) = self.requests.get(at).map(|moved| moved.key) {
            self.note_place(moved, at);
        }
        Some(request)
    }

    fn place_of(&self, key: RtKey) -> Option<usize> {
        match key {
            RtKey::Stream(slot) if !self.sweeps => match self.places[slot as usize] {
                NOWHERE => None,
                at => Some(at as usize),
            },
            RtKey::Stream(_) | RtKey::Job(_) => self.requests.iter().position(|request| request.key == key),
        }
    }

    fn note_place(&mut self, key: RtKey, at: usize) {
        if let RtKey::Stream(slot) = key {
            self.places[slot as usize] = u32::try_from(at).unwrap_or(NOWHERE);
        }
    }

    /// The request to serve next with the head at `head`.
    #[must_use]
    pub fn pick(&self, now: Nanos, head: u64, cost: &CostModel) -> Option<RtRequest> {
        if !self.sweeps {
            return self.requests.iter().min_by_key(|request| request.deadline).copied();
        }
        let urgent = *self.requests.last()?;
        if self.requests.len() > SWEEP_MAX {
            return Some(urgent);
        }
        if let Some(start) = self.next_start(head)
            && self.keeps_deadlines(&start, now, head, cost)
        {
            return Some(start);
        }
        if let Some(current) = self.current.and_then(|key| self.find(key)) {
            if let Some(urgent) = self.last_chance(current, now, head, cost) {
                return Some(urgent);
            }
            let interrupted = urgent.key != current.key
                && cost.profile().transfer_time(head, self.turn_bytes) >= TURN_MIN
                && current.deadline > urgent.deadline.saturating_add(CRITICAL)
                && (urgent.deadline < now.saturating_add(CRITICAL) || !self.keeps_deadlines(current, now, head, cost));
            if !interrupted {
                return Some(*current);
            }
        }
        self.next_in_sweeps(now, head, cost).or(Some(urgent))
    }

    /// For how long nothing need be read from `now` on: all promised deadlines hold if the rest then follows by deadline.
    /// `None` if one does not hold even so; `Nanos::MAX` if nothing is promised.
    #[must_use]
    pub fn spare(&self, now: Nanos, head: u64, cost: &CostModel) -> Option<Nanos> {
        if !self.sweeps {
            let first = self.requests.iter().filter(|request| !request.starting).map(|request| request.deadline).min();
            let Some(deadline) = first else { return Some(Nanos::MAX) };
            let begin = now.saturating_add(GUARD);
            return (begin < deadline).then(|| deadline.saturating_sub(begin));
        }
        self.spare_behind(None, now, GUARD, head, cost)
    }

    /// True if the read issued last was of this request.
    #[must_use]
    pub fn serves(&self, key: RtKey) -> bool {
        self.current == Some(key)
    }

    /// True if a stream waits for its first bytes.
    #[must_use]
    pub fn has_start(&self) -> bool {
        self.requests.iter().any(|request| request.starting)
    }

    /// Whether the first read unit of `request` can be there at `deadline` behind the block being read and everything
    /// that is promised for earlier.
    #[must_use]
    pub fn can_promise(&self, request: &RtRequest, deadline: Nanos, now: Nanos, head: u64, cost: &CostModel) -> bool {
        if !self.sweeps {
            return true;
        }
        let other = self.current.is_some_and(|key| key != request.key);
        let mut end = now.saturating_add(GUARD).saturating_add(if other { TURN_MIN } else { Nanos::ZERO });
        let mut head = head;
        let promised = self.requests.iter().rev().filter(|r| !r.starting && r.key != request.key);
        for earlier in promised.take_while(|r| r.deadline <= deadline) {
            (end, head) = earlier.served(end, head, cost);
        }
        end.saturating_add(cost.read(head, request.position, request.bytes.min(limits::CHUNK_BYTES))) <= deadline
    }

    /// Requests waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// True if none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Requests that read, and their bytes: what several ask for is read once.
    #[must_use]
    pub fn to_read(&self) -> (usize, u64) {
        let own = self.requests.iter().map(|request| request.own().1);
        own.filter(|&bytes| bytes > 0).fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    }

    /// Somebody whose bytes others counted on has gone: they may have to read them, each of them for all that is known.
    pub fn find_nothing(&mut self) {
        self.requests.iter_mut().for_each(|request| request.found_bytes = 0);
    }

    /// The start to serve next: the one being served, else in a sweep of their own, since many may come at once.
    fn next_start(&self, head: u64) -> Option<RtRequest> {
        let current = self.current.and_then(|key| self.find(key)).filter(|request| request.starting);
        current.copied().or_else(|| next_from(head, self.requests.iter().filter(|request| request.starting)))
    }

    /// The most urgent promise, if it can be kept by serving it now, and not behind another read unit of `current`.
    /// What is late already is no reason: a queue of such would be served in single read units.
    fn last_chance(&self, current: &RtRequest, now: Nanos, head: u64, cost: &CostModel) -> Option<RtRequest> {
        let urgent = self.first_promised()?;
        if urgent.key == current.key || (!current.starting && current.deadline <= urgent.deadline) {
            return None;
        }
        let first = urgent.there(now.saturating_add(GUARD), head, cost);
        let second = current.there(first, head, cost).saturating_add(LAST_CHANCE_GUARD);
        (first <= urgent.deadline && second > urgent.deadline).then_some(*urgent)
    }

    /// The promised request to serve next when the most urgent are served in a sweep, then the next ones, and so on: as many
    /// in a sweep as the deadlines allow. If they allow none, as many as break them least: served by deadline alone, a
    /// queue that grew would cost the most seeks when there is the least time, and never shrink (simulator, 400 streams of
    /// 2 Mbit/s on a disk for 400, seed 160).
    fn next_in_sweeps(&self, now: Nanos, head: u64, cost: &CostModel) -> Option<RtRequest> {
        let mut promised = [0; SWEEP_MAX];
        let by_deadline = (0..self.requests.len()).rev().filter(|&at| !self.requests[at].starting);
        let count = promised.iter_mut().zip(by_deadline).map(|(place, at)| *place = at).count();
        let (mut best, mut length) = (None, count);
        while length > 0 {
            let (first, late) = self.in_sweeps_of(length, &promised[..count], now, head, cost)?;
            if late == Nanos::ZERO {
                return Some(first);
            }
            if best.is_none_or(|(least, _)| late < least) {
                best = Some((late, first));
            }
            length /= 2;
        }
        best.map(|(_, first)| first)
    }

    /// Which of `promised`, places in order of deadlines, comes first when so many of them at a time are served in a sweep,
    /// and how late the latest is then.
    fn in_sweeps_of(
        &self,
        length: usize,
        promised: &[usize],
        now: Nanos,
        head: u64,
        cost: &CostModel,
    ) -> Option<(RtRequest, Nanos)> {
        let mut order = [0; SWEEP_MAX];
        let order = &mut order[..promised.len()];
        order.copy_from_slice(promised);
        let guard = if length > 1 { SWEEP_GUARD } else { GUARD };
        let (mut end, mut head, mut late) = (now.saturating_add(guard), head, Nanos::ZERO);
        for sweep in order.chunks_mut(length) {
            sweep.sort_unstable_by_key(|&at| sweep_key(head, &self.requests[at]));
            for request in sweep.iter().map(|&at| &self.requests[at]) {
                late = late.max(request.there(end, head, cost).saturating_sub(request.deadline));
                (end, head) = request.served(end, head, cost);
            }
        }
        Some((self.requests[*order.first()?], late))
    }

    fn first_promised(&self) -> Option<&RtRequest> {
        self.requests.iter().rev().find(|request| !request.starting)
    }

    /// True if all promised deadlines hold when `first` is served first and the others by deadline. A start is hurried
    /// only as far as its first bytes.
    fn keeps_deadlines(&self, first: &RtRequest, now: Nanos, head: u64, cost: &CostModel) -> bool {
        let bytes = if first.starting { first.bytes.min(START_BYTES) } else { first.bytes };
        let end = now.saturating_add(cost.read(head, first.position, bytes));
        if !first.starting && end > first.deadline.saturating_add(first.rate.time_for(bytes)) {
            return false;
        }
        let guard = if first.starting { START_GUARD } else { GUARD };
        self.spare_behind(Some(first.key), end, guard, first.position.saturating_add(bytes), cost).is_some()
    }

    /// By how much everything promised but `except` may be later than from `from` on, with `guard` in hand; `None` if
    /// not all deadlines hold.
    fn spare_behind(
        &self,
        except: Option<RtKey>,
        from: Nanos,
        guard: Nanos,
        head: u64,
        cost: &CostModel,
    ) -> Option<Nanos> {
        let mut end = from.saturating_add(guard);
        let (mut head, mut spare) = (head, Nanos::MAX);
        for request in self.requests.iter().rev().filter(|r| !r.starting && Some(r.key) != except) {
            let there = request.there(end, head, cost);
            if there > request.deadline {
                return None;
            }
            spare = spare.min(request.deadline.saturating_sub(there));
            (end, head) = request.served(end, head, cost);
        }
        Some(spare)
    }
}

/// The request that a head at `head` comes to first.
fn next_from<'a>(head: u64, requests: impl Iterator<Item = &'a RtRequest>) -> Option<RtRequest> {
    requests.min_by_key(|request| sweep_key(head, request)).copied()
}

/// The order in which a head at `head` comes to requests, going up and then back to the beginning.
const fn sweep_key(head: u64, request: &RtRequest) -> (bool, u64) {
    (request.position < head, request.position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::DiskProfile;

    fn request(slot: u32, position: u64, deadline_ms: u64) -> RtRequest {
        RtRequest {
            key: RtKey::Stream(slot),
            position,
            bytes: 8 << 20,
            found_bytes: 0,
            deadline: Nanos::from_millis(deadline_ms),
            rate: BitRate(8_800_000),
            starting: false,
        }
    }

    fn order(mut queue: RtQueue, cost: &CostModel) -> Vec<u32> {
        let (mut now, mut head, mut served) = (Nanos::ZERO, 0, Vec::new());
        while let Some(next) = queue.pick(now, head, cost) {
            let RtKey::Stream(slot) = next.key else { unreachable!("only streams here") };
            if served.last() != Some(&slot) {
                served.push(slot);
            }
            let bytes = next.bytes.min(limits::CHUNK_BYTES);
            now += cost.read(head, next.position, bytes);
            head = next.position + bytes;
            queue.advance(next.key, bytes, head);
        }
        served
    }

    #[test]
    fn one_sweep_while_deadlines_allow() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let mut queue = RtQueue::new(true);
        for (slot, gib, deadline) in [(1, 400, 3000), (2, 100, 3100), (3, 700, 2900), (4, 10, 3300)] {
            queue.put(request(slot, gib << 30, deadline));
        }
        assert_eq!(order(queue, &cost), [4, 2, 1, 3]);
    }

    #[test]
    fn without_a_head_the_earliest_deadline_goes_first() {
        let cost = CostModel::new(DiskProfile::flash_default());
        let mut queue = RtQueue::new(false);
        for (slot, gib, deadline) in [(1, 400, 3000), (2, 100, 3100), (3, 700, 2900), (4, 10, 3300)] {
            queue.put(request(slot, gib << 30, deadline));
        }
        queue.put(request(2, 100 << 30, 100));
        assert!(queue.remove(RtKey::Stream(4)) && !queue.remove(RtKey::Stream(4)));
        assert_eq!(queue.len(), 3);
        assert_eq!(queue.pick(Nanos::ZERO, 0, &cost).map(|r| r.key), Some(RtKey::Stream(2)));
    }

    #[test]
    fn an_urgent_block_leaves_the_sweep() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let mut queue = RtQueue::new(true);
        for (slot, gib, deadline) in [(1, 400, 3000), (2, 100, 3100), (3, 700, 120), (4, 10, 3300)] {
            queue.put(request(slot, gib << 30, deadline));
        }
        assert_eq!(order(queue, &cost)[0], 3);
    }

    #[test]
    fn a_queue_in_which_everything_is_urgent_is_served_in_turns() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let mut queue = RtQueue::new(true);
        for slot in 0..20 {
            let bytes = 24 << 20;
            let place = u64::from(slot * 7 % 20) << 35;
            queue.put(RtRequest { bytes, rate: BitRate(25_000_000), ..request(slot, place, 100) });
        }
        let turns = order(queue, &cost).len();
        assert!((20..=120).contains(&turns), "{turns} turns of at least 50 ms, not 480 of one read each");
    }

    #[test]
    fn a_start_goes_first_unless_it_costs_a_deadline() {
        let cost = CostModel::new(DiskProfile::spindle_default());
        let start = RtRequest { starting: true, ..request(9, 500 << 30, 0) };
        let mut queue = RtQueue::new(true);
        queue.put(request(1, 1 << 30, 3000));
        queue.put(start);
        assert_eq!(queue.pick(Nanos::ZERO, 0, &cost).map(|r| r.key), Some(RtKey::Stream(9)));
        queue.put(request(2, 1 << 30, 60));
        assert_eq!(queue.pick(Nanos::ZERO, 0, &cost).map(|r| r.key), Some(RtKey::Stream(2)));
    }

    #[test]
    fn what_several_ask_for_is_counted_once_until_one_of_them_goes() {
        let mut queue = RtQueue::new(true);
        queue.put(request(1, 1 << 30, 0));
        queue.put(RtRequest { found_bytes: 8 << 20, ..request(2, 1 << 30, 0) });
        queue.put(RtRequest { found_bytes: 6 << 20, ..request(3, 1 << 30, 0) });
        assert_eq!(queue.to_read(), (2, 10 << 20));
        queue.advance(RtKey::Stream(3), 7 << 20, 7 << 20);
        assert!(queue.serves(RtKey::Stream(3)));
        assert_eq!(queue.to_read(), (2, 9 << 20), "what it found is passed, a MiB of its own is left");
        queue.pass(RtKey::Stream(2), 1 << 20, 1 << 20);
        assert_eq!(queue.to_read(), (2, 9 << 20));
        assert!(queue.serves(RtKey::Stream(3)), "who finds its bytes takes nobody's turn");
        assert!(queue.remove(RtKey::Stream(1)));
        queue.find_nothing();
        assert_eq!(queue.to_read(), (2, 8 << 20));
    }
}
