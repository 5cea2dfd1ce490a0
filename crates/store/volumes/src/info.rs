//! State of a volume for the operator, and the operator's requests to it.

use std::fmt;
use std::path::PathBuf;

use device::Device;
use storage::grant::WrittenDisks;
use units::{ByteCount, DiskId};
use volume::{AddError, MemberId, MemberState, Upkeep};

use super::SharedCore;
use super::health::LastScrub;
use super::open_disk::VolumeDiskError;
use store::lock::lock;
use store::{DiskGroup, StoreCommon, StoreError, UpkeepReport};

/// A volume that is served.
#[derive(Debug, Clone)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// Layout of contents over its disks: `span`, `stripe` or `mirror`.
    pub layout: &'static str,
    /// Folders with contents in another layout, and that layout.
    pub folders: Vec<(String, &'static str)>,
    /// Bytes of a unit.
    pub unit: ByteCount,
    /// Contents.
    pub contents: usize,
    /// Contents of which a part lies on no disk that is there.
    pub missing_contents: usize,
    /// Contents of which no copy of a part is right, as far as that was found since the start.
    pub damaged_contents: usize,
    /// Room for contents.
    pub free: ByteCount,
    /// Its disks, by their numbers.
    pub disks: Vec<VolumeMemberInfo>,
    /// The upkeep under way (`fill`, `drain`, `balance`, `scrub`), and how far it has come.
    pub upkeep: Option<(&'static str, UpkeepReport)>,
    /// The end of the last one: the reason for which work is left, if any is.
    pub last_upkeep: Option<(&'static str, UpkeepReport, Option<StoreError>)>,
    /// The last scrub since the start.
    pub last_scrub: Option<LastScrub>,
    /// Copies that were moved to another zone of their disk since the start, for the contents read most.
    pub moved_copies: u64,
}

/// A disk of a volume.
#[derive(Debug, Clone)]
pub struct VolumeMemberInfo {
    /// The disk, unless it is gone.
    pub disk: Option<DiskId>,
    /// As it was named.
    pub path: Option<PathBuf>,
    /// `active`; `filling`; `out` if it failed; `left` if it was removed; `missing` if it was away at the start and the volume needs it;
    /// `read only` if it failed and has the only copies of its contents; `failed` if the volume takes no changes since it failed.
    pub state: &'static str,
    /// The failure for which it is out or read only, or for which a copy on it stays wrong, since the start.
    pub failure: Option<StoreError>,
    /// Copies on it that were found wrong since the start.
    pub wrong_copies: u64,
    /// Bytes of it that are used.
    pub size: ByteCount,
    /// Its units, free and used.
    pub units: u64,
    /// Its free units; none for a disk that takes no writes.
    pub free_units: Option<u64>,
}

/// Request to a volume while streams run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeWish {
    /// Read every copy, and write wrong ones anew from the other one.
    Scrub,
    /// Move copies from disks that are fuller than others to these.
    Rebalance,
    /// Move the copies on the disk of this number to the others, and let it go; those of a disk that is out are made from their other
    /// copies.
    Remove(u8),
    /// Take a blank disk in addition to the others.
    Add(PathBuf),
    /// Put a blank disk in the place of the one of this number, and fill it from the other copies.
    Replace(u8, PathBuf),
}

/// Reason for which a volume refuses a request.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// There is none of this name, or no disk of this number.
    #[error("there is no volume of this name, or no such disk of it; /api/v1/volumes lists those there are")]
    Unknown,
    /// One thing at a time.
    #[error(
        "a disk of the volume is being filled or emptied, or it is being scrubbed; /api/v1/volumes says how far that is"
    )]
    Busy,
    /// It is needed for the layout.
    #[error("without this disk too few are left for the volume's layout: add one first")]
    TooFew,
    /// The units on the disk have no copy elsewhere.
    #[error("the volume has one copy of this disk's contents: it can be emptied (`remove`), but not replaced")]
    Needed,
    /// The new disk holds something, or did.
    #[error("the new disk is not blank: `isocast volume replace` checks its contents, and clears it")]
    NotBlank,
    /// The new disk has too few bytes.
    #[error("the new disk is smaller than the {0} bytes of the one it stands in for: choose a larger one")]
    TooSmall(u64),
    /// Disks that come get places at the start.
    #[error(
        "the server has a place for one more disk of each volume, and it is taken: start the server again, then add the next"
    )]
    NoPlace,
    /// It does not fit, or there are as many disks as can be.
    #[error(transparent)]
    Add(#[from] AddError),
    /// The old disk does not let go of the thread that writes to it.
    #[error("the server still waits for the old disk: unplug that, or stop the server and use --fill-later")]
    Hangs,
    /// The new disk cannot be used.
    #[error(transparent)]
    Disk(#[from] VolumeDiskError),
    /// Something else.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A volume that is served, as the store keeps it.
#[derive(Clone)]
pub struct ServedVolume {
    pub(crate) core: SharedCore,
    pub(crate) common: StoreCommon,
}

impl fmt::Debug for ServedVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedVolume").finish_non_exhaustive()
    }
}

impl DiskGroup for ServedVolume {
    fn disks(&self) -> Vec<(DiskId, Device, Vec<PathBuf>)> {
        let core = lock(&self.core);
        let numbered = (0u8..).map(MemberId).zip(&core.live.members.named);
        let stay = numbered.filter(|(member, _)| !core.live.volume.has_left(*member));
        let found = stay.filter_map(|(_, named)| {
            let named = named.as_ref()?;
            named.found.clone().zip(Some(named.path.clone()))
        });
        found.map(|((id, device), path)| (id, device, vec![path])).collect()
    }

    fn written_disks(&self, root: DiskId, name: &str) -> Vec<WrittenDisks> {
        let core = lock(&self.core);
        if core.live.front.id != root {
            return Vec::new();
        }
        let (sets, copies) = core.live.volume.written_disks(name);
        let disk = |member: &MemberId| Some(core.live.members.there[member.index()].as_ref()?.disk);
        sets.iter().map(|members| WrittenDisks::several(root, members.iter().filter_map(disk), copies)).collect()
    }

    /// The contents read most are moved to where the disks are fastest.
    fn note_read(&self, name: &str, bytes: u64) {
        lock(&self.core).note_read(name, bytes);
    }
}

impl ServedVolume {
    /// True if this is its name.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        lock(&self.core).live.volume.superblock().name == name
    }

    /// Its state.
    #[must_use]
    pub fn info(&self) -> VolumeInfo {
        let core = lock(&self.core);
        let superblock = core.live.volume.superblock();
        let members = superblock.members.iter().zip(&core.live.members.there).zip(&core.live.members.named);
        let units = (0u8..).map(MemberId).zip(core.live.volume.free_counts());
        let disks = members.zip(units).map(|(((record, member), named), (number, free_units))| VolumeMemberInfo {
            disk: member.as_ref().map(|member| member.disk),
            path: named.as_ref().map(|named| named.path.clone()),
            state: core.disk_state(number),
            failure: core.live.health.failure(number).cloned().or_else(|| {
                member.as_ref().filter(|_| core.live.health.has_unwritten(number)).map(|member| member.shared.failing())
            }),
            wrong_copies: core.live.health.wrong_copies(number),
            size: ByteCount(record.size),
            units: u64::from(core.live.volume.members().unit_count(number)),
            free_units,
        });
        VolumeInfo {
            name: superblock.name.clone(),
            layout: superblock.placement.name(),
            folders: superblock.folders.iter().map(|(folder, layout)| (folder.clone(), layout.name())).collect(),
            unit: ByteCount(superblock.unit_bytes),
            contents: core.live.volume.len(),
            missing_contents: core.live.volume.unreadable_count(),
            damaged_contents: core.damaged_count(),
            free: ByteCount(core.live.volume.free_bytes()),
            disks: disks.collect(),
            upkeep: core.upkeep.under_way(),
            last_upkeep: core.upkeep.last().cloned(),
            last_scrub: core.live.health.last_scrub(),
            moved_copies: core.upkeep.moved_copies(),
        }
    }

    /// Begins an upkeep; waits for disks where one is replaced. [`ServedVolume::info`] shows how far it has come, and an event reports its
    /// end.
    ///
    /// # Errors
    /// There is no such disk; something is under way; it cannot be done.
    pub fn begin(&self, wish: &VolumeWish) -> Result<(), UpkeepError> {
        match wish {
            VolumeWish::Replace(number, path) => return self.replace(MemberId(*number), path),
            VolumeWish::Add(path) => return self.add(path),
            VolumeWish::Scrub | VolumeWish::Rebalance | VolumeWish::Remove(_) => {}
        }
        let mut core = lock(&self.core);
        let upkeep = match *wish {
            VolumeWish::Remove(number) => {
                let members = &core.live.volume.superblock().members;
                let state = members.get(usize::from(number)).map(|member| member.state);
                if state.is_none_or(|state| state == MemberState::Left) {
                    return Err(UpkeepError::Unknown);
                }
                Upkeep::Drain(MemberId(number))
            }
            VolumeWish::Rebalance => Upkeep::Balance,
            VolumeWish::Scrub | VolumeWish::Replace(..) | VolumeWish::Add(_) => Upkeep::Scrub,
        };
        core.begin_upkeep(upkeep)
    }
}
