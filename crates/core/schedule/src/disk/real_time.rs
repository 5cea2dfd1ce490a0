//! Reads that are due: the blocks of admitted streams, each with a deadline.
//!
//! Promise: the next read is the first on the way of the head among those that everything due in an earlier quarter
//! of a round can wait for (SCAN-EDF with deadlines in quarters of rounds: Reddy & Wyllie 1993); a starting stream's first bytes go before
//! that, under the same condition. Not here: the times for which requests can wait (`slack`), jobs (`best_effort`). See
//! docs/decisions/0007.

use units::{BitRate, Nanos, limits};

use super::cost::CostModel;
use super::slack::{Buckets, Slack};

/// One request: the bytes that a stream still wants to read, from its next byte on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtRequest {
    /// The stream's slot: unique in the queue.
    pub slot: u32,
    /// Where its next byte lies.
    pub position: u64,
    /// Bytes left; not zero.
    pub bytes: u64,
    /// When its next byte must be there; of a start, when it may be late for the first time.
    pub deadline: Nanos,
    /// How fast its deadline recedes as it is served.
    pub rate: BitRate,
    /// Its place in the time table.
    pub kind: ReadKind,
}

/// Where the time table has a place for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadKind {
    /// In the round of its stream's phase.
    Regular,
    /// A read of a start: the clock of its stream does not run yet, and it wants its first bytes soon.
    Start,
    /// In no round of its own but spread over all of them: a whole content, by the clock of its session.
    Whole,
    /// The same with which a session begins: its viewer waits for all of it.
    FirstWhole,
}

impl ReadKind {
    /// True if all of it is due at once, at a time that its session's clock says.
    const fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::FirstWhole)
    }

    /// How much of it is hurried.
    const fn hurried_bytes(self) -> u64 {
        match self {
            Self::Start => START_BYTES,
            Self::FirstWhole => u64::MAX,
            Self::Regular | Self::Whole => 0,
        }
    }
}

impl RtRequest {
    /// When its next byte is due if a clock begins to run that needs it by `deadline`: an earlier promise stays in
    /// force.
    #[must_use]
    pub fn promised(&self, deadline: Nanos) -> Nanos {
        if self.kind == ReadKind::Start { deadline } else { deadline.min(self.deadline) }
    }
}

/// When the head has come to a block, this transfer time of it is read, in whole read units. Otherwise a disk that is late
/// would read blocks in single read units, each with a seek of its own, and would never catch up. Decision 0007, table of
/// constants.
const SLICE: Nanos = Nanos::from_millis(50);
/// The part of a start that is hurried: the bytes with which the plane begins to send (two pages). Decision 0007, table of
/// constants.
pub const START_BYTES: u64 = 512 * 1024;

#[derive(Debug, Clone, Copy)]
struct WaitingRead {
    request: RtRequest,
    /// Bytes of it that go before the sweep.
    hurried_bytes: u64,
    /// The first read of a start: requested when its viewer came, not rounds ahead as every later read.
    begins: bool,
}

/// The reads of one disk.
#[derive(Debug)]
pub struct RtQueue {
    waiting: Vec<WaitingRead>,
    /// Where a stream's request is.
    places: Vec<u32>,
    /// The block that was read last, and how many bytes of it in a row.
    block: Option<(u32, u64)>,
    sweeps: bool,
}

const NOWHERE: u32 = u32::MAX;

impl RtQueue {
    /// An empty queue with room for every stream; `sweeps` on a disk with a head.
    #[must_use]
    pub fn new(sweeps: bool) -> Self {
        let (waiting, places) = (Vec::with_capacity(limits::STREAMS_MAX), vec![NOWHERE; limits::STREAMS_MAX]);
        Self { waiting, places, block: None, sweeps }
    }

    /// Whether the disk has a head; the queue is empty.
    pub(super) fn set_sweeps(&mut self, sweeps: bool) {
        debug_assert!(self.is_empty(), "requests are in the order of the disk's kind");
        (self.sweeps, self.block) = (sweeps, None);
    }

    /// Adds a stream's request, or replaces the one it had.
    pub fn put(&mut self, request: RtRequest) {
        assert!(request.bytes > 0, "a request wants something");
        let slot = request.slot;
        let hurried_bytes = request.kind.hurried_bytes().min(request.bytes);
        let waiting = WaitingRead { request, hurried_bytes, begins: request.kind == ReadKind::Start };
        match self.place_of(slot) {
            Some(at) => self.waiting[at] = waiting,
            None => {
                assert!(self.waiting.len() < self.waiting.capacity(), "a stream has one request");
                self.note_place(slot, self.waiting.len());
                self.waiting.push(waiting);
            }
        }
        debug_assert!(self.find(slot).is_some_and(|found| found.slot == slot), "a request is found at its place");
    }

    /// Forgets a request.
    pub fn remove(&mut self, slot: u32) {
        let Some(at) = self.place_of(slot) else { return };
        let removed = self.waiting.swap_remove(at);
        debug_assert!(removed.request.slot == slot, "the table of places leads to another stream");
        self.note_place(slot, NOWHERE as usize);
        if let Some(moved) = self.waiting.get(at).map(|moved| moved.request.slot) {
            self.note_place(moved, at);
        }
        self.block = self.block.filter(|(block, _)| *block != slot);
        debug_assert!(self.place_of(slot).is_none(), "a stream without a request has no place");
    }

    /// The request of this stream.
    #[must_use]
    pub fn find(&self, slot: u32) -> Option<&RtRequest> {
        self.place_of(slot).map(|at| &self.waiting[at].request)
    }

    /// Enters that `bytes` of a request were issued: the rest lies at `position`. The request is gone when nothing is
    /// left.
    pub fn advance(&mut self, slot: u32, bytes: u64, position: u64) {
        let before = self.block.take().filter(|(block, _)| *block == slot).map_or(0, |(_, bytes)| bytes);
        let Some(at) = self.place_of(slot) else { return };
        let WaitingRead { request, hurried_bytes, .. } = &mut self.waiting[at];
        if request.bytes <= bytes {
            self.remove(slot);
            return;
        }
        debug_assert!(request.slot == slot, "the table of places leads to another stream");
        debug_assert!(*hurried_bytes <= request.bytes, "more is hurried than is read");
        self.block = Some((slot, before + bytes));
        request.bytes -= bytes;
        request.position = position;
        *hurried_bytes = hurried_bytes.saturating_sub(bytes);
        if request.kind == ReadKind::Regular {
            request.deadline = request.deadline.saturating_add(request.rate.time_for(bytes));
        }
    }

    /// A stream's clock began to run, or that of a follower: its next byte is due then.
    pub fn promise(&mut self, slot: u32, deadline: Nanos) {
        if let Some(at) = self.place_of(slot) {
            let WaitingRead { request, hurried_bytes, .. } = &mut self.waiting[at];
            debug_assert!(request.slot == slot, "another stream's deadline would change");
            (request.deadline, request.kind, *hurried_bytes) = (request.promised(deadline), ReadKind::Regular, 0);
        }
    }

    fn place_of(&self, slot: u32) -> Option<usize> {
        self.places.get(slot as usize).filter(|&&at| at != NOWHERE).map(|&at| at as usize)
    }

    fn note_place(&mut self, slot: u32, at: usize) {
        self.places[slot as usize] = u32::try_from(at).unwrap_or(NOWHERE);
    }

    /// Enters the due reads. The request of `instead`, if one is named, counts as due at that time.
    pub fn fill(&self, buckets: &mut Buckets, instead: Option<(u32, Nanos)>, cost: &CostModel) {
        for WaitingRead { request, .. } in &self.waiting {
            let deadline = instead.filter(|(other, _)| *other == request.slot).map_or(request.deadline, |(_, at)| at);
            enter(buckets, request, deadline, cost);
        }
    }

    /// Enters the waiting reads that were requested in time: not the first ones of starts, which are due as soon as a
    /// viewer comes.
    pub fn fill_regular(&self, buckets: &mut Buckets, cost: &CostModel) {
        let regular = self.waiting.iter().filter(|waiting| !waiting.begins);
        regular.for_each(|WaitingRead { request, .. }| enter(buckets, request, request.deadline, cost));
    }

    /// Enters the reads that have places of their own in the time table.
    pub fn fill_placed(&self, buckets: &mut Buckets, cost: &CostModel) {
        let placed = self.waiting.iter().filter(|waiting| !waiting.request.kind.is_whole());
        placed.for_each(|WaitingRead { request, .. }| enter(buckets, request, request.deadline, cost));
    }

    /// The request to serve next with the head at `head`; `None` if a job that is due comes before all of them.
    #[must_use]
    pub fn pick(&self, slack: &Slack, head: u64, cost: &CostModel) -> Option<RtRequest> {
        let requests = || self.waiting.iter().map(|waiting| &waiting.request);
        if !self.sweeps {
            return requests().min_by_key(|request| request.deadline).copied();
        }
        let hurried = self.waiting.iter().filter(|waiting| waiting.hurried_bytes > 0);
        let first = hurried.filter(|waiting| affordable(&waiting.request, waiting.hurried_bytes, slack, head, cost));
        if let Some(start) = first.min_by_key(|waiting| sweep_key(head, waiting.request.position)) {
            return Some(start.request);
        }
        if let Some((slot, bytes)) = self.block
            && bytes < slice_bytes(head.saturating_sub(bytes), cost)
        {
            debug_assert!(self.find(slot).is_some(), "the rest of the block waits");
            return self.find(slot).copied();
        }
        let next = requests().filter(|request| {
            let unit = if request.position == head { limits::CHUNK_BYTES } else { u64::MAX };
            affordable(request, request.bytes.min(unit), slack, head, cost)
        });
        next.min_by_key(|request| sweep_key(head, request.position)).copied()
    }

    /// True if a stream waits for its first bytes.
    #[must_use]
    pub fn has_start(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.hurried_bytes > 0)
    }

    /// Requests waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Enters the bytes to read for a request, in two parts: a slice, and the rest, due when the stream needs it.
fn enter(buckets: &mut Buckets, request: &RtRequest, deadline: Nanos, cost: &CostModel) {
    let RtRequest { position, bytes, kind, .. } = *request;
    // Nothing of a whole content is sent before all of it is in memory.
    let slice = if kind.is_whole() { bytes } else { bytes.min(slice_bytes(position, cost)) };
    let transfer = |from: u64, bytes: u64| cost.profile().transfer_time(from, bytes);
    buckets.add_read(deadline, transfer(position, slice));
    if slice < bytes {
        let later = deadline.saturating_add(request.rate.time_for(slice));
        buckets.add_read(later, transfer(position.saturating_add(slice), bytes - slice));
    }
}

/// Bytes of a slice that begins at `position`: as many whole read units as fit into it, and at least one. If a part of
/// one more were counted, that unit would be read to its end, which takes longer than was counted.
fn slice_bytes(position: u64, cost: &CostModel) -> u64 {
    let bytes = cost.profile().rate_at(position) / (Nanos::from_secs(1).0 / SLICE.0);
    (bytes - bytes % limits::CHUNK_BYTES).max(limits::CHUNK_BYTES)
}

/// Whether everything due before this request can wait until this part of it is read.
fn affordable(request: &RtRequest, bytes: u64, slack: &Slack, head: u64, cost: &CostModel) -> bool {
    let before = slack.before(request.deadline);
    before == f64::INFINITY || cost.read(head, request.position, bytes).as_secs_f64() <= before
}

/// The order in which a head at `head` comes to places, going up and then back to the beginning.
pub(super) const fn sweep_key(head: u64, position: u64) -> (bool, u64) {
    (position < head, position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Grid;
    use crate::profile::DiskProfile;

    const NOW: Nanos = Nanos::from_secs(10);

    fn request(slot: u32, position: u64, deadline_ms: u64) -> RtRequest {
        RtRequest {
            slot,
            position,
            bytes: 8 << 20,
            deadline: NOW.saturating_add(Nanos::from_millis(deadline_ms)),
            rate: BitRate(8_800_000),
            kind: ReadKind::Regular,
        }
    }

    fn queue(requests: &[RtRequest]) -> RtQueue {
        let mut queue = RtQueue::new(true);
        requests.iter().for_each(|request| queue.put(*request));
        queue
    }

    fn next(queue: &RtQueue, head: u64) -> Option<u32> {
        let cost = CostModel::new(DiskProfile::spindle_default(), Nanos::from_secs(1));
        let mut buckets = Buckets::new(Grid::new(Nanos::ZERO, Nanos::from_secs(1)), NOW);
        queue.fill(&mut buckets, None, &cost);
        queue.pick(&buckets.slack(NOW, cost.profile(), 1.0), head, &cost).map(|request| request.slot)
    }

    #[test]
    fn one_sweep_serves_all_while_the_earliest_can_wait() {
        let far = [request(0, 500 << 30, 900), request(1, 600 << 30, 2900), request(2, 100 << 30, 2900)];
        assert_eq!(next(&queue(&far), 550 << 30), Some(1), "the next one upwards");
        let near = [request(0, 500 << 30, 240), far[1], far[2]];
        assert_eq!(next(&queue(&near), 550 << 30), Some(0), "it cannot wait for another block");
    }

    #[test]
    fn a_block_is_read_for_a_slice_at_least_and_on_while_others_can_wait() {
        let mut queue = queue(&[request(0, 500 << 30, 900), request(1, 600 << 30, 100)]);
        queue.advance(0, 1 << 20, (500 << 30) + (1 << 20));
        assert_eq!(next(&queue, (500 << 30) + (1 << 20)), Some(0), "the head has just come");
        queue.advance(0, 6 << 20, (500 << 30) + (7 << 20));
        assert_eq!(next(&queue, (500 << 30) + (7 << 20)), Some(1), "which is urgent");
        queue.remove(1);
        assert_eq!(next(&queue, (500 << 30) + (7 << 20)), Some(0));
    }

    #[test]
    fn a_starting_streams_first_bytes_go_ahead_unless_they_cost_a_deadline() {
        let start = RtRequest { kind: ReadKind::Start, ..request(1, 500 << 30, 3000) };
        assert_eq!(next(&queue(&[request(0, 1 << 30, 900), start]), 0), Some(1));
        assert_eq!(next(&queue(&[request(0, 1 << 30, 150), start]), 0), Some(0));
        let mut begun = queue(&[request(0, 1 << 30, 900), start]);
        begun.advance(1, 1 << 20, (500 << 30) + (1 << 20));
        assert!(!begun.has_start(), "the rest of it is a block like others");
        begun.promise(1, NOW);
        assert_eq!(begun.find(1).map(|request| (request.deadline, request.kind)), Some((NOW, ReadKind::Regular)));
    }

    #[test]
    fn all_of_the_block_that_a_session_begins_with_goes_ahead_unless_it_costs_a_deadline() {
        let first = RtRequest { kind: ReadKind::FirstWhole, ..request(1, 500 << 30, 6000) };
        let mut begun = queue(&[request(0, 1 << 30, 900), request(2, 501 << 30, 9000), first]);
        assert_eq!(next(&begun, 0), Some(1));
        begun.advance(1, 7 << 20, (500 << 30) + (7 << 20));
        assert_eq!(next(&begun, 0), Some(1), "to its end");
        assert_eq!(next(&queue(&[request(0, 1 << 30, 150), first]), 0), Some(0));
    }

    #[test]
    fn without_a_head_the_most_urgent_goes_first() {
        let mut queue = RtQueue::new(false);
        for slot in 0..10u32 {
            queue.put(request(slot, u64::from(slot) << 30, u64::from(20 - slot)));
        }
        queue.remove(3);
        assert_eq!(next(&queue, 0), Some(9));
    }
}
