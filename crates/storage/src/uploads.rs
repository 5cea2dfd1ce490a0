//! The life of the uploads on one disk: what is offered to the disk's schedule, what is done on its grants, and how a commit
//! publishes and makes durable.
//!
//! Promise: nothing is written, named or synced but on a grant; an upload gets its name when all its bytes are written, and is
//! acknowledged when its name is durable; uploads that finish together share a commit; what ends an upload ends its offers.
//! Not here: doing it. The caller owns the files, does what [`Uploads::granted`] and [`Uploads::next_part`] say, and tells how
//! it went.

use std::collections::{BTreeMap, VecDeque};

use units::{BitRate, DiskId, Nanos, ReservationId, UploadId, limits};

use crate::grant::{Grant, GrantDone, JobId, Offer, StoreMessage, StoreWork, WorkClass};

mod commit;

pub use commit::CommitPart;
use commit::Commits;

/// The commit: one job for all that is to be made durable.
const COMMIT_JOB: JobId = JobId(0);

/// Work that makes nothing durable: one job for all of it.
const CHORE_JOB: JobId = JobId(1);

/// The first job number for uploads.
const UPLOAD_JOBS: u64 = 2;

/// Chunks a recording's buffer has at least and at most.
const CHUNKS_PER_RECORDING: (u64, u64) = (4, 32);

/// Seconds of its rate that a recording's buffer holds.
const RECORDING_SECONDS: u64 = 4;

/// The file of an upload, as the caller keeps it.
pub trait UploadFile {
    /// Where on the device the byte at `offset` goes (`u64::MAX` where unknown), and how many go on from there without a gap.
    fn run_at(&self, offset: u64) -> (u64, u64);
}

/// A recording's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingTerms {
    /// Payload bits per second.
    pub rate: BitRate,
    /// What admission gave.
    pub reservation: ReservationId,
}

impl RecordingTerms {
    /// Chunks of memory that hold what comes until it is written.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        let bytes = self.rate.bytes_per_second().saturating_mul(RECORDING_SECONDS);
        bytes.div_ceil(limits::CHUNK_BYTES).clamp(CHUNKS_PER_RECORDING.0, CHUNKS_PER_RECORDING.1)
    }

    fn half_buffer(&self) -> u64 {
        self.chunks() * limits::CHUNK_BYTES / 2
    }

    /// When the bytes that came at `since` must be written: half the buffer later, so that the other half can take what
    /// comes while they are.
    fn deadline(&self, since: Nanos) -> Nanos {
        since.saturating_add(self.rate.time_for(self.half_buffer()))
    }

    /// Bytes worth an offer: a second and a half of it, at least a chunk, at most half its buffer.
    fn offer_bytes_min(&self) -> u64 {
        self.rate.bytes_in(Nanos::from_millis(1500)).clamp(limits::CHUNK_BYTES, self.half_buffer())
    }
}

/// Why something could not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadFailure {
    /// The file system has no more room: no fault of the disk.
    Full,
    /// The disk erred.
    Disk,
    /// Anything else.
    Other,
}

/// What a grant is to be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// Nothing: it came too late, and was answered. What it was for is offered again.
    Late,
    /// Nothing: what it was for is gone. It was answered.
    Unused,
    /// Write bytes of an upload's file, none begun after the grant's end, then call [`Uploads::wrote`].
    Write {
        /// The upload.
        upload: UploadId,
        /// Where in the file: a multiple of `DIRECT_ALIGN`.
        offset: u64,
        /// How many; the last may be padding.
        bytes: u64,
    },
    /// Do what [`Uploads::next_part`] says until it says nothing more.
    Commit,
    /// Do the piece of work that was offered by [`Uploads::offer_chore`], then call [`Uploads::chore_done`].
    Chore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UploadLife {
    /// More may come.
    Receiving,
    /// All of so many bytes has come.
    Whole(u64),
    /// All of so many bytes is written, and it waits for a commit.
    Written(u64),
}

#[derive(Debug)]
struct UploadState<F> {
    file: F,
    /// What has come is published if the rest does not.
    keep: bool,
    recording: Option<RecordingTerms>,
    life: UploadLife,
    received_bytes: u64,
    /// Bytes that have come and are not written, each part rounded up to whole direct writes.
    ready_bytes: u64,
    /// Since when the first of these are.
    ready_since: Nanos,
    /// From the file's start; a multiple of `DIRECT_ALIGN`.
    written_bytes: u64,
    /// Size of the offer that is out; zero if none is.
    offered_bytes: u64,
}

impl<F: UploadFile> UploadState<F> {
    /// The next bytes' place on the device, and how many of them lie there in one piece.
    fn next_run(&self) -> (u64, u64) {
        let (position, run) = self.file.run_at(self.written_bytes);
        // A run that does not end where a direct write can (1 KiB blocks) does not cut one.
        let whole = if run.is_multiple_of(limits::DIRECT_ALIGN) { run } else { u64::MAX };
        (position, self.ready_bytes.min(whole))
    }

    fn class(&self) -> WorkClass {
        match &self.recording {
            None => WorkClass::BestEffort,
            Some(recording) => WorkClass::RealTime {
                reservation: recording.reservation,
                deadline: recording.deadline(self.ready_since),
            },
        }
    }

    fn is_worth_an_offer(&self) -> bool {
        let least = match &self.recording {
            Some(recording) if self.life == UploadLife::Receiving => recording.offer_bytes_min(),
            _ => 1,
        };
        self.ready_bytes >= least
    }
}

/// A grant that is being used.
#[derive(Debug, Clone, Copy)]
struct GrantInUse {
    job: JobId,
    started: Nanos,
}

/// The uploads of one disk. `F` is an upload's file, `R` a removed name whose removal is to be made durable.
#[derive(Debug)]
pub struct Uploads<F, R> {
    disk: DiskId,
    uploads: BTreeMap<UploadId, UploadState<F>>,
    next_upload: u64,
    commits: Commits<R>,
    chore_offered: bool,
    in_use: Option<GrantInUse>,
    /// Bounded: each job has at most an offer, a withdrawal and a done in it.
    messages: VecDeque<StoreMessage>,
}

impl<F: UploadFile, R> Uploads<F, R> {
    /// None yet, on this disk.
    #[must_use]
    pub fn new(disk: DiskId) -> Self {
        Self {
            disk,
            uploads: BTreeMap::new(),
            next_upload: 0,
            commits: Commits::default(),
            chore_offered: false,
            in_use: None,
            messages: VecDeque::new(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.uploads.len()
    }

    /// True if there is none, and nothing to make durable.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.uploads.is_empty() && self.commits.is_idle()
    }

    /// Bytes written since the last flush.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.commits.dirty_bytes()
    }

    /// The file of an upload that is not over.
    pub fn file_mut(&mut self, upload: UploadId) -> Option<&mut F> {
        self.uploads.get_mut(&upload).map(|upload| &mut upload.file)
    }

    /// The file of an upload, if more may come of it.
    pub fn receiving(&mut self, upload: UploadId) -> Option<&mut F> {
        let upload = self.uploads.get_mut(&upload)?;
        (upload.life == UploadLife::Receiving).then_some(&mut upload.file)
    }

    /// All of them.
    pub fn files(&self) -> impl Iterator<Item = &F> {
        self.uploads.values().map(|upload| &upload.file)
    }

    /// True if messages to the disk's schedule are not sent yet.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Sends the messages to the disk's schedule, in order, until `send` has no room for one.
    pub fn send_messages(&mut self, mut send: impl FnMut(StoreMessage) -> bool) {
        while self.messages.front().is_some_and(|message| send(*message)) {
            self.messages.pop_front();
        }
    }

    /// An upload begins: `file` is there, with so many bytes `written` by an earlier one, a multiple of `DIRECT_ALIGN`. If it breaks
    /// off, what has come is published if `keep`.
    pub fn begin(&mut self, file: F, recording: Option<RecordingTerms>, keep: bool, written: u64) -> UploadId {
        let id = UploadId(self.next_upload);
        self.next_upload += 1;
        let upload = UploadState {
            file,
            keep,
            recording,
            life: UploadLife::Receiving,
            received_bytes: written,
            ready_bytes: 0,
            ready_since: Nanos::ZERO,
            written_bytes: written,
            offered_bytes: 0,
        };
        self.uploads.insert(id, upload);
        id
    }

    /// So many bytes more have come. All but the last part are a multiple of `DIRECT_ALIGN`.
    pub fn received(&mut self, id: UploadId, bytes: u64, now: Nanos) {
        let Some(upload) = self.uploads.get_mut(&id).filter(|upload| upload.life == UploadLife::Receiving) else {
            return;
        };
        if upload.ready_bytes == 0 {
            upload.ready_since = now;
        }
        upload.received_bytes += bytes;
        upload.ready_bytes += bytes.next_multiple_of(limits::DIRECT_ALIGN);
        self.offer_write(id);
    }

    /// All has come.
    pub fn finish(&mut self, id: UploadId) {
        let Some(upload) = self.uploads.get_mut(&id).filter(|upload| upload.life == UploadLife::Receiving) else {
            return;
        };
        upload.life = UploadLife::Whole(upload.received_bytes);
        self.offer_write(id);
        self.conclude_if_written(id);
    }

    /// No more bytes will come, and nobody waits for the upload. Returns its file if the upload is over: nothing of it
    /// is to be left.
    pub fn break_off(&mut self, id: UploadId) -> Option<F> {
        let upload = self.uploads.get(&id)?;
        let receiving = upload.life == UploadLife::Receiving;
        if !upload.keep || (receiving && upload.received_bytes == 0) {
            return self.abandon(id);
        }
        if receiving {
            self.lose_reservation(id);
            self.finish(id);
        }
        None
    }

    /// The upload cannot go on. Returns its file if the upload is over; otherwise what is written will be published,
    /// and the caller is to drop the rest.
    pub fn failed(&mut self, id: UploadId, why: UploadFailure) -> Option<F> {
        let upload = self.uploads.get_mut(&id)?;
        if !upload.keep || upload.written_bytes == 0 || why != UploadFailure::Full {
            return self.abandon(id);
        }
        upload.ready_bytes = 0;
        upload.life = UploadLife::Whole(upload.written_bytes.min(upload.received_bytes));
        self.lose_reservation(id);
        self.conclude_if_written(id);
        None
    }

    /// A removed name is to be made durable.
    pub fn removed(&mut self, removal: R) {
        self.commits.wait_for_removal(removal);
        self.offer_commit();
    }

    /// There is work that makes nothing durable: the next piece of it reads so many places, and so many bytes.
    pub fn offer_chore(&mut self, reads: u32, bytes: u64) {
        if !std::mem::replace(&mut self.chore_offered, true) {
            self.offer(CHORE_JOB, StoreWork::Probe { reads, bytes }, WorkClass::BestEffort);
        }
    }

    /// No grant will come any more: nothing is offered, and what waited is given back.
    pub fn give_up(&mut self) -> (Vec<F>, Vec<R>) {
        self.messages.clear();
        self.chore_offered = true;
        let files = std::mem::take(&mut self.uploads).into_values().map(|upload| upload.file).collect();
        (files, self.commits.give_up())
    }

    /// A grant has come.
    pub fn granted(&mut self, grant: Grant, now: Nanos) -> Granted {
        self.in_use = Some(GrantInUse { job: grant.job, started: now });
        let late = now > grant.until;
        if late {
            // It used up the offer it answers; the work is still there.
            self.done(GrantUse::default(), now);
        }
        match grant.job {
            COMMIT_JOB => self.commits.forget_offer(),
            CHORE_JOB => self.chore_offered = false,
            _ => {}
        }
        match grant.job {
            COMMIT_JOB if late => self.offer_commit(),
            COMMIT_JOB if self.commits.begin() => return Granted::Commit,
            // The offer and the last grant crossed on their ways.
            COMMIT_JOB => self.done(GrantUse::default(), now),
            CHORE_JOB if late => {}
            CHORE_JOB => return Granted::Chore,
            job => {
                let id = UploadId(job.0 - UPLOAD_JOBS);
                match self.uploads.get_mut(&id) {
                    None if late => {}
                    None => self.done(GrantUse::default(), now),
                    Some(upload) if late => {
                        upload.offered_bytes = 0;
                        self.offer_write(id);
                    }
                    Some(upload) => {
                        let ready = upload.ready_bytes;
                        let bytes = ready.min(grant.bytes_max);
                        let bytes = if bytes < ready { bytes - bytes % limits::DIRECT_ALIGN } else { bytes };
                        return Granted::Write { upload: id, offset: upload.written_bytes, bytes };
                    }
                }
            }
        }
        if late { Granted::Late } else { Granted::Unused }
    }

    /// The piece of work is done.
    pub fn chore_done(&mut self, now: Nanos) {
        self.done(GrantUse::default(), now);
    }

    /// So many bytes of an upload were written on the grant, a multiple of `DIRECT_ALIGN`; `trouble` says why there
    /// were no more, if something failed. Returns the file if the upload is over.
    pub fn wrote(&mut self, id: UploadId, bytes: u64, trouble: Option<UploadFailure>, now: Nanos) -> Option<F> {
        let mut used = GrantUse { bytes, ok: trouble != Some(UploadFailure::Disk), ..GrantUse::default() };
        self.commits.wrote(id, bytes);
        let mut renewed = None;
        let mut over = None;
        if let Some(upload) = self.uploads.get_mut(&id) {
            upload.written_bytes += bytes;
            upload.ready_bytes -= bytes.min(upload.ready_bytes);
            if let Some(recording) = upload.recording {
                // The bytes that are left came after those that are written, at the recording's rate: their time is
                // reckoned from that.
                upload.ready_since = upload.ready_since.saturating_add(recording.rate.time_for(bytes)).min(now);
            }
            let (position, ready_bytes) = upload.next_run();
            upload.offered_bytes = 0;
            if trouble.is_none() && ready_bytes > 0 && upload.is_worth_an_offer() {
                upload.offered_bytes = ready_bytes;
                (used.ready_bytes, used.position) = (ready_bytes, position);
                // A recording's next bytes have a deadline of their own, which a `Done` cannot say.
                renewed = upload.recording.map(|_| (StoreWork::Write { bytes: ready_bytes, position }, upload.class()));
            }
            match trouble {
                Some(trouble) => over = self.failed(id, trouble),
                None => self.conclude_if_written(id),
            }
        }
        // This comes before the grant is given back: the schedule then decides what comes next, and that may be the
        // flush.
        self.offer_commit();
        self.done(used, now);
        if let Some((work, class)) = renewed {
            self.offer(job_of(id), work, class);
        }
        over
    }

    /// Offers a commit, if it is news that one is needed, or how much.
    fn offer_commit(&mut self) {
        if let Some(work) = self.commits.next_offer() {
            self.offer(COMMIT_JOB, work, WorkClass::BestEffort);
        }
    }

    fn offer_write(&mut self, id: UploadId) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        let (position, bytes) = upload.next_run();
        // Bytes may come in short pieces: while more come, an offer is renewed when it has doubled, or grown by a chunk.
        let offered = upload.offered_bytes;
        let news = if upload.life == UploadLife::Receiving { offered.clamp(1, limits::CHUNK_BYTES) } else { 1 };
        // More than a run is not granted at once: an offer of a run need not be renewed.
        if !upload.is_worth_an_offer() || bytes < offered + news || offered >= limits::RUN_BYTES_MAX {
            return;
        }
        upload.offered_bytes = bytes;
        let class = upload.class();
        self.offer(job_of(id), StoreWork::Write { bytes, position }, class);
    }

    /// The time that was reserved for a recording goes with its client: the rest is written in what streams leave.
    fn lose_reservation(&mut self, id: UploadId) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        upload.recording = None;
        upload.offered_bytes = 0;
        self.withdraw(job_of(id));
    }

    fn abandon(&mut self, id: UploadId) -> Option<F> {
        let upload = self.uploads.remove(&id)?;
        self.commits.forget(id);
        self.withdraw(job_of(id));
        Some(upload.file)
    }

    /// Hands an upload whose bytes are all written to the next commit.
    fn conclude_if_written(&mut self, id: UploadId) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        if let (UploadLife::Whole(bytes), 0) = (upload.life, upload.ready_bytes) {
            upload.life = UploadLife::Written(bytes);
            self.withdraw(job_of(id));
            self.commits.wait_for_upload(id);
            self.offer_commit();
        }
    }

    fn offer(&mut self, job: JobId, work: StoreWork, class: WorkClass) {
        self.forget_unsent(job);
        self.messages.push_back(StoreMessage::Offer(Offer { disk: self.disk, job, work, class }));
    }

    fn withdraw(&mut self, job: JobId) {
        self.forget_unsent(job);
        self.messages.push_back(StoreMessage::Withdraw { disk: self.disk, job });
    }

    /// An offer that still waits to be sent is out of date now.
    fn forget_unsent(&mut self, job: JobId) {
        self.messages.retain(|message| !matches!(message, StoreMessage::Offer(old) if old.job == job));
    }

    /// The grant in use is over.
    fn done(&mut self, used: GrantUse, now: Nanos) {
        let Some(GrantInUse { job, started }) = self.in_use.take() else { return };
        self.messages.push_back(StoreMessage::Done(GrantDone {
            disk: self.disk,
            job,
            bytes: used.bytes,
            started,
            ended: now,
            ok: used.ok,
            ready_bytes: used.ready_bytes,
            position: used.position,
        }));
    }
}

const fn job_of(id: UploadId) -> JobId {
    JobId(UPLOAD_JOBS + id.0)
}

/// What became of a grant.
#[derive(Debug, Clone, Copy)]
struct GrantUse {
    bytes: u64,
    ok: bool,
    ready_bytes: u64,
    position: u64,
}

impl Default for GrantUse {
    fn default() -> Self {
        Self { bytes: 0, ok: true, ready_bytes: 0, position: u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct InOnePiece;

    impl UploadFile for InOnePiece {
        fn run_at(&self, offset: u64) -> (u64, u64) {
            (offset, u64::MAX)
        }
    }

    /// Granted a part at a time, a recording is due by when its bytes came, however late the parts before them were written. Counted
    /// from the last write, its deadline receded until its buffer was full.
    #[test]
    fn what_is_left_of_a_recording_is_due_by_when_it_came() {
        let mut uploads: Uploads<InOnePiece, ()> = Uploads::new(DiskId(0));
        let recording =
            RecordingTerms { rate: BitRate(8 * 1_048_576), reservation: ReservationId { slot: 0, generation: 0 } };
        let id = uploads.begin(InOnePiece, Some(recording), false, 0);
        let deadlines = |uploads: &mut Uploads<InOnePiece, ()>| {
            let mut found = Vec::new();
            uploads.send_messages(|message| {
                if let StoreMessage::Offer(Offer { class: WorkClass::RealTime { deadline, .. }, .. }) = message {
                    found.push(deadline);
                }
                true
            });
            found.pop()
        };
        let second = Nanos::from_secs;
        (10..14).for_each(|at| uploads.received(id, limits::CHUNK_BYTES, second(at)));
        assert_eq!(deadlines(&mut uploads), Some(second(12)), "half of four seconds later");
        let grant = Grant { disk: DiskId(0), job: job_of(id), bytes_max: limits::CHUNK_BYTES, until: Nanos::MAX };
        assert!(matches!(uploads.granted(grant, second(14)), Granted::Write { .. }));
        uploads.wrote(id, limits::CHUNK_BYTES, None, second(14));
        assert_eq!(deadlines(&mut uploads), Some(second(13)), "the second one came a second after the first");
    }
}
