//! The walk through a folder and all below it: the tree as every deletion, count, scrub or copy sees it.
//!
//! Promise: real folders only, each once by device and inode however it is mounted; links are given as links and never followed; a name
//! that cannot be read is given as an error, and the walk continues; memory for one page of each folder on the path, and for the folders
//! and hard links that were met.
//! Not here: reading a folder (`folder`), the thread for it (`store::walk`).

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::vec;

use crate::StoreError;
use crate::entry::{FileId, Stamp, time_of};
use crate::path::{COMPONENTS_MAX, is_hidden};

/// Folders and hard links that a walk remembers: 24 bytes each.
const MET_MAX: usize = 4_000_000;

/// A name in a folder.
#[derive(Debug, Clone)]
pub struct FolderItem {
    /// As it is.
    pub name: OsString,
    /// Its kind, or the reason for which it cannot be looked at.
    pub kind: Result<ItemKind, StoreError>,
}

/// Kind of the item that has a name.
#[derive(Debug, Clone, Copy)]
pub enum ItemKind {
    /// A folder; those of a volume are names only, and can be reached by no other.
    Folder(Option<FileId>),
    /// A file, with how many names it has; zero for a volume's, which has this one only.
    File(Stamp, u64),
    /// A symbolic link, a pipe, a device.
    Other,
}

/// Something that was met.
#[derive(Debug, Clone)]
pub struct Walked {
    /// Below the folder that is walked.
    pub path: PathBuf,
    /// The kind of the item.
    pub kind: WalkedKind,
}

/// Kind of an item that was met.
#[derive(Debug, Clone, Copy)]
pub enum WalkedKind {
    /// A folder, before the items in it. Those of a volume have no identity: no other name leads to them.
    Folder(Option<FileId>),
    /// A file.
    File(WalkedFile),
    /// A link, a pipe, a device.
    Other,
}

/// A file as it was met.
#[derive(Debug, Clone, Copy)]
pub struct WalkedFile {
    /// The version of it that was met.
    pub stamp: Stamp,
    /// Names that lead to it, anywhere; zero for a volume's, which has this one only.
    pub links: u64,
    /// It was met before, under another name.
    pub is_again: bool,
}

impl WalkedFile {
    /// Identity of the file.
    #[must_use]
    pub const fn id(&self) -> FileId {
        FileId { device: self.stamp.device, inode: self.stamp.inode }
    }

    /// Its length.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.stamp.size
    }

    /// Time of the last write to it, as its owner says.
    #[must_use]
    pub fn modified(&self) -> SystemTime {
        self.stamp.modified()
    }

    /// Time of its last change, as the file system says: its bytes, its names or its owner. Of a volume's it is not known.
    #[must_use]
    pub fn changed(&self) -> Option<SystemTime> {
        (self.links > 0).then(|| time_of(self.stamp.changed_ns))
    }
}

/// An item that the walk could not look at.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct WalkError {
    /// Below the folder that is walked; empty for that itself.
    pub path: PathBuf,
    /// The reason.
    pub why: StoreError,
}

/// True if a name on the path is hidden, as [`crate::ContentPath::is_hidden`] says.
#[must_use]
pub fn has_hidden_name(path: &Path) -> bool {
    path.iter().any(|name| is_hidden(&name.to_string_lossy()))
}

/// The next step of a walk that reads nothing itself.
pub enum WalkStep<H> {
    /// Read the next page of this folder, then [`WalkState::was_read`].
    Read(H),
    /// Open the folder of this name, then [`WalkState::entered`].
    Enter(H, OsString),
    /// This is next.
    Give(Result<Walked, WalkError>),
    /// There is no more.
    End,
}

/// The state of a walk, from answers to further steps. `H` is a folder as its thread knows it.
#[derive(Debug)]
pub struct WalkState<H> {
    levels: Vec<Level<H>>,
    met: HashSet<FileId>,
    entering: Option<OsString>,
}

#[derive(Debug)]
struct Level<H> {
    folder: H,
    path: PathBuf,
    items: vec::IntoIter<FolderItem>,
    is_read: bool,
}

impl<H> Default for WalkState<H> {
    fn default() -> Self {
        Self { levels: Vec::new(), met: HashSet::new(), entering: None }
    }
}

impl<H: Clone> WalkState<H> {
    /// Walks through another folder. Never through the same folder again.
    pub fn begin(&mut self, folder: H, id: Option<FileId>) {
        debug_assert!(
            self.levels.is_empty() && self.entering.is_none(),
            "a folder is walked to its end before the next"
        );
        if id.is_none_or(|id| self.met.insert(id)) {
            self.levels.push(Level { folder, path: PathBuf::new(), items: Vec::new().into_iter(), is_read: false });
        }
    }

    /// The next thing to do.
    pub fn step(&mut self) -> WalkStep<H> {
        loop {
            let Some(level) = self.levels.last_mut() else { return WalkStep::End };
            if let Some(name) = &self.entering {
                return WalkStep::Enter(level.folder.clone(), name.clone());
            }
            match level.items.next() {
                Some(item) => {
                    let path = level.path.join(&item.name);
                    if let Some(met) = self.meet(item, path) {
                        return WalkStep::Give(met);
                    }
                }
                None if level.is_read => drop(self.levels.pop()),
                None => return WalkStep::Read(level.folder.clone()),
            }
        }
    }

    /// The result for an item; none for a folder that was met before.
    fn meet(&mut self, item: FolderItem, path: PathBuf) -> Option<Result<Walked, WalkError>> {
        if self.met.len() >= MET_MAX {
            self.levels.clear();
            return Some(Err(WalkError { path, why: StoreError::TooManyNames(MET_MAX) }));
        }
        debug_assert!(self.entering.is_none(), "a folder is entered before the item behind it is looked at");
        let kind = match item.kind {
            Err(why) => return Some(Err(WalkError { path, why })),
            Ok(ItemKind::Other) => WalkedKind::Other,
            Ok(ItemKind::File(stamp, links)) => {
                let id = FileId { device: stamp.device, inode: stamp.inode };
                WalkedKind::File(WalkedFile { stamp, links, is_again: links > 1 && !self.met.insert(id) })
            }
            Ok(ItemKind::Folder(id)) => {
                if id.is_some_and(|id| !self.met.insert(id)) {
                    return None;
                }
                if self.levels.len() >= COMPONENTS_MAX {
                    return Some(Err(WalkError { path, why: StoreError::TooDeep }));
                }
                self.entering = Some(item.name);
                WalkedKind::Folder(id)
            }
        };
        Some(Ok(Walked { path, kind }))
    }

    /// The answer to [`WalkStep::Read`].
    pub fn was_read(&mut self, page: Result<(H, Vec<FolderItem>), StoreError>) -> Option<WalkError> {
        let level = self.levels.last_mut()?;
        debug_assert!(self.entering.is_none(), "a folder is entered before the next page of the one above");
        debug_assert!(level.items.len() == 0 && !level.is_read, "names of the page before would be lost");
        match page {
            Ok((folder, items)) => {
                level.is_read = items.is_empty();
                (level.folder, level.items) = (folder, items.into_iter());
                None
            }
            Err(why) => {
                level.is_read = true;
                Some(WalkError { path: level.path.clone(), why })
            }
        }
    }

    /// The answer to [`WalkStep::Enter`].
    pub fn entered(&mut self, folder: Result<H, StoreError>) -> Option<WalkError> {
        let (level, name) = (self.levels.last()?, self.entering.take()?);
        let path = level.path.join(&name);
        match folder {
            Ok(folder) => {
                self.levels.push(Level { folder, path, items: Vec::new().into_iter(), is_read: false });
                debug_assert!(self.levels.len() <= COMPONENTS_MAX, "memory for a page of each folder on the path");
                None
            }
            // Another process removed it meanwhile.
            Err(StoreError::NotFound) => None,
            Err(why) => Some(WalkError { path, why }),
        }
    }
}
