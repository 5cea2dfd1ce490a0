//! Work that no caller waits for: freeing the space of big removed files, looking through the folders (containers' rates ahead of their
//! viewers, leftovers of a crash).
//!
//! Promise: one small step per grant; the number of pending steps is bounded; a removed file keeps its bytes while a stream, or another
//! program, has it open. Not here: finding a rate (`media`), keeping it (`index`).

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kernel::clock::monotonic;
use kernel::lease::is_open_elsewhere;
use rustix::fs::{AtFlags, FileType, OFlags, Stat, fstat, ftruncate, statat, unlinkat};
use storage::leftover::{Leftover, leftover};
use units::Nanos;

use crate::contained_open;
use crate::open_folder::{Leftovers, OpenFolder};
use store::entry::Stamp;
use store::hidden::our_run;
use store::operation::ChangeReply;
use store::{ContentPath, Published, StoreError};

use super::folders::Folders;
use super::recover::LeftRecording;

/// A removed file of more than this is cut down by as much per step: freeing many extents at once would hold up the
/// file system's journal, and with it all commits.
const TRUNCATE_STEP_BYTES: u64 = 128 * 1024 * 1024;

/// Removed files that are freed in steps at once; the kernel frees more in one go.
const REMOVED_MAX: usize = 256;

/// Steps to be done at most: one for each folder on the path and each name of a page of it, and the contents that came since.
const STEPS_MAX: usize = 50_000;

/// Names looked at per step.
const NAMES_PER_STEP: usize = 64;

/// Recordings taken up per step: of each the last block is read.
const RECORDINGS_PER_STEP: usize = 8;

/// Small reads of a step, at a guess: a container's head, its tables, its end.
pub(super) const READS_PER_STEP: u32 = 6;

/// Time after a look through all folders at which the next one begins. (Each content is looked up on each request for it; this only finds
/// files of other programs before their first viewer comes.)
const RESCAN: Nanos = Nanos::from_secs(600);

/// Time for which the received bytes of an upload are kept for another upload that continues it.
const PART_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Time between two checks whether a removed file is still open.
const REMOVED_CHECK: Duration = Duration::from_secs(1);

/// Endings of names that are worth looking into before a request.
const MEDIA_ENDINGS: [&str; 12] =
    ["mp4", "m4v", "m4a", "mov", "3gp", "ts", "m2ts", "mts", "mkv", "mka", "webm", "mpegts"];

/// Steps to be done when time is granted.
#[derive(Debug, Default)]
pub(super) struct Chores {
    steps: Vec<ChoreStep>,
    removed: Vec<RemovedFile>,
    next_scan: Nanos,
    next_check: Nanos,
}

#[derive(Debug)]
pub(super) enum ChoreStep {
    /// Read the names in a directory.
    Directory { root: usize, path: ContentPath },
    /// Take up these recordings that a crash has left in it.
    Recordings { root: usize, path: ContentPath, folder: OpenFolder, hidden: Vec<String> },
    /// Take up this one, for which a client waits.
    Recording { root: usize, path: ContentPath, folder: OpenFolder, hidden: String, reply: ChangeReply<Published> },
    /// Look at these names in it, and read on.
    Names { root: usize, path: ContentPath, folder: OpenFolder, names: Vec<OsString> },
    /// Find the rate of a content.
    Content { root: usize, path: ContentPath },
    /// Take an item without a name of its own apart.
    Discard { root: usize, item: DiscardedItem },
}

/// A folder or file to be taken apart.
#[derive(Debug)]
pub(super) struct DiscardedItem {
    /// The folder it lies in.
    pub(super) parent: Arc<OwnedFd>,
    pub(super) name: OsString,
    /// The first name that was in it at the step before: if that is still the first, it cannot be removed.
    pub(super) first: Option<OsString>,
}

/// A big file that lost its name.
#[derive(Debug)]
pub(super) struct RemovedFile {
    file: OwnedFd,
    device: u64,
    inode: u64,
    /// The openers' steps at the first look after it lost its name: one of them may have found it by that name.
    steps: Option<Vec<Weak<Nanos>>>,
}

impl Chores {
    /// No grant will come any more.
    pub(super) fn give_up(&mut self) {
        *self = Self { next_scan: Nanos::MAX, ..Self::default() };
    }

    /// Looks no further through a folder that is not served any more, and holds nothing of it open.
    pub(super) fn forget(&mut self, gone: usize) {
        let is_of = |step: &ChoreStep| match step {
            ChoreStep::Directory { root, .. }
            | ChoreStep::Recordings { root, .. }
            | ChoreStep::Recording { root, .. }
            | ChoreStep::Names { root, .. }
            | ChoreStep::Content { root, .. }
            | ChoreStep::Discard { root, .. } => *root,
        };
        let before = self.steps.len();
        self.steps.retain(|step| is_of(step) != gone);
        if self.steps.len() < before && self.next_scan < Nanos::MAX {
            self.next_scan = Nanos::ZERO;
        }
    }

    pub(super) fn add(&mut self, step: ChoreStep) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(step);
        }
        debug_assert!(self.steps.len() <= STEPS_MAX, "pending steps are bounded");
    }
}

impl Chores {
    /// True if there is a step to be done, which then reads [`READS_PER_STEP`] times at a guess.
    pub(super) fn is_due(&mut self, folders: &Folders) -> bool {
        let now = monotonic();
        if self.steps.is_empty() && now >= self.next_scan {
            self.next_scan = now.saturating_add(RESCAN);
            for root in (0..folders.len()).rev() {
                self.add(ChoreStep::Directory { root, path: ContentPath::root() });
            }
        }
        let frees = now >= self.next_check && self.removed.iter().any(|file| !folders.is_read(file.device, file.inode));
        frees || !self.steps.is_empty()
    }

    /// A new content is there: find its rate.
    pub(super) fn search_folder(&mut self, root: usize, path: ContentPath) {
        if path.components().last().is_some_and(|name| is_media(name)) {
            self.add(ChoreStep::Content { root, path });
        }
    }

    /// Takes the recording up next that was to have this path.
    pub(super) fn recover(
        &mut self,
        folders: &Folders,
        (root, path): (usize, &ContentPath),
        reply: ChangeReply<Published>,
    ) {
        match left_behind(folders, root, path) {
            Ok((folder, hidden)) => {
                self.add(ChoreStep::Recording { root, path: path.clone(), folder, hidden, reply });
            }
            Err(error) => reply.send(Err(error)),
        }
    }

    /// Does one step. Returns the recordings that it found left by a crash.
    pub(super) fn step(&mut self, folders: &Folders) -> Vec<LeftRecording> {
        if self.free_some(folders) { Vec::new() } else { self.continue_search(folders) }
    }

    /// Looks through the folders for one more step.
    fn continue_search(&mut self, folders: &Folders) -> Vec<LeftRecording> {
        match self.steps.pop() {
            None => {}
            Some(ChoreStep::Recordings { root, path, folder, hidden }) => {
                return self.open_recordings(root, path, folder, hidden);
            }
            Some(ChoreStep::Recording { root, path, folder, hidden, reply }) => {
                let Some(found) = LeftRecording::open(root, path, folder.fd(), &hidden) else {
                    reply.send(Err(StoreError::NotFound));
                    return Vec::new();
                };
                return vec![found.for_client(reply)];
            }
            Some(ChoreStep::Directory { root, path }) => self.scan_directory(folders, root, path),
            Some(ChoreStep::Names { root, path, folder, names }) => self.scan_names(folders, root, path, folder, names),
            // It may be gone or unreadable: the next look through finds the content that is there then.
            Some(ChoreStep::Content { root, path }) => drop(folders.find_rate(root, &path)),
            Some(ChoreStep::Discard { root, item }) => self.discard(root, item),
        }
        Vec::new()
    }

    fn open_recordings(
        &mut self,
        root: usize,
        path: ContentPath,
        folder: OpenFolder,
        mut hidden: Vec<String>,
    ) -> Vec<LeftRecording> {
        let some = hidden.split_off(hidden.len().saturating_sub(RECORDINGS_PER_STEP));
        let open = |hidden: &String| {
            let Some(Leftover::Keep(own)) = leftover(hidden, our_run()) else { return None };
            LeftRecording::open(root, path.stored_child(own).ok()?, folder.fd(), hidden)
        };
        let found = some.iter().filter_map(open).collect();
        if !hidden.is_empty() {
            self.add(ChoreStep::Recordings { root, path, folder, hidden });
        }
        found
    }

    fn scan_directory(&mut self, folders: &Folders, root: usize, path: ContentPath) {
        // It may be gone or unreadable: the next look through finds the folder that is there then.
        if let Ok(folder) = folders.folder(root, &path) {
            self.read_on(root, path, folder);
        }
    }

    /// Reads the next names in a directory, and removes the leftovers of a crash there.
    fn read_on(&mut self, root: usize, path: ContentPath, folder: OpenFolder) {
        let Ok(mut names) = folder.names(Leftovers::Given) else { return };
        if names.is_empty() {
            return;
        }
        let mut hidden = Vec::new();
        names.retain(|name| {
            // No path can name a name that is not UTF-8, and no upload was called so.
            let Some(name) = name.to_str() else { return false };
            let directory = folder.fd();
            match leftover(name, our_run()) {
                Some(Leftover::Keep(_)) => hidden.push(name.to_owned()),
                Some(Leftover::Discard) => {
                    if let Ok(directory) = directory.try_clone_to_owned() {
                        self.discard_later(root, directory, name.into());
                    }
                }
                Some(Leftover::Part) if !is_older(directory, name, PART_KEPT) => {}
                Some(Leftover::Part) => drop(unlinkat(directory, name, AtFlags::empty())),
                None => return path.child(name).is_ok(),
            }
            false
        });
        self.add(ChoreStep::Names { root, path: path.clone(), folder: folder.clone(), names });
        if !hidden.is_empty() {
            self.add(ChoreStep::Recordings { root, path, folder, hidden });
        }
    }

    fn scan_names(
        &mut self,
        folders: &Folders,
        root: usize,
        path: ContentPath,
        folder: OpenFolder,
        mut names: Vec<OsString>,
    ) {
        if folders.root(root).is_err() {
            return;
        }
        let some = names.split_off(names.len().saturating_sub(NAMES_PER_STEP));
        if names.is_empty() {
            self.read_on(root, path.clone(), folder.clone());
        } else {
            self.add(ChoreStep::Names { root, path: path.clone(), folder: folder.clone(), names });
        }
        for name in some {
            // Links are not followed: their targets are found under their own names, and rings have no end.
            let Ok(stat) = statat(folder.fd(), name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let Some(Ok(child)) = name.to_str().map(|name| path.child(name)) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => self.add(ChoreStep::Directory { root, path: child }),
                FileType::RegularFile if folders.common.index.rate(&Stamp::of(&stat)).is_none() => {
                    self.search_folder(root, child)
                }
                _ => {}
            }
        }
    }

    /// Called before a name goes away: keeps hold of a big file, if that was its last name.
    pub(super) fn prepare_removal(&mut self, handle: BorrowedFd<'_>, stat: &Stat) -> Option<RemovedFile> {
        let stamp = Stamp::of(stat);
        let big = stamp.size > TRUNCATE_STEP_BYTES && stat.st_nlink == 1;
        if !big || self.removed.len() >= REMOVED_MAX {
            return None;
        }
        // A lease that another program holds on it (Samba) would be waited for.
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = contained_open::reopen(handle, flags).ok()?;
        Some(RemovedFile { file, device: stamp.device, inode: stamp.inode, steps: None })
    }

    /// Called after the name is gone.
    pub(super) fn free_later(&mut self, removed: Option<RemovedFile>) {
        self.removed.extend(removed);
        debug_assert!(self.removed.len() <= REMOVED_MAX, "each holds a descriptor");
    }

    /// Frees a step's worth of a removed file that is open nowhere else. False if there is none.
    fn free_some(&mut self, folders: &Folders) -> bool {
        let wait = u64::try_from(REMOVED_CHECK.as_nanos()).expect("a second");
        self.next_check = monotonic().saturating_add(Nanos(wait));
        for file in &mut self.removed {
            file.steps.get_or_insert_with(|| folders.shared.open_steps()).retain(|step| step.strong_count() > 0);
        }
        let is_found = |file: &RemovedFile| file.steps.as_ref().is_some_and(|steps| !steps.is_empty());
        let unread = |file: &RemovedFile| !is_found(file) && !folders.is_read(file.device, file.inode);
        let open_elsewhere = |file: &RemovedFile| is_open_elsewhere(file.file.as_fd());
        let removed = &self.removed;
        let Some(place) = removed.iter().position(|file| unread(file) && !matches!(open_elsewhere(file), Ok(true)))
        else {
            return false;
        };
        self.next_check = Nanos::ZERO;
        // The rest goes with the descriptor; so does all of it where the kernel cannot show whether others have it open.
        if !matches!(open_elsewhere(&removed[place]), Ok(false)) || !cut(&removed[place].file) {
            self.removed.swap_remove(place);
        }
        true
    }
}

/// The hidden name of a recording that was to have this path, with its folder.
fn left_behind(folders: &Folders, root: usize, path: &ContentPath) -> Result<(OpenFolder, String), StoreError> {
    let Some((parent, own)) = path.split() else { return Err(StoreError::IsDirectory) };
    let folder = folders.folder(root, &parent)?;
    loop {
        let names = folder.names(Leftovers::Given)?;
        if names.is_empty() {
            return Err(StoreError::NotFound);
        }
        let is_it = |name: &&str| leftover(name, our_run()) == Some(Leftover::Keep(own));
        if let Some(hidden) = names.iter().filter_map(|name| name.to_str()).find(is_it) {
            return Ok((folder, hidden.to_owned()));
        }
    }
}

/// Cuts a step off a file that has no name. False if it is cut as far as it is to be, for the rest is small, or it has a name again.
fn cut(file: &OwnedFd) -> bool {
    let left = fstat(file).ok().filter(|stat| stat.st_nlink == 0).and_then(|stat| u64::try_from(stat.st_size).ok());
    let next = left.unwrap_or(0).saturating_sub(TRUNCATE_STEP_BYTES);
    next > 0 && ftruncate(file, next).is_ok()
}

/// True if the file of this name was last written to longer ago than this.
fn is_older(directory: BorrowedFd<'_>, name: &str, than: Duration) -> bool {
    let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let written = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    SystemTime::now().duration_since(written).is_ok_and(|age| age > than)
}

fn is_media(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, ending)| MEDIA_ENDINGS.iter().any(|known| known.eq_ignore_ascii_case(ending)))
}
