//! The walk through a folder of all roots, each read by its disk's thread, and the removal of files that it met.
//!
//! Promise: that of `crate::walk`, over all roots; a file that was met is removed as that file, through the folder that was walked, or
//! not at all. Not here: the choice of the files to remove.

use std::path::{Path, PathBuf};

use super::{Store, graver, look_up, open_folder};
use crate::entry::FileId;
use crate::operation::{self, FolderHandle, Operation, StoreQuery};
use crate::walk::{WalkError, WalkState, WalkStep, Walked, WalkedFile, WalkedKind, has_hidden_name};
use crate::{ContentPath, NameKind, StoreError};

/// A walk under way.
#[derive(Debug)]
pub struct StoreWalk {
    store: Store,
    folder: ContentPath,
    /// The roots that have the folder and were not walked yet, the last one first.
    waiting: Vec<(usize, FolderHandle)>,
    at: Option<(usize, FolderHandle)>,
    failures: Vec<WalkError>,
    steps: WalkState<FolderHandle>,
    ids: Vec<FileId>,
}

/// Something that was met, and where.
#[derive(Debug, Clone)]
pub struct StoredItem {
    /// The item met. Its path is below the folder that is walked.
    pub walked: Walked,
    /// Clients see it under its path: no name on it is hidden, and no earlier root has it.
    pub is_shown: bool,
    root: usize,
    base: FolderHandle,
}

impl Store {
    /// Walks through a folder. Gives all items in it, whether clients see them or not.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotADirectory`]; a root that does not answer is the walk's first item.
    pub async fn walk(&self, folder: &ContentPath) -> Result<StoreWalk, StoreError> {
        let (mut waiting, mut failures, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let mut failure = StoreError::NotFound;
        for (number, (disk, root)) in self.roots().enumerate() {
            match open_folder(disk, root, folder).await {
                Ok(opened) => {
                    ids.extend(opened.id);
                    waiting.push((number, opened));
                }
                // A name that is a content in an earlier root hides a directory in a later one.
                Err(StoreError::NotADirectory) if waiting.is_empty() => return Err(StoreError::NotADirectory),
                Err(error) if error.is_absence() => failure = graver(failure, error)?,
                Err(why) => failures.push(WalkError { path: PathBuf::new(), why }),
            }
        }
        if waiting.is_empty() {
            return Err(failures.pop().map_or(failure, |error| error.why));
        }
        waiting.reverse();
        let (store, folder) = (self.clone(), folder.clone());
        Ok(StoreWalk { store, folder, waiting, at: None, failures, steps: WalkState::default(), ids })
    }

    /// Removes a file that a walk of `folder` met, durably, if it was not written to since; the files that later roots have under its
    /// name go with it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] and [`StoreError::PreconditionFailed`] if it is another one by now, and errors of the system.
    pub async fn remove(&self, folder: &ContentPath, item: &StoredItem) -> Result<(), StoreError> {
        let WalkedKind::File(WalkedFile { stamp, .. }) = item.walked.kind else { return Err(StoreError::IsDirectory) };
        if let Some(path) = named(folder, &item.walked.path) {
            self.remove_hidden(item.root, &path, NameKind::File).await?;
        }
        let (disk, _) = self.roots().nth(item.root).ok_or(StoreError::NotFound)?;
        let (reply, answer) = operation::change();
        let (folder, path) = (item.base.clone(), item.walked.path.clone());
        disk.post(Operation::Remove { folder, path, stamp, reply })?;
        disk.settle(answer).await
    }
}

impl StoreWalk {
    /// The folder itself, in each root that has it.
    #[must_use]
    pub fn ids(&self) -> &[FileId] {
        &self.ids
    }

    /// The next item met; none at the end.
    pub async fn next(&mut self) -> Option<Result<StoredItem, WalkError>> {
        if let Some(failure) = self.failures.pop() {
            return Some(Err(failure));
        }
        loop {
            let failed = match self.steps.step() {
                WalkStep::Give(Err(error)) => Some(error),
                WalkStep::Give(Ok(walked)) => match self.item(walked).await {
                    Ok(item) => return Some(Ok(item)),
                    Err(error) => Some(error),
                },
                WalkStep::End => {
                    let (root, folder) = self.waiting.pop()?;
                    self.steps.begin(folder.clone(), folder.id);
                    self.at = Some((root, folder));
                    None
                }
                WalkStep::Read(folder) => {
                    let page = self.call(|reply| StoreQuery::Items { folder, reply }).await;
                    self.steps.was_read(page)
                }
                WalkStep::Enter(folder, name) => {
                    let entered = self.call(|reply| StoreQuery::Enter { folder, name, reply }).await;
                    self.steps.entered(entered)
                }
            };
            if let Some(error) = failed {
                return Some(Err(error));
            }
        }
    }

    async fn call<T>(&self, operation: impl FnOnce(operation::ReplyTo<T>) -> StoreQuery) -> Result<T, StoreError> {
        let root = self.at.as_ref().map_or(0, |(root, _)| *root);
        let (disk, _) = self.store.roots().nth(root).ok_or(StoreError::NotFound)?;
        disk.call(operation).await
    }

    async fn item(&self, walked: Walked) -> Result<StoredItem, WalkError> {
        let (root, base) = self.at.clone().expect("each entry of a walk lies in a root");
        let is_hidden = !self.store.0.common.settings.hidden_files && has_hidden_name(&walked.path);
        let is_shown = !is_hidden && !self.is_shadowed(root, &walked.path).await?;
        Ok(StoredItem { walked, is_shown, root, base })
    }

    /// True if an earlier root has this name, or a content where a folder of its path is.
    async fn is_shadowed(&self, root: usize, path: &Path) -> Result<bool, WalkError> {
        let Some(whole) = named(&self.folder, path) else { return Ok(false) };
        for (disk, number) in self.store.roots().take(root) {
            match look_up(disk, number, &whole).await {
                Err(StoreError::NotFound) => {}
                Err(why) if why.is_silence() => return Err(WalkError { path: path.to_owned(), why }),
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// The path below the roots of the item at `path` in `folder`, if one can name it.
fn named(folder: &ContentPath, path: &Path) -> Option<ContentPath> {
    path.iter().try_fold(folder.clone(), |at, name| at.child(name.to_str()?).ok())
}
