//! The life of the uploads on one disk: the offers to the disk's schedule, the work on its grants, and the commits that publish and make
//! durable.
//!
//! Promise: nothing is written or synced but on a grant; an upload gets its name when all its bytes are written, and is acknowledged when
//! its name is durable, or when it has it if it need be durable only later; uploads that finish together share a commit; the end of an
//! upload ends its offers.
//! Not here: doing it. The caller owns the files, carries out the orders of [`Uploads::granted`] and [`Uploads::next_part`], and reports
//! the outcome.

use std::collections::BTreeMap;

use units::{BitRate, DiskId, Nanos, ReservationId, UploadId, limits};

use crate::grant::{Grant, JobId, RecordingPlace, StoreMessage, StoreWork, WorkClass};

mod commit;
mod offers;
mod recording;

pub use commit::CommitPart;
use commit::{Commits, Growth};
use offers::{GrantUse, Offers};
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
    /// All of its bytes have come; this is their number.
    Whole(u64),
    /// All of its bytes are written, and it waits for a commit; this is their number.
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
    /// It gets its name as soon as it is written, and is durable within this time after that; `None`: both at once.
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

    /// The bytes to offer now, where they go, and how. Of a recording the bytes that are due, and else only those received in excess
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

/// The uploads of one disk. `F` is an upload's file, `R` a removed name; its removal is to be made durable.
#[derive(Debug)]
pub struct Uploads<F, R> {
    uploads: BTreeMap<UploadId, UploadState<F>>,
    next_upload: u64,
    commits: Commits<R>,
    /// Uploads that are written and get their names early.
    to_name: Vec<UploadId>,
    chore_offered: bool,
    offers: Offers,
}

impl<F: UploadFile, R> Uploads<F, R> {
    /// None yet, on this disk.
    #[must_use]
    pub fn new(disk: DiskId) -> Self {
        Self {
            uploads: BTreeMap::new(),
            next_upload: 0,
            commits: Commits::default(),
            to_name: Vec::new(),
            chore_offered: false,
            offers: Offers::new(disk),
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
        self.offers.has_messages()
    }

    /// Sends the messages to the disk's schedule, in order, until `send` has no room for one.
    pub fn send_messages(&mut self, send: impl FnMut(StoreMessage) -> bool) {
        self.offers.send_messages(send);
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

    /// The upload is to get its name as soon as it is written, by [`Uploads::next_to_name`], and need be durable only this time after
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

    /// This number of further bytes has come. All but the last part are a multiple of `DIRECT_ALIGN`.
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

    /// There is work that makes nothing durable: the number of places that its next piece reads, and of bytes.
    pub fn offer_chore(&mut self, reads: u32, bytes: u64) {
        if !std::mem::replace(&mut self.chore_offered, true) {
            self.offers.offer(CHORE_JOB, StoreWork::Probe { reads, bytes }, WorkClass::BestEffort);
        }
    }

    /// No grant will come any more: nothing is offered, and the files and removals that waited are returned.
    pub fn give_up(&mut self) -> (Vec<F>, Vec<R>) {
        self.offers.give_up();
        self.to_name.clear();
        self.chore_offered = true;
        let files = std::mem::take(&mut self.uploads).into_values().map(|upload| upload.file).collect();
        (files, self.commits.give_up())
    }

    /// A grant has come.
    pub fn granted(&mut self, grant: Grant, now: Nanos) -> Granted {
        self.offers.begin_grant(grant.job, now);
        let late = now > grant.until;
        if late {
            // It used up the offer it answers; the work is still there.
            self.offers.done(GrantUse::default(), now);
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
            COMMIT_JOB => self.offers.done(GrantUse::default(), now),
            CHORE_JOB if late => {}
            CHORE_JOB => return Granted::Chore,
            job => {
                let id = UploadId(job.0 - UPLOAD_JOBS);
                match self.uploads.get_mut(&id) {
                    None if late => {}
                    None => self.offers.done(GrantUse::default(), now),
                    // The offer and the last grant crossed on their ways.
                    Some(upload) if upload.ready_bytes == 0 && !late => self.offers.done(GrantUse::default(), now),
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

    /// True while a grant is in use: its work is not reported done.
    #[must_use]
    pub const fn has_grant(&self) -> bool {
        self.offers.has_grant()
    }

    /// The piece of work is done.
    pub fn chore_done(&mut self, now: Nanos) {
        self.offers.done(GrantUse::default(), now);
    }

    /// This number of bytes of an upload was written on the grant, a multiple of `DIRECT_ALIGN`; `trouble` says why there
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
        self.offers.done(used, now);
        self.offer_write(id);
        over
    }

    /// Offers a commit, if the need for one, or its size, is news to the schedule.
    fn offer_commit(&mut self) {
        if let Some(work) = self.commits.next_offer() {
            self.offers.offer(COMMIT_JOB, work, WorkClass::BestEffort);
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
        self.offers.offer(job_of(id), StoreWork::Write { bytes, position }, class);
    }

    fn abandon(&mut self, id: UploadId) -> Option<F> {
        let upload = self.uploads.remove(&id)?;
        self.to_name.retain(|waiting| *waiting != id);
        self.commits.forget(id);
        self.offers.withdraw(job_of(id));
        Some(upload.file)
    }

    /// Hands an upload with all bytes written to the next commit.
    fn conclude_if_written(&mut self, id: UploadId) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        if let (UploadLife::Whole(bytes), 0) = (upload.life, upload.ready_bytes) {
            debug_assert!(upload.written_bytes >= bytes, "its commit would acknowledge bytes that were not written");
            upload.life = UploadLife::Written(bytes);
            let early = upload.durable.is_some();
            self.offers.withdraw(job_of(id));
            if early {
                self.commits.forget_growth(id);
                return self.to_name.push(id);
            }
            self.commits.wait_for_upload(id);
            self.offer_commit();
        }
    }
}

const fn job_of(id: UploadId) -> JobId {
    JobId(UPLOAD_JOBS + id.0)
}

#[cfg(test)]
mod tests;
