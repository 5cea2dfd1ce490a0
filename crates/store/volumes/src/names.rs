//! Changes of names in a volume: of a content, or of a folder with all in it, which is a common part of their names.
//!
//! Promise: the changes of one call are checked as a whole, and are in one set of writes: after a crash all of them are made or none.

use std::collections::BTreeSet;
use std::time::SystemTime;

use storage::leftover::{Leftover, leftover};
use store::hidden::our_run;
use store::operation::ChangeReply;
use store::{ContentPath, Precondition, StoreError};
use volume::{Volume, VolumeError};

use super::core::{Core, nanos_at, now_nanos};
use super::waiter::Waiter;

impl Core {
    /// Makes an empty folder in an existing one.
    pub(super) fn make_folder(&mut self, path: &ContentPath, reply: ChangeReply<()>) {
        let name = path.joined();
        self.change_names(reply, |core| {
            if core.is_taken(&name) {
                return Err(StoreError::Exists);
            }
            if path.split().is_none_or(|(parent, _)| !core.live.volume.is_folder(&parent.joined())) {
                return Err(StoreError::ParentMissing);
            }
            core.live.volume.make_folder(&name, now_nanos()).map_err(|error| core.live.error(error))
        });
    }

    /// Gives a content or folder another name; with `replaces` in the place of the item that has it.
    pub(super) fn rename_tree(&mut self, from: &str, to: &str, replaces: bool, reply: ChangeReply<()>) {
        self.change_names(reply, |core| {
            if !replaces && core.is_taken(to) {
                return Err(StoreError::Exists);
            }
            core.live.volume.rename(from, to).map_err(|error| core.live.error(error))
        });
    }

    /// Gives a content another modification time.
    pub(super) fn set_modified(&mut self, name: &str, modified: SystemTime, reply: ChangeReply<()>) {
        self.change_names(reply, |core| {
            core.live.volume.set_modified(name, nanos_at(modified)).map_err(|error| core.live.error(error))
        });
    }

    /// Removes a folder with all in it.
    pub(super) fn remove_tree(&mut self, path: &str, reply: ChangeReply<()>) {
        self.change_names(reply, |core| core.live.volume.remove_tree(path).map_err(|error| core.live.error(error)));
    }

    /// Removes a content, or an empty folder.
    pub(super) fn remove(&mut self, path: &ContentPath, precondition: &Precondition, reply: ChangeReply<()>) {
        let name = path.joined();
        self.change_names(reply, |core| {
            core.check_precondition(&name, precondition)?;
            let removed = match core.live.volume.find(&name) {
                Some(_) => core.live.volume.remove(&name),
                None if !core.live.volume.list(&name).is_empty() => return Err(StoreError::NotEmpty),
                None => core.live.volume.remove_tree(&name),
            };
            removed.map_err(|error| core.live.error(error))
        });
    }

    fn is_taken(&self, name: &str) -> bool {
        self.live.volume.find(name).is_some() || self.live.volume.is_folder(name)
    }

    fn change_names(&mut self, reply: ChangeReply<()>, change: impl FnOnce(&mut Self) -> Result<(), StoreError>) {
        if !reply.begin() {
            return;
        }
        match change(self) {
            Ok(()) => {
                self.names_changed = SystemTime::now();
                self.live.write_sets.wait(Waiter::Removal(reply));
                self.begin_write_set();
            }
            Err(error) => reply.send(Err(error)),
        }
    }
}

/// Removes the trees that have hidden names: a crash left them, and they would have got their own when they were whole.
pub(super) fn remove_leftovers(volume: &mut Volume) -> Result<(), VolumeError> {
    let hidden = |name: &str| -> Option<String> {
        let mut parts = name.split('/').scan(0, |end, part| {
            *end += part.len() + 1;
            Some((*end - 1, part))
        });
        let (end, _) = parts.find(|(_, part)| leftover(part, our_run()) == Some(Leftover::Discard))?;
        Some(name[..end].to_owned())
    };
    let (mut trees, mut next) = (BTreeSet::new(), volume.content_behind(""));
    while let Some((name, _)) = next {
        trees.extend(hidden(name));
        next = volume.content_behind(name);
    }
    debug_assert!(
        trees.iter().all(|tree| !trees
            .iter()
            .any(|other| tree.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/')))),
        "a tree in another would be gone before its turn"
    );
    for tree in trees {
        match volume.remove_tree(&tree) {
            Err(VolumeError::NotAFolder) => volume.remove(&tree)?,
            removed => removed?,
        }
    }
    Ok(())
}
