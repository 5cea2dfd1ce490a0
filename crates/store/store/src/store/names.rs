//! Changes of names over all roots: new folders, other names, folders with all in them.
//!
//! Promise: each change is durable at its answer; on one root it is one step. An item that several roots have changes in each of them, the
//! visible one last. Not here: the step on a disk (crates `folder` and `volumes`).

use std::time::SystemTime;

use super::{Store, look_up};
use crate::operation::{self, ChangeReply, Operation};
use crate::{ContentPath, ForbiddenBy, NameKind, Precondition, StoreError};

impl Store {
    /// Makes an empty folder, durably, on the disk with the most space of those that have the folder it lies in.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::ParentMissing`], [`StoreError::Forbidden`], and errors of the system.
    pub async fn make_folder(&self, path: &ContentPath) -> Result<(), StoreError> {
        let places = match self.places(path, None).await {
            Err(StoreError::IsDirectory) => return Err(StoreError::Exists),
            places => places?,
        };
        let mut failure = StoreError::ParentMissing;
        for (disk, root) in places {
            let (reply, answer) = operation::change();
            disk.post(Operation::MakeFolder { root, path: path.clone(), reply })?;
            match disk.settle(answer).await {
                Err(error) if error.is_read_only() => failure = error,
                made => return made,
            }
        }
        Err(failure)
    }

    /// Gives the content or folder at `from` the name `to`, durably, with `replaces` in the place of the item that has it. Folders of the
    /// path that a root lacks are made there. True if nothing had the name. Every root must answer.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Exists`], [`StoreError::Forbidden`], and errors of the system.
    pub async fn rename(&self, from: &ContentPath, to: &ContentPath, replaces: bool) -> Result<bool, StoreError> {
        self.check_served(from)?;
        self.check_served(to).map_err(|_| StoreError::Forbidden(ForbiddenBy::Name))?;
        let (first, item) = self.locate_to_change(from).await?;
        let replaced = match self.locate_to_change(to).await {
            Ok(_) if !replaces => return Err(StoreError::Exists),
            Ok((_, item)) => Some(item),
            Err(StoreError::NotFound) => None,
            Err(error) => return Err(error),
        };
        if item.kind == NameKind::File {
            self.remove_hidden(first, from, NameKind::File).await?;
        }
        for number in (0..self.0.roots.len()).rev() {
            let (disk, root) = self.roots().nth(number).ok_or(StoreError::NotFound)?;
            let is_here = number == first
                || (item.kind == NameKind::Directory
                    && look_up(disk, root, from).await.is_ok_and(|here| here.kind == NameKind::Directory));
            if is_here {
                let (from, to) = (from.clone(), to.clone());
                self.change(number, |root, reply| Operation::Rename { root, from, to, replaces, reply }).await?;
            } else if replaced.is_some() {
                self.remove_any(number, to).await?;
            }
        }
        Ok(replaced.is_none())
    }

    /// Gives a content another modification time, durably. Every root before its own must answer.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::IsDirectory`], and errors of the system.
    pub async fn set_modified(&self, path: &ContentPath, modified: SystemTime) -> Result<(), StoreError> {
        self.check_served(path)?;
        let (number, item) = self.locate_to_change(path).await?;
        if item.kind == NameKind::Directory {
            return Err(StoreError::IsDirectory);
        }
        let path = path.clone();
        self.change(number, |root, reply| Operation::SetModified { root, path, modified, reply }).await
    }

    /// Removes a folder with all in it, durably, from every root that has it; its space is free later. Every root must answer.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotADirectory`] for a content, and errors of the system.
    pub async fn remove_tree(&self, path: &ContentPath) -> Result<(), StoreError> {
        self.check_served(path)?;
        let (first, item) = self.locate_to_change(path).await?;
        if item.kind == NameKind::File {
            return Err(StoreError::NotADirectory);
        }
        for number in (first..self.0.roots.len()).rev() {
            match self.remove_folder(number, path).await {
                // A content that the folder hides stays.
                Err(error) if number > first && error.is_absence() => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Removes the item that one root has under this name, if there is one.
    async fn remove_any(&self, number: usize, path: &ContentPath) -> Result<(), StoreError> {
        let removed = match self.remove_folder(number, path).await {
            Err(StoreError::NotADirectory) => self.remove_from(number, path, NameKind::File, &Precondition::None).await,
            other => other,
        };
        match removed {
            Err(error) if error.is_absence() => Ok(()),
            other => other,
        }
    }

    async fn remove_folder(&self, number: usize, path: &ContentPath) -> Result<(), StoreError> {
        let path = path.clone();
        self.change(number, |root, reply| Operation::RemoveTree { root, path, reply }).await
    }

    /// Has a root make a change, by its number.
    async fn change(
        &self,
        number: usize,
        operation: impl FnOnce(usize, ChangeReply<()>) -> Operation,
    ) -> Result<(), StoreError> {
        let (disk, root) = self.roots().nth(number).ok_or(StoreError::NotFound)?;
        let (reply, answer) = operation::change();
        disk.post(operation(root, reply))?;
        disk.settle(answer).await
    }
}
