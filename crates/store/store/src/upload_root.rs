//! The one root of all uploads of a name, while any is under way.
//!
//! Promise: all uploads of one name that overlap in time go to one root, so that the later one replaces the content of the earlier one,
//! and no acknowledged content lies hidden behind another root. Not here: the choice of that root (`store`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use units::DiskId;

use crate::ContentPath;
use crate::lock::lock;

/// The root of a name, as its disk and its number there, once an upload has begun in it. Locked while one begins.
pub(crate) type UploadRoot = tokio::sync::Mutex<Option<(DiskId, usize)>>;

/// The homes of all names that are being uploaded: each is kept by the uploads it is of.
#[derive(Debug, Default)]
pub(crate) struct UploadRoots(Mutex<HashMap<ContentPath, Weak<UploadRoot>>>);

impl UploadRoots {
    /// That of `path`: a new one, if none of its uploads is under way.
    pub(crate) fn of(&self, path: &ContentPath) -> Arc<UploadRoot> {
        let mut homes = lock(&self.0);
        homes.retain(|_, home| home.strong_count() > 0);
        if let Some(home) = homes.get(path).and_then(Weak::upgrade) {
            return home;
        }
        let home = Arc::default();
        homes.insert(path.clone(), Arc::downgrade(&home));
        home
    }
}
