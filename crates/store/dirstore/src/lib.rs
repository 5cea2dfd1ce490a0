//! The directory store: existing folders as a namespace of contents, each on its disk.
//!
//! Promise: one ordinary thread per disk does all that touches it; no data byte is written and nothing is flushed
//! without a grant of the disk's schedule; an upload is visible whole or not at all, and answered when durable.
//! Not here: when a disk is used (`schedule`), reading for streams (`dataplane`), protocols (`http`).

mod beneath;
mod buffers;
mod content_reader;
mod disk;
mod entry;
mod error;
mod event;
mod folder;
mod grants;
mod home;
mod index;
mod layout;
mod lock;
mod operation;
mod path;
mod request;
mod root;
mod settings;
mod shared;
mod stats;
mod store;
mod upload;
mod volume;
mod walk;
mod worker;

pub use device::Device;
pub use entry::{Entry, Existing, FileId, NameKind, Opened, Precondition, Want, etag_of};
pub use error::{AwayDisk, StoreError};
pub use event::{DiskNotice, EventListener, StoreEvent, UpkeepReport};
pub use grants::{Governed, GrantPort, WakeFn};
pub use layout::{DiskPlace, LayoutError, StoreLayout};
pub use path::{COMPONENT_BYTES_MAX, COMPONENTS_MAX, ContentPath, PathError};
pub use request::{NameTaken, OnBreak, Published, RecordingMemory, UploadClass, UploadPlace, UploadRequest};
pub use root::{RootAway, RootSetting};
pub use settings::StoreSettings;
pub use shared::DiskUsable;
pub use stats::{Counter, DiskStats};
pub use store::{DiskInfo, Store, StoreWalk, StoredItem};
pub use upload::Upload;
pub use volume::{LastScrub, UpkeepError, VolumeDiskError, VolumeInfo, VolumeMemberInfo, VolumeWish, is_same_disk};
pub use walk::{LocalWalk, WalkError, Walked, WalkedFile, WalkedKind, has_hidden_name};
