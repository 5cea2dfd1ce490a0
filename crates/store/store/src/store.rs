//! The store: one handle for all roots and disks.
//!
//! Promise: the roots are one namespace, the first root that has a name wins; an operation waits for a hung disk no longer than
//! the configured patience, and contents on other disks stay reachable. Not here: the work on a disk (crates `folder` and
//! `volumes`).

mod names;
mod walk;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use device::Device;
use storage::grant::WrittenDisks;
use units::{DiskFault, DiskId};

use crate::common::{DiskGroup, StoreCommon};
use crate::disk::DiskHandle;
use crate::event::EventListener;
use crate::index::IndexWriter;
use crate::operation::{self, FolderHandle, NameRange, Operation, StoreQuery};
use crate::path::is_hidden;
use crate::shared::PlaneVerdict;
use crate::stats::DiskStats;
use crate::upload_root::UploadRoots;
use crate::{
    ContentPath, Entry, ForbiddenBy, NameKind, Opened, Precondition, Published, StoreError, Upload, UploadClass,
    UploadPlace, UploadRequest, Want,
};

/// Most names in one listing, at 160 bytes of memory each. A folder with more names is listed in parts, or walked.
const LISTED_MAX: usize = 250_000;

pub use walk::{StoreWalk, StoredItem};

/// State of a disk of the store.
#[derive(Debug, Clone)]
pub struct DiskInfo {
    /// Its identifier.
    pub id: DiskId,
    /// The block device.
    pub device: Device,
    /// The folders on it.
    pub roots: Vec<PathBuf>,
    /// Bytes free for uploads, measured at most a second ago.
    pub free_bytes: u64,
    /// Its failure, by the data plane and by its thread.
    pub failure: Option<DiskFault>,
    /// Lookups, listings and the like that it could not answer since the start.
    pub errors: u64,
}

/// All folders as one namespace. A cheap handle: clone it.
#[derive(Debug, Clone)]
pub struct Store(Arc<StoreParts>);

/// The parts of a store.
pub(crate) struct StoreParts {
    pub(crate) common: StoreCommon,
    pub(crate) disks: Vec<DiskHandle>,
    /// For each root, the index of its disk in `disks` and the root's number on that disk.
    pub(crate) roots: Vec<(usize, usize)>,
    pub(crate) groups: Vec<Arc<dyn DiskGroup>>,
    pub(crate) homes: UploadRoots,
    /// Saves the index once more when it is dropped.
    pub(crate) _saver: Option<IndexWriter>,
}

impl Store {
    pub(crate) fn of(parts: StoreParts) -> Self {
        Self(Arc::new(parts))
    }

    /// True if no upload is under way: each finished or aborted upload is durable under its name, or removed. Disks that do not
    /// answer are not counted, since their uploads cannot end.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.0.disks.iter().map(|disk| &disk.shared).all(|disk| disk.is_settled() || disk.is_stuck())
    }

    /// Counts `bytes` of a content read from `disk` and sent: volumes keep count of the contents read most.
    pub fn note_read(&self, disk: DiskId, name: &str, bytes: u64) {
        debug_assert!(usize::from(disk.0) < self.0.disks.len(), "a content was read from a disk of the store");
        let has_disk = |group: &&Arc<dyn DiskGroup>| group.disks().iter().any(|(id, ..)| *id == disk);
        if let Some(group) = self.0.groups.iter().find(has_disk) {
            group.note_read(name, bytes);
        }
    }

    /// From now on `plane` counts in the verdicts on the disks: the data plane, which reads from them, knows more of their errors than
    /// their threads do. The first given one stays.
    pub fn heed(&self, plane: PlaneVerdict) {
        let _ = self.0.common.plane.set(plane);
    }

    /// Sends `listener` all events since the start, and each further event. There is one listener at a time.
    pub fn listen(&self, listener: EventListener) {
        self.0.common.events.listen(listener);
    }

    /// The entry that `path` names.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] and errors of the system.
    pub async fn lookup(&self, path: &ContentPath) -> Result<Entry, StoreError> {
        self.check_served(path)?;
        let (number, mut entry) = self.locate(path).await?;
        if entry.kind == NameKind::Directory {
            for (disk, root) in self.roots().skip(number + 1) {
                if let Ok(other) = look_up(disk, root, path).await {
                    entry.merge(&other);
                }
            }
        }
        Ok(entry)
    }

    /// Opens a content for the data plane. The same unchanged file gives the same [`Opened::content`] while it is open.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::IsDirectory`] and errors of the system.
    pub async fn open(&self, path: &ContentPath, want: Want) -> Result<Opened, StoreError> {
        self.check_served(path)?;
        let mut failure = StoreError::NotFound;
        for (disk, root) in self.roots() {
            let path = path.clone();
            match disk.call(|reply| StoreQuery::Open { root, path, want, reply }).await {
                Err(error) => failure = graver(failure, error)?,
                opened => return opened,
            }
        }
        Err(failure)
    }

    /// The entries of a directory, over all roots, sorted by name.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotADirectory`], [`StoreError::TooManyNames`] beyond 250 000, and errors of the system.
    pub async fn list(&self, path: &ContentPath) -> Result<Vec<Entry>, StoreError> {
        let mut listed = Vec::new();
        self.each_page(path, NameRange::default(), |page, _| {
            listed.extend(page);
            if listed.len() > LISTED_MAX { Err(StoreError::TooManyNames(LISTED_MAX)) } else { Ok(()) }
        })
        .await?;
        // The sort is stable: of the same name, that of the first root stays.
        listed.sort_by(|one: &Entry, other| one.name.cmp(&other.name));
        listed.dedup_by(|later, first| {
            let is_same = later.name == first.name;
            if is_same {
                first.merge(later);
            }
            is_same
        });
        Ok(listed)
    }

    /// Lists the first `count` names after `after`, as [`Store::list`] does, of a directory with any number of names. The files
    /// of names that sort behind the `count` first names found so far are not examined.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub async fn list_part(&self, path: &ContentPath, after: &str, count: usize) -> Result<Vec<Entry>, StoreError> {
        let mut first: BTreeMap<String, Entry> = BTreeMap::new();
        let count = count.min(LISTED_MAX);
        let wanted = NameRange { after: after.to_owned(), last: None };
        self.each_page(path, wanted, |page, wanted| {
            for entry in page {
                first.entry(entry.name.clone()).and_modify(|first| first.merge(&entry)).or_insert(entry);
                if first.len() > count {
                    first.pop_last();
                }
                debug_assert!(first.len() <= count, "a part takes no more memory than its names");
            }
            wanted.last = first.last_key_value().filter(|_| first.len() == count).map(|(name, _)| name.clone());
            Ok(())
        })
        .await?;
        Ok(first.into_values().collect())
    }

    /// Passes the wanted entries of a directory to `take` as they are read, those of the first root first. `take` may narrow
    /// the range of wanted names.
    async fn each_page(
        &self,
        path: &ContentPath,
        mut wanted: NameRange,
        mut take: impl FnMut(Vec<Entry>, &mut NameRange) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.check_served(path)?;
        let mut failure = StoreError::NotFound;
        let mut found = false;
        for (disk, root) in self.roots() {
            let mut folder = match open_folder(disk, root, path).await {
                Ok(folder) => folder,
                // A name that is a content in an earlier root hides a directory in a later one.
                Err(StoreError::NotADirectory) if !found => return Err(StoreError::NotADirectory),
                Err(error) => {
                    failure = graver(failure, error)?;
                    continue;
                }
            };
            found = true;
            loop {
                let (path, asked) = (path.clone(), wanted.clone());
                let page = disk.call(|reply| StoreQuery::Entries { root, path, folder, wanted: asked, reply }).await;
                let (next, Some(mut entries)) = page? else { break };
                entries.retain(|entry| self.0.common.settings.hidden_files || !is_hidden(&entry.name));
                take(entries, &mut wanted)?;
                folder = next;
            }
        }
        if found { Ok(()) } else { Err(failure) }
    }

    /// The disks that an upload may go to, at least one, the best first. That is the disk of the content that it replaces;
    /// without such a content, the disks that answer, do not err and hold its directory, or the nearest directory above it:
    /// first the disk with an earlier upload that this one continues, then the others by free space. A root that does not
    /// answer may have the name and would hide a content in a later root, so only the roots before it are considered.
    ///
    /// # Errors
    /// [`StoreError::NotADirectory`], [`StoreError::IsDirectory`], [`StoreError::DiskFailing`], [`StoreError::RootAway`].
    pub async fn placements(&self, request: &UploadRequest) -> Result<Vec<WrittenDisks>, StoreError> {
        let mut placements: Vec<WrittenDisks> = Vec::new();
        for (disk, _) in self.places(&request.path, part_of(request)).await? {
            let disk = disk.shared.id;
            if placements.iter().all(|known| known.store != disk) {
                let name = request.path.joined();
                let of_groups: Vec<_> =
                    self.0.groups.iter().flat_map(|group| group.written_disks(disk, &name)).collect();
                let is_alone = of_groups.is_empty();
                placements.extend(of_groups);
                placements.extend(is_alone.then_some(WrittenDisks::one(disk)));
            }
        }
        debug_assert!(!placements.is_empty(), "without any placement the upload is refused");
        debug_assert!(placements.iter().all(|place| place.iter().next().is_some()), "a place has a disk");
        Ok(placements)
    }

    /// The place of an upload to `path`, in any root that may take it.
    ///
    /// # Errors
    /// As [`Store::placements`].
    pub async fn place_of(&self, path: &ContentPath) -> Result<UploadPlace, StoreError> {
        let mut all: Option<UploadPlace> = None;
        for (disk, root) in self.places(path, None).await? {
            let path = path.clone();
            let place = disk.call(|reply| StoreQuery::PlaceOf { root, path, reply }).await?;
            all = Some(match all {
                Some(mut all) => {
                    all.folders.extend(place.folders);
                    UploadPlace { replaced_bytes: all.replaced_bytes.min(place.replaced_bytes), ..all }
                }
                None => place,
            });
        }
        Ok(all.unwrap_or_default())
    }

    /// Begins an upload. A recording goes to the disk on which its rate is reserved, and an upload of a name that another
    /// upload is writing goes to the root of that one. If the file system of a root turns out to be read-only, the upload tries
    /// the next root: the kernel remounts a file system read-only when its disk errs, and shows that only at a write.
    ///
    /// # Errors
    /// [`StoreError::NotADirectory`], [`StoreError::IsDirectory`], [`StoreError::PreconditionFailed`], [`StoreError::NoSpace`],
    /// [`StoreError::ReadOnly`], [`StoreError::VolumeReadOnly`], [`StoreError::DiskFailing`], [`StoreError::Busy`] if too many
    /// uploads run, the recording's disk has left [`Store::placements`], or another upload of this name is under way in a root
    /// that this upload cannot use, and errors of the system.
    pub async fn begin_upload(&self, request: UploadRequest) -> Result<Upload, StoreError> {
        let (buffers, bound) = match request.class {
            UploadClass::BestEffort => (&self.0.common.uploads, None),
            UploadClass::Recording { disks, .. } => (&self.0.common.recordings, Some(disks.store)),
        };
        let mut failure = StoreError::Busy;
        let home = self.0.homes.of(&request.path);
        let mut chosen = home.lock().await;
        for (disk, root) in self.places(&request.path, part_of(&request)).await? {
            let here = (disk.shared.id, root);
            if bound.is_some_and(|bound| bound != here.0) || chosen.is_some_and(|chosen| chosen != here) {
                continue;
            }
            match Upload::begin(disk, root, request.clone(), buffers, Arc::clone(&home)).await {
                Err(error) if error.is_read_only() => failure = error,
                Ok(upload) => {
                    *chosen = Some(here);
                    return Ok(upload);
                }
                failed => return failed,
            }
        }
        Err(failure)
    }

    /// Publishes the bytes that a crash left of the upload to `path`, before the search for leftovers reaches them.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there are none; [`StoreError::DiskFailing`], and errors of the system.
    pub async fn recover(&self, path: &ContentPath) -> Result<Published, StoreError> {
        let mut failure = StoreError::NotFound;
        for (disk, root) in self.roots() {
            let (reply, answer) = operation::change();
            disk.post(Operation::Recover { root, path: path.clone(), reply })?;
            match disk.settle(answer).await {
                Err(error) => failure = graver(failure, error)?,
                recovered => return recovered,
            }
        }
        Err(failure)
    }

    /// Free bytes in the buffers of recordings.
    #[must_use]
    pub fn recording_memory(&self) -> u64 {
        let chunks = self.0.common.recordings.own_free();
        u64::try_from(chunks).unwrap_or(u64::MAX).saturating_mul(units::limits::CHUNK_BYTES)
    }

    /// Removes a content or an empty folder, durably, from every root that has it. Every root must answer.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotEmpty`], [`StoreError::PreconditionFailed`], [`StoreError::DiskFailing`], and errors of
    /// the system.
    pub async fn delete(&self, path: &ContentPath, precondition: Precondition) -> Result<(), StoreError> {
        self.check_served(path)?;
        let (first, found) = self.locate_to_change(path).await?;
        if !precondition.holds(Some(found.existing())) {
            return Err(StoreError::PreconditionFailed);
        }
        self.remove_hidden(first, path, found.kind).await?;
        self.remove_from(first, path, found.kind, &precondition).await
    }

    /// Removes the items of this name from the roots after root `first`: they are hidden and must not become visible. The
    /// caller removes the visible item after them, so that it stays if this fails. A folder that a content hides stays, and so
    /// does a content that a folder hides.
    async fn remove_hidden(&self, first: usize, path: &ContentPath, kind: NameKind) -> Result<(), StoreError> {
        debug_assert!(first < self.0.roots.len(), "the root with the visible item is one of them");
        for number in (first + 1..self.0.roots.len()).rev() {
            match self.remove_from(number, path, kind, &Precondition::None).await {
                Err(StoreError::IsDirectory) => {}
                Err(error) if error.is_absence() => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Removes a name from one root, by its number, durably.
    async fn remove_from(
        &self,
        number: usize,
        path: &ContentPath,
        kind: NameKind,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let (disk, root) = self.roots().nth(number).ok_or(StoreError::NotFound)?;
        let (reply, answer) = operation::change();
        let (path, precondition) = (path.clone(), precondition.clone());
        disk.post(Operation::Delete { root, path, kind, precondition, reply })?;
        disk.settle(answer).await
    }

    /// The disks.
    #[must_use]
    pub fn disks(&self) -> Vec<DiskInfo> {
        let info = |(id, device, roots): (DiskId, Device, Vec<PathBuf>)| {
            let shared = &self.0.disks[usize::from(id.0)].shared;
            DiskInfo {
                id,
                device,
                roots,
                free_bytes: shared.stats.free_bytes.value(),
                failure: shared.failure(),
                errors: shared.stats.errors.value(),
            }
        };
        self.0.groups.iter().flat_map(|group| group.disks()).map(info).collect()
    }

    /// Counters of the disk's thread so far; none for an unknown disk.
    #[must_use]
    pub fn stats(&self, disk: DiskId) -> Option<&DiskStats> {
        self.0.disks.get(usize::from(disk.0)).map(|disk| &disk.shared.stats)
    }

    /// Hidden names are not found, unless they are configured to be served.
    fn check_served(&self, path: &ContentPath) -> Result<(), StoreError> {
        if self.0.common.settings.hidden_files || path.is_served() { Ok(()) } else { Err(StoreError::NotFound) }
    }

    /// The roots in order: each with its disk and its number there.
    fn roots(&self) -> impl Iterator<Item = (&DiskHandle, usize)> {
        self.0.roots.iter().map(|(disk, root)| (&self.0.disks[*disk], *root))
    }

    /// The first root that has `path`, for a read: an earlier root that does not answer is skipped, though it may have the name.
    async fn locate(&self, path: &ContentPath) -> Result<(usize, Entry), StoreError> {
        let mut failure = StoreError::NotFound;
        for (number, (disk, root)) in self.roots().enumerate() {
            match look_up(disk, root, path).await {
                Ok(entry) => return Ok((number, entry)),
                Err(error) => failure = graver(failure, error)?,
            }
        }
        Err(failure)
    }

    /// The first root that has `path`, for a change: each earlier root has answered that it lacks the name.
    async fn locate_to_change(&self, path: &ContentPath) -> Result<(usize, Entry), StoreError> {
        let mut failure = StoreError::NotFound;
        for (number, (disk, root)) in self.roots().enumerate() {
            match look_up(disk, root, path).await {
                Err(error) if error.is_absence() => failure = graver(failure, error)?,
                outcome => return outcome.map(|entry| (number, entry)),
            }
        }
        Err(failure)
    }

    /// The places that an upload may go to, the best first: each is a disk and the root's number on it. Not empty.
    async fn places(&self, path: &ContentPath, part: Option<String>) -> Result<Vec<(&DiskHandle, usize)>, StoreError> {
        let Some((parent, _)) = path.split() else { return Err(StoreError::IsDirectory) };
        self.check_served(path).map_err(|_| StoreError::Forbidden(ForbiddenBy::Name))?;
        let mut roots = self.roots();
        if let (Some((disk, root)), None) = (roots.next(), roots.next()) {
            // There is nothing to choose: the upload's beginning finds whatever forbids it.
            return if disk.shared.is_relied_on() { Ok(vec![(disk, root)]) } else { Err(disk.shared.failing()) };
        }
        let mut able = Vec::new();
        let mut failure = StoreError::ParentMissing;
        for (disk, root) in self.roots() {
            match look_up(disk, root, path).await {
                Ok(entry) if entry.kind == NameKind::Directory => return Err(StoreError::IsDirectory),
                Ok(_) if disk.shared.is_relied_on() => return Ok(vec![(disk, root)]),
                Ok(_) => return Err(disk.shared.failing()),
                Err(error) if error.is_absence() => {}
                Err(error) if error.is_silence() => {
                    failure = error;
                    break;
                }
                Err(error) => return Err(error),
            }
            able.push((disk, root, false));
        }
        // The places of the folder. A folder that no root has will be made in the roots of the nearest folder above it. A
        // folder that exists on a failing disk only is not made on another disk.
        let mut places = Vec::new();
        let mut nearest = Some(parent);
        while let Some(folder) = nearest.filter(|_| places.is_empty()) {
            for (disk, root, is_blocked) in &mut able {
                let (root, path, part) = (*root, folder.clone(), part.clone());
                match disk.call(|reply| StoreQuery::Space { root, path, part, reply }).await {
                    // Directly below this folder, a content has the name of a folder of the path.
                    Ok(_) if *is_blocked => return Err(StoreError::NotADirectory),
                    Ok(space) if disk.shared.is_relied_on() => places.push((space, (*disk, root))),
                    Ok(_) => failure = disk.shared.failing(),
                    Err(StoreError::NotFound) => {}
                    Err(StoreError::NotADirectory) => *is_blocked = true,
                    Err(error) => failure = error,
                }
            }
            nearest = folder.split().map(|(above, _)| above).filter(|_| matches!(failure, StoreError::ParentMissing));
        }
        // Among roots with the same space the order stays.
        places.sort_by_key(|(space, _)| Reverse(*space));
        if places.is_empty() { Err(failure) } else { Ok(places.into_iter().map(|(_, place)| place).collect()) }
    }
}

impl std::fmt::Debug for StoreParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreParts").field("disks", &self.disks).field("roots", &self.roots).finish_non_exhaustive()
    }
}

/// The hidden name of the bytes that the upload continues.
fn part_of(request: &UploadRequest) -> Option<String> {
    request.path.split().and_then(|(_, name)| request.on_break.part_name(name))
}

async fn look_up(disk: &DiskHandle, root: usize, path: &ContentPath) -> Result<Entry, StoreError> {
    let path = path.clone();
    disk.call(|reply| StoreQuery::LookUp { root, path, reply }).await
}

async fn open_folder(disk: &DiskHandle, root: usize, path: &ContentPath) -> Result<FolderHandle, StoreError> {
    let path = path.clone();
    disk.call(|reply| StoreQuery::Folder { root, path, reply }).await
}

/// The error to return if no root has the name: a root that did not answer outweighs a root without the name. `Err` ends the
/// search at once, for an error that no later root can remedy.
fn graver(so_far: StoreError, error: StoreError) -> Result<StoreError, StoreError> {
    match error {
        StoreError::NotFound => Ok(so_far),
        StoreError::NotADirectory | StoreError::DiskFailing(_) | StoreError::PartAway(_) | StoreError::RootAway(_) => {
            Ok(error)
        }
        other => Err(other),
    }
}

const _: fn() = || {
    fn is_shareable<T: Send + Sync + Clone>() {}
    is_shareable::<Store>();
};

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::SystemTime;

    use super::*;
    use crate::StoreSettings;
    use crate::builder::StoreBuilder;
    use crate::lock::lock;

    const NAMES: usize = 10_000;
    const PAGE: usize = 100;

    struct OneDisk;

    impl DiskGroup for OneDisk {
        fn disks(&self) -> Vec<(DiskId, Device, Vec<PathBuf>)> {
            Vec::new()
        }
    }

    fn entry(name: String) -> Entry {
        Entry {
            name,
            kind: NameKind::File,
            id: None,
            is_link: false,
            size: 0,
            modified: SystemTime::UNIX_EPOCH,
            created: None,
            etag: String::new(),
            disk: DiskId(0),
            rate: None,
        }
    }

    #[tokio::test]
    async fn the_first_names_of_a_long_folder_cost_no_look_at_most_others() {
        let mut builder = StoreBuilder::new(&StoreSettings::default()).expect("memory");
        let shared = builder.common().shared((builder.next_disk(), "disk".to_owned()), Arc::new(|| {}));
        let (disk, mut operations) = DiskHandle::new(shared);
        builder.join(vec![disk], &[(0, 0)], Arc::new(OneDisk));
        let store = builder.finish();
        let looks = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&looks);
        tokio::spawn(async move {
            while let Some(Operation::Query(query)) = operations.recv().await {
                match query {
                    StoreQuery::Folder { reply, .. } => drop(reply.send(Ok(FolderHandle::new(None, 0_usize)))),
                    StoreQuery::Entries { folder, wanted, reply, .. } => {
                        let first = *folder.state::<usize>().expect("its place");
                        // A file system gives names in no order.
                        let names = (first..NAMES.min(first + PAGE)).map(|at| format!("{:05}", at * 7919 % NAMES));
                        let page: Vec<_> = names.filter(|name| wanted.contains(name)).map(entry).collect();
                        *lock(&counted) += page.len();
                        let next = FolderHandle::new(None, first + PAGE);
                        drop(reply.send(Ok((next, (first < NAMES).then_some(page)))));
                    }
                    _ => panic!("not asked"),
                }
            }
        });
        let part = store.list_part(&ContentPath::root(), "00007", 50).await.expect("a part");
        assert!(part.iter().map(|entry| entry.name.clone()).eq((8..58).map(|number| format!("{number:05}"))));
        // About 50 × (1 + ln (10 000 / 50)).
        let of_part = std::mem::take(&mut *lock(&looks));
        assert!(of_part < 600, "{of_part}");
        assert_eq!(store.list(&ContentPath::root()).await.expect("all").len(), NAMES);
        assert_eq!(*lock(&looks), NAMES);
    }
}
