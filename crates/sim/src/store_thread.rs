//! A disk's store thread, simulated: offers uploads, recordings, commits and probes, and works on grants.
//!
//! Promise: no piece or operation is begun without a grant or after its `until`; pieces are at most `PIECE_BYTES_MAX`
//! with two in flight; every grant ends in one `Done`. Not here: the real one (the `dirstore` crate), which keeps the same
//! contract (`dataplane::grant`).

use std::collections::BTreeMap;

use dataplane::grant::{Done, Grant, JobId, Offer, StoreMessage, Work, WorkClass};
use units::{BitRate, DiskId, Nanos, ReservationId, limits};

use crate::drive::Op;

/// Bytes a recording may keep in memory until they are written.
pub(crate) const BUFFER_BYTES: u64 = 4 << 20;
/// The same of an upload, whose source waits then; as the real thread's.
const UPLOAD_BUFFER_BYTES: u64 = 8 << 20;
/// What a commit writes to the file system's journal in the middle of the disk: what has changed, and behind a flush
/// that it is whole (ext4).
const JOURNAL_BYTES: u64 = 16 << 10;
const JOURNAL_END_BYTES: u64 = 4 << 10;
/// The journal goes round.
const JOURNAL_SPAN_BYTES: u64 = 128 << 20;
/// Pieces in flight.
const PIECES_IN_FLIGHT: u32 = 2;
/// Dirty bytes that are worth a flush though nobody waits for it: of less it is told, for a window to end with.
const DIRTY_WORTH_BYTES: u64 = 4 << 20;
/// Fewest bytes worth an offer, unless they are the last.
const OFFER_BYTES_MIN: u64 = 256 << 10;

/// What a writer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    /// Where on the device.
    pub(crate) position: u64,
    /// How much in all.
    pub(crate) bytes: u64,
    /// How fast it comes.
    pub(crate) rate: BitRate,
    /// A recording's reservation; `None` for an upload, which waits when it must.
    pub(crate) reservation: Option<ReservationId>,
}

/// What the thread wants done.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    pub(crate) messages: Vec<StoreMessage>,
    pub(crate) requests: Vec<(Op, u64, u64)>,
    /// Call [`StoreThread::poke`] then.
    pub(crate) wake: Option<Nanos>,
    /// Uploads acknowledged now.
    pub(crate) acknowledged: u32,
    /// Commits made now.
    pub(crate) committed: u32,
    /// Bytes made durable now.
    pub(crate) flushed_bytes: u64,
    /// Writers that ended now, acknowledged or failed.
    pub(crate) ended: Vec<(JobId, WriterEnd)>,
}

/// How a writer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterEnd {
    /// Written whole (an upload is acknowledged with the next commit).
    Written,
    /// The disk erred.
    Failed,
}

#[derive(Debug)]
struct Writer {
    source: Source,
    received: u64,
    settled: Nanos,
    issued: u64,
    written: u64,
    /// Ready bytes the schedule knows of.
    offered: u64,
}

impl Writer {
    /// What came in until `now`; an upload's source waits while the buffer is full, a recording's does not.
    fn settle(&mut self, now: Nanos) {
        let more = self.source.rate.bytes_in(now.saturating_sub(self.settled));
        let bound = if self.source.reservation.is_some() { u64::MAX } else { self.written + UPLOAD_BUFFER_BYTES };
        self.received = self.received.saturating_add(more).min(self.source.bytes).min(bound.max(self.received));
        self.settled = now;
    }

    fn ready(&self) -> u64 {
        self.received - self.issued
    }

    fn position(&self) -> u64 {
        self.source.position + self.issued
    }

    /// Ready bytes that make another offer worth while: a quantum more than the last one, or all there is.
    fn next_offer(&self) -> u64 {
        (self.offered + OFFER_BYTES_MIN).min(self.source.bytes - self.issued).max(1)
    }

    fn class(&self) -> WorkClass {
        match self.source.reservation {
            None => WorkClass::BestEffort,
            Some(reservation) => {
                let room = BUFFER_BYTES.saturating_sub(self.received - self.written);
                let deadline = self.settled.saturating_add(self.source.rate.time_for(room));
                WorkClass::RealTime { reservation, deadline }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CommitJob {
    id: JobId,
    dirty: u64,
    awaited: u32,
}

#[derive(Debug)]
struct Execution {
    grant: Grant,
    started: Nanos,
    left: u64,
    in_flight: u32,
    bytes: u64,
    ok: bool,
}

/// One disk's store thread.
#[derive(Debug)]
pub(crate) struct StoreThread {
    disk: DiskId,
    writers: BTreeMap<JobId, Writer>,
    probes: BTreeMap<JobId, u32>,
    commit: Option<CommitJob>,
    /// Written since the last flush, and uploads written whole that wait for one.
    dirty: u64,
    finished: u32,
    execution: Option<Execution>,
    next_job: u64,
    capacity: u64,
    /// Commits made.
    commits: u64,
    /// Largest excess of a recording's buffer over its bound, in bytes.
    overflow_max: u64,
}

impl StoreThread {
    pub(crate) fn new(disk: DiskId, capacity: u64) -> Self {
        Self {
            disk,
            writers: BTreeMap::new(),
            probes: BTreeMap::new(),
            commit: None,
            dirty: 0,
            finished: 0,
            execution: None,
            next_job: 1,
            capacity,
            commits: 0,
            overflow_max: 0,
        }
    }

    /// Bytes of its disk.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A writer begins.
    pub(crate) fn begin(&mut self, source: Source, now: Nanos, out: &mut Actions) -> JobId {
        let id = self.name();
        self.writers.insert(id, Writer { source, received: 0, settled: now, issued: 0, written: 0, offered: 0 });
        self.poke(now, out);
        id
    }

    /// A writer's client is gone, or a recording is over: the job is withdrawn, what it wrote is dropped.
    pub(crate) fn abandon(&mut self, id: JobId, out: &mut Actions) -> bool {
        let known = self.writers.remove(&id).is_some();
        if known {
            out.messages.push(StoreMessage::Withdraw { disk: self.disk, job: id });
        }
        known
    }

    /// Somebody asks about a content.
    pub(crate) fn probe(&mut self, reads: u32, out: &mut Actions) {
        let id = self.name();
        self.probes.insert(id, reads);
        out.messages.push(self.offer(id, Work::Probe { reads }, WorkClass::BestEffort));
    }

    /// Offers what has become ready, and says when to look again.
    pub(crate) fn poke(&mut self, now: Nanos, out: &mut Actions) {
        let busy = self.execution.as_ref().map(|e| e.grant.job);
        let mut offers = Vec::new();
        for (id, writer) in &mut self.writers {
            writer.settle(now);
            if writer.source.reservation.is_some() {
                let held = writer.received - writer.written;
                self.overflow_max = self.overflow_max.max(held.saturating_sub(BUFFER_BYTES));
            }
            if busy == Some(*id) || writer.issued == writer.source.bytes {
                continue;
            }
            if writer.ready() >= writer.next_offer() && writer.ready() > writer.offered {
                writer.offered = writer.ready();
                offers.push((*id, Work::Write { bytes: writer.ready(), position: writer.position() }, writer.class()));
            }
            let target = writer.next_offer();
            if writer.received < writer.source.bytes && target <= UPLOAD_BUFFER_BYTES && target > writer.ready() {
                let wait = writer.source.rate.time_for(target - writer.ready());
                let at = now.saturating_add(wait);
                out.wake = Some(out.wake.map_or(at, |w| w.min(at)));
            }
        }
        for (id, work, class) in offers {
            out.messages.push(self.offer(id, work, class));
        }
        self.offer_commit(out);
    }

    /// A grant arrived.
    pub(crate) fn grant(&mut self, grant: Grant, now: Nanos, out: &mut Actions) {
        assert!(self.execution.is_none(), "the world lets one grant through at a time");
        let mut execution = Execution { grant, started: now, left: 0, in_flight: 0, bytes: 0, ok: true };
        if self.writers.contains_key(&grant.job) {
            execution.left = grant.bytes_max;
        } else if let Some(commit) = self.commit.filter(|c| c.id == grant.job) {
            self.commit = Some(CommitJob { awaited: self.finished, dirty: self.dirty, ..commit });
            execution.in_flight = 1;
            // Nobody waits: nothing need be named, only the drive's cache emptied.
            let first = if self.finished > 0 { (Op::Write, self.journal(), JOURNAL_BYTES) } else { (Op::Flush, 0, 0) };
            out.requests.push(first);
        } else if let Some(reads) = self.probes.get(&grant.job) {
            execution.left = u64::from(*reads);
        }
        self.execution = Some(execution);
        self.go_on(now, out);
    }

    /// A request of the current grant is over.
    pub(crate) fn served(&mut self, operation: Op, bytes: u64, ok: bool, now: Nanos, out: &mut Actions) {
        let execution = self.execution.as_mut().expect("requests are made on a grant");
        execution.in_flight -= 1;
        if !ok {
            execution.ok = false;
            execution.left = 0;
        } else if self.commit.is_some_and(|commit| commit.id == execution.grant.job) {
            if let Some(next) = self.commit_goes_on(operation, out) {
                out.requests.push(next);
                self.execution.iter_mut().for_each(|execution| execution.in_flight += 1);
                return;
            }
        } else if operation == Op::Write {
            execution.bytes += bytes;
            self.dirty += bytes;
            if let Some(writer) = self.writers.get_mut(&execution.grant.job) {
                writer.written += bytes;
            }
        }
        self.go_on(now, out);
    }

    /// After one step of a commit: the next one, or `None` once it is made.
    fn commit_goes_on(&mut self, done: Op, out: &mut Actions) -> Option<(Op, u64, u64)> {
        match done {
            Op::Write => return Some((Op::Flush, 0, 0)),
            Op::Flush if self.commit.is_some_and(|commit| commit.awaited > 0) => {
                return Some((Op::WriteThrough, self.journal() + JOURNAL_BYTES, JOURNAL_END_BYTES));
            }
            Op::Flush | Op::Read | Op::WriteThrough | Op::Discard => {}
        }
        self.commits += 1;
        let commit = self.commit.expect("checked by the caller");
        self.dirty -= commit.dirty;
        self.finished -= commit.awaited;
        out.acknowledged += commit.awaited;
        out.committed += 1;
        out.flushed_bytes += commit.dirty;
        None
    }

    /// Where the journal goes on: round and round in the middle of the disk.
    fn journal(&self) -> u64 {
        let middle = self.capacity / 2 / limits::DIRECT_ALIGN * limits::DIRECT_ALIGN;
        let step = JOURNAL_BYTES + JOURNAL_END_BYTES;
        middle + self.commits % (JOURNAL_SPAN_BYTES.min(self.capacity / 8) / step) * step
    }

    /// Makes the next requests of the grant, or ends it.
    fn go_on(&mut self, now: Nanos, out: &mut Actions) {
        let Some(execution) = self.execution.as_mut() else { return };
        let job = execution.grant.job;
        if let Some(writer) = self.writers.get_mut(&job) {
            writer.settle(now);
            while execution.in_flight < PIECES_IN_FLIGHT && execution.left > 0 && now <= execution.grant.until {
                let bytes = limits::PIECE_BYTES_MAX.min(execution.left).min(writer.ready());
                if bytes == 0 {
                    break;
                }
                out.requests.push((Op::Write, writer.position(), bytes));
                writer.issued += bytes;
                execution.left -= bytes;
                execution.in_flight += 1;
            }
        } else if self.probes.contains_key(&job) && execution.left > 0 && execution.in_flight == 0 {
            out.requests.push((Op::Read, self.capacity / 37 / 4096 * 4096 * (execution.left % 36), 4096));
            execution.left -= 1;
            execution.in_flight = 1;
        }
        if execution.in_flight == 0 {
            self.end(now, out);
        }
    }

    /// Says what was done and what comes next of the job.
    fn end(&mut self, now: Nanos, out: &mut Actions) {
        let execution = self.execution.take().expect("checked by the caller");
        let job = execution.grant.job;
        let mut done = Done {
            disk: self.disk,
            job,
            bytes: execution.bytes,
            started: execution.started,
            ended: now,
            ok: execution.ok,
            ready_bytes: 0,
            position: u64::MAX,
        };
        let mut over = None;
        if let Some(writer) = self.writers.get_mut(&job) {
            if !execution.ok {
                over = Some(WriterEnd::Failed);
            } else if writer.written == writer.source.bytes {
                over = Some(WriterEnd::Written);
            } else if writer.ready() >= OFFER_BYTES_MIN.min(writer.source.bytes - writer.issued) {
                // Less than a quantum is offered when it has grown: the real thread waits for whole pieces likewise.
                done.ready_bytes = writer.ready();
                done.position = writer.position();
            }
            writer.offered = done.ready_bytes;
        }
        out.messages.push(StoreMessage::Done(done));
        if let Some(end) = over {
            let recording = self.writers.get(&job).is_some_and(|w| w.source.reservation.is_some());
            self.abandon(job, out);
            self.finished += u32::from(end == WriterEnd::Written && !recording);
            out.ended.push((job, end));
        }
        let committed = self.commit.is_some_and(|c| c.id == job);
        if self.probes.remove(&job).is_some() || committed {
            out.messages.push(StoreMessage::Withdraw { disk: self.disk, job });
        }
        if committed {
            self.commit = None;
        }
        self.poke(now, out);
    }

    /// Keeps the offer of a flush as large as what waits for it.
    fn offer_commit(&mut self, out: &mut Actions) {
        let wanted = self.finished > 0 || self.dirty > 0;
        let running = matches!((&self.execution, self.commit), (Some(e), Some(c)) if e.grant.job == c.id);
        if !wanted || running {
            return;
        }
        let now_wanted = (self.dirty, self.finished);
        if self.commit.is_some_and(|c| (c.dirty, c.awaited) == now_wanted) {
            return;
        }
        let id = self.commit.map_or_else(|| self.name(), |c| c.id);
        self.commit = Some(CommitJob { id, dirty: self.dirty, awaited: self.finished });
        let work = Work::Commit { dirty_bytes: self.dirty, awaited: self.finished > 0 };
        out.messages.push(self.offer(id, work, WorkClass::BestEffort));
    }

    fn name(&mut self) -> JobId {
        self.next_job += 1;
        JobId(self.next_job)
    }

    fn offer(&self, job: JobId, work: Work, class: WorkClass) -> StoreMessage {
        StoreMessage::Offer(Offer { disk: self.disk, job, work, class })
    }

    /// Bytes by which a recording's buffer was ever over its bound: it was not written in time.
    pub(crate) fn overflow_max(&self) -> u64 {
        self.overflow_max
    }

    /// Forgets overflows that had an excuse.
    pub(crate) fn forget_overflow(&mut self) {
        self.overflow_max = 0;
    }

    /// True if best-effort work waits for a grant.
    pub(crate) fn has_work(&self) -> bool {
        self.execution.is_none()
            && (self.commit.is_some_and(|commit| commit.awaited > 0 || commit.dirty >= DIRTY_WORTH_BYTES)
                || !self.probes.is_empty()
                || self.writers.values().any(|w| w.source.reservation.is_none() && w.offered > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn thread() -> (StoreThread, Actions) {
        (StoreThread::new(DiskId(0), 1 << 30), Actions::default())
    }

    fn upload(bytes: u64) -> Source {
        Source { position: 1 << 20, bytes, rate: BitRate(8_000_000_000), reservation: None }
    }

    fn grant(job: JobId, bytes_max: u64, until: Nanos) -> Grant {
        Grant { disk: DiskId(0), job, bytes_max, until }
    }

    #[test]
    fn an_upload_is_written_in_pieces_then_committed_then_acknowledged() {
        let (mut thread, mut out) = thread();
        let job = thread.begin(upload(400 << 10), MS(0), &mut out);
        assert!(out.messages.is_empty(), "nothing is ready yet");
        let wake = out.wake.expect("bytes are coming");
        thread.poke(wake, &mut out);
        let Some(StoreMessage::Offer(Offer { work: Work::Write { bytes, position }, .. })) = out.messages.pop() else {
            panic!("an offer of what is ready: {out:?}")
        };
        assert_eq!((bytes, position), (256 << 10, 1 << 20));
        assert!(thread.has_work());

        let mut out = Actions::default();
        thread.grant(grant(job, 2 << 20, MS(100)), MS(10), &mut out);
        let piece = limits::PIECE_BYTES_MAX;
        let first = 1 << 20;
        assert_eq!(out.requests, [(Op::Write, first, piece), (Op::Write, first + piece, piece)]);
        out.requests.clear();
        for (at, expected) in [(12, 2), (13, 2), (14, 1), (15, 0)] {
            thread.served(Op::Write, piece.min((400 << 10) - (at - 12) * piece), true, MS(at), &mut out);
            let in_flight = thread.execution.as_ref().map_or(0, |e| e.in_flight);
            assert_eq!(u64::from(in_flight), expected, "after the piece at {at} ms");
        }
        let StoreMessage::Done(done) = out.messages[0] else { panic!("the end comes first: {out:?}") };
        assert_eq!((done.bytes, done.ok, done.ready_bytes), (400 << 10, true, 0));
        assert_eq!(out.messages[1], StoreMessage::Withdraw { disk: DiskId(0), job });
        let StoreMessage::Offer(commit) = out.messages[2] else { panic!("a commit is offered: {out:?}") };
        assert_eq!(commit.work, Work::Commit { dirty_bytes: 400 << 10, awaited: true });

        let mut out = Actions::default();
        thread.grant(grant(commit.job, 0, MS(20)), MS(20), &mut out);
        assert!(matches!(out.requests[..], [(Op::Write, _, JOURNAL_BYTES)]), "what has changed: {out:?}");
        thread.served(Op::Write, JOURNAL_BYTES, true, MS(25), &mut out);
        thread.served(Op::Flush, 0, true, MS(40), &mut out);
        assert!(matches!(out.requests[1..], [(Op::Flush, ..), (Op::WriteThrough, ..)]), "that it is whole: {out:?}");
        assert_eq!(out.acknowledged, 0, "durable only when all of it is");
        thread.served(Op::WriteThrough, JOURNAL_END_BYTES, true, MS(50), &mut out);
        assert_eq!((out.acknowledged, out.flushed_bytes), (1, 400 << 10));
        assert!(!thread.has_work());
    }

    #[test]
    fn no_piece_begins_after_until() {
        let (mut thread, mut out) = thread();
        let job = thread.begin(upload(4 << 20), MS(0), &mut out);
        thread.poke(MS(10), &mut out);
        let mut out = Actions::default();
        thread.grant(grant(job, 2 << 20, MS(20)), MS(10), &mut out);
        thread.served(Op::Write, 128 << 10, true, MS(20), &mut out);
        assert_eq!(out.requests.len(), 3, "20 ms is not after 20 ms");
        thread.served(Op::Write, 128 << 10, true, MS(21), &mut out);
        thread.served(Op::Write, 128 << 10, true, MS(22), &mut out);
        assert_eq!(out.requests.len(), 3);
        let done = out.messages.iter().find_map(|m| if let StoreMessage::Done(d) = m { Some(*d) } else { None });
        let done = done.expect("the grant ends");
        assert_eq!((done.bytes, done.position), (384 << 10, (1 << 20) + (384 << 10)));
        assert_eq!(done.ready_bytes, (4 << 20) - (384 << 10));
    }

    #[test]
    fn an_error_ends_the_upload_and_a_withdrawn_job_still_ends_its_grant() {
        let (mut thread, mut out) = thread();
        let job = thread.begin(upload(4 << 20), MS(0), &mut out);
        thread.poke(MS(10), &mut out);
        let mut out = Actions::default();
        thread.grant(grant(job, 256 << 10, MS(50)), MS(10), &mut out);
        thread.served(Op::Write, 128 << 10, false, MS(20), &mut out);
        thread.served(Op::Write, 128 << 10, true, MS(21), &mut out);
        assert_eq!(out.ended, [(job, WriterEnd::Failed)]);
        let StoreMessage::Done(done) = out.messages[0] else { panic!("{out:?}") };
        assert!(!done.ok);

        let mut out = Actions::default();
        thread.grant(grant(job, 256 << 10, MS(50)), MS(30), &mut out);
        let StoreMessage::Done(done) = out.messages[0] else { panic!("{out:?}") };
        assert_eq!((done.bytes, done.ok), (0, true));
    }

    #[test]
    fn a_recording_has_a_deadline_and_its_overflow_is_seen() {
        let (mut thread, mut out) = thread();
        let reservation = ReservationId { slot: 1, generation: 1 };
        let source = Source { position: 0, bytes: 1 << 30, rate: BitRate(8 << 20), reservation: Some(reservation) };
        thread.begin(source, MS(0), &mut out);
        thread.poke(MS(1000), &mut out);
        let Some(StoreMessage::Offer(offer)) = out.messages.last() else { panic!("{out:?}") };
        assert_eq!(offer.class, WorkClass::RealTime { reservation, deadline: MS(4000) });
        assert_eq!(thread.overflow_max(), 0);
        thread.poke(MS(5000), &mut out);
        assert_eq!(thread.overflow_max(), 1 << 20);
    }
}
