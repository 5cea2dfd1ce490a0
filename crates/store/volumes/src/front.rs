//! The front thread of a volume: it has the catalogue, and performs the operations on names.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kernel::clock::monotonic;
use storage::leftover;
use tokio::sync::mpsc;
use units::limits;
use volume::{ListedName, Volume};

use super::SharedCore;
use super::content::{entry_of, folder_of, stamp_of};
use super::health::ScrubFile;
use super::info::ServedVolume;
use super::known_generation::SeenGeneration;
use super::opener::OpenRequest;
use store::buffers::count;
use store::disk_thread::answer;
use store::entry::Stamp;
use store::lock::lock;
use store::openers::Openers;
use store::operation::{Begun, ChangeReply, FolderHandle, NameRange, Operation, ReplyTo, StoreQuery, UploadTerms};
use store::shared::DiskShared;
use store::walk::{FolderItem, ItemKind};
use store::{ContentPath, Entry, Precondition, StoreCommon, StoreError, UploadPlace};

/// Names in one page of a folder's listing.
const PAGE_NAMES: usize = 256;

/// The thread's longest sleep. Operations wake it at once; the period frees units whose last reader has ended.
const NAP: Duration = Duration::from_secs(1);

/// Position in the listing of a folder: the folder's name, and the first name of the next page.
#[derive(Debug)]
struct ListedFolder {
    /// The folder's name with a slash at its end; empty for the volume itself.
    prefix: String,
    /// The first name of the next page, with the prefix.
    next: String,
}

impl ListedFolder {
    fn name_of(&self, below: &str) -> String {
        format!("{}{below}", self.prefix)
    }

    /// The position of the same folder at `next`.
    fn at(&self, next: String) -> FolderHandle {
        Self { prefix: self.prefix.clone(), next }.handle()
    }

    fn handle(self) -> FolderHandle {
        // A volume has no links: a folder has one name.
        FolderHandle::new(None, self)
    }
}

/// The next names of a folder, without the hidden names of unfinished items, and the first name of the page after; both are
/// empty at the end.
fn page<'a>(volume: &'a Volume, folder: &ListedFolder) -> (Vec<ListedName<'a>>, String) {
    let mut next = folder.next.clone();
    loop {
        let (mut listed, behind) = volume.page(&folder.prefix, &next, PAGE_NAMES);
        let is_end = listed.is_empty();
        listed.retain(|one| !one.name().starts_with(leftover::PREFIX));
        debug_assert!(is_end || next < behind, "each name is given once");
        next = behind;
        if is_end || !listed.is_empty() {
            return (listed, next);
        }
    }
}

/// The front thread's state.
pub(crate) struct Front {
    core: SharedCore,
    common: StoreCommon,
    shared: Arc<DiskShared>,
    operations: mpsc::Receiver<Operation>,
    openers: Openers<OpenRequest>,
    /// Uploads to begin when disks have written the bytes that they continue.
    begins: Vec<(ContentPath, UploadTerms, ReplyTo<Begun>)>,
    seen: Option<SeenGeneration>,
    scrub: Option<ScrubFile>,
    /// The volume, if the settings say to fill disks that come back.
    filled: Option<ServedVolume>,
}

impl Front {
    pub(crate) fn new(
        volume: &ServedVolume,
        shared: Arc<DiskShared>,
        operations: mpsc::Receiver<Operation>,
        openers: Openers<OpenRequest>,
        seen: Option<SeenGeneration>,
    ) -> Self {
        let (core, common) = (Arc::clone(&volume.core), volume.common.clone());
        let scrub = seen.as_ref().map(|seen| ScrubFile::beside(seen.file()));
        let filled = common.settings.refill_disks.then(|| volume.clone());
        Self { core, common, shared, operations, openers, begins: Vec::new(), seen, scrub, filled }
    }

    /// The thread's loop; ends when no caller is left. The sender of an operation unparks the thread.
    pub(crate) fn run(mut self) {
        {
            let mut core = lock(&self.core);
            core.fill_disks();
            if let Some(last) = self.scrub.as_ref().and_then(ScrubFile::kept) {
                core.live.health.resume(last.clone());
            }
        }
        loop {
            match self.operations.try_recv() {
                Ok(operation) => self.perform(operation),
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.keep_seen();
                    return lock(&self.core).give_up();
                }
                Err(mpsc::error::TryRecvError::Empty) => {
                    self.end_aborted();
                    for (path, terms, reply) in std::mem::take(&mut self.begins) {
                        self.begin(path, terms, reply);
                    }
                    let mut core = lock(&self.core);
                    for member in core.live.members.stuck() {
                        let hangs =
                            core.live.members.get(member).map_or(&self.shared, |member| &member.shared).failing();
                        core.take_out(member, &hangs);
                    }
                    core.upkeep_turn();
                    core.open.let_go();
                    core.tell_states(monotonic());
                    self.shared.stats.free_bytes.set(core.live.volume.free_bytes());
                    self.shared.stats.uploads_open.set(count(core.upload_count()));
                    drop(core);
                    self.keep_seen();
                    if let Some(volume) = &self.filled {
                        // If no thread can be started, the next turn tries again.
                        let _ = volume.fill_returned(monotonic());
                    }
                    thread::park_timeout(NAP);
                }
            }
        }
    }

    fn keep_seen(&mut self) {
        let durable = lock(&self.core).live.durable_generation();
        if let Some(seen) = &mut self.seen {
            seen.keep(durable, monotonic());
        }
        if let Some(scrub) = &mut self.scrub {
            let last = lock(&self.core).live.health.last_scrub();
            scrub.keep(last);
        }
    }

    /// Ends the uploads of clients that are gone. Chunks that such a client had handed over are earlier in the queue, and are taken first.
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
            Operation::Query(query) => self.answer(query),
            Operation::Remove { folder, path, stamp, reply } => self.remove(&folder, &path, &stamp, reply),
            Operation::Delete { path, precondition, reply, .. } => lock(&self.core).remove(&path, &precondition, reply),
            Operation::MakeFolder { path, reply, .. } => lock(&self.core).make_folder(&path, reply),
            Operation::Rename { from, to, replaces, reply, .. } => {
                lock(&self.core).rename_tree(&from.joined(), &to.joined(), replaces, reply);
            }
            Operation::SetModified { path, modified, reply, .. } => {
                lock(&self.core).set_modified(&path.joined(), modified, reply);
            }
            Operation::RemoveTree { path, reply, .. } => lock(&self.core).remove_tree(&path.joined(), reply),
            Operation::Recover { path, reply, .. } => lock(&self.core).recover(&path, reply),
            Operation::Begin { path, terms, reply, .. } => self.begin(path, terms, reply),
            Operation::Append { upload, chunk } => lock(&self.core).take_chunk(upload, chunk),
            Operation::Finish { upload, last, reply } => lock(&self.core).finish(upload, last, Some(reply)),
        }
    }

    fn answer(&self, query: StoreQuery) {
        match query {
            StoreQuery::LookUp { path, reply, .. } => answer(reply, || self.look_up(&path)),
            StoreQuery::Open { path, want, reply, .. } => {
                if let Err((_, _, reply)) = self.openers.put((path, want, reply)) {
                    drop(reply.send(Err(StoreError::Busy)));
                }
            }
            StoreQuery::Folder { path, reply, .. } => answer(reply, || self.open_folder(&path.joined())),
            StoreQuery::Enter { folder, name, reply } => answer(reply, || {
                let (within, name) = (folder.state::<ListedFolder>()?, name.to_str().ok_or(StoreError::NotFound)?);
                self.open_folder(&within.name_of(name))
            }),
            StoreQuery::Items { folder, reply } => answer(reply, || self.items(folder.state()?)),
            StoreQuery::Entries { folder, wanted, reply, .. } => {
                answer(reply, || self.entries(folder.state()?, &wanted));
            }
            StoreQuery::PlaceOf { path, reply, .. } => answer(reply, || {
                let replaced_bytes = self.look_up(&path).map_or(0, |entry| entry.size);
                // A volume has no links: a folder has one name.
                Ok(UploadPlace { folders: Vec::new(), replaced_bytes })
            }),
            // A volume has no folder entries to make: a folder exists by the names of its contents.
            StoreQuery::Space { reply, .. } => answer(reply, || Ok(lock(&self.core).live.volume.free_bytes())),
        }
    }

    /// Begins an upload; if disks still write the bytes that it continues, after they have done so.
    fn begin(&mut self, path: ContentPath, terms: UploadTerms, reply: ReplyTo<Begun>) {
        // The upload that this one continues may have ended just before.
        self.end_aborted();
        let mut core = lock(&self.core);
        if core.drafts.coming_to_rest().any(|upload| upload.is_continued_by(&path, &terms)) {
            return self.begins.push((path, terms, reply));
        }
        answer(reply, || {
            if core.upload_count() >= limits::UPLOADS_MAX {
                return Err(StoreError::Busy);
            }
            let (id, begun_with) = core.begin(&path, terms)?;
            Ok(Begun::new(Arc::clone(&self.shared), id, begun_with))
        });
    }

    fn look_up(&self, path: &ContentPath) -> Result<Entry, StoreError> {
        let core = lock(&self.core);
        let name = path.joined();
        if let Some(content) = core.live.volume.find(&name) {
            let rate = self.common.index.rate(&stamp_of(&core.live.volume, content)).flatten();
            return Ok(entry_of(&name, content, self.shared.id, rate));
        }
        if core.live.volume.is_folder(&name) {
            return Ok(folder_of(&name, core.names_changed, self.shared.id));
        }
        let above = path.split().is_some_and(|(parent, _)| core.live.volume.find(&parent.joined()).is_some());
        Err(if above { StoreError::NotADirectory } else { StoreError::NotFound })
    }

    fn open_folder(&self, folder: &str) -> Result<FolderHandle, StoreError> {
        let core = lock(&self.core);
        if core.live.volume.find(folder).is_some() {
            return Err(StoreError::NotADirectory);
        }
        if !core.live.volume.is_folder(folder) {
            return Err(StoreError::NotFound);
        }
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        Ok(ListedFolder { next: prefix.clone(), prefix }.handle())
    }

    /// The next page of a folder.
    fn items(&self, folder: &ListedFolder) -> Result<(FolderHandle, Vec<FolderItem>), StoreError> {
        let core = lock(&self.core);
        let (listed, next) = page(&core.live.volume, folder);
        let item = |one: &ListedName<'_>| match one {
            ListedName::Folder(name) => FolderItem { name: name.into(), kind: Ok(ItemKind::Folder(None)) },
            ListedName::Content(name, content) => {
                let stamp = stamp_of(&core.live.volume, content);
                FolderItem { name: name.into(), kind: Ok(ItemKind::File(stamp, 0)) }
            }
        };
        let items = listed.iter().map(item).collect();
        Ok((folder.at(next), items))
    }

    /// The wanted entries of the next page of a folder; empty at the end.
    fn entries(
        &self,
        folder: &ListedFolder,
        wanted: &NameRange,
    ) -> Result<(FolderHandle, Option<Vec<Entry>>), StoreError> {
        let core = lock(&self.core);
        let (listed, next) = page(&core.live.volume, folder);
        let entry = |one: &ListedName<'_>| match one {
            ListedName::Folder(name) => folder_of(name, core.names_changed, self.shared.id),
            ListedName::Content(name, content) => {
                let rate = self.common.index.rate(&stamp_of(&core.live.volume, content)).flatten();
                entry_of(name, content, self.shared.id, rate)
            }
        };
        let is_end = listed.is_empty();
        let entries = listed.iter().filter(|one| wanted.contains(one.name())).map(entry).collect();
        Ok((folder.at(next), (!is_end).then_some(entries)))
    }

    /// Removes a content that a walk has found, unless its name has another content now.
    fn remove(&self, folder: &FolderHandle, path: &Path, stamp: &Stamp, reply: ChangeReply<()>) {
        let mut core = lock(&self.core);
        let name = match (folder.state::<ListedFolder>(), path.to_str()) {
            (Ok(folder), Some(path)) => folder.name_of(path),
            _ => return reply.send(Err(StoreError::NotFound)),
        };
        let found =
            core.live.volume.find(&name).map(|content| {
                (stamp_of(&core.live.volume, content), entry_of(&name, content, self.shared.id, None).etag)
            });
        let path = name.split('/').try_fold(ContentPath::root(), |path, name| path.child(name));
        match (found, path) {
            (Some((now, etag)), Ok(path)) if now == *stamp => {
                core.remove(&path, &Precondition::MustMatch(vec![etag]), reply);
            }
            (Some(_), _) => reply.send(Err(StoreError::PreconditionFailed)),
            (None, _) => reply.send(Err(StoreError::NotFound)),
        }
    }
}
