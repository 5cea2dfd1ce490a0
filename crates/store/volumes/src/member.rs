//! The thread of one disk of a volume: writes and flushes on grants.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use kernel::aligned::AlignedBlock;
use kernel::clock::monotonic;
use kernel::direct::DirectWriter;
use rustix::fs::fdatasync;
use rustix::io::pread;
use storage::uploads::{CommitPart, UploadFailure, Uploads};
use units::{Nanos, UploadId, limits};
use volume::{Areas, BLOCK_BYTES, MemberId};

use super::SharedCore;
use super::live::{Task, VacantDisk};
use super::part::UploadPart;
use super::small_read::SmallRead;
use super::unit_read::UnitRead;
use super::upkeep_run::CopyStep;
use store::buffers::index;
use store::disk_thread::{Backend, Requests};
use store::grants::GrantPort;
use store::lock::lock;
use store::shared::DiskShared;
use store::{OnBreak, StoreError};

/// A set of writes waits for this disk: a commit of its schedule like a removed name.
#[derive(Debug)]
pub(crate) struct WriteSetTurn;

/// See the module.
pub(crate) struct MemberWorker {
    member: MemberId,
    core: SharedCore,
    shared: Arc<DiskShared>,
    file: OwnedFd,
    uploads: Uploads<UploadPart, WriteSetTurn>,
    /// The volume's number of an upload to this disk's.
    numbers: HashMap<UploadId, UploadId>,
    /// An open waits for these: they come before those of whole units.
    small_reads: VecDeque<SmallRead>,
    unit_reads: VecDeque<Box<UnitRead>>,
    writer: DirectWriter,
}

impl Backend for MemberWorker {
    type File = UploadPart;
    type Removal = WriteSetTurn;

    fn uploads(&mut self) -> &mut Uploads<UploadPart, WriteSetTurn> {
        &mut self.uploads
    }

    /// The thread ends when the front's does, when the disk is taken out, or no grant will come any more.
    fn take_requests(&mut self) -> Requests {
        if lock(&self.core).is_out(self.member) { Requests::Over } else { Requests::Taken }
    }

    /// Takes the tasks, of which the reads are no upload's.
    fn offer(&mut self) {
        self.take_tasks();
    }

    fn write(&mut self, number: UploadId, _offset: u64, bytes: u64, until: Nanos) {
        let Some(part) = self.uploads.file_mut(number) else { return };
        let upload = part.upload;
        let (written, error) = part.write(bytes, self.file.as_fd(), &mut self.writer, until);
        self.shared.stats.written_bytes.add(written);
        // Its units are taken: a disk of a volume that has no room for them errs.
        let over = self.uploads.wrote(number, written, error.as_ref().map(|_| UploadFailure::Disk), monotonic());
        if let Some(error) = error.filter(|_| over.is_some()) {
            self.numbers.remove(&upload);
            if !lock(&self.core).could_not_mend(upload) {
                self.failed(&error);
            }
        }
    }

    /// Uses a grant for a commit: one flush for all units that are waited for and the growth of recordings, then this disk's share of a
    /// set of writes.
    fn commit(&mut self) {
        let mut flushed: Option<Result<(), StoreError>> = None;
        let (mut done, mut grown) = (Vec::new(), Vec::new());
        while let Some(part) = self.uploads.next_part() {
            let (upload, is_flush) = match &part {
                CommitPart::SyncName(number) | CommitPart::Settled(number) => (Some(*number), true),
                CommitPart::Grown { uploads, .. } => {
                    grown.clone_from(uploads);
                    (None, true)
                }
                CommitPart::Flush { .. } => (None, true),
                CommitPart::Secure { .. } | CommitPart::Publish(_) => (None, false),
                CommitPart::Withhold(number) => (Some(*number), false),
                CommitPart::SyncRemoval(_) | CommitPart::CheckRemoval(_) => (None, false),
            };
            let outcome = match part {
                CommitPart::SyncRemoval(_) => self.write_share(),
                CommitPart::Withhold(_) => flushed.clone().unwrap_or(Err(self.shared.failing())),
                _ if is_flush => flushed.get_or_insert_with(|| flush(&self.file)).clone(),
                _ => Ok(()),
            };
            if let Some(number) = upload
                && let Some(part) = self.uploads.file_mut(number)
            {
                done.push((part.upload, outcome.clone()));
            }
            self.uploads.part_done(outcome.map_err(|error| error.trouble()), monotonic());
        }
        for (upload, outcome) in done {
            self.numbers.remove(&upload);
            match outcome {
                Ok(()) => lock(&self.core).member_done(upload, self.member),
                Err(error) => self.failed(&error),
            }
        }
        match &flushed {
            // A later flush that succeeds does not prove that the writes of this one survived, for any waiting upload.
            Some(Err(error)) => self.failed(error),
            Some(Ok(())) => self.tell_grown(&grown),
            None => {}
        }
        // The commit of a unit just published or grown may continue in this grant: on a volume of one disk it is answered a turn earlier.
        if flushed.is_some() {
            let _ = self.write_share();
        }
    }

    fn step(&mut self, until: Nanos) {
        match self.small_reads.pop_front() {
            Some(read) => read.run(),
            None => self.read_unit(until),
        }
    }

    fn give_up(&mut self) {
        lock(&self.core).give_up();
    }

    fn leave(self, port: Box<dyn GrantPort>) {
        let left = VacantDisk { shared: self.shared, port };
        lock(&self.core).live.members.vacant.insert(self.member, left);
    }
}

impl MemberWorker {
    pub(crate) fn new(member: MemberId, core: SharedCore, shared: Arc<DiskShared>, file: OwnedFd) -> Self {
        let uploads = Uploads::new(shared.id);
        let (numbers, writer) = (HashMap::new(), DirectWriter::new());
        let (small_reads, unit_reads) = (VecDeque::new(), VecDeque::new());
        Self { member, core, shared, file, uploads, numbers, small_reads, unit_reads, writer }
    }

    fn take_tasks(&mut self) {
        loop {
            let task =
                lock(&self.core).live.members.there[self.member.index()].as_mut().and_then(|own| own.inbox.pop_front());
            let Some(task) = task else { break };
            match task {
                Task::Begin(upload, on_break, recording) => {
                    let keeps = on_break == OnBreak::Keep;
                    let number = self.uploads.begin(UploadPart::new(upload), recording, keeps, 0);
                    self.numbers.insert(upload, number);
                }
                Task::Write(upload, block) => {
                    let Some(number) = self.numbers.get(&upload).copied() else { continue };
                    let Some(part) = self.uploads.receiving(number) else { continue };
                    let bytes = block.len();
                    part.push(block);
                    self.uploads.received(number, bytes);
                }
                Task::Finish(upload) => {
                    if let Some(number) = self.numbers.get(&upload) {
                        self.uploads.finish(*number);
                    }
                }
                Task::Forget(upload) => {
                    if let Some(number) = self.numbers.remove(&upload) {
                        drop(self.uploads.forget(number));
                    }
                    lock(&self.core).member_done(upload, self.member);
                }
                Task::Share if lock(&self.core).live.is_turn_of(self.member) => {
                    self.uploads.removed(WriteSetTurn, None)
                }
                // It was written in the grant that published.
                Task::Share => {}
                Task::Read(unit) => self.unit_reads.push_back(unit),
                Task::Small(read) => self.small_reads.push_back(read),
            }
        }
        if let Some(read) = self.small_reads.front() {
            self.uploads.offer_chore(1, read.bytes());
        } else if let Some(unit) = self.unit_reads.front() {
            let (places, bytes) = unit.next_run();
            self.uploads.offer_chore(places, bytes);
        }
    }

    /// Reads on, and reports to the upkeep once the unit is read, or found wrong.
    fn read_unit(&mut self, until: Nanos) {
        let Some(mut unit) = self.unit_reads.pop_front() else { return };
        let read = unit.read(self.file.as_fd(), || monotonic() < until);
        if read.is_ok() && unit.may_continue(&lock(&self.core).live.volume) && !unit.is_complete() {
            return self.unit_reads.push_front(unit);
        }
        let copy = unit.copy;
        let step = match read {
            Err(_) if !self.is_there() => CopyStep::Away,
            // A place that cannot be read is mended; that does not make it a disk that fails.
            _ => CopyStep::Read(unit.into_bytes()),
        };
        lock(&self.core).copy_step(copy, step);
    }

    /// True if the disk gives a copy of its superblock, the bytes at both of its ends: else it gives nothing.
    fn is_there(&self) -> bool {
        let size = lock(&self.core).live.volume.members().areas(self.member).size;
        let mut block = AlignedBlock::zeroed(index(BLOCK_BYTES));
        let mut positions = Areas::superblock_positions(size).into_iter();
        positions.any(|at| pread(&self.file, block.bytes_mut(), at).is_ok_and(|read| read > 0))
    }

    /// The disk erred: writes that it took before its last flush may be lost, so that nothing on it counts any more.
    fn failed(&self, error: &StoreError) {
        let error = if error.is_full() { self.shared.failing() } else { self.shared.own(error.clone()) };
        lock(&self.core).take_out(self.member, &error);
    }
    /// The written bytes of these uploads are durable.
    fn tell_grown(&mut self, grown: &[UploadId]) {
        let written = |number: &UploadId| self.uploads.file_mut(*number).map(|part| (part.upload, part.written()));
        let grown: Vec<_> = grown.iter().filter_map(written).collect();
        if !grown.is_empty() {
            lock(&self.core).made_durable(self.member, &grown);
        }
    }

    /// Writes and flushes this disk's share of the set under way, if it has one.
    fn write_share(&mut self) -> Result<(), StoreError> {
        let Some((number, writes)) = lock(&self.core).live.share(self.member) else { return Ok(()) };
        let written = writes.iter().try_for_each(|(position, block)| {
            let run =
                self.writer.write_run(self.file.as_fd(), *position, &[block.bytes()], limits::CHUNK_BYTES, || true);
            run.error.map_or(Ok(()), |error| Err(StoreError::from(error)))
        });
        let outcome = written.and_then(|()| flush(&self.file));
        match &outcome {
            Ok(()) => lock(&self.core).share_done(self.member, number),
            Err(error) => self.failed(error),
        }
        outcome
    }
}

fn flush(file: &OwnedFd) -> Result<(), StoreError> {
    fdatasync(file).map_err(StoreError::from)
}
