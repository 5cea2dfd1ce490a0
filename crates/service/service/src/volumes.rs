//! The volumes as front ends show them.

use crate::access::{Permit, ToObserve};
use crate::contents::{UpkeepReport, VolumeInfo};
use api::{UpkeepStatus, VolumeDiskStatus, VolumeStatus};

use crate::media_service::MediaService;

/// The volumes as they are shown.
#[must_use]
pub fn volumes(service: &MediaService, _permit: &Permit<ToObserve>) -> Vec<VolumeStatus> {
    service.admin.volumes().into_iter().map(described).collect()
}

fn described(volume: VolumeInfo) -> VolumeStatus {
    let disks = volume.disks.into_iter().map(|disk| VolumeDiskStatus {
        disk: disk.disk.map(|disk| disk.0),
        path: disk.path.map(|path| path.display().to_string()),
        state: disk.state.to_owned(),
        size_bytes: disk.size.0,
        units: disk.units,
        free_units: disk.free_units,
    });
    VolumeStatus {
        name: volume.name,
        layout: volume.layout.to_owned(),
        folder_layouts: volume.folders.into_iter().map(|(folder, layout)| (folder, layout.to_owned())).collect(),
        unit_bytes: volume.unit.0,
        contents: u64::try_from(volume.contents).unwrap_or(u64::MAX),
        free_bytes: volume.free.0,
        disks: disks.collect(),
        moved_copies: volume.moved_copies,
        upkeep: volume.upkeep.map(|(kind, report)| upkeep(kind, &report, None)),
        last_upkeep: volume
            .last_upkeep
            .map(|(kind, report, error)| upkeep(kind, &report, error.map(|error| error.to_string()))),
    }
}

fn upkeep(kind: &str, report: &UpkeepReport, error: Option<String>) -> UpkeepStatus {
    UpkeepStatus {
        kind: kind.to_owned(),
        seen_bytes: report.seen.0,
        total_bytes: report.total.0,
        copies_written: report.written,
        copies_lost: report.lost,
        error,
    }
}
