//! The volumes as front ends show them.

use api::{ScrubStatus, UpkeepStatus, VolumeDiskStatus, VolumeStatus};

use crate::access::{Permit, ToObserve};

use crate::contents::{UpkeepReport, VolumeInfo};
use crate::events::unix_seconds;
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
        error: disk.failure.map(|failure| failure.to_string()),
        wrong_copies: disk.wrong_copies,
        size_bytes: disk.size.0,
        units: disk.units,
        free_units: disk.free_units,
    });
    let disks: Vec<_> = disks.collect();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    VolumeStatus {
        degraded: disks.iter().any(|disk| !matches!(disk.state.as_str(), "active" | "left")),
        missing_contents: count(volume.missing_contents),
        damaged_contents: count(volume.damaged_contents),
        last_scrub: volume.last_scrub.map(|scrub| ScrubStatus {
            ended: unix_seconds(scrub.ended),
            seen_bytes: scrub.seen_bytes,
            copies_written: scrub.copies_written,
            copies_lost: scrub.copies_lost,
            contents_unknown: scrub.contents_unknown,
        }),
        name: volume.name,
        layout: volume.layout.to_owned(),
        folder_layouts: volume.folders.into_iter().map(|(folder, layout)| (folder, layout.to_owned())).collect(),
        unit_bytes: volume.unit.0,
        contents: count(volume.contents),
        free_bytes: volume.free.0,
        disks,
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
        contents_unknown: report.unknown,
        disks_away: report.away.iter().copied().collect(),
        error,
    }
}
