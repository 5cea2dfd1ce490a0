//! A disk's store thread, simulated: the decisions of the real one (`storage::uploads`), with files that are places on the disk
//! and clients that are rates.
//!
//! Promise: as the real thread, it is busy while it uses a grant; pieces are at most `piece_bytes` with two in flight, and
//! none begins after the grant's `until`. Not here: the choice of offers and the time of commits (the `storage` crate).

use std::collections::{BTreeMap, VecDeque};

use storage::grant::{Grant, JobId, Offer, StoreMessage, StoreWork, WorkClass, piece_bytes};
use storage::uploads::{CommitPart, Granted, UploadFailure, Uploads};
use units::{DiskId, Nanos, UploadId, limits};

use crate::drive::Op;
use crate::received_file::{ReceivedFile, UploadSource};

/// Bytes that a commit writes to the file system's journal in the middle of the disk: the changes, and behind a flush the
/// record that they are whole (ext4).
const JOURNAL_BYTES: u64 = 16 << 10;
const JOURNAL_END_BYTES: u64 = 4 << 10;
/// The journal goes round.
const JOURNAL_SPAN_BYTES: u64 = 128 << 20;
/// Pieces in flight.
const PIECES_IN_FLIGHT: u32 = 2;
/// Dirty bytes that are worth a flush though no upload waits for it: fewer are only reported.
const DIRTY_WORTH_BYTES: u64 = 4 << 20;

/// Actions that the thread wants done.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    pub(crate) messages: Vec<StoreMessage>,
    pub(crate) requests: Vec<(Op, u64, u64)>,
    /// Call [`StoreThread::poke`] then.
    pub(crate) wake: Option<Nanos>,
    /// Commits made now.
    pub(crate) committed: u32,
    /// Bytes made durable now.
    pub(crate) flushed_bytes: u64,
    /// Uploads and recordings that are over now.
    pub(crate) ended: Vec<(UploadId, UploadEnd)>,
}

/// How an upload ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadEnd {
    /// All of it is durable.
    Acknowledged,
    /// The disk erred.
    Failed,
}

/// Present work of the thread.
#[derive(Debug)]
enum Busy {
    Writing { upload: UploadId, next: u64, left: u64, until: Nanos, in_flight: u32, written: u64, ok: bool },
    Probing { left: u32 },
    Committing { dirty_bytes: u64, journal: JournalProgress },
}

/// How far the file system's journal is with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JournalProgress {
    Changed,
    Clean,
}

/// One disk's store thread.
#[derive(Debug)]
pub(crate) struct StoreThread {
    uploads: Uploads<ReceivedFile, ()>,
    running: Vec<UploadId>,
    probes: VecDeque<u32>,
    busy: Option<Busy>,
    capacity: u64,
    /// Commits made.
    commits: u64,
    /// Best-effort work that was offered and not granted.
    waiting: BTreeMap<JobId, StoreWork>,
    /// Largest excess of a recording's buffer over its bound, in bytes.
    overflow_max: u64,
    /// Longest time at its rate of a recording's bytes not yet durable, and its largest excess over the promise.
    at_risk_max: (Nanos, Nanos),
    granted_at: Nanos,
    /// How long recordings have had the disk: for their writes, and for commits while one runs.
    recording_time: Nanos,
}

impl StoreThread {
    pub(crate) fn new(disk: DiskId, capacity: u64) -> Self {
        Self {
            uploads: Uploads::new(disk),
            running: Vec::new(),
            probes: VecDeque::new(),
            busy: None,
            capacity,
            commits: 0,
            waiting: BTreeMap::new(),
            overflow_max: 0,
            at_risk_max: (Nanos::ZERO, Nanos::ZERO),
            granted_at: Nanos::ZERO,
            recording_time: Nanos::ZERO,
        }
    }

    /// How long recordings have had the disk so far.
    pub(crate) fn recording_time(&self) -> Nanos {
        self.recording_time
    }

    /// Bytes of its disk.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// An upload or recording begins.
    pub(crate) fn begin(&mut self, source: UploadSource, now: Nanos, out: &mut Actions) -> UploadId {
        let terms = source.recording.map(|(terms, ..)| terms);
        let file = ReceivedFile::new(source, now);
        let upload = self.uploads.begin(file, terms, false, 0);
        self.running.push(upload);
        self.poke(now, out);
        upload
    }

    /// Queues a probe: a client asks about a content.
    pub(crate) fn probe(&mut self, reads: u32, now: Nanos, out: &mut Actions) {
        self.probes.push_back(reads);
        self.poke(now, out);
    }

    /// Takes the bytes received, and schedules the next look.
    pub(crate) fn poke(&mut self, now: Nanos, out: &mut Actions) {
        if self.busy.is_none() {
            for upload in &self.running {
                let Some(file) = self.uploads.receiving(*upload) else { continue };
                self.overflow_max = self.overflow_max.max(file.settle(now));
                if let Some((at_risk, too_much)) = file.at_risk() {
                    let (most, most_too_much) = self.at_risk_max;
                    self.at_risk_max = (most.max(at_risk), most_too_much.max(too_much));
                }
                let (due, is_all) = file.hand_over(now);
                if let Some(at) = file.next_due() {
                    out.wake = Some(out.wake.map_or(at, |known| known.min(at)));
                }
                if due > 0 {
                    self.uploads.received(*upload, due);
                }
                if is_all {
                    self.uploads.finish(*upload);
                }
            }
            self.uploads.begin_blocks(now);
            out.wake = out.wake.into_iter().chain(self.uploads.next_block()).min();
            if let Some(reads) = self.probes.front() {
                self.uploads.offer_chore(*reads, 0);
            }
        }
        self.post(out);
    }

    /// A grant arrived.
    pub(crate) fn grant(&mut self, grant: Grant, now: Nanos, out: &mut Actions) {
        assert!(self.busy.is_none(), "the world lets one grant through at a time");
        self.waiting.remove(&grant.job);
        self.granted_at = now;
        let dirty_bytes = self.uploads.dirty_bytes();
        self.busy = match self.uploads.granted(grant, now) {
            Granted::Late | Granted::Unused => None,
            Granted::Write { upload, offset, bytes } => {
                let until = grant.until;
                Some(Busy::Writing { upload, next: offset, left: bytes, until, in_flight: 0, written: 0, ok: true })
            }
            Granted::Commit => Some(Busy::Committing { dirty_bytes, journal: JournalProgress::Changed }),
            Granted::Chore => self.probes.pop_front().map(|left| Busy::Probing { left }),
        };
        self.go_on(now, out);
    }

    /// A request of the current grant is over.
    pub(crate) fn served(&mut self, operation: Op, bytes: u64, ok: bool, now: Nanos, out: &mut Actions) {
        match self.busy.as_mut().expect("requests are made on a grant") {
            Busy::Writing { left, in_flight, written, ok: all_ok, .. } => {
                *in_flight -= 1;
                *all_ok &= ok;
                if ok {
                    *written += bytes;
                } else {
                    *left = 0;
                }
            }
            Busy::Probing { left } => *left = if ok { *left } else { 0 },
            Busy::Committing { .. } => match operation {
                Op::Write if ok => return out.requests.push((Op::Flush, 0, 0)),
                Op::Flush if ok && self.names_are_synced() => {
                    return out.requests.push((Op::WriteThrough, self.journal() + JOURNAL_BYTES, JOURNAL_END_BYTES));
                }
                _ => self.part_done(ok, now, out),
            },
        }
        self.go_on(now, out);
    }

    fn names_are_synced(&mut self) -> bool {
        matches!(self.uploads.next_part(), Some(CommitPart::SyncName(_) | CommitPart::Grown { .. }))
    }

    /// A part of a commit that took the disk's time is done: a name is durable, or the drive's cache is empty.
    fn part_done(&mut self, ok: bool, now: Nanos, out: &mut Actions) {
        let syncs = self.names_are_synced();
        if let Some(Busy::Committing { journal, .. }) = self.busy.as_mut().filter(|_| syncs) {
            *journal = JournalProgress::Clean;
        }
        if let Some(CommitPart::Grown { uploads, .. }) = self.uploads.next_part().filter(|_| ok) {
            for upload in uploads {
                self.uploads.file_mut(upload).into_iter().for_each(ReceivedFile::committed);
            }
        }
        if let Some(CommitPart::SyncName(upload) | CommitPart::Settled(upload)) = self.uploads.next_part() {
            self.end(upload, if ok { UploadEnd::Acknowledged } else { UploadEnd::Failed }, out);
        }
        self.uploads.part_done(if ok { Ok(()) } else { Err(UploadFailure::Disk) }, now);
    }

    fn end(&mut self, upload: UploadId, how: UploadEnd, out: &mut Actions) {
        self.running.retain(|running| *running != upload);
        out.ended.push((upload, how));
    }

    /// Next place of the journal: round and round in the middle of the disk.
    fn journal(&self) -> u64 {
        let middle = self.capacity / 2 / limits::DIRECT_ALIGN * limits::DIRECT_ALIGN;
        let step = JOURNAL_BYTES + JOURNAL_END_BYTES;
        middle + self.commits % (JOURNAL_SPAN_BYTES.min(self.capacity / 8) / step) * step
    }

    /// Makes the next requests of the grant, or ends it.
    fn go_on(&mut self, now: Nanos, out: &mut Actions) {
        let goes_on = match &mut self.busy {
            None => false,
            Some(Busy::Writing { upload, next, left, until, in_flight, .. }) => {
                let position = self.uploads.file_mut(*upload).map_or(0, |file| file.source().position);
                while *in_flight < PIECES_IN_FLIGHT && *left > 0 && now <= *until {
                    // Padding goes beyond the client's bytes, as it does in a file.
                    let bytes = piece_bytes(*until).min(*left);
                    out.requests.push((Op::Write, position + *next, bytes));
                    (*next, *left, *in_flight) = (*next + bytes, *left - bytes, *in_flight + 1);
                }
                *in_flight > 0
            }
            Some(Busy::Probing { left }) => {
                let goes_on = *left > 0;
                if goes_on {
                    let place = self.capacity / 37 / 4096 * 4096 * u64::from(*left % 36);
                    out.requests.push((Op::Read, place, 4096));
                    *left -= 1;
                }
                goes_on
            }
            Some(Busy::Committing { journal, .. }) => {
                let journal = *journal;
                self.commit_goes_on(journal, now, out)
            }
        };
        if !goes_on {
            if self.is_for_recordings() {
                self.recording_time = self.recording_time.saturating_add(now.saturating_sub(self.granted_at));
            }
            match self.busy.take() {
                Some(Busy::Writing { upload, written, ok, .. }) => self.written(upload, written, ok, now, out),
                Some(Busy::Probing { .. }) => self.uploads.chore_done(now),
                Some(Busy::Committing { dirty_bytes, .. }) => {
                    self.commits += 1;
                    out.committed += 1;
                    out.flushed_bytes += dirty_bytes - self.uploads.dirty_bytes();
                }
                None => {}
            }
            self.poke(now, out);
        }
    }

    /// True if the current grant is for a promise to a recording. Its commits are shared with uploads.
    fn is_for_recordings(&mut self) -> bool {
        let uploads = &mut self.uploads;
        let mut records = |upload| uploads.file_mut(upload).is_some_and(|file| file.source().recording.is_some());
        match &self.busy {
            Some(Busy::Writing { upload, .. }) => records(*upload),
            Some(Busy::Committing { .. }) => self.running.iter().any(|upload| records(*upload)),
            Some(Busy::Probing { .. }) | None => false,
        }
    }

    /// Ends a part of a write grant.
    fn written(&mut self, upload: UploadId, bytes: u64, ok: bool, now: Nanos, out: &mut Actions) {
        // Bytes received meanwhile, before there was room for them.
        if let Some(file) = self.uploads.file_mut(upload) {
            self.overflow_max = self.overflow_max.max(file.settle(now));
            file.wrote(bytes);
        }
        let over = self.uploads.wrote(upload, bytes, (!ok).then_some(UploadFailure::Disk), now);
        if over.is_some() {
            self.end(upload, UploadEnd::Failed, out);
        }
    }

    /// The parts of a commit up to the next that takes the disk's time. False once there is none: of the names of one
    /// commit, the first sync finds all there is to do.
    fn commit_goes_on(&mut self, journal: JournalProgress, now: Nanos, out: &mut Actions) -> bool {
        let place = self.journal();
        while let Some(part) = self.uploads.next_part() {
            match part {
                CommitPart::SyncName(_) | CommitPart::Grown { .. } if journal == JournalProgress::Changed => {
                    out.requests.push((Op::Write, place, JOURNAL_BYTES));
                    return true;
                }
                // Nothing need be named, only the drive's cache emptied.
                CommitPart::Flush { .. } => {
                    out.requests.push((Op::Flush, 0, 0));
                    return true;
                }
                CommitPart::SyncName(_) | CommitPart::Settled(_) | CommitPart::Grown { .. } => {
                    self.part_done(true, now, out);
                }
                CommitPart::Withhold(upload) => {
                    self.end(upload, UploadEnd::Failed, out);
                    self.uploads.part_done(Err(UploadFailure::Disk), now);
                }
                CommitPart::Secure { .. }
                | CommitPart::Publish(_)
                | CommitPart::SyncRemoval(())
                | CommitPart::CheckRemoval(()) => self.uploads.part_done(Ok(()), now),
            }
        }
        false
    }

    /// Hands over the messages of the uploads, and notes the work that waits for a grant.
    fn post(&mut self, out: &mut Actions) {
        self.uploads.send_messages(|message| {
            match message {
                StoreMessage::Offer(Offer { job, work, class: WorkClass::BestEffort, .. }) => {
                    self.waiting.insert(job, work);
                }
                StoreMessage::Offer(_) => {}
                StoreMessage::Withdraw { job, .. } => drop(self.waiting.remove(&job)),
                StoreMessage::Done(done) if done.ready_bytes > 0 => {
                    let work = StoreWork::Write { bytes: done.ready_bytes, position: done.position };
                    self.waiting.insert(done.job, work);
                }
                StoreMessage::Done(_) | StoreMessage::Placed { .. } => {}
            }
            out.messages.push(message);
            true
        });
    }

    /// Bytes by which a recording's buffer was ever over its bound: it was not written in time.
    pub(crate) fn overflow_max(&self) -> u64 {
        self.overflow_max
    }

    /// Most bytes of a recording that were not durable, as time at its rate, and by how much that time exceeded the promise.
    pub(crate) fn at_risk_max(&self) -> (Nanos, Nanos) {
        self.at_risk_max
    }

    /// Forgets the excused excesses.
    pub(crate) fn forget_overflow(&mut self) {
        self.overflow_max = 0;
        self.at_risk_max = (Nanos::ZERO, Nanos::ZERO);
    }

    /// True if best-effort work waits for a grant, and no grant is out.
    pub(crate) fn has_work(&self) -> bool {
        self.busy.is_none() && self.best_effort_waits()
    }

    /// True if this job is best effort and waits.
    pub(crate) fn waits_with(&self, job: JobId) -> bool {
        self.waiting.contains_key(&job)
    }

    /// True if best-effort work waits for a grant, whatever else is granted: writes, probes, and commits that an upload waits for or
    /// that are worth a flush.
    pub(crate) fn best_effort_waits(&self) -> bool {
        let is_worth = |work: &StoreWork| match work {
            StoreWork::Commit { dirty_bytes, awaited } => *awaited || *dirty_bytes >= DIRTY_WORTH_BYTES,
            StoreWork::Write { .. } | StoreWork::Probe { .. } => true,
        };
        self.waiting.values().any(is_worth)
    }
}

#[cfg(test)]
mod tests {
    use storage::grant::RecordingPlace;
    use storage::uploads::RecordingTerms;
    use units::{BitRate, ReservationId};

    use super::*;
    use crate::camera::Camera;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;
    const PIECE: u64 = limits::PIECE_BYTES_MAX;

    fn thread() -> (StoreThread, Actions) {
        (StoreThread::new(DiskId(0), 1 << 30), Actions::default())
    }

    fn upload(bytes: u64) -> UploadSource {
        UploadSource { position: 1 << 20, bytes, rate: BitRate(8_000_000_000), recording: None }
    }

    fn grant(job: JobId, bytes_max: u64, until: Nanos) -> Grant {
        Grant { disk: DiskId(0), job, bytes_max, until }
    }

    fn offer(out: &Actions) -> Offer {
        let mut offers =
            out.messages.iter().filter_map(|m| if let StoreMessage::Offer(o) = m { Some(*o) } else { None });
        offers.next_back().unwrap_or_else(|| panic!("an offer: {out:?}"))
    }

    #[test]
    fn an_upload_is_written_in_pieces_then_committed_then_acknowledged() {
        let (mut thread, mut out) = thread();
        let id = thread.begin(upload(400 << 10), MS(0), &mut out);
        assert!(out.messages.is_empty(), "nothing is ready yet");
        let wake = out.wake.expect("bytes are coming");
        thread.poke(wake, &mut out);
        let write = offer(&out);
        assert_eq!(write.work, StoreWork::Write { bytes: 400 << 10, position: 1 << 20 });
        assert!(thread.has_work());

        let mut out = Actions::default();
        thread.grant(grant(write.job, 2 << 20, MS(100)), MS(10), &mut out);
        let first = 1 << 20;
        assert_eq!(out.requests, [(Op::Write, first, PIECE), (Op::Write, first + PIECE, PIECE)]);
        for (at, bytes) in [(12, PIECE), (13, PIECE), (14, PIECE), (15, (400 << 10) - 3 * PIECE)] {
            thread.served(Op::Write, bytes, true, MS(at), &mut out);
        }
        assert_eq!(out.requests.len(), 4);
        let done = out.messages.iter().find_map(|m| if let StoreMessage::Done(d) = m { Some(*d) } else { None });
        assert_eq!(done.map(|done| (done.bytes, done.ok, done.ready_bytes)), Some((400 << 10, true, 0)));
        let commit = offer(&out);
        assert_eq!(commit.work, StoreWork::Commit { dirty_bytes: 400 << 10, awaited: true });

        let mut out = Actions::default();
        thread.grant(grant(commit.job, 0, MS(20)), MS(20), &mut out);
        assert!(matches!(out.requests[..], [(Op::Write, _, JOURNAL_BYTES)]), "what has changed: {out:?}");
        thread.served(Op::Write, JOURNAL_BYTES, true, MS(25), &mut out);
        thread.served(Op::Flush, 0, true, MS(40), &mut out);
        assert!(matches!(out.requests[1..], [(Op::Flush, ..), (Op::WriteThrough, ..)]), "that it is whole: {out:?}");
        assert_eq!(out.ended, [], "durable only when all of it is");
        thread.served(Op::WriteThrough, JOURNAL_END_BYTES, true, MS(50), &mut out);
        assert_eq!((&out.ended[..], out.flushed_bytes), (&[(id, UploadEnd::Acknowledged)][..], 400 << 10));
        assert!(!thread.has_work());
    }

    #[test]
    fn no_piece_begins_after_until() {
        let (mut thread, mut out) = thread();
        thread.begin(upload(4 << 20), MS(0), &mut out);
        thread.poke(MS(10), &mut out);
        let job = offer(&out).job;
        let mut out = Actions::default();
        thread.grant(grant(job, 2 << 20, MS(20)), MS(10), &mut out);
        thread.served(Op::Write, PIECE, true, MS(20), &mut out);
        assert_eq!(out.requests.len(), 3, "20 ms is not after 20 ms");
        thread.served(Op::Write, PIECE, true, MS(21), &mut out);
        thread.served(Op::Write, PIECE, true, MS(22), &mut out);
        assert_eq!(out.requests.len(), 3);
        let done = out.messages.iter().find_map(|m| if let StoreMessage::Done(d) = m { Some(*d) } else { None });
        let done = done.expect("the grant ends");
        assert_eq!((done.bytes, done.position), (384 << 10, (1 << 20) + (384 << 10)));
        assert_eq!(done.ready_bytes, (4 << 20) - (384 << 10));
    }

    #[test]
    fn an_error_ends_the_upload_and_a_withdrawn_job_still_ends_its_grant() {
        let (mut thread, mut out) = thread();
        let id = thread.begin(upload(4 << 20), MS(0), &mut out);
        thread.poke(MS(10), &mut out);
        let job = offer(&out).job;
        let mut out = Actions::default();
        thread.grant(grant(job, 256 << 10, MS(50)), MS(10), &mut out);
        thread.served(Op::Write, PIECE, false, MS(20), &mut out);
        thread.served(Op::Write, PIECE, true, MS(21), &mut out);
        assert_eq!(out.ended, [(id, UploadEnd::Failed)]);
        assert!(out.messages.iter().any(|m| matches!(m, StoreMessage::Done(done) if !done.ok)), "{out:?}");

        let mut out = Actions::default();
        thread.grant(grant(job, 256 << 10, MS(50)), MS(30), &mut out);
        let StoreMessage::Done(done) = out.messages[0] else { panic!("{out:?}") };
        assert_eq!((done.bytes, done.ok), (0, true));
    }

    #[test]
    fn a_recording_has_a_deadline_and_its_overflow_is_seen() {
        let (mut thread, mut out) = thread();
        let place = RecordingPlace { first: MS(2000), period: MS(4000), within: MS(2000) };
        let reservation = ReservationId { slot: 1, generation: 1 };
        let recording = RecordingTerms { rate: BitRate(8 << 20), reservation, place };
        let source = UploadSource {
            position: 0,
            bytes: 1 << 30,
            rate: recording.rate,
            recording: Some((recording, Camera::Steady, MS(10_000))),
        };
        thread.begin(source, MS(0), &mut out);
        let mut out = Actions::default();
        thread.poke(MS(2000), &mut out);
        thread.poke(out.wake.expect("a block is due"), &mut out);
        assert_eq!(offer(&out).class, WorkClass::RealTime { reservation, deadline: MS(4000) });
        assert!(!thread.has_work(), "which is no best-effort work");
        // Eight seconds of a block, its writing and the bytes that may exceed the rate, and two chunks.
        thread.poke(MS(10_000), &mut out);
        assert_eq!(thread.overflow_max(), 0);
        thread.poke(MS(11_000), &mut out);
        assert_eq!(thread.overflow_max(), 1 << 20);
    }
}
