//! Volumes, their disks and their upkeep.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A volume that is served (`GET /api/v1/volumes`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// How contents are laid over its disks: `span`, `stripe` or `mirror`.
    pub layout: String,
    /// Folders with contents laid in another way, and the layout of each.
    pub folder_layouts: BTreeMap<String, String>,
    /// Bytes of a unit.
    pub unit_bytes: u64,
    /// Contents.
    pub contents: u64,
    /// True while a disk of it is out, missing, read only, failed or being filled.
    pub degraded: bool,
    /// Contents with a part on a disk that is not there.
    pub missing_contents: u64,
    /// Contents with a part of which no copy is right, as far as that was found since the start.
    pub damaged_contents: u64,
    /// Room for contents.
    pub free_bytes: u64,
    /// Its disks, by their numbers in the volume.
    pub disks: Vec<VolumeDiskStatus>,
    /// Copies that were moved to another zone of their disk since the start, for the contents that are read most.
    pub moved_copies: u64,
    /// The upkeep under way.
    pub upkeep: Option<UpkeepStatus>,
    /// The upkeep that ended last.
    pub last_upkeep: Option<UpkeepStatus>,
    /// The last scrub that came to its end.
    pub last_scrub: Option<ScrubStatus>,
}

impl VolumeStatus {
    /// Bytes of contents for which it has room when it is empty; on a mirror each byte is stored twice.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        let copies = if self.layout == "mirror" { 2 } else { 1 };
        let disks = self.disks.iter().filter(|disk| disk.state != "left");
        disks.map(|disk| disk.units * self.unit_bytes).sum::<u64>() / copies
    }
}

/// The last scrub of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScrubStatus {
    /// Its end, seconds since 1970.
    pub ended: f64,
    /// Bytes of contents that were examined.
    pub seen_bytes: u64,
    /// Wrong copies that were rewritten.
    pub copies_written: u64,
    /// Copies that could not be made right.
    pub copies_lost: u64,
    /// Contents with a copy that it could not read, for its disk was away.
    pub contents_unknown: u64,
}

/// States of a volume's disk, as [`VolumeDiskStatus::state`] has them.
pub const VOLUME_DISK_STATES: [&str; 7] = ["active", "filling", "out", "left", "missing", "read only", "failed"];

/// A disk of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeDiskStatus {
    /// Its number among the server's disks; null if it was removed.
    pub disk: Option<u16>,
    /// The path, as the configuration names it.
    pub path: Option<String>,
    /// `active`; `filling`; `out` if it failed; `left` if it was removed; `missing` if it was away at the start and the volume takes no
    /// changes for it; `read only` if it failed and has the only copy of the bytes on it; `failed` if the volume takes no changes since
    /// it failed, until a restart.
    pub state: String,
    /// The failure because of which it is out or read-only, or because of which a copy on it stays wrong.
    pub error: Option<String>,
    /// Copies on it that were found wrong since the start.
    pub wrong_copies: u64,
    /// Bytes of it that are used.
    pub size_bytes: u64,
    /// Its units, free and used.
    pub units: u64,
    /// Its free units; null if it gets no writes.
    pub free_units: Option<u64>,
}

/// A disk of a volume is filled or emptied, or every copy is read and mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpkeepStatus {
    /// `fill`, `drain`, `scrub`, `balance` (disks equally full) or `zones` (the contents that are read most move outwards).
    pub kind: String,
    /// Bytes of contents that were examined.
    pub seen_bytes: u64,
    /// Bytes of all contents when it began.
    pub total_bytes: u64,
    /// Copies that were written.
    pub copies_written: u64,
    /// Copies that could not be made right.
    pub copies_lost: u64,
    /// Contents with a copy that a scrub could not read, for its disk is away: they are neither right nor lost.
    pub contents_unknown: u64,
    /// The numbers of these disks in the volume.
    pub disks_away: Vec<u8>,
    /// Reason of its early end; null if it is complete or under way.
    pub error: Option<String>,
}
