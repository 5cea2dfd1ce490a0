//! The life of the uploads on one disk: the offers to the disk's schedule, the work on its grants, and the commits that publish and make
//! durable.
//!
//! Promise: nothing is written or synced but on a grant; an upload gets its name when all its bytes are written, and is acknowledged when
//! its name is durable, or when it has it if it need be durable only later; uploads that finish together share a commit; the end of an
//! upload ends its offers.
//! Not here: doing it. The caller owns the files, carries out the orders of [`Uploads::granted`] and [`Uploads::next_part`], and reports
//! the outcome.

use std::collections::{BTreeMap, VecDeque};

use units::{BitRate, DiskId, Nanos, ReservationId, UploadId, limits};

use crate::grant::{Grant, GrantDone, JobId, Offer, RecordingPlace, StoreMessage, StoreWork, WorkClass};

mod commit;
mod recording;

pub use commit::CommitPart;
use commit::{Commits, Growth};
use recording::Recording;
pub use recording::RecordingTerms;

/// The commit: one job for all that is to be made durable.
const COMMIT_JOB: JobId = JobId(0);

/// Work that makes nothing durable: one job for all of it.
const CHORE_JOB: JobId = JobId(1);

/// The first job number for uploads.
const UPLOAD_JOBS: u64 = 2;

/// The file of an upload, as the caller keeps it.
pub trait UploadFile {
    /// Where on the device the byte at `offset` goes (`u64::MAX` where unknown), and how many follow from there without a gap.
    fn run_at(&self, offset: u64) -> (u64, u64);

    /// The journal of its file system, if the sync of one file there makes all changes durable that were made before its last one.
    fn journal(&self) -> Option<JournalId> {
        None
    }
}

/// A file system's journal, by a number of the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalId(pub u64);

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

/// The use of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// Nothing: it came too late, and was answered. Its work is offered again.
    Late,
    /// Nothing: its work is gone. It was answered.
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
    /// Do the parts that [`Uploads::next_part`] returns until it returns none.
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
    /// The bytes received are published if the rest does not come.
    keep: bool,
    recording: Option<Recording>,
    life: UploadLife,
    received_bytes: u64,
    /// Bytes that have come and are not written, each part rounded up to whole direct writes.
    ready_bytes: u64,
    /// From the file's start; a multiple of `DIRECT_ALIGN`.
    written_bytes: u64,
    /// Size of the offer that is out; zero if none is.
    offered_bytes: u64,
    /// It gets its name as soon as it is written, and is durable so long after that; `None`: both at once.
    durable: Option<Nanos>,
}

impl<F: UploadFile> UploadState<F> {
    /// The next bytes' place on the device, and how many of them lie there in one piece.
    fn next_run(&self) -> (u64, u64) {
        let (position, run) = self.file.run_at(self.written_bytes);
        // A run that does not end where a direct write can (1 KiB blocks) does not cut one.
        let whole = if run.is_multiple_of(limits::DIRECT_ALIGN) { run } else { u64::MAX };
        (position, self.ready_bytes.min(whole))
    }

    /// The bytes to offer now, where they go, and how. Of a recording the bytes that are due; beside these, only those received in excess
    /// of its rate, and its end.
    fn next_offer(&self) -> Option<(u64, u64, WorkClass)> {
        let (position, ready) = self.next_run();
        let best_effort = (ready > 0).then_some((position, ready, WorkClass::BestEffort));
        match self.recording {
            Some(Recording { terms: RecordingTerms { reservation, .. }, due_bytes, deadline, .. }) if due_bytes > 0 => {
                Some((position, ready.min(due_bytes), WorkClass::RealTime { reservation, deadline }))
            }
            Some(Recording { terms, excess_bytes, .. }) if self.life == UploadLife::Receiving => {
                let is_more = self.ready_bytes >= terms.block_bytes() + limits::CHUNK_BYTES;
                best_effort.filter(|_| excess_bytes > 0 || is_more)
            }
            _ => best_effort,
        }
    }
}

/// A grant that is being used.
#[derive(Debug, Clone, Copy)]
struct GrantInUse {
    job: JobId,
    started: Nanos,
}

/// The uploads of one disk. `F` is an upload's file, `R` a removed name; its removal is to be made durable.
#[derive(Debug)]
pub struct Uploads<F, R> {
    disk: DiskId,
    uploads: BTreeMap<UploadId, UploadState<F>>,
    next_upload: u64,
    commits: Commits<R>,
    /// Uploads that are written and get their names early.
    to_name: Vec<UploadId>,
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
            to_name: Vec::new(),
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
    pub fn file(&self, upload: UploadId) -> Option<&F> {
        self.uploads.get(&upload).map(|upload| &upload.file)
    }

    /// The same, to change it.
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

    /// All of them, to change them.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut F> {
        self.uploads.values_mut().map(|upload| &mut upload.file)
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

    /// An upload begins: `file` is there, with `written` bytes from an earlier one, a multiple of `DIRECT_ALIGN` unless no more come. If it breaks off, the
    /// bytes received are published if `keep`.
    pub fn begin(&mut self, file: F, recording: Option<RecordingTerms>, keep: bool, written: u64) -> UploadId {
        let id = UploadId(self.next_upload);
        self.next_upload += 1;
        let upload = UploadState {
            file,
            keep,
            recording: recording.map(Recording::new),
            life: UploadLife::Receiving,
            received_bytes: written,
            ready_bytes: 0,
            written_bytes: written,
            offered_bytes: 0,
            durable: None,
        };
        self.uploads.insert(id, upload);
        self.tell_place(id);
        id
    }

    /// The upload is to get its name as soon as it is written, by [`Uploads::next_to_name`], and need be durable only so long after
    /// that. Its file system orders bytes before names.
    pub fn name_early(&mut self, id: UploadId, durable: Nanos) {
        if let Some(upload) = self.uploads.get_mut(&id) {
            upload.durable = Some(durable);
        }
    }

    /// The next upload that is to get its name now, and the length of its content: cut it, name it, and call [`Uploads::named`].
    pub fn next_to_name(&mut self) -> Option<(UploadId, u64)> {
        self.to_name.iter().find_map(|id| match self.uploads.get(id)?.life {
            UploadLife::Written(length) => Some((*id, length)),
            _ => None,
        })
    }

    /// The upload has its name, or could not get it; its client has the answer. In the first case it waits to be made durable, for half of
    /// its time at most, so that the other half is left for that.
    pub fn named(&mut self, id: UploadId, outcome: Result<(), UploadFailure>, now: Nanos) {
        self.to_name.retain(|waiting| *waiting != id);
        debug_assert!(
            self.uploads.get(&id).is_none_or(|upload| matches!(upload.life, UploadLife::Written(_))),
            "a name before its bytes"
        );
        match self.uploads.get(&id).and_then(|upload| upload.durable) {
            Some(durable) if outcome.is_ok() => {
                self.commits.wait_for_named(id, now.saturating_add(Nanos(durable.0 / 2)));
                self.offer_commit();
            }
            _ => drop(self.uploads.remove(&id)),
        }
    }

    /// So many bytes more have come. All but the last part are a multiple of `DIRECT_ALIGN`.
    pub fn received(&mut self, id: UploadId, bytes: u64) {
        let Some(upload) = self.uploads.get_mut(&id).filter(|upload| upload.life == UploadLife::Receiving) else {
            return;
        };
        debug_assert!(upload.received_bytes.is_multiple_of(limits::DIRECT_ALIGN), "a broken part was the last");
        upload.received_bytes += bytes;
        upload.ready_bytes += bytes.next_multiple_of(limits::DIRECT_ALIGN);
        self.offer_write(id);
    }

    /// The next time at which a block of a recording is due, with the bytes that its client's side had by then, or a name is to be made
    /// durable: then call [`Uploads::begin_blocks`].
    #[must_use]
    pub fn next_block(&self) -> Option<Nanos> {
        let recordings =
            self.uploads.values().filter(|upload| upload.ready_bytes > 0 || upload.life == UploadLife::Receiving);
        let begins = recordings.filter_map(|upload| upload.recording?.begins());
        begins.chain(self.commits.next_due()).min()
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

    /// No more bytes will come, and no client waits for the upload. Returns its file if the upload is over: nothing of it is to be left.
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

    /// Nothing of an upload is to be left. Returns its file.
    pub fn forget(&mut self, id: UploadId) -> Option<F> {
        self.abandon(id)
    }

    /// The upload cannot continue. Returns its file if the upload is over; otherwise the bytes written will be published, and the caller is
    /// to drop the rest.
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

    /// A removed name is to be made durable, in `journal` if its file system has one as [`UploadFile::journal`] has.
    pub fn removed(&mut self, removal: R, journal: Option<JournalId>) {
        self.commits.wait_for_removal(removal, journal);
        self.offer_commit();
    }

    /// There is work that makes nothing durable: the next piece of it reads so many places, and so many bytes.
    pub fn offer_chore(&mut self, reads: u32, bytes: u64) {
        if !std::mem::replace(&mut self.chore_offered, true) {
            self.offer(CHORE_JOB, StoreWork::Probe { reads, bytes }, WorkClass::BestEffort);
        }
    }

    /// No grant will come any more: nothing is offered, and the files and removals that waited are returned.
    pub fn give_up(&mut self) -> (Vec<F>, Vec<R>) {
        self.messages.clear();
        self.to_name.clear();
        self.chore_offered = true;
        let files = std::mem::take(&mut self.uploads).into_values().map(|upload| upload.file).collect();
        (files, self.commits.give_up())
    }

    /// A grant has come.
    pub fn granted(&mut self, grant: Grant, now: Nanos) -> Granted {
        debug_assert!(self.in_use.is_none(), "a disk has one grant out");
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
                    // The offer and the last grant crossed on their ways.
                    Some(upload) if upload.ready_bytes == 0 && !late => self.done(GrantUse::default(), now),
                    Some(upload) if late => {
                        upload.offered_bytes = 0;
                        self.offer_write(id);
                    }
                    Some(upload) => {
                        let ready = upload.ready_bytes;
                        let bytes = ready.min(grant.bytes_max);
                        let bytes = if bytes < ready { bytes - bytes % limits::DIRECT_ALIGN } else { bytes };
                        debug_assert!(bytes.is_multiple_of(limits::DIRECT_ALIGN), "a part of a direct write");
                        debug_assert!(bytes <= grant.bytes_max || ready <= grant.bytes_max, "more than was granted");
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
        let mut over = None;
        if let Some(upload) = self.uploads.get_mut(&id) {
            debug_assert!(bytes.is_multiple_of(limits::DIRECT_ALIGN), "the next write would begin within a block");
            upload.written_bytes += bytes;
            upload.ready_bytes -= bytes.min(upload.ready_bytes);
            let growth = match (upload.keep, &mut upload.recording) {
                (_, Some(recording)) => {
                    let excess = bytes.saturating_sub(recording.due_bytes);
                    recording.due_bytes = recording.due_bytes.saturating_sub(bytes);
                    recording.excess_bytes = recording.excess_bytes.saturating_sub(excess);
                    Growth::Promised
                }
                (true, None) => Growth::Kept,
                (false, None) => Growth::None,
            };
            self.commits.wrote(id, bytes, growth);
            upload.offered_bytes = 0;
            if let (None, Some((position, ready_bytes, WorkClass::BestEffort))) = (trouble, upload.next_offer()) {
                upload.offered_bytes = ready_bytes;
                (used.ready_bytes, used.position) = (ready_bytes, position);
            }
            match trouble {
                Some(trouble) => over = self.failed(id, trouble),
                None => self.conclude_if_written(id),
            }
        }
        // This comes before the grant is given back: the schedule then chooses the next work, and that may be the flush.
        self.offer_commit();
        self.done(used, now);
        self.offer_write(id);
        over
    }

    /// Offers a commit, if the need for one, or its size, is news to the schedule.
    fn offer_commit(&mut self) {
        if let Some(work) = self.commits.next_offer() {
            self.offer(COMMIT_JOB, work, WorkClass::BestEffort);
        }
    }

    fn offer_write(&mut self, id: UploadId) {
        self.tell_place(id);
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        let Some((position, bytes, class)) = upload.next_offer() else { return };
        let offered = upload.offered_bytes;
        // Best-effort bytes may come in short pieces: while more come, an offer is renewed when it has doubled, or grown by a chunk. More
        // than a run is not granted at once: an offer of a run need not be renewed.
        let grows = class == WorkClass::BestEffort && upload.life == UploadLife::Receiving;
        let news = if grows { offered.clamp(1, limits::CHUNK_BYTES) } else { 1 };
        let is_known = class == WorkClass::BestEffort && offered >= limits::RUN_BYTES_MAX;
        if bytes < offered + news || is_known {
            return;
        }
        upload.offered_bytes = bytes;
        self.offer(job_of(id), StoreWork::Write { bytes, position }, class);
    }

    fn abandon(&mut self, id: UploadId) -> Option<F> {
        let upload = self.uploads.remove(&id)?;
        self.to_name.retain(|waiting| *waiting != id);
        self.commits.forget(id);
        self.withdraw(job_of(id));
        Some(upload.file)
    }

    /// Hands an upload with all bytes written to the next commit.
    fn conclude_if_written(&mut self, id: UploadId) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        if let (UploadLife::Whole(bytes), 0) = (upload.life, upload.ready_bytes) {
            debug_assert!(upload.written_bytes >= bytes, "its commit would acknowledge bytes that were not written");
            upload.life = UploadLife::Written(bytes);
            let early = upload.durable.is_some();
            self.withdraw(job_of(id));
            if early {
                self.commits.forget_growth(id);
                return self.to_name.push(id);
            }
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

/// Result of a grant.
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

    const SECOND: Nanos = Nanos::from_secs(1);
    const CHUNK: u64 = limits::CHUNK_BYTES;

    /// A recording of a chunk a second, with a block of four from second 10 on.
    fn recording() -> (Uploads<InOnePiece, ()>, UploadId) {
        let place = RecordingPlace {
            first: SECOND.saturating_mul(10),
            period: SECOND.saturating_mul(4),
            within: SECOND.saturating_mul(2),
        };
        let reservation = ReservationId { slot: 0, generation: 0 };
        let mut uploads = Uploads::new(DiskId(0));
        let terms = RecordingTerms { rate: BitRate(8 * CHUNK), reservation, place };
        let id = uploads.begin(InOnePiece, Some(terms), true, 0);
        (uploads, id)
    }

    fn offered(uploads: &mut Uploads<InOnePiece, ()>, id: UploadId) -> Option<(u64, WorkClass)> {
        let mut found = None;
        uploads.send_messages(|message| {
            if let StoreMessage::Offer(Offer { job, work: StoreWork::Write { bytes, .. }, class, .. }) = message {
                assert_eq!(job, job_of(id));
                found = Some((bytes, class));
            }
            true
        });
        found
    }

    fn write(uploads: &mut Uploads<InOnePiece, ()>, id: UploadId, bytes: u64, now: Nanos) {
        let grant = Grant { disk: DiskId(0), job: job_of(id), bytes_max: bytes, until: Nanos::MAX };
        assert!(matches!(uploads.granted(grant, now), Granted::Write { .. }));
        uploads.wrote(id, bytes, None, now);
    }

    #[test]
    fn a_recording_gathers_a_block_and_offers_it_when_it_is_due() {
        let (mut uploads, id) = recording();
        uploads.received(id, 3 * CHUNK);
        assert_eq!(offered(&mut uploads, id), None, "it is not due");
        let due = uploads.next_block().expect("one is");
        uploads.begin_blocks(due.saturating_sub(Nanos(1)));
        assert_eq!(offered(&mut uploads, id), None);
        uploads.begin_blocks(due);
        let reservation = ReservationId { slot: 0, generation: 0 };
        let class = WorkClass::RealTime { reservation, deadline: SECOND.saturating_mul(12) };
        assert_eq!(offered(&mut uploads, id), Some((3 * CHUNK, class)));
        // Bytes that come meanwhile wait for the next block.
        uploads.received(id, CHUNK);
        write(&mut uploads, id, 2 * CHUNK, due);
        assert_eq!(offered(&mut uploads, id), Some((CHUNK, class)), "what is left of this one");
        write(&mut uploads, id, CHUNK, due);
        assert_eq!(offered(&mut uploads, id), None);
        assert_eq!(uploads.next_block(), Some(due.saturating_add(SECOND.saturating_mul(4))));
    }

    #[test]
    fn a_recording_that_exceeds_its_rate_is_promised_a_block_and_the_rest_is_best_effort() {
        let (mut uploads, id) = recording();
        uploads.received(id, 4 * CHUNK);
        assert_eq!(offered(&mut uploads, id), None, "a block");
        uploads.received(id, 2 * CHUNK);
        assert_eq!(offered(&mut uploads, id), Some((6 * CHUNK, WorkClass::BestEffort)));
        let due = uploads.next_block().expect("one is");
        uploads.begin_blocks(due);
        assert!(matches!(offered(&mut uploads, id), Some((bytes, WorkClass::RealTime { .. })) if bytes == 4 * CHUNK));
    }

    #[test]
    fn excess_bytes_of_a_block_are_offered_behind_it() {
        let (mut uploads, id) = recording();
        uploads.received(id, 4 * CHUNK + 4096);
        let due = uploads.next_block().expect("one is");
        uploads.begin_blocks(due);
        write(&mut uploads, id, 4 * CHUNK, due);
        assert_eq!(uploads.uploads[&id].offered_bytes, 4096, "as best effort, with the grant that was used");
    }

    #[test]
    fn blocks_that_were_due_while_the_disk_held_the_thread_up_are_due_together() {
        let (mut uploads, id) = recording();
        uploads.received(id, 12 * CHUNK);
        assert!(offered(&mut uploads, id).is_some(), "more than a block and a chunk");
        let due = uploads.next_block().expect("one is").saturating_add(SECOND.saturating_mul(9));
        uploads.begin_blocks(due);
        assert!(matches!(offered(&mut uploads, id), Some((bytes, WorkClass::RealTime { .. })) if bytes == 12 * CHUNK));
    }

    /// Else a batch on a disk that writes more slowly than promised would never come to its commit.
    #[test]
    fn a_block_waits_until_the_one_before_is_written() {
        let (mut uploads, id) = recording();
        uploads.received(id, 4 * CHUNK);
        let due = uploads.next_block().expect("one is");
        uploads.begin_blocks(due);
        write(&mut uploads, id, 3 * CHUNK, due);
        uploads.received(id, 4 * CHUNK);
        let later = due.saturating_add(SECOND.saturating_mul(5));
        uploads.begin_blocks(later);
        let class = |deadline| WorkClass::RealTime {
            reservation: ReservationId { slot: 0, generation: 0 },
            deadline: SECOND.saturating_mul(deadline),
        };
        assert_eq!(offered(&mut uploads, id), Some((CHUNK, class(12))), "the rest of the first block alone");
        assert_eq!(uploads.next_block(), None);
        write(&mut uploads, id, CHUNK, later);
        assert!(uploads.next_block().is_some_and(|next| next < later), "at once");
        uploads.begin_blocks(later);
        assert_eq!(offered(&mut uploads, id), Some((4 * CHUNK, class(16))));
    }

    #[test]
    fn a_name_that_is_given_early_is_made_durable_after_half_of_its_time() {
        let mut uploads: Uploads<InOnePiece, ()> = Uploads::new(DiskId(0));
        let id = uploads.begin(InOnePiece, None, false, 0);
        uploads.name_early(id, SECOND.saturating_mul(4));
        uploads.received(id, CHUNK);
        write(&mut uploads, id, CHUNK, SECOND);
        assert_eq!(uploads.next_to_name(), None, "more may come");
        uploads.finish(id);
        assert_eq!(uploads.next_to_name(), Some((id, CHUNK)));
        uploads.named(id, Ok(()), SECOND);
        let awaited = |uploads: &mut Uploads<InOnePiece, ()>| {
            let mut found = None;
            uploads.send_messages(|message| {
                if let StoreMessage::Offer(Offer { work: StoreWork::Commit { awaited, .. }, .. }) = message {
                    found = Some(awaited);
                }
                true
            });
            found
        };
        assert_eq!(awaited(&mut uploads), Some(false), "others may take it along");
        let due = SECOND.saturating_mul(3);
        assert_eq!(uploads.next_block(), Some(due));
        uploads.begin_blocks(due);
        assert_eq!(awaited(&mut uploads), Some(true));
        let commit = Grant { disk: DiskId(0), job: COMMIT_JOB, bytes_max: 0, until: Nanos::MAX };
        assert_eq!(uploads.granted(commit, due), Granted::Commit);
        assert!(matches!(uploads.next_part(), Some(CommitPart::SyncName(named)) if named == id));
        uploads.part_done(Ok(()), due);
        assert!(uploads.is_idle());
    }

    #[test]
    fn a_commit_makes_all_recordings_durable_that_were_written() {
        let (mut uploads, first) = recording();
        let second =
            uploads.begin(InOnePiece, uploads.uploads[&first].recording.map(|recording| recording.terms), true, 0);
        [first, second].into_iter().for_each(|id| uploads.received(id, CHUNK));
        let due = uploads.next_block().expect("one is");
        uploads.begin_blocks(due);
        [first, second].into_iter().for_each(|id| write(&mut uploads, id, CHUNK, due));
        let commit = Grant { disk: DiskId(0), job: COMMIT_JOB, bytes_max: 0, until: Nanos::MAX };
        assert_eq!(uploads.granted(commit, due), Granted::Commit);
        let Some(CommitPart::Grown { syncs, .. }) = uploads.next_part() else { panic!("both have grown") };
        assert_eq!(syncs, [second, first], "no journal has both");
        uploads.part_done(Ok(()), due);
        assert!(uploads.next_part().is_none() && uploads.dirty_bytes() == 0);
    }

    #[test]
    fn a_commit_names_the_uploads_without_a_journal_that_may_be_synced_beside_each_other() {
        let mut uploads: Uploads<InOnePiece, ()> = Uploads::new(DiskId(0));
        let ids = [0; 3].map(|_| {
            let id = uploads.begin(InOnePiece, None, false, 0);
            uploads.received(id, CHUNK);
            write(&mut uploads, id, CHUNK, SECOND);
            uploads.finish(id);
            id
        });
        let commit = Grant { disk: DiskId(0), job: COMMIT_JOB, bytes_max: 0, until: Nanos::MAX };
        assert!(uploads.secured_alone().is_empty(), "no commit is under way");
        assert_eq!(uploads.granted(commit, SECOND), Granted::Commit);
        assert_eq!(uploads.secured_alone(), ids.map(|id| (id, CHUNK)));
        while !matches!(uploads.next_part(), Some(CommitPart::SyncName(_))) {
            assert!(uploads.synced_alone().len() < ids.len(), "all have their names first");
            uploads.part_done(Ok(()), SECOND);
        }
        assert_eq!((uploads.secured_alone(), uploads.synced_alone()), (Vec::new(), ids.to_vec()));
        ids.iter().for_each(|_| uploads.part_done(Ok(()), SECOND));
        assert!(uploads.next_part().is_none() && uploads.synced_alone().is_empty());
    }

    #[test]
    fn bytes_of_a_failed_commit_are_due_with_the_next_block() {
        let (mut uploads, id) = recording();
        uploads.received(id, CHUNK);
        let due = uploads.next_block().expect("one is");
        uploads.begin_blocks(due);
        write(&mut uploads, id, CHUNK, due);
        let commit = Grant { disk: DiskId(0), job: COMMIT_JOB, bytes_max: 0, until: Nanos::MAX };
        assert_eq!(uploads.granted(commit, due), Granted::Commit);
        assert!(matches!(uploads.next_part(), Some(CommitPart::Grown { .. })));
        uploads.part_done(Err(UploadFailure::Disk), due);
        assert!(uploads.next_part().is_none() && uploads.dirty_bytes() == CHUNK);
        uploads.send_messages(|_| true);
        let next = uploads.next_block().expect("one is");
        uploads.begin_blocks(next);
        let mut awaited = 0;
        uploads.send_messages(|message| {
            let work = if let StoreMessage::Offer(Offer { work, .. }) = message { Some(work) } else { None };
            awaited += u32::from(work == Some(StoreWork::Commit { dirty_bytes: CHUNK, awaited: true }));
            true
        });
        assert_eq!(awaited, 1);
        assert_eq!(uploads.granted(commit, next), Granted::Commit);
        assert!(matches!(uploads.next_part(), Some(CommitPart::Grown { syncs, .. }) if syncs == [id]));
        uploads.part_done(Ok(()), next);
        assert!(uploads.next_part().is_none() && uploads.dirty_bytes() == 0);
    }
}
