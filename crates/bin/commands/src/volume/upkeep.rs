//! Upkeep of a volume that no server has: this process has its disks' threads do it.

use std::path::PathBuf;

use anyhow::bail;
use volumes::{OwnVolume, UpkeepOutcome, VolumeWish};

use super::progress::ProgressLine;

/// Does this upkeep, or the upkeep that the volume's disks demand, and gives its outcome and the bytes that are free then.
pub(super) fn look_after(
    disks: &[PathBuf],
    wish: Option<&VolumeWish>,
    progress: &'static str,
) -> anyhow::Result<(UpkeepOutcome, u64)> {
    let (volume, mut line) = (OwnVolume::open(disks)?, ProgressLine::new(progress));
    let done = volume.look_after(wish, |seen, total| line.show(seen, total))?;
    drop(line);
    match (&done.failed, &done.lost[..]) {
        (Some(error), _) if error.is_full() => {
            bail!("there is no room for all copies: the copies made so far stay; make room, or add a disk, then repeat")
        }
        (Some(_), [name, ..]) => bail!("`{name}` is damaged in every copy: put it in anew or remove it, then repeat"),
        (Some(error), []) => bail!("{error}"),
        (None, _) => Ok((done, volume.served().info().free.0)),
    }
}
