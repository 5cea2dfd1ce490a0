//! The disks that a command opens of a volume.
//!
//! Promise: a command that only reads continues without a disk that cannot be used, as a server does, and prints a line about it; a command
//! that writes does not. Not here: reading and writing (crate `volumes`), the meaning of the bytes (crate `volume`).

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::bail;
use kernel::exclusive;
pub(crate) use kernel::exclusive::Purpose;
use rustix::fs::FlockOperation;
use volume::{MemberId, Volume};
use volumes::{FoundDisks, VolumeDisks};

/// Finds the volume of disks in any order.
pub(super) fn find(paths: &[PathBuf], purpose: Purpose) -> anyhow::Result<FoundDisks> {
    let found = FoundDisks::of(paths, purpose)?;
    let unusable = found.unusable.iter().map(|disk| (&disk.path, disk.why.as_str()));
    let stale = found.stale.iter().map(|(disk, _)| (&disk.path, "it is out of date"));
    for (path, why) in unusable.chain(stale) {
        if purpose == Purpose::Write {
            bail!("{} cannot be used: {why}", path.display());
        }
        tell_left_out(path, why);
    }
    Ok(found)
}

/// Opens the volume that these disks are.
pub(super) fn open(paths: &[PathBuf], purpose: Purpose) -> anyhow::Result<(VolumeDisks, Volume)> {
    let mut found = find(paths, purpose)?;
    let mut volume = found.open()?;
    let disks = found.given.in_order(&found.identified);
    disks.tell_drives(&mut volume);
    if purpose == Purpose::Write {
        disks.write_steps(&found.identified.even_superblocks(volume.members()))?;
    }
    Ok((disks, volume))
}

/// Commands that write need every disk: data on a missing one would be out of date when it comes back.
pub(super) fn refuse_missing(volume: &Volume) -> anyhow::Result<()> {
    let count = volume.superblock().members.len();
    let missing = (0..count).filter_map(|number| u8::try_from(number).ok()).map(MemberId);
    let missing: Vec<u8> = missing
        .filter(|member| !volume.is_writable(*member) && !volume.has_left(*member))
        .map(|member| member.0)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("the disks {missing:?} of the volume are missing: name all of them; reading works without")
}

fn tell_left_out(path: &Path, why: &str) {
    // Ignore errors on stderr.
    let _ = writeln!(io::stderr(), "{} is left out, and counts as missing: {why}", path.display());
}

/// True if another isocast has the disk now.
pub(super) fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| lock(&file).is_err())
}

/// True if another isocast has the disk, and does not let go of it.
pub(super) fn stays_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| exclusive::retry_while_in_use(|| lock(&file)).is_err())
}

fn lock(disk: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(disk, FlockOperation::NonBlockingLockExclusive)?)
}

/// Prints the line by which the configuration of a server names the volume from now on.
pub(super) fn print_configuration(disks: &[PathBuf]) {
    let whole = |disk: &PathBuf| disk.canonicalize().unwrap_or_else(|_| disk.clone()).display().to_string();
    let names: Vec<String> = disks.iter().map(whole).collect();
    // Ignore errors on stderr.
    let _ = writeln!(
        io::stderr(),
        "in the configuration of a server the volume is from now on: volumes = [{:?}]",
        names.join(",")
    );
}
