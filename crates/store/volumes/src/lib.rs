//! Volumes: contents in units on whole disks instead of files in a file system, as a store serves them.
//!
//! Promise: the *front* thread knows the names and decides where bytes go, and touches no disk; *openers* read a content's rate and
//! checksums; each disk has a thread of its own that writes and flushes on grants of the disk's schedule, so that a disk that
//! hangs holds up no other. An upload is answered when its units and its record are durable.
//! Not here: the places of contents on the disks (crate `volume`), the time of each use of a disk (`schedule`).

mod content;
mod core;
mod disk_states;
mod disks;
mod find;
mod front;
mod granted_reads;
mod health;
mod info;
mod known_generation;
mod live;
mod member;
mod names;
mod offline_volume;
mod open;
mod open_contents;
mod open_disk;
mod opener;
mod part;
mod recover;
mod replace;
mod resumable;
mod small_read;
mod start;
mod stored_names;
mod unit_read;
mod upkeep;
mod upkeep_run;
mod upload;
mod uploads;
mod waiter;

use std::sync::{Arc, Mutex};

use crate::core::Core;
pub use disks::{VolumeDisks, check_apart};
pub use find::{FoundDisks, UnusableDisk};
pub use health::LastScrub;
pub use info::{ServedVolume, UpkeepError, VolumeInfo, VolumeMemberInfo, VolumeWish};
pub use offline_volume::{OwnVolume, UpkeepOutcome};
pub use open::OpenVolume;
pub use open_disk::{OpenDisk, VolumeDiskError, is_same_disk};
pub use stored_names::StoredNames;

/// State that all threads of a volume share. It is held for look-ups and decisions, never while a disk works.
type SharedCore = Arc<Mutex<Core>>;
