//! One disk's thread: everything that touches the disk but the data plane's reads.
//!
//! Promise: an ordinary thread that does callers' operations as they come, and writes, flushes, truncates and probes for the
//! index only on grants. It waits for nothing but operations and grants, so only the disk can hold it up.
//! Not here: the callers' side (`disk`, `upload`, `store`), what is granted when (`schedule`).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use dataplane::grant::{Done, Grant, JobId, Offer, StoreMessage, Work, WorkClass};
use device::Device;
use kernel::clock::monotonic;
use kernel::direct::DirectWriter;
use rustix::fs::fstatvfs;
use rustix::io::Errno;
use tokio::sync::mpsc;
use units::{DiskId, Nanos, UploadId};

use crate::StoreError;
use crate::disk::Shared;
use crate::event::StoreEvent;
use crate::grants::GrantPort;
use crate::index::Index;
use crate::operation::{Operation, Reply};
use crate::root::Root;
use crate::upload::Begun;

mod chores;
mod commit;
pub(crate) mod content;
mod namespace;
mod publish;
mod rates;
mod temporary;
mod upload;

use chores::Chores;
use commit::Commits;
use content::Contents;
pub(crate) use namespace::NAMES_MAX;
use upload::Job;
pub(crate) use upload::{Chunk, Recording};

/// The commit: one job for all that is to be made durable.
const COMMIT_JOB: JobId = JobId(0);

/// Work nobody waits for: one job for all of it.
const CHORE_JOB: JobId = JobId(1);

/// The first job number for uploads.
const UPLOAD_JOBS: u64 = 2;

/// Operations done before grants are looked at again.
const OPERATIONS_PER_TURN: usize = 16;

/// How long the thread sleeps at most; it is woken for operations and grants, this is for gauges, rescans, and roots
/// that go and come.
const NAP: Duration = Duration::from_secs(1);

/// How often the free space is looked at, and whether the roots are where they were.
const CHECK: Nanos = Nanos::from_secs(1);

/// How long until a message is tried again for which the schedule had no room.
const RETRY: Duration = Duration::from_millis(5);

/// The state of one disk's thread.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    device: Device,
    roots: Vec<Root>,
    port: Box<dyn GrantPort>,
    operations: mpsc::Receiver<Operation>,
    /// What the port had no room for. Bounded: each job has at most an offer, a withdrawal and a done in it.
    outbox: VecDeque<StoreMessage>,
    contents: Contents,
    index: Arc<Index>,
    uploads: BTreeMap<UploadId, Job>,
    next_upload: u64,
    commits: Commits,
    chores: Chores,
    writer: DirectWriter,
    next_check: Nanos,
    closed: bool,
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) device: Device,
    pub(crate) roots: Vec<Root>,
    pub(crate) port: Box<dyn GrantPort>,
    pub(crate) operations: mpsc::Receiver<Operation>,
    pub(crate) contents: Contents,
    pub(crate) index: Arc<Index>,
}

impl Worker {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            shared: parts.shared,
            device: parts.device,
            roots: parts.roots,
            port: parts.port,
            operations: parts.operations,
            outbox: VecDeque::new(),
            contents: parts.contents,
            index: parts.index,
            uploads: BTreeMap::new(),
            next_upload: 0,
            commits: Commits::default(),
            chores: Chores::default(),
            writer: DirectWriter::new(),
            next_check: Nanos::ZERO,
            closed: false,
        }
    }

    /// The thread's life: ends when no caller is left.
    pub(crate) fn run(mut self) {
        while !self.closed {
            self.shared.set_busy(true);
            let more = self.turn();
            self.shared.set_busy(false);
            if !more {
                self.port.wait(if self.outbox.is_empty() { NAP } else { RETRY });
            }
        }
    }

    /// One round of what there is to do. True if there may be more at once.
    fn turn(&mut self) -> bool {
        let more = self.do_operations();
        for (upload, rest) in self.shared.take_aborted() {
            self.break_off(upload, rest);
        }
        if self.port.is_closed() {
            self.give_up();
        }
        self.offer_commit();
        self.offer_chore();
        self.post();
        let granted = self.port.grant();
        if let Some(grant) = granted {
            self.shared.set_busy(true); // a new thing begins: patience is counted from here
            self.use_grant(grant);
            self.offer_commit();
            self.offer_chore();
            self.post();
        }
        self.refresh_gauges();
        more || granted.is_some()
    }

    fn do_operations(&mut self) -> bool {
        for _ in 0..OPERATIONS_PER_TURN {
            match self.operations.try_recv() {
                Ok(operation) => {
                    self.shared.set_busy(true);
                    self.perform(operation);
                }
                Err(mpsc::error::TryRecvError::Empty) => return false,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.closed = true;
                    return false;
                }
            }
        }
        true
    }

    fn perform(&mut self, operation: Operation) {
        match operation {
            Operation::LookUp { root, path, reply } => answer(reply, || self.look_up(root, &path)),
            Operation::Open { root, path, want, reply } => answer(reply, || self.open(root, &path, want)),
            Operation::Names { root, path, reply } => answer(reply, || self.names(root, &path)),
            Operation::Entries { root, path, names, reply } => answer(reply, || self.entries(root, &path, &names)),
            Operation::Space { root, path, reply } => answer(reply, || self.space(root, &path)),
            Operation::Delete { root, path, precondition, reply } => self.delete(root, &path, &precondition, reply),
            Operation::Begin { root, path, terms, reply } => answer(reply, || {
                let id = self.begin_upload(root, &path, terms)?;
                Ok(Begun::new(Arc::clone(&self.shared), id))
            }),
            Operation::Append { upload, chunk } => self.take_chunk(upload, chunk),
            Operation::Finish { upload, last, total_bytes, reply } => {
                self.finish_upload(upload, last, total_bytes, reply);
            }
        }
    }

    /// The root of this number, if its path still leads to it: looked at for each operation, so that nothing is written
    /// below a mount point.
    fn root(&mut self, number: usize) -> Result<&Root, StoreError> {
        self.look_at_root(number);
        let root = &self.roots[number];
        root.away().map_or(Ok(root), |why| Err(StoreError::RootAway(why)))
    }

    fn look_at_root(&mut self, number: usize) {
        let root = &mut self.roots[number];
        if !root.look(&self.device) {
            return;
        }
        // It may be a file of the folder before, which would keep that one's file system busy.
        self.commits.let_go();
        let path = root.path.clone();
        self.shared.events.tell(match root.away() {
            Some(why) => StoreEvent::RootAway { root: path, why },
            None => StoreEvent::RootBack { root: path },
        });
    }

    fn use_grant(&mut self, grant: Grant) {
        let started = monotonic();
        if started > grant.until {
            self.shared.stats.grants_late.add(1);
            self.answer(grant.job, Used::nothing(started));
            self.offer_again(grant.job);
            return;
        }
        match grant.job {
            COMMIT_JOB => self.commit(started),
            CHORE_JOB => self.chore(started),
            job => match self.uploads.values().find(|upload| upload.job == job).map(|upload| upload.id) {
                Some(upload) => self.write(upload, grant, started),
                None => {
                    self.shared.stats.grants_unused.add(1);
                    self.answer(job, Used::nothing(started));
                }
            },
        }
    }

    /// A late grant used up the offer it answered: the work is still there.
    fn offer_again(&mut self, job: JobId) {
        match job {
            COMMIT_JOB => return self.commits.forget_offer(),
            CHORE_JOB => return self.chores.forget_offer(),
            _ => {}
        }
        if let Some(upload) = self.uploads.values_mut().find(|upload| upload.job == job) {
            upload.forget_offer();
            let id = upload.id;
            self.offer_write(id);
        }
    }

    fn answer(&mut self, job: JobId, used: Used) {
        let done = Done {
            disk: self.shared.id,
            job,
            bytes: used.bytes,
            started: used.started,
            ended: monotonic(),
            ok: used.ok,
            ready_bytes: used.ready_bytes,
            position: used.position,
        };
        self.outbox.push_back(StoreMessage::Done(done));
    }

    fn offer(&mut self, job: JobId, work: Work, class: WorkClass) {
        let disk = self.shared.id;
        // An offer that still waits to be sent is out of date now.
        self.outbox.retain(|message| !matches!(message, StoreMessage::Offer(old) if old.job == job));
        self.outbox.push_back(StoreMessage::Offer(Offer { disk, job, work, class }));
    }

    fn withdraw(&mut self, job: JobId) {
        let disk = self.shared.id;
        self.outbox.retain(|message| !matches!(message, StoreMessage::Offer(old) if old.job == job));
        self.outbox.push_back(StoreMessage::Withdraw { disk, job });
    }

    /// No grant will come any more: whoever waits for one is told.
    fn give_up(&mut self) {
        self.outbox.clear();
        self.commits.give_up();
        self.chores.give_up();
        while let Some(upload) = self.uploads.keys().next().copied() {
            self.fail(upload, &StoreError::Closed);
        }
    }

    fn post(&mut self) {
        while let Some(message) = self.outbox.front() {
            if !self.port.send(*message) {
                return;
            }
            self.outbox.pop_front();
        }
    }

    fn refresh_gauges(&mut self) {
        let stats = &self.shared.stats;
        stats.uploads_open.set(u64::try_from(self.uploads.len()).unwrap_or(u64::MAX));
        stats.dirty_bytes.set(self.commits.dirty_bytes);
        if self.uploads.is_empty() && self.commits.is_idle() {
            self.commits.let_go();
        }
        let now = monotonic();
        if now < self.next_check {
            return;
        }
        self.next_check = now.saturating_add(CHECK);
        for number in 0..self.roots.len() {
            self.look_at_root(number);
        }
        if let Some(root) = self.roots.first()
            && let Ok(bytes) = free_bytes(root.directory.as_fd())
        {
            self.shared.stats.free_bytes.set(bytes);
        }
    }

    pub(crate) fn disk(&self) -> DiskId {
        self.shared.id
    }
}

/// Answers with what `work` gives, which is not begun if nobody waits for it any more.
fn answer<T>(reply: Reply<T>, work: impl FnOnce() -> Result<T, StoreError>) {
    if !reply.is_closed() {
        drop(reply.send(work()));
    }
}

/// Bytes free for us in the file system of `file`.
fn free_bytes(file: impl AsFd) -> Result<u64, Errno> {
    fstatvfs(file).map(|space| space.f_bavail.saturating_mul(space.f_frsize))
}

/// What became of a grant.
#[derive(Debug, Clone, Copy)]
struct Used {
    bytes: u64,
    started: Nanos,
    ok: bool,
    ready_bytes: u64,
    position: u64,
}

impl Used {
    fn nothing(started: Nanos) -> Self {
        Self { bytes: 0, started, ok: true, ready_bytes: 0, position: u64::MAX }
    }
}
