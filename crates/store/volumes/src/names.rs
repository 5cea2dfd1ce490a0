//! Changes of names in a volume: of a content, or of all contents of a folder, which is a common part of their names.
//!
//! Promise: the changes of one call are in one set of writes: after a crash all of them are made or none.

use std::time::SystemTime;

use store::StoreError;
use store::operation::ChangeReply;

use super::core::Core;
use super::waiter::Waiter;

impl Core {
    /// Gives a content or folder another name; with `replaces` in the place of the item that has it.
    pub(super) fn rename_tree(&mut self, from: &str, to: &str, replaces: bool, reply: ChangeReply<()>) {
        self.change_names(reply, |core| {
            let names = core.names_below(from)?;
            let there = core.names_below(to).unwrap_or_default();
            if !there.is_empty() && !replaces {
                return Err(StoreError::Exists);
            }
            for name in there {
                core.volume.remove(&name).map_err(|error| core.error(error))?;
            }
            for name in names {
                let rest = name.strip_prefix(from).unwrap_or_default();
                core.volume.rename(&name, &format!("{to}{rest}")).map_err(|error| core.error(error))?;
            }
            Ok(())
        });
    }

    /// Removes a folder with all in it.
    pub(super) fn remove_tree(&mut self, path: &str, reply: ChangeReply<()>) {
        self.change_names(reply, |core| {
            if core.volume.find(path).is_some() {
                return Err(StoreError::NotADirectory);
            }
            for name in core.names_below(path)? {
                core.volume.remove(&name).map_err(|error| core.error(error))?;
            }
            Ok(())
        });
    }

    fn change_names(&mut self, reply: ChangeReply<()>, change: impl FnOnce(&mut Self) -> Result<(), StoreError>) {
        if !reply.begin() {
            return;
        }
        let changed = change(self);
        self.names_changed = SystemTime::now();
        match changed {
            Ok(()) => self.write_sets.wait(Waiter::Removal(reply)),
            Err(error) => reply.send(Err(error)),
        }
        self.begin_write_set();
    }

    /// The names of the content at `path`, or of all contents below it.
    fn names_below(&self, path: &str) -> Result<Vec<String>, StoreError> {
        if self.volume.find(path).is_some() {
            return Ok(vec![path.to_owned()]);
        }
        let prefix = format!("{path}/");
        let mut names = Vec::new();
        let mut next = self.volume.content_behind(&prefix);
        while let Some((name, _)) = next.filter(|(name, _)| name.starts_with(&prefix)) {
            names.push(name.to_owned());
            next = self.volume.content_behind(name);
        }
        if names.is_empty() { Err(StoreError::NotFound) } else { Ok(names) }
    }
}
