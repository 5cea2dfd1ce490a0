//! The thread of a volume that knows the names.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kernel::clock::monotonic;
use tokio::sync::mpsc;
use units::limits;
use volume::ListedName;

use super::content::{entry_of, folder_of, stamp_of};
use super::opener::OpenQueue;
use super::seen::{self, SeenGeneration};
use super::{SharedCore, lock};
use crate::buffers::count;
use crate::index::Index;
use crate::operation::Begun;
use crate::operation::Operation;
use crate::shared::DiskShared;
use crate::worker::{NAMES_MAX, answer};
use crate::{ContentPath, Entry, StoreError};

/// How long the thread sleeps at most: it is woken for operations; this is for units that nobody reads any more.
const NAP: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Front {
    core: SharedCore,
    shared: Arc<DiskShared>,
    operations: mpsc::Receiver<Operation>,
    index: Arc<Index>,
    opens: OpenQueue,
    seen: Option<SeenGeneration>,
}

impl Front {
    pub(crate) fn new(
        core: SharedCore,
        shared: Arc<DiskShared>,
        operations: mpsc::Receiver<Operation>,
        (index, opens): (Arc<Index>, OpenQueue),
        state: Option<&Path>,
    ) -> Self {
        let volume = lock(&core).volume.superblock().volume;
        let seen = state.map(|state| SeenGeneration::kept_in(seen::file_of(state, &volume)));
        Self { core, shared, operations, index, opens, seen }
    }

    /// The thread's life: ends when no caller is left. Who posts an operation unparks it.
    pub(crate) fn run(mut self) {
        lock(&self.core).fill_disks();
        loop {
            match self.operations.try_recv() {
                Ok(operation) => self.perform(operation),
                Err(mpsc::error::TryRecvError::Disconnected) => return lock(&self.core).give_up(),
                Err(mpsc::error::TryRecvError::Empty) => {
                    self.end_aborted();
                    let mut core = lock(&self.core);
                    for member in core.stuck() {
                        core.take_out(member, &StoreError::DiskFailing(self.shared.id));
                    }
                    core.upkeep_turn();
                    core.open.let_go();
                    self.shared.stats.free_bytes.set(core.volume.free_bytes());
                    self.shared.stats.uploads_open.set(count(core.upload_count()));
                    let durable = core.durable_generation();
                    drop(core);
                    if let Some(seen) = &mut self.seen {
                        seen.keep(durable, monotonic());
                    }
                    thread::park_timeout(NAP);
                }
            }
        }
    }

    /// Breaks off uploads whose clients are gone. What these had handed over before is in the queue, and comes first.
    fn end_aborted(&mut self) {
        let aborted = self.shared.take_aborted();
        let before = if aborted.is_empty() { 0 } else { self.operations.len() };
        for _ in 0..before {
            if let Ok(operation) = self.operations.try_recv() {
                self.perform(operation);
            }
        }
        for (upload, rest) in aborted {
            lock(&self.core).break_off(upload, rest);
        }
    }

    fn perform(&mut self, operation: Operation) {
        match operation {
            Operation::LookUp { path, reply, .. } => answer(reply, || self.look_up(&path)),
            Operation::Open { path, want, reply, .. } => self.opens.put(path, want, reply),
            Operation::Names { path, reply, .. } => answer(reply, || self.names(&path)),
            Operation::Entries { path, names, reply, .. } => answer(reply, || Ok(self.entries(&path, &names))),
            // Folders need not be there before what is put into them.
            Operation::Space { reply, .. } => answer(reply, || Ok(lock(&self.core).volume.free_bytes())),
            Operation::Delete { path, precondition, reply, .. } => lock(&self.core).remove(&path, &precondition, reply),
            Operation::Begin { path, terms, reply, .. } => answer(reply, || {
                let mut core = lock(&self.core);
                if core.upload_count() >= limits::UPLOADS_MAX {
                    return Err(StoreError::Busy);
                }
                let (id, begun_with) = core.begin(&path, terms)?;
                Ok(Begun::new(Arc::clone(&self.shared), id, begun_with))
            }),
            Operation::Append { upload, chunk } => lock(&self.core).take_chunk(upload, chunk),
            Operation::Finish { upload, last, reply } => lock(&self.core).finish(upload, last, Some(reply)),
        }
    }

    fn look_up(&self, path: &ContentPath) -> Result<Entry, StoreError> {
        let core = lock(&self.core);
        let name = path.joined();
        if let Some(content) = core.volume.find(&name) {
            let rate = self.index.rate(&stamp_of(&core.volume, content)).flatten();
            return Ok(entry_of(&name, content, self.shared.id, rate));
        }
        if core.volume.is_folder(&name) {
            return Ok(folder_of(&name, self.shared.id));
        }
        let above = path.split().is_some_and(|(parent, _)| core.volume.find(&parent.joined()).is_some());
        Err(if above { StoreError::NotADirectory } else { StoreError::NotFound })
    }

    fn names(&self, path: &ContentPath) -> Result<Vec<String>, StoreError> {
        let core = lock(&self.core);
        let folder = path.joined();
        if core.volume.find(&folder).is_some() {
            return Err(StoreError::NotADirectory);
        }
        if !core.volume.is_folder(&folder) {
            return Err(StoreError::NotFound);
        }
        let listed = core.volume.list(&folder).into_iter().take(NAMES_MAX);
        Ok(listed.map(|(ListedName::Folder(name) | ListedName::Content(name, _))| name.to_owned()).collect())
    }

    /// What `names` in a folder are; those that are gone are left out.
    fn entries(&self, path: &ContentPath, names: &[String]) -> Vec<Entry> {
        let children = names.iter().filter_map(|name| path.child(name).ok());
        children.filter_map(|child| self.look_up(&child).ok()).collect()
    }
}
