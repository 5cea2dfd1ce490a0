//! The names in a volume that is not served.
//!
//! Not here: the names of a volume that is served (`core`).

use std::path::PathBuf;

use kernel::exclusive::Purpose;
use volume::Volume;

use super::find::FoundDisks;
use super::open_disk::VolumeDiskError;

/// The names in a volume's catalogue when it was read.
#[derive(Debug)]
pub struct StoredNames(Volume);

impl StoredNames {
    /// Reads the catalogue of the volume on `disks`, and releases them.
    ///
    /// # Errors
    /// The disks form no volume, or are in use.
    pub fn read(disks: &[PathBuf]) -> Result<Self, VolumeDiskError> {
        FoundDisks::of(disks, Purpose::Read)?.open().map(Self)
    }

    /// True if the volume has a folder of this name; the empty name is the volume itself.
    #[must_use]
    pub fn has_folder(&self, name: &str) -> bool {
        self.0.is_folder(name)
    }

    /// True if the volume has a content or a folder of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.has_folder(name) || self.0.find(name).is_some()
    }

    /// The names in a folder, in their order.
    #[must_use]
    pub fn list(&self, folder: &str) -> Vec<String> {
        self.0.list(folder).iter().map(|listed| listed.name().to_owned()).collect()
    }
}
