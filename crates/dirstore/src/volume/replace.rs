//! Another disk comes in the place of one, beside the streams.
//!
//! Promise: only a disk that holds nothing is written to; it has the number and the schedule of the one that goes, and is filled from
//! the other copies. Not here: seeing that nobody needs what was on it (`isocast volume replace` does, and empties it).

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use volume::{MemberId, Upkeep};

use super::core::{Core, Member};
use super::info::ServedVolume;
use super::member_change::{MemberChange, read_whole, take_out};
use super::open::{OpenDisk, VolumeDiskError, open_disk};
use super::part::AlignedBlock;
use super::{MemberWorker, lock};
use crate::StoreError;
use crate::disk::DiskShared;
use crate::grants::GrantPort;
use crate::store::restrict_to;
use crate::upload::index;

/// Bytes at both ends of a disk that must be zero: what a disk holds has its mark there.
const BLANK_BYTES: u64 = 1 << 20;
/// How long the thread of the disk that goes may take to let go of it.
const LEAVE_MAX: Duration = Duration::from_secs(15);

/// The place of a disk that was taken out: what the plane and the store know it by, and the way to its schedule.
pub(super) struct VacantDisk {
    pub(super) shared: Arc<DiskShared>,
    pub(super) port: Box<dyn GrantPort>,
}

/// Why a volume does not do what it is asked for.
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
    /// What is on the disk is nowhere else.
    #[error("the volume has one copy of what is on this disk: it can be emptied (`remove`), but not replaced")]
    Needed,
    /// The new disk holds something, or did.
    #[error("the new disk is not blank: `isocast volume replace` checks what it holds, and clears it")]
    NotBlank,
    /// The new disk has too few bytes.
    #[error("the new disk is smaller than the {0} bytes of the one it stands in for: choose a larger one")]
    TooSmall(u64),
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

impl ServedVolume {
    /// Takes a disk out if it is not, puts the one at `path` in its place, and begins to fill it. Waits for disks.
    pub(super) fn replace(&self, member: MemberId, path: &Path) -> Result<(), UpkeepError> {
        self.check_replacement(member)?;
        let new = open_disk(path)?;
        if !is_blank(&new)? {
            return Err(UpkeepError::NotBlank);
        }
        let needed = lock(&self.core).volume.areas(member).size;
        if new.size < needed {
            return Err(UpkeepError::TooSmall(needed));
        }
        take_out(&self.core, member, &StoreError::Closed);
        let vacant = self.vacant(member)?;
        let file = new.file.try_clone().map_err(StoreError::from)?;
        let change = lock(&self.core).put_in(member, new, &vacant.shared)?;
        change.make_durable(&self.core);
        let (core, cpus) = (Arc::clone(&self.core), self.cpus.clone());
        let VacantDisk { shared, port } = vacant;
        let thread = thread::Builder::new().name(format!("volume-{}", shared.id.0));
        let spawned = thread.spawn(move || {
            restrict_to(&cpus);
            MemberWorker::new(member, core, shared, port, file).run();
        });
        spawned.map_err(StoreError::from)?;
        lock(&self.core).begin_upkeep(Upkeep::Fill(member))
    }

    fn check_replacement(&self, member: MemberId) -> Result<(), UpkeepError> {
        let core = lock(&self.core);
        let is_served = core.members.get(member.index()).is_some_and(Option::is_some);
        if !is_served && !core.vacant.contains_key(&member) {
            return Err(UpkeepError::Unknown);
        }
        if core.upkeep.is_some() {
            return Err(UpkeepError::Busy);
        }
        if is_served && !core.volume.keeps_all_without(member) { Err(UpkeepError::Needed) } else { Ok(()) }
    }

    /// The place of a disk that was taken out, when its thread has let go of it.
    fn vacant(&self, member: MemberId) -> Result<VacantDisk, UpkeepError> {
        let begun = Instant::now();
        while begun.elapsed() < LEAVE_MAX {
            if let Some(vacant) = lock(&self.core).vacant.remove(&member) {
                return Ok(vacant);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(UpkeepError::Hangs)
    }
}

impl Core {
    fn put_in(
        &mut self,
        member: MemberId,
        new: OpenDisk,
        shared: &Arc<DiskShared>,
    ) -> Result<MemberChange, StoreError> {
        let steps = self.volume.put_in(member, new.size).map_err(|error| self.error(error))?;
        self.paths[member.index()] = Some(new.path.clone());
        self.members[member.index()] = Some(Member::new(member, new, Arc::clone(shared)));
        Ok(self.begin_change(steps))
    }
}

/// Whether nothing marks the disk as anybody's.
fn is_blank(disk: &OpenDisk) -> Result<bool, StoreError> {
    let end = disk.size.saturating_sub(BLANK_BYTES) / volume::BLOCK_BYTES * volume::BLOCK_BYTES;
    let mut memory = AlignedBlock::zeroed(index(BLANK_BYTES));
    for start in [0, end] {
        let done = read_whole(&disk.file, start, memory.bytes_mut())?;
        if memory.bytes()[..done].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
