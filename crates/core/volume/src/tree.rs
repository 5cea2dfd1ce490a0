//! Folders of a volume: new ones, and other names or the end for all that is in one.
//!
//! Promise: a change of a tree is checked as a whole before its first name changes, and is in one commit. A folder is a common part of
//! names; an empty one is kept by its *mark*, a content without bytes whose name is the folder's with a slash behind it. Marks are in the
//! catalogue and in no list of contents.

use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::content::{StoredContent, name_problem};
use crate::record::{Record, put_bytes};
use crate::{Volume, VolumeError};

impl Volume {
    /// Makes an empty folder, which stays when the last content in it goes. `modified` is in nanoseconds since 1970.
    ///
    /// # Errors
    /// The name is a content's or a folder's, or not possible; the catalogue is full; the volume takes no changes.
    pub fn make_folder(&mut self, name: &str, modified: u64) -> Result<(), VolumeError> {
        self.check_new_name(name)?;
        self.find(name).map_or(Ok(()), |_| Err(VolumeError::NotAFolder))?;
        let mark = mark_of(name);
        self.check_catalogue_room(put_bytes(mark.len(), 0))?;
        let number = self.changes.new_number()?;
        let content = StoredContent { content: number, generation: number, length: 0, modified, parts: Box::new([]) };
        let before = self.put(mark.into(), Arc::new(content));
        debug_assert!(before.is_none(), "the folder was there already");
        self.assert_sound();
        Ok(())
    }

    /// Gives a content, or a folder with all in it, another name, in the place of the item that has it.
    ///
    /// # Errors
    /// Nothing has the name; one of the two lies in the other; a name that would come is not possible; the catalogue is full; the volume
    /// takes no changes. Nothing has changed then.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), VolumeError> {
        self.changes.check()?;
        let change = self.catalogue.renaming(from, to)?;
        self.check_catalogue_room(change.more_bytes)?;
        change.gone.iter().try_for_each(|name| self.remove(name))?;
        for (old, new) in change.renamed {
            self.changes.record(&Record::Rename(old.as_str().into(), new.as_str().into()));
            self.catalogue.give_name(&old, new);
        }
        self.assert_sound();
        Ok(())
    }

    /// Removes a folder with all in it.
    ///
    /// # Errors
    /// There is no such folder; the volume takes no changes.
    pub fn remove_tree(&mut self, folder: &str) -> Result<(), VolumeError> {
        self.changes.check()?;
        self.catalogue.tree(folder)?.iter().try_for_each(|name| self.remove(name))
    }
}

/// The names that a rename changes.
#[derive(Debug, Default)]
struct RenamedTree {
    /// Contents and marks that the renamed ones replace.
    gone: Vec<String>,
    /// Each name, and its new name.
    renamed: Vec<(String, String)>,
    /// Bytes by which records grow.
    more_bytes: usize,
}

impl Catalogue {
    /// The contents and marks in a folder.
    fn tree(&self, folder: &str) -> Result<Vec<String>, VolumeError> {
        if self.find(folder).is_some() {
            return Err(VolumeError::NotAFolder);
        }
        let names: Vec<_> = self.below(&mark_of(folder)).map(str::to_owned).collect();
        if names.is_empty() { Err(VolumeError::NotFound) } else { Ok(names) }
    }

    /// Gives a content or mark another name.
    fn give_name(&mut self, old: &str, new: String) {
        if let Some(content) = self.remove(old) {
            let replaced = self.insert(new.into(), content);
            debug_assert!(replaced.is_none(), "the units of a content that is replaced are retired first");
        }
    }

    /// The names that a rename changes, all of which are possible.
    fn renaming(&self, from: &str, to: &str) -> Result<RenamedTree, VolumeError> {
        let names = |name: &str| match self.tree(name) {
            Err(VolumeError::NotAFolder) => Ok(vec![name.to_owned()]),
            tree => tree,
        };
        let (moved, is_content) = (names(from)?, self.find(from).is_some());
        if from == to {
            return Ok(RenamedTree::default());
        }
        let lies_in = |one: &str, other: &str| one.starts_with(&mark_of(other));
        // A content may move into a folder of its own name: it is away by then.
        let into_itself = lies_in(to, from);
        if lies_in(from, to) || (into_itself && !is_content) {
            return Err(VolumeError::IsFolder);
        }
        if self.lies_below_content(to) && !into_itself {
            return Err(VolumeError::NotAFolder);
        }
        let new = |name: &str| format!("{to}{}", &name[from.len()..]);
        let renamed: Vec<_> = moved.iter().map(|name| (name.clone(), new(name))).collect();
        for (_, new) in &renamed {
            if let Some(problem) = name_problem(new.strip_suffix('/').unwrap_or(new)) {
                return Err(VolumeError::Name(problem));
            }
        }
        debug_assert!(
            renamed.iter().all(|(old, new)| old.ends_with('/') == new.ends_with('/')),
            "a mark stays a mark, and a content a content"
        );
        let more_bytes = renamed.len() * to.len().saturating_sub(from.len());
        Ok(RenamedTree { gone: names(to).unwrap_or_default(), renamed, more_bytes })
    }
}

fn mark_of(folder: &str) -> String {
    format!("{folder}/")
}
