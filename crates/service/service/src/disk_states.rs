//! States of disks and folders beside their figures: doubts in profiles, failures, folders that are away.
//!
//! Promise: each failure, recovery and absence is an event, once. Not here: the figures (`figures`), the verdict on a disk (`store::shared`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use api::FolderStatus;
use units::{DiskFault, DiskId};

use crate::contents::{DiskInfo, StoreAdmin, StoreEvent};
use crate::events::{self, Events};
use crate::lock::lock;

/// See the module.
pub(crate) struct DiskStates {
    admin: Arc<dyn StoreAdmin>,
    events: Arc<Events>,
    /// Why a disk's figures are not measured.
    doubts: Mutex<BTreeMap<DiskId, String>>,
    /// Disks that were reported as failing, and how.
    failures: Mutex<BTreeMap<DiskId, DiskFault>>,
    /// Folders that are away.
    away: Mutex<BTreeSet<PathBuf>>,
}

impl DiskStates {
    pub(crate) fn new(admin: &Arc<dyn StoreAdmin>, events: &Arc<Events>, doubts: BTreeMap<DiskId, String>) -> Self {
        let (admin, events) = (Arc::clone(admin), Arc::clone(events));
        Self { admin, events, doubts: Mutex::new(doubts), failures: Mutex::default(), away: Mutex::default() }
    }

    /// Notes the reason for which a disk's figures are not measured; none: they are.
    pub(crate) fn doubt(&self, disk: DiskId, why: Option<String>) {
        let mut doubts = lock(&self.doubts);
        match why {
            Some(why) => drop(doubts.insert(disk, why)),
            None => drop(doubts.remove(&disk)),
        }
    }

    /// The reason for which a disk's figures are not measured.
    pub(crate) fn doubt_of(&self, disk: DiskId) -> Option<String> {
        lock(&self.doubts).get(&disk).cloned()
    }

    /// Logs that the figures of a disk are measured ones from now on.
    pub(crate) fn tell_measured(&self, id: DiskId) {
        if let Some(disk) = self.admin.disks().iter().find(|disk| disk.id == id) {
            self.events.tell(events::disk_measured(disk, SystemTime::now()));
        }
    }

    /// Logs which disks fail, or are used again, since the last call.
    pub(crate) fn tell_failures(&self) {
        let mut told = lock(&self.failures);
        for disk in self.admin.disks() {
            let before = match disk.failure {
                Some(failure) => told.insert(disk.id, failure),
                None => told.remove(&disk.id),
            };
            if disk.failure != before {
                self.events.tell(events::disk_failure(&disk, SystemTime::now()));
            }
        }
    }

    /// Notes an event of the store, and logs it.
    pub(crate) fn on_store_event(&self, event: &StoreEvent) {
        match event {
            StoreEvent::RootAway { root, .. } => drop(lock(&self.away).insert(root.clone())),
            StoreEvent::RootBack { root } => drop(lock(&self.away).remove(root)),
            // A part of an upload, which its client continues.
            StoreEvent::RecordingKept { path, .. } if path.is_reserved() => return,
            _ => {}
        }
        self.events.tell(events::of_store(event, SystemTime::now()));
    }

    /// Served folders and disks of volumes.
    pub(crate) fn folders(&self) -> Vec<FolderStatus> {
        let away = lock(&self.away);
        let of_disk = |disk: DiskInfo| disk.roots.into_iter().map(move |path| (path, disk.id.0));
        let status = |(path, disk): (PathBuf, u16)| FolderStatus {
            away: away.contains(&path),
            path: path.display().to_string(),
            disk,
        };
        self.admin.disks().into_iter().flat_map(of_disk).map(status).collect()
    }
}
