//! Folders: existing folders of files on the disks they lie on, as a store serves them.
//!
//! Promise: one ordinary thread per disk does all that changes it, and openers read concurrently; no path leads out of its root; a content
//! that was read or stored is the version that its entry names.
//! Not here: the namespace over all roots (`store`), when a disk is used (`schedule`), the order of an upload's steps (`storage`).

mod contained_open;
mod disks;
mod local_walk;
mod open_folder;
mod root;
mod worker;

pub use disks::{FolderDisks, RootError};
pub use local_walk::LocalWalk;
pub use root::RootSetting;
