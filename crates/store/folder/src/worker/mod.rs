//! The work of one disk's thread: everything that changes its folders; and of its openers, which answer queries about them.
//!
//! Promise: callers' changes are made as they come, and a query that comes after the answer to one sees it; writes, flushes, truncations
//! and probes for the index are made only on grants.
//! Not here: the thread (`store::disk_thread`), the callers' side (`store`), the decision on grants (`schedule`).

use std::io;
use std::sync::Arc;

use device::Device;
use kernel::clock::monotonic;
use kernel::direct::DirectWriter;
use storage::uploads::Uploads;
use tokio::sync::mpsc;
use units::{DiskId, Nanos, UploadId};

use crate::root::Root;
use store::GrantPort;
use store::disk_thread::{Backend, Requests, answer};
use store::openers::Openers;
use store::operation::{Begun, Operation, StoreQuery};
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
use commit::{Removal, UnchangedFile};
use content::KnownJournals;
use folders::Folders;
use upload::UploadTarget;

/// Operations done before grants are looked at again.
const OPERATIONS_PER_TURN: usize = 16;

/// Openers of one disk. With 8, the opens of 16 callers took as long (emulated 7200 rpm disk), and a stream's read had more reads next to
/// it.
const OPENERS: usize = 4;

/// Time between two looks at the free space, the places of the roots, and unused memory.
const CHECK: Nanos = Nanos::from_secs(1);

/// The state of one disk's thread.
pub(crate) struct Worker {
    shared: Arc<DiskShared>,
    folders: Arc<Folders>,
    operations: mpsc::Receiver<Operation>,
    /// The uploads, the commits, and the messages on them that the port has not taken yet.
    uploads: Uploads<UploadTarget, Removal>,
    chores: Chores,
    writer: DirectWriter,
    journals: KnownJournals,
    unchanged: UnchangedFile,
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
        for left in self.chores.step(&self.folders) {
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
            self.unchanged.let_go();
        }
        let now = monotonic();
        if now < self.next_check {
            return;
        }
        self.next_check = now.saturating_add(CHECK);
        self.folders.common.give_back();
        self.journals.forget();
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
            folders: Arc::new(folders),
            operations,
            uploads,
            chores: Chores::default(),
            writer: DirectWriter::new(),
            journals: KnownJournals::default(),
            unchanged: UnchangedFile::default(),
            next_check: Nanos::ZERO,
        }
    }

    /// Starts the threads that answer queries about the folders.
    pub(crate) fn start_openers(&self) -> io::Result<Openers<StoreQuery>> {
        let (folders, name) = (Arc::clone(&self.folders), format!("open-{}", self.shared.id.0));
        Openers::start(&folders.common.clone(), &name, OPENERS, move |query| {
            folders.shared.open_step(|| folders.answer(query));
        })
    }

    /// Looks no further through folders that are not what they were.
    fn forget_changed(&mut self) {
        for number in self.folders.take_changed() {
            // It may lie in the folder that was served before.
            self.unchanged.let_go();
            self.chores.forget(number);
        }
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
            Operation::Query(query) => self.folders.answer(query),
            Operation::Remove { folder, path, stamp, reply } => self.remove(&folder, &path, &stamp, reply),
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
            Operation::Recover { root, path, reply } => self.recover(root, &path, reply),
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use rustix::fs::{OFlags, fstat};
    use store::lock::lock;
    use store::{ContentPath, StoreBuilder, StoreSettings, Want};
    use tokio::sync::oneshot;

    use super::*;

    /// Longer than a look-up takes.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A worker for this folder, on the test's own thread.
    fn worker(folder: &std::path::Path) -> Worker {
        let store = StoreBuilder::new(&StoreSettings::default()).expect("memory is there");
        let shared = store.common().shared((DiskId(0), "disk".to_owned()), Arc::new(|| {}));
        let (root, device) = Root::open(&folder.to_owned().into()).expect("it is there");
        let (_, operations) = mpsc::channel(1);
        Worker::new((shared, store.common().clone()), (device, vec![root]), operations)
    }

    fn path(name: &str) -> ContentPath {
        ContentPath::root().child(name).expect("a name")
    }

    #[test]
    fn a_lookup_passes_an_open_that_waits() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("film"), "film").expect("written");
        let worker = worker(folder.path());
        let folders = Arc::clone(&worker.folders);
        let held = lock(&folders.contents.known);
        let openers = worker.start_openers().expect("threads are there");
        let (reply, mut opened) = oneshot::channel();
        openers.put(StoreQuery::Open { root: 0, path: path("film"), want: Want::File, reply }).expect("there is room");
        let (reply, mut found) = oneshot::channel();
        openers.put(StoreQuery::LookUp { root: 0, path: path("film"), reply }).expect("there is room");
        let end = Instant::now() + PATIENCE;
        while found.is_empty() && Instant::now() < end {
            std::thread::yield_now();
        }
        let entry = found.try_recv().expect("answered").expect("found");
        assert!(opened.try_recv().is_err(), "it waits");
        drop(held);
        assert_eq!(opened.blocking_recv().expect("answered").expect("opened").entry, entry);
    }

    #[test]
    fn a_removed_file_keeps_its_bytes_while_an_open_lasts_that_was_under_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let film = fs::File::create(folder.path().join("film")).expect("created");
        film.set_len(1 << 30).expect("without bytes");
        let mut worker = worker(folder.path());
        let root = worker.folders.root(0).expect("served");
        let handle = root.open_path(&path("film"), OFlags::PATH).expect("there");
        let removed = worker.chores.prepare_removal(handle.as_fd(), &fstat(&handle).expect("there"));
        fs::remove_file(folder.path().join("film")).expect("removed");
        worker.chores.free_later(removed);
        let size = || fstat(&handle).expect("held").st_size;
        drop(film);
        let folders = Arc::clone(&worker.folders);
        folders.shared.open_step(|| {
            worker.chores.step(&folders);
            assert_eq!(size(), 1 << 30, "it may be found by its name");
        });
        // Opens come without a pause.
        folders.shared.open_step(|| worker.chores.step(&folders));
        assert!(size() < 1 << 30);
    }
}
