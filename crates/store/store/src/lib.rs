//! The store: the served contents as one namespace over the threads of the disks that have them.
//!
//! Promise: each disk is reached by messages to its thread alone; no data byte is written and nothing is flushed without a grant of the
//! disk's schedule; an upload is visible whole or not at all, and answered when durable.
//! Not here: the disks themselves, which join a store as folders (crate `folder`) or volumes (crate `volumes`); when a disk is used
//! (`schedule`); reading for streams (`dataplane`); protocols (`http`).

pub mod buffers;
mod builder;
mod common;
pub mod content_reader;
pub mod disk;
pub mod disk_thread;
pub mod entry;
mod error;
pub mod event;
pub mod grants;
pub mod hidden;
pub mod index;
pub mod lock;
pub mod openers;
pub mod operation;
mod path;
mod request;
mod settings;
pub mod shared;
mod stats;
mod store;
mod upload;
mod upload_root;
pub mod walk;

pub use builder::StoreBuilder;
pub use common::{DiskGroup, StoreCommon};
pub use device::Device;
pub use entry::{Entry, Existing, FileId, NameKind, Opened, Precondition, Want, etag_of};
pub use error::{AwayDisk, ForbiddenBy, FullPlace, RootAway, StoreError};
pub use event::{DiskNotice, EventListener, StoreEvent, UpkeepReport};
pub use grants::{Governed, GrantPort, Ungoverned, WakeFn};
pub use path::{COMPONENT_BYTES_MAX, COMPONENTS_MAX, ContentPath, PathError, is_hidden};
pub use request::{NameTaken, OnBreak, Published, RecordingMemory, UploadClass, UploadPlace, UploadRequest};
pub use settings::StoreSettings;
pub use shared::PlaneVerdict;
pub use stats::{Counter, DiskStats};
pub use store::{DiskInfo, Store, StoreWalk, StoredItem};
pub use upload::Upload;
pub use walk::{WalkError, Walked, WalkedFile, WalkedKind, has_hidden_name};
