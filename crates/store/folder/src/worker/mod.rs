//! The work of one disk's thread: everything that touches its folders but the data plane's reads.
//!
//! Promise: callers' operations are done as they come; writes, flushes, truncations and probes for the index only on grants.
//! Not here: the thread (`store::disk_thread`), the callers' side (`store`), the decision on grants (`schedule`).

use std::sync::Arc;

use device::Device;
use kernel::clock::monotonic;
use kernel::direct::DirectWriter;
use storage::uploads::Uploads;
use tokio::sync::mpsc;
use units::{DiskId, Nanos, UploadId};

use crate::open_folder::OpenFolder;
use crate::root::Root;
use store::GrantPort;
use store::disk_thread::{Backend, Requests, answer};
use store::operation::{Begun, Operation};
use store::shared::DiskShared;
use store::{StoreCommon, StoreError};

mod change_names;
mod chores;
mod commit;
mod content;
mod discard;
mod folders;
mod publish;
mod rates;
mod recover;
mod removal;
mod temporary;
mod upload;

use chores::{Chores, READS_PER_STEP};
use commit::Removal;
use folders::Folders;
use upload::UploadTarget;

/// Operations done before grants are looked at again.
const OPERATIONS_PER_TURN: usize = 16;

/// Time between two looks at the free space, the places of the roots, and unused memory.
const CHECK: Nanos = Nanos::from_secs(1);

/// The state of one disk's thread.
pub(crate) struct Worker {
    shared: Arc<DiskShared>,
    folders: Folders,
    operations: mpsc::Receiver<Operation>,
    /// The uploads, the commits, and the messages on them that the port has not taken yet.
    uploads: Uploads<UploadTarget, Removal>,
    chores: Chores,
    writer: DirectWriter,
    next_check: Nanos,
}

impl Backend for Worker {
    type File = UploadTarget;
    type Removal = Removal;

    fn uploads(&mut self) -> &mut Uploads<UploadTarget, Removal> {
        &mut self.uploads
    }

    fn take_requests(&mut self) -> Requests {
        let requests = self.do_operations();
        self.end_aborted();
        self.forget_changed();
        requests
    }

    fn offer(&mut self) {
        if self.chores.is_due(&self.folders) {
            self.uploads.offer_chore(READS_PER_STEP, 0);
        }
    }

    fn write(&mut self, upload: UploadId, offset: u64, bytes: u64, until: Nanos) {
        self.write_upload(upload, offset, bytes, until);
    }

    fn commit(&mut self) {
        self.commit_all();
    }

    fn step(&mut self, _until: Nanos) {
        for left in self.chores.step(&mut self.folders) {
            self.take_up(left);
        }
    }

    fn give_up(&mut self) {
        self.chores.give_up();
        let (targets, removals) = self.uploads.give_up();
        self.shared.stats.uploads_failed.add(u64::try_from(targets.len()).unwrap_or(u64::MAX));
        targets.into_iter().for_each(|mut target| target.tell_failure(&StoreError::Closed));
        let unsettled = self.shared.unsettled();
        removals.into_iter().for_each(|mut removal| removal.answer(Err(unsettled.clone())));
    }

    fn refresh(&mut self) {
        let stats = &self.shared.stats;
        stats.uploads_open.set(u64::try_from(self.uploads.count()).unwrap_or(u64::MAX));
        if self.uploads.is_idle() {
            self.folders.let_go();
        }
        let now = monotonic();
        if now < self.next_check {
            return;
        }
        self.next_check = now.saturating_add(CHECK);
        self.folders.common.give_back();
        if let Some(bytes) = self.folders.look_at_all() {
            self.shared.stats.free_bytes.set(bytes);
        }
        self.forget_changed();
    }

    fn leave(self, _port: Box<dyn GrantPort>) {}
}

impl Worker {
    /// The work for the folders on a disk.
    pub(crate) fn new(
        (shared, common): (Arc<DiskShared>, StoreCommon),
        (device, roots): (Device, Vec<Root>),
        operations: mpsc::Receiver<Operation>,
    ) -> Self {
        let (uploads, folders) = (Uploads::new(shared.id), Folders::new(Arc::clone(&shared), common, device, roots));
        Self {
            shared,
            folders,
            operations,
            uploads,
            chores: Chores::default(),
            writer: DirectWriter::new(),
            next_check: Nanos::ZERO,
        }
    }

    /// Looks no further through folders that are not what they were.
    fn forget_changed(&mut self) {
        self.folders.take_changed().into_iter().for_each(|number| self.chores.forget(number));
    }

    fn do_operations(&mut self) -> Requests {
        for _ in 0..OPERATIONS_PER_TURN {
            match self.operations.try_recv() {
                Ok(operation) => {
                    self.shared.set_busy(true);
                    self.perform(operation);
                }
                Err(mpsc::error::TryRecvError::Empty) => return Requests::Taken,
                Err(mpsc::error::TryRecvError::Disconnected) => return Requests::Over,
            }
        }
        Requests::More
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
            Operation::LookUp { root, path, reply } => answer(reply, || self.folders.look_up(root, &path)),
            Operation::Open { root, path, want, reply } => answer(reply, || self.folders.open(root, &path, want)),
            Operation::Folder { root, path, reply } => answer(reply, || self.folders.folder(root, &path)?.handle()),
            Operation::Enter { folder, name, reply } => {
                answer(reply, || folder.state::<OpenFolder>()?.enter(&name)?.handle());
            }
            Operation::Items { folder, reply } => answer(reply, || {
                let items = folder.state::<OpenFolder>()?.page()?;
                Ok((folder, items))
            }),
            Operation::Entries { root, path, folder, reply } => answer(reply, || {
                let entries = self.folders.entries(root, &path, folder.state()?)?;
                Ok((folder, entries))
            }),
            Operation::PlaceOf { root, path, reply } => answer(reply, || self.folders.place_of(root, &path)),
            Operation::Remove { folder, path, stamp, reply } => self.remove(&folder, &path, &stamp, reply),
            Operation::Space { root, path, part, reply } => {
                answer(reply, || self.folders.space(root, &path, part.as_deref()))
            }
            Operation::Delete { root, path, kind, precondition, reply } => {
                self.delete(root, &path, kind, &precondition, reply);
            }
            Operation::MakeFolder { root, path, reply } => {
                self.change_names(root, reply, |folders| folders.make_folder(root, &path));
            }
            Operation::Rename { root, from, to, replaces, reply } => {
                self.change_names(root, reply, |folders| folders.rename(root, (&from, &to), replaces));
            }
            Operation::SetModified { root, path, modified, reply } => {
                self.change_names(root, reply, |folders| folders.set_modified(root, &path, modified));
            }
            Operation::RemoveTree { root, path, reply } => {
                self.change_names(root, reply, |folders| folders.remove_tree(root, &path));
            }
            Operation::Begin { root, path, terms, reply } => answer(reply, || {
                let (id, begun_with) = self.begin_upload(root, &path, terms)?;
                Ok(Begun::new(Arc::clone(&self.shared), id, begun_with))
            }),
            Operation::Append { upload, chunk } => self.take_chunk(upload, chunk),
            Operation::Finish { upload, last, reply } => self.finish_upload(upload, last, reply),
        }
    }

    pub(crate) fn disk(&self) -> DiskId {
        self.shared.id
    }
}
