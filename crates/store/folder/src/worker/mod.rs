//! One disk's thread: everything that touches the disk but the data plane's reads.
//!
//! Promise: an ordinary thread that does callers' operations as they come, and writes, flushes, truncates and probes for the
//! index only on grants. It waits for nothing but operations and grants, so only the disk can hold it up.
//! Not here: the callers' side (`store`), the decision on grants (`schedule`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use device::Device;
use kernel::clock::monotonic;
use kernel::direct::DirectWriter;
use rustix::fs::fstatvfs;
use rustix::io::Errno;
use storage::grant::Grant;
use storage::uploads::{Granted, Uploads};
use tokio::sync::mpsc;
use units::{DiskId, Nanos};

use crate::open_folder::OpenFolder;
use crate::root::Root;
use store::GrantPort;
use store::StoreEvent;
use store::disk_thread::{answer, nap};
use store::operation::{Begun, Operation};
use store::shared::DiskShared;
use store::{StoreCommon, StoreError};

mod chores;
mod commit;
mod content;
mod namespace;
mod publish;
mod rates;
mod temporary;
mod upload;

use chores::Chores;
use commit::Removal;
use content::KnownVersions;
use upload::UploadTarget;

/// Operations done before grants are looked at again.
const OPERATIONS_PER_TURN: usize = 16;

/// Time between two looks at the free space, the places of the roots, and unused memory.
const CHECK: Nanos = Nanos::from_secs(1);

/// The state of one disk's thread.
pub(crate) struct Worker {
    shared: Arc<DiskShared>,
    common: StoreCommon,
    device: Device,
    roots: Vec<Root>,
    port: Box<dyn GrantPort>,
    operations: mpsc::Receiver<Operation>,
    contents: KnownVersions,
    /// The uploads, the commits, and the messages on them that the port has not taken yet.
    uploads: Uploads<UploadTarget, Removal>,
    /// A file of the first root that never changes, for its fsync alone.
    unchanged: Option<OwnedFd>,
    chores: Chores,
    writer: DirectWriter,
    next_check: Nanos,
    closed: bool,
}

impl Worker {
    /// The thread of a disk, with the folders on it.
    pub(crate) fn new(
        (shared, common): (Arc<DiskShared>, StoreCommon),
        (device, roots): (Device, Vec<Root>),
        port: Box<dyn GrantPort>,
        operations: mpsc::Receiver<Operation>,
    ) -> Self {
        let uploads = Uploads::new(shared.id);
        let contents = KnownVersions::new(Arc::clone(&common.versions));
        Self {
            shared,
            common,
            device,
            roots,
            port,
            operations,
            contents,
            uploads,
            unchanged: None,
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
                self.port.wait(nap(&self.uploads));
            }
        }
    }

    /// Does all pending work once. True if there may be more at once.
    fn turn(&mut self) -> bool {
        let more = self.do_operations();
        self.end_aborted();
        if self.port.is_closed() {
            self.give_up();
        }
        self.offer_chore();
        self.uploads.begin_blocks(monotonic());
        self.uploads.send_messages(|message| self.port.send(message));
        let granted = self.port.grant();
        if let Some(grant) = granted {
            self.shared.set_busy(true); // a new thing begins: patience is counted from here
            self.use_grant(grant);
            self.offer_chore();
            self.uploads.send_messages(|message| self.port.send(message));
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

    /// Breaks off uploads of clients that are gone. Chunks that these had handed over before are in the queue, and come first.
    fn end_aborted(&mut self) {
        let aborted = self.shared.take_aborted();
        let before = if aborted.is_empty() { 0 } else { self.operations.len() };
        for _ in 0..before {
            if let Ok(operation) = self.operations.try_recv() {
                self.shared.set_busy(true);
                self.perform(operation);
            }
        }
        for (upload, rest) in aborted {
            self.break_off(upload, rest);
        }
    }

    fn perform(&mut self, operation: Operation) {
        match operation {
            Operation::LookUp { root, path, reply } => answer(reply, || self.look_up(root, &path)),
            Operation::Open { root, path, want, reply } => answer(reply, || self.open(root, &path, want)),
            Operation::Folder { root, path, reply } => answer(reply, || self.folder(root, &path)?.handle()),
            Operation::Enter { folder, name, reply } => {
                answer(reply, || folder.state::<OpenFolder>()?.enter(&name)?.handle());
            }
            Operation::Items { folder, reply } => answer(reply, || {
                let items = folder.state::<OpenFolder>()?.page()?;
                Ok((folder, items))
            }),
            Operation::Entries { root, path, folder, reply } => answer(reply, || {
                let entries = self.entries(root, &path, folder.state()?)?;
                Ok((folder, entries))
            }),
            Operation::PlaceOf { root, path, reply } => answer(reply, || self.place_of(root, &path)),
            Operation::Remove { folder, path, stamp, reply } => self.remove(&folder, &path, &stamp, reply),
            Operation::Space { root, path, part, reply } => answer(reply, || self.space(root, &path, part.as_deref())),
            Operation::Delete { root, path, kind, precondition, reply } => {
                self.delete(root, &path, kind, &precondition, reply);
            }
            Operation::Begin { root, path, terms, reply } => answer(reply, || {
                let (id, begun_with) = self.begin_upload(root, &path, terms)?;
                Ok(Begun::new(Arc::clone(&self.shared), id, begun_with))
            }),
            Operation::Append { upload, chunk } => self.take_chunk(upload, chunk),
            Operation::Finish { upload, last, reply } => self.finish_upload(upload, last, reply),
        }
    }

    /// The root of this number, if its path still leads to it: looked at for each operation, so that nothing is written below a mount
    /// point.
    fn root(&mut self, number: usize) -> Result<&Root, StoreError> {
        self.look_at_root(number);
        let root = &self.roots[number];
        root.away().map_or(Ok(root), |why| Err(StoreError::RootAway(why)))
    }

    fn look_at_root(&mut self, number: usize) {
        let root = &mut self.roots[number];
        if !root.refresh(&self.device) {
            return;
        }
        // It may lie in the folder that was served before, and would keep the file system of that busy.
        self.unchanged = None;
        self.chores.forget(number);
        let path = root.path.clone();
        self.shared.events.tell(match root.away() {
            Some(why) => StoreEvent::RootAway { root: path, why },
            None => StoreEvent::RootBack { root: path },
        });
    }

    fn use_grant(&mut self, grant: Grant) {
        match self.uploads.granted(grant, monotonic()) {
            Granted::Late => {}
            Granted::Unused => self.shared.stats.grants_unused.add(1),
            Granted::Write { upload, offset, bytes } => self.write(upload, offset, bytes, grant.until),
            Granted::Commit => self.commit(),
            Granted::Chore => {
                self.chore();
                self.uploads.chore_done(monotonic());
            }
        }
    }

    /// No grant will come any more: each waiting client gets its answer.
    fn give_up(&mut self) {
        self.chores.give_up();
        let (targets, removals) = self.uploads.give_up();
        self.shared.stats.uploads_failed.add(u64::try_from(targets.len()).unwrap_or(u64::MAX));
        targets.into_iter().for_each(|mut target| target.tell_failure(&StoreError::Closed));
        let unsettled = StoreError::Unsettled(self.disk());
        removals.into_iter().for_each(|mut removal| removal.answer(Err(unsettled.clone())));
    }

    fn refresh_gauges(&mut self) {
        let stats = &self.shared.stats;
        stats.uploads_open.set(u64::try_from(self.uploads.count()).unwrap_or(u64::MAX));
        stats.dirty_bytes.set(self.uploads.dirty_bytes());
        if self.uploads.is_idle() {
            // A file without a name keeps its file system from being remounted read-only.
            self.unchanged = None;
        }
        let now = monotonic();
        if now < self.next_check {
            return;
        }
        self.next_check = now.saturating_add(CHECK);
        self.common.give_back();
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

/// Bytes free for us in the file system of `file`.
fn free_bytes(file: impl AsFd) -> Result<u64, Errno> {
    fstatvfs(file).map(|space| space.f_bavail.saturating_mul(space.f_frsize))
}
