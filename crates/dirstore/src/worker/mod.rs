//! One disk's thread: everything that touches the disk but the data plane's reads.
//!
//! Promise: an ordinary thread that does callers' tasks as they come, and writes, flushes, truncates and probes for the
//! index only on grants. It waits for nothing but tasks and grants, so only the disk can hold it up.
//! Not here: the callers' side (`disk`, `upload`, `store`), what is granted when (`schedule`).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dataplane::grant::{Done, Grant, JobId, Offer, StoreMessage, Work, WorkClass};
use kernel::clock::monotonic;
use kernel::direct::DirectWriter;
use rustix::fs::fstatvfs;
use rustix::io::Errno;
use tokio::sync::mpsc;
use units::{DiskId, Nanos, UploadId};

use crate::StoreError;
use crate::disk::{Shared, Task};
use crate::grants::GrantPort;
use crate::index::Index;

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

/// Tasks done before grants are looked at again.
const TASKS_PER_TURN: usize = 16;

/// How long the thread sleeps at most; it is woken for tasks and grants, this is for gauges and rescans.
const NAP: Duration = Duration::from_secs(1);

/// How often the free space is looked at.
const SPACE_CHECK: Nanos = Nanos::from_secs(1);

/// How long until a message is tried again for which the schedule had no room.
const RETRY: Duration = Duration::from_millis(5);

/// One of the folders on this disk.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) directory: OwnedFd,
    /// `st_dev` of the folder.
    pub(crate) device_number: u64,
    /// Where its file system starts on the whole disk, if that means anything.
    pub(crate) start_bytes: Option<u64>,
}

/// The state of one disk's thread.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    roots: Arc<[Root]>,
    port: Box<dyn GrantPort>,
    tasks: mpsc::Receiver<Task>,
    /// What the port had no room for. Bounded: each job has at most an offer, a withdrawal and a done in it.
    outbox: VecDeque<StoreMessage>,
    contents: Contents,
    index: Arc<Index>,
    uploads: BTreeMap<UploadId, Job>,
    next_upload: u64,
    commits: Commits,
    chores: Chores,
    writer: DirectWriter,
    next_space_check: Nanos,
    closed: bool,
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) roots: Arc<[Root]>,
    pub(crate) port: Box<dyn GrantPort>,
    pub(crate) tasks: mpsc::Receiver<Task>,
    pub(crate) contents: Contents,
    pub(crate) index: Arc<Index>,
}

impl Worker {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            shared: parts.shared,
            roots: parts.roots,
            port: parts.port,
            tasks: parts.tasks,
            outbox: VecDeque::new(),
            contents: parts.contents,
            index: parts.index,
            uploads: BTreeMap::new(),
            next_upload: 0,
            commits: Commits::default(),
            chores: Chores::default(),
            writer: DirectWriter::new(),
            next_space_check: Nanos::ZERO,
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
        let more = self.do_tasks();
        for upload in self.shared.take_aborted() {
            self.abandon(upload);
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

    fn do_tasks(&mut self) -> bool {
        for _ in 0..TASKS_PER_TURN {
            match self.tasks.try_recv() {
                Ok(task) => {
                    self.shared.set_busy(true);
                    task(self);
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
        let now = monotonic();
        if now < self.next_space_check {
            return;
        }
        self.next_space_check = now.saturating_add(SPACE_CHECK);
        if let Some(root) = self.roots.first()
            && let Ok(bytes) = free_bytes(root.directory.as_fd())
        {
            stats.free_bytes.set(bytes);
        }
    }

    pub(crate) fn disk(&self) -> DiskId {
        self.shared.id
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
