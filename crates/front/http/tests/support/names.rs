//! The names of the store in memory.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use service::contents::{ContentPath, Entry, FileId, NameKind, StoreError};
use units::DiskId;

use super::store::Stored;

/// The entries of a folder, by name.
pub fn entries(files: &HashMap<String, Stored>, path: &ContentPath) -> Result<Vec<Entry>, StoreError> {
    let prefix = if path.components().is_empty() { String::new() } else { format!("{}/", path.joined()) };
    let mut entries = BTreeMap::new();
    for (rest, stored) in files.iter().filter_map(|(name, stored)| Some((name.strip_prefix(&prefix)?, stored))) {
        let mut found = entry(rest, stored);
        if let Some((directory, _)) = rest.split_once('/') {
            found = Entry { name: directory.to_owned(), kind: NameKind::Directory, size: 0, ..found };
        }
        entries.insert(found.name.clone(), found);
    }
    if entries.is_empty() && !prefix.is_empty() {
        return Err(StoreError::NotFound);
    }
    Ok(entries.into_values().collect())
}

pub fn entry(name: &str, stored: &Stored) -> Entry {
    Entry {
        name: name.rsplit('/').next().unwrap_or_default().to_owned(),
        kind: NameKind::File,
        id: Some(FileId { device: 0, inode: name.bytes().map(u64::from).sum() }),
        is_link: false,
        size: stored.bytes.len() as u64,
        modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + stored.version),
        etag: format!("\"v{}\"", stored.version),
        disk: DiskId(0),
        created: None,
        rate: None,
    }
}
