//! A walk through a folder of this machine.
//!
//! Promise: that of `store::walk`. Not here: the walk through the folders that a store serves.

use std::path::Path;

use rustix::io::Errno;
use store::walk::{WalkState, WalkStep};
use store::{StoreError, WalkError, Walked};

use crate::open_folder::OpenFolder;

/// A walk through a folder of this machine, on the caller's thread.
pub struct LocalWalk(WalkState<OpenFolder>);

impl LocalWalk {
    /// Begins at the folder that `path` leads to.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn begin(path: &Path) -> Result<Self, StoreError> {
        let folder = OpenFolder::open(path)?;
        let id = folder.id()?;
        let mut steps = WalkState::default();
        steps.begin(folder, Some(id));
        Ok(Self(steps))
    }
}

impl Iterator for LocalWalk {
    type Item = Result<Walked, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let error = match self.0.step() {
                WalkStep::End => return None,
                WalkStep::Give(item) => return Some(item),
                WalkStep::Read(folder) => {
                    let page = folder.page().map_err(StoreError::from);
                    self.0.was_read(page.map(|items| (folder, items)))
                }
                WalkStep::Enter(folder, name) => {
                    self.0.entered(folder.enter(&name).map_err(|error: Errno| error.into()))
                }
            };
            if let Some(error) = error {
                return Some(Err(error));
            }
        }
    }
}
