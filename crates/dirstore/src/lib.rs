//! The directory store: existing folders as a namespace of contents, each on its disk.
//!
//! Promise: one ordinary thread per disk does all that touches it; no data byte is written and nothing is flushed
//! without a grant of the disk's schedule; an upload is visible whole or not at all, and answered when durable.
//! Not here: when a disk is used (`schedule`), reading for streams (`dataplane`), protocols (`http`).

mod beneath;
mod disk;
mod entry;
mod error;
mod event;
mod grants;
mod home;
mod index;
mod operation;
mod path;
mod root;
mod stats;
mod store;
mod upload;
mod volume;
mod worker;

pub use entry::{Entry, Existing, NameKind, Precondition, etag_of};
pub use error::StoreError;
pub use event::{EventListener, StoreEvent};
pub use grants::{Governed, GrantPort, Ungoverned, WakeFn};
pub use path::{COMPONENT_BYTES_MAX, COMPONENTS_MAX, ContentPath, PathError};
pub use root::{RootAway, RootSetting};
pub use stats::{Counter, DiskStats};
pub use store::{
    DiskInfo, DiskPlace, DiskPort, LayoutError, Opened, Reliance, Store, StoreLayout, StoreSettings, Want,
};
pub use upload::{OnBreak, Published, Upload, UploadClass, UploadRequest};
pub use volume::{DiskNotice, UpkeepError, UpkeepReport, VolumeDiskError, VolumeInfo, VolumeMemberInfo, VolumeWish};
